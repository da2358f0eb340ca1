"""How far a piece of work is: what callers are told, and what the engine's rooms say."""

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Of one phase of a piece of work: how much is done, of how much, None where nobody knows, and in what unit."""

    phase: str
    done: int
    total: int | None
    unit: str


# What is passed as progress=.
OnProgress = Callable[[Progress], None]
# What the rooms call: with a phase, and how much is done of how much.
Tell = Callable[[str, int, int | None], None]

# What each phase counts. That of a build's table is named with its number, "table 1 of 3".
UNITS = {
    "copying": "bytes",
    "ids": "ids",
    "layouts": "keys",
    "merging": "keys",
    "pairs": "thousandths",
    "reading": "rows",
    "reading segments": "segments",
    "report": "keys",
    "sorting": "rows",
    "spikes": "rows",
    "table": "keys",
    "verify checksums": "bytes",
    "verify ids": "ids",
    "verify tables": "keys",
}


def told(progress: OnProgress | None) -> Tell | None:
    """What the rooms call so that progress is told; None where nobody asked."""
    if progress is None:
        return None

    def tell(phase: str, done: int, total: int | None) -> None:
        unit = UNITS["table" if phase.startswith("table ") else phase]
        progress(Progress(phase, done, total, unit))

    return tell
