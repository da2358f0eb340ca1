"""Measures ids that are names against ids that are numbers: bytes on disk, memory, adding, merging, probes with a hit.

    python tools/bench_names.py [--n 1e7] [--added 1e7] [--batch 1000] [--queries 5000] [--memory 64MiB] [--small]

The names are URLs of some 60 bytes: hosts of which few have most pages, a path of words, a date and a number. Each
store is made in a process of its own, whose memory is what it took at most. "built": streamed into a build with the
budget of --memory. "add", "add_if_new": --added rows, a batch at a time, durable; then everything is compacted ("names
as added": bytes a row before that). Without options all of it is at 10^7, some minutes, in 1.5 GB of --dir. Rates
are of the same again, in one process, to a store of each kind by turns of some hundred thousand rows: at the end of
each turn all flushes and merges that are due are waited for. The names are there before the clock starts.
"""

import random
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_budget, parse_count
from benchlib import (
    Keys,
    Results,
    child_task,
    chunk_of_stream,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
    timed,
)

import fpstore

SEED = 14
CHUNK = 1 << 16
KINDS = ("numbers", "names")
CALLS = ("add", "add_if_new")
# Of the stream, so many chunks are a turn.
TURN_CHUNKS = 8
# Issue 14, section 1.
MAX_NAME_BYTES = 30
MAX_MORE_MIB = 100
MAX_MORE_US = 20
MIN_OF_ADDING = 0.5
WORDS = [
    "news",
    "article",
    "product",
    "category",
    "blog",
    "archive",
    "review",
    "world",
    "sport",
    "economy",
    "politics",
    "item",
    "index",
    "page",
    "user",
    "profile",
    "photo",
    "video",
    "story",
    "health",
    "science",
    "travel",
    "food",
    "music",
    "games",
    "tech",
    "mobile",
    "cloud",
    "data",
    "open",
    "free",
    "best",
    "guide",
    "how",
    "to",
    "make",
    "your",
    "first",
    "the",
    "with",
    "for",
    "and",
    "new",
    "top",
]


