"""Owns how a job sees a store whose ids are names: by numbers, as it sees any other.

A document that this job keeps has a number of its own, under which the record has its name. What the store has goes by
its handle, which is the store's own number for a name and is smaller than any of those.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fpstore import Matches, Store
from fpstore.fingerprints import as_numbers, as_strings, distinct, repeats
from fpstore.inputs import BadInput
from fpstore.inputs.cells import MAX_NAME_BYTES
from fpstore.jobs.spool import Spool
from fpstore.notes import FIRST_NUMBER
from fpstore.types import Array, Counts, Ids, Keys

_AT_ONCE = 1 << 16


class NamedRows:
    """A store with names, as leaders see it."""

    lacking = 0

    def __init__(self, store: Store, spool: Spool) -> None:
        self._store, self._spool = store, spool
        # Where it is looked what is near.
        self._seen = store
        store._gives_handles = True

    @property
    def path(self) -> Path:
        """That of the store."""
        return self._store.path

    def nearest_many(
        self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """As of a store."""
        return self._seen.nearest_many(fingerprints, count, max_distance=max_distance, threads=threads)

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """As of a store."""
        return self._seen.probe_many(fingerprints, max_distance=max_distance)

    def known(self, keys: Keys, names: Sequence[str]) -> Array:
        """Whether the store has these rows already, bool[n]. What is near nothing is no row yet."""
        return np.zeros(len(keys), dtype=bool)

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Store documents of the record, given their numbers."""
        self._store.add(fingerprints, ids=self._spool.names(ids))

    def sync(self) -> None:
        """As of a store."""
        self._store.sync()

    def names(self, ids: Ids) -> list[str]:
        """What documents are called."""
        return names_of(ids, self._spool, self._store._names_of)


class ConfirmedRows(NamedRows):
    """The same where a name can have several texts, or leads clusters: documents are known by their numbers alone.

    They are in a store of the job's own, which is made of the record whenever the job begins or goes on.
    """

    def __init__(self, store: Store, spool: Spool, scratch: Store) -> None:
        super().__init__(store, spool)
        self._seen = scratch
        self.lacking = self._fill()

    def _fill(self) -> int:
        """Put those documents of the record into the job's own store that the other has; how many others that has."""
        ids, keys = self._spool.rows()
        for at in range(0, len(ids), _AT_ONCE):
            self._seen.add(keys[at : at + _AT_ONCE].copy(), ids=ids[at : at + _AT_ONCE].copy())
        names, live, lacking = self._spool.all_names(), np.zeros(len(ids), dtype=bool), 0
        column = as_strings(keys)
        order = np.argsort(column, kind="stable")
        in_order = column[order]
        for rows in self._store.rows():
            assert rows.id is not None
            # Each once, as rows of one fingerprint lie together; np.unique takes three times as long.
            own_column = as_strings(rows.fingerprint)
            numbers = order[_places(in_order, own_column[~repeats(rows.fingerprint)])]
            if np.array_equal(keys[numbers], rows.fingerprint) and self._store._stand_for(rows.id, *names, numbers):
                live[numbers] = True  # as a rule, and in a third of the time
                continue
            handles, known = self._store._handles_of(*names, numbers)
            there, own = _shared(own_column, rows.id, column[numbers][known], handles[known])
            live[numbers[known][own]] = True
            lacking += int((~there).sum())
        live &= ~self._spool.came_again()
        for at in range(0, len(ids), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            if not live[part].all():
                self._seen.remove(ids=ids[part][~live[part]])
        return lacking

    def rows(self, batch: int) -> Iterator[tuple[Ids, Keys]]:
        """Number and fingerprint of each document that the store still has."""
        for rows in self._seen.rows(batch=batch):
            assert rows.id is not None
            yield rows.id, rows.fingerprint

    def _documents(self, keys: Keys) -> tuple[Ids, list[tuple[int, str | None]]]:
        """The documents of these fingerprints: numbers, and fingerprint and name of each."""
        found = self._seen.probe_many(keys, max_distance=0)
        assert found.id is not None
        return found.id, list(zip(as_numbers(found.fingerprint), self._spool.names(found.id), strict=True))

    def known(self, keys: Keys, names: Sequence[str]) -> Array:
        """Whether the store has these rows already, bool[n]: where an earlier text of the name was not alike."""
        there = set(self._documents(distinct(keys)[0])[1])
        rows = zip(as_numbers(keys), names, strict=True)
        return np.fromiter((row in there for row in rows), dtype=bool, count=len(keys))

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Store documents of the record, given their numbers."""
        self._seen.add(fingerprints, ids=ids)
        super().add(fingerprints, ids=ids)


def names_of(ids: Ids, spool: Spool, in_store: Callable[[Ids], Sequence[str | bytes]]) -> list[str]:
    """What documents are called: those of the record there, and by in_store those of a store."""
    own = ids >= np.uint64(FIRST_NUMBER)
    found = np.empty(len(ids), dtype=object)
    found[own] = spool.names(ids[own])
    found[~own] = in_store(ids[~own])
    names: list[str] = found.tolist()
    return names


def _places(sorted_keys: Array, wanted: Array) -> Counts:
    """Where wanted keys, each once, are in sorted_keys, one after the other: int64[m]."""
    first = sorted_keys.searchsorted(wanted)
    counts = sorted_keys.searchsorted(wanted, side="right") - first
    before = np.cumsum(counts) - counts
    places: Counts = np.arange(counts.sum()) + np.repeat(first - before, counts)
    return places


def _shared(keys: Array, ids: Ids, other_keys: Array, other_ids: Ids) -> tuple[Array, Array]:
    """Which pairs of two columns are among those of two others, bool[n], and the other way round, bool[m]."""
    all_keys, all_ids = np.concatenate([keys, other_keys]), np.concatenate([ids, other_ids])
    order = np.lexsort([all_ids, all_keys])
    fresh = np.ones(len(order), dtype=bool)
    in_order = all_keys[order]
    fresh[1:] = (in_order[1:] != in_order[:-1]) | (np.diff(all_ids[order]) != 0)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(fresh) - 1
    own, others = places[: len(keys)], places[len(keys) :]
    has_own, has_other = np.zeros(len(order), dtype=bool), np.zeros(len(order), dtype=bool)
    has_own[own], has_other[others] = True, True
    return has_other[own], has_own[others]


def fault_of_name(name: str) -> BadInput | None:
    """What is wrong with the name of a document that could be no id; None of all others."""
    if len(name) > MAX_NAME_BYTES // 4 and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        found = f"found a name of {len(name)} characters, expected at most {MAX_NAME_BYTES:,} bytes"
        return BadInput(f"{name[:80]}: {found}, which a store takes")
    try:
        name.encode()
    except UnicodeEncodeError:
        told = f"{name!a}: found a name that is no UTF-8, expected one that a store takes"
        return BadInput(f"{told}; rename the file, or name the documents by a column (--id-column)")
    return None
