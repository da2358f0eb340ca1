"""The process that workers are forked from: imports once, and leaves nobody behind, whoever is killed when."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from nursery_work import (
    Some,
    doubled,
    ended,
    fail,
    first_sleeps,
    forget,
    imported,
    parent_of,
    process_of,
    refuse_forks,
    threads_of,
)
from test_workers import wait_for

from fpstore import nursery as module
from fpstore.nursery import Nursery
from fpstore.text import DEFAULT_RECIPE, recipes
from fpstore.text.shared import ready_for
from fpstore.threads import Background
from fpstore.workers import WorkerEnded, Workers

pytestmark = pytest.mark.slow


def nursery_of(workers: Workers) -> Nursery:
    assert workers._nursery is not None
    return workers._nursery


def test_all_workers_are_children_of_one_process_that_has_what_they_need() -> None:
    with Workers(3, start_after=0) as workers:
        ready = partial(__import__, "turtledemo")
        assert set(workers.map(parent_of, range(30), ready=ready)) == {nursery_of(workers).pid}
        assert all(workers.map(imported, ["turtledemo"] * 9))
        every = [nursery_of(workers).pid, *(worker.pid for worker in workers._workers)]
    assert len({*every, os.getpid()}) == 5
    assert wait_for(every) == []


READY: dict[str, Callable[[], object]] = {
    "pages": ready_for(DEFAULT_RECIPE, html=True),
    "chinese": ready_for(recipes()["zh"], html=False),
    "module": Some().ready(),
    "tables": partial(__import__, "fpstore.cluster.building"),
}


@pytest.mark.parametrize("name", READY)
def test_who_forks_has_one_thread(name: str) -> None:
    """A lock that another thread held would stay closed in a fork."""
    with Workers(2, start_after=0) as workers:
        assert set(workers.map(threads_of, range(4), ready=READY[name])) == {1}


def test_workers_find_that_what_they_need_was_brought() -> None:
    packages = {"pages": "resiliparse", "chinese": "rjieba", "tables": "fpstore.cluster.building"}
    for name, package in packages.items():
        with Workers(2, start_after=0) as workers:
            assert all(workers.map(imported, [package] * 4, ready=READY[name])), name


@pytest.mark.parametrize("ready", [fail, partial(bytes, 1 << 16), bytes(1 << 16).upper])
def test_what_cannot_be_brought_is_for_the_work_to_tell(
    ready: Callable[[], object], capfd: pytest.CaptureFixture[str]
) -> None:
    with Workers(2, start_after=0) as workers:
        assert workers.map(doubled, range(9), ready=ready) == [2 * number for number in range(9)]
    assert "Traceback" not in capfd.readouterr().err


def test_workers_go_on_without_the_one_that_bore_them_and_are_followed() -> None:
    with Workers(2, start_after=0, tries=3) as workers:
        workers.map(process_of, range(8))
        first, every = nursery_of(workers), [worker.pid for worker in workers._workers]
        os.kill(first.pid, signal.SIGKILL)
        assert wait_for([first.pid]) == []
        assert set(workers.map(process_of, range(8))) <= set(every)
        for process in every:
            os.kill(process, signal.SIGKILL)
        assert workers.map(doubled, range(8)) == [2 * number for number in range(8)]
        assert nursery_of(workers) is not first
        every += [nursery_of(workers).pid, *(worker.pid for worker in workers._workers)]
    assert wait_for(every) == []


def test_a_worker_whose_nursery_went_too_is_one_clear_error() -> None:
    with Workers(2, start_after=0) as workers:
        workers.map(process_of, range(8))
        for process in [nursery_of(workers).pid, *(worker.pid for worker in workers._workers)]:
            os.kill(process, signal.SIGKILL)
            assert wait_for([process]) == [] or process != nursery_of(workers).pid
        told = r"^worker process \d+: found its end, and that of the process that began it, expected an answer$"
        with pytest.raises(WorkerEnded, match=told):
            workers.map(doubled, range(8))


def test_the_end_of_a_worker_is_heard_of_while_others_live() -> None:
    with Workers(2, start_after=0) as workers:
        workers.map(process_of, range(8))
        first, second = workers._workers
        assert second.pid
        os.kill(nursery_of(workers).pid, signal.SIGKILL)
        first.kill()
        assert module._has_news(first._fate, 10)


def test_a_nursery_that_is_killed_before_it_bears_is_followed_by_another(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with Workers(2, start_after=0, tries=3) as workers:
        begun = workers.begin(doubled, range(8), ready=partial(first_sleeps, str(mark)))
        while not mark.exists():
            time.sleep(0.001)
        os.kill(nursery_of(workers).pid, signal.SIGKILL)
        assert begun.results() == [2 * number for number in range(8)]


def test_a_worker_that_never_began_is_one_clear_error() -> None:
    with Workers(2, start_after=0) as workers:
        begun = workers.begin(doubled, range(8), ready=partial(time.sleep, 60))
        os.kill(nursery_of(workers).pid, signal.SIGKILL)
        told = "found that it never began, as the process that begins workers ended by signal 9, expected an answer"
        with pytest.raises(WorkerEnded, match=f"^worker process 0: {told}$"):
            begun.results()


def test_what_keeps_a_nursery_from_beginning_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fpstore").mkdir()
    (tmp_path / "fpstore" / "__init__.py").write_text("raise RuntimeError('no\\n\\n  such disk\\n')")
    monkeypatch.syspath_prepend(tmp_path)
    told = r"as the process that begins workers ended with status 1 \(RuntimeError: no such disk\), expected an answer$"
    with Workers(2, start_after=0) as workers, pytest.raises(WorkerEnded, match=told):
        workers.map(doubled, range(8))


def test_a_nursery_that_ends_while_it_imports_is_told_of() -> None:
    with Workers(2, start_after=0) as workers:
        begun = workers.begin(doubled, range(8), ready=partial(os._exit, 7))
        told = "^worker process 0: found that it never began, as the process that begins workers ended with status 7,"
        with pytest.raises(WorkerEnded, match=told):
            begun.results()


@pytest.mark.parametrize("given", [0, 1])
def test_where_no_more_processes_can_be_forked_those_there_are_do_the_work_or_this_one(given: int) -> None:
    with Workers(3, start_after=0) as workers:
        done = set(workers.map(process_of, range(8), ready=partial(refuse_forks, given)))
        assert len(done) == 1
        assert (os.getpid() in done) == (given == 0)
        assert set(workers.map(process_of, range(8))) == done


def test_who_follows_a_worker_and_is_refused_is_one_clear_error() -> None:
    with Workers(2, start_after=0, tries=2) as workers:
        begun = workers.begin(ended, [3] * 2, ready=partial(refuse_forks, 2))
        told = "^worker process 0: found that the system had no process to give, expected an answer$"
        with pytest.raises(WorkerEnded, match=told):
            begun.results()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def fill(opened: list[int]) -> None:
    while True:
        opened.append(os.dup(0))


def each_closed(opened: list[int]) -> None:
    for fd in opened:
        os.close(fd)


@pytest.mark.parametrize("free", range(6))
def test_who_has_too_many_files_open_for_a_worker_keeps_none_of_what_it_opened(free: int) -> None:
    """A worker takes six: two pipes, and a pair of sockets."""
    held = Nursery({}, "time", None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as others:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 50, hard))
        others.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        opened: list[int] = []
        others.callback(each_closed, opened)
        with pytest.raises(OSError, match="Too many open files"):
            fill(opened)
        each_closed(opened[:free])
        del opened[:free]
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                held.bear()
        opened.extend(os.dup(0) for _ in range(free))
    held.end(0.0)


def test_a_caller_that_ignores_the_end_of_children_hears_how_a_worker_ended() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Workers(2, start_after=0) as workers, pytest.raises(WorkerEnded, match="found its end with status 3"):
            workers.map(ended, [3])
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("missing", [("os", "pidfd_open"), ("signal", "pidfd_send_signal")])
def test_without_handles_of_processes_workers_live_and_are_killed(missing: tuple[str, str]) -> None:
    """Python may be built without, a kernel may lack them, a sandbox may forbid them."""
    with Workers(2, start_after=0) as workers:
        assert workers.map(doubled, range(8), ready=partial(forget, *missing)) == [2 * number for number in range(8)]
        first, second = workers._workers
        assert first._handle < 0
        first.kill()
        first.kill()
        assert first.end(time.monotonic() + 20) == "found its end by signal 9"
        first.kill()
        every = [nursery_of(workers).pid, first.pid, second.pid]
    assert wait_for(every) == []


def test_workers_are_stopped_while_they_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closing, stopped = threading.Event(), threading.Event()
    end = Nursery.end

    def slow(nursery: Nursery, deadline: float) -> None:
        nursery._control.close()
        closing.set()
        stopped.wait()
        end(nursery, deadline)

    monkeypatch.setattr(Nursery, "end", slow)
    workers = Workers(2, start_after=0)
    workers.map(doubled, range(8))
    closer = Background(workers.close)
    closing.wait()
    try:
        workers.stop()
    finally:
        stopped.set()
    closer.result()


def test_who_bears_no_more_is_told() -> None:
    held = Nursery({}, "time", None)
    os.kill(held.pid, signal.SIGKILL)
    assert wait_for([held.pid]) == []
    with pytest.raises(ConnectionError):
        held.bear()
    held.end(0.0)
    assert held._process.returncode == -signal.SIGKILL


def test_a_nursery_that_does_not_end_is_ended() -> None:
    held = Nursery({}, "time", partial(time.sleep, 60))
    held.end(time.monotonic() + 0.1)
    assert held._process.returncode == -signal.SIGKILL
    assert module.is_alone is False
