"""The jobs that look at all documents of a corpus at once: its pairs of near documents, and the connected components.

First the fingerprint and the name of every document are written down, in batches, and this is not done again after an
interruption. What follows reads no input, and is done again.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fpstore.errors import PathLike
from fpstore.jobs.arguments import expect_paths, expect_settings
from fpstore.jobs.batches import Batch, Place
from fpstore.jobs.changed import advised
from fpstore.jobs.cluster import TOPICS, Labelling, expect_files, write_topics
from fpstore.jobs.corpus import Corpus, Inputs, Rows
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.near import Graph, SignedGraph
from fpstore.jobs.places import expect_other_files
from fpstore.jobs.repeats import Repeats
from fpstore.jobs.rows import Lines
from fpstore.jobs.settings import Asked, Settings, settle
from fpstore.jobs.sharing import Measured, Team, decided_by, shared
from fpstore.jobs.sizes import sizes_of
from fpstore.jobs.spool import Spool
from fpstore.jobs.summary import ClusterSummary, PairsSummary, Tally, summarise
from fpstore.progress import OnProgress, Progress
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.confirm import UNCONFIRMED_DISTANCE
from fpstore.types import expect_flags

_NAMES_AT_ONCE = 1 << 13
_S = TypeVar("_S", ClusterSummary, PairsSummary)
_PAIR_COLUMNS = {"first": "string", "second": "string"}


class Documents(NamedTuple):
    """The names of all documents, and which are near which."""

    graph: "Graph | SignedGraph"
    names: Spool

    def __len__(self) -> int:
        return len(self.graph)


# Writes the results of a job, given the documents; returns how many pairs or components there were.
_Work = Callable[[Documents, Job, Tally], int]


@advised
def components(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    annotate: bool = False,
    topics: PathLike | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    folder: PathLike | None = None,
    memory: str | int = "1GiB",
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each document of inputs, in their order, a line of the number of its component, its name, a distance.

    A component: all that are within max_distance of each other, directly or by way of others. They are numbered in the
    order of their first documents; the distance is that to the first document, and can be more than max_distance, which
    is 3 by default. memory: the budget for finding pairs. The rest is as for cluster; annotate reads the inputs twice.
    """
    expect_flags(annotate=annotate, force=force)
    expect_paths(output=output, topics=topics)
    expect_settings(recipe, max_distance)
    team = Team.asked(workers, engine, address, folder)
    asked = Asked(max_distance, bands, rows_per_band, min_similarity)
    settings = settle(recipe, asked, UNCONFIRMED_DISTANCE)
    corpus = Corpus(inputs, recipe, settings.max_distance, threads, all_columns=annotate, cut=settings.cut)
    results = [Path(path).absolute() for path in (output, topics) if path is not None]
    expect_files(corpus, annotate, "annotate")
    expect_files(corpus, topics, "topics")
    forms: list[Any] = [Labelling(results[0], corpus, settings, annotate=annotate)]
    forms += [Lines(form_of(path, TSV), TOPICS, "topics") for path in results[1:]]

    def write(documents: Documents, job: Job, tally: Tally) -> int:
        numbers, nearness, count = documents.graph.components(settings, memory, threads, progress)
        sizes = sizes_of(numbers)
        tally.detail = sizes.told()
        start = 0
        for batch in _named(documents) if not annotate else corpus.again((job.state or {})["place"], len(documents)):
            own = slice(start, start + len(batch.names))
            forms[0].write(job.files[0], batch, numbers[own].tolist(), nearness[own].tolist())
            start = own.stop
        if topics is not None:
            write_topics(corpus, job, numbers, sizes, forms[1], progress)
        return count

    return _run(
        ClusterSummary,
        corpus,
        results,
        ({"job": "components", "annotate": annotate}, forms),
        settings,
        write,
        (force, team),
        progress,
    )


@advised
def document_pairs(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    folder: PathLike | None = None,
    memory: str | int = "1GiB",
    progress: OnProgress | None = None,
) -> PairsSummary:
    """Write a line for each pair of documents within max_distance of each other: the names of the two and the distance.

    The document that came first is first; the pairs are in no particular order. n equal documents are n (n - 1) / 2
    pairs. By a recipe of sketch minhash a line has the estimated similarity in place of the distance. The rest is as
    for components.
    """

    expect_flags(force=force)
    expect_paths(output=output)
    result = Path(output).absolute()
    expect_settings(recipe, max_distance)
    team = Team.asked(workers, engine, address, folder)
    asked = Asked(max_distance, bands, rows_per_band, min_similarity)
    settings = settle(recipe, asked, UNCONFIRMED_DISTANCE)
    corpus = Corpus(inputs, recipe, settings.max_distance, threads, cut=settings.cut)
    lines = Lines(form_of(result, TSV), _PAIR_COLUMNS | settings.nearness, "document-pairs")
    corpus.check_form(lines)

    def write(documents: Documents, job: Job, tally: Tally) -> int:
        count = 0
        pairs = _pairs(documents.graph, settings, memory, threads, progress)
        while found := list(islice(pairs, _NAMES_AT_ONCE)):
            one, other, nearness = zip(*found, strict=True)
            both = np.array([one, other], dtype=np.uint64)
            names = [documents.names.names(ids) for ids in (both.min(axis=0), both.max(axis=0))]
            job.files[0].write(lines.encode(*names, nearness))
            count += len(found)
        return count

    return _run(
        PairsSummary,
        corpus,
        [result],
        ({"job": "pairs"}, [lines]),
        settings,
        write,
        (force, team),
        progress,
    )


