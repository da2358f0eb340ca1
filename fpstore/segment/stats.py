"""What the records of a segment say of it, without a look at what it holds."""

from dataclasses import dataclass
from typing import Any

from fpstore import format as layout
from fpstore.segment.crowding import crowding_warnings, largest_slots
from fpstore.segment.reader import Segment
from fpstore.segment.report import GROUPS, Sizes, each_of, record_json


@dataclass(frozen=True)
class SegmentStats:
    """What the records of a segment say. tables: of each, what its record says, and its bytes.

    warnings: of prefixes that are crowded, where it was looked for them.
    """

    name: str
    codec: str
    fingerprint_count: int
    id_count: int
    id_bits: int
    payload_bytes: int
    directory_bytes: int
    fences_bytes: int
    ids_bytes: int
    rest_bytes: int
    total_bytes: int
    bits_per_fingerprint: float | None
    tables: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]


def stats(segment: Segment, largest_count: int = 0) -> SegmentStats:
    """What the records of a segment say; takes no time, whatever the size.

    largest_count: so many of the fullest slots of each table are named, and crowded ones warned of, which reads the
    directories.
    """
    with segment.naming:
        sizes = Sizes.of(segment)
    tables = []
    for index, record in enumerate(segment.tables):
        table = record_json(index, record)
        table["total_bytes"] = Sizes.of(segment, index).total
        if largest_count:
            table["largest_slots"] = [slot.to_json() for slot in largest_slots(segment, index, largest_count)]
        tables.append(table)
    return SegmentStats(
        name=segment.path.name,
        codec=layout.CODECS[segment.tables[0].codec],
        fingerprint_count=segment.key_count,
        id_count=segment.record.id_count,
        id_bits=segment.record.id_width,
        **{f"{name}_bytes": size for name, size in sizes.named(GROUPS).items()},
        bits_per_fingerprint=each_of(8 * sizes.total, segment.key_count),
        tables=tuple(tables),
        warnings=tuple(crowding_warnings(segment)) if largest_count else (),
    )
