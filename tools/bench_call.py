"""Measures single calls from Python against the same work without Python around it.

    python tools/bench_call.py [--n 1e7] [--plans speed,balanced,size] [--queries 10000] [--rounds 7] [--parts P,P]
                               [--small] [--json]

Each query is asked for alone, in C by Single.each, and from Python by Store.probe or contains_near; FAISS, which has no
such loop, by its range_search of one query. Turns of 200 queries alternate, each caller at another place of the list,
so that none finds in the caches what another has just read. A figure is the clock of a turn over its queries, the
median of all turns; a ratio is the median of the ratios of turns beside each other. Half of the queries have a match;
with ids all of them have one. A further segment: a store of as many keys in ten segments, beside one of a tenth.
Additions are of one row each; those that are durable are beside a commit of LMDB of as many bytes.
"""

import itertools
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_plans
from bench_probe import make_faiss
from benchlib import (
    DISTANCE,
    REAL_KEYS,
    Keys,
    Results,
    flipped,
    make_queries,
    make_set,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore.living.sizes import LivingSizes
from fpstore.store import Store

QUERIES = 10_000
SMALL_QUERIES = 1_000
TURN_QUERIES = 200
SEGMENTS = 10
PARTS = ["calls", "segments", "additions", "durable"]
ADDITIONS = 5_000
SMALL_ADDITIONS = 200
# As many as a store has that is written to a row at a time: of the state, and of a record of one row with its id.
DURABLE_ADDITIONS = 1_500
STATE_BYTES = 981
RECORD_BYTES = 32

# Bars, at 10^7 keys and plan speed.
PROBE_BAR = 1.5
FAISS_BAR = 0.12
IDS_BAR = 2.0
CONTAINS_BAR = 1.5
SEGMENT_BAR_US = 0.7
ADDITION_BAR_US = 8.0

# Asks for each of some queries alone.
Caller = Callable[[Keys], object]


def turns(callers: Sequence[Caller], queries: Keys, rounds: int) -> list[list[float]]:
    """Microseconds a query of each turn of each caller; the same turns of each are beside each other in time."""
    count = len(queries) // TURN_QUERIES
    own: list[list[float]] = [[] for _ in callers]
    for round_number in range(rounds + 1):
        for turn in range(count):
            for index, (caller, times) in enumerate(zip(callers, own, strict=True)):
                first = (turn + index * count // len(callers)) % count * TURN_QUERIES
                some = queries[first : first + TURN_QUERIES]
                started = time.perf_counter()
                caller(some)
                elapsed = time.perf_counter() - started
                if round_number > 0:  # in the first one pages come into the cache and are checked
                    times.append(1e6 * elapsed / len(some))
    return own


def ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    return median(own / other for own, other in zip(times, reference, strict=True))


def timed_calls(call: Callable[[int], object], queries: Keys) -> float:
    """The median of the microseconds of a call for each query, once."""
    seconds = []
    for query in queries.tolist():
        started = time.perf_counter()
        call(query)
        seconds.append(time.perf_counter() - started)
    return 1e6 * median(seconds)


def in_c(store: Store, first_only: bool = False) -> Caller:
    single = store._latest.single
    return lambda queries: single.each(queries, DISTANCE, first_only)


def from_python(call: Callable[[int], object]) -> Caller:
    def ask(queries: Keys) -> None:
        for query in queries.tolist():
            call(query)

    return ask


def bench_calls(keys: Keys, arguments: Namespace, folder: Path, results: Results) -> None:
    """probe and contains_near, without ids and with."""
    queries = make_queries(keys, arguments.queries)
    rng = np.random.default_rng(2)
    hits = rng.choice(keys, arguments.queries)
    hits = flipped(hits, rng.integers(0, DISTANCE + 1, len(hits)), rng)
    faiss = make_faiss(keys)
    rows: list[dict[str, Any]] = []

    def measure(what: str, bar: float, plan: str, store: Store, call: Caller, own: Caller, asked: Keys) -> None:
        callers = [own, call]
        if faiss and what == "probe":
            callers.append(from_python(lambda query: faiss.search(np.array([query], dtype=np.uint64))))
        times = turns(callers, asked, arguments.rounds)
        of_call = ratio(times[1], times[0])
        of_faiss = ratio(times[1], times[2]) if len(times) > 2 else None
        rows.append(
            {
                "call": f"{what}, plan {plan}",
                "in C us": median(times[0]),
                "from Python us": median(times[1]),
                "Python / C": of_call,
                "Python / FAISS": of_faiss,
            }
        )
        if plan == "speed":
            results.bar(f"{what}, plan speed: Python over C", of_call, at_most=bar)
            if of_faiss is not None:
                results.bar(f"{what}, plan speed: over FAISS", of_faiss, at_most=FAISS_BAR)

    for plan in arguments.plans:
        with fpstore.build(folder / f"{plan}.fpstore", keys, ids=None, plan=plan) as store:
            found = sum(len(store.probe(query)) for query in queries.tolist())
            results.expect(found == in_c(store)(queries), f"plan {plan}: C finds another number of rows")
            near = sum(store.contains_near(query) for query in queries.tolist())
            results.expect(near == in_c(store, True)(queries), f"plan {plan}: C finds another number of queries near")
            measure("probe", PROBE_BAR, plan, store, from_python(store.probe), in_c(store), queries)
            near_call = from_python(store.contains_near)
            measure("contains_near", CONTAINS_BAR, plan, store, near_call, in_c(store, True), queries)
        with fpstore.build(folder / f"{plan}-ids.fpstore", keys, ids=np.arange(len(keys)), plan=plan) as store:
            measure("probe with ids and a hit", IDS_BAR, plan, store, from_python(store.probe), in_c(store), hits)
    results.table(f"uniform {len(keys):,}: single calls", rows)


def in_segments(path: Path, keys: Keys, count: int) -> Store:
    """A store of keys with ids, in so many segments of equal size."""
    fpstore.create(path, id_type="uint64", plan="speed").close()
    with Store(path, "w", "batch", LivingSizes(growth=0)) as store:
        for part in np.array_split(np.arange(len(keys), dtype=np.uint64), count):
            store.add(keys[part], ids=part)
            store._flush()
    return fpstore.open(path)


def bench_segments(keys: Keys, arguments: Namespace, folder: Path, results: Results) -> None:
    """What each segment more costs."""
    few = keys[: len(keys) // SEGMENTS]
    queries = make_queries(few, arguments.queries)
    with (
        in_segments(folder / "one.fpstore", few, 1) as one,
        in_segments(folder / "ten.fpstore", keys, SEGMENTS) as ten,
    ):
        calls = [in_c(one), from_python(one.probe), in_c(ten), from_python(ten.probe)]
        times = [median(own) for own in turns(calls, queries, arguments.rounds)]
        batch = turns([lambda some: ten.probe_many(some, threads=1)], queries, arguments.rounds)
    names = ("one segment, in C", "one segment, from Python", f"{SEGMENTS} segments, in C", f"{SEGMENTS}, from Python")
    rows = [{"call": name, "us": own} for name, own in zip(names, times, strict=True)]
    rows.append({"call": f"{SEGMENTS}, in a batch of {TURN_QUERIES}", "us": median(batch[0])})
    further = (times[3] - times[1]) / (SEGMENTS - 1)
    rows.append({"call": "each segment more, in C", "us": (times[2] - times[0]) / (SEGMENTS - 1)})
    rows.append({"call": "each segment more, from Python", "us": further})
    results.table(f"segments of {len(few):,}, with ids, plan speed", rows)
    results.bar("each segment more", further, at_most=SEGMENT_BAR_US, unit="us")


def bench_additions(keys: Keys, arguments: Namespace, folder: Path, results: Results) -> None:
    """add_if_new of one row at a time, which may wait for sync, beside the probe of it."""
    count = SMALL_ADDITIONS if arguments.small else ADDITIONS
    rng = np.random.default_rng(3)
    new = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    path = folder / "added.fpstore"
    fpstore.build(path, keys, ids=np.arange(len(keys)), plan="speed").close()
    with fpstore.open(path, "w", durability="batch") as store:
        rows = itertools.count(len(keys))
        first = timed_calls(lambda key: store.probe(key), new)
        added = timed_calls(lambda key: store.add_if_new([key], ids=[next(rows)]), new)
        again = timed_calls(lambda key: store.probe(key), new)
    results.table(
        f"a row at a time, plan speed, {len(keys):,} keys with ids",
        [
            {"call": "probe of what is not there", "p50 us": first},
            {"call": 'add_if_new, durability "batch"', "p50 us": added},
            {"call": "probe of what was added", "p50 us": again},
        ],
    )
    results.bar("add_if_new of one", added, at_most=ADDITION_BAR_US, unit="us")


def bench_durable(arguments: Namespace, folder: Path, results: Results) -> None:
    """One durable row, beside a bare commit of LMDB that writes as many bytes: the state, and a record of the log."""
    import lmdb

    count = SMALL_ADDITIONS if arguments.small else DURABLE_ADDITIONS
    new = np.random.default_rng(4).integers(0, 1 << 64, 2 * count, dtype=np.uint64)
    (folder / "bare").mkdir()
    bare = lmdb.open(os.fspath(folder / "bare"), map_size=1 << 26)
    state, record = b"s" * STATE_BYTES, b"r" * RECORD_BYTES
    seconds: list[list[float]] = [[], [], []]
    with fpstore.create(folder / "durable.fpstore", id_type="uint64", plan="speed") as store:

        def commit(row: int) -> None:
            with bare.begin(write=True) as transaction:
                transaction.put(b"state", state)
                transaction.put(row.to_bytes(8, "big"), record)

        def add(row: int) -> None:
            store.add([int(new[row])], ids=[row])

        def add_if_new(row: int) -> None:
            store.add_if_new([int(new[count + row])], ids=[count + row])

        for row in range(count):
            for call, own in zip((commit, add, add_if_new), seconds, strict=True):
                started = time.perf_counter()
                call(row)
                own.append(time.perf_counter() - started)
    bare.close()
    medians = [1e6 * median(own) for own in seconds]
    names = ("a bare commit", "add", "add_if_new")
    rows = [{"call": name, "p50 us": us, "/ commit": us / medians[0]} for name, us in zip(names, medians, strict=True)]
    results.table("one durable row", rows)
    results.bar("one durable add, over a bare commit", medians[1] / medians[0], at_most=1.6)
    results.bar("one durable add_if_new, over a bare commit", medians[2] / medians[0], at_most=1.9)


def main() -> int:
    parser = new_parser(__doc__, rounds=3)
    parser.add_argument("--plans", type=parse_plans, default=["speed", "balanced", "size"], help="separated by commas")
    parser.add_argument("--queries", type=parse_count, help=f"default {QUERIES:,}")
    parser.add_argument(
        "--parts", type=names_among(PARTS), default=PARTS, help=f"separated by commas, of {', '.join(PARTS)}"
    )
    arguments = parse_arguments(parser)
    if arguments.queries is None:
        arguments.queries = SMALL_QUERIES if arguments.small else QUERIES
    results = Results("bench_call", arguments, only_keys=REAL_KEYS)
    keys = make_set("u", arguments.n)
    with scratch_folder(arguments) as folder:
        if "calls" in arguments.parts:
            bench_calls(keys, arguments, folder, results)
        if "segments" in arguments.parts:
            bench_segments(keys, arguments, folder, results)
        if "additions" in arguments.parts:
            bench_additions(keys, arguments, folder, results)
        if "durable" in arguments.parts:
            bench_durable(arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    raise SystemExit(main())
