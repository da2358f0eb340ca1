"""Work beside a writer, flushes and merges: each in a thread of its own, ended where it is when the writer closes."""

import contextlib
from collections.abc import Callable

from fpstore.threads import Background


class Cancelled(BaseException):
    """Ends a flush or a merge when the writer closes."""


def until_closed(work: Callable[[], None]) -> Background[None]:
    """Work beside the writer, which ends without an error when that closes."""

    def run() -> None:
        with contextlib.suppress(Cancelled):
            work()

    return Background(run)
