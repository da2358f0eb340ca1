"""The pending fingerprints: found as by brute force for every state of the index, whatever is added meanwhile."""

# mypy: disable-error-code="arg-type, index, operator, union-attr"

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import KINDS, LAST, brute_force, distinct, fingerprint_array, flipped, key_sets, product_plans, uniform
from hypothesis import given
from hypothesis import strategies as st

from fpstore._pending import PendingIndex
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.types import Keys

BALANCED = plans.flips(3, (1, 0, 0), 3)
MANY = 1_000_000
PLANS = product_plans()
# (query, fingerprint, distance, id, position), and (fingerprint, id, position); an id is 0 without ids
Found = list[tuple[int, int, int, int, int]]
Row = tuple[int, int, int]


def index_of(plan: Plan = BALANCED, *, with_ids: bool = True, capacity: int = 100) -> PendingIndex:
    masks, flips = [table.prefix_mask for table in plan.tables], [table.flips for table in plan.tables]
    return PendingIndex(masks, flips, with_ids=with_ids, capacity=capacity)


def filled(keys: Keys, plan: Plan = BALANCED, *, capacity: int | None = None) -> PendingIndex:
    """Without ids, every key at position 1."""
    index = index_of(plan, with_ids=False, capacity=len(keys) if capacity is None else capacity)
    index.append(keys, None, 1)
    return index


def found_in(index: PendingIndex, queries: Keys, distance: int, end: int | None = None) -> Found:
    query, fingerprint, bits, ids, position = index.search(queries, distance, index.count if end is None else end)
    ids = np.zeros(len(query), dtype=np.uint64) if ids is None else ids
    return list(zip(*(column.tolist() for column in (query, fingerprint, bits, ids, position)), strict=True))


def expected_in(rows: list[Row], queries: Keys, distance: int) -> Found:
    """By looking at every row."""
    found = [
        (query, (key ^ wanted).bit_count(), key, -number, row_id, position)
        for query, wanted in enumerate(queries.tolist())
        for number, (key, row_id, position) in enumerate(rows)
        if (key ^ wanted).bit_count() <= distance
    ]
    return [(query, key, bits, row_id, position) for query, bits, key, _, row_id, position in sorted(found)]


class PlainIndex:
    """The slow twin: a list of rows, and of those of them that a search finds."""

    def __init__(self, with_ids: bool) -> None:
        self.with_ids = with_ids
        self.rows: list[Row] = []
        self.is_found: list[bool] = []
        self.live_since = 0

    def append(self, keys: list[int], ids: list[int], position: int, live_since: int) -> None:
        self.rows += [(key, row_id if self.with_ids else 0, position) for key, row_id in zip(keys, ids, strict=True)]
        self.live_since = max(self.live_since, live_since if keys else 0)

    def index(self) -> None:
        for key, row_id, _ in self.rows[len(self.is_found) :]:
            newest = next((row for row in reversed(self.found(len(self.is_found))) if row[0] == key), None)
            new = newest is None or newest[2] < self.live_since or (self.with_ids and newest[1] != row_id)
            self.is_found.append(new)

    def indexed_anew(self) -> "PlainIndex":
        """As it grows: what was passed over then is not now, if something was removed since."""
        grown = PlainIndex(self.with_ids)
        grown.rows, grown.live_since = [*self.rows], self.live_since
        grown.index()
        return grown

    def found(self, end: int) -> list[Row]:
        return [row for row, is_found in zip(self.rows[:end], self.is_found, strict=False) if is_found]


def test_a_row_has_its_query_fingerprint_distance_id_and_position() -> None:
    index = index_of()
    index.append(fingerprint_array([0b1000, 1 << 63]), fingerprint_array([7, LAST]), 5)
    index.append(fingerprint_array([0b1011]), fingerprint_array([0]), 1 << 63)
    columns = index.search(fingerprint_array([0b1001, LAST, 0]), 2, 3)
    assert [column.dtype for column in columns] == [np.int64, np.uint64, np.uint16, np.uint64, np.uint64]
    expected = [(0, 8, 1, 7, 5), (0, 11, 1, 0, 1 << 63), (2, 8, 1, 7, 5), (2, 1 << 63, 1, LAST, 5)]
    assert found_in(index, fingerprint_array([0b1001, LAST, 0]), 2) == expected


