"""The compiled merges and look-ups against Python's sets and dictionaries."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore._merge import (
    AnyOrder,
    MergedKeys,
    Rooms,
    mark_at_least,
    mark_pairs_at_least,
    merge_keys,
    merge_pairs,
)
from fpstore._view import DecodeRoom

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


def in_chunks(keys: np.ndarray, cuts: list[int], asked: list[int] | None = None) -> Iterator[np.ndarray]:
    """Keys cut at some places, in one room that is used again for each chunk; asked: counts what was asked for."""
    room = np.empty(len(keys), dtype=np.uint64)
    for first, end in pairwise([0, *sorted(cut for cut in cuts if cut <= len(keys)), len(keys)]):
        if asked is not None:
            asked.append(end)
        room[:] = 0
        room[: end - first] = keys[first:end]
        yield room[: end - first]


def merged(sources: list[Iterator[np.ndarray]], least: int) -> list[np.ndarray]:
    found = []
    for keys in MergedKeys(sources, least):
        assert len(keys)
        found.append(keys.copy())
    return found


@given(st.lists(st.tuples(KEY_SETS, st.lists(st.integers(0, 60), max_size=5)), max_size=9), st.integers(0, 70))
def test_keys_of_many_sources_come_once_and_in_order(sources: list[tuple[set[int], list[int]]], least: int) -> None:
    found = merged([in_chunks(u64(sorted(keys)), cuts) for keys, cuts in sources], least)
    every = set().union(*(keys for keys, _ in sources))
    assert [key for keys in found for key in keys.tolist()] == sorted(every)


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
@pytest.mark.parametrize("least", [1, 200, 10_000])
def test_many_sources_of_any_length_are_merged(sizes: list[int], least: int) -> None:
    rng = np.random.default_rng(len(sizes))
    for most in (6000, 10**5, LAST):
        pieces = [np.unique(rng.integers(0, most, size, dtype=np.uint64, endpoint=True)) for size in sizes]
        cuts = [list(rng.integers(0, 1 + len(piece), 9)) for piece in pieces]
        found = merged([in_chunks(*each) for each in zip(pieces, cuts, strict=True)], least)
        np.testing.assert_array_equal(np.concatenate(found), np.unique(np.concatenate(pieces)))


@pytest.mark.parametrize(
    "sizes",
    [[50_000] * 2, [40_000, 20], [70_000, 9000, 1], [20_000] * 3, [9000] * 5, [8000] * 6, [5000] * 14, [3] * 40],
)
@pytest.mark.parametrize("kind", ["spread", "dense", "apart", "crowded"])
def test_more_keys_than_one_stretch_are_merged(sizes: list[int], kind: str) -> None:
    """Of as many sources as leave one over at several steps; which overlap, are alike, or lie behind one another."""
    rng = np.random.default_rng(len(sizes))
    pieces = []
    for i, size in enumerate(sizes):
        first, most = {"spread": (0, LAST), "dense": (0, sum(sizes)), "apart": (i << 40, 1 << 39)}.get(kind, (0, 0))
        if kind == "crowded":  # each has most of its keys in a place of its own
            first, most = (7 * i) << 30, 1 << 20
        keys = np.uint64(first) + rng.integers(0, most, size, dtype=np.uint64, endpoint=True)
        pieces.append(np.unique(np.concatenate([keys, rng.integers(0, 1 << 40, size // 10, dtype=np.uint64)])))
    pieces[-1] = np.union1d(pieces[-1], u64([LAST]))
    pieces[0] = np.union1d(pieces[0], u64([0, LAST - 1, LAST]))
    found = merged([in_chunks(piece, []) for piece in pieces], 1 << 20)
    np.testing.assert_array_equal(np.concatenate(found), np.unique(np.concatenate(pieces)))


@pytest.mark.parametrize("lengths", [(0, 9), (9, 0), (1, 200), (8, 400), (33, 33), (64, 31), (200, 1), (500, 499)])
@pytest.mark.parametrize("last", [0, 1, 9, 40])
def test_the_largest_keys_of_all_are_merged(lengths: tuple[int, int], last: int) -> None:
    """The kernels fill up with the largest key what has ended."""
    a, b = (
        u64([*range(LAST - last - 3 * size, LAST - last, 3), *range(LAST - last + 1, LAST + 1)]) for size in lengths
    )
    np.testing.assert_array_equal(merge_keys(a, b), np.union1d(a, b))


@pytest.mark.parametrize("size", [9, 32, 64, 100, 300])
def test_a_key_that_two_sources_have_comes_once_wherever_it_lies(size: int) -> None:
    """Kernels look for it within what they write at once, between that, and where they begin and end."""
    every = np.arange(size, dtype=np.uint64) * np.uint64(5)
    for at in range(size):
        one = np.union1d(every[::2], every[at : at + 1])
        other = np.union1d(every[1::2], every[at : at + 1])
        assert len(one) + len(other) == size + 1
        np.testing.assert_array_equal(merge_keys(one, other), every)


@pytest.mark.parametrize("few", [0, 1, 7, 8, 63, 64, 65])
@pytest.mark.parametrize("many", [900, 5000])
@pytest.mark.parametrize("kind", ["spread", "below", "above"])
def test_a_few_keys_are_merged_into_many(few: int, many: int, kind: str) -> None:
    """Of which nothing is left for most of the others."""
    first, most = {"spread": (1 << 40, 1 << 41), "below": (0, 1 << 40), "above": (LAST - (1 << 40), 1 << 40)}[kind]
    rng = np.random.default_rng(few)
    one = np.unique(np.uint64(first) + rng.integers(0, most, few, dtype=np.uint64, endpoint=True))
    other = np.unique(np.uint64(1 << 40) + rng.integers(0, 1 << 41, many, dtype=np.uint64))
    for merged_keys in (merge_keys(one, other), merge_keys(other, one)):
        np.testing.assert_array_equal(merged_keys, np.union1d(one, other))


@pytest.mark.parametrize("copies", [2, 3, 8, 9])
@pytest.mark.parametrize("size", [7, 8, 9, 63, 64, 65, 1000])
def test_keys_that_all_sources_have_come_once(copies: int, size: int) -> None:
    every = np.arange(size, dtype=np.uint64) * np.uint64(3)
    (found,) = merged([in_chunks(every, []) for _ in range(copies)], 1)
    np.testing.assert_array_equal(found, every)
    # Of each eight some that others have too, and some that they have not.
    parts = [every[np.arange(size) % (2 + i) != 0] for i in range(copies)]
    (found,) = merged([in_chunks(part, []) for part in parts], size)
    np.testing.assert_array_equal(found, np.unique(np.concatenate(parts)))


def by_windows(sources: list[np.ndarray], width: int, least: int, end_after: int = 1 << 60) -> tuple[list[int], int]:
    """What comes of sources with leave to be in any order, which ends after some chunks, and how many came so.

    Chunks that came so are whole windows; what comes from then on is in order, each key once.
    """
    order = AnyOrder(width)
    every = np.sort(np.concatenate(sources)).tolist()
    keys = MergedKeys([in_chunks(source, list(range(7, len(source), 7))) for source in sources], least, order=order)
    loose: list[int] = []
    found: list[int] = []
    chunks = 0
    for chunk in keys:
        if not order.width:
            found += chunk.tolist()
            continue
        windows = [key >> width for key in chunk.tolist()]
        assert windows == sorted(windows)
        assert not loose or loose[-1] >> width < windows[0]
        loose += chunk.tolist()
        chunks += 1
        if chunks == end_after:
            order.end()
    assert sorted(loose) == every[: len(loose)]
    assert found == sorted(set(every[len(loose) :]))
    return loose + found, len(loose)


@given(st.lists(KEY_SETS, min_size=1, max_size=9), st.integers(1, 64), st.integers(1, 70), st.integers(1, 5))
def test_keys_of_one_window_come_together_as_long_as_they_may(
    sources: list[set[int]], width: int, least: int, end_after: int
) -> None:
    by_windows([u64(sorted(keys)) for keys in sources], width, least, end_after)


@pytest.mark.parametrize("size", [1, 8, 9, 31, 32, 33, 64, 65, 200])
def test_windows_of_any_size_are_gathered(size: int) -> None:
    """Of three parts: all that there is in two of them, and a third of it."""
    every = u64([window << 40 | low for window in (0, 1, 7, (1 << 24) - 1) for low in range(size)])
    sources = [every, every[::3], every]
    found, loose = by_windows(sources, 40, 1000)
    assert loose == len(found) == sum(map(len, sources))
    assert found[:size] + found[size : size + len(range(0, size, 3))] == every[:size].tolist() + every[:size:3].tolist()


@pytest.mark.parametrize("width", [1, 3, 5])
@pytest.mark.parametrize("least", [40, 100])
def test_what_is_gathered_at_a_time_ends_with_a_window(width: int, least: int) -> None:
    sources = [np.arange(first, 1000, step, dtype=np.uint64) for first, step in ((0, 1), (5, 2), (700, 1))]
    found, loose = by_windows(sources, width, least)
    assert loose == len(found) == sum(map(len, sources))


def test_a_window_of_more_keys_than_are_held_ends_the_leave() -> None:
    """Some keys of it are still to come: what is behind it is in order too."""
    sources = [u64([*range(5), *range(1 << 20, (1 << 20) + 40), 1 << 21]), u64([3, 4])]
    found, loose = by_windows(sources, 20, 10)
    assert found[:loose] == [0, 1, 2, 3, 4, 3, 4]
    assert found[loose:] == [*range(1 << 20, (1 << 20) + 40), 1 << 21]


@pytest.mark.parametrize("room", [6, 37, 38, 50])
def test_windows_are_gathered_into_an_array_that_has_room_behind_them(room: int) -> None:
    """For 32 keys more, which may be written."""
    given_array = np.full(60, 77, dtype=np.uint64)
    sources = [iter([u64([1, 3, 9])]), iter([u64([2, 3, 8])])]
    keys = MergedKeys(sources, 5, None, partial(given_array.__getitem__, slice(room)), AnyOrder(3))
    found = next(keys)
    assert found.tolist() == [1, 3, 2, 3, 9, 8]
    assert np.shares_memory(found, given_array) == (room >= 38)
    assert (given_array[38:] == 77).all()
    assert list(keys) == []


def test_no_order_is_of_more_bits_than_a_key_has() -> None:
    with pytest.raises(ValueError, match=r"^keys that differ in 65 bits$"):
        AnyOrder(65)


def test_a_source_is_asked_for_no_more_than_is_merged_at_a_time() -> None:
    asked: list[list[int]] = [[], []]
    sources = [in_chunks(np.arange(100, dtype=np.uint64), list(range(10, 100, 10)), each) for each in asked]
    keys = MergedKeys(sources, 25)
    assert next(keys).tolist() == list(range(30))
    assert asked == [[10, 20, 30]] * 2
    assert np.concatenate([each.copy() for each in keys]).tolist() == list(range(30, 100))
    assert asked == [list(range(10, 101, 10))] * 2


def test_nothing_comes_after_a_source_that_fails() -> None:
    def failing() -> Iterator[np.ndarray]:
        yield u64([1, 5])
        raise OSError("gone")

    keys = MergedKeys([iter([u64([2, 3, 9])]), failing()], 1)
    assert next(keys).tolist() == [1, 2, 3, 5]
    with pytest.raises(OSError, match=r"^gone$"):
        next(keys)
    assert list(keys) == []


def test_nothing_comes_after_room_that_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys for which there was none have left what is held: those behind them would come in their place."""

    empty = np.empty

    def only_for_sources(shape: int, dtype: object) -> Any:
        if shape > 3:
            raise MemoryError
        return empty(shape, dtype)

    chunks = [u64([1]), u64([2, 3, 4]), u64([5])]
    keys = MergedKeys([iter(chunks), iter(chunks)], 1)
    assert next(keys).tolist() == [1]
    monkeypatch.setattr(np, "empty", only_for_sources)
    with pytest.raises(MemoryError):
        next(keys)
    monkeypatch.undo()
    assert list(keys) == []


