"""A build by tasks at work in a folder: what sorts, what makes tables of what is sorted, and how these are joined."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any

import numpy as np

import fpstore
from fpstore.building.options import BuildOptions
from fpstore.cluster.coding import CodesTableTask, MergedMaker, TableFile, groups_in
from fpstore.cluster.engines import Engine
from fpstore.cluster.parts import Maker, Part, sweep, write_part
from fpstore.cluster.sorting import Met, Sorted, SortTask, TableTask, columns_of, merged_rows, met_by
from fpstore.cluster.work import (
    MOST_TASKS,
    claim,
    do_left,
    left_of,
    name_of,
    parts_of,
    task_count,
)
from fpstore.codes.writer import CodesWriter
from fpstore.disk import Folder, Place
from fpstore.errors import JobError
from fpstore.inputs import Reader
from fpstore.inputs.errors import BadInput, expect_some
from fpstore.inputs.shares import Share, expect_id
from fpstore.merging import begins
from fpstore.plans.plan import Plan
from fpstore.plans.planner import slot_bits
from fpstore.progress import OnProgress
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter
from fpstore.workers import START_AFTER_SECONDS

# A file is one share where nobody shares its rows.
_MOST_ROWS = 1 << 63

# What a row takes of a thread to be read and sorted, and what a key takes to be sorted and encoded in a table; and what
# an id adds to either, in table 0 alone. 10^7 of an array: 19 to 24 ns, and 24 to 36; 46, and 76, with ids.
SORT_NS, TABLE_NS = 25.0, 30.0
SORT_ID_NS, TABLE_ID_NS = 25.0, 50.0
# What a byte of a file takes to be read, but for those of arrays. CSV of 10^6 rows takes 110 to 190 ns, JSON lines 95,
# with the interpreter's lock, which keeps threads from sharing it; lines of hexadecimal 7 and Parquet 35, without.
READ_NS, QUICK_READ_NS = 100.0, 10.0
_READ_BY_THREADS = ("npy", "u64", "hex", "parquet")
# Tasks are begun for what they spare the clock, which is to be more than what their parts and their start take.
WORTH_SECONDS = 2 * START_AFTER_SECONDS


def worth_tasks(shares: Sequence[Share], workers: int) -> bool:
    """Whether so many processes of this machine that read the files are done before as many threads of one are.

    That is where the interpreter reads, and there are several files of it. The sorting and the tables threads share as
    well, without writing what is sorted, and the tables, twice.
    """
    slow = [_reading_seconds(share) for share in shares if share.format not in _READ_BY_THREADS]
    at_once = min(workers, len(slow))
    return at_once > 1 and sum(slow) - max(sum(slow) / at_once, *slow) > WORTH_SECONDS


def files_of(reader: Reader) -> list[Share]:
    """The files, each as one share."""
    return reader.shares(_MOST_ROWS, for_others=False)


def _reading_seconds(share: Share) -> float:
    if share.only is not None or share.format in ("npy", "u64"):
        return 0.0
    return share.stamp[0] * (QUICK_READ_NS if share.format in _READ_BY_THREADS else READ_NS) / 1e9


class Job:
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
        decides: Mapping[str, Any],
    ) -> None:
        """decides: what else of the options decides what the store becomes."""
        self._decides = dict(decides)
        self._home, self._engine, self._reader, self._options = home, engine, reader, options
        self._first_id, self._skip_bad, self._progress = first_id, skip_bad, progress
        self._parts: tuple[Sorted, ...] = ()
        self._tables: list[Any] = []
        self.count = self.most = 0

    def tasks(self, asked: int | None, sharing: int, *, is_rank: bool = False) -> list[SortTask]:
        """What sorts all of the input, for so many who share that; the folder is theirs from now on.

        is_rank: whether others do the rest, and publish.
        """
        each = SORT_NS + SORT_ID_NS * self._options.with_ids
        self._seconds = (self._reader.total_bytes or 0) / 8 * each / 1e9
        self._seconds += sum(map(_reading_seconds, files_of(self._reader)))
        lots = _lots(self._reader, task_count(self._seconds, sharing, asked))
        about = fpstore.__version__, self._home.path.absolute()
        told = [[share.told() for share in lot] for lot in lots]
        # Not how much memory each has: rows that were sorted in more runs are the same.
        options = asdict(self._options) | {"memory_bytes": 0}
        self._job = name_of([about[0], "build", told, options, self._skip_bad])
        told_of = {
            "ids": self._options.with_ids,
            "first_id": self._first_id,
            "skip_bad": self._skip_bad,
            "codec": self._options.codec,
            "tasks": len(lots),
        }
        decides = self._decides | told_of | asdict(self._options.choice)
        # Who makes all tables that are left makes those of other numbers anew.
        claim(self._home, self._job, "these files", decides, free=() if is_rank else ("first_id",))
        return [
            SortTask(Maker(self._job, number), *about, lot, self._skip_bad, self._options)
            for number, lot in enumerate(lots)
        ]

    def do_own(self, tasks: Sequence[SortTask], own: int, count: int) -> int:
        """Do what is one's own of the tasks, by turns, and where all is sorted of the tables; how many there were."""
        columns = columns_of(self._options)
        sorts = left_of(self._home, tasks[own::count], columns)
        self._engine(sorts, self._seconds)
        if left_of(self._home, tasks, columns):
            return len(sorts)
        self.sort(tasks)
        self.plan_tables()
        tables = self._left_tables(self._tables[own::count])
        self._engine(tables, self._seconds)
        return len(sorts) + len(tables)

    def sort(self, tasks: Sequence[SortTask]) -> None:
        """Have all of the input sorted, and count what it holds."""
        seconds = self._seconds
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

    def plan_tables(self) -> None:
        """Say which tables there are to be."""
        self.plan = self._options.choice.for_count(self.count)
        made_of = name_of([self._job, [part.bases for part in self._parts], self.plan.to_json(), self.count])
        self._tables = [self._table(Maker(made_of, number)) for number in range(len(self.plan.tables))]

    def _left_tables(self, tables: Sequence[Any]) -> list[Any]:
        """Those that nobody has made."""
        names = set(self._home.names())
        return [task for task in tables if task.name not in names]

    def make_tables(self) -> None:
        """Have each table of the plan made."""
        self.plan_tables()
        left = self._left_tables(self._tables)
        seconds = self.count * (len(self._tables) * TABLE_NS + TABLE_ID_NS * self._options.with_ids) / 1e9
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


class CodesJob(Job):
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
        raise BadInput(f"{share.shown}: {told}")
    return before
