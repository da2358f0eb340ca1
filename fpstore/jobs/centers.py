"""Owns leaders that follow their members: the center of a cluster has the bits that most of its members have.

A document is compared with the centers as they are when it comes. So a member is within max_distance of the center
that it joined. But the center moves on: members can be further than that from it at the end, and further than twice
that from each other.
"""

import os
import shutil
from typing import Any, BinaryIO

import numpy as np

from fpstore import Store
from fpstore.disk import Folder, Place, naming, write_all
from fpstore.fingerprints import as_code, as_numbers
from fpstore.jobs.files import files_of_jobs
from fpstore.ledger import cluster_of, end_of_votes, expect_votes
from fpstore.notes import PIECE_BYTES
from fpstore.query.leaders import VERDICT
from fpstore.types import Array, Ids, Keys

# How many documents are looked up at once. Centers that moved meanwhile are compared one by one.
SLICE = 2048

_FIRST_CAPACITY = 1 << 12


class Votes:
    """The votes of the members of every cluster, in a file: memory of the process only as long as there is room."""

    def __init__(self, folder: Folder, name: str, words: int, earlier: Place | None = None) -> None:
        """Begin the file of that name anew, with the votes of an earlier file, if there is one; count: of how many.

        words: of a fingerprint.

        Raises CorruptStore for an earlier file that is not as it was written.
        """
        self._folder, self._name = folder, name
        self.words, self._cluster = words, cluster_of(words)
        folder.unlink(name, missing_ok=True)
        fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with os.fdopen(fd, "r+b") as file:
            self.count = 0 if earlier is None else _copied(earlier, file, words)
        self._clusters = self._mapped(max(_FIRST_CAPACITY, self.count))

    def settle(self, count: int) -> None:
        """All is done: the file holds the votes of so many clusters and their checksum, and is on the disk."""
        self._clusters.flush()  # type: ignore[attr-defined]
        end = end_of_votes(self._clusters[:count])
        fd = self._folder.open_file(self._name, os.O_RDWR)
        try:
            os.ftruncate(fd, count * self._cluster.itemsize)
            os.lseek(fd, 0, os.SEEK_END)
            write_all(fd, memoryview(end))
            os.fsync(fd)
        finally:
            os.close(fd)

    def leaders(self, clusters: Ids) -> Keys:
        """The fingerprint of the first member of each."""
        found: Keys = self._clusters["leader"][clusters.astype(np.int64)].astype(np.uint64)
        return found

    def lead(self, cluster: int, fingerprint: int) -> None:
        """The first member of a cluster that is the next."""
        self._make_room(cluster)
        self._clusters[cluster] = (self._votes(fingerprint), _row(fingerprint, self.words))

    def join(self, cluster: int, fingerprint: int) -> None:
        """One more member of a cluster."""
        votes = self._clusters[cluster]["votes"]
        votes += self._votes(fingerprint)

    def center(self, cluster: int) -> int:
        """The bits that most members have; where as many have it as have not, the bit of the first."""
        record = self._clusters[cluster]
        votes = record["votes"]
        leader = int(record["leader"]) if self.words == 1 else as_numbers(record["leader"][np.newaxis])[0]
        return _number(votes > 0) | (_number(votes == 0) & leader)

    def _votes(self, fingerprint: int) -> Array:
        octets = np.frombuffer(fingerprint.to_bytes(8 * self.words, "little"), dtype=np.uint8)
        votes: Array = _votes_of(octets[np.newaxis])[0]
        return votes

    def restore(self, fingerprints: Keys, clusters: Ids, leaders: Array) -> None:
        """Members that joined clusters, in their order; leaders: those of them that were the first."""
        if len(leaders):
            self._make_room(int(leaders["cluster"][-1]))
        self._clusters["leader"][leaders["cluster"].astype(np.int64)] = leaders["fingerprint"]
        np.add.at(self._clusters["votes"], clusters.astype(np.int64), _votes_of(_octets(fingerprints)))

    def centers(self, clusters: Ids) -> Keys:
        """The center of each."""
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
            file.truncate(capacity * self._cluster.itemsize)
            return np.memmap(file, self._cluster, "r+")


class Centers:
    """The centers, in a store with ids that is open for writing, and their votes."""

    def __init__(self, store: Store, votes: Votes, max_distance: int, next_id: int) -> None:
        self._store = store
        self._votes = votes
        self._max_distance = max_distance
        self.next_id, self.words = next_id, votes.words

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
        near_rows = list(zip(found.distance.tolist(), as_numbers(found.fingerprint), ids, strict=True))
        first_new = self.next_id
        # Clusters whose center the store does not have, or not where it is now, and where it is.
        moved: dict[int, int] = {}
        centers = np.empty_like(keys)
        for i, key in enumerate(as_numbers(keys)):
            near = [each for each in near_rows[ends[i] : ends[i + 1]] if each[2] not in moved]
            apart = np.bitwise_count(centers[: len(moved)] ^ keys[i])
            apart = apart if apart.ndim == 1 else apart.sum(axis=1)
            close = np.flatnonzero(apart <= self._max_distance).tolist()
            if close:
                clusters = list(moved)
                near += [
                    (int(apart[j]), number, clusters[j])
                    for j, number in zip(close, as_numbers(centers[close]), strict=True)
                ]
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
            centers[moved.setdefault(cluster, len(moved))] = _row(center, self.words)
        moved_ids = np.array(list(moved), dtype=np.uint64)
        self._store.remove(ids=moved_ids[moved_ids < np.uint64(first_new)])
        self._store.add(centers[: len(moved_ids)], ids=moved_ids)


def _copied(earlier: Place, file: BinaryIO, words: int) -> int:
    """Copy the votes of an earlier file; of how many clusters they are, 0 where there is no such file."""
    try:
        with files_of_jobs():
            fd = earlier.folder.open_file(earlier.name)
    except FileNotFoundError:
        return 0
    with os.fdopen(fd, "rb") as votes, naming(earlier.path):
        count = expect_votes(earlier.folder, earlier.name, os.fstat(fd).st_size, words)
        shutil.copyfileobj(votes, file, PIECE_BYTES)
        file.truncate(count * cluster_of(words).itemsize)  # what comes next has no votes yet
    return count


def _row(fingerprint: int, words: int) -> Any:
    """As an item of an array of fingerprints: a number, or its words."""
    return fingerprint if words == 1 else as_code(fingerprint, "fingerprint", 64 * words)[0]


def _octets(fingerprints: Keys) -> Array:
    """The bytes of each, the lowest first: uint8[n, 8 * words]."""
    words = fingerprints if fingerprints.ndim == 1 else fingerprints[:, ::-1]
    return np.ascontiguousarray(words.astype("<u8")).view(np.uint8).reshape(len(fingerprints), -1)


def _votes_of(octets: Array) -> Array:
    """1 for each bit that is set, -1 for each that is not, the lowest first: int32[n, bits]."""
    bits: Array = np.unpackbits(octets, axis=1, bitorder="little").astype(np.int32)
    return 2 * bits - 1


def _number(bits: Array) -> int:
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _numbers(bits: Array) -> Keys:
    """Fingerprints of these bits, the lowest first, of each."""
    words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return words[:, 0] if words.shape[1] == 1 else np.ascontiguousarray(words[:, ::-1])
