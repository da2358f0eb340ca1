"""Owns the reading of features that come ready-made: fields of JSON lines, and what may stand in them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from fpstore.errors import PathLike
from fpstore.inputs.columns import Asked
from fpstore.inputs.compressed import OnBytes, display_name
from fpstore.inputs.errors import Faults, expect_some, shown
from fpstore.inputs.reader import DEFAULT_BATCH
from fpstore.inputs.records import Request
from fpstore.inputs.sources import inputs_of
from fpstore.inputs.text import field_of, read_jsonl
from fpstore.text import DEFAULT_RECIPE, simhash_of_features

EXPECTED = "a list of tokens or of pairs [token, weight], or an object of tokens and their weights"


def fingerprints_of_features(
    sources: Sequence[PathLike],
    field: str,
    *,
    format: str = "auto",
    hash: str = "xxh3",
    seed: int = 0,
    tie: str = "clear",
    bits: int = 64,
    faults: Faults | None = None,
    on_bytes: OnBytes | None = None,
) -> Generator[tuple[str, int]]:
    """The name of every line of JSON lines, path:number, and the simhash of the features in its field, as they come.

    A field is a list of which each item is a token or a pair [token, weight], or an object whose names are tokens and
    whose values are their weights. Tokens are hashed as they stand; weights are those of simhash_of_features. format:
    `jsonl`, or `auto`, by the suffix. Another value is a bad line, which faults (Faults(False) where None) raises as
    BadInput or counts. Raises ValueError for a source of another format, before any is read, and for what
    simhash_of_features refuses of hash, seed, tie and bits.
    """
    simhash_of_features([], hash, seed=seed, tie=tie, bits=bits)  # refuses what no line is to blame for
    faults = Faults(False) if faults is None else faults
    request = Request(
        asked=Asked(fingerprint=field),
        recipe=DEFAULT_RECIPE,
        rows=DEFAULT_BATCH,
        faults=faults,
        on_bytes=on_bytes,
    )
    inputs = inputs_of(sources, format, standard_input="jsonl")
    for one in inputs:
        for found, path in one.kinds.items():
            if found != "jsonl":
                raise ValueError(f"{display_name(path)}: found format {found}, expected jsonl for features")
    paths = (source.path for one in inputs for source in one.files(faults))
    return _fingerprints(paths, request, field, {"hash": hash, "seed": seed, "tie": tie, "bits": bits})


def _fingerprints(
    paths: Iterable[str], request: Request, field: str, steps: Mapping[str, object]
) -> Generator[tuple[str, int]]:
    good = 0
    for path in paths:
        for records in read_jsonl(path, request):
            for index, value in enumerate(records.values):
                if not isinstance(value, list | dict):
                    request.faults.meet(records.error(index, f"found {shown(value)}, expected {EXPECTED}"))
                    continue
                twice = _named_twice(records.lines[index], field) if records.lines and isinstance(value, dict) else None
                if twice is not None:
                    request.faults.meet(records.error(index, f"found token {shown(twice)} twice, expected it once"))
                    continue
                try:
                    fingerprint = simhash_of_features(value, **steps)  # type: ignore[arg-type]
                except (TypeError, ValueError, OverflowError) as error:
                    request.faults.meet(records.error(index, str(error)))
                    continue
                good += 1
                yield records.name(index), fingerprint
    expect_some(good, request.faults.bad, request.faults.counts)


def _named_twice(line: bytes, field: str) -> str | None:
    """The first token that the object in the field of a line names twice; readers of JSON take the last one."""
    twice: list[tuple[dict[str, Any], str]] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice.append((made, next(name for name in names if names.count(name) > 1)))
        return made

    value = field_of(json.loads(line, object_pairs_hook=look), field)
    return next((name for made, name in twice if made is value), None)
