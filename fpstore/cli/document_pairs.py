"""`fpstore document-pairs`: every pair of documents that are near each other, as lines."""

from typing import Any

import click

from fpstore.cli.common import common
from fpstore.cli.corpora import (
    corpus_options,
    expect_summary,
    output_file,
    output_option,
    recipe_of_job,
    tell,
    write_summary,
)
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import measure_rank, measuring_options, rank_of, who_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, distance_option

EPILOG = """\b
Examples:
  fpstore document-pairs crawl.jsonl.zst -k 3 > pairs.tsv
  fpstore document-pairs crawl.jsonl.zst -o pairs.tsv.zst
"""


@subcommand("document-pairs", short_help="Find all pairs of documents that are near each other.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@distance_option(
    "The largest Hamming distance between near-duplicates.  [default: 3]",
)
@click.option("--memory", default="1GiB", show_default=True, help="The budget for fingerprints held at once.")
@output_option
@measuring_options
@corpus_options
def command(
    inputs: tuple[str, ...],
    max_distance: int | None,
    memory: str,
    output: str | None,
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
    """Print every pair of near-duplicates among the documents of every INPUT: their names, and the distance.

    The earlier document comes first. Equal documents are pairs too, n of them n (n - 1) / 2. With -o, what is
    interrupted goes on when the same command is given again. --workers, --engine, --rank and --folder: as of dedup.
    """
    from fpstore import jobs

    recipe = recipe_of_job(None, recipe_name, idf_path)
    expect_summary(summary_path, output)
    sources = jobs.Inputs(inputs, format, text_column, html, skip_bad, input_header, id_column)
    if asked := rank_of(tasks):
        near: dict[str, Any] = {
            "max_distance": max_distance,
            "bands": bands,
            "rows_per_band": rows_per_band,
            "min_similarity": min_similarity,
        }
        measure_rank(sources, asked, job="document-pairs", recipe=recipe, confirm=None, **near)
        return
    with output_file(output) as path, progress_bar() as bar:
        summary = jobs.document_pairs(
            sources,
            path,
            max_distance=max_distance,
            bands=bands,
            rows_per_band=rows_per_band,
            min_similarity=min_similarity,
            recipe=recipe,
            force=force,
            threads=common().threads,
            **who_of(tasks),
            memory=memory,
            progress=bar,
        )
    write_summary(summary_path, summary)
    tell(output, summary, f"pairs {summary.results}")
