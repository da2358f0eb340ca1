"""Owns stores that a job makes for itself alone, and makes again whenever it goes on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fpstore
from fpstore import Store


@contextmanager
def scratch_store(path: Path, max_distance: int, bits: int) -> Iterator[Store]:
    """An empty store at path, for writing, of fingerprints of so many bits; whatever is there goes."""
    shutil.rmtree(path, ignore_errors=True)
    fpstore.create(path, max_distance=max_distance, bits=bits).close()
    with fpstore.open(path, "w", durability="batch") as store:
        yield store
