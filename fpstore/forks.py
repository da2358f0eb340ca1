"""What a fork inherits: how many there were, and no lock that another thread of the parent may hold for ever."""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

_Value = TypeVar("_Value")

# How many forks lie between the process that imported this and the one that asks, so that what a fork inherits and
# must not use can be told without asking the system.
generation = 0

# Who is told of it as soon as a child runs: those that ask at each call, and for whom this module is far away.
told: list[Callable[[int], None]] = []

# Held while public names are imported, and by who forks: the locks of imports stay as a fork finds them.
importing = threading.RLock()


class cached_property(functools.cached_property[_Value]):  # noqa: N801 (the name of the one it stands for)
    """That of functools without its lock, which all objects of a class share before Python 3.12.

    A child forked while another thread was in it waited for ever. Two threads may both compute a value here; the first
    one is kept.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None
        return instance.__dict__.setdefault(self.attrname, self.func(instance))


def _after_in_child() -> None:
    global generation
    generation += 1
    for tell in told:
        tell(generation)
    importing.release()


os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=_after_in_child)
