"""From rows, fingerprints with or without ids, in any order and of any number, to a segment.

Sort the fingerprints under table 0's permutation, with their ids; write table 0; permute, sort and write each other
table; write the ids.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from fpstore._names_pending import give_back_memory
from fpstore.arrays import parse_memory
from fpstore.building.options import BuildOptions
from fpstore.building.permuted import permuted_tables, sorted_permuted
from fpstore.building.rooms import Rooms
from fpstore.building.runs import KEY_BYTES
from fpstore.building.sources import ArraySource, Source, array_source, source_of
from fpstore.building.spill import MIN_MEMORY_BYTES, KeySorter, PairSorter, SortedPairs
from fpstore.building.spill import SortedKeys as SpilledKeys
from fpstore.disk import Place, placed
from fpstore.merging import Columns
from fpstore.origin import Origin
from fpstore.plans import planner
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.listing import Listing
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Ids, Keys, SortedKeys

# Beside the sorters' arrays: the interpreter with numpy, and the encoder's chunk of output.
OTHER_MEMORY = 48 << 20
# For sorting the rows of a flush, or of an addition that makes a segment of its own.
ROWS_MEMORY = 1 << 30
MIN_SORTER_MEMORY = 8 << 20


class Written(NamedTuple):
    """A segment that was written: its plan, what the catalog is to say of it, and its largest id, if it has any."""

    plan: Plan
    entry: SegmentEntry
    max_id: int | None


class Write(Protocol):
    """What makes a segment of a source of rows; write_segment is one."""

    def __call__(
        self, at: Path | Place, scratch: Path, source: Source, options: BuildOptions, report: Tell, position: int = 1
    ) -> Written:
        """Write the segment there; scratch: a folder for spill files."""


class Build:
    """A segment to be built from what a caller gave. All arguments are checked when it is made; nothing is read yet.

    Raises ValueError, TypeError or PlanError; the arguments are those of fpstore.build. listing: of SegmentWriter;
    block_bytes: of PlanChoice.
    """

    def __init__(
        self,
        fingerprints: object,
        ids: object,
        *,
        max_distance: int,
        bits: int,
        plan: str | float | Plan,
        codec: str,
        memory: str | int,
        threads: int,
        shuffle: int | None,
        origin: Origin | None = None,
        listing: Listing | None = None,
        block_bytes: int = 0,
        write: Write | None = None,
    ) -> None:
        """write: what writes the segment, write_segment by default."""
        choice = PlanChoice(max_distance, plan, bits, block_bytes)
        options = BuildOptions(choice, codec, ids is not None, parse_memory(memory), threads, listing)
        self.max_distance, self._write = choice.max_distance, write or write_segment
        self._source = source_of(fingerprints, ids, origin, choice.bits)
        count = len(self._source.keys) if isinstance(self._source, ArraySource) else EXPECTED_KEYS
        self._options = replace(options, choice=choice.shuffled(shuffle, count))

    def read_from(self, source: Source) -> None:
        """Take rows from this in place of what was given."""
        self._source = source

    def write(self, at: Path | Place, scratch: Path, progress: Tell, position: int = 1) -> Written:
        """Write the segment there, with spill files in scratch."""
        return self._write(at, scratch, self._source, self._options, progress, position)


def write_rows(
    at: Path | Place,
    keys: Keys,
    ids: Ids | None,
    plan: Plan,
    codec: str,
    progress: Tell | None = None,
    position: int = 1,
    *,
    listing: Listing | None = None,
    write: Write | None = None,
) -> SegmentEntry:
    """Write a segment of these rows there, with spill files beside it. listing: as of SegmentWriter.

    write: as of Build.
    """
    choice = PlanChoice(plan.max_distance, plan, plan.bits)
    options = BuildOptions(choice, codec, ids is not None, ROWS_MEMORY, listing=listing)
    report = progress or (lambda phase, done, total: None)
    with placed(at) as place:
        source = array_source(keys, ids, bits=plan.bits)
        return (write or write_segment)(place, place.folder.reach, source, options, report, position).entry


def write_stream(
    at: Path | Place,
    scratch: Path,
    rows: Source,
    plan: Plan,
    codec: str,
    with_ids: bool,
    *,
    write: Write | None = None,
    report: Tell = lambda phase, done, total: None,
) -> SegmentEntry:
    """Write a segment of a stream of rows there; scratch: a folder for spill files. write: as of Build."""
    options = BuildOptions(PlanChoice(plan.max_distance, plan, plan.bits), codec, with_ids, ROWS_MEMORY)
    return (write or write_segment)(at, scratch, rows, options, report).entry


def write_segment(
    at: Path | Place, scratch: Path, source: Source, options: BuildOptions, report: Tell, position: int = 1
) -> Written:
    """Write a segment of the source's rows there; scratch: a folder for spill files."""
    memory = options.memory_bytes - OTHER_MEMORY
    rooms = Rooms()
    with closing(_sorted_source(source, options, scratch, memory, report, rooms=rooms)) as found:
        keys0 = _DistinctKeys(found) if isinstance(found, SortedPairs) else found
        writing = _Writing(at, scratch, options, report, position, found, keys0, memory, rooms)
        try:
            return writing.write(_Layout.of(keys0.most, options))
        except _OtherLayoutError as error:
            return writing.write(error.layout)


