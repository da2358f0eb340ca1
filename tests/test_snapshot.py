"""Snapshots: what one shares with the next, and answers from several segments and what is pending."""

# mypy: disable-error-code="arg-type, attr-defined, misc, no-untyped-call, union-attr, var-annotated"

import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers import KINDS, ask_by, queries_near, uniform

import fpstore
from fpstore import Store
from fpstore.living import changes, live
from fpstore.living.catalog import Catalog
from fpstore.living.changes import Change
from fpstore.living.opening import open_snapshot
from fpstore.living.records import Log
from fpstore.living.renewal import segment_of_rows
from fpstore.living.snapshot import Snapshot
from fpstore.living.waiting import MIN_PENDING_ROOM
from fpstore.living.writer import Writer
from fpstore.query.tables import Rows
from fpstore.types import Keys

SOME = uniform(600, np.random.default_rng(1))
IDS = np.arange(600, dtype=np.uint64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Half of SOME in a segment."""
    fpstore.build(tmp_path / "s", SOME[:300], ids=IDS[:300], plan="paper-4").close()
    return tmp_path / "s"


def rows_of(snapshot: Snapshot | Store) -> set[tuple[int, int | None]]:
    batches = snapshot.rows()
    found = [row for batch in batches for row in (batch if isinstance(batch, Rows) else Rows(*batch))]
    assert len(found) == len(set(found))
    return set(found)


def rows(first: int, end: int) -> set[tuple[int, int | None]]:
    return set(zip(SOME[first:end].tolist(), range(first, end), strict=True))


# --- One after the other ---


def test_the_next_snapshot_reads_what_is_new_and_shares_the_rest(folder: Path) -> None:
    with fpstore.open(folder, "w") as writer, Catalog.open(folder) as catalog:
        first = open_snapshot(catalog)
        writer.add(SOME[300:400], ids=IDS[300:400])
        second = open_snapshot(catalog, first)
        writer.add(SOME[400:], ids=IDS[400:])
        third = open_snapshot(catalog, second)
        assert first.parts[0] is second.parts[0] is third.parts[0]
        assert second.pending is third.pending
        assert (rows_of(first), rows_of(second), rows_of(third)) == (rows(0, 300), rows(0, 400), rows(0, 600))


def test_a_probe_of_a_snapshot_finds_nothing_that_was_added_after_it(folder: Path) -> None:
    with fpstore.open(folder, "w") as writer, Catalog.open(folder) as catalog:
        writer.add(SOME[300:310], ids=IDS[300:310])
        first = open_snapshot(catalog)
        writer.add(SOME[310:320], ids=IDS[310:320])
        second = open_snapshot(catalog, first)
        assert first.pending is second.pending
        found = [snapshot.search(SOME[290:330], 0).query.tolist() for snapshot in (first, second)]
        assert found == [list(range(20)), list(range(30))]
        assert [each.contains(SOME[315:316], 0) for each in (first, second)] == [False, True]


def test_after_a_merge_the_pending_rows_are_shared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.open(folder, "w") as writer, Catalog.open(folder) as catalog:
        with monkeypatch.context() as unmerged:
            unmerged.setattr(Writer, "_start_merge", lambda *_: None)
            writer.add(SOME[300:400], ids=IDS[300:400])
            writer._flush()
        writer.add(SOME[400:500], ids=IDS[400:500])
        writer.remove(ids=IDS[:50])
        before = open_snapshot(catalog)
        writer._living._merge_parts(writer._living.snapshot.parts)
        writer.add(SOME[500:], ids=IDS[500:])
        after = open_snapshot(catalog, before)
        assert (len(before.parts), len(after.parts)) == (2, 1)
        assert after.pending is before.pending
        assert (rows_of(before), rows_of(after)) == (rows(50, 500), rows(50, 600))


def test_after_a_flush_only_later_rows_are_pending(folder: Path) -> None:
    with fpstore.open(folder, "w") as writer:
        kept = writer._living
        writer.add(SOME[300:400], ids=IDS[300:400])
        flushed = kept.snapshot.state.next_change
        writer.add(SOME[400:450], ids=IDS[400:450])
        writer.add(SOME[450:500], ids=IDS[450:500])
        writer.remove(ids=IDS[440:460])
        before = kept.snapshot
        with kept._new_place() as place:
            keys, ids, _ = before.pending.rows(0, 100)
            entry = segment_of_rows(place, kept.snapshot, kept._advance, keys, ids, flushed)
            kept._publish(place, entry, (), flushed)
        assert (kept.snapshot.pending_end, before.pending_end) == (100, 200)
        with fpstore.open(folder) as reader:
            assert rows_of(before) == rows_of(writer) == rows_of(reader) == rows(0, 440) | rows(460, 500)


def test_the_pending_index_grows_and_older_snapshots_keep_theirs(folder: Path) -> None:
    keys = uniform(3 * MIN_PENDING_ROOM, np.random.default_rng(2))
    with Catalog.open(folder) as catalog:
        snapshot = open_snapshot(catalog)
    snapshots = [snapshot]
    for number, key in enumerate(np.array_split(keys, 50), start=1):
        change = Change(number, changes.ADDED, (key, key))
        snapshots.append(snapshots[-1].extended([change], snapshot.state))
    assert snapshots[0].pending is not snapshots[-1].pending
    for earlier, later in itertools.pairwise(snapshots):
        assert earlier.pending_end < later.pending_end
    for count, each in [(0, snapshots[0]), *((len(rows_of(each)) - 300, each) for each in snapshots[1::7])]:
        assert len(each.search(keys, 0)) == count == each.pending_end


def test_a_state_whose_segments_were_merged_meanwhile_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, merged = Catalog.read, []

    def read_then_merge(*arguments: object) -> Log:
        log = real(*arguments)
        if not merged:
            merged.append(True)
            with fpstore.open(folder, "w") as writer:
                writer.remove(ids=[0])
                writer.compact()
        return log

    monkeypatch.setattr(Catalog, "read", read_then_merge)
    with Catalog.open(folder) as catalog:
        assert rows_of(open_snapshot(catalog)) == rows(1, 300)


def test_a_segment_that_is_not_there_is_an_error(folder: Path) -> None:
    (path,) = (folder / "segments").iterdir()
    path.unlink()
    with (
        Catalog.open(folder) as catalog,
        pytest.raises(
            fpstore.CorruptStore, match=f"^{path}: segment: found none, expected the file that the catalog names$"
        ),
    ):
        open_snapshot(catalog)


# --- Answers ---


def brute(stored: set[tuple[int, int | None]], queries: Keys, k: int) -> list[tuple[int, int, int, int]]:
    return sorted(
        (index, (query ^ key).bit_count(), key, number)
        for index, query in enumerate(queries.tolist())
        for key, number in stored
        if (query ^ key).bit_count() <= k
    )


def in_several_parts(path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int | None]]:
    """A store of keys with row numbers over 5: half in a segment, half of the rest in another, the rest pending.

    Some fingerprints and ids of each part were removed. Returns what is left.
    """
    ids = np.arange(len(keys), dtype=np.uint64) // np.uint64(5)
    cuts = [0, len(keys) // 2, 3 * len(keys) // 4, len(keys)]
    fpstore.build(path, keys[: cuts[1]], ids=ids[: cuts[1]], plan="flips-3:1,0,0").close()
    with monkeypatch.context() as unmerged, fpstore.open(path, "w") as writer:
        unmerged.setattr(Writer, "_start_merge", lambda *_: None)
        writer.add(keys[cuts[1] : cuts[2]], ids=ids[cuts[1] : cuts[2]])
        writer._flush()
        writer.add(keys[cuts[2] :], ids=ids[cuts[2] :])
        writer.remove(fingerprints=keys[::10])
        writer.remove(ids=ids[::35])
    gone, gone_ids = set(keys[::10].tolist()), set(ids[::35].tolist())
    return {
        row for row in zip(keys.tolist(), ids.tolist(), strict=True) if row[0] not in gone and row[1] not in gone_ids
    }


def test_pairs_have_what_was_removed_and_added_again(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1], plan="paper-4").close()
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([3], ids=[5])
        store.remove(fingerprints=[3])
        assert [len(found) for found in store.pairs()] in ([], [0])
        store.add([3], ids=[5])
        assert [pair for found in store.pairs() for pair in found] == [(1, 3, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["probe", "stream", "scan"])
@pytest.mark.parametrize("threads", [1, 3])
def test_large_batches_of_a_store_in_several_parts_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, threads: int
) -> None:
    rng = np.random.default_rng(3)
    keys = KINDS["clustered"](2000, rng)
    left = in_several_parts(tmp_path / "s", keys, monkeypatch)
    queries = queries_near(keys, 3, 1200, rng)
    ask_by(monkeypatch, method)
    with fpstore.open(tmp_path / "s") as store:
        assert len(store._segments) == 2
        for k in (0, 3):
            found = store.probe_many(queries, max_distance=k, threads=threads)
            assert found.method == method
            assert [(m.query, m.distance, m.fingerprint, m.id) for m in found] == brute(left, queries, k)


def test_pairs_of_a_store_in_several_parts_are_exact_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    keys = KINDS["clustered"](800, np.random.default_rng(4))
    stored = sorted({key for key, _ in in_several_parts(tmp_path / "s", keys, monkeypatch)})
    expected = {
        (first, second, (first ^ second).bit_count())
        for i, first in enumerate(stored)
        for second in stored[i + 1 :]
        if (first ^ second).bit_count() <= 3
    }
    with fpstore.open(tmp_path / "s") as store:
        found = [pair for each in store.pairs() for pair in each]
        assert (len(found), set(found)) == (len(expected), expected)
        assert store.count() == len(stored)
        left_half_way = store.pairs()
        next(left_half_way)
        left_half_way.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_fingerprint_whose_ids_are_read_in_several_pieces_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHUNK_KEYS", 4)
    fpstore.build(tmp_path / "s", np.repeat(SOME[:3], 10), ids=np.arange(30, dtype=np.uint64)).close()
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add(SOME[2:4], ids=[50, 51])
        assert len([None for _ in store.rows()]) > 4
        assert store.count() == 4


def test_a_removed_fingerprint_is_not_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = uniform(400, np.random.default_rng(5))
    left = {key for key, _ in in_several_parts(tmp_path / "s", keys, monkeypatch)}
    assert 0 < len(left) < 400
    with fpstore.open(tmp_path / "s") as store:
        for key in keys.tolist():
            assert store.contains_near(key, max_distance=0) is (key in left)


def test_a_pending_fingerprint_is_near_without_removals(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        store.add(SOME[300:], ids=IDS[300:])
        assert all(store.contains_near(key ^ 5) for key in SOME.tolist())
        assert not store.contains_near(int(SOME[300]) ^ 5, max_distance=1)


def test_damage_in_one_of_several_segments_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = uniform(12_000, np.random.default_rng(6))
    left = in_several_parts(tmp_path / "s", keys, monkeypatch)
    path = tmp_path / "s" / "segments" / "00000002.fpseg"
    data = bytearray(path.read_bytes())
    data[10_000] ^= 1  # in table 0
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store:
        uses = [
            lambda: store.probe_many(keys),
            lambda: [store.contains_near(key) for key in keys[6000:9000].tolist()],
            lambda: store.verify(),
        ]
        for use in uses:
            with pytest.raises(fpstore.CorruptStore, match=path.name):
                use()
        # What reads everything takes from other tables what this one lacks.
        with pytest.warns(fpstore.StoreWarning, match=path.name):
            assert store.count() == len({key for key, _ in left})
        list(store.rows())
        list(store.pairs())
