"""The store: what users hold. Open it, probe it, ask about it.

Arranges the parts: the catalog names the segments, each segment answers for its own fingerprints, and this module
puts the answers together.
"""

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fpstore import batch, planner
from fpstore import report as reports
from fpstore import verify as verifying
from fpstore._pairs import Join
from fpstore._probe import search
from fpstore.arrays import as_integer, as_key, as_keys
from fpstore.builder import Source, array_source, build_store, parse_options
from fpstore.catalog import Catalog, SegmentEntry, Settings, State
from fpstore.errors import CorruptStore, PlanError, StoreClosed
from fpstore.format import CODECS
from fpstore.matches import Matches
from fpstore.pairs import Pairs, segment_joins
from fpstore.plan import Plan
from fpstore.segment import Segment
from fpstore.spill import parse_memory
from fpstore.threads import Threads, slices
from fpstore.types import Array, Counts, Keys, Progress

# Queries of one call without the lock: few enough that Ctrl-C is noticed within a moment (5 ms; 0.1 s from a cold
# disk), enough to hide the call (1 % of the time of plan "speed").
SLICE_QUERIES = 1024
LEAST_SLICE = 256
# Below this a batch is looked up without asking what the other way would cost.
LEAST_STREAMED = 1000


def build(
    path: str | os.PathLike[str],
    fingerprints: object,
    ids: object = "row",
    *,
    k: int = 3,
    plan: str | float | Plan = "balanced",
    codec: str = "gap",
    memory: str | int = "2GiB",
    threads: int | None = None,
    progress: Progress | None = None,
    recipe: dict[str, object] | None = None,
    force: bool = False,
) -> "Store":
    """Build a store at path and open it for reading.

    fingerprints: uint64[n] (or anything that numpy or Arrow can hand over as such), or a stream: an iterator of
    such arrays or of (fingerprints, ids) pairs of arrays. ids: uint64[n]; "row", the index in the input; None, a
    store without ids. For a stream: "row", None, or "pairs" where it yields pairs.
    k: the largest distance that the store must answer. plan: "size", "balanced", "speed", a number of bytes per
    fingerprint, a plan's name, or a Plan. codec: "gap", "xor", "rice", "raw". memory: the budget; more keys than it
    holds are sorted through spill files beside the store. progress: called with (phase, done, total or None).
    recipe: how text became the fingerprints, kept with the store. force: replace a store that is there.
    Raises ValueError, TypeError, PlanError; FileExistsError; the operating system's errors.
    """
    with_ids = ids is not None
    _thread_count(threads)
    options = parse_options(k, plan, codec, memory, with_ids, recipe, force)
    if isinstance(fingerprints, Iterator):
        if ids is not None and not isinstance(ids, str):
            raise TypeError(f'ids of a stream is a {type(ids).__name__}, expected "row", "pairs" or None')
        if ids not in ("row", "pairs", None):
            raise ValueError(f'ids of a stream is {ids!r}, expected "row", "pairs" or None')
        source = _stream(fingerprints, ids)
    else:
        if isinstance(ids, str) and ids != "row":
            raise ValueError(f'ids is {ids!r}, expected an array, "row" or None')
        source = array_source(fingerprints, ids)
    build_store(Path(path), source, options, progress)
    return open(path)


def open(path: str | os.PathLike[str], mode: str = "r") -> "Store":
    """Open the store at path for reading, beside any number of other processes.

    mode: "r". Raises FileNotFoundError, CorruptStore, UnsupportedVersion.
    """
    if mode != "r":
        raise ValueError(f'mode is {mode!r}, expected "r"')
    return Store(Path(path))


