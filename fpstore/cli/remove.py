"""`fpstore remove`: fingerprints, or all that has certain ids, out of a store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from fpstore import Progress
from fpstore.cli.columns import decimal_option, fingerprint_options, typed_fingerprints
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, reading_options
from fpstore.cli.values import (
    column,
    counted,
    format_option,
    id_number,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Reader
    from fpstore.types import Keys

EPILOG = """\b
Examples:
  fpstore remove web.fpstore 9f3a5c0012ab44de
  fpstore remove web.fpstore --id 17 --id 18
  fpstore remove web.fpstore --input gone.csv --fingerprint-column simhash
  fpstore remove web.fpstore --id-input gone.csv --id-column doc_id
  cut -f 1 gone.tsv | fpstore remove web.fpstore --id-input - --format csv
"""

# Values of one removal: it is stored as a whole, durably, before the next is read.
BATCH_VALUES = 1 << 16


@subcommand("remove", short_help="Remove fingerprints from a store.", epilog=EPILOG)
@store_argument
@click.argument("values", metavar="[FINGERPRINT]...", nargs=-1)
@click.option("--id", "ids", metavar="ID", multiple=True, help="Remove all that has this id; may be given again.")
@click.option("--input", "input_path", metavar="FILE", help="Remove every fingerprint of FILE; - is standard input.")
@click.option("--id-input", "id_path", metavar="FILE", help="Remove all that has an id of FILE; - is standard input.")
@click.option(
    "--id-column",
    metavar="COLUMN",
    type=column,
    help="With --id-input: the column or JSON field of the ids.  [default: the one called id, or the only one]",
)
@format_option
@fingerprint_options
@reading_options
@idf_option
@skip_bad_option
@decimal_option
def command(
    store: str,
    values: tuple[str, ...],
    ids: tuple[str, ...],
    input_path: str | None,
    id_path: str | None,
    id_column: str | int | None,
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    threads: int,
    idf_path: str | None,
    skip_bad: bool,
    decimal: bool,
) -> None:
    """Remove from STORE every FINGERPRINT with all its ids, or all that has an ID.

    A fingerprint is written as for probe, an id as a decimal number. What is not there is no error, and a fingerprint
    goes with its last id. How many rows were there is counted first: by a probe of each fingerprint, of ids by reading
    all rows of the store once. The space comes back when the store merges its segments, at the latest by compact.
    """
    import numpy as np

    import fpstore
    from fpstore.inputs import read_ids

    by_id = bool(ids) or id_path is not None
    by_fingerprint = bool(values) or input_path is not None
    if by_id == by_fingerprint:
        raise click.UsageError("expected FINGERPRINTs or --input, or --id or --id-input, and not both")
    typed = np.array([id_number(each) for each in ids] or typed_fingerprints(values, decimal), dtype=np.uint64)
    with fpstore.open(store, "w") as opened:
        if by_id and not opened._settings.ids:
            raise click.UsageError(f"{store}: the store has no ids, expected fingerprints")
        reader = None
        if id_path is not None:
            reader = read_ids(
                [id_path],
                format=format,
                id_column=id_column,
                header=input_header,
                skip_bad=skip_bad,
                batch=BATCH_VALUES,
            )
        elif input_path is not None:
            reader = read_for(
                opened,
                [input_path],
                idf_path,
                format=format,
                ids=None,
                fingerprint_column=fingerprint_column,
                fingerprint_format=fingerprint_format,
                text_column=text_column,
                header=input_header,
                html=html,
                threads=threads,
                skip_bad=skip_bad,
                batch=BATCH_VALUES,
            )
        with _batches(typed, reader) as batches:
            done, removed = (_remove_ids if by_id else _remove_fingerprints)(opened, batches)
        if reader is not None:
            tell_skipped(reader.skipped, reader.notes)
        noun = "id" if by_id else "fingerprint"
        say(f"{store}: removed {counted(removed, 'row')}, for {counted(done, noun)}")
        opened.wait()


@contextmanager
def _batches(typed: "Keys", reader: "Reader | None") -> "Iterator[Iterator[Keys]]":
    """The values that were typed, and those of the input, with a bar that counts them."""
    with progress_bar() as bar:

        def batches() -> "Iterator[Keys]":
            if len(typed):
                yield typed
            done = len(typed)
            for batch in reader or ():
                yield batch.fingerprints
                done += len(batch.fingerprints)
                if bar is not None:
                    bar(Progress("reading", done, None, "rows"))

        if reader is None:
            yield batches()
        else:
            with closing(reader):
                yield batches()


def _remove_fingerprints(store: "Store", batches: "Iterator[Keys]") -> tuple[int, int]:
    """Remove them; how many were asked for, and how many rows there were."""
    import numpy as np

    done = removed = 0
    for batch in batches:
        removed += len(store.probe_many(np.unique(batch), max_distance=0))
        store.remove(fingerprints=batch)
        done += len(batch)
    return done, removed


def _remove_ids(store: "Store", batches: "Iterator[Keys]") -> tuple[int, int]:
    """As _remove_fingerprints; all ids are held, 8 bytes each."""
    import numpy as np

    every = list(batches)
    ids = np.unique(np.concatenate(every)) if every else np.empty(0, dtype=np.uint64)
    removed = 0
    for rows in store.rows():
        if rows.id is not None:
            removed += int(np.isin(rows.id, ids).sum())
    for start in range(0, len(ids), BATCH_VALUES):
        store.remove(ids=ids[start : start + BATCH_VALUES])
    return sum(map(len, every)), removed
