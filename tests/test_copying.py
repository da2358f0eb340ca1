"""Copies of stores: whole or not there, and stores in their own right."""

# mypy: disable-error-code="arg-type, operator"

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform

import fpstore
from fpstore import Store, creation
from fpstore.jobs import dedup
from fpstore.living.writer import Writer

SOME = uniform(900, np.random.default_rng(1))
IDS = np.arange(900, dtype=np.uint64)


def rows_of(store: Store) -> set[tuple[int, int | None]]:
    return {
        row
        for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
        for row in zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
    }


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fpstore.Store]:
    """SOME in two segments and pending, with removals of each; a row that was removed and came again in each, too."""
    fpstore.build(tmp_path / "s.fpstore", SOME[:300], ids=IDS[:300]).close()
    monkeypatch.setattr(Writer, "_start_merge", lambda *_: None)
    with fpstore.open(tmp_path / "s.fpstore", "w") as opened:
        for first in (300, 600):
            opened.add(SOME[first : first + 300], ids=IDS[first : first + 300])
            opened.remove(fingerprints=SOME[first - 300 : first + 300 : 100])
            opened.add(SOME[first : first + 1], ids=IDS[first : first + 1])
            if first == 300:
                opened._flush()
        yield opened


def test_a_copy_holds_what_the_store_holds(store: Store, tmp_path: Path) -> None:
    store.copy(tmp_path / "t.fpstore")
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        copied.verify()
        assert rows_of(copied) == rows_of(store)
        assert copied._settings == store._settings
        assert (len(copied._segments), copied.stats().pending_count) == (2, len(store._latest.pending_rows()[0]))
        for k in range(4):
            queries = SOME[:50] ^ np.uint64(k)
            assert list(copied.probe_many(queries)) == list(store.probe_many(queries))


def test_a_copy_is_a_store_that_goes_on_by_itself(store: Store, tmp_path: Path) -> None:
    store.copy(tmp_path / "t.fpstore")
    expected = before = rows_of(store)
    with fpstore.open(tmp_path / "t.fpstore", "w") as copied:
        copied.remove(fingerprints=SOME[:10])
        copied.add(SOME[:5], ids=IDS[:5])
        copied._flush()
        copied.remove(ids=IDS[700:710])
        expected = {row for row in expected if row[0] not in SOME[:10].tolist() and not 700 <= row[1] < 710}
        expected |= set(zip(SOME[:5].tolist(), range(5), strict=True))
        assert rows_of(copied) == expected
        copied.compact()
        assert rows_of(copied) == expected
        copied.copy(tmp_path / "u.fpstore")
    assert rows_of(store) == before
    with fpstore.open(tmp_path / "u.fpstore") as again:
        assert rows_of(again) == expected


