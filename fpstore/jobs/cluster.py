"""The job `cluster`: every document of a corpus with the number of its cluster."""

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fpstore.errors import PathLike
from fpstore.jobs.arguments import expect_paths
from fpstore.jobs.batches import Batch
from fpstore.jobs.changed import advised
from fpstore.jobs.corpus import Corpus, Inputs, Rows
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.grouping import own_grouping, standing_grouping
from fpstore.jobs.journal import Job
from fpstore.jobs.keeping import Keeping
from fpstore.jobs.naming import fault_of_name
from fpstore.jobs.places import expect_other_files
from fpstore.jobs.repeats import Repeats
from fpstore.jobs.rows import Lines
from fpstore.jobs.settings import Asked, Settings, settle_settings
from fpstore.jobs.sharing import Team, decided_by, shared
from fpstore.jobs.sizes import Sizes, sizes_in
from fpstore.jobs.standing import release
from fpstore.jobs.summary import ClusterSummary, Tally, summarise
from fpstore.jobs.topics import MOST_CLUSTERS, Topics
from fpstore.ledger import VOTES
from fpstore.progress import OnProgress, Progress
from fpstore.text import Recipe
from fpstore.text.confirm import CONFIRMED_DISTANCE, UNCONFIRMED_DISTANCE, Confirm
from fpstore.types import Array, expect_flags

# What is written of a document, beside how near its leader is.
COLUMNS = {"cluster": "uint64", "name": "string"}
TOPICS = {"cluster": "uint64", "size": "uint64", "words": "string"}


