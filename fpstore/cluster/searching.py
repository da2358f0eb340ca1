"""The tasks of a search: of which state of a store, the file of its queries, and what does some of its shares."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fpstore._codec import crc32c
from fpstore.cluster.parts import Maker, whole_file, write_part
from fpstore.cluster.shares import Share, runs_of
from fpstore.cluster.tasks import OfStore, expect_version
from fpstore.disk import Folder
from fpstore.errors import JobError, StoreChanged
from fpstore.fingerprints import as_strings, of_columns, repeats
from fpstore.fingerprints import columns_of as columns_of_each
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.merging import ordered_with_places
from fpstore.query.batch import Asked
from fpstore.store import Store
from fpstore.types import Array, Keys

QUERIES = "queries.npy"


@dataclass(frozen=True)
class Seen:
    """Which state of which store a job is about: what writers change with every change."""

    identity: str
    generation: int
    next_change: int
    transaction: int

    @classmethod
    def of(cls, state: State) -> "Seen":
        """That state."""
        return cls(state.identity, state.generation, state.next_change, state.transaction)

    def __str__(self) -> str:
        moment = f"generation {self.generation}, change {self.next_change}, transaction {self.transaction}"
        return f"store {self.identity} at {moment}"


@dataclass(frozen=True)
class Queries:
    """The file of the queries of a job: in order, with their numbers. crc: their checksum.

    count: how many; distinct: how many of them differ; words: how many each has.
    """

    count: int
    distinct: int
    crc: int
    words: int

    @classmethod
    def of(cls, fingerprints: Keys) -> "tuple[Queries, Array]":
        """Those of fingerprints, and what the file has: uint64[words + 1, m], which every worker maps."""
        if fingerprints.ndim == 1:
            ordered, order = ordered_with_places(fingerprints)
        else:
            order = np.argsort(as_strings(fingerprints))
            ordered = fingerprints[order]
        words = columns_of_each(ordered)
        table = np.stack([*words, order.view(np.uint64)])
        return cls(len(order), int(np.count_nonzero(~repeats(ordered))), crc32c(table), len(words)), table

    @staticmethod
    def write(folder: Folder, table: Array) -> None:
        """Put them there, for `read`."""
        with whole_file(folder, QUERIES) as file:
            np.save(file, table)

    def read(self, folder: Folder) -> Asked:
        """The queries. JobError where the file has others; CorruptStore for what is no regular file."""
        path = folder.path / QUERIES
        os.close(folder.open_file(QUERIES))  # a pipe would be waited for
        table, found = None, "what is none"
        with suppress(ArithmeticError, AttributeError, EOFError, TypeError, ValueError):  # what numpy did not write
            table = np.load(path, mmap_mode="r", allow_pickle=False)
            found = f"{table.shape} of {table.dtype}"
        expected = f"{self.words + 1, self.count} of uint64"
        # Read only where it is of that size: a stranger's may claim any, and have holes.
        if table is not None and found == expected:
            found, expected = f"{found}, {crc32c(np.ascontiguousarray(table))}", f"{expected}, {self.crc}"
        if table is None or found != expected:
            raise JobError(f"found queries {found:.80}, expected {expected}, those of the job", path=path)
        return Asked.of_sorted(of_columns(tuple(table[:-1])), table[-1].view(np.int64))


@dataclass(frozen=True)
class ProbeTask(OfStore):
    """Some shares of a search, of one state of a store. version: of the fpstore that cut it."""

    maker: Maker
    version: str
    store: Path
    seen: Seen
    folder: Path
    queries: Queries
    max_distance: int
    shares: tuple[Share, ...]

    def __str__(self) -> str:
        return f"task {self.maker.task} of a probe of {self.store}"

    def run(self, store: Store) -> int:
        """Write the part; how many rows it has. StoreChanged where the store, which is open, is not what it was."""
        expect_version(self, self.version)
        with Folder.open(self.folder) as folder:
            snapshot = store._latest
            expect_seen(self.store, self.seen, snapshot)
            asked = self.queries.read(folder)
            runs = ([run] for share in self.shares for run in runs_of(snapshot, share, asked, self.max_distance))
            return write_part(folder, self.maker, columns_of(snapshot), runs)


def expect_seen(path: Path, seen: Seen, snapshot: Snapshot) -> None:
    """StoreChanged where the snapshot is of another state."""
    found = Seen.of(snapshot.state)
    if found != seen:
        told = f"found {found}, expected {seen}, which the job began with; run it again while nobody writes"
        raise StoreChanged(told, path=path)


def columns_of(snapshot: Snapshot) -> int:
    """How many columns the parts have: ranks, the words of fingerprints, and ids where there are any."""
    return 1 + snapshot.settings.width + bool(snapshot.settings.ids)
