"""Owns the formats that hold a table: `csv`, `tsv` with quotation marks or without, and `parquet`.

Each reader yields Records: the values of one column, and of another the ids where they are asked for. What
the values mean, fingerprints or texts, is not known here.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from fpstore.inputs import remote
from fpstore.inputs.cells import EXPECTED_BYTES
from fpstore.inputs.columns import Asked, Found, columns_of, with_ids
from fpstore.inputs.compressed import Lines, LongLine, open_stream
from fpstore.inputs.decoding import EXPECTED_TEXT
from fpstore.inputs.delimited import DIALECTS, ESCAPED, MARK, rows_of
from fpstore.inputs.endings import has_end, is_begun_escape, is_begun_text, may_be_cut
from fpstore.inputs.errors import BLANK, BadInput, about, cut
from fpstore.inputs.escapes import cells_read, unescaped
from fpstore.inputs.header import columns_and_header
from fpstore.inputs.layout import Layout
from fpstore.inputs.records import Group, Records, Request
from fpstore.inputs.unchanged import unchanged
from fpstore.origin import expect_bits_said, said
from fpstore.text.packages import need

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what delimited makes of such bytes
_MARKS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
ASK_MARKS = (
    "format (--format) tsv-quoted, where such marks stand around cells, as pandas writes them, or tsv-plain, where "
    "they are part of them"
)
ASK_BACKSLASH = (
    r"format (--format) tsv-escaped, where \t, \n and \\ stand for a tab, a line end and a backslash, as fpstore "
    "prints names, or tsv-plain, where a backslash is itself"
)
_PARQUET_ROWS = 8192  # at a time: a column of texts is decoded as a whole


def read_parquet(path: str, request: Request) -> Iterator[Records]:
    """A Parquet file: columns of integers or strings, batch by batch."""
    arrow = need("pyarrow", "arrow", "reading Parquet")
    size = (remote.size(path) or 0) if remote.is_remote(path) else os.path.getsize(path)
    with _parquet_file(path) as file:
        compute = need("pyarrow.compute", "arrow", "reading Parquet")
        yield from _parquet_records(path, request, file, size, arrow.types, compute)


def look_at_origin(path: str, request: Request) -> bool:
    """Let request.origin meet what a Parquet file says of its fingerprints, as reading it does; reads no row.

    Whether it says anything.
    """
    with _parquet_file(path) as file:
        schema = file.schema_arrow
        field = schema.field(columns_of(schema.names, path, request.asked).value)
        _meet_origin(path, request, field)
        return said(field, path) is not None


def _meet_origin(path: str, request: Request, field: Any) -> None:
    where = f"{path}, column {field.name}"
    try:
        expect_bits_said(field, request.bits, where)
    except ValueError as error:
        raise BadInput(f"{error} (--bits)") from None
    request.origin.meet(field, where)


@contextlib.contextmanager
def _parquet_file(path: str) -> Iterator[Any]:
    """The file, opened; BadInput for what is wrong with it."""
    parquet = need("pyarrow.parquet", "arrow", "reading Parquet")
    arrow = need("pyarrow", "arrow", "reading Parquet")
    try:
        with _openable(path) as opened, _unchanged(path), parquet.ParquetFile(opened) as file:
            yield file
    except arrow.ArrowException as error:
        raise BadInput(f"{path}: {_first_line(error)}") from error
    except OSError as error:
        # Arrow calls damaged pages an OSError too; only the system's own have a number.
        if error.errno is not None:
            raise
        raise BadInput(f"{path}: {_first_line(error)}") from error


def read_delimited(path: str, request: Request, *, format: str) -> Iterator[Records]:
    """Comma-separated or tab-separated values, by one of DIALECTS. A quoted cell may hold line ends.

    A cell of `tsv` that begins with a quotation mark is refused, bad rows passed over or not: who wrote it decides
    what all such marks in the file are.
    """
    delimiter, quoting = DIALECTS[format]
    with open_stream(path, request.on_bytes, is_text=True) as stream:
        group = Group(stream.name, "line", request)
        found: Found | None = None
        first = width = 0
        last = ("", "")
        for place, cells, text, size in rows_of(Lines(stream), delimiter, quoting):
            if isinstance(cells, LongLine | str):
                expected = f"fields separated by {delimiter!r}{may_be_cut(text) if text else ''}"
                told = f"{stream.name}, line {place}: found {cells}, expected {expected}"
                error = cells if isinstance(cells, LongLine) else BadInput(told, "bad line", line=place)
                if found is None and request.asked.header:
                    raise error  # it is the header; the row behind it is none
                group.meet(error)
                continue
            if not cells:
                request.faults.pass_over(BLANK)
                continue
            if format == "tsv" and MARK in text and any(cell.startswith(MARK) for cell in cells):
                told = (
                    f"{stream.name}, line {place}: found a cell that begins with a quotation mark, expected {ASK_MARKS}"
                )
                raise BadInput(told, source=stream.name, line=place)
            if format == ESCAPED and "\\" in text:
                try:
                    cells = cells_read(cells)
                except ValueError as error:
                    ends = may_be_cut(text) if _is_begun_escape(cells) else ""
                    group.meet(BadInput(f"{stream.name}, line {place}: {error}{ends}", "bad line", line=place))
                    continue
            if found is None:
                where = f"{stream.name}, line {place}"
                with about(stream.name, place):
                    found, is_header = _columns(cells, where, request.asked, delimiter)
                    group.with_ids = found.id is not None
                    with_ids(request.asked, request.decided, group.with_ids, where)
                first, width = place, len(cells)
                header = text.encode("utf-8", "surrogateescape") if is_header else b""
                group.layout = _layout(cells, format, header, stream.name)
                if is_header:
                    continue
            if len(cells) != width:
                ends = may_be_cut(text) if len(cells) < width else ""
                group.refuse(place, f"{len(cells)} cells", f"{width}, as line {first} has{ends}")
                continue
            named = request.id_type != "uint64"  # a name is what stands there
            id_cell = None if found.id is None else cells[found.id]
            if named and format == "tsv" and "\\" in text:
                _expect_clear(stream.name, place, id_cell, cells[found.value] if request.asked.of_ids else None)
            as_it_is = request.reads_texts or request.asked.of_ids
            cell = cells[found.value] if as_it_is else cells[found.value].strip()
            is_bytes = request.id_type == "bytes" and request.asked.of_ids
            if not cell.isascii() and not is_bytes and _NOT_UTF8.search(cell):
                ends = _ends(text, cells, found, quoting)[0] if is_begun_text(cell) else ""
                group.refuse(place, "bytes that are no UTF-8", EXPECTED_TEXT + ends)
                continue
            if request.reads_texts and "\0" in cell:
                group.refuse(place, "a NUL character", EXPECTED_TEXT)
                continue
            line = text.encode("utf-8", "surrogateescape") if request.all_columns else None
            group.add(place, cell, id_cell, size, line)
            if not has_end(text):
                last = _ends(text, cells, found, quoting)
            if group.is_full:
                yield group.take(last)
        yield group.take(last)


def _ends(line: str, cells: list[str], found: Found, quoting: Any) -> tuple[str, str]:
    """As of Records: of a line without an end only its last cell goes on, and no fingerprint behind blanks or marks."""
    at_end = len(cells) - 1
    if found.value != at_end and found.id != at_end:
        return "", ""
    is_closed = quoting != csv.QUOTE_NONE and line.endswith(MARK)
    is_over = found.value == at_end and line[-1:].isspace() and cells[-1].strip() != ""
    ends = "" if is_closed or is_over else may_be_cut(line)
    return (ends, "") if found.value == at_end else ("", ends)


def _is_begun_escape(cells: list[str]) -> bool:
    """Whether only the last of these cells cannot be read, and could with more behind it."""
    try:
        cells_read(cells[:-1])
    except ValueError:
        return False
    return is_begun_escape(cells[-1], unescaped)


def _columns(cells: list[str], where: str, asked: Asked, delimiter: str) -> tuple[Found, bool]:
    """As columns_and_header; a first row of one cell that other marks separate is refused as such."""
    mark = next((mark for mark in _MARKS if mark != delimiter and len(cells) == 1 and mark in cells[0]), None)
    try:
        found, is_header = columns_and_header(cells, where, asked)
    except BadInput:
        if mark is None:
            raise
        raise _other_marks(where, mark, delimiter) from None
    named = (asked.text, asked.fingerprint, asked.id)
    if mark is not None and is_header and cells[0].strip() not in named:
        raise _other_marks(where, mark, delimiter)
    return found, is_header


def _expect_clear(source: str, line: int, *names: str | None) -> None:
    """BadInput for a name with a backslash, which is one in some files, and begins another character in others."""
    if any("\\" in name for name in names if name is not None):
        raise BadInput(
            f"{source}, line {line}: found a name with a backslash, expected {ASK_BACKSLASH}", source=source, line=line
        )


def _other_marks(where: str, mark: str, delimiter: str) -> BadInput:
    """What is wrong with cells that this mark separates."""
    told = f"expected {_MARKS[delimiter]} between cells"
    by_format = {"\t": "; or format (--format) tsv", ",": "; or format (--format) csv"}
    no_format = f", or tabs (format tsv): no format has {_MARKS[mark]}; write the table with one of these"
    other = by_format.get(mark, no_format)
    return BadInput(f"{where}: found one cell, with {_MARKS[mark]} in it, {told}{other}")


def _layout(first: list[str], format: str, header: bytes, source: str) -> Layout:
    """That of a table with this first row; header: the line it was read from, b"" where it is no header."""
    names = tuple(cell.strip() for cell in first) if header else tuple(map(str, range(len(first))))
    return Layout("tsv" if format == "tsv-plain" else format, names, header, source=source)


def _openable(path: str) -> Any:
    """What Arrow opens: the path, or the file where the path is no UTF-8, which Arrow does not take, or elsewhere."""
    if remote.is_remote(path):
        return remote.opened(path)
    try:
        path.encode()
    except UnicodeEncodeError:
        return open(path, "rb")
    return contextlib.nullcontext(path)


def _unchanged(path: str) -> AbstractContextManager[None]:
    """As unchanged, for a file of this machine alone."""
    return contextlib.nullcontext() if remote.is_remote(path) else unchanged(path)


def _parquet_records(path: str, request: Request, file: Any, size: int, types: Any, compute: Any) -> Iterator[Records]:
    schema = file.schema_arrow
    asked, fields = request.asked, list[str]()
    if isinstance(asked.text, str) and asked.text not in schema.names:
        root, *fields = asked.text.split(".")
        asked = replace(asked, text=root)
    elif isinstance(asked.text, str) and _leads_somewhere(schema, asked.text.split("."), types):
        raise BadInput(f"{path}: found {asked.text} as a column, and as a path to one, expected one of the two")
    found = columns_of(schema.names, path, asked)
    with_ids(request.asked, request.decided, found.id is not None, path)
    value = schema.names[found.value]
    ids = None if found.id is None else schema.names[found.id]
    if request.asked.of_ids:
        _check_ids(path, value, schema.field(found.value).type, types, request)
    elif request.reads_texts:
        _check_texts(path, value, _field_type(path, value, schema.field(found.value).type, fields, types), types)
    else:
        _check_fingerprints(path, value, schema.field(found.value).type, types, request)
        _meet_origin(path, request, schema.field(found.value))
    if ids is not None:
        _check_ids(path, ids, schema.field(found.id).type, types, request)
    row, told = 0, 0
    names = [value] if ids is None else list(dict.fromkeys([value, ids]))
    # By its number a column can be one of several with one name, which Arrow does not tell apart when it reads some.
    reads_all = request.all_columns or any(schema.names.count(name) > 1 for name in names)
    layout = Layout("parquet", tuple(schema.names), schema=schema, source=path)
    if file.metadata.num_rows == 0:
        yield Records(path, "row", (), (), (), None, 0, layout=layout)
    for batch in file.iter_batches(min(request.rows, _PARQUET_ROWS), columns=None if reads_all else names):
        end = row + batch.num_rows
        id_column = None if ids is None else _parquet_column(batch.column(found.id if reads_all else ids), types)
        rows = range(row, end)
        column = batch.column(found.value if reads_all else value)
        for field in fields:
            column = compute.struct_field(column, field)
        values = _parquet_column(column, types)
        whole = batch if request.all_columns else None
        yield Records(path, "row", rows, rows, values, id_column, end, arrow=whole, layout=layout)
        row = end
        if request.on_bytes is not None:
            # Arrow does not say which bytes it reads; the share of the rows stands for them.
            share = size * row // max(file.metadata.num_rows, 1)
            request.on_bytes(share - told)
            told = share


def _leads_somewhere(schema: Any, names: list[str], types: Any) -> bool:
    """Whether names, two or more, lead from a column to a field within fields."""
    if len(names) < 2 or names[0] not in schema.names:
        return False
    found = schema.field(names[0]).type
    for name in names[1:]:
        if not types.is_struct(found) or found.get_field_index(name) < 0:
            return False
        found = found.field(name).type
    return True


def _field_type(path: str, name: str, found: Any, fields: list[str], types: Any) -> Any:
    """The type of what is in a struct, at the end of the names of fields."""
    for field in fields:
        if not types.is_struct(found) or found.get_field_index(field) < 0:
            raise BadInput(f"{path}, column {name}: found {cut(found)}, expected a struct with one field {field}")
        found = found.field(field).type
        name = f"{name}.{field}"
    return found


def _check_texts(path: str, name: str, found: Any, types: Any) -> None:
    if not (_is_string(found, types) or _is_binary(found, types)):
        raise BadInput(f"{path}, column {name}: found {found}, expected strings, or bytes of texts")


def _check_ids(path: str, name: str, found: Any, types: Any, request: Request) -> None:
    if request.id_type == "bytes" and (_is_binary(found, types) or _is_fixed_binary(found, types)):
        return
    if not (_is_string(found, types) or _is_whole_number(found, types)):
        expected = "integers, strings or bytes" if request.id_type == "bytes" else "integers or strings"
        raise BadInput(f"{path}, column {name}: found {found}, expected {expected}")


def _check_fingerprints(path: str, name: str, found: Any, types: Any, request: Request) -> None:
    plain, bits = _plain_type(found, types), request.bits
    if request.byte_order == "little" and _is_whole_number(found, types):
        raise ValueError(f"{path}, column {name}: found {found}, expected {EXPECTED_BYTES}")
    is_known = plain.byte_width == bits // 8 if _is_fixed_binary(found, types) else _is_binary(plain, types)
    if not (is_known or _is_string(found, types) or _is_whole_number(found, types)):
        expected = f"fingerprints of {bits} bits: integers, strings or {bits // 8} bytes"
        if _is_fixed_binary(found, types):
            expected += f"; it has {8 * plain.byte_width} bits"
        raise BadInput(f"{path}, column {name}: found {found}, expected {expected}")


def _plain_type(found: Any, types: Any) -> Any:
    return found.value_type if types.is_dictionary(found) else found


def _is_string(found: Any, types: Any) -> bool:
    plain = _plain_type(found, types)
    return bool(types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain))


def _is_binary(found: Any, types: Any) -> bool:
    plain = _plain_type(found, types)
    return bool(types.is_binary(plain) or types.is_large_binary(plain) or types.is_binary_view(plain))


def _is_fixed_binary(found: Any, types: Any) -> bool:
    plain = _plain_type(found, types)
    return bool(types.is_fixed_size_binary(plain) and not types.is_decimal(plain))


def _is_whole_number(found: Any, types: Any) -> bool:
    plain = _plain_type(found, types)
    return bool(types.is_integer(plain) or (types.is_decimal(plain) and plain.scale == 0))


def _parquet_column(column: Any, types: Any) -> Any:
    """The values of a column; integers keep their width, beside nulls too."""
    if types.is_dictionary(column.type) and types.is_integer(column.type.value_type):
        column = column.dictionary_decode()
    if not types.is_integer(column.type):
        return column.to_pylist()
    if column.null_count == 0:
        return column.to_numpy()
    of_width = column.type.to_pandas_dtype()
    return [None if value is None else of_width(value) for value in column.to_pylist()]


def _first_line(error: Exception) -> str:
    return f"found a damaged file ({str(error).partition(chr(10))[0]}), expected Parquet"
