"""The catalog: what a store is, which segments it has and the log of what came since; all that changes in place.

Settings, live segments and the log change together, in one transaction that is durable when publish or append returns,
or not at all. A reader gets one consistent state, checked whole.
"""

import contextlib
import dataclasses
import errno
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from fpstore import forks
from fpstore._tail import Tail
from fpstore._watch import Watch
from fpstore.checks import expect
from fpstore.disk import CATALOG_NAME, Folder
from fpstore.errors import CorruptStore, Naming, NotAStore, StoreChanged, StoreClosed, StoreLocked
from fpstore.living import changes, locks
from fpstore.living import environment as environments
from fpstore.living.changes import Change, RemovedBefore
from fpstore.living.environment import Transaction, copy_records
from fpstore.living.locks import WriterLock
from fpstore.living.records import (
    CHANGES,
    MAIN_RECORDS,
    REMOVALS,
    Copied,
    Log,
    bytes_to_write,
    first_state,
    state_record,
    write_changes,
    write_removed,
    write_whole,
)
from fpstore.living.state import KEY, MAX_NUMBER, Settings, State, decode, encode, expect_left, larger
from fpstore.segment.entry import SegmentEntry

FILE_NAME = CATALOG_NAME
SEGMENTS = "segments"
ANOTHER_WRITER = "found the state of another writer, expected what this one left"
# A catalog of so many bytes, of which all but one in so many are free, is put into a smaller file.
MIN_COMPACTED_BYTES = 1 << 20
MOSTLY_FREE = 4
END_OF_CHANGES = 2**63  # above every change's number


def create_catalog(
    at: Path | Folder,
    settings: Settings,
    segments: tuple[SegmentEntry, ...] = (),
    log: Log | None = None,
    max_id: int | None = None,
) -> str:
    """Make the catalog of a new store in a folder that is there, whole and durable or not at all; its identity.

    log: another store's, to begin with; max_id: without one, the largest id of the segments. FileExistsError where a
    catalog is there, StoreLocked while another process makes one.
    """
    state = first_state(settings, log, max_id).with_segments(segments)
    records, removed = (log.changes, log.removed or ()) if log is not None else ((), ())
    with contextlib.ExitStack() as undo:
        folder = at if isinstance(at, Folder) else undo.enter_context(Folder.open(at))
        writer_lock = locks.lock_writer(folder)
        undo.callback(writer_lock.release)
        if folder.identity_of(FILE_NAME) is not None:
            raise FileExistsError(errno.EEXIST, "there is a catalog already", str(folder.path / FILE_NAME))
        # LMDB's own creation can be seen half done; a name that appears with the whole file cannot.
        environments.replace(
            folder,
            writer_lock,
            environments.whole_maps(bytes_to_write(state, records, removed)),
            lambda make, transaction: write_whole(state, records, removed, make, transaction),
        )
    return state.identity


def _folder_of_store(path: Path) -> Folder:
    """The folder at path, which has a catalog. FileNotFoundError, NotAStore; CorruptStore where that is gone."""
    try:
        folder = Folder.open(path)
    except NotADirectoryError:
        raise NotAStore.a_file(path.absolute()) from None
    with contextlib.ExitStack() as undo:
        undo.enter_context(folder)
        if folder.identity_of(FILE_NAME) is None:
            if folder.identity_of(SEGMENTS) is not None:
                raise CorruptStore("catalog", f"no {FILE_NAME}", f"it beside {SEGMENTS}", path=folder.path)
            raise NotAStore(f"found no {FILE_NAME}, expected a folder that fpstore made", path=folder.path)
        os.close(folder.open_file(FILE_NAME))  # CorruptStore for what is no file
        undo.pop_all()
    return folder


