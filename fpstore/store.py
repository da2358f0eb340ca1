"""The store: what users hold. Open it, probe it, ask about it.

Arranges the parts: the catalog names the segments, each segment answers for its own fingerprints, and this module
puts the answers together.
"""

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fpstore import report as reports
from fpstore import verify as verifying
from fpstore._pairs import Join
from fpstore._probe import search
from fpstore.arrays import as_key, as_keys
from fpstore.builder import Source, array_source, build_store, parse_options
from fpstore.catalog import Catalog
from fpstore.errors import CorruptStore, PlanError, StoreClosed
from fpstore.matches import Matches
from fpstore.pairs import Pairs, segment_joins
from fpstore.plan import Plan
from fpstore.segment import Segment
from fpstore.spill import parse_memory
from fpstore.types import Array, Counts, Ids, Keys, Progress

# Queries of one call without the lock: few enough that Ctrl-C is noticed within a moment, enough to hide the call.
SLICE_QUERIES = 4096


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
        with Catalog.open(path) as catalog:
            state = catalog.state()
        self.settings = state.settings
        self.k = state.settings.k
        self.codec = state.settings.codec
        self.has_ids = state.settings.ids
        self.recipe = state.settings.recipe
        try:
            self.plan = Plan.from_json(state.settings.plan)
            self.plan.prove()
        except PlanError as error:
            raise CorruptStore(f"{path}: catalog: {error}") from None
        segments: list[Segment] = []
        try:
            for entry in state.segments:
                segments.append(_open_segment(path, entry, self.plan, self.has_ids))  # noqa: PERF401, closed on error
        except BaseException:
            for segment in segments:
                segment.close()
            raise
        self.segments = tuple(segments)
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
            for segment in self.segments:
                segment.close()

    def probe(self, fingerprint: int, k: int | None = None) -> Matches:
        """Every stored fingerprint within k of this one (the store's k by default), nearest first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        return self._search(query, self._distance(k), 0)

    def probe_many(self, fingerprints: object, k: int | None = None, *, threads: int | None = None) -> Matches:
        """Every stored fingerprint within k of each of fingerprints (uint64[m]).

        .query of the answer is the index of the query. threads: how many at once, all processors by default.
        """
        queries = as_keys(fingerprints, "fingerprints")
        distance, count = self._distance(k), _thread_count(threads)
        starts = range(0, len(queries), SLICE_QUERIES)
        if count == 1 or len(starts) <= 1:
            parts = [self._search(queries[i : i + SLICE_QUERIES], distance, i) for i in starts]
        else:
            with ThreadPoolExecutor(min(count, len(starts))) as pool:
                work = [pool.submit(self._search, queries[i : i + SLICE_QUERIES], distance, i) for i in starts]
                try:
                    parts = [future.result() for future in work]
                finally:
                    for future in work:
                        future.cancel()
        return parts[0] if len(parts) == 1 else _concatenate(parts, self.has_ids)

    def contains_near(self, fingerprint: int, k: int | None = None) -> bool:
        """Whether a stored fingerprint is within k of this one; stops at the first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(k)
        return any(len(search(segment.view, query, distance, first_only=True)[0]) for segment in self._open_segments())

    def pairs(
        self, k: int | None = None, *, memory: str | int = "1GiB", progress: Progress | None = None
    ) -> Iterator[Pairs]:
        """Every pair of distinct stored fingerprints within k, once, in no particular order, a batch at a time.

        memory: the budget for keys held at once; ValueError where a single prefix needs more. progress: called
        with ("pairs", thousandths done, 1000).
        """
        for join in self._joins(k, memory, progress):
            while not join.done:
                found = join.next()
                if len(found):
                    yield Pairs(found[:, 0], found[:, 1], found[:, 2].astype(np.uint8))
                self._open_segments()

    def count_pairs(self, k: int | None = None, *, memory: str | int = "1GiB", progress: Progress | None = None) -> int:
        """How many pairs `pairs` would yield, without holding or returning them."""
        total = 0
        for join in self._joins(k, memory, progress):
            while not join.done:
                total += join.count()
        return total

    def _joins(self, k: int | None, memory: str | int, progress: Progress | None) -> Iterator[Join]:
        distance, memory_bytes = self._distance(k), parse_memory(memory)
        for segment in self._open_segments():
            for join, share in segment_joins(segment, distance, memory_bytes):
                if progress:
                    progress("pairs", int(1000 * share), 1000)
                yield join

    def verify(self, progress: Progress | None = None) -> None:
        """Read everything and check it. Raises CorruptStore at the first thing that is wrong."""
        for segment in self._open_segments():
            verifying.verify_segment(segment, self.plan, progress)

    def stats(self) -> dict[str, Any]:
        """What the store holds and how, without decoding any of it."""
        segments = [reports.stats(segment) for segment in self._open_segments()]
        return {
            "path": os.fspath(self.path),
            "k": self.k,
            "plan": self.plan.name,
            "codec": self.codec,
            "ids": self.has_ids,
            "recipe": self.recipe,
            "fingerprints": len(self),
            "segments": segments,
        }

    def report(self, progress: Progress | None = None) -> reports.Report:
        """The compression-ratio report: decodes every table, a few times over."""
        return reports.combine([reports.report_segment(segment, progress) for segment in self._open_segments()])

    def _open_segments(self) -> tuple[Segment, ...]:
        if self._closed:
            raise StoreClosed(f"{os.fspath(self.path)}: the store is closed")
        if self._pid != os.getpid():
            raise StoreClosed(f"{os.fspath(self.path)}: the store was opened before a fork; open it again here")
        return self.segments

    def _distance(self, k: int | None) -> int:
        if k is None:
            return self.k
        if not isinstance(k, int) or isinstance(k, bool) or k < 0:
            raise ValueError(f"k is {k!r}, expected an integer from 0 to {self.k}")
        if k > self.plan.k:
            name = self.plan.name
            raise PlanError(f"k is {k}: this store answers up to {self.plan.k} (plan {name}); build it with k={k}")
        return k

    def _search(self, queries: Keys, distance: int, first_query: int) -> Matches:
        parts: list[tuple[Counts, Keys, Array, Ids | None]] = []
        for segment in self._open_segments():
            query, fingerprint, bits = search(segment.view, queries, distance)
            ids = None
            if segment.ids is not None:
                counts, ids = segment.ids.lookup(fingerprint)
                query, fingerprint, bits = (np.repeat(column, counts) for column in (query, fingerprint, bits))
            parts.append((query, fingerprint, bits, ids))
        query, fingerprint, bits, ids = parts[0]
        if first_query:
            query += first_query
        return Matches(query, fingerprint, bits, ids)


