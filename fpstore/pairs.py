"""All pairs of stored fingerprints within a distance, straight from the sorted tables of a segment.

A table catches the pairs whose prefixes differ in at most its number of flips; they stand in the same window of
neighbouring keys, or in windows that differ by a flip, which are joined by walking both in order. Each pair is found
once: by the first table that catches it. Keys are held a chunk at a time, in a stated budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fpstore._pairs import Join
from fpstore.segment import Segment
from fpstore.types import Array, Keys

KEY_BYTES = 8
# Windows this large on average are compared whole; smaller ones would need more joins.
WINDOW_KEYS = 2


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs as columns, first < second: uint64[m], uint64[m], distance uint8[m]; in no particular order."""

    first: Keys
    second: Keys
    distance: Array

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.first.tolist(), self.second.tolist(), self.distance.tolist(), strict=True)


def segment_joins(segment: Segment, distance: int, memory_bytes: int) -> Iterator[tuple[Join, float]]:
    """The joins that find every pair of the segment once, each with the share of the work that lies before it.

    Raises ValueError where one aligned range of keys that cannot be split further does not fit the budget twice.
    """
    if segment.key_count < 2:
        return
    for index in range(len(segment.tables)):
        for join, share in _table_joins(segment, index, distance, memory_bytes):
            yield join, (index + share) / len(segment.tables)


def _table_joins(segment: Segment, index: int, distance: int, memory_bytes: int) -> Iterator[tuple[Join, float]]:
    table = segment.tables[index]
    prefix_bits = table.prefix_mask.bit_count()
    dense_bits = max(0, (segment.key_count // WINDOW_KEYS).bit_length() - 1)
    window_bits = min(prefix_bits, dense_bits)
    flips = [
        sum(1 << (63 - bit) for bit in bits)
        for count in range(min(table.flips, window_bits) + 1)
        for bits in combinations(range(window_bits), count)
    ]
    split_bits = _split_bits(segment, index, min(window_bits, table.slot_bits), memory_bytes)
    chunk_count = 1 << split_bits
    inside = [mask for mask in flips if mask >> (64 - split_bits) == 0]
    across: dict[int, list[int]] = {}
    for mask in flips:
        if mask >> (64 - split_bits):
            across.setdefault(mask >> (64 - split_bits), []).append(mask)
    for chunk in range(chunk_count):
        left = _load(segment, index, chunk, split_bits)
        for mask in inside:
            yield Join(segment.view, index, left, left, distance, window_bits, mask), chunk / chunk_count
        for partner_bits, masks in across.items():
            if chunk & (1 << (partner_bits.bit_length() - 1)):
                continue  # met from the other side
            right = _load(segment, index, chunk ^ partner_bits, split_bits)
            for mask in masks:
                yield Join(segment.view, index, left, right, distance, window_bits, mask), chunk / chunk_count


def _load(segment: Segment, index: int, chunk: int, split_bits: int) -> Keys:
    slots = 1 << (segment.tables[index].slot_bits - split_bits)
    parts = list(segment.keys(index, chunk * slots, (chunk + 1) * slots))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _split_bits(segment: Segment, index: int, most: int, memory_bytes: int) -> int:
    """The fewest top bits that split the table into chunks of which two, and one being put together, fit the budget."""
    room = memory_bytes // (3 * KEY_BYTES)
    if segment.key_count <= room:
        return 0
    counts = np.zeros(1 << most, dtype=np.int64)
    shift = np.uint64(64 - most)
    for keys in segment.keys(index):
        counts += np.bincount((keys >> shift).astype(np.int64), minlength=1 << most)
    for bits in range(1, most + 1):
        largest = int(counts.reshape(1 << bits, -1).sum(axis=1).max())
        if largest <= room:
            return bits
    raise ValueError(
        f"{segment.path.name}, table {index}: {int(counts.max())} keys share {most} bits; "
        f"finding their pairs needs a memory budget of {int(counts.max()) * 3 * KEY_BYTES} bytes, not {memory_bytes}"
    )
