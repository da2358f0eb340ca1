"""Owns what passes between the format readers and their caller: requests, pieces, records, batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from fpstore.inputs.cells import (
    ASK_WAY,
    EXPECTED_ONE_WAY,
    ID_TYPES,
    Column,
    FingerprintColumn,
    is_begun_id,
    parse_ids,
    parse_names,
    written_otherwise,
)
from fpstore.inputs.columns import Asked, Decided
from fpstore.inputs.decoding import EXPECTED_TEXT, text_of
from fpstore.inputs.errors import AS_A_TABLE, NOT_ALONE, WITH_TAGS, BadInput, Faults, cut, shown
from fpstore.inputs.layout import DOCUMENTS, Layout, Row
from fpstore.inputs.pages import begin_to_show, note_pages, page_of
from fpstore.origin import Origin
from fpstore.text import Recipe
from fpstore.text.cleaning import has_tags
from fpstore.text.recipe import Measured
from fpstore.text.shared import NO_PAGE, Show, Shown, begin_to_measure
from fpstore.threads import begun_ahead
from fpstore.types import ByteOrder, expect_flags
from fpstore.workers import Workers

# A group of records is full at this size, so that long texts do not fill the memory.
GROUP_BYTES = 4 << 20
# So many rows are held until one tells hexadecimal from decimal; of uniform fingerprints nearly each does.
_MOST_UNDECIDED = 1 << 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Fingerprints (uint64[m], m > 0) in the order of the input, and the id of each, or None.

    ids: uint64[m]; names are objects, str or bytes.
    """

    fingerprints: npt.NDArray[np.uint64]
    ids: npt.NDArray[Any] | None


def batches_of(parts: Iterator[Batch], rows: int) -> Generator[Batch]:
    """The rows of batches of any size in batches of so many; only the last is smaller."""
    held: list[Batch] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part.fingerprints)
        if count < rows:
            continue
        joined = _join(held)
        whole = count - count % rows
        for start in range(0, whole, rows):
            yield _slice(joined, start, start + rows)
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


