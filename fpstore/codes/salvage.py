"""What is left of a damaged segment of wide codes: those of its sound pages, with their ids, and what is gone.

There is one copy of the codes, so one that lies in a damaged page is lost; its ids with it. Tables tell nothing that
codes do not, and damage to them costs nothing.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from fpstore import format as layout
from fpstore.codes.layout import KIND_CODES, CodesRecord, CodesSummary, CodeTableRecord
from fpstore.codes.sorting import Groups, Spool
from fpstore.codes.writer import CodesWriter, Encoder
from fpstore.format import MAX_BLOCK_KEYS, PAGE_BYTES
from fpstore.plans.plan import Plan
from fpstore.segment.entry import segment_name
from fpstore.segment.salvage import LeftIds, Salvaged
from fpstore.segment.wreck import AnyWreck
from fpstore.types import Array, Ids, Keys

PIECE_CODES = 1 << 16
# For sorting a table that is made again.
MEMORY_BYTES = 64 << 20


class CodesWreck(AnyWreck):
    """A segment of wide codes as it can be read."""

    KIND, SUMMARY = KIND_CODES, CodesSummary
    summary: CodesSummary
    record: CodesRecord  # type: ignore[assignment]
    tables: tuple[CodeTableRecord, ...]  # type: ignore[assignment]

    def codes(self) -> Iterator[tuple[int, Keys, Array]]:
        """All codes in pieces: the rank of the first, the codes as they lie, and which are sound, bool[n]."""
        record = self.record
        for first in range(0, record.key_count, PIECE_CODES):
            count = min(PIECE_CODES, record.key_count - first)
            starts = record.codes_offset + (first + np.arange(count, dtype=np.int64)) * record.code_bytes
            data = self.read(int(starts[0]), count * record.code_bytes)
            codes = np.frombuffer(data, dtype="<u8").reshape(count, record.words).astype(np.uint64)
            yield first, codes, self.are_sound(starts, starts + record.code_bytes)

    def try_guess(self, plan: Plan, scratch: Path) -> None:
        """Take what a damaged page says if it is proven by what is sound.

        A page that holds bytes of a table and of something else is damaged as a whole. Where the tables that are made
        of the codes as they lie have the checksum that was written for such a page, all of it is right.
        """
        record = self.record
        codes_end = record.codes_offset + record.key_count * record.code_bytes
        tables_end = max(each.offset + each.bytes for each in self.regions() if each.table is not None)
        pages = np.flatnonzero(~self.sound[: -(-tables_end // PAGE_BYTES)])
        shared = (pages * PAGE_BYTES < self.tables[0].starts_offset) | ((pages + 1) * PAGE_BYTES > tables_end)
        if not shared.any() or not self.is_sound(0, codes_end // PAGE_BYTES * PAGE_BYTES):
            return
        made = scratch / segment_name(1)
        try:
            self._make_again(made, plan, scratch)
            with made.open("rb") as file:
                for page in pages[shared].tolist():
                    file.seek(page * PAGE_BYTES)
                    self.put_back(page * PAGE_BYTES, file.read(min(PAGE_BYTES, tables_end - page * PAGE_BYTES)))
        finally:
            made.unlink(missing_ok=True)

    def _make_again(self, path: Path, plan: Plan, scratch: Path) -> None:
        """Write the segment of the codes as they lie, without ids."""
        record, slot_bits = self.record, max(table.slot_bits for table in self.tables)
        slot_keys = min(max(1, record.key_count >> slot_bits), MAX_BLOCK_KEYS)
        spool = Spool(scratch, record.words)
        with closing(spool):
            for _, codes, _ in self.codes():
                spool.add(codes)
            groups = Groups(spool, record.words)
            own = replace(plan, slot_keys=slot_keys)
            with CodesWriter(path, groups, own, Encoder(groups, own, scratch, MEMORY_BYTES)) as writer:
                writer.write(lambda phase, done, total: None)


def salvage_codes(
    wreck: CodesWreck, plan: Plan, scratch: Path, salvaged: Salvaged
) -> Iterator[tuple[Keys, Ids | None]]:
    """The rows of a segment that are left, in order: codes, one for each id, and ids.

    plan: what the segment was made by. scratch: a folder for a segment made again. Raises CorruptStore, before the
    first row, where the records are not what was written.
    """
    wreck.try_guess(plan, scratch)
    wreck.expect_certain()
    ids = LeftIds(wreck) if wreck.record.id_kind != layout.ID_KIND_NONE else None
    for first, codes, sound in wreck.codes():
        left = int(np.count_nonzero(sound))
        salvaged.fingerprints += left
        salvaged.fingerprints_lost += len(codes) - left
        yield (codes[sound], None) if ids is None else ids.rows(first, codes, salvaged, sound)
    salvaged.end(wreck)
