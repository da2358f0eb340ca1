"""One consistent state of a store, for reading: its segments, what was added since and what was removed.

Live is what lies in a segment or is pending, unless a removal of a later number masks it. A snapshot never changes; the
next one shares what is the same. The pending index grows at its end only, so that each snapshot sees its own part.
"""

import contextlib
import dataclasses
import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fpstore._pairs import Join
from fpstore._pending import PendingIndex
from fpstore._probe import search
from fpstore.builder import write_rows
from fpstore.errors import CorruptStore, PlanError
from fpstore.format import CODECS
from fpstore.living import changes
from fpstore.living.catalog import Catalog, Log
from fpstore.living.changes import Change
from fpstore.living.merge import Input, live_pairs, merge_segments
from fpstore.living.removals import Removals
from fpstore.living.state import Settings, State
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.query import batch
from fpstore.query.matches import Matches
from fpstore.query.pairs import segment_joins
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Ids, Keys

# Below this a batch is looked up without asking what the other way would cost.
MIN_STREAMED = 1000
MIN_PENDING_ROOM = 1024

# query, fingerprint, distance, id
Columns = tuple[Counts, Keys, Array, Ids | None]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A state of the store in folder.

    parts: its segments. pending: what was added since, its rows up to pending_end.
    """

    folder: Path
    state: State
    plan: Plan
    parts: tuple[Input, ...]
    pending: PendingIndex
    pending_end: int
    removals: Removals

    @property
    def settings(self) -> Settings:
        """What holds for the whole store."""
        return self.state.settings

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether it is one segment and nothing else."""
        return len(self.parts) == 1 and not self.pending_end and not self.removals

    @functools.cached_property
    def _is_plain_without_ids(self) -> bool:
        return self.is_plain and not self.settings.ids

    @property
    def is_empty(self) -> bool:
        """Whether it has neither a segment nor anything pending."""
        return not self.parts and not self.pending_end

    # --- Searching ---

    def search(self, queries: Keys, distance: int, first_query: int = 0) -> Matches:
        """Every live fingerprint within distance of each query, a row for each of its ids."""
        if self._is_plain_without_ids and not first_query:  # a single query should not pay for what follows
            with self.parts[0].segment.naming:
                return Matches(*search(self.parts[0].segment.view, queries, distance), None)
        found = []
        for part in self.parts:
            with part.segment.naming:
                columns = search(part.segment.view, queries, distance)
                if len(columns[0]):
                    found.append(self._live(part, *columns))
        return self._matches(found, queries, distance, first_query, "probe")

    def stream(self, queries: Keys, distance: int, run: Callable[..., Any]) -> Matches:
        """What search returns, found by reading all keys past the queries where that costs less."""
        found = []
        for part in self.parts:
            with part.segment.naming:
                if self._streams(part, len(queries)):
                    columns = batch.stream(part.segment, queries, distance, run)
                else:
                    columns = search(part.segment.view, queries, distance)
                found.append(self._live(part, *columns))
        return self._matches(found, queries, distance, 0, "stream")

    def is_large(self, query_count: int) -> bool:
        """Whether a batch of so many queries is large against one of the segments."""
        return query_count >= MIN_STREAMED and any(self._streams(part, query_count) for part in self.parts)

    def contains(self, query: Keys, distance: int) -> bool:
        """Whether a live fingerprint is within distance of the one query."""
        if self.removals:
            return len(self.search(query, distance)) > 0
        for part in self.parts:
            with part.segment.naming:
                if len(search(part.segment.view, query, distance, first_only=True)[0]):
                    return True
        return self.pending_end > 0 and len(self.pending.search(query, distance, self.pending_end)[0]) > 0

    def _streams(self, part: Input, query_count: int) -> bool:
        looked_up = query_count * planner.predict(self.plan, part.segment.key_count).nanoseconds
        return batch.streaming_nanoseconds(part.segment, query_count) < looked_up

    def _live(self, part: Input, query: Counts, fingerprint: Keys, distance: Array) -> Columns:
        """What was found in a segment, a row for each id, without what was removed."""
        ids = None
        if part.segment.ids is not None:
            counts, ids = part.segment.ids.lookup(fingerprint)
            if len(ids) != len(fingerprint) or (counts != 1).any():
                query, fingerprint, distance = (np.repeat(column, counts) for column in (query, fingerprint, distance))
        return self._unmasked(query, fingerprint, distance, ids, part.position)

    def _unmasked(
        self, query: Counts, fingerprint: Keys, distance: Array, ids: Ids | None, positions: int | Keys
    ) -> Columns:
        if not self.removals or not len(query):
            return query, fingerprint, distance, ids
        masked = self.removals.fingerprints_masked(fingerprint, positions)
        if ids is not None:
            masked |= self.removals.ids_masked(ids, positions)
        if not masked.any():
            return query, fingerprint, distance, ids
        live = ~masked
        return query[live], fingerprint[live], distance[live], None if ids is None else ids[live]

    def _matches(self, found: list[Columns], queries: Keys, distance: int, first_query: int, method: str) -> Matches:
        found = [columns for columns in found if len(columns[0])]
        ordered = len(found) == 1
        if self.pending_end:
            query, fingerprint, bits, ids, positions = self.pending.search(queries, distance, self.pending_end)
            if len(query):
                found.append(self._unmasked(query, fingerprint, bits, ids, positions))
                ordered = False
        query, fingerprint, bits, ids = found[0] if ordered else _together(found, self.settings.ids)
        if first_query:
            query = query + first_query
        return Matches(query, fingerprint, bits, ids, method)

    # --- Everything ---

    def joins(self, distance: int, memory_bytes: int) -> Iterator[tuple[Join, float]]:
        """What finds every pair of live fingerprints within distance once; see pairs.segment_joins.

        Where they are not in one segment they are merged into one first, for the time being, in the system's folder
        for temporary files.
        """
        with contextlib.ExitStack() as stack:
            segment = self.parts[0].segment if self.is_plain else self._merged(stack)
            if segment is not None:
                with segment.naming:
                    yield from segment_joins(segment, distance, memory_bytes)

    def _merged(self, stack: contextlib.ExitStack) -> Segment | None:
        """A segment of all that is live, for as long as the stack lasts; None where nothing is."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fpstore-")))
        parts = list(self.parts)
        keys, ids = self.pending_rows()
        if len(keys):
            path = folder / "00000001.fpseg"
            write_rows(path, keys, ids, self.settings, self.plan)
            parts.append(Input(Segment(path), self.state.next_change))
            stack.callback(parts[-1].segment.close)
        path = folder / "00000002.fpseg"
        merged = merge_segments(path, parts, self.removals, self.settings.codec, self.plan, self.settings.ids)
        if merged is None:
            return None
        segment = Segment(path)
        stack.callback(segment.close)
        return segment

    def pending_rows(self, first: int = 0) -> tuple[Keys, Ids | None]:
        """The rows added from index first on which are live: fingerprints and ids, in the order of their adding."""
        keys, ids, positions = self.pending.rows(first, self.pending_end)
        _, keys, _, ids = self._unmasked(np.empty(len(keys), dtype=np.int64), keys, keys, ids, positions)
        return keys, ids

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every live fingerprint once for each id, in the order of table 0: uint64[m], and uint64[m] or None."""
        first = Permutation(self.plan.tables[0].prefix_mask)
        keys, ids = self.pending_rows()
        keys = first.apply(keys)
        order = np.argsort(keys) if ids is None else np.lexsort([ids, keys])
        extra = (keys[order], None if ids is None else ids[order])
        fresh = np.ones(len(keys), dtype=bool)
        fresh[1:] = functools.reduce(np.logical_or, [c[1:] != c[:-1] for c in extra if c is not None])
        extra = (extra[0][fresh], None if extra[1] is None else extra[1][fresh])
        for keys, ids in live_pairs(self.parts, self.removals, extra):
            yield first.invert(keys), ids

    @functools.cached_property
    def key_count(self) -> int:
        """Distinct live fingerprints; reads all of them, unless they are one segment and nothing else."""
        if self.is_plain:
            return self.parts[0].segment.key_count
        count, last = 0, np.empty(0, dtype=np.uint64)
        for keys, _ in self.rows():
            count += int(np.count_nonzero(keys[1:] != keys[:-1])) + (len(last) == 0 or int(keys[0] != last[0]))
            last = keys[-1:]
        return count

    # --- Moving on ---

    def extended(self, records: Sequence[Change], state: State) -> "Snapshot":
        """This one and the changes that follow it."""
        pending, removals = self.pending, self.removals
        room = sum(len(change.columns[0]) for change in records if change.kind == changes.ADDED)
        if pending.capacity - pending.count < room:
            pending = pending.grown(max(2 * pending.capacity, pending.count + 2 * room))
        for change in records:
            if change.kind == changes.ADDED:
                pending.append(change.fingerprints, change.ids, change.number, removals.last_position)
            elif change.kind == changes.FINGERPRINTS_REMOVED:
                removals = removals.with_fingerprints(change.columns[0], change.number)
            else:
                removals = removals.with_ids(change.columns[0], change.number)
        return Snapshot(self.folder, state, self.plan, self.parts, pending, pending.count, removals)

    def published(self, state: State, parts: tuple[Input, ...], removals: Removals) -> "Snapshot":
        """This one with other segments, and without the pending rows of changes that have left the log."""
        following = dataclasses.replace(self, state=state, parts=parts, removals=removals)
        if state.first_change == self.state.first_change:
            return following
        keys, ids, positions = self.pending.rows(0, self.pending_end)
        start = int(np.searchsorted(positions, state.first_change))
        pending = pending_index(self.plan, self.settings, max(MIN_PENDING_ROOM, 2 * (len(keys) - start)))
        bounds = [start, *(np.flatnonzero(np.diff(positions[start:])) + start + 1).tolist(), len(keys)]
        for first, end in itertools.pairwise(bounds):
            if first < end:
                position = int(positions[first])
                pending.append(keys[first:end], None if ids is None else ids[first:end], position, position)
        return dataclasses.replace(following, pending=pending, pending_end=pending.count)


