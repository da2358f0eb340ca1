"""Engines by name, processes by rank, and batches of Arrow: what needs no package of anybody else's but pyarrow."""

import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from outcome import Command
from test_cluster import Rows, grown, ids_for, rows_of, some_keys, tasks_of

import fpstore
from fpstore import cluster
from fpstore.cluster import engines, sent, work
from fpstore.cluster.batches import Probing
from fpstore.cluster.tasks import HELD, run_held
from fpstore.errors import JobError, StoreChanged, StoreClosed

QUERIES = some_keys(900, 4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grown(tmp_path_factory.mktemp("ranks") / "s", "uint64")


@pytest.fixture(autouse=True)
def held() -> Any:
    yield
    HELD.let_go()


def one_search(store: Path) -> Rows:
    with fpstore.open(store) as opened:
        return rows_of([opened.probe_many(QUERIES)])


# --- Engines by name ---


def test_an_engine_that_there_is_not_is_refused(store: Path) -> None:
    with pytest.raises(ValueError, match=r"^engine: found 'dask', expected one of local, ray, spark$"):
        cluster.probe(store, [5], engine="dask")
    with pytest.raises(ValueError, match=r"^address: found 10.0.0.1, expected none: engine local is this machine$"):
        cluster.probe(store, [5], address="10.0.0.1")


def test_the_command_has_the_engines_that_there_are() -> None:
    from fpstore.cli import shared

    assert shared.ENGINES == engines.ENGINES


@pytest.mark.parametrize(("engine", "package", "shown"), [("ray", "ray", "Ray"), ("spark", "pyspark", "PySpark")])
def test_an_engine_that_is_not_installed_is_named(
    command: Command,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    package: str,
    shown: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    told = f"engine {engine} needs {shown}: pip install 'fpstore[{engine}]'"
    with pytest.raises(ImportError, match=rf"^{told[:-1].replace('[', '.').replace(']', '.')}"):
        cluster.probe(store, [5], engine=engine)
    (tmp_path / "q.hex").write_text("00000000000000ff\n")
    outcome = command("probe", store, "--input", tmp_path / "q.hex", "--engine", engine)
    assert outcome == (1, "", f"fpstore: {told}\n")


@pytest.mark.parametrize("home", [True, False])
def test_spark_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: bool) -> None:
    pyspark = pytest.importorskip("pyspark", reason="installed by make test-cluster")
    assert pyspark.SparkContext._active_spark_context is None
    from fpstore.cluster.spark import session

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told = rf"^engine spark: found no java in {f'JAVA_HOME, {tmp_path}' if home else 'PATH'}, expected Java 17"
    with pytest.raises(ChildProcessError, match=told + r" or newer \(Debian: openjdk-17-jre-headless\)$"):
        session()


class Elsewhere:
    """An engine of other machines."""

    workers, is_here = 2, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, tasks: Any, seconds: float, done: Any = None, leash: Any = None) -> None:
        for task in tasks:
            raised = sent.attempt(pickle.loads(pickle.dumps(task)))
            assert raised is None


def test_workers_of_other_machines_need_a_folder(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "engine_named", lambda *_: Elsewhere())
    with pytest.raises(
        ValueError, match=r"^folder: found none, expected one on storage that all workers share, as some"
    ):
        cluster.probe(store, QUERIES)
    with cluster.probe(store, QUERIES, folder=tmp_path / "f", tasks=3) as answer:
        assert rows_of(list(answer)) == one_search(store)


