"""Owns how the lines of CSV and TSV become records, also where a quotation mark is missing.

A record ends with its line, or where the quotation marks of its fields are closed. One that never ends, within
MAX_RECORD_BYTES, or is broken in another way, is bad by its first line only: reading goes on at the line after that.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import Any

from fpstore.inputs.compressed import MAX_LINE_BYTES, Lines, LongLine

MAX_RECORD_BYTES = MAX_LINE_BYTES

# What separates the cells of a format, and whether quotation marks stand around some. By the standard of TSV
# (text/tab-separated-values of IANA) there are none; pandas and Excel write them, so `tsv` takes no cell that begins
# with one.
DIALECTS: dict[str, tuple[str, Any]] = {
    "csv": (",", csv.QUOTE_MINIMAL),
    "tsv": ("\t", csv.QUOTE_NONE),
    "tsv-plain": ("\t", csv.QUOTE_NONE),
    "tsv-quoted": ("\t", csv.QUOTE_MINIMAL),
    "tsv-escaped": ("\t", csv.QUOTE_NONE),
}
# That of lines which fpstore prints: its cells are as inputs.escapes has names.
ESCAPED = "tsv-escaped"
MARK = '"'

# The number of the first line of a record, its cells, the lines themselves, and how many bytes of input they took: a
# plain tuple, as there is one for each line. Bytes that are no UTF-8 are halves of surrogate pairs, U+DC80 to U+DCFF.
# In place of the cells stands what is wrong with a line that is none: what was found, or that it is too long. Its text
# is empty where nothing behind it would mend that.
Row = tuple[int, list[str] | str | LongLine, str, int]

# The number of a line, its characters, its size in bytes.
_Line = tuple[int, str, int]


class _EndlessError(Exception):
    """A record does not end where it must; becomes a bad row."""


class _NarrowError(_EndlessError):
    """One that lacks cells, which could stand behind it."""


# What csv says where the input ends between quotation marks.
_UNFINISHED = "unexpected end of data"


def rows_of(lines: Lines, delimiter: str, quoting: Any) -> Iterator[Row]:
    """The records of lines, and what is none, which has its line where that ends too soon.

    Where the records have one cell, a blank line between two is how pyarrow, polars and DuckDB write one without a
    value. All other blank lines behind the first record come without cells; those before it are left out.
    """
    # The limit is the whole process's, and is raised here but never lowered; the default is 128 KiB, less than many
    # texts.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    feed = _Feed(lines)
    held = feed.held
    width = 0
    blank = _Blank()
    while True:
        table = csv.reader(feed.texts(), delimiter=delimiter, quoting=quoting, strict=True)
        try:
            for cells in table:
                place, text, size = held[0]
                if len(held) > 1:
                    # A quotation mark that is missing can pair with one of a later record.
                    if width and len(cells) != width:
                        kind = _NarrowError if len(cells) < width else _EndlessError
                        raise kind(f"{len(cells)} fields over {len(held)} lines, {width} in the first record")
                    size = sum(size for _, _, size in held)
                    text = "".join(text for _, text, _ in held)
                held.clear()
                if cells:
                    if blank.count:
                        yield from blank.taken([""] if width == 1 else [])
                    width = width or len(cells)
                    yield place, cells, text, size
                elif width:
                    blank.see(place, text, size)
            yield from blank.taken([])
            return
        except LongLine as error:
            yield from blank.taken([""] if width == 1 else [])
            yield 0, error, "", 0
        except (csv.Error, _EndlessError) as error:
            place, text, _ = held[0]
            is_begun = str(error) == _UNFINISHED or isinstance(error, _NarrowError)
            text = "".join(text for _, text, _ in held[:1] + held[1:][-1:]) if is_begun else ""
            feed.go_back()
            yield from blank.taken([""] if width == 1 else [])
            yield place, f"a broken record ({error})", text, 0


class _Blank:
    """Blank lines, one behind the other: the number of the last, and how it is written, stand for all."""

    def __init__(self) -> None:
        self.count = 0
        self._last: _Line = (0, "", 0)

    def see(self, place: int, text: str, size: int) -> None:
        self.count += 1
        self._last = place, text, size

    def taken(self, cells: list[str]) -> Iterator[Row]:
        """Each of them as a record of these cells; then there are none."""
        place, text, size = self._last
        first, self.count = place - self.count + 1, 0
        for each in range(first, place + 1):
            yield each, cells, text, size


class _Feed:
    """Lines for a csv.reader, which can be taken back. held: those of the record under way."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._again: deque[_Line | LongLine] = deque()
        self.held: list[_Line] = []

    def go_back(self) -> None:
        """Give all lines of the record under way but its first again."""
        self._again.extendleft(reversed(self.held[1:]))
        self.held.clear()

    def texts(self) -> Iterator[str]:
        """What is left; raises LongLine where no record is under way, _EndlessError where one must have ended."""
        held, again, lines = self.held, self._again, self._lines
        line: _Line | LongLine
        record_bytes = 0
        while True:
            if again:
                line = again.popleft()
            else:
                try:
                    data = next(lines)
                except StopIteration:
                    return
                except LongLine as error:
                    line = error
                else:
                    line = lines.number, data.decode("utf-8", "surrogateescape"), len(data)
            if isinstance(line, LongLine):
                if not held:
                    raise line
                again.appendleft(line)
                raise _EndlessError("a line in it that is over the limit")
            if not held:
                record_bytes = 0
            held.append(line)
            record_bytes += line[2]
            if record_bytes > MAX_RECORD_BYTES and len(held) > 1:
                raise _EndlessError(f"no end within {MAX_RECORD_BYTES} bytes")
            yield line[1]
