"""Reads everything of one state of a store and checks it: how much that was, or every place that is damaged."""

from dataclasses import dataclass

from fpstore.disk import Folder
from fpstore.errors import CorruptStore, corrupt
from fpstore.living.naming import names_damage
from fpstore.living.snapshot import Snapshot
from fpstore.notes import record_damage
from fpstore.progress import Tell
from fpstore.segment.verify import verify_segment


@dataclass(frozen=True)
class Verified:
    """What was read and found sound. A fingerprint that is in several segments is counted in each."""

    segments: int
    tables: int
    fingerprints: int
    ids: int
    pending: int
    removals: int
    size_bytes: int


def verify_snapshot(snapshot: Snapshot, home: Folder, progress: Tell | None = None) -> Verified:
    """Read every segment, and what jobs keep in home, the store's folder.

    Raises CorruptStore whose damage lists every damaged place of all of them.
    """
    damage = record_damage(home)
    for part in snapshot.parts:
        try:
            verify_segment(part.segment, snapshot.plan, progress)
        except CorruptStore as error:
            damage += error.damage
        if part.names is not None:
            damage += names_damage(part)
    if damage:
        raise corrupt(damage)
    segments = [part.segment for part in snapshot.parts]
    return Verified(
        segments=len(segments),
        tables=sum(len(segment.tables) for segment in segments),
        fingerprints=sum(segment.key_count for segment in segments),
        ids=sum(segment.record.id_count for segment in segments),
        pending=snapshot.pending_end,
        removals=len(snapshot.removals),
        size_bytes=sum(segment.file_bytes for segment in segments)
        + sum(part.names.file_bytes for part in snapshot.parts if part.names is not None),
    )
