"""Owns how a job has others measure its documents: which tasks there are, who does them, and what they hand over when.

The job reads on meanwhile, decides and writes, and waits for a task only where it needs what that makes. Where it goes
on after an interruption it has what was handed over before, whoever does the other tasks now. Processes that no engine
starts do theirs before, in a folder that all share.
"""

from __future__ import annotations

import shutil
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

import fpstore
from fpstore.arrays import as_count
from fpstore.awaited import Leash
from fpstore.closing import close_all
from fpstore.cluster.engines import Engine, engine_named
from fpstore.cluster.local import Local, run_here
from fpstore.cluster.made import PAGES, TEXTS, Made, MadePart, made_of, marks_of, marks_of_pages, shown_in
from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.parts import Maker, sweep
from fpstore.cluster.work import REMOVE, claim, claimed, expect_rank, expect_shared, name_of, workplace
from fpstore.disk import Folder
from fpstore.errors import Error, JobError, PathLike
from fpstore.inputs.remote import is_remote
from fpstore.jobs.batches import Place
from fpstore.jobs.changed import AGAIN, changed
from fpstore.jobs.corpus import FEW_WORKERS, Corpus, Inputs, Rows
from fpstore.jobs.each import EachFile
from fpstore.jobs.journal import Job
from fpstore.jobs.keep import Keep
from fpstore.jobs.ranks import write_rank
from fpstore.jobs.settings import Asked, Settings, settle_settings
from fpstore.text import Recipe
from fpstore.text.confirm import CONFIRMED_DISTANCE, UNCONFIRMED_DISTANCE, Confirm
from fpstore.text.packed import packed
from fpstore.text.shared import Page, Shown
from fpstore.threads import Background
from fpstore.types import Array, Keys, expect_flags

# How long a task is: the last of them keeps the others waiting. No more than so many, each of which leaves a file. Who
# does them does not matter for how they are cut, so that another may go on.
TASK_SECONDS, MOST_TASKS = 0.5, 4096
# What tasks of this machine take at least, of work that threads do not share, to be worth it: who does them has to
# begin, and the job to read all of it again. With 25 MB of pages two workers took as long as one process.
WORTH_SECONDS = 2.5
# How often a job looks whether a task has handed over what it waits for: seldom where that takes long.
_LEAST_WAIT, _MOST_WAIT = 0.002, 0.05
# How many tasks may be begun for each worker, from the one on that the job needs. Workers of this machine that are
# further ahead take processors from the job, which is alone with the rest of its work when they are done.
AHEAD_OF_A_WORKER = 2
_FOLDER = "made-"
# For which jobs inputs are measured: a folder of a team is one's alone.
Measured = Literal["dedup", "cluster", "components", "document-pairs", "fingerprint"]


@dataclass(frozen=True)
class Team:
    """Who measures: so many processes, all processors by default, of an engine at an address.

    folder: where they hand over, to go on with; the job's own where None.
    """

    workers: int | None
    engine: str
    address: str | None
    folder: PathLike | None = None

    @classmethod
    def asked(
        cls, workers: object, engine: str | None, address: str | None, folder: PathLike | None = None
    ) -> Team | None:
        """That of the arguments of a job; None where this process alone is to measure. ValueError for no count."""
        count = None if workers is None else as_count(workers, "workers")
        if engine is None and address is None and folder is None and count in (None, 1):
            return None
        return cls(count, "local" if engine is None else engine, address, folder)

    def begin(self) -> Engine:
        """The engine; raises what `engine_named` does."""
        return engine_named(self.engine, self.address, self.workers)


@contextmanager
def shared(
    job: Job | None,
    corpus: Corpus,
    team: Team | None,
    measured: Measured,
    decides: Mapping[str, Any],
    *,
    keeps: bool,
) -> Iterator[Callable[[], Engine]]:
    """A context in which others measure what the corpus reads, where there are any and something to share.

    It gives who does further tasks, once all was measured: the same, or this process. job: in whose folder they hand
    over, unless the team has one; None for one without a folder of its own. measured: for what. decides: what of its
    options decides about results, as `decided_by` tells. keeps: whether it needs the hashes of shingles. Raises what
    `engine_named` and `claim` do; JobError is for whoever reads.
    """
    if team is None:
        with corpus.help_begun():
            yield lambda: Local(None, 1)
        return
    _expect_outside(team.folder, corpus)
    with ExitStack() as held:
        engine = held.enter_context(team.begin())
        if job is None:
            expect_shared(team.folder, engine)
        tasks = _Tasks(corpus, measured, decides, keeps=keeps, durable=not engine.is_here)
        if team.folder is None and not tasks.are_worth_it(engine):
            # This process reads, and shares out piece by piece what it reads.
            if isinstance(engine, Local):
                corpus.threads = max(corpus.threads, engine.workers)
            with corpus.help_begun():
                yield lambda: engine
            return
        if job is None or team.folder is not None:
            folder = held.enter_context(workplace(team.folder))
            tasks.claim(folder)
        else:
            folder = held.enter_context(tasks.folder(job))
        sweep(folder)
        left, seconds = _left(folder, tasks.given_to(folder, first=0 if job is None else _first_source(job)))
        leash = Leash(AHEAD_OF_A_WORKER * engine.workers)
        work = Background(partial(engine, left, seconds, leash=leash))
        beside = engine.workers if engine.is_here and left else 0
        corpus.made_by(partial(_Handed, tasks.of, _Waiting(folder, work, left, leash)), beside)

        def free() -> Engine:
            leash.let_go()
            work.wait()
            return engine

        try:
            yield free
        finally:
            corpus.made_by(None)
            engine.stop()
            leash.let_go()
            work.wait()