def hosts(rng: random.Random, count: int) -> list[str]:
    def word() -> str:
        return "".join(rng.choice("bcdfgklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 5)))

    return [word() + rng.choice((".com", ".org", ".net", ".de", ".co.uk")) for _ in range(count)]


def urls(index: int, count: int, names: list[str]) -> list[str]:
    """The URLs of a chunk of the stream; the same for the same index."""
    rng = random.Random(SEED + index)
    found = []
    for i in range(count):
        host = names[int(len(names) * rng.random() ** 2)]
        slug = "-".join(rng.choices(WORDS, k=rng.randint(1, 3)))
        number = index * CHUNK + i
        day = rng.randrange(7305)
        found.append(
            f"https://www.{host}/{rng.choice(WORDS)}/{2005 + day // 365}/{day % 12 + 1:02d}/{slug}-{number}.html"
        )
    return found


def stream(kind: str, count: int) -> Iterator[tuple[Keys, Any]]:
    """Fingerprints and ids, a chunk at a time."""
    names = hosts(random.Random(SEED), max(50, count // 500))
    for first in range(0, count, CHUNK):
        keys = chunk_of_stream(SEED, first // CHUNK, min(CHUNK, count - first))
        if kind == "names":
            yield keys, urls(first // CHUNK, len(keys), names)
        else:
            yield keys, np.arange(first, first + len(keys), dtype=np.uint64)


def bytes_of(path: Path, ending: str) -> int:
    return sum(file.stat().st_size for file in path.rglob(f"*{ending}"))


def sizes(path: Path, count: int) -> dict[str, Any]:
    return {
        "segment bytes/row": round(bytes_of(path, ".fpseg") / count, 2),
        "names bytes/row": round(bytes_of(path, ".fpnames") / count, 2),
        "peak RSS MiB": resident_bytes("VmHWM") >> 20,
    }


def type_of(kind: str) -> Any:
    return "string" if kind == "names" else "uint64"


def build_in_child(task: dict[str, Any]) -> None:
    path, count = Path(task["path"]), task["n"]
    timing = timed(
        lambda: fpstore.build(
            path, stream(task["kind"], count), id_type=type_of(task["kind"]), memory=task["memory"], threads=1
        ).close()
    )
    print_json({"wall s": timing.wall, "CPU s": timing.cpu, **sizes(path, count)})


def add_in_child(task: dict[str, Any]) -> None:
    path, count, raw = Path(task["path"]), task["n"], 0
    with fpstore.create(path, id_type=type_of(task["kind"])) as store:
        for keys, ids in stream(task["kind"], count):
            raw += sum(map(len, ids)) if task["kind"] == "names" else 8 * len(ids)
            add(store, task, keys, ids)
        store.wait()
        as_added = round(bytes_of(path, ".fpnames") / count, 2)
        compacting = timed(store.compact)
    figures = {"raw bytes/row": raw / count, "compact CPU s": compacting.cpu, "names as added": as_added}
    print_json(figures | sizes(path, count))


def add(store: fpstore.Store, task: dict[str, Any], keys: Keys, ids: Any) -> None:
    call, batch = getattr(store, task["call"]), task["batch"]
    for first in range(0, len(keys), batch):
        call(keys[first : first + batch], ids=ids[first : first + batch])


def rates_in_child(task: dict[str, Any]) -> None:
    """Additions to a store of each kind by turns: rows a second, and microseconds of processor time for each row."""
    count = task["n"]
    stores = {kind: fpstore.create(Path(f"{task['path']}-{kind}"), id_type=type_of(kind)) for kind in KINDS}
    streams = {kind: stream(kind, count) for kind in KINDS}
    wall, cpu = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)

    def turn(kind: str, chunks: list[tuple[Keys, Any]]) -> None:
        for keys, ids in chunks:
            add(stores[kind], task, keys, ids)
        stores[kind].wait()

    for _ in range(0, count, CHUNK * TURN_CHUNKS):
        for kind in KINDS:
            timing = timed(partial(turn, kind, list(islice(streams[kind], TURN_CHUNKS))))
            wall[kind] += timing.wall
            cpu[kind] += timing.cpu
    for store in stores.values():
        store.close()
    print_json({kind: {"rows/s": round(count / wall[kind]), "CPU us/row": 1e6 * cpu[kind] / count} for kind in KINDS})


def probe_in_child(task: dict[str, Any]) -> None:
    """Single probes, each with a hit, of both stores in turns: the median of each in microseconds."""
    stores = {kind: fpstore.open(Path(task["folder"], f"built-{kind}")) for kind in KINDS}
    rng = np.random.default_rng(SEED)
    pieces = rng.integers(0, max(1, task["n"] // CHUNK), 20).tolist()
    keys = np.concatenate([chunk_of_stream(SEED, piece, min(CHUNK, task["n"])) for piece in pieces])
    queries = rng.permutation(keys)[: task["queries"]].tolist()
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    hits = 0
    for turn in range(2):  # the first reads what is not in memory yet
        for query in queries:
            for kind, store in stores.items():
                start = time.perf_counter()
                found = store.probe(query)
                if turn:
                    spent[kind].append(time.perf_counter() - start)
                    hits += len(found) > 0
    print_json({**{kind: 1e6 * float(np.median(times)) for kind, times in spent.items()}, "hits": hits})
    for store in stores.values():
        store.close()


def bench(arguments: Namespace, folder: Path, results: Results) -> None:
    built, added = {}, {}
    for kind in KINDS:
        task = {"what": "build", "kind": kind, "n": arguments.n, "memory": arguments.memory}
        built[kind] = run_child(__file__, {**task, "path": str(folder / f"built-{kind}")})
    results.table(f"built: {arguments.n:,} rows", [{"ids": kind, **found} for kind, found in built.items()])
    found = run_child(
        __file__, {"what": "probe", "folder": str(folder), "n": arguments.n, "queries": arguments.queries}
    )
    results.expect(found["hits"] == 2 * arguments.queries, "probes: some did not find what is stored")
    results.table("a probe with a hit, median us", [{kind: found[kind] for kind in KINDS}])
    results.bar("a probe with a hit: more", found["names"] - found["numbers"], at_most=MAX_MORE_US, unit="us")
    for call in CALLS:
        for kind in KINDS:
            task = {"what": "add", "call": call, "kind": kind, "n": arguments.added, "batch": arguments.batch}
            added[kind] = run_child(__file__, {**task, "path": str(folder / f"{call}-{kind}")})
            shutil.rmtree(folder / f"{call}-{kind}")
        task = {"what": "rates", "call": call, "n": arguments.added, "batch": arguments.batch}
        rates = run_child(__file__, {**task, "path": str(folder / f"{call}-rates")})
        for kind in KINDS:
            shutil.rmtree(folder / f"{call}-rates-{kind}")
        rows = [{"ids": kind, **rates[kind], **figures} for kind, figures in added.items()]
        results.table(f"{call}: {arguments.added:,} rows, {arguments.batch:,} at a time", rows)
        judge_files(call, added, results)
        most = added["names"]["names as added"]
        results.bar(f"{call}: names on disk, not compacted", most, at_most=MAX_NAME_BYTES, unit="bytes each")
        share = rates["names"]["rows/s"] / rates["numbers"]["rows/s"]
        results.bar(f"{call}: rate, of that of numbers", share, at_least=MIN_OF_ADDING)
    judge_files("built", built, results)


def judge_files(what: str, figures: dict[str, Any], results: Results) -> None:
    here, there = figures["names"], figures["numbers"]
    results.bar(f"{what}: names on disk", here["names bytes/row"], at_most=MAX_NAME_BYTES, unit="bytes each")
    more = here["peak RSS MiB"] - there["peak RSS MiB"]
    results.bar(f"{what}: more memory than numbers", more, at_most=MAX_MORE_MIB, unit="MiB")


def main() -> int:
    task = child_task(sys.argv)
    if task is not None:
        {"build": build_in_child, "add": add_in_child, "rates": rates_in_child, "probe": probe_in_child}[task["what"]](
            task
        )
        return 0
    parser = new_parser(__doc__, rounds=1, counted="rows of the stores that are built", small=50_000)
    parser.add_argument("--added", type=parse_count, help="rows that are added; default 10,000,000, small 50,000")
    parser.add_argument("--batch", type=parse_count, default=1000, help="rows of one addition; default 1,000")
    parser.add_argument("--queries", type=parse_count, default=5000, help="probes; default 5,000")
    parser.add_argument("--memory", type=parse_budget, default="64MiB", help="the budget of a build; default 64MiB")
    arguments = parse_arguments(parser, small=50_000)
    arguments.added = arguments.added or (50_000 if arguments.small else 10_000_000)
    results = Results("bench_names", arguments, only_keys=10_000_000)
    with scratch_folder(arguments) as folder:
        bench(arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
