"""`fpstore export`: everything in a store, as a file that build reads."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fpstore import OnProgress, Progress
from fpstore.cli.columns import quoted, refuse_signed, signed_option, written, written_ids
from fpstore.cli.documents import tell_done
from fpstore.cli.failures import say
from fpstore.cli.files import new_file
from fpstore.cli.progress import progress_bar
from fpstore.cli.signed_export import Export, expect_format
from fpstore.cli.stores import opened_store
from fpstore.cli.subcommand import OF_BITS, SIGNED_FORMAT, STANDARD_OUTPUT, WITH_IDS, refuse_unused, subcommand
from fpstore.cli.values import RESULT_PATH, counted, decimal_size, store_argument
from fpstore.origin import metadata_of

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.types import Ids, Keys

    Rows = Iterator[tuple[Keys, Ids | None]]

EPILOG = """\b
Examples:
  fpstore export web.fpstore web.csv
  fpstore export web.fpstore web.parquet --signed
  fpstore export web.fpstore - --format hex | gzip > web.hex.gz
  fpstore export web.fpstore fingerprints.npy --no-ids    (build: --ids none)
"""

OF_LINES = ("hex", "csv", "jsonl")
OF_SIGNED = ("npy", "csv", "parquet")


@subcommand("export", short_help="Write all fingerprints to a file.", epilog=EPILOG)
@store_argument
@click.argument("output", metavar="OUT", type=RESULT_PATH)
@click.option(
    "--format",
    type=click.Choice(("auto", "npy", "u64", "hex", "csv", "jsonl", "parquet")),
    default="auto",
    show_default=True,
    help="What to write. auto goes by the suffix.",
)
@click.option("--no-ids", is_flag=True, help="Leave the ids out: each fingerprint once.")
@signed_option
@click.option("--force", is_flag=True, help="Replace a file that is there; it stays until the new one is complete.")
def command(store: str, output: str, format: str, no_ids: bool, signed: bool, force: bool) -> None:
    """Write every fingerprint in STORE, once for each of its ids, to OUT; - is standard output, for hex, csv and jsonl.

    hex is a line of fingerprint, tab and id; csv, jsonl and parquet have the columns fingerprint and id; npy and u64
    hold fingerprints only, so they need --no-ids in a store with ids. build makes an equal store of each of them, with
    its ids. In csv and jsonl a first fingerprint that could be decimal has 0x before it, so that build need not guess.
    Of a store of signatures csv, jsonl and parquet have the columns id and sketch, what is kept of the signature: no
    store can be built of that.
    It is one state of the store, whoever writes meanwhile. An interrupted export leaves nothing behind.
    """
    by_suffix = os.path.splitext(output)[1].lower().removeprefix(".")
    if format not in ("auto", by_suffix) and by_suffix in WRITERS:
        raise click.UsageError(
            f"{output}: found --format {format}, expected {by_suffix}, as its suffix says, or another"
        )
    format = _format_of(output) if format == "auto" else format
    if output == STANDARD_OUTPUT and format not in OF_LINES:
        raise click.UsageError(f"standard output: found format {format}, expected {', '.join(OF_LINES)}")
    if format not in OF_SIGNED:
        refuse_unused(SIGNED_FORMAT)
    with opened_store(store) as opened:
        if opened.kind == "minhash":
            refuse_unused(OF_BITS)
            expect_format(format)
            refuse_signed(opened)
            export = Export(opened, signed)
            _write_to(store, output, format, force, export, partial(export.write, format), "document")
            return
        if opened.bits > 64 and format == "u64":
            raise click.UsageError(f"format u64 holds 64 bits each: found {opened.bits}, expected another one")
        with_ids = opened._settings.ids and not no_ids
        if with_ids and format in ("npy", "u64"):
            raise click.UsageError(f"format {format} holds no ids: expected another one, or --no-ids")
        if not opened._settings.ids:
            refuse_unused(WITH_IDS)
        if format != "npy":  # which has words of 64 bits
            refuse_signed(opened, ids=with_ids)
        write = WRITERS[format]
        if with_ids and opened._settings.named:
            _expect_names(opened.id_type, format)
        rows = _Rows(opened, with_ids, signed, format == "jsonl")
        _write_to(store, output, format, force, rows, lambda file, bar: write(file, rows.batches(bar), rows), "row")


def _write_to(
    store: str,
    output: str,
    format: str,
    force: bool,
    rows: "_Rows | Export",
    write: "Callable[[BinaryIO, OnProgress | None], None]",
    noun: str,
) -> None:
    """Write what rows has, to a file or to standard output, and say so."""
    if output == STANDARD_OUTPUT:
        with progress_bar(results_follow=False) as bar:
            write(sys.stdout.buffer, bar)
        sys.stdout.flush()
        say(f"{store}: wrote {counted(rows.done, noun)}")
        return
    with progress_bar() as bar, new_file(Path(output), force) as file:
        write(file, bar)
    size = os.path.getsize(output)
    tell_done(
        "export",
        {"path": output, "file_format": format, f"{noun}_count": rows.done, "size_bytes": size},
        f"{output}: {counted(rows.done, noun)}, {decimal_size(size)}",
    )


def _format_of(output: str) -> str:
    suffix = os.path.splitext(output)[1].lower()
    if suffix[1:] not in WRITERS:
        known = ", ".join(f".{name}" for name in WRITERS)
        raise click.UsageError(f"{output}: found suffix {suffix or 'none'}, expected {known} or --format")
    return suffix[1:]


def _expect_names(id_type: str | None, format: str) -> None:
    """UsageError for a format that does not hold names of this type, any of them."""
    if format == "hex" or (id_type == "bytes" and format != "parquet"):
        expected = "parquet" if id_type == "bytes" else "csv, jsonl or parquet"
        raise click.UsageError(f"format {format} holds no ids that are {id_type}: expected {expected}, or --no-ids")


class _Rows:
    """All rows of a store, or each fingerprint once, as they are written; done: how many were."""

    def __init__(self, store: "Store", with_ids: bool, signed: bool, as_json: bool) -> None:
        self.with_ids, self.signed, self._as_json = with_ids, signed, as_json
        self.id_type, self.bits = store.id_type, store.bits
        self.recipe = store._settings.recipe
        self.done = 0
        self._store = store

    def batches(self, bar: OnProgress | None) -> "Rows":
        """The rows, batch by batch."""
        last = None
        for keys, ids in ((rows.fingerprint, rows.id) for rows in self._store.rows()):
            if not self.with_ids:
                # Those of one fingerprint come one after the other.
                first = keys != last
                first[1:] = keys[1:] != keys[:-1]
                first = first if first.ndim == 1 else first.any(axis=1)
                last = keys[-1]
                keys = keys[first]
            yield keys, ids if self.with_ids else None
            self.done += len(keys)
            if bar is not None:
                bar(Progress("writing", self.done, None, "rows"))

    def cells(self, keys: "Keys", ids: "Ids | None") -> list[list[str]]:
        """The columns as text."""
        cells = [written(keys, self.signed, self.bits)]
        return cells if ids is None else [*cells, written_ids(ids, self.signed, self._as_json)]

    def telling_cells(self, keys: "Keys", ids: "Ids | None") -> list[list[str]]:
        """As cells; the first value of a file tells that it is hexadecimal."""
        cells = self.cells(keys, ids)
        first = cells[0][0] if cells[0] else ""
        if self.done == 0 and not self.signed and first.isdigit() and not first.startswith("0"):
            cells[0][0] = f"0x{first}"
        return cells


def _write_u64(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    for keys, _ in batches:
        file.write(keys.astype("<u8", copy=False).tobytes())


def _write_npy(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    row = (rows.bits // 64,) if rows.bits > 64 else ()
    _write_npy_header(file, 0, row, rows.signed)
    start = file.tell()
    _write_u64(file, batches, rows)
    count = (file.tell() - start) // (8 * math.prod(row))
    file.seek(0)
    _write_npy_header(file, count, row, rows.signed)


def _write_npy_header(file: BinaryIO, count: int, row: tuple[int, ...], signed: bool) -> None:
    """As long for every count: numpy leaves room for it to grow. row: the shape of one."""
    from numpy.lib import format as npy

    descr = "<i8" if signed else "<u8"
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": (count, *row)})


def _write_hex(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    line = "{}\t{}\n" if rows.with_ids else "{}\n"
    for keys, ids in batches:
        file.write("".join(map(line.format, *rows.cells(keys, ids))).encode("ascii"))


def _write_csv(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    file.write(b"fingerprint,id\n" if rows.with_ids else b"fingerprint\n")
    line = "{},{}\n" if rows.with_ids else "{}\n"
    for keys, ids in batches:
        cells = rows.telling_cells(keys, None)
        if ids is not None:
            cells.append(written(ids, rows.signed) if rows.id_type == "uint64" else quoted(ids.tolist()))
        file.write("".join(map(line.format, *cells)).encode())


def _write_jsonl(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    line = '{{"fingerprint": "{}", "id": {}}}\n' if rows.with_ids else '{{"fingerprint": "{}"}}\n'
    for keys, ids in batches:
        file.write("".join(map(line.format, *rows.telling_cells(keys, ids))).encode("ascii"))


def _write_parquet(file: BinaryIO, batches: "Rows", rows: _Rows) -> None:
    from fpstore.text.packages import need

    arrow = need("pyarrow", "arrow", "writing Parquet")
    parquet = need("pyarrow.parquet", "arrow", "writing Parquet")
    number = arrow.int64() if rows.signed else arrow.uint64()
    types = {"string": arrow.string(), "bytes": arrow.binary()}
    of_fingerprints = arrow.binary(rows.bits // 8) if rows.bits > 64 else number
    fields = [arrow.field("fingerprint", of_fingerprints, metadata=metadata_of(rows.recipe, rows.bits))]
    if rows.with_ids:
        fields.append(arrow.field("id", types.get(rows.id_type or "", number)))
    schema = arrow.schema(fields)
    dtype = "int64" if rows.signed else "uint64"
    with parquet.ParquetWriter(file, schema) as writer:
        for keys, ids in batches:
            columns = [keys] if ids is None else [keys, ids]
            arrays = [
                arrow.array(column.view(dtype))
                if column.ndim == 1 and column.dtype.kind in "ui"
                else arrow.array(_plain_values(column), field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(arrow.record_batch(arrays, schema=schema))


def _plain_values(column: Any) -> list[Any]:
    """The values of a column of names; of wide fingerprints, of words, their bytes."""
    if column.ndim == 1:
        return list(column.tolist())
    return [row.tobytes() for row in column.view("uint64").astype(">u8")]


WRITERS: "dict[str, Callable[[BinaryIO, Rows, _Rows], None]]" = {
    "npy": _write_npy,
    "u64": _write_u64,
    "hex": _write_hex,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
