"""From rows with names to rows with handles, for a build: names are sorted, each distinct one gets the next handle."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self

import numpy as np

from fpstore import _names
from fpstore.disk import Place
from fpstore.fingerprints import as_fingerprints
from fpstore.format import KEY_BITS
from fpstore.names.column import Named, Names, as_names, expect_each
from fpstore.names.merging import NameSorter
from fpstore.names.writer import NamesFile, NamesWriter
from fpstore.origin import Origin
from fpstore.types import Ids, Keys

Rows = Iterator[tuple[Keys, Names]]


class Held(Protocol):
    """Holds fingerprints for which numbers stand."""

    def put(self, keys: Keys) -> Keys:
        """Hold these too; their numbers, uint64[n]."""

    def take(self, numbers: Keys) -> Keys:
        """Those of these numbers."""


class NamedRows:
    """What a caller gives to build: fingerprints and names, arrays or a stream of pairs of them.

    Raises TypeError or ValueError for arrays that cannot be; a stream is read later.
    """

    def __init__(
        self, fingerprints: object, ids: object, text: bool, memory_bytes: int, origin: Origin, bits: int
    ) -> None:
        self._origin = origin
        self._bits = bits
        self._memory_bytes = memory_bytes
        self._text = text
        self.file: NamesFile | None = None
        self._rows: Rows
        if isinstance(fingerprints, Iterator):
            if not (ids is None or (isinstance(ids, str) and ids == "row")):
                raise TypeError(f"ids of a stream: found a {type(ids).__name__}, expected names in the stream")
            self._rows = self._stream(fingerprints)
        elif ids is None or (isinstance(ids, str) and ids == "row"):
            raise ValueError(f"ids: found {ids!r}, expected a name for each fingerprint")
        else:
            self._rows = iter([self._pair(fingerprints, ids)])

    @classmethod
    def of(cls, rows: Rows, text: bool, memory_bytes: int) -> Self:
        """Numbers and names of a stream that were looked at already."""
        named = cls(iter(()), None, text, memory_bytes, Origin(), KEY_BITS)
        named._rows = rows
        return named

    def with_handles(self, at: Place, held: Held | None = None) -> Iterator[tuple[Keys, Ids]]:
        """Rows by name, with handles, once; the file of names is there when they have been read.

        held: what holds fingerprints meanwhile that are no numbers.
        """
        sorter = NameSorter(at.folder.reach, self._memory_bytes)
        try:
            for keys, names in self._rows:
                sorter.add(names, keys if held is None else held.put(keys))
            with NamesWriter(at, at.folder.reach) as writer:
                last, count = None, 0
                for names, keys in sorter.chunks():
                    fresh = _names.is_fresh(*names, last)
                    handles = np.cumsum(fresh).astype(np.uint64) + np.uint64(count) - np.uint64(1)
                    writer.add(Named(names.take(np.flatnonzero(fresh)), handles[fresh]))
                    count += int(np.count_nonzero(fresh))
                    last = names.at(names.size - 1)
                    yield keys if held is None else held.take(keys), handles
                self.file = writer.finish()
        finally:
            sorter.close()

    def _stream(self, items: Iterable[Any]) -> Rows:
        for item in items:
            if not isinstance(item, tuple) or len(item) != 2:
                raise TypeError(f"the stream yields {item!r:.60}, expected pairs of arrays: (fingerprints, names)")
            yield self._pair(*item)

    def _pair(self, fingerprints: object, ids: object) -> tuple[Keys, Names]:
        keys = as_fingerprints(fingerprints, "fingerprints", self._origin, self._bits)
        names = as_names(ids, self._text, "ids")
        expect_each(names, keys)
        return keys, names
