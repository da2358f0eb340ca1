"""Builds, probes and verifies one large store, from disk, in a stated memory budget.

    python tools/bench_scale.py --n 1e9 --memory 12GiB --plan size --dir PATH [--queries 1e6] [--keep]
                                [--small] [--json]

Uniform keys are streamed into a build in a process of its own, whose memory is measured. Then the store is opened, and
probed with nothing of the file in memory. There follow a first batch, verify, and probes and a batch with everything in
memory. Takes the disk that the store takes, and the spill files of the build: what is there is checked before.

A cold probe: the store is closed, so that nothing maps the file, the kernel is told to drop the file's pages
(posix_fadvise DONTNEED; the file was synced), the store is opened again, and one probe is timed. The page faults that
had to read are counted, as proof. What lies under the kernel, a host's cache or the drive's, cannot be dropped.
"""

import argparse
import os
import resource
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import parse_budget, parse_count, parse_plan
from benchlib import (
    CHUNK_KEYS,
    DISTANCE,
    Answer,
    Keys,
    Results,
    child_task,
    chunk_of_stream,
    flipped,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
    stream,
    timed,
    uniform,
)
from numpy.typing import NDArray

import fpstore
from fpstore._probe import scan, search_each
from fpstore.arrays import parse_memory
from fpstore.plans import planner

SEED = 9
QUERIES = 10**6
SMALL_QUERIES = 2_000
WARM_PROBES = 20_000
COLD_PROBES = 50
SCANNED_QUERIES = 20
THREADS = 2
# Queries are made from this many chunks of the stream, generated again.
QUERY_CHUNKS = 64
SPILL_BYTES_PER_KEY = 16

# The bars are for 10^9 keys, plan `size`.
REAL_KEYS = 10**9
MAX_BYTES_PER_KEY = 10
MAX_WARM_US = 30
MAX_BATCH_SECONDS = 60
MAX_COLD_MS = 5
MAX_OPEN_MS = 50
BATCH_QUERIES = 10**6
MAX_OF_MEMORY = 1.25


