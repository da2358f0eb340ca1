"""Owns which engines there are, and what one is: it does the tasks of a job, each until it is done."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, Self

from fpstore.awaited import Leash
from fpstore.cluster.tasks import Task
from fpstore.threads import Done

# By its name, where its class is: another package is imported for one that is asked for.
_CLASSES = {"local": ("local", "Local"), "ray": ("ray", "OnRay"), "spark": ("spark", "OnSpark")}
ENGINES = tuple(_CLASSES)


class Engine(Protocol):
    """A context manager. workers: how many tasks it does at a time. is_here: whether all of them on this machine."""

    workers: int
    is_here: bool

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: Any) -> None: ...

    def __call__(
        self, tasks: Sequence[Task], seconds: float, done: Done | None = None, leash: Leash | None = None
    ) -> None:
        """Do the tasks, which take so many seconds of a processor. What one raises, or JobError.

        done: told how many are done, now and then, by the thread that called. leash: which of them may be begun, for
        those that take processors of this machine.
        """

    def stop(self) -> None:
        """From another thread: nobody wants any tasks any more. A call that does some ends, and each later one."""


def engine_named(name: str, address: str | None, workers: int | None) -> Engine:
    """The engine of that name. ValueError for another, ImportError for one that is not installed."""
    if name not in _CLASSES:
        raise ValueError(f"engine: found {name!r:.40}, expected one of {', '.join(ENGINES)}")
    module, kind = _CLASSES[name]
    made: Engine = getattr(import_module(f"fpstore.cluster.{module}"), kind)(address, workers)
    return made
