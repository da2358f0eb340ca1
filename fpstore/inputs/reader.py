"""Owns what a caller sees of the inputs: the format of each source, and its rows as batches or documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fpstore.inputs.cells import ASK_WAY, MAX_VALUE, WAYS
from fpstore.inputs.columns import ASK_FINGERPRINT, ASK_HEADER, ASK_TEXT, FINGERPRINT_NAMES, Asked
from fpstore.inputs.compressed import SUFFIXES, OnBytes, display_name
from fpstore.inputs.delimited import DIALECTS
from fpstore.inputs.errors import BadInput, Faults, about, expect_some
from fpstore.inputs.fields import Names, check_name_column, named
from fpstore.inputs.numeric import read_hex, read_npy, read_u64
from fpstore.inputs.records import (
    DOCUMENTS,
    JSON_OBJECTS,
    Batch,
    Layout,
    Piece,
    Records,
    Request,
    Row,
    Seen,
    batches_of,
    kind_of,
    piece_of_ids,
    piece_of_texts,
    pieces_of_fingerprints,
)
from fpstore.inputs.sources import FORMATS, Input, Source, inputs_of, is_stream, total_bytes
from fpstore.inputs.tabular import read_delimited, read_parquet
from fpstore.inputs.text import (
    DEFAULT_FIELD,
    FORMATS_OF_FIELDS,
    first_fields,
    read_html,
    read_json,
    read_jsonl,
    read_text,
)
from fpstore.inputs.warc import read_warc
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.short import DEFAULT_K, Lengths
from fpstore.types import IdType

DEFAULT_BATCH = 1 << 18

_PIECE_READERS: dict[str, Callable[[str, Request], Iterator[Piece]]] = {
    "npy": read_npy,
    "u64": read_u64,
    "hex": read_hex,
}
_RECORD_READERS: dict[str, Callable[[str, Request], Iterator[Records]]] = {
    **{format: partial(read_delimited, format=format) for format in DIALECTS},
    "parquet": read_parquet,
    "jsonl": read_jsonl,
    "json": read_json,
    "warc": read_warc,
}
# A file is one document of these, so many are read together.
_FILE_READERS: dict[str, Callable[[Iterable[str], Request], Iterator[Records]]] = {"text": read_text, "html": read_html}
_TABLES = (*DIALECTS, "parquet")
_OF_DOCUMENTS = (*_FILE_READERS, "warc")  # these hold nothing but texts, and have no columns


class Reader(Iterator[Batch]):
    """Batches of the fingerprints of several sources, read as they are asked for; made by read.

    recipe: by which texts among the sources become fingerprints, None where there are none. tells_nothing: whether all
    sources are files of JSON without anything in them, which could be meant for texts or for fingerprints.
    total_bytes: the sizes of all sources, None where that is not known before they are read. lengths: of the texts
    that were read so far. seen: how many files and rows were read so far. skipped: what was passed over so far, how
    many by reason (`bad line`, `hidden file`). notes: what was read in spite of some damage, in the same way.
    """

    def __init__(self, sources: list[Input], request: Request, lengths: Lengths) -> None:
        self.lengths = lengths
        telling = _telling(sources, request)
        self.recipe = request.recipe if any(_holds_texts(kind, request) for kind in telling) else None
        self.tells_nothing = not telling
        self.total_bytes = total_bytes(sources)
        self.seen = request.seen
        self.skipped: Mapping[str, int] = request.faults.counts
        self.notes: Mapping[str, int] = request.faults.notes
        self._batches = batches_of(_numbered(sources, request), request.rows)

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        self._batches.close()


class Documents(Iterator[tuple[str, str]]):
    """The name and the text of every document of several sources, in the order of read; made by documents.

    total_bytes, seen, skipped, notes: as a Reader has them.
    """

    def __init__(self, sources: list[Input], request: Request) -> None:
        self.total_bytes = total_bytes(sources)
        self.seen = request.seen
        self.skipped: Mapping[str, int] = request.faults.counts
        self.notes: Mapping[str, int] = request.faults.notes
        self._sources, self._request = sources, request
        self._documents = _documents(sources, request)

    @property
    def bad(self) -> int:
        """How much of what was passed over so far is bad."""
        return self._request.faults.bad

    def __next__(self) -> tuple[str, str]:
        name, text, _ = next(self._documents)
        return name, text

    def with_rows(self) -> Iterator[tuple[str, str, Row]]:
        """The same with all that the source has of each document, if all_columns was asked for."""
        return self._documents

    def layouts(self) -> Iterator[tuple[str, str, Layout | None]]:
        """Of each source what messages call it, the kind of its format, and its layout; None of tables that only
        reading tells.

        Reads the beginning of each table.
        """
        request = replace(self._request, faults=Faults(True), on_bytes=None, seen=Seen())
        for source in _sources(self._sources, request):
            layout: Layout | None = JSON_OBJECTS if source.format in FORMATS_OF_FIELDS else DOCUMENTS
            if source.format in _TABLES:
                layout = None if is_stream(source.path) else _layout_of(source, request)
            yield display_name(source.path), kind_of(source.format), layout

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        self._documents.close()


def read(
    sources: Sequence[str | Path],
    *,
    format: str = "auto",
    fingerprint_column: str | int | None = None,
    text_column: str | int | None = None,
    id_column: str | int | None = None,
    ids: str | None = "auto",
    first_id: int = 0,
    id_type: IdType = "uint64",
    header: bool | None = None,
    fingerprint_format: str = "auto",
    html: bool = False,
    recipe: Recipe | None = None,
    max_distance: int = DEFAULT_K,
    threads: int | None = None,
    skip_bad: bool = False,
    batch: int = DEFAULT_BATCH,
    rows_serve: bool | None = None,
    on_bytes: OnBytes | None = None,
) -> Reader:
    """Stream the fingerprints of sources, one after the other, as batches of at most `batch`.

    sources: paths, `-` for standard input; .gz, .zst, .bz2 and .xz are read as they are. A folder stands for all files
    under it, in sorted order, a pattern such as `part-*.csv` for what it matches. format: of all files, one of FORMATS;
    `auto` goes by the suffix of each, and refuses a folder that has files of unknown suffixes.
    fingerprint_column, text_column, id_column: which column of a table (its name, or its number from 0), or field of
    JSON objects, holds what; a field may be a path, its parts joined by dots. Texts become fingerprints by recipe
    (DEFAULT_RECIPE where None). Where none is named, fingerprints are in the one column called `fingerprint`,
    `simhash`, `hash` or `fp`, or in the only one; JSON objects hold texts in `text`, or else fingerprints so named.
    ids: "column", that of id_column or the one called `id`; "row" numbers the rows of all sources from first_id, bad
    ones included; None leaves them out; "auto" is "column" where there is one, else "row". id_type: what the ids of a
    column are; names, "string" or "bytes", come as arrays of objects, and there are no others then.
    header: whether the first row of CSV and TSV names the columns; None where the row tells it, and one that can be
    meant in two ways is refused.
    fingerprint_format: how the strings of a column write fingerprints: "hex" or "decimal"; "auto" is told by the
    first value that can be only one of them (fpstore.inputs.cells). html: the texts are HTML (those of formats html and
    warc are anyhow). max_distance: the distance that they will be compared by, for Reader.lengths. threads: how many
    make the fingerprints, one for each processor where None. skip_bad: count bad lines, rows and files instead of
    raising; where all are bad, the end is BadInput. rows_serve: whether messages may advise row numbers as ids, where
    None unless ids are names. on_bytes: told of bytes as they are read.

    Raises ValueError for a wrong argument, and where some sources hold texts and others fingerprints; BadInput (a
    ValueError) for a source that does not hold what its format says; ImportError where an optional package is missing.
    The system's errors pass through.
    """
    recipe = DEFAULT_RECIPE if recipe is None else recipe
    rows_serve = id_type == "uint64" if rows_serve is None else rows_serve
    lengths = Lengths(recipe, max_distance)
    request = Request(
        asked=Asked(fingerprint_column, text_column, id_column, ids, header=header, rows_serve=rows_serve),
        fingerprint_format=fingerprint_format,
        first_id=first_id,
        id_type=id_type,
        recipe=recipe,
        rows=batch,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
        html=html,
        threads=threads,
        on_measured=lengths.see,
        takes_fingerprints=True,
    )
    resolved, request = _resolve(sources, format, request)
    _expect_one_kind(resolved, request)
    return Reader(resolved, request, lengths)


def read_ids(
    sources: Sequence[str | Path],
    *,
    format: str = "auto",
    id_column: str | int | None = None,
    id_type: IdType = "uint64",
    header: bool | None = None,
    skip_bad: bool = False,
    batch: int = DEFAULT_BATCH,
    on_bytes: OnBytes | None = None,
) -> Reader:
    """Stream the ids that sources hold, as the `fingerprints` of batches without ids of their own.

    They are the column id_column, the one called `id`, or the only one; all of npy and u64. Arguments and errors are
    those of read; a format without ids is a ValueError.
    """
    request = Request(
        asked=Asked(id=id_column, of_ids=True, header=header),
        id_type=id_type,
        recipe=DEFAULT_RECIPE,
        rows=batch,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
    )
    resolved, request = _resolve(sources, format, request)
    return Reader(resolved, request, Lengths(DEFAULT_RECIPE, DEFAULT_K))


def documents(
    sources: Sequence[str | Path],
    *,
    format: str = "auto",
    text_column: str | int | None = None,
    id_column: str | int | None = None,
    header: bool | None = None,
    html: bool = False,
    recipe: Recipe | None = None,
    skip_bad: bool = False,
    all_columns: bool = False,
    is_part: bool = False,
    on_bytes: OnBytes | None = None,
) -> Documents:
    """Stream (name, text) for every document of sources: the rows of read, of HTML what the recipe makes of it.

    A file's name is its path, that of a line or row is path:number, that of an archive's record path:number:URI.
    id_column: the column that has the names instead, texts or whole numbers; a document without one is a bad row, and
    whole files beside tables keep theirs. all_columns: read all that tables have of a document, for
    Documents.with_rows. is_part: there are other sources, so that all of these may be bad.
    Arguments and errors are those of read; a source that holds no texts is a ValueError.
    """
    request = Request(
        asked=Asked(text=text_column, header=header),
        recipe=DEFAULT_RECIPE if recipe is None else recipe,
        rows=DEFAULT_BATCH,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
        html=html,
        all_columns=all_columns or id_column is not None,
        is_part=is_part,
        name_column=id_column,
    )
    resolved, request = _resolve(sources, format, request, of_documents=True)
    if id_column is not None:
        check_name_column(id_column, header, _kinds(resolved))
    for kind in _kinds(resolved):
        if not _holds_texts(kind, request):
            which = f", and {ASK_TEXT} to name their column" if kind.format in _TABLES else ""
            found = f"found fingerprints by format {kind.format}"
            raise ValueError(f"{display_name(kind.path)}: {found}, expected texts{which}")
    return Documents(resolved, request)


def has_columns(source: str | Path, format: str = "auto") -> bool:
    """Whether any file of a source holds rows of columns or fields, and not whole documents. Errors as of read."""
    return any(kind.format not in _OF_DOCUMENTS for kind in _kinds(inputs_of([source], format)))


def has_header(source: str | Path, format: str = "auto") -> bool:
    """Whether any file of a source is CSV or TSV, of which a header can be said. Errors as of read."""
    return any(kind.format in DIALECTS for kind in _kinds(inputs_of([source], format)))


def _resolve(
    sources: Sequence[str | Path], format: str, request: Request, *, of_documents: bool = False
) -> tuple[list[Input], Request]:
    """The sources with their formats, and the request with the field of fingerprints of JSON objects that have no text.

    Every mistake is told here that can be told without reading more than the first of such objects.
    """
    if format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if request.rows < 1:
        raise ValueError(f"batch: found {request.rows}, expected at least 1")
    request.asked.check()
    if request.fingerprint_format not in WAYS:
        raise ValueError(f"fingerprint_format: found {request.fingerprint_format!r}, expected {', '.join(WAYS)}")
    if request.first_id and request.asked.ids != "row":
        raise ValueError(f"first_id: found {request.first_id} with ids {request.asked.ids!r}, expected ids 'row'")
    request.check_id_type()
    if not 0 <= request.first_id <= MAX_VALUE:
        raise ValueError(f"first_id: found {request.first_id}, expected 0 to 2**64 - 1")
    resolved = inputs_of(sources, format)
    kinds = _kinds(resolved)
    if request.asked.header is not None and not any(kind.format in DIALECTS for kind in kinds):
        formats = ", ".join(dict.fromkeys(kind.format for kind in kinds)) or "none"
        raise ValueError(f"{ASK_HEADER}: found it with format {formats}, expected csv or tsv")
    if request.value_column is None and not of_documents and not request.asked.of_ids:
        request = _with_field_of_fingerprints(resolved, request)
    # Documents have no columns: the one of the texts is for the tables beside them.
    is_beside = request.reads_texts and any(kind.format not in _OF_DOCUMENTS for kind in kinds)
    for kind in kinds:
        _check(kind, request, takes_column=is_beside)
    return resolved, request


def _with_field_of_fingerprints(inputs: list[Input], request: Request) -> Request:
    """The request, for JSON objects of which the first has no text but a fingerprint by its name.

    BadInput where it has both. A stream is not looked at: its objects have texts unless something else is said, and
    reading refuses it where they have fingerprints instead.
    """
    empty: list[str] = []
    for one in inputs:
        source, names = first_fields(one)
        if source is not None and names is None:
            empty.append(one.path)
        called = [name for name in names or () if name.lower() in FINGERPRINT_NAMES]
        if source is None or names is None or not called or request.json_field is not None:
            continue
        if len(called) > 1 or DEFAULT_FIELD in names:
            name, found = display_name(source.path), f"found fields {', '.join(names)}"
            raise BadInput(f"{name}: {found}; expected {ASK_FINGERPRINT} or {ASK_TEXT}", source=name)
        request = replace(request, json_field=called[0])
    return replace(request, empty=frozenset(empty))


def _telling(inputs: list[Input], request: Request) -> list[Source]:
    """As _kinds, without files of JSON in which there is nothing: these are neither texts nor fingerprints."""
    kinds = [(one, Source(path, format)) for one in inputs for format, path in one.kinds.items()]
    return [kind for one, kind in kinds if kind.format not in FORMATS_OF_FIELDS or one.path not in request.empty]


def _kinds(inputs: list[Input]) -> list[Source]:
    """A file of each format that an input has: what is said of it holds for the others."""
    return [Source(path, format) for one in inputs for format, path in one.kinds.items()]


def _check(source: Source, request: Request, *, takes_column: bool) -> None:
    """Refuse what the format of a source cannot give."""
    name, format = display_name(source.path), source.format
    stem_suffix = os.path.splitext(source.path)[1].lower()
    if format == "parquet" and (is_stream(source.path) or stem_suffix in SUFFIXES):
        raise ValueError(f"{name}: found a stream, expected a plain file for format parquet")
    no_columns = _PIECE_READERS if takes_column else (*_PIECE_READERS, *_OF_DOCUMENTS)
    if format in no_columns and request.value_column is not None:
        raise ValueError(f"{name}: found column {request.value_column!r}, expected none for format {format}")
    asked = request.asked
    if asked.of_ids and format in ("hex", *_OF_DOCUMENTS):
        raise ValueError(f"{name}: found format {format}, expected one that can hold nothing but ids, or a table")
    if format in _PIECE_READERS and asked.id is not None and not asked.of_ids:
        raise ValueError(f"{name}: found id_column {asked.id!r}, expected none for format {format}")
    if request.id_type != "uint64" and (format == "hex" or (asked.of_ids and format in ("npy", "u64"))):
        raise ValueError(f"{name}: found ids that are names, which format {format} does not hold; expected a table")
    if format in ("npy", "u64", *_OF_DOCUMENTS) and (asked.id is not None or asked.ids == "column"):
        raise ValueError(f"{name}: found ids of a column, expected ids (--ids) row, none or from:N for format {format}")
    if request.fingerprint_format != "auto" and (_holds_texts(source, request) or format in ("npy", "u64")):
        raise ValueError(f"{name}: found {ASK_WAY}, expected none for format {format}: no strings are read as numbers")
    if format in FORMATS_OF_FIELDS and (isinstance(request.value_column, int) or isinstance(asked.id, int)):
        raise ValueError(f"{name}: found a column number, expected the name of a field for format {format}")
    if request.html and not _holds_texts(source, request):
        raise ValueError(f"{name}: found html for fingerprints of format {format}, expected texts")


def _holds_texts(source: Source, request: Request) -> bool:
    """Whether the values of a source are texts rather than fingerprints."""
    if request.asked.of_ids:
        return False
    if source.format in FORMATS_OF_FIELDS:
        return request.asked.fingerprint is None and request.json_field is None
    return source.format in _OF_DOCUMENTS or request.reads_texts


def _expect_one_kind(inputs: list[Input], request: Request) -> None:
    """Refuse texts beside ready-made fingerprints: nobody knows whether these were made by the same recipe."""
    kinds = _telling(inputs, request)
    texts = [kind for kind in kinds if _holds_texts(kind, request)]
    others = [kind for kind in kinds if not _holds_texts(kind, request)]
    if texts and others:
        text, other = display_name(texts[0].path), display_name(others[0].path)
        found = f"found texts (format {texts[0].format}), and fingerprints in {other} (format {others[0].format})"
        expected = "only one of the two in all sources, or text_column (--text-column) for texts in columns"
        raise ValueError(f"{text}: {found}; expected {expected}")


def _sources(inputs: list[Input], request: Request) -> Iterator[Source]:
    """Every file of all inputs, as it is read."""
    for one in inputs:
        for source in one.files(request.faults):
            request.seen.files += 1
            yield source


def _runs(inputs: list[Input], request: Request) -> Iterator[tuple[str, Iterable[str]]]:
    """The format and the paths of what is read together: a file, or several that are one document each."""
    for format, sources in groupby(_sources(inputs, request), key=lambda source: source.format):
        paths = (source.path for source in sources)
        if format in _FILE_READERS:
            yield format, paths
        else:
            yield from ((format, [path]) for path in paths)


def _source_of(format: str, paths: Iterable[str]) -> str | None:
    """What messages call the file that is read; of many that are read together each reader says it."""
    return None if format in _FILE_READERS else display_name(next(iter(paths)))


def _records(format: str, paths: Iterable[str], request: Request) -> Iterator[Records]:
    if format in _FILE_READERS:
        return _FILE_READERS[format](paths, request)
    (path,) = paths
    return _RECORD_READERS[format](path, request)


def _documents(inputs: list[Input], request: Request) -> Generator[tuple[str, str, Row]]:
    base = good = 0
    names = None if request.name_column is None else Names(request.name_column)
    for format, paths in _runs(inputs, request):
        with about(_source_of(format, paths)):
            for document in named(_records(format, paths, request), request, names, base):
                good += 1
                yield document
        base = request.seen.rows
    if not request.is_part:
        expect_some(good, request.faults.bad, request.faults.counts)


def _layout_of(source: Source, request: Request) -> Layout | None:
    """That of a table; None of an empty one."""
    for records in _records(source.format, [source.path], request):
        return None if records.layout is DOCUMENTS else records.layout
    return None


def _pieces(format: str, paths: Iterable[str], request: Request) -> Iterator[Piece]:
    if format in _PIECE_READERS:
        (path,) = paths
        yield from _PIECE_READERS[format](path, request)
        return
    if _holds_texts(Source("", format), request):
        for records in _records(format, paths, request):
            yield piece_of_texts(records, request)
    elif request.asked.of_ids:
        for records in _records(format, paths, request):
            yield piece_of_ids(records, request)
    else:
        yield from pieces_of_fingerprints(_records(format, paths, request), request)


def _numbered(inputs: list[Input], request: Request) -> Iterator[Batch]:
    """The pieces of all inputs as batches of whatever size, rows numbered from the first file on."""
    base = good = 0
    for format, paths in _runs(inputs, request):
        with about(_source_of(format, paths)):
            for piece in _pieces(format, paths, request):
                request.seen.rows = base + piece.end
                if len(piece.fingerprints):
                    good += len(piece.fingerprints)
                    ids = piece.ids
                    if ids is None and request.id_type != "uint64" and request.asked.ids is not None:
                        raise BadInput(
                            "found no ids, expected a column of names (--id-column)", source=_source_of(format, paths)
                        )
                    if ids is None and request.asked.ids in ("auto", "row"):
                        ids = _row_ids(piece.rows, request.first_id + base)
                    yield Batch(piece.fingerprints, ids)
        base = request.seen.rows
    expect_some(good, request.faults.bad, request.faults.counts)


def _row_ids(rows: npt.NDArray[np.uint64], first: int) -> npt.NDArray[np.uint64]:
    if first + int(rows[-1]) > MAX_VALUE:
        raise ValueError(f"first_id: found id {first + int(rows[-1])} for a row, expected at most 2**64 - 1")
    return rows + np.uint64(first)