def _open_segment(folder: Path, entry: Any, plan: Plan, with_ids: bool) -> Segment:
    """A segment that the catalog names: there, the same file, and of this plan."""
    path = folder / "segments" / entry.name
    try:
        segment = Segment(path)
    except FileNotFoundError:
        raise CorruptStore(f"{path}: missing, though the catalog names it") from None
    record = segment.record
    found = (segment.file_bytes, record.key_count, record.id_count, segment.footer_crc, segment.ids is not None)
    expected = (entry.file_bytes, entry.key_count, entry.id_count, entry.crc, with_ids)
    tables = tuple((table.prefix_mask, table.flips) for table in segment.tables)
    planned = tuple((table.prefix_mask, table.flips) for table in plan.tables)
    if found != expected or tables != planned:
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
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads is {threads!r}, expected a positive integer or None")
    return threads


def _stream(items: Iterable[object], ids: object) -> Source:
    """A caller's stream as (fingerprints, ids) arrays."""
    if ids not in ("row", "pairs", None):
        raise ValueError(f'ids of a stream is {ids!r}, expected "row", "pairs" or None')
    row = 0
    for item in items:
        if ids == "pairs":
            if not isinstance(item, tuple) or len(item) != 2:
                raise TypeError(f"the stream yields a {type(item).__name__}, expected (fingerprints, ids) pairs")
            yield from array_source(*item)
            continue
        keys = as_keys(item, "fingerprints")
        yield keys, np.arange(row, row + len(keys), dtype=np.uint64) if ids == "row" else None
        row += len(keys)