def open_snapshot(folder: Path, catalog: Catalog, before: Snapshot | None = None) -> Snapshot:
    """The snapshot of what the catalog says now; before: an older one, to share with it what is the same.

    Raises CorruptStore.
    """
    if before is not None:
        log = catalog.read(before.state.generation, before.state.next_change)
        if log.state.generation == before.state.generation:
            return before.extended(log.changes, log.state)
    generation = 0
    while True:
        log = catalog.read()
        try:
            return _from_log(folder, log, before)
        except FileNotFoundError as error:
            # Where segments were merged since the catalog was read, the new state names other files.
            if log.state.generation == generation:
                raise CorruptStore("missing, though the catalog names it", path=error.filename) from None
            generation = log.state.generation


def _from_log(folder: Path, log: Log, before: Snapshot | None) -> Snapshot:
    state = log.state
    plan = _proved_plan(folder, state.settings)
    known = {} if before is None else dict(zip(before.state.segments, before.parts, strict=True))
    parts = tuple(
        known[entry] if entry in known else open_part(folder, entry, plan, state.settings) for entry in state.segments
    )
    if before is not None and (before.settings, before.state.first_change) == (state.settings, state.first_change):
        # Only segments were merged. The pending rows are the same; removals that matter no longer go at the next flush.
        later = [change for change in log.changes if change.number >= before.state.next_change]
        return dataclasses.replace(before, parts=parts).extended(later, state)
    removals = Removals.of(log.removed or ())
    pending = pending_index(plan, state.settings, MIN_PENDING_ROOM)
    return Snapshot(folder, state, plan, parts, pending, 0, removals).extended(log.changes, state)


