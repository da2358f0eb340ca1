"""The documents that share a band with one signature, where these are very many: looked at some at a time, in memory
that does not grow with them, and no further than the answer needs."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fpstore._probe import search
from fpstore.errors import Naming
from fpstore.living.live import Live, alive
from fpstore.living.naming import StoreNames
from fpstore.living.similar import Similar
from fpstore.living.sketched import similar_in
from fpstore.living.snapshot import Snapshot
from fpstore.sketches.bands import Signed
from fpstore.types import Array, Ids, Keys

# Of a bucket so many rows are looked at first, as the first may be all it takes, then twice as many, up to most.
FIRST_ROWS = 1 << 8
MOST_ROWS = 1 << 14


class _Run(NamedTuple):
    """The ids of a key in a segment, increasing: those at [first, first + size)."""

    part: Live
    key: Keys
    first: int
    size: int

    def ids(self, start: int, end: int) -> Ids:
        """Some of them."""
        column = self.part.segment.ids
        assert column is not None
        with self.part.segment.naming:
            found: Ids = column.values(*np.array([[self.first + start], [end - start]], dtype=np.uint64))
        return found

    def has(self, wanted: int) -> bool:
        """Whether this one is among them."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            if int(self.ids(middle, middle + 1)[0]) < wanted:
                low = middle + 1
            else:
                high = middle
        return low < self.size and int(self.ids(low, low + 1)[0]) == wanted


class Crowd:
    """What shares a band with one signature, in a store with ids.

    last: an id; only those up to it are asked for from then on. most: what no similarity exceeds.
    """

    most = 1.0

    def __init__(self, snapshot: Snapshot, signed: Signed) -> None:
        """signed: one."""
        self._snapshot, self._keys = snapshot, signed.keys[0]
        self._sketches = None if snapshot.settings.kept is None else signed.sketches
        self._runs = [self._runs_of(self._keys[band : band + 1]) for band in range(len(self._keys))]
        band, _, _, ids, positions = snapshot.pending.search(self._keys, 0, snapshot.pending_end)
        assert ids is not None
        ends = band.searchsorted(np.arange(1, len(self._keys)))
        self._pending = list(zip(np.split(ids, ends), np.split(positions, ends), strict=True))
        self.last = (1 << 64) - 1

    def _runs_of(self, key: Keys) -> list[_Run]:
        runs = []
        for part in self._snapshot.searched:
            segment = part.segment
            assert segment.ids is not None
            with segment.naming:
                if len(search(segment.view, key, 0)[0]):
                    first, count = segment.ids.ranges(key)
                    runs.append(_Run(part, key, int(first[0]), int(count[0])))
        return runs

    def pieces(self) -> Iterator[tuple[Ids, Array]]:
        """Ids of documents and how similar these are, of each those of one band together; without signatures `most`.

        One that shares several bands comes for each of them.
        """
        for band, runs in enumerate(self._runs):
            for ids in self._live_of(band, runs):
                yield ids, self._similarities(ids)

    def _live_of(self, band: int, runs: list[_Run]) -> Iterator[Ids]:
        for run in runs:
            start, size = 0, FIRST_ROWS
            while start < run.size:
                ids = run.ids(start, min(start + size, run.size))
                if int(ids[0]) > self.last:
                    break
                yield from self._live(band, ids, run.part.position)
                start, size = start + len(ids), min(2 * size, MOST_ROWS)
        ids, positions = self._pending[band]
        for start in range(0, len(ids), MOST_ROWS):
            own = slice(start, start + MOST_ROWS)
            few = ids[own] <= np.uint64(self.last)
            yield from self._live(band, ids[own][few], positions[own][few])

    def _live(self, band: int, ids: Ids, positions: int | Keys) -> Iterator[Ids]:
        """Those that live, if there are any."""
        kept = alive(self._snapshot.removals, np.full(len(ids), self._keys[band]), ids, positions)
        ids = ids if kept is None else ids[kept]
        if len(ids):
            yield ids

    def _similarities(self, ids: Ids) -> Array:
        if self._sketches is None:
            return np.full(len(ids), self.most, dtype=np.float32)
        with Naming(self._snapshot.folder):
            return similar_in(self._snapshot).similarities(self._sketches, ids)

    def shared_bands(self, id: int) -> int:
        """How many bands this one shares."""
        return sum(self._shares(band, id) for band in range(len(self._keys)))

    def _shares(self, band: int, id: int) -> bool:
        asked = np.array([id], dtype=np.uint64)
        for run in self._runs[band]:
            if run.has(id) and any(map(len, self._live(band, asked, run.part.position))):
                return True
        ids, positions = self._pending[band]
        own = ids == asked
        return any(map(len, self._live(band, ids[own], positions[own])))


def most_similar(snapshot: Snapshot, signed: Signed, least: float | None, query: int) -> Similar:
    """Of the documents that share a band with one signature the first in the order of an answer, if there is any.

    query: what it is called there. Where ids are names, those as similar as the first are held, 8 bytes each.
    """
    crowd = Crowd(snapshot, signed)
    best, first = -np.inf if least is None else np.float32(least), _First(snapshot.names)
    for ids, similarity in crowd.pieces():
        top = similarity.max()
        if top < best:
            continue
        if top > best:
            best, first = top, _First(snapshot.names)
        first.see(ids[similarity == top])
        if best >= crowd.most and snapshot.names is None:
            crowd.last = first.id
    found = np.array([first.id] if first else [], dtype=np.uint64)
    known = np.nan if snapshot.settings.kept is None else best
    return Similar(
        np.full(len(found), query, dtype=np.int64),
        found,
        np.full(len(found), known, dtype=np.float32),
        np.array([crowd.shared_bands(id) for id in found.tolist()], dtype=np.uint16),
    )


def is_similar(snapshot: Snapshot, signed: Signed, least: float | None) -> bool:
    """Whether there is a document that shares a band with one signature, and is as similar as `least`."""
    return any(
        least is None or bool((similarity >= np.float32(least)).any())
        for _, similarity in Crowd(snapshot, signed).pieces()
    )


class _First:
    """The first of ids in the order of an answer: the least number, or that of the least name."""

    def __init__(self, names: StoreNames | None) -> None:
        self._names = names
        self._ids: list[Ids] = []
        self._held = self._distinct = 0

    def __bool__(self) -> bool:
        return bool(self._ids)

    def see(self, ids: Ids) -> None:
        """Some of them, one or more; they may come again."""
        if self._names is None:
            self._ids = [np.array([min(int(each.min()) for each in (*self._ids, ids))], dtype=np.uint64)]
            return
        self._ids.append(ids)
        self._held += len(ids)
        if self._held > 2 * self._distinct + MOST_ROWS:
            self._ids = [np.unique(np.concatenate(self._ids))]
            self._held = self._distinct = len(self._ids[0])

    @property
    def id(self) -> int:
        """That one."""
        if self._names is None:
            return int(self._ids[0][0])
        ids = np.unique(np.concatenate(self._ids))
        first = ids[:1]
        for start in range(1, len(ids), MOST_ROWS):
            some = np.concatenate([first, ids[start : start + MOST_ROWS]])
            at = int(self._names.of(some).ranks().argmin())
            first = some[at : at + 1]
        return int(first[0])