@dataclass(frozen=True)
class _Layout:
    """What the number of keys decides, and how many there are, or may be."""

    plan: Plan
    slot_bits: int
    count: int

    @classmethod
    def of(cls, count: int, options: BuildOptions) -> "_Layout":
        plan = options.choice.for_count(count)
        return cls(plan, planner.slot_bits(count, plan.slot_keys), count)


class _OtherLayoutError(Exception):
    """There are so many keys fewer than there might have been that they are laid out otherwise."""

    def __init__(self, layout: _Layout) -> None:
        super().__init__(layout)
        self.layout = layout


@dataclass(frozen=True)
class _Writing:
    """A segment to be written of rows that were sorted: `found`, whose keys are keys0."""

    at: Path | Place
    scratch: Path
    options: BuildOptions
    report: Tell
    position: int
    found: SpilledKeys | SortedPairs
    keys0: "SpilledKeys | _DistinctKeys"
    memory_bytes: int
    rooms: Rooms

    def write(self, layout: _Layout) -> Written:
        """Write it, laid out so. _OtherLayoutError where that turns out not to be for so many keys; no file is left."""
        found, options, plan = self.found, self.options, layout.plan
        pairs = found if isinstance(found, SortedPairs) else None
        sizes = (layout.slot_bits, plan.bits, plan.block_bytes)
        # What fits in memory is likely to be searched at once, and fits into the system's cache, too.
        uncached = found.in_memory is None
        with SegmentWriter(self.at, options.codec, *sizes, options.threads, uncached=uncached) as writer:
            count = layout.count

            def counted(keys: int) -> None:
                nonlocal count
                # Counting them alone would take a pass of its own, which is seldom needed.
                other = _Layout.of(keys, options)
                if replace(layout, count=keys) != other:
                    raise _OtherLayoutError(other)
                count = keys

            with closing(self._tables(plan, writer)) as tables:
                for index, table in enumerate(plan.tables):
                    phase = f"table {index + 1} of {len(plan.tables)}"
                    if index > 0:
                        self.report(f"{phase}: sorting", 0, count)
                    writer.add_table(
                        table,
                        next(tables),
                        with_ranks=index == 0 and pairs is not None,
                        advance=_advance(self.report, phase, lambda: 2 * count),
                        counted=counted if index == 0 else None,
                    )
            most = None
            if pairs is not None:
                self.report("ids", 0, None)
                most = _add_ids(writer, pairs, options)
            entry = writer.finish(self.position)
        return Written(plan, entry, most if entry.id_count else None)

    def _tables(self, plan: Plan, writer: SegmentWriter) -> Generator[SortedKeys, None, None]:
        found, threads = self.found, self.options.threads
        is_needed = isinstance(found, SortedPairs) or found.in_memory is not None

        def stored() -> SortedKeys:
            # What is no array, nor needed for ids, is let go of when table 0 is written, and comes back from there.
            if not is_needed:
                found.close()
            return writer.stored(0)

        left = max(self.memory_bytes - (found.memory_bytes if is_needed else 0), MIN_SORTER_MEMORY)
        return permuted_tables(
            self.keys0, found.in_memory, plan.tables, self.scratch, left, threads, plan.bits, stored, self.rooms
        )


