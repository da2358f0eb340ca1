"""Owns the leaders of documents that are near by the bands which their signatures share: as leaders, in all else.

The nearest is the one whose estimated similarity is the largest, of several the one with the least id. Distances are
numbers of values that differ, of those bits that are kept; Kept.estimates says which similarity each is.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fpstore._turns import Bands, Turns
from fpstore.query.leaders import MOST_LOOKED_AT, Leaders, Seen, ids_of_all
from fpstore.sketches.bands import Signed
from fpstore.sketches.kept import Kept
from fpstore.sketches.memory import Nears
from fpstore.types import Array, Counts, Distances, Ids, Keys

# Where more rows are found for a piece, fewer documents are decided together.
MOST_FOUND = 1 << 21


class SimilarSearched(Protocol):
    """What holds such leaders: a store of signatures with ids that is open for writing, or memory."""

    @property
    def path(self) -> Path:
        """What errors name."""

    @property
    def kept(self) -> Kept:
        """What is kept of each signature."""

    def cut(self, signatures: Array) -> Signed:
        """Signatures as they are compared."""

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """Documents that share a band with each, as SketchMemory tells them."""

    def add(self, own: Signed, ids: Ids) -> None:
        """Hold them, for the next question."""


class _Shared(Bands):
    """The documents of a piece, with their keys and sketches."""

    def __init__(self, keys: Keys, sketches: Keys, kept: Kept, least: float | None) -> None:
        super().__init__(keys, sketches, kept.bits, kept.farthest, kept.most_differing(least))
        self.keys, self.sketches = keys, sketches


class SimilarLeaders(Leaders):
    """The leaders, in what holds signatures."""

    def __init__(self, store: SimilarSearched, least: float | None, next_id: int, threads: int = 1) -> None:
        """least: the estimated similarity from which documents are near; None: all that share a band."""
        super().__init__(store, 0, next_id, threads)
        self._least = least
        self._kept = store.kept
        self._shared: _Shared | None = None
        # The documents of the piece, and the index of the first.
        self._own: Signed | None = None
        self._start = 0

    def _look(self, fingerprints: Any, piece: slice) -> tuple[slice, Seen]:
        own = self._store.cut(fingerprints[piece])
        limit = MOST_LOOKED_AT + 1 if self.looks_on else 1
        found: Nears = self._store.near(own, self._least, limit, MOST_FOUND)
        own = own.part(slice(found.answered))
        assert own.sketches is not None
        ids = ids_of_all(found.id, own.size)
        self._start, self._own = piece.start, own
        self._shared = _Shared(own.keys, own.sketches, self._kept, self._least)
        turns = Turns(self._shared, 0, found.query, found.distance, [ids.copy()], asks=self.looks_on)
        return slice(piece.start, piece.start + own.size), Seen(found.query, found.distance, ids, turns)

    def _hold_leaders(self, fingerprints: Any, leads: Counts, ids: Ids) -> None:
        assert self._own is not None
        self._store.add(self._own.part(leads - self._start), ids)

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