@dataclass(slots=True)
class Seen:
    """How much was read so far: files and streams, and rows in them, bad ones included."""

    files: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for, checked; the same for every source of a read."""

    asked: Asked
    recipe: Recipe
    rows: int
    faults: Faults
    on_bytes: Callable[[int], object] | None
    seen: Seen = field(default_factory=Seen)
    decided: Decided = field(default_factory=Decided)
    fingerprint_format: str = "auto"
    byte_order: ByteOrder = "big"
    bits: int = 64  # of a fingerprint
    first_id: int = 0  # of row numbers
    id_type: str = "uint64"  # or what names are: "string", "bytes"
    origin: Origin = field(default_factory=Origin)  # of fingerprints that come ready
    json_field: str | None = None  # of the fingerprints of JSON objects, where it was not asked for
    empty: frozenset[str] = frozenset()  # the inputs whose files of JSON objects have nothing in them
    takes_fingerprints: bool = False  # and not only texts
    # The texts that are so by their suffix alone: those named, and the first of each folder.
    first_texts: frozenset[str] = frozenset()
    html: bool = False
    threads: int | None = None  # all processors
    on_measured: Callable[[Sequence[str], Measured], object] | None = None
    all_columns: bool = False  # of tables, for Records.row
    is_part: bool = False  # of all that is read
    within: tuple[int, int] | None = None  # of a plain file of JSON lines, the bytes from which to which
    show: Show | None = None  # what pages show, for who knows it already
    only: tuple[int, int] | None = None  # the rows, from the first to before the last, of a plain file of numbers
    name_column: str | int | None = None  # of the names of documents, where they are not those of their places
    workers: Workers = field(default_factory=lambda: Workers(1))  # for what holds the interpreter's lock
    reads_ahead: bool = False  # whether the next records are read before what workers make of some is asked for

    def __post_init__(self) -> None:
        """TypeError for what is neither True nor False of what callers say so."""
        expect_flags(html=self.html, all_columns=self.all_columns, is_part=self.is_part)

    @property
    def value_column(self) -> str | int | None:
        """The column or field that was asked for: of the ids, the fingerprints or the texts."""
        if self.asked.of_ids:
            return self.asked.id
        return self.asked.fingerprint if self.asked.text is None else self.asked.text

    def check_id_type(self) -> None:
        """ValueError for a type that no ids have, and for names that nothing gives."""
        if self.id_type not in ID_TYPES:
            raise ValueError(f"id_type: found {self.id_type!r:.40}, expected one of {', '.join(ID_TYPES)}")
        if self.id_type != "uint64" and self.asked.ids == "row":
            raise ValueError(
                f"ids: found 'row' with id_type {self.id_type!r}, expected 'column', or 'auto', by which texts without "
                "one are called by their places"
            )

    @property
    def names_texts(self) -> bool:
        """Whether texts without a column of ids have their names as ids, those that jobs call them by."""
        return self.id_type != "uint64" and self.asked.ids == "auto"

    @property
    def reads_texts(self) -> bool:
        """Whether a column of texts was asked for."""
        return self.asked.text is not None


@dataclass(frozen=True, slots=True)
class Piece:
    """Fingerprints of one source, the row of each, and the ids that the source holds.

    rows: counted from 0 at the start of the source. end: how many rows were read so far, bad ones included.
    """

    fingerprints: npt.NDArray[np.uint64]
    ids: npt.NDArray[Any] | None
    rows: npt.NDArray[np.uint64]
    end: int


@dataclass(frozen=True, slots=True)
class Records:
    """Rows as a format reader finds them, before anything is made of their values.

    places: what a message calls each: a line or row number, or (unit "") the name of a document.
    rows: which row of the source each is, counted from 0. end: as in Piece. lines: those that they were read from,
    where these are a document's own; arrow: the batch of all columns. layout: of the source, where it has one.
    holds_names: whether ids that are names are read of a source of this format. ends: what to say beside what is wrong
    with the value of the last of them, and with its id, where the source ends in it and more would mend that.
    """

    source: str
    unit: str
    places: Sequence[int | str]
    rows: Sequence[int] | npt.NDArray[np.uint64]
    values: Column
    ids: Column | None
    end: int
    lines: list[bytes] | None = None
    arrow: Any = None
    layout: Layout = DOCUMENTS
    holds_names: bool = True
    ends: tuple[str, str] = ("", "")

    def row(self, index: int) -> Row:
        """All that the source has of one of the records."""
        if self.arrow is not None:
            return Row(self.layout, (self.arrow, index))
        return Row(self.layout, None if self.lines is None else self.lines[index])

    def where(self, index: int) -> str:
        """Where one of the records stands, for messages."""
        place = self.places[index]
        return f"{self.source}, {self.unit} {cut(place)}" if self.unit else str(place)

    def error(self, index: int, message: str) -> BadInput:
        """What is wrong with one of the records."""
        place = self.places[index]
        source = self.source if self.unit else str(place)
        line = place if isinstance(place, int) else None
        return BadInput(f"{self.where(index)}: {message}", self.bad, source=source, line=line)

    def ends_at(self, index: int, is_begun: Callable[[object], bool], *, of_id: bool = False) -> str:
        """What to say beside what is wrong with the value, or the id, of one of the records, by what it begins."""
        ends = self.ends[of_id] if index == len(self.places) - 1 else ""
        values = self.ids if of_id else self.values
        return ends if ends and values is not None and is_begun(values[index]) else ""

    def name(self, index: int) -> str:
        """The name that one of the records has in a list of documents."""
        place = self.places[index]
        return f"{self.source}:{place}" if self.unit else str(place)

    @property
    def bad(self) -> str:
        """What one of the records is counted as where it is passed over."""
        return f"bad {self.unit or 'file'}"

    def shown(self, request: Request) -> Callable[[], Shown]:
        """What the pages among the values show, by the recipe; begun by the workers of the request."""
        pages = [page for value in self.values if (page := page_of(value, html=request.html))]
        return begin_to_show(pages, request.recipe.html, request.show, request.workers)

    def texts(self, request: Request, shown_pages: Shown) -> tuple[list[str], list[int]]:
        """The texts among the values, those of HTML as they are shown, and their indexes; faults hear of the rest."""
        texts, kept = [], []
        note_pages(shown_pages, request.faults.notes)
        pages = zip(shown_pages.texts, shown_pages.flags.tolist(), strict=True)
        for index, value in enumerate(self.values):
            if isinstance(value, str) and not request.html:
                if has_tags(value):
                    request.faults.notes[WITH_TAGS] += 1
                texts.append(value)
                kept.append(index)
            elif page_of(value, html=request.html):
                text, flags = next(pages)
                if flags & NO_PAGE:
                    request.faults.meet(self.error(index, text))
                    continue
                texts.append(text)
                kept.append(index)
            elif isinstance(value, bytes):
                try:
                    texts.append(text_of(value))
                    kept.append(index)
                except ValueError as error:
                    request.faults.meet(self.error(index, f"found {error}, expected {EXPECTED_TEXT}"))
            else:
                request.faults.meet(self.error(index, f"found {shown(value)}, expected a text"))
        return texts, kept


def with_texts(every: Iterator[Records], request: Request) -> Iterator[tuple[Records, list[str], list[int]]]:
    """Records with what their method texts gives, where that is asked for while the pages of the next are begun."""
    begun = ((records, records.shown(request)) for records in every)
    for records, shown_pages in begun_ahead(begun) if request.reads_ahead else begun:
        yield records, *records.texts(request, shown_pages())


class Group:
    """Records of one source in the making: full when there are enough of them, or enough bytes in them.

    layout: of the source, with_ids: whether it holds them; both from when it is known.
    """

    def __init__(self, source: str, unit: str, request: Request) -> None:
        self._source = source
        self._unit = unit
        self._request = request
        self._row = 0
        self.layout = DOCUMENTS
        self.with_ids = False
        self._start()

    def _start(self) -> None:
        self._places: list[int | str] = []
        self._rows: list[int] = []
        self._values: list[object] = []
        self._ids: list[object] = []
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, place: int | str, value: object, id_value: object, size: int, line: bytes | None = None) -> None:
        """One more row; size: the bytes of input that it took. line: its own, of all rows of a group or of none."""
        if line is not None:
            self._lines.append(line)
        self._places.append(place)
        self._rows.append(self._row)
        self._values.append(value)
        self._ids.append(id_value)
        self._bytes += size
        self._row += 1

    def refuse(self, place: int | str, found: str, expected: str) -> None:
        """A row that cannot be added; where faults are skipped it keeps its number."""
        told = f"{self._source}, {self._unit} {cut(place)}: found {found}, expected {expected}"
        line = place if isinstance(place, int) else None
        self.meet(BadInput(told, f"bad {self._unit}", source=self._source, line=line))

    def meet(self, error: BadInput) -> None:
        """A row that cannot be added because of error."""
        self._request.faults.meet(error)
        self._row += 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to take."""
        return len(self._rows) >= self._request.rows or self._bytes >= GROUP_BYTES

    def take(self, ends: tuple[str, str] = ("", "")) -> Records:
        """The rows that were added since the last time; ends: as of Records."""
        ids = self._ids if self.with_ids else None
        taken = (self._places, self._rows, self._values)
        lines = self._lines or None
        self._start()
        return Records(self._source, self._unit, *taken, ids, self._row, lines, None, self.layout, ends=ends)