def make_stream_queries(n: int, count: int) -> tuple[Keys, NDArray[np.int64], Keys]:
    """(queries, positions of those made from a stored key, these keys): half of them, with 0 to 3 bits inverted."""
    rng = np.random.default_rng(SEED + 1)
    chunk_count = -(-n // CHUNK_KEYS)
    chosen = rng.choice(chunk_count, min(QUERY_CHUNKS, chunk_count), replace=False)
    near_count = count // 2
    shares = np.bincount(rng.integers(0, len(chosen), near_count), minlength=len(chosen))
    parts = []
    for index, share in zip(chosen.tolist(), shares.tolist(), strict=True):
        chunk = chunk_of_stream(SEED, index, min(CHUNK_KEYS, n - index * CHUNK_KEYS))
        parts.append(rng.choice(chunk, share))
    near = np.concatenate(parts)
    queries = uniform(count, rng)
    places = rng.permutation(count)[:near_count]
    queries[places] = flipped(near, rng.integers(0, DISTANCE + 1, near_count), rng)
    return queries, places, near


def misses(answer: Answer, queries: Keys, places: NDArray[np.int64], near: Keys) -> int:
    """How many of the stored keys that queries were made from are not in the answer with the right distance."""
    query, fingerprint, distance = answer
    if not bool((np.bitwise_count(queries[query] ^ fingerprint) == distance).all()):
        return len(places)
    found = set(zip(query.tolist(), fingerprint.tolist(), strict=True))
    return sum(pair not in found for pair in zip(places.tolist(), near.tolist(), strict=True))


def build_in_child(task: dict[str, Any]) -> None:
    path = Path(task["path"])
    marks: list[tuple[str, float]] = []

    def progress(told: fpstore.Progress) -> None:
        phase = told.phase
        if not marks or marks[-1][0] != phase:
            marks.append((phase, time.perf_counter()))
            print(f"  {phase}", file=sys.stderr, flush=True)

    def build() -> None:
        keys = stream(SEED, task["n"])
        options = {"plan": task["plan"], "memory": task["memory"]}
        fpstore.build(path, keys, ids=None, progress=progress, **options).close()

    timing = timed(build)
    ended = time.perf_counter()
    phases = [[phase, after - at] for (phase, at), (_, after) in pairwise([*marks, ("", ended)])]
    print_json({"wall": timing.wall, "cpu": timing.cpu, "peak": resident_bytes("VmHWM"), "phases": phases})


def generation_seconds(n: int) -> float:
    """What making the keys costs, which is part of the build's time."""
    chunks = min(8, -(-n // CHUNK_KEYS))
    seconds = timed(lambda: [len(chunk) for chunk in stream(SEED, chunks * CHUNK_KEYS)]).cpu
    return seconds * n / (chunks * CHUNK_KEYS)


def drop_pages(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def cold_probes(path: Path, segment: Path, queries: Keys) -> dict[str, float]:
    """Opening and probing with nothing of the file in memory."""
    opens, probes, faults = [], [], []
    for query in queries.tolist():
        drop_pages(segment)
        started = time.perf_counter()
        store = fpstore.open(path)
        opened = time.perf_counter()
        faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        store.probe(query)
        probes.append(time.perf_counter() - opened)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults_before)
        opens.append(opened - started)
        store.close()
    return {
        "open p50 ms": 1e3 * median(opens),
        "probe p50 ms": 1e3 * median(probes),
        "probe p99 ms": 1e3 * float(np.percentile(probes, 99)),
        "major faults a probe": median(faults),
    }


def probe_latencies(store: fpstore.Store, queries: Keys) -> list[float]:
    seconds = []
    for query in queries.tolist():
        started = time.perf_counter()
        store.probe(query)
        seconds.append(time.perf_counter() - started)
    return seconds


def check_scan(store: fpstore.Store, n: int, queries: Keys, results: Results) -> None:
    """A few queries against every key of the stream."""
    expected = np.zeros(len(queries), dtype=np.int64)
    for chunk in stream(SEED, n):
        expected += [scan(chunk, query, DISTANCE) for query in queries.tolist()]
    found = np.bincount(store.probe_many(queries).query, minlength=len(queries))
    results.expect(np.array_equal(found, expected), f"a scan of all keys finds {expected}, the store {found}")


def bench_build(path: Path, arguments: argparse.Namespace, results: Results) -> None:
    needed = arguments.n * (SPILL_BYTES_PER_KEY + MAX_BYTES_PER_KEY + 2)
    free = shutil.disk_usage(path.parent).free
    results.say(f"disk: {needed / 1e9:.1f} GB needed at most in {path.parent}, {free / 1e9:.1f} GB free")
    if needed > free:
        raise SystemExit(f"{path.parent}: {free} bytes free, expected {needed}")
    task = {"path": str(path), "n": arguments.n, "plan": arguments.plan, "memory": arguments.memory}
    built = run_child(__file__, task)
    memory = parse_memory(arguments.memory)
    results.table(
        f"build of {arguments.n:,} uniform keys, plan {arguments.plan}, memory {arguments.memory}",
        [
            {
                "wall s": built["wall"],
                "CPU s": built["cpu"],
                "of it generating": generation_seconds(arguments.n),
                "peak RSS MiB": built["peak"] >> 20,
                "memory MiB": memory >> 20,
            }
        ],
    )
    results.table("phases of the build", [{"phase": phase, "wall s": seconds} for phase, seconds in built["phases"]])
    results.bar("peak resident memory", built["peak"] / 2**20, at_most=MAX_OF_MEMORY * memory / 2**20, unit="MiB")


def bench_store(path: Path, arguments: argparse.Namespace, results: Results) -> None:
    (segment,) = path.rglob("*.fpseg")
    size = segment.stat().st_size
    queries, places, near = make_stream_queries(arguments.n, arguments.queries)

    cold = cold_probes(path, segment, queries[:COLD_PROBES])
    results.table(f"cold, {min(COLD_PROBES, len(queries))} probes", [cold])

    started = time.perf_counter()
    store = fpstore.open(path)
    open_ms = 1e3 * (time.perf_counter() - started)
    with store:
        predicted = planner.predict(store.plan, store.count())
        key_count, table_count = store.count(), len(store.plan.tables)
        found: dict[str, Any] = {"keys": key_count, "plan": store.plan.name, "tables": table_count, "bytes": size}
        found |= {"bytes/key": size / key_count, "predicted": predicted.bytes_per_key, "open ms": open_ms}
        results.table("store", [found])

        first = timed(lambda: store.probe_many(queries, threads=THREADS))
        latencies = probe_latencies(store, queries[:WARM_PROBES])
        in_c = timed(lambda: search_each(store._segments[0].view, queries[:WARM_PROBES], DISTANCE))
        batch = timed(lambda: store.probe_many(queries, threads=THREADS))
        verifying = timed(store.verify)  # last: it lets go of the pages that it has read
        matches = store.probe_many(queries, threads=THREADS)
        answer = (matches.query, matches.fingerprint, matches.distance)
        missed = misses(answer, queries, places, near)
        results.expect(missed == 0, f"{missed} of {len(places)} stored keys are not found near themselves")
        check_scan(store, arguments.n, queries[:SCANNED_QUERIES], results)
    count = min(WARM_PROBES, len(queries))
    results.table(
        f"everything in memory: {count:,} single probes",
        [
            {
                "p50 us": 1e6 * median(latencies),
                "p99 us": 1e6 * float(np.percentile(latencies, 99)),
                "in C, us": 1e6 * in_c.wall / count,
                "predicted us in a batch": predicted.nanoseconds / 1000,
            }
        ],
    )
    results.table(
        f"batches of {len(queries):,} queries on {THREADS} threads, and verify",
        [
            {"what": what, "wall s": timing.wall, "CPU s": timing.cpu, "a second": count / timing.wall}
            for what, timing, count in (
                ("first batch, from disk", first, len(queries)),
                ("verify, keys of all tables", verifying, key_count * table_count),
                ("batch, in memory", batch, len(queries)),
            )
        ],
    )
    results.bar("bytes per key", size / key_count, at_most=MAX_BYTES_PER_KEY)
    results.bar("open", open_ms, at_most=MAX_OPEN_MS, unit="ms")
    results.bar("warm probe p50", 1e6 * median(latencies), at_most=MAX_WARM_US, unit="us")
    scaled = batch.wall * BATCH_QUERIES / len(queries)
    results.bar(f"batch of {BATCH_QUERIES:,} queries", scaled, at_most=MAX_BATCH_SECONDS, unit="s")
    results.bar("cold probe p50", cold["probe p50 ms"], at_most=MAX_COLD_MS, unit="ms")


def main() -> int:
    task = child_task(sys.argv)
    if task is not None:
        build_in_child(task)
        return 0
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("--memory", type=parse_budget, default="12GiB", help="the build's budget; default 12GiB")
    parser.add_argument("--plan", type=parse_plan, default="size", help="default size")
    parser.add_argument("--queries", type=parse_count, help=f"of a batch; default {QUERIES:,}")
    parser.add_argument("--keep", action="store_true", help="leave the store in --dir; use it if it is there")
    arguments = parse_arguments(parser)
    if arguments.queries is None:
        arguments.queries = SMALL_QUERIES if arguments.small else QUERIES
    if arguments.keep and arguments.dir is None:
        parser.error("--keep needs --dir")
    results = Results("bench_scale", arguments, only_keys=REAL_KEYS)
    if arguments.keep:
        run(arguments.dir / "scale.fpstore", arguments, results)
    else:
        with scratch_folder(arguments) as folder:
            run(folder / "scale.fpstore", arguments, results)
    return results.finish()


def run(path: Path, arguments: argparse.Namespace, results: Results) -> None:
    if path.exists():
        results.say(f"{path} is there already: not built")
    else:
        bench_build(path, arguments, results)
    bench_store(path, arguments, results)


if __name__ == "__main__":
    sys.exit(main())
