"""Sorting in a stated budget: the same keys come out, whatever fits, and the budget holds."""

# mypy: disable-error-code="arg-type, attr-defined, func-returns-value, index, union-attr"

import errno
import os
import re
import stat
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore._merge import PACKED_GROUP, PACKED_SLACK, pack_sorted, packed_most, unpack_sorted
from fpstore._sort import GrowingKeys
from fpstore.arrays import parse_memory
from fpstore.building import runs, spill
from fpstore.building.rooms import Rooms
from fpstore.building.runs import BEGIN, Spill, runs_of
from fpstore.building.spill import KeySorter, PairSorter, SortedKeys
from fpstore.merging import merged
from fpstore.plans.permutation import Permutation
from fpstore.types import Keys

MIB = 1 << 20
SCRATCH_BYTES = 528 << 10  # of sorting keys in place
TOP = 2**64 - 1


def u64(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def uniform(count: int, seed: int = 1, high: int = TOP) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, count, dtype=np.uint64, endpoint=True)


def all_keys(result: SortedKeys) -> np.ndarray:
    chunks = list(result.chunks())
    assert all(len(chunk) for chunk in chunks)
    return np.concatenate([*chunks, u64([])])


def all_pairs(pairs: Iterator[Any]) -> tuple[np.ndarray, np.ndarray]:
    chunks = list(pairs)
    assert all(len(first) == len(second) > 0 for first, second in chunks)
    chunks.append((u64([]), u64([])))
    return np.concatenate([first for first, _ in chunks]), np.concatenate([second for _, second in chunks])


def distinct_pairs(fingerprints: Keys, ids: Keys) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((ids, fingerprints))
    fingerprints, ids = fingerprints[order], ids[order]
    new = np.ones(len(ids), bool)
    new[1:] = (fingerprints[1:] != fingerprints[:-1]) | (ids[1:] != ids[:-1])
    return fingerprints[new], ids[new]


def add_in_pieces(sorter: KeySorter | PairSorter, *columns: object, piece: int = 70_001) -> None:
    for start in range(0, len(columns[0]), piece):
        sorter.add(*(column[start : start + piece] for column in columns))


def make_budgets_small(patch: pytest.MonkeyPatch) -> None:
    """Budgets of 256 bytes (384 for pairs) and up: many runs, pieces and rounds of merging."""
    patch.setattr(spill, "MIN_MEMORY_BYTES", 1)
    patch.setattr(spill, "RESERVE_BYTES", 0)
    patch.setattr(spill, "MIN_PIECE_BYTES", 64)
    patch.setattr(runs, "GROUP_KEYS", 3)


