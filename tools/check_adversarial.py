"""Keys aimed at the plans that everybody knows: are probes still exact, how slow are they, and does a seed help.

    python tools/check_adversarial.py [--n 1e6] [--plans size,balanced,speed,paper-4,...] [--queries 200] [--json]

All keys agree in their top bits, so that in every public plan one prefix holds them all. Each plan is used as it is and
shuffled by a seed; queries are stored keys with 0 to 3 bits inverted. Answers are compared with brute force, and a
store with a crowded prefix has to warn of it. The figures are microseconds of processor time of a call of Store.probe,
and how many times what a probe takes in a store of as many uniform keys under the same plan, in the same run. Exits 1
where plan `size`, shuffled, takes more than 60 times that.

The last table is the worst that is known: 7,807 blocks of keys, each near enough to one query in the bits that its keys
share, so that a probe for it decodes them all.
"""

import sys
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from arguments import parse_count, parse_plans
from benchlib import (
    DISTANCE,
    Keys,
    Results,
    brute_force,
    distinct,
    flipped,
    in_order,
    new_parser,
    parse_arguments,
    same_answer,
    scratch_folder,
    uniform,
)

import fpstore
from fpstore.plans import planner
from fpstore.plans.families import PAPER_NAMES
from fpstore.segment.crowding import CROWDED_KEYS, fullest_prefix

ATTACKED_KEYS = 10**6
SEED = 20070512
SECRET = 0x5EED
# The longest prefix of top bits that a public plan has, that of paper-20.
SHARED_BITS = 33
CHECKED_QUERIES = 20
JUDGED_PLAN = "size"
MAX_TIMES = 60.0
# A block of 128 keys shares all but its lowest bits, which these are; the bits above, below paper-4's prefix, differ
# from the query's in up to three.
BLOCK_KEYS = 128
LOWEST_BITS = 12
ARRANGED_BITS = 36
FEWER_ARRANGED_BITS = 16  # 697 blocks, where --n asks for fewer keys
ARRANGED_PLAN = "paper-4"


def queries_of(keys: Keys, count: int, rng: np.random.Generator) -> Keys:
    """Stored keys with 0 to 3 bits inverted."""
    chosen = rng.choice(keys, count)
    return flipped(chosen, rng.integers(0, DISTANCE + 1, count), rng)


def arranged_around(query: int, choice_bits: int, rng: np.random.Generator) -> Keys:
    """A block of keys for each choice of up to three of so many bits, in which they differ from the query."""
    blocks = [
        query ^ sum(1 << LOWEST_BITS + bit for bit in bits)
        for errors in range(DISTANCE + 1)
        for bits in combinations(range(choice_bits), errors)
    ]
    starts = np.array(blocks, dtype=np.uint64) >> np.uint64(LOWEST_BITS) << np.uint64(LOWEST_BITS)
    lowest = [rng.choice(1 << LOWEST_BITS, BLOCK_KEYS, replace=False).astype(np.uint64) for _ in blocks]
    return np.sort((starts[:, None] | np.stack(lowest)).ravel())


def probe_micros(probe: Callable[[int], Any], queries: Keys) -> list[float]:
    """Processor time of each call. All are made once before, so that no page has its checksum computed in them."""
    for query in queries.tolist():
        probe(query)
    micros: list[float] = []
    for query in queries.tolist():
        began = time.thread_time_ns()
        probe(query)
        micros.append((time.thread_time_ns() - began) / 1000)
    return micros


def main() -> int:
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("--plans", type=parse_plans, default=[*planner.AIMS, *PAPER_NAMES], help="default all")
    parser.add_argument("--queries", type=parse_count, default=200, help="probes of each store; default 200")
    arguments = parse_arguments(parser)
    if not arguments.small and "--n" not in " ".join(sys.argv):
        arguments.n = ATTACKED_KEYS
    results = Results("check_adversarial", arguments, only_keys=ATTACKED_KEYS)
    rng = np.random.default_rng(SEED)
    top = uniform(1, rng) >> np.uint64(64 - SHARED_BITS) << np.uint64(64 - SHARED_BITS)
    keys = distinct(top | uniform(arguments.n, rng) >> np.uint64(SHARED_BITS))
    queries = queries_of(keys, arguments.queries, rng)
    expected = brute_force(keys, queries[:CHECKED_QUERIES])
    even_keys = distinct(uniform(arguments.n, rng))
    even_queries = queries_of(even_keys, arguments.queries, rng)
    rows: list[dict[str, Any]] = []
    with scratch_folder(arguments) as folder:
        for plan in arguments.plans:
            with fpstore.build(folder / "even.fpstore", even_keys, ids=None, plan=plan, force=True) as store:
                even = float(np.median(probe_micros(store.probe, even_queries)))
            for seed in (None, SECRET):
                with fpstore.build(folder / "s.fpstore", keys, ids=None, plan=plan, shuffle=seed, force=True) as store:
                    found = store.probe_many(queries[:CHECKED_QUERIES])
                    answer = in_order(found.query, found.fingerprint, found.distance)
                    results.expect(same_answer(answer, expected), f"{store.plan.name}: other answers than brute force")
                    micros = probe_micros(store.probe, queries)
                    times = float(np.median(micros)) / even
                    (segment,) = store._segments
                    crowd = max(fullest_prefix(segment, table)[1] for table in range(len(segment.tables)))
                    warned = bool(store.stats(largest_slots=1).segments[0].warnings)
                    results.expect(warned == (crowd > CROWDED_KEYS), f"{store.plan.name}: {crowd} with one prefix")
                    rows.append(
                        {
                            "plan": store.plan.name,
                            "p50 us": float(np.median(micros)),
                            "max us": max(micros),
                            "uniform p50 us": even,
                            "times that": times,
                            "with one prefix": crowd,
                            "warns": warned,
                        }
                    )
                    if plan == JUDGED_PLAN and seed is not None:
                        results.bar(f"{store.plan.name}, times a uniform store's p50", times, at_most=MAX_TIMES)
        query = int(uniform(1, rng)[0])
        choice_bits = ARRANGED_BITS if arguments.n >= ATTACKED_KEYS else FEWER_ARRANGED_BITS
        arranged = arranged_around(query, choice_bits, rng)
        with fpstore.build(folder / "s.fpstore", arranged, ids=None, plan=ARRANGED_PLAN, force=True) as store:
            asked = np.full(CHECKED_QUERIES, query, dtype=np.uint64)
            found = store.probe_many(asked[:1])
            answer = in_order(found.query, found.fingerprint, found.distance)
            results.expect(same_answer(answer, brute_force(arranged, asked[:1])), "around one query: other answers")
            worst = {"plan": ARRANGED_PLAN, "p50 us": float(np.median(probe_micros(store.probe, asked)))}
    results.table(f"{len(keys):,} keys that agree in their top {SHARED_BITS} bits", rows)
    results.table(f"{len(arranged):,} keys arranged around one query", [worst])
    return results.finish() or int(bool(results.missed))


if __name__ == "__main__":
    sys.exit(main())
