"""Readers beside a writer: every answer must be right for some state between its call's start and its end.

    python tools/check_readers.py [--seconds 600] [--readers 4] [--seed 1] [--dir DIR] [--plant]

A writer adds, tests and adds, removes, flushes and compacts, and notes in a file when each operation began and ended.
Reader processes probe, probe_many, ask contains_near, and now and then list pairs or rows; each answer is compared with
brute force for the states that there were meanwhile. While they list, they hold on, with their state, until the writer
has done more: it must not have to wait for them. Fingerprints lie close together, so that most probes find some; far
from them, others are added and removed in bulk, so that flushes and merges take their time. Memory (Pss_Anon of each
process) and disk are sampled. --plant: one reader never moves on, which has to be reported. Exit status 1 if anything
was wrong.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_count, parse_folder, parse_seconds, parse_whole

import fpstore
from fpstore.living.sizes import LivingSizes

DISTANCE = 3
CLUSTERS = 40
CLUSTER_KEYS = 8
IDS = 500
QUERIES = 400
FILLER_ROWS = 20_000
FILLERS = 8
# How often the writer does what.
SHARES = {
    "add": 40,
    "add_if_new": 20,
    "remove ids": 15,
    "remove fingerprints": 15,
    "flush": 3,
    "compact": 1,
    "bulk": 3,
}
# In place of a million, so that the writer flushes and forgets by itself too.
SIZES = LivingSizes(flush_rows=5_000, small_rows=30_000, small_segments=3, min_removals=2_000)
# Answers are checked so many at a time, after the writer has had time to note what it did.
CALLS = 40
HELD_OPERATIONS = 3
HELD_SECONDS = 120.0
SAMPLE_SECONDS = 1.0
SHOWN = 5

Rows = list[tuple[int, int]]
# kind, rows or numbers
Operation = tuple[str, list[Any]]
FORGOTTEN: Operation = ("none", [])


class Universe:
    """The fingerprints that are asked about, and for each query those near it, nearest first."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.keys: list[int] = []
        for _ in range(CLUSTERS):
            centre = rng.getrandbits(64)
            self.keys += [near(centre, rng, 3) for _ in range(CLUSTER_KEYS)]
        self.known = set(self.keys)
        self.queries = [near(rng.choice(self.keys), rng, 2) for _ in range(QUERIES)]
        self.near = {
            query: sorted(
                ((query ^ key).bit_count(), key) for key in self.known if (query ^ key).bit_count() <= DISTANCE
            )
            for query in {*self.queries, *self.keys}
        }


def near(key: int, rng: random.Random, most: int) -> int:
    return key ^ sum(1 << bit for bit in rng.sample(range(64), rng.randint(0, most)))


