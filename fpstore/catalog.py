"""The catalog: what a store is and which segments it has, the only thing about it that changes in place.

Settings and live segments change together, in one transaction that is durable when publish returns, or not at
all. A reader gets one consistent state, checked whole.
"""

import contextlib
import dataclasses
import errno
import os
import stat
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fpstore import environment as environments
from fpstore.environment import Transaction
from fpstore.errors import CorruptStore, StoreClosed, UnsupportedVersion
from fpstore.segment import sync_folder
from fpstore.state import DATABASE, KEY, SegmentEntry, Settings, State, decode, encode, expect

__all__ = ["Catalog", "SegmentEntry", "Settings", "State", "create_catalog"]

FILE_NAME = "catalog.mdb"


def create_catalog(folder: Path, settings: Settings, segments: tuple[SegmentEntry, ...] = ()) -> None:
    """Make the catalog of a new store in folder, which exists: whole and durable, or not there at all.

    Raises FileExistsError if folder has a catalog, StoreLocked while another process makes one.
    """
    state = _with_segments(State(settings, (), 1, 1), segments)
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
            environments.whole_maps(_bytes_to_write(state)),
            lambda make, transaction: _write(state, transaction, make(DATABASE)),
        )
        os.rename(temporary, path)
        sync_folder(folder)
    finally:
        _remove(temporary)
        environments.unlock_writer(writer_lock)


def _remove(temporary: Path) -> None:
    for path in (temporary, temporary.with_name(temporary.name + environments.LMDB_LOCK_SUFFIX)):
        path.unlink(missing_ok=True)


def _with_segments(state: State, segments: tuple[SegmentEntry, ...]) -> State:
    next_segment = max([state.next_segment, *(entry.number + 1 for entry in segments)])
    return dataclasses.replace(state, segments=tuple(segments), next_segment=next_segment)


def _bytes_to_write(state: State) -> int:
    """At most how much a transaction adds to the file that writes state: twice its record, and some pages."""
    return 2 * len(encode(state, 0)) + (128 << 10)


class Catalog:
    """An open catalog. Safe to use from several threads; a context manager; not usable after a fork."""

    def __init__(self, folder: Path, writer_lock: int | None) -> None:
        """For open, which see."""
        self._pid = os.getpid()
        self._closed = True
        self._folder = folder
        self._path = folder / FILE_NAME
        self._writer_lock = writer_lock
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
        return self._environment.run(self._read)

    def publish(self, *, settings: Settings | None = None, segments: tuple[SegmentEntry, ...] | None = None) -> State:
        """Replace the settings, the live segments or both, in one transaction; the new state.

        Durable when it returns. Raises OSError where the system would not write it, ENOSPC for a full disk; the
        state is then the old one, unless the very last write failed: state() tells.
        """
        self._expect_usable()
        if self._writer_lock is None:
            raise ValueError(f"{self._folder}: opened for reading, expected writable=True")
        old = self.state()
        new = dataclasses.replace(old, settings=settings or old.settings, generation=old.generation + 1)
        new = _with_segments(new, old.segments if segments is None else segments)
        self._environment.reserve(_bytes_to_write(new))
        written = self._environment.run(lambda transaction: self._replace(new, transaction), write=True)
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
        if self._pid == os.getpid():
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
        if not getattr(self, "_closed", True) and self._pid == os.getpid():
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<Catalog {self._path}>"

    def _expect_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self._folder}: the catalog was closed")
        if self._pid != os.getpid():
            raise StoreClosed(f"{self._folder}: opened before a fork, open it again in the child")

    def _read(self, transaction: Transaction) -> State:
        database = self._environment.database(DATABASE, transaction)
        record = transaction.get(KEY, db=database)
        entries = transaction.stat(database)["entries"]
        try:
            expect("the number of records", entries, entries == 1, "1")
            return decode(record or b"", transaction.id())
        except ValueError as error:
            raise CorruptStore(f"{self._path}: {error}") from None
        except UnsupportedVersion as error:
            raise UnsupportedVersion(f"{self._path}: {error}") from None

    def _replace(self, state: State, transaction: Transaction) -> State:
        return _write(state, transaction, self._environment.database(DATABASE, transaction))


def _write(state: State, transaction: Transaction, database: Any) -> State:
    """Put state into database; the state as it will be read."""
    record = encode(state, transaction.id())
    transaction.put(KEY, record, db=database)
    return decode(record, transaction.id())
