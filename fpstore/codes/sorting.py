"""Sorts rows of wide codes, with or without ids, in a stated budget: through files without names beside the store.

Rows wait in a file as they come. Sorted are pairs of a row's first word and its number; where rows have equal words,
those are compared too, in memory, or by another sorting where they are many. So it takes bounded memory for any rows.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from fpstore.building.spill import MIN_MEMORY_BYTES, PairSorter
from fpstore.disk import naming, unnamed
from fpstore.types import Array, Counts, Keys

# Rows whose order is made in memory at once, and read at once.
ROWS_AT_ONCE = 1 << 18


class Spool:
    """Rows of so many columns, uint64, in a file. Closing it frees the disk."""

    def __init__(self, scratch: Path, width: int) -> None:
        self.count, self.width = 0, width
        self._scratch, self._file = scratch, unnamed(scratch)

    def add(self, *columns: Keys) -> None:
        """Append rows, given by columns: uint64[n] or uint64[n, some]."""
        rows = np.column_stack(columns).astype(np.uint64, copy=False)
        with naming(self._scratch):
            self._file.write(np.ascontiguousarray(rows).data)
        self.count += len(rows)

    def rows(self, numbers: Counts | slice) -> Keys:
        """Rows of these numbers, a copy."""
        if not self.count:
            return np.empty((0, self.width), dtype=np.uint64)
        with naming(self._scratch):
            self._file.flush()
            # Mapped anew each time, so that pages that were read do not count as this process's memory.
            mapped = np.memmap(self._file, dtype=np.uint64, mode="r", shape=(self.count, self.width))
            return np.array(mapped[numbers])

    def put(self, rows: Keys) -> Keys:
        """Append rows; their numbers, uint64[n]."""
        first = self.count
        self.add(rows)
        return np.arange(first, self.count, dtype=np.uint64)

    def take(self, numbers: Keys) -> Keys:
        """Rows of these numbers."""
        return self.rows(numbers.astype(np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[Keys]:
        """All rows, as they came."""
        for first in range(0, self.count, ROWS_AT_ONCE):
            yield self.rows(slice(first, first + ROWS_AT_ONCE))

    def close(self) -> None:
        """Free the disk that it takes."""
        self._file.close()


def in_order(spool: Spool, scratch: Path, memory_bytes: int) -> Iterator[Keys]:
    """The distinct rows of a spool in order, in pieces."""
    last: Keys | None = None
    for rows in _sorted(spool, _all_numbers(spool), 0, scratch, memory_bytes):
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        new[0] = last is None or bool((rows[0] != last).any())
        last = rows[-1]
        if new.any():
            yield rows if new.all() else rows[new]


def _all_numbers(spool: Spool) -> Iterator[Counts]:
    for first in range(0, spool.count, ROWS_AT_ONCE):
        yield np.arange(first, min(first + ROWS_AT_ONCE, spool.count))


def _sorted(spool: Spool, numbers: Iterator[Counts], column: int, scratch: Path, memory_bytes: int) -> Iterator[Keys]:
    """Rows of these numbers, which are equal up to a column, in the order of the rest; none are left out."""
    sorter = PairSorter(scratch, max(memory_bytes // 2, MIN_MEMORY_BYTES))
    for some in numbers:
        sorter.add(np.ascontiguousarray(spool.rows(some)[:, column]), some.astype(np.uint64))
    pairs = sorter.finish()
    try:
        for run, is_large in _runs(pairs.chunks()):
            if not is_large:
                yield _ordered(spool.rows(next(run)), column)
            elif column + 1 == spool.width:  # all columns are equal
                yield spool.rows(next(run)[:1])
                for _ in run:
                    pass
            else:
                yield from _sorted(spool, run, column + 1, scratch, memory_bytes // 2)
    finally:
        pairs.close()


def _runs(chunks: Iterator[tuple[Keys, Keys]]) -> Iterator[tuple[Iterator[Counts], bool]]:
    """Numbers of rows, in pieces that end where the key changes, and whether a piece is one key of more than fit.

    Such a piece has to be read to its end before the next is asked for.
    """
    waiting = _Waiting(chunks)
    while waiting.more():
        end = int(waiting.keys.searchsorted(waiting.keys[-1]))
        if end == 0 and waiting.ended:
            end = len(waiting.keys)
        if end:
            yield iter([waiting.take(end)]), False
        elif len(waiting.keys) < ROWS_AT_ONCE:
            waiting.read()
        else:
            yield waiting.of_key(int(waiting.keys[0])), True


class _Waiting:
    """Pairs that were read and not taken yet. ended: whether there are no others."""

    def __init__(self, chunks: Iterator[tuple[Keys, Keys]]) -> None:
        self._chunks = chunks
        self.keys, self._numbers, self.ended = np.empty(0, np.uint64), np.empty(0, np.uint64), False

    def more(self) -> bool:
        """Whether any wait; reads some where none do."""
        while not len(self.keys) and not self.ended:
            self.read()
        return len(self.keys) > 0

    def read(self) -> None:
        """Read on."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self.ended = True
        else:
            self.keys, self._numbers = np.append(self.keys, chunk[0]), np.append(self._numbers, chunk[1])

    def take(self, count: int) -> Counts:
        """The numbers of the first so many."""
        taken = self._numbers[:count].astype(np.int64)
        self.keys, self._numbers = self.keys[count:], self._numbers[count:]
        return taken

    def of_key(self, key: int) -> Iterator[Counts]:
        """The numbers of all pairs of this key, which are next."""
        while self.more() and int(self.keys[0]) == key:
            yield self.take(int(self.keys.searchsorted(np.uint64(key), side="right")))


