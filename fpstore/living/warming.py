"""Reads and checks all of a store's segments, so that no search has to wait for the disk or for a checksum."""

from collections.abc import Sequence

from fpstore.living.live import Live
from fpstore.segment.reader import Segment
from fpstore.threads import Threads

# Pages that a thread reads at a time: enough to keep a disk busy, few enough to stop soon.
PAGES_AT_ONCE = 1 << 10
PIECES_AT_ONCE = 32


def warm(parts: Sequence[Live], threads: int) -> None:
    """Read every page of the segments and check it, by so many threads.

    Damage is left to whoever needs what it has hit: that raises CorruptStore, as it would have without this.
    """
    helpers = Threads(threads)
    try:
        for part in parts:
            _warm(part.segment, helpers)
    finally:
        helpers.close()


def _warm(segment: Segment, helpers: Threads) -> None:
    view, count = segment.view, segment.view.page_count
    starts = list(range(0, count, PAGES_AT_ONCE))
    for first in range(0, len(starts), PIECES_AT_ONCE):  # between these an interrupt is heard
        helpers.map(lambda start: view.warm(start, min(start + PAGES_AT_ONCE, count)), starts[first:][:PIECES_AT_ONCE])
