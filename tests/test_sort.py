"""The compiled sort of pairs and what is done with sorted keys, against numpy's slow and plain ways."""

# mypy: disable-error-code="comparison-overlap"

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fpstore._sort import (
    GrowingKeys,
    group_pairs,
    sort_keys,
    sort_pairs,
    sort_permuted,
    split_keys,
    unique_sorted,
    unique_sorted_pairs,
)
from fpstore.plans.permutation import Permutation
from fpstore.types import Keys

TOP = 2**64 - 1
anything = st.integers(0, TOP)
few = st.sampled_from([0, 1, 2, 2**31, 2**32, 2**63, TOP - 1, TOP])
either = st.one_of(anything, few)


def u64(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def arrays(elements: st.SearchStrategy[int], max_size: int = 300) -> st.SearchStrategy[Keys]:
    return hnp.arrays(np.uint64, st.integers(0, max_size), elements=elements)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Keys, Keys]:
    count = draw(st.integers(0, 300))
    column = st.one_of(*(hnp.arrays(np.uint64, count, elements=elements) for elements in (either, few)))
    return draw(column), draw(column)


def sorted_by_numpy(fingerprints: Keys, ids: Keys) -> tuple[Keys, Keys]:
    order = np.lexsort((ids, fingerprints))
    return fingerprints[order], ids[order]


def assert_sorts(fingerprints: Keys, ids: Keys) -> None:
    expected = sorted_by_numpy(fingerprints, ids)
    fingerprints, ids = fingerprints.copy(), ids.copy()
    sort_pairs(fingerprints, ids)
    np.testing.assert_array_equal(fingerprints, expected[0])
    np.testing.assert_array_equal(ids, expected[1])


@pytest.mark.slow
@given(pairs())
def test_pairs_come_out_in_the_order_of_fingerprint_then_id(columns: tuple[Keys, Keys]) -> None:
    assert_sorts(*columns)


SHAPES: dict[str, Callable[[np.random.Generator, int], Keys]] = {
    "uniform": lambda rng, n: rng.integers(0, TOP, n, dtype=np.uint64, endpoint=True),
    "increasing": lambda rng, n: np.arange(n, dtype=np.uint64),
    "decreasing": lambda rng, n: np.arange(n, dtype=np.uint64)[::-1].copy(),
    "all equal": lambda rng, n: np.full(n, TOP, np.uint64),
    "few distinct": lambda rng, n: rng.integers(0, 7, n, dtype=np.uint64) << np.uint64(61),
    "one bit apart": lambda rng, n: np.uint64(1) << rng.integers(0, 64, n, dtype=np.uint64),
    # Every digit splits off a little: the deepest recursion.
    "low bits set": lambda rng, n: np.uint64(TOP) >> rng.integers(0, 64, n, dtype=np.uint64),
    "skewed": lambda rng, n: rng.integers(0, TOP, n, dtype=np.uint64) >> rng.integers(0, 64, n, dtype=np.uint64),
}


@pytest.mark.parametrize("ids", SHAPES)
@pytest.mark.parametrize("fingerprints", SHAPES)
def test_large_inputs_of_any_shape_are_sorted(fingerprints: str, ids: str) -> None:
    rng = np.random.default_rng(7)
    for count in (25, 1_000, 20_000):
        assert_sorts(SHAPES[fingerprints](rng, count), SHAPES[ids](rng, count))


def assert_sorts_keys(keys: Keys) -> None:
    expected = np.unique(keys)
    found = keys.copy()
    count = sort_keys(found)
    np.testing.assert_array_equal(found[:count], expected)


def assert_sorts_permuted(keys: Keys, mask: int) -> None:
    expected = np.unique(Permutation(mask).apply(keys))
    keys.flags.writeable = False
    found = np.full(len(keys), 99, np.uint64)
    count = sort_permuted(mask, keys, found)
    np.testing.assert_array_equal(found[:count], expected)


@given(arrays(st.one_of(either, few)))
def test_keys_come_out_in_order_and_distinct(keys: Keys) -> None:
    assert_sorts_keys(keys)


@given(arrays(st.one_of(either, few)), anything, st.booleans())
def test_permuted_keys_come_out_in_order_and_distinct(keys: Keys, mask: int, in_order: bool) -> None:
    assert_sorts_permuted(np.sort(keys) if in_order else keys, mask)


