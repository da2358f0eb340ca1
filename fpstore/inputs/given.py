"""Owns documents that Python gives: rows that are mappings, as those of a data set of Hugging Face, or a list of dicts.

They are read as JSON objects are. What JSON does not have becomes what it has: dates and decimal numbers are texts,
what is no number is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np

from fpstore.inputs.blocks import Columns, Document
from fpstore.inputs.columns import Asked
from fpstore.inputs.errors import BadInput, Faults, shown
from fpstore.inputs.fields import Names, check_name_column, named
from fpstore.inputs.layout import JSON_OBJECTS, Layout
from fpstore.inputs.reader import Documents
from fpstore.inputs.records import Request
from fpstore.inputs.sources import Source
from fpstore.inputs.text import read_rows
from fpstore.text import Recipe
from fpstore.workers import Workers

Rows = Iterable[Mapping[str, Any]]
# At a time.
_ROWS = 4096


class GivenDocuments(Documents):
    """The documents of rows: name is what they are called together, and each by its number from 0."""

    def __init__(
        self,
        rows: Rows,
        name: str,
        *,
        text_column: str | int | None,
        id_column: str | int | None,
        html: bool,
        recipe: Recipe,
        skip_bad: bool,
        workers: Workers,
    ) -> None:
        """As fpstore.inputs.documents for JSON objects. ValueError for a column that is a number."""
        for option, column in (("text_column", text_column), ("id_column", id_column)):
            if isinstance(column, int):
                raise ValueError(f"{name}: found a column number as {option}, expected the name of a field")
        if id_column is not None:
            check_name_column(id_column, None, [Source(name, "jsonl")])
        asked = Asked(text=text_column)
        request = Request(
            asked,
            recipe,
            _ROWS,
            Faults(skip_bad),
            None,
            html=html,
            all_columns=True,
            is_part=True,
            workers=workers,
        )
        super().__init__([], request)
        names = None if id_column is None else Names(id_column)
        self._documents = named(read_rows(_lines(rows, name), name, request), request, names)
        self._name = name
        self.total_bytes = None

    def in_columns(self) -> Iterator[Columns | Document]:
        """As those of Documents: one by one."""
        return self._documents

    def layouts(self) -> Iterator[tuple[str, str, Layout | None]]:
        """As those of Documents."""
        yield self._name, "jsonl", JSON_OBJECTS


def plain(value: Any) -> Any:
    """A value of Python, numpy or Arrow as JSON has it; what is no number there is null, and dates are texts."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value.isoformat() if isinstance(value, date | datetime | time) else str(value)


def _lines(rows: Rows, name: str) -> Iterator[tuple[int, bytes | BadInput]]:
    """Each row as a line of JSON, or what is wrong with it."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            expected = "a mapping of names to values, as a dict"
            yield number, BadInput(f"{name}, row {number}: found {shown(row)}, expected {expected}", "bad row")
            continue
        held = [field for field, value in row.items() if not _has_place(value)]
        if held:
            found = f"found a {type(row[held[0]]).__name__} in field {held[0]:.60}, expected what JSON has"
            yield number, BadInput(f"{name}, row {number}: {found}", "bad row")
            continue
        yield number, json.dumps(plain(row)).encode() + b"\n"


def _has_place(value: Any) -> bool:
    """Whether JSON has something for a value."""
    if isinstance(value, list | tuple):
        return all(map(_has_place, value))
    if isinstance(value, Mapping):
        return all(map(_has_place, value.values()))
    known = str | int | float | Decimal | date | datetime | time | np.generic | np.ndarray | None
    return isinstance(value, known)
