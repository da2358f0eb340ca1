"""Reads a file of names: maps it and checks the footer and the record; pages are checked when they are first used."""

import contextlib
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fpstore._codec import crc32c, page_checksums
from fpstore._names import hashes as name_hashes
from fpstore._names_view import NamesView
from fpstore._view import SegmentView
from fpstore.disk import Place, placed
from fpstore.errors import CorruptStore, Naming
from fpstore.format import FOOTER_BYTES, HEADER_BYTES, PAGE_BYTES, Header
from fpstore.names.column import Named, Names
from fpstore.names.layout import KIND_NAMES, NamesRecord
from fpstore.segment.files import map_file, read_footer
from fpstore.types import Counts, Keys

# Of a file that is read whole, so much at a time.
STEP_BYTES = 1 << 18
# After so many bytes of blocks that were read in order, what was read need not count as this process's memory: a merge
# reads some thirty files at once.
FORGOTTEN_BYTES = 1 << 20
# After so many looks for a name into blocks all over a file neither. Names that are new are told by the filter, all but
# one in some thousands; without this those would come to hold every file of a store.
FORGOTTEN_LOOKS = 8


class NamesReader:
    """A file of names open for reading. Opening reads the footer and the record, whatever the file's size.

    span: the least handle and the largest.
    """

    def __init__(self, at: Path | Place) -> None:
        """Map the file. Raises CorruptStore, UnsupportedVersion, or the operating system's errors."""
        self.path = at.path if isinstance(at, Place) else at
        self._naming = Naming(self.path)
        with self._naming:
            with placed(at) as place, open(place.folder.open_file(place.name), "rb") as file:
                self.file_bytes = os.fstat(file.fileno()).st_size
                self.footer = read_footer(file.fileno(), self.file_bytes)
                self._map = map_file(file.fileno(), self.file_bytes)
            try:
                footer = self.footer
                self._view = SegmentView(
                    self._map, footer.checksums_offset, footer.roots_offset, footer.footer_offset, ()
                )
                try:
                    self.record = self._read_record()
                except BaseException:
                    self._view.close()
                    raise
            except BaseException:
                self._map.close()
                raise
        self.span = self.record.handle_base, self.record.handle_last
        self._names = NamesView(self._view, self.record)
        self._looks_held = 0

    @property
    def count(self) -> int:
        """How many names there are."""
        return self.record.count

    @property
    def footer_crc(self) -> int:
        """The CRC-32C at the end of the file: it stands for all its bytes."""
        return int.from_bytes(self.footer.pack()[-4:], "little")

    def find(self, names: Names, hashes: Keys | None = None) -> Counts:
        """The rank of each of names: int64[n], -1 for those that are not there. hashes: theirs, where known."""
        with self._naming:
            ranks = self._names.find(*names, name_hashes(*names) if hashes is None else hashes)
        if self._names.looked >= self._looks_held + FORGOTTEN_LOOKS:
            self._looks_held = self._names.looked
            self._forget()
        return ranks

    def ranks(self, handles: Keys) -> Counts:
        """The rank of the name of each handle: int64[n], -1 for those that are not there."""
        with self._naming:
            return self._names.ranks(handles)

    def handles(self, ranks: Counts) -> Keys:
        """The handle of each rank: uint64[n]."""
        with self._naming:
            return self._names.handles(ranks)

    def names(self, ranks: Counts) -> Names:
        """The names of these ranks."""
        with self._naming:
            return Names(*self._names.read(ranks))

    def chunks(self) -> Iterator[Named]:
        """All names with their handles, in order, a block at a time. CorruptStore where one is not as it was left."""
        last, forgotten, step = None, 0.0, self.record.blocks_bytes / max(self.record.block_count, 1)
        for index in range(self.record.block_count):
            names, handles = self.block(index)
            if index * step >= forgotten + FORGOTTEN_BYTES:
                forgotten = index * step
                self._forget()
            with self._naming:
                if last is not None and names.at(0) <= last:
                    raise CorruptStore(
                        f"names, block {index}", "a first name out of order", "one above the last before it"
                    )
            last = names.at(names.size - 1)
            yield Named(names, handles)

    def _forget(self) -> None:
        """Let go of the whole file, which is mapped again, page by page, where it is read again."""
        with contextlib.suppress(ValueError):  # another thread has closed it
            self._map.madvise(mmap.MADV_DONTNEED)

    def block(self, index: int) -> Named:
        """All names of a block with their handles. CorruptStore where it is not as it was left."""
        with self._naming:
            data, ends, handles, _ = self._names.block(index)
        return Named(Names(data, ends), handles)

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes of the file, whose pages need not have been checked."""
        with self._naming:
            return self._view.read(offset, length)

    def close(self) -> None:
        """Unmap; calls under way in other threads finish first."""
        self._view.close()
        while self._view.users:
            time.sleep(0.001)
        self._map.close()

    def _read_record(self) -> NamesRecord:
        footer, view = self.footer, self._view
        if view.read(footer.footer_offset, FOOTER_BYTES) != footer.pack():
            raise CorruptStore("footer", "another one", "that of the file as it was opened, which changed meanwhile")
        view.check(0, HEADER_BYTES, "header")
        view.check(footer.summary_offset, footer.checksums_offset, "names record")
        Header.unpack(view.read(0, HEADER_BYTES), KIND_NAMES)
        return NamesRecord.unpack(view.read(footer.summary_offset, footer.summary_bytes), footer)


def verify_names(reader: NamesReader) -> None:
    """Read a whole file of names and check it: every page, every name, and that it is found by name and by handle.

    CorruptStore where anything is wrong.
    """
    check_pages(reader)
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


def check_pages(reader: NamesReader) -> None:
    """Read every page, also those that were checked before. CorruptStore where one is not as it was written."""
    footer = reader.footer
    size = footer.roots_offset - footer.checksums_offset
    sums = np.frombuffer(reader.read(footer.checksums_offset, size), dtype="<u4")
    roots = reader.read(footer.roots_offset, footer.footer_offset - footer.roots_offset)
    if page_checksums(sums.view(np.uint8)).astype("<u4").tobytes() != roots or crc32c(roots) != footer.roots_crc:
        raise CorruptStore("checksums", "a page of another checksum", "that of its root", path=reader.path)
    for offset in range(0, footer.checksums_offset, STEP_BYTES):
        found = page_checksums(reader.read(offset, min(STEP_BYTES, footer.checksums_offset - offset)))
        first = offset // PAGE_BYTES
        different = np.flatnonzero(found != sums[first : first + len(found)])
        if len(different):
            place = (first + int(different[0])) * PAGE_BYTES
            where, page = f"names, page at byte {place}, checksum", int(different[0])
            raise CorruptStore(where, f"{found[page]:#010x}", f"{sums[first + page]:#010x}", path=reader.path)
