"""Owns the fingerprints that a job compares with where it has no standing store: those of the documents that it kept.

They are in memory, and in the record of the documents, from which they are read again where the job goes on. Where they
become many they go to a store in the job's folder, so that memory is bounded.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fpstore import Store
from fpstore.jobs.settings import Settings
from fpstore.jobs.spool import Spool
from fpstore.query.key_memory import MOST_DISTANCE, KeyMemory
from fpstore.query.matches import Matches, made
from fpstore.query.nearest import first_of
from fpstore.types import Ids, Keys

# So many fingerprints are held in memory before they go to the store: 160 MB.
MOST_HELD = 1 << 21
_AT_ONCE = 1 << 16


def fits_memory(settings: Settings) -> bool:
    """Whether the documents of a job are compared in this way: by fingerprints of 64 bits, within few of these."""
    return not settings.signs and settings.words == 1 and settings.max_distance <= MOST_DISTANCE


class OwnKeys:
    """The fingerprints of documents 0, 1, ... that a job kept.

    spilled: so many of them, the first, are in a store; all others are in memory.
    """

    def __init__(
        self, path: Path, spool: Spool, settings: Settings, spilled: int, opened: Callable[[], Store], threads: int
    ) -> None:
        """Read those of the record that are not in the store. opened: the store, for writing, which it makes."""
        self.path, self._spool, self._opened = path, spool, opened
        self._max_distance, self._threads = settings.max_distance, threads
        self.spilled = spilled
        self._store = opened() if spilled else None
        self._memory = KeyMemory(self._max_distance, spilled, threads)
        ids, keys = spool.rows()
        for at in range(spilled, len(ids), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            self._memory.add(keys[part].astype(np.uint64), ids=ids[part].astype(np.uint64))

    @property
    def identity(self) -> str | None:
        """That of the store, None while there is none."""
        return None if self._store is None else self._store.identity

    def nearest_many(
        self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """As of a store."""
        found = self._memory.nearest_many(fingerprints, count, max_distance=max_distance)
        if self._store is None:
            return found
        older = self._store.nearest_many(fingerprints, count, max_distance=max_distance, threads=threads)
        return self._of_both(older, found, count)

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """As of a store."""
        found = self._memory.probe_many(fingerprints, max_distance=max_distance)
        if self._store is None:
            return found
        older = self._store.probe_many(fingerprints, max_distance=max_distance)
        return self._of_both(older, found, len(older) + len(found))

    def _of_both(self, older: Matches, found: Matches, count: int) -> Matches:
        """The first `count` rows of each query; some may be in both, as the job was interrupted at the store."""
        parts = [(each.query, each.fingerprint, each.distance, each.id) for each in (older, found)]
        return made(*first_of(parts, count))

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """Hold them, for the next question; the record has them already."""
        self._memory.add(fingerprints, ids=ids)

    def sync(self) -> None:
        """What was added is on the disk when this returns."""
        self._spool.sync()

    @property
    def is_full(self) -> bool:
        """Whether settle moves them."""
        return len(self._memory) >= MOST_HELD

    def settle(self) -> None:
        """All before was committed: what is in memory goes to the store where it is much."""
        if not self.is_full:
            return
        if self._store is None:
            self._store = self._opened()
        ids, keys = self._spool.rows()
        for at in range(self.spilled, len(ids), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            self._store.add(keys[part].astype(np.uint64), ids=ids[part].astype(np.uint64))
        self._store.sync()
        self.spilled = len(ids)
        self._memory = KeyMemory(self._max_distance, self.spilled, self._threads)

    def wait(self) -> None:
        """As of a store."""
        if self._store is not None:
            self._store.wait()
