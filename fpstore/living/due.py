"""Which segments of a store are to be merged now, and who has to wait for it, by the sizes that its writer goes by."""

import time
from collections.abc import Collection, Sequence

from fpstore.living.live import Live
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot

# Of a merge of small segments, on a processor that others use too.
MERGED_ROW_SECONDS = 2e-7


def due(snapshot: Snapshot, sizes: LivingSizes) -> tuple[Live, ...]:
    """Those that are to be merged into one; none where there is nothing to do."""
    if removal_count(snapshot) > removal_limit(snapshot, sizes):
        return _largest_first(snapshot.parts)
    return due_beside((), snapshot, sizes)


def due_beside(busy: Collection[str], snapshot: Snapshot, sizes: LivingSizes) -> tuple[Live, ...]:
    """Those that are to be merged while the segments of these names are in a merge, whatever was removed."""
    parts = _largest_first([part for part in snapshot.parts if part.segment.path.name not in busy])
    return parts[sizes.first_due([part.segment.key_count for part in parts]) :]


def flush_due(snapshot: Snapshot, sizes: LivingSizes, merging: bool) -> int:
    """How many rows or changes in the log are worth a segment now. merging: whether a merge is under way."""
    removals = snapshot.removals
    # Where there are many, everything is merged after it.
    many = bool(removals) and not merging and len(removals) > removal_limit(snapshot, sizes)
    return 1 if many or snapshot.name_bytes >= sizes.flush_name_bytes else sizes.flush_rows


def give_way(rows: int, snapshot: Snapshot, sizes: LivingSizes) -> None:
    """Wait a little before adding so many rows, where merges fall behind: the longer, the more segments there are.

    Each segment costs every search. So who adds as fast as it can comes to add as fast as segments are merged, with no
    long wait at any time.
    """
    behind = len(snapshot.parts) - 2 * sizes.small_segments
    if behind > 0:
        time.sleep(rows * behind * MERGED_ROW_SECONDS)


def removal_limit(snapshot: Snapshot, sizes: LivingSizes) -> int:
    """More removals than that are worth a merge of everything."""
    return sizes.removal_limit(sum(part.segment.key_count for part in snapshot.parts))


def removal_count(snapshot: Snapshot) -> int:
    """How many removals a merge of all segments would be rid of."""
    oldest = min((part.position for part in snapshot.parts), default=snapshot.state.next_change)
    return len(snapshot.removals.since(oldest))


def _largest_first(parts: Sequence[Live]) -> tuple[Live, ...]:
    return tuple(sorted(parts, key=lambda part: -part.segment.key_count))