def test_without_ids_the_column_of_ids_is_none() -> None:
    index = filled(fingerprint_array([5]))
    assert index.search(fingerprint_array([5]), 0, 1)[3] is None
    assert index.search(fingerprint_array([LAST]), 0, 1)[3] is None
    assert index.rows(0, 1)[1] is None
    assert not index.with_ids


def test_what_is_not_found_has_columns_of_the_same_types() -> None:
    index = index_of()
    index.append(fingerprint_array([LAST]), fingerprint_array([1]), 1)
    for queries, end in ((fingerprint_array([0]), 1), (fingerprint_array([LAST]), 0), (fingerprint_array([]), 1)):
        columns = index.search(queries, 3, end)
        assert [len(column) for column in columns] == [0] * 5
        assert [column.dtype for column in columns] == [np.int64, np.uint64, np.uint16, np.uint64, np.uint64]


def test_of_equal_fingerprints_the_newest_row_comes_first() -> None:
    index = index_of()
    for position, row_id in enumerate((30, 10, 20)):
        index.append(fingerprint_array([9]), fingerprint_array([row_id]), position)
    query = fingerprint_array([9])
    assert found_in(index, query, 0) == [(0, 9, 0, 20, 2), (0, 9, 0, 10, 1), (0, 9, 0, 30, 0)]
    assert found_in(index, query, 0, 2) == [(0, 9, 0, 10, 1), (0, 9, 0, 30, 0)]


def positions_of(index: PendingIndex, *keys: int) -> list[tuple[int, int]]:
    """The id and the position of each row that a search finds of them, the newest of each first."""
    return [row[3:] for row in found_in(index, fingerprint_array([*keys]), 0)]


def test_without_ids_a_fingerprint_that_is_there_is_found_once_unless_it_is_gone_since() -> None:
    index = index_of(with_ids=False)
    for keys, position, live_since, expected in (
        ([1, 2, 1], 10, 0, [(0, 10)]),
        ([1, 2, 3], 11, 0, [(0, 10)]),
        ([1, 3], 12, 11, [(0, 12), (0, 10)]),
        ([1, 1], 13, 13, [(0, 13), (0, 12), (0, 10)]),
    ):
        index.append(fingerprint_array(keys), None, position, live_since)
        assert positions_of(index, 1) == expected
    assert index.count == 10


def test_with_ids_a_row_is_passed_over_where_the_newest_of_its_fingerprint_has_the_same_id() -> None:
    index = index_of()
    for keys, ids, position, live_since, expected in (
        ([1, 1, 1, 2], [5, 5, 6, 5], 10, 0, [(6, 10), (5, 10), (5, 10)]),
        ([1, 1], [6, 5], 11, 0, [(5, 11), (6, 10), (5, 10), (5, 10)]),
        ([1, 2], [5, 5], 12, 11, [(5, 11), (6, 10), (5, 10), (5, 12), (5, 10)]),
    ):
        index.append(fingerprint_array(keys), fingerprint_array(ids), position, live_since)
        assert positions_of(index, 1, 2) == expected
    assert index.rows(0, index.count)[1].tolist() == [5, 5, 6, 5, 6, 5, 5, 5]


def test_what_was_added_before_a_removal_and_after_it_is_found_twice_however_late_the_search_is() -> None:
    index = index_of()
    index.append(fingerprint_array([1, 2]), fingerprint_array([5, 5]), 10, 0)
    index.append(fingerprint_array([1]), fingerprint_array([5]), 12, 11)
    index.append(fingerprint_array([3]), fingerprint_array([5]), 13, 0)
    assert positions_of(index, 1, 2) == [(5, 12), (5, 10), (5, 10)]
    # In what has grown, too, of the later rows.
    later = index.grown(10, 1)
    later.append(fingerprint_array([2]), fingerprint_array([5]), 14, 0)
    assert positions_of(later, 1, 2) == [(5, 12), (5, 14), (5, 10)]


