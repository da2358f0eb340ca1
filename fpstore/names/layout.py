"""Owns every byte offset of a file of names; docs/format.md, section 8, is its table. Blocks are the kernels' own."""

import struct
from dataclasses import dataclass

from fpstore._names import LINE_BYTES, LINE_NAMES
from fpstore.errors import CorruptStore
from fpstore.format import HEADER_BYTES, Footer, align64, packed_bytes

KIND_NAMES = 2
# As long as that of a segment with one table, so that the footer says where it is.
RECORD_BYTES = 320
FIELD_BYTES = 56
ENTRY_BYTES = 16
# Every name takes two bytes of a block at least, and a block five.
MIN_NAME_BYTES = 2
MIN_BLOCK_BYTES = 5

_RECORD = struct.Struct("<6QII264x")


def line_count(names: int) -> int:
    """How many lines the filter of so many names has."""
    return names // LINE_NAMES + 1


@dataclass(frozen=True, slots=True)
class NamesRecord:
    """How many names there are, with which handles, and where they are; all else follows from that.

    data_bytes: of all names, as they are. handle_base, handle_last: the least handle and the largest. handle_width: 0
    where the handle of rank r is handle_base + r, else the bits of handle_last - handle_base. blocks_bytes: of all
    blocks together.
    """

    count: int
    data_bytes: int
    block_count: int
    blocks_bytes: int
    handle_base: int
    handle_last: int
    handle_width: int
    rank_width: int

    @property
    def line_count(self) -> int:
        """Lines of the filter."""
        return line_count(self.count)

    @property
    def blocks_offset(self) -> int:
        """Where the blocks begin."""
        return HEADER_BYTES

    @property
    def blocks_end(self) -> int:
        """Where they end."""
        return HEADER_BYTES + self.blocks_bytes

    @property
    def directory_offset(self) -> int:
        """Where the directory of the blocks begins."""
        return align64(self.blocks_end)

    @property
    def filter_offset(self) -> int:
        """Where the filter begins."""
        return align64(self.directory_offset + ENTRY_BYTES * (self.block_count + 1))

    @property
    def handles_offset(self) -> int:
        """Where the handles begin, by rank."""
        return align64(self.filter_offset + LINE_BYTES * self.line_count)

    @property
    def order_offset(self) -> int:
        """Where the ranks begin, by handle."""
        return align64(self.handles_offset + packed_bytes(self.handle_width, self.count))

    @property
    def end(self) -> int:
        """Where the record itself is."""
        return align64(self.order_offset + packed_bytes(self.rank_width, self.count))

    def pack(self) -> bytes:
        """The record's bytes."""
        return _RECORD.pack(
            self.count,
            self.data_bytes,
            self.block_count,
            self.blocks_bytes,
            self.handle_base,
            self.handle_last,
            self.handle_width,
            self.rank_width,
        )

    @classmethod
    def unpack(cls, data: bytes, footer: Footer) -> "NamesRecord":
        """The record in the summary of a file with this footer. CorruptStore unless all that it says fits the file."""
        if len(data) < RECORD_BYTES or any(data[FIELD_BYTES:]):
            raise CorruptStore("names record", f"{len(data)} bytes", f"{RECORD_BYTES}, with zeros after {FIELD_BYTES}")
        count, data_bytes, blocks, size, base, last, width, rank_width = _RECORD.unpack(data[:RECORD_BYTES])
        record = cls(count, data_bytes, blocks, size, base, last, width, rank_width)
        room = footer.summary_offset
        _expect("blocks_bytes", size, 0, room)
        _expect("block_count", blocks, count > 0, min(count, size // MIN_BLOCK_BYTES))
        _expect("count", count, 0, size // MIN_NAME_BYTES)
        _expect("handle_last", last, base + max(count, 1) - 1, (1 << 64) - 1)
        if width or last - base != max(count, 1) - 1:
            _expect("handle_width", width, (last - base).bit_length(), (last - base).bit_length())
        expected = (count - 1).bit_length() if width else 0
        _expect("rank_width", rank_width, expected, expected)
        _expect("summary_offset", room, record.end, record.end)
        _expect("data_bytes", data_bytes, 0, (1 << 63) - 1)
        return record


def _expect(what: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise CorruptStore(f"names record, {what}", found, expected)
