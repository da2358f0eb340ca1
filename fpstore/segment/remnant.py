"""A damaged file of pages of which it is known what is sound: page by page, against the checksums that were written.

A page counts when its checksum holds, or when it can be made again, byte for byte, from what is sound. Nothing is taken
for sound because it looks so. The file itself is only read.
"""

import contextlib
import mmap
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from fpstore import format as layout
from fpstore._codec import crc32c, page_checksums
from fpstore.disk import Place, placed, write_all
from fpstore.errors import CorruptStore, Damage
from fpstore.format import CRC_BYTES, FOOTER_BYTES, KIND_SEGMENT, PAGE_BYTES, Footer, Header
from fpstore.segment.files import read_readable
from fpstore.types import Array, Counts

COPY_BYTES = 4 << 20
# A file may lack so much at its end, the checksums and the footer, that follow from the rest if all of it is sound.
CUT_SHARE, CUT_BYTES = 512, 512


class Remnant:
    """A file as it can be read. sound: bool[pages]; footer: where its summary and its checksums are.

    HOLDS, KIND: what is in it, for errors and for its header. TABLES: how many a summary of its kind may be of.
    """

    HOLDS = "segment"
    KIND = KIND_SEGMENT
    TABLES = range(1, layout.MAX_TABLES + 1)

    def __init__(self, at: Path | Place, expected: tuple[int, int] | None, scratch: Path | None) -> None:
        """Read the file there. expected: its size and the checksum of its footer, as the catalog says them. scratch: a
        folder for a copy of it, where its disk does not give back all of it, or where it is cut short.

        Raises CorruptStore where its footer is gone, or where it is not that file.
        """
        with contextlib.ExitStack() as undo:
            self._made: list[str] = []  # regions that were damaged, and follow from others
            self._data, unread, found = _mapped(at, expected, scratch)
            self._length = found, len(self._data)
            undo.callback(self._data.close)
            self.footer = self._find_footer(expected)
            self._sums = self._find_checksums()
            self.sound: Array = self._found() == self._sums
            self.sound[[page for page in unread if page < len(self.sound)]] = False
            if not self.sound[0] and len(self.put_back(0, Header(self.KIND).pack())):
                self._made.insert(0, "header")
            undo.pop_all()

    def close(self) -> None:
        """Let go of it."""
        self._data.close()

    def damage(self, path: str) -> list[Damage]:
        """The damaged pages, runs of them as one, each with the regions that they hold bytes of."""
        gone = np.flatnonzero(~self.sound)
        runs = np.split(gone, np.flatnonzero(np.diff(gone) != 1) + 1) if len(gone) else []
        found = []
        for run in runs:
            start, end = int(run[0]) * PAGE_BYTES, (int(run[-1]) + 1) * PAGE_BYTES
            names = " and ".join(self._regions_in(start, min(end, self.footer.checksums_offset)))
            count = f"{len(run)} page{'s' * (len(run) > 1)}"
            found.append(Damage(path, f"{names}, {count} from byte {start}, checksum", "another", "the one recorded"))
        if self._length[0] != self._length[1]:
            found.append(Damage(path, "file", f"{self._length[0]} bytes", str(self._length[1])))
        return found + [Damage(path, name, "damage", "what follows from the rest") for name in self._made]

    def _regions_in(self, start: int, end: int) -> list[str]:
        """What bytes [start, end) are of."""
        return [self.HOLDS]

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes, sound or not."""
        return self._data[offset : offset + length]

    def is_sound(self, start: int, end: int) -> bool:
        """Whether bytes [start, end) lie in sound pages."""
        return bool(self.sound[start // PAGE_BYTES : -(-end // PAGE_BYTES)].all())

    def are_sound(self, starts: Counts, ends: Counts) -> Array:
        """Whether each stretch of bytes, none longer than a page, lies in sound pages: bool[n]."""
        firsts, lasts = starts // PAGE_BYTES, np.maximum(ends - 1, starts) // PAGE_BYTES
        held: Array = self.sound[np.minimum(firsts, len(self.sound) - 1)]
        held &= self.sound[np.minimum(lasts, len(self.sound) - 1)]
        return held

    def put_back(self, offset: int, made: bytes) -> Array:
        """Which damaged pages are what they were when `made` takes the place of the bytes from offset on: int64[n].

        They are replaced, and are sound from now on.
        """
        first, end = offset // PAGE_BYTES, -(-(offset + len(made)) // PAGE_BYTES)
        start, stop = first * PAGE_BYTES, min(end * PAGE_BYTES, self.footer.checksums_offset)
        held = bytearray(self.read(start, stop - start))
        held[offset - start : offset - start + len(made)] = made
        same = np.flatnonzero((page_checksums(held) == self._sums[first:end]) & ~self.sound[first:end]) + first
        for page in same.tolist():
            piece = bytes(held[page * PAGE_BYTES - start : (page + 1) * PAGE_BYTES - start])
            self._data[page * PAGE_BYTES : page * PAGE_BYTES + len(piece)] = piece
        self.sound[same] = True
        return same

    def sealed(self, path: Path) -> None:
        """Write a copy, with checksums that hold for its sound pages and for no other."""
        self._seal(np.where(self.sound, self._found(), ~self._found()))
        with open(path, "xb") as file:
            for offset in range(0, len(self._data), COPY_BYTES):
                file.write(self._data[offset : offset + COPY_BYTES])

    def _seal(self, sums: Array) -> None:
        """Give the bytes in memory these checksums of pages, and what follows from them."""
        footer, packed = self.footer, _packed(sums)
        roots = _packed(page_checksums(packed))
        self._data[footer.checksums_offset : footer.roots_offset] = packed
        self._data[footer.roots_offset : footer.footer_offset] = roots
        self._data[footer.footer_offset :] = replace(footer, roots_crc=crc32c(roots)).pack()

    def _found(self) -> Array:
        return page_checksums(memoryview(self._data)[: self.footer.checksums_offset])

    def _find_footer(self, expected: tuple[int, int] | None) -> Footer:
        size = len(self._data)
        try:
            footer = Footer.unpack(self.read(size - FOOTER_BYTES, FOOTER_BYTES), size)
        except CorruptStore:
            if expected is None:
                raise
            return self._made_footer(expected[1])
        if expected is not None and (size, _crc_of(footer)) != expected:
            raise CorruptStore(self.HOLDS, (size, _crc_of(footer)), f"{expected}, which the catalog names")
        return footer

    def _made_footer(self, crc: int) -> Footer:
        """The footer which has the checksum that the catalog names, whatever of the file's end is damaged beside it."""
        possible = [footer for count in self.TABLES if (footer := _footer_of(len(self._data), count)) is not None]
        for first in possible[:1]:  # but for the summary's place they are the same
            roots = self.read(first.roots_offset, first.footer_offset - first.roots_offset)
            sums = self.read(first.checksums_offset, first.roots_offset - first.checksums_offset)
            found = _packed(page_checksums(memoryview(self._data)[: first.checksums_offset]))
            for made in (roots, _packed(page_checksums(sums)), _packed(page_checksums(found))):
                for each in possible:
                    footer = replace(each, roots_crc=crc32c(made))
                    if _crc_of(footer) == crc:
                        self._data[footer.roots_offset : footer.footer_offset] = made
                        self._made += ["footer"] if made == roots else ["roots", "footer"]
                        return footer
        raise CorruptStore("footer", "damage", "a sound one, or one that follows from the catalog")

    def _find_checksums(self) -> Array:
        """The checksums as they were written; a page of them that is damaged alone follows from what it covers.

        So do their roots.
        """
        footer = self.footer
        sums = np.frombuffer(self.read(footer.checksums_offset, footer.roots_offset - footer.checksums_offset), "<u4")
        roots = np.frombuffer(self.read(footer.roots_offset, footer.footer_offset - footer.roots_offset), "<u4")
        sums, found, per_page = sums.copy(), self._found(), PAGE_BYTES // CRC_BYTES
        if crc32c(roots.tobytes()) != footer.roots_crc:
            self._made.append("roots")
            made = (page_checksums(_packed(each)) for each in (sums, found))
            roots = next((each for each in made if crc32c(_packed(each)) == footer.roots_crc), roots[:0])
        for index, root in enumerate(roots.tolist()):
            covered = slice(index * per_page, (index + 1) * per_page)
            if crc32c(_packed(found[covered])) == root and (sums[covered] != found[covered]).any():
                sums[covered] = found[covered]
                self._made.insert(0, f"checksums, page at byte {footer.checksums_offset + index * PAGE_BYTES}")
        return sums


