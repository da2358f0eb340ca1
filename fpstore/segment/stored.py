"""Reads a table back from a segment that is still being written: what is made of its keys needs them nowhere else.

It is read as that of a segment of others: each page is compared with its checksum, each key with the one before.
"""

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fpstore._merge import READ_KEYS
from fpstore._view import SegmentView, TableCursor
from fpstore.disk import Passage
from fpstore.errors import CorruptStore, Naming
from fpstore.format import TableRecord
from fpstore.segment.files import WrittenBytes, let_go, map_file
from fpstore.types import Keys

# So many chunks are read before what was mapped of the file is let go of: some 3 MiB, which count as this process's.
MAPPED_CHUNKS = 4


@dataclass(frozen=True)
class StoredTable:
    """The keys of a table, of which there are `count`. Nothing may be added to the file while they are read.

    settle: waits until what was added before is written. That may be the piece that goes on where the table ends, and a
    file whose end changes under a reader is one that was cut short.
    """

    written: WrittenBytes
    table: TableRecord
    count: int
    settle: Callable[[], None]

    def chunks(self) -> Iterator[Keys]:
        """In order, each chunk good until the one after the next is asked for. CorruptStore where they are others."""
        self.settle()
        written, end = self.written, self.written.end
        with Naming(written.path):
            mapped = map_file(written.fd, written.mapped_bytes)
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            try:
                view = SegmentView(mapped, end, end, end, (self.table,), sums=written.checksums)
                try:
                    yield from self._read(view, mapped)
                finally:
                    view.close()
            finally:
                let_go(mapped)

    def _read(self, view: SegmentView, mapped: mmap.mmap) -> Iterator[Keys]:
        cursor = TableCursor(view, 0, 0, 1 << self.table.slot_bits)
        rooms = [np.empty(READ_KEYS, dtype=np.uint64) for _ in range(2)]
        passages = self._passages()
        count = number = 0
        while len(keys := cursor.read(into=rooms[number % 2])):
            count += len(keys)
            yield keys
            number += 1
            if number % MAPPED_CHUNKS == 0:
                mapped.madvise(mmap.MADV_DONTNEED)  # first: what is mapped stays in the cache
                for passage in passages:
                    passage.come_to(view.first_new(passage.offset, passage.end))
        if count != self.count:
            raise CorruptStore("table 0", f"{count} keys", self.count)

    def _passages(self) -> list[Passage]:
        """Through each region of the table; none where the system's cache holds them."""
        if not self.written.uncached:
            return []
        table = self.table
        begins = {table.payload_offset, table.directory_offset, table.fences_offset} - {0}
        ends = pairwise([*sorted(begins), self.written.end])
        return [Passage(self.written.fd, first, end) for first, end in ends]
