"""All pairs of documents of a store of signatures by tasks, in order: each task those that are told in some buckets.

A task reads the keys of all documents, which takes about a sixth of what all pairs do (200,000 verses: 0.5 s of 2.8),
so there are as many tasks as workers and no more.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore.arrays import as_count, parse_memory
from fpstore.cluster.gathering import Batches, each_row, gathered
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Maker, write_part
from fpstore.cluster.runs import runs_of_pairs
from fpstore.cluster.searching import Seen, expect_seen
from fpstore.cluster.tasks import OfStore, expect_version
from fpstore.cluster.work import MOST_TASKS, Crew, claim, expect_rank, left_of, name_of, parts_of, workplace
from fpstore.disk import Folder
from fpstore.errors import PathLike
from fpstore.living.similar_pairs import Part, named_similar_pairs
from fpstore.living.similar_pairs import similar_pairs as pairs_in
from fpstore.merging import Columns
from fpstore.minhash import MinHashStore
from fpstore.minhash import open as open_signatures
from fpstore.progress import OnProgress
from fpstore.query.similar import SimilarPairs
from fpstore.workers import START_AFTER_SECONDS

# What all pairs take of a thread, for each key of a document: of the verses above.
ROW_NS = 900.0
# Two ids, and in one word the bands that they share and the bits of their similarity.
_COLUMNS, _SIMILARITY_BITS = 3, np.uint64(32)


@dataclass(frozen=True)
class SimilarTask(OfStore):
    """The pairs that are told in a part of the buckets, of one state of a store. version: of the fpstore that cut."""

    maker: Maker
    version: str
    store: Path
    seen: Seen
    folder: Path
    least: float | None
    memory_bytes: int
    part: Part

    def __str__(self) -> str:
        return f"task {self.maker.task} of the pairs of {self.store}"

    def open(self, path: Path) -> MinHashStore:
        """Of signatures."""
        return open_signatures(path)

    def run(self, store: MinHashStore) -> int:
        """Write the part; how many pairs it has. StoreChanged where the store, which is open, is not what it was."""
        expect_version(self, self.version)
        with Folder.open(self.folder) as folder:
            snapshot = store._latest
            expect_seen(self.store, self.seen, snapshot)
            every = pairs_in(snapshot, self.memory_bytes, self.least, part=self.part)
            runs = runs_of_pairs(_columns(found) for found, _ in every)
            return write_part(folder, self.maker, _COLUMNS, ([run] for run in runs))


def _columns(found: SimilarPairs) -> Columns:
    near = found.similarity.view(np.uint32).astype(np.uint64)
    return found.first_id, found.second_id, found.shared_bands.astype(np.uint64) << _SIMILARITY_BITS | near


def similar_pairs(
    store: PathLike,
    *,
    min_similarity: float | None = None,
    memory: str | int = "1GiB",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Batches[SimilarPairs]:
    """The pairs of `MinHashStore.pairs`, each once, some at a time: by the first of a pair, then by the second.

    Names are in the order in which they were first added. memory: the budget for sorting, of which each process has its
    share. The rest is as for `pairs`; world_size: of how many processes that did tasks by `similar_pairs_rank`.
    """
    crew = Crew.of(engine, address, workers, tasks, folder, progress, world_size)
    opened = open_signatures(store)
    try:
        least, budget = opened._least(min_similarity), parse_memory(memory)
        opened._expect_ids("which pairs are of")
        with crew.begun() as chosen, workplace(folder) as home:
            shared = chosen.workers, crew.tasks, crew.sharing(chosen)
            seconds, every = _tasks(opened, home, least, budget, *shared)
            parts = parts_of(home, chosen, every, seconds, _COLUMNS, progress, "pairs")
        return Batches(opened, parts, _batches(opened, gathered(parts, _COLUMNS, each_row)))
    except BaseException:
        opened.close()
        raise


def similar_pairs_rank(
    store: PathLike,
    *,
    rank: int,
    world_size: int,
    folder: PathLike,
    min_similarity: float | None = None,
    memory: str | int = "1GiB",
    tasks: int | None = None,
) -> int:
    """Do the tasks of one of several processes that no engine starts; as `pairs_rank`."""
    own, count = expect_rank(rank, world_size)
    asked = None if tasks is None else as_count(tasks, "tasks")
    with open_signatures(store) as opened:
        least, budget = opened._least(min_similarity), parse_memory(memory)
        opened._expect_ids("which pairs are of")
        with workplace(folder) as home:
            seconds, every = _tasks(opened, home, least, budget, 1, asked, count)
            left = left_of(home, every[own::count], _COLUMNS)
            run_here(left, 1, seconds)
            return len(left)


def similar_handles(store: PathLike, **how: Any) -> Batches[SimilarPairs]:
    """The same as similar_pairs, of names what stands for them."""
    found = similar_pairs(store, **how)
    found._store._gives_handles = True
    return found


def _tasks(
    store: MinHashStore,
    home: Folder,
    least: float | None,
    budget: int,
    workers: int,
    asked: int | None,
    sharing: int,
) -> tuple[float, Sequence[SimilarTask]]:
    """What all tasks take, in seconds, and the tasks, whose the folder is from now on. JobError where it is not.

    workers: how many share the budget; sharing: how many the work.
    """
    snapshot = store._latest
    rows = sum(part.segment.record.id_count for part in snapshot.parts) + snapshot.pending_count
    seconds = rows * ROW_NS / 1e9
    count = min(asked or (sharing if seconds > START_AFTER_SECONDS else 1), MOST_TASKS)
    each = budget // min(workers, count)
    seen = Seen.of(snapshot.state)
    job = name_of([fpstore.__version__, asdict(seen), "similar pairs", least, count])
    claim(home, job, "this store, these pairs", {"min_similarity": least, "tasks": count})
    about = fpstore.__version__, store.path.absolute(), seen, home.path.absolute(), least, each
    return seconds, [SimilarTask(Maker(job, number), *about, Part(number, count)) for number in range(count)]


def _batches(store: MinHashStore, chunks: Iterator[Columns]) -> Generator[SimilarPairs]:
    """Sorted rows as pairs."""
    snapshot = store._latest
    for first, second, told in chunks:
        similarity = told.astype(np.uint32).view(np.float32)
        found = SimilarPairs(first, second, similarity, (told >> _SIMILARITY_BITS).astype(np.uint16))
        bare = snapshot.names is None or store._gives_handles
        yield store._out(found if bare else named_similar_pairs(snapshot, found))