KEY_SETS = {
    "uniform": uniform(10**6),
    "many duplicates": uniform(10**6, high=200_000),
    "all equal": np.full(10**6, TOP, np.uint64),
    "increasing": np.arange(10**6, dtype=np.uint64),
    "decreasing": np.arange(10**6, dtype=np.uint64)[::-1].copy(),
    "one run far below the others": np.concatenate([uniform(900_000) | u64([1 << 63]), uniform(100_000, high=99)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEY_SETS)
def test_a_million_keys_are_sorted_within_one_mebibyte(name: Any, tmp_path: Path) -> None:
    keys = KEY_SETS[name]
    expected = u64(sorted(set(keys.tolist())))
    tracemalloc.start()
    sorter = KeySorter(tmp_path, MIB)
    add_in_pieces(sorter, keys)
    result = sorter.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= MIB
    assert result.count == len(expected)
    np.testing.assert_array_equal(all_keys(result), expected)
    result.close()


@pytest.mark.parametrize("distinct", [TOP, 1000, 0])
def test_pairs_are_sorted_within_one_mebibyte(distinct: int, tmp_path: Path) -> None:
    fingerprints, ids = uniform(300_000, high=distinct), uniform(300_000, seed=2, high=1000)
    expected = distinct_pairs(fingerprints, ids)
    tracemalloc.start()
    sorter = PairSorter(tmp_path, MIB)
    add_in_pieces(sorter, fingerprints, ids)
    result = sorter.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= MIB
    assert result.count == len(expected[0])
    for found, wanted in zip(all_pairs(result.chunks()), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    result.close()


def test_reading_the_result_stays_within_the_budget_too(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    add_in_pieces(sorter, uniform(400_000))
    result = sorter.finish()
    tracemalloc.start()
    for chunk in result.chunks():
        assert len(chunk) <= MIB // 64
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= MIB // 2
    result.close()


def test_keys_that_fit_take_eight_bytes_each(tmp_path: Path) -> None:
    count = 10**6
    keys = uniform(count)
    for expected_count, slack in ((count, 1.01), (0, 1.13)):
        tracemalloc.start()
        sorter = KeySorter(tmp_path, 64 * MIB, expected_count)
        add_in_pieces(sorter, keys)
        result = sorter.finish()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 8 * count * slack + SCRATCH_BYTES
        assert result.count == count


def test_what_fits_the_budget_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: Any) -> None:
        raise AssertionError("a spill file was made")

    monkeypatch.setattr(runs, "unnamed", refuse)
    keys = (MIB - spill.RESERVE_BYTES) // 8
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(uniform(keys))
    assert sorter.finish().count == keys
    sorter.add(uniform(keys))
    sorter.add(u64([1]))  # packed, what there was leaves room for it
    with pytest.raises(AssertionError, match="a spill file was made"):
        sorter.add(uniform(keys))


def test_duplicates_alone_never_spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "unnamed", None)
    sorter = KeySorter(tmp_path, MIB)
    add_in_pieces(sorter, np.tile(np.arange(50_000, dtype=np.uint64), 20))
    np.testing.assert_array_equal(all_keys(sorter.finish()), np.arange(50_000))


def test_spill_files_lie_in_the_given_folder_unnamed_and_private(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    add_in_pieces(sorter, uniform(300_000))
    (file,) = sorter._runs._files
    assert os.fstat(file.fileno()).st_dev == tmp_path.stat().st_dev
    assert os.readlink(f"/proc/self/fd/{file.fileno()}").startswith(str(tmp_path))
    assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []
    result = sorter.finish()
    assert list(tmp_path.iterdir()) == []
    result.close()
    assert file.closed
    assert list(tmp_path.iterdir()) == []


def test_a_result_can_be_read_again_and_by_two_readers_at_once(tmp_path: Path) -> None:
    keys = uniform(300_000)
    for memory in (MIB, 64 * MIB):
        sorter = KeySorter(tmp_path, memory)
        sorter.add(keys)
        result = sorter.finish()
        for first, second in zip(result.chunks(), result.chunks(), strict=True):
            np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(all_keys(result), np.sort(keys))
        result.close()


def test_chunks_of_a_result_in_memory_cannot_be_written_to(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(u64([2, 1]))
    (chunk,) = sorter.finish().chunks()
    with pytest.raises(ValueError, match="read-only"):
        chunk[0] = 9


def test_closing_frees_what_the_result_holds(tmp_path: Path) -> None:
    for memory in (MIB, 64 * MIB):
        sorter = KeySorter(tmp_path, memory)
        sorter.add(uniform(200_000))
        result = sorter.finish()
        files = result._spill._files if result._spill else []
        result.close()
        assert all(file.closed for file in files)
        assert (result.count, list(result.chunks())) == (0, [])


def test_a_result_that_nobody_closes_frees_its_disk(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(uniform(200_000))
    result = sorter.finish()
    (file,) = result._spill._files
    del result
    assert file.closed


def test_a_sorter_without_keys_gives_none(tmp_path: Path) -> None:
    keys, pairs = KeySorter(tmp_path, MIB).finish(), PairSorter(tmp_path, MIB).finish()
    assert (keys.count, list(keys.chunks())) == (0, [])
    assert (pairs.count, list(pairs.chunks()), list(pairs.groups())) == (0, [], [])


def test_a_sorter_starts_afresh_after_finish(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(uniform(200_000))
    sorter.finish().close()
    sorter.add(u64([5, 4]))
    assert all_keys(sorter.finish()).tolist() == [4, 5]


def test_what_was_added_may_be_changed_afterwards(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    keys = u64([3, 1])
    sorter.add(keys)
    keys[:] = 9
    assert all_keys(sorter.finish()).tolist() == [1, 3]


values = st.one_of(st.integers(0, 20), st.integers(0, TOP))


@settings(max_examples=150)
@given(st.lists(values, max_size=400), st.integers(256, 1500), st.integers(1, 90), st.sampled_from([1, 2]))
def test_any_keys_in_any_budget_come_out_sorted_and_distinct(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], memory: int, piece: int, threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        make_budgets_small(patch)
        patch.setattr(spill, "MIN_PIECE_BYTES", 8)  # some runs are merged as they are read
        sorter = KeySorter(tmp_path_factory.getbasetemp(), memory, threads=threads)
        add_in_pieces(sorter, u64(keys), piece=piece)
        result = sorter.finish()
        assert all_keys(result).tolist() == sorted(set(keys))
        assert result.count == len(set(keys))
        result.close()


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.one_of(st.integers(0, 3), values), values), max_size=300),
    st.integers(384, 3000),
    st.integers(1, 90),
    st.sampled_from([1, 2]),
)
def test_any_pairs_in_any_budget_come_out_sorted_distinct_and_grouped(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], memory: int, piece: int, threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        make_budgets_small(patch)
        patch.setattr(spill, "MIN_PIECE_BYTES", 16)
        sorter = PairSorter(tmp_path_factory.getbasetemp(), memory, threads=threads)
        columns = u64(pairs).reshape(-1, 2).T.copy()
        add_in_pieces(sorter, *columns, piece=piece)
        result = sorter.finish()
        found = [column.tolist() for column in all_pairs(result.chunks())]
        assert list(zip(*found, strict=True)) == sorted(set(pairs))
        distinct, counts = all_pairs(result.groups())
        assert distinct.tolist() == sorted({fingerprint for fingerprint, _ in pairs})
        assert counts.tolist() == [found[0].count(fingerprint) for fingerprint in distinct.tolist()]
        result.close()


def test_runs_beyond_one_merge_are_merged_in_rounds(tmp_path: Path) -> None:
    merges: list[int] = []
    original = runs_of
    with pytest.MonkeyPatch.context() as patch:
        make_budgets_small(patch)
        patch.setattr(spill, "runs_of", lambda *call: (merges.append(len(call[1]) - 1), original(*call))[1])
        sorter = KeySorter(tmp_path, 512, distinct=True)
        keys = uniform(64 * 20)
        sorter.add(keys)
        result = sorter.finish()
    # 512 bytes hold 64 keys, so there are 20 runs; a quarter of them, in pieces of 64 bytes, is 2 runs at a time.
    assert merges == [2] * 10 + [2] * 5 + [2, 2, 1] + [2, 1] + [2]
    np.testing.assert_array_equal(all_keys(result), np.sort(keys))
    result.close()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("high", [TOP, 50_000, 0])
def test_parts_sorted_by_several_threads_come_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, high: int, threads: int
) -> None:
    monkeypatch.setattr(spill, "QUICK_ITEMS", 0)
    monkeypatch.setattr(spill, "CHUNK_BYTES", 1 << 13)
    keys = uniform(100_000, high=high)
    sorter = KeySorter(tmp_path, 64 * MIB, threads=threads)
    sorter.add(keys)
    np.testing.assert_array_equal(all_keys(sorter.finish()), np.unique(keys))


def sizes_written(patch: pytest.MonkeyPatch) -> list[int]:
    write, sizes = os.pwrite, []
    patch.setattr(os, "pwrite", lambda fd, data, at: sizes.append(len(data)) or write(fd, data, at))
    return sizes


@pytest.mark.parametrize(
    ("count", "last", "is_written"), [(130_000, 11_216, False), (138_000, 0, False), (400_000, None, True)]
)
def test_runs_are_packed_in_memory_and_written_where_there_is_no_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, last: int | None, is_written: bool
) -> None:
    monkeypatch.setattr(spill, "CHUNK_BYTES", 1 << 14)
    monkeypatch.setattr(spill, "MIN_PIECE_BYTES", 64)
    sizes = sizes_written(monkeypatch)
    run = (MIB - spill.RESERVE_BYTES) // 8
    most_held = run - 4 * (1 << 14) // 8
    sorter = KeySorter(tmp_path, MIB)
    keys = uniform(count)
    add_in_pieces(sorter, keys)
    result = sorter.finish()
    # 118,784 random keys fit. Packed they take 6.3 bytes each, so there is room for some 25,000 more, which take 6.6.
    assert (sum(sizes) > 0) == is_written
    assert 6 * count <= sum(sizes) + result.memory_bytes <= 7 * count
    assert result.memory_bytes <= 8 * most_held
    if last is not None:
        packed = result.memory_bytes - 8 * last  # the last run stays as it is, if all of it leaves room for a merge
        assert 6.2 * (count - last) < packed < 6.5 * (count - last)
    np.testing.assert_array_equal(all_keys(result), np.sort(keys))
    result.close()
    assert result.memory_bytes == 0


def test_what_is_held_is_written_as_soon_as_a_sixteenth_of_the_room_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = sizes_written(monkeypatch)
    sorter = KeySorter(tmp_path, MIB)
    room, taken = (MIB - spill.RESERVE_BYTES) // 8, []
    while not sizes:
        taken.append(sorter._first)
        # A packed one takes some four bytes.
        sorter.add(uniform(room - sorter._first - sorter._size, len(taken), 1 << 48))
        sorter.add(u64([len(taken)]))  # which there is no room for
    assert len(taken) > 3
    assert taken[-1] <= room * 15 / 16 < sum(sizes) / 8 <= room
    assert (sorter._first, sorter._size) == (0, 1)


@pytest.mark.parametrize("group", [1, 2, 3])
def test_keys_that_take_more_room_packed_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr(runs, "GROUP_KEYS", group)
    sizes = sizes_written(monkeypatch)
    room, keys = GrowingKeys(1000), np.sort(uniform(1000))
    np.asarray(room)[:] = keys
    held = Spill(tmp_path, 1, packed_keys=7)
    held.hold(room, 0, 1000)
    assert sum(sizes) == held.end.bytes > 8000
    assert (held.count, held.held_keys) == (1000, 0)
    found = list(runs_of(held, [BEGIN, held.end], 100))
    np.testing.assert_array_equal(np.concatenate([chunk.copy() for (chunk,) in merged(found)]), keys)
    held.close()


def test_runs_that_are_held_stay_where_they_are_until_they_are_written(tmp_path: Path) -> None:
    room, first, second = GrowingKeys(2000), np.sort(uniform(900, 1, 1 << 40)), np.sort(uniform(700, 2, 1 << 40))
    spilled, bounds = Spill(tmp_path, 1), [BEGIN]
    for at, keys in ((0, first), (1000, second)):
        np.asarray(room)[at : at + len(keys)] = keys
        spilled.hold(room, at, len(keys))
        bounds.append(spilled.end)
    assert bounds[2].items == 1600
    assert spilled.held_keys == -(-bounds[2].bytes // 8) < 1600
    for _ in range(2):  # from memory, then from the file
        for keys, ends in zip((first, second), pairwise(bounds), strict=True):
            (run,) = runs_of(spilled, list(ends), 300)
            np.testing.assert_array_equal(np.concatenate([chunk.copy() for (chunk,) in merged([run])]), keys)
        spilled.write_held()
        assert spilled.held_keys == 0
        np.asarray(room)[:] = 0
    third = np.sort(uniform(500, 3, 1 << 40))
    np.asarray(room)[:500] = third
    spilled.hold(room, 0, 500)  # again in memory, behind what is in the file
    (run,) = runs_of(spilled, [bounds[2], spilled.end], 300)
    np.testing.assert_array_equal(np.concatenate([chunk.copy() for (chunk,) in merged([run])]), third)
    spilled.close()


def test_a_sorter_has_the_room_of_a_result_that_was_closed(tmp_path: Path) -> None:
    lender, rooms = Rooms(), []
    for count in (200_000, 400_000, 1000, 300_000):  # some of which are packed, and some written
        keys = uniform(count, count)
        sorter = KeySorter(tmp_path, 2 * MIB, count, rooms=lender)
        rooms += sorter._rooms
        add_in_pieces(sorter, keys)
        result = sorter.finish()
        np.testing.assert_array_equal(all_keys(result), np.sort(keys))
        result.close()
    assert all(room is rooms[0] for room in rooms)


def test_a_room_that_somebody_looks_at_is_nobody_elses(tmp_path: Path) -> None:
    rooms, keys = Rooms(), uniform(1000)
    sorter = KeySorter(tmp_path, MIB, rooms=rooms)
    sorter.add(keys)
    result = sorter.finish()
    (chunk,) = result.chunks()
    result.close()
    other = KeySorter(tmp_path, MIB, 1000, rooms=rooms)
    other.add(uniform(1000, 2))
    np.testing.assert_array_equal(chunk, np.sort(keys))


@pytest.mark.parametrize("high", [TOP, 200_000])
def test_how_many_there_are_at_most_is_known_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, high: int
) -> None:
    keys = uniform(400_000, high=high)
    sorter = KeySorter(tmp_path, MIB)
    add_in_pieces(sorter, keys)
    merges = []
    monkeypatch.setattr(spill, "runs_of", lambda *call: (merges.append(1), runs_of(*call))[1])
    result = sorter.finish()
    distinct = len(np.unique(keys))
    assert distinct <= result.most <= len(keys)
    assert (result.most == distinct) == (high == TOP)
    assert not merges
    assert (result.count, result.count) == (distinct, distinct)
    assert len(merges) == 1
    result.close()
    assert (result.count, result.most) == (0, 0)


def test_a_group_larger_than_a_chunk_is_counted_whole(tmp_path: Path) -> None:
    ids = np.arange(500_000, dtype=np.uint64)
    sorter = PairSorter(tmp_path, MIB)
    sorter.add(u64([1]), u64([7]))
    add_in_pieces(sorter, np.full(500_000, 5, np.uint64), ids)
    sorter.add(u64([9, 9]), u64([7, 8]))
    result = sorter.finish()
    distinct, counts = all_pairs(result.groups())
    assert (distinct.tolist(), counts.tolist()) == ([1, 5, 9], [1, 500_000, 2])
    result.close()


def test_a_budget_below_one_mebibyte_is_refused(tmp_path: Path) -> None:
    for sorter in (KeySorter, PairSorter):
        with pytest.raises(ValueError, match=r"at least 1048576 bytes, not 1048575"):
            sorter(tmp_path, MIB - 1)


@pytest.mark.parametrize("bad", [[1, 2], np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 2), np.uint64)])
def test_a_sorter_takes_arrays_of_uint64_only(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="one-dimensional arrays of uint64"):
        KeySorter(tmp_path, MIB).add(bad)
    with pytest.raises(TypeError, match="one-dimensional arrays of uint64"):
        PairSorter(tmp_path, MIB).add(u64([1, 2]), bad)


