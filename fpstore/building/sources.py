"""What a caller gives as fingerprints and ids, as one stream of arrays that is read once, in order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from fpstore.arrays import as_keys
from fpstore.fingerprints import as_fingerprints
from fpstore.format import KEY_BITS
from fpstore.origin import Origin
from fpstore.types import Ids, Keys

Source = Iterable[tuple[Keys, Ids | None]]

CHUNK_KEYS = 1 << 20


def array_source(fingerprints: object, ids: object, origin: Origin | None = None, bits: int = KEY_BITS) -> Source:
    """Arrays as a stream. ids: uint64[n], "row" or None. ValueError where lengths differ.

    origin, bits: of as_fingerprints.
    """
    keys = as_fingerprints(fingerprints, "fingerprints", origin, bits)
    if ids is not None and not isinstance(ids, str):
        ids = as_keys(ids, "ids")
        if len(ids) != len(keys):
            raise ValueError(f"{len(ids)} ids for {len(keys)} fingerprints: expected one for each")
    return ArraySource(keys, ids)


@dataclass(frozen=True)
class ArraySource:
    """Arrays as a stream of slices. keys: uint64[n]; ids: uint64[n], "row" or None."""

    keys: Keys
    ids: Ids | str | None

    def __iter__(self) -> Iterator[tuple[Keys, Ids | None]]:
        for first in range(0, len(self.keys), CHUNK_KEYS):
            chunk = self.keys[first : first + CHUNK_KEYS]
            if isinstance(self.ids, str):
                yield chunk, np.arange(first, first + len(chunk), dtype=np.uint64)
            else:
                yield chunk, self.ids if self.ids is None else self.ids[first : first + CHUNK_KEYS]


def source_of(fingerprints: object, ids: object, origin: Origin | None = None, bits: int = KEY_BITS) -> Source:
    """What build is given, as a source. ValueError or TypeError where the two do not go together.

    origin, bits: as of as_fingerprints.
    """
    if isinstance(fingerprints, Iterator):
        if ids is not None and not isinstance(ids, str):
            raise TypeError(f'ids of a stream: found a {type(ids).__name__}, expected "row" or None, or pairs in it')
        if ids not in ("row", None):
            raise ValueError(f'ids of a stream: found {ids!r:.40}, expected "row" or None, or pairs in it')
        return _stream(fingerprints, ids, origin, bits)
    if isinstance(ids, str) and ids != "row":
        raise ValueError(f'ids: found {ids!r}, expected an array, "row" or None')
    return array_source(fingerprints, ids, origin, bits)


def _stream(items: Iterable[object], ids: str | None, origin: Origin | None, bits: int) -> Source:
    """A caller's stream as (fingerprints, ids) arrays."""
    row, paired = 0, None
    for item in items:
        if paired is None:
            paired = isinstance(item, tuple)
        if paired:
            if not isinstance(item, tuple) or len(item) != 2 or item[1] is None or isinstance(item[1], str):
                raise TypeError(f"the stream yields {item!r:.60}, expected pairs of arrays: (fingerprints, ids)")
            if ids is None:
                raise TypeError("the stream yields pairs of fingerprints and ids, expected no ids: those of ids=None")
            yield from array_source(*item, origin, bits)
            continue
        if isinstance(item, tuple):
            raise TypeError(f"the stream yields {item!r:.60} after arrays, expected arrays of fingerprints")
        keys = as_fingerprints(item, "fingerprints", origin, bits)
        yield keys, np.arange(row, row + len(keys), dtype=np.uint64) if ids == "row" else None
        row += len(keys)
