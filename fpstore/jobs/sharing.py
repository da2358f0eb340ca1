"""Owns how a job has others measure its documents: which tasks there are, who does them, and what they hand over when.

The job reads on meanwhile, decides and writes, and waits for a task only where it needs what that makes. Where it goes
on after an interruption it has what was handed over before, whoever does the other tasks now.
"""

from __future__ import annotations

import shutil
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

import fpstore
from fpstore.arrays import as_count
from fpstore.cluster.engines import Engine, engine_named
from fpstore.cluster.made import PAGES, TEXTS, Made, MadePart, made_of, marks_of, marks_of_pages, shown_in
from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.parts import Maker, sweep
from fpstore.cluster.work import name_of
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.jobs.batches import Place
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.journal import Job
from fpstore.notes import subfolder
from fpstore.text.packed import packed
from fpstore.text.shared import Page, Shown
from fpstore.threads import Background, Leash
from fpstore.types import Array, Keys

# How long a task is: the last of them keeps the others waiting. No more than so many, each of which leaves a file. Who
# does them does not matter for how they are cut, so that another may go on.
TASK_SECONDS, MOST_TASKS = 0.5, 4096
# How often a job looks whether a task has handed over what it waits for: seldom where that takes long.
_LEAST_WAIT, _MOST_WAIT = 0.002, 0.05
# How many tasks may be begun for each worker, from the one on that the job needs. Workers of this machine that are
# further ahead take processors from the job, which is alone with the rest of its work when they are done.
AHEAD_OF_A_WORKER = 2
_FOLDER = "made-"


@dataclass(frozen=True)
class Team:
    """Who measures: so many processes, all processors by default, of an engine at an address."""

    workers: int | None
    engine: str
    address: str | None

    @classmethod
    def asked(cls, workers: object, engine: str | None, address: str | None) -> Team | None:
        """That of the arguments of a job; None where this process alone is to measure. ValueError for no count."""
        count = None if workers is None else as_count(workers, "workers")
        if engine is None and address is None and count in (None, 1):
            return None
        return cls(count, "local" if engine is None else engine, address)

    def begin(self) -> Engine:
        """The engine; raises what `engine_named` does."""
        return engine_named(self.engine, self.address, self.workers)


@contextmanager
def shared(job: Job, corpus: Corpus, team: Team | None, *, keeps: bool) -> Iterator[None]:
    """A context in which others measure what the corpus reads, where there are any and something to share.

    keeps: whether the job needs the hashes of shingles. Raises what `engine_named` does; JobError is for whoever reads.
    """
    if team is None:
        yield
        return
    with team.begin() as engine:
        tasks = _Tasks(job, corpus, keeps=keeps, durable=not engine.is_here)
        if tasks.count < 2:  # nobody works beside another; this process shares out what it reads piece by piece
            yield
            return
        with tasks.folder(job.work_folder) as folder:
            sweep(folder)
            left, seconds = tasks.left(folder, _first_source(job))
            leash = Leash(AHEAD_OF_A_WORKER * engine.workers)
            work = Background(partial(engine, left, seconds, leash=leash))
            corpus.made_by(partial(_Handed, tasks.of, _Waiting(folder, work, left, leash)))
            try:
                yield
            finally:
                corpus.made_by(None)
                engine.stop()
                leash.let_go()
                work.wait()


def _first_source(job: Job) -> int:
    """The first that is not read to its end yet."""
    place = (job.state or {}).get("place")
    return 0 if place is None else Place(*place).source


class _Tasks:
    """All that there are, by the number of the source that each reads a portion of."""

    def __init__(self, job: Job, corpus: Corpus, *, keeps: bool, durable: bool) -> None:
        """keeps, durable: as of MeasureTask."""
        self._recipe = corpus.recipe
        least = (corpus.total_bytes or 0) // MOST_TASKS
        cut = {number: corpus.portions(number, TASK_SECONDS, least) for number in range(len(corpus.sources))}
        plan = [[number, [portion.stamp() for portion in own]] for number, own in cut.items()]
        self._job = name_of([fpstore.__version__, self._recipe.to_json(), keeps, plan])
        about = fpstore.__version__, job.work / self._name
        self._of: dict[int, list[MeasureTask]] = {}
        self.count = 0
        for number, own in cut.items():
            makers = [Maker(self._job, self.count + place) for place in range(len(own))]
            given = zip(makers, own, strict=True)
            found = [MeasureTask(maker, *about, portion, self._recipe, keeps, durable) for maker, portion in given]
            self._of[number] = found
            self.count += len(found)

    @property
    def _name(self) -> str:
        return f"{_FOLDER}{self._job}"

    def of(self, number: int) -> list[MeasureTask]:
        """Those of a source; none where only this process can read it."""
        return self._of[number]

    def folder(self, work: Folder) -> Folder:
        """Where they hand over; what those of other inputs left is removed."""
        for name in work.names():
            if name.startswith(_FOLDER) and name != self._name:
                shutil.rmtree(name, ignore_errors=True, dir_fd=work.fd)  # a link, say, is not followed and stays
        return subfolder(work, self._name)

    def left(self, folder: Folder, first: int) -> tuple[list[MeasureTask], float]:
        """Those that are to be done, of the sources from one on, and how many seconds they take.

        A part that a power cut has left as it came is removed.
        """
        names = set(folder.names())
        left = []
        for task in (task for number, own in self._of.items() if number >= first for task in own):
            if task.maker.name in names:
                if MadePart.is_whole(folder, task.maker):
                    continue
                folder.unlink(task.maker.name)
            left.append(task)
        return left, sum(task.portion.seconds for task in left)


