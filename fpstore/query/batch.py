"""Large batches: stream all keys of a segment past the sorted queries.

The batch design of the paper (section 4): where a batch is large against the store, decoding every table once
and joining it with the queries costs less than looking each query up. The joins are those of pairs.py, with queries on
one side.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import expm1
from typing import Self

import numpy as np

from fpstore._pairs import Queries
from fpstore._sort import sort_permuted
from fpstore.fingerprints import repeats
from fpstore.merging import in_order, ordered_with_places
from fpstore.plans.planner import beyond, pattern_count
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.query.pairs import load_windows, window_flips, window_shape
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Keys

# Keys decoded at a time, on average: enough to hide the calls, few enough for the third-level cache.
CHUNK_KEYS = 1 << 20
# What a stream takes on one thread. Fitted to what tools/bench_batches.py measures: k = 1 to 10, every aim, 10^5 to
# 10^7 keys and 10^3 to 10^6 queries, uniform and clustered, Intel Xeon, real-time priority, two cores little used. Of
# the batches over 10 ms 96 % take 0.7 to 1.4 of what is said.
DECODE_NS = 8.0  # one key of a table decoded and put in its window; 1.6 of them decode, the rest is memory that is new
ORDER_NS = 20.0  # one query of a table permuted and put in order
FLIP_NS = 11000.0  # one flip of the windows of a chunk begun, and what it found put together
JOIN_NS = 5.0  # one query and one flip: its window located and begun
KEY_NS = 0.5  # and compared with one key there
# And more where neither a second-level cache nor the query before it has fetched the window. Queries in order come to
# the same lines, or the next ones, where there is one in some 32 keys.
FAR_JOIN_NS = 16.0
NEAR_BYTES = 2 << 20
SHARED_KEYS = 32

_NONE = np.empty((0, 3), dtype=np.uint64)
# A table, and a chunk of it.
Piece = tuple[int, int]


@dataclass(frozen=True)
class Asked:
    """Queries, each once, and for which of all that were asked each stands.

    distinct: uint64[d], or codes, uint64[d, words], strictly increasing. numbers: int64[m], of all; those of
    distinct[i] are those from bounds[i] (int64[d + 1]) on.
    """

    distinct: Keys
    numbers: Counts
    bounds: Counts

    @classmethod
    def of(cls, queries: Keys) -> Self:
        """Of queries in any order."""
        return cls.of_sorted(*ordered_with_places(queries))

    @classmethod
    def of_sorted(cls, queries: Keys, numbers: Counts) -> Self:
        """Of queries in order, which have these numbers."""
        starts = np.flatnonzero(~repeats(queries))
        return cls(queries[starts], numbers, np.append(starts, len(queries)))

    def repeats(self, rows: Counts) -> Counts:
        """How many of all that were asked each of these distinct queries stands for."""
        counts: Counts = self.bounds[rows + 1] - self.bounds[rows]
        return counts

    def spread(self, rows: Counts) -> tuple[Counts, Counts]:
        """Row i, of the distinct query rows[i], once for each query that this stands for.

        Which row each is a copy of, and the number of its query.
        """
        repeats = self.repeats(rows)
        copy = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return np.repeat(np.arange(len(rows)), repeats), self.numbers[np.repeat(self.bounds[rows], repeats) + copy]


def streaming_nanoseconds(segment: Segment, query_count: int, distance: int) -> float:
    """What a batch would take on one thread, to be held against the planner's prediction for single queries."""
    return sum(_table_nanoseconds(segment, index, query_count, distance) for index in range(len(segment.tables)))


def _table_nanoseconds(segment: Segment, index: int, query_count: int, distance: int) -> float:
    window_bits, flips = window_shape(segment, index, distance)
    n, chunks, patterns = (
        segment.key_count,
        1 << _split_bits(segment, index, distance),
        pattern_count(window_bits, flips),
    )
    near_it = SHARED_KEYS * query_count / max(1, n)
    alone = -expm1(-near_it) / near_it if near_it else 1.0
    far_ns = FAR_JOIN_NS * alone * beyond(NEAR_BYTES, 8 * n / chunks)
    joined = patterns * (JOIN_NS + far_ns + KEY_NS * n / (1 << window_bits))
    return DECODE_NS * n + FLIP_NS * patterns * chunks + (ORDER_NS + joined) * query_count


