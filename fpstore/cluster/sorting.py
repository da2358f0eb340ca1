"""The tasks of a build: some of the input sorted, as runs; and one table of all of it, as a segment of its own.

Both do what a build of one process does, in the same code: what the tables become, joined, has the same bytes.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fpstore.building.options import BuildOptions
from fpstore.building.rows import OTHER_MEMORY, sort_rows, write_table
from fpstore.building.spill import SortedPairs
from fpstore.checks import expect_integer, named_fields, typed
from fpstore.cluster.gathering import each_row_once, gathered
from fpstore.cluster.parts import Maker, Part, Run, own_place, whole_file, write_runs
from fpstore.cluster.tasks import OfModule, expect_version
from fpstore.codes.sorting import sorted_rows
from fpstore.disk import Folder
from fpstore.fingerprints import words_of
from fpstore.inputs.reader import read_share
from fpstore.inputs.shares import Share, reads_ids
from fpstore.merging import Columns, union
from fpstore.plans.plan import Plan
from fpstore.segment.entry import segment_name


@dataclass(frozen=True)
class Met:
    """What was met in a share beside its rows. end: how many rows its file has up to there; good: fingerprints there.

    last: the number of the last of these. has_ids: whether the file has ids of its own, None where nothing tells.
    bad, skipped, notes: as of a Reader.
    """

    end: int
    good: int
    last: int
    has_ids: bool | None
    bad: int
    skipped: dict[str, int]
    notes: dict[str, int]

    @classmethod
    def of(cls, value: object) -> "Met":
        """That of JSON. ValueError for what is none."""
        fields = named_fields("met", value, {*cls.__dataclass_fields__})
        for name in ("end", "good", "last", "bad"):
            expect_integer(name, fields[name], 0, 2**64 - 1)
        for name in ("skipped", "notes"):
            for count in typed(name, fields[name], dict).values():
                expect_integer(name, count, 0, 2**64 - 1)
        if fields["has_ids"] is not None:
            typed("has_ids", fields["has_ids"], bool)
        return cls(**fields)


@dataclass(frozen=True)
class SortTask(OfModule):
    """Some shares of the input, each sorted under table 0's permutation: runs of a part. options: of this process."""

    maker: Maker
    version: str
    folder: Path
    shares: tuple[Share, ...]
    skip_bad: bool
    options: BuildOptions

    def __str__(self) -> str:
        return f"task {self.maker.task} of a build, which sorts rows"

    def do(self) -> int:
        """Write the part, which tells what was met; how many rows it has."""
        expect_version(self, self.version)
        met: list[Any] = []
        with Folder.open(self.folder) as folder, whole_file(folder, self.maker.name) as file:
            runs = (self._sorted(share, folder.reach, met) for share in self.shares)
            return write_runs(file, self.maker, columns_of(self.options), runs, met)

    def _sorted(self, share: Share, scratch: Path, met: list[Any]) -> Iterator[Columns]:
        batches, request = read_share(share, self.skip_bad)
        good = last = 0

        def rows() -> Iterator[tuple[Any, Any]]:
            nonlocal good, last
            for batch in batches:
                good += len(batch.fingerprints)
                last = 0 if batch.ids is None else int(batch.ids[-1])
                yield batch.fingerprints, batch.ids

        with closing(batches):
            yield from _in_order(rows(), self.options, scratch)
        faults, has_ids = request.faults, reads_ids(request)
        counts = faults.bad, dict(faults.counts), dict(faults.notes)
        met.append(asdict(Met(request.seen.rows, good, last, has_ids, *counts)))


def met_by(part: Part, task: SortTask) -> list[Met]:
    """What a task has met, share by share. JobError where its part does not tell it."""
    try:
        met = [Met.of(each) for each in typed("met", part.told, list)]
        if len(met) == len(task.shares):
            return met
    except ValueError:
        pass
    raise part.untold()


def columns_of(options: BuildOptions) -> int:
    """How many columns the parts have: keys of table 0, or each word of wide codes, and ids where there are any."""
    return words_of(options.choice.bits) + options.with_ids


