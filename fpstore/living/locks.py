"""Who may write to a store and when: the lock of its one writer, and the gates at which it waits for readers.

All of them are the kernel's, of open files and not of processes: they end with their holder, however it dies, and two
containers whose processes have equal numbers do not mistake each other.

Gates. With no table of readers, LMDB's transaction T writes to pages that no snapshot after T - 3 needs, and to no
others. So a reader of snapshot S holds gate S % 3, shared, and before T begins the writer looks that nobody holds the
gate of T - 3: it waits for readers that two commits overtook, and for no others.

Measured beside 20,000 additions of one row, with 8 readers that probe all the time and are killed at random (2 cores,
tmpfs, two runs each): LMDB's table of readers left a catalog of 393 and 405 MiB after 33 and 31 s, the gates one of
1.05 MiB after 30 and 34 s.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from fpstore.disk import CATALOG_NAME, FileIdentity, Folder
from fpstore.errors import CorruptStore, StoreChanged, StoreLocked
from fpstore.file_locks import FLOCK, is_free

WRITER_LOCK_NAME = "writer.lock"

# How long a writer waits for a reader. One is inside for some milliseconds, unless it was stopped there.
GATE_WAIT_S = 30.0
GATE_LOOK_S = 0.0001, 0.005
MAX_ATTEMPTS = 8

_GATES = 3
# Single bytes of the catalog's file, far behind its end: one for each gate, one for the writer. Nothing is ever stored
# there.
_PLACE = 1 << 62
_WRITER = _GATES


def _requests(kind: int) -> list[bytes]:
    return [FLOCK.pack(kind, os.SEEK_SET, _PLACE + place, 1, 0) for place in range(_GATES + 1)]


_SHARED, _EXCLUSIVE, _NONE = _requests(fcntl.F_RDLCK), _requests(fcntl.F_WRLCK), _requests(fcntl.F_UNLCK)


# --- Gates --------------------------------------------------------------------------------------------------


def enter(fd: int, transaction: int) -> None:
    """Hold the gate of the snapshot that transaction made. fd: of the catalog's file, open for reading or more.

    The writer may have looked just before: one who enters looks again whether that is still the newest snapshot.
    """
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _SHARED[transaction % _GATES])


def leaving(fd: int, transaction: int) -> Callable[[], object]:
    """What lets go of the gate that enter takes; of one that was not taken it changes nothing.

    It is made before, and compiled: no interruption comes between a call of it and what it does.
    """
    return partial(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, _NONE[transaction % _GATES])


def wait_for_overtaken(fd: int, transaction: int, path: Path) -> None:
    """Wait until nobody reads a snapshot whose pages the writer's next transaction, of this number, may write to.

    Raises StoreLocked after GATE_WAIT_S.
    """
    gate = _EXCLUSIVE[transaction % _GATES]  # that of transaction - 3
    if is_free(fd, gate):
        return
    started, (pause, longest) = time.monotonic(), GATE_LOOK_S
    while not is_free(fd, gate):
        waited = time.monotonic() - started
        if waited > GATE_WAIT_S:
            told = f"a reader has been inside for {waited:.0f} s, two commits behind"
            raise StoreLocked(f"{told}; expected it to leave: nothing was written", path=path)
        time.sleep(pause)
        pause = min(2 * pause, longest)


# --- The one writer -----------------------------------------------------------------------------------------


class WriterLock:
    """Held by the one writer of a store: on writer.lock, and on the catalog's file, should that one be removed.

    It ends with the object too, if whoever was to release it was interrupted.
    """

    def __init__(self, folder: Folder) -> None:
        """Made by lock_writer."""
        self._folder = folder
        self._catalog_path = f"{folder.path}/{CATALOG_NAME}"
        self._held: dict[str, tuple[FileIO, FileIdentity]] = {}
        self._has_number = False
        self._unsynced = False

    def check(self) -> None:
        """Raises StoreChanged unless the store's path still leads to its folder, and the names there to these files."""
        if not self._folder.is_at(self._folder.path):
            raise StoreChanged(f"another folder is there, or none; {_EXPECTED}", path=self._folder.path)
        for name, (_, identity) in self._held.items():
            if self._folder.identity_of(name) != identity:
                raise StoreChanged(f"another file is there, or none; {_EXPECTED}", path=self._folder.path / name)
        if self._unsynced:
            self._folder.sync()
            self._unsynced = False

    def check_catalog(self) -> None:
        """Raises StoreChanged unless the store's path still leads to this catalog: what is to change nothing else."""
        try:
            status = os.stat(self._catalog_path, follow_symlinks=False)
            there = (status.st_dev, status.st_ino) == self._held[CATALOG_NAME][1]
        except OSError:
            there = False
        if not there or self._unsynced:
            self.check()

    def move_catalog(self, temporary: str) -> None:
        """Put the file of that name in the catalog's place; the lock is on it before anybody can come by it.

        When it returns that is durable. Where it is not, OSError, and check raises it until it is.
        """
        self.check()
        file = FileIO(self._folder.open_file(temporary, os.O_RDWR))
        left: FileIO | None = file
        try:
            if not _try_lock(file.fileno(), CATALOG_NAME):
                raise self._taken(file.fileno())
            self._folder.rename(temporary, CATALOG_NAME)
        finally:  # a rename can fail when it is done
            identity = _identity(file.fileno())
            if self._folder.identity_of(CATALOG_NAME) == identity:
                self._unsynced = True
                left, _ = self._held.get(CATALOG_NAME, (None, None))
                self._held[CATALOG_NAME] = (file, identity)
            if left is not None:
                left.close()
        self.check()

    def release(self) -> None:
        """Let another become the writer; may be called again."""
        _locks.discard(self)
        while self._held:
            name, (file, _) = [*self._held.items()][-1]
            if not file.closed:
                self._unlock(name, file.fileno())
                file.close()
            self._held.pop(name, None)  # once it is closed: who is interrupted before that comes again

    def _unlock(self, name: str, fd: int) -> None:
        """Explicitly, for a child of this process may have a copy of the descriptor."""
        if name == WRITER_LOCK_NAME:
            if self._has_number:
                with contextlib.suppress(OSError):  # the number in it is for people
                    os.ftruncate(fd, 0)
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _NONE[_WRITER])

    def forget(self) -> None:
        """In a fork: what was inherited is the parent's."""
        while self._held:
            self._held.popitem()[1][0].close()

    def _acquire(self) -> None:
        fd = self._open_held(WRITER_LOCK_NAME, os.O_RDWR | os.O_CREAT)
        with contextlib.suppress(FileNotFoundError):  # one that is to be made
            self._open_held(CATALOG_NAME, os.O_RDWR)
        # What else is in it somebody else wrote: it may be a hard link of his file, and serves as a lock as well.
        written = os.pread(fd, _NUMBER_BYTES + 1, 0)
        if len(written) <= _NUMBER_BYTES and (not written or written.strip().isdigit()):
            self._has_number = True
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        # A name that another writer gave and could not make durable: what is written now must not go with it.
        self._folder.sync()

    def _open_held(self, name: str, flags: int) -> int:
        """A descriptor with the lock of the file of that name, which no other file has taken the place of."""
        for _ in range(MAX_ATTEMPTS):
            file = FileIO(self._folder.open_file(name, flags))
            try:
                fd = file.fileno()
                if not _try_lock(fd, name):
                    raise self._taken(fd)
                identity = _identity(fd)
                if self._folder.identity_of(name) == identity:
                    self._held[name] = (file, identity)
                    return fd
            except BaseException:
                file.close()
                raise
            file.close()
        raise StoreChanged(f"another file came in its place {MAX_ATTEMPTS} times", path=self._folder.path / name)

    def _taken(self, fd: int) -> StoreLocked:
        identity = _identity(fd)
        if any(identity == own for lock in _locks if lock is not self for _, own in lock._held.values()):
            return StoreLocked("this process has it open for writing already", pid=os.getpid(), path=self._folder.path)
        pid = _number_in(self._folder)
        who = "another process" if pid is None else f"process {pid}"
        return StoreLocked(f"{who} is writing to this store", pid=pid, path=self._folder.path)


