"""Owns how a job is done, whatever it asks for: a folder of its own, how many tasks, and the parts that these leave."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

import fpstore
from fpstore.arrays import as_count, as_integer
from fpstore.closing import close_all
from fpstore.cluster.engines import Engine, engine_named
from fpstore.cluster.local import Local
from fpstore.cluster.parts import Maker, Part, is_half_written, sweep, whole_file
from fpstore.cluster.tasks import Task
from fpstore.disk import PRIVATE_FOLDER, Folder, expect_outside_stores, read_whole
from fpstore.errors import JobError, PathLike
from fpstore.progress import OnProgress, Progress
from fpstore.types import Array
from fpstore.workers import START_AFTER_SECONDS

_Task = TypeVar("_Task", bound=Task)

# What a task takes where nobody says how many there are to be: long against its start, short against a night.
TASK_SECONDS = 10.0
# Each has a file, which is open while the parts are gathered.
MOST_TASKS = 512
# So many, at least, that one who ends late keeps the others waiting for a quarter of its work.
TASKS_OF_A_WORKER = 4
_JOB = "job"
# What is told of all of them together.
_OPTIONS = "options"
REMOVE = "remove the folder, or name another"
_NAME_DIGITS = 32


@dataclass(frozen=True)
class Crew:
    """Who does the tasks of a call, how many these are to be, where they leave their parts, and who is told of them.

    The arguments of these names of `probe`, and world_size.
    """

    engine: str
    address: str | None
    workers: int | None
    tasks: int | None
    folder: PathLike | None
    world_size: int | None
    progress: OnProgress | None

    @classmethod
    def of(
        cls,
        engine: str,
        address: str | None,
        workers: int | None,
        tasks: int | None,
        folder: PathLike | None,
        progress: OnProgress | None,
        world_size: int | None = None,
    ) -> Self:
        """That of the arguments. ValueError and TypeError for what is no count."""
        named = {"workers": workers, "tasks": tasks, "world_size": world_size}
        counts = {name: None if count is None else as_count(count, name) for name, count in named.items()}
        return cls(engine=engine, address=address, folder=folder, progress=progress, **counts)

    @contextmanager
    def begun(self) -> Iterator[Engine]:
        """The engine, at work. Raises what engine_named and expect_shared do."""
        with engine_named(self.engine, self.address, self.workers) as chosen:
            expect_shared(self.folder, chosen)
            yield chosen

    def leaves_all_open(self, chosen: Engine) -> bool:
        """Whether nothing that was asked for says that there are to be tasks."""
        asked = self.folder, self.tasks, self.world_size
        return isinstance(chosen, Local) and asked == (None, None, None)

    def sharing(self, chosen: Engine) -> int:
        """For how many the work is cut: its workers, or as many ranks as did some of it before."""
        return self.world_size or chosen.workers


def name_of(told: Sequence[object], *more: Array) -> str:
    """The name of a job: the same for the same work of the same version, and no other's."""
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for each in more:
        digest.update(np.ascontiguousarray(each).data)
    return digest.hexdigest()[:_NAME_DIGITS]


def expect_rank(rank: object, world_size: object) -> tuple[int, int]:
    """Which of so many processes one is, and how many there are. ValueError for what can be neither."""
    count, own = as_count(world_size, "world_size"), as_integer(rank)
    if own is None or not 0 <= own < count:
        raise ValueError(f"rank: found {rank!r:.40}, expected 0 to {count - 1}, as world_size is {count}")
    return own, count


def task_count(seconds: float, workers: int, asked: int | None) -> int:
    """How many tasks: as many as are asked for, or that the last of them to end has no long way to go alone."""
    if asked is not None:
        return min(asked, MOST_TASKS)
    if seconds <= START_AFTER_SECONDS:
        return 1
    return min(max(TASKS_OF_A_WORKER * workers, math.ceil(seconds / TASK_SECONDS)), MOST_TASKS)


def expect_shared(folder: PathLike | None, engine: Engine) -> None:
    """ValueError where the folder would be a temporary one, which workers of other machines do not see."""
    if folder is None and not engine.is_here:
        told = "found none, expected one on storage that all workers share, as some are on other machines"
        raise ValueError(f"folder: {told}")


@contextmanager
def workplace(folder: PathLike | None) -> Iterator[Folder]:
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


