"""One slot of a table read by hand: its blocks, and of each key the bits that code it, as docs/format.md tells.

Of a table of blocks, a block stands for a slot.

The way of tests/plain_codec.py, for people to look at; the compiled decoder is what answers. Nothing that is read is
taken on trust, and no page need have been checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.format import FENCE, LINE, PAYLOAD_OFFSET_BITS, TableRecord
from fpstore.huffman import canonical_codes
from fpstore.segment.fields import Readable, line_flags, line_widths, read_records, slots_of

PIECE_LINES = 1 << 15
_OFFSET_MASK = (1 << PAYLOAD_OFFSET_BITS) - 1


class HasTables(Readable, Protocol):
    """A segment, or a copy of one."""

    tables: tuple[TableRecord, ...]


class CodedKey(NamedTuple):
    """A key, what was coded of it (of codec raw the key itself), and the bits, in the order of the stream."""

    key: int
    delta: int
    code: str


@dataclass(frozen=True, slots=True)
class Block:
    """Bits [first_bit, first_bit + bits) of the payload. before: the key before its first, or the slot's lowest.

    fence: the index of its fence, and last_key what that says; None of a slot that has a single block.
    """

    first_bit: int
    bits: int
    before: int
    fence: int | None = None
    last_key: int | None = None


class SlotBlocks:
    """The blocks of a slot, read when they are asked for. CorruptStore where they leave the payload."""

    def __init__(self, segment: HasTables, table: int, slot: int) -> None:
        """ValueError for a slot that the table has not."""
        self._segment, self.record = segment, segment.tables[table]
        if not 0 <= slot < slot_count(self.record):
            raise ValueError(f"slot: found {slot}, expected 0..{slot_count(self.record) - 1}")
        self._slot = slot
        if self.record.block_bytes:
            self.is_large, self._fences = True, range(slot, slot + 1)
            self.lowest_key = self._fence(slot - 1)[0] + 1 if slot else 0
            return
        self.lowest_key = slot << self.record.slot_shift
        line, index = divmod(slot, layout.GROUP_SLOTS)
        found = read_records(segment, LINE, self.record.directory_offset, line, 1)
        word, ends = int(found["word"][0]), [0, *found["ends"][0].tolist()]
        self.is_large = bool(line_flags(found)[index])
        self._inline = ((word & _OFFSET_MASK) + ends[index], ends[index + 1] - ends[index])
        self._fences = range(self._first_fence(slot), self._first_fence(slot + 1)) if self.is_large else range(0)

    def __len__(self) -> int:
        return len(self._fences) if self.is_large else int(self._inline[1] > 0)

    def __getitem__(self, index: int) -> Block:
        if not 0 <= index < len(self):
            raise IndexError(index)
        if not self.is_large:
            return self._expect_inside(Block(*self._inline, self.lowest_key))
        fence = self._fences[index]
        last_key, word = self._fence(fence)
        before = self._fence(fence - 1)[0] if index else self.lowest_key
        return self._expect_inside(
            Block(word & _OFFSET_MASK, word >> PAYLOAD_OFFSET_BITS, before, fence=fence, last_key=last_key)
        )

    def keys(self, index: int) -> Iterator[CodedKey]:
        """Of one block. CorruptStore where its bits are no code, after those keys that are."""
        block = self[index]
        first, end = block.first_bit // 8, -(-(block.first_bit + block.bits) // 8)
        stream = int.from_bytes(self._segment.read(self.record.payload_offset + first, end - first), "little")
        bits = f"{stream >> block.first_bit % 8:0{block.bits}b}"[::-1][: block.bits]
        at, before = 0, block.before
        decode = _Code(self.record)
        while at < len(bits):
            try:
                delta, size = decode(bits, at) if at or not self.record.block_bytes else decode.first(bits)
            except ValueError:
                where = f"slot {self._slot}, block {index}, bit {at} of {block.bits}"
                raise CorruptStore(where, bits[at : at + 16], "a code") from None
            codec = layout.CODEC_RAW if at == 0 and self.record.block_bytes else self.record.codec
            before = {layout.CODEC_XOR: before ^ delta, layout.CODEC_RAW: delta}.get(codec, before + delta)
            yield CodedKey(before & (1 << self.record.key_bits) - 1, delta, bits[at : at + size])
            at += size

    def _expect_inside(self, block: Block) -> Block:
        end = block.first_bit + block.bits
        if block.bits < 0 or end > self.record.payload_bits:
            found = f"a block of bits {block.first_bit} to {end}"
            raise CorruptStore(f"slot {self._slot}", found, f"bits of 0..{self.record.payload_bits}")
        return block

    def _fence(self, index: int) -> tuple[int, int]:
        found = read_records(self._segment, FENCE, self.record.fences_offset, index, 1)
        return int(found["last_key"][0]), int(found["word"][0])

    def _first_fence(self, slot: int) -> int:
        """Of fences in order, the first whose slot is not below."""
        first, end = 0, self.record.fence_count
        while first < end:
            middle = (first + end) // 2
            key = np.array([self._fence(middle)[0]], dtype=np.uint64)
            if int(slots_of(key, self.record)[0]) < slot:
                first = middle + 1
            else:
                end = middle
        return first


def slot_count(record: TableRecord) -> int:
    """How many slots a table has to look at, or blocks."""
    return record.fence_count if record.block_bytes else 1 << record.slot_bits


def used_slots(segment: HasTables, table: int) -> Iterator[tuple[int, int, bool]]:
    """(slot, bits of its inline block, whether it is large) of each slot of a table that holds something, in order."""
    record = segment.tables[table]
    if record.block_bytes:
        yield from ((block, 0, True) for block in range(record.fence_count))
        return
    lines = layout.directory_bytes(record.slot_bits) // LINE.itemsize
    for first in range(0, lines, PIECE_LINES):
        found = read_records(segment, LINE, record.directory_offset, first, min(PIECE_LINES, lines - first))
        end = min(len(found) * layout.GROUP_SLOTS, (1 << record.slot_bits) - first * layout.GROUP_SLOTS)
        widths, large = line_widths(found)[:end], line_flags(found)[:end]
        used = np.flatnonzero((widths != 0) | large)
        slots = (used + first * layout.GROUP_SLOTS).tolist()
        yield from zip(slots, widths[used].tolist(), large[used].tolist(), strict=True)


class _Code:
    """Decodes one delta of a table; ValueError where there is none."""

    def __init__(self, record: TableRecord) -> None:
        self._codec, self._rice_bits, self._key_bits = record.codec, record.rice_bits, record.key_bits
        words = canonical_codes(record.code_lengths)
        self._symbols = {
            f"{word:0{length}b}": symbol
            for symbol, (word, length) in enumerate(zip(words, record.code_lengths, strict=True))
            if length
        }

    def first(self, bits: str) -> tuple[int, int]:
        """The key that a block of a table of blocks begins with, and its bits."""
        return _number(bits, 0, self._key_bits), self._key_bits

    def __call__(self, bits: str, at: int) -> tuple[int, int]:
        """The delta that begins at a bit, and how many bits it takes."""
        if self._codec == layout.CODEC_RAW:
            return _number(bits, at, self._key_bits), self._key_bits
        if self._codec == layout.CODEC_RICE:
            zeros = bits[at : at + layout.MAX_RICE_QUOTIENT]
            quotient = zeros.find("1")
            if quotient < 0:
                size = layout.MAX_RICE_QUOTIENT
                return _number(bits, at + size, layout.RICE_DELTA_BITS), size + layout.RICE_DELTA_BITS
            size = quotient + 1
            return quotient << self._rice_bits | _number(bits, at + size, self._rice_bits), size + self._rice_bits
        for size in range(1, layout.MAX_CODE_BITS + 1):
            symbol = self._symbols.get(bits[at : at + size])
            if symbol is not None and at + size <= len(bits):
                below = max(0, symbol - 1)
                high = 1 << below if symbol else 0
                return high | _number(bits, at + size, below), size + below
        raise ValueError("no code word")


def _number(bits: str, at: int, width: int) -> int:
    """The number of `width` bits from there, the lowest first."""
    found = bits[at : at + width]
    if len(found) != width:
        raise ValueError(f"{len(found)} bits, expected {width}")
    return int(found[::-1] or "0", 2)
