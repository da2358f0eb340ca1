"""A living store where something fails: it knows what came of it, and goes on."""

# mypy: disable-error-code="union-attr, var-annotated"

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import fingerprint_array
from living import MORE, SOME, ids_from, keys_of, no_space, rows_of, store_of_some, store_without_ids, writer_of

import fpstore
from fpstore.living import renewal, writer
from fpstore.living.catalog import Catalog
from fpstore.living.snapshot import Snapshot
from fpstore.types import Durability


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_of_some(tmp_path / "s")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return store_without_ids(tmp_path / "bare")


@pytest.mark.parametrize("end", ["_flush", "add", "sync", "wait", "compact"])
def test_a_flush_that_fails_is_raised_at_the_next_call_and_the_store_goes_on(
    bare: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    with writer_of(bare, flush_rows=200) as store:
        with monkeypatch.context() as failing:
            failing.setattr(renewal, "write_rows", no_space)
            store.add(SOME[:100])
            store.add(SOME[100:200])
            store._living._flush_job.wait()
            with pytest.raises(OSError, match="No space left"):
                store.add([1]) if end == "add" else getattr(store, end)()
        assert keys_of(store) == sorted(SOME[:200].tolist())
        store.add(SOME[200:])
        store._flush()
        assert (store.stats().pending_count, len(store._segments)) == (0, 1)
    with fpstore.open(bare) as store:
        store.verify()
        assert keys_of(store) == sorted(SOME.tolist())


def test_a_merge_that_fails_leaves_the_segments_as_they_were(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.open(folder, "w") as store:
        store.add(MORE, ids=ids_from(0, 300))
        with monkeypatch.context() as failing:
            failing.setattr(renewal, "merge_segments", no_space)
            with pytest.raises(OSError, match="No space left"):
                store.compact()
            assert len(store._segments) == 2
        store.compact()
        assert len(store._segments) == 1
        assert keys_of(store) == sorted([*SOME.tolist(), *MORE.tolist()])


def test_an_addition_that_cannot_become_a_segment_is_not_there(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer_of(bare, flush_rows=100) as store:
        with monkeypatch.context() as failing:
            failing.setattr(renewal, "write_rows", no_space)
            with pytest.raises(OSError, match="No space left"):
                store.add(SOME)
        assert keys_of(store) == []
        store.add(SOME)
        assert keys_of(store) == sorted(SOME.tolist())


CHANGES = {
    "add": lambda store: store.add(MORE, ids=ids_from(1000, 300)),
    "add_if_new": lambda store: store.add_if_new(MORE, ids=ids_from(1000, 300)),
    "remove": lambda store: store.remove(fingerprints=SOME[:10]),
    "flush": lambda store: store._flush(),
    "compact": lambda store: store.compact(),
}


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=["io", "ctrl-c"])
@pytest.mark.parametrize("really", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_commit_that_fails_leaves_a_writer_that_knows_what_it_came_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: Any, really: Any, error: Any, durability: Any
) -> Any:
    failed = []

    def failing(method: Any) -> Any:
        real = getattr(Catalog, method)

        def fail(*arguments: object, **options: Any) -> Any:
            if failed:
                return real(*arguments, **options)
            failed.append(method)
            if really:
                real(*arguments, **options)
            raise error

        return fail

    with fpstore.open(folder, "w", durability=durability) as store:
        store.add([1], ids=[500])
        with monkeypatch.context() as patched:
            for method in ("append", "publish"):
                patched.setattr(Catalog, method, failing(method))
            try:
                CHANGES[name](store)
                store.sync()
            except (OSError, KeyboardInterrupt) as raised:
                assert raised is error  # noqa: PT017
        assert failed
        store.sync()
        with fpstore.open(folder) as reader:
            after = rows_of(store)
            assert after == rows_of(reader)
        before = {*zip(SOME.tolist(), range(300), strict=True), (1, 500)}
        added = set(zip(MORE.tolist(), range(1000, 1300), strict=True))
        kept = {row for row in before if row[0] not in SOME[:10].tolist()}
        wanted = {"add": before | added, "add_if_new": before | added, "remove": kept}.get(name, before)
        assert set(after) in ([before, wanted] if not really else [wanted])
        # And goes on as if nothing had been.
        store.add([2], ids=[501])
        store.remove(ids=[500])
        store._flush()
        store.compact()
        expected = ({*after} | {(2, 501)}) - {(1, 500)}
        assert set(rows_of(store)) == expected
        assert len(os.listdir(folder / "segments")) == 1
    with fpstore.open(folder) as reader:
        reader.verify()
        assert set(rows_of(reader)) == expected


def test_rows_of_a_test_that_fails_are_not_found_later(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.open(bare, "w") as store:
        store.add([1 << 40])
        with monkeypatch.context() as failing:
            failing.setattr(Catalog, "append", no_space)
            with pytest.raises(OSError, match="No space left"):
                store.add_if_new(MORE)
        assert keys_of(store) == [1 << 40]
        assert store.add_if_new(MORE).stored.all()
        assert len(store.probe_many(MORE, max_distance=0)) == 300


def test_opening_sweeps_what_a_dead_writer_left(folder: Path) -> None:
    with fpstore.open(folder) as store:
        left = folder / "segments" / f"00000077.fpseg.{store.identity[:16]}.new"
        left.write_bytes(b"left by a merge")
        assert left.exists()
        assert store.count() == 300
    fpstore.open(folder, "w").close()
    assert not left.exists()


def test_a_writer_that_cannot_open_its_segments_frees_the_lock(folder: Path) -> None:
    (segment,) = (folder / "segments").iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data[:-1])
    with pytest.raises(fpstore.CorruptStore):
        fpstore.open(folder, "w")
    segment.write_bytes(data)
    with fpstore.open(folder, "w") as store:
        assert store.count() == 300


def test_a_fingerprint_goes_with_its_last_id_and_may_come_again(folder: Path) -> None:
    key = int(SOME[0])
    with fpstore.open(folder, "w") as store:
        store.add([key], ids=[900])
        store.remove(ids=[0])
        assert store.probe(key, max_distance=0).id.tolist() == [900]
        store.remove(ids=[900])
        assert not store.contains_near(key, max_distance=0)
        store._flush()
        assert key not in keys_of(store)
        store.add(fingerprint_array([key]), ids=[0])
        assert store.probe(key, max_distance=0).id.tolist() == [0]


def failing_at(method: Any, call: int, error: BaseException) -> Any:
    """The method, which raises error at that call of all, counted from 1."""
    calls = []

    def fail(*arguments: object, **options: Any) -> Any:
        calls.append(None)
        if len(calls) == call:
            raise error
        return method(*arguments, **options)

    return fail


def test_rows_of_a_batch_whose_second_piece_cannot_be_searched_are_not_found_later(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer_of(bare, piece_rows=100) as store:
        store.add([1 << 40])
        with monkeypatch.context() as failing:
            failing.setattr(Snapshot, "nearest", failing_at(Snapshot.nearest, 2, MemoryError("for matches")))
            with pytest.raises(MemoryError, match=r"^for matches$"):
                store.add_if_new(MORE)
        store.add([2 << 40])
        assert keys_of(store) == [1 << 40, 2 << 40]
        assert store.add_if_new(MORE).stored.all()


@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize(
    ("name", "owner", "method"),
    [("add", Snapshot, "extended"), ("add_if_new", Snapshot, "extended"), ("flush", writer, "published")],
)
def test_what_was_written_is_known_where_memory_for_it_lacks(
    bare: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, name: str, owner: Any, method: str
) -> None:
    changes: dict[str, Callable[[fpstore.Store], object]] = {
        "add": lambda store: store.add(SOME[:100]),
        "add_if_new": lambda store: store.add_if_new(SOME[:100]),
        "flush": lambda store: store._flush(),
    }
    with fpstore.open(bare, "w", durability=durability) as store:
        store.add(MORE[:10])
        with monkeypatch.context() as failing:
            failing.setattr(owner, method, failing_at(getattr(owner, method), 1, MemoryError("for rows")))
            with pytest.raises(MemoryError, match=r"^for rows$"):
                changes[name](store)
        store.add(MORE[10:20])
        stored = {*MORE[:20].tolist()} | ({*SOME[:100].tolist()} if name != "flush" else set())
        assert keys_of(store) == sorted(stored)
        store.remove(fingerprints=MORE[:5])
        store._flush()
        assert keys_of(store) == sorted(stored - {*MORE[:5].tolist()})
    with fpstore.open(bare) as reader:
        reader.verify()
        assert keys_of(reader) == sorted(stored - {*MORE[:5].tolist()})


def test_a_flush_that_fails_while_it_is_waited_for_is_raised(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()

    def fail(*arguments: object, **options: Any) -> None:
        assert begin.wait(60)
        no_space()

    with writer_of(bare, flush_rows=200) as store:
        monkeypatch.setattr(renewal, "write_rows", fail)
        for first in (0, 100):
            store.add(SOME[first : first + 100])
        threading.Timer(0.1, begin.set).start()
        with pytest.raises(OSError, match="No space left"):
            store.wait()
        monkeypatch.undo()
        assert keys_of(store) == sorted(SOME[:200].tolist())


@pytest.mark.parametrize("step", ["publish", "announce"])
def test_the_file_of_a_flush_that_was_not_published_is_swept(
    bare: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with fpstore.open(bare, "w") as store:
        store.add(SOME)
        with monkeypatch.context() as failing:
            failing.setattr(Catalog, step, no_space)
            with pytest.raises(OSError, match="No space left"):
                store._flush()
        assert keys_of(store) == sorted(SOME.tolist())
        store.sync()
        assert os.listdir(bare / "segments") == []
        store._flush()
        assert len(os.listdir(bare / "segments")) == 1


@pytest.mark.parametrize(
    ("place", "name", "what"),
    [("living.sweep", "MAX_SEGMENT", "segments"), ("living.catalog", "MAX_NUMBER", "generations")],
)
def test_a_store_that_has_used_up_its_numbers_says_so_and_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str, what: str
) -> None:
    with fpstore.open(folder, "w") as store:
        monkeypatch.setattr(f"fpstore.{place}.{name}", 1)
        store.add(MORE, ids=MORE)
        for _ in range(2):
            with pytest.raises(
                fpstore.Error, match=f"the store is full: found {what} up to number 1, the last there is"
            ):
                store._flush()
        assert store.count() == 600
        monkeypatch.undo()
        store._flush()
    with fpstore.open(folder) as store:
        assert store.count() == 600


def test_a_replacement_finds_that_the_numbers_are_used_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.living.sweep.MAX_SEGMENT", 1)
    with pytest.raises(fpstore.Error, match="the store is full: found segments up to number 1"):
        fpstore.build(folder, MORE, force=True)
    with fpstore.open(folder) as store:
        assert store.count() == 300
