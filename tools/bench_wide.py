"""Measures stores of wide fingerprints: bytes a fingerprint, and the time of a probe, from the file, on one core.

    python tools/bench_wide.py [--n 1e6] [--bits 256] [-k 31] [--plan balanced] [--hashes FILE] [--small] [--json]

Uniform fingerprints, and skewed ones: of words that are real 64-bit hashes where --hashes names a file of them (a line
each, hexadecimal, up to a tab), else of runs of equal bits; 19 of 20 are copies of some others, with errors. A probe is
asked for a stored fingerprint with up to k errors, and by turns for one that is near none. Timed are the kernel and the
whole call of Store.probe, whose pages have been read and checked before, and the scan of all codes beside it. Some
answers are compared with those of the scan.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_count, parse_file, parse_plan, parse_whole
from benchlib import Results, new_parser, parse_arguments, scratch_folder

import fpstore
from fpstore.codes.reader import CodesSegment
from fpstore.plans.wide import predict_wide

# Of bits and k, by how many there are: the median microseconds of a probe, and the bytes of a fingerprint.
MICROSECONDS = {(256, 31): {10**6: 60.0, 10**7: 200.0}, (128, 9): {10**7: 8.0}}
BYTES = {(256, 31): 75.0}
QUERIES = 4000
SCANS = 5


def uniform(count: int, words: int, random: np.random.Generator) -> Any:
    """Fingerprints of random bits: uint64[count, words]."""
    return random.integers(0, 1 << 64, size=(count, words), dtype=np.uint64)


def skewed(count: int, words: int, random: np.random.Generator, hashes: Any) -> Any:
    """Fingerprints whose bits are not even, most of them near others."""
    fresh = max(1, count // 20)
    if hashes is None:
        bits = random.integers(0, 2, size=(fresh, words * 64), dtype=np.uint8)
        kept = random.random((fresh, words * 64)) < 0.7
        for place in range(1, words * 64):
            bits[:, place] = np.where(kept[:, place], bits[:, place - 1], bits[:, place])
        centers = np.packbits(bits, axis=1).view(">u8").astype(np.uint64)
    else:
        centers = hashes[random.integers(0, len(hashes), size=(fresh, words))]
    codes = centers[random.integers(0, fresh, count)]
    errors = random.integers(0, words * 16, count)
    for step in range(words * 16):
        own = np.flatnonzero(errors > step)
        bit = random.integers(0, words * 64, len(own))
        codes[own, bit // 64] ^= np.uint64(1) << (bit % 64).astype(np.uint64)
    return codes


def queries_of(codes: Any, distance: int, random: np.random.Generator, count: int = QUERIES) -> Any:
    """Near ones and far ones by turns: uint64[count, words]."""
    bits = codes.shape[1] * 64
    asked = codes[random.integers(0, len(codes), count)].copy()
    for number, query in enumerate(asked):
        errors = random.integers(0, distance + 1) if number % 2 else bits // 3
        for bit in random.choice(bits, errors, replace=False):
            query[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return asked


def seconds_of(call: Any, items: Any) -> Any:
    """Of each item how long the call took, sorted."""
    found = []
    for item in items:
        start = time.perf_counter()
        call(item)
        found.append(time.perf_counter() - start)
    return np.sort(found)


def measure(name: str, codes: Any, bits: int, distance: int, plan: str, folder: Path, results: Results) -> None:
    """Build a store and tell what it takes."""
    queries = queries_of(codes, distance, np.random.default_rng(2))
    start, cpu = time.perf_counter(), time.process_time()
    options: dict[str, Any] = {"bits": bits, "max_distance": distance, "plan": plan, "threads": 1, "force": True}
    with fpstore.build(folder / "bench.fpstore", codes, ids=None, **options) as store:
        built, cpu = time.perf_counter() - start, time.process_time() - cpu
        (segment,) = store._segments
        assert isinstance(segment, CodesSegment)
        size = segment.file_bytes / segment.key_count
        predicted = predict_wide(store.plan, segment.key_count).nanoseconds / 1e3
        store._warm()
        rows = [query[np.newaxis] for query in queries]
        scans = sum(segment.codes.search(row, distance)[3] for row in rows)
        kernel = seconds_of(lambda row: segment.codes.search(row, distance), rows)
        whole = seconds_of(store.probe, queries)
        scan = seconds_of(lambda row: segment.codes.search(row, distance, scan=True), rows[:SCANS])
        for row in rows[:SCANS]:
            one, other = (segment.codes.search(row, distance, scan=each)[:3] for each in (False, True))
            same = all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
            results.expect(same, f"{name}: the tables and a scan find the same")
        times = (("kernel", kernel), ("probe", whole))
        results.table(
            f"{name} {segment.key_count:,} of {bits} bits, k = {distance}: plan {store.plan.name}, {size:.1f} bytes "
            f"each, built in {built:.1f} s, {cpu:.1f} s of CPU; scan {1e3 * scan[0]:.2f} ms, {scans} queries by one",
            [
                {"us": what}
                | {f"p{share}": 1e6 * each[len(each) * share // 100] for share in (50, 90, 99)}
                | {"least": 1e6 * each[0], "predicted": predicted}
                for what, each in times
            ],
        )
        bar = MICROSECONDS.get((bits, distance), {}).get(len(codes))
        if bar is not None:
            results.bar(f"{name} {len(codes):,}: p50 of a probe", 1e6 * whole[len(whole) // 2], at_most=bar, unit="us")
        if (bits, distance) in BYTES:
            results.bar(f"{name} {len(codes):,}: bytes each", size, at_most=BYTES[bits, distance])


def main() -> int:
    """Run from the command line."""
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("--bits", type=parse_count, default=256)
    parser.add_argument("-k", type=parse_whole, default=31)
    parser.add_argument("--plan", type=parse_plan, default="balanced")
    parser.add_argument(
        "--hashes", type=parse_file, help="64-bit hashes, in hexadecimal, that skewed fingerprints consist of"
    )
    given = parse_arguments(parser)
    words, random, hashes = given.bits // 64, np.random.default_rng(1), None
    if given.hashes is not None:
        lines = given.hashes.read_text().split("\n")
        values = [line.partition("\t")[0] for line in lines if line]
        hashes = np.array([int(value, 16) for value in values if len(value) == 16], dtype=np.uint64)
    results = Results("bench_wide", given)
    with scratch_folder(given) as folder:
        for name, codes in (
            ("uniform", uniform(given.n, words, random)),
            ("skewed", skewed(given.n, words, random, hashes)),
        ):
            measure(name, codes, given.bits, given.k, given.plan, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
