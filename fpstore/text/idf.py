"""Owns the model behind weights `idf`: what a shingle weighs, given how many documents of a corpus have it.

A shingle that d of n documents have weighs ln(1 + n / d), in units of 2**-16: what every document has, little; what
one document has, much. One that the model does not name weighs as if one document more than `uncounted` had it.

Memory is bounded by MAX_SHINGLES, about 0.5 GiB, however large the corpus. Up to that many different shingles the
counts are exact. With more, all counts are lowered by the count of the first one too many, and those that reach zero
are forgotten (Misra and Gries, 1982; Agarwal and others, 2012, for batches). `uncounted` says by how much in all, and
is added again: a count is then at most that much too large.

The file: docs/format.md. A recipe pins it by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.errors import CorruptStore
from fpstore.text._simhash import Idf
from fpstore.text.recipe import Recipe

MAGIC = b"fpsidf1\n"
MAX_SHINGLES = 1 << 23
UNIT = 1 << 16
_BATCH_HASHES = 1 << 22  # are held before they are counted
_LENGTH = struct.Struct("<I")
_DIGEST_BYTES = 32
_HEADER_FIELDS = {"steps": dict, "documents": int, "uncounted": int, "unseen": int, "shingles": int}

Weights = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Model:
    """What shingles weigh, in units of 2**-16.

    steps: of the recipe that it was learned by. documents: how many it was learned from. hashes: uint64[m],
    increasing. weights: uint32[m]. unseen: the weight of any other shingle.
    """

    steps: Mapping[str, str | int]
    documents: int
    uncounted: int
    unseen: int
    hashes: Hashes
    weights: Weights

    @cached_property
    def checksum(self) -> str:
        """What recipes pin it by: the SHA-256 at the end of the file, in hexadecimal."""
        return self.to_bytes()[-_DIGEST_BYTES:].hex()

    def to_bytes(self) -> bytes:
        """The file; from_bytes reads it back."""
        header = {name: getattr(self, name) for name in ("documents", "uncounted", "unseen")}
        header |= {"steps": dict(self.steps), "shingles": len(self.hashes)}
        record = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        columns = self.hashes.astype("<u8").tobytes() + self.weights.astype("<u4").tobytes()
        plain = MAGIC + _LENGTH.pack(len(record)) + record + columns
        return plain + hashlib.sha256(plain).digest()

    @cached_property
    def table(self) -> Idf:
        """What the compiled core reads."""
        return Idf(self.hashes, self.weights / UNIT, self.unseen / UNIT)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "idf model") -> Model:
        """The model that to_bytes wrote; name: of the file, for messages. Raises CorruptStore for anything else."""
        plain, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        _expect(name, "first bytes", plain[: len(MAGIC)], MAGIC)
        _expect(name, "checksum", digest.hex(), hashlib.sha256(plain).hexdigest())
        start = len(MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack(plain[len(MAGIC) : start].ljust(_LENGTH.size, b"\0"))
        header = _header(name, plain[start : start + length])
        count = header.pop("shingles")
        _expect(name, "bytes", len(plain), start + length + 12 * count)
        hashes = np.frombuffer(plain, "<u8", count, start + length).astype(np.uint64)
        weights = np.frombuffer(plain, "<u4", count, start + length + 8 * count).astype(np.uint32)
        _expect(name, "order of hashes", bool((hashes[1:] <= hashes[:-1]).any()), False)
        return cls(**header, hashes=hashes, weights=weights)


def read_model(path: str | Path) -> Model:
    """The model in the file at path. Raises CorruptStore for a file that is none; the system's errors pass through."""
    return Model.from_bytes(Path(path).read_bytes(), str(path))


class Learner:
    """Counts in how many documents each shingle is, in the bounded memory that the module states."""

    def __init__(self, recipe: Recipe, most: int = MAX_SHINGLES) -> None:
        self._recipe = replace(recipe, weights="presence", idf="", model=None)
        self._most = most
        self._documents = 0
        self._uncounted = 0
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.uint32)
        self._held: list[Hashes] = []
        self._held_count = 0

    def see(self, text: str | bytes) -> None:
        """Count the shingles of one document."""
        hashes = self._recipe.features(text).hashes
        self._documents += 1
        self._held.append(hashes)
        self._held_count += len(hashes)
        if self._held_count >= min(_BATCH_HASHES, self._most):
            self._count_held()

    def model(self) -> Model:
        """What was learned so far. Raises ValueError if that is nothing."""
        if self._documents == 0:
            raise ValueError("idf model: found no documents to learn from, expected at least one")
        self._count_held()
        counts = np.minimum(self._counts + np.uint32(self._uncounted), np.uint32(self._documents))
        common = self._counts > 1
        weight_of = np.zeros(self._documents + 1, dtype=np.uint32)
        for count in np.flatnonzero(np.bincount(counts[common])):
            # By math.log1p, for each count that there is: numpy's is not the same on every machine.
            weight_of[count] = self._weight(int(count))
        steps = self._recipe.steps()
        unseen = self._weight(min(self._uncounted + 1, self._documents))
        return Model(steps, self._documents, self._uncounted, unseen, self._hashes[common], weight_of[counts[common]])

    def _weight(self, count: int) -> int:
        return round(UNIT * math.log1p(self._documents / count))

    def _count_held(self) -> None:
        """Bring what is held into the counts, and the counts within bounds."""
        hashes, counts = _distinct(np.concatenate([np.empty(0, dtype=np.uint64), *self._held]))
        self._held, self._held_count = [], 0
        places = np.searchsorted(self._hashes, hashes)
        known = np.zeros(len(hashes), dtype=bool)
        inside = places < len(self._hashes)
        known[inside] = self._hashes[places[inside]] == hashes[inside]
        self._counts[places[known]] += counts[known]
        self._hashes = np.insert(self._hashes, places[~known], hashes[~known])
        self._counts = np.insert(self._counts, places[~known], counts[~known])
        surplus = len(self._hashes) - self._most
        if surplus > 0:
            lowered = np.partition(self._counts, surplus - 1)[surplus - 1]
            kept = self._counts > lowered
            self._hashes, self._counts = self._hashes[kept], self._counts[kept] - lowered
            self._uncounted += int(lowered)


def _distinct(hashes: Hashes) -> tuple[Hashes, Weights]:
    """The distinct hashes, increasing, and how often each occurs."""
    hashes.sort()
    first = np.ones(len(hashes), dtype=bool)
    first[1:] = hashes[1:] != hashes[:-1]
    starts = np.flatnonzero(first)
    return hashes[starts], np.diff(starts, append=len(hashes)).astype(np.uint32)


def _header(name: str, record: bytes) -> dict[str, Any]:
    try:
        header = json.loads(record)
    except ValueError as error:
        raise CorruptStore(f"{name}: found a header that is no JSON ({error}), expected one") from error
    kinds = {field: type(header[field]) for field in header} if isinstance(header, dict) else {}
    _expect(name, "header", kinds, _HEADER_FIELDS)
    return dict(header)


def _expect(name: str, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise CorruptStore(f"{name}: found {what} {found!r}, expected {expected!r}")
