"""Owns the store that a job writes to: one of its own, or a standing one that keeps what many jobs have kept.

The ids of a standing store that dedup makes are the names of the documents. While a job is not finished a record of
what it stored lies in the store's folder, and a note which says which job that is and what was there before. So a job
that never ended can be undone, by exactly what it stored. To a store of signatures under names it adds when it ends.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import fpstore
from fpstore import Store, later, notes
from fpstore.disk import Folder
from fpstore.errors import Error, JobError, StoreChanged
from fpstore.jobs.files import AppendFile, files_of_jobs
from fpstore.jobs.held import KEPT, HeldRows, opened_rows
from fpstore.jobs.journal import Job
from fpstore.jobs.naming import ConfirmedRows, NamedRows
from fpstore.jobs.own import OwnKeys, fits_memory
from fpstore.jobs.scratch import scratch_store
from fpstore.jobs.settings import Settings
from fpstore.jobs.signed import OwnRows, create_store, own_bytes
from fpstore.jobs.spool import KeptLines, Spool
from fpstore.ledger import VOTES, read_settings
from fpstore.minhash import MinHashStore
from fpstore.minhash.leading import MEMORY_BITS
from fpstore.minhash.making import open_any
from fpstore.notes import FIRST_NUMBER, JOBS, Asker, Note, stored_since, subfolder
from fpstore.types import Ids, IdType, Keys

# The kinds of clusters that a standing store can have.
LEADERS, CENTERS = "leaders", "centers"

_LAST_ID = (1 << 64) - 1
_OWN_STORE = "store"
_OWN_NAMES = "documents"
_OWN_SIGNED = "signed"
AnyStore = Store | MinHashStore


@dataclass(frozen=True)
class Workplace:
    """The store and the spool of a job, opened for writing; next_id: the first number that is free.

    store: what stands for it where the job has none but its own. rows: the store by numbers, where its ids are names.
    signed: signatures of the job's own, which are looked for in place of the store's, or beside them.
    """

    store: AnyStore | OwnKeys
    spool: Spool
    next_id: int
    rows: NamedRows | HeldRows | None = None
    signed: OwnRows | HeldRows | None = None

    @property
    def first_number(self) -> int:
        """The least number of a document that a job keeps."""
        return 0 if self.rows is None else FIRST_NUMBER

    def fingerprints(self, batch: int) -> Iterator[tuple[Ids, Keys]]:
        """Number and fingerprint of each document of a store of them, some at a time."""
        if isinstance(self.rows, ConfirmedRows):
            yield from self.rows.rows(batch)
            return
        assert isinstance(self.store, Store)
        for rows in self.store.rows(batch=batch):
            yield np.empty(0, dtype=np.uint64) if rows.id is None else rows.id, rows.fingerprint

    @property
    def is_own(self) -> bool:
        """Whether the job adds to no standing store."""
        return isinstance(self.store, OwnKeys) or isinstance(self.signed, OwnRows)

    @property
    def is_full(self) -> bool:
        """Whether settle moves what is in memory to a store."""
        return (own := self._own) is not None and own.is_full

    def settle(self) -> None:
        """What was decided so far was committed."""
        if (own := self._own) is not None:
            own.settle()

    def sync(self) -> None:
        """What was kept is on the disk when this returns."""
        if self.signed is not None:
            self.spool.sync()
            self.signed.sync()
        else:
            self.store.sync()  # and the spool before it

    def state(self) -> dict[str, Any]:
        """What the journal has to hold of it, beside the next number."""
        spilled = {} if (own := self._own) is None else {"spilled": own.spilled}
        return {"spool": self.spool.count, "store": self.store.identity, **spilled}

    @property
    def _own(self) -> OwnKeys | OwnRows | HeldRows | None:
        """What the job has in memory, and in a store where that is much."""
        return self.store if isinstance(self.store, OwnKeys) else self.signed

    def names(self, ids: Ids) -> Sequence[str]:
        """What kept documents are called: where ids are numbers those of others than this record's by their ids."""
        if self.rows is not None:
            return self.rows.names(ids)
        packed = self.spool.packed_names(ids)
        if packed is not None:
            return packed
        found = zip(ids.tolist(), self.spool.names(ids), strict=True)
        return [f"{self.store.path}#{document_id}" if name is None else name for document_id, name in found]

    def names_later(self, ids: Ids) -> Callable[[], Sequence[str]]:
        """What gives the names of documents that are kept by now, at any time and by any thread."""
        read = self.spool.names_later(ids) if self.rows is None else None
        return partial(list, self.names(ids)) if read is None else read


