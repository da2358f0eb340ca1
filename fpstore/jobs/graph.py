"""The jobs that look at all documents of a corpus at once: its pairs of near documents, and the connected components.

First the fingerprint and the name of every document are written down, in batches, and this is not done again after an
interruption. What follows reads no input, and is done again.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import fpstore
from fpstore.errors import PathLike
from fpstore.jobs.arguments import expect_paths
from fpstore.jobs.cluster import TOPICS, Labelling, expect_files, write_topics
from fpstore.jobs.corpus import Batch, Corpus, Inputs, Place, Rows, expect_other_files
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.repeats import Repeats
from fpstore.jobs.rows import Lines
from fpstore.jobs.sizes import sizes_of
from fpstore.jobs.spool import Spool
from fpstore.jobs.summary import ClusterSummary, PairsSummary, Tally, summarise
from fpstore.notes import subfolder
from fpstore.progress import OnProgress, Progress
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.types import Array, Counts, Keys, expect_flags

_NAMES_AT_ONCE = 1 << 13
_S = TypeVar("_S", ClusterSummary, PairsSummary)
_PAIR_COLUMNS = {"first": "string", "second": "string", "distance": "uint16"}


class Graph:
    """Fingerprints in an order; also sorted and without repetitions. In memory are 40 bytes for each."""

    def __init__(self, fingerprints: Keys, folder: Path) -> None:
        """folder: for a store that is needed meanwhile."""
        self.fingerprints = fingerprints
        self._folder = folder
        self.distinct, self.place = np.unique(fingerprints, return_inverse=True)

    def __len__(self) -> int:
        return len(self.fingerprints)

    def components(
        self, max_distance: int, memory: str | int, progress: OnProgress | None
    ) -> tuple[Counts, Array, int]:
        """Of each fingerprint the number of its component and the distance to its first; how many components there are.

        They are numbered in the order of their first ones.
        """
        labels = _components(len(self.distinct), self.near(max_distance, memory, progress))[self.place]
        rows = np.arange(len(labels))
        first = np.empty(len(self.distinct), dtype=np.int64)
        first[labels[::-1]] = rows[::-1]  # of several rows with one label the last that is assigned stays, the first
        leaders = first[labels]
        is_leader = leaders == rows
        numbers = (np.cumsum(is_leader) - 1)[leaders]
        distances = np.bitwise_count(self.fingerprints ^ self.fingerprints[leaders])
        return numbers, distances, int(np.count_nonzero(is_leader))

    def near(
        self, max_distance: int, memory: str | int, progress: OnProgress | None
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


class Documents(Graph):
    """The fingerprint and the name of every document."""

    def __init__(self, fingerprints: Keys, names: Spool, folder: Path) -> None:
        super().__init__(fingerprints, folder)
        self.names = names


# Writes the results of a job, given the documents; returns how many pairs or components there were.
_Work = Callable[[Documents, Job, Tally], int]


def components(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    max_distance: int = 3,
    annotate: bool = False,
    topics: PathLike | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    memory: str | int = "1GiB",
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each document of inputs, in their order, a line of the number of its component, its name, a distance.

    A component: all that are within max_distance of each other, directly or by way of others. They are numbered in the
    order of their first documents; the distance is that to the first document, and can be more than max_distance.
    memory: the budget for finding pairs. The rest is as for cluster; annotate reads the inputs twice.
    """
    expect_flags(annotate=annotate, force=force)
    expect_paths(output=output, topics=topics)
    corpus = Corpus(inputs, recipe, max_distance, threads, all_columns=annotate)
    results = [Path(path).absolute() for path in (output, topics) if path is not None]
    expect_files(corpus, annotate, "annotate")
    expect_files(corpus, topics, "topics")
    forms: list[Any] = [Labelling(results[0], corpus, annotate=annotate)]
    forms += [Lines(form_of(path, TSV), TOPICS, "topics") for path in results[1:]]

    def write(documents: Documents, job: Job, tally: Tally) -> int:
        numbers, distances, count = documents.components(max_distance, memory, progress)
        sizes = sizes_of(numbers)
        tally.detail = sizes.told()
        start = 0
        for batch in _named(documents) if not annotate else corpus.again((job.state or {})["place"], len(documents)):
            own = slice(start, start + len(batch.names))
            forms[0].write(job.files[0], batch, numbers[own].tolist(), distances[own].tolist())
            start = own.stop
        if topics is not None:
            write_topics(corpus, job, numbers, sizes, forms[1], progress)
        return count

    return _run(
        ClusterSummary,
        corpus,
        results,
        ({"job": "components", "annotate": annotate}, forms),
        max_distance,
        write,
        force,
        progress,
    )


