"""The rows of all parts as one answer: merged in bounded memory, in order."""

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from fpstore.closing import close_all
from fpstore.cluster.parts import Maker, Part, write_runs
from fpstore.merging import Columns, Source, each_once, in_order, merged
from fpstore.types import Keys

if TYPE_CHECKING:  # a worker that sorts rows has no store, and imports 0.1 s less
    from fpstore.living.snapshot import Snapshot

_Batch = TypeVar("_Batch")
# Runs of two columns or one that are merged at a time, of which a block is held of each, and fewer of more columns;
# what is above that becomes one first, some at a time.
MOST_RUNS = 64


class Batches(Iterator[_Batch]):
    """What the parts have, some at a time; a context manager. The store is open until it ends."""

    def __init__(self, store: Any, parts: Sequence[Part], batches: Generator[_Batch]) -> None:
        """store: a Store, or a MinHashStore."""
        self._store, self._parts, self._batches = store, parts, batches
        self._kept = ExitStack()

    def keep(self, kept: ExitStack) -> None:
        """Have this closed at the end, too."""
        self._kept = kept

    @property
    def snapshot(self) -> "Snapshot":
        """The state of the store that was asked."""
        snapshot: Snapshot = self._store._latest
        return snapshot

    def __next__(self) -> _Batch:
        try:
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the parts and of the store; may be called again."""
        close_all(self._batches.close, *(part.close for part in self._parts), self._store.close, self._kept.close)


def each_row(pieces: Sequence[Columns]) -> list[Keys]:
    """All rows of sorted pieces, in order: as often as they are there."""
    return in_order(_together(pieces))


def each_row_once(pieces: Sequence[Columns]) -> list[Keys]:
    """The rows of sorted pieces, in order, each once."""
    return each_once(_together(pieces))


def _together(pieces: Sequence[Columns]) -> list[Keys]:
    return [np.concatenate(column) for column in zip(*pieces, strict=True)]


def gathered(
    parts: Sequence[Part],
    columns: int,
    combine: Callable[[Sequence[Columns]], Columns] = each_row_once,
    runs: Sequence[Source] | None = None,
) -> Iterator[Columns]:
    """The rows of the parts, in order, in chunks; closes the parts at the end.

    combine: each_row, each_row_once, or merging.union, which is quicker. runs: those of the parts, where these are not
    to be taken as they are.
    """
    with ExitStack() as opened:
        for part in parts:
            opened.callback(part.close)
        runs = [run for part in parts for run in part.runs()] if runs is None else runs
        most = max(2, 2 * MOST_RUNS // max(2, columns))
        while len(runs) > most:
            few = [_one(runs[first : first + most], columns, combine) for first in range(0, len(runs), most)]
            for part in few:
                opened.callback(part.close)
            runs = [run for part in few for run in part.runs()]
        yield from merged(runs, combine)


def _one(runs: Sequence[Source], columns: int, combine: Callable[[Sequence[Columns]], Columns]) -> Part:
    """The runs as the one run of a part without a name."""
    maker = Maker("merged", 0)
    with tempfile.TemporaryFile() as file:
        write_runs(file, maker, columns, [merged(runs, combine)])
        return Part(os.dup(file.fileno()), "a merged part", maker, columns)
