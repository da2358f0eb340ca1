"""One large question that processes share: all queries of an input, answered by the tasks of `fpstore.cluster`."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fpstore import Matches, Store
    from fpstore.types import Keys

# What prints matches of queries, and what answers batches of queries together, by printing.
Write = Callable[["Store", "Keys", "Matches"], None]
Share = Callable[["Store", "Iterator[Keys]", Write], None]

# Rows that are printed at a time: what Python makes of each takes half a kilobyte.
PRINTED_ROWS = 1 << 16


def workers_option(told: str) -> Callable[[Any], Any]:
    """--workers, with its help."""
    return click.option("--workers", type=click.IntRange(min=1), metavar="N", help=told)


def ask_shared(
    store: "Store", batches: "Iterable[Keys]", write: Write, *, workers: int, max_distance: int | None
) -> None:
    """Ask for all queries together by so many processes, and have what is found written, in the order of queries."""
    import numpy as np

    from fpstore.cluster import probe

    if store._settings.is_wide:
        raise click.UsageError(f"--workers goes with fingerprints of at most 64 bits: found a store of {store.bits}")
    queries = np.concatenate([np.empty(0, dtype=np.uint64), *batches])
    with probe(store.path, queries, max_distance=max_distance, workers=workers) as answer:
        for matches in answer:
            for first in range(0, len(matches), PRINTED_ROWS):
                write(store, queries, matches[first : first + PRINTED_ROWS])
