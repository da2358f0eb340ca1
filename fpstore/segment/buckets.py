"""Finds the keys of a segment that very many ids have, by the samples of its id groups, and reads little else."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fpstore import format as layout
from fpstore._probe import WantedIds
from fpstore.format import ID_KIND_MANY, SAMPLE_BITS, SAMPLE_BYTES
from fpstore.segment.fields import read_bits
from fpstore.segment.reader import Segment
from fpstore.types import Counts

# Every key of so many ids is found: among the bits of as many there is a block of a sample without a one.
CROWDED_IDS = 2 * SAMPLE_BITS
PIECE_SAMPLES = 1 << 16


class Bucket(NamedTuple):
    """A key, how many ids have it, and the least of them."""

    key: int
    id_count: int
    least_id: int


def largest_buckets(segment: Segment, most: int) -> tuple[list[Bucket], int]:
    """Of the keys of CROWDED_IDS ids or more those of the most, at most so many; and how many more keys have half of
    that or more, as far as the samples tell.

    Reads a hundredth of a bit for each id, and a page or two for each that is named. CorruptStore for damaged pages.
    """
    if segment.record.id_kind != ID_KIND_MANY or segment.ids is None:
        return [], 0
    runs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *_runs(segment)])
    runs = runs[np.argsort(-(runs[:, 1] - runs[:, 0]), kind="stable")]
    # Of two groups the one with fewer whole blocks may have more ids, but by less than two blocks.
    spans = runs[:, 1] - runs[:, 0]
    near = spans >= (spans[most - 1] - 1 if len(spans) > most else 0)
    found = sorted((_bucket(segment, first, end) for first, end in runs[near].tolist()), key=lambda one: -one.id_count)
    named = [bucket for bucket in found[:most] if bucket.id_count >= CROWDED_IDS]
    return named, len(runs) - len(named)


def _runs(segment: Segment) -> Iterator[Counts]:
    """Where no group begins: rows (first, end) of blocks of group bits without a one, each of one group."""
    record = segment.record
    count = layout.samples_bytes(record.key_count, record.id_count) // SAMPLE_BYTES
    held = np.zeros((0, 2), dtype=np.int64)  # the last run, which may go on
    for first in range(0, count - 1, PIECE_SAMPLES):
        end = min(first + PIECE_SAMPLES + 1, count)
        start, stop = (record.samples_offset + SAMPLE_BYTES * at for at in (first, end))
        segment.view.check(start, stop, "group samples")
        samples = np.frombuffer(segment.read(start, stop - start), dtype="<u8")
        empty = np.flatnonzero(samples[1:] == samples[:-1]) + first
        empty = empty[empty < (record.key_count + record.id_count) // SAMPLE_BITS]  # the last may be short
        begins = np.flatnonzero(np.diff(empty, prepend=-2) != 1)
        ends = np.append(begins[1:], len(empty)) - 1
        rows = np.column_stack([empty[begins], empty[ends] + 1]) if len(empty) else held[:0]
        if len(held) and len(rows) and held[-1, 1] == rows[0, 0]:
            rows[0, 0] = held[-1, 0]
        else:
            yield held
        yield rows[:-1]
        held = rows[-1:]
    yield held


def _bucket(segment: Segment, first: int, end: int) -> Bucket:
    """That of the group which has blocks [first, end) of group bits."""
    record, ids = segment.record, segment.ids
    assert ids is not None
    bit_count = record.key_count + record.id_count
    begin = (first - 1) * SAMPLE_BITS + int(np.flatnonzero(_block(segment, first - 1))[-1])
    behind = np.flatnonzero(_block(segment, end)).tolist() if end * SAMPLE_BITS < bit_count else []
    stop = end * SAMPLE_BITS + behind[0] if behind else bit_count
    sample = record.samples_offset + SAMPLE_BYTES * first
    rank = int.from_bytes(segment.read(sample, SAMPLE_BYTES), "little") - 1
    value = begin - rank
    with segment.naming:
        least = ids.values(np.array([value], dtype=np.uint64), np.ones(1, dtype=np.uint64))
        _, keys, _ = ids.find(WantedIds(least), value, value + 1)
    return Bucket(int(keys[0]), stop - begin - 1, int(least[0]))


def _block(segment: Segment, block: int) -> Counts:
    record = segment.record
    bits = min(SAMPLE_BITS, record.key_count + record.id_count - block * SAMPLE_BITS)
    start = record.groups_offset + block * SAMPLE_BITS // 8
    with segment.naming:
        segment.view.check(start, start + -(-bits // 8), "id groups")
    return read_bits(segment, record.groups_offset, block * SAMPLE_BITS, bits)