def _in_order(rows: Iterator[tuple[Any, Any]], options: BuildOptions, scratch: Path) -> Iterator[Columns]:
    """Rows as the columns of a run."""
    if options.choice.is_wide:
        about = columns_of(options), options.with_ids, scratch, options.memory_bytes - OTHER_MEMORY
        for own in sorted_rows(rows, *about, lambda count: None):
            yield tuple(np.ascontiguousarray(own.T))
        return
    with closing(sort_rows(rows, options, scratch)) as found:
        if isinstance(found, SortedPairs):
            yield from found.chunks()
        else:
            yield from ([keys] for keys in found.chunks())


class Sorted(NamedTuple):
    """A part of sorted rows. bases: what is to be added to the ids of each of its runs, for rows of earlier files."""

    maker: Maker
    bases: tuple[int, ...]


def merged_rows(folder: Folder, parts: Sequence[Sorted], options: BuildOptions) -> Generator[Columns]:
    """The rows of all parts in order, each once, some at a time."""
    columns = columns_of(options)
    with ExitStack() as held:
        opened = [held.enter_context(closing(Part.open(folder, part.maker, columns))) for part in parts]
        combine = union if columns <= 2 else each_row_once
        yield from gathered(opened, columns, combine, _runs(opened, parts, options))


def _runs(opened: Sequence[Part], parts: Sequence[Sorted], options: BuildOptions) -> "list[_Moved]":
    return [
        _Moved(run, base if options.with_ids else 0)
        for part, own in zip(opened, parts, strict=True)
        for run, base in zip(part.runs(), own.bases, strict=True)
    ]


class _Moved:
    """A run with a number added to its ids, its last column, which were counted from the start of a file."""

    def __init__(self, run: Run, base: int) -> None:
        self._run, self._base = run, np.uint64(base)
        self.held: Columns = run.held
        self.ended = run.ended

    def refill(self) -> None:
        """Read the next block where nothing is held."""
        if len(self.held[0]) or self.ended:
            return
        self._run.refill()
        self.held = list(self._run.held)
        if self._base:
            self.held[-1] = self.held[-1] + self._base
        self._run.held = [self.held[0][:0]]
        self.ended = self._run.ended


class MakesTable(OfModule):
    """A task of a build that makes a table of a plan: its number is that of the table."""

    maker: Maker
    plan: Plan

    def __str__(self) -> str:
        return f"task {self.maker.task} of a build, which makes table {self.maker.task + 1} of {len(self.plan.tables)}"

    @property
    def name(self) -> str:
        """What the file is called."""
        return f"{segment_name(self.maker.task + 1)}.{self.maker.job}"


@dataclass(frozen=True)
class TableTask(MakesTable):
    """A table of the plan, made of all parts: a segment that has it alone, the first with all ids.

    maker: its number is that of the table, and its job is named for all that the table is made of, so that no other is
    taken for it. count: how many different fingerprints there are.
    """

    maker: Maker
    version: str
    folder: Path
    parts: tuple[Sorted, ...]
    plan: Plan
    count: int
    options: BuildOptions

    def do(self) -> int:
        """Write the segment; how many keys it has."""
        expect_version(self, self.version)
        columns = columns_of(self.options)
        with Folder.open(self.folder) as folder, own_place(folder, self.name) as place:
            rows = (
                merged_rows(folder, self.parts, self.options) if self.maker.task == 0 else self._keys(folder, columns)
            )
            with closing(rows):
                write_table(place, folder.reach, rows, self.maker.task, self.plan, self.count, self.options)
        return self.count

    def _keys(self, folder: Folder, columns: int) -> Generator[Columns]:
        """The keys of all parts, part by part."""
        for own in self.parts:
            with closing(Part.open(folder, own.maker, columns)) as part:
                for run in part.runs():
                    run.refill()
                    while len(run.held[0]):
                        yield run.held[:1]
                        run.held = [run.held[0][:0]]
                        run.refill()