def sort_rows(
    source: Source, options: BuildOptions, scratch: Path, report: Tell = lambda phase, done, total: None
) -> SpilledKeys | SortedPairs:
    """Some rows of a source, sorted under table 0's permutation, for `write_table`; as write_segment sorts all."""
    memory = options.memory_bytes - OTHER_MEMORY
    # Room for as much as there may be from the first on, of which the system gives what is used: see write_table.
    return _sorted_source(source, options, scratch, memory, report, memory // KEY_BYTES)


def write_table(
    at: Path | Place,
    scratch: Path,
    rows: Iterator[Columns],
    index: int,
    plan: Plan,
    count: int,
    options: BuildOptions,
) -> None:
    """Write a segment of one table of the plan alone, the first with all ids: what `SegmentWriter.join` takes.

    rows: of keys of table 0, and ids: for the first table in order, each once; for others in any order, keys alone.
    count: how many different keys there are.
    """
    give_back_memory()  # of what this process did before, or it would come on top of the budget
    memory, table = options.memory_bytes - OTHER_MEMORY, plan.tables[index]
    slot_bits = planner.slot_bits(count, plan.slot_keys)
    with SegmentWriter(at, options.codec, slot_bits, plan.bits, plan.block_bytes) as writer:
        if index:
            first, own = options.choice.first_permutation, Permutation(table.prefix_mask, plan.bits)
            # Room for all at once: what grows leaves holes of up to a third of a share behind it.
            sorter = KeySorter(scratch, memory, count, threads=options.threads)
            for keys, *_ in rows:
                sorter.add(keys if first.is_identity else first.invert(keys), own)
            with closing(sorter.finish()) as sorted_keys:
                writer.add_table(table, sorted_keys)
        elif options.with_ids:
            with closing(SortedPairs.spilled(rows, scratch, memory)) as pairs:
                writer.add_table(table, _DistinctKeys(pairs), with_ranks=True)
                _add_ids(writer, pairs, options)
        else:
            with closing(SpilledKeys.spilled(rows, scratch, memory)) as alone:
                writer.add_table(table, alone)
        writer.finish()


def _add_ids(writer: SegmentWriter, pairs: SortedPairs, options: BuildOptions) -> int:
    """Append the ids to a segment that has its tables; the largest of them."""
    least, most = _id_range(pairs)
    sources = (lambda: map(_second, pairs.groups()), lambda: map(_second, pairs.chunks()))
    writer.add_ids(pairs.count, least, most, *sources, listing=options.listing)
    return most


def _sorted_source(
    source: Source,
    options: BuildOptions,
    scratch: Path,
    memory: int,
    report: Tell,
    expected: int = 0,
    rooms: Rooms | None = None,
) -> SpilledKeys | SortedPairs:
    """The keys of table 0, with their ids if the store has any. expected: how many rows there may be, if known.

    rooms: as of KeySorter.
    """
    first = options.choice.first_permutation
    if isinstance(source, ArraySource) and not options.with_ids and source.keys.nbytes <= memory - MIN_MEMORY_BYTES:
        report("reading", len(source.keys), None)
        report("sorting", 0, None)
        return sorted_permuted(source.keys, first, options.threads)
    threads = options.threads
    sorter = (
        PairSorter(scratch, memory, expected, threads=threads)
        if options.with_ids
        else KeySorter(scratch, memory, expected, threads=threads, rooms=rooms)
    )
    rows = 0
    permutation = None if first.is_identity else first
    for fingerprints, ids in source:
        if isinstance(sorter, PairSorter):
            if ids is None:
                raise ValueError("the stream has no ids: expected (fingerprints, ids) pairs")
            sorter.add(fingerprints, ids, permutation)
        else:
            sorter.add(fingerprints, permutation)
        rows += len(fingerprints)
        report("reading", rows, None)
    report("sorting", 0, None)
    return sorter.finish()


class _DistinctKeys:
    """The distinct keys of sorted pairs."""

    def __init__(self, pairs: SortedPairs) -> None:
        self._pairs = pairs
        self.count = self.most = sum(len(keys) for keys, _ in pairs.groups())

    def chunks(self) -> Iterator[Keys]:
        for keys, _ in self._pairs.groups():
            yield keys


def _second(pair: tuple[Keys, Keys]) -> Keys:
    return pair[1]


def _id_range(pairs: SortedPairs) -> tuple[int, int]:
    least, most = (1 << 64) - 1, 0
    for _, ids in pairs.chunks():
        least, most = min(least, int(ids.min())), max(most, int(ids.max()))
    return (least, most) if pairs.count else (0, 0)


def _advance(report: Tell, phase: str, total: Callable[[], int]) -> Callable[[int], None]:
    done = 0

    def advance(keys: int) -> None:
        nonlocal done
        done += keys
        report(phase, done, total())

    return advance
