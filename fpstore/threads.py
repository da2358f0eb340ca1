"""Threads: those that share the work of a call, the caller's own among them, and one that works beside its caller.

Owns who does which item. The answers come in the order of the items, and no item is begun after one has failed.
"""

import sys
import threading
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from fpstore.arrays import as_integer
from fpstore.awaited import HEARING_SECONDS, Ended
from fpstore.platforms import processor_count

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Turn:
    """What a helper is given to do. is_unwanted: whether who gave it has failed, and waits for its end alone."""

    __slots__ = ("_taken", "ended", "error", "is_unwanted", "run")

    def __init__(self, run: Callable[[], object]) -> None:
        self.run = run
        self._taken: dict[str, str] = {}
        self.ended = Ended()
        self.error: BaseException | None = None
        self.is_unwanted = False

    def take(self, by: str) -> bool:
        """Whether it is that one's to do. Who is interrupted meanwhile may ask again, and is told the same."""
        return self._taken.setdefault("by", by) is by

    def withdraw(self) -> bool:
        """Whether no helper has begun this; then none will, and it holds nothing any more."""
        if not self.take(_NOBODY):
            return False
        self.run = _nothing
        return True


# Who may take a turn: the helper that does it, or who gave it and no longer wants it done.
_HELPER, _NOBODY = "helper", "nobody"


class _Own(threading.local):
    """What the thread is at for another one."""

    turn: _Turn | None = None


_OWN = _Own()


def is_unwanted() -> bool:
    """Whether this thread helps a call that was interrupted, or failed: then it need not wait for what may never come.

    Known when whoever made the call comes to wait for its helpers.
    """
    turn = _OWN.turn
    return turn is not None and turn.is_unwanted


def is_inside(*locks: "threading.RLock") -> bool:
    """Whether this very thread holds one of these: it comes, by a signal's handler, in the midst of a call."""
    return any(lock._is_owned() for lock in locks)  # type: ignore[attr-defined]  # as threading.Condition asks it


def expect_outside(is_within: bool) -> None:
    """Raise RuntimeError where this thread is within a call that would wait for what called it, and so for ever."""
    if is_within:
        raise RuntimeError(
            "found a call that came in the midst of another of this thread to the same store, expected one when that "
            "has ended: have a signal's handler raise an error or set a flag, and close the store afterwards"
        )


def _nothing() -> None:
    pass


class Threads:
    """count threads: the one that calls, and count - 1 that wait for its calls. Several threads may call at once.

    Where the system has no thread to give, those that there are do the work: the caller's is always one.
    """

    def __init__(self, count: int) -> None:
        self._helpers = count - 1
        self._turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self._helping: list[int] = []
        self._closed = False
        self._lock = threading.RLock()
        # Those that wait hold the queue only, and end with this object.
        self._end = weakref.finalize(self, _end_helpers, self._turns, self._helping)

    @property
    def count(self) -> int:
        """How many there are, the caller's among them."""
        return self._helpers + 1

    @property
    def is_inside(self) -> bool:
        """Whether this thread is where nobody can close these."""
        return is_inside(self._lock)

    def close(self) -> None:
        """End the helpers when they have done what they were given; a later map that needs them raises RuntimeError."""
        with self._lock:
            self._closed = True
        self._end()

    def _begin(self, run: Callable[[], None], count: int, turns: list[_Turn]) -> None:
        """Have so many helpers run this, once they are free; started where there are none yet.

        turns: gets what each is given, before it is.
        """
        with self._lock:
            if count and self._closed:
                raise RuntimeError("the threads were closed")
            while len(self._helping) < count:
                try:
                    # Thread.start would wait for ever for a thread that had too little memory to begin.
                    self._helping.append(start_new_thread(_help, (self._turns,)))
                except (RuntimeError, MemoryError):
                    break
            turns += [_Turn(run) for _ in range(min(count, len(self._helping)))]
            for turn in turns:
                self._turns.put(turn)

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """[work(item) for item in items]. Raises what work raises, once no thread is working any more.

        Nor is any where a signal's handler raises something, such as Ctrl-C's, whenever that comes.
        """
        results: dict[int, _Result] = {}
        helpers: list[_Turn] = []
        # Taking an index is one step of the interpreter, so no two threads get the same one.
        waiting = iter(range(len(items)))

        def run() -> None:
            try:
                for index in waiting:
                    results[index] = work(items[index])
            finally:
                _drop(waiting)

        failure: BaseException | None = None
        has_begun = is_over = False
        while not is_over:
            # Again where a Ctrl-C comes while it waits: what work uses may go when this ends.
            try:
                if not has_begun:
                    has_begun = True
                    self._begin(run, max(0, min(self._helpers, len(items) - 1)), helpers)
                    run()
                _drop(waiting)
                _await(helpers, has_failed=failure is not None)
                is_over = True
            except BaseException as error:
                failure = error
        for helper in helpers:
            failure = failure or helper.error
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # which knows this frame
        return [results[index] for index in range(len(items))]


def _await(helpers: Sequence[_Turn], *, has_failed: bool) -> None:
    """Until none of them is at work. One that has not begun by now serves another call, and is not waited for."""
    begun = [helper for helper in helpers if not helper.withdraw()]
    for helper in begun:
        while not helper.ended.wait(HEARING_SECONDS):
            # This thread may help another call, which fails meanwhile.
            for other in begun:
                other.is_unwanted = has_failed or is_unwanted()


