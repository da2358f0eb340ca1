"""One query of some hundred slots, which the wide kernels search in a way of its own, in pages that are all sound."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from helpers import view_of_image
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore._probe import nearest as nearest_in
from fpstore._probe import search
from fpstore._view import SegmentView
from fpstore.errors import CorruptStore
from fpstore.format import GROUP_SLOTS, MAX_BLOCK_KEYS, TableRecord
from fpstore.plans.plan import Plan, TablePlan
from fpstore.store import Store
from fpstore.types import Keys

SIZE = 30_000
KINDS = ("even", "crowded", "piled", "bands", "one")


def keys_of(kind: str) -> Keys:
    """Keys that are spread evenly; of some slots that have many, or of few; of one slot of a table; around one key, so
    that a query's blocks are more than are kept together."""
    source = np.random.default_rng(18)
    if kind == "even":  # whose tables have 67 slots each within two flips, which no vector's eight divide
        return np.unique(source.integers(0, 2**64, 2 * SIZE, dtype=np.uint64))
    keys = source.integers(0, 2**64, SIZE, dtype=np.uint64)
    errors = 3 if kind == "one" else 7
    flips = [np.uint64(1) << source.integers(0, 64, SIZE, dtype=np.uint64) for _ in range(errors)]
    centers = {"crowded": 40, "piled": 3, "bands": 2, "one": 1}[kind]
    near = keys[source.integers(0, centers, SIZE)] ^ np.bitwise_xor.reduce(flips)
    if kind == "bands":  # of which a table has one slot with nearly all, and the others do not
        near = keys & np.uint64(2**43 - 1) | keys[0] & ~np.uint64(2**43 - 1)
    if kind == "one":
        near = np.concatenate([near, near ^ np.roll(flips[0], 1), near ^ np.roll(flips[1], 1)])
    return np.unique(np.concatenate([near, keys[: SIZE // 10]]))


@pytest.fixture(scope="module", params=[f"{kind}-{codec}" for kind in KINDS for codec in ("gap", "xor")])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Keys]]:
    kind, codec = request.param.split("-")
    keys = keys_of(kind)
    folder = tmp_path_factory.mktemp(kind)
    with fpstore.build(folder / "s", keys, max_distance=8, plan="flips-3:2,2,2", codec=codec, ids=None) as store:
        store._warm()
        if kind == "even":
            assert [table.slot_bits for table in store._segments[0].tables] == [11, 11, 11]
        yield store, keys


def queries_of(keys: Keys) -> list[int]:
    """Keys with none, some and too many bits inverted, and others."""
    source = np.random.default_rng(81)
    asked = []
    for errors in (0, 1, 5, 7, 8, 8, 8, 9, 12):
        for key in keys[source.integers(0, len(keys), 6)].tolist():
            inverted = source.choice(64, errors, replace=False).tolist()
            asked.append(key ^ sum(1 << bit for bit in inverted))
    asked += [*source.integers(0, 2**64, 6, dtype=np.uint64).tolist(), 0, 2**64 - 1]
    return asked if len(keys) < 70_000 else asked[::12]


@pytest.mark.parametrize("distance", [5, 6, 7, 8])
def test_all_within_the_distance_is_found(store: tuple[Store, Keys], distance: int) -> None:
    own, keys = store
    for query in queries_of(keys):
        apart = np.bitwise_count(keys ^ np.uint64(query))
        near = np.flatnonzero(apart <= distance)
        order = near[np.lexsort((keys[near], apart[near]))]
        found = own.probe(query, max_distance=distance)
        assert np.array_equal(found.fingerprint, keys[order])
        assert np.array_equal(found.distance, apart[order])
        assert own.contains_near(query, max_distance=distance) is bool(len(near))


@pytest.mark.parametrize("count", [1, 3])
def test_the_nearest_are_those_of_brute_force(store: tuple[Store, Keys], count: int) -> None:
    own, keys = store
    for _ in range(2):  # the second time it is known how far they are
        for query in queries_of(keys):
            apart = np.bitwise_count(keys ^ np.uint64(query))
            order = np.lexsort((keys, apart))[:count]
            found = own.nearest(query, count)
            assert found.fingerprint.tolist() == keys[order].tolist()
            assert found.distance.tolist() == apart[order].tolist()


@pytest.mark.parametrize("setting", ["0", "1"])
def test_with_and_without_gathers_a_query_finds_the_same(setting: str) -> None:
    chosen = "(all_within or nearest_are) and (crowded-gap or even-xor)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, __file__]
    subprocess.run(command, check=True, env=os.environ | {"FPSTORE_GATHERS": setting})


def test_a_query_of_a_narrower_store_reads_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    """Its last vector of slots has one: in the lanes behind that would be keys of 64 bits, whose lines no file has."""
    source = np.random.default_rng(1)
    keys = np.unique(source.integers(0, 2**32, 8000, dtype=np.uint64))
    others = source.integers(0, 2**64, 20_000, dtype=np.uint64)
    with (
        fpstore.build(tmp_path / "wide", others, max_distance=8, plan="flips-3:2,2,2", ids=None) as wide,
        fpstore.build(tmp_path / "s", keys, bits=32, max_distance=8, plan="flips-4:2,2,2,1", ids=None) as store,
    ):
        wide._warm()
        store._warm()
        assert [table.slot_bits for table in store._segments[0].tables] == [8, 8, 8, 8]
        for query, other in zip(keys[:40].tolist(), others.tolist(), strict=False):
            wide.probe(other)
            near = keys[np.bitwise_count(keys ^ np.uint64(query)) <= 2]
            assert np.sort(store.probe(query, max_distance=2).fingerprint).tolist() == near.tolist()


# Plans with the first table in the order of the fingerprints, whose slots with all its flips wait for the others; the
# last one's tables overlap, so that none of its slots may.
WAITING = ("flips-3:2,2,2", "flips-4:2,1,1,1", "flips-4:1,1,1,2", "flips-4:2,2,1,0", "paper-10")


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.sampled_from(WAITING),
    st.sampled_from(["gap", "xor"]),
    st.sampled_from([64, 56, 48]),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 4), st.integers(6, 9)), min_size=1, max_size=24),
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from([5, 6, 7, 8, None]),
    st.sampled_from(["one segment", "two", "pending", "removed"]),
)
def test_among_equally_near_ones_the_least_are_found_wherever_their_errors_are(
    plan: str, codec: str, bits: int, seed: int, near: list[tuple[int, int]], count: int, most: int | None, held: str
) -> None:
    """Some with errors among the highest bits, which the first table's slots are named by: what waits there."""
    source = np.random.default_rng(seed)
    bits = 64 if plan == "paper-10" else bits
    query = int(source.integers(0, 2**bits, dtype=np.uint64))
    keys = []
    for high, errors in near:
        above = bits - 9 + source.choice(9, high, replace=False)
        below = source.choice(bits - 9, errors - high, replace=False)
        keys.append(query ^ sum(1 << int(bit) for bit in (*above, *below)))
    others = source.integers(0, 2**bits, 9000, dtype=np.uint64)
    rows = source.permutation(np.unique(np.concatenate([others, np.array(keys, dtype=np.uint64)])))
    first = len(rows) if held in ("one segment", "removed") else len(rows) // 2
    with TemporaryDirectory() as folder:
        path = Path(folder, "s")
        options: dict[str, Any] = {
            "bits": bits,
            "max_distance": 8 if plan != "paper-10" else 3,
            "plan": plan,
            "codec": codec,
        }
        fpstore.build(path, rows[:first], **options, ids=None).close()
        with fpstore.open(path, mode="w") as store:
            store.add(rows[first:])
            if held == "two":
                store._flush()
            if held == "removed":
                store.remove(fingerprints=rows[:2000])
                rows = rows[2000:]
            store._warm()
            apart = np.bitwise_count(rows ^ np.uint64(query))
            order = np.lexsort((rows, apart))[:count]
            order = order if most is None else order[apart[order] <= most]
            for _ in range(2):  # the second time it is known how far they are
                found = store.nearest(query, count, max_distance=most)
                assert found.fingerprint.tolist() == rows[order].tolist()
                assert found.distance.tolist() == apart[order].tolist()


