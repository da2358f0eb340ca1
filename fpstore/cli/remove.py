"""`fpstore remove`: fingerprints, all that has certain ids, or single pairs of both, out of a store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from fpstore import OnProgress, Progress
from fpstore.cli.columns import decimal_option, fingerprint_options, typed_fingerprints, typed_ids
from fpstore.cli.common import common
from fpstore.cli.documents import passed_over, tell_done
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for
from fpstore.cli.signed import expect_ids_to_remove, remove_ids
from fpstore.cli.stores import opened_store
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, text_options
from fpstore.cli.values import (
    column,
    counted,
    format_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Batch, Reader
    from fpstore.types import ByteOrder

EPILOG = """\b
Examples:
  fpstore remove web.fpstore 9f3a5c0012ab44de
  fpstore remove web.fpstore --id 17 --id 18
  fpstore remove web.fpstore --input gone.csv --fingerprint-column simhash
  fpstore remove web.fpstore --id-input gone.csv --id-column doc_id
  fpstore remove web.fpstore 9f3a5c0012ab44de --id 17 --pairs      (keeps its other ids)
  fpstore remove web.fpstore --input wrong.csv --pairs
  cut -f 1 gone.tsv | fpstore remove web.fpstore --id-input - --format csv
"""

# Values of one removal: it is stored as a whole, durably, before the next is read.
BATCH_VALUES = 1 << 16


@subcommand("remove", short_help="Remove fingerprints from a store.", epilog=EPILOG)
@store_argument
@click.argument("values", metavar="[FINGERPRINT]...", nargs=-1)
@click.option(
    "--id",
    "ids",
    metavar="ID",
    multiple=True,
    help="Remove all that has this id, a name as commands print it; may be given again.",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="Remove just the pairs: of each FINGERPRINT the --id at its place, or of each row of --input its fingerprint"
    " and its id.",
)
@click.option("--input", "input_path", metavar="FILE", help="Remove every fingerprint of FILE; - is standard input.")
@click.option("--id-input", "id_path", metavar="FILE", help="Remove all that has an id of FILE; - is standard input.")
@click.option(
    "--id-column",
    metavar="COLUMN",
    type=column,
    help="With --id-input or --pairs: the column or JSON field of the ids.  [default: the one called id, or, with"
    " --id-input, the only one]",
)
@format_option
@fingerprint_options
@text_options
@idf_option
@skip_bad_option
@decimal_option
def command(
    store: str,
    values: tuple[str, ...],
    ids: tuple[str, ...],
    pairs: bool,
    input_path: str | None,
    id_path: str | None,
    id_column: str | int | None,
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    byte_order: "ByteOrder",
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    idf_path: str | None,
    skip_bad: bool,
    decimal: bool,
) -> None:
    """Remove from STORE every FINGERPRINT with all its ids, or all that has an ID, or just the --pairs of both.

    A fingerprint is written as for probe, an id as a decimal number. What is not there is no error, and a fingerprint
    goes with its last id. How many rows were there is counted first: by a probe of each fingerprint, of ids by reading
    all rows of the store once. The space comes back when the store merges its segments, at the latest by compact.
    """

    from fpstore.inputs import Batch, read_ids

    by_id = bool(ids) or id_path is not None
    by_fingerprint = bool(values) or input_path is not None
    if pairs:
        if len(values) != len(ids) or id_path is not None or not by_fingerprint:
            raise click.UsageError("--pairs: expected as many FINGERPRINTs as --id, or --input, and no --id-input")
    elif by_id == by_fingerprint:
        raise click.UsageError(
            "expected FINGERPRINTs or --input, or --id or --id-input; or --pairs, to remove of each fingerprint one id"
        )
    with opened_store(store, "w") as opened:
        if opened.kind == "minhash":
            expect_ids_to_remove(opened, by_fingerprint=by_fingerprint)
        # Keys of signatures may have any number of bits, and none is typed.
        bits = 64 if opened.kind == "minhash" else opened._settings.bits
        typed = [typed_fingerprints(values, decimal, bits, byte_order), typed_ids(opened, ids)]
        if (by_id or pairs) and not opened._settings.ids:
            raise click.UsageError(f"{store}: the store has no ids, expected fingerprints")
        reader = None
        if id_path is not None:
            reader = read_ids(
                [id_path],
                format=format,
                id_column=id_column,
                id_type=opened.id_type or "uint64",
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
                ids="column" if pairs else None,
                rows_serve=False,
                id_type=opened.id_type or "uint64",
                id_column=id_column,
                fingerprint_column=fingerprint_column,
                fingerprint_format=fingerprint_format,
                byte_order=byte_order,
                text_column=text_column,
                header=input_header,
                html=html,
                threads=common().threads,
                skip_bad=skip_bad,
                batch=BATCH_VALUES,
            )
        way: Any = _remove_pairs if pairs else _remove_ids if by_id else _remove_fingerprints
        if opened.kind == "minhash":
            way = remove_ids
        with _batches(Batch(*(typed if pairs else (typed[by_id], None))), reader) as (batches, bar):
            done, removed = way(opened, batches, bar)
        if reader is not None:
            tell_skipped(reader.skipped, reader.notes)
        noun = "pair" if pairs else "id" if by_id else "fingerprint"
        tell_done(
            "remove",
            {"path": store, "row_count": removed, "asked": f"{noun}s", "asked_count": done, **passed_over(reader)},
            f"{store}: removed {counted(removed, 'row')}, for {counted(done, noun)}",
        )
        opened.wait()


@contextmanager
def _batches(typed: "Batch", reader: "Reader | None") -> "Iterator[tuple[Iterator[Batch], OnProgress | None]]":
    """What was typed, and that of the input, with a bar that counts it; and the bar."""
    with progress_bar() as bar:

        def batches() -> "Iterator[Batch]":
            done = len(typed.fingerprints)
            if done:
                yield typed
            for batch in reader or ():
                yield batch
                done += len(batch.fingerprints)
                if bar is not None:
                    bar(Progress("reading", done, None, "rows"))

        if reader is None:
            yield batches(), bar
        else:
            with closing(reader):
                yield batches(), bar


def _remove_fingerprints(store: "Store", batches: "Iterator[Batch]", bar: OnProgress | None) -> tuple[int, int]:
    """Remove them; how many were asked for, and how many rows there were."""
    from fpstore.fingerprints import distinct

    done = removed = 0
    for batch in batches:
        removed += len(store.probe_many(distinct(batch.fingerprints)[0], max_distance=0))
        store.remove(fingerprints=batch.fingerprints)
        done += len(batch.fingerprints)
    return done, removed


def _remove_pairs(store: "Store", batches: "Iterator[Batch]", bar: OnProgress | None) -> tuple[int, int]:
    """As _remove_fingerprints, of each the one id."""
    import numpy as np

    from fpstore.fingerprints import as_numbers, distinct

    done = removed = 0
    for batch in batches:
        assert batch.ids is not None
        there = store.probe_many(distinct(batch.fingerprints)[0], max_distance=0)
        assert there.id is not None
        asked = set(zip(as_numbers(batch.fingerprints), batch.ids.tolist(), strict=True))
        possible = np.isin(there.id, batch.ids)
        rows = zip(as_numbers(there.fingerprint[possible]), there.id[possible].tolist(), strict=True)
        removed += sum(row in asked for row in rows)
        store.remove(fingerprints=batch.fingerprints, ids=batch.ids)
        done += len(batch.fingerprints)
    return done, removed


def _remove_ids(store: "Store", batches: "Iterator[Batch]", bar: OnProgress | None) -> tuple[int, int]:
    """As _remove_fingerprints; all ids are held, 8 bytes each."""
    import numpy as np

    every = [batch.fingerprints for batch in batches]
    ids = np.unique(np.concatenate(every)) if every else np.empty(0, dtype=np.uint64)
    removed, wanted = 0, set(ids.tolist()) if store._settings.named else set()
    seen = 0
    for rows in store.rows():
        if rows.id is not None:
            removed += sum(id in wanted for id in rows.id.tolist()) if wanted else int(np.isin(rows.id, ids).sum())
        seen += len(rows)
        if bar is not None:
            bar(Progress("counting", seen, None, "rows"))
    for start in range(0, len(ids), BATCH_VALUES):
        store.remove(ids=ids[start : start + BATCH_VALUES])
    return sum(map(len, every)), removed
