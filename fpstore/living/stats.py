"""What a store holds and how, as its records say it: nothing is decoded."""

from dataclasses import asdict, dataclass
from typing import Any

from fpstore.living.snapshot import Snapshot
from fpstore.plans.plan import Plan
from fpstore.segment import report as reports
from fpstore.segment.report import SegmentStats


@dataclass(frozen=True)
class Stats:
    """What a store holds and how.

    fingerprint_count: None where they are not in one segment, as only count, which reads them, would tell.
    pending_count: what was added and is in no segment yet. removal_count: removals that mask what is in segments.
    """

    path: str
    max_distance: int
    bits: int
    plan: Plan
    codec: str
    id_type: str | None
    recipe: dict[str, Any] | None
    fingerprint_count: int | None
    pending_count: int
    removal_count: int
    segments: tuple[SegmentStats, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; the plan as Plan.from_json reads it."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "plan": self.plan.to_json(),
            "segments": [asdict(segment) for segment in self.segments],
        }


def stats_of(snapshot: Snapshot, path: str, largest_slots: int) -> Stats:
    """Of a store at path. largest_slots: as in Store.stats."""
    settings = snapshot.settings
    return Stats(
        path=path,
        max_distance=settings.max_distance,
        bits=settings.bits,
        plan=snapshot.plan,
        codec=settings.codec,
        id_type=settings.id_type,
        recipe=settings.recipe,
        fingerprint_count=snapshot.key_count if snapshot.is_plain or snapshot.is_empty else None,
        pending_count=snapshot.pending_end,
        removal_count=len(snapshot.removals),
        segments=tuple(reports.stats(part.segment, largest_slots) for part in snapshot.parts),
    )
