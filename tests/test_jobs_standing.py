"""A standing store and the jobs that add to it: nothing that others stored is lost, and who may write is told."""

import dataclasses
import fcntl
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import fingerprints, interrupt, lines_of, write_jsonl
from record_model import sealed

import fpstore
from fpstore import CorruptStore, JobError, ledger, notes
from fpstore._codec import crc32c
from fpstore.disk import Folder
from fpstore.errors import StoreChanged, StoreLocked
from fpstore.file_locks import lock_file
from fpstore.jobs import corpus, dedup, runs
from fpstore.jobs.journal import Job
from fpstore.jobs.standing import standing_workplace
from fpstore.living.sizes import LivingSizes
from fpstore.notes import Asker, Note
from fpstore.query import leaders
from fpstore.text import DEFAULT_RECIPE

# fpstore.jobs.dedup is the function.
dedup_job = import_module("fpstore.jobs.dedup")

DOCUMENTS = ["a b c d e", "x", "a b c d e", "", "y z", "!", "x", "y z", "", "last one of them"] * 2
# Of them so many are kept, with ids from 0 on.
KEPT = 6


def add_rows(store: fpstore.Store, rows: list[tuple[int, Any]]) -> None:
    """Add pairs of a fingerprint and an id."""
    store.add([key for key, _ in rows], ids=[number for _, number in rows])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)


def rows_of(path: Path) -> set[tuple[int, Any]]:
    with fpstore.open(path) as store:
        return {(row.fingerprint, row.id) for rows in store.rows() for row in rows}


BOTH = pytest.mark.parametrize("id_type", ["string", "uint64"])


def make_store(path: Path, id_type: Any) -> None:
    fpstore.create(path, id_type=id_type, recipe=DEFAULT_RECIPE).close()


def ids_of(id_type: str, source: Path, first: int = 0) -> Callable[[int, int], Any]:
    """The id that a job gives to a document, given the number of its line and how many were kept before it."""
    return lambda line, kept: f"{source}:{line + 1}" if id_type == "string" else first + kept


def given(id_type: str, number: int) -> Any:
    """An id that somebody gives."""
    return str(number) if id_type == "string" else number


def unfinished(monkeypatch: pytest.MonkeyPatch, folder: Path, source: Path, after: int = 4) -> tuple[Path, Path]:
    """A store, and the result of a job that adds to it and was interrupted."""
    store, out = folder / "s.fpstore", folder / "out"
    interrupt(monkeypatch, lambda: dedup([source], out, store=store), after)
    return store, out


def note_of(store: Path) -> Path:
    return store / notes.JOBS / ledger.NOTE


# --- Others ---


def test_nobody_else_writes_to_a_store_before_its_job_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    before = rows_of(store)
    told = rf"^{store}: the job {out}\.job is not finished, and only it may write here: run it again to its end or with"
    other = write_jsonl(tmp_path / "other.jsonl", ["q q"])
    attempts: list[Callable[[], Any]] = [
        lambda: fpstore.open(store, "w"),
        lambda: dedup([other], tmp_path / "2", store=store),
        lambda: dedup([other], tmp_path / "2", store=store, force=True),
    ]
    for attempt in attempts:
        with pytest.raises(JobError, match=told):
            attempt()
    assert rows_of(store) == before
    assert not (tmp_path / "2.job").exists()
    assert dedup([source], out, store=store).results == KEPT
    with fpstore.open(store, "w") as opened:
        opened.add([5], ids=["another"])
    assert len(rows_of(store)) == KEPT + 1


@BOTH
@pytest.mark.parametrize("after", [1, 2, 4, 7])
def test_what_others_stored_before_and_after_a_job_stays_when_it_is_undone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, after: int, id_type: str
) -> None:
    # Some of it under the very fingerprints, and the very ids, that the job uses.
    keys = fingerprints(DOCUMENTS)
    store = tmp_path / "s.fpstore"
    make_store(store, id_type)
    own = ids_of(id_type, source, 3)
    theirs = {(7, given(id_type, 1)), (9, given(id_type, 2))}
    with fpstore.open(store, "w") as opened:
        add_rows(opened, sorted(theirs))
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out", store=store), after)
    note = note_of(store).read_bytes()
    note_of(store).unlink()  # as an older fpstore does, which knows of no notes
    more = {(keys[0], given(id_type, 50)), (7, own(0, 0)), (keys[4], own(1, 1)), (11, given(id_type, 5))}
    with fpstore.open(store, "w") as opened:
        add_rows(opened, sorted(more))
    note_of(store).write_bytes(note)
    shutil.rmtree(tmp_path / "out.job")
    assert {(keys[0], own(0, 0)), (keys[1], own(1, 1))} <= rows_of(store)
    with (
        pytest.warns(UserWarning, match=f"^{store}: the job {tmp_path / 'out'}.job, which did not end .* was undone: "),
        fpstore.open(store, "w"),
    ):
        assert rows_of(store) == theirs | more
    assert not note_of(store).exists()
    with fpstore.open(store, "w"):  # once is enough
        pass


