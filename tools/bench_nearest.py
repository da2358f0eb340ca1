"""Measures the nearest, one and ten of them, however far: by single calls and in batches, beside FAISS and pynear.

    python tools/bench_nearest.py [--n 1e6] [--bits 64,256] [--sets u,s] [--hashes FILE] [--apart 0,4,8,10,12,far]
                                  [-k 3,8,31] [--plan balanced] [--queries 64] [--rounds 5] [--small] [--json]

Uniform fingerprints (u), and skewed ones (s): of words that are real 64-bit hashes where --hashes names a file of them
(a line each, hexadecimal, up to a tab), most of them copies with errors. A query is a stored one with so many bits
inverted, or any. One processor, its time. A single query is `Store.nearest`, by turns with one query of FAISS, so
that it finds little of its own in the caches, and once more with a scan for one query too: medians of all queries, and
what all took over what all scans took, as some are nearer than others. What the clock takes, that is a call of nothing
among them, is taken off each. In a row is each engine alone, with nothing between, as where a service does nothing
else: near ones are other queries than those by turns, and a far one's part is of scans that are in a row too. Queries
of a row come after as many of the same kind, which is what the store remembers of them. Batches go by turns too. FAISS
is IndexBinaryFlat, pynear MIHBinaryIndex, which looks no further than 8 bits, each where it is installed. Answers are
compared with brute force.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any

import numpy as np
from arguments import names_among, parse_apart, parse_count, parse_file, parse_plan, wholes_among
from bench_wide import skewed, uniform
from benchlib import (
    Results,
    interleaved,
    median_cpu,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore.codes.reader import CodesSegment
from fpstore.query.scans import scan
from fpstore.store import Store

NEAR_BITS = 8  # up to which a single query is to take a twentieth of FAISS's time
NEAR_BAR, FAR_BAR = 20.0, 1.0
SET_NAMES = {"u": "uniform", "s": "skewed"}
IN_A_ROW = 1 << 11
ASKED_BEFORE = 8
COUNTS = (1, 10)
APART = ["0", "4", "8", "10", "12", "far"]
PYNEAR_RADIUS = 8
BATCHES = (2, 16)  # and as many as there are queries


def as_bytes(codes: Any) -> Any:
    """Rows of bytes, of which peers count the bits that differ."""
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), -1)


def make_peers(codes: Any) -> dict[str, Callable[[Any, int], Any]]:
    """Of each that is installed, what gives the distances of the nearest."""
    peers: dict[str, Callable[[Any, int], Any]] = {}
    rows = as_bytes(codes)
    try:
        import faiss

        faiss.omp_set_num_threads(1)
        flat = faiss.IndexBinaryFlat(8 * rows.shape[1])
        flat.add(rows)
        peers["FAISS flat"] = lambda queries, count: flat.search(as_bytes(queries), count)[0]
    except ImportError:
        pass
    try:
        import pynear

        index = pynear.MIHBinaryIndex(rows.shape[1] // 2)
        index.set(rows)
        peers["pynear MIH"] = lambda queries, count: index.searchKNN(as_bytes(queries), count, PYNEAR_RADIUS)
    except ImportError:
        pass
    return peers


def queries_of(codes: Any, apart: str, count: int, source: np.random.Generator) -> Any:
    """Stored codes with so many bits inverted, or codes that are far from all."""
    bits = 64 * codes.shape[1]
    if apart == "far":
        return uniform(count, codes.shape[1], source)
    asked = codes[source.integers(0, len(codes), count)].copy()
    for query in asked:
        for bit in source.choice(bits, int(apart), replace=False):
            query[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return asked


def least_distances(codes: Any, query: Any, count: int) -> list[int]:
    apart = np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.int64)
    return sorted(np.partition(apart, count - 1)[:count].tolist())


def scanning(store: Store, queries: Any) -> Callable[[], Any]:
    """A scan of all keys for one query, which finds little."""
    (segment,) = store._segments
    if isinstance(segment, CodesSegment):
        return partial(segment.codes.search, queries[:1], 0, scan=True)
    return partial(scan, segment, queries[:1], 0)


def by_turns(calls: list[Callable[[int], Any]], count: int) -> list[list[float]]:
    """Each call's microseconds, of the processor, for each of so many queries, which all calls ask for by turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for index in range(count):
        for call, own in zip(calls, taken, strict=True):
            begin = process_time_ns()
            call(index)
            own.append((process_time_ns() - begin) / 1000)
    return taken


