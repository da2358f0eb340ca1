"""`fpstore nearest`: the few nearest stored fingerprints of each of the queries, however far, as lines."""

from typing import Any

import click

from fpstore.cli.columns import refuse_signed
from fpstore.cli.common import common
from fpstore.cli.probe import expect_something, print_found, query_options
from fpstore.cli.stores import is_listing, opened_of_fingerprints, opened_to_ask
from fpstore.cli.subcommand import subcommand

EPILOG = """\b
Examples:
  fpstore nearest web.fpstore 9f3a5c0012ab44de
  fpstore nearest web.fpstore --input new.csv --count 3 > matches.tsv
"""


@subcommand("nearest", short_help="Find the few nearest of a fingerprint or a text.", epilog=EPILOG)
@query_options
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="At most so many of a query."
)
def command(count: int, **given: Any) -> None:
    """Print the nearest fingerprints in STORE of each query, and their ids, however far they are.

    At most N lines of each query, as probe prints them: query, fingerprint, distance and id, the nearest first; of
    equally near ones the smallest fingerprint, then the smallest id. With -k only those within K, and none is no error.
    What lies within the distance of the store is found at once; all is read for what is far. STORE may be a list of
    stores, NAME.shards.json: the nearest are those of all of them.
    """
    max_distance, path = given.pop("max_distance"), given.pop("store")
    threads = common().threads
    expect_something(given)
    similar = "probe finds what is similar, the most similar first"
    with opened_to_ask(path) if is_listing(path) else opened_of_fingerprints(path, "nearest", similar) as opened:
        refuse_signed(opened)
        print_found(
            "nearest",
            lambda store, queries: store.nearest_many(queries, count, max_distance=max_distance, threads=threads),
            opened,
            reach=0,
            **given,
        )
