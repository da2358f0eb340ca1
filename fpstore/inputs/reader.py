"""Owns what a caller sees of the inputs: the format of each source, and its rows as batches or documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fpstore.inputs.cells import FingerprintColumn
from fpstore.inputs.compressed import STANDARD_INPUT, SUFFIXES, OnBytes, display_name
from fpstore.inputs.errors import Faults
from fpstore.inputs.numeric import read_hex, read_npy, read_u64
from fpstore.inputs.records import Batch, Piece, Records, Request, piece_of_fingerprints, piece_of_texts
from fpstore.inputs.tabular import read_csv, read_parquet, read_tsv
from fpstore.inputs.text import read_html, read_jsonl, read_text
from fpstore.inputs.warc import read_warc
from fpstore.text import DEFAULT, Recipe
from fpstore.text.short import DEFAULT_K, Lengths

DEFAULT_BATCH = 1 << 18

_PIECE_READERS: dict[str, Callable[[str, Request], Iterator[Piece]]] = {
    "npy": read_npy,
    "u64": read_u64,
    "hex": read_hex,
}
_RECORD_READERS: dict[str, Callable[[str, Request], Iterator[Records]]] = {
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
    "jsonl": read_jsonl,
    "text": read_text,
    "html": read_html,
    "warc": read_warc,
}
FORMATS = ("auto", *_PIECE_READERS, *_RECORD_READERS)
_FORMAT_OF_SUFFIX = {f".{name}": name for name in FORMATS[1:] if name != "text"} | {
    ".ndjson": "jsonl",
    ".txt": "text",
    ".htm": "html",
    ".xhtml": "html",
    ".wet": "warc",
}
_OF_TREES = ("text", "html")  # a directory of files can be one of these
_OF_DOCUMENTS = (*_OF_TREES, "warc")  # these hold nothing but texts


@dataclass(frozen=True, slots=True)
class _Source:
    """One input: its path (`-` is standard input) and its format."""

    path: str
    format: str


class Reader(Iterator[Batch]):
    """Batches of the fingerprints of several sources, read as they are asked for; made by read.

    recipe: by which texts among the sources become fingerprints, None where there are none.
    total_bytes: the sizes of all sources, None where that is not known before they are read. lengths: of the texts
    that were read so far.
    """

    def __init__(self, sources: list[_Source], request: Request, lengths: Lengths) -> None:
        self.lengths = lengths
        self.recipe = request.recipe if any(_holds_texts(source, request) for source in sources) else None
        self.total_bytes = _total_bytes(sources)
        self._faults = request.faults
        self._batches = _batches(sources, request)

    @property
    def skipped(self) -> int:
        """How many bad lines and rows were passed over so far."""
        return self._faults.count

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        self._batches.close()


class Documents(Iterator[tuple[str, str]]):
    """The name and the text of every document of several sources, in the order of read; made by documents."""

    def __init__(self, sources: list[_Source], request: Request) -> None:
        self.total_bytes = _total_bytes(sources)
        self._faults = request.faults
        self._documents = _documents(sources, request)

    @property
    def skipped(self) -> int:
        """How many bad lines and rows were passed over so far."""
        return self._faults.count

    def __next__(self) -> tuple[str, str]:
        name, text, _ = next(self._documents)
        return name, text

    def with_lines(self) -> Iterator[tuple[str, str, bytes | None]]:
        """The same with the JSON line that each document was read from, as it stands; None for other formats."""
        return self._documents

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        self._documents.close()


def read(
    sources: Sequence[str | Path],
    *,
    format: str = "auto",
    ids: str | int | None = "row",
    column: str | int | None = None,
    text_column: str | int | None = None,
    html: bool = False,
    recipe: Recipe | None = None,
    max_distance: int = DEFAULT_K,
    threads: int = 1,
    skip_bad: bool = False,
    batch: int = DEFAULT_BATCH,
    on_bytes: OnBytes | None = None,
) -> Reader:
    """Stream the fingerprints of sources, one after the other, as batches of at most `batch`.

    sources: paths, `-` for standard input; .gz and .zst are read as they are. format: one of FORMATS; `auto`
    goes by the suffix, and takes a directory as text. ids: "row" numbers the rows of all sources from 0, bad
    ones included; a column (name, or number from 0) or JSON field holds them; None leaves them out.
    column: holds the fingerprints. text_column: holds texts, which become fingerprints by recipe (DEFAULT
    where None). With neither, a table's column is `fingerprint` or its first, a JSON object's field the text
    in `text`; a field may be a path, its parts joined by dots. html: the texts are HTML (those of formats html and
    warc are anyhow). max_distance: the one that they will be compared by, for Reader.lengths. threads: make the
    fingerprints. skip_bad: count bad lines and rows instead of raising. on_bytes: told of bytes as they are read.

    Raises ValueError for a wrong argument, and where some sources hold texts and others fingerprints; BadInput (a
    ValueError) for a source that does not hold what its format says; ImportError where an optional package is missing.
    The system's errors pass through.
    """
    recipe = DEFAULT if recipe is None else recipe
    lengths = Lengths(recipe, max_distance)
    request = Request(
        ids=ids,
        column=column,
        text_column=text_column,
        recipe=recipe,
        rows=batch,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
        html=html,
        threads=threads,
        on_lengths=lengths.see,
    )
    resolved = _resolve(sources, format, request)
    _expect_one_kind(resolved, request)
    return Reader(resolved, request, lengths)


def documents(
    sources: Sequence[str | Path],
    *,
    format: str = "auto",
    text_column: str | int | None = None,
    html: bool = False,
    recipe: Recipe | None = None,
    skip_bad: bool = False,
    on_bytes: OnBytes | None = None,
) -> Documents:
    """Stream (name, text) for every document of sources: the rows of read, of HTML what the recipe makes of it.

    A file's name is its path, that of a line or row is path:number, that of an archive's record path:number:URI.
    Arguments and errors are those of read; a source that holds no texts is a ValueError.
    """
    request = Request(
        ids=None,
        column=None,
        text_column=text_column,
        recipe=DEFAULT if recipe is None else recipe,
        rows=DEFAULT_BATCH,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
        html=html,
    )
    resolved = _resolve(sources, format, request)
    for source in resolved:
        if not _holds_texts(source, request):
            name = display_name(source.path)
            raise ValueError(f"{name}: found fingerprints by format {source.format}, expected texts")
    return Documents(resolved, request)


def format_of(path: str | Path) -> str:
    """The format that `auto` takes path for: `text` for a directory, else by its suffix before .gz or .zst.

    Raises ValueError for a suffix that no format has, and for standard input.
    """
    if str(path) == STANDARD_INPUT:
        raise ValueError(f"standard input: found no suffix to tell its format, expected one of {_known()}")
    if os.path.isdir(path):
        return "text"
    stem, suffix = os.path.splitext(str(path))
    if suffix.lower() in SUFFIXES:
        suffix = os.path.splitext(stem)[1]
    format = _FORMAT_OF_SUFFIX.get(suffix.lower())
    if format is None:
        expected = f"{', '.join(_FORMAT_OF_SUFFIX)} or a format, one of {_known()}"
        raise ValueError(f"{path}: found suffix {suffix or 'none'}, expected {expected}")
    return format


def _known() -> str:
    return ", ".join(FORMATS[1:])


def _resolve(sources: Sequence[str | Path], format: str, request: Request) -> list[_Source]:
    """The sources with their formats; every mistake that can be told without reading is told here."""
    if isinstance(sources, str | Path):
        raise TypeError(f"sources: found one {type(sources).__name__}, expected a list of paths")
    if format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if request.rows < 1:
        raise ValueError(f"batch: found {request.rows}, expected at least 1")
    if request.column is not None and request.text_column is not None:
        raise ValueError("column and text_column: found both, expected one: fingerprints or texts")
    for name, value in (("ids", request.ids), ("column", request.value_column)):
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{name}: found {value}, expected a name or a number from 0")
    paths = [os.fspath(source) for source in sources]
    if paths.count(STANDARD_INPUT) > 1:
        raise ValueError("standard input: found it more than once among the sources, expected it once")
    resolved = []
    for path in paths:
        if path != STANDARD_INPUT:
            os.stat(path)  # so that a missing last file is known before the first is read
        source = _Source(path, format_of(path) if format == "auto" else format)
        _check(source, request)
        resolved.append(source)
    return resolved


def _check(source: _Source, request: Request) -> None:
    """Refuse what the format of a source cannot give."""
    name, format = display_name(source.path), source.format
    stem_suffix = os.path.splitext(source.path)[1].lower()
    if format not in _OF_TREES and source.path != STANDARD_INPUT and os.path.isdir(source.path):
        raise ValueError(f"{name}: found a directory, expected a file for format {format}")
    if format == "parquet" and (source.path == STANDARD_INPUT or stem_suffix in SUFFIXES):
        raise ValueError(f"{name}: found a stream, expected a plain file for format parquet")
    if format in (*_PIECE_READERS, *_OF_DOCUMENTS) and request.value_column is not None:
        raise ValueError(f"{name}: found column {request.value_column!r}, expected none for format {format}")
    ids = request.ids_column
    if (format in ("npy", "u64", *_OF_DOCUMENTS) and ids is not None) or (format == "hex" and ids not in (None, 1)):
        expected = "1, 'row' or None" if format == "hex" else "'row' or None"
        raise ValueError(f"{name}: found ids {ids!r}, expected {expected} for format {format}")
    if format == "jsonl" and (isinstance(request.value_column, int) or isinstance(ids, int)):
        raise ValueError(f"{name}: found a column number, expected the name of a field for format jsonl")
    if request.html and not _holds_texts(source, request):
        raise ValueError(f"{name}: found html for fingerprints of format {format}, expected texts")


def _holds_texts(source: _Source, request: Request) -> bool:
    """Whether the values of a source are texts rather than fingerprints."""
    if source.format == "jsonl":
        return request.column is None
    return source.format in _OF_DOCUMENTS or request.text_column is not None


def _expect_one_kind(sources: list[_Source], request: Request) -> None:
    """Refuse texts beside ready-made fingerprints: nobody knows whether these were made by the same recipe."""
    texts = [source for source in sources if _holds_texts(source, request)]
    others = [source for source in sources if source not in texts]
    if texts and others:
        text, other = display_name(texts[0].path), display_name(others[0].path)
        found = f"found texts (format {texts[0].format}), and fingerprints in {other} (format {others[0].format})"
        raise ValueError(f"{text}: {found}, expected only one of the two in all sources")


def _total_bytes(sources: list[_Source]) -> int | None:
    if any(source.path == STANDARD_INPUT or not os.path.isfile(source.path) for source in sources):
        return None
    return sum(os.path.getsize(source.path) for source in sources)


def _documents(sources: list[_Source], request: Request) -> Generator[tuple[str, str, bytes | None]]:
    for source in sources:
        for records in _RECORD_READERS[source.format](source.path, request):
            texts, kept = records.texts(request)
            for text, index in zip(texts, kept, strict=True):
                yield records.name(index), text, None if records.lines is None else records.lines[index]


def _pieces(source: _Source, request: Request) -> Iterator[Piece]:
    if source.format in _PIECE_READERS:
        yield from _PIECE_READERS[source.format](source.path, request)
        return
    column = FingerprintColumn()
    texts = _holds_texts(source, request)
    for records in _RECORD_READERS[source.format](source.path, request):
        yield piece_of_texts(records, request) if texts else piece_of_fingerprints(records, request, column)


def _numbered(sources: list[_Source], request: Request) -> Iterator[Batch]:
    """The pieces of all sources as batches of whatever size, rows numbered from the first source on."""
    base = 0
    for source in sources:
        end = 0
        for piece in _pieces(source, request):
            end = piece.end
            if len(piece.fingerprints):
                ids = piece.rows + np.uint64(base) if request.ids == "row" else piece.ids
                yield Batch(piece.fingerprints, ids)
        base += end


def _batches(sources: list[_Source], request: Request) -> Generator[Batch]:
    """The same rows in batches of request.rows; only the last is smaller."""
    held: list[Batch] = []
    count = 0
    for part in _numbered(sources, request):
        held.append(part)
        count += len(part.fingerprints)
        if count < request.rows:
            continue
        joined = _join(held)
        whole = count - count % request.rows
        for start in range(0, whole, request.rows):
            yield _slice(joined, start, start + request.rows)
        count -= whole
        held = [_slice(joined, whole, whole + count)] if count else []
    if held:
        yield _join(held)


def _join(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    ids = [part.ids for part in parts if part.ids is not None]
    fingerprints = np.concatenate([part.fingerprints for part in parts])
    return Batch(fingerprints, np.concatenate(ids) if ids else None)


def _slice(batch: Batch, start: int, end: int) -> Batch:
    return Batch(batch.fingerprints[start:end], None if batch.ids is None else batch.ids[start:end])
