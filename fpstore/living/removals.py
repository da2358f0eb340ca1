"""Which fingerprints, ids and rows were removed, and at which position in the sequence of changes.

A removal stays in memory until no segment is older than it, so adding one and asking for one are both cheap.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import numpy as np

from fpstore._merge import mark_at_least, mark_pairs_at_least, merge_keys, merge_pairs
from fpstore._sort import sort_pairs
from fpstore.fingerprints import as_strings, columns_of, of_columns, of_strings
from fpstore.forks import cached_property
from fpstore.living.changes import FINGERPRINTS_REMOVED, IDS_REMOVED, ROWS_REMOVED, Change, RemovedBefore, split_removed
from fpstore.types import Array, Ids, Keys

# A run is merged into the one before it while that has fewer than this many times its values: of 10^6 values, each is
# copied some 50 times, and is looked for in at most 7 runs.
RUN_RATIO = 8


# Of one removal a row of columns: a value, or a fingerprint and an id; and after these its position. A code, or a code
# and an id, is one value: their string.
_Run = tuple[Keys, ...]


@dataclass(frozen=True)
class _Removed:
    """Values or rows, each with the last position at which it was removed, as sorted runs from the largest on.

    width: how many columns a row has beside the position, 1 or 2.
    """

    width: int = 1
    runs: tuple[_Run, ...] = ()
    count: int = 0

    def having(self, columns: Sequence[Keys], positions: int | Keys) -> Self:
        if not len(columns[0]):
            return self
        run, runs = _sorted_run((*columns, _for_each(columns[0], positions))), list(self.runs)
        count = self.count + len(run[0]) - int(self.masked(run[:-1], 0).sum())
        while runs and len(runs[-1][0]) < RUN_RATIO * len(run[0]):
            run = _merged(runs.pop(), run)
        return replace(self, runs=(*runs, run), count=count)

    def masked(self, columns: Sequence[Keys], positions: int | Keys) -> Array:
        marks = np.zeros(len(columns[0]), dtype=np.uint8)
        asked = [np.ascontiguousarray(column) for column in columns]
        least = _for_each(columns[0], positions)
        mark: Callable[..., None] = mark_at_least if len(columns) == 1 else mark_pairs_at_least
        if asked[0].dtype.kind == "S":
            mark = _mark_strings_at_least
        for run in self.runs:
            mark(*run, *asked, least, marks)
        return marks.view(np.bool_)

    def since(self, position: int) -> Keys:
        """The first column of those from position on: distinct, sorted."""
        found = np.empty(0, dtype=np.uint64)
        for values, *_, positions in reversed(self.runs):
            later = values[positions >= np.uint64(position)]
            found = merge_keys(found, later[np.append(later[1:] != later[:-1], True)] if len(later) else later)
        return found

    def joined(self) -> _Run:
        none = np.empty(0, dtype=np.uint64)
        return reduce(_merged, self.runs) if self.runs else (none,) * (self.width + 1)

    def later(self, position: int) -> Self:
        if all(bool((run[-1] >= position).all()) for run in self.runs):
            return self
        *columns, positions = self.joined()
        kept = positions >= np.uint64(position)
        return type(self)(self.width).having([column[kept] for column in columns], positions[kept])

    @property
    def last_position(self) -> int:
        return max((int(run[-1].max()) for run in self.runs), default=0)


def _for_each(values: Keys, positions: int | Keys) -> Keys:
    """The position of each value, given each or one for all."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(positions, dtype=np.uint64), len(values)))


def _mark_strings_at_least(values: Array, positions: Keys, asked: Array, least: Keys, marks: Array) -> None:
    """As mark_at_least, of strings; values: at least one."""
    at = np.minimum(values.searchsorted(asked), len(values) - 1)
    marks |= (values[at] == asked) & (positions[at] >= least)


def _sorted_run(columns: _Run) -> _Run:
    if len(columns) == 2 and columns[0].dtype == np.uint64:
        run = np.array(columns[0]), columns[1].copy()
        sort_pairs(*run)
        return _last_of_each(run)
    order = np.lexsort(columns[::-1])
    return _last_of_each(tuple(column[order] for column in columns))


def _merged(one: _Run, other: _Run) -> _Run:
    if len(one) == 2 and one[0].dtype == np.uint64:
        return _last_of_each(merge_pairs(*one, *other))
    return _sorted_run(tuple(np.concatenate([a, b]) for a, b in zip(one, other, strict=True)))


def _of_rows(fingerprints: Keys, ids: Ids) -> tuple[Array, ...]:
    """Rows as columns: two, or the strings of codes with their ids."""
    return (fingerprints, ids) if fingerprints.ndim == 1 else (as_strings(np.column_stack([fingerprints, ids])),)


