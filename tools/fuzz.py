"""Fuzzes the compiled core's reading of segment files, under the address and undefined-behaviour sanitizers (gcc).

    python tools/fuzz.py [--inputs 1e6] [--seconds 3600] [--jobs 2] [--seed 0] [--findings FOLDER] [--plant NAME]

An input stands for a segment file whose records are within what format.py lets pass and whose checksums hold; its
directories, fences, blocks and ids are hostile. Every input is decoded, probed, joined and asked for ids; what comes to
a new branch is kept and mutated further (tools/fuzz/driver.c), from small segments of every codec on. An input that
the sanitizers object to, that takes 20 seconds, or under which a kernel breaks a promise (tools/fuzz/harness.c), is
kept in --findings, and how to run it again is printed. Exit status 1 if there was one.
--plant takes a check out of a copy of the kernels first, to see the fuzzer find out: exit status 0 if it does.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import kernels
import numpy as np
from arguments import parse_count, parse_whole
from helpers import CODECS, distinct, one_prefix, queries_near, uniform, write_segment

from fpstore.format import BITS_STEP, MIN_BLOCK_BYTES, MIN_KEY_BITS
from fpstore.plans import families as plans
from fpstore.segment.reader import Segment
from fpstore.types import Keys

ROOT = Path(__file__).parent.parent
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-sanitize=null,object-size",  # the address sanitizer sees these too, with fewer branches
]
FLAGS = ["-g", "-O1", "-no-pie", *kernels.FLAGS]
COVERAGE = ["-fsanitize-coverage=trace-pc"]
# What of the kernels it runs.
PARTS = {"platform", "crc32c", "permute", "source", "view", "decode", "match", "search", "several", "ids", "pairs"}
PLAN = plans.flips(2, (1, 1), 3)  # its masks are the first two of image.h
NARROW = plans.flips(2, (1, 1), 3, 32)  # and those of this one come at FIRST_NARROW
FIRST_NARROW = 4
QUERIES = 3
# A check to take out: in which file, what it says, and what it says without. Each lets a hostile file be read, or the
# stack be written, out of bounds.
PLANTS = {
    "block-outside-payload": ("view.h", "to > table->payload_bits - base ||", ""),
    "fence-outside-payload": ("view.c", "start > table->payload_bits || bits > table->payload_bits - start", "0"),
    "group-outside-payload": ("decode.c", "ends[GROUP_SLOTS - 1] > table->payload_bits - base", "0"),
    "block-of-any-keys": ("decode_body.h", "if (UNLIKELY(stored == most)) return BAD_BLOCK;", ""),
    "block-of-any-bytes": ("view.c", "|| bits > 8 * table->block_bytes", ""),
    "ids-outside-values": ("ids.c", "*count > ids->id_count - *first", "0"),
    "walk-outside-output": ("ids.c", "room - step->filled > left && ", ""),
}


def seed_input(segment: Segment, queries: Keys) -> bytes:
    """The input of tools/fuzz/image.h that stands for this segment."""
    record = segment.record
    head = np.zeros(1, dtype="<u1,<u1,<u1,<u1,<u2,<u2,<u8,<u2,<u1,<u1,<u1,<u2,(3,)<u8")
    tables = segment.tables
    bits = (record.key_bits - MIN_KEY_BITS) // BITS_STEP
    shape = len(tables) - 1, tables[0].codec, record.id_kind, record.id_width
    head[0] = (
        *shape,
        record.key_count,
        record.id_count,
        record.id_base,
        0,
        PLAN.max_distance,
        3,
        bits,
        tables[0].block_bytes and tables[0].block_bytes - MIN_BLOCK_BYTES + 1,
        queries[:QUERIES],
    )
    parts = [head.tobytes()]
    for index, table in enumerate(tables):
        first = 0 if table.key_bits == PLAN.bits else FIRST_NARROW
        small = bytes([first + index, table.slot_bits, table.rice_bits, table.flips, table.fence_count])
        parts.append(small + table.payload_bits.to_bytes(4, "little") + bytes(table.code_lengths))
    regions = {"payload", "directory", "fences", "ranks", "id groups", "group samples", "id values"}
    parts += [segment.read(region.offset, region.bytes) for region in segment.regions() if region.name in regions]
    return b"".join(parts)


def write_seeds(folder: Path) -> list[Path]:
    """An input for each codec and kind of ids, with and without a large slot; for each codec one of narrow keys, and of
    both widths one in blocks.
    """
    rng = np.random.default_rng(5)
    paths = []
    kinds = ("none", "one", "many")
    cases = [(PLAN, codec, kind, crowd) for codec in CODECS for kind in kinds for crowd in (0, 140)]
    cases += [(NARROW, codec, "many", 140) for codec in CODECS]
    cases += [(replace(plan, block_bytes=200), codec, "many", 140) for plan in (PLAN, NARROW) for codec in CODECS]
    for plan, codec, kind, crowd in cases:
        stored = distinct(np.concatenate([uniform(40, rng), one_prefix(crowd, rng)]) >> np.uint64(64 - plan.bits))
        documents = np.concatenate([stored, stored[::5]]) if kind == "many" else stored
        ids = None if kind == "none" else (documents, np.arange(len(documents), dtype=np.uint64))
        name = folder / f"{plan.bits}-{plan.layout}-{codec}-{kind}-{crowd}"
        path = write_segment(name.with_suffix(".fpseg"), stored, plan, codec=codec, slot_bits=4, pairs=ids)
        segment = Segment(path)
        queries = queries_near(stored, plan.max_distance, 2 * QUERIES, rng, plan.bits)
        name.write_bytes(seed_input(segment, queries))
        segment.close()
        paths.append(name)
    return paths


def build(folder: Path, plant: str | None) -> Path:
    """The fuzzer, compiled in the folder; the driver itself without sanitizers and coverage."""
    native = shutil.copytree(kernels.NATIVE, folder / "native")
    if plant:
        name, check, without = PLANTS[plant]
        source = (native / name).read_text()
        if source.count(check) != 1:
            raise SystemExit(f"{name}: expected once what --plant {plant} takes out: {check}")
        (native / name).write_text(source.replace(check, without))
    own = ROOT / "tools" / "fuzz"
    jobs = {own / "driver.c": [], own / "harness.c": [*SANITIZERS, *COVERAGE, f"-I{native}"]}
    for path, flags in kernels.sources(kernels.machine_of(["gcc"]), native).items():
        part = path.stem.partition("_")[0]
        # The loops of a checksum, thousands of turns for each input, have nothing to find.
        covered = [] if part == "crc32c" else COVERAGE
        if part in PARTS:
            jobs[path] = [*SANITIZERS, *covered, *flags, "-include", str(own / "kernels.h")]

    def compiled(job: tuple[Path, list[str]]) -> Path:
        source, flags = job
        made = folder / f"{source.stem}.o"
        subprocess.run(["gcc", *FLAGS, *flags, "-c", source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, jobs.items()))
    subprocess.run(["gcc", *FLAGS, *SANITIZERS, *objects, "-o", folder / "fuzz"], check=True)
    return folder / "fuzz"


def run_jobs(fuzzer: Path, seeds: list[Path], arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Run the jobs, each with its own corpus; what was found."""

    def run(job: int) -> subprocess.CompletedProcess[str]:
        finding = folder / f"finding-{job}"
        counts = [-(-arguments.inputs // arguments.jobs), arguments.seconds, arguments.seed * arguments.jobs + job + 1]
        return subprocess.run([fuzzer, *map(str, counts), finding, *seeds], capture_output=True, text=True, check=False)

    findings = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for job, done in enumerate(pool.map(run, range(arguments.jobs))):
            print(f"job {job}: {done.stdout.strip() or 'ended early'}", flush=True)
            if done.returncode:
                findings.append(f"job {job}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=parse_count, default=10**6, help="mutated inputs in all")
    parser.add_argument("--seconds", type=parse_count, default=3600, help="how long at most")
    parser.add_argument("--jobs", type=parse_count, default=2, help="processes at a time")
    parser.add_argument("--seed", type=parse_whole, default=0, help="which random numbers")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where to keep what was found")
    parser.add_argument("--plant", choices=PLANTS, help="take this check out first")
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        fuzzer = build(folder, arguments.plant)
        findings = run_jobs(fuzzer, write_seeds(folder), arguments, folder)
        for finding in findings:
            print(finding)
        if findings and not arguments.plant:
            arguments.findings.mkdir(exist_ok=True)
            for path in (fuzzer, *folder.glob("finding-*")):
                shutil.copy2(path, arguments.findings)
            print(f"to run one again: cd {arguments.findings} && ./fuzz 0 0 0 again finding-0")
    print(f"{len(findings)} findings in {time.monotonic() - started:.0f} s")
    return int(bool(findings) != bool(arguments.plant))


if __name__ == "__main__":
    sys.exit(main())
