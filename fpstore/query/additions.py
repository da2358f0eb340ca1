"""Test-and-add: which fingerprints of a batch are near none that came before, and what the others are near.

The one place that decides whether something is near an earlier one, and which of several is the nearest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fpstore.query.matches import Match, Matches
from fpstore.types import Array, Counts, Ids, Keys

# A batch is decided in pieces of so many: each is looked up as a whole, and compared with itself.
PIECE_ROWS = 256
# In place of a row: near nothing that came before.
NEW = -1

# Of a key, given its index and the rows that it is near from the nearest on: one of these, or NEW.
Choose = Callable[[int, Sequence[int]], int]


@dataclass(frozen=True, eq=False)
class Additions:
    """What became of each fingerprint of a batch, as columns; iterating gives a Match, or None where it was stored.

    stored bool[n]. For those that were not, their nearest match: fingerprint uint64[n], distance uint8[n], and id
    uint64[n], None in a store without ids. Of several at one distance, the one with the least fingerprint, then id.
    """

    stored: Array
    fingerprint: Keys
    distance: Array
    id: Ids | None

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[Match | None]:
        ids = self.id.tolist() if self.id is not None else [None] * len(self)
        columns = (self.stored.tolist(), self.fingerprint.tolist(), self.distance.tolist(), ids)
        for query, (stored, *match) in enumerate(zip(*columns, strict=True)):
            yield None if stored else Match(query, *match)

    def __repr__(self) -> str:
        return f"<Additions: {np.count_nonzero(self.stored)} of {len(self)} stored>"


def in_turn(
    keys: Keys, distance: int, query: Counts, bits: Array, ties: Sequence[Array], choose: Choose | None = None
) -> tuple[Counts, Array]:
    """What each key of a piece is near that came earlier: before the piece, or in it, and was near nothing itself.

    The keys are taken in turn, so the answers are the same for pieces of any size. query, bits: of the matches of keys
    among what came before the piece, in the order of query, bits, ties. ties: columns over these matches, and then over
    keys, by which of several at one distance one is nearer: the one with the lesser value in the first, else in the
    next, else the earlier. choose: asked for each key in turn which of these rows it goes to, given those that it is
    near from the nearest on, or NEW. By default to the nearest.
    Returns the row of each key, int64[n], and the distance to it, uint8[n], 0 for NEW. Takes time that grows with the
    square of the number of keys.
    """
    count, found = len(keys), len(query)
    starts = np.searchsorted(query, np.arange(count + 1))
    apart = np.bitwise_count(keys[:, None] ^ keys[None, :])
    one, other = np.nonzero(apart <= distance)
    one, other = one[other < one], other[other < one]
    rows = np.where(starts[:-1] < starts[1:], starts[:-1], NEW)  # right for those that are near none of the piece
    ends, neighbours = starts.tolist(), np.searchsorted(one, np.arange(count + 1)).tolist()
    for i in range(count) if choose else np.unique(one).tolist():
        near: Sequence[int] = range(ends[i], ends[i + 1])
        if neighbours[i] < neighbours[i + 1]:
            earlier = other[neighbours[i] : neighbours[i + 1]]
            earlier = earlier[rows[earlier] == NEW]  # what was near something is not there to be near to
            if len(earlier):
                both = np.concatenate([np.arange(ends[i], ends[i + 1]), found + earlier])
                distances = np.concatenate([bits[ends[i] : ends[i + 1]], apart[i, earlier]])
                near = both[np.lexsort([*(tie[both] for tie in reversed(ties)), distances])].tolist()
        if choose:
            rows[i] = choose(i, near)
        elif near:
            rows[i] = near[0]
    before, within = (rows >= 0) & (rows < found), rows >= found
    distances = np.zeros(count, dtype=np.uint8)
    distances[before] = bits[rows[before]]
    distances[within] = apart[within, rows[within] - found]
    return rows, distances


def decide(keys: Keys, ids: Ids | None, matches: Matches, distance: int) -> Additions:
    """What becomes of keys, given the matches of each among those that came before the batch."""
    if len(keys) == 1:  # the common case, in a twentieth of the time
        return _decide_one(ids is not None, matches)
    near = [np.concatenate([matches.fingerprint, keys])]
    if ids is not None and matches.id is not None:
        near.append(np.concatenate([matches.id, ids]))
    rows, bits = in_turn(keys, distance, matches.query, matches.distance, near)
    stored = rows == NEW
    fingerprint, *match_id = (np.where(stored, np.uint64(0), column[rows]) for column in near)
    return Additions(stored, fingerprint, bits, match_id[0] if match_id else None)


def _decide_one(with_ids: bool, matches: Matches) -> Additions:
    if not len(matches):
        none = np.zeros(1, dtype=np.uint64)
        return Additions(np.ones(1, dtype=bool), none, np.zeros(1, dtype=np.uint8), none.copy() if with_ids else None)
    ids = matches.id[:1] if matches.id is not None else None
    return Additions(np.zeros(1, dtype=bool), matches.fingerprint[:1], matches.distance[:1], ids)


def concatenate(parts: list[Additions], with_ids: bool) -> Additions:
    """Batches one after the other as one."""
    if len(parts) == 1:
        return parts[0]
    ids = [part.id for part in parts if part.id is not None]
    return Additions(
        np.concatenate([np.empty(0, dtype=bool), *(part.stored for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.uint64), *(part.fingerprint for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.uint8), *(part.distance for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.uint64), *ids]) if with_ids else None,
    )
