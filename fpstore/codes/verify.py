"""Reads everything of a segment of wide codes and names what is wrong in it, as segment/verify.py does of others.

Codes increase. Of each table the starts go from 0 to their number, and entries increase by slot, tag and rank; the code
of each rank has that slot and tag. So every table has every code once. What lies between is zeros.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from fpstore._codes import code_keys
from fpstore.codes.layout import CodeTableRecord
from fpstore.codes.reader import CodesSegment
from fpstore.errors import corrupt
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.fields import read_packed
from fpstore.segment.pages import PageDamage, check_pages, fault, near
from fpstore.segment.verify import (
    ID_REGIONS,
    FoundDamage,
    are_spared,
    check_ids,
    check_last_bits,
    check_padding,
    check_plan,
    id_streams,
)
from fpstore.types import Keys

PIECE_ENTRIES = 1 << 17


def verify_codes(segment: CodesSegment, plan: Plan, progress: Tell | None = None) -> None:
    """Read the whole segment; raise CorruptStore, whose damage has every damaged page and each part's first fault."""
    advance = progress or (lambda phase, done, total: None)
    damage = FoundDamage()
    known: list[PageDamage] = []
    if damage.passes(lambda: known.append(check_pages(segment, advance))):
        pages = known[0]
        damage.found += pages.damage
        if damage.passes(lambda: check_plan(segment, plan)):
            damage.passes(lambda: _check_zeros(segment, pages))
            if are_spared(segment, pages, ("codes",)) and damage.passes(lambda: _check_order(segment)):
                for index in range(len(segment.tables)):
                    if are_spared(segment, pages, ("starts", "entries"), index):
                        damage.passes(partial(_TableCheck(segment, index).run, advance))
            if segment.ids is not None and are_spared(segment, pages, ID_REGIONS):
                damage.passes(lambda: check_ids(segment, advance))
    if damage.found:
        raise corrupt([replace(each, segment=str(segment.path)) for each in damage.found])


def _check_zeros(segment: CodesSegment, pages: PageDamage) -> None:
    check_padding(segment, pages)
    streams = [
        (f"table {index} entries", table.entries_offset, table.entry_bits * segment.key_count)
        for index, table in enumerate(segment.tables)
        if not table.in_order
    ]
    check_last_bits(segment, pages, [*streams, *id_streams(segment.record)])


def _check_order(segment: CodesSegment) -> None:
    """Codes increase strictly, which whoever reads them looks at."""
    for _ in segment.code_chunks():
        pass


class _TableCheck:
    """One table."""

    def __init__(self, segment: CodesSegment, index: int) -> None:
        self._segment, self._index = segment, index
        self._record: CodeTableRecord = segment.tables[index]

    def run(self, advance: Tell) -> None:
        """Raise CorruptStore at the first thing wrong."""
        starts = self._starts()
        if self._record.in_order:
            self._check_codes(starts)
        else:
            self._check_entries(starts, advance)

    def _starts(self) -> Keys:
        record = self._record
        data = self._segment.read(record.starts_offset, record.starts_bytes)
        starts = np.frombuffer(data, dtype=f"<u{record.starts_bytes // ((1 << record.slot_bits) + 1)}")
        if int(starts[0]) != 0 or int(starts[-1]) != self._segment.key_count:
            found = f"{starts[0]} to {starts[-1]}"
            raise fault(f"table {self._index} starts", found, f"0 to {self._segment.key_count}")
        if (starts[1:] < starts[:-1]).any():
            slot = int(np.argmax(starts[1:] < starts[:-1]))
            raise fault(f"table {self._index} starts, slot {slot + 1}", starts[slot + 1], f"{starts[slot]} or more")
        return starts

    def _check_codes(self, starts: Keys) -> None:
        """Where codes are in the order of the table, each lies in its slot."""
        rank, mask = 0, self._record.used_mask
        for codes in self._segment.code_chunks():
            self._expect_slots(starts, rank, code_keys(codes, mask))
            rank += len(codes)

    def _expect_slots(self, starts: Keys, first: int, slots: Keys) -> None:
        """Entries from `first` on, of these slots, lie where their slots do."""
        at = np.arange(first, first + len(slots))
        own = slots.astype(np.int64)
        wrong = (starts[own] > at) | (starts[own + 1] <= at)
        if wrong.any():
            entry = int(np.argmax(wrong))
            raise fault(f"table {self._index}, entry {first + entry}", f"one of slot {slots[entry]}", "one of its slot")

    def _check_entries(self, starts: Keys, advance: Tell) -> None:
        segment, record, count = self._segment, self._record, self._segment.key_count
        tag_bits, mask, last = record.tag_bits, record.used_mask, None
        for first in range(0, count, PIECE_ENTRIES):
            piece = min(PIECE_ENTRIES, count - first)
            offset = record.entries_offset + first * record.entry_bits // 8
            with near(segment, offset, offset + piece * record.entry_bits // 8):
                entries = read_packed(segment, record.entries_offset, record.entry_bits, first, piece)
            ranks = entries >> np.uint64(tag_bits)
            if int(ranks.max()) >= count:
                raise fault(f"table {self._index}, entries", f"rank {ranks.max()}", f"one of {count}")
            keys = code_keys(segment.codes.gather(ranks), mask)
            tags = np.uint64((1 << tag_bits) - 1)
            if (wrong := (keys & tags) != (entries & tags)).any():
                entry = int(np.argmax(wrong))
                where = f"table {self._index}, entry {first + entry}, tag"
                raise fault(where, entries[entry] & tags, f"{keys[entry] & tags} of code {ranks[entry]}")
            self._expect_slots(starts, first, keys >> np.uint64(tag_bits))
            self._expect_order(first, keys, ranks, last)
            last = int(keys[-1]), int(ranks[-1])
            advance("verify tables", self._index * count + first + piece, count * len(segment.tables))

    def _expect_order(self, first: int, keys: Keys, ranks: Keys, last: tuple[int, int] | None) -> None:
        """Entries increase by key, then by rank; so none comes twice."""
        rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (ranks[1:] > ranks[:-1]))
        if last is not None and (int(keys[0]), int(ranks[0])) <= last:
            raise fault(f"table {self._index}, entry {first}", f"rank {ranks[0]}", "an entry behind the one before")
        if not rising.all():
            entry = int(np.argmin(rising)) + 1
            raise fault(
                f"table {self._index}, entry {first + entry}", f"rank {ranks[entry]}", "one behind the one before"
            )
