"""`fpstore add`: more fingerprints or texts into a store."""

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fpstore import Progress
from fpstore.cli import signed as signatures
from fpstore.cli.columns import (
    MAX_ID,
    IdSource,
    fingerprint_options,
    header_option,
    id_options,
    refuse_signed,
    signed_option,
    written,
    written_ids,
)
from fpstore.cli.common import common
from fpstore.cli.documents import passed_over, print_document
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for
from fpstore.cli.similar import similarity_option
from fpstore.cli.stores import opened_store
from fpstore.cli.subcommand import OF_BITS, OF_SIGNATURES, WITH_IDS, refuse_unused, subcommand
from fpstore.cli.texts import idf_option, tell_short, text_options
from fpstore.cli.unbuffered import answer_input, unbuffered_option
from fpstore.cli.values import (
    FILE_PATH,
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
    from fpstore.types import ByteOrder

EPILOG = """\b
Examples:
  fpstore add web.fpstore today.csv --fingerprint-column simhash --id-column doc_id
  fpstore add docs.fpstore today.jsonl.zst --if-new > duplicates.tsv   (ids: the field id)
  fpstore add web.fpstore recrawled.csv --upsert          (in place of what has its ids)
  fpstore add web.fpstore more.npy --ids from:1000000     (numbered 1000000, 1000001, ...)
  fpstore add bare.fpstore today.npy                      (a store without ids)
  coproc fpstore add web.fpstore - --if-new --unbuffered  (a line asked, a line of JSON answered)
"""

# Rows of one addition: it is stored as a whole, durably, before the next is read.
BATCH_ROWS = 1 << 16

HEADER = "id\tfingerprint\tmatch_fingerprint\tmatch_distance\tmatch_id\n"
LINE = "{}\t{}\t{}\t{}\t{}\n"
JSON_LINE = (
    '{{"format": "fpstore.add/1", "id": {}, "fingerprint": "{}", "match_fingerprint": "{}", "match_distance": {},'
    ' "match_id": {}}}\n'
)
UPSERTED = ", each put in place of all that had its id, those before it too"
NO_ID = "-"
JSON_NO_ID = "null"


@subcommand("add", short_help="Add fingerprints or texts to a store.", epilog=EPILOG)
@store_argument
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@format_option
@fingerprint_options
@id_options("column; none in a store without ids; where they are names the path of a text without one, or path:line")
@text_options
@idf_option
@click.option(
    "--if-new", is_flag=True, help="Add only what is near nothing that came before, and print what the others are near."
)
@click.option("--upsert", is_flag=True, help="Put each row in the place of all that has its id.")
@distance_option("With --if-new: the distance up to which a fingerprint is near.  [default: the store's]")
@similarity_option(
    "With --if-new, of a store of signatures: the estimated similarity from which a text is near.  [default: any that"
    " shares a band]"
)
@header_option
@signed_option
@skip_bad_option
@unbuffered_option
def command(
    store: str,
    inputs: tuple[str, ...],
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    byte_order: "ByteOrder",
    id_column: str | int | None,
    ids: IdSource | None,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    idf_path: str | None,
    if_new: bool,
    upsert: bool,
    max_distance: int | None,
    min_similarity: float | None,
    header: bool,
    signed: bool,
    skip_bad: bool,
    unbuffered: bool,
) -> None:
    """Add to STORE every fingerprint or text of every INPUT, one after the other.

    Each 65,536 rows are stored as a whole, durably, before the next are read: what ends the command leaves the
    rows before. Texts become fingerprints by the recipe of the store. Where a fingerprint has that id already,
    nothing changes.

    With --if-new each row that is not stored is a line of id, fingerprint, and the nearest match: its fingerprint,
    distance and id, separated by tabs. The id in a store without ids is "-" (in JSON, null). With --json these lines
    are JSON; without --if-new that says what was added.

    A store of signatures takes texts. Its lines of --if-new are id, and id, estimated similarity and number of shared
    bands of the most similar match.

    With --upsert an id that is there already loses its rows to the new one, in the same step. Of an id that comes twice
    the last row counts. Nothing is looked up for that, so how many rows were replaced is not told.

    With --if-new --unbuffered another program asks, for as long as it likes: each line of the one INPUT is tested,
    added where it is new, durably, and answered at once by one line of JSON; a bad line by one with an error.
    """
    with opened_store(store, "w") as opened:
        of_signatures = opened.kind == "minhash"
        refuse_unused(OF_BITS if of_signatures else OF_SIGNATURES)
        if not opened._settings.ids:
            refuse_unused(WITH_IDS)
        refuse_signed(opened)
        if unbuffered:
            if len(inputs) != 1:
                raise click.UsageError(f"--unbuffered: found {len(inputs)} INPUTs, expected one, such as -")
            from fpstore.serve.lines import adding

            source = _ids(opened, id_column, ids, upsert)
            first_id = source["first_id"] if source["ids"] == "row" else None
            asked: Any = min_similarity if of_signatures else max_distance
            answer_input(opened, inputs[0], idf_path, adding(opened, asked, first_id))
            opened.wait()
            return
        columns: dict[str, Any] = {
            "fingerprint_column": fingerprint_column,
            "fingerprint_format": fingerprint_format,
            "byte_order": byte_order,
        }
        reader = read_for(
            opened,
            list(inputs),
            idf_path,
            format=format,
            **columns,
            id_column=id_column,
            **_ids(opened, id_column, ids, upsert),
            text_column=text_column,
            header=input_header,
            html=html,
            threads=common().threads,
            skip_bad=skip_bad,
            batch=BATCH_ROWS,
        )
        done = added = 0
        if header:
            sys.stdout.write(signatures.HEADERS["add"] if of_signatures else HEADER)
        try:
            with closing(reader), progress_bar(results_follow=not if_new) as bar:
                for batch in reader:
                    lines = ""
                    if if_new:
                        if of_signatures:
                            stored, lines = signatures.add_new(opened, batch, min_similarity, signed)
                        else:
                            stored, lines = _add_new(opened, batch, max_distance, signed)
                        added += stored
                    else:
                        added += _add(opened, batch, upsert)
                    done += len(batch.fingerprints)  # first, as they are stored even where their lines go nowhere
                    if lines:
                        sys.stdout.write(lines)
                    if bar is not None:
                        bar(Progress("reading", done, None, "rows"))
        except BaseException:
            if done:
                _tell(store, if_new, upsert, added, done)
            raise
        tell_skipped(reader.skipped, reader.notes)
        tell_short(reader.lengths)
        if common().as_json and not if_new:
            print_document("added", {"path": store, "row_count": done, **passed_over(reader, reader.lengths)})
        else:
            _tell(store, if_new, upsert, added, done)
        opened.wait()


def _ids(store: "Store", id_column: str | int | None, asked: IdSource | None, upsert: bool) -> dict[str, Any]:
    """Where read is to take ids from: what was asked for, else the column of a store with ids."""
    if not store._settings.ids:
        if id_column is not None or asked not in (None, IdSource(None)):
            raise click.UsageError(f"{store.path}: the store has no ids, expected no --ids and no --id-column")
        return {"ids": None}
    asked = IdSource("auto" if store._settings.named else "column") if asked is None else asked
    if store._settings.named:
        if asked.ids not in ("auto", "column"):
            expected = "--ids column, or for texts without one no --ids"
            raise click.UsageError(f"{store.path}: the ids of the store are names, expected {expected}")
        return {"ids": asked.ids, "id_type": store.id_type}
    if asked.ids is None:
        raise click.UsageError(f"{store.path}: the store has ids, expected --ids column or from:N")
    if asked == IdSource("row") and id_column is None and not upsert and store._holds_any():
        raise click.UsageError(
            f"{store.path}: found rows in it, and --ids row or from:0, whose numbers they may have; expected --ids"
            " column, or from:N with an N above every id that is there"
        )
    largest = store.max_id() if asked.ids == "row" and id_column is None and not upsert else None
    if largest is not None and asked.first <= largest:
        met = f"ids up to {largest} were stored, and --ids from:{asked.first} gives them to other rows"
        free = f"; from:{largest + 1} does not" if largest < MAX_ID else ""
        say(f"fpstore: warning: {store.path}: {met}, unless this command goes on where it was{free}")
    return {"ids": asked.ids, "first_id": asked.first}


def _add(store: "Store", batch: "Batch", upsert: bool) -> int:
    """Store a batch; how many rows it has."""
    (store.upsert if upsert else store.add)(batch.fingerprints, ids=batch.ids)
    return len(batch.fingerprints)


def _add_new(store: "Store", batch: "Batch", max_distance: int | None, signed: bool) -> tuple[int, str]:
    """Store what is new of a batch; how many rows were stored, and the lines of the rest."""
    found = store.add_if_new(batch.fingerprints, ids=batch.ids, max_distance=max_distance)
    known = ~found.stored
    as_json = common().as_json
    count = int(known.sum())
    line, no_id = (JSON_LINE, JSON_NO_ID) if as_json else (LINE, NO_ID)
    ids, match_ids = (
        [no_id] * count if column is None else written_ids(column[known], signed, as_json)
        for column in (batch.ids, found.match_id)
    )
    fingerprints, match_fingerprints = (
        written(column[known], signed, store.bits) for column in (batch.fingerprints, found.match_fingerprint)
    )
    columns = (ids, fingerprints, match_fingerprints, found.match_distance[known].tolist(), match_ids)
    return len(known) - count, "".join(map(line.format, *columns))


def _tell(store: str, if_new: bool, upsert: bool, added: int, done: int) -> None:
    """Say what was done; whether a row was there already is known where each was probed."""
    if if_new:
        say(f"{store}: added {added} of {counted(done, 'row')}")
    else:
        # How many of them are there then nobody knows, of ids that come again, unless all ids were held.
        way, known = ("read", UPSERTED) if upsert else ("wrote", "; where one was there already, nothing changed")
        say(f"{store}: {way} {counted(done, 'row')}{known if done else ''}")