@contextmanager
def own_workplace(
    job: Job, settings: Settings, *, texts: bool, threads: int = 1, lines: KeptLines | None = None
) -> Iterator[Workplace]:
    """A store of the job's own, or what stands for it, as it was at the last commit. lines: as of Spool."""
    if fits_memory(settings) and (job.state is None or "spilled" in job.state):
        with _own_keys(job, settings, texts=texts, threads=threads, lines=lines) as workplace:
            yield workplace
        return
    if job.state is None:
        _create(job.work / _OWN_STORE, settings, "uint64", MEMORY_BITS)
    count, next_id = (job.state["spool"], job.state["next_id"]) if job.state else (0, 0)
    with (
        _opened(job.work / _OWN_STORE, job, settings, is_new=job.state is None) as (store, spools),
        ExitStack() as stack,
    ):
        folder = job.subfolder(_OWN_NAMES)
        signed: OwnRows | None = None
        if isinstance(store, MinHashStore):
            file = stack.enter_context(closing(AppendFile(job.work_folder, _OWN_SIGNED, next_id * own_bytes(store))))
            signed = OwnRows(store, file, (job.state or {}).get("spilled", 0))
        elif job.state:
            _take_back(store, folder, count, next_id)
        spool = spools.add(Spool(folder, texts=texts, count=count, words=settings.words, lines=lines))
        yield Workplace(store, spool, next_id, signed=signed)


@contextmanager
def _own_keys(
    job: Job, settings: Settings, *, texts: bool, threads: int, lines: KeptLines | None
) -> Iterator[Workplace]:
    """Fingerprints of the job's own in memory, as they were at the last commit."""
    state = job.state or {"spool": 0, "next_id": 0, "spilled": 0}
    path = job.work / _OWN_STORE
    with ExitStack() as stack:
        folder = job.subfolder(_OWN_NAMES)
        spool = stack.enter_context(closing(Spool(folder, texts=texts, count=state["spool"], lines=lines)))

        def opened() -> Store:
            if not state["spilled"]:
                shutil.rmtree(path, ignore_errors=True)
                _create(path, settings, "uint64")
            store, _ = stack.enter_context(_opened(path, job, settings, is_new=not state["spilled"]))
            assert isinstance(store, Store)
            return store

        own = OwnKeys(path, spool, settings, state["spilled"], opened, threads)
        yield Workplace(own, spool, state["next_id"])


@contextmanager
def standing_workplace(
    path: Path, job: Job, settings: Settings, *, texts: bool, clusters: str | None = None, threads: int = 1
) -> Iterator[Workplace]:
    """The standing store at path, as it was at the last commit; made where there is none and the job begins.

    texts: whether the texts of the kept documents are needed. clusters: LEADERS or CENTERS where the job is about them:
    under names they are told by the record alone, which stays, with texts.
    Raises JobError where it lacks some, and where it is not as this job left it: another store, or one that another job
    has written to; ValueError for a store of clusters where the job is not about them, and the other way round.
    """
    named = settings.named
    is_made = job.state is None and not os.path.lexists(path)
    if is_made:
        try:
            _create(path, settings, "string" if named else "uint64")
        except FileExistsError:
            raise _made_meanwhile(path) from None
    with (
        _opened(path, job, settings, is_new=job.state is None) as (store, spools),
        Folder.open(path) as home,
        ExitStack() as stack,
    ):
        if job.state is None and not is_made and store.identity != settings.store:
            raise _made_meanwhile(path)  # by settings that nobody has compared
        if named is not store._settings.named:
            raise JobError("found other ids than a moment ago: replaced meanwhile?", path=path)
        with files_of_jobs():
            folder = notes.open_record(home, store.identity) or subfolder(home, JOBS)
        if job.state is None:
            notes.take_next_votes(folder)
            try:
                notes.clear_record(folder, named=named)
                _expect_kind(path, store, folder, clusters)
            except BaseException:
                folder.close()
                raise
            spool = spools.add(
                Spool(folder, texts=texts, store=store.identity, clusters=clusters, words=settings.words)
            )
            first_id = next_id = FIRST_NUMBER + spool.count if named else _next_id(store, spool)
        else:
            note = notes.read_note(home)
            if note is None:  # one of another job is refused, or undone, before this
                raise JobError(
                    f"used by another job since {job.folder} was interrupted; --force begins again", path=path
                )
            count, next_id, first_id = job.state["spool"], job.state["next_id"], note.first_id
            _take_back(store, folder, count, next_id)
            spool = spools.add(Spool(folder, texts=texts, count=count, words=settings.words))
            if count > note.documents and not _is_held(store):
                _expect_last(store, spool)
        rows: NamedRows | HeldRows | None = None
        if named and texts and isinstance(store, Store):
            scratch = stack.enter_context(scratch_store(job, _OWN_STORE, settings.max_distance, settings.recipe.bits))
            rows = ConfirmedRows(store, spool, scratch)
        elif named and isinstance(store, Store):
            rows = NamedRows(store, spool)
        elif named and isinstance(store, MinHashStore):
            held = opened_rows(store, job, settings, spool, first_id, texts=texts, threads=threads)
            rows = stack.enter_context(held)
        elif texts and job.state is None:
            _expect_texts(path, store, spool)
        if job.state is None and rows is not None and rows.lacking:
            if clusters is None:
                _refuse_lacking(path, rows.lacking)
            _refuse_strays(path, rows.lacking, of_clusters=True)
        workplace = Workplace(store, spool, next_id, rows, rows if isinstance(rows, HeldRows) else None)
        if job.state is not None:
            yield workplace
            return
        spool.sync()
        begun = spool.count
        notes.write_note(home, Note(store.identity, job.id, str(job.folder), begun, next_id))
        try:
            yield workplace
        except BaseException:
            if job.state is None:  # nothing of it was committed, so it leaves nothing
                with suppress(Error, OSError):  # or whoever writes next undoes it
                    _take_back(store, folder, begun, next_id)
                    notes.cut_back(folder, begun)
                    notes.remove_note(home)
                    notes.clear_record(folder, named=named)
                    if is_made and not store.count():
                        _discard(path)
                        store.close()
            raise


