"""Owns the leaders of a stream: which document is near one, and which becomes one itself.

A document that is near none becomes a leader and gets the next id. One that is near some goes to the nearest of them,
of several at one distance to that with the least id. Which is the same in batches of any size.
"""

from collections.abc import Sequence

import numpy as np

from fpstore import Store
from fpstore.types import Array, Keys

# How many documents are looked up at once, and compared with each other.
SLICE = 256

# What becomes of a document. leads: whether it is a leader. id: its own then, else that of its leader. distance: to
# that. measure: how alike the two are, where that was checked, else NaN.
VERDICT = np.dtype([("id", "<u8"), ("measure", "<f8"), ("distance", "u1"), ("leads", "?")])

# A leader that a document is near: its distance, its id.
Near = tuple[int, int]


class Leaders:
    """The leaders, in a store with ids that is open for writing."""

    def __init__(self, store: Store, k: int, next_id: int) -> None:
        self._store = store
        self._k = k
        self.next_id = next_id

    def decide(self, fingerprints: Keys) -> Array:
        """What becomes of documents, each seen as coming after those before it: VERDICT[n]; leaders are stored."""
        verdicts = np.zeros(len(fingerprints), dtype=VERDICT)
        for start in range(0, len(fingerprints), SLICE):
            own = slice(start, start + SLICE)
            self._decide_slice(fingerprints[own], start, verdicts[own])
            leads = np.flatnonzero(verdicts["leads"][own]) + start
            self._store.add(fingerprints[leads], verdicts["id"][leads])
            self._stored(leads.tolist(), verdicts["id"][leads].tolist())
        return verdicts

    def _choose(self, index: int, near: Sequence[Near]) -> tuple[Near, float] | None:
        """The leader of a document among those it is near, the nearest first, and how alike they are.

        None where it becomes one itself, with the next id.
        """
        return (near[0], np.nan) if near else None

    def _stored(self, indexes: list[int], ids: list[int]) -> None:
        """These documents have become leaders."""

    def _decide_slice(self, keys: Keys, start: int, verdicts: Array) -> None:
        """Fill in the verdicts of documents of which none is stored yet; start: the index of the first."""
        count = len(keys)
        ends, near_rows = nearest_rows(self._store, keys, self._k)
        apart = np.bitwise_count(keys[:, None] ^ keys[None, :])
        one, other = np.nonzero(np.tril(apart <= self._k, -1))
        neighbours = np.searchsorted(one, np.arange(count + 1)).tolist()
        leads, ids = verdicts["leads"], verdicts["id"]
        for i in range(count):
            near = near_rows[ends[i] : ends[i + 1]]
            if neighbours[i] < neighbours[i + 1]:
                earlier = other[neighbours[i] : neighbours[i + 1]]
                earlier = earlier[leads[earlier]]
                if len(earlier):
                    near = sorted([*near, *zip(apart[i, earlier].tolist(), ids[earlier].tolist(), strict=True)])
            found = self._choose(start + i, near)
            if found is None:
                verdicts[i] = (self.next_id, np.nan, 0, True)
                self.next_id += 1
            else:
                (distance, leader), measure = found
                verdicts[i] = (leader, measure, distance, False)


def nearest_rows(store: Store, keys: Keys, k: int) -> tuple[list[int], list[Near]]:
    """What is stored near each of keys: (distance, id), in that order, those of key i from ends[i] to ends[i + 1]."""
    found = store.probe_many(keys, k, threads=1)
    ids = np.empty(0, dtype=np.uint64) if found.id is None else found.id
    order = np.lexsort((ids, found.distance, found.query))
    ends = np.searchsorted(found.query, np.arange(len(keys) + 1)).tolist()
    return ends, list(zip(found.distance[order].tolist(), ids[order].tolist(), strict=True))
