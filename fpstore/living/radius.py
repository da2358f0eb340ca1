"""Distances beyond that of the plan: what they cost, said once; and the nearest rows, however far they are.

The nearest are looked for within a radius that grows while that costs little, then among all.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fpstore._reaches import MOST_RADII, Reaches
from fpstore._single import Single
from fpstore.errors import StoreWarning
from fpstore.fingerprints import single_of, words_of
from fpstore.format import WIDE_BITS
from fpstore.living.snapshot import Snapshot
from fpstore.plans.choice import most_distance
from fpstore.plans.plan import Plan
from fpstore.plans.reach import faster_plan, lookup_nanoseconds, reading_nanoseconds, reads_all
from fpstore.plans.wide import MAX_CODES
from fpstore.platforms import processor_count
from fpstore.query.matches import Matches, concatenate, made
from fpstore.query.scans import ALONE_TIMES, PIECE_KEYS
from fpstore.query.ways import Lookup, Run, way_of
from fpstore.threads import Threads, slices
from fpstore.types import Array, Keys

# A radius is looked within where that takes at most this share of the time of the rest: of a look at everything, or at
# the distance that is asked for. Of one query by itself, of which it is known what lately was worth it, a larger one.
SHARE, ALONE_SHARE = 1 / 3, 2 / 3
# The next radius is the largest that takes at most so many times as long as the one before. The first is the largest
# that takes so much more than the least.
GROWTH, ALONE_GROWTH = 2.0, 1.5
FIRST_NS = 1500.0
# What a look of one query by itself takes, beside the model's so many times: that is of queries which find some of what
# they read in the caches. Measured at 10^6 keys within 5 to 18 bits, 64 bits, after 24 MB of other data were read.
LOOK_NS, LOOK_TIMES = 3000.0, 1.5
# Of several queries one of so many, or so many of all, are asked before the others, to learn which radii are worth it,
# each as if it were as many as there are for one.
SAMPLED, SAMPLES = 16, 32
# Queries of which the first few matches are looked for together: of each at most the square of the count is held.
FIRST_QUERIES = 256
# A row in memory takes so many times a word that is read, where the nearest are looked for among all: 2.6 to 5.3 ns, by
# how many are asked for, where a word of wide codes takes 0.3. 10^5 rows of 64 bits, a plan of tables or a scan.
PENDING_TIMES = 10
# So many queries or fewer, or those that are too few for several threads, are looked for one by one before all is read
# for what is left of them.
FEW_QUERIES = 64
# Larger counts are remembered for no other queries, and so many distances and counts at a time.
REMEMBERED_ROWS, REMEMBERED = 64, 256

_told = False

# Those of each table of a segment; None for the plan's own.
Flips = tuple[int, ...] | None
# The first rows of each of the queries within a distance.
Within = Callable[[Keys, int], Matches]


@dataclass(frozen=True)
class Team:
    """Who does the work: so many threads, and what is called before each piece of it, which may raise."""

    threads: int
    work: Threads
    check: Callable[[], None]


def nearest_rows(
    snapshot: Snapshot, queries: Keys, distance: int, count: int, team: Team, looked: bool = False
) -> Matches:
    """The nearest `count` rows of each query that are within distance, in the order of answers; handles for names.

    What has so many within a radius is not looked for further, as no other row is as near. looked: the one query was
    looked for within the radii lately.
    """

    def within(asked: Keys, radius: int) -> Matches:
        return _within(snapshot, asked, radius, count, team)

    if len(queries) != 1:
        few = FEW_QUERIES if team.threads == 1 else min(FEW_QUERIES, snapshot.min_slice)
        found = _nearest_few(snapshot, queries, distance, count, within) if 1 < len(queries) <= few else None
        return _nearest_many(snapshot, queries, distance, count, within) if found is None else found
    reaches = _reaches(snapshot, distance, count)
    if not looked:
        asked = None, single_of(queries), count, distance, False
        found = snapshot.single.first(*asked, reaches, _scanned_by(snapshot, team.threads))
        if found is not None and found is not False:
            return cast(Matches, found)
        looked = found is False
    found = None if looked else _within_radii(queries, distance, count, within, reaches)
    if found is None:
        found = within(queries, distance)
        reaches.read |= found.method == "scan"
    reaches.tell(int(found.distance[count - 1]) if len(found) >= count else snapshot.settings.bits + 1)
    return found


def read_for_each(snapshot: Snapshot, distance: int, query_count: int, added: int = 0) -> int:
    """Words of 64 bits that each of so many queries is compared with where nothing is looked up for it.

    They are those of segments that are read for this distance, and of the rows in memory, beyond the plan's distance as
    many as take so long. added: so many more rows in memory, which come meanwhile.
    """
    plan, is_wide = snapshot.plan, snapshot.plan.bits in WIDE_BITS
    is_beyond = distance > plan.max_distance

    def is_read(n: int) -> bool:
        return is_beyond or lookup_nanoseconds(plan, distance, n) >= reading_nanoseconds(plan, n, query_count)

    read = sum(n for n in (part.segment.key_count for part in snapshot.searched) if is_read(n))
    if is_wide:
        return words_of(plan.bits) * (read + snapshot.pending_count + added)
    pending = (snapshot.pending_end + added) * (PENDING_TIMES if is_beyond else 1)
    return read + (pending if is_beyond or reads_all(plan) else 0)


def tell_of_reach(asked: Sequence[Snapshot], distance: int, level: int = 4) -> None:
    """Warn, once a process, where a plan is for a smaller distance, or for fewer keys, of what would cost less.

    asked: what is asked together. level: of the caller who is told, from this function's warning on.
    """
    global _told
    if _told:
        return
    searched = [each for each in asked if each.searched]
    beyond_plan = [each for each in searched if distance > each.plan.max_distance]
    told = _far(searched, beyond_plan, distance) if beyond_plan else _outgrown(searched, distance)
    if told is not None:
        _told = True
        warnings.warn(told, StoreWarning, stacklevel=level)


def _far(searched: Sequence[Snapshot], beyond_plan: Sequence[Snapshot], distance: int) -> str:
    """What to say of a distance that is beyond some of the plans."""
    plan, now, then, is_faster = beyond_plan[0].plan, 0.0, 0.0, False
    for each in searched:
        cost = _cost(each, distance, 1)
        faster = faster_plan(each.plan, distance, _keys(each), "speed") if each in beyond_plan else None
        is_faster |= faster is not None
        now, then = now + cost, then + (cost if faster is None else faster.nanoseconds)
    advice = "no plan would take much less"
    if is_faster:
        built = "a store" if len(searched) == 1 else "stores"
        advice = f"{built} built with max_distance={distance} and plan 'speed' would take {_time(then)}"
    of = "" if len(searched) == 1 else f" of {len(searched)} stores"
    return (
        f"max_distance: {distance} is above the {plan.max_distance} that plan {plan.name} is for: a query of these "
        f"{sum(map(_keys, searched)):,} fingerprints{of} takes some {_time(now)}; {advice}"
    )


def _outgrown(searched: Sequence[Snapshot], distance: int) -> str | None:
    """What to say where fingerprints are too many for a plan: of several stores of the largest for whose it is so."""
    reading = [each for each in searched if reads_all(each.plan)]
    for each in sorted(reading, key=_keys, reverse=True):
        told = outgrown(each.plan, distance, _keys(each))
        if told is not None:
            return told if len(searched) == 1 else f"{told} (the largest such store of {len(searched)})"
    return None


def _keys(snapshot: Snapshot) -> int:
    return sum(part.segment.key_count for part in snapshot.searched)


def outgrown(plan: Plan, distance: int, n: int) -> str | None:
    """What to say where n fingerprints are too many for a plan that reads them all; None where they are not."""
    faster = faster_plan(plan, distance, n, "balanced") if reads_all(plan) else None
    if faster is None:
        return None
    cost = _time(min(lookup_nanoseconds(plan, distance, n), reading_nanoseconds(plan, n, 1)))
    better = f"one built with plan 'balanced', for so many {faster.plan.name}, would take {_time(faster.nanoseconds)}"
    return f"plan {plan.name}: a query of these {n:,} fingerprints takes some {cost}, as it reads them all; {better}"


def beyond(plan: Plan, distance: int) -> str:
    """What is wrong with a distance that the tables of the plan have to answer, and do not."""
    limit = most_distance(plan.bits)
    advice = f"no store has over {limit}" if distance > limit else f"build the store with max_distance={distance}"
    most = f"at most {plan.max_distance}, as plan {plan.name} answers"
    return f"max_distance: found {distance}, expected {most}; {advice}"


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3g} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.3g} us"


def _within(snapshot: Snapshot, queries: Keys, distance: int, count: int, team: Team) -> Matches:
    """The first rows of each of queries within distance."""

    def search(own: slice, run: Run = map) -> Matches:
        team.check()
        if count == 1:
            return snapshot.nearest(queries[own], distance, own.start, run)
        return snapshot.first(queries[own], distance, count, own.start, run)

    if snapshot.is_whole(len(queries), distance):
        return search(slice(0, len(queries)), team.work.map if team.threads > 1 else map)
    size = snapshot.slice_queries if count == 1 else min(FIRST_QUERIES, snapshot.slice_queries)
    parts = team.work.map(search, slices(len(queries), team.threads, size, snapshot.min_slice))
    return parts[0] if len(parts) == 1 else concatenate(parts, snapshot.settings.ids)


def _within_radii(queries: Keys, distance: int, count: int, within: Within, reaches: Reaches) -> Matches | None:
    """The rows of the one query within the first radius that has so many; None where none has."""
    at = reaches.following(0)
    while at < len(reaches.radii):
        found = within(queries, reaches.radii[at])
        if len(found) >= count or reaches.radii[at] == distance:
            return found
        at = reaches.following(at + 1)
    return None


def _scanned_by(snapshot: Snapshot, threads: int) -> int:
    """How many keys a query looks at by itself, where there are so many threads, which wide codes do not share."""
    return MAX_CODES if snapshot.plan.bits in WIDE_BITS else PIECE_KEYS * (ALONE_TIMES if threads == 1 else 2)


def _nearest_few(snapshot: Snapshot, queries: Keys, distance: int, count: int, within: Within) -> Matches | None:
    """As nearest_rows, of a few queries that are looked for within radii one by one; None where that cannot be."""
    reaches = _reaches(snapshot, distance, count, len(queries))
    left: list[int] = []
    parts: list[Matches] = []
    for number, query in enumerate(queries.tolist() if queries.ndim == 1 else queries):
        found = snapshot.single.first(None, query, count, distance, False, reaches)
        if found is None:
            return None
        if found is False:
            reaches.tell(distance + 1)
            left.append(number)
        else:
            parts.append(found)
    if len(left) == len(queries):
        return within(queries, distance)
    which = np.ones(len(queries), dtype=bool)
    which[left] = False
    one_by_one = concatenate(parts, snapshot.settings.ids)
    numbers = np.repeat(np.flatnonzero(which), [len(part) for part in parts])
    looked_up = made(numbers, one_by_one.fingerprint, one_by_one.distance, one_by_one.id, one_by_one.method)
    if not left:
        return looked_up
    rest = within(queries[left], distance)
    return _in_order([looked_up, _of_queries(rest, np.ones(len(left), dtype=bool), np.array(left))])


def _nearest_many(snapshot: Snapshot, queries: Keys, distance: int, count: int, within: Within) -> Matches:
    """As nearest_rows, of any number of queries together, by what some of them show first."""
    reaches = Reaches(*_radii(snapshot, distance, len(queries)))
    every = np.arange(len(queries))
    step = max(SAMPLED, len(queries) // SAMPLES)
    some = every % step == 0
    parts: list[Matches] = []
    last = []
    for left, times in ((every[some], step), (every[~some], 0)):
        at = reaches.following(0)
        while at < len(reaches.radii) and len(left):
            radius = reaches.radii[at]
            found = within(queries[left], radius)
            done = np.bincount(found.query, minlength=len(left)) >= count
            if times and done.any():
                # How near what is wanted is, not how far it was looked for: nearer radii may do for the others.
                last_rows = np.searchsorted(found.query, np.flatnonzero(done)) + count - 1
                for bits, own in zip(*np.unique(found.distance[last_rows], return_counts=True), strict=True):
                    reaches.tell(int(bits), times * int(own))
            if times and radius == distance and not done.all():
                reaches.tell(radius, times * int(np.count_nonzero(~done)))
            done |= radius == distance
            parts.append(_of_queries(found, done, left))
            left = left[~done]
            at = reaches.following(at + 1)
        if times and len(left):
            reaches.tell(distance + 1, times * len(left))
        last.append(left)
    left = np.sort(np.concatenate(last))
    if len(left) or not parts:
        found = within(queries if len(left) == len(queries) else queries[left], distance)
        if not parts:
            return found
        parts.append(_of_queries(found, np.ones(len(left), bool), left))
    return _in_order(parts)


def _reaches(snapshot: Snapshot, distance: int, count: int, query_count: int = 1) -> Reaches:
    """What is remembered of queries for so many rows within a distance: of single ones, or of a few together."""
    known = snapshot.single.reaches
    together = 1 << (query_count - 1).bit_length()
    key = (distance, count) if query_count == 1 else (distance, count, together)
    found: Reaches | None = known.get(key)
    if found is None:
        radii, shares, whole = _radii(snapshot, distance, together)
        alone = _scanned_by(snapshot, processor_count()) if query_count == 1 else 0
        found = Reaches(radii, shares, whole, _lookups(snapshot, radii), alone)
        if count <= REMEMBERED_ROWS:
            if len(known) >= REMEMBERED:
                known.clear()
            known[key] = found
    return found


def _lookups(snapshot: Snapshot, radii: Sequence[int]) -> list[tuple[Flips, ...]] | None:
    """The flips with which each segment is looked up within each radius; None where some are not looked up."""
    if not isinstance(snapshot.single, Single):
        return None
    found = []
    for radius in radii:
        ways = [way_of(part.segment, snapshot.plan, radius, 1) for part in snapshot.searched]
        flips = tuple(way.flips for way in ways if isinstance(way, Lookup))
        if len(flips) < len(ways):
            return None
        found.append(flips)
    return found


def _radii(snapshot: Snapshot, distance: int, query_count: int) -> tuple[list[int], list[float], bool]:
    """The radii that are worth looking within, what that takes of the time of the rest, and whether that is none."""
    plan, alone = snapshot.plan, query_count == 1
    scan = sum(reading_nanoseconds(plan, part.segment.key_count, query_count) for part in snapshot.searched)
    most_share, growth = (ALONE_SHARE, ALONE_GROWTH) if alone else (SHARE, GROWTH)

    def cost(radius: int) -> float:
        looked = _cost(snapshot, radius, query_count)
        return LOOK_NS + LOOK_TIMES * looked if alone and plan.bits not in WIDE_BITS else looked

    rest = min(cost(distance), scan)
    if not rest:
        return [], [], False
    whole, radius = rest < scan, 0
    radii: list[int] = []
    shares: list[float] = []
    most = cost(radius) + FIRST_NS
    while radius < distance and cost(radius) <= most_share * rest and len(radii) < MOST_RADII - 1:
        while radius + 1 < distance and cost(radius + 1) <= min(most, most_share * rest):
            radius += 1
        radii.append(radius)
        shares.append(cost(radius) / rest)
        most, radius = growth * cost(radius), radius + 1
    return [*radii, *([distance] if whole else [])], [*shares, *([1.0] if whole else [])], whole


def _cost(snapshot: Snapshot, radius: int, query_count: int) -> float:
    """Of one query, within this radius."""
    counts = [part.segment.key_count for part in snapshot.searched]
    plan = snapshot.plan
    return sum(min(lookup_nanoseconds(plan, radius, n), reading_nanoseconds(plan, n, query_count)) for n in counts)


def _of_queries(found: Matches, which: Array, numbers: Array) -> Matches:
    """The rows of some of the queries, by their numbers."""
    kept = which[found.query]
    ids = None if found.id is None else found.id[kept]
    return made(numbers[found.query[kept]], found.fingerprint[kept], found.distance[kept], ids, found.method)


def _in_order(parts: list[Matches]) -> Matches:
    """The rows of several lots of queries, which are each of one, in the order of queries."""
    query = np.concatenate([part.query for part in parts])
    order = np.argsort(query, kind="stable")
    ids = [part.id for part in parts if part.id is not None]
    return made(
        query[order],
        np.concatenate([part.fingerprint for part in parts])[order],
        np.concatenate([part.distance for part in parts])[order],
        np.concatenate(ids)[order] if ids else None,
        parts[-1].method,
    )
