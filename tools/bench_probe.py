"""Measures searches within 3 of 10,000 queries, against FAISS MultiHash, and the planner's predictions against them.

    python tools/bench_probe.py [--n 1e7] [--sets u,c] [--plans size,balanced,speed] [--queries 10000]
                                [--rounds 7] [--larger 1e8] [--layout slots|blocks] [--small] [--json]

R, the reference, is the time per query of FAISS IndexBinaryMultiHash with 2 x 32 bits and one flip, in a batch, on
one thread. Each figure is taken in turns with R and given as the median of the ratios. It is processor time, but for
single calls from Python and for two threads: there it is the clock, and for two threads the best round. `single in C`
answers the queries one at a time without Python in between, `batch` is Store.probe_many. All answers are compared
with each other, and some with brute force. `touched` is what every search waits for: in each table a word of the
directory and, where it points, a word of the payload, one query after the other. --larger: single queries of so many
keys beside those of --n, of the plans that have a bar for it; it takes some GiB of memory and disk. simhash's
SimhashIndex is measured on at most 10^5 keys. datasketch, a library for MinHash, has no Hamming search, so it is left
out.
"""

import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_plans
from benchlib import (
    DISTANCE,
    REAL_KEYS,
    SET_NAMES,
    Answer,
    ArrayKeys,
    Keys,
    Results,
    best_wall,
    brute_force,
    cpu_ratio,
    distinct,
    give_back_memory,
    in_order,
    interleaved,
    make_queries,
    make_set,
    median_cpu,
    new_parser,
    parse_arguments,
    resident_bytes,
    same_answer,
    scratch_folder,
)

import fpstore
from fpstore._probe import blocks_decoded, search_each, touch
from fpstore.plans import planner
from fpstore.segment.table import codec_costs
from fpstore.store import Store
from fpstore.types import LAYOUTS

QUERIES = 10_000
SMALL_QUERIES = 1_000
BRUTE_QUERIES = 50
# Single calls from Python, in turns of so many.
SINGLE_CALLS = 2_000
TURN_CALLS = 200
SIMHASH_KEYS = 100_000
SIMHASH_QUERIES = 500

# Bars, in times R; for batches, how many queries in the time of one of FAISS's.
SINGLE_BARS = {"size": 0.28, "balanced": 0.17, "speed": 0.08}
BATCH_BARS = {"size": 1.5, "balanced": 2.5, "speed": 4.0}
BYTES_BARS = {"size": 11.5, "balanced": 17.0}
PYTHON_BAR = 0.12
# Single queries over what they wait for, and of ten times as many keys over those of 10^7.
TOUCHED_BARS = {"speed": 2.0}
LARGER_BARS = {"size": 1.5, "balanced": 1.6}
THREADS_BAR = 1.8
# Two threads need both cores at once, so the clock of the least disturbed round counts; and there are more rounds.
THREADS_ROUNDS = 5
# The sample of the predictions: every 64th of so many equal ranges of keys, as the power of two.
SAMPLE_RANGE_BITS = 12
SAMPLED_RANGES = 64
MAX_BYTES_OFF = 0.02
MAX_DECODES_OFF = 0.2


class Faiss:
    """FAISS MultiHash, 2 x 32 bits with one flip, over these keys; one thread."""

    def __init__(self, keys: Keys) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._keys = keys
        give_back_memory()
        before, started = resident_bytes(), time.process_time()
        self._index = faiss.IndexBinaryMultiHash(64, 2, 32)
        self._index.nflip = 1
        self._index.add(self._codes(keys))
        self.build_seconds = time.process_time() - started
        self.bytes_per_key = (resident_bytes() - before) / len(keys)

    @staticmethod
    def _codes(keys: Keys) -> Any:
        return keys.view(np.uint8).reshape(-1, 8)

    def search(self, queries: Keys) -> Any:
        # It looks for distances below the radius.
        return self._index.range_search(self._codes(queries), DISTANCE + 1)

    def answer(self, queries: Keys) -> Answer:
        limits, distances, rows = self.search(queries)
        query = np.repeat(np.arange(len(queries)), np.diff(limits.astype(np.int64)))
        return in_order(query, self._keys[rows], distances)


def make_faiss(keys: Keys) -> Faiss | None:
    try:
        return Faiss(keys)
    except ImportError:
        return None


