"""Wide codes that are in no segment yet: held in memory as they came, and all compared with every query.

It stands where a PendingIndex does for keys, and grows at its end only. Nothing of it is an index of codes: as many as
wait for a segment are read in a fraction of a millisecond.
"""

import threading

import numpy as np

from fpstore._codes import near, near_first
from fpstore.fingerprints import as_strings
from fpstore.types import Array, Counts, Ids, Keys

# query, code, distance, id, position
Found = tuple[Counts, Keys, Array, Ids | None, Keys]


class PendingCodes:
    """Rows (code, id, position) in the order in which they were added; capacity: how many there is room for.

    searched: 0, as no row is made ready for searches before one is under way.
    """

    searched = 0

    def __init__(self, words: int, *, with_ids: bool, capacity: int) -> None:
        self.capacity, self.count = capacity, 0
        self._lock = threading.Lock()
        self._codes = np.empty((capacity, words), dtype=np.uint64)
        self._ids = np.empty(capacity, dtype=np.uint64) if with_ids else None
        self._positions = np.empty(capacity, dtype=np.uint64)

    def append(self, codes: Keys, ids: Ids | None, position: int, live_since: int = 0) -> None:
        """Add rows for codes (uint64[n, words]) and their ids (uint64[n]; None without), all of this position.

        ValueError, and nothing is added, where there is no room, for ids where there are none, for other codes, and for
        a position before that of the rows added last.
        """
        self._append(codes, ids, np.full(len(codes), position, dtype=np.uint64))

    def _append(self, codes: Keys, ids: Ids | None, positions: Keys) -> None:
        if (ids is None) != (self._ids is None) or codes.shape[1:] != self._codes.shape[1:]:
            raise ValueError(f"rows of {codes.shape[1:]} words, {'no ids' if ids is None else 'ids'}: found other ones")
        with self._lock:
            start, end = self.count, self.count + len(codes)
            if end > self.capacity:
                raise ValueError(f"{len(codes)} rows more than {start}: there is room for {self.capacity}")
            if start and len(positions) and positions[0] < self._positions[start - 1]:
                found, last = positions[0], self._positions[start - 1]
                raise ValueError(f"position: found {found}, expected {last} or later")
            self._codes[start:end], self._positions[start:end] = codes, positions
            if self._ids is not None and ids is not None:
                self._ids[start:end] = ids
            self.count = end  # last: who reads beside sees rows that are whole

    def grown(self, capacity: int, first: int = 0, *, indexed: bool = True) -> "PendingCodes":
        """A new one with the rows from `first` on and more room; this one stays as it is."""
        result = PendingCodes(self._codes.shape[1], with_ids=self._ids is not None, capacity=capacity)
        result._append(*self.rows(first, self.count))
        return result

    def rows_before(self, position: int) -> int:
        """How many rows come before the first that has this position or a later one."""
        return int(self._positions[: self.count].searchsorted(np.uint64(position)))

    def rows(self, first: int, end: int) -> tuple[Keys, Ids | None, Keys]:
        """Rows [first, end) in the order of adding: codes, ids or None, positions."""
        own = slice(first, end)
        return self._codes[own], None if self._ids is None else self._ids[own], self._positions[own]

    def search(self, queries: Keys, distance: int, first: int, end: int, most: int = 0) -> Found:
        """The rows [first, end) whose code is within distance of a query. TooManyMatches for more than most."""
        codes, ids, positions = self.rows(first, end)
        query, at, bits = near(codes, queries, distance, most=most)
        return query, codes[at], bits, None if ids is None else ids[at], positions[at]

    def first(
        self, queries: Keys, distance: int, first: int, end: int, keep: int, after: tuple[Array, Keys] | None
    ) -> tuple[Counts, Keys, Array]:
        """Of rows [first, end) the first `keep` within distance of each query, by distance, code, id and position.

        Where after is given, (distances uint16[m], indexes uint64[m]), those that come after these of the rows. Which
        query, which row, counted from first, and how far; ordered so. Takes memory for these.
        """
        codes, ids, _ = self.rows(first, end)
        query, at, bits = near_first(codes, ids, queries, distance, keep, after)
        columns = [at, *([] if ids is None else [ids[at]]), as_strings(codes[at]), bits, query]
        order = np.lexsort(columns)
        return query[order], at[order], bits[order]

    def rows_at(self, indexes: Keys, first: int) -> tuple[Keys, Ids | None, Keys]:
        """Rows of these indexes, counted from first: codes, ids or None, positions."""
        at = indexes.astype(np.int64) + first
        return self._codes[at], None if self._ids is None else self._ids[at], self._positions[at]