@BOTH
@pytest.mark.parametrize("after", [1, 3, 6])
def test_what_others_stored_stays_when_a_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, after: int, id_type: str
) -> None:
    store, out = tmp_path / "s.fpstore", tmp_path / "out"
    make_store(store, id_type)

    def killed_after_the_store(run: runs.FirstRun) -> None:  # before the commit of this batch
        if run._job.state is not None and run._tally.documents > 3 * after:
            raise KeyboardInterrupt
        run._job.commit(run._state())

    with monkeypatch.context() as patch:
        patch.setattr(runs.FirstRun, "_commit", killed_after_the_store)
        with pytest.raises(KeyboardInterrupt):
            dedup([source], out, store=store)
    note = note_of(store).read_bytes()
    note_of(store).unlink()
    keys, own = fingerprints(DOCUMENTS), ids_of(id_type, source)
    theirs = {(3, given(id_type, 100)), (keys[0], given(id_type, 200))}
    theirs |= {(99, own(document, document)) for document in range(KEPT + 1)}
    with fpstore.open(store, "w") as opened:
        add_rows(opened, sorted(theirs))
    note_of(store).write_bytes(note)
    dedup([source], out, store=store)
    distinct = list(dict.fromkeys(keys))
    assert rows_of(store) == theirs | {(key, own(keys.index(key), kept)) for kept, key in enumerate(distinct)}


def test_a_job_killed_before_its_first_batch_is_done_never_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, other = tmp_path / "s.fpstore", write_jsonl(tmp_path / "other.jsonl", ["q q"])
    child = os.fork()
    if not child:  # killed where the documents are stored, and the journal is not written
        monkeypatch.setattr(Job, "commit", lambda *_: os._exit(9))
        dedup([source], tmp_path / "1", store=store)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert len(rows_of(store)) == 2
    assert note_of(store).exists()
    with pytest.warns(UserWarning, match="which did not end and cannot go on, was undone: 2 documents"):
        dedup([other], tmp_path / "2", store=store)
    assert len(rows_of(store)) == 1
    assert dedup([source], tmp_path / "1", store=store).results == KEPT
    assert len(rows_of(store)) == KEPT + 1


def test_a_note_that_an_earlier_store_of_that_name_left_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    shutil.copytree(store / notes.JOBS, tmp_path / notes.JOBS)
    shutil.rmtree(store)
    shutil.rmtree(f"{out}.job")
    fpstore.build(store, np.arange(5000, dtype=np.uint64), recipe=DEFAULT_RECIPE).close()
    before = rows_of(store)
    shutil.copytree(tmp_path / notes.JOBS, store / notes.JOBS)
    note_of(store).unlink()
    with pytest.raises(JobError, match=r"jobs: found the documents of store [0-9a-f]{32}, expected those of"):
        dedup([source], tmp_path / "2", store=store)
    shutil.copy(tmp_path / notes.JOBS / ledger.NOTE, note_of(store))
    told = rf"^{note_of(store)}: found the note of a job that adds to store [0-9a-f]{{32}}, expected one about"
    for attempt in (lambda: fpstore.open(store, "w"), lambda: dedup([source], tmp_path / "2", store=store)):
        with pytest.raises(JobError, match=told):
            attempt()
    assert rows_of(store) == before
    shutil.rmtree(store / notes.JOBS)
    assert dedup([source], tmp_path / "2", store=store).documents == len(DOCUMENTS)
    assert rows_of(store) >= before


DEEP = "[" * 100_000
TELLS_LIES = [
    ledger.sealed({"store": "s", "job": "j", "folder": "/f", "documents": documents, "first_id": first_id}).decode()
    for documents, first_id in ((-1, 0), (0, -1), (0, 2**64), (2**64, 0))
]


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"store": 1}', "link", "folder", "large", DEEP, *TELLS_LIES])
def test_what_is_no_note_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, record: str
) -> None:
    store, _ = unfinished(monkeypatch, tmp_path, source)
    note = note_of(store)
    note.unlink()
    if record == "link":
        note.symlink_to(source)
    elif record == "folder":
        note.mkdir()
    elif record == "large":
        note.touch()
        os.truncate(note, 1 << 40)
    else:
        note.write_text(record)
    with pytest.raises(JobError, match=f"^{note}: found no note of a job, expected one, or nothing"):
        fpstore.open(store, "w")


def test_a_record_that_a_job_needs_to_be_undone_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store = tmp_path / "s.fpstore"
    dedup([write_jsonl(tmp_path / "0.jsonl", ["q q", "w w w"])], tmp_path / "0", store=store, confirm="jaccard>=1")
    unfinished(monkeypatch, tmp_path, source)
    before = rows_of(store)
    shutil.rmtree(tmp_path / "out.job")
    os.truncate(store / notes.JOBS / ledger.INDEX, ledger.ENTRY.itemsize)
    with pytest.raises(JobError, match="found 1 documents, expected 2, those from before a job that was interrupted"):
        fpstore.open(store, "w")
    (store / notes.JOBS / ledger.SETTINGS).write_text("no JSON")
    with pytest.raises(JobError, match="found no settings of a record of documents, expected a JSON object"):
        fpstore.open(store, "w")
    assert rows_of(store) == before


