"""Owns what is kept: whether a document is near one that was kept before, and the kept ones in a store and a spool.

A document that is near none is kept and gets the next id. One that is near some is dropped for the nearest of them, of
several at one distance that with the least id. Which is the same in batches of any size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fpstore import Store
from fpstore.jobs.spool import Spool
from fpstore.types import Array, Ids, Keys

# So many documents are looked up at once, and compared with each other.
SLICE = 256

# Told a document of a batch and the id of one that it is near: how alike they are, and whether that is enough.
Check = Callable[[int, int], tuple[float, bool]]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What becomes of each document of a batch, as columns.

    kept bool[n]. id uint64[n]: of the document itself where it is kept, else of the kept one that it is near.
    distance uint8[n] to that, 0 for a kept one. measures: how alike the two are, where that was checked.
    refused: how many near ones were found not to be alike.
    """

    kept: Array
    id: Ids
    distance: Array
    measures: list[float | None]
    refused: int


class Kept:
    """The kept documents, in a store with ids that is open for writing with durability "batch"."""

    def __init__(self, store: Store, spool: Spool, k: int, next_id: int) -> None:
        self._store = store
        self._spool = spool
        self._k = k
        self.next_id = next_id

    def decide(
        self, fingerprints: Keys, names: Sequence[str], texts: Sequence[str], check: Check | None = None
    ) -> Verdicts:
        """What becomes of the documents of a batch, each seen as coming after those before it; the kept ones are added.

        They are durable after sync.
        """
        count = len(fingerprints)
        verdicts = Verdicts(
            np.ones(count, dtype=bool),
            np.zeros(count, dtype=np.uint64),
            np.zeros(count, dtype=np.uint8),
            [None] * count,
            0,
        )
        refused = 0
        for start in range(0, count, SLICE):
            own = slice(start, min(start + SLICE, count))
            refused += self._decide_slice(fingerprints[own], start, verdicts, check)
            kept = np.flatnonzero(verdicts.kept[own]) + start
            ids = verdicts.id[kept]
            self._store.add(fingerprints[kept], ids)
            chosen = kept.tolist()
            self._spool.append(ids.tolist(), [names[i] for i in chosen], [texts[i] for i in chosen])
        return Verdicts(verdicts.kept, verdicts.id, verdicts.distance, verdicts.measures, refused)

    def name(self, document_id: int) -> str:
        """What a kept document is called; its id where it came into the store by another way."""
        name = self._spool.name(document_id)
        return f"{self._store.path}#{document_id}" if name is None else name

    def sync(self) -> None:
        """All that was kept is durable when this returns."""
        self._spool.sync()
        self._store.sync()

    def _decide_slice(self, keys: Keys, start: int, verdicts: Verdicts, check: Check | None) -> int:
        """Fill in the verdicts of the documents from start on; how many near ones check refused."""
        count = len(keys)
        stored = self._store.probe_many(keys, self._k, threads=1)
        stored_ids = np.empty(0, dtype=np.uint64) if stored.id is None else stored.id
        order = np.lexsort((stored_ids, stored.distance, stored.query))
        distances, ids = stored.distance[order].tolist(), stored_ids[order].tolist()
        rows = np.searchsorted(stored.query, np.arange(count + 1)).tolist()
        apart = np.bitwise_count(keys[:, None] ^ keys[None, :])
        one, other = np.nonzero(np.tril(apart <= self._k, -1))
        neighbours = np.searchsorted(one, np.arange(count + 1)).tolist()
        kept, own_ids = verdicts.kept[start : start + count], verdicts.id[start : start + count]
        refused = 0
        for i in range(count):
            row, end = rows[i], rows[i + 1]
            near = list(zip(distances[row:end], ids[row:end], strict=True))
            # Those of the slice have larger ids: none of them comes before a stored one that is equal.
            if neighbours[i] < neighbours[i + 1] and (check or not near or near[0][0]):
                earlier = other[neighbours[i] : neighbours[i + 1]]
                earlier = earlier[kept[earlier]]
                near += zip(apart[i, earlier].tolist(), own_ids[earlier].tolist(), strict=True)
                near.sort()
            for distance, near_id in near:
                measure, alike = check(start + i, near_id) if check else (None, True)
                if alike:
                    kept[i] = False
                    own_ids[i], verdicts.distance[start + i], verdicts.measures[start + i] = near_id, distance, measure
                    break
                refused += 1
            else:
                own_ids[i] = self.next_id
                self.next_id += 1
        return refused