def _named(documents: Documents) -> Iterator[Batch]:
    """The documents in batches of which only the names are there."""
    for start in range(0, len(documents), _NAMES_AT_ONCE):
        ids = np.arange(start, min(start + _NAMES_AT_ONCE, len(documents)), dtype=np.uint64)
        names = [name or "" for name in documents.names.names(ids)]
        yield Batch(names, [], [], np.empty((0, 0), dtype=np.uint8), 0, Place(), {}, {})


def _pairs(
    graph: "Graph | SignedGraph",
    settings: Settings,
    memory: str | int,
    threads: int | None,
    progress: OnProgress | None,
) -> Iterator[tuple[int, int, float]]:
    """The numbers of two documents that are near each other, and how near."""
    # The documents of each distinct fingerprint, in their order.
    order = np.argsort(graph.place, kind="stable")
    ends = np.searchsorted(graph.place[order], np.arange(graph.distinct_count + 1))
    for index in np.flatnonzero(np.diff(ends) > 1).tolist():
        for one, other in combinations(order[ends[index] : ends[index + 1]].tolist(), 2):
            yield one, other, graph.of_equals
    for near in graph.near(settings, memory, threads, progress):
        for first, second, nearness in zip(*(column.tolist() for column in near), strict=True):
            groups = (order[ends[index] : ends[index + 1]].tolist() for index in (first, second))
            for one, other in product(*groups):
                yield one, other, nearness


def _run(
    kind: type[_S],
    corpus: Corpus,
    results: list[Path],
    what: tuple[dict[str, Any], list[Any]],
    settings: Settings,
    work: _Work,
    how: tuple[bool, Team | None],
    progress: OnProgress | None,
) -> _S:
    """Collect the documents, and do the work with them; what: the job with its options, its forms. how: whether by
    force, and who measures.
    """
    started = time.monotonic()
    expect_other_files(results, corpus.files)
    (named, forms), (force, team) = what, how
    identity = {**named, **corpus.identity, "results": list(map(str, results)), **settings.told}
    row = np.dtype([("fingerprint", *settings.sketch_type)])
    measured: Measured = "components" if kind is ClusterSummary else "document-pairs"
    job = Job(results, identity, corpus.look(), force=force, forms=forms, expect_same=corpus.expect_same)
    with closing(job), job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            with (
                shared(job, corpus, team, measured, decided_by(settings, None), keeps=False),
                closing(AppendFile(job.work_folder, "fingerprints", row.itemsize * tally.documents)) as keys,
                closing(_names(job, tally, settings.words)) as names,
                closing(Repeats(job, corpus)) as repeats,
            ):
                _collect(corpus, job, tally, keys, names, repeats, settings.signs, progress)
                tally.repeated_names = repeats.count()
                found = np.frombuffer(keys.view(), dtype=row)["fingerprint"]
                bits = settings.recipe.bits
                graph = (
                    SignedGraph(found, job.work) if settings.signs else Graph(found.astype(np.uint64), job.work, bits)
                )
                tally.results = tally.new = work(Documents(graph, names), job, tally)
            job.commit_last({**(job.state or {}), "tally": asdict(tally)})
        job.finish()
    return summarise(kind, tally, corpus, started, was_done=job.was_done)


def _names(job: Job, tally: Tally, words: int) -> Spool:
    return Spool(job.subfolder("documents"), texts=False, count=tally.documents, words=words)


def _collect(
    corpus: Corpus,
    job: Job,
    tally: Tally,
    keys: AppendFile,
    names: Spool,
    repeats: Repeats,
    signs: bool,
    progress: OnProgress | None,
) -> None:
    """Write down the documents that are not yet; signs: by their signatures, for which names has no room."""
    with closing(corpus.measured(corpus.go_on(job.state))) as every:
        for batch, fingerprints in every:
            keys.write(fingerprints.astype(fingerprints.dtype.newbyteorder("<")).tobytes())
            ids = range(tally.documents, tally.documents + len(batch.names))
            told = np.zeros(len(ids), dtype=np.uint64) if signs else fingerprints
            names.append(ids, told, batch.names, batch.texts)
            keys.sync()
            names.sync()
            repeats.see(batch.names)
            repeats.sync()
            tally.documents += len(batch.names)
            tally.skipped, tally.notes = batch.skipped, batch.notes
            job.commit({"tally": asdict(tally), **corpus.state(batch.end), **repeats.state()})
            if progress:
                progress(Progress("reading", corpus.bytes_read, corpus.total_bytes, "bytes"))
