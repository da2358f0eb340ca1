"""What is sound of a file of sketches that is damaged.

Ids whose own bytes are damaged follow from the rows of the segment, which are of the same ids. Each of these has a
sketch: so where as many of them lie between two that are known as there are places, each has one of these.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.segment.remnant import Remnant
from fpstore.sketches.kept import Kept
from fpstore.sketches.layout import KIND_SKETCHES, SketchesRecord, width_for
from fpstore.sketches.reader import ROWS_AT_ONCE
from fpstore.types import Array, Ids, Keys


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
) -> Iterator[tuple[Ids, Keys]]:
    """The sketches that can be read of a file of these, with their ids; what is wrong with it is added to damage.

    expected, scratch: as of Remnant. rows: tells the ids of the segment's rows, where those beside the sketches are
    damaged, uint64[n], increasing; it takes some bytes of memory for each.
    """
    try:
        with contextlib.closing(SketchesRemnant(at, expected, scratch)) as remnant:
            damage += remnant.damage(str(at.path))
            held = _Held(remnant, kept, rows)
            for start in range(0, held.record.count, ROWS_AT_ONCE):
                yield held.part(start, min(ROWS_AT_ONCE, held.record.count - start))
    except FileNotFoundError:
        damage.append(Damage(str(at.path), "sketches", "none", "the file that the catalog names"))
    except CorruptStore as error:
        damage.append(error.in_file(at.path))


class _Held:
    """The sketches of a remnant. record: what its record says, or must have said. CorruptStore where nothing tells."""

    def __init__(self, remnant: SketchesRemnant, kept: Kept, rows: Callable[[], Ids] | None) -> None:
        self._remnant, self._rows = remnant, rows
        self._ids: Ids | None = None
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
        return self._handles(start, count)[sound], sketches[sound].astype(np.uint64)

    # --- Ids ---

    def _known_handles(self) -> Array:
        """Which ids lie in sound pages: bool[count]; each if they follow from the record."""
        record = self.record
        if not record.handle_bytes:
            return np.ones(record.count, dtype=bool)
        starts = record.handles_offset + np.arange(record.count) * record.handle_bytes
        return self._remnant.are_sound(starts, starts + record.handle_bytes)

    def _handles(self, start: int, count: int) -> Ids:
        record = self.record
        if not record.handle_bytes:
            return np.arange(start, start + count, dtype=np.uint64) + np.uint64(record.handle_base)
        data = self._remnant.read(record.handles_offset + start * record.handle_bytes, count * record.handle_bytes)
        handles = np.frombuffer(data, dtype=f"<u{record.handle_bytes}").astype(np.uint64)
        handles += np.uint64(record.handle_base)
        for first, ids in self._filled:
            inside = slice(max(first, start), min(first + len(ids), start + count))
            if inside.start < inside.stop:
                handles[inside.start - start : inside.stop - start] = ids[inside.start - first : inside.stop - first]
        return handles

    def _fill(self) -> None:
        """Take the ids of rows for those that are not known, where nothing else can be meant."""
        record, own = self.record, self._of_rows()
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
            packed = (ids - np.uint64(record.handle_base)).astype(f"<u{record.handle_bytes}").tobytes()
            self._remnant.put_back(record.handles_offset + first * record.handle_bytes, packed)  # for what is beside

    def _of_rows(self) -> Ids:
        if self._ids is None:
            self._ids = np.empty(0, dtype=np.uint64) if self._rows is None else self._rows()
        return self._ids

    def _made_record(self, kept: Kept) -> SketchesRecord:
        """The record that has the checksum that was written, of a sketch for each id of the rows."""
        ids, footer = self._of_rows(), self._remnant.footer
        if len(ids):
            base, last = int(ids[0]), int(ids[-1])
            width = 0 if last - base + 1 == len(ids) else width_for(last - base)
            record = SketchesRecord(len(ids), base, last, width, kept.words, kept.values, kept.bits)
            handles = (ids - np.uint64(base)).astype(f"<u{width}").tobytes() if width else b""
            made = handles.ljust(record.end - record.handles_offset, b"\0") + record.pack()
            if record.end == footer.summary_offset:
                self._remnant.put_back(record.handles_offset, made)
            if self._remnant.is_sound(footer.summary_offset, footer.checksums_offset):
                return record
        raise CorruptStore("sketches record", "a damaged page", "a sound one, or the ids of all rows to make it again")
