"""Reads and checks all files of a store's parts, so that no search has to wait for the disk or for a checksum."""

from collections.abc import Sequence

from fpstore._view import SegmentView
from fpstore.living.live import Live
from fpstore.threads import Threads

# Pages that a thread reads at a time: enough to keep a disk busy, few enough to stop soon.
PAGES_AT_ONCE = 1 << 10
PIECES_AT_ONCE = 32


def warm(parts: Sequence[Live], threads: int) -> None:
    """Read every page of the parts and check it, segments and files of names, by so many threads.

    Damage is left to whoever needs what it has hit: that raises CorruptStore, as it would have without this.
    """
    helpers = Threads(threads)
    try:
        for part in parts:
            for view in part.views:
                _warm(view, helpers)
    finally:
        helpers.close()


def _warm(view: SegmentView, helpers: Threads) -> None:
    count = view.page_count
    starts = list(range(0, count, PAGES_AT_ONCE))
    for first in range(0, len(starts), PIECES_AT_ONCE):  # between these an interrupt is heard
        helpers.map(lambda start: view.warm(start, min(start + PAGES_AT_ONCE, count)), starts[first:][:PIECES_AT_ONCE])
