"""What the benchmarks share: the sets of fingerprints, timing, tables and bars, and child processes."""

import argparse
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import parse_count, parse_folder
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Answer = tuple[NDArray[np.int64], Keys, NDArray[Any]]  # query, fingerprint, distance; sorted by all three

DISTANCE = 3
REAL_KEYS = 10**7  # what the bars speak of
SMALL_KEYS = 10**5  # what --small makes of it
CHUNK_KEYS = 1 << 20

# The clustered set: this share of the keys are copies of a base key, each with 0 to 6 different bits inverted. How
# many copies a base has follows Zipf's law. Exponent and limit give 10^7 keys of which 9.58 million are distinct,
# with 14.3 million pairs within 3: a tenth of the copies repeat another.
CLUSTERED_SHARE = 0.4
CLUSTER_EXPONENT = 2.0
MAX_COPIES = 1400
MAX_FLIPS = 6

SEEDS = {"u": 20070508, "c": 20070509}
SET_NAMES = {"u": "uniform", "c": "clustered"}


def uniform(count: int, rng: np.random.Generator) -> Keys:
    return rng.integers(0, 1 << 64, count, dtype=np.uint64)


def flipped(keys: Keys, counts: NDArray[np.int64], rng: np.random.Generator) -> Keys:
    """Each key with counts[i] different bits inverted."""
    mask = np.zeros(len(keys), dtype=np.uint64)
    for step in range(int(counts.max(initial=0))):
        wanting = np.flatnonzero(counts > step)
        while len(wanting):  # a bit that is taken is drawn again
            bits = np.uint64(1) << rng.integers(0, 64, len(wanting), dtype=np.uint64)
            free = mask[wanting] & bits == 0
            mask[wanting[free]] |= bits[free]
            wanting = wanting[~free]
    return keys ^ mask


def clustered(count: int, rng: np.random.Generator) -> Keys:
    copy_count = int(count * CLUSTERED_SHARE)
    sizes = np.arange(1, MAX_COPIES + 1)
    shares = np.cumsum(sizes**-CLUSTER_EXPONENT)
    ends = np.cumsum(1 + np.searchsorted(shares, rng.random(copy_count) * shares[-1]))
    base_of = np.searchsorted(ends, np.arange(copy_count), side="right")
    bases = uniform(copy_count, rng)[base_of]
    copies = flipped(bases, rng.integers(0, MAX_FLIPS + 1, copy_count), rng)
    return np.concatenate([copies, uniform(count - copy_count, rng)])


def distinct(keys: Keys) -> Keys:
    """Sorted, each once."""
    ordered = np.sort(keys)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def make_set(kind: str, count: int) -> Keys:
    """The distinct keys of a set (`u` or `c`) of so many, in random order; the same for every call."""
    rng = np.random.default_rng(SEEDS[kind])
    keys = (uniform if kind == "u" else clustered)(count, rng)
    return rng.permutation(distinct(keys))


@dataclass(frozen=True)
class ArrayKeys:
    """Sorted distinct keys, as fpstore takes them."""

    keys: Keys

    @property
    def count(self) -> int:
        return len(self.keys)

    def chunks(self) -> Iterator[Keys]:
        for first in range(0, len(self.keys), CHUNK_KEYS):
            yield self.keys[first : first + CHUNK_KEYS]


