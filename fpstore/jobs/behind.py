"""Owns what a job does behind its back: what was written is committed while more is.

A commit waits for the disk, so it is another thread's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fpstore.threads import Line, Piece


class Behind:
    """The commit that is under way behind what is done: one at a time, and nothing behind one that has failed.

    Where the system has no thread to give, it is made when it is waited for.
    """

    def __init__(self) -> None:
        self._commits = Line()
        self._commit: Piece | None = None
        self._wait_for_writes: Callable[[], object] | None = None

    def commit(self, work: Callable[[], object]) -> None:
        """Have it done beside what is written, when the one before is done; raises what that did.

        To be called by who writes.
        """
        self.wait_for_commit()
        self._commit = self._commits.give(work)
        if self._commit.is_left:  # else what fails later would be told first
            self._commit.finish()

    def expect_none_failed(self) -> None:
        """Raise what the last commit did, if that is done: to be called before more is written."""
        if self._commit is not None and self._commit.done:
            self._commit.finish()

    def wait_for_writes(self) -> None:
        """Until all is written that was decided about."""
        if self._wait_for_writes is not None:
            self._wait_for_writes()

    def wait_for_commit(self) -> None:
        """Until none is under way any more; raises what the last one did."""
        if self._commit is not None:
            self._commit.finish()

    @contextmanager
    def waited_for(self, wait_for_writes: Callable[[], object]) -> Iterator[None]:
        """A context that does not end before what is behind in it; an error of that came before those of the caller.

        However often it is interrupted: what the work uses goes when it ends. wait_for_writes: as the method.
        """
        self._wait_for_writes = wait_for_writes
        try:
            yield
            self.wait_for_commit()
        except BaseException as error:
            self._commits.wait()
            if isinstance(error, Exception):
                self.wait_for_commit()
            raise
        finally:
            self._wait_for_writes = None

    def end(self) -> None:
        """No more is given: its thread ends, which else stays for as long as somebody has an error of the job."""
        self._commits.end()
