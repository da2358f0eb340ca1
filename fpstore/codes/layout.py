"""Owns every byte offset of a segment of wide codes; docs/format.md, section 10, is its table."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fpstore import format as layout
from fpstore._codes import LIMITS
from fpstore.checks import expect_equal, expect_within, expect_zeros
from fpstore.errors import CorruptStore
from fpstore.format import (
    CODEC_RAW,
    MAX_SLOT_BITS,
    MAX_TABLES,
    SEGMENT_RECORD_BYTES,
    TABLE_RECORD_BYTES,
    WIDE_BITS,
    WORD_BITS,
    Footer,
    Region,
    Summary,
    align64,
    expect_ids,
    expect_offset,
    expect_regions_in_order,
    id_regions,
    packed_bytes,
    summary_bytes,
)
from fpstore.segment.ids import IdFields
from fpstore.types import Keys

KIND_CODES = 4
MAX_TAG_BITS, MAX_ENTRY_BITS = LIMITS["tag_bits"], LIMITS["entry_bits"]
MASK_BYTES = 32
# A rank has 48 bits where candidates of several tables are kept together.
MAX_CODES = 1 << 47

_RECORD = struct.Struct("<IIQQII8xQ6Q32x")
_TABLE = struct.Struct(f"<{MASK_BYTES}sBBxxI2Q136x")


@dataclass(frozen=True, slots=True)
class CodesRecord:
    """What a segment of wide codes holds, and where its codes and ids are. Of ids as SegmentRecord."""

    key_bits: int
    table_count: int
    key_count: int
    codes_offset: int
    id_count: int = 0
    id_kind: int = layout.ID_KIND_NONE
    id_width: int = 0
    id_base: int = 0
    groups_offset: int = 0
    samples_offset: int = 0
    values_offset: int = 0
    list_offset: int = 0
    list_count: int = 0

    # Codes tell their ranks by where they are.
    rank_width = 0
    ranks_offset = 0

    @classmethod
    def of(cls, bits: int, table_count: int, count: int, codes_offset: int, ids: IdFields) -> "CodesRecord":
        """The record of so many codes and these ids."""
        return cls(bits, table_count, count, codes_offset, **ids._asdict())

    @property
    def words(self) -> int:
        """Of a code."""
        return self.key_bits // WORD_BITS

    @property
    def code_bytes(self) -> int:
        """Of one."""
        return self.key_bits // 8

    @property
    def rank_bits(self) -> int:
        """Of a rank in an entry."""
        return rank_bits(self.key_count)

    @property
    def start_bytes(self) -> int:
        """Of each of a table's starts."""
        return start_bytes(self.key_count)

    def pack(self) -> bytes:
        """The record's 128 bytes."""
        ids = self.id_count, self.id_kind, self.id_width, self.id_base
        offsets = self.codes_offset, self.groups_offset, self.samples_offset, self.values_offset, self.list_offset
        return _RECORD.pack(self.key_bits, self.table_count, self.key_count, *ids, *offsets, self.list_count)

    @classmethod
    def unpack(cls, data: bytes) -> "CodesRecord":
        """The record in 128 bytes. Raises CorruptStore; CodesSummary checks whether its regions fit the file."""
        where = "codes record"
        expect_equal(where, "length", len(data), SEGMENT_RECORD_BYTES)
        expect_zeros(where, data, 32, 40)
        expect_zeros(where, data, 96, 128)
        bits, tables, count, ids, kind, width, base, codes, *offsets = _RECORD.unpack(data)
        record = cls(bits, tables, count, codes, ids, kind, width, base, *offsets)
        if record.key_bits not in WIDE_BITS:
            raise CorruptStore(f"{where}, key_bits", record.key_bits, f"one of {', '.join(map(str, WIDE_BITS))}")
        expect_within(where, "key_count", record.key_count, 0, MAX_CODES)
        expect_within(where, "table_count", record.table_count, 1, MAX_TABLES)
        expect_offset(where, "codes_offset", record.codes_offset, True)
        expect_ids(where, record)
        return record


