"""`fpstore report`: where the bytes of a store go, what other codecs would have cost, and its spikes."""

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_store
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import store_argument


@subcommand(
    "report",
    short_help="Print where a store's bytes go.",
    epilog="\b\nExamples:\n  fpstore report web.fpstore\n  fpstore report web.fpstore --json | jq .ratio_to_raw\n",
)
@store_argument
def command(store: str) -> None:
    """Print the compression report of STORE. It reads every table once.

    For each table and for the store: keys, bytes, bits per key, and the ratio to raw 64-bit keys and to the entropy
    bound. Then Huffman code lengths, the histogram behind them, and what each codec would have cost on this data.
    Then both layouts, slots and blocks, side by side: bytes, directory, what a query decodes and takes.
    Last, in a store with ids, the fingerprints that the most rows have, such as those of empty and error pages, and how
    many rows share one.
    """
    with opened_store(store) as opened, progress_bar() as bar:
        report = opened.report(progress=bar)
    if common().as_json:
        print_document("report", report.to_json())
    else:
        click.echo(report.to_text())
