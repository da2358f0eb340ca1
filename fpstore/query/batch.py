"""Large batches: stream all keys of a segment past the sorted queries.

The batch design of the paper (section 4): where a batch is large against the store, decoding every table once
and joining it with the queries costs less than looking each query up. The joins are those of pairs.py, with queries on
one side.
"""

from collections.abc import Callable, Iterable

import numpy as np

from fpstore._pairs import Queries
from fpstore.plans.permutation import Permutation
from fpstore.plans.planner import COMPARE_NS, pattern_count
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.query.pairs import load_windows, window_flips, window_shape
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Keys

# Keys decoded at a time, on average: enough to hide the calls, few enough for the third-level cache.
CHUNK_KEYS = 1 << 20
# What decoding a key and joining a query once take, from probe_many of 10^5 and 10^6 queries on 10^7 uniform keys.
DECODE_NS = 7.0
JOIN_NS = 17.0


def streaming_nanoseconds(segment: Segment, query_count: int, distance: int) -> float:
    """What a batch would take on one thread, to be held against the planner's prediction for single queries."""
    joined = 0.0
    for index in range(len(segment.tables)):
        window_bits, flips = window_shape(segment, index, distance)
        window_keys = segment.key_count / (1 << window_bits)
        joined += pattern_count(window_bits, flips) * (JOIN_NS + COMPARE_NS * window_keys)
    return DECODE_NS * segment.key_count * len(segment.tables) + joined * query_count


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
    order = np.argsort(queries)
    distinct = queries[order]
    first_of_run = np.concatenate([np.ones(min(1, len(distinct)), dtype=bool), distinct[1:] != distinct[:-1]])
    distinct = distinct[first_of_run]
    keys = [np.sort(Permutation(table.prefix_mask, segment.bits).apply(distinct)) for table in segment.tables]
    tables = range(len(segment.tables))
    pieces = [(index, chunk) for index in tables for chunk in range(1 << _split_bits(segment, index, distance))]
    rows = np.concatenate(
        [
            np.empty((0, 3), dtype=np.uint64),
            *run(lambda piece: _stream_piece(segment, piece, keys, distance, room), pieces),
        ]
    )
    rows = rows[np.lexsort((rows[:, 1], rows[:, 2], rows[:, 0]))]
    return _by_query(rows, distinct, np.flatnonzero(first_of_run), order, most)


def _by_query(rows: Array, distinct: Keys, first_of_run: Array, order: Array, most: int) -> tuple[Counts, Keys, Array]:
    """Rows of distinct queries, sorted, as rows of the queries they stand for, in the order of a probe's answer.

    first_of_run: where the run of each distinct query starts in order, which names the queries.
    """
    of_row = np.searchsorted(distinct, rows[:, 0])
    bounds = np.append(first_of_run, len(order))
    repeats = bounds[of_row + 1] - bounds[of_row]
    Room(len(order), most).take(int(repeats.sum()))
    # Row i once for each query of its run: the j-th copy is that of query order[start of the run + j].
    copy = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    query = order[np.repeat(bounds[of_row], repeats) + copy]
    rows = np.repeat(rows, repeats, axis=0)
    by_query = np.argsort(query, kind="stable")
    return query[by_query], rows[by_query, 1], rows[by_query, 2].astype(np.uint16)


def _stream_piece(segment: Segment, piece: tuple[int, int], queries: list[Keys], distance: int, room: Room) -> Array:
    """The matches of one chunk of one table: uint64[m, 3], query, stored fingerprint, distance."""
    index, chunk = piece
    split_bits = _split_bits(segment, index, distance)
    window_bits, flips = window_flips(segment, index, distance)
    keys = load_windows(segment, index, window_bits, chunk, split_bits)
    found = [np.empty((0, 3), dtype=np.uint64)]
    for mask in flips:
        left = _range(queries[index], chunk ^ (mask >> (segment.bits - split_bits)), split_bits, segment.bits)
        join = Queries(segment.view, index, left, keys, distance, mask)
        while not join.done:
            found.append(np.column_stack(join.next()))
            room.take(len(found[-1]))
    return np.concatenate(found)


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