def _ordered(rows: Keys, column: int) -> Keys:
    """Rows that are sorted by a column, sorted by all from there on."""
    same = np.zeros(len(rows), dtype=bool)
    same[1:] = rows[1:, column] == rows[:-1, column]
    same[:-1] |= same[1:]
    tied = np.flatnonzero(same)
    if len(tied):
        own = rows[tied]
        rows[tied] = own[np.lexsort([own[:, i] for i in reversed(range(column, rows.shape[1]))])]
    return rows


class SortedRows(Protocol):
    """Rows in order, each once, of so many columns, uint64: a spool of them is one."""

    count: int
    width: int

    def chunks(self) -> Iterator[Keys]:
        """All rows: uint64[m, width]."""

    def close(self) -> None:
        """Free what they take."""


class Groups:
    """Sorted, distinct rows of codes, and ids where there are any: in a file, read in several passes."""

    def __init__(self, spool: SortedRows, words: int) -> None:
        self._spool, self._words = spool, words
        self.row_count = spool.count
        self.least, self.most = (1 << 64) - 1, 0
        self.count = 0
        for codes in self.codes():
            self.count += len(codes)
        for ids in self.ids() if self.with_ids else ():
            self.least, self.most = min(self.least, int(ids.min())), max(self.most, int(ids.max()))

    def close(self) -> None:
        """Free the disk that they take."""
        self._spool.close()

    @property
    def with_ids(self) -> bool:
        """Whether rows have ids."""
        return self._spool.width > self._words

    def codes(self) -> Iterator[Keys]:
        """The distinct codes, in order."""
        for rows, first in self._firsts():
            if len(first):
                yield np.ascontiguousarray(rows[first, : self._words])

    def counts(self) -> Iterator[Keys]:
        """How many ids each has."""
        begun, done = 0, 0  # the row at which the last group began, and the rows before the chunk
        for rows, first in self._firsts():
            starts = first + done
            done += len(rows)
            if not len(starts):
                continue
            counts = np.diff(starts, prepend=begun)
            begun = int(starts[-1])
            own = counts if starts[0] else counts[1:]
            if len(own):
                yield own.astype(np.uint64)
        if done:
            yield np.array([done - begun], dtype=np.uint64)

    def ids(self) -> Iterator[Keys]:
        """The ids, in order."""
        for rows in self._spool.chunks():
            yield np.ascontiguousarray(rows[:, self._words])

    def _firsts(self) -> Iterator[tuple[Keys, Counts]]:
        """Rows, and which of them are the first of a code."""
        last: Array | None = None
        for rows in self._spool.chunks():
            codes = rows[:, : self._words]
            new = np.ones(len(rows), dtype=bool)
            new[1:] = (codes[1:] != codes[:-1]).any(axis=1)
            new[0] = last is None or bool((codes[0] != last).any())
            last = codes[-1]
            yield rows, np.flatnonzero(new)


def groups_of(
    pieces: Iterator[tuple[Keys, Keys | None]],
    words: int,
    with_ids: bool,
    scratch: Path,
    memory_bytes: int,
    told: Callable[[int], None],
) -> Groups:
    """Rows of these pieces, sorted and distinct. told: how many were read, after each."""
    found = Spool(scratch, words + with_ids)
    try:
        for rows in sorted_rows(pieces, found.width, with_ids, scratch, memory_bytes, told):
            found.add(rows)
        return Groups(found, words)
    except BaseException:
        found.close()
        raise


def sorted_rows(
    pieces: Iterator[tuple[Keys, Keys | None]],
    width: int,
    with_ids: bool,
    scratch: Path,
    memory_bytes: int,
    told: Callable[[int], None],
) -> Iterator[Keys]:
    """Rows of these pieces, of so many columns, sorted, each once, in pieces. told: as of groups_of."""
    with closing(Spool(scratch, width)) as given:
        for codes, ids in pieces:
            if with_ids and ids is None:
                raise ValueError("the stream has no ids: expected (fingerprints, ids) pairs")
            given.add(*([codes] if ids is None else [codes, ids]))
            told(given.count)
        yield from in_order(given, scratch, memory_bytes)