# Bits of a fingerprint: the highest, those behind it, and so on to the lowest one.
BANDS = (1 << 63, 0x7FFFF << 44, 1 << 43, 0x3FFFFF << 21, 0xFFFFF << 1, 1)
FIRST, MIDDLE, LAST = sum(BANDS[:3]), BANDS[3], sum(BANDS[4:])
MASKS = {
    "in order": (FIRST, MIDDLE, LAST),
    "not in order": (MIDDLE, FIRST, LAST),
    "not side by side": (FIRST - BANDS[2] + BANDS[5], MIDDLE, LAST - BANDS[5] + BANDS[2]),
    "they overlap": (FIRST, MIDDLE, LAST + BANDS[0]),
}


# Errors in each table's prefix: of those that only slots which wait have, and of others.
EIGHT = [(2, 3, 3), (2, 3, 3), (2, 3, 3), (0, 4, 4), (3, 2, 3), (3, 3, 2)]
SEVEN = [(2, 3, 2), (2, 3, 2), (1, 3, 3), (3, 2, 2)]


@pytest.mark.parametrize("flips", [(2, 2, 2), (2, 1, 1), (1, 2, 2), (2, 2, 0), (0, 2, 2)])
@pytest.mark.parametrize("masks", MASKS)
def test_the_first_that_tables_find_are_those_of_brute_force(
    tmp_path: Path, masks: str, flips: tuple[int, int, int]
) -> None:
    """Where slots may wait and where they may not: as not all is found that is nearer, or not in order."""
    source = np.random.default_rng(sum(flips))
    tables = tuple(TablePlan(mask, 0) for mask in MASKS[masks])
    keys = [source.integers(0, 2**64, 9000, dtype=np.uint64)]
    # Of each table's prefix those bits that no table before it has; of the first one's those that name its slots.
    bits = [[bit for bit in range(64) if mask >> bit & 1] for mask in MASKS[masks]]
    bits = [bits[0][-4:], bits[1], [bit for bit in bits[2] if bit not in bits[0]]]
    queries = source.integers(0, 2**64, 40, dtype=np.uint64)
    for query in queries.tolist():
        some = [*source.choice(EIGHT, 24), *source.choice(SEVEN, int(source.integers(0, 3)))]
        for counts in some:
            wrong = [
                bit for n, places in zip(counts, bits, strict=True) for bit in source.choice(places, n, replace=False)
            ]
            keys.append(np.array([query ^ sum(1 << int(bit) for bit in wrong)], dtype=np.uint64))
    rows = np.unique(np.concatenate(keys))
    plan = Plan("few", 1, BANDS, tables, slot_keys=16)
    with fpstore.build(tmp_path / "s", rows, max_distance=1, plan=plan, ids=None) as store:
        store._warm()
        view = store._segments[0].view
        for query in queries:
            apart = np.bitwise_count(rows ^ query)
            caught = np.zeros(len(rows), dtype=bool)
            for mask, most in zip(MASKS[masks], flips, strict=True):
                caught |= np.bitwise_count((rows ^ query) & np.uint64(mask)) <= most
            for distance in (6, 7, 8):
                near = np.flatnonzero(caught & (apart <= distance))
                order = near[np.lexsort((rows[near], apart[near]))]
                for count in (1, 2, 5, 12):
                    found = nearest_in(view, np.array([query]), distance, count, flips=flips)
                    assert found[1].tolist() == rows[order[:count]].tolist()
                    assert found[2].tolist() == apart[order[:count]].tolist()


