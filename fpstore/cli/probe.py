"""`fpstore probe`: every stored fingerprint near each of the queries, as lines."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from fpstore import Progress
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for, recipe_of
from fpstore.cli.texts import idf_option, reading_options, tell_short
from fpstore.cli.values import (
    column_option,
    distance_option,
    fingerprint,
    format_option,
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
  fpstore probe web.fpstore 9f3a5c0012ab44de 0x12ff 1234567
  fpstore probe web.fpstore --input new.csv --column simhash -k 2 > matches.tsv
  cut -f 1 hashes.tsv | fpstore probe web.fpstore --input - --format hex
  fpstore probe docs.fpstore --text "four words or more of it" --json
"""

# Fewer than build reads at a time: a query can have many matches, and all of a batch are held.
BATCH_QUERIES = 1 << 14

LINE = "{:016x}\t{:016x}\t{}\t{}\n"
JSON_LINE = '{{"query": "{:016x}", "fingerprint": "{:016x}", "distance": {}, "id": {}}}\n'
NO_ID = "-"
JSON_NO_ID = "null"


@click.command(short_help="Find what is near a fingerprint or a text.", epilog=EPILOG)
@store_argument
@click.argument("fingerprints", metavar="[FINGERPRINT]...", nargs=-1, type=fingerprint)
@click.option(
    "--input", "input_path", metavar="FILE", help="Probe every fingerprint or text of FILE; - is standard input."
)
@format_option
@column_option
@reading_options
@idf_option
@skip_bad_option
@click.option("--text", metavar="STRING", help="Probe the fingerprint of this text, by the recipe of the store.")
@distance_option("The largest Hamming distance, up to that of the store's plan.  [default: the store's]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
def command(
    store: str,
    fingerprints: tuple[int, ...],
    input_path: str | None,
    format: str,
    column: str | int | None,
    text_column: str | int | None,
    html: bool,
    threads: int,
    idf_path: str | None,
    skip_bad: bool,
    text: str | None,
    max_distance: int | None,
    as_json: bool,
) -> None:
    """Print every fingerprint in STORE that is near a query, and its id.

    A FINGERPRINT is 16 hexadecimal digits, 0x and up to 16, or a decimal number. Each match is a line of
    query, fingerprint, distance and id, separated by tabs, the nearest first; a fingerprint with several
    ids has a line for each, and the id of a store without ids is "-" (in JSON, null). No match is no error.
    """
    import numpy as np

    import fpstore

    if not fingerprints and text is None and input_path is None:
        raise click.UsageError("nothing to probe: expected a FINGERPRINT, --text or --input")
    with fpstore.open(store) as opened:
        typed = list(fingerprints)
        if text is not None:
            typed.append(recipe_of(opened, idf_path).fingerprint(text))
        if typed:
            _print_matches(opened, np.array(typed, dtype=np.uint64), max_distance, as_json)
        if input_path is None:
            return
        reader = read_for(
            opened,
            [input_path],
            idf_path,
            format=format,
            ids=None,
            column=column,
            text_column=text_column,
            html=html,
            threads=threads,
            skip_bad=skip_bad,
            batch=BATCH_QUERIES,
        )
        with closing(reader), _counted(reader) as batches:
            for queries in batches:
                _print_matches(opened, queries, max_distance, as_json)
        tell_skipped(reader.skipped, reader.notes)
        tell_short(reader.lengths)


@contextmanager
def _counted(reader: "Reader") -> "Iterator[Iterator[Keys]]":
    """The queries of a reader, with a bar that counts them."""
    with progress_bar(results_follow=False) as bar:

        def batches() -> "Iterator[Keys]":
            done = 0
            for batch in reader:
                yield batch.fingerprints
                done += len(batch.fingerprints)
                if bar is not None:
                    bar(Progress("probing", done, None, "queries"))

        yield batches()


def _print_matches(store: "Store", queries: "Keys", max_distance: int | None, as_json: bool) -> None:
    matches = store.probe_many(queries, max_distance=max_distance)
    line, no_id = (JSON_LINE, JSON_NO_ID) if as_json else (LINE, NO_ID)
    ids = [no_id] * len(matches) if matches.id is None else matches.id.tolist()
    columns = (queries[matches.query].tolist(), matches.fingerprint.tolist(), matches.distance.tolist(), ids)
    sys.stdout.write("".join(map(line.format, *columns)))