def test_what_waits_for_a_sync_is_copied_too(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s.fpstore", id_type=None).close()
    with fpstore.open(tmp_path / "s.fpstore", "w", durability="batch") as opened:
        opened.add(SOME)
        opened.copy(tmp_path / "t.fpstore")
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        assert {key for key, _ in rows_of(copied)} == set(SOME.tolist())


def test_an_empty_store_is_copied(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s.fpstore", max_distance=2) as opened:
        opened.copy(tmp_path / "t.fpstore")
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        assert (copied.count(), copied.max_distance) == (0, 2)


def test_a_reader_copies_the_state_it_sees_though_its_segments_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpstore.build(tmp_path / "s.fpstore", SOME, ids=IDS).close()
    real = creation._copied

    def compact_first(*arguments: object) -> Iterator[Any]:
        with fpstore.open(tmp_path / "s.fpstore", "w") as writer:
            writer.remove(fingerprints=SOME[:300])
            writer.compact()
        return real(*arguments)

    monkeypatch.setattr(creation, "_copied", compact_first)
    with fpstore.open(tmp_path / "s.fpstore") as opened:
        opened.copy(tmp_path / "t.fpstore")
        assert opened.count() == 600
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        copied.verify()
        assert copied.count() == 900


def test_progress_counts_the_bytes(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "PIECE_BYTES", 1000)
    told: list[fpstore.Progress] = []
    store.copy(tmp_path / "t.fpstore", progress=told.append)
    total = sum(segment.file_bytes for segment in store._segments)
    assert told[-1] == ("copying", total, total, "bytes")
    assert {(each.phase, each.total) for each in told} == {("copying", total)}
    assert [each.done for each in told] == sorted(each.done for each in told)


@pytest.mark.parametrize("kind", ["store", "file", "link to nothing"])
def test_nothing_is_copied_to_where_something_is(store: Store, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.fpstore"
    if kind == "store":
        path = store.path
    elif kind == "file":
        path.write_text("something")
    else:
        path.symlink_to(tmp_path / "none")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileExistsError, match="already there"):
        store.copy(path)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_folder_that_is_not_there_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        store.copy(tmp_path / "none" / "t.fpstore")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["write_all", "check_file", "create_catalog", "Folder.sync"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_copy_that_fails_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(f"fpstore.creation.{name}", fail)
        with pytest.raises(type(error)):
            store.copy(tmp_path / "t.fpstore")
    assert os.listdir(tmp_path) == ["s.fpstore"]
    store.copy(tmp_path / "t.fpstore")
    assert sorted(os.listdir(tmp_path)) == ["s.fpstore", "t.fpstore"]


def damage(store: Store, region: str) -> Path:
    """Flip a byte of a region of the second segment, in place, as it is mapped."""
    segment = store._segments[1]
    offset = next(each.offset for each in segment.regions() if each.name == region)
    with open(segment.path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    return segment.path


def test_what_a_damaged_segment_lacks_is_copied_from_its_other_tables(store: Store, tmp_path: Path) -> None:
    path = store._segments[1].path
    whole = path.read_bytes()
    assert len(whole) > 4096
    damage(store, "payload")
    with pytest.warns(
        fpstore.StoreWarning, match=f"^{path}: .*; its copy is damaged, so it may be too; read from its other"
    ):
        store.copy(tmp_path / "t.fpstore")
    assert (tmp_path / "t.fpstore" / "segments" / path.name).read_bytes() == whole
    assert sorted(each.name for each in (tmp_path / "t.fpstore" / "segments").iterdir()) == sorted(
        each.path.name for each in store._segments
    )
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        copied.verify()
        assert rows_of(copied) == rows_of(store)


def test_a_segment_that_has_lost_something_is_named_and_not_copied(store: Store, tmp_path: Path) -> None:
    path = damage(store, "id values")
    with pytest.raises(fpstore.CorruptStore, match=f"^{path}: page at byte .*; its copy is damaged, so it may be too$"):
        store.copy(tmp_path / "t.fpstore")
    assert os.listdir(tmp_path) == ["s.fpstore"]


def test_a_copy_that_is_made_again_is_the_segment_or_an_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damage(store, "payload")
    other = store._segments[0].path
    monkeypatch.setattr(creation, "make_again", lambda segment, copied, *_: shutil.copy(other, copied.path))
    with pytest.raises(fpstore.CorruptStore, match=f"^{path}: page at byte .*; its copy is damaged, so it may be too$"):
        store.copy(tmp_path / "t.fpstore")
    assert os.listdir(tmp_path) == ["s.fpstore"]


@pytest.mark.parametrize("inside", ["in", "segments/in"])
def test_no_store_is_made_inside_a_store(store: Store, inside: str) -> None:
    before = sorted(store.path.rglob("*"))
    calls: list[Callable[[Path], object]] = [
        store.copy,
        fpstore.create,
        lambda path: fpstore.recover(store.path, path),
        lambda path: fpstore.build(path, [1]),
        lambda path: dedup([], path),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="found a place inside the store"):
            call(store.path / inside)
    assert sorted(store.path.rglob("*")) == before
