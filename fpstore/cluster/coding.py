"""The tasks of a build of wide codes: some of the input sorted, as of any build; and one table of all of it, as bytes.

A table tells ranks, so the rows of all parts are merged into one first, which every table task reads in order.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from fpstore._codec import crc32c
from fpstore.building.options import BuildOptions
from fpstore.building.rows import OTHER_MEMORY
from fpstore.checks import expect_integer
from fpstore.cluster.parts import Maker, Part, Sealed, whole_file, write_footer
from fpstore.cluster.sorting import MakesTable
from fpstore.cluster.tasks import expect_version
from fpstore.codes.layout import CodeTableRecord
from fpstore.codes.layout import tag_bits as tag_bits_of
from fpstore.codes.sorting import Groups
from fpstore.codes.writer import EncodedTable, Encoder
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.fingerprints import words_of
from fpstore.format import MAX_SLOT_BITS
from fpstore.plans.plan import Plan
from fpstore.types import Bytes, Keys

MAGIC = b"fptabl01"
# Of a table's bytes, which have a checksum for so many of them.
PIECE_BYTES = 1 << 20
_FIELDS, _REGIONS = ("slot_bits", "tag_bits", "flips"), ("starts", "entries")


class MergedMaker(Maker):
    """Who merges the rows of a build; builds that count ids from different numbers share a folder, and no such file."""

    @property
    def name(self) -> str:
        """What the file is called."""
        return f"{self.task:05d}.{self.job}.part"


class MergedRows:
    """The rows of a part of one run, in order, each once; read in several passes."""

    def __init__(self, folder: Folder, maker: Maker, width: int) -> None:
        """Open it. What Part.open raises."""
        self.width, self._part = width, Part.open(folder, maker, width)
        self.count = self._part.row_count

    def chunks(self) -> Iterator[Keys]:
        """All rows: uint64[m, width]."""
        for run in self._part.runs():
            run.refill()
            while len(run.held[0]):
                yield np.stack(run.held, axis=1)
                run.held = [run.held[0][:0]]
                run.refill()

    def close(self) -> None:
        """Let go of the file."""
        self._part.close()


def groups_in(folder: Folder, maker: Maker, options: BuildOptions) -> Groups:
    """The merged rows of a job, which are to be closed."""
    words = words_of(options.choice.bits)
    return Groups(MergedRows(folder, maker, words + options.with_ids), words)


@dataclass(frozen=True)
class CodesTableTask(MakesTable):
    """A table of the plan, made of the merged rows.

    maker: as of TableTask. rows: who made those rows.
    """

    maker: Maker
    version: str
    folder: Path
    rows: Maker
    plan: Plan
    options: BuildOptions

    def do(self) -> int:
        """Write the file; how many codes there are."""
        expect_version(self, self.version)
        memory = self.options.memory_bytes - OTHER_MEMORY
        with (
            Folder.open(self.folder) as folder,
            closing(groups_in(folder, self.rows, self.options)) as groups,
            whole_file(folder, self.name) as file,
        ):
            table = Encoder(groups, self.plan, folder.reach, memory)(self.maker.task, lambda done: None)
            regions = {name: _write(file, getattr(table, name)) for name in _REGIONS}
            own = {name: getattr(table.record, name) for name in _FIELDS}
            write_footer(file, {"job": self.maker.job, "task": self.maker.task, **own, **regions}, MAGIC)
            return groups.count


class TableFile(Sealed):
    """What such a task wrote, open for reading."""

    def __init__(self, folder: Folder, task: CodesTableTask, count: int) -> None:
        """Read its footer. count: how many codes there are. FileNotFoundError, and what Sealed raises."""
        self._task, self._count = task, count
        super().__init__(folder.open_file(task.name), folder.path / task.name, MAGIC)

    def table(self) -> EncodedTable:
        """The table, whose bytes are checked as they are taken: JobError for damaged ones."""
        starts, entries = self._regions
        return EncodedTable(
            self._record, self._pieces(0, starts), self._pieces(sum(size for size, _ in starts), entries)
        )

    def _pieces(self, offset: int, pieces: list[tuple[int, int]]) -> Iterator[Bytes]:
        for size, crc in pieces:
            yield np.frombuffer(self._read_sealed(offset, size, crc), dtype=np.uint8)
            offset += size

    def _take(self, footer: Any, end: int) -> None:
        maker, plan = self._task.maker, self._task.plan
        found = footer["job"], footer["task"]
        if found != (maker.job, maker.task):
            told = "found table {!r:.20} of job {!r:.40}".format(*found[::-1])
            raise JobError(f"{told}; expected table {maker.task} of job {maker.job}", path=self._path)
        table = plan.tables[maker.task]
        slot_bits, tag_bits, flips = (footer[name] for name in _FIELDS)
        expect_integer("slot_bits", slot_bits, 0, min(MAX_SLOT_BITS, table.prefix_bits))
        expect_integer("flips", flips, table.flips, table.flips)
        self._record = CodeTableRecord(table.prefix_mask, slot_bits, tag_bits, flips, 0, 0, plan.bits, self._count)
        tags = tag_bits_of(table.prefix_bits, slot_bits, self._count, self._record.in_order)
        expect_integer("tag_bits", tag_bits, tags, tags)
        self._regions = [[(size, crc) for size, crc in footer[name]] for name in _REGIONS]
        for size, _ in (piece for region in self._regions for piece in region):
            expect_integer("a piece", size, 1, PIECE_BYTES)
        sizes = [sum(size for size, _ in region) for region in self._regions]
        expected = [self._record.starts_bytes, self._record.entries_bytes]
        if sum(sizes) != end or sizes != expected:
            raise self._damaged("the footer", f"regions of {sizes} bytes", expected)


def _write(file: IO[bytes], region: Iterable[Bytes]) -> list[tuple[int, int]]:
    """Write bytes in pieces; of each its size and its checksum."""
    found = []
    for some in region:
        for first in range(0, len(some), PIECE_BYTES):
            piece = some[first : first + PIECE_BYTES].data
            file.write(piece)
            found.append((len(piece), crc32c(piece)))
    return found
