"""Owns what a job does behind its back: its results are written, and what was written is committed, each in order.

A commit waits for the disk, so it is another thread's than what is written meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from fpstore.closing import close_all
from fpstore.threads import Line, Piece

# So much is still to be written at most, before who decides waits: each piece holds a batch.
_MOST_WRITES = 2


class Behind:
    """What is under way behind what is done: nothing behind what has failed, and one commit at a time.

    Where the system has no thread to give, a piece is done when it is waited for.
    """

    def __init__(self) -> None:
        self._writes, self._commits = Line(), Line()
        self._written = deque[Piece]()  # what was given to be written, and was not waited for
        self._commit: Piece | None = None
        self._has_failed = False

    def write(self, work: Callable[[], object], *, has_time: bool = False) -> None:
        """Have it done behind all that was given to this. Waits where that is much; raises what that did.

        has_time: whether the caller would only wait otherwise: then it does it, where nothing is under way before it.
        """
        while self._written and (len(self._written) >= _MOST_WRITES or self._written[0].done):
            self._finish_first()
        if has_time and not self._written:
            self._unless_failed(work)
        else:
            self._written.append(self._writes.give(partial(self._unless_failed, work)))

    def _unless_failed(self, work: Callable[[], object]) -> None:
        if self._has_failed:
            return
        try:
            if self._commit is not None and self._commit.done:
                self._commit.finish()
            work()
        except BaseException:
            self._has_failed = True
            raise

    def commit(self, work: Callable[[], object]) -> None:
        """Have it done beside what is written, when what this was given before is done; raises what that did.

        To be called by who writes: by the caller, or in what `write` was given.
        """
        if self._commit is not None:
            self._commit.finish()
        self._commit = self._commits.give(work)
        if self._commit.is_left:  # else what fails later would be told first
            self._commit.finish()

    def wait_for_writes(self) -> None:
        """Until all is written; raises what that did."""
        while self._written:
            self._finish_first()

    def wait(self) -> None:
        """Until nothing is behind any more; raises what that did."""
        self.wait_for_writes()
        if self._commit is not None:
            self._commit.finish()

    def _finish_first(self) -> None:
        # Who is interrupted leaves it there, for waited_for() to wait for.
        self._written[0].wait()
        self._written.popleft().finish()

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """A context that does not end before what is behind in it; an error of that came before those of the caller.

        However often it is interrupted: what the work uses goes when it ends.
        """
        try:
            yield
            self.wait()
        except BaseException as error:
            try:
                self._writes.wait()
            finally:
                self._commits.wait()  # last, as what is written gives to it
            if isinstance(error, Exception):
                self.wait()
            raise

    def end(self) -> None:
        """No more is given: its threads end, which else stay for as long as somebody has an error of the job."""
        close_all(self._writes.end, self._commits.end)
