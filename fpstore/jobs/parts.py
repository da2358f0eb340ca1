"""Owns documents that follow each other in an input, as columns: packed where they come so, as lists of Python else.

With them go digests, by which a job that goes on knows that they are those of before. Whether documents come packed
makes no other digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.cluster.made import Made
from fpstore.inputs import Layout, Row
from fpstore.inputs.blocks import Columns, Document
from fpstore.text._packed import digests as packed_digests
from fpstore.text.packed import Packed, Texts, taken
from fpstore.types import Array, Counts

DIGEST_BYTES = 16
# Documents that come one by one are taken together up to so many, and so many characters.
_AT_ONCE, _CHARACTERS_AT_ONCE = 1024, 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """Documents: the name, the text and the row of each.

    sizes: of the texts in bytes, int64[n]; digests: of the documents, uint8[n, DIGEST_BYTES]. made: what others have
    measured of them, where others do.
    """

    names: Sequence[str]
    texts: Sequence[str]
    rows: Sequence[Row]
    sizes: npt.NDArray[np.int64]
    digests: Array
    made: Made | None = None

    @property
    def is_packed(self) -> bool:
        """Whether it came so, as lines of JSON do."""
        return isinstance(self.rows, Packed)

    @property
    def text_bytes(self) -> int:
        """Of all its texts."""
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, which: slice) -> Part:
        made = None if self.made is None else self.made[which]
        own = self.names[which], self.texts[which], self.rows[which], self.sizes[which], self.digests[which]
        return Part(*own, made)

    def take(self, indexes: Sequence[int] | Counts) -> Part:
        """The documents with these indexes, increasing."""
        which = np.asarray(indexes, dtype=np.int64)
        names, texts, rows = taken(self.names, indexes), taken(self.texts, indexes), taken(self.rows, indexes)
        made = None if self.made is None else self.made.take(which)
        return Part(names, texts, rows, self.sizes[which], self.digests[which], made)

    def fitting(self, documents: int, text_bytes: int) -> int:
        """How many, from the first on, make so many documents, or so many bytes of text; all where there are fewer."""
        return min(documents, len(self), int(np.searchsorted(np.cumsum(self.sizes), text_bytes)) + 1)

    @staticmethod
    def join(parts: Sequence[Part]) -> Part:
        """The documents of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        names, texts, rows = (
            _joined([getattr(part, column) for part in parts]) for column in ("names", "texts", "rows")
        )
        sizes = np.concatenate([np.empty(0, dtype=np.int64), *(part.sizes for part in parts)])
        digests = np.concatenate([np.empty((0, DIGEST_BYTES), dtype=np.uint8), *(part.digests for part in parts)])
        made = [part.made for part in parts if part.made is not None]
        return Part(names, texts, rows, sizes, digests, Made.join(made) if made and len(made) == len(parts) else None)


def _joined(columns: list[Sequence[Any]]) -> Sequence[Any]:
    if columns and all(isinstance(column, Packed) for column in columns):
        kind: type[Packed[Any]] = type(columns[0])  # type: ignore[assignment]
        return kind.join(columns)  # type: ignore[arg-type]
    return [each for column in columns for each in column]


class Digest:
    """Tells the documents of a source, with all their columns, from other ones."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def add(self, part: Part) -> None:
        """More of them."""
        self._digest.update(part.digests.tobytes())

    def told(self) -> str:
        """That of all so far."""
        return self._digest.hexdigest()


def parts_of(every: Iterator[Columns | Document]) -> Iterator[Part]:
    """Documents as parts. What every raises is raised when all before it were given."""
    read = _Reading()
    held: list[Document] = []
    characters = 0
    failure: Exception | None = None
    while failure is None:
        try:
            one = next(every, None)
        except Exception as error:
            one, failure = None, error
        if isinstance(one, tuple):
            held.append(one)
            characters += len(one[1])
            if len(held) < _AT_ONCE and characters < _CHARACTERS_AT_ONCE:
                continue
        if held:
            yield read.part_of(held)
            held, characters = [], 0
        if isinstance(one, Columns):
            yield read.packed_part(one)
        elif one is None:
            break
    if failure is not None:
        raise failure


class _Reading:
    """Makes parts. It has what the digests of rows have in common."""

    def __init__(self) -> None:
        # Of the batch of Arrow that the last document was in.
        self._arrow: Any = None
        self._values: list[Any] = []
        # Of the layout of the last.
        self._layout: Layout | None = None
        self._seed = 0

    def packed_part(self, columns: Columns) -> Part:
        """That of documents that come packed."""
        names, rows = columns.names, columns.rows
        seed = self._seed_of(rows[0].layout)
        digests = packed_digests(names.data, names.offsets, rows.data, rows.offsets, seed)
        return Part(names, columns.texts, rows, columns.texts.sizes, digests)

    def part_of(self, documents: Sequence[Document]) -> Part:
        """That of documents that came one by one."""
        digests = []
        for _, group in groupby(documents, key=lambda document: id(document[2].layout)):
            held = list(group)
            called = Texts.pack(_encoded(name) for name, _, _ in held)
            contents = Texts.pack(self._content_of(text, row.data) for _, text, row in held)
            seed = self._seed_of(held[0][2].layout)
            digests.append(packed_digests(called.data, called.offsets, contents.data, contents.offsets, seed))
        names, texts, rows = (list(column) for column in zip(*documents, strict=True))
        sizes = [len(text) if text.isascii() else len(_encoded(text)) for text in texts]
        return Part(names, texts, rows, np.array(sizes, dtype=np.int64), np.concatenate(digests))

    def _content_of(self, text: str, data: Any) -> Any:
        if not isinstance(data, tuple):
            return _encoded(text) if data is None else data
        if data[0] is not self._arrow:
            # By column: an object of a row would have one of two columns of one name.
            self._arrow = data[0]
            self._values = list(zip(*(column.to_pylist() for column in self._arrow.columns), strict=True))
        return _encoded(repr(self._values[data[1]]))

    def _seed_of(self, layout: Layout) -> int:
        """Of what the same cells mean something else without: format, names, types, and the header as it stands."""
        if layout is not self._layout:
            schema = layout.schema
            types = "" if schema is None else schema.to_string(show_field_metadata=False, show_schema_metadata=False)
            told = _encoded(repr((layout.format, layout.columns, layout.header, types)))
            self._layout = layout
            self._seed = int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")
        return self._seed


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
