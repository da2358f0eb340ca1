"""Owns what many names are: strings, or bytes, in two arrays; the core's numbers stand for them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fpstore import _names
from fpstore.arrays import as_plain
from fpstore.fingerprints import as_fingerprints
from fpstore.origin import Origin
from fpstore.types import Array, Bytes, Counts, Keys


class Names(NamedTuple):
    """Name i is the bytes data[ends[i - 1] or 0 : ends[i]]: data uint8[bytes], ends int64[n]."""

    data: Bytes
    ends: Counts

    @property
    def size(self) -> int:
        """How many."""
        return len(self.ends)

    def part(self, start: int, end: int) -> "Names":
        """Names [start, end), without a copy of their bytes."""
        first = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:end]
        return Names(self.data[first : int(ends[-1]) if len(ends) else first], ends - first if first else ends)

    def take(self, order: Array) -> "Names":
        """Those of these indexes, in their order."""
        return Names(*_names.take(self.data, self.ends, np.asarray(order, dtype=np.int64)))

    def sizes(self) -> Counts:
        """How many bytes each has: int64[n]."""
        return np.diff(self.ends, prepend=0)

    def upto(self, start: int, most: int, each: int) -> int:
        """The end of those from start on that have `most` bytes together, with so many for each; one at least."""
        first = int(self.ends[start - 1]) if start else 0
        sizes = self.ends[start : start + max(1, most // each + 1)] - first
        sizes += each * np.arange(1, len(sizes) + 1)
        return min(self.size, start + 1 + int(sizes.searchsorted(most, side="left")))

    def at(self, index: int) -> bytes:
        """One of them."""
        return self.part(index, index + 1).data.tobytes()

    def ranks(self) -> Counts:
        """The place of each among them in order, equal ones having one: int64[n]."""
        order = _names.sort_order(self.data, self.ends)
        fresh = _names.is_fresh(*self.take(order), None)
        ranks: Counts = np.empty(self.size, dtype=np.int64)
        ranks[order] = np.cumsum(fresh) - 1
        return ranks


NO_NAMES = Names(np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))


class Named(NamedTuple):
    """Names and the handle of each, uint64[n]."""

    names: Names
    handles: Keys


def joined(parts: Sequence[Names]) -> Names:
    """Several one after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_NAMES
    starts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    data = np.concatenate([part.data for part in parts])
    return Names(data, np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)]))


def as_names(values: object, text: bool, what: str) -> Names:
    """What a caller gives as ids that are strings, or bytes: a list, an array of numpy, anything that speaks Arrow.

    TypeError for anything else, ValueError for what no store takes: a null, half of a surrogate pair, more than
    64 KiB. `what` names the values in the error.
    """
    if isinstance(values, str | bytes | bytearray | memoryview):
        raise TypeError(f"{what}: found one {type(values).__name__}, expected several of them")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"{what}: found {values.ndim} dimensions, expected 1")
    plain = as_plain(values, what)
    return Names(*_names.of_values(plain, text, what))


def as_named_rows(
    fingerprints: object, ids: object, text: bool, path: Path, origin: Origin | None = None, bits: int = 64
) -> tuple[Keys, Names]:
    """What a caller gives to a store with names at path: uint64[n], and as many names. ValueError."""
    keys = as_fingerprints(fingerprints, "fingerprints", origin, bits)
    if ids is None:
        raise ValueError(f"{path}: the store has ids, expected one for each fingerprint")
    names = as_names(ids, text, "ids")
    expect_each(names, keys)
    return keys, names


def expect_each(names: Names, keys: Keys) -> None:
    """ValueError unless there is a name for each key."""
    if names.size != len(keys):
        raise ValueError(f"{names.size} ids for {len(keys)} fingerprints: expected one for each")


def to_column(names: Names, text: bool) -> Array:
    """As a column of an answer: of numpy's StringDType, or of objects that are bytes."""
    values = _names.to_values(names.data, names.ends, text)
    if text:
        return np.array(values, dtype=np.dtypes.StringDType())
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def gathered(parts: Iterable[Named]) -> Named:
    """Several one after the other."""
    every = list(parts)
    handles: Any = [np.empty(0, dtype=np.uint64), *(part.handles for part in every)]
    return Named(joined([part.names for part in every]), np.concatenate(handles))
