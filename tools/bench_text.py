"""Measures the way from text to fingerprint, in MB of UTF-8 per second of a processor, beside other packages.

    python tools/bench_text.py [FILE|FOLDER]... [--chinese FILE|FOLDER] [--n 1e8] [--rounds 5] [--small] [--json]

The documents are those of the inputs, in any format that fpstore reads as text; without one, the modules and notes of
Python's standard library. They are taken as they are, again and again up to --n bytes. The bars are for words,
shingles of four, and the recipes that are 1-bit MinHash, of which text-1 has one for the texts of --chinese too. A
sample of the fingerprints is compared with the plainest Python. The packages simhash, which gets a sixteenth of the
text, and gaoya, which puts what it computes into an index, are measured where they are installed.
"""

# mypy: disable-error-code="arg-type"

import re
import sys
import sysconfig
import unicodedata
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import parse_there
from benchlib import Results, Timing, best_wall, interleaved, median_cpu, new_parser, parse_arguments

from fpstore import inputs
from fpstore.text import recipes
from fpstore.text._simhash import measure
from fpstore.text._sums import xxh3

REAL_BYTES = 10**8  # what the bars speak of
SMALL_BYTES = 10**6
SAMPLE_BYTES = 10**6
SLOW_SHARE = 16

MIN_WORDS = 188  # twice what gaoya does
MIN_SHINGLES = 200  # three times
MIN_OF_TWO_THREADS = 1.8
RECIPES = ("text-1", "multilingual", "words-4", "simhash-1", "web-en")
MIN_OF_RECIPES = {"text-1": 550, "multilingual": 250}
MIN_CHINESE = {"text-1": 300}

Measured = tuple[str, Callable[[], Any], int]  # what, the call, how many bytes it reads


