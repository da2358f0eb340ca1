"""LMDB, kept safe: one environment for each file and process, and the lock of the one writer.

Keeper of LMDB: no other module imports it. It does not notice damage to its file, so the file is checked
before LMDB reads it, and those who read records check them. None of its errors leaves this module as it is.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import lmdb
from lmdb.verify import VerifyError, verify

from fpstore._view import MappedWords
from fpstore.checks import expect
from fpstore.errors import CorruptStore, StoreLocked

T = TypeVar("T")
Transaction: TypeAlias = "lmdb.Transaction[bytes]"

LMDB_LOCK_SUFFIX = "-lock"
WRITER_LOCK_NAME = "writer.lock"

# Room for the databases of the state, of the changes and of the removals.
MAX_DATABASES = 16
MAX_READERS = 1022
# The file is always extended to the size of the map, sparsely: LMDB may count pages past the last one that
# it wrote, and "every page that it counts lies inside the file" has to be true of every healthy file.
MAP_BYTES = 256 << 10
MAX_ATTEMPTS = 8
LOCK_WAIT_S = 0.2


# --- The file, before LMDB sees it --------------------------------------------------------------------------

# LMDB 0.9, 64 bits. Two meta pages, written in turn: page header (number, pad, flags, bounds), then magic,
# version, address, map size; the free and the main database, 48 bytes each; last page, transaction.
_META = struct.Struct("<QHHI" + "IIQQ" + "IHHQQQQQ" + "IHHQQQQQ" + "QQ")
# Of its fields: how large a page is, the roots of both databases, the last page, the transaction.
_PAGE_BYTES, _ROOTS, _LAST_PAGE, _TRANSACTION = 8, (15, 23), 24, 25
_PAGE_IS_META = 0x08
_NO_ROOT = 2**64 - 1
_FIXED = ("number", "flags", "magic", "format", "fixed address", "page size")
_LMDB_MAGIC = 0xBEEFC0DE
_LMDB_FORMAT = 1
_PAGE_SIZES = (4096, 8192, 16384, 32768)


class _Header(NamedTuple):
    """The file's size, how much of it LMDB counts as used, and how large a page is."""

    file_bytes: int
    used_bytes: int
    page_bytes: int