# From one part of the scratch's size to many, which are split again.
@pytest.mark.slow
@pytest.mark.parametrize("count", [25, 1024, 1025, 20_000, 300_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_large_keys_of_any_shape_are_sorted(shape: Any, count: Any) -> None:
    keys = SHAPES[shape](np.random.default_rng(7), count)
    assert_sorts_keys(keys)
    assert_sorts_keys(np.concatenate([keys, keys[::-1]]))
    for mask in (0, 0x1FFFFF << 21, 0x00FF00FF00FF00FF, TOP):
        assert_sorts_permuted(keys.copy(), mask)
        assert_sorts_permuted(np.sort(keys), mask)


@given(arrays(st.one_of(either, few)))
def test_keys_are_split_where_they_first_differ(keys: Keys) -> None:
    found = keys.copy()
    cut = split_keys(found)
    assert sorted(found.tolist()) == sorted(keys.tolist())
    if len(set(keys.tolist())) > 1:
        bit = 1 << ((int(keys.min()) ^ int(keys.max())).bit_length() - 1)
        assert [bool(key & bit) for key in found.tolist()] == [False] * cut + [True] * (len(keys) - cut)
        assert 0 < cut < len(keys)
    else:
        assert cut == len(keys)


def test_keys_need_room_of_their_own_number() -> None:
    with pytest.raises(ValueError, match="3 fingerprints, room for 2 keys"):
        sort_permuted(0, u64([1, 2, 3]), u64([0, 0]))


@pytest.mark.parametrize("counts", [(0, 5, 0, 7), (10, 3), (1000, 600_000, 3_000_000, 100), (600_000, 0)])
def test_a_room_keeps_the_keys_for_which_it_has_room(counts: tuple[int, ...]) -> None:
    room = GrowingKeys(0)
    kept = u64([])
    for count in counts:
        room.resize(count)
        keys = np.asarray(room)
        assert (len(room), keys.dtype, keys.shape) == (count, np.uint64, (count,))
        np.testing.assert_array_equal(keys[: len(kept)], kept[:count])
        keys[:] = np.arange(count)
        kept = keys.copy()
        del keys


def test_a_room_that_is_in_use_stays_as_it_is() -> None:
    room = GrowingKeys(3)
    keys = np.asarray(room)[1:]
    with pytest.raises(BufferError, match="room for 3 keys is in use by 1 views"):
        room.resize(4)
    keys[:] = 5
    del keys
    room.resize(4)
    assert np.asarray(room)[1:3].tolist() == [5, 5]


def test_a_room_outlives_its_owner_while_it_is_in_use() -> None:
    keys = np.asarray(GrowingKeys(600_000))
    keys[:] = 7
    assert int(keys.sum()) == 7 * 600_000


@pytest.mark.parametrize("count", [1 << 62, (1 << 64) - 1])
def test_a_room_that_is_too_large_for_memory_is_refused_and_the_old_one_stays(count: int) -> None:
    with pytest.raises(MemoryError, match=f"room for {count} keys"):
        GrowingKeys(count)
    room = GrowingKeys(2)
    with pytest.raises(MemoryError, match="room for 576460752303423488 keys"):
        room.resize(1 << 59)
    assert len(room) == 2


def test_nothing_and_a_single_pair_are_already_sorted() -> None:
    assert_sorts(u64([]), u64([]))
    assert_sorts(u64([TOP]), u64([0]))


def test_pairs_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 fingerprints come with 3 ids"):
        sort_pairs(u64([1, 2]), u64([1, 2, 3]))
    with pytest.raises(ValueError, match="2 fingerprints come with 1 ids"):
        unique_sorted_pairs(u64([1, 2]), u64([1]))


def test_arrays_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        sort_pairs(np.zeros(3, np.int64), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="contiguous"):
        sort_pairs(np.zeros(6, np.uint64)[::2], np.zeros(6, np.uint64)[::2])
    with pytest.raises(TypeError):
        sort_pairs(cast(Keys, None), np.zeros(3, np.uint64))


@given(arrays(st.one_of(either, few)))
def test_distinct_keys_move_to_the_front(keys: Keys) -> None:
    keys.sort()
    expected = sorted(set(keys.tolist()))
    assert unique_sorted(keys) == len(expected)
    assert keys[: len(expected)].tolist() == expected


@given(pairs())
def test_distinct_pairs_move_to_the_front(columns: tuple[Keys, Keys]) -> None:
    fingerprints, ids = sorted_by_numpy(*columns)
    expected = sorted(set(zip(fingerprints.tolist(), ids.tolist(), strict=True)))
    count = unique_sorted_pairs(fingerprints, ids)
    assert list(zip(fingerprints[:count].tolist(), ids[:count].tolist(), strict=True)) == expected


@given(arrays(few))
def test_groups_are_the_distinct_fingerprints_with_their_counts(fingerprints: Keys) -> None:
    fingerprints.sort()
    distinct, counts = np.full((2, len(fingerprints) + 1), 99, np.uint64)
    size = group_pairs(fingerprints, distinct, counts)
    expected = [(value, fingerprints.tolist().count(value)) for value in sorted(set(fingerprints.tolist()))]
    assert list(zip(distinct[:size].tolist(), counts[:size].tolist(), strict=True)) == expected


def test_groups_can_be_taken_from_a_read_only_array() -> None:
    fingerprints = u64([3, 3, 5])
    fingerprints.flags.writeable = False
    distinct, counts = np.zeros((2, 3), np.uint64)
    assert group_pairs(fingerprints, distinct, counts) == 2
    assert (distinct[:2].tolist(), counts[:2].tolist()) == ([3, 5], [2, 1])


def test_groups_need_room_for_every_fingerprint() -> None:
    with pytest.raises(ValueError, match="3 fingerprints need as many places: there are 2 for values and 3"):
        group_pairs(u64([1, 2, 3]), u64([0, 0]), u64([0, 0, 0]))
    with pytest.raises(ValueError, match="there are 3 for values and 2 for counts"):
        group_pairs(u64([1, 2, 3]), u64([0, 0, 0]), u64([0, 0]))