def _mapped(
    at: Path | Place, expected: tuple[int, int] | None, scratch: Path | None
) -> tuple[mmap.mmap, list[int], int]:
    """The bytes of a file, which may be changed in memory, the pages that its disk does not give back, and its size.

    Where there are such pages, what can be read is copied to the folder scratch first.
    """
    unread: list[int] = []
    with contextlib.ExitStack() as undo:
        place = undo.enter_context(placed(at))
        source = place.folder.open_file(place.name)
        undo.callback(os.close, source)
        size = found = os.fstat(source).st_size
        is_cut = expected is not None and size < expected[0]
        if expected is not None:
            if is_cut and (scratch is None or expected[0] - size > size // CUT_SHARE + CUT_BYTES):
                raise CorruptStore("file, cut short", f"{size} bytes", expected[0])
            size = expected[0]
        if size < layout.HEADER_BYTES + FOOTER_BYTES:
            raise CorruptStore("file", f"{size} bytes", f"{layout.HEADER_BYTES + FOOTER_BYTES} or more")
        pieces = [(offset, min(COPY_BYTES, size - offset)) for offset in range(0, size, COPY_BYTES)]
        for offset, length in pieces:
            read_readable(source, offset, length, unread)
        if scratch is None or not (unread or is_cut):
            return mmap.mmap(source, size, access=mmap.ACCESS_COPY), unread, found
        copy = scratch / place.name
        target = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        undo.callback(os.close, target)
        undo.callback(copy.unlink)  # the mapping keeps it
        for offset, length in pieces:
            write_all(target, memoryview(read_readable(source, offset, length, [])))
        return mmap.mmap(target, size, access=mmap.ACCESS_COPY), unread, found


def _packed(sums: Array) -> bytes:
    return sums.astype("<u4").tobytes()


def _footer_of(file_bytes: int, table_count: int) -> Footer | None:
    """The footer of a file of that size with so many tables, but for roots_crc; None where there is none."""
    least, most = 1, file_bytes // layout.ALIGNMENT + 1
    while least < most:  # a later summary makes a longer file
        middle = (least + most) // 2
        if Footer.locate(middle * layout.ALIGNMENT, table_count, 0).file_bytes < file_bytes:
            least = middle + 1
        else:
            most = middle
    footer = Footer.locate(least * layout.ALIGNMENT, table_count, 0)
    return footer if footer.file_bytes == file_bytes else None


def _crc_of(footer: Footer) -> int:
    return int.from_bytes(footer.pack()[-CRC_BYTES:], "little")
