"""Owns how parts become tables: Parquet and CSV of JSON lines, Parquet of batches of Arrow.

Memory is bounded by a group of rows. What comes out follows from the part alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from types import MappingProxyType
from typing import Any, BinaryIO

from fpstore.inputs import BadInput
from fpstore.jobs.forms import Pack, csv_row
from fpstore.origin import Made
from fpstore.text.packages import need

# A group of rows is full with so many, or with so many bytes of their part.
GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 << 20

ADVICE = "write NAME.jsonl in its place, which can hold anything"


_TEXT, _NUMBER, _LIST, _OBJECT, _TRUTH = "a text", "a number", "a list", "an object", "true or false"
_FRACTION = "a number with a point or an exponent"
_BELOW, _LARGE = "an integer below 0", "an integer of 2**63 or more"
_WIDE, _BEYOND = "an integer beyond 2**53", "an integer beyond 64 bits"
# No type of a column holds both exactly.
_APART = (*combinations((_TEXT, _NUMBER, _LIST, _OBJECT, _TRUTH), 2), (_BELOW, _LARGE), (_FRACTION, _WIDE))
# Arrow takes no value deeper than that.
_MOST_LEVELS = 100

# Where a value stands in an object: names of fields, and None for what a list has.
Place = tuple[str | None, ...]


class NoColumn(BadInput):
    """Values that no column of Parquet holds together: whatever was done before, a job does not get beyond them."""


def is_utf8(text: str) -> bool:
    """Whether a text can be written so: it has no half of a surrogate pair, as stand for bytes of a file's name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_utf8(name: str, result: str) -> BadInput:
    """What is wrong with a name that a result in Parquet cannot hold."""
    return BadInput(f"{name}: found a name that is no UTF-8, expected one for {result}; {ADVICE}")


def expect_utf8(values: Iterable[object], result: str) -> None:
    """Raise BadInput for a name among values that a result in Parquet cannot hold."""
    for value in values:
        if isinstance(value, str) and not is_utf8(value):
            raise no_utf8(value, result)


def arrow() -> Any:
    """The package pyarrow."""
    return need("pyarrow", "arrow", "writing Parquet")


class JsonTypes:
    """What the fields of JSON objects hold so far, at all depths, of what no column of Parquet can have together.

    What can be told of a value alone, so that the first object that does not fit is named when it comes; of what only
    the file can tell, parquet_of_json does in the end.
    """

    def __init__(self) -> None:
        self._seen: dict[Place, set[str]] = {}

    def expect(self, where: str, record: Mapping[str, Any]) -> None:
        """Raise NoColumn for an object with a value that has no place beside those of the objects before it."""
        for name, value in record.items():
            self._expect(where, (name,), value)

    def _expect(self, where: str, place: Place, value: Any) -> None:
        found = _traits(value)
        if _BEYOND in found or (_LARGE in found and len(place) > 1):
            told = f"{_BEYOND}, expected one of 64 bits" if _BEYOND in found else f"{_LARGE}, expected one below it"
            raise NoColumn(f"{where}, field {_written(place)}: found {told}; {ADVICE}")
        seen = self._seen.setdefault(place, set())
        if not found <= seen:
            for one, other in _APART:
                for new, old in ((one, other), (other, one)):
                    if new in found and old in seen:
                        told = f"found {new}, and {old} before it, expected values of one type; {ADVICE}"
                        raise NoColumn(f"{where}, field {_written(place)}: {told}")
            seen |= found
        if len(place) < _MOST_LEVELS:
            within = value.items() if isinstance(value, dict) else ((None, item) for item in _telling(value))
            for name, item in within:
                self._expect(where, (*place, name), item)


def _written(place: Place) -> str:
    """A place as a message has it: `a.b`, and `a[]` for what a list has."""
    names = ("[]" if name is None else f".{name}" for name in place)
    return "".join(names).removeprefix(".")[:60]


def _telling(value: Any) -> Iterator[Any]:
    """Of the values of a list those that have all the traits that any has; nothing of what is no list."""
    values = value if isinstance(value, list) else []
    for kind in dict.fromkeys(map(type, values)):
        alike: list[Any] = [each for each in values if type(each) is kind]
        if kind in (list, dict):
            yield from alike
        elif kind is int:
            yield from (min(alike), max(alike))
        else:
            yield alike[0]


def _traits(value: Any) -> set[str]:
    """What is to be told of a value of JSON; nothing of null."""
    if isinstance(value, str):
        return {_TEXT}
    if isinstance(value, list):
        return {_LIST}
    if isinstance(value, dict):
        return {_OBJECT}
    if isinstance(value, bool):
        return {_TRUTH}
    if isinstance(value, float):
        return {_NUMBER, _FRACTION}
    if isinstance(value, int):
        is_beyond = not -(1 << 63) <= value < 1 << 64
        limits = ((_BELOW, value < 0), (_LARGE, value >= 1 << 63), (_WIDE, abs(value) > 1 << 53), (_BEYOND, is_beyond))
        return {_NUMBER, *(trait for trait, is_so in limits if is_so)}
    return set()


