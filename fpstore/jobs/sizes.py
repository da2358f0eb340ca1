"""Owns how many documents each cluster has, as a job tells it at its end: the number of clusters by size, the largest.

What is counted is a job's own documents: of a standing store's clusters those that came in this job. The counts lie in
a file, 4 bytes for each cluster up to the last.
"""

import os
from typing import Any

import numpy as np

from fpstore.disk import Folder, naming
from fpstore.types import Array, Counts, Ids

MOST_SHOWN = 10
_AT_ONCE = 1 << 16
# A store that others wrote to may have larger numbers: then the counts are made in memory.
_MOST_IN_A_FILE = 1 << 36


class Sizes:
    """The clusters that have documents: their numbers (int64[n], increasing), and how many documents each has."""

    def __init__(self, numbers: Counts, counts: Counts) -> None:
        self.numbers, self.counts = numbers, counts

    def largest(self, most: int, least: int = 1) -> list[tuple[int, int]]:
        """Number and size of the largest clusters, of those with at least so many; of equal ones the smaller number."""
        order = np.lexsort((self.numbers, -self.counts))[:most]
        rows = zip(self.numbers[order].tolist(), self.counts[order].tolist(), strict=True)
        return [(number, size) for number, size in rows if size >= least]

    def told(self) -> dict[str, Any]:
        """The histogram (least and most size, clusters, documents) and the largest clusters, as JSON has it."""
        histogram = []
        least, most = 1, 1
        while len(self.counts) and least <= int(self.counts.max()):
            own = self.counts[(self.counts >= least) & (self.counts <= most)]
            if len(own):
                row = {"least": least, "most": most, "clusters": len(own), "documents": int(own.sum())}
                histogram.append(row)
            least, most = most + 1, most * 2
        largest = [{"cluster": number, "documents": size} for number, size in self.largest(MOST_SHOWN, 2)]
        return {"sizes": histogram, "largest": largest}


def sizes_of(labels: Array) -> Sizes:
    """Of labels in memory: the cluster of each document."""
    numbers, counts = np.unique(labels, return_counts=True)
    return Sizes(numbers.astype(np.int64), counts.astype(np.int64))


def sizes_in(labels: Ids, folder: Folder, name: str) -> Sizes:
    """Of labels that may be mapped from a file: uint64[n]. The counts are made in a file of that name in folder."""
    last = max((int(labels[at : at + _AT_ONCE].max()) for at in range(0, len(labels), _AT_ONCE)), default=0)
    if last >= _MOST_IN_A_FILE:
        return sizes_of(labels)
    folder.unlink(name, missing_ok=True)
    fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "r+b") as file, naming(folder.path / name):
        file.truncate(4 * (last + 1))
        counts = np.memmap(file, "<u4", "r+")
    for at in range(0, len(labels), _AT_ONCE):
        numbers, own = np.unique(labels[at : at + _AT_ONCE], return_counts=True)
        counts[numbers.astype(np.int64)] += own.astype(np.uint32)
    having = np.flatnonzero(counts).astype(np.int64)
    return Sizes(having, counts[having].astype(np.int64))
