"""Owns the model behind weights `idf`, and its file: what a shingle weighs, as some corpus has it.

A shingle that d of n documents have weighs ln(1 + n / d), in units of 2**-16: what every document has, little; what
one document has, much. The file: docs/format.md. A recipe pins it by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.errors import CorruptStore
from fpstore.forks import cached_property
from fpstore.text._simhash import Idf

MAGIC = b"fpsidf1\n"
UNIT = 1 << 16
_LENGTH = struct.Struct("<I")
_DIGEST_BYTES = 32
_HEADER_FIELDS = {"steps": dict, "documents": int, "uncounted": int, "unseen": int, "shingles": int}

Weights = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class IdfModel:
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
    def from_bytes(cls, data: bytes, name: str = "idf model") -> IdfModel:
        """The model that to_bytes wrote; name: of the file, for messages. Raises CorruptStore for anything else."""
        _expect(name, "first bytes", data[: len(MAGIC)].hex(" "), MAGIC.hex(" "))
        plain, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
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


def read_model(path: str | Path) -> IdfModel:
    """The model in the file at path. Raises CorruptStore for a file that is none; the system's errors pass through."""
    return IdfModel.from_bytes(Path(path).read_bytes(), str(path))


def _header(name: str, record: bytes) -> dict[str, Any]:
    try:
        header = json.loads(record)
    except ValueError as error:
        raise CorruptStore(name, f"a header that is no JSON ({error})", "one that is") from error
    kinds = {field: type(header[field]) for field in header} if isinstance(header, dict) else {}
    _expect(name, "header", kinds, _HEADER_FIELDS)
    return dict(header)


def _expect(name: str, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise CorruptStore(name, f"{what} {found!r}", repr(expected))
