"""Building a store from more keys than memory holds.

Sort the fingerprints under table 0's permutation, with their ids; write table 0; permute, sort and write each
other table; write the ids; publish. A new store appears under its name when it is complete; one that is replaced
changes in a single commit of its catalog. Whatever interrupts a build leaves what was there before.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from fpstore.arrays import as_integer, as_keys
from fpstore.building.permuted import permuted_tables, sorted_permuted
from fpstore.building.spill import MIN_MEMORY_BYTES, KeySorter, PairSorter, SortedPairs, parse_memory
from fpstore.building.spill import SortedKeys as SpilledKeys
from fpstore.errors import PlanError
from fpstore.format import CODECS, KEY_BITS
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.state import Settings
from fpstore.plans import plan as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.files import sync_folder
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Ids, Keys, Progress, SortedKeys

Source = Iterable[tuple[Keys, Ids | None]]

MIN_MEMORY = 64 << 20
# Beside the sorters' arrays: the interpreter with numpy, and the encoder's chunk of output.
OTHER_MEMORY = 48 << 20
CHUNK_KEYS = 1 << 20
# For sorting the rows of a flush, or of an addition that makes a segment of its own.
ROWS_MEMORY = 1 << 30
MIN_SORTER_MEMORY = 8 << 20
MAX_DISTANCE = 16
# For how many fingerprints the plan of a store is chosen that begins empty.
EXPECTED_KEYS = 10**7


@dataclass(frozen=True)
class BuildOptions:
    """How to build a store; every field was checked when it was made."""

    k: int
    plan: str | float | Plan
    codec: str
    memory_bytes: int
    with_ids: bool
    recipe: dict[str, object] | None
    force: bool
    threads: int = 1

    def __post_init__(self) -> None:
        k = as_integer(self.k)
        if k is None or not 0 <= k <= MAX_DISTANCE:
            raise ValueError(f"k is {self.k!r}, expected an integer from 0 to {MAX_DISTANCE}")
        object.__setattr__(self, "k", k)
        if self.codec not in CODECS:
            raise ValueError(f"codec is {self.codec!r}, expected one of {', '.join(CODECS)}")
        if self.memory_bytes < MIN_MEMORY:
            raise ValueError(f"memory is {self.memory_bytes} bytes, expected {MIN_MEMORY >> 20}MiB or more")
        if isinstance(self.plan, str):
            if self.plan not in planner.AIMS:
                object.__setattr__(self, "plan", plans.named(self.plan, self.k))
        elif isinstance(self.plan, Plan):
            if self.plan.key_bits != KEY_BITS:
                raise PlanError(f"plan {self.plan.name} is for {self.plan.key_bits} bits, expected {KEY_BITS}")
            if self.plan.k < self.k:
                raise PlanError(f"plan {self.plan.name} answers distances up to {self.plan.k}, k is {self.k}")
            self.plan.prove()
        elif not isinstance(self.plan, int | float) or isinstance(self.plan, bool) or not 0 < self.plan < inf:
            aims = ", ".join(planner.AIMS)
            raise ValueError(f"plan is {self.plan!r:.40}, expected {aims}, bytes per fingerprint, a name or a Plan")

    def plan_for(self, count: int) -> Plan:
        """The plan for so many fingerprints."""
        return self.plan if isinstance(self.plan, Plan) else planner.choose(count, self.k, self.plan)

    def settings(self, plan: Plan) -> Settings:
        """Those of the store."""
        return Settings(k=self.k, plan=plan.to_json(), codec=self.codec, ids=self.with_ids, recipe=self.recipe)

    @property
    def first_permutation(self) -> Permutation:
        """Table 0's, known before the count is: the planner's own plans all begin with the identity."""
        mask = self.plan.tables[0].prefix_mask if isinstance(self.plan, Plan) else 0
        return Permutation(mask)


def array_source(fingerprints: object, ids: object) -> Source:
    """Arrays as a stream. ids: uint64[n], "row" or None. ValueError where the lengths differ."""
    keys = as_keys(fingerprints, "fingerprints")
    if ids is not None and not isinstance(ids, str):
        ids = as_keys(ids, "ids")
        if len(ids) != len(keys):
            raise ValueError(f"{len(ids)} ids for {len(keys)} fingerprints: expected one for each")
    return ArraySource(keys, ids)


@dataclass(frozen=True)
class ArraySource:
    """Arrays as a stream of slices. keys: uint64[n]; ids: uint64[n], "row" or None."""

    keys: Keys
    ids: Ids | str | None

    def __iter__(self) -> Iterator[tuple[Keys, Ids | None]]:
        for first in range(0, len(self.keys), CHUNK_KEYS):
            chunk = self.keys[first : first + CHUNK_KEYS]
            if isinstance(self.ids, str):
                yield chunk, np.arange(first, first + len(chunk), dtype=np.uint64)
            else:
                yield chunk, self.ids if self.ids is None else self.ids[first : first + CHUNK_KEYS]


def source_of(fingerprints: object, ids: object) -> Source:
    """What build is given, as a source. ValueError or TypeError where the two do not go together."""
    if isinstance(fingerprints, Iterator):
        if ids is not None and not isinstance(ids, str):
            raise TypeError(f'ids of a stream is a {type(ids).__name__}, expected "row", "pairs" or None')
        if ids not in ("row", "pairs", None):
            raise ValueError(f'ids of a stream is {ids!r}, expected "row", "pairs" or None')
        return _stream(fingerprints, ids)
    if isinstance(ids, str) and ids != "row":
        raise ValueError(f'ids is {ids!r}, expected an array, "row" or None')
    return array_source(fingerprints, ids)


def _stream(items: Iterable[object], ids: str | None) -> Source:
    """A caller's stream as (fingerprints, ids) arrays."""
    row = 0
    for item in items:
        if ids == "pairs":
            if not isinstance(item, tuple) or len(item) != 2 or item[1] is None or isinstance(item[1], str):
                raise TypeError(f"the stream yields {item!r:.60}, expected pairs of arrays: (fingerprints, ids)")
            yield from array_source(*item)
            continue
        keys = as_keys(item, "fingerprints")
        yield keys, np.arange(row, row + len(keys), dtype=np.uint64) if ids == "row" else None
        row += len(keys)


