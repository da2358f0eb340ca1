"""Joins of sorted keys: what they refuse, and that they go on where they stopped."""

from collections.abc import Iterator

import numpy as np
import pytest
from helpers import fingerprint_array, segment_of

from fpstore import plan as plans
from fpstore._pairs import Join, Windows
from fpstore._view import SegmentView

KEYS = fingerprint_array([*range(300), 1 << 63, (1 << 63) + 1])
TOP = 1 << 63


@pytest.fixture
def view() -> Iterator[SegmentView]:
    with segment_of(KEYS, plans.flips(1, (3,), 3)) as segment:
        yield segment.view


def expected_pairs(distance: int) -> set[tuple[int, int, int]]:
    values = KEYS.tolist()
    found = ((a, b, (a ^ b).bit_count()) for i, a in enumerate(values) for b in values[i + 1 :])
    return {pair for pair in found if pair[2] <= distance}


@pytest.mark.parametrize(("window_bits", "flips"), [(0, [0]), (1, [0, TOP])])
@pytest.mark.parametrize("room", [1, 7, 1 << 16])
def test_pairs_come_once_however_little_room_there_is(
    view: SegmentView, window_bits: int, flips: list[int], room: int
) -> None:
    windows = Windows(KEYS, window_bits, 0, 1 << window_bits)
    found = []
    for mask in flips:
        join = Join(view, 0, windows, windows, 3, mask)
        while not join.done:
            found += [tuple(row) for row in join.next(room).tolist()]
    assert sorted(found) == sorted(expected_pairs(3))


@pytest.mark.parametrize("room", [1, 7, 1 << 16])
def test_queries_are_compared_with_every_key_however_little_room_there_is(view: SegmentView, room: int) -> None:
    windows = Windows(KEYS, 0, 0, 1)
    queries = fingerprint_array([0, 3, 77, (1 << 63) + 5])
    join = Join(view, 0, queries, windows, 2, 0)
    found = []
    while not join.done:
        found += [tuple(row) for row in join.next(room).tolist()]
    near = ((q, key, (q ^ key).bit_count()) for q in queries.tolist() for key in KEYS.tolist())
    assert sorted(found) == sorted(row for row in near if row[2] <= 2)


def test_counting_counts_what_next_returns(view: SegmentView) -> None:
    windows = Windows(KEYS, 1, 0, 2)
    total = 0
    for mask in (0, TOP):
        join = Join(view, 0, windows, windows, 3, mask)
        while not join.done:
            total += join.count()
    assert total == len(expected_pairs(3))


def test_windows_start_where_their_first_key_is(view: SegmentView) -> None:
    # The join of the lower half's window with the upper half's finds only pairs that differ in the top bit.
    low, high = Windows(KEYS[:300], 1, 0, 1), Windows(KEYS[300:], 1, 1, 1)
    pairs = Join(view, 0, low, high, 3, TOP).next()
    assert {tuple(row) for row in pairs.tolist()} == {row for row in expected_pairs(3) if (row[0] ^ row[1]) & TOP}


@pytest.mark.parametrize(
    ("window_bits", "first", "count"), [(64, 0, 1), (2, 0, 3), (2, 1, 2), (2, 4, 1), (2, 0, 8), (2, 0, 0)]
)
def test_windows_are_an_aligned_range_of_those_there_are(window_bits: int, first: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"windows {first} to {first + count} of {window_bits} bits"):
        Windows(KEYS[:0], window_bits, first, count)


@pytest.mark.parametrize(("first", "keys"), [(0, KEYS), (1, KEYS[:300])])
def test_keys_outside_their_windows_are_refused(first: int, keys: np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"keys outside windows {first} to {first + 1} of 1 bits"):
        Windows(keys, 1, first, 1)


def test_what_no_join_can_be_is_refused(view: SegmentView) -> None:
    both, low, high = Windows(KEYS, 1, 0, 2), Windows(KEYS[:300], 1, 0, 1), Windows(KEYS[300:], 1, 1, 1)
    with pytest.raises(ValueError, match="table 1: the segment has 1"):
        Join(view, 1, both, both, 3, 0)
    with pytest.raises(ValueError, match="flips 0x1: expected bits among the top 1"):
        Join(view, 0, both, both, 3, 1)
    with pytest.raises(ValueError, match="flips 0x1: expected bits among the top 0"):
        Join(view, 0, KEYS, Windows(KEYS, 0, 0, 1), 3, 1)
    with pytest.raises(ValueError, match="without flips of windows with themselves"):
        Join(view, 0, both, Windows(KEYS, 1, 0, 2), 3, 0)
    with pytest.raises(ValueError, match="do not lead from windows 0 to 0"):
        Join(view, 0, low, Windows(KEYS[:300], 1, 0, 1), 3, TOP)
    with pytest.raises(ValueError, match="left, flipped, leaves windows 1 to 2"):
        Join(view, 0, KEYS[:10], high, 3, 0)
    with pytest.raises(ValueError, match="room for 0 pairs: expected 1 or more"):
        Join(view, 0, both, both, 3, 0).next(0)
