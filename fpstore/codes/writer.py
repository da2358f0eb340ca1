"""Writes a segment of wide codes: codes in order, a table for each prefix, the ids; in a stated budget."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore._codec import PackedWriter
from fpstore._codes import code_keys
from fpstore.building.spill import MIN_MEMORY_BYTES, PairSorter
from fpstore.codes.layout import (
    KIND_CODES,
    CodesRecord,
    CodesSummary,
    CodeTableRecord,
    is_in_order,
    rank_bits,
    start_bytes,
    tag_bits,
)
from fpstore.codes.sorting import Groups
from fpstore.disk import Place
from fpstore.format import Header
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.entry import SegmentEntry, segment_name
from fpstore.segment.ids import IdFields, IdsWriter
from fpstore.types import Bytes, Keys


class EncodedTable(NamedTuple):
    """A table as it lies in a file. record: without the offsets. starts, entries: the bytes of these."""

    record: CodeTableRecord
    starts: Iterable[Bytes]
    entries: Iterable[Bytes]


# Gives a table of the plan, by its index, and tells how many codes were gone through.
Encode = Callable[[int, Callable[[int], None]], EncodedTable]


class CodesWriter(IdsWriter):
    """Writes a segment of wide codes. Use as a context: leaving it before finish() removes the file."""

    def __init__(self, at: Path | Place, groups: Groups, plan: Plan, encode: Encode) -> None:
        """Create the file; FileExistsError if it is there. encode: gives the tables."""
        super().__init__(at)
        self._groups, self._plan, self._encode = groups, plan, encode
        self._file.write(Header(KIND_CODES).pack())

    def write(self, report: Tell, position: int = 1) -> SegmentEntry:
        """Write everything, make the file durable, read it back and check it. What the catalog is to say of it."""
        groups, bits = self._groups, self._plan.bits
        codes_offset = self._file.align()
        for codes in groups.codes():
            self._file.write(codes.astype("<u8", copy=False).view(np.uint8).ravel())
        tables = []
        for index in range(len(self._plan.tables)):
            phase = f"table {index + 1} of {len(self._plan.tables)}"
            tables.append(self._write_table(self._encode(index, partial(self._tell, report, phase))))
        report("ids", 0, None)
        ids = IdFields()
        if groups.with_ids:
            least, most = (groups.least, groups.most) if groups.row_count else (0, 0)
            sizes = (groups.count, groups.row_count, least, most)
            ids = self._write_ids(*sizes, groups.counts, groups.ids, listing=None)
        record = CodesRecord.of(bits, len(tables), groups.count, codes_offset, ids)
        crc = self._seal(CodesSummary(record, tuple(tables)).pack(), len(tables))
        name = self._at.name[: len(segment_name(0))]
        return SegmentEntry(name, self._file.offset, groups.count, ids.id_count, crc, position)

    def _tell(self, report: Tell, phase: str, done: int) -> None:
        report(phase, done, self._groups.count)

    def _write_table(self, table: EncodedTable) -> CodeTableRecord:
        starts_offset = self._write_all(table.starts)
        entries_offset = 0 if table.record.in_order else self._write_all(table.entries)
        return replace(table.record, starts_offset=starts_offset, entries_offset=entries_offset)

    def _write_all(self, region: Iterable[Bytes]) -> int:
        offset = self._file.align()
        for piece in region:
            self._file.write(piece)
        return offset


class Encoder:
    """Makes the tables of a plan of sorted codes, in a stated budget. scratch: a folder for spill files."""

    def __init__(self, groups: Groups, plan: Plan, scratch: Path, memory_bytes: int) -> None:
        self._groups, self._plan, self._scratch = groups, plan, scratch
        self._memory_bytes = max(memory_bytes, MIN_MEMORY_BYTES)

    def __call__(self, index: int, tell: Callable[[int], None]) -> EncodedTable:
        """The table of that index, whose bytes are to be taken to their end."""
        table, count, bits = self._plan.tables[index], self._groups.count, self._plan.bits
        slot_bits = min(planner.slot_bits(count, self._plan.slot_keys), table.prefix_bits)
        in_order = is_in_order(table.prefix_mask, bits)
        own_bits = tag_bits(table.prefix_bits, slot_bits, count, in_order)
        record = CodeTableRecord(table.prefix_mask, slot_bits, own_bits, table.flips, 0, 0, bits, count)
        starts = np.zeros((1 << slot_bits) + 1, dtype=f"<u{start_bytes(count)}")
        if in_order:
            for keys, _ in self._keys(record, tell):
                _count_slots(starts, keys)
            return EncodedTable(record, _summed(starts), ())
        sorter = PairSorter(self._scratch, self._memory_bytes)
        for keys, ranks in self._keys(record, tell):
            _count_slots(starts, keys >> np.uint64(own_bits))
            sorter.add(keys, ranks)
        return EncodedTable(record, _summed(starts), self._entries(sorter, own_bits))

    def _keys(self, record: CodeTableRecord, tell: Callable[[int], None]) -> Iterator[tuple[Keys, Keys]]:
        """The key of each code, slot and tag, and its rank."""
        rank, mask = 0, record.used_mask
        tell(0)
        for codes in self._groups.codes():
            if rank:
                tell(rank)
            yield code_keys(codes, mask), np.arange(rank, rank + len(codes), dtype=np.uint64)
            rank += len(codes)

    def _entries(self, sorter: PairSorter, own_bits: int) -> Iterator[Bytes]:
        packed = PackedWriter(rank_bits(self._groups.count) + own_bits)
        tags = np.uint64((1 << own_bits) - 1)
        with closing(sorter.finish()) as pairs:
            for keys, ranks in pairs.chunks():
                yield packed.push(ranks << np.uint64(own_bits) | keys & tags)
        yield packed.finish()


def _summed(counts: Keys) -> list[Bytes]:
    np.cumsum(counts, out=counts)
    return [counts.view(np.uint8)]


def _count_slots(starts: Keys, slots: Keys) -> None:
    """Count slots, each one place behind its own: the sum of all up to it is where it begins."""
    distinct, counts = np.unique(slots, return_counts=True)
    starts[distinct.astype(np.int64) + 1] += counts.astype(starts.dtype)
