"""Reads everything of one state of a store and checks it: how much that was, or every place that is damaged."""

from dataclasses import asdict, dataclass
from typing import Any

from fpstore.codes.reader import CodesSegment
from fpstore.codes.verify import verify_codes
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, corrupt
from fpstore.living.naming import names_damage
from fpstore.living.sketched import sketches_damage
from fpstore.living.snapshot import Snapshot
from fpstore.notes import record_damage
from fpstore.progress import Tell
from fpstore.segment.verify import verify_segment


@dataclass(frozen=True)
class Verified:
    """What was read and found sound. A fingerprint that is in several segments is counted in each.

    fingerprint_count, id_count: in segments. pending_count, pending_id_count: the rows that are in none yet, and the
    ids that these have: as many, or none in a store without ids.
    """

    segment_count: int
    table_count: int
    fingerprint_count: int
    id_count: int
    pending_count: int
    pending_id_count: int
    removal_count: int
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name."""
        return asdict(self)


def verify_snapshot(snapshot: Snapshot, home: Folder, progress: Tell | None = None) -> Verified:
    """Read every segment, and what jobs keep in home, the store's folder.

    Raises CorruptStore whose damage lists every damaged place of all of them.
    """
    damage = record_damage(home, snapshot.settings.width)
    for part in snapshot.parts:
        try:
            if isinstance(part.segment, CodesSegment):
                verify_codes(part.segment, snapshot.plan, progress)
            else:
                verify_segment(part.segment, snapshot.plan, progress)
        except CorruptStore as error:
            damage += error.damage
        if part.names:
            damage += names_damage(part)
        damage += sketches_damage(part)
    if damage:
        raise corrupt(damage)
    segments = [part.segment for part in snapshot.parts]
    return Verified(
        segment_count=len(segments),
        table_count=sum(len(segment.tables) for segment in segments),
        fingerprint_count=sum(segment.key_count for segment in segments),
        id_count=sum(segment.record.id_count for segment in segments),
        pending_count=snapshot.pending_count,
        pending_id_count=snapshot.pending_count if snapshot.settings.ids else 0,
        removal_count=len(snapshot.removals),
        size_bytes=sum(segment.file_bytes for segment in segments)
        + sum(file.file_bytes for part in snapshot.parts for file in part.beside),
    )
