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
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fpstore import forks
from fpstore.checks import expect
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, Naming, NotAStore, StoreChanged, StoreClosed, StoreLocked
from fpstore.living import changes, locks
from fpstore.living import environment as environments
from fpstore.living.changes import Change, RemovedBefore
from fpstore.living.environment import Transaction
from fpstore.living.locks import WriterLock
from fpstore.living.state import DATABASE, KEY, MAX_NUMBER, Settings, State, decode, encode, expect_left, new_identity
from fpstore.segment.entry import SegmentEntry

FILE_NAME = locks.CATALOG_NAME
SEGMENTS = "segments"
CHANGES = b"changes"
REMOVALS = b"removals"
# What LMDB takes for a record beside its bytes: the rest of its last page, and a node that leads to it.
RECORD_MARGIN = 4096 + 64
# The state takes no more beside its settings, and no more for each segment, as every number has at most 20 digits.
STATE_MARGIN = 512
ANOTHER_WRITER = "found the state of another writer, expected what this one left"
# How often a reader looks before it takes something for damage. Four readers with seven times as much work as
# processors were overtaken by two commits once in 3,000 commits.
LOOKS = 4

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Log:
    """What a reader learns in one transaction. changes: in the order of their numbers.

    removed: the removals that are older than the log; None where they are those that the reader has.
    """

    state: State
    changes: tuple[Change, ...]
    removed: tuple[RemovedBefore, ...] | None


def create_catalog(
    at: Path | Folder, settings: Settings, segments: tuple[SegmentEntry, ...] = (), log: Log | None = None
) -> str:
    """Make the catalog of a new store in a folder that is there: whole and durable, or not there at all; its identity.

    log: another store's, to begin with. Raises FileExistsError if there is a catalog, StoreLocked while another
    process makes one.
    """
    with contextlib.nullcontext(at) if isinstance(at, Folder) else Folder.open(at) as folder:
        return _create_in(folder, settings, segments, log)


def _create_in(folder: Folder, settings: Settings, segments: tuple[SegmentEntry, ...], log: Log | None) -> str:
    identity = new_identity()
    state = State(settings, (), 1, 1, identity=identity, origin=identity)
    if log is not None:
        state = dataclasses.replace(
            state,
            first_change=log.state.first_change,
            next_change=log.state.next_change,
            removal_records=len(log.removed or ()),
        )
    state = _with_segments(state, segments)
    records = log.changes if log is not None else ()
    removed = (log.removed if log is not None else None) or ()
    with contextlib.ExitStack() as undo:
        writer_lock = locks.lock_writer(folder)
        undo.callback(writer_lock.release)
        if folder.identity_of(FILE_NAME) is not None:
            raise FileExistsError(errno.EEXIST, "there is a catalog already", str(folder.path / FILE_NAME))
        # LMDB's own creation can be seen half done; a name that appears with the whole file cannot.
        environments.replace(
            folder,
            writer_lock,
            environments.whole_maps(_bytes_to_write(state, records, removed)),
            lambda make, transaction: _create(state, records, removed, make, transaction),
        )
    return identity


def _create(
    state: State, records: Sequence[Change], removed: Sequence[RemovedBefore], make: Any, transaction: Transaction
) -> None:
    transaction.put(KEY, encode(state, transaction.id()), db=make(DATABASE))
    _write_changes(records, transaction, make(CHANGES))
    _write_removed(removed, transaction, make(REMOVALS))


def _with_segments(state: State, segments: Sequence[SegmentEntry], strays: Sequence[SegmentEntry] = ()) -> State:
    """This state with these live segments, and as strays those of before and of strays which are not among them."""
    live = {entry.name for entry in segments}
    left = tuple(entry for entry in (*strays, *state.segments) if entry.name not in live)
    next_segment = max([state.next_segment, *(entry.number + 1 for entry in (*segments, *left))])
    return dataclasses.replace(state, segments=tuple(segments), strays=left, next_segment=next_segment)


def _bytes_to_write(state: State, records: Sequence[Change] = (), removed: Sequence[RemovedBefore] = ()) -> int:
    """The most that a transaction which writes these adds to the file: twice the state, and some pages."""
    words = sum(len(column) for change in records for column in change.columns)
    words += sum(2 * len(block.values) for block in removed)
    beside = (len(records) + len(removed)) * RECORD_MARGIN
    of_state = len(state.settings.text) + STATE_MARGIN * (1 + len(state.segments) + len(state.strays))
    return 2 * of_state + 8 * words + beside + (128 << 10)


def _folder_of_store(path: Path) -> Folder:
    """The folder at path, which has a catalog. FileNotFoundError, NotAStore; CorruptStore where that is gone."""
    try:
        folder = Folder.open(path)
    except NotADirectoryError:
        raise NotAStore("found a file, expected the folder of a store", path=path.absolute()) from None
    with contextlib.ExitStack() as undo:
        undo.enter_context(folder)
        if folder.identity_of(FILE_NAME) is None:
            if folder.identity_of(SEGMENTS) is not None:
                raise CorruptStore(f"found no {FILE_NAME}, expected it beside {SEGMENTS}", path=folder.path)
            raise NotAStore(f"found no {FILE_NAME}, expected a folder that fpstore made", path=folder.path)
        os.close(folder.open_file(FILE_NAME))  # CorruptStore for what is no file
        undo.pop_all()
    return folder


