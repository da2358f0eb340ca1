"""Owns what a caller sees of the inputs: the format of each source, and its rows as batches or documents."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

from fpstore.closing import close_all
from fpstore.errors import PathLike
from fpstore.inputs.blocks import Columns, Document, read_blocks, reads_blocks
from fpstore.inputs.cells import width
from fpstore.inputs.columns import ASK_TEXT, Asked
from fpstore.inputs.compressed import OnBytes, display_name
from fpstore.inputs.delimited import DIALECTS
from fpstore.inputs.errors import BadInput, Faults, about, expect_some
from fpstore.inputs.fields import Names, check_name_column, named
from fpstore.inputs.layout import DOCUMENTS, JSON_OBJECTS, Layout, Row, kind_of
from fpstore.inputs.numeric import read_hex, read_npy, read_u64
from fpstore.inputs.records import (
    Batch,
    Piece,
    Records,
    Request,
    Seen,
    batches_of,
    piece_of_ids,
    pieces_of_fingerprints,
    pieces_of_texts,
)
from fpstore.inputs.resolving import (
    TABLES,
    expect_one_kind,
    expect_texts,
    holds_texts,
    kinds_of,
    resolve,
    telling_of,
)
from fpstore.inputs.shares import Share, batch_of, shares_of
from fpstore.inputs.sources import Input, Source, is_stream, total_bytes
from fpstore.inputs.tabular import look_at_origin, read_delimited, read_parquet
from fpstore.inputs.text import (
    FORMATS_OF_FIELDS,
    read_html,
    read_json,
    read_jsonl,
    read_text,
)
from fpstore.inputs.warc import read_warc
from fpstore.origin import Origin, Record
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.recipe import expect_fingerprints
from fpstore.text.shared import Show
from fpstore.text.short import DEFAULT_K, Lengths
from fpstore.threads import thread_count
from fpstore.types import ByteOrder, IdType
from fpstore.workers import Workers

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

_PAGES = frozenset(("html", "warc"))


class Reader(Iterator[Batch]):
    """Batches of the fingerprints of several sources, read as they are asked for; made by read.

    recipe: by which texts among the sources become fingerprints, None where there are none. tells_nothing: whether all
    sources are files of JSON without anything in them, which could be meant for texts or for fingerprints.
    total_bytes: the sizes of all sources, None where that is not known before they are read. lengths: of the texts
    that were read so far. seen: how many files and rows were read so far. skipped: what was passed over so far, how
    many by reason (`bad line`, `hidden file`). notes: what was read in spite of some damage, in the same way.
    origin: by which recipe the fingerprints are that come ready, as far as a source has said so. silent: of how many
    sources nobody knows it, and the first of them; once settle_origin has looked.
    """

    def __init__(self, sources: list[Input], request: Request, lengths: Lengths) -> None:
        self.lengths = lengths
        telling = telling_of(sources, request)
        self.recipe = request.recipe if any(holds_texts(kind, request) for kind in telling) else None
        self.tells_nothing = not telling
        self.total_bytes = total_bytes(sources)
        self.seen = request.seen
        self.skipped: Mapping[str, int] = request.faults.counts
        self.notes: Mapping[str, int] = request.faults.notes
        self.origin = request.origin
        self.silent: tuple[int, str] = (0, "")
        self._sources, self._request = sources, request
        self._batches = batches_of(_numbered(sources, request), request.rows)

    def __next__(self) -> Batch:
        return next(self._batches)

    @property
    def numbers_rows(self) -> bool:
        """Whether the ids of what was read are the numbers of its rows."""
        asked = self._request.asked
        return asked.ids == "row" or (
            asked.ids == "auto" and self._request.decided.ids is False and not self._request.names_texts
        )

    def settle_origin(self, record: Record | None = None, said_by: str | Path = "") -> None:
        """Have RecipeError, before anything is read, where sources say that their fingerprints are by other recipes.

        record: that of a store, None for one that has none; without it all sources have to say the same, if anything.
        """
        if record is not None:
            self.origin.record, self.origin.said_by = record, said_by
        if self.recipe is None and not self._request.asked.of_ids:
            for source in _sources(self._sources, replace(self._request, faults=Faults(True), seen=Seen())):
                if source.format != "parquet" or not look_at_origin(source.path, self._request):
                    count, first = self.silent
                    self.silent = (count + 1, first or display_name(source.path))

    def shares(self, most_rows: int, *, for_others: bool = True) -> list[Share]:
        """The files, and of large ones of numbers so many rows at most, for others to read. Nothing is read here.

        Of fingerprints alone. for_others: not where they may be read here yet, and are counted then. ValueError for
        texts, and for standard input, which nobody else can open.
        """
        counting = self._request if for_others else replace(self._request, faults=Faults(True), seen=Seen())
        return shares_of(list(_sources(self._sources, counting)), self.recipe, self._request, most_rows)

    def count(self, rows: int, bad: int, skipped: Mapping[str, int], notes: Mapping[str, int]) -> None:
        """Have what others met when they read a file of the shares counted as what was read here."""
        faults = self._request.faults
        self.seen.rows, faults.bad = self.seen.rows + rows, faults.bad + bad
        faults.counts.update(skipped)
        faults.notes.update(notes)

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        self._batches.close()


class Documents(Iterator[tuple[str, str]]):
    """The name and the text of every document of several sources, in the order of read; made by documents.

    total_bytes, seen, skipped, notes: as a Reader has them. formats: of all files.
    """

    def __init__(self, sources: list[Input], request: Request) -> None:
        self.total_bytes = total_bytes(sources)
        self.seen = request.seen
        self.skipped: Mapping[str, int] = request.faults.counts
        self.notes: Mapping[str, int] = request.faults.notes
        self._sources, self.request, self.formats = sources, request, {kind.format for kind in kinds_of(sources)}
        self._documents = _documents(sources, request)
        self._columns = _columns(sources, request)

    @property
    def bad(self) -> int:
        """How much of what was passed over so far is bad."""
        return self.request.faults.bad

    def __next__(self) -> tuple[str, str]:
        name, text, _ = next(self._documents)
        return name, text

    def with_rows(self) -> Iterator[tuple[str, str, Row]]:
        """The same with all that the source has of each document, if all_columns was asked for."""
        return self._documents

    def in_columns(self) -> Iterator[Columns | Document]:
        """What with_rows has, in its order: many documents at a time where that is faster, others one by one."""
        return self._columns

    def files(self) -> Iterator[Source]:
        """Every file, as it is read; nobody hears of what is passed over."""
        return _sources(self._sources, replace(self.request, faults=Faults(True), seen=Seen()))

    def layouts(self) -> Iterator[tuple[str, str, Layout | None]]:
        """Of each source what messages call it, the kind of its format, and its layout; None of tables that only
        reading tells.

        Reads the beginning of each table.
        """
        request = replace(self.request, faults=Faults(True), on_bytes=None, seen=Seen())
        for source in _sources(self._sources, request):
            layout: Layout | None = JSON_OBJECTS if source.format in FORMATS_OF_FIELDS else DOCUMENTS
            if source.format in TABLES:
                layout = None if is_stream(source.path) else _layout_of(source, request)
            yield display_name(source.path), kind_of(source.format), layout

    def close(self) -> None:
        """Close the file that is open, if one is; nothing more is read."""
        close_all(self._documents.close, self._columns.close)


def read(
    sources: Sequence[PathLike],
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
    byte_order: ByteOrder = "big",
    bits: int = 64,
    html: bool = False,
    recipe: Recipe | None = None,
    max_distance: int | None = None,
    cut: tuple[int, int] | None = None,
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
    (DEFAULT_RECIPE where None); a Parquet file that says its fingerprints are by another is refused. By one of sketch
    minhash the fingerprints of batches are signatures, integers[n, values], and all sources hold texts.
    Where none is named, fingerprints are in the one column called `fingerprint`, `simhash`, `hash` or `fp`, or in the
    only one; JSON objects hold texts in `text`, or else fingerprints so named.
    ids: "column", that of id_column or the one called `id`; "row" numbers the rows of all sources from first_id, bad
    ones included; None leaves them out; "auto" is "column" where there is one, else "row". id_type: what the ids of a
    column are; names, "string" or "bytes", are arrays of objects. Texts without one are called as by documents() then.
    header: whether the first row of CSV and TSV names the columns; None where the row tells it, and one that can be
    meant in two ways is refused.
    fingerprint_format: how the strings of a column write fingerprints: "hex" or "decimal"; "auto" is told by the
    first value that can be only one of them (fpstore.inputs.cells). byte_order: of hexadecimal with all its digits,
    base64 and bytes; with "little", the lowest first, numbers are refused. bits: of a fingerprint that comes ready.
    html: the texts are HTML (those of formats html and warc are anyhow). max_distance: the distance that they will be
    compared by, for Reader.lengths; cut: the bands of signatures, and the values of each. threads: how many make the
    fingerprints, one for each processor where None. skip_bad: count bad lines, rows and files instead of raising; where
    all are bad, the end is BadInput. rows_serve: whether messages may advise row numbers as ids, where None unless ids
    are names. on_bytes: told of bytes as they are read.

    Raises ValueError for a wrong argument, and where some sources hold texts and others fingerprints; RecipeError for
    fingerprints by a recipe that makes none, and where they say that fingerprints are by other recipes; BadInput (a
    ValueError) for a source that does not hold what its format says; ImportError where an optional package is missing.
    The system's errors pass through.
    """
    width(bits)
    signs = recipe is not None and recipe.sketch == "minhash"
    said = None if recipe is None or signs else recipe.to_json()
    recipe = DEFAULT_RECIPE if recipe is None else recipe
    rows_serve = id_type == "uint64" if rows_serve is None else rows_serve
    lengths = Lengths(recipe, max_distance, cut=cut)
    request = Request(
        asked=Asked(fingerprint_column, text_column, id_column, ids, header=header, rows_serve=rows_serve),
        fingerprint_format=fingerprint_format,
        byte_order=byte_order,
        bits=bits,
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
        origin=Origin(said, "recipe (--recipe)", lambda record: expect_fingerprints(Recipe.from_json(record))),
    )
    resolved, request = resolve(sources, format, request)
    expect_one_kind(resolved, request)
    if signs:
        expect_texts(resolved, request)
    return Reader(resolved, _ahead(resolved, request), lengths)


