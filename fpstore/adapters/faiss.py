"""FAISS's files of binary codes, read into a store: IndexBinaryFlat, also with a map of ids or under a MultiHash.

FAISS need not be installed. The files are a stranger's: every length in them is compared with the bytes that are there
before anything is read or allocated, and codes are read some at a time.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

import fpstore
from fpstore import BadInput, Store
from fpstore.checks import shown
from fpstore.errors import PathLike
from fpstore.types import Ids, Keys

__all__ = ["CodesFile", "build", "read"]

FLAT, MULTI_HASH = b"IBxF", b"IBHm"
MAPS = (b"IBMp", b"IBM2")
HEADER = struct.Struct("<iiq?i")  # bits, bytes of a code, codes, whether it is trained, the metric
LENGTH = struct.Struct("<Q")
HASH_TABLES = struct.Struct("<iii")  # bits of a key, tables, flips
HASH_TABLE = struct.Struct("<iQ")  # bits of an id, keys
ID_BYTES = 8
WORD_BYTES = 8
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class CodesFile:
    """Where the codes of a file lie. bits: of each; count: how many; has_ids: whether the file maps them to ids."""

    path: Path
    bits: int
    count: int
    codes_offset: int
    ids_offset: int | None

    @property
    def has_ids(self) -> bool:
        """Whether each code has an id of its own; else it is known by its row."""
        return self.ids_offset is not None

    def pieces(self) -> Iterator[tuple[Keys, Ids]]:
        """The codes in their order, some at a time, with their ids, or rows where there are none.

        Codes: uint64[n], or uint64[n, words] above 64 bits, the first byte of a code the highest. FAISS's ids are
        int64; these are uint64 with the same bits. BadInput where the file has got shorter meanwhile.
        """
        width = self.bits // 8
        most = max(1, PIECE_BYTES // width)
        with open(self.path, "rb") as file:
            for first in range(0, self.count, most):
                count = min(most, self.count - first)
                codes = self._read(file, self.codes_offset + first * width, count * width)
                if self.ids_offset is None:
                    ids = np.arange(first, first + count, dtype=np.uint64)
                else:
                    stored = self._read(file, self.ids_offset + first * ID_BYTES, count * ID_BYTES)
                    ids = np.frombuffer(stored, dtype="<u8").astype(np.uint64)
                yield _words(codes, count, width), ids

    def _read(self, file: BinaryIO, offset: int, size: int) -> bytes:
        file.seek(offset)
        found = file.read(size)
        if len(found) < size:
            raise _bad(self.path, f"byte {offset}", f"{len(found)} bytes more", f"{size}, as when it was opened")
        return found


def read(path: PathLike) -> CodesFile:
    """Where the codes of the index in this file lie, which is checked as far as its lengths go.

    Takes IndexBinaryFlat, IndexBinaryIDMap and IndexBinaryIDMap2 over one, and IndexBinaryMultiHash, whose tables are
    passed over. Raises BadInput (found, expected) for any other file; the operating system's errors.
    """
    place = Path(path)
    with open(place, "rb") as file:
        walk = _Walk(place, file, os.fstat(file.fileno()).st_size)
        found = walk.index((FLAT, MULTI_HASH, *MAPS))
        walk.expect("the end", walk.size - walk.at, walk.at == walk.size, "no byte behind the index")
        return found


def build(path: PathLike, index: PathLike, *, ids: Literal["stored"] | None = "stored", **settings: Any) -> Store:
    """Build a store at path of the codes in FAISS's file `index`, and open it for reading.

    ids: "stored", those of the file, or the rows, by which FAISS knows codes that have none; None, a store without
    ids. settings: of fpstore.build, such as max_distance and plan; bits are those of the file. Memory is bounded.
    Raises BadInput as read does, and what fpstore.build raises, for widths that no store has too.
    """
    if ids not in ("stored", None):
        raise ValueError(f'ids: found {shown(ids)}, expected "stored" or None')
    codes = read(index)
    if ids is None:
        return fpstore.build(path, (own for own, _ in codes.pieces()), ids=None, bits=codes.bits, **settings)
    return fpstore.build(path, codes.pieces(), bits=codes.bits, **settings)


class _Walk:
    """A file, and how far it is understood."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.size, self.at = path, size, 0
        self._file = file

    def index(self, kinds: tuple[bytes, ...]) -> CodesFile:
        """The index that begins here, of one of these kinds; behind it afterwards."""
        kind = self._bytes("kind", 4)
        names = ", ".join(each.decode() for each in kinds)
        self.expect("kind", kind, kind in kinds, f"one of FAISS's {names}")
        bits, code_bytes, count, _, _ = self._record(HEADER, "header")
        self.expect("bits", bits, bits > 0 and bits % 8 == 0, "a multiple of 8 above 0")
        self.expect("bytes of a code", code_bytes, code_bytes == bits // 8, bits // 8)
        self.expect("codes", count, count >= 0, "0 or more")
        if kind == FLAT:
            offset = self._vector("bytes of codes", 1, count * code_bytes)
            return CodesFile(self.path, bits, count, offset, None)
        inner = self.index((FLAT,) if kind == MULTI_HASH else (FLAT, MULTI_HASH))
        same = (inner.bits, inner.count) == (bits, count)
        self.expect("bits and codes within", (inner.bits, inner.count), same, (bits, count))
        if kind == MULTI_HASH:
            self._pass_tables()
            return inner
        return CodesFile(self.path, bits, count, inner.codes_offset, self._vector("ids", ID_BYTES, count))

    def _pass_tables(self) -> None:
        _, tables, _ = self._record(HASH_TABLES, "hash tables")
        self.expect("hash tables", tables, tables >= 0, "0 or more")
        for _ in range(tables):  # each takes bytes, so a file has no more of them than it can hold
            self._record(HASH_TABLE, "hash table")
            self._vector("bytes of a hash table", 1, None)

    def _vector(self, what: str, item_bytes: int, expected: int | None) -> int:
        """Where the items of a vector lie, as many as expected; behind them afterwards."""
        (count,) = self._record(LENGTH, what)
        self.expect(what, count, expected in (None, count), expected)
        left = (self.size - self.at) // item_bytes
        self.expect(what, f"{count}, of which {left} are there", count <= left, "all of them")
        offset = self.at
        self.at += count * item_bytes
        return offset

    def _record(self, record: struct.Struct, what: str) -> tuple[Any, ...]:
        return record.unpack(self._bytes(what, record.size))

    def _bytes(self, what: str, size: int) -> bytes:
        self._file.seek(self.at)
        found = self._file.read(size)
        self.expect(what, f"{len(found)} bytes more", len(found) == size, size)
        self.at += size
        return found

    def expect(self, what: str, found: object, holds: bool, expected: object) -> None:
        """BadInput unless it holds."""
        if not holds:
            raise _bad(self.path, f"byte {self.at}, {what}", found, expected)


def _bad(path: Path, where: str, found: object, expected: object) -> BadInput:
    return BadInput(f"{path}: {where}: found {found}, expected {expected}", source=str(path))


def _words(codes: bytes, count: int, width: int) -> Keys:
    """Codes of so many bytes each as uint64[count], or uint64[count, words], the first byte the highest."""
    words = -(-width // WORD_BYTES)
    padded = np.zeros((count, words * WORD_BYTES), dtype=np.uint8)
    padded[:, words * WORD_BYTES - width :] = np.frombuffer(codes, dtype=np.uint8).reshape(count, width)
    found = padded.view(">u8").astype(np.uint64)
    return found[:, 0] if words == 1 else found
