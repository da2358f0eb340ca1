"""What lives of a segment: all of it but what a later removal masks; the one place that asks which removal masks what.

A removal masks what was stored at its position or before. A row of the log has a position of its own; all that is in a
segment has the segment's.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fpstore._probe import IdCursor, WantedIds
from fpstore._view import SegmentView
from fpstore.errors import CorruptStore
from fpstore.format import Region
from fpstore.living.removals import Removals
from fpstore.merging import each_once
from fpstore.names.reader import NamesReader
from fpstore.plans.permutation import Permutation
from fpstore.query.matches import Room
from fpstore.query.nearest import Found, Nearest, first_live, first_rows, least_live, nearest, spread
from fpstore.query.ways import NearestWay, Way
from fpstore.segment.reader import Segment
from fpstore.sketches.reader import SketchesReader
from fpstore.types import Array, Counts, Ids, Keys

# Of a segment's keys, and of its ids, so many are held at a time.
CHUNK_KEYS = 1 << 17
# Ids that are compared at a time: some milliseconds without the lock.
LOOKED_THROUGH = 1 << 21
# How much of a region is asked of the disk at a time, and let go of when it has been read.
READ_AHEAD_BYTES = 4 << 20
# A removed id is looked for among 8 to 16 times as many places, most of them empty; from 2^24 ids on among fewer.
MIN_FILTER_BITS = 10
MAX_FILTER_BITS = 28
# 2^64 divided by the golden ratio: its multiples lie evenly, of consecutive numbers too.
FILTER_FACTOR = np.uint64(0x9E3779B97F4A7C15)

# query, fingerprint, distance, id
Matched = tuple[Counts, Keys, Array, Ids | None]
# Keys, and ids where there are any.
Columns = tuple[Keys, ...]
Advance = Callable[[int], None]

_WITH_KEYS = ("payload", "directory", "fences")


def alive(removals: Removals, fingerprints: Keys, ids: Ids | None, positions: int | Keys) -> Array | None:
    """Which rows live: bool[n], or None where all do. positions: when each was stored, uint64[n], or one for all."""
    if not removals or not len(fingerprints):
        return None
    masked = removals.fingerprints_masked(fingerprints, positions)
    if ids is not None:
        masked |= removals.ids_masked(ids, positions)
        if removals.has_rows:
            masked |= removals.rows_masked(fingerprints, ids, positions)
    return ~masked if masked.any() else None


def _no_ranges() -> tuple[Array, Array]:
    return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64)


def matched_alive(removals: Removals, matched: Matched, positions: int | Keys) -> Matched:
    """What was found, without what was removed."""
    query, fingerprint, distance, ids = matched
    kept = alive(removals, fingerprint, ids, positions)
    if kept is None:
        return matched
    return query[kept], fingerprint[kept], distance[kept], None if ids is None else ids[kept]


@dataclass(frozen=True, eq=False)
class Live:
    """A segment and its position: the changes before that are in it, those of removals from there on mask it.

    names: the files with those of its ids, where these are names. held_from: where the pending index of a snapshot has
    all its rows too, the number of the change that the first of them came with; 0 where it has not. sketches: the file
    with those of its ids, in a store that keeps them.
    """

    segment: Segment
    position: int
    removals: Removals
    names: tuple[NamesReader, ...] = ()
    held_from: int = 0
    sketches: SketchesReader | None = None

    @property
    def views(self) -> tuple[SegmentView, ...]:
        """The pages of each of its files."""
        return self.segment.view, *(file.view for file in self.beside)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in the midst of a call that uses its files."""
        return self.segment.view.is_inside or any(file.view.is_inside for file in self.beside)

    def close(self) -> None:
        """Let go of its files."""
        try:
            self.segment.close()
        finally:
            for file in self.beside:
                file.close()

    @property
    def beside(self) -> tuple[NamesReader | SketchesReader, ...]:
        """The files that it has beside the segment."""
        return self.names if self.sketches is None else (*self.names, self.sketches)

    def masked_by(self, removals: Removals) -> "Live":
        """The same segment under other removals."""
        return self if removals is self.removals else replace(self, removals=removals)

    # --- Of what was found ---

    def search(self, queries: Keys, way: Way, room: Room | None = None) -> Matched:
        """What lives within the distance of each query, a row for each of its ids. TooManyMatches without room.

        way: how the segment is searched, and for which distance, here and below.
        """
        with self.segment.naming:
            found = way.all(queries, room.left if room else 0)
            return self.with_ids(*found, room) if len(found[0]) else (*found, found[1] if self.has_ids else None)

    def nearest(self, queries: Keys, way: NearestWay) -> Nearest:
        """What lives nearest to each query that is within the distance of anything, with its least id."""
        with self.segment.naming:
            found = way.nearest(queries)
            if not len(found[0]):
                return (*found, found[1] if self.has_ids else None)
            if not self.removals and self.segment.ids is None:
                return (*found, None)

            def find(some: Keys, bits: Array | None, fingerprints: Keys | None, keep: int) -> Found:
                return found if bits is None else way.nearest(some, keep, bits, fingerprints)

            return nearest(queries, find, self._least_live_ids)

    def first(self, queries: Keys, way: NearestWay, count: int) -> Nearest:
        """Of what lives within the distance of each query the first `count` rows, and maybe more; in no order."""

        def find(some: Keys, bits: Array | None, fingerprints: Keys | None, keep: int) -> Found:
            return way.nearest(some, keep, bits, fingerprints)

        with self.segment.naming:
            return first_rows(queries, count, find, self._first_live_ids)

    def has_any(self, query: Keys, way: Way) -> bool:
        """Whether anything lives within the distance of the one query."""
        if self.removals:
            return len(self.nearest(query, way)[0]) > 0
        with self.segment.naming:
            return way.any(query)

    def with_ids(self, query: Counts, fingerprint: Keys, distance: Array, room: Room | None = None) -> Matched:
        """What was found in the segment, a row for each id, without what was removed, for which room is taken too."""
        ids = None
        if self.segment.ids is None:
            if room:
                room.take(len(query))
        else:
            with self.segment.naming:
                counts, ids = self.segment.ids.lookup(fingerprint, room.take if room else None)
            if len(ids) != len(fingerprint) or (counts != 1).any():
                query, fingerprint, distance = (np.repeat(column, counts) for column in (query, fingerprint, distance))
        return matched_alive(self.removals, (query, fingerprint, distance, ids), self.position)

    def _least_live_ids(self, found: Found) -> tuple[Array | None, Ids | None]:
        """Which of the fingerprints found live, bool[n] or None for all, and the least live id of each, or None."""
        ids = self.segment.ids
        if not self.removals and ids is not None:
            counts, least = ids.least(found[1])
            return (None if counts.all() else counts > 0), least
        return self._least_of_each(found)

    def _least_of_each(self, found: Found) -> tuple[Array | None, Ids | None]:
        """The same where some may not live."""
        ids = self.segment.ids
        fingerprints, place, firsts, counts = self._distinct(found[1])
        lives = ~self.removals.fingerprints_masked(fingerprints, self.position)
        if ids is None:
            return lives[place], None
        counts[~lives] = 0

        lives, least = least_live(firsts, counts, ids.values, self._lives_of(fingerprints))
        return lives[place], least[place]

    def _distinct(self, found: Keys) -> tuple[Keys, Array, Array, Array]:
        """The distinct ones of fingerprints found, for each of all which it is, and where the ids of each are."""
        fingerprints, place = np.unique(found, return_inverse=True)
        ids = self.segment.ids
        return fingerprints, place, *(_no_ranges() if ids is None else ids.ranges(fingerprints))

    def _lives_of(self, fingerprints: Keys) -> Callable[[Ids, Array], Array]:
        """Tells which ids live, each of one of these fingerprints, none of which was removed; its place is given."""

        def live(ids: Ids, places: Array) -> Array:
            masked = self.removals.ids_masked(ids, self.position)
            if self.removals.has_rows:
                masked |= self.removals.rows_masked(fingerprints[places], ids, self.position)
            return ~masked

        return live

    def _first_live_ids(self, found: Found, most: int) -> tuple[Counts, Ids | None]:
        """Of the fingerprints found the first live ids of each: of which of them each is, and these, or None."""
        ids = self.segment.ids
        fingerprints, place, firsts, counts = self._distinct(found[1])
        lives = ~self.removals.fingerprints_masked(fingerprints, self.position)
        if ids is None:
            return np.flatnonzero(lives[place]), None
        counts[~lives] = 0

        return spread(*first_live(firsts, counts, most, ids.values, self._lives_of(fingerprints)), place)

    @property
    def has_ids(self) -> bool:
        """Whether the segment has ids."""
        return self.segment.ids is not None

    # --- Of ids ---

    def lookup(self, ids: Ids) -> Iterator[tuple[Keys, Ids]]:
        """What lives with one of these ids (uint64[n], strictly increasing), in chunks: fingerprints and ids.

        Reads all ids of the segment, unless none of these can be there.
        """
        column, record = self.segment.ids, self.segment.record
        # What is listed can be any number.
        most = (1 << 64) - 1 if record.list_count else min(record.id_base + (1 << record.id_width) - 1, (1 << 64) - 1)
        first, end = ids.searchsorted(np.uint64(record.id_base)), ids.searchsorted(np.uint64(most), side="right")
        wanted = ids[first:end]
        wanted = wanted[~self.removals.ids_masked(wanted, self.position)]
        if column is None or not len(wanted) or not record.id_count:
            return
        pace = _Pace(self.segment, [region for region in self.segment.regions() if region.name == "id values"])
        sought, at = WantedIds(wanted), 0
        while at < record.id_count:
            pace.move(at / record.id_count)
            with self.segment.naming:
                at, keys, found = column.find(sought, at, min(at + LOOKED_THROUGH, record.id_count))
            kept = alive(self.removals, keys, found, self.position)
            yield (keys, found) if kept is None else (keys[kept], found[kept])

    # --- Of everything ---

    def rows(self, advance: Advance, dead: list[Keys] | None = None) -> Iterator[Columns]:
        """What lives, in the order of table 0, in chunks: keys and ids, or keys alone.

        advance is told how many keys were read; dead: takes those of them of which nothing lives.
        """
        cursor = IdCursor(self.segment.ids) if self.segment.ids is not None else None
        left = self._removed_keys(self.removals.fingerprints_since(self.position))
        left_rows = self._removed_keys(self.removals.row_fingerprints_since(self.position))
        removed_ids = _RemovedIds(self.removals, self.position)
        first_rank = 0
        for keys in self._chunks(0, (*_WITH_KEYS, "id groups", "id values"), advance):
            here, left = _split(left, keys[-1])
            removed = _places(keys, here)
            if cursor is None:
                if dead is not None:
                    dead.append(keys[removed])
                yield (_without(keys, removed),)
                continue
            kept = np.ones(len(keys), dtype=bool)
            kept[removed] = False
            here, left_rows = _split(left_rows, keys[-1])
            touched = _places(keys, here)
            has_rows = np.zeros(len(keys), dtype=bool)
            for at, ids in self._id_chunks(cursor, first_rank, len(keys)):
                masked = removed_ids.among(ids)
                if len(removed) or masked is not None:
                    lives = kept[at] if masked is None else kept[at] & ~masked
                    at, ids = at[lives], ids[lives]
                if len(touched):
                    lives = self._rows_kept(keys, touched, at, ids)
                    at, ids = at[lives], ids[lives]
                has_rows[at] = True
                yield keys[at], ids
            if dead is not None:
                dead.append(keys[~has_rows])
            first_rank += len(keys)

    def keys(self, table: int, dead: Keys, advance: Advance) -> Iterator[Columns]:
        """The keys of a table without dead ones, keys of table 0, in chunks. CorruptStore where one is not there."""
        return self.without_dead(table, self.in_table(table, dead), self._chunks(table, _WITH_KEYS, advance))

    def without_dead(self, table: int, left: Keys, chunks: Iterable[Keys]) -> Iterator[Columns]:
        """Chunks of keys of a table, in order, without dead ones, sorted. CorruptStore where one is not there."""
        for chunk in chunks:
            if not len(left):
                yield (chunk,)
                continue
            if not len(chunk):
                continue
            here, left = _split(left, chunk[-1])
            at = _places(chunk, here)
            if len(at) < len(here):
                raise self._lacking(table)
            yield (_without(chunk, at),)
        if len(left):
            raise self._lacking(table)

    def removed(self) -> tuple[Keys, Keys, Ids]:
        """What was removed since the segment was made: fingerprints, those of rows, and ids; maybe not of it."""
        removals, position = self.removals, self.position
        rows = removals.row_fingerprints_since(position)
        return removals.fingerprints_since(position), rows, removals.ids_since(position)

    def _rows_kept(self, keys: Keys, touched: Array, at: Array, ids: Ids) -> Array:
        """Which rows, the keys at these places with these ids, were not removed as such: bool[m].

        touched: the places of the keys that some row was removed of.
        """
        asked = np.zeros(len(keys), dtype=bool)
        asked[touched] = True
        places = np.flatnonzero(asked[at])
        fingerprints = Permutation(self.segment.tables[0].prefix_mask, self.segment.bits).invert(keys[at[places]])
        kept = np.ones(len(at), dtype=bool)
        kept[places] = ~self.removals.rows_masked(fingerprints, ids[places], self.position)
        return kept

    def _removed_keys(self, removed: Keys) -> Keys:
        """Fingerprints, sorted, as keys of table 0, sorted; not all of them need be there."""
        first = Permutation(self.segment.tables[0].prefix_mask, self.segment.bits)
        return removed if first.is_identity else np.sort(first.apply(removed))

    def _lacking(self, table: int) -> CorruptStore:
        return CorruptStore(f"table {table}", "another set of fingerprints", "that of table 0", path=self.segment.path)

    def in_table(self, table: int, keys0: Keys) -> Keys:
        """Keys of table 0 as those of a table, sorted."""
        if table == 0:
            return keys0
        keys = Permutation(self.segment.tables[0].prefix_mask, self.segment.bits).invert(keys0)
        Permutation(self.segment.tables[table].prefix_mask, self.segment.bits).apply(keys, out=keys)
        keys.sort()
        return keys

    def _id_chunks(self, cursor: IdCursor, first_rank: int, count: int) -> Iterator[tuple[Array, Ids]]:
        """The ids of the count fingerprints from first_rank on, and to which of these they belong: int64[m]."""
        full = True
        while full:
            with self.segment.naming:
                ranks, ids = cursor.read(first_rank + count, CHUNK_KEYS)
            full = len(ids) == CHUNK_KEYS
            ranks -= np.uint64(first_rank)
            yield ranks.view(np.int64), ids

    def _chunks(self, table: int, names: tuple[str, ...], advance: Advance) -> Iterator[Keys]:
        """All keys of a table; the regions of these names, of this table or of none, are read at the same pace."""
        regions = [region for region in self.segment.regions() if region.name in names]
        pace = _Pace(self.segment, [region for region in regions if region.table in (table, None)])
        done = 0
        pace.move(0)
        for chunk in self.segment.keys(table):
            done += len(chunk)
            pace.move(done / self.segment.key_count)
            advance(len(chunk))
            yield chunk


