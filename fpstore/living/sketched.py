"""The sketches of one state of a store, by id; and the file of sketches beside a segment that is being made.

An id has a sketch for each of its signatures that live. Removals mask those of a segment, or of the log, as they mask
its rows, so a segment's file has sketches of just the ids that have rows in it.
"""

import contextlib
import functools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore._similar import BandSegments, Candidates
from fpstore.building.spill import KeySorter
from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.living.live import Live, alive
from fpstore.living.removals import Removals
from fpstore.living.snapshot import Snapshot
from fpstore.merging import begins
from fpstore.segment.entry import SegmentEntry, SketchesEntry, names_name, sketches_name
from fpstore.segment.reader import Segment
from fpstore.sketches.kept import Kept
from fpstore.sketches.pending import in_order, merged_sketches
from fpstore.sketches.reader import Found, SketchesReader, verify_sketches
from fpstore.sketches.writer import SketchesWriter
from fpstore.types import Ids, Keys

# For sorting ids to count them.
SORT_BYTES = 64 << 20


class Sketched(NamedTuple):
    """Sketches, uint64[n, words], of ids, uint64[n], in any order; kept: what they are made of."""

    ids: Ids
    sketches: Keys
    kept: Kept


def sketches_of(snapshot: Snapshot, ids: Ids) -> Found:
    """The sketches of all signatures that live of these ids (uint64[n], distinct), those of one id together."""
    found = [_alive(part, ids) for part in snapshot.parts]
    if snapshot.pending_sketches is not None:
        found.append(_logged(snapshot, ids))
    found = [each for each in found if len(each.of)]
    if len(found) == 1:
        return found[0]
    if not found:
        return Found(np.empty(0, dtype=np.int64), np.empty((0, snapshot.settings.words), dtype=np.uint64))
    of = np.concatenate([each.of for each in found])
    order = np.argsort(of, kind="stable")
    return Found(of[order], np.concatenate([each.sketches for each in found])[order])


def similar_in(snapshot: Snapshot) -> Candidates:
    """What finds the documents of a state of a store that share a band with signatures; made once."""
    made: Candidates | None = snapshot.__dict__.get("similar")
    if made is None:
        made = snapshot.__dict__["similar"] = _similar_in(snapshot)
    return made


def _similar_in(snapshot: Snapshot) -> Candidates:
    kept, removals = snapshot.settings.kept, snapshot.removals
    segments = [(part.segment.view, part.segment.ids, part.position, part.segment.naming) for part in snapshot.searched]
    files = [
        (part.sketches.view, part.sketches.record, part.position, part.sketches.naming, part.sketches.places_of)
        for part in snapshot.parts
        if part.sketches is not None
    ]
    pending = snapshot.pending_sketches
    return Candidates(
        BandSegments(segments, files),
        None if kept is None else kept.shape,
        snapshot.pending,
        snapshot.pending_end,
        functools.partial(alive, removals) if removals else None,
        removals.ids_masked if removals else None,
        None if pending is None or not pending.count else functools.partial(_logged, snapshot),
    )


def _logged(snapshot: Snapshot, ids: Ids) -> Found:
    """The sketches of the log that live of these ids, uint64[n]."""
    assert snapshot.pending_sketches is not None
    own, numbers = snapshot.pending_sketches.find(ids, snapshot.state.next_change)
    return _not_masked(snapshot.removals, ids, own, numbers)


def _alive(part: Live, ids: Ids) -> Found:
    assert part.sketches is not None
    return _not_masked(part.removals, ids, part.sketches.find(ids), part.position)


def _not_masked(removals: Removals, ids: Ids, found: Found, positions: int | Keys) -> Found:
    if not removals or not len(found.of):
        return found
    kept = ~removals.ids_masked(ids[found.of], positions)
    return Found(found.of[kept], found.sketches[kept])


def live_sketches(snapshot: Snapshot) -> Sketched | None:
    """Those of the log that live; None where the store keeps none."""
    kept, pending = snapshot.settings.kept, snapshot.pending_sketches
    if kept is None or pending is None:
        return None
    ids, sketches, numbers = pending.all(snapshot.state.next_change)
    if snapshot.removals and len(ids):
        lives = ~snapshot.removals.ids_masked(ids, numbers)
        ids, sketches = ids[lives], sketches[lives]
    return Sketched(ids, sketches, kept)