def _help(turns: "SimpleQueue[_Turn | None]") -> None:
    """What a helper does until it is told to end."""
    while (turn := turns.get()) is not None:
        if turn.take(_HELPER):
            _OWN.turn = turn
            try:
                turn.run()
            except BaseException as error:
                turn.error = error
            finally:
                _OWN.turn = None
                turn.run = _nothing  # whoever has the piece may be what it holds
                turn.ended.set()
        del turn  # nor what it holds


def _end_helpers(turns: "SimpleQueue[_Turn | None]", helping: list[int]) -> None:
    """One end for each that was begun: a call may ask for more threads than there will ever be."""
    for _ in helping:
        turns.put(None)


def thread_count(threads: int | None) -> int:
    """So many threads, or as many as there are processors for this process. ValueError for what is no such number."""
    if threads is None:
        return processor_count()
    count = as_integer(threads)
    if count is None or count < 1:
        raise ValueError(f"threads: found {threads!r}, expected a positive integer or None")
    return count


class Background(Generic[_Result]):
    """Work under way in a thread of its own. The end of the process does not wait for it.

    Where the system has no thread to give, that is what the work failed with. What the work held is let go of when it
    has ended, though whoever began it goes on to hold this.
    """

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work
        self._outcome: list[_Result] = []
        self._error: BaseException | None = None
        self._ended = Ended()
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

    @property
    def went_well(self) -> bool:
        """Whether it has ended, and nothing that it has raised is still to be told."""
        return self.done and self._error is None

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
        work, self._work = self._work, None
        assert work is not None
        try:
            self._outcome.append(work())
        except BaseException as error:
            self._error = error
        finally:
            del work
            self._ended.set()


class Line:
    """Work that one other thread does while its caller goes on: one piece after the other, in the order they are given.

    Where the system has none to give, each is done when it is finished. The end of the process does not wait for it.
    """

    def __init__(self) -> None:
        self._turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self._thread: Background[None] | None = None
        # Who waits holds the queue only, and ends with this object, or before.
        self._end = weakref.finalize(self, self._turns.put, None)

    def end(self) -> None:
        """Have the thread end when it has done what was given; nothing more is."""
        self._end()

    def give(self, work: Callable[[], object]) -> "Piece":
        """Have it done after all that was given before."""
        if self._thread is None:
            self._thread = Background(partial(_help, self._turns))
        turn = _Turn(work)
        self._turns.put(turn)
        return Piece(turn, self._thread)

    def wait(self) -> None:
        """Until nobody is at what was given any more, whatever comes meanwhile: what it uses may go then."""
        interrupted: KeyboardInterrupt | None = None
        while self._thread is not None:
            try:
                # Behind all of it, also what its caller was interrupted before it could take note of.
                self.give(_nothing).wait()
                break
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted


class Piece:
    """What was given to a Line; pieces are finished in the order in which they were given."""

    def __init__(self, turn: _Turn, thread: Background[None]) -> None:
        self._turn, self._thread = turn, thread

    @property
    def done(self) -> bool:
        """Whether the other thread is done with it."""
        return self._turn.ended.is_set()

    @property
    def is_left(self) -> bool:
        """Whether there is no thread that does it: it is done when it is finished."""
        return not self.done and self._thread.done

    def wait(self) -> None:
        """Until nobody is at it any more, whatever comes meanwhile: what it uses may go then."""
        interrupted: KeyboardInterrupt | None = None
        is_over = False
        while not is_over:
            # A Ctrl-C comes at any call, also where it is asked whether to wait.
            try:
                while not (self.done or self._thread.done):
                    self._turn.ended.wait(HEARING_SECONDS)
                is_over = True
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def finish(self) -> None:
        """Wait for it, or do it where there is no thread; raises what it does."""
        self.wait()
        if self.done:
            if self._turn.error is not None:
                raise self._turn.error
            return
        work = self._turn.run
        if self._turn.withdraw():
            try:
                work()
            except BaseException as error:
                self._turn.error = error
                raise
            finally:
                self._turn.ended.set()


def ahead(every: Generator[_Item]) -> Generator[_Item]:
    """The items of every, none of them None, each made in another thread while its user works with the one before it.

    Where the system has no thread to give, they are made as they are asked for. What every raises is raised when all
    items before it were given. Closing it waits for the item under way, and closes every.
    """
    # One thread makes all of them: memory that is one thread's is not ready for the next.
    line = Line()
    made: list[_Item | None] = []

    def make() -> None:
        made.append(next(every, None))

    upcoming = line.give(make)
    try:
        while True:
            upcoming.finish()
            item = made.pop()
            if item is None:
                break
            upcoming = line.give(make)
            yield item
            del item
    finally:
        try:
            line.wait()
        finally:
            line.end()  # at once, as an error that is kept knows this frame
            every.close()


def begun_ahead(every: Iterator[_Item], count: int = 1) -> Generator[_Item]:
    """The items of every, none of them None, each when so many after it were made, as they may have begun something.

    What every raises is raised when all items before it were given.
    """
    held: deque[_Item] = deque()
    failure: Exception | None = None
    is_last = False
    while held or not is_last:
        while not is_last and len(held) <= count:
            try:
                item = next(every, None)
            except Exception as error:
                item, failure = None, error
            if item is None:
                is_last = True
            else:
                held.append(item)
            del item
        if held:
            yield held.popleft()
    if failure is not None:
        raise failure


# Told how many items are done, now and then.
Done = Callable[[int], object]


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


def stand_still(*jobs: Background[Any] | None) -> bool:
    """Whether the interpreter ends while one of these is under way: then it never ends, nor lets go of its locks."""
    return sys.is_finalizing() and any(job is not None and not job.done for job in jobs)
