"""Owns where the clusters of a job are: in a place of its own, or in a standing store, where tomorrow's job goes on.

In a standing store each cluster is a row: the fingerprint of its first document, under the number of the cluster, which
is its id, or under the name of the document; then the record has the number. What a moving center needs more is in
jobs/votes, 264 bytes for each cluster and 64 bits, as it was when the last job ended. While a job is at work the
centers themselves are in its own folder: they are made again, of those votes and of the members that came since, where
it goes on.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore import Store
from fpstore.disk import Place
from fpstore.fingerprints import words_of
from fpstore.jobs.batches import Batch
from fpstore.jobs.centers import Centers, Votes
from fpstore.jobs.files import AppendFile
from fpstore.jobs.journal import Job
from fpstore.jobs.kept import Kept, SimilarKept, kept_of
from fpstore.jobs.naming import ConfirmedRows
from fpstore.jobs.scratch import scratch_store
from fpstore.jobs.settings import Settings
from fpstore.jobs.standing import CENTERS, LEADERS, Workplace, own_workplace, standing_workplace
from fpstore.jobs.summary import Tally
from fpstore.ledger import VOTES
from fpstore.text.confirm import Confirm
from fpstore.types import Array, Ids


# What is remembered of a document, to make the leaders again when the job goes on.
def _member_of(words: int) -> Any:
    fingerprint: tuple[Any, ...] = ("fingerprint", "<u8") if words == 1 else ("fingerprint", "<u8", (words,))
    return np.dtype([fingerprint, ("cluster", "<u8")])


_MEMBERS_AT_ONCE = 1 << 16


class Grouping(ABC):
    """The clusters of a job. known: the number after the last of those that it goes on with.

    first: the number of the first, as the store and the journal have it; all that is told counts from it.
    """

    first = known = 0

    @abstractmethod
    def decide(self, fingerprints: Array, batch: Batch) -> Array:
        """What becomes of the documents of a batch: VERDICT[n]; when this returns it is durable."""

    def nearness(self, verdicts: Array) -> list[float]:
        """What is told of how near each document is to its leader: the distance."""
        distances: list[float] = verdicts["distance"].tolist()
        return distances

    @property
    @abstractmethod
    def next_id(self) -> int:
        """The number of the next cluster."""

    def count(self, tally: Tally) -> None:
        """Tell how many clusters there are, and what was refused."""
        tally.results, tally.new = self.next_id - self.first, self.next_id - self.known

    def state(self) -> dict[str, Any]:
        """What the journal has to hold of them."""
        return {}

    def settle(self) -> None:  # noqa: B027 - most have nothing to do
        """All documents were decided: make durable what the end of the job needs."""


class _Centers(Grouping):
    """Of centers that move."""

    def __init__(self, centers: Centers, members: AppendFile) -> None:
        self._centers, self._members = centers, members
        self._member = _member_of(centers.words)

    def decide(self, fingerprints: Array, batch: Batch) -> Array:
        found = self._centers.decide(fingerprints)
        members = np.empty(len(found), dtype=self._member)
        members["fingerprint"], members["cluster"] = fingerprints, found["id"]
        self._members.write(members.tobytes())
        self._members.sync()
        return found

    @property
    def next_id(self) -> int:
        return self._centers.next_id


class _Leaders(Grouping):
    """Of leaders that stay where they are: the documents that dedup keeps, for which it drops the other members."""

    def __init__(self, kept: Kept | SimilarKept, workplace: Workplace, known: int) -> None:
        self._kept, self._workplace, self.known = kept, workplace, known
        self.first = workplace.first_number

    def decide(self, fingerprints: Array, batch: Batch) -> Array:
        found = self._kept.decide_all(fingerprints, batch.names, batch.texts, batch.hashes)
        self._workplace.sync()
        found["id"] -= np.uint64(self.first)
        return found

    def nearness(self, verdicts: Array) -> list[float]:
        told: list[float] = self._kept.nearness(verdicts["distance"]).tolist()
        return told

    @property
    def next_id(self) -> int:
        return self._kept.next_id

    def count(self, tally: Tally) -> None:
        super().count(tally)
        tally.refused, tally.cut_short = self._kept.refused, self._kept.cut_short

    def state(self) -> dict[str, Any]:
        return _state_of(self._workplace, self.next_id, self.known)

    def settle(self) -> None:
        self._workplace.store.wait()


class _StandingCenters(_Centers):
    """Of centers that move, and that a standing store has the first documents of."""

    def __init__(self, centers: Centers, members: AppendFile, votes: Votes, workplace: Workplace, known: int) -> None:
        super().__init__(centers, members)
        self._votes, self._workplace, self.known = votes, workplace, known
        self.first = workplace.first_number

    def decide(self, fingerprints: Array, batch: Batch) -> Array:
        found = super().decide(fingerprints, batch)
        leads = np.flatnonzero(found["leads"])
        keys, ids = fingerprints[leads], found["id"][leads] + np.uint64(self.first)
        first = leads.tolist()
        names, rows = [batch.names[i] for i in first], self._workplace.rows
        known = None if rows is None else rows.known(keys, names)
        self._workplace.spool.append(ids.tolist(), keys, names, [batch.texts[i] for i in first], known)
        if isinstance(rows, ConfirmedRows):
            rows.add(keys, ids=ids)
        else:
            self._workplace.store.add(keys, ids=ids)
        self._workplace.store.sync()
        return found

    @property
    def next_id(self) -> int:
        return self._centers.next_id + self.first

    def state(self) -> dict[str, Any]:
        return _state_of(self._workplace, self.next_id, self.known)

    def settle(self) -> None:
        self._workplace.store.wait()
        self._votes.settle(self._centers.next_id)


@contextmanager
def own_grouping(
    job: Job, tally: Tally, settings: Settings, confirm: Confirm | None, *, update_center: bool
) -> Iterator[Grouping]:
    """Clusters that go with the job, as they were at its last commit."""
    if not update_center:
        with own_workplace(job, settings, texts=confirm is not None) as workplace:
            yield _Leaders(_kept(workplace, settings, confirm, tally), workplace, 0)
        return
    distance, bits = settings.max_distance, settings.recipe.bits
    with _members(job, tally.documents, bits) as members, scratch_store(job, "store", distance, bits) as store:
        votes = Votes(job.work_folder, VOTES, words_of(bits))
        yield _Centers(_restored(store, members, votes, distance), members)


@contextmanager
def standing_grouping(
    path: Path, job: Job, tally: Tally, settings: Settings, confirm: Confirm | None, *, update_center: bool
) -> Iterator[Grouping]:
    """Clusters of the standing store at path, as they were at the last commit of this job.

    Raises what standing_workplace does, ValueError where a store has clusters of the other kind, and JobError where
    what it has of moving centers does not belong together.
    """
    kind, texts = CENTERS if update_center else LEADERS, confirm is not None or settings.named
    bits = settings.recipe.bits
    with standing_workplace(path, job, settings, texts=texts, clusters=kind) as workplace:
        known = workplace.next_id if job.state is None else job.state["known"]
        if not update_center:
            yield _Leaders(_kept(workplace, settings, confirm, tally), workplace, known)
            return
        with (
            _members(job, tally.documents, bits) as members,
            scratch_store(job, "centers", settings.max_distance, bits) as scratch,
        ):
            votes = Votes(job.work_folder, VOTES, words_of(bits), Place(workplace.spool.folder, VOTES))
            if votes.count != known - workplace.first_number:
                _refuse_votes(path, votes.count, known - workplace.first_number)
            centers = _restored(scratch, members, votes, settings.max_distance, workplace)
            yield _StandingCenters(centers, members, votes, workplace, known)


def _kept(workplace: Workplace, settings: Settings, confirm: Confirm | None, tally: Tally) -> Kept | SimilarKept:
    """The leaders of a workplace, which have refused what the tally says."""
    kept = kept_of(workplace, settings, confirm)
    kept.refused, kept.cut_short = tally.refused, tally.cut_short
    return kept


def _state_of(workplace: Workplace, next_id: int, known: int) -> dict[str, Any]:
    return {"next_id": next_id, "known": known, **workplace.state()}


def _refuse_votes(path: Path, found: int, known: int) -> None:
    if not found:
        told = f"found {known} rows or numbers that no job with --update-center gave, expected none"
        raise ValueError(f"{path}: {told}: moving centers need the bit counts of all clusters; begin with a new store")
    told = f"found the bit counts of {found} clusters, expected those of {known}, which the store has"
    raise fpstore.JobError(f"{told}: added by another way, or copied while a job was at work?", path=path)


def _members(job: Job, documents: int, bits: int) -> closing[AppendFile]:
    return closing(AppendFile(job.work_folder, "members", documents * _member_of(words_of(bits)).itemsize))


def _restored(
    store: Store, members: AppendFile, votes: Votes, max_distance: int, standing: Workplace | None = None
) -> Centers:
    """The centers of those members; standing: what has those that still are compared with."""
    next_id = votes.count
    for known in _chunks(members, votes.words):
        clusters, first = np.unique(known["cluster"], return_index=True)
        first = first[clusters >= np.uint64(next_id)]
        leaders = known[first]
        votes.restore(known["fingerprint"], known["cluster"], leaders)
        next_id += len(leaders)
    for ids in _numbers(next_id) if standing is None else _rows_of(standing, votes, next_id):
        store.add(votes.centers(ids), ids=ids)
    return Centers(store, votes, max_distance, next_id)


def _numbers(end: int) -> Iterator[Ids]:
    for start in range(0, end, _MEMBERS_AT_ONCE):
        yield np.arange(start, min(start + _MEMBERS_AT_ONCE, end), dtype=np.uint64)


def _rows_of(standing: Workplace, votes: Votes, next_id: int) -> Iterator[Ids]:
    """The clusters that a standing store has rows of: one whose row was removed takes no members any more."""
    for numbers, fingerprints in standing.fingerprints(_MEMBERS_AT_ONCE):
        ids = numbers - np.uint64(standing.first_number)
        fits = ids < np.uint64(next_id)
        same = votes.leaders(ids[fits]) == fingerprints[fits]
        fits[fits] = same if same.ndim == 1 else same.all(axis=1)
        if not fits.all():
            other = int(ids[int(np.argmin(fits))])
            told = f"found document {other}, which is the first of no cluster, expected those of jobs with"
            raise fpstore.JobError(f"{told} --update-center only", path=standing.store.path)
        yield ids


def _chunks(members: AppendFile, words: int) -> Iterator[Array]:
    known = np.frombuffer(members.view(), dtype=_member_of(words))
    for start in range(0, len(known), _MEMBERS_AT_ONCE):
        yield known[start : start + _MEMBERS_AT_ONCE]
