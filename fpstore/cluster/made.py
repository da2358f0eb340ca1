"""Owns what tasks hand over of documents, in files: what was measured of the texts, and what pages show.

Each has a mark of what it was made of, by which who reads the documents again knows that it is of these. docs/format.md
has the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from fpstore._codec import crc32c
from fpstore.cluster.parts import Maker, Sealed, write_footer
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.text._packed import digests
from fpstore.text.held import KeptHashes
from fpstore.text.packed import Encoded, Packed, Passed, offsets_of, packed
from fpstore.text.recipe import Measured
from fpstore.text.shared import NO_PAGE, Page, Pages, Shown
from fpstore.types import Array, Keys

MAGIC = b"fpmade02"
TEXTS, PAGES = "texts", "pages"
# The types of the columns: of texts the mark, the fingerprint or signature, and what else is measured; with hashes how
# many of its shingles, and these. Of pages the mark, what became of it, how many bytes the text has, and these.
_MEASURED = ("<u8", "<u8", "<u4", "|b1", "<u4", "<f8")
_HASHED = (*_MEASURED, "<i8", "<u8")
_SHOWN = ("<u8", "|u1", "<i8", "|u1")
_TYPES = {TEXTS: (_MEASURED, _HASHED), PAGES: (_SHOWN,)}
# Of signatures, in place of that of a fingerprint.
_SIGNED = ("<u4", "<u8")
_WORD = 8


@dataclass(frozen=True, slots=True)
class Made:
    """What was measured of documents. hashes: of their shingles, in 8 bytes each, where they were kept."""

    measured: Measured
    hashes: Packed[bytes] | None

    def __getitem__(self, which: slice) -> Made:
        hashes = None if self.hashes is None else self.hashes[which]
        return Made(Measured._make(column[which] for column in self.measured), hashes)

    def take(self, indexes: Array) -> Made:
        """Of the documents with these indexes."""
        hashes = None if self.hashes is None else self.hashes.take(indexes)
        return Made(Measured._make(column[indexes] for column in self.measured), hashes)

    @staticmethod
    def join(parts: Sequence[Made]) -> Made:
        """Of the documents of all parts, of which there is one at least."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.measured for part in parts), strict=True)
        held = [part.hashes for part in parts if part.hashes is not None]
        hashes = Encoded.join(held) if len(held) == len(parts) else None
        return Made(Measured(*map(np.concatenate, columns)), hashes)

    def kept(self, *, are_features: bool) -> KeptHashes | None:
        """The hashes as the recipe gave them, which are features where it signs."""
        if self.hashes is None:
            return None
        ends = (self.hashes.offsets[1:] - self.hashes.offsets[0]) // _WORD
        words = np.ascontiguousarray(self.hashes.together()).view(np.uint64)
        more = np.concatenate([words, np.zeros(1, dtype=np.uint64)])
        return KeptHashes.join([(more, ends.astype(np.uint64))], are_features=are_features)


def marks_of(values: Packed[Any], kinds: Packed[bytes] | None = None) -> Keys:
    """What tells values from others, and those of a kind from those of another: uint64[n]."""
    if kinds is None:
        kinds = _alike(b"", len(values))
    every = digests(kinds.data, kinds.offsets, values.data, values.offsets, 0)
    return every[:, :_WORD].copy().view("<u8")[:, 0]


def marks_of_pages(pages: Sequence[Page]) -> Keys:
    """The same of pages, by their markup and charset."""
    if isinstance(pages, Pages):
        return marks_of(pages, _alike(_kind_of("", None), len(pages)))
    markups = (markup.encode("utf-8", "surrogatepass") if isinstance(markup, str) else markup for markup, _ in pages)
    return marks_of(Encoded.pack(markups), Encoded.pack(_kind_of(*page) for page in pages))


def _kind_of(markup: str | bytes, charset: str | None) -> bytes:
    return b"%d %s" % (isinstance(markup, str), (charset or "").encode("utf-8", "surrogatepass"))


def _alike(value: bytes, count: int) -> Packed[bytes]:
    """So many times the same."""
    return Encoded(np.frombuffer(value * count, dtype=np.uint8), np.arange(count + 1, dtype=np.int64) * len(value))


class MadeWriter:
    """Writes a file of what one task makes, block by block."""

    def __init__(self, file: IO[bytes], maker: Maker) -> None:
        self._file, self._maker = file, maker
        self._blocks: list[Any] = []

    def texts(self, texts: Sequence[str], measured: Measured, kept: KeptHashes | None) -> None:
        """What was measured of texts."""
        columns: list[Array] = [marks_of(packed(texts)), *measured]
        if kept is not None:
            columns += [np.diff(kept.offsets), kept.hashes[: kept.offsets[-1]]]
        self._block(TEXTS, columns, _MEASURED if kept is None else _HASHED)

    def pages(self, pages: Sequence[Page], shown: Shown) -> None:
        """What pages show, or what is wrong with them."""
        columns = [marks_of_pages(pages), shown.flags, shown.texts.sizes, shown.texts.together()]
        self._block(PAGES, columns, _SHOWN)

    def _block(self, kind: str, columns: Sequence[Array], types: Sequence[str]) -> None:
        described, crc = [], 0
        for number, (column, given) in enumerate(zip(columns, types, strict=True)):
            own = column.dtype.newbyteorder("<").str if number == 1 and kind == TEXTS else given
            data = np.ascontiguousarray(column.astype(own, copy=False))
            self._file.write(_bytes_of(data))
            crc = crc32c(_bytes_of(data), crc)
            described.append([own, list(data.shape)])
        self._blocks.append([kind, crc, described])

    def end(self) -> int:
        """All is written; how many texts there are."""
        write_footer(self._file, {"job": self._maker.job, "task": self._maker.task, "blocks": self._blocks}, MAGIC)
        return sum(columns[0][1][0] for kind, _, columns in self._blocks if kind == TEXTS)


