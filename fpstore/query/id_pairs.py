"""All pairs of rows within a distance: those that share a fingerprint, and the ids of each two that are near.

What is held beside the join of the fingerprints is bounded, however many ids a fingerprint has: the pairs of two large
groups of ids are made in rectangles, and those of small groups together, PAIRS_AT_ONCE at a time.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fpstore.plans.permutation import Permutation
from fpstore.query.pairs import Joined, Only, Stretch, segment_joins
from fpstore.query.tables import Table, read_only
from fpstore.segment.reader import Segment
from fpstore.types import Array, Distances, Ids, Keys

SIDE = 256
PAIRS_AT_ONCE = SIDE * SIDE
# The pairs of rows of one fingerprint, among the stretches of a search for pairs of rows.
OWN_ROWS = Stretch(-1, 0, 0, 1)


class IdPair(NamedTuple):
    """The ids of two rows whose fingerprints are equal or near; first_id < second_id.

    Numbers are compared without a sign, names by their bytes.
    """

    first_id: int
    second_id: int
    distance: int


class IdPairs(Table[IdPair]):
    """Pairs of ids as columns: one for each two rows of different ids, in no particular order."""

    __slots__ = ()

    NAMES = ("first_id", "second_id", "distance")
    FINGERPRINTS = ()

    _columns: tuple[Array, Array, Distances]

    def __init__(self, first_id: Array, second_id: Array, distance: Array) -> None:
        self._columns = read_only(first_id, second_id, distance)

    @property
    def first_id(self) -> Array:
        """uint64[m], or names: the smaller of the two ids, as a number without a sign, or by its bytes."""
        return self._columns[0]

    @property
    def second_id(self) -> Array:
        """As first_id: the larger."""
        return self._columns[1]

    @property
    def distance(self) -> Distances:
        """uint16[m]: in how many bits their fingerprints differ; 0 for equal ones."""
        return self._columns[2]

    def _records(self, columns: Sequence[Any]) -> Iterator[IdPair]:
        return map(IdPair._make, zip(*columns, strict=True))


class IdValues(Protocol):
    """Where the ids of groups are."""

    def values(self, firsts: Array, counts: Array) -> Ids:
        """The ids at [firsts[i], firsts[i] + counts[i]), one range after the other."""
        ...


class Groups(NamedTuple):
    """Pairs of groups of ids, each group a range of ids, which increase in it.

    firsts, counts, other_firsts, other_counts: uint64[n]; distance: uint16[n]. is_own: each pair is a group and itself.
    """

    firsts: Array
    counts: Array
    other_firsts: Array
    other_counts: Array
    distance: Distances
    is_own: bool
    ids: IdValues

    def take(self, which: Any) -> "Groups":
        """Some of them."""
        firsts, counts, others, other_counts, distance, is_own, ids = self
        return Groups(firsts[which], counts[which], others[which], other_counts[which], distance[which], is_own, ids)

    @property
    def is_large(self) -> Array:
        """Which make more pairs than are held at once: bool[n]. As floats, as the product of integers may wrap."""
        return self.counts.astype(np.float64) * self.other_counts > PAIRS_AT_ONCE


class Rows(Joined, Protocol):
    """What pairs of rows are looked for in: see OfSegment."""

    def own_groups(self) -> Iterator[tuple[Groups, float]]:
        """The ids of each fingerprint that has several, with the share of the rows that lies before them."""
        ...

    def near_groups(self, first: Keys, second: Keys, bits: Array) -> Iterator[Groups]:
        """The ids of both fingerprints of each pair."""
        ...


class OfSegment:
    """The rows of a segment that has ids."""

    def __init__(self, segment: Segment) -> None:
        assert segment.ids is not None
        self._segment, self._ids = segment, segment.ids
        self.path, self.key_count, self.tables = segment.path, segment.key_count, segment.tables
        self.view, self.keys = segment.view, segment.keys

    def own_groups(self) -> Iterator[tuple[Groups, float]]:
        """As Rows says."""
        segment, ids, done = self._segment, self._ids, 0
        permutation = Permutation(segment.tables[0].prefix_mask, segment.view.bits)
        if segment.record.id_count > segment.key_count:
            for keys in segment.keys(0):
                for start in range(0, len(keys), PAIRS_AT_ONCE):
                    firsts, counts = ids.ranges(permutation.invert(keys[start : start + PAIRS_AT_ONCE]))
                    own = Groups(firsts, counts, firsts, counts, np.zeros(len(firsts), dtype=np.uint16), True, ids)
                    yield own.take(counts > 1), done / segment.key_count
                done += len(keys)

    def near_groups(self, first: Keys, second: Keys, bits: Array) -> Iterator[Groups]:
        """As Rows says."""
        ids = self._ids
        yield Groups(*ids.ranges(first), *ids.ranges(second), bits.astype(np.uint16), False, ids)


def near_groups(rows: Rows, distance: int, memory_bytes: int, only: Only = None) -> Iterator[tuple[Groups, float]]:
    """The groups whose ids make all pairs of rows within distance, each with the share of the work before it.

    only: of some stretches, among which OWN_ROWS may be. memory_bytes and what is raised: as for pairs.segment_joins.
    """
    passes = len(rows.tables) + 1
    if only is None or OWN_ROWS in only:
        for groups, share in rows.own_groups():
            yield groups, share / passes
    others = None if only is None else [stretch for stretch in only if stretch != OWN_ROWS]
    for join, share in segment_joins(rows, distance, memory_bytes, others):
        while not join.done:
            for groups in rows.near_groups(*join.next()):
                yield groups, (1 + share * len(rows.tables)) / passes


def id_pairs(groups: Groups) -> Iterator[IdPairs]:
    """The pairs of rows that groups make, at most PAIRS_AT_ONCE at a time; of two rows with one id, none."""
    ids, is_large = groups.ids, groups.is_large
    small = groups.take(~is_large)
    if len(small.counts):
        # As many as reach PAIRS_AT_ONCE at most: each makes that many at most.
        ends = np.cumsum(small.counts * small.other_counts)
        start = 0
        while start < len(ends):
            before = ends[start - 1] if start else np.uint64(0)
            end = max(start + 1, int(ends.searchsorted(before + np.uint64(PAIRS_AT_ONCE), side="right")))
            yield _product(ids, small.take(slice(start, end)))
            start = end
    large = groups.take(is_large)
    for index in range(len(large.counts)):
        for square in _squares(large.take(slice(index, index + 1))):
            yield _product(ids, square)


def id_pair_count(groups: Groups) -> int:
    """How many pairs id_pairs would yield, without making them."""
    if groups.is_own:
        return sum(count * (count - 1) // 2 for count in groups.counts.tolist())
    is_large = groups.is_large
    total = sum(map(len, id_pairs(groups.take(~is_large))))
    large, ids = groups.take(is_large), groups.ids
    for first, count, other, other_count in _ranges(large):
        total += count * other_count - _shared_count(ids, (first, first + count), (other, other + other_count))
    return total


def _product(ids: IdValues, groups: Groups) -> IdPairs:
    """All pairs of rows of groups that are small enough to be held."""
    with_each = np.repeat(groups.other_counts, groups.counts.astype(np.int64)).astype(np.int64)
    left = np.repeat(ids.values(groups.firsts, groups.counts), with_each)
    # The j-th row of the others, of each row of the first.
    starts = np.cumsum(groups.other_counts) - groups.other_counts
    at = np.repeat(np.repeat(starts, groups.counts.astype(np.int64)).astype(np.int64), with_each)
    at += np.arange(len(at)) - np.repeat(np.cumsum(with_each) - with_each, with_each)
    right = ids.values(groups.other_firsts, groups.other_counts)[at]
    distance = np.repeat(groups.distance, (groups.counts * groups.other_counts).astype(np.int64))
    # Of one group each two rows are met twice, of a square of it once: there all of one side are below the other's.
    own = groups.is_own and bool((groups.firsts == groups.other_firsts).all())
    kept = left < right if own else left != right
    left, right = left[kept], right[kept]
    return IdPairs(np.minimum(left, right), np.maximum(left, right), distance[kept])


def _squares(pair: Groups) -> Iterator[Groups]:
    """One pair of groups as many small ones; of a group and itself those above the diagonal, and on it."""
    ((first, count, other, other_count),) = _ranges(pair)
    height = min(count, SIDE)
    width = height if pair.is_own else PAIRS_AT_ONCE // height
    for row in range(0, count, height):
        for column in range(row if pair.is_own else 0, other_count, width):
            sides = (first + row, min(height, count - row), other + column, min(width, other_count - column))
            one, one_count, another, another_count = (np.array([side], dtype=np.uint64) for side in sides)
            yield Groups(one, one_count, another, another_count, pair.distance, pair.is_own, pair.ids)


def _ranges(groups: Groups) -> list[tuple[int, int, int, int]]:
    columns = (groups.firsts, groups.counts, groups.other_firsts, groups.other_counts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _shared_count(ids: IdValues, one: tuple[int, int], other: tuple[int, int]) -> int:
    """How many ids two increasing ranges of them share, read piece by piece."""
    shared, ranges = 0, [one, other]
    held: list[Ids] = [np.empty(0, dtype=np.uint64)] * 2
    while True:
        for side, (start, end) in enumerate(ranges):
            if not len(held[side]):
                count = min(PAIRS_AT_ONCE, end - start)
                held[side] = _read(ids, start, count)
                ranges[side] = (start + count, end)
        if not (len(held[0]) and len(held[1])):
            return shared
        cut = min(held[0][-1], held[1][-1])
        ends = [int(each.searchsorted(cut, side="right")) for each in held]
        shared += len(np.intersect1d(held[0][: ends[0]], held[1][: ends[1]], assume_unique=True))
        held = [each[end:] for each, end in zip(held, ends, strict=True)]


def _read(ids: IdValues, start: int, count: int) -> Keys:
    return ids.values(np.array([start], dtype=np.uint64), np.array([count], dtype=np.uint64))
