"""Writes a file of names: sorted names with their handles go in, and what finds either is made of them at the end.

In bounded memory: names are coded a block at a time, and what has to be sorted by handle or by hash is spilled.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, Self

import numpy as np

from fpstore import format as layout
from fpstore._codec import PackedWriter
from fpstore._names import NameEncoder, filter_lines, hashes, lines_of
from fpstore.building.spill import KeySorter, PairSorter
from fpstore.disk import Place, naming, unnamed
from fpstore.format import Header
from fpstore.names.column import Named, Names, joined
from fpstore.names.layout import KIND_NAMES, NamesRecord, line_count
from fpstore.segment.files import FileWriter
from fpstore.types import Bytes, Counts, Keys

# For sorting hashes, and afterwards handles; what does not fit is spilled.
SORT_MEMORY = 8 << 20
# Names are coded when so many bytes of them have come; hashes and handles are kept in memory up to so many, and need no
# sorting then.
GATHERED_BYTES = 2 << 20
HELD_NUMBERS = 1 << 20
FILTER_LINES_AT_ONCE = 1 << 14
_NONE: Keys = np.empty(0, dtype=np.uint64)
ONE_HANDLE = "found two names with one handle, expected each to have its own"


class NamesFile(NamedTuple):
    """What the catalog is to say of a file of names."""

    file_bytes: int
    crc: int


class Coded(NamedTuple):
    """Sorted names as the blocks of a file, and what else a file says of them.

    data: the blocks. sizes, counts: the bytes and the names of each. hashes, handles: of the names, in their order.
    name_bytes: how many the names have.
    """

    data: Bytes
    sizes: Counts
    counts: Counts
    hashes: Keys
    handles: Keys
    name_bytes: int


class NamesWriter(FileWriter):
    """Writes a file of names. Use as a context: leaving it before finish() removes the file."""

    def __init__(self, at: Path | Place, scratch: Path) -> None:
        """Create the file; FileExistsError if it is there. scratch: a folder for spill files."""
        super().__init__(at)
        self._scratch = scratch
        self._encoder = NameEncoder()
        self._waiting: list[Names] = []
        self._hashes: list[Keys] = []
        self._sorter: KeySorter | None = None  # of the hashes, once they are many
        self._handles = self._held.enter_context(_Handles(scratch))
        self._directory: list[Counts] = []
        self._counts: list[Counts] = []
        self._data_bytes = 0
        self._file.write(Header(KIND_NAMES).pack())

    def add(self, named: Named) -> None:
        """Append names, increasing also across calls, and their handles, of which no two are the same."""
        names, handles = named
        if not names.size:
            return
        self._take(hashes(*names), handles, len(names.data))
        self._waiting.append(names)
        if sum(len(part.data) for part in self._waiting) >= GATHERED_BYTES:
            self._code(all_of_them=False)

    def add_coded(self, coded: Coded) -> None:
        """Append names that were coded, increasing as those of add; these are all appended by the one or the other."""
        if len(coded.handles):
            self._take(coded.hashes, coded.handles, coded.name_bytes)
            self._append(coded.data, coded.sizes, coded.counts)

    def _take(self, hashes: Keys, handles: Keys, name_bytes: int) -> None:
        self._data_bytes += name_bytes
        self._hashes.append(hashes)
        self._handles.add(handles)
        if self._sorter is not None or self._handles.count > HELD_NUMBERS:
            self._sort_hashes()

    def finish(self) -> NamesFile:
        """Write the rest, make the file durable, read it back and check it. What the catalog is to say of it.

        ValueError where two names have one handle; CorruptStore where the file does not read back as it was written.
        """
        self._code(all_of_them=True)
        blocks_bytes = self._file.offset - layout.HEADER_BYTES
        self._file.align()
        block_count = self._write_directory()
        self._write_filter()
        record = self._write_handles(block_count, blocks_bytes)
        crc = self._seal(record.pack(), 1)
        return NamesFile(self._file.offset, crc)

    def _code(self, all_of_them: bool) -> None:
        names = joined(self._waiting)
        data, sizes, counts = self._encoder.blocks(*names, all_of_them)
        self._append(data, sizes, counts)
        coded = int(counts.sum())
        left = names.part(coded, names.size)
        self._waiting = [Names(left.data.copy(), left.ends.copy())] if left.size else []

    def _append(self, data: Bytes, sizes: Counts, counts: Counts) -> None:
        self._file.write(data)
        self._directory.append(sizes)
        self._counts.append(counts)

    def _write_directory(self) -> int:
        """Where each block begins, and its first rank; one entry more for their end. How many blocks there are."""
        sizes, counts = np.concatenate(self._directory), np.concatenate(self._counts)
        entries = np.zeros((len(sizes) + 1, 2), dtype="<u8")
        entries[1:, 0], entries[1:, 1] = np.cumsum(sizes), np.cumsum(counts)
        self._file.write(entries.view(np.uint8).ravel())
        return len(sizes)

    def _sort_hashes(self) -> None:
        if self._sorter is None:
            self._sorter = KeySorter(self._scratch, SORT_MEMORY)
        for part in self._hashes:
            self._sorter.add(part)
        self._hashes = []

    def _write_filter(self) -> None:
        self._file.align()
        lines = line_count(self._handles.count)
        if self._sorter is None:
            self._file.write(filter_lines(np.concatenate([_NONE, *self._hashes]), lines, 0, lines))
            return
        found = self._sorter.finish()
        waiting = np.empty(0, dtype=np.uint64)
        done = 0
        for chunk in found.chunks():
            waiting = np.concatenate([waiting, chunk])
            upto = int(lines_of(waiting[-1:], lines)[0])  # more of this line may come
            done = self._write_lines(waiting, done, upto, lines)
            waiting = waiting[lines_of(waiting, lines) >= done]
        self._write_lines(waiting, done, lines, lines)
        found.close()

    def _write_lines(self, sorted_hashes: Keys, first: int, end: int, lines: int) -> int:
        of = lines_of(sorted_hashes, lines)
        for start in range(first, end, FILTER_LINES_AT_ONCE):
            stop = min(start + FILTER_LINES_AT_ONCE, end)
            own = sorted_hashes[np.searchsorted(of, start) : np.searchsorted(of, stop)]
            self._file.write(filter_lines(own, lines, start, stop))
        return end

    def _write_handles(self, block_count: int, blocks_bytes: int) -> NamesRecord:
        """The handles by rank, and the ranks by handle; neither where a rank tells the handle."""
        handles = self._handles
        base, last = handles.least, handles.most
        if last - base < handles.count - 1:
            raise ValueError(ONE_HANDLE)
        width = 0 if handles.in_turn else (last - base).bit_length()
        rank_width = (handles.count - 1).bit_length() if width else 0
        self._file.align()
        if width:
            self._pack(width, (chunk - np.uint64(base) for chunk in handles.chunks()))
            self._file.align()
            self._pack(rank_width, self._ranks())
        return NamesRecord(
            count=handles.count,
            data_bytes=self._data_bytes,
            block_count=block_count,
            blocks_bytes=blocks_bytes,
            handle_base=base,
            handle_last=last,
            handle_width=width,
            rank_width=rank_width,
        )

    def _ranks(self) -> Iterator[Keys]:
        """The rank of each handle, in their order. ValueError where a handle comes twice."""
        handles = self._handles
        span = handles.most - handles.least + 1
        if handles.count <= HELD_NUMBERS and span <= 4 * HELD_NUMBERS:  # then each has its place
            places = np.zeros(span, dtype=np.uint32)
            held = (np.concatenate([*handles.chunks()]) - np.uint64(handles.least)).astype(np.int64)
            places[held] = np.arange(1, handles.count + 1, dtype=np.uint32)
            ranks = places if span == handles.count else places[places > 0]
            if len(ranks) != handles.count or not ranks.all():
                raise ValueError(ONE_HANDLE)
            yield ranks.astype(np.uint64) - np.uint64(1)
            return
        sorter, first = PairSorter(self._scratch, SORT_MEMORY), 0
        for chunk in handles.chunks():
            sorter.add(chunk, np.arange(first, first + len(chunk), dtype=np.uint64))
            first += len(chunk)
        pairs = sorter.finish()
        yield from _distinct(pairs.chunks())
        pairs.close()

    def _pack(self, width: int, arrays: Iterator[Keys]) -> None:
        packed = PackedWriter(width)
        for values in arrays:
            self._file.write(packed.push(values))
        self._file.write(packed.finish())


def _distinct(pairs: Iterator[tuple[Keys, Keys]]) -> Iterator[Keys]:
    """The ranks of sorted pairs of handle and rank. ValueError where a handle comes twice."""
    last: Keys = np.empty(0, dtype=np.uint64)
    for handles, ranks in pairs:
        together = np.concatenate([last, handles])
        if (together[1:] == together[:-1]).any():
            raise ValueError(ONE_HANDLE)
        last = handles[-1:].copy()
        yield ranks


class _Handles:
    """Handles in the order in which they came; beyond a bound in a file without a name."""

    def __init__(self, scratch: Path) -> None:
        self.count, self.least, self.most = 0, 0, 0
        self.in_turn = True
        self._scratch = scratch
        self._held: list[Keys] = []
        self._first = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, handles: Keys) -> None:
        """Take some, at least one."""
        first, least, most = int(handles[0]), int(handles.min()), int(handles.max())
        if not self.count:
            self.least, self.most, self._first = least, most, first
        expected = np.arange(len(handles), dtype=np.uint64) + np.uint64((self._first + self.count) % (1 << 64))
        self.in_turn = self.in_turn and np.array_equal(handles, expected)
        self.least, self.most = min(self.least, least), max(self.most, most)
        self.count += len(handles)
        self._held.append(handles.copy())
        if sum(map(len, self._held)) >= HELD_NUMBERS:
            with naming(self._scratch):
                if self._file is None:
                    self._file = unnamed(self._scratch)
                self._file.write(np.concatenate(self._held).tobytes())
            self._held = []

    def chunks(self) -> Iterator[Keys]:
        """All of them, again and again."""
        if self._file is not None:
            with naming(self._scratch):
                self._file.seek(0)
                while data := self._file.read(8 * HELD_NUMBERS):
                    yield np.frombuffer(data, dtype=np.uint64)
        yield from self._held
