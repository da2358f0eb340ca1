"""Reads a file of names."""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fpstore._names import hashes as name_hashes
from fpstore._names_view import NamesView
from fpstore.disk import Place
from fpstore.errors import CorruptStore
from fpstore.names.column import Named, Names
from fpstore.names.layout import KIND_NAMES, NamesRecord
from fpstore.segment.beside import Beside
from fpstore.types import Counts, Keys

# After so many looks for a name into blocks all over a file, what was read need not count as this process's memory.
# Names that are new are told by the filter, all but one in some thousands; without this those would come to hold every
# file of a store.
FORGOTTEN_LOOKS = 8


class NamesReader(Beside[NamesRecord]):
    """A file of names open for reading.

    span: the least handle and the largest.
    """

    HOLDS, KIND, unpacked = "names", KIND_NAMES, NamesRecord.unpack

    def __init__(self, at: Path | Place) -> None:
        """As of Beside."""
        super().__init__(at)
        self.span = self.record.handle_base, self.record.handle_last
        self._names = NamesView(self.view, self.record)
        self._looks_held = 0

    def find(self, names: Names, hashes: Keys | None = None) -> Counts:
        """The rank of each of names: int64[n], -1 for those that are not there. hashes: theirs, where known."""
        with self.naming:
            ranks = self._names.find(*names, name_hashes(*names) if hashes is None else hashes)
        if self._names.looked >= self._looks_held + FORGOTTEN_LOOKS:
            self._looks_held = self._names.looked
            self.forget()
        return ranks

    def ranks(self, handles: Keys) -> Counts:
        """The rank of the name of each handle: int64[n], -1 for those that are not there."""
        with self.naming:
            return self._names.ranks(handles)

    def handles(self, ranks: Counts) -> Keys:
        """The handle of each rank: uint64[n]."""
        with self.naming:
            return self._names.handles(ranks)

    def names(self, ranks: Counts) -> Names:
        """The names of these ranks."""
        with self.naming:
            return Names(*self._names.read(ranks))

    def chunks(self) -> Iterator[Named]:
        """All names with their handles, in order, a block at a time. CorruptStore where one is not as it was left.

        Between two of them nothing of the file is held: a merge reads some sixty at once, and one page that is read
        brings as much as half a megabyte with it.
        """
        last = None
        for index in range(self.record.block_count):
            names, handles = self.block(index)
            self.forget()
            with self.naming:
                if last is not None and names.at(0) <= last:
                    raise CorruptStore(
                        f"names, block {index}", "a first name out of order", "one above the last before it"
                    )
            last = names.at(names.size - 1)
            yield Named(names, handles)

    def forget(self) -> None:
        """Let go of the whole file, which is mapped again, page by page, where it is read again."""
        with contextlib.suppress(ValueError):  # another thread has closed it
            self._map.madvise(mmap.MADV_DONTNEED)

    def block(self, index: int) -> Named:
        """All names of a block with their handles. CorruptStore where it is not as it was left."""
        with self.naming:
            data, ends, handles, _ = self._names.block(index)
        return Named(Names(data, ends), handles)


def verify_names(reader: NamesReader) -> None:
    """Read a whole file of names and check it: every page, every name, and that it is found by name and by handle.

    CorruptStore where anything is wrong.
    """
    reader.check_pages()
    count = data_bytes = 0
    least, most = (1 << 64) - 1, 0
    for names, handles in reader.chunks():
        ranks = np.arange(count, count + names.size)
        if not (np.array_equal(reader.find(names), ranks) and np.array_equal(reader.ranks(handles), ranks)):
            raise CorruptStore(
                f"names from rank {count} on", "some that are not found by name, or by handle", "each", path=reader.path
            )
        count += names.size
        data_bytes += len(names.data)
        least, most = min(least, int(handles.min())), max(most, int(handles.max()))
    record = reader.record
    found = (count, data_bytes, *((least, most) if count else (0, 0)))
    expected = (record.count, record.data_bytes, record.handle_base, record.handle_last)
    if found != expected:
        raise CorruptStore("names record", expected, found, path=reader.path)
