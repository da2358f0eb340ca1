"""How far the tables of a plan reach where more bits of a query are inverted than the plan says.

A store is searched beyond its plan's distance so, as long as that costs less than looking at every key. What is probed
then is proven as a plan is.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf

from fpstore.errors import PlanError
from fpstore.format import WIDE_BITS, WORD_BITS
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.planner import Prediction, pattern_count, predict, scan_nanoseconds, slot_bits
from fpstore.plans.wide import WORD_NS, predict_wide

# Plans, distances and sizes of segments that were asked about lately.
REMEMBERED = 1024


@lru_cache(maxsize=REMEMBERED)
def reaching(plan: Plan, distance: int, n: int) -> Plan | None:
    """The same tables with as many flips as answer `distance` among n keys, which the plan itself may answer.

    The table whose next flip costs least gets it, until nothing is missed. None where looking at all n keys would take
    one query less time.
    """
    if distance <= plan.max_distance:
        return plan
    tables, s = plan.tables, slot_bits(n, plan.slot_keys)
    while True:
        wider = replace(plan, max_distance=distance, tables=tables)
        if predict(wider, n).nanoseconds > scan_nanoseconds(n):
            return None
        try:
            if wider.missed() is None:
                return wider
        except PlanError:  # too tangled to tell
            return None
        tables = _one_flip_more(tables, s)


@lru_cache(maxsize=REMEMBERED)
def lookup_nanoseconds(plan: Plan, distance: int, n: int) -> float:
    """What one query takes that looks up so far among n keys, on one thread; infinite where that is not worth it."""
    if plan.bits in WIDE_BITS:  # no table of these is asked with more flips than it was made for
        return predict_wide(plan, n).nanoseconds if distance <= plan.max_distance else inf
    wider = reaching(plan, distance, n)
    return inf if wider is None else predict(wider, n).nanoseconds


def reading_nanoseconds(plan: Plan, n: int, query_count: int) -> float:
    """What one query of so many takes that are compared with all n fingerprints of a store of this plan."""
    return WORD_NS * n * plan.bits / WORD_BITS if plan.bits in WIDE_BITS else scan_nanoseconds(n, query_count)


def predicted(plan: Plan, n: int) -> Prediction:
    """What a plan costs for n fingerprints, of any width."""
    return predict_wide(plan, n) if plan.bits in WIDE_BITS else predict(plan, n)


def _one_flip_more(tables: Sequence[TablePlan], s: int) -> tuple[TablePlan, ...]:
    def cost(index: int) -> int:
        bits, flips = min(tables[index].prefix_bits, s), tables[index].flips
        return pattern_count(bits, flips + 1) - pattern_count(bits, flips)

    chosen = min((i for i, table in enumerate(tables) if table.flips < table.prefix_bits), key=cost)
    return tuple(replace(table, flips=table.flips + (index == chosen)) for index, table in enumerate(tables))
