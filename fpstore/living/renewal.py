"""What a writer makes: rows that were chosen; segments, of new rows and of segments, each with its file of names."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from fpstore._names_pending import hashed
from fpstore.building.rows import write_rows
from fpstore.codes.rows import write_of
from fpstore.disk import Place
from fpstore.fingerprints import columns_of
from fpstore.living.changes import ADDED, IDS_REMOVED, Change, Told, records_of, split
from fpstore.living.live import Advance, Live
from fpstore.living.mending import sound_parts
from fpstore.living.merge import merge_codes, merge_segments
from fpstore.living.naming import Due, StoreNames, merge_names, write_names
from fpstore.living.opening import open_part
from fpstore.living.removals import Removals
from fpstore.living.sketched import Sketched, live_sketches, merge_sketches, write_sketches
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.names.column import Names
from fpstore.names.pending import LogNames
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.query import additions
from fpstore.query.additions import Additions
from fpstore.segment.entry import SegmentEntry
from fpstore.types import Array, Counts, Ids, Keys


class Basis(NamedTuple):
    """What a merge goes by, of a snapshot, without its rows and segments: these may go before the merge is done."""

    state: State
    plan: Plan
    removals: Removals

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """That of a snapshot."""
        return cls(snapshot.state, snapshot.plan, snapshot.removals)


def names_of_rows(names: Names | None, ids: Ids | None) -> StoreNames | None:
    """Names and their handles as those of a store; None without names."""
    if names is None or ids is None:
        return None
    own = LogNames.none()
    own.add(names, ids, hashed(*names))
    return StoreNames((), own)


def of_log(snapshot: Snapshot) -> tuple[Keys, Ids | None, int, StoreNames | None, Sketched | None]:
    """What becomes a segment of what is pending: rows, up to which change, the names and the sketches of their ids."""
    return *snapshot.pending_rows(), snapshot.state.next_change, snapshot.names, live_sketches(snapshot)


def segment_of_rows(
    place: Place,
    snapshot: Snapshot,
    tell: Tell,
    keys: Keys,
    ids: Ids | None,
    position: int,
    names: StoreNames | None = None,
    sketches: Sketched | None = None,
) -> SegmentEntry | None:
    """A new segment of these rows, as the segments of the snapshot are; None where there are no rows.

    names: those of the ids, by default the snapshot's. sketches: those of the ids, in a store that keeps them.
    """
    if not len(keys):
        return None
    names = names or snapshot.names
    plan, settings = snapshot.plan, snapshot.settings
    how: Any = {"listing": settings.listing, "write": write_of(settings.bits)}
    rows = partial(write_rows, place, keys, ids, plan, settings.codec, tell, position, **how)
    entry = rows() if names is None or ids is None else write_names(place, rows, ids, names)
    return entry if sketches is None else write_sketches(place, entry, sketches)


def segment_of_parts(
    place: Place,
    parts: Sequence[Live],
    basis: Basis,
    due_names: Due | None,
    advance: Advance,
) -> SegmentEntry | None:
    """A new segment of what lives of some of a store's; None where nothing does. due_names: as of merge_names."""
    state, plan, removals = basis
    settings = state.settings
    with contextlib.ExitStack() as stack:
        # Mapped anew, as a merge lets go of the pages that it is done with, which probes may want.
        # And looked at anew, as another file may have the name by now.
        named = {entry.name: entry for entry in state.segments}
        inputs = []
        for part in parts:
            old = named[part.segment.path.name]
            inputs.append(open_part(place.folder, old, plan, settings, removals))
            stack.callback(inputs[-1].close)
        sound = stack.enter_context(sound_parts(inputs, plan))
        entry = (
            merge_codes(place, sound, plan, settings.ids, advance)
            if settings.is_wide
            else merge_segments(
                place, sound, settings.codec, plan, settings.ids, advance=advance, listing=settings.listing
            )
        )
        if entry is None:
            return None
        for part in sound:
            part.segment.forget(0, part.segment.file_bytes)  # what is beside them comes next
        if settings.named:
            entry = merge_names(place, entry, sound, due_names)
        if settings.kept is not None:
            entry = merge_sketches(place, entry, sound, settings.kept)
        return replace(entry, position=state.next_change)


def decided(
    snapshot: Snapshot, keys: Keys, ids: Ids | None, names: Names | None, distance: int, size: int
) -> tuple[Snapshot, Change | None, Additions]:
    """What becomes of rows that are added if they are new, decided in pieces of so many.

    Returns the snapshot with the new rows of all pieces but the last, the change that adds those of the last, None
    where there are no rows, and what became of all.
    """
    parts: list[Additions] = []
    change: Change | None = None
    for start in range(0, len(keys), size):
        if change is not None:
            snapshot = snapshot.extended([change], snapshot.state)
        piece = slice(start, start + size)
        own, own_ids = keys[piece], None if ids is None else ids[piece]
        parts.append(additions.decide(own, own_ids, snapshot.nearest(own, distance), distance))
        rows = chosen_rows(own, own_ids, parts[-1].stored)
        change = change_of(snapshot.state, ADDED, rows, chosen_names(names, parts[-1].stored, start))
    return snapshot, change, additions.concatenate(parts, ids is not None)


def records_of_new(
    state: State, keys: Keys, ids: Ids | None, names: Names | None, stored: Array, change: Change
) -> list[Change]:
    """The changes that add the rows that were stored, bool[n]. change: that of those of the last piece."""
    if change.row_count == np.count_nonzero(stored):  # it is of all of them
        return list(records_of(change))
    return added(state, *chosen_rows(keys, ids, stored), chosen_names(names, stored))


def chosen_names(names: Names | None, chosen: Array, start: int = 0) -> Names | None:
    """Of names those that were chosen among the rows from start on, bool[n]."""
    return None if names is None else names.take(np.flatnonzero(chosen) + start)


def chosen_rows(keys: Keys, ids: Ids | None, chosen: Array) -> tuple[Keys, Ids | None]:
    """Rows that were chosen, bool[n]."""
    return keys[chosen], None if ids is None else ids[chosen]


def change_of(
    state: State, kind: int, given: Sequence[Keys | None], names: Names | None = None, told: Told | None = None
) -> Change:
    """The next change, of these columns but None; of fingerprints it has one for each word."""
    columns = tuple([column for column in given if column is not None])
    if (width := state.settings.width) > 1:
        columns = tuple(each for column in columns for each in columns_of(column))
    return Change(state.next_change, kind, columns, names, told, width=width)


def added(
    state: State, keys: Keys, ids: Ids | None, names: Names | None = None, first: int | None = None
) -> list[Change]:
    """The changes that add these rows, numbered from first on, or from the next one."""
    columns = columns_of(keys) if ids is None else (*columns_of(keys), ids)
    return list(split(ADDED, columns, first or state.next_change, names, width=state.settings.width))


def replacing(snapshot: Snapshot, ids: Ids | None) -> tuple[Counts, Ids, list[Change], int]:
    """Where the last row of each of ids is; these ids; the removals of what has them; the number after those."""
    assert ids is not None
    state = snapshot.state
    _, from_end = np.unique(ids[::-1], return_index=True)
    last = np.sort(len(ids) - 1 - from_end)
    ids = ids[last]
    # A larger id than any was never stored: nothing has it.
    replaced = ids[ids <= np.uint64(state.max_id)] if state.max_id is not None else ids[:0]
    records = list(split(IDS_REMOVED, (replaced,), state.next_change))
    return last, ids, records, state.next_change + len(records)
