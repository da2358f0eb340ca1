"""Reads a file of sketches."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.disk import Place
from fpstore.errors import CorruptStore
from fpstore.segment.beside import Beside
from fpstore.segment.reader import Segment
from fpstore.sketches.layout import KIND_SKETCHES, SketchesRecord
from fpstore.types import Array, Counts, Ids, Keys

# Sketches that are read together where all are.
ROWS_AT_ONCE = 1 << 14


class Found(NamedTuple):
    """Sketches of ids that were asked for: of which of them each is, int64[m], and the sketch, uint64[m, words]."""

    of: Counts
    sketches: Keys


class SketchesReader(Beside[SketchesRecord]):
    """A file of sketches open for reading."""

    HOLDS, KIND, unpacked = "sketches", KIND_SKETCHES, SketchesRecord.unpack

    def __init__(self, at: Path | Place, segment: Segment | None = None) -> None:
        """As of Beside. segment: the one that it lies beside, open as long as this; None where it is alone."""
        super().__init__(at)
        self._column: Array | None = None
        # Whose list has the ids, where the file has none.
        self._lists: Segment | None = None
        if self.record.listed:
            listed = 0 if segment is None else segment.record.list_count
            if segment is None or self.record.handle_last != listed - 1:
                self.close()
                expected = f"{listed - 1}, as the segment lists {listed}"
                raise CorruptStore("sketches record, handle_last", self.record.handle_last, expected, path=self.path)
            self._lists = segment

    @property
    def places_of(self) -> Callable[[Ids], Counts] | None:
        """What tells the places of ids in the list, where these are the handles: int64[n], -1 for what is not there."""
        return None if self._lists is None else self._lists.places

    def find(self, ids: Ids) -> Found:
        """The sketches of ids (uint64[n], distinct), all that each has, in the order of the ids."""
        record, handles = self.record, self._handles_of(ids)
        with self.naming:
            if not record.handle_bytes:
                # One below the base wraps to a large number, and so is none of them.
                rows = handles - np.uint64(record.handle_base)
                of = np.flatnonzero((handles >= np.uint64(record.handle_base)) & (rows < np.uint64(record.count)))
                return Found(of, self._rows(rows[of].astype(np.int64)))
            base, last = np.uint64(record.handle_base), np.uint64(record.handle_last)
            inside = np.flatnonzero((handles >= base) & (handles <= last))
            column = self._handle_column()
            wanted = (handles[inside] - base).astype(column.dtype)
            first, end = column.searchsorted(wanted), column.searchsorted(wanted, side="right")
            self.view.check(record.handles_end - 1, record.handles_end, "handles of sketches")
            counts = end - first
            of = np.repeat(inside, counts)
            starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
            return Found(of, self._rows(starts + np.arange(len(of))))

    def places(self, ids: Ids) -> Counts:
        """Where the first sketch of each id is: int64[n], -1 for those that have none."""
        record, handles = self.record, self._handles_of(ids)
        with self.naming:
            base, last = np.uint64(record.handle_base), np.uint64(record.handle_last)
            inside = (handles >= base) & (handles <= last)
            rows = np.where(inside, handles - base, np.uint64(0))
            if not record.handle_bytes:
                return np.where(inside, rows.astype(np.int64), -1)
            column = self._handle_column()
            first = column.searchsorted(rows.astype(column.dtype))
            inside &= column[first] == rows
            self.view.check(record.handles_end - 1, record.handles_end, "handles of sketches")
        return np.where(inside, first, -1)

    def chunks(self) -> Iterator[tuple[Ids, Keys]]:
        """All of them, by id, then sketch, in pieces: uint64[m], uint64[m, words]. CorruptStore out of order."""
        last: tuple[int, ...] = ()
        for start in range(0, self.count, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, self.count - start)
            ids, sketches = self.part(start, count)
            with self.naming:
                if not _in_order(ids, sketches) or last >= (int(ids[0]), *map(int, sketches[0])):
                    raise CorruptStore("sketches", f"some out of order from {start} on", "them by id")
            last = (int(ids[-1]), *map(int, sketches[-1]))
            yield ids, sketches

    def part(self, start: int, count: int) -> tuple[Ids, Keys]:
        """So many from this one on: ids and sketches."""
        with self.naming:
            sketches = self._rows(np.arange(start, start + count))
            if not self.record.handle_bytes:
                handles = np.arange(start, start + count, dtype=np.uint64) + np.uint64(self.record.handle_base)
            else:
                handles = self._handle_column()[start : start + count].astype(np.uint64)
                self.view.check(self.record.handles_end - 1, self.record.handles_end, "handles of sketches")
                handles += np.uint64(self.record.handle_base)
        return handles if self._lists is None else self._lists.listed(handles.view(np.int64)), sketches

    def close(self) -> None:
        """Unmap; calls under way in other threads finish first."""
        self._column = None
        with contextlib.suppress(BufferError):  # of another thread, which looks at the handles
            super().close()

    def _handles_of(self, ids: Ids) -> Ids:
        """The handle of each id; of one that the list does not have, one that is none."""
        return ids if self._lists is None else self._lists.places(ids).view(np.uint64)

    def _rows(self, rows: Counts) -> Keys:
        data = self.view.gather(self.record.sketches_offset, rows, self.record.row_bytes, "sketches")
        return data.view("<u8").astype(np.uint64, copy=False)

    def _handle_column(self) -> Array:
        """The handles less the base, sorted, as they lie in the file, or made of what does; checked once."""
        column = self._column
        if column is None:
            record = self.record
            self.view.check(record.handles_offset, record.handles_end, "handles of sketches")
            column = np.frombuffer(
                self._map, dtype=f"<u{record.handle_bytes}", count=record.count, offset=record.handles_offset
            )
            if record.listed:
                column = record.unpacked_handles(column, 0)
            if (column[1:] < column[:-1]).any() or column[0] or column[-1] != record.handle_last - record.handle_base:
                raise CorruptStore("handles of sketches", "some out of order", "them sorted, from the base to the last")
            self._column = column
        return column


def verify_sketches(reader: SketchesReader) -> None:
    """Read a whole file of sketches and check it: every page, and the order. CorruptStore where anything is wrong."""
    reader.check_pages()
    for _ in reader.chunks():
        pass


def _in_order(handles: Ids, sketches: Keys) -> bool:
    """Whether they increase by handle, then by sketch, and none comes twice."""
    if (handles[1:] > handles[:-1]).all():
        return True
    if (handles[1:] < handles[:-1]).any():
        return False
    for at in np.flatnonzero(handles[1:] == handles[:-1]).tolist():
        if tuple(sketches[at]) >= tuple(sketches[at + 1]):
            return False
    return True
