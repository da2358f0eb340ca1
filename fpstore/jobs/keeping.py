"""Owns how kept documents are written: with all their columns, in the form that the result's name asks for.

Lines of JSON, CSV and TSV and rows of Parquet that stay what they are go out as they were read. All others grow as
lines of JSON, of which a table is made when all is done.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fpstore.inputs import DOCUMENTS, BadInput, Layout, Row, cells_of, plain
from fpstore.jobs.adding import batch_with, delimited_with, expect_room, header_with, json_with, schema_with
from fpstore.jobs.batches import Batch
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.forms import CSV, JSON, PARQUET, TSV, Form, Pack, form_of
from fpstore.jobs.packing import (
    ADVICE,
    JsonTypes,
    arrow,
    csv_of_json,
    expect_utf8,
    is_utf8,
    no_utf8,
    parquet_of_batches,
    parquet_of_json,
)
from fpstore.jobs.rows import json_line
from fpstore.text.loading import each_name_once
from fpstore.text.packed import Packed
from fpstore.types import Bytes, Counts

_TABLES = (CSV, TSV, PARQUET)
# The added column that holds the name of another document.
DUPLICATE_OF = "duplicate_of"


class Keeping:
    """The form of the kept documents.

    head: what the part begins with, as far as it is known before the first document. pack: what makes the result of
    the part, None where the part is the result.
    """

    def __init__(
        self, path: Path, corpus: Corpus, added: Mapping[str, str] = MappingProxyType({}), form: Form | None = None
    ) -> None:
        """added: the columns that each document gets, and their types in Arrow. form: by default that of the name.

        Raises ValueError for a suffix that is not known, and for inputs whose columns that form cannot hold.
        """
        self._path = path
        self._added = dict(added)
        form = form or form_of(path, JSON)
        self._kind = form.kind
        self.refuses_packed = form.kind != JSON
        self._first: tuple[str, Layout] | None = None
        self._types: JsonTypes | None = None
        if form.kind == JSON:
            self._as_read = False
            self.head, self.pack = b"", form.pack()
            return
        # Of folders without files nothing tells more than that they would hold documents.
        sources = list(corpus.layouts()) or [(str(path), "documents", DOCUMENTS)]
        kinds: dict[str, str] = {}
        for name, format, _ in sources:
            kinds.setdefault(format if format in (JSON, *_TABLES) else "documents", name)
        (kind, name), *others = kinds.items()
        if others:
            other, other_name = others[0]
            raise ValueError(self._refused(f"{kind} ({name}) and {other} ({other_name})", "inputs of one kind"))
        for source, _, found in sources:
            if found is not None:
                expect_room(source, found, self._added)
                self._expect_same(source, found)
        self._as_read = kind == form.kind
        if form.kind == TSV and not self._as_read:
            raise ValueError(
                self._refused(f"{kind} ({name})", "inputs that are TSV: others can have tabs in their texts")
            )
        layout = None if self._first is None or kind == JSON else self._first[1]
        if layout is not None and not self._as_read:
            expect_fields(self._first[0] if self._first else name, layout)
        convert: Pack | None
        if form.kind == PARQUET:
            self._types = JsonTypes() if kind == JSON else None
            convert = parquet_of_batches if self._as_read else parquet_of_json(_types(layout), self._added)
        else:
            columns = None if layout is None else layout.columns
            convert = None if self._as_read else csv_of_json(columns, list(self._added))
        self.pack = form.pack(convert)
        self.head = b"" if layout is None or not self._as_read else self._head(layout)

    @property
    def has_lines(self) -> bool:
        """Whether each document that is a line of JSON has that line there, as it was read, and nothing is added."""
        return self._kind == JSON and not self._added

    def lines_of(self, batch: Batch) -> Packed[Row] | None:
        """The lines of a batch, where they are written as they stand, each with its end."""
        return batch.rows if isinstance(batch.rows, Packed) and self.has_lines else None

    def lines(
        self, batch: Batch, which: Sequence[int] | Counts, *, is_first: bool, added: Sequence[Sequence[Any]] = ()
    ) -> bytes | Bytes:
        """What is written of the documents of a batch; which: their indexes.

        is_first: nothing was written before. added: of each document the values of the added columns. Raises BadInput
        for a document that this form cannot hold, and ValueError for one with other columns than those before it.
        """
        found = self.lines_of(batch)
        if found is not None:
            taken = found.take(np.asarray(which, dtype=np.int64))
            if not len(taken) or (taken.data[taken.offsets[1:] - 1] == ord("\n")).all():
                return taken.data
        indexes: Sequence[int] = which.tolist() if isinstance(which, np.ndarray) else which
        if self._kind != JSON:
            for index in indexes:
                self._expect_same(batch.names[index], batch.rows[index].layout)
        if self._kind == PARQUET:
            for values in added:
                expect_utf8(values, self._path.name)
        if not self._as_read:
            return b"".join(self._objects(batch, indexes, added))
        head = self._head(batch.rows[0].layout) if is_first and batch.rows else b""
        if self._kind == PARQUET:
            return head + b"".join(self._streams(batch.rows, indexes, added))
        if not self._added:
            return head + b"".join(_ended(batch.rows[index].data) for index in indexes)
        rows = (delimited_with(batch.rows[index], values) for index, values in zip(indexes, added, strict=True))
        return head + b"".join(rows)

    def _head(self, layout: Layout) -> bytes:
        if layout.schema is None:
            header = header_with(layout, list(self._added)) if self._added else layout.header
            return _ended(header) if header else b""
        sink = arrow().BufferOutputStream()
        arrow().ipc.new_stream(sink, schema_with(layout.schema, self._added)).close()
        return bytes(sink.getvalue())

    def _streams(self, rows: Sequence[Row], indexes: Sequence[int], added: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        start = 0
        for held, batch in _by_batch(rows, indexes):
            taken = _taken(rows, held, batch)
            if self._added:
                taken = batch_with(taken, schema_with(batch.schema, self._added), added[start : start + len(held)])
            start += len(held)
            sink = arrow().BufferOutputStream()
            with arrow().ipc.new_stream(sink, taken.schema) as stream:
                stream.write_batch(taken)
            yield bytes(sink.getvalue())

    def _objects(self, batch: Batch, indexes: Sequence[int], added: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        """Documents as lines of JSON, with the added fields at the end."""
        lines = _json_lines(batch, indexes)
        if self._types is not None:
            lines = self._of_types(lines, batch, indexes)
        if not self._added:
            return lines
        fields = (dict(zip(self._added, values, strict=True)) for values in added)
        names = (batch.names[index] for index in indexes)
        return (json_with(*each) for each in zip(names, lines, fields, strict=True))

    def _of_types(self, lines: Iterator[bytes], batch: Batch, indexes: Sequence[int]) -> Iterator[bytes]:
        """The lines, each if a column can hold its fields beside those of the lines of this run before it."""
        types = self._types or JsonTypes()
        for index, line in zip(indexes, lines, strict=True):
            types.expect(batch.names[index], json.loads(line))
            yield line

    def fault_of(self, name: str, row: Row) -> BadInput | None:
        """What is wrong with a document that could not be written: a row with bytes that are no UTF-8, of which a text
        is to be made, or a text or a name that is no UTF-8, in a form that has no place for it. None for all others.
        """
        if self._kind == PARQUET and (row.layout is DOCUMENTS or DUPLICATE_OF in self._added) and not is_utf8(name):
            return no_utf8(name, self._path.name)
        if self._kind != JSON and row.layout.format == JSON:
            found = _unfit(row.data)
            if found is not None:
                return BadInput(f"{name}: {found} for {self._path.name}; {ADVICE}")
        if self._as_read or row.layout.kind not in (CSV, TSV) or not isinstance(row.data, bytes):
            return None
        try:
            row.data.decode()
        except UnicodeDecodeError as error:
            found = f"found byte {row.data[error.start]:#04x} in a row that is no UTF-8, expected text"
            return BadInput(f"{name}: {found}; or -o NAME.{row.layout.kind}, which has the lines as they stand")
        return None

    def _expect_same(self, name: str, layout: Layout) -> None:
        name = layout.source or name
        if self._first is None:
            self._first = (name, layout)
            return
        first = self._first[1]
        if layout is first or (layout.format, layout.columns) == (first.format, first.columns):
            if layout.schema is first.schema or layout.schema.equals(first.schema):
                return
            found = _differing(layout.schema, first.schema)
        else:
            found = ", ".join(layout.columns)[:200] or layout.format
        raise ValueError(self._refused(f"{found} in {name}", f"the columns of {self._first[0]}"))

    def _refused(self, found: str, expected: str) -> str:
        return (
            f"{self._path}: found {found}, expected {expected}; -o NAME.jsonl can hold any, each with its own columns"
        )


def _unfit(line: Any) -> str | None:
    """What a line of JSON has that the cells of a table have no place for, None where there is nothing of that kind."""
    try:
        record = json.loads(line, object_pairs_hook=each_name_once)
    except ValueError as error:
        return str(error)
    # Half of a surrogate pair can only be written by its number.
    if b"\\u" in line and not is_utf8(json.dumps(record, ensure_ascii=False)):
        return "found half of a surrogate pair, expected text"
    return None


def expect_fields(name: str, layout: Layout) -> None:
    """Raise BadInput for columns that cannot be the fields of an object: two of one name, or bytes.

    name: for messages where the layout does not say which file it is of.
    """
    name = layout.source or name
    if len(set(layout.columns)) < len(layout.columns):
        twice = next(column for column in layout.columns if layout.columns.count(column) > 1)
        raise BadInput(
            f"{name}: found two columns {twice:.60}, expected names that differ, or -o NAME of the same format"
        )
    if layout.schema is not None:
        for field in layout.schema:
            if _holds_bytes(field.type):
                raise BadInput(
                    f"{name}, column {field.name:.60}: found {field.type}, expected text; or -o NAME.parquet"
                )


def _types(layout: Layout | None) -> dict[str, str] | None:
    """Of documents and delimited tables, whose columns are texts; None where that is not known before they are read."""
    return None if layout is None else dict.fromkeys(layout.columns, "string")


def _ended(line: Any) -> bytes:
    """Lines of a document, with their end."""
    ended: bytes = line if line.endswith(b"\n") else line + b"\n"
    return ended


def _by_batch(rows: Sequence[Row], indexes: Sequence[int]) -> Iterator[tuple[list[int], Any]]:
    """Indexes of rows that follow one another in one batch of Arrow, with those of their own rows in it."""
    held: list[int] = []
    batch: Any = None
    for index in indexes:
        data: Any = rows[index].data
        found = data[0] if isinstance(data, tuple) else None
        if held and found is not batch:
            yield held, batch
            held = []
        batch = found
        held.append(index)
    if held:
        yield held, batch


def _taken(rows: Sequence[Row], held: list[int], batch: Any) -> Any:
    """Those rows of a batch of Arrow."""
    numbers = [rows[index].data[1] for index in held]  # type: ignore[index]
    try:
        return batch.take(arrow().array(numbers))
    except arrow().ArrowNotImplementedError:  # of string_view and the like
        slices = [batch.slice(number, 1) for number in numbers]
        (taken,) = arrow().Table.from_batches(slices).combine_chunks().to_batches()
        return taken


def _json_lines(batch: Batch, indexes: Sequence[int]) -> Iterator[bytes]:
    """Documents as lines of JSON: their own, or an object of their columns."""
    checked: Layout | None = None
    for held, table in _by_batch(batch.rows, indexes):
        values = None if table is None else _taken(batch.rows, held, table).to_pylist()
        for place, index in enumerate(held):
            layout, data = batch.rows[index]
            if layout is not checked:
                expect_fields(batch.names[index], layout)
                checked = layout
            if values is not None:
                yield json_line({name: plain(value) for name, value in values[place].items()})
            elif data is None:
                yield json_line({"name": batch.names[index], "text": batch.texts[index]})
            elif layout.format == JSON:
                yield _ended(data)
            else:
                yield json_line(_record(layout, data))


def _record(layout: Layout, data: Any) -> dict[str, str]:
    """A row of a delimited table."""
    return dict(zip(layout.columns, cells_of(Row(layout, data)), strict=True))


def _holds_bytes(kind: Any) -> bool:
    types = arrow().types
    if types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    if types.is_nested(kind):
        return any(_holds_bytes(kind.field(index).type) for index in range(kind.num_fields))
    return "binary" in str(kind)


def _differing(found: Any, expected: Any) -> str:
    other = next(field for field, before in zip(found, expected, strict=True) if not field.equals(before))
    return f"column {other.name:.60}: {other.type}{'' if other.nullable else ', never null'}"
