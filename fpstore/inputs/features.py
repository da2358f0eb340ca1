"""Owns the reading of features that come ready-made: fields of JSON lines, and what may stand in them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from fpstore.inputs.columns import Asked
from fpstore.inputs.compressed import STANDARD_INPUT, OnBytes, display_name
from fpstore.inputs.errors import Faults, expect_some, shown
from fpstore.inputs.reader import DEFAULT_BATCH
from fpstore.inputs.records import Request
from fpstore.inputs.sources import format_of
from fpstore.inputs.text import read_jsonl
from fpstore.text import DEFAULT_RECIPE, simhash_of_features

EXPECTED = "a list of tokens or of pairs [token, weight], or an object of tokens and their weights"


def fingerprints_of_features(
    sources: Sequence[str | Path],
    field: str,
    *,
    format: str = "auto",
    hash: str = "xxh3",
    seed: int = 0,
    tie: str = "clear",
    faults: Faults | None = None,
    on_bytes: OnBytes | None = None,
) -> Generator[tuple[str, int]]:
    """The name of every line of JSON lines, path:number, and the simhash of the features in its field, as they come.

    A field is a list of which each item is a token or a pair [token, weight], or an object whose names are tokens and
    whose values are their weights. Tokens are hashed as they stand; weights are those of simhash_of_features. format:
    `jsonl`, or `auto`, by the suffix. Another value is a bad line, which faults (Faults(False) where None) raises as
    BadInput or counts. Raises ValueError for a source of another format, before any is read, and for what
    simhash_of_features refuses of hash, seed and tie.
    """
    simhash_of_features([], hash, seed=seed, tie=tie)  # refuses what no line is to blame for
    faults = Faults(False) if faults is None else faults
    request = Request(
        asked=Asked(fingerprint=field),
        recipe=DEFAULT_RECIPE,
        rows=DEFAULT_BATCH,
        faults=faults,
        on_bytes=on_bytes,
    )
    paths = [str(source) for source in sources]
    for path in paths:
        found = format_of(path) if format == "auto" and path != STANDARD_INPUT else format
        if found not in ("auto", "jsonl"):
            raise ValueError(f"{display_name(path)}: found format {found}, expected jsonl for features")
    return _fingerprints(paths, request, {"hash": hash, "seed": seed, "tie": tie})


def _fingerprints(paths: list[str], request: Request, steps: Mapping[str, object]) -> Generator[tuple[str, int]]:
    good = 0
    for path in paths:
        for records in read_jsonl(path, request):
            for index, value in enumerate(records.values):
                if not isinstance(value, list | dict):
                    request.faults.meet(records.error(index, f"found {shown(value)}, expected {EXPECTED}"))
                    continue
                try:
                    fingerprint = simhash_of_features(value, **steps)  # type: ignore[arg-type]
                except (TypeError, ValueError, OverflowError) as error:
                    request.faults.meet(records.error(index, str(error)))
                    continue
                good += 1
                yield records.name(index), fingerprint
    expect_some(good, request.faults.bad, request.faults.counts)
