"""The header of LMDB's file as it is on the disk: checked before LMDB takes it on trust, and again at each use."""

import os
import struct
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fpstore.checks import expect
from fpstore.errors import CorruptStore, Wrong

# LMDB 0.9, 64 bits. Two meta pages, written in turn: page header (number, pad, flags, bounds), then magic,
# version, address, map size; the free and the main database, 48 bytes each; last page, transaction.
META = struct.Struct("<QHHI" + "IIQQ" + "IHHQQQQQ" + "IHHQQQQQ" + "QQ")
# Of its fields: how large a page is, the roots of both databases, the last page, the transaction.
_PAGE_BYTES, _ROOTS, _LAST_PAGE, _TRANSACTION = 8, (15, 23), 24, 25
_PAGE_IS_META = 0x08
_NO_ROOT = 2**64 - 1
_FIXED = ("number", "flags", "magic", "format", "fixed address", "page size")
_LMDB_MAGIC = 0xBEEFC0DE
_LMDB_FORMAT = 1
_PAGE_SIZES = (4096, 8192, 16384, 32768)


class Header(NamedTuple):
    """What the file says at one moment.

    used_bytes: how much of it LMDB counts as used. transaction: the newest one that was committed. meta: the bytes of
    the meta page that tells of it, which lie at meta_offset.
    """

    file_bytes: int
    used_bytes: int
    page_bytes: int
    transaction: int
    meta_offset: int
    meta: bytes

    @property
    def transaction_offsets(self) -> tuple[int, int]:
        """Where the numbers of the transactions of both meta pages lie, 8 bytes each."""
        return META.size - 8, self.page_bytes + META.size - 8


class HeaderFile:
    """The file that fd is open for, beside what LMDB made of it when it was opened. path: what errors call it."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._seen: tuple[int, bytes] | None = None  # what was found good the last time: the size, and the header
        self._header = Header(0, 0, 0, 0, 0, b"")

    @property
    def head(self) -> bytes:
        """The bytes that the file began with when it was last checked, both meta pages among them."""
        assert self._seen is not None, "it was checked"
        return self._seen[1]

    def check(self) -> Header:
        """Check what LMDB takes on trust; returns what the header says.

        Raises CorruptStore. A file cut short, or a page number past its end, would be a bus error inside LMDB.
        """
        for _ in range(3):
            seen = self._read()
            if seen == self._seen:
                return self._header
            try:
                self._header, self._seen = _checked(*seen), seen
                return self._header
            except ValueError as error:
                # A commit may have been half way through its meta page.
                problem = error
                time.sleep(0.001)
        raise CorruptStore.by(problem, "", path=self._path)

    def still_says(self, header: Header) -> bool:
        """Whether the meta page that told of header's transaction is, byte for byte, what it was."""
        return os.pread(self._fd, META.size, header.meta_offset) == header.meta

    def _read(self) -> tuple[int, bytes]:
        file_bytes = os.fstat(self._fd).st_size
        head = os.pread(self._fd, 2 * _PAGE_SIZES[0], 0)
        if len(head) == 2 * _PAGE_SIZES[0] and META.unpack_from(head)[_PAGE_BYTES] != _PAGE_SIZES[0]:
            head = os.pread(self._fd, 2 * _PAGE_SIZES[-1], 0)
        return file_bytes, head


def _checked(file_bytes: int, head: bytes) -> Header:
    """The header that a file of so many bytes begins with. Raises ValueError."""
    # Asked at every commit, so what is right is not said in words first.
    if len(head) < 2 * _PAGE_SIZES[0]:
        expect("the file's size", file_bytes, False, "two pages or more")
    page_bytes = META.unpack_from(head)[_PAGE_BYTES]
    if page_bytes not in _PAGE_SIZES:
        expect("the page size", page_bytes, False, "4096, 8192, 16384 or 32768")
    if len(head) < 2 * page_bytes:
        expect("the file's size", file_bytes, False, f"two pages of {page_bytes} or more")
    raw = head[: META.size], head[page_bytes : page_bytes + META.size]
    metas = _checked_meta(raw[0], 0, page_bytes, file_bytes), _checked_meta(raw[1], 1, page_bytes, file_bytes)
    numbers = metas[0][_TRANSACTION], metas[1][_TRANSACTION]
    # LMDB follows the newer. The older may have the roots of a commit that failed in writing that very page: LMDB then
    # puts back the transaction and the last page, not the roots.
    newer = 1 if numbers[1] > numbers[0] else 0
    _check_roots(metas[newer], newer)
    # The metas are written in turn and never skip a transaction: one that was damaged into looking old would
    # otherwise bring back an old state.
    if numbers != (0, 0) and (abs(numbers[0] - numbers[1]) != 1 or numbers[0] % 2):
        expect("the pair of transactions", list(numbers), False, "an even number and an odd neighbour of it")
    used_bytes, offset = (metas[newer][_LAST_PAGE] + 1) * page_bytes, newer * page_bytes
    return Header(file_bytes, used_bytes, page_bytes, numbers[newer], offset, raw[newer])


@lru_cache(maxsize=16)  # a commit changes one of the two
def _checked_meta(raw: bytes, page: int, page_bytes: int, file_bytes: int) -> tuple[int, ...]:
    meta = META.unpack(raw)
    found = (meta[0], meta[2], *meta[4:7], meta[_PAGE_BYTES])
    expected = (page, _PAGE_IS_META, _LMDB_MAGIC, _LMDB_FORMAT, 0, page_bytes)
    for name, value, right in zip(_FIXED, found, expected, strict=True) if found != expected else ():
        if value != right:
            raise Wrong(f"meta page {page}, {name}", value, right)
    last_page = meta[_LAST_PAGE]
    if not 1 <= last_page < file_bytes // page_bytes:
        pages = file_bytes // page_bytes - 1
        raise Wrong(f"meta page {page}, last page", last_page, f"1..{pages} in {file_bytes} bytes")
    return meta


def _check_roots(meta: tuple[int, ...], page: int) -> None:
    last_page = meta[_LAST_PAGE]
    for field in _ROOTS:
        root = meta[field]
        taken = root == _NO_ROOT or 2 <= root <= last_page
        if not taken:
            expect(f"meta page {page}: a root", root, taken, f"a page up to {last_page}")