def few_slots(flips: int = 0) -> tuple[Keys, list[int], Plan]:
    """Keys of 64 large slots, the first block of each with a last key where the highest 8 bits change: these, too."""
    source = np.random.default_rng(5)
    quarter, edges, keys = 1 << 56, [], []
    for start in range(0, 1 << 64, 1 << 58):
        edges.append(start + quarter)
        for least, most, count in ((1, quarter, MAX_BLOCK_KEYS - 1), (quarter + 1, 4 * quarter, 60)):
            some = np.unique(source.integers(least, most, 2 * count, dtype=np.uint64))
            keys += [start + key for key in source.choice(some, count, replace=False).tolist()]
    tables = tuple(TablePlan(mask, flips) for mask in MASKS["in order"])
    plan = Plan("few", 3 * flips + 2, BANDS, tables, slot_keys=128)
    return np.unique(np.array(keys + edges, dtype=np.uint64)), edges, plan


def test_a_key_that_ends_a_block_where_the_highest_bits_change_is_found(tmp_path: Path) -> None:
    """Of a slot that is named by both flips, the first key wanted is that one."""
    rows, edges, plan = few_slots()
    source = np.random.default_rng(6)
    with fpstore.build(tmp_path / "s", rows, max_distance=2, plan=plan, ids=None) as store:
        assert [table.slot_bits for table in store._segments[0].tables] == [6, 6, 6]
        store._warm()
        for edge in edges:
            places = [source.choice(bits, n, replace=False) for bits, n in ((21, 3), (22, 3), (6, 2))]
            wrong = [*places[0], *(places[1] + 21), *(places[2] + 58)]
            query = np.uint64(edge ^ sum(1 << int(bit) for bit in wrong))
            found = nearest_in(store._segments[0].view, np.array([query]), 8, 64, flips=(2, 2, 2))
            assert edge in found[1].tolist()


