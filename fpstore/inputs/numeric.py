"""Owns the formats that hold nothing but fingerprints: `npy`, raw little-endian `u64`, lines of `hex`.

What a file says of itself is compared with its size before anything is read, and nothing is allocated on the strength
of it.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
from collections.abc import Iterator
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fpstore.inputs.cells import EXPECTED_BYTES, WIDE_BITS, FingerprintColumn, Width, width
from fpstore.inputs.columns import ASK_IDS, with_ids
from fpstore.inputs.compressed import Stream, display_name, open_stream
from fpstore.inputs.endings import has_end, may_be_cut
from fpstore.inputs.errors import BLANK, BadInput, shown
from fpstore.inputs.records import Piece, Records, Request, piece_of_fingerprints, piece_of_ids

_HEX_LINE_BYTES = 17  # with 64 bits
_MIN_BLOCK_BYTES = 1 << 16  # below it the cost of a block outweighs that of its lines
_NPY_MAGIC_BYTES = 8  # with the version
_MAX_NPY_HEADER_BYTES = 10_000
# By these, and by text, a file of raw fingerprints is told from what it is not: any eight bytes are one.
_OTHER_KINDS = (
    (b"\x93NUMPY", "a .npy file"),
    (b"PAR1", "Parquet data"),
    (b"ARROW1\0\0", "Arrow data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\xfd7zXZ\x00", "xz data"),
)
_LOOK_BYTES, _LEAST_TEXT_BYTES = 4096, 48
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Of each version: the bytes of the header's length, and what reads the rest.
_NPY_VERSIONS = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}


def read_u64(path: str, request: Request) -> Iterator[Piece]:
    """Raw little-endian 64-bit fingerprints, with no header."""
    if request.bits in WIDE_BITS:
        told = f"found format u64, of 64 bits each, expected npy, hex, a table or JSON lines for {request.bits} bits"
        raise BadInput(f"{display_name(path)}: {told}")
    # Any eight bytes are a fingerprint, so only the suffix can say that a file is compressed.
    with open_stream(path, request.on_bytes, by_magic=False) as stream:
        yield from _items(path, stream, request, np.dtype("<u8"), 0, None)


def read_npy(path: str, request: Request) -> Iterator[Piece]:
    """A numpy file of one-dimensional integers; int64 are the same bits, narrower ones below 0 are bad rows.

    Of wide fingerprints rows of words, or of bytes, the most significant first. Byte order little is for rows of bytes
    alone, and a ValueError with others.
    """
    of = width(request.bits)
    with open_stream(path, request.on_bytes) as stream:
        dtype, count, offset = _npy_header(stream, of)
        if request.byte_order == "little" and dtype.base.itemsize > 1:
            raise ValueError(f"{stream.name}: found {dtype.base}[n, {of.words}], expected {EXPECTED_BYTES}")
        expected = offset + count * dtype.itemsize
        if stream.plain_bytes is not None and stream.plain_bytes != expected:
            raise BadInput(f"{stream.name}: found {stream.plain_bytes} bytes, expected {expected} by its header")
        yield from _items(path, stream, request, dtype, offset, count)


def row_count(path: str, format: str, bits: int) -> int | None:
    """How many rows a plain file of numbers has, by its size; None where only reading tells, or it cannot be read."""
    if format not in ("npy", "u64"):
        return None
    with open_stream(path, None, by_magic=format == "npy") as stream:
        if stream.plain_bytes is None:
            return None
        if format == "u64":
            return stream.plain_bytes // 8
        try:
            dtype, count, offset = _npy_header(stream, width(bits))
        except BadInput:
            return None  # who reads it says why
        return count if stream.plain_bytes == offset + count * dtype.itemsize else None


def read_hex(path: str, request: Request) -> Iterator[Piece]:
    """One written fingerprint a line, or `fingerprint<TAB>id`, whichever the first line has.

    A blank line between two others is a row without a value, which is bad. Those before the first are nothing, and
    those behind the last are passed over.
    """
    way = request.fingerprint_format
    bits = request.bits
    order = request.byte_order
    column = FingerprintColumn.of_hex_lines(bits, order) if way == "auto" else FingerprintColumn(way, bits, order)
    reading: _HexLines | None = None
    line_number = 1
    with open_stream(path, request.on_bytes, is_text=True) as stream:
        while block := _hex_block(stream, max(request.rows * _HEX_LINE_BYTES, _MIN_BLOCK_BYTES), line_number):
            is_open = not has_end(block)
            block += b"\n" * (not block.endswith(b"\n"))
            if reading is None and block.strip():
                first = block.lstrip().partition(b"\n")[0].strip()
                start = block.rindex(b"\n", 0, block.index(first)) + 1 if b"\n" in block[: block.index(first)] else 0
                line_number, block = line_number + block[:start].count(b"\n"), block[start:]
                reading = _HexLines(stream.name, line_number, b"\t" in first, request, column)
            if reading is not None:
                yield from reading.pieces(block, is_open)
            line_number += block.count(b"\n")
    if reading is not None:
        reading.end()


class _HexLines:
    """The lines of a file from the first that is not blank, block by block."""

    def __init__(self, name: str, line_number: int, has_ids: bool, request: Request, column: FingerprintColumn) -> None:
        self._name, self._request, self._column = name, request, column
        self._line_number, self._row = line_number, 0
        # Blank lines of which nobody knows yet whether others follow.
        self._blank = 0
        self._has_ids = has_ids
        self._reads_ids = with_ids(request.asked, request.decided, has_ids, name)
        if self._reads_ids and not has_ids:
            rows = f", or {ASK_IDS} for row numbers" if request.asked.rows_serve else ""
            raise BadInput(f"{name}, line {line_number}: found no tab, expected a fingerprint, a tab and an id{rows}")

    def pieces(self, block: bytes, is_open: bool) -> Iterator[Piece]:
        """The rows of whole lines; is_open: the last one had no end."""
        written = len(block.rstrip())
        if written:
            while self._blank:
                count = min(self._blank, self._request.rows)
                self._blank -= count
                yield self._piece(b"\n" * count)
            end = block.index(b"\n", written) + 1
            yield self._piece(block[:end], is_open and end == len(block))
            block = block[end:]
        self._blank += block.count(b"\n")

    def end(self) -> None:
        """What is left are no rows."""
        for _ in range(self._blank):
            self._request.faults.pass_over(BLANK)

    def _piece(self, block: bytes, is_open: bool = False) -> Piece:
        fingerprints = None if self._has_ids else _uniform_lines(block, self._column)
        if fingerprints is not None:
            lines = len(fingerprints)
            end = self._row + lines
            piece = Piece(fingerprints, None, np.arange(self._row, end, dtype=np.uint64), end)
        else:
            lines = block.count(b"\n")
            piece = piece_of_fingerprints(self._records(block, is_open), self._request, self._column)
        self._line_number += lines
        self._row = piece.end
        return piece

    def _records(self, block: bytes, is_open: bool) -> Records:
        """The lines of a block, split at the tab where an id is expected after it."""
        places: list[int] = []
        rows: list[int] = []
        values: list[str] = []
        ids: list[str] = []
        row = self._row
        last = self._line_number + block.count(b"\n") - 1
        for place, line in enumerate(block.decode("utf-8", "replace").split("\n")[:-1], start=self._line_number):
            # Blanks behind an id are its own, of which is told.
            cell = line.lstrip().removesuffix("\r")
            value, _, id_cell = cell.partition("\t") if self._has_ids else (cell, "", "")
            if self._has_ids and not id_cell.strip():
                found = shown(line.strip())
                told = f"{self._name}, line {place}: found {found}, expected a fingerprint, a tab and an id"
                told += may_be_cut("") if is_open and place == last and self._is_begun(cell) else ""
                self._request.faults.meet(BadInput(told, "bad line", source=self._name, line=place))
            else:
                places.append(place)
                rows.append(row)
                values.append(value.strip())
                ids.append(id_cell)
            row += 1
        own_ids = ids if self._reads_ids else None
        is_over = not self._has_ids and cell[-1:].isspace()  # a fingerprint ends before them
        end = may_be_cut("") if is_open and places and places[-1] == last and not is_over else ""
        ends = ("", end) if self._has_ids else (end, "")
        return Records(self._name, "line", places, rows, values, own_ids, row, holds_names=False, ends=ends)

    def _is_begun(self, line: str) -> bool:
        """Whether a line that lacks an id begins one that has all."""
        value, tab, _ = line.partition("\t")
        whole = value.strip()
        is_over = tab != "" or (whole != "" and value[-1:].isspace())
        return not self._column.parse([whole])[1] or (not is_over and self._column.is_begun(whole))


def _expect_raw(stream: Stream, head: bytes) -> None:
    """Raise BadInput for a file that begins as another kind does, and for one of a size that raw fingerprints lack."""
    kind = _other_kind(head)
    if kind is not None:
        told = f"found {kind}, expected raw fingerprints of 8 bytes"
        raise BadInput(f"{stream.name}: {told}; its own format (--format), or as .npy what are fingerprints")
    if stream.plain_bytes is not None:
        _check_whole(stream.name, stream.plain_bytes, 0, 8)


def _other_kind(head: bytes) -> str | None:
    """What the first bytes of a file are of, where no fingerprints would ever begin so; None for all others.

    Each is of 31 bits or more that random ones would have to hit.
    """
    for mark, kind in _OTHER_KINDS:
        if head.startswith(mark):
            return kind
    if head.startswith(b"\x1f\x8b\x08") and head[3:4] < b"\x20" and head[8:9] in (b"\0", b"\2", b"\4"):
        return "gzip data"
    if len(head) < _LEAST_TEXT_BYTES or _CONTROL.search(head):
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character can be cut
    except UnicodeDecodeError:
        return None
    return "text"


def _check_whole(name: str, size: int, offset: int, item_bytes: int) -> None:
    over = (size - offset) % item_bytes
    if over:
        raise BadInput(f"{name}, offset {size - over}: found {over} bytes, expected {item_bytes} for each fingerprint")


def _npy_header(stream: Stream, of: Width) -> tuple[np.dtype[Any], int, int]:
    """The type of the items, how many the header says there are, and where they begin."""
    rows = {(of.words, 8): "ui", (of.size, 1): "u"} if of.words else {}
    head = stream.reader.read(_NPY_MAGIC_BYTES)
    try:
        version = np.lib.format.read_magic(io.BytesIO(head))
        if version not in _NPY_VERSIONS:
            raise ValueError(f"version {version[0]}.{version[1]}, which no array of integers needs")
        length_bytes, read_header = _NPY_VERSIONS[version]
        length = stream.reader.read(length_bytes)
        # numpy refuses a header of more than 10,000 bytes; so no more than that is read.
        header = stream.reader.read(min(int.from_bytes(length, "little"), _MAX_NPY_HEADER_BYTES))
        shape, fortran_order, dtype = read_header(io.BytesIO(length + header))
    except (ValueError, SyntaxError, TypeError, TokenError, RecursionError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"{stream.name}: found no numpy header ({reason}), expected a .npy file") from error
    is_row = len(shape) == 2 and dtype.kind in rows.get((shape[1], dtype.itemsize), "")
    if (not is_row and (dtype.kind not in "ui" or len(shape) != 1 or of.words)) or fortran_order:
        order = " in Fortran order" if fortran_order else ""
        expected = f"uint64[n, {of.words}] or uint8[n, {of.size}]" if of.words else "uint64[n]"
        raise BadInput(f"{stream.name}: found {dtype}{list(shape)}{order}, expected {expected}")
    if shape[0] < 0:
        raise BadInput(f"{stream.name}: found {shape[0]} items in its header, expected 0 or more")
    return np.dtype((dtype, shape[1:])), shape[0], len(head) + len(length) + len(header)


def _items(
    path: str, stream: Stream, request: Request, dtype: np.dtype[Any], offset: int, count: int | None
) -> Iterator[Piece]:
    """The items that follow in the stream; exactly count, or for None as many as there are.

    Of a plain file of which only some rows are asked for, these.
    """
    with_ids(request.asked, request.decided, False, stream.name)
    column = FingerprintColumn(bits=request.bits, order=request.byte_order)
    row, end = request.only or (0, count)
    with contextlib.ExitStack() as held:
        reader: BinaryIO = stream.reader
        if request.only is not None:  # others read other rows, by the same path
            within = offset + row * dtype.itemsize, offset + request.only[1] * dtype.itemsize
            reader = held.enter_context(open_stream(path, None, by_magic=False, within=within)).reader
        while data := reader.read(_most_rows(request, row) * dtype.itemsize):
            if row == 0 and count is None:
                _expect_raw(stream, data[:_LOOK_BYTES])
            _check_whole(stream.name, offset + row * dtype.itemsize + len(data), offset, dtype.itemsize)
            items = np.frombuffer(data, dtype=dtype)
            first, row = row, row + len(items)
            if end is not None and row > end:
                raise BadInput(f"{stream.name}: found more than {count} items, expected {count} by its header")
            rows = np.arange(first, row, dtype=np.uint64)
            records = Records(stream.name, "row", range(first, row), rows, items, None, row)
            of_ids = request.asked.of_ids
            yield piece_of_ids(records, request) if of_ids else piece_of_fingerprints(records, request, column)
    if end is not None and row < end:
        told = f"{end}" if count is None else f"{count} by its header"
        raise BadInput(f"{stream.name}: found {row} items, expected {told}")


def _most_rows(request: Request, row: int) -> int:
    """How many rows are read next."""
    return request.rows if request.only is None else min(request.rows, request.only[1] - row)


def _hex_block(stream: Stream, size: int, line_number: int) -> bytes:
    """The next lines, about size bytes of them, the last of the input as it is; empty at its end."""
    block = stream.reader.read(size)
    if block and not block.endswith(b"\n"):
        block += stream.line(line_number + block.count(b"\n"))
    if line_number == 1:
        block = block.removeprefix(codecs.BOM_UTF8)
    return block


def _uniform_lines(block: bytes, column: FingerprintColumn) -> npt.NDArray[np.uint64] | None:
    """The fingerprints of a block in which every line is written as the first: [0x], all digits, line end.

    None for any other block. This is the fast way; _HexLines reads every block.
    """
    first = block[: block.index(b"\n") + 1]
    start = 2 if first.startswith(b"0x") else 0
    end = start + column.width.digits
    if first[end:] not in (b"\n", b"\r\n") or len(block) % len(first):
        return None
    lines = np.frombuffer(block, dtype=np.uint8).reshape(-1, len(first))
    pattern = np.frombuffer(first, dtype=np.uint8)
    if (lines[:, :start] != pattern[:start]).any() or (lines[:, end:] != pattern[end:]).any():
        return None
    return column.parse_digits(lines[:, start:end].tobytes())