def test_rows_are_indexed_by_the_first_batch_that_may_see_them() -> None:
    index = index_of(with_ids=False)
    for added in (2, 1):
        before = index.count
        index.append(uniform(added, np.random.default_rng(before)), None, 1)
        assert (index.indexed, index.count) == (before, before + added)
        assert index.grown(50).indexed == (index.count if before else 0)
        assert index.grown(50, before).indexed == 0
        index.search(ONE, 3, before)
        assert index.indexed == before
        index.nearest(ONE, 3, index.count)
        assert index.indexed == index.count


def test_rows_come_back_in_the_order_of_adding() -> None:
    keys = uniform(1000, np.random.default_rng(0))
    index = index_of(capacity=1000)
    index.append(keys[:400], keys[:400] >> np.uint64(1), 3)
    index.append(keys[400:], keys[400:] >> np.uint64(1), 4)
    for first, end in ((0, 1000), (0, 0), (1000, 1000), (399, 401), (17, 18)):
        found = index.rows(first, end)
        assert np.array_equal(found[0], keys[first:end])
        assert np.array_equal(found[1], keys[first:end] >> np.uint64(1))
        assert found[2].tolist() == [3 if row < 400 else 4 for row in range(first, end)]


@pytest.mark.parametrize("capacity", [0, 1, 2, 3, 50])
def test_few_rows_are_found_in_an_index_of_any_capacity(capacity: int) -> None:
    keys = fingerprint_array([0, LAST, 1 << 63, *range(100, 150)])[:capacity]
    for plan in PLANS[:: len(PLANS) // 20]:
        index = index_of(plan, with_ids=False, capacity=capacity)
        assert index.capacity == capacity
        for count in range(capacity + 1):
            assert index.count == count
            rows = [(key, 0, 1) for key in keys[:count].tolist()]
            queries = np.concatenate([keys, fingerprint_array([LAST ^ 1])])
            assert found_in(index, queries, plan.max_distance) == expected_in(rows, queries, plan.max_distance)
            index.append(keys[count : count + 1], None, 1)


# The keys drawn meet in few buckets or in many, by how much of the capacity they use.
@pytest.mark.slow
@given(
    st.sampled_from(PLANS),
    st.booleans(),
    key_sets(),
    st.integers(0, 2**32 - 1),
    st.integers(0, 3),
    st.sampled_from([1, 2, 64]),
)
def test_every_state_of_an_index_answers_as_by_brute_force(
    plan: Plan, with_ids: bool, key_set: list[int], seed: int, growths: int, spare: int
) -> None:
    rng = np.random.default_rng(seed)
    some = fingerprint_array(key_set[:60]) if key_set else uniform(3, rng)
    keys = np.concatenate([rng.choice(some, 40), flipped(some[:20], rng.integers(0, 65, len(some[:20])), rng)])
    ids = rng.integers(0, 3, len(keys), dtype=np.uint64)
    plain = PlainIndex(with_ids)
    index = index_of(plan, with_ids=with_ids, capacity=len(keys) * spare)
    earlier: list[tuple[PendingIndex, PlainIndex]] = []
    at = position = 0
    while at < len(keys):
        step = int(rng.integers(0, 12))
        position += int(rng.integers(0, 3))
        live_since = int(rng.integers(0, position + 2))
        batch, batch_ids = keys[at : at + step], ids[at : at + step]
        index.append(batch, batch_ids if with_ids else None, position, live_since)
        plain.append(batch.tolist(), batch_ids.tolist(), position, live_since)
        assert index.count == len(plain.rows)
        at += step
        if rng.integers(0, 2):
            index.search(some[:1], 0, index.count)
            plain.index()
        if growths and rng.integers(0, 4) == 0:
            index.search(some[:1], 0, index.count)
            plain.index()
            earlier.append((index, plain))
            plain = plain.indexed_anew()
            index = index.grown(index.capacity + int(rng.integers(0, 2 * len(keys))))
            growths -= 1
    plain.index()
    queries = np.concatenate(
        [flipped(keys[::7], rng.integers(0, plan.max_distance + 2, len(keys[::7])), rng), some[:2]]
    )
    distance = int(rng.integers(0, plan.max_distance + 1))
    for end in range(index.count + 1):
        expected = expected_in(plain.found(end), queries, distance)
        assert found_in(index, queries, distance, end) == expected
        for old, old_plain in earlier:
            if end <= old.count:
                assert found_in(old, queries, distance, end) == expected_in(old_plain.found(end), queries, distance)
    first = index.count // 3
    found = index.rows(first, index.count)
    columns = [found[0], found[1] if with_ids else np.zeros_like(found[0]), found[2]]
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain.rows[first:]
    assert all(old.count == len(old_plain.rows) for old, old_plain in earlier)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_plan_finds_what_brute_force_finds_among_thousands(kind: str) -> None:
    rng = np.random.default_rng(1)
    keys = KINDS[kind](6000, rng)
    stored = distinct(keys)
    near = rng.choice(keys, 150)
    queries = np.concatenate([flipped(near, rng.integers(0, 10, len(near)), rng), uniform(20, rng)])
    # Only `cut` fingerprints are in the answer of the earlier state.
    cut = len(stored) // 3
    order = rng.permutation(len(stored))
    for plan in PLANS[:: 1 if kind == "clustered" else 7]:
        index = filled(stored[order], plan)
        for end in (cut, len(stored)):
            found = index.search(queries, plan.max_distance, end)
            for column, expected in zip(
                found, brute_force(stored[order][:end], queries, plan.max_distance), strict=False
            ):
                assert np.array_equal(column, expected)


@pytest.mark.parametrize(
    "plan", [BALANCED, plans.flips(3, (3, 2, 1), 8), plans.paper("paper-16")], ids=lambda p: p.name
)
def test_each_distance_is_exact_on_both_sides_of_where_scanning_ends(plan: Plan) -> None:
    rng = np.random.default_rng(2)
    for count in (10, 100, 1000, 20_000):
        stored = distinct(flipped(rng.choice(uniform(count // 3 + 1, rng), count), rng.integers(0, 9, count), rng))
        index = filled(rng.permutation(stored))
        queries = flipped(stored[:: count // 10], np.full(len(stored[:: count // 10]), 1), rng)
        for distance in range(BALANCED.max_distance + 1):
            for column, expected in zip(
                index.search(queries, distance, index.count), brute_force(stored, queries, distance), strict=False
            ):
                assert np.array_equal(column, expected)


# Keys that a stranger chose: each of these takes minutes where an append is quadratic.


def test_a_million_rows_of_one_fingerprint_are_appended_in_linear_time() -> None:
    index = index_of(capacity=MANY)
    ids = np.arange(MANY, dtype=np.uint64)
    index.append(np.full(MANY, 99, dtype=np.uint64), ids, 1)
    query, fingerprint, bits, found, position = index.search(fingerprint_array([98, 99]), 0, MANY)
    assert np.array_equal(found, ids[::-1])
    assert (len(query), query.min(), fingerprint.min(), bits.max(), position.max()) == (MANY, 1, 99, 0, 1)
    # Alternately, so that no row is the newest one's repetition.
    index = index_of(capacity=MANY)
    index.append(np.full(MANY, 99, dtype=np.uint64), ids % np.uint64(2), 1)
    assert len(index.search(fingerprint_array([99]), 0, MANY)[0]) == MANY
    assert index.grown(MANY + 1).indexed == MANY


@pytest.mark.parametrize("shift", [0, 20, 44])
def test_a_million_fingerprints_in_one_bucket_are_appended_in_linear_time(shift: int) -> None:
    # They differ in 20 bits: all are in one bucket of the tables that do not probe those.
    keys = np.arange(MANY, dtype=np.uint64) << np.uint64(shift)
    index = filled(keys, capacity=3 * MANY)
    index.append(keys, None, 2)
    assert len(index.search(keys[:1], 0, 2 * MANY)[0]) == 1
    index.append(keys, None, 3, 2)
    assert len(index.search(keys[:1], 0, 3 * MANY)[0]) == 2
    assert index.grown(3 * MANY).indexed == 3 * MANY
    queries = keys[[0, 12345, MANY - 1]] ^ np.uint64(1 << 63)
    found = index.search(queries, 3, MANY)
    for column, expected in zip(found, brute_force(keys, queries, 3), strict=False):
        assert np.array_equal(column, expected)


def test_a_batch_of_queries_that_all_walk_one_long_bucket_is_answered() -> None:
    keys = np.arange(3000, dtype=np.uint64)
    index = filled(np.concatenate([keys, uniform(3000, np.random.default_rng(3))]), plans.paper("paper-4"))
    for column, expected in zip(index.search(keys, 2, 3000), brute_force(keys, keys, 2), strict=False):
        assert np.array_equal(column, expected)


# Threads.


def test_answers_for_a_fixed_end_never_change_while_rows_are_added() -> None:
    rng = np.random.default_rng(4)
    keys = flipped(np.repeat(uniform(2000, rng), 10), rng.integers(0, 4, 20_000), rng)
    ids = np.arange(len(keys), dtype=np.uint64)
    queries = keys[rng.integers(0, len(keys), 300)]
    index = index_of(capacity=len(keys))
    index.append(keys[:5000], ids[:5000], 0)
    expected = index.search(queries, 3, 5000)
    position = np.zeros(len(keys), dtype=np.uint64)
    failures: list[str] = []
    done = threading.Event()

    def search() -> None:
        last = False
        while not last:
            last = done.is_set()
            if not all(map(np.array_equal, index.search(queries, 3, 5000), expected)):
                failures.append("an old state changed")
            # Ids number the rows, so a state is whole when its ids are those below its end of a later one.
            end = index.count
            now = index.search(queries, 3, end)
            later = index.search(queries, 3, index.count)
            kept = later[3] < end
            if not all(np.array_equal(a, b[kept]) for a, b in zip(now, later, strict=True)):
                failures.append(f"the state of {end} rows changed")

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(5000, len(keys), 50):
        index.append(keys[start : start + 50], ids[start : start + 50], start)
        position[start : start + 50] = start
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = list(zip(keys.tolist(), ids.tolist(), position.tolist(), strict=True))
    assert found_in(index, queries[:5], 3) == expected_in(rows, queries[:5], 3)


def test_appends_of_two_threads_do_not_mix() -> None:
    keys = uniform(20_000, np.random.default_rng(5))
    index = index_of(with_ids=False, capacity=len(keys))

    def append(part: Keys) -> None:
        for start in range(0, len(part), 500):
            index.append(part[start : start + 500], None, 1)

    threads = [threading.Thread(target=append, args=(part,)) for part in (keys[:10_000], keys[10_000:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.count == len(keys)
    assert np.array_equal(np.sort(index.rows(0, len(keys))[0]), np.sort(keys))
    for start in range(0, len(keys), 500):
        found = index.rows(start, start + 500)[0]
        assert np.array_equal(found, keys[np.flatnonzero(keys == found[0])[0] :][:500])


# Growth.


def test_a_grown_index_has_the_rows_and_the_old_one_goes_on_by_itself() -> None:
    keys = uniform(300, np.random.default_rng(6))
    index = index_of(capacity=200)
    index.append(np.repeat(keys[:100], 2), np.arange(200, dtype=np.uint64), 1)
    larger = index.grown(1000)
    assert (larger.count, larger.capacity, larger.with_ids) == (200, 1000, True)
    larger.append(keys, np.arange(300, dtype=np.uint64), 2)
    assert index.count == 200
    assert found_in(index, keys, 0) == found_in(larger, keys, 0, 200)
    assert len(found_in(larger, keys, 0)) == 500
    assert index.grown(200).count == 200
    assert index_of(capacity=0).grown(0).count == 0


@pytest.mark.parametrize("with_ids", [True, False])
def test_an_index_of_the_later_rows_answers_for_them_as_one_that_never_had_others(with_ids: bool) -> None:
    """Some of its fingerprints have rows before and behind the first that is taken."""
    rng = np.random.default_rng(7)
    keys = uniform(150, rng)
    index, none = index_of(capacity=300, with_ids=with_ids), index_of(capacity=0, with_ids=with_ids)
    for position in range(1, 11):
        own = np.unique(rng.choice(keys, 30))
        index.append(
            own, 100 * np.uint64(position) + np.arange(len(own), dtype=np.uint64) if with_ids else None, position, 99
        )
    for position in (0, 1, 2, 6, 10, 11, 2**64 - 1):
        first = index.rows_before(position)
        assert first == int(np.searchsorted(index.rows(0, index.count)[2], position))
        later = index.grown(index.count - first + 5, first)
        fresh = none.grown(later.capacity)
        taken, ids, positions = index.rows(first, index.count)
        for row in range(len(taken)):
            fresh.append(taken[row : row + 1], None if ids is None else ids[row : row + 1], int(positions[row]), 2**63)
        assert found_in(later, keys, 3) == found_in(fresh, keys, 3)
        for found, expected in zip(later.rows(0, later.count), fresh.rows(0, fresh.count), strict=True):
            assert np.array_equal(found, expected) if found is not None else expected is None


def test_rows_that_follow_from_another_index_are_found_as_if_they_had_been_added() -> None:
    index, behind = index_of(), index_of(capacity=7)
    index.append(fingerprint_array([1, 2, 3]), fingerprint_array([5, 6, 7]), 10)
    behind.follow(index, 1)
    assert positions_of(behind, 1, 2, 3) == [(6, 10), (7, 10)]
    index.append(fingerprint_array([2, 4, 2]), fingerprint_array([6, 8, 6]), 12, 11)
    behind.follow(index, 3)
    assert positions_of(behind, 1, 2, 3, 4) == [(6, 12), (6, 10), (7, 10), (8, 12)]
    behind.follow(index, 6)
    with pytest.raises(ValueError, match="3 rows more than 5: there is room for 7"):
        behind.follow(index, 3)
    with pytest.raises(ValueError, match="rows up to 7: there are 6"):
        behind.follow(index, 7)
    assert behind.rows(0, behind.count)[0].tolist() == [2, 3, 2, 4, 2]


# Refusals.

ONE = fingerprint_array([1])


@pytest.mark.parametrize(
    ("masks", "flips", "capacity", "message"),
    [
        ([], [], 1, "0 masks and 0 flips, expected as many, 1 to 1024"),
        ([1], [0, 0], 1, "1 masks and 2 flips, expected as many, 1 to 1024"),
        ([1] * 1025, [0] * 1025, 1, "1025 masks and 1025 flips, expected as many, 1 to 1024"),
        ([1, 0], [0, 0], 1, "0 flips of prefix mask 0x0, expected some of 64 bits and no more flips"),
        ([-1], [0], 1, "0 flips of prefix mask -0x1, expected some of 64 bits"),
        ([1 << 64], [0], 1, "0 flips of prefix mask 0x10000000000000000, expected some of 64 bits"),
        ([3], [3], 1, "3 flips of prefix mask 0x3, expected some of 64 bits"),
        ([3], [-1], 1, "-1 flips of prefix mask 0x3, expected some of 64 bits"),
        ([3], [0], -1, "capacity: found -1, expected 0 to 2147483647"),
        ([3], [0], 1 << 31, "capacity: found 2147483648, expected 0 to 2147483647"),
    ],
)
def test_tables_and_capacities_that_cannot_be_are_refused(
    masks: list[int], flips: list[int], capacity: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PendingIndex(masks, flips, with_ids=True, capacity=capacity)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.append(ONE, None, 3), "1 fingerprints come with no ids, expected 1"),
        (lambda index: index.append(ONE, ONE[:0], 3), "1 fingerprints come with 0 ids, expected 1"),
        (lambda index: index.append(ONE[:0], ONE, 3), "0 fingerprints come with 1 ids, expected 0"),
        (lambda index: index.append(ONE, ONE, 1), "position: found 1, expected 2 or later"),
        (
            lambda index: index.append(np.repeat(ONE, 3), np.repeat(ONE, 3), 3),
            "3 rows more than 2: there is room for 4",
        ),
        (lambda index: index.grown(1), "capacity: found 1, expected 2 or more"),
        (lambda index: index.grown(9, 3), "rows up to 3: there are 2"),
        (lambda index: index.grown(0, 1), "capacity: found 0, expected 1 or more"),
        (lambda index: index.grown(1 << 31), "capacity: found 2147483648, expected 0 to 2147483647"),
        (lambda index: index.search(ONE, 3, 3), "rows up to 3: there are 2"),
        (lambda index: index.rows(0, 3), "rows up to 3: there are 2"),
        (lambda index: index.rows(2, 1), "rows 2 to 1"),
    ],
)
def test_what_does_not_fit_the_rows_is_refused_and_nothing_is_added(
    call: Callable[[PendingIndex], object], message: str
) -> None:
    index = index_of(capacity=4)
    index.append(fingerprint_array([5, 6]), fingerprint_array([7, 8]), 2)
    with pytest.raises(ValueError, match=f"^{message}"):
        call(index)
    assert index.count == 2


def test_ids_for_an_index_without_are_refused() -> None:
    with pytest.raises(ValueError, match="1 fingerprints come with 1 ids, expected none"):
        index_of(with_ids=False).append(ONE, ONE, 1)


def test_other_types_are_refused() -> None:
    index = index_of()
    for keys in (ONE.astype(np.int64), ONE.astype(np.float64), np.repeat(ONE, 4)[::2], ONE.reshape(1, 1)):
        with pytest.raises(ValueError, match=r"(?i)buffer|ndarray"):
            index.append(keys, ONE, 1)
        with pytest.raises(ValueError, match=r"(?i)buffer|ndarray"):
            index.search(keys, 3, 0)
    for call in (lambda: index.append(None, None, 1), lambda: index.search(None, 3, 0)):
        with pytest.raises(TypeError, match="must not be None"):
            call()


def test_2_to_the_32_queries_in_one_batch_are_refused(tmp_path: Path) -> None:
    with open(tmp_path / "queries", "wb") as file:
        file.truncate(8 << 32)  # a hole: takes no room on the disk
    queries = np.memmap(tmp_path / "queries", dtype=np.uint64, mode="r")
    with pytest.raises(ValueError, match=r"4294967296 queries in one batch: expected fewer than 2\^32"):
        index_of().search(queries, 3, 0)


def test_too_many_rows_or_matches_for_memory_are_memory_errors() -> None:
    script = """
import resource
import numpy as np
from fpstore._pending import PendingIndex
index = PendingIndex([0xFFFF], [3], with_ids=False, capacity=8)
index.append(np.arange(8, dtype=np.uint64), None, 1)
queries = np.zeros(1 << 20, dtype=np.uint64)
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
for call in (lambda: index.grown(1 << 20), lambda: PendingIndex([1] * 1024, [0] * 1024, with_ids=False, capacity=0)):
    try:
        call()
    except MemoryError as error:
        print(error)
try:
    index.search(queries, 3, 8)
except MemoryError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines[:2] == [
        "no memory for 1048576 pending rows in 1 tables",
        "no memory for 0 pending rows in 1024 tables",
    ]
    assert lines[2].startswith("no memory for more than ")


def advised_large_pages() -> set[str]:
    """Where this process has memory for which it asked for large pages."""
    entries = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    return {entry.split("-")[0] for entry in entries if re.search(r"\nVmFlags:.* hg\b", entry)}


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="the system has no large pages to give"
)
def test_only_an_index_of_very_many_rows_asks_for_large_pages() -> None:
    """A reader's, which has what a writer lets wait, takes no more memory than it has to."""
    before = advised_large_pages()
    small = index_of(capacity=1 << 18)
    assert advised_large_pages() <= before
    large = index_of(capacity=1 << 20)
    assert len(advised_large_pages() - before) == 2  # entries, and buckets; between them are rows
    assert small.count == large.count == 0
