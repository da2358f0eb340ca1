"""Writes a segment: one immutable file with every table of one set of fingerprints, and their ids.

Appends in order and puts the footer last; then the file is synced and read back.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fpstore import format as layout
from fpstore.disk import Place
from fpstore.format import Header, SegmentRecord, Summary, TableRecord
from fpstore.plans.plan import TablePlan
from fpstore.segment.entry import SegmentEntry, segment_name
from fpstore.segment.ids import IdsWriter
from fpstore.segment.listing import Listing
from fpstore.segment.reader import Segment
from fpstore.segment.stored import StoredTable
from fpstore.segment.table import encode_table
from fpstore.types import Ids, Keys, SortedKeys

# Of a segment that is joined to another, so much at a time.
JOINED_BYTES = 1 << 20


class SegmentWriter(IdsWriter):
    """Writes a segment table by table. Use as a context: leaving it before finish() removes the file."""

    def __init__(
        self,
        at: Path | Place,
        codec: str,
        slot_bits: int,
        bits: int = layout.KEY_BITS,
        block_bytes: int = 0,
        threads: int = 1,
        *,
        uncached: bool = False,
    ) -> None:
        """Create the file; FileExistsError if it is there.

        bits: of a fingerprint. block_bytes: as of encode_table. threads, uncached: as of FileWriter.
        """
        super().__init__(at, threads, uncached=uncached)
        self._block_bytes = block_bytes
        self._codec = codec
        self._slot_bits = slot_bits
        self._bits = bits
        self._tables: list[TableRecord] = []
        self._key_count = 0
        self._ranks: Keys | None = None
        self._ids = SegmentRecord(0, 0, 0, layout.ID_KIND_NONE, 0, 0, 0, 0, 0, 0, 0, bits)
        self._file.write(Header().pack())

    def add_table(
        self,
        table: TablePlan,
        keys: SortedKeys,
        *,
        with_ranks: bool = False,
        advance: Callable[[int], None] | None = None,
        counted: Callable[[int], None] | None = None,
    ) -> None:
        """Append the table of these keys: distinct fingerprints under the table's permutation, sorted.

        advance, counted: as of encode_table.
        """
        payload_offset = self._file.align()
        encoded = encode_table(
            keys,
            self._codec,
            self._slot_bits,
            self._file.write,
            with_ranks=with_ranks,
            advance=advance,
            counted=counted,
            bits=self._bits,
            block_bytes=self._block_bytes,
        )
        if self._tables and encoded.key_count != self._key_count:
            raise ValueError(f"table {len(self._tables)}: {encoded.key_count} keys, table 0 has {self._key_count}")
        self._key_count = encoded.key_count
        self._ranks = encoded.ranks if with_ranks else self._ranks
        directory_offset = 0 if encoded.block_bytes else self._file.align()
        self._file.write(encoded.directory)
        fence_count = len(encoded.fences) // layout.FENCE_BYTES
        fences_offset = self._file.align() if fence_count else 0
        self._file.write(encoded.fences)
        self._tables.append(
            TableRecord(
                table.prefix_mask,
                encoded.codec,
                encoded.slot_bits,
                encoded.rice_bits,
                table.flips,
                payload_offset,
                encoded.payload_bits,
                directory_offset,
                fences_offset,
                fence_count,
                encoded.code_lengths,
                self._bits,
                encoded.block_bytes,
            )
        )

    def stored(self, index: int) -> StoredTable:
        """The keys of a table that was added, read back from the file, to which nothing is added meanwhile."""
        return StoredTable(self._file.so_far(), self._tables[index], self._key_count, self._file.finish_piece)

    def add_ids(
        self,
        id_count: int,
        id_least: int,
        id_most: int,
        counts: Callable[[], Iterator[Keys]],
        ids: Callable[[], Iterator[Ids]],
        *,
        listing: Listing | None = None,
    ) -> None:
        """Append the ids, in table 0's order; table 0 was added with_ranks.

        Called for each pass: counts yields how many ids each fingerprint has (uint64), ids the ids themselves, the
        group of a fingerprint increasing; their chunks need not match. id_least, id_most: the smallest and the largest.
        listing: of a segment where a list of ids may be worth it.
        """
        if self._ranks is None:
            raise ValueError("ids need table 0 added with_ranks")
        ranks, rank_width, ranks_offset = self._ranks, self._key_count.bit_length(), 0

        def write_ranks() -> None:
            nonlocal ranks_offset
            ranks_offset = self._pack(rank_width, iter([ranks]))

        sizes = (self._key_count, id_count, id_least, id_most)
        found = self._write_ids(*sizes, counts, ids, listing=listing, before=write_ranks)
        no_ids = {name: getattr(self._ids, name) for name in SegmentRecord.__slots__}
        own = {"rank_width": rank_width, "ranks_offset": ranks_offset}
        self._ids = SegmentRecord(**{**no_ids, **found._asdict(), **own})

    def join(self, alone: Segment, *, ids: bool = False) -> None:
        """Append the one table of another segment, as add_table wrote it there; or, once all tables are there, its ids.

        Each page is checked on the way. ValueError for a table of other keys than the first.
        """
        record, (table,) = alone.record, alone.tables
        if self._tables and record.key_count != self._key_count:
            raise ValueError(f"{alone.path}: {record.key_count} keys, table 0 has {self._key_count}")
        end = alone.footer.summary_offset
        behind = end if record.id_kind == layout.ID_KIND_NONE else record.ranks_offset
        first, end = (behind, end) if ids else (table.payload_offset, behind)
        shift = self._file.align() - first

        def moved(offset: int) -> int:
            return offset + shift if offset else 0

        for at in range(first, end, JOINED_BYTES):
            stop = min(at + JOINED_BYTES, end)
            with alone.naming:
                alone.view.check(at, stop, "table")
            self._file.write(alone.read(at, stop - at))
            alone.forget(at // layout.PAGE_BYTES * layout.PAGE_BYTES, stop)
        if ids:
            self._ids = replace(
                record,
                ranks_offset=moved(record.ranks_offset),
                groups_offset=moved(record.groups_offset),
                samples_offset=moved(record.samples_offset),
                values_offset=moved(record.values_offset),
                list_offset=moved(record.list_offset),
            )
            return
        self._key_count = record.key_count
        self._tables.append(
            replace(
                table,
                payload_offset=moved(table.payload_offset),
                directory_offset=moved(table.directory_offset),
                fences_offset=moved(table.fences_offset),
            )
        )

    def finish(self, position: int = 1) -> SegmentEntry:
        """Write the footer, make the file durable, read it back and check it. Returns what the catalog is to say of it.

        position: that of the entry. Raises CorruptStore where the file does not read back as it was written.
        """
        fields = {name: getattr(self._ids, name) for name in SegmentRecord.__slots__}
        fields |= {"table_count": len(self._tables), "key_count": self._key_count}
        summary = Summary(SegmentRecord(**fields), tuple(self._tables)).pack()
        crc = self._seal(summary, len(self._tables))
        name = self._at.name[: len(segment_name(0))]  # one that is not published yet has more to its name
        return SegmentEntry(name, self._file.offset, self._key_count, self._ids.id_count, crc, position)
