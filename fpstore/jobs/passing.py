"""Owns how the batches of a job pass its stages: each is taken through all of them by one of several threads.

At a stage they come one at a time, in their order; between two stages a thread works beside the others. So nobody waits
for what another thread makes, but for its turn, and what a batch takes is had and let go of by one thread.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count

from fpstore._interpreter import begin, end, leave
from fpstore.awaited import Waiters
from fpstore.threads import Threads, is_unwanted

# Before all batches: there they end where it is over at once.
_AT_ONCE = -1


class OverError(Exception):
    """Nothing comes of a batch, as one before it has failed, or was none."""


class Stage:
    """Where batches come one at a time, in their order; passed: how many did so.

    A batch that fails here does not pass, nor do those behind it.
    """

    def __init__(self) -> None:
        self.passed = 0
        self._waiters = Waiters()

    def wait(self, number: int, is_over: Callable[[], bool]) -> None:
        """Until all batches before that of this number, from 0 on, have passed. OverError where it is over."""
        if self.passed < number:
            leave()
        self._waiters.wait_until(lambda: is_over() or self.passed >= number)
        if is_over():
            raise OverError

    def passes(self, number: int) -> None:
        """The batch of that number is done with it."""
        self.passed = number + 1
        self.wake()

    def wake(self) -> None:
        """Have all who wait look again."""
        self._waiters.wake()


class Passing:
    """The way of the batches of a job: they are read, measured beside each other, decided about, and written."""

    def __init__(self) -> None:
        self.reading, self.deciding, self.writing = Stage(), Stage(), Stage()
        # Of batches of which nothing came what they raised, by number; None of the first that was none.
        self._ends: dict[int, BaseException | None] = {}
        self._is_broken = False  # a thread ended that could not say at which batch, as for want of memory

    def go(self, work: Callable[["Turn"], bool], threads: int, done: Callable[[], object]) -> None:
        """Have so many threads, the caller's among them, take batches through all stages until there are no more.

        work: takes one, and says whether there was one. done: told by the caller's thread of each that it has taken.

        The error of the first batch that failed is raised when all before it have passed. What comes from outside to
        the caller, such as Ctrl-C, is raised when each thread has ended the stage at which it is.
        """
        numbers, caller = count(), threading.get_ident()

        def take_all(_: int) -> None:
            try:
                begin()
                take_each()
            except BaseException:
                self._is_broken = True  # who waits looks again by itself
                raise
            finally:
                end()

        def take_each() -> None:
            is_one = True
            while is_one:
                number = next(numbers)
                try:
                    is_one = work(Turn(self, number))
                    if not is_one:
                        self._end(number)
                    elif threading.get_ident() == caller:
                        done()
                except OverError:
                    is_one = False
                except Exception as error:
                    self._end(number, error)
                    is_one = False
                except BaseException:
                    self._end(_AT_ONCE)
                    raise

        try:
            with closing(Threads(threads)) as team:
                team.map(take_all, range(threads))
            failure = self._ends.pop(min(self._ends))
        finally:
            self._ends.clear()  # errors, which know frames that know this: also where the caller was interrupted
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # which knows this frame

    def _end(self, number: int, error: BaseException | None = None) -> None:
        """Nothing comes of the batch of this number, nor of those behind it."""
        self._ends[number] = error
        for stage in (self.reading, self.deciding, self.writing):
            stage.wake()

    def is_over(self, number: int) -> bool:
        """Whether nothing comes of a batch, as of one before it."""
        return self._is_broken or is_unwanted() or any(end < number for end in [*self._ends])

    def wait_for_writes(self) -> None:
        """Until all that was decided about is written; to be called by who decides, or has a batch no longer."""
        number = self.deciding.passed
        self.writing.wait(number, lambda: self.is_over(number))


class Turn:
    """The way of one batch."""

    def __init__(self, passing: Passing, number: int) -> None:
        self._passing, self._number = passing, number

    @contextmanager
    def at(self, stage: Stage) -> Iterator[None]:
        """A context in which it is at a stage: when all before it have passed, and alone."""
        stage.wait(self._number, lambda: self._passing.is_over(self._number))
        yield
        stage.passes(self._number)