def _made_meanwhile(path: Path) -> StoreChanged:
    told = "found a store that another process has made since this job began, expected what was there then"
    return StoreChanged(f"{told}; run it again", path=path)


def _expect_kind(path: Path, store: AnyStore, record: Folder, clusters: str | None) -> None:
    """Refuse a store of clusters for what is not about them, and for clusters one with rows that are no cluster's."""
    settings = read_settings(record) or {}
    named = store._settings.named
    with files_of_jobs():
        known = notes.document_count(record) if named else notes.next_number(record)
    if clusters != CENTERS and record.identity_of(VOTES) is not None:
        expected = "one without: only cluster --update-center goes on with them"
        raise ValueError(f"{path}: found a store of clusters with moving centers, expected {expected}")
    if clusters is None and settings.get("clusters") and known:
        raise ValueError(f"{path}: found a store of clusters, expected one without: only cluster goes on with them")
    if clusters != LEADERS:  # of moving centers the votes tell
        return
    strays = known if not settings.get("clusters") else 0
    if strays and named:
        _refuse_strays(path, strays, of_clusters=False)
    if named:  # of whose rows it is looked at later whether the record has them
        return
    seen = np.zeros(known, dtype=bool)
    for rows in store.rows():
        ids = np.empty(0, dtype=np.uint64) if rows.id is None else rows.id
        own = np.unique(ids[ids < np.uint64(known)]).astype(np.int64)
        strays += len(ids) - len(own) + int(seen[own].sum())
        seen[own] = True
    if strays:
        _refuse_strays(path, strays, of_clusters=bool(settings.get("clusters")))


def _refuse_strays(path: Path, strays: int, *, of_clusters: bool) -> NoReturn:
    told = f"found {strays} rows or numbers that no job with cluster gave, expected none"
    way = "take what was added out again (fpstore remove), or begin" if of_clusters else "begin"
    raise ValueError(f"{path}: {told}: the rows are the first documents of clusters; {way} with a new store")


def _discard(path: Path) -> None:
    """Remove an empty store that this job has made, and nobody else can write to now."""
    hidden = path.with_name(
        f".{path.name}.building-{secrets.token_hex(4)}"
    )  # what is left of it, the next build sweeps
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def release(path: Path, job: Job, votes: str | None = None) -> None:
    """The job is finished: what it has put into the standing store stays. JobError where that is not there.

    votes: the file of them in the job's own folder, which count from then on.
    """
    expected = (job.state or {}).get("store")
    try:
        with open_any(path) as store:
            found = f"store {store.identity}" if store.identity != expected else None
            shape = (store._settings.bands, store._settings.words) if _is_held(store) else None
    except (FileNotFoundError, fpstore.NotAStore):
        found = "no store"
    if found is not None:
        told = f"found {found}, expected store {expected}, to which the job {job.folder} has added"
        raise JobError(f"{told}; --force begins again", path=path)
    with Folder.open(path) as home:
        note = notes.read_note(home)
        if note is not None and note.job == job.id:
            if votes is not None:
                with (
                    home.inside(JOBS) as record,
                    Folder.open(job.work) as work,
                    os.fdopen(work.open_file(votes), "rb") as file,
                ):
                    notes.put_next_votes(record, file)
            if shape is not None:
                with home.inside(JOBS) as record, open(job.work / KEPT, "rb") as file:
                    later.put_later(record, note.documents, shape, file)
            notes.remove_note(home)
            note = None
        if note is None and votes is not None:
            with home.inside(JOBS) as record:
                notes.take_next_votes(record)
    if note is None and shape is not None:
        _complete(path)
    if note is None:
        # As the writer, so that no other job begins meanwhile; where that fails the next job clears it.
        with (
            suppress(Error, OSError),
            open_any(path, "w") as store,
            Folder.open(path) as home,
            home.inside(JOBS) as record,
        ):
            notes.clear_record(record, named=store._settings.named)


