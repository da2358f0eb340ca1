"""The engine of one machine: processes that are killed in the middle, callers that are, and what both leave."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from test_cluster import rows_of, some_keys, tasks_of
from test_workers import wait_for

import fpstore
from fpstore import cluster
from fpstore.cluster import gathering, local
from fpstore.cluster.local import run_here
from fpstore.cluster.parts import Part
from fpstore.cluster.searching import ProbeTask
from fpstore.disk import Folder
from fpstore.errors import JobError, StoreChanged
from fpstore.store import Store
from fpstore.workers import WorkerEnded, Workers

pytestmark = pytest.mark.slow
# More seconds than are worth a process.
LONG = 100.0
DEATHS = "deaths"


class Killed(ProbeTask):
    """A task whose process is killed in the middle, after part of it was written, as often as DEATHS has lines left."""

    def run(self, store: Store) -> int:
        deaths = self.folder / DEATHS
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            (self.folder / f"{self.maker.name}.half.new").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(store)


@dataclass(frozen=True)
class Where(ProbeTask):
    """A task that says which process did it."""

    def run(self, store: Store) -> int:
        (self.folder / f"{self.maker.task}.process").write_text(str(os.getpid()))
        (self.folder / f"{self.maker.task}.heap").write_text(os.environ.get("MALLOC_TRIM_THRESHOLD_", "as it is"))
        return super().run(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / "s"
    fpstore.build(path, some_keys(3000, 4)).close()
    return path


def gathered(tasks: list[ProbeTask], folder: Path) -> list[list[int]]:
    with Folder.open(folder) as home:
        parts = [Part.open(home, task.maker, 3) for task in tasks]
    chunks = [np.stack(list(chunk)) for chunk in gathering.gathered(parts, 3)]
    return [column.tolist() for column in np.concatenate(chunks, axis=1)]


def test_a_task_whose_processes_are_killed_twice_is_done_again(store: Path, tmp_path: Path) -> None:
    queries = some_keys(3000, 4)
    tasks = tasks_of(store, tmp_path, queries, 4, Killed)
    (tmp_path / DEATHS).write_text(str(local.TRIES - 1))
    run_here(tasks, 2, LONG)
    found = gathered(tasks, tmp_path)
    assert (tmp_path / DEATHS).read_text() == "0"
    with cluster.probe(store, queries, workers=1) as answer:
        expected = rows_of(list(answer))
    assert [rank >> 16 for rank in found[0]] == [row[0] for row in expected]
    assert found[1:] == [[row[1] for row in expected], [row[3] for row in expected]]


def test_a_task_whose_processes_are_killed_three_times_is_one_error_that_names_it(store: Path, tmp_path: Path) -> None:
    tasks = tasks_of(store, tmp_path, some_keys(3000, 4), 4, Killed)
    (tmp_path / DEATHS).write_text("9")
    told = rf"^task 1 of a probe of {store}: tried 3 times: worker process \d+: found its end by signal 9, expected an"
    with pytest.raises(JobError, match=told):
        run_here(tasks, 2, LONG)
    assert (tmp_path / DEATHS).read_text() == str(9 - local.TRIES)


def test_what_a_task_raises_is_raised_here(store: Path, tmp_path: Path) -> None:
    tasks = tasks_of(store, tmp_path, some_keys(3000, 4), 4)
    with fpstore.open(store, "w") as opened:
        opened.add([5], ids=[1 << 40])
    with pytest.raises(StoreChanged, match=f"^{store}: found store"):
        run_here(tasks, 2, LONG)


@pytest.mark.parametrize(("seconds", "workers", "here"), [(0.1, 2, True), (LONG, 1, True), (LONG, 2, False)])
def test_small_work_starts_no_process(store: Path, tmp_path: Path, seconds: float, workers: int, here: bool) -> None:
    tasks = tasks_of(store, tmp_path, some_keys(300, 4), 4, Where)
    run_here(tasks, workers, seconds)
    processes = {int(path.read_text()) for path in tmp_path.glob("*.process")}
    assert (processes == {os.getpid()}) == here == (os.getpid() in processes)
    heaps = {path.read_text() for path in tmp_path.glob("*.heap")}
    assert heaps == {"as it is" if here else str(256 << 20)}


def processes_of(engine: local.Local, tasks: list[ProbeTask], folder: Path) -> set[int]:
    engine(tasks, LONG)
    return {int(path.read_text()) for path in folder.glob("*.process")}


def test_the_processes_of_a_call_do_the_tasks_of_the_next_and_end_with_the_engine(store: Path, tmp_path: Path) -> None:
    queries = some_keys(300, 4)
    both = [(tasks_of(store, tmp_path / name, queries, 4, Where), tmp_path / name) for name in "ab"]
    with local.Local(workers=2) as engine:
        first, second = (processes_of(engine, *each) for each in both)
        assert second
        assert engine._team is not None
        assert first | second <= {worker.pid for worker in engine._team._workers}
    assert wait_for(sorted(first | second)) == []


def test_a_call_that_has_failed_leaves_the_next_new_processes(store: Path, tmp_path: Path) -> None:
    queries = some_keys(300, 4)
    bad = tasks_of(store, tmp_path / "bad", queries, 4, Where)
    with local.Local(workers=2) as engine:
        with pytest.raises(JobError, match=r"expected 0\.0\.1, as at the driver$"):
            engine([replace(task, version="0.0.1") for task in bad], LONG)
        assert processes_of(engine, tasks_of(store, tmp_path / "good", queries, 4, Where), tmp_path / "good")
        team = engine._team
        assert processes_of(engine, tasks_of(store, tmp_path / "more", queries, 4, Where), tmp_path / "more")
        assert engine._team is team


def test_a_stop_before_the_call_ends_it_before_any_task_is_done(store: Path, tmp_path: Path) -> None:
    tasks = tasks_of(store, tmp_path / "f", some_keys(300, 4), 4, Where)
    for seconds in (0.0, LONG):  # here, and by processes
        with local.Local(workers=2) as engine:
            engine.stop()
            with pytest.raises(JobError, match=rf"^found that nobody wants {len(tasks)} tasks any more"):
                engine(tasks, seconds)
    assert list((tmp_path / "f").glob("*.part")) == []


def test_the_store_stays_open_from_task_to_task_and_no_longer(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Store] = []
    opens = fpstore.open

    def watched(path: Path) -> Store:
        opened.append(opens(path))
        return opened[-1]

    queries = some_keys(300, 4)
    both = [tasks_of(store, tmp_path / name, queries, 4) for name in "ab"]
    other = tmp_path / "other"
    fpstore.build(other, queries).close()
    monkeypatch.setattr(fpstore, "open", watched)
    run_here([*both[0], *both[1]], 1, LONG)
    assert [one.path for one in opened] == [store]
    with pytest.raises(fpstore.StoreClosed):
        opened[0].probe(5)
    opened.clear()
    with pytest.raises(StoreChanged):
        run_here([both[0][0], replace(both[0][1], store=other)], 1, LONG)
    assert [one.path for one in opened] == [store, other]
    for one in opened:
        with pytest.raises(fpstore.StoreClosed):
            one.probe(5)


def test_whoever_leaves_is_followed_by_no_new_process(store: Path, tmp_path: Path) -> None:
    with Workers(2, 0, 3) as team:
        team.map(os.getpgid, [0, 0])
        before = {worker.pid for worker in team._workers}
        team._kill()
        with pytest.raises(WorkerEnded, match="found its end by signal 9"):
            team.map(os.getpgid, [0, 0])
        assert {worker.pid for worker in team._workers} == before


WAITING = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_cluster import some_keys, tasks_of
from test_cluster_local import LONG, Sleeping
from fpstore.cluster.local import run_here
run_here(tasks_of(Path({store!r}), Path({folder!r}), some_keys(300, 4), 2, Sleeping), 2, LONG)
"""


class Sleeping(Where):
    """A task that takes a while."""

    def run(self, store: Store) -> int:
        rows = super().run(store)
        time.sleep(3)
        return rows


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whoever_ends_the_caller_ends_the_processes(store: Path, tmp_path: Path, how: signal.Signals) -> None:
    code = WAITING.format(tests=str(Path(__file__).parent), store=str(store), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True) as caller:
        try:
            while len(list(tmp_path.glob("*.part"))) < 2:
                assert caller.poll() is None
                time.sleep(0.01)
        finally:
            os.killpg(caller.pid, how)
        _, told = caller.communicate(timeout=60)
    assert caller.returncode == -how
    assert told.count(b"Traceback") <= 1
    assert wait_for([int(path.read_text()) for path in tmp_path.glob("*.process")]) == []