def stored(folder: Folder, documents: int, first_id: int) -> tuple[list[int], list[int]]:
    found = list(notes.stored_since(folder, documents, first_id))
    return [key for keys, _ in found for key in keys.tolist()], [
        i for _, ids in found for i in np.asarray(ids).tolist()
    ]


def sealed_entries(entries: Any, names: list[bytes]) -> Any:
    """The entries of an index with their checksums, and where their names end."""
    return sealed(entries, names, [b""] * len(names))


def test_what_a_power_cut_left_behind_the_index_is_nobodys_row(tmp_path: Path) -> None:
    (tmp_path / ledger.NAME_BYTES).write_bytes(b"abcdef")
    with Folder.open(tmp_path) as folder:
        entries = np.zeros(4, dtype=ledger.ENTRY)
        entries["id"], entries["fingerprint"] = [3, 8, 9, 11], [1, 2, 3, 4]
        data = sealed_entries(entries, [b"a", b"b", b"cd", b"e"]).tobytes()
        for left in (b"", b"part of one", bytes(100), b"\xff" * 100):
            (tmp_path / ledger.INDEX).write_bytes(data + left)
            assert stored(folder, 1, 8) == ([2, 3, 4], [8, 9, 11])
            assert stored(folder, 1, 9) == ([3, 4], [9, 11])  # 8 is of somebody else
            assert stored(folder, 4, 0) == ([], [])
            assert stored(folder, 0, 0) == ([1, 2, 3, 4], [3, 8, 9, 11])


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("documents", [0, 1, 3])
def test_a_changed_byte_before_the_last_document_is_never_taken_for_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, documents: int, at_once: int
) -> None:
    monkeypatch.setattr(notes, "PIECE_BYTES", at_once * ledger.ENTRY.itemsize)
    entries = np.zeros(5, dtype=ledger.ENTRY)
    entries["id"], entries["fingerprint"] = range(5), range(5)
    whole = sealed_entries(entries, [b"one", b"two", b"three", b"four", b"5"]).tobytes()
    names = b"onetwothreefour5"
    first = max(documents - 1, 0) * ledger.ENTRY.itemsize  # those before are not read
    with Folder.open(tmp_path) as folder:
        for at in range(first, 4 * ledger.ENTRY.itemsize):
            (tmp_path / ledger.NAME_BYTES).write_bytes(names)
            (tmp_path / ledger.INDEX).write_bytes(changed(whole, at))
            with pytest.raises(CorruptStore, match=r"^.*index: document \d: found another checksum, expected its own$"):
                list(notes.stored_since(folder, documents, 0))
        (tmp_path / ledger.INDEX).write_bytes(whole)
        for at in range(int(entries["name_end"][documents - 1]) if documents else 0, len(names)):
            (tmp_path / ledger.NAME_BYTES).write_bytes(changed(names, at))
            with pytest.raises(CorruptStore, match=r"^.*names: names of \d documents, checksum: found 0x"):
                list(notes.stored_since(folder, documents, 0))


@pytest.mark.parametrize(
    "ends", [[3, 1, 9], [1, 1 << 63, 1 << 63], [1, 10, 12], [1, 2, (1 << 64) - 1], [9, 9, 0], [0, 9, 8]]
)
@pytest.mark.parametrize("documents", [0, 1])
def test_whole_entries_whose_names_lie_over_each_other_or_behind_all_are_refused(
    tmp_path: Path, ends: list[int], documents: int
) -> None:
    (tmp_path / ledger.NAME_BYTES).write_bytes(b"onetwofour")
    entries = np.zeros(3, dtype=ledger.ENTRY)
    for entry, end in zip(entries, ends, strict=True):
        entry["name_end"] = end
    crc = 0
    for at, entry in enumerate(entries):  # as whoever made them up would seal them
        crc = crc32c(entry.tobytes()[:-4], ledger.AFTER_ONE if at else 0)
        entry["crc"] = crc
    (tmp_path / ledger.INDEX).write_bytes(entries.tobytes())
    assert ledger.whole_entries(entries, from_first=True).all()
    told = r"index: names of 3 documents: found ends that do not increase from \d+ to"
    with Folder.open(tmp_path) as folder, pytest.raises(CorruptStore, match=told):
        list(notes.stored_since(folder, documents, 0))