def document_pairs(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    max_distance: int = 3,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    memory: str | int = "1GiB",
    progress: OnProgress | None = None,
) -> PairsSummary:
    """Write a line for each pair of documents within max_distance of each other: the names of the two and the distance.

    The document that came first is first; the pairs are in no particular order. n equal documents are n (n - 1) / 2
    pairs. The rest is as for components.
    """

    expect_flags(force=force)
    expect_paths(output=output)
    result = Path(output).absolute()
    corpus = Corpus(inputs, recipe, max_distance, threads)
    lines = Lines(form_of(result, TSV), _PAIR_COLUMNS, "document-pairs")
    corpus.check_form(lines)

    def write(documents: Documents, job: Job, tally: Tally) -> int:
        count = 0
        pairs = _pairs(documents, max_distance, memory, progress)
        while found := list(islice(pairs, _NAMES_AT_ONCE)):
            columns = np.array(found, dtype=np.uint64).T
            names = [documents.names.names(ids) for ids in (columns[:2].min(axis=0), columns[:2].max(axis=0))]
            job.files[0].write(lines.encode(*names, columns[2].tolist()))
            count += len(found)
        return count

    return _run(
        PairsSummary,
        corpus,
        [result],
        ({"job": "pairs"}, [lines]),
        max_distance,
        write,
        force,
        progress,
    )


def _named(documents: Documents) -> Iterator[Batch]:
    """The documents in batches of which only the names are there."""
    for start in range(0, len(documents), _NAMES_AT_ONCE):
        ids = np.arange(start, min(start + _NAMES_AT_ONCE, len(documents)), dtype=np.uint64)
        names = [name or "" for name in documents.names.names(ids)]
        yield Batch(names, [], [], np.empty((0, 0), dtype=np.uint8), 0, Place(), {}, {})


def _pairs(
    documents: Documents, max_distance: int, memory: str | int, progress: OnProgress | None
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
    kind: type[_S],
    corpus: Corpus,
    results: list[Path],
    what: tuple[dict[str, Any], list[Any]],
    max_distance: int,
    work: _Work,
    force: bool,
    progress: OnProgress | None,
) -> _S:
    """Collect the documents, and do the work with them; what: the job with its options, its forms."""
    started = time.monotonic()
    expect_other_files(results, corpus)
    named, forms = what
    identity = {**named, **corpus.identity, "results": list(map(str, results)), "max_distance": max_distance}
    with Job(results, identity, corpus.look(), force=force, forms=forms, expect_same=corpus.expect_same) as job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            with (
                closing(AppendFile(job.work_folder, "fingerprints", 8 * tally.documents)) as keys,
                closing(Spool(subfolder(job.work_folder, "documents"), texts=False, count=tally.documents)) as names,
                closing(Repeats(job, corpus)) as repeats,
            ):
                _collect(corpus, job, tally, keys, names, repeats, progress)
                tally.repeated_names = repeats.count()
                fingerprints = np.frombuffer(keys.view(), dtype="<u8").astype(np.uint64)
                tally.results = tally.new = work(Documents(fingerprints, names, job.work), job, tally)
            job.commit_last({**(job.state or {}), "tally": asdict(tally)})
        job.finish()
    return summarise(kind, tally, corpus, started, was_done=job.was_done)


def _collect(
    corpus: Corpus,
    job: Job,
    tally: Tally,
    keys: AppendFile,
    names: Spool,
    repeats: Repeats,
    progress: OnProgress | None,
) -> None:
    """Write down the documents that are not yet."""
    with closing(corpus.measured(corpus.go_on(job.state))) as every:
        for batch, fingerprints in every:
            keys.write(fingerprints.astype("<u8").tobytes())
            ids = range(tally.documents, tally.documents + len(batch.names))
            names.append(ids, fingerprints, batch.names, batch.texts)
            keys.sync()
            names.sync()
            repeats.see(batch.names)
            tally.documents += len(batch.names)
            tally.skipped, tally.notes = batch.skipped, batch.notes
            job.commit({"tally": asdict(tally), **corpus.state(batch.end), **repeats.state()})
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
