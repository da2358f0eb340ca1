"""Owns how a job sees a store of signatures whose ids are names: by numbers, as it sees any other.

The store gets what the job keeps when the job has ended (fpstore.later), so until then that is held in a file of the
job's folder, in memory, and in a store of the job's own where it becomes much. A document that the job keeps has a
number, under which the record has its name; what the store has goes by the smaller numbers that stand for its names.
Where texts are compared a name can have several, so all documents are known by their numbers in the record alone:
their signatures are made again of their texts whenever the job begins or goes on.
"""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np

from fpstore import minhash
from fpstore.jobs.corpus import BATCH_BYTES, BATCH_DOCUMENTS
from fpstore.jobs.files import AppendFile
from fpstore.jobs.journal import Job
from fpstore.jobs.naming import names_of
from fpstore.jobs.settings import Settings
from fpstore.jobs.signed import OwnRows, create_store, own_bytes
from fpstore.jobs.spool import Spool
from fpstore.minhash import MinHashStore
from fpstore.minhash.leading import NamedRows, Nears, Signed
from fpstore.text.deduplication import measured_apart
from fpstore.types import Array, Ids

# What the job keeps: the keys and the sketch of each. Beside it a store for what is much; and the same of the record.
KEPT = "signed"
_STORE, _EARLIER = "store", "earlier"


class HeldRows:
    """The documents of a store of signatures with names and those that a job keeps, as leaders see them.

    lacking: how many rows of the store are of no text in the record, where texts are compared.
    """

    def __init__(
        self, rows: NamedRows, older: "NamedRows | EarlierRows", own: OwnRows, spool: Spool, first_id: int
    ) -> None:
        """older: what has those that were there before; first_id: the number of the first that the job keeps."""
        self._rows, self._older, self._own, self._spool, self._first_id = rows, older, own, spool, first_id
        self.kept = rows.kept
        self.lacking = older.lacking if isinstance(older, EarlierRows) else 0

    @property
    def path(self) -> Path:
        """That of the store."""
        return self._rows.path

    @property
    def spilled(self) -> int:
        """As of OwnRows."""
        return self._own.spilled

    def cut(self, signatures: Array) -> Signed:
        """As the store has them."""
        return self._rows.cut(signatures)

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """As of SketchMemory."""
        found = self._own.near(own, least, limit, most_rows)
        older = self._older.near(own.part(slice(found.answered)), least, limit, most_rows)
        query = np.concatenate([older.query, found.query])
        distance = np.concatenate([older.distance, found.distance])
        ids = np.concatenate([older.id, found.id + np.uint64(self._first_id)])
        return Nears.of(older.answered, query, distance, ids, limit)

    def add(self, own: Signed, ids: Ids) -> None:
        """Hold documents of the record, given their numbers."""
        self._own.add(own, ids - np.uint64(self._first_id))

    def known(self, fingerprints: Array, names: Sequence[str]) -> Array:
        """As of NamedRows of fingerprints: none is in the store before the job has ended."""
        return np.zeros(len(fingerprints), dtype=bool)

    def names(self, ids: Ids) -> list[str]:
        """What documents are called."""
        return names_of(ids, self._spool, self._rows.names)

    def sync(self) -> None:
        """What was added is on the disk when this returns."""
        self._own.sync()

    @property
    def is_full(self) -> bool:
        """As of OwnRows."""
        return self._own.is_full

    def settle(self) -> None:
        """As of OwnRows."""
        self._own.settle()


class EarlierRows:
    """Those documents of the record that the store still has, by their numbers. lacking: how many others that has."""

    def __init__(
        self, rows: NamedRows, own: OwnRows, spool: Spool, first_id: int, settings: Settings, threads: int
    ) -> None:
        """first_id: the number of the first document that is none of these."""
        self._own, self._rows, self._spool = own, rows, spool
        self._key = secrets.randbits(64)
        there = rows.signs(self._key)
        seen = np.zeros(len(there), dtype=bool)
        numbers = [np.empty(0, dtype=np.uint64)]
        came_again, at = spool.came_again(first_id), 0
        for ids in spool.pieces(first_id, BATCH_DOCUMENTS, BATCH_BYTES):
            signed = rows.cut(measured_apart(settings.recipe, _texts(spool, ids), threads).fingerprints)
            numbers.append(self._add(ids, signed, there, seen, came_again[at : at + len(ids)]))
            at += len(ids)
        self._numbers = np.concatenate(numbers)
        self.lacking = int(np.count_nonzero(~seen))

    def _add(self, ids: Ids, signed: Signed, there: Array, seen: Array, came_again: Array) -> Ids:
        """Hold those of these that are there, and did not come again; which they are."""
        names = self._spool.packed_names(ids)
        assert names is not None
        signs, live = self._rows.signs_of(names.data, names.offsets[1:], signed, self._key)
        places = np.minimum(there.searchsorted(signs), max(len(there) - 1, 0))
        live &= (there[places] == signs) if len(there) else False
        seen[places[live]] = True
        live &= ~came_again
        count = self._own.count
        self._own.add(signed.part(live), np.arange(count, count + np.count_nonzero(live), dtype=np.uint64))
        self._own.settle()
        return ids[live]

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """As of SketchMemory."""
        found = self._own.near(own, least, limit, most_rows)
        return found._replace(id=self._numbers[found.id.astype(np.int64)])


def _texts(spool: Spool, ids: Ids) -> Sequence[str]:
    packed = spool.packed_texts(ids)
    return [text or "" for text in spool.texts(ids)] if packed is None or packed.has_halves else packed


@contextmanager
def opened_rows(
    store: MinHashStore, job: Job, settings: Settings, spool: Spool, first_id: int, *, texts: bool, threads: int
) -> Iterator[HeldRows]:
    """Those of a store, and of the job as they were at its last commit; first_id: the number of its first document."""
    rows = NamedRows(store, threads)
    state = job.state or {}
    count = state.get("next_id", first_id) - first_id
    with ExitStack() as stack:
        own = stack.enter_context(_own_rows(store, job, settings, _STORE, KEPT, count, state.get("spilled", 0)))
        older: NamedRows | EarlierRows = rows
        if texts:
            earlier = stack.enter_context(_own_rows(store, job, settings, f"{_EARLIER}-{_STORE}", _EARLIER, 0, 0))
            older = EarlierRows(rows, earlier, spool, first_id, settings, threads)
        yield HeldRows(rows, older, own, spool, first_id)


@contextmanager
def _own_rows(
    store: MinHashStore, job: Job, settings: Settings, name: str, file: str, count: int, spilled: int
) -> Iterator[OwnRows]:
    """So many documents of a file in the job's folder, of which the first went to a store there."""
    path = job.work / name
    if not spilled:
        shutil.rmtree(path, ignore_errors=True)
        create_store(path, settings, store._settings.bits)
    with (
        job.hold(minhash.open(path, "w", durability="batch")) as own,
        closing(AppendFile(job.work_folder, file, count * own_bytes(own))) as rows,
    ):
        yield OwnRows(own, rows, spilled)
