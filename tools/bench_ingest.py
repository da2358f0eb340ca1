"""Measures changing a store: additions, test-and-add, probing beside what is pending, and merging.

    python tools/bench_ingest.py [--n 1e7] [--rows 1e6] [--tested 2e5] [--singles 300] [--merge-n 5e7]
                                 [--sustained 2e7] [--rounds 3] [--small] [--json]
                                 [--parts add,tested,single,pending,rows,merge,sustained]

One thread on a store of uniform keys with ids, plan balanced. Additions wait for the disk, so they are given by the
clock; a bare commit of LMDB, synced, of one value of as many bytes, in turns with them, says what of it is the disk's.
Probes are single calls from Python, with --rows keys pending and with the same keys compacted, in turns. A merge is of
two segments without ids; its rate is keys read, of both, in one table. Rows are looked up by id; additions are made
with and without the exact search that counting new rows would take, in turns. What was stored is checked against brute
force. *sustained*: test and add into an empty store until it has --sustained keys, its flushes and merges beside, and a
reader that probes all the time in another process; the bytes that were given to calls that write (/proc/self/io), by
cause; beside every 20th batch a bare commit of as many bytes, for the slowest batches are those that the disk kept.
"""

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import lmdb
import numpy as np
from arguments import names_among, parse_count
from benchlib import (
    DISTANCE,
    Keys,
    Results,
    brute_force,
    in_order,
    make_queries,
    new_parser,
    parse_arguments,
    same_answer,
    scratch_folder,
    stream,
    timed,
    uniform,
)

import fpstore
from fpstore.building.rows import write_rows
from fpstore.living import renewal
from fpstore.living.live import Live
from fpstore.living.merge import merge_segments
from fpstore.living.removals import Removals
from fpstore.living.sizes import LivingSizes
from fpstore.segment.reader import Segment
from fpstore.types import Array

PARTS = ("add", "tested", "single", "pending", "rows", "merge", "sustained")
BATCH = 1_000
SEED = 20070511
CHECKED_KEYS = 20
PROBES = 2_000
TURN_CALLS = 100
MERGE_SEEDS = (6, 7)

# Rows of an addition beside which a count is measured, and how many such additions.
COUNTED = ((1, 1000), (100_000, 6))
LOOKED_UP = (1, 1000, 100_000)

ADDED_A_SECOND = 200_000
TESTED_A_SECOND = 50_000
SINGLE_OVER_COMMIT = 2.0
PENDING_OVER_COMPACTED = 1.5
MERGED_A_SECOND = 20e6
SUSTAINED_A_SECOND = 220_000
AMPLIFICATION = 6.0
SUSTAINED_P999_MS = 30.0
GIVEN_BYTES = 16  # a fingerprint and an id
COMMIT_EVERY = 20
SMALL, LARGE = "merges of small segments", "merges of large ones"
# Probes whatever has come so far, until its input ends; then tells how many.
READER = """
import sys, threading
import numpy as np
import fpstore
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
keys, count = np.random.default_rng(1).integers(0, 1 << 64, 4096, dtype=np.uint64).tolist(), 0
with fpstore.open(sys.argv[1]) as store:
    while not ended.is_set():
        store.probe(keys[count % len(keys)])
        count += 1
print(count)
"""


class BareCommit:
    """A commit of LMDB with sync of one value, and nothing else: what the disk takes for itself."""

    def __init__(self, folder: Path) -> None:
        self._environment = lmdb.open(os.fspath(folder / "bare.mdb"), subdir=False, map_size=1 << 30)
        self.written_bytes = 0

    def seconds(self, value_bytes: int) -> float:
        written = written_bytes("thread-self")
        began = time.perf_counter()
        with self._environment.begin(write=True) as transaction:
            transaction.put(b"value", bytes(value_bytes))
        seconds = time.perf_counter() - began
        self.written_bytes += written_bytes("thread-self") - written
        return seconds

    def close(self) -> None:
        self._environment.close()