class Store:
    """A store open for reading. Safe to use from several threads; a context manager; pickles as its path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._closed = True
        self._threads: dict[int, Threads] = {}
        with Catalog.open(path) as catalog:
            state, plan, segments = _open_state(path, catalog)
        self.settings = state.settings
        self.k = state.settings.k
        self.codec = state.settings.codec
        self.has_ids = state.settings.ids
        self.recipe = state.settings.recipe
        self.plan = plan
        self.segments = segments
        self._closed = False

    def __len__(self) -> int:
        """Distinct fingerprints."""
        return sum(segment.key_count for segment in self.segments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (os.fspath(self.path),)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._pid == os.getpid():
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self)} fingerprints, k {self.k}, plan {self.plan.name}"
        return f"<fpstore.Store {os.fspath(self.path)!r}: {state}>"

    def close(self) -> None:
        """Close the store; probes under way in other threads finish first, later ones raise StoreClosed."""
        if not self._closed:
            self._closed = True
            # After a fork the mapping is the parent's, and a probe that was under way there never ends here.
            if self._pid == os.getpid():
                for threads in self._threads.values():
                    threads.close()
                for segment in self.segments:
                    segment.close()

    def probe(self, fingerprint: int, k: int | None = None) -> Matches:
        """Every stored fingerprint within k of this one (the store's k by default), nearest first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        return self._search(query, self._distance(k), 0)

    def probe_many(self, fingerprints: object, k: int | None = None, *, threads: int | None = None) -> Matches:
        """Every stored fingerprint within k of each of fingerprints (uint64[m]).

        .query of the answer is the index of the query, .method says how it was found. threads: how many at once, all
        processors by default.
        """
        queries = as_keys(fingerprints, "fingerprints")
        distance, count = self._distance(k), _thread_count(threads)
        if self._is_large(len(queries)):
            return self._search_streaming(queries, distance, count)
        cut = slices(len(queries), count, SLICE_QUERIES, LEAST_SLICE)
        with _Reading(self):
            parts = self._team(count).map(lambda own: self._search(queries[own], distance, own.start), cut)
        return parts[0] if len(parts) == 1 else _concatenate(parts, self.has_ids)

    def contains_near(self, fingerprint: int, k: int | None = None) -> bool:
        """Whether a stored fingerprint is within k of this one; stops at the first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(k)
        with _Reading(self) as segment:
            return len(search(segment.view, query, distance, first_only=True)[0]) > 0

    def pairs(
        self, k: int | None = None, *, memory: str | int = "1GiB", progress: Progress | None = None
    ) -> Iterator[Pairs]:
        """Every pair of distinct stored fingerprints within k, once, in no particular order, a batch at a time.

        memory: the budget for keys held at once; ValueError where a single prefix needs more. progress: called
        with ("pairs", thousandths done, 1000).
        """
        return self._pairs(self._joins(self._distance(k), parse_memory(memory), progress))

    def _pairs(self, joins: Iterator[Join]) -> Iterator[Pairs]:
        for join in joins:
            while not join.done:
                found = join.next()
                if len(found):
                    first, second = found[:, :2].T.copy()
                    yield Pairs(first, second, found[:, 2].astype(np.uint8))
                self._expect_usable()

    def count_pairs(self, k: int | None = None, *, memory: str | int = "1GiB", progress: Progress | None = None) -> int:
        """How many pairs `pairs` would yield, without holding or returning them."""
        total = 0
        for join in self._joins(self._distance(k), parse_memory(memory), progress):
            while not join.done:
                total += join.count()
        return total

    def _joins(self, distance: int, memory_bytes: int, progress: Progress | None) -> Iterator[Join]:
        with _Reading(self) as segment:
            for join, share in segment_joins(segment, distance, memory_bytes):
                if progress:
                    progress("pairs", int(1000 * share), 1000)
                yield join

    def verify(self, progress: Progress | None = None) -> None:
        """Read everything and check it. Raises CorruptStore at the first thing that is wrong."""
        with _Reading(self) as segment:
            verifying.verify_segment(segment, self.plan, progress)

    def stats(self, largest_slots: int = 0) -> dict[str, Any]:
        """What the store holds and how, without decoding it, in a millisecond whatever its size.

        largest_slots: how many of the fullest slots of each table to name, with the bits that their fingerprints share;
        that reads the directories (10^8 fingerprints in 3 tables: 0.04 s, 0.4 s from disk).
        """
        with _Reading(self) as segment:
            record = reports.stats(segment)
            for index, table in enumerate(record["tables"] if largest_slots else []):
                table["largest_slots"] = [
                    {"slot": slot.slot, "mask": f"{slot.mask:016x}", "value": f"{slot.value:016x}", "keys": slot.keys}
                    for slot in reports.largest_slots(segment, index, largest_slots)
                ]
        return {
            "path": os.fspath(self.path),
            "k": self.k,
            "plan": self.plan.name,
            "codec": self.codec,
            "ids": self.has_ids,
            "recipe": self.recipe,
            "fingerprints": len(self),
            "segments": [record],
        }

    def report(self, progress: Progress | None = None) -> reports.Report:
        """The compression-ratio report: decodes every table, a few times over."""
        with _Reading(self) as segment:
            return reports.combine([reports.report_segment(segment, progress)])

    def _expect_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path}: the store is closed")
        if self._pid != os.getpid():
            raise StoreClosed(f"{self.path}: the store was opened before a fork; open it again here")

    def _team(self, count: int) -> Threads:
        """Threads for this store's batches, kept: starting them takes as long as thousands of queries."""
        self._expect_usable()
        return self._threads.get(count) or self._threads.setdefault(count, Threads(count))

    def _distance(self, k: int | None) -> int:
        if k is None:
            return self.k
        distance = as_integer(k)
        if distance is None or distance < 0:
            raise ValueError(f"k is {k!r}, expected an integer from 0 to {self.plan.k}")
        if distance > self.plan.k:
            name = self.plan.name
            raise PlanError(f"k is {k}: this store answers up to {self.plan.k} (plan {name}); build it with k={k}")
        return distance

    def _search(self, queries: Keys, distance: int, first_query: int) -> Matches:
        with _Reading(self) as segment:
            query, fingerprint, bits = search(segment.view, queries, distance)
            if first_query:
                query += first_query
            return _with_ids(segment, query, fingerprint, bits, "probe")

    def _is_large(self, query_count: int) -> bool:
        """Whether it costs less to read all stored keys past so many queries than to look each query up."""
        if query_count < LEAST_STREAMED:
            return False
        with _Reading(self) as segment:
            looked_up = query_count * planner.predict(self.plan, segment.key_count).nanoseconds
            return batch.streaming_nanoseconds(segment, query_count) < looked_up

    def _search_streaming(self, queries: Keys, distance: int, threads: int) -> Matches:
        with _Reading(self) as segment:
            columns = batch.stream(segment, queries, distance, self._team(threads).map)
            return _with_ids(segment, *columns, "stream")


def _with_ids(segment: Segment, query: Counts, fingerprint: Keys, distance: Array, method: str) -> Matches:
    """The matches of one segment, a row for each id."""
    ids = None
    if segment.ids is not None:
        counts, ids = segment.ids.lookup(fingerprint)
        query, fingerprint, distance = (np.repeat(column, counts) for column in (query, fingerprint, distance))
    return Matches(query, fingerprint, distance, ids, method)


class _Reading:
    """The store's segment, for reading: errors say which file is damaged, or that the store was closed meanwhile."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Segment:
        self._store._expect_usable()
        return self._store.segments[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        if isinstance(error, CorruptStore | OSError | ValueError | RuntimeError):
            # A mapping that is closed meanwhile says ValueError, or EBADF, or has the size of another file; the
            # store's threads, which take no more work, say RuntimeError.
            self._store._expect_usable()
        path = str(self._store.segments[0].path)
        if isinstance(error, CorruptStore) and not str(error).startswith(path):
            raise CorruptStore(f"{path}: {error}") from None


def _open_state(path: Path, catalog: Catalog) -> tuple[State, Plan, tuple[Segment, ...]]:
    """What the catalog says, and the plan and the segments that it names, opened."""
    state = catalog.state()
    while True:
        try:
            plan = Plan.from_json(state.settings.plan)
            plan.prove()
        except PlanError as error:
            raise CorruptStore(f"{path}: catalog: {error}") from None
        if state.settings.k > plan.k or len(state.segments) != 1:
            found = f"k {state.settings.k}, {len(state.segments)} segments"
            expected = f"k of at most {plan.k} (plan {plan.name}), 1 segment"
            raise CorruptStore(f"{path}: catalog: {found}, expected {expected}")
        try:
            return state, plan, (_open_segment(path, state.segments[0], plan, state.settings),)
        except FileNotFoundError as error:
            # Where the store was replaced since the catalog was read, the new state names another file.
            before, state = state, catalog.state()
            if state.generation == before.generation:
                raise CorruptStore(f"{error.filename}: missing, though the catalog names it") from None


def _open_segment(folder: Path, entry: SegmentEntry, plan: Plan, settings: Settings) -> Segment:
    """A segment that the catalog names: the same file, of this plan and with these settings."""
    path = folder / "segments" / entry.name
    segment = Segment(path)
    record = segment.record
    found: tuple[object, ...] = (segment.file_bytes, record.key_count, record.id_count, segment.footer_crc)
    expected: tuple[object, ...] = (entry.file_bytes, entry.key_count, entry.id_count, entry.crc)
    if found == expected:
        found = (CODECS[segment.tables[0].codec], segment.ids is not None)
        found += tuple((f"{table.prefix_mask:x}", table.flips) for table in segment.tables)
        expected = (settings.codec, settings.ids)
        expected += tuple((f"{table.prefix_mask:x}", table.flips) for table in plan.tables)
    if found != expected:
        segment.close()
        raise CorruptStore(f"{path}: not the segment that the catalog names: found {found}, expected {expected}")
    return segment


def _concatenate(parts: list[Matches], with_ids: bool) -> Matches:
    if not parts:
        none = np.empty(0, dtype=np.uint64)
        return Matches(np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.uint8), none if with_ids else None)
    ids = [part.id for part in parts if part.id is not None]
    return Matches(
        np.concatenate([part.query for part in parts]),
        np.concatenate([part.fingerprint for part in parts]),
        np.concatenate([part.distance for part in parts]),
        np.concatenate(ids) if with_ids else None,
    )


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = as_integer(threads)
    if count is None or count < 1:
        raise ValueError(f"threads is {threads!r}, expected a positive integer or None")
    return count


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
