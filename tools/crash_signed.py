"""A store of signatures that is used as one of fingerprints, so that what checks the one checks the other too.

A fingerprint is a signature of 64 values, its bits from the lowest on, and all of them are one band: so what is found
is what is equal. What is kept of a value tells 0 from 1, so the fingerprint can be read back.
"""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from id_types import SIGNED, WIDE, WIDE_BITS

import fpstore
from fpstore import minhash
from fpstore.living.sizes import LivingSizes
from fpstore.minhash import MinHashStore
from fpstore.query.matches import Matches
from fpstore.query.similar import Documents
from fpstore.query.tables import Rows
from fpstore.text import Recipe
from fpstore.types import Array, Durability, Keys, Layout, Mode

BITS = 64
SETTINGS: dict[str, Any] = {"bands": 1, "rows_per_band": BITS}


def signatures_of(keys: object) -> Array:
    """The signatures of fingerprints."""
    array = np.asarray(keys, dtype=np.uint64)
    return (array[:, None] >> np.arange(BITS, dtype=np.uint64) & np.uint64(1)).astype(np.uint32)


def keys_of(documents: Documents) -> Keys:
    """The fingerprints of what is kept: of each value four bits, 9 for 1."""
    assert documents.sketch is not None
    data = np.frombuffer(b"".join(documents.sketch.tolist()), dtype=np.uint8).reshape(-1, BITS // 2)
    bits = np.stack([data & 15, data >> 4], axis=2).reshape(-1, BITS) == 9
    return np.packbits(bits, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)


class Signed:
    """One store, with the calls of a fpstore.Store that the checks make."""

    def __init__(self, store: MinHashStore) -> None:
        self._store = store
        self.id_type = "uint64"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __enter__(self) -> "Signed":
        return self

    def __exit__(self, *error: object) -> None:
        self._store.close()

    def rows(self) -> Iterator[Rows]:
        """All rows."""
        for documents in self._store.rows():
            yield Rows(keys_of(documents), documents.id)

    def lookup(self, ids: object) -> Rows:
        """The rows of ids."""
        documents = self._store.lookup(ids)
        return Rows(keys_of(documents), documents.id)

    def probe_many(self, keys: Keys, *, max_distance: int, threads: int | None = None) -> Matches:
        """The rows with these fingerprints."""
        found = self._store.probe_many(signatures_of(keys), threads=threads)
        return Matches(found.query, keys[found.query], np.full(len(found), max_distance, np.uint16), found.id)

    def add(self, fingerprints: object, *, ids: object) -> None:
        """Store rows."""
        self._store.add(signatures_of(fingerprints), ids=ids)

    def add_if_new(self, fingerprints: object, *, ids: object) -> Any:
        """Store rows whose fingerprints are new."""
        return self._store.add_if_new(signatures_of(fingerprints), ids=ids)

    def upsert(self, fingerprints: object, *, ids: object) -> None:
        """Store rows in place of those of their ids."""
        self._store.upsert(signatures_of(fingerprints), ids=ids)


def opened(path: Path, mode: Mode = "r", durability: Durability = "commit", sizes: LivingSizes | None = None) -> Any:
    """A store of either kind."""
    try:
        return fpstore.Store(path, mode, durability, sizes)
    except fpstore.WrongKind:
        late = sizes and dataclasses.replace(sizes, named_flush_rows=sizes.flush_rows)
        return Signed(MinHashStore(path, mode, durability, late))


def create(path: Path, id_type: Any, plan: str, recipe: Recipe | None = None, layout: Layout = "slots") -> None:
    """An empty store of the kind that id_type says."""
    if id_type == SIGNED:
        minhash.create(path, values=BITS, **SETTINGS).close()
    elif id_type == WIDE:
        fpstore.create(path, bits=WIDE_BITS).close()
    else:
        fpstore.create(path, id_type=id_type, plan=plan, recipe=recipe, layout=layout).close()


def build(
    path: Path, keys: Keys, ids: object, id_type: Any, plan: str, layout: Layout = "slots", memory: str | int = "2GiB"
) -> None:
    """A store of these rows, in place of any that is there. memory: of a build of fingerprints of 64 bits."""
    if id_type == SIGNED:
        minhash.build(os.fspath(path), signatures_of(keys), ids=ids, force=True, **SETTINGS).close()
    elif id_type == WIDE:
        fpstore.build(path, keys, ids=ids, bits=WIDE_BITS, force=True).close()
    else:
        more: dict[str, Any] = {"id_type": id_type, "plan": plan, "layout": layout, "memory": memory}
        fpstore.build(path, keys, ids=ids, force=True, **more).close()