class State:
    """What the store must hold of the universe: the ids of each fingerprint."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.ids: dict[int, set[int]] = {}

    def copy(self) -> "State":
        other = State(self.universe)
        other.ids = {key: set(ids) for key, ids in self.ids.items()}
        return other

    def apply(self, operation: Operation) -> None:
        kind, values = operation
        if kind == "add":
            for key, number in values:
                self.ids.setdefault(key, set()).add(number)
        elif kind == "remove fingerprints":
            for key in values:
                self.ids.pop(key, None)
        elif kind == "remove ids":
            for key in list(self.ids):
                self.ids[key].difference_update(values)
                if not self.ids[key]:
                    del self.ids[key]

    def matches(self, query: int) -> list[tuple[int, int, int]]:
        live = [(distance, key) for distance, key in self.universe.near[query] if key in self.ids]
        return [(distance, key, number) for distance, key in live for number in sorted(self.ids[key])]

    def answer(self, call: str, queries: list[int]) -> Any:
        if call == "contains_near":
            return any(key in self.ids for _, key in self.universe.near[queries[0]])
        if call == "pairs":
            return sorted(
                (key, other, distance)
                for key in self.ids
                for distance, other in self.universe.near[key]
                if key < other and other in self.ids
            )
        if call == "rows":
            return sorted((key, number) for key, ids in self.ids.items() for number in ids)
        return [self.matches(query) for query in queries]


class History:
    """What the writer noted: operations, when each began and when each ended; grows as the file does."""

    def __init__(self, path: Path) -> None:
        self.operations: list[Operation] = []
        self.began: list[float] = []
        self.ended: list[float] = []
        self.complete = False
        self.path = path
        self._file = path.open("rb")
        self._rest = b""

    def follow(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            moment, kind, values = json.loads(line)
            if kind == "end":
                self.ended.append(moment)
            elif kind == "stop":
                self.complete = True
            else:
                self.began.append(moment)
                self.operations.append((kind, values))

    def close(self) -> None:
        self._file.close()


# The writer.


def write(path: Path, history: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Change the store until the time is up; what was done."""
    rng, universe = random.Random(seed + 1), Universe(seed)
    random_keys = np.random.default_rng(seed)
    fillers: list[Any] = []
    state = State(universe)
    longest: Counter[str] = Counter()
    done: Counter[str] = Counter()
    problems: list[str] = []
    deadline = time.monotonic() + seconds
    with fpstore.Store(path, "w", sizes=SIZES) as store, history.open("ab", buffering=0) as notes:

        def note(kind: str, values: list[Any]) -> float:
            moment = time.monotonic()
            notes.write(json.dumps([moment, kind, values]).encode() + b"\n")
            return moment

        def perform(name: str, operation: Operation, call: Callable[[], Any]) -> Any:
            began = note(*operation)
            result = call()
            longest[name] = max(longest[name], round(1e3 * (note("end", []) - began)))
            done[name] += 1
            state.apply(operation)
            return result

        while time.monotonic() < deadline:
            name = rng.choices(*zip(*SHARES.items(), strict=True))[0]
            rows = [(rng.choice(universe.keys), rng.randrange(IDS)) for _ in range(rng.randint(1, 30))]
            if name == "add":
                perform(name, ("add", rows), partial(store.add, **given(rows)))
            elif name == "add_if_new":
                new = tested(state, rows)
                found = perform(name, ("add", new), partial(store.add_if_new, **given(rows)))
                if [row for row, stored in zip(rows, found.stored.tolist(), strict=True) if stored] != new:
                    problems.append(f"add_if_new of {rows}: stored {found.stored.tolist()}, expected {new}")
            elif name == "remove ids":
                numbers = [number for _, number in rows]
                perform(name, (name, numbers), partial(store.remove, ids=array(numbers)))
            elif name == "remove fingerprints":
                keys = [key for key, _ in rows[:5]]
                perform(name, (name, keys), partial(store.remove, fingerprints=array(keys)))
            elif name == "bulk" and len(fillers) < FILLERS:
                fillers.append(random_keys.integers(0, 1 << 64, FILLER_ROWS, dtype=np.uint64))
                ids = np.arange(FILLER_ROWS, dtype=np.uint64) + np.uint64(IDS)
                perform("add in bulk", ("none", []), partial(store.add, fillers[-1], ids=ids))
            elif name == "bulk":
                gone = fillers.pop(rng.randrange(len(fillers)))
                perform("remove in bulk", ("none", []), partial(store.remove, fingerprints=gone))
            else:
                perform(name, ("none", []), store._flush if name == "flush" else store.compact)
        note("stop", [])
    return {"operations": dict(done), "longest ms": dict(longest), "problems": problems[:SHOWN]}


def tested(state: State, rows: Rows) -> Rows:
    """Those of rows that test-and-add is to store."""
    live, new = list(state.ids), []
    for key, number in rows:
        if all((key ^ other).bit_count() > DISTANCE for other in live):
            live.append(key)
            new.append((key, number))
    return new


def array(values: list[int]) -> Any:
    return np.array(values, dtype=np.uint64)


def given(rows: Rows) -> dict[str, Any]:
    """Rows as the arguments of Store.add."""
    return {"fingerprints": array([key for key, _ in rows]), "ids": array([number for _, number in rows])}


# A reader.


