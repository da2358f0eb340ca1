"""A store that is written to: what its writer promises, refuses, and makes good after a failure."""

# mypy: disable-error-code="arg-type, attr-defined, no-untyped-call, union-attr"

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import MORE, SOME, ids_from, keys_of, rows_of, run_python, store_of_some, store_without_ids, writer_of

import fpstore
from fpstore import StoreClosed, StoreLocked
from fpstore.living import renewal
from fpstore.living.catalog import Catalog
from fpstore.living.sizes import LivingSizes
from fpstore.living.writer import Writer
from fpstore.store import Store
from fpstore.types import Array, Keys


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_of_some(tmp_path / "s")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return store_without_ids(tmp_path / "bare")


# --- What is refused ---


def every_change(store: Store) -> list[Callable[..., Any]]:
    return [
        lambda: store.add([1], ids=[1]),
        lambda: store.add_if_new([1], ids=[1]),
        lambda: store.remove(ids=[1]),
        lambda: store.sync(),
        lambda: store._flush(),
        lambda: store.wait(),
        lambda: store.compact(),
    ]


def test_a_store_opened_for_reading_takes_no_changes(folder: Path) -> None:
    with fpstore.open(folder) as store:
        for change in every_change(store):
            with pytest.raises(ValueError, match=f'^{folder}: found it opened for reading, expected mode "w"$'):
                change()
        assert keys_of(store) == sorted(SOME.tolist())


def test_a_closed_store_takes_no_changes(folder: Path) -> None:
    store = fpstore.open(folder, "w")
    store.close()
    store.close()
    for change in [*every_change(store), lambda: store.copy(folder.with_name("t"))]:
        with pytest.raises(StoreClosed, match=f"^{folder}: the store is closed$"):
            change()


def test_a_writer_that_another_thread_closed_says_so(folder: Path) -> None:
    writer = Writer(folder)
    writer.close()
    writer.close()
    with pytest.raises(StoreClosed, match=f"^{folder}: the store is closed$"):
        writer.add(MORE, MORE)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1],), ValueError, "the store has ids, expected one for each fingerprint"),
        (([1, 2], [1]), ValueError, "1 ids for 2 fingerprints: expected one for each"),
        (([1.5], [1]), TypeError, "fingerprints, item 0"),
        (([1 << 64], [1]), ValueError, "fingerprints, item 0"),
        (([1], [1 << 64]), ValueError, "ids, item 0"),
        ((None, [1]), TypeError, "fingerprints: found a NoneType"),
    ],
)
def test_rows_that_cannot_be_added_are_refused_whole(
    folder: Path, arguments: Any, error: type[TypeError] | type[ValueError], message: str
) -> None:
    with fpstore.open(folder, "w") as store:
        for add in (store.add, store.add_if_new):
            with pytest.raises(error, match=message):
                add(arguments[0], ids=None if len(arguments) == 1 else arguments[1])
        assert keys_of(store) == sorted(SOME.tolist())


def test_ids_for_a_store_without_ids_are_refused(bare: Path) -> None:
    with fpstore.open(bare, "w") as store:
        for add in (store.add, store.add_if_new):
            with pytest.raises(ValueError, match=f"^{bare}: the store has no ids, expected none to be given$"):
                add([1], ids=[1])
        with pytest.raises(ValueError, match=f"^{bare}: the store has no ids, expected fingerprints alone$"):
            store.remove(ids=[1])
        assert store.count() == 0


def test_what_is_removed_has_to_be_said(folder: Path) -> None:
    with (
        fpstore.open(folder, "w") as store,
        pytest.raises(TypeError, match=r"^remove takes ids, fingerprints, or both$"),
    ):
        store.remove()


