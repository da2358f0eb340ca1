"""`fpstore dedup`: one document of each group of near-duplicates."""

from pathlib import Path
from typing import Any

import click

from fpstore.cli.common import common
from fpstore.cli.corpora import (
    FORMS,
    confirm_option,
    corpus_options,
    expect_lasting_output,
    expect_summary,
    output_file,
    recipe_of_job,
    tell,
    tell_confirmed,
    write_summary,
)
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import measure_rank, measuring_options, rank_of, shards_rank, who_of
from fpstore.cli.subcommand import STANDARD_OUTPUT, subcommand
from fpstore.cli.values import FILE_PATH, RESULT_PATH, ResultPath, counted, distance_option

EPILOG = """\b
Examples:
  fpstore dedup crawl.jsonl.zst -o kept.jsonl --dropped dropped.tsv
  fpstore dedup crawl.warc.gz -o kept.jsonl --recipe text-1 --confirm "jaccard>=0.8"
  fpstore dedup documents/ --format text -o kept.jsonl --keep longest
  fpstore dedup pages.parquet -o newest.parquet --text-column body --id-column url --keep max:fetched
  fpstore dedup pages.jsonl -o tagged.jsonl --tag --summary what-was-done.json
  fpstore dedup 'crawl/*.jsonl.gz' -o kept.jsonl --html --text-column page --workers 8
  fpstore dedup 'crawl/*.jsonl.gz' -o kept.jsonl --folder /shared/job --world-size 8 --rank 3     (one of eight)
  fpstore dedup crawl/ -o kept/ --shards --workers 8            (kept/ has a file for each file under crawl/)
  fpstore dedup monday.jsonl -o monday-new.jsonl --store seen.fpstore
  fpstore dedup tuesday.jsonl -o tuesday-new.jsonl --store seen.fpstore      (new on Tuesday, not on Monday)
"""


