"""Owns the files that tasks hand over: parts, of sorted rows, which name the job and the task that made them.

A part is written under a name of its own, synced and then renamed: whoever reads it finds all of it, whichever of
several writers was the last, and whatever ended the others. docs/format.md has its bytes.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import IO, Any

import numpy as np

from fpstore._codec import crc32c
from fpstore.disk import NEW_SUFFIX, Folder, Place, naming
from fpstore.errors import JobError, PathLike
from fpstore.merging import Columns, are_in_order
from fpstore.types import Keys

MAGIC = b"fppart01"
# Of a block, which is what a reader holds of each run: 384 KiB with ids.
BLOCK_ROWS = 1 << 14
# What a part ends with: how many bytes its footer has, and the checksum of these.
_TAIL = struct.Struct("<QI8s")
_MAX_FOOTER_BYTES = 1 << 28
_WORD_BYTES = 8
# What a writer calls a file until all of it is there ends so: in a number of the writer's own, and NEW_SUFFIX.
_OWN_ENDING = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(NEW_SUFFIX)}\Z")


@dataclass(frozen=True)
class Maker:
    """Who makes a part: a job, by its name, and the number of one of its tasks."""

    job: str
    task: int

    @property
    def name(self) -> str:
        """What the part is called."""
        return f"{self.task:05d}.part"


@contextmanager
def whole_file(folder: Folder, name: str, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A file to write to, which gets its name, durably, when all of it is there; several may write it at once.

    durable: where not, nobody waits for the disk: after a power cut there may be any part of it under the name.
    """
    own, fd = _fresh(folder, name)
    failure: OSError | None = None
    try:
        with naming(folder.path / own), os.fdopen(fd, "wb") as file:  # which writes also when it is closed
            try:
                yield file
            except OSError as error:
                if error.filename is None:
                    raise
                failure = error  # of another file, such as one that is read meanwhile, which keeps its name
            else:
                file.flush()
                if durable:
                    os.fsync(fd)
                folder.rename(own, name)  # while it is open, and so locked
        if failure is not None:
            raise failure
    except BaseException:
        folder.unlink(own, missing_ok=True)
        raise
    if durable:
        folder.sync()


def _fresh(folder: Folder, name: str) -> tuple[str, int]:
    """A file of one writer, by its name and open: locked for as long as that is, so that nobody sweeps it away."""
    while True:
        own = f"{name}.{secrets.token_hex(8)}{NEW_SUFFIX}"
        fd = folder.open_file(own, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with contextlib.suppress(OSError):  # where a shared file system has no locks, nothing is swept away
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return own, fd
        os.close(fd)  # swept away before it was locked


@contextmanager
def own_place(folder: Folder, name: str) -> Iterator[Place]:
    """A place for a file that somebody else makes, and makes durable; it gets its name when that is done.

    Until then it is in a folder of its own, which is locked, and so not swept away whoever has the file open.
    """
    with _fresh_folder(folder, name) as own:
        try:
            yield Place(own, name)
            own.rename(name, name, folder)
        finally:
            shutil.rmtree(own.path.name, ignore_errors=True, dir_fd=folder.fd)
    folder.sync()


def _fresh_folder(folder: Folder, name: str) -> Folder:
    """As _fresh, a folder."""
    while True:
        with contextlib.suppress(FileNotFoundError):  # swept away before it was open
            made = folder.create(f"{name}.{secrets.token_hex(8)}{NEW_SUFFIX}")
            with contextlib.suppress(OSError):
                fcntl.flock(made.fd, fcntl.LOCK_EX)
            if folder.identity_of(made.path.name) == made.identity:
                return made
            made.close()  # or before it was locked


def is_half_written(name: str) -> bool:
    """Whether a file is called as `whole_file` calls what it is at work on; "draft.new" is somebody else's."""
    return _OWN_ENDING.search(name) is not None


def sweep(folder: Folder) -> None:
    """Remove what writers of `whole_file` left that were killed; what one is at work on stays."""
    for name in folder.names():
        if not is_half_written(name):
            continue
        try:
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode)
            fd = folder.inside(name).fd if is_folder else folder.open_file(name)
        except FileNotFoundError:
            continue  # it has its name by now
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass  # someone is at work on it, or there are no locks
        else:
            if is_folder:
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder.fd)
            else:
                folder.unlink(name, missing_ok=True)
        finally:
            os.close(fd)