class Reader:
    """Calls of one store, each with the moments of its start and its end, to be checked later."""

    def __init__(self, store: fpstore.Store, universe: Universe, history: History, rng: random.Random) -> None:
        self.store, self.universe, self.history, self.rng = store, universe, history, rng
        self.checked: Counter[str] = Counter()
        self.problems: list[str] = []
        self.widest = 0
        self._calls: list[tuple[float, float, str, list[int], Any]] = []
        self._state = State(universe)
        self._applied = 0

    def call(self) -> None:
        name = self.rng.choices(("probe", "probe_many", "contains_near", "pairs", "rows"), (60, 20, 20, 0.2, 0.2))[0]
        queries = self.rng.choices(self.universe.queries, k=20 if name == "probe_many" else 1)
        began = time.monotonic()
        if name == "probe":
            matches = self.store.probe(queries[0])
        elif name == "probe_many":
            matches = self.store.probe_many(array(queries), threads=1)
        elif name == "contains_near":
            found: Any = self.store.contains_near(queries[0])
        else:
            self._list(name, queries)
            return
        ended = time.monotonic()
        if name != "contains_near":
            found = [[] for _ in queries]
            for match in matches:
                found[match.query].append((match.distance, match.fingerprint, match.id))
        self._calls.append((began, ended, name, queries, found))

    def _list(self, name: str, queries: list[int]) -> None:
        """All pairs, or all rows, waiting for the writer in their midst."""
        began = time.monotonic()
        batches: Iterator[Any] = self.store.pairs() if name == "pairs" else self.store.rows()
        known = self.universe.known
        first = next(batches, None)
        ended = time.monotonic()
        self._hold()
        found: list[Any] = []
        for batch in [] if first is None else [first, *batches]:
            found += [tuple(row) for row in batch if row[0] in known]
        self._calls.append((began, ended, name, queries, sorted(found)))

    def _hold(self) -> None:
        """Until the writer has begun and ended some more operations."""
        self.history.follow()
        wanted = len(self.history.began) + HELD_OPERATIONS
        deadline = time.monotonic() + HELD_SECONDS
        while len(self.history.ended) < wanted:
            if self.history.complete:
                return
            if time.monotonic() > deadline:
                self.problems.append(f"the writer did nothing for {HELD_SECONDS:.0f} s while a reader listed")
                return
            time.sleep(0.01)
            self.history.follow()

    def check(self) -> None:
        """Compare the answers so far with brute force."""
        self.history.follow()
        began, ended = self.history.began, self.history.ended
        for start, end, name, queries, found in self._calls:
            while self._applied < len(ended) and ended[self._applied] < start:
                self._state.apply(self.history.operations[self._applied])
                # Or what was noted would be most of the memory that is measured.
                self.history.operations[self._applied] = FORGOTTEN
                self._applied += 1
            state, last = self._state, self._applied
            same = state.answer(name, queries) == found
            if not same:
                state = state.copy()
            while not same and last < len(began) and began[last] < end:
                state.apply(self.history.operations[last])
                last += 1
                same = state.answer(name, queries) == found
            self.widest = max(self.widest, last - self._applied)
            self.checked[name] += 1
            if not same:
                problem = f"{name} of {queries[:SHOWN]}: {str(found)[:200]} is right for none of the states "
                self.problems.append(problem + f"{self._applied} to {last}{self._elsewhere(name, queries, found)}")
        self._calls.clear()

    def _elsewhere(self, name: str, queries: list[int], found: Any) -> str:
        """For which other states the answer is right."""
        state, right = State(self.universe), []
        whole = History(self.history.path)
        whole.follow()
        whole.close()
        for number, operation in enumerate(whole.operations):
            if state.answer(name, queries) == found:
                right.append(number)
            state.apply(operation)
        return f", but for {right[-SHOWN:]}" if right else ", nor for any other"


