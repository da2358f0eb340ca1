"""Sorted sources merged into one: each item once and in order, whatever the pieces in which they come."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.merging import Chunks, Columns, count_up_to, each_once, merged, ordered_with_places, union
from fpstore.types import Keys

VALUES = st.one_of(st.integers(0, 6), st.sampled_from([1 << 63, (1 << 64) - 1]))
CUTS = st.lists(st.integers(0, 20), max_size=6)


def u64(values: object) -> Keys:
    return np.array(values, dtype=np.uint64)


def columns_of(items: Sequence[tuple[int, ...]], width: int) -> Columns:
    return tuple(u64([item[column] for item in items]) for column in range(width))


def in_chunks(items: set[tuple[int, ...]], width: int, cuts: list[int]) -> Iterator[Columns]:
    """The items, sorted, cut at some places, so that some chunks are empty."""
    ordered = sorted(items)
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(ordered)), len(ordered)]
    for first, end in pairwise(bounds):
        yield columns_of(ordered[first:end], width)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2])
@given(data=st.data())
def test_the_items_of_all_sources_come_once_and_in_order(width: int, data: st.DataObject) -> None:
    sets = data.draw(st.lists(st.sets(st.tuples(*[VALUES] * width), max_size=20), max_size=5))
    sources = [Chunks(in_chunks(items, width, data.draw(CUTS))) for items in sets]
    found: list[tuple[int, ...]] = []
    for columns in merged(sources):
        assert len(columns[0])
        found += zip(*(column.tolist() for column in columns), strict=True)
    assert found == sorted(set().union(*sets))


def test_no_sources_and_empty_ones_hold_nothing() -> None:
    assert list(merged([])) == []
    assert list(merged([Chunks(iter([])), Chunks(iter([(u64([]),), (u64([]),)]))])) == []


def test_a_chunk_is_asked_for_when_what_is_held_is_gone() -> None:
    asked: list[int] = []

    def chunks() -> Iterator[Columns]:
        for first in range(0, 30, 10):
            asked.append(first)
            yield (np.arange(first, first + 10, dtype=np.uint64),)

    found = merged([Chunks(chunks())])
    assert asked == []
    for count in (1, 2, 3):
        assert len(next(found)[0]) == 10
        assert len(asked) == count


def test_nothing_above_what_is_still_to_come_is_handed_on() -> None:
    found = merged([Chunks(iter([(u64([1, 9]),), (u64([10]),)])), Chunks(iter([(u64([2, 3]),), (u64([4, 11]),)]))])
    assert [keys.tolist() for (keys,) in found] == [[1, 2, 3], [4, 9], [10], [11]]


def test_how_the_pieces_are_combined_is_for_the_caller_to_say() -> None:
    def counted(pieces: Sequence[Columns]) -> Columns:
        sizes.append(sum(len(keys) for (keys,) in pieces))
        return union(pieces)

    sizes: list[int] = []
    assert [keys.tolist() for (keys,) in merged([Chunks(iter([(u64([1, 2]),)])) for _ in range(3)], counted)] == [
        [1, 2]
    ]
    assert sizes == [6]


@pytest.mark.parametrize(("cut", "count"), [(0, 0), (1, 1), (2, 1), (3, 3), (4, 4), (9, 4)])
def test_keys_up_to_a_cut_are_counted(cut: int, count: int) -> None:
    assert count_up_to((u64([1, 3, 3, 4]),), (np.uint64(cut),)) == count


@pytest.mark.parametrize(
    ("cut", "count"), [((3, 4), 1), ((3, 5), 2), ((3, 6), 2), ((3, 7), 3), ((4, 0), 3), ((0, 9), 0)]
)
def test_pairs_up_to_a_cut_are_counted(cut: tuple[int, int], count: int) -> None:
    pairs = u64([1, 3, 3, 4]), u64([9, 5, 7, 1])
    assert count_up_to(pairs, (np.uint64(cut[0]), np.uint64(cut[1]))) == count


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=30), st.tuples(VALUES, VALUES, VALUES))
def test_rows_up_to_a_cut_are_counted(rows: list[tuple[int, int, int]], cut: tuple[int, int, int]) -> None:
    columns = columns_of(sorted(rows), 3)
    found = count_up_to(columns, (np.uint64(cut[0]), np.uint64(cut[1]), np.uint64(cut[2])))
    assert found == sum(row <= cut for row in rows)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=30))
def test_rows_in_no_order_are_put_in_order_each_once(rows: list[tuple[int, int, int]]) -> None:
    columns = each_once(columns_of(rows, 3))
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(set(rows))
    # Wide fingerprints are strings of bytes there, of which numpy leaves out zeros at the end.
    strings = [np.array([value.to_bytes(16, "big") for value, _, _ in rows], dtype="S16"), *columns_of(rows, 3)[1:]]
    columns = each_once(strings)
    numbers = [int.from_bytes(each.ljust(16, b"\0"), "big") for each in columns[0].tolist()]
    assert list(zip(numbers, *(column.tolist() for column in columns[1:]), strict=True)) == sorted(set(rows))


@given(st.lists(st.integers(0, 6), max_size=80))
def test_numbers_are_sorted_with_the_places_that_they_had_the_first_first(numbers: list[int]) -> None:
    expected = sorted((number, place) for place, number in enumerate(numbers))
    for kind in (np.uint64, np.int64, np.uint8):
        given_ones = np.array(numbers, dtype=kind)
        ordered, places = ordered_with_places(given_ones)
        assert list(zip(ordered.tolist(), places.tolist(), strict=True)) == expected
        assert given_ones.tolist() == numbers
