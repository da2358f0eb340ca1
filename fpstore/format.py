"""Owns every byte offset and every number of a segment file; docs/format.md is its table.

Records pack to exactly the bytes of that page, and unpack only from bytes that keep every rule which a record can show:
what `unpack` returns is safe to seek to, to map and to allocate. Errors name the record, what was found and what was
expected; the caller puts the path in front.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpstore._codec import crc32c
from fpstore.checks import expect_equal, expect_multiple, expect_within, expect_zeros
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.huffman import MAX_CODE_BITS as MAX_CODE_BITS
from fpstore.huffman import SYMBOL_COUNT as SYMBOL_COUNT
from fpstore.huffman import check_lengths
from fpstore.types import Codec

VERSION = 3
KIND_SEGMENT = 1
LISTED_BYTES = 8  # of an id in a list of them
# Bits of a fingerprint, and so of a key, KEY_BITS where nothing else is said. What others make is a multiple of
# BITS_STEP; keys of bands, which a store makes itself, have any number.
MIN_KEY_BITS, MAX_KEY_BITS, BITS_STEP, KEY_BITS = 16, 64, 8, 64
WIDE_BITS, WORD_BITS = (128, 256), 64  # of a wide fingerprint, and of a word of one
ALIGNMENT = 64  # every region starts at a cache line
PAGE_BYTES = 4096  # what one CRC-32C covers
CRC_BYTES = 4

HEADER_MAGIC = b"FPSTORE\n"
HEADER_BYTES = 64
FOOTER_MAGIC = b"FPSTEND\n"
FOOTER_BYTES = 64
SEGMENT_RECORD_BYTES = 128
TABLE_RECORD_BYTES = 192
MAX_TABLES = 1024

CODEC_GAP, CODEC_XOR, CODEC_RICE, CODEC_RAW = 0, 1, 2, 3
CODECS: tuple[Codec, ...] = ("gap", "xor", "rice", "raw")  # the name of codec number i
MAX_SLOT_BITS = 40
MAX_RICE_BITS = 63
MAX_RICE_QUOTIENT = 24  # this many zero bits say that the delta follows as it is
RICE_DELTA_BITS = 64  # of that delta, whatever the bits of a key

MAX_BLOCK_KEYS = 128
MAX_BLOCK_BITS = 5461  # 12 such blocks end below 2**16
MIN_BLOCK_BYTES, MAX_BLOCK_BYTES, BLOCK_BYTES = 64, 4096, 1024  # of a table of blocks; the last is the paper's
GROUP_SLOTS = 12
DIRECTORY_LINE_BYTES = 32
FENCE_BYTES = 16
PAYLOAD_OFFSET_BITS = 48  # of a bit offset in a directory line and in a fence

ID_KIND_NONE, ID_KIND_ONE, ID_KIND_MANY = 0, 1, 2
SAMPLE_BITS = 512
SAMPLE_BYTES = 8

# Directory lines and fences as numpy reads them.
LINE = np.dtype([("word", "<u8"), ("ends", "<u2", GROUP_SLOTS)])
FENCE = np.dtype([("last_key", "<u8"), ("word", "<u8")])
PAYLOAD_OFFSET_MASK = np.uint64((1 << PAYLOAD_OFFSET_BITS) - 1)

_HEADER = struct.Struct("<8sII48x")
_FOOTER = struct.Struct("<4QII12x8s")
_CRC = struct.Struct("<I")
_SEGMENT_RECORD = struct.Struct("<IIQQIII4xQ4Q2Q32x")
_TABLE_RECORD = struct.Struct(f"<QBBBxI5Q{SYMBOL_COUNT}s3xI64x")


def max_key_code_bits(codec: int, key_bits: int) -> int:
    """Bits of the longest code of one key: a code word and what is below a leading bit; a whole delta; a whole key."""
    coded = MAX_CODE_BITS + key_bits - 1
    return (coded, coded, MAX_RICE_QUOTIENT + RICE_DELTA_BITS, key_bits)[codec]


def align64(offset: int) -> int:
    """The first multiple of 64 that is not below offset."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def packed_bytes(width: int, count: int) -> int:
    """Bytes of `count` packed fields of `width` bits."""
    return -(-width * count // 8)


def directory_bytes(slot_bits: int) -> int:
    """Bytes of the directory of 2**slot_bits slots."""
    return -(-(1 << slot_bits) // GROUP_SLOTS) * DIRECTORY_LINE_BYTES


def groups_bytes(key_count: int, id_count: int) -> int:
    """Bytes of the id groups: a bit for each fingerprint and one for each id."""
    return packed_bytes(1, key_count + id_count)


def samples_bytes(key_count: int, id_count: int) -> int:
    """Bytes of the group samples: one for every started 512 bits of the id groups, and one for their end."""
    return (-(-(key_count + id_count) // SAMPLE_BITS) + 1) * SAMPLE_BYTES


def checksum_bytes(covered_bytes: int) -> int:
    """Bytes of the CRC-32Cs of so many bytes, one for each page."""
    return -(-covered_bytes // PAGE_BYTES) * CRC_BYTES


@dataclass(frozen=True, slots=True)
class Region:
    """A named run of bytes of the file; `table` is the index of the table it belongs to, if it does."""

    name: str
    table: int | None
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """The first 64 bytes of a file."""

    kind: int = KIND_SEGMENT

    def pack(self) -> bytes:
        """The header's 64 bytes."""
        return _HEADER.pack(HEADER_MAGIC, VERSION, self.kind)

    @classmethod
    def unpack(cls, data: bytes, expected: int = KIND_SEGMENT) -> "Header":
        """The header in 64 bytes of a file of this kind. Raises CorruptStore, or UnsupportedVersion."""
        where = "header"
        expect_equal(where, "length", len(data), HEADER_BYTES)
        magic, version, kind = _HEADER.unpack(data)
        expect_equal(where, "magic", repr(magic), repr(HEADER_MAGIC))
        _expect_version(where, version)
        expect_equal(where, "kind", kind, expected)
        expect_zeros(where, data, 16, 64)
        return cls(kind)


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 64 bytes of a file: where the summary and the checksums are."""

    file_bytes: int
    summary_offset: int
    checksums_offset: int
    roots_offset: int
    roots_crc: int

    @classmethod
    def locate(cls, summary_offset: int, table_count: int, roots_crc: int) -> "Footer":
        """The footer that follows from where the summary of so many tables starts."""
        checksums_offset = align64(summary_offset + summary_bytes(table_count))
        roots_offset = checksums_offset + checksum_bytes(checksums_offset)
        footer_offset = roots_offset + checksum_bytes(roots_offset - checksums_offset)
        return cls(footer_offset + FOOTER_BYTES, summary_offset, checksums_offset, roots_offset, roots_crc)

    @property
    def summary_bytes(self) -> int:
        """Bytes of the summary and the zeros after it."""
        return self.checksums_offset - self.summary_offset

    @property
    def footer_offset(self) -> int:
        """Where the footer itself starts, which is where the roots end."""
        return self.file_bytes - FOOTER_BYTES

    def pack(self) -> bytes:
        """The footer's 64 bytes, its own checksum among them."""
        body = _FOOTER.pack(
            self.file_bytes,
            self.summary_offset,
            self.checksums_offset,
            self.roots_offset,
            self.roots_crc,
            VERSION,
            FOOTER_MAGIC,
        )
        return body + _CRC.pack(crc32c(body))

    @classmethod
    def unpack(cls, data: bytes, file_bytes: int) -> "Footer":
        """The footer in the last 64 bytes of a file of file_bytes.

        Raises CorruptStore; UnsupportedVersion only for a footer whose checksum holds, so that damage is not
        taken for a newer file: magic, version and checksum keep their places in every version.
        """
        where = "footer"
        expect_equal(where, "length", len(data), FOOTER_BYTES)
        body = data[: _FOOTER.size]
        *fields, version, magic = _FOOTER.unpack(body)
        expect_equal(where, "magic", repr(magic), repr(FOOTER_MAGIC))
        (crc,) = _CRC.unpack(data[_FOOTER.size :])
        if crc != crc32c(body):
            raise CorruptStore(f"{where}, checksum", f"{crc:#010x}", f"{crc32c(body):#010x}")
        _expect_version(where, version)
        expect_zeros(where, data, 40, 52)
        footer = cls(*fields)
        expect_equal(where, "file_bytes", footer.file_bytes, file_bytes)
        expect_multiple(where, "checksums_offset", footer.checksums_offset, ALIGNMENT)
        expect_within(where, "checksums_offset", footer.checksums_offset, HEADER_BYTES, file_bytes)
        expect_within(where, "summary_offset", footer.summary_offset, HEADER_BYTES, footer.checksums_offset)
        least, most = summary_bytes(1), summary_bytes(MAX_TABLES) + ALIGNMENT - 1
        expect_within(where, "summary_bytes", footer.summary_bytes, least, most)
        roots_offset = footer.checksums_offset + checksum_bytes(footer.checksums_offset)
        expect_equal(where, "roots_offset", footer.roots_offset, roots_offset)
        roots_end = roots_offset + checksum_bytes(roots_offset - footer.checksums_offset)
        expect_equal(where, "offset", footer.footer_offset, roots_end)
        return footer


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """What a segment holds, and where its ids are; an offset whose region is absent is 0.

    list_count: 0, or how many ids there are in the list of them, whose indexes the values are.
    """

    table_count: int
    key_count: int
    id_count: int
    id_kind: int
    id_width: int
    rank_width: int
    id_base: int
    ranks_offset: int
    groups_offset: int
    samples_offset: int
    values_offset: int
    key_bits: int = KEY_BITS
    list_offset: int = 0
    list_count: int = 0

    def pack(self) -> bytes:
        """The record's 128 bytes."""
        ids = self.id_count, self.id_kind, self.id_width, self.rank_width, self.id_base
        offsets = self.ranks_offset, self.groups_offset, self.samples_offset, self.values_offset, self.list_offset
        return _SEGMENT_RECORD.pack(self.key_bits, self.table_count, self.key_count, *ids, *offsets, self.list_count)

    @classmethod
    def unpack(cls, data: bytes) -> "SegmentRecord":
        """The record in 128 bytes. Raises CorruptStore; Summary checks whether its regions fit the file."""
        where = "segment record"
        expect_equal(where, "length", len(data), SEGMENT_RECORD_BYTES)
        expect_zeros(where, data, 36, 40)
        expect_zeros(where, data, 96, 128)
        key_bits, *fields, list_offset, list_count = _SEGMENT_RECORD.unpack(data)
        record = cls(*[*fields, key_bits, list_offset, list_count])
        expect_within(where, "key_bits", record.key_bits, MIN_KEY_BITS, MAX_KEY_BITS)
        expect_within(where, "key_count", record.key_count, 0, min(1 << record.key_bits, (1 << 64) - 1))
        expect_within(where, "table_count", record.table_count, 1, MAX_TABLES)
        with_ids = record.id_kind != ID_KIND_NONE
        expect_equal(where, "rank_width", record.rank_width, record.key_count.bit_length() if with_ids else 0)
        expect_ids(where, record)
        expect_offset(where, "ranks_offset", record.ranks_offset, with_ids)
        return record


@dataclass(frozen=True, slots=True)
class TableRecord:
    """How one table is coded, and where it is. key_bits: of its keys. block_bytes: of blocks at most; 0 with slots."""

    prefix_mask: int
    codec: int
    slot_bits: int
    rice_bits: int
    flips: int
    payload_offset: int
    payload_bits: int
    directory_offset: int
    fences_offset: int
    fence_count: int
    code_lengths: tuple[int, ...]
    key_bits: int = KEY_BITS
    block_bytes: int = 0

    @property
    def rank_count(self) -> int:
        """How many ranks there are where it is table 0: one for each slot, or block, and one for their end."""
        return (self.fence_count if self.block_bytes else 1 << self.slot_bits) + 1

    @property
    def slot_shift(self) -> int:
        """How many bits of a key are below its slot's number."""
        return self.key_bits - self.slot_bits

    def pack(self) -> bytes:
        """The record's 192 bytes."""
        return _TABLE_RECORD.pack(
            self.prefix_mask,
            self.codec,
            self.slot_bits,
            self.rice_bits,
            self.flips,
            self.payload_offset,
            self.payload_bits,
            self.directory_offset,
            self.fences_offset,
            self.fence_count,
            bytes(self.code_lengths),
            self.block_bytes,
        )

    @classmethod
    def unpack(cls, data: bytes, table_index: int, key_count: int, key_bits: int = KEY_BITS) -> "TableRecord":
        """The record of table `table_index` in 192 bytes, in a segment of key_count keys of key_bits bits.

        Every key takes a bit of payload at least, and Summary compares payload_bits with the file, so key_count is
        bounded too. Raises CorruptStore.
        """
        where = f"table {table_index}"
        expect_equal(where, "record length", len(data), TABLE_RECORD_BYTES)
        *fields, lengths, block_bytes = _TABLE_RECORD.unpack(data)
        expect_zeros(where, data, 11, 12)
        expect_zeros(where, data, 121, 124)
        expect_zeros(where, data, 128, 192)
        record = cls(*[*fields, tuple(lengths), key_bits, block_bytes])
        expect_within(where, "block_bytes", block_bytes, MIN_BLOCK_BYTES if block_bytes else 0, MAX_BLOCK_BYTES)
        expect_within(where, "codec", record.codec, 0, len(CODECS) - 1)
        expect_within(where, "slot_bits", record.slot_bits, 0, min(MAX_SLOT_BITS, key_bits))
        if record.prefix_mask >> key_bits:
            raise CorruptStore(f"{where}, prefix_mask", f"{record.prefix_mask:#x}", f"bits of a key of {key_bits}")
        rice_bits_most = MAX_RICE_BITS if record.codec == CODEC_RICE else 0
        expect_within(where, "rice_bits", record.rice_bits, 0, rice_bits_most)
        expect_within(where, "flips", record.flips, 0, key_bits)
        _expect_lengths(where, record, key_count)
        bits_most = max_key_code_bits(record.codec, key_bits) * key_count
        least = min(record.rice_bits + 1, key_bits)  # a first key of a block is there as it is
        bits_least = bits_most if record.codec == CODEC_RAW else least * key_count
        expect_within(where, "payload_bits", record.payload_bits, bits_least, bits_most)
        expect_within(where, "payload_bits", record.payload_bits, 0, (1 << PAYLOAD_OFFSET_BITS) - 1)
        blocks_least = -(-record.payload_bits // (8 * block_bytes)) if block_bytes else 0
        expect_within(where, "fence_count", record.fence_count, blocks_least, key_count)
        expect_offset(where, "payload_offset", record.payload_offset, True)
        expect_offset(where, "directory_offset", record.directory_offset, not block_bytes)
        expect_offset(where, "fences_offset", record.fences_offset, record.fence_count > 0)
        return record


@dataclass(frozen=True, slots=True)
class Summary:
    """The segment record and the records of its tables."""

    segment: SegmentRecord
    tables: tuple[TableRecord, ...]

    def pack(self) -> bytes:
        """128 bytes, and 192 for each table."""
        return self.segment.pack() + b"".join(table.pack() for table in self.tables)

    @classmethod
    def unpack(cls, data: bytes, footer: Footer) -> "Summary":
        """The summary in the summary_bytes from summary_offset of a file with this footer.

        Raises CorruptStore, also where a region leaves the file or its place in the order of regions.
        """
        where = "summary"
        expect_equal(where, "length", len(data), footer.summary_bytes)
        segment = SegmentRecord.unpack(data[:SEGMENT_RECORD_BYTES])
        size = summary_bytes(segment.table_count)
        expect_equal(where, "end", footer.checksums_offset, align64(footer.summary_offset + size))
        expect_zeros(where, data, size, len(data))
        starts = range(SEGMENT_RECORD_BYTES, size, TABLE_RECORD_BYTES)
        tables = tuple(
            TableRecord.unpack(
                data[start : start + TABLE_RECORD_BYTES], table_index, segment.key_count, segment.key_bits
            )
            for table_index, start in enumerate(starts)
        )
        summary = cls(segment, tables)
        expect_regions_in_order(summary, footer.summary_offset)
        return summary

    def regions(self, footer: Footer) -> tuple[Region, ...]:
        """Every byte of the file in order, each in one region; the zeros between are `padding`.

        Regions of no bytes are left out, so that the offsets increase.
        """
        size = summary_bytes(self.segment.table_count)
        checksums_bytes = footer.roots_offset - footer.checksums_offset
        roots_bytes = footer.footer_offset - footer.roots_offset
        named = (
            Region("header", None, 0, HEADER_BYTES),
            *self.data_regions(),
            Region("summary", None, footer.summary_offset, size),
            Region("checksums", None, footer.checksums_offset, checksums_bytes),
            Region("roots", None, footer.roots_offset, roots_bytes),
            Region("footer", None, footer.footer_offset, FOOTER_BYTES),
        )
        regions: list[Region] = []
        end = 0
        for region in named:
            if region.offset > end:
                regions.append(Region("padding", None, end, region.offset - end))
            if region.bytes:
                regions.append(region)
            end = region.offset + region.bytes
        return tuple(regions)

    def data_regions(self) -> Iterator[Region]:
        """The regions that the records point to, in the order of the file."""
        for index, table in enumerate(self.tables):
            yield Region("payload", index, table.payload_offset, packed_bytes(1, table.payload_bits))
            if not table.block_bytes:
                yield Region("directory", index, table.directory_offset, directory_bytes(table.slot_bits))
            if table.fence_count:
                yield Region("fences", index, table.fences_offset, table.fence_count * FENCE_BYTES)
        segment = self.segment
        if segment.id_kind != ID_KIND_NONE:
            rank_bytes = packed_bytes(segment.rank_width, self.tables[0].rank_count)
            yield Region("ranks", None, segment.ranks_offset, rank_bytes)
            yield from id_regions(segment)


def id_regions(record: Any) -> Iterator[Region]:
    """The regions of ids that a record points to, in the order of the file."""
    if record.id_kind == ID_KIND_NONE:
        return
    if record.id_kind == ID_KIND_MANY:
        counts = record.key_count, record.id_count
        yield Region("id groups", None, record.groups_offset, groups_bytes(*counts))
        yield Region("group samples", None, record.samples_offset, samples_bytes(*counts))
    yield Region("id values", None, record.values_offset, packed_bytes(record.id_width, record.id_count))
    if record.list_count:
        yield Region("id list", None, record.list_offset, LISTED_BYTES * record.list_count)


def summary_bytes(table_count: int) -> int:
    """Bytes of a summary with so many tables."""
    return SEGMENT_RECORD_BYTES + table_count * TABLE_RECORD_BYTES


def expect_regions_in_order(summary: Summary, summary_offset: int) -> None:
    """CorruptStore where a region leaves the file, or its place in the order of regions."""
    end, before = HEADER_BYTES, "header"
    for region in summary.data_regions():
        where = region.name if region.table is None else f"table {region.table}: {region.name}"
        if region.offset < end:
            raise CorruptStore(f"{where}, offset", region.offset, f"{end} or more, after {before}")
        remaining = summary_offset - region.offset
        if region.bytes > remaining:
            found = f"{region.bytes} bytes at {region.offset}"
            raise CorruptStore(where, found, f"at most {remaining} before the summary")
        end, before = region.offset + region.bytes, where


def _expect_lengths(where: str, record: TableRecord, key_count: int) -> None:
    has_code = record.codec in (CODEC_GAP, CODEC_XOR) and key_count > 0
    if any(record.code_lengths) != has_code:
        expected = "a code" if has_code else "zeros"
        table = f"codec {CODECS[record.codec]} and {key_count} keys"
        raise CorruptStore(f"{where}, code_lengths", bytes(record.code_lengths).hex(), f"{expected} for {table}")
    if any(record.code_lengths[record.key_bits + 1 :]):
        longest = max(symbol for symbol, length in enumerate(record.code_lengths) if length)
        raise CorruptStore(f"{where}, code_lengths", f"symbol {longest}", f"0..{record.key_bits}")
    try:
        check_lengths(record.code_lengths)
    except ValueError as error:
        raise CorruptStore.by(error, where) from None


def expect_ids(where: str, record: Any) -> None:
    """CorruptStore unless what a record says of ids goes together; whether they fit the file is for others to see."""
    expect_within(where, "id_kind", record.id_kind, ID_KIND_NONE, ID_KIND_MANY)
    if record.id_kind == ID_KIND_NONE:
        expect_equal(where, "id_count", record.id_count, 0)
    elif record.id_kind == ID_KIND_ONE:
        expect_equal(where, "id_count", record.id_count, record.key_count)
    expect_within(where, "id_width", record.id_width, 0, 64 if record.id_count else 0)
    # Some stored id has the highest bit of the width set, and with id_base it has to be a 64-bit number.
    most = (1 << 64) - 1 - (1 << record.id_width >> 1) if record.id_count else 0
    expect_within(where, "id_base", record.id_base, 0, most)
    grouped = record.id_kind == ID_KIND_MANY
    expect_offset(where, "groups_offset", record.groups_offset, grouped)
    expect_offset(where, "samples_offset", record.samples_offset, grouped)
    expect_offset(where, "values_offset", record.values_offset, record.id_kind != ID_KIND_NONE)
    expect_within(where, "list_count", record.list_count, 0, record.id_count)
    if record.list_count:
        expect_equal(where, "id_base", record.id_base, 0)
        expect_equal(where, "id_width", record.id_width, (record.list_count - 1).bit_length())
    expect_offset(where, "list_offset", record.list_offset, record.list_count > 0)


def expect_offset(where: str, name: str, offset: int, present: bool) -> None:
    """CorruptStore unless the offset of a region is one that may be, or 0 where there is none."""
    if not present:
        expect_equal(where, name, offset, 0)
    elif offset < HEADER_BYTES:
        raise CorruptStore(f"{where}, {name}", offset, f"{HEADER_BYTES} or more")
    else:
        expect_multiple(where, name, offset, ALIGNMENT)


def _expect_version(where: str, version: int) -> None:
    if version != VERSION:
        raise UnsupportedVersion(f"{where}, version", version, VERSION)
