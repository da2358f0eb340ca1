"""Owns the leaders of a stream: which document is near one, and which becomes one itself.

A document that is near none becomes a leader and gets the next id. One that is near some goes to the nearest of them,
of several at one distance to that with the least fingerprint, then to the first. Batches of any size give the same.
Where a document may go to another than the nearest, a bounded number is looked at; but an equal one is always found.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fpstore.notes import MAX_ID
from fpstore.query.additions import NEW, in_turn
from fpstore.query.equals import Equals
from fpstore.query.matches import Matches
from fpstore.types import Array, Counts, Ids, Keys

# What becomes of a document. leads: whether it is a leader. id: its own then, else that of its leader. distance: to
# that. measure: how alike the two are, where that was checked, else NaN.
VERDICT = np.dtype([("id", "<u8"), ("measure", "<f8"), ("distance", "u1"), ("leads", "?")])

# Documents are decided in pieces of so many: each is looked up as a whole, and compared with itself.
PIECE_ROWS = 256
_LATER = np.uint64((1 << 64) - 1)
# Of the leaders that a document is near, so many are looked at, where it may go to another than the nearest.
MOST_LOOKED_AT = 64


class Searched(Protocol):
    """What holds leaders: a store with ids that is open for writing, or rows in memory alone."""

    @property
    def path(self) -> Path:
        """What errors name."""

    def nearest_many(self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None) -> Matches:
        """The nearest rows of each, at most count."""

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """All rows that are near each."""

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Hold them, for the next question."""


