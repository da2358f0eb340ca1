"""The engine of one machine: processes that do tasks, each again elsewhere where a process ends before it is done."""

import math
from collections.abc import Callable, Sequence
from typing import Self

from fpstore.cluster.tasks import HELD, Task, run_held
from fpstore.errors import JobError
from fpstore.threads import Done, Leash, thread_count
from fpstore.workers import START_AFTER_SECONDS, WorkerEnded, Workers

# How often a task is begun.
TRIES = 3
# A worker's malloc keeps what is freed, up to 256 MiB, for the next array: to get each anew from the system costs a
# fifth of a task (10^6 queries of 2*10^7 keys: 112,000 page faults, 18,000 so).
HEAP = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


class Local:
    """Tasks by so many processes of this machine, as many as processors by default; a context manager."""

    is_here = True

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """ValueError for an address."""
        if address is not None:
            raise ValueError(f"address: found {address}, expected none: engine local is this machine")
        self.workers = workers or thread_count(None)
        self._team: Workers | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(
        self, tasks: Sequence[Task], seconds: float, done: Done | None = None, leash: Leash | None = None
    ) -> None:
        """Do the tasks."""
        run_here(tasks, self.workers, seconds, done, self._begun, leash)

    def stop(self) -> None:
        """As an engine; what is done in this very process is done to the end."""
        if self._team is not None:
            self._team.stop()

    def _begun(self, team: Workers | None) -> None:
        self._team = team


def run_here(
    tasks: Sequence[Task],
    workers: int,
    seconds: float,
    done: Done | None = None,
    begun: Callable[[Workers | None], None] = lambda team: None,
    leash: Leash | None = None,
) -> None:
    """Do the tasks, by so many processes where they take so many seconds of a processor that it is worth it.

    JobError where a task's process has ended TRIES times. What ends the caller ends the processes. begun: hears of the
    processes, and that there are none any more. leash: as of an engine.
    """
    start_after = 0.0 if seconds > START_AFTER_SECONDS and len(tasks) > 1 else math.inf
    with Workers(min(workers, len(tasks)), start_after, TRIES, HEAP) as team:
        begun(team)
        try:
            team.map(run_held, tasks, done, leash)
        except WorkerEnded as error:
            raise JobError(f"{error.item}: tried {TRIES} times: {error}") from None
        finally:
            begun(None)
            HELD.let_go()  # of tasks that were done here