def in_a_row(call: Callable[[Any], Any], queries: Any) -> float:
    """Microseconds of the processor that each takes of all, one after the other; the last ones were asked before.

    So caches that all processors share hold what it reads, in place of what others read before.
    """
    for query in queries[-ASKED_BEFORE:]:
        call(query)
    begin = process_time_ns()
    for query in queries:
        call(query)
    return (process_time_ns() - begin) / 1000 / len(queries)


def measure_row(
    store: Store, asked: Any, count: int, others: list[Any] | None, peers: dict[str, Any], rounds: int
) -> dict[str, Any]:
    """Microseconds of a query; others: those in a row, of near ones."""
    queries = asked[:, 0] if asked.shape[1] == 1 else asked
    each = queries.tolist() if asked.shape[1] == 1 else list(asked)
    faiss = peers.get("FAISS flat")

    def of_faiss(index: int) -> None:
        if faiss is not None:
            faiss(asked[index : index + 1], count)

    def single(index: int) -> None:
        store.nearest(each[index], count)

    for index in range(len(each)):
        single(index)
    scan = scanning(store, queries)
    own, other, nothing, _ = by_turns([single, of_faiss, lambda index: None, of_faiss], len(each))
    again, _, scanned, _ = by_turns([single, of_faiss, lambda index: scan(), of_faiss], len(each))
    clock = median(nothing)
    row: dict[str, Any] = {"single us": median(own) - clock, "scan us": median(scanned) - clock}
    row["single / scan"] = (sum(again) - clock * len(again)) / (sum(scanned) - clock * len(scanned))
    rows: dict[str, Callable[[], float]] = {
        "in a row us": partial(in_a_row, lambda query: store.nearest(query, count), each if others is None else others),
        "scan in a row us": partial(in_a_row, lambda query: scan(), each),
        "FAISS in a row us": partial(in_a_row, of_faiss, range(len(each))),
    }
    taken_of: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, call_row in rows.items():
            taken_of[name].append(call_row())
    row.update({name: median(taken) for name, taken in taken_of.items()})
    sizes = [size for size in BATCHES if size < len(queries)] + [len(queries)]
    calls: list[Callable[[], Any]] = [partial(store.nearest_many, queries[:size], count, threads=1) for size in sizes]
    if faiss is not None:
        calls.append(partial(faiss, asked, count))
    times = interleaved(calls, rounds)
    for size, taken in zip(sizes, times, strict=False):
        row["batch us" if size == len(queries) else f"batch of {size} us"] = 1e6 / size * median_cpu(taken)
    row["FAISS flat us"] = row["FAISS batch us"] = row["pynear MIH us"] = None
    if faiss is not None:
        row["FAISS flat us"], row["FAISS batch us"] = median(other) - clock, 1e6 / len(queries) * median_cpu(times[-1])
    if others is not None and "pynear MIH" in peers:
        # By itself, as the threads of pynear go on for a while after a call.
        (taken,) = interleaved([partial(peers["pynear MIH"], asked, count)], 1)
        row["pynear MIH us"] = 1e6 / len(queries) * median_cpu(taken)
    return row


