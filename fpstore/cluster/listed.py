"""All pairs of a list of stores by tasks: each asks of all stores for some of the fingerprints, and reads all of them.

To be read a fingerprint takes some nanoseconds, and to be looked up in a store some microseconds, so there are as many
tasks as workers and no more, and each has every so many of the batches: they are done at about one time.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import fpstore
from fpstore.cluster.parts import Maker, write_part
from fpstore.cluster.runs import runs_of_pairs
from fpstore.cluster.searching import Seen, expect_seen
from fpstore.cluster.shards import Shards
from fpstore.cluster.shares import search_nanoseconds
from fpstore.cluster.tasks import OfStore, expect_version
from fpstore.cluster.work import MOST_TASKS, claim, name_of
from fpstore.disk import Folder
from fpstore.fingerprints import columns_of
from fpstore.merging import Columns
from fpstore.types import Paired
from fpstore.workers import START_AFTER_SECONDS


@dataclass(frozen=True)
class ListedPairsTask(OfStore):
    """The pairs of every `count`th batch of fingerprints, of one state of each store. store: the list.

    version: of the fpstore that cut it.
    """

    maker: Maker
    version: str
    store: Path
    seen: tuple[Seen, ...]
    folder: Path
    of: Paired
    max_distance: int
    memory_bytes: int
    count: int

    def __str__(self) -> str:
        return f"task {self.maker.task} of the pairs of {self.store}"

    def open(self, path: Path) -> Shards:
        """A list."""
        return Shards(path)

    def run(self, store: Shards) -> int:
        """Write the part; how many pairs it has. StoreChanged where a store, which is open, is not what it was."""
        expect_version(self, self.version)
        with Folder.open(self.folder) as folder:
            for each, seen in zip(store.stores, self.seen, strict=True):
                expect_seen(Path(each.path), seen, each._latest)
            columns = columns_of_listed(store, self.of)
            return write_part(folder, self.maker, columns, ([run] for run in runs_of_pairs(self._found(store))))

    def _found(self, store: Shards) -> Iterator[Columns]:
        near = store._paired(self.max_distance, self.memory_bytes, 1, (self.maker.task, self.count))
        if self.of == "ids":
            for some in store._id_pairs(near):
                yield some.first_id, some.second_id, some.distance.astype(np.uint64)
        else:
            for each in store._pairs(near):
                yield [*columns_of(each.first), *columns_of(each.second), each.distance.astype(np.uint64)]


def columns_of_listed(store: Shards, of: Paired) -> int:
    """How many columns the parts have: as of one store."""
    return 2 * (store._settings.width if of == "fingerprints" else 1) + 1


def listed_tasks(
    store: Shards,
    home: Folder,
    of: Paired,
    distance: int,
    budget: int,
    workers: int,
    asked: int | None,
    sharing: int,
) -> tuple[float, list[ListedPairsTask]]:
    """What all tasks take, in seconds, and the tasks, whose the folder is from now on. JobError where it is not.

    workers: how many share the budget; sharing: how many the work.
    """
    keys = sum(shard.fingerprints for shard in store.shards)
    seconds = sum(search_nanoseconds(each._latest, distance, keys) for each in store.stores) / 1e9
    count = min(asked or (sharing if seconds > START_AFTER_SECONDS else 1), MOST_TASKS)
    seen = tuple(Seen.of(each._latest.state) for each in store.stores)
    job = name_of([fpstore.__version__, [asdict(each) for each in seen], "pairs of a list", of, distance, count])
    claim(home, job, "this store, these pairs", {"of": of, "max_distance": distance, "tasks": count})
    about = fpstore.__version__, store.path, seen, home.path.absolute(), of, distance, budget // min(workers, count)
    return seconds, [ListedPairsTask(Maker(job, number), *about, count) for number in range(count)]
