"""`fpstore pairs`: every pair of stored fingerprints that are near each other, as lines."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli import signed as signatures
from fpstore.cli.columns import header_option, refuse_signed, signed_option, written, written_ids
from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import (
    PRINTED_ROWS,
    WHO_OR_RANKS,
    engine_options,
    given_of,
    pairs_rank,
    rank_of,
    rank_options,
    similar_pairs_rank,
    workers_option,
)
from fpstore.cli.similar import similarity_option
from fpstore.cli.stores import is_listing, opened_store, opened_to_ask
from fpstore.cli.subcommand import OF_BITS, OF_SIGNATURES, refuse_unused, subcommand
from fpstore.cli.values import distance_option, store_argument

if TYPE_CHECKING:
    from fpstore import IdPairs, Pairs, Store
    from fpstore.cluster import Shards
    from fpstore.types import Array, Paired

EPILOG = """\b
Examples:
  fpstore pairs web.fpstore > pairs.tsv
  fpstore pairs web.fpstore -k 1 --count
  fpstore pairs web.fpstore --of ids --json
"""

# By what the pairs are of: the names of the columns.
COLUMNS = {"fingerprints": ("first", "second"), "ids": ("first_id", "second_id")}
LINE = "{}\t{}\t{}\n"
# Of each, the two names of columns, and the quotes around their values: ids come with theirs.
JSON_LINE = '{{{{"format": "fpstore.pairs/1", "{0}": {2}{{}}{2}, "{1}": {2}{{}}{2}, "distance": {{}}}}}}\n'
QUOTES = {"fingerprints": '"', "ids": ""}


@subcommand("pairs", short_help="Find all pairs that are near each other.", epilog=EPILOG)
@store_argument
@distance_option("The largest Hamming distance, up to that of the store's plan.  [default: the store's]")
@similarity_option("Of a store of signatures: the least estimated similarity.  [default: all that share a band]")
@click.option(
    "--of",
    type=click.Choice(["fingerprints", "ids"]),
    default="fingerprints",
    show_default=True,
    help="Two fingerprints that are near; or the ids of every two rows that are near or equal.",
)
@click.option("--count", "count_only", is_flag=True, help="Print only how many pairs there are.")
@click.option("--memory", default="1GiB", show_default=True, help="The budget for fingerprints held at once.")
@workers_option("How many processes share the work; then the lines are in order.  [default: 1]")
@engine_options
@rank_options
@header_option
@signed_option
def command(
    store: str,
    max_distance: int | None,
    min_similarity: float | None,
    of: "Paired",
    count_only: bool,
    memory: str,
    header: bool,
    signed: bool,
    **given: Any,
) -> None:
    """Print every pair of distinct fingerprints in STORE within distance k, once: first, second, distance.

    With --of ids a line for every two rows of different ids, of which the fingerprints are near or equal: first_id,
    second_id, distance. Of the two, the smaller comes first, as numbers without a sign, names by their bytes; the lines
    are in no particular order, printed as they are found. A fingerprint that several documents share is one.

    STORE may be a list of stores, NAME.shards.json: rows are paired whichever of its stores they lie in, while nobody
    writes to them.

    With --workers, other than 1, processes share the work and --memory; the lines are then by the first of a pair, then
    by the second, names in the order in which they were first added. So they are with --engine ray and --engine spark,
    which have the processes of a cluster do the tasks, and with --folder, where an interrupted command goes on. Where
    something else starts processes, such as Slurm, each of W of them does its tasks with --rank, --world-size and
    --folder; then the same command without --rank prints what all have found.
    """
    one_of, asked = rank_of(given), given_of(given, WHO_OR_RANKS)
    if is_listing(store):
        refuse_unused(OF_SIGNATURES)
        if one_of:
            pairs_rank(store, one_of, max_distance=max_distance, of=of, memory=memory)
        else:
            _print_list(store, asked, max_distance, of, memory, count_only=count_only, header=header, signed=signed)
        return
    with opened_store(store) as opened:
        if opened.kind == "minhash":
            refuse_unused(OF_BITS)
            refuse_signed(opened)
            similar = {"min_similarity": min_similarity, "memory": memory}
            if one_of:
                similar_pairs_rank(store, one_of, **similar)
            elif asked:
                signatures.print_shared(opened, asked, min_similarity, memory, header=header, signed=signed)
            else:
                signatures.print_pairs(
                    opened, min_similarity, memory, count_only=count_only, header=header, signed=signed
                )
            return
        refuse_unused(OF_SIGNATURES)
        refuse_signed(opened, fingerprints=of == "fingerprints", ids=of == "ids")
        if one_of:
            pairs_rank(store, one_of, max_distance=max_distance, of=of, memory=memory)
            return
        if asked:
            _print_shared(opened, asked, max_distance, of, memory, header=header, signed=signed)
            return
        _print_pairs(opened, max_distance, of, memory, count_only=count_only, header=header, signed=signed)


def _print_list(
    path: str,
    asked: dict[str, Any],
    max_distance: int | None,
    of: "Paired",
    memory: str,
    *,
    count_only: bool,
    header: bool,
    signed: bool,
) -> None:
    """The pairs of a list of stores, as of one store of all their rows."""
    with opened_to_ask(path) as opened:
        refuse_signed(opened, fingerprints=of == "fingerprints", ids=of == "ids")
        if asked:
            _print_shared(opened, asked, max_distance, of, memory, header=header, signed=signed)
            return
        found = opened.pairs(max_distance=max_distance, of=of, memory=memory, threads=common().threads)
        if count_only:
            _print_count(sum(map(len, found)))
        else:
            _print_found(opened, found, of=of, header=header, signed=signed)


def _print_count(count: int) -> None:
    if common().as_json:
        print_document("pairs-count", {"pair_count": count})
    else:
        click.echo(str(count))


def _print_pairs(
    opened: "Store",
    max_distance: int | None,
    of: "Paired",
    memory: str,
    *,
    count_only: bool,
    header: bool,
    signed: bool,
) -> None:
    with progress_bar(results_follow=count_only) as bar:
        if count_only:
            count = opened.count_pairs(
                max_distance=max_distance, of=of, memory=memory, threads=common().threads, progress=bar
            )
            _print_count(count)
            return
        _print_found(
            opened,
            opened.pairs(max_distance=max_distance, of=of, memory=memory, threads=common().threads, progress=bar),
            header=header,
            signed=signed,
            of=of,
        )


def _print_shared(
    opened: "Store | Shards",
    asked: dict[str, Any],
    max_distance: int | None,
    of: "Paired",
    memory: str,
    *,
    header: bool,
    signed: bool,
) -> None:
    from fpstore.cluster import pairs

    with (
        progress_bar(results_follow=False) as bar,
        pairs(opened.path, max_distance=max_distance, of=of, memory=memory, progress=bar, **asked) as found,
    ):
        few = (some[first : first + PRINTED_ROWS] for some in found for first in range(0, len(some), PRINTED_ROWS))
        _print_found(opened, few, of=of, header=header, signed=signed)


def _print_found(
    opened: "Store | Shards", batches: "Iterable[Pairs | IdPairs]", *, of: "Paired", header: bool, signed: bool
) -> None:
    from fpstore import IdPairs

    as_json = common().as_json
    line = JSON_LINE.format(*COLUMNS[of], QUOTES[of]) if as_json else LINE
    if header:
        sys.stdout.write(LINE.format(*COLUMNS[of], "distance"))
    for found in batches:
        if isinstance(found, IdPairs):
            first, second = (written_ids(ids, signed, as_json) for ids in (found.first_id, found.second_id))
        else:
            first, second = (written(keys, signed, opened.bits) for keys in (found.first, found.second))
        _write(line, first, second, found.distance)


def _write(line: str, first: Iterable[object], second: Iterable[object], distance: "Array") -> None:
    sys.stdout.write("".join(map(line.format, first, second, distance.tolist())))
