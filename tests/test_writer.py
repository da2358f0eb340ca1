"""The writer by itself: when a flush and a merge are due, what waits in memory, and what close does."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import MORE, SOME, ids_from, keys_of, rows_of, store_of_some, store_without_ids, writer_of

import fpstore
from fpstore import threads as threading_of_ours
from fpstore.building.rows import write_rows
from fpstore.living import changes, renewal
from fpstore.living.catalog import Catalog
from fpstore.living.reader import Reader
from fpstore.living.sizes import LivingSizes
from fpstore.living.writer import Writer
from fpstore.segment.entry import SegmentEntry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_of_some(tmp_path / "s")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return store_without_ids(tmp_path / "bare")


def logged(folder: Path) -> int:
    """How many rows the catalog's log has."""
    with Catalog.open(folder) as catalog:
        return sum(len(change.columns[0]) for change in catalog.read().changes)


# --- Flushes and merges ---


@pytest.mark.parametrize(("rows", "pending"), [(9, 9), (10, 0)])
def test_so_many_pending_rows_and_no_fewer_become_a_segment(bare: Path, rows: int, pending: int) -> None:
    with writer_of(bare, flush_rows=10) as store:
        for key in SOME[:rows].tolist():
            store.add([key])
        store.wait()
        assert (store.stats().pending_count, len(store._segments)) == (pending, rows == 10)
        assert keys_of(store) == sorted(SOME[:rows].tolist())


