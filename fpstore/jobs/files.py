"""Owns the files that a job writes: those that grow, and those that are replaced as a whole; no link is followed."""

import io
import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fpstore import disk
from fpstore._codec import begin_to_sync
from fpstore.disk import Folder, naming, read_whole, replace_whole
from fpstore.errors import CorruptStore, JobError
from fpstore.jobs._appending import append_bytes, append_lines
from fpstore.ledger import parse_json
from fpstore.text.packed import Packed
from fpstore.types import Bytes, Counts

# What is put together to be written: it stays in the cache of a processor.
_ROOM_BYTES = 1 << 18
# So much is begun to be written to the disk at once.
_BEGUN_BYTES = 1 << 20
# So much of a result stays in the system's cache, for whoever reads a small one next. What comes behind goes past it,
# as it would push out what others read, and pages that are new cost up to 2.7 ns a byte.
_CACHED_BYTES = 1 << 20
# And so much of that is fetched where the job comes to read it after all; of a long result that goes on, not all.
_FETCHED_BYTES = 1 << 27


@contextmanager
def files_of_jobs() -> Iterator[None]:
    """A context in which what is no file or folder that a job made is the job's error, and not that of a store."""
    try:
        yield
    except CorruptStore as error:
        path, error.path = error.path, None
        raise JobError(str(error), path=path) from None


def read_json(folder: Folder, name: str) -> dict[str, Any] | None:
    """The record in a file, None where there is none. Raises JobError for anything else."""
    with files_of_jobs():
        data = read_whole(folder, name)
    if data is None:
        return None
    try:
        record = parse_json(data)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise JobError("found no record of a job, expected a JSON object", path=folder.path / name)
    return record


def write_json(folder: Folder, name: str, record: dict[str, Any]) -> None:
    """Put a record there as a whole, durably."""
    with files_of_jobs():
        replace_whole(folder, name, json.dumps(record).encode())


def look(results: list[Path]) -> list[list[int] | None]:
    """What results look like from outside; changes when they do."""
    found: list[list[int] | None] = []
    for path in results:
        try:
            status = os.lstat(path)
            found.append([status.st_size, status.st_mtime_ns])
        except FileNotFoundError:
            found.append(None)
    return found


class AppendFile:
    """A file that grows; opened at a length, whatever lies behind that is cut off.

    is_read: whether the job itself reads what it appends, which then stays in the system's cache.
    """

    def __init__(self, folder: Folder, name: str, length: int, *, by_umask: bool = False, is_read: bool = True) -> None:
        """by_umask: whom a new one is for follows from the umask, and not from the folder's mode.

        Raises JobError for a file that is shorter, and for what is no regular file.
        """
        self.path = folder.path / name
        self._folder = folder
        self.length = length
        self.is_read = is_read
        self._room: Bytes | None = None
        self._begun = length  # to be written to the disk
        is_new = folder.identity_of(name) is None
        if is_new and by_umask:
            with suppress(FileExistsError), naming(self.path):
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder.fd))
        with files_of_jobs():
            self._fd = folder.open_file(name, os.O_RDWR | (0 if by_umask else os.O_CREAT))
        try:
            found = os.fstat(self._fd).st_size
            if found < length:
                told = f"found {found} bytes, the journal says {length}; --force begins again"
                raise JobError(told, path=self.path)
            with naming(self.path):
                os.ftruncate(self._fd, length)
                os.lseek(self._fd, length, os.SEEK_SET)
            if is_new:
                folder.sync_later()
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes | Bytes) -> None:
        """Append bytes, or an array of them."""
        append_bytes(self._fd, self.path, data, self.length, self._flags)
        self.length += len(data)

    def append_lines(self, lines: Packed[Any], indexes: Counts) -> None:
        """Append those with these indexes, each with a newline behind it where it has none."""
        own = lines.data, lines.offsets, indexes
        self.length += append_lines(self._fd, self.path, *own, self.length, self._flags)

    @property
    def _flags(self) -> int:
        """disk.UNCACHED where what comes next goes past the cache."""
        return disk.UNCACHED if not self.is_read and self.length >= _CACHED_BYTES else 0

    def begin_to_read(self) -> None:
        """The job reads it from now on; the last of what has gone past the cache is fetched, as if it had not."""
        if not self.is_read:
            self.is_read = True
            disk.ask_for(self._fd, max(_CACHED_BYTES, self.length - _FETCHED_BYTES), self.length)

    @property
    def room(self) -> Bytes:
        """Where bytes are put together before they are written."""
        if self._room is None:
            self._room = np.empty(_ROOM_BYTES, dtype=np.uint8)
        return self._room

    def fileno(self) -> int:
        """That of the system; who writes to it by that tells of it in `length`."""
        return self._fd

    def writer(self) -> io.RawIOBase:
        """What writes to it, for those who write to files. Whoever closes that does not close this."""
        return _Writer(self)

    def view(self) -> memoryview:
        """All that was written before, read from the disk as it is looked at."""
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(self._fd, self.length, prot=mmap.PROT_READ) if self.length else b"")

    def begin_to_sync(self) -> None:
        """Have what was appended go to the disk, where it is much, while more is made: sync waits for less then."""
        if self.length - self._begun >= _BEGUN_BYTES:
            begin_to_sync(self._fd, self._begun, self.length - self._begun)
            self._begun = self.length

    def sync(self) -> None:
        """What was written is on the disk when this returns, and the file's name, if it is new."""
        with naming(self.path):
            os.fsync(self._fd)
        self._folder.sync_owed()

    def close(self) -> None:
        """Close it. Harmless when it is closed."""
        fd, self._fd = self._fd, -1  # as Folder.close
        if fd >= 0:
            os.close(fd)


class _Writer(io.RawIOBase):
    def __init__(self, file: AppendFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with memoryview(data) as view:
            self._file.write(bytes(view))
            return view.nbytes
