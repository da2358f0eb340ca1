"""The search of one segment: its order, its first match, what it reads, and what it refuses."""

import struct
import threading
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import (
    CODECS,
    LAST,
    ArrayKeys,
    brute_force,
    distinct,
    fingerprint_array,
    flipped,
    one_prefix,
    resealed,
    segment_of,
    uniform,
    view_of_image,
    write_segment,
)

from fpstore._probe import blocks_decoded, scan, search, search_each, touch
from fpstore.errors import CorruptStore, StoreClosed
from fpstore.format import PAGE_BYTES, Region, TableRecord
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan, TablePlan
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter

HALVES = plans.flips(2, (1, 1), 3)
STORED = distinct(uniform(3000, np.random.default_rng(0)))
# Where there is AVX-512, a search of the first goes by columns, one of the second by rows.
BY_COLUMNS_AND_ROWS = ("gap", "rice")


def rows(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in found), strict=True))


def test_a_match_has_its_query_its_fingerprint_and_its_distance() -> None:
    with segment_of(fingerprint_array([0b1000, 0b1011, 1 << 63]), HALVES) as segment:
        found = search(segment.view, fingerprint_array([0b1001, LAST, 0]), 2)
        assert [column.dtype for column in found] == [np.int64, np.uint64, np.uint16]
        assert rows(found) == [(0, 0b1000, 1), (0, 0b1011, 1), (2, 0b1000, 1), (2, 1 << 63, 1)]


def test_matches_are_ordered_by_query_then_distance_then_fingerprint() -> None:
    rng = np.random.default_rng(1)
    centre = uniform(1, rng)[0]
    cluster = distinct(flipped(np.full(500, centre), rng.integers(0, 4, 500), rng))
    queries = np.concatenate([flipped(np.full(50, centre), rng.integers(0, 2, 50), rng), STORED[:5]])
    with segment_of(np.concatenate([cluster, STORED]), HALVES) as segment:
        found = rows(search(segment.view, queries, 3))
    assert found == sorted(found, key=lambda match: (match[0], match[2], match[1]))
    assert len(found) > 1000
    assert len(set(found)) == len(found)


