"""Owns the leaders of documents that are near by the bands which their signatures share: as leaders, in all else.

The nearest is the one whose estimated similarity is the largest, of several the one with the least id. Distances are
numbers of values that differ, of those bits that are kept; Kept.estimates says which similarity each is.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fpstore._turns import Bands, Turns
from fpstore.errors import TooManyMatches
from fpstore.query.leaders import MOST_LOOKED_AT, Leaders, Seen, ids_of_all
from fpstore.query.similar import SimilarMatches
from fpstore.sketches.kept import Kept
from fpstore.types import Array, Counts, Distances, Ids, Keys

# Where more rows are found for a piece, fewer documents are decided together.
MOST_FOUND = 1 << 21


class SimilarSearched(Protocol):
    """What holds such leaders: a store of signatures with ids that is open for writing."""

    @property
    def path(self) -> Path:
        """What errors name."""

    @property
    def kept(self) -> Kept:
        """What is kept of each signature."""

    def probe_many(
        self, signatures: object, *, min_similarity: float | None = None, threads: int | None = None
    ) -> SimilarMatches:
        """All documents that share a band with each."""

    def in_bands(self, signatures: object) -> tuple[Keys, Keys]:
        """The keys of the bands of each, and what is kept of it: uint64[n, bands] and uint64[n, words]."""

    def add(self, signatures: object, *, ids: Ids) -> None:
        """Hold them, for the next question."""


class _Shared(Bands):
    """The documents of a piece, with their keys and sketches."""

    def __init__(self, keys: Keys, sketches: Keys, kept: Kept, least: float | None) -> None:
        super().__init__(keys, sketches, kept.bits, kept.farthest, kept.most_differing(least))
        self.keys, self.sketches = keys, sketches


class SimilarLeaders(Leaders):
    """The leaders, in a store of signatures."""

    def __init__(self, store: SimilarSearched, least: float | None, next_id: int, threads: int = 1) -> None:
        """least: the estimated similarity from which documents are near; None: all that share a band."""
        super().__init__(store, 0, next_id, threads)
        self._least = least
        self._kept = store.kept
        self._shared: _Shared | None = None

    def _look(self, fingerprints: Any, piece: slice) -> tuple[slice, Seen]:
        while True:
            signatures = fingerprints[piece]
            try:
                found: SimilarMatches = self._store.probe_many(
                    signatures, min_similarity=self._least, threads=self._threads
                )
                if len(found) <= MOST_FOUND or len(signatures) == 1:
                    break
            except TooManyMatches:
                if len(signatures) == 1:
                    raise
            piece = slice(piece.start, piece.start + len(signatures) // 2)
        query, distance = found.query, self._kept.differing(found.similarity)
        few = (_ranks(query) <= MOST_LOOKED_AT) | (distance == 0)
        query, distance = query[few], distance[few]
        ids = ids_of_all(None if found.id is None else found.id[few], len(signatures))
        keys, sketches = self._store.in_bands(signatures)
        self._shared = _Shared(keys, sketches, self._kept, self._least)
        turns = Turns(self._shared, 0, query, distance, [ids.copy()], asks=self.looks_on)
        return piece, Seen(query, distance, ids, turns)

    def _sign(self, documents: Any, index: int) -> Hashable:
        assert self._shared is not None
        sign: bytes = self._shared.keys[index].tobytes() + self._shared.sketches[index].tobytes()
        return sign

    def _is_same(self, documents: Any, seen: Seen, index: int, row: int) -> bool:
        if row < seen.found:
            return bool(seen.distance[row] == 0)
        assert self._shared is not None
        return bool((self._shared.sketches[row - seen.found] == self._shared.sketches[index]).all())

    def _distances(self, documents: Any, seen: Seen) -> Distances:
        assert self._shared is not None
        rows = seen.turns.rows
        distances: Distances = np.zeros(len(rows), dtype=np.uint16)
        before, within = (rows >= 0) & (rows < seen.found), rows >= seen.found
        distances[before] = seen.distance[rows[before]]
        distances[within] = self._shared.distances(np.flatnonzero(within), rows[within] - seen.found)
        return distances

    def _ids_of_sign(self, documents: Any, seen: Seen, index: int) -> list[int]:
        first, end = np.searchsorted(seen.query, [index, index + 1]).tolist()
        return list(seen.ids[first:end][seen.distance[first:end] == 0].tolist())


def _ranks(query: Counts) -> Array:
    """The place of each row among those of its query, from 0 on."""
    rows = np.arange(len(query))
    first = np.diff(query, prepend=-1) != 0
    ranks: Array = rows - np.maximum.accumulate(np.where(first, rows, 0))
    return ranks
