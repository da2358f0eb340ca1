"""The objects under a URL: their sizes, their bytes, and for all else one clear error, which names the object."""

import errno
import os
import posixpath
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fpstore.disk import CATALOG_NAME
from fpstore.errors import CorruptStore, StoreChanged
from fpstore.inputs.errors import TOLD_CHARACTERS, cut
from fpstore.inputs.remote import changes_of, is_remote, local_path, reached

# Between tries of what may go well a moment later; what a client tries again by itself is not counted here.
PAUSES_SECONDS = (0.2, 1.0)
# Of a catalog so many bytes are asked for at a time. That of a store with 10^8 removals has less than the most.
PIECE_BYTES, MOST_CATALOG_BYTES = 16 << 20, 4 << 30

_T = TypeVar("_T")


class Range(NamedTuple):
    """Bytes [first, end) of an object."""

    name: str
    first: int
    end: int


class Objects:
    """What lies under a URL, by names relative to it. Safe to use from several threads.

    requests, bytes_read: how many ranges and whole objects were asked for, and how many bytes came.
    """

    def __init__(self, url: str) -> None:
        """ImportError, which names the extra, without fsspec or what it needs for the protocol; ValueError for none."""
        self.url = url.rstrip("/")
        try:
            self._files, self._root = reached(self.url, f"a store at {url.partition('://')[0]}://")
        except ValueError as error:
            raise ValueError(f"{self.url}: {cut(str(error), TOLD_CHARACTERS)}") from None
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes_read = 0

    def url_of(self, name: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{name}"

    def look(self, name: str) -> tuple[int, str]:
        """The size of an object, and what changes when it does. FileNotFoundError."""

        def info() -> tuple[int, str]:
            self._files.invalidate_cache(self._path(name))
            found = self._files.info(self._path(name))
            return int(found["size"]), repr(changes_of(found))

        return self._tried(name, info)

    def exists(self, name: str) -> bool:
        """Whether there is such an object, or a folder."""

        def look() -> bool:
            self._files.invalidate_cache()
            return bool(self._files.exists(self._path(name)))

        return self._tried(name, look)

    def read(self, name: str, first: int, end: int) -> bytes:
        """Bytes [first, end) of an object; StoreChanged where it has fewer."""
        found = self.read_many([Range(name, first, end)])[0]
        if isinstance(found, Exception):
            raise found
        return found

    def read_many(self, ranges: Sequence[Range]) -> list[bytes | Exception]:
        """The bytes of each range, or why there are none, which names the object."""
        found: list[Any] = [None] * len(ranges)
        left = list(range(len(ranges)))
        for pause in (0.0, *PAUSES_SECONDS):
            time.sleep(pause)
            for at, data in zip(left, self._cat([ranges[i] for i in left]), strict=True):
                found[at] = data
            left = [i for i in left if isinstance(found[i], Exception) and _may_pass(found[i])]
            if not left:
                break
        with self._lock:
            self.requests += len(ranges)
            self.bytes_read += sum(len(data) for data in found if isinstance(data, bytes))
        return [self._checked(one, data) for one, data in zip(ranges, found, strict=True)]

    def put(self, path: Path, name: str) -> None:
        """Put a file there as an object."""

        def put() -> None:
            target = self._path(name)
            self._files.makedirs(posixpath.dirname(target), exist_ok=True)
            self._files.put_file(os.fspath(path), target)

        self._tried(name, put)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _cat(self, ranges: Sequence[Range]) -> list[Any]:
        paths = [self._path(one.name) for one in ranges]
        try:
            found = self._files.cat_ranges(
                paths, [one.first for one in ranges], [one.end for one in ranges], on_error="return"
            )
        except Exception as error:
            return [error] * len(ranges)
        return [data if isinstance(data, Exception) else bytes(data) for data in found]

    def _checked(self, one: Range, data: Any) -> bytes | Exception:
        if isinstance(data, bytes) and len(data) == one.end - one.first:
            return data
        try:  # a range behind the end is an error to some, and no bytes to others
            size = self.look(one.name)[0]
            if size < one.end:
                return self._short(one, size)
        except Exception as error:
            return error
        return self._told(one.name, data) if isinstance(data, Exception) else self._short(one, one.first + len(data))

    def _short(self, one: Range, size: int) -> StoreChanged:
        told = f"found {size} bytes, expected {one.end} or more: the object was cut short, or another took its place"
        return StoreChanged(told, path=self.url_of(one.name))

    def _tried(self, name: str, work: Callable[[], _T]) -> _T:
        for pause in (*PAUSES_SECONDS, None):
            try:
                return work()
            except Exception as error:
                if pause is None or not _may_pass(error):
                    raise self._told(name, error) from error
                time.sleep(pause)
        raise AssertionError("the last pause ends it")

    def _told(self, name: str, error: Exception) -> Exception:
        """What is raised for an error of fsspec's: of the system's own kinds, and of the object."""
        path = self.url_of(name)
        if isinstance(error, ImportError | MemoryError):
            return error
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(error, PermissionError):
            return PermissionError(errno.EACCES, cut(str(error), TOLD_CHARACTERS), path)
        told = cut(f"{type(error).__name__}: {error}", TOLD_CHARACTERS)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        return OSError(number, f"found {told}, expected an object that fsspec reads", path)


def expect_elsewhere(url: str) -> None:
    """ValueError for a URL of a file of this machine, and for what only looks like a URL."""
    local = local_path(url)
    if local != url or not is_remote(url):
        raise ValueError(f"{url}: found what lies on this machine, expected a path for it: {local}")


def whole_catalog(objects: Objects) -> bytes:
    """The catalog, as it was at one moment. CorruptStore where it changes all the time, or has a size that none has.

    Read piece by piece: what is held has come, whatever size a server tells.
    """
    url = objects.url_of(CATALOG_NAME)
    for _ in range(1 + len(PAUSES_SECONDS)):
        before = objects.look(CATALOG_NAME)
        size = before[0]
        if not 0 <= size <= MOST_CATALOG_BYTES:
            raise CorruptStore("catalog", f"{size} bytes", f"at most {MOST_CATALOG_BYTES}", path=url)
        firsts = range(0, size, PIECE_BYTES)
        data = b"".join(objects.read(CATALOG_NAME, first, min(first + PIECE_BYTES, size)) for first in firsts)
        if objects.look(CATALOG_NAME) == before:
            return data
    told = "one that changed while it was read", "that of a store that nobody writes to: fpstore copy makes one"
    raise CorruptStore("catalog", *told, path=url)


def _may_pass(error: Exception) -> bool:
    """Whether what went wrong may go well a moment later."""
    never = (FileNotFoundError, PermissionError, ImportError, NotImplementedError, MemoryError, ValueError, TypeError)
    return not isinstance(error, never)