def test_pairs_of_other_lengths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 fingerprints come with 3 ids"):
        PairSorter(tmp_path, MIB).add(u64([1, 2]), u64([1, 2, 3]))


@pytest.mark.parametrize("memory", [MIB, 16 * MIB])
def test_fingerprints_are_brought_under_a_permutation_on_the_way(tmp_path: Path, memory: int) -> None:
    fingerprints, ids = uniform(200_000), np.arange(200_000, dtype=np.uint64)
    permutation = Permutation(0xFFFF << 20)
    keys, sorter, pairs = permutation.apply(fingerprints), KeySorter(tmp_path, memory), PairSorter(tmp_path, memory)
    for start in range(0, len(keys), 30_000):
        piece = slice(start, start + 30_000)
        sorter.add(fingerprints[piece], permutation)
        pairs.add(fingerprints[piece], ids[piece], permutation)
    np.testing.assert_array_equal(all_keys(sorter.finish()), np.sort(keys))
    found = [np.concatenate(columns) for columns in zip(*pairs.finish().chunks(), strict=True)]
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], ids[order])
    with pytest.raises(ValueError, match="contiguous"):
        sorter.add(fingerprints[::2], permutation)


def test_strided_and_read_only_input_is_taken(tmp_path: Path) -> None:
    keys = uniform(100_000)
    keys.flags.writeable = False
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(keys[::-2])
    np.testing.assert_array_equal(all_keys(sorter.finish()), np.sort(keys[::-2]))


