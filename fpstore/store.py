"""The store: what users hold. Open it, probe it, add to it, ask about it.

Arranges the parts: the catalog says what the store is now, a snapshot answers for one state of it, and the writer,
where the store was opened for writing, makes the next one.
"""

import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fpstore import forks
from fpstore._pairs import Join
from fpstore.arrays import as_integer, as_key, as_keys, as_mode, as_rows, parse_memory
from fpstore.creation import build_store, copy_store, create_store
from fpstore.errors import CorruptStore, PlanError, StoreClosed, TooManyMatches
from fpstore.living import changes, verified
from fpstore.living.reader import Reader
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.living.verified import Verified
from fpstore.living.writer import Writer
from fpstore.plans.plan import Plan
from fpstore.query.additions import Additions
from fpstore.query.matches import MAX_MATCHES, Matches, Room, concatenate
from fpstore.query.pairs import Pairs
from fpstore.segment import report as reports
from fpstore.segment.reader import Segment
from fpstore.threads import Threads, slices, thread_count
from fpstore.types import Ids, Keys, Progress

# Queries of one call without the lock: few enough that Ctrl-C is noticed within a moment (5 ms; 0.1 s from a cold
# disk), enough to hide the call (1 % of the time of plan "speed").
SLICE_QUERIES = 1024
MIN_SLICE = 256
MODES = ("r", "w")
DURABILITIES = ("commit", "batch")


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
    seed: int | None = None,
    mode: int | None = None,
) -> "Store":
    """Build a store at path and open it for reading.

    fingerprints: uint64[n] (or anything that numpy or Arrow can hand over as such), or a stream: an iterator of
    such arrays or of (fingerprints, ids) pairs of arrays. ids: uint64[n]; "row", the index in the input; None, a
    store without ids. For a stream: "row", None, or "pairs" where it yields pairs.
    k: the largest distance that the store must answer. plan: "size", "balanced", "speed", a number of bytes per
    fingerprint, a plan's name, or a Plan. codec: "gap", "xor", "rice", "raw". memory: the budget; more keys than it
    holds are sorted through spill files beside the store. progress: called with (phase, done, total or None).
    recipe: how text became the fingerprints, kept with the store. force: replace a store that is there. seed: a secret
    number that shuffles the plan's bits, so that nobody can aim at a prefix; a plan for a stream is then that of 10^7.
    mode: whom its files are for, whatever the umask, such as 0o640; 0o600 by default. It is the mode of the store's
    folder, where who may read may also enter, and holds for all that is ever made in it.
    Raises ValueError, TypeError, PlanError; FileExistsError; the operating system's errors.
    """
    build_store(
        Path(path),
        fingerprints,
        ids,
        k=k,
        plan=plan,
        codec=codec,
        memory=memory,
        threads=thread_count(threads),
        progress=progress,
        recipe=recipe,
        force=force,
        seed=seed,
        mode=as_mode(mode),
    )
    return open(path)


def create(
    path: str | os.PathLike[str],
    *,
    k: int = 3,
    ids: bool = True,
    plan: str | float | Plan = "balanced",
    codec: str = "gap",
    recipe: dict[str, object] | None = None,
    seed: int | None = None,
    mode: int | None = None,
) -> "Store":
    """Make an empty store at path, and open it for writing.

    ids: whether fingerprints have ids. plan: as for build; size, balanced and speed are those of 10^7 fingerprints, as
    nobody knows yet how many there will be. k, codec, recipe, seed, mode: as for build.
    Raises ValueError, TypeError, PlanError; FileExistsError; the operating system's errors.
    """
    if not isinstance(ids, bool):
        raise TypeError(f"ids: found {ids!r:.40}, expected True or False")
    create_store(Path(path), k=k, ids=ids, plan=plan, codec=codec, recipe=recipe, seed=seed, mode=as_mode(mode))
    return open(path, "w")