@subcommand("dedup", short_help="Keep one of each group of near-duplicate documents.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@click.option(
    "-o",
    "--output",
    "kept",
    metavar="KEPT",
    required=True,
    type=ResultPath("shards"),
    help=f"The kept documents. The suffix says how: {FORMS}; none is .jsonl. - is standard output, JSON lines.",
)
@click.option(
    "--dropped",
    metavar="FILE",
    type=RESULT_PATH,
    help=f"The others, and for which kept one. The suffix says how: {FORMS}; none is .tsv.",
)
@click.option(
    "--keep",
    metavar="WHICH",
    default="first",
    show_default=True,
    help="Which one of a group: first, longest, max:FIELD or min:FIELD, the largest or smallest value of a column or "
    "field. All but first read the inputs twice, and hold 75 bytes for each document.",
)
@click.option(
    "--tag",
    is_flag=True,
    help="Write all documents to KEPT, each with kept, duplicate_of and distance, in place of the kept ones.",
)
@click.option(
    "--shards",
    is_flag=True,
    is_eager=True,
    help="KEPT is a folder: of each file of the inputs it has one of that name and format, with what is kept of it.",
)
@distance_option("The largest Hamming distance between near-duplicates.  [default: 6, or that of STORE]")
@confirm_option("Drop")
@click.option(
    "--store",
    metavar="STORE",
    type=FILE_PATH,
    help="Compare with what is in STORE too, and add what is kept; it is made where there is none.",
)
@measuring_options
@corpus_options
def command(
    inputs: tuple[str, ...],
    kept: str,
    dropped: str | None,
    keep: str,
    tag: bool,
    shards: bool,
    max_distance: int | None,
    confirm: str,
    store: str | None,
    bands: int | None,
    rows_per_band: int | None,
    min_similarity: float | None,
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    id_column: str | int | None,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
    summary_path: str | None,
    force: bool,
    **tasks: Any,
) -> None:
    """Write to KEPT the documents of every INPUT that are near none kept before them.

    A document is dropped if its fingerprint is within distance k of that of a kept one; with --keep longest, as if the
    longest came first, and with max:FIELD the one with the largest value. Values are all numbers, or all texts, which
    compare by their characters: dates as 2024-05-31 are in order. Documents without a value come last, and of equal
    values the first comes first; a field that no document has is refused. KEPT has every kept document with all its
    columns, in the order of the input: JSON lines stand as they were read, and so do CSV in CSV and TSV in TSV; Parquet
    in Parquet has the same schema. Otherwise the columns are those of KEPT, or the fields of its objects; files and
    pages have "name" and "text". Inputs whose columns differ need JSON lines. --dropped has a line for each of the
    others: its name, the name of the nearest kept document, the distance, and with --confirm how alike they are. A name
    is the path of the file, path:line, or path:record:URI, or what --id-column has. With --tag every document is
    written to KEPT, with more columns: kept (true or false), duplicate_of and distance, and with --confirm measure; of
    a kept one these are null. A document without a single token is a duplicate of equal ones only.

    What is interrupted, by Ctrl-C, kill -9 or a power cut, goes on when the same command is given again, and the
    results are the same as without an interruption. Until then all of it is in the folder KEPT.job (and FILE.job).
    --skip-bad may be added then: the job goes on behind the bad line; or mend that. When it is done .KEPT.done remains:
    the same command again does nothing. KEPT and FILE are regular files. What goes to standard output is held in a
    temporary file until all is done, and begins again when it is interrupted.

    With --store the kept documents are added to STORE, under their names; in a STORE whose ids are numbers they are
    numbered on from the largest. With --confirm it keeps their texts too: a later job with --confirm needs them. The
    same INPUT a second time is dropped as a whole, but for documents near more than 64 kept ones and equal to none: by
    --confirm only the nearest 64 are looked at, and where none is alike a document is kept. What equals a kept document
    (the same shingles of the same weights; without any the same text) is dropped for it in any case.
    Until the job is done nobody else may write to STORE.

    With --shards KEPT is a folder. Of each file of the inputs, which are JSON lines, CSV, TSV or Parquet, it has one of
    that name and format, also where nothing of it is kept; what lies in a folder of the inputs is called there as here.
    Workers write the shards. KEPT/_SUCCESS, with a line of JSON for each, tells that all are there, and comes last;
    with --force it goes before the first shard is replaced. In KEPT lies nothing else.

    With --workers other processes read and measure the documents, and with --engine those of a cluster; the results are
    the same. Where something else starts processes, such as Slurm, each of W of them does its tasks with --rank,
    --world-size and --folder; then the same command without --rank does what nobody has done, and writes the results.
    With --shards and --world-size it leaves the shards to them, once it has decided: the ranks are called again, and
    write; and then it ends the job.
    """
    from fpstore import jobs
    from fpstore.jobs.each import MARKER

    if dropped == STANDARD_OUTPUT:
        raise click.UsageError("--dropped -: found standard output, expected a file; only KEPT can be standard output")
    if shards and kept == STANDARD_OUTPUT:
        raise click.UsageError("--shards: found -o -, standard output, expected a folder")
    if shards and tag:
        raise click.UsageError("--shards and --tag: expected one of the two: shards have the rows as they are")
    expect_lasting_output(kept, store)
    recipe = recipe_of_job(store, recipe_name, idf_path)
    expect_summary(summary_path, kept, dropped)
    sources = jobs.Inputs(inputs, format, text_column, html, skip_bad, input_header, id_column)
    if asked := rank_of(tasks):
        alike = None if confirm == "none" else confirm
        how: dict[str, Any] = {
            "recipe": recipe,
            "store": store,
            "max_distance": max_distance,
            "bands": bands,
            "rows_per_band": rows_per_band,
            "min_similarity": min_similarity,
            "confirm": alike,
            "keep": keep,
        }
        if shards:
            shards_rank(sources, asked, kept, **how)
        else:
            measure_rank(sources, asked, **how)
        return
    with output_file(kept, Path(kept, MARKER) if shards else None) as path, progress_bar() as bar:
        summary = jobs.dedup(
            sources,
            path,
            dropped=dropped,
            keep=keep,
            tag=tag,
            shards=shards,
            store=store,
            recipe=recipe,
            max_distance=max_distance,
            bands=bands,
            rows_per_band=rows_per_band,
            min_similarity=min_similarity,
            confirm=None if confirm == "none" else confirm,
            force=force,
            threads=common().threads,
            **who_of(tasks),
            world_size=tasks["world_size"] if shards else None,
            progress=bar,
        )
    refused = tell_confirmed(summary, recipe, confirm, store)
    write_summary(summary_path, summary)
    last = f"fpstore: {counted(summary.without_value, 'document')} without a value for --keep {keep}: they come last"
    became = f"kept {summary.results}, dropped {summary.documents - summary.results}{refused}"
    more = [last] if summary.without_value else []
    if left := summary.detail.get("tasks_left"):
        told = f"{counted(left, 'task')} of shards for --rank 0 to {tasks['world_size'] - 1}, called again"
        more.append(
            f"fpstore: {kept}: decided, not done: leaves {told}; when these have ended this command ends the job"
        )
    tell(kept, summary, became, more=more)
