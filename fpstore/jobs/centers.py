"""Owns leaders that follow their members: the center of a cluster has the bits that most of its members have.

A document is compared with the centers as they are when it comes. So a member is within max_distance of the center
that it joined. But the center moves on: members can be further than that from it at the end, and further than twice
that from each other.
"""

import os
import shutil
from typing import BinaryIO

import numpy as np

from fpstore import Store
from fpstore.disk import Folder, Place, naming, write_all
from fpstore.jobs.files import files_of_jobs
from fpstore.ledger import CLUSTER, end_of_votes, expect_votes
from fpstore.notes import PIECE_BYTES
from fpstore.query.leaders import VERDICT
from fpstore.types import Array, Ids, Keys

# How many documents are looked up at once. Centers that moved meanwhile are compared one by one.
SLICE = 2048

_FIRST_CAPACITY = 1 << 12
VOTED_BITS = CLUSTER["votes"].shape[0]


def expect_centers(bits: int) -> None:
    """ValueError for fingerprints of more bits than votes are kept of."""
    if bits > VOTED_BITS:
        told = f"found fingerprints of {bits} bits, expected {VOTED_BITS} at most"
        raise ValueError(f"update_center: {told}: without it leaders stay where they are")


class Votes:
    """The votes of the members of every cluster, in a file: memory of the process only as long as there is room."""

    def __init__(self, folder: Folder, name: str, earlier: Place | None = None) -> None:
        """Begin the file of that name anew, with the votes of an earlier file, if there is one; count: of how many.

        Raises CorruptStore for an earlier file that is not as it was written.
        """
        self._folder, self._name = folder, name
        folder.unlink(name, missing_ok=True)
        fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with os.fdopen(fd, "r+b") as file:
            self.count = 0 if earlier is None else _copied(earlier, file)
        self._clusters = self._mapped(max(_FIRST_CAPACITY, self.count))

    def settle(self, count: int) -> None:
        """All is done: the file holds the votes of so many clusters and their checksum, and is on the disk."""
        self._clusters.flush()  # type: ignore[attr-defined]
        end = end_of_votes(self._clusters[:count])
        fd = self._folder.open_file(self._name, os.O_RDWR)
        try:
            os.ftruncate(fd, count * CLUSTER.itemsize)
            os.lseek(fd, 0, os.SEEK_END)
            write_all(fd, memoryview(end))
            os.fsync(fd)
        finally:
            os.close(fd)

    def leaders(self, clusters: Ids) -> Keys:
        """The fingerprint of the first member of each: uint64[n]."""
        found: Keys = self._clusters["leader"][clusters.astype(np.int64)].astype(np.uint64)
        return found

    def lead(self, cluster: int, fingerprint: int) -> None:
        """The first member of a cluster that is the next."""
        self._make_room(cluster)
        self._clusters[cluster] = (_votes(fingerprint), fingerprint)

    def join(self, cluster: int, fingerprint: int) -> None:
        """One more member of a cluster."""
        votes = self._clusters[cluster]["votes"]
        votes += _votes(fingerprint)

    def center(self, cluster: int) -> int:
        """The bits that most members have; where as many have it as have not, the bit of the first."""
        record = self._clusters[cluster]
        votes = record["votes"]
        return _number(votes > 0) | (_number(votes == 0) & int(record["leader"]))

    def restore(self, fingerprints: Keys, clusters: Ids, leaders: Array) -> None:
        """Members that joined clusters, in their order; leaders: those of them that were the first."""
        if len(leaders):
            self._make_room(int(leaders["cluster"][-1]))
        self._clusters["leader"][leaders["cluster"].astype(np.int64)] = leaders["fingerprint"]
        np.add.at(self._clusters["votes"], clusters.astype(np.int64), _votes_of(fingerprints))

    def centers(self, clusters: Ids) -> Keys:
        """The center of each: uint64[n]."""
        records = self._clusters[clusters.astype(np.int64)]
        found: Keys = _numbers(records["votes"] > 0) | (_numbers(records["votes"] == 0) & records["leader"])
        return found

    def _make_room(self, cluster: int) -> None:
        capacity = len(self._clusters)
        if cluster < capacity:
            return
        while capacity <= cluster:
            capacity *= 2
        self._clusters = self._mapped(capacity)

    def _mapped(self, capacity: int) -> Array:
        """The file, made so large."""
        with os.fdopen(self._folder.open_file(self._name, os.O_RDWR), "r+b") as file:
            file.truncate(capacity * CLUSTER.itemsize)
            return np.memmap(file, CLUSTER, "r+")


