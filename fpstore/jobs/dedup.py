"""The job `dedup`: of each group of near-duplicates in a corpus one is kept, the others are named with the reason."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from fpstore.arrays import as_count
from fpstore.errors import PathLike
from fpstore.jobs.arguments import expect_paths
from fpstore.jobs.changed import advised
from fpstore.jobs.corpus import Corpus, Inputs, Rows
from fpstore.jobs.each import MARKER, EachFile
from fpstore.jobs.forms import TSV, form_of
from fpstore.jobs.journal import Job
from fpstore.jobs.keep import Keep
from fpstore.jobs.keeping import DUPLICATE_OF, Keeping
from fpstore.jobs.naming import fault_of_name
from fpstore.jobs.places import expect_other_files
from fpstore.jobs.ranks import Leaving
from fpstore.jobs.repeats import Repeats
from fpstore.jobs.reread import kept_lines
from fpstore.jobs.rows import Lines
from fpstore.jobs.runs import FirstRun, RankedRun
from fpstore.jobs.settings import Asked, settle_settings
from fpstore.jobs.shards import Sharding, make_output
from fpstore.jobs.sharing import Team, decided_by, shared
from fpstore.jobs.standing import Workplace, own_workplace, release, standing_workplace
from fpstore.jobs.summary import DedupSummary, Tally, summarise
from fpstore.progress import OnProgress
from fpstore.text import Recipe
from fpstore.text.confirm import Confirm
from fpstore.types import expect_flags

_DROPPED = {"name": "string", "kept": "string"}
_TAGS = {"kept": "bool", DUPLICATE_OF: "string"}
_MEASURE = {"measure": "float64"}


@advised
def dedup(
    inputs: Inputs | Iterable[PathLike | Rows],
    output: PathLike,
    *,
    dropped: PathLike | None = None,
    keep: str = "first",
    tag: bool = False,
    shards: bool = False,
    store: PathLike | None = None,
    recipe: Recipe | None = None,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    confirm: str | None = "default",
    force: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> DedupSummary:
    """Write the documents of inputs that are near none kept before to output, and to dropped the others and why.

    inputs: paths and URLs, and rows: iterables of mappings, such as data sets of Hugging Face. Both results are written
    as their suffixes say: .jsonl (or .ndjson), .csv, .tsv, each also before .gz or .zst, or .parquet. output has
    all columns of its documents; JSON lines without a suffix, each as it was read where it was read as one. Documents
    that are whole files or pages have a name and a text. dropped: name, name of the kept document, distance and, with
    confirm, how alike the two are; without a suffix lines of tabs. keep: "first", or "longest", "max:FIELD",
    "min:FIELD": decided as if the longest, or that with the largest or the smallest value, came first;
    fpstore.jobs.keep says how values compare. tag: write all documents to output, with more columns: kept, duplicate_of
    (the name of the kept document), distance and, with confirm, measure. shards: output is a folder, in which each
    input, a file of JSON lines, CSV, TSV or Parquet, has a file of its name and format, with what is kept of it; one in
    a folder of the inputs as it is called there. Workers write them; _SUCCESS, a line of JSON for each, tells that all
    are there. store: a standing store, with which the corpus is compared too, and which gets the kept documents; made
    where there is none. recipe, max_distance: those of the store by default, else DEFAULT_RECIPE and 6. bands,
    rows_per_band: of a recipe of sketch minhash, in place of a distance: those of the store by default, else 16 and 8;
    documents are near that share a band, and have an estimated similarity of min_similarity, if that is given. The
    results then have it, as similarity, in place of the distance, and the nearest has the largest; the ids of a store
    are numbers. confirm: "jaccard>=0.8" or "cosine>=0.9", which a document and a kept one have to reach, by the
    shingles of the recipe, before it is dropped; None: what is near is dropped; "default": jaccard>=0.82, or None for a
    store that holds documents without their texts. force: begin again, and replace what is there. threads: for
    fingerprints; all processors by default. workers: how many processes read and measure the inputs, portion by
    portion, while this one decides; engine: "local", those of this machine, or "ray" or "spark", whose workers see
    inputs and output at the same paths; address: of its cluster. folder: where they hand over, in place of one beside
    output; processes that no engine starts may have done so before by `measure_rank`, and it is the caller's to remove.
    The results are the same. Standard input, pipes and rows are measured here. world_size: of shards that so many of
    these processes are to write, by `measure_rank` again: the call that has decided ends, with the tasks that there are
    as detail["tasks_left"], and the next one does what nobody has done.

    Goes on where a run with the same arguments was interrupted; the results are those of one run. Where such a run was
    finished, and inputs and results are as they were then, nothing is done, and the summary is that of then.
    Raises what fpstore.inputs.documents does, FileExistsError, ValueError for arguments that do not fit the store or
    the interrupted job, and JobError for what stands in the way on the disk.
    """
    started = time.monotonic()
    expect_flags(tag=tag, shards=shards, force=force)
    if tag and shards:
        raise ValueError("tag, shards: found both, expected one: shards have the rows of the inputs as they are")
    expect_paths(output=output, dropped=dropped, store=store, shards=shards)
    kept_one = Keep.parse(keep)
    team = Team.asked(workers, engine, address, folder)
    if world_size is not None and not shards:
        raise ValueError("world_size: expected it with shards alone, which ranks write; all else the job writes")
    if world_size is not None and as_count(world_size, "world_size") and folder is None:
        raise ValueError("folder: found none, expected one that all processes of world_size share")
    standing = None if store is None else Path(store).absolute()
    settings = settle_settings(standing, recipe, Asked(max_distance, bands, rows_per_band, min_similarity))
    own = settings.recipe, settings.max_distance, threads
    each = EachFile(inputs) if shards else None
    how: dict[str, Any] = {} if each is None else {"passed_over": each.passed_over}
    sources = inputs if each is None else each.inputs
    corpus = Corpus(sources, *own, all_columns=True, drops=True, cut=settings.cut, **how)
    if not kept_one.is_first and not corpus.is_read_again:
        raise ValueError(f"standard input: found keep {keep}, which reads the inputs twice; expected files")
    check = Confirm.settle(confirm, has_texts=settings.can_confirm)
    kept_in = Path(output).absolute()
    results = [kept_in if each is None else kept_in / MARKER, *([] if dropped is None else [Path(dropped).absolute()])]
    if each is not None:
        each.expect_outside(kept_in, standing, *results[1:])
        make_output(kept_in)
    expect_other_files(results, corpus.files, standing)
    tags = _TAGS | settings.nearness | (_MEASURE if check else {}) if tag else {}
    sharding = None if each is None else Sharding(kept_in, each)
    forms: list[Any] = [Keeping(results[0], corpus, tags) if sharding is None else sharding]
    if dropped is not None:
        columns = _DROPPED | settings.nearness | (_MEASURE if check else {})
        forms.append(Lines(form_of(results[1], TSV), columns, "dropped"))
    if settings.named:
        corpus.check(lambda name, row: fault_of_name(name))
    for form in forms:
        corpus.check_form(form)
    decides = decided_by(settings, check, keep=str(kept_one), store=standing and str(standing), shards=shards)
    identity = {
        "job": "dedup",
        **corpus.identity,
        "results": list(map(str, results)),
        "tag": tag,
        **{name: value for name, value in decides.items() if name != "shards" or shards},
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
    leaving = Leaving()
    with leaving, closing(job), job:
        if sharding is not None and job.state is None:
            sharding.begin(job, force=force)
        if not job.is_finished:
            texts = check is not None
            keeps = texts and kept_one.is_first

            def opened() -> AbstractContextManager[Workplace]:
                """Where it decides, which is known once others measure."""
                threads = corpus.deciding_threads
                if standing is None:
                    keeping = forms[0] if keeps and sharding is None else None
                    lines = None if keeping is None else kept_lines(job, corpus, keeping)
                    return own_workplace(job, settings, texts=texts, threads=threads, lines=lines)
                return standing_workplace(standing, job, settings, texts=texts, threads=threads)

            with (
                shared(job, corpus, team, "dedup", decides, keeps=keeps) as free,
                closing(Repeats(job, corpus)) as repeats,
                opened() as workplace,
            ):
                kind = FirstRun if kept_one.is_first else RankedRun
                run = kind(job, corpus, workplace, repeats, settings, check, forms, kept_one, tag, progress)
                run.to_the_end()
                if standing is not None:
                    workplace.store.wait()
                if sharding is not None and world_size is not None and folder is not None:
                    run.pause()
                    leaving.leave(job, corpus, sharding, folder)
                if sharding is not None:
                    sharding.write(job, corpus, free(), progress)
                run.commit_last()
        elif sharding is not None and not job.was_done:
            sharding.expect_whole([], job.packed)  # before anything tells that all shards are there
        if standing is not None and not job.was_done:
            release(standing, job)
        job.beside = [] if sharding is None else sharding.places
        job.finish()
        if sharding is not None and job.was_done:
            sharding.expect_whole(job.beside_was)
    tally = Tally.of(job.state)
    if leaving.tasks:
        tally.detail = {"tasks_left": leaving.tasks}
    summary = summarise(DedupSummary, tally, corpus, started, was_done=job.was_done)
    return replace(summary, confirm=None if check is None else str(check))
