"""The writer of a store of signatures: documents to the log, each a row for every band, with its sketch."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fpstore.building.spill import PairSorter
from fpstore.errors import TooManyMatches
from fpstore.living import changes, renewal
from fpstore.living.changes import ADDED, Change, Told
from fpstore.living.crowd import most_similar
from fpstore.living.named import names_in
from fpstore.living.similar import Similar, candidates, ordered
from fpstore.living.sketched import Sketched, live_sketches
from fpstore.living.snapshot import Snapshot
from fpstore.living.withdrawal import complete
from fpstore.living.writer import Writer
from fpstore.merging import begins
from fpstore.names.column import Names
from fpstore.query.matches import Room
from fpstore.query.similar import SimilarAdditions
from fpstore.sketches.bands import Banding, Signed, documents_of, rows_of
from fpstore.sketches.pending import in_order
from fpstore.types import Array, Ids, Keys

# Where more rows are found for several that are added if new, fewer are looked up together; for one, its crowd.
MOST_FOUND = 1 << 17
# For sorting the rows of a store by id, where its documents are made again of them.
MEMORY_BYTES = 256 << 20


def pending_documents(snapshot: Snapshot) -> tuple[Signed, Ids | None]:
    """What of the log lives as documents that come to the same rows and sketches, and their ids."""
    minhash = snapshot.settings.minhash
    assert minhash is not None
    keys, ids = documents_of(*snapshot.pending_rows(), minhash.banding(snapshot.settings.bits))
    pending = live_sketches(snapshot)
    if pending is None or ids is None:
        return Signed(keys, None), ids
    return documents_with(keys, ids, *in_order(pending.ids, pending.sketches))


def documents_with(keys: Keys, ids: Ids, own_ids: Ids, sketches: Keys) -> tuple[Signed, Ids]:
    """Documents, by id, with their sketches, by id too: of each id there are some of both.

    Of an id that came again both may be several: as many documents as there are of what it has more of.
    """
    distinct = np.unique(ids)
    rows, docs = [], []
    for first, count, start, others in zip(*_groups(ids, distinct), *_groups(own_ids, distinct), strict=True):
        most = max(count, others)
        docs.append(first + np.arange(most) % count)
        rows.append(start + np.arange(most) % others)
    of, at = (np.concatenate([np.empty(0, dtype=np.int64), *parts]) for parts in (docs, rows))
    return Signed(keys[of], sketches[at]), ids[of]


def all_documents(snapshot: Snapshot) -> Iterator[tuple[Ids, Keys]]:
    """All documents, by id, those of an id together, in pieces: uint64[n], uint64[n, bands]."""
    minhash = snapshot.settings.minhash
    assert minhash is not None
    banding = minhash.banding(snapshot.settings.bits)
    sorter = PairSorter(Path(tempfile.gettempdir()), MEMORY_BYTES)
    for keys, ids in snapshot.rows():
        assert ids is not None
        sorter.add(ids, keys)
    pairs = sorter.finish()
    held: tuple[Ids, Keys] = (np.empty(0, np.uint64), np.empty(0, np.uint64))
    try:
        for ids, keys in pairs.chunks():
            ids, keys = np.concatenate([held[0], ids]), np.concatenate([held[1], keys])
            end = int(ids.searchsorted(ids[-1]))  # more of the last id may come
            if end:
                yield _made(keys[:end], ids[:end], banding)
            held = ids[end:], keys[end:]
        if len(held[0]):
            yield _made(held[1], held[0], banding)
    finally:
        pairs.close()


def _made(keys: Keys, ids: Ids, banding: Banding) -> tuple[Ids, Keys]:
    made, own = documents_of(keys, ids, banding)
    assert own is not None
    return own, made


def _groups(ids: Ids, distinct: Ids) -> tuple[list[int], list[int]]:
    """Where each of the distinct ids begins among sorted ones, and how often it is there."""
    first, end = ids.searchsorted(distinct), ids.searchsorted(distinct, side="right")
    return first.tolist(), (end - first).tolist()


def expect_batch(count: int, most: int) -> None:
    """ValueError for more than may be tested, or stored in place of others, at once."""
    if count > most:
        raise ValueError(f"found {count} signatures at once, expected at most {most}")


def columns_of(signed: Signed, ids: Ids | None) -> tuple[Keys, ...]:
    """Documents as the columns of a change: the keys of each band, the ids, the words of the sketches."""
    own = [] if ids is None else [ids]
    words = () if signed.sketches is None else np.ascontiguousarray(signed.sketches.T)
    return (*np.ascontiguousarray(signed.keys.T), *own, *words)


class DocumentWriter(Writer):
    """Writes to a store of signatures; what changes nothing but removals is as in any other."""

    def __init__(self, folder: Path, **options: Any) -> None:
        """As of Writer."""
        super().__init__(folder, **options)
        try:
            self._complete_jobs()
        except BaseException:
            with contextlib.closing(self._catalog):
                self._end_jobs()
            raise

    def add_documents(self, signed: Signed, given: Ids | Names | None) -> None:
        """Store signatures, each with its id in a store with ids."""
        large = signed.keys.size >= self.sizes.flush_rows
        with self._ready(publishing=large):
            names, ids, told = self._handles(given)
            if large:
                keys, of_rows = rows_of(signed.keys, ids)
                self._add_segment(keys, of_rows, renewal.names_of_rows(names, ids), self._sketched(signed, ids))
            elif signed.size:
                self._log(_change(self.snapshot, signed, ids, names, told), self._defers)

    def upsert_documents(self, signed: Signed, given: Ids | Names) -> None:
        """Store signatures, each in place of all that has its id, in one durable step; of one id the last counts.

        ValueError for more than batch_rows of them.
        """
        expect_batch(signed.size, self.sizes.batch_rows)
        with self._ready():
            if not signed.size:
                return
            names, ids, _ = self._handles(given)
            last, ids, records, following = renewal.replacing(self.snapshot, ids)
            records += self._records(signed.part(last), ids, names and names.take(last), following)
            with self._uncertain:
                self.snapshot = self.snapshot.extended(records, self._write(records))
            self._start_due_flush()

    def add_new(self, signed: Signed, given: Ids | Names | None, least: float | None) -> SimilarAdditions:
        """Store those that are like none which is stored, nor like an earlier one of them which now is.

        Alike: they share a band, and are as similar as `least`. ValueError for more than batch_rows of them.
        """
        expect_batch(signed.size, self.sizes.batch_rows)
        with self._ready():
            names, ids, _ = self._handles(given)
            before = self.snapshot
            with self._uncertain:  # the pending index gets rows before the log has them
                decision = _Decision(before, signed, ids, names, least)
                for start in range(0, signed.size, self.sizes.piece_rows):
                    decision.decide(range(start, min(start + self.sizes.piece_rows, signed.size)))
                chosen = np.flatnonzero(decision.stored)
                if len(chosen):
                    own = None if ids is None else ids[chosen]
                    records = self._records(
                        signed.part(chosen), own, names and names.take(chosen), before.state.next_change
                    )
                    self.snapshot = decision.snapshot().extended([], self._logged(records, self._defers))
            self._start_due_flush()
            return decision.answer(self.snapshot)

    def _undo_rows(self, keys: Keys, ids: Ids | Names) -> None:
        if not isinstance(ids, Names):  # under which nothing is stored before a job has ended
            self.remove(changes.IDS_REMOVED, ids)  # each of one document

    def _complete_jobs(self) -> None:
        """Store what jobs have kept under names that have ended."""
        state = self.snapshot.state
        if not state.settings.named or state.settings.kept is None:
            return

        def store(keys: Keys, sketches: Keys, names: Names) -> None:
            self.add_documents(Signed(keys, sketches), names)
            self.sync()

        complete(self.home, state.identity, (state.settings.bands, state.settings.words), store)

    def _sketched(self, signed: Signed, ids: Ids | None) -> Sketched | None:
        kept = self.snapshot.settings.kept
        if kept is None or ids is None or signed.sketches is None:
            return None
        return Sketched(ids, signed.sketches, kept)

    def _records(self, signed: Signed, ids: Ids | None, names: Names | None, first: int) -> list[Change]:
        settings = self.snapshot.settings
        columns = columns_of(signed, ids)
        return [*changes.split(ADDED, columns, first, names, settings.bands, settings.words)]


def _change(
    snapshot: Snapshot, signed: Signed, ids: Ids | None, names: Names | None, told: Told | None = None
) -> Change:
    settings, number = snapshot.settings, snapshot.state.next_change
    return Change(number, ADDED, columns_of(signed, ids), names, told, settings.bands, settings.words)


class _Decision:
    """What becomes of documents that are added if they are new, taken in turn, in pieces.

    stored: bool[n], of those that are decided.
    """

    def __init__(
        self, before: Snapshot, signed: Signed, ids: Ids | None, names: Names | None, least: float | None
    ) -> None:
        self._before, self._signed, self._ids, self._names, self._least = before, signed, ids, names, least
        self._now = before
        self._taken = 0  # those before are in the snapshot, if they were stored
        count = signed.size
        self.stored = np.zeros(count, dtype=bool)
        self._match_ids = None if ids is None else np.zeros(count, dtype=np.uint64)
        self._similarity = np.zeros(count, dtype=np.float32)
        self._shared = np.zeros(count, dtype=np.uint16)

    def decide(self, piece: range) -> None:
        """Go on with these."""
        self._take(piece.start)
        own = self._signed.part(slice(piece.start, piece.stop))
        self.stored[piece.start : piece.stop] = True
        for some in self._found(piece):
            self._note(some)
        for index in _sharing(own.keys).tolist():
            # One before it in the piece has a band of its: whether that was stored is known by now.
            place = piece.start + index
            if self._take(place):
                for some in self._found(range(place, place + 1)):
                    self._note(some)

    def _found(self, piece: range) -> Iterator[Similar]:
        """What each is like of what is stored, in the order of an answer, or just the first where these are many."""
        own = self._signed.part(slice(piece.start, piece.stop))
        # Without ids a key has a row in each segment, and all else is in memory.
        room = None if self._ids is None else Room(len(piece), MOST_FOUND, MOST_FOUND)
        try:
            found = ordered(candidates(self._now, own, self._least, piece.start, room), self._now.names)
        except TooManyMatches:
            if len(piece) == 1:
                yield most_similar(self._now, own, self._least, piece.start)
                return
            middle = piece.start + len(piece) // 2
            yield from self._found(range(piece.start, middle))
            yield from self._found(range(middle, piece.stop))
        else:
            yield found

    def _note(self, found: Similar) -> None:
        """The first match of each."""
        first = np.flatnonzero(begins(found.query))
        places = found.query[first]
        self.stored[places] = False
        self._similarity[places], self._shared[places] = found.similarity[first], found.shared_bands[first]
        if self._match_ids is not None and found.ids is not None:
            self._match_ids[places] = found.ids[first]

    def _take(self, end: int) -> bool:
        """Have those before this one in the snapshot; whether anything was stored before it in this batch."""
        own = np.flatnonzero(self.stored[self._taken : end]) + self._taken
        self._taken = end
        if len(own):
            ids = None if self._ids is None else self._ids[own]
            change = _change(self._before, self._signed.part(own), ids, self._names and self._names.take(own))
            # All have the number of the first: what is decided later is told by the state that comes with it.
            self._now = self._now.extended([change], self._before.state.after(1))
        return self._now is not self._before

    def snapshot(self) -> Snapshot:
        """With all that were stored."""
        self._take(len(self.stored))
        return self._now

    def answer(self, snapshot: Snapshot) -> SimilarAdditions:
        """What became of each."""
        ids: Array | None = self._match_ids
        if ids is not None and snapshot.names is not None:
            names = np.unique(ids[~self.stored])
            own = names_in(snapshot, names)
            place = np.minimum(names.searchsorted(ids), max(len(names) - 1, 0))
            empty = "" if snapshot.settings.id_type == "string" else b""
            ids = np.full(len(ids), empty, dtype=own.dtype)
            ids[~self.stored] = own[place[~self.stored]]
        return SimilarAdditions(self.stored, ids, self._similarity, self._shared)


def _sharing(keys: Keys) -> Array:
    """Which documents have a key that an earlier one has: int64[m], in order."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    earlier = first[place.reshape(keys.shape)] // keys.shape[1] < np.arange(len(keys))[:, None]
    return np.flatnonzero(earlier.any(axis=1))
