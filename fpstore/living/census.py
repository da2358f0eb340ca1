"""What lies in a store's folder: each file, what it is, and how large. Nothing is opened, and no link is followed."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from fpstore.disk import CATALOG_NAME, Folder
from fpstore.ledger import NOTE
from fpstore.living.catalog import SEGMENTS
from fpstore.living.environment import UNFINISHED_NAME
from fpstore.living.locks import WRITER_LOCK_NAME
from fpstore.living.state import State
from fpstore.living.sweep import ASIDE
from fpstore.notes import JOBS
from fpstore.segment.entry import is_segment_name, is_unpublished_name, segment_of, sketches_name

# What a store counts its bytes by; "other" is what belongs to none of them, and what is on its way in or out.
KINDS = ("segments", "names", "sketches", "catalog", JOBS, ASIDE, "other")
# Nothing that fpstore makes lies deeper.
MAX_DEPTH = 8
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoreFile(NamedTuple):
    """A file. path: from the store's folder on. kind: one of KINDS. what: what it is, in words."""

    path: str
    kind: str
    what: str
    size_bytes: int


def census(home: Folder, state: State | None) -> Iterator[StoreFile]:
    """Every file in the folder of a store, in the order of the names; what goes meanwhile is left out.

    state: what the catalog says; None where that is damaged: then no segment is told from another.
    """
    for path, status in _walk(home):
        first, _, rest = path.partition("/")
        kind, what = "other", "no file of fpstore"
        if not stat.S_ISREG(status.st_mode):
            what = "a link, no file of fpstore" if stat.S_ISLNK(status.st_mode) else "no regular file"
            if stat.S_ISDIR(status.st_mode):
                what = "a folder that was not looked into"
        elif path == CATALOG_NAME:
            kind, what = "catalog", "settings, live segments, the log"
        elif path in (WRITER_LOCK_NAME, UNFINISHED_NAME):
            what = "the writer's lock" if path == WRITER_LOCK_NAME else "a catalog that was not finished"
        elif first == SEGMENTS:
            kind, what = _of_segments(rest, state)
        elif first in (JOBS, ASIDE) and rest:
            kind, what = first, "what the catalog never named" if first == ASIDE else "what jobs go on with"
            if path == f"{JOBS}/{NOTE}":
                what = "a job that is not done"
        yield StoreFile(path, kind, what, status.st_size)


def bytes_by_kind(home: Folder, state: State) -> dict[str, int]:
    """How many bytes there are of each of KINDS."""
    sizes = dict.fromkeys(KINDS, 0)
    for file in census(home, state):
        sizes[file.kind] += file.size_bytes
    return sizes


def _of_segments(name: str, state: State | None) -> tuple[str, str]:
    segment = segment_of(name)
    kind, of = {segment: ("segments", ""), sketches_name(segment): ("sketches", "sketches of ")}.get(
        name, ("names", "names of ")
    )
    named = is_segment_name(segment)
    if state is None:
        return (kind, f"{of}a segment") if named else ("other", "no segment by its name")
    if any(name == file for entry in state.segments for file, *_ in entry.files):
        return kind, f"{of}a live segment"
    if any(name == file for entry in state.strays for file, *_ in entry.files):
        return "other", f"{of}a segment that was replaced, to be removed"
    if is_unpublished_name(name, state.identity):
        return "other", f"{of}a segment that is being made, or was, when its writer died"
    return "other", f"{of}a segment that the catalog does not name" if named else "no file of fpstore"


def _walk(home: Folder) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of all that is in a folder, but of folders only those that are not looked into."""
    waiting = [("", home.fd, 0)]
    opened: list[int] = []
    try:
        while waiting:
            before, folder, depth = waiting.pop()
            inner = []
            for name in sorted(os.listdir(folder)):
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode) or depth >= MAX_DEPTH:
                        yield before + name, status
                        continue
                    try:
                        opened.append(os.open(name, _FOLDER, dir_fd=folder))
                    except PermissionError:
                        yield before + name, status
                        continue
                    inner.append((f"{before}{name}/", opened[-1], depth + 1))
            waiting += reversed(inner)
    finally:
        for folder in opened:
            os.close(folder)
