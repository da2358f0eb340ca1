"""Owns what a job tells when it has ended."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from fpstore.jobs.corpus import Corpus


@dataclass
class Tally:
    """What a job has done, in all its runs.

    results: kept documents, clusters, components or pairs. new: those of the clusters that a standing store did not
    have before. without_value: documents without one in the field that says which is kept. detail: what more the kind
    of job tells. skipped: what was passed over of the inputs, how many by reason. notes: what was read in spite of some
    damage. repeated_names: documents with a name, of an id column, that one before them has. refused: matches that were
    found not to be alike. cut_short: documents with more matches than are looked at, none of which was alike.
    """

    documents: int = 0
    results: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    repeated_names: int = 0
    refused: int = 0
    cut_short: int = 0
    new: int = 0
    without_value: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, state: dict[str, Any] | None) -> Self:
        """That of a journal."""
        return cls(**(state["tally"] if state else {}))


@dataclass(frozen=True)
class Summary:
    """The tally, and what the last run took: seconds, bytes that were read, packed as they are, bytes of text.

    warning: what to say where most texts are short for their recipe, else None. was_done: whether an earlier run had
    done all of it, so that this one did nothing. confirm: by what measure matches were confirmed, None where they were
    not.
    """

    documents: int
    results: int
    skipped: Mapping[str, int]
    notes: Mapping[str, int]
    repeated_names: int
    refused: int
    cut_short: int
    new: int
    without_value: int
    detail: Mapping[str, Any]
    read_bytes: int
    text_bytes: int
    seconds: float
    warning: str | None
    was_done: bool = False
    confirm: str | None = None

    _JOB: ClassVar[str] = ""
    _RESULTS: ClassVar[str] = "results"

    @property
    def rate(self) -> float:
        """Bytes that were read in a second."""
        return self.read_bytes / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "job": self.job,
            "documents": self.documents,
            **self.counts,
            **self.detail,
            "repeated_names": self.repeated_names,
            "skipped": dict(self.skipped),
            "notes": dict(self.notes),
            "seconds": round(self.seconds, 3),
            "read_bytes": self.read_bytes,
            "text_bytes": self.text_bytes,
            "read_mb_per_second": round(self.rate / 1e6, 3),
            "warning": self.warning,
            "was_done": self.was_done,
        }

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._JOB

    @property
    def counts(self) -> dict[str, int]:
        """What became of the documents: how many of what there are."""
        return {self._RESULTS: self.results}


@dataclass(frozen=True)
class DedupSummary(Summary):
    """What became of documents that were deduplicated."""

    _JOB = "dedup"

    @property
    def kept(self) -> int:
        """How many documents were kept."""
        return self.results

    @property
    def dropped(self) -> int:
        """How many were not."""
        return self.documents - self.results

    @property
    def counts(self) -> dict[str, int]:
        """Kept and dropped documents, refused matches, documents without a value that says which is kept."""
        named = {"refused_matches": self.refused, "cut_short": self.cut_short, "without_value": self.without_value}
        return {"kept": self.kept, "dropped": self.dropped, **named}


@dataclass(frozen=True)
class ClusterSummary(Summary):
    """What became of documents that were clustered."""

    _JOB, _RESULTS = "cluster", "clusters"

    @property
    def clusters(self) -> int:
        """How many there are, those of a standing store among them."""
        return self.results

    @property
    def counts(self) -> dict[str, int]:
        """Clusters, and how many of them are new in a standing store, or in all where there is none; matches."""
        named = {"refused_matches": self.refused, "cut_short": self.cut_short}
        return {"clusters": self.clusters, "new_clusters": self.new, **named}


@dataclass(frozen=True)
class PairsSummary(Summary):
    """How many pairs there are."""

    _JOB, _RESULTS = "document-pairs", "pairs"

    @property
    def pairs(self) -> int:
        """How many there are."""
        return self.results


_S = TypeVar("_S", bound=Summary)


def summarise(kind: type[_S], tally: Tally, corpus: Corpus, started: float, *, was_done: bool) -> _S:
    """The summary of a run that started at a time of time.monotonic."""
    return kind(
        **asdict(tally),
        read_bytes=corpus.read_bytes,
        text_bytes=corpus.text_bytes,
        seconds=time.monotonic() - started,
        warning=corpus.warning,
        was_done=was_done,
    )
