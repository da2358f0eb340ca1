"""Measures one large search cut into tasks, against one `probe_many` of the same queries.

    python tools/bench_cluster.py [--n 1e7] [--queries 1e6] [--tasks 8] [--workers 2] [--engine local,ray,spark]
                                  [--rounds 3] [--small] [--json]

Seconds of processors, in turns; those of the tasks with all processes, without what it takes to start these. That is
measured by starting as many that do nothing. --engine: Ray and Spark, where they are installed, are started before.
They ask another store before each turn, so that a worker opens this one anew, and all that runs below this process
counts. The rows are compared.

Memory: the most that a process of its own has beyond what it had with its queries at hand. What is private (RssAnon,
looked at every 2 ms) has the bar. Resident are mapped pages of the store besides, which are the page cache's: whoever
needs their room takes it.
"""

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import names_among, parse_count
from benchlib import (
    DISTANCE,
    Keys,
    Results,
    child_task,
    give_back_memory,
    make_queries,
    make_set,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
)

import fpstore
from fpstore import Matches, cluster
from fpstore.cluster.searching import Seen
from fpstore.workers import Workers

MOST_OF_ONE = {"local": 1.15, "ray": 1.3, "spark": 1.3}
MOST_BYTES = 1 << 29
OBJECT_BYTES = 80 << 20
LOOK_SECONDS = 0.002
SMALL_QUERIES = 20_000


def processor_seconds(call: Callable[[], Any]) -> float:
    """What a call takes, here, in the processes that it has waited for and in those that run on."""

    def taken() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime + seconds_below()

    began = taken()
    call()
    return taken() - began


def seconds_below() -> float:
    """What all processes that run below this one have taken, with those that they have waited for."""
    below, ticks = {os.getpid()}, 0
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    while True:
        more = {process for process, each in fields.items() if int(each[1]) in below} - below
        if not more:
            return ticks / os.sysconf("SC_CLK_TCK")
        below |= more
        ticks += sum(sum(map(int, fields[process][11:15])) for process in more)


def start(workers: int) -> None:
    """Have processes import what tasks need, and end."""
    with Workers(workers, 0) as team:
        team.map(str, [Seen("", 0, 0, 0)] * workers)


@contextmanager
def engine_started(name: str, workers: int) -> Iterator[None]:
    """Ray or Spark at work with as many processes; nothing for local ones."""
    if name == "local":
        yield
        return
    with ExitStack() as held:
        os.environ |= {"PYTHONPATH": str(Path(fpstore.__file__).parent.parent), "PYSPARK_PYTHON": sys.executable}
        if name == "ray":
            import ray

            ray.init("local", num_cpus=workers, include_dashboard=False, object_store_memory=OBJECT_BYTES)
            held.callback(ray.shutdown)
        else:
            from fpstore.cluster.spark import session

            held.callback(session(workers=workers)[0].stop)
        yield


def forget(folder: Path, workers: int, engine: str) -> None:
    """Have every worker of an engine do tasks of another store, so that it has opened that."""
    if engine == "local":
        return
    path, keys = folder / "other.fpstore", make_set("u", SMALL_QUERIES)
    if not path.exists():
        fpstore.build(path, keys, ids=None, max_distance=DISTANCE).close()
    by_tasks(path, make_queries(keys, SMALL_QUERIES), 8 * workers, workers, engine)


def by_tasks(
    path: Path, queries: Keys, tasks: int, workers: int, engine: str = "local", keep: list[Matches] | None = None
) -> None:
    # An engine that was started before has as many workers as it was started with.
    count = workers if engine == "local" else None
    with cluster.probe(path, queries, max_distance=DISTANCE, tasks=tasks, workers=count, engine=engine) as answer:
        for matches in answer:
            if keep is not None:
                keep.append(matches)


def in_one(path: Path, queries: Keys) -> Matches:
    with fpstore.open(path) as store:
        return store.probe_many(queries, max_distance=DISTANCE, threads=1)


