"""How far the tables of a plan reach where more bits of a query are inverted than the plan says, or fewer.

A store is searched beyond its plan's distance so, as long as that costs less than looking at every key. What is probed
then is proven as a plan is.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf

from fpstore.errors import PlanError
from fpstore.format import WIDE_BITS
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.planner import Prediction, choose, pattern_count, predict, scan_nanoseconds, slot_bits
from fpstore.plans.wide import MAX_WIDE_DISTANCE, all_nanoseconds, choose_wide, predict_wide

# Plans, distances and sizes of segments that were asked about lately.
REMEMBERED = 1024
# Another plan is worth telling of where it answers in at most this share of the time.
WORTH = 1 / 2


@lru_cache(maxsize=REMEMBERED)
def reaching(plan: Plan, distance: int, n: int) -> Plan | None:
    """The same tables with as many flips as answer `distance` among n keys, which the plan itself may answer.

    Within the plan's distance no table needs more flips than the plan's or than there are errors, and mostly fewer.
    Beyond it the table whose next flip costs least gets it, until nothing is missed. None where looking at all n keys
    would take one query less time.
    """
    if distance <= plan.max_distance:
        return _narrower(plan, distance, n)
    tables, s = plan.tables, slot_bits(n, plan.slot_keys)
    while True:
        wider = replace(plan, max_distance=distance, tables=tables)
        if predict(wider, n).lookup_nanoseconds > scan_nanoseconds(n, 1, plan.block_bytes):
            return None
        try:
            if wider.missed() is None:
                return wider
        except PlanError:  # too tangled to tell
            return None
        tables = _one_flip_more(tables, s, tuple(replace(table, flips=table.prefix_bits) for table in tables))


@lru_cache(maxsize=REMEMBERED)
def lookup_nanoseconds(plan: Plan, distance: int, n: int) -> float:
    """What one query takes that looks up so far among n keys, on one thread; infinite where that is not worth it."""
    if plan.bits in WIDE_BITS:  # no table of these is asked with more flips than it was made for
        return predict_wide(plan, n, distance).nanoseconds if distance <= plan.max_distance else inf
    wider = reaching(plan, distance, n)
    return inf if wider is None else predict(wider, n).lookup_nanoseconds


@lru_cache(maxsize=REMEMBERED)
def faster_plan(plan: Plan, distance: int, n: int, aim: str) -> Prediction | None:
    """What that aim would pick for so many keys and this distance, where it is worth telling of."""
    cost = min(lookup_nanoseconds(plan, distance, n), reading_nanoseconds(plan, n, 1))
    if plan.bits in WIDE_BITS:
        if distance > MAX_WIDE_DISTANCE:
            return None
        found = predict_wide(choose_wide(n, distance, aim, plan.bits), n)
    else:
        found = predict(choose(min(n, 1 << plan.bits), distance, aim, plan.bits), min(n, 1 << plan.bits))
    return found if found.nanoseconds <= WORTH * cost else None


def reads_all(plan: Plan) -> bool:
    """Whether it is the scan's: a table that catches everything, which is read where fewer flips cost more."""
    return plan.tables[0].flips == plan.tables[0].prefix_bits


def _narrower(plan: Plan, distance: int, n: int) -> Plan:
    """The plan itself where it has no flip too many: in a prefix lie at most as many errors as there are. For less than
    the plan's distance flips are added from none on, each where it costs least, until nothing is missed.
    """
    most = tuple(replace(table, flips=min(table.flips, distance)) for table in plan.tables)
    cut = plan if most == plan.tables else replace(plan, max_distance=distance, tables=most)
    if distance == plan.max_distance:
        return cut
    s, flips = slot_bits(n, plan.slot_keys), sum(table.flips for table in most)
    tables = tuple(replace(table, flips=0) for table in most)
    for _ in range(flips):
        narrower = replace(plan, max_distance=distance, tables=tables)
        try:
            if narrower.missed() is None:
                return narrower
        except PlanError:  # too tangled to tell
            return cut
        tables = _one_flip_more(tables, s, most)
    return cut


def reading_nanoseconds(plan: Plan, n: int, query_count: int) -> float:
    """What one query of so many takes that are compared with all n fingerprints of a store of this plan."""
    if plan.bits in WIDE_BITS:
        return all_nanoseconds(n, plan.bits)
    return scan_nanoseconds(n, query_count, plan.block_bytes)


def _one_flip_more(tables: Sequence[TablePlan], s: int, most: Sequence[TablePlan]) -> tuple[TablePlan, ...]:
    """The tables with a flip more where it costs least; of none more than in `most`."""

    def cost(index: int) -> int:
        bits, flips = min(tables[index].prefix_bits, s), tables[index].flips
        return pattern_count(bits, flips + 1) - pattern_count(bits, flips)

    chosen = min((i for i, table in enumerate(tables) if table.flips < most[i].flips), key=cost)
    return tuple(replace(table, flips=table.flips + (index == chosen)) for index, table in enumerate(tables))
