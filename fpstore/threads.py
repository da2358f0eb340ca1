"""Threads that share the work of a call, the caller's own among them.

Owns who does which item. The answers come in the order of the items, and no item is begun after one has failed.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

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
        raise ValueError(f"threads is {threads!r}, expected a positive integer or None")
    return count


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


def wait_for(thread: threading.Thread) -> None:
    """Wait until the thread has ended; Ctrl-C is noticed meanwhile."""
    # A signal that comes just before the main thread falls asleep does not wake it, so it sleeps for a moment at a
    # time.
    while thread.is_alive():
        thread.join(HEARING_SECONDS)


def _drop(waiting: Iterator[int]) -> None:
    for _ in waiting:
        pass