def make_queries(stored: Keys, count: int, seed: int = 1) -> Keys:
    """Half of them stored keys with 0 to 3 bits inverted, half uniform, in random order."""
    rng = np.random.default_rng(seed)
    near = rng.choice(stored, count // 2)
    near = flipped(near, rng.integers(0, DISTANCE + 1, len(near)), rng)
    return rng.permutation(np.concatenate([near, uniform(count - len(near), rng)]))


def chunk_of_stream(seed: int, index: int, count: int) -> Keys:
    """Chunk `index` of an endless stream of uniform keys, so that any part of it can be made again."""
    return uniform(count, np.random.default_rng([seed, index]))


def stream(seed: int, count: int) -> Iterator[Keys]:
    """The first `count` keys of that stream, in chunks of CHUNK_KEYS."""
    for index, first in enumerate(range(0, count, CHUNK_KEYS)):
        yield chunk_of_stream(seed, index, min(CHUNK_KEYS, count - first))


def in_order(query: NDArray[Any], fingerprint: NDArray[Any], distance: NDArray[Any]) -> Answer:
    order = np.lexsort((fingerprint, distance, query))
    return query[order].astype(np.int64), fingerprint[order].astype(np.uint64), distance[order].astype(np.uint8)


def brute_force(stored: Keys, queries: Keys, distance: int = DISTANCE) -> Answer:
    """The answer, by looking at every key for every query."""
    parts = []
    for index, query in enumerate(queries):
        bits = np.bitwise_count(stored ^ query)
        found = np.flatnonzero(bits <= distance)
        parts.append((np.full(len(found), index), stored[found], bits[found]))
    return in_order(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def same_answer(found: Answer, expected: Answer) -> bool:
    return all(bool(np.array_equal(found[column], expected[column])) for column in range(3))


# Timing.


@dataclass(frozen=True)
class Timing:
    """Seconds that a call took: of the clock, and of processors, all threads together."""

    wall: float
    cpu: float


def timed(call: Callable[[], Any]) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(calls: Sequence[Callable[[], Any]], rounds: int) -> list[list[Timing]]:
    """Time the calls in turns, A B A B, so that what else the machine does falls on all alike; a list for each."""
    timings: list[list[Timing]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, own in zip(calls, timings, strict=True):
            own.append(timed(call))
    return timings


def median_wall(timings: Sequence[Timing]) -> float:
    return median(timing.wall for timing in timings)


def median_cpu(timings: Sequence[Timing]) -> float:
    return median(timing.cpu for timing in timings)


def best_wall(timings: Sequence[Timing]) -> float:
    return min(timing.wall for timing in timings)


def cpu_ratio(timings: Sequence[Timing], reference: Sequence[Timing]) -> float:
    """The median of the ratios of each round."""
    return median(own.cpu / other.cpu for own, other in zip(timings, reference, strict=True))


# What is printed.


class Results:
    """The tables, bars and differences of one run, printed as they come and as one JSON object at the end."""

    def __init__(self, tool: str, arguments: argparse.Namespace, *, only_keys: int | None = None) -> None:
        """only_keys: the number of keys that the bars speak of, where they are judged at no other."""
        self._json = arguments.json
        self._judging = not arguments.small and only_keys in (None, arguments.n)
        self._tables: list[dict[str, Any]] = []
        self._bars: list[dict[str, Any]] = []
        self._differences: list[str] = []
        here = machine()
        self._head: dict[str, Any] = {"tool": tool, "arguments": vars(arguments), "machine": here}
        self.say(f"{tool}: {', '.join(f'{name} {value}' for name, value in here.items())}")

    def say(self, text: str) -> None:
        """A line for people: on standard error where standard output is for JSON."""
        print(text, file=sys.stderr if self._json else sys.stdout, flush=True)

    def table(self, title: str, rows: Sequence[dict[str, Any]]) -> None:
        """A table; every row has the columns of the first."""
        self._tables.append({"title": title, "rows": list(rows)})
        cells = [list(rows[0])] + [[shown(value) for value in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        self.say(f"\n{title}")
        for row in cells:
            line = (
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self.say("  " + "  ".join(line).rstrip())

    def bar(
        self, what: str, found: float, *, at_most: float | None = None, at_least: float | None = None, unit: str = ""
    ) -> None:
        """A figure beside what it should be. Judged only at the size that the bar speaks of."""
        ok = (at_most is None or found <= at_most) and (at_least is None or found >= at_least)
        verdict = ("ok" if ok else "missed") if self._judging else "small"
        bar = {"what": what, "found": found, "at_most": at_most, "at_least": at_least, "unit": unit, "verdict": verdict}
        self._bars.append(bar)

    def differs(self, what: str) -> None:
        """An answer is wrong."""
        self._differences.append(what)
        self.say(f"DIFFERENT: {what}")

    def expect(self, same: bool, what: str) -> None:
        if not same:
            self.differs(what)

    @property
    def missed(self) -> list[str]:
        return [bar["what"] for bar in self._bars if bar["verdict"] == "missed"]

    def finish(self) -> int:
        """Print the bars, and the JSON. The exit status: 1 if any answer was wrong."""
        if self._bars:
            rows = []
            for bar in self._bars:
                sides = (("at most", bar["at_most"]), ("at least", bar["at_least"]))
                limits = [f"{word} {shown(limit)}" for word, limit in sides if limit is not None]
                unit = f" {bar['unit']}" if bar["unit"] else ""
                found = shown(bar["found"]) + unit
                rows.append(
                    {"bar": bar["what"], "found": found, "expected": ", ".join(limits) + unit, "": bar["verdict"]}
                )
            self._print_bars(rows)
        wrong = len(self._differences)
        missed = f"; bars: {len(self.missed)} of {len(self._bars)} MISSED" if self.missed else ""
        answers = f"{wrong} DIFFERENT" if wrong else "all as expected"
        self.say(f"\nanswers: {answers}{missed}; load {shown(os.getloadavg()[0])}")
        if self._json:
            self._head |= {"tables": self._tables, "bars": self._bars, "differences": self._differences}
            print(json.dumps(self._head, indent=1, default=os.fspath))
        return int(wrong > 0)

    def _print_bars(self, rows: list[dict[str, Any]]) -> None:
        title = "bars" if self._judging else "bars, not judged at this size"
        self.table(title, rows)
        self._tables.pop()


def shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        size = abs(float(value))
        return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}" if size < 100 else f"{value:.1f}"
    return str(value)


def machine() -> dict[str, str]:
    """What the figures hold for."""
    processor = platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    found = {
        "processor": processor,
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{memory / 2**20:.0f} GiB",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    for package in ("faiss-cpu", "simhash", "gaoya"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"load": shown(os.getloadavg()[0])}


def resident_bytes(field: str = "VmRSS") -> int:
    """Memory of this process now; VmHWM: at most so far.

    Not getrusage's ru_maxrss: a child inherits in it the peak of the process that started it.
    """
    return next((int(line.split()[1]) << 10 for line in _lines("/proc/self/status") if line.startswith(field)), 0)


def give_back_memory() -> None:
    """Let go of what was freed, so that resident_bytes tells what is taken next; does nothing where libc cannot."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


# The command line.


def new_parser(
    doc: str | None, *, rounds: int, counted: str = "keys of each set", real: int = REAL_KEYS, small: int = SMALL_KEYS
) -> argparse.ArgumentParser:
    """The options of every benchmark. counted: what --n says the number of; real, small: its defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=parse_count, help=f"{counted}; default {real:,}")
    parser.add_argument("--small", action="store_true", help=f"seconds instead of minutes: --n {small:,}, one round")
    parser.add_argument(
        "--rounds", type=parse_count, default=rounds, help=f"times that each figure is taken; default {rounds}"
    )
    parser.add_argument(
        "--dir", type=parse_folder, help="where the stores go, which are removed afterwards; default: temporary"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on standard error"
    )
    return parser


def parse_arguments(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None = None,
    *,
    real: int = REAL_KEYS,
    small: int = SMALL_KEYS,
) -> argparse.Namespace:
    arguments = parser.parse_args(argv)
    if arguments.n is None:
        arguments.n = small if arguments.small else real
    if arguments.small:
        arguments.rounds = 1
    return arguments


@contextmanager
def scratch_folder(arguments: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fpstore-bench-", dir=arguments.dir) as folder:
        yield Path(folder)


# Children: what is measured in a process of its own.


def run_child(script: str, task: dict[str, Any]) -> dict[str, Any]:
    """Run `script --child TASK` and return what it prints as JSON; its errors come through."""
    command = [sys.executable, script, "--child", json.dumps(task)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{Path(script).name}: the child of {task} ended with status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def child_task(argv: Sequence[str]) -> dict[str, Any] | None:
    """The task, where this process is such a child."""
    if len(argv) != 3 or argv[1] != "--child":
        return None
    task: dict[str, Any] = json.loads(argv[2])
    return task


def print_json(result: Any) -> None:
    print(json.dumps(asdict(result) if hasattr(result, "__dataclass_fields__") else result))