def single_calls(calls: Sequence[Callable[[int], Any]], queries: Keys) -> list[list[float]]:
    """Seconds of each call for each of the queries, the calls taking turns."""
    seconds: list[list[float]] = [[] for _ in calls]
    clock = time.perf_counter
    for first in range(0, len(queries), TURN_CALLS):
        turn = queries[first : first + TURN_CALLS].tolist()
        for call, own in zip(calls, seconds, strict=True):
            for query in turn:
                started = clock()
                call(query)
                own.append(clock() - started)
    return seconds


def micro(seconds: float, count: int = 1) -> float:
    return 1e6 * seconds / count


def bench_set(kind: str, arguments: Namespace, folder: Path, results: Results) -> None:
    keys = make_set(kind, arguments.n)
    queries = make_queries(keys, arguments.queries)
    name = f"{SET_NAMES[kind]} {len(keys):,}"
    sample = queries[:BRUTE_QUERIES]
    faiss = make_faiss(keys)
    stores = {
        plan: fpstore.build(folder / f"{kind}-{plan}.fpstore", keys, ids=None, plan=plan, layout=arguments.layout)
        for plan in arguments.plans
    }
    try:
        expected = stores[arguments.plans[0]].probe_many(queries)
        sampled = expected.query < len(sample)
        answer = (expected.query, expected.fingerprint, expected.distance)
        of_sample = answer[0][sampled], answer[1][sampled], answer[2][sampled]
        results.expect(same_answer(of_sample, brute_force(keys, sample)), f"{name}: brute force finds other matches")
        if faiss:
            results.expect(same_answer(answer, faiss.answer(queries)), f"{name}: FAISS finds other matches")
        for plan, store in stores.items():
            check_answers(f"{name}, plan {plan}", store, queries, answer, results)
        bench_rates(name, stores, faiss, queries, arguments, results)
        bench_python(name, stores, faiss, queries[:SINGLE_CALLS], results)
        compare_predictions(name, keys, stores, queries, results)
    finally:
        for store in stores.values():
            store.close()


def check_answers(name: str, store: Store, queries: Keys, expected: Answer, results: Results) -> None:
    for said, matches in (
        ("probe_many", store.probe_many(queries, threads=1)),
        ("probe_many, two threads", store.probe_many(queries, threads=2)),
    ):
        found = (matches.query, matches.fingerprint, matches.distance)
        results.expect(same_answer(found, expected), f"{name}: {said} finds other matches")
    (segment,) = store._segments
    each = search_each(segment.view, queries, DISTANCE)
    results.expect(same_answer(each, expected), f"{name}: search_each finds other matches")
    rows = store._latest.single.each(queries, DISTANCE, False)
    results.expect(rows == len(expected[0]), f"{name}: one at a time, {rows} matches and not {len(expected[0])}")


def bench_rates(
    name: str, stores: dict[str, Store], faiss: Faiss | None, queries: Keys, arguments: Namespace, results: Results
) -> None:
    """One at a time in C, in batches, and in batches on two threads."""
    count, rounds = len(queries), arguments.rounds
    rows: list[dict[str, Any]] = []
    for plan, store in stores.items():
        (segment,) = store._segments
        single = partial(store._latest.single.each, queries, DISTANCE, False)
        batch = partial(store.probe_many, queries, threads=1)
        reference: Callable[[], Any] = partial(faiss.search, queries) if faiss else batch
        touched = partial(touch, segment.view, queries)
        reference_times, single_times, again, batch_times, more, touched_times = interleaved(
            [reference, single, reference, batch, reference, touched], rounds
        )
        calls = [batch, partial(store.probe_many, queries, threads=2)]
        one_thread, two_threads = interleaved(calls, THREADS_ROUNDS * rounds)
        single_ratio = cpu_ratio(single_times, reference_times) if faiss else None
        batch_ratio = cpu_ratio(again, batch_times) if faiss else None
        speed_up = best_wall(one_thread) / best_wall(two_threads)
        bytes_per_key = segment.file_bytes / segment.key_count
        touched_ratio = cpu_ratio(single_times, touched_times)
        rows.append(
            {
                "plan": f"{plan} ({store.plan.name})",
                "bytes/key": round(bytes_per_key, 2),
                "R us": micro(median_cpu([*reference_times, *again, *more]), count) if faiss else None,
                "single in C us": micro(median_cpu(single_times), count),
                "/ R": single_ratio,
                "touched us": micro(median_cpu(touched_times), count),
                "touched / R": cpu_ratio(touched_times, reference_times) if faiss else None,
                "single / touched": touched_ratio,
                "batch us": micro(median_cpu(batch_times), count),
                "R / batch": batch_ratio,
                "two threads us (wall)": micro(best_wall(two_threads), count),
                "one / two threads": speed_up,
                "CPU, two / one": cpu_ratio(two_threads, one_thread),
            }
        )
        said = f"{name}, plan {plan}"
        if plan in BYTES_BARS:
            results.bar(f"{said}: bytes per key", bytes_per_key, at_most=BYTES_BARS[plan])
        if single_ratio is not None and plan in SINGLE_BARS and name.startswith(SET_NAMES["u"]):
            results.bar(f"{said}: single in C", single_ratio, at_most=SINGLE_BARS[plan], unit="R")
        if plan in TOUCHED_BARS and name.startswith(SET_NAMES["u"]):
            results.bar(f"{said}: single in C, over what it waits for", touched_ratio, at_most=TOUCHED_BARS[plan])
        if batch_ratio is not None and plan in BATCH_BARS:
            results.bar(f"{said}: batch, queries for one of FAISS's", batch_ratio, at_least=BATCH_BARS[plan])
        results.bar(f"{said}: two threads over one", speed_up, at_least=THREADS_BAR)
    if faiss:
        results.say(
            f"\n{name}: FAISS MultiHash takes {faiss.bytes_per_key:.0f} bytes a key in RAM, "
            f"{faiss.build_seconds:.1f} s of processor time to build"
        )
    else:
        results.say(f"\n{name}: FAISS is not installed (pip install 'fpstore[bench]'): nothing to compare with")
    results.table(f"{name}: {count:,} queries within {DISTANCE}, us a query", rows)