@advised
def cluster(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    store: PathLike | None = None,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    confirm: str | None = "default",
    update_center: bool = False,
    annotate: bool = False,
    topics: PathLike | None = None,
    recipe: Recipe | None = None,
    force: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    folder: PathLike | None = None,
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each document of inputs, in their order, a line of the number of its cluster, its name, a distance.

    output: as its suffix says, .tsv, .csv or .jsonl, each also before .gz or .zst, or .parquet; lines of tabs without.
    A document joins the cluster of the nearest leader within max_distance, of several at one distance that with the
    least fingerprint, then the oldest, or leads the next cluster. The distance is that to the leader. confirm: as for
    dedup, which keeps the leaders and drops the other members for them. update_center: compare with the bits that most
    of a cluster's members so far have, in place of the leader; fpstore.jobs.centers says what that does to
    max_distance; nothing is confirmed then.
    annotate: write the documents themselves, with all their columns and two more, cluster and cluster_distance, as
    dedup writes kept ones. topics: another result, with a line for each of the largest clusters: its number, how many
    documents came to it, and the words that tell it from the rest (fpstore.jobs.topics); reads the inputs twice.
    store: a standing store, made where there is none, whose clusters the documents join, and which gets the new ones:
    its rows are the first document of each cluster, under the cluster's number, or, in one made with id_type "string",
    under its name, with all their texts beside them. Clusters over several jobs are those of one job over all their
    documents, in that order. recipe, max_distance: those of the store by default, else
    DEFAULT_RECIPE and 6, with update_center 3. bands, rows_per_band, min_similarity: as for dedup; results then have
    the estimated similarity in place of the distance. The rest is as for dedup; ValueError also for a store whose
    clusters have moving centers and these do not, or the other way round, and for centers with something to confirm by
    or with signatures.
    """
    started = time.monotonic()
    expect_flags(update_center=update_center, annotate=annotate, force=force)
    expect_paths(output=output, topics=topics, store=store)
    standing = None if store is None else Path(store).absolute()
    team = Team.asked(workers, engine, address, folder)
    if update_center and confirm not in (None, "default"):
        raise ValueError(f"confirm: found {confirm!r:.40} with update_center, expected None: a center has no text")
    usual = UNCONFIRMED_DISTANCE if update_center else CONFIRMED_DISTANCE
    asked = Asked(max_distance, bands, rows_per_band, min_similarity)
    settings = settle_settings(standing, recipe, asked, usual, clusters=True)
    if update_center and settings.signs:
        told = f"found it with recipe {settings.recipe.name}, which makes signatures"
        raise ValueError(f"update_center: {told}, expected one that makes fingerprints, whose bits have a majority")
    check = Confirm.settle(confirm, has_texts=settings.can_confirm and not update_center)
    corpus = Corpus(inputs, settings.recipe, settings.max_distance, threads, all_columns=annotate, cut=settings.cut)
    results = [Path(path).absolute() for path in (output, topics) if path is not None]
    expect_other_files(results, corpus.files, standing)
    expect_files(corpus, topics, "topics")
    if settings.named:
        corpus.check(lambda name, row: fault_of_name(name))
    decides = decided_by(settings, check, store=standing and str(standing), update_center=update_center)
    identity = {
        "job": "clusters by centers" if update_center else "clusters by leaders",
        **corpus.identity,
        "results": list(map(str, results)),
        "annotate": annotate,
        "store": standing and str(standing),
        **settings.told,
        "confirm": check and str(check),
    }
    forms: list[Any] = [Labelling(results[0], corpus, settings, annotate=annotate)]
    forms += [Lines(form_of(path, TSV), TOPICS, "topics") for path in results[1:]]
    job = Job(
        results,
        identity,
        corpus.look(),
        force=force,
        store=settings.store,
        forms=forms,
        expect_same=corpus.expect_same,
    )
    with closing(job), job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            place = corpus.go_on(job.state)
            if standing is None:
                opened = own_grouping(job, tally, settings, check, update_center=update_center)
            else:
                opened = standing_grouping(standing, job, tally, settings, check, update_center=update_center)
            labels = AppendFile(job.work_folder, "labels", 8 * tally.documents)
            with (
                shared(job, corpus, team, "cluster", decides, keeps=check is not None),
                closing(labels),
                closing(Repeats(job, corpus)) as repeats,
                opened as clusters,
                closing(corpus.measured(place, keeps=check is not None)) as every,
            ):
                for batch, fingerprints in every:
                    found = clusters.decide(fingerprints, batch)
                    forms[0].write(job.files[0], batch, found["id"].tolist(), clusters.nearness(found))
                    labels.write(found["id"].astype("<u8").tobytes())
                    labels.sync()
                    repeats.see(batch.names)
                    repeats.sync()
                    tally.documents += len(found)
                    clusters.count(tally)
                    tally.skipped, tally.notes = batch.skipped, batch.notes
                    own = repeats.state() | clusters.state()
                    job.commit({"tally": asdict(tally), **corpus.state(batch.end), **own})
                    if progress:
                        progress(Progress("clustering", corpus.bytes_read, corpus.total_bytes, "bytes"))
                clusters.settle()
                tally.repeated_names = repeats.count()
                found = np.frombuffer(labels.view(), dtype="<u8")
                sizes = sizes_in(found, job.work_folder, "sizes")
                tally.detail = sizes.told()
                if topics is not None:
                    write_topics(corpus, job, found, sizes, forms[1], progress)
                job.commit_last({**(job.state or {}), "tally": asdict(tally)})
        if standing is not None and not job.was_done:
            release(standing, job, VOTES if update_center else None)
        job.finish()
    summary = summarise(ClusterSummary, tally, corpus, started, was_done=job.was_done)
    return replace(summary, confirm=None if check is None else str(check))


class Labelling:
    """The form of the result of clusters: a line for each document, or the document itself with its cluster."""

    def __init__(self, result: Path, corpus: Corpus, settings: Settings, *, annotate: bool) -> None:
        """Raises what Lines and Keeping do."""
        ((name, kind),) = settings.nearness.items()
        added = {"cluster": "uint64", f"cluster_{name}": kind}
        self._lines = None if annotate else Lines(form_of(result, TSV), COLUMNS | {name: kind}, "cluster")
        self._keeping = Keeping(result, corpus, added) if annotate else None
        form = self._lines or self._keeping
        assert form is not None
        corpus.check_form(form)
        self.head, self.pack = form.head, form.pack

    def write(self, file: AppendFile, batch: Batch, clusters: Sequence[int], nearness: Sequence[float]) -> None:
        """What is told of the documents of a batch."""
        if self._keeping is not None:
            added = list(zip(clusters, nearness, strict=True))
            file.write(self._keeping.lines(batch, range(len(added)), is_first=file.length == 0, added=added))
        elif self._lines is not None:
            file.write(self._lines.encode(clusters, batch.names, nearness))


def write_topics(
    corpus: Corpus, job: Job, labels: Array, sizes: Sizes, lines: Lines, progress: OnProgress | None
) -> None:
    """Read all documents again, and write to the second result which words tell the largest clusters from the rest."""
    topics, start = Topics(dict(sizes.largest(MOST_CLUSTERS, 2))), 0
    for batch in corpus.again((job.state or {})["place"], len(labels)):
        topics.see(labels[start : start + len(batch.texts)].tolist(), batch.texts)
        start += len(batch.texts)
        if progress:
            progress(Progress("topics", corpus.bytes_read, corpus.total_bytes, "bytes"))
    rows = list(topics.told())
    job.files[1].write(lines.encode(*([row[i] for row in rows] for i in range(3))))


def expect_files(corpus: Corpus, asked: object, name: str) -> None:
    """ValueError for standard input and pipes, where something is asked for that reads the inputs twice."""
    if asked and not corpus.is_read_again:
        raise ValueError(f"standard input: found {name}, which reads the inputs twice; expected files")
