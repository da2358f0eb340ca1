"""All pairs of stored fingerprints within a distance, straight from the sorted tables of a segment.

A table catches the pairs whose prefixes differ in at most its number of flips; they stand in the same window of
neighbouring keys, or in windows that differ by a flip, which are joined by walking both in order. Each pair is found
once: by the first table that catches it. Keys are held a chunk at a time, in a stated budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fpstore._pairs import Join, Windows
from fpstore.segment import Segment
from fpstore.types import Array, Keys

# Of each key of a chunk: 8 in the chunk, in its partner, in the next partner and in the pieces that this is put
# together from, and 2 in each of their windows.
BYTES_PER_CHUNK_KEY = 40
# Windows this large on average are compared whole; smaller ones would need more joins.
WINDOW_KEYS = 4
MOST_WINDOW_BITS = 40
# Chunks are chosen by a counter for each possible one, which takes an eighth of the budget at most, or half a MiB.
LEAST_COUNTER_BITS = 16
COUNTER_SHARE_BYTES = 8 * 8


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

    Raises ValueError where one aligned range of keys that cannot be split further does not fit the budget.
    """
    if segment.key_count < 2:
        return
    for index in range(len(segment.tables)):
        for join, share in _table_joins(segment, index, distance, memory_bytes):
            yield join, (index + share) / len(segment.tables)


def window_flips(segment: Segment, index: int) -> tuple[int, list[int]]:
    """How many top bits make a window in this table, and the masks by which joined windows differ."""
    table = segment.tables[index]
    dense_bits = min(MOST_WINDOW_BITS, max(0, (segment.key_count // WINDOW_KEYS).bit_length() - 1))
    window_bits = min(table.prefix_mask.bit_count(), dense_bits)
    flips = [
        sum(1 << (63 - bit) for bit in bits)
        for count in range(min(table.flips, window_bits) + 1)
        for bits in combinations(range(window_bits), count)
    ]
    return window_bits, flips


def _table_joins(segment: Segment, index: int, distance: int, memory_bytes: int) -> Iterator[tuple[Join, float]]:
    table = segment.tables[index]
    window_bits, flips = window_flips(segment, index)
    split_bits = _split_bits(segment, index, min(window_bits, table.slot_bits), memory_bytes)
    chunk_count = 1 << split_bits
    inside = [mask for mask in flips if mask >> (64 - split_bits) == 0]
    across: dict[int, list[int]] = {}
    for mask in flips:
        if mask >> (64 - split_bits):
            across.setdefault(mask >> (64 - split_bits), []).append(mask)
    for chunk in range(chunk_count):
        share = chunk / chunk_count
        own = load_windows(segment, index, window_bits, chunk, split_bits)
        for mask in inside:
            yield Join(segment.view, index, own, own, distance, mask), share
        for partner_bits, masks in across.items():
            if chunk & (1 << (partner_bits.bit_length() - 1)):
                continue  # met from the other side
            partner = load_windows(segment, index, window_bits, chunk ^ partner_bits, split_bits)
            for mask in masks:
                yield Join(segment.view, index, own, partner, distance, mask), share


def load_windows(segment: Segment, index: int, window_bits: int, chunk: int, split_bits: int) -> Windows:
    """The keys of a table whose top split_bits bits are chunk, with their windows."""
    slots = 1 << (segment.tables[index].slot_bits - split_bits)
    parts = list(segment.keys(index, chunk * slots, (chunk + 1) * slots))
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    windows = 1 << (window_bits - split_bits)
    return Windows(keys, window_bits, chunk * windows, windows)


def _split_bits(segment: Segment, index: int, most: int, memory_bytes: int) -> int:
    """The fewest top bits that split the table into chunks which fit the budget, with their partners."""
    room = memory_bytes // BYTES_PER_CHUNK_KEY
    if segment.key_count <= room:
        return 0
    most = min(most, max(LEAST_COUNTER_BITS, (memory_bytes // COUNTER_SHARE_BYTES).bit_length() - 1))
    counts = np.zeros(1 << most, dtype=np.int64)
    shift = np.uint64(64 - most)
    for keys in segment.keys(index):
        places = (keys >> shift).astype(np.int64)
        here = np.bincount(places - places[0])  # of the few that these keys, which are sorted, reach
        counts[places[0] : places[0] + len(here)] += here
    for bits in range(1, most + 1):
        largest = int(counts.reshape(1 << bits, -1).sum(axis=1).max())
        if largest <= room:
            return bits
    crowd = int(counts.max())
    raise ValueError(
        f"{segment.path.name}, table {index}: {crowd} keys share {most} bits; "
        f"finding their pairs needs a memory budget of {crowd * BYTES_PER_CHUNK_KEY} bytes, not {memory_bytes}"
    )
