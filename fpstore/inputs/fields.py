"""Owns what one more column, or field of JSON, holds of a document that was read with all its columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from fpstore.inputs.columns import Asked
from fpstore.inputs.compressed import display_name
from fpstore.inputs.delimited import DIALECTS, ESCAPED
from fpstore.inputs.errors import BadInput, cut, shown
from fpstore.inputs.escapes import cells_read
from fpstore.inputs.layout import Layout, Row
from fpstore.inputs.records import Records, Request, with_texts
from fpstore.inputs.sources import Source
from fpstore.inputs.text import BOTH, MISSING, field_of, json_loader, keys_of, named_twice

_OF_FIELDS = ("jsonl", "json")
_WHOLE = ("text", "html", "warc")
MAX_ID_CHARACTERS = 10_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_name_column(column: str | int, header: bool | None, kinds: Sequence[Source]) -> None:
    """ValueError for a column of names that no source can have; kinds: a file of each format that there is."""
    Asked(id=column, ids="column", header=header).check()
    tables = [kind for kind in kinds if kind.format not in _WHOLE]
    for kind in kinds if not tables else ():
        found = f"found id_column {column!r} (--id-column), expected none for format {kind.format}"
        raise ValueError(f"{display_name(kind.path)}: {found}: a document is named by its file")
    for kind in tables:
        if isinstance(column, int) and kind.format in _OF_FIELDS:
            found = f"found a column number as id_column, expected the name of a field for format {kind.format}"
            raise ValueError(f"{display_name(kind.path)}: {found}")


class BadValue(BadInput):
    """What is wrong with one document, and says nothing of the others."""


def cells_of(row: Row) -> list[str]:
    """The cells of a row of a delimited table; bytes that are no UTF-8 are halves of surrogate pairs.

    A blank line is one of a single column, without a value.
    """
    assert isinstance(row.data, bytes)
    delimiter, quoting = DIALECTS[row.layout.format]
    text = io.StringIO(row.data.decode("utf-8", "surrogateescape"), newline="")
    cells = next(csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)) or [""]
    return cells_read(cells) if row.layout.format == ESCAPED else cells


class Field:
    """One column by its name, or by its number from 0, of tables and of JSON, where a name may be a path."""

    def __init__(self, column: str | int, option: str) -> None:
        """option: what asked for it, for messages."""
        self._column = column
        self._option = option
        self._load = json_loader()
        self._keys = keys_of([column])
        # Of the table that the last row was of: where the column is in it, and the fields that lead on from there.
        self._layout: Layout | None = None
        self._place = 0
        self._path: list[str] = []
        # The values of the batch of Arrow that the last row was in.
        self._batch: Any = None
        self._values: list[Any] = []

    def of(self, row: Row, where: str) -> object:
        """The value, MISSING where an object of JSON has no such field; a text of CSV and TSV.

        BadInput where the source has no such column, BadValue where it is not clear which is meant.
        """
        if row.data is None:
            raise BadInput(f"{where}: found a document that is a whole file or page, {self._expected}")
        if row.layout.format in _OF_FIELDS:
            assert isinstance(row.data, bytes)
            twice = named_twice(row.data, self._keys)
            if twice is not None:
                raise BadValue(f"{where}: found field {twice} twice, expected it once")
            record = self._load(row.data)
            value = field_of(record, self._column) if isinstance(record, dict) else MISSING
            if value is BOTH:
                found = f"found {self._column} as a field, and as a path to one"
                raise BadValue(f"{where}: {found}, expected one of the two")
            return value
        if row.layout is not self._layout:
            self._find(row.layout, where)
        if not isinstance(row.data, tuple):
            return cells_of(row)[self._place]
        batch, index = row.data
        if batch is not self._batch:
            self._batch, self._values = batch, batch.column(self._place).to_pylist()
        value = self._values[index]
        for name in self._path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def _find(self, layout: Layout, where: str) -> None:
        """Where the column is in tables of this layout."""
        names, column = layout.columns, self._column
        path: list[str] = []
        if isinstance(column, str) and column not in names and layout.schema is not None:
            column, *path = column.split(".")
        place = column if isinstance(column, int) else names.index(column) if names.count(column) == 1 else len(names)
        if place >= len(names) or (path and not _leads_on(layout.schema.field(place).type, path)):
            raise BadInput(f"{where}: found columns {cut(', '.join(names))}; {self._expected}")
        self._layout, self._place, self._path, self._batch = layout, place, path, None

    @property
    def _expected(self) -> str:
        return f"expected one column {self._column} ({self._option})"


def _leads_on(kind: Any, path: Sequence[str]) -> bool:
    """Whether a type of Arrow is a struct, of structs, with the fields of the path."""
    for name in path:
        place = kind.get_field_index(name) if hasattr(kind, "get_field_index") else -1
        if place < 0:
            return False
        kind = kind.field(place).type
    return True


class Names(Field):
    """The column that has the names of documents."""

    def __init__(self, column: str | int) -> None:
        super().__init__(column, "id_column, --id-column")

    def read(self, row: Row, where: str) -> str:
        """The name that a document has by its column: a text that is not empty, or a whole number.

        BadValue where it has none such, BadInput where the source has no such column.
        """
        value = self.of(row, where)
        name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARACTERS and not _SURROGATE.search(name):
            return name
        found = f"id {shown(value)}" if value is not None and value is not MISSING else "no id"
        expected = f"a text of 1 to {MAX_ID_CHARACTERS} characters or a whole number in {self._column} (--id-column)"
        raise BadValue(f"{where}: found {found}, expected {expected}")


def named(
    every: Iterator[Records], request: Request, names: Names | None, base: int = 0
) -> Generator[tuple[str, str, Row]]:
    """The documents of records, called by a column where there are names; base: how many rows came before."""
    for records, texts, kept in with_texts(every, request):
        request.seen.rows = base + records.end
        for text, index in zip(texts, kept, strict=True):
            row = records.row(index)
            if names is None or row.data is None:
                yield records.name(index), text, row
                continue
            try:
                name = names.read(row, records.where(index))
            except BadValue as error:
                request.faults.meet(BadInput(str(error), records.bad))
                continue
            yield name, text, row
