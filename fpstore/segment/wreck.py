"""A damaged segment of which it is known what is sound: page by page, and slot by slot of each table."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from fpstore import format as layout
from fpstore._codec import page_checksums
from fpstore._view import SegmentView, TableCursor
from fpstore.closing import close_all
from fpstore.disk import Place
from fpstore.errors import CorruptStore
from fpstore.forks import cached_property
from fpstore.format import LISTED_BYTES, PAGE_BYTES, Region, SegmentRecord, Summary, TableRecord
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.pages import regions_in
from fpstore.segment.remnant import Remnant
from fpstore.types import Array, Ids, Keys

PIECE_KEYS = 1 << 16

# (first, end, keys of these slots), or None for keys that do not decode.
Run = tuple[int, int, Keys | None]


class AnyWreck(Remnant):
    """A segment of any kind as it can be read. sound: bool[pages]; record, tables: what the segment's records say.

    SUMMARY: what these are in a segment of its kind.
    """

    SUMMARY: type[Summary] = Summary
    summary: Summary
    record: SegmentRecord
    tables: tuple[TableRecord, ...]

    def __init__(self, at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> None:
        """Read the segment there. entry: what the catalog says of it. scratch: a folder for a copy of it, where
        its disk does not give back all of it.

        Raises CorruptStore where its footer or its records are gone, or where it is not the segment of that entry.
        """
        super().__init__(at, None if entry is None else (entry.file_bytes, entry.crc), scratch)
        with contextlib.ExitStack() as undo:
            undo.callback(super().close)
            try:
                self.summary = self._read_summary()
            except CorruptStore:
                self.expect_certain()
                raise
            self.record, self.tables = self.summary.segment, self.summary.tables
            undo.pop_all()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> Iterator[Self]:
        """The wreck of the segment there, for a context."""
        with contextlib.closing(cls(at, entry, scratch)) as wreck:
            yield wreck

    def _read_summary(self) -> Summary:
        start, end = self.footer.summary_offset, self.footer.checksums_offset
        return self.SUMMARY.unpack(self.read(start, end - start), self.footer)

    def _regions_in(self, start: int, end: int) -> list[str]:
        return regions_in(self, start, end)

    @property
    def is_certain(self) -> bool:
        """Whether the records lie in sound pages. Otherwise they seem right, as does all that is decoded by them."""
        return self.is_sound(self.footer.summary_offset, self.footer.checksums_offset)

    def expect_certain(self) -> None:
        """Raise CorruptStore unless it is."""
        if not self.is_certain:
            raise CorruptStore(
                "summary", "a damaged page", "sound ones: without it nothing of the segment can be decoded"
            )

    @cached_property
    def listed(self) -> Ids:
        """The ids of the list, sound or not, where there is one."""
        data = self.read(self.record.list_offset, LISTED_BYTES * self.record.list_count)
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)

    def regions(self) -> tuple[Region, ...]:
        """Every byte of the segment, in order."""
        return self.summary.regions(self.footer)


class Wreck(AnyWreck):
    """A segment of keys, whose tables are decoded slot by slot."""

    def __init__(self, at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> None:
        """As that of AnyWreck."""
        super().__init__(at, entry, scratch)
        with contextlib.ExitStack() as undo:
            undo.callback(super().close)
            self._lenient = False
            self._view = self._sealed_view()
            undo.pop_all()

    def close(self) -> None:
        """Let go of it."""
        close_all(self._view.close, super().close)

    # --- Slots ---

    def runs(self, table: int, first: int = 0, end: int | None = None) -> Iterator[Run]:
        """Slots [first, end) of a table, in order, in runs; those that do not decode one by one, or as they lie."""
        slots = 1 << self.tables[table].slot_bits
        stop = slots if end is None else end
        step = max(1, PIECE_KEYS * slots // (self.record.key_count + 1))
        for start in range(first, stop, step):
            yield from self._decoded(table, start, min(start + step, stop))

    @contextlib.contextmanager
    def believed(self) -> Iterator[None]:
        """A context in which damaged pages are decoded as if they were sound: what comes of it is a guess."""
        self._lenient = True
        self._view.close()
        self._view = self._sealed_view()
        try:
            yield
        finally:
            self._lenient = False
            self._view.close()
            self._view = self._sealed_view()

    def _decoded(self, table: int, first: int, end: int) -> Iterator[Run]:
        if not self._lenient and not self.tables[table].block_bytes and self._has_no_directory(table, first, end):
            yield first, end, None
            return
        try:
            keys = self._keys(table, first, end)
        except CorruptStore:
            if end - first == 1:
                yield first, end, None
            else:
                middle = (first + end) // 2
                yield from self._decoded(table, first, middle)
                yield from self._decoded(table, middle, end)
            return
        yield first, end, keys

    def _keys(self, table: int, first: int, end: int) -> Keys:
        cursor, chunks = TableCursor(self._view, table, first, end), [np.empty(0, dtype=np.uint64)]
        while len(chunk := cursor.read()):
            chunks.append(chunk)
        return np.concatenate(chunks)

    def _has_no_directory(self, table: int, first: int, end: int) -> bool:
        offset = self.tables[table].directory_offset
        start = offset + first // layout.GROUP_SLOTS * layout.DIRECTORY_LINE_BYTES
        stop = offset + -(-end // layout.GROUP_SLOTS) * layout.DIRECTORY_LINE_BYTES
        return not self.sound[start // PAGE_BYTES : -(-stop // PAGE_BYTES)].any()

    # --- Pages ---

    def mend(self, made: bytes) -> Array:
        """Which pages are what they were when `made` takes the place of the bytes that they begin with: bool[pages].

        Damaged ones of them are replaced, and are sound from now on. made: the start of the segment, made again.
        """
        pages = -(-len(made) // PAGE_BYTES)
        held = bytearray(made)
        held += self.read(len(held), min(pages * PAGE_BYTES, self.footer.checksums_offset) - len(held))
        same = np.zeros(len(self.sound), dtype=bool)
        same[:pages] = page_checksums(held) == self._sums[:pages]
        for page in np.flatnonzero(same & ~self.sound).tolist():
            piece = held[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
            self._data[page * PAGE_BYTES : page * PAGE_BYTES + len(piece)] = bytes(piece)
        self.sound |= same
        self._view.close()
        self._view = self._sealed_view()
        return same

    def _sealed_view(self) -> SegmentView:
        """The decoder, shown checksums that hold for sound pages and for no other; for all where it is lenient."""
        footer, found = self.footer, self._found()
        self._seal(found if self._lenient else np.where(self.sound, found, ~found))
        ends = footer.checksums_offset, footer.roots_offset, footer.footer_offset
        return SegmentView(self._data, *ends, self.tables)
