"""Files beside a segment: mapped, their footer and record checked; pages are checked when they are first used."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from fpstore._codec import crc32c, page_checksums
from fpstore._view import SegmentView
from fpstore.disk import Place, placed
from fpstore.errors import CorruptStore, Naming
from fpstore.format import FOOTER_BYTES, HEADER_BYTES, PAGE_BYTES, Footer, Header
from fpstore.segment.files import let_go, map_file, read_footer

# Of a file that is read whole, so much at a time.
STEP_BYTES = 1 << 18


class Counted(Protocol):
    """The record of such a file."""

    @property
    def count(self) -> int:
        """How many are in it."""
        ...


_Record = TypeVar("_Record", bound=Counted)


class Beside(Generic[_Record]):
    """A file beside a segment, open for reading. Opening reads the footer and the record, whatever the file's size.

    HOLDS, KIND: what is in it, for errors and for its header. unpacked: its record, from the bytes and the footer.
    """

    HOLDS: ClassVar[str]
    KIND: ClassVar[int]
    unpacked: Callable[[bytes, Footer], _Record]

    def __init__(self, at: Path | Place) -> None:
        """Map the file. Raises CorruptStore, UnsupportedVersion, or the operating system's errors."""
        self.path = at.path if isinstance(at, Place) else at
        self.naming = Naming(self.path)
        with self.naming:
            with placed(at) as place, open(place.folder.open_file(place.name), "rb") as file:
                self.file_bytes = os.fstat(file.fileno()).st_size
                self.footer = read_footer(file.fileno(), self.file_bytes)
                self._map = map_file(file.fileno(), self.file_bytes)
            try:
                footer = self.footer
                self.view = SegmentView(
                    self._map, footer.checksums_offset, footer.roots_offset, footer.footer_offset, ()
                )
                try:
                    self.record = self._read_record()
                except BaseException:
                    self.view.close()
                    raise
            except BaseException:
                let_go(self._map)
                raise

    @property
    def count(self) -> int:
        """How many are in it."""
        return self.record.count

    @property
    def footer_crc(self) -> int:
        """The CRC-32C at the end of the file: it stands for all its bytes."""
        return int.from_bytes(self.footer.pack()[-4:], "little")

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes of the file, whose pages need not have been checked."""
        with self.naming:
            return self.view.read(offset, length)

    def check_pages(self) -> None:
        """Read every page, also those that were checked before. CorruptStore where one is not as it was written."""
        footer = self.footer
        size = footer.roots_offset - footer.checksums_offset
        sums = np.frombuffer(self.read(footer.checksums_offset, size), dtype="<u4")
        roots = self.read(footer.roots_offset, footer.footer_offset - footer.roots_offset)
        if page_checksums(sums.view(np.uint8)).astype("<u4").tobytes() != roots or crc32c(roots) != footer.roots_crc:
            raise CorruptStore("checksums", "a page of another checksum", "that of its root", path=self.path)
        for offset in range(0, footer.checksums_offset, STEP_BYTES):
            found = page_checksums(self.read(offset, min(STEP_BYTES, footer.checksums_offset - offset)))
            first = offset // PAGE_BYTES
            different = np.flatnonzero(found != sums[first : first + len(found)])
            if len(different):
                place = (first + int(different[0])) * PAGE_BYTES
                where, page = f"{self.HOLDS}, page at byte {place}, checksum", int(different[0])
                raise CorruptStore(where, f"{found[page]:#010x}", f"{sums[first + page]:#010x}", path=self.path)

    def close(self) -> None:
        """Unmap; calls under way in other threads finish first."""
        self.view.close()
        while self.view.users:
            time.sleep(0.001)
        self._map.close()

    def _read_record(self) -> _Record:
        footer, view = self.footer, self.view
        if view.read(footer.footer_offset, FOOTER_BYTES) != footer.pack():
            raise CorruptStore("footer", "another one", "that of the file as it was opened, which changed meanwhile")
        view.check(0, HEADER_BYTES, "header")
        view.check(footer.summary_offset, footer.checksums_offset, f"{self.HOLDS} record")
        Header.unpack(view.read(0, HEADER_BYTES), self.KIND)
        return type(self).unpacked(view.read(footer.summary_offset, footer.summary_bytes), footer)
