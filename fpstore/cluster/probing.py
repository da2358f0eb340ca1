"""A probe of many fingerprints by tasks: cut, done by an engine, and gathered; the rows of `probe_many`."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fpstore
from fpstore.arrays import as_count
from fpstore.closing import close_all
from fpstore.cluster.gathering import Batches, gathered
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Maker, Part
from fpstore.cluster.searching import ProbeTask, Queries, Seen, columns_of
from fpstore.cluster.shards import Shards, is_listing
from fpstore.cluster.shares import cut, ranked, search_method, search_nanoseconds
from fpstore.cluster.work import Crew, claim, expect_rank, left_of, name_of, parts_of, task_count, workplace
from fpstore.disk import PRIVATE_FOLDER, Folder
from fpstore.errors import PathLike
from fpstore.fingerprints import of_columns
from fpstore.merging import Columns
from fpstore.progress import OnProgress
from fpstore.query.matches import Matches, made
from fpstore.store import Store
from fpstore.types import Keys


class Answer(Batches[Matches]):
    """The matches, some at a time, in the order of `probe_many`; a context manager. The store is open until it ends."""

    def __init__(self, store: Store, parts: list[Part], method: str) -> None:
        super().__init__(store, parts, _batches(store, gathered(parts, columns_of(store._latest)), method))


def probe(
    store: PathLike,
    fingerprints: object,
    *,
    max_distance: int | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Answer:
    """Every stored fingerprint near each of fingerprints: the rows of `Store.probe_many`, in its order.

    The search is cut into tasks that processes do, each in bounded memory, over what is *stored* where that is streamed
    past all queries, over the queries where they are looked up, whichever costs less. There may be any number of rows.
    engine: "local", processes of this machine, "ray" or "spark"; address: of a cluster, where the program has no
    connection to one yet and none is to be started here. workers: how many processes, as many as processors by default;
    work of less than half a second is done here by "local". tasks: how many at most, by default of 10 s each.
    folder: where the tasks leave their parts, which an interrupted call goes on with, and which is the caller's to
    remove; by default a temporary one. Workers of other machines need one that they share. world_size: of how many
    processes that did the tasks by `probe_rank`. progress: told how many tasks are done.

    store: also a list of stores, NAME.shards.json (see `Shards`): the rows of all of them, each once; in a folder that
    is given each store has one of its own.

    All tasks are done when it returns. StoreChanged where the store changes meanwhile; JobError for a folder of another
    job, and where a task's process ended three times; WrongKind for a store of signatures.
    """
    crew = Crew.of(engine, address, workers, tasks, folder, progress, world_size)
    with ExitStack() as held:
        stores, distance = _opened(store, held, max_distance)
        first = stores[0]
        parts: list[Part] = []
        with crew.begun() as chosen:
            for each, own in zip(stores, _folders(folder, len(stores)), strict=True):
                queries = each._keys(fingerprints)
                with workplace(own) as home:
                    job = _Job(each, queries, distance, crew.tasks, crew.sharing(chosen))
                    found = parts_of(home, chosen, job.tasks(home), job.seconds, job.columns, progress, "probing")
                    parts += found
                    held.callback(close_all, *(part.close for part in found))
        answer = Answer(first, parts, search_method(first._latest, distance, len(queries)))
        answer.keep(held.pop_all())
        return answer


def probe_rank(
    store: PathLike,
    fingerprints: object,
    *,
    rank: int,
    world_size: int,
    folder: PathLike,
    max_distance: int | None = None,
    tasks: int | None = None,
) -> int:
    """Do the tasks of one of several processes that no engine starts, as Slurm's are; how many there were to do.

    rank: which of them, from 0 on; world_size: how many there are. Each is called with the same arguments but its rank.
    The parts in the folder, which all share, say what is done: one that is called again does what is left. `probe` with
    the same folder and world_size then does what nobody has done, and answers. store: also a list of stores.
    """
    own, count = expect_rank(rank, world_size)
    every = None if tasks is None else as_count(tasks, "tasks")
    with ExitStack() as held:
        stores, distance = _opened(store, held, max_distance)
        left: list[ProbeTask] = []
        first, seconds = own, 0.0
        for each, place in zip(stores, _folders(folder, len(stores)), strict=True):
            home = held.enter_context(workplace(place))
            job = _Job(each, each._keys(fingerprints), distance, every, count)
            dealt = job.tasks(home)
            left += left_of(home, dealt[first::count], job.columns)
            # The tasks of all stores are dealt one after the other, so that nobody has the first of each.
            first, seconds = (first - len(dealt)) % count, seconds + job.seconds
        run_here(left, 1, seconds)
        return len(left)


def _opened(store: PathLike, held: ExitStack, max_distance: int | None) -> tuple[tuple[Store, ...], int]:
    """The store of that path, or all of a list of stores, open as long as held is; and how far all are asked."""
    if is_listing(store):
        stores = held.enter_context(Shards(store)).stores
    else:
        stores = (held.enter_context(fpstore.open(store)),)
    distance = min(each._reach(max_distance) for each in stores)
    return stores, distance


def _folders(folder: PathLike | None, count: int) -> Iterator[PathLike | None]:
    """Where the parts of each store lie: of several in a folder of each, in that one."""
    if folder is not None and count > 1:
        Path(folder).mkdir(PRIVATE_FOLDER, exist_ok=True)
        yield from (Path(folder, f"{number:05d}") for number in range(count))
    else:
        yield from [folder] * count


class _Job:
    """A search of one state of a store, cut for so many who do its tasks. seconds: what all of these take."""

    def __init__(self, store: Store, fingerprints: Keys, distance: int, tasks: int | None, workers: int) -> None:
        snapshot = store._latest
        self._queries, self._table = Queries.of(fingerprints)
        self._store, self._distance, distinct = store.path.absolute(), distance, self._queries.distinct
        self.seconds = search_nanoseconds(snapshot, distance, distinct) / 1e9
        self._lots = cut(snapshot, distance, distinct, task_count(self.seconds, workers, tasks))
        self._seen, self.columns = Seen.of(snapshot.state), columns_of(snapshot)
        lots = [[asdict(share) for share in lot] for lot in self._lots]
        self._options = {"max_distance": distance, "tasks": len(lots)}
        self._name = name_of([fpstore.__version__, asdict(self._seen), distance, lots], fingerprints)

    def tasks(self, home: Folder) -> list[ProbeTask]:
        """All of them, for which the folder is made ready. JobError where it is another job's."""
        claim(home, self._name, "this store, these queries", self._options)
        Queries.write(home, self._table)
        path = home.path.absolute()
        about = fpstore.__version__, self._store, self._seen, path, self._queries, self._distance
        return [ProbeTask(Maker(self._name, number), *about, shares) for number, shares in enumerate(self._lots)]


def _batches(store: Store, chunks: Iterator[Columns], method: str) -> Generator[Matches]:
    """Sorted rows as matches; names are of whole groups, as they have an order of their own within each."""
    snapshot = store._latest
    end = 1 + snapshot.settings.width  # of the words of a fingerprint
    for columns in chunks if snapshot.names is None else _whole_groups(chunks, end):
        number, distance = ranked(columns[0])
        ids = columns[end] if len(columns) > end else None
        yield store._matches(snapshot, made(number, of_columns(tuple(columns[1:end])), distance, ids, method))


def _whole_groups(chunks: Iterator[Columns], count: int) -> Iterator[Columns]:
    """The chunks cut anew, so that none ends within rows that are equal in so many columns.

    Those are the rows of one query and one fingerprint.
    """
    held: Columns = ()
    for chunk in chunks:
        columns = [np.concatenate(both) for both in zip(held, chunk, strict=True)] if held else chunk
        start = 0
        for column in columns[:count]:
            start += int(column[start:].searchsorted(column[-1]))
        if start:
            yield [column[:start] for column in columns]
        held = [column[start:] for column in columns]
    if held:
        yield held
