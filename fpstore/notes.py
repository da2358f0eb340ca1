"""Owns what jobs keep in a store's folder, as far as the store must know of it: all of it lies in jobs/.

A job that adds documents to a store has a record of them there; its index tells of each document its number, its
fingerprint and its name, and is durable before the document is stored. While the job is not finished a note says which
job that is, and how many documents there were before. So what it stored is known, and nothing else is taken out again.
When the job has ended the record goes, unless it has the texts of the documents, which later jobs compare with, as
those of clusters under names do.
"""

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fpstore._codec import crc32c
from fpstore.checks import expect_integer
from fpstore.disk import NEW_SUFFIX, FileIdentity, Folder, naming, read_whole, replace_whole, write_all
from fpstore.errors import CorruptStore, Damage, JobError, StoreLocked
from fpstore.file_locks import is_locked
from fpstore.ledger import (
    INDEX,
    LATER,
    NAME_BYTES,
    NEXT_VOTES,
    NOTE,
    SETTINGS,
    TEXT_BYTES,
    VOTES,
    damage_in,
    damage_of,
    entry_type,
    expect_crc,
    parse_json,
    read_settings,
    sealed,
    unsealed,
    whole_entries,
)
from fpstore.types import Ids, Keys

JOBS = "jobs"
# In a store whose ids are names a document has a number of the record's own, from here on: no handle is as large.
FIRST_NUMBER = 1 << 63

# In the folder of a job: what says that a job made it, locked while a process is at it; and from its first commit on.
MARK = "job.json"
JOURNAL = "journal.json"

PIECE_BYTES = 4 << 20
# Behind what may be the end, where a power cut left it, so many are looked through for documents that are as written.
_PIECES_BEHIND = 16
MAX_ID = 2**64 - 1


@dataclass(frozen=True)
class Note:
    """A job that is not finished. store: the identity of the store that it adds to; job: its own; folder: where it is.

    documents: how many the record had when it began. first_id: the first number that it gave; all before are others'.
    """

    store: str
    job: str
    folder: str
    documents: int
    first_id: int


class Asker(NamedTuple):
    """The job that wants to write to a store: its identity, and its folder."""

    job: str
    folder: str


def read_note(folder: Folder) -> Note | None:
    """The note in a store's folder, None where there is none. Raises JobError for something else in its place."""
    try:
        with folder.inside(JOBS) as jobs:
            data = read_whole(jobs, NOTE)
        return None if data is None else Note(**_typed(unsealed(data)))
    except FileNotFoundError:
        return None
    except (CorruptStore, TypeError, ValueError):
        found = "found no note of a job, expected one, or nothing"
        raise JobError(f"{found}; remove it if no job is under way", path=folder.path / JOBS / NOTE) from None


def write_note(folder: Folder, note: Note) -> None:
    """Leave a note in a store's folder, durably."""
    with subfolder(folder, JOBS) as jobs:
        replace_whole(jobs, NOTE, sealed(asdict(note)))


def remove_note(folder: Folder) -> None:
    """Remove the note from a store's folder, durably."""
    with suppress(FileNotFoundError), folder.inside(JOBS) as jobs:
        jobs.unlink(NOTE, missing_ok=True)
        jobs.sync()


def abandoned(folder: Folder, identity: str, asker: Asker | None) -> Note | None:
    """The note of a job that can never go on, which is to be undone before anything else is written; None without one.

    identity: of the store in folder. asker: who wants to write, if it is a job, whose own note this may be. Raises
    JobError where another job is not finished, and where the note is about another store; StoreLocked while a process
    is at that other job.
    """
    note = read_note(folder)
    if note is not None and note.store != identity:
        found = f"found the note of a job that adds to store {note.store}, expected one about {identity}, which is here"
        raise JobError(f"{found}; remove the note", path=folder.path / JOBS / NOTE)
    if note is None or (asker is not None and note.job == asker.job):
        return None
    if can_go_on(note.folder, note.job):
        if _is_at_work(note.folder):  # it writes no more, or nobody else would have come so far, but has yet to say so
            told = f"a process is at the job {note.folder}, and only that job may write here until it has ended"
            raise StoreLocked(told, path=folder.path)
        ways = "run it again to its end or with --force, or remove that folder and what it stored goes with it"
        raise JobError(f"the job {note.folder} is not finished, and only it may write here: {ways}", path=folder.path)
    return note


