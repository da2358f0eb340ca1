"""Readers that are killed -9 at any moment: the catalog of the store that they read grows no more for it.

    python tools/check_killed.py [--readers 64] [--additions 100000] [--dir DIR]

A writer adds rows, one at a time, while the readers ask; one of them after the other is killed and another started.
Between two questions a reader pauses at random, and so does who kills: otherwise 64 readers that open a store with 10^5
rows in its log take all the time of two cores, and the writer none. Then the same additions go to a store that nobody
reads. Compared is what each catalog takes of the disk: with readers at most 1.5 times as much. After compact both must
be small again, and every row is there.
Exit status 1 if not.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from arguments import parse_count, parse_folder

import fpstore

MOST = 1.5
# What a catalog takes at most that has nothing in its log.
SMALL_BYTES = 1 << 20
SEED = 5
# The longest pauses, in seconds: of a reader between two questions, and between two kills.
READ_PAUSE = 0.2
KILL_PAUSE = 1.0


def read(path: Path) -> None:
    """Ask the store until somebody ends this process."""
    rng = random.Random()
    with fpstore.open(path) as store:
        while True:
            store.probe(1)
            time.sleep(rng.random() * READ_PAUSE)


def start_reader(path: Path) -> int:
    """The number of a new process that reads."""
    child = os.fork()
    if not child:
        try:
            read(path)
        finally:
            os._exit(1)
    return child


def end(readers: list[int]) -> int:
    """Kill them; how many had ended before, which none must."""
    failed = 0
    for child in readers:
        os.kill(child, signal.SIGKILL)
        failed += os.waitpid(child, 0)[1] != signal.SIGKILL
    return failed


def catalog_bytes(path: Path) -> int:
    """What the catalog takes of the disk."""
    return (path / "catalog.mdb").stat().st_blocks * 512


def fill(path: Path, additions: int, readers: int) -> tuple[int, int, int, int]:
    """Add the rows; the catalog's bytes then and after compact, how many readers were killed, and how many failed."""
    fpstore.create(path).close()
    rng = random.Random(SEED)
    keys = np.random.default_rng(SEED).integers(0, 1 << 64, additions, dtype=np.uint64)
    # Forked before this process has the store open, so that none has the writer's files.
    nursery_in, nursery_out = os.pipe()
    nurse = os.fork()
    if not nurse:
        os.close(nursery_out)
        os._exit(nurse_readers(path, readers, rng, nursery_in))
    os.close(nursery_in)
    with fpstore.open(path, "w") as store:
        for index, key in enumerate(keys):
            store.add([int(key)], ids=[index])
        full = catalog_bytes(path)
        os.close(nursery_out)
        status = os.waitpid(nurse, 0)[1]
        store.compact()
        small = catalog_bytes(path)
        rows = sum(map(len, store.rows()))
    if rows != additions:
        raise SystemExit(f"found {rows} rows, expected {additions}")
    return full, small, readers, os.waitstatus_to_exitcode(status)


def nurse_readers(path: Path, count: int, rng: random.Random, stop: int) -> int:
    """Keep so many readers, killing one after the other, until the pipe ends; how many ended by themselves."""
    os.set_blocking(stop, False)
    readers = [start_reader(path) for _ in range(count)]
    failed = killed = 0
    while True:
        try:
            if not os.read(stop, 1):
                break
        except BlockingIOError:
            pass
        if readers:
            failed += end([readers.pop(rng.randrange(len(readers)))])
            killed += 1
            readers.append(start_reader(path))
        time.sleep(rng.random() * KILL_PAUSE)
    failed += end(readers)
    if count:
        print(f"{killed + count} readers killed, {failed} of them had ended by themselves", flush=True)
    return min(failed, 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=parse_count, default=64, help="reader processes at a time; default 64")
    parser.add_argument("--additions", type=parse_count, default=100_000, help="additions of one row; default 100000")
    parser.add_argument("--dir", type=parse_folder, help="where the stores go; default: temporary")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="fpstore-killed-", dir=arguments.dir) as folder:
        for name, readers in (("with readers", arguments.readers), ("without", 0)):
            began = time.monotonic()
            found[name] = fill(Path(folder) / name, arguments.additions, readers)
            full, small, _, failed = found[name]
            seconds = time.monotonic() - began
            print(f"{name}: catalog {full:,} bytes, {small:,} after compact; {seconds:.0f} s", flush=True)
    ratio = found["with readers"][0] / found["without"][0]
    small = max(each[1] for each in found.values())
    failed = found["with readers"][3]
    print(
        f"{ratio:.2f} times as large, expected at most {MOST}; {small:,} bytes after compact, at most {SMALL_BYTES:,}"
    )
    return int(ratio > MOST or small > SMALL_BYTES or failed > 0)


if __name__ == "__main__":
    sys.exit(main())
