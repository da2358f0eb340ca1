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
    behind, written = Behind(), threading.Event()
    done: list[str] = []

    def commit() -> None:
        assert written.wait(_SECONDS)
        done.append("committed")

    with behind.waited_for(int):
        behind.commit(commit)
        behind.expect_none_failed()
        done.append("written")
        written.set()
    behind.end()
    assert done == ["written", "committed"]


def test_a_commit_begins_when_the_one_before_is_done() -> None:
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

    with behind.waited_for(int):
        for number in range(5):
            behind.commit(commit(number))
    behind.end()
    assert (order, most) == ([0, 1, 2, 3, 4], 1)


def test_nothing_is_written_behind_a_commit_that_is_known_to_have_failed(source: Path) -> None:
    written: list[int] = []

    def fail() -> None:
        raise OSError(errno.EIO, "a disk that fails")

    def work() -> None:
        with Job([source.parent / "out"], {}, [], force=False) as job, job.behind(int):
            job.write(lambda: written.append(0))
            job.commit_behind({}, fail)
            job._behind._commits.wait()
            job.write(lambda: written.append(1))

    with pytest.raises(OSError, match="a disk that fails"):
        work()
    assert written == [0]


def test_a_commit_that_failed_is_told_before_what_the_caller_met_later() -> None:
    behind, is_later = Behind(), threading.Event()

    def fail() -> None:
        assert is_later.wait(_SECONDS)
        raise OSError(errno.EIO, "a disk that fails")

    def work() -> None:
        with behind.waited_for(int):
            behind.commit(fail)
            is_later.set()
            raise LookupError("later")

    with pytest.raises(OSError, match="a disk that fails"):
        work()
    behind.end()


def test_a_commit_is_not_begun_behind_one_that_failed() -> None:
    behind, begun = Behind(), list[int]()

    def fail() -> None:
        raise OSError(errno.EIO, "a disk that fails")

    def work() -> None:
        with behind.waited_for(int):
            behind.commit(fail)
            behind.commit(lambda: begun.append(1))

    with pytest.raises(OSError, match="a disk that fails"):
        work()
    behind.end()
    assert begun == []


def test_what_was_decided_about_is_waited_for_in_the_context_of_who_writes_it() -> None:
    behind, waited = Behind(), list[int]()
    behind.wait_for_writes()
    with behind.waited_for(lambda: waited.append(0)):
        behind.wait_for_writes()
        assert waited == [0]
    behind.wait_for_writes()
    assert waited == [0]
    behind.end()


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