@pytest.mark.parametrize("count", [2, 7, 9, 16, 17, 100])
def test_a_source_whose_keys_do_not_increase_is_refused(count: int) -> None:
    """Wherever in its chunk, and whether they are equal or decrease."""
    for at in range(1, count):
        for wrong in (at - 1, 0):
            keys = np.arange(count, dtype=np.uint64)
            keys[at:] -= np.uint64(at - wrong)
            found = MergedKeys([iter([u64([1])]), iter([keys])], 1)
            with pytest.raises(
                ValueError, match=r"^source 1: found keys that do not increase, expected each above the"
            ):
                next(found)
            assert list(found) == []


@pytest.mark.parametrize("second", [[5], [4], [5, 6], [0, 9]])
@pytest.mark.parametrize("least", [1, 3])
def test_a_chunk_that_does_not_lie_above_the_one_before_is_refused(second: list[int], least: int) -> None:
    """Also where what came before has been handed on already."""
    keys = MergedKeys([iter([u64([2, 5]), u64([]), u64(second)])], least)
    if least == 1:
        assert next(keys).tolist() == [2, 5]
    with pytest.raises(ValueError, match=r"^source 0: found keys that do not increase"):
        next(keys)
    assert list(keys) == []


@pytest.mark.parametrize("least", [1, 1000, 10**5])
def test_what_sources_decode_into_a_room_is_merged_from_there(least: int) -> None:
    """Each chunk goes to where it stays; some sources hand on only a part of it, or other arrays."""
    room = DecodeRoom()
    rng = np.random.default_rng(least)
    pieces = [np.unique(rng.integers(0, 10**6, size, dtype=np.uint64)) for size in (40_000, 3000, 9000)]
    places: list[list[np.ndarray]] = [[], []]  # kept, so that none is had twice of the system

    def decoded(index: int, left_out: int) -> Iterator[np.ndarray]:
        for first in range(0, len(pieces[index]), 700):
            chunk = pieces[index][first : first + 700]
            room.keys[: len(chunk)] = chunk
            places[index].append(room.keys)
            yield room.keys[left_out : len(chunk)]

    kept = [pieces[0], np.delete(pieces[1], np.arange(0, len(pieces[1]), 700)), pieces[2]]
    sources = [decoded(0, 0), decoded(1, 1), in_chunks(pieces[2], [])]
    found = [keys.copy() for keys in MergedKeys(sources, least, room)]
    np.testing.assert_array_equal(np.concatenate(found), np.unique(np.concatenate(kept)))
    at = [{place.ctypes.data for place in own} for own in places]
    assert not at[0] & at[1]


