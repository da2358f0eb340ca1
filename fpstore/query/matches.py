"""The answer of a probe: columns, and records when it is walked."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fpstore.errors import TooManyMatches
from fpstore.query.tables import Table, read_only, sealed
from fpstore.types import Array, Counts, Distances

# Rows of one answer of probe_many, of 26 bytes each; while they are put in order it takes a few times as much.
MAX_MATCHES = 1 << 26


class Room:
    """How many rows more the answer to some queries may have, whichever of several threads finds them.

    held: how many rows are looked at together, where an answer has a part of these.
    """

    def __init__(self, queries: int, most: int = MAX_MATCHES, held: int = MAX_MATCHES) -> None:
        self.held = held
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


class Matches(Table[Match]):
    """Matches as columns, ordered by (query, distance, fingerprint, id): one row for each id of a fingerprint.

    A fingerprint whose ids are all gone has no rows in a store with ids. method: "probe", each query looked up,
    "scan", each stored key compared with all queries, or "stream", each table read past the sorted queries: whichever
    costs least, in the largest of several segments.
    """

    __slots__ = ()

    NAMES = ("query", "fingerprint", "distance", "id")
    FINGERPRINTS = ("fingerprint",)

    _columns: tuple[Counts, Array, Distances, Array | None]

    def __init__(
        self, query: Counts, fingerprint: Array, distance: Distances, id: Array | None, method: str = "probe"
    ) -> None:
        self._columns = read_only(query, fingerprint, distance, id)
        self._method = method

    @property
    def method(self) -> str:
        """How it was found."""
        return self._method

    @method.setter
    def method(self, method: str) -> None:
        self._method = method

    @property
    def query(self) -> Counts:
        """int64[m]: the index of the query."""
        return self._columns[0]

    @property
    def fingerprint(self) -> Array:
        """uint64[m]: what is stored."""
        return self._columns[1]

    @property
    def distance(self) -> Distances:
        """uint16[m]: in how many bits the two differ."""
        return self._columns[2]

    @property
    def id(self) -> Array | None:
        """uint64[m]; None in a store without ids."""
        return self._columns[3]

    def _records(self, columns: Sequence[Any]) -> Iterator[Match]:
        return map(Match._make, zip(*columns, strict=False))

    def _rest(self, rows: slice) -> tuple[str]:
        return (self.method,)

    def _told(self) -> str:
        return f"{len(self)} rows, {np.count_nonzero(np.diff(self.query, prepend=-1))} queries with a match"


def made(query: Counts, fingerprint: Array, distance: Distances, id: Array | None, method: str = "probe") -> Matches:
    """Matches of arrays that were made for them, which nobody can write to any more: a probe has no time for views."""
    matches = Matches.__new__(Matches)
    matches._columns = sealed(query, fingerprint, distance, id)
    matches._method = method
    return matches


def concatenate(parts: list[Matches], with_ids: bool) -> Matches:
    """Batches of queries one after the other as one; with_ids: of a store with ids."""
    if not parts:
        none = np.empty(0, dtype=np.uint64)
        return made(np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.uint16), none if with_ids else None)
    ids = [part.id for part in parts if part.id is not None]
    return made(
        np.concatenate([part.query for part in parts]),
        np.concatenate([part.fingerprint for part in parts]),
        np.concatenate([part.distance for part in parts]),
        np.concatenate(ids) if with_ids else None,
        next((part.method for part in parts if part.method != "probe"), "probe"),
    )
