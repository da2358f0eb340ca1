"""Spark as an engine, and Spark's data frames asked batch by batch (extra `spark`, and Java).

`python -m fpstore.cluster.spark STORE QUERIES OUTPUT` asks for all of a Parquet file or folder.
"""

import argparse
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EEXIST
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fpstore.awaited import HEARING_SECONDS, Leash
from fpstore.cluster.batches import Probing
from fpstore.cluster.leading import UNCONFIRMED_DISTANCE, Keyed, decided
from fpstore.cluster.sent import TRIES, attempt, failed
from fpstore.cluster.tasks import Task, expect_wanted
from fpstore.errors import Error, PathLike
from fpstore.text import Recipe
from fpstore.threads import Done, thread_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def session(address: str | None = None, workers: int | None = None) -> tuple[Any, bool]:
    """The session of Spark that the program has, and False; otherwise a new one at address, and True.

    Without an address that which spark-submit says, or this machine, with so many workers. ImportError without PySpark,
    ChildProcessError without Java, ValueError for an address where there is a session.
    """
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("engine spark needs PySpark: pip install 'fpstore[spark]'") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        if address is not None:
            raise ValueError(f"address: found {address}, expected none: the program has a session of Spark already")
        return active, False
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if home is None else str(Path(home, "bin", "java"))) is None:
        where = "PATH" if home is None else f"JAVA_HOME, {home}"
        told = f"found no java in {where}, expected Java 17 or newer (Debian: openjdk-17-jre-headless)"
        raise ChildProcessError(f"engine spark: {told}")
    conf = SparkConf().setAppName("fpstore")
    if address is not None or not conf.contains("spark.master"):
        conf.setMaster(address or f"local[{workers or thread_count(None)},{TRIES}]")
    if conf.get("spark.master", "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for name, value in _HERE.items():
            conf.setIfMissing(name, value)
    return SparkSession.builder.config(conf=conf).getOrCreate(), True


# What tells a group of Spark's jobs from others, for a thread.
_OF_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")

# When Java compiles once more, with all that it can, what it has compiled before: so many times later than by itself.
# Of an engine that hands out tasks and waits, which would have it compiled for longer than it then runs.
_LATER = 50
_RECOMPILED_AFTER = {"Invocation": 5000, "MinInvocation": 600, "Compile": 15_000, "BackEdge": 40_000}  # Java's own

# Of a Spark of this machine alone: nobody else sees it, and it says nothing but errors. Options of its Java come before
# those that its user has set (spark.driver.extraJavaOptions), which therefore hold.
_HERE = {
    "spark.driver.defaultJavaOptions": " ".join(
        ["-XX:+IgnoreUnrecognizedVMOptions"]
        + [f"-XX:Tier4{name}Threshold={_LATER * count}" for name, count in _RECOMPILED_AFTER.items()]
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


class OnSpark:
    """Tasks as elements of a resilient data set, each in a partition of its own; a context manager.

    By the session that the program has; otherwise by one that ends with the engine (see `session`).
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        self._session, self._is_own = session(address, workers)
        self._context = self._session.sparkContext
        self.workers = workers or self._context.defaultParallelism
        self.is_here = self._context.master.startswith("local")
        self._group = f"fpstore-{secrets.token_hex(8)}"
        self._is_at_work = self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            self._session.stop()

    def __call__(
        self, tasks: Sequence[Task], seconds: float, done: Done | None = None, leash: Leash | None = None
    ) -> None:
        """Do the tasks, all of which are done at once. What the first raises that does; JobError where Spark cannot.

        leash: of no matter, as of Ray.
        """
        if not tasks:
            return
        self._is_at_work = True
        try:
            expect_wanted(tasks, is_stopped=self._is_stopped)  # a stop from here on finds this at work
            outcomes = self._done(tasks)
        finally:
            self._is_at_work = False
        for raised in outcomes:
            if raised is not None:
                raise raised
        if done is not None:
            done(len(tasks))

    def _done(self, tasks: Sequence[Task]) -> list[Any]:
        """What became of each."""
        try:
            with self._in_group():
                found: list[Any] = self._context.parallelize(list(tasks), len(tasks)).map(attempt).collect()
                return found
        except Exception as error:
            raise failed(f"{tasks[0]} and {len(tasks) - 1} more", error) from None

    def stop(self) -> None:
        """As an engine; Spark forgets what it is told of jobs that have not begun, so that this tells it again."""
        self._is_stopped = True
        self._context.cancelJobGroup(self._group)
        while self._is_at_work:
            time.sleep(HEARING_SECONDS)
            self._context.cancelJobGroup(self._group)

    @contextmanager
    def _in_group(self) -> Iterator[None]:
        """A context in which what this thread asks of Spark can be told from what the program asks."""
        before = {name: self._context.getLocalProperty(name) for name in _OF_GROUP}
        self._context.setJobGroup(self._group, "tasks of fpstore")
        try:
            yield
        finally:
            for name, value in before.items():
                self._context.setLocalProperty(name, value)


def probe(
    dataframe: "DataFrame",
    store: PathLike,
    *,
    fingerprint_column: str = "fingerprint",
    query_column: str | None = None,
    max_distance: int | None = None,
) -> "DataFrame":
    """The matches of a data frame's fingerprints, as `batches.Probing` has them, whose arguments these are.

    fingerprint and id are bigint, the same bits; each partition is asked by itself, where it lies; workers open the
    store by its path. ValueError for a column that is not there, or that is not bigint.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    probing = Probing(
        store,
        fingerprint_column=fingerprint_column,
        query_column=query_column,
        max_distance=max_distance,
        signed=True,
    )
    schema = from_arrow_schema(probing.schema(to_arrow_schema(dataframe.schema)))
    return dataframe.mapInArrow(probing.all, schema)


def dedup(
    dataframe: "DataFrame",
    *,
    id_column: str = "id",
    fingerprint_column: str | None = None,
    text_column: str | None = None,
    recipe: Recipe | None = None,
    max_distance: int = UNCONFIRMED_DISTANCE,
) -> "DataFrame":
    """The data frame with three more columns: cluster_id, representative_id, is_duplicate (see `leading`).

    Rows are decided in the order of id_column, of integers that differ: each is kept that is within max_distance of
    none that was kept before, as `jobs.dedup` without confirmation decides. fingerprint_column (bigint), text_column,
    recipe: as of `leading.Keyed`. All rows are read when it is called, and once more when the result is. ValueError for
    columns that are not as they have to be.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    keyed = Keyed(id_column=id_column, fingerprint_column=fingerprint_column, text_column=text_column, recipe=recipe)
    given = to_arrow_schema(dataframe.schema)
    keyed.expect(given)
    kind = dataframe.schema[id_column].dataType.simpleString()
    own = dataframe.select(*keyed.columns).mapInArrow(keyed.all, f"id {kind}, fingerprint bigint").toArrow()
    told = decided(keyed, [own], max_distance)
    sent = dataframe.sparkSession.sparkContext.broadcast(told)
    return dataframe.mapInArrow(_Sent(sent).all, from_arrow_schema(told.schema(given)))


class _Sent:
    """What became of rows, which each worker gets once."""

    def __init__(self, sent: Any) -> None:
        self._sent = sent

    def all(self, batches: Any) -> Any:
        """As Told.all."""
        return self._sent.value.all(batches)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. It ends with status 1 for an error of fpstore's own or of the machine, which it says."""
    parser = argparse.ArgumentParser(
        prog="python -m fpstore.cluster.spark",
        description="Find what a store has near each fingerprint of Parquet files, by Spark, into Parquet files.",
    )
    parser.add_argument("store", help="the store, on storage that all workers see")
    parser.add_argument("queries", help="Parquet with a column of fingerprints (bigint)")
    parser.add_argument("output", help="a folder of Parquet files, which must not be there yet")
    parser.add_argument("--fingerprint-column", default="fingerprint", metavar="C")
    parser.add_argument("--query-column", metavar="C", help="what names a row in the output [default: its fingerprint]")
    parser.add_argument("-k", "--max-distance", type=int, metavar="N")
    parser.add_argument("--address", help="Spark's master [default: spark-submit's, or this machine]")
    given = parser.parse_args(arguments)
    try:
        spark, is_own = session(given.address)
        try:
            _write_found(spark, given)
        finally:
            if is_own:
                spark.stop()
    except (Error, OSError, ValueError, ImportError) as error:
        print(f"fpstore: error: {error}", file=sys.stderr)
        return 1
    return 0


def _write_found(spark: Any, given: argparse.Namespace) -> None:
    """Ask, and write what is found. JobError for what Spark itself raises, such as for an output that is there."""
    from pyspark.errors import PySparkException

    try:
        found = probe(
            spark.read.parquet(given.queries),
            given.store,
            fingerprint_column=given.fingerprint_column,
            query_column=given.query_column,
            max_distance=given.max_distance,
        )
        found.write.parquet(given.output)
    except PySparkException as error:
        if error.getCondition() == "PATH_ALREADY_EXISTS":
            raise FileExistsError(EEXIST, "expected a folder that is not there yet, found", given.output) from None
        raise failed(f"from {given.queries} to {given.output}", error) from None


if __name__ == "__main__":
    sys.exit(main())
