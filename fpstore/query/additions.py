"""Test-and-add: which fingerprints of a batch are near none that came before, and what the others are near.

The one place that decides whether something is near an earlier one, and which of several is the nearest.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fpstore._turns import ASK as ASK
from fpstore._turns import NEW as NEW
from fpstore._turns import Earlier, Turns
from fpstore.fingerprints import columns_of
from fpstore.query.matches import Match, Matches
from fpstore.query.tables import Table, read_only
from fpstore.types import Array, Counts, Distances, Ids, Keys

# Of a key, given its index and the rows that it is near from the nearest on: one of these, or NEW.
Choose = Callable[[int, Sequence[int]], int]


class Addition(NamedTuple):
    """What became of a fingerprint: whether it was stored, and, where it was not, its nearest match."""

    stored: bool
    match: Match | None


class Additions(Table[Addition]):
    """What became of each fingerprint of a batch, as columns; of those that were stored the others hold 0, or a null.

    Of several matches at one distance, the one with the least fingerprint, then id. places: the index of each in the
    batch, which is the query of its match.
    """

    __slots__ = ("_places",)

    NAMES = ("stored", "match_fingerprint", "match_distance", "match_id")
    FINGERPRINTS = ("match_fingerprint",)

    _columns: tuple[Array, Array, Distances, Array | None]

    def __init__(
        self,
        stored: Array,
        match_fingerprint: Array,
        match_distance: Distances,
        match_id: Array | None,
        places: range | None = None,
    ) -> None:
        self._columns = read_only(stored, match_fingerprint, match_distance, match_id)
        self._places = range(len(stored)) if places is None else places

    @property
    def stored(self) -> Array:
        """bool[n]: whether it was near none that came before."""
        return self._columns[0]

    @property
    def match_fingerprint(self) -> Array:
        """uint64[n]: of the nearest match, 0 where it was stored."""
        return self._columns[1]

    @property
    def match_distance(self) -> Distances:
        """uint16[n]: to it."""
        return self._columns[2]

    @property
    def match_id(self) -> Array | None:
        """uint64[n]: of its ids, the least; None in a store without ids."""
        return self._columns[3]

    def _records(self, columns: Sequence[Any]) -> Iterator[Addition]:
        for place, (stored, *match) in zip(self._places, zip(*columns, strict=False), strict=True):
            yield Addition(stored, None if stored else Match(place, *match))

    def _rest(self, rows: slice) -> tuple[range]:
        return (self._places[rows],)

    def _nulls(self, name: str) -> Array | None:
        return None if name == "stored" else self.stored

    def _told(self) -> str:
        return f"{np.count_nonzero(self.stored)} of {len(self)} stored"


def in_turn(
    keys: Keys,
    distance: int,
    query: Counts,
    bits: Distances,
    ties: Sequence[Array],
    choose: Choose | None = None,
    documents: Keys | Earlier | None = None,
) -> tuple[Counts, Distances]:
    """What each key of a piece is near that came earlier: before the piece, or in it, and was near nothing itself.

    The keys are taken in turn, so the answers are the same for pieces of any size. query, bits: of the matches of keys
    among what came before the piece, in the order of query, bits, ties. ties: columns over these matches,
    and then over keys, by which of several at one distance one is nearer: the one with the lesser value in the first,
    else in the next, else the earlier. choose: asked in turn, for each key that is near some of these rows, to which it
    goes, given them from the nearest on, or NEW. By default to the nearest. documents: the keys, if it is known which
    are near others.
    Returns the row of each key, int64[n], and the distance to it, uint16[n], 0 for NEW. Takes time that grows with the
    square of the number of keys.
    """
    turns = Turns(keys if documents is None else documents, distance, query, bits, ties, asks=choose is not None)
    while turns.run() == ASK:
        assert choose is not None
        turns.answer(choose(turns.at, turns.near))
    return turns.rows, distances_to(turns.rows, keys, bits)


def distances_to(rows: Counts, keys: Keys, bits: Distances) -> Distances:
    """The distance of each key to its row, 0 for NEW: uint16[n]; as of in_turn."""
    found = len(bits)
    before, within = (rows >= 0) & (rows < found), rows >= found
    distances = np.zeros(len(keys), dtype=np.uint16)
    distances[before] = bits[rows[before]]
    differing = np.bitwise_count(keys[within] ^ keys[rows[within] - found])
    distances[within] = differing if keys.ndim == 1 else differing.sum(axis=1)
    return distances


def decide(keys: Keys, ids: Ids | None, matches: Matches, distance: int) -> Additions:
    """What becomes of keys, given the matches of each among those that came before the batch."""
    if len(keys) == 1:  # the common case, in a twentieth of the time
        return _decide_one(keys, ids is not None, matches)
    documents: Keys | Earlier = keys
    if not len(matches):  # the common case of many
        documents = Earlier(keys, distance)
        documents.look()
        if not documents.any_near:
            return all_stored(ids is not None, keys.shape)
    near = [np.concatenate([matches.fingerprint, keys])]
    if ids is not None and matches.id is not None:
        near.append(np.concatenate([matches.id, ids]))
    ties = [*columns_of(near[0]), *near[1:]]
    rows, bits = in_turn(keys, distance, matches.query, matches.distance, ties, documents=documents)
    stored = rows == NEW
    fingerprint, *match_id = (column[rows] for column in near)
    for column in (fingerprint, *match_id):
        column[stored] = 0
    return Additions(stored, fingerprint, bits, match_id[0] if match_id else None)


def _decide_one(keys: Keys, with_ids: bool, matches: Matches) -> Additions:
    return of_one(matches) if len(matches) else all_stored(with_ids, keys.shape)


def of_one(matches: Matches) -> Additions:
    """What became of a row that is near these, of which the first is the nearest."""
    ids = matches.id[:1] if matches.id is not None else None
    return Additions(np.zeros(1, dtype=bool), matches.fingerprint[:1], matches.distance[:1], ids)


def all_stored(with_ids: bool, shape: tuple[int, ...] = (1,)) -> Additions:
    """What became of rows that are all new, whose fingerprints have this shape."""
    count, none = shape[0], np.zeros(shape, dtype=np.uint64)
    no_ids = np.zeros(count, dtype=np.uint64) if with_ids else None
    return Additions(np.ones(count, dtype=bool), none, np.zeros(count, dtype=np.uint16), no_ids)


def concatenate(parts: list[Additions], with_ids: bool) -> Additions:
    """Batches one after the other as one."""
    if len(parts) == 1:
        return parts[0]
    ids = [part.match_id for part in parts if part.match_id is not None]
    return Additions(
        np.concatenate([np.empty(0, dtype=bool), *(part.stored for part in parts)]),
        np.concatenate([part.match_fingerprint for part in parts] or [np.empty(0, dtype=np.uint64)]),
        np.concatenate([np.empty(0, dtype=np.uint16), *(part.match_distance for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.uint64), *ids]) if with_ids else None,
    )