def library() -> Iterator[str]:
    """The sources and notes of Python's standard library."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*")):
        if path.suffix in (".py", ".txt") and "site-packages" not in path.parts and path.is_file():
            yield path.read_text(errors="replace")


def load(paths: Sequence[str], size: int) -> list[bytes]:
    """Documents of at least so many bytes, repeated if they are fewer; those without a byte are left out."""
    source = (text for _, text in inputs.documents(paths)) if paths else library()
    documents: list[bytes] = []
    total = 0
    for text in source:
        if total >= size:
            break
        if text:
            documents.append(text.encode())
            total += len(documents[-1])
    if not documents:
        raise SystemExit("bench_text: the inputs hold no text")
    distinct = len(documents)
    while total < size:
        documents.append(documents[-distinct])
        total += len(documents[-1])
    return documents


def first_of(documents: list[bytes], size: int) -> list[bytes]:
    """The first documents, of so many bytes together and no more, but one at least."""
    sizes = np.cumsum([len(document) for document in documents])
    return documents[: max(1, int(np.searchsorted(sizes, size, side="right")))]


def words_of(document: bytes) -> list[str]:
    text = unicodedata.normalize("NFKC", document.decode("utf-8", "replace")).casefold()
    return re.findall(r"\w+", text)


def shingles_of(words: list[str], shingle: int) -> list[str]:
    return [" ".join(words[i : i + shingle]) for i in range(max(len(words) - shingle, 0) + 1)] if words else []


def oracle(document: bytes, shingle: int) -> int:
    """The fingerprint, in the plainest Python; the hash is tested elsewhere."""
    hashes = np.array([xxh3(each.encode()) for each in shingles_of(words_of(document), shingle)], dtype=np.uint64)
    ones = [int((hashes >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if 2 * ones[bit] > len(hashes))


def check(documents: list[bytes], shingle: int, results: Results) -> None:
    sample = first_of(documents, SAMPLE_BYTES)
    found = measure(sample, shingle=shingle)[0].tolist()
    results.expect(found == [oracle(document, shingle) for document in sample], f"shingles of {shingle}: other values")
    one, two = [measure(documents, shingle=shingle, threads=threads) for threads in (1, 2)]
    results.expect(
        all(np.array_equal(a, b) for a, b in zip(one, two, strict=True)),
        f"shingles of {shingle}: two threads give other values",
    )


def simhash_call(documents: list[bytes], shingle: int) -> Measured | None:
    try:
        from simhash import Simhash
    except ImportError:
        return None
    some = first_of(documents, sum(map(len, documents)) // SLOW_SHARE)
    return (
        "simhash (PyPI)",
        lambda: [Simhash(shingles_of(words_of(each), shingle)) for each in some],
        sum(map(len, some)),
    )


def gaoya_call(documents: list[bytes], shingle: int) -> Measured | None:
    try:
        from gaoya.simhash import SimHashStringIndex
    except ImportError:
        return None
    texts = [document.decode("utf-8", "replace") for document in documents]

    def insert() -> None:
        index = SimHashStringIndex(lowercase=True, ngram_range=(shingle, shingle))
        for number, text in enumerate(texts):
            index.insert_document(number, text)

    return "gaoya", insert, sum(map(len, documents))


def rate(timings: Sequence[Timing], size: int) -> float:
    return size / median_cpu(timings) / 1e6


def bench(shingle: int, documents: list[bytes], arguments: Namespace, results: Results) -> None:
    name = "words" if shingle == 1 else f"{shingle}-word shingles"
    size = sum(map(len, documents))
    check(documents, shingle, results)
    texts = [document.decode("utf-8", "replace") for document in documents]
    calls: list[Measured] = [
        ("fpstore", lambda: measure(documents, shingle=shingle), size),
        ("fpstore, two threads", lambda: measure(documents, shingle=shingle, threads=2), size),
        ("fpstore, from str", lambda: measure(texts, shingle=shingle), size),
        ("fpstore, weights log", lambda: measure(documents, shingle=shingle, weights="log"), size),
    ]
    calls += [peer for peer in (gaoya_call(documents, shingle), simhash_call(documents, shingle)) if peer]
    timings = interleaved([call for _, call, _ in calls], arguments.rounds)
    rows = [
        {
            "": what,
            "MB/s of a processor": rate(own, read),
            "best MB/s of the clock": read / best_wall(own) / 1e6,
            "fpstore / this": median(
                (read / its.cpu) ** -1 * (size / first.cpu) for its, first in zip(own, timings[0], strict=True)
            ),
        }
        for (what, _, read), own in zip(calls, timings, strict=True)
    ]
    results.table(f"{name}: {len(documents):,} documents of {size / 1e6:,.1f} MB", rows)
    least = MIN_WORDS if shingle == 1 else MIN_SHINGLES
    results.bar(f"{name}, one thread", rate(timings[0], size), at_least=least, unit="MB/s")
    results.bar(f"{name}, two threads", best_wall(timings[0]) / best_wall(timings[1]), at_least=MIN_OF_TWO_THREADS)


def bench_recipes(what: str, documents: list[bytes], least: dict[str, int], rounds: int, results: Results) -> None:
    """The presets that the core makes alone, in turns."""
    size = sum(map(len, documents))
    calls = [partial(recipes()[name].fingerprint_many, documents) for name in RECIPES]
    timings = interleaved(calls, rounds)
    rows = [
        {
            "": name,
            "MB/s of a processor": rate(own, size),
            "best MB/s of the clock": size / best_wall(own) / 1e6,
            "text-1 / this": median(its.cpu / first.cpu for its, first in zip(own, timings[0], strict=True)),
        }
        for name, own in zip(RECIPES, timings, strict=True)
    ]
    results.table(f"recipes, {what}: {len(documents):,} documents of {size / 1e6:,.1f} MB", rows)
    for name, at_least in least.items():
        found = rate(timings[RECIPES.index(name)], size)
        results.bar(f"recipe {name}, {what}, one thread", found, at_least=at_least, unit="MB/s")


def main() -> int:
    parser = new_parser(__doc__, rounds=5, counted="bytes of text", real=REAL_BYTES, small=SMALL_BYTES)
    parser.add_argument(
        "paths", type=parse_there, nargs="*", metavar="FILE|FOLDER", help="default: Python's standard library"
    )
    parser.add_argument(
        "--chinese", type=parse_there, metavar="FILE|FOLDER", help="texts without spaces, for the recipes"
    )
    arguments = parse_arguments(parser, real=REAL_BYTES, small=SMALL_BYTES)
    results = Results("bench_text", arguments, only_keys=REAL_BYTES)
    documents = load(arguments.paths, arguments.n)
    for shingle in (1, 4):
        bench(shingle, documents, arguments, results)
    bench_recipes("these texts", documents, MIN_OF_RECIPES, arguments.rounds, results)
    if arguments.chinese:
        chinese = load([arguments.chinese], arguments.n)
        bench_recipes("Chinese", chinese, MIN_CHINESE, arguments.rounds, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
