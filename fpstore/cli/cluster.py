"""`fpstore cluster`: the number of the cluster that each document is in."""

import click

from fpstore.cli.corpora import corpus_options, output_file, output_option, tell
from fpstore.cli.progress import progress_bar
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import recipe_asked
from fpstore.cli.values import FILE_PATH, distance_option

EPILOG = """\b
Examples:
  fpstore cluster crawl.jsonl.zst -o clusters.tsv
  fpstore cluster documents/ --format text --recipe code | sort -n | cut -f 1,2
  fpstore cluster crawl.jsonl.zst -o components.tsv --components -k 2
"""


@subcommand("cluster", short_help="Group near-duplicate documents.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@output_option
@distance_option("The largest Hamming distance between near-duplicates.", default=3)
@click.option(
    "--update-center",
    is_flag=True,
    help="Compare with the bits that most members of a cluster have, in place of its first document.",
)
@click.option("--components", is_flag=True, help="Connect all that are near each other, also by way of others.")
@corpus_options
def command(
    inputs: tuple[str, ...],
    output: str | None,
    max_distance: int,
    update_center: bool,
    components: bool,
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    threads: int,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
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

    FILE has these columns by name in .csv (with a header), .jsonl and .parquet. With -o, what is interrupted goes on
    when the same command is given again; until it is done, all of it is in the folder FILE.job. When it is done
    .FILE.done remains: the same command again does nothing.
    """
    from fpstore import jobs

    if update_center and components:
        raise click.UsageError("--update-center and --components: expected one of the two")
    recipe = recipe_asked(recipe_name, idf_path)
    sources = jobs.Sources(inputs, format, text_column, html, skip_bad, input_header)
    with output_file(output) as path, progress_bar() as bar:
        if components:
            summary = jobs.components(
                sources, path, max_distance=max_distance, recipe=recipe, force=force, threads=threads, progress=bar
            )
        else:
            summary = jobs.cluster(
                sources,
                path,
                max_distance=max_distance,
                update_center=update_center,
                recipe=recipe,
                force=force,
                threads=threads,
                progress=bar,
            )
    tell(output, summary, f"clusters {summary.results}")
