"""Owns every byte offset of a file of sketches; docs/format.md, section 9, is its table."""

import struct
from dataclasses import dataclass

from fpstore.errors import CorruptStore
from fpstore.format import HEADER_BYTES, Footer, align64
from fpstore.sketches.bands import MAX_VALUES

KIND_SKETCHES = 3
# As long as that of a segment with one table, so that the footer says where it is.
RECORD_BYTES = 320
FIELD_BYTES = 40
HANDLE_WIDTHS = (0, 4, 8)
MAX_WORDS = MAX_VALUES

_RECORD = struct.Struct("<3Q4I280x")


@dataclass(frozen=True, slots=True)
class SketchesRecord:
    """How many sketches there are, of which handles, and where they are; all else follows from that.

    handle_base, handle_last: the least handle and the largest. handle_bytes: 0 where the handle of sketch i is
    handle_base + i, else the bytes of each. words: of a sketch. values, bits: of how many values so many bits are kept.
    """

    count: int
    handle_base: int
    handle_last: int
    handle_bytes: int
    words: int
    values: int
    bits: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a sketch."""
        return 8 * self.words

    @property
    def sketches_offset(self) -> int:
        """Where the sketches begin, in the order of their handles."""
        return HEADER_BYTES

    @property
    def handles_offset(self) -> int:
        """Where the handles begin, each less handle_base."""
        return align64(HEADER_BYTES + self.row_bytes * self.count)

    @property
    def handles_end(self) -> int:
        """Where they end."""
        return self.handles_offset + self.handle_bytes * self.count

    @property
    def end(self) -> int:
        """Where the record itself is."""
        return align64(self.handles_end)

    def pack(self) -> bytes:
        """The record's bytes."""
        return _RECORD.pack(
            self.count, self.handle_base, self.handle_last, self.handle_bytes, self.words, self.values, self.bits
        )

    @classmethod
    def unpack(cls, data: bytes, footer: Footer) -> "SketchesRecord":
        """The record in the summary of a file with this footer. CorruptStore unless all that it says fits the file."""
        if len(data) < RECORD_BYTES or any(data[FIELD_BYTES:]):
            raise CorruptStore(
                "sketches record", f"{len(data)} bytes", f"{RECORD_BYTES}, with zeros after {FIELD_BYTES}"
            )
        record = cls(*_RECORD.unpack(data[:RECORD_BYTES]))
        _expect("words", record.words, 1, MAX_WORDS)
        _expect("count", record.count, 1, footer.summary_offset // record.row_bytes)
        _expect("handle_last", record.handle_last, record.handle_base, (1 << 64) - 1)
        span = record.handle_last - record.handle_base
        if record.handle_bytes:
            _expect("handle_bytes", record.handle_bytes, width_for(span), width_for(span))
        else:
            _expect("handle_last", span + 1, record.count, record.count)
        _expect("summary_offset", footer.summary_offset, record.end, record.end)
        return record


def width_for(span: int) -> int:
    """The bytes of each handle where they are so far apart, and not one after the other."""
    return 4 if span < 1 << 32 else 8


def _expect(what: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise CorruptStore(f"sketches record, {what}", found, expected)