@pytest.mark.parametrize("documents", [5, 1 << 40, 1 << 62, 1 << 80])
def test_a_note_of_more_documents_than_the_index_has_asks_for_no_room(tmp_path: Path, documents: int) -> None:
    entries = np.zeros(4, dtype=ledger.ENTRY)
    (tmp_path / ledger.INDEX).write_bytes(sealed_entries(entries, [b"a", b"b", b"c", b"d"]).tobytes())
    (tmp_path / ledger.NAME_BYTES).write_bytes(b"abcd")
    (tmp_path / ledger.TEXT_BYTES).write_bytes(b"")
    (tmp_path / ledger.SETTINGS).write_bytes(ledger.sealed({}))
    with Folder.open(tmp_path) as folder:
        assert ledger.damage_in(folder, 4, 1) == ledger.damage_in(folder, None, 1) == []
        tracemalloc.start()
        try:
            (damage,) = ledger.damage_in(folder, documents, 1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (damage.found, damage.expected) == ("4 documents", str(documents))
    assert peak < 1 << 20


def changed(data: bytes, at: int, bit: int = 1) -> bytes:
    """The same with one bit of a byte turned."""
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_what_a_job_stored_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: int) -> None:
    monkeypatch.setattr(notes, "PIECE_BYTES", at_once * ledger.ENTRY.itemsize)
    (tmp_path / ledger.NAME_BYTES).write_bytes(b"one" + b"\xc3\xa9" + b"four" + b"5")
    with Folder.open(tmp_path) as folder:
        entries = np.zeros(5, dtype=ledger.ENTRY)
        entries["fingerprint"] = range(5)
        entries["id"] = range(5)
        entries["known"] = [0, 0, 0, 1, 0]
        sealed_entries(entries, [b"one", b"", b"\xc3\xa9", b"four", b"5"])
        (tmp_path / ledger.INDEX).write_bytes(entries.tobytes())
        for documents in (0, 2):
            found = list(notes.stored_since(folder, documents, 0, named=True))
            names = [name for _, names in found for name in names]
            keys = [key for keys, _ in found for key in keys.tolist()]
            assert (
                list(zip(keys, names, strict=True)) == [(0, b"one"), (1, b""), (2, "é".encode()), (4, b"5")][documents:]
            )
        os.truncate(tmp_path / ledger.INDEX, 1 << 42)  # takes no room on the disk, and would not fit into memory
        assert len(stored(folder, 1, 1)[0]) == 3


def test_a_job_whose_journal_is_damaged_is_not_for_others_to_undo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    journal = Path(f"{out}.job") / notes.JOURNAL
    whole = journal.read_text()
    for damaged in ("", "{}", "[1]", whole[:-1], DEEP):
        journal.write_text(damaged)
        with pytest.raises(JobError, match="is not finished, and only it may write here"):
            fpstore.open(store, "w")
        with pytest.raises(JobError, match=r"journal.json: found no (record|journal) of a job"):
            dedup([source], out, store=store)
    assert dedup([source], out, store=store, force=True).results == KEPT


@pytest.mark.parametrize(
    "wrong",
    [
        {"identity": []},
        {"inputs": 3},
        {"inputs": [3]},
        {"inputs": []},
        {"state": None},
        {"lengths": "x"},
        {"lengths": [1.5]},
        {"lengths": [-1]},
        {"lengths": [0, 0]},
        {"job": 3},
    ],
    ids=repr,
)
def test_a_journal_that_no_job_wrote_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, wrong: dict[str, Any]
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    journal = Path(f"{out}.job") / notes.JOURNAL
    whole = journal.read_text()
    journal.write_text(json.dumps(json.loads(whole) | wrong))
    with pytest.raises(JobError, match=r"journal.json: found no journal of (a|this) job, expected one; --force begins"):
        dedup([source], out, store=store)
    journal.write_text(whole)
    assert dedup([source], out, store=store).results == KEPT


def test_a_pipe_where_a_note_says_that_a_journal_is_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    journal = Path(f"{out}.job") / notes.JOURNAL
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(JobError, match="is not finished, and only it may write here"):
        fpstore.open(store, "w")


@pytest.mark.parametrize("folder", ["", ".", "out.job", "/a\0b", "/\ud800"])
def test_a_note_whose_folder_no_job_can_have_is_of_a_job_that_never_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, folder: str
) -> None:
    store, _ = unfinished(monkeypatch, tmp_path, source)
    monkeypatch.chdir(tmp_path)
    record = ledger.unsealed(note_of(store).read_bytes())
    note_of(store).write_bytes(ledger.sealed(record | {"folder": folder}))
    with pytest.warns(UserWarning, match="cannot go on, was undone"):
        fpstore.open(store, "w").close()
    assert rows_of(store) == set()


# --- The store ---