def test_a_task_is_given_whole_paths(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def do(task: Any) -> None:
        seen.append(task)
        run_held(task)

    monkeypatch.setattr(work, "engine_named", lambda *_: Elsewhere())
    monkeypatch.setattr(sent, "run_held", do)
    monkeypatch.chdir(tmp_path)
    os.symlink(store, "linked")
    with cluster.probe("linked", QUERIES, folder="f") as answer:
        list(answer)
    assert [(task.store, task.folder) for task in seen] == [(tmp_path / "linked", tmp_path / "f")]


def test_what_is_held_open_is_the_store_that_is_asked_for(store: Path, tmp_path: Path) -> None:
    other = grown(tmp_path / "other", "uint64")
    first = HELD.opened(store)
    assert HELD.opened(store) is first
    second = HELD.opened(other)
    assert (first.path, second.path) == (store, other)
    with pytest.raises(StoreClosed):
        first.probe(1)  # one at a time, so that a worker of many stores holds no more
    assert HELD.opened(other) is second


def test_an_attempt_hands_back_what_was_raised(tmp_path: Path) -> None:
    path = grown(tmp_path / "s", "uint64")
    (task,) = tasks_of(path, tmp_path / "a", QUERIES, 1)
    assert sent.attempt(task) is None
    with fpstore.open(path, "w") as opened:
        opened.add([1], ids=[1 << 40])
    # What is still open is still of the state that the job began with.
    assert sent.attempt(task) is None
    HELD.let_go()
    assert isinstance(sent.attempt(task), StoreChanged)
    # A store that lies where another one did, which is still open.
    (task,) = tasks_of(path, tmp_path / "b", QUERIES, 1)
    assert sent.attempt(task) is None
    (tmp_path / "s").rename(tmp_path / "old")
    grown(path, "uint64")
    (task,) = tasks_of(path, tmp_path / "c", QUERIES, 1)
    assert sent.attempt(task) is None
    (tmp_path / "c").rename(tmp_path / "d")
    raised = sent.attempt(task)
    assert isinstance(raised, JobError)
    assert str(raised) == (
        f"{task}: found no {tmp_path / 'c'} where a worker looked, expected what the driver sees there:"
        " store and folder have to be on storage that all workers share"
    )


def test_what_an_engine_says_is_one_line() -> None:
    assert str(sent.failed("task 3", RuntimeError("one\ntwo"))) == "task 3: RuntimeError: one"
    frames = (
        'a worker:\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n\nValueError: why\n\tat B'
    )
    assert str(sent.failed("task 3", RuntimeError(frames))) == "task 3: RuntimeError: ValueError: why"
    assert str(sent.failed("task 3", RuntimeError())) == "task 3: RuntimeError: RuntimeError"
    told = "No module named 'fpstore.cluster'"
    assert str(sent.failed("task 3", RuntimeError(f"deep within\n{told}"))) == (
        f"task 3: a worker: found no fpstore, expected {fpstore.__version__}, as at the driver: install it where the"
        " workers run"
    )


# --- Ranks ---


@pytest.mark.parametrize("tasks", [None, 2, 5])
def test_ranks_do_all_tasks_and_leave_nothing_to_the_last(store: Path, tmp_path: Path, tasks: int | None) -> None:
    def rank(number: int) -> int:
        return cluster.probe_rank(store, QUERIES, rank=number, world_size=3, folder=tmp_path / "f", tasks=tasks)

    # At most as many as are asked for: none is without work, and slices of queries are cut no further.
    made = len(tasks_of(store, tmp_path / "other", QUERIES, tasks or 1))
    assert (tasks or 1) // 2 < made <= (tasks or 1)
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(rank, range(3)))
    assert sum(done) == made
    assert rank(0) == 0
    parts = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "f").glob("*.part")}
    assert len(parts) == made
    with cluster.probe(store, QUERIES, folder=tmp_path / "f", world_size=3, tasks=tasks) as answer:
        assert rows_of(list(answer)) == one_search(store)
    assert parts == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "f").glob("*.part")}


def test_what_a_rank_has_not_done_the_last_does(store: Path, tmp_path: Path) -> None:
    assert cluster.probe_rank(store, QUERIES, rank=1, world_size=2, folder=tmp_path / "f", tasks=5) == 2
    with cluster.probe(store, QUERIES, folder=tmp_path / "f", world_size=2, tasks=5) as answer:
        assert rows_of(list(answer)) == one_search(store)


def test_a_job_that_is_being_claimed_by_another_rank_is_no_other_job(store: Path, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "job.0123456789abcdef.new").write_text("")
    assert cluster.probe_rank(store, QUERIES, rank=0, world_size=2, folder=tmp_path / "f") == 1


