"""The folder of mirrors: which has room for how many bytes, who has which mirror open, and which of them go.

A mirror is a folder of its own: `store.mirror`, which looks like the store, a file `url` that says where that lies, and
`lock`, on which everybody who has it open holds a shared lock of an open file, as for writers of stores.
"""

import fcntl
import os
import re
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fpstore.arrays import parse_memory
from fpstore.disk import MIRROR_NAME, PRIVATE_FOLDER, Folder, read_whole, replace_whole
from fpstore.errors import CorruptStore, PathLike, StoreWarning
from fpstore.file_locks import lock_file
from fpstore.living.catalog import SEGMENTS

CACHE_VARIABLE, BYTES_VARIABLE = "FPSTORE_CACHE", "FPSTORE_CACHE_BYTES"
DEFAULT_BYTES = "10GiB"
URL, LOCK, USER = "url", "lock", "user-"
LEAVING = ".leaving"
MAX_URL_BYTES = 1 << 16

_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LEAVING = re.compile(_NAME.pattern + re.escape(LEAVING), re.ASCII)
BLOCK_BYTES = 512  # of st_blocks


def cache_folder(given: PathLike | None) -> Path:
    """The folder of mirrors: as given, or as FPSTORE_CACHE says, or the user's own."""
    if given is not None or (given := os.environ.get(CACHE_VARIABLE)):
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fpstore"


def cache_bytes(given: str | int | None) -> int:
    """How many bytes mirrors may have: as given, or as FPSTORE_CACHE_BYTES says, or 10 GiB. ValueError."""
    return parse_memory(os.environ.get(BYTES_VARIABLE) or DEFAULT_BYTES if given is None else given)


