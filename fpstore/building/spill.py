"""Sorting more keys than memory holds, in a stated budget, through spill files.

A sorter takes keys, or pairs of fingerprint and id, in any order and gives them back sorted and distinct.
What fits the budget never touches the disk. Of keys that do not, sorted runs are packed where they lie, which of
8*10^8 random ones takes 4.7 bytes, not 8, and the rest of the room is filled again; runs that have no room packed are
written to files without a name. Runs are merged each time they are read. Of pairs all runs but the last are written.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from fpstore._sort import GrowingKeys, group_pairs, sort_keys, sort_pairs, split_keys, unique_sorted_pairs
from fpstore.building.rooms import Readiness, Rooms
from fpstore.building.runs import BEGIN, KEY_BYTES, PACKED_KEYS, Bound, Spill, runs_of
from fpstore.merging import Chunks, Columns, merged, union
from fpstore.plans.permutation import Permutation
from fpstore.threads import Background, Threads, ahead
from fpstore.types import Keys

MIN_MEMORY_BYTES = 1 << 20
# Set aside from the budget for everything that is not an array of keys. Of a large budget, sorting in place takes up to
# 144 KiB of scratch for each thread.
RESERVE_BYTES = 96 << 10
# Chunks are read for a consumer that has its own use for the budget: an eighth of it, and no more than it takes for a
# call to cost next to nothing.
CHUNK_BYTES = 8 << 20
# A merge reads at least this much of a run at a time; what would need smaller pieces is merged in two rounds.
MIN_PIECE_BYTES = 4 << 10
# So many runs are merged each time they are read, which spares writing them as one. That takes 0.7 ns a key for each
# doubling, and 1.1 a pair (EPYC, Zen 5); pairs are read some eight times. By the number of columns.
MOST_RUNS = {1: 64, 2: 4}
# Keys are packed where they lie as long as this part of the room is left for more; then they are written.
LEAST_PART = 16
# Sorting more items than this takes longer (a tenth of a second, up to many) than Ctrl-C should wait.
QUICK_ITEMS = 1 << 22


def interruptible(work: Callable[[], int], items: int) -> int:
    """What work on so many items returns or raises; a KeyboardInterrupt does not wait for it.

    The main thread, which handles signals, cannot do so inside a compiled call, only while it waits for another thread.
    """
    if items <= QUICK_ITEMS or threading.get_ident() != threading.main_thread().ident:
        return work()
    return Background(work).result()


def _sort_distinct(columns: list[Keys], threads: int) -> int:
    """Sort the items of columns in place and move the distinct ones to the front; how many there are."""
    return interruptible(lambda: _sort_distinct_now(columns, threads), len(columns[0]))


def _sort_distinct_now(columns: list[Keys], threads: int) -> int:
    if len(columns) == 1:
        return _sort_keys(columns[0], threads if len(columns[0]) > QUICK_ITEMS else 1)
    sort_pairs(*columns)
    return unique_sorted_pairs(*columns)


def _sort_keys(keys: Keys, threads: int) -> int:
    """Sort keys, in parts for so many threads, and move the distinct ones to the front; how many there are."""
    parts = [keys]
    while len(parts) < threads:
        cuts = [split_keys(part) for part in parts]
        parts = [half for part, cut in zip(parts, cuts, strict=True) for half in (part[:cut], part[cut:])]
    with closing(Threads(threads)) as helpers:
        counts = helpers.map(sort_keys, parts)
    total = 0
    start = 0
    for part, count in zip(parts, counts, strict=True):
        # By pieces, as numpy copies what overlaps once more; unless it stays where it is.
        for at in range(start, start + count if total < start else start, CHUNK_BYTES // KEY_BYTES):
            piece = keys[at : min(at + CHUNK_BYTES // KEY_BYTES, start + count)]
            keys[total + at - start : total + at - start + len(piece)] = piece
        start += len(part)
        total += count
    return total


def _slices(columns: list[Keys], items: int) -> Iterator[Columns]:
    for start in range(0, len(columns[0]), items):
        yield [column[start : start + items] for column in columns]


def _union_of_its_own(pieces: Sequence[Columns]) -> Columns:
    """The union of pieces, in arrays of its own also where there is one: a run fills its room again."""
    return union(pieces) if len(pieces) > 1 else [column.copy() for column in pieces[0]]


class _Sorted:
    """Sorted, distinct items, in memory or in sorted runs that are merged as they are read; any number of times.

    columns: the last run, in memory, or all. spill, bounds: the others. threads: beyond one, what comes next is
    merged while the caller has what came before. let_go: called when it is closed.
    """

    def __init__(
        self,
        columns: list[Keys],
        spill: Spill | None,
        bounds: list[Bound],
        chunk_items: int,
        count: int | None = None,
        threads: int = 1,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._columns = columns
        self._let_go = let_go
        self._spill = spill
        self._bounds = bounds
        self._chunk_items = chunk_items
        self._threads = threads
        for column in columns:
            column.flags.writeable = False
        self._count = count
        # Without the items that are in several runs this is how many there are.
        self.most = bounds[-1].items + len(columns[0]) if bounds else len(columns[0])

    @property
    def count(self) -> int:
        """How many items there are; where several runs may have the same, all are read for it, the first time."""
        if self._count is None:
            self._count = sum(len(columns[0]) for columns in self._read())
        return self._count

    @property
    def memory_bytes(self) -> int:
        """What of the items lies in memory."""
        held = 0 if self._spill is None else self._spill.held_keys
        return held * KEY_BYTES + sum(column.nbytes for column in self._columns)

    @property
    def in_memory(self) -> Keys | None:
        """The first column, where it lies in memory."""
        return self._columns[0] if self._spill is None else None

    def _read(self) -> Iterator[Columns]:
        if self._spill is None:
            yield from _slices(self._columns, self._chunk_items)
            return
        # The pieces, and what they are merged into at two levels: half a chunk each.
        half = self._chunk_items // 2
        piece = max(1, half // len(self._bounds))
        sources = [*runs_of(self._spill, self._bounds, half), Chunks(_slices(self._columns, piece))]
        chunks = (chunk for chunk in merged(sources, _union_of_its_own))
        yield from chunks if self._threads == 1 else ahead(chunks)

    def close(self) -> None:
        """Free the memory or the disk that the items take; count is 0 from then on."""
        if self._spill is not None:
            self._spill.close()
        self._spill, self._columns = None, [column[:0].copy() for column in self._columns]
        self._let_go()
        self._count = self.most = 0


class SortedKeys(_Sorted):
    """What KeySorter.finish returns. count: of distinct keys; most: there are no more, which is known at once."""

    def chunks(self) -> Iterator[Keys]:
        """The keys in arrays of bounded size (uint64[m], m > 0), strictly increasing also across them."""
        for (keys,) in self._read():
            yield keys

    @classmethod
    def spilled(cls, chunks: Iterator[Columns], directory: Path, memory_bytes: int) -> Self:
        """Of chunks that are sorted and distinct, also across them: in a file, to be read any number of times."""
        return cls(*_spilled(chunks, directory, memory_bytes, 1))


class SortedPairs(_Sorted):
    """What PairSorter.finish returns. count: how many distinct pairs there are; most: as of SortedKeys."""

    def chunks(self) -> Iterator[tuple[Keys, Keys]]:
        """The pairs in arrays of bounded size: fingerprints and ids, both uint64[m], m > 0.

        Strictly increasing by (fingerprint, id), also across chunks; a fingerprint's ids may span chunks.
        """
        for fingerprints, ids in self._read():  # noqa: UP028, a pair is what a list of columns is here
            yield fingerprints, ids

    def groups(self) -> Iterator[tuple[Keys, Keys]]:
        """The distinct fingerprints and how many ids each has, in arrays of bounded size (uint64[m], m > 0).

        Strictly increasing also across chunks: a fingerprint whose ids span chunks comes once, with all
        of them counted.
        """
        last, last_count = np.empty(0, np.uint64), np.empty(0, np.uint64)
        for fingerprints, _ in self.chunks():
            distinct = np.empty(1 + len(fingerprints), np.uint64)
            counts = np.empty(1 + len(fingerprints), np.uint64)
            # Room is left in front for the last group of the chunk before, which is complete only now.
            size = group_pairs(fingerprints, distinct[1:], counts[1:])
            start = 1
            if len(last) and last[0] == distinct[1]:
                counts[1] += last_count[0]
            elif len(last):
                start, distinct[0], counts[0] = 0, last[0], last_count[0]
            last, last_count = distinct[size : size + 1].copy(), counts[size : size + 1].copy()
            if start < size:
                yield distinct[start:size], counts[start:size]
        if len(last):
            yield last, last_count

    @classmethod
    def spilled(cls, chunks: Iterator[Columns], directory: Path, memory_bytes: int) -> Self:
        """As that of SortedKeys."""
        return cls(*_spilled(chunks, directory, memory_bytes, 2))


def _spilled(
    chunks: Iterator[Columns], directory: Path, memory_bytes: int, column_count: int
) -> tuple[list[Keys], Spill, list[Bound], int, int]:
    """What _Sorted is made of."""
    spill = Spill(directory, column_count)
    for columns in chunks:
        spill.append(columns)
    nothing = [np.empty(0, dtype=np.uint64) for _ in range(column_count)]
    chunk_items = min(memory_bytes // 8, CHUNK_BYTES) // (KEY_BYTES * column_count)
    return nothing, spill, [BEGIN, spill.end], chunk_items, spill.count


class _Sorter:
    """Gathers items in one growing room a column. Whenever it is full, they become a sorted run and make room."""

    def __init__(
        self,
        directory: Path,
        memory_bytes: int,
        expected_count: int,
        column_count: int,
        threads: int,
        distinct: bool,
        rooms: Rooms | None = None,
    ) -> None:
        if memory_bytes < MIN_MEMORY_BYTES:
            raise ValueError(f"sorting needs a memory budget of at least {MIN_MEMORY_BYTES} bytes, not {memory_bytes}")
        self._directory = directory
        self._threads = threads
        self._distinct = distinct
        # Sorting pairs takes scratch of their own size, sorting keys takes none.
        scratch = 1 if column_count == 1 else 2
        self._item_bytes = KEY_BYTES * column_count
        self._limit = (memory_bytes - RESERVE_BYTES) // (self._item_bytes * scratch)
        # A merge holds its pieces, what two levels of it are merged into, and what it gave last.
        self._merge_room = (memory_bytes - RESERVE_BYTES) // (self._item_bytes * 4)
        self._chunk_items = min(memory_bytes // 8, CHUNK_BYTES) // self._item_bytes
        # What may stay in memory beside such a merge of chunks.
        self._most_held = (memory_bytes - RESERVE_BYTES) // self._item_bytes - 4 * self._chunk_items
        self._most_runs = max(
            1, min(MOST_RUNS[column_count], self._chunk_items * self._item_bytes // (2 * MIN_PIECE_BYTES))
        )
        self._lender = rooms or Rooms()
        self._rooms = [self._lender.take(min(expected_count, self._limit)) for _ in range(column_count)]
        self._readiness = Readiness() if threads > 1 else None
        # Of the room: where what was gathered lies, behind runs that are held.
        self._first = self._size = 0
        self._runs: Spill | None = None
        self._bounds = [BEGIN]

    def _add(self, columns: list[Keys], permutation: Permutation | None = None) -> None:
        """permutation: which brings the first column to what is sorted."""
        for column in columns:
            if not isinstance(column, np.ndarray) or column.dtype != np.uint64 or column.ndim != 1:
                raise TypeError(f"a sorter takes one-dimensional arrays of uint64, not {column!r:.60}")
        added, total = 0, len(columns[0])
        while added < total:
            if self._first + self._size == self._limit:
                self._make_room()
            end = self._first + self._size
            count = min(total - added, self._limit - end)
            self._reserve(end + count)
            for room, column in zip(self._rooms, columns, strict=True):
                taken, kept = column[added : added + count], np.asarray(room)[end : end + count]
                if permutation is None or room is not self._rooms[0]:
                    kept[:] = taken
                else:
                    permutation.apply(taken, out=kept)
            self._size += count
            added += count

    def _reserve(self, size: int) -> None:
        # Growing needs no second copy of a large room, and steps of an eighth waste no more than that.
        if size > len(self._rooms[0]):
            capacity = min(self._limit, max(size, len(self._rooms[0]) * 9 // 8))
            self._settle()
            for room in self._rooms:
                room.resize(capacity)
        if self._readiness:
            self._readiness.come_to(self._rooms, size)

    def _settle(self) -> None:
        """Until no other thread is at the rooms."""
        if self._readiness:
            self._readiness.wait()

    def _items(self) -> list[Keys]:
        """Views of what was gathered, for a moment: while there are any, the rooms cannot grow."""
        return [np.asarray(room)[self._first : self._first + self._size] for room in self._rooms]

    def _sort(self) -> None:
        self._size = _sort_distinct(self._items(), self._threads)

    def _make_room(self) -> None:
        self._sort()
        # Where half or more were duplicates, the room can go on filling.
        if self._size > (self._limit - self._first) // 2:
            self._end_run(self._limit - self._limit // LEAST_PART)

    def _end_run(self, most_held: int) -> None:
        """Make what was gathered a run, which stays in memory if all that is there then takes so many items at most."""
        if self._runs is None:
            self._runs = self._new_spill()
        if len(self._rooms) == 1:
            self._runs.hold(self._rooms[0], self._first, self._size)
            if self._runs.held_keys > most_held:
                self._runs.write_held()
        else:
            self._runs.append(self._items())
        self._bounds.append(self._runs.end)
        self._first, self._size = self._runs.held_keys, 0

    def _new_spill(self) -> Spill:
        return Spill(self._directory, len(self._rooms), min(PACKED_KEYS, max(1, self._chunk_items // 16)))

    def _finish(self) -> tuple[list[Keys], Spill | None, list[Bound], int, int | None, int, Callable[[], None]]:
        """What _Sorted is made of. The sorter is empty afterwards."""
        self._settle()
        self._sort()
        # Of few runs the last one may stay as it is.
        held = self._first + self._size <= self._most_held and len(self._bounds) <= self._most_runs
        if self._runs is not None and not held:
            self._end_run(self._most_held)
        rooms, first, count = self._rooms, self._first, self._size
        runs, bounds = self._runs, self._bounds
        self._rooms, self._first, self._size = [GrowingKeys(0) for _ in rooms], 0, 0
        self._runs, self._bounds = None, [BEGIN]
        if runs is not None and len(bounds) - 1 > self._most_runs:
            runs.write_held()
            first = 0
        for room in rooms:
            room.resize(first + count + (first > 0))  # with slack behind what is held
        columns: list[Keys] = [np.asarray(room)[first : first + count] for room in rooms]
        if runs is not None and len(bounds) - 1 > self._most_runs:
            runs, bounds = self._merge_all(runs, bounds)
        total = bounds[-1].items + count if self._distinct or runs is None else None
        return columns, runs, bounds, self._chunk_items, total, self._threads, partial(_give_all, self._lender, rooms)

    def _merge_all(self, runs: Spill, bounds: list[Bound]) -> tuple[Spill, list[Bound]]:
        """Runs few enough to be merged as they are read."""
        fan_in = max(2, self._merge_room * self._item_bytes // MIN_PIECE_BYTES)
        while len(bounds) - 1 > self._most_runs:
            fewer = self._new_spill()
            new_bounds = [BEGIN]
            for first in range(0, len(bounds) - 1, fan_in):
                group = bounds[first : first + fan_in + 1]
                for columns in merged(runs_of(runs, group, self._merge_room)):
                    fewer.append(columns)
                new_bounds.append(fewer.end)
            runs.close()
            runs, bounds = fewer, new_bounds
        return runs, bounds


def _give_all(lender: Rooms, rooms: list[GrowingKeys]) -> None:
    for room in rooms:
        lender.give(room)
    rooms.clear()


class KeySorter(_Sorter):
    """Sorts keys (uint64) in memory_bytes, spilling into directory; equal keys count once."""

    def __init__(
        self,
        directory: Path,
        memory_bytes: int,
        expected_count: int = 0,
        *,
        threads: int = 1,
        distinct: bool = False,
        rooms: Rooms | None = None,
    ) -> None:
        """expected_count: how many keys will come, if known; saves the growing. distinct: no key will come twice, so
        that they need not be merged to be counted. rooms: what it takes its room from; who closes what it returns gives
        that back. ValueError below 1 MiB.
        """
        super().__init__(directory, memory_bytes, expected_count, 1, threads, distinct, rooms)

    def add(self, keys: Keys, permutation: Permutation | None = None) -> None:
        """Take keys (uint64[m]), in any order, or with a permutation the fingerprints of which it makes them.

        TypeError for any other array; ValueError for fingerprints that are not contiguous.
        """
        self._add([keys], permutation)

    def finish(self) -> SortedKeys:
        """All keys that were added, sorted and distinct; the sorter is empty afterwards."""
        return SortedKeys(*self._finish())


class PairSorter(_Sorter):
    """Sorts pairs of fingerprint and id, by both, as KeySorter does keys; equal pairs count once."""

    def __init__(self, directory: Path, memory_bytes: int, expected_count: int = 0, *, threads: int = 1) -> None:
        """expected_count: how many pairs will come, if known; saves the growing. ValueError below 1 MiB."""
        super().__init__(directory, memory_bytes, expected_count, 2, threads, distinct=False)

    def add(self, fingerprints: Keys, ids: Keys, permutation: Permutation | None = None) -> None:
        """Take pairs (two uint64[m]), in any order. TypeError for other arrays, ValueError if m differs.

        permutation: as of KeySorter.add.
        """
        if len(fingerprints) != len(ids):
            raise ValueError(f"{len(fingerprints)} fingerprints come with {len(ids)} ids")
        self._add([fingerprints, ids], permutation)

    def finish(self) -> SortedPairs:
        """All pairs that were added, sorted and distinct; the sorter is empty afterwards."""
        return SortedPairs(*self._finish())