def bench_python(name: str, stores: dict[str, Store], faiss: Faiss | None, queries: Keys, results: Results) -> None:
    """One call from Python for each query."""
    calls: list[Callable[[int], Any]] = [store.probe for store in stores.values()]
    if faiss:
        calls.append(lambda query: faiss.search(np.array([query], dtype=np.uint64)))
    seconds = single_calls(calls, queries)
    of_faiss = median(seconds[-1]) if faiss else None
    rows = []
    for said, own in zip([*(f"probe, plan {plan}" for plan in stores), "FAISS range_search"], seconds, strict=False):
        ratio = median(own) / of_faiss if of_faiss else None
        p99 = float(np.percentile(own, 99))
        rows.append({"call": said, "p50 us": micro(median(own)), "p99 us": micro(p99), "/ FAISS": ratio})
        if said == "probe, plan speed" and ratio is not None and name.startswith(SET_NAMES["u"]):
            results.bar(f"{name}: probe from Python, plan speed, over FAISS", ratio, at_most=PYTHON_BAR)
    results.table(f"{name}: single calls from Python, us of the clock", rows)


def sampled_saving(keys: Keys) -> float:
    """How many bits a key the code saves of what it takes for uniform ones, from a sample of whole ranges of keys.

    A sample of single keys would not do: its gaps are not those of the set.
    """
    sample = keys[(keys >> np.uint64(64 - SAMPLE_RANGE_BITS)) % np.uint64(SAMPLED_RANGES) == 0]
    gap = codec_costs(ArrayKeys(distinct(sample)), SAMPLE_RANGE_BITS)[0]
    return planner.saving(len(keys), gap.bits / len(sample))


def compare_predictions(name: str, keys: Keys, stores: dict[str, Store], queries: Keys, results: Results) -> None:
    """What the planner said, beside what is: of uniform keys, and knowing a sample of these."""
    saved = sampled_saving(keys)
    rows = []
    for plan, store in stores.items():
        (segment,) = store._segments
        said = planner.predict(store.plan, segment.key_count, saved)
        as_uniform = planner.predict(store.plan, segment.key_count).file_bytes
        decodes = blocks_decoded(segment.view, queries, DISTANCE) / len(queries)
        bytes_off = said.file_bytes / segment.file_bytes - 1
        decodes_off = said.block_decodes / decodes - 1
        (times,) = interleaved([partial(store.probe_many, queries, threads=1)], 3)
        rows.append(
            {
                "plan": plan,
                "bytes as if uniform": as_uniform,
                "off %": round(100 * (as_uniform / segment.file_bytes - 1), 2),
                "bytes predicted": said.file_bytes,
                "found": segment.file_bytes,
                "off % ": round(100 * bytes_off, 2),
                "block decodes predicted": said.block_decodes,
                "found ": round(decodes, 2),
                "off %  ": round(100 * decodes_off, 1),
                "batch us predicted": said.nanoseconds / 1000,
                "found  ": micro(median_cpu(times), len(queries)),
            }
        )
        results.bar(f"{name}, plan {plan}: predicted bytes off by", abs(bytes_off), at_most=MAX_BYTES_OFF)
        results.bar(f"{name}, plan {plan}: predicted decodes off by", abs(decodes_off), at_most=MAX_DECODES_OFF)
    results.table(f"{name}: the planner's predictions", rows)


