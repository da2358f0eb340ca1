"""What every kind of store is: open, followed, closed, made durable and small, copied, checked, described.

Nothing here knows what a row is, or when two of them are near: a class for each kind of store adds that.
"""

import atexit
import contextlib
import os
import threading
import warnings
import weakref
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from fpstore import forks
from fpstore._following import Following
from fpstore._front import Front, Fronted
from fpstore._singly import Singly
from fpstore.arrays import as_mode
from fpstore.creation import copy_store
from fpstore.errors import CorruptStore, PathLike, ReadOnly, RecipeError, StoreClosed
from fpstore.living import verified
from fpstore.living.catalog import Catalog
from fpstore.living.reader import Reader
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.living.stats import Stats, report_of, stats_of
from fpstore.living.verified import Verified
from fpstore.living.warming import warm
from fpstore.living.writer import Writer
from fpstore.origin import Origin
from fpstore.progress import OnProgress, told
from fpstore.query.additions import Additions
from fpstore.query.tables import Table
from fpstore.segment.reader import Segment
from fpstore.segment.report import Report
from fpstore.threads import Threads, expect_outside, is_inside, thread_count
from fpstore.types import Codec, Durability, IdType, Kind, Layout, Mode, expect_flags

if TYPE_CHECKING:
    from fpstore.text import Recipe

SomeTable = TypeVar("SomeTable", bound=Table[Any])


_open_writers: "weakref.WeakSet[_BaseStore]" = weakref.WeakSet()

# What an open store closes. Of garbage in a cycle the interpreter ends all in any order, and would close the files of a
# writer before it has written what waits: what is here is no garbage before its store has ended.
_catalogs: "weakref.WeakKeyDictionary[_BaseStore, Catalog]" = weakref.WeakKeyDictionary()


@atexit.register
def _close_writers() -> None:
    """Before the interpreter takes modules apart: what waits for a sync could not be written after that."""
    with contextlib.ExitStack() as stack:
        for store in list(_open_writers):
            stack.callback(store.__del__)


class _Mirror(Protocol):
    """What a store of this machine is the mirror of; see fpstore.remote."""

    def close(self) -> None: ...

    def leave(self) -> None: ...

    def pickled(self, kind: type, signed: bool) -> tuple[Any, ...]: ...


