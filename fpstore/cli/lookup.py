"""`fpstore lookup`: every row with one of the ids, as lines."""

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fpstore import Progress
from fpstore.cli import signed as signatures
from fpstore.cli.columns import (
    header_option,
    input_header_option,
    refuse_signed,
    signed_option,
    typed_ids,
    written,
    written_ids,
)
from fpstore.cli.common import common
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_to_ask
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import (
    column,
    format_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore.types import Ids

EPILOG = """\b
Examples:
  fpstore lookup web.fpstore 17 18
  fpstore lookup web.fpstore 17 --json
  fpstore lookup web.fpstore --input wanted.csv --id-column doc_id > rows.tsv
"""

# Ids of one look-up: each reads the ids of the store once.
BATCH_IDS = 1 << 20

HEADER = "id\tfingerprint\n"
LINE = "{}\t{}\n"
JSON_LINE = '{{"format": "fpstore.lookup/1", "id": {}, "fingerprint": "{}"}}\n'


@subcommand("lookup", short_help="Print what is stored with an id.", epilog=EPILOG)
@store_argument
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--input", "input_path", metavar="FILE", help="Look up every id of FILE; - is standard input.")
@click.option(
    "--id-column",
    metavar="COLUMN",
    type=column,
    help="With --input: the column or JSON field of the ids.  [default: the one called id, or the only one]",
)
@format_option
@input_header_option
@skip_bad_option
@header_option
@signed_option
def command(
    store: str,
    ids: tuple[str, ...],
    input_path: str | None,
    id_column: str | int | None,
    format: str,
    input_header: bool | None,
    skip_bad: bool,
    header: bool,
    signed: bool,
) -> None:
    """Print every row of STORE with one of the IDs: decimal numbers, or names as commands print them.

    Each row is a line of id and fingerprint, separated by a tab, in the order of the ids, then of the fingerprints. An
    id that is not there is no error. There is no index of ids: each look-up reads the ids of the store, so ask for many
    at once; 1,048,576 of FILE share one, and each of these is in order.

    Of a store of signatures a line is an id and what is kept of its signature, in hexadecimal.
    """
    from fpstore.inputs import read_ids

    if not ids and input_path is None:
        raise click.UsageError("nothing to look up: expected an ID or --input")
    with opened_to_ask(store) as opened:
        typed = typed_ids(opened, ids)
        if not opened._settings.ids:
            raise click.UsageError(f"{store}: the store has no ids, expected one with ids to look up")
        refuse_signed(opened)
        if header:
            sys.stdout.write(signatures.HEADERS["lookup"] if opened.kind == "minhash" else HEADER)
        if len(typed):
            _print_rows(opened, typed, signed)
        if input_path is None:
            return
        reader = read_ids(
            [input_path],
            format=format,
            id_column=id_column,
            id_type=opened.id_type or "uint64",
            header=input_header,
            skip_bad=skip_bad,
            batch=BATCH_IDS,
        )
        done = 0
        with closing(reader), progress_bar(results_follow=False) as bar:
            for batch in reader:
                _print_rows(opened, batch.fingerprints, signed)
                done += len(batch.fingerprints)
                if bar is not None:
                    bar(Progress("looking up", done, None, "ids"))
        tell_skipped(reader.skipped, reader.notes)
        if not reader.seen.rows:
            say(f"{input_path}: holds nothing, so nothing was looked up")


def _print_rows(store: Any, ids: "Ids", signed: bool) -> None:
    if store.kind == "minhash":
        signatures.print_documents(store, ids, signed)
        return
    as_json = common().as_json
    rows = store.lookup(ids)
    columns = written_ids(rows.id, signed, as_json), written(rows.fingerprint, signed, store.bits)
    sys.stdout.write("".join(map((JSON_LINE if as_json else LINE).format, *columns)))