class Held:
    """A mirror's folder, held against those who make room. A context manager.

    outdated, outdated_bytes: how many mirrors of earlier states of the store went when it was opened, and their bytes.
    """

    outdated = outdated_bytes = 0

    def __init__(self, folder: Folder) -> None:
        """Made by `hold`."""
        self.path = folder.path
        self._fd = folder.open_file(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(self._fd, fcntl.F_RDLCK, wait=True)
        except BaseException:
            os.close(self._fd)
            raise
        os.utime(self._fd)

    @property
    def store(self) -> Path:
        """What looks like the store."""
        return self.path / MIRROR_NAME

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """A context in which nobody else has it, nor comes by it; whether that is so."""
        alone = lock_file(self._fd, fcntl.F_WRLCK, wait=False)
        try:
            yield alone
        finally:
            if alone:
                lock_file(self._fd, fcntl.F_RDLCK, wait=True)

    def close(self) -> None:
        """Let go of it; may be called again."""
        fd, self._fd = self._fd, -1  # as Folder.close
        if fd >= 0:
            os.close(fd)


def hold(cache: Path, name: str, url: str, most_bytes: int) -> Held:
    """The mirror of that name, held; of others, which nobody has open, those of another state of its URL go.

    Then more of them until all have at most so many bytes.
    In a folder that others may write to, each user has one for his own. CorruptStore where something else is in its
    place: a link leads to what is somebody's own.
    """
    cache.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    with ExitStack() as opened:
        home = opened.enter_context(Folder.open(cache))
        if not home.is_own:
            home = opened.enter_context(_own(home, f"{USER}{os.geteuid()}"))
            if not home.is_own:  # root is refused nothing by the system
                raise CorruptStore("folder", "somebody else's", "this user's own", path=home.path)
        gate = home.open_file(LOCK, os.O_RDWR | os.O_CREAT)
        opened.callback(os.close, gate)
        fcntl.flock(gate, fcntl.LOCK_EX)  # so that nobody sweeps a folder between its making and its lock
        folder = opened.enter_context(_own(home, name))
        with _own(folder, MIRROR_NAME) as store:
            _own(store, SEGMENTS).close()
        if read_whole(folder, URL) != url.encode():
            replace_whole(folder, URL, url.encode())
        held = Held(folder)
        try:
            _make_room(home.path, held, url, most_bytes)
        except BaseException:
            held.close()
            raise
        return held


def _own(home: Folder, name: str) -> Folder:
    """The folder of that name, made where there is none.

    For nobody else, whatever the folder of mirrors is for, and whoever made this one: there are texts in it.
    """
    with suppress(FileExistsError):
        os.mkdir(name, PRIVATE_FOLDER, dir_fd=home.fd)
    own = home.inside(name)
    try:
        own.set_mode(PRIVATE_FOLDER)
    except BaseException:
        own.close()
        raise
    return own


def url_of_mirror(path: Path) -> str | None:
    """The URL of the store that a path leads to the mirror of; None for any other path."""
    if path.name != MIRROR_NAME:
        return None
    with suppress(FileNotFoundError, NotADirectoryError), Folder.open(path.parent) as folder:
        data = read_whole(folder, URL, MAX_URL_BYTES)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise CorruptStore("url", f"{data!r:.40}", "that of a store, in UTF-8", path=folder.path / URL) from None
    return None


def held_bytes(folder: Path) -> int:
    """How many bytes of the disk all files under it take: holes take none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError, PermissionError):
                total += os.lstat(Path(place, name)).st_blocks * BLOCK_BYTES
    return total


def _is_mirror(path: Path) -> bool:
    """Whether a folder in the cache was made by `hold`, for this user: others may use the folder of mirrors too."""
    if _NAME.fullmatch(path.name) is None:
        return False
    try:
        kinds = [stat.S_IFMT(os.lstat(each).st_mode) for each in (path, path / LOCK, path / MIRROR_NAME)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return kinds == [stat.S_IFDIR, stat.S_IFREG, stat.S_IFDIR]


def _url_of(path: Path) -> str | None:
    """The URL that a mirror is of; None where something else says none."""
    with suppress(CorruptStore, OSError):
        return url_of_mirror(path / MIRROR_NAME)
    return None


def _make_room(home: Path, held: Held, url: str, most_bytes: int) -> None:
    """Remove mirrors of other states of the URL, then, least recently opened first, until all fit.

    The caller holds the gate. What cannot be removed is no reason not to open a store: it is warned of.
    """
    paths = list(home.iterdir())
    for path in paths:
        if _LEAVING.fullmatch(path.name) and stat.S_ISDIR(os.lstat(path).st_mode):
            _cleared(path)  # whoever had begun to was killed
    mirrors = [path for path in paths if _is_mirror(path) and path != held.path]
    for path in mirrors:
        # There is one state at a URL: what was fetched of another is never asked for again.
        if _url_of(path) == url and (size := _removed(path)):
            held.outdated, held.outdated_bytes = held.outdated + 1, held.outdated_bytes + size
    left = [path for path in mirrors if path.exists()]
    total = held_bytes(held.path) + sum(map(held_bytes, left))
    for path in sorted(left, key=lambda each: ((each / LOCK).stat().st_mtime_ns, each)):
        if total <= most_bytes:
            return
        total -= _removed(path)


def _removed(path: Path) -> int:
    """Remove a mirror; its bytes, at least 1, or 0 where somebody has it open, or the system refuses."""
    try:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return _stays(path, error)
    try:
        if not lock_file(fd, fcntl.F_WRLCK, wait=False):
            return 0
        size = held_bytes(path)
        leaving = path.with_name(path.name + LEAVING)
        try:
            os.rename(path, leaving)  # without its lock, what a killed process left would be nobody's for ever
        except OSError as error:
            return _stays(path, error)
        return max(1, size) if _cleared(leaving) else 0
    finally:
        os.close(fd)


def _cleared(path: Path) -> bool:
    """Remove what is no mirror any more; whether it is gone."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        _stays(path, error)
        return False
    return True


def _stays(path: Path, error: OSError) -> int:
    told = f"found a mirror that has to go and cannot ({error.strerror or error}), expected one of this user's"
    warnings.warn(f"{path}: {told}; remove it", StoreWarning, stacklevel=2)
    return 0
