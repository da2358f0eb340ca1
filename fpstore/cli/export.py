"""`fpstore export`: everything in a store, as a file that build reads."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from fpstore import OnProgress, Progress
from fpstore.cli.files import new_file
from fpstore.cli.progress import progress_bar
from fpstore.cli.values import FILE_PATH, store_argument

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.types import Ids, Keys

    Rows = Iterator[tuple[Keys, Ids | None]]

EPILOG = """\b
Examples:
  fpstore export web.fpstore web.csv                      (build: --ids id)
  fpstore export web.fpstore web.parquet                  (build: --ids id)
  fpstore export web.fpstore - --format hex | gzip > web.hex.gz    (build: --ids 1)
  fpstore export web.fpstore fingerprints.npy --no-ids    (build: --ids none)
"""

STANDARD_OUTPUT = "-"


@click.command(short_help="Write all fingerprints to a file.", epilog=EPILOG)
@store_argument
@click.argument("output", metavar="OUT", type=FILE_PATH)
@click.option(
    "--format",
    type=click.Choice(("auto", "npy", "u64", "hex", "csv", "parquet")),
    default="auto",
    show_default=True,
    help="What to write. auto goes by the suffix.",
)
@click.option("--no-ids", is_flag=True, help="Leave the ids out: each fingerprint once.")
@click.option("--force", is_flag=True, help="Replace a file that is there; it stays until the new one is complete.")
def command(store: str, output: str, format: str, no_ids: bool, force: bool) -> None:
    """Write every fingerprint in STORE, once for each of its ids, to OUT; - is standard output, for hex and csv.

    hex is a line of fingerprint, tab and id; csv and parquet have the columns fingerprint and id; npy and u64 hold
    fingerprints only, so they need --no-ids in a store with ids. build makes an equal store of each of them.
    It is one state of the store, whoever writes meanwhile. An interrupted export leaves nothing behind.
    """
    import fpstore

    format = _format_of(output) if format == "auto" else format
    if output == STANDARD_OUTPUT and format not in ("hex", "csv"):
        raise click.UsageError(f"standard output: found format {format}, expected hex or csv")
    with fpstore.open(store) as opened:
        with_ids = opened._settings.ids and not no_ids
        if with_ids and format in ("npy", "u64"):
            raise click.UsageError(f"format {format} holds no ids: expected another one, or --no-ids")
        write = WRITERS[format]
        if output == STANDARD_OUTPUT:
            with progress_bar(results_follow=False) as bar:
                write(sys.stdout.buffer, _rows(opened, with_ids, bar), with_ids)
            return
        with progress_bar() as bar, new_file(Path(output), force) as file:
            write(file, _rows(opened, with_ids, bar), with_ids)


def _format_of(output: str) -> str:
    suffix = os.path.splitext(output)[1].lower()
    if suffix[1:] not in WRITERS:
        known = ", ".join(f".{name}" for name in WRITERS)
        raise click.UsageError(f"{output}: found suffix {suffix or 'none'}, expected {known} or --format")
    return suffix[1:]


def _rows(store: "Store", with_ids: bool, bar: OnProgress | None) -> "Rows":
    """All rows, or each fingerprint once, batch by batch."""
    done = 0
    last = None
    for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows()):
        if not with_ids:
            # Those of one fingerprint come one after the other.
            first = keys != last
            first[1:] = keys[1:] != keys[:-1]
            last = keys[-1]
            keys = keys[first]
        yield keys, ids if with_ids else None
        done += len(keys)
        if bar is not None:
            bar(Progress("writing", done, None, "rows"))


def _write_u64(file: BinaryIO, rows: "Rows", with_ids: bool) -> None:
    for keys, _ in rows:
        file.write(keys.astype("<u8", copy=False).data)


def _write_npy(file: BinaryIO, rows: "Rows", with_ids: bool) -> None:
    _write_npy_header(file, 0)
    start = file.tell()
    _write_u64(file, rows, with_ids)
    count = (file.tell() - start) // 8
    file.seek(0)
    _write_npy_header(file, count)


def _write_npy_header(file: BinaryIO, count: int) -> None:
    """As long for every count: numpy leaves room for it to grow."""
    from numpy.lib import format as npy

    npy.write_array_header_1_0(file, {"descr": "<u8", "fortran_order": False, "shape": (count,)})


def _write_hex(file: BinaryIO, rows: "Rows", with_ids: bool) -> None:
    _write_lines(file, rows, "{:016x}\t{}\n" if with_ids else "{:016x}\n")


def _write_csv(file: BinaryIO, rows: "Rows", with_ids: bool) -> None:
    file.write(b"fingerprint,id\n" if with_ids else b"fingerprint\n")
    _write_lines(file, rows, "{:016x},{}\n" if with_ids else "{:016x}\n")


def _write_lines(file: BinaryIO, rows: "Rows", line: str) -> None:
    for keys, ids in rows:
        columns = [keys.tolist()] if ids is None else [keys.tolist(), ids.tolist()]
        file.write("".join(map(line.format, *columns)).encode("ascii"))


def _write_parquet(file: BinaryIO, rows: "Rows", with_ids: bool) -> None:
    from fpstore.text import need

    arrow = need("pyarrow", "arrow", "writing Parquet")
    parquet = need("pyarrow.parquet", "arrow", "writing Parquet")
    names = ["fingerprint", "id"] if with_ids else ["fingerprint"]
    schema = arrow.schema([(name, arrow.uint64()) for name in names])
    with parquet.ParquetWriter(file, schema) as writer:
        for keys, ids in rows:
            columns = [keys] if ids is None else [keys, ids]
            writer.write_batch(arrow.record_batch([arrow.array(column) for column in columns], schema=schema))


WRITERS: "dict[str, Callable[[BinaryIO, Rows, bool], None]]" = {
    "npy": _write_npy,
    "u64": _write_u64,
    "hex": _write_hex,
    "csv": _write_csv,
    "parquet": _write_parquet,
}
