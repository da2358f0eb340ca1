"""Owns how a job makes and sees a store of signatures, whose ids are numbers: as leaders ask it."""

from pathlib import Path
from typing import Any

from fpstore import minhash
from fpstore.jobs.settings import Settings
from fpstore.minhash import MinHashStore, SimilarMatches
from fpstore.types import Ids, Keys


def create_store(path: Path, settings: Settings) -> None:
    """Make an empty store of signatures for a job."""
    minhash.create(path, bands=settings.bands, rows_per_band=settings.rows_per_band, recipe=settings.recipe).close()


class SignedRows:
    """A store of signatures, as leaders see it."""

    def __init__(self, store: MinHashStore) -> None:
        self._store = store
        kept = store._settings.kept
        assert kept is not None
        self.kept = kept

    @property
    def path(self) -> Path:
        """That of the store."""
        return self._store.path

    def probe_many(
        self, signatures: object, *, min_similarity: float | None = None, threads: int | None = None
    ) -> SimilarMatches:
        """As of a store."""
        return self._store.probe_many(signatures, min_similarity=min_similarity, threads=threads)

    def in_bands(self, signatures: Any) -> tuple[Keys, Keys]:
        """The keys of the bands of each, and what is kept of it."""
        signed = self._store._in_bands(signatures)
        assert signed.sketches is not None
        return signed.keys, signed.sketches

    def add(self, signatures: object, *, ids: Ids) -> None:
        """As of a store."""
        self._store.add(signatures, ids=ids)
