"""Measures MinHash signatures: how fast they are made, and how far their estimates are from the Jaccard similarity.

    python tools/bench_minhash.py [FILE|FOLDER]... [--short FILE|FOLDER] [--n 1e8] [--rounds 5] [--small] [--json]

First the ways there are of making one, of sets of hashes: the permutations that a recipe can have, and what was not
taken (tools/minhash/candidates.c, which gcc compiles for this machine): plain, a hash function for each value;
circulant, C-MinHash; densified, one permutation with optimal densification. Time, and the mean square of the error as a
share of J (1 - J) / values, which is that of the theory. Then texts, those of the inputs as in bench_text.py; --short:
others, of some twenty words. The packages datasketch and rensa, which get a hundredth and a tenth of the text, are
measured where they are installed. Needs gcc. Exit status 1 where an estimate errs more than is said.
"""

import ctypes
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_there
from bench_text import first_of, load, rate, words_of
from benchlib import Results, interleaved, median_cpu, new_parser, parse_arguments

from fpstore._native import INSTRUCTION_SET
from fpstore.minhash import sign, similarity
from fpstore.text import Recipe
from fpstore.text._signing import sign_hashes
from fpstore.text.permutations import HASH_OF_SCHEME, permutations_of

REAL_BYTES = 10**8  # what the bars speak of
SMALL_BYTES = 10**5
VALUES = 128
SIZES = (5, 20, 60, 130, 260, 1000, 4000)
SIMILARITIES = (0.2, 0.5, 0.8, 0.95)
HASHES_TIMED = 400_000
PAIRS = 4000  # of sets, for the error: fewer of large ones
HASHES_OF_PAIRS = 4_000_000
CANDIDATES = ("plain", "circulant", "densified")
SCHEMES = ("fpstore", "datasketch-affine32", "rensa")
WORDS_IN_A_ROW = (5, 3)
MIN_RATE = {"wide": 400, "fast": 250}
MIN_SHORT = 120

Sets = tuple[np.ndarray[Any, np.dtype[np.uint64]], np.ndarray[Any, np.dtype[np.uint64]]]  # hashes, ends
Way = Callable[[Sets], np.ndarray[Any, Any]]


def candidate(library: Any, way: int) -> Way:
    def signatures(sets: Sets) -> np.ndarray[Any, Any]:
        hashes, ends = sets
        found = np.empty((len(ends), VALUES), dtype=np.uint32)
        places = [ctypes.c_void_p(array.ctypes.data) for array in (hashes, ends)]
        count = ctypes.c_size_t(len(ends))
        library.sign_sets(way, *places, count, ctypes.c_uint32(VALUES), ctypes.c_void_p(found.ctypes.data))
        return found

    return signatures


def ways(folder: Path) -> dict[str, Way]:
    source, made = Path(__file__).parent / "minhash" / "candidates.c", folder / "candidates.so"
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", made], check=True)
    library = ctypes.CDLL(str(made))
    library.prepare(ctypes.c_uint64(7))
    found: dict[str, Way] = {}
    for scheme in SCHEMES:
        found[scheme] = own_way(scheme)
    return found | {name: candidate(library, number) for number, name in enumerate(CANDIDATES)}


def own_way(scheme: str) -> Way:
    permutations = permutations_of(scheme, VALUES, 7)

    def signatures(sets: Sets) -> np.ndarray[Any, Any]:
        hashes, ends = sets
        return sign_hashes(hashes, ends, permutations)

    return signatures


def by_scheme(recipe: Recipe, scheme: str) -> Recipe:
    return replace(recipe, permutations=scheme, hash=HASH_OF_SCHEME.get(scheme, recipe.hash))


def sets_of(hashes: np.ndarray[Any, Any]) -> Sets:
    """Rows as sets."""
    rows, size = hashes.shape
    return np.ascontiguousarray(hashes).ravel(), np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(size)