@pytest.mark.parametrize("there", ["nothing", "another store", "a file"])
@pytest.mark.parametrize("finished", [False, True])
def test_a_store_that_went_or_was_replaced_is_no_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, there: str, finished: bool
) -> None:
    store, out = tmp_path / "s.fpstore", tmp_path / "out"
    if finished:
        with monkeypatch.context() as patch:
            patch.setattr(dedup_job, "release", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                dedup([source], out, store=store, max_distance=2)
    else:
        interrupt(monkeypatch, lambda: dedup([source], out, store=store, max_distance=2), 4)
    store.rename(tmp_path / "old.fpstore")
    if there == "another store":
        fpstore.create(store, max_distance=2, recipe=DEFAULT_RECIPE).close()
    elif there == "a file":
        store.write_text("mine")
    with pytest.raises((JobError, fpstore.NotAStore)) as failed:
        dedup([source], out, store=store, max_distance=2)
    if there != "a file":
        assert "which the interrupted job" in str(failed.value)
        assert str(failed.value).startswith(f"{store}: found {'nothing' if there == 'nothing' else 'store '}")
    assert store.exists() == (there != "nothing")
    if there == "another store":
        assert rows_of(store) == set()
    assert not out.exists()
    assert list(Path(f"{out}.job").iterdir())


def test_a_store_that_goes_or_is_replaced_while_the_job_opens_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    moved, workplace = tmp_path / "moved.fpstore", standing_workplace
    for replace, told in ((False, "found no store"), (True, "found store [0-9a-f]{32}, expected store [0-9a-f]{32}")):

        def late(path: Path, *rest: Any, replace: bool = replace, **options: Any) -> Any:
            path.rename(moved)
            if replace:
                fpstore.create(path).close()
            return workplace(path, *rest, **options)

        with monkeypatch.context() as patch:
            patch.setattr(dedup_job, "standing_workplace", late)
            with pytest.raises(JobError, match=told):
                dedup([source], out, store=store)
        shutil.rmtree(store, ignore_errors=True)
        moved.rename(store)
    assert dedup([source], out, store=store).results == KEPT


def test_a_catalog_of_an_earlier_moment_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source, 1)
    earlier = (store / "catalog.mdb").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(runs.FirstRun, "commit_last", lambda run: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            dedup([source], out, store=store)
    (store / "catalog.mdb").write_bytes(earlier)
    with pytest.raises(JobError, match=r"lacks document '.*in.jsonl:10', which the interrupted job stored last"):
        dedup([source], out, store=store)


def test_build_force_takes_records_and_notes_of_the_old_content_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = unfinished(monkeypatch, tmp_path, source)
    (store / notes.JOBS / "a folder").mkdir()
    fpstore.build(store, np.array([1, 2], dtype=np.uint64), recipe=DEFAULT_RECIPE, force=True).close()
    assert not note_of(store).exists()
    assert os.listdir(store / notes.JOBS) == ["a folder"]
    with pytest.raises(JobError, match=r"found store [0-9a-f]{32}, expected store"):
        dedup([source], out, store=store, confirm=None)
    dedup([source], tmp_path / "2", dropped=tmp_path / "2d", store=store, confirm=None)
    assert not any(line.split("\t")[1].startswith(str(store)) for line in lines_of(tmp_path / "2d"))


@pytest.mark.parametrize("options", [{}, {"confirm": "jaccard>=1"}], ids=repr)
def test_a_job_that_fails_in_its_first_batch_leaves_the_store_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any]
) -> None:
    store, bad = tmp_path / "s.fpstore", tmp_path / "bad.jsonl"
    dedup([write_jsonl(tmp_path / "0.jsonl", ["q q", "w w w"])], tmp_path / "0", store=store, **options)
    index = store / notes.JOBS / ledger.INDEX
    before = rows_of(store), index.exists() and index.read_bytes()
    bad.write_text('{"text": "a"}\n{"text": "b b b b"}\n')

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs.FirstRun, "_told", lambda *_: fail)
    with pytest.raises(OSError, match="No space"):
        dedup([bad], tmp_path / "1", store=store)
    assert (rows_of(store), index.exists() and index.read_bytes()) == before
    assert not note_of(store).exists()
    assert not (tmp_path / "1.job").exists()


@BOTH
def test_the_record_of_what_is_stored_is_on_the_disk_before_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, id_type: str
) -> None:
    store = tmp_path / "s.fpstore"
    make_store(store, id_type)
    sync, synced = os.fsync, [0]
    index = store / notes.JOBS / ledger.INDEX

    def noted(fd: int) -> None:
        sync(fd)
        if index.exists() and os.fstat(fd).st_ino == index.stat().st_ino:
            synced.append(os.fstat(fd).st_size // ledger.ENTRY.itemsize)

    # The store makes rows durable whenever it wants to, here after each of the pieces of a batch.
    add = fpstore.Store.add
    seen = []

    def add_and_flush(self: fpstore.Store, fingerprints: Any, *, ids: Any) -> None:
        add(self, fingerprints, ids=ids)
        if self.path != store:  # one of the job's own
            return
        self._flush()
        with fpstore.open(self.path) as reader:
            seen.append((sum(map(len, reader.rows())), synced[-1]))

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 1)
    monkeypatch.setattr(fpstore.Store, "add", add_and_flush)
    dedup([source], tmp_path / "out", store=store)
    assert all(stored <= on_disk for stored, on_disk in seen)
    assert seen[-1] == (KEPT, KEPT)


# --- Its folder ---


def test_a_copy_has_the_texts_but_no_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    store, copy = tmp_path / "s.fpstore", tmp_path / "copy.fpstore"
    dedup([source], tmp_path / "1", store=store, max_distance=10, confirm="jaccard>=1")
    more = write_jsonl(tmp_path / "more.jsonl", ["more of it", "and more"])
    interrupt(monkeypatch, lambda: dedup([more], tmp_path / "2", store=store, confirm="jaccard>=1"), 1)
    with fpstore.open(store) as opened:
        opened.copy(copy)
    assert sorted(os.listdir(copy / notes.JOBS)) == ["index", "names", "settings.json", "texts"]
    shutil.rmtree(store)
    shutil.rmtree(tmp_path / "2.job")
    again = dedup([source, more], tmp_path / "3", dropped=tmp_path / "3d", store=copy, confirm="jaccard>=1")
    assert again.results == 0
    kept_names = {line.split("\t")[1] for line in lines_of(tmp_path / "3d")}
    assert kept_names == {f"{source}:{number}" for number in (1, 2, 4, 5, 6, 10)} | {f"{more}:{n}" for n in (1, 2)}


