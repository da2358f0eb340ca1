"""Owns what the name of a result says of it: the form of its lines, and how the file is packed.

A result grows as plain bytes, which can be cut off anywhere; when all is done they are packed into another file. What
is packed follows from these bytes alone.
"""

import gzip
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fpstore.text.packages import need

JSON, CSV, TSV, PARQUET = "jsonl", "csv", "tsv", "parquet"

_KINDS = {
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".csv": CSV,
    ".tsv": TSV,
    ".parquet": PARQUET,
}
_PACKINGS = (".gz", ".zst")
STANDARD_OUTPUT = "-"
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3

# Turns the bytes of a part into those of a result.
Pack = Callable[[BinaryIO, BinaryIO], None]


@dataclass(frozen=True)
class Compress:
    """The same by one pass over a part, from which it needs nothing before its time: open makes what compresses."""

    open: Callable[[BinaryIO], Any]

    def __call__(self, part: BinaryIO, out: BinaryIO) -> None:
        """As Pack."""
        with self.open(out) as packed:
            shutil.copyfileobj(part, packed)


@dataclass(frozen=True)
class Form:
    """The kind of a result's lines, the suffix of what it is compressed by, "" for nothing, and the file's name."""

    kind: str
    packing: str = ""
    name: str = ""

    def pack(self, convert: Pack | None = None) -> Pack | None:
        """What makes the file of a part, which convert turns into plain bytes of the kind; None if a part is it."""
        if not self.packing:
            return convert
        compress = _gzip if self.packing == ".gz" else _zstd
        if convert is None:
            return Compress(compress)

        def pack(part: BinaryIO, out: BinaryIO) -> None:
            with compress(out) as packed:
                convert(part, packed)

        return pack


def form_of(path: Path, otherwise: str, kinds: Mapping[str, str] = _KINDS) -> Form:
    """The form of a result by its suffix; one without a suffix is of the kind `otherwise`.

    Raises ValueError for a suffix that is not known, and ImportError where a package for it is missing. A file called
    .json is one value to all who read it, and a result grows by lines.
    """
    if path.name == STANDARD_OUTPUT:
        raise ValueError(f"{path}: found the sign of standard output, expected the name of a file")
    suffix, packing = path.suffix.lower(), ""
    if suffix in _PACKINGS:
        packing, suffix = suffix, Path(path.stem).suffix.lower()
    kind = kinds.get(suffix) if suffix else otherwise
    if kind is None or (kind == PARQUET and packing):
        if suffix == ".json":
            expected = "expected .jsonl: a result has an object a line, and not one value"
            raise ValueError(f"{path}: found suffix .json, {expected}")
        known = f"{', '.join(_KINDS)}, none, or these but .parquet before {' or '.join(_PACKINGS)}"
        raise ValueError(f"{path}: found suffix {suffix}{packing}, expected one of {known}")
    if kind == PARQUET:
        need("pyarrow.parquet", "arrow", "writing Parquet")
    if packing == ".zst":
        need("zstandard", "zstd", "writing .zst")
    return Form(kind, packing, path.name)


def form_of_shard(path: Path) -> Form:
    """That of a file named for an input, of which it was said that it has JSON lines where it is called .json."""
    return form_of(path, JSON, {**_KINDS, ".json": JSON})


def _gzip(out: BinaryIO) -> Any:
    # No name and no time in it: the same part gives the same bytes.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=out, mtime=0)


def _zstd(out: BinaryIO) -> Any:
    zstandard = need("zstandard", "zstd", "writing .zst")
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(out, closefd=False)


# --- Cells ---


def csv_row(cells: list[str], delimiter: str = ",") -> bytes:
    """Cells as a line of CSV, or of quoted TSV; raises UnicodeEncodeError for half of a surrogate pair."""
    if len(cells) == 1 and not cells[0]:
        return b'""\n'  # an empty line would be no row
    written = (_csv_cell(cell, delimiter) for cell in cells)
    return delimiter.join(written).encode("utf-8", "surrogateescape") + b"\n"


def _csv_cell(cell: str, delimiter: str) -> str:
    quoted = '"' in cell or delimiter in cell or "\n" in cell or "\r" in cell
    return '"' + cell.replace('"', '""') + '"' if quoted else cell