@pytest.mark.parametrize(
    ("rank", "size", "told"),
    [
        (2, 2, "rank: found 2, expected 0 to 1, as world_size is 2"),
        (-1, 2, "rank: found -1, expected 0 to 1"),
        ("0", 2, "rank: found '0', expected 0 to 1"),
        (0, 0, "world_size: found 0, expected 1 or more"),
    ],
)
def test_a_rank_that_there_is_not_is_refused(store: Path, tmp_path: Path, rank: Any, size: int, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        cluster.probe_rank(store, QUERIES, rank=rank, world_size=size, folder=tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_the_command_does_tasks_by_rank_and_prints_what_all_have_found(
    command: Command, store: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "q.npy", QUERIES)
    asked = ("probe", store, "--input", tmp_path / "q.npy")
    shared = (*asked, "--folder", tmp_path / "f", "--world-size", "2")
    told = f"whose parts are in {tmp_path / 'f'}\n"
    assert command(*shared, "--rank", "1") == (0, "", f"rank 1 of 2: did 0 tasks, {told}")
    assert command(*shared, "--rank", "0") == (0, "", f"rank 0 of 2: did 1 task, {told}")
    assert command(*shared) == command(*asked)
    assert command(*asked, "--folder", tmp_path / "g").out == command(*asked).out
    assert len(list((tmp_path / "g").glob("*.part"))) == 1
    outcome = command(*shared, "--rank", "2")
    assert outcome == (2, "", "fpstore: rank: found 2, expected 0 to 1, as world_size is 2\n")


# --- Batches of Arrow ---


@pytest.mark.parametrize("id_type", [None, "uint64", "string"])
@pytest.mark.parametrize("signed", [True, False])
def test_a_batch_becomes_the_matches_of_its_rows(tmp_path: Path, id_type: Any, signed: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = grown(tmp_path / "s", id_type)
    with fpstore.open(path) as opened:
        found = opened.probe_many(QUERIES, max_distance=2)
    names = [f"q{i}" for i in range(len(QUERIES))]
    own = QUERIES.view(np.int64) if signed else QUERIES
    batch = pyarrow.record_batch({"f": own, "name": names})
    probing = pickle.loads(
        pickle.dumps(Probing(path, fingerprint_column="f", query_column="name", max_distance=2, signed=signed))
    )
    answer = probing(batch)
    assert isinstance(answer, pyarrow.RecordBatch)
    assert answer.schema == probing.schema(batch.schema)
    expected = (found.signed() if signed else found).to_arrow().to_pydict()
    expected["query"] = [names[i] for i in expected["query"]]
    assert answer.to_pydict() == expected
    whole = pyarrow.Table.from_batches([batch.slice(0, 100), batch.slice(100)])
    assert probing(whole).to_pydict() == expected
    assert pyarrow.Table.from_batches(probing.all(whole.to_batches())).to_pydict() == expected
    assert probing(batch.slice(0, 0)).schema == answer.schema
    by_itself = Probing(path, fingerprint_column="f", signed=signed)(batch)
    assert by_itself.column("query").type == batch.column("f").type
    kinds = {"distance": "int32" if signed else "uint16", "fingerprint": "int64" if signed else "uint64"}
    assert {name: str(answer.schema.field(name).type) for name in kinds} == kinds


def test_many_batches_are_asked_some_together(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("fpstore.cluster.batches.ASKED_ROWS", 250)
    batches = [pyarrow.record_batch({"fingerprint": QUERIES[i : i + 100]}) for i in range(0, 900, 100)]
    probing = Probing(store)
    asked: list[int] = []
    ask = probing._ask

    def watched(batch: Any) -> Any:
        asked.append(len(batch))
        return ask(batch)

    monkeypatch.setattr(probing, "_ask", watched)
    found = pyarrow.Table.from_batches(probing.all(iter(batches)))
    assert asked == [300, 300, 300]
    assert found.column("fingerprint").to_pylist() == [row[1] for row in one_search(store)]
    assert list(probing.all([])) == []


def test_columns_that_are_not_as_they_have_to_be_are_refused(store: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    probing = Probing(store)
    with pytest.raises(ValueError, match=r"^columns: found a, b, expected one column fingerprint$"):
        probing(pyarrow.record_batch({"a": [1], "b": [2]}))
    with pytest.raises(ValueError, match=r"^columns: found fingerprint, expected one column n$"):
        Probing(store, query_column="n")(pyarrow.record_batch({"fingerprint": [1]}))
    told = r"^column fingerprint: found double, expected integers of 64 bits, int64 \(in Spark bigint\) or uint64$"
    with pytest.raises(ValueError, match=told):
        probing(pyarrow.record_batch({"fingerprint": [1.0]}))


def test_a_batch_is_asked_of_the_state_that_was_there(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "s"
    batch = pyarrow.record_batch({"fingerprint": QUERIES})
    fpstore.build(path, QUERIES, ids=ids_for("uint64", 0, len(QUERIES))).close()
    Probing(path)(batch)
    with fpstore.open(path, "w") as opened:
        probing = Probing(path)
        opened.add([5], ids=[1 << 40])
    with pytest.raises(StoreChanged, match=f"^{path}: found store"):
        probing(batch)
    # Another store in the place of one that is still open.
    path.rename(tmp_path / "old")
    fpstore.build(path, QUERIES, ids=ids_for("uint64", 0, len(QUERIES))).close()
    assert len(Probing(path)(batch)) > 0