def held_flush(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """From now on the segment of a flush waits before it is written: set when it has come there; to be set to go on."""
    begun, go_on, real = threading.Event(), threading.Event(), write_rows

    def slow(*arguments: Any, **given: Any) -> SegmentEntry:
        begun.set()
        assert go_on.wait(60)
        return real(*arguments, **given)

    monkeypatch.setattr(renewal, "write_rows", slow)
    return begun, go_on


def test_so_many_rows_at_once_become_a_segment_without_the_log(bare: Path) -> None:
    with writer_of(bare, flush_rows=10) as store:
        store.add(SOME[:10])
        assert (store.stats().pending_count, len(store._segments), logged(bare)) == (0, 1, 0)
        store.add(SOME[10:19])
        assert (store.stats().pending_count, logged(bare)) == (9, 9)


@pytest.mark.parametrize(("smaller", "segments"), [(100, 2), (101, 1)])
def test_segments_are_merged_when_the_smaller_are_more_than_a_third(folder: Path, smaller: int, segments: int) -> None:
    with writer_of(folder, flush_rows=smaller) as store:
        store.add(MORE[:smaller], ids=ids_from(0, smaller))
        store.wait()
        assert len(store._segments) == segments
        assert keys_of(store) == sorted([*SOME.tolist(), *MORE[:smaller].tolist()])


def test_a_merge_leaves_the_larger_segments_alone(bare: Path) -> None:
    with writer_of(bare, flush_rows=10) as store:
        store.add(SOME)
        store.wait()
        (large,) = store._segments
        for first in (0, 20):
            store.add(MORE[first : first + 20])
        store.wait()
        assert [segment.key_count for segment in store._segments] == [300, 40]
        assert store._segments[0].path == large.path
        assert keys_of(store) == sorted([*SOME.tolist(), *MORE[:40].tolist()])


@pytest.mark.parametrize(("removed", "left"), [(20, 20), (21, 0)])
def test_all_is_merged_when_there_are_more_removals_than_the_limit(folder: Path, removed: int, left: int) -> None:
    with writer_of(folder, min_removals=20, keys_per_removal=300) as store:
        store.remove(fingerprints=SOME[:removed])
        store.wait()
        assert store.stats().removal_count == left
        assert keys_of(store) == sorted(SOME[removed:].tolist())


def test_removals_count_as_long_as_one_segment_is_older(folder: Path) -> None:
    with writer_of(folder, growth=0, min_removals=20, keys_per_removal=300) as store:
        store.remove(fingerprints=SOME[:15])
        store.add(MORE[:5], ids=ids_from(300, 5))
        store._flush()
        store.remove(fingerprints=SOME[15:20])
        store.wait()
        assert (len(store._segments), store.stats().removal_count) == (2, 20)
        store.remove(fingerprints=SOME[20:21])
        store.wait()
        assert (len(store._segments), store.stats().removal_count) == (1, 0)
        assert keys_of(store) == sorted([*SOME[21:].tolist(), *MORE[:5].tolist()])


def test_a_removal_masks_what_is_pending_though_every_segment_is_newer(bare: Path) -> None:
    with writer_of(bare, flush_rows=100) as store:
        store.add(SOME[:5])
        store.remove(fingerprints=SOME[:2])
        store.add(MORE[:100])  # a segment of its own, which needs no removal before it
        assert (store.stats().pending_count, len(store._segments)) == (5, 1)
        kept = sorted([*SOME[2:5].tolist(), *MORE[:100].tolist()])
        assert keys_of(store) == kept
        store._flush()
        assert keys_of(store) == kept


def test_removals_are_kept_as_long_as_a_segment_is_older(folder: Path) -> None:
    with writer_of(folder, growth=0) as store:
        store.remove(fingerprints=SOME[:5])
        store.add(MORE[:5], ids=ids_from(0, 5))
        store._flush()
        assert (len(store._segments), store.stats().removal_count) == (2, 5)
        assert keys_of(store) == sorted([*SOME[5:].tolist(), *MORE[:5].tolist()])
        store.compact()
        assert (len(store._segments), store.stats().removal_count) == (1, 0)


def test_a_removal_right_after_a_flush_masks_what_was_flushed(bare: Path) -> None:
    # It has the position of the segment, no later one.
    with fpstore.open(bare, "w") as store:
        store.add(SOME)
        store._flush()
        store.remove(fingerprints=SOME[:10])
        (part,) = store._living.snapshot.parts
        assert part.removals.last_position == part.position
        assert keys_of(store) == sorted(SOME[10:].tolist())
        store.add(SOME[:5])
        assert keys_of(store) == sorted([*SOME[:5].tolist(), *SOME[10:].tolist()])


def test_a_thread_that_cannot_be_had_is_an_error_and_nothing_hangs(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with fpstore.open(bare, "w") as store:
        store.add(SOME)
        with monkeypatch.context() as starved:
            starved.setattr(threading_of_ours, "start_new_thread", refuse)
            with pytest.raises(MemoryError, match=r"^for a thread: can't start new thread$"):
                store._flush()
        assert keys_of(store) == sorted(SOME.tolist())
        store._flush()
        assert (store.stats().pending_count, len(store._segments)) == (0, 1)


# --- Batches ---


@pytest.mark.parametrize("piece_rows", [1, 2, 7, 256])
def test_what_is_stored_of_a_batch_does_not_depend_on_its_pieces(tmp_path: Path, piece_rows: int) -> None:
    rng = np.random.default_rng(3)
    keys = SOME[rng.integers(0, 12, 60)] ^ (np.uint64(1) << rng.integers(0, 64, 60, dtype=np.uint64))
    keys = np.append(keys, ~SOME[:1])  # so that the last piece has a new one
    found = []
    for name, rows in (("whole", 256), ("pieces", piece_rows)):
        fpstore.create(tmp_path / name, plan="paper-4").close()
        with writer_of(tmp_path / name, piece_rows=rows) as store:
            found.append([list(store.add_if_new(keys, ids=ids_from(0, 61)[::-1])), rows_of(store)])
        with fpstore.open(tmp_path / name) as store:  # from the log
            found[-1].append(rows_of(store))
            assert found[-1][1] == found[-1][2]
    assert found[0] == found[1]


def test_one_that_was_not_stored_does_not_shadow_the_next_piece(bare: Path) -> None:
    with writer_of(bare, piece_rows=2) as store:
        found = store.add_if_new([0b0, 0b111, 0b111111, 0b111111111])
        assert found.stored.tolist() == [True, False, True, False]
        assert keys_of(store) == [0b0, 0b111111]


# --- Rows that wait ---


@pytest.mark.parametrize(("rows", "written"), [(99, 0), (100, 100)])
def test_deferred_rows_are_written_when_there_are_so_many(bare: Path, rows: int, written: int) -> None:
    with writer_of(bare, "batch", deferred_rows=100) as store:
        store.add(SOME[:50])
        store.add_if_new(SOME[50:rows])
        assert (logged(bare), len(store.probe_many(SOME, max_distance=0))) == (written, rows)
        store.sync()
        assert logged(bare) == rows


def test_a_removal_takes_what_waited_with_it(bare: Path) -> None:
    with fpstore.open(bare, "w", durability="batch") as store:
        store.add(SOME)
        store.remove(fingerprints=SOME[:10])
        assert logged(bare) == 310
        assert keys_of(store) == sorted(SOME[10:].tolist())


def test_rows_that_wait_while_a_segment_is_published_keep_their_place(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = held_flush(monkeypatch)
    with writer_of(bare, "batch", flush_rows=100) as store:
        for first in (0, 50):
            store.add(SOME[first : first + 50])
        assert begun.wait(60)
        store.add(SOME[100:110])
        go_on.set()
        store.wait()
        assert (store.stats().pending_count, len(store._segments)) == (10, 1)
        store.add(SOME[110:120])
        store.sync()
        assert logged(bare) == 20
        assert keys_of(store) == sorted(SOME[:120].tolist())
    with fpstore.open(bare) as reader:
        assert keys_of(reader) == sorted(SOME[:120].tolist())


# --- The end ---


def test_close_writes_what_waits_and_frees_the_lock(bare: Path) -> None:
    closed = Writer(bare, deferred=True)
    closed.add(SOME, None)
    assert logged(bare) == 0
    closed.close()
    assert logged(bare) == 300
    Writer(bare).close()


def test_close_ends_a_flush_where_it_is_and_the_rows_stay_in_the_log(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = held_flush(monkeypatch)
    store = writer_of(bare, flush_rows=100)
    for first in (0, 50):
        store.add(SOME[first : first + 50])
    assert begun.wait(60)
    closing = threading.Thread(target=store.close)
    closing.start()
    writing = store._living
    assert isinstance(writing, Writer)
    while not writing._closing:
        pass
    go_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert logged(bare) == 100
    assert list((bare / "segments").iterdir()) == []
    with fpstore.open(bare) as reader:
        assert keys_of(reader) == sorted(SOME[:100].tolist())


def test_a_closed_writer_takes_nothing(bare: Path) -> None:
    closed = Writer(bare, sizes=LivingSizes())
    closed.close()
    for change in (
        lambda: closed.add(SOME, None),
        lambda: closed.add_if_new(SOME, None, 3),
        lambda: closed.remove(changes.FINGERPRINTS_REMOVED, SOME),
        closed.sync,
        closed.flush,
        closed.settle,
        closed.compact,
    ):
        with pytest.raises(fpstore.StoreClosed, match=f"^{bare}: the store is closed$"):
            change()


def test_a_reader_that_is_closed_while_it_looks_says_so(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(bare)
    assert reader.newest() is reader.snapshot

    def closing() -> tuple[int, int]:
        reader.close()
        return (0, 0)

    monkeypatch.setattr(reader._catalog, "stamp", closing)
    reader._catalog.confirm(None, 0.0)
    with pytest.raises(fpstore.StoreClosed, match=f"^{bare}: the store is closed$"):
        reader.newest()


UNCLOSED = """
import sys
from pathlib import Path
import numpy as np
import fpstore
from fpstore.living.sizes import LivingSizes
fpstore.create(sys.argv[1]).close()
sizes = LivingSizes(flush_rows=5, max_pending_rows=10)
store = fpstore.Store(Path(sys.argv[1]), "w", durability=sys.argv[2], sizes=sizes)
for i in range(30):
    store.add(np.arange(3, dtype=np.uint64) + np.uint64(i), ids=np.arange(3, dtype=np.uint64))
"""


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_a_process_ends_while_its_writer_flushes(tmp_path: Path, durability: str) -> None:
    for number in range(3):
        command = [sys.executable, "-c", UNCLOSED, str(tmp_path / str(number)), durability]
        subprocess.run(command, check=True, timeout=60)
