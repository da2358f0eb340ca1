"""The catalog: what a store is, which segments it has and the log of what came since; all that changes in place.

Settings, live segments and the log change together, in one transaction that is durable when publish or append returns,
or not at all. A reader gets one consistent state, checked whole.
"""

import contextlib
import dataclasses
import errno
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fpstore import forks
from fpstore.checks import expect
from fpstore.disk import sync_folder
from fpstore.errors import CorruptStore, Naming, StoreClosed
from fpstore.living import changes
from fpstore.living import environment as environments
from fpstore.living.changes import Change, RemovedBefore
from fpstore.living.environment import Transaction
from fpstore.living.state import DATABASE, KEY, MAX_NUMBER, Settings, State, decode, encode, expect_left
from fpstore.segment.entry import SegmentEntry

FILE_NAME = "catalog.mdb"
CHANGES = b"changes"
REMOVALS = b"removals"
# What LMDB takes for a record beside its bytes: the rest of its last page, and a node that leads to it.
RECORD_MARGIN = 4096 + 64
# The state takes no more beside its settings, and no more for each segment, as every number has at most 20 digits.
STATE_MARGIN = 512
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
    folder: Path, settings: Settings, segments: tuple[SegmentEntry, ...] = (), log: Log | None = None
) -> None:
    """Make the catalog of a new store in folder, which exists: whole and durable, or not there at all.

    log: another store's, to begin with. Raises FileExistsError if folder has a catalog, StoreLocked while another
    process makes one.
    """
    numbers = {}
    if log is not None:
        numbers = {"first_change": log.state.first_change, "next_change": log.state.next_change}
        numbers["removal_records"] = len(log.removed or ())
    state = _with_segments(State(settings, (), 1, 1, **numbers), segments)
    records = log.changes if log is not None else ()
    removed = (log.removed if log is not None else None) or ()
    path = folder / FILE_NAME
    temporary = folder / f"{FILE_NAME}.new"
    writer_lock = environments.lock_writer(folder)
    try:
        if path.is_symlink() or path.exists():
            raise FileExistsError(errno.EEXIST, "there is a catalog already", str(path))
        # LMDB's own creation can be seen half done; a name that appears with the whole file cannot.
        _remove(temporary)
        environments.create(
            temporary,
            environments.whole_maps(_bytes_to_write(state, records, removed)),
            lambda make, transaction: _create(state, records, removed, make, transaction),
        )
        os.rename(temporary, path)
        sync_folder(folder)
    finally:
        _remove(temporary)
        environments.unlock_writer(writer_lock)


def _remove(temporary: Path) -> None:
    for path in (temporary, temporary.with_name(temporary.name + environments.LMDB_LOCK_SUFFIX)):
        path.unlink(missing_ok=True)


def _create(
    state: State, records: Sequence[Change], removed: Sequence[RemovedBefore], make: Any, transaction: Transaction
) -> None:
    _write(state, transaction, make(DATABASE))
    _write_changes(records, transaction, make(CHANGES))
    _write_removed(removed, transaction, make(REMOVALS))


def _with_segments(state: State, segments: tuple[SegmentEntry, ...]) -> State:
    next_segment = max([state.next_segment, *(entry.number + 1 for entry in segments)])
    return dataclasses.replace(state, segments=tuple(segments), next_segment=next_segment)


def _bytes_to_write(state: State, records: Sequence[Change] = (), removed: Sequence[RemovedBefore] = ()) -> int:
    """The most that a transaction which writes these adds to the file: twice the state, and some pages."""
    words = sum(len(column) for change in records for column in change.columns)
    words += sum(2 * len(block.values) for block in removed)
    beside = (len(records) + len(removed)) * RECORD_MARGIN
    of_state = len(state.settings.text) + STATE_MARGIN * (1 + len(state.segments))
    return 2 * of_state + 8 * words + beside + (128 << 10)