def test_keys_are_merged_into_an_array_that_has_room_for_all_of_them() -> None:
    """Room for what is left when one that several sources have is there once is not enough."""
    given = np.full(20, 77, dtype=np.uint64)
    for room in range(6, 10):
        keys = MergedKeys(
            [iter([u64([1, 3, 5])]), iter([u64([2, 3])]), iter([u64([3, 4, 9])])],
            5,
            None,
            partial(given.__getitem__, slice(room)),
        )
        found = next(keys)
        assert found.tolist() == [1, 2, 3, 4, 5, 9]
        assert np.shares_memory(found, given) == (room >= 8)
        assert (given[8:] == 77).all()
        assert list(keys) == []


def test_an_array_to_merge_into_is_asked_for_each_time() -> None:
    given = np.zeros(60, dtype=np.uint64)
    places = [given[first:] for first in (0, 20, 40, 60)]
    keys = MergedKeys([in_chunks(np.arange(60, dtype=np.uint64), [20, 40])], 1, None, partial(places.pop, 0))
    assert [len(found) for found in keys] == [20, 20, 20]
    np.testing.assert_array_equal(given, np.arange(60))


def test_what_is_decoded_into_a_room_must_lie_above_what_came_before() -> None:
    room = DecodeRoom()

    def decoded() -> Iterator[np.ndarray]:
        for first in (10, 12):
            room.keys[:3] = range(first, first + 3)
            yield room.keys[:3]

    keys = MergedKeys([decoded()], 1, room)
    assert next(keys).tolist() == [10, 11, 12]
    with pytest.raises(ValueError, match=r"^source 0: found keys that do not increase"):
        next(keys)


