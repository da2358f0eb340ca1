"""Owns what is kept: the leaders of a corpus, with their names, and their texts where matches are confirmed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fpstore.errors import JobError
from fpstore.inputs import Row
from fpstore.jobs.own import OwnKeys
from fpstore.jobs.settings import Settings
from fpstore.jobs.signed import ROOMS
from fpstore.jobs.standing import Workplace
from fpstore.minhash import MinHashStore
from fpstore.minhash.leading import SignedRows
from fpstore.query.additions import NEW
from fpstore.query.leaders import MOST_LOOKED_AT as MOST_LOOKED_AT
from fpstore.query.leaders import Leaders
from fpstore.query.similar_leaders import SimilarLeaders
from fpstore.text import Recipe
from fpstore.text.confirm import Checker, Confirm, Rooms, Tell
from fpstore.text.held import Features, KeptHashes, Sets
from fpstore.text.packed import Encoded, Packed, Texts, taken, text_sizes
from fpstore.text.passages import Replaced
from fpstore.types import Array, Counts, Ids, Keys

# So many bytes of text are decided together, or one text: their shingles take 3 to 16 times as many.
PIECE_BYTES = 3 << 20
_NO_SETS = Sets.of([])


class _Workplaced(Leaders):
    """Leaders that are the kept documents of a workplace.

    refused: how many near ones were found not to be alike. cut_short: how many documents have more near ones than are
    looked at, of which none is alike, and equal none.
    """

    def _begin(self, workplace: Workplace, recipe: Recipe, confirm: Confirm | None, threads: int) -> None:
        self._workplace, self._spool = workplace, workplace.spool
        rooms = Rooms() if workplace.signed is None else ROOMS
        # What packages cut takes ten times as long to cut again as its hashes take to be read.
        older = self._spool.lay_hashes() if confirm is not None and recipe.is_prepared and recipe.keeps_hashes else None
        self._checker = None if confirm is None else Checker(confirm, recipe, self._texts_of, threads, rooms, older)
        self.looks_on = confirm is not None
        self.share = None if self._checker is None else self._checker.share
        self._names: Sequence[str] = ()
        self._texts: Sequence[str] = ()
        self._hashes: KeptHashes | None = None
        self._ends: Counts = np.empty(0, dtype=np.int64)  # of the texts, in the bytes of all
        self._lines: Packed[Any] | None = None
        # Of leaders of this batch, of which the spool need not have the texts yet: the first id, and the indexes.
        self._first_unspooled, self._unspooled = self.next_id, list[int]()
        # The features of documents that may be near some, and their indexes.
        self._ahead = _NO_SETS
        self._looked_at: Counts = np.empty(0, dtype=np.int64)
        self.refused = self.cut_short = 0
        self._is_settled = True

    def decide_all(
        self,
        fingerprints: Array,
        names: Sequence[str],
        texts: Sequence[str],
        hashes: KeptHashes | None = None,
        *,
        lines: Sequence[Row] = (),
        settles: bool = True,
    ) -> Array:
        """What becomes of the documents of a batch. hashes: as of Batch. lines: its rows, of which a result will have
        those that are kept before the next call, where the spool has_lines.

        settles: a commit follows, which makes the workplace durable, and comes before the next call.
        """
        self._names, self._texts, self._hashes = names, texts, hashes
        self._lines = _packed(lines) if self._spool.has_lines else None
        self._first_unspooled, self._unspooled = self.next_id, []
        if self._is_settled:
            self._workplace.settle()
        self._ends = text_sizes(texts).cumsum()
        verdicts = self.decide(fingerprints)
        self._names, self._texts, self._hashes, self._ahead, self._lines = (), (), None, _NO_SETS, None
        self._is_settled = settles
        return verdicts

    def _end_of_piece(self, start: int, end: int) -> int:
        most = (int(self._ends[start - 1]) if start else 0) + PIECE_BYTES
        return min(end, max(start + 1, int(np.searchsorted(self._ends, most, "right"))))

    def names(self, ids: Ids) -> Sequence[str]:
        """What kept documents are called."""
        return self._workplace.names(ids)

    def names_later(self, ids: Ids) -> Callable[[], Sequence[str]]:
        """What says so later, to another thread."""
        return self._workplace.names_later(ids)

    @property
    def has_texts(self) -> bool:
        """Whether the texts of kept documents are known."""
        return self._spool.has_texts

    def texts(self, ids: Ids) -> Sequence[str | None]:
        """The texts of kept documents, where it has_texts; None of each that is not here."""
        return self._spool.texts(ids)

    def _choose(self, index: int, near: Sequence[int], ids: Ids) -> tuple[int, float]:
        row, measure = super()._choose(index, near, ids)
        if row == NEW and self._checker is not None:
            self.cut_short += len(near) > MOST_LOOKED_AT
        return row, measure

    def _look_ahead(self, indexes: Counts) -> Sets | None:
        if self._checker is None:
            return None
        if self._hashes is None:
            self._ahead = self._checker.sets_of(taken(self._texts, indexes))
        else:
            self._ahead = self._checker.sets_of_hashes(self._hashes, indexes)
        self._looked_at = indexes
        return self._ahead

    def _features_of(self, index: int) -> Features:
        """Those of a document that was looked at."""
        assert self._checker is not None
        return self._checker.features_in(self._ahead, int(self._looked_at.searchsorted(index)))

    def _sets_of(self, ids: Ids, *, ahead: bool, tell: Tell | None = None) -> Iterator[tuple[Counts, Sets]]:
        assert self._checker is not None
        return self._checker.sets_of_kept(ids, ahead=ahead, tell=tell)

    def _replaced(self, indexes: Counts, others: Packed[str], which: Counts) -> Replaced | None:
        if self._checker is None or self._hashes is None or self._hashes.are_features:
            return None
        if not isinstance(self._texts, Texts):
            return None
        return self._checker.replaced(self._texts, indexes, others, which)

    def _say_nothing(self, sets: Sets) -> Array:
        assert self._checker is not None
        return self._checker.say_nothing(sets)

    def _compared(self, refused: int, cut_short: int) -> None:
        self.refused += refused
        self.cut_short += cut_short

    def _number(self, indexes: list[int]) -> None:
        self._unspooled += indexes

    def _first_alike(self, index: int, ids: list[int]) -> tuple[int | None, float]:
        assert self._checker is not None
        found = self._checker.first_like(self._features_of(index), lambda: self._texts[index], ids)
        self.refused += found.refused
        return found.place, found.measure

    def _mark(self, index: int) -> int:
        assert self._checker is not None
        return self._checker.mark(self._features_of(index), lambda: self._texts[index])

    def _marks_of(self, ids: Sequence[int]) -> list[int]:
        assert self._checker is not None
        return self._checker.marks_of(ids)

    def _before_store(self, leads: Counts, fingerprints: Array, ids: Ids) -> None:
        rows = self._workplace.rows
        told = self._told_of(fingerprints, leads)
        known = None if rows is None else rows.known(told, taken(self._names, leads))
        texts = self._texts if self._lines is None else self._lines
        self._spool.append(ids, told, self._names, texts, known, leads)
        if self.share is not None and self._checker is not None and len(ids):
            if self._hashes is not None:
                self._checker.hold_hashes(int(ids[0]), self._hashes, leads)
            else:
                near = np.isin(leads, self._looked_at, assume_unique=True)
                places = self._looked_at.searchsorted(leads[near])
                self._checker.hold(ids[near], self._ahead.take(places))

    def _texts_of(self, document_ids: list[int]) -> Sequence[str]:
        first = self._first_unspooled
        if max(document_ids) < first:
            packed = self._spool.packed_texts(np.array(document_ids, dtype=np.uint64))
            if packed is not None and not packed.has_halves:
                return packed
        spooled = [document_id for document_id in document_ids if document_id < first]
        found = dict(zip(spooled, self._spool.texts(np.array(spooled, dtype=np.uint64)), strict=True))
        texts = [found[each] if each < first else self._texts[self._unspooled[each - first]] for each in document_ids]
        for document_id, text in zip(document_ids, texts, strict=True):
            if text is None:
                told = f"found no text of document {document_id}, which the store has"
                raise JobError(told, path=self._spool.folder.path)
        return [text for text in texts if text is not None]

    def told(self, fingerprints: Array) -> Keys:
        """What the record has of documents: their fingerprints."""
        return fingerprints

    def _told_of(self, fingerprints: Array, indexes: Counts) -> Keys:
        """The same of some of them."""
        return fingerprints[indexes]


class Kept(_Workplaced):
    """The kept documents, by their fingerprints."""

    def __init__(
        self, workplace: Workplace, settings: Settings, confirm: Confirm | None, threads: int = 1, comparing: int = 1
    ) -> None:
        super().__init__(workplace.rows or workplace.store, settings.max_distance, workplace.next_id, threads)
        self._begin(workplace, settings.recipe, confirm, comparing)

    def _store_leaders(self, fingerprints: Array, leads: Counts, ids: Ids) -> None:
        if isinstance(self._store, OwnKeys):  # of which memory is made anew: another thread holds them meanwhile
            self._hold_leaders(fingerprints, leads, ids)
            self._before_store(leads, fingerprints, ids)
        else:
            super()._store_leaders(fingerprints, leads, ids)

    def nearness(self, distances: Array) -> Array:
        """What is told of documents that are so far apart: that."""
        return distances


class SimilarKept(_Workplaced, SimilarLeaders):
    """The kept documents, by their signatures."""

    def __init__(
        self, workplace: Workplace, settings: Settings, confirm: Confirm | None, threads: int = 1, comparing: int = 1
    ) -> None:
        assert isinstance(workplace.store, MinHashStore)
        rows = workplace.signed or SignedRows(workplace.store, threads)
        SimilarLeaders.__init__(self, rows, settings.min_similarity, workplace.next_id, threads)
        self._begin(workplace, settings.recipe, confirm, comparing)

    def told(self, fingerprints: Array) -> Keys:
        """Nothing: the record has no room for signatures."""
        return np.zeros(len(fingerprints), dtype=np.uint64)

    def _told_of(self, fingerprints: Array, indexes: Counts) -> Keys:
        return self.told(indexes)  # to take signatures would take as long as to compare them

    def nearness(self, distances: Array) -> Array:
        """The estimated similarity of documents in which so many values differ."""
        return self._kept.estimates[distances]


def kept_of(
    workplace: Workplace, settings: Settings, confirm: Confirm | None, threads: int = 1, comparing: int = 1
) -> Kept | SimilarKept:
    """The kept documents of a workplace. comparing: how many threads make the features by which they are compared."""
    return (SimilarKept if settings.signs else Kept)(workplace, settings, confirm, threads, comparing)


def _packed(rows: Sequence[Row]) -> Packed[Any]:
    """The lines of rows of JSON."""
    return rows if isinstance(rows, Packed) else Encoded.pack(row.data for row in rows if isinstance(row.data, bytes))
