"""The store: what users hold. Open it, probe it, add to it, ask about it.

Arranges the parts: the catalog says what the store is now, a snapshot answers for one state of it, and the writer,
where the store was opened for writing, makes the next one.
"""

import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, get_args

import numpy as np

from fpstore import forks
from fpstore._pairs import Join
from fpstore.arrays import as_count, as_integer, as_key, as_keys, as_mode, as_rows, parse_memory
from fpstore.creation import copy_store
from fpstore.errors import CorruptStore, PathLike, PlanError, ReadOnly, RecipeError, StoreClosed, TooManyMatches
from fpstore.living import changes, verified
from fpstore.living.reader import Reader
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.living.stats import Stats, report_of, stats_of
from fpstore.living.verified import Verified
from fpstore.living.writer import Writer
from fpstore.plans.plan import Plan
from fpstore.progress import OnProgress, Tell, told
from fpstore.query.additions import Additions
from fpstore.query.matches import MAX_MATCHES, Matches, Room, concatenate
from fpstore.query.pairs import Pairs
from fpstore.query.tables import Rows, Table
from fpstore.segment.reader import Segment
from fpstore.segment.report import Report
from fpstore.threads import Threads, slices, thread_count
from fpstore.types import Array, Codec, Counted, Durability, IdType, Mode

if TYPE_CHECKING:
    from fpstore.text import Recipe

# Queries of one call without the lock: few enough that Ctrl-C is noticed within a moment (5 ms; 0.1 s from a cold
# disk), enough to hide the call (1 % of the time of plan "speed").
SLICE_QUERIES = 1024
MIN_SLICE = 256

# Rows of a batch of rows().
ROWS_AT_ONCE = 1 << 16

SomeTable = TypeVar("SomeTable", bound=Table[Any])