class MadePart(Sealed):
    """What one task has made; close it when it is done with."""

    def __init__(self, fd: int, path: Any, maker: Maker) -> None:
        """As Sealed; that of its maker is expected."""
        self._maker = maker
        super().__init__(fd, path, MAGIC)

    @classmethod
    def open(cls, folder: Folder, maker: Maker) -> MadePart:
        """That of its maker in the folder. FileNotFoundError, and what __init__ raises."""
        return cls(folder.open_file(maker.name), folder.path / maker.name, maker)

    @classmethod
    def is_whole(cls, folder: Folder, maker: Maker) -> bool:
        """Whether the one that is there is what was written. A power cut may leave another: nobody waited for the disk.

        FileNotFoundError where there is none.
        """
        try:
            with closing(cls.open(folder, maker)) as part:
                for _, crc, offset, columns in part._described:
                    part._read_sealed(offset, sum(_sizes(columns)), crc)
        except JobError:
            return False
        return True

    def blocks(self, kind: str) -> Iterator[list[Array]]:
        """The columns of each block of a kind."""
        for each, crc, offset, columns in self._described:
            if each == kind:
                yield self._columns(offset, crc, columns)

    def _columns(self, offset: int, crc: int, columns: Sequence[tuple[str, list[int]]]) -> list[Array]:
        found = [np.empty(shape, dtype=kind) for kind, shape in columns]
        self._read_sealed_into([_bytes_of(each) for each in found], offset, crc)
        if not (_are_pages(found) if len(found) == len(_SHOWN) else _are_texts(found)):
            raise self._damaged(f"a block at {offset}", "values that are none", "those of texts or pages")
        return found

    def _take(self, footer: Any, end: int) -> None:
        """Where each block begins, its kind, its checksum, and the type and shape of each of its columns."""
        found = footer["job"], footer["task"]
        if found != (self._maker.job, self._maker.task):
            told = "found what task {1!r:.20} of job {0!r:.40} made".format(*found)
            raise JobError(f"{told}; expected task {self._maker.task} of job {self._maker.job}", path=self._path)
        self._described: list[tuple[str, int, int, list[tuple[str, list[int]]]]] = []
        offset = 0
        for kind, crc, columns in footer["blocks"]:
            shapes = [(str(given), [int(each) for each in shape]) for given, shape in columns]
            if not _is_block(kind, shapes):
                raise ValueError(kind)
            self._described.append((kind, int(crc), offset, shapes))
            offset += sum(_sizes(shapes))
        if offset != end:
            raise self._damaged("the footer", f"blocks of {offset} bytes", end)


def _bytes_of(column: Array) -> memoryview:
    return column.reshape(-1).view(np.uint8).data


def _sizes(columns: Sequence[tuple[str, list[int]]]) -> list[int]:
    """How many bytes each column has."""
    return [np.dtype(kind).itemsize * prod(shape) for kind, shape in columns]


def _is_block(kind: str, columns: list[tuple[str, list[int]]]) -> bool:
    """Whether a block of a kind has such columns."""
    types, shapes = [given for given, _ in columns], [shape for _, shape in columns]
    is_signed = kind == TEXTS and len(types) > 1 and types[1] in _SIGNED
    if is_signed:
        types[1] = _MEASURED[1]
    if tuple(types) not in _TYPES[kind]:
        return False
    dimensions = [2 if number == 1 and is_signed and len(shape) == 2 else 1 for number, shape in enumerate(shapes)]
    if [len(shape) for shape in shapes] != dimensions or any(each < 0 for shape in shapes for each in shape):
        return False
    has_values = kind == PAGES or len(types) == len(_HASHED)  # in the last, as many as the sizes before say
    return len({shape[0] for shape in (shapes[:-1] if has_values else shapes)}) == 1


def _are_texts(columns: Sequence[Array]) -> bool:
    """Whether what columns of such types and shapes hold can be of texts."""
    flags = [column for column in columns if column.dtype.kind == "b"]
    if any(flag.view(np.uint8).max(initial=0) > 1 for flag in flags):
        return False
    return len(columns) == len(_MEASURED) or _fill(columns[-2], len(columns[-1]))


def _are_pages(columns: Sequence[Array]) -> bool:
    """The same of pages."""
    _, flags, sizes, data = columns
    if flags.max(initial=0) >= 2 * NO_PAGE or not _fill(sizes, len(data)):
        return False
    starts = offsets_of(sizes)[:-1]
    try:
        data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return bool((data[starts[starts < len(data)]] & 0xC0 != 0x80).all())  # where a character begins


def _fill(sizes: Array, count: int) -> bool:
    """Whether values of these sizes, one after the other, are so many items."""
    return bool(((sizes >= 0) & (sizes <= count)).all()) and sum(sizes.tolist()) == count


def made_of(columns: Sequence[Array], which: slice) -> Made:
    """Some texts of a block, without the marks."""
    measured = Measured(*columns[1 : 1 + len(Measured._fields)])
    if len(columns) == len(_MEASURED):
        return Made(measured, None)[which]
    counts, hashes = columns[-2:]
    return Made(measured, Encoded(hashes.view(np.uint8), offsets_of(counts * _WORD)))[which]


def shown_in(columns: Sequence[Array], which: slice) -> Shown:
    """Some pages of a block."""
    _, flags, sizes, data = columns
    return Shown(Passed(data, offsets_of(sizes))[which], flags[which])
