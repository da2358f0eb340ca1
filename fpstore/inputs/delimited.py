"""Owns how the lines of CSV and TSV become records, also where a quotation mark is missing.

A record ends with its line, or where the quotation marks of its fields are closed. One that never ends, within
MAX_RECORD_BYTES, or is broken in another way, is bad by its first line only: reading goes on at the line after that.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fpstore.inputs.compressed import MAX_LINE_BYTES, Lines, LongLine

MAX_RECORD_BYTES = MAX_LINE_BYTES


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a record, of which the first line has number place, and which took so many bytes of input.

    Bytes that are no UTF-8 are halves of surrogate pairs, U+DC80 to U+DCFF.
    """

    place: int
    cells: list[str]
    size: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line with which no record begins that ends, and what was found there."""

    place: int
    found: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    size: int


class _EndlessError(Exception):
    """A record does not end where it must; becomes a BadRow."""


def rows_of(lines: Lines, delimiter: str, quoting: Any) -> Iterator[Row | BadRow | LongLine]:
    """The records of lines, blank ones left out, and what is none."""
    # The limit is the whole process's, and is raised here but never lowered; the default is 128 KiB, less than many
    # texts.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    feed = _Feed(lines)
    width = 0
    while True:
        table = csv.reader(feed, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            for cells in table:
                place, size = feed.held[0].number, feed.size
                # A quotation mark that is missing can pair with one of a later record.
                if len(feed.held) > 1 and width and len(cells) != width:
                    raise _EndlessError(f"{len(cells)} fields over {len(feed.held)} lines, {width} in the first record")
                feed.forget()
                if cells:
                    width = width or len(cells)
                    yield Row(place, cells, size)
            return
        except LongLine as error:
            feed.forget()
            yield error
        except (csv.Error, _EndlessError) as error:
            place = feed.held[0].number
            feed.go_back()
            yield BadRow(place, f"a broken record ({error})")


class _Feed:
    """Lines for a csv.reader, which can be taken back. held: those of the record under way, of size bytes in all."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._again: deque[_Line | LongLine] = deque()
        self.forget()

    def forget(self) -> None:
        """The record under way has ended."""
        self.held: list[_Line] = []
        self.size = 0

    def go_back(self) -> None:
        """Give all lines of the record under way but its first again."""
        self._again.extendleft(reversed(self.held[1:]))
        self.forget()

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._fetch()
        if isinstance(line, LongLine):
            if not self.held:
                raise line
            self._again.appendleft(line)
            raise _EndlessError("a line in it that is over the limit")
        self.held.append(line)
        self.size += line.size
        if self.size > MAX_RECORD_BYTES and len(self.held) > 1:
            raise _EndlessError(f"no end within {MAX_RECORD_BYTES} bytes")
        return line.text

    def _fetch(self) -> _Line | LongLine:
        try:
            line = next(self._lines)
        except LongLine as error:
            return error
        return _Line(self._lines.number, line.decode("utf-8", "surrogateescape"), len(line))