def test_what_is_recovered_has_its_texts_or_tells_that_they_are_lost(tmp_path: Path, source: Path) -> None:
    store, new = tmp_path / "s.fpstore", tmp_path / "new.fpstore"
    dedup([source], tmp_path / "1", store=store, confirm="jaccard>=1")
    assert fpstore.recover(store, new).complete
    assert dedup([source], tmp_path / "2", dropped=tmp_path / "2d", store=new, confirm="jaccard>=1").results == 0
    assert {line.split("\t")[1] for line in lines_of(tmp_path / "2d")} == {f"{source}:{n}" for n in (1, 2, 4, 5, 6, 10)}
    (store / notes.JOBS / ledger.SETTINGS).write_text(DEEP)
    found = fpstore.recover(store, tmp_path / "other.fpstore")
    assert not found.complete
    (why,) = found.unknown
    assert re.match(r"texts or clusters of jobs are lost: .*json: found no settings", why)
    assert rows_of(tmp_path / "other.fpstore") == rows_of(store)
    assert not (tmp_path / "other.fpstore" / notes.JOBS).exists()


def test_names_that_claim_a_size_take_no_room_in_a_copy(tmp_path: Path, source: Path) -> None:
    store, copy = tmp_path / "s.fpstore", tmp_path / "copy.fpstore"
    dedup([source], tmp_path / "1", store=store, confirm="jaccard>=1")
    names = store / notes.JOBS / "names"
    data = names.read_bytes()
    os.truncate(names, 1 << 40)
    with fpstore.open(store) as opened:
        opened.copy(copy)
    copied = copy / notes.JOBS / "names"
    assert copied.stat().st_size == 1 << 40
    assert copied.stat().st_blocks < 1 << 11
    with copied.open("rb") as file:
        assert file.read(len(data) + 1) == data + b"\0"


def test_a_copy_of_texts_goes_with_its_index_whatever_a_job_does_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "s.fpstore"
    dedup([write_jsonl(tmp_path / "0.jsonl", ["q q", "w w w"])], tmp_path / "0", store=store, confirm="jaccard>=1")
    names, index = store / notes.JOBS / "names", store / notes.JOBS / ledger.INDEX
    whole = names.read_bytes(), index.read_bytes()
    copy_file = notes._copy_file
    times: list[int] = []

    def copied(source: Folder, target: Folder, name: str) -> None:
        copy_file(source, target, name)
        if name == "names" and not times:  # cut back, and something else appended
            times.append(1)
            other = np.frombuffer(whole[1], dtype=ledger.ENTRY).copy()
            other["fingerprint"][1] = 5
            other["name_end"][1] -= 1
            index.write_bytes(other.tobytes())
            names.write_bytes(whole[0][:-1])

    monkeypatch.setattr(notes, "_copy_file", copied)
    with fpstore.open(store) as opened:
        opened.copy(tmp_path / "copy.fpstore")
    for name in ("names", ledger.INDEX):
        assert (tmp_path / "copy.fpstore" / notes.JOBS / name).read_bytes() == (store / notes.JOBS / name).read_bytes()


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_nothing_of_a_job_is_for_more_than_the_store_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, mode: int
) -> None:
    store = tmp_path / "s.fpstore"
    fpstore.create(store, recipe=DEFAULT_RECIPE, mode=mode).close()
    before = os.umask(0)
    try:
        unfinished(monkeypatch, tmp_path, source)
    finally:
        os.umask(before)
    for path in [store / notes.JOBS]:
        assert stat.S_IMODE(path.stat().st_mode) == mode
        for file in path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == mode & 0o666
    assert stat.S_IMODE((tmp_path / "out.job").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["names", "texts", "index", "settings.json"])
def test_a_link_in_a_record_is_not_followed(tmp_path: Path, source: Path, name: str) -> None:
    store, mine = tmp_path / "s.fpstore", tmp_path / "mine"
    mine.write_text("mine")
    dedup([source], tmp_path / "1", store=store, confirm="jaccard>=1")
    (store / notes.JOBS / name).unlink()
    (store / notes.JOBS / name).symlink_to(mine)
    with pytest.raises(JobError, match=f"^{store / notes.JOBS / name}: file: found what is not a regular file"):
        dedup([source], tmp_path / "2", store=store, confirm="jaccard>=1")
    assert mine.read_text() == "mine"


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path, source: Path) -> None:
    store, mine, name = tmp_path / "s.fpstore", tmp_path / "mine", notes.JOBS
    mine.mkdir()
    dedup([source], tmp_path / "1", store=store)
    shutil.rmtree(store / name)
    (store / name).symlink_to(mine)
    with pytest.raises(JobError, match=f"^{store / name}"):
        dedup([source], tmp_path / "2", store=store)
    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("bits", [64, 128, 256])
