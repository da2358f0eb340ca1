"""From what the catalog says to a snapshot: the segments that it names, opened and held against it, and the log.

Shares with an older snapshot all that is the same.
"""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from weakref import WeakSet

from fpstore.closing import close_all
from fpstore.codes.reader import CodesSegment
from fpstore.disk import Folder, Place
from fpstore.errors import CorruptStore, PlanError, WrongKind
from fpstore.format import CODECS
from fpstore.living.catalog import Catalog
from fpstore.living.live import Live
from fpstore.living.records import Log
from fpstore.living.removals import Removals
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings, State
from fpstore.living.waiting import MIN_PENDING_ROOM, pending_index
from fpstore.living.wide import LiveCodes, WideSnapshot
from fpstore.names.pending import LogNames
from fpstore.names.reader import NamesReader
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry, sketches_name
from fpstore.segment.reader import Segment
from fpstore.sketches.pending import PendingSketches
from fpstore.sketches.reader import SketchesReader
from fpstore.types import Kind


def open_snapshot(
    catalog: Catalog, before: Snapshot | None = None, *, moved: bool = False, kind: Kind | None = None
) -> Snapshot:
    """The snapshot of what the catalog says now; before: an older one, to share with it what is the same.

    moved: that one is from another file, or what it has of the log may be torn. A backup that was put back and added to
    has other changes of the same numbers in its log, so nothing but segments is shared then.

    kind: what the store must be, WrongKind for another; None where that is known.
    Raises CorruptStore; StoreChanged where the catalog is of another store, or of a moment before that.
    """
    if before is not None:
        log = catalog.read() if moved else catalog.read(before.state.generation, before.state.next_change)
        if not log.state.follows(before.state):
            raise catalog.changed(_difference(before.state, log.state))
        if log.state.generation == before.state.generation and not moved:
            return before.extended(log.changes, log.state)
    generation = 0
    while True:
        log = catalog.read()
        found = log.state.settings.kind
        if kind not in (None, found):
            how = {"hamming": "fpstore.open", "minhash": "fpstore.minhash.open"}[found]
            raise WrongKind(f"found a store of kind {found}, expected {kind}; {how} opens it", path=catalog.folder.path)
        try:
            return _from_log(catalog, log, before, moved)
        except FileNotFoundError as error:
            # Where segments were merged since the catalog was read, the new state names other files.
            if log.state.generation == generation:
                raise CorruptStore("segment", "none", "the file that the catalog names", path=error.filename) from None
            generation = log.state.generation


def _difference(before: State, found: State) -> str:
    if found.origin != before.origin:
        return f"found the catalog of store {found.origin}, expected that of {before.origin}"
    numbers = ("generation", "next_change", "transaction")
    one, other = ([f"{name} {getattr(state, name)}" for name in numbers] for state in (found, before))
    return f"found the catalog of an earlier moment ({', '.join(one)}), expected one after {', '.join(other)}"


def _from_log(catalog: Catalog, log: Log, before: Snapshot | None, moved: bool) -> Snapshot:
    state = log.state
    folder = catalog.folder.path
    plan = _proved_plan(folder, state.settings)
    known = {} if before is None else dict(zip(before.state.segments, before.parts, strict=True))
    removals = Removals.of(log.removed or ())
    parts = tuple(
        known.get(entry) or open_part(catalog.segments, entry, plan, state.settings, removals)
        for entry in state.segments
    )
    same = before is not None and (before.settings, before.state.first_change) == (state.settings, state.first_change)
    if before is not None and same and not moved:
        # Only segments were merged. The pending rows are the same; removals that matter no longer go at the next flush.
        later = [change for change in log.changes if change.number >= before.state.next_change]
        following = tuple(part.masked_by(before.removals) for part in parts)
        return dataclasses.replace(before, parts=following).extended(later, state)
    parts = tuple(part.masked_by(removals) for part in parts)
    pending = pending_index(plan, state.settings, MIN_PENDING_ROOM)
    names = LogNames.none() if state.settings.named else None
    sketches = PendingSketches(state.settings.words) if state.settings.words else None
    snapshot_of: type[Snapshot] = WideSnapshot if state.settings.is_wide else Snapshot
    empty = snapshot_of(folder, state, plan, parts, pending, 0, removals, names, pending_sketches=sketches)
    return empty.extended(log.changes, state)


