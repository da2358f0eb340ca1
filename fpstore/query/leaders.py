"""Owns the leaders of a stream: which document is near one, and which becomes one itself.

A document that is near none becomes a leader and gets the next id. One that is near some goes to the nearest of them,
of several at one distance to that with the least fingerprint, then to the first. Batches of any size give the same.
Where a document may go to another than the nearest, a bounded number is looked at; but an equal one is always found.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fpstore._turns import DONE, NEED, NEW, Earlier, Turns
from fpstore.fingerprints import columns_of
from fpstore.notes import MAX_ID
from fpstore.query.additions import distances_to
from fpstore.query.equals import Equals
from fpstore.query.matches import Matches
from fpstore.threads import Line
from fpstore.types import Array, Counts, Distances, Ids, Keys

# What becomes of a document. leads: whether it is a leader. id: its own then, else that of its leader. distance: to
# that. measure: how alike the two are, where that was checked, else NaN.
VERDICT = np.dtype([("id", "<u8"), ("measure", "<f8"), ("distance", "<u2"), ("leads", "?")])

_LATER = np.uint64((1 << 64) - 1)
# Of the leaders that a document is near, so many are looked at, where it may go to another than the nearest.
MOST_LOOKED_AT = 64
# So many are decided at a time: each is looked up as a whole, and compared with itself. Of fewer, what Python does for
# each piece is felt (of verses a job takes 1.16 times as long with 1,024, by two threads 1.3 times; by two threads 0.9
# times as long with 8,192 as with 4,096, where batches have twice as many).
PIECE_ROWS = 8192
# So many are compared with each other by another thread, where there is one: of 8,192 that takes a third of the time in
# which they are looked for among a million.
APART_ROWS = 2048


class Searched(Protocol):
    """What holds leaders: a store with ids that is open for writing, or rows in memory alone."""

    @property
    def path(self) -> Path:
        """What errors name."""

    def nearest_many(
        self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """The nearest rows of each, at most count."""

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """All rows that are near each."""

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Hold them, for the next question."""


class Sets(Protocol):
    """The features of documents: those of document i are counts[i] of hashes, increasing, from starts[i] on.

    are_listed: they are in any order, and may be there more than once.
    """

    @property
    def hashes(self) -> Keys:
        """uint64[m], of at least one."""

    @property
    def starts(self) -> Counts:
        """int64[n]."""

    @property
    def counts(self) -> Counts:
        """int64[n]."""

    @property
    def are_listed(self) -> bool:
        """As above."""


class Seen(NamedTuple):
    """What the documents of a piece are near: rows of what was found before it, then the documents themselves.

    query, distance: of each row found the document that it is near, in order, and how far. ids: of all rows, those of
    the documents themselves for who gives them. turns: the way through.
    """

    query: Counts
    distance: Distances
    ids: Ids
    turns: Turns

    @property
    def found(self) -> int:
        """How many rows were found."""
        return len(self.query)