def test_wide_fingerprints_take_their_words_in_a_record(tmp_path: Path, bits: int) -> None:
    recipe = dataclasses.replace(DEFAULT_RECIPE, bits=bits)
    texts = write_jsonl(tmp_path / "a.jsonl", ["one two three four five"])
    dedup([texts], tmp_path / "out", store=tmp_path / "s", recipe=recipe, confirm="default")
    (jobs,) = (tmp_path / "s").glob("jobs")
    settings, index = json.loads((jobs / "settings.json").read_text()), (jobs / "index").read_bytes()
    words = bits // 64
    assert settings.get("words") == (None if words == 1 else words)
    assert len(index) == 48 + 8 * (words - 1)
    told = struct.unpack(f"<{words}Q", index[8 : 8 + 8 * words])
    whole = sum(word << 64 * place for place, word in enumerate(reversed(told)))
    assert whole == recipe.fingerprint("one two three four five")


def test_what_the_format_page_says_of_a_record(tmp_path: Path) -> None:
    store, source = tmp_path / "s.fpstore", write_jsonl(tmp_path / "in.jsonl", ["caf\u00e9 noir", "x"])
    dedup([source], tmp_path / "1", store=store, confirm="jaccard>=1")
    names = store / notes.JOBS
    assert sorted(os.listdir(names)) == ["index", "names", "settings.json", "texts"]
    with fpstore.open(store) as opened:
        settings = {"version": 4, "texts": True, "store": opened.identity}
    crc = crc32c(json.dumps(settings, sort_keys=True).encode())
    assert json.loads((names / "settings.json").read_text()) == settings | {"crc": crc}
    keys, index = fingerprints(["caf\u00e9 noir", "x"]), (names / "index").read_bytes()
    called, text = f"{source}:1".encode(), "caf\u00e9 noir".encode()
    assert struct.unpack("<4Q4I", index[:48]) == (
        *(1 << 63, keys[0], len(called), 10, 0),
        *(crc32c(called), crc32c(text), crc32c(index[:44])),
    )
    assert struct.unpack("<4Q4I", index[48:]) == (
        *((1 << 63) + 1, keys[1], 2 * len(called), 11, 0),
        *(crc32c(called + f"{source}:2".encode()), crc32c(text + b"x"), crc32c(index[:92])),
    )
    assert (names / "names").read_text() == f"{source}:1{source}:2"
    assert (names / "texts").read_bytes() == "caf\u00e9 noirx".encode()


# --- The core ---


def test_rows_are_removed_one_by_one(tmp_path: Path) -> None:
    rows = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]
    fpstore.create(tmp_path / "s").close()
    with fpstore.Store(tmp_path / "s", "w", "batch", LivingSizes(flush_rows=4, deferred_rows=100)) as store:
        add_rows(store, rows)
        store.add([1, 4], ids=[9, 9])
        store.remove(fingerprints=[1, 2, 7, 3], ids=[2, 1, 7, 4])
        expected = {(1, 1), (2, 2), (3, 3), (1, 9), (4, 9)}
        assert {(m.fingerprint, m.id) for key in (1, 2, 3, 4, 7) for m in store.probe(key, max_distance=0)} == expected
        with pytest.raises(ValueError, match="1 ids for 2 fingerprints"):
            store.remove(fingerprints=[1, 2], ids=[2])
    assert rows_of(tmp_path / "s") == expected


def test_the_asker_of_a_note_is_that_very_job(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        assert notes.abandoned(folder, "one", None) is None
        notes.remove_note(folder)
        job = tmp_path / "k.job"
        note = Note("one", "job", str(job), 3, 7)
        notes.write_note(folder, note)
        assert notes.read_note(folder) == note
        assert notes.abandoned(folder, "one", Asker("job", "anywhere")) is None
        assert notes.abandoned(folder, "one", None) == note
        job.write_text("no folder")
        assert notes.abandoned(folder, "one", None) == note
        job.unlink()
        job.mkdir()
        (job / notes.JOURNAL).write_text(json.dumps({"job": "another"}))
        assert notes.abandoned(folder, "one", None) == note
        (job / notes.JOURNAL).write_text(json.dumps({"job": "job"}))
        with (job / notes.MARK).open("w") as mark:
            for asker in (None, Asker("other", str(job))):
                with pytest.raises(JobError, match="is not finished"):
                    notes.abandoned(folder, "one", asker)
            assert lock_file(mark.fileno(), fcntl.F_WRLCK, wait=False)
            told = f"a process is at the job {job}, and only that job may write here until it has ended"
            for asker in (None, Asker("other", str(job))):
                with pytest.raises(StoreLocked, match=f"^{re.escape(f'{tmp_path}: {told}')}$"):
                    notes.abandoned(folder, "one", asker)
        (job / notes.MARK).unlink()
        with pytest.raises(JobError, match="is not finished"):
            notes.abandoned(folder, "one", None)


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_a_job_that_has_let_go_of_the_store_and_has_yet_to_end_is_waited_for(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, job: str, texts: bool
) -> None:
    """Nobody writes there, and its note is not gone: its end is a moment away, so that it is not to be run again."""
    store, module = tmp_path / "s.fpstore", import_module(f"fpstore.jobs.{job}")
    run: Callable[..., Any] = getattr(fpstore.jobs, job)
    confirm = "jaccard>=0.5" if texts else None
    original, seen = module.release, []
    refuses: list[Callable[[], Any]] = [
        lambda: fpstore.open(store, "w"),
        lambda: run([source], tmp_path / "2", store=store),
    ]

    def beside(*given: Any, **more: Any) -> None:
        command: list[str | Path] = [sys.executable, "-m", "fpstore", "remove", store, "--id", "0"]
        for refused in refuses:
            with pytest.raises(StoreLocked, match=r"a process is at the job .*1\.job, and only that job may write"):
                refused()
        seen.append(subprocess.run(command, capture_output=True).returncode)
        original(*given, **more)

    monkeypatch.setattr(module, "release", beside)
    run([source], tmp_path / "1", store=store, confirm=confirm)
    assert seen == [4]
    monkeypatch.undo()
    run([source], tmp_path / "2", store=store, confirm=confirm)


def test_a_store_that_goes_as_a_job_begins_was_changed(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, original = tmp_path / "s.fpstore", dedup_job.standing_workplace
    dedup([source], tmp_path / "1", store=store)

    def gone_before(*given: Any, **more: Any) -> Any:
        store.rename(tmp_path / "elsewhere")
        return original(*given, **more)

    monkeypatch.setattr(dedup_job, "standing_workplace", gone_before)
    lexists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: path == store or lexists(path))  # it goes just behind that
    with pytest.raises(StoreChanged, match=r"found no store, expected the one that was there .* run it again$"):
        dedup([source], tmp_path / "2", store=store)


def test_the_end_of_a_note_is_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        notes.write_note(folder, Note("one", "job", "k.job", 3, 7))
        synced = []
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.fstat(fd).st_ino, os.listdir(fd))))
        notes.remove_note(folder)
        assert synced == [((tmp_path / notes.JOBS).stat().st_ino, [])]


