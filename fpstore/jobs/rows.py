"""Owns the lines that jobs and commands write: of tabs, of CSV, of JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fpstore.inputs import BadInput, Row
from fpstore.inputs.escapes import escaped, json_of
from fpstore.jobs.forms import CSV, JSON, PARQUET, TSV, Form, csv_row
from fpstore.jobs.packing import expect_utf8, is_utf8, no_utf8, parquet_of_json
from fpstore.origin import Made
from fpstore.text._packed import written
from fpstore.text.packed import Encoded, Packed, plain_lines
from fpstore.types import Array, Bytes


def row(*values: object) -> bytes:
    """Values as a line; a text is a cell as names are."""
    return "\t".join(escaped(value) if isinstance(value, str) else str(value) for value in values).encode() + b"\n"


def json_line(record: dict[str, Any]) -> bytes:
    """A record as a line of JSON in UTF-8."""
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, or a file's name that is no UTF-8
        return json.dumps(record).encode() + b"\n"


class Lines:
    """The form of a result that has the same columns in each line.

    head: what its part begins with. pack: what makes the result of the part, None where the part is the result.
    """

    refuses_packed = False  # names that are packed are UTF-8

    def __init__(self, form: Form, columns: Mapping[str, str], name: str, made_by: Made | None = None) -> None:
        """columns: the name of each, and its type in Arrow. name: what a line of JSON says that it is.
        made_by: what is said of a column `fingerprint`.
        """
        self.kind, self._file = form.kind, form.name
        self._says = {"format": f"fpstore.{name}/1"} if form.kind == JSON else {}
        self._names = list(columns)
        self.head = csv_row(self._names) if form.kind == CSV else b""
        self.pack = form.pack(parquet_of_json(columns, made_by=made_by) if form.kind == PARQUET else None)

    def fault_of(self, name: str, row: Row) -> BadInput | None:
        """What is wrong with the name of a document that these lines cannot hold, None where they can."""
        if self.kind != PARQUET or is_utf8(name):
            return None
        return no_utf8(name, self._file)

    def encode(self, *columns: Iterable[object] | Array) -> bytes | Bytes:
        """The lines of rows, given by their columns; measures have four digits.

        Raises BadInput for names, as of documents that a store has, that Parquet cannot hold.
        """
        if self.kind == TSV:
            found = _packed_lines(columns)
            if found is not None:
                return found
        columns = tuple(each.tolist() if isinstance(each, np.ndarray) else list(each) for each in columns)
        if self.kind == PARQUET:
            for column in columns:
                expect_utf8(column, self._file)
        rows = zip(*columns, strict=True)
        if self.kind == TSV:
            return b"".join(row(*map(_measured, values)) for values in rows)
        if self.kind == CSV:
            return b"".join(csv_row([str(_measured(value)) for value in values]) for values in rows)
        records = (dict(zip(self._names, map(_rounded, values), strict=True)) for values in rows)
        return b"".join(json_of(self._says | record).encode() + b"\n" for record in records)


def _packed_lines(columns: Sequence[Iterable[object] | Array]) -> Bytes | None:
    """Lines of tabs, of columns that are packed, or numbers; None of others, and where a text is written otherwise."""
    packed: list[Packed[Any]] = []
    for column in columns:
        if isinstance(column, np.ndarray):
            column = Encoded(*written(column))
        if not isinstance(column, Packed):
            return None
        packed.append(column)
    return plain_lines(packed)


def _measured(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value
