"""A probe of many fingerprints by tasks: cut, done by an engine, and gathered; the rows of `probe_many`."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fpstore
from fpstore.arrays import as_count, as_integer
from fpstore.cluster.engines import engine_named
from fpstore.cluster.gathering import Batches, gathered
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Maker, Part, is_half_written, sweep, whole_file
from fpstore.cluster.shares import Share, cut, ranked, search_method, search_nanoseconds
from fpstore.cluster.tasks import ProbeTask, Queries, Seen, Task, columns_of
from fpstore.disk import PRIVATE_FOLDER, Folder, expect_outside_stores, read_whole
from fpstore.errors import JobError, PathLike, WrongKind
from fpstore.merging import Columns
from fpstore.query.matches import Matches, made
from fpstore.store import Store
from fpstore.types import Keys
from fpstore.workers import START_AFTER_SECONDS

# What a task takes where nobody says how many there are to be: long against its start, short against a night.
TASK_SECONDS = 10.0
# Each has a file, which is open while the parts are gathered.
MOST_TASKS = 512
# So many, at least, that one who ends late keeps the others waiting for a quarter of its work.
TASKS_OF_A_WORKER = 4
_JOB = "job"


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
) -> Answer:
    """Every stored fingerprint near each of fingerprints (uint64[m]): the rows of `Store.probe_many`, in its order.

    The search is cut into tasks that processes do, each in bounded memory, over what is *stored* where that is streamed
    past all queries, over the queries where they are looked up, whichever costs less. There may be any number of rows.
    engine: "local", processes of this machine, "ray" or "spark"; address: of a cluster, where the program has no
    connection to one yet and none is to be started here. workers: how many processes, as many as processors by default;
    work of less than half a second is done here by "local". tasks: how many, by default as many as take 10 s each.
    folder: where the tasks leave their parts, which an interrupted call goes on with, and which is the caller's to
    remove; by default a temporary one. Workers of other machines need one that they share. world_size: of how many
    processes that did the tasks by `probe_rank`.

    All tasks are done when it returns. StoreChanged where the store changes meanwhile; JobError for a folder of another
    job, and where a task's process ended three times; WrongKind for a store of signatures, or of wide fingerprints.
    """
    team = None if workers is None else as_count(workers, "workers")
    count = None if tasks is None else as_count(tasks, "tasks")
    size = None if world_size is None else as_count(world_size, "world_size")
    opened = fpstore.open(store)
    try:
        queries, distance = _search(opened, fingerprints, max_distance)
        with engine_named(engine, address, team) as chosen:
            if folder is None and not chosen.is_here:
                told = "found none, expected one on storage that all workers share, as some are on other machines"
                raise ValueError(f"folder: {told}")
            with _workplace(folder) as home:
                job = _Job(opened, queries, distance, count, size or chosen.workers)
                every = job.tasks(home)
                left = job.left(home, every)
                chosen(left, job.seconds * len(left) / max(1, len(every)))
                parts = _opened(home, every, job.columns)
        return Answer(opened, parts, search_method(opened._latest, distance, len(queries)))
    except BaseException:
        opened.close()
        raise


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
    the same folder and world_size then does what nobody has done, and answers.
    """
    count, own = as_count(world_size, "world_size"), as_integer(rank)
    if own is None or not 0 <= own < count:
        raise ValueError(f"rank: found {rank!r:.40}, expected 0 to {count - 1}, as world_size is {count}")
    every = None if tasks is None else as_count(tasks, "tasks")
    with fpstore.open(store) as opened:
        queries, distance = _search(opened, fingerprints, max_distance)
        with _workplace(Path(folder)) as home:
            job = _Job(opened, queries, distance, every, count)
            left = job.left(home, job.tasks(home)[own::count])
            run_here(left, 1, job.seconds)
            return len(left)


def _search(store: Store, fingerprints: object, max_distance: int | None) -> tuple[Keys, int]:
    """What is asked for, and within which distance."""
    if store._settings.is_wide:
        told = f"found fingerprints of {store.bits} bits, expected at most 64; Store.probe_many takes them"
        raise WrongKind(told, path=store.path)
    return store._keys(fingerprints), store._reach(max_distance)


