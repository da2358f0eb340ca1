"""Owns what a job tells when it has ended."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass
class Tally:
    """What a job has done, in all its runs.

    results: kept documents, clusters, components or pairs. skipped: what was passed over of the inputs, how many by
    reason. notes: what was read in spite of some damage. refused: matches that were found not to be alike. cut_short:
    documents with more matches than are looked at, none of which was alike.
    """

    documents: int = 0
    results: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    cut_short: int = 0

    @classmethod
    def of(cls, state: dict[str, Any] | None) -> Self:
        """That of a journal."""
        return cls(**(state["tally"] if state else {}))


@dataclass(frozen=True)
class Summary:
    """The tally, and what the last run took: bytes of text, seconds.

    warning: what to say where most texts are short for their recipe, else None. was_done: whether an earlier run had
    done all of it, so that this one did nothing. confirm: by what measure matches were confirmed, None where they were
    not.
    """

    documents: int
    results: int
    skipped: Mapping[str, int]
    notes: Mapping[str, int]
    refused: int
    cut_short: int
    run_bytes: int
    seconds: float
    warning: str | None
    was_done: bool = False
    confirm: str | None = None

    @property
    def rate(self) -> float:
        """Bytes of text in a second."""
        return self.run_bytes / max(self.seconds, 1e-9)


def summarise(tally: Tally, run_bytes: int, started: float, warning: str | None, *, was_done: bool) -> Summary:
    """The summary of a run that started at a time of time.monotonic."""
    seconds = time.monotonic() - started
    return Summary(**asdict(tally), run_bytes=run_bytes, seconds=seconds, warning=warning, was_done=was_done)