class Catalog:
    """An open catalog. Safe to use from several threads; a context manager; not usable after a fork."""

    def __init__(self, folder: Path, writer_lock: int | None) -> None:
        """Made by open()."""
        self._fork = forks.generation
        self._closed = True
        self._folder = folder
        self._path = folder / FILE_NAME
        self._writer_lock = writer_lock
        self._written: State | None = None
        self._environment = environments.share(self._path)
        self._closed = False

    @classmethod
    def open(cls, folder: Path, writable: bool = False) -> Self:
        """Open the catalog of the store in folder and check it whole.

        writable: as the store's one writer, until closed. Raises FileNotFoundError where there is no folder,
        CorruptStore where it is no store or is damaged, StoreLocked where another process is the writer.
        """
        path = folder / FILE_NAME
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise CorruptStore(f"{folder} is not an fpstore store: it is not a folder")
        environments.expect_plain_file(path)
        if not path.exists():
            raise CorruptStore(f"{folder} is not an fpstore store: it has no {FILE_NAME}")
        with contextlib.ExitStack() as undo:
            writer_lock = None
            if writable:
                writer_lock = environments.lock_writer(folder)
                undo.callback(environments.unlock_writer, writer_lock)
            catalog = cls(folder, writer_lock)
            undo.pop_all()
        with contextlib.ExitStack() as undo:
            undo.callback(catalog.close)
            if writable:
                catalog._environment.free_dead_readers()
            catalog.state()
            undo.pop_all()
        return catalog

    def state(self) -> State:
        """What the catalog says now, from one short transaction. Raises CorruptStore."""
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
        new = old.after(len(records))

        def work(transaction: Transaction) -> State:
            _write_changes(records, transaction, self._environment.database(CHANGES, transaction))
            return self._replace(new, transaction)

        return self._commit(work, _bytes_to_write(new, records))

    def publish(
        self,
        *,
        settings: Settings | None = None,
        segments: tuple[SegmentEntry, ...] | None = None,
        first_change: int | None = None,
        removed: Sequence[RemovedBefore] | None = None,
    ) -> State:
        """Replace the settings, the live segments or both, in one transaction; the new state.

        first_change: the changes before it leave the log. removed: what stays of their removals and of those before.
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
        )
        new = _with_segments(new, old.segments if segments is None else segments)

        def work(transaction: Transaction) -> State:
            records = self._environment.database(CHANGES, transaction)
            for number in range(old.first_change, new.first_change):
                transaction.delete(changes.key_of(number), db=records)
            if removed is not None:
                database = self._environment.database(REMOVALS, transaction)
                transaction.drop(database, delete=False)
                _write_removed(removed, transaction, database)
            return self._replace(new, transaction)

        written = self._commit(work, _bytes_to_write(new, (), removed or ()))
        # Once more, so that both meta pages of the file lead to this state: damage to the newer one then
        # cannot bring back the old state. This one is published already, whatever comes of it.
        with contextlib.suppress(OSError):
            self._environment.run(lambda transaction: self._replace(new, transaction), write=True)
        return written

    def close(self) -> None:
        """Give back the environment and the writer's lock. May be called again."""
        if self._closed:
            return
        self._closed = True
        # After a fork both belong to the parent.
        if self._fork == forks.generation:
            environments.give_back(self._environment)
            if self._writer_lock is not None:
                environments.unlock_writer(self._writer_lock)

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
            raise StoreClosed(f"{self._folder}: the catalog was closed")
        if self._fork != forks.generation:
            raise StoreClosed(f"{self._folder}: opened before a fork, open it again in the child")

    def _expect_writable(self) -> State:
        """What the catalog says, which nobody but this one changes."""
        self._expect_usable()
        if self._writer_lock is None:
            raise ValueError(f"{self._folder}: opened for reading, expected writable=True")
        if self._written is None:
            self._written = self.state()
        return self._written

    def _commit(self, work: Callable[[Transaction], State], more_bytes: int) -> State:
        self._written = None  # where it fails, the file tells what it came to
        self._written = self._environment.run(work, write=True, more_bytes=more_bytes)
        return self._written

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
            return decode(record or b"", transaction.id())

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

    def _replace(self, state: State, transaction: Transaction) -> State:
        return _write(state, transaction, self._environment.database(DATABASE, transaction))


def _write(state: State, transaction: Transaction, database: Any) -> State:
    """Put state into database; the state."""
    transaction.put(KEY, encode(state, transaction.id()), db=database)
    return state


def _write_changes(records: Sequence[Change], transaction: Transaction, database: Any) -> None:
    for change in records:
        transaction.put(changes.key_of(change.number), changes.encode_change(change), db=database)


def _write_removed(removed: Sequence[RemovedBefore], transaction: Transaction, database: Any) -> None:
    for index, block in enumerate(removed):
        transaction.put(changes.key_of(index), changes.encode_removed(block, index), db=database)