def open(path: str | os.PathLike[str], mode: str = "r", *, durability: str = "commit") -> "Store":
    """Open the store at path.

    mode: "r", for reading, beside any number of other processes and one that writes; "w", as that one. durability:
    "commit", what add and add_if_new store is durable, and seen by other processes, when they return; "batch", up to
    65,536 rows wait for that until the next sync, removal, flush or close, and are lost if the process dies before.
    path is looked up once: where it leads to something else later, every call raises StoreChanged.
    Raises FileNotFoundError, NotAStore, CorruptStore, UnsupportedVersion; StoreLocked while another writes, JobError
    before a job that adds to it has ended. One that never will is undone, with a warning.
    """
    if mode not in MODES:
        raise ValueError(f'mode: found {mode!r}, expected "r" or "w"')
    if durability not in DURABILITIES:
        raise ValueError(f'durability: found {durability!r}, expected "commit" or "batch"')
    return Store(Path(path), mode, durability)


class Store:
    """An open store. Safe to use from several threads; a context manager; pickles as its path, opened for reading.

    Each call answers from the state of its beginning, which is the newest; an iterator keeps its state to its end.
    max_matches: how many rows an answer of probe_many may have; for tests and tools.
    """

    max_matches = MAX_MATCHES

    def __init__(
        self, path: Path, mode: str = "r", durability: str = "commit", sizes: LivingSizes | None = None, **job: Any
    ) -> None:
        """Made by open(). Of a store open for writing: sizes, for tests and tools; job: what a job tells the Writer."""
        self.path = path.absolute()
        self.mode = mode
        self._fork = forks.generation
        self._closed = True
        self._threads: dict[int, Threads] = {}
        self._lock = threading.Lock()
        self._living: Reader | Writer = (
            Writer(self.path, deferred=durability == "batch", sizes=sizes, **job) if mode == "w" else Reader(self.path)
        )
        self._closed = False

    def __len__(self) -> int:
        """Distinct fingerprints; reads all of them where they are not in one segment (see compact)."""
        with _Reading(self) as snapshot:
            return snapshot.key_count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as late:
            if error is None:
                raise
            error.add_note(f"closing the store: {late}")  # what went wrong first is what is told

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (os.fspath(self.path),)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._fork == forks.generation:
            try:
                warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
            finally:
                self.close()

    def __repr__(self) -> str:
        purpose = "writing" if self.mode == "w" else "reading"
        state = "closed" if self._closed else f"open for {purpose}, k {self.k}, plan {self.plan.name}"
        return f"<fpstore.Store {os.fspath(self.path)!r}: {state}>"

    def close(self) -> None:
        """Close the store; probes under way in other threads finish first, later ones raise StoreClosed.

        A writer ends its merges where they are: nothing is lost, the next writer does them again.
        """
        if self._fork != forks.generation:
            # The mappings are the parent's, and a call that was under way there, with a lock that it held, never ends
            # here.
            if not self._closed:
                self._closed = True
                self._living.close()
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for threads in self._threads.values():
            threads.close()
        try:
            self._living.close()
        finally:
            for part in self._latest.parts:
                part.segment.close()

    # --- What it is ---

    @property
    def settings(self) -> Settings:
        """What holds for the whole store."""
        return self._latest.settings

    @property
    def k(self) -> int:
        """The largest distance that it was made for."""
        return self.settings.k

    @property
    def identity(self) -> str:
        """Which store it is, 32 hexadecimal digits: no other has it, but what the file system copies keeps it."""
        return self._latest.state.identity

    @property
    def codec(self) -> str:
        """How keys are coded."""
        return self.settings.codec

    @property
    def has_ids(self) -> bool:
        """Whether fingerprints have ids."""
        return self.settings.ids

    @property
    def recipe(self) -> dict[str, Any] | None:
        """How text became the fingerprints, where that was said."""
        return self.settings.recipe

    @property
    def plan(self) -> Plan:
        """Its tables."""
        return self._latest.plan

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The files it consists of, beside what is pending."""
        return tuple(part.segment for part in self._latest.parts)

    @property
    def _latest(self) -> Snapshot:
        return self._living.snapshot

    # --- Searching ---

    def probe(self, fingerprint: int, k: int | None = None) -> Matches:
        """Every stored fingerprint within k of this one (the store's k by default), nearest first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(k)
        with _Reading(self) as snapshot:
            return snapshot.search(query, distance)

    def probe_many(self, fingerprints: object, k: int | None = None, *, threads: int | None = None) -> Matches:
        """Every stored fingerprint within k of each of fingerprints (uint64[m]).

        .query of the answer is the index of the query, .method says how it was found. threads: how many at once, all
        processors by default. TooManyMatches, before they are made, for more than 2^26 rows.
        """
        queries = as_keys(fingerprints, "fingerprints")
        distance, count = self._distance(k), thread_count(threads)
        room = Room(len(queries), self.max_matches)
        with _Reading(self) as snapshot:
            try:
                if snapshot.is_large(len(queries)):
                    return snapshot.stream(queries, distance, self._team(count).map, room)

                def search(own: slice) -> Matches:
                    self._expect_usable()
                    return snapshot.search(queries[own], distance, own.start, room)

                parts = self._team(count).map(search, slices(len(queries), count, SLICE_QUERIES, MIN_SLICE))
            except TooManyMatches as error:  # which may be about some of the queries only
                raise TooManyMatches.found(len(queries), error.rows, self.max_matches, at_least=True) from None
        return parts[0] if len(parts) == 1 else concatenate(parts, snapshot.settings.ids)

    def nearest_many(self, fingerprints: object, *, k: int | None = None) -> Matches:
        """Of what probe_many returns, the first row of each query: its nearest match. Takes memory for those only."""
        queries = as_keys(fingerprints, "fingerprints")
        distance = self._distance(k)
        with _Reading(self) as snapshot:
            return snapshot.nearest(queries, distance)

    def contains_near(self, fingerprint: int, k: int | None = None) -> bool:
        """Whether a stored fingerprint is within k of this one; stops at the first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(k)
        with _Reading(self) as snapshot:
            return snapshot.contains(query, distance)

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
                found = Pairs(*join.next())
                if len(found):
                    yield found
                self._expect_usable()

    def count_pairs(self, k: int | None = None, *, memory: str | int = "1GiB", progress: Progress | None = None) -> int:
        """How many pairs `pairs` would yield, without holding or returning them."""
        total = 0
        for join in self._joins(self._distance(k), parse_memory(memory), progress):
            while not join.done:
                total += join.count()
        return total

    def _joins(self, distance: int, memory_bytes: int, progress: Progress | None) -> Iterator[Join]:
        with _Reading(self) as snapshot:
            for join, share in snapshot.joins(distance, memory_bytes):
                if progress:
                    progress("pairs", int(1000 * share), 1000)
                yield join

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """All that is stored, a batch at a time: fingerprints uint64[m], one for each id, and ids, uint64[m] or None.

        In the order of table 0 (by default that of the fingerprints), then of the ids; each once. What damaged pages
        lack is read from other tables, with a warning; where these lack it too CorruptStore comes before the first row.
        """
        with _Reading(self) as snapshot:
            for keys, ids in snapshot.rows():
                self._expect_usable()
                yield keys, ids

    # --- Changing ---

    def add(self, fingerprints: object, ids: object = None) -> None:
        """Store fingerprints (uint64[n]), each with its id (uint64[n]) in a store with ids; see open about durability.

        All of them are stored, or none. Found by the next probe of any process. Where a fingerprint has that id
        already nothing changes.
        """
        self._expect_writer().add(*as_rows(fingerprints, ids, self.has_ids, self.path))

    def add_if_new(self, fingerprints: object, ids: object = None, *, k: int | None = None) -> Additions:
        """Store those of fingerprints (uint64[n], up to 2^20) that are within k of none stored before, nor among them.

        Tells for each the nearest match, or that it was stored. One step: no other addition comes in between.
        """
        return self._expect_writer().add_if_new(*as_rows(fingerprints, ids, self.has_ids, self.path), self._distance(k))

    def remove(self, *, ids: object = None, fingerprints: object = None) -> None:
        """Remove all that has one of ids (uint64[n]), all of fingerprints (uint64[n]), or, of both, each row.

        Durable when it returns. What is not there is no error. A fingerprint goes with its last id. All may come again.
        """
        writer = self._expect_writer()
        if ids is None and fingerprints is None:
            raise TypeError("remove takes ids, fingerprints, or both")
        if ids is None:
            writer.remove(changes.FINGERPRINTS_REMOVED, as_keys(fingerprints, "fingerprints"))
        elif not self.has_ids:
            raise ValueError(f"{self.path}: the store has no ids; remove fingerprints")
        elif fingerprints is None:
            writer.remove(changes.IDS_REMOVED, as_keys(ids, "ids"))
        else:
            writer.remove_rows(*as_rows(fingerprints, ids, True, self.path))

    def sync(self) -> None:
        """Make durable, and visible to other processes, what was added with durability "batch"."""
        self._expect_writer().sync()

    def flush(self) -> None:
        """Make a segment of what was added lately, as the store does by itself when there is enough."""
        self._expect_writer().flush()

    def settle(self) -> None:
        """Wait for the segments and merges that the store makes by itself; close would end them."""
        self._expect_writer().settle()

    def compact(self, progress: Progress | None = None) -> None:
        """Merge everything into one segment, without what was removed; probes and additions go on meanwhile.

        One segment of which nothing was removed stays as it is, and is not read.
        """
        self._expect_writer().compact(progress)

    def refresh(self) -> None:
        """Move on to the newest state now rather than at the next call."""
        with _Reading(self):
            pass

    def copy(self, path: str | os.PathLike[str], progress: Progress | None = None, *, mode: int | None = None) -> None:
        """Copy the store as it is now to path, where nothing may be; the writer may go on meanwhile.

        mode: as for build. The copy is a store of its own, with another identity.
        """
        with _Reading(self) as snapshot:
            copy_store(snapshot, self._living.home, Path(path), progress, as_mode(mode))

    def _expect_writer(self) -> Writer:
        self._expect_usable()
        if not isinstance(self._living, Writer):
            raise ValueError(f'{self.path}: opened for reading; open it with mode "w"')
        return self._living

    # --- About it ---

    def verify(self, *, progress: Progress | None = None) -> Verified:
        """Read everything and check it; how much that was. Raises CorruptStore whose damage lists all that is wrong."""
        with _Reading(self) as snapshot:
            return verified.verify_snapshot(snapshot, progress)

    def stats(self, largest_slots: int = 0) -> dict[str, Any]:
        """What the store holds and how, without decoding it, in a millisecond whatever its size.

        fingerprints: None where they are not in one segment, as only reading them (len) would tell. largest_slots: how
        many of the fullest slots of each table to name, with the bits that their fingerprints share, and to warn of if
        they are crowded; that reads the directories (10^8 fingerprints in 3 tables: 0.04 s, 0.4 s from disk).
        """
        with _Reading(self) as snapshot:
            return {
                "path": os.fspath(self.path),
                "k": self.k,
                "plan": self.plan.name,
                "codec": self.codec,
                "ids": self.has_ids,
                "recipe": self.recipe,
                "fingerprints": snapshot.key_count if snapshot.is_plain or snapshot.is_empty else None,
                "pending": snapshot.pending_end,
                "removals": len(snapshot.removals),
                "segments": [reports.stats(part.segment, largest_slots) for part in snapshot.parts],
            }

    def report(self, progress: Progress | None = None) -> reports.Report:
        """The compression-ratio report of the segments: decodes every table, a few times over."""
        with _Reading(self) as snapshot:
            return reports.combine([reports.report_segment(part.segment, progress) for part in snapshot.parts])

    def _expect_usable(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed", path=self.path)
        if self._fork != forks.generation:
            raise StoreClosed("the store was opened before a fork; open it again here", path=self.path)

    def _team(self, count: int) -> Threads:
        """Threads for this store's batches, kept: starting them takes as long as thousands of queries."""
        self._expect_usable()
        return self._threads.get(count) or self._threads.setdefault(count, Threads(count))

    def _distance(self, k: int | None) -> int:
        if k is None:
            return self._latest.state.settings.k
        plan = self.plan
        distance = as_integer(k)
        if distance is None or distance < 0:
            raise ValueError(f"k: found {k!r}, expected an integer from 0 to {plan.k}")
        if distance > plan.k:
            raise PlanError(
                f"k: found {k}, expected at most {plan.k}, as plan {plan.name} answers; build the store with k={k}"
            )
        return distance


class _Reading:
    """The newest snapshot, for one use: errors say that the store was closed meanwhile where that is why."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Snapshot:
        self._store._expect_usable()
        return self._store._living.newest()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, CorruptStore | OSError | ValueError | RuntimeError):
            # A mapping that is closed meanwhile says ValueError, or EBADF, or has the size of another file; the
            # store's threads, which take no more work, say RuntimeError.
            self._store._expect_usable()
