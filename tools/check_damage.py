"""Damages small files in every way and checks that no answer changes without an error.

    python tools/check_damage.py [--edits 100000] [--most 100000] [--jobs 2] [--match REGEX] [--repaired-only] [--heap]

The files are segments, a file of names, a record of names in the log, and each file of a store with ids of each type.
Every flipped bit and every byte set to 0x00 and 0xFF, every truncation length, other stores' files in their place, and
random edits (bytes, sectors zeroed, pages swapped, runs repeated, tails cut): each use must raise CorruptStore or
answer as before. Then random edits under repaired checksums: answers may differ, nothing else may happen. A crash, a
hang, another exception or too much memory is a failure, printed with what replays it; the files are used in child
processes. --most: of more damages than that to one file, in one mode, so many, evenly; a twentieth of it for the files
of a store, where each takes longer. --match: only the kinds of files whose names match.
--heap reads files into memory instead of mapping them, so that a sanitizer sees the first byte beyond their end.
Exit status 1 if anything failed.
"""

import argparse
import faulthandler
import mmap
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from arguments import parse_count, parse_pattern, parse_whole

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from damage import MEMORY_BYTES, MEMORY_FACTOR, MODES, Sample, check_range
from damage_named import FILES, STORES, samples_of

SECONDS_FOR_A_TASK = 900
# --most over that of the files of stores.
STORE_SHARE = 20


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
        sample = samples_of(arguments.kind, Path(folder))[arguments.index]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        numbers = range(arguments.first, arguments.end, arguments.step)
        outcomes, failures = check_range(sample, arguments.mode, numbers, Path(folder))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if not arguments.heap and grown << 10 > MEMORY_FACTOR * len(sample.data) + 4 * MEMORY_BYTES:
        failures.append(f"resident memory grew by {grown} KiB")
    for outcome, count in outcomes.items():
        print(f"{count} {outcome}")
    for failure in failures[:20]:
        print(f"FAILED {failure}")
    return 0


def run_task(task: tuple[str, int, str, range], heap: bool) -> tuple[Counter[str], list[str]]:
    """One child process; a signal or a hang is a failure."""
    kind, index, mode, numbers = task
    told = {"kind": kind, "index": index, "mode": mode, "first": numbers.start, "end": numbers.stop}
    told["step"] = numbers.step
    command = [sys.executable, __file__, "--child", *(part for name in told for part in (f"--{name}", str(told[name])))]
    command += ["--heap"] * heap
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_FOR_A_TASK)
    except subprocess.TimeoutExpired:
        return Counter(), [f"{numbers.start}..{numbers.stop}: hangs"]
    outcomes: Counter[str] = Counter()
    failures = []
    for line in done.stdout.splitlines():
        head, _, rest = line.partition(" ")
        if head == "FAILED":
            failures.append(rest)
        else:
            outcomes[rest] += int(head)
    if done.returncode:
        failures.append(f"{numbers.start}..{numbers.stop}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return outcomes, failures


def numbers_of(sample: Sample, mode: str, arguments: argparse.Namespace, *, of_store: bool) -> range:
    """Which damaged files of a mode are used."""
    # The edits asked for are shared out over the eight segments.
    edits = -(-arguments.edits // (STORE_SHARE * 8 if of_store else 8))
    count = sample.count(mode, edits)
    most = max(1, arguments.most // STORE_SHARE if of_store else arguments.most)
    return range(0, count, -(-count // most) or 1)


def parted(numbers: range, jobs: int) -> list[range]:
    """The same numbers, for several children."""
    share = max(1, -(-len(numbers) // (4 * jobs)))
    return [numbers[start : start + share] for start in range(0, len(numbers), share)]


def run_parent(arguments: argparse.Namespace) -> int:
    """Every kind of file in every mode; one line for each."""
    failed = False
    total = 0
    kinds = [kind for kind in (*FILES, *STORES) if re.search(arguments.match, kind)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        for kind in kinds:
            for index, sample in enumerate(samples_of(kind, Path(folder))):
                modes = [mode for mode in MODES if mode != "repaired" or kind not in STORES]
                for mode in [mode for mode in modes if mode == "repaired" or not arguments.repaired_only]:
                    started = time.monotonic()
                    numbers = numbers_of(sample, mode, arguments, of_store=kind in STORES)
                    tasks = [(kind, index, mode, part) for part in parted(numbers, arguments.jobs)]
                    results = list(pool.map(run_task, tasks, [arguments.heap] * len(tasks)))
                    outcomes = sum((outcome for outcome, _ in results), Counter[str]())
                    failures = [failure for _, some in results for failure in some]
                    total += len(numbers)
                    failed |= bool(failures) or outcomes.total() != len(numbers)
                    said = ", ".join(f"{times} {outcome}" for outcome, times in sorted(outcomes.items()))
                    seconds = time.monotonic() - started
                    print(
                        f"{kind}, {sample.name}, {len(sample.data)} bytes, {mode}: {len(numbers)} files in "
                        f"{seconds:.0f} s: {said}; {len(failures)} failures",
                        flush=True,
                    )
                    for failure in failures[:20]:
                        print(f"    {failure}", flush=True)
    print(f"{total} damaged files: {'FAILED' if failed else 'all refused or answered as before'}")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--edits", type=parse_count, default=100_000, help="random edits in all, of each of the two kinds"
    )
    parser.add_argument("--most", type=parse_count, default=100_000, help="damages to one file in one mode")
    parser.add_argument(
        "--match",
        type=parse_pattern,
        default="",
        help="only the kinds of files whose names match this regular expression",
    )
    parser.add_argument("--jobs", type=parse_count, default=2, help="child processes at a time")
    parser.add_argument("--repaired-only", action="store_true", help="only edits under repaired checksums")
    parser.add_argument("--heap", action="store_true", help="read files into memory instead of mapping them")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    for name in ("--kind", "--mode"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--index", "--first", "--end", "--step"):
        parser.add_argument(name, type=parse_whole, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return run_child(arguments) if arguments.child else run_parent(arguments)


if __name__ == "__main__":
    sys.exit(main())
