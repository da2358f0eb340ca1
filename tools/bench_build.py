"""Measures building a store: the time of a table against np.sort of its keys, and what a whole build takes and writes.

    python tools/bench_build.py [--n 1e7] [--sets u,c] [--plans size,balanced,speed] [--memory 2GiB]
                                [--only-whole] [--ids] [--rounds 3] [--small] [--json]

The first part builds from an array in memory, without ids, on one thread: processor time of the whole build over the
number of tables, in turns with np.sort of the same keys; and fpstore's own sort of them, likewise. The second streams
uniform keys into a build in a process of its own, with the budget that --memory states, and says how much memory that
process took at most, and how many bytes it wrote. --ids gives each key of the second part its row number.
"""

import sys
import time
from argparse import Namespace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among, parse_budget, parse_plans
from benchlib import (
    DISTANCE,
    SET_NAMES,
    Keys,
    Results,
    child_task,
    interleaved,
    make_queries,
    make_set,
    median_cpu,
    median_wall,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
    stream,
    timed,
)

import fpstore
from fpstore._native import INSTRUCTION_SET
from fpstore._probe import scan
from fpstore._sort import sort_keys
from fpstore.arrays import parse_memory
from fpstore.building.runs import KEY_BYTES
from fpstore.plans import planner

MAX_OF_SORT = 1.6
# Issue 2: 10^8 keys within 2 GiB at a peak below 2.5 GiB.
MAX_OF_MEMORY = 1.25
# Issue 16: sorting over np.sort, where that has AVX-512 as we do and where not; a build of more than the memory holds.
MAX_SORT_OF_WIDE, MAX_SORT = 1.05, 0.35
MAX_BEYOND_NS = 90
MAX_WRITTEN = 3
JUDGED_PLAN = "balanced"
CHECKED_QUERIES = 20
STREAM_SEED = 5


def bench_sort(kind: str, arguments: Namespace, results: Results) -> None:
    keys = make_set(kind, arguments.n)
    name = f"{SET_NAMES[kind]} {len(keys):,}"
    rooms = [keys.copy() for _ in range(2 * arguments.rounds)]
    sorts, own = interleaved([lambda: rooms.pop().sort(), lambda: sort_keys(rooms.pop())], arguments.rounds)
    ratio = float(np.median([mine.cpu / other.cpu for mine, other in zip(own, sorts, strict=True)]))
    row = {"np.sort CPU s": median_cpu(sorts), "sort_keys CPU s": median_cpu(own), "sort_keys / np.sort": ratio}
    results.table(f"{name}: sorting, one thread, {INSTRUCTION_SET} instructions", [row])
    if kind == "u":
        most = MAX_SORT_OF_WIDE if INSTRUCTION_SET == "wide" else MAX_SORT
        results.bar(f"{name}: sort_keys over np.sort", ratio, at_most=most)


def bench_set(kind: str, arguments: Namespace, folder: Path, results: Results) -> None:
    keys = make_set(kind, arguments.n)
    name = f"{SET_NAMES[kind]} {len(keys):,}"
    queries = make_queries(keys, CHECKED_QUERIES)
    expected = [int((np.bitwise_count(keys ^ query) <= DISTANCE).sum()) for query in queries]
    rows: list[dict[str, Any]] = []
    for plan in arguments.plans:
        path = folder / f"{kind}.fpstore"

        def build_once(path: Path = path, plan: str = plan) -> None:
            fpstore.build(path, keys, ids=None, plan=plan, memory=arguments.memory, threads=1, force=True).close()

        sorts, builds = interleaved([partial(np.sort, keys), build_once], arguments.rounds)
        with fpstore.open(path) as store:
            tables = len(store.plan.tables)
            found = np.bincount(store.probe_many(queries).query, minlength=len(queries)).tolist()
        results.expect(found == expected, f"{name}, plan {plan}: the store does not find what is there")
        ratio = np.median([own.cpu / other.cpu for own, other in zip(builds, sorts, strict=True)]) / tables
        rows.append(
            {
                "plan": plan,
                "tables": tables,
                "build CPU s": median_cpu(builds),
                "a table": median_cpu(builds) / tables,
                "np.sort CPU s": median_cpu(sorts),
                "a table / np.sort": float(ratio),
                "build wall s": median_wall(builds),
            }
        )
        results.bar(f"{name}, plan {plan}: a table over np.sort", float(ratio), at_most=MAX_OF_SORT)
    results.table(f"{name}: building in memory, one thread", rows)
    rows = []
    for plan in arguments.plans:
        rows.append({"plan": plan, **phases(folder / f"{kind}-phases.fpstore", keys, plan, arguments.memory)})
    results.table(f"{name}: seconds of the clock in each phase of a build; table 1 needs no permutation", rows)