@dataclass(frozen=True, slots=True)
class CodeTableRecord:
    """How one table is cut into slots and tags, and where it is. key_bits, key_count: what the codes record says."""

    prefix_mask: int
    slot_bits: int
    tag_bits: int
    flips: int
    starts_offset: int
    entries_offset: int
    key_bits: int
    key_count: int

    # Of all such tables.
    codec = CODEC_RAW
    rice_bits = fence_count = block_bytes = 0

    @property
    def in_order(self) -> bool:
        """Whether codes are in the order of the table, which so needs no entries."""
        return is_in_order(self.prefix_mask, self.key_bits)

    @property
    def used_mask(self) -> Keys:
        """Of the prefix the bits that the table tells of, from the highest on: uint64[words]."""
        return mask_words(top_of(self.prefix_mask, self.slot_bits + self.tag_bits), self.key_bits)

    @property
    def entry_bits(self) -> int:
        """Of an entry."""
        return rank_bits(self.key_count) + self.tag_bits

    @property
    def starts_bytes(self) -> int:
        """Of all starts: one for each slot, and the end."""
        return ((1 << self.slot_bits) + 1) * start_bytes(self.key_count)

    @property
    def entries_bytes(self) -> int:
        """Of all entries."""
        return 0 if self.in_order else packed_bytes(self.entry_bits, self.key_count)

    def pack(self) -> bytes:
        """The record's 192 bytes."""
        mask = mask_words(self.prefix_mask, self.key_bits).astype("<u8").tobytes().ljust(MASK_BYTES, b"\0")
        return _TABLE.pack(mask, self.slot_bits, self.tag_bits, self.flips, self.starts_offset, self.entries_offset)

    @classmethod
    def unpack(cls, data: bytes, index: int, record: CodesRecord) -> "CodeTableRecord":
        """The record of table `index` in 192 bytes. Raises CorruptStore."""
        where = f"table {index}"
        expect_equal(where, "record length", len(data), TABLE_RECORD_BYTES)
        expect_zeros(where, data, record.code_bytes, MASK_BYTES)
        expect_zeros(where, data, 34, 36)
        expect_zeros(where, data, 56, TABLE_RECORD_BYTES)
        mask, slot_bits, own_bits, flips, starts, entries = _TABLE.unpack(data)
        of_record = record.key_bits, record.key_count
        words = np.frombuffer(mask[: record.code_bytes], dtype="<u8").astype(">u8")
        table = cls(int.from_bytes(words.tobytes(), "big"), slot_bits, own_bits, flips, starts, entries, *of_record)
        prefix_bits = table.prefix_mask.bit_count()
        expect_within(where, "prefix bits", prefix_bits, 1, record.key_bits)
        expect_within(where, "slot_bits", table.slot_bits, 0, min(MAX_SLOT_BITS, prefix_bits))
        expected = tag_bits(prefix_bits, table.slot_bits, record.key_count, table.in_order)
        expect_equal(where, "tag_bits", table.tag_bits, expected)
        expect_within(where, "flips", table.flips, 0, prefix_bits)
        expect_offset(where, "starts_offset", table.starts_offset, True)
        expect_offset(where, "entries_offset", table.entries_offset, not table.in_order)
        return table


@dataclass(frozen=True, slots=True)
class CodesSummary(Summary):
    """The codes record and the records of its tables."""

    segment: CodesRecord  # type: ignore[assignment]
    tables: tuple[CodeTableRecord, ...]  # type: ignore[assignment]

    @classmethod
    def unpack(cls, data: bytes, footer: Footer) -> "CodesSummary":
        """As that of Summary."""
        where = "summary"
        expect_equal(where, "length", len(data), footer.summary_bytes)
        record = CodesRecord.unpack(data[:SEGMENT_RECORD_BYTES])
        size = summary_bytes(record.table_count)
        expect_equal(where, "end", footer.checksums_offset, align64(footer.summary_offset + size))
        expect_zeros(where, data, size, len(data))
        starts = range(SEGMENT_RECORD_BYTES, size, TABLE_RECORD_BYTES)
        tables = tuple(
            CodeTableRecord.unpack(data[start : start + TABLE_RECORD_BYTES], index, record)
            for index, start in enumerate(starts)
        )
        summary = cls(record, tables)
        expect_regions_in_order(summary, footer.summary_offset)
        return summary

    def data_regions(self) -> Iterator[Region]:
        """The regions that the records point to, in the order of the file."""
        record = self.segment
        yield Region("codes", None, record.codes_offset, record.code_bytes * record.key_count)
        for index, table in enumerate(self.tables):
            yield Region("starts", index, table.starts_offset, table.starts_bytes)
            if not table.in_order:
                yield Region("entries", index, table.entries_offset, table.entries_bytes)
        yield from id_regions(record)


def rank_bits(count: int) -> int:
    """Bits of a rank among so many codes: 1 or more."""
    return max(1, (count - 1).bit_length()) if count else 1


def start_bytes(count: int) -> int:
    """Bytes that a number up to count takes: 4 or 8."""
    return 4 if count < 1 << 32 else 8


def tag_bits(prefix_bits: int, slot_bits: int, count: int, in_order: bool) -> int:
    """Bits of a prefix below those of the slot that an entry tells; none where codes are in the table's order."""
    return 0 if in_order else min(MAX_TAG_BITS, prefix_bits - slot_bits, MAX_ENTRY_BITS - rank_bits(count))


def is_in_order(prefix_mask: int, bits: int) -> bool:
    """Whether a prefix is the top of a code."""
    return prefix_mask == ((1 << prefix_mask.bit_count()) - 1) << (bits - prefix_mask.bit_count())


def top_of(mask: int, count: int) -> int:
    """The highest `count` of the bits of mask."""
    for _ in range(mask.bit_count() - count):
        mask &= mask - 1
    return mask


def mask_words(mask: int, bits: int) -> Keys:
    """A mask as words, the most significant first: uint64[bits / 64]."""
    return np.frombuffer(mask.to_bytes(bits // 8, "big"), dtype=">u8").astype(np.uint64)