def test_the_same_query_twice_has_its_matches_twice() -> None:
    with segment_of(STORED, HALVES) as segment:
        found = rows(search(segment.view, np.repeat(STORED[7:8], 3), 0))
    assert found == [(query, int(STORED[7]), 0) for query in range(3)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_match_split_across_the_blocks_of_a_large_slot_is_found(codec: str) -> None:
    # One slot of 2,000 keys has 16 blocks; the query's neighbours lie at both ends of one block and in others.
    keys = distinct(one_prefix(2000, np.random.default_rng(2)))
    with segment_of(keys, plans.flips(1, (1,), 1), codec=codec, slot_bits=0) as segment:
        assert segment.tables[0].fence_count == 16
        for index in (0, 126, 127, 128, 129, 255, 256, 1919, 1920, 1999):
            for query in (keys[index], keys[index] ^ np.uint64(1), keys[index] ^ np.uint64(1 << 63)):
                found = search(segment.view, query.reshape(1), 1)
                assert rows(found) == rows(brute_force(keys, query.reshape(1), 1))
                assert int(keys[index]) in found[1].tolist()


@pytest.mark.parametrize("codec", BY_COLUMNS_AND_ROWS)
@pytest.mark.parametrize("plan", [plans.flips(1, (1,), 1), HALVES], ids=str)
def test_fences_of_several_large_slots_are_found_at_once_where_pages_are_sound(plan: Plan, codec: str) -> None:
    # Of 8,000 keys all slots of both tables are large. The tables lie otherwise: the first has keys below 2^60 alone.
    # Asked for is what differs from the last key of a block in the slot's number, so that all of it is wanted or none.
    keys = distinct(uniform(8000, np.random.default_rng(3)) & np.uint64((1 << 60) - 1))
    distance = plan.max_distance
    with segment_of(keys, plan, codec=codec, slot_bits=5) as segment:
        assert all(table.fence_count > 16 for table in segment.tables)
        segment.view.warm(0, segment.view.page_count)
        each = flipped(keys[:200], np.full(200, distance), np.random.default_rng(4))
        queries = np.concatenate([keys ^ np.uint64(1 << 59), each])
        expected = rows(brute_force(keys, queries, distance))
        assert rows(search(segment.view, queries, distance)) == expected


@pytest.mark.parametrize("slot_bits", [0, 3, 9, 12])
@pytest.mark.parametrize(
    "plan", [HALVES, plans.flips(1, (3,), 3), plans.flips(3, (1, 0, 0), 3), plans.paper("paper-10")], ids=str
)
def test_by_columns_and_by_rows_a_search_finds_what_brute_force_does(plan: Plan, slot_bits: int) -> None:
    # Some lie as close as can be, for codes that are rare.
    rng = np.random.default_rng(slot_bits)
    keys = distinct(np.concatenate([uniform(1500, rng), STORED[:200] ^ np.uint64(1), STORED[:200]]))
    queries = flipped(rng.choice(keys, 300), rng.integers(0, 5, 300), rng)
    expected = rows(brute_force(keys, queries, 3))
    assert len(expected) > 200
    for codec in CODECS:
        with segment_of(keys, plan, codec=codec, slot_bits=slot_bits) as segment:
            assert rows(search(segment.view, queries, 3)) == expected, codec
            assert rows(search_each(segment.view, queries, 3)) == expected, codec


@pytest.mark.parametrize("codec", ["gap", "xor"])
@pytest.mark.parametrize("slot_bits", range(7, 19))
def test_as_many_blocks_as_lanes_or_a_few_more_or_less_are_scanned_to_their_ends(slot_bits: int, codec: str) -> None:
    # One query has 2 * (slot_bits + 1) blocks, 16 to 38, of which none is empty: up to 32 have a lane each.
    rng = np.random.default_rng(slot_bits)
    queries = uniform(40, rng)
    near = flipped(np.repeat(queries, 30), rng.integers(0, 4, 1200), rng)
    places = np.concatenate([np.arange(top, top - slot_bits, -1) for top in (63, 31)]).astype(np.uint64)
    other = np.repeat(queries, len(places)) ^ np.tile(np.uint64(1) << places, len(queries))
    keys = distinct(np.concatenate([queries, near, other, other ^ np.uint64(3), uniform(3000, rng)]))
    with segment_of(keys, HALVES, codec=codec, slot_bits=slot_bits) as segment:
        expected = rows(brute_force(keys, queries, 3))
        assert len(expected) > 1000
        assert rows(search_each(segment.view, queries, 3)) == expected
        segment.view.warm(0, segment.view.page_count)
        assert rows(search_each(segment.view, queries, 3)) == expected
        assert rows(search(segment.view, queries, 3)) == expected
        assert blocks_decoded(segment.view, queries, 3) == len(queries) * 2 * (slot_bits + 1)


def test_tables_are_searched_together_whether_their_codes_are_alike_or_not() -> None:
    # With each key the one whose halves are exchanged: both tables have the same keys. Of the others, 16 bits have few
    # values, so that the differences of their table are short.
    rng = np.random.default_rng(8)
    alike = np.concatenate([STORED, STORED << np.uint64(32) | STORED >> np.uint64(32)])
    unlike = STORED & np.uint64(0xFFFF_003F_FFFF_FFFF)
    # In 8 slots for 128 the blocks are long, and those of the second kind of very different lengths.
    for keys, plan in ((distinct(alike), HALVES), (distinct(unlike), plans.flips(4, (0, 0, 0, 0), 3))):
        queries = flipped(rng.choice(keys, 300), rng.integers(0, 5, 300), rng)
        expected = rows(brute_force(keys, queries, 3))
        for slot_bits in (7, 3):
            with segment_of(keys, plan, slot_bits=slot_bits) as segment:
                first, *others = segment.view.code_classes
                assert first == 0
                assert any(others) == (len(others) == 3)
                assert rows(search(segment.view, queries, 3)) == expected
                assert rows(search_each(segment.view, queries, 3)) == expected


def test_words_are_touched_where_the_queries_are() -> None:
    with segment_of(STORED, HALVES) as segment:
        assert touch(segment.view, STORED[:0]) == 0
        assert touch(segment.view, STORED[:9]) == touch(segment.view, STORED[:9]) > 0
        assert touch(segment.view, STORED[:9]) != touch(segment.view, STORED[9:18])


def test_no_queries_have_no_matches() -> None:
    with segment_of(STORED, HALVES) as segment:
        assert [len(column) for column in search(segment.view, STORED[:0], 3)] == [0, 0, 0]


def test_no_fingerprints_match_nothing() -> None:
    for plan in (HALVES, plans.paper("paper-20")):
        with segment_of(STORED[:0], plan) as segment:
            assert rows(search(segment.view, fingerprint_array([0, LAST, 5]), 3)) == []


def test_first_only_stops_at_one_match_of_all() -> None:
    rng = np.random.default_rng(3)
    near = flipped(STORED[:40], np.full(40, 2), rng)
    with segment_of(STORED, HALVES) as segment:
        expected = set(rows(search(segment.view, near, 3)))
        assert len(expected) >= 40
        found = rows(search(segment.view, near, 3, first_only=True))
        assert len(found) == 1
        assert set(found) <= expected
        far = flipped(STORED[:1], np.array([32]), rng)
        assert rows(search(segment.view, far, 3, first_only=True)) == rows(brute_force(STORED, far, 3)) == []
        # A stranger first does not end the search.
        assert len(search(segment.view, np.concatenate([far, near[:1]]), 3, first_only=True)[0]) == 1


def test_more_queries_than_any_batch_of_the_kernel_are_all_answered() -> None:
    queries = np.tile(STORED[::-1], 20)
    with segment_of(STORED, plans.paper("paper-16")) as segment:
        query, fingerprint, distance = search(segment.view, queries, 0)
    assert query.tolist() == list(range(len(queries)))
    assert np.array_equal(fingerprint, queries)
    assert not distance.any()


def test_one_query_after_the_other_has_the_answer_of_the_batch() -> None:
    queries = flipped(STORED[::7], np.full(len(STORED[::7]), 2), np.random.default_rng(5))
    with segment_of(STORED, plans.paper("paper-4")) as segment:
        assert rows(search_each(segment.view, queries, 3)) == rows(search(segment.view, queries, 3))
        assert rows(search_each(segment.view, queries[:0], 3)) == []


def test_a_block_is_decoded_for_each_pattern_of_flips_that_leads_to_another_slot() -> None:
    # 16 slots, none empty or large. One table with 2 flips: 1 + 4 + 6 slots. Two tables with one each: 2 * (1 + 4).
    queries = uniform(100, np.random.default_rng(6))
    for plan, blocks in ((plans.flips(1, (2,), 2), 11), (HALVES, 10)):
        with segment_of(STORED[::3], plan, slot_bits=4) as segment:
            assert blocks_decoded(segment.view, queries, plan.max_distance) == 100 * blocks
            assert blocks_decoded(segment.view, queries[:0], plan.max_distance) == 0


# One slot of 128 blocks: block i holds the 128 keys whose top seven bits are i. Between its bounds, the last key of
# block i - 1 and its own, the bits that agree are those of i without the lowest one set, and zeros above: next to a
# query of zeros they hold one error fewer than i has ones.
STEPS = np.arange(1 << 14, dtype=np.uint64) << np.uint64(50)


def choices(bits: int, most: int) -> int:
    """How many numbers of so many bits have at most `most` ones."""
    return sum(comb(bits, ones) for ones in range(most + 1))


@pytest.mark.parametrize("distance", range(8))
def test_a_block_of_a_large_slot_is_decoded_only_if_the_bits_its_keys_share_are_near_enough(distance: int) -> None:
    # All 64 bits are prefix and may be flipped, so that any block is wanted, whatever distance is asked for.
    with segment_of(STEPS, plans.flips(1, (7,), 7), slot_bits=0) as segment:
        assert segment.tables[0].fence_count == 128
        assert blocks_decoded(segment.view, STEPS[:1], distance) == choices(7, distance + 1)


@pytest.mark.parametrize("low_errors", [0, 1, 2, 3])
def test_a_block_of_a_large_slot_is_decoded_only_if_its_prefix_is_near_enough(low_errors: int) -> None:
    # Two halves of one flip. In table 0 errors in the lower half, below the prefix, say nothing of a block. One flip
    # reaches up to the key 2^63, the last of block 64. In table 1 all keys have the prefix 0.
    query = fingerprint_array([(1 << low_errors) - 1])
    with segment_of(STEPS, HALVES, slot_bits=0) as segment:
        assert [table.fence_count for table in segment.tables] == [128, 128]
        table_0 = choices(6, 2) + 1
        table_1 = 0 if low_errors > 1 else choices(7, 3 - low_errors + 1)
        assert blocks_decoded(segment.view, query, 3) == table_0 + table_1


def test_a_block_whose_bounds_are_one_key_holds_no_other() -> None:
    # A fence at the slot's start: no writer of ours makes one, as a block there would have one key alone.
    payload = bytearray(64) + bytes(64)
    directory = len(payload)
    payload += struct.pack("<Q12H", 1 << 48, *[0] * 12) + bytes(32)
    fences = len(payload)
    payload += struct.pack("<QQ", 0, 1 << 48) + bytes(48)
    record = TableRecord(1, 0, 0, 0, 64, 64, 8, directory, fences, 1, (1,) + (0,) * 64)
    view = view_of_image(record, payload)
    for query in (0, 1, 1 << 63, 7):
        for distance in range(4):
            near = query.bit_count() <= distance
            assert blocks_decoded(view, fingerprint_array([query]), distance) == near
            assert len(search(view, fingerprint_array([query]), distance)[0]) == near


@pytest.mark.parametrize("plan", [HALVES, HALVES.shuffled(5), plans.flips(3, (1, 0, 0), 3).shuffled(6)])
def test_a_probe_of_crowded_keys_decodes_few_of_their_blocks(plan: Plan) -> None:
    # 2^17 keys with 33 bits in common: in their own order 1,024 blocks, which have ten bits more in common, less one.
    # Other tables have slots that are not large, of which each of some 16 flips decodes one.
    rng = np.random.default_rng(10)
    keys = distinct(uniform(1, rng) >> np.uint64(31) << np.uint64(31) | uniform(1 << 17, rng) >> np.uint64(33))
    queries = flipped(rng.choice(keys, 50), rng.integers(0, 4, 50), rng)
    with segment_of(keys, plan) as segment:
        assert max(table.fence_count for table in segment.tables) >= 1000
        assert blocks_decoded(segment.view, queries, 3) < 50 * (choices(10, 4) + 2 * 17)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 3000])
