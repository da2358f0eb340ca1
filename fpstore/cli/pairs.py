"""`fpstore pairs`: every pair of stored fingerprints, or of documents, that are near each other, as lines."""

import sys

import click

from fpstore.cli.corpora import corpus_options, output_file, output_option, tell
from fpstore.cli.progress import progress_bar
from fpstore.cli.texts import recipe_asked
from fpstore.cli.values import FILE_PATH, distance_option

EPILOG = """\b
Examples:
  fpstore pairs web.fps > pairs.tsv
  fpstore pairs web.fps -k 1 --count
  fpstore pairs --text crawl.jsonl.zst -k 3 > pairs.tsv
"""

LINE = "{:016x}\t{:016x}\t{}\n"
JSON_LINE = '{{"first": "{:016x}", "second": "{:016x}", "distance": {}}}\n'
DEFAULT_DISTANCE = 3
OF_STORES = ("count_only", "as_json")
OF_TEXTS = ("output", "format", "text_column", "html", "threads", "recipe_name", "idf_path", "skip_bad", "force")


@click.command(short_help="Find all pairs that are near each other.", epilog=EPILOG)
@click.argument("inputs", metavar="STORE | INPUT...", nargs=-1, required=True, type=FILE_PATH)
@click.option("--text", "of_texts", is_flag=True, help="Find the pairs of documents of every INPUT, without a store.")
@distance_option("The largest Hamming distance, up to that of the store's plan.  [default: the store's, or 3]")
@click.option("--count", "count_only", is_flag=True, help="Print only how many pairs of fingerprints STORE has.")
@click.option("--memory", default="1GiB", show_default=True, help="The budget for fingerprints held at once.")
@click.option("--json", "as_json", is_flag=True, help="Of STORE: print a JSON object a line.")
@output_option
@corpus_options
@click.pass_context
def command(
    context: click.Context,
    inputs: tuple[str, ...],
    of_texts: bool,
    max_distance: int | None,
    count_only: bool,
    memory: str,
    as_json: bool,
    output: str | None,
    format: str,
    text_column: str | int | None,
    html: bool,
    threads: int,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
    force: bool,
) -> None:
    """Print every pair of distinct fingerprints in STORE within distance k, once: first, second, distance.

    The smaller fingerprint comes first; the pairs are in no particular order, printed as they are found. A fingerprint
    that several documents share is one fingerprint: its documents are what a probe of it prints.

    With --text the pairs are those of the documents of every INPUT: the names of the two, the earlier first, and the
    distance. Equal documents are pairs too, n of them n (n - 1) / 2. With -o, what is interrupted goes on when the
    same command is given again. The other options below --json are for --text only.
    """
    _expect_only(context, OF_STORES if of_texts else OF_TEXTS, of_texts)
    if not of_texts:
        if len(inputs) > 1:
            raise click.UsageError("found several stores, expected one; or --text and inputs")
        _print_pairs(inputs[0], max_distance, count_only, memory, as_json)
        return
    from fpstore import jobs

    recipe = recipe_asked(recipe_name, idf_path)
    sources = jobs.Sources(inputs, format, text_column, html, skip_bad)
    distance = DEFAULT_DISTANCE if max_distance is None else max_distance
    with output_file(output) as path, progress_bar() as bar:
        summary = jobs.document_pairs(
            sources,
            path,
            max_distance=distance,
            recipe=recipe,
            force=force,
            threads=threads,
            memory=memory,
            progress=bar,
        )
    tell(output or "fpstore", summary, f"pairs {summary.results}")


def _expect_only(context: click.Context, others: tuple[str, ...], of_texts: bool) -> None:
    """Refuse options that were given and are for the other of the two uses."""
    for name in others:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = next(each for each in context.command.params if each.name == name)
            raise click.UsageError(f"{option.opts[-1]} goes {'without' if of_texts else 'with'} --text")


def _print_pairs(store: str, max_distance: int | None, count_only: bool, memory: str, as_json: bool) -> None:
    import fpstore

    with fpstore.open(store) as opened, progress_bar(results_follow=count_only) as bar:
        if count_only:
            count = opened.count_pairs(max_distance=max_distance, memory=memory, progress=bar)
            click.echo(f'{{"pairs": {count}}}' if as_json else str(count))
            return
        line = JSON_LINE if as_json else LINE
        for found in opened.pairs(max_distance=max_distance, memory=memory, progress=bar):
            columns = (found.first.tolist(), found.second.tolist(), found.distance.tolist())
            sys.stdout.write("".join(map(line.format, *columns)))
