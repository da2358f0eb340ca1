"""The job `cluster`: every document of a corpus with the number of its cluster."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fpstore
from fpstore import Store
from fpstore.jobs.centers import Centers, Votes
from fpstore.jobs.corpus import Corpus, Sources, expect_other_files
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.leaders import Leaders
from fpstore.jobs.rows import Lines
from fpstore.jobs.summary import Summary, Tally, summarise
from fpstore.progress import OnProgress, Progress
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.types import Array

# What is remembered of a document, to make the leaders again when the job goes on.
_MEMBER = np.dtype([("fingerprint", "<u8"), ("cluster", "<u8")])
_MEMBERS_AT_ONCE = 1 << 16
# What is written of a document.
COLUMNS = {"cluster": "uint64", "name": "string", "distance": "uint16"}


def cluster(
    sources: Sources | Sequence[str | Path],
    output: str | Path,
    *,
    max_distance: int = 3,
    update_center: bool = False,
    recipe: Recipe = DEFAULT_RECIPE,
    force: bool = False,
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> Summary:
    """Write for each document of sources, in their order, a line of the number of its cluster, its name, a distance.

    output: as its suffix says, .tsv, .csv or .jsonl, each also before .gz or .zst, or .parquet; lines of tabs without.
    A document joins the cluster of the nearest leader within max_distance, of several at one distance that with the
    least fingerprint, then the oldest, or leads the next cluster. The distance is that to the leader. update_center:
    compare with the bits that most of a cluster's members so far have, in place of the leader; fpstore.jobs.centers
    says what that does to max_distance. The rest is as for dedup.
    """
    started = time.monotonic()
    corpus = Corpus(sources, recipe, max_distance, threads)
    result = Path(output).absolute()
    expect_other_files([result], corpus)
    identity = {
        "job": "clusters by centers" if update_center else "clusters by leaders",
        **corpus.identity,
        "results": [str(result)],
        "max_distance": max_distance,
    }
    lines = Lines(form_of(result, TSV), COLUMNS)
    with Job([result], identity, corpus.look(), force=force, forms=[lines], expect_same=corpus.expect_same) as job:
        tally = Tally.of(job.state)
        if not job.is_finished:
            place = corpus.go_on(job.state)
            with (
                closing(AppendFile(job.work_folder, "members", tally.documents * _MEMBER.itemsize)) as members,
                _scratch_store(job.work / "store", max_distance) as store,
            ):
                leaders = _restored(
                    store, members, Votes(job.work_folder, "votes") if update_center else None, max_distance
                )
                for batch in corpus.batches(place):
                    fingerprints = corpus.fingerprints(batch)
                    found = leaders.decide(fingerprints)
                    columns = (found["id"].tolist(), batch.names, found["distance"].tolist())
                    job.files[0].write(lines.encode(*columns))
                    members.write(_members(fingerprints, found).tobytes())
                    members.sync()
                    tally.documents += len(found)
                    tally.results = leaders.next_id
                    tally.skipped, tally.notes = batch.skipped, batch.notes
                    job.commit({"tally": asdict(tally), **corpus.state(batch.end)})
                    if progress:
                        progress(Progress("clustering", corpus.bytes_read, corpus.total_bytes, "bytes"))
            job.commit_last(job.state or {})
        job.finish()
    return summarise(tally, corpus.text_bytes, started, corpus.warning, was_done=job.was_done)


@contextmanager
def _scratch_store(path: Path, max_distance: int) -> Iterator[Store]:
    """An empty store at path: whatever is there is made again from the members."""
    shutil.rmtree(path, ignore_errors=True)
    fpstore.create(path, max_distance=max_distance).close()
    with fpstore.open(path, "w", durability="batch") as store:
        yield store


def _restored(store: Store, members: AppendFile, votes: Votes | None, max_distance: int) -> Leaders | Centers:
    """The leaders, or centers, of those members."""
    next_id = 0
    for known in _chunks(members):
        clusters, first = np.unique(known["cluster"], return_index=True)
        first = first[clusters >= np.uint64(next_id)]
        leaders = known[first]
        if votes is None:
            store.add(leaders["fingerprint"], ids=leaders["cluster"])
        else:
            votes.restore(known["fingerprint"], known["cluster"], leaders)
        next_id += len(leaders)
    if votes is None:
        return Leaders(store, max_distance, next_id)
    for start in range(0, next_id, _MEMBERS_AT_ONCE):
        ids = np.arange(start, min(start + _MEMBERS_AT_ONCE, next_id), dtype=np.uint64)
        store.add(votes.centers(ids), ids=ids)
    return Centers(store, votes, max_distance, next_id)


def _chunks(members: AppendFile) -> Iterator[Array]:
    known = np.frombuffer(members.view(), dtype=_MEMBER)
    for start in range(0, len(known), _MEMBERS_AT_ONCE):
        yield known[start : start + _MEMBERS_AT_ONCE]


def _members(fingerprints: Array, verdicts: Array) -> Array:
    found = np.empty(len(verdicts), dtype=_MEMBER)
    found["fingerprint"], found["cluster"] = fingerprints, verdicts["id"]
    return found
