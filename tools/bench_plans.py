"""Holds what `fpstore plan` says of each choice against the store that is built of it: bytes, and the time of a query.

    python tools/bench_plans.py [--n 1e7] [--cases 256:31,128:9,64:3,64:8,64:10] [--picked] [--small] [--json]

A case is bits:k. Every choice that `fpstore plan --n N --bits BITS -k K` prints is built of N uniform fingerprints, in
blocks too where they are laid out so, or with --picked those alone that an aim picks. Timed are queries, half of them
near a stored fingerprint, all in one call on one thread ("many"), and each in a call of its own ("alone"), in C for 64
bits, in a store whose pages have been read and checked; of each the median of the rounds. The bars: bytes within 10 %,
and within 30 % many, or alone where all queries of one call share what they read (stream, scan).
"""

import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import parse_cases
from bench_wide import queries_of
from bench_wide import uniform as uniform_codes
from benchlib import Keys, Results, make_queries, new_parser, parse_arguments, scratch_folder, uniform

import fpstore
from fpstore.plans.planner import Prediction
from fpstore.store import Store

CASES = "256:31,128:9,64:3,64:8,64:10"
BYTES_WITHIN, TIME_WITHIN = 0.1, 0.3
QUERIES, FEWEST = 4000, 8
# What the queries of one round should take, of which a plan that takes long has fewer.
ROUND_NS = 5e7
KEY_BITS = 64


def fingerprints(bits: int, count: int, query_count: int) -> tuple[Keys, Keys]:
    """Uniform ones of so many bits, and so many queries: half of them near one."""
    source = np.random.default_rng(bits)
    if bits == KEY_BITS:
        keys = uniform(count, source)
        return keys, make_queries(keys, query_count)
    codes = uniform_codes(count, bits // KEY_BITS, source)
    return codes, queries_of(codes, bits // 8 - 1, source, query_count)


def alone(store: Store, queries: Keys, distance: int) -> None:
    """Ask for each in a call of its own."""
    if store.bits == KEY_BITS and store._latest.single.each(queries, distance, False) is not None:
        return
    for query in queries:
        store.probe(query)


def microseconds(call: Callable[[Keys], Any], queries: Keys, rounds: int) -> float:
    """Of a query, the median of the rounds, after one that is not timed.

    Each round has its own queries: a cache of hundreds of MiB holds all lines that one round waits for, which made a
    query of ten tables at 10^7 take 0.75 us for 1.14.
    """
    taken = []
    for asked in np.split(queries, rounds + 1):
        start = time.perf_counter()
        call(asked)
        taken.append((time.perf_counter() - start) / len(asked))
    return 1e6 * median(taken[1:])


def measure(
    said: Prediction, keys: Keys, queries: Keys, folder: Path, arguments: Namespace, results: Results, case: str
) -> dict[str, Any]:
    """Build the choice, and tell what it takes beside what was said."""
    plan = said.plan
    layout = "blocks" if plan.block_bytes else "slots"
    name = f"{case}, {plan.name} of {plan.slot_keys}" + (", blocks" if plan.block_bytes else "")
    asked: dict[str, Any] = {"bits": plan.bits, "max_distance": plan.max_distance, "plan": plan, "layout": layout}
    path = folder / "bench.fpstore"
    fpstore.build(path, keys, ids=None, force=True, **asked).close()
    parts = arguments.rounds + 1
    few = queries[: parts * int(max(FEWEST, min(QUERIES, ROUND_NS / said.nanoseconds)))]
    with fpstore.open(path, warm=True) as store:
        (segment,) = store._segments
        size = segment.file_bytes / segment.key_count
        many = microseconds(partial(store.probe_many, threads=1), few, arguments.rounds)
        single = microseconds(lambda each: alone(store, each, plan.max_distance), few, arguments.rounds)
        method = store.probe_many(few[: len(few) // parts], threads=1).method
        if store.bits == KEY_BITS:
            found = len(store.probe_many(few[:1]))
            expected = int((np.bitwise_count(keys ^ few[0]) <= plan.max_distance).sum())
            results.expect(found == expected, f"{name}: {found} of {expected}")
    shutil.rmtree(path)
    told = said.nanoseconds / 1e3
    results.bar(f"{name}: bytes", size / said.bytes_per_key, at_least=1 - BYTES_WITHIN, at_most=1 + BYTES_WITHIN)
    taken = many if method == "probe" or plan.bits > KEY_BITS else single
    results.bar(f"{name}: time", taken / told, at_least=1 - TIME_WITHIN, at_most=1 + TIME_WITHIN)
    return {
        "plan": f"{plan.name} of {plan.slot_keys}",
        "layout": layout,
        "picked by": ", ".join(said.picked_by),
        "bytes": size,
        "said": said.bytes_per_key,
        "many us": many,
        "alone us": single,
        "said us": told,
        "of said": taken / told,
        "method": method,
    }


def main() -> int:
    parser = new_parser(__doc__, rounds=5)
    parser.add_argument("--cases", type=parse_cases, default=parse_cases(CASES), help=f"bits:k; default {CASES}")
    parser.add_argument("--picked", action="store_true", help="only what an aim picks")
    arguments = parse_arguments(parser)
    results = Results("bench_plans", arguments)
    with scratch_folder(arguments) as folder:
        for case in arguments.cases:
            bits, distance = map(int, case.split(":"))
            keys, queries = fingerprints(bits, arguments.n, QUERIES * (arguments.rounds + 1))
            choices = fpstore.predict(n=arguments.n, max_distance=distance, bits=bits)
            if bits <= KEY_BITS:
                choices += fpstore.predict(n=arguments.n, max_distance=distance, bits=bits, layout="blocks")
            wanted = [each for each in choices if each.picked_by or not arguments.picked]
            rows = [measure(each, keys, queries, folder, arguments, results, case) for each in wanted]
            results.table(f"{arguments.n:,} of {bits} bits, k = {distance}", rows)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