class Catalog(environments.Sharing):
    """An open catalog. Safe to use from several threads; a context manager; not usable after a fork.

    folder: the store's, held open; what lies under its path later need not be this store. watch: over what it says;
    a writer alone changes that.
    """

    def __init__(self, folder: Folder, writer_lock: WriterLock | None) -> None:
        """Made by open()."""
        self._fork = forks.generation
        self.is_closed = True
        self.folder = folder
        self._path = folder.path / FILE_NAME
        self._segments: Folder | None = None
        self._writer_lock = writer_lock
        self._written: State | None = None
        # Of a writer: the records one of which the file must hold, as nobody else writes; None until it was read.
        self._records: tuple[bytes, ...] | None = None
        self._changed: str | None = None
        self._known: State | None = None  # what was read last
        self.watch = Watch(sure=writer_lock is not None)
        self._shared = environments.share(folder, FILE_NAME)
        self.is_closed = False

    @classmethod
    def open(cls, path: Path, writable: bool = False) -> Self:
        """Open the catalog of the store in the folder at path and check it whole.

        writable: as the store's one writer, until closed. Raises FileNotFoundError where nothing is there, NotAStore
        where it is no store, CorruptStore where it is damaged, StoreLocked where another process is the writer.
        """
        with contextlib.ExitStack() as undo:
            folder = undo.enter_context(_folder_of_store(path))
            writer_lock = None
            if writable:
                writer_lock = locks.lock_writer(folder)
                undo.callback(writer_lock.release)
            catalog = cls(folder, writer_lock)
            undo.pop_all()
        with contextlib.ExitStack() as undo:
            undo.callback(catalog.close)
            catalog.state()
            undo.pop_all()
        return catalog

    # --- Where it lies ---

    @property
    def segments(self) -> Folder:
        """The folder of the segments, held open. CorruptStore where there is none."""
        if self._segments is None:
            try:
                self._segments = self.folder.inside(SEGMENTS)
            except FileNotFoundError:
                missing = self.folder.path / SEGMENTS
                raise CorruptStore("segments", "no folder", "that of the segments", path=missing) from None
        return self._segments

    def make_segments(self) -> Folder:
        """The folder of the segments, made anew where it is gone: a backup may leave an empty one out.

        It has the mode of the store's folder, which somebody may have changed.
        """
        self._expect_writable()
        if self.folder.identity_of(SEGMENTS) is None:
            self._segments = self.folder.create(SEGMENTS)
        with contextlib.suppress(PermissionError):  # of a writer who is not its owner
            self.segments.set_mode(self.folder.mode)
        return self.segments

    def expect_here(self, *, appending: bool = False) -> None:
        """StoreChanged, from then on at every use, unless the store's path leads to the files that this writer has.

        appending: where nothing but the catalog is to change, it is enough that the path leads to that.
        """
        self.expect_unchanged()
        assert self._writer_lock is not None
        try:
            self._writer_lock.check_catalog() if appending else self._writer_lock.check()
        except StoreChanged:
            lock = f"found another {locks.WRITER_LOCK_NAME} or none, expected the one that this writer has locked"
            raise self.changed(self.difference() or lock) from None
        if not appending and (how := self.difference()) is not None:
            raise self.changed(how)

    def follow(self) -> bool:
        """Of a reader: go on in the file that has taken the catalog's place in its folder; False where none has.

        Whether that is what became of this one is for the caller to find out. StoreChanged, from then on at every use,
        where the store's path leads to another folder, or there is no catalog.
        """
        self.expect_unchanged()
        if self.folder.is_at(self.folder.path) and self._has_its_segments():
            if self._environment.is_at(self.folder, FILE_NAME):
                return False
            with contextlib.suppress(FileNotFoundError, CorruptStore):
                self._open_anew()
                return True
        raise self.changed(self.difference() or "found no sound catalog, expected the one that was opened there")

    def _open_anew(self) -> None:
        before, self._shared = self._environment, environments.share(self.folder, FILE_NAME)
        environments.give_back(before)

    def difference(self) -> str | None:
        """How what lies under the path differs from what this has open, if it does."""
        if not self.folder.is_at(self.folder.path):
            there = "another folder" if os.path.lexists(self.folder.path) else "nothing"
            return f"found {there}, expected the folder that was opened there"
        if not self._environment.is_at(self.folder, FILE_NAME):
            return f"found another {FILE_NAME} or none, expected the one that was opened there"
        if not self._has_its_segments():
            return f"found another folder {SEGMENTS} or none, expected the one that was opened there"
        return None

    def _has_its_segments(self) -> bool:
        """Whether the folder of the segments is the one that this has open, if it has."""
        return self._segments is None or self.folder.identity_of(SEGMENTS) == self._segments.identity

    @property
    def has_changed(self) -> bool:
        """Whether it was found that the store is no longer there."""
        return self._changed is not None

    def expect_unchanged(self) -> None:
        """StoreChanged where that was found before."""
        if self._changed is not None:
            raise StoreChanged(self._changed, path=self.folder.path)

    def changed(self, how: str) -> StoreChanged:
        """The error of a store that is no longer there, which every later use raises too."""
        self.watch.end()
        self._changed = f"{how}; {'nothing was written there; ' * (self._writer_lock is not None)}open the store again"
        return StoreChanged(self._changed, path=self.folder.path)

    # --- What it says ---

    def state(self) -> State:
        """What the catalog says now, from one short transaction. Raises CorruptStore, StoreChanged."""
        self._expect_usable()
        return self._state_of(self._copied(END_OF_CHANGES, whole=False))

    def stamp(self) -> tuple[int, int] | None:
        """A value that differs whenever the catalog does, read without a system call; None where it was cut short."""
        self._expect_usable()
        return self._environment.stamp()

    @property
    def tail(self) -> Tail:
        """What reads the end of the log as it lies in the file."""
        self._expect_usable()
        return self._environment.tail

    def confirm(self, stamp: tuple[int, int] | None, seconds: float, again: float = 0.0) -> None:
        """The watch is to hold as long as the stamp is this one, and only for so long; not at all for None.

        again: and for so long more, whenever that is over and follow() would find nothing new.
        """
        folders = {} if self._segments is None else {SEGMENTS: self._segments.identity}
        own = {FILE_NAME: self._environment.file_identity, **folders}
        self.watch.confirm(self._environment.words, stamp, seconds, self.folder.places(own), again)

    def read(self, generation: int = 0, next_change: int = 1) -> Log:
        """The state and what leads to it, from one short transaction. Raises CorruptStore.

        generation, next_change: those of the state that the caller has; changes before that one are not read again.
        """
        self._expect_usable()
        return self._read_log(generation, next_change)

    def append(self, records: Sequence[Change]) -> State:
        """Add changes to the log, numbered from next_change on, in one transaction; the new state.

        Durable when it returns. Raises OSError as publish does.
        """
        old = self._expect_writable()
        numbers = [change.number for change in records]
        following = list(range(old.next_change, old.next_change + len(numbers)))
        expect("the numbers", numbers, numbers == following, "the next ones")

        def work(transaction: Transaction) -> None:
            write_changes(records, transaction, self._environment.database(CHANGES, transaction))

        return self._commit(old.after(len(records), changes.largest_id(records)), work, records)

    def announce(self, entry: SegmentEntry) -> State:
        """Say that a file which is about to be called that is this store's, to keep or to remove; the new state."""
        old = self._expect_writable()
        return self._commit(old.with_segments(old.segments, (*old.strays, entry)))

    def publish(
        self,
        *,
        settings: Settings | None = None,
        segments: Sequence[SegmentEntry] | None = None,
        first_change: int | None = None,
        removed: Sequence[RemovedBefore] | None = None,
        strays: Sequence[SegmentEntry] | None = None,
        identity: str | None = None,
        max_id: int | None = None,
    ) -> State:
        """Replace the settings, the live segments or both, in one transaction; the new state.

        first_change: the changes before it leave the log. removed: what stays of their removals and of those before.
        strays: those that are still to be removed; what segments replaces is added to them. identity: of other content.
        max_id: the largest id that comes with segments. Durable when it returns; to be followed by repeat. Raises
        OSError where the system would not write it; the state is then the old one, unless the very last write failed.
        """
        new = dataclasses.replace(
            old := self._expect_writable(),
            settings=settings or old.settings,
            generation=expect_left("generations", old.generation + 1, MAX_NUMBER),
            first_change=old.first_change if first_change is None else first_change,
            removal_records=old.removal_records if removed is None else len(removed),
            identity=identity or old.identity,
            max_id=max_id if identity else larger(old.max_id, max_id),
        )
        left = old.strays if strays is None else strays
        new = new.with_segments(old.segments if segments is None else segments, left)

        def work(transaction: Transaction) -> None:
            records = self._environment.database(CHANGES, transaction)
            for number in range(old.first_change, new.first_change):
                transaction.delete(changes.key_of(number), db=records)
            if removed is not None:
                database = self._environment.database(REMOVALS, transaction)
                transaction.drop(database, delete=False)
                write_removed(removed, transaction, database)

        return self._commit(new, work, (), removed or ())

    def repeat(self, state: State) -> None:
        """Write a published state again, unless a later one was: damage to one meta page brings back no older one."""
        if self._written is state:
            with contextlib.suppress(OSError, StoreLocked):
                self._write(state, lambda transaction: None, 0)

    def compact(self) -> None:
        """Where most of the file is free, put a file in its place that holds the same and is as large as that takes.

        Who reads sees in the old file that it is to move, and follows. Raises OSError; the catalog is then in the one
        file or in the other, whole.
        """
        old = self._expect_writable()
        names = (None, CHANGES, REMOVALS)
        used, taken = self._environment.run(lambda transaction: self._environment.bytes_used(names, transaction))
        if used < MIN_COMPACTED_BYTES or taken * MOSTLY_FREE > used:
            return
        assert self._writer_lock is not None
        log = self.read()
        removed = log.removed or ()
        generation = expect_left("generations", old.generation + 1, MAX_NUMBER)
        self._commit(dataclasses.replace(old, moving=True))
        new = dataclasses.replace(old, generation=generation, moving=False)

        def fill(make: Any, transaction: Transaction) -> None:
            record = write_whole(new, log.changes, removed, make, transaction)
            self._records = (*(self._records or ()), record)

        self._written = None
        map_bytes = environments.whole_maps(bytes_to_write(new, log.changes, removed))
        try:
            environments.replace(self.folder, self._writer_lock, map_bytes, fill)
        finally:
            if not self._environment.is_at(self.folder, FILE_NAME):
                self._open_anew()

    def close(self) -> None:
        """Give back the environment, the writer's lock and the folders. May be called again, and goes on."""
        self.is_closed = True
        self.watch.end()
        with self.folder, self._segments or contextlib.nullcontext():
            if self._fork == forks.generation:  # after a fork both belong to the parent
                self._give_back()
                if self._writer_lock is not None:
                    self._writer_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "is_closed", True) and self._fork == getattr(forks, "generation", None):  # None at the end
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<Catalog {self._path}>"

    def _expect_usable(self) -> None:
        if self.is_closed:
            raise StoreClosed("the catalog was closed", path=self.folder.path)
        if self._fork != forks.generation:
            raise StoreClosed("opened before a fork, open it again in the child", path=self.folder.path)
        self.expect_unchanged()

    def _expect_writable(self) -> State:
        """What the catalog says, which nobody but this one changes."""
        self._expect_usable()
        if self._writer_lock is None:
            raise ValueError(f"{self.folder.path}: opened for reading, expected writable=True")
        if self._written is None:
            self._written = self.state()
        return self._written

    def _commit(
        self,
        new: State,
        work: Callable[[Transaction], None] = lambda transaction: None,
        records: Sequence[Change] = (),
        removed: Sequence[RemovedBefore] = (),
    ) -> State:
        """Write this state, and with it what work writes; the state."""
        self.expect_here(appending=len(records) > 0)
        self._written = None  # where it fails, the file tells what it came to
        self._write(new, work, bytes_to_write(new, records, removed))
        self._written = new
        return new

    def _write(self, new: State, work: Callable[[Transaction], None], more_bytes: int) -> None:
        def replace(transaction: Transaction) -> None:
            self._expect_mine(transaction.get(KEY) or b"", transaction.id() - 1)
            work(transaction)
            self._replace(new, transaction)

        try:
            self._environment.run(replace, write=True, more_bytes=more_bytes)
        except StoreChanged:
            raise self.changed(ANOTHER_WRITER) from None
        self._records = (self._records or ())[-1:]

    def _expect_mine(self, record: bytes, transaction: int) -> None:
        """StoreChanged unless the state is what this writer left: nobody else writes."""
        if self._records is None or record not in self._records:
            self._decoded(record, transaction)
            raise self.changed(ANOTHER_WRITER)
        self._records = (record,)

    def _replace(self, state: State, transaction: Transaction) -> None:
        record = encode(state, transaction.id())
        self._records = (*(self._records or ()), record)  # where the commit fails, the file may hold this one or not
        transaction.put(KEY, record)

    def _state_of(self, found: Copied) -> State:
        with self._damage_named():
            expect("the number of records", found.entries[0], found.entries[0] == MAIN_RECORDS, f"{MAIN_RECORDS}")
        return self._decoded(found.record, found.transaction)

    def _decoded(self, record: bytes, transaction: int) -> State:
        with self._damage_named():
            self._known = state = decode(record, transaction, self._known)
            return state

    def _copied(self, next_change: int, whole: bool) -> Copied:
        """What the catalog holds, as it is: a writer may wait meanwhile, so it is decoded and checked outside.

        Of the changes those from next_change on; of the removals all, or none.
        """

        def copy(transaction: Transaction) -> Copied:
            places = [self._environment.database(one, transaction) for one in (None, CHANGES, REMOVALS)[: 2 + whole]]
            record = state_record(transaction, self._environment)
            if self._writer_lock is not None:  # in here, for another thread may write
                self._records = self._records or (record,)
                self._expect_mine(record, transaction.id())
            return Copied(
                transaction.id(),
                record,
                [transaction.stat(place)["entries"] for place in places],
                copy_records(transaction, places[1], changes.key_of(next_change)),
                copy_records(transaction, places[2], changes.key_of(0)) if whole else [],
            )

        return self._environment.run(copy)

    def _read_log(self, generation: int, next_change: int) -> Log:
        state = self._state_of(found := self._copied(next_change, whole=generation == 0))
        if generation not in (0, state.generation):
            return self._read_log(0, next_change)
        numbers = range(max(state.first_change, next_change), state.next_change)
        with self._damage_named():
            expected = [MAIN_RECORDS, state.next_change - state.first_change, state.removal_records]
            for name, entries, right in zip(("records", "changes", "removals"), found.entries, expected, strict=False):
                expect(f"the number of {name}", entries, entries == right, f"{right}")
            form = state.settings.log_form
            rows = changes.records_at(numbers, found.changes)
            records = tuple(changes.decode_change(record, number, *form) for number, record in rows)
            removed = None
            if generation == 0:
                rows = changes.records_at(range(state.removal_records), found.removals)
                removed = tuple(changes.decode_removed(block, index, form.width) for index, block in rows)
        return Log(state, records, removed)

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        with Naming(self._path):
            try:
                yield
            except ValueError as error:
                raise CorruptStore.by(error, "") from None