def bench_time(all_ways: dict[str, Way], arguments: Namespace, results: Results) -> None:
    source = np.random.default_rng(1)
    rows = []
    for size in SIZES:
        count = max(1, (HASHES_TIMED // 50 if arguments.small else HASHES_TIMED) // size)
        sets = sets_of(source.integers(0, 1 << 64, size=(count, size), dtype=np.uint64))
        timings = interleaved([partial(way, sets) for way in all_ways.values()], arguments.rounds)
        times = {name: median_cpu(own) / count * 1e9 for name, own in zip(all_ways, timings, strict=True)}
        rows.append({"hashes of a set": size} | times)
    results.table(f"nanoseconds of a processor for a signature of {VALUES} values", rows)


def bench_error(all_ways: dict[str, Way], small: bool, results: Results) -> None:
    source = np.random.default_rng(2)
    rows = []
    for size in SIZES:
        for wanted in SIMILARITIES:
            union = round(2 * size / (1 + wanted))
            shared = round(union * wanted)
            alone = (union - shared) // 2
            if not shared or not alone:
                continue
            jaccard = shared / (shared + 2 * alone)
            count = min(PAIRS, HASHES_OF_PAIRS // size) // (20 if small else 1)
            hashes = source.integers(0, 1 << 64, size=(count, shared + 2 * alone), dtype=np.uint64)
            one, other = hashes[:, : shared + alone], np.delete(hashes, np.s_[shared : shared + alone], axis=1)
            row: dict[str, Any] = {"hashes of a set": shared + alone, "Jaccard": jaccard}
            for name, way in all_ways.items():
                errors = np.asarray(similarity(way(sets_of(one)), way(sets_of(other)))) - jaccard
                row[name] = float((errors**2).mean() * VALUES / (jaccard * (1 - jaccard)))
                # Four standard deviations of the mean of so many squares.
                bound = 1 + 4 * (2 / count) ** 0.5
                if name in SCHEMES:
                    results.expect(row[name] < bound, f"{name}, sets of {size}: errs {row[name]:.2f} of the theory's")
            rows.append(row | {"pairs": count})
    results.table(f"the mean square of the error, as a share of J (1 - J) / {VALUES}", rows)


def rensa_call(documents: Sequence[bytes], shingle: int) -> tuple[str, Callable[[], Any], int] | None:
    try:
        from rensa import RMinHash
    except ImportError:
        return None
    some = first_of(list(documents), sum(map(len, documents)) // 10)
    make = partial(RMinHash.from_token_sets, num_perm=VALUES, seed=42)
    return "package rensa, from text", lambda: make([rows_of(each, shingle) for each in some]), sum(map(len, some))


def datasketch_call(documents: Sequence[bytes], shingle: int) -> tuple[str, Callable[[], Any], int] | None:
    try:
        from datasketch import MinHash
    except ImportError:
        return None
    some = first_of(list(documents), sum(map(len, documents)) // 100)
    texts = partial(map, partial(rows_of, shingle=shingle))
    make = partial(MinHash.bulk, num_perm=VALUES)
    return (
        "package datasketch",
        lambda: make([[row.encode() for row in rows] for rows in texts(some)]),
        sum(map(len, some)),
    )


def rows_of(document: bytes, shingle: int) -> list[str]:
    words = words_of(document)
    return [" ".join(words[first : first + shingle]) for first in range(max(len(words) - shingle, 0) + 1)]


def bench_texts(what: str, documents: list[bytes], least: float, arguments: Namespace, results: Results) -> None:
    size = sum(map(len, documents))
    for shingle in WORDS_IN_A_ROW:
        recipe = partial(Recipe, "words", shingle=shingle, weights="presence")
        calls: list[tuple[str, Callable[[], Any], int]] = [
            (scheme, partial(sign, documents, by_scheme(recipe(sketch="minhash"), scheme), threads=1), size)
            for scheme in SCHEMES
        ]
        one_bit = recipe(sketch="minhash-1bit")
        calls.append(("minhash-1bit", partial(one_bit.fingerprint_many, documents, threads=1), size))
        calls += [call for call in (rensa_call(documents, shingle), datasketch_call(documents, shingle)) if call]
        timings = interleaved([call for _, call, _ in calls], arguments.rounds)
        rates = [rate(own, read) for (_, _, read), own in zip(calls, timings, strict=True)]
        rows = [
            {"": name, "MB/s of a processor": found, "fpstore / this": rates[0] / found}
            for (name, _, _), found in zip(calls, rates, strict=True)
        ]
        told = f"{what}, {shingle} words in a row: {len(documents):,} documents of {size / 1e6:,.1f} MB"
        results.table(told, rows)
        results.bar(f"{what}, {shingle} words, {INSTRUCTION_SET}", rates[0], at_least=least, unit="MB/s")


def main() -> int:
    parser = new_parser(__doc__, rounds=5, counted="bytes of text", real=REAL_BYTES, small=SMALL_BYTES)
    parser.add_argument(
        "paths", type=parse_there, nargs="*", metavar="FILE|FOLDER", help="default: Python's standard library"
    )
    parser.add_argument("--short", type=parse_there, metavar="FILE|FOLDER", help="short texts")
    arguments = parse_arguments(parser, real=REAL_BYTES, small=SMALL_BYTES)
    results = Results("bench_minhash", arguments, only_keys=REAL_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        all_ways = ways(Path(folder))
        bench_time(all_ways, arguments, results)
        bench_error(all_ways, arguments.small, results)
    bench_texts("texts", load(arguments.paths, arguments.n), MIN_RATE.get(INSTRUCTION_SET, 0), arguments, results)
    if arguments.short:
        bench_texts("short texts", load([arguments.short], arguments.n), MIN_SHORT, arguments, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
