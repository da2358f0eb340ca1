"""The rows of all parts as one answer: merged in bounded memory, each once, in the order of `probe_many`."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from fpstore.cluster.parts import Maker, Part, Run, write_runs
from fpstore.merging import Columns, each_once, merged
from fpstore.types import Keys

# Runs that are merged at a time, of which a block is held of each; more become one first, some at a time.
MOST_RUNS = 64


def gathered(parts: Sequence[Part], columns: int) -> Iterator[Columns]:
    """The rows of the parts, in order, each once, in chunks; closes the parts at the end."""
    with ExitStack() as opened:
        for part in parts:
            opened.callback(part.close)
        runs = [run for part in parts for run in part.runs()]
        while len(runs) > MOST_RUNS:
            few = [_one(runs[first : first + MOST_RUNS], columns) for first in range(0, len(runs), MOST_RUNS)]
            for part in few:
                opened.callback(part.close)
            runs = [run for part in few for run in part.runs()]
        yield from merged(runs, _once)


def _one(runs: Sequence[Run], columns: int) -> Part:
    """The runs as the one run of a part without a name."""
    maker = Maker("merged", 0)
    with tempfile.TemporaryFile() as file:
        write_runs(file, maker, columns, [merged(runs, _once)])
        return Part(os.dup(file.fileno()), "a merged part", maker, columns)


def _once(pieces: Sequence[Columns]) -> list[Keys]:
    return each_once([np.concatenate(column) for column in zip(*pieces, strict=True)])
