"""What the writer keeps in memory of segments that it has just made, and when it lets go of that.

The log becomes a segment when it is small, so that whoever opens the store has little to index. A search of many small
segments costs more than one of their rows in memory, where the writer had them: it goes on to search these, until the
segments are merged. It is the same content twice, of which a search looks at one; who opens the store anew has the
segments alone.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from fpstore._names_pending import hashed
from fpstore.living.live import Live
from fpstore.living.naming import StoreNames
from fpstore.living.removals import Removals
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import MIN_PENDING_ROOM, Snapshot
from fpstore.living.state import State
from fpstore.names.pending import LogNames
from fpstore.types import Ids


def held_part(part: Live, before: Snapshot, dropped: Sequence[Live], flushed: bool, sizes: LivingSizes) -> Live:
    """A new segment of the pending rows of `before`, or of the dropped segments, held where all of its rows are.

    Large ones are not, nor those with names, which are looked for in files, nor those of signatures.
    """
    origins = [before.state.first_change] if flushed else [one.held_from for one in dropped]
    small = part.segment.key_count < sizes.small_rows and not before.settings.flushes_late
    return dataclasses.replace(part, held_from=min(origins, default=0) if small else 0)


def published(
    before: Snapshot, state: State, parts: Sequence[Live], removals: Removals, sizes: LivingSizes
) -> Snapshot:
    """The snapshot before with other segments, without the pending rows that are in one, unless that is held."""
    first = min((part.held_from for part in parts if part.held_from), default=state.first_change)
    start = before.pending.rows_before(first)
    # A removal that has been applied to a segment may be forgotten, and would not be to the rows.
    if before.removals.last_position >= first or before.pending_end - start > sizes.held_rows:
        start = before.pending.rows_before(state.first_change)
        parts = [dataclasses.replace(part, held_from=0) for part in parts]
    parts = tuple(part.masked_by(removals) for part in parts)
    ending = before.pending.rows_before(state.first_change)
    following = dataclasses.replace(before, state=state, parts=parts, removals=removals, pending_start=ending)
    if not start:
        return following
    sketches = before.pending_sketches
    room = max(MIN_PENDING_ROOM, 2 * (before.pending_end - start))
    names = before.pending_names
    if names is not None:
        names = names.since(state.first_change) or _names_from(names, before.pending.rows(start, before.pending_end)[1])
    return dataclasses.replace(
        following,
        pending=before.pending.grown(room, start),
        pending_start=ending - start,
        pending_end=before.pending_end - start,
        pending_names=names,
        pending_sketches=sketches and sketches.since(state.first_change),
    )


def _names_from(before: LogNames, ids: Ids | None) -> LogNames:
    """The names of these ids."""
    assert ids is not None
    names, handles = LogNames.none(), np.unique(ids)
    own = StoreNames((), before).of(handles)
    names.add(own, handles, hashed(*own)[1])
    return names