def measure(name: str, codes: Any, store: Store, peers: dict[str, Any], given: Namespace, results: Results) -> None:
    rows: list[dict[str, Any]] = []
    source = np.random.default_rng(9)
    for apart in given.apart:
        asked = queries_of(codes, apart, given.queries, source)
        queries = asked[:, 0] if codes.shape[1] == 1 else asked
        near = apart != "far" and int(apart) <= NEAR_BITS
        row_of = queries_of(codes, apart, IN_A_ROW, source) if near else asked[:0]
        others = None if not near else row_of[:, 0].tolist() if codes.shape[1] == 1 else list(row_of)
        for count in COUNTS:
            found = store.nearest_many(queries, count)
            for index in range(min(4, len(queries))):
                expected = least_distances(codes, asked[index], count)
                same = found.distance[found.query == index].tolist() == expected
                query = queries.tolist()[index] if codes.shape[1] == 1 else asked[index]
                same &= store.nearest(query, count).distance.tolist() == expected
                results.expect(same, f"{name}, {apart}, {count}: another nearest")
            row = measure_row(store, asked, count, others, peers, given.rounds)
            rows.append({"apart": apart, "nearest": count, **row})
            if apart == "far":
                results.bar(f"{name}, far, {count}: single, over one scan", row["single / scan"], at_most=FAR_BAR)
                part = row["in a row us"] / row["scan in a row us"]
                results.bar(f"{name}, far, {count}: in a row, over one scan", part, at_most=FAR_BAR)
            if "FAISS flat" not in peers:
                continue
            if apart == "far":
                times = row["FAISS batch us"] / row["batch us"]
                results.bar(f"{name}, far, {count}: batch, times FAISS flat", times, at_least=FAR_BAR)
            elif near and count == 1:
                times = row["FAISS flat us"] / row["single us"]
                results.bar(f"{name}, {apart} apart: single, times FAISS flat", times, at_least=NEAR_BAR)
                times = row["FAISS in a row us"] / row["in a row us"]
                results.bar(f"{name}, {apart} apart: in a row, times FAISS flat", times, at_least=NEAR_BAR)
    results.table(f"{name}: the nearest by plan {store.plan.name}, one processor", rows)


def read_hashes(path: Path) -> Any:
    values = [line.partition("\t")[0] for line in path.read_text().split("\n")]
    return np.array([int(value, 16) for value in values if len(value) == 16], dtype=np.uint64)


def main() -> int:
    parser = new_parser(__doc__, rounds=5)
    parser.add_argument("--bits", default=[64, 256], help="64, 256 or both; default both", type=wholes_among([64, 256]))
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, s or u,s; default both"
    )
    parser.add_argument("--hashes", type=parse_file, help="64-bit hashes, in hexadecimal, that skewed ones consist of")
    parser.add_argument(
        "--apart", type=parse_apart, default=["0", "4", "8", "10", "12", "far"], help="numbers of bits, or far"
    )
    parser.add_argument(
        "-k", type=wholes_among(range(257)), default=[3, 8, 31], help="distances of plans; above 16 of wide ones"
    )
    parser.add_argument("--queries", type=parse_count, default=64)
    parser.add_argument("--plan", type=parse_plan, default="balanced", help="the plan of the stores; default balanced")
    given = parse_arguments(parser)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = Results("bench_nearest", given)
    hashes = None if given.hashes is None else read_hashes(given.hashes)
    for bits in given.bits:
        for kind in given.sets:
            random = np.random.default_rng(1)
            make = uniform if kind == "u" else partial(skewed, hashes=hashes)
            codes = np.unique(make(given.n, bits // 64, random), axis=0)
            peers = make_peers(codes)
            for distance in [each for each in given.k if (each > 16) == (bits > 64)]:
                with scratch_folder(given) as folder:
                    keys = codes[:, 0] if bits == 64 else codes
                    options: dict[str, Any] = {"bits": bits, "max_distance": distance, "plan": given.plan, "ids": None}
                    with fpstore.build(folder / "nearest.fpstore", keys, **options) as store:
                        store._warm()
                        name = f"{SET_NAMES[kind]} {len(codes):,} of {bits} bits, k = {distance}"
                        measure(name, codes, store, peers, given, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
