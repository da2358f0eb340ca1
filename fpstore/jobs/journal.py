"""Owns how a job survives being killed: its folder, its journal, and the files that it writes.

A job writes RESULT has the folder RESULT.job while it runs. What it writes, it appends to files beside the results
that they become; the journal, replaced as a whole after these are on the disk, says how far each of them is good and
from where to go on. Whatever was written after the last journal is cut off when the job goes on.
"""

import contextlib
import errno
import fcntl
import json
import mmap
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fpstore.disk import sync_folder
from fpstore.errors import Error

_JOURNAL = "journal.json"
_NEW_SUFFIX = ".new"
_LOCK = "lock"
_WORK = "work"
_PART_SUFFIX = ".part"
_FINISHED = "finished"


class JobError(Error):
    """A job cannot begin or go on, because of what it finds on the disk."""


class AppendFile:
    """A file that grows; opened at a length, whatever lies behind that is cut off."""

    def __init__(self, path: Path, length: int) -> None:
        """Raises JobError for a file that is shorter."""
        self.path = path
        self.length = length
        is_new = not path.exists()
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", 1 << 20)
        found = self._file.seek(0, os.SEEK_END)
        if found < length:
            self._file.close()
            raise JobError(f"{path}: found {found} bytes, the journal says {length}; --force begins again")
        self._file.truncate(length)
        self._file.seek(length)
        if is_new:
            sync_folder(path.parent)

    def write(self, data: bytes) -> None:
        """Append."""
        self._file.write(data)
        self.length += len(data)

    def view(self) -> memoryview:
        """All that was written before, read from the disk as it is looked at."""
        self._file.flush()
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(self._file.fileno(), self.length, prot=mmap.PROT_READ) if self.length else b"")

    def sync(self) -> None:
        """What was written is on the disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it. Harmless when it is closed."""
        self._file.close()


class Job:
    """A piece of work with results that are files; a context manager, which leaves what was done for another run.

    state: what the job itself has in its journal, None before its first commit. work: a folder for what it needs
    until it ends.
    """

    def __init__(self, results: list[Path], identity: dict[str, Any], inputs: list[Any], *, force: bool) -> None:
        """Begin, or go on with what the journal tells.

        results: the first names the folder. identity: all that the results follow from, for json; inputs: what the
        inputs look like from outside. force: begin again, and write over results that are there. Raises FileExistsError
        for results of another job, ValueError where the journal is that of another command line, JobError where the
        inputs have changed, and where another process is working on it.
        """
        self.results = results
        self.folder = results[0].with_name(f"{results[0].name}.job")
        self.work = self.folder / _WORK
        self.state: dict[str, Any] | None = None
        self._header = {"identity": identity, "inputs": inputs}
        self._files: list[AppendFile] = []
        self._lengths: list[int] = [0] * len(results)
        for path in results:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            if not path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "the file would lie in a folder that is not there", str(path))
        self.folder.mkdir(exist_ok=True)
        self._lock_fd = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._lock()
            self._begin(force)
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(f"{self.folder}: another process is at this job") from None

    def _begin(self, force: bool) -> None:
        journal = self._read()
        if journal is not None and not force:
            self._expect_same(journal)
            self.state, self._lengths = journal["state"], journal["lengths"]
        elif not force:
            for path in self.results:
                if path.exists():
                    self._remove_folder()
                    raise FileExistsError(errno.EEXIST, "already there; --force replaces it", str(path))
        if self.state is None:
            self._forget()
            for path in self.results:
                part_of(path).unlink(missing_ok=True)
            self.work.mkdir()
        if not self.is_finished:
            for path, length in zip(self.results, self._lengths, strict=True):
                self._files.append(AppendFile(part_of(path), length))

    def _read(self) -> dict[str, Any] | None:
        try:
            journal: dict[str, Any] = json.loads((self.folder / _JOURNAL).read_bytes())
        except FileNotFoundError:
            return None
        return journal

    def _expect_same(self, journal: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(self._header))
        advice = "go on with the same, or begin again with --force"
        for name, value in journal["identity"].items():
            if wanted["identity"].get(name) != value:
                found = f"found {name} {wanted['identity'].get(name)!r}, that job has {value!r}"
                raise ValueError(f"{self.folder}: a job was interrupted here: {found}; {advice}")
        for before, now in zip(journal["inputs"], wanted["inputs"], strict=True):
            if before != now:
                raise JobError(f"{self.folder}: a job was interrupted, and {now[0]} has changed; --force begins again")
            if now[1] is None:
                found = "a job was interrupted that read standard input, which cannot be read again"
                raise JobError(f"{self.folder}: {found}; --force begins again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()
        if self.state is None:
            self._remove_folder()  # nothing was done that would be done again
            for path in self.results:
                part_of(path).unlink(missing_ok=True)
        os.close(self._lock_fd)

    @property
    def is_finished(self) -> bool:
        """Whether all was done before, but for what finish does."""
        return self.state is not None and bool(self.state.get(_FINISHED))

    @property
    def files(self) -> list[AppendFile]:
        """One for each result, to append to."""
        return self._files

    def commit(self, state: dict[str, Any]) -> None:
        """Make all that was written durable, and state with it."""
        for file in self._files:
            file.sync()
        lengths = [file.length for file in self._files]
        if self.state is None:
            sync_folder(self.folder.parent)
        write_durably(self.folder / _JOURNAL, json.dumps({**self._header, "state": state, "lengths": lengths}))
        self.state = state

    def commit_last(self, state: dict[str, Any]) -> None:
        """As commit; nothing is left to do but finish."""
        self.commit({**state, _FINISHED: True})

    def finish(self) -> None:
        """Put the results where they belong, and forget the job."""
        for path in self.results:
            with contextlib.suppress(FileNotFoundError):  # where a run before this one did that
                part_of(path).replace(path)
            sync_folder(path.parent)
        shutil.rmtree(self.work, ignore_errors=True)  # while the journal still says that all is done
        self._remove_folder()

    def _forget(self) -> None:
        """Remove the journal first, and then what it speaks of: without a journal there is no job."""
        for name in (_JOURNAL, _JOURNAL + _NEW_SUFFIX):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def _remove_folder(self) -> None:
        self._forget()
        (self.folder / _LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody keeps other things in it
            self.folder.rmdir()


def has_journal(folder: Path) -> bool:
    """Whether a job in folder can go on."""
    return (folder / _JOURNAL).exists()


def write_durably(path: Path, text: str) -> None:
    """Put a file at path as a whole: what was there before, or all of text, whatever happens meanwhile."""
    new = path.with_name(path.name + _NEW_SUFFIX)
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(path)
    sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """Where a result is until all of it is there."""
    return path.with_name(path.name + _PART_SUFFIX)
