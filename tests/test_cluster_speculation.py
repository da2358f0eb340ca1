"""Spark begins a task that takes long once more, on another machine: both attempts leave one part.

Needs the extra fpstore[spark], Java, and addresses of two machines, 127.0.0.1 and 127.0.0.2 (Linux): Spark begins no
second attempt where the first one is.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from engine_tasks import Straggling, attempts_of
from test_cluster import rows_of, some_keys, tasks_of
from test_cluster_local import gathered

import fpstore
from fpstore.cluster.engines import engine_named

KEYS = int(float(os.environ.get("FPSTORE_CLUSTER_KEYS", "1e5")))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KEYS < 10**6, reason="half a minute of processors: make test-cluster"),
]
HERE = Path(__file__).parent
DEPLOYED = "org.apache.spark.deploy"
PROMPT = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of Spark of two machines with a processor each."""
    pyspark = pytest.importorskip("pyspark", reason="installed by make test-cluster")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed: openjdk-17-jre-headless")
    home, port = Path(pyspark.__file__).parent, free_port()
    about = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path)}
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as held:
        log = held.enter_context(open(tmp_path / "log", "w"))

        def begin(*line: str) -> subprocess.Popen[bytes]:
            started = subprocess.Popen(
                [home / "bin" / "spark-class", *line], env=os.environ | about, stdout=log, stderr=subprocess.STDOUT
            )
            held.callback(started.wait)
            held.callback(started.kill)
            return started

        master = begin(f"{DEPLOYED}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        while not answers(port):
            assert master.poll() is None, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.1)
        for host in ("127.0.0.1", "127.0.0.2"):
            own = ("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path))
            begin(f"{DEPLOYED}.worker.Worker", *own, address)
        yield address


@pytest.fixture
def session(two_machines: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    about = PROMPT | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, (HERE.parent, HERE))),
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    assert SparkSession.getActiveSession() is None
    made = SparkSession.builder.master(two_machines).config(map=about).getOrCreate()
    yield made
    made.stop()


def test_a_task_that_spark_begins_once_more_beside_the_first_leaves_the_same_rows(session: Any, tmp_path: Path) -> None:
    keys = some_keys(3000, 4)
    path = tmp_path / "s"
    fpstore.build(path, keys, ids="row").close()
    tasks = tasks_of(path, tmp_path / "f", keys[:900], 4, Straggling)
    with engine_named("spark", None, None) as engine:
        assert not engine.is_here
        engine(tasks, 100.0)
    assert [min(len(attempts_of(task)), 2) for task in tasks] == [1, 2, 1, 1]
    with fpstore.open(path) as opened:
        expected = rows_of([opened.probe_many(keys[:900])])
    ranks, *rest = gathered(tasks, tmp_path / "f")
    assert [[rank >> 16 for rank in ranks], *rest] == [[row[column] for row in expected] for column in (0, 1, 3)]
