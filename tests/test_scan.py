"""The exact scan: what brute force finds, at any distance, of any codec and width, in any pieces."""

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import CODECS, KINDS, distinct, resealed, segment_of
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore import format as layout
from fpstore._scan import Scanner
from fpstore.disk import ADVISED_BYTES
from fpstore.errors import CorruptStore, TooManyMatches
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan, TablePlan
from fpstore.query import scans
from fpstore.query.scans import scan, scan_any, scan_nearest
from fpstore.segment.reader import Segment
from fpstore.threads import Threads
from fpstore.types import Keys

Row = tuple[int, int, int]


def u64(values: Any) -> Keys:
    return np.array(values, dtype=np.uint64)


def plan_of(bits: int) -> Plan:
    """Of one table, whose keys are not in the order of the fingerprints."""
    mask = sum(1 << bit for bit in range(0, bits, 3))
    return Plan("scattered", 1, (mask, ((1 << bits) - 1) & ~mask), (TablePlan(mask, 1),), bits=bits)


def brute(stored: Keys, queries: Keys, distance: int) -> list[Row]:
    rows = ((i, (q ^ key).bit_count(), key) for i, q in enumerate(queries.tolist()) for key in stored.tolist())
    return sorted(row for row in rows if row[1] <= distance)


def found_as_rows(found: Any) -> list[Row]:
    return list(zip(found[0].tolist(), found[2].tolist(), found[1].tolist(), strict=True))


sets = st.builds(
    lambda kind, count, seed, bits: distinct(KINDS[kind](count, np.random.default_rng(seed)) >> np.uint64(64 - bits)),
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 3000),
    st.integers(0, 99),
    st.sampled_from([16, 24, 40, 64]),
)


@settings(max_examples=100)
@given(
    codec=st.sampled_from(CODECS),
    block_bytes=st.sampled_from([0, 0, 64, 1024]),
    stored=sets,
    slot_bits=st.integers(0, 9),
    distance=st.integers(0, 64),
    keep=st.integers(1, 5),
    data=st.data(),
)
def test_what_a_scan_finds_is_what_brute_force_finds(
    codec: str, block_bytes: int, stored: Keys, slot_bits: int, distance: int, keep: int, data: st.DataObject
) -> None:
    bits = next(bits for bits in (16, 24, 40, 64) if int(stored[-1]) >> bits == 0)
    key = st.integers(0, (1 << bits) - 1) | st.sampled_from(stored.tolist())
    queries = u64(data.draw(st.lists(key, min_size=1, max_size=5)))
    # Pieces and groups of queries of any size, as in a store of any size.
    with (
        pytest.MonkeyPatch.context() as patch,
        segment_of(stored, replace(plan_of(bits), block_bytes=block_bytes), codec=codec, slot_bits=slot_bits) as s,
    ):
        patch.setattr(scans, "PIECE_KEYS", data.draw(st.integers(1, 4000)))
        patch.setattr(scans, "ALONE_TIMES", 1)
        patch.setattr(scans, "LEAST_KEYS", 1)
        patch.setattr(scans, "GROUP_QUERIES", data.draw(st.integers(1, 6)))
        expected = brute(stored, queries, distance)
        assert found_as_rows(scan(s, queries, distance)) == expected
        assert scan_any(s, queries[:1], distance) == any(row[0] == 0 for row in expected)
        nearest = [row for i in range(len(queries)) for row in [row for row in expected if row[0] == i][:keep]]
        assert found_as_rows(scan_nearest(s, queries, distance, keep, None, None)) == nearest
        after = [[row for row in nearest if row[0] == i][-1:] or [(i, 64, (1 << 64) - 1)] for i in range(len(queries))]
        last = [rows[0] for rows in after]
        rest = [
            row
            for i in range(len(queries))
            for row in [row for row in expected if row[0] == i and row > last[i]][:keep]
        ]
        bounds = np.array([row[1] for row in last], dtype=np.uint16), u64([row[2] for row in last])
        assert found_as_rows(scan_nearest(s, queries, distance, keep, *bounds)) == rest


