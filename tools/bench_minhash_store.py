"""Measures stores of MinHash signatures: bytes a document, the time of a query, memory, and how fast documents come in.

    python tools/bench_minhash_store.py [--n 1e7] [--dir /dev/shm] [--memory 2GiB] [--rounds 3] [--small] [--json]

Signatures are random values of 32 bits, 128 of them, 16 bands of 8; a tenth of the documents differ from the one
before them in a few values. Each kind of store is built in the folder and removed again: with signatures, with ids
that are any numbers, candidates alone, without ids. The first is asked, in a process of its own: for signatures of
stored documents of which an eighth of the values is changed, and for new ones. Last, documents are added to an empty
store in batches, durably, on one core. Exit status 1 where a document is not found that shares a band.
"""

import os
import shutil
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
    parser.add_argument("--memory", type=parse_memory, default="2GiB", help="for building; default 2GiB")
    arguments = parse_arguments(parser, real=REAL, small=SMALL)
    results = Results("bench_minhash_store", arguments, only_keys=REAL)
    count = arguments.n
    apart = get_context("spawn").Pool
    with scratch_folder(arguments) as folder:
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
