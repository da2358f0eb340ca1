"""The engine of one machine: processes that do tasks, each again elsewhere where a process ends before it is done."""

from collections.abc import Sequence
from typing import Self

from fpstore.awaited import Leash
from fpstore.cluster.tasks import HELD, Task, expect_wanted, run_held
from fpstore.errors import JobError
from fpstore.threads import Done, thread_count
from fpstore.workers import START_AFTER_SECONDS, WorkerEnded, Workers

# How often a task is begun.
TRIES = 3
# A worker's malloc keeps what is freed, up to 256 MiB, for the next array: to get each anew from the system costs a
# fifth of a task (10^6 queries of 2*10^7 keys: 112,000 page faults, 18,000 so).
HEAP = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


class Local:
    """Tasks by so many processes of this machine, as many as processors by default; a context manager.

    They work on for the next call: to start them takes 0.2 to 0.5 s of a processor, however many they are.
    """

    is_here = True

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """ValueError for an address."""
        if address is not None:
            raise ValueError(f"address: found {address}, expected none: engine local is this machine")
        self.workers = workers or thread_count(None)
        self._team: Workers | None = None
        self._count = 0
        self._at_work: Workers | None = None
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._let_go(kind)

    def __call__(
        self, tasks: Sequence[Task], seconds: float, done: Done | None = None, leash: Leash | None = None
    ) -> None:
        """Do the tasks, by processes where they take so many seconds of a processor that it is worth it.

        JobError where a task's process has ended TRIES times. What ends the caller ends the processes.
        """
        self._at_work = team = self._team_for(tasks, seconds)
        try:
            expect_wanted(tasks, is_stopped=self._is_stopped)  # a stop from here on finds who is at work
            team.map(run_held, tasks, done, leash, tasks[0].ready() if tasks else None)
        except WorkerEnded as error:
            self._let_go(WorkerEnded)
            raise JobError(f"{error.item}: tried {TRIES} times: {error}") from None
        except BaseException as error:
            self._let_go(type(error))
            raise
        finally:
            self._at_work = None
            HELD.let_go()  # of tasks that were done here

    def stop(self) -> None:
        """As an engine; what is done in this very process is done to the end."""
        self._is_stopped = True
        if (team := self._at_work) is not None:
            team.stop()

    def _team_for(self, tasks: Sequence[Task], seconds: float) -> Workers:
        count = min(self.workers, len(tasks))
        if count < 2 or seconds <= START_AFTER_SECONDS:
            return Workers(1)  # which is nobody but this process
        if self._team is None or count > self._count:
            self._let_go(None)
            self._team, self._count = Workers(count, 0.0, TRIES, HEAP), count
        return self._team

    def _let_go(self, kind: object) -> None:
        """Of the processes; of a kind of error: at once, as nobody wants what they do."""
        team, self._team = self._team, None
        if team is not None:
            team.__exit__(kind)


def run_here(tasks: Sequence[Task], workers: int, seconds: float) -> None:
    """Do the tasks on this machine, by so many processes, as Local does."""
    with Local(None, workers) as engine:
        engine(tasks, seconds)
