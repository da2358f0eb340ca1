"""Writes a file of sketches: sketches with their handles, in order, in pieces of any size."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from fpstore.disk import Place, naming, unnamed
from fpstore.errors import Wrong
from fpstore.format import HEADER_BYTES, Header
from fpstore.merging import begins
from fpstore.segment.files import FileWriter
from fpstore.segment.listing import width_for
from fpstore.segment.reader import Segment
from fpstore.sketches.kept import Kept
from fpstore.sketches.layout import KIND_SKETCHES, SketchesRecord, behind_width
from fpstore.types import Array, Ids, Keys

# Handles are kept in memory up to so many; those beyond wait in a file without a name.
HELD_HANDLES = 1 << 20


class SketchesFile(NamedTuple):
    """What the catalog is to say of a file of sketches."""

    file_bytes: int
    crc: int


class SketchesWriter(FileWriter):
    """Writes a file of sketches. Use as a context: leaving it before finish() removes the file."""

    def __init__(self, at: Path | Place, scratch: Path, kept: Kept) -> None:
        """Create the file; FileExistsError if it is there. scratch: a folder for a file without a name."""
        super().__init__(at)
        self._kept, self._scratch = kept, scratch
        self._count = 0
        self._base = self._last = 0
        self._in_turn = True
        self._waiting: list[Ids] = []
        self._spilled: IO[bytes] | None = None
        self._file.write(Header(KIND_SKETCHES).pack())
        assert self._file.offset == HEADER_BYTES

    def add(self, handles: Ids, sketches: Keys) -> None:
        """Append sketches, uint64[n, words], by handle, then by sketch, also across calls; each once."""
        if not len(handles):
            return
        first, last = int(handles[0]), int(handles[-1])
        if (handles[1:] < handles[:-1]).any() or (self._count and first < self._last):
            raise Wrong("handles of sketches", "some out of order", "them sorted")
        if not self._count:
            self._base = first
        expected = np.arange(len(handles), dtype=np.uint64) + np.uint64((self._base + self._count) % (1 << 64))
        self._in_turn = self._in_turn and np.array_equal(handles, expected)
        self._count, self._last = self._count + len(handles), last
        self._file.write(np.ascontiguousarray(sketches, dtype="<u8").view(np.uint8).ravel())
        self._waiting.append(handles.copy())
        if sum(map(len, self._waiting)) >= HELD_HANDLES:
            self._spill()

    def finish(self, segment: Segment | None = None) -> SketchesFile:
        """Write the handles, make the file durable, read it back and check it. What the catalog is to say of it.

        segment: the one that it lies beside; where that lists the ids of the sketches, the file has their places.
        ValueError where there is no sketch; CorruptStore where the file does not read back as it was written.
        """
        if not self._count:
            raise Wrong("a file of sketches", "none", "one sketch or more")
        listed = 0 if segment is None or not self._are_listed(segment) else segment.record.list_count
        base, last = (0, listed - 1) if listed else (self._base, self._last)
        width = behind_width(self._count - listed) if listed else 0 if self._in_turn else width_for(last - base)
        record = SketchesRecord(
            count=self._count,
            handle_base=base,
            handle_last=last,
            handle_bytes=width,
            words=self._kept.words,
            values=self._kept.values,
            bits=self._kept.bits,
            listed=int(listed > 0),
        )
        self._file.align()
        written = 0
        for handles in () if not width else self._places() if listed else self._handles():
            self._file.write(record.packed_handles(handles, written))
            written += len(handles)
        crc = self._seal(record.pack(), 1)
        return SketchesFile(self._file.offset, crc)

    def _spill(self) -> None:
        with naming(self._scratch):
            if self._spilled is None:
                self._spilled = self._held.enter_context(unnamed(self._scratch))
            self._spilled.write(np.concatenate(self._waiting).tobytes())
        self._waiting = []

    def _are_listed(self, segment: Segment) -> bool:
        """Whether the segment lists the ids of the sketches, and no others."""
        done = 0
        for handles, fresh in self._with_fresh():
            own = handles[fresh]
            left = np.arange(done, min(done + len(own), segment.record.list_count))
            if not np.array_equal(segment.listed(left), own):
                return False
            done += len(own)
        return done == segment.record.list_count

    def _places(self) -> Iterator[Ids]:
        """The place of each handle among the distinct ones."""
        done = 0
        for _, fresh in self._with_fresh():
            places = done + np.cumsum(fresh)
            done = int(places[-1])
            yield (places - 1).astype(np.uint64)

    def _with_fresh(self) -> Iterator[tuple[Ids, Array]]:
        """The handles, and which of them are not the one before again: bool[n]."""
        last: int | None = None
        for handles in self._handles():
            fresh = begins(handles)
            fresh[0] = last is None or int(handles[0]) != last
            last = int(handles[-1])
            yield handles, fresh

    def _handles(self) -> Iterator[Ids]:
        if self._spilled is not None:
            with naming(self._scratch):
                self._spilled.seek(0)
                while data := self._spilled.read(8 * HELD_HANDLES):
                    yield np.frombuffer(data, dtype=np.uint64)
        yield from self._waiting
