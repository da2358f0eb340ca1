"""The fences of a table in order, and what a key's code takes: what a check of blocks goes by."""

from collections.abc import Iterator

import numpy as np

from fpstore import format as layout
from fpstore.checks import hexadecimal
from fpstore.format import FENCE, TableRecord
from fpstore.segment.fields import read_records
from fpstore.segment.pages import fault
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Keys

PIECE_FENCES = 1 << 14


def first_of(wrong: Array) -> int | None:
    """The index of the first true item."""
    return int(wrong.argmax()) if wrong.any() else None


class Fences:
    """The fences of a table, taken in order; every one is checked to lie behind the one before."""

    def __init__(self, segment: Segment, table: int) -> None:
        self._segment = segment
        self._table = table
        self._record = segment.tables[table]
        self._read = 0
        self._last_key = -1
        self._waiting = np.empty(0, dtype=FENCE)

    def through(self, key: int) -> Iterator[tuple[int, Array]]:
        """(index of the first, fences) of the next fences whose last key is at most key, in pieces."""
        while len(self._waiting) or self._read < self._record.fence_count:
            if not len(self._waiting):
                self._refill()
            first = self._read - len(self._waiting)
            taken = int(np.searchsorted(self._waiting["last_key"], np.uint64(key), side="right"))
            piece, self._waiting = self._waiting[:taken], self._waiting[taken:]
            if taken:
                yield first, piece
            if len(self._waiting):
                return

    def _refill(self) -> None:
        count = min(PIECE_FENCES, self._record.fence_count - self._read)
        fences = read_records(self._segment, FENCE, self._record.fences_offset, self._read, count)
        keys = fences["last_key"]
        backwards = np.concatenate([[int(keys[0]) <= self._last_key], keys[1:] <= keys[:-1]])
        if (index := first_of(backwards)) is not None:
            before, bits = int(keys[index - 1]) if index else self._last_key, self._record.key_bits
            where = f"table {self._table}, fence {self._read + index}"
            raise fault(f"{where}, last key", hexadecimal(keys[index], bits), f"above {hexadecimal(before, bits)}")
        if int(keys[-1]) >> self._record.key_bits:
            where = f"table {self._table}, fence {self._read + count - 1}, last key"
            raise fault(where, hexadecimal(keys[-1], layout.MAX_KEY_BITS), f"a key of {self._record.key_bits} bits")
        self._last_key, self._waiting = int(keys[-1]), fences
        self._read += count


def code_bits(record: TableRecord, keys: Keys, before: Keys) -> Counts:
    """Bits that the code of each key of a table takes behind the key before it: int64[n]."""
    if record.codec == layout.CODEC_RAW:
        return np.full(len(keys), record.key_bits, dtype=np.int64)
    deltas = keys ^ before if record.codec == layout.CODEC_XOR else keys - before
    if record.codec == layout.CODEC_RICE:
        quotients = deltas >> np.uint64(record.rice_bits)
        escaped = layout.MAX_RICE_QUOTIENT + layout.RICE_DELTA_BITS
        short = np.minimum(quotients, np.uint64(layout.MAX_RICE_QUOTIENT)).astype(np.int64) + 1 + record.rice_bits
        return np.where(quotients < layout.MAX_RICE_QUOTIENT, short, escaped)
    # A double holds either half of a word as it is.
    low, high = ((deltas >> np.uint64(shift) & np.uint64(0xFFFFFFFF)).astype(np.float64) for shift in (0, 32))
    symbols = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)
    return np.array(record.code_lengths, dtype=np.int64)[symbols] + np.maximum(symbols - 1, 0)
