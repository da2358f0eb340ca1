"""Measures readers beside a writer in another process: after each commit, at full speed, and when they open a store.

    python tools/bench_reader.py [--n 1e6] [--pending 1e6] [--seconds 120] [--commits 300] [--sizes NAME=NUMBER,...]
                                 [--parts commit,busy,open,warm] [--rounds 5] [--small] [--json]

A store of --n keys with ids, plan balanced. *commit*: the writer makes 1,000 rows durable, then waits; a reader's first
probe follows what is new, the later ones do not. *busy*: the writer tests and adds 1,000 rows at a time for --seconds,
as fast as it can, or adds them, and a reader probes all the time; the clock of each probe, and the processor's part.
*open*: after --pending rows in batches of 1,000 processes open the store one after the other, each for one probe; and
the memory that is theirs alone (Private of smaps_rollup), beside a store of which nothing is pending. What the writer
has written is /proc/self/io's wchar, all bytes that it gave to calls that write. *warm*: a store of ten times --n keys
that the system's cache has is opened with warm=True in a new process: its bytes a second, beside those of reading the
same files, and probes right after it beside later ones of the same process. Every answer is compared with what was
added. --sizes: of living.sizes, in place of the defaults.
"""

import gc
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_living_sizes, parse_seconds
from benchlib import (
    Results,
    child_task,
    new_parser,
    parse_arguments,
    print_json,
    run_child,
    scratch_folder,
    uniform,
)

import fpstore
from fpstore.living.sizes import LivingSizes

PARTS = ("commit", "busy", "open", "warm")
BATCH = 1_000
REAL_KEYS = 10**6
SMALL_KEYS = 10**4
SEED = 20161122
LATER_PROBES = 20
# Of one who adds without looking: so many are all that a small disk takes.
MOST_ADDED = 2 * 10**7

FIRST_PROBE_US = 60.0
MOST_P999_MS = 3.0
MOST_MS = 40.0
OPEN_MS = 10.0
OPEN_MIB = 15.0
# Of open(warm=True): the share of the bandwidth of reading alone, and of the first probes over later ones.
LEAST_WARM_SHARE = 1 / 3
MOST_WARM_PROBE = 1.1
WARM_TIMES = 10
WARM_PROBES = 1_000


def batch_of(index: int) -> Any:
    """The fingerprints of a batch, the same in every process."""
    return uniform(BATCH, np.random.default_rng([SEED, index]))


# The writer, in a process of its own: it does what each line of its input says, and answers with a line.


def written_bytes() -> int:
    """What this process has given to calls that write."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def write(path: str, sizes: dict[str, int]) -> None:
    """Serve lines: `add FIRST COUNT`, batches of those numbers; `run SECONDS`; `end`."""
    with fpstore.Store(Path(path), "w", sizes=LivingSizes(**sizes)) as store:
        print_line({})
        while (words := sys.stdin.readline().split()) and words[0] != "end":
            started, cpu, written, first = time.perf_counter(), time.process_time(), written_bytes(), int(words[1])
            times, index = [], first
            while index < first + int(words[2]) and time.perf_counter() - started < float(words[3]):
                own = time.perf_counter()
                ids = np.arange(index * BATCH, (index + 1) * BATCH, dtype=np.uint64)
                (store.add_if_new if words[0] == "test" else store.add)(batch_of(index), ids=ids)
                times.append(time.perf_counter() - own)
                index += 1
            said = {
                "batches": index - first,
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time() - cpu,
            }
            print_line(said | {"written": written_bytes() - written, "ms": percentiles(times)})


def print_line(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


class Writer:
    """A writer of the store at path in another process."""

    def __init__(self, path: Path, sizes: dict[str, int]) -> None:
        task = json.dumps({"what": "write", "path": os.fspath(path), "sizes": sizes})
        command = [sys.executable, __file__, "--child", task]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def ask(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"bench_reader: the writer ended with status {self._child.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def call(self, line: str) -> dict[str, Any]:
        self.ask(line)
        return self.answer()

    def end(self) -> None:
        self.ask("end")
        self._child.wait()


@contextmanager
def writing(path: Path, sizes: dict[str, int]) -> Iterator[Writer]:
    writer = Writer(path, sizes)
    try:
        yield writer
    finally:
        writer.end()


# What is measured.


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Milliseconds."""
    times = 1e3 * np.sort(np.array(seconds or [0.0]))
    found = {name: float(times[int(len(times) * share)]) for name, share in (("p50", 0.5), ("p99.9", 0.999))}
    return found | {"most": float(times[-1])}


