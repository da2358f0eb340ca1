"""Fingerprints of 64 bits in memory alone: those that leaders are compared with."""

from functools import partial
from pathlib import Path

import numpy as np

from fpstore._key_index import MOST_DISTANCE as MOST_DISTANCE
from fpstore._key_index import KeyIndex
from fpstore.query.matches import Matches, concatenate, made
from fpstore.threads import Line, Piece, Threads, slices
from fpstore.types import Ids, Keys

# So many are looked for together, and added by whoever asks for that: four threads share a piece of a job.
_AT_ONCE = 1024


class KeyMemory:
    """Fingerprints whose ids follow one another: some 100 bytes for each where they are a million. One user at a time.

    It answers as a store with these rows does.
    """

    path = Path("memory")

    def __init__(self, max_distance: int, first_id: int = 0, threads: int = 1) -> None:
        """max_distance: what it is searched by at most, MOST_DISTANCE or less. first_id: that of the first one.

        threads: with several they share what is looked for, and what is added is held while its caller goes on.
        """
        self._max_distance, self._first_id, self._threads = max_distance, first_id, threads
        self._index = KeyIndex(max_distance)
        self._count = 0
        self._team = Threads(threads)
        self._line = Line()
        self._adding: Piece | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """What it takes."""
        self._wait()
        return self._index.nbytes

    def nearest_many(
        self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """As Store.nearest_many; by the threads that it has."""
        if max_distance not in (None, self._max_distance):
            raise ValueError(f"max_distance: found {max_distance}, expected {self._max_distance}, as it was made for")
        self._wait()
        parts = slices(len(fingerprints), self._threads, _AT_ONCE, _AT_ONCE)
        if self._threads == 1 or len(parts) < 2:
            return self._near(fingerprints, count)

        def near(part: slice) -> Matches:
            return self._near(fingerprints[part], count, part.start)

        return concatenate(self._team.map(near, parts), with_ids=True)

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """As Store.probe_many."""
        self._wait()
        found = self._near(fingerprints, max(1, len(self)))
        assert found.id is not None
        if max_distance is None:
            return found
        near = found.distance <= max_distance
        return made(found.query[near], found.fingerprint[near], found.distance[near], found.id[near])

    def _near(self, fingerprints: Keys, count: int, first_query: int = 0) -> Matches:
        query, fingerprint, distance, rows = self._index.near(fingerprints, count)
        return made(query + first_query, fingerprint, distance, rows + np.uint64(self._first_id))

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Hold more, which nobody changes any more; ids: those that follow."""
        assert not len(ids) or int(ids[0]) == self._first_id + len(self)
        self._wait()
        self._count += len(fingerprints)
        if self._threads == 1 or len(fingerprints) < _AT_ONCE:
            self._index.add(fingerprints)
            return
        self._adding = self._line.give(partial(self._index.add, fingerprints))

    def _wait(self) -> None:
        """Until what was added is held."""
        if self._adding is not None:
            self._adding.finish()
            # Not before: what was not held is told of again, and who was interrupted waits the next time.
            self._adding = None