def pieces_of_texts(every: Iterator[Records], request: Request) -> Iterator[Piece]:
    """Fingerprint the texts of records by the recipe."""
    begun = (
        (records, texts, kept, begin_to_measure(request.recipe, texts, request.threads, request.workers))
        for records, texts, kept in with_texts(every, request)
    )
    for records, texts, kept, measure in begun_ahead(begun) if request.reads_ahead else begun:
        measured = measure()
        if request.on_measured is not None:
            request.on_measured(texts, measured)
        if records.ids is None and request.names_texts:
            records = replace(records, ids=[records.name(index) for index in range(len(records.places))])
        yield _piece(records, request, measured.fingerprints, kept)


def piece_of_fingerprints(records: Records, request: Request, column: FingerprintColumn) -> Piece:
    """Parse the values of records as fingerprints; column: of the file that they come from."""
    fingerprints, bad = column.parse(records.values)
    if not bad:
        return _piece(records, request, fingerprints, range(len(fingerprints)))
    for index, expected in bad.items():
        found, ends = shown(_plain(records.values[index])), records.ends_at(index, column.is_begun)
        request.faults.meet(records.error(index, f"found {found}, expected {expected}{ends}"))
    kept = [index for index in range(len(fingerprints)) if index not in bad]
    return _piece(records, request, fingerprints[kept], kept)


def pieces_of_fingerprints(every: Iterator[Records], request: Request) -> Iterator[Piece]:
    """The fingerprints of a file, of which all strings are written in one way.

    Records are held until that is known, and where bad values are passed over, until it is sure.
    """
    column = FingerprintColumn(request.fingerprint_format, request.bits, request.byte_order)
    held: list[Records] = []
    is_open = is_whole = False
    looked_at = 0
    while not is_whole:
        records = next(every, None)
        is_whole = records is None
        if records is not None:
            if request.faults.skip:
                _expect_one_way(records, column)
            held.append(records)
            is_open |= not column.decide(records.values)
            looked_at += len(records.values)
        is_undecided = column.way is None and is_open
        if (is_undecided or column.is_unsure) and not is_whole and looked_at < _MOST_UNDECIDED:
            continue
        if is_undecided:
            _refuse_undecided(
                held, column, f"no value in the column{'' if is_whole else f', of the first {looked_at},'} tells"
            )
        for each in held:
            yield piece_of_fingerprints(each, request, column)
        held.clear()
        is_open, looked_at = False, 0


