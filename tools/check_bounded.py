"""Measures what the nearest match costs in memory where one fingerprint has very many ids: empty pages, error pages.

    python tools/check_bounded.py [--ids 1e6] [--rows 256] [--small] [--json]

For each way in which the ids can lie, in a segment, pending, in several segments with removals, or half of them
removed, a process of its own opens the store, and tests and adds rows that are near that fingerprint. Printed is how
far the process's memory rose above that of the open store, at its peak. 100 MiB is what it may.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from arguments import parse_count, parse_folder
from benchlib import Results, new_parser, parse_arguments, scratch_folder

import fpstore
from fpstore.living.sizes import LivingSizes

PAGE = np.uint64(0x123456789ABCDEF0)
WAYS = ("segment", "pending", "segments and removals", "half removed")
MOST_MEBIBYTES = 100
SMALL_IDS = 100_000
PIECE = 50_000


def keep_ids(path: Path, way: str, ids: int) -> None:
    """A store with so many ids on one fingerprint."""
    fpstore.create(path, plan="paper-4").close()
    with fpstore.Store(path, "w", "batch", LivingSizes(growth=0)) as store:
        for start in range(0, ids, PIECE):
            piece = np.arange(start, min(start + PIECE, ids), dtype=np.uint64)
            store.add(np.full(len(piece), PAGE), ids=piece)
            if way == "segments and removals" and start % (5 * PIECE) == 0:
                store._flush()
                store.remove(ids=piece[:10])
        if way != "pending":
            store._flush()
        if way == "half removed":
            store.remove(ids=np.arange(ids // 2, dtype=np.uint64))


def status_bytes(name: str) -> int:
    """A line of this process's status."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def measure(path: Path, rows: int) -> None:
    """Print what adding rows near the fingerprint takes above the open store, and what contains_near takes."""
    rng = np.random.default_rng(1)
    queries = PAGE ^ (np.uint64(1) << rng.integers(0, 64, rows, dtype=np.uint64))
    with fpstore.open(path, "w") as store:
        store.add_if_new([1], ids=[2**63])
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = status_bytes("VmHWM")
        found = store.add_if_new(queries, ids=np.arange(rows, dtype=np.uint64) + np.uint64(2**62))
        if found.stored.any() or not store.contains_near(int(PAGE)):
            raise SystemExit("a match is missing")
        print(status_bytes("VmHWM") - before)


def main() -> int:
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("--ids", type=parse_count, default=1_000_000, help="of the one fingerprint; default 1e6")
    parser.add_argument("--rows", type=parse_count, default=256, help="tested and added at once; default 256")
    parser.add_argument("--measure", type=parse_folder, help="used by the tool itself: the store to measure")
    arguments = parse_arguments(parser)
    if arguments.measure:
        measure(arguments.measure, arguments.rows)
        return 0
    if arguments.small:
        arguments.ids = min(arguments.ids, SMALL_IDS)
    results = Results("check_bounded", arguments)
    rows = []
    with scratch_folder(arguments) as folder:
        for way in WAYS:
            path = folder / way
            keep_ids(path, way, arguments.ids)
            call = [sys.executable, __file__, "--measure", str(path), "--rows", str(arguments.rows)]
            done = subprocess.run(call, capture_output=True, text=True, check=True)
            mebibytes = int(done.stdout) / (1 << 20)
            rows.append({"ids lie in": way, "MiB above the open store": mebibytes})
            results.expect(mebibytes <= MOST_MEBIBYTES, f"{way}: {mebibytes:.0f} MiB, expected {MOST_MEBIBYTES}")
    results.table(f"{arguments.rows} rows tested against one fingerprint with {arguments.ids:,} ids", rows)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