def test_a_missing_folder_is_reported_as_the_system_says(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path / "absent", MIB)
    with pytest.raises(FileNotFoundError):
        sorter.add(uniform(300_000))


def test_a_full_disk_is_reported_as_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left") as caught:
        KeySorter(tmp_path, MIB).add(uniform(300_000))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))


def test_short_writes_and_reads_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:99_999], at))
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: read(fd, [into[0][:77_777]], at))
    keys = uniform(300_000)
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(keys)
    result = sorter.finish()
    np.testing.assert_array_equal(all_keys(result), np.sort(keys))
    result.close()


def test_a_spill_file_cut_short_is_an_error_not_a_shorter_answer(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(uniform(300_000))
    result = sorter.finish()
    os.ftruncate(result._spill._files[0].fileno(), 1_700_000)
    with pytest.raises(OSError, match=r"a spill file ends at byte 1700000, \d+ bytes early"):
        list(result.chunks())
    result.close()


def test_a_spill_file_that_is_none_any_more_is_an_error(tmp_path: Path) -> None:
    sorter = KeySorter(tmp_path, MIB)
    sorter.add(uniform(300_000))
    result = sorter.finish()
    os.pwrite(result._spill._files[0].fileno(), b"\xff\xff", 0)
    with pytest.raises(OSError, match="a spill file has changed at byte 0") as caught:
        list(result.chunks())
    assert caught.value.errno == errno.EIO
    result.close()


sorted_numbers = st.lists(st.one_of(st.integers(0, 300), st.integers(0, TOP)), max_size=400).map(sorted).map(u64)


@given(sorted_numbers, st.integers(1, PACKED_GROUP), st.integers(1, 500), st.integers(0, 3000))
def test_packed_keys_are_read_back_group_by_group_whatever_there_is_room_for(
    keys: Keys, group: int, room: int, size: int
) -> None:
    packed = np.full(packed_most(len(keys), group), 0xA5, dtype=np.uint8)
    end = pack_sorted(keys, group, packed)
    assert end <= len(packed) - PACKED_SLACK
    read: list[Keys] = []
    at = done = 0
    while done < len(keys):
        into = np.full(max(room, group) + 1, 7, dtype=np.uint64)
        most = max(size, packed_most(group, group))
        data = np.full(
            min(most, end - at) + PACKED_SLACK, 0xFF, dtype=np.uint8
        )  # what is behind the end is of no meaning
        data[:-PACKED_SLACK] = packed[at : at + len(data) - PACKED_SLACK]
        count, used = unpack_sorted(data, len(data) - PACKED_SLACK, into[:-1])
        assert count > 0
        assert into[-1] == 7
        read.append(into[:count])
        at, done = at + used, done + count
    assert at == end
    np.testing.assert_array_equal(np.concatenate([*read, u64([])]), keys)


@given(st.binary(max_size=2000), st.integers(0, 300))
def test_bytes_that_are_no_groups_are_read_no_further(data: bytes, room: int) -> None:
    keys = np.full(room + 1, 7, dtype=np.uint64)
    count, used = unpack_sorted(np.frombuffer(data + bytes(PACKED_SLACK), dtype=np.uint8), len(data), keys[:room])
    assert used <= len(data)
    assert count <= room
    assert keys[room] == 7
    # By hand: whole groups, of 128 keys and steps of 56 bits at most, or of 64.
    at = made = 0
    while len(data) - at >= 10:
        number, width = data[at] + 1, data[at + 1]
        end = at + 10 + ((number - 1) * width + 7) // 8
        if number > 128 or 56 < width != 64 or end > len(data) or made + number > room:
            break
        at, made = end, made + number
    assert (count, used) == (made, at)


@pytest.mark.parametrize("bits", range(65))
@pytest.mark.parametrize("count", [2, 3, 9, 128])
def test_a_step_takes_as_many_bits_as_the_longest_and_none_between_56_and_64(bits: int, count: int) -> None:
    step = (1 << bits) - 1
    first = 7 if bits < 57 else 0
    keys = u64([first] + [min(first + step * (1 + index // 60), TOP) for index in range(count - 1)])
    packed = np.empty(packed_most(count, PACKED_GROUP), dtype=np.uint8)
    size = pack_sorted(keys, PACKED_GROUP, packed)
    width = bits if bits <= 56 else 64
    assert size == 10 + (width * (count - 1) + 7) // 8
    assert (packed[0], packed[1]) == (count - 1, width)
    into = np.empty(count, dtype=np.uint64)
    assert unpack_sorted(packed, size, into) == (count, size)
    np.testing.assert_array_equal(into, keys)
    assert unpack_sorted(packed, size - 1, into) == (0, 0)


def test_what_is_packed_for_too_little_room_is_refused() -> None:
    keys, room = uniform(300, high=0), np.empty(packed_most(300, 128), dtype=np.uint8)
    assert pack_sorted(keys, 128, room) == 3 * 10  # of equal keys a step takes nothing
    with pytest.raises(ValueError, match=f"out: found {len(room) - 1} bytes, expected {len(room)} for 300 keys"):
        pack_sorted(keys, 128, room[:-1])
    for group in (0, 129):
        with pytest.raises(ValueError, match=f"group: found {group}, expected 1 to 128"):
            pack_sorted(keys, group, room)
        with pytest.raises(ValueError, match=f"group: found {group}, expected 1 to 128"):
            packed_most(300, group)
    for size in (len(room), len(room) - 7, 1 << 63):
        with pytest.raises(ValueError, match=f"data: found {len(room)} bytes, expected 8 more than {size}"):
            unpack_sorted(room, size, keys)
    with pytest.raises(ValueError, match="data: found 7 bytes, expected 8 more than 0"):
        unpack_sorted(room[:7], 0, keys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("1B", 1),
        ("2GiB", 2 << 30),
        ("512MiB", 512 << 20),
        (" 512 mib ", 512 << 20),
        ("1.5KiB", 1536),
        ("3kB", 3000),
        ("1TB", 10**12),
    ],
)
def test_memory_is_read_from_numbers_and_text(text: int | str, expected: int) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize("bad", ["", "GiB", "2 G", "-1", "0", 0, -5, True, 1.5, None, "1e9", "2GiBs", "0.1B", "٣"])
def test_memory_that_is_not_a_size_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"memory: found {bad!r}, expected a number of bytes above 0")):
        parse_memory(bad)
