"""Measures searches far beyond a plan's distance: the scan, and plans for large distances.

    python tools/bench_far.py [--n 1e6] [--sets u,c] [--distances 4,8,10,14,16,20,24] [--queries 64]
                              [--rounds 5] [--small] [--json]

The scan is compared with decoding the same table, and of keys that are not coded with a XOR and popcount of every key
in memory. One thread, processor time, rounds in turns. Answers are compared with brute force.
"""

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among, parse_count, wholes_among
from benchlib import (
    SET_NAMES,
    Keys,
    Results,
    cpu_ratio,
    distinct,
    interleaved,
    make_set,
    median_cpu,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore._probe import scan as scan_in_memory
from fpstore._view import TableCursor
from fpstore.plans import planner
from fpstore.query.scans import scan
from fpstore.segment.reader import Segment
from fpstore.store import Store

DISTANCES = [4, 8, 10, 14, 16, 20, 24]
# The scan of one query over decoding, and of keys that are not coded over reading them.
DECODE_BAR = 0.9
RAW_BAR = 0.8


def flipped(keys: Keys, bits: int, source: np.random.Generator) -> Keys:
    """Each with so many of its bits inverted."""
    masks = [sum(1 << int(bit) for bit in source.choice(64, bits, replace=False)) for _ in keys]
    return keys ^ np.array(masks, dtype=np.uint64)


def decode(segment: Segment) -> None:
    cursor, room = TableCursor(segment.view, 0, 0, 1 << segment.tables[0].slot_bits), np.empty(1 << 17, dtype=np.uint64)
    while len(cursor.read(len(room), room)):
        pass


def bench_scan(name: str, keys: Keys, queries: Keys, folder: Path, rounds: int, results: Results) -> None:
    rows: list[dict[str, Any]] = []
    for codec in ("gap", "raw"):
        path = folder / f"{codec}.fpstore"
        fpstore.build(path, keys, ids=None, plan="flips-1:3", codec=codec).close()
        with fpstore.open(path, warm=True) as store:
            (segment,) = store._segments
            limit = partial(decode, segment) if codec == "gap" else partial(scan_in_memory, keys, int(queries[0]), 3)
            calls = [limit, partial(scan, segment, queries[:1], 3), partial(scan, segment, queries, 3)]
            limits, one, many = interleaved(calls, rounds)
            ratio = 1 / cpu_ratio(one, limits)
            rows.append(
                {
                    "codec": codec,
                    "limit ns/key": 1e9 * median_cpu(limits) / len(keys),
                    "one query": 1e9 * median_cpu(one) / len(keys),
                    f"each of {len(queries)}": 1e9 * median_cpu(many) / len(keys) / len(queries),
                    "of the limit": ratio,
                }
            )
            results.bar(f"{name}, {codec}: of the limit", ratio, at_least=DECODE_BAR if codec == "gap" else RAW_BAR)
    results.table(f"{name}: a scan, one thread", rows)


def single_queries(store: Store, queries: Keys, distance: int) -> None:
    """Each alone, in C where that is how single queries are answered."""
    if store._latest.single.each(queries, distance, False) is None:
        for query in queries.tolist():
            store.probe(query)


def bench_plans(name: str, keys: Keys, arguments: Namespace, folder: Path, results: Results) -> None:
    """What is predicted of the plans of each distance, and what the built stores do."""
    rows: list[dict[str, Any]] = []
    queries = flipped(np.random.default_rng(5).choice(keys, arguments.queries), 3, np.random.default_rng(6))
    for distance in arguments.distances:
        for aim in planner.AIMS:
            plan = planner.choose(len(keys), distance, aim)
            predicted = planner.predict(plan, len(keys))
            path = folder / f"{distance}-{aim}.fpstore"
            fpstore.build(path, keys, ids=None, max_distance=distance, plan=aim).close()
            # Users' pages are mapped: what the first touch of each costs is another figure (tools/bench_reader.py).
            with fpstore.open(path, warm=True) as store:
                alone = partial(single_queries, store, queries, distance)
                times, singles = interleaved([partial(store.probe_many, queries, threads=1), alone], arguments.rounds)
                (segment,) = store._segments
                found = store.probe_many(queries[:1], max_distance=distance)
                expected = int((np.bitwise_count(keys ^ queries[0]) <= distance).sum())
                results.expect(len(found) == expected, f"{name}, {distance}, {aim}: {len(found)} of {expected}")
                rows.append(
                    {
                        "k": distance,
                        "aim": aim,
                        "plan": plan.name,
                        "bytes/key": segment.file_bytes / len(keys),
                        "predicted bytes": predicted.bytes_per_key,
                        "batch us": 1e6 * median_cpu(times) / len(queries),
                        "single us": 1e6 * median_cpu(singles) / len(queries),
                        "predicted us": predicted.nanoseconds / 1e3,
                        "method": store.probe_many(queries, threads=1).method,
                    }
                )
    results.table(f"{name}: plans for large distances, one thread", rows)


def main() -> int:
    parser = new_parser(__doc__, rounds=5)
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, c or u,c; default both"
    )
    parser.add_argument("--distances", type=wholes_among(range(65)), default=DISTANCES)
    parser.add_argument("--queries", type=parse_count, default=64)
    arguments = parse_arguments(parser)
    results = Results("bench_far", arguments)
    for kind in arguments.sets:
        keys = distinct(make_set(kind, arguments.n))
        name = f"{SET_NAMES[kind]} {len(keys):,}"
        with scratch_folder(arguments) as folder:
            source = np.random.default_rng(3)
            queries = source.integers(0, 1 << 63, arguments.queries, dtype=np.uint64)
            bench_scan(name, keys, queries, folder, arguments.rounds, results)
            bench_plans(name, keys, arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