def pending_index(plan: Plan, settings: Settings, capacity: int) -> PendingIndex:
    """An empty index for rows that are not in a segment yet."""
    masks = [table.prefix_mask for table in plan.tables]
    return PendingIndex(masks, [table.flips for table in plan.tables], with_ids=settings.ids, capacity=capacity)


def _proved_plan(folder: Path, settings: Settings) -> Plan:
    try:
        plan = Plan.from_json(settings.plan)
        plan.prove()
    except PlanError as error:
        raise CorruptStore(f"catalog: {error}", path=folder) from None
    if settings.k > plan.k:
        raise CorruptStore(f"catalog: k {settings.k}, expected at most {plan.k} (plan {plan.name})", path=folder)
    return plan


def open_part(folder: Path, entry: SegmentEntry, plan: Plan, settings: Settings) -> Input:
    """A segment that the catalog names: the same file, of this plan and with these settings."""
    path = folder / "segments" / entry.name
    segment = Segment(path)
    record = segment.record
    found: tuple[object, ...] = (segment.file_bytes, record.key_count, record.id_count, segment.footer_crc)
    expected: tuple[object, ...] = (entry.file_bytes, entry.key_count, entry.id_count, entry.crc)
    if found == expected:
        found = (CODECS[segment.tables[0].codec], segment.ids is not None)
        found += tuple((f"{table.prefix_mask:x}", table.flips) for table in segment.tables)
        expected = (settings.codec, settings.ids)
        expected += tuple((f"{table.prefix_mask:x}", table.flips) for table in plan.tables)
    if found != expected:
        segment.close()
        raise CorruptStore(f"not the segment that the catalog names: found {found}, expected {expected}", path=path)
    return Input(segment, entry.position)


def _together(found: list[Columns], with_ids: bool) -> Columns:
    """Rows of several sources as those of one: in order, each once."""
    if not found:
        none = np.empty(0, dtype=np.uint64)
        return np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.uint8), none if with_ids else None
    query, fingerprint, distance = (np.concatenate([columns[i] for columns in found]) for i in range(3))
    ids = np.concatenate([columns[3] for columns in found]) if with_ids else None
    keys = [fingerprint, distance, query] if ids is None else [ids, fingerprint, distance, query]
    order = np.lexsort(keys)
    keys = [key[order] for key in keys]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = functools.reduce(np.logical_or, [key[1:] != key[:-1] for key in keys])
    *first, fingerprint, distance, query = (key[fresh] for key in keys)
    return query, fingerprint, distance, first[0] if with_ids else None
