"""Owns texts, and other values of any length, that are held packed: the bytes of all of them, and where each ends.

A hundred thousand short texts so are two objects, which C reads without the interpreter. Each becomes one of Python's
own where somebody looks at it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from fpstore.text._packed import gather, has_halves, lines

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_Value = TypeVar("_Value")


class Scratch:
    """Memory that is taken again and again, as what is new has to be cleared first, page by page."""

    def __init__(self) -> None:
        self._bytes: Bytes = np.empty(0, dtype=np.uint8)

    def of(self, size: int) -> Bytes:
        """So many bytes of it."""
        if size > len(self._bytes):
            self._bytes = np.empty(size + size // 2, dtype=np.uint8)
        return self._bytes[:size]


class Packed(Sequence[_Value]):
    """Values as one array of bytes: value i is data[offsets[i] : offsets[i + 1]]. What a value is, a kind of it says.

    data: uint8[bytes]; offsets: int64[n + 1], increasing.
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: Bytes, offsets: Offsets) -> None:
        self.data, self.offsets = data, offsets

    @abstractmethod
    def value_of(self, data: bytes) -> _Value:
        """What bytes stand for."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> Packed[_Value]: ...
    def __getitem__(self, index: int | slice) -> _Value | Packed[_Value]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return self.part(self.offsets[start : max(start, stop) + 1])
        if not -len(self) <= index < len(self):
            raise IndexError(f"found index {index}, expected one of {len(self)} values")
        index += len(self) if index < 0 else 0
        return self.value_of(self.data[self.offsets[index] : self.offsets[index + 1]].tobytes())

    def __iter__(self) -> Iterator[_Value]:
        ends = self.offsets.tolist()
        data = self.data[ends[0] : ends[-1]].tobytes()
        start = first = ends[0]
        for end in ends[1:]:
            yield self.value_of(data[start - first : end - first])
            start = end

    @property
    def sizes(self) -> Offsets:
        """How many bytes each value has: int64[n]."""
        return self.offsets[1:] - self.offsets[:-1]

    def together(self, indexes: npt.NDArray[Any] | None = None, place: Bytes | None = None) -> Bytes:
        """The bytes of the values with these indexes, of all without, one after the other; place: as of gather."""
        if indexes is None:
            return self.data[self.offsets[0] : self.offsets[-1]]
        return gather(self.data, self.offsets, np.ascontiguousarray(indexes, dtype=np.int64), place)

    def take(self, indexes: npt.NDArray[Any], scratch: Scratch | None = None) -> Self:
        """The values with these indexes. scratch: where they are, until others are put there."""
        offsets = offsets_of(self.sizes[indexes])
        return self._like(self.together(indexes, None if scratch is None else scratch.of(int(offsets[-1]))), offsets)

    def part(self, offsets: Offsets) -> Packed[_Value]:
        """Some of the values, which follow one another: offsets of these."""
        return self._like(self.data, offsets)

    @classmethod
    def _like(cls, data: Bytes, offsets: Offsets) -> Self:
        return cls(data, offsets)

    @classmethod
    def pack(cls, values: Iterable[bytes]) -> Self:
        """Values that are given as bytes."""
        held = list(values)
        return cls._like(np.frombuffer(b"".join(held), dtype=np.uint8), offsets_of([len(value) for value in held]))

    @classmethod
    def join(cls, parts: Sequence[Packed[_Value]]) -> Packed[_Value]:
        """The values of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        sizes = [np.empty(0, dtype=np.int64), *(part.sizes for part in parts)]
        together = [np.empty(0, dtype=np.uint8), *(part.together() for part in parts)]
        return cls._like(np.concatenate(together), offsets_of(np.concatenate(sizes)))


class Texts(Packed[str]):
    """Texts, packed as UTF-8: each is one, without a half of a surrogate pair."""

    __slots__ = ()

    def value_of(self, data: bytes) -> str:
        """A text of UTF-8."""
        return data.decode()


class Encoded(Packed[bytes]):
    """Texts whose bytes need not be UTF-8."""

    __slots__ = ()

    def value_of(self, data: bytes) -> bytes:
        """The bytes."""
        return data


class Passed(Packed[str]):
    """Texts, packed as UTF-8, in which a half of a surrogate pair is as if it were a character."""

    __slots__ = ()

    def value_of(self, data: bytes) -> str:
        """A text."""
        return data.decode("utf-8", "surrogatepass")

    @property
    def has_halves(self) -> bool:
        """Whether there is a half of a surrogate pair in any."""
        return has_halves(self.together())


def packed(texts: Sequence[str]) -> Packed[Any]:
    """Texts, or names, packed: as UTF-8, in which a half of a surrogate pair is as if it were a character."""
    # A name can hold bytes that are no UTF-8, and a JSON text half of a surrogate pair.
    return texts if isinstance(texts, Packed) else Encoded.pack(text.encode("utf-8", "surrogatepass") for text in texts)


def taken(
    values: Sequence[_Value], indexes: npt.NDArray[Any] | Sequence[int], scratch: Scratch | None = None
) -> Sequence[_Value]:
    """Those of values, packed or a list, with these indexes. scratch: as of Packed.take."""
    if isinstance(values, Packed):
        return values.take(np.asarray(indexes, dtype=np.int64), scratch)
    return [values[index] for index in indexes]


def text_sizes(texts: Sequence[str]) -> Offsets:
    """How large each text is, packed or a list: int64[n], in bytes, or in characters."""
    return texts.sizes if isinstance(texts, Packed) else np.array([len(text) for text in texts], dtype=np.int64)


def heads(texts: Sequence[str], indexes: Sequence[int], characters: int) -> list[str]:
    """Of the texts with these indexes, packed or a list, so many characters at most."""
    if not isinstance(texts, Texts):
        return [texts[index][:characters] for index in indexes]
    found = []
    for index in indexes:
        start, end = int(texts.offsets[index]), int(texts.offsets[index + 1])
        data = texts.data[start : min(end, start + characters)].tobytes()
        if not data.isascii():  # a character has four bytes at most; the last of so many may be cut
            data = texts.data[start : min(end, start + 4 * characters)].tobytes()
        found.append(data.decode("utf-8", "ignore")[:characters])
    return found


def are_ascii(texts: Sequence[str], indexes: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which of the texts with these indexes, packed or a list, have no character but of ASCII: bool[n]."""
    if not isinstance(texts, Packed):
        return np.array([texts[index].isascii() for index in indexes], dtype=bool)
    own = texts.take(np.asarray(indexes, dtype=np.int64))
    others = np.searchsorted(np.flatnonzero(own.data >= 0x80), own.offsets)
    same: npt.NDArray[np.bool_] = others[1:] == others[:-1]
    return same


def offsets_of(sizes: Sequence[int] | npt.NDArray[Any]) -> Offsets:
    """Where values of these sizes begin that are packed, and where the last ends: int64[n + 1]."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def plain_lines(columns: Sequence[Packed[Any]]) -> Bytes | None:
    """Values as lines that are parted by tabs; None where one is more than printable ASCII, or has a backslash."""
    return lines([(column.data, column.offsets) for column in columns], plain=True)