def test_one_thread_scans_in_fewer_pieces_than_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each costs a call, and nobody waits for it to end."""
    monkeypatch.setattr(scans, "PIECE_KEYS", 1000)
    monkeypatch.setattr(scans, "LEAST_KEYS", 1000)
    stored = distinct(KINDS["uniform"](20_000, np.random.default_rng(1)))
    with segment_of(stored, plan_of(64)) as segment:
        pieces: list[int] = []

        def run(work: Any, items: list[Any]) -> Any:
            pieces.append(len(items))
            return map(work, items)

        assert found_as_rows(scan(segment, stored[:1], 3, run)) == found_as_rows(scan(segment, stored[:1], 3))
        assert pieces[0] > 10 > len(scans._ranges(segment, 1, scans.ALONE_TIMES))


@pytest.mark.parametrize("bits", [64, 128])
def test_what_is_scanned_for_the_first_time_is_asked_for_together(
    bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more once it was read. The kernel is told in steps, as of each piece of advice it reads only so much."""
    asked: list[tuple[int, int]] = []
    ahead = Segment.read_ahead

    def read_ahead(segment: Segment, start: int, end: int) -> None:
        asked.append((start, end))
        ahead(segment, start, end)

    keys = np.random.default_rng(3).integers(0, 1 << 64, (20_000, bits // 64), dtype=np.uint64)
    fpstore.build(tmp_path / "s", keys[:, 0] if bits == 64 else keys, ids=None, bits=bits).close()
    monkeypatch.setattr(Segment, "read_ahead", read_ahead)
    monkeypatch.setattr(scans, "PIECE_KEYS", 1 << 10)
    monkeypatch.setattr(scans, "LEAST_KEYS", 1 << 10)
    with fpstore.open(tmp_path / "s") as store:
        (segment,) = store._segments
        store.nearest_many(keys[:1, 0] if bits == 64 else keys[:1], 3, max_distance=bits)
        wanted = next(r for r in segment.regions() if r.name == ("payload" if bits == 64 else "codes"))
        covered = {page for start, end in asked for page in range(start // 4096, -(-end // 4096))}
        assert covered >= set(range(wanted.offset // 4096, (wanted.offset + wanted.bytes) // 4096))
        asked.clear()
        store.nearest_many(keys[:1, 0] if bits == 64 else keys[:1], 3, max_distance=bits)
        assert asked == []


def test_the_kernel_is_told_in_steps_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    class Map:
        def madvise(self, advice: int, start: int, length: int) -> None:
            told.append((start, length))

    with segment_of(u64([1, 2, 3]), plan_of(64)) as segment, monkeypatch.context() as patch:
        patch.setattr(segment, "_map", Map())
        segment.read_ahead(4096, 4096 + 2 * ADVISED_BYTES + 5)
    assert told == [(4096, ADVISED_BYTES), (4096 + ADVISED_BYTES, ADVISED_BYTES), (4096 + 2 * ADVISED_BYTES, 5)]


@pytest.mark.parametrize("codec", CODECS)
def test_one_two_and_many_threads_scan_alike(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PIECE_KEYS", 1000)
    monkeypatch.setattr(scans, "LEAST_KEYS", 1000)
    stored = distinct(KINDS["clustered"](20_000, np.random.default_rng(1)))
    queries = np.concatenate([stored[::500], ~stored[::999]])
    with segment_of(stored, plan_of(64), codec=codec) as segment:
        expected = found_as_rows(scan(segment, queries, 9))
        for count in (2, 5):
            team = Threads(count)
            assert found_as_rows(scan(segment, queries, 9, team.map)) == expected
            nearest = found_as_rows(scan_nearest(segment, queries, 64, 3, None, None, team.map))
            assert nearest == found_as_rows(scan_nearest(segment, queries, 64, 3, None, None))
            team.close()


# Pages of keys that were checked before: none, some within a word of the marks, all of a word and more, all but one.
SEEN = [(0, 0), (5, 21), (40, 130), (1, 128), (0, 136)]


@pytest.mark.parametrize("seen", SEEN)
def test_keys_in_pages_that_are_known_and_in_others_are_all_compared_once(seen: tuple[int, int]) -> None:
    stored = distinct(KINDS["uniform"](70_000, np.random.default_rng(4)))
    with segment_of(stored, plan_of(64), codec="raw", slot_bits=8) as segment:
        begin, end = (segment.tables[0].payload_offset + layout.PAGE_BYTES * page for page in seen)
        segment.view.check(begin, end, "keys")
        query = stored[54_321] ^ np.uint64(0xFF00FF)
        apart = np.bitwise_count(stored ^ query)
        expected = sorted((0, int(apart[i]), int(stored[i])) for i in np.flatnonzero(apart <= 20))
        assert found_as_rows(scan(segment, u64([query]), 20)) == expected
        assert found_as_rows(scan(segment, u64([query]), 20)) == expected  # all are known now
        assert scan_any(segment, u64([query]), int(apart.min()))
        assert not scan_any(segment, u64([query]), int(apart.min()) - 1)


@pytest.mark.parametrize("seen", SEEN)
def test_damage_behind_pages_that_are_known_is_found(tmp_path: Path, seen: tuple[int, int]) -> None:
    stored = distinct(KINDS["uniform"](70_000, np.random.default_rng(4)))
    with segment_of(stored, plan_of(64), codec="raw", slot_bits=8) as segment:
        data, keys = segment.path.read_bytes(), segment.tables[0].payload_offset
    for page in {2, 22, 39, 129, 131, 136} - set(range(seen[0], seen[1] + 1)):
        spoilt = bytearray(data)
        spoilt[keys + layout.PAGE_BYTES * page] ^= 1
        (tmp_path / "99999999.fpseg").write_bytes(spoilt)
        damaged = Segment(tmp_path / "99999999.fpseg")
        damaged.view.check(keys + layout.PAGE_BYTES * seen[0], keys + layout.PAGE_BYTES * seen[1], "keys")
        with pytest.raises(CorruptStore, match="checksum"):
            scan(damaged, u64([5]), 3)
        damaged.close()


def test_more_than_there_is_room_for_is_an_error() -> None:
    stored = np.arange(5000, dtype=np.uint64)
    with segment_of(stored, plan_of(64)) as segment:
        assert len(scan(segment, u64([0]), 64, map, 5000)[0]) == 5000
        with pytest.raises(TooManyMatches):
            scan(segment, u64([0]), 64, map, 4999)


def test_what_cannot_be_asked_is_refused() -> None:
    stored = np.arange(5000, dtype=np.uint64)
    with segment_of(stored, plan_of(16), slot_bits=5) as segment:
        view, scanner = segment.view, Scanner()
        for first, end in ((1, 12), (12, 0), (0, 13), (0, 44)):
            with pytest.raises(ValueError, match="whole groups of 12"):
                scanner.search(view, u64([0]), 1, first, end)
        with pytest.raises(ValueError, match="more bits"):
            scanner.search(view, u64([1 << 16]), 1, 0, 32)
        with pytest.raises(ValueError, match="limits for 1 queries"):
            scanner.search(view, u64([1]), 1, 0, 32, limits=np.zeros(2, dtype=np.uint16))
        with pytest.raises(ValueError, match="distances and"):
            scanner.search(
                view, u64([1]), 1, 0, 32, after_bits=np.zeros(2, dtype=np.uint16), after_fingerprints=u64([1])
            )
        assert len(scanner.search(view, u64([]), 1, 0, 32)[0]) == 0
        with pytest.raises(ValueError, match="without tables"):
            scanner.search(segment._make_view(()), u64([1]), 1, 0, 1)


@pytest.mark.parametrize(
    ("place", "value", "said"), [(12 * 2 * 8, 0, "increasing"), (0, (1 << 48) - 1, "directory")], ids=["odd", "beyond"]
)
def test_a_directory_of_keys_that_are_not_coded_which_cannot_be_is_damage(
    tmp_path: Path, place: int, value: int, said: str
) -> None:
    """The second line of the directory says where the second piece begins."""
    stored = np.arange(0, 1 << 16, 16, dtype=np.uint64)
    with segment_of(stored, plan_of(16), codec="raw", slot_bits=5) as segment:
        data = bytearray(segment.path.read_bytes())
        line = segment.tables[0].directory_offset + layout.DIRECTORY_LINE_BYTES
    word = int.from_bytes(data[line : line + 8], "little")
    moved = (word + 1) if said == "increasing" else word & ~value | value
    data[line : line + 8] = moved.to_bytes(8, "little")
    (tmp_path / "99999999.fpseg").write_bytes(resealed(data))
    damaged = Segment(tmp_path / "99999999.fpseg")
    with pytest.raises(CorruptStore, match=said):
        Scanner().search(damaged.view, u64([5]), 3, 0, 12)
    damaged.close()


def test_keys_that_are_not_all_there_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    with segment_of(np.arange(5000, dtype=np.uint64), plan_of(64)) as segment:
        monkeypatch.setattr(type(segment), "key_count", 5001)
        for ask in (scan, partial(scan_nearest, keep=1, bits=None, fingerprints=None)):
            with pytest.raises(CorruptStore, match="5000 keys"):
                ask(segment, u64([0]), 1)


def test_a_scan_in_the_midst_of_another_of_its_thread_has_memory_of_its_own() -> None:
    """As that of a signal's handler, or of what the garbage collector calls: its keys are coded in another way."""
    rng = np.random.default_rng(9)
    stored = distinct(rng.integers(0, 1 << 64, 3000, dtype=np.uint64))
    others = distinct(rng.integers(0, 1 << 64, 400, dtype=np.uint64) & ~np.uint64(0xFFFFF))
    asked: list[int] = []
    busy: list[bool] = []

    def ask_other(phase: str, _: object) -> None:
        if phase == "start" and not busy:
            busy.append(True)
            asked.append(len(scan(other, others[:1], 30)[0]))
            busy.clear()

    with segment_of(stored, plan_of(64)) as segment, segment_of(others, plan_of(64)) as other:
        asks: list[Callable[[], Any]] = [
            lambda: scan(segment, stored[:2], 20),
            lambda: scan_nearest(segment, stored[:2], 64, 5, None, None),
            lambda: (scan_any(segment, ~stored[:1], 2),),
        ]
        expected = [[np.asarray(column).tolist() for column in ask()] for ask in asks]
        before = gc.get_threshold()
        gc.callbacks.append(ask_other)
        try:
            gc.set_threshold(1)
            for ask, rows in zip(asks, expected, strict=True):
                for _ in range(3):
                    asked.clear()
                    assert [np.asarray(column).tolist() for column in ask()] == rows
                    assert asked
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(ask_other)


@pytest.mark.parametrize("ids", ["row", None])
def test_a_distance_above_the_plans_is_answered_and_said_to_be_scanned(tmp_path: Path, ids: str | None) -> None:
    rng = np.random.default_rng(7)
    stored = distinct(KINDS["clustered"](3000, rng))
    queries = stored[::300] ^ np.uint64(0xF00F)
    with fpstore.build(tmp_path / "s", stored, ids=ids) as store:
        for distance in (8, 20, 64):
            found = store.probe_many(queries, max_distance=distance)
            assert found.method == "scan"
            assert found_as_rows((found.query, found.fingerprint, found.distance)) == brute(stored, queries, distance)
            one = store.probe(int(queries[0]), max_distance=distance)
            assert list(one) == [row for row in found if row.query == 0]
            assert store.contains_near(int(queries[0]), max_distance=distance)
        assert not store.contains_near(int(~stored[0]), max_distance=4)


def test_more_flips_of_the_plans_tables_find_what_brute_force_does() -> None:
    from fpstore.query.ways import Lookup

    stored = distinct(KINDS["clustered"](3000, np.random.default_rng(8)))
    queries = np.concatenate([stored[::400], stored[::400] ^ np.uint64(0x8000_0000_0421_0001)])
    plan = plans.flips(3, (1, 0, 0), 3)
    with segment_of(stored, plan) as segment:
        way = Lookup(segment, 8, (2, 2, 2))
        assert found_as_rows(way.all(queries)) == brute(stored, queries, 8)
        with pytest.raises(ValueError, match="2 numbers of flips for 3 tables"):
            Lookup(segment, 8, (2, 2)).all(queries)
