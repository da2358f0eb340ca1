"""The exact scan of a segment in pieces, which threads share: every key decoded once, for all queries of a batch.

Finds what looking up finds, at any distance, in the same order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from fpstore._scan import Scanner
from fpstore.errors import CorruptStore
from fpstore.format import CODEC_RAW, FENCE_BYTES, GROUP_SLOTS, directory_bytes
from fpstore.merging import each_once, first_few
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Keys

# Keys of a piece, on average: of few queries enough to hide the call, and few enough that threads end together; of many
# so many that a piece takes some 10 ms. One thread has no other to wait for, and Ctrl-C is noticed within such a time.
PIECE_KEYS = 1 << 18
ALONE_TIMES = 16  # so many times as many where no other thread takes any
RAW_TIMES = 8  # so many times as many where keys are not coded, and are compared in the time that decoding takes of one
LEAST_KEYS = 1 << 16
PIECE_COMPARISONS = 1 << 28
# Queries for which a key is decoded once: decoding is then 1 % of the work.
GROUP_QUERIES = 4096

_own = threading.local()

# query int64[r], fingerprint uint64[r], distance uint16[r]
Found = tuple[Counts, Keys, Array]
Run = Callable[..., Iterable[tuple[Counts, Keys, Array, int]]]


def scan(segment: Segment, queries: Keys, distance: int, run: Run = map, most: int = MAX_MATCHES) -> Found:
    """What `_probe.search` returns, at any distance; run: `Threads.map`, to scan several pieces at once.

    TooManyMatches for more than most.
    """
    room = Room(len(queries), most)

    def group(own: Keys) -> Found:
        def work(scanner: Scanner, first: int, end: int) -> tuple[Counts, Keys, Array, int]:
            columns = scanner.search(segment.view, own, distance, first, end, most=room.left)
            room.take(len(columns[0]))
            return columns

        return _pieces(segment, len(own), work, run)

    starts = range(0, len(queries), GROUP_QUERIES)
    return whole([numbered(group(queries[start : start + GROUP_QUERIES]), start) for start in starts])


def scan_nearest(
    segment: Segment,
    queries: Keys,
    distance: int,
    keep: int,
    bits: Array | None,
    fingerprints: Keys | None,
    run: Run = map,
) -> Found:
    """What `_probe.nearest` returns, at any distance; run: as for scan.

    Each piece has the nearest so far of those before it, and looks for nothing further.
    """

    def group(own: slice) -> Found:
        asked = queries[own]
        after = (None, None) if bits is None or fingerprints is None else (bits[own], fingerprints[own])
        limits = np.full(len(asked), distance, dtype=np.uint16)

        def work(scanner: Scanner, first: int, end: int) -> tuple[Counts, Keys, Array, int]:
            columns = scanner.search(
                segment.view,
                asked,
                distance,
                first,
                end,
                keep=keep,
                limits=limits,
                after_bits=after[0],
                after_fingerprints=after[1],
            )
            # Where another thread has lowered one meanwhile this may be the higher one, which is as right.
            counts = np.bincount(columns[0], minlength=len(asked))
            full = np.flatnonzero(counts == keep)
            limits[full] = np.minimum(limits[full], columns[2][np.cumsum(counts)[full] - 1])
            return columns

        query, fingerprint, distances = _pieces(segment, len(asked), work, run)
        kept = first_few(query, keep)
        return query[kept], fingerprint[kept], distances[kept]

    starts = range(0, len(queries), GROUP_QUERIES)
    return whole([numbered(group(slice(start, start + GROUP_QUERIES)), start) for start in starts])


def scan_any(segment: Segment, query: Keys, distance: int) -> bool:
    """Whether anything is within distance of the one query; stops at the first."""
    with _scanner() as scanner:
        return any(
            len(scanner.search(segment.view, query, distance, first, end, first_only=True)[0])
            for first, end in _ranges(segment, 1, ALONE_TIMES)
        )


@contextmanager
def _scanner() -> Iterator[Scanner]:
    """This thread's. Who comes in the midst of its scan, as a handler of a signal may, has another."""
    scanner = _own.__dict__.pop("scanner", None) or Scanner()
    try:
        yield scanner
    finally:
        _own.scanner = scanner


def _pieces(
    segment: Segment, query_count: int, work: Callable[[Scanner, int, int], tuple[Counts, Keys, Array, int]], run: Run
) -> Found:
    """What work finds in each piece of table 0, in the order of answers. CorruptStore where not all keys are there."""

    def piece(range_: tuple[int, int]) -> tuple[Counts, Keys, Array, int]:
        _ask(segment, *range_)
        with _scanner() as scanner:
            return work(scanner, *range_)

    parts = list(run(piece, _ranges(segment, query_count, ALONE_TIMES if run is map else 1)))
    count = sum(part[3] for part in parts)
    if count != segment.key_count:
        raise CorruptStore("table 0", f"{count} keys", segment.key_count)
    parts = [part for part in parts if len(part[0])] or parts[:1]
    if len(parts) == 1:
        return parts[0][:3]
    query, fingerprint, bits = (np.concatenate([part[i] for part in parts]) for i in range(3))
    query, bits, fingerprint = each_once([query, bits, fingerprint])
    return query, fingerprint, bits


def _ask(segment: Segment, first: int, end: int) -> None:
    """Have what a piece reads come from the disk together, as if keys lay evenly; the rest comes by pages."""
    table = segment.tables[0]
    slots = 1 << table.slot_bits
    for offset, size in (
        (table.payload_offset, -(-table.payload_bits // 8)),
        (table.directory_offset, 0 if table.block_bytes else directory_bytes(table.slot_bits)),
        (table.fences_offset, FENCE_BYTES * table.fence_count),
    ):
        segment.soon(offset + size * first // slots, offset - (-size * end // slots))


def _ranges(segment: Segment, query_count: int, times: int = 1) -> list[tuple[int, int]]:
    """The slots of each piece, whole groups of them. times: how many times as large as for several threads."""
    table, key_count = segment.tables[0], segment.key_count
    slots, most = 1 << table.slot_bits, PIECE_KEYS * max(times, RAW_TIMES if table.codec == CODEC_RAW else 1)
    keys = min(most, max(LEAST_KEYS, PIECE_COMPARISONS // query_count))
    groups = -(-slots // GROUP_SLOTS)
    step = GROUP_SLOTS * -(-groups // max(1, key_count // keys))
    return [(first, min(first + step, slots)) for first in range(0, slots, step)]


def numbered(found: Found, first: int) -> Found:
    """What was found for queries that are numbered from first."""
    return found[0] + first, *found[1:]


def whole(found: list[Found]) -> Found:
    """Those of groups of queries that follow each other as one."""
    if len(found) == 1:
        return found[0]
    empty = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint16))
    query, fingerprint, bits = (np.concatenate([empty[i], *(part[i] for part in found)]) for i in range(3))
    return query, fingerprint, bits