def test_a_scan_counts_the_keys_within_the_distance(count: int) -> None:
    rng = np.random.default_rng(count)
    query = uniform(1, rng)[0]
    keys = flipped(np.full(count, query), rng.integers(0, 8, count), rng)
    for distance in (0, 3, 7, 64):
        expected = np.count_nonzero(np.bitwise_count(keys ^ query) <= distance)
        assert scan(keys, int(query), distance) == expected


def test_threads_share_one_segment() -> None:
    queries = flipped(STORED, np.full(len(STORED), 2), np.random.default_rng(4))
    expected = rows(brute_force(STORED, queries, 3))
    answers: list[list[tuple[int, int, int]]] = []
    with segment_of(STORED, HALVES) as segment:
        threads = [
            threading.Thread(target=lambda: answers.append(rows(search(segment.view, queries, 3)))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [expected] * 4


def test_a_closed_view_answers_no_more() -> None:
    with segment_of(STORED[:10], HALVES) as segment:
        view = segment.view
        segment.close()
        for ask in (lambda: search(view, STORED[:1], 3), lambda: touch(view, STORED[:1])):
            with pytest.raises(StoreClosed, match="the store is closed"):
                ask()


def test_2_to_the_32_queries_in_one_batch_are_refused(tmp_path: Path) -> None:
    with open(tmp_path / "queries", "wb") as file:
        file.truncate(8 << 32)  # a hole: takes no room on the disk
    queries = np.memmap(tmp_path / "queries", dtype=np.uint64, mode="r")
    with (
        segment_of(STORED[:10], HALVES) as segment,
        pytest.raises(ValueError, match=r"4294967296 queries in one batch: expected fewer than 2\^32"),
    ):
        search(segment.view, queries, 3)


def test_other_types_of_queries_are_refused() -> None:
    with segment_of(STORED[:10], HALVES) as segment:
        others: list[Any] = [STORED.astype(np.int64), STORED.astype(np.float64), STORED[::2], STORED.reshape(10, -1)]
        for queries in others:
            with pytest.raises(ValueError, match=r"(?i)buffer|ndarray"):
                search(segment.view, queries, 3)


# Damage.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_segment(tmp_path / "x", STORED, HALVES)


def region_of(path: Path, name: str, table: int) -> Region:
    segment = Segment(path)
    segment.close()
    return next(region for region in segment.regions() if (region.name, region.table) == (name, table))


@pytest.mark.parametrize("name", ["directory", "payload"])
def test_a_damaged_page_that_the_answer_needs_is_an_error_that_names_it(path: Path, name: str) -> None:
    offset = region_of(path, name, 1).offset + 3
    data = bytearray(path.read_bytes())
    data[offset] ^= 16
    path.write_bytes(data)
    segment = Segment(path)
    page = offset // PAGE_BYTES * PAGE_BYTES
    with pytest.raises(CorruptStore, match=f"^probe, page at byte {page}: found bytes of another checksum"):
        search(segment.view, STORED, 3)
    segment.close()


def test_a_damaged_page_that_no_answer_needs_is_not_read(path: Path) -> None:
    # Lower halves below 2^24, with at most one bit inverted, lie in the first 1/128 of table 1, or at the start of its
    # last half, quarter, eighth and so on: none near three quarters. A page is less than a quarter of its payload.
    payload = region_of(path, "payload", 1)
    assert payload.bytes > 4 * PAGE_BYTES
    data = bytearray(path.read_bytes())
    data[payload.offset + payload.bytes * 3 // 4] ^= 16
    path.write_bytes(data)
    segment = Segment(path)
    low = STORED[(STORED & np.uint64(0xFFFFFFFF)) < np.uint64(1 << 24)]
    assert len(low)
    assert rows(search(segment.view, low, 0)) == [(index, int(key), 0) for index, key in enumerate(low)]
    with pytest.raises(CorruptStore, match="probe, page at byte"):
        search(segment.view, STORED, 0)
    segment.close()


@pytest.mark.parametrize("codec", BY_COLUMNS_AND_ROWS)
def test_pages_are_asked_for_before_their_first_use(codec: str) -> None:
    whole = plans.flips(1, (0,), 0)  # a query has one slot: a line of the directory and a block, on a page each
    with segment_of(STORED, whole, codec=codec) as segment:
        asked = []
        for query in (STORED[1500:1501], STORED[1500:1501], STORED[2900:2901]):
            search(segment.view, query, 0)
            asked.append(segment.view.pages_asked)
    assert asked == [2, 2, 3]


def test_a_block_that_does_not_decode_under_good_checksums_is_an_error(path: Path) -> None:
    offset = region_of(path, "directory", 0).offset + 8
    data = bytearray(path.read_bytes())
    data[offset : offset + 2] = (int.from_bytes(data[offset : offset + 2], "little") - 1).to_bytes(2, "little")
    path.write_bytes(resealed(data))
    segment = Segment(path)
    with pytest.raises(CorruptStore, match="probe: found a block that does not decode, expected increasing keys"):
        search(segment.view, STORED, 3)
    segment.close()


def test_a_directory_that_points_outside_the_payload_is_an_error(path: Path) -> None:
    offset = region_of(path, "directory", 0).offset
    data = bytearray(path.read_bytes())
    data[offset + 5] = 0xFF
    path.write_bytes(resealed(data))
    segment = Segment(path)
    with pytest.raises(CorruptStore, match="probe: found a directory entry or an id that points outside its region"):
        search(segment.view, STORED, 3)
    segment.close()


def test_a_match_missing_from_table_0_has_no_ids_and_says_so(tmp_path: Path) -> None:
    # A writer that gives the tables two sets of fingerprints makes such a file; verify finds it too.
    path = tmp_path / "00000002.fpseg"
    other = STORED.copy()
    other[5] ^= np.uint64(1)
    with SegmentWriter(path, "gap", 6) as writer:
        writer.add_table(TablePlan(LAST, 3), ArrayKeys(STORED), with_ranks=True)
        writer.add_table(TablePlan(LAST, 3), ArrayKeys(np.sort(other)))
        ones = np.ones(len(STORED), dtype=np.uint64)
        writer.add_ids(len(STORED), int(STORED[0]), int(STORED[-1]), lambda: iter([ones]), lambda: iter([STORED]))
        writer.finish()
    segment = Segment(path)
    assert segment.ids is not None
    with pytest.raises(CorruptStore, match=r"^ids: "):
        segment.ids.lookup(other[5:6])
    segment.close()


def test_a_hostile_file_cannot_give_more_matches_than_it_has_bits() -> None:
    # Every fence points at the same 5,000 one-bit deltas of 0: as many times the same key.
    payload = bytearray(64) + bytes(8192)
    directory = len(payload)
    payload += struct.pack("<Q12H", 1 << 48, *[0] * 12) + bytes(32)
    fences = len(payload)
    for block in range(100):
        payload += struct.pack("<QQ", block + 1, 5000 << 48)
    payload += bytes(-len(payload) % 64)
    lengths = (1,) + (0,) * 64
    record = TableRecord(1, 0, 0, 0, 1, 64, 65_535, directory, fences, 100, lengths)
    with pytest.raises(CorruptStore):
        search(view_of_image(record, payload), fingerprint_array([0]), 8)


def test_one_block_of_equal_keys_cannot_give_more_matches_than_it_has_bits() -> None:
    payload = bytearray(64) + bytes(8192)
    directory = len(payload)
    payload += struct.pack("<Q12H", 0, *[5461] * 12) + bytes(32)
    record = TableRecord(1, 0, 0, 0, 1, 64, 5461, directory, 0, 0, (1,) + (0,) * 64)
    found = search(view_of_image(record, payload), fingerprint_array([0] * 3), 8)
    assert len(found[0]) <= 3 * 5461


@pytest.mark.parametrize(("starts", "sound"), [((0, 9, 18), True), ((0, 8, 18), False), ((0, 9, 9), False)])
def test_blocks_that_overlap_are_refused_where_nothing_matches(starts: tuple[int, ...], sound: bool) -> None:
    # Each key takes 9 bits, a delta of 256, and each block has one key.
    payload = bytearray(64 + 64)
    directory = len(payload)
    payload += struct.pack("<Q12H", 1 << 48, *[0] * 12) + bytes(32)
    fences = len(payload)
    for block, start in enumerate(starts):
        payload += struct.pack("<QQ", 256 * (block + 1), 9 << 48 | start)
    payload += bytes(-len(payload) % 64)
    record = TableRecord(1, 0, 0, 0, 1, 64, 27, directory, fences, 3, (0,) * 9 + (1,) + (0,) * 55)
    view = view_of_image(record, payload)
    if sound:
        assert search(view, fingerprint_array([512, 1024, 1536]), 0)[1].tolist() == [512, 1024, 1536]
        assert len(search(view, fingerprint_array([LAST]), 0)[0]) == 0
    else:
        with pytest.raises(
            CorruptStore, match="probe: found a directory entry or an id that points outside its region"
        ):
            search(view, fingerprint_array([LAST]), 0)


@pytest.mark.parametrize("codec", BY_COLUMNS_AND_ROWS)
@pytest.mark.parametrize(("bits", "sound"), [(18, True), (17, False), (10, False)])
def test_a_key_that_goes_on_beyond_its_block_is_no_match_also_where_one_is_enough(
    bits: int, sound: bool, codec: str
) -> None:
    # Two keys of 9 bits each, 256 and 512, or of the other codec 255 and 256. The fingerprints are twice as much.
    payload = bytearray(64 + 64)
    directory = len(payload)
    payload += struct.pack("<Q12H", 0, *[bits] * 12) + bytes(32)
    lengths = (0,) * 9 + (1,) + (0,) * 55
    if codec == "rice":  # a bit that ends the quotient, and 8 of the rest: 255 and 1
        payload[64:67] = (1 | 255 << 1 | 1 << 9 | 1 << 10).to_bytes(3, "little")
        record = TableRecord(1, CODECS.index("rice"), 0, 8, 1, 64, bits, directory, 0, 0, (0,) * 65)
    else:
        record = TableRecord(1, CODECS.index("gap"), 0, 0, 1, 64, bits, directory, 0, 0, lengths)
    last = 512 if codec == "rice" else 1024
    view = view_of_image(record, payload)
    if sound:
        assert search(view, fingerprint_array([last]), 0, first_only=True)[1].tolist() == [last]
    else:
        with pytest.raises(CorruptStore, match="probe: found a block that does not decode, expected increasing"):
            search(view, fingerprint_array([last]), 0, first_only=True)
