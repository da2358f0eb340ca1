"""The ways of finding what is near in one segment, and what each costs: tables looked up, streamed, or one scanned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fpstore._probe import nearest, search
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.plans.reach import lookup_nanoseconds, reaching
from fpstore.query.batch import stream, streaming_nanoseconds
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.query.scans import LEAST_KEYS, PIECE_KEYS, Found, numbered, scan, scan_any, scan_nearest, whole
from fpstore.segment.reader import Segment
from fpstore.types import Array, Keys

# Fewer are looked up without asking what streaming would cost.
MIN_STREAMED = 1000
# Queries of one call without the lock: few enough that Ctrl-C is noticed within a moment (5 ms; 0.1 s from a cold
# disk), enough to hide the call (1 % of the time of plan "speed").
SLICE_QUERIES = 1024

Run = Callable[..., Any]


class NearestWay(Protocol):
    """How the nearest fingerprints of a segment within a distance are found."""

    def nearest(
        self, queries: Keys, keep: int = 1, bits: Array | None = None, fingerprints: Keys | None = None
    ) -> Found:
        """Of these the nearest `keep` of each query, after a distance and a fingerprint where these are given."""
        ...


class Way(NearestWay, Protocol):
    """A way of finding what of a segment is within a distance of queries. What each function returns is `_probe`'s."""

    @property
    def nanoseconds(self) -> float:
        """What one query of the batch takes on one thread, by the planner's model."""

    @property
    def method(self) -> str:
        """What `Matches.method` says of it."""

    @property
    def is_whole(self) -> bool:
        """Whether it is worth having all queries together, and its work shared out, rather than they."""

    def all(self, queries: Keys, most: int = 0) -> Found:
        """Every fingerprint within the distance of each query; TooManyMatches for more than most."""

    def any(self, query: Keys) -> bool:
        """Whether there is one of the one query."""


@dataclass(frozen=True)
class Lookup:
    """The tables are looked up, with the plan's own flips or with these. run: shares queries out, but for `map`."""

    segment: Segment
    distance: int
    flips: tuple[int, ...] | None = None
    run: Run = map
    nanoseconds: float = 0.0
    method = "probe"
    is_whole = False

    def all(self, queries: Keys, most: int = 0) -> Found:
        """See Way."""
        room = Room(len(queries), most or MAX_MATCHES)

        def find(own: Keys) -> Found:
            left = room.left if most else 0
            found: Found = search(self.segment.view, own, self.distance, most=left, flips=self.flips)
            if most:
                room.take(len(found[0]))
            return found

        return self._shared(queries, find)

    def nearest(
        self, queries: Keys, keep: int = 1, bits: Array | None = None, fingerprints: Keys | None = None
    ) -> Found:
        """See Way."""
        if bits is not None:
            return nearest(self.segment.view, queries, self.distance, keep, bits, fingerprints, self.flips)
        return self._shared(queries, lambda own: nearest(self.segment.view, own, self.distance, keep, flips=self.flips))

    def _shared(self, queries: Keys, find: Callable[[Keys], Found]) -> Found:
        if self.run is map or len(queries) <= SLICE_QUERIES:
            return find(queries)
        firsts = range(0, len(queries), SLICE_QUERIES)
        parts = self.run(lambda first: find(queries[first : first + SLICE_QUERIES]), firsts)
        return whole([numbered(part, first) for part, first in zip(parts, firsts, strict=True)])

    def any(self, query: Keys) -> bool:
        """See Way."""
        found = search(self.segment.view, query, self.distance, first_only=True, flips=self.flips)
        return len(found[0]) > 0


@dataclass(frozen=True)
class Scan:
    """All keys are read, past all queries that are given together. run: shares the work out, as `Threads.map` does."""

    segment: Segment
    distance: int
    run: Run = map
    nanoseconds: float = 0.0
    method = "scan"

    @property
    def is_whole(self) -> bool:
        """See Way."""
        return self.segment.key_count >= LEAST_KEYS

    def all(self, queries: Keys, most: int = 0) -> Found:
        """See Way."""
        return scan(self.segment, queries, self.distance, self.run, *([most] if most else []))

    def nearest(
        self, queries: Keys, keep: int = 1, bits: Array | None = None, fingerprints: Keys | None = None
    ) -> Found:
        """See Way."""
        return scan_nearest(self.segment, queries, self.distance, keep, bits, fingerprints, self.run)

    def any(self, query: Keys) -> bool:
        """See Way."""
        return scan_any(self.segment, query, self.distance)


@dataclass(frozen=True)
class Stream(Lookup):
    """All keys of each table are read past the sorted queries; what is not asked of all of them is looked up."""

    method = "stream"
    is_whole = True

    def all(self, queries: Keys, most: int = 0) -> Found:
        """See Way."""
        return stream(self.segment, queries, self.distance, self.run, *([most] if most else []))


def way_to_all(segment: Segment, plan: Plan, distance: int, query_count: int, run: Run = map) -> Way:
    """The way to all that is near so many queries that costs least. run: what shares the work out, as `Threads.map`.

    A batch that is large enough to be streamed begins its look-ups together, so that is not held against streaming.
    """
    way = way_of(segment, plan, distance, query_count, run)
    if distance > plan.max_distance or query_count < MIN_STREAMED:
        return way
    streamed = streaming_nanoseconds(segment, query_count, distance) / query_count
    begun = planner.begun_nanoseconds(plan) if isinstance(way, Lookup) else 0.0
    return Stream(segment, distance, None, run, streamed) if streamed < way.nanoseconds - begun else way


def way_of(segment: Segment, plan: Plan, distance: int, query_count: int, run: Run = map) -> Way:
    """The way that costs least for so many queries together, by the planner's model; of looking up and scanning."""
    n = segment.key_count
    scanned = planner.scan_nanoseconds(n, query_count, plan.block_bytes)
    looked_up = lookup_nanoseconds(plan, distance, n)
    wider = reaching(plan, distance, n) if looked_up <= scanned else None
    if wider is None:
        return Scan(segment, distance, run, scanned)
    flips = None if wider is plan else tuple(table.flips for table in wider.tables)
    return Lookup(segment, distance, flips, run, looked_up)


def single_ways(segments: Sequence[Segment], plan: Plan) -> tuple[int, int]:
    """Up to which distance single queries look up with the plan's own flips, -1 for none, and from which on they read
    all keys by one thread; one more than the plan's for none. Between the two other flips or more threads take less.
    """
    most, flips = plan.max_distance, max(table.flips for table in plan.tables)
    methods = {way_of(segment, plan, most, 1).method for segment in segments}
    if not segments or ("scan" not in methods and flips <= most):
        return most, most + 1
    if methods != {"scan"} or sum(segment.key_count for segment in segments) >= 2 * PIECE_KEYS:
        return -1, most + 1
    scans = most
    while scans > 0 and all(way_of(segment, plan, scans - 1, 1).method == "scan" for segment in segments):
        scans -= 1
    return -1, scans


def method_of(ways: Sequence[Way]) -> str:
    """What `Matches.method` says of an answer that was found in these ways, one for each segment."""
    return max(ways, key=lambda way: way.nanoseconds).method if ways else "probe"
