"""Owns how the values of a JSON file are told apart, without reading the whole file into memory.

Strings and brackets alone say where an item of an array ends; whether it is JSON is for who reads it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from fpstore.inputs.compressed import MAX_LINE_BYTES, Stream
from fpstore.inputs.errors import BadInput

_STEP_BYTES = 1 << 16
_SPACE = re.compile(rb"[ \t\r\n]*")
# A whole string, the beginning of one, or a mark outside of strings.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)


def first_of(stream: Stream) -> tuple[bytes, int]:
    """The first byte of a stream that is no space (empty where there is none), and how many lines end before it.

    Both are passed, and a byte order mark.
    """
    line_ends = 0
    while (byte := stream.reader.read(1)) and byte in b" \t\r\n\xef":
        line_ends += byte == b"\n"
        if byte == codecs.BOM_UTF8[:1] and stream.reader.read(2) != codecs.BOM_UTF8[1:]:
            raise BadInput(f"{stream.name}: found bytes that are no UTF-8, expected JSON", "bad file")
    return byte, line_ends


def items_of(stream: Stream, first: bytes) -> Iterator[bytes]:
    """The items of the array of which the first byte was read. Raises BadInput for what is no whole array."""
    text = _Window(stream, first)
    text.take(1)
    if text.after_space() == b"]":
        text.take(1)
    else:
        mark = b","
        while mark == b",":
            yield text.take(text.item_bytes()).strip()
            mark = text.take(1)
        if mark != b"]":
            raise text.error(f"{mark!r} behind an item", "a comma or ]")
    if text.after_space():
        raise text.error("more behind the array", "the end of the file")


class _Window:
    """The part of a stream that is being looked at."""

    def __init__(self, stream: Stream, data: bytes) -> None:
        self._stream = stream
        self._data = bytearray(data)
        self._item = 0

    def error(self, found: str, expected: str) -> BadInput:
        """What is wrong behind the last item."""
        told = f"{self._stream.name}, item {self._item}: found {found}, expected {expected}"
        return BadInput(told, "bad file", line=self._item)

    def take(self, count: int) -> bytes:
        """The next bytes, which are passed."""
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    def after_space(self) -> bytes:
        """The next byte that is no space, spaces passed; empty at the end."""
        while True:
            self.take(_SPACE.match(self._data).end())  # type: ignore[union-attr]
            if self._data or not self._read():
                return bytes(self._data[:1])

    def item_bytes(self) -> int:
        """How many bytes there are up to the comma or bracket that ends the item."""
        self._item += 1
        depth = position = 0
        while True:
            for token in _TOKEN.finditer(self._data, position):
                mark = token[0]
                if mark == b'"':  # it is not closed in what was read so far
                    break
                position = token.end()
                if mark in (b"[", b"{"):
                    depth += 1
                elif mark in (b"]", b"}"):
                    depth -= 1
                if depth < 0 or (depth == 0 and mark == b","):
                    return token.start()
            if len(self._data) > MAX_LINE_BYTES:
                raise self.error(f"more than {MAX_LINE_BYTES} bytes", "the end of the item")
            if not self._read():
                raise self.error("the end of the file", "the end of the array")

    def _read(self) -> bool:
        """Look at more, at least as much again: what is looked at twice is no more than what there is."""
        more = self._stream.reader.read(max(_STEP_BYTES, len(self._data)))
        self._data += more
        return bool(more)
