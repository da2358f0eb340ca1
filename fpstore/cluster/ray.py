"""Ray as an engine, and Ray's data sets asked batch by batch (extra `ray`)."""

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from fpstore.awaited import Leash
from fpstore.cluster.batches import Probing
from fpstore.cluster.leading import UNCONFIRMED_DISTANCE, Keyed, Told, decided
from fpstore.cluster.sent import TRIES, attempt, failed
from fpstore.cluster.tasks import Task, expect_wanted
from fpstore.errors import JobError, PathLike
from fpstore.text import Recipe
from fpstore.threads import Done

if TYPE_CHECKING:
    import ray.data

# Of the store of objects of a Ray that is started here: a task's argument and answer are less than a kilobyte each.
OBJECT_BYTES = 80 << 20
# How long Ray is waited for before it is seen whether somebody still wants what it does.
HEARING_SECONDS = 0.5


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine ray needs Ray: pip install 'fpstore[ray]'") from error
    return ray


class OnRay:
    """Tasks as Ray's core tasks, so many at a time; a context manager.

    By the connection that the program has to Ray; otherwise by one to address; otherwise on a Ray that is started here,
    with so many processors, and ends with the engine.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        """ValueError for an address where there is a connection; ConnectionError where nobody answers."""
        self._ray = ray = _ray()
        self._is_own = not ray.is_initialized()
        if self._is_own:
            given: dict[str, Any] = {"address": address} if address is not None else self._alone(workers)
            ray.init(**given, logging_level=logging.ERROR, log_to_driver=False)
        elif address is not None:
            raise ValueError(f"address: found {address}, expected none: the program is connected to Ray already")
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        own = ray.util.get_node_ip_address()
        self._is_stopped = False
        self.is_here = all(node["NodeManagerAddress"] == own for node in ray.nodes() if node["Alive"])

    @staticmethod
    def _alone(workers: int | None) -> dict[str, Any]:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or Ray tells its makers
        return {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_BYTES,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            self._ray.shutdown()

    def __call__(
        self, tasks: Sequence[Task], seconds: float, done: Done | None = None, leash: Leash | None = None
    ) -> None:
        """Do the tasks. What one raises; JobError where Ray cannot do it, or its worker has ended TRIES times.

        leash: of no matter, as Ray decides on what its processors are at work.
        """
        ray = self._ray
        do = ray.remote(num_cpus=1, max_retries=TRIES - 1)(attempt)
        left, asked = list(tasks)[::-1], dict[Any, Task]()
        try:
            while left or asked:
                while left and len(asked) < self.workers:
                    task = left.pop()
                    asked[do.remote(task)] = task
                for ended in ray.wait(list(asked), timeout=HEARING_SECONDS)[0]:
                    self._expect_done(asked.pop(ended), ended)
                if done is not None:
                    done(len(tasks) - len(left) - len(asked))
                expect_wanted([*left, *asked.values()], is_stopped=self._is_stopped)
        finally:
            for reference in asked:
                ray.cancel(reference)

    def stop(self) -> None:
        """As an engine."""
        self._is_stopped = True

    def _expect_done(self, task: Task, ended: Any) -> None:
        try:
            raised = self._ray.get(ended)
        except self._ray.exceptions.WorkerCrashedError as error:
            raise JobError(f"{task}: tried {TRIES} times: {str(error).splitlines()[0]}") from None
        except self._ray.exceptions.RayError as error:
            raise failed(task, error) from None
        if raised is not None:
            raise raised


def probe(
    dataset: "ray.data.Dataset",
    store: PathLike,
    *,
    fingerprint_column: str = "fingerprint",
    query_column: str | None = None,
    max_distance: int | None = None,
) -> "ray.data.Dataset":
    """The matches of a data set's fingerprints, as `batches.Probing` has them, whose arguments these are.

    Each block is asked by itself, where it lies; workers open the store by its path. ValueError for a column that is
    not there, or that is not of integers of 64 bits.
    """
    _ray()
    probing = Probing(
        store, fingerprint_column=fingerprint_column, query_column=query_column, max_distance=max_distance
    )
    schema = dataset.schema()
    if schema is not None:  # where it has rows
        probing.schema(schema.base_schema)
    return dataset.map_batches(probing, batch_format="pyarrow", batch_size=None)


def dedup(
    dataset: "ray.data.Dataset",
    *,
    id_column: str = "id",
    fingerprint_column: str | None = None,
    text_column: str | None = None,
    recipe: Recipe | None = None,
    max_distance: int = UNCONFIRMED_DISTANCE,
) -> "ray.data.Dataset":
    """The data set with three more columns: cluster_id, representative_id, is_duplicate (see `leading`).

    Rows are decided in the order of id_column, of integers that differ: each is kept that is within max_distance of
    none that was kept before, as `jobs.dedup` without confirmation decides. fingerprint_column, text_column, recipe: as
    of `leading.Keyed`. All rows are read when it is called, and once more when the result is. ValueError for columns
    that are not as they have to be.
    """
    ray = _ray()
    keyed = Keyed(id_column=id_column, fingerprint_column=fingerprint_column, text_column=text_column, recipe=recipe)
    schema = dataset.schema()
    if schema is not None:  # where it has rows
        keyed.expect(schema.base_schema)
    own = dataset.map_batches(keyed, batch_format="pyarrow", batch_size=None) if schema is not None else dataset
    found = list(own.iter_batches(batch_format="pyarrow", batch_size=None)) if schema is not None else []
    told = ray.put(decided(keyed, found, max_distance))
    return dataset.map_batches(_tell, batch_format="pyarrow", batch_size=None, fn_kwargs={"told": told})


def _tell(batch: Any, told: Any) -> Any:
    """told: the reference of a `Told`, which each machine has once."""
    found: Told = _ray().get(told)
    return found(batch)
