"""Reads a segment of wide codes: the file as any segment, what it holds by its own records."""

from collections.abc import Iterator

import numpy as np

from fpstore import format as layout
from fpstore._codes import CodeIndex
from fpstore._probe import IdCursor, WantedIds
from fpstore._view import SegmentView
from fpstore.codes.layout import KIND_CODES, CodesRecord, CodesSummary, CodeTableRecord
from fpstore.disk import Place
from fpstore.errors import TooManyMatches
from fpstore.format import Header
from fpstore.query.matches import Matches, Room, made
from fpstore.segment.reader import Segment
from fpstore.types import Counts, Ids, Keys

READ_CODES = 1 << 16
# Ids that are compared at a time, and rows that are read.
LOOKED_THROUGH = 1 << 21
IDS_AT_ONCE = 1 << 16


class CodesSegment(Segment):
    """A segment of wide codes open for reading."""

    summary: CodesSummary
    record: CodesRecord  # type: ignore[assignment]
    tables: tuple[CodeTableRecord, ...]  # type: ignore[assignment]

    def __init__(self, at: Place) -> None:
        """Map the file. Raises CorruptStore, UnsupportedVersion, or the operating system's errors."""
        super().__init__(at)
        self.codes = CodeIndex(self.view, self.record, self.tables)

    # --- Searching ---

    def search(self, queries: Keys, distance: int, first_query: int, room: Room) -> Matches:
        """Every code within distance of each of queries (uint64[m, words]), a row for each of its ids.

        The queries are numbered from first_query on. TooManyMatches where there is no room.
        """
        with self.naming:
            query, rank, bits, scanned = self.codes.search(queries, distance, most=room.left)
            codes = self.codes.gather(rank)
            ids = None
            if self.ids is None:
                room.take(len(query))
            else:
                counts, ids = self.ids.of_ranks(rank, room.take)
                if len(ids) != len(rank) or (counts != 1).any():
                    query, codes, bits = (np.repeat(column, counts, axis=0) for column in (query, codes, bits))
        return made(query + first_query, codes, bits, ids, "scan" if scanned else "probe")

    def has_any(self, query: Keys, distance: int) -> bool:
        """Whether any code is within distance of the one query, uint64[1, words]."""
        with self.naming:
            return len(self.codes.search(query, distance, first_only=True)[0]) > 0

    # --- Everything ---

    def code_chunks(self) -> Iterator[Keys]:
        """All codes in order: uint64[m, words]."""
        for first in range(0, self.key_count, READ_CODES):
            with self.naming:
                yield self.codes.read(first, min(first + READ_CODES, self.key_count))

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every code once for each of its ids, in order."""
        if self.ids is None:
            for codes in self.code_chunks():
                yield codes, None
            return
        cursor = IdCursor(self.ids)
        for first in range(0, self.key_count, READ_CODES):
            end = min(first + READ_CODES, self.key_count)
            with self.naming:
                codes = self.codes.read(first, end)
            while True:
                with self.naming:
                    ranks, ids = cursor.read(end, IDS_AT_ONCE)
                if len(ranks):
                    yield codes[(ranks - np.uint64(first)).astype(np.int64)], ids
                if len(ranks) < IDS_AT_ONCE:
                    break

    def lookup(self, ids: Ids, most: int) -> tuple[Keys, Ids]:
        """All rows of ids (uint64[n], strictly increasing), by id, then code. TooManyMatches for more than most."""
        none = np.empty(0, dtype=np.uint64)
        ranks, numbers, at, count = [none], [none], 0, 0
        if self.ids is not None and len(ids):
            sought = WantedIds(ids)
            while at < self.record.id_count:
                with self.naming:
                    at, found, own = self.ids.find_ranks(sought, at, min(at + LOOKED_THROUGH, self.record.id_count))
                count += len(found)
                if count > most:
                    told = f"{len(ids)} ids: found more than {most} rows, expected at most {most} in one answer"
                    raise TooManyMatches(f"{told}; look up fewer ids at once", rows=most)
                ranks.append(found)
                numbers.append(own)
        rank, number = np.concatenate(ranks), np.concatenate(numbers)
        order: Counts = np.lexsort((rank, number))
        with self.naming:
            return self.codes.gather(rank[order]), number[order]

    # --- The file ---

    def _read_summary(self) -> CodesSummary:
        view, footer = super()._make_view(()), self.footer
        try:
            view.check(0, layout.HEADER_BYTES, "header")
            view.check(footer.summary_offset, footer.checksums_offset, "summary")
            Header.unpack(view.read(0, layout.HEADER_BYTES), KIND_CODES)
            return CodesSummary.unpack(view.read(footer.summary_offset, footer.summary_bytes), footer)
        finally:
            view.close()

    def _make_view(self, tables: object) -> SegmentView:
        return super()._make_view(())  # which decodes no tables of these
