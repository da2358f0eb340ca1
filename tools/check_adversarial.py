"""Keys aimed at the plans that everybody knows: are probes still exact, how slow are they, and does a seed help.

    python tools/check_adversarial.py [--n 1e6] [--plans size,balanced,speed,paper-4,...] [--queries 200] [--json]

All keys agree in their top bits, so that in every public plan one prefix holds them all. Each plan is used as it is and
shuffled by a seed; queries are stored keys with 0 to 3 bits inverted. Answers are compared with brute force, and a
store with a crowded prefix has to warn of it. The figures are microseconds of
processor time of a call of Store.probe.
"""

import sys
import time
from typing import Any

import numpy as np
from benchlib import (
    DISTANCE,
    Results,
    brute_force,
    distinct,
    flipped,
    in_order,
    new_parser,
    parse_arguments,
    parse_list,
    same_answer,
    scratch_folder,
    uniform,
)

import fpstore
from fpstore.plans import planner
from fpstore.plans.plan import PAPER_NAMES
from fpstore.segment.crowding import CROWDED_KEYS, fullest_prefix

ATTACKED_KEYS = 10**6
SEED = 20070512
SECRET = 0x5EED
# The longest prefix of top bits that a public plan has, that of paper-20.
SHARED_BITS = 33
CHECKED_QUERIES = 20


def main() -> int:
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("--plans", type=parse_list, default=[*planner.AIMS, *PAPER_NAMES], help="default all")
    parser.add_argument("--queries", type=int, default=200, help="probes of each store; default 200")
    arguments = parse_arguments(parser)
    if not arguments.small and "--n" not in " ".join(sys.argv):
        arguments.n = ATTACKED_KEYS
    results = Results("check_adversarial", arguments, only_keys=ATTACKED_KEYS)
    rng = np.random.default_rng(SEED)
    top = uniform(1, rng) >> np.uint64(64 - SHARED_BITS) << np.uint64(64 - SHARED_BITS)
    keys = distinct(top | uniform(arguments.n, rng) >> np.uint64(SHARED_BITS))
    queries = rng.choice(keys, arguments.queries)
    queries = flipped(queries, rng.integers(0, DISTANCE + 1, len(queries)), rng)
    expected = brute_force(keys, queries[:CHECKED_QUERIES])
    rows: list[dict[str, Any]] = []
    with scratch_folder(arguments) as folder:
        for plan in arguments.plans:
            for seed in (None, SECRET):
                with fpstore.build(folder / "s.fps", keys, None, plan=plan, seed=seed, force=True) as store:
                    found = store.probe_many(queries[:CHECKED_QUERIES])
                    answer = in_order(found.query, found.fingerprint, found.distance)
                    results.expect(same_answer(answer, expected), f"{store.plan.name}: other answers than brute force")
                    micros: list[float] = []
                    for query in queries.tolist():
                        began = time.thread_time_ns()
                        store.probe(query)
                        micros.append((time.thread_time_ns() - began) / 1000)
                    (segment,) = store.segments
                    crowd = max(fullest_prefix(segment, table)[1] for table in range(len(segment.tables)))
                    warned = bool(store.stats(1)["segments"][0]["warnings"])
                    results.expect(warned == (crowd > CROWDED_KEYS), f"{store.plan.name}: {crowd} with one prefix")
                    rows.append(
                        {
                            "plan": store.plan.name,
                            "p50 us": float(np.median(micros)),
                            "max us": max(micros),
                            "with one prefix": crowd,
                            "warns": warned,
                        }
                    )
    results.table(f"{len(keys):,} keys that agree in their top {SHARED_BITS} bits", rows)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
