"""A catalog that is mostly free moves to a smaller file: nothing is lost, and who reads misses nothing."""

# mypy: disable-error-code="arg-type, attr-defined, union-attr"

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform

import fpstore
from fpstore import Stats, StoreChanged
from fpstore.disk import Folder
from fpstore.living import catalog as catalogs
from fpstore.living import reader as readers
from fpstore.living.catalog import Catalog
from fpstore.living.locks import WriterLock

MANY = uniform(100_000, np.random.default_rng(3))
# They do not rise, but for the first few, so that they take 8 bytes each in the log.
IDS = np.concatenate([np.arange(10), np.arange(10, 100_000)[::-1]]).astype(np.uint64)
SMALL_BYTES = 2 * 262_144


@pytest.fixture(autouse=True)
def inattentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers do not look where their path leads unless the catalog says that it moves."""
    monkeypatch.setattr(readers, "LOOK_SECONDS", 3600.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store whose catalog had all of MANY in its log once; one row is there still, and one removal."""
    with fpstore.create(tmp_path / "s", plan="flips-2:1,1") as store:
        store.add(MANY, ids=IDS)
        store._flush()
        store.remove(ids=[7])
        store.add([1], ids=[200_000])
    assert size(tmp_path / "s") > 1 << 20
    return tmp_path / "s"


def size(folder: Path) -> int:
    return (folder / "catalog.mdb").stat().st_size


def inode(folder: Path) -> int:
    return (folder / "catalog.mdb").stat().st_ino


def counts_of(store: fpstore.Store) -> Stats:
    """What does not depend on how large the files are."""
    sizes = {"catalog_bytes": 0, "total_bytes": 0, "segments": ()}
    return replace(store.stats(), written_at=datetime.min, **sizes)


