"""Sorting more keys than memory holds, in a stated budget, through spill files.

A sorter takes keys, or pairs of fingerprint and id, in any order and gives them back sorted and distinct.
What fits the budget never touches the disk. What does not is spilled as sorted runs, which are merged each time they
are read; the files have no name, so that whatever ends the process, a Ctrl-C or a kill, leaves nothing behind. Of a
run, keys are written as steps from one to the next, of 4*10^8 random ones in 5 bytes, not 8; ids are as they are.
"""

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple, Self

import numpy as np

from fpstore._merge import PACKED_GROUP, PACKED_SLACK, pack_sorted, packed_most, unpack_sorted
from fpstore._sort import GrowingKeys, group_pairs, sort_keys, sort_pairs, split_keys, unique_sorted_pairs
from fpstore.disk import naming, unnamed
from fpstore.merging import Chunks, Columns, Source, merged, union
from fpstore.threads import Background, Threads, ahead
from fpstore.types import Bytes, Keys

MIN_MEMORY_BYTES = 1 << 20
# Set aside from the budget for everything that is not an array of keys. Of a large budget, sorting in place takes up to
# 144 KiB of scratch for each thread.
RESERVE_BYTES = 96 << 10
# Chunks are read for a consumer that has its own use for the budget: an eighth of it, and no more than it takes for a
# call to cost next to nothing.
CHUNK_BYTES = 8 << 20
# A merge reads at least this much of a run at a time; what would need smaller pieces is merged in two rounds.
MIN_PIECE_BYTES = 4 << 10
KEY_BYTES = 8
# So many keys are a group, which is read whole: a piece that is half empty has room for it.
GROUP_KEYS = PACKED_GROUP
# So many keys are packed for one write, or as many as a chunk of a small budget leaves room for.
PACKED_KEYS = 8192
# So many runs are merged each time they are read, which spares writing them as one. That takes 0.7 ns a key for each
# doubling, and 1.1 a pair (EPYC, Zen 5); pairs are read some eight times. By the number of columns.
MOST_RUNS = {1: 32, 2: 4}
# Sorting more items than this takes longer (a tenth of a second, up to many) than Ctrl-C should wait.
QUICK_ITEMS = 1 << 22


class Bound(NamedTuple):
    """Where a run of a spill file begins or ends: so many items, and bytes of the first column, are before it."""

    items: int
    bytes: int


_BEGIN = Bound(0, 0)


class _Spill:
    """An unnamed file for each column of sorted items: the first packed, the others raw; appended, read back in order.

    count: how many items there are.
    """

    def __init__(self, directory: Path, column_count: int, packed_keys: int = PACKED_KEYS) -> None:
        self.count = self._bytes = 0
        self.column_count = column_count
        self._directory = directory
        self._packed_keys = packed_keys
        # Closing is what frees the disk; the finalizer does it where an exception skips close().
        self._files = [unnamed(directory, buffering=0) for _ in range(column_count)]
        self.close = weakref.finalize(self, _close_all, self._files)

    @property
    def end(self) -> Bound:
        """Of what is there."""
        return Bound(self.count, self._bytes)

    def append(self, columns: Columns) -> None:
        """Write the items of columns (of equal length) behind those already there, which are not above them."""
        first, *others = columns
        room = np.empty(packed_most(min(len(first), self._packed_keys), GROUP_KEYS), dtype=np.uint8)
        for (keys,) in _slices([first], self._packed_keys):
            size = pack_sorted(keys, GROUP_KEYS, room)
            self._write(self._files[0], room[:size], self._bytes)
            self._bytes += size
        for file, column in zip(self._files[1:], others, strict=True):
            self._write(file, column.view(np.uint8), self.count * KEY_BYTES)
        self.count += len(first)

    def _write(self, file: IO[bytes], data: Bytes, offset: int) -> None:
        rest = data.data
        with naming(self._directory):
            while rest:
                written = os.pwrite(file.fileno(), rest, offset)
                rest = rest[written:]
                offset += written

    def read_packed(self, room: Bytes, offset: int) -> None:
        """Fill room with bytes of the first column from offset on."""
        self._read(self._files[0], room, offset)

    def read_others(self, columns: list[Keys], index: int) -> None:
        """Fill the other columns with the items from index on."""
        for file, column in zip(self._files[1:], columns, strict=True):
            self._read(file, column.view(np.uint8), index * KEY_BYTES)

    def _read(self, file: IO[bytes], room: Bytes, offset: int) -> None:
        rest = room.data
        with naming(self._directory):
            while rest:
                got = os.preadv(file.fileno(), [rest], offset)
                if got == 0:
                    raise OSError(errno.EIO, f"a spill file ends at byte {offset}, {len(rest)} bytes early")
                rest = rest[got:]
                offset += got