def read_ids(
    sources: Sequence[PathLike],
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
    resolved, request = resolve(sources, format, request)
    return Reader(resolved, request, Lengths(DEFAULT_RECIPE, DEFAULT_K))


def documents(
    sources: Sequence[PathLike],
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
    workers: Workers | None = None,
    show: Show | None = None,
) -> Documents:
    """Stream (name, text) for every document of sources: the rows of read, of HTML what the recipe makes of it.

    A file's name is its path, that of a line or row is path:number, that of an archive's record path:number:URI.
    id_column: the column that has the names instead, texts or whole numbers; a document without one is a bad row, and
    whole files beside tables keep theirs. all_columns: read all that tables have of a document, for
    Documents.with_rows. is_part: there are other sources, so that all of these may be bad. workers: processes that may
    read HTML; show: what has read it, instead.
    Arguments and errors are those of read; a source that holds no texts is a ValueError.
    """
    request = Request(
        asked=Asked(text=text_column, header=header),
        recipe=DEFAULT_RECIPE if recipe is None else recipe,
        rows=DEFAULT_BATCH,
        faults=Faults(skip_bad),
        on_bytes=on_bytes,
        html=html,
        all_columns=all_columns if id_column is None else True,
        is_part=is_part,
        name_column=id_column,
        workers=Workers(1) if workers is None else workers,
        show=show,
    )
    resolved, request = resolve(sources, format, request, of_documents=True)
    if id_column is not None:
        check_name_column(id_column, header, kinds_of(resolved))
    for kind in kinds_of(resolved):
        if not holds_texts(kind, request):
            which = f", and {ASK_TEXT} to name their column" if kind.format in TABLES else ""
            found = f"found fingerprints by format {kind.format}"
            raise ValueError(f"{display_name(kind.path)}: {found}, expected texts{which}")
    return Documents(resolved, _ahead(resolved, request))


def read_share(share: Share, skip_bad: bool, batch: int = DEFAULT_BATCH) -> tuple[Generator[Batch], Request]:
    """The batches of a share, rows numbered from 0 at the start of its file; and what was met, in the request.

    RecipeError as of read; BadInput as well where the file is not what it was when it was shared out.
    """
    request = share.request(skip_bad, batch)
    return share.throughout(batches_of(_of_file(share.path, share.format, request), batch)), request


def _of_file(path: str, format: str, request: Request) -> Iterator[Batch]:
    with about(display_name(path)):
        for piece in _pieces(format, [path], request):
            request.seen.rows = piece.end
            if len(piece.fingerprints):
                yield batch_of(piece, request, 0)


def _ahead(sources: list[Input], request: Request) -> Request:
    """The request, which says whether workers are to have something to do while the next records are read.

    Whether there are any does not matter: in which order faults are met should not depend on that.
    """
    of_pages = request.html or not {kind.format for kind in kinds_of(sources)}.isdisjoint(_PAGES)
    is_live = any(is_stream(source.path) for source in sources)  # who writes to it may wait for an answer
    return replace(request, reads_ahead=not is_live and (of_pages or request.recipe.is_prepared))


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


def _documents(inputs: list[Input], request: Request) -> Generator[Document]:
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


def _columns(inputs: list[Input], request: Request) -> Generator[Columns | Document]:
    """As _documents, of sources that are parts."""
    base = 0
    names = None if request.name_column is None else Names(request.name_column)
    for format, paths in _runs(inputs, request):
        with about(_source_of(format, paths)):
            if reads_blocks(format, request):
                (path,) = paths
                yield from read_blocks(path, request, names, base)
            else:
                yield from named(_records(format, paths, request), request, names, base)
        base = request.seen.rows


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
    if holds_texts(Source("", format), request):
        yield from pieces_of_texts(_records(format, paths, request), request)
    elif request.asked.of_ids:
        for records in _records(format, paths, request):
            yield piece_of_ids(records, request)
    else:
        yield from pieces_of_fingerprints(_records(format, paths, request), request)


def _numbered(inputs: list[Input], request: Request) -> Iterator[Batch]:
    """The pieces of all inputs as batches of whatever size, rows numbered from the first file on."""
    with Workers(thread_count(request.threads)) as workers:
        yield from _batches(inputs, replace(request, workers=workers))


def _batches(inputs: list[Input], request: Request) -> Iterator[Batch]:
    """The same; the request says which processes may read texts."""
    base = good = 0
    for format, paths in _runs(inputs, request):
        with about(_source_of(format, paths)):
            for piece in _pieces(format, paths, request):
                request.seen.rows = base + piece.end
                if len(piece.fingerprints):
                    good += len(piece.fingerprints)
                    if piece.ids is None and request.id_type != "uint64" and request.asked.ids is not None:
                        raise BadInput(
                            "found no ids, expected a column of names (--id-column)", source=_source_of(format, paths)
                        )
                    yield batch_of(piece, request, request.first_id + base)
        base = request.seen.rows
    expect_some(good, request.faults.bad, request.faults.counts)