class _RemovedIds:
    """Finds the ids that were removed from a segment among many, in no order."""

    def __init__(self, removals: Removals, position: int) -> None:
        self._removals = removals
        self._position = position
        ids = removals.ids_since(position)
        self._any = len(ids) > 0
        bits = min(max((8 * len(ids)).bit_length(), MIN_FILTER_BITS), MAX_FILTER_BITS)
        self._shift = np.uint64(64 - bits)
        self._taken = np.zeros(1 << bits, dtype=bool)
        self._taken[self._place(ids)] = True

    def among(self, ids: Ids) -> Array | None:
        """Which of ids (uint64[n]) were removed: bool[n], or None where none was ever."""
        if not self._any:
            return None
        found = self._taken[self._place(ids)]
        at = np.flatnonzero(found)
        found[at] = self._removals.ids_masked(ids[at], self._position)
        return found

    def _place(self, ids: Ids) -> Array:
        places: Array = ids * FILTER_FACTOR
        places >>= self._shift
        return places.view(np.int64)


class _Pace:
    """Tells the kernel which bytes of some regions come next, and which are done with."""

    def __init__(self, segment: Segment, regions: Iterable[Region]) -> None:
        self._segment = segment
        self._regions = [(region.offset // mmap.PAGESIZE * mmap.PAGESIZE, region) for region in regions]
        self._asked = [start for start, _ in self._regions]
        self._forgotten = list(self._asked)

    def move(self, share: float) -> None:
        """This share of every region, from its start, has been read, if its bytes are spread evenly over its keys."""
        for index, (start, region) in enumerate(self._regions):
            end = region.offset + region.bytes
            here = start + int(share * (end - start)) // READ_AHEAD_BYTES * READ_AHEAD_BYTES
            ask = min(end, here + 2 * READ_AHEAD_BYTES)
            if self._asked[index] < ask:
                self._segment.read_ahead(self._asked[index], ask)
                self._asked[index] = ask
            if self._forgotten[index] < here - READ_AHEAD_BYTES:
                self._segment.forget(self._forgotten[index], here - READ_AHEAD_BYTES)
                self._forgotten[index] = here - READ_AHEAD_BYTES


def _split(sorted_keys: Keys, last: np.uint64) -> tuple[Keys, Keys]:
    """The keys up to last, and those above."""
    at = int(sorted_keys.searchsorted(last, side="right"))
    return sorted_keys[:at], sorted_keys[at:]


def _places(chunk: Keys, wanted: Keys) -> Array:
    """Where chunk holds wanted keys; both are sorted, and no wanted key is above the last of chunk."""
    at = chunk.searchsorted(wanted)
    found: Array = at[chunk[at] == wanted]
    return found


def _without(chunk: Keys, at: Array) -> Keys:
    return np.delete(chunk, at) if len(at) else chunk


def one_of(found: Sequence[Matched], *, with_ids: bool) -> Matched:
    """Rows of several sources as those of one: in order, each once."""
    if not found:
        none = np.empty(0, dtype=np.uint64)
        return np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.uint16), none if with_ids else None
    query, fingerprint, distance = (np.concatenate([columns[i] for columns in found]) for i in range(3))
    ids = [np.concatenate([columns[3] for columns in found])] if with_ids else []
    query, distance, fingerprint, *ids = each_once([query, distance, fingerprint, *ids])
    return query, fingerprint, distance, ids[0] if with_ids else None
