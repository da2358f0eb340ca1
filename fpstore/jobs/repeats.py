"""Owns how many documents of a job have a name that an earlier one has, as values of an id column can.

A file in the job's folder has 8 bytes for each document, the hash of its name. It is cut back where the job goes on,
and the journal has its checksum. In the end it is counted in bounded memory, whatever the names are.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from fpstore import _names
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.files import AppendFile
from fpstore.jobs.journal import Job
from fpstore.types import Array, Keys

_HASHES, _RUNS = "name-hashes", "name-runs"
# What is sorted at once, in 32 MiB.
_AT_ONCE = 1 << 22


class Repeats:
    """The names of a job's documents, as they were at its last commit. Nothing is written where no column gives names:
    their places tell all documents apart.
    """

    def __init__(self, job: Job, corpus: Corpus) -> None:
        """Raises JobError where the file is shorter than the journal says."""
        self._folder = job.work_folder
        # Of the job, and of nobody who gives names to documents.
        self._key = int(job.id[:16], 16)
        self._state = (job.state or {}).get("names", {"count": 0, "crc": 0})
        self._file = AppendFile(self._folder, _HASHES, 8 * self._state["count"]) if corpus.has_id_column else None

    def see(self, names: Sequence[str]) -> None:
        """More documents."""
        if self._file is None:
            return
        hashes = _names.hashes_of(names, self._key).astype("<u8", copy=False).tobytes()
        self._file.write(hashes)
        count, crc = self._state["count"] + len(names), zlib.crc32(hashes, self._state["crc"])
        self._state = {"count": count, "crc": crc}

    def sync(self) -> None:
        """Those that were seen are on the disk when this returns."""
        if self._file is not None:
            self._file.sync()

    def state(self) -> dict[str, Any]:
        """What the journal has to hold of them, when they are on the disk."""
        return {"names": self._state}

    def count(self) -> int:
        """How many documents have the name of one before them. JobError where the file has changed."""
        if self._file is None:
            return 0
        data = self._file.view()
        if (found := zlib.crc32(data)) != self._state["crc"]:
            told = f"found names of checksum {found:08x}, expected {self._state['crc']:08x}"
            raise JobError(f"{told}; --force begins again", path=self._file.path)
        return repeats_in(np.frombuffer(data, dtype="<u8"), self._folder)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def repeats_in(hashes: Keys, folder: Folder) -> int:
    """How many of these are equal to one before them: uint64[n], which may be mapped from a file.

    Where they are many they are written to a file in folder again, in sorted parts without repetitions. Then those of
    all parts that lie between two bounds are looked at together. So many equal ones take no more memory than others.
    """
    if len(hashes) <= _AT_ONCE:
        return len(hashes) - len(_distinct(hashes))
    ends = [0]
    with closing(AppendFile(folder, _RUNS, 0)) as file:
        for at in range(0, len(hashes), _AT_ONCE):
            run = _distinct(hashes[at : at + _AT_ONCE])
            file.write(run.astype("<u8", copy=False).tobytes())
            ends.append(ends[-1] + len(run))
        found = np.frombuffer(file.view(), dtype="<u8")
        runs = [found[start:end] for start, end in pairwise(ends)]
        return len(hashes) - sum(len(_distinct(each)) for each in _ranges(runs))


def _distinct(hashes: Array) -> Array:
    ordered = np.sort(hashes)
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def _ranges(runs: Sequence[Array]) -> Iterator[Array]:
    """What sorted arrays have between bounds that are equally far apart, as hashes of names lie, some at a time."""
    count = -(-sum(map(len, runs)) // _AT_ONCE)
    bounds = np.array([(i << 64) // count for i in range(1, count)], dtype=np.uint64)
    places = [[0, *np.searchsorted(run, bounds).tolist(), len(run)] for run in runs]
    for i in range(count):
        yield np.concatenate([run[place[i] : place[i + 1]] for run, place in zip(runs, places, strict=True)])