def test_a_store_whose_ids_come_to_their_end_says_so(tmp_path: Path, source: Path) -> None:
    store = tmp_path / "s.fpstore"
    make_store(store, "uint64")
    dedup([source], tmp_path / "1", store=store, confirm=None)
    with fpstore.open(store, "w") as opened:
        opened.add([2**64 - 1], ids=[2**64 - 3])
    more = write_jsonl(tmp_path / "more.jsonl", ["a b c d", "e f g h", "i j k l", "m n o p"])
    with pytest.raises(ValueError, match="found no id left above the largest, expected room for more"):
        dedup([more], tmp_path / "2", store=store, confirm=None)


def test_a_store_that_is_replaced_forgets_its_texts_and_leaves_what_a_user_put_there(
    tmp_path: Path, source: Path
) -> None:
    store = tmp_path / "s.fpstore"
    dedup([source], tmp_path / "1", store=store, confirm="jaccard>=1")
    (store / notes.JOBS / "mine.txt").write_text("mine")
    (store / notes.JOBS / "index.new").write_text("of a process that died")
    fpstore.build(store, [1], force=True).close()
    assert [path.name for path in (store / notes.JOBS).iterdir()] == ["mine.txt"]


# --- A store that appears as the job begins ---


@pytest.mark.parametrize("job", ["dedup", "cluster"])
@pytest.mark.parametrize("is_seen", [False, True])
def test_a_store_that_another_process_makes_as_a_job_begins_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, is_seen: bool
) -> None:
    """It may be of other settings. is_seen: it is there when the job looks, though not when it settled on its own."""
    path, module = tmp_path / "store", import_module(f"fpstore.jobs.{'grouping' if job == 'cluster' else job}")
    source = write_jsonl(tmp_path / "in.jsonl", ["some words", "other words that are here"])
    run: Callable[..., Any] = getattr(fpstore.jobs, job)

    def make() -> None:
        fpstore.create(path, max_distance=1, recipe=DEFAULT_RECIPE, id_type="uint64").close()

    def later(place: Any, name: str) -> None:
        original = getattr(place, name)

        def made_before(*given: Any, **more: Any) -> Any:
            make()
            return original(*given, **more)

        monkeypatch.setattr(place, name, made_before)

    if is_seen:
        later(module, "standing_workplace")
    else:
        later(import_module("fpstore.jobs.standing"), "_create")
    with pytest.raises(StoreChanged, match=r"made since this job began, expected .* run it again$"):
        run([source], tmp_path / "out", store=path, max_distance=2)
    monkeypatch.undo()
    with fpstore.open(path) as store:
        assert store.count() == 0
    with pytest.raises(ValueError, match="max_distance"):
        run([source], tmp_path / "out", store=path, max_distance=2)


@pytest.mark.slow
def test_of_first_jobs_at_once_all_but_one_end_with_the_status_that_says_to_try_again(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [f"document {number} of some words" for number in range(50)])
    for attempt in range(3):
        store = tmp_path / f"store-{attempt}"
        begun = [
            subprocess.Popen(
                [sys.executable, "-m", "fpstore", "dedup", source, "-o", f"{store}-{number}.jsonl", "--store", store],
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(3)
        ]
        told = [process.communicate(timeout=100)[1] for process in begun]
        statuses = [process.returncode for process in begun]
        assert set(statuses) <= {0, 4}, told
        assert 0 in statuses, told
        with fpstore.open(store) as opened:
            assert opened.count("rows") == 50
