"""A damaged segment of which it is known what is sound: page by page, and slot by slot of each table.

A page counts when its checksum holds, or when it can be made again, byte for byte, from what is sound. Nothing is taken
for sound because it looks so. The segment itself is only read.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from fpstore import format as layout
from fpstore._codec import crc32c, page_checksums
from fpstore._view import SegmentView, TableCursor
from fpstore.disk import Place, placed, write_all
from fpstore.errors import CorruptStore, Damage
from fpstore.forks import cached_property
from fpstore.format import CRC_BYTES, FOOTER_BYTES, LISTED_BYTES, PAGE_BYTES, Footer, Region, Summary
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.files import read_readable
from fpstore.segment.pages import regions_in
from fpstore.types import Array, Counts, Ids, Keys

COPY_BYTES = 4 << 20
PIECE_KEYS = 1 << 16

# (first, end, keys of these slots), or None for keys that do not decode.
Run = tuple[int, int, Keys | None]


class Wreck:
    """The segment as it can be read. sound: bool[pages]; record, tables: what the segment's records say."""

    def __init__(self, at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> None:
        """Read the segment there. entry: what the catalog says of it. scratch: a folder for a copy of it, where
        its disk does not give back all of it.

        Raises CorruptStore where its footer or its records are gone, or where it is not the segment of that entry.
        """
        with contextlib.ExitStack() as undo:
            self._made: list[str] = []  # regions that were damaged, and follow from others
            self._data, unread = _mapped(at, entry, scratch)
            undo.callback(self._data.close)
            self._footer = self._find_footer(entry)
            self._sums = self._find_checksums()
            self.sound: Array = self._found() == self._sums
            self.sound[[page for page in unread if page < len(self.sound)]] = False
            self.summary = self._read_summary()
            self.record, self.tables = self.summary.segment, self.summary.tables
            self._lenient = False
            self._view = self._sealed_view()
            undo.pop_all()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> Iterator[Self]:
        """The wreck of the segment there, for a context."""
        with contextlib.closing(cls(at, entry, scratch)) as wreck:
            yield wreck

    def damage(self, path: str) -> list[Damage]:
        """The damaged pages, runs of them as one, each with the regions that they hold bytes of."""
        gone = np.flatnonzero(~self.sound)
        runs = np.split(gone, np.flatnonzero(np.diff(gone) != 1) + 1) if len(gone) else []
        found = []
        for run in runs:
            start, end = int(run[0]) * PAGE_BYTES, (int(run[-1]) + 1) * PAGE_BYTES
            names = " and ".join(regions_in(self, start, min(end, self._footer.checksums_offset)))
            count = f"{len(run)} page{'s' * (len(run) > 1)}"
            found.append(Damage(path, f"{names}, {count} from byte {start}, checksum", "another", "the one recorded"))
        return found + [Damage(path, name, "damage", "what follows from the rest") for name in self._made]

    @property
    def footer(self) -> Footer:
        """Where the summary and the checksums are."""
        return self._footer

    @property
    def is_certain(self) -> bool:
        """Whether the records lie in sound pages. Otherwise they seem right, as does all that is decoded by them."""
        return self.is_sound(self._footer.summary_offset, self._footer.checksums_offset)

    def expect_certain(self) -> None:
        """Raise CorruptStore unless it is."""
        if not self.is_certain:
            raise CorruptStore(
                "summary", "a damaged page", "sound ones: without it nothing of the segment can be decoded"
            )

    def close(self) -> None:
        """Let go of it."""
        self._view.close()
        self._data.close()

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes, sound or not."""
        return self._data[offset : offset + length]

    @cached_property
    def listed(self) -> Ids:
        """The ids of the list, sound or not, where there is one."""
        data = self.read(self.record.list_offset, LISTED_BYTES * self.record.list_count)
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)

    def regions(self) -> tuple[Region, ...]:
        """Every byte of the segment, in order."""
        return self.summary.regions(self._footer)

    def is_sound(self, start: int, end: int) -> bool:
        """Whether bytes [start, end) lie in sound pages."""
        return bool(self.sound[start // PAGE_BYTES : -(-end // PAGE_BYTES)].all())

    def are_sound(self, starts: Counts, ends: Counts) -> Array:
        """Whether each stretch of bytes, none longer than a page, lies in sound pages: bool[n]."""
        firsts, lasts = starts // PAGE_BYTES, np.maximum(ends - 1, starts) // PAGE_BYTES
        held: Array = self.sound[np.minimum(firsts, len(self.sound) - 1)]
        held &= self.sound[np.minimum(lasts, len(self.sound) - 1)]
        return held

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
        if not self._lenient and self._has_no_directory(table, first, end):
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
        held += self.read(len(held), min(pages * PAGE_BYTES, self._footer.checksums_offset) - len(held))
        same = np.zeros(len(self.sound), dtype=bool)
        same[:pages] = page_checksums(held) == self._sums[:pages]
        for page in np.flatnonzero(same & ~self.sound).tolist():
            piece = held[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
            self._data[page * PAGE_BYTES : page * PAGE_BYTES + len(piece)] = bytes(piece)
        self.sound |= same
        self._view.close()
        self._view = self._sealed_view()
        return same

    def _found(self) -> Array:
        return page_checksums(memoryview(self._data)[: self._footer.checksums_offset])

    def _find_footer(self, entry: SegmentEntry | None) -> Footer:
        size = len(self._data)
        try:
            footer = Footer.unpack(self.read(size - FOOTER_BYTES, FOOTER_BYTES), size)
        except CorruptStore:
            if entry is None:
                raise
            return self._made_footer(entry)
        if entry is not None and (size, _crc_of(footer)) != (entry.file_bytes, entry.crc):
            found, expected = (size, _crc_of(footer)), (entry.file_bytes, entry.crc)
            raise CorruptStore("segment", found, f"{expected}, which the catalog names")
        return footer

    def _read_summary(self) -> Summary:
        start, end = self._footer.summary_offset, self._footer.checksums_offset
        try:
            return Summary.unpack(self.read(start, end - start), self._footer)
        except CorruptStore:
            self.expect_certain()
            raise

    def _made_footer(self, entry: SegmentEntry) -> Footer:
        """The footer which has the checksum that the catalog names, whatever of the file's end is damaged beside it."""
        counts = range(1, layout.MAX_TABLES + 1)
        possible = [footer for count in counts if (footer := _footer_of(len(self._data), count)) is not None]
        for first in possible[:1]:  # but for the summary's place they are the same
            roots = self.read(first.roots_offset, first.footer_offset - first.roots_offset)
            sums = self.read(first.checksums_offset, first.roots_offset - first.checksums_offset)
            found = _packed(page_checksums(memoryview(self._data)[: first.checksums_offset]))
            for made in (roots, _packed(page_checksums(sums)), _packed(page_checksums(found))):
                for each in possible:
                    footer = replace(each, roots_crc=crc32c(made))
                    if _crc_of(footer) == entry.crc:
                        self._data[footer.roots_offset : footer.footer_offset] = made
                        self._made += ["footer"] if made == roots else ["roots", "footer"]
                        return footer
        raise CorruptStore("footer", "damage", "a sound one, or one that follows from the catalog")

    def _find_checksums(self) -> Array:
        """The checksums as they were written; a page of them that is damaged alone follows from what it covers."""
        footer = self._footer
        sums = np.frombuffer(self.read(footer.checksums_offset, footer.roots_offset - footer.checksums_offset), "<u4")
        roots = np.frombuffer(self.read(footer.roots_offset, footer.footer_offset - footer.roots_offset), "<u4")
        sums, found, per_page = sums.copy(), self._found(), PAGE_BYTES // CRC_BYTES
        for index, root in enumerate(roots.tolist() if crc32c(roots.tobytes()) == footer.roots_crc else ()):
            covered = slice(index * per_page, (index + 1) * per_page)
            if crc32c(_packed(found[covered])) == root and (sums[covered] != found[covered]).any():
                sums[covered] = found[covered]
                self._made.insert(0, f"checksums, page at byte {footer.checksums_offset + index * PAGE_BYTES}")
        return sums

    def _sealed_view(self) -> SegmentView:
        """The decoder, shown checksums that hold for sound pages and for no other; for all where it is lenient."""
        footer, found = self._footer, self._found()
        sums = _packed(found if self._lenient else np.where(self.sound, found, ~found))
        self._data[footer.checksums_offset : footer.roots_offset] = sums
        self._data[footer.roots_offset : footer.footer_offset] = _packed(page_checksums(sums))
        ends = footer.checksums_offset, footer.roots_offset, footer.footer_offset
        return SegmentView(self._data, *ends, self.tables)


def _mapped(at: Path | Place, entry: SegmentEntry | None, scratch: Path | None) -> tuple[mmap.mmap, list[int]]:
    """The bytes of a file, which may be changed in memory, and the pages that its disk does not give back.

    Where there are such pages, what can be read is copied to the folder scratch first.
    """
    unread: list[int] = []
    with contextlib.ExitStack() as undo:
        place = undo.enter_context(placed(at))
        source = place.folder.open_file(place.name)
        undo.callback(os.close, source)
        size = os.fstat(source).st_size
        if entry is not None:
            if size < entry.file_bytes:
                raise CorruptStore("file, cut short", f"{size} bytes", entry.file_bytes)
            size = entry.file_bytes
        if size < layout.HEADER_BYTES + FOOTER_BYTES:
            raise CorruptStore("file", f"{size} bytes", f"{layout.HEADER_BYTES + FOOTER_BYTES} or more")
        pieces = [(offset, min(COPY_BYTES, size - offset)) for offset in range(0, size, COPY_BYTES)]
        for offset, length in pieces:
            read_readable(source, offset, length, unread)
        if not unread or scratch is None:
            return mmap.mmap(source, size, access=mmap.ACCESS_COPY), unread
        copy = scratch / place.name
        target = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        undo.callback(os.close, target)
        undo.callback(copy.unlink)  # the mapping keeps it
        for offset, length in pieces:
            write_all(target, memoryview(read_readable(source, offset, length, [])))
        return mmap.mmap(target, size, access=mmap.ACCESS_COPY), unread


def _packed(sums: Array) -> bytes:
    return sums.astype("<u4").tobytes()


def _footer_of(file_bytes: int, table_count: int) -> Footer | None:
    """The footer of a file of that size with so many tables, but for roots_crc; None where there is none."""
    least, most = 1, file_bytes // layout.ALIGNMENT + 1
    while least < most:  # a later summary makes a longer file
        middle = (least + most) // 2
        if Footer.locate(middle * layout.ALIGNMENT, table_count, 0).file_bytes < file_bytes:
            least = middle + 1
        else:
            most = middle
    footer = Footer.locate(least * layout.ALIGNMENT, table_count, 0)
    return footer if footer.file_bytes == file_bytes else None


def _crc_of(footer: Footer) -> int:
    return int.from_bytes(footer.pack()[-CRC_BYTES:], "little")
