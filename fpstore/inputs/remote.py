"""Owns what lies elsewhere: files and folders that fsspec reaches, named by URLs such as `s3://bucket/crawl.jsonl.zst`.

`file://` is a path of this machine, and goes without fsspec. Each file is read once, from its beginning; what changes
while it is read is its keeper's to tell.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from fpstore.text import need

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


def expand(path: str) -> list[str]:
    """The URLs of all that a pattern matches, sorted; none where nothing does."""
    with _naming(path):
        files, inner = _reached(path)
        return sorted(files.unstrip_protocol(found) for found in files.glob(inner))


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
        return str(files.ukey(inner))


def files_under(path: str) -> Iterator[tuple[str, list[str]]]:
    """Every file under a folder, in the order of a walk: its URL, and the names that lead to it from the folder."""
    with _naming(path):
        files, inner = _reached(path)
        found = [(each, each[len(inner) :].strip("/").split("/")) for each in files.find(inner)]
    for each, names in sorted(found, key=lambda one: one[1]):
        yield files.unstrip_protocol(each), names


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The file, for reading its bytes. FileNotFoundError, and what its keeper says."""
    with _naming(path):
        files, inner = _reached(path)
        file = files.open(inner, "rb")
    with file:
        yield file


def _reached(path: str) -> tuple[Any, str]:
    """The file system that a URL is of, and the path in it. ValueError for a protocol that is not known."""
    core = need("fsspec.core", "fs", f"reading {path.partition('://')[0]}://")
    files, inner = core.url_to_fs(path)
    return files, inner


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """A context in which what is not there is told by its URL, and so is a protocol that is not known."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