def bench_larger(arguments: Namespace, folder: Path, results: Results) -> None:
    """Single queries in C of more keys, beside those of --n."""
    rows = []
    for plan in (plan for plan in arguments.plans if plan in LARGER_BARS):
        calls, sizes = [], (arguments.n, arguments.larger)
        for count in sizes:
            keys = make_set("u", count)
            queries = make_queries(keys, arguments.queries)
            path = folder / f"larger-{plan}-{count}.fpstore"
            fpstore.build(path, keys, ids=None, plan=plan).close()
            del keys
            give_back_memory()
            calls.append((fpstore.open(path), queries, path))
        times = interleaved(
            [partial(store._latest.single.each, queries, DISTANCE, False) for store, queries, _ in calls],
            arguments.rounds,
        )
        ratio = cpu_ratio(times[1], times[0])
        row: dict[str, Any] = {"plan": plan}
        for count, own, (store, queries, path) in zip(sizes, times, calls, strict=True):
            row[f"{count:,} keys, us"] = micro(median_cpu(own), len(queries))
            store.close()
            shutil.rmtree(path)
        rows.append(row | {"ratio": ratio})
        results.bar(f"plan {plan}: single in C, over {arguments.n:,} keys", ratio, at_most=LARGER_BARS[plan])
    results.table("uniform: single queries in C, of more keys", rows)


def bench_simhash(arguments: Namespace, folder: Path, results: Results) -> None:
    """The index of the package simhash, on as many keys as it can hold within a minute."""
    try:
        import simhash
    except ImportError:
        results.say("\nsimhash is not installed (pip install 'fpstore[bench]'): nothing to compare with")
        return
    keys = distinct(make_set("u", min(arguments.n, SIMHASH_KEYS)))
    queries = make_queries(keys, SIMHASH_QUERIES)
    give_back_memory()
    before, started = resident_bytes(), time.process_time()
    index = simhash.SimhashIndex([(f"{key:016x}", simhash.Simhash(key)) for key in keys.tolist()], k=DISTANCE)
    build_seconds, grown = time.process_time() - started, resident_bytes() - before
    wanted = [simhash.Simhash(query) for query in queries.tolist()]
    started = time.process_time()
    answers = [index.get_near_dups(query) for query in wanted]
    elapsed = time.process_time() - started
    expected = brute_force(keys, queries)
    found = sorted((query, int(hit, 16)) for query, hits in enumerate(answers) for hit in hits)
    same = found == sorted(zip(expected[0].tolist(), expected[1].tolist(), strict=True))
    with fpstore.build(folder / "simhash.fpstore", keys, ids=None, plan="speed") as store:
        own = single_calls([store.probe], queries)[0]
    row = {
        "keys": len(keys),
        "simhash us a query": micro(elapsed, len(queries)),
        "bytes/key": round(grown / len(keys)),
        "build s": build_seconds,
        "fpstore probe us": micro(median(own)),
        "simhash is exact": same,
    }
    results.table("simhash.SimhashIndex, from Python", [row])


def main() -> int:
    parser = new_parser(__doc__, rounds=7)
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, c or u,c; default both"
    )
    parser.add_argument(
        "--plans", type=parse_plans, default=list(planner.AIMS), help="separated by commas; default all"
    )
    parser.add_argument("--layout", choices=LAYOUTS, default="slots", help="default slots")
    parser.add_argument("--queries", type=parse_count, help=f"default {QUERIES:,}")
    parser.add_argument("--larger", type=parse_count, help="so many keys too")
    arguments = parse_arguments(parser)
    if arguments.queries is None:
        arguments.queries = SMALL_QUERIES if arguments.small else QUERIES
    results = Results("bench_probe", arguments, only_keys=REAL_KEYS)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with scratch_folder(arguments) as folder:
        for kind in arguments.sets:
            bench_set(kind, arguments, folder, results)
        if arguments.larger:
            bench_larger(arguments, folder, results)
        bench_simhash(arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
