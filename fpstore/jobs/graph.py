"""The jobs that look at all documents of a corpus at once: its pairs of near documents, and the connected components.

First the fingerprint and the name of every document are written down, in batches, and this is not done again after an
interruption. What follows reads no input, and is done again.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import combinations, islice, product
from pathlib import Path

import numpy as np

import fpstore
from fpstore.jobs.cluster import COLUMNS
from fpstore.jobs.corpus import Corpus, Sources, expect_other_files
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.rows import Lines
from fpstore.jobs.spool import Spool
from fpstore.jobs.summary import Summary, Tally, summarise
from fpstore.notes import subfolder
from fpstore.progress import OnProgress, Progress
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.types import Array, Counts, Keys

_NAMES_AT_ONCE = 1 << 13
_PAIR_COLUMNS = {"first": "string", "second": "string", "distance": "uint16"}


class Documents:
    """The fingerprint and the name of every document; the fingerprints also sorted and without repetitions.

    In memory are 40 bytes for each document.
    """

    def __init__(self, fingerprints: Keys, names: Spool, folder: Path) -> None:
        self.fingerprints = fingerprints
        self.names = names
        self._folder = folder
        self.distinct, self.place = np.unique(fingerprints, return_inverse=True)

    def __len__(self) -> int:
        return len(self.fingerprints)

    def near(
        self, max_distance: int, memory: str, progress: OnProgress | None
    ) -> Iterator[tuple[Counts, Counts, Array]]:
        """The near pairs of distinct fingerprints: indexes of the two, smaller first, and the distances."""
        path = self._folder / "store"
        shutil.rmtree(path, ignore_errors=True)
        with fpstore.build(
            path, self.distinct, ids=None, max_distance=max_distance, memory=memory, progress=progress
        ) as store:
            for found in store.pairs(max_distance=max_distance, memory=memory, progress=progress):
                places = (np.searchsorted(self.distinct, keys) for keys in (found.first, found.second))
                yield (*places, found.distance)  # type: ignore[misc]
        shutil.rmtree(path)


# Writes the lines of a job, given the documents; returns how many pairs or components there were.
_Work = Callable[[Documents, AppendFile, Lines], int]


def components(
    sources: Sources | Sequence[str | Path],
    output: str | Path,
    *,
    max_distance: int = 3,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    memory: str = "1GiB",
    progress: OnProgress | None = None,
) -> Summary:
    """Write for each document of sources, in their order, a line of the number of its component, its name, a distance.

    A component: all that are within max_distance of each other, directly or by way of others. They are numbered in the
    order of their first documents; the distance is that to the first document, and can be more than max_distance.
    memory: the budget for finding pairs. The rest is as for cluster.
    """

    def write(documents: Documents, out: AppendFile, lines: Lines) -> int:
        labels = _components(len(documents.distinct), documents.near(max_distance, memory, progress))[documents.place]
        rows = np.arange(len(labels))
        first = np.empty(len(documents.distinct), dtype=np.int64)
        first[labels[::-1]] = rows[::-1]  # of several rows with one label the last that is assigned stays, the first
        leaders = first[labels]
        is_leader = leaders == rows
        numbers = (np.cumsum(is_leader) - 1)[leaders]
        distances = np.bitwise_count(documents.fingerprints ^ documents.fingerprints[leaders])
        for start in range(0, len(documents), _NAMES_AT_ONCE):
            own = slice(start, start + _NAMES_AT_ONCE)
            ids = np.arange(start, min(own.stop, len(documents)), dtype=np.uint64)
            out.write(lines.encode(numbers[own].tolist(), documents.names.names(ids), distances[own].tolist()))
        return int(np.count_nonzero(is_leader))

    return _run(
        Corpus(sources, recipe, max_distance, threads),
        Path(output).absolute(),
        ("components", COLUMNS),
        max_distance,
        write,
        force,
        progress,
    )


def document_pairs(
    sources: Sources | Sequence[str | Path],
    output: str | Path,
    *,
    max_distance: int = 3,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    memory: str = "1GiB",
    progress: OnProgress | None = None,
) -> Summary:
    """Write a line for each pair of documents within max_distance of each other: the names of the two and the distance.

    The document that came first is first; the pairs are in no particular order. n equal documents are n (n - 1) / 2
    pairs. The rest is as for components.
    """

    def write(documents: Documents, out: AppendFile, lines: Lines) -> int:
        count = 0
        pairs = _pairs(documents, max_distance, memory, progress)
        while found := list(islice(pairs, _NAMES_AT_ONCE)):
            columns = np.array(found, dtype=np.uint64).T
            names = [documents.names.names(ids) for ids in (columns[:2].min(axis=0), columns[:2].max(axis=0))]
            out.write(lines.encode(*names, columns[2].tolist()))
            count += len(found)
        return count

    return _run(
        Corpus(sources, recipe, max_distance, threads),
        Path(output).absolute(),
        ("pairs", _PAIR_COLUMNS),
        max_distance,
        write,
        force,
        progress,
    )


def _pairs(
    documents: Documents, max_distance: int, memory: str, progress: OnProgress | None
) -> Iterator[tuple[int, int, int]]:
    """The numbers of two documents within max_distance of each other, and their distance."""
    # The documents of each distinct fingerprint, in their order.
    order = np.argsort(documents.place, kind="stable")
    ends = np.searchsorted(documents.place[order], np.arange(len(documents.distinct) + 1))
    for index in np.flatnonzero(np.diff(ends) > 1).tolist():
        for one, other in combinations(order[ends[index] : ends[index + 1]].tolist(), 2):
            yield one, other, 0
    for near in documents.near(max_distance, memory, progress):
        for first, second, distance in zip(*(column.tolist() for column in near), strict=True):
            groups = (order[ends[index] : ends[index + 1]].tolist() for index in (first, second))
            for one, other in product(*groups):
                yield one, other, distance


def _run(
    corpus: Corpus,
    result: Path,
    what: tuple[str, dict[str, str]],
    max_distance: int,
    work: _Work,
    force: bool,
    progress: OnProgress | None,
) -> Summary:
    """Collect the documents, and do the work with them; what: the name of the job, and the columns of its result."""
    started = time.monotonic()
    expect_other_files([result], corpus)
    name, columns = what
    lines = Lines(form_of(result, TSV), columns)
    identity = {"job": name, **corpus.identity, "results": [str(result)], "max_distance": max_distance}
    with Job([result], identity, corpus.look(), force=force, forms=[lines], expect_same=corpus.expect_same) as job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            with (
                closing(AppendFile(job.work_folder, "fingerprints", 8 * tally.documents)) as keys,
                closing(Spool(subfolder(job.work_folder, "documents"), texts=False, count=tally.documents)) as names,
            ):
                _collect(corpus, job, tally, keys, names, progress)
                fingerprints = np.frombuffer(keys.view(), dtype="<u8").astype(np.uint64)
                tally.results = work(Documents(fingerprints, names, job.work), job.files[0], lines)
            job.commit_last({**(job.state or {}), "tally": asdict(tally)})
        job.finish()
    return summarise(tally, corpus.text_bytes, started, corpus.warning, was_done=job.was_done)


def _collect(
    corpus: Corpus, job: Job, tally: Tally, keys: AppendFile, names: Spool, progress: OnProgress | None
) -> None:
    """Write down the documents that are not yet."""
    for batch in corpus.batches(corpus.go_on(job.state)):
        fingerprints = corpus.fingerprints(batch)
        keys.write(fingerprints.astype("<u8").tobytes())
        ids = range(tally.documents, tally.documents + len(batch.names))
        names.append(ids, fingerprints, batch.names, batch.texts)
        keys.sync()
        names.sync()
        tally.documents += len(batch.names)
        tally.skipped, tally.notes = batch.skipped, batch.notes
        job.commit({"tally": asdict(tally), **corpus.state(batch.end)})
        if progress:
            progress(Progress("reading", corpus.bytes_read, corpus.total_bytes, "bytes"))


def _components(count: int, edges: Iterator[tuple[Counts, Counts, Array]]) -> Counts:
    """The least number of each one's component, of so many that edges join: int64[count]."""
    parent = np.arange(count)
    for first, second, _ in edges:
        one, other = first, second
        while len(one):
            one, other = _roots(parent, one), _roots(parent, other)
            low, high = np.minimum(one, other), np.maximum(one, other)
            apart = low < high
            low, high = low[apart], high[apart]
            # Of several edges at one root the least wins; the others are looked at again.
            np.minimum.at(parent, high, low)
            one, other = low, high
    return _roots(parent, np.arange(count))


def _roots(parent: Counts, numbers: Counts) -> Counts:
    """The roots of numbers; the paths to them become shorter."""
    roots = parent[numbers]
    while True:
        above = parent[roots]
        if np.array_equal(above, roots):
            break
        roots = above
    parent[numbers] = np.minimum(parent[numbers], roots)
    return roots
