"""A build by tasks: the input sorted in shares, then each table made of these, then all published in one step.

The segment has the bytes of the one that `fpstore.build` makes of the same input. Until it is published nothing is
there, whatever has failed; what tasks have done lies in a folder, with which an interrupted call goes on.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore.arrays import as_mode, parse_memory
from fpstore.building.options import MIN_MEMORY, BuildOptions
from fpstore.cluster.coding import CodesTableTask, MergedMaker, TableFile, groups_in
from fpstore.cluster.engines import Engine
from fpstore.cluster.parts import Maker, Part, sweep, write_part
from fpstore.cluster.sorting import Met, Sorted, SortTask, TableTask, columns_of, merged_rows, met_by
from fpstore.cluster.work import MOST_TASKS, Crew, claim, do_left, name_of, parts_of, task_count, workplace
from fpstore.codes.writer import CodesWriter
from fpstore.creation import Content, codec_of, expect_replaceable, make_store
from fpstore.disk import Folder, Place
from fpstore.errors import JobError, PathLike
from fpstore.inputs import Reader, read
from fpstore.inputs.errors import BadInput, expect_some
from fpstore.inputs.shares import Share, expect_id
from fpstore.living.state import Settings
from fpstore.making import distance_of, recipe_of, recipe_record
from fpstore.merging import begins
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice, block_bytes_asked, plan_asked
from fpstore.plans.plan import Plan
from fpstore.plans.planner import slot_bits
from fpstore.progress import OnProgress
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter
from fpstore.store import Store
from fpstore.text import Recipe
from fpstore.types import ByteOrder, Codec, Layout, expect_flags

# What a row takes of a thread to be read and sorted, and what a key takes to be sorted and encoded in a table.
SORT_NS, TABLE_NS = 60.0, 80.0


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
    progress: OnProgress | None = None,
) -> Store:
    """Build a store of files of fingerprints by tasks that processes do, and open it for reading.

    The store is the one that `fpstore build` makes of the same files: its segment has the same bytes. inputs, and all
    up to skip_bad: as for `fpstore.inputs.read`; from bits to mode as for `fpstore.build`. memory: the budget of all
    processes together, of which each has its share, 64 MiB or more. engine, address, workers, folder, progress: as for
    `probe`. tasks: how many sort; then there is one for each table of the plan.

    Nothing is at the store's place before all is. ValueError for texts and for standard input, which `fpstore.build`
    takes; what `fpstore.inputs.read` and `fpstore.build` raise; BadInput where a file changes
    meanwhile; JobError for a folder of another job, and where a task's process ended three times.
    """
    expect_flags(force=force, skip_bad=skip_bad)
    made = recipe_of(recipe, "hamming")
    reader = read(
        [Path(each) if isinstance(each, Path) else str(each) for each in inputs],
        format=format,
        fingerprint_column=fingerprint_column,
        fingerprint_format=fingerprint_format,
        byte_order=byte_order,
        id_column=id_column,
        ids=ids,
        first_id=first_id,
        header=header,
        bits=recipe_record(made, bits)[1],
        skip_bad=skip_bad,
        recipe=made,
        threads=1,
    )
    reader.settle_origin()
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
        progress=progress,
    )


def build_of(
    reader: Reader,
    store: PathLike,
    *,
    with_ids: bool,
    first_id: int,
    skip_bad: bool,
    recipe: Recipe | None,
    bits: int | None,
    max_distance: int | None,
    plan: str | Plan,
    max_bytes: float | None,
    codec: Codec | None,
    layout: Layout,
    block_bytes: int | None,
    shuffle: int | None,
    memory: str | int,
    force: bool,
    mode: int | None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tasks: int | None = None,
    folder: PathLike | None = None,
    progress: OnProgress | None = None,
) -> Store:
    """The same of what a reader was made for, which counts what was read and has not been asked for any of it."""
    path, crew = Path(store), Crew.of(engine, address, workers, tasks, folder, progress)
    said = reader.origin.record
    record, width = recipe_record(Recipe.from_json(said) if recipe is None and said is not None else recipe, bits)
    asked_distance = distance_of(max_distance, record)
    choice = PlanChoice(asked_distance, plan_asked(plan, max_bytes), width, block_bytes_asked(layout, block_bytes))
    choice = choice.shuffled(shuffle, EXPECTED_KEYS)
    coded, mode = codec_of(codec, width), as_mode(mode)
    expect_replaceable(path, force=force)
    with crew.begun() as chosen:
        budget = parse_memory(memory)
        each = min(budget, max(budget // chosen.workers, 0))
        if each < MIN_MEMORY:
            told = f"found {budget} bytes for {chosen.workers} workers, expected {MIN_MEMORY >> 20}MiB for each"
            raise ValueError(f"memory: {told}, or fewer workers")
        options = BuildOptions(choice, coded, with_ids, each)
        with workplace(folder) as home:
            kind = _CodesJob if choice.is_wide else _Job
            job = kind(home, chosen, reader, options, first_id, skip_bad, progress)
            job.sort(crew.tasks)
            job.make_tables()

            def write(place: Place, scratch: Path, position: int) -> Content:
                entry = job.join(place, position)
                ids = "uint64" if with_ids else None
                settings = Settings(choice.max_distance, job.plan.to_json(), coded, ids, record, width)
                return Content(settings, entry, job.most if entry.id_count else None)

            make_store(path, write, mode, force=force)
    return fpstore.open(path)


class _Job:
    """A build at work in a folder. plan, count, most: the plan, how many keys there are, and the largest id."""

    plan: Plan

    def __init__(
        self,
        home: Folder,
        engine: Engine,
        reader: Reader,
        options: BuildOptions,
        first_id: int,
        skip_bad: bool,
        progress: OnProgress | None,
    ) -> None:
        self._home, self._engine, self._reader, self._options = home, engine, reader, options
        self._first_id, self._skip_bad, self._progress = first_id, skip_bad, progress
        self._parts: tuple[Sorted, ...] = ()
        self._tables: list[Any] = []
        self.count = self.most = 0

    def sort(self, asked: int | None) -> None:
        """Have all of the input sorted, and count what it holds."""
        seconds = (self._reader.total_bytes or 0) / 8 * SORT_NS / 1e9
        lots = _lots(self._reader, task_count(seconds, self._engine.workers, asked))
        about = fpstore.__version__, self._home.path.absolute()
        told = [[asdict(share) for share in lot] for lot in lots]
        self._job = name_of([about[0], "build", told, asdict(self._options), self._skip_bad])
        claim(self._home, self._job, "these files and options")
        tasks = [
            SortTask(Maker(self._job, number), *about, lot, self._skip_bad, self._options)
            for number, lot in enumerate(lots)
        ]
        with ExitStack() as held:
            columns = columns_of(self._options)
            parts = parts_of(self._home, self._engine, tasks, seconds, columns, self._progress, "sorting")
            for part in parts:
                held.callback(part.close)
            met = [met_by(part, task) for part, task in zip(parts, tasks, strict=True)]
        self._parts = tuple(
            Sorted(task.maker, bases) for task, bases in zip(tasks, self._bases(tasks, met), strict=True)
        )
        self._count()

    def _count(self) -> None:
        last = -1
        for keys, *ids in merged_rows(self._home, self._parts, self._options):
            self.count += int(np.count_nonzero(begins(keys))) - (int(keys[0]) == last)
            last = int(keys[-1])
            if ids:
                self.most = max(self.most, int(ids[0].max()))

    def _bases(self, tasks: Sequence[SortTask], met: Sequence[Sequence[Met]]) -> Iterator[tuple[int, ...]]:
        """What is to be added to the ids of each share, task by task; and the reader counts what was met."""
        file, rows, in_file, good = -1, 0, 0, 0
        with_ids: bool | None = None
        for task, own in zip(tasks, met, strict=True):
            bases = []
            for share, each in zip(task.shares, own, strict=True):
                if share.file != file:
                    file, rows, in_file = share.file, rows + in_file, 0
                in_file, good = each.end, good + each.good
                with_ids = _agreed(share, each.has_ids, with_ids)
                self._reader.count(each.end - (share.only or (0, 0))[0], each.bad, each.skipped, each.notes)
                base = 0 if each.has_ids else rows + self._first_id
                if each.good:
                    expect_id(base + each.last)
                bases.append(base)
            yield tuple(bases)
        expect_some(good, sum(each.bad for own in met for each in own), self._reader.skipped)

    def make_tables(self) -> None:
        """Have each table of the plan made."""
        self.plan = self._options.choice.for_count(self.count)
        made_of = name_of([self._job, [part.bases for part in self._parts], self.plan.to_json(), self.count])
        self._tables = [self._table(Maker(made_of, number)) for number in range(len(self.plan.tables))]
        names = set(self._home.names())
        left = [task for task in self._tables if task.name not in names]
        seconds = self.count * len(self._tables) * TABLE_NS / 1e9
        do_left(self._engine, self._tables, left, seconds, self._progress, "tables")
        sweep(self._home)

    def _table(self, maker: Maker) -> Any:
        """The task that makes a table."""
        about = fpstore.__version__, self._home.path.absolute(), self._parts, self.plan, self.count, self._options
        return TableTask(maker, *about)

    def join(self, place: Place, position: int) -> SegmentEntry:
        """Write the segment of all tables there."""
        bits, keys = slot_bits(self.count, self.plan.slot_keys), self.plan.block_bytes
        with SegmentWriter(place, self._options.codec, bits, self.plan.bits, keys) as writer:
            for task in self._tables:
                self._join(writer, task)
            if self._options.with_ids:
                self._join(writer, self._tables[0], ids=True)
            return writer.finish(position)

    def _join(self, writer: SegmentWriter, task: TableTask, *, ids: bool = False) -> None:
        alone = Segment(Place(self._home, task.name))
        try:
            writer.join(alone, ids=ids)
        finally:
            alone.close()


class _CodesJob(_Job):
    """The same of wide codes, whose tables tell ranks: all rows are merged into one part before any is made."""

    def _count(self) -> None:
        columns = columns_of(self._options)
        # Behind the parts of the job, whose numbers are those of lots; named for what ids are counted from, too.
        self._rows = MergedMaker(name_of([self._job, "merged", [part.bases for part in self._parts]]), MOST_TASKS)
        try:
            Part.open(self._home, self._rows, columns).close()
        except (FileNotFoundError, JobError):  # or those of ids that are counted from another number
            with closing(merged_rows(self._home, self._parts, self._options)) as rows:
                write_part(self._home, self._rows, columns, [rows])
        with closing(groups_in(self._home, self._rows, self._options)) as groups:
            self.count, self.most = groups.count, groups.most

    def _table(self, maker: Maker) -> Any:
        about = fpstore.__version__, self._home.path.absolute(), self._rows, self.plan, self._options
        return CodesTableTask(maker, *about)

    def join(self, place: Place, position: int) -> SegmentEntry:
        """Write the segment of all tables there."""
        with ExitStack() as held:
            groups = held.enter_context(closing(groups_in(self._home, self._rows, self._options)))
            tables = [held.enter_context(closing(TableFile(self._home, task, self.count))) for task in self._tables]
            writer = held.enter_context(
                CodesWriter(place, groups, self.plan, lambda index, tell: tables[index].table())
            )
            return writer.write(lambda phase, done, total: None, position)


def _lots(reader: Reader, count: int) -> list[tuple[Share, ...]]:
    """The shares of the input, in order, in at most so many lots of about as many bytes."""
    total = reader.total_bytes or 0
    shares = reader.shares(max(1, -(-total // 8 // count)))
    sizes = [_bytes_of(share) for share in shares]
    lots: list[list[Share]] = [[] for _ in range(min(count, max(1, len(shares))))]
    done, whole = 0.0, max(1.0, sum(sizes))
    for share, size in zip(shares, sizes, strict=True):
        lots[min(len(lots) - 1, int((done + size / 2) / whole * len(lots)))].append(share)
        done += size
    return [tuple(lot) for lot in lots if lot]


def _bytes_of(share: Share) -> float:
    if share.only is not None:
        return 8.0 * (share.only[1] - share.only[0])
    return max(1.0, float(share.stamp[0]))


def _agreed(share: Share, has_ids: bool | None, before: bool | None) -> bool | None:
    """Whether files have ids of their own, as they all say. BadInput for one that says otherwise."""
    if has_ids is None or before is None:
        return before if has_ids is None else has_ids
    if has_ids != before:
        found, others = ("a column", "none") if has_ids else ("no column", "one")
        told = f"found {found} called id, and {others} in the files before; expected ids (--ids) to say which is meant"
        raise BadInput(f"{share.path}: {told}")
    return before