@pytest.mark.parametrize("place", [1, 8191, 8192, 59_999])
def test_what_does_not_increase_within_a_room_is_refused(place: int) -> None:
    """It would be merged into more than there is room for."""
    room = DecodeRoom()

    def decoded() -> Iterator[np.ndarray]:
        room.keys[:60_000] = range(60_000)
        room.keys[place] = room.keys[place - 1]
        yield room.keys[:60_000]

    others = [iter([np.array([x, x + 1], dtype=np.uint64)]) for x in range(3)]
    with pytest.raises(ValueError, match=r"^source 0: found keys that do not increase"):
        next(MergedKeys([decoded(), *others], 1 << 15, room))


def test_no_sources_have_no_keys() -> None:
    assert list(MergedKeys([], 5)) == []
    assert list(MergedKeys([iter([]), iter([u64([])])], 5)) == []


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


def test_a_room_is_used_again_when_nobody_has_a_part_of_it() -> None:
    rooms, one, other = Rooms(), u64([1, 3, 5]), u64([2, 3, 9])
    first, second, third = (merge_keys(one, other, rooms=rooms) for _ in range(3))
    assert first.tolist() == second.tolist() == third.tolist() == [1, 2, 3, 5, 9]
    places = [array.ctypes.data for array in (first, second, third)]
    assert len({*places}) == 3
    kept = first[1:3]
    del first, second
    fourth, fifth = (merge_keys(other, u64([7]), rooms=rooms) for _ in range(2))  # one of the two is new
    assert fourth.ctypes.data == places[1]
    assert fifth.ctypes.data not in places
    assert (kept.tolist(), third.tolist(), fourth.tolist()) == ([2, 3], [1, 2, 3, 5, 9], [2, 3, 7, 9])
    del fourth, fifth, kept
    longer = np.arange(0, 4000, 2, dtype=np.uint64)
    many = merge_keys(longer, longer + np.uint64(1), rooms=rooms)
    assert many.tolist() == list(range(4000))
    assert merge_keys(one, u64([]), rooms=rooms).tolist() == [1, 3, 5]
