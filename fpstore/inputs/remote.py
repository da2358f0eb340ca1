"""Owns what lies elsewhere: files and folders that fsspec reaches, named by URLs such as `s3://bucket/crawl.jsonl.zst`.

`file://` is a path of this machine, and goes without fsspec. Each file is read once, from its beginning; what changes
while it is read is its keeper's to tell.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from fpstore.inputs.errors import TOLD_CHARACTERS, BadInput, cut
from fpstore.text.packages import need

# What fsspec's file systems tell of a file that changes with its content, by their names of it.
_CHANGES = ("ETag", "etag", "mtime", "LastModified", "created", "version_id", "CRC", "date_time")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(?:::[a-zA-Z][a-zA-Z0-9+.-]*)*://")


def is_remote(path: str) -> bool:
    """Whether a path is a URL, and no file of this machine has that very name."""
    return _URL.match(path) is not None and not os.path.lexists(path)


def local_path(path: str) -> str:
    """The path of a `file://` URL, any other path as it is. ValueError for one of another machine."""
    if not path.lower().startswith("file://") or not is_remote(path):
        return path
    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{path}: found a file of {parts.netloc}, expected one of this machine: file:///path")
    return unquote(parts.path)


def naming_part(path: str) -> str:
    """What names the file in a URL: `zip://a.jsonl` of `zip://a.jsonl::b.zip`; any other path as it is."""
    return _split(path)[1] if is_remote(path) else path


def expand(path: str) -> list[str]:
    """The URLs of all that a pattern matches, sorted; none where nothing does.

    As of a pattern here, what is hidden is matched only by a part of the pattern that begins with a dot.
    """
    with _naming(path):
        files, inner = _reached(path)
        dotted = [part for part in inner.split("/") if part.startswith(".")]
        matching = [found for found in files.glob(inner) if _is_shown(found, dotted)]
        return [_url(path, files, found) for found in outermost(matching)]


def outermost(paths: list[str]) -> list[str]:
    """What one pattern matches, each once and sorted, without what lies in a folder that is matched too."""
    all_names = {path.rstrip("/") for path in paths}
    kept = {path.rstrip("/"): path for path in paths if all_names.isdisjoint(_folders_of(path.rstrip("/")))}
    return sorted(kept.values())


def _folders_of(path: str) -> list[str]:
    """Every folder that a path lies in, the first without a name."""
    return ([""] if path else []) + [path[:at] for at, letter in enumerate(path) if letter == "/" and at]


def _is_shown(found: str, dotted: list[str]) -> bool:
    hidden = [name for name in found.split("/") if name.startswith(".")]
    return all(any(fnmatchcase(name, part) for part in dotted) for name in hidden)


def exists(path: str) -> bool:
    """Whether anything is there."""
    with _naming(path):
        files, inner = _reached(path)
        return bool(files.exists(inner))


def is_folder(path: str) -> bool:
    """Whether it is a folder, and no file. FileNotFoundError where nothing is there."""
    with _naming(path):
        files, inner = _reached(path)
        return bool(files.info(inner)["type"] == "directory")


def size(path: str) -> int | None:
    """How many bytes a file has, None where only reading tells. FileNotFoundError."""
    with _naming(path):
        files, inner = _reached(path)
        found = files.info(inner).get("size")
        return None if found is None else int(found)


def look(path: str) -> str:
    """What a file looks like from outside, without reading it; changes when its keeper says that it does."""
    with _naming(path):
        files, inner = _reached(path)
        changes = changes_of(files.info(inner))
        return repr(changes) if changes else str(files.ukey(inner))


def changes_of(info: Mapping[str, Any]) -> list[Any]:
    """Of what fsspec tells of a file that which changes with its content, and not when somebody reads it."""
    return [info[name] for name in _CHANGES if info.get(name) is not None]


def stamp_of(path: str) -> tuple[int, int | str]:
    """How large a file is, here or elsewhere, 0 where only reading tells, and what changes when it does.

    Not its inode, nor the time of its last change of any kind: those differ where machines see one file by a shared
    file system, and a link or a mode changes the latter. So one that is given its size and time again is not told.
    """
    if is_remote(path):
        return size(path) or 0, look(path)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def files_under(path: str) -> Iterator[tuple[str, list[str]]]:
    """Every file under a folder, in the order of a walk: its URL, and the names that lead to it from the folder."""
    with _naming(path):
        files, inner = _reached(path)
        found = [(_url(path, files, each), each[len(inner) :].strip("/").split("/")) for each in files.find(inner)]
    yield from sorted(found, key=lambda one: one[1])


def name_within(folder: str, path: str) -> str:
    """What a file is called in a folder under which files_under has found it, whatever URL that was named by."""
    with _naming(path):
        return _reached(path)[1][len(_reached(folder)[1]) :].strip("/")


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The file, for reading its bytes. FileNotFoundError, and what its keeper says."""
    with _naming(path):
        files, inner = _reached(path)
        file = files.open(inner, "rb")
    with file, _Named(path, file) as named:
        yield named  # type: ignore[misc]


class _Named(io.RawIOBase):
    """A file elsewhere, of which all that goes wrong while it is read is told by its URL."""

    def __init__(self, path: str, file: Any) -> None:
        self._path, self._file = path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def read(self, size: int | None = -1) -> bytes:
        with _naming(self._path):
            return bytes(self._file.read(-1 if size is None else size))

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _naming(self._path):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())


def _split(url: str) -> tuple[str, str, str]:
    """The parts of a URL: the caches in front, the part that names the file, and what that lies in, from `::` on."""
    protocols = _URL.match(url)
    assert protocols is not None
    front = protocols[0].rfind("::") + 2 if "::" in protocols[0] else 0
    end = url.find("::", protocols.end())
    end = len(url) if end < 0 else end
    return url[:front], url[front:end], url[end:]


def _url(path: str, files: Any, found: str) -> str:
    """The URL of what was found in the file system that path is of."""
    front, name, within = _split(path)
    if front:
        files, _ = _reached(name + within)
    return f"{front}{files.unstrip_protocol(found)}{within}"


def _reached(path: str) -> tuple[Any, str]:
    return reached(path, f"reading {path.partition('://')[0]}://")


def reached(url: str, purpose: str) -> tuple[Any, str]:
    """The file system that a URL is of, and the path in it. ValueError for a protocol that is not known.

    ImportError, by the URL, without the package of its protocol; without fsspec it names the extra for the purpose.
    """
    core = need("fsspec.core", "fs", purpose)
    try:
        files, inner = core.url_to_fs(url)
    except ImportError as error:
        told = cut(str(error), TOLD_CHARACTERS)
        raise ImportError(f"{url}: {told}; expected the package of the protocol, beside fpstore[fs]") from error
    return files, inner


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """A context in which whatever a file system raises is a fault of the input, told by its URL.

    What it says by a number of the system stays an OSError; a package that is missing is told as it is.
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror or os.strerror(error.errno), path) from None
        if type(error) is ValueError:
            raise ValueError(f"{path}: {error}") from None
        told = cut(f"{type(error).__name__}: {error}", TOLD_CHARACTERS)
        expected = "expected a file, a folder or a pattern that fsspec reaches"
        raise BadInput(f"{path}: found {told}, {expected}", source=path) from error
