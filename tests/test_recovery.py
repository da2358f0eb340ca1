"""A store made of a damaged one has all that the damage spares, and what is told as lost is what is lost."""

import fcntl
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers import uniform
from living import writer_of

import fpstore
from fpstore import CorruptStore, NotAStore, Recovered, StoreLocked
from fpstore.format import PAGE_BYTES
from fpstore.types import Keys

Rows = set[tuple[int, int | None]]


def some(count: int, seed: int = 1) -> Keys:
    return uniform(count, np.random.default_rng(seed))


def rows_of(path: Path) -> Rows:
    found: Rows = set()
    with fpstore.open(path) as store:
        store.verify()
        for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows()):
            found |= set(zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True))
    return found


def segment_paths(folder: Path) -> list[Path]:
    return sorted((folder / "segments").iterdir())


def overwrite(path: Path, start: int, end: int, seed: int = 2) -> None:
    """Noise in place of bytes of a file."""
    noise = np.random.default_rng(seed).integers(0, 256, min(end, path.stat().st_size) - start, dtype=np.uint8)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(noise.tobytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def recovered(folder: Path, truth: Rows) -> tuple[Recovered, Rows]:
    """What recover says, held against the truth, and what is there; the old store is as it was."""
    new, before = folder.with_name("new"), contents(folder)
    shutil.rmtree(new, ignore_errors=True)
    found = fpstore.recover(folder, new)
    assert contents(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir() if path.name.startswith(".")) == []
    rows = rows_of(new)
    assert rows <= truth
    assert (found.rows, found.fingerprints) == (len(rows), len({key for key, _ in rows}))
    return found, rows


def expect_exact(found: Recovered, rows: Rows, truth: Rows) -> None:
    """What is told as lost is what is lost, where nothing was removed and each fingerprint is in one segment."""
    keys, all_keys = {key for key, _ in rows}, {key for key, _ in truth}
    assert found.fingerprints_lost == len(all_keys - keys)
    assert found.ids_lost == (0 if (next(iter(truth))[1] is None) else len(truth - rows))
    assert found.complete == (rows == truth)
    assert set(found.without_ids) <= all_keys - keys
    assert {key for key, _ in truth - rows} & keys <= set(found.partial) <= keys


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A store of 3,000 fingerprints, some with several ids."""
    keys = np.concatenate([some(3000), some(3000)[::4]])
    fpstore.build(tmp_path / "s", keys, recipe="exact").close()
    return tmp_path / "s"


def test_a_sound_store_is_recovered_whole(small: Path) -> None:
    with fpstore.open(small, "w") as store:
        store.add(some(50, 5), ids=np.arange(50))
        store._flush()
        store.add(some(70, 6), ids=np.arange(70))
        store.remove(ids=[1, 2, 3])
        store.remove(fingerprints=some(70, 6)[:9])
        store.upsert(some(20, 7), ids=np.arange(60, 80))
        store.remove(fingerprints=some(3000)[100:120], ids=np.arange(100, 120))  # in a segment
        store.remove(fingerprints=some(70, 6)[20:25], ids=np.arange(20, 25))  # in the log
    truth = rows_of(small)
    assert (int(some(3000)[110]), 110) not in truth
    assert (int(some(3000)[120]), 120) in truth
    found, rows = recovered(small, truth)
    assert rows == truth
    assert (found.complete, found.damage, found.partial, found.without_ids) == (True, (), (), ())
    with fpstore.open(small) as old, fpstore.open(small.with_name("new")) as new:
        assert (new.max_distance, new.plan, new.codec, new.recipe) == (
            old.max_distance,
            old.plan,
            old.codec,
            old.recipe,
        )


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["size", "paper-4"])
def test_any_region_of_any_table_of_a_large_store_overwritten_loses_nothing(tmp_path: Path, plan: str) -> None:
    folder = tmp_path / "s"
    keys = some(100_000)
    crowd = (keys[:3000] >> np.uint64(40)) | (np.uint64(0xABCDEF) << np.uint64(40))
    fpstore.build(folder, np.concatenate([keys, crowd]), plan=plan).close()
    truth = rows_of(folder)
    (path,) = segment_paths(folder)
    with fpstore.open(folder) as store:
        regions = [region for region in store._segments[0].regions() if region.table is not None]
    whole = path.read_bytes()
    assert {region.name for region in regions} == {"payload", "directory", "fences"}
    for region in regions:
        overwrite(path, region.offset, region.offset + region.bytes)
        found, rows = recovered(folder, truth)
        assert found.complete, region
        assert rows == truth
        assert f"table {region.table} {region.name}" in str(found.damage[0])
        path.write_bytes(whole)


@pytest.mark.parametrize("ids", [True, False])
def test_with_any_page_of_a_segment_overwritten_what_is_lost_is_what_is_told(tmp_path: Path, ids: bool) -> None:
    folder = tmp_path / "s"
    keys = np.concatenate([some(1500), some(1500)[::4]])
    fpstore.build(folder, keys, ids="row" if ids else None).close()
    truth = rows_of(folder)
    (path,) = segment_paths(folder)
    whole = path.read_bytes()
    for start in range(0, len(whole), PAGE_BYTES):
        overwrite(path, start, start + PAGE_BYTES)
        found, rows = recovered(folder, truth)
        expect_exact(found, rows, truth)
        assert found.damage[0].segment == str(path)
        path.write_bytes(whole)


@pytest.mark.slow
def test_with_any_page_of_the_catalog_overwritten_what_is_lost_is_what_is_told(small: Path) -> None:
    with fpstore.open(small, "w") as store:
        for number in range(3):
            store.add(some(2000, 10 + number), ids=np.arange(2000) + 10_000 * (number + 1))
        store.remove(ids=[5])
        store._flush()
        for number in range(3):
            store.add(some(2000, 20 + number), ids=np.arange(2000) + 10_000 * (number + 5))
        store.remove(ids=[6])
    truth = rows_of(small)
    removed = {(int(some(3000)[number]), number) for number in (5, 6)}
    logged = [
        {*zip(some(2000, 20 + n).tolist(), range(10_000 * (n + 5), 10_000 * (n + 5) + 2000), strict=True)}
        for n in range(3)
    ]
    path = small / "catalog.mdb"
    whole = path.read_bytes()
    losses, unknown = set(), 0
    for start in range(0, len(whole), PAGE_BYTES):
        if not any(whole[start : start + PAGE_BYTES]):
            continue
        overwrite(path, start, start + PAGE_BYTES)
        found, rows = recovered(small, truth | removed)
        lost = truth - rows
        back = rows & removed
        assert (found.fingerprints_lost, found.ids_lost) == (0, 0)
        if found.unknown:
            unknown += 1
            # Then the state was gone, so nobody knew what the log had to hold.
            assert lost <= set().union(*logged)
        else:
            whole_records = [record for record in logged if record & lost]
            assert lost == set().union(*whole_records)
            assert found.log_records_lost == len(whole_records) + (
                (next(iter(removed - {(int(some(3000)[5]), 5)}))) in back
            )
            assert found.complete == (not lost and not back)
            losses.add((found.log_records_lost, found.removals_lost))
        path.write_bytes(whole)
    # Of its pages only the one that holds the state leaves it unknown what there was.
    assert {(0, 0), (1, 0)} <= losses
    assert unknown == 1


def test_without_a_catalog_the_segments_are_used_and_it_is_said(small: Path) -> None:
    with fpstore.open(small, "w") as store:
        store.add(some(2000, 3), ids=np.arange(2000) + 50_000)
        store._flush()
    truth = rows_of(small)
    (small / "catalog.mdb").unlink()
    found, rows = recovered(small, truth)
    assert rows == truth
    assert not found.complete
    assert found.unknown[0].startswith("the catalog is gone: rows that were in no segment yet are lost")
    with fpstore.open(small.with_name("new")) as store:
        assert (store.max_distance, store.recipe) == (3, None)
        assert store.contains_near(int(some(3000)[7]) ^ 0b111)


def test_a_segment_that_is_gone_is_lost_and_counted(small: Path) -> None:
    with writer_of(small, growth=0) as store:
        store.add(some(2000, 3), ids=np.arange(2000) + 50_000)
        store._flush()
    truth = rows_of(small)
    first, second = segment_paths(small)
    second.unlink()
    found, rows = recovered(small, truth)
    expect_exact(found, rows, truth)
    assert (found.segments_lost, found.fingerprints_lost, found.ids_lost) == (1, 2000, 2000)
    assert [str(each) for each in found.damage] == [
        f"{second}: segment: found none, expected the file that the catalog names"
    ]
    (small / "catalog.mdb").write_bytes(b"no catalog" * 1000)
    overwrite(first, first.stat().st_size - 64, first.stat().st_size)
    with pytest.raises(CorruptStore, match=r"store: found neither a catalog nor a segment that tells what it was"):
        fpstore.recover(small, small.with_name("other"))


def test_a_segment_that_no_catalog_names_is_told_where_another_is_lost(small: Path) -> None:
    (first,) = segment_paths(small)
    shutil.copy(first, first.with_name("00000099.fpseg"))
    assert fpstore.recover(small, small.with_name("whole")).unknown == ()
    first.unlink()
    found = fpstore.recover(small, small.with_name("new"))
    assert (found.segments_lost, found.fingerprints) == (1, 0)
    assert found.unknown == (
        "segments/00000099.fpseg: the catalog does not name it, so it was left out; if it is of another moment of this "
        "store, put the catalog of that moment back",
    )
    shutil.rmtree(small / "segments")
    assert fpstore.recover(small, small.with_name("none")).unknown == ()


def test_ids_lost_with_a_fingerprint_that_another_segment_has_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fpstore.build(path, some(300), ids=np.arange(300)).close()
    with fpstore.open(path, "w") as store:
        store.add(some(300)[:40], ids=np.arange(40) + 1000)
        store._flush()
        tables = store._segments[0].record.ranks_offset
    overwrite(segment_paths(path)[0], 0, tables)
    found = fpstore.recover(path, tmp_path / "new")
    assert (found.fingerprints, found.rows) == (40, 40)
    assert (found.fingerprints_lost, found.ids_lost, found.partial) == (300, 300, ())


def test_segments_that_do_not_go_together_are_not_mixed(small: Path, tmp_path: Path) -> None:
    (small / "catalog.mdb").unlink()
    for name, options in {"plan": {"plan": "paper-10"}, "ids": {"ids": None}}.items():
        fpstore.build(tmp_path / name, some(2000, 9), **options).close()  # type: ignore[arg-type]
    shutil.copy(segment_paths(tmp_path / "plan")[0], small / "segments" / "00000007.fpseg")
    shutil.copy(segment_paths(tmp_path / "ids")[0], small / "segments" / "00000008.fpseg")
    found = fpstore.recover(small, tmp_path / "new")
    assert (found.segments_lost, found.fingerprints) == (2, 3000)
    assert len(found.unknown) == 3
    assert found.unknown[1] == "00000007.fpseg: nothing of it could be read, nor how much it held"
    tables, ids = found.damage[1:]
    assert (tables.region, tables.found.count("prefix mask"), tables.expected.count("prefix mask")) == ("tables", 10, 3)
    assert ids.line == "ids: found none, expected some, as in the store"
    assert len(rows_of(tmp_path / "new")) == 3750


def test_ids_that_nobody_asked_for_are_not_mixed_in(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some(300), ids=None).close()
    fpstore.build(tmp_path / "other", some(300, 9)).close()
    (tmp_path / "s" / "catalog.mdb").unlink()
    shutil.copy(segment_paths(tmp_path / "other")[0], tmp_path / "s" / "segments" / "00000002.fpseg")
    found = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert (found.fingerprints, found.rows, found.segments_lost) == (300, 300, 1)
    assert found.damage[-1].line == "ids: found some, expected none, as in the store"


def test_a_fingerprint_whose_ids_are_lost_in_one_segment_may_have_some_in_another(small: Path) -> None:
    with fpstore.open(small, "w") as store:
        store.add(some(3000)[:200], ids=np.arange(200) + 90_000)
        store._flush()
        values = store._segments[0].record.values_offset
        summary = store._segments[0].footer.summary_offset
    truth = rows_of(small)
    path = segment_paths(small)[0]
    assert summary // PAGE_BYTES > values // PAGE_BYTES
    overwrite(path, values, summary // PAGE_BYTES * PAGE_BYTES)
    found, rows = recovered(small, truth)
    keys = {key for key, _ in rows}
    assert found.fingerprints_lost == len({key for key, _ in truth} - keys) == len(found.without_ids) > 2000
    assert keys & set(some(3000)[:200].tolist()) == set(some(3000)[:200].tolist())
    assert {key for key, _ in truth - rows} & keys <= set(found.partial) <= keys


def test_what_was_removed_is_not_told_as_lost(small: Path) -> None:
    with fpstore.open(small) as store:
        values, summary = store._segments[0].record.values_offset, store._segments[0].footer.summary_offset
    overwrite(segment_paths(small)[0], values, summary // PAGE_BYTES * PAGE_BYTES)
    before = fpstore.recover(small, small.with_name("before"))
    with fpstore.open(small, "w") as store:
        store.remove(fingerprints=np.array(before.without_ids[:100], dtype=np.uint64))
    after = fpstore.recover(small, small.with_name("after"))
    assert set(before.without_ids) - set(after.without_ids) == set(before.without_ids[:100])


def test_what_is_no_store_or_is_in_use_is_refused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStore, match=r"file: found a file, expected the folder of a store$"):
        fpstore.recover(tmp_path / "file", tmp_path / "new")
    with pytest.raises(NotAStore, match=r"found neither catalog\.mdb nor segments, expected the folder of a store$"):
        fpstore.recover(tmp_path / "empty", tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        fpstore.recover(tmp_path / "none", tmp_path / "new")
    with pytest.raises(FileExistsError, match="already there"):
        fpstore.recover(small, tmp_path / "empty")
    with (small / "writer.lock").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match=r"it has a writer, which would go on meanwhile$"):
            fpstore.recover(small, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_what_is_no_segment_is_lost_and_keeps_nobody_waiting(small: Path, tmp_path: Path, what: str) -> None:
    (segment,) = list((small / "segments").iterdir())[:1]
    segment.rename(tmp_path / "kept")
    if what == "pipe":
        os.mkfifo(segment)
    elif what == "folder":
        segment.mkdir()
    else:
        segment.symlink_to(tmp_path / "kept")
    found = fpstore.recover(small, tmp_path / "recovered")
    assert found.segments_lost == 1
    assert any("not a regular file" in damage.found for damage in found.damage)


def test_a_link_to_the_segments_of_another_is_not_followed(small: Path, tmp_path: Path) -> None:
    (small / "segments").rename(tmp_path / "others")
    (small / "segments").symlink_to(tmp_path / "others")
    with pytest.raises(
        CorruptStore, match="segments: folder: found something else, expected a folder that fpstore made"
    ):
        fpstore.recover(small, tmp_path / "recovered")
    (small / "segments").unlink()
    assert fpstore.recover(small, tmp_path / "recovered").segments_lost > 0


def test_progress_goes_through_the_segments_and_an_interrupt_leaves_nothing(small: Path, tmp_path: Path) -> None:
    phases = []
    fpstore.recover(small, tmp_path / "new", progress=lambda progress: phases.append(progress.phase))
    assert phases[0] == "reading segments"

    def interrupt(_progress: fpstore.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fpstore.recover(small, tmp_path / "other", progress=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "s"]
