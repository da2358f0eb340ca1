"""What the writer keeps in memory of segments that it has just made, and when it lets go of that.

The log becomes a segment when it is small, so that whoever opens the store has little to index. A search of many small
segments costs more than one of their rows in memory, where the writer had them: it goes on to search these, until the
segments are merged, or rows become a segment of which it has searched none. It is the same content twice, of which a
search looks at one; who opens the store anew has the segments alone.
"""

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fpstore._names_pending import hashed
from fpstore._pending import PendingIndex
from fpstore.living.changes import RemovedBefore
from fpstore.living.live import Live
from fpstore.living.naming import StoreNames
from fpstore.living.removals import Removals
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.living.waiting import MIN_PENDING_ROOM
from fpstore.names.pending import LogNames
from fpstore.segment.entry import SegmentEntry
from fpstore.types import Ids


@dataclass(frozen=True, eq=False)
class Ahead:
    """An index with the rows of source from `first` on, made for the next snapshot while others may add."""

    source: PendingIndex
    first: int
    index: PendingIndex


def ahead(
    before: Snapshot, key_count: int, dropped: Collection[str], first_change: int | None, sizes: LivingSizes
) -> Ahead | None:
    """What `published` will want, if it is to have many rows in order: who adds would wait for that there.

    key_count, dropped, first_change: of the segment that is to be published, in place of those or of these changes.
    """
    kept = [part.held_from for part in before.parts if part.segment.path.name not in dropped]
    own = held_from(key_count, before, dropped, first_change is not None, sizes)
    start, _ = _kept(before, first_change or before.state.first_change, [*kept, own], sizes)
    if before.pending.searched <= start or _goes_on(before, start, sizes):
        return None
    return Ahead(before.pending, start, before.pending.grown(_room(before, start, sizes), start))


def held_from(key_count: int, before: Snapshot, dropped: Collection[str], flushed: bool, sizes: LivingSizes) -> int:
    """The held_from of a new segment of the pending rows of `before`, or of the dropped segments.

    Held where all of its rows are; large ones are not, nor those with names, which are looked for in files, nor
    those of signatures.
    """
    gone = [part.held_from for part in before.parts if part.segment.path.name in dropped]
    origins = [before.state.first_change] if flushed else gone
    small = key_count < sizes.small_rows and not before.settings.flushes_late
    return min(origins, default=0) if small else 0


class Replacement(NamedTuple):
    """What follows a snapshot where a segment is published. removed: what the catalog is to keep, None for the same."""

    entries: tuple[SegmentEntry, ...]
    parts: tuple[Live, ...]
    first_change: int
    removals: Removals
    removed: tuple[RemovedBefore, ...] | None


def replacement(
    snapshot: Snapshot,
    made: tuple[SegmentEntry, Live] | None,
    dropped: Collection[str],
    first_change: int | None,
    sizes: LivingSizes,
) -> Replacement:
    """What follows it: the segment made, if any, in place of those dropped or of the changes before first_change."""
    named = zip(snapshot.state.segments, snapshot.parts, strict=True)
    kept = [(old, part) for old, part in named if old.name not in dropped]
    if made is not None:
        entry, part = made
        since = held_from(entry.key_count, snapshot, dropped, first_change is not None, sizes)
        kept.append((entry, dataclasses.replace(part, held_from=since)))
    first = first_change or snapshot.state.first_change
    oldest = min((part.position for _, part in kept), default=snapshot.state.next_change)
    removals = snapshot.removals.since(min(oldest, first))
    same = len(removals) == len(snapshot.removals) and removals.last_position < snapshot.state.first_change
    removed = None if same else tuple(removals.records_before(first))
    return Replacement(tuple(old for old, _ in kept), tuple(part for _, part in kept), first, removals, removed)


def published(
    before: Snapshot,
    state: State,
    following: Replacement,
    sizes: LivingSizes,
    made: Ahead | None = None,
) -> Snapshot:
    """The snapshot before with other segments, without the pending rows that are in one, unless that is held."""
    parts, removals = following.parts, following.removals
    start, holds = _kept(before, state.first_change, [part.held_from for part in parts], sizes)
    if not holds:
        parts = tuple(dataclasses.replace(part, held_from=0) for part in parts)
    parts = tuple(part.masked_by(removals) for part in parts)
    ending = before.pending.rows_before(state.first_change)
    after = dataclasses.replace(before, state=state, parts=parts, removals=removals, pending_start=ending)
    if _goes_on(before, start, sizes):
        return after
    sketches = before.pending_sketches
    names = before.pending_names
    if names is not None:
        names = names.since(state.first_change) or _names_from(names, before.pending.rows(start, before.pending_end)[1])
    return dataclasses.replace(
        after,
        pending=_index(before, start, sizes, made),
        pending_start=ending - start,
        pending_end=before.pending_end - start,
        pending_names=names,
        pending_sketches=sketches and sketches.since(state.first_change),
    )


def _kept(before: Snapshot, first_change: int, held: Iterable[int], sizes: LivingSizes) -> tuple[int, bool]:
    """From which row on the next snapshot has the pending ones, and whether it may hold those of segments.

    first_change: of its log. held: what held_from says of its segments.
    """
    first = min((one for one in held if one), default=first_change)
    start = before.pending.rows_before(first)
    # A removal that has been applied to a segment may be forgotten, and would not be to the rows.
    forgotten = before.removals.last_position >= first
    # Who only adds would have the rows of a flush indexed in vain.
    searched = first_change == before.state.first_change or before.pending.searched > before.pending_start
    if forgotten or not searched or before.pending_end - start > sizes.held_rows:
        return before.pending.rows_before(first_change), False
    return start, True


def _enough(before: Snapshot, start: int, sizes: LivingSizes) -> int:
    """For all that will be before a large segment, where the rows from there on are many and searched; else 0."""
    many = before.pending.searched > start and 2 * (before.pending_end - start) >= sizes.flush_rows
    return sizes.small_rows + 2 * sizes.max_pending_rows if many else 0


def _room(before: Snapshot, start: int, sizes: LivingSizes) -> int:
    """For the rows from there on, and more, that an index is made with.

    To index them again as they become more would stall an addition, by as much as there are by then.
    """
    return max(MIN_PENDING_ROOM, 2 * (before.pending_end - start), _enough(before, start, sizes))


def _goes_on(before: Snapshot, start: int, sizes: LivingSizes) -> bool:
    """Whether the index of before will do: it has room for as many more, or for all that may come before a flush."""
    rest = before.pending_end - start
    room = rest + min(rest, sizes.max_pending_rows)
    return not start and before.pending.capacity >= max(MIN_PENDING_ROOM, room, _enough(before, start, sizes))


def _index(before: Snapshot, start: int, sizes: LivingSizes, made: Ahead | None) -> PendingIndex:
    """One of the rows of before from there on; the one that was made, if it is that."""
    fits = made is not None and made.source is before.pending and made.first == start
    if made is None or not fits or made.index.capacity < before.pending.count - start:
        return before.pending.grown(_room(before, start, sizes), start)
    made.index.follow(before.pending, start + made.index.count)
    return made.index


def _names_from(before: LogNames, ids: Ids | None) -> LogNames:
    """The names of these ids."""
    assert ids is not None
    names, handles = LogNames.none(), np.unique(ids)
    own = StoreNames((), before).of(handles)
    names.add(own, handles, hashed(*own))
    return names
