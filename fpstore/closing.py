"""Owns how several things are let go of: all of them, also behind one that cannot be."""

from collections.abc import Callable


def close_all(*closes: Callable[[], object]) -> None:
    """Call each, in order, whatever another raises, or a signal's handler meanwhile.

    Raises what came first, when all were called; an interruption before any error.
    """
    waiting = iter(closes)
    failure: BaseException | None = None
    is_over = False
    while not is_over:
        try:
            for close in waiting:
                close()
            is_over = True
        except BaseException as error:
            if failure is None or (isinstance(failure, Exception) and not isinstance(error, Exception)):
                failure = error
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # which knows this frame
