"""Owns what is kept: whether a document is near one that was kept before, and the kept ones in a store and a spool.

A document that is near none is kept and gets the next id. One that is near some is dropped for the nearest of them, of
several at one distance that with the least id. Which is the same in batches of any size.
"""

from collections.abc import Sequence

import numpy as np

from fpstore.jobs.confirm import Checker, Confirm
from fpstore.jobs.journal import JobError
from fpstore.jobs.standing import Workplace
from fpstore.text import Recipe
from fpstore.types import Array, Keys

# So many documents are looked up at once, and compared with each other.
SLICE = 256

# What becomes of a document. kept: whether it is. id: its own then, else that of the kept document it is near.
# distance: to that. measure: how alike the two are, where that was checked, else NaN.
VERDICT = np.dtype([("id", "<u8"), ("measure", "<f8"), ("distance", "u1"), ("kept", "?")])


class Kept:
    """The kept documents, of a workplace; refused: how many near ones were found not to be alike."""

    def __init__(self, workplace: Workplace, recipe: Recipe, k: int, confirm: Confirm | None) -> None:
        self._store = workplace.store
        self._spool = workplace.spool
        self._k = k
        self._checker = None if confirm is None else Checker(confirm, recipe, self._text)
        self._of_slice: dict[int, str] = {}  # texts that the spool does not have yet
        self.next_id = workplace.next_id
        self.refused = 0

    def decide(self, fingerprints: Keys, names: Sequence[str], texts: Sequence[str]) -> Array:
        """What becomes of the documents of a batch, each seen as coming after those before it: VERDICT[n].

        The kept ones are added, and durable after sync.
        """
        verdicts = np.zeros(len(fingerprints), dtype=VERDICT)
        for start in range(0, len(fingerprints), SLICE):
            own = slice(start, start + SLICE)
            self._decide_slice(fingerprints[own], texts[own], verdicts[own])
            kept = np.flatnonzero(verdicts["kept"][own]) + start
            ids = verdicts["id"][kept]
            self._store.add(fingerprints[kept], ids)
            chosen = kept.tolist()
            self._spool.append(ids.tolist(), [names[i] for i in chosen], [texts[i] for i in chosen])
            self._of_slice.clear()
        return verdicts

    def name(self, document_id: int) -> str:
        """What a kept document is called; its id where it came into the store by another way."""
        name = self._spool.name(document_id)
        return f"{self._store.path}#{document_id}" if name is None else name

    def sync(self) -> None:
        """All that was kept is durable when this returns."""
        self._spool.sync()
        self._store.sync()

    def _text(self, document_id: int) -> str:
        text = self._of_slice.get(document_id)
        if text is None:
            text = self._spool.text(document_id)
        if text is None:
            raise JobError(f"{self._spool.folder}: found no text of document {document_id}, which the store has")
        return text

    def _decide_slice(self, keys: Keys, texts: Sequence[str], verdicts: Array) -> None:
        """Fill in the verdicts of documents that none is stored of yet."""
        count = len(keys)
        stored = self._store.probe_many(keys, self._k, threads=1)
        stored_ids = np.empty(0, dtype=np.uint64) if stored.id is None else stored.id
        order = np.lexsort((stored_ids, stored.distance, stored.query))
        distances, ids = stored.distance[order].tolist(), stored_ids[order].tolist()
        rows = np.searchsorted(stored.query, np.arange(count + 1)).tolist()
        apart = np.bitwise_count(keys[:, None] ^ keys[None, :])
        one, other = np.nonzero(np.tril(apart <= self._k, -1))
        neighbours = np.searchsorted(one, np.arange(count + 1)).tolist()
        kept, own_ids = verdicts["kept"], verdicts["id"]
        for i in range(count):
            row, end = rows[i], rows[i + 1]
            near = list(zip(distances[row:end], ids[row:end], strict=True))
            # Those of the slice have larger ids: none of them comes before a stored one that is equal.
            if neighbours[i] < neighbours[i + 1] and (self._checker or not near or near[0][0]):
                earlier = other[neighbours[i] : neighbours[i + 1]]
                earlier = earlier[kept[earlier]]
                near += zip(apart[i, earlier].tolist(), own_ids[earlier].tolist(), strict=True)
                near.sort()
            found = self._first_alike(texts[i], near)
            if found is None:
                verdicts[i] = (self.next_id, np.nan, 0, True)
                if self._checker:
                    self._of_slice[self.next_id] = texts[i]
                self.next_id += 1
            else:
                verdicts[i] = (*found, False)

    def _first_alike(self, text: str, near: list[tuple[int, int]]) -> tuple[int, float, int] | None:
        """The id, the measure and the distance of the first of near (distance, id) that is a duplicate."""
        if not near:
            return None
        if self._checker is None:
            distance, near_id = near[0]
            return near_id, np.nan, distance
        features = self._checker.features(text)
        for distance, near_id in near:
            measure, alike = self._checker.measure(features, near_id)
            if alike:
                return near_id, measure, distance
            self.refused += 1
        return None
