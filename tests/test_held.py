"""Rows of small segments that the writer searches in its memory, while all others search the segments."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import uniform
from living import SOME, keys_of, rows_of, store_of_some, writer_of

import fpstore
from fpstore.living import held as held_module
from fpstore.living import renewal, writer
from fpstore.living.merge import merge_segments
from fpstore.living.snapshot import Snapshot
from fpstore.living.writer import Writer
from fpstore.threads import Background

KEYS = uniform(1200, np.random.default_rng(3))
IDS = np.arange(1200, dtype=np.uint64)
# No segment is large, and none is merged.
SMALL = {"flush_rows": 1 << 20, "small_rows": 1 << 20, "small_segments": 100}


def opened(path: Path, **sizes: int) -> fpstore.Store:
    return writer_of(path, "commit", **SMALL | sizes)


def add(store: fpstore.Store, first: int, end: int, *, flush: bool = True, ask: bool = True) -> None:
    store.add(KEYS[first:end], ids=IDS[first:end])
    if ask:  # rows of one who does not are not held
        assert store.contains_near(int(KEYS[first]))
    if flush:
        store._flush()


def latest(store: fpstore.Store) -> Snapshot:
    return store._living.snapshot


def wait_for_merge(store: fpstore.Store) -> None:
    """For the one that is under way, if any."""
    assert isinstance(store._living, Writer)
    job = store._living._merge_job
    if job is not None:
        job.wait()


def held(store: fpstore.Store) -> tuple[int, int, int]:
    """How many segments there are, how many of them are searched, and how many rows are in memory."""
    snapshot = latest(store)
    return len(snapshot.parts), len(snapshot.searched), snapshot.pending_end


def expect_rows(store: fpstore.Store, path: Path, first: int, end: int, *more: tuple[int, int]) -> None:
    """The writer, a reader and whoever opens the store anew find these rows and no others."""
    expected = sorted([*zip(KEYS[first:end].tolist(), IDS[first:end].tolist(), strict=True), *more])
    assert sorted(rows_of(store)) == expected  # which probes, too
    ids = IDS[first:end:7]
    assert [row.fingerprint for row in store.lookup(ids)] == KEYS[first:end:7].tolist()
    assert store.contains_near(int(KEYS[first]))
    assert store.count() == len({key for key, _ in expected})
    with fpstore.open(path) as reader:
        assert sorted(rows_of(reader)) == expected
        assert held(reader)[:2] == (len(reader._segments), len(reader._segments))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fpstore.create(tmp_path / "s", plan="paper-4").close()
    return tmp_path / "s"


def test_the_writer_searches_rows_of_small_segments_in_memory_and_readers_the_segments(path: Path) -> None:
    with opened(path) as store, fpstore.open(path) as reader:
        for first in (0, 100, 200):
            add(store, first, first + 100)
        add(store, 300, 350, flush=False)
        assert held(store) == (3, 0, 350)
        assert (store.stats().pending_count, latest(store).pending_start) == (50, 300)
        expect_rows(store, path, 0, 350)
        assert sorted(rows_of(reader)) == sorted(rows_of(store))
        assert held(reader) == (3, 3, 50)
        # Of what is there in memory a near one is found, and what is there already is stored once.
        assert not store.add_if_new(KEYS[:350] ^ np.uint64(1), ids=IDS[:350]).stored.any()
        add(store, 0, 350)
        expect_rows(store, path, 0, 350)
    with opened(path) as store:
        assert held(store)[1] == len(store._segments)
        add(store, 350, 400)
        assert held(store)[1] == len(store._segments) - 1
        expect_rows(store, path, 0, 400)


def test_what_is_held_is_let_go_of_when_small_segments_become_a_large_one(path: Path) -> None:
    with opened(path, flush_rows=100, small_rows=300) as store:
        for first in range(0, 200, 50):
            add(store, first, first + 50)
        assert held(store) == (4, 0, 200)
        add(store, 200, 220, flush=False)
        store._flush()
        add(store, 220, 290)
        add(store, 290, 300)
        wait_for_merge(store)
        assert held(store) == (1, 1, 0)
        add(store, 300, 390)
        assert held(store) == (2, 1, 90)
        expect_rows(store, path, 0, 390)


def test_a_merge_of_small_segments_that_stays_small_is_held_as_they_were(path: Path) -> None:
    with opened(path, small_segments=2) as store:
        for first in (0, 100, 200):
            add(store, first, first + 100)
            wait_for_merge(store)
        add(store, 300, 310, flush=False)
        assert held(store) == (1, 0, 310)
        expect_rows(store, path, 0, 310)


def test_what_was_there_before_is_not_held_nor_what_it_is_merged_into(tmp_path: Path) -> None:
    path = store_of_some(tmp_path / "s")
    with opened(path, small_segments=2) as store:
        assert held(store) == (1, 1, 0)
        add(store, 600, 700)
        wait_for_merge(store)
        assert held(store) == (1, 1, 0)
        expect_rows(store, path, 600, 700, *zip(SOME.tolist(), range(300), strict=True))


REMOVALS: dict[str, Callable[[fpstore.Store], None]] = {
    "fingerprints": lambda store: store.remove(fingerprints=KEYS[:10]),
    "ids": lambda store: store.remove(ids=IDS[:10]),
    "rows": lambda store: store.remove(fingerprints=KEYS[:10], ids=IDS[:10]),
}


@pytest.mark.parametrize("by", REMOVALS)
def test_nothing_is_held_over_a_removal(path: Path, by: str) -> None:
    """A merge forgets removals that it has applied, and the rows in memory would be found again."""
    with opened(path, small_segments=3) as store:
        add(store, 0, 100)
        add(store, 100, 200)
        REMOVALS[by](store)
        assert held(store) == (2, 0, 200)
        expect_rows(store, path, 10, 200)
        add(store, 200, 300)
        assert held(store)[1:] == (held(store)[0], 0)
        wait_for_merge(store)
        expect_rows(store, path, 10, 300)
        assert store.stats().removal_count == 0
        add(store, 300, 400)
        assert held(store) == (2, 1, 100)
        expect_rows(store, path, 10, 400)


def test_more_rows_than_that_are_not_held(path: Path) -> None:
    with opened(path, held_rows=250) as store:
        add(store, 0, 100)
        add(store, 100, 200)
        add(store, 200, 250)
        assert held(store) == (3, 0, 250)
        add(store, 250, 251)
        assert held(store) == (4, 4, 0)
        expect_rows(store, path, 0, 251)
        add(store, 251, 300)
        assert held(store) == (5, 4, 49)
        expect_rows(store, path, 0, 300)


def test_rows_that_nobody_has_searched_are_not_held(path: Path) -> None:
    with opened(path) as store:
        add(store, 0, 100, ask=False)
        add(store, 100, 200, ask=False)
        assert held(store) == (2, 2, 0)
        assert latest(store).pending.indexed == 0
        add(store, 200, 300)
        assert held(store) == (3, 2, 100)
        add(store, 300, 350, ask=False)
        assert held(store) == (4, 4, 0)
        add(store, 350, 400)
        expect_rows(store, path, 0, 400)


def test_a_segment_that_was_added_as_one_is_not_held(path: Path) -> None:
    with opened(path, flush_rows=100) as store:
        add(store, 0, 50)
        store.add(KEYS[50:200], ids=IDS[50:200])
        assert held(store) == (2, 1, 50)
        add(store, 200, 220, flush=False)
        expect_rows(store, path, 0, 220)


def test_a_store_with_names_holds_nothing(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", id_type="string", plan="paper-4").close()
    with opened(tmp_path / "s") as store:
        store.add(KEYS[:100], ids=[f"name {number}" for number in range(100)])
        store._flush()
        assert held(store) == (1, 1, 0)
        assert store.probe(int(KEYS[7])).id == ["name 7"]


def test_a_store_without_ids_holds_rows_too(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", id_type=None, plan="paper-4").close()
    with opened(tmp_path / "s") as store:
        for first in (0, 100):
            store.add(KEYS[first : first + 100])
            assert store.contains_near(int(KEYS[first]))
            store._flush()
        store.add(KEYS[50:150])
        assert held(store) == (2, 0, 300)
        assert keys_of(store) == sorted(KEYS[:200].tolist())


def test_who_waits_has_small_segments_merged(path: Path) -> None:
    with opened(path) as store:
        for first in (0, 100, 200):
            add(store, first, first + 100)
        assert len(store._segments) == 3
        store.wait()
        assert held(store) == (1, 0, 300)
        expect_rows(store, path, 0, 300)


def test_small_segments_are_merged_in_the_midst_of_a_large_merge(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, depth = merge_segments, 0
    seen: list[tuple[int, int]] = []
    with opened(path, small_rows=200, small_segments=3) as store:

        def merge(at: Any, parts: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal depth
            depth += 1
            seen.append((depth, sum(part.segment.key_count for part in parts)))
            if depth == 1 and len(parts) == 2:  # what comes meanwhile, before the merge has read anything
                for first in (400, 450, 500):
                    add(store, first, first + 50)
            found = real(at, parts, *arguments, **options)
            depth -= 1
            return found

        monkeypatch.setattr(renewal, "merge_segments", merge)
        store.add(KEYS[:200], ids=IDS[:200])
        add(store, 0, 200)
        store.add(KEYS[200:400], ids=IDS[200:400])
        add(store, 200, 400)
        wait_for_merge(store)
        assert (1, 400) in seen
        assert (2, 150) in seen
        assert held(store) == (2, 1, 150)
        expect_rows(store, path, 0, 550)


@pytest.mark.parametrize(("more", "is_used"), [(0, True), (40, True), (900, False)])
def test_rows_that_stay_are_indexed_before_the_writer_waits_for_them(
    path: Path, monkeypatch: pytest.MonkeyPatch, more: int, is_used: bool
) -> None:
    """What is added meanwhile follows; where that is too much, the index is made anew."""
    real = held_module.ahead
    found: list[Any] = []
    with opened(path, small_segments=2, small_rows=150) as store:

        def made(before: Snapshot, key_count: int, dropped: list[str], first_change: int | None, sizes: Any) -> Any:
            if first_change is not None:  # of a flush, all of which stays
                assert real(before, key_count, dropped, first_change, sizes) is None
                return None
            add(store, 200, 250, flush=False)
            found.append(real(latest(store), key_count, dropped, first_change, sizes))
            add(store, 250, 250 + more, flush=False, ask=more > 0)
            return found[0]

        monkeypatch.setattr(writer, "ahead", made)
        monkeypatch.setattr(held_module, "MIN_PENDING_ROOM", 100)
        add(store, 0, 100)
        add(store, 100, 200)
        wait_for_merge(store)
        assert (found[0].first, found[0].index.indexed) == (200, 50)
        assert held(store) == (1, 1, 50 + more)
        assert (latest(store).pending is found[0].index) == is_used
        expect_rows(store, path, 0, 250 + more)


def test_where_a_flush_is_held_there_is_room_for_all_that_will_be(path: Path) -> None:
    """To make room as rows come would index all of them again, in the midst of an addition."""
    with opened(path, flush_rows=200, max_pending_rows=400, small_rows=5000) as store:
        add(store, 0, 90)
        assert latest(store).pending.capacity == 1024
        add(store, 90, 180)
        index = latest(store).pending
        assert (index.capacity, index.indexed) == (5000 + 2 * 400, 180)
        for first in (180, 270):
            add(store, first, first + 90)
        assert latest(store).pending is index
        expect_rows(store, path, 0, 360)


def test_rows_that_fill_more_than_half_of_an_index_are_not_indexed_again(path: Path) -> None:
    """Where there is room for those that are waited for at most, as there is until a segment is large."""
    with opened(path, flush_rows=100, max_pending_rows=150, small_rows=900) as store:
        add(store, 0, 90)
        add(store, 90, 180)
        index = latest(store).pending
        assert index.capacity == 900 + 2 * 150
        for first in range(180, 810, 90):
            add(store, first, first + 90)
        assert latest(store).pending is index
        assert held(store) == (9, 0, 810)
        expect_rows(store, path, 0, 810)


def test_an_index_of_other_rows_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal comes between, after which nothing is held."""
    real = held_module.ahead
    with opened(path, flush_rows=150) as store:

        def made(before: Snapshot, *arguments: Any) -> Any:
            assert before.pending.searched == 190
            found = held_module.Ahead(before.pending, 0, before.pending.grown(300, 0))
            assert real(before, *arguments) is None
            store.remove(ids=IDS[:10])
            return found

        add(store, 0, 100)
        store.add(KEYS[100:300], ids=IDS[100:300])
        assert held(store) == (2, 1, 100)
        add(store, 300, 390, flush=False)
        monkeypatch.setattr(writer, "ahead", made)
        store._flush()
        assert held(store) == (3, 3, 0)
        expect_rows(store, path, 10, 390)


def test_additions_wait_a_little_where_merges_fall_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In proportion to their rows, and to how many segments are too many; not where nothing is being merged."""
    waits: list[float] = []
    monkeypatch.setattr("fpstore.living.due.time", SimpleNamespace(sleep=waits.append))  # other threads sleep, too
    with opened(path, small_segments=100) as store:
        for first in range(0, 70, 10):
            add(store, first, first + 10)
        assert len(latest(store).parts) == 7
        assert isinstance(store._living, Writer)
        few, enough = (dataclasses.replace(store._living.sizes, small_segments=count) for count in (2, 4))
        store._living.sizes = few
        add(store, 70, 90, flush=False)
        going_on = threading.Event()

        def merge() -> None:
            going_on.wait()

        store._living._merge_job = job = Background(merge)
        add(store, 90, 110, flush=False)
        store.add_if_new(KEYS[110:150], ids=IDS[110:150])
        store._living.sizes = enough
        add(store, 150, 160, flush=False)
        going_on.set()
        job.wait()
        expect_rows(store, path, 0, 160)
    assert waits == [pytest.approx(2e-7 * 20 * 3), pytest.approx(2e-7 * 40 * 3)]
