"""What a table of wide codes, and a slot of it, hold, as plain values for people who look; segment/showing.py's way."""

import numpy as np

from fpstore.checks import hexadecimal
from fpstore.codes.layout import CodeTableRecord
from fpstore.codes.reader import CodesSegment
from fpstore.codes.salvage import CodesWreck
from fpstore.errors import CorruptStore
from fpstore.fingerprints import as_hexadecimal
from fpstore.format import CODECS
from fpstore.segment.fields import read_packed
from fpstore.segment.pages import region_name
from fpstore.segment.showing import (
    Fields,
    Inspection,
    check_shown,
    expect_table,
    places_of,
    prefix_fields,
    table_regions,
)
from fpstore.types import Counts

STARTS_AT_ONCE = 1 << 17


def show_codes_table(seen: Inspection, found: CodesSegment | CodesWreck, table: int, most: int | None) -> None:
    """A table: which bits it goes by, its regions and its slots. ValueError for one that is not there."""
    record = _expect_table(found, table)
    regions = table_regions(found, table)
    seen.fields |= {
        "table": table,
        "codec": CODECS[record.codec],
        **prefix_fields(record.prefix_mask, record.key_bits, record.flips),
        "slot_bits": record.slot_bits,
        "tag_bits": record.tag_bits,
        "key_count": found.record.key_count,
        # Without entries the codes are in the order of the table.
        "in_order": record.in_order,
        "entry_bits": 0 if record.in_order else record.entry_bits,
        "start_bytes": found.record.start_bytes,
        "regions": places_of(regions),
    }
    for region in regions.values():
        with seen.noting():
            check_shown(found, region.offset, region.offset + region.bytes, region_name(region))
    shown: list[Fields] = []
    used, fullest = 0, 0
    for first in range(0, 1 << record.slot_bits, STARTS_AT_ONCE):
        starts = _starts(found, record, first, min(first + STARTS_AT_ONCE, 1 << record.slot_bits))
        counts = np.diff(starts)
        shown += [
            {"slot": first + slot, "first_entry": int(starts[slot]), "entry_count": int(counts[slot])}
            for slot in np.flatnonzero(counts)[: None if most is None else max(0, most - len(shown))].tolist()
        ]
        used, fullest = used + int(np.count_nonzero(counts)), max(fullest, int(counts.max()))
    seen.fields["entries_most"] = fullest
    seen.put("used_slots", shown, used, most)


def show_codes_slot(
    seen: Inspection, found: CodesSegment | CodesWreck, table: int, slot: int, most: int | None
) -> None:
    """The entries of a slot: each with its tag, and the rank, the fingerprint and the ids of its code.

    ValueError for a table or a slot that is not there.
    """
    record = _expect_table(found, table)
    if not 0 <= slot < 1 << record.slot_bits:
        raise ValueError(f"slot: found {slot}, expected 0..{(1 << record.slot_bits) - 1}")
    seen.fields |= {"table": table, "slot": slot, "slot_count": 1 << record.slot_bits, "tag_bits": record.tag_bits}
    width = found.record.start_bytes
    with seen.noting():
        at = record.starts_offset + slot * width
        check_shown(found, at, at + 2 * width, f"table {table} starts")
    first, end = _starts(found, record, slot, slot + 1).tolist()
    if not 0 <= first <= end <= found.record.key_count:
        with seen.noting():
            raise CorruptStore(f"table {table}, slot {slot}", f"entries {first} to {end}", found.record.key_count)
        first = end = 0
    stop = end if most is None else min(end, first + most)
    rows = [_entry(seen, found, record, table, entry, most) for entry in range(first, stop)]
    seen.put("keys", rows, end - first, most)


def _entry(
    seen: Inspection,
    found: CodesSegment | CodesWreck,
    record: CodeTableRecord,
    table: int,
    entry: int,
    most: int | None,
) -> Fields:
    rank, tag = entry, 0
    if not record.in_order:
        bit, offset = entry * record.entry_bits, record.entries_offset
        with seen.noting():
            start, stop = bit // 8, -(-(bit + record.entry_bits) // 8)
            check_shown(found, offset + start, offset + stop, f"table {table} entries")
        (value,) = read_packed(found, offset, record.entry_bits, entry, 1).tolist()
        rank, tag = value >> record.tag_bits, value & ((1 << record.tag_bits) - 1)
    row: Fields = {"entry": entry, "tag": hexadecimal(tag, record.tag_bits), "rank": rank}
    return row | _code(seen, found, rank, most)


def _code(seen: Inspection, found: CodesSegment | CodesWreck, rank: int, most: int | None) -> Fields:
    """The code of a rank, and its ids in this segment where they can be read."""
    size = found.record.code_bytes
    offset = found.record.codes_offset + rank * size
    row: Fields = {"fingerprint": None}
    with seen.noting():
        if rank >= found.record.key_count:
            raise CorruptStore("rank", rank, f"one of {found.record.key_count}")
        code = np.frombuffer(found.read(offset, size), dtype="<u8").astype(np.uint64)
        row["fingerprint"] = as_hexadecimal(code[np.newaxis])[0]
        check_shown(found, offset, offset + size, "codes")
    if isinstance(found, CodesSegment) and found.ids is not None:
        row |= {"id_count": None, "ids": None}
        with seen.noting(), found.naming:
            if rank < found.record.key_count:
                _, ids = found.ids_of(np.array([rank], dtype=np.uint64))
                row |= {"id_count": len(ids), "ids": [str(each) for each in ids[:most].tolist()]}
    return row


def _starts(found: CodesSegment | CodesWreck, record: CodeTableRecord, first: int, end: int) -> Counts:
    """Where the entries of slots [first, end) begin, and where the last one ends."""
    width = found.record.start_bytes
    data = found.read(record.starts_offset + first * width, (end - first + 1) * width)
    starts: Counts = np.frombuffer(data, dtype=f"<u{width}").astype(np.int64)
    return starts


def _expect_table(found: CodesSegment | CodesWreck, table: int) -> CodeTableRecord:
    expect_table(found, table)
    return found.tables[table]