def moved(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        store._living._catalog.compact()


def test_compacting_makes_a_catalog_small_that_is_mostly_free(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        store.compact()
        assert size(folder) <= SMALL_BYTES
        before = inode(folder)
        store.add([2], ids=[200_001])
        store.compact()
        assert inode(folder) == before
        assert store.count() == 100_001
    with fpstore.open(folder, "w") as store:
        store.verify()
        assert store.count() == 100_001
    assert sorted(path.name for path in folder.iterdir()) == ["catalog.mdb", "segments", "writer.lock"]


def test_the_log_and_the_removals_move_too(folder: Path) -> None:
    with fpstore.open(folder) as store:
        before = (counts_of(store), store.count(), store.identity)
    moved(folder)
    assert size(folder) <= SMALL_BYTES
    with fpstore.open(folder) as store:
        assert (counts_of(store), store.count(), store.identity) == before
        assert (before[0].pending_count, before[0].removal_count, before[1]) == (1, 1, 100_000)


@pytest.mark.parametrize("asked", [True, False])
def test_a_reader_misses_no_row_that_was_acknowledged_in_the_new_file(folder: Path, asked: bool) -> None:
    """Whether it was asked when the mark was there and the new file was not, or after it was in place alone."""
    replace = catalogs.environments.replace
    with fpstore.open(folder) as reader, fpstore.open(folder, "w") as writer:

        def watched(*given: Any) -> None:
            if asked:
                reader.probe(1)
            replace(*given)

        reader.probe(1)
        for number in range(5):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(catalogs, "MIN_COMPACTED_BYTES", 0)
                patch.setattr(catalogs, "MOSTLY_FREE", 0)
                patch.setattr(catalogs.environments, "replace", watched)
                writer._living._catalog.compact()
            writer.add([1000 + number], ids=[300_000 + number])
            assert reader.probe(1000 + number, max_distance=0).id.tolist() == [300_000 + number]


def test_a_reader_that_comes_late_does_not_look_for_segments_that_the_file_before_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "MIN_COMPACTED_BYTES", 0)
    monkeypatch.setattr(catalogs, "MOSTLY_FREE", 0)
    with fpstore.open(folder) as reader, fpstore.open(folder, "w") as writer:
        reader.probe(1)
        for number in range(3):
            for each in range(
                2
            ):  # the last state of a file is one that the reader has not seen, and names what is gone
                writer.add([1000 + 10 * number + each], ids=[300_000 + 10 * number + each])
                writer.compact()
            assert reader.probe(1001 + 10 * number, max_distance=0).id.tolist() == [300_001 + 10 * number]


READER = """
import sys, fpstore
with fpstore.open(sys.argv[1]) as store:
    store.probe(1)
    print("open", flush=True)
    for line in sys.stdin:
        key = int(line)
        print(store.probe(key, max_distance=0).id.tolist(), flush=True)
"""


def test_a_reader_in_another_process_follows(folder: Path) -> None:
    command = [sys.executable, "-c", READER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        with fpstore.open(folder, "w") as writer:
            writer.compact()
            writer.add([2], ids=[200_001])
            for key, ids in ((2, [200_001]), (1, [200_000]), (int(MANY[7]), []), (int(MANY[8]), [8])):
                process.stdin.write(f"{key}\n")
                process.stdin.flush()
                assert process.stdout.readline() == f"{ids}\n"


@pytest.mark.parametrize("when", ["before", "late", "after"])
def test_a_move_that_fails_leaves_the_one_file_or_the_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    move = WriterLock.move_catalog

    rename = Folder.rename

    def failing(self: WriterLock, temporary: str) -> None:
        if when == "after":
            move(self, temporary)
        raise OSError(errno.EIO, "Input/output error")

    def late(self: Folder, old: str, new: str, to: Folder | None = None) -> None:
        rename(self, old, new, to)
        if new == "catalog.mdb":
            raise OSError(errno.EIO, "Input/output error")

    with fpstore.open(folder) as reader, fpstore.open(folder, "w") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "rename", late) if when == "late" else None
            patch.setattr(WriterLock, "move_catalog", failing) if when != "late" else None
            with pytest.raises(OSError, match="Input/output error"):
                writer.compact()
        assert (size(folder) <= SMALL_BYTES) == (when != "before")
        writer.add([2], ids=[200_001])
        assert reader.contains_near(2, max_distance=0)
        writer.compact()
        assert size(folder) <= SMALL_BYTES
        assert reader.count() == writer.count() == 100_001
    assert sorted(path.name for path in folder.iterdir()) == ["catalog.mdb", "segments", "writer.lock"]


KILLED = """
import os, signal, sys, fpstore
from fpstore.living.locks import WriterLock
WriterLock.move_catalog = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with fpstore.open(sys.argv[1], "w") as store:
    store._living._catalog.compact()
"""


def test_what_a_writer_left_that_died_while_it_moved_is_removed_by_the_next(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert (folder / "catalog.mdb.new").exists()
    with fpstore.open(folder) as reader:
        assert reader.count() == 100_000
        with fpstore.open(folder, "w") as writer:
            assert not (folder / "catalog.mdb.new").exists()
            writer.add([2], ids=[200_001])
            assert reader.contains_near(2, max_distance=0)
            reader._refresh()
            assert reader._living.snapshot.state.moving is False


@pytest.mark.parametrize("what", ["another store's", "an earlier", "none", "no catalog"])
def test_another_file_in_the_catalogs_place_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    shutil.copyfile(folder / "catalog.mdb", tmp_path / "earlier")
    with fpstore.open(folder, "w") as store:
        store.add([2], ids=[200_001])
    fpstore.build(tmp_path / "other", MANY[:10]).close()
    with fpstore.open(folder) as reader:
        reader.probe(1)
        if what == "another store's":
            os.rename(tmp_path / "other" / "catalog.mdb", folder / "catalog.mdb")
        elif what == "an earlier":
            os.rename(tmp_path / "earlier", folder / "catalog.mdb")
        elif what == "none":
            (folder / "catalog.mdb").unlink()
        else:
            (folder / "catalog.mdb").unlink()
            (folder / "catalog.mdb").mkdir()
        reader._living._catalog.confirm(None, 0.0)
        for _ in range(2):
            with pytest.raises(StoreChanged, match=f"^{folder}: found "):
                reader.probe(1)


@pytest.mark.parametrize("added", [1, 2, 3])
def test_a_backup_put_back_and_added_to_is_not_mixed_with_what_was_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: int
) -> None:
    shutil.copyfile(folder / "catalog.mdb", tmp_path / "backup")
    with fpstore.open(folder, "w") as store:
        for number in range(2):
            store.add([1000 + number], ids=[300_000 + number])
    with fpstore.open(folder) as reader:
        reader.probe(1)
        os.rename(tmp_path / "backup", folder / "catalog.mdb")
        with fpstore.open(folder, "w") as store:
            for number in range(added):
                store.add([2000 + number], ids=[400_000 + number])
        reader._living._catalog.confirm(None, 0.0)
        if added == 1:  # an earlier moment
            with pytest.raises(StoreChanged, match="earlier moment"):
                reader.probe(1)
            return
        with monkeypatch.context() as patch:  # what fails on the way there is not forgotten
            patch.setattr(readers, "open_snapshot", lambda *_given, **_options: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                reader.probe(1)
        reader._living._catalog.confirm(None, 0.0)
        assert [reader.probe(1000 + number, max_distance=0).id.tolist() for number in range(2)] == [[], []]
        assert [reader.probe(2000 + number, max_distance=0).id.tolist() for number in range(added)] == [
            [400_000 + number] for number in range(added)
        ]


def test_a_move_for_which_no_number_is_left_leaves_no_mark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        monkeypatch.setattr(catalogs, "MAX_NUMBER", catalog.state().generation)
        with pytest.raises(fpstore.Error, match="the store is full"):
            catalog.compact()
        assert catalog.state().moving is False


def test_the_mark_of_a_move_is_gone_with_the_next_commit(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:

        def fail(*_given: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(catalogs.environments, "replace", fail)
            with pytest.raises(OSError, match="No space left"):
                catalog.compact()
        assert catalog.state().moving is True
        catalog.publish()
        assert catalog.state().moving is False
