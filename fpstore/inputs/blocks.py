"""Owns the fast way through JSON lines: blocks of many, of which C takes what documents have, packed.

What that says of a line is what `text` would say. A line that C does not read, as it is bad or out of the ordinary, is
read by `text`, and so is the rest of a file in which a line is too long to be one.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.inputs._lines import LineReader
from fpstore.inputs.compressed import MAX_LINE_BYTES, Stream, open_stream
from fpstore.inputs.errors import BLANK, WITH_TAGS, BadInput, Faults
from fpstore.inputs.fields import Names, named
from fpstore.inputs.held_file import HeldFile
from fpstore.inputs.layout import JSON_OBJECTS, Row
from fpstore.inputs.pages import begin_to_show, note_pages
from fpstore.inputs.records import GROUP_BYTES, Records, Request, Seen
from fpstore.inputs.remote import is_remote
from fpstore.inputs.sources import is_stream
from fpstore.inputs.text import DEFAULT_FIELD, read_rest, read_rows
from fpstore.text.cleaning import LOOKED_AT_CHARACTERS, has_tags
from fpstore.text.packed import Packed, Passed, Texts, heads
from fpstore.text.shared import NO_PAGE, Pages, Shown
from fpstore.threads import begun_ahead
from fpstore.types import Bytes

# With 2 MiB a job over documents of 600 words takes 1.1 times the processor's time, as what Python does for each is not
# in a cache then; with 4 MiB as long, and 10 MB more. From these on numpy also asks for large pages, which are cleared.
BLOCK_BYTES = 3 << 20
# The first of standard input, or of a file of so many bytes, has an eighth of that, and each twice as much as the one
# before it: so others soon have something to do. What is read of several files goes into one batch, which copies it.
FIRST_PART, LONG_BYTES = 8, 8 << 20
# Of pages, which are shared out, so that each of several workers has some of a block.
PAGES_BLOCK_BYTES = GROUP_BYTES
# Of lines that go to `text` together, about so many; more and more where fewer than FEW between two are read here.
# Alone, a line costs there what three to five do that are read one after the other.
TOGETHER_BYTES = 1 << 18
FEW = 4
# A field that is no path, and which JSON writes as it stands.
_PLAIN_FIELD = re.compile('[^".\\\\\\\\\\0-\\x1f\\ud800-\\udfff]+')

Offsets = npt.NDArray[np.int64]

# One document: its name, its text and all that its source has of it.
Document = tuple[str, str, Row]


class Lines(Packed[Row]):
    """The lines that documents were read from, packed.

    file: that has the bytes of data from begin on, and was read; None where nothing has them as they are.
    """

    __slots__ = ("begin", "file")

    def __init__(self, data: Bytes, offsets: Offsets, file: HeldFile | None = None, begin: int = 0) -> None:
        super().__init__(data, offsets)
        self.file, self.begin = file, begin

    def part(self, offsets: Offsets) -> Lines:
        """As of Packed."""
        return Lines(self.data, offsets, self.file, self.begin)

    def value_of(self, data: bytes) -> Row:
        """As the reader of single lines has it."""
        return Row(JSON_OBJECTS, data)


@dataclass(frozen=True, slots=True)
class Columns:
    """Documents that follow each other in lines of JSON: the name, the text and the line of each.

    numbers: of the lines, uint64[n], from 1 on; 0 of those that were read one by one.
    """

    names: Texts
    texts: Texts
    rows: Lines
    numbers: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indexes: npt.NDArray[np.int64]) -> Columns:
        """The documents with these indexes."""
        own = self.names.take(indexes), self.texts.take(indexes), self.rows.take(indexes)
        return Columns(*own, self.numbers[indexes])


def reads_blocks(format: str, request: Request) -> bool:
    """Whether this way leads through files of a format, for what was asked."""
    asked = request.asked
    fields = [field_of_texts(request)] + ([] if request.name_column is None else [request.name_column])
    return (
        format == "jsonl"
        and asked.ids is None
        and not asked.of_ids
        and not request.takes_fingerprints
        and all(isinstance(field, str) and _PLAIN_FIELD.fullmatch(field) for field in fields)
    )


def field_of_texts(request: Request) -> str | int:
    """The field that has the texts of objects of JSON."""
    return request.value_column or request.json_field or DEFAULT_FIELD


def read_blocks(path: str, request: Request, names: Names | None, base: int) -> Iterator[Columns | Document]:
    """The documents of a file of JSON lines, those that are out of the ordinary one by one; base: rows before it."""
    # Who writes to a stream may wait for an answer, and what is elsewhere is fetched by threads of its own.
    ahead = request.workers.are_several and not is_stream(path) and not is_remote(path)
    is_long = _is_long(path, request)  # asked first, as what is open may have lost its name
    with open_stream(path, request.on_bytes, is_text=True, within=request.within, reads_ahead=ahead) as stream:
        if stream.name.isprintable():
            # Of many short ones none is held open.
            file = HeldFile.of(stream.file) if is_long and stream.file is not None else None
            every = _Blocks(stream, request, names, base, file).read(FIRST_PART if is_long else 1)
            yield from _shown(every, stream.name, request) if request.html else every
        else:  # packed names begin with it, and it may be no UTF-8
            yield from named(read_rest(stream, 0, request, is_begun=False), request, names, base)


def _is_long(path: str, request: Request) -> bool:
    """Whether it takes long to read all that is asked for of an input."""
    return is_stream(path) or (request.within is None and not is_remote(path) and os.stat(path).st_size >= LONG_BYTES)


class LineTexts:
    """Reads the texts of documents again, of the lines that these were read from; for one thread.

    field: of the texts.
    """

    def __init__(self, request: Request) -> None:
        self.field = str(field_of_texts(request))
        self._request = replace(request, name_column=None, on_bytes=None)

    def of(self, data: Bytes, offsets: Offsets) -> Passed:
        """The text of each: line i is data[offsets[i] : offsets[i + 1]], none is blank. BadInput where one has none."""
        lines, held, at = LineReader(self.field.encode(), None, b""), memoryview(data.data), 0
        while lines.read(held, at, True):
            index = int(offsets.searchsorted(lines.at))
            line = bytes(held[lines.at : offsets[index + 1]])
            request = replace(self._request, faults=Faults(False), seen=Seen())
            for _, text, _ in named(read_rows([(index + 1, line)], "lines", request, "line"), request, None):
                lines.add(text.encode("utf-8", "surrogatepass"), b"", b"")
            lines.passed(1, len(line))
            at = lines.at
        if lines.count != len(offsets) - 1:
            raise BadInput(f"lines: found {lines.count} texts, expected those of {len(offsets) - 1}")
        return Passed(*lines.take()[0])


class _Blocks:
    """The way through one file."""

    def __init__(self, stream: Stream, request: Request, names: Names | None, base: int, file: HeldFile | None) -> None:
        """file: that has the bytes of the stream, for Lines."""
        name = None if request.name_column is None else str(request.name_column).encode()
        self._stream, self._request, self._names = stream, request, names
        self._file = file
        self._lines = LineReader(str(field_of_texts(request)).encode(), name, stream.name.encode())
        self._rows, self._blank = base, 0
        self._together_bytes = 0  # that went to `text` last

    def read(self, part: int) -> Iterator[Columns | Document]:
        """All of it. part: of a block, that the first has."""
        most = PAGES_BLOCK_BYTES if self._request.html else BLOCK_BYTES
        block = _Block(self._stream.reader, max(1, most // part), most)
        while block.fill():
            yield from self._read_block(block)
            block.leave(self._lines.at if self._lines.number else 0)  # a mark stays with the first line
            if block.is_full:
                rest: Any = io.BufferedReader(_Chained(block.data.tobytes(), self._stream.reader))
                stream, number = Stream(self._stream.name, rest, self._stream.plain_bytes), self._lines.number
                records = read_rest(stream, number, self._request, is_begun=self._lines.is_begun)
                yield from named(records, self._request, self._names, self._rows)
                return
        if block.failure is not None:
            raise block.failure

    def _read_block(self, block: _Block) -> Iterator[Columns | Document]:
        lines, at = self._lines, 0
        if lines.number == 0 and block.data[: len(codecs.BOM_UTF8)].tobytes() == codecs.BOM_UTF8:
            at = len(codecs.BOM_UTF8)
        of_pages = self._request.html
        while self._read_lines(block, at):
            if of_pages:  # they are shown in their order, and those that are read alone as they are read
                yield from self._take(block)
            held, self._together_bytes = block.lines(lines.at, self._together_bytes)
            numbered = enumerate(held, lines.number + 1)
            lines.passed(len(held), self._together_bytes)
            records = read_rows(numbered, self._stream.name, self._request, "line")
            try:
                for name, text, row in named(records, self._request, self._names, self._rows):
                    assert isinstance(row.data, bytes)
                    if of_pages:
                        yield name, text, row
                        continue
                    try:
                        lines.add(text.encode(), name.encode(), row.data)
                    except UnicodeEncodeError:  # half of a surrogate pair
                        if lines.count:
                            yield from self._take(block)
                        yield name, text, row
            except BadInput:
                yield from self._take(block)
                raise
            self._rows = self._request.seen.rows
            at = lines.at
        yield from self._take(block)

    def _read_lines(self, block: _Block, at: int) -> bool:
        """Whether it stopped at a line that is not read here."""
        lines = self._lines
        before = lines.count
        stopped = lines.read(block.data, at, block.is_last)
        self._rows += lines.count - before
        are_many = lines.count - before < FEW
        self._together_bytes = min(2 * self._together_bytes, TOGETHER_BYTES) if are_many else 0
        self._request.seen.rows = self._rows
        if lines.blank > self._blank:
            self._request.faults.counts[BLANK] += lines.blank - self._blank
            self._blank = lines.blank
        return stopped

    def _take(self, block: _Block) -> Iterator[Columns]:
        if not self._lines.count:
            return
        texts, names, lines, may_have_tags, numbers = self._lines.take()
        at = self._lines.taken_at
        rows = Lines(*lines) if at < 0 else Lines(*lines, self._file, block.begin + at)
        found = Columns(Texts(*names), Texts(*texts), rows, numbers)
        if self._request.html:
            yield found
            return
        beginnings = heads(found.texts, may_have_tags.nonzero()[0].tolist(), LOOKED_AT_CHARACTERS)
        with_tags = sum(map(has_tags, beginnings))
        if with_tags:
            self._request.faults.notes[WITH_TAGS] += with_tags
        yield found


def _shown(every: Iterator[Columns | Document], source: str, request: Request) -> Iterator[Columns | Document]:
    """Documents as they are shown, of which those in columns have pages for texts.

    The next are begun before what some show is asked for.
    """
    begun = ((one, _begin_to_show(one, request) if isinstance(one, Columns) else None) for one in every)
    for one, shown in begun_ahead(begun) if request.reads_ahead else begun:
        if shown is None or not isinstance(one, Columns):
            yield one
        else:
            yield from _with_texts(one, shown(), source, request)


def _begin_to_show(columns: Columns, request: Request) -> Callable[[], Shown]:
    pages = Pages(columns.texts.data, columns.texts.offsets)
    return begin_to_show(pages, request.recipe.html, request.show, request.workers)


def _with_texts(columns: Columns, shown: Shown, source: str, request: Request) -> Iterator[Columns | Document]:
    """Documents with what their pages show for texts; faults hear of those that are none."""
    note_pages(shown, request.faults.notes)
    texts, bad = shown.texts, shown.flags & NO_PAGE != 0
    if bad.any():
        records = Records(source, "line", columns.numbers.tolist(), columns.numbers, (), None, 0)
        for index in np.flatnonzero(bad).tolist():
            request.faults.meet(records.error(index, texts[index]))
        good = np.flatnonzero(~bad)
        columns, texts = columns.take(good), texts.take(good)
    if isinstance(texts, Passed) and texts.has_halves:
        yield from zip(columns.names, texts, columns.rows, strict=True)
    elif len(columns):
        yield replace(columns, texts=Texts(texts.data, texts.offsets))


class _Block:
    """Bytes of a stream: those that were left of the ones before, and the next, in memory of their own for each.

    is_last: nothing comes behind them. is_full: no line that may be read ends in them. failure: what the stream had
    instead of more. begin: how many bytes of the stream lie before them.
    """

    def __init__(self, reader: io.BufferedReader, size: int, most: int) -> None:
        """size: of the first; each is twice as large as the one before it, up to most, or where a line is longer."""
        self._reader = reader
        self._size, self._most = size, most
        self._bytes: Bytes = np.empty(0, dtype=np.uint8)
        self.is_last = False
        self.begin = 0
        self.failure: Exception | None = None

    @property
    def data(self) -> Bytes:
        """They stay as they are: lines may be a part of them."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        """Whether there are as many as a line may have at most; what was read is to be left first."""
        return len(self._bytes) == MAX_LINE_BYTES

    def fill(self) -> bool:
        """Read more; False where there is none. Whatever the stream raises is kept for when all before it was read."""
        if self.is_last or self.failure is not None:
            return False
        end = len(self._bytes)
        if 2 * end > self._size:
            self._size = min(2 * self._size, MAX_LINE_BYTES)
        held = np.empty(self._size, dtype=np.uint8)
        held[:end] = self._bytes
        room = memoryview(held.data)
        try:
            while end < len(room) and not self.is_last:
                count = self._reader.readinto1(room[end:])
                end += count
                self.is_last = not count
        except Exception as error:
            self.failure = error
        self._bytes = held[:end]
        self._size = min(2 * self._size, max(self._size, self._most))
        return True

    def leave(self, at: int) -> None:
        """The bytes before at were read."""
        self._bytes = self._bytes[at:]
        self.begin += at

    def lines(self, at: int, size: int) -> tuple[list[bytes], int]:
        """The lines from at on that begin within size bytes, the first at least, and how many bytes they have.

        The end of the first is here, or is that of the stream.
        """
        end = self._end_of_line(min(at + size, len(self._bytes)))
        if end is None and not self.is_last:
            end = at + self._bytes[at:].tobytes().rfind(b"\n") + 1
        data = self._bytes[at:end].tobytes()
        return io.BytesIO(data).readlines(), len(data)

    def _end_of_line(self, at: int) -> int | None:
        """Where the line ends that a place is in, None where that is not here."""
        count = 1 << 12
        while at < len(self._bytes):
            found = self._bytes[at : at + count].tobytes().find(b"\n")
            if found >= 0:
                return at + found + 1
            at, count = at + count, 2 * count
        return None


class _Chained(io.RawIOBase):
    """Bytes that were read, and then those of a stream."""

    def __init__(self, first: bytes, rest: io.BufferedReader) -> None:
        self._first, self._rest = memoryview(first), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._first:
            return self._rest.readinto1(buffer)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._first))
        view[:count] = self._first[:count]
        self._first = self._first[count:]
        return count
