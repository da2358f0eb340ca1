"""Documents in memory alone, by the bands of their signatures: those that leaders are compared with."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore._band_index import MOST_ROWS as MOST_ROWS
from fpstore._band_index import BandIndex
from fpstore.sketches.bands import Banding, Signed
from fpstore.sketches.kept import Kept
from fpstore.types import Array, Counts, Distances, Ids


class Nears(NamedTuple):
    """The documents near each of the first `answered` that were asked for: ordered by query, then distance, then id.

    query: int64[m], distance: uint16[m], in how many values they differ; id: uint64[m].
    """

    answered: int
    query: Counts
    distance: Distances
    id: Ids

    @classmethod
    def of(cls, answered: int, query: Counts, distance: Distances, id: Ids, limit: int) -> "Nears":
        """Of what was found, in any order: of each query the nearest `limit`, and all that differ in no value."""
        known = query < answered
        query, distance, id = query[known], distance[known], id[known]
        order = np.lexsort((id, distance, query))
        query, distance, id = query[order], distance[order], id[order]
        rows = np.arange(len(query))
        first = np.diff(query, prepend=-1) != 0
        kept = (rows - np.maximum.accumulate(np.where(first, rows, 0)) < limit) | (distance == 0)
        return cls(answered, query[kept], distance[kept], id[kept])


class SketchMemory:
    """Documents whose ids follow one another: some 260 bytes for each, with 16 bands. Has one user at a time."""

    path = Path("memory")

    def __init__(self, banding: Banding, kept: Kept, first_id: int = 0) -> None:
        """banding: of 64 bits. first_id: that of the first one."""
        self._banding, self.kept, self._first_id = banding, kept, first_id
        self._index = BandIndex(banding.bands, kept.words, kept.bits, kept.farthest)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self._index.nbytes

    def cut(self, signatures: Array) -> Signed:
        """Signatures, integers[n, values], as they are compared."""
        return Signed(self._banding.keys(signatures), self.kept.sketches(signatures))

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """Those that share a band with each, and have an estimated similarity of `least`: at most `limit` of each.

        But all that differ in no value. No more are answered than come to most_rows rows, but one at least.
        """
        assert own.sketches is not None
        most = self.kept.most_differing(least)
        answered, query, row, distance = self._index.near(own.keys, own.sketches, limit, most, most_rows)
        row += np.uint64(self._first_id)
        return Nears(answered, query, distance, row)

    def add(self, own: Signed, ids: Ids) -> None:
        """Hold more; ids: those that follow. ValueError for more than MOST_ROWS in all."""
        assert own.sketches is not None
        assert not len(ids) or int(ids[0]) == self._first_id + len(self)
        self._index.add(own.keys, own.sketches)
