"""The results of jobs: each is one job's at a time, nothing of a user goes, and what is done is known as done."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs_model import interrupt, lines_of, write_jsonl

import fpstore
from fpstore.disk import Folder
from fpstore.jobs import JobError, cluster, components, corpus, dedup, document_pairs, own, record, runs
from fpstore.jobs.claims import Claim
from fpstore.jobs.journal import Job
from fpstore.jobs.record import record_of

DOCUMENTS = ["a b c d e", "x", "a b c d e", "", "y z", "!", "x", "y z", "", "last one of them"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"in.jsonl", "other.jsonl", "s.fpstore"}


def stop_before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, work: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            work()


# --- One job for a result ---


def test_two_jobs_at_a_time_do_not_write_one_result(tmp_path: Path, source: Path) -> None:
    shared = tmp_path / "shared"
    with (
        Job([tmp_path / "1", shared], {}, [], force=False),
        pytest.raises(JobError, match=rf"^{shared}\.job: this process is at this job already$"),
    ):
        dedup([source], tmp_path / "2", dropped=shared)
    assert left_in(tmp_path) == set()
    dedup([source], tmp_path / "2", dropped=shared)
    assert len(lines_of(shared)) == 4


@pytest.mark.parametrize("other", ["dropped", "kept"])
@pytest.mark.parametrize("mine", ["dropped", "kept"])
def test_a_result_of_an_interrupted_job_is_that_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, mine: str, other: str
) -> None:
    def work(name: str, role: str, **options: Any) -> Any:
        shared, own = tmp_path / "shared", tmp_path / f"own of {name}"
        kept, dropped = (shared, own) if role == "kept" else (own, shared)
        return dedup([source], kept, dropped=dropped, **options)

    interrupt(monkeypatch, lambda: work("mine", mine), 2)
    told = "a job was interrupted here" if mine == "kept" else r"it is a result of the interrupted job .*mine\.job"
    if mine == other == "kept":
        with pytest.raises(ValueError, match="found results"):
            work("other", other)
    else:
        with pytest.raises(JobError, match=rf"shared\.job: {told}"):
            work("other", other)
    expected = work("other", other, force=True)
    assert expected.results == 6
    results = (tmp_path / "shared").read_bytes(), (tmp_path / "own of other").read_bytes()
    if mine == "dropped":
        with pytest.raises(JobError, match=r"shared\.job: used by another job since .*mine\.job was interrupted"):
            work("mine", mine)
    else:  # it has lost its journal
        with pytest.raises(FileExistsError):
            work("mine", mine)
    assert (tmp_path / "shared").read_bytes() == results[0]
    work("mine", mine, force=True)
    assert (tmp_path / "own of other").read_bytes() == results[1]


def test_results_may_lie_in_different_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    (tmp_path / "d").mkdir()
    dropped = tmp_path / "d" / "dropped"
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept", dropped=dropped), 2)
    assert (tmp_path / "d" / "dropped.job" / "part").stat().st_size
    assert {path.name for path in (tmp_path / "kept.job").iterdir()} == {"job.json", "journal.json", "part", "work"}
    dedup([source], tmp_path / "kept", dropped=dropped)
    assert (len(lines_of(tmp_path / "kept")), len(lines_of(dropped))) == (6, 4)
    assert os.listdir(tmp_path / "d") == ["dropped"]


def test_a_result_called_as_a_part_is_one_like_any_other(tmp_path: Path, source: Path) -> None:
    dedup([source], tmp_path / "part", dropped=tmp_path / "packed")
    assert (len(lines_of(tmp_path / "part")), len(lines_of(tmp_path / "packed"))) == (6, 4)


# --- Nothing of a user ---


@pytest.mark.parametrize("force", [False, True])
def test_files_and_folders_of_a_user_stay(tmp_path: Path, source: Path, force: bool) -> None:
    (tmp_path / "kept.part").write_text("mine")
    dedup([source], tmp_path / "kept", force=force)
    assert (tmp_path / "kept.part").read_text() == "mine"
    (tmp_path / "k.job" / "work").mkdir(parents=True)
    (tmp_path / "k.job" / "journal.json").write_text("mine")
    (tmp_path / "k.job" / "work" / "thesis").write_text("mine")
    for mark in (None, "", "mine", '{"made by": "me", "identity": "0"}', "[]"):
        if mark is not None:
            (tmp_path / "k.job" / "job.json").write_text(mark)
        with pytest.raises(JobError, match=r"k\.job: found a folder that no job made, expected nothing; move it away"):
            dedup([source], tmp_path / "k", force=force)
        assert (tmp_path / "k.job" / "job.json").exists() == (mark is not None)
    assert (tmp_path / "k.job" / "work" / "thesis").read_text() == "mine"
    (tmp_path / "f.job").write_text("mine")
    (tmp_path / "l.job").symlink_to(tmp_path / "k.job")
    for name in ("f", "l"):
        with pytest.raises(JobError, match=rf"{name}\.job: folder: found something else, expected a folder"):
            dedup([source], tmp_path / name, force=force)
    assert not {"k", "f", "l"} & left_in(tmp_path)


def test_what_somebody_keeps_in_the_folder_of_a_job_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept"), 2)
    (tmp_path / "kept.job" / "mine").write_text("mine")
    dedup([source], tmp_path / "kept")
    assert os.listdir(tmp_path / "kept.job") == ["mine"]


def test_an_empty_folder_is_used(tmp_path: Path, source: Path) -> None:
    (tmp_path / "kept.job").mkdir()
    dedup([source], tmp_path / "kept")
    assert left_in(tmp_path) == {"kept", ".kept.done"}


@pytest.mark.parametrize("name", ["journal.json", "part", "work", "job.json", "journal.json.new"])
def test_a_link_in_the_folder_of_a_job_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, name: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir() if name == "work" else mine.write_text("mine")
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept"), 2)
    path = tmp_path / "kept.job" / name
    if path.exists():
        path.rename(tmp_path / "aside")
    path.symlink_to(mine)
    with pytest.raises(JobError, match=f"^{path}: (file: found what is not|folder: found something else)"):
        dedup([source], tmp_path / "kept")
    assert list(mine.iterdir()) == [] if name == "work" else mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["store", "votes"])
def test_a_link_among_what_a_job_needs_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, name: str
) -> None:
    store = tmp_path / "s.fpstore"
    dedup([source], tmp_path / "0", store=store)
    with fpstore.open(store) as opened:
        before = [rows.fingerprint.tolist() for rows in opened.rows()]
    (tmp_path / "mine").write_text("mine")
    monkeypatch.setattr(own, "MOST_HELD", 1)  # more go to a store

    def work() -> Any:
        return dedup([source], tmp_path / "1") if name == "store" else _centers(source, tmp_path / "1")

    interrupt(monkeypatch, work, 2)
    path = tmp_path / "1.job" / "work" / name
    path.rename(tmp_path / "aside")
    path.symlink_to(store if name == "store" else tmp_path / "mine")
    if name == "store":
        with pytest.raises(
            JobError, match=r"found store [0-9a-f]{32}, expected store [0-9a-f]{32}, which the interrup"
        ):
            work()
    else:
        work()
    with fpstore.open(store) as opened:
        assert [rows.fingerprint.tolist() for rows in opened.rows()] == before
    assert (tmp_path / "mine").read_text() == "mine"


def _centers(source: Path, out: Path) -> Any:
    return cluster([source], out, update_center=True)


def test_a_store_of_the_jobs_own_that_went_is_no_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    monkeypatch.setattr(own, "MOST_HELD", 1)  # more go to a store
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "1"), 2)
    (tmp_path / "1.job" / "work" / "store").rename(tmp_path / "aside")
    with pytest.raises(
        JobError, match=r"store: found no store, expected the one that the interrupted job .*1\.job adds"
    ):
        dedup([source], tmp_path / "1")


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "device", "folder"])
@pytest.mark.parametrize("role", ["kept", "dropped"])
def test_a_result_is_a_file_or_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, kind: str, role: str
) -> None:
    place, target = tmp_path / "place", tmp_path / "target"
    if kind == "link":
        target.write_text("mine")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        # A file that is said to be one, and never a device of the machine: where the check is broken, as by a planted
        # mistake, this test replaces what it names, and root may replace /dev/null.
        place.write_text("mine")
        monkeypatch.setattr(os, "lstat", device_at(place))
    else:
        place.symlink_to(target)
    results: dict[str, Any] = {"output": tmp_path / "kept", "dropped": tmp_path / "dropped"}
    results["output" if role == "kept" else role] = place
    before = place.stat(follow_symlinks=False)
    said = {"folder": "a folder, expected a file"}.get(
        kind, rf"{place}: found a .*{kind.split()[-1]}, expected a regular file or"
    )
    with pytest.raises(ValueError, match=said):
        dedup([source], **results, force=True)
    after = place.stat(follow_symlinks=False)
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert left_in(tmp_path) <= {"place", "target"}


def device_at(place: Path) -> Callable[..., os.stat_result]:
    """An os.lstat that takes the file at place for a device of characters."""
    lstat = os.lstat

    def seen(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        found = lstat(path, *arguments, **options)
        if os.fspath(path) != str(place):
            return found
        return os.stat_result((stat.S_IFCHR | 0o666, *found[1:]))

    return seen


def test_a_result_gets_the_mode_of_the_umask(tmp_path: Path, source: Path) -> None:
    before = os.umask(0o027)
    try:
        dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (modes["kept"], modes["dropped"], modes[".kept.done"]) == (0o640, 0o640, 0o600)


def test_what_appears_where_a_result_goes_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    interrupt(monkeypatch, lambda: dedup([source], kept, dropped=dropped), 2)
    dropped.write_text("mine")
    with pytest.raises(FileExistsError, match="appeared while the job was at work; move it away and run the job again"):
        dedup([source], kept, dropped=dropped)
    assert dropped.read_text() == "mine"
    dropped.rename(tmp_path / "mine")
    dedup([source], kept, dropped=dropped)
    assert (len(lines_of(kept)), len(lines_of(dropped))) == (6, 4)


def test_what_was_to_be_replaced_is_so_however_often_the_job_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    (tmp_path / "kept").write_text("old")
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept", force=True), 2)
    assert (tmp_path / "kept").read_text() == "old"
    dedup([source], tmp_path / "kept")
    assert len(lines_of(tmp_path / "kept")) == 6


@pytest.mark.parametrize("before", ["old", None])
def test_force_replaces_what_was_there_when_it_was_given_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, before: str | None
) -> None:
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    if before is not None:
        dropped.write_text(before)
    interrupt(monkeypatch, lambda: dedup([source], kept, dropped=dropped, force=True), 2)
    dropped.write_text("somebody else's")
    when = "appeared while the job was at work" if before is None else "has changed since --force was given"
    for _ in range(2):
        with pytest.raises(FileExistsError, match=f"{when}; move it away and run the job again, without --force"):
            dedup([source], kept, dropped=dropped)
        assert dropped.read_text() == "somebody else's"
    dropped.rename(tmp_path / "theirs")
    dedup([source], kept, dropped=dropped)
    assert (len(lines_of(kept)), len(lines_of(dropped))) == (6, 4)


def test_a_result_that_is_gone_in_the_last_moment_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    def work() -> Any:
        return dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped")

    stop_before(monkeypatch, record, "write_record", work)
    (tmp_path / "dropped").unlink()
    with pytest.raises(JobError, match=r"dropped: found nothing, expected a result of [0-9]+ bytes; --force begins"):
        work()
    (tmp_path / "dropped").write_text("short")
    with pytest.raises(JobError, match=r"dropped: found 5, expected a result of [0-9]+ bytes"):
        work()


def test_results_have_their_names_on_the_disk_before_the_job_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    places = {"kept": tmp_path / "k", "dropped": tmp_path / "d"}
    for folder in places.values():
        folder.mkdir()
    known = {folder.stat().st_ino: role for role, folder in places.items()}
    on_disk, sync, forget = set(), os.fsync, Claim.forget

    def noted(fd: int) -> None:
        sync(fd)
        role = known.get(os.fstat(fd).st_ino)
        if role is not None and role in os.listdir(fd):
            on_disk.add(role)

    def forgotten(claim: Claim) -> None:
        if (claim.path / "journal.json").exists():
            assert on_disk == {"kept", "dropped"}
            on_disk.add("forgotten")
        forget(claim)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Claim, "forget", forgotten)
    dedup([source], places["kept"] / "kept", dropped=places["dropped"] / "dropped")
    assert "forgotten" in on_disk


def test_a_folder_that_goes_while_it_is_waited_for_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = Claim(tmp_path / "kept")
    opened = Folder.open_file
    gone: list[str] = []

    def late(folder: Folder, name: str, flags: int = os.O_RDONLY) -> int:
        fd = opened(folder, name, flags)
        if not gone:  # the one before is done between this one's opening and its lock
            gone.append(name)
            first.remove()
            first.close()
        return fd

    monkeypatch.setattr(Folder, "open_file", late)
    second = Claim(tmp_path / "kept")
    assert (tmp_path / "kept.job" / "job.json").exists()
    with pytest.raises(JobError, match="this process is at this job already"):
        Claim(tmp_path / "kept")
    second.remove()
    second.close()
    assert left_in(tmp_path) == set()


# --- Done ---


def test_a_job_that_was_done_says_so_and_does_nothing(tmp_path: Path, source: Path) -> None:
    works: dict[str, Callable[[], Any]] = {
        "dedup": lambda: dedup([source], tmp_path / "1", dropped=tmp_path / "1d"),
        "store": lambda: dedup([source], tmp_path / "2", store=tmp_path / "s.fpstore"),
        "longest": lambda: dedup([source], tmp_path / "3", keep="longest"),
        "cluster": lambda: cluster([source], tmp_path / "4"),
        "components": lambda: components([source], tmp_path / "5"),
        "pairs": lambda: document_pairs([source], tmp_path / "6"),
    }
    for name, work in works.items():
        first = work()
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.glob("[0-9]*")}
        again = work()
        assert (first.was_done, again.was_done) == (False, True), name
        assert (again.documents, again.results, again.text_bytes) == (first.documents, first.results, 0)
        assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.glob("[0-9]*")} == before


def test_what_was_done_is_done_no_more_when_anything_differs(tmp_path: Path, source: Path) -> None:
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"

    def work(**options: Any) -> Any:
        return dedup([source], kept, dropped=dropped, **options)

    work()
    with pytest.raises(FileExistsError, match="already there; --force replaces it"):
        work(max_distance=2)
    os.utime(source, ns=(0, 0))
    with pytest.raises(FileExistsError):
        work()
    assert not work(force=True).was_done
    assert work().was_done
    os.utime(dropped, ns=(0, 0))
    with pytest.raises(FileExistsError):
        work()
    kept.unlink()
    dropped.unlink()
    assert not work().was_done
    assert len(lines_of(kept)) == 6


@pytest.mark.parametrize("text", ["mine", "{}", "[]"])
def test_a_file_of_a_user_that_is_called_like_a_record_stays(tmp_path: Path, source: Path, text: str) -> None:
    path = record_of(tmp_path / "kept")
    path.write_text(text)
    dedup([source], tmp_path / "kept")
    assert path.read_text() == text
    with pytest.raises(FileExistsError):
        dedup([source], tmp_path / "kept")
    assert left_in(tmp_path) == {"kept", ".kept.done"}


def test_a_result_with_the_longest_name_has_no_record(tmp_path: Path, source: Path) -> None:
    kept = tmp_path / ("k" * 251)
    dedup([source], kept)
    assert left_in(tmp_path) == {kept.name}


@pytest.mark.slow
def test_what_was_read_from_standard_input_is_never_known_as_done(tmp_path: Path, source: Path) -> None:
    command = [sys.executable, "-m", "fpstore", "dedup", "-", "--format", "jsonl", "-o", str(tmp_path / "kept")]
    statuses = []
    for _ in range(2):
        with source.open("rb") as lines:
            statuses.append(subprocess.run(command, stdin=lines, stderr=subprocess.PIPE, check=False).returncode)
    assert statuses == [0, 2]


def test_force_does_not_empty_what_a_finished_job_kept(tmp_path: Path, source: Path) -> None:
    kept, store = tmp_path / "kept", tmp_path / "s.fpstore"
    dedup([source], kept, store=store)
    before = kept.read_bytes()
    told = "a job that is finished wrote it, and its documents are in the store: begun again it would drop all of them"
    options: list[dict[str, Any]] = [{}, {"max_distance": 2}, {"dropped": tmp_path / "d"}, {"keep": "longest"}]
    for each in options:
        with pytest.raises(JobError, match=f"^{kept}: {told}"):
            dedup([source], kept, store=store, force=True, **each)
    assert kept.read_bytes() == before
    assert dedup([source], kept, store=store).was_done
    kept.write_bytes(edited := before + b"{}\n")
    with pytest.raises(FileExistsError, match="already there; --force replaces it"):
        dedup([source], kept, store=store)
    with pytest.raises(JobError, match=f"^{kept}: {told}"):
        dedup([source], kept, store=store, force=True)
    assert kept.read_bytes() == edited
    # Other inputs, another store, or no store: that is what --force is for.
    other = write_jsonl(tmp_path / "other.jsonl", ["something new"])
    assert dedup([other], kept, store=store, force=True).results == 1
    assert dedup([source], kept, store=tmp_path / "t.fpstore", force=True).results == 6
    assert dedup([source], kept, force=True).results == 6
    kept.unlink()
    assert dedup([source], kept, store=store, force=True).results == 0


def test_force_does_not_empty_what_is_done_but_for_its_last_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    kept, store = tmp_path / "kept", tmp_path / "s.fpstore"
    stop_before(monkeypatch, Job, "finish", lambda: dedup([source], kept, store=store))
    with pytest.raises(JobError, match=r"kept\.job: this job is done but for its last step; run it without --force"):
        dedup([source], kept, store=store, force=True)
    assert dedup([source], kept, store=store).results == 6
    assert len(lines_of(kept)) == 6


def test_a_result_cannot_have_the_name_of_the_record(tmp_path: Path, source: Path) -> None:
    with pytest.raises(ValueError, match=r"\.kept\.done: found suffix \.done, expected one of"):
        dedup([source], tmp_path / "kept", dropped=tmp_path / ".kept.done")
    assert left_in(tmp_path) == set()


@pytest.mark.parametrize("step", ["publish", "write_record", "remove"])
def test_a_job_killed_in_its_last_moments_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, step: str
) -> None:
    def work() -> Any:
        return dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", store=tmp_path / "s.fpstore")

    stop_before(monkeypatch, record if step == "write_record" else Claim, step, work)
    assert (work().results, len(lines_of(tmp_path / "kept")), len(lines_of(tmp_path / "dropped"))) == (6, 6, 4)
    assert work().was_done
    assert left_in(tmp_path) == {"kept", "dropped", ".kept.done"}


# --- The longest ---


@pytest.mark.parametrize("change", ["text", "field", "name"])
def test_a_document_edited_between_two_readings_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    source = tmp_path / "in.jsonl"
    lines = [{"text": f"text number {number}", "field": 1} for number in range(8)]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    next_pass = runs.RankedRun._next_pass

    def edit(run: runs.RankedRun, name: str) -> None:
        next_pass(run, name)
        if change == "name":  # a line that is skipped, so that all names after it differ
            source.write_text("\n" + source.read_text())
        else:
            lines[4] |= {"text": "TEXT number 4"} if change == "text" else {"field": 2}
            source.write_text("".join(json.dumps(line) + "\n" for line in lines))

    number = 5 if change != "name" else 3
    told = rf"inputs have changed since they were measured: {source}:{number} is another document; --force begins again"
    with monkeypatch.context() as patch:
        patch.setattr(runs.RankedRun, "_next_pass", edit)
        with pytest.raises(JobError, match=told):
            dedup([source], tmp_path / "kept", keep="longest")
    assert not (tmp_path / "kept").exists()
    assert dedup([source], tmp_path / "other", keep="longest").documents == 8


@pytest.mark.parametrize("path", ["new/", "new/.", "..", "there/..", "there"])
@pytest.mark.parametrize(
    ("job", "role"),
    [
        (dedup, "output"),
        (dedup, "dropped"),
        (cluster, "output"),
        (cluster, "topics"),
        (components, "output"),
        (components, "topics"),
        (document_pairs, "output"),
    ],
)
def test_a_path_that_only_a_folder_has_is_no_result(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, job: Any, role: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=rf"{role}: found '{re.escape(path)}', a .*folder.*, expected a file"):
        job([source], **{"output": "kept", role: path})
    assert sorted(tmp_path.rglob("*")) == before
