"""Owns how fields are added to documents that stay what they were: lines of JSON, CSV and TSV, rows of Parquet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fpstore.inputs import BadInput, Layout, Row
from fpstore.jobs.forms import CSV, TSV, csv_row
from fpstore.jobs.packing import arrow, cell_of
from fpstore.jobs.rows import json_line
from fpstore.jobs.rows import row as row_of


def expect_room(name: str, layout: Layout, added: Mapping[str, str]) -> None:
    """ValueError for a table that has a column of one of these names already."""
    for column in added:
        if column in layout.columns:
            raise ValueError(f"{name}: found a column {column}, expected none of that name: it would be added")


def json_with(name: str, line: bytes, fields: Mapping[str, Any]) -> bytes:
    """A line of JSON that stands as it was, and these fields at its end. BadInput where it has one of them."""
    for field in fields:
        # Rarely a text says so too, or it is within another object; or it is written with escapes.
        if (f'"{field}"'.encode() in line or b"\\u" in line) and field in json.loads(line):
            raise BadInput(f"{name}: found a field {field}, expected none of that name: it would be added")
    body = line.rstrip()[:-1].rstrip()
    return body + (b"" if body.endswith(b"{") else b", ") + json_line(dict(fields))[1:]


def delimited_with(row: Row, values: Sequence[Any]) -> bytes:
    """A line of CSV or TSV that stands as it was, with more cells at its end."""
    assert isinstance(row.data, bytes)
    return _more_cells(row.layout, row.data, [cell_of(value) for value in values])


def header_with(layout: Layout, added: Sequence[str]) -> bytes:
    """The header of a table with more columns, b"" where it has none."""
    return _more_cells(layout, layout.header, list(added)) if layout.header else b""


def _more_cells(layout: Layout, line: bytes, cells: list[str]) -> bytes:
    body = line.rstrip(b"\r\n")
    end = line[len(body) :] or b"\n"
    if layout.format == CSV:
        return body + b"," + csv_row(["", *cells])[1:-1] + end
    if layout.format != TSV:  # with quotation marks
        return body + csv_row(["", *cells], "\t")[:-1] + end
    return body + b"\t" + row_of(*cells).removesuffix(b"\n") + end


def schema_with(schema: Any, added: Mapping[str, str]) -> Any:
    """A schema of Arrow with more fields; added: name and type of each."""
    pa = arrow()
    for name, kind in added.items():
        schema = schema.append(pa.field(name, pa.type_for_alias(kind)))
    return schema


def batch_with(batch: Any, schema: Any, rows: Sequence[Sequence[Any]]) -> Any:
    """A batch of Arrow with more columns, those of the end of schema; rows: the values of each row."""
    pa = arrow()
    own = batch.num_columns
    columns = [pa.array([row[i] for row in rows], schema.field(own + i).type) for i in range(len(schema) - own)]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
