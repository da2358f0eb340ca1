"""The compiled merges and look-ups against Python's sets and dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore._merge import mark_at_least, mark_pairs_at_least, merge_all, merge_keys, merge_pairs

LAST = (1 << 64) - 1
ITEMS = st.one_of(st.integers(0, LAST), st.sampled_from([0, 1, 2, 1 << 63, LAST - 1, LAST]), st.integers(0, 40))
KEY_SETS = st.sets(ITEMS, max_size=60)
PAIR_SETS = st.sets(st.tuples(st.one_of(ITEMS, st.integers(0, 2)), ITEMS), max_size=60)


def u64(values: object) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def columns(pairs: set[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return u64([key for key, _ in sorted(pairs)]), u64([id for _, id in sorted(pairs)])


@given(KEY_SETS, KEY_SETS)
def test_merged_keys_are_the_union(a: set[int], b: set[int]) -> None:
    merged = merge_keys(u64(sorted(a)), u64(sorted(b)))
    assert merged.dtype == np.uint64
    assert merged.tolist() == sorted(a | b)


@given(PAIR_SETS, PAIR_SETS)
def test_merged_pairs_are_the_union(a: set[tuple[int, int]], b: set[tuple[int, int]]) -> None:
    keys, ids = merge_pairs(*columns(a), *columns(b))
    assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == sorted(a | b)


@pytest.mark.parametrize("sizes", [(0, 1000), (1000, 0), (1, 1000), (1000, 3), (1000, 1000), (50_000, 49_000)])
@pytest.mark.parametrize("most", [10**5, LAST])
def test_runs_of_any_length_are_merged(sizes: tuple[int, int], most: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (np.unique(rng.integers(0, most, size, dtype=np.uint64, endpoint=True)) for size in sizes)
    np.testing.assert_array_equal(merge_keys(a, b), np.union1d(a, b))
    keys, ids = merge_pairs(a, a ^ np.uint64(5), b, b ^ np.uint64(5))
    np.testing.assert_array_equal(keys, np.union1d(a, b))
    np.testing.assert_array_equal(ids, keys ^ np.uint64(5))
    # One key, all pairs told apart by their ids.
    keys, ids = merge_pairs(np.full(len(a), 7, np.uint64), a, np.full(len(b), 7, np.uint64), b)
    np.testing.assert_array_equal(ids, np.union1d(a, b))
    assert len(keys) == len(ids)
    assert set(keys.tolist()) <= {7}


def test_runs_below_or_above_one_another_are_merged() -> None:
    low, high = np.arange(100, dtype=np.uint64), np.arange(200, 300, dtype=np.uint64)
    assert merge_keys(low, high).tolist() == merge_keys(high, low).tolist() == [*range(100), *range(200, 300)]
    assert merge_keys(low, low).tolist() == list(range(100))


def test_what_is_merged_is_a_copy() -> None:
    a = u64([1, 2])
    for merged in (merge_keys(a, a[:0]), merge_keys(a[:0], a), merge_pairs(a, a, a[:0], a[:0])[0]):
        merged[0] = 9
    assert a.tolist() == [1, 2]


@given(st.lists(KEY_SETS, min_size=1, max_size=9), st.integers(0, 3))
def test_all_pieces_are_merged_at_once(pieces: list[set[int]], more: int) -> None:
    rooms = np.empty((2, sum(map(len, pieces)) + more), dtype=np.uint64)
    merged = merge_all([u64(sorted(piece)) for piece in pieces], rooms)
    assert merged.tolist() == sorted(set().union(*pieces))
    assert not len(merged) or np.shares_memory(merged, rooms)


@pytest.mark.parametrize(
    "sizes",
    [
        [5000],
        [90, 4000],
        [3, 900, 900, 901, 5000],
        [1000] * 8,
        [800] * 5,
        [700] * 6,
        [600] * 7,
        [500] * 11,
        [0, 17, 100, 3000, 1] * 3,
    ],
)
def test_many_pieces_of_any_length_are_merged(sizes: list[int]) -> None:
    rng = np.random.default_rng(len(sizes))
    for most in (6000, LAST):
        pieces = [np.unique(rng.integers(0, most, size, dtype=np.uint64, endpoint=True)) for size in sizes]
        copies = [piece.copy() for piece in pieces]
        merged = merge_all(pieces, np.empty((2, sum(sizes)), dtype=np.uint64))
        np.testing.assert_array_equal(merged, np.unique(np.concatenate(pieces)))
        assert all(map(np.array_equal, pieces, copies))


def test_no_pieces_and_rooms_that_are_too_small_are_refused() -> None:
    piece = u64([1, 2, 3])
    with pytest.raises(ValueError, match=r"^no pieces: expected one or more$"):
        merge_all([], np.empty((2, 3), dtype=np.uint64))
    for shape in ((2, 5), (1, 6), (3, 6)):
        with pytest.raises(
            ValueError, match=rf"^rooms for {shape[0]} times {shape[1]} keys: expected 2 times 6 or more$"
        ):
            merge_all([piece, piece], np.empty(shape, dtype=np.uint64))


def test_pairs_of_other_lengths_are_refused() -> None:
    one, two = u64([1]), u64([1, 2])
    for arguments in ((one, two, one, one), (one, one, two, one)):
        with pytest.raises(ValueError, match="keys come with"):
            merge_pairs(*arguments)


@given(st.dictionaries(ITEMS, st.integers(0, 5), max_size=60), st.lists(st.tuples(ITEMS, st.integers(0, 5))))
def test_marks_are_set_where_the_number_is_large_enough(held: dict[int, int], asked: list[tuple[int, int]]) -> None:
    asked += [(key, number + 1) for key, number in held.items()] + list(held.items())
    marks = np.arange(len(asked), dtype=np.uint8) % 3 // 2
    expected = [bool(mark) or held.get(key, -1) >= least for mark, (key, least) in zip(marks, asked, strict=True)]
    mark_at_least(
        u64(sorted(held)),
        u64([held[key] for key in sorted(held)]),
        u64([key for key, _ in asked]),
        u64([least for _, least in asked]),
        marks,
    )
    assert marks.tolist() == expected


def test_marks_of_other_lengths_are_refused() -> None:
    one, two, mark = u64([1]), u64([1, 2]), np.zeros(1, np.uint8)
    for arguments in ((one, two, one, one, mark), (one, one, one, two, mark), (one, one, two, two, mark)):
        with pytest.raises(ValueError, match="asked for"):
            mark_at_least(*arguments)


@given(
    st.dictionaries(st.tuples(st.one_of(ITEMS, st.integers(0, 2)), ITEMS), st.integers(0, 5), max_size=60),
    st.lists(st.tuples(st.tuples(ITEMS, ITEMS), st.integers(0, 5))),
)
def test_marks_of_pairs_are_set_where_the_number_is_large_enough(
    held: dict[tuple[int, int], int], asked: list[tuple[tuple[int, int], int]]
) -> None:
    asked += [(pair, number + 1) for pair, number in held.items()] + list(held.items())
    asked += [((key, (id + 1) % (1 << 64)), number) for (key, id), number in held.items()]
    marks = np.arange(len(asked), dtype=np.uint8) % 3 // 2
    expected = [bool(mark) or held.get(pair, -1) >= least for mark, (pair, least) in zip(marks, asked, strict=True)]
    mark_pairs_at_least(
        *columns(set(held)),
        u64([held[pair] for pair in sorted(held)]),
        u64([key for (key, _), _ in asked]),
        u64([id for (_, id), _ in asked]),
        u64([least for _, least in asked]),
        marks,
    )
    assert marks.tolist() == expected


@pytest.mark.parametrize("longer", range(7))
def test_marks_of_pairs_of_other_lengths_are_refused(longer: int) -> None:
    arguments: list[np.ndarray] = [u64([1])] * 6 + [np.zeros(1, np.uint8)]
    arguments[longer] = np.concatenate([arguments[longer]] * 2)
    with pytest.raises(ValueError, match="keys, . ids, . numbers" if longer < 3 else "asked for, with"):
        mark_pairs_at_least(*arguments)