_EXPECTED = "expected the store that was opened: nothing was written"
# Of a process, and the end of a line.
_NUMBER_BYTES = 20
# All that this process holds.
_locks: "WeakSet[WriterLock]" = WeakSet()


def lock_writer(folder: Folder) -> WriterLock:
    """Become the one writer of the store in folder, which must stay open as long as the lock is held.

    Raises StoreLocked if another is, here or in another process.
    """
    lock = WriterLock(folder)
    _locks.add(lock)
    try:
        lock._acquire()
    except BaseException:
        lock.release()
        raise
    return lock


class AWriter(NamedTuple):
    """Who writes to a store. pid: the number that it gave of itself, which is that of its container; None for none."""

    pid: int | None


def find_writer(folder: Folder) -> AWriter | None:
    """The writer that the store in folder has just now, None where it has none; takes no lock."""
    with contextlib.suppress(FileNotFoundError):
        fd = folder.open_file(CATALOG_NAME)
        try:
            return None if is_free(fd, _SHARED[_WRITER]) else AWriter(_number_in(folder))
        finally:
            os.close(fd)
    return None


def _number_in(folder: Folder) -> int | None:
    """The process number that the writer's lock holds, None where there is none in it."""
    writer = b""
    with contextlib.suppress(OSError, CorruptStore):
        fd = folder.open_file(WRITER_LOCK_NAME)
        writer = os.pread(fd, _NUMBER_BYTES, 0)
        os.close(fd)
    return int(writer) if writer.strip().isdigit() else None


@contextlib.contextmanager
def no_writer(folder: Folder) -> Iterator[None]:
    """A context in which no writer begins; for one who only reads, and makes and changes nothing.

    Raises StoreLocked while there is a writer.
    """
    with contextlib.ExitStack() as held:
        for name in (WRITER_LOCK_NAME, CATALOG_NAME):
            with contextlib.suppress(FileNotFoundError, CorruptStore):
                fd = folder.open_file(name)
                held.callback(os.close, fd)
                if not _try_lock(fd, name, shared=True):
                    raise StoreLocked(
                        "it has a writer, which would go on meanwhile", pid=_number_in(folder), path=folder.path
                    )
        yield


def _try_lock(fd: int, name: str, *, shared: bool = False) -> bool:
    try:
        if name == WRITER_LOCK_NAME:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        else:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, (_SHARED if shared else _EXCLUSIVE)[_WRITER])
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _identity(fd: int) -> FileIdentity:
    status = os.fstat(fd)
    return FileIdentity(status.st_dev, status.st_ino)


def _after_fork_in_child() -> None:
    # Or the store stays locked when the parent is gone.
    for lock in _locks:
        lock.forget()
    _locks.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