def same(parts: list[Matches], whole: Matches) -> bool:
    columns = ("query", "fingerprint", "distance")
    return all(np.array_equal(np.concatenate([getattr(p, c) for p in parts]), getattr(whole, c)) for c in columns)


def child(task: dict[str, Any]) -> dict[str, int]:
    path, queries = Path(task["path"]), np.load(task["queries"])
    give_back_memory()
    before, private = resident_bytes(), resident_bytes("RssAnon")
    most, ended = [private], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            most[0] = max(most[0], resident_bytes("RssAnon"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        if task["way"] == "tasks":
            by_tasks(path, queries, task["tasks"], 1)
        else:
            in_one(path, queries)
    finally:
        ended.set()
        looking.join()
    return {"private": most[0] - private, "resident": resident_bytes("VmHWM") - before}


def bench(arguments: Any, results: Results, folder: Path) -> None:
    keys = make_set("u", arguments.n)
    queries = make_queries(keys, arguments.queries)
    path, asked = folder / "s.fpstore", folder / "queries.npy"
    np.save(asked, queries)
    fpstore.build(path, keys, ids=None, max_distance=DISTANCE).close()
    del keys
    for engine in arguments.engine:
        with engine_started(engine, arguments.workers):
            bench_engine(arguments, results, engine, path, queries)
    about = {"path": str(path), "queries": str(asked), "tasks": arguments.tasks}
    held = {way: run_child(__file__, about | {"way": way}) for way in ("tasks", "one")}
    rows = [{"way": way} | {kind: most / 2**20 for kind, most in each.items()} for way, each in held.items()]
    results.table("memory, MiB", rows)
    results.bar("private memory of tasks", held["tasks"]["private"] / 2**20, at_most=MOST_BYTES / 2**20, unit="MiB")


def bench_engine(arguments: Any, results: Results, engine: str, path: Path, queries: Keys) -> None:
    found: list[Matches] = []
    by_tasks(path, queries, arguments.tasks, arguments.workers, engine, found)
    results.expect(same(found, in_one(path, queries)), f"the rows of tasks by {engine}")
    found.clear()
    rows = []
    for _ in range(arguments.rounds):
        one = processor_seconds(lambda: in_one(path, queries))
        here = processor_seconds(lambda: by_tasks(path, queries, arguments.tasks, 1))
        started = processor_seconds(lambda: start(arguments.workers)) if engine == "local" else 0.0
        forget(path.parent, arguments.workers, engine)
        began = time.perf_counter()
        shared = processor_seconds(lambda: by_tasks(path, queries, arguments.tasks, arguments.workers, engine))
        wall = time.perf_counter() - began
        rows.append(
            {
                "probe_many": one,
                "tasks here": here,
                f"{arguments.workers} processes": shared,
                "of these started": started,
                "of one, here": here / one,
                "of one": (shared - started) / one,
                "wall": wall,
            }
        )
    about = f"{arguments.queries:,} queries, {arguments.tasks} tasks by {engine}"
    results.table(f"{about}: seconds of processors", rows)
    ratio = median(row["of one"] for row in rows)
    results.bar(f"{engine}, of one probe_many", ratio, at_most=MOST_OF_ONE[engine])


def main() -> int:
    if (task := child_task(sys.argv)) is not None:
        print_json(child(task))
        return 0
    parser = new_parser(__doc__, rounds=3)
    parser.add_argument("--queries", type=parse_count, help="how many; default 1,000,000")
    parser.add_argument("--tasks", type=parse_count, default=8, help="how many; default 8")
    parser.add_argument("--workers", type=parse_count, default=2, help="how many processes; default 2")
    parser.add_argument("--engine", type=names_among(MOST_OF_ONE), default=["local"], help="which; default local")
    arguments = parse_arguments(parser)
    if arguments.queries is None:
        arguments.queries = SMALL_QUERIES if arguments.small else 10**6
    results = Results("bench_cluster", arguments)
    with scratch_folder(arguments) as folder:
        bench(arguments, results, folder)
    return results.finish()


if __name__ == "__main__":
    raise SystemExit(main())
