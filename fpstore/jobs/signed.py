"""Owns how a job sees those signatures that it compares with, as leaders ask for them: of a store, or of its own.

A job without a standing store has its own in memory, and in a file of its folder from which they are read again where
the job goes on. Where they become many they go to a store in that folder, so that memory is bounded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fpstore import minhash
from fpstore.jobs.files import AppendFile
from fpstore.jobs.settings import Settings
from fpstore.minhash import MinHashStore
from fpstore.minhash.leading import Nears, Signed, SignedRows, SketchMemory, sketch_memory
from fpstore.text.confirm import Rooms
from fpstore.text.held import Room
from fpstore.types import Array, Ids, IdType

# So many documents are held in memory before they go to the store: with 16 bands, 270 MB.
MOST_HELD = 1 << 20
# Beside these the shingles by which documents are compared may take as much: in 256 bytes there are those of a
# text of 30 words, and of each document that others are near they are held on to.
ROOMS = Rooms(features=Room(2 << 20, 96, 96 * MOST_HELD), hashes=Room(4 << 20, 256, 256 * MOST_HELD))
_AT_ONCE = 1 << 14


def create_store(path: Path, settings: Settings, bits: int | None = None, id_type: IdType = "uint64") -> None:
    """Make an empty store of signatures for a job."""
    cut = {"bands": settings.bands, "rows_per_band": settings.rows_per_band, "bits": bits}
    minhash.create(path, recipe=settings.recipe, id_type=id_type, **cut).close()  # type: ignore[arg-type]


def own_bytes(store: MinHashStore) -> int:
    """What a document takes in the file of OwnRows."""
    return row_type(store).itemsize


def row_type(store: MinHashStore) -> np.dtype[Any]:
    """A document in such a file."""
    kept = store._settings.kept
    assert kept is not None
    return np.dtype([("keys", "<u8", (store.bands,)), ("sketch", "<u8", (kept.words,))])


def packed_rows(own: Signed, kind: np.dtype[Any]) -> bytes:
    """Documents as such a file has them."""
    rows = np.empty(own.size, dtype=kind)
    rows["keys"], rows["sketch"] = own
    return rows.tobytes()


class OwnRows:
    """Signatures that a job has for itself: those of its documents 0, 1, ... that it kept.

    spilled: so many of them, the first, are in the store; all others are in memory too.
    """

    def __init__(self, store: MinHashStore, file: AppendFile, spilled: int) -> None:
        """Read those of the file that are not in the store."""
        self._store, self._file = store, file
        self._stored = SignedRows(store)
        self.kept = self._stored.kept
        self._type = row_type(store)
        self.spilled = spilled
        if self.count > spilled and len(store.lookup([self.count - 1])):
            self.spilled = self.count  # they went to the store behind the last commit
        self._memory = self._begun()
        for ids, signed in self._since_spill():
            self._memory.add(signed, ids)

    @property
    def path(self) -> Path:
        """That of the file."""
        return self._file.path

    @property
    def count(self) -> int:
        """How many there are."""
        return self._file.length // self._type.itemsize

    def _begun(self) -> SketchMemory:
        store = self._store
        return sketch_memory(store.values, store.bands, store.rows_per_band, self.spilled)

    def _since_spill(self) -> Iterator[tuple[Ids, Signed]]:
        rows = np.frombuffer(self._file.view(), dtype=self._type)
        for at in range(self.spilled, len(rows), _AT_ONCE):
            own = rows[at : at + _AT_ONCE]
            ids = np.arange(at, at + len(own), dtype=np.uint64)
            yield ids, Signed(np.ascontiguousarray(own["keys"]), np.ascontiguousarray(own["sketch"]))

    def cut(self, signatures: Array) -> Signed:
        """As of SketchMemory."""
        return self._memory.cut(signatures)

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """As of SketchMemory."""
        found = self._memory.near(own, least, limit, most_rows)
        if not self.spilled:
            return found
        older = self._stored.near(own.part(slice(found.answered)), least, limit, most_rows)
        query = np.concatenate([older.query, found.query])
        distance = np.concatenate([older.distance, found.distance])
        return Nears.of(older.answered, query, distance, np.concatenate([older.id, found.id]), limit)

    def add(self, own: Signed, ids: Ids) -> None:
        """As of SketchMemory."""
        self._file.write(packed_rows(own, self._type))
        self._memory.add(own, ids)

    def sync(self) -> None:
        """What was added is on the disk when this returns."""
        self._file.sync()

    @property
    def is_full(self) -> bool:
        """Whether settle moves them."""
        return len(self._memory) >= MOST_HELD

    def settle(self) -> None:
        """All before was committed: what is in memory goes to the store where it is much, in one step."""
        if not self.is_full:
            return
        every = list(self._since_spill())
        keys = np.concatenate([signed.keys for _, signed in every])
        sketches = np.concatenate([signed.sketches for _, signed in every if signed.sketches is not None])
        self._stored.add(Signed(keys, sketches), np.concatenate([ids for ids, _ in every]))
        self._stored.sync()
        self.spilled = self.count
        self._memory = self._begun()