def _expect_one_way(records: Records, column: FingerprintColumn) -> None:
    """Raise BadInput where the column begins with both hexadecimal and decimal: who knows which are bad."""
    other = column.first_other(records.values)
    if other is not None:
        found = shown(_plain(records.values[other]))
        raise records.error(other, f"found {found}, expected {EXPECTED_ONE_WAY}")


def _refuse_undecided(held: list[Records], column: FingerprintColumn, why: str) -> NoReturn:
    """Raise BadInput about the first value that could be hexadecimal or decimal."""
    for records in held:
        for index, value in enumerate(records.values):
            if column.width.kind(value) == "either":
                expected = f"{ASK_WAY} to say whether it is hex or decimal, as {why}"
                raise records.error(index, f"found {shown(value)}, expected {expected}")
    raise AssertionError("what is held has such a value")


def piece_of_ids(records: Records, request: Request) -> Piece:
    """As piece_of_fingerprints, for values that are ids."""
    ids, bad = _parse_ids(records.values, request)
    for index, expected in bad.items():
        found = f"found id {shown(_plain(records.values[index]))}"
        ends = records.ends_at(index, partial(is_begun_id, id_type=request.id_type))
        request.faults.meet(records.error(index, f"{found}, expected {expected}{ends}"))
    kept = [index for index in range(len(ids)) if index not in bad] if bad else range(len(ids))
    return _piece(records, request, ids[kept] if bad else ids, kept)


def _parse_ids(column: Column, request: Request) -> tuple[npt.NDArray[Any], dict[int, str]]:
    if request.id_type == "uint64":
        ids, bad = parse_ids(column)
        if any(isinstance(value := column[index], str) and value != value.strip() for index in bad):
            ids, bad = parse_ids([value.strip() if isinstance(value, str) else value for value in column])
        otherwise = written_otherwise(
            [value for index, value in enumerate(column) if index not in bad] if bad else column
        )
        if otherwise:
            request.faults.notes[NOT_ALONE] += otherwise
        return ids, bad
    return parse_names(column, request.id_type == "string")


def _piece(records: Records, request: Request, fingerprints: npt.NDArray[np.uint64], kept: Sequence[int]) -> Piece:
    """The piece of the kept records, less those whose id is bad."""
    rows = np.asarray(records.rows, dtype=np.uint64)
    everything = len(kept) == len(rows)
    if not everything:
        rows = rows[np.asarray(kept, dtype=np.intp)]
    if records.ids is None:
        return Piece(fingerprints, None, rows, records.end)
    ids, bad = _parse_ids(records.ids, request)
    if everything and not bad:
        return Piece(fingerprints, ids, rows, records.end)
    good = []
    for position, index in enumerate(kept):
        if index in bad:
            found = f"id {shown(_plain(records.ids[index]))}"
            others = _other_ids(records.ids[index], holds_names=records.holds_names)
            expected = f"{bad[index]}{others}" if request.asked.rows_serve else bad[index]
            ends = records.ends_at(index, partial(is_begun_id, id_type=request.id_type), of_id=True)
            request.faults.meet(records.error(index, f"found {found}, expected {expected}{ends}"))
        else:
            good.append(position)
    ids = ids[np.asarray(kept, dtype=np.intp)]
    return Piece(fingerprints[good], ids[good], rows[good], records.end)


def _other_ids(value: object, *, holds_names: bool) -> str:
    """What else could be ids, for advice, where this value is none that is a number."""
    way = "" if holds_names else f", read {AS_A_TABLE}"
    names = f", or names as ids{way}, in a store made with id_type (--id-type) string" if _is_name(value) else ""
    return f", or ids (--ids) row (from:N in a store with rows){names}"


def _is_name(value: object) -> bool:
    """Whether a value is a text that writes no number at all."""
    try:
        float(value) if isinstance(value, str) else 0.0
    except ValueError:
        return True
    return False


def _plain(value: object) -> object:
    """A numpy number as the Python number that messages show."""
    return value.item() if isinstance(value, np.generic) else value
