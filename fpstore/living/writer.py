"""The one writer of a store: additions and removals to the log, the log to segments, small segments to large ones.

What is acknowledged is in the catalog's log. Flushes and merges run beside, each in a thread of its own; whatever ends
them leaves the state as it was.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fpstore import forks, notes
from fpstore.disk import Folder, Place
from fpstore.errors import StoreClosed
from fpstore.living import changes, renewal
from fpstore.living.beside import Cancelled, until_closed
from fpstore.living.catalog import Catalog
from fpstore.living.changes import Change, Told, Waiting
from fpstore.living.due import due, due_beside, flush_due, give_way, removal_count
from fpstore.living.held import ahead, published, replacement
from fpstore.living.live import Live
from fpstore.living.merge import pass_count
from fpstore.living.named import expect_room, in_handles, named_additions
from fpstore.living.naming import GivenNames
from fpstore.living.opening import Traced, open_made, open_snapshot
from fpstore.living.singly import Current
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.living.sweep import name_segment, remove_replaced, sweep_segments, unpublished_place
from fpstore.living.unsure import Unsure
from fpstore.living.withdrawal import undo
from fpstore.names.column import Names
from fpstore.notes import Asker
from fpstore.progress import Tell
from fpstore.query.additions import Additions, decide
from fpstore.segment.entry import SegmentEntry, names_made, segment_name
from fpstore.threads import Background, is_inside, stand_still
from fpstore.types import Ids, Keys, Kind

# So long who adds all the time has to write a state of his own after one that was published.
NEXT_SECONDS = 0.01


class Writer(Current):
    """Writes to the store in folder, alone while it is open. Safe in several threads. watch: over the snapshot."""

    def __init__(
        self,
        folder: Path,
        *,
        deferred: bool = False,
        sizes: LivingSizes | None = None,
        kind: Kind | None = None,
        job: Asker | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        """Become the writer. deferred: additions may wait for sync.

        job: the one that asks, if it is a job, which may write while it is not finished. before_commit: called, in any
        thread, before changes are made durable; where it raises they are not. Raises StoreLocked, NotAStore,
        CorruptStore, JobError.
        """
        self.folder = folder
        self._fork = forks.generation
        self.sizes = sizes or LivingSizes()
        self._deferred, self._given, self._tests, self._traced = Waiting(), GivenNames(), False, Traced()
        self._before_commit = before_commit
        self._lock = threading.RLock()
        self._closing = False
        self._flush_job: Background[None] | None = None
        self._merge_job: Background[None] | None = None
        self._merge_progress: Tell | None = None
        self._unpublished: set[str] = set()  # files of flushes and merges under way, which no sweep may take
        self._uncertain = Unsure()  # around what writes the catalog: where that fails, it is asked what it came to
        self._publishing = threading.RLock()  # held while a file is named and published, and taken before the lock
        self._catalog = Catalog.open(folder, writable=True)
        self.watch = self._catalog.watch
        try:
            snapshot = open_snapshot(self._catalog, kind=kind)
            super().__init__(self._lock, self.watch, snapshot, deferred)
            self.sizes = self.sizes.of(self.snapshot.settings.flushes_late)
            note = notes.abandoned(self.home, self.snapshot.state.identity, job)
            self._catalog.make_segments()
            sweep_segments(self._catalog)
            self._next_segment = self.snapshot.state.next_segment
            if note is not None:
                undo(note, self.home, job, self._undo_rows, named=self.snapshot.settings.named)
        except BaseException:
            with contextlib.closing(self._catalog):
                self._end_jobs()
            raise

    @property
    def home(self) -> Folder:
        """The store's folder, held open."""
        return self._catalog.folder

    def newest(self) -> Snapshot:
        """What the store is now. StoreChanged once that was found."""
        self._catalog.expect_unchanged()
        return self.snapshot

    # --- Changes ---

    def add(self, keys: Keys, ids: Ids | Names | None) -> None:
        """Store fingerprints, each with its id in a store with ids."""
        large = len(keys) >= self.sizes.flush_rows
        with self._ready(len(keys), large):
            names, ids, told = self._handles(ids)
            if large:
                self._add_segment(keys, ids, renewal.names_of_rows(names, ids))
            elif len(keys):
                self._log(self._change(changes.ADDED, keys, ids, names=names, told=told), self._defers)
                if len(keys) == 1:
                    self._let_add(self._deferred, self.sizes, self._flush_job, self._merge_job)

    def _handles(self, ids: Ids | Names | None) -> tuple[Names | None, Ids | None, Told | None]:
        """Names, if ids are that; what the engine knows them by, new handles for new ones; what is told of them."""
        if not isinstance(ids, Names):
            return None, ids, None
        return ids, *self._given.handles(self.snapshot.names, ids, self.snapshot.state.max_id)

    def add_if_new(self, keys: Keys, given: Ids | Names | None, distance: int, room: int | None = None) -> Additions:
        """Store those that are near none which is stored, nor near an earlier one of them which now is.

        ValueError for more than batch_rows of them, TooManyMatches for names to tell of over room bytes.
        """
        if len(keys) > (most := self.sizes.batch_rows):
            raise ValueError(f"{len(keys)} fingerprints to test and add at once, expected at most {most}")
        self._wait_for_room(len(keys))
        with self._lock:
            self._expect_ready()
            names, ids, told = self._handles(given)
            if len(keys) == 1:
                found_all = decide(keys, ids, self.snapshot.nearest(keys, distance), distance)
                expect_room(self.snapshot, names, ids, found_all, room)
                if found_all.stored[0]:
                    self._log(self._change(changes.ADDED, keys, ids, names=names, told=told), self._defers)
                else:
                    self._start_due_flush()
                self._let_add(self._deferred, self.sizes, self._flush_job, self._merge_job)
            else:
                found_all = self._add_new(keys, ids, names, distance, room)
            return found_all if self.snapshot.names is None else named_additions(self.snapshot, found_all)

    def _add_new(self, keys: Keys, ids: Ids | None, names: Names | None, distance: int, room: int | None) -> Additions:
        """As add_if_new; the caller holds the lock."""
        self._tests = True
        with self._uncertain:  # the pending index gets rows of all pieces but the last before the log has them
            snapshot, change, found = renewal.decided(self.snapshot, keys, ids, names, distance, self.sizes.piece_rows)
            expect_room(self.snapshot, names, ids, found, room)
            if change is not None and found.stored.any():
                records = renewal.records_of_new(self.snapshot.state, keys, ids, names, found.stored, change)
                state = self._logged(records, self._defers)
                self.snapshot = snapshot.extended([change], state)
        self._start_due_flush()
        return found

    def upsert(self, keys: Keys, given: Ids | Names) -> None:
        """Store fingerprints, each in place of all that has its id, in one durable step; of one id the last counts.

        ValueError for more than batch_rows of them.
        """
        if len(keys) > (most := self.sizes.batch_rows):
            raise ValueError(f"found {len(keys)} fingerprints to store in place of others, expected at most {most}")
        with self._ready():
            if not len(keys):
                return
            names, ids, _ = self._handles(given)
            last, ids, records, following = renewal.replacing(self.snapshot, ids)
            own = names and names.take(last)
            records += renewal.added(self.snapshot.state, keys[last], ids, names=own, first=following)
            with self._uncertain:
                self.snapshot = self.snapshot.extended(records, self._write(records))
            self._start_due_flush()

    def remove(self, kind: int, *given: Keys | Names) -> None:
        """Remove fingerprints, ids, or rows, which are both, as kind says; durable when it returns."""
        with self._ready():
            columns = in_handles(self.snapshot, given)
            if len(columns[0]):
                self._log(self._change(kind, *columns), False)

    def _undo_rows(self, keys: Keys, ids: Ids | Names) -> None:
        self.remove(changes.ROWS_REMOVED, keys, ids)  # that a job stored

    def sync(self) -> None:
        """Make everything durable that was added before."""
        with self._ready():
            self._write()

    def _log(self, change: Change, deferred: bool) -> None:
        if deferred:  # the caller may go on to use the arrays
            change = change.copied()
        with self._uncertain:
            self.snapshot = self.snapshot.extended([change], self._logged([*changes.records_of(change)], deferred))
        self._start_due_flush()

    def _change(self, kind: int, *given: Keys | None, names: Names | None = None, told: Told | None = None) -> Change:
        return renewal.change_of(self.snapshot.state, kind, given, names, told)

    def _logged(self, records: list[Change], deferred: bool) -> State:
        """The state after changes, which are in the log when this returns unless they may wait."""
        rows = changes.rows_of(records)
        if not deferred or self._deferred.row_count + rows >= self.sizes.deferred_rows:
            return self._write(records)
        self._deferred.add(records, rows)
        return self.snapshot.state.after(len(records), changes.largest_id(records))

    def _write(self, more: Sequence[Change] = ()) -> State:
        """Write the changes that wait, and more after them, to the log."""
        records = [*self._deferred.changes, *more]
        if not records:
            return self.snapshot.state
        with self._uncertain:
            if self._before_commit is not None:
                self._before_commit()
            state = self._catalog.append(records)
            self._deferred = Waiting()
        return state

    @contextlib.contextmanager
    def _ready(self, rows: int = 0, publishing: bool = False) -> Iterator[None]:
        """The lock, when there is room for so many rows more and all before is known to have gone well."""
        self._wait_for_room(rows)
        with self._publishing if publishing else contextlib.nullcontext(), self._lock:
            self._expect_ready()
            yield

    def _wait_for_room(self, rows: int) -> None:
        """Until there is room for so many rows more; without the lock."""
        snapshot, merging = self.snapshot, self._merge_job
        if (job := self._flush_job) is not None and self.sizes.is_full(snapshot.pending_count, snapshot.name_bytes):
            job.wait()
        if merging is not None and not merging.done:
            give_way(rows, snapshot, self.sizes)

    def _expect_ready(self) -> None:
        """All before is known to have gone well, or its error is raised. The caller holds the lock."""
        if self._closing:
            raise StoreClosed("the store is closed", path=self.folder)
        for job in (self._flush_job, self._merge_job):
            if job is not None and job.done and (error := job.take_error()) is not None:
                raise error
        self._catalog.expect_unchanged()
        self._find_out()

    def _find_out(self) -> None:
        """Read what the catalog says where writing it, or following it, went wrong."""
        self._take_single_rows(self._deferred)
        if not self._uncertain.marked:
            return
        fresh = open_snapshot(self._catalog)
        # Either all of them were written with what failed, or none.
        waiting = [change for change in self._deferred.changes if change.number >= fresh.state.next_change]
        self._deferred = Waiting(waiting)
        self.snapshot = fresh.extended(waiting, fresh.state.after(len(waiting), changes.largest_id(waiting)))
        self._uncertain.clear()
        sweep_segments(self._catalog, self._unpublished)

    # --- Segments ---

    def flush(self) -> None:
        """Make a segment of what was added before; returns when it is there."""
        with self._ready():
            end = self.snapshot.state.next_change
        while self.snapshot.state.first_change < end:
            with self._ready():  # which raises the error of a flush that failed
                self._start_flush(1)  # unless one is under way, which may have begun before the last additions
                job = self._flush_job
            if job is not None:
                job.wait()

    def settle(self) -> None:
        """Wait for the flush and the merges that are due; of small segments, too, as for now no more come."""
        settled = dataclasses.replace(self.sizes, small_rows=1)
        while True:
            with self._ready():
                self._start_due_flush()
                if self._flush_job is None or self._flush_job.done:
                    self._start_merge(due(self.snapshot, settled))
                jobs = [job for job in (self._flush_job, self._merge_job) if job is not None and not job.done]
            if not jobs:
                break
            for job in jobs:
                job.wait()
        with self._ready():  # which raises the error of one that failed just now
            pass

    def compact(self, progress: Tell | None = None) -> None:
        """Merge everything into one segment and forget what was removed; returns when that is done."""
        self._merge_progress = progress  # of those that are due after the flush, too
        try:
            self._wait_for_merge()
            self.flush()
            self._wait_for_merge()
            with self._ready():
                parts = self.snapshot.parts
                if len(parts) > 1 or removal_count(self.snapshot) or any(len(part.names) > 1 for part in parts):
                    self._start_merge(parts, True)
            self._wait_for_merge()
            with self._ready(), self._uncertain:
                self._write()
                self._catalog.compact()
                self.snapshot = dataclasses.replace(self.snapshot, state=self._catalog.state())
        finally:
            self._merge_progress = None

    def _wait_for_merge(self) -> None:
        if (job := self._merge_job) is not None:
            job.wait()
        with self._ready():
            pass

    def _start_due_flush(self) -> None:
        """In the background, if there is enough to flush. The caller holds the lock."""
        merging = self._merge_job is not None and not self._merge_job.done
        self._start_flush(flush_due(self.snapshot, self.sizes, merging))

    def _start_flush(self, least: int) -> None:
        """In the background, if so many rows or changes are logged and none is under way. The caller holds the lock."""
        state = self.snapshot.state
        logged = max(self.snapshot.pending_count, state.next_change - state.first_change)
        if logged < least or (self._flush_job is not None and not self._flush_job.done):
            return
        self._write()
        snapshot, self.snapshot = self.snapshot, self.snapshot.divided()

        def work() -> None:
            upto = snapshot.state.next_change
            with self._new_place() as place:
                rows = renewal.of_log(snapshot)
                self._publish(place, renewal.segment_of_rows(place, self.snapshot, self._advance, *rows), (), upto)
            with self._lock:
                self._start_merge(due(self.snapshot, self.sizes))

        self._flush_job = until_closed(work)

    def _add_segment(self, keys: Keys, ids: Ids | None, *beside: Any) -> None:
        self._write()
        with self._new_place() as place:
            position = self.snapshot.state.next_change
            entry = renewal.segment_of_rows(place, self.snapshot, self._advance, keys, ids, position, *beside)
            self._publish(place, entry, (), None, max_id=None if ids is None else int(ids.max()))
        self._start_merge(due(self.snapshot, self.sizes))

    def _start_merge(self, parts: Sequence[Live], whole: bool = False) -> None:
        """In the background, if there is anything and no merge under way; whole: their names become one file, too."""
        if not parts or self._closing or (self._merge_job is not None and not self._merge_job.done):
            return

        def work() -> None:
            nonlocal parts, whole  # so that what was merged is not held
            while parts:
                self._merge_parts(parts, whole)
                parts, whole = due(self.snapshot, self.sizes), False

        self._merge_job = until_closed(work)

    def _merge_parts(self, parts: Sequence[Live], whole: bool = False, busy: frozenset[str] = frozenset()) -> None:
        """busy: the segments that other merges, which wait for this one, have begun with."""
        with self._lock:
            self._write()  # or a removal might be forgotten that the merge has applied
            basis = renewal.Basis.of(self.snapshot)
        settings = basis.state.settings
        total = pass_count(basis.plan, settings.ids, settings.listing) * sum(part.segment.key_count for part in parts)
        done = 0
        told = self._merge_progress if not busy else None
        busy |= {part.segment.path.name for part in parts}

        def advance(keys: int) -> None:
            nonlocal done
            done += keys
            self._advance("merging", done, total)
            if told is not None:
                told("merging", done, total)
            self._merge_beside(busy)

        with self._new_place() as place:
            entry = renewal.segment_of_parts(place, parts, basis, None if whole else self.sizes.due_names, advance)
            self._publish(place, entry, [part.segment.path.name for part in parts], None)

    def _merge_beside(self, busy: frozenset[str]) -> None:
        """In the midst of a merge, of segments busy: others that have become due, or many would wait for it."""
        many = len(self.snapshot.parts) - len(busy) >= self.sizes.small_segments
        if many and (parts := due_beside(busy, self.snapshot, self.sizes)):
            self._merge_parts(parts, busy=busy)

    def _publish(
        self,
        place: Place,
        entry: SegmentEntry | None,
        dropped: Sequence[str],
        first_change: int | None,
        max_id: int | None = None,
    ) -> None:
        """Make a segment part of the store, in place of the dropped ones or of the changes before first_change."""
        with self._publishing:
            before = self.snapshot
            made = new = strays = None
            if entry is not None:
                made = ahead(before, entry.key_count, dropped, first_change, self.sizes)
                part, strays = self._named(place, entry, dropped)
                new = entry, part
            with self._lock:
                self._catalog.expect_unchanged()
                self._find_out()
                self._write()
                snapshot = self.snapshot
                following = replacement(snapshot, new, dropped, first_change, self.sizes)
                with self._uncertain:
                    state = self._catalog.publish(
                        segments=following.entries,
                        first_change=following.first_change,
                        removed=following.removed,
                        strays=strays,
                        max_id=max_id,
                    )
                    self.snapshot = published(snapshot, state, following, self.sizes, made)
            if state.next_change > before.state.next_change:
                time.sleep(NEXT_SECONDS)  # who adds all the time writes a state meanwhile
            with self._lock:
                self._catalog.repeat(state)
            with contextlib.suppress(OSError):  # the next writer removes them
                remove_replaced(self._catalog, state)

    def _named(self, place: Place, entry: SegmentEntry, dropped: Sequence[str]) -> tuple[Live, list[SegmentEntry]]:
        """A new segment under its name, and the strays that are left; additions go on meanwhile."""
        with self._lock:
            self._advance()
            self._catalog.expect_unchanged()
            self._find_out()
            snapshot = self.snapshot
            with self._uncertain:
                announced = self._catalog.announce(entry)
        try:
            strays = name_segment(self._catalog, place, entry, announced)
            most = self.sizes.traced_bytes * self._tests
            return open_made(place.folder, entry, snapshot, dropped, self._traced, most), strays
        except BaseException:
            with self._lock, self._uncertain:
                raise

    @contextlib.contextmanager
    def _new_place(self) -> Iterator[Place]:
        """Where a new segment is written; no sweep takes it until it is published."""
        with self._lock:
            self._catalog.expect_here()
            place = unpublished_place(self._catalog, self._next_segment, self.snapshot.state.identity)
            self._next_segment += 1
            # Under that name too, which it has before it is published.
            own = {*names_made(place.name), *names_made(place.name[: len(segment_name(0))])}
            self._unpublished |= own
        try:
            yield place
        finally:
            with self._lock:
                self._unpublished -= own

    def _advance(self, *_progress: object) -> None:
        if self._closing:
            raise Cancelled

    # --- The end ---

    @property
    def is_inside(self) -> bool:
        """Whether this thread is where closing it would wait for ever."""
        return is_inside(self._lock, self._publishing) or self._catalog.is_inside

    def close(self) -> None:
        """Write what waits, end flushes and merges where they are, and let another be the writer.

        Raises StoreChanged where the store is no longer there, unless a call has said so before.
        """
        if self._fork != forks.generation:  # all of it is the parent's, whose threads may hold the lock here for ever
            self._catalog.close()
            return
        if stand_still(self._flush_job, self._merge_job):
            return
        self._end_jobs()
        with self._lock, contextlib.closing(self._catalog):
            if self._catalog.is_closed or self._catalog.has_changed:
                return
            self._find_out()
            self._write()
            with contextlib.suppress(OSError):  # all is durable, and the next writer sweeps
                sweep_segments(self._catalog)

    def _end_jobs(self) -> None:
        """End the flush and the merge where they are."""
        with self._lock:
            self._closing = True
        for job in (self._flush_job, self._merge_job):
            if job is not None:
                job.wait()
