"""The answer of a probe: columns, and records when it is walked."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fpstore.errors import TooManyMatches
from fpstore.types import Array, Counts, Ids, Keys

# Rows of one answer of probe_many, of 25 bytes each; while they are put in order it takes a few times as much.
MAX_MATCHES = 1 << 26


class Room:
    """How many rows more the answer to some queries may have, whichever of several threads finds them."""

    def __init__(self, queries: int, most: int = MAX_MATCHES) -> None:
        self._queries = queries
        self._most = most
        self._taken = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many more; 1 where there are none, as 0 stands for any number where it is handed on."""
        return max(1, self._most - self._taken)

    def take(self, rows: int) -> None:
        """There will be so many more. TooManyMatches, before they are made, where that is too many."""
        with self._lock:
            self._taken += rows
        if self._taken > self._most:
            raise TooManyMatches.found(self._queries, self._taken, self._most)


class Match(NamedTuple):
    """One stored fingerprint (and one of its ids) within the distance asked for."""

    query: int
    fingerprint: int
    distance: int
    id: int | None


@dataclass(frozen=True, eq=False)
class Matches:
    """Matches as columns, ordered by (query, distance, fingerprint, id).

    query int64[m]: index of the query. fingerprint uint64[m]. distance uint8[m]. id uint64[m], one row for each id of a
    fingerprint; None in a store without ids. A fingerprint whose ids are all gone has no rows in a store with ids.
    method: "probe", each query looked up, or "stream", all stored keys read past the queries; whichever costs less.
    """

    query: Counts
    fingerprint: Keys
    distance: Array
    id: Ids | None
    method: str = "probe"

    def __len__(self) -> int:
        return len(self.fingerprint)

    def __iter__(self) -> Iterator[Match]:
        ids = self.id.tolist() if self.id is not None else [None] * len(self)
        columns = (self.query.tolist(), self.fingerprint.tolist(), self.distance.tolist(), ids)
        return (Match(*row) for row in zip(*columns, strict=True))

    def __repr__(self) -> str:
        return f"<Matches: {len(self)} rows, {np.count_nonzero(np.diff(self.query, prepend=-1))} queries with a match>"

    def to_arrow(self) -> Any:
        """A pyarrow.Table of the columns. Needs the extra fpstore[arrow]."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install 'fpstore[arrow]'") from error
        columns = {"query": self.query, "fingerprint": self.fingerprint, "distance": self.distance}
        if self.id is not None:
            columns["id"] = self.id
        return pyarrow.table(columns)


def concatenate(parts: list[Matches], with_ids: bool) -> Matches:
    """Batches of queries one after the other as one; with_ids: of a store with ids."""
    if not parts:
        none = np.empty(0, dtype=np.uint64)
        return Matches(np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.uint8), none if with_ids else None)
    ids = [part.id for part in parts if part.id is not None]
    return Matches(
        np.concatenate([part.query for part in parts]),
        np.concatenate([part.fingerprint for part in parts]),
        np.concatenate([part.distance for part in parts]),
        np.concatenate(ids) if with_ids else None,
    )