class _Waiting:
    """Opens what tasks hand over, as soon as it is there."""

    def __init__(self, folder: Folder, work: Background[None], left: Sequence[MeasureTask], leash: Leash) -> None:
        self._folder, self._work, self._leash = folder, work, leash
        self._left = [task.maker.task for task in left]

    def __call__(self, task: MeasureTask) -> MadePart:
        """What a task has made. Raises what became of the work where that is nothing."""
        self._leash.come_to(bisect_left(self._left, task.maker.task))
        pause = _LEAST_WAIT
        while True:
            is_last = self._work.done
            try:
                return MadePart.open(self._folder, task.maker)
            except FileNotFoundError:
                if is_last:
                    self._work.result()
                    told = f"{task}: found nothing that it made, and nobody at work on it; --force begins again"
                    raise JobError(told, path=self._folder.path) from None
            time.sleep(pause)
            pause = min(2 * pause, _MOST_WAIT)


class _Handed:
    """What tasks have made of one source, in the order in which it is read; as corpus.Handed."""

    def __init__(self, tasks: Callable[[int], list[MeasureTask]], opened: _Waiting, number: int) -> None:
        self._pages = _Columns(tasks(number), opened, PAGES)
        self._texts = _Columns(tasks(number), opened, TEXTS)
        self.are_some = bool(tasks(number))

    def show(self, pages: Sequence[Page]) -> Callable[[], Shown]:
        """What the next pages show, or what is wrong with them."""
        taken = self._pages.take(marks_of_pages(pages)) if len(pages) else []
        found = Shown.join([shown_in(*each) for each in taken])
        return lambda: found

    def made(self, texts: Sequence[str]) -> Made:
        """What was measured of the next texts, at least one."""
        return Made.join([made_of(*taken) for taken in self._texts.take(marks_of(packed(texts)))])

    def close(self) -> None:
        """Nothing more is read of the source."""
        self._pages.close()
        self._texts.close()


class _Columns:
    """The blocks of one kind of several parts, some rows after the other."""

    def __init__(self, tasks: Sequence[MeasureTask], opened: _Waiting, kind: str) -> None:
        self._left, self._opened, self._kind = list(tasks)[::-1], opened, kind
        self._part: MadePart | None = None
        self._blocks: Iterator[list[Array]] = iter(())
        self._block: list[Array] = []
        self._at = 0
        self._task: MeasureTask | None = None

    def take(self, marks: Keys) -> list[tuple[list[Array], slice]]:
        """The next rows: columns, and which of them. JobError where they are of something else."""
        taken = []
        first = 0
        while first < len(marks):
            self._fill()
            count = min(len(marks) - first, len(self._block[0]) - self._at)
            which = slice(self._at, self._at + count)
            if not np.array_equal(self._block[0][which], marks[first : first + count]):
                raise self._changed()
            taken.append((self._block, which))
            self._at += count
            first += count
        return taken

    def _fill(self) -> None:
        """Hold a block of which not all was taken."""
        while not self._block or self._at == len(self._block[0]):
            block = next(self._blocks, None)
            if block is not None:
                self._block, self._at = block, 0
                continue
            self.close()
            if not self._left:
                raise self._changed()
            self._task = self._left.pop()
            self._part = self._opened(self._task)
            self._blocks = self._part.blocks(self._kind)

    def _changed(self) -> JobError:
        told = "found other documents than those that a task has measured, expected the same: it has changed meanwhile"
        path = "inputs" if self._task is None else self._task.portion.files[0].path
        return JobError(f"{told}; --force begins again", path=path)

    def close(self) -> None:
        """Let go of the part that is open."""
        if self._part is not None:
            self._part.close()
