"""Owns bodies in Arrow's stream format: a table of columns in, a table out.

What comes in is a stranger's: flat columns of known types, without compression, whose buffers are checked before they
are used.
"""

import struct
from typing import Any

from fpstore.inputs import BadInput
from fpstore.inputs.cells import Column
from fpstore.origin import Origin, expect_bits_said
from fpstore.serve.forms import too_long
from fpstore.text.packages import need

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

# In the flatbuffers of the format: which kind of message it is, its table, and the field of a record batch that says
# how its buffers are compressed.
_HEADER_TYPE, _HEADER = 1, 2
_RECORD_BATCH = 3
_COMPRESSION = 3


def columns_of(
    body: bytes, allowed: tuple[str, ...], most: int, origin: Origin | None = None, bits: int = 64
) -> dict[str, Column]:
    """The columns of the table in a body, some of these: integers as an array, all else as a list.

    What is behind more than `most` rows is not read. BadInput for what is no such table, ImportError without pyarrow.
    origin: what is known of the fingerprints of the store; RecipeError for a column that says it has others.
    bits: of a fingerprint.
    """
    pyarrow = need("pyarrow", "arrow", "Arrow")
    batches = []
    count = 0
    try:
        with pyarrow.ipc.open_stream(body) as reader:
            schema = reader.schema
        _expect_columns(pyarrow, schema, allowed, bits)
        if "fingerprints" in schema.names:
            _meet(schema.field("fingerprints"), origin, bits)
        source = pyarrow.BufferReader(body)
        messages = pyarrow.ipc.MessageReader.open_stream(source)
        next(messages)  # the schema
        for message in messages:
            _expect_plain(message)
            batch = pyarrow.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            batches.append(batch)
            count += batch.num_rows
            if count > most:
                break
        else:
            if behind := len(body) - source.tell():
                raise BadInput(f"body: found {behind} bytes behind the stream, expected its end")
        table = pyarrow.Table.from_batches(batches, schema)
        return {name: _column(name, table[name], pyarrow.types) for name in allowed if name in table.column_names}
    except (pyarrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        told = str(error).partition("\n")[0]
        raise BadInput(f"body: found no stream of Arrow ({told:.200}), expected one") from None


def bytes_of(table: Any, most: int) -> bytes:
    """A table of an answer as a stream. TooManyMatches for one of more than most bytes."""
    pyarrow = need("pyarrow", "arrow", "Arrow")
    sink = pyarrow.BufferOutputStream()
    arrow = table.to_arrow()
    with pyarrow.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    written = sink.getvalue()
    if written.size > most:
        raise too_long(most)
    answer: bytes = written.to_pybytes()
    return answer


def _column(name: str, column: Any, types: Any) -> Column:
    if column.null_count:
        raise BadInput(f"column {name}: found {column.null_count} nulls, expected none")
    found: Column = column.to_numpy() if types.is_integer(column.type) else column.to_pylist()
    return found


def _meet(field: Any, origin: Origin | None, bits: int) -> None:
    where = "column fingerprints"
    try:
        expect_bits_said(field, bits, where)
    except ValueError as error:
        raise BadInput(str(error)) from None
    if origin is not None:
        origin.meet(field, where)


def _expect_columns(pyarrow: Any, schema: Any, allowed: tuple[str, ...], bits: int) -> None:
    types = pyarrow.types
    flat = (types.is_integer, types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    for field in schema:
        kind = field.type
        if field.name not in allowed:
            raise BadInput(f"body: found a column {field.name!r:.40}, expected {', '.join(allowed)}")
        known = any(is_kind(kind) for is_kind in flat) or (
            types.is_fixed_size_binary(kind) and kind.byte_width == bits // 8
        )
        if not known:
            raise BadInput(f"column {field.name}: found type {kind!s:.40}, expected integers, strings or bytes")
    if len(set(schema.names)) != len(schema.names):
        raise BadInput(f"body: found columns {', '.join(schema.names):.200}, expected each once")


def _expect_plain(message: Any) -> None:
    """BadInput for what is no record batch, and for compressed buffers, which can grow to any size."""
    metadata = message.metadata.to_pybytes()
    try:
        root = struct.unpack_from("<I", metadata, 0)[0]
        kind = _field(metadata, root, _HEADER_TYPE)
        header = _field(metadata, root, _HEADER)
        if kind is None or header is None or metadata[kind] != _RECORD_BATCH:
            raise BadInput(f"body: found a message of type {message.type}, expected record batches")
        table = header + struct.unpack_from("<I", metadata, header)[0]
        compressed = _field(metadata, table, _COMPRESSION) is not None
    except (struct.error, IndexError):
        raise BadInput("body: found a message of Arrow that is cut short, expected whole ones") from None
    if compressed:
        raise BadInput("body: found compressed buffers, expected plain ones")


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of flatbuffers is, None where it is not set. struct.error, IndexError outside."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise IndexError
    size = struct.unpack_from("<H", data, vtable)[0]
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    offset = struct.unpack_from("<H", data, vtable + place)[0]
    return table + offset if offset else None
