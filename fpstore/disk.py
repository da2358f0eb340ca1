"""What makes bytes and names stay, and which file is meant: whole writes, synced folders, folders held open."""

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple, Self

from fpstore.errors import CorruptStore

# Of what becomes another file as a whole.
NEW_SUFFIX = ".new"
# No record that is read as a whole is larger: a journal that names a million inputs takes less.
MAX_RECORD_BYTES = 1 << 28
_DESCRIPTORS = Path("/proc/self/fd")
# How the system says that it cannot write so.
REFUSALS = frozenset((errno.EOPNOTSUPP, errno.EINVAL))
# Of a new folder, unless its maker says otherwise: texts are private.
PRIVATE_FOLDER = 0o700


# A folder with a file of this name is a store.
CATALOG_NAME = "catalog.mdb"
# And one of this name the mirror of a store that lies elsewhere.
MIRROR_NAME = "store.mirror"


def _uncached_flag() -> int:
    """RWF_DONTCACHE, which Linux has since 6.14, and without an error that loses pages since 6.16; 0 for no flag."""
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    has_it = system.sysname == "Linux" and version is not None and tuple(map(int, version.groups())) >= (6, 16)
    return 0x80 if has_it else 0


# What a call that writes is given, or 0, for what is large and is not read again soon.
UNCACHED = _uncached_flag()
# Of one piece of advice Linux reads no more than a device's read-ahead, which mostly is so much.
ADVISED_BYTES = 1 << 17
# So far ahead a stretch is asked for that is read once: a disk of 2 GB/s is at it for 4 ms.
AHEAD_BYTES = 8 << 20


class FileIdentity(NamedTuple):
    """Which file it is, whatever it is called: of two that exist at one time no two have the same."""

    device: int
    inode: int


