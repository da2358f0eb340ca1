"""Owns how signatures are seen by who asks which leaders a document is near: those of a store, and those in memory."""

from pathlib import Path

import numpy as np

from fpstore.errors import TooManyMatches
from fpstore.living.memory import MEMORY_BITS as MEMORY_BITS
from fpstore.living.memory import sketch_memory as sketch_memory
from fpstore.minhash.store import MinHashStore
from fpstore.sketches.bands import Signed as Signed
from fpstore.sketches.kept import Kept
from fpstore.sketches.memory import Nears as Nears
from fpstore.sketches.memory import SketchMemory as SketchMemory
from fpstore.types import Array, Ids


class SignedRows:
    """A store of signatures, as leaders see it."""

    def __init__(self, store: MinHashStore, threads: int = 1) -> None:
        self._store, self._threads = store, threads
        kept = store._settings.kept
        assert kept is not None
        self.kept: Kept = kept

    @property
    def path(self) -> Path:
        """That of the store."""
        return self._store.path

    def cut(self, signatures: Array) -> Signed:
        """As of SketchMemory."""
        return self._store._in_bands(signatures)

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """As of SketchMemory; TooManyMatches where one document alone has more than an answer holds."""
        answered = own.size
        while True:
            some = own.part(slice(answered))
            try:
                most = most_rows if answered > 1 else None
                found = self._store._answer(answered, some.part, least, self._threads, most)
                if len(found) <= most_rows or answered == 1:
                    break
            except TooManyMatches:
                if answered == 1:
                    raise
            answered //= 2
        ids = np.empty(0, dtype=np.uint64) if found.id is None else found.id
        return Nears.of(answered, found.query, self.kept.differing(found.similarity), ids, limit)

    def add(self, own: Signed, ids: Ids) -> None:
        """As of SketchMemory, under any ids."""
        self._store._expect_documents().add_documents(own, ids)

    def sync(self) -> None:
        """As of a store."""
        self._store.sync()

    def settle(self) -> None:
        """All before was committed."""
