"""Measures the first probes, and a scan, of a store whose file is on the disk and not in memory.

    python tools/bench_cold.py [--n 1e7] [--plans size,balanced,speed] [--queries 20] [--rounds 10] [--small] [--json]

Before each probe the file is put out of the page cache (posix_fadvise). Beside it the pages that it brought are read
one after the other, as a search would that asks for none ahead; beside a scan the file is read from end to end. Times
of the clock. Linux only; on a disk that others use, look at the least.
"""

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import parse_count, parse_plans
from benchlib import Keys, Results, make_queries, make_set, new_parser, parse_arguments, scratch_folder

import fpstore
from fpstore.plans.families import SCAN_NAME

PAGE = mmap.PAGESIZE
SCAN_DISTANCE = 12


def evict(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path: Path) -> list[int]:
    """The pages that the page cache has of the file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        held = (ctypes.c_ubyte * -(-len(mapped) // PAGE))()
        data = np.frombuffer(mapped, dtype=np.uint8)
        ctypes.CDLL(None).mincore(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(len(mapped)), held)
        del data
    return [page for page, flags in enumerate(held) if flags & 1]


def read_pages(path: Path, pages: list[int]) -> None:
    """One after the other, each when the one before is there."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for page in pages:
            os.pread(file.fileno(), PAGE, page * PAGE)


def read_whole(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def milliseconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - started)


def segment_of(path: Path) -> Path:
    (segment,) = (path / "segments").iterdir()
    os.sync()
    return segment


def probes(path: Path, queries: Keys) -> dict[str, Any]:
    """What a cold probe takes, and what reading its pages one by one does."""
    segment, own, serial, counts = segment_of(path), [], [], []
    for query in queries.tolist():
        evict(segment)
        with fpstore.open(path) as store:
            before = set(resident(segment))
            own.append(milliseconds(partial(store.probe, query)))
        pages = sorted(set(resident(segment)) - before)
        evict(segment)
        serial.append(milliseconds(partial(read_pages, segment, pages)))
        counts.append(len(pages))
    ratio = median(other / each for each, other in zip(own, serial, strict=True))
    row = {"pages": median(counts), "probe ms": median(own), "least": min(own)}
    return row | {"one by one ms": median(serial), "least of these": min(serial), "times": ratio}


def scans(path: Path, queries: Keys, rounds: int) -> dict[str, Any]:
    segment, own, whole = segment_of(path), [], []
    for query in queries[:rounds]:
        evict(segment)
        with fpstore.open(path) as store:
            ask = partial(store.probe_many, [query], max_distance=SCAN_DISTANCE, threads=1)
            own.append(milliseconds(ask))
        evict(segment)
        whole.append(milliseconds(partial(read_whole, segment)))
    row = {"file bytes": segment.stat().st_size, "scan ms": median(own), "least": min(own)}
    return row | {"reading ms": median(whole), "least of these": min(whole)}


def main() -> int:
    parser = new_parser(__doc__, rounds=10)
    parser.add_argument("--plans", type=parse_plans, default=["size", "balanced", "speed"])
    parser.add_argument("--queries", type=parse_count, default=20)
    arguments = parse_arguments(parser)
    results = Results("bench_cold", arguments)
    keys = make_set("u", arguments.n)
    queries = make_queries(keys, max(arguments.queries, arguments.rounds))
    rows = []
    with scratch_folder(arguments) as folder:
        for plan in arguments.plans:
            fpstore.build(folder / plan, keys, ids=None, plan=plan).close()
            rows.append({"plan": plan} | probes(folder / plan, queries[: arguments.queries]))
        results.table(f"the first probe of {len(keys):,} fingerprints on the disk", rows)
        fpstore.build(folder / SCAN_NAME, keys, ids=None, plan=SCAN_NAME, max_distance=SCAN_DISTANCE).close()
        results.table("a scan of them", [scans(folder / SCAN_NAME, queries, arguments.rounds)])
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