def _complete(path: Path) -> None:
    """Store what a job has kept that has ended, unless somebody else writes there, who did."""
    with suppress(fpstore.StoreLocked), open_any(path, "w"):
        pass


def _is_held(store: AnyStore) -> bool:
    """Whether a job stores what it keeps when it has ended."""
    return isinstance(store, MinHashStore) and store._settings.named


def _create(path: Path, settings: Settings, id_type: IdType, bits: int | None = None) -> None:
    """Make an empty store, for what the job keeps. bits: of a key of a band."""
    if settings.signs:
        create_store(path, settings, bits, id_type)
    else:
        fpstore.create(path, id_type=id_type, max_distance=settings.max_distance, recipe=settings.recipe).close()


class _Spools:
    """The spool of a workplace, once that is open: durable before what it tells of is stored."""

    def __init__(self) -> None:
        self._spool: Spool | None = None

    def add(self, spool: Spool) -> Spool:
        self._spool = spool
        return spool

    def sync(self) -> None:
        if self._spool is not None:
            self._spool.sync()

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()


@contextmanager
def _opened(path: Path, job: Job, settings: Settings, *, is_new: bool) -> Iterator[tuple[AnyStore, _Spools]]:
    """The store at path, for writing by this job. JobError for another than the one that the job has added to.

    is_new: whether it has added nothing there.
    """
    with ExitStack() as stack:
        spools = stack.enter_context(closing(_Spools()))  # until the store is closed, which may still write
        asker = Asker(job.id, str(job.folder))
        kind: type[Any] = MinHashStore if settings.signs else Store
        try:
            store = stack.enter_context(job.hold(kind(path, "w", "batch", job=asker, before_commit=spools.sync)))
        except (FileNotFoundError, fpstore.NotAStore) as error:
            if is_new and isinstance(error, FileNotFoundError):
                told = "found no store, expected the one that was there when this job began; run it again"
                raise StoreChanged(told, path=path) from None
            if is_new:
                raise
            told = f"found no store, expected the one that the interrupted job {job.folder} adds to"
            raise JobError(f"{told}; --force begins again", path=path) from None
        if not is_new and job.state and store.identity != job.state["store"]:
            told = f"found store {store.identity}, expected store {job.state['store']}"
            raise JobError(f"{told}, which the interrupted job {job.folder} adds to; --force begins again", path=path)
        yield store, spools


def _take_back(store: AnyStore, record: Folder, count: int, next_id: int) -> None:
    """Remove what was stored after the last commit: part of a batch at most."""
    for keys, ids in stored_since(record, count, next_id, named=store._settings.named):
        if _is_held(store):
            continue
        if isinstance(store, MinHashStore):
            store.remove(ids=ids)
            continue
        names = [each.decode("utf-8", "replace") for each in ids] if isinstance(ids, list) else ids
        store.remove(fingerprints=keys, ids=names)


def _expect_last(store: AnyStore, spool: Spool) -> None:
    """Refuse a store that lacks what the job stored last: the catalog is of an earlier moment."""
    number, key, name = spool.last()
    own = name if store._settings.named else number
    there = (
        store.lookup(np.array([number], dtype=np.uint64))
        if isinstance(store, MinHashStore)
        else store.probe(key, max_distance=0)
    )
    if own not in [each.id for each in there]:
        told = f"lacks document {own!r}, which the interrupted job stored last: of another moment?"
        raise JobError(f"{told}; --force begins again", path=store.path)


def _next_id(store: AnyStore, spool: Spool) -> int:
    """The number after the largest that there is, or that a job gave; reads all ids of the store."""
    largest = max((int(rows.id.max()) for rows in store.rows() if rows.id is not None), default=-1)
    largest = max(largest, spool.next_id - 1)
    if largest == _LAST_ID:
        raise ValueError(f"{store.path}: found the largest id there is in the store, expected room for more")
    return largest + 1


def _expect_texts(path: Path, store: AnyStore, spool: Spool) -> None:
    """Refuse a store with documents whose texts are not in the spool, as no match with them can be confirmed."""
    lacking = 0
    for rows in store.rows():
        if rows.id is not None:
            lacking += int((~spool.holds(rows.id)).sum())
    if lacking:
        _refuse_lacking(path, lacking)


def _refuse_lacking(path: Path, lacking: int) -> None:
    found = f"{lacking} documents without their texts"
    expected = "expected those that jobs with --confirm kept, or --confirm none"
    raise JobError(f"found {found}, which --confirm cannot check; {expected}", path=path)