def build_store(path: Path, source: Source, options: BuildOptions, progress: Progress | None = None) -> None:
    """Write the store at path from a stream of (fingerprints, ids or None).

    Raises FileExistsError where path exists, unless options.force and it is a store, which is then replaced.
    """
    report = progress or (lambda phase, done, total: None)
    if path.is_symlink() or path.exists():
        if not options.force:
            raise FileExistsError(errno.EEXIST, "already there; --force (force=True) replaces a store", str(path))
        _replace(path, source, options, report)
    else:
        _create(path, source, options, report)


def _create(path: Path, source: Source, options: BuildOptions, report: Progress) -> None:
    with scratch_store(path) as folder:
        name = f"{1:08d}.fpseg"
        settings, entry = write_segment(folder / "segments" / name, folder, source, options, report)
        create_catalog(folder, settings, (entry,))
        os.rename(folder, path)
        sync_folder(path.parent)


def no_store_at(path: Path) -> None:
    """FileExistsError where anything is at path."""
    if path.is_symlink() or path.exists():
        raise FileExistsError(errno.EEXIST, "already there", str(path))


def create_store(path: Path, options: BuildOptions) -> None:
    """Make an empty store at path. Raises FileExistsError where something is there."""
    no_store_at(path)
    plan = options.plan_for(EXPECTED_KEYS)
    with scratch_store(path) as folder:
        create_catalog(folder, options.settings(plan))
        os.rename(folder, path)
        sync_folder(path.parent)


def _replace(path: Path, source: Source, options: BuildOptions, report: Progress) -> None:
    with Catalog.open(path, writable=True) as catalog:
        segments = path / "segments"
        sweep_segments(path, catalog)
        state = catalog.state()
        name = f"{state.next_segment:08d}.fpseg"
        try:
            settings, entry = write_segment(segments / name, path, source, options, report)
            entry = replace(entry, position=state.next_change)
            catalog.publish(settings=settings, segments=(entry,), first_change=state.next_change, removed=())
        finally:
            sweep_segments(path, catalog)


def sweep_segments(folder: Path, catalog: Catalog, kept: Collection[str] = ()) -> None:
    """Remove the segments that the catalog does not name: replaced ones, and those of writers that died; not kept."""
    live = {entry.name for entry in catalog.state().segments}
    for path in (folder / "segments").glob("*.fpseg"):
        if path.name not in live and path.name not in kept:
            path.unlink(missing_ok=True)