def _close_all(files: list[IO[bytes]]) -> None:
    for file in files:
        file.close()


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
    for part, count in zip(parts, counts, strict=True):
        # By pieces, as numpy copies what overlaps once more.
        for piece in _slices([part[:count]], CHUNK_BYTES // KEY_BYTES):
            keys[total : total + len(piece[0])] = piece[0]
            total += len(piece[0])
    return total


class _Run:
    """A sorted run in a spill file as a source for merging: it holds a piece, filled up when half of it is gone.

    So a merge consumes about half a piece of a run each round. room: an array for each column, a piece long. packed:
    where keys are read to, for all runs of a merge.
    """

    def __init__(self, spill: _Spill, first: Bound, stop: Bound, room: list[Keys], packed: Bytes) -> None:
        self.held: Columns = [column[:0] for column in room]
        self.ended = first.items == stop.items
        self._spill = spill
        self._next, self._stop = first, stop
        self._room, self._packed = room, packed

    def refill(self) -> None:
        """Read on where there is more and less than half a piece is held."""
        kept, piece = len(self.held[0]), len(self._room[0])
        if self.ended or kept >= (piece + 1) // 2:
            return
        for room, column in zip(self._room, self.held, strict=True):
            room[:kept] = column
        at, stop = self._next, self._stop
        left, left_bytes = stop.items - at.items, stop.bytes - at.bytes
        # As many bytes as fill the piece, if what is left is alike, and one group that is not.
        size = left_bytes * min(piece - kept, left) // left + packed_most(GROUP_KEYS, GROUP_KEYS)
        size = min(size, left_bytes, len(self._packed) - PACKED_SLACK)
        self._spill.read_packed(self._packed[:size], at.bytes)
        fresh, used = unpack_sorted(self._packed, size, self._room[0][kept : kept + left])
        if not fresh:
            raise OSError(errno.EIO, f"a spill file has changed at byte {at.bytes}")
        self._spill.read_others([room[kept : kept + fresh] for room in self._room[1:]], at.items)
        self._next = Bound(at.items + fresh, at.bytes + used)
        self.held = [room[: kept + fresh] for room in self._room]
        self.ended = self._next.items == stop.items


def _runs(spill: _Spill, bounds: list[Bound], items: int) -> list[Source]:
    """Sources of the runs of spill that lie between successive bounds, which take room for so many items together."""
    piece = max(2 * GROUP_KEYS, items // len(bounds))
    packed = np.empty(packed_most(piece, GROUP_KEYS), dtype=np.uint8)
    rooms = [[np.empty(piece, np.uint64) for _ in range(spill.column_count)] for _ in bounds[1:]]
    return [_Run(spill, *ends, room, packed) for ends, room in zip(pairwise(bounds), rooms, strict=True)]


def _slices(columns: list[Keys], items: int) -> Iterator[Columns]:
    for start in range(0, len(columns[0]), items):
        yield [column[start : start + items] for column in columns]


def _union_of_its_own(pieces: Sequence[Columns]) -> Columns:
    """The union of pieces, in arrays of its own also where there is one: a run fills its room again."""
    return union(pieces) if len(pieces) > 1 else [column.copy() for column in pieces[0]]


class _Sorted:
    """Sorted, distinct items, in memory or in sorted runs that are merged as they are read; any number of times.

    columns: the last run, in memory, or all. spill, bounds: the others. threads: beyond one, what comes next is merged
    while the caller has what came before.
    """

    def __init__(
        self,
        columns: list[Keys],
        spill: _Spill | None,
        bounds: list[Bound],
        chunk_items: int,
        count: int | None = None,
        threads: int = 1,
    ) -> None:
        self._columns = columns
        self._spill = spill
        self._bounds = bounds
        self._chunk_items = chunk_items
        self._threads = threads
        for column in columns:
            column.flags.writeable = False
        self.count = sum(len(columns[0]) for columns in self._read()) if count is None else count

    @property
    def memory_bytes(self) -> int:
        """What of the items lies in memory."""
        return sum(column.nbytes for column in self._columns)

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
        sources = [*_runs(self._spill, self._bounds, half), Chunks(_slices(self._columns, piece))]
        chunks = (chunk for chunk in merged(sources, _union_of_its_own))
        yield from chunks if self._threads == 1 else ahead(chunks)

    def close(self) -> None:
        """Free the memory or the disk that the items take; count is 0 from then on."""
        if self._spill is not None:
            self._spill.close()
        self._spill, self._columns = None, [column[:0].copy() for column in self._columns]
        self.count = 0


class SortedKeys(_Sorted):
    """What KeySorter.finish returns. count: how many distinct keys there are."""

    def chunks(self) -> Iterator[Keys]:
        """The keys in arrays of bounded size (uint64[m], m > 0), strictly increasing also across them."""
        for (keys,) in self._read():
            yield keys

    @classmethod
    def spilled(cls, chunks: Iterator[Columns], directory: Path, memory_bytes: int) -> Self:
        """Of chunks that are sorted and distinct, also across them: in a file, to be read any number of times."""
        return cls(*_spilled(chunks, directory, memory_bytes, 1))


class SortedPairs(_Sorted):
    """What PairSorter.finish returns. count: how many distinct pairs there are."""

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
) -> tuple[list[Keys], _Spill, list[Bound], int, int]:
    """What _Sorted is made of."""
    spill = _Spill(directory, column_count)
    for columns in chunks:
        spill.append(columns)
    nothing = [np.empty(0, dtype=np.uint64) for _ in range(column_count)]
    chunk_items = min(memory_bytes // 8, CHUNK_BYTES) // (KEY_BYTES * column_count)
    return nothing, spill, [_BEGIN, spill.end], chunk_items, spill.count


class _Sorter:
    """Gathers items in one growing buffer a column, spilling it as a sorted run whenever it is full."""

    def __init__(
        self, directory: Path, memory_bytes: int, expected_count: int, column_count: int, threads: int, distinct: bool
    ) -> None:
        if memory_bytes < MIN_MEMORY_BYTES:
            raise ValueError(f"sorting needs a memory budget of at least {MIN_MEMORY_BYTES} bytes, not {memory_bytes}")
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._distinct = distinct
        # Sorting pairs takes scratch of their own size, sorting keys takes none.
        scratch = 1 if column_count == 1 else 2
        self._item_bytes = KEY_BYTES * column_count
        self._limit = (memory_bytes - RESERVE_BYTES) // (self._item_bytes * scratch)
        # A merge holds its pieces, what two levels of it are merged into, and what it gave last.
        self._merge_room = (memory_bytes - RESERVE_BYTES) // (self._item_bytes * 4)
        self._chunk_items = min(memory_bytes // 8, CHUNK_BYTES) // self._item_bytes
        self._most_runs = max(
            1, min(MOST_RUNS[column_count], self._chunk_items * self._item_bytes // (2 * MIN_PIECE_BYTES))
        )
        self._rooms = [GrowingKeys(min(expected_count, self._limit)) for _ in range(column_count)]
        self._size = 0
        self._runs: _Spill | None = None
        self._bounds = [_BEGIN]

    def _add(self, columns: list[Keys]) -> None:
        for column in columns:
            if not isinstance(column, np.ndarray) or column.dtype != np.uint64 or column.ndim != 1:
                raise TypeError(f"a sorter takes one-dimensional arrays of uint64, not {column!r:.60}")
        added, total = 0, len(columns[0])
        while added < total:
            if self._size == self._limit:
                self._make_room()
            count = min(total - added, self._limit - self._size)
            self._reserve(self._size + count)
            end = self._size + count
            for room, column in zip(self._rooms, columns, strict=True):
                np.asarray(room)[self._size : end] = column[added : added + count]
            self._size = end
            added += count

    def _reserve(self, size: int) -> None:
        # Growing needs no second copy of a large room, and steps of an eighth waste no more than that.
        if size > len(self._rooms[0]):
            capacity = min(self._limit, max(size, len(self._rooms[0]) * 9 // 8))
            for room in self._rooms:
                room.resize(capacity)

    def _items(self) -> list[Keys]:
        """Views of what was gathered, for a moment: while there are any, the rooms cannot grow."""
        return [np.asarray(room)[: self._size] for room in self._rooms]

    def _sort(self) -> None:
        self._size = _sort_distinct(self._items(), self._threads)

    def _make_room(self) -> None:
        self._sort()
        # Where half or more were duplicates, the buffer can go on filling.
        if self._size > self._limit // 2:
            self._spill_run()

    def _spill_run(self) -> None:
        if self._runs is None:
            self._runs = self._new_spill()
        self._runs.append(self._items())
        self._bounds.append(self._runs.end)
        self._size = 0

    def _new_spill(self) -> _Spill:
        return _Spill(self._directory, len(self._rooms), min(PACKED_KEYS, max(1, self._chunk_items // 16)))

    def _finish(self) -> tuple[list[Keys], _Spill | None, list[Bound], int, int | None, int]:
        """What _Sorted is made of. The sorter is empty afterwards."""
        self._sort()
        # Of few runs the last one may stay where it is.
        held = self._size * self._item_bytes <= self._memory_bytes // 2 and len(self._bounds) <= self._most_runs
        if self._runs is not None and not held:
            self._spill_run()
        rooms, count = self._rooms, self._size
        self._rooms, self._size = [GrowingKeys(0) for _ in rooms], 0
        for room in rooms:
            room.resize(count)
        columns: list[Keys] = [np.asarray(room) for room in rooms]
        runs, bounds = self._runs, self._bounds
        self._runs, self._bounds = None, [_BEGIN]
        if runs is not None and len(bounds) - 1 > self._most_runs:
            runs, bounds = self._merge_all(runs, bounds)
        total = bounds[-1].items + count if self._distinct or runs is None else None
        return columns, runs, bounds, self._chunk_items, total, self._threads

    def _merge_all(self, runs: _Spill, bounds: list[Bound]) -> tuple[_Spill, list[Bound]]:
        """Runs few enough to be merged as they are read."""
        fan_in = max(2, self._merge_room * self._item_bytes // MIN_PIECE_BYTES)
        while len(bounds) - 1 > self._most_runs:
            fewer = self._new_spill()
            new_bounds = [_BEGIN]
            for first in range(0, len(bounds) - 1, fan_in):
                group = bounds[first : first + fan_in + 1]
                for columns in merged(_runs(runs, group, self._merge_room)):
                    fewer.append(columns)
                new_bounds.append(fewer.end)
            runs.close()
            runs, bounds = fewer, new_bounds
        return runs, bounds


class KeySorter(_Sorter):
    """Sorts keys (uint64) in memory_bytes, spilling into directory; equal keys count once."""

    def __init__(
        self, directory: Path, memory_bytes: int, expected_count: int = 0, *, threads: int = 1, distinct: bool = False
    ) -> None:
        """expected_count: how many keys will come, if known; saves the growing. distinct: no key will come twice, so
        that they need not be merged to be counted. ValueError below 1 MiB.
        """
        super().__init__(directory, memory_bytes, expected_count, 1, threads, distinct)

    def add(self, keys: Keys) -> None:
        """Take keys (uint64[m]), in any order. TypeError for any other array."""
        self._add([keys])

    def finish(self) -> SortedKeys:
        """All keys that were added, sorted and distinct; the sorter is empty afterwards."""
        return SortedKeys(*self._finish())


class PairSorter(_Sorter):
    """Sorts pairs of fingerprint and id, by both, as KeySorter does keys; equal pairs count once."""

    def __init__(self, directory: Path, memory_bytes: int, expected_count: int = 0, *, threads: int = 1) -> None:
        """expected_count: how many pairs will come, if known; saves the growing. ValueError below 1 MiB."""
        super().__init__(directory, memory_bytes, expected_count, 2, threads, distinct=False)

    def add(self, fingerprints: Keys, ids: Keys) -> None:
        """Take pairs (two uint64[m]), in any order. TypeError for other arrays, ValueError if m differs."""
        if len(fingerprints) != len(ids):
            raise ValueError(f"{len(fingerprints)} fingerprints come with {len(ids)} ids")
        self._add([fingerprints, ids])

    def finish(self) -> SortedPairs:
        """All pairs that were added, sorted and distinct; the sorter is empty afterwards."""
        return SortedPairs(*self._finish())
