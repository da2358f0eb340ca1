"""One consistent state of a store, for reading: its segments, what was added since and what was removed.

Live is what lies in a segment or is pending, unless a removal of a later number masks it. A snapshot never changes; the
next one shares what is the same. The pending index grows at its end only, so that each snapshot sees its own part.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fpstore._answers import Answers
from fpstore._names_pending import hashed
from fpstore._pairs import Join
from fpstore._pending import PendingIndex
from fpstore._single import Segments, Single
from fpstore.errors import CorruptStore, TooManyMatches
from fpstore.fingerprints import distinct
from fpstore.forks import cached_property
from fpstore.living import changes
from fpstore.living.changes import Change
from fpstore.living.live import Live, Matched, alive, matched_alive, one_of
from fpstore.living.mending import sound_parts
from fpstore.living.merge import live_pairs
from fpstore.living.naming import StoreNames
from fpstore.living.removals import Removals
from fpstore.living.state import Settings, State
from fpstore.living.together import Together
from fpstore.living.waiting import room_for
from fpstore.merging import each_once
from fpstore.names.pending import LogNames
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.query.id_pairs import Groups, IdPairs, OfSegment, id_pair_count, id_pairs, near_groups
from fpstore.query.matches import Matches, Room, made
from fpstore.query.nearest import (
    IDS_AT_ONCE,
    Found,
    Nearest,
    first_of,
    first_rows,
    least_of_each,
    nearest,
    nearest_of,
    spread,
)
from fpstore.query.pairs import Only, Stretch, segment_joins, stretches
from fpstore.query.ways import SLICE_QUERIES, Run, Way, method_of, single_ways, way_of, way_to_all
from fpstore.sketches.pending import PendingSketches
from fpstore.threads import Threads
from fpstore.types import Array, Counts, Ids, Keys

# Of pending ids so many are looked at together where the least few are asked for.
FIRST_IDS_AT_ONCE = 1 << 12
# Pending rows that are looked through for ids at a time.
PENDING_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A state of the store in folder.

    parts: its segments, under removals. pending: what was added since, its rows up to pending_end; those before
    pending_start are of parts that are held. pending_names: the names of the ids of these rows, in a store with names.
    pending_sketches: the sketches of the log, and maybe of changes after this state's, in a store that keeps them.
    """

    folder: Path
    state: State
    plan: Plan
    parts: tuple[Live, ...]
    pending: PendingIndex
    pending_end: int
    removals: Removals
    pending_names: LogNames | None = None
    pending_start: int = 0
    pending_sketches: PendingSketches | None = None

    # Queries of a batch that a thread asks at a time, at most and at least.
    slice_queries, min_slice = SLICE_QUERIES, 256

    @property
    def pending_count(self) -> int:
        """How many rows are in no segment yet."""
        return self.pending_end - self.pending_start

    @cached_property
    def searched(self) -> tuple[Live, ...]:
        """The segments that are searched: those that are held are found in the pending index."""
        return tuple(part for part in self.parts if not part.held_from)

    @property
    def name_bytes(self) -> int:
        """How many bytes of names are pending."""
        return 0 if self.pending_names is None else self.pending_names.data_bytes

    @cached_property
    def names(self) -> StoreNames | None:
        """Of the ids, where these are names."""
        if self.pending_names is None:
            return None
        files = [file for part in self.parts for file in part.names]
        return StoreNames(tuple(files[::-1]), self.pending_names)  # the newest has what is asked for most

    @property
    def settings(self) -> Settings:
        """What holds for the whole store."""
        return self.state.settings

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is one segment and nothing else."""
        return len(self.parts) == 1 and not self.pending_count and not self.removals

    # --- Searching ---

    @cached_property
    def single(self) -> Single:
        """What answers single queries, in handles where ids are names."""
        segments = [each.segment for each in self.searched]
        parts = [(own.segment.view, own.segment.ids, own.position, own.segment.key_count) for own in self.searched]
        distances, ways = (self.settings.max_distance, self.plan.max_distance), single_ways(segments, self.plan)
        lives = functools.partial(alive, self.removals) if self.removals else None
        own = Segments(parts), self.pending, self.pending_end
        return Single(*own, *distances, lives, self._answers(), *ways)

    def _answers(self, words: int = 0) -> Answers:
        """What makes the answers of single queries; words: of fingerprints that have a row of them each."""
        settings = self.settings
        return Answers(Matches, settings.made_by, settings.ids, settings.named, words)

    def search(self, queries: Keys, distance: int, first_query: int = 0, room: Room | None = None) -> Matches:
        """Every live fingerprint within distance of each query, a row for each of its ids.

        TooManyMatches where these, or those that were removed, are more than there is room for.
        """
        ways = [self._way(part, distance, len(queries)) for part in self.searched]
        found = [part.search(queries, way, room) for part, way in zip(self.searched, ways, strict=True)]
        return self._matches(found, queries, distance, first_query, method_of(ways), room)

    def search_whole(self, queries: Keys, distance: int, run: Run, room: Room | None = None) -> Matches:
        """What search returns, of each segment in the way that costs least for all queries together."""
        ways = [self._way_to_all(part, distance, len(queries), run) for part in self.searched]
        found = [part.search(queries, way, room) for part, way in zip(self.searched, ways, strict=True)]
        return self._matches(found, queries, distance, 0, method_of(ways), room)

    def is_whole(self, query_count: int, distance: int) -> bool:
        """Whether search_whole is the way of asking so many queries, rather than some of them at a time."""
        return any(self._way_to_all(part, distance, query_count).is_whole for part in self.searched)

    def _way(self, part: Live, distance: int, query_count: int, run: Run = map) -> Way:
        return way_of(part.segment, self.plan, distance, query_count, run)

    def _way_to_all(self, part: Live, distance: int, query_count: int, run: Run = map) -> Way:
        return way_to_all(part.segment, self.plan, distance, query_count, run)

    def nearest(self, queries: Keys, distance: int, first_query: int = 0, run: Run = map) -> Matches:
        """Of what search returns, the first row of each query; however much that is, it takes memory for these rows.

        run: shares out the work on all queries, here and below.
        """
        if len(queries) == 1 and self.pending_names is None and not first_query:
            first: Matches | None = self.single.nearest(int(queries[0]), distance)
            if first is not None:
                return first
        ways = [self._way(part, distance, len(queries), run) for part in self.searched]
        found = [part.nearest(queries, way) for part, way in zip(self.searched, ways, strict=True)]
        if self.pending_end:
            found.append(self._nearest_pending(queries, distance))
        found = [columns for columns in found if len(columns[0])]
        if not found:
            return made(*one_of([], with_ids=self.settings.ids))
        query, fingerprint, bits, ids = nearest_of(found)
        ids = ids if self.names is None else self._least_names(fingerprint)
        return made(query + first_query, fingerprint, bits, ids, method_of(ways))

    def _least_names(self, fingerprints: Keys) -> Ids:
        """The handle of the least live name of each of fingerprints, which live: uint64[n]."""
        each, place = distinct(fingerprints)
        rows = self.search(each, 0)
        names = self.names
        assert names is not None
        assert rows.id is not None
        first = np.flatnonzero(np.diff(rows.query, prepend=-1))
        least = rows.id[first].copy()
        counts = np.diff(first, append=len(rows))
        for index in np.flatnonzero(counts > 1).tolist():
            own = rows.id[first[index] : first[index] + counts[index]]
            least[index] = own[int(np.argmin(names.of(own).ranks()))]
        return least[place]

    def first(self, queries: Keys, distance: int, count: int, first_query: int = 0, run: Run = map) -> Matches:
        """Of what search returns, the first `count` rows of each query; however much that is, in memory for these."""
        ways = [self._way(part, distance, len(queries), run) for part in self.searched]
        found = [part.first(queries, way, count) for part, way in zip(self.searched, ways, strict=True)]
        if self.pending_end:
            found.append(self._first_pending(queries, distance, count))
        found = [columns for columns in found if len(columns[0])]
        query, fingerprint, bits, ids = first_of(found, count) if found else one_of([], with_ids=self.settings.ids)
        return made(query + first_query, fingerprint, bits, ids, method_of(ways))

    def contains(self, query: Keys, distance: int) -> bool:
        """Whether a live fingerprint is within distance of the one query."""
        if any(part.has_any(query, self._way(part, distance, 1)) for part in self.searched):
            return True
        return self.pending_end > 0 and len(self._nearest_pending(query, distance)[0]) > 0

    def search_pending(self, queries: Keys, distance: int, room: Room | None) -> Matched:
        """What is pending and lives; not in the order of an answer."""
        most = room.left if room else 0
        query, fingerprint, bits, ids, positions = self.pending.search(queries, distance, self.pending_end, most)
        if room:
            room.take(len(query))
        return matched_alive(self.removals, (query, fingerprint, bits, ids), positions)

    def _nearest_pending(self, queries: Keys, distance: int) -> Nearest:
        """The nearest of what is pending and lives, with its least id."""
        end = self.pending_end
        found = self.pending.nearest(queries, distance, end)
        if not len(found[0]):
            return (*found[:3], found[1] if self.settings.ids else None)

        def find(some: Keys, bits: Array | None, fingerprints: Keys | None, keep: int) -> Found:
            return found if bits is None else self.pending.nearest(some, distance, end, keep, bits, fingerprints)

        return nearest(queries, find, self._least_live_ids)

    def _least_live_ids(self, found: Found) -> tuple[Array | None, Ids | None]:
        """Which of the pending fingerprints found live, bool[n] or None, and the least live id of each, or None."""
        _, fingerprint, _, entry = found
        entries, first, place = np.unique(entry, return_index=True, return_inverse=True)
        if not self.removals:
            return None, self.pending.least_ids(entries, self.pending_end)[place] if self.settings.ids else None
        fingerprints, lives = fingerprint[first], np.zeros(len(entries), dtype=bool)
        least = np.full(len(entries), (1 << 64) - 1, dtype=np.uint64) if self.settings.ids else None
        for which, ids, positions in self.pending.walk(entries, self.pending_end, IDS_AT_ONCE):
            kept = alive(self.removals, fingerprints[which], ids, positions)
            if kept is not None:
                which, ids = which[kept], None if ids is None else ids[kept]
            lives[which] = True
            if least is not None and ids is not None:
                np.minimum.at(least, which, ids)
        return lives[place], None if least is None else least[place]

    def _first_pending(self, queries: Keys, distance: int, count: int) -> Nearest:
        """Of what is pending and lives the first rows of each query."""

        def find(some: Keys, bits: Array | None, fingerprints: Keys | None, keep: int) -> Found:
            return self.pending.nearest(some, distance, self.pending_end, keep, bits, fingerprints)

        return first_rows(queries, count, find, self._first_live_ids)

    def _first_live_ids(self, found: Found, most: int) -> tuple[Counts, Ids | None]:
        """Of the pending fingerprints found the first live ids of each: of which of them each is, and these, or None.

        Walks through all pending rows of each, and holds the least ids.
        """
        _, fingerprint, _, entry = found
        entries, first, place = np.unique(entry, return_index=True, return_inverse=True)
        fingerprints = fingerprint[first]
        groups, least = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
        lives, bound = np.zeros(len(entries), dtype=bool), np.full(len(entries), (1 << 64) - 1, dtype=np.uint64)
        for which, ids, positions in self.pending.walk(entries, self.pending_end, FIRST_IDS_AT_ONCE):
            kept = alive(self.removals, fingerprints[which], ids, positions)
            if kept is not None:
                which, ids = which[kept], None if ids is None else ids[kept]
            lives[which] = True
            if ids is None:
                continue
            below = ids <= bound[which]
            if not below.any():
                continue
            groups, least = least_of_each([groups, which[below]], [least, ids[below]], most)
            full = np.flatnonzero(np.bincount(groups, minlength=len(entries)) == most)
            bound[full] = least[np.searchsorted(groups, full, side="right") - 1]
        if not self.settings.ids:
            return np.flatnonzero(lives[place]), None
        return spread(groups, least, place)

    def _matches(
        self, found: list[Matched], queries: Keys, distance: int, first_query: int, method: str, room: Room | None
    ) -> Matches:
        found = [columns for columns in found if len(columns[0])]
        ordered = len(found) == 1
        if self.pending_end:
            columns = self.search_pending(queries, distance, room)
            if len(columns[0]):
                found.append(columns)
                ordered = False
        query, fingerprint, bits, ids = found[0] if ordered else one_of(found, with_ids=self.settings.ids)
        if first_query:
            query = query + first_query
        return made(query, fingerprint, bits, ids, method)

    def lookup(self, ids: Ids, most: int, go_on: Callable[[], None]) -> tuple[Keys, Ids]:
        """All live rows of these ids (uint64[n], strictly increasing), by id, then fingerprint: uint64[m] both.

        TooManyMatches for more than most. go_on: called between pieces of the work, and may raise.
        """
        parts: list[tuple[Keys, Ids]] = []
        count = 0
        if len(ids):
            for found in itertools.chain(*(part.lookup(ids) for part in self.parts), self._lookup_pending(ids)):
                go_on()
                count += len(found[0])
                if count > most:
                    raise TooManyMatches.of_ids(len(ids), most)
                parts.append(found)
        return self._by_id(parts)

    def _by_id(self, parts: Sequence[tuple[Keys, Ids]]) -> tuple[Keys, Ids]:
        """Rows of several sources by id, then fingerprint, each once."""
        none = np.empty(0, dtype=np.uint64)
        numbers, keys = each_once([np.concatenate([none, *(part[i] for part in parts)]) for i in (1, 0)])
        return keys, numbers

    def _lookup_pending(self, ids: Ids) -> Iterator[tuple[Keys, Ids]]:
        for start in range(self.pending_start, self.pending_end, PENDING_AT_ONCE):
            keys, found, positions = self.pending.rows(start, min(start + PENDING_AT_ONCE, self.pending_end))
            assert found is not None
            at = ids.searchsorted(found)
            at[at == len(ids)] = 0
            wanted = ids[at] == found
            keys, found, positions = keys[wanted], found[wanted], positions[wanted]
            kept = alive(self.removals, keys, found, positions)
            yield (keys, found) if kept is None else (keys[kept], found[kept])

    # --- Everything ---

    def joins(
        self, distance: int, memory_bytes: int, only: Only = None, work: Threads | None = None
    ) -> Iterator[tuple[Join, float]]:
        """What finds every pair of live fingerprints within distance once; see pairs.segment_joins, of one thread."""
        with sound_parts(self.parts, self.plan) as parts:
            if self.is_plain:
                with parts[0].segment.naming:
                    yield from segment_joins(parts[0].segment, distance, memory_bytes, only)
            else:
                yield from segment_joins(self._together(parts, memory_bytes), distance, memory_bytes, only)

    def stretches(self, distance: int, count: int, flipped: int | None = None) -> list[tuple[Stretch, float]]:
        """What the search of joins can be cut into; see pairs.stretches."""
        whole = self.parts[0].segment if self.is_plain else self._together(self.parts, 0)
        return list(stretches(whole, distance, count, flipped))

    def id_pairs(
        self, distance: int, memory_bytes: int, only: Only = None, work: Threads | None = None
    ) -> Iterator[tuple[IdPairs, float]]:
        """Every pair of live rows of different ids within distance, with the share of the work before it; as joins."""
        for groups, share in self._near_groups(distance, memory_bytes, only, work):
            for found in id_pairs(groups):
                yield found, share

    def id_pair_counts(self, distance: int, memory_bytes: int, work: Threads) -> Iterator[tuple[int, float]]:
        """How many pairs id_pairs would yield, in parts, each with the share of the work before it."""
        for groups, share in self._near_groups(distance, memory_bytes, None, work):
            yield id_pair_count(groups), share

    def _near_groups(
        self, distance: int, memory_bytes: int, only: Only, work: Threads | None
    ) -> Iterator[tuple[Groups, float]]:
        with sound_parts(self.parts, self.plan) as parts:
            if self.is_plain:
                with parts[0].segment.naming:
                    yield from near_groups(OfSegment(parts[0].segment), distance, memory_bytes, only)
            else:
                yield from near_groups(self._together(parts, memory_bytes), distance, memory_bytes, only)

    def _together(self, parts: Sequence[Live], memory_bytes: int) -> Together:
        return Together(self.folder, self.plan, parts, *self.pending_rows(), memory_bytes)

    def pending_rows(self) -> tuple[Keys, Ids | None]:
        """The pending rows which live: fingerprints and ids, in the order of their adding."""
        keys, ids, positions = self.pending.rows(self.pending_start, self.pending_end)
        kept = alive(self.removals, keys, ids, positions)
        if kept is None:
            return keys, ids
        return keys[kept], None if ids is None else ids[kept]

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every live fingerprint once for each id, in the order of table 0: uint64[m], and uint64[m] or None.

        Reads all pages that it needs before the first row: what they lack is taken from other tables, with a warning.
        Raises CorruptStore, before the first row, where these lack it too.
        """
        first = Permutation(self.plan.tables[0].prefix_mask, self.plan.bits)
        keys, ids = self.pending_rows()
        keys = first.apply(keys)
        with sound_parts(self.parts, self.plan, 1) as parts:
            for columns in live_pairs(parts, each_once([keys] if ids is None else [keys, ids])):
                yield first.invert(columns[0]), columns[1] if len(columns) == 2 else None

    @cached_property
    def key_count(self) -> int:
        """Distinct live fingerprints; reads all of them, unless they are one segment and nothing else."""
        if self.is_plain:
            return self.parts[0].segment.key_count
        return self._distinct_count()

    def _distinct_count(self) -> int:
        count, last = 0, np.empty(0, dtype=np.uint64)
        for keys, _ in self.rows():
            count += int(np.count_nonzero(keys[1:] != keys[:-1])) + (len(last) == 0 or int(keys[0] != last[0]))
            last = keys[-1:]
        return count

    @cached_property
    def row_count(self) -> int:
        """Live rows, one for each id of a fingerprint; reads all of them, unless they are one segment and no more."""
        if not self.settings.ids:
            return self.key_count
        if self.is_plain:
            return self.parts[0].segment.record.id_count
        return sum(len(keys) for keys, _ in self.rows())

    @cached_property
    def has_rows(self) -> bool:
        """Whether anything lives; reads as far as the first row that does."""
        chunks = (chunk for part in self.parts for chunk in part.rows(lambda keys: None))
        return len(self.pending_rows()[0]) > 0 or any(len(keys) for keys, *_ in chunks)

    # --- Moving on ---

    def extended(self, records: Sequence[Change], state: State) -> "Snapshot":
        """This one and the changes that follow it."""
        pending, removals = self.pending, self.removals
        room = changes.rows_of([change for change in records if change.kind == changes.ADDED])
        if pending.capacity - pending.count < room:
            pending = pending.grown(room_for(pending.count + room), indexed=False)
        for change in records:
            if change.kind == changes.ADDED:
                if self.pending_names is not None:
                    self._take_names(self.pending_names, change)
                if self.pending_sketches is not None and change.own_ids is not None and change.sketches is not None:
                    self.pending_sketches.add(change.own_ids, change.sketches, change.number)
                try:
                    pending.append(change.fingerprints, change.ids, change.number, removals.last_position)
                except ValueError as error:  # a fingerprint of too many bits
                    raise CorruptStore.by(error, f"catalog, change {change.number}", path=self.folder) from None
            else:
                removals = removals.with_change(change)
        if removals is self.removals:
            return self.with_rows(pending, state)
        beside = self.pending_names, self.pending_start, self.pending_sketches
        parts = tuple(part.masked_by(removals) for part in self.parts)
        return type(self)(self.folder, state, self.plan, parts, pending, pending.count, removals, *beside)

    def with_single_rows(self, count: int, max_id: int | None) -> "Snapshot":
        """This one and so many rows more of those pending, all of one change. max_id: the largest id among them."""
        return self.with_rows(self.pending, self.state.after(1, max_id), self.pending_end + count)

    def with_rows(
        self, pending: PendingIndex, state: State, end: int | None = None, single: Single | None = None
    ) -> "Snapshot":
        """This one in that state, with the rows of pending up to `end`, by default all; single: if it was made."""
        end = pending.count if end is None else end
        own = {
            "folder": self.folder,
            "state": state,
            "plan": self.plan,
            "parts": self.parts,
            "pending": pending,
            "pending_end": end,
            "removals": self.removals,
            "pending_names": self.pending_names,
            "pending_start": self.pending_start,
            "pending_sketches": self.pending_sketches,
            "single": single or self.single.grown(pending, end),  # not made anew for each row
        }
        following = object.__new__(Snapshot)  # as Snapshot(...), in a third of the time, which a row at a time can tell
        object.__setattr__(following, "__dict__", own)
        return following

    def _take_names(self, pending: LogNames, change: Change) -> None:
        """Hold the names of a change. CorruptStore where they contradict those of others."""
        ids = change.own_ids
        if change.names is not None and ids is not None:
            try:
                told = change.told
                if told is not None and told.are_new and change.names.size:
                    pending.add_new(change.names, int(ids[0]), told.hashes)
                else:
                    hashes = hashed(*change.names) if told is None else told.hashes
                    pending.add(change.names, ids, hashes)
            except ValueError as error:
                raise CorruptStore.by(error, f"catalog, change {change.number}", path=self.folder) from None

    def divided(self) -> "Snapshot":
        """This one, to which names are added beside those there are, which a thread can write meanwhile."""
        if self.pending_names is None:
            return self
        return dataclasses.replace(self, pending_names=self.pending_names.divided(self.state.next_change))