def can_go_on(folder: str, job: str) -> bool:
    """Whether the folder of a job still has what this very job goes on from. OSError where that cannot be told.

    The path may be a stranger's: nothing is waited for there, and what no job writes, as a relative one, leads nowhere.
    """
    if not os.path.isabs(folder):
        return False
    try:
        opened = Folder.open(Path(folder))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: no file can be called that
        return False
    try:
        with opened:
            data = read_whole(opened, JOURNAL)
        return data is not None and bool(parse_json(data)["job"] == job)
    except (CorruptStore, LookupError, TypeError, ValueError):
        return True  # damaged: it is not for others to say that it never ends


def _is_at_work(folder: str) -> bool:
    """Whether a process is at the job in this folder, which is one: has its mark locked."""
    with suppress(OSError, CorruptStore), Folder.open(Path(folder)) as opened:
        fd = opened.open_file(MARK)
        try:
            return is_locked(fd)
        finally:
            os.close(fd)
    return False


def document_count(record: Folder) -> int:
    """How many documents the index of a record tells of."""
    try:
        fd = record.open_file(INDEX)
    except FileNotFoundError:
        return 0
    try:
        return os.fstat(fd).st_size // int(entry_type(record).itemsize)
    finally:
        os.close(fd)


def stored_since(
    record: Folder, documents: int, first_id: int, *, named: bool = False
) -> Iterator[tuple[Keys, Ids | list[bytes]]]:
    """What was, or was about to be, stored after so many documents: fingerprints, and ids, uint64[n], or names.

    Some at a time; without rows that the store had before. first_id: smaller numbers are not theirs. named: whether
    ids are names. Raises JobError where the index is shorter.
    """
    count = document_count(record)
    if count < documents:
        found = f"found {count} documents, expected {documents}, those from before a job that was interrupted"
        raise JobError(f"{found}; restore the file, or remove the store's {JOBS}/{NOTE}", path=record.path / INDEX)
    if count == documents:
        return
    path, entry = record.path / INDEX, entry_type(record)
    with (
        os.fdopen(record.open_file(INDEX), "rb") as file,
        os.fdopen(record.open_file(NAME_BYTES), "rb") as names,
        naming(path),
    ):
        before, crc = 0, 0
        if documents:
            file.seek((documents - 1) * entry.itemsize)
            last = np.frombuffer(file.read(entry.itemsize), dtype=entry)
            if not whole_entries(last, from_first=documents == 1).all():
                raise CorruptStore(f"document {documents - 1}", "another checksum", "its own", path=path)
            before, crc = int(last["name_end"][0]), int(last["name_crc"][0])
        at, is_first, cut_pieces = documents, documents == 0, 0
        piece_bytes = PIECE_BYTES // entry.itemsize * entry.itemsize
        while (piece := file.read(piece_bytes)) and cut_pieces < _PIECES_BEHIND:
            later = np.frombuffer(piece[: len(piece) // entry.itemsize * entry.itemsize], dtype=entry)
            # A power cut can leave bytes at the end that nobody wrote, and for which nothing was stored yet.
            good, is_first = whole_entries(later, from_first=is_first), False
            count = 0 if cut_pieces else len(good) if good.all() else int(np.argmin(good))
            if good[count:].any():
                raise CorruptStore(f"document {at + count}", "another checksum", "its own", path=path)
            at, cut_pieces = at + count, cut_pieces + (count < len(good) or not count)
            if not count:
                continue
            own = later[:count]
            ends, size = own["name_end"], os.fstat(names.fileno()).st_size
            if int(ends[0]) < before or int(ends[-1]) > size or (ends[1:] < ends[:-1]).any():
                told = f"ends that do not increase from {before} to at most {size}"
                raise CorruptStore(f"names of {at} documents", told, "those of its names, in order", path=path)
            names.seek(before)
            data = names.read(int(ends[-1]) - before)
            crc = crc32c(data, crc)
            expect_crc(f"names of {at} documents", crc, int(own["name_crc"][-1]), record.path / NAME_BYTES)
            new = np.flatnonzero((own["known"] == 0) & (own["id"] >= np.uint64(first_id)))
            rows: Ids | list[bytes] = own["id"][new].astype(np.uint64)
            if named:
                cuts = [0, *(own["name_end"] - np.uint64(before)).tolist()]
                rows = [data[cuts[i] : cuts[i + 1]] for i in new.tolist()]
            before = int(own["name_end"][-1])
            yield own["fingerprint"][new].astype(np.uint64), rows


def cut_back(record: Folder, documents: int) -> None:
    """Forget, durably, all but the first so many documents."""
    fd = record.open_file(INDEX, os.O_RDWR | os.O_CREAT)
    try:
        with naming(record.path / INDEX):
            os.ftruncate(fd, documents * entry_type(record).itemsize)
            os.fsync(fd)
    finally:
        os.close(fd)


def put_next_votes(record: Folder, votes: BinaryIO) -> None:
    """Lay down durably, as a whole, the votes that count once the note of their job is gone."""
    fd = record.open_file(NEXT_VOTES + NEW_SUFFIX, os.O_RDWR | os.O_CREAT)
    with os.fdopen(fd, "r+b") as file, naming(record.path / NEXT_VOTES):
        file.truncate(0)
        shutil.copyfileobj(votes, file, PIECE_BYTES)
        file.flush()
        os.fsync(fd)
    record.rename(NEXT_VOTES + NEW_SUFFIX, NEXT_VOTES)
    record.sync()


def take_next_votes(record: Folder) -> None:
    """Of a store without a note: the job of the next votes, if there are any, has ended, so they are those that count.

    Durable when this returns.
    """
    with suppress(FileNotFoundError):
        record.rename(NEXT_VOTES, VOTES)
        record.sync()


def drop_next_votes(record: Folder) -> None:
    """Their job will never end; durable when this returns."""
    if record.identity_of(NEXT_VOTES) is not None:
        record.unlink(NEXT_VOTES, missing_ok=True)
        record.sync()


def clear_record(record: Folder, *, named: bool) -> None:
    """Of a store without a note: remove the record of the job that ended last, unless it has texts.

    named: whether ids are names. Of numbers the next one stays in the settings, so that none is given twice.
    """
    settings = read_settings(record) or {}
    if settings.get("texts"):
        return
    if settings and document_count(record) and not named:
        replace_whole(record, SETTINGS, sealed(settings | {"next_id": next_number(record)}))
    for name in (INDEX, NAME_BYTES, TEXT_BYTES, *([SETTINGS] if named else [])):
        record.unlink(name, missing_ok=True)
    record.sync()


def next_number(record: Folder) -> int:
    """Of a store of numbers and without a note: the number after the last that a job gave, 0 where none did."""
    settings, count = read_settings(record) or {}, document_count(record)
    if not count:
        return int(settings.get("next_id", 0))
    entry = entry_type(record)
    with os.fdopen(record.open_file(INDEX), "rb") as file, naming(record.path / INDEX):
        file.seek((count - 1) * entry.itemsize)
        return int(np.frombuffer(file.read(entry.itemsize), dtype=entry)["id"][0]) + 1


def open_record(folder: Folder, identity: str) -> Folder | None:
    """The folder of jobs in a store's folder, None where there is none. JobError if the record is another store's."""
    try:
        record = folder.inside(JOBS)
    except FileNotFoundError:
        return None
    try:
        found = (read_settings(record) or {}).get("store")
        if found not in (None, identity):
            wrong = f"found the documents of store {found}, expected those of {identity}, which is here"
            raise JobError(f"{wrong}; move that folder away", path=record.path)
    except BaseException:
        record.close()
        raise
    return record


def record_damage(folder: Folder, words: int) -> list[Damage]:
    """What is wrong with what jobs keep in a store's folder; what an unfinished job added is its own to check.

    words: of a fingerprint of the store.
    """
    try:
        while True:  # a job may begin or end meanwhile
            note = read_note(folder)
            with folder.inside(JOBS) as record:
                damage = damage_in(record, None if note is None else note.documents, words)
            if not damage or note == read_note(folder):
                return damage
    except FileNotFoundError:
        return []
    except (CorruptStore, JobError) as error:
        return [damage_of(error, folder)]


def copy_record(source: Folder, target: Folder, identity: str) -> None:
    """Copy what jobs go on with, if there is anything, from one store's folder to a new one's, durably: texts, votes.

    identity: of the new store. A job may go on adding to them: what is copied belongs together, and goes at least as
    far as when this was called. No note is copied, nor a record without texts.
    """
    try:
        record = source.inside(JOBS)
    except FileNotFoundError:
        return
    with record:
        if record.identity_of(LATER) is not None:
            found = "found documents of a job that its end was to store, expected none: open it for writing once"
            raise JobError(f"{found}; or a job is about to end", path=record.path / LATER)
        told = read_settings(record) or {}
        lasting = (NAME_BYTES, TEXT_BYTES) if told.get("texts") else ()
        if not told and not any(_votes_in(record)):
            return
        with target.create(JOBS) as copied:
            index: bytes | None = None
            votes = _votes_in(record)
            while (
                index is None
                or votes != _votes_in(record)
                or not (read_whole(record, INDEX, sys.maxsize) or b"").startswith(index)  # cut back meanwhile
            ):
                index = (read_whole(record, INDEX, sys.maxsize) or b"") if lasting else b""
                votes = _votes_in(record)
                if lasting:
                    replace_whole(copied, INDEX, index)
                for name in (VOTES, NEXT_VOTES):
                    copied.unlink(name, missing_ok=True)
                for name in (*lasting, VOTES, NEXT_VOTES):  # these first grow, and then the index
                    with suppress(*([] if name in lasting else [FileNotFoundError])):  # votes may be renamed
                        _copy_file(record, copied, name)
            if told:
                replace_whole(copied, SETTINGS, sealed(told | {"store": identity}))
            copied.sync()


def forget(folder: Folder) -> None:
    """Remove what jobs keep from the folder of a store whose content was replaced; nothing else in it."""
    remove_note(folder)
    with suppress(FileNotFoundError), folder.inside(JOBS) as record:
        for name in (
            LATER,
            NEXT_VOTES,
            VOTES,
            TEXT_BYTES,
            NAME_BYTES,
            INDEX,
            SETTINGS,
        ):  # last what says whose the others are
            for made in (name + NEW_SUFFIX, name):
                with suppress(IsADirectoryError, PermissionError):
                    record.unlink(made, missing_ok=True)
        record.sync()


def subfolder(folder: Folder, name: str) -> Folder:
    """The folder of that name in this one, made where there is none, durably."""
    try:
        return folder.inside(name)
    except FileNotFoundError:
        with suppress(FileExistsError):
            folder.create(name).close()
        folder.sync()
        return folder.inside(name)


def _votes_in(record: Folder) -> tuple[FileIdentity | None, ...]:
    """Which files of votes there are; each is replaced as a whole."""
    return tuple(record.identity_of(name) for name in (VOTES, NEXT_VOTES))


def _copy_file(source: Folder, target: Folder, name: str) -> None:
    """Copy a file; holes stay holes, as a small one may claim any size."""
    fd = source.open_file(name)
    try:
        copy = target.open_file(name, os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(copy, 0)
            size, end = os.fstat(fd).st_size, 0
            while (start := _next_data(fd, end)) is not None and start < size:
                end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
                os.lseek(copy, start, os.SEEK_SET)
                for at in range(start, end, PIECE_BYTES):
                    write_all(copy, memoryview(os.pread(fd, min(PIECE_BYTES, end - at), at)))
            os.ftruncate(copy, size)
            os.fsync(copy)
        finally:
            os.close(copy)
    finally:
        os.close(fd)


def _next_data(fd: int, offset: int) -> int | None:
    """Where the next bytes are that are in no hole; None where there are none."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def _typed(record: object) -> dict[str, Any]:
    """The fields of a note, each of its type. Raises ValueError."""
    if not isinstance(record, dict):
        raise ValueError(f"found {record!r:.40}, expected a JSON object")
    for name, kind in Note.__annotations__.items():
        if type(record.get(name)) is not kind:
            raise ValueError(f"{name}: found {record.get(name)!r}, expected {kind}")
    for name in ("documents", "first_id"):
        expect_integer(name, record[name], 0, MAX_ID)
    return record