@pytest.mark.parametrize("arguments", [{"ids": [-1 - (1 << 63)]}, {"fingerprints": [1 << 64]}])
def test_a_removal_that_cannot_be_is_refused(folder: Path, arguments: dict[str, list[int]]) -> None:
    with fpstore.open(folder, "w") as store:
        with pytest.raises(ValueError, match="item 0"):
            store.remove(**arguments)
        assert store.stats().removal_count == 0


def test_the_distance_of_a_test_is_at_most_the_plans(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        with pytest.raises(fpstore.PlanError, match="max_distance: found 4"):
            store.add_if_new(MORE, ids=ids_from(0, 300), max_distance=4)
        assert keys_of(store) == sorted(SOME.tolist())


def test_more_than_can_be_tested_at_once_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer_of(bare, flush_rows=10) as store:
        with pytest.raises(ValueError, match=r"^11 fingerprints to test and add at once, expected at most 10$"):
            store.add_if_new(MORE[:11])
        assert store.count() == 0


def test_what_the_ids_of_a_new_store_are_is_uint64_or_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="id_type: found 'row', expected None or uint64"):
        fpstore.create(tmp_path / "s", id_type="row")
    assert os.listdir(tmp_path) == []


def test_an_empty_store_is_not_made_where_something_is(folder: Path) -> None:
    with pytest.raises(FileExistsError, match="already there"):
        fpstore.create(folder)
    with fpstore.open(folder) as store:
        assert store.count() == 300


def test_an_empty_store_knows_that_it_is(bare: Path) -> None:
    with fpstore.open(bare) as store:
        assert (store.count(), store._segments, rows_of(store), store.count_pairs()) == (0, (), [], 0)
        assert store.stats().fingerprint_count == 0


# --- One writer, many readers ---


def test_a_second_writer_in_another_process_is_told_the_first_ones_number(folder: Path) -> None:
    code = "fpstore.open(sys.argv[1], 'w')"
    with fpstore.open(folder, "w"):
        run = run_python(code, folder)
        assert f"StoreLocked: {folder}: process {os.getpid()} is writing to this store" in run.stderr
        with pytest.raises(StoreLocked, match=f"{folder}: this process has it open for writing already"):
            fpstore.open(folder, "w")
    fpstore.open(folder, "w").close()


