"""Merging segments into one: the live content of all of them, streamed in order, table by table.

Every table of a segment is sorted already, so nothing is sorted again and nothing is spilled. A merge takes some 12 MiB
for each segment, and about 24 bytes for each fingerprint and each id that was removed from one.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from pathlib import Path

import numpy as np

from fpstore._merge import merge_keys, merge_pairs
from fpstore._probe import IdCursor
from fpstore.errors import CorruptStore
from fpstore.format import Region
from fpstore.living.removals import Removals
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Array, Ids, Keys

# Of a segment's keys, and of its ids, so many are held at a time.
CHUNK_KEYS = 1 << 17
# How much of a region is asked of the disk at a time, and let go of when it has been read.
READ_AHEAD_BYTES = 4 << 20
# A removed id is looked for among 8 to 16 times as many places, most of them empty; from 2^24 ids on among fewer.
MIN_FILTER_BITS = 10
MAX_FILTER_BITS = 28
# 2^64 divided by the golden ratio: its multiples lie evenly, of consecutive numbers too.
FILTER_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Pairs = tuple[Keys, Ids | None]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Input:
    """A segment and its position: the changes before that are in it, removals from there on are yet to be applied."""

    segment: Segment
    position: int


def live_pairs(
    inputs: Sequence[Input], removals: Removals, extra: Pairs | None = None, *, advance: Advance | None = None
) -> Iterator[Pairs]:
    """Every live pair once, in order, in chunks: keys under table 0's permutation and ids, both uint64[m], m > 0.

    Where there are no ids, keys and None. extra: live rows beside the segments, in the same order, each once.
    advance is called with numbers of keys read; they sum up to those of the inputs. Raises CorruptStore where an input
    is damaged, ValueError where one has other tables than the first, or ids where that has none.
    """
    for one in inputs:
        _expect_alike(one.segment, _masks(inputs[0].segment), inputs[0].segment.ids is not None)
    streams = [_Source(one, removals, advance).live() for one in inputs]
    return _merged([*streams, iter([extra] if extra is not None and len(extra[0]) else [])])


def pass_count(plan: Plan, with_ids: bool) -> int:
    """How many times merge_segments reads every key of its inputs."""
    return 1 + 2 * len(plan.tables) + 2 * with_ids


def merge_segments(
    path: Path,
    inputs: Sequence[Input],
    removals: Removals,
    codec: str,
    plan: Plan,
    with_ids: bool,
    *,
    advance: Advance | None = None,
) -> SegmentEntry | None:
    """Write the live content of inputs, segments of this plan, to a new one, path: the bytes that a build would write.

    Returns None, and makes no file, where nothing lives. Raises CorruptStore where an input is damaged, ValueError
    where one has other tables or, against with_ids, ids or none, FileExistsError where path is there; no new file is
    left then. advance is called with numbers of keys read, which sum up to pass_count times those of the inputs where
    anything lives; what it raises ends the merge.
    """
    for one in inputs:
        _expect_alike(one.segment, [table.prefix_mask for table in plan.tables], with_ids)
    sources = [_Source(one, removals, advance) for one in inputs]
    live = _count(sources)
    if not live.keys:
        return None
    with SegmentWriter(path, codec, planner.slot_bits(live.keys, plan.slot_keys)) as writer:
        for index, table in enumerate(plan.tables):
            writer.add_table(table, _Table(sources, index, live.keys), with_ranks=with_ids and index == 0)
        if with_ids:
            writer.add_ids(
                live.ids, live.least_id, live.most_id, lambda: _group_sizes(sources, live), lambda: _ids(sources)
            )
        crc = writer.finish()
    # All of removals was applied to every input; to what is in the latest one, no removal before it.
    position = max(removals.last_position + 1, *(one.position for one in inputs))
    return SegmentEntry(path.name, path.stat().st_size, live.keys, live.ids, crc, position)


def _masks(segment: Segment) -> list[int]:
    return [table.prefix_mask for table in segment.tables]


def _expect_alike(segment: Segment, masks: list[int], with_ids: bool) -> None:
    if _masks(segment) != masks:
        raise ValueError(f"{segment.path}: its tables are not those of the plan, or of the first segment")
    if (segment.ids is not None) != with_ids:
        raise ValueError(f"{segment.path}: has {'no ' * with_ids}ids, expected {'ids' if with_ids else 'none'}")


class _Source:
    """One input: its live pairs, and its tables without what does not live.

    dead: the keys of table 0 to leave out, sorted; before _count, those of them that were removed and may not be there.
    """

    def __init__(self, one: Input, removals: Removals, advance: Advance | None) -> None:
        self.segment = one.segment
        self.advance = advance or (lambda keys: None)
        self._first = Permutation(self.segment.tables[0].prefix_mask)
        self.dead = removals.fingerprints_since(one.position)
        if not self._first.is_identity:
            self.dead = np.sort(self._first.apply(self.dead))
        self._removed_ids = _RemovedIds(removals, one.position)

    def dead_of(self, table: int) -> Keys:
        """The keys of a table to leave out, sorted."""
        if table == 0:
            return self.dead
        keys = self._first.invert(self.dead)
        Permutation(self.segment.tables[table].prefix_mask).apply(keys, out=keys)
        keys.sort()
        return keys

    def keys(self, table: int, dead: Keys) -> Iterator[Pairs]:
        """The keys of a table without the dead ones, in chunks. CorruptStore where one of these is not there."""
        left = dead
        for chunk in self._chunks(table, ("payload", "directory", "fences")):
            here, left = _split(left, chunk[-1])
            at = _places(chunk, here)
            if len(at) < len(here):
                raise CorruptStore(f"table {table} lacks a fingerprint that table 0 has", path=self.segment.path)
            yield _without(chunk, at), None
        if len(left):
            raise CorruptStore(f"table {table} lacks a fingerprint that table 0 has", path=self.segment.path)

    def live(self, found_dead: list[Keys] | None = None) -> Iterator[Pairs]:
        """The live pairs, or keys, in the order of table 0, in chunks; found_dead: takes the keys that have none."""
        column = self.segment.ids
        cursor = IdCursor(column) if column is not None else None
        left, first_rank = self.dead, 0
        for keys in self._chunks(0, ("payload", "directory", "fences", "id groups", "id values")):
            here, left = _split(left, keys[-1])
            removed = _places(keys, here)
            if cursor is None:
                if found_dead is not None:
                    found_dead.append(keys[removed])
                yield _without(keys, removed), None
                continue
            kept = np.ones(len(keys), dtype=bool)
            kept[removed] = False
            alive = np.zeros(len(keys), dtype=bool)
            for at, ids in self._id_chunks(cursor, first_rank, len(keys)):
                masked = self._removed_ids.among(ids)
                if len(removed) or masked is not None:
                    lives = kept[at] if masked is None else kept[at] & ~masked
                    at, ids = at[lives], ids[lives]
                alive[at] = True
                yield keys[at], ids
            if found_dead is not None:
                found_dead.append(keys[~alive])
            first_rank += len(keys)

    def _id_chunks(self, cursor: IdCursor, first_rank: int, count: int) -> Iterator[tuple[Array, Ids]]:
        """The ids of the count fingerprints from first_rank on, and to which of these they belong: int64[m]."""
        full = True
        while full:
            with self.segment.naming:
                ranks, ids = cursor.read(first_rank + count, CHUNK_KEYS)
            full = len(ids) == CHUNK_KEYS
            ranks -= np.uint64(first_rank)
            yield ranks.view(np.int64), ids

    def _chunks(self, table: int, names: tuple[str, ...]) -> Iterator[Keys]:
        """All keys of a table; the regions of these names, of this table or of none, are read at the same pace."""
        regions = [region for region in self.segment.regions() if region.name in names]
        pace = _Pace(self.segment, [region for region in regions if region.table in (table, None)])
        done = 0
        pace.move(0)
        for chunk in self.segment.keys(table):
            done += len(chunk)
            pace.move(done / self.segment.key_count)
            self.advance(len(chunk))
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


def _merged(streams: Sequence[Iterator[Pairs]]) -> Iterator[Pairs]:
    """What sorted streams hold, each item once, in order, in chunks that are not empty.

    Of the chunks held, one of each stream, the smallest last item is the cut. Nothing that is still to come is below
    it, so all that does not exceed it is merged and handed on; at least one chunk is used up.
    """
    held = [(chunk, stream) for stream in streams if (chunk := _next(stream))]
    while held:
        cut = min(_item(chunk, -1) for chunk, _ in held)
        taken, still_held = [], []
        for chunk, stream in held:
            count = _count_up_to(chunk, cut)
            if count:
                taken.append(_slice(chunk, 0, count))
            rest = _slice(chunk, count, len(chunk[0])) if count < len(chunk[0]) else _next(stream)
            if rest:
                still_held.append((rest, stream))
        held = still_held
        yield _union(taken)


def _next(stream: Iterator[Pairs]) -> Pairs | None:
    """The next chunk that is not empty."""
    return next((chunk for chunk in stream if len(chunk[0])), None)


def _item(chunk: Pairs, index: int) -> tuple[np.uint64, ...]:
    keys, ids = chunk
    return (keys[index],) if ids is None else (keys[index], ids[index])


def _slice(chunk: Pairs, first: int, end: int) -> Pairs:
    keys, ids = chunk
    return keys[first:end], None if ids is None else ids[first:end]


def _count_up_to(chunk: Pairs, cut: tuple[np.uint64, ...]) -> int:
    """How many leading items of chunk do not exceed cut."""
    keys, ids = chunk
    end = int(keys.searchsorted(cut[0], side="right"))
    if ids is None:
        return end
    first = int(keys.searchsorted(cut[0]))
    return first + int(ids[first:end].searchsorted(cut[1], side="right"))


def _union(chunks: Sequence[Pairs]) -> Pairs:
    """The items of all chunks, each once, in order; the two smallest are merged until one is left."""
    heap = [(len(chunk[0]), index, chunk) for index, chunk in enumerate(chunks)]
    heapify(heap)
    while len(heap) > 1:
        _, index, (a, a_ids) = heappop(heap)
        b, b_ids = heap[0][2]
        merged = (merge_keys(a, b), None) if a_ids is None or b_ids is None else merge_pairs(a, a_ids, b, b_ids)
        heapreplace(heap, (len(merged[0]), index, merged))
    return heap[0][2]


@dataclass(frozen=True)
class _Live:
    """What lives: distinct keys, pairs, and the range of the ids."""

    keys: int
    ids: int
    least_id: int
    most_id: int


def _count(sources: Sequence[_Source]) -> _Live:
    """Read all live pairs; every source knows afterwards which of its keys are dead."""
    dead: list[list[Keys]] = [[source.dead[:0]] for source in sources]
    key_count = id_count = most = 0
    least, last = (1 << 64) - 1, None
    for keys, ids in _merged([source.live(found) for source, found in zip(sources, dead, strict=True)]):
        key_count += int(keys[0] != last) + int(np.count_nonzero(keys[1:] != keys[:-1]))
        last = keys[-1]
        if ids is not None:
            id_count += len(ids)
            least, most = min(least, int(ids.min())), max(most, int(ids.max()))
    for source, found in zip(sources, dead, strict=True):
        source.dead = np.concatenate(found)
    return _Live(key_count, id_count, least, most)


class _Table:
    """The live keys of one table of all sources; can be read more than once."""

    def __init__(self, sources: Sequence[_Source], table: int, count: int) -> None:
        self.count = count
        self._sources = [(source, source.dead_of(table)) for source in sources]
        self._table = table

    def chunks(self) -> Iterator[Keys]:
        """The keys, in order. CorruptStore where they are not as many as there are in table 0."""
        found = 0
        for keys, _ in _merged([source.keys(self._table, dead) for source, dead in self._sources]):
            found += len(keys)
            yield keys
        if found != self.count:
            names = ", ".join(str(source.segment.path) for source, _ in self._sources)
            raise CorruptStore(f"{names}: {found} fingerprints in table {self._table} of all, {self.count} in table 0")


def _group_sizes(sources: Sequence[_Source], live: _Live) -> Iterator[Keys]:
    """How many ids each live key has, in order, in chunks."""
    if live.ids == live.keys:
        for source in sources:
            source.advance(source.segment.key_count)
        for first in range(0, live.keys, CHUNK_KEYS):
            yield np.ones(min(CHUNK_KEYS, live.keys - first), dtype=np.uint64)
        return
    last, last_size = None, np.zeros(1, dtype=np.uint64)
    for keys, _ in _merged([source.live() for source in sources]):
        bounds = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]]))
        sizes = np.diff(bounds).astype(np.uint64)
        if keys[0] == last:
            sizes[0] += last_size[0]
        elif last is not None:
            yield last_size
        # The last group may go on in the next chunk.
        last, last_size = keys[-1], sizes[-1:]
        yield sizes[:-1]
    yield last_size


def _ids(sources: Sequence[_Source]) -> Iterator[Ids]:
    for _, ids in _merged([source.live() for source in sources]):
        if ids is not None:
            yield ids