class Leaders:
    """The leaders, in what holds them.

    looks_on: whether a document may go to another than the nearest. Then it is told of MOST_LOOKED_AT that it is near,
    and of another one where there are more. Where more than that have its very fingerprint, which equal documents have,
    those that equal it come before them.
    """

    looks_on = False
    # Of the shingles that either of two documents has, the share that both have where they are alike; None where
    # another measure tells, of which _first_alike is asked.
    share: tuple[int, int] | None = None

    def __init__(self, store: Any, max_distance: int, next_id: int, threads: int = 1) -> None:
        """store: a Searched."""
        self._store, self._threads = store, threads
        self._max_distance = max_distance
        self._line = Line()  # who compares documents with each other while they are looked for
        self.next_id = next_id
        self._equals = Equals()

    def decide(self, fingerprints: Any) -> Array:
        """What becomes of documents, each seen as coming after those before it: VERDICT[n]; leaders are stored."""
        verdicts = np.zeros(len(fingerprints), dtype=VERDICT)
        start = 0
        while start < len(fingerprints):
            own = slice(start, self._end_of_piece(start, min(start + PIECE_ROWS, len(fingerprints))))
            own, seen = self._look(fingerprints, own)
            self._decide_piece(fingerprints[own], seen, start, verdicts[own])
            leads = verdicts["leads"][own].nonzero()[0] + start
            ids = verdicts["id"][leads]
            self._store_leaders(fingerprints, leads, ids)
            start = own.stop
        return verdicts

    def _look(self, fingerprints: Keys, piece: slice) -> tuple[slice, Seen]:
        """What the documents of a piece are near, or of fewer of them: of which."""
        keys = fingerprints[piece]
        count = MOST_LOOKED_AT + 1 if self.looks_on else 1
        earlier = Earlier(keys, self._max_distance)
        looked = self._line.give(earlier.look) if self._threads > 1 and len(keys) >= APART_ROWS else None
        try:
            found: Matches = self._store.nearest_many(
                keys, count, max_distance=self._max_distance, threads=self._threads
            )
        finally:
            if looked is not None:
                looked.finish()
        ids = ids_of_all(found.id, len(keys))
        ties = [*columns_of(np.concatenate([found.fingerprint, keys])), ids.copy()]
        turns = Turns(earlier, self._max_distance, found.query, found.distance, ties, asks=self.looks_on)
        return piece, Seen(found.query, found.distance, ids, turns)

    def _sign(self, documents: Any, index: int) -> Hashable:
        """What equal documents have in common, and few others have."""
        return int(documents[index]) if documents.ndim == 1 else bytes(documents[index])

    def _is_same(self, documents: Any, seen: Seen, index: int, row: int) -> bool:
        """Whether a document and a row that it is near have the same sign."""
        if row < seen.found:
            return bool(seen.distance[row] == 0)
        return bool((documents[row - seen.found] == documents[index]).all())

    def _distances(self, documents: Any, seen: Seen) -> Distances:
        """The distance of each document to the row that it goes to."""
        return distances_to(seen.turns.rows, documents, seen.distance)

    def _ids_of_sign(self, documents: Any, seen: Seen, index: int) -> list[int]:
        """The ids of all stored leaders that have the sign of a document."""
        stored = self._store.probe_many(documents[index : index + 1], max_distance=0).id
        return [] if stored is None else list(stored.tolist())

    def _choose(self, index: int, near: Sequence[int], ids: Ids) -> tuple[int, float]:
        """The leader of a document among those it is near, the nearest first, and how alike they are.

        near: rows of ids, which has their ids; at least one. NEW where the document becomes a leader itself.
        """
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

    def _end_of_piece(self, start: int, end: int) -> int:
        """Where a piece ends that begins at start, above it and at end at most, as its features are held together."""
        return end

    def _look_ahead(self, indexes: Counts) -> Sets | None:
        """These documents of a piece, in order, may be near some: their features, where they are compared by them."""

    def _sets_of(self, ids: Ids, *, ahead: bool, tell: Any = None) -> Iterator[tuple[Counts, Sets]]:
        """The features of leaders, in parts: the places among ids, and the features; ahead: maybe not of all.

        tell: is given places and texts of those that were read for it, and says of which no features are needed.
        """
        return iter(())

    def _replaced(self, indexes: Counts, others: Any, which: Counts) -> Any:
        """What the hashes of others[which[i]] are in place of those of these documents of a batch; None for nothing."""
        return None

    def _say_nothing(self, sets: Any) -> Array:
        """Which documents have features, given by the two above, that tell nothing about them: bool[n]."""
        return np.zeros(len(sets.counts), dtype=bool)

    def _compared(self, refused: int, cut_short: int) -> None:
        """So many leaders were not alike a document of the piece, and of so many documents more were near than looked
        at, of which none was alike.
        """

    def _number(self, indexes: list[int]) -> None:
        """These documents are leaders: they have the ids from self.next_id on."""

    def _before_store(self, leads: Counts, fingerprints: Any, ids: Ids) -> None:
        """These documents of a batch have become leaders, and are about to be stored."""

    def _store_leaders(self, fingerprints: Any, leads: Counts, ids: Ids) -> None:
        """Those documents of a batch have become leaders; they are of one piece."""
        self._before_store(leads, fingerprints, ids)
        self._hold_leaders(fingerprints, leads, ids)

    def _hold_leaders(self, fingerprints: Any, leads: Counts, ids: Ids) -> None:
        """Store the same."""
        self._store.add(fingerprints[leads], ids=ids)

    def _decide_piece(self, documents: Any, seen: Seen, start: int, verdicts: Array) -> None:
        """Fill in the verdicts of documents of which none is stored yet; start: the index of the first."""
        turns, ids, count = seen.turns, seen.ids, len(documents)
        own_ids = ids[seen.found :]
        # Of documents that go to an equal leader, which need not be among those that were found: its id.
        equals: dict[int, int] = {}
        numbered = 0

        def number(end: int) -> None:
            """Give the leaders before end their ids."""
            nonlocal numbered
            chosen = (turns.rows[numbered:end] == NEW).nonzero()[0] + numbered
            if len(chosen) > MAX_ID + 1 - self.next_id:
                raise ValueError(f"{self._store.path}: found no id left above the largest, expected room for more")
            own_ids[chosen] = np.arange(self.next_id, self.next_id + len(chosen), dtype=np.uint64)
            self._number((chosen + start).tolist())
            self.next_id += len(chosen)
            numbered = end

        def choose(i: int) -> int:
            """To which row a document goes of which more is to be known."""
            number(i)
            near = turns.nearest(MOST_LOOKED_AT + 1)
            mark = None
            if len(near) > MOST_LOOKED_AT and self._is_same(documents, seen, i, near[-1]):
                sign = self._sign(documents, i)
                if not self._equals.knows(sign):
                    later = [row for row in turns.near if row >= seen.found and self._is_same(documents, seen, i, row)]
                    self._hold(sign, self._ids_of_sign(documents, seen, i) + ids[later].tolist())
                mark = self._mark(start + i)
                equal, turns.measures[i] = self._first_equal(start + i, mark)
                if equal is not None:
                    equals[i] = equal
                    return near[0]  # which is at the same distance, none
            row, turns.measures[i] = self._choose(start + i, near, ids)
            if row == NEW and mark is not None:
                turns.rows[i] = NEW
                number(i + 1)
                self._equals.add(mark, int(own_ids[i]))
            return row

        if self.looks_on:
            self._give_features(seen, start)
        while (stop := turns.run()) != DONE:
            if stop == NEED:
                rows = np.array(turns.needed, dtype=np.int64)
                self._give_leaders(turns, rows[~turns.knows(rows)], ids, ahead=False)
            else:
                turns.answer(choose(turns.at))
        self._compared(turns.refused, turns.cut_short)
        number(count)
        rows, leads = turns.rows, turns.rows == NEW
        verdicts["distance"] = self._distances(documents, seen)
        verdicts["measure"], verdicts["leads"] = turns.measures, leads
        verdicts["id"] = ids[np.where(leads, seen.found + np.arange(count), rows)]
        verdicts["id"][list(equals)] = list(equals.values())

    def _give_features(self, seen: Seen, start: int) -> None:
        """Tell the features of the documents of a piece that are near some, and of the leaders that are the nearest."""
        turns, found_ids = seen.turns, seen.ids[: seen.found]
        which = turns.is_near.nonzero()[0]
        sets = self._look_ahead(which + start)
        if sets is None or self.share is None:
            return
        turns.compare(MOST_LOOKED_AT, *self.share)
        silent = self._say_nothing(sets).view(np.uint8)
        turns.give(which + seen.found, sets.starts, sets.counts, sets.hashes, silent, sets.are_listed)
        firsts = begins_of(seen.query).nonzero()[0]
        keys = seen.query[firsts]

        def tell(rows: Counts, others: Any, which: Counts) -> Array:
            """What rows of the first ones have in common with their documents: of which that is told, bool[n]."""
            told = np.zeros(len(rows), dtype=bool)
            own = keys[firsts.searchsorted(rows)]
            found = self._replaced(own + start, others, which)
            if found is not None:
                some = found.which
                told[some] = turns.tell(rows[some], own[some], found.starts, found.middles, found.ends, found.hashes)
            return told

        self._give_leaders(turns, firsts, found_ids, ahead=True, tell=tell)
        self._give_leaders(turns, turns.foresee(), found_ids, ahead=True)

    def _give_leaders(
        self,
        turns: Turns,
        rows: Counts,
        ids: Ids,
        *,
        ahead: bool,
        tell: Callable[[Counts, Any, Counts], Array] | None = None,
    ) -> None:
        """Tell the features of leaders in these rows, some of which may be one.

        tell: is first given rows of leaders whose texts were read, the texts, and which of these each row has.
        """
        if not len(rows):  # as often as not
            return
        distinct, own = np.unique(ids[rows], return_inverse=True)

        def told(places: Counts, texts: Any) -> Array:
            """Whether all is told of the leaders at these places, which have these texts."""
            place = np.full(len(distinct), -1, dtype=np.int64)
            place[places] = np.arange(len(places))
            which = place[own]
            some = (which >= 0).nonzero()[0]
            are_told = np.ones(len(places), dtype=bool)
            assert tell is not None
            are_told[which[some][~tell(rows[some], texts, which[some])]] = False
            return are_told

        for places, sets in self._sets_of(distinct, ahead=ahead, tell=None if tell is None else told):
            place = np.full(len(distinct), -1, dtype=np.int64)
            place[places] = np.arange(len(places))
            which = place[own]
            given, which = rows[which >= 0], which[which >= 0]
            silent = self._say_nothing(sets).view(np.uint8)
            turns.give(given, sets.starts[which], sets.counts[which], sets.hashes, silent[which], sets.are_listed)

    def _hold(self, sign: Hashable, ids: Sequence[int]) -> None:
        """Hold the marks of all leaders of a sign."""
        for at in range(0, len(ids), MOST_LOOKED_AT):
            some = ids[at : at + MOST_LOOKED_AT]
            for mark, leader in zip(self._marks_of(some), some, strict=True):
                self._equals.add(mark, leader)
        self._equals.learn(sign)

    def _first_equal(self, index: int, mark: int) -> tuple[int | None, float]:
        """The id of the first leader that equals a document with this mark, or None, and how alike."""
        equal = self._equals.find(mark)[:MOST_LOOKED_AT]
        place, measure = self._first_alike(index, equal) if equal else (None, np.nan)
        return None if place is None else equal[place], measure


def ids_of_all(found: Ids | None, documents: int) -> Ids:
    """Of rows found, then of documents that may become leaders: later than all stored ones, in their own order."""
    stored = np.empty(0, dtype=np.uint64) if found is None else found
    return np.concatenate([stored, np.full(documents, _LATER)])


def begins_of(values: Array) -> Array:
    """Which of sorted values are not equal to the one before: bool[n]; numpy.diff takes four times as long."""
    begins = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins
