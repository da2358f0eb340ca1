"""Owns what is kept: the leaders of a corpus, with their names, and their texts where matches are confirmed."""

import math
from collections.abc import Sequence

import numpy as np

from fpstore.errors import JobError
from fpstore.jobs.confirm import Checker, Confirm
from fpstore.jobs.leaders import Leaders
from fpstore.jobs.standing import Workplace
from fpstore.query.additions import NEW
from fpstore.text import Recipe
from fpstore.types import Array, Ids, Keys


class Kept(Leaders):
    """The kept documents, of a workplace; refused: how many near ones were found not to be alike."""

    def __init__(self, workplace: Workplace, recipe: Recipe, max_distance: int, confirm: Confirm | None) -> None:
        super().__init__(workplace.rows or workplace.store, max_distance, workplace.next_id)
        self._workplace, self._spool = workplace, workplace.spool
        self._checker = None if confirm is None else Checker(confirm, recipe, self._text)
        self.looks_on = confirm is not None
        self._names: Sequence[str] = ()
        self._texts: Sequence[str] = ()
        # The texts of this batch that the spool does not have yet.
        self._unspooled: dict[int, str] = {}
        self.refused = 0

    def decide_all(self, fingerprints: Keys, names: Sequence[str], texts: Sequence[str]) -> Array:
        """What becomes of the documents of a batch; when this returns it is durable."""
        self._names, self._texts = names, texts
        verdicts = self.decide(fingerprints)
        self._store.sync()  # and the spool before it
        return verdicts

    def names(self, ids: Ids) -> list[str]:
        """What kept documents are called."""
        return self._workplace.names(ids)

    def _choose(self, index: int, near: Sequence[int], ids: Ids) -> tuple[int, float]:
        if self._checker is None:
            return super()._choose(index, near, ids)
        features = self._checker.features(self._texts[index])
        for row in near:
            measure, alike = self._checker.measure(features, int(ids[row]))
            if alike:
                return row, measure
            self.refused += 1
        self._unspooled[self.next_id] = self._texts[index]
        return NEW, math.nan

    def _before_store(self, indexes: list[int], fingerprints: Keys, ids: list[int]) -> None:
        names, rows = [self._names[i] for i in indexes], self._workplace.rows
        known = None if rows is None else rows.known(fingerprints, names)
        self._spool.append(ids, fingerprints, names, [self._texts[i] for i in indexes], known)
        self._unspooled.clear()

    def _text(self, document_id: int) -> str:
        text = self._unspooled.get(document_id)
        if text is None:
            (text,) = self._spool.texts(np.array([document_id], dtype=np.uint64))
        if text is None:
            raise JobError(
                f"found no text of document {document_id}, which the store has", path=self._spool.folder.path
            )
        return text