@contextmanager
def scratch_store(path: Path) -> Iterator[Path]:
    """A folder beside path for a store in the making, gone at the end unless it was renamed.

    It is locked while its builder lives; those of dead ones are swept. A process number would not tell: where each
    container has its own, the next builder has the number of the dead one.
    """
    parent = path.parent
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the store's folder would lie in one that is not there", str(parent))
    prefix = f".{path.name}.building-"
    with _locked(parent):  # so that nobody sweeps a folder between its making and its lock
        for stale in parent.iterdir():
            if stale.name.startswith(prefix):
                _sweep_folder(stale)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _try_lock(lock)
    try:
        (folder / "segments").mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: then nothing is swept either
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep_folder(folder: Path) -> None:
    """Remove a folder of a store in the making, unless its builder lives."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone meanwhile, or no such folder
    try:
        if _try_lock(fd):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


def write_segment(
    path: Path, scratch: Path, source: Source, options: BuildOptions, report: Progress
) -> tuple[Settings, SegmentEntry]:
    """Write a segment at path; scratch: a folder for spill files."""
    memory = options.memory_bytes - OTHER_MEMORY
    found = _sorted_source(source, options, scratch, memory, report)
    pairs = found if isinstance(found, SortedPairs) else None
    keys0: SortedKeys = _DistinctKeys(found) if isinstance(found, SortedPairs) else found
    left = max(memory - found.memory_bytes, MIN_SORTER_MEMORY)
    plan = options.plan_for(keys0.count)
    with SegmentWriter(path, options.codec, planner.slot_bits(keys0.count, plan.slot_keys)) as writer:
        with closing(permuted_tables(keys0, found.in_memory, plan.tables, scratch, left, options.threads)) as tables:
            for index, table in enumerate(plan.tables):
                phase = f"table {index + 1} of {len(plan.tables)}"
                if index > 0:
                    report(f"{phase}: sorting", 0, keys0.count)
                with_ranks = index == 0 and pairs is not None
                advance = _advance(report, phase, keys0.count)
                writer.add_table(table, next(tables), with_ranks=with_ranks, advance=advance)
        if pairs is not None:
            report("ids", 0, None)
            least, most = _id_range(pairs)
            sources = (lambda: map(_second, pairs.groups()), lambda: map(_second, pairs.chunks()))
            writer.add_ids(pairs.count, least, most, *sources)
        crc = writer.finish()
    id_count = pairs.count if pairs else 0
    entry = SegmentEntry(path.name, path.stat().st_size, keys0.count, id_count, crc)
    found.close()
    return options.settings(plan), entry


def write_rows(
    path: Path, keys: Keys, ids: Ids | None, settings: Settings, plan: Plan, report: Progress | None = None
) -> SegmentEntry:
    """Write a segment of these rows at path, for a store of these settings, with spill files beside it."""
    options = BuildOptions(settings.k, plan, settings.codec, ROWS_MEMORY, settings.ids, settings.recipe, False)
    progress = report or (lambda phase, done, total: None)
    return write_segment(path, path.parent, array_source(keys, ids), options, progress)[1]


def _sorted_source(
    source: Source, options: BuildOptions, scratch: Path, memory: int, report: Progress
) -> SpilledKeys | SortedPairs:
    """The keys of table 0, with their ids if the store has any."""
    first = options.first_permutation
    if isinstance(source, ArraySource) and not options.with_ids and source.keys.nbytes <= memory - MIN_MEMORY_BYTES:
        report("reading", len(source.keys), None)
        report("sorting", 0, None)
        return sorted_permuted(source.keys, first)
    sorter = PairSorter(scratch, memory) if options.with_ids else KeySorter(scratch, memory)
    rows = 0
    for fingerprints, ids in source:
        keys = fingerprints if first.is_identity else first.apply(fingerprints)
        if isinstance(sorter, PairSorter):
            if ids is None:
                raise ValueError("the stream has no ids: expected (fingerprints, ids) pairs")
            sorter.add(keys, ids)
        else:
            sorter.add(keys)
        rows += len(keys)
        report("reading", rows, None)
    report("sorting", 0, None)
    return sorter.finish()


class _DistinctKeys:
    """The distinct keys of sorted pairs."""

    def __init__(self, pairs: SortedPairs) -> None:
        self._pairs = pairs
        self.count = sum(len(keys) for keys, _ in pairs.groups())

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


def _advance(report: Progress, phase: str, count: int) -> Callable[[int], None]:
    done = 0

    def advance(keys: int) -> None:
        nonlocal done
        done += keys
        report(phase, done, 2 * count)

    return advance


def parse_options(
    k: int,
    plan: str | float | Plan,
    codec: str,
    memory: str | int,
    with_ids: bool,
    recipe: dict[str, object] | None,
    force: bool,
    threads: int = 1,
) -> BuildOptions:
    """BuildOptions from what a caller passes. ValueError, TypeError or PlanError for what cannot be."""
    return BuildOptions(k, plan, codec, parse_memory(memory), with_ids, recipe, force, threads)


def seeded(options: BuildOptions, seed: int | None, source: Source = ()) -> BuildOptions:
    """The options with the plan's bits shuffled by the seed; with None as they are. ValueError for any other seed.

    The order of table 0 then depends on the plan, which so has to be chosen before the keys are read: for as many as
    there are in arrays, else for EXPECTED_KEYS.
    """
    if seed is None:
        return options
    number = as_integer(seed)
    if number is None:
        raise ValueError(f"seed is {seed!r:.40}, expected an integer or None")
    count = len(source.keys) if isinstance(source, ArraySource) else EXPECTED_KEYS
    return replace(options, plan=options.plan_for(count).shuffled(number))
