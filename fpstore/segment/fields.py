"""What lies in a segment as records and packed fields, read as it is: no page of it need have been checked."""

from typing import Protocol

import numpy as np

from fpstore import format as layout
from fpstore.checks import hexadecimal
from fpstore.errors import CorruptStore
from fpstore.format import TableRecord
from fpstore.types import Array, Counts, Keys


class Readable(Protocol):
    """A segment, or a copy of one."""

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes that the caller knows to lie inside."""
        ...


def read_records(segment: Readable, kind: np.dtype[np.void], offset: int, first: int, count: int) -> Array:
    """Records of dtype LINE or FENCE from a region at offset, a copy."""
    data = segment.read(offset + first * kind.itemsize, count * kind.itemsize)
    return np.frombuffer(data, dtype=kind)


def read_packed(segment: Readable, offset: int, width: int, first: int, count: int) -> Keys:
    """Fields [first, first + count) of the packed stream at offset: uint64[count]."""
    first_byte = first * width // 64 * 8
    end_byte = -(-(first + count) * width // 8)
    data = segment.read(offset + first_byte, end_byte - first_byte)
    words = np.frombuffer(data + bytes(16 + -len(data) % 8), dtype="<u8")
    bits = np.arange(count, dtype=np.int64) * width + (first * width - first_byte * 8)
    at, shift = bits >> 6, (bits & 63).astype(np.uint64)
    # In two steps, as a shift by 64 is none.
    values: Keys = words[at + 1] << np.uint64(1) << (np.uint64(63) - shift)
    values |= words[at] >> shift
    return values & np.uint64((1 << width) - 1)


def read_bits(segment: Readable, offset: int, first: int, count: int) -> Array:
    """Bits [first, first + count) of the stream at offset, uint8[count]; first is a multiple of 8."""
    data = segment.read(offset + first // 8, -(-count // 8))
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little", count=count)


def slots_of(keys: Keys, table: TableRecord) -> Counts:
    """The slot of each key of a table: int64[n]. CorruptStore for a key of more bits than the table's keys have."""
    if table.key_bits < layout.MAX_KEY_BITS and len(keys) and int(keys.max()) >> table.key_bits:
        raise CorruptStore("key", hexadecimal(keys.max(), layout.MAX_KEY_BITS), f"a key of {table.key_bits} bits")
    if table.slot_bits == 0:
        return np.zeros(len(keys), dtype=np.int64)
    return (keys >> np.uint64(table.slot_shift)).view(np.int64)


def line_widths(lines: Array) -> Counts:
    """Bits of the inline block of each slot of directory lines: int64[12 * lines]; below 0 where ends run backwards."""
    widths: Counts = lines["ends"].astype(np.int64)
    widths[:, 1:] -= lines["ends"][:, :-1]
    return widths.ravel()


def line_flags(lines: Array) -> Array:
    """Whether each slot of directory lines is large: bool[12 * lines]."""
    flags = lines["word"] >> np.uint64(layout.PAYLOAD_OFFSET_BITS)
    bits = flags[:, np.newaxis] >> np.arange(layout.GROUP_SLOTS, dtype=np.uint64)
    return (bits & np.uint64(1)).astype(bool).ravel()
