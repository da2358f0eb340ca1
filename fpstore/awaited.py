"""Owns what a thread waits for and another one tells. A Ctrl-C in the midst of it leaves no lock that nobody opens.

`threading.Event` and `Condition` take their lock in Python's own code: a signal that comes as that returns raises
before anybody is to let go of it, and whoever tells, or waits, then waits for ever. What is used here is taken in C.
"""

import math
import threading
from collections import deque
from collections.abc import Callable

# How often a waiting thread looks for a Ctrl-C: one that comes just before it falls asleep does not wake it.
HEARING_SECONDS = 0.05


class Ended:
    """As a threading.Event that is set once."""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """To be called once, or by one thread."""
        self._is_set = True  # first, as who is interrupted below may leave it locked
        if self._lock.locked():
            self._lock.release()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def wait(self, seconds: float = HEARING_SECONDS) -> bool:
        """Until it is set, for so long at most."""
        if not self._is_set and self._lock.acquire(timeout=seconds):
            self._lock.release()
        return self._is_set


class Waiters:
    """Those who wait until something holds: each looks again when it is woken, or after a while."""

    def __init__(self) -> None:
        self._waiting = deque[Ended]()  # by each who waits

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until that holds; who makes it hold wakes them."""
        waiting: Ended | None = None
        while not holds():
            if waiting is None or waiting.is_set():
                waiting = Ended()
                self._waiting.append(waiting)  # and look again: who wakes may not have seen it
            else:
                waiting.wait()

    def wake(self) -> None:
        """Have all who wait look again."""
        while self._waiting:
            try:
                waiting = self._waiting.popleft()
            except IndexError:  # another thread has woken the last
                return
            waiting.set()


class Leash:
    """How far those who work may be ahead of who needs what they make, item by item in order.

    On processors that all of them share, what they do further ahead only keeps who needs it from going on.
    """

    def __init__(self, length: int) -> None:
        """length: how many items may be begun, from the one that is needed on."""
        self._length = length
        self._end: float = length
        self._is_let_go = False
        self._waiters = Waiters()

    def come_to(self, number: int) -> None:
        """The item of that number, from 0 on, is needed, and none before it any more; by one thread."""
        self._end = max(self._end, number + self._length)
        self._waiters.wake()

    def let_go(self) -> None:
        """All may be begun."""
        self._is_let_go = True
        self._waiters.wake()

    def reaches(self, number: int) -> bool:
        """Whether that item may be begun."""
        return number < (math.inf if self._is_let_go else self._end)

    def wait(self, number: int) -> None:
        """Until that item may be begun."""
        self._waiters.wait_until(lambda: self.reaches(number))
