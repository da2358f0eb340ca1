"""A probe of many fingerprints by tasks: cut, done by an engine, and gathered; the rows of `probe_many`."""

import hashlib
import json
import math
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fpstore
from fpstore.arrays import as_count
from fpstore.cluster.gathering import Batches, gathered
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Maker, Part, sweep, whole_file
from fpstore.cluster.shares import Share, cut, ranked, search_method, search_nanoseconds
from fpstore.cluster.tasks import ProbeTask, Queries, Seen, Task, columns_of
from fpstore.disk import PRIVATE_FOLDER, Folder, expect_outside_stores, read_whole
from fpstore.errors import JobError, PathLike, WrongKind
from fpstore.merging import Columns
from fpstore.query.matches import Matches, made
from fpstore.store import Store
from fpstore.threads import thread_count
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
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
) -> Answer:
    """Every stored fingerprint near each of fingerprints (uint64[m]): the rows of `Store.probe_many`, in its order.

    The search is cut into tasks that processes do, each in bounded memory, over what is *stored* where that is streamed
    past all queries, over the queries where they are looked up, whichever costs less. There may be any number of rows.
    workers: how many processes, as many as processors by default; work of less than half a second is done here. tasks:
    how many, by default as many as take 10 s each. folder: where the tasks leave their parts, which an interrupted call
    goes on with, and which is the caller's to remove; by default a temporary one.

    All tasks are done when it returns. StoreChanged where the store changes meanwhile; JobError for a folder of another
    job, and where a task's process ended three times; WrongKind for a store of signatures, or of wide fingerprints.
    """
    opened = fpstore.open(store)
    try:
        if opened._settings.is_wide:
            told = f"found fingerprints of {opened.bits} bits, expected at most 64; Store.probe_many takes them"
            raise WrongKind(told, path=opened.path)
        queries, distance = opened._keys(fingerprints), opened._reach(max_distance)
        team = thread_count(None) if workers is None else as_count(workers, "workers")
        asked = None if tasks is None else as_count(tasks, "tasks")
        parts = _parts(opened, queries, distance, team, asked, folder)
        method = search_method(opened._latest, distance, len(queries))
        return Answer(opened, parts, method)
    except BaseException:
        opened.close()
        raise


def _parts(
    store: Store, fingerprints: Keys, distance: int, workers: int, tasks: int | None, folder: PathLike | None
) -> list[Part]:
    """The parts of all tasks, which are done by then."""
    snapshot = store._latest
    queries, table = Queries.of(fingerprints)
    seconds = search_nanoseconds(snapshot, distance, queries.distinct) / 1e9
    lots = cut(snapshot, distance, queries.distinct, _task_count(seconds, workers, tasks))
    seen, columns = Seen.of(snapshot.state), columns_of(snapshot)
    job = _name_of(seen, fingerprints, distance, lots)
    with _workplace(folder) as home:
        _claim(home, job)
        Queries.write(home, table)
        about = fpstore.__version__, store.path, seen, home.path, queries, distance
        every = [ProbeTask(Maker(job, number), *about, shares) for number, shares in enumerate(lots)]
        left = [task for task in every if not _is_done(home, task.maker, columns)]
        run_here(left, workers, seconds * len(left) / max(1, len(every)))
        return _opened(home, every, columns)


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
    expect_outside_stores(path)
    path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    with Folder.open(path) as home:
        yield home


def _claim(home: Folder, job: str) -> None:
    """Write into the folder whose it is. JobError where it is another job's, or has what is no job's."""
    found = read_whole(home, _JOB)
    if found == job.encode():
        return
    if found is not None or home.names():
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
