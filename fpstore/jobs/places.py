"""Owns where the results of a job may lie, at no place that it reads or writes besides, and how its sources look."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fpstore.disk import expect_outside_stores
from fpstore.inputs import remote
from fpstore.inputs.sources import is_stream, walk
from fpstore.jobs.claims import folder_of


def expect_other_files(results: Sequence[Path], files: Sequence[str], store: Path | None = None) -> None:
    """Raise ValueError where what a job writes is an input, in the folder of one, or something else that it writes.

    files: the inputs that are files or folders.
    """
    written = [_settled(path) for result in results for path in (result, folder_of(result))]
    if store is not None:
        written.append(store.resolve())
    for path in written:
        if sum(path == other or path.is_relative_to(other) for other in written) > 1:
            told = "found a result at, or in, another place that the job writes to (a result, its .job, the store)"
            raise ValueError(f"{path}: {told}; expected places of their own")
    for result in results:
        expect_outside_stores(result)
    inputs = [Path(source).resolve() for source in files if not remote.is_remote(source)]
    for path in written:
        for source in inputs:
            if path.is_relative_to(source):
                raise ValueError(f"{path}: found a result that is also an input, or in one; expected another place")


def _settled(path: Path) -> Path:
    """The path with the links on the way to it followed, but not itself."""
    return path.parent.resolve() / path.name


def look_at(source: str) -> tuple[Any, ...]:
    """What a source looks like from outside; changes with its content."""
    if is_stream(source):
        return (None,)
    if remote.is_remote(source):
        paths = list(walk(source)) if remote.is_folder(source) else [source]
        return "elsewhere", [[path, remote.look(path)] for path in paths]
    if not os.path.isdir(source):
        status = os.stat(source)
        return status.st_size, status.st_mtime_ns
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for path in walk(source):
        status = os.lstat(path)
        count += 1
        digest.update(os.fsencode(path) + f"\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return count, digest.hexdigest()