def _proved_plan(folder: Path, settings: Settings) -> Plan:
    try:
        plan = Plan.from_json(settings.plan)
        plan.prove()
    except PlanError as error:
        raise CorruptStore.by(error, "catalog, plan", path=folder) from None
    if settings.bits != plan.bits:
        expected = f"{plan.bits} (plan {plan.name})"
        raise CorruptStore("catalog, bits", settings.bits, expected, path=folder)
    if settings.max_distance > plan.max_distance:
        most = f"at most {plan.max_distance} (plan {plan.name})"
        raise CorruptStore("catalog, max_distance", settings.max_distance, most, path=folder)
    return plan


def open_part(segments: Folder, entry: SegmentEntry, plan: Plan, settings: Settings, removals: Removals) -> Live:
    """A segment that the catalog names: the same file, of this plan and with these settings."""
    place = Place(segments, entry.name)
    segment = CodesSegment(place) if settings.is_wide else Segment(place)
    record = segment.record
    found: tuple[object, ...] = (segment.file_bytes, record.key_count, record.id_count, segment.footer_crc)
    expected: tuple[object, ...] = (entry.file_bytes, entry.key_count, entry.id_count, entry.crc)
    if found == expected:
        found = (segment.bits, CODECS[segment.tables[0].codec], segment.ids is not None)
        found += tuple((f"{table.prefix_mask:x}", table.flips) for table in segment.tables)
        found += (segment.tables[0].block_bytes,)
        expected = (settings.bits, settings.codec, settings.ids)
        expected += tuple((f"{table.prefix_mask:x}", table.flips) for table in plan.tables)
        expected += (plan.block_bytes,)
    if found != expected:
        segment.close()
        raise CorruptStore("segment", found, f"{expected}, which the catalog names", path=segment.path)
    try:
        names = _open_names(segments, entry, settings)
    except BaseException:
        segment.close()
        raise
    try:
        sketches = _open_sketches(segments, entry, settings, segment)
    except BaseException:
        Live(segment, entry.position, removals, names).close()
        raise
    live_of = LiveCodes if settings.is_wide else Live
    return live_of(segment, entry.position, removals, names, sketches=sketches)


class Traced(WeakSet[Segment]):
    """Segments with traces, while anybody holds them: whoever has an older snapshot has its segments, with theirs."""


def open_made(
    segments: Folder,
    entry: SegmentEntry,
    snapshot: Snapshot,
    dropped: Collection[str],
    traced: Traced,
    traced_bytes: int,
) -> Live:
    """A segment that is to join a snapshot in place of those dropped.

    traced: which it joins. traced_bytes: what the traces of those that are not dropped may take.
    """
    part = open_part(segments, entry, snapshot.plan, snapshot.settings, snapshot.removals)
    if traced_bytes and not snapshot.settings.is_wide:
        others = sum(segment.traced_bytes for segment in traced if segment.path.name not in dropped)
        part.segment.note_traces(traced_bytes - others)
        traced.add(part.segment)
    return part


def _open_sketches(
    segments: Folder, entry: SegmentEntry, settings: Settings, segment: Segment
) -> SketchesReader | None:
    """The file of sketches that the catalog says is the segment's, in a store that keeps sketches."""
    kept = settings.kept
    if (kept is None) != (entry.sketches is None):
        found, expected = ("none", "a file") if kept is not None else ("a file", "none")
        raise CorruptStore("catalog, sketches of a segment", found, expected, path=segments.path)
    if kept is None or entry.sketches is None:
        return None
    sketches = SketchesReader(Place(segments, sketches_name(entry.name)), segment)
    record = sketches.record
    numbers = (sketches.file_bytes, sketches.footer_crc, record.values, record.bits, record.words)
    named = (entry.sketches.file_bytes, entry.sketches.crc, kept.values, kept.bits, kept.words)
    if numbers != named:
        sketches.close()
        raise CorruptStore("sketches", numbers, f"{named}, which the catalog names", path=sketches.path)
    return sketches


def _open_names(segments: Folder, entry: SegmentEntry, settings: Settings) -> tuple[NamesReader, ...]:
    """The files of names that the catalog says are a segment's, in a store with names."""
    opened: list[NamesReader] = []
    try:
        for file in entry.names if settings.named else ():
            opened.append(NamesReader(Place(segments, file.name)))
            found, expected = (opened[-1].file_bytes, opened[-1].footer_crc), (file.file_bytes, file.crc)
            if found != expected:
                raise CorruptStore("names", found, f"{expected}, which the catalog names", path=opened[-1].path)
    except BaseException:
        close_all(*(names.close for names in opened))
        raise
    return tuple(opened)
