"""Owns what is kept: the leaders of a corpus, with their names, and their texts where matches are confirmed."""

from collections.abc import Sequence

import numpy as np

from fpstore.errors import JobError
from fpstore.jobs.standing import Workplace
from fpstore.query.additions import NEW
from fpstore.query.leaders import MOST_LOOKED_AT as MOST_LOOKED_AT
from fpstore.query.leaders import Leaders
from fpstore.text import Recipe
from fpstore.text.confirm import Checker, Confirm
from fpstore.types import Array, Ids, Keys


class Kept(Leaders):
    """The kept documents, of a workplace.

    refused: how many near ones were found not to be alike. cut_short: how many documents have more near ones than are
    looked at, of which none is alike, and equal none.
    """

    def __init__(self, workplace: Workplace, recipe: Recipe, max_distance: int, confirm: Confirm | None) -> None:
        super().__init__(workplace.rows or workplace.store, max_distance, workplace.next_id)
        self._workplace, self._spool = workplace, workplace.spool
        self._checker = None if confirm is None else Checker(confirm, recipe, self._texts_of)
        self.looks_on = confirm is not None
        self._names: Sequence[str] = ()
        self._texts: Sequence[str] = ()
        # The texts of this batch that the spool does not have yet.
        self._unspooled: dict[int, str] = {}
        self.refused = self.cut_short = 0

    def decide_all(self, fingerprints: Keys, names: Sequence[str], texts: Sequence[str]) -> Array:
        """What becomes of the documents of a batch; when this returns it is durable."""
        self._names, self._texts = names, texts
        verdicts = self.decide(fingerprints)
        self._workplace.store.sync()  # and the spool before it
        return verdicts

    def names(self, ids: Ids) -> list[str]:
        """What kept documents are called."""
        return self._workplace.names(ids)

    def _choose(self, index: int, near: Sequence[int], ids: Ids) -> tuple[int, float]:
        row, measure = super()._choose(index, near, ids)
        if row == NEW and self._checker is not None:
            self.cut_short += len(near) > MOST_LOOKED_AT
            self._unspooled[self.next_id] = self._texts[index]
        return row, measure

    def _first_alike(self, index: int, ids: list[int]) -> tuple[int | None, float]:
        assert self._checker is not None
        found = self._checker.first_alike(self._texts[index], ids)
        self.refused += found.refused
        return found.place, found.measure

    def _mark(self, index: int) -> int:
        assert self._checker is not None
        return self._checker.mark(self._texts[index])

    def _marks_of(self, ids: Sequence[int]) -> list[int]:
        assert self._checker is not None
        return self._checker.marks_of(ids)

    def _before_store(self, indexes: list[int], fingerprints: Keys, ids: list[int]) -> None:
        names, rows = [self._names[i] for i in indexes], self._workplace.rows
        known = None if rows is None else rows.known(fingerprints, names)
        self._spool.append(ids, fingerprints, names, [self._texts[i] for i in indexes], known)
        self._unspooled.clear()

    def _texts_of(self, document_ids: list[int]) -> list[str]:
        spooled = [document_id for document_id in document_ids if document_id not in self._unspooled]
        found = dict(zip(spooled, self._spool.texts(np.array(spooled, dtype=np.uint64)), strict=True))
        texts = [self._unspooled.get(each, found.get(each)) for each in document_ids]
        for document_id, text in zip(document_ids, texts, strict=True):
            if text is None:
                told = f"found no text of document {document_id}, which the store has"
                raise JobError(told, path=self._spool.folder.path)
        return [text for text in texts if text is not None]
