"""Compares the search with brute force, 10,000 queries on 10^6 keys of each kind, under the product's plans.

    python tools/check_exact.py [--n 1000000] [--queries 10000] [--kinds uniform,...] [--plans size,...] [--codec gap]

One line for each kind and plan, with the number of matches that differ; exit status 1 if any does. All queries at
distance 3, a tenth of them at 0, 1 and 2 too. Most of the time is brute force: numpy on two threads, once a kind.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from arguments import names_among, parse_count, parse_plans, parse_whole
from helpers import (
    CODECS,
    KINDS,
    Matches,
    brute_force,
    difference_count,
    distinct,
    in_order,
    queries_near,
    write_segment,
)

from fpstore._probe import search
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.segment.reader import Segment
from fpstore.types import Keys

K = 3
THREADS = 2
BRUTE_KINDS = [kind for kind in KINDS if kind != "all_equal"]  # that one has a single key
BLOCK_COMPARISONS = 1 << 20  # of one step of brute force: 8 MiB of XORs, which stay in the cache


def brute_force_in_threads(stored: Keys, queries: Keys) -> Matches:
    """Brute force, the queries shared out in parts."""
    parts = np.array_split(np.arange(len(queries)), 10 * THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda part: brute_force(stored, queries[part], K, BLOCK_COMPARISONS), parts))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    offsets = np.repeat([part[0] if len(part) else 0 for part in parts], [len(matches[0]) for matches in found])
    return in_order((columns[0] + offsets).astype(np.int64), columns[1], columns[2])


def plan_for(name: str, n: int) -> Plan:
    return planner.choose(n, K, name) if name in planner.AIMS else plans.named(name, K)


def check_kind(kind: str, arguments: argparse.Namespace) -> int:
    """All plans on one kind of keys; the number of differences."""
    rng = np.random.default_rng(arguments.seed)
    stored = distinct(KINDS[kind](arguments.n, rng))
    queries = queries_near(stored, K, arguments.queries, rng)
    started = time.monotonic()
    expected = brute_force_in_threads(stored, queries)
    print(
        f"{kind}: {len(stored)} keys, {len(queries)} queries, {len(expected[0])} matches "
        f"(brute force {time.monotonic() - started:.0f} s)",
        flush=True,
    )
    total = 0
    for name in arguments.plans:
        plan = plan_for(name, len(stored))
        for codec in arguments.codecs:
            with tempfile.TemporaryDirectory() as folder:
                segment = Segment(write_segment(Path(folder) / "x", stored, plan, codec=codec))
                started = time.monotonic()
                found = search(segment.view, queries, K)
                elapsed = time.monotonic() - started
                differences = difference_count(found, expected)
                few = len(queries) // 10
                for k in range(K):
                    keep = (expected[2] <= k) & (expected[0] < few)
                    nearer = (expected[0][keep], expected[1][keep], expected[2][keep])
                    differences += difference_count(search(segment.view, queries[:few], k), nearer)
                size = segment.file_bytes
                segment.close()
            total += differences
            print(
                f"{kind}, {name} ({plan.name}, {len(plan.tables)} tables), {codec}, {size / len(stored):.1f} bytes per "
                f"key, {1e6 * elapsed / len(queries):.1f} us a query: {differences} differences",
                flush=True,
            )
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=parse_count, default=10**6, help="keys of each kind before repeats are dropped")
    parser.add_argument("--queries", type=parse_count, default=10_000)
    parser.add_argument("--seed", type=parse_whole, default=0)
    some = "separated by commas; default"
    every = [*planner.AIMS, *plans.PAPER_NAMES]
    kinds = f"{some} {','.join(BRUTE_KINDS)}"
    parser.add_argument("--kinds", type=names_among(KINDS), default=BRUTE_KINDS, help=kinds)
    parser.add_argument("--plans", type=parse_plans, default=every, help=f"{some} {','.join(every)}")
    parser.add_argument("--codecs", type=names_among(CODECS), default=["gap"], help=f"{some} gap")
    arguments = parser.parse_args()
    started = time.monotonic()
    total = sum(check_kind(kind, arguments) for kind in arguments.kinds)
    print(f"{total} differences in all, {time.monotonic() - started:.0f} s")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
