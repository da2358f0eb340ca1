"""Ray and Spark as engines: the rows of `probe_many`, whatever happens to a worker, and what is said of their errors.

Needs the extras fpstore[ray,spark] and Java (make test-cluster). FPSTORE_CLUSTER_KEYS: how many keys the store has.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tasks import DEATHS, Dying, Twice
from helpers import flipped
from outcome import Command
from test_cluster import rows_of, tasks_of
from test_cluster_local import gathered

import fpstore
from fpstore import cluster
from fpstore.cluster.engines import engine_named
from fpstore.cluster.leading import ADDED, Keyed, decided
from fpstore.cluster.local import run_here
from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.sent import TRIES
from fpstore.errors import JobError, StoreChanged
from fpstore.inputs import BadInput
from fpstore.jobs import Inputs, dedup, shards, sharing
from fpstore.text import load_recipe
from fpstore.types import Keys

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("engines")]
LACKING = "installed by make test-cluster"
KEYS = int(float(os.environ.get("FPSTORE_CLUSTER_KEYS", "1e5")))
HERE = Path(__file__).parent
# A package of that name, in front of the real one, for workers only.
HIDING = "raise ModuleNotFoundError(\"No module named 'fpstore'\")"


def some_stored() -> Keys:
    return np.random.default_rng(7).integers(0, 1 << 64, KEYS, dtype=np.uint64)


@pytest.fixture(scope="module")
def queries() -> Keys:
    rng = np.random.default_rng(8)
    return flipped(some_stored()[: KEYS // 100], rng.integers(0, 4, KEYS // 100), rng)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines") / "s"
    keys = some_stored()
    fpstore.build(path, np.concatenate([keys, keys[: KEYS // 20]]), ids="row").close()
    return path


@pytest.fixture(scope="module")
def expected(store: Path, queries: Keys) -> Any:
    with fpstore.open(store) as opened:
        return rows_of([opened.probe_many(queries)])


def ray_there() -> None:
    pytest.importorskip("ray", reason=LACKING)


def spark_there() -> None:
    pytest.importorskip("pyspark", reason=LACKING)
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed: openjdk-17-jre-headless")


THERE = {"ray": ray_there, "spark": spark_there}


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    """In which workers find the tasks of tests; Java keeps what it began with, whichever test that was."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (HERE.parent, HERE)))
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_server_port_wait_time_s": "120",
    }
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ |= before


def begin_ray() -> None:
    """Begun again where it was not up in the 30 s that Ray itself waits, as on a machine that is busy."""
    import ray

    for is_last in (False, False, True):
        try:
            ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
        except Exception as error:
            ray.shutdown()
            if is_last or "timed out" not in str(error).lower():
                raise
        else:
            return


