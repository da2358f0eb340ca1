"""The job `cluster`: every document of a corpus with the number of its cluster."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fpstore.jobs.corpus import Corpus, Sources, expect_other_files
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.grouping import own_grouping, standing_grouping
from fpstore.jobs.journal import Job
from fpstore.jobs.rows import Lines
from fpstore.jobs.standing import release, settle_settings
from fpstore.jobs.summary import ClusterSummary, Tally, summarise
from fpstore.notes import VOTES
from fpstore.progress import OnProgress, Progress
from fpstore.text import Recipe

# What is written of a document.
COLUMNS = {"cluster": "uint64", "name": "string", "distance": "uint16"}


def cluster(
    sources: Sources | Sequence[str | Path],
    output: str | Path,
    *,
    store: str | Path | None = None,
    max_distance: int | None = None,
    update_center: bool = False,
    recipe: Recipe | None = None,
    force: bool = False,
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> ClusterSummary:
    """Write for each document of sources, in their order, a line of the number of its cluster, its name, a distance.

    output: as its suffix says, .tsv, .csv or .jsonl, each also before .gz or .zst, or .parquet; lines of tabs without.
    A document joins the cluster of the nearest leader within max_distance, of several at one distance that with the
    least fingerprint, then the oldest, or leads the next cluster. The distance is that to the leader. update_center:
    compare with the bits that most of a cluster's members so far have, in place of the leader; fpstore.jobs.centers
    says what that does to max_distance.
    store: a standing store, made where there is none, whose clusters the documents join, and which gets the new ones:
    its rows are the first document of each cluster, under the cluster's number. Clusters over several jobs are those of
    one job over all their documents, in that order. recipe, max_distance: those of the store by default, else DEFAULT
    and 3. The rest is as for dedup; ValueError also for a store whose clusters have moving centers and these do not, or
    the other way round.
    """
    started = time.monotonic()
    standing = None if store is None else Path(store).absolute()
    settings = settle_settings(standing, recipe, max_distance)
    corpus = Corpus(sources, settings.recipe, settings.max_distance, threads)
    result = Path(output).absolute()
    expect_other_files([result], corpus, standing)
    identity = {
        "job": "clusters by centers" if update_center else "clusters by leaders",
        **corpus.identity,
        "results": [str(result)],
        "store": standing and str(standing),
        "max_distance": settings.max_distance,
    }
    lines = Lines(form_of(result, TSV), COLUMNS)
    job = Job(
        [result],
        identity,
        corpus.look(),
        force=force,
        store=settings.store,
        forms=[lines],
        expect_same=corpus.expect_same,
    )
    with job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            place = corpus.go_on(job.state)
            if standing is None:
                opened = own_grouping(job, tally.documents, settings.max_distance, update_center=update_center)
            else:
                opened = standing_grouping(standing, job, tally.documents, settings, update_center=update_center)
            with opened as clusters:
                for batch in corpus.batches(place):
                    found = clusters.decide(corpus.fingerprints(batch), batch)
                    columns = (found["id"].tolist(), batch.names, found["distance"].tolist())
                    job.files[0].write(lines.encode(*columns))
                    tally.documents += len(found)
                    tally.results, tally.new = clusters.next_id, clusters.next_id - clusters.known
                    tally.skipped, tally.notes = batch.skipped, batch.notes
                    job.commit({"tally": asdict(tally), **corpus.state(batch.end), **clusters.state()})
                    if progress:
                        progress(Progress("clustering", corpus.bytes_read, corpus.total_bytes, "bytes"))
                clusters.settle()
                job.commit_last(job.state or {})
        if standing is not None and not job.was_done:
            release(standing, job, VOTES if update_center else None)
        job.finish()
    return summarise(ClusterSummary, tally, corpus, started, was_done=job.was_done)
