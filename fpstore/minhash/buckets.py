"""What lies in the bands of a store of signatures: buckets, and the documents that they are of.

A *bucket* is what one key of a band holds. Nothing here is needed for a search; it reads whole tables.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fpstore.base import Reading
from fpstore.living.documents import DocumentWriter, all_documents, documents_with
from fpstore.living.named import in_handles, names_in
from fpstore.living.sketched import sketches_of
from fpstore.living.snapshot import Snapshot
from fpstore.merging import begins
from fpstore.minhash.store import MinHashStore
from fpstore.names.column import as_names
from fpstore.sketches.bands import Banding
from fpstore.types import Array, Counts, Ids, Keys


class Buckets(NamedTuple):
    """Keys that increase, uint64[n], the band that they are of, and how many documents each has, int64[n]."""

    band: int
    keys: Keys
    counts: Counts


def buckets(store: MinHashStore, band: int | None = None) -> Iterator[Buckets]:
    """All buckets, or those of one band, in order, a batch at a time; none comes twice. Reads the table up to them."""
    with Reading(store) as snapshot:
        return _buckets(store, snapshot, band)


def _buckets(store: MinHashStore, snapshot: Snapshot, wanted: int | None) -> Iterator[Buckets]:
    banding = _banding(snapshot)
    last, count = 0, 0  # of the bucket that may go on in the next piece
    with Reading(store, snapshot):
        for rows, _ in snapshot.rows():
            first = np.flatnonzero(begins(rows))
            keys, counts = rows[first], np.diff(first, append=len(rows))
            if count and int(keys[0]) == last:
                counts[0] += count
            elif count:
                keys, counts = np.insert(keys, 0, np.uint64(last)), np.insert(counts, 0, count)
            last, count = int(keys[-1]), int(counts[-1])
            yield from _by_band(keys[:-1], counts[:-1], banding.of(keys[:-1]), wanted)
            if wanted is not None and int(banding.of(keys[-1:])[0]) > wanted:
                return
            store._expect_usable()
        if count:
            key = np.array([last], dtype=np.uint64)
            yield from _by_band(key, np.array([count]), banding.of(key), wanted)


def _by_band(keys: Keys, counts: Counts, bands: Counts, wanted: int | None) -> Iterator[Buckets]:
    for band in np.unique(bands).tolist():
        if wanted is None or band == wanted:
            own = bands == band
            yield Buckets(band, keys[own], counts[own])


def bucket(store: MinHashStore, key: int) -> Array:
    """The ids of the documents that have this key, each once, in no order."""
    with Reading(store) as snapshot:
        found = snapshot.search(np.array([key], dtype=np.uint64), 0)
        assert found.id is not None
        ids = np.unique(found.id)
        own: Array = ids if snapshot.names is None else names_in(snapshot, ids)
        return own


def band_of(store: MinHashStore, key: int) -> int:
    """The band that a key is of."""
    with Reading(store) as snapshot:
        return int(_banding(snapshot).of(np.array([key], dtype=np.uint64))[0])


def keys_of(store: MinHashStore, ids: object) -> list[list[int]]:
    """The keys of the documents of these ids, a list that increases for each id that is there. Reads all rows."""
    given = store._given_ids(ids)
    with Reading(store) as snapshot:
        asked = np.unique(in_handles(snapshot, (given,))[0])
        found: dict[int, list[int]] = {}
        for keys, own in snapshot.rows():
            assert own is not None
            for at in np.flatnonzero(np.isin(own, asked)).tolist():
                found.setdefault(int(own[at]), []).append(int(keys[at]))
        return [*found.values()]


def add_all(store: MinHashStore, other: MinHashStore) -> None:
    """Add the documents of another store, as it is now, whose settings are the same. Each batch is one addition.

    An id that is in both has the signatures of both. ValueError for other ids, bands or sketches, and without any.
    """
    writer = store._expect_documents()
    with Reading(other) as snapshot:
        one, two = store._settings, snapshot.settings
        mine, others = (one.id_type, one.bits, one.minhash), (two.id_type, two.bits, two.minhash)
        if mine != others or one.kept is None or not one.ids:
            raise ValueError(f"{other.path}: found {others}, expected {mine}, those of {store.path}")
        for ids, keys in all_documents(snapshot):
            _add(writer, snapshot, ids, keys)


def _add(writer: DocumentWriter, snapshot: Snapshot, ids: Ids, keys: Keys) -> None:
    distinct = np.unique(ids)
    found = sketches_of(snapshot, distinct)
    signed, own = documents_with(keys, ids, distinct[found.of], found.sketches)
    if snapshot.names is None:
        writer.add_documents(signed, own)
    else:
        writer.add_documents(signed, as_names(names_in(snapshot, own), snapshot.settings.id_type == "string", "ids"))


def _banding(snapshot: Snapshot) -> Banding:
    minhash = snapshot.settings.minhash
    assert minhash is not None
    return minhash.banding(snapshot.settings.bits)