class Store:
    """An open store. Safe to use from several threads; a context manager; pickles as its path, opened for reading.

    Each call answers from the state of its beginning, which is the newest; an iterator keeps its state to its end.
    max_matches: how many rows an answer of probe_many may have; for tests and tools.
    """

    max_matches = MAX_MATCHES

    def __init__(
        self,
        path: Path,
        mode: Mode = "r",
        durability: Durability = "commit",
        sizes: LivingSizes | None = None,
        signed: bool = False,
        **job: Any,
    ) -> None:
        """Made by open(). Of a store open for writing: sizes, for tests and tools; job: what a job tells the Writer."""
        self.path = path.absolute()
        self.mode: Mode = mode
        self._signed = signed
        self._fork = forks.generation
        self._closed = True
        self._threads: dict[int, Threads] = {}
        self._lock = threading.Lock()
        self._living: Reader | Writer = (
            Writer(self.path, deferred=durability == "batch", sizes=sizes, **job) if mode == "w" else Reader(self.path)
        )
        self._closed = False

    def __bool__(self) -> bool:
        """True: whether it holds anything is for count() to tell, which may read all of it."""
        return True

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
        return Store, (self.path, "r", "commit", None, self._signed)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._fork == forks.generation:
            try:
                warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
            finally:
                self.close()

    def __repr__(self) -> str:
        purpose = "writing" if self.mode == "w" else "reading"
        open_for = f"open for {purpose}, max_distance {self.max_distance}, plan {self.plan.name}"
        state = "closed" if self._closed else open_for
        return f"<fpstore.Store {os.fspath(self.path)!r}: {state}>"

    def close(self, *, wait: bool = False) -> None:
        """Close the store; probes under way in other threads finish first, later ones raise StoreClosed.

        A writer ends its merges where they are: nothing is lost, the next writer does them again. wait: it ends them
        first, as wait() does.
        """
        if wait and not self._closed and self._fork == forks.generation:
            self.wait()
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
    def _settings(self) -> Settings:
        """What holds for the whole store."""
        return self._latest.settings

    @property
    def bits(self) -> int:
        """How many bits a fingerprint has."""
        return self._settings.bits

    @property
    def max_distance(self) -> int:
        """The largest distance that it was made for."""
        return self._settings.max_distance

    @property
    def identity(self) -> str:
        """Which store it is, 32 hexadecimal digits: no other has it, but what the file system copies keeps it."""
        return self._latest.state.identity

    @property
    def codec(self) -> Codec:
        """How keys are coded."""
        return cast(Codec, self._settings.codec)

    @property
    def id_type(self) -> IdType | None:
        """What the ids are: "uint64", or None where fingerprints have none."""
        return cast(IdType | None, self._settings.id_type)

    @property
    def recipe(self) -> "Recipe | None":
        """How text becomes its fingerprints, where that was said. Raises RecipeError for a record that is no recipe."""
        record = self._settings.recipe
        if record is None:
            return None
        from fpstore.text import Recipe

        try:
            return Recipe.from_json(record)
        except ValueError as error:
            raise RecipeError(str(error), path=self.path) from None

    @property
    def plan(self) -> Plan:
        """Its tables."""
        return self._latest.plan

    @property
    def _segments(self) -> tuple[Segment, ...]:
        """The files it consists of, beside what is pending."""
        return tuple(part.segment for part in self._latest.parts)

    @property
    def _latest(self) -> Snapshot:
        return self._living.snapshot

    # --- Texts ---

    def fingerprint(self, text: str | bytes) -> int:
        """The fingerprint of a text by the store's own recipe. RecipeError in a store that has none."""
        return int(self.fingerprint_many([text], threads=1)[0])

    def fingerprint_many(self, texts: Iterable[str | bytes], *, threads: int | None = None) -> Array:
        """The fingerprints of texts, in their order, by the store's own recipe: uint64[n].

        threads: how many at once, all processors by default. RecipeError in a store that has no recipe.
        """
        if isinstance(texts, str | bytes):
            raise TypeError(f"texts: found one {type(texts).__name__}, expected several of them")
        recipe = self.recipe
        if recipe is None:
            raise RecipeError("found no recipe for texts in it, expected a store made with one", path=self.path)
        found = recipe.fingerprint_many(list(texts), thread_count(threads))
        return found.view(np.int64) if self._signed else found

    def probe_text(self, text: str | bytes, *, max_distance: int | None = None) -> Matches:
        """As probe, for the fingerprint of a text by the store's own recipe."""
        return self.probe(self.fingerprint(text), max_distance=max_distance)

    def add_texts(self, texts: Iterable[str | bytes], *, ids: object = None) -> None:
        """As add, for the fingerprints of texts by the store's own recipe."""
        self.add(self.fingerprint_many(texts), ids=ids)

    def add_texts_if_new(
        self, texts: Iterable[str | bytes], *, ids: object = None, max_distance: int | None = None
    ) -> Additions:
        """As add_if_new, for the fingerprints of texts by the store's own recipe."""
        return self.add_if_new(self.fingerprint_many(texts), ids=ids, max_distance=max_distance)

    # --- Searching ---

    def probe(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> Matches:
        """Every stored fingerprint within max_distance of this one, nearest first.

        max_distance: that of the store by default, and at most that of its plan: the paper's k.
        """
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(max_distance)
        with _Reading(self) as snapshot:
            return self._out(snapshot.search(query, distance))

    def probe_many(
        self, fingerprints: object, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """Every stored fingerprint within max_distance of each of fingerprints (uint64[m]).

        .query of the answer is the index of the query, .method says how it was found. threads: how many at once, all
        processors by default. TooManyMatches, before they are made, for more than 2^26 rows.
        """
        queries = as_keys(fingerprints, "fingerprints")
        distance, count = self._distance(max_distance), thread_count(threads)
        room = Room(len(queries), self.max_matches)
        with _Reading(self) as snapshot:
            try:
                if snapshot.is_large(len(queries)):
                    return self._out(snapshot.stream(queries, distance, self._team(count).map, room))

                def search(own: slice) -> Matches:
                    self._expect_usable()
                    return snapshot.search(queries[own], distance, own.start, room)

                parts = self._team(count).map(search, slices(len(queries), count, SLICE_QUERIES, MIN_SLICE))
            except TooManyMatches as error:  # which may be about some of the queries only
                raise TooManyMatches.found(len(queries), error.rows, self.max_matches, at_least=True) from None
        return self._out(parts[0] if len(parts) == 1 else concatenate(parts, snapshot.settings.ids))

    def nearest_many(self, fingerprints: object, *, max_distance: int | None = None) -> Matches:
        """Of what probe_many returns, the first row of each query: its nearest match. Takes memory for those only."""
        queries = as_keys(fingerprints, "fingerprints")
        distance = self._distance(max_distance)
        with _Reading(self) as snapshot:
            return self._out(snapshot.nearest(queries, distance))

    def contains_near(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> bool:
        """Whether a stored fingerprint is within max_distance of this one; stops at the first."""
        query = np.array([as_key(fingerprint, "fingerprint")], dtype=np.uint64)
        distance = self._distance(max_distance)
        with _Reading(self) as snapshot:
            return snapshot.contains(query, distance)

    def pairs(
        self, *, max_distance: int | None = None, memory: str | int = "1GiB", progress: OnProgress | None = None
    ) -> Iterator[Pairs]:
        """Every pair of distinct stored fingerprints within max_distance, once, in no order, a batch at a time.

        memory: the budget for keys held at once; ValueError where a single prefix needs more.
        """
        distance, budget = self._distance(max_distance), parse_memory(memory)
        with _Reading(self) as snapshot:
            return self._pairs(self._joins(snapshot, distance, budget, told(progress)))

    def _pairs(self, joins: Iterator[Join]) -> Iterator[Pairs]:
        for join in joins:
            while not join.done:
                found = Pairs(*join.next())
                if len(found):
                    yield self._out(found)
                self._expect_usable()

    def count_pairs(
        self, *, max_distance: int | None = None, memory: str | int = "1GiB", progress: OnProgress | None = None
    ) -> int:
        """How many pairs `pairs` would yield, without holding or returning them."""
        total, distance, budget = 0, self._distance(max_distance), parse_memory(memory)
        with _Reading(self) as snapshot:
            joins = self._joins(snapshot, distance, budget, told(progress))
        for join in joins:
            while not join.done:
                total += join.count()
        return total

    def _joins(self, snapshot: Snapshot, distance: int, memory_bytes: int, tell: Tell | None) -> Iterator[Join]:
        with _Reading(self, snapshot):
            for join, share in snapshot.joins(distance, memory_bytes):
                if tell:
                    tell("pairs", int(1000 * share), 1000)
                yield join

    def count(self, of: Counted = "fingerprints") -> int:
        """How many distinct fingerprints there are, or how many rows: one for each id of a fingerprint.

        of: "fingerprints" or "rows". Reads all of them, unless they are in one segment and none was removed (compact).
        """
        if of not in get_args(Counted):
            raise ValueError(f"of: found {of!r:.40}, expected {' or '.join(get_args(Counted))}")
        with _Reading(self) as snapshot:
            return snapshot.key_count if of == "fingerprints" else snapshot.row_count

    def rows(self, *, batch: int = ROWS_AT_ONCE) -> Iterator[Rows]:
        """All that is stored, at most `batch` rows at a time: each fingerprint once for each id.

        In the order of table 0 (by default that of the fingerprints), then of the ids. What damaged pages lack is read
        from other tables, with a warning; where these lack it too CorruptStore comes before the first row.
        """
        most = as_count(batch, "batch")
        with _Reading(self) as snapshot:
            return self._rows(snapshot, most)

    def _rows(self, snapshot: Snapshot, most: int) -> Iterator[Rows]:
        with _Reading(self, snapshot):
            for keys, ids in snapshot.rows():
                rows = self._out(Rows(keys, ids))
                for first in range(0, len(rows), most):
                    self._expect_usable()
                    yield rows[first : first + most]

    def _out(self, table: SomeTable) -> SomeTable:
        return table.signed() if self._signed else table

    # --- Changing ---

    def add(self, fingerprints: object, *, ids: object = None) -> None:
        """Store fingerprints (uint64[n]), each with its id (uint64[n]) in a store with ids; see open about durability.

        All of them are stored, or none. Found by the next probe of any process. Where a fingerprint has that id
        already nothing changes.
        """
        self._expect_writer().add(*as_rows(fingerprints, ids, self._settings.ids, self.path))

    def add_if_new(self, fingerprints: object, *, ids: object = None, max_distance: int | None = None) -> Additions:
        """Store those of fingerprints (uint64[n], up to 2^20) that are near none stored before, nor one among them.

        Near: within max_distance, the store's by default. Tells for each the nearest match, or that it was stored. One
        step: no other addition comes in between.
        """
        rows = as_rows(fingerprints, ids, self._settings.ids, self.path)
        return self._out(self._expect_writer().add_if_new(*rows, self._distance(max_distance)))

    def remove(self, *, ids: object = None, fingerprints: object = None) -> None:
        """Remove all that has one of ids (uint64[n]), all of fingerprints (uint64[n]), or, of both, each row.

        Durable when it returns. What is not there is no error. A fingerprint goes with its last id. All may come again.
        """
        writer = self._expect_writer()
        if ids is None and fingerprints is None:
            raise TypeError("remove takes ids, fingerprints, or both")
        if ids is None:
            writer.remove(changes.FINGERPRINTS_REMOVED, as_keys(fingerprints, "fingerprints"))
        elif not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids; remove fingerprints")
        elif fingerprints is None:
            writer.remove(changes.IDS_REMOVED, as_keys(ids, "ids"))
        else:
            writer.remove_rows(*as_rows(fingerprints, ids, True, self.path))

    def sync(self) -> None:
        """Make durable, and seen by other processes, what was added with durability "batch"."""
        self._expect_writer().sync()

    def _flush(self) -> None:
        """Make a segment of what was added lately, as the store does by itself when there is enough."""
        self._expect_writer().flush()

    def wait(self) -> None:
        """Wait for the segments and merges that the store makes by itself; close would end them."""
        self._expect_writer().settle()

    def compact(self, *, progress: OnProgress | None = None) -> None:
        """Merge everything into one segment, without what was removed; probes and additions go on meanwhile.

        One segment of which nothing was removed stays as it is, and is not read.
        """
        self._expect_writer().compact(told(progress))

    def _refresh(self) -> None:
        """Move on to the newest state now rather than at the next call."""
        with _Reading(self):
            pass

    def copy(self, path: PathLike, *, progress: OnProgress | None = None, mode: int | None = None) -> None:
        """Copy the store as it is now to path, where nothing may be; the writer may go on meanwhile.

        mode: as for build. The copy is a store of its own, with another identity.
        """
        with _Reading(self) as snapshot:
            copy_store(snapshot, self._living.home, Path(path), told(progress), as_mode(mode))

    def _expect_writer(self) -> Writer:
        self._expect_usable()
        if not isinstance(self._living, Writer):
            raise ReadOnly('found it opened for reading, expected mode "w"', path=self.path)
        return self._living

    # --- About it ---

    def verify(self, *, progress: OnProgress | None = None) -> Verified:
        """Read everything and check it; how much that was. Raises CorruptStore whose damage lists all that is wrong."""
        with _Reading(self) as snapshot:
            return verified.verify_snapshot(snapshot, told(progress))

    def stats(self, *, largest_slots: int = 0, spikes: int = 0) -> Stats:
        """What the store holds and how, without decoding it, in some milliseconds whatever its size.

        largest_slots: how many of the fullest slots of each table to name, with the bits that their fingerprints share,
        and to warn of if they are crowded; that reads the directories: for 10^8 fingerprints in 3 tables 0.04 s, and
        0.4 s from disk. spikes: how many of the fingerprints that the most rows have to name; that reads all rows.
        """
        with _Reading(self) as snapshot:
            return stats_of(snapshot, self._living.home, os.fspath(self.path), largest_slots, spikes)

    def report(self, *, progress: OnProgress | None = None) -> Report:
        """The compression-ratio report of the segments, and the spikes: decodes every table, a few times over."""
        with _Reading(self) as snapshot:
            return report_of(snapshot, told(progress))

    def _expect_usable(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed", path=self.path)
        if self._fork != forks.generation:
            raise StoreClosed("the store was opened before a fork; open it again here", path=self.path)

    def _team(self, count: int) -> Threads:
        """Threads for this store's batches, kept: starting them takes as long as thousands of queries."""
        self._expect_usable()
        return self._threads.get(count) or self._threads.setdefault(count, Threads(count))

    def _distance(self, max_distance: int | None) -> int:
        if max_distance is None:
            return self._latest.state.settings.max_distance
        plan = self.plan
        distance = as_integer(max_distance)
        if distance is None or distance < 0:
            raise ValueError(f"max_distance: found {max_distance!r}, expected an integer from 0 to {plan.max_distance}")
        if distance > plan.max_distance:
            raise PlanError(
                f"max_distance: found {distance}, expected at most {plan.max_distance}, as plan {plan.name} answers; "
                f"build the store with max_distance={distance}"
            )
        return distance


class _Reading:
    """A snapshot, the newest where none is given, for one use: errors say that the store was closed meanwhile."""

    __slots__ = ("_snapshot", "_store")

    def __init__(self, store: Store, snapshot: Snapshot | None = None) -> None:
        self._store = store
        self._snapshot = snapshot

    def __enter__(self) -> Snapshot:
        self._store._expect_usable()
        return self._snapshot or self._store._living.newest()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, CorruptStore | OSError | ValueError | RuntimeError):
            # A mapping that is closed meanwhile says ValueError, or EBADF, or has the size of another file; the
            # store's threads, which take no more work, say RuntimeError.
            self._store._expect_usable()
