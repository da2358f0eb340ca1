"""A build by tasks: the input sorted in shares, then each table made of these, then all published in one step.

The segment has the bytes of the one that `fpstore.build` makes of the same input. Until it is published nothing is
there, whatever has failed; what tasks have done lies in a folder, with which an interrupted call goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import fpstore
from fpstore.arrays import as_count, as_mode, parse_memory
from fpstore.building.options import MIN_MEMORY, BuildOptions
from fpstore.cluster.engines import Engine
from fpstore.cluster.local import Local
from fpstore.cluster.stages import CodesJob, Job, files_of, worth_tasks
from fpstore.cluster.work import (
    Crew,
    expect_rank,
    workplace,
)
from fpstore.creation import Content, codec_of, expect_replaceable, make_store
from fpstore.disk import Folder, Place
from fpstore.errors import PathLike
from fpstore.inputs import Reader, read
from fpstore.inputs.shares import Share
from fpstore.living.state import Settings
from fpstore.making import distance_of, recipe_of, recipe_record
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice, block_bytes_asked, plan_asked
from fpstore.plans.plan import Plan
from fpstore.progress import OnProgress
from fpstore.segment.entry import SegmentEntry
from fpstore.store import Store
from fpstore.text import Recipe
from fpstore.types import ByteOrder, Codec, Layout, expect_flags


def build(
    store: PathLike,
    inputs: Sequence[PathLike],
    *,
    format: str = "auto",
    fingerprint_column: str | int | None = None,
    fingerprint_format: str = "auto",
    byte_order: ByteOrder = "big",
    id_column: str | int | None = None,
    ids: str | None = "auto",
    first_id: int = 0,
    header: bool | None = None,
    skip_bad: bool = False,
    bits: int | None = None,
    max_distance: int | None = None,
    plan: str | Plan = "balanced",
    max_bytes: float | None = None,
    codec: Codec | None = None,
    layout: Layout = "slots",
    block_bytes: int | None = None,
    recipe: Recipe | str | None = None,
    shuffle: int | None = None,
    memory: str | int = "2GiB",
    force: bool = False,
    mode: int | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
) -> Store:
    """Build a store of files of fingerprints by tasks that processes do, and open it for reading.

    The store is the one that `fpstore build` makes of the same files: its segment has the same bytes. inputs, and all
    up to skip_bad: as for `fpstore.inputs.read`; from bits to mode as for `fpstore.build`. memory: the budget of all
    processes together, of which each has its share, 64 MiB or more. engine, address, workers, folder, progress: as for
    `probe`. tasks: how many sort; then there is one for each table of the plan. world_size: of how many processes that
    did tasks by `build_rank`.

    On this machine, with no folder and no tasks asked for, there are tasks where several files take long to be read by
    the interpreter; otherwise as many threads of this process as workers do all, which is quicker.

    Nothing is at the store's place before all is. ValueError for texts and for standard input, which `fpstore.build`
    takes; what `fpstore.inputs.read` and `fpstore.build` raise; BadInput where a file changes
    meanwhile; JobError for a folder of another job, and where a task's process ended three times.
    """
    reader, made = _reader_of(
        inputs,
        recipe,
        format=format,
        fingerprint_column=fingerprint_column,
        fingerprint_format=fingerprint_format,
        byte_order=byte_order,
        id_column=id_column,
        ids=ids,
        first_id=first_id,
        header=header,
        bits=bits,
        skip_bad=skip_bad,
    )
    return build_of(
        reader,
        store,
        with_ids=ids is not None,
        first_id=first_id,
        skip_bad=skip_bad,
        recipe=made,
        bits=bits,
        max_distance=max_distance,
        plan=plan,
        max_bytes=max_bytes,
        codec=codec,
        layout=layout,
        block_bytes=block_bytes,
        shuffle=shuffle,
        memory=memory,
        force=force,
        mode=mode,
        engine=engine,
        address=address,
        workers=workers,
        tasks=tasks,
        folder=folder,
        world_size=world_size,
        progress=progress,
    )


def build_rank(
    store: PathLike,
    inputs: Sequence[PathLike],
    *,
    rank: int,
    world_size: int,
    folder: PathLike,
    recipe: Recipe | str | None = None,
    bits: int | None = None,
    ids: str | None = "auto",
    first_id: int = 0,
    skip_bad: bool = False,
    **how: Any,
) -> int:
    """Do the tasks of one of several processes that no engine starts, as Slurm's are; how many there were to do.

    Each is called with the arguments of `build` but engine, address, workers and progress, and with its rank; memory is
    of this process. All sort what is theirs; who finds that all is sorted makes the tables that are theirs too. So each
    is called twice, and `build` with the same folder and world_size then does what nobody has done, and publishes.
    """
    said = {name: how.pop(name) for name in tuple(how) if name in _OF_READING}
    reader, made = _reader_of(inputs, recipe, ids=ids, first_id=first_id, bits=bits, skip_bad=skip_bad, **said)
    about: dict[str, Any] = {
        "with_ids": ids is not None,
        "first_id": first_id,
        "skip_bad": skip_bad,
        "recipe": made,
        "bits": bits,
    }
    return rank_of(reader, store, rank=rank, world_size=world_size, folder=folder, **about, **how)


# What a reader of inputs is asked for by name, and by nothing else here.
_OF_READING = ("format", "fingerprint_column", "fingerprint_format", "byte_order", "id_column", "header")


def _reader_of(
    inputs: Sequence[PathLike], recipe: Recipe | str | None, *, bits: int | None, **how: Any
) -> tuple[Reader, Recipe | None]:
    """What reads the inputs, and the recipe that is asked for."""
    made = recipe_of(recipe, "hamming")
    reader = read(inputs, bits=recipe_record(made, bits)[1], recipe=made, threads=1, **how)
    reader.settle_origin()
    return reader, made


def build_of(
    reader: Reader,
    store: PathLike,
    *,
    force: bool = False,
    mode: int | None = None,
    memory: str | int = "2GiB",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    world_size: int | None = None,
    progress: OnProgress | None = None,
    **asked: Any,
) -> Store:
    """The same of what a reader was made for, which counts what was read and has not been asked for any of it."""
    path, crew = Path(store), Crew.of(engine, address, workers, tasks, folder, progress, world_size)
    build, mode = _Asked.of(reader, progress=progress, **asked), as_mode(mode)
    expect_flags(force=force)
    expect_replaceable(path, force=force)
    with crew.begun() as chosen:
        options = build.options(memory, chosen.workers)
        if crew.leaves_all_open(chosen) and not worth_tasks(shares := files_of(reader), chosen.workers):
            how: dict[str, Any] = {"memory": memory, "force": force, "mode": mode, "progress": progress}
            return build.by_threads(path, shares, asked, threads=chosen.workers, **how)
        with workplace(folder) as home:
            job = build.job(home, chosen, options)
            job.sort(job.tasks(crew.tasks, crew.sharing(chosen)))
            job.make_tables()

            def write(place: Place, scratch: Path, position: int) -> Content:
                return build.content(job, job.join(place, position))

            make_store(path, write, mode, force=force)
    return fpstore.open(path)


def rank_of(
    reader: Reader,
    store: PathLike,
    *,
    rank: int,
    world_size: int,
    folder: PathLike,
    force: bool = False,
    mode: int | None = None,
    memory: str | int = "2GiB",
    tasks: int | None = None,
    **asked: Any,
) -> int:
    """As build_rank, of what a reader was made for."""
    own, count = expect_rank(rank, world_size)
    build, every = _Asked.of(reader, **asked), None if tasks is None else as_count(tasks, "tasks")
    as_mode(mode)
    expect_flags(force=force)
    expect_replaceable(Path(store), force=force)
    options = build.options(memory, 1)
    with Local(None, 1) as alone, workplace(folder) as home:
        job = build.job(home, alone, options)
        return job.do_own(job.tasks(every, count, is_rank=True), own, count)


@dataclass(frozen=True)
class _Asked:
    """What a build is asked for. record, width: the recipe of the fingerprints, and their bits."""

    reader: Reader
    choice: PlanChoice
    codec: Codec
    with_ids: bool
    first_id: int
    skip_bad: bool
    record: dict[str, Any] | None
    width: int
    progress: OnProgress | None

    @classmethod
    def of(
        cls,
        reader: Reader,
        *,
        with_ids: bool,
        first_id: int,
        skip_bad: bool,
        recipe: Recipe | None,
        bits: int | None,
        max_distance: int | None = None,
        plan: str | Plan = "balanced",
        max_bytes: float | None = None,
        codec: Codec | None = None,
        layout: Layout = "slots",
        block_bytes: int | None = None,
        shuffle: int | None = None,
        progress: OnProgress | None = None,
    ) -> Self:
        """Of the arguments of these names. What fpstore.build raises of them."""
        said = reader.origin.record
        record, width = recipe_record(Recipe.from_json(said) if recipe is None and said is not None else recipe, bits)
        distance = distance_of(max_distance, record)
        choice = PlanChoice(distance, plan_asked(plan, max_bytes), width, block_bytes_asked(layout, block_bytes))
        choice, coded = choice.shuffled(shuffle, EXPECTED_KEYS), codec_of(codec, width)
        return cls(reader, choice, coded, with_ids, first_id, skip_bad, record, width, progress)

    def by_threads(self, path: Path, shares: Sequence[Share], asked: dict[str, Any], **how: Any) -> Store:
        """The store, built by threads of this process. asked, how: of what build_of was given, and threads."""
        given = {name: value for name, value in asked.items() if name not in self.__dataclass_fields__}
        said = self.reader.origin.record
        if given["recipe"] is None and said is not None:
            given["recipe"] = Recipe.from_json(said)
        ids = "row" if self.with_ids else None
        return fpstore.build(path, self._rows(shares), ids=ids, **given | {"codec": self.codec}, **how)

    def _rows(self, shares: Sequence[Share]) -> Iterator[Any]:
        """What is read of the files, which are the shares. BadInput where one changes meanwhile."""
        for batch in self.reader:
            yield (batch.fingerprints, batch.ids) if self.with_ids else batch.fingerprints
        for share in shares:
            share.expect_same()

    def options(self, memory: str | int, workers: int) -> BuildOptions:
        """Of each of so many workers. ValueError where that is too little."""
        budget = parse_memory(memory)
        each = min(budget, max(budget // workers, 0))
        if each < MIN_MEMORY:
            told = f"found {budget} bytes for {workers} workers, expected {MIN_MEMORY >> 20}MiB for each"
            raise ValueError(f"memory: {told}, or fewer workers")
        return BuildOptions(self.choice, self.codec, self.with_ids, each)

    def job(self, home: Folder, engine: Engine, options: BuildOptions) -> Job:
        """The build at work there."""
        kind = CodesJob if self.choice.is_wide else Job
        decides = {"recipe": self.record}
        return kind(home, engine, self.reader, options, self.first_id, self.skip_bad, self.progress, decides)

    def content(self, job: Job, entry: SegmentEntry) -> Content:
        """What the store becomes."""
        ids = "uint64" if self.with_ids else None
        settings = Settings(self.choice.max_distance, job.plan.to_json(), self.codec, ids, self.record, self.width)
        return Content(settings, entry, job.most if entry.id_count else None)
