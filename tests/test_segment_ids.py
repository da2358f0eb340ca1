"""The ids of a segment come back to their fingerprints: one each, many, or none for some."""

# mypy: disable-error-code="comparison-overlap"

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    LAST,
    distinct,
    fingerprint_array,
    ids_by_rank,
    resealed,
    segment_of,
    uniform,
    view_of_image,
    write_segment,
)

from fpstore._probe import IdColumn, IdCursor
from fpstore.errors import CorruptStore
from fpstore.format import (
    FOOTER_BYTES,
    ID_KIND_MANY,
    ID_KIND_NONE,
    ID_KIND_ONE,
    Footer,
    SegmentRecord,
    Summary,
    TableRecord,
)
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.segment.reader import Segment
from fpstore.types import Ids, Keys

HALVES = plans.flips(2, (1, 1), 3)
STORED = distinct(uniform(700, np.random.default_rng(0)))


def one_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, rng.permutation(len(stored)).astype(np.uint64)


def one_each_from_a_million(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, np.arange(len(stored), dtype=np.uint64) + np.uint64(1_000_000)


def one_each_anywhere(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    ids = uniform(len(stored), rng)
    ids[0], ids[-1] = 0, LAST
    return stored, ids


def all_the_same_id(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, np.full(len(stored), 77, dtype=np.uint64)


def many_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    fingerprints = np.concatenate([stored, rng.choice(stored, 5 * len(stored))])
    return fingerprints, rng.integers(0, 1 << 40, len(fingerprints), dtype=np.uint64)


def none_for_some(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    fingerprints = rng.choice(stored, 2 * len(stored))
    return fingerprints, np.arange(len(fingerprints), dtype=np.uint64)


def all_to_one(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return np.full(5000, stored[len(stored) // 2]), np.arange(5000, dtype=np.uint64) * np.uint64(3)


def uneven(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    counts = np.zeros(len(stored), dtype=np.int64)
    counts[300:400], counts[400], counts[600:] = 20, 9000, 1
    fingerprints = np.repeat(stored, counts)
    return fingerprints, rng.permutation(len(fingerprints)).astype(np.uint64)


def as_many_ids_as_fingerprints_but_not_one_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return np.concatenate([stored[1:], stored[-1:]]), np.arange(len(stored), dtype=np.uint64)


def no_ids_at_all(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored[:0], stored[:0]


ONE = (one_each, one_each_from_a_million, one_each_anywhere, all_the_same_id)
MANY = (many_each, none_for_some, all_to_one, uneven, as_many_ids_as_fingerprints_but_not_one_each, no_ids_at_all)
SCATTERED = plans.flips((0x5555555555555555, 0xAAAAAAAAAAAAAAAA), (2, 0), 3)  # table 0 is no identity


def read_through(ids: IdColumn, end_rank: int, room: int) -> list[np.ndarray]:
    """All ranks and ids, read room at a time, of ranks some 100 at a time."""
    cursor, found = IdCursor(ids), []
    for end in [*range(0, end_rank, 100), end_rank]:
        while True:
            found.append(cursor.read(end, room))
            assert (found[-1][0] < end).all()
            if len(found[-1][0]) < room:
                break
    return [np.concatenate(columns) for columns in zip(*found, strict=True)]


@pytest.mark.parametrize("make_pairs", [*ONE, *MANY])
@pytest.mark.parametrize("slot_bits", [0, 5])
@pytest.mark.parametrize("plan", [HALVES, SCATTERED], ids=["halves", "scattered"])
def test_ids_come_back_to_their_fingerprints(
    make_pairs: Callable[[Keys, np.random.Generator], tuple[Keys, Ids]], slot_bits: int, plan: Plan
) -> None:
    rng = np.random.default_rng(2)
    pairs = make_pairs(STORED, rng)
    expected: dict[int, list[int]] = {fingerprint: [] for fingerprint in STORED.tolist()}
    for fingerprint, document in zip(*(column.tolist() for column in pairs), strict=True):
        expected[fingerprint].append(document)
    with segment_of(STORED, plan, slot_bits=slot_bits, pairs=pairs) as segment:
        assert segment.record.id_kind == (ID_KIND_ONE if make_pairs in ONE else ID_KIND_MANY)
        assert segment.record.id_count == len(pairs[1])
        assert segment.ids is not None
        asked = rng.permutation(np.concatenate([STORED, STORED[:50], np.repeat(STORED[:3], 3)]))
        counts, ids = segment.ids.lookup(asked)
        assert (counts.dtype, ids.dtype) == (np.int64, np.uint64)
        found = np.split(ids, np.cumsum(counts)[:-1])
        assert [part.tolist() for part in found] == [sorted(expected[key]) for key in asked.tolist()]
        by_rank = [column.tolist() for column in ids_by_rank(STORED, plan, pairs)]
        assert [column.tolist() for column in segment.ids.read(0, segment.key_count)] == by_rank
        counts, ids = segment.ids.read(10, 20)
        assert counts.tolist() == by_rank[0][10:20]
        first = sum(by_rank[0][:10])
        assert ids.tolist() == by_rank[1][first : first + int(counts.sum())]
        for room in (1, 7, 64, 1000, 10_000):
            assert [column.tolist() for column in read_through(segment.ids, len(STORED), room)] == [
                np.repeat(np.arange(len(STORED)), by_rank[0]).tolist(),
                by_rank[1],
            ]


@pytest.mark.parametrize("span", [0, 1, 2, 255, 256, 1 << 40])
def test_ids_take_the_bits_of_the_largest_less_the_smallest(span: int) -> None:
    ids = np.full(len(STORED), 1000, dtype=np.uint64)
    ids[1] += np.uint64(span)
    with segment_of(STORED, HALVES, pairs=(STORED, ids)) as segment:
        assert (segment.record.id_base, segment.record.id_width) == (1000, span.bit_length())
        assert segment.ids is not None
        assert segment.ids.read(0, 3)[1].tolist() == [1000, 1000 + span, 1000]


def test_a_segment_without_ids_has_no_id_column() -> None:
    with segment_of(STORED, HALVES) as segment:
        assert segment.ids is None
        assert segment.record.id_kind == ID_KIND_NONE


def test_ids_of_ranks_that_there_are_not_are_refused() -> None:
    with segment_of(STORED, HALVES, pairs=(STORED, STORED)) as segment:
        assert segment.ids is not None
        for first, end in ((0, len(STORED) + 1), (5, 4), (len(STORED) + 1, len(STORED) + 1)):
            with pytest.raises(ValueError, match=f"ranks {first} to {end}: the segment has {len(STORED)}"):
                segment.ids.read(first, end)


def test_ids_of_a_fingerprint_that_is_not_stored_are_corruption() -> None:
    # lookup is asked for what a probe found; what table 0 does not hold means that the tables differ.
    strangers = fingerprint_array([int(STORED[0]) ^ 1, 0, LAST])
    for slot_bits in (0, 5):
        with segment_of(STORED, HALVES, slot_bits=slot_bits, pairs=(STORED, STORED)) as segment:
            assert segment.ids is not None
            assert [len(column) for column in segment.ids.lookup(strangers[:0])] == [0, 0]
            for index in range(3):
                with pytest.raises(CorruptStore, match="ids: found a directory entry or an id that points outside"):
                    segment.ids.lookup(strangers[index : index + 1])
                with pytest.raises(CorruptStore, match="ids: found a directory entry or an id that points outside"):
                    segment.ids.lookup(np.append(STORED[3:4], strangers[index]))  # nor does it get those of another


def test_ids_of_each_of_several_large_slots_are_found() -> None:
    keys = fingerprint_array([(slot << 60) + 5 * number for slot in (2, 3, 9) for number in range(300)])
    ids = np.arange(1000, 1000 + len(keys), dtype=np.uint64)
    with segment_of(keys, HALVES, slot_bits=4, pairs=(keys, ids)) as segment:
        assert segment.tables[0].fence_count == 9
        assert segment.ids is not None
        assert [column.tolist() for column in segment.ids.lookup(keys)] == [[1] * len(keys), ids.tolist()]


def test_a_block_of_129_keys_is_refused_when_its_ids_are_asked_for() -> None:
    # A code of one bit, which stands for a delta of 1: each bit of an empty payload is a key.
    for count in (128, 129):
        data = bytearray(128) + struct.pack("<Q12H", 0, *[count] * 12) + bytes(32)
        table = TableRecord(0, 0, 0, 0, 0, 64, count, 128, 0, 0, (0, 1) + (0,) * 63)
        ids = IdColumn(view_of_image(table, data), SegmentRecord(1, count, count, ID_KIND_ONE, 0, 8, 5, 0, 0, 0, 0))
        if count == 128:
            assert [column.tolist() for column in ids.lookup(fingerprint_array([count]))] == [[1], [5]]
        else:
            with pytest.raises(CorruptStore, match="found a block that does not decode"):
                ids.lookup(fingerprint_array([count]))


def test_a_cursor_refuses_ranks_that_there_are_not() -> None:
    with segment_of(STORED, HALVES, pairs=(STORED, STORED)) as segment:
        assert segment.ids is not None
        cursor = IdCursor(segment.ids)
        cursor.read(10)
        for end, room in ((9, 1), (len(STORED) + 1, 1), (10, 0)):
            with pytest.raises(ValueError, match=f"ranks 10 to {end}, room {room}: the segment has {len(STORED)}"):
                cursor.read(end, room)


def set_bits(data: bytearray, offset: int, bits: str) -> None:
    """Write bits, the first one the lowest of the byte at offset."""
    for index, bit in enumerate(bits):
        byte, mask = offset + index // 8, 1 << index % 8
        data[byte] = data[byte] & ~mask | (mask if bit == "1" else 0)


# 4 fingerprints with 2, 1, 0 and 3 ids: values 0 7, 1, 5 6 7 in 3 bits.
GROUPS = "1001011000"
VALUES = (0, 7, 1, 5, 6, 7)


@pytest.mark.parametrize("room", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("groups", "values", "base"),
    [
        ("0101011000", VALUES, 0),  # an id before the first fingerprint
        ("1111100000", VALUES, 0),  # more fingerprints
        ("1000000000", VALUES, 0),  # fewer
        ("1001010000", VALUES, 0),  # the last one is missing
        ("1001011001", VALUES, 0),  # one too many, at the end
        (GROUPS, (7, 0, 1, 5, 6, 7), 0),  # ids that decrease
        (GROUPS, (0, 7, 1, 5, 7, 7), 0),  # and that repeat
        (GROUPS, VALUES, LAST - 4),  # beyond 64 bits
        (GROUPS, (0, 1, 1, 5, 6, 7), LAST - 4),  # and beyond in order, as a group lies there whole
    ],
)
def test_groups_and_ids_that_cannot_be_are_corruption(
    groups: str, values: tuple[int, ...], base: int, room: int, tmp_path: Path
) -> None:
    pairs = fingerprint_array([1, 1, 2, 4, 4, 4]), fingerprint_array(VALUES)
    data = bytearray(write_segment(tmp_path / "a", fingerprint_array([1, 2, 3, 4]), HALVES, pairs=pairs).read_bytes())
    footer = Footer.unpack(bytes(data[-FOOTER_BYTES:]), len(data))
    record = Summary.unpack(bytes(data[footer.summary_offset : footer.checksums_offset]), footer).segment
    set_bits(data, record.groups_offset, groups)
    set_bits(data, record.values_offset, "".join(f"{value:03b}"[::-1] for value in values))
    struct.pack_into("<Q", data, footer.summary_offset + 40, base)
    (tmp_path / "a").write_bytes(resealed(data))
    segment = Segment(tmp_path / "a")
    assert segment.ids is not None
    with pytest.raises(CorruptStore, match="ids: found a directory entry or an id that points outside"):
        read_through(segment.ids, 4, room)
    segment.close()


def test_the_groups_of_the_test_above_can_be(tmp_path: Path) -> None:
    pairs = fingerprint_array([1, 1, 2, 4, 4, 4]), fingerprint_array(VALUES)
    with segment_of(fingerprint_array([1, 2, 3, 4]), HALVES, pairs=pairs) as segment:
        offset = segment.record.groups_offset
        assert f"{int.from_bytes(segment.read(offset, 2), 'little'):010b}"[::-1] == GROUPS
        assert segment.ids is not None
        assert [column.tolist() for column in read_through(segment.ids, 4, 2)] == [[0, 0, 1, 3, 3, 3], [*VALUES]]