def bench_batches(
    what: str, call: Callable[..., Any], keys: Keys, bare: BareCommit, arguments: Namespace, results: Results
) -> dict[str, Any]:
    """The call of a batch at a time; the row of its table."""
    seconds, commits, cpu = [], [], 0.0
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        ids = np.arange(start, start + len(batch), dtype=np.uint64) + np.uint64(arguments.n)
        commits.append(bare.seconds(batch.nbytes + ids.nbytes))
        cpu -= time.process_time()
        began = time.perf_counter()
        call(batch, ids)
        seconds.append(time.perf_counter() - began)
        cpu += time.process_time()
    rate = len(keys) / sum(seconds)
    row = {
        "call": what,
        "keys": len(keys),
        "keys/s": rate,
        "median batch ms": 1e3 * median(seconds),
        "of it CPU": 1e3 * cpu / len(seconds),
        "worst": 1e3 * max(seconds),
        "bare commit ms": 1e3 * median(commits),
        "keys/s at the median": min(BATCH, len(keys)) / median(seconds),
    }
    least = ADDED_A_SECOND if what == "add" else TESTED_A_SECOND
    results.bar(f"{what}, keys/s", rate, at_least=least)
    return row


def bench_add(path: Path, new: Keys, bare: BareCommit, arguments: Namespace, results: Results) -> None:
    with fpstore.open(path, "w") as store:
        row = bench_batches("add", lambda batch, ids: store.add(batch, ids=ids), new, bare, arguments, results)
    results.table(f"add, {BATCH:,} keys at a time, durable", [row])


def bench_tested(path: Path, stored: Keys, bare: BareCommit, arguments: Namespace, results: Results) -> None:
    keys = make_queries(stored, arguments.tested, seed=3)
    found = []
    with fpstore.open(path, "w") as store:

        def call(batch: Keys, ids: Keys) -> None:
            found.append(store.add_if_new(batch, ids=ids))

        row = bench_batches("add_if_new", call, keys, bare, arguments, results)
    fresh = np.concatenate([additions.stored for additions in found])
    row["stored"] = int(fresh.sum())
    results.table(f"add_if_new, {BATCH:,} keys at a time, half of them near a stored one, durable", [row])
    for index in np.linspace(0, len(keys) - 1, CHECKED_KEYS).astype(int):
        earlier = keys[:index][fresh[:index]]
        near = any((np.bitwise_count(some ^ keys[index]) <= DISTANCE).any() for some in (stored, earlier))
        results.expect(fresh[index] != near, f"add_if_new: key {index} was stored though near one, or was not")


def written_bytes(of: str = "self") -> int:
    fields = dict(line.split(": ") for line in Path(f"/proc/{of}/io").read_text().splitlines())
    return int(fields["wchar"])


class ByCause:
    """The bytes that segments take, as they are made: of the log, of small segments, and of one or more large ones."""

    def __init__(self) -> None:
        self.bytes = dict.fromkeys(("flushes", SMALL, LARGE), 0)

    def _merged(self) -> int:
        return self.bytes[SMALL] + self.bytes[LARGE]

    @contextmanager
    def counted(self) -> Iterator[None]:
        kept = {name: getattr(renewal, name) for name in ("segment_of_rows", "segment_of_parts")}

        def of_rows(*given: Any) -> Any:
            before = written_bytes("thread-self")
            entry = kept["segment_of_rows"](*given)
            self.bytes["flushes"] += written_bytes("thread-self") - before
            return entry

        def of_parts(place: Any, parts: Sequence[Live], *given: Any) -> Any:
            large = any(part.segment.key_count >= LivingSizes().small_rows for part in parts)
            before = written_bytes("thread-self") - self._merged()
            entry = kept["segment_of_parts"](place, parts, *given)
            # Less what was merged in the midst of it, which has been counted.
            own = written_bytes("thread-self") - self._merged() - before
            self.bytes[LARGE if large else SMALL] += own
            return entry

        setattr(renewal, "segment_of_rows", of_rows)  # noqa: B010
        setattr(renewal, "segment_of_parts", of_parts)  # noqa: B010
        try:
            yield
        finally:
            for name, own in kept.items():
                setattr(renewal, name, own)