def decided_by(settings: Settings, check: Confirm | None, **more: Any) -> dict[str, Any]:
    """What of the options of a job decides about results, beside its inputs: told alike by the job and by its ranks."""
    return {**settings.told, "confirm": None if check is None else str(check), **more}


def measure_rank(
    inputs: Inputs | Iterable[PathLike | Rows],
    *,
    folder: PathLike,
    rank: int,
    world_size: int,
    job: Measured = "dedup",
    recipe: Recipe | None = None,
    store: PathLike | None = None,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    confirm: str | None = "default",
    update_center: bool = False,
    keep: str = "first",
    shards: bool = False,
    output: PathLike | None = None,
) -> int:
    """Do the tasks of one of several processes that no engine starts, as Slurm's are; how many there were to do.

    Each is called with the same arguments but its rank, from 0 on; world_size: how many there are. They read and
    measure inputs for a job, which is then called with the same inputs and folder, and does what nobody has done.
    job: which, by the name of its command, or "components" for `cluster` with these; a folder is one's alone. From
    recipe to shards: as for that job: a folder of a job with others is refused. confirm is None for `components`,
    `document_pairs`, `fpstore.cluster.fingerprint`, and with update_center. The parts in the folder, which all share,
    say what is done: one that is called again does what is left. output: of shards, where they are to lie; called
    again, once a job with world_size has decided, each rank writes its own. Raises what the job does of its inputs;
    ValueError for a rank that is none, and what the job has no option for; JobError for a folder of another job.
    """
    own, count = expect_rank(rank, world_size)
    expect_flags(shards=shards)
    if output is not None and not shards:
        raise ValueError("output: expected it with shards alone, which ranks write; all else the job writes")
    if job not in get_args(Measured):
        raise ValueError(
            f"job: found {job!r:.40}, expected {', '.join(get_args(Measured)[:-1])} or {get_args(Measured)[-1]}"
        )
    expect_flags(update_center=update_center)
    asked = Asked(max_distance, bands, rows_per_band, min_similarity)
    standing = None if store is None else Path(store).absolute()
    _expect_options(job, asked, keep=keep, shards=shards, update_center=update_center, store=store)
    confirms = job == "dedup" or (job == "cluster" and not update_center)
    usual = CONFIRMED_DISTANCE if confirms else UNCONFIRMED_DISTANCE
    settings = settle_settings(standing, recipe, asked, usual, clusters=job == "cluster")
    each = EachFile(inputs) if shards else None
    corpus = Corpus(inputs if each is None else each.inputs, settings.recipe, settings.max_distance, 1)
    check = Confirm.settle(confirm, has_texts=settings.can_confirm)
    _expect_outside(folder, corpus)
    kept_one = Keep.parse(keep)
    own_options: dict[Measured, dict[str, Any]] = {
        "dedup": {"keep": str(kept_one), "store": standing and str(standing), "shards": shards},
        "cluster": {"store": standing and str(standing), "update_center": update_center},
    }
    decides = {} if job == "fingerprint" else decided_by(settings, check, **own_options.get(job, {}))
    tasks = _Tasks(corpus, job, decides, keeps=check is not None and kept_one.is_first, durable=True)
    with workplace(folder) as home:
        tasks.claim(home)
        if each is not None and output is not None:
            written = write_rank(Path(output).absolute(), each, corpus, claimed(home), own, count)
            if written is not None:
                return written
        left, seconds = _left(home, tasks.given_to(home)[own::count])
        run_here(left, 1, seconds)
        return len(left)


def _expect_options(job: Measured, asked: Asked, **others: Any) -> None:
    """ValueError for what the job has no such option for."""
    options = {
        "dedup": {"keep", "shards", "store"},
        "cluster": {"update_center", "store"},
    }
    given = {name for name, value in others.items() if value not in (None, False, "first")}
    if job == "fingerprint":
        given |= {name for name, value in asdict(asked).items() if value is not None}
    if more := sorted(given - options.get(job, set())):
        raise ValueError(f"{more[0]}: found it with job {job!r}, expected none: that has no such option")


def _expect_outside(folder: PathLike | None, corpus: Corpus) -> None:
    """ValueError for a folder in an input, of which what tasks leave would be a part the next time."""
    for source in corpus.files if folder is not None else ():
        if not is_remote(source) and Path(folder or "").resolve().is_relative_to(Path(source).resolve()):
            raise ValueError(f"folder {folder}: found a place in input {source}, expected one beside the inputs")


