"""Merging segments into one: the live content of all of them, streamed in order, table by table.

Every table of a segment is sorted already, so nothing is sorted again and nothing is spilled. A merge takes some 12 MiB
for each segment, up to 64 MiB for what it has merged and needs once more, and about 24 bytes for each fingerprint, id
and row that was removed from one.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fpstore._merge import Rooms
from fpstore.building.rows import write_stream
from fpstore.codes.rows import write_codes
from fpstore.disk import Place, placed
from fpstore.errors import CorruptStore
from fpstore.format import WIDE_BITS
from fpstore.living.live import CHUNK_KEYS, Advance, Live
from fpstore.merging import Chunks, Columns, merged, union
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.listing import Listing
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Ids, Keys

# Where a merge has no more keys, or ids, than that, it holds what it has merged for when it needs it again: the keys of
# a table, whose symbols are counted before they are written, and the ids. Eight segments of 131,072 keys take 0.65 to
# 0.8 of the processor's time so, two of 2*10^6 and 10^6 0.8.
HELD_NUMBERS = 1 << 22


def live_pairs(parts: Sequence[Live], extra: Columns = (), *, advance: Advance | None = None) -> Iterator[Columns]:
    """Every live row once, in order, in chunks: keys under table 0's permutation and ids, both uint64[m], m > 0.

    Where there are no ids, keys alone. extra: live rows beside the segments, in the same order, each once; or nothing.
    advance is called with numbers of keys read; they sum up to those of the parts. Raises CorruptStore where a segment
    is damaged, ValueError where one has other tables than the first, or ids where that has none.
    """
    for part in parts:
        _expect_alike(part.segment, parts[0].segment, parts[0].has_ids)
    rows = [part.rows(advance or _nothing) for part in parts]
    return merged([Chunks(each) for each in (*rows, iter([extra] if extra else []))])


def pass_count(plan: Plan, with_ids: bool, listing: Listing | None = None) -> int:
    """How many times merge_segments reads every key of its parts, or one less where no list of ids is worth it.

    merge_codes: once, and then for each table.
    """
    if plan.bits in WIDE_BITS:
        return 1 + len(plan.tables)
    return 1 + 2 * len(plan.tables) + 2 * with_ids + (with_ids and listing is not None)


def merge_segments(
    at: Path | Place,
    parts: Sequence[Live],
    codec: str,
    plan: Plan,
    with_ids: bool,
    *,
    advance: Advance | None = None,
    listing: Listing | None = None,
) -> SegmentEntry | None:
    """Write what lives of parts, segments of this plan, to a new one there: the bytes that a build would write.

    Returns None, and makes no file, where nothing lives. Raises CorruptStore where a segment is damaged, ValueError
    where one has other tables or, against with_ids, ids or none, FileExistsError where a file is there; no new file is
    left then. advance is called with numbers of keys read, which sum up to pass_count times those of the parts where
    anything lives; what it raises ends the merge.
    """
    for part in parts:
        _expect_alike(part.segment, plan, with_ids)
    merge = _Merge(parts, advance or _nothing)
    live = merge.count()
    if not live.keys:
        return None
    with SegmentWriter(at, codec, planner.slot_bits(live.keys, plan.slot_keys), plan.bits, plan.block_bytes) as writer:
        for index, table in enumerate(plan.tables):
            writer.add_table(table, _Table(merge, index, live.keys), with_ranks=with_ids and index == 0)
        if with_ids:
            sizes, span = (lambda: merge.group_sizes(live)), (live.least_id, live.most_id)
            writer.add_ids(live.ids, *span, sizes, merge.ids, listing=listing)
        # All of its removals were applied to every part; to what is in the latest one, no removal before it.
        return writer.finish(max(max(part.removals.last_position + 1, part.position) for part in parts))


def merge_codes(
    at: Path | Place, parts: Sequence[Live], plan: Plan, with_ids: bool, advance: Advance
) -> SegmentEntry | None:
    """As merge_segments, of wide codes: what lives is sorted as for a build, which its tables are anyway."""
    total = sum(part.segment.key_count for part in parts)
    read = 0

    def counted(keys: int) -> None:
        nonlocal read
        advance(min(keys, total - read))  # rows are told of, of which there may be more than keys
        read = min(total, read + keys)

    def told(phase: str, done: int, of: int | None) -> None:
        advance(total if phase.startswith("table") and done == 0 else 0)

    def rows() -> Iterator[tuple[Keys, Ids | None]]:
        for part in parts:
            for keys, *ids in part.rows(counted):
                yield keys, ids[0] if ids else None

    with placed(at) as place:
        scratch = place.folder.reach
        entry = write_stream(place, scratch, rows(), plan, "raw", with_ids, write=write_codes, report=told)
        if entry.key_count:
            return entry
        place.folder.unlink(place.name)
        return None


def _nothing(keys: int) -> None:
    pass


def _tables(of: Segment | Plan) -> tuple[int, list[int]]:
    return of.bits, [table.prefix_mask for table in of.tables]


def _expect_alike(segment: Segment, other: Segment | Plan, with_ids: bool) -> None:
    if _tables(segment) != _tables(other):
        raise ValueError(f"{segment.path}: its tables are not those of the plan, or of the first segment")
    if (segment.ids is not None) != with_ids:
        raise ValueError(f"{segment.path}: has {'no ' * with_ids}ids, expected {'ids' if with_ids else 'none'}")


@dataclass(frozen=True)
class _Count:
    """What lives: distinct keys, pairs, and the range of the ids."""

    keys: int
    ids: int
    least_id: int
    most_id: int


class _Merge:
    """The live content of some segments, read in as many passes as it takes."""

    def __init__(self, parts: Sequence[Live], advance: Advance) -> None:
        self.parts = parts
        self._advance = advance
        # Of each part, the keys of table 0 of which nothing lives; known once they were counted.
        self._dead: list[Keys] = []
        self.table = _Held(sum(part.segment.key_count for part in parts))  # the keys of the one that is written
        self._ids = _Held(sum(part.segment.record.id_count for part in parts))

    def count(self) -> _Count:
        """Read all live rows; the first pass, which the others build on."""
        dead: list[list[Keys]] = [[np.empty(0, dtype=np.uint64)] for _ in self.parts]
        key_count = id_count = most = 0
        least, last = (1 << 64) - 1, None
        for keys, *ids in self._rows(dead):
            key_count += int(keys[0] != last) + int(np.count_nonzero(keys[1:] != keys[:-1]))
            last = keys[-1]
            for column in ids:
                id_count += len(column)
                least, most = min(least, int(column.min())), max(most, int(column.max()))
                self._ids.add(column)
        self._dead = [np.concatenate(found) for found in dead]
        return _Count(key_count, id_count, least, most)

    def keys(self, table: int) -> Iterator[Keys]:
        """The live keys of a table, in order, in chunks."""
        sources = zip(self.parts, self._dead, strict=True)
        chunks = [Chunks(part.keys(table, dead, self._advance)) for part, dead in sources]
        for (keys,) in merged(chunks, partial(union, rooms=Rooms())):
            yield keys

    def group_sizes(self, live: _Count) -> Iterator[Keys]:
        """How many ids each live key has, in order, in chunks."""
        if live.ids == live.keys:
            self.pass_over()
            for first in range(0, live.keys, CHUNK_KEYS):
                yield np.ones(min(CHUNK_KEYS, live.keys - first), dtype=np.uint64)
            return
        last, last_size = None, np.zeros(1, dtype=np.uint64)
        for keys, _ in self._rows():
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

    def ids(self) -> Iterator[Ids]:
        """The ids of all live rows, in the order of the rows, in chunks."""
        if self._ids.is_whole:
            self.pass_over()
            yield from self._ids.chunks()
            return
        for _, ids in self._rows():
            yield ids

    def pass_over(self) -> None:
        """Tell of all keys of the parts, which need not be read once more."""
        for part in self.parts:
            self._advance(part.segment.key_count)

    def _rows(self, dead: Sequence[list[Keys] | None] | None = None) -> Iterator[Columns]:
        takers = zip(self.parts, dead or [None] * len(self.parts), strict=True)
        chunks = [Chunks(part.rows(self._advance, found)) for part, found in takers]
        return merged(chunks)


class _Held:
    """Numbers that are wanted once more, where there are not too many.

    most: no more of them come. is_whole: whether all that came are held.
    """

    def __init__(self, most: int) -> None:
        # One array for all tables: to be given memory by the system takes as long as to merge into it.
        self._room = np.empty(most if most <= HELD_NUMBERS else 0, dtype=np.uint64)
        self.clear()

    def clear(self) -> None:
        """Hold none."""
        self._ends = [0]
        self.is_whole = len(self._room) > 0

    def add(self, numbers: Keys) -> None:
        """Hold these too."""
        first, end = self._ends[-1], self._ends[-1] + len(numbers)
        self.is_whole = self.is_whole and end <= len(self._room)
        if self.is_whole:
            self._room[first:end] = numbers
            self._ends.append(end)

    def chunks(self) -> Iterator[Keys]:
        """All of them, as they came."""
        for first, end in itertools.pairwise(self._ends):
            yield self._room[first:end]


class _Table:
    """The live keys of one table of a merge; can be read more than once."""

    def __init__(self, merge: _Merge, table: int, count: int) -> None:
        self.count = count
        self._merge = merge
        self._table = table
        self._is_held = False

    def chunks(self) -> Iterator[Keys]:
        """The keys, in order. CorruptStore where they are not as many as there are in table 0."""
        held = self._merge.table
        if self._is_held:
            self._merge.pass_over()
            yield from held.chunks()
            return
        found = 0
        held.clear()
        for keys in self._merge.keys(self._table):
            found += len(keys)
            held.add(keys)
            yield keys
        if found != self.count:
            names = ", ".join(str(part.segment.path) for part in self._merge.parts)
            expected = f"{self.count}, as in table 0 of all"
            raise CorruptStore(f"{names}, table {self._table} of all", f"{found} fingerprints", expected)
        self._is_held = held.is_whole