def parquet_of_json(
    columns: Mapping[str, str] | None,
    added: Mapping[str, str] = MappingProxyType({}),
    made_by: Made | None = None,
) -> Pack:
    """Parquet of JSON lines; columns: name and type of each in Arrow, where None the fields that there are.

    added: columns that come behind these. Fields in the order in which they first come, with the type that all values
    have; NoColumn where there is none. made_by: what a column `fingerprint` says, among those given.
    """

    def pack(part: BinaryIO, out: BinaryIO) -> None:
        pa = arrow()
        with _bad_values(pa):
            if columns is None:
                schema = _schema_of(part, added, pa)
            else:
                says = {"fingerprint": None if made_by is None else made_by.metadata}
                schema = pa.schema(
                    [pa.field(name, pa.type_for_alias(kind), metadata=says.get(name)) for name, kind in columns.items()]
                )
            for name, kind in added.items():
                schema = schema.append(pa.field(name, pa.type_for_alias(kind)))
            with need("pyarrow.parquet", "arrow", "writing Parquet").ParquetWriter(out, schema) as writer:
                for records in _groups(part):
                    arrays = [_array([record.get(f.name) for record in records], f, pa) for f in schema]
                    writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=GROUP_ROWS)

    return pack


def csv_of_json(columns: Sequence[str] | None, added: Sequence[str] = ()) -> Pack:
    """CSV of JSON lines, with a header; columns: the fields, where None those that there are, as they first come.

    added: fields that come behind these. What no cell can hold was refused as it came.
    """

    def pack(part: BinaryIO, out: BinaryIO) -> None:
        names = dict.fromkeys(columns or ())
        if columns is None:
            for records in _groups(part):
                for record in records:
                    names.update(dict.fromkeys(record))
            part.seek(0)
        for name in added:
            names.pop(name, None)
        names.update(dict.fromkeys(added))
        if names:
            out.write(csv_row(list(names)))
        for records in _groups(part):
            out.write(b"".join(csv_row([cell_of(record.get(name)) for name in names]) for record in records))

    return pack


def parquet_of_batches(part: BinaryIO, out: BinaryIO) -> None:
    """Parquet of streams of Arrow, one after the other, all of one schema; the first says which."""
    pa = arrow()
    parquet = need("pyarrow.parquet", "arrow", "writing Parquet")
    with pa.ipc.open_stream(part) as first:
        schema = first.schema
    with _bad_values(pa), parquet.ParquetWriter(out, schema) as writer:
        held: list[Any] = []
        rows = size = 0
        for batch in _batches(part, pa):
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                _write_group(writer, held, schema, pa)
                rows = size = 0
        _write_group(writer, held, schema, pa)


def cell_of(value: Any) -> str:
    """A value of JSON as a cell: a text as it is, nothing for null, else JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _write_group(writer: Any, held: list[Any], schema: Any, pa: Any) -> None:
    if held:
        table = pa.Table.from_batches(held, schema=schema).unify_dictionaries()
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
        held.clear()


def _batches(part: BinaryIO, pa: Any) -> Iterator[Any]:
    end = part.seek(0, 2)
    part.seek(0)
    while part.tell() < end:
        with pa.ipc.open_stream(part) as stream:
            yield from stream


def _groups(part: BinaryIO) -> Iterator[list[Any]]:
    """The objects of JSON lines, some at a time."""
    records: list[Any] = []
    size = 0
    for line in part:
        records.append(json.loads(line))
        size += len(line)
        if len(records) == GROUP_ROWS or size >= GROUP_BYTES:
            yield records
            records, size = [], 0
    if records:
        yield records


def _schema_of(part: BinaryIO, added: Iterable[str], pa: Any) -> Any:
    """That of JSON lines but for the added fields; they are read to their end and set to their beginning again.

    The types are compared once more: a job that went on has not seen all documents, and Arrow takes true for 1.0.
    """
    fields: dict[str, Any] = {}
    types = JsonTypes()
    for records in _groups(part):
        for record in records:
            types.expect("kept documents", {name: record[name] for name in record if name not in added})
        for name in dict.fromkeys(name for record in records for name in record if name not in added):
            found = pa.field(name, _array([record.get(name) for record in records], pa.field(name, pa.null()), pa).type)
            before = fields.get(name, found)
            if {before.type, found.type} == {pa.int64(), pa.uint64()}:
                fields[name] = pa.field(name, pa.uint64())  # where one is below 0, it is refused as it is written
                continue
            try:
                fields[name] = pa.unify_schemas(
                    [pa.schema([before]), pa.schema([found])], promote_options="permissive"
                ).field(0)
            except pa.ArrowException:
                raise _of_two_types(name, f"{before.type} and {found.type}") from None
    part.seek(0)
    return pa.schema(list(fields.values()))


def _array(values: list[Any], field: Any, pa: Any) -> Any:
    """Values as an array of the field's type; of the type that they have where that is null."""
    is_known = not pa.types.is_null(field.type)
    try:
        try:
            return pa.array(values, type=field.type if is_known else None)
        except OverflowError:  # by themselves integers are at most int64
            if is_known:
                raise
            return pa.array(values, type=pa.uint64())
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise _of_two_types(field.name, str(error).partition("\n")[0][:100]) from None


def _of_two_types(name: str, found: str) -> NoColumn:
    return NoColumn(f"column {name:.60}: found {found} in kept documents, expected values of one type; {ADVICE}")


@contextmanager
def _bad_values(pa: Any) -> Iterator[None]:
    """What Parquet cannot hold is the fault of the documents."""
    try:
        yield
    except pa.ArrowException as error:
        told = str(error).partition("\n")[0][:200]
        raise NoColumn(f"found what Parquet cannot hold ({told}), expected other values; {ADVICE}") from None
