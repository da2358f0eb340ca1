"""Measures stores of MinHash signatures: bytes a document, the time of a query, memory, and how fast documents come in.

    python tools/bench_minhash_store.py [--n 1e7] [--dir /dev/shm] [--memory 2GiB] [--filter-only] [--small] [--json]

Signatures are random values of 32 bits, 128 of them, 16 bands of 8; a tenth of the documents differ from the one
before them in a few values. Each kind of store is built in the folder and removed again: with signatures, with ids
that are any numbers, candidates alone, without ids. The first is asked, in a process of its own: for signatures of
stored documents of which an eighth of the values is changed, and for new ones. Last, documents are added to an empty
store in batches, durably, on one core. Before all that: what new documents cost in 1, 3 and 10 segments, each a store
of its own here, and what a blocked Bloom filter before each would (tools/minhash/filter.c, which gcc compiles). Exit
status 1 where a document is not found that shares a band.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchlib import (
    Results,
    interleaved,
    median_cpu,
    median_wall,
    new_parser,
    parse_arguments,
    resident_bytes,
    scratch_folder,
    timed,
)

from fpstore import minhash
from fpstore.arrays import parse_memory
from fpstore.types import Array

REAL, SMALL = 10**7, 10**4
VALUES, BANDS, ROWS = 128, 16, 8
DOCUMENTS_AT_ONCE = 1 << 16
QUERIES, BATCH_QUERIES, PIECES_ASKED = 2000, 20_000, 40
ADDED, ADDED_AT_ONCE = 500_000, 10_000
WITH_SIGNATURES, ALONE, WITHOUT_IDS, MORE_FOR_IDS = 115, 80, 40, 10
# Of the filter: bits for a key, and in how many words of a block it sets one.
FILTER_BITS = {8: 5, 12: 8}
SEGMENTS, FILTERED = (1, 3, 10), 100_000
SINGLE_US, BATCH_US, ADDED_A_SECOND, PROBING_BYTES = 30, 10, 100_000, 100 << 20


def part(index: int, count: int) -> Array:
    """Documents of that part of an endless stream of them."""
    rng = np.random.default_rng([17, index])
    made = rng.integers(0, 1 << 32, size=(count, VALUES), dtype=np.uint32)
    near = np.arange(9, count, 10)
    made[near] = made[near - 1]
    made[near[:, None], rng.integers(0, VALUES, size=(len(near), 8))] = 7
    return made


def parts(count: int) -> Iterator[Array]:
    for index, first in enumerate(range(0, count, DOCUMENTS_AT_ONCE)):
        yield part(index, min(DOCUMENTS_AT_ONCE, count - first))


def with_ids(count: int) -> Iterator[tuple[Array, Array]]:
    """The same with ids that are any numbers of 64 bits."""
    rng = np.random.default_rng(18)
    for own in parts(count):
        yield own, rng.integers(0, 1 << 64, len(own), dtype=np.uint64)


def queries_of(count: int, documents: int) -> tuple[Array, Array]:
    """Signatures, and of each a document that it shares a band with, -1 where none is known."""
    rng = np.random.default_rng(19)
    own = rng.integers(0, 1 << 32, size=(count, VALUES), dtype=np.uint32)
    pieces = -(-documents // DOCUMENTS_AT_ONCE)
    of = np.full(count, -1)
    for index in range(0, pieces, max(1, pieces // PIECES_ASKED)):
        made = part(index, min(DOCUMENTS_AT_ONCE, documents - index * DOCUMENTS_AT_ONCE))
        here = np.arange(2 * index, count, 2 * pieces)
        which = rng.integers(0, len(made), len(here))
        own[here] = made[which]
        own[here[:, None], rng.integers(0, VALUES, size=(len(here), VALUES // 8))] = 3
        cut = len(here), BANDS, ROWS
        shared = (own[here].reshape(cut) == made[which].reshape(cut)).all(axis=2).any(axis=1)
        of[here[shared]] = which[shared] + index * DOCUMENTS_AT_ONCE
    return own, of


def built(folder: Path, kind: str, documents: Any, arguments: Namespace, **settings: Any) -> dict[str, Any]:
    count = arguments.n
    timing = timed(
        lambda: minhash.build(folder / kind, documents, memory=arguments.memory, threads=1, **settings).close()
    )
    with minhash.open(folder / kind) as store:
        stats = store.stats()
    assert stats.minhash is not None
    return {
        "": kind,
        "bits of a key": stats.bits,
        "met by chance": stats.minhash["by_chance"],
        "bytes a document": (stats.segments_bytes + stats.sketches_bytes) / count,
        "documents/CPU-s": count / timing.cpu,
    }


def ask(path: Path, documents: int, rounds: int) -> tuple[list[dict[str, Any]], list[str], int]:
    """In a process of its own: what a query takes, what was wrong, and the most memory that is the process's alone."""
    wrong: list[str] = []
    own, of = queries_of(BATCH_QUERIES, documents)
    with minhash.open(path, warm=True) as store:
        before = resident_bytes("RssAnon")
        found = store.probe_many(own, threads=1)
        most = resident_bytes("RssAnon") - before
        assert found.id is not None
        hit = {*zip(found.query.tolist(), found.id.tolist(), strict=True)}
        known = np.flatnonzero(of >= 0).tolist()
        wrong += [f"document {of[index]} is not found" for index in known if (index, int(of[index])) not in hit]
        near, new = own[of >= 0][: QUERIES // 2], own[1:QUERIES:2]
        calls: list[tuple[str, Callable[[], Any], int]] = [
            ("one, near a stored document", lambda: [store.probe(each) for each in near], len(near)),
            ("one, new", lambda: [store.probe(each) for each in new], len(new)),
            ("one of 20,000, some of them near", lambda: store.probe_many(own, threads=1), len(own)),
        ]
        rows = []
        for (name, _, count), timings in zip(calls, interleaved([call for _, call, _ in calls], rounds), strict=True):
            times = median_cpu(timings) / count * 1e6, median_wall(timings) / count * 1e6
            rows.append({"a query": name, "us of a processor": times[0], "us of the clock": times[1]})
        return rows, wrong, max(most, resident_bytes("RssAnon") - before)


def bench_filter(folder: Path, small: bool, results: Results) -> None:
    made = folder / "filter.so"
    source = Path(__file__).parent / "minhash" / "filter.c"
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", made], check=True)
    library = ctypes.CDLL(str(made))
    new, _ = queries_of(BATCH_QUERIES, 1)
    documents = FILTERED // (10 if small else 1)
    rows = []
    for count in SEGMENTS:
        asked = 0.0
        filtered, false = dict.fromkeys(FILTER_BITS, 0.0), dict.fromkeys(FILTER_BITS, 0)
        for index in range(count):
            each = part(1000 + 100 * count + index, documents // count)
            with minhash.build(folder / "part", each, keep_signatures=False, bits=38) as store:
                store.probe_many(new, threads=1)
                asked += min(timed(lambda: store.probe_many(new, threads=1)).cpu for _ in range(3))
                keys = store._minhash.banding(38).keys(new).ravel()
                for bits, words in FILTER_BITS.items():
                    ask = filter_of(library, [*store._segments[0].keys(0)], bits, words, keys)
                    false[bits] += ask()
                    filtered[bits] += min(timed(ask).cpu for _ in range(3))
            shutil.rmtree(folder / "part")
        row = {"segments": count, "us a query": asked / len(new) * 1e6}
        for bits in FILTER_BITS:
            row[f"filter of {bits} bits, us"] = filtered[bits] / len(new) * 1e6
            row[f"{bits} bits: passed"] = false[bits] / (count * len(new) * BANDS)
        rows.append(row)
    results.table(f"{documents:,} documents; of new ones, a query of a batch, and a filter alone", rows)


def filter_of(library: Any, chunks: list[Array], bits: int, words: int, keys: Array) -> Callable[[], int]:
    """Asks a filter of these keys of a segment, so many bits for each, which of others may be there."""
    blocks = np.zeros(8 * (sum(map(len, chunks)) * bits // 512 + 1), dtype=np.uint64)

    def call(name: str, own: Array) -> int:
        places = [ctypes.c_void_p(array.ctypes.data) for array in (blocks, own)]
        size = ctypes.c_uint64(len(blocks) // 8)
        return int(getattr(library, name)(places[0], size, places[1], ctypes.c_size_t(len(own)), words))

    library.filter_ask.restype = ctypes.c_size_t
    for chunk in chunks:
        call("filter_fill", chunk)
    return lambda: call("filter_ask", keys)


def add(path: Path, count: int) -> tuple[float, float]:
    """In a process of its own, on one core: documents a second, of the clock and of the processor."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    own = part(0, ADDED_AT_ONCE)
    with minhash.create(path) as store:

        def run() -> None:
            for first in range(0, count, ADDED_AT_ONCE):
                store.add(own + np.uint32(first), ids=np.arange(first, first + ADDED_AT_ONCE))
            store.wait()

        timing = timed(run)
    return count / timing.wall, count / timing.cpu


def main() -> int:
    parser = new_parser(__doc__, rounds=3, counted="documents", real=REAL, small=SMALL)
    parser.add_argument("--filter-only", action="store_true", help="no more than what a filter would bring")
    parser.add_argument("--memory", type=parse_memory, default="2GiB", help="for building; default 2GiB")
    arguments = parse_arguments(parser, real=REAL, small=SMALL)
    results = Results("bench_minhash_store", arguments, only_keys=REAL)
    count = arguments.n
    apart = get_context("spawn").Pool
    with scratch_folder(arguments) as folder:
        bench_filter(folder, arguments.small, results)
        if arguments.filter_only:
            return results.finish()
        rows = [built(folder, "signatures", parts(count), arguments)]
        with apart(1) as pool:
            times, wrong, memory = pool.apply(ask, (folder / "signatures", count, arguments.rounds))
        shutil.rmtree(folder / "signatures")
        for kind, documents, settings in (
            ("signatures, any ids", with_ids(count), {}),
            ("candidates alone", parts(count), {"keep_signatures": False}),
            ("without ids", parts(count), {"ids": None}),
        ):
            rows.append(built(folder, kind, documents, arguments, **settings))
            shutil.rmtree(folder / kind)
        with apart(1) as pool:
            added = pool.apply(add, (folder / "added", ADDED // (10 if arguments.small else 1)))
    results.table(f"{count:,} documents, {BANDS} bands of {ROWS} values", rows)
    results.table("queries, one thread, every page in memory", times)
    for what in wrong:
        results.differs(what)
    sizes = [row["bytes a document"] for row in rows]
    results.bar("with signatures, row numbers as ids", sizes[0], at_most=WITH_SIGNATURES, unit="bytes")
    results.bar("candidates alone", sizes[2], at_most=ALONE, unit="bytes")
    results.bar("without ids, 10^-5 for a band", sizes[3], at_most=WITHOUT_IDS, unit="bytes")
    results.bar("any ids, beside row numbers", sizes[1] - sizes[0], at_most=MORE_FOR_IDS, unit="bytes more")
    singles = max(row["us of a processor"] for row in times[:2])
    results.bar("a single query", singles, at_most=SINGLE_US, unit="us of a processor")
    results.bar("a query of a batch", times[2]["us of a processor"], at_most=BATCH_US, unit="us of a processor")
    results.bar("memory of one who asks", memory / 2**20, at_most=PROBING_BYTES / 2**20, unit="MiB")
    results.bar("added in batches, durably, by the clock", added[0], at_least=ADDED_A_SECOND, unit="documents/s")
    results.bar("added in batches, durably, by one core", added[1], at_least=ADDED_A_SECOND, unit="documents/s")
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
