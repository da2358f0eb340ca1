"""LMDB, kept safe: one environment for each file and process, in which no reader is in a writer's way for long.

Keeper of LMDB: no other module imports it. It does not notice damage to its file, so the file is checked
before LMDB reads it, and those who read records check them. None of its errors leaves this module as it is.
"""

import contextlib
import errno
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import lmdb
from lmdb.verify import VerifyError, verify

from fpstore._tail import Tail
from fpstore._watch import MappedWords
from fpstore.closing import close_all
from fpstore.disk import CATALOG_NAME, FileIdentity, Folder
from fpstore.errors import CorruptStore, StoreChanged, StoreClosed
from fpstore.living import locks
from fpstore.living.header import Header, HeaderFile
from fpstore.threads import expect_outside, is_inside

T = TypeVar("T")
Transaction: TypeAlias = "lmdb.Transaction[bytes]"
# A key and what is under it.
Record: TypeAlias = tuple[bytes, bytes]
# Is called with what makes a database of that name, and the transaction.
Creation: TypeAlias = Callable[[Callable[[bytes], Any], Transaction], object]

UNFINISHED_NAME = f"{CATALOG_NAME}.new"
MAX_DATABASES = 16  # more than there are
# The file is always extended to the size of the map, sparsely: LMDB may count pages past the last one that
# it wrote, and "every page that it counts lies inside the file" has to be true of every healthy file.
MAP_BYTES = 256 << 10
# What LMDB keeps of a database, under its name in the main one.
DATABASE_BYTES = 48
MAX_ATTEMPTS = 8
# Each time that a reader has to look again, a writer has committed.
MAX_LOOKS = 1000
# LMDB opens files by their names. By this one it gets the very file that is open here, whatever happened to its name.
OPEN_FILES = "/proc/self/fd"


class _Overtaken(Exception):
    """A commit came between: what was looked at is not the newest snapshot any more."""


