"""Owns what inputs of documents are cut into for others to read: files, some together, and stretches of JSON lines.

Who reads the portions one after the other meets the documents that who reads the inputs does, in their order. What they
are called follows from where they are in all of a file, so only the latter knows it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from fpstore.inputs import remote
from fpstore.inputs.columns import Asked
from fpstore.inputs.compressed import packing_of
from fpstore.inputs.decoding import marked
from fpstore.inputs.errors import Faults
from fpstore.inputs.reader import DEFAULT_BATCH, Documents
from fpstore.inputs.records import Request
from fpstore.inputs.sources import Input, Source, is_stream
from fpstore.text import Recipe
from fpstore.text.shared import Show

# What a line begins with at which a file may be cut: no mark of another encoding, and not that of compressed data.
_BEGINNING = b"\n{"
_HEAD_BYTES = 16
_LOOKED_AT_BYTES = 1 << 16  # of a file, together, for such a line
# Bytes that are read and measured in a second: of plain text (150 to 190 MB), of what packages read or cut (11 to 17).
PLAIN_RATE, PREPARED_RATE = 100e6, 10e6


@dataclass(frozen=True)
class Portion:
    """Files that follow one another, or one, of which only the bytes `within` are meant; it can be pickled.

    asked, html, name_column: as of records.Request. rate: how many bytes are read and measured in a second, about.
    """

    files: tuple[Source, ...]
    within: tuple[int, int] | None
    asked: Asked
    html: bool
    name_column: str | int | None
    rate: float

    @property
    def seconds(self) -> float:
        """How long it takes on one processor, about."""
        return self.size / self.rate

    @property
    def is_for_threads(self) -> bool:
        """Whether threads of one process read and measure it as fast as processes: by the compiled core, from here."""
        return self.rate == PLAIN_RATE and not any(remote.is_remote(source.path) for source in self.files)

    @property
    def size(self) -> int:
        """How many bytes there are, as they are stored, as far as that is known."""
        if self.within is not None:
            return self.within[1] - self.within[0]
        return sum(size_of(source.path) for source in self.files)

    def stamp(self) -> list[object]:
        """What it is and what its files look like from outside; for json. It changes with what they hold."""
        looks = [[source.path, source.format, *remote.stamp_of(source.path)] for source in self.files]
        asked = [self.asked.text, self.asked.header, self.html, self.name_column]
        return [looks, self.within, asked]


def portions_of(every: Documents, seconds: float, least_bytes: int) -> Iterator[Portion]:
    """All files of some documents, in their order, cut where that is possible, so that each takes so many seconds.

    least_bytes: that each is to have in any case.

    ValueError for a stream, which nobody else can read.
    """
    rate = PREPARED_RATE if every.request.reads_ahead else PLAIN_RATE
    most_bytes = max(int(rate * seconds), least_bytes, 1)
    about = every.request.asked, every.request.html, every.request.name_column, rate
    held: list[Source] = []
    held_bytes = 0
    for source in every.files():
        if is_stream(source.path):
            raise ValueError(f"{source.path}: found a stream, expected a file, which others can read")
        path = source.path if remote.is_remote(source.path) else os.path.abspath(source.path)
        source, size = Source(path, source.format), size_of(path)
        if held and held_bytes + size > most_bytes:
            yield Portion(tuple(held), None, *about)
            held, held_bytes = [], 0
        stretches = _stretches(source, size, most_bytes) if size > most_bytes else []
        if len(stretches) > 1:
            yield from (Portion((source,), within, *about) for within in stretches)
            continue
        held.append(source)
        held_bytes += size
    if held:
        yield Portion(tuple(held), None, *about)


def read_portion(portion: Portion, recipe: Recipe, show: Show) -> Documents:
    """The documents of a portion, all but those that are bad. None has the name that it has among all.

    show: what reads pages.
    """
    request = Request(
        asked=portion.asked,
        recipe=recipe,
        rows=DEFAULT_BATCH,
        faults=Faults(True),
        on_bytes=None,
        html=portion.html,
        all_columns=portion.name_column is not None,
        is_part=True,
        name_column=portion.name_column,
        within=portion.within,
        show=show,
    )
    files = [Input(each.path, each.format, {each.format: each.path}, None, is_folder=False) for each in portion.files]
    return Documents(files, request)


def _stretches(source: Source, size: int, most_bytes: int) -> list[tuple[int, int]]:
    """Where a file is cut, between two lines of JSON; one stretch, or none, where it cannot be."""
    if source.format != "jsonl" or remote.is_remote(source.path):
        return []
    with open(source.path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        if packing_of(head) is not None or marked(head) not in (None, "utf-8-sig"):
            return []
        count, cuts = -(-size // most_bytes), [0]
        for number in range(1, count):
            at = _beginning_in(file, size * number // count - 1, size * (number + 1) // count)
            if at is not None:
                cuts.append(at)
        return list(zip(cuts, [*cuts[1:], os.fstat(file.fileno()).st_size], strict=True))


def _beginning_in(file: BinaryIO, start: int, end: int) -> int | None:
    """Where the first line begins that may be cut at, its _BEGINNING among the bytes from start to end.

    They are read, not mapped: who cuts the file meanwhile would end the process.
    """
    held = b""
    file.seek(start)
    while start < end and (some := file.read(min(_LOOKED_AT_BYTES, end - start))):
        held = held[-1:] + some
        start += len(some)
        at = held.find(_BEGINNING)
        if at >= 0:
            return start - len(held) + at + 1
    return None


def size_of(path: str) -> int:
    """Of a file, here or elsewhere, 0 where only reading tells."""
    return (remote.size(path) or 0) if remote.is_remote(path) else os.path.getsize(path)