def read(path: Path, history: Path, seed: int, number: int, seconds: float, stale: bool) -> dict[str, Any]:
    """Ask the store until the time is up; what was checked. stale: never move on."""
    follower = History(history)
    deadline = time.monotonic() + seconds
    with fpstore.open(path) as store:
        if stale:
            oldest = store._living.newest()
            store._living.newest = lambda: oldest  # type: ignore[method-assign]
        reader = Reader(store, Universe(seed), follower, random.Random(1000 * seed + number))
        while time.monotonic() < deadline:
            for _ in range(CALLS):
                reader.call()
            reader.check()
    follower.close()
    return {"checked": dict(reader.checked), "widest": reader.widest, "problems": reader.problems[:SHOWN]}


# The processes together.


def private_bytes(pid: int) -> int:
    """Memory of a process that is no file's, its share of what it shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon")), 0)


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take of the disk now."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def run(arguments: argparse.Namespace, folder: Path) -> int:
    path, history = folder / "store.fpstore", folder / "history"
    fpstore.create(path, plan="flips-3:1,0,0").close()
    history.touch()
    tasks = [["write"], *(["read", str(number)] for number in range(arguments.readers))]
    common = ["--seconds", str(arguments.seconds), "--seed", str(arguments.seed), "--dir", os.fspath(folder)]
    children = []
    for task in tasks:
        command = [sys.executable, __file__, *common, "--task", *task]
        if arguments.plant and task == ["read", "0"]:
            command.append("--plant")
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    most: dict[str, list[int]] = {"writer": [0, 0], "a reader": [0, 0], "folder": [0, 0], "catalog": [0, 0]}
    began = time.monotonic()
    while any(child.poll() is None for child in children):
        half = int(time.monotonic() - began > arguments.seconds / 2)
        found = {
            "writer": private_bytes(children[0].pid),
            "a reader": max(private_bytes(child.pid) for child in children[1:]),
            "folder": disk_bytes(path),
            "catalog": (path / "catalog.mdb").stat().st_blocks * 512,
        }
        for name, value in found.items():
            most[name][half] = max(most[name][half], value)
        time.sleep(SAMPLE_SECONDS)
    results = []
    problems = []
    for task, child in zip(tasks, children, strict=True):
        said = child.communicate()[0]
        if child.returncode:
            problems.append(f"{' '.join(task)} ended with status {child.returncode}")
        else:
            results.append(json.loads(said))
            problems += [f"{' '.join(task)}: {problem}" for problem in results[-1]["problems"]]
    for name, (first, second) in most.items():
        what = "on disk" if name in ("folder", "catalog") else "Pss_Anon"
        print(f"{name}: {what} at most {first / 2**20:.1f} MiB in the first half, {second / 2**20:.1f} in the second")
    for result in results:
        print(", ".join(f"{name} {value}" for name, value in result.items() if name != "problems"))
    operations = sum(sum(result.get("operations", {}).values()) for result in results)
    checked = sum(sum(result.get("checked", {}).values()) for result in results)
    for problem in problems[:SHOWN]:
        print(f"WRONG {problem}")
    print(f"{operations} operations, {checked} answers of {arguments.readers} readers checked, {len(problems)} wrong")
    return int(bool(problems))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=parse_seconds, default=600.0, help="how long; default 600")
    parser.add_argument("--readers", type=parse_count, default=4, help="reader processes; default 4")
    parser.add_argument(
        "--seed", type=parse_whole, default=1, help="of the fingerprints and of what is done; default 1"
    )
    parser.add_argument("--dir", type=parse_folder, help="where the store goes; default: temporary")
    parser.add_argument("--plant", action="store_true", help="a reader that never moves on, which has to be reported")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task is None:
        with tempfile.TemporaryDirectory(prefix="fpstore-readers-", dir=arguments.dir) as folder:
            return run(arguments, Path(folder))
    path, history = arguments.dir / "store.fpstore", arguments.dir / "history"
    if arguments.task == ["write"]:
        found = write(path, history, arguments.seed, arguments.seconds)
    else:
        number = int(arguments.task[1])
        found = read(path, history, arguments.seed, number, arguments.seconds, arguments.plant)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