class Catalog:
    """An open catalog. Safe to use from several threads; a context manager; not usable after a fork.

    folder: the store's, held open; what lies under its path later need not be this store.
    """

    def __init__(self, folder: Folder, writer_lock: WriterLock | None) -> None:
        """Made by open()."""
        self._fork = forks.generation
        self._closed = True
        self.folder = folder
        self._path = folder.path / FILE_NAME
        self._segments: Folder | None = None
        self._writer_lock = writer_lock
        self._written: State | None = None
        # Of a writer: the records one of which the file must hold, as nobody else writes; None until it was read.
        self._records: tuple[bytes, ...] | None = None
        self._changed: str | None = None
        self._environment = environments.share(folder, FILE_NAME)
        self._closed = False

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
                raise CorruptStore("missing, expected the folder of the segments", path=missing) from None
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
        """StoreChanged, from then on at every use, unless the store's path still leads to the files that this has.

        appending: where nothing but the catalog is to change, it is enough that the path leads to that.
        """
        self.expect_unchanged()
        if self._writer_lock is None:
            if (how := self._difference()) is not None:
                raise self.changed(how)
            return
        try:
            self._writer_lock.check_catalog() if appending else self._writer_lock.check()
        except StoreChanged:
            lock = f"found another {locks.WRITER_LOCK_NAME} or none, expected the one that this writer has locked"
            raise self.changed(self._difference() or lock) from None

    def _difference(self) -> str | None:
        """How what lies under the path differs from what this has open, if it does."""
        if not self.folder.is_at(self.folder.path):
            there = "another folder" if os.path.lexists(self.folder.path) else "nothing"
            return f"found {there}, expected the folder that was opened there"
        if not self._environment.is_at(self.folder, FILE_NAME):
            return f"found another {FILE_NAME} or none, expected the one that was opened there"
        return None

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
        self._changed = f"{how}; {'nothing was written there; ' * (self._writer_lock is not None)}open the store again"
        return StoreChanged(self._changed, path=self.folder.path)

    # --- What it says ---

    def state(self) -> State:
        """What the catalog says now, from one short transaction. Raises CorruptStore, StoreChanged."""
        self._expect_usable()
        return self._look(self._read)

    def stamp(self) -> tuple[int, int] | None:
        """A value that differs whenever the catalog does, read without a system call; None where it was cut short."""
        self._expect_usable()
        return self._environment.stamp()

    def read(self, generation: int = 0, next_change: int = 1) -> Log:
        """The state and what leads to it, from one short transaction. Raises CorruptStore.

        generation, next_change: those of the state that the caller has; changes before that one are not read again.
        """
        self._expect_usable()
        return self._look(lambda transaction: self._read_log(transaction, generation, next_change))

    def append(self, records: Sequence[Change]) -> State:
        """Add changes to the log, numbered from next_change on, in one transaction; the new state.

        Durable when it returns. Raises OSError as publish does.
        """
        old = self._expect_writable()
        numbers = [change.number for change in records]
        expect("the numbers", numbers, numbers == [old.next_change + i for i in range(len(numbers))], "the next ones")

        def work(transaction: Transaction) -> None:
            _write_changes(records, transaction, self._environment.database(CHANGES, transaction))

        return self._commit(old.after(len(records)), work, records)

    def announce(self, entry: SegmentEntry) -> State:
        """Say that a file which is about to be called that is this store's, to keep or to remove; the new state."""
        old = self._expect_writable()
        return self._commit(_with_segments(old, old.segments, (*old.strays, entry)))

    def publish(
        self,
        *,
        settings: Settings | None = None,
        segments: Sequence[SegmentEntry] | None = None,
        first_change: int | None = None,
        removed: Sequence[RemovedBefore] | None = None,
        strays: Sequence[SegmentEntry] | None = None,
        identity: str | None = None,
    ) -> State:
        """Replace the settings, the live segments or both, in one transaction; the new state.

        first_change: the changes before it leave the log. removed: what stays of their removals and of those before.
        strays: those that are still to be removed; what segments replaces is added to them. identity: of other content.
        Durable when it returns. Raises OSError where the system would not write it, ENOSPC for a full disk; the
        state is then the old one, unless the very last write failed: state() tells.
        """
        old = self._expect_writable()

        new = dataclasses.replace(
            old,
            settings=settings or old.settings,
            generation=expect_left("generations", old.generation + 1, MAX_NUMBER),
            first_change=old.first_change if first_change is None else first_change,
            removal_records=old.removal_records if removed is None else len(removed),
            identity=identity or old.identity,
        )
        left = old.strays if strays is None else strays
        new = _with_segments(new, old.segments if segments is None else segments, left)

        def work(transaction: Transaction) -> None:
            records = self._environment.database(CHANGES, transaction)
            for number in range(old.first_change, new.first_change):
                transaction.delete(changes.key_of(number), db=records)
            if removed is not None:
                database = self._environment.database(REMOVALS, transaction)
                transaction.drop(database, delete=False)
                _write_removed(removed, transaction, database)

        written = self._commit(new, work, (), removed or ())
        # Once more, so that both meta pages of the file lead to this state: damage to the newer one then
        # cannot bring back the old state. This one is published already, whatever comes of it.
        with contextlib.suppress(OSError, StoreLocked):
            self._write(new, lambda transaction: None, 0)
        return written

    def close(self) -> None:
        """Give back the environment, the writer's lock and the folders. May be called again."""
        if self._closed:
            return
        self._closed = True
        with self.folder, self._segments or contextlib.nullcontext():
            # After a fork both belong to the parent.
            if self._fork == forks.generation:
                environments.give_back(self._environment)
                if self._writer_lock is not None:
                    self._writer_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._fork == forks.generation:
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<Catalog {self._path}>"

    def _expect_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.folder.path}: the catalog was closed")
        if self._fork != forks.generation:
            raise StoreClosed(f"{self.folder.path}: opened before a fork, open it again in the child")
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
        self._write(new, work, _bytes_to_write(new, records, removed))
        self._written = new
        return new

    def _write(self, new: State, work: Callable[[Transaction], None], more_bytes: int) -> None:
        def replace(transaction: Transaction) -> None:
            self._expect_mine(transaction)
            work(transaction)
            self._replace(new, transaction)

        try:
            self._environment.run(replace, write=True, more_bytes=more_bytes)
        except StoreChanged:
            raise self.changed(ANOTHER_WRITER) from None
        self._records = (self._records or ())[-1:]

    def _expect_mine(self, transaction: Transaction) -> None:
        """StoreChanged unless the state is what this writer left: nobody else writes."""
        found = transaction.get(KEY, db=self._environment.database(DATABASE, transaction)) or b""
        if self._records is None or found not in self._records:
            self._decoded(found, transaction.id() - 1)
            raise self.changed(ANOTHER_WRITER)
        self._records = (found,)

    def _replace(self, state: State, transaction: Transaction) -> None:
        record = encode(state, transaction.id())
        self._records = (*(self._records or ()), record)  # where the commit fails, the file may hold this one or not
        transaction.put(KEY, record, db=self._environment.database(DATABASE, transaction))

    def _look(self, work: Callable[[Transaction], T]) -> T:
        """What work reads. A reader of LMDB takes a transaction's number first and what it leads to a moment later.

        Where two commits come in between, that is a newer state than the number says: XX.
        """
        for _ in range(LOOKS - 1):
            with contextlib.suppress(CorruptStore):
                return self._environment.run(work)
        return self._environment.run(work)

    def _read(self, transaction: Transaction) -> State:
        database = self._environment.database(DATABASE, transaction)
        record = transaction.get(KEY, db=database)
        entries = transaction.stat(database)["entries"]
        with self._damage_named():
            expect("the number of records", entries, entries == 1, "1")
        state = self._decoded(record or b"", transaction.id())
        if self._writer_lock is not None:
            if self._records is not None and record not in self._records:
                raise self.changed(ANOTHER_WRITER)
            self._records = (record or b"",)
        return state

    def _decoded(self, record: bytes, transaction: int) -> State:
        with self._damage_named():
            return decode(record, transaction)

    def _read_log(self, transaction: Transaction, generation: int, next_change: int) -> Log:
        state = self._read(transaction)
        with_ids = state.settings.ids
        removed = None
        with self._damage_named():
            database = self._database(CHANGES, transaction, state.next_change - state.first_change)
            numbers = range(max(state.first_change, next_change), state.next_change)
            found = [(number, transaction.get(changes.key_of(number), db=database)) for number in numbers]
            records = tuple(changes.decode_change(record or b"", number, with_ids) for number, record in found)
            if generation != state.generation:
                database = self._database(REMOVALS, transaction, state.removal_records)
                blocks = [transaction.get(changes.key_of(i), db=database) for i in range(state.removal_records)]
                removed = tuple(changes.decode_removed(block or b"", index) for index, block in enumerate(blocks))
        return Log(state, records, removed)

    def _database(self, name: bytes, transaction: Transaction, entries: int) -> Any:
        """A database that holds so many records, as the state says."""
        database = self._environment.database(name, transaction)
        found = transaction.stat(database)["entries"]
        expect(f"the number of {name.decode()}", found, found == entries, f"{entries}")
        return database

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        with Naming(self._path):
            try:
                yield
            except ValueError as error:
                raise CorruptStore(str(error)) from None


def _write_changes(records: Sequence[Change], transaction: Transaction, database: Any) -> None:
    for change in records:
        transaction.put(changes.key_of(change.number), changes.encode_change(change), db=database)


def _write_removed(removed: Sequence[RemovedBefore], transaction: Transaction, database: Any) -> None:
    for index, block in enumerate(removed):
        transaction.put(changes.key_of(index), changes.encode_removed(block, index), db=database)