class Leaders:
    """The leaders, in what holds them.

    looks_on: whether a document may go to another than the nearest. Then it is told of MOST_LOOKED_AT that it is near,
    and of another one where there are more. Where more than that have its very fingerprint, which equal documents have,
    those that equal it come before them.
    """

    looks_on = False

    def __init__(self, store: Searched, max_distance: int, next_id: int) -> None:
        self._store = store
        self._max_distance = max_distance
        self.next_id = next_id
        self._equals = Equals()

    def decide(self, fingerprints: Keys) -> Array:
        """What becomes of documents, each seen as coming after those before it: VERDICT[n]; leaders are stored."""
        verdicts = np.zeros(len(fingerprints), dtype=VERDICT)
        start = 0
        while start < len(fingerprints):
            own = slice(start, min(start + PIECE_ROWS, len(fingerprints)))
            count = MOST_LOOKED_AT + 1 if self.looks_on else 1
            found = self._store.nearest_many(fingerprints[own], count, max_distance=self._max_distance)
            self._decide_piece(fingerprints[own], found, start, verdicts[own])
            leads = np.flatnonzero(verdicts["leads"][own]) + start
            self._before_store(leads.tolist(), fingerprints[leads], verdicts["id"][leads].tolist())
            self._store.add(fingerprints[leads], ids=verdicts["id"][leads])
            start = own.stop
        return verdicts

    def _choose(self, index: int, near: Sequence[int], ids: Ids) -> tuple[int, float]:
        """The leader of a document among those it is near, the nearest first, and how alike they are.

        near: rows of ids, which has their ids; at least one. NEW where the document becomes a leader itself.
        """
        if not self.looks_on:
            return near[0], np.nan
        looked_at = near[:MOST_LOOKED_AT]
        place, measure = self._first_alike(index, ids[np.asarray(looked_at)].tolist())
        return NEW if place is None else looked_at[place], measure

    def _first_alike(self, index: int, ids: list[int]) -> tuple[int | None, float]:
        """Of the leaders with these ids the place of the first that a document is alike, or None, and how alike.

        As nothing is known here but fingerprints, the nearest.
        """
        return 0, np.nan

    def _mark(self, index: int) -> int:
        """A number of 64 bits of a document, the same for equal ones; here, where nothing is known, for all."""
        return 0

    def _marks_of(self, ids: Sequence[int]) -> list[int]:
        """The same of leaders."""
        return [0] * len(ids)

    def _look_ahead(self, indexes: list[int], nearest: list[int]) -> None:
        """These documents of a piece may be near some; nearest: the ids of stored leaders that are, of some of them."""

    def _number(self, indexes: list[int]) -> None:
        """These documents are leaders: they have the ids from self.next_id on."""

    def _before_store(self, indexes: list[int], fingerprints: Keys, ids: list[int]) -> None:
        """These documents have become leaders, and are about to be stored."""

    def _decide_piece(self, keys: Keys, found: Matches, start: int, verdicts: Array) -> None:
        """Fill in the verdicts of documents of which none is stored yet; start: the index of the first."""
        found_ids = np.empty(0, dtype=np.uint64) if found.id is None else found.id
        # Of the matches, then of the documents that become leaders: later than all that are stored, in their own order.
        ids = np.concatenate([found_ids, np.full(len(keys), _LATER)])
        ties = ids.copy()
        own_ids = ids[len(found) :]
        leads = np.ones(len(keys), dtype=bool)
        measure = verdicts["measure"]
        measure[:] = np.nan
        nearer = [np.concatenate([found.fingerprint, keys]), ties]
        # Of documents that go to an equal leader, which need not be among those that were found: its id.
        equals: dict[int, int] = {}
        numbered = 0

        def number(end: int) -> None:
            """Give the leaders before end their ids."""
            nonlocal numbered
            chosen = np.flatnonzero(leads[numbered:end]) + numbered
            if len(chosen) > MAX_ID + 1 - self.next_id:
                raise ValueError(f"{self._store.path}: found no id left above the largest, expected room for more")
            own_ids[chosen] = np.arange(self.next_id, self.next_id + len(chosen), dtype=np.uint64)
            self._number((chosen + start).tolist())
            self.next_id += len(chosen)
            numbered = end

        def choose(i: int, near: Sequence[int]) -> int:
            if not isinstance(near, range):  # some are of the piece, and have to have their ids
                number(i)
            fingerprints, key, more = nearer[0], keys[i], near[MOST_LOOKED_AT:]
            mark = None
            if self.looks_on and len(more) > 0 and fingerprints[more[0]] == key:
                if not self._equals.knows(int(key)):
                    later = [row for row in near if row >= len(found) and fingerprints[row] == key]
                    self._hold(int(key), ids[later].tolist())
                mark = self._mark(start + i)
                equal, measure[i] = self._first_equal(start + i, mark)
                if equal is not None:
                    equals[i], leads[i] = equal, False
                    return near[0]  # which is at the same distance, none
            row, measure[i] = self._choose(start + i, near, ids)
            leads[i] = row == NEW
            if leads[i] and mark is not None:
                number(i + 1)
                self._equals.add(mark, int(own_ids[i]))
            return row

        def look_ahead(which: Counts) -> None:
            firsts = np.flatnonzero(np.diff(found.query, prepend=-1))
            self._look_ahead((which + start).tolist(), found_ids[firsts].tolist())

        rows, verdicts["distance"] = in_turn(
            keys, self._max_distance, found.query, found.distance, nearer, choose, look_ahead
        )
        number(len(keys))
        verdicts["leads"] = leads
        verdicts["id"] = ids[np.where(leads, len(found) + np.arange(len(keys)), rows)]
        verdicts["id"][list(equals)] = list(equals.values())

    def _hold(self, key: int, later: list[int]) -> None:
        """Hold the marks of all leaders of a fingerprint; later: the ids of those that are not stored yet."""
        stored = self._store.probe_many(np.array([key], dtype=np.uint64), max_distance=0).id
        ids = [*([] if stored is None else stored.tolist()), *later]
        for at in range(0, len(ids), MOST_LOOKED_AT):
            some = ids[at : at + MOST_LOOKED_AT]
            for mark, leader in zip(self._marks_of(some), some, strict=True):
                self._equals.add(mark, leader)
        self._equals.learn(key)

    def _first_equal(self, index: int, mark: int) -> tuple[int | None, float]:
        """The id of the first leader that equals a document with this mark, or None, and how alike."""
        equal = self._equals.find(mark)[:MOST_LOOKED_AT]
        place, measure = self._first_alike(index, equal) if equal else (None, np.nan)
        return None if place is None else equal[place], measure