def _last_of_each(run: _Run) -> _Run:
    """Of rows in order, the last position of each."""
    last = np.append(np.logical_or.reduce([column[1:] != column[:-1] for column in run[:-1]]), True)
    return tuple(column[last] for column in run)


@dataclass(frozen=True)
class Removals:
    """Removed fingerprints, of any width, ids and rows; immutable, so that a reader keeps the ones it began with.

    A removal at a position masks what was stored at that position or before.
    """

    _fingerprints: _Removed = _Removed()
    _ids: _Removed = _Removed()
    _rows: _Removed = _Removed(2)

    @staticmethod
    def none() -> "Removals":
        """Nothing was removed."""
        return Removals()

    def with_fingerprints(self, fingerprints: Keys, positions: int | Keys) -> "Removals":
        """These, and fingerprints (uint64[n], any order) removed at positions, uint64[n] or one for all."""
        return replace(self, _fingerprints=self._fingerprints.having((as_strings(fingerprints),), positions))

    def with_ids(self, ids: Ids, positions: int | Keys) -> "Removals":
        """These, and ids (uint64[n], any order) removed at positions, uint64[n] or one for all."""
        return replace(self, _ids=self._ids.having((ids,), positions))

    def with_rows(self, fingerprints: Keys, ids: Ids, positions: int | Keys) -> "Removals":
        """These, and rows (uint64[n] each, any order) removed at positions, uint64[n] or one for all."""
        return replace(self, _rows=self._rows.having(_of_rows(fingerprints, ids), positions))

    def with_change(self, change: Change) -> "Removals":
        """These, and those of a change that is a removal."""
        return self._with(change.kind, change.columns, change.number)

    def _with(self, kind: int, columns: tuple[Keys, ...], positions: int | Keys) -> "Removals":
        if kind == FINGERPRINTS_REMOVED:
            return self.with_fingerprints(of_columns(columns), positions)
        if kind == IDS_REMOVED:
            return self.with_ids(columns[0], positions)
        return self.with_rows(of_columns(columns[:-1]), columns[-1], positions)

    @staticmethod
    def of(records: Iterable[RemovedBefore]) -> "Removals":
        """Those of the catalog's records."""
        removals = Removals()
        for record in records:
            removals = removals._with(record.kind, record.columns, record.numbers)
        return removals

    def since(self, position: int) -> "Removals":
        """Without those before position."""
        return Removals(self._fingerprints.later(position), self._ids.later(position), self._rows.later(position))

    def records_before(self, position: int) -> list[RemovedBefore]:
        """Those before position, as records for the catalog."""
        records: list[RemovedBefore] = []
        kinds = (FINGERPRINTS_REMOVED, self._fingerprints), (IDS_REMOVED, self._ids), (ROWS_REMOVED, self._rows)
        for kind, removed in kinds:
            *columns, positions = removed.joined()
            early = positions < np.uint64(position)
            kept = [each for column in columns for each in columns_of(of_strings(column[early]))]
            records += split_removed(kind, kept, positions[early])
        return records

    def fingerprints_masked(self, fingerprints: Keys, positions: int | Keys) -> Array:
        """Which of fingerprints (uint64[n]) were removed at their position or after: bool[n].

        positions: when each was stored, uint64[n], or one for all.
        """
        if not self._fingerprints.runs:
            return np.zeros(len(fingerprints), dtype=bool)
        return self._fingerprints.masked((as_strings(fingerprints),), positions)

    def ids_masked(self, ids: Ids, positions: int | Keys) -> Array:
        """Which of ids (uint64[n]) were removed at their position or after: bool[n]."""
        return self._ids.masked((ids,), positions)

    def rows_masked(self, fingerprints: Keys, ids: Ids, positions: int | Keys) -> Array:
        """Which of these rows (uint64[n] each) were removed as such at their position or after: bool[n]."""
        return self._rows.masked(_of_rows(fingerprints, ids), positions)

    def row_fingerprints_since(self, position: int) -> Keys:
        """The distinct fingerprints of which a row was removed at position or after, sorted."""
        return self._rows.since(position)

    def fingerprints_since(self, position: int) -> Keys:
        """The distinct fingerprints that were removed at position or after, sorted."""
        return self._fingerprints.since(position)

    def ids_since(self, position: int) -> Ids:
        """The distinct ids that were removed at position or after, sorted."""
        return self._ids.since(position)

    @cached_property
    def last_position(self) -> int:
        """Of the last removal; 0 where there is none."""
        return max(self._fingerprints.last_position, self._ids.last_position, self._rows.last_position)

    @property
    def has_rows(self) -> bool:
        """Whether rows were removed, a fingerprint with one id."""
        return self._rows.count > 0

    def __len__(self) -> int:
        """How many fingerprints, ids and rows were removed, each counted once."""
        return self._count

    @cached_property
    def _count(self) -> int:  # asked for with every call
        return self._fingerprints.count + self._ids.count + self._rows.count
