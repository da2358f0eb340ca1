"""`fpstore remove`: fingerprints, or all that has certain ids, out of a store."""

from contextlib import closing
from typing import TYPE_CHECKING

import click

from fpstore import Progress
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for
from fpstore.cli.texts import idf_option, reading_options
from fpstore.cli.values import (
    column,
    counted,
    fingerprint,
    format_option,
    id_number,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.types import Keys

EPILOG = """\b
Examples:
  fpstore remove web.fpstore 9f3a5c0012ab44de
  fpstore remove web.fpstore --by-id 17 18 19
  fpstore remove web.fpstore --input gone.csv --column simhash
  fpstore remove web.fpstore --by-id --input gone.csv --column doc_id
  cut -f 1 gone.tsv | fpstore remove web.fpstore --by-id --input - --format csv --column 0
"""

# Values of one removal: it is stored as a whole, durably, before the next is read.
BATCH_VALUES = 1 << 16
# Formats of nothing but 64-bit integers, which may be ids as well, and those that hold no ids.
PLAIN_FORMATS = ("npy", "u64")
FORMATS_WITHOUT_IDS = ("hex", "text", "html", "warc")


@click.command(short_help="Remove fingerprints from a store.", epilog=EPILOG)
@store_argument
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("--by-id", is_flag=True, help="Values are ids: remove all that has one of them.")
@click.option("--input", "input_path", metavar="FILE", help="Remove every value of FILE; - is standard input.")
@format_option
@click.option(
    "--column",
    metavar="COLUMN",
    type=column,
    help="The column or JSON field of the values.  [default for fingerprints: fingerprint, or the first]",
)
@reading_options
@idf_option
@skip_bad_option
def command(
    store: str,
    values: tuple[str, ...],
    by_id: bool,
    input_path: str | None,
    format: str,
    column: str | int | None,
    text_column: str | int | None,
    html: bool,
    threads: int,
    idf_path: str | None,
    skip_bad: bool,
) -> None:
    """Remove from STORE every VALUE: a fingerprint with all its ids, or with --by-id an id wherever it is.

    A fingerprint is written as for probe, an id as a decimal number. What is not there is no error, and a fingerprint
    goes with its last id. The space comes back when the store merges its segments, at the latest by compact.
    """
    import numpy as np

    import fpstore

    if not values and input_path is None:
        raise click.UsageError("nothing to remove: expected a VALUE or --input")
    parse = id_number if by_id else fingerprint
    typed = np.array([parse(value) for value in values], dtype=np.uint64)
    noun = "id" if by_id else "fingerprint"
    with fpstore.open(store, "w") as opened:
        if by_id and not opened._settings.ids:
            raise click.UsageError(f"{store}: the store has no ids, expected fingerprints without --by-id")
        reader = None
        if input_path is not None:
            columns = _id_columns(input_path, format, column, text_column) if by_id else {"ids": None}
            reader = read_for(
                opened,
                [input_path],
                idf_path,
                format=format,
                column=column,
                text_column=text_column,
                html=html,
                threads=threads,
                skip_bad=skip_bad,
                batch=BATCH_VALUES,
                **columns,
            )
        _remove(opened, typed, by_id)
        done = len(typed)
        if reader is not None:
            with closing(reader), progress_bar() as bar:
                for batch in reader:
                    removed = batch.fingerprints if batch.ids is None else batch.ids
                    _remove(opened, removed, by_id)
                    done += len(removed)
                    if bar is not None:
                        bar(Progress("reading", done, None, f"{noun}s"))
            tell_skipped(reader.skipped, reader.notes)
        say(f"{store}: removed {counted(done, noun)}, as far as they were there")
        opened.wait()


def _id_columns(
    path: str, format: str, column: str | int | None, text_column: str | int | None
) -> dict[str, str | int | None]:
    """Where the ids are in the input; none where they are all it holds."""
    from fpstore.inputs import format_of

    if text_column is not None:
        raise click.UsageError("--text-column: texts have fingerprints, expected --column with --by-id")
    found = format_of(path) if format == "auto" else format
    if found in FORMATS_WITHOUT_IDS:
        raise click.UsageError(f"{path}: found format {found}, expected one with a column of ids")
    if found in PLAIN_FORMATS:
        return {"ids": None}
    if column is None:
        raise click.UsageError(f"{path}: expected --column and the column or field that holds the ids")
    return {"ids": column}


def _remove(store: "Store", values: "Keys", by_id: bool) -> None:
    if by_id:
        store.remove(ids=values)
    else:
        store.remove(fingerprints=values)
