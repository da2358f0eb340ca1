"""Test-and-add: which fingerprints of a batch are near none that came before, and what the others are near."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fpstore.query.matches import Match, Matches
from fpstore.types import Array, Ids, Keys


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


def decide(keys: Keys, ids: Ids | None, matches: Matches, distance: int) -> Additions:
    """What becomes of keys, given the matches of each among those that came before the batch.

    Takes time that grows with the square of the number of keys.
    """
    stored = np.ones(len(keys), dtype=bool)
    fingerprint = np.zeros(len(keys), dtype=np.uint64)
    bits = np.zeros(len(keys), dtype=np.uint8)
    match_id = None if ids is None else np.zeros(len(keys), dtype=np.uint64)
    if len(matches):
        first = np.flatnonzero(np.diff(matches.query, prepend=-1))
        matched = matches.query[first]
        stored[matched] = False
        fingerprint[matched], bits[matched] = matches.fingerprint[first], matches.distance[first]
        if match_id is not None and matches.id is not None:
            match_id[matched] = matches.id[first]
    if len(keys) == 1:  # what follows is of those in one batch
        return Additions(stored, fingerprint, bits, match_id)
    apart = np.bitwise_count(keys[:, None] ^ keys[None, :])
    near = apart <= distance
    one, other = np.nonzero(near)
    for i in np.unique(one[other < one]):
        earlier = np.flatnonzero(near[i, :i] & stored[:i])
        if not len(earlier):
            continue
        order = [keys[earlier], apart[i, earlier]] if ids is None else [ids[earlier], keys[earlier], apart[i, earlier]]
        best = earlier[np.lexsort(order)[0]]
        found = (apart[i, best], keys[best]) if ids is None else (apart[i, best], keys[best], ids[best])
        known = (bits[i], fingerprint[i]) if match_id is None else (bits[i], fingerprint[i], match_id[i])
        if stored[i] or found < known:
            bits[i], fingerprint[i] = apart[i, best], keys[best]
            if ids is not None and match_id is not None:
                match_id[i] = ids[best]
        stored[i] = False
    return Additions(stored, fingerprint, bits, match_id)


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
