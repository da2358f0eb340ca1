"""All that lives in a store as one source of sorted keys, for joins, without a copy of it.

The tables of the segments and the pending rows are merged as they are read: a stretch of keys is decoded of each, what
was removed is left out, and what several hold comes once. Ids are asked of each only for what was found to be near.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore import format as layout
from fpstore._merge import AnyOrder, MergedKeys
from fpstore._probe import search
from fpstore._sort import sort_keys, sort_pairs, unique_sorted_pairs
from fpstore._view import DecodeRoom, SegmentView
from fpstore.forks import cached_property
from fpstore.format import CODECS, TableRecord
from fpstore.living.live import Live, alive
from fpstore.living.merge import live_pairs
from fpstore.merging import Columns, each_once
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.query.id_pairs import Groups
from fpstore.types import Array, Counts, Ids, Keys

# Of each id of the fingerprints whose pairs are made at once: which fingerprint, the id, and both in order.
BYTES_PER_ID = 48
# About so many, or twice as many, are merged at a time: few enough for the second-level cache. 10^7 uniform keys in
# seven segments, plan balanced, over one segment: 1.25 to 1.33 with 2^15, 1.22 to 1.33 with 2^16.
MERGED_KEYS = 1 << 16
# Keys that a window has of each part, at least, and of all, at most, where its keys come in no order. 4*10^6 uniform
# keys in eight parts: 0.4 ns a key with 15 of each part, 0.7 with 7.6, 1.5 with 3.8; merged 1.4. Where windows are
# larger their join takes the time, and more work than what is read at once may take, lest it be put in order after all.
LEAST_GATHERED, MOST_GATHERED = 8, 512


class JoinTable(NamedTuple):
    """What a join asks of a table. slot_bits: a range of keys that is read begins where these top bits do."""

    prefix_mask: int
    flips: int
    slot_bits: int


class Together:
    """The live content of segments of one plan and of rows beside them; what pairs.Joined and id_pairs.Rows ask for.

    path: names it in errors. keys, ids: the live rows beside the segments (uint64[n], in no order; ids None without).
    memory_bytes: for the ids that are held at once.
    """

    def __init__(
        self, path: Path, plan: Plan, parts: Sequence[Live], keys: Keys, ids: Ids | None, memory_bytes: int
    ) -> None:
        self.path = path
        self._plan, self._parts, self._memory_bytes = plan, parts, memory_bytes
        self._pending, self._pending_ids = _in_order(keys, ids)
        # Of a fingerprint there may be many rows, and no more slots than keys.
        pending = min(plan.bits, planner.slot_bits(len(keys), plan.slot_keys)) if len(keys) else 0
        self.tables = tuple(
            JoinTable(
                table.prefix_mask,
                table.flips,
                max([pending, *(part.segment.tables[index].slot_bits for part in parts)]),
            )
            for index, table in enumerate(plan.tables)
        )
        self._sorted: tuple[int, Keys, list[Keys]] | None = None

    @cached_property
    def key_count(self) -> int:
        """Fingerprints, those of several parts once for each: at least as many as there are."""
        return sum(part.segment.key_count for part in self._parts) + len(self._pending)

    @cached_property
    def view(self) -> SegmentView:
        """The tables of the plan, of no file: what a join needs to know which table catches a pair first."""
        records = [
            TableRecord(
                table.prefix_mask, CODECS.index("raw"), table.slot_bits, 0, table.flips, 0, 0, 0, 0, 0,
                (0,) * layout.SYMBOL_COUNT, self._plan.bits,
            )
            for table in self.tables
        ]  # fmt: skip
        return SegmentView(bytes(layout.FOOTER_BYTES), 0, 0, 0, tuple(records))

    def keys(
        self,
        table: int,
        first_slot: int = 0,
        end_slot: int | None = None,
        *,
        into: Callable[[], Keys] | None = None,
        order: AnyOrder | None = None,
    ) -> Iterator[Keys]:
        """As pairs.Joined.keys: the live keys; chunks are merged to where they had best lie.

        In any order that there is leave for where windows are of a size for which that is faster.
        """
        slots = 1 << self.tables[table].slot_bits
        first, end = first_slot, slots if end_slot is None else end_slot
        pending, dead = self._of_table(table)
        room = DecodeRoom()
        sources = [self._keys_of(*each, table, first, end, room) for each in zip(self._parts, dead, strict=True)]
        sources.append(iter([self._between(pending, first, end, table)]))
        if order is not None:
            of_window = self.key_count >> (self._plan.bits - order.width)
            if not LEAST_GATHERED * len(sources) <= of_window <= MOST_GATHERED:
                order.end()
        yield from MergedKeys(sources, MERGED_KEYS // len(sources), room, into, order)

    # --- Of ids ---

    def own_groups(self) -> Iterator[tuple[Groups, float]]:
        """The ids of each fingerprint that has several, with the share of the rows that lies before them."""
        first = Permutation(self._plan.tables[0].prefix_mask, self._plan.bits)
        keys = first.apply(self._pending)
        order = np.argsort(keys, kind="stable")  # which leaves the ids of each key in order
        assert self._pending_ids is not None
        extra: Columns = (keys[order], self._pending_ids[order])
        total = max(1, self.key_count)
        done = 0
        held: list[Columns] = []  # the rows of one fingerprint, the last
        for chunk, ids in live_pairs(self._parts, extra) if self._parts else iter([extra]):
            if not len(chunk):
                continue
            cut = int(chunk.searchsorted(chunk[-1]))
            if held and held[0][0][0] == chunk[0]:
                held.append((chunk, ids) if cut == 0 else (chunk[:cut], ids[:cut]))
                if cut == 0:
                    self._expect_room(sum(len(each) for each, _ in held), 1)
                    continue
            elif cut:
                held.append((chunk[:cut], ids[:cut]))
            if held:
                yield _own(held), min(1.0, done / total)
            done += len(chunk)
            held = [(chunk[cut:], ids[cut:])]
        if held:
            yield _own(held), min(1.0, done / total)

    def near_groups(self, first: Keys, second: Keys, bits: Array) -> Iterator[Groups]:
        """The ids of both fingerprints of each pair. ValueError where those of one pair do not fit the budget."""
        fingerprints, place = np.unique(np.concatenate([first, second]), return_inverse=True)
        found = [self._ranges_of(part, fingerprints) for part in self._parts]
        low, high = self._pending.searchsorted(fingerprints), self._pending.searchsorted(fingerprints, side="right")
        total = sum(int(counts.sum()) for _, _, counts in found) + int((high - low).sum())
        if total * BYTES_PER_ID > self._memory_bytes and len(first) > 1:
            for half in (slice(None, len(first) // 2), slice(len(first) // 2, None)):
                yield from self.near_groups(first[half], second[half], bits[half])
            return
        self._expect_room(total, 2)
        rows = [self._rows_of(part, fingerprints, *ranges) for part, ranges in zip(self._parts, found, strict=True)]
        groups, at = _spread(low, high - low)
        assert self._pending_ids is not None
        rows.append((groups, self._pending_ids[at]))
        which, ids = each_once([np.concatenate([row[i] for row in rows]) for i in (0, 1)])
        counts = np.bincount(which, minlength=len(fingerprints)).astype(np.uint64)
        firsts = np.cumsum(counts) - counts
        one, other = place[: len(first)], place[len(first) :]
        yield Groups(
            firsts[one], counts[one], firsts[other], counts[other], bits.astype(np.uint16), False, HeldIds(ids)
        )

    def _ranges_of(self, part: Live, fingerprints: Keys) -> tuple[Counts, Array, Array]:
        """Of a part: which of the fingerprints it holds, and where their ids are."""
        column = part.segment.ids
        assert column is not None
        with part.segment.naming:
            held = np.sort(search(part.segment.view, fingerprints, 0)[0])
            return held, *column.ranges(fingerprints[held])

    def _rows_of(
        self, part: Live, fingerprints: Keys, held: Counts, firsts: Array, counts: Array
    ) -> tuple[Counts, Ids]:
        """The live rows of these: of which of the fingerprints each is, and its id."""
        column = part.segment.ids
        assert column is not None
        with part.segment.naming:
            ids = column.values(firsts, counts)
        which = np.repeat(held, counts.astype(np.int64))
        kept = alive(part.removals, fingerprints[which], ids, part.position)
        return (which, ids) if kept is None else (which[kept], ids[kept])

    def _expect_room(self, rows: int, fingerprints: int) -> None:
        if rows * BYTES_PER_ID > self._memory_bytes:
            raise ValueError(
                f"{self.path.name}: found {fingerprints} fingerprints with {rows} ids, expected at most"
                f" {self._memory_bytes // BYTES_PER_ID} with a memory budget of {self._memory_bytes} bytes; one of"
                f" {self._most_ids() * BYTES_PER_ID} bytes is enough, and compacting the store helps too"
            )

    def _most_ids(self) -> int:
        """As many ids as two fingerprints have at most, or more, those that were removed too; reads table 0."""
        _, pending = np.unique(self._pending, return_counts=True)
        most = int(pending.max(initial=0))
        first = Permutation(self._plan.tables[0].prefix_mask, self._plan.bits)
        for part in self._parts:
            assert part.segment.ids is not None
            chunks = map(first.invert, part.segment.keys(0))
            most += max((int(part.segment.ids.ranges(keys)[1].max()) for keys in chunks), default=0)
        return 2 * most

    # --- Of each part ---

    @cached_property
    def _dead(self) -> list[Keys]:
        """Of each part the keys of table 0 of which nothing lives; reads table 0 where something was removed."""
        dead = []
        for part in self._parts:
            found = [np.empty(0, dtype=np.uint64)]
            if any(len(each) for each in part.removed()):
                for _ in part.rows(lambda _: None, found):
                    pass
            dead.append(np.concatenate(found))
        return dead

    def _keys_of(self, part: Live, dead: Keys, table: int, first: int, end: int, room: DecodeRoom) -> Iterator[Keys]:
        """The live keys of a part whose top slot_bits bits are from first up to end, in chunks."""
        bits = self.tables[table].slot_bits
        if first == 0 and end == 1 << bits:
            if not len(dead):
                return part.segment.keys(table, room=room)
            living = part.without_dead(table, dead, part.segment.keys(table, room=room))
            return (keys for (keys,) in living)
        coarser = bits - part.segment.tables[table].slot_bits
        chunks = part.segment.keys(table, first >> coarser, -(-end >> coarser), room=room)
        cut = (self._between(chunk, first, end, table) for chunk in chunks)
        living = part.without_dead(table, self._between(dead, first, end, table), cut)
        return (keys for (keys,) in living)

    def _between(self, keys: Keys, first: int, end: int, table: int) -> Keys:
        """Of sorted keys of a table those whose slots are from first up to end, excluded."""
        slot_bits = self.tables[table].slot_bits
        shift = self._plan.bits - slot_bits
        low = int(keys.searchsorted(np.uint64(first << shift))) if first else 0
        high = len(keys) if end >> slot_bits else int(keys.searchsorted(np.uint64(end << shift)))
        return keys[low:high]

    def _of_table(self, table: int) -> tuple[Keys, list[Keys]]:
        """The pending keys of a table, and of each part the dead ones, sorted; those of one table are held."""
        if self._sorted is None or self._sorted[0] != table:
            pending = Permutation(self.tables[table].prefix_mask, self._plan.bits).apply(self._pending)
            pending = pending[: sort_keys(pending)]
            dead = [part.in_table(table, each) for part, each in zip(self._parts, self._dead, strict=True)]
            self._sorted = table, pending, dead
        return self._sorted[1:]


def _in_order(keys: Keys, ids: Ids | None) -> tuple[Keys, Ids | None]:
    """Rows in no order, each once, by key, then id."""
    keys = keys.copy()
    if ids is None:
        return keys[: sort_keys(keys)], None
    ids = ids.copy()
    sort_pairs(keys, ids)
    count = unique_sorted_pairs(keys, ids)
    return keys[:count], ids[:count]


class HeldIds:
    """Ids of some fingerprints, those of each side by side and increasing."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    def values(self, firsts: Array, counts: Array) -> Ids:
        """The ids at [firsts[i], firsts[i] + counts[i]), one range after the other."""
        return self._ids[_spread(firsts, counts)[1]]


def _spread(firsts: Array, counts: Array) -> tuple[Counts, Counts]:
    """All places of some ranges, one range after the other: of which range each is, and the place, both int64[m]."""
    sizes = counts.astype(np.int64)
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(len(which)) + np.repeat(firsts.astype(np.int64) - np.cumsum(sizes) + sizes, sizes)


def _own(rows: Sequence[Columns]) -> Groups:
    """Of rows in order, the ids of each key that has several."""
    keys, ids = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
    bounds = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]])).astype(np.uint64)
    firsts, counts = bounds[:-1], np.diff(bounds)
    none = np.zeros(len(firsts), dtype=np.uint16)
    return Groups(firsts, counts, firsts, counts, none, True, HeldIds(ids)).take(counts > 1)
