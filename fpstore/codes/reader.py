"""Reads a segment of wide codes: the file as any segment, what it holds by its own records."""

from collections.abc import Callable, Iterator

import numpy as np

from fpstore import format as layout
from fpstore._codes import CodeIndex
from fpstore._probe import WantedIds
from fpstore._view import SegmentView
from fpstore.codes.layout import KIND_CODES, CodesRecord, CodesSummary, CodeTableRecord
from fpstore.disk import Place
from fpstore.errors import CorruptStore
from fpstore.format import Header
from fpstore.query.matches import Room
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Ids, Keys

READ_CODES = 1 << 16
# Of codes that are all read: more would be gone from a small memory before their turn.
ASKED_BYTES = 1 << 30
# Ids that are compared at a time.
LOOKED_THROUGH = 1 << 21

# query, code, distance, id
Matched = tuple[Counts, Keys, Array, Ids | None]


def open_segment(at: Place) -> Segment:
    """The segment there, of either kind, as its header says."""
    return CodesSegment(at) if is_of_codes(at) else Segment(at)


def is_of_codes(at: Place) -> bool:
    """Whether the header of the segment there says that it is of wide codes."""
    with open(at.folder.open_file(at.name), "rb") as file:
        return file.read(layout.HEADER_BYTES) == Header(KIND_CODES).pack()


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

    def search(self, queries: Keys, distance: int, scans: bool, room: Room | None) -> tuple[Matched, bool]:
        """Every code within distance of each of queries (uint64[m, words]), a row for each of its ids.

        scans: read all codes for each, as for a distance that the tables do not answer. Also whether they were read for
        some query. TooManyMatches where there is no room.
        """
        take = room.take if room else None
        if scans:
            self.ask_codes()
        with self.naming:
            most = room.left if room else 0
            query, rank, bits, scanned = self.codes.search(queries, distance, most=most, scan=scans)
            codes = self.codes.gather(rank)
            ids = None
            if self.ids is not None:
                counts, ids = self.ids_of(rank, take)
                if len(ids) != len(rank) or (counts != 1).any():
                    query, codes, bits = (np.repeat(column, counts, axis=0) for column in (query, codes, bits))
            elif take:
                take(len(query))
        return (query, codes, bits, ids), scanned

    def ask_codes(self) -> None:
        """All codes will be read: have the first of them come from the disk together, unless they came before."""
        start = self.record.codes_offset
        self.soon(start, start + min(ASKED_BYTES, self.record.code_bytes * self.key_count))

    def ids_of(self, ranks: Keys, take: Callable[[int], None] | None = None) -> tuple[Counts, Ids]:
        """The ids of codes of these ranks, where there are any: how many each has, and they, of each increasing.

        take: is told how many ids there are before there is room for them, and may raise.
        """
        assert self.ids is not None
        firsts, counts = self.ids.rank_ranges(ranks)
        if take:
            take(int(counts.sum()))
        return counts.astype(np.int64), self.ids.values(firsts, counts)

    def has_any(self, query: Keys, distance: int, scans: bool) -> bool:
        """Whether any code is within distance of the one query, uint64[1, words]."""
        with self.naming:
            return len(self.codes.search(query, distance, first_only=True, scan=scans)[0]) > 0

    # --- Everything ---

    def code_chunks(self) -> Iterator[Keys]:
        """All codes in order: uint64[m, words]."""
        for first in range(0, self.key_count, READ_CODES):
            yield self._read_codes(first, min(first + READ_CODES, self.key_count))

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every code once for each of its ids, in order."""
        if self.ids is None:
            for codes in self.code_chunks():
                yield codes, None
        for ranks, ids in self.id_rows():
            if len(ranks):
                first, last = int(ranks[0]), int(ranks[-1])
                codes = self._read_codes(first, last + 1)
                yield codes[(ranks - np.uint64(first)).astype(np.int64)], ids

    def _read_codes(self, first: int, end: int) -> Keys:
        """Codes of these ranks, at least one. CorruptStore where one of them is not above the one before it."""
        before = min(first, 1)
        with self.naming:
            codes = self.codes.read(first - before, end)
            order = _increase(codes)
            if not order.all():
                at = int(np.argmin(order)) + 1
                where = f"codes, rank {first - before + at}"
                raise CorruptStore(where, _hex(codes[at]), f"above {_hex(codes[at - 1])}")
        return codes[before:]

    def lookup(self, ids: Ids) -> Iterator[tuple[Keys, Ids]]:
        """All rows of ids (uint64[n], strictly increasing), in chunks: codes and ids. Reads all ids."""
        if self.ids is None or not len(ids):
            return
        sought, at = WantedIds(ids), 0
        while at < self.record.id_count:
            with self.naming:
                at, ranks, own = self.ids.find_ranks(sought, at, min(at + LOOKED_THROUGH, self.record.id_count))
                codes = self.codes.gather(ranks)
            yield codes, own

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


def _increase(codes: Keys) -> Array:
    """Whether each of codes but the first is above the one before: bool[n - 1]."""
    above, same = np.zeros(len(codes) - 1, dtype=bool), np.ones(len(codes) - 1, dtype=bool)
    for word in range(codes.shape[1]):
        one, other = codes[:-1, word], codes[1:, word]
        above |= same & (other > one)
        same &= other == one
        if not same.any():
            break
    return above


def _hex(code: Keys) -> str:
    return str(code.astype(">u8").tobytes().hex())