def all_sketches(snapshot: Snapshot) -> Iterator[tuple[Ids, Keys]]:
    """The sketches of all signatures that live, by id, then sketch, in pieces: uint64[m], uint64[m, words]."""
    sources = [_live_of(part) for part in snapshot.parts]
    pending = live_sketches(snapshot)
    if pending is not None and len(pending.ids):
        sources.append(iter([in_order(pending.ids, pending.sketches)]))
    return merged_sketches(sources)


def _live_of(part: Live) -> Iterator[tuple[Ids, Keys]]:
    assert part.sketches is not None
    for ids, sketches in part.sketches.chunks():
        masked = part.removals.ids_masked(ids, part.position) if part.removals else None
        if masked is None or not masked.any():
            yield ids, sketches
        elif not masked.all():
            yield ids[~masked], sketches[~masked]


def distinct_ids(chunks: Iterable[Ids]) -> int:
    """How many ids there are, each of which may come any number of times, in any order; in bounded memory."""
    sorter = KeySorter(Path(tempfile.gettempdir()), SORT_BYTES)
    for ids in chunks:
        sorter.add(ids)
    keys = sorter.finish()
    try:
        return keys.count
    finally:
        keys.close()


# --- Files ---


def write_sketches(at: Place, entry: SegmentEntry, own: Sketched) -> SegmentEntry:
    """Write a file of sketches with the segment of entry, which lies there; the entry, which says so.

    Where it fails none of its files is left.
    """
    return _written(at, entry, own.kept, iter([in_order(own.ids, own.sketches)]))


def merge_sketches(at: Place, entry: SegmentEntry, parts: Sequence[Live], kept: Kept) -> SegmentEntry:
    """As write_sketches, where the segment was merged of parts."""
    return _written(at, entry, kept, merged_sketches([_live_of(part) for part in parts]))


def _written(at: Place, entry: SegmentEntry, kept: Kept, pieces: Iterator[tuple[Ids, Keys]]) -> SegmentEntry:
    try:
        with SketchesWriter(Place(at.folder, sketches_name(at.name)), at.folder.reach, kept) as writer:
            for ids, sketches in pieces:
                writer.add(ids, sketches)
            with contextlib.closing(Segment(at)) as segment:
                file = writer.finish(segment)
    except BaseException:
        for name in (at.name, names_name(at.name)):
            at.folder.unlink(name, missing_ok=True)
        raise
    return replace(entry, sketches=SketchesEntry(file.file_bytes, file.crc))


def keep_sketches(at: Place, entry: SegmentEntry, file: SketchesReader, kept: Kept) -> SegmentEntry:
    """As write_sketches, of those sketches of the file whose ids have a row in the segment."""
    with_rows = np.zeros(file.count, dtype=bool)
    with contextlib.closing(Segment(at)) as segment:
        for _, ids in Live(segment, 1, Removals.none()).rows(lambda keys: None):
            places = file.places(np.unique(ids))
            with_rows[places[places >= 0]] = True

    def those() -> Iterator[tuple[Ids, Keys]]:
        for ids, sketches in file.chunks():
            own = with_rows[file.places(ids)]
            yield ids[own], sketches[own]

    return _written(at, entry, kept, those())


def sketches_damage(part: Live) -> list[Damage]:
    """What is wrong with the sketches of a segment, every byte of which is read: at most one place."""
    reader = part.sketches
    if reader is None:
        return []
    try:
        verify_sketches(reader)
        distinct, last = 0, None
        for ids, _ in reader.chunks():
            distinct += int(np.count_nonzero(begins(ids))) - (last is not None and int(ids[0]) == last)
            last = int(ids[-1])
        with_rows = np.zeros(reader.count, dtype=bool)
        for _, ids in Live(part.segment, 1, Removals.none()).rows(lambda keys: None):
            asked = np.unique(ids)
            rows = reader.places(asked)
            if (rows < 0).any():
                raise CorruptStore("sketches", f"none for id {asked[rows < 0][0]}", "one", path=reader.path)
            with_rows[rows] = True
        if np.count_nonzero(with_rows) != distinct:
            raise CorruptStore("sketches", f"{distinct} ids", f"{np.count_nonzero(with_rows)}, as have rows")
    except CorruptStore as error:
        return [error.in_file(reader.path)]
    return []
