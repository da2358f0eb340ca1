"""Threads: those that share the work of a call, the caller's own among them, and one that works beside its caller.

Owns who does which item. The answers come in the order of the items, and no item is begun after one has failed.
"""

import os
import threading
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from fpstore.arrays import as_integer

# How often a waiting thread looks for a Ctrl-C.
HEARING_SECONDS = 0.05

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Threads:
    """count threads: the one that calls, and count - 1 that wait for its calls. Several threads may call at once."""

    def __init__(self, count: int) -> None:
        self._helpers = count - 1
        self._pool = ThreadPoolExecutor(self._helpers, "fpstore") if count > 1 else None

    def close(self) -> None:
        """End the helpers when they have done what they were given; a later map that needs them raises RuntimeError."""
        if self._pool:
            self._pool.shutdown(wait=False)

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """[work(item) for item in items]. Raises what work raises, once no thread is working any more."""
        results: dict[int, _Result] = {}
        helpers: list[Future[None]] = []
        # Taking an index is one step of the interpreter, so no two threads get the same one.
        waiting = iter(range(len(items)))

        def run() -> None:
            try:
                for index in waiting:
                    results[index] = work(items[index])
            finally:
                _drop(waiting)

        try:
            if self._pool:
                helpers += [self._pool.submit(run) for _ in range(min(self._helpers, len(items) - 1))]
            run()
        finally:
            _drop(waiting)
            # A helper that has not begun by now serves another call, and is not waited for.
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()
        return [results[index] for index in range(len(items))]


def thread_count(threads: int | None) -> int:
    """So many threads, or as many as there are processors for this process. ValueError for what is no such number."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = as_integer(threads)
    if count is None or count < 1:
        raise ValueError(f"threads: found {threads!r}, expected a positive integer or None")
    return count


class Background(Generic[_Result]):
    """Work under way in a thread of its own. The end of the process does not wait for it.

    Where the system has no thread to give, that is what the work failed with.
    """

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work = work
        self._outcome: list[_Result] = []
        self._error: BaseException | None = None
        self._ended = threading.Event()
        alive = _Alive()
        self._alive = weakref.ref(alive)
        try:
            # Thread.start would wait for ever for a thread that had too little memory to begin.
            start_new_thread(self._run, (alive,))
        except (RuntimeError, MemoryError) as error:
            self._error = MemoryError(f"for a thread: {error}")
            self._ended.set()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        if self._alive() is None and not self._ended.is_set():
            self._error = MemoryError("for a thread, which ended before it began")
            self._ended.set()
        return self._ended.is_set()

    def wait(self) -> None:
        """Until it has ended. A KeyboardInterrupt ends the waiting, not the work."""
        # A signal that comes just before the main thread falls asleep does not wake it: so it sleeps for moments.
        while not self.done:
            self._ended.wait(HEARING_SECONDS)

    def result(self) -> _Result:
        """Wait for it; what it returns or raises."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def take_error(self) -> BaseException | None:
        """What it has raised, if anything; told once."""
        error, self._error = self._error, None
        return error

    def _run(self, alive: "_Alive") -> None:
        try:
            self._outcome.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()


class _Alive:
    """Held by a thread as long as there is one, and by nothing else."""

    __slots__ = ("__weakref__",)


def slices(count: int, threads: int, most: int, least: int) -> list[slice]:
    """range(count) cut for so many threads: no slice longer than most, nor (but for the last) shorter than least.

    The first are long, which costs the least; the last are short, so that no thread waits long for another.
    """
    cut = []
    first = 0
    while first < count:
        size = min(most, max(least, (count - first) // (2 * threads - 1)))
        cut.append(slice(first, min(first + size, count)))
        first += size
    return cut


def _drop(waiting: Iterator[int]) -> None:
    for _ in waiting:
        pass
