"""`fpstore add`: more fingerprints or texts into a store."""

import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fpstore import Progress
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for
from fpstore.cli.texts import idf_option, reading_options, tell_short
from fpstore.cli.values import (
    FILE_PATH,
    column,
    column_option,
    counted,
    distance_option,
    format_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Batch

EPILOG = """\b
Examples:
  fpstore add web.fpstore today.csv --column simhash --ids doc_id
  fpstore add docs.fpstore today.jsonl.zst --ids id --if-new > duplicates.tsv
  fpstore add web.fpstore more.npy --first-id 1000000     (numbered 1000000, 1000001, ...)
  fpstore add bare.fpstore today.npy                      (a store without ids)
"""

# Rows of one addition: it is stored as a whole, durably, before the next is read.
BATCH_ROWS = 1 << 16
MAX_ID = 2**64 - 1

LINE = "{}\t{:016x}\t{:016x}\t{}\t{}\n"
JSON_LINE = '{{"id": {}, "fingerprint": "{:016x}", "match_fingerprint": "{:016x}", "distance": {}, "match_id": {}}}\n'
NO_ID = "-"
JSON_NO_ID = "null"


@click.command(short_help="Add fingerprints or texts to a store.", epilog=EPILOG)
@store_argument
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@format_option
@click.option(
    "--ids",
    metavar="COLUMN",
    type=column,
    help="The column or JSON field of the ids. A store with ids needs it, or --first-id; none is for one without.",
)
@click.option(
    "--first-id",
    metavar="N",
    type=click.IntRange(0, MAX_ID),
    help="In place of --ids: number the rows N, N + 1, and so on. What --skip-bad skips has no number.",
)
@column_option
@reading_options
@idf_option
@click.option(
    "--if-new", is_flag=True, help="Add only what is near nothing that came before, and print what the others are near."
)
@distance_option("With --if-new: the distance up to which a fingerprint is near.  [default: the store's]")
@click.option("--json", "as_json", is_flag=True, help="With --if-new: print a JSON object a line.")
@skip_bad_option
def command(
    store: str,
    inputs: tuple[str, ...],
    format: str,
    ids: str | int | None,
    first_id: int | None,
    column: str | int | None,
    text_column: str | int | None,
    html: bool,
    threads: int,
    idf_path: str | None,
    if_new: bool,
    max_distance: int | None,
    as_json: bool,
    skip_bad: bool,
) -> None:
    """Add to STORE every fingerprint or text of every INPUT, one after the other.

    Each 65,536 rows are stored as a whole, durably, before the next are read: what ends the command leaves the
    rows before. Texts become fingerprints by the recipe of the store. Where a fingerprint has that id already,
    nothing changes.

    With --if-new each row that is not stored is a line of id, fingerprint, and the nearest match: its fingerprint,
    distance and id, separated by tabs. The id in a store without ids is "-" (in JSON, null).
    """
    import fpstore

    if not if_new and (max_distance is not None or as_json):
        raise click.UsageError("--max-distance and --json go with --if-new")
    with fpstore.open(store, "w") as opened:
        reader = read_for(
            opened,
            list(inputs),
            idf_path,
            format=format,
            ids=_id_column(opened, ids, first_id),
            column=column,
            text_column=text_column,
            html=html,
            threads=threads,
            skip_bad=skip_bad,
            batch=BATCH_ROWS,
        )
        done = added = 0
        try:
            with closing(reader), progress_bar(results_follow=not if_new) as bar:
                for batch in reader:
                    if first_id is not None:
                        batch = _numbered(batch, first_id + done)
                    added += _add_new(opened, batch, max_distance, as_json) if if_new else _add(opened, batch)
                    done += len(batch.fingerprints)
                    if bar is not None:
                        bar(Progress("reading", done, None, "rows"))
        except BaseException:
            if done:
                _tell(store, added, done)
            raise
        tell_skipped(reader.skipped, reader.notes)
        tell_short(reader.lengths)
        _tell(store, added, done)
        opened.wait()


def _id_column(store: "Store", ids: str | int | None, first_id: int | None) -> str | int | None:
    """The column to read ids from, None for a store without ids and for rows that are numbered."""
    if ids is not None and first_id is not None:
        raise click.UsageError("--ids and --first-id: expected one of the two")
    if not store._settings.ids:
        if ids not in (None, "none") or first_id is not None:
            raise click.UsageError(f"{store.path}: the store has no ids, expected no --ids and no --first-id")
        return None
    if first_id is not None:
        return None
    if ids in (None, "none"):
        expected = "--ids and the column that holds them, or --first-id"
        raise click.UsageError(f"{store.path}: the store has ids, expected {expected}")
    if ids == "row":
        raise click.UsageError("--ids row: row numbers would be ids of other rows, expected a column that holds ids")
    return ids


def _numbered(batch: "Batch", first: int) -> "Batch":
    """The batch with the ids first, first + 1, and so on."""
    import numpy as np

    last = first + len(batch.fingerprints) - 1
    if last > MAX_ID:
        raise click.UsageError(
            f"--first-id: there is no id {last} for the last of these rows, expected at most {MAX_ID}"
        )
    return replace(batch, ids=np.arange(len(batch.fingerprints), dtype=np.uint64) + np.uint64(first))


def _add(store: "Store", batch: "Batch") -> int:
    """Store a batch; how many rows it has."""
    store.add(batch.fingerprints, ids=batch.ids)
    return len(batch.fingerprints)


def _add_new(store: "Store", batch: "Batch", max_distance: int | None, as_json: bool) -> int:
    """Store what is new of a batch and print the rest; how many rows were stored."""
    found = store.add_if_new(batch.fingerprints, ids=batch.ids, max_distance=max_distance)
    known = ~found.stored
    line, no_id = (JSON_LINE, JSON_NO_ID) if as_json else (LINE, NO_ID)
    count = int(known.sum())
    ids, match_ids = (
        [no_id] * count if column is None else column[known].tolist() for column in (batch.ids, found.match_id)
    )
    columns = (batch.fingerprints[known], found.match_fingerprint[known], found.match_distance[known])
    sys.stdout.write("".join(map(line.format, ids, *(column.tolist() for column in columns), match_ids)))
    return len(known) - count


def _tell(store: str, added: int, done: int) -> None:
    share = f"{added} of " if added < done else ""
    say(f"{store}: added {share}{counted(done, 'row')}")
