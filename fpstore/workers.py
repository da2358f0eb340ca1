"""Processes that share work which holds the interpreter's lock, such as reading HTML: threads cannot.

A worker is given functions by name, and their arguments. How they come to be, and how they end, is told in `nursery`.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

from fpstore.awaited import HEARING_SECONDS, Ended, Leash
from fpstore.nursery import ENDING_SECONDS, Nursery, Ready, Worker
from fpstore.threads import Background, Done

# Starting workers takes 0.2 to 0.5 s of a processor, for what they import together. Work that is known to take less
# than this is not worth it.
START_AFTER_SECONDS = 0.5
# Of work that nobody knows the length of, so much is done before any is started: it costs its caller nothing then, who
# works on until the first answers.
HELP_AFTER_SECONDS = 0.2

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class WorkerEnded(ChildProcessError):
    """A worker has ended before it has answered, as often as an item is tried. item: what it was given."""

    def __init__(self, message: str, item: object) -> None:
        super().__init__(message)
        self.item = item


class _Turn:
    """One item, and what became of it. others: all that were begun together, of which none is begun when one fails.

    may_begin: returns when a worker may take it.
    """

    __slots__ = ("_given", "_others", "begun", "ended", "error", "may_begin", "result")

    def __init__(
        self, work: Callable[[Any], Any], item: Any, others: Sequence["_Turn"], may_begin: Callable[[], object]
    ) -> None:
        self._given: tuple[Callable[[Any], Any], Any] | None = work, item
        self._others, self.may_begin = others, may_begin
        self.begun = threading.Lock()  # by who does it, or by who no longer wants it done
        self.ended = Ended()
        self.result: Any = None
        self.error: Exception | None = None

    def take(self) -> bool:
        """Whether nobody had begun this; then it is for who asks to do."""
        return self.begun.acquire(blocking=False)

    def run(self, do: Callable[[Callable[[Any], Any], Any], Any]) -> None:
        """What who has taken it does: do(work, item), of which an Exception is what became of it."""
        assert self._given is not None
        try:
            self.result = do(*self._given)
        except Exception as error:
            self.error = error
            for other in self._others:
                other.withdraw()
        finally:
            self._given = None
            self.ended.set()

    def withdraw(self) -> None:
        """Unless somebody has begun this, nobody will."""
        if self.take():
            self._given = None
            self.ended.set()


class Begun(Generic[_Result]):
    """Items that workers do from now on; made by Workers.begin."""

    def __init__(self, workers: "Workers", turns: list[_Turn]) -> None:
        self._workers, self._turns = workers, turns

    def results(self, done: Done | None = None) -> list[_Result]:
        """What Workers.map returns or raises; asked for once. done: told how many of the first are done."""
        turns = self._turns[:]
        try:
            for number, turn in enumerate(turns, 1):
                self._workers.wait_for(turn)
                if done is not None:
                    done(number)
        finally:
            for turn in turns:
                turn.withdraw()
            self._turns.clear()
        for turn in turns:
            if turn.error is not None:
                raise turn.error
        return [turn.result for turn in turns]


class Workers:
    """At most so many processes at work for one caller at a time, until they are closed; a context manager.

    With a count of 1, in a fork, and where the system has no process to give, the caller's process does the work. It
    also does some while the first worker has not answered yet: a worker has much to import before it can.
    """

    def __init__(
        self,
        count: int,
        start_after: float | None = None,
        tries: int = 1,
        environment: Mapping[str, str] = MappingProxyType({}),
        *,
        helps: bool = False,
    ) -> None:
        """start_after: how many seconds of a processor the work takes here before a worker is started; with 0 workers
        do all of it, unless the caller helps until the first of them has answered.

        tries: how often an item is given to a worker; one that ends before it has answered is followed by another.
        environment: variables of the workers, where the caller's own has no others.
        """
        self._environment = environment
        self._count, self._tries = count, tries
        self._left = HELP_AFTER_SECONDS if start_after is None else start_after
        self._helps = helps or self._left > 0
        if count < 2 or not sys.executable:
            self._left = math.inf
        self._workers: list[Worker] = []
        self._nursery: Nursery | None = None
        self._brought: tuple[str, Ready | None] = ("", None)
        self._waiting: SimpleQueue[_Turn | None] = SimpleQueue()
        self._process = os.getpid()
        self._lock = threading.Lock()  # over who the workers are
        self._refused = 0
        self._killed = self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # nobody wants what they do
            self._kill()
        self.close()

    @property
    def are_several(self) -> bool:
        """Whether there are workers, or will be once there is more work."""
        return self._left < math.inf and self._process == os.getpid()

    def map(
        self,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        done: Done | None = None,
        leash: Leash | None = None,
        ready: Ready | None = None,
    ) -> list[_Result]:
        """[work(item) for item in items]; work: a function of a module. Both, and what it returns, can be pickled.

        done: told how many of the first items are done, now and then. leash: which holds the workers back; it is let go
        of by who has it.

        Raises what work raises, and WorkerEnded where a worker ends before it has answered, as often as is tried: once
        no item is under way any more, and none is begun after one has failed.
        """
        return self.begin(work, items, leash, ready).results(done)

    def begin(
        self,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        leash: Leash | None = None,
        ready: Ready | None = None,
    ) -> Begun[_Result]:
        """The same, for who has something else to do before it needs the results.

        ready: brings what such work needs, once for all workers, where there are none yet; it can be pickled.
        """
        turns: list[_Turn] = []
        for number, item in enumerate(items):
            turns.append(_Turn(work, item, turns, _at_once if leash is None else partial(leash.wait, number)))
        if self.are_several:
            self._brought = work.__module__, ready
            for turn in turns:
                self._waiting.put(turn)
            if turns and self._left <= 0:
                self._start()
        return Begun(self, turns)

    def bring(self, module: str, ready: Ready) -> None:
        """Start them now, where they do all of the work: they import a module, and ready brings what its work needs."""
        if self.are_several and self._left <= 0:
            self._brought = module, ready
            self._start()

    def wait_for(self, turn: _Turn) -> None:
        """Until an item is done; by this thread where there is no worker, and until the first has answered."""
        while not turn.ended.is_set():
            if self._stopped and turn.take():
                raise WorkerEnded("found that nobody wants it any more, expected time to do it", None)
            if self.are_several and self._left <= 0 and self._start():
                if not self._helps or not self._do_one():
                    # A signal that comes just before the main thread falls asleep does not wake it.
                    turn.ended.wait(HEARING_SECONDS)
            elif turn.take():
                began = time.thread_time()
                turn.run(_here)
                self._left -= time.thread_time() - began
            else:
                turn.ended.wait(HEARING_SECONDS)

    def _do_one(self) -> bool:
        """Whether there was an item that nobody had begun; this thread has done it."""
        try:
            while (turn := self._waiting.get_nowait()) is not None:
                if turn.take():
                    turn.run(_here)
                    return True
            self._waiting.put(None)  # it was for a thread that leads a worker
        except Empty:
            pass
        return False

    def close(self) -> None:
        """End the workers, also one that is in the middle of something."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._killed, self._left = True, math.inf
            self._end_strangers()
            nursery, self._nursery = self._nursery, None  # which nobody else ends meanwhile
        for worker in self._workers:
            worker.let_go()
            self._waiting.put(None)
        deadline = time.monotonic() + ENDING_SECONDS
        for worker in self._workers:
            worker.end(deadline)
        if nursery is not None:
            nursery.end(deadline)

    def _end_strangers(self, *, all_of_them: bool = False) -> None:
        """End those at once that have not answered yet, as they may have much to import; or all."""
        unwanted = [worker for worker in self._workers if all_of_them or not worker.has_answered]
        if unwanted and self._nursery is not None:
            self._nursery.stop()
        for worker in unwanted:
            worker.kill()

    def stop(self) -> None:
        """End the workers at once, from another thread: whoever waits for one has WorkerEnded."""
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        if self._process == os.getpid():
            with self._lock:
                self._killed = True
                self._end_strangers(all_of_them=True)

    def _follow(self, number: int) -> bool:
        """Whether there is another worker in the place of one that has ended; not where there is to be none."""
        with self._lock:
            try:
                worker = None if self._killed else self._born()
            except OSError:
                return False
            if worker is not None:
                self._workers[number] = worker
            return worker is not None

    def _born(self) -> Worker:
        """Another worker, of the nursery that there is, or of a new one. OSError where the system gives no process."""
        if self._nursery is not None:
            with suppress(ConnectionError):  # it has ended
                return self._nursery.bear()
            self._nursery.end(0.0)
        self._nursery = Nursery(self._environment, *self._brought)
        return self._nursery.bear()

    def _start(self) -> bool:
        """Whether there are workers; started where there are none yet."""
        with self._lock:
            while not self._killed and len(self._workers) < self._count:
                try:
                    self._workers.append(self._born())
                except OSError:
                    self._count = len(self._workers)
                    break
                number = len(self._workers) - 1
                if Background(partial(self._lead, number)).done:  # the system has no thread to give
                    refused = self._workers.pop()
                    refused.let_go()
                    refused.end(time.monotonic() + ENDING_SECONDS)
                    self._count = number
            if not self._workers:
                self._left = math.inf
            return bool(self._workers)

    def _lead(self, number: int) -> None:
        """Give a worker, or who follows it, one item after the other; in a thread of its own.

        A worker that the system did not give leaves the items to the others; where there are none, to who waits.
        """
        if self._workers[number].is_refused:
            with self._lock:
                self._refused += 1
                if self._refused == len(self._workers):
                    self._left = math.inf
            return
        while (turn := self._waiting.get()) is not None:
            turn.may_begin()
            if turn.take():
                turn.run(lambda work, item: self._ask(number, work, item))
                self._helps = False
            del turn  # nor what it holds

    def _ask(self, number: int, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        for left in reversed(range(self._tries)):
            try:
                return self._workers[number].ask(work, item)
            except ChildProcessError as error:
                if not left or not self._follow(number):
                    raise WorkerEnded(str(error), item) from None
        raise AssertionError("an item is tried at least once")


def _at_once() -> None:
    pass


def _here(work: Callable[[_Item], _Result], item: _Item) -> _Result:
    return work(item)