def claim(
    home: Folder,
    job: str,
    asked: str,
    options: Mapping[str, Any],
    advice: str = REMOVE,
    free: Collection[str] = (),
) -> None:
    """Write into the folder whose it is. JobError where it is another job's, or has what is no job's.

    asked: what the job is about. options: all that decides what comes of it, for json: who has others than the one who
    began is told which, though the parts may be the same. free: those of them that may be others for this call.
    advice: what to do then; of the same job of another fpstore to go on with that one.
    """
    wanted = json.loads(json.dumps(options))
    # Names first: others of the same job may be about to write, and the file of its name is what they write first.
    names = [name for name in home.names() if not is_half_written(name)]
    found = read_whole(home, _JOB)
    whose, about, version, *more = [*(found or b"").decode(errors="replace").split("\n"), "", ""]
    if about == asked and version not in ("", fpstore.__version__):
        told = f"found a job that fpstore {version:.40} began, expected one of this fpstore, {fpstore.__version__}"
        raise JobError(f"{told}: go on with that one, or {advice}", path=home.path)
    other = _difference(_options(more[0]), wanted, free) if about == asked else None
    if whose == job and other is None:
        return
    if other is not None:
        what, theirs, own = other
        if what == _OPTIONS:
            told = f"found a job, of {asked}, that does not tell its options, as an earlier fpstore began it"
            raise JobError(f"{told}, or it was changed; expected one that does: {advice}", path=home.path)
        told = f"found a job, of {asked}, that has {what} {_shown(theirs)}, expected {_shown(own)}"
        counts = "with its world_size (--world-size), workers and tasks, " if what == "tasks" else ""
        raise JobError(f"{told}, as is asked for here: ask as it does, {counts}or {advice}", path=home.path)
    if found is not None or names:
        told_of = f", of {about:.80}" if about else ""
        what = "a file that is no job's" if found is None else f"those of job {whose[:_NAME_DIGITS]}{told_of}"
        told = f"found {what}, expected an empty folder, or parts of job {job}: of {asked}, these tasks"
        raise JobError(f"{told}; {advice}", path=home.path)
    with whole_file(home, _JOB) as file:
        file.write(f"{job}\n{asked}\n{fpstore.__version__}\n{json.dumps(wanted, sort_keys=True)}".encode())


def _options(line: str) -> object:
    """Those of a line of a job's file; None of what is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _difference(
    found: object, wanted: object, free: Collection[str] = (), name: str = _OPTIONS
) -> tuple[str, object, object] | None:
    """The first option that differs and is not free: its name, and both values."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        of = "" if name == _OPTIONS else f"{name} "
        names = sorted({*found, *wanted} - set(free))
        each = (_difference(found.get(key), wanted.get(key), (), of + key) for key in names)
        return next((other for other in each if other is not None), None)
    return None if found == wanted else (name, found, wanted)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def claimed(home: Folder) -> str:
    """Which job's a folder is, with all that this one was asked for."""
    return name_of([(read_whole(home, _JOB) or b"").decode(errors="replace")])


def left_of(home: Folder, tasks: Sequence[_Task], columns: int) -> list[_Task]:
    """Those that have no part yet."""
    return [task for task in tasks if not _is_done(home, task.maker, columns)]


def parts_of(
    home: Folder,
    engine: Engine,
    tasks: Sequence[Task],
    seconds: float,
    columns: int,
    progress: OnProgress | None = None,
    phase: str = "tasks",
) -> list[Part]:
    """The parts of all tasks, open, of which the engine does those that are left. seconds: what all of them take."""
    do_left(engine, tasks, left_of(home, tasks, columns), seconds, progress, phase)
    return _opened(home, tasks, columns)


def do_left(
    engine: Engine,
    tasks: Sequence[Task],
    left: Sequence[Task],
    seconds: float,
    progress: OnProgress | None,
    phase: str,
) -> None:
    """Have the engine do those of the tasks that are left, and tell of all. seconds: what all of them take."""

    def done(count: int) -> None:
        if progress is not None:
            progress(Progress(phase, len(tasks) - len(left) + count, len(tasks), "tasks"))

    done(0)
    engine(left, seconds * len(left) / max(1, len(tasks)), done)


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
        close_all(*(part.close for part in parts))
        raise
    return parts