def phases(path: Path, keys: Keys, plan: str, memory: str) -> dict[str, float]:
    """Where the time of one build goes: seconds of reading, sorting, encoding, and of the rest."""
    marks: list[tuple[float, str]] = [(time.perf_counter(), "reading")]

    def progress(told: fpstore.Progress) -> None:
        phase, done, total, _ = told
        kind = "sorting" if "sorting" in phase else "encoding" if phase.startswith("table") else phase
        if kind == "encoding" and total is not None and done >= total:
            kind = "permuting and finishing"
        if marks[-1][1] != kind:
            marks.append((time.perf_counter(), kind))

    fpstore.build(path, keys, ids=None, plan=plan, memory=memory, threads=1, progress=progress, force=True).close()
    marks.append((time.perf_counter(), ""))
    found = dict.fromkeys(("reading", "sorting", "encoding", "permuting and finishing"), 0.0)
    for (started, kind), (ended, _) in pairwise(marks):
        found[kind] = found.get(kind, 0.0) + ended - started
    return found


def bench_whole(arguments: Namespace, folder: Path, results: Results) -> None:
    """Builds in children: time, disk and memory, and whether every key that was streamed is there."""
    rows: list[dict[str, Any]] = []
    for plan in arguments.plans:
        path = str(folder / f"whole-{plan}.fpstore")
        task = {"path": path, "n": arguments.n, "plan": plan, "memory": arguments.memory, "ids": arguments.ids}
        found = run_child(__file__, task)
        rows.append({"plan": plan, **found})
        said = f"uniform {arguments.n:,}, plan {plan}, memory {arguments.memory}"
        if plan == JUDGED_PLAN:
            most = MAX_OF_MEMORY * parse_memory(arguments.memory) / 2**20
            results.bar(f"{said}: peak resident", found["peak RSS MiB"], at_most=most, unit="MiB")
        if KEY_BYTES * arguments.n > parse_memory(arguments.memory) and not arguments.ids:
            results.bar(f"{said}: time a key", found["wall ns/key"], at_most=MAX_BEYOND_NS, unit="ns")
            results.bar(f"{said}: bytes written over the file's", found["written/file"], at_most=MAX_WRITTEN)
        with fpstore.open(path) as store:
            results.expect(holds_stream(store, arguments.n), f"{said}: other keys are stored")
    ids = "ids" if arguments.ids else "no ids"
    title = f"uniform {arguments.n:,}, {ids}, streamed into a build in its own process, memory {arguments.memory}"
    results.table(title, rows)


def holds_stream(store: fpstore.Store, count: int) -> bool:
    """Whether a few queries find as many keys as the stream has near them."""
    queries = make_queries(next(iter(stream(STREAM_SEED, count))), CHECKED_QUERIES, seed=2)
    expected = [0] * len(queries)
    for chunk in stream(STREAM_SEED, count):
        for index, query in enumerate(queries.tolist()):
            expected[index] += scan(chunk, query, DISTANCE)
    found: list[int] = np.bincount(store.probe_many(queries).query, minlength=len(queries)).tolist()
    return found == expected


def build_in_child(task: dict[str, Any]) -> None:
    path = Path(task["path"])
    before = resident_bytes("VmHWM")

    def build() -> None:
        keys = stream(STREAM_SEED, task["n"])
        ids = "row" if task["ids"] else None
        fpstore.build(path, keys, ids=ids, plan=task["plan"], memory=task["memory"]).close()

    written = written_bytes()
    timing = timed(build)
    written = written_bytes() - written
    size = sum(file.stat().st_size for file in path.rglob("*.fpseg"))
    print_json(
        {
            "wall s": timing.wall,
            "CPU s": timing.cpu,
            "wall ns/key": round(1e9 * timing.wall / task["n"], 1),
            "written/file": round(written / size, 2),
            "bytes/key": round(size / task["n"], 2),
            "peak RSS MiB": resident_bytes("VmHWM") >> 20,
            "before the build MiB": before >> 20,
        }
    )


def written_bytes() -> int:
    """What this process has given to write calls so far."""
    (line,) = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("wchar:")]
    return int(line.split()[1])


def main() -> int:
    task = child_task(sys.argv)
    if task is not None:
        build_in_child(task)
        return 0
    parser = new_parser(__doc__, rounds=3)
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, c or u,c; default both"
    )
    parser.add_argument(
        "--plans", type=parse_plans, default=list(planner.AIMS), help="separated by commas; default all"
    )
    parser.add_argument("--memory", type=parse_budget, default="2GiB", help="the budget of every build; default 2GiB")
    parser.add_argument("--ids", action="store_true", help="row numbers as ids in the builds of the second part")
    parser.add_argument("--only-whole", action="store_true", help="skip the comparison with np.sort")
    arguments = parse_arguments(parser)
    results = Results("bench_build", arguments)
    with scratch_folder(arguments) as folder:
        for kind in [] if arguments.only_whole else arguments.sets:
            bench_sort(kind, arguments, results)
            bench_set(kind, arguments, folder, results)
        bench_whole(arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
