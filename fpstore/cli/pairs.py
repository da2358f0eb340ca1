"""`fpstore pairs`: every pair of stored fingerprints that are near each other, as lines."""

import sys

import click

from fpstore.cli.columns import header_option, signed_option, written
from fpstore.cli.progress import progress_bar
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import distance_option, store_argument

EPILOG = """\b
Examples:
  fpstore pairs web.fpstore > pairs.tsv
  fpstore pairs web.fpstore -k 1 --count
"""

HEADER = "first\tsecond\tdistance\n"
LINE = "{}\t{}\t{}\n"
JSON_LINE = '{{"format": "fpstore.pairs/1", "first": "{}", "second": "{}", "distance": {}}}\n'


@subcommand("pairs", short_help="Find all pairs that are near each other.", epilog=EPILOG)
@store_argument
@distance_option("The largest Hamming distance, up to that of the store's plan.  [default: the store's]")
@click.option("--count", "count_only", is_flag=True, help="Print only how many pairs there are.")
@click.option("--memory", default="1GiB", show_default=True, help="The budget for fingerprints held at once.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@header_option
@signed_option
def command(
    store: str,
    max_distance: int | None,
    count_only: bool,
    memory: str,
    as_json: bool,
    header: bool,
    signed: bool,
) -> None:
    """Print every pair of distinct fingerprints in STORE within distance k, once: first, second, distance.

    The smaller fingerprint, as unsigned, comes first; the pairs are in no particular order, printed as they are found.
    A fingerprint that several documents share is one fingerprint: its documents are what a probe of it prints.
    """
    import fpstore

    with fpstore.open(store) as opened, progress_bar(results_follow=count_only) as bar:
        if count_only:
            count = opened.count_pairs(max_distance=max_distance, memory=memory, progress=bar)
            click.echo(f'{{"format": "fpstore.pairs/1", "pair_count": {count}}}' if as_json else str(count))
            return
        if header:
            sys.stdout.write(HEADER)
        line = JSON_LINE if as_json else LINE
        for found in opened.pairs(max_distance=max_distance, memory=memory, progress=bar):
            columns = (written(found.first, signed, True), written(found.second, signed, True), found.distance.tolist())
            sys.stdout.write("".join(map(line.format, *columns)))
