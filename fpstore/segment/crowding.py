"""Finds the slots of a segment that hold many keys, and the prefixes that many share, where probes are slow.

A prefix is crowded by skewed fingerprints, or by somebody who knows the plan and aims at it; docs/design.md says
what helps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from fpstore import format as layout
from fpstore.checks import hexadecimal
from fpstore.format import FENCE, LINE
from fpstore.plans.permutation import Permutation
from fpstore.segment.fields import line_widths, read_records, slots_of
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts

RecordType = np.dtype[np.void]
PIECE_RECORDS = 1 << 14
# More keys with one prefix are worth a warning: arranged around a query, they take a fifth of a millisecond to read.
CROWDED_KEYS = 1 << 16
EXAMINED_SLOTS = 4


@dataclass(frozen=True, slots=True)
class CrowdedSlot:
    """A slot with many keys. Its fingerprints x, of so many bits, are those with x & mask == value."""

    slot: int
    mask: int
    value: int
    keys: int
    bits: int = layout.KEY_BITS

    def to_json(self) -> dict[str, Any]:
        """The slot as plain values; mask and value as hex digits."""
        mask, value = hexadecimal(self.mask, self.bits), hexadecimal(self.value, self.bits)
        return {"slot": self.slot, "mask": mask, "value": value, "key_count": self.keys}


def crowding_warnings(segment: Segment) -> tuple[str, ...]:
    """A sentence for each table that has more than CROWDED_KEYS keys with one prefix. CorruptStore as largest_slots."""
    warnings = []
    for table, record in enumerate(segment.tables):
        value, keys = fullest_prefix(segment, table)
        if keys > CROWDED_KEYS:
            share = f"{keys:,} of {segment.key_count:,} fingerprints ({keys / segment.key_count:.0%})"
            condition = f"x & {hexadecimal(record.prefix_mask, segment.bits)} == {hexadecimal(value, segment.bits)}"
            warnings.append(f"table {table}: {share} have {condition}; a probe near them may have to read them all")
    return tuple(warnings)


def fullest_prefix(segment: Segment, table: int) -> tuple[int, int]:
    """The prefix that most keys of a table have, as the bits of a fingerprint, and how many keys of one slot have it.

    Looks into the EXAMINED_SLOTS largest slots; (0, 0) without keys. CorruptStore as largest_slots.
    """
    record = segment.tables[table]
    shift = np.uint64(record.key_bits - record.prefix_mask.bit_count())
    best_key, best = np.uint64(0), 0
    for slot in largest_slots(segment, table, EXAMINED_SLOTS):
        last, run = None, 0
        for keys in segment.keys(table, slot.slot, slot.slot + 1):
            prefixes = keys >> shift
            bounds = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1], [True]]))
            runs = np.diff(bounds)
            runs[0] += run if prefixes[0] == last else 0
            most = int(runs.argmax())
            if runs[most] > best:
                best_key, best = keys[bounds[most]], int(runs[most])
            last, run = prefixes[-1], int(runs[-1])
    value = Permutation(record.prefix_mask, record.key_bits).invert(np.array([best_key], dtype=np.uint64))[0]
    return int(value) & record.prefix_mask, best


def largest_slots(segment: Segment, table: int, count: int) -> tuple[CrowdedSlot, ...]:
    """The `count` most crowded slots of a table, the fullest first; fewer where fewer have keys.

    Reads the directory and the fences, and then the keys of these slots. Large slots come by their number of blocks,
    the others by the size of their code; in a table of blocks all by the blocks that end in them. CorruptStore where
    one of those is damaged.
    """
    if count < 0:
        raise ValueError(f"count: found {count}, expected 0 or more")
    record = segment.tables[table]
    permutation = Permutation(record.prefix_mask, record.key_bits)
    rows = np.zeros((0, 3), dtype=np.int64)
    with segment.naming:
        inline = iter(()) if record.block_bytes else _inline_slots(segment, table, count)
        for more in chain(inline, _large_slots(segment, table, count)):
            rows = _most(np.concatenate([rows, more]), count)
        slots = rows[:, 2].tolist()
        keys = [sum(len(chunk) for chunk in segment.keys(table, slot, slot + 1)) for slot in slots]
    # The first key of each slot, and the bits that all keys of a slot share.
    bounds = [slot << record.slot_shift for slot in slots] + [(1 << record.key_bits) - (1 << record.slot_shift)]
    *values, mask = permutation.invert(np.array(bounds, dtype=np.uint64)).tolist()
    crowded = (CrowdedSlot(*slot, segment.bits) for slot in zip(slots, repeat(mask), values, keys, strict=False))
    return tuple(sorted(crowded, key=lambda slot: (-slot.keys, slot.slot)))


def _inline_slots(segment: Segment, table: int, count: int) -> Iterator[Counts]:
    """Rows (0, bits, slot) of the longest inline blocks of each run of the directory."""
    record = segment.tables[table]
    line_count = layout.directory_bytes(record.slot_bits) // LINE.itemsize
    for first, lines in _records(segment, f"table {table} directory", LINE, record.directory_offset, line_count):
        bits = line_widths(lines)[: (1 << record.slot_bits) - first * layout.GROUP_SLOTS]
        least = int(np.partition(bits, -count)[-count]) if count < len(bits) else 1
        used = np.flatnonzero(bits >= max(1, least))
        yield _most(np.column_stack([np.zeros_like(used), bits[used], first * layout.GROUP_SLOTS + used]), count)


def _large_slots(segment: Segment, table: int, count: int) -> Iterator[Counts]:
    """Rows (blocks, bits, slot) of the large slots."""
    record = segment.tables[table]
    last = np.zeros((0, 3), dtype=np.int64)  # a slot's fences may go on in the next run
    for _, fences in _records(segment, f"table {table} fences", FENCE, record.fences_offset, record.fence_count):
        slots = slots_of(fences["last_key"], record)
        bits = (fences["word"] >> np.uint64(layout.PAYLOAD_OFFSET_BITS)).astype(np.int64)
        rows = np.concatenate([last, np.column_stack([np.ones_like(slots), bits, slots])])
        starts = np.flatnonzero(np.diff(rows[:, 2], prepend=-1))
        rows = np.column_stack([np.add.reduceat(rows[:, :2], starts), rows[starts, 2]])
        last = rows[-1:]
        yield _most(rows[:-1], count)
    yield last


def _records(segment: Segment, where: str, kind: RecordType, offset: int, count: int) -> Iterator[tuple[int, Array]]:
    """(index of the first, records) of each run of a region, its pages checked."""
    for first in range(0, count, PIECE_RECORDS):
        end = min(first + PIECE_RECORDS, count)
        segment.view.check(offset + first * kind.itemsize, offset + end * kind.itemsize, where)
        yield first, read_records(segment, kind, offset, first, end - first)


def _most(rows: Counts, count: int) -> Counts:
    """The `count` rows with the most blocks, the most bits, the lowest slot, in this order."""
    return rows[np.lexsort((rows[:, 2], -rows[:, 1], -rows[:, 0]))[:count]]
