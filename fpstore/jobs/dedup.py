"""The job `dedup`: of each group of near-duplicates in a corpus one is kept, the others are named with the reason."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fpstore.jobs.arguments import expect_path
from fpstore.jobs.confirm import DEFAULT_CONFIRM, Confirm
from fpstore.jobs.corpus import Corpus, Sources, expect_other_files
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.keeping import Keeping
from fpstore.jobs.rows import Lines
from fpstore.jobs.runs import FirstRun, LongestRun
from fpstore.jobs.standing import own_workplace, release, settle_settings, standing_workplace
from fpstore.jobs.summary import Summary, Tally, summarise
from fpstore.progress import OnProgress
from fpstore.text import Recipe

_RUNS = {"first": FirstRun, "longest": LongestRun}
_DROPPED = {"name": "string", "kept": "string", "distance": "uint16"}
_MEASURE = {"measure": "float64"}


def dedup(
    sources: Sources | Sequence[str | Path],
    kept: str | Path,
    *,
    dropped: str | Path | None = None,
    keep: str = "first",
    store: str | Path | None = None,
    recipe: Recipe | None = None,
    max_distance: int | None = None,
    confirm: str | None = "default",
    force: bool = False,
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> Summary:
    """Write the documents of sources that are near none kept before to kept, and to dropped the others and why.

    Both are written as their suffixes say: .jsonl (or .ndjson, .json), .csv, .tsv, each also before .gz or .zst, or
    .parquet. kept has all columns of its documents; JSON lines without a suffix, each as it was read where it was read
    as one. Documents that are whole files or pages have a name and a text. dropped: name, name of the kept document,
    distance and, with confirm, how alike the two are; without a suffix lines of tabs.
    keep: "first", or "longest": decided as if the longest came first. store: a standing store, with which the
    corpus is compared too, and which gets the kept documents; made where there is none. recipe, max_distance: those of
    the store by default, else DEFAULT and 6. confirm: "jaccard>=0.8" or "cosine>=0.9", which a document and a kept one
    have to reach, by the shingles of the recipe, before it is dropped; None: what is near is dropped; "default":
    jaccard>=0.82, or None for a store that holds documents without their texts. force: begin again, and replace what is
    there. threads: for fingerprints; all processors by default.

    Goes on where a run with the same arguments was interrupted; the results are those of one run. Where such a run was
    finished, and inputs and results are as they were then, nothing is done, and the summary is that of then.
    Raises what fpstore.inputs.documents does, FileExistsError, ValueError for arguments that do not fit the store or
    the interrupted job, and JobError for what stands in the way on the disk.
    """
    started = time.monotonic()
    expect_path("kept", kept)
    if keep not in _RUNS:
        raise ValueError(f"keep: found {keep!r:.40}, expected first or longest")
    standing = None if store is None else Path(store).absolute()
    settings = settle_settings(standing, recipe, max_distance)
    corpus = Corpus(sources, settings.recipe, settings.max_distance, threads, all_columns=True)
    if keep == "longest" and len(corpus.files) < len(corpus.sources):
        raise ValueError("standard input: found keep longest, which reads the inputs twice; expected files")
    if confirm == "default":
        confirm = DEFAULT_CONFIRM if settings.can_confirm else None
    check = None if confirm is None else Confirm.parse(confirm)
    results = [Path(path).absolute() for path in (kept, dropped) if path is not None]
    expect_other_files(results, corpus, standing)
    keeping = Keeping(results[0], corpus)
    corpus.fault_of = keeping.fault_of
    forms: list[Any] = [keeping]
    if dropped is not None:
        forms.append(Lines(form_of(results[1], TSV), _DROPPED | (_MEASURE if check else {})))
    identity = {
        "job": "dedup",
        **corpus.identity,
        "results": list(map(str, results)),
        "keep": keep,
        "store": standing and str(standing),
        "max_distance": settings.max_distance,
        "confirm": check and str(check),
    }
    job = Job(
        results,
        identity,
        corpus.look(),
        force=force,
        store=settings.store,
        forms=forms,
        expect_same=corpus.expect_same,
    )
    with job:
        if not job.is_finished:
            texts = check is not None
            if standing is None:
                opened = own_workplace(job, settings, texts=texts)
            else:
                opened = standing_workplace(standing, job, settings, texts=texts)
            with opened as workplace:
                run = _RUNS[keep](job, corpus, workplace, settings, check, forms, progress)
                run.to_the_end()
                if standing is not None:
                    workplace.store.wait()
                run.commit_last()
        if standing is not None and not job.was_done:
            release(standing, job)
        tally = Tally.of(job.state)
        job.finish()
    summary = summarise(tally, corpus.text_bytes, started, corpus.warning, was_done=job.was_done)
    return replace(summary, confirm=None if check is None else str(check))
