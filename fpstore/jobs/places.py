"""Owns where the results of a job may lie: at no place that it reads or writes besides."""

from collections.abc import Sequence
from pathlib import Path

from fpstore.disk import expect_outside_stores
from fpstore.inputs import remote
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
