"""Where the store of an index lies that was given no path: in a folder that goes with the object."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fpstore.errors import PathLike


class _Closing(Protocol):
    def close(self) -> None: ...


@contextmanager
def placed(path: PathLike | None) -> Iterator[tuple[Path, str | None]]:
    """The path, or one in a new folder, and that folder; which goes again where the store is not made."""
    if path is not None:
        yield Path(path), None
        return
    folder = tempfile.mkdtemp(prefix="fpstore-")
    try:
        yield Path(folder) / "index.fpstore", folder
    except BaseException:
        shutil.rmtree(folder)
        raise


def end_with(owner: Any, store: _Closing, folder: str | None) -> "weakref.finalize[..., Any]":
    """What closes the store, and removes a folder of its own: called once, or when owner is gone."""
    return weakref.finalize(owner, _ended, store, folder, os.getpid())


def _ended(store: _Closing, folder: str | None, process: int) -> None:
    store.close()
    if folder is not None and os.getpid() == process:  # a fork's copy of the object is not the one that made it
        shutil.rmtree(folder, ignore_errors=True)
