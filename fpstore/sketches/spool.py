"""Documents of a build on their way to the disk: as they come, in a file without a name, and from there by handle."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.building.spill import PairSorter
from fpstore.disk import naming, unnamed
from fpstore.sketches.pending import in_order
from fpstore.types import Counts, Ids, Keys

DOCUMENTS_AT_ONCE = 1 << 13


class Piece(NamedTuple):
    """Documents in the order of their handles: uint64[n] or None, uint64[n, bands], uint64[n, words]."""

    handles: Ids | None
    hashes: Keys
    sketches: Keys


class Spool:
    """Documents as they come. Use as a context, at the end of which they are gone."""

    def __init__(self, scratch: Path, bands: int, words: int, memory_bytes: int) -> None:
        """Takes hashes of bands and words of sketches; scratch: a folder for files without a name."""
        self._scratch, self._bands, self._width = scratch, bands, bands + words
        self._file = unnamed(scratch)
        self.count = 0
        self._handles = PairSorter(scratch, memory_bytes)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, hashes: Keys, sketches: Keys | None) -> range:
        """Append documents; their numbers."""
        rows = np.empty((len(hashes), self._width), dtype=np.uint64)
        rows[:, : self._bands] = hashes
        if sketches is not None:
            rows[:, self._bands :] = sketches
        with naming(self._scratch):
            self._file.write(rows.data)
        first, self.count = self.count, self.count + len(hashes)
        return range(first, self.count)

    def add_handles(self, handles: Ids) -> None:
        """The handle of each document that came since, in their order."""
        first = self.count - len(handles)
        self._handles.add(handles, np.arange(first, self.count, dtype=np.uint64))

    def by_handle(self) -> Iterator[Piece]:
        """All of them, by handle."""
        pairs = self._handles.finish()
        try:
            for handles, numbers in pairs.chunks():
                for start in range(0, len(handles), DOCUMENTS_AT_ONCE):
                    own = slice(start, start + DOCUMENTS_AT_ONCE)
                    yield self._piece(handles[own], numbers[own].astype(np.int64))
        finally:
            pairs.close()

    def whole_handles(self) -> Iterator[tuple[Ids, Keys]]:
        """The sketches of all of them, by handle, then sketch, each once."""
        held: tuple[Ids, Keys] = (np.empty(0, np.uint64), np.empty((0, self._width - self._bands), np.uint64))
        for piece in self.by_handle():
            assert piece.handles is not None
            held = np.concatenate([held[0], piece.handles]), np.concatenate([held[1], piece.sketches])
            end = int(held[0].searchsorted(held[0][-1]))  # more of the last handle may come
            yield in_order(held[0][:end], held[1][:end])
            held = held[0][end:], held[1][end:]
        yield in_order(*held)

    def by_number(self, numbered: Iterator[tuple[Ids, Ids]]) -> Iterator[Piece]:
        """Those of numbers, with their handles, which come in order."""
        for numbers, handles in numbered:
            for start in range(0, len(handles), DOCUMENTS_AT_ONCE):
                own = slice(start, start + DOCUMENTS_AT_ONCE)
                yield self._piece(handles[own], numbers[own].astype(np.int64))

    def in_turn(self) -> Iterator[Piece]:
        """All of them, as they came, without handles."""
        for first in range(0, self.count, DOCUMENTS_AT_ONCE):
            yield self._piece(None, np.arange(first, min(first + DOCUMENTS_AT_ONCE, self.count)))

    def _piece(self, handles: Ids | None, numbers: Counts) -> Piece:
        with naming(self._scratch):
            self._file.flush()
        rows = np.memmap(self._file, dtype=np.uint64, mode="r", shape=(self.count, self._width))[numbers]
        hashes, sketches = (np.ascontiguousarray(part) for part in np.split(rows, [self._bands], axis=1))
        return Piece(handles, hashes, sketches)