class _BaseStore(Fronted, ABC):
    """An open store of any kind."""

    # What writes to one of this kind.
    _writer: type[Writer] = Writer
    # Of a store that lies elsewhere.
    _mirror: _Mirror | None = None

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
        self._lock = threading.RLock()
        # Of one closing at a time; by one thread it may begin again where an interruption ended it.
        self._ending = threading.RLock()
        self._is_ending = False
        self._ended = True
        deferred = durability == "batch"
        self._living: Reader | Writer = (
            self._writer(self.path, deferred=deferred, sizes=sizes, kind=self.kind, **job)
            if mode == "w"
            else Reader(self.path, self.kind)
        )
        self._watch = self._living.watch
        self._singly = self._living.singly if isinstance(self._living, Writer) else None
        self._newest: Following | Singly = (
            self._living.singly if isinstance(self._living, Writer) else self._living.known
        )
        _catalogs[self] = self._living._catalog
        if mode == "w":
            _open_writers.add(self)
        self._front = Front(self).of(self._newest, self._watch, self._signed)  # the last weak reference is found first
        self._closed = self._ended = False

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
        if self._mirror is not None:
            return self._mirror.pickled(type(self), self._signed)
        return type(self), (self.path, "r", "commit", None, self._signed)

    def __del__(self) -> None:
        # None where the interpreter ends, which takes the modules apart before some of what is in them.
        generation = getattr(forks, "generation", None)
        if not getattr(self, "_ended", True) and self._fork == generation:
            try:
                warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
            finally:
                if self._is_inside():
                    # The interpreter collects at any step, also of a call to another store of the same file.
                    start_new_thread(self.close, ())
                else:
                    self.close()

    def __repr__(self) -> str:
        purpose = "writing" if self.mode == "w" else "reading"
        state = "closed" if self._closed else f"open for {purpose}, {self._searched()}"
        return f"<fpstore.{type(self).__name__} {os.fspath(self.path)!r}: {state}>"

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What is kept of a document."""

    @abstractmethod
    def _searched(self) -> str:
        """How it is searched, for those who look at it."""

    def close(self, *, wait: bool = False) -> None:
        """Close the store; probes under way in other threads finish first, later ones raise StoreClosed.

        A writer ends its merges where they are: nothing is lost, the next writer does them again. wait: it ends them
        first, as wait() does. It may be called again: one that was interrupted goes on. A signal's handler that closes
        a store which this thread is closing leaves it to that; RuntimeError where it comes in the midst of another call
        of this thread, which closing would wait for.
        """
        expect_flags(wait=wait)
        if self._fork == forks.generation and not (self._ended or is_inside(self._ending)):
            expect_outside(self._is_inside())
        if wait and not self._closed and self._fork == forks.generation:
            self.wait()
        if self._fork != forks.generation:
            # The mappings are the parent's, and a call that was under way there, with a lock that it held, never ends
            # here.
            if not self._closed:
                self._closed = True
                self._living.close()
                if self._mirror is not None:
                    self._mirror.leave()
            self._ended = True
            return
        with self._ending:
            if self._ended or self._is_ending:
                return
            self._is_ending = True
            try:
                self._end()
            finally:
                self._is_ending = False

    def _is_inside(self) -> bool:
        """Whether this very thread is in the midst of a call that holds what closing waits for."""
        held = is_inside(self._lock) or any(threads.is_inside for threads in self._threads.values())
        return held or self._living.is_inside or any(part.is_inside for part in self._latest.parts)

    def _end(self) -> None:
        with self._lock:
            self._closed = True
        self._watch.end()
        for threads in self._threads.values():
            threads.close()
        with self._ended_by_the_end():
            try:
                self._living.close()
            finally:
                for part in self._latest.parts:
                    part.close()
                if self._mirror is not None:
                    self._mirror.close()

    @contextlib.contextmanager
    def _ended_by_the_end(self) -> Iterator[None]:
        """Closing has ended, also where it says what is wrong, unless it was interrupted."""
        try:
            yield
        except Exception:
            self._ended = True
            raise
        self._ended = True

    # --- What it is ---

    @property
    def _settings(self) -> Settings:
        """What holds for the whole store."""
        return self._latest.settings

    @property
    def identity(self) -> str:
        """Which store it is, 32 hexadecimal digits: no other has it, but what the file system copies keeps it."""
        return self._latest.state.identity

    @property
    def codec(self) -> Codec:
        """How keys are coded."""
        return cast(Codec, self._settings.codec)

    @property
    def layout(self) -> Layout:
        """How tables are cut: "slots", by the top bits of their keys, or "blocks", by bytes."""
        return self._latest.plan.layout

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
        from fpstore.text.recipe import expect_of_kind

        try:
            return expect_of_kind(Recipe.from_json(record), self.kind)
        except ValueError as error:
            raise RecipeError(str(error), path=self.path) from None

    @property
    def _origin(self) -> Origin | None:
        """What fingerprints that come in are compared with, where it is known by which recipe those here are."""
        record = self._settings.recipe
        return None if record is None else Origin(record, self.path)

    @property
    def _segments(self) -> tuple[Segment, ...]:
        """The files it consists of, beside what is pending."""
        return tuple(part.segment for part in self._latest.parts)

    def _warm(self) -> None:
        """Read and check every page of its segments and of their names, as open(warm=True) does."""
        warm(self._latest.parts, thread_count(None))

    @property
    def _latest(self) -> Snapshot:
        latest: Snapshot = self._newest.snapshot
        return latest

    def _holds_any(self) -> bool:
        """Whether a row is stored that was not removed; reads as far as the first."""
        with Reading(self) as snapshot:
            return snapshot.has_rows

    def max_id(self) -> int | None:
        """The largest id that was ever stored here, None before any was; known without a scan.

        A removal does not lower it, nor do compact and copy: a number above it never named anything in this store. Ids
        are compared as unsigned numbers. ValueError where ids are names.
        """
        with Reading(self) as snapshot:
            if snapshot.settings.named:
                raise ValueError(
                    f"{self.path}: found ids that are names, expected numbers, of which one is the largest"
                )
            largest = snapshot.state.max_id
        return largest - (1 << 64) if largest is not None and self._signed and largest >> 63 else largest

    # --- Changing what it is, not what it holds ---

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
        with Reading(self):
            pass

    def copy(self, path: PathLike, *, progress: OnProgress | None = None, mode: int | None = None) -> None:
        """Copy the store as it is now to path, where nothing may be; the writer may go on meanwhile.

        path: also a URL that fsspec reaches, such as s3://bucket/web.fpstore; then it is written to a temporary folder
        first, and its catalog is put there last.
        mode: as for build. The copy is a store of its own, with another identity.
        """
        tell, bits = told(progress), as_mode(mode)
        with Reading(self) as snapshot:

            def copied(to: Path) -> None:
                copy_store(snapshot, self._living.home, to, tell, bits)

            if isinstance(path, str) and "://" in path:
                from fpstore.remote.publishing import publish

                publish(copied, path, tell)
            else:
                copied(Path(path))

    def _difference(self) -> str | None:
        """How what lies at its path differs from what it has open, if it does, whatever was found before."""
        return self._living._catalog.difference()

    def _added_singly(self, fingerprints: object, ids: object, max_distance: int | None) -> Additions | None:
        """What became of one row, where it could be added, if it is new, without its writer."""
        if self._singly is None:
            return None
        found: Additions | None = self._singly.add_if_new(fingerprints, ids, max_distance)
        return found.signed() if found is not None and self._signed else found

    def _expect_writer(self) -> Writer:
        self._expect_usable()
        if not isinstance(self._living, Writer):
            raise ReadOnly('found it opened for reading, expected mode "w"', path=self.path)
        return self._living

    # --- About it ---

    def verify(self, *, progress: OnProgress | None = None) -> Verified:
        """Read everything and check it; how much that was. Raises CorruptStore whose damage lists all that is wrong."""
        with Reading(self) as snapshot:
            return verified.verify_snapshot(snapshot, self._living.home, told(progress))

    def stats(self, *, largest_slots: int = 0, spikes: int = 0, progress: OnProgress | None = None) -> Stats:
        """What the store holds and how, without decoding it, in some milliseconds whatever its size.

        largest_slots: how many of the fullest slots of each table to name, with the bits that their fingerprints share,
        and to warn of if they are crowded; that reads the directories: for 10^8 fingerprints in 3 tables 0.04 s, and
        0.4 s from disk. spikes: how many of the fingerprints that the most rows have to name; that reads all rows,
        and tells of its progress.
        """
        with Reading(self) as snapshot:
            return stats_of(snapshot, self._living.home, os.fspath(self.path), largest_slots, spikes, told(progress))

    def report(self, *, progress: OnProgress | None = None) -> Report:
        """The compression-ratio report of the segments, and the spikes: decodes every table, a few times over."""
        with Reading(self) as snapshot:
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

    def _out(self, table: SomeTable) -> SomeTable:
        """A table as it goes out: signed where that was asked for, with the recipe of its fingerprints."""
        return table._of_store(self._settings.made_by, self._signed)


# What a store that is closed meanwhile says: a mapping ValueError, or EBADF, or that it has the size of another file;
# its threads, which take no more work, RuntimeError.
_OF_CLOSED = CorruptStore, OSError, ValueError, RuntimeError


class Reading:
    """A snapshot, the newest where none is given, for one use: errors say that the store was closed meanwhile."""

    __slots__ = ("_snapshot", "_store")

    def __init__(self, store: _BaseStore, snapshot: Snapshot | None = None) -> None:
        self._store = store
        self._snapshot = snapshot

    def __enter__(self) -> Snapshot:
        self._store._expect_usable()
        try:
            return self._snapshot or self._store._living.newest()
        except _OF_CLOSED:
            self._store._expect_usable()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, _OF_CLOSED):
            self._store._expect_usable()
