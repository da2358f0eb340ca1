"""Sorted names of several sources as those of one, in bounded memory; names in any order sorted, spilled if need be."""

import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fpstore import _names
from fpstore.closing import close_all
from fpstore.disk import naming, unnamed
from fpstore.names.column import NO_NAMES, Named, Names, gathered
from fpstore.types import Keys

NO_NAMED = Named(NO_NAMES, np.empty(0, dtype=np.uint64))
# Sorted names are taken so many at a time.
PIECE_NAMES = 1 << 14
# Of a run that is read again: names, their ends and values, so many bytes of each.
READ_BYTES = 1 << 18
# A merge of more runs than this takes another round.
MAX_RUNS = 64


class _Source:
    """Sorted names of which a chunk is held."""

    def __init__(self, chunks: Iterator[Named]) -> None:
        self._chunks = chunks
        self.held, self.at, self.ended = NO_NAMED, 0, False

    def refill(self) -> None:
        """Hold the next chunk where nothing is left of the one before."""
        while self.at == self.held.names.size and not self.ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
            else:
                self.held, self.at = chunk, 0


def merged_names(chunks: Sequence[Iterator[Named]], *, once: bool) -> Iterator[Named]:
    """What sorted sources yield, sorted, in chunks.

    once: each name once; CorruptStore where its handles differ. Otherwise equal ones follow each other in the order of
    the sources.
    """
    sources = [_Source(each) for each in chunks]
    last: tuple[bytes, int] | None = None
    while True:
        for source in sources:
            source.refill()
        sources = [source for source in sources if source.at < source.held.names.size]
        if not sources:
            return
        told = [(*source.held.names, source.held.handles, source.at, source.ended) for source in sources]
        data, ends, values, places = _names.merge_names(told, once, last if once else None)
        for source, place in zip(sources, places, strict=True):
            source.at = place
        if len(ends):
            names = Names(data, ends)
            last = names.at(names.size - 1), int(values[-1])
            yield Named(names, values)


def once(chunks: Iterator[Named]) -> Iterator[Named]:
    """Of sorted names each once, with the handle that it comes with first."""
    last = None
    for names, handles in chunks:
        fresh = _names.is_fresh(*names, last)
        last = names.at(names.size - 1)
        if fresh.any():
            yield Named(names.take(np.flatnonzero(fresh)), handles[fresh])


class NameSorter:
    """Names, each with a number, in any order, sorted in memory_bytes; equal names follow each other as they came."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        self._directory = directory
        # What is held is put together, and sorted with 32 bytes for each name.
        self._most = memory_bytes // 2
        self._held: list[Named] = []
        self._size = 0
        self._runs: list[_Run] = []

    def add(self, names: Names, values: Keys) -> None:
        """Take some more."""
        start = 0
        while start < names.size:
            end = names.upto(start, self._most - self._size, 32)
            self._held.append(Named(names.part(start, end), values[start:end]))
            self._size += len(self._held[-1].names.data) + 32 * (end - start)
            if self._size >= self._most:
                self._spill()
            start = end

    def chunks(self) -> Iterator[Named]:
        """All of them, sorted; may be read again until closed."""
        while len(self._runs) > MAX_RUNS:
            first, self._runs = self._runs[:MAX_RUNS], self._runs[MAX_RUNS:]
            run = _Run(self._directory)
            for chunk in merged_names([each.chunks() for each in first], once=False):
                run.append(chunk)
            close_all(*(each.close for each in first))
            self._runs.insert(0, run)
        last = [self._sorted()] if self._held else []
        if not self._runs:
            yield from itertools.chain(*last)
        else:
            yield from merged_names([*(run.chunks() for run in self._runs), *last], once=False)

    def close(self) -> None:
        """Free what the spill files take."""
        close_all(*(run.close for run in self._runs))
        self._runs, self._held, self._size = [], [], 0

    def _sorted(self) -> Iterator[Named]:
        """What is held, in order, in pieces."""
        self._held = [gathered(self._held)]
        names, values = self._held[0]
        order = _names.sort_order(*names)
        for start in range(0, names.size, PIECE_NAMES):
            own = order[start : start + PIECE_NAMES]
            yield Named(names.take(own), values[own])

    def _spill(self) -> None:
        run = _Run(self._directory)
        for chunk in self._sorted():
            run.append(chunk)
        self._runs.append(run)
        self._held, self._size = [], 0


class _Run:
    """Sorted names in files without a name: their bytes, their ends and their numbers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = self._bytes = 0
        self._files = [unnamed(directory, buffering=0) for _ in range(3)]

    def append(self, named: Named) -> None:
        """Write some behind those already there."""
        names, values = named
        with naming(self._directory):
            for file, data in zip(self._files, (names.data, names.sizes().astype("<u4"), values), strict=True):
                left = np.ascontiguousarray(data).data.cast("B")
                while len(left):
                    left = left[file.write(left) :]
        self._count += names.size
        self._bytes += len(names.data)

    def chunks(self) -> Iterator[Named]:
        """All of them, in pieces."""
        done = at = 0
        step = max(1, READ_BYTES * max(self._count, 1) // max(self._bytes, 1))
        step = min(step, READ_BYTES // 8)
        while done < self._count:
            count = min(step, self._count - done)
            sizes = np.frombuffer(self._read(1, 4 * done, 4 * count), dtype="<u4")
            ends = np.cumsum(sizes.astype(np.int64))
            data = np.frombuffer(self._read(0, at, int(ends[-1])), dtype=np.uint8)
            values = np.frombuffer(self._read(2, 8 * done, 8 * count), dtype=np.uint64)
            yield Named(Names(data, ends), values)
            done += count
            at += int(ends[-1])

    def close(self) -> None:
        """Free what it takes."""
        close_all(*(file.close for file in self._files))

    def _read(self, index: int, offset: int, size: int) -> bytes:
        file: Any = self._files[index]
        parts = []
        with naming(self._directory):
            while size:
                part = os.pread(file.fileno(), size, offset)
                if not part:
                    raise OSError(errno.EIO, f"a spill file ends at byte {offset}, {size} bytes early")
                parts.append(part)
                offset += len(part)
                size -= len(part)
        return b"".join(parts)