def made(path: Path, count: int) -> Path:
    keys = uniform(count, np.random.default_rng(SEED))
    ids = np.arange(1 << 40, (1 << 40) + count, dtype=np.uint64)
    fpstore.build(path, keys, ids=ids, plan="balanced").close()
    return path


def bench_commit(arguments: Namespace, folder: Path, results: Results) -> None:
    """The first probe after each commit, beside those that follow."""
    path = made(folder / "commit.fpstore", arguments.n)
    first, cpu, later = [], [], []
    with writing(path, arguments.sizes) as writer, fpstore.open(path) as store:
        for index in range(arguments.commits):
            writer.call(f"add {index} 1 1e9")
            key, clock, own = int(batch_of(index)[index % BATCH]), time.perf_counter(), time.thread_time()
            found = store.probe(key)
            cpu.append(time.thread_time() - own)
            first.append(time.perf_counter() - clock)
            results.expect(key in found.fingerprint.tolist(), f"a probe after commit {index} does not see it")
            for probe in batch_of(index)[:LATER_PROBES].tolist():
                clock = time.perf_counter()
                store.probe(probe)
                later.append(time.perf_counter() - clock)
    rows: list[dict[str, Any]] = [
        {"probe": name, "times": len(own), "p50 us": 1e6 * median(own), "p90 us": 1e6 * sorted(own)[len(own) * 9 // 10]}
        for name, own in (("the first after a commit", first), ("the processor's part", cpu), ("later ones", later))
    ]
    results.table(f"a reader after commits of {BATCH:,} rows, {arguments.n:,} keys with ids, plan balanced", rows)
    results.bar("the first probe after a commit, p50", rows[0]["p50 us"], at_most=FIRST_PROBE_US, unit="us")


def bench_busy(arguments: Namespace, folder: Path, results: Results) -> None:
    """All probes beside a writer at full speed."""
    path = made(folder / "busy.fpstore", arguments.n)
    for what, name in (("test", "add_if_new"), ("add", "add")):
        times: list[float] = []
        spent: list[float] = []
        seen = 0
        probes = uniform(1 << 12, np.random.default_rng(SEED + 1)).tolist()
        with writing(path, arguments.sizes) as writer, fpstore.open(path) as store:
            gc.collect()
            start, most = (0, 10**9) if what == "test" else (10**6, MOST_ADDED // BATCH)
            writer.ask(f"{what} {start} {most} {arguments.seconds}")
            deadline = time.perf_counter() + arguments.seconds
            before, own = store._latest, time.thread_time()
            clock = time.perf_counter()
            while clock < deadline:
                store.probe(probes[len(times) % len(probes)])
                after, processor = time.perf_counter(), time.thread_time()
                times.append(after - clock)
                spent.append(processor - own)
                seen += store._latest is not before
                before, own = store._latest, processor
                clock = time.perf_counter()
            said = writer.answer()
            key = int(batch_of(start + said["batches"] - 1)[0])
            results.expect(len(store.probe(key)) > 0, "a probe after all that does not see it")
            segments = len(store._segments)
        found, of_it = percentiles(times), percentiles(spent)
        row = {
            "writer": name,
            "rows/s": said["batches"] * BATCH / said["seconds"],
            "CPU us/row": 1e6 * said["cpu"] / max(1, said["batches"] * BATCH),
            "batch p99.9 ms": said["ms"]["p99.9"],
            "most ms": said["ms"]["most"],
            "written bytes/row": said["written"] / max(1, said["batches"] * BATCH),
            "probes": len(times),
            "states": seen,
            "p50 us": 1e3 * found["p50"],
            "p99.9 us": 1e3 * found["p99.9"],
            "longest ms": found["most"],
            "p99.9 CPU us": 1e3 * of_it["p99.9"],
            "longest CPU ms": of_it["most"],
            "segments": segments,
        }
        results.table(f"a reader beside a writer for {arguments.seconds:g} s", [row])
        results.bar(f"beside {name}: p99.9 of the probes", found["p99.9"], at_most=MOST_P999_MS, unit="ms")
        results.bar(f"beside {name}: the longest probe", found["most"], at_most=MOST_MS, unit="ms")


def opened(path: str, key: int, before: str) -> dict[str, Any]:
    """One probe in a process that has had another store open, so that all code is loaded."""
    with fpstore.open(before) as store:
        store.probe(key)
    started, cpu = time.perf_counter(), time.process_time()
    with fpstore.open(path) as store:
        there = time.perf_counter()
        found = len(store.probe(key))
        probed, cpu = time.perf_counter(), time.process_time() - cpu
        pending, segments = store._latest.pending_end, len(store._segments)
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        private = sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private"))
    return {
        "open": there - started,
        "first probe": probed - there,
        "cpu": cpu,
        "private": private,
        "found": found,
        "pending": pending,
        "segments": segments,
    }


def bench_open(arguments: Namespace, folder: Path, results: Results) -> None:
    """Opening it while so many rows were added lately, and right after they were."""
    path = made(folder / "open.fpstore", arguments.n)
    made(folder / "before.fpstore", 1000)
    rows = []
    batches = arguments.pending // BATCH
    small = [opened_child(path, int(batch_of(0)[0])) for _ in range(arguments.rounds)]
    with writing(path, arguments.sizes) as writer:
        before = 0
        for count in sorted({0, batches // 3, batches}):
            if count:
                writer.call(f"add {before} {count - before} 1e9")
            before = count
            own = [opened_child(path, int(batch_of(max(0, count - 1))[0])) for _ in range(arguments.rounds)]
            results.expect(all(found["found"] > 0 for found in own) or not count, f"{count} batches are not seen")
            private = median(found["private"] for found in own) - median(found["private"] for found in small)
            rows.append(
                {
                    "rows added": count * BATCH,
                    "of them pending": own[0]["pending"],
                    "segments": own[-1]["segments"],
                    "open ms": 1e3 * median(found["open"] for found in own),
                    "first probe ms": 1e3 * median(found["first probe"] for found in own),
                    "both, CPU ms": 1e3 * median(found["cpu"] for found in own),
                    "private MiB more": private / 2**20,
                }
            )
    results.table("opening a store in a new process", rows)
    results.bar("opening with so many added, and a probe", rows[-1]["open ms"], at_most=OPEN_MS, unit="ms")
    results.bar("its private memory", rows[-1]["private MiB more"], at_most=OPEN_MIB, unit="MiB")


def warmed(path: str) -> dict[str, Any]:
    """How long it takes to read the files of a store, to open it and to open it warm, and its probes after that."""
    piece = bytearray(1 << 20)
    started, size = time.perf_counter(), 0
    for file in sorted(Path(path, "segments").iterdir()):
        with file.open("rb", buffering=0) as opened_file:
            while count := opened_file.readinto(piece):
                size += count
    read = time.perf_counter() - started
    # Another order than that of the keys, each of them once.
    probes = uniform(4 * WARM_PROBES, np.random.default_rng(SEED + 2)).tolist()
    with fpstore.open(path) as store:  # so that all code is loaded, and threads were there once
        store.probe(probes[-1])
    started = time.perf_counter()
    fpstore.open(path).close()
    plain = time.perf_counter() - started
    started = time.perf_counter()
    with fpstore.open(path, warm=True) as store:
        warm = time.perf_counter() - started
        times = []
        for probe in probes:
            clock = time.perf_counter()
            store.probe(probe)
            times.append(time.perf_counter() - clock)
        pages = [(segment.view.pages_seen, segment.view.page_count) for segment in store._segments]
    return {
        "bytes": size,
        "read": read,
        "plain": plain,
        "warm": warm,
        "first": median(times[:WARM_PROBES]),
        "later": median(times[-WARM_PROBES:]),
        "all seen": all(seen == count for seen, count in pages),
    }


def bench_warm(arguments: Namespace, folder: Path, results: Results) -> None:
    """What open(warm=True) takes, and what probes take after it."""
    path = made(folder / "warm.fpstore", WARM_TIMES * arguments.n)
    runs = [run_child(__file__, {"what": "warm", "path": os.fspath(path)}) for _ in range(arguments.rounds)]
    results.expect(all(run["all seen"] for run in runs), "a page was not read by open(warm=True)")
    read, warm = (median(run[name] for run in runs) for name in ("read", "warm"))
    size, share = runs[0]["bytes"], median(run["read"] / (run["warm"] - run["plain"]) for run in runs)
    over = median(run["first"] / run["later"] for run in runs)
    row = {
        "file bytes": size,
        "reading GB/s": size / read / 1e9,
        "open(warm=True) ms": 1e3 * warm,
        "GB/s": size / warm / 1e9,
        "of reading": share,
        "open ms": 1e3 * median(run["plain"] for run in runs),
        f"first {WARM_PROBES:,} probes, p50 us": 1e6 * median(run["first"] for run in runs),
        "later ones": 1e6 * median(run["later"] for run in runs),
        "first over later": over,
    }
    results.table("opening a store warm, which the page cache has", [row])
    results.bar("open(warm=True): its bandwidth over that of reading", share, at_least=LEAST_WARM_SHARE)
    results.bar("after it: the first probes over later ones", over, at_most=MOST_WARM_PROBE)


def opened_child(path: Path, key: int) -> dict[str, Any]:
    before = os.fspath(path.with_name("before.fpstore"))
    return run_child(__file__, {"what": "open", "path": os.fspath(path), "key": key, "before": before})


def main() -> int:
    task = child_task(sys.argv)
    if task is not None and task["what"] == "write":
        write(task["path"], task["sizes"])
        return 0
    if task is not None and task["what"] == "warm":
        print_json(warmed(task["path"]))
        return 0
    if task is not None:
        print_json(opened(task["path"], task["key"], task["before"]))
        return 0
    parser = new_parser(__doc__, rounds=5, real=REAL_KEYS, small=SMALL_KEYS)
    parser.add_argument("--pending", type=parse_count, help="rows that are added before the store is opened")
    parser.add_argument("--seconds", type=parse_seconds, help="how long a reader is beside each writer")
    parser.add_argument("--commits", type=parse_count, help="after which a reader probes")
    parser.add_argument("--sizes", type=parse_living_sizes, default={}, help="of living.sizes: NAME=NUMBER,...")
    parser.add_argument("--parts", type=names_among(PARTS), default=list(PARTS), help="separated by commas")
    arguments = parse_arguments(parser, real=REAL_KEYS, small=SMALL_KEYS)
    for name, real, small in (("pending", 10**6, 10**4), ("seconds", 120.0, 0.5), ("commits", 300, 10)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, small if arguments.small else real)
    results = Results("bench_reader", arguments)
    with scratch_folder(arguments) as folder:
        for part, bench in zip(PARTS, (bench_commit, bench_busy, bench_open, bench_warm), strict=True):
            if part in arguments.parts:
                bench(arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    raise SystemExit(main())