class Environment:
    """The one LMDB environment that this process has for a file, whoever asked for it.

    LMDB forbids a second one, and any use after a fork. So all that is open is closed before a fork, and opened
    again when next used; transactions are short and take turns. LMDB keeps no table of readers here: the gates of
    locks are in its place, for which nobody needs write access.
    """

    def __init__(self, path: Path, fd: int) -> None:
        """Made by share(). Owns fd; as long as it is open no other file has this one's identity."""
        self.path = path
        self.file_identity = _identity(fd)
        self.lock = threading.RLock()
        self.users = 0
        self._fd = fd
        # What closes it when nobody has this any more, however their closing was interrupted.
        self._own = FileIO(fd)
        self._mapped_bytes = 0
        self._writable = False
        self._file = HeaderFile(path, fd)
        self._lmdb: lmdb.Environment | None = None
        self._tail: Tail | None = None

    def close(self) -> None:
        """Close LMDB until the next run. The caller holds the lock."""
        # First not to be had: an interruption comes when a call has ended, and would leave one that is closed.
        environment, self._lmdb = self._lmdb, None
        if environment is not None:
            environment.close()

    def close_file(self) -> None:
        """For good. The caller holds the lock."""
        self._fd = -1
        close_all(self.close, self._own.close)

    @property
    def is_inside(self) -> bool:
        """Whether this thread runs something in it."""
        return is_inside(self.lock)

    def is_at(self, folder: Folder, name: str) -> bool:
        """Whether that name in folder still leads to this file."""
        return folder.identity_of(name) == self.file_identity

    def run(self, work: Callable[[Transaction], T], write: bool = False, more_bytes: int = 0) -> T:
        """The result of work in a transaction of its own, committed.

        write: for the holder of the writer's lock alone. more_bytes: at most so much is written; there is room for it
        before the transaction begins. work may be called again from the start where the map has to grow all the same.
        Raises CorruptStore or OSError, and StoreLocked where a reader keeps the writer waiting.
        """
        expect_outside(self.is_inside)
        with self.lock, _Explained(self.path, self._fd):
            for _ in range(MAX_ATTEMPTS):
                try:
                    return self._write(work, more_bytes) if write else self._read(work)
                except lmdb.MapFullError:
                    self._grow(2 * os.fstat(self._fd).st_size)
                except lmdb.MapResizedError:
                    if self._lmdb is not None:
                        self._lmdb.set_mapsize(os.fstat(self._fd).st_size)
                except lmdb.PanicError:
                    # An earlier commit failed in the header; this environment will never work again, a new
                    # one reads what the file says.
                    self.close()
        raise OSError(errno.EAGAIN, f"no transaction after {MAX_ATTEMPTS} attempts", str(self.path))

    def _read(self, work: Callable[[Transaction], T]) -> T:
        environment = self._open()

        def look(header: Header) -> T:
            with environment.begin() as transaction:
                # LMDB reads the number first and where it leads a moment later: the writer may have begun to
                # write the same meta page anew. From here on it cannot touch what that leads to.
                if transaction.id() == header.transaction and self._file.still_says(header):
                    return work(transaction)
            raise _Overtaken

        return self._inside(look)

    def _inside(self, look: Callable[[Header], T]) -> T:
        """What look returns inside the gate of the newest snapshot; _Overtaken, if it finds that there is a newer."""
        for _ in range(MAX_LOOKS):
            header = self._file.check()
            if header.file_bytes != self._mapped_bytes:
                self._tail = None
            leave = locks.leaving(self._fd, header.transaction)
            try:
                locks.enter(self._fd, header.transaction)
                return look(header)
            except _Overtaken:
                continue
            finally:
                leave()
        raise OSError(errno.EAGAIN, f"overtaken by {MAX_LOOKS} commits", str(self.path))

    def _write(self, work: Callable[[Transaction], T], more_bytes: int) -> T:
        if not self._writable:
            self._make_writable()
        header = self._file.check()
        number = header.transaction + 1
        locks.wait_for_overtaken(self._fd, number, self.path)
        environment = self._open()
        if more_bytes:
            self._reserve(header, more_bytes)
        with environment.begin(write=True) as transaction:
            if transaction.id() != number:
                told = f"found transaction {transaction.id()}, expected {number}: another wrote"
                raise StoreChanged(told, path=self.path)
            return work(transaction)

    def database(self, name: bytes | None, transaction: Transaction) -> Any:
        """A database of the file, None for the main one, for use in transaction, which comes from run."""
        assert self._lmdb is not None, "run has it open"
        return self._lmdb.open_db(name, txn=transaction, create=False)

    def bytes_used(self, names: Iterable[bytes | None], transaction: Transaction) -> tuple[int, int]:
        """How many bytes of the file LMDB counts as used, and how many the databases of these names take of them."""
        assert self._lmdb is not None, "run has it open"
        tables = [transaction.stat(self.database(name, transaction)) for name in names]
        pages = sum(stat[kind] for stat in tables for kind in ("branch_pages", "leaf_pages", "overflow_pages"))
        page_bytes = self._lmdb.stat()["psize"]
        return (self._lmdb.info()["last_pgno"] + 1) * page_bytes, pages * page_bytes

    def stamp(self) -> tuple[int, int] | None:
        """What changes with every commit: the transactions of both meta pages; None where the file was cut short."""
        return self.words.read()

    @property
    def words(self) -> MappedWords:
        """Those transactions, as they lie in the file."""
        return self.tail.words

    @property
    def tail(self) -> Tail:
        """What reads the end of the log as it lies in the file."""
        if self._tail is None:
            self._tail = self._map()
        return self._tail

    def _map(self) -> Tail:
        with self.lock, _Explained(self.path, self._fd):
            header = self._file.check()
            mapping = mmap.mmap(self._fd, header.file_bytes, access=mmap.ACCESS_READ)
        self._mapped_bytes = header.file_bytes
        return Tail(MappedWords(mapping, *header.transaction_offsets), header.page_bytes)

    def _open(self) -> "lmdb.Environment":
        if self._lmdb is None:
            _check_pages(self._inside(self._copied), self.path)
            with _named(self._fd, self.path) as name:
                self._lmdb = _open_lmdb(name, os.fstat(self._fd).st_size, readonly=not self._writable)
        return self._lmdb

    def _copied(self, header: Header) -> int:
        """A descriptor of a copy of the newest snapshot's pages: to check them takes longer than a gate is held."""
        if self._file.check().transaction != header.transaction:
            raise _Overtaken
        copy = os.memfd_create("catalog")
        try:
            os.ftruncate(copy, header.file_bytes)
            # Both meta pages as they were checked; the writer may be at one of them.
            at = os.write(copy, self._file.head[: 2 * header.page_bytes])
            while at < header.used_bytes and (count := os.sendfile(copy, self._fd, at, header.used_bytes - at)):
                at += count
        except BaseException:
            os.close(copy)
            raise
        return copy

    def _make_writable(self) -> None:
        with _named(self._fd, self.path) as name:
            fd = os.open(name, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.close()
            os.dup2(fd, self._fd, inheritable=False)
        finally:
            os.close(fd)
        self._writable = True

    def _reserve(self, header: Header, more_bytes: int) -> None:
        if more_bytes > header.file_bytes - header.used_bytes:
            self._grow(max(2 * header.file_bytes, header.used_bytes + 2 * more_bytes))

    def _grow(self, map_bytes: int) -> None:
        # The file first: at no moment may LMDB count pages that are not in it.
        map_bytes = whole_maps(map_bytes)
        _extend(self._fd, map_bytes)
        if self._lmdb is not None:
            self._lmdb.set_mapsize(map_bytes)


def copy_records(transaction: Transaction, database: Any, first: bytes) -> list[Record]:
    """The records of a database in the order of their keys, from the first on that is not below."""
    with transaction.cursor(db=database) as cursor:
        return list(cursor) if cursor.set_range(first) else []


def create(folder: Folder, name: str, map_bytes: int, work: Creation) -> None:
    """Make an LMDB file of that name in one transaction, closed and durable at the end.

    work is called with what makes a database of that name, and the transaction. Raises OSError.
    """
    path = folder.path / name
    fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with _Explained(path, fd), _named(fd, path) as opened:
            with _open_lmdb(opened, map_bytes) as environment, environment.begin(write=True) as transaction:
                work(lambda database: environment.open_db(database, txn=transaction), transaction)
            _extend(fd, map_bytes)
    finally:
        os.close(fd)


def replace(folder: Folder, lock: locks.WriterLock, map_bytes: int, work: Creation) -> None:
    """Make the catalog's file of the store in folder anew, as create does, and put it in the place of the old, if any.

    It is there whole and durable, with the writer's lock on it, or not at all. Raises OSError, and StoreChanged where
    the old one is not the writer's. Who has that one open goes on with it, this process too: share gives the new one.
    """
    remove_unfinished(folder)
    try:
        create(folder, UNFINISHED_NAME, map_bytes, work)
        lock.move_catalog(UNFINISHED_NAME)
    finally:
        remove_unfinished(folder)


def remove_unfinished(folder: Folder) -> None:
    """Remove what a process left that died in replace. For the holder of the writer's lock alone."""
    folder.unlink(UNFINISHED_NAME, missing_ok=True)


def whole_maps(size: int) -> int:
    """The size of a map that holds so many bytes."""
    return -(-size // MAP_BYTES) * MAP_BYTES


@contextlib.contextmanager
def _named(fd: int, path: Path) -> Iterator[str]:
    """A name by which the file that fd is open for can be opened again. path: what it is called."""
    name = f"{OPEN_FILES}/{fd}"
    if os.path.exists(name):
        yield name
        return
    # Where no such names are: its own, which must be its own before and after.
    _expect_at(path, fd)
    yield os.fspath(path)
    _expect_at(path, fd)


def _expect_at(path: Path, fd: int) -> None:
    status = path.lstat()
    if FileIdentity(status.st_dev, status.st_ino) != _identity(fd):
        raise StoreChanged("another file is there, expected the one that was opened", path=path)


def _open_lmdb(name: str, map_bytes: int, readonly: bool = False) -> "lmdb.Environment":
    return lmdb.open(
        name,
        map_size=map_bytes,
        subdir=False,
        readonly=readonly,
        # Neither its table of readers, for which all of them need write access, and which processes of equal numbers
        # cannot share, nor its lock of the writer: locks keeps both.
        lock=False,
        # The durable settings, spelt out: without sync a power cut loses the file, without metasync the last
        # commits; with writemap a full disk is a bus error.
        sync=True,
        metasync=True,
        writemap=False,
        readahead=False,
        max_dbs=MAX_DATABASES,
        # Otherwise an environment variable chooses the format of new files.
        lib_version=0,
    )


def _check_pages(fd: int, path: Path) -> None:
    """Check every page that LMDB can come by, which it would not do. Closes fd. Raises CorruptStore.

    A page of the wrong kind is a failed assertion inside LMDB, which ends the process.
    """
    try:
        problems = verify(fd, subdir=False)  # type: ignore[no-untyped-call]
    except VerifyError as error:
        problems = [str(error)]
    if problems:
        raise CorruptStore("pages", f"what LMDB does not write ({problems[0]})", "sound pages of it", path=path)


def _extend(fd: int, file_bytes: int) -> None:
    if os.fstat(fd).st_size < file_bytes:
        os.ftruncate(fd, file_bytes)
    os.fsync(fd)


def _identity(fd: int) -> FileIdentity:
    status = os.fstat(fd)
    return FileIdentity(status.st_dev, status.st_ino)


class _Explained:
    """Turns LMDB's errors into the system's, or into CorruptStore; both name the file at path, which fd is open for."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, lmdb.Error):
            raise _explanation(error, self._path, self._fd) from None
        if isinstance(error, OSError) and error.errno is not None and error.filename != str(self._path):
            raise OSError(error.errno, error.strerror, str(self._path)) from None


def _explanation(error: lmdb.Error, path: Path, fd: int) -> Exception:
    room = os.fstatvfs(fd)
    if error.code == errno.ENOSPC or (error.code == errno.EIO and room.f_bavail * room.f_frsize < 1 << 20):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    if error.code > 0:
        return OSError(error.code, os.strerror(error.code), str(path))
    if error.code == 0:
        # The binding's own refusals, above all that another user of it has the file open in this process.
        return OSError(errno.EBUSY, str(error), str(path))
    return CorruptStore("pages", f"what LMDB refuses ({error})", "sound pages of it", path=path)


# Every environment of this process by the identity of its file. One that an interrupted call did not give back is gone
# with whoever had it.
_environments: "WeakValueDictionary[FileIdentity, Environment]" = WeakValueDictionary()
_registry_lock = threading.RLock()
# Those of which a use has ended, until that is done.
_left: deque[Environment] = deque()
# Those that stand still while the process forks.
_forking: list[Environment] = []


def _before_fork() -> None:
    _registry_lock.acquire()
    _forking.extend(_environments.values())
    for environment in _forking:
        environment.lock.acquire()
        environment.close()


def _after_fork() -> None:
    for environment in _forking:
        environment.lock.release()
    _forking.clear()
    _registry_lock.release()
    _end_uses()


def _after_fork_in_child() -> None:
    _left.clear()
    for environment in _forking:
        environment.close_file()
    _after_fork()
    _environments.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def share(folder: Folder, name: str) -> Environment:
    """The environment of the file of that name, to be given back. FileNotFoundError; CorruptStore for no file."""
    fd = folder.open_file(name)
    try:
        with _registry_lock:
            environment = _environments.get(_identity(fd))
            if environment is None:
                environment = Environment(folder.path / name, fd)
                _environments[environment.file_identity] = environment
            else:
                os.close(fd)
            environment.users += 1
            return environment
    finally:
        _end_uses()


def give_back(environment: Environment) -> None:
    """End one use of an environment; the last one closes it. An interruption leaves one that can be used, or none.

    Where this very thread shares or gives back one just now, it does this afterwards: at any step the interpreter may
    collect a store that was never closed.
    """
    _left.append(environment)
    _end_uses()


def _end_uses() -> None:
    if not _registry_lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks it
        with _registry_lock:
            while _left:
                _end_use(_left.popleft())


def _end_use(environment: Environment) -> None:
    environment.users -= 1
    if not environment.users:
        with environment.lock:
            environment.close()
            # Of garbage in a cycle the interpreter forgets it before: there may be another one by now.
            if _environments.get(environment.file_identity) is environment:
                del _environments[environment.file_identity]
            environment.close_file()


class Sharing:
    """One that has an environment, which it shares with others of this process, until it gives it back."""

    _shared: Environment | None = None

    @property
    def _environment(self) -> Environment:
        """StoreClosed where it was given back: another thread may do so at any step."""
        if (environment := self._shared) is None:
            raise StoreClosed("the store is closed")
        return environment

    @property
    def is_inside(self) -> bool:
        """Whether this thread runs something in it."""
        return self._shared is not None and self._shared.is_inside

    def _give_back(self) -> None:
        environment, self._shared = self._shared, None
        if environment is not None:
            give_back(environment)
