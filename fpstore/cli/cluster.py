"""`fpstore cluster`: the number of the cluster that each document is in."""

import click

from fpstore.cli.corpora import (
    corpus_options,
    expect_lasting_output,
    expect_summary,
    output_file,
    output_option,
    recipe_of_job,
    tell,
    write_summary,
)
from fpstore.cli.progress import progress_bar
from fpstore.cli.values import DEFAULT_K, FILE_PATH, distance_option

EPILOG = """\b
Examples:
  fpstore cluster crawl.jsonl.zst -o clusters.tsv
  fpstore cluster documents/ --format text --recipe code | sort -n | cut -f 1,2
  fpstore cluster crawl.jsonl.zst -o components.tsv --components -k 2
  fpstore cluster monday.jsonl -o monday.tsv --store clusters.fpstore
  fpstore cluster tuesday.jsonl -o tuesday.tsv --store clusters.fpstore    (joins Monday's clusters, or begins new ones)
"""


@click.command(short_help="Group near-duplicate documents.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@output_option
@distance_option("The largest Hamming distance between near-duplicates.  [default: 3, or that of STORE]")
@click.option(
    "--update-center",
    is_flag=True,
    help="Compare with the bits that most members of a cluster have, in place of its first document.",
)
@click.option("--components", is_flag=True, help="Connect all that are near each other, also by way of others.")
@click.option(
    "--store",
    metavar="STORE",
    type=FILE_PATH,
    help="Go on with the clusters of earlier jobs, which are in STORE; it is made where there is none.",
)
@corpus_options
def command(
    inputs: tuple[str, ...],
    output: str | None,
    max_distance: int | None,
    update_center: bool,
    components: bool,
    store: str | None,
    format: str,
    text_column: str | int | None,
    html: bool,
    threads: int,
    id_column: str | int | None,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
    summary_path: str | None,
    force: bool,
) -> None:
    """Print a line for each document of every INPUT, in their order: number of its cluster, name, distance.

    A document joins the cluster of the nearest leader within distance k, of several at one distance that with the
    least fingerprint, then the oldest, or becomes the leader of the next. The distance is that to the leader. So
    members of a cluster are within 2k of each other, and leaders further than k apart.

    With --update-center the leader is replaced by a center that moves with each member: a bit of it is what most
    members have, or what the first has where as many have it as not. The distance is that to the center as it was when
    the document came; in the end it can be more than k, and two centers can be nearer than that.

    With --components, documents are in one cluster if a chain of documents, each within k of the next, joins them.
    The distance is that to the first document of the cluster, and can be more than k. This holds 40 bytes for each
    document, and finds the pairs in files.

    With --store the documents join the clusters of earlier jobs with STORE, as if all documents came in one job: the
    numbers go on. STORE has a row for each cluster: the fingerprint of its first document, with the number as its id,
    and the document's name. With --update-center STORE also keeps the bit counts of each cluster, 264 bytes; all jobs
    with one STORE are with --update-center, or all without. Until the job is done nobody else may write to STORE.

    FILE has these columns by name in .csv (with a header), .jsonl and .parquet. With -o, what is interrupted goes on
    when the same command is given again; until it is done, all of it is in the folder FILE.job. When it is done
    .FILE.done remains: the same command again does nothing.
    """
    from fpstore import jobs

    if update_center and components:
        raise click.UsageError("--update-center and --components: expected one of the two")
    if store is not None and components:
        raise click.UsageError("--store and --components: found both, expected one: a new document joins components")
    expect_lasting_output(output, store)
    recipe = recipe_of_job(store, recipe_name, idf_path)
    expect_summary(summary_path, output)
    sources = jobs.Sources(inputs, format, text_column, html, skip_bad, id_column)
    with output_file(output) as path, progress_bar() as bar:
        if components:
            summary = jobs.components(
                sources,
                path,
                max_distance=DEFAULT_K if max_distance is None else max_distance,
                recipe=recipe,
                force=force,
                threads=threads,
                progress=bar,
            )
        else:
            summary = jobs.cluster(
                sources,
                path,
                store=store,
                max_distance=max_distance,
                update_center=update_center,
                recipe=recipe,
                force=force,
                threads=threads,
                progress=bar,
            )
    new = f", new {summary.new}" if store is not None else ""
    write_summary(summary_path, summary)
    tell(output, summary, f"clusters {summary.results}{new}")
