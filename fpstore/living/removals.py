"""Which fingerprints and which ids were removed, and at which position in the sequence of changes.

A removal stays in memory until no segment is older than it, so adding one and asking for one are both cheap.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from fpstore._merge import mark_at_least, merge_keys, merge_pairs
from fpstore._sort import sort_pairs
from fpstore.living.changes import FINGERPRINTS_REMOVED, IDS_REMOVED, RemovedBefore, split_removed
from fpstore.types import Array, Ids, Keys

# A run is merged into the one before it while that has fewer than this many times its values: of 10^6 values, each is
# copied some 50 times, and is looked for in at most 7 runs.
RUN_RATIO = 8


@dataclass(frozen=True)
class _Removed:
    """Values, each with the last position at which it was removed, as sorted runs from the largest to the smallest."""

    runs: tuple[tuple[Keys, Keys], ...] = ()
    count: int = 0

    def with_values(self, values: Keys, positions: int | Keys) -> Self:
        if not len(values):
            return self
        new = np.array(values), _for_each(values, positions).copy()
        sort_pairs(*new)
        run, runs = _last_of_each(*new), list(self.runs)
        count = self.count + len(run[0]) - int(self.masked(run[0], 0).sum())
        while runs and len(runs[-1][0]) < RUN_RATIO * len(run[0]):
            run = _last_of_each(*merge_pairs(*runs.pop(), *run))
        return type(self)((*runs, run), count)

    def masked(self, values: Keys, positions: int | Keys) -> Array:
        marks = np.zeros(len(values), dtype=np.uint8)
        asked, least = np.ascontiguousarray(values), _for_each(values, positions)
        for run in self.runs:
            mark_at_least(*run, asked, least, marks)
        return marks.view(np.bool_)

    def since(self, position: int) -> Keys:
        found = np.empty(0, dtype=np.uint64)
        for values, positions in reversed(self.runs):
            found = merge_keys(found, values[positions >= np.uint64(position)])
        return found

    def joined(self) -> tuple[Keys, Keys]:
        run = (np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64))
        for other in self.runs:
            run = _last_of_each(*merge_pairs(*run, *other))
        return run

    def later(self, position: int) -> Self:
        if all(bool((positions >= position).all()) for _, positions in self.runs):
            return self
        values, positions = self.joined()
        kept = positions >= np.uint64(position)
        return type(self)().with_values(values[kept], positions[kept])

    @property
    def last_position(self) -> int:
        return max((int(positions.max()) for _, positions in self.runs), default=0)


def _for_each(values: Keys, positions: int | Keys) -> Keys:
    """The position of each value, given each or one for all."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(positions, dtype=np.uint64), len(values)))


def _last_of_each(values: Keys, positions: Keys) -> tuple[Keys, Keys]:
    """Of pairs in order, the last one of each value."""
    last = np.append(values[1:] != values[:-1], True)
    return values[last], positions[last]


@dataclass(frozen=True)
class Removals:
    """Removed fingerprints and removed ids; immutable, so that a reader keeps the ones it began with.

    A removal at a position masks what was stored at that position or before.
    """

    _fingerprints: _Removed = _Removed()
    _ids: _Removed = _Removed()

    @staticmethod
    def none() -> "Removals":
        """Nothing was removed."""
        return Removals()

    def with_fingerprints(self, fingerprints: Keys, positions: int | Keys) -> "Removals":
        """These, and fingerprints (uint64[n], any order) removed at positions, uint64[n] or one for all."""
        return Removals(self._fingerprints.with_values(fingerprints, positions), self._ids)

    def with_ids(self, ids: Ids, positions: int | Keys) -> "Removals":
        """These, and ids (uint64[n], any order) removed at positions, uint64[n] or one for all."""
        return Removals(self._fingerprints, self._ids.with_values(ids, positions))

    @staticmethod
    def of(records: Iterable[RemovedBefore]) -> "Removals":
        """Those of the catalog's records."""
        removals = Removals()
        for record in records:
            add = removals.with_fingerprints if record.kind == FINGERPRINTS_REMOVED else removals.with_ids
            removals = add(record.values, record.numbers)
        return removals

    def since(self, position: int) -> "Removals":
        """Without those before position."""
        return Removals(self._fingerprints.later(position), self._ids.later(position))

    def records_before(self, position: int) -> list[RemovedBefore]:
        """Those before position, as records for the catalog."""
        records: list[RemovedBefore] = []
        for kind, removed in ((FINGERPRINTS_REMOVED, self._fingerprints), (IDS_REMOVED, self._ids)):
            values, positions = removed.joined()
            early = positions < np.uint64(position)
            records += split_removed(kind, values[early], positions[early])
        return records

    def fingerprints_masked(self, fingerprints: Keys, positions: int | Keys) -> Array:
        """Which of fingerprints (uint64[n]) were removed at their position or after: bool[n].

        positions: when each was stored, uint64[n], or one for all.
        """
        return self._fingerprints.masked(fingerprints, positions)

    def ids_masked(self, ids: Ids, positions: int | Keys) -> Array:
        """Which of ids (uint64[n]) were removed at their position or after: bool[n]."""
        return self._ids.masked(ids, positions)

    def fingerprints_since(self, position: int) -> Keys:
        """The distinct fingerprints that were removed at position or after, sorted."""
        return self._fingerprints.since(position)

    def ids_since(self, position: int) -> Ids:
        """The distinct ids that were removed at position or after, sorted."""
        return self._ids.since(position)

    @property
    def last_position(self) -> int:
        """Of the last removal; 0 where there is none."""
        return max(self._fingerprints.last_position, self._ids.last_position)

    def __len__(self) -> int:
        """How many fingerprints and ids were removed, each counted once."""
        return self._fingerprints.count + self._ids.count
