"""Processes that share work which holds the interpreter's lock, such as reading HTML: threads cannot.

A worker is a new process of this interpreter that is given functions by name, and their arguments, over a pipe. None
is forked, and none imports the caller's program. It ends with the pipe, so that none is left behind by a caller that
was killed, and hears no Ctrl-C of its own.
"""

import math
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Self, TypeVar

from fpstore.threads import Threads

# Starting a worker takes about 0.3 s of a processor. So much work is done before any is started.
START_AFTER_SECONDS = 0.5
# How long a worker that was told to end is waited for.
ENDING_SECONDS = 2.0

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class WorkerEnded(ChildProcessError):
    """A worker has ended before it has answered, as often as an item is tried. item: what it was given."""

    def __init__(self, message: str, item: object) -> None:
        super().__init__(message)
        self.item = item


class Workers:
    """At most so many processes at work for one caller at a time, until they are closed; a context manager.

    With a count of 1, in a fork, and where the system has no process to give, the caller's process does the work.
    """

    def __init__(
        self,
        count: int,
        start_after: float | None = None,
        tries: int = 1,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """start_after: how many seconds of a processor the work takes here before a worker is started.

        tries: how often an item is given to a worker; one that ends before it has answered is followed by another.
        environment: variables of the workers, where the caller's own has no others.
        """
        self._environment = environment
        self._count, self._tries = count, tries
        self._left = START_AFTER_SECONDS if start_after is None else start_after
        if count < 2 or not sys.executable:
            self._left = math.inf
        self._threads: Threads | None = None
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._process = os.getpid()
        self._lock = threading.Lock()  # over who the workers are
        self._killed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # nobody wants what they do
            self._kill()
        self.close()

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """[work(item) for item in items]; work: a function of a module. Both, and what it returns, can be pickled.

        Raises what work raises, and WorkerEnded where a worker ends before it has answered, as often as is tried.
        """
        results: list[_Result] = []
        for item in items:
            if self._left <= 0 and self._start():
                break
            began = time.thread_time()
            results.append(work(item))
            self._left -= time.thread_time() - began
        rest = items[len(results) :]
        if rest:
            assert self._threads is not None
            results += self._threads.map(lambda item: self._ask(work, item), rest)
        return results

    def close(self) -> None:
        """End the workers, also one that is in the middle of something."""
        if self._process != os.getpid():
            return
        for worker in self._workers:
            worker.let_go()
        deadline = time.monotonic() + ENDING_SECONDS
        for worker in self._workers:
            worker.end(deadline)
        if self._threads is not None:
            self._threads.close()
        self._workers, self._threads, self._left = [], None, math.inf

    def _kill(self) -> None:
        if self._process == os.getpid():
            with self._lock:
                self._killed = True
                for worker in self._workers:
                    worker.kill()

    def _follow(self, ended: "_Worker") -> "_Worker | None":
        """Another worker in the place of one that has ended; None where there is to be none, or none is given."""
        with self._lock:
            try:
                worker = None if self._killed else _Worker(self._environment)
            except OSError:
                return None
            if worker is not None:
                self._workers[self._workers.index(ended)] = worker
            return worker

    def _start(self) -> bool:
        """Whether there are workers; started where there are none yet."""
        if self._process != os.getpid():
            return False
        while len(self._workers) < self._count:
            try:
                worker = _Worker(self._environment)
            except OSError:
                break
            self._workers.append(worker)
            self._idle.put(worker)
        if not self._workers:
            self._left = math.inf
            return False
        if self._threads is None:
            self._count = len(self._workers)
            self._threads = Threads(self._count)
        return True

    def _ask(self, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        worker = self._idle.get()
        try:
            for left in reversed(range(self._tries)):
                try:
                    return worker.ask(work, item)
                except ChildProcessError as error:
                    following = self._follow(worker) if left else None
                    if following is None:
                        raise WorkerEnded(str(error), item) from None
                    worker = following
        except (KeyboardInterrupt, SystemExit):
            self._kill()  # or this thread would wait for the others
            raise
        finally:
            self._idle.put(worker)
        raise AssertionError("an item is tried at least once")


class _Worker:
    """One process, and the pipes to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises OSError where the system gives no process."""
        code = f"import sys; sys.path[:] = {sys.path!r}; from fpstore.workers import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # what a terminal sends to its processes is for the caller
            env={**environment, **os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def ask(self, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        """What work makes of an item there. Whoever stops waiting for an answer has to end the process."""
        request = pickle.dumps((work, item), 5)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(request)
            stdin.flush()
            is_good, answer = pickle.load(stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            self.let_go()
            raise ChildProcessError(f"worker process {self._process.pid}: {self.end()}, expected an answer") from None
        if not is_good:
            raise answer
        result: _Result = answer
        return result

    def let_go(self) -> None:
        """Tell it to end, once it has done what it does."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
        except OSError:
            pass  # it has ended, with something unread

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def end(self, deadline: float | None = None) -> str:
        """Have it end, by force where it has not by then; how it has ended."""
        left = ENDING_SECONDS if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            status = self._process.wait(left)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return f"found its end by signal {-status}" if status < 0 else f"found its end with status {status}"


def serve() -> None:
    """What a worker does: answers, until nobody asks any more."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        # What a package reads or prints is no request, and no answer.
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        while True:
            try:
                work, item = pickle.load(requests)
            except (EOFError, pickle.UnpicklingError):  # also in the middle of a request: whoever asked is gone
                return
            try:
                answers.write(_answer(work, item))
                answers.flush()
            except BrokenPipeError:
                os._exit(0)  # without a word: whoever asked is gone


def _answer(work: Callable[[Any], Any], item: Any) -> bytes:
    try:
        return pickle.dumps((True, work(item)), 5)
    except Exception as error:
        return pickle.dumps((False, error), 5)
