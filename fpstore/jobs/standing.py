"""Owns the store that a job writes to: one of its own, or a standing one that keeps what many jobs have kept.

Beside a standing store STORE stands STORE.documents, the spool of what was kept, and in it, while a job is at work, a
note of which job that is and of what was there before. So a job that never ended can be undone.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore import Store
from fpstore.disk import sync_folder
from fpstore.jobs.corpus import BATCH_DOCUMENTS
from fpstore.jobs.journal import Job, JobError, has_journal, write_durably
from fpstore.jobs.spool import Spool
from fpstore.text import DEFAULT, Recipe
from fpstore.types import Ids

_NOTE = "unfinished.json"
_LAST_ID = (1 << 64) - 1
DEFAULT_K = 3


@dataclass(frozen=True)
class Settings:
    """What a store and a job with it agree on."""

    recipe: Recipe
    k: int


def settle_settings(store: Path | None, recipe: Recipe | None, k: int | None) -> Settings:
    """The recipe and k of a job: those given, else those of the standing store, else the defaults.

    Raises ValueError where the store has another recipe or none, a smaller k, or no ids.
    """
    if store is None or not store.exists():
        return Settings(recipe or DEFAULT, DEFAULT_K if k is None else k)
    with fpstore.open(store) as opened:
        if not opened.has_ids:
            raise ValueError(f"{store}: found a store without ids, expected one with ids")
        if opened.recipe is None:
            raise ValueError(f"{store}: found no recipe for texts in the store, expected one built from texts")
        own = Recipe.from_json(opened.recipe)
        if recipe not in (None, own):
            raise ValueError(f"{store}: found recipe {own.name}, expected {recipe.name}: the store's is the one to use")
        if k is not None and not 0 <= k <= opened.plan.k:
            raise ValueError(f"{store}: found k {k}, expected 0..{opened.plan.k}, what the store answers")
        return Settings(recipe or own, opened.k if k is None else k)


@dataclass(frozen=True)
class Workplace:
    """The store and the spool of a job, opened for writing; next_id: the first id that is free."""

    store: Store
    spool: Spool
    next_id: int


@contextmanager
def own_workplace(job: Job, settings: Settings, *, texts: bool) -> Iterator[Workplace]:
    """A store of the job's own, as it was at the last commit."""
    count, next_id = (job.state["spool"], job.state["next_id"]) if job.state else (0, 0)
    with _opened(job.work / "store", settings) as store:
        if job.state:
            _take_back(store, next_id)
        with closing(Spool(job.work / "documents", texts=texts, count=count)) as spool:
            yield Workplace(store, spool, next_id)


@contextmanager
def standing_workplace(path: Path, job: Job, settings: Settings, *, texts: bool) -> Iterator[Workplace]:
    """The standing store at path, as it was at the last commit; made where there is none.

    texts: whether the texts of the kept documents are needed. Raises JobError where it lacks some, and where another
    job that is not finished has written to it.
    """
    folder = documents_folder(path)
    with _opened(path, settings) as store:
        folder.mkdir(exist_ok=True)
        note = _read_note(folder)
        if job.state is not None:
            if note is None or note["job"] != str(job.folder):
                raise JobError(f"{path}: used by another job since {job.folder} was interrupted; --force begins again")
            count, next_id = job.state["spool"], job.state["next_id"]
            _take_back(store, next_id)
        else:
            count = None
            if note is not None:
                _expect_abandoned(path, note, job)
                store.remove(ids=_ids_from(store, note["first_id"]))
                count = note["spool"]
        with closing(Spool(folder, texts=texts, count=count)) as spool:
            if job.state is None:
                next_id = _next_id(store, spool)
                if texts:
                    _expect_texts(path, store, spool)
                note = {"job": str(job.folder), "first_id": next_id, "spool": spool.count}
                spool.sync()
                write_durably(folder / _NOTE, json.dumps(note))
            yield Workplace(store, spool, next_id)


def release(path: Path, job: Job) -> None:
    """The job is finished: what it has put into the standing store stays."""
    folder = documents_folder(path)
    note = _read_note(folder)
    if note is not None and note["job"] == str(job.folder):
        (folder / _NOTE).unlink()
        sync_folder(folder)


def documents_folder(path: Path) -> Path:
    """Where the spool of a standing store is."""
    return path.with_name(f"{path.name}.documents")


@contextmanager
def _opened(path: Path, settings: Settings) -> Iterator[Store]:
    """The store at path, made where there is none."""
    if not path.exists():
        fpstore.create(path, k=settings.k, recipe=dict(settings.recipe.to_json())).close()
    with fpstore.open(path, "w", durability="batch") as store:
        yield store


def _take_back(store: Store, next_id: int) -> None:
    """Remove what was stored after the last commit: part of a batch at most."""
    store.remove(ids=np.arange(next_id, min(next_id + BATCH_DOCUMENTS, _LAST_ID) + 1, dtype=np.uint64))


def _ids_from(store: Store, first_id: int) -> Ids:
    """The ids from this one on."""
    parts = [ids[ids >= np.uint64(first_id)] for _, ids in store.rows() if ids is not None]
    return np.concatenate([np.empty(0, dtype=np.uint64), *parts])


def _next_id(store: Store, spool: Spool) -> int:
    """The id after the largest; reads all ids of the store."""
    largest = max((int(ids.max()) for _, ids in store.rows() if ids is not None and len(ids)), default=-1)
    if spool.last_id is not None:
        largest = max(largest, spool.last_id)
    if largest == _LAST_ID:
        raise ValueError(f"{store.path}: found the largest id there is in the store, expected room for more")
    return largest + 1


def _expect_texts(path: Path, store: Store, spool: Spool) -> None:
    """Refuse a store with documents whose texts are not in the spool, as no match with them can be confirmed."""
    lacking = 0
    for _, ids in store.rows():
        if ids is not None:
            lacking += int((~spool.holds(ids)).sum()) if spool.has_texts else len(ids)
    if lacking or not spool.has_texts:
        found = f"{lacking} documents without their texts"
        raise JobError(
            f"{path}: found {found}, which --confirm cannot check; expected those that jobs with --confirm kept"
        )


def _expect_abandoned(path: Path, note: dict[str, Any], job: Job) -> None:
    """Refuse to undo a job that can still go on: one with a journal, unless it is the one that begins again."""
    if note["job"] != str(job.folder) and has_journal(Path(note["job"])):
        raise JobError(
            f"{path}: the job {note['job']} is not finished; run it to its end, or remove that folder to undo it"
        )


def _read_note(folder: Path) -> dict[str, Any] | None:
    try:
        note: dict[str, Any] = json.loads((folder / _NOTE).read_bytes())
    except FileNotFoundError:
        return None
    return note
