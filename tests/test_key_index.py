"""Fingerprints in memory alone, against a plain loop over all of them."""

import itertools
import os
import platform
import re
import resource
import subprocess
import sys

import numpy as np
import pytest
from helpers import uniform
from hypothesis import given
from hypothesis import strategies as st

from fpstore import _key_index, threads
from fpstore._key_index import MOST_DISTANCE, KeyIndex
from fpstore.query import key_memory
from fpstore.query.key_memory import KeyMemory
from fpstore.types import Keys

# In every band some bits, so that what differs lies in one of them, in all, or at their ends.
BITS = [0, 1, 15, 16, 17, 31, 32, 40, 47, 48, 63]


@st.composite
def fingerprints(draw: st.DrawFn, most: int = 60) -> list[int]:
    """Few that are far apart, and others that differ from them in some bits."""
    centers = draw(st.lists(st.sampled_from([0, 2**64 - 1, 0x0123456789ABCDEF]), min_size=1, max_size=2))
    every = draw(st.lists(st.sets(st.sampled_from(BITS), max_size=len(BITS)), max_size=most))
    return [draw(st.sampled_from(centers)) ^ sum(1 << bit for bit in flips) for flips in every]


def plain(held: list[int], queries: list[int], distance: int, limit: int) -> list[tuple[int, int, int, int]]:
    found = []
    for query, asked in enumerate(queries):
        near = sorted(((asked ^ key).bit_count(), key, row) for row, key in enumerate(held))
        found += [(query, key, apart, row) for apart, key, row in near if apart <= distance][:limit]
    return found


def populates() -> bool:
    """Whether the system gives memory that is only asked for."""
    if sys.platform != "linux":
        return False
    release = platform.release().split(".")
    return (int(release[0]), int(re.sub(r"\D.*", "", release[1]))) >= (5, 14)


def keys_of(numbers: list[int]) -> Keys:
    return np.array(numbers, dtype=np.uint64)


@given(st.lists(fingerprints(), max_size=3), fingerprints(5), st.integers(0, MOST_DISTANCE), st.integers(0, 70))
def test_what_is_near_is_what_a_plain_loop_finds(
    batches: list[list[int]], queries: list[int], distance: int, limit: int
) -> None:
    index, held = KeyIndex(distance), list[int]()
    for batch in batches:
        index.add(keys_of(batch))
        held += batch
        columns = index.near(keys_of(queries), limit)
        found = list(zip(*(column.tolist() for column in columns), strict=True))
        assert found == plain(held, queries, distance, limit)
        assert len(index) == len(held)


@pytest.mark.parametrize("distance", range(MOST_DISTANCE + 1))
def test_all_ways_are_found_in_which_bits_differ_by_band(distance: int) -> None:
    """In each band the first bits, which are of its bucket however many keys there are."""
    counts = itertools.product(range(distance + 1), repeat=4)
    keys = [
        sum(((1 << own) - 1) << 16 * band + 16 - own for band, own in enumerate(each))
        for each in counts
        if sum(each) == distance
    ]
    index = KeyIndex(distance)
    index.add(keys_of(keys))
    assert sorted(index.near(keys_of([0]), len(keys))[1].tolist()) == sorted(keys)


def test_nothing_is_lost_where_lines_of_buckets_are_full_and_tables_grow() -> None:
    """All keys have one value in three of the bands; in the other one all there are, and each comes three times."""
    keys = [0xAAAA_0000_BBBB_CCCC | (i % 4096) << 32 for i in range(3 * 4096)]
    index = KeyIndex(6)
    for start in range(0, len(keys), 1000):
        index.add(keys_of(keys[start : start + 1000]))
    queries = [keys[77], keys[0] ^ 1 << 63 ^ 1, 0]
    columns = index.near(keys_of(queries), 5000)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain(keys, queries, 6, 5000)


def test_keys_that_came_again_are_told_once_each_when_tables_grow() -> None:
    keys = np.random.default_rng(3).integers(0, 2**64, 42_000, dtype=np.uint64)
    index = KeyIndex(3)
    index.add(np.concatenate([keys[:50], keys[:50]]))
    index.add(keys[50:])
    assert index.near(keys[:50], 10)[3].tolist() == [row for i in range(50) for row in (i, i + 50)]


def test_of_very_many_near_ones_the_nearest_are_told() -> None:
    """More than there is room for at first, of which not all are asked for, and of which all are."""
    keys = [sum(1 << 5 * bit for bit in range(12) if number >> bit & 1) for number in range(4096)]
    index = KeyIndex(11)
    index.add(keys_of(keys[::-1]))
    for limit in (3, 2000, 10_000):
        columns = index.near(keys_of([0, 1]), limit)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain(keys[::-1], [0, 1], 11, limit)