class Centers:
    """The centers, in a store with ids that is open for writing, and their votes."""

    def __init__(self, store: Store, votes: Votes, max_distance: int, next_id: int) -> None:
        self._store = store
        self._votes = votes
        self._max_distance = max_distance
        self.next_id = next_id

    def decide(self, fingerprints: Keys) -> Array:
        """What becomes of documents, each seen as coming after those before it: VERDICT[n]."""
        verdicts = np.zeros(len(fingerprints), dtype=VERDICT)
        for start in range(0, len(fingerprints), SLICE):
            own = slice(start, start + SLICE)
            self._decide_slice(fingerprints[own], verdicts[own])
        return verdicts

    def _decide_slice(self, keys: Keys, verdicts: Array) -> None:
        found = self._store.probe_many(keys, max_distance=self._max_distance, threads=1)
        ends = np.searchsorted(found.query, np.arange(len(keys) + 1)).tolist()
        # Of several at one distance the nearest is the one with the least fingerprint, then id: as in query.additions.
        ids = [] if found.id is None else found.id.tolist()
        near_rows = list(zip(found.distance.tolist(), found.fingerprint.tolist(), ids, strict=True))
        first_new = self.next_id
        # Clusters whose center the store does not have, or not where it is now, and where it is.
        moved: dict[int, int] = {}
        centers = np.empty(len(keys), dtype=np.uint64)
        for i, key in enumerate(keys.tolist()):
            near = [each for each in near_rows[ends[i] : ends[i + 1]] if each[2] not in moved]
            apart = np.bitwise_count(centers[: len(moved)] ^ keys[i])
            close = np.flatnonzero(apart <= self._max_distance).tolist()
            if close:
                clusters = list(moved)
                near += [(int(apart[j]), int(centers[j]), clusters[j]) for j in close]
            if near:
                distance, _, cluster = min(near)
                verdicts[i] = (cluster, np.nan, distance, False)
                if distance == 0:  # what equals the center votes for it, so it stays where it is
                    self._votes.join(cluster, key)
                    continue
                before = self._votes.center(cluster)
                self._votes.join(cluster, key)
                center = self._votes.center(cluster)
                if center == before:
                    continue
            else:
                cluster, center = self.next_id, key
                verdicts[i] = (cluster, np.nan, 0, True)
                self._votes.lead(cluster, key)
                self.next_id += 1
            centers[moved.setdefault(cluster, len(moved))] = center
        moved_ids = np.array(list(moved), dtype=np.uint64)
        self._store.remove(ids=moved_ids[moved_ids < np.uint64(first_new)])
        self._store.add(centers[: len(moved_ids)], ids=moved_ids)


def _copied(earlier: Place, file: BinaryIO) -> int:
    """Copy the votes of an earlier file; of how many clusters they are, 0 where there is no such file."""
    try:
        with files_of_jobs():
            fd = earlier.folder.open_file(earlier.name)
    except FileNotFoundError:
        return 0
    with os.fdopen(fd, "rb") as votes, naming(earlier.path):
        count = expect_votes(earlier.folder, earlier.name, os.fstat(fd).st_size)
        shutil.copyfileobj(votes, file, PIECE_BYTES)
        file.truncate(count * CLUSTER.itemsize)  # what comes next has no votes yet
    return count


def _votes(fingerprint: int) -> Array:
    votes: Array = _votes_of(np.array([fingerprint], dtype=np.uint64))[0]
    return votes


def _votes_of(fingerprints: Keys) -> Array:
    """1 for each bit that is set, -1 for each that is not: int32[n, 64]."""
    octets = fingerprints.astype("<u8").view(np.uint8).reshape(-1, 8)
    bits: Array = np.unpackbits(octets, axis=1, bitorder="little").astype(np.int32)
    return 2 * bits - 1


def _number(bits: Array) -> int:
    return int(_numbers(bits[None])[0])


def _numbers(bits: Array) -> Keys:
    return np.packbits(bits, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)
