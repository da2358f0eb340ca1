"""A SignalTypeIndex of python-threatexchange for PDQ, whose hashes lie in a store on disk, and whose answers are exact.

What goes with a hash may be anything, as there: it is held in memory, the hashes are not.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

import fpstore
from fpstore import Store
from fpstore.adapters.scratch import end_with, placed
from fpstore.arrays import as_integer
from fpstore.checks import shown
from fpstore.types import Keys

try:
    from threatexchange.signal_type.index import (
        IndexMatchUntyped,
        SignalSimilarityInfoWithIntDistance,
        SignalTypeIndex,
    )
except ModuleNotFoundError as error:
    needed = "fpstore.adapters.threatexchange needs threatexchange: pip install 'fpstore[images]'"
    raise ImportError(needed) from error

__all__ = ["MATCH_THRESHOLD", "PDQIndex"]

T = TypeVar("T")

BITS, WORDS, DIGITS = 256, 4, 64
# In how many bits hashes differ at most that match, by the measure of those who made PDQ.
MATCH_THRESHOLD = 31
# No store of hashes of so many bits is made for more.
MOST_THRESHOLD = 64


class PDQIndex(SignalTypeIndex[T]):  # type: ignore[misc]
    """PDQ hashes, 64 hexadecimal digits each, with an entry for each: all within the threshold are found.

    Where the first of them are added a store is built in a folder of its own, which goes with the object, or by
    dispose(). serialize writes a pickle of the hashes and the entries, of which deserialize builds the store again;
    as all that is pickled, it runs what its writer chose when it is read.
    """

    def __init__(self, entries: Iterable[tuple[str, T]] = (), *, threshold: int = MATCH_THRESHOLD) -> None:
        """ValueError for a threshold that no store has."""
        super().__init__()
        self._begin(threshold)
        self.add_all(entries)

    def _begin(self, threshold: int) -> None:
        number = as_integer(threshold)
        if number is None or not 0 <= number <= MOST_THRESHOLD:
            raise ValueError(f"threshold: found {shown(threshold)}, expected an integer from 0 to {MOST_THRESHOLD}")
        self.threshold = number
        self._entries: list[T] = []
        self._store: Store | None = None
        self._folder: str | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def query(self, query: str) -> list[Any]:
        """What matches a hash, each an IndexMatch with its distance: the nearest first. ValueError for no PDQ hash."""
        code = _codes([query])[0]
        if self._store is None:
            return []
        found = self._store.probe(code)
        assert found.id is not None
        return [
            IndexMatchUntyped(SignalSimilarityInfoWithIntDistance(distance), self._entries[number])
            for distance, number in zip(found.distance.tolist(), found.id.tolist(), strict=True)
        ]

    def add(self, signal_str: str, entry: T) -> None:
        """Add a hash with its entry, also where it is there with that entry or another; add_all is far faster."""
        self.add_all([(signal_str, entry)])

    def add_all(self, entries: Iterable[tuple[str, T]]) -> None:
        """Add hashes, each with its entry: all of them, or none where one is no PDQ hash, which is a ValueError."""
        given = [*entries]
        self._add(_codes([hash for hash, _ in given]), [entry for _, entry in given])

    def _add(self, codes: Keys, entries: list[T]) -> None:
        if not len(codes):
            return
        ids = np.arange(len(self), len(self) + len(codes), dtype=np.uint64)
        if self._store is None:
            with placed(None) as (path, self._folder):
                self._hold(fpstore.build(path, codes, ids=ids, bits=BITS, max_distance=self.threshold))
        else:
            self._writer().add(codes, ids=ids)
        self._entries += entries

    def _writer(self) -> Store:
        assert self._store is not None
        if self._store.mode != "w":
            reader = self._store
            writer = fpstore.open(reader.path, "w", durability="batch")  # nobody opens this store again
            self._end.detach()
            self._hold(writer)
            reader.close()
        return self._store

    def _hold(self, store: Store) -> None:
        self._store = store
        self._end = end_with(self, store, self._folder)

    def dispose(self) -> None:
        """Remove the store; the index is empty then."""
        if self._store is not None:
            self._end()
        self._begin(self.threshold)

    def __getstate__(self) -> dict[str, Any]:
        codes = np.empty((len(self), WORDS), dtype=np.uint64)
        for rows in () if self._store is None else self._store.rows():
            codes[rows.id] = rows.fingerprint
        return {"threshold": self.threshold, "hashes": codes.astype(">u8").tobytes(), "entries": self._entries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin(state["threshold"])
        self._add(np.frombuffer(state["hashes"], dtype=">u8").astype(np.uint64).reshape(-1, WORDS), state["entries"])


def _codes(hashes: list[str]) -> Keys:
    """Hashes as codes, uint64[n, 4]. ValueError for what is no PDQ hash."""
    for hash in hashes:
        if not isinstance(hash, str) or len(hash) != DIGITS:
            raise ValueError(f"hash: found {shown(hash)}, expected {DIGITS} hexadecimal digits")
    try:
        data = bytes.fromhex("".join(hashes))
    except ValueError:
        data = b""
    if len(data) != len(hashes) * BITS // 8:  # fromhex passes over spaces
        wrong = next(hash for hash in hashes if not set(hash) <= set("0123456789abcdefABCDEF"))
        raise ValueError(f"hash: found {shown(wrong)}, expected {DIGITS} hexadecimal digits")
    return np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, WORDS)