class _File:
    """The file as it is on the disk, beside what LMDB made of it when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._seen: tuple[int, bytes] | None = None  # what was found good the last time: the size, and the header
        self._header = _Header(0, 0, 0)

    def close(self) -> None:
        os.close(self.fd)

    def check(self) -> _Header:
        """Check what LMDB takes on trust; returns what the header says.

        Raises CorruptStore. A file cut short, or a page number past its end, would be a bus error inside LMDB.
        """
        for _ in range(3):
            seen = self._read()
            if seen == self._seen:
                return self._header
            try:
                self._header, self._seen = _checked(*seen), seen
                return self._header
            except ValueError as error:
                # A commit may have been half way through its meta page.
                problem = error
                time.sleep(0.001)
        raise CorruptStore(str(problem), path=self._path)

    def _read(self) -> tuple[int, bytes]:
        file_bytes = os.fstat(self.fd).st_size
        head = os.pread(self.fd, 2 * _PAGE_SIZES[0], 0)
        if len(head) == 2 * _PAGE_SIZES[0] and _META.unpack_from(head)[_PAGE_BYTES] != _PAGE_SIZES[0]:
            head = os.pread(self.fd, 2 * _PAGE_SIZES[-1], 0)
        return file_bytes, head


def _checked(file_bytes: int, head: bytes) -> _Header:
    """The header that a file of so many bytes begins with. Raises ValueError."""
    expect("the file's size", file_bytes, len(head) >= 2 * _PAGE_SIZES[0], "two pages or more")
    page_bytes = _META.unpack_from(head)[_PAGE_BYTES]
    expect("the page size", page_bytes, page_bytes in _PAGE_SIZES, "4096, 8192, 16384 or 32768")
    expect("the file's size", file_bytes, len(head) >= 2 * page_bytes, f"two pages of {page_bytes} or more")
    metas = [_META.unpack_from(head, page * page_bytes) for page in (0, 1)]
    for page in (0, 1):
        _check_meta(metas[page], page, page_bytes, file_bytes)
    numbers = [meta[_TRANSACTION] for meta in metas]
    # LMDB follows the newer. The older may have the roots of a commit that failed in writing that very page: LMDB then
    # puts back the transaction and the last page, not the roots.
    newer = numbers.index(max(numbers))
    _check_roots(metas[newer], newer)
    # The metas are written in turn and never skip a transaction: one that was damaged into looking old would
    # otherwise bring back an old state.
    taken = numbers == [0, 0] or (abs(numbers[0] - numbers[1]) == 1 and numbers[0] % 2 == 0)
    expect("the pair of transactions", numbers, taken, "an even number and an odd neighbour of it")
    return _Header(file_bytes, (metas[newer][_LAST_PAGE] + 1) * page_bytes, page_bytes)


def _check_meta(meta: tuple[int, ...], page: int, page_bytes: int, file_bytes: int) -> None:
    found = (meta[0], meta[2], *meta[4:7], meta[_PAGE_BYTES])
    expected = (page, _PAGE_IS_META, _LMDB_MAGIC, _LMDB_FORMAT, 0, page_bytes)
    for name, value, right in zip(_FIXED, found, expected, strict=True) if found != expected else ():
        if value != right:
            raise ValueError(f"meta page {page}, {name}: found {value}, expected {right}")
    last_page = meta[_LAST_PAGE]
    if not 1 <= last_page < file_bytes // page_bytes:
        pages = file_bytes // page_bytes - 1
        raise ValueError(f"meta page {page}, last page: found {last_page}, expected 1..{pages} in {file_bytes} bytes")


def _check_roots(meta: tuple[int, ...], page: int) -> None:
    last_page = meta[_LAST_PAGE]
    for root in (meta[field] for field in _ROOTS):
        taken = root == _NO_ROOT or 2 <= root <= last_page
        expect(f"meta page {page}: a root", root, taken, f"a page up to {last_page}")


def _check_pages(path: Path) -> None:
    """Check every page that LMDB can come by, which it would not do. Raises CorruptStore.

    A page of the wrong kind is a failed assertion inside LMDB, which ends the process.
    """
    try:
        problems = verify(os.fspath(path), subdir=False)  # type: ignore[no-untyped-call]
    except VerifyError as error:
        problems = [str(error)]
    if problems:
        raise CorruptStore(problems[0], path=path)


def expect_plain_file(path: Path) -> None:
    """CorruptStore if path is there and is anything but a file."""
    # LMDB would overwrite what a link leads to; opening a pipe would wait for ever.
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise CorruptStore("not a regular file, expected one that fpstore made", path=path)


# --- LMDB ---------------------------------------------------------------------------------------------------


class Environment:
    """The one LMDB environment that this process has for a file, whoever asked for it.

    LMDB forbids a second one, and any use after a fork. So all that is open is closed before a fork, and opened
    again when next used; transactions are short and take turns.
    """

    def __init__(self, path: Path, identity: tuple[int, int]) -> None:
        """Made by share()."""
        self.path = path
        self.identity = identity
        self.lock = threading.Lock()
        self.users = 0
        self._lmdb: lmdb.Environment | None = None
        self._file: _File | None = None
        self._transactions: MappedWords | None = None
        # Beside a writer, LMDB's readers have to write their place into its lock file.
        self._lock_path = path.with_name(path.name + LMDB_LOCK_SUFFIX)
        self._listed = os.access(self._lock_path if self._lock_path.exists() else path.parent, os.W_OK)
        self._readonly = not (self._listed and os.access(path, os.W_OK))

    def close(self) -> None:
        """Close LMDB until the next run. The caller holds the lock."""
        if self._lmdb is not None:
            self._lmdb.close()
            self._lmdb = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def run(self, work: Callable[[Transaction], T], write: bool = False, more_bytes: int = 0) -> T:
        """The result of work in a transaction of its own, committed.

        more_bytes: at most so much is written; there is room for it before the transaction begins. work may be called
        again from the start where the map has to grow all the same. Raises CorruptStore or OSError.
        """
        kept_out = contextlib.nullcontext() if self._listed else self._writers_kept_out()
        with self.lock, kept_out, _Explained(self.path):
            for _ in range(MAX_ATTEMPTS):
                environment, header = self._open()
                try:
                    if more_bytes:
                        self._reserve(header, more_bytes)
                    with environment.begin(write=write) as transaction:
                        return work(transaction)
                except lmdb.MapFullError:
                    self._grow(2 * self.path.stat().st_size)
                except lmdb.MapResizedError:
                    environment.set_mapsize(self.path.stat().st_size)
                except lmdb.ReadersFullError:
                    environment.reader_check()
                except lmdb.PanicError:
                    # An earlier commit failed in the header; this environment will never work again, a new
                    # one reads what the file says.
                    self.close()
        raise OSError(errno.EAGAIN, f"no transaction after {MAX_ATTEMPTS} attempts", str(self.path))

    def database(self, name: bytes, transaction: Transaction) -> Any:
        """A database of the file, for use in transaction, which comes from run."""
        assert self._lmdb is not None, "run has it open"
        return self._lmdb.open_db(name, txn=transaction, create=False)

    def stamp(self) -> tuple[int, int] | None:
        """What changes with every commit: the transactions of both meta pages; None where the file was cut short."""
        words = self._transactions
        if words is None:
            words = self._transactions = self._map_transactions()
        return words.read()

    def _map_transactions(self) -> MappedWords:
        with contextlib.closing(_File(self.path)) as file:
            page_bytes = file.check().page_bytes
            mapping = mmap.mmap(file.fd, 2 * page_bytes, access=mmap.ACCESS_READ)
        return MappedWords(mapping, _META.size - 8, page_bytes + _META.size - 8)

    def free_dead_readers(self) -> None:
        """Free the slots of readers that were killed: each keeps the file growing."""
        with self.lock, _Explained(self.path):
            self._open()[0].reader_check()

    def _open(self) -> tuple[lmdb.Environment, _Header]:
        if self._file is None:
            self._file = _File(self.path)
        header = self._file.check()
        if self._lmdb is None:
            expect_plain_file(self._lock_path)
            environment = _open_lmdb(self.path, header.file_bytes, readonly=self._readonly, lock=self._listed)
            try:
                # As a reader, so that no writer reuses the pages that are being checked.
                with environment.begin():
                    _check_pages(self.path)
            except BaseException:
                environment.close()
                raise
            self._lmdb = environment
        return self._lmdb, header

    def _reserve(self, header: _Header, more_bytes: int) -> None:
        if more_bytes > header.file_bytes - header.used_bytes:
            self._grow(max(2 * header.file_bytes, header.used_bytes + 2 * more_bytes))

    def _grow(self, map_bytes: int) -> None:
        # The file first: at no moment may LMDB count pages that are not in it.
        map_bytes = whole_maps(map_bytes)
        _extend(self.path, map_bytes)
        if self._lmdb is not None:
            self._lmdb.set_mapsize(map_bytes)

    @contextlib.contextmanager
    def _writers_kept_out(self) -> Iterator[None]:
        """For a moment, where this process cannot be listed among LMDB's readers."""
        path = self.path.with_name(WRITER_LOCK_NAME)
        if not path.exists():
            yield
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _try_lock(fd, path, fcntl.LOCK_SH)
            yield
        finally:
            os.close(fd)