def _first_source(job: Job) -> int:
    """The first that is not read to its end yet."""
    place = (job.state or {}).get("place")
    return 0 if place is None else Place(*place).source


class _Tasks:
    """All that there are, by the number of the source that each reads a portion of.

    job: what they are called. about: what they are for, as messages say.
    """

    def __init__(
        self, corpus: Corpus, measured: Measured, decides: Mapping[str, Any], *, keeps: bool, durable: bool
    ) -> None:
        """decides: as of shared. keeps, durable: as of MeasureTask."""
        self._recipe, self._keeps, self._durable = corpus.recipe, keeps, durable
        least = (corpus.total_bytes or 0) // MOST_TASKS
        self._cut = {number: corpus.portions(number, TASK_SECONDS, least) for number in range(len(corpus.sources))}
        plan = [[number, [portion.stamp() for portion in own]] for number, own in self._cut.items()]
        self.about, self._measured = f"{measured} of these inputs", measured
        # Not the sources, which are many.
        read = {name: value for name, value in corpus.identity.items() if name != "inputs"}
        self._decides = read | dict(decides)
        self.job = name_of([fpstore.__version__, measured, self._recipe.to_json(), keeps, plan])
        self.count = sum(map(len, self._cut.values()))
        every = [portion for own in self._cut.values() for portion in own]
        self._seconds_of_processes = sum(portion.seconds for portion in every if not portion.is_for_threads)
        self._of: dict[int, list[MeasureTask]] = {}

    def claim(self, folder: Folder) -> None:
        """Have a folder that the job was given as its own. JobError where that is another's."""
        begun = "" if self._measured == "fingerprint" else f"; a job that was begun with it: {AGAIN}"
        claim(folder, self.job, self.about, self._decides, REMOVE + begun)

    def are_worth_it(self, engine: Engine) -> bool:
        """Whether they are done sooner by an engine than this process does all, with threads and processes of its own.

        That reads once, writes no parts, and has few processes busy.
        """
        if self.count < 2 or not isinstance(engine, Local):
            return self.count > 1
        return engine.workers > FEW_WORKERS and self._seconds_of_processes > WORTH_SECONDS

    def of(self, number: int) -> list[MeasureTask]:
        """Those of a source; none where only this process can read it."""
        return self._of[number]

    def folder(self, job: Job) -> Folder:
        """Where they hand over within the folder of a job; what those of other inputs left is removed."""
        own, work = f"{_FOLDER}{self.job}", job.work_folder
        for name in work.names():
            if name.startswith(_FOLDER) and name != own:
                shutil.rmtree(name, ignore_errors=True, dir_fd=work.fd)  # a link, say, is not followed and stays
        return job.subfolder(own)

    def given_to(self, folder: Folder, first: int = 0) -> list[MeasureTask]:
        """Those of the sources from one on, which hand over in a folder."""
        about, count = (fpstore.__version__, folder.path.absolute()), 0
        recipe, keeps, durable = self._recipe, self._keeps, self._durable
        for number, portions in self._cut.items():
            makers = [Maker(self.job, count + place) for place in range(len(portions))]
            given = zip(makers, portions, strict=True)
            self._of[number] = [MeasureTask(maker, *about, portion, recipe, keeps, durable) for maker, portion in given]
            count += len(portions)
        return [task for number, own in self._of.items() if number >= first for task in own]


def _left(folder: Folder, tasks: Sequence[MeasureTask]) -> tuple[list[MeasureTask], float]:
    """Those of the tasks that are to be done, and how many seconds they take.

    A part that a power cut has left as it came is removed.
    """
    names = set(folder.names())
    left = []
    for task in tasks:
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
                    told = f"{task}: found nothing that it made, and nobody at work on it"
                    raise JobError(f"{told}; {AGAIN}", path=self._folder.path) from None
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

    def expect_end(self, *, of_texts: bool) -> None:
        """As of Handed."""
        for columns in (self._pages, self._texts) if of_texts else (self._pages,):
            columns.expect_end()

    def close(self) -> None:
        """Nothing more is read of the source."""
        close_all(self._pages.close, self._texts.close)


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

    def expect_end(self) -> None:
        """JobError where there is a row that was not taken: who reads the source would not miss what has gone there."""
        if self._is_filled():
            raise self._changed()

    def _fill(self) -> None:
        """Hold a block of which not all was taken. JobError where there is none."""
        if not self._is_filled():
            raise self._changed()

    def _is_filled(self) -> bool:
        """Hold a block of which not all was taken; whether there is one."""
        while not self._block or self._at == len(self._block[0]):
            block = next(self._blocks, None)
            if block is not None:
                self._block, self._at = block, 0
                continue
            self.close()
            if not self._left:
                return False
            self._task = self._left.pop()
            self._part = self._opened(self._task)
            self._blocks = self._part.blocks(self._kind)
        return True

    def _changed(self) -> Error:
        told = "found other documents than those that a task has measured, expected the same: it has changed meanwhile"
        path = "inputs" if self._task is None else self._task.portion.files[0].path
        return changed(told, path)

    def close(self) -> None:
        """Let go of the part that is open."""
        if self._part is not None:
            self._part.close()
