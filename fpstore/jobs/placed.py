"""Owns where the inputs have the lines of kept documents: there they are read again in place of the result.

So a result that nobody reads goes past the system's cache, where the inputs mostly are still in it. It is a help that
nobody misses: of the last documents alone, of files that were read as they are, and what a checksum does not bear out
is read of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fpstore.inputs.blocks import Lines
from fpstore.inputs.held_file import HeldFile
from fpstore.text.packed import Packed
from fpstore.types import Counts

# Of so many documents at most, 8 bytes each, and of so many stretches of files, which a copied block ends.
_MOST, _MOST_FILES = 1 << 20, 16
_FIRST_ROOM = 1 << 12


class Placed:
    """Where the lines of documents are, by their rows in a record, which follow one another."""

    def __init__(self) -> None:
        self._first = self._count = 0
        self._begins: Counts = np.empty(_FIRST_ROOM, dtype=np.int64)  # -1 of one that is nowhere as it is
        # Each file, and from which row on it has the documents; None where no file has them.
        self._files: list[tuple[int, HeldFile | None]] = []

    def add(self, row: int, lines: Packed[Any], indexes: Counts) -> None:
        """The lines with these indexes, at least one, are those of the documents in rows from this one on."""
        if row != self._first + self._count:
            self.forget()
            self._first = row
        file = lines.file if isinstance(lines, Lines) else None
        if not self._files or file is not self._files[-1][1]:
            self._files.append((row, file))
        end = self._count + len(indexes)
        if end > len(self._begins):
            room: Counts = np.empty(2 * end, dtype=np.int64)
            room[: self._count] = self._begins[: self._count]
            self._begins = room
        begins = self._begins[self._count : end]
        begins[:] = lines.offsets[indexes]
        if isinstance(lines, Lines):
            begins += lines.begin
        if lines.data[lines.offsets[indexes[-1] + 1] - 1] != ord("\n"):  # as only the last of a file can be
            begins[-1] = -1
        self._count = end
        if self._count > _MOST:
            self._drop(self._count - _MOST // 2)
        if len(self._files) > _MOST_FILES:
            self._drop(self._files[1][0] - self._first)

    def _drop(self, count: int) -> None:
        """Forget the first so many, but for one at least."""
        self._begins = self._begins[count:].copy()
        self._first, self._count = self._first + count, self._count - count
        while len(self._files) > 1 and self._files[1][0] <= self._first:
            del self._files[0]

    def forget(self) -> None:
        """A file is not what it was; nothing is known any more."""
        self._first, self._count = self._first + self._count, 0
        self._files.clear()

    def parts(self, rows: Counts) -> list[tuple[Counts, HeldFile | None, Counts]]:
        """Of documents in rows, at least one, those that lie in one file: which, the file, and where each begins in it.

        The file is None of those that lie in none, or of which that is not known.
        """
        places = rows - self._first
        if len(self._files) == 1 and places.min() >= 0 and places.max() < self._count:  # as a rule, and all are there
            begins = self._begins[places]
            if begins.min() >= 0:
                return [(np.arange(len(rows)), self._files[0][1], begins)]
        is_known = (places >= 0) & (places < self._count)
        begins = np.where(is_known, self._begins[np.where(is_known, places, 0)], -1)
        starts = np.array([start for start, _ in self._files], dtype=np.int64)
        files = np.where(begins >= 0, starts.searchsorted(rows, side="right") - 1, -1)
        found: list[tuple[Counts, HeldFile | None, Counts]] = []
        for number in np.unique(files).tolist():
            which = np.flatnonzero(files == number)
            found.append((which, None if number < 0 else self._files[number][1], begins[which]))
        return found
