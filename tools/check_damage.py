"""Damages a small segment in every way and checks that no answer changes without an error.

    python tools/check_damage.py [--edits 100000] [--jobs 2] [--repaired-only] [--heap]

Every flipped bit and every byte set to 0x00 and 0xFF, every truncation length, and random edits (bytes, sectors
zeroed, pages swapped, runs repeated, tails cut): opening, probing and reading the ids must raise CorruptStore or answer
as before. Then random edits under repaired checksums: answers may differ, nothing else may happen. A crash, a hang,
another exception or too much memory is a failure, printed with what replays it; the files are used in child processes.
--heap reads files into memory instead of mapping them, so that a sanitizer sees the first byte beyond their end.
Exit status 1 if anything failed.
"""

import argparse
import faulthandler
import mmap
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from damage import MEMORY_BYTES, MEMORY_FACTOR, MODES, check_range, damage_count, make_sample
from helpers import CODECS

SECONDS_FOR_A_TASK = 900


class HeapMap(bytearray):
    """What Segment uses of mmap.mmap, on the heap."""

    def madvise(self, option: int) -> None:
        """Nothing to advise."""

    def close(self) -> None:
        """The bytes go with the object."""


def read_to_heap(fd: int, length: int, **_: object) -> HeapMap:
    with open(fd, "rb", closefd=False) as file:
        return HeapMap(file.read())


def run_child(arguments: argparse.Namespace) -> int:
    """Check one range in this process; report on standard output."""
    faulthandler.enable()
    if arguments.heap:
        mmap.mmap = read_to_heap  # type: ignore[assignment,misc]
    with tempfile.TemporaryDirectory() as folder:
        sample = make_sample(Path(folder), arguments.codec, arguments.ids)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcomes, failures = check_range(sample, arguments.mode, range(arguments.first, arguments.end), Path(folder))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if not arguments.heap and grown << 10 > MEMORY_FACTOR * len(sample.data) + 4 * MEMORY_BYTES:
        failures.append(f"resident memory grew by {grown} KiB")
    for outcome, count in outcomes.items():
        print(f"{count} {outcome}")
    for failure in failures[:20]:
        print(f"FAILED {failure}")
    return 0


def run_task(task: tuple[str, bool, str, int, int], heap: bool) -> tuple[Counter[str], list[str]]:
    """One child process; a signal or a hang is a failure."""
    codec, with_ids, mode, first, end = task
    command = [sys.executable, __file__, "--child", "--codec", codec, "--mode", mode]
    command += [
        "--first",
        str(first),
        "--end",
        str(end),
        *(["--ids"] if with_ids else []),
        *(["--heap"] if heap else []),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_FOR_A_TASK)
    except subprocess.TimeoutExpired:
        return Counter(), [f"{first}..{end}: hangs"]
    outcomes: Counter[str] = Counter()
    failures = []
    for line in done.stdout.splitlines():
        head, _, rest = line.partition(" ")
        if head == "FAILED":
            failures.append(rest)
        else:
            outcomes[rest] += int(head)
    if done.returncode:
        failures.append(f"{first}..{end}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return outcomes, failures


def run_parent(arguments: argparse.Namespace) -> int:
    """Every codec, with and without ids, in every mode; one line for each."""
    failed = False
    total = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        for codec in CODECS:
            for with_ids in (False, True):
                sample = make_sample(Path(folder), codec, with_ids)
                for mode in MODES[-1:] if arguments.repaired_only else MODES:
                    started = time.monotonic()
                    # The edits asked for are shared out over the eight segments.
                    count = damage_count(sample, mode, -(-arguments.edits // (2 * len(CODECS))))
                    step = max(1, -(-count // (4 * arguments.jobs)))
                    tasks = [
                        (codec, with_ids, mode, first, min(first + step, count)) for first in range(0, count, step)
                    ]
                    results = list(pool.map(run_task, tasks, [arguments.heap] * len(tasks)))
                    outcomes = sum((outcome for outcome, _ in results), Counter[str]())
                    failures = [failure for _, some in results for failure in some]
                    total += count
                    failed |= bool(failures) or outcomes.total() != count
                    said = ", ".join(f"{times} {outcome}" for outcome, times in sorted(outcomes.items()))
                    ids = "ids" if with_ids else "no ids"
                    seconds = time.monotonic() - started
                    print(
                        f"{codec} {ids} {len(sample.data)} bytes, {mode}: {count} files in {seconds:.0f} s: "
                        f"{said}; {len(failures)} failures",
                        flush=True,
                    )
                    for failure in failures[:20]:
                        print(f"    {failure}", flush=True)
    print(f"{total} damaged files: {'FAILED' if failed else 'all refused or answered as before'}")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=100_000, help="random edits in all, of each of the two kinds")
    parser.add_argument("--jobs", type=int, default=2, help="child processes at a time")
    parser.add_argument("--repaired-only", action="store_true", help="only edits under repaired checksums")
    parser.add_argument("--heap", action="store_true", help="read files into memory instead of mapping them")
    for name in ("--child", "--ids"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--codec", help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    for name in ("--first", "--end"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return run_child(arguments) if arguments.child else run_parent(arguments)


if __name__ == "__main__":
    sys.exit(main())
