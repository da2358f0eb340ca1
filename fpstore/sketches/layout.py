"""Owns every byte offset of a file of sketches; docs/format.md, section 9, is its table."""

import struct
from dataclasses import dataclass

import numpy as np

from fpstore.errors import CorruptStore
from fpstore.format import HEADER_BYTES, Footer, align64
from fpstore.segment.listing import width_for
from fpstore.sketches.bands import MAX_VALUES
from fpstore.types import Array, Buffer, Ids

KIND_SKETCHES = 3
# As long as that of a segment with one table, so that the footer says where it is.
RECORD_BYTES = 320
FIELD_BYTES = 44
MAX_WORDS = MAX_VALUES

_RECORD = struct.Struct("<3Q5I276x")


@dataclass(frozen=True, slots=True)
class SketchesRecord:
    """How many sketches there are, of which handles, and where they are; all else follows from that.

    handle_base, handle_last: the least handle and the largest. handle_bytes: 0 where the handle of sketch i is
    handle_base + i, else the bytes of each. words: of a sketch. values, bits: of how many values so many bits are kept.
    listed: 1 where handles are places in the list of the segment's ids, 0 where they are ids. Each place has a sketch,
    so what is written of one is how far behind it its sketch is.
    """

    count: int
    handle_base: int
    handle_last: int
    handle_bytes: int
    words: int
    values: int
    bits: int
    listed: int = 0

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

    def packed_handles(self, handles: Ids, first: int) -> bytes:
        """What is written of handles, uint64[n], of the sketches from `first` on."""
        behind = np.arange(first, first + len(handles), dtype=np.uint64) - handles
        return (behind if self.listed else handles - np.uint64(self.handle_base)).astype(self._type).tobytes()

    def unpacked_handles(self, data: Buffer | Array, first: int) -> Ids:
        """The handles of the sketches from `first` on, of what is written of them."""
        written: Ids = np.frombuffer(data, dtype=self._type).astype(np.uint64)
        if not self.listed:
            return written + np.uint64(self.handle_base)
        return np.arange(first, first + len(written), dtype=np.uint64) - written

    @property
    def _type(self) -> str:
        return f"<u{self.handle_bytes}"

    def pack(self) -> bytes:
        """The record's bytes."""
        handles = self.count, self.handle_base, self.handle_last, self.handle_bytes
        return _RECORD.pack(*handles, self.words, self.values, self.bits, self.listed)

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
        _expect("listed", record.listed, 0, 1)
        if record.listed:  # each id of a list has a sketch
            _expect("handle_base", record.handle_base, 0, 0)
            _expect("handle_last", record.handle_last, 0, record.count - 1)
        span = record.handle_last - record.handle_base
        if record.handle_bytes or record.listed:
            width = behind_width(record.count - 1 - span) if record.listed else width_for(span)
            _expect("handle_bytes", record.handle_bytes, width, width)
        else:
            _expect("handle_last", span + 1, record.count, record.count)
        _expect("summary_offset", footer.summary_offset, record.end, record.end)
        return record


def behind_width(most: int) -> int:
    """The bytes of each number of sketches up to this: how many come again before that of a place in a list."""
    return next(width for width in (0, 1, 2, 4, 8) if most < 1 << 8 * width)


def _expect(what: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise CorruptStore(f"sketches record, {what}", found, expected)
