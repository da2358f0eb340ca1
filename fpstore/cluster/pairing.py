"""All pairs of stored fingerprints by tasks: the windows of the tables cut into stretches, each pair once, in order."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from heapq import heapreplace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

import fpstore
from fpstore.arrays import as_count, parse_memory
from fpstore.cluster.gathering import Batches, each_row, gathered
from fpstore.cluster.listed import ListedPairsTask, columns_of_listed, listed_tasks
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Maker, write_part
from fpstore.cluster.runs import runs_of_pairs
from fpstore.cluster.searching import Seen, expect_seen
from fpstore.cluster.shards import Shards, is_listing
from fpstore.cluster.tasks import OfStore, expect_version
from fpstore.cluster.work import (
    TASK_SECONDS,
    Crew,
    claim,
    expect_rank,
    left_of,
    name_of,
    parts_of,
    task_count,
    workplace,
)
from fpstore.disk import Folder
from fpstore.errors import PathLike
from fpstore.fingerprints import columns_of, of_columns
from fpstore.living.named import named_pairs
from fpstore.living.snapshot import Snapshot
from fpstore.merging import Columns
from fpstore.progress import OnProgress
from fpstore.query.id_pairs import OWN_ROWS, IdPairs
from fpstore.query.pairs import Pairs, Stretch
from fpstore.store import Store
from fpstore.types import Paired

# What the pairs of rows of one fingerprint take of a thread, for each row: they are read once.
OWN_ROWS_NS = 6.0


@dataclass(frozen=True)
class PairsTask(OfStore):
    """The pairs of some stretches, of one state of a store. version: of the fpstore that cut it."""

    maker: Maker
    version: str
    store: Path
    seen: Seen
    folder: Path
    of: Paired
    max_distance: int
    memory_bytes: int
    stretches: tuple[Stretch, ...]

    def __str__(self) -> str:
        return f"task {self.maker.task} of the pairs of {self.store}"

    def run(self, store: Store) -> int:
        """Write the part; how many pairs it has. StoreChanged where the store, which is open, is not what it was."""
        expect_version(self, self.version)
        with Folder.open(self.folder) as folder:
            snapshot = store._latest
            expect_seen(self.store, self.seen, snapshot)
            found = self._of_rows(snapshot) if self.of == "ids" else self._of_fingerprints(snapshot)
            columns = columns_of_pairs(snapshot, self.of)
            return write_part(folder, self.maker, columns, ([run] for run in runs_of_pairs(found)))

    def _of_fingerprints(self, snapshot: Snapshot) -> Iterator[Columns]:
        for join, _ in snapshot.joins(self.max_distance, self.memory_bytes, self.stretches):
            while not join.done:
                first, second, distance = join.next()
                yield [*columns_of(first), *columns_of(second), distance]

    def _of_rows(self, snapshot: Snapshot) -> Iterator[Columns]:
        for pairs, _ in snapshot.id_pairs(self.max_distance, self.memory_bytes, self.stretches):
            yield pairs.first_id, pairs.second_id, pairs.distance.astype(np.uint64)


def _opened(store: PathLike) -> Store | Shards:
    return Shards(store) if is_listing(store) else fpstore.open(store)


def _distance(opened: Store | Shards, max_distance: int | None, of: Paired) -> int:
    """Within which pairs are looked for. ValueError for one beyond the plan, and for ids that are not there."""
    if isinstance(opened, Shards):
        return opened._paired_distance(max_distance, of)
    distance = opened._distance(max_distance)
    opened._expect_paired(of)
    return distance


def _columns(opened: Store | Shards, of: Paired) -> int:
    return columns_of_listed(opened, of) if isinstance(opened, Shards) else columns_of_pairs(opened._latest, of)


def columns_of_pairs(snapshot: Snapshot, of: Paired) -> int:
    """How many columns the parts have: the two of a pair, each word of wide fingerprints one, and a distance."""
    return 2 * (snapshot.settings.width if of == "fingerprints" else 1) + 1


@overload
def pairs(
    store: PathLike,
    *,
    max_distance: int | None = None,
    of: Literal["fingerprints"] = "fingerprints",
    memory: str | int = "1GiB",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Batches[Pairs]: ...
@overload
def pairs(
    store: PathLike,
    *,
    max_distance: int | None = None,
    of: Literal["ids"],
    memory: str | int = "1GiB",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Batches[IdPairs]: ...
def pairs(
    store: PathLike,
    *,
    max_distance: int | None = None,
    of: Paired = "fingerprints",
    memory: str | int = "1GiB",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Batches[Any]:
    """The pairs of `Store.pairs`, each once, some at a time: by the first of a pair, then by the second.

    Names are in the order in which they were first added. The windows of the tables are cut into tasks that processes
    do, or the fingerprints where these are wide. memory: the budget for keys held at once, of which each process has
    its share. engine, address, workers, folder, progress: as for `probe`. tasks: how many at most; they are cut for
    so many workers, and an interrupted call goes on with as many. world_size: of how many processes that did tasks by
    `pairs_rank`. What it returns is a context manager; the store is open until it ends. store: also a list of stores,
    NAME.shards.json (see `Shards`): the pairs of all their rows, of which each task looks up some in all stores.

    All tasks are done when it returns. It raises what `probe` does, and what `Store.pairs` does.
    """
    crew = Crew.of(engine, address, workers, tasks, folder, progress, world_size)
    opened = _opened(store)
    try:
        distance, budget = _distance(opened, max_distance, of), parse_memory(memory)
        with crew.begun() as chosen, workplace(folder) as home:
            shared = chosen.workers, crew.tasks, crew.sharing(chosen)
            seconds, every = _tasks(opened, home, of, distance, budget, *shared)
            columns = _columns(opened, of)
            parts = parts_of(home, chosen, every, seconds, columns, progress, "pairs")
        return Batches(opened, parts, _batches(opened, of, gathered(parts, columns, each_row)))
    except BaseException:
        opened.close()
        raise


def pairs_rank(
    store: PathLike,
    *,
    rank: int,
    world_size: int,
    folder: PathLike,
    max_distance: int | None = None,
    of: Paired = "fingerprints",
    memory: str | int = "1GiB",
    tasks: int | None = None,
) -> int:
    """Do the tasks of one of several processes that no engine starts; how many there were to do.

    As `probe_rank`, of which `pairs`, or with of="fingerprints" `components`, with the same folder and world_size then
    does what nobody has done. memory: of this process.
    """
    own, count = expect_rank(rank, world_size)
    asked = None if tasks is None else as_count(tasks, "tasks")
    with _opened(store) as opened:
        distance, budget = _distance(opened, max_distance, of), parse_memory(memory)
        with workplace(Path(folder)) as home:
            seconds, every = _tasks(opened, home, of, distance, budget, 1, asked, count)
            left = left_of(home, every[own::count], _columns(opened, of))
            run_here(left, 1, seconds)
            return len(left)


def _tasks(
    store: Store | Shards,
    home: Folder,
    of: Paired,
    distance: int,
    budget: int,
    workers: int,
    asked: int | None,
    sharing: int,
) -> tuple[float, Sequence[PairsTask | ListedPairsTask]]:
    """What all tasks take, in seconds, and the tasks, whose the folder is from now on. JobError where it is not.

    workers: how many share the budget; sharing: how many the work.
    """
    if isinstance(store, Shards):
        return listed_tasks(store, home, of, distance, budget, workers, asked, sharing)
    seconds, lots = _cut(store._latest, of, distance, sharing, asked)
    each = budget // max(1, min(workers, len(lots)))
    seen = Seen.of(store._latest.state)
    job = name_of([fpstore.__version__, asdict(seen), "pairs", of, distance, lots])
    options = {"of": of, "max_distance": distance, "tasks": len(lots)}
    claim(home, job, "this store, these pairs", options)
    about = fpstore.__version__, store.path.absolute(), seen, home.path.absolute(), of, distance, each
    return seconds, [PairsTask(Maker(job, number), *about, lot) for number, lot in enumerate(lots)]


def _cut(
    snapshot: Snapshot, of: Paired, distance: int, workers: int, asked: int | None
) -> tuple[float, list[tuple[Stretch, ...]]]:
    """The seconds that all pairs take, and lots of stretches, of which so many workers are soonest done.

    Tables with flips are cut no finer than that takes, as what is cut is read more than once; and so that no lot takes
    longer than a task may, where that can be.
    """
    seconds = sum(taken for _, taken in _units(snapshot, of, distance, 1, 1)) / 1e9
    count = task_count(seconds, workers, asked)
    ways = [_lots(_units(snapshot, of, distance, count, 1 << bits), count) for bits in range(count.bit_length() + 1)]
    short = [lots for lots in ways if max((taken for _, taken in lots), default=0.0) <= TASK_SECONDS * 1e9]
    best = min(short or ways[-1:], key=lambda lots: _until_all_are_done([taken for _, taken in lots], workers))
    return seconds, [lot for lot, _ in best]


def _lots(units: Sequence[tuple[Stretch, float]], count: int) -> list[tuple[tuple[Stretch, ...], float]]:
    """At most so many lots, which take about as long as each other, as far as units allow; with what each takes."""
    total, done = sum(taken for _, taken in units), 0.0
    lots: list[list[Stretch]] = [[] for _ in range(count)]
    takes = [0.0] * count
    for stretch, taken in units:
        number = min(count - 1, int((done + taken / 2) / total * count))
        lot = lots[number]
        done += taken
        takes[number] += taken
        if lot and lot[-1][:2] == stretch[:2]:
            stretch = stretch._replace(first=lot.pop().first)
        lot.append(stretch)
    return [(tuple(lot), taken) for lot, taken in zip(lots, takes, strict=True) if lot]


def _until_all_are_done(takes: Sequence[float], workers: int) -> float:
    """What passes until so many workers have done tasks which take so long, each the next one when it is free."""
    free = [0.0] * workers
    for taken in takes:
        heapreplace(free, free[0] + taken)
    return max(free)


def _units(snapshot: Snapshot, of: Paired, distance: int, count: int, flipped: int) -> list[tuple[Stretch, float]]:
    """All stretches, which are cut no further, with the nanoseconds that each takes; flipped: see pairs.stretches."""
    rows = sum(part.segment.record.id_count for part in snapshot.parts) + snapshot.pending_count
    # Of wide codes they are found with what is near, as each finds itself.
    apart = of == "ids" and rows and not snapshot.settings.is_wide
    own = [(OWN_ROWS, OWN_ROWS_NS * rows)] if apart else []
    return own + snapshot.stretches(distance, count, flipped)


def _batches(store: Store | Shards, of: Paired, chunks: Iterator[Columns]) -> Generator[Pairs | IdPairs]:
    """Sorted rows as pairs."""
    snapshot = None if isinstance(store, Shards) else store._latest  # no store of a list has names
    for *columns, distance in chunks:
        bits, half = distance.astype(np.uint16), len(columns) // 2
        first, second = (of_columns(tuple(words)) for words in (columns[:half], columns[half:]))
        if of == "fingerprints":
            yield store._out(Pairs(first, second, bits))
        else:
            found = IdPairs(first, second, bits)
            yield store._out(found if snapshot is None or snapshot.names is None else named_pairs(snapshot, found))