def p999(seconds: Sequence[float] | Array) -> float:
    return 1e3 * float(np.sort(seconds)[int(len(seconds) * 0.999)])


def bench_sustained(path: Path, bare: BareCommit, arguments: Namespace, results: Results) -> None:
    """Test and add of all that comes, in batches, with all that the store does beside; the last tenth apart."""
    fpstore.create(path, id_type="uint64").close()
    count, batches = 0, arguments.sustained // BATCH
    seconds = np.empty(batches)
    child = subprocess.Popen(
        [sys.executable, "-c", READER, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    rng = np.random.default_rng(SEED + 3)
    kept, commits, cause = [], [], ByCause()
    with fpstore.open(path, "w") as store, cause.counted():
        cpu, written, began = time.process_time(), written_bytes(), time.perf_counter()
        for index in range(batches):
            if index % COMMIT_EVERY == 0:
                commits.append(bare.seconds(GIVEN_BYTES * BATCH))
            keys = rng.integers(0, 1 << 64, BATCH, dtype=np.uint64)
            started = time.perf_counter()
            stored = store.add_if_new(keys, ids=np.arange(index * BATCH, (index + 1) * BATCH, dtype=np.uint64)).stored
            seconds[index] = time.perf_counter() - started
            count += int(np.count_nonzero(stored))
            kept.append(int(keys[0]))
        wall = time.perf_counter() - began - sum(commits)
        probes, _ = child.communicate()
        store.wait()
        cpu, written = time.process_time() - cpu, written_bytes() - written - bare.written_bytes
        segments = len(store._segments)
        results.expect(store.count() == count, f"sustained: {store.count()} stored, expected {count}")
        results.expect(all(map(store.contains_near, kept)), "sustained: a key is near none")
    rate, last = batches * BATCH / wall, seconds[-max(1, batches // 10) :]
    row = {
        "keys": batches * BATCH,
        "keys/s": rate,
        "last tenth": len(last) * BATCH / last.sum(),
        "CPU us/key": 1e6 * cpu / (batches * BATCH),
        "batch p50 ms": 1e3 * median(seconds),
        "p99": 1e3 * float(np.sort(seconds)[int(batches * 0.99)]),
        "p99.9": p999(seconds),
        "longest": 1e3 * float(seconds.max()),
        "bare commit p50": 1e3 * median(commits),
        "its p99": 1e3 * float(np.sort(commits)[int(len(commits) * 0.99)]),
        "written bytes/key": written / (batches * BATCH),
        "amplification": written / (batches * BATCH * GIVEN_BYTES),
        "segments": segments,
        "probes beside": int(probes),
    }
    results.table(f"add_if_new, {BATCH:,} keys at a time, durable, into an empty store, a reader beside", [row])
    rest = written - sum(cause.bytes.values())
    rows = []
    for what, count_bytes in {"the log and the state": rest, **cause.bytes}.items():
        of_key = count_bytes / (batches * BATCH)
        rows.append({"cause": what, "bytes a key": of_key, "of those given": of_key / GIVEN_BYTES})
    results.table("what of it is written for what", rows)
    results.bar("sustained add_if_new, keys/s", rate, at_least=SUSTAINED_A_SECOND)
    results.bar("sustained, write amplification", row["amplification"], at_most=AMPLIFICATION)
    results.bar("sustained, p99.9 of a batch", row["p99.9"], at_most=SUSTAINED_P999_MS, unit="ms")


def bench_single(path: Path, bare: BareCommit, arguments: Namespace, results: Results) -> None:
    keys = uniform(arguments.singles, np.random.default_rng(SEED + 1))
    ids = np.arange(len(keys), dtype=np.uint64) + np.uint64(1 << 40)
    commits, singles, unsynced = [], [], []
    with fpstore.open(path, "w") as store:
        for index in range(len(keys)):
            commits.append(bare.seconds(16))
            began, cpu = time.perf_counter(), time.thread_time()
            store.add_if_new(keys[index : index + 1], ids=ids[index : index + 1])
            unsynced.append(time.thread_time() - cpu)
            singles.append(time.perf_counter() - began)
        for key, id in list(zip(keys.tolist(), ids.tolist(), strict=True))[:CHECKED_KEYS]:
            results.expect(id in (match.id for match in store.probe(key, max_distance=0)), f"key {key} was not stored")
    row = {
        "calls": len(keys),
        "add_if_new p50 us": 1e6 * median(singles),
        "of it CPU us": 1e6 * median(unsynced),
        "bare commit p50 us": 1e6 * median(commits),
        "ratio": median(singles) / median(commits),
    }
    results.table("add_if_new of one key, durable, and a bare commit of LMDB, in turns", [row])
    results.bar("single add_if_new over a bare commit", row["ratio"], at_most=SINGLE_OVER_COMMIT)


def probe_seconds(stores: Sequence[fpstore.Store], queries: Sequence[int]) -> list[list[float]]:
    """Seconds of the clock of each probe, the stores taking turns."""
    seconds: list[list[float]] = [[] for _ in stores]
    for first in range(0, len(queries), TURN_CALLS):
        for store, own in zip(stores, seconds, strict=True):
            for query in queries[first : first + TURN_CALLS]:
                began = time.perf_counter()
                store.probe(query)
                own.append(time.perf_counter() - began)
    return seconds


def bench_pending(path: Path, stored: Keys, new: Keys, results: Results) -> None:
    compacted = path.with_name("compacted.fpstore")
    with fpstore.open(path) as store:
        store.copy(compacted)
    with fpstore.open(compacted, "w") as store:
        timing = timed(store.compact)
    queries = make_queries(np.concatenate([stored, new]), PROBES)
    with fpstore.open(path) as store, fpstore.open(compacted) as other:
        pending = store.stats().pending_count
        results.expect(other.stats().pending_count == 0, "compact left something pending")
        few = queries[:CHECKED_KEYS]
        expected = brute_force(np.concatenate([stored, new]), few)
        for each in (store, other):
            found = each.probe_many(few)
            answer = in_order(found.query, found.fingerprint, found.distance)
            results.expect(same_answer(answer, expected), f"{each.path.name}: other answers than brute force")
        probe_seconds((store, other), queries.tolist())
        seconds = probe_seconds((store, other), queries.tolist())
    own, reference = (median(each) * 1e6 for each in seconds)
    row = {"pending": pending, "probe p50 us": own, "compacted p50 us": reference, "ratio": own / reference}
    row |= {"compact wall s": timing.wall, "compact CPU s": timing.cpu}
    results.table("probe from Python with so many pending, and compacted, in turns", [row])
    results.bar("probe p50, pending over compacted", row["ratio"], at_most=PENDING_OVER_COMPACTED)


def bench_rows(path: Path, arguments: Namespace, results: Results) -> None:
    rng = np.random.default_rng(SEED + 2)
    with fpstore.open(path, "w") as store:
        rows = []
        for count, turns in COUNTED:
            seconds: list[list[float]] = [[], []]
            for turn in range(turns if count < arguments.n else 2):
                keys = uniform(count, rng)
                ids = np.arange(count, dtype=np.uint64) + np.uint64((1 << 41) + turn * count)
                began = time.perf_counter()
                if turn % 2:
                    store.probe_many(keys, max_distance=0, threads=1)
                store.add(keys, ids=ids)
                seconds[turn % 2].append(time.perf_counter() - began)
            own, counted = (1e6 * median(each) for each in seconds)
            rows.append(
                {"rows": count, "add us": own, "with a search us": counted, "more %": 100 * (counted / own - 1)}
            )
        results.table("add, with and without the exact search of a count, in turns", rows)
        store.compact()
        stored = store.count("rows")
        rows = []
        for count in LOOKED_UP:
            asked = rng.choice(arguments.n, min(count, arguments.n), replace=False).astype(np.uint64)
            timings = [timed(partial(store.lookup, asked)) for _ in range(arguments.rounds + 1)][1:]
            found = {row.id for row in store.lookup(asked)}
            results.expect(found == {*asked.tolist()}, f"{count} ids: not those that were asked for")
            cpu = min(timing.cpu for timing in timings)
            rows.append(
                {"ids asked for": len(asked), "ids stored": stored, "CPU ms": 1e3 * cpu, "ns each": 1e9 * cpu / stored}
            )
        results.table("lookup", rows)


def bench_merge(base: fpstore.Store, folder: Path, arguments: Namespace, results: Results) -> None:
    settings, plan = replace(base._settings, id_type=None), base.plan
    inputs = []
    for seed in MERGE_SEEDS:
        path = folder / f"{seed:08d}.fpseg"
        keys = np.concatenate(list(stream(seed, arguments.merge_n)))
        write_rows(path, keys, None, plan, settings.codec)
        inputs.append(Live(Segment(path), 1, Removals.none()))
    del keys
    total = sum(part.segment.key_count for part in inputs)
    rows = []
    for attempt in range(arguments.rounds):
        path = folder / f"{100 + attempt:08d}.fpseg"
        timing = timed(partial(merge_segments, path, inputs, settings.codec, plan, False))
        tables = len(plan.tables)
        row = {"keys read": total, "tables": tables, "wall s": timing.wall, "CPU s": timing.cpu}
        row |= {"M keys/s, wall": total * tables / timing.wall / 1e6, "CPU": total * tables / timing.cpu / 1e6}
        rows.append(row)
        merged = Segment(path)
        results.expect(merged.key_count == total, f"merge: {merged.key_count} keys of {total}")
        merged.close()
        path.unlink()
    for part in inputs:
        part.segment.close()
    results.table("merge of two segments, of one table after the other", rows)
    found = median(row["CPU"] for row in rows)
    results.bar("merge, M keys/s a table, CPU", found, at_least=MERGED_A_SECOND / 1e6)


def main() -> int:
    parser = new_parser(__doc__, rounds=3)
    parser.add_argument("--rows", type=parse_count, help="keys added, and pending; default a tenth of --n")
    parser.add_argument("--tested", type=parse_count, help="keys tested and added; default a fiftieth of --n")
    parser.add_argument("--sustained", type=parse_count, help="keys that come into an empty store; default twice --n")
    parser.add_argument("--singles", type=parse_count, default=300, help="single additions; default 300")
    parser.add_argument("--merge-n", type=parse_count, help="keys of each of two segments; default 5 times --n")
    parser.add_argument(
        "--parts", type=names_among(PARTS), default=list(PARTS), help=f"of {','.join(PARTS)}; default all"
    )
    arguments = parse_arguments(parser)
    arguments.rows = arguments.rows or max(1, arguments.n // 10)
    arguments.tested = arguments.tested or max(1, arguments.n // 50)
    arguments.merge_n = arguments.merge_n or 5 * arguments.n
    arguments.sustained = arguments.sustained or 2 * arguments.n
    if arguments.small:
        arguments.singles = min(arguments.singles, 50)
    results = Results("bench_ingest", arguments)
    rng = np.random.default_rng(SEED)
    stored, new = uniform(arguments.n, rng), uniform(arguments.rows, rng)
    with scratch_folder(arguments) as folder, closing(BareCommit(folder)) as bare:
        path = folder / "base.fpstore"
        if "sustained" in arguments.parts:
            bench_sustained(folder / "sustained.fpstore", bare, arguments, results)
        fpstore.build(path, stored, threads=1).close()
        changed = folder / "changed.fpstore"
        if {"tested", "single"} & set(arguments.parts):
            with fpstore.open(path) as store:
                store.copy(changed)
        if "tested" in arguments.parts:
            bench_tested(changed, stored, bare, arguments, results)
        if "single" in arguments.parts:
            bench_single(changed, bare, arguments, results)
        if {"add", "pending"} & set(arguments.parts):
            bench_add(path, new, bare, arguments, results)
        if "pending" in arguments.parts:
            bench_pending(path, stored, new, results)
        if "rows" in arguments.parts:
            bench_rows(path, arguments, results)
        if "merge" in arguments.parts:
            with fpstore.open(path) as store:
                bench_merge(store, folder, arguments, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
