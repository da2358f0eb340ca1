"""A search for many queries cut into shares, each of which a process or a machine does on its own.

A share is some pieces of a segment's stream for all queries; or some of the queries, in a whole segment or in what is
pending. Together they find the rows of `Snapshot.search_whole`: each that a segment has in just one share, and one that
several segments have in several. Each share holds bounded memory, whatever it finds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from fpstore.errors import TooManyMatches
from fpstore.fingerprints import columns_of
from fpstore.living.live import Live, Matched
from fpstore.living.snapshot import Snapshot
from fpstore.living.wide import LiveCodes
from fpstore.merging import Columns, each_once, ordered_with_places
from fpstore.plans.planner import scan_nanoseconds
from fpstore.plans.reach import lookup_nanoseconds, reading_nanoseconds
from fpstore.query.batch import Asked, piece_nanoseconds, pieces, stream_some
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.query.scans import GROUP_QUERIES
from fpstore.query.ways import SLICE_QUERIES, Stream, Way, method_of, way_of, way_to_all
from fpstore.types import Array, Counts, Keys

# What is pending, among the segments that are searched.
PENDING = -1
# Rows that are sorted together, of 24 bytes, of which four times as much is held meanwhile.
RUN_ROWS = 1 << 19
# The number of a query stands above so many bits of a rank, and below it the distance, which is at most 256.
DISTANCE_BITS = np.uint64(16)


@dataclass(frozen=True)
class Share:
    """A part of a search. part: which of the segments that are searched, or PENDING.

    streams: first to end are pieces of its stream, for all queries; otherwise distinct queries, in all of it.
    """

    part: int
    streams: bool
    first: int
    end: int


# A share as small as one may be, and what it takes.
_Unit = tuple[Share, float]


def search_nanoseconds(snapshot: Snapshot, distance: int, query_count: int) -> float:
    """What all shares of a search take on one thread, by the planner's model."""
    return sum(taken for _, taken in _units(snapshot, distance, query_count, 1))


def search_method(snapshot: Snapshot, distance: int, query_count: int) -> str:
    """What `Matches.method` says of an answer to so many queries."""
    if snapshot.settings.is_wide:
        return "scan" if distance > snapshot.plan.max_distance else "probe"
    return method_of([way_to_all(part.segment, snapshot.plan, distance, query_count) for part in snapshot.searched])


def cut(snapshot: Snapshot, distance: int, query_count: int, count: int) -> list[tuple[Share, ...]]:
    """A search for so many distinct queries, cut into at most `count` lots of shares that take about as long."""
    units = list(_units(snapshot, distance, query_count, count))
    total, done = sum(taken for _, taken in units), 0.0
    lots: list[list[Share]] = [[] for _ in range(count)]
    for (part, streams), own in groupby(units, key=lambda unit: (unit[0].part, unit[0].streams)):
        for share, taken in own:
            lot = lots[min(count - 1, int((done + taken / 2) / total * count))]
            done += taken
            first = lot.pop().first if lot and lot[-1].part == part else share.first
            lot.append(Share(part, streams, first, share.end))
    return [tuple(lot) for lot in lots if lot]


