"""What holds the rows that are in no segment yet: an index of keys, or codes that are all compared; how much room."""

from typing import Any

from fpstore._pending import PendingIndex
from fpstore.codes.pending import PendingCodes
from fpstore.living.state import Settings
from fpstore.plans.plan import Plan

MIN_PENDING_ROOM = 1024
# As many rows as are pending for long: an index with more room than it needs has its buckets further apart.
ENOUGH_PENDING_ROOM = 1 << 18


def pending_index(plan: Plan, settings: Settings, capacity: int) -> Any:
    """An empty index for rows that are not in a segment yet: a PendingIndex, of wide codes PendingCodes."""
    if settings.is_wide:
        return PendingCodes(settings.width, with_ids=settings.ids, capacity=capacity)
    masks = [table.prefix_mask for table in plan.tables]
    flips = [table.flips for table in plan.tables]
    distance = plan.max_distance
    return PendingIndex(masks, flips, with_ids=settings.ids, capacity=capacity, bits=plan.bits, max_distance=distance)


def room_for(count: int) -> int:
    """For so many rows and more: what grows is copied, so it grows by much, up to a point."""
    room = MIN_PENDING_ROOM
    while room < count:
        room *= 4 if room < ENOUGH_PENDING_ROOM else 2
    return room
