"""What a job does behind its back: results are written and committed beside each other, and each in its order."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs_model import lines_of, write_jsonl

from fpstore import jobs
from fpstore.disk import Folder
from fpstore.jobs import corpus, journal
from fpstore.jobs.behind import Behind
from fpstore.jobs.files import AppendFile, write_json
from fpstore.jobs.journal import Job
from fpstore.jobs.runs import FirstRun
from fpstore.notes import JOURNAL

NEAR: dict[str, Any] = {"max_distance": 11}
DOCUMENTS = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9} a b c d e" for i in range(60)]
_SECONDS = 30


def run(source: Path, name: str, *, threads: int = 2) -> jobs.DedupSummary:
    out = source.parent / name
    return jobs.dedup([source], out, dropped=f"{out}.tsv", threads=threads, **NEAR)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of documents, in batches that are committed each."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    return write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)


def test_results_are_written_while_a_commit_is_under_way() -> None:
    behind, given, written = Behind(), threading.Event(), threading.Event()
    done: list[str] = []

    def commit() -> None:
        assert written.wait(_SECONDS)
        done.append("committed")

    def write() -> None:
        done.append("written")
        written.set()

    def begin() -> None:
        behind.commit(commit)
        given.set()

    with behind.waited_for():
        behind.write(begin)
        assert given.wait(_SECONDS)
        behind.write(write)
    behind.end()
    assert done == ["written", "committed"]


def test_who_has_time_writes_what_nothing_is_before() -> None:
    behind, go_on, order = Behind(), threading.Event(), list[tuple[int, bool]]()
    own = threading.get_ident()

    def note(number: int) -> None:
        order.append((number, threading.get_ident() == own))

    def wait() -> None:
        assert go_on.wait(_SECONDS)
        note(1)

    with behind.waited_for():
        behind.write(lambda: note(0), has_time=True)
        behind.write(wait)
        behind.write(lambda: note(2), has_time=True)
        go_on.set()
        behind.wait_for_writes()
        behind.write(lambda: note(3), has_time=True)
    behind.end()
    assert order == [(0, True), (1, False), (2, False), (3, True)]


def test_nothing_is_written_behind_what_the_caller_failed_to_write() -> None:
    behind, written = Behind(), list[int]()

    def fail() -> None:
        raise OSError(errno.ENOSPC, "no room")

    with pytest.raises(OSError, match="no room"):
        behind.write(fail, has_time=True)
    for has_time in (False, True):
        behind.write(lambda: written.append(1), has_time=has_time)
    behind.wait()
    behind.end()
    assert written == []


@pytest.mark.parametrize("writes", [False, True])
def test_a_commit_begins_when_the_one_before_is_done(writes: bool) -> None:
    """Whether the caller writes, or another thread does."""
    behind, at_work, most = Behind(), 0, 0
    order: list[int] = []

    def commit(number: int) -> Callable[[], None]:
        def work() -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            threading.Event().wait(0.02)
            order.append(number)
            at_work -= 1

        return work

    with behind.waited_for():
        for number in range(5):
            if writes:
                behind.write(lambda number=number: behind.commit(commit(number)))  # type: ignore[misc]
            else:
                behind.commit(commit(number))
    behind.end()
    assert (order, most) == ([0, 1, 2, 3, 4], 1)


def test_nothing_is_written_behind_a_commit_that_is_known_to_have_failed() -> None:
    behind, failed = Behind(), threading.Event()
    written: list[int] = []

    def fail() -> None:
        failed.set()
        raise OSError(errno.EIO, "a disk that fails")

    def write(number: int) -> None:
        behind._commits.wait()
        written.append(number)

    def work() -> None:
        with behind.waited_for():
            behind.write(lambda: behind.commit(fail))
            for number in range(100):
                behind.write(lambda number=number: write(number))  # type: ignore[misc]

    with pytest.raises(OSError, match="a disk that fails"):
        work()
    behind.end()
    assert failed.is_set()
    assert written in ([], [0])


def failing_syncs(patch: pytest.MonkeyPatch, is_one: Callable[[AppendFile], bool], number: int) -> None:
    """Have the system fail to make a file durable when it is asked for that so often."""
    sync, count = AppendFile.sync, 0

    def fail(file: AppendFile) -> None:
        nonlocal count
        if is_one(file):
            count += 1
            if count == number:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))
        sync(file)

    patch.setattr(AppendFile, "sync", fail)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("which", ["out.job/part", "out.tsv.job/part", "out.job/work/documents/index"])
def test_a_disk_that_fails_behind_ends_the_job_which_goes_on_from_its_last_commit(
    source: Path, monkeypatch: pytest.MonkeyPatch, which: str, number: int, threads: int
) -> None:
    run(source, "whole")
    path = source.parent / which
    with monkeypatch.context() as patch:
        failing_syncs(patch, lambda file: file.path == path, number)
        with pytest.raises(OSError, match="Input/output error") as caught:
            run(source, "out", threads=threads)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    assert (source.parent / "out.job" / JOURNAL).exists() is (number > 1)
    with Job([source.parent / "other"], {}, [], force=False) as job:
        assert job.state is None
    found = run(source, "out", threads=threads)
    assert found.documents == len(DOCUMENTS)
    for name in ("{}", "{}.tsv"):
        assert lines_of(source.parent / name.format("out")) == lines_of(source.parent / name.format("whole"))


def test_a_disk_with_no_room_for_a_new_result_is_told_of_by_its_whole_path(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def full(path: Any, flags: int, *given: Any, **more: Any) -> int:
        if path == "part" and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return opened(path, flags, *given, **more)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left") as caught:
        run(source, "out")
    assert caught.value.filename == str(source.parent / "out.job" / "part")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_journal_tells_of_no_more_than_was_made_durable_while_results_grow(
    source: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Each result is written to while a commit is under way, as that waits for it."""
    synced: dict[Path, int] = {}
    grown: list[bool] = []
    sync = AppendFile.sync

    def noted(file: AppendFile) -> None:
        length = file.length
        sync(file)
        synced[file.path] = length

    def told(folder: Folder, name: str, record: dict[str, Any]) -> None:
        if name == JOURNAL:
            threading.Event().wait(0.02)
            paths = [source.parent / "out.job" / "part", source.parent / "out.tsv.job" / "part"]
            assert all(length <= synced[path] for length, path in zip(record["lengths"], paths, strict=True))
            grown.append(paths[0].stat().st_size > record["lengths"][0])
        write_json(folder, name, record)

    monkeypatch.setattr(AppendFile, "sync", noted)
    monkeypatch.setattr(journal, "write_json", told)
    run(source, "out", threads=threads)
    assert any(grown)


def test_a_process_that_is_forked_while_a_commit_is_under_way_has_no_part_in_it(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do threads of its parent keep it from a job of its own."""
    run(source, "whole")
    commit, decide = Job.commit, FirstRun._decide
    begun, forked = threading.Event(), threading.Event()
    states: list[int] = []
    decided = 0

    def waiting(job: Job, *given: Any, **more: Any) -> None:
        begun.set()
        assert forked.wait(_SECONDS)
        commit(job, *given, **more)

    def fork(own: FirstRun, *given: Any, **more: Any) -> Any:
        nonlocal decided
        decided += 1
        if decided == 3:  # the first batch is to be committed without more from here
            assert begun.wait(_SECONDS)
            if (child := os.fork()) == 0:
                patch.undo()
                try:
                    os._exit(0 if run(source, "child").documents == len(DOCUMENTS) else 1)
                finally:
                    os._exit(2)
            states.append(os.waitpid(child, 0)[1])
            forked.set()
        return decide(own, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Job, "commit", waiting)
        patch.setattr(FirstRun, "_decide", fork)
        run(source, "out")
    assert states == [0]
    for name in ("out", "child"):
        assert lines_of(source.parent / name) == lines_of(source.parent / "whole")