def _units(snapshot: Snapshot, distance: int, query_count: int, count: int) -> Iterator[_Unit]:
    """All shares of a search, which are cut no further."""
    if not query_count:
        return
    if snapshot.settings.is_wide:
        yield from _units_of_codes(snapshot, distance, query_count, count)
        return
    for index, part in enumerate(snapshot.searched):
        way = way_to_all(part.segment, snapshot.plan, distance, query_count)
        if isinstance(way, Stream):
            for piece, taken in enumerate(piece_nanoseconds(part.segment, query_count, distance)):
                yield Share(index, True, piece, piece + 1), taken
        else:
            # All keys are read for each slice of a scan: no more of them than there are to share it.
            most = min(_at_once(way), -(-query_count // count))
            yield from _slices(index, query_count, max(most, SLICE_QUERIES // 4), way.nanoseconds)
    if snapshot.pending_count:
        looked_up = lookup_nanoseconds(snapshot.plan, distance, snapshot.pending_count)
        taken = min(looked_up, scan_nanoseconds(snapshot.pending_count, query_count))
        yield from _slices(PENDING, query_count, SLICE_QUERIES, taken)


def _units_of_codes(snapshot: Snapshot, distance: int, query_count: int, count: int) -> Iterator[_Unit]:
    """The same of wide codes, which are looked up, or all read for each query; those that are pending always."""
    most = max(1, min(SLICE_QUERIES, -(-query_count // count)))
    for index, part in enumerate(snapshot.searched):
        assert isinstance(part, LiveCodes)
        yield from _slices(index, query_count, most, part.search_nanoseconds(snapshot.plan, distance))
    if snapshot.pending_count:
        taken = reading_nanoseconds(snapshot.plan, snapshot.pending_count, query_count)
        yield from _slices(PENDING, query_count, most, taken)


def _slices(part: int, query_count: int, most: int, taken: float) -> Iterator[_Unit]:
    for first in range(0, query_count, most):
        end = min(first + most, query_count)
        yield Share(part, False, first, end), taken * (end - first)


def _at_once(way: Way) -> int:
    return GROUP_QUERIES if way.method == "scan" else SLICE_QUERIES


def runs_of(snapshot: Snapshot, share: Share, asked: Asked, distance: int) -> Iterator[Columns]:
    """What the share finds, in runs: rows of (rank, fingerprint) or (rank, fingerprint, id), in order, each once.

    A wide fingerprint is as many columns as it has words.

    A rank is the number of a query and the distance, so that rows are in the order of an answer. uint64[m], all.
    TooManyMatches where one query has more rows than an answer may, in a segment or of one fingerprint.
    """
    find = _streamed if share.streams else _looked_up
    held: list[Columns] = []
    count = 0
    for matched in find(snapshot, share, asked, distance):
        for columns in _spread(matched, asked):
            held.append(columns)
            count += len(columns[0])
            if count >= RUN_ROWS:
                yield _run(held)
                held, count = [], 0
    if count:
        yield _run(held)


def _run(held: Sequence[Columns]) -> Columns:
    return each_once([np.concatenate(column) for column in zip(*held, strict=True)])


def _streamed(snapshot: Snapshot, share: Share, asked: Asked, distance: int) -> Iterator[Matched]:
    """The live rows of some pieces; the query is the index of the distinct one."""
    part = snapshot.searched[share.part]
    own = pieces(part.segment, distance)[share.first : share.end]
    with part.segment.naming:
        for rows in _batches(stream_some(part.segment, own, asked.distinct, distance)):
            asked_for, order = ordered_with_places(rows[:, 0])  # or each would be looked for anew among all
            query = np.searchsorted(asked.distinct, asked_for)
            yield from _with_ids(part, query, rows[order, 1], rows[order, 2].astype(np.uint16))


def _batches(found: Iterator[Array]) -> Iterator[Array]:
    """Rows, as many together as are worth sorting."""
    held: list[Array] = []
    for rows in found:
        held.append(rows)
        if sum(map(len, held)) >= RUN_ROWS:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _with_ids(part: Live, query: Counts, fingerprint: Keys, distance: Array) -> Iterator[Matched]:
    """What lives of rows, a row for each id, some rows at a time where they have many ids."""

    def find(own: slice, room: Room) -> Matched:
        return part.with_ids(query[own], fingerprint[own], distance[own], room)

    return _halved(find, 0, len(query))


def _looked_up(snapshot: Snapshot, share: Share, asked: Asked, distance: int) -> Iterator[Matched]:
    """The live rows of some queries; the query is the index of the distinct one."""
    if share.part == PENDING:
        search, most = _pending_search(snapshot, distance), SLICE_QUERIES
    elif snapshot.settings.is_wide:
        codes, scans = snapshot.searched[share.part], distance > snapshot.plan.max_distance
        assert isinstance(codes, LiveCodes)
        search, most = (lambda queries, room: codes.matched(queries, distance, scans, room)[0]), SLICE_QUERIES
    else:
        part = snapshot.searched[share.part]
        way = way_of(part.segment, snapshot.plan, distance, len(asked.distinct))
        search, most = (lambda queries, room: part.search(queries, way, room)), _at_once(way)

    def find(own: slice, room: Room) -> Matched:
        query, *rest = search(asked.distinct[own], room)
        return (query + own.start, *rest)

    for first in range(share.first, share.end, most):
        yield from _halved(find, first, min(first + most, share.end))


def _pending_search(snapshot: Snapshot, distance: int) -> Callable[[Keys, Room], Matched]:
    return lambda queries, room: snapshot.search_pending(queries, distance, room)


def _halved(find: Callable[[slice, Room], Matched], first: int, end: int) -> Iterator[Matched]:
    """What is found for all items from first to end, for half of them at a time where that is too much to hold."""
    if first == end:
        return
    is_one = end - first == 1
    try:
        found = find(slice(first, end), Room(end - first, MAX_MATCHES if is_one else RUN_ROWS))
    except TooManyMatches:
        if is_one:
            raise
        middle = (first + end) // 2
        yield from _halved(find, first, middle)
        yield from _halved(find, middle, end)
        return
    yield found


def _spread(matched: Matched, asked: Asked) -> Iterator[Columns]:
    """Rows of distinct queries as those of all queries that these stand for, some at a time where that is many."""
    query, fingerprint, distance, ids = matched
    columns = [*columns_of(fingerprint)] if ids is None else [*columns_of(fingerprint), ids]
    if len(asked.numbers) == len(asked.distinct):
        yield [_ranks(asked.numbers[query], distance), *columns]
        return
    ends = np.cumsum(asked.repeats(query))
    first = 0
    while first < len(query):
        before = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + RUN_ROWS, side="right")))
        own = slice(first, end)
        at, number = asked.spread(query[own])
        yield [_ranks(number, distance[own][at]), *(column[own][at] for column in columns)]
        first = end


def _ranks(number: Counts, distance: Array) -> Keys:
    return number.astype(np.uint64) << DISTANCE_BITS | distance.astype(np.uint64)


def ranked(ranks: Keys) -> tuple[Counts, Array]:
    """The numbers of queries, int64[m], and the distances, uint16[m], of ranks."""
    return (ranks >> DISTANCE_BITS).astype(np.int64), ranks.astype(np.uint16)
