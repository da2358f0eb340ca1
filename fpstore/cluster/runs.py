"""Pairs that tasks find, in any order, as sorted runs in bounded memory."""

from collections.abc import Iterator, Sequence

import numpy as np

from fpstore.cluster.shares import RUN_ROWS
from fpstore.merging import Columns, in_order
from fpstore.types import Keys


def runs_of_pairs(found: Iterator[Columns]) -> Iterator[Columns]:
    """The pairs sorted, RUN_ROWS or a few more at a time: uint64[m], each column."""
    held: list[Columns] = []
    count = 0
    for columns in found:
        if len(columns[0]):
            held.append([column.astype(np.uint64) for column in columns])  # what is found lies in room used again
            count += len(columns[0])
        if count >= RUN_ROWS:
            yield _in_order(held)
            held, count = [], 0
    if held:
        yield _in_order(held)


def _in_order(held: Sequence[Columns]) -> list[Keys]:
    return in_order([np.concatenate(column) for column in zip(*held, strict=True)])