class _Job:
    """A search of one state of a store, cut for so many who do its tasks. seconds: what all of these take."""

    def __init__(self, store: Store, fingerprints: Keys, distance: int, tasks: int | None, workers: int) -> None:
        snapshot = store._latest
        self._queries, self._table = Queries.of(fingerprints)
        self._store, self._distance, distinct = store.path.absolute(), distance, self._queries.distinct
        self.seconds = search_nanoseconds(snapshot, distance, distinct) / 1e9
        self._lots = cut(snapshot, distance, distinct, _task_count(self.seconds, workers, tasks))
        self._seen, self.columns = Seen.of(snapshot.state), columns_of(snapshot)
        self._name = _name_of(self._seen, fingerprints, distance, self._lots)

    def tasks(self, home: Folder) -> list[ProbeTask]:
        """All of them, for which the folder is made ready. JobError where it is another job's."""
        _claim(home, self._name)
        Queries.write(home, self._table)
        path = home.path.absolute()
        about = fpstore.__version__, self._store, self._seen, path, self._queries, self._distance
        return [ProbeTask(Maker(self._name, number), *about, shares) for number, shares in enumerate(self._lots)]

    def left(self, home: Folder, tasks: Sequence[ProbeTask]) -> list[ProbeTask]:
        """Those that have no part yet."""
        return [task for task in tasks if not _is_done(home, task.maker, self.columns)]


def _task_count(seconds: float, workers: int, asked: int | None) -> int:
    """How many tasks: as many as are asked for, or that the last of them to end has no long way to go alone."""
    if asked is not None:
        return min(asked, MOST_TASKS)
    if seconds <= START_AFTER_SECONDS:
        return 1
    return min(max(TASKS_OF_A_WORKER * workers, math.ceil(seconds / TASK_SECONDS)), MOST_TASKS)


def _name_of(seen: Seen, fingerprints: Keys, distance: int, lots: list[tuple[Share, ...]]) -> str:
    """The name of a job: the same for the same work of the same version, and no other's."""
    cut_so = [[asdict(share) for share in lot] for lot in lots]
    told = [fpstore.__version__, asdict(seen), distance, cut_so]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(fingerprints).data)
    return digest.hexdigest()[:32]


@contextmanager
def _workplace(folder: PathLike | None) -> Iterator[Folder]:
    """The folder of that path, made where there is none; or one that goes afterwards, when its parts are open."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fpstore-") as own, Folder.open(Path(own)) as home:
            yield home
        return
    path = Path(folder)
    expect_outside_stores(Path(os.path.realpath(path)))  # where a link leads
    path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    with Folder.open(path) as home:
        yield home


def _claim(home: Folder, job: str) -> None:
    """Write into the folder whose it is. JobError where it is another job's, or has what is no job's."""
    # Names first: others of the same job may be about to write, and the file of its name is what they write first.
    names = [name for name in home.names() if not is_half_written(name)]
    found = read_whole(home, _JOB)
    if found == job.encode():
        return
    if found is not None or names:
        what = "a file that is no job's" if found is None else f"those of job {found[:32].decode(errors='replace')}"
        told = f"found {what}, expected an empty folder, or parts of job {job}: of this store, these queries, these"
        raise JobError(f"{told} tasks; remove the folder, or name another", path=home.path)
    with whole_file(home, _JOB) as file:
        file.write(job.encode())


def _is_done(home: Folder, maker: Maker, columns: int) -> bool:
    try:
        Part.open(home, maker, columns).close()
    except FileNotFoundError:
        return False
    return True


def _opened(home: Folder, tasks: Sequence[Task], columns: int) -> list[Part]:
    sweep(home)
    parts: list[Part] = []
    try:
        for task in tasks:
            parts.append(Part.open(home, task.maker, columns))  # noqa: PERF401
    except BaseException:
        for part in parts:
            part.close()
        raise
    return parts


def _batches(store: Store, chunks: Iterator[Columns], method: str) -> Generator[Matches]:
    """Sorted rows as matches; names are of whole groups, as they have an order of their own within each."""
    snapshot = store._latest
    for columns in chunks if snapshot.names is None else _whole_groups(chunks):
        number, distance = ranked(columns[0])
        ids = columns[2] if len(columns) == 3 else None
        yield store._matches(snapshot, made(number, columns[1], distance, ids, method))


def _whole_groups(chunks: Iterator[Columns]) -> Iterator[Columns]:
    """The chunks cut anew, so that none ends within the rows of one query and one fingerprint."""
    held: Columns = ()
    for chunk in chunks:
        columns = [np.concatenate(both) for both in zip(held, chunk, strict=True)] if held else chunk
        start = int(columns[0].searchsorted(columns[0][-1]))
        start += int(columns[1][start:].searchsorted(columns[1][-1]))
        if start:
            yield [column[:start] for column in columns]
        held = [column[start:] for column in columns]
    if held:
        yield held
