"""Holds what is said of batches against what they take: looked up, streamed, scanned; and what is picked of the three.

    python tools/bench_batches.py [--n 1e6] [--cases 1,3,5,8,10] [--aims size,balanced,speed] [--queries 1e3,1e4,1e5]
                                  [--threads 1] [--most 4] [--bits 64] [--small] [--json]

A case is a distance. Of each plan that an aim picks a store of uniform and one of clustered keys is built, warm.
Batches are uniform, half of them near a stored key, and clustered. Each way has each batch by turns: the mean of the
rounds, of the processor's time on one thread. Look-ups and scans have the first queries alone where all would take over
half a second, as each of these takes as long. What is said to take over --most seconds in the best way, or streams in
over four times as much, is left out. To hold, of batches that take over 10 ms in the best way: what is picked takes at
most 1.25 times that, 1.1 in the median. Streams of over 10 ms take 0.7 to 1.4 of what is said, on one thread. Where
none takes so long all are judged.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_counts, parse_seconds, wholes_among
from benchlib import Keys, Results, new_parser, parse_arguments, scratch_folder, uniform

import fpstore
from fpstore.plans.plan import Plan
from fpstore.plans.planner import AIMS, begun_nanoseconds, choose
from fpstore.plans.reach import lookup_nanoseconds, reaching
from fpstore.query.batch import streaming_nanoseconds
from fpstore.query.matches import MAX_MATCHES
from fpstore.query.ways import Lookup, Scan, Stream, Way, way_to_all
from fpstore.segment.reader import Segment
from fpstore.threads import Threads

REAL_KEYS, SMALL_KEYS = 10**6, 20_000
PICKED_AT_MOST, PICKED_MEDIAN, SAID_WITHIN = 1.25, 1.1, (0.7, 1.4)
JUDGED_NS = 1e7
PART_NS = 5e8
FEWEST = 1000
# A cluster has as many keys, or queries, on average.
CLUSTER = 8
MOST_STREAMED = 4


def near(keys: Keys, count: int, flips: int, source: np.random.Generator) -> Keys:
    """Keys of these, in so many bits or fewer others."""
    found = source.choice(keys, count)
    for _ in range(flips):
        found ^= np.uint64(1) << source.integers(0, 64, count, dtype=np.uint64)
    return found


def stored(kind: str, count: int, bits: int, source: np.random.Generator) -> Keys:
    keys = uniform(count, source)
    return (keys if kind == "uniform" else near(keys[: -(-count // CLUSTER)], count, 3, source)) >> np.uint64(64 - bits)


def asked(kind: str, keys: Keys, count: int, distance: int, bits: int, source: np.random.Generator) -> Keys:
    queries = uniform(count, source) >> np.uint64(64 - bits)
    if kind == "near":
        queries[::2] = near(keys, len(queries[::2]), distance + 1, source)
    elif kind == "clustered":
        queries = near(near(keys, -(-count // CLUSTER), distance + 2, source), count, 1, source)
    return queries & np.uint64((1 << bits) - 1)


def ways_of(segment: Segment, plan: Plan, distance: int, threads: Threads) -> dict[str, Way]:
    run = map if threads.count == 1 else threads.map
    found: dict[str, Way] = {"stream": Stream(segment, distance, None, run), "scan": Scan(segment, distance, run)}
    wider = reaching(plan, distance, segment.key_count)
    if wider is not None:
        flips = None if wider is plan else tuple(table.flips for table in wider.tables)
        found["probe"] = Lookup(segment, distance, flips, run)
    return found


def taken(way: Way, queries: Keys, clock: Callable[[], float]) -> float:
    start = clock()
    way.all(queries, MAX_MATCHES)
    return 1e9 * (clock() - start) / len(queries)


def batches(
    name: str, segment: Segment, plan: Plan, distance: int, arguments: Namespace, source: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """A row for each batch."""
    keys = np.concatenate([part.copy() for part in segment.keys(0)])
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    with closing(Threads(arguments.threads)) as threads:
        ways = ways_of(segment, plan, distance, threads)
        for count in arguments.queries:
            picked = way_to_all(segment, plan, distance, count)
            streamed = streaming_nanoseconds(segment, count, distance) / count
            said = {"stream": streamed, "probe": lookup_nanoseconds(plan, distance, segment.key_count)}
            said["probe"] -= begun_nanoseconds(plan)
            most = 1e9 * arguments.most
            if picked.nanoseconds * count > most or streamed > MOST_STREAMED * picked.nanoseconds:
                continue
            for kind in ("uniform", "near", "clustered"):
                figures: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(arguments.rounds + 1):
                    queries = asked(kind, keys, count, distance, plan.bits, source)
                    for way, own in figures.items():
                        part = count if way == "stream" else max(FEWEST, int(PART_NS / picked.nanoseconds))
                        own.append(taken(ways[way], queries[:part], clock))
                found = {way: mean(own[1:]) for way, own in figures.items()}
                best = min(found.values())
                yield {
                    "store": name,
                    "queries": count,
                    "of": kind,
                    "probe ns": found.get("probe"),
                    "of said": found["probe"] / said["probe"] if "probe" in found else None,
                    "stream ns": found["stream"],
                    "of said ": found["stream"] / said["stream"],
                    "scan ns": found["scan"],
                    "picked": picked.method,
                    "of best": found[picked.method] / best,
                    "ms": best * count / 1e6,
                }


def bench(arguments: Namespace, results: Results, folder: Path) -> None:
    rows: list[dict[str, Any]] = []
    for distance in arguments.cases:
        plans = {choose(arguments.n, distance, aim, arguments.bits): aim for aim in reversed(arguments.aims)}
        for plan, aim in reversed(plans.items()):
            for kind in ("uniform", "clustered"):
                source = np.random.default_rng(distance)
                path, name = folder / "bench.fpstore", f"k = {distance}, {aim}, {kind}"
                keys = stored(kind, arguments.n, arguments.bits, source)
                shape: dict[str, Any] = {"max_distance": distance, "plan": plan, "bits": arguments.bits}
                fpstore.build(path, keys, ids=None, force=True, **shape).close()
                with fpstore.open(path, warm=True) as store:
                    (segment,) = store._segments
                    queries = asked("near", keys, FEWEST, distance, arguments.bits, source)
                    found = {len(way.all(queries)[0]) for way in ways_of(segment, plan, distance, Threads(1)).values()}
                    results.expect(len(found) == 1, f"{name}: {found} rows in several ways")
                    own = list(batches(name, segment, plan, distance, arguments, source))
                if own:
                    results.table(name, own)
                rows += own
    judged = [row for row in rows if row["ms"] * 1e6 > JUDGED_NS] or rows
    results.bar("what is picked, of the best", max(row["of best"] for row in judged), at_most=PICKED_AT_MOST)
    results.bar("in the median", median(row["of best"] for row in judged), at_most=PICKED_MEDIAN)
    if arguments.threads == 1:
        least, most = SAID_WITHIN
        streamed = [row for row in rows if row["stream ns"] * row["queries"] > JUDGED_NS] or rows
        ratios = [row["of said "] for row in streamed]
        results.bar("streams, of what is said, least", min(ratios), at_least=least)
        results.bar("most", max(ratios), at_most=most)


def main() -> int:
    parser = new_parser(__doc__, rounds=2, real=REAL_KEYS, small=SMALL_KEYS)
    parser.add_argument("--cases", type=wholes_among(range(65)), default=[1, 3, 5, 8, 10], help="distances")
    parser.add_argument("--aims", type=names_among(AIMS), default=["size", "balanced", "speed"], help="of plans")
    parser.add_argument("--queries", type=parse_counts, help="of a batch; default 1e3,3e3, and so on, up to 1e6")
    parser.add_argument("--threads", type=parse_count, default=1, help="that share a batch; default 1")
    parser.add_argument("--most", type=parse_seconds, default=4.0, help="seconds of a batch; default 4")
    parser.add_argument("--bits", type=parse_count, default=64, help="of a fingerprint; default 64")
    arguments = parse_arguments(parser, real=REAL_KEYS, small=SMALL_KEYS)
    default = "1e3,5e3" if arguments.small else "1e3,3e3,1e4,3e4,1e5,3e5,1e6"
    arguments.queries = arguments.queries or parse_counts(default)
    results = Results("bench_batches", arguments)
    with scratch_folder(arguments) as folder:
        bench(arguments, results, folder)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