class Folder:
    """A folder held open. What it is called may change; its names are looked up in this very folder, and no other.

    A name that is a link is never followed. path: what it was called when it was opened, absolute. Files made in it
    may be read and written by whom its own mode says, whatever the umask is; so its mode is the only setting.
    """

    def __init__(self, path: Path, fd: int) -> None:
        """Made by open, inside and create. Owns fd. identity: which folder it is."""
        self.path = path
        self.fd = fd
        # As long as it is held open, no other has its number.
        self.identity = _identity(os.fstat(fd))
        self._owes_sync = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder that path leads to, links followed. Raises FileNotFoundError, NotADirectoryError."""
        return cls(path.absolute(), os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    @property
    def reach(self) -> Path:
        """A path that leads to this very folder while it is held open, for those who take no descriptor."""
        held = _DESCRIPTORS / str(self.fd)
        return held if held.exists() else self.path

    @property
    def mode(self) -> int:
        """Its mode now."""
        return stat.S_IMODE(os.fstat(self.fd).st_mode)

    @property
    def is_own(self) -> bool:
        """Whether it is this user's, and nobody else may write to it."""
        found = os.fstat(self.fd)
        return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def set_mode(self, mode: int) -> None:
        """Say whom its files are for, from now on: by the bits of mode, such as 0o640; who may read may also enter."""
        wanted = folder_mode(mode) | self.mode & stat.S_ISGID
        if wanted != self.mode:
            with naming(self.path):
                os.fchmod(self.fd, wanted)

    def inside(self, name: str) -> "Folder":
        """The folder of that name in this one. FileNotFoundError; CorruptStore for anything but a folder."""
        path = self.path / name
        try:
            with naming(path):
                return Folder(path, os.open(name, _FOLDER_FLAGS, dir_fd=self.fd))
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):  # of a link it is the one or the other
                raise
            raise CorruptStore("folder", "something else", "a folder that fpstore made", path=path) from None

    def create(self, name: str) -> "Folder":
        """A new folder of that name in this one, with this one's mode. FileExistsError."""
        path = self.path / name
        with naming(path):
            os.mkdir(name, PRIVATE_FOLDER, dir_fd=self.fd)
            os.chmod(name, PRIVATE_FOLDER, dir_fd=self.fd)  # a umask may have left nothing of that
            folder = self.inside(name)
            os.fchmod(folder.fd, self.mode)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; may be called again."""
        fd, self.fd = self.fd, -1  # first: an interruption comes when a call has ended, and by then another may have it
        if fd >= 0:
            os.close(fd)

    def is_at(self, path: Path) -> bool:
        """Whether path, links followed, still leads to this folder."""
        try:
            return _identity(os.stat(path)) == self.identity
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link that leads to itself leads nowhere
                raise
            return False

    def identity_of(self, name: str) -> FileIdentity | None:
        """Which file has that name here, a link being itself; None where nothing has."""
        try:
            return _identity(os.stat(name, dir_fd=self.fd, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def places(self, own: Mapping[str, FileIdentity]) -> tuple[tuple[int | None, bytes, FileIdentity], ...]:
        """Where the system is to find this folder and these files in it: beside which descriptor, by which name."""
        inside = ((self.fd, os.fsencode(name), identity) for name, identity in own.items())
        return (None, os.fsencode(self.path), self.identity), *inside

    def names(self) -> list[str]:
        """All names in it, sorted."""
        return sorted(os.listdir(self.fd))

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of the file of that name; flags: those of os.open.

        A new file gets the mode of this folder without its execute bits. FileNotFoundError, FileExistsError;
        CorruptStore for anything but a regular file, of which nothing has been read or changed then.
        """
        path = self.path / name
        try:
            with naming(path):
                # O_NONBLOCK: or opening a pipe would wait for ever. O_TRUNC would change what is looked at only later.
                fd = os.open(name, flags | _FILE_FLAGS, 0o600, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _no_file(path) from None
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise _no_file(path)
            if flags & os.O_CREAT and status.st_size == 0:
                mode = self.mode & 0o666
                if stat.S_IMODE(status.st_mode) != mode:
                    os.fchmod(fd, mode)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def rename(self, old: str, new: str, to: "Folder | None" = None) -> None:
        """Give the file another name, here or in another folder; replaces what has that name."""
        target = to or self
        with naming(target.path / new):
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=target.fd)

    def unlink(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove the file, or the link, of that name."""
        with naming(self.path / name), contextlib.suppress(*([FileNotFoundError] if missing_ok else [])):
            os.unlink(name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make its names durable: what was created, renamed and removed in it."""
        self._owes_sync = False  # first, as who makes a name meanwhile owes it again
        try:
            with naming(self.path):
                os.fsync(self.fd)
        except BaseException:
            self._owes_sync = True
            raise

    def sync_later(self) -> None:
        """Owe a sync for a name that has to be durable no sooner than something else, before which sync_owed is called.

        So several names cost one sync. Both are for one thread.
        """
        self._owes_sync = True

    def sync_owed(self) -> None:
        """Make its names durable where that is owed."""
        if self._owes_sync:
            self.sync()


class Place(NamedTuple):
    """A name in a folder held open: where a file is, or is to be."""

    folder: Folder
    name: str

    @property
    def path(self) -> Path:
        """What it was called when the folder was opened."""
        return self.folder.path / self.name


@contextlib.contextmanager
def placed(at: Path | Place) -> Iterator[Place]:
    """The place that a path leads to, its folder held open meanwhile; or the place that it is."""
    if isinstance(at, Place):
        yield at
        return
    with Folder.open(at.parent) as folder:
        yield Place(folder, at.name)


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def _no_file(path: Path) -> CorruptStore:
    return CorruptStore("file", "what is not a regular file", "one that fpstore made", path=path)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A context in which the system's errors name the file at path, and not a part of it, or nothing.

    A folder's reach is named as the folder is: nobody knows which one a descriptor is of.
    """
    try:
        yield
    except OSError as error:
        named = str(path)
        if path.parent == _DESCRIPTORS:
            with contextlib.suppress(OSError):
                named = os.readlink(path)
        if error.errno is not None and error.filename != named:
            raise OSError(error.errno, error.strerror, named) from None
        raise


def unnamed(folder: Path, buffering: int = -1) -> IO[bytes]:
    """A file in folder that never has a name, where the disk can do that; whatever ends the process takes it along."""
    with naming(folder):
        # A reach is a link, which tempfile does not follow: it would give the file a name, for a moment, and a process
        # that is killed then leaves that to nobody. The dot is in the folder itself.
        return tempfile.TemporaryFile(dir=f"{folder}/.", buffering=buffering)


def folder_mode(mode: int) -> int:
    """The mode of a folder for files of this mode: who may read them may enter. 0o640 and 0o750 give the same."""
    return mode & 0o666 | (mode & 0o444) >> 2


def expect_outside_stores(path: Path) -> None:
    """ValueError where path lies in a store's folder, in which nothing but what belongs to that store has a place."""
    for folder in Path(os.path.realpath(path.absolute().parent), "x").parents:
        if os.path.lexists(folder / CATALOG_NAME):
            raise ValueError(f"{path}: found a place inside the store {folder}, expected one outside of it")


def write_all(fd: int, data: memoryview, offset: int | None = None, *, uncached: bool = False) -> None:
    """Write all of data, however many calls that takes: from offset on, None for where the file is at.

    uncached: it goes to the disk at once, and leaves the system's cache as soon as it is there, where the system can do
    that: of what is large and is not read again soon, as it would push out what others read, and pages that the system
    has to find first are most of what writing to its cache costs.
    """
    flags = UNCACHED if uncached else 0
    while len(data):
        try:
            written = _write_once(fd, data, offset, flags)
        except OSError as error:
            if not flags or error.errno not in REFUSALS:
                raise
            flags = 0  # this file system, or this kind of file, cannot
            continue
        data = data[written:]
        offset = None if offset is None else offset + written


def _write_once(fd: int, data: memoryview, offset: int | None, flags: int) -> int:
    if flags:  # -1: where the file is at
        return os.pwritev(fd, [data], -1 if offset is None else offset, flags)
    return os.write(fd, data) if offset is None else os.pwrite(fd, data, offset)


def ask_for(fd: int, first: int, end: int) -> None:
    """Have the system read bytes [first, end) of a file into its cache, while the caller goes on."""
    with contextlib.suppress(OSError):  # a hint; reading says what is wrong
        for at in range(first, end, ADVISED_BYTES):
            os.posix_fadvise(fd, at, min(ADVISED_BYTES, end - at), os.POSIX_FADV_WILLNEED)


class Passage:
    """A stretch of a file that is read once, from front to end, and that the system's cache need not hold afterwards.

    What comes next is asked for while the reader has what came before, and what was read is let go of.
    """

    def __init__(self, fd: int, first: int, end: int) -> None:
        """fd: of the file, which its reader owns. offset, end: what is left of the stretch."""
        self._fd, self.end = fd, end
        self._asked = self.offset = first
        self.come_to(first)

    def come_to(self, offset: int) -> None:
        """All before offset was read."""
        pieces = max(0, -(-(offset + AHEAD_BYTES - self._asked) // ADVISED_BYTES))  # whole ones, up to the end
        first, self._asked = self._asked, min(self._asked + pieces * ADVISED_BYTES, self.end)
        ask_for(self._fd, first, self._asked)
        if offset > self.offset:
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, self.offset, offset - self.offset, os.POSIX_FADV_DONTNEED)
            self.offset = offset


def read_whole(folder: Folder, name: str, most: int = MAX_RECORD_BYTES) -> bytes | None:
    """All of the file of that name, None where there is none.

    CorruptStore for anything but a regular file, and for one of more bytes than most.
    """
    try:
        fd = folder.open_file(name)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file, naming(folder.path / name):
        size = os.fstat(fd).st_size
        if size > most:  # a sparse file may claim any size
            raise CorruptStore("file", f"{size} bytes", f"at most {most}", path=folder.path / name)
        return file.read()


def replace_whole(folder: Folder, name: str, data: bytes) -> None:
    """Put a file there as a whole: what was there before, or all of data, durably, whatever happens meanwhile."""
    new = name + NEW_SUFFIX
    write_whole(folder, new, data)
    folder.rename(new, name)
    folder.sync()


def write_whole(folder: Folder, name: str, data: bytes) -> None:
    """Write a file of that name, whose content is durable, and the name not yet."""
    fd = folder.open_file(name, os.O_WRONLY | os.O_CREAT)
    try:
        with naming(folder.path / name):
            os.ftruncate(fd, 0)
            write_all(fd, memoryview(data))
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: what was created, renamed and removed there."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _identity(status: os.stat_result) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino)