def test_a_pickled_writer_opens_for_reading(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        store.add([7], ids=[7])
        with pickle.loads(pickle.dumps(store)) as reader:
            assert reader.mode == "r"
            assert reader.probe(7, max_distance=0).id.tolist() == [7]


def test_what_a_store_is_open_for_is_in_its_repr(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        assert repr(store) == f"<fpstore.Store {str(folder)!r}: open for writing, max_distance 3, plan paper-4>"
    assert repr(store).endswith(": closed>")


def test_a_reader_moves_on_when_asked_or_refreshed(folder: Path) -> None:
    with fpstore.open(folder, "w") as writer, fpstore.open(folder) as reader:
        for number in range(5):
            writer.add([number], ids=[number])
            assert reader.probe(number, max_distance=0).id.tolist() == [number]
        writer._flush()
        reader._refresh()
        assert len(reader._segments) == 2
        writer.compact()
        reader._refresh()
        assert len(reader._segments) == 1


def test_a_commit_that_the_file_shows_before_it_is_through_is_not_taken_for_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fpstore.open(folder, "w") as writer, fpstore.open(folder) as reader:
        assert not reader.contains_near(2**63, max_distance=0)
        before = reader._living._catalog.stamp()
        during = tuple(max(before) + 1 if number == min(before) else number for number in before)
        with monkeypatch.context() as patch:
            patch.setattr(reader._living._catalog, "stamp", lambda: during)
            assert not reader.contains_near(2**63, max_distance=0)
        writer.add([2**63], ids=[7])
        assert reader._living._catalog.stamp() == during
        assert reader.contains_near(2**63, max_distance=0)


def test_an_iterator_keeps_the_state_it_began_with(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        found = store.rows()
        first = next(found).fingerprint.tolist()
        store.remove(fingerprints=SOME)
        store.compact()
        assert sorted(first + [row.fingerprint for rows in found for row in rows]) == sorted(SOME.tolist())
        assert rows_of(store) == []


# --- Durability ---

COUNT_ROWS = "with fpstore.open(sys.argv[1]) as store: print(sum(map(len, store.rows())))"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["sync", "remove", "_flush", "wait", "compact", "close"])
def test_a_batch_is_seen_by_others_when_it_is_ended(bare: Any, end: Any) -> None:
    store = fpstore.open(bare, "w", durability="batch")
    store.add(SOME)
    store.add_if_new(MORE)
    assert len(store.probe_many(SOME, max_distance=0)) == 300
    assert run_python(COUNT_ROWS, bare).stdout == "0\n"
    if end == "remove":
        store.remove(fingerprints=SOME[:1])
    elif end == "wait":
        store.sync()
        store.wait()
    else:
        getattr(store, end)()
    assert run_python(COUNT_ROWS, bare).stdout == f"{599 if end == 'remove' else 600}\n"
    store.close()


def test_a_batch_holds_back_so_many_rows_and_no_more(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer_of(bare, durability="batch", deferred_rows=500) as store, fpstore.open(bare) as reader:
        store.add(SOME)
        assert keys_of(reader) == []
        store.add(MORE)
        assert keys_of(reader) == keys_of(store) == sorted([*SOME.tolist(), *MORE.tolist()])


def test_a_process_that_dies_loses_the_batch_and_nothing_more(bare: Path) -> None:
    code = (
        "import os; store = fpstore.open(sys.argv[1], 'w', durability='batch')\n"
        "store.add([1]); store.sync(); store.add([2]); os._exit(0)"
    )
    run_python(code, bare)
    with fpstore.open(bare) as store:
        assert keys_of(store) == [1]


def test_the_arrays_of_a_batch_may_be_used_for_something_else(bare: Path) -> None:
    rows = SOME.copy()
    with fpstore.open(bare, "w", durability="batch") as store:
        store.add(rows)
        rows[:] = 0
    with fpstore.open(bare) as store:
        assert keys_of(store) == sorted(SOME.tolist())


# --- Additions ---


def test_what_became_of_each_fingerprint_is_told_as_matches(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        known, new = int(SOME[3]), 12345
        found = store.add_if_new([known ^ 1, new, new ^ 2, new], ids=[1000, 1001, 1002, 1003])
        assert repr(found).startswith("<Additions: 1 of 4 stored>\n")
        assert len(found) == 4
        assert [addition.match for addition in found] == [(0, known, 1, 3), None, (2, new, 1, 1001), (3, new, 0, 1001)]
        assert found.stored.tolist() == [False, True, False, False]
        columns: list[Array] = [found.stored, found.match_fingerprint, found.match_distance]
        assert [column.dtype for column in columns] == [np.bool_, np.uint64, np.uint16]
        assert found.match_id is not None
        assert found.match_id.dtype == np.uint64


def test_additions_to_a_store_without_ids_have_none(bare: Path) -> None:
    with fpstore.open(bare, "w") as store:
        found = store.add_if_new([5, 4])
        assert found.match_id is None
        assert list(found) == [(True, None), (False, (1, 5, 1, None))]


def test_no_rows_change_nothing(folder: Path) -> None:
    nothing = np.empty(0, dtype=np.uint64)
    with fpstore.open(folder, "w") as store:
        before = store.stats()
        store.add(nothing, ids=nothing)
        store.remove(ids=nothing)
        store.remove(fingerprints=[])
        assert list(store.add_if_new(nothing, ids=nothing)) == []
        store.sync()
        store._flush()
        store.wait()
        store.compact()
        assert store.stats() == before


def test_an_addition_larger_than_a_flush_becomes_a_segment_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer_of(folder, flush_rows=100, growth=0) as store, fpstore.open(folder) as reader:
        store.remove(fingerprints=MORE)
        store.add(MORE, ids=ids_from(1000, 300))
        for each in (store, reader):
            assert keys_of(each) == sorted([*SOME.tolist(), *MORE.tolist()])
            assert (len(each._segments), each.stats().pending_count) == (2, 0)
        store.remove(ids=ids_from(1000, 300))
        assert keys_of(reader) == sorted(SOME.tolist())


def test_what_is_pending_is_flushed_when_there_is_enough(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer_of(bare, flush_rows=50) as store:
        for key in SOME.tolist():
            store.add([key])
        store.wait()
        assert store.stats().pending_count < 50
        assert store._segments
        assert keys_of(store) == sorted(SOME.tolist())


def test_additions_wait_for_a_flush_when_too_much_is_pending(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, flushed = threading.Event(), renewal.write_rows

    def slow(*arguments: object, **options: Any) -> Any:
        assert begin.wait(60)
        return flushed(*arguments, **options)

    monkeypatch.setattr(renewal, "write_rows", slow)
    with writer_of(bare, flush_rows=10, max_pending_rows=20) as store:
        for key in SOME[:20].tolist():
            store.add([key])
        waiting = threading.Thread(target=store.add, args=(MORE[:1],))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert keys_of(store) == sorted(SOME[:20].tolist())
        begin.set()
        waiting.join(60)
        assert not waiting.is_alive()
        assert keys_of(store) == sorted([*SOME[:20].tolist(), int(MORE[0])])


# --- Flushes and merges ---


def test_a_flush_takes_in_what_came_while_another_was_under_way(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, flushed = threading.Event(), renewal.write_rows

    def slow(*arguments: object, **options: Any) -> Any:
        assert begin.wait(60)
        return flushed(*arguments, **options)

    monkeypatch.setattr(renewal, "write_rows", slow)
    with writer_of(bare, flush_rows=10) as store:
        for key in SOME[:15].tolist():
            store.add([key])
        threading.Timer(0.1, begin.set).start()
        store._flush()
        assert store.stats().pending_count == 0
        assert keys_of(store) == sorted(SOME[:15].tolist())


def test_a_removal_outlives_the_flush_of_what_came_after_it(folder: Path) -> None:
    with writer_of(folder, growth=0) as store:
        store.remove(fingerprints=SOME[:10])
        store.remove(ids=[20])
        store.add(MORE, ids=ids_from(300, 300))
        store._flush()
        assert len(store._segments) == 2
    gone = {*SOME[:10].tolist(), int(SOME[20])}
    with fpstore.open(folder) as store:
        assert keys_of(store) == sorted({*SOME.tolist(), *MORE.tolist()} - gone)
        assert not any(store.contains_near(key, max_distance=0) for key in gone)


@pytest.mark.parametrize("by", ["fingerprints", "ids"])
def test_a_removal_outlives_the_flush_that_it_is_the_last_change_of(folder: Path, by: str) -> None:
    values = SOME[:10] if by == "fingerprints" else ids_from(0, 10)
    with writer_of(folder, growth=0) as store:
        store.add(MORE, ids=ids_from(300, 300))
        store.remove(**{by: values})
        store._flush()
        assert (store.stats().pending_count, len(store._segments)) == (0, 2)
    with fpstore.open(folder) as store:
        assert keys_of(store) == sorted([*SOME[10:].tolist(), *MORE.tolist()])


def test_a_row_that_goes_and_comes_again_while_a_flush_is_under_way_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, flushed = threading.Event(), renewal.write_rows

    def slow(*arguments: object, **options: Any) -> Any:
        assert begin.wait(60)
        return flushed(*arguments, **options)

    monkeypatch.setattr(renewal, "write_rows", slow)
    with writer_of(folder, flush_rows=10, growth=0) as store:
        for row in range(10):
            store.add(MORE[row : row + 1], ids=[300 + row])
        store.add(MORE[20:25], ids=ids_from(320, 5))
        store.remove(ids=[320, 321])
        store.add(MORE[20:21], ids=[320])
        begin.set()
        store._living._flush_job.wait()
        assert (store.stats().pending_count, len(store._segments)) == (6, 2)
        kept = sorted([*SOME.tolist(), *MORE[:10].tolist(), int(MORE[20]), *MORE[22:25].tolist()])
        assert keys_of(store) == kept
    with fpstore.open(folder) as store:
        assert keys_of(store) == kept


@pytest.mark.parametrize("removed", [SOME[:5], SOME], ids=["some", "all"])
def test_compacting_forgets_the_removals(folder: Path, removed: Keys) -> None:
    with fpstore.open(folder, "w") as store:
        store.remove(fingerprints=removed)
        assert store.stats().removal_count == len(removed)
        store.compact()
        left = 300 - len(removed)
        with fpstore.open(folder) as reader:
            for stats in (store.stats(), reader.stats()):
                assert (stats.removal_count, stats.pending_count, stats.fingerprint_count) == (0, 0, left)
                assert len(stats.segments) == (left > 0)
        store.add(removed, ids=ids_from(0, len(removed)))
        assert keys_of(store) == sorted(SOME.tolist())


def test_many_small_removals_leave_the_log_without_being_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer_of(folder, flush_rows=20) as store:
        for key in SOME[:30].tolist():
            store.remove(fingerprints=[key])
        store.wait()
        with Catalog.open(folder) as catalog:
            assert len(catalog.read().changes) < 20
        assert keys_of(store) == sorted(SOME[30:].tolist())


@pytest.mark.parametrize("by", ["fingerprints", "ids"])
def test_removals_alone_are_merged_away_when_there_are_enough(
    folder: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    values = SOME if by == "fingerprints" else np.arange(300, dtype=np.uint64)
    with writer_of(folder, min_removals=50) as store:
        for first in range(0, 240, 10):
            store.remove(**{by: values[first : first + 10]})
        store.wait()
        assert store.stats().removal_count <= 60
        assert keys_of(store) == sorted(SOME[240:].tolist())


def test_settling_merges_what_is_due(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.Store(folder, "w", sizes=LivingSizes(growth_over=1)) as store:
        started = Writer._start_merge
        monkeypatch.setattr(Writer, "_start_merge", lambda *_: None)
        for first in range(0, 300, 100):
            store.add(MORE[first : first + 100], ids=ids_from(first, 100))
            store._flush()
        assert len(store._segments) == 4
        monkeypatch.setattr(Writer, "_start_merge", started)
        store.wait()
        assert len(store._segments) == 1
        assert keys_of(store) == sorted([*SOME.tolist(), *MORE.tolist()])


def test_compacting_says_how_far_it_is(folder: Path) -> None:
    told: list[fpstore.Progress] = []
    with fpstore.open(folder, "w") as store:
        store.add(MORE, ids=ids_from(0, 300))
        store.compact(progress=told.append)
    assert {(progress.phase, progress.unit) for progress in told} == {("merging", "keys")}
    assert 0 < told[-1].done == told[-1].total


def test_closing_ends_a_merge_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, merged = threading.Event(), threading.Event(), renewal.merge_segments

    def slow(*arguments: object, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return merged(*arguments, **options)

    monkeypatch.setattr(renewal, "merge_segments", slow)
    store = writer_of(folder)
    store.add(MORE, ids=ids_from(0, 300))
    store._flush()
    assert begun.wait(60)
    closing = threading.Thread(target=store.close)
    closing.start()
    while not store._living._closing:
        pass
    go_on.set()
    closing.join(60)
    with fpstore.open(folder) as reader:
        assert len(reader._segments) == 2
        assert keys_of(reader) == sorted([*SOME.tolist(), *MORE.tolist()])