def create(path: Path, map_bytes: int, work: Callable[[Callable[[bytes], Any], Transaction], object]) -> None:
    """Make an LMDB file at path in one transaction, closed and durable at the end.

    work is called with what makes a database of that name, and the transaction. Raises OSError.
    """
    with _Explained(path), _open_lmdb(path, map_bytes) as environment, environment.begin(write=True) as transaction:
        work(lambda name: environment.open_db(name, txn=transaction), transaction)
    path.with_name(path.name + LMDB_LOCK_SUFFIX).unlink()
    _extend(path, map_bytes)


def whole_maps(size: int) -> int:
    """The size of a map that holds so many bytes."""
    return -(-size // MAP_BYTES) * MAP_BYTES


def _open_lmdb(path: Path, map_bytes: int, readonly: bool = False, lock: bool = True) -> lmdb.Environment:
    return lmdb.open(
        os.fspath(path),
        map_size=map_bytes,
        subdir=False,
        readonly=readonly,
        lock=lock,
        mode=0o600,
        # The durable settings, spelt out: without sync a power cut loses the file, without metasync the last
        # commits; with writemap a full disk is a bus error.
        sync=True,
        metasync=True,
        writemap=False,
        readahead=False,
        max_readers=MAX_READERS,
        max_dbs=MAX_DATABASES,
        # Otherwise an environment variable chooses the format of new files.
        lib_version=0,
    )


def _extend(path: Path, file_bytes: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size < file_bytes:
            os.ftruncate(fd, file_bytes)
        os.fsync(fd)
    finally:
        os.close(fd)


class _Explained:
    """Turns LMDB's errors into the system's, or into CorruptStore."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, lmdb.Error):
            raise _explanation(error, self._path) from None


def _explanation(error: lmdb.Error, path: Path) -> Exception:
    room = os.statvfs(path.parent)
    if error.code == errno.ENOSPC or (error.code == errno.EIO and room.f_bavail * room.f_frsize < 1 << 20):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    if error.code > 0:
        return OSError(error.code, os.strerror(error.code), str(path))
    if error.code == 0:
        # The binding's own refusals, above all that another user of it has the file open in this process.
        return OSError(errno.EBUSY, str(error), str(path))
    return CorruptStore(str(error), path=path)


# Every environment of this process by (device, inode) of its file, and the writer locks it holds.
_environments: dict[tuple[int, int], Environment] = {}
_writer_locks: set[int] = set()
_registry_lock = threading.Lock()


def _before_fork() -> None:
    _registry_lock.acquire()
    for environment in _environments.values():
        environment.lock.acquire()
        environment.close()


def _after_fork() -> None:
    for environment in _environments.values():
        environment.lock.release()
    _registry_lock.release()


def _after_fork_in_child() -> None:
    _after_fork()
    _environments.clear()
    # Or the store stays locked when the parent is gone.
    for fd in _writer_locks:
        os.close(fd)
    _writer_locks.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def share(path: Path) -> Environment:
    """The environment of the file at path, to be given back."""
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    with _registry_lock:
        if identity not in _environments:
            _environments[identity] = Environment(path, identity)
        _environments[identity].users += 1
        return _environments[identity]


def give_back(environment: Environment) -> None:
    """End one use of an environment; the last one closes it."""
    with _registry_lock:
        environment.users -= 1
        if not environment.users:
            with environment.lock:
                environment.close()
            del _environments[environment.identity]


# --- The one writer -----------------------------------------------------------------------------------------


def lock_writer(folder: Path) -> int:
    """Become the one writer of the store in folder; the descriptor that holds the lock.

    Raises StoreLocked if another is, here or in another process.
    """
    path = folder / WRITER_LOCK_NAME
    expect_plain_file(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _try_lock(fd, path, fcntl.LOCK_EX)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    except BaseException:
        os.close(fd)
        raise
    _writer_locks.add(fd)
    return fd


def unlock_writer(fd: int) -> None:
    """Let another become the writer."""
    _writer_locks.discard(fd)
    with contextlib.suppress(OSError):  # the number in it is for people
        os.ftruncate(fd, 0)
    # Explicitly, for a child of this process may have a copy of the descriptor.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _try_lock(fd: int, path: Path, kind: int) -> None:
    # For longer than those hold it who only keep writers out while they read.
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        else:
            return
    writer = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
    raise StoreLocked(f"{path.parent}: process {writer or 'unknown'} is writing to this store")