def test_what_a_file_says_while_it_is_written_over_is_not_kept(tmp_path: Path) -> None:
    """As one that is cut within a page and made whole again: meanwhile the rest of it reads as zeros."""
    rows, _, plan = few_slots(2)
    fpstore.build(tmp_path / "s", rows, max_distance=8, plan=plan, ids=None).close()
    [path] = (tmp_path / "s" / "segments").iterdir()
    whole = path.read_bytes()
    with fpstore.open(tmp_path / "s") as store:
        store._warm()
        [segment] = store._segments
        with path.open("r+b") as file:
            for table in segment.tables:
                file.seek(table.fences_offset)
                file.write(bytes(16 * table.fence_count))
            file.seek(-64, os.SEEK_END)
            file.write(bytes(64))
        with pytest.raises(CorruptStore, match="another end of the file"):
            search(segment.view, rows[:1], 8)
        with path.open("r+b") as file:
            file.write(whole)
        for key in rows[::50]:
            assert key in search(segment.view, np.array([key]), 8)[1]


def image_of(bits: int, ends: int | None = None) -> SegmentView:
    """Of 2,048 slots, the first of which has keys 256 and 512, of nine bits each: so much of them is its block."""
    lines = 2048 // GROUP_SLOTS + 1
    payload = bytearray(64)
    directory = len(payload)
    payload += struct.pack("<Q12H", 0, *[bits if ends is None else ends] * 12)
    payload += struct.pack("<Q12H", bits, *[0] * 12) * (lines - 1)
    payload += bytes(-len(payload) % 64)
    lengths = (0,) * 9 + (1,) + (0,) * 55
    view = view_of_image(TableRecord(0xFFFF << 48, 0, 11, 0, 2, 0, bits, directory, 0, 0, lengths), payload)
    view.warm(0, view.page_count)
    return view


def test_a_sound_image_is_searched() -> None:
    assert search(image_of(18), np.array([512], np.uint64), 0)[1].tolist() == [512]
    assert search(image_of(18), np.array([513 | 3 << 53], np.uint64), 3)[1].tolist() == [512]
    assert len(search(image_of(18), np.array([0], np.uint64), 0)[0]) == 0


@pytest.mark.parametrize("query", [0, 512])
@pytest.mark.parametrize("bits", [10, 17])
def test_a_key_that_goes_on_beyond_its_block_is_refused(bits: int, query: int) -> None:
    with pytest.raises(CorruptStore, match="probe: found a block that does not decode"):
        search(image_of(bits), np.array([query], np.uint64), 0)


def test_a_block_that_ends_behind_the_payload_is_refused() -> None:
    with pytest.raises(CorruptStore, match="probe: found a directory entry or an id that points outside its region"):
        search(image_of(18, 19), np.array([512], np.uint64), 2)
