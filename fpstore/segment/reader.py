"""Reads a segment: maps the file and checks the footer and the records; pages are checked when they are first used."""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from fpstore import format as layout
from fpstore._merge import AnyOrder, TableKeys
from fpstore._probe import IdColumn, IdCursor
from fpstore._view import DecodeRoom, SegmentView, TableCursor
from fpstore.disk import ADVISED_BYTES, Place, placed
from fpstore.errors import CorruptStore, Naming
from fpstore.format import Header, Region, Summary, TableRecord
from fpstore.segment.files import let_go, map_file, read_footer
from fpstore.types import Counts, Ids, Keys

READ_IDS = 1 << 16
# Of fewer keys the traces are not noted: these are searched for a short time.
LEAST_TRACED_KEYS = 1 << 19


def _is_traced(table: TableRecord) -> bool:
    return table.flips == 1 and not table.block_bytes and table.slot_bits <= table.prefix_mask.bit_count()


class Segment:
    """A segment open for reading. Opening reads the footer and the records, whatever the file's size.

    naming: a context in which what is found to be damaged is this file; for uses of view and ids, which do not know it.
    """

    def __init__(self, at: Path | Place) -> None:
        """Map the file. Raises CorruptStore, UnsupportedVersion, or the operating system's errors."""
        self.path = at.path if isinstance(at, Place) else at
        self.naming = Naming(self.path)
        with self.naming:
            with placed(at) as place, open(place.folder.open_file(place.name), "rb") as file:
                self.file_bytes = os.fstat(file.fileno()).st_size
                self.footer = read_footer(file.fileno(), self.file_bytes)
                self._map = map_file(file.fileno(), self.file_bytes)
            try:
                self.summary = self._read_summary()
                self.record = self.summary.segment
                self.tables = self.summary.tables
                self.view = self._make_view(self.tables)
            except BaseException:
                let_go(self._map)
                raise
        self.ids = IdColumn(self.view, self.record) if self.record.id_kind != layout.ID_KIND_NONE else None

    @property
    def key_count(self) -> int:
        """Distinct fingerprints."""
        return self.record.key_count

    @property
    def bits(self) -> int:
        """Of a fingerprint."""
        return self.record.key_bits

    @property
    def footer_crc(self) -> int:
        """The CRC-32C at the end of the file: it stands for all its bytes."""
        return int.from_bytes(self.footer.pack()[-4:], "little")

    def regions(self) -> tuple[Region, ...]:
        """Every byte of the file, in order."""
        return self.summary.regions(self.footer)

    def keys(
        self,
        table: int,
        first_slot: int = 0,
        end_slot: int | None = None,
        room: DecodeRoom | None = None,
        *,
        into: Callable[[], Keys] | None = None,
        order: AnyOrder | None = None,
    ) -> Iterator[Keys]:
        """The keys of a table, or of some of its slots, in order, in chunks; every check of the decoder on.

        room: what is decoded in, chunks too: each is done with when another one is asked of whoever uses the room,
        unless it has been given another array for that one. into: of pairs.Joined, and not asked, as what is decoded at
        once takes more room than its keys. order: of pairs.Joined, and ended.
        """
        del into
        if order is not None:
            order.end()
        slots = 1 << self.tables[table].slot_bits
        cursor = TableCursor(self.view, table, first_slot, slots if end_slot is None else end_slot, room=room)
        whole = first_slot == 0 and end_slot is None
        return TableKeys(cursor, self.key_count, self.naming, whole=whole, room=room)

    def note_traces(self, most_bytes: int) -> None:
        """Note traces of the keys, so that searches pass over slots of which none is near; before anybody searches.

        Of tables that are probed with one flip, where all of it takes no more than most_bytes. Reads these whole.
        What is damaged is for a search to tell: nothing is noted then, nor where there is no memory for it.
        """
        traced = [index for index, table in enumerate(self.tables) if _is_traced(table)]
        size = sum(2 * (self.key_count + 1) + 4 * ((1 << self.tables[index].slot_bits) + 1) for index in traced)
        if self.key_count < LEAST_TRACED_KEYS or size > most_bytes:
            return
        for index in traced:
            with suppress(CorruptStore, MemoryError):
                self.view.note_traces(index, self.key_count, self.keys(index, room=DecodeRoom()))

    @property
    def traced_bytes(self) -> int:
        """What the traces that were noted take in memory."""
        return sum(array.nbytes for arrays in self.view.traces.values() for array in arrays)

    def id_rows(self) -> Iterator[tuple[Keys, Ids]]:
        """The rank of the fingerprint and the id of every row, in order, in chunks; none where there are no ids."""
        cursor = None if self.ids is None else IdCursor(self.ids)
        while cursor is not None:
            with self.naming:
                ranks, ids = cursor.read(self.key_count, READ_IDS)
            yield ranks, ids
            if len(ranks) < READ_IDS:
                return

    def listed(self, places: Counts) -> Ids:
        """The ids at these places of the list of ids, int64[n], all of which it has."""
        with self.naming:
            data = self.view.gather(self.record.list_offset, places, layout.LISTED_BYTES, "id list")
        ids: Ids = data.view("<u8").ravel().astype(np.uint64, copy=False)
        return ids

    def places(self, ids: Ids) -> Counts:
        """Where ids, uint64[n], are in that list: int64[n], -1 for those that it does not have."""
        assert self.ids is not None
        with self.naming:
            return self.ids.places(ids)

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes of the file, which the caller knows to lie inside; their pages need not have been checked.

        CorruptStore where they are gone.
        """
        with self.naming:
            return self.view.read(offset, length)

    def size_now(self) -> int:
        """The size of the file as it is now; another than file_bytes is damage."""
        return self._map.size()

    def read_ahead(self, start: int, end: int) -> None:
        """Bytes [start, end), page-aligned, are about to be read in order."""
        with suppress(OSError):  # a hint; reading says what is wrong
            for at in range(start, end, ADVISED_BYTES):
                self._map.madvise(mmap.MADV_WILLNEED, at, min(ADVISED_BYTES, end - at))
        self.view.ask(start, end)

    def soon(self, start: int, end: int) -> None:
        """Bytes [start, end) will be read in order: what was not used before comes at once, not page by page."""
        if self.view.is_new(start, end):
            self.read_ahead(start // mmap.PAGESIZE * mmap.PAGESIZE, end)

    def forget(self, start: int, end: int) -> None:
        """Bytes [start, end), page-aligned, will not be needed soon: they need not count as this process's memory."""
        self._map.madvise(mmap.MADV_DONTNEED, start, end - start)

    def close(self) -> None:
        """Unmap; calls under way in other threads finish first."""
        self.view.close()
        while self.view.users:
            time.sleep(0.001)
        self._map.close()

    def _read_summary(self) -> Summary:
        """The records, from pages whose checksums hold; the roots were checked with the footer."""
        view, footer = self._make_view(()), self.footer
        try:
            view.check(0, layout.HEADER_BYTES, "header")
            view.check(footer.summary_offset, footer.checksums_offset, "summary")
            Header.unpack(view.read(0, layout.HEADER_BYTES))
            return Summary.unpack(view.read(footer.summary_offset, footer.summary_bytes), footer)
        finally:
            view.close()

    def _make_view(self, tables: tuple[TableRecord, ...]) -> SegmentView:
        for index, table in enumerate(tables):
            if table.codec != tables[0].codec:
                raise CorruptStore(f"table {index}, codec", table.codec, f"{tables[0].codec} as in table 0")
            if table.block_bytes != tables[0].block_bytes:
                found = f"{tables[0].block_bytes} as in table 0"
                raise CorruptStore(f"table {index}, block_bytes", table.block_bytes, found)
        footer = self.footer
        view = SegmentView(self._map, footer.checksums_offset, footer.roots_offset, footer.footer_offset, tables)
        # From here on the view notices when the file's end changes; until here the footer was what it is.
        try:
            if view.read(footer.footer_offset, layout.FOOTER_BYTES) != footer.pack():
                raise CorruptStore(
                    "footer", "another one", "that of the file as it was opened, which changed meanwhile"
                )
        except BaseException:
            view.close()
            raise
        return view