# Of so many queries, and keys that take tables of so many lines, those are looked at together that read the same lines;
# unless much is found, as of those of one center.
TOGETHER = """
import numpy as np
from fpstore._key_index import KeyIndex
rng = np.random.default_rng(11)
def changed(keys, most):
    for _ in range(most):
        flips = rng.integers(0, 2, len(keys), dtype=np.uint64)
        keys = keys ^ flips << rng.integers(0, 64, len(keys), dtype=np.uint64)
    return keys
held = rng.integers(0, 2**64, 41_500, dtype=np.uint64)
held[-500:] = held[:500]
for distance in (0, 2, 6, 8):
    index, queries = KeyIndex(distance), changed(held[rng.integers(0, len(held), 1500)], distance + 1)
    own = held.copy()
    own[1000:1300] = changed(np.repeat(own[:1], 300), max(1, distance // 2))
    index.add(own)
    crowded = changed(np.repeat(own[:1], 1100), 1)
    both = np.concatenate([queries, crowded[:20]]), np.concatenate([crowded, queries[:5]])
    for asked in (queries[:1023], queries[:1024], *both):
        for limit in (1, 40, 1000):
            found = index.near(asked, limit)
            one_by_one = [index.near(each, limit) for each in asked[:, None]]
            expected = [np.concatenate([each[column] for each in one_by_one]) for column in (1, 2, 3)]
            counts = [len(each[0]) for each in one_by_one]
            assert found[0].tolist() == np.repeat(np.arange(len(asked)), counts).tolist()
            assert all((column == other).all() for column, other in zip(found[1:], expected, strict=True))
    apart = np.bitwise_count(queries[:200, None] ^ own) <= distance
    assert np.bincount(index.near(queries, 1000)[0], minlength=200)[:200].tolist() == apart.sum(axis=1).tolist()
"""


@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE", "NONE"])
def test_many_queries_find_together_what_each_finds(setting: str) -> None:
    subprocess.run([sys.executable, "-c", TOGETHER], check=True, env=os.environ | {setting: "1"})


def test_a_row_takes_what_is_said() -> None:
    index = KeyIndex(6)
    index.add(np.random.default_rng(7).integers(0, 2**64, 1 << 20, dtype=np.uint64))
    assert index.nbytes < 150 << 20  # of which the system gives what is written to


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="distance: found 12, expected at most 11"):
        KeyIndex(12)
    with pytest.raises(ValueError, match="max_distance: found 4, expected 3, as it was made for"):
        KeyMemory(3).nearest_many(keys_of([1]), max_distance=4)
    assert _key_index.MOST_ROWS == 2**27


@given(fingerprints(), fingerprints(5), st.integers(0, 3), st.integers(0, 3))
def test_all_that_are_near_are_found_under_their_ids(
    held: list[int], queries: list[int], distance: int, asked: int
) -> None:
    memory = KeyMemory(distance, first_id=100)
    memory.add(keys_of(held), ids=np.arange(100, 100 + len(held), dtype=np.uint64))
    expected = [(*each[:3], each[3] + 100) for each in plain(held, queries, min(asked, distance), len(held))]
    assert [tuple(match) for match in memory.probe_many(keys_of(queries), max_distance=asked)] == expected
    every = [(*each[:3], each[3] + 100) for each in plain(held, queries, distance, len(held))]
    assert [tuple(match) for match in memory.probe_many(keys_of(queries))] == every


def test_several_threads_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_memory, "_AT_ONCE", 3)
    alone, several, keys = KeyMemory(2), KeyMemory(2, threads=2), np.arange(64, dtype=np.uint64) % 20
    for start in range(0, 64, 16):
        for memory in (alone, several):
            memory.add(keys[start : start + 16], ids=np.arange(start, start + 16, dtype=np.uint64))
        assert list(several.nearest_many(keys[:20], 7)) == list(alone.nearest_many(keys[:20], 7))
        assert list(several.probe_many(keys[:2])) == list(alone.probe_many(keys[:2]))
    assert len(several) == len(alone) == 64
    assert several.nbytes == alone.nbytes


def test_what_is_added_without_a_thread_to_give_is_added_by_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(key_memory, "_AT_ONCE", 3)
    monkeypatch.setattr(threads, "start_new_thread", refuse)
    memory = KeyMemory(2, threads=2)
    memory.add(np.arange(9, dtype=np.uint64), ids=np.arange(9, dtype=np.uint64))
    assert memory.nearest_many(np.arange(9, dtype=np.uint64), 1).fingerprint.tolist() == list(range(9))


@pytest.mark.skipif(not populates(), reason="no Linux of 5.14 or later")
def test_tables_have_all_their_memory_when_the_first_keys_are_added() -> None:
    """Else each page that was looked at before it is written to is given again, for which all threads are stopped."""

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    rng = np.random.default_rng(1)
    first, queries, more = uniform(64, rng), uniform(4096, rng), uniform(2048, rng)
    index = KeyIndex(6)
    index.add(first)
    index.near(queries, 1)
    before = faults()
    index.add(more)
    # Two tables of 1 MiB have 512 pages, of which most keys come to eight.
    assert faults() - before < 64
