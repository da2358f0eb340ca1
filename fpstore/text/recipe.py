"""Owns the recipe: every step from a text to its fingerprint, under names that a store can record.

The steps of version 1, in order:

- normalisation `nfkc-casefold`: Unicode NFKC, then case folding (`str.casefold`). It is not normalised again.
- tokens `words`: the runs that `re` finds for `\\w+`: characters that are alphanumeric in Unicode, and `_`.
- shingles: every `shingle` words in a row, joined by one space. A text with fewer words, but at least one,
  is a single shingle of all of them.
- hash `xxh64`: XXH64 with seed 0 of the shingle's UTF-8.
- weights `frequency`: a shingle counts as often as it occurs.
- simhash: bit b is set if the weight of the shingles whose hash has bit b is more than half of all the
  weight. A tie leaves the bit clear. A text without words has the fingerprint 0.

A change of any step is a new version, so that equal recipes give equal fingerprints. What Unicode calls a
letter, and its foldings, are pinned (`unicode.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt

from fpstore.errors import UnsupportedVersion
from fpstore.text._simhash import measure

VERSION = 1
MAX_SHINGLE = 64

# Every value that a field can have; later versions add to these.
_CHOICES = {
    "normalisation": ("nfkc-casefold",),
    "tokens": ("words",),
    "weights": ("frequency",),
    "hash": ("xxh64",),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a text becomes a fingerprint; see the module for what each step means.

    name: what people call it. shingle: how many words, 1..64. Two recipes are the same if every field is.
    Raises ValueError for a value that no step has, UnsupportedVersion for a version newer than this code.
    """

    name: str
    version: int = VERSION
    normalisation: str = "nfkc-casefold"
    tokens: str = "words"
    shingle: int = 4
    weights: str = "frequency"
    hash: str = "xxh64"

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_type(field.name, getattr(self, field.name))
        if self.version > VERSION:
            raise UnsupportedVersion(f"recipe version: found {self.version}, expected at most {VERSION}")
        if self.version < 1:
            raise ValueError(f"recipe version: found {self.version}, expected {VERSION}")
        if not self.name:
            raise ValueError("recipe name: found an empty string, expected a name")
        if not 1 <= self.shingle <= MAX_SHINGLE:
            raise ValueError(f"recipe shingle: found {self.shingle}, expected 1..{MAX_SHINGLE} words")
        for step, choices in _CHOICES.items():
            if getattr(self, step) not in choices:
                expected = " or ".join(choices)
                raise ValueError(f"recipe {step}: found {getattr(self, step)!r}, expected {expected}")

    def fingerprint(self, text: str) -> int:
        """The fingerprint (0..2**64 - 1) of one text; 0 if it has no words."""
        return int(self.fingerprint_many([text])[0])

    def fingerprint_many(self, texts: Sequence[str]) -> npt.NDArray[np.uint64]:
        """The fingerprints of texts, in their order: uint64[len(texts)]."""
        if isinstance(texts, str):
            raise TypeError("texts: found one str, expected a sequence of them")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"text: found {type(text).__name__}, expected str")
        return measure(texts, normalisation=self.normalisation, shingle=self.shingle, hash=self.hash)[0]

    def to_json(self) -> dict[str, str | int]:
        """The recipe as a plain dictionary, for json; from_json reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Recipe:
        """The recipe that to_json recorded.

        Raises ValueError where a field is missing, unknown or of a wrong value, UnsupportedVersion for a
        version newer than this code.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"recipe: found {type(record).__name__}, expected an object")
        version = record.get("version")
        if isinstance(version, int) and version > VERSION:
            # Said before its fields are compared: a newer recipe may well have others.
            raise UnsupportedVersion(f"recipe version: found {version}, expected at most {VERSION}")
        expected = [field.name for field in fields(cls)]
        if set(record) != set(expected):
            found = ", ".join(map(str, record))
            raise ValueError(f"recipe: found fields {found}, expected {', '.join(expected)}")
        return cls(**record)  # type: ignore[arg-type]  # __post_init__ checks each


def _check_type(name: str, value: object) -> None:
    expected = int if name in ("version", "shingle") else str
    # A bool is an int to isinstance, and True is no version.
    if type(value) is not expected:
        raise ValueError(f"recipe {name}: found {value!r}, expected {expected.__name__}")


DEFAULT = Recipe("words-4")