@pytest.fixture(scope="module", params=THERE)
def engine(environment: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """A name of one to which the program is connected."""
    THERE[request.param]()
    if request.param == "ray":
        import ray

        begin_ray()
        yield "ray"
        ray.shutdown()
    else:
        from fpstore.cluster.spark import session

        spark, _ = session("local[2,4]")
        yield "spark"
        spark.stop()


def do(engine: str, tasks: list[Any]) -> None:
    with engine_named(engine, None, None) as chosen:
        chosen(tasks, 1.0)


def plain(rows: Any) -> Any:
    return [[row[column] for row in rows] for column in (0, 1, 3)]


def found_by(tasks: list[Any], folder: Path) -> Any:
    ranks, *rest = gathered(tasks, folder)
    return [[rank >> 16 for rank in ranks], *rest]


def test_an_engine_finds_the_rows_of_one_search(engine: str, store: Path, queries: Keys, expected: Any) -> None:
    with cluster.probe(store, queries, engine=engine, tasks=7) as answer:
        assert rows_of(list(answer)) == expected
    assert len(expected) >= len(queries)


def test_an_engine_finds_the_pairs_of_one_search(engine: str, store: Path) -> None:
    with fpstore.open(store) as opened:
        expected = sorted(row for some in opened.pairs(of="ids") for row in some)
    with cluster.pairs(store, of="ids", engine=engine, tasks=7) as answer:
        assert [row for some in answer for row in some] == expected
    assert len(expected) >= KEYS // 20


def test_an_engine_builds_the_bytes_of_one_process(engine: str, tmp_path: Path) -> None:
    for number, own in enumerate(np.array_split(some_stored(), 3)):
        np.save(tmp_path / f"{number}.npy", own)
    fpstore.build(tmp_path / "one", some_stored(), ids="row").close()
    inputs = sorted(tmp_path.glob("*.npy"))
    with cluster.build(tmp_path / "many", inputs, engine=engine, tasks=4, folder=tmp_path / "f") as built:
        built.verify()
    files = [next((tmp_path / name / "segments").iterdir()) for name in ("one", "many")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_worker_that_is_killed_twice_is_followed_by_another(
    engine: str, store: Path, queries: Keys, expected: Any, tmp_path: Path
) -> None:
    tasks = tasks_of(store, tmp_path, queries, 4, Dying)
    (tmp_path / DEATHS).write_text(str(TRIES - 1))
    do(engine, tasks)
    assert (tmp_path / DEATHS).read_text() == "0"
    assert found_by(tasks, tmp_path) == plain(expected)


def test_a_worker_that_is_killed_each_time_is_one_error(engine: str, store: Path, tmp_path: Path) -> None:
    tasks = tasks_of(store, tmp_path, np.arange(300, dtype=np.uint64), 4, Dying)
    (tmp_path / DEATHS).write_text("99")
    with pytest.raises(JobError, match=rf"^task [01] .*of a probe of {store}"):
        do(engine, tasks)
    assert int((tmp_path / DEATHS).read_text()) >= 99 - 4


def test_a_task_that_is_done_twice_by_turns_and_at_once_leaves_the_same(
    engine: str, store: Path, queries: Keys, expected: Any, tmp_path: Path
) -> None:
    tasks = tasks_of(store, tmp_path, queries, 2, Twice)
    do(engine, [task for task in tasks for _ in range(3)])
    assert found_by(tasks, tmp_path) == plain(expected)


def test_what_a_task_raises_is_raised_at_the_driver(engine: str, store: Path, tmp_path: Path) -> None:
    queries = np.arange(300, dtype=np.uint64)
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    tasks = tasks_of(copy, tmp_path / "a", queries, 2)
    with pytest.raises(JobError, match=r"^task 0 .*: found fpstore .*, expected 0.0.1, as at the driver"):
        do(engine, [replace(tasks[0], version="0.0.1")])
    with fpstore.open(copy, "w") as opened:
        opened.add([5], ids=[1 << 40])
    with pytest.raises(StoreChanged, match=f"^{copy}: found store"):
        do(engine, tasks)
    # Workers hold what they had open, and see what lies there now.
    do(engine, tasks_of(copy, tmp_path / "b", queries, 2))
    with fpstore.open(copy, "w") as opened:
        opened.add([6], ids=[1 << 41])
    tasks = tasks_of(copy, tmp_path / "c", queries, 2)
    do(engine, tasks)
    with pytest.raises(JobError, match=rf"^task 0 .*: found no {tmp_path / 'none'} where a worker looked, expected"):
        do(engine, [replace(tasks[0], folder=tmp_path / "none")])


def test_an_address_beside_a_connection_is_refused(engine: str, store: Path) -> None:
    with pytest.raises(ValueError, match=r"^address: found elsewhere, expected none: the program"):
        cluster.probe(store, [5], engine=engine, address="elsewhere")


def test_a_frame_is_asked_batch_by_batch(engine: str, store: Path, queries: Keys, expected: Any) -> None:
    import pyarrow

    own = pyarrow.table({"row": np.arange(len(queries)), "fingerprint": queries.view(np.int64)})
    if engine == "ray":
        import ray.data

        import fpstore.cluster.ray

        ray.data.DataContext.get_current().enable_progress_bars = False
        dataset = ray.data.from_arrow([own.slice(0, 300), own.slice(300)])
        refs = fpstore.cluster.ray.probe(dataset, store, query_column="row").to_arrow_refs()
        table = pyarrow.concat_tables(ray.get(refs))
        with pytest.raises(ValueError, match=r"^columns: found row, fingerprint, expected one column simhash"):
            fpstore.cluster.ray.probe(dataset, store, fingerprint_column="simhash")
    else:
        import fpstore.cluster.spark

        spark, _ = fpstore.cluster.spark.session()
        frame = spark.createDataFrame(own).repartition(3)
        table = fpstore.cluster.spark.probe(frame, store, query_column="row").toArrow()
        assert table.schema.types == [pyarrow.int64(), pyarrow.int64(), pyarrow.int32(), pyarrow.int64()]
        text = frame.selectExpr("row", "hex(fingerprint) as fingerprint")
        told = "^column fingerprint: found string, expected integers of 64 bits, int64 .in Spark bigint. or uint64"
        with pytest.raises(ValueError, match=told):
            fpstore.cluster.spark.probe(text, store)
    assert table.column_names == ["query", "fingerprint", "distance", "id"]
    columns = [table.column(name).to_numpy() for name in table.column_names]
    rows = zip(columns[0], columns[1].view(np.uint64), columns[2], columns[3], strict=True)
    assert sorted(tuple(map(int, row)) for row in rows) == sorted(expected)


def some_corpus(folder: Path) -> list[Path]:
    """Shards of texts, of which some are near others, and of pages."""
    folder.mkdir()
    paths = [folder / f"{number}.jsonl" for number in range(3)]
    for number, path in enumerate(paths):
        texts = [f"<p>a b c d e f {i % 23} g h i {number if i % 3 else 0} j k</p>" for i in range(60)]
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return paths


@pytest.mark.parametrize("by", ["simhash-1", "text-1", "minhash-128"])
def test_an_engine_leaves_the_very_results_of_one_process(engine: str, tmp_path: Path, by: str) -> None:
    inputs = Inputs(some_corpus(tmp_path / "in"), html=True)
    how: dict[str, Any] = {"recipe": load_recipe(by), "dropped": None}
    dedup(inputs, tmp_path / "one", **how | {"dropped": tmp_path / "one.tsv"})
    dedup(inputs, tmp_path / "two", **how | {"dropped": tmp_path / "two.tsv"}, engine=engine)
    for suffix in ("", ".tsv"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes() != b""


def test_an_engine_writes_the_very_shards_of_one_process(engine: str, tmp_path: Path) -> None:
    inputs = Inputs(some_corpus(tmp_path / "in"), html=True)
    dedup(inputs, tmp_path / "one", shards=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "TASK_BYTES", 1)
        dedup(inputs, tmp_path / "two", shards=True, engine=engine)
    for name in (*(path.name for path in some_names(tmp_path / "in")), "_SUCCESS"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() != b""


def some_names(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir())
    assert len(found) == 3
    return found


def test_an_engine_finds_the_fingerprints_of_one_process(engine: str, tmp_path: Path) -> None:
    inputs = Inputs(some_corpus(tmp_path / "in"), html=True)
    found: list[Any] = []
    for how in ({"workers": 1}, {"engine": engine}):
        with cluster.fingerprint(inputs, folder=tmp_path / str(len(found)), **how) as every:
            found.append([row for names, keys in every for row in zip(names, keys.tolist(), strict=True)])
    assert found[0] == found[1]
    assert len(found[0]) == 180


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Paragraphs of Python's own library, a hundredth as many as the store has keys, in eight files."""
    files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    sources = [path.read_text(errors="replace") for path in files if "site-packages" not in path.parts]
    paragraphs = [each for source in sources for each in source.split("\n\n") if len(each.split()) > 4]
    lines = (line for source in sources for line in source.split("\n") if len(line.split()) > 4)
    texts = [*paragraphs, *islice(lines, max(0, KEYS // 100 - len(paragraphs)))][: KEYS // 100]
    assert len(texts) == KEYS // 100
    folder = tmp_path_factory.mktemp("library")
    for number in range(8):
        own = (json.dumps({"text": text}) + "\n" for text in texts[number::8])
        (folder / f"{number}.jsonl").write_text("".join(own))
    return sorted(folder.iterdir())


RECIPES = ["simhash-1", "text-1", "minhash-128"]


@pytest.fixture(scope="module")
def kept(library: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What one process keeps of these texts, and drops, by the recipe."""
    folder = tmp_path_factory.mktemp("kept")
    for by in RECIPES:
        dedup(Inputs(library), folder / by, recipe=load_recipe(by), dropped=folder / f"{by}.tsv")
    return {by: folder / by for by in RECIPES}


def expect_kept(kept: Path, found: Path) -> None:
    for suffix in ("", ".tsv"):
        expected = Path(f"{kept}{suffix}").read_bytes()
        assert Path(f"{found}{suffix}").read_bytes() == expected
        assert expected.count(b"\n") > KEYS // 10_000  # of real texts some are kept and some are not


@pytest.mark.parametrize("by", RECIPES)
def test_an_engine_keeps_of_real_texts_what_one_process_keeps(
    engine: str, library: list[Path], kept: dict[str, Path], tmp_path: Path, by: str
) -> None:
    found = tmp_path / by
    dedup(Inputs(library), found, recipe=load_recipe(by), dropped=tmp_path / f"{by}.tsv", engine=engine)
    expect_kept(kept[by], found)


@pytest.mark.parametrize("by", RECIPES)
def test_processes_keep_of_real_texts_what_one_process_keeps(
    library: list[Path], kept: dict[str, Path], tmp_path: Path, by: str
) -> None:
    found = tmp_path / by
    dedup(Inputs(library), found, recipe=load_recipe(by), dropped=tmp_path / f"{by}.tsv", workers=2)
    expect_kept(kept[by], found)


@pytest.mark.parametrize("what", [Dying, Twice])
def test_processes_find_the_rows_of_one_search_whatever_happens_to_them(
    store: Path, queries: Keys, expected: Any, tmp_path: Path, what: Any
) -> None:
    tasks = tasks_of(store, tmp_path, queries, 4, what)
    (tmp_path / DEATHS).write_text(str(TRIES - 1 if what is Dying else 0))
    run_here(tasks if what is Dying else [*tasks, *tasks], 2, 100.0)
    assert (tmp_path / DEATHS).read_text() == "0"
    assert found_by(tasks, tmp_path) == plain(expected)


def test_what_a_task_of_a_job_raises_is_raised_at_the_driver_and_the_job_goes_on(engine: str, tmp_path: Path) -> None:
    inputs = some_corpus(tmp_path / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "MeasureTask", lambda maker, version, *rest: MeasureTask(maker, "0.0.1", *rest))
        told = rf"^task \d, of {tmp_path}/in/\d\.jsonl: found fpstore .*, expected 0\.0\.1, as at"
        with pytest.raises(JobError, match=told):
            dedup(inputs, tmp_path / "two", engine=engine)
    dedup(inputs, tmp_path / "one")
    dedup(inputs, tmp_path / "two", engine=engine)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_bad_line_ends_a_job_whose_engine_is_at_work(engine: str, tmp_path: Path) -> None:
    inputs = some_corpus(tmp_path / "in")
    inputs[0].write_text("{\n")
    with pytest.raises(BadInput, match=rf"^{inputs[0]}, line 1: found"):
        dedup(inputs, tmp_path / "two", engine=engine)


def test_a_frame_is_told_what_a_job_keeps(engine: str) -> None:
    import pyarrow

    texts = [f"a b c d e f {i % 23} g h i j k" for i in range(90)]
    own = pyarrow.table({"id": np.arange(len(texts)), "text": texts})
    keyed = Keyed(text_column="text")
    expected = decided(keyed, [keyed(own)], 3)(own).to_pylist()
    if engine == "ray":
        import ray.data

        import fpstore.cluster.ray

        dataset = ray.data.from_arrow([own.slice(40), own.slice(0, 40)])
        refs = fpstore.cluster.ray.dedup(dataset, text_column="text").to_arrow_refs()
        table = pyarrow.concat_tables(ray.get(refs))
        with pytest.raises(ValueError, match=r"^columns: found id, text, expected one column fingerprint"):
            fpstore.cluster.ray.dedup(dataset)
    else:
        import fpstore.cluster.spark

        spark, _ = fpstore.cluster.spark.session()
        frame = spark.createDataFrame(own).repartition(3)
        table = fpstore.cluster.spark.dedup(frame, text_column="text").toArrow()
        with pytest.raises(ValueError, match=r"^columns: found id, text, expected one column fingerprint"):
            fpstore.cluster.spark.dedup(frame)
    assert table.column_names == ["id", "text", *ADDED]
    assert sorted(table.to_pylist(), key=lambda row: int(row["id"])) == expected
    assert 0 < sum(row["is_duplicate"] for row in expected) < len(texts)


OWN_JAVA = """
import os
from fpstore.cluster.spark import session
spark, is_own = session(workers=1)
assert is_own
factory = spark._jvm.java.lang.management.ManagementFactory
kind = spark._jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
options = factory.getPlatformMXBean(kind)
print(*(options.getVMOption(f"Tier4{name}Threshold").getValue() for name in ("BackEdge", "Compile", "Invocation")))
spark.stop()
"""


@pytest.mark.parametrize(
    "given", ["", "--conf spark.driver.extraJavaOptions=-XX:Tier4CompileThreshold=7 pyspark-shell"]
)
def test_java_of_an_engine_compiles_late_what_its_user_says_nothing_of(environment: None, given: str) -> None:
    spark_there()
    own = dict(os.environ) | ({"PYSPARK_SUBMIT_ARGS": given} if given else {})
    told = subprocess.run(
        [sys.executable, "-c", OWN_JAVA], capture_output=True, text=True, timeout=300, check=False, env=own
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == [str(50 * 40_000), "7" if given else str(50 * 15_000), str(50 * 5000)]


# --- Engines that the command starts ---


@pytest.mark.parametrize("name", THERE)
def test_the_command_starts_an_engine_and_ends_it(
    command: Command, store: Path, queries: Keys, tmp_path: Path, name: str
) -> None:
    THERE[name]()
    np.save(tmp_path / "q.npy", queries[:500])
    asked = ("probe", store, "--input", tmp_path / "q.npy")
    outcome = command(*asked, "--engine", name, "--workers", "2")
    assert outcome.out == command(*asked).out
    assert outcome.status == 0
    pairs = ("pairs", store, "--of", "ids")
    outcome = command(*pairs, "--engine", name, "--workers", "2")
    assert sorted(outcome.lines) == sorted(command(*pairs).lines)
    assert outcome.status == 0


HIDDEN = """
import os, sys
from pathlib import Path
import fpstore
from fpstore import cluster
os.environ["PYTHONPATH"] = {hiding!r}
os.environ["PYSPARK_PYTHON"] = sys.executable
def probe():
    cluster.probe({store!r}, [5], engine={engine!r}, workers=1)
def fingerprint():
    with cluster.fingerprint({inputs!r}, engine={engine!r}, workers=1, folder={folder!r}) as every:
        list(every)
for ask in (probe, fingerprint):
    try:
        ask()
    except fpstore.JobError as error:
        print("told:", error)
"""


@pytest.mark.parametrize("name", THERE)
def test_a_worker_without_the_package_is_one_error_at_the_driver(store: Path, tmp_path: Path, name: str) -> None:
    THERE[name]()
    (tmp_path / "hiding" / "fpstore").mkdir(parents=True)
    (tmp_path / "hiding" / "fpstore" / "__init__.py").write_text(HIDING)
    script = tmp_path / "driver.py"
    given = {"store": str(store), "inputs": [str(path) for path in some_corpus(tmp_path / "in")]}
    hiding, folder = str(tmp_path / "hiding"), str(tmp_path / "f")
    script.write_text(HIDDEN.format(hiding=hiding, folder=folder, engine=name, **given))
    run = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        cwd=tmp_path,
        check=False,
    )
    told = f"a worker: found no fpstore, expected {fpstore.__version__}, as at the driver: install it where the workers"
    assert run.stdout.count(told) == 2, run.stdout + run.stderr[-2000:]


def test_the_spark_command_writes_parquet(store: Path, queries: Keys, expected: Any, tmp_path: Path) -> None:
    spark_there()
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"row": np.arange(len(queries)), "simhash": queries.view(np.int64)})
    parquet.write_table(table, tmp_path / "q.parquet")
    line = [sys.executable, "-m", "fpstore.cluster.spark", str(store), str(tmp_path / "q.parquet")]
    line.append(str(tmp_path / "out"))
    named = ["--fingerprint-column", "simhash", "--query-column", "row", "--address", "local[2]"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    subprocess.run([*line, *named], check=True, capture_output=True, timeout=300, env=environment)
    found = parquet.read_table(tmp_path / "out")
    columns = [found.column(name).to_numpy() for name in ("query", "fingerprint", "distance", "id")]
    rows = zip(columns[0], columns[1].view(np.uint64), columns[2], columns[3], strict=True)
    assert sorted(tuple(map(int, row)) for row in rows) == sorted(expected)
    told = {
        (line[-1],): "columns: found row, simhash, expected one column fingerprint",
        (line[-1], *named): f"[Errno 17] expected a folder that is not there yet, found: '{line[-1]}'",
    }
    for given, error in told.items():
        again = subprocess.run(
            [*line[:-1], *given], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert again.returncode == 1
        assert again.stderr.splitlines()[-1] == f"fpstore: error: {error}"


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_what_spark_itself_raises_is_a_line(
    engine: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fpstore.cluster.spark import main

    assert main([str(store), str(tmp_path / "none"), str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(
        f"fpstore: error: from {tmp_path / 'none'} to {tmp_path / 'out'}: AnalysisException: [PATH_NOT"
    )
