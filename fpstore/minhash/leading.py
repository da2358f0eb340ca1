"""Owns how signatures are seen by who asks which leaders a document is near: those of a store, and those in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fpstore import _names
from fpstore.base import Reading
from fpstore.errors import TooManyMatches
from fpstore.living.documents import all_documents
from fpstore.living.memory import MEMORY_BITS as MEMORY_BITS
from fpstore.living.memory import sketch_memory as sketch_memory
from fpstore.living.named import names_in
from fpstore.living.similar import sketch_counts
from fpstore.living.sketched import all_sketches, sketches_of
from fpstore.minhash.store import MinHashStore
from fpstore.names.column import Names
from fpstore.sketches.bands import Signed as Signed
from fpstore.sketches.kept import Kept
from fpstore.sketches.memory import Nears as Nears
from fpstore.sketches.memory import SketchMemory as SketchMemory
from fpstore.types import Array, Bytes, Counts, Ids, Keys

# What one id with several signatures may come to, each of whose keys is seen beside each of its sketches.
MOST_ROWS = 1 << 18


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


class NamedRows(SignedRows):
    """A store whose ids are names, by what stands for these: their handles."""

    def __init__(self, store: MinHashStore, threads: int = 1) -> None:
        super().__init__(store, threads)
        store._gives_handles = True

    def names(self, handles: Ids) -> Sequence[str]:
        """The names that handles stand for."""
        with Reading(self._store) as snapshot:
            found: list[str] = names_in(snapshot, handles).tolist()
            return found

    def signs(self, key: int) -> Keys:
        """The sign of each row that the store has, each once, in order: uint64[m]."""
        with Reading(self._store) as snapshot:
            found = [_signs(ids, sketches, key) for ids, sketches in all_sketches(snapshot)]
        return np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *found]))

    def signs_of(self, data: Bytes, ends: Counts, own: Signed, key: int) -> tuple[Keys, Array]:
        """The signs of rows, uint64[n], and whether their names have a handle, without which they are none, bool[n].

        Name i ends at data[ends[i]].
        """
        assert own.sketches is not None
        with Reading(self._store) as snapshot:
            assert snapshot.names is not None
            handles, known = snapshot.names.handles(Names(data, ends))
        return _signs(handles, own.sketches, key), known


def documents_by_id(store: MinHashStore) -> Iterator[tuple[Array, Counts, Signed]]:
    """Of one state of a store all ids, in order, some at a time; of each how many rows it has; and these, in turn.

    ids: as answers have them; names in the order of what stands for them. One with a signature has that as its row.
    Else there is a row for each of its keys beside each of its sketches, as of which signature they are nothing tells.
    ValueError where these are more than MOST_ROWS.
    """
    with Reading(store) as snapshot:
        for ids, keys in all_documents(snapshot):
            distinct, counts = np.unique(ids, return_counts=True)
            of, sketches = sketches_of(snapshot, distinct)
            others = sketch_counts(snapshot, distinct, of)
            told: Array = distinct if snapshot.names is None else names_in(snapshot, distinct)
            if len(ids) == len(of) == len(distinct):
                yield told, counts, Signed(keys, sketches)
                continue
            parts, first, start = [], 0, 0
            for index, (count, other) in enumerate(zip(counts.tolist(), others.tolist(), strict=True)):
                own = sketches[start : start + other]
                own = np.unique(own, axis=0) if other > 1 else own
                if count * len(own) > MOST_ROWS:
                    wrong = f"found {len(own)} signatures under id {told.tolist()[index]!r:.40}, expected one, or a few"
                    raise ValueError(f"{store.path}: {wrong}: upsert it with one, or take --components")
                parts.append(Signed(keys[first : first + count].repeat(len(own), axis=0), np.tile(own, (count, 1))))
                first, start = first + count, start + other
            sizes = np.array([part.size for part in parts], dtype=np.int64)
            rows = (np.concatenate(column) for column in zip(*parts, strict=True))
            yield told, sizes, Signed(*rows)


def _signs(ids: Ids, sketches: Keys, key: int) -> Keys:
    """A hash of each id and sketch, by a key that no stranger knows: uint64[n]."""
    rows = np.column_stack([ids, sketches])
    ends = np.arange(1, len(rows) + 1, dtype=np.int64) * (rows.shape[1] * rows.itemsize)
    return _names.hashes(rows.reshape(-1).view(np.uint8), ends, key)
