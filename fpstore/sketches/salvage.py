"""What is sound of a file of sketches that is damaged.

Ids whose own bytes are damaged follow from the rows of the segment, which are of the same ids. Each of these has a
sketch: so where as many of them lie between two that are known as there are places, each has one of these. Where the
segment lists ids, handles are places in the list; of those in its damaged pages there are no rows either.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.segment.listing import width_for
from fpstore.segment.remnant import Remnant
from fpstore.sketches.kept import Kept
from fpstore.sketches.layout import KIND_SKETCHES, SketchesRecord
from fpstore.sketches.reader import ROWS_AT_ONCE
from fpstore.types import Array, Ids, Keys

NO_IDS: Ids = np.empty(0, dtype=np.uint64)


class Listed(NamedTuple):
    """The ids that a segment lists, uint64[n], and which of them lie in sound pages, bool[n]."""

    ids: Ids
    sound: Array


NONE_LISTED = Listed(NO_IDS, np.empty(0, dtype=bool))


class SketchesRemnant(Remnant):
    """A file of sketches as it can be read."""

    HOLDS, KIND, TABLES = "sketches", KIND_SKETCHES, range(1, 2)


def salvaged_sketches(
    at: Place,
    kept: Kept,
    damage: list[Damage],
    expected: tuple[int, int] | None = None,
    scratch: Path | None = None,
    rows: Callable[[], Ids] | None = None,
    listed: Callable[[], Listed] | None = None,
) -> Iterator[tuple[Ids, Keys]]:
    """The sketches that can be read of a file of these, with their ids; what is wrong with it is added to damage.

    expected, scratch: as of Remnant. rows: tells the ids of the segment's rows, where those beside the sketches are
    damaged, uint64[n], increasing; listed: those that it lists. Either takes some bytes of memory for each.
    """
    try:
        with contextlib.closing(SketchesRemnant(at, expected, scratch)) as remnant:
            damage += remnant.damage(str(at.path))
            held = _Held(remnant, kept, rows or (lambda: NO_IDS), listed or (lambda: NONE_LISTED))
            for start in range(0, held.record.count, ROWS_AT_ONCE):
                yield held.part(start, min(ROWS_AT_ONCE, held.record.count - start))
    except FileNotFoundError:
        damage.append(Damage(str(at.path), "sketches", "none", "the file that the catalog names"))
    except CorruptStore as error:
        damage.append(error.in_file(at.path))


class _Held:
    """The sketches of a remnant. record: what its record says, or must have said. CorruptStore where nothing tells."""

    def __init__(
        self, remnant: SketchesRemnant, kept: Kept, rows: Callable[[], Ids], listed: Callable[[], Listed]
    ) -> None:
        self._remnant = remnant
        self._rows, self._listed = functools.cache(rows), functools.cache(listed)
        self._filled: list[tuple[int, Ids]] = []
        footer = remnant.footer
        if remnant.is_sound(footer.summary_offset, footer.checksums_offset):
            self.record = SketchesRecord.unpack(remnant.read(footer.summary_offset, footer.summary_bytes), footer)
            found = (self.record.values, self.record.bits, self.record.words)
            if found != (kept.values, kept.bits, kept.words):
                told = f"{kept.bits} of {kept.values}"
                raise CorruptStore("sketches", f"{self.record.bits} bits of {self.record.values} values", told)
        else:
            self.record = self._made_record(kept)
        self._known = self._known_handles()
        if not self._known.all():
            self._fill()

    def part(self, start: int, count: int) -> tuple[Ids, Keys]:
        """Those of so many from this one on whose bytes, and whose ids, are known."""
        record, remnant = self.record, self._remnant
        starts = record.sketches_offset + np.arange(start, start + count) * record.row_bytes
        sound = remnant.are_sound(starts, starts + record.row_bytes) & self._known[start : start + count]
        data = remnant.read(int(starts[0]), count * record.row_bytes)
        sketches = np.frombuffer(data, dtype="<u8").reshape(count, record.words)
        handles, own = self._handles(start, count)[sound], sketches[sound].astype(np.uint64)
        if not record.listed:
            return handles, own
        known = handles <= np.uint64(record.handle_last)
        known[known] = self._listed().sound[handles[known]]
        return self._listed().ids[handles[known]], own[known]

    # --- Ids ---

    def _known_handles(self) -> Array:
        """Which handles lie in sound pages: bool[count]; each if they follow from the record."""
        record = self.record
        if record.listed and record.handle_last != len(self._listed().ids) - 1:
            return np.zeros(record.count, dtype=bool)
        if not record.handle_bytes:
            return np.ones(record.count, dtype=bool)
        starts = record.handles_offset + np.arange(record.count) * record.handle_bytes
        return self._remnant.are_sound(starts, starts + record.handle_bytes)

    def _handles(self, start: int, count: int) -> Ids:
        record = self.record
        if not record.handle_bytes:
            return np.arange(start, start + count, dtype=np.uint64) + np.uint64(record.handle_base)
        data = self._remnant.read(record.handles_offset + start * record.handle_bytes, count * record.handle_bytes)
        handles = record.unpacked_handles(data, start)
        for first, ids in self._filled:
            inside = slice(max(first, start), min(first + len(ids), start + count))
            if inside.start < inside.stop:
                handles[inside.start - start : inside.stop - start] = ids[inside.start - first : inside.stop - first]
        return handles

    def _fill(self) -> None:
        """Take the handles of rows for those that are not known, where nothing else can be meant."""
        record, own = self.record, self._all_handles(self.record.listed)
        gone = np.flatnonzero(~self._known)
        for run in np.split(gone, np.flatnonzero(np.diff(gone) != 1) + 1):
            first, end = int(run[0]), int(run[-1]) + 1
            before = int(own.searchsorted(self._handles(first - 1, 1)[0], side="right")) if first else 0
            behind = int(own.searchsorted(self._handles(end, 1)[0])) if end < record.count else len(own)
            ids = own[before:behind]
            if len(ids) != end - first:
                continue
            self._filled.append((first, ids))
            self._known[first:end] = True
            packed = record.packed_handles(ids, first)
            self._remnant.put_back(record.handles_offset + first * record.handle_bytes, packed)  # for what is beside

    def _all_handles(self, listed: int) -> Ids:
        """The handles that the segment's ids have where they are listed, or are not: increasing."""
        return np.arange(len(self._listed().ids), dtype=np.uint64) if listed else self._rows()

    def _made_record(self, kept: Kept) -> SketchesRecord:
        """The record that has the checksum that was written, of a sketch for each id of the segment."""
        footer = self._remnant.footer
        for listed in (0, 1):
            own = self._all_handles(listed)
            if not len(own):
                continue
            base, last = int(own[0]), int(own[-1])
            width = 0 if last - base + 1 == len(own) else width_for(last - base)
            record = SketchesRecord(len(own), base, last, width, kept.words, kept.values, kept.bits, listed)
            handles = record.packed_handles(own, 0) if width else b""
            made = handles.ljust(record.end - record.handles_offset, b"\0") + record.pack()
            if record.end == footer.summary_offset:
                self._remnant.put_back(record.handles_offset, made)
            if self._remnant.is_sound(footer.summary_offset, footer.checksums_offset):
                return record
        raise CorruptStore("sketches record", "a damaged page", "a sound one, or the ids of all rows to make it again")
