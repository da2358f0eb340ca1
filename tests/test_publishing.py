"""How a segment becomes part of a store while others add: who waits for whom, what a sweep leaves, what is repeated."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import MORE, SOME, keys_of, store_without_ids, writer_of

import fpstore
from fpstore.living import sweep, writer
from fpstore.living.catalog import Catalog
from fpstore.living.snapshot import Snapshot
from fpstore.living.unsure import Unsure
from fpstore.living.writer import Writer
from fpstore.segment.entry import SegmentEntry

LONG_SECONDS = 60
ENTRY = SegmentEntry("00000009.fpseg", 4096, 1, 0, 5, 1)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return store_without_ids(tmp_path / "bare")


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def while_named(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None], times: int = 1) -> None:
    """Have work done each time that a new segment has got its name, and is not in the catalog."""
    name_segment, left = sweep.name_segment, [None] * times

    def naming(*given: Any) -> Any:
        strays = name_segment(*given)
        if left:
            left.pop()
            work()
        return strays

    monkeypatch.setattr(writer, "name_segment", naming)


def test_rows_are_added_while_a_segment_gets_its_name(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = []
    with writer_of(bare, flush_rows=1 << 17) as store:

        def add() -> None:
            thread = in_thread(lambda: store.add(SOME[100:150]))
            thread.join(LONG_SECONDS)
            added.append(not thread.is_alive())

        store.add(SOME[:100])
        while_named(monkeypatch, add)
        store._flush()
        assert added == [True]
        assert (store.stats().pending_count, len(store._segments)) == (50, 1)
        store.remove(fingerprints=SOME[90:110])
        expected = sorted([*SOME[:90].tolist(), *SOME[110:150].tolist()])
        assert keys_of(store) == expected
    with fpstore.open(bare, "w") as store:
        assert keys_of(store) == expected
    assert not (bare / "aside").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_a_sweep_leaves_what_is_about_to_be_published(bare: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Where the publication fails after that, what it leaves goes."""
    with writer_of(bare, flush_rows=1 << 17) as store:
        living = store._living
        assert isinstance(living, Writer)

        def sweep_all() -> None:
            with living._lock:
                living._uncertain.marked = True
                living._find_out()
            if fails:
                raise OSError("no room")

        store.add(SOME[:100])
        while_named(monkeypatch, sweep_all)
        if fails:
            with pytest.raises(OSError, match="no room"):
                store._flush()
            store.add(SOME[100:101])
            assert [*(bare / "segments").iterdir()] == []
        store._flush()
        assert len(store._segments) == 1
        assert len([*(bare / "segments").iterdir()]) == 1
        assert keys_of(store) == sorted(SOME[: 101 if fails else 100].tolist())
    with fpstore.open(bare) as reader:
        assert keys_of(reader) == sorted(SOME[: 101 if fails else 100].tolist())
    assert not (bare / "aside").exists()


def test_a_large_addition_and_a_flush_wait_for_each_other_in_one_order(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    with writer_of(bare, flush_rows=100) as store:
        threads: list[threading.Thread] = []

        def begin() -> None:
            threads.append(in_thread(lambda: store.add(MORE[:100])))
            threads[0].join(0.05)  # it waits, with or without the lock
            threads.append(in_thread(lambda: store.add(SOME[100:110])))
            threads[1].join(LONG_SECONDS)
            assert not threads[1].is_alive(), "who has few rows waits for a publication"
            begun.set()

        while_named(monkeypatch, begin)
        for first in (0, 50):
            store.add(SOME[first : first + 50])
        assert begun.wait(LONG_SECONDS)
        for thread in threads:
            thread.join(LONG_SECONDS)
            assert not thread.is_alive()
        store.wait()
        assert keys_of(store) == sorted([*SOME[:110].tolist(), *MORE[:100].tolist()])


@pytest.mark.parametrize("more", [False, True])
def test_a_state_is_repeated_unless_another_was_written(bare: Path, more: bool) -> None:
    with Catalog.open(bare, writable=True) as catalog:
        published = catalog.publish(segments=())
        before = catalog.state().transaction
        state = catalog.announce(ENTRY) if more else published
        written = catalog.state().transaction
        catalog.repeat(published)
        after = catalog.state()
        assert (written - before, after.transaction - written) == (int(more), int(not more))
        assert after == state


def test_a_snapshot_that_follows_has_all_that_a_snapshot_has(bare: Path) -> None:
    with writer_of(bare) as store:
        store.add(SOME[:10])
        living = store._living
        following = living.snapshot
        again = dataclasses.replace(following)
        names = [field.name for field in dataclasses.fields(Snapshot)]
        assert [getattr(following, name) for name in names] == [getattr(again, name) for name in names]
        assert {*vars(following)} == {*names, "single"}
        store.add(SOME[10:20])
        assert following.search(SOME[10:20], 0).fingerprint.tolist() == []
        assert np.array_equal(living.snapshot.search(SOME[:20], 0).fingerprint, SOME[:20])


# --- The mark of a writer that does not know what its catalog says ---


def fail(unsure: Unsure, inner: bool) -> None:
    with unsure:
        if inner:
            fail(unsure, False)
        raise OSError("disk")


@pytest.mark.parametrize("inner", [False, True])
def test_a_mark_is_left_by_what_fails_and_goes_when_the_truth_is_known(inner: bool) -> None:
    unsure = Unsure()
    assert not unsure.marked
    with pytest.raises(OSError, match="disk"):
        fail(unsure, inner)
    assert unsure.marked
    unsure.clear()
    assert not unsure.marked
    with unsure:
        assert unsure.marked
        with unsure:
            pass
        assert unsure.marked
    assert not unsure.marked
