"""The folder of mirrors: which has room for how many bytes, who has which mirror open, and which of them go.

A mirror is a folder of its own: `store.mirror`, which looks like the store, a file `url` that says where that lies, and
`lock`, on which everybody who has it open holds a shared lock of an open file, as for writers of stores.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fpstore.arrays import parse_memory
from fpstore.disk import MIRROR_NAME, PRIVATE_FOLDER, Folder, read_whole, replace_whole
from fpstore.errors import PathLike
from fpstore.living.locks import lock_file

CACHE_VARIABLE, BYTES_VARIABLE = "FPSTORE_CACHE", "FPSTORE_CACHE_BYTES"
DEFAULT_BYTES = "10GiB"
URL, LOCK = "url", "lock"

_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)
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
    """A mirror's folder, held against those who make room. A context manager."""

    def __init__(self, path: Path) -> None:
        """Made by `hold`."""
        self.path = path
        self._fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def hold(cache: Path, name: str, url: str, most_bytes: int) -> Held:
    """The mirror of that name, held; others, those that nobody has open, go until all have at most so many bytes."""
    cache.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    gate = os.open(cache / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)  # so that nobody sweeps a folder between its making and its lock
        path = cache / name
        for made in (path, path / MIRROR_NAME, path / MIRROR_NAME / "segments"):
            # For nobody else, whatever the folder of mirrors is for, and whoever made this one: there are texts in it.
            made.mkdir(PRIVATE_FOLDER, exist_ok=True)
            with Folder.open(made) as own:
                own.set_mode(PRIVATE_FOLDER)
        with Folder.open(path) as folder:
            if read_whole(folder, URL) != url.encode():
                replace_whole(folder, URL, url.encode())
        held = Held(path)
        _sweep(cache, path, most_bytes)
        return held
    finally:
        os.close(gate)


def url_of_mirror(path: Path) -> str | None:
    """The URL of the store that a path leads to the mirror of; None for any other path."""
    if path.name != MIRROR_NAME:
        return None
    with suppress(FileNotFoundError):
        return (path.parent / URL).read_text(encoding="utf-8")
    return None


def held_bytes(folder: Path) -> int:
    """How many bytes of the disk all files under it take: holes take none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(Path(place, name)).st_blocks * BLOCK_BYTES
    return total


def _is_mirror(path: Path) -> bool:
    """Whether a folder in the cache was made by `hold`: the cache may be a folder that others use too."""
    made = _NAME.fullmatch(path.name) is not None and not path.is_symlink()
    return made and (path / LOCK).is_file() and (path / MIRROR_NAME).is_dir()


def _sweep(cache: Path, own: Path, most_bytes: int) -> None:
    """Remove mirrors, least recently opened first. The caller holds the gate."""
    mirrors = [path for path in cache.iterdir() if _is_mirror(path)]
    sizes = {path: held_bytes(path) for path in mirrors}
    total = sum(sizes.values())
    for path in sorted(mirrors, key=lambda each: ((each / LOCK).stat().st_mtime_ns, each)):
        if total <= most_bytes:
            return
        if path == own:
            continue
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            if lock_file(fd, fcntl.F_WRLCK, wait=False):
                shutil.rmtree(path)
                total -= sizes[path]
        finally:
            os.close(fd)
