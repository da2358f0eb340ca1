"""Owns how several things are let go of: all of them, also behind one that cannot be."""

from collections.abc import Callable, Iterator


def close_all(*closes: Callable[[], object]) -> None:
    """Call each, in order, whatever another raises, or a signal's handler once meanwhile.

    One that was interrupted is called again: it may not have begun. Raises what came first, when all were called; an
    interruption before any error.
    """
    failure: BaseException | None = None
    begun: Callable[[], object] | None = None
    waiting: Iterator[Callable[[], object]] | None = None
    try:
        waiting = iter(closes)
        for begun in waiting:
            try:
                begun()
            except Exception as error:
                failure = failure or error
        begun = None
    except BaseException as error:
        failure = error
    # What an interruption has left, whenever it came: also between two of them.
    for close in (*(() if begun is None else (begun,)), *(closes if waiting is None else waiting)):
        try:
            close()
        except BaseException as error:
            if failure is None or (isinstance(failure, Exception) and not isinstance(error, Exception)):
                failure = error
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # which knows this frame