def pieces(segment: Segment, distance: int) -> list[Piece]:
    """What a segment is streamed in: the number of a table, and of a chunk of it. Just one finds each match."""
    tables = range(len(segment.tables))
    return [(index, chunk) for index in tables for chunk in range(1 << _split_bits(segment, index, distance))]


def piece_nanoseconds(segment: Segment, query_count: int, distance: int) -> list[float]:
    """What each of the pieces takes, of streaming_nanoseconds."""
    each: list[float] = []
    for index in range(len(segment.tables)):
        chunks = 1 << _split_bits(segment, index, distance)
        each += [_table_nanoseconds(segment, index, query_count, distance) / chunks] * chunks
    return each


def stream(
    segment: Segment,
    queries: Keys,
    distance: int,
    run: Callable[..., Iterable[Array]] = map,
    most: int = MAX_MATCHES,
) -> tuple[Counts, Keys, Array]:
    """What `_probe.search` returns, found by streaming; run: `Threads.map`, to stream several pieces at once.

    TooManyMatches for more than most.
    """
    room = Room(len(queries), most)
    asked = Asked.of(queries)
    keys = [_permuted(segment, index, asked.distinct) for index in range(len(segment.tables))]

    def work(piece: Piece) -> Array:
        found = [_NONE]
        for rows in _stream_piece(segment, piece, keys[piece[0]], distance):
            found.append(rows)
            room.take(len(rows))
        return np.concatenate(found)

    rows = np.concatenate([_NONE, *run(work, pieces(segment, distance))])
    return _by_query(in_order([rows[:, 0], rows[:, 2], rows[:, 1]]), asked, most)


def stream_some(segment: Segment, some: Sequence[Piece], distinct: Keys, distance: int) -> Iterator[Array]:
    """What some of the pieces, in their order, find of distinct queries (uint64[d], increasing), a batch at a time.

    uint64[m, 3], query, stored fingerprint, distance; in no order.
    """
    for index, own in groupby(some, key=lambda piece: piece[0]):
        keys = _permuted(segment, index, distinct)
        for piece in own:
            yield from _stream_piece(segment, piece, keys, distance)


def _permuted(segment: Segment, index: int, distinct: Keys) -> Keys:
    """Queries as keys of a table, sorted: as many, as they differ."""
    keys = np.empty_like(distinct)
    sort_permuted(segment.tables[index].prefix_mask, distinct, keys, segment.bits)
    return keys


def _by_query(rows: Sequence[Keys], asked: Asked, most: int) -> tuple[Counts, Keys, Array]:
    """Rows of distinct queries, sorted by query, distance and fingerprint, as those of the queries they stand for."""
    distinct, distance, fingerprint = rows
    of_row = np.searchsorted(asked.distinct, distinct)
    Room(len(asked.numbers), most).take(int(asked.repeats(of_row).sum()))
    at, query = asked.spread(of_row)
    ordered, by_query = ordered_with_places(query)
    at = at[by_query]
    return ordered.view(np.int64), fingerprint[at], distance[at].astype(np.uint16)


def _stream_piece(segment: Segment, piece: Piece, queries: Keys, distance: int) -> Iterator[Array]:
    """The matches of one chunk of one table, of queries as its keys: uint64[m, 3], query, stored, distance."""
    index, chunk = piece
    split_bits = _split_bits(segment, index, distance)
    window_bits, flips = window_flips(segment, index, distance)
    keys = load_windows(segment, index, window_bits, chunk, split_bits)
    for mask in flips:
        left = _range(queries, chunk ^ (mask >> (segment.bits - split_bits)), split_bits, segment.bits)
        join = Queries(segment.view, index, left, keys, distance, mask)
        while not join.done:
            yield np.column_stack(join.next())


def _split_bits(segment: Segment, index: int, distance: int) -> int:
    """Into how many aligned chunks, as a power of two, a table is cut."""
    wanted = max(0, (segment.key_count // CHUNK_KEYS).bit_length() - 1)
    return min(wanted, window_shape(segment, index, distance)[0], segment.tables[index].slot_bits)


def _range(keys: Keys, chunk: int, split_bits: int, bits: int) -> Keys:
    """The sorted keys of so many bits whose top split_bits bits are chunk."""
    if split_bits == 0:
        return keys
    first = np.searchsorted(keys, np.uint64(chunk << (bits - split_bits)))
    last = np.uint64(((chunk + 1) << (bits - split_bits)) - 1)
    return keys[first : np.searchsorted(keys, last, side="right")]
