"""Writes a file of sketches: sketches with their handles, in order, in pieces of any size."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from fpstore.disk import Place, naming, unnamed
from fpstore.errors import Wrong
from fpstore.format import HEADER_BYTES, Header
from fpstore.segment.files import FileWriter
from fpstore.sketches.kept import Kept
from fpstore.sketches.layout import KIND_SKETCHES, SketchesRecord, width_for
from fpstore.types import Ids, Keys

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

    def finish(self) -> SketchesFile:
        """Write the handles, make the file durable, read it back and check it. What the catalog is to say of it.

        ValueError where there is no sketch; CorruptStore where the file does not read back as it was written.
        """
        if not self._count:
            raise Wrong("a file of sketches", "none", "one sketch or more")
        width = 0 if self._in_turn else width_for(self._last - self._base)
        self._file.align()
        for handles in self._handles() if width else ():
            self._file.write((handles - np.uint64(self._base)).astype(f"<u{width}").view(np.uint8))
        record = SketchesRecord(
            count=self._count,
            handle_base=self._base,
            handle_last=self._last,
            handle_bytes=width,
            words=self._kept.words,
            values=self._kept.values,
            bits=self._kept.bits,
        )
        crc = self._seal(record.pack(), 1)
        return SketchesFile(self._file.offset, crc)

    def _spill(self) -> None:
        with naming(self._scratch):
            if self._spilled is None:
                self._spilled = self._held.enter_context(unnamed(self._scratch))
            self._spilled.write(np.concatenate(self._waiting).tobytes())
        self._waiting = []

    def _handles(self) -> Iterator[Ids]:
        if self._spilled is not None:
            with naming(self._scratch):
                self._spilled.seek(0)
                while data := self._spilled.read(8 * HELD_HANDLES):
                    yield np.frombuffer(data, dtype=np.uint64)
        yield from self._waiting