def write_part(folder: Folder, maker: Maker, columns: int, runs: Iterable[Iterable[Columns]]) -> int:
    """Write the part of its maker; how many rows it has. runs: each sorted, of so many columns of uint64, in chunks."""
    with whole_file(folder, maker.name) as file:
        return write_runs(file, maker, columns, runs)


def write_runs(
    file: IO[bytes], maker: Maker, columns: int, runs: Iterable[Iterable[Columns]], told: list[Any] | None = None
) -> int:
    """What write_part writes, to an open file. told: what else the task has to say, as JSON, once the runs are read."""
    described = [[_write_block(file, block) for chunk in run for block in _blocks(chunk)] for run in runs]
    footer = {"job": maker.job, "task": maker.task, "columns": columns, "runs": described}
    write_footer(file, footer if told is None else footer | {"told": told}, MAGIC)
    return sum(rows for run in described for rows, _ in run)


def write_footer(file: IO[bytes], record: dict[str, Any], magic: bytes) -> None:
    """The end of a file that `Sealed` reads."""
    footer = json.dumps(record).encode()
    file.write(footer + _TAIL.pack(len(footer), crc32c(footer), magic))
    file.flush()


def _blocks(chunk: Columns) -> Iterator[Columns]:
    for first in range(0, len(chunk[0]), BLOCK_ROWS):
        yield [column[first : first + BLOCK_ROWS] for column in chunk]


def _write_block(file: IO[bytes], block: Columns) -> tuple[int, int]:
    data = b"".join(column.astype("<u8", copy=False).tobytes() for column in block)
    file.write(data)
    return len(block[0]), crc32c(data)


class Sealed(ABC):
    """A file of blocks that ends with a footer and the checksum of that, open for reading."""

    def __init__(self, fd: int, path: PathLike, magic: bytes) -> None:
        """Read the footer. JobError for what is no such file, for a damaged one, and for one that is not expected."""
        self._fd, self._path = fd, path
        try:
            self._read_footer(magic)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _take(self, footer: Any, end: int) -> None:
        """Look at the footer, which begins at end. KeyError, TypeError and ValueError for no such; JobError."""

    def close(self) -> None:
        """Let go of the file; may be called again."""
        fd, self._fd = self._fd, -1  # as Folder.close
        if fd >= 0:
            os.close(fd)

    def _read_footer(self, expected: bytes) -> None:
        size = os.fstat(self._fd).st_size
        if size < _TAIL.size:
            raise self._damaged("the file", f"{size} bytes", f"at least {_TAIL.size}")
        footer_bytes, crc, magic = _TAIL.unpack(self._read(size - _TAIL.size, _TAIL.size))
        if magic != expected:
            raise self._damaged("its last bytes", repr(magic), repr(expected))
        if footer_bytes > min(size - _TAIL.size, _MAX_FOOTER_BYTES):
            raise self._damaged("the footer", f"{footer_bytes} bytes", f"at most {size - _TAIL.size}")
        start = size - _TAIL.size - footer_bytes
        footer = self._read(start, footer_bytes)
        if crc32c(footer) != crc:
            raise self._damaged("the footer", "another checksum", "its own")
        try:
            self._take(json.loads(footer), start)
        except (KeyError, RecursionError, TypeError, ValueError):
            raise self._damaged("the footer", f"{footer[:40]!r}", "what a task writes") from None

    def _read_sealed(self, offset: int, length: int, crc: int) -> bytearray:
        """The bytes of a block."""
        data = bytearray(length)
        self._read_sealed_into([memoryview(data)], offset, crc)
        return data

    def _read_sealed_into(self, places: Sequence[memoryview], offset: int, crc: int) -> None:
        """The same, to places one after the other, which have as many bytes."""
        self._expect_read(offset, os.preadv(self._fd, places, offset), sum(map(len, places)))
        if reduce(lambda so_far, place: crc32c(place, so_far), places, 0) != crc:
            raise self._damaged(f"a block at {offset}", "another checksum", "its own")

    def _read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        self._expect_read(offset, len(data), length)
        return data

    def _expect_read(self, offset: int, found: int, expected: int) -> None:
        if found != expected:
            raise self._damaged(f"bytes from {offset} on", f"{found}", expected)

    def _damaged(self, where: str, found: object, expected: object) -> JobError:
        told = f"{where}: found {found}, expected {expected}; remove the file, and its task makes it anew"
        return JobError(told, path=self._path)


