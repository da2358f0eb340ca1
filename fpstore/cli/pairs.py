"""`fpstore pairs`: every pair of stored fingerprints that are near each other, as lines."""

import sys

import click

from fpstore.cli.progress import progress_bar
from fpstore.cli.values import store_argument

EPILOG = """\b
Examples:
  fpstore pairs web.fps > pairs.tsv
  fpstore pairs web.fps --k 1 --count
"""

LINE = "{:016x}\t{:016x}\t{}\n"
JSON_LINE = '{{"first": "{:016x}", "second": "{:016x}", "distance": {}}}\n'


@click.command(short_help="Find all pairs that are near each other.", epilog=EPILOG)
@store_argument
@click.option(
    "--k", type=int, help="The largest Hamming distance, up to that of the store's plan.  [default: the store's]"
)
@click.option("--count", "count_only", is_flag=True, help="Print only how many pairs there are.")
@click.option("--memory", default="1GiB", show_default=True, help="The budget for fingerprints held at once.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
def command(store: str, k: int | None, count_only: bool, memory: str, as_json: bool) -> None:
    """Print every pair of distinct fingerprints in STORE within distance k, once: first, second, distance.

    The smaller fingerprint comes first; the pairs are in no particular order, printed as they are found. A fingerprint
    that several documents share is one fingerprint: its documents are what a probe of it prints.
    """
    import fpstore

    with fpstore.open(store) as opened, progress_bar(results_follow=count_only) as bar:
        if count_only:
            count = opened.count_pairs(k, memory=memory, progress=bar)
            click.echo(f'{{"pairs": {count}}}' if as_json else str(count))
            return
        line = JSON_LINE if as_json else LINE
        for found in opened.pairs(k, memory=memory, progress=bar):
            columns = (found.first.tolist(), found.second.tolist(), found.distance.tolist())
            sys.stdout.write("".join(map(line.format, *columns)))
