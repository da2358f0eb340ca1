"""Puts a store where others read it through fsspec: its segments first, its catalog last."""

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

from fpstore.disk import CATALOG_NAME
from fpstore.living.catalog import SEGMENTS
from fpstore.progress import Tell
from fpstore.remote.objects import Objects, expect_elsewhere


def publish(copy: Callable[[Path], None], url: str, tell: Tell | None = None) -> None:
    """Put the store that `copy` writes to a path at url, where nothing may be. FileExistsError.

    It is written here first, into a temporary folder, and checked. The catalog comes last, and without it nothing there
    is a store: what a call that ended early has left is put there anew by the next.
    """
    expect_elsewhere(url)
    objects = Objects(url)
    if objects.exists(CATALOG_NAME):
        raise FileExistsError(errno.EEXIST, "already there", objects.url_of(CATALOG_NAME))
    with tempfile.TemporaryDirectory(prefix="fpstore-") as folder:
        made = Path(folder) / "store"
        copy(made)
        files = sorted((made / SEGMENTS).iterdir())
        total, done = sum(file.stat().st_size for file in files), 0
        for file in files:
            objects.put(file, f"{SEGMENTS}/{file.name}")
            done += file.stat().st_size
            if tell:
                tell("putting", done, total)
        objects.put(made / CATALOG_NAME, CATALOG_NAME)
