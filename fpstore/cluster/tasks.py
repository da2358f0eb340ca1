"""The tasks of a job, and the pure function that does one: small records that any engine can send to any worker.

A task done twice, at the same time too, or ended half way and done again, leaves the same part.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import fpstore
from fpstore.cluster.parts import Maker
from fpstore.errors import JobError
from fpstore.nursery import Ready


class Task(Protocol):
    """What an engine does, by `run_held`: it can be pickled, and says which task it is."""

    @property
    def maker(self) -> Maker:
        """Of its part."""

    def do(self) -> int:
        """Write the part; how many rows it has."""

    def ready(self) -> Ready:
        """What brings all that such tasks need, for processes that are to do them."""


class OfModule:
    """A task that needs no more than what its module imports."""

    def ready(self) -> Ready:
        """As a task."""
        return partial(import_module, type(self).__module__)


class OfStore(OfModule, ABC):
    """A task that reads a store, which is open."""

    store: Path

    def do(self) -> int:
        """As a task; the store stays open for the next of this thread."""
        return self.run(HELD.opened(self.store, self.open))

    def open(self, path: Path) -> Any:
        """The store of that path, of the kind that the task is about."""
        return fpstore.open(path)

    @abstractmethod
    def run(self, store: Any) -> int:
        """Write the part; how many rows it has. store: of that path, open."""


class Held(threading.local):
    """The store of the last task that a thread did, open for the next: whoever opens it checks each page anew."""

    store: Any = None

    def opened(self, path: Path, opening: Callable[[Path], Any] = lambda path: fpstore.open(path)) -> Any:
        """The store of that path, which is opened so where it is not open yet."""
        if self.store is None or self.store.path != path:
            self.let_go()
            self.store = opening(path)
        return self.store

    def let_go(self) -> None:
        """Close what is open."""
        store, self.store = self.store, None
        if store is not None:
            store.close()


HELD = Held()


def run(task: OfStore) -> int:
    """Do a task, as engines do that send a function and its argument."""
    with task.open(task.store) as store:
        return task.run(store)


def run_held(task: Task) -> int:
    """Do a task, in a thread or a process that does more of them and lets go of HELD at the end."""
    try:
        return task.do()
    except BaseException:
        HELD.let_go()
        raise


def expect_wanted(tasks: Sequence[Task], *, is_stopped: bool) -> None:
    """JobError where the engine that is to do the tasks was stopped before."""
    if is_stopped:
        raise JobError(f"found that nobody wants {len(tasks)} tasks any more, expected an engine that was not stopped")


def expect_version(task: Task, version: str) -> None:
    """JobError where this is not the fpstore that the task was cut by."""
    if version != fpstore.__version__:
        raise JobError(f"{task}: found fpstore {fpstore.__version__}, expected {version}, as at the driver")
