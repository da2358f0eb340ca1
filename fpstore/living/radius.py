"""Distances beyond that of the plan: what they cost, said once; and the nearest rows, however far they are.

The nearest are looked for within a radius that grows while that costs little, then among all.
"""

import warnings
from collections.abc import Callable
from typing import cast

import numpy as np

from fpstore._single import Segments, Single
from fpstore.errors import StoreWarning
from fpstore.living.snapshot import Snapshot
from fpstore.plans.choice import most_distance
from fpstore.plans.plan import Plan
from fpstore.plans.reach import faster_plan, lookup_nanoseconds, reading_nanoseconds, reads_all
from fpstore.query.matches import Matches, made
from fpstore.query.ways import Lookup, way_of
from fpstore.types import Array, Keys

# A radius is looked within where that takes at most this share of the time of looking at everything.
SHARE = 1 / 16
# The next radius is the largest that takes at most so many times as long as the one before and its call.
GROWTH = 8
CALL_NS = 2000.0

_told = False

# The first rows of each of the queries within a distance.
Within = Callable[[Keys, int], Matches]


def nearest_rows(snapshot: Snapshot, queries: Keys, distance: int, count: int, within: Within) -> Matches:
    """The nearest `count` rows of each query that are within distance, found by `within`, in the order of answers.

    What has so many within a radius is not looked for further, as no other row is as near.
    """
    left, radius = np.arange(len(queries)), None
    if len(queries) == 1 and isinstance(snapshot.single, Single) and snapshot.pending_names is None:
        reaches, further = _reaches(snapshot, snapshot.single.segments, distance)
        found = snapshot.single.within(int(queries[0]), count, reaches) if reaches else None
        if found:
            return cast(Matches, found)
        radius = further if found is False else None
    if radius is None:
        radius = _first_radius(snapshot, distance, len(queries))
    parts: list[Matches] = []
    while True:
        found = within(queries if len(left) == len(queries) else queries[left], radius)
        done = np.bincount(found.query, minlength=len(left)) >= count if radius < distance else np.ones(len(left), bool)
        if not parts and done.all():
            return found
        parts.append(_of_queries(found, done, left))
        left = left[~done]
        if not len(left):
            return _in_order(parts)
        radius = _next_radius(snapshot, radius, distance, len(left))


def tell_of_reach(snapshot: Snapshot, distance: int) -> None:
    """Warn, once a process, where the plan is for a smaller distance, or for fewer keys, of what would cost less."""
    global _told
    plan = snapshot.plan
    if _told or not snapshot.searched or (distance <= plan.max_distance and not reads_all(plan)):
        return
    n = sum(part.segment.key_count for part in snapshot.searched)
    if distance <= plan.max_distance:
        told = outgrown(plan, distance, n)
        if told is None:
            return
    else:
        faster = faster_plan(plan, distance, n, "speed")
        advice = "no plan would take much less"
        if faster:
            built = f"a store built with max_distance={distance} and plan 'speed'"
            advice = f"{built} would take {_time(faster.nanoseconds)}"
        told = (
            f"max_distance: {distance} is above the {plan.max_distance} that plan {plan.name} is for: a query of these "
            f"{n:,} fingerprints takes some {_time(_cost(snapshot, distance, 1))}; {advice}"
        )
    _told = True
    warnings.warn(told, StoreWarning, stacklevel=4)


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


def _reaches(snapshot: Snapshot, segments: Segments, distance: int) -> tuple[list[tuple[int, Segments]], int]:
    """The radii that one query is looked for within by one call (Single.within), and the one that comes after these."""
    asked = distance, SHARE
    if asked not in segments.reaches:
        reaches, radius = [], _first_radius(snapshot, distance, 1)
        while radius < distance:
            ways = [way_of(part.segment, snapshot.plan, radius, 1) for part in snapshot.searched]
            flips = [way.flips for way in ways if isinstance(way, Lookup)]
            if len(flips) < len(ways):
                break
            reaches.append((radius, Segments(segments.made_of, flips)))
            radius = _next_radius(snapshot, radius, distance, 1)
        segments.reaches[asked] = reaches, radius
    found: tuple[list[tuple[int, Segments]], int] = segments.reaches[asked]
    return found


def _first_radius(snapshot: Snapshot, distance: int, query_count: int) -> int:
    """The plan's own, if that is worth it."""
    own = snapshot.plan.max_distance
    if distance <= own:
        return distance
    return own if _cost(snapshot, own, query_count) <= SHARE * _scan_cost(snapshot, query_count) else distance


def _next_radius(snapshot: Snapshot, radius: int, distance: int, query_count: int) -> int:
    """A radius after this one that is worth looking within, or distance."""
    affordable = SHARE * _scan_cost(snapshot, query_count)
    most = min(affordable, GROWTH * (_cost(snapshot, radius, query_count) + CALL_NS))
    if _cost(snapshot, radius + 1, query_count) > affordable:
        return distance
    while radius + 2 <= distance and _cost(snapshot, radius + 2, query_count) <= most:
        radius += 1
    return min(radius + 1, distance)


def _scan_cost(snapshot: Snapshot, query_count: int) -> float:
    return sum(reading_nanoseconds(snapshot.plan, part.segment.key_count, query_count) for part in snapshot.searched)


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