class Part(Sealed):
    """A part open for reading; close it when its runs are done with. told: what else its task says, if it does.

    row_count: of all runs.
    """

    told: Any
    row_count: int

    def __init__(self, fd: int, path: PathLike, maker: Maker, columns: int) -> None:
        """As Sealed; the part of its maker, of so many columns, is expected."""
        self._maker, self._columns = maker, columns
        super().__init__(fd, path, MAGIC)

    @classmethod
    def open(cls, folder: Folder, maker: Maker, columns: int) -> "Part":
        """The part of its maker in the folder. FileNotFoundError, and what __init__ raises."""
        return cls(folder.open_file(maker.name), folder.path / maker.name, maker, columns)

    def runs(self) -> "list[Run]":
        """What it has, to be merged."""
        found, offset = [], 0
        for blocks in self._runs:
            found.append(Run(self, offset, blocks))
            offset += sum(rows for rows, _ in blocks) * self._columns * _WORD_BYTES
        return found

    def read_block(self, offset: int, rows: int, crc: int, before: Columns) -> list[Keys]:
        """The columns of the block that begins there. before: the last row of the run before it, if there is one."""
        data = self._read_sealed(offset, rows * self._columns * _WORD_BYTES, crc)
        every = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
        found = list(every.reshape(self._columns, rows))
        if not are_in_order(found) or (before and not are_in_order([*map(_joined, before, found)])):
            raise self._damaged(f"a block at {offset}", "rows in no order", "those of a run, in order")
        return found

    def _take(self, footer: Any, end: int) -> None:
        """The blocks of each run, of rows and checksum each."""
        maker = self._maker
        found = footer["job"], footer["task"], footer["columns"]
        if found != (maker.job, maker.task, self._columns):
            told = "found the part of job {!r:.40}, task {!r:.20}, of {!r:.20} columns".format(*found)
            raise JobError(f"{told}; expected job {maker.job}, task {maker.task}, {self._columns}", path=self._path)
        runs = [[(rows, crc) for rows, crc in run] for run in footer["runs"]]
        counts = [rows for run in runs for rows, _ in run]
        held = sum(counts) * self._columns * _WORD_BYTES
        if held != end or not all(type(rows) is int and 0 < rows <= BLOCK_ROWS for rows in counts):
            raise self._damaged("the footer", f"{len(counts)} blocks of {held} bytes", end)
        self._runs, self.told, self.row_count = runs, footer.get("told"), sum(counts)

    def untold(self) -> JobError:
        """The error for what is not told as it has to be."""
        return self._damaged("told", f"{self.told!r:.40}", "what the task has met")


class Run:
    """Sorted rows of a part, of which a block is held: a source for `merging.merged`."""

    def __init__(self, part: Part, offset: int, blocks: Sequence[tuple[int, int]]) -> None:
        self._part, self._offset, self._blocks = part, offset, list(blocks)[::-1]
        self.held: Columns = (np.empty(0, dtype=np.uint64),)
        self.ended = not blocks
        self._last: Columns = ()

    def refill(self) -> None:
        """Read the next block where nothing is held."""
        if not len(self.held[0]) and self._blocks:
            rows, crc = self._blocks.pop()
            self.held = self._part.read_block(self._offset, rows, crc, self._last)
            self._last = [column[-1:] for column in self.held]
            self._offset += rows * len(self.held) * _WORD_BYTES
            self.ended = not self._blocks


def _joined(before: Keys, found: Keys) -> Keys:
    return np.concatenate([before, found[:1]])
