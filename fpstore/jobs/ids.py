"""Owns how a job sees what a store of signatures has: ids in an order, each with all its signatures, and who leads.

Two ids are near where a band of the one is a band of the other, and as similar as the two of their signatures that are
the most so, as in a pair of the store. So an id is a row for each of its keys beside each of its sketches; one with a
signature has one row. Rows lie in a file, and those of leaders in another one, and in memory as OwnRows has them.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore import minhash
from fpstore.jobs.files import AppendFile
from fpstore.jobs.journal import Job
from fpstore.jobs.signed import OwnRows, packed_rows, row_type
from fpstore.minhash import MinHashStore
from fpstore.minhash.leading import Nears, Signed, documents_by_id
from fpstore.types import Array, Counts, Ids

# Of the rows of one id so many are looked up together.
_ROWS_AT_ONCE = 1 << 12


class IdRows:
    """The rows of ids, by the places that these have in an order, as leaders see them.

    What was cut last is what is asked about, or held, next.
    """

    def __init__(self, rows: Array, starts: Counts, sizes: Counts, own: OwnRows) -> None:
        """rows: all rows. starts, sizes: of each place where its rows are, and how many. own: of those that lead."""
        self._rows, self._starts, self._sizes, self._own = rows, starts, sizes, own
        self.kept = own.kept
        self._cut = Signed(rows["keys"][:0], rows["sketch"][:0])
        self._is_one = False
        self._leaders = np.empty(0, dtype=np.uint64)  # the cluster of each row that leads, with room for more

    @property
    def path(self) -> Path:
        """That of the rows that lead."""
        return self._own.path

    def cut(self, places: Counts) -> Signed:
        """A row for each of these places, or of the first ones; of an id with several, which comes alone, the first."""
        sizes = self._sizes[places]
        several = np.flatnonzero(sizes > 1)
        self._is_one = bool(len(several)) and not int(several[0])
        if self._is_one:
            at = self._starts[places[0]] + np.arange(sizes[0])
        else:
            at = self._starts[places[: int(several[0])] if len(several) else places]
        rows = self._rows[at]
        self._cut = Signed(np.ascontiguousarray(rows["keys"]), np.ascontiguousarray(rows["sketch"]))
        return self._cut.part(slice(1)) if self._is_one else self._cut

    def near(self, own: Signed, least: float | None, limit: int, most_rows: int) -> Nears:
        """As of SketchMemory; of ids."""
        if not self._is_one:
            found = self._own.near(own, least, limit, most_rows)
            return found._replace(id=self._leaders_of(found.id))
        distances, leaders, at = [], [], 0
        while at < self._cut.size:
            found = self._own.near(self._cut.part(slice(at, at + _ROWS_AT_ONCE)), least, limit, most_rows)
            distances.append(found.distance)
            leaders.append(self._leaders_of(found.id))
            at += found.answered
        distance = np.concatenate(distances)
        return Nears.of(1, np.zeros(len(distance), dtype=np.int64), distance, np.concatenate(leaders), limit)

    def add(self, own: Signed, ids: Ids) -> None:
        """Hold those of these that lead, given the numbers of their clusters."""
        if self._is_one and len(ids):
            own, ids = self._cut, np.repeat(ids, self._cut.size)
        count = self._own.count
        if count + own.size > len(self._leaders):
            self._leaders = np.resize(self._leaders, 2 * (count + own.size))
        self._leaders[count : count + own.size] = ids
        self._own.add(own, np.arange(count, count + own.size, dtype=np.uint64))
        self._own.settle()

    def _leaders_of(self, rows: Ids) -> Ids:
        return self._leaders[rows.astype(np.int64)]


class Listed(NamedTuple):
    """The ids of a store, as answers have them, and where the rows of each lie: so many from a start on."""

    ids: Array
    rows: Array
    starts: Counts
    sizes: Counts


@contextmanager
def listed(store: MinHashStore, job: Job) -> Iterator[Listed]:
    """What a store has at this moment, by id; of names in the order of what stands for them."""
    with closing(AppendFile(job.work_folder, "rows", 0)) as file:
        kind, ids, sizes = row_type(store), list[Array](), [np.empty(0, dtype=np.int64)]
        for own, counts, signed in documents_by_id(store):
            ids.append(own)
            sizes.append(counts)
            file.write(packed_rows(signed, kind))
        every = np.concatenate(sizes)
        own_ids = np.concatenate(ids) if ids else np.empty(0, dtype=np.uint64)
        yield Listed(own_ids, np.frombuffer(file.view(), dtype=kind), np.cumsum(every) - every, every)


@contextmanager
def leading(store: MinHashStore, job: Job, found: Listed, order: Counts) -> Iterator[IdRows]:
    """The ids of a store in an order, none of which leads yet."""
    path = job.work / "store"
    shutil.rmtree(path, ignore_errors=True)
    cut = {"bands": store.bands, "rows_per_band": store.rows_per_band, "bits": store._settings.bits}
    with (
        job.hold(minhash.create(path, values=store.values, durability="batch", **cut)) as own,  # type: ignore[arg-type]
        closing(AppendFile(job.work_folder, "leaders", 0)) as file,
    ):
        yield IdRows(found.rows, found.starts[order], found.sizes[order], OwnRows(own, file, 0))
