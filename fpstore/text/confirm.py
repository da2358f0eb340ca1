"""Checks a match on the documents themselves: how alike are they, by a measure, and is that enough?

What the measures are: fpstore/text/measures.py.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fpstore.text._simhash import xxh3
from fpstore.text.measures import MEASURES, Measure
from fpstore.text.recipe import Features, Recipe, bytes_hash

# With a distance of 6 it drops at most one document in 1,000 wrongly of each corpus that docs/jobs.md names, and finds
# more than a distance of 3 alone. With 0.8 titles that differ in a year are dropped; with 0.85 it finds less.
DEFAULT_CONFIRM = "jaccard>=0.82"
CONFIRMED_DISTANCE = 6
# Where nothing can be confirmed.
UNCONFIRMED_DISTANCE = 3

# For the features of kept documents, which are looked at again and again.
_CACHE_BYTES = 64 << 20
# So many kept documents are looked at together, but for the nearest, which as a rule is enough.
_AT_ONCE = 8

_TYPED = re.compile(r"\s*([a-z]+)\s*>=\s*([0-9.]+)\s*")


@dataclass(frozen=True)
class Confirm:
    """What makes a match a duplicate: a measure, and the least that it has to be, 0 to 1."""

    measure: str
    least: float

    @classmethod
    def parse(cls, typed: str) -> "Confirm":
        """From "jaccard>=0.8" or "cosine>=0.9". Raises ValueError for anything else, TypeError for no text."""
        if not isinstance(typed, str):
            raise TypeError(f"confirm: found {typed!r:.40}, a {type(typed).__name__}, expected jaccard>=0.8 as a str")
        found = _TYPED.fullmatch(typed)
        try:
            measure, least = (found[1], float(found[2])) if found else ("", 0.0)
        except ValueError:
            measure, least = "", 0.0
        if measure not in MEASURES or not 0 <= least <= 1:
            # The word of the command line for it.
            nothing = ", or None" if typed == "none" else ""
            raise ValueError(
                f"confirm: found {typed!r:.40}, expected jaccard>=0.8 or cosine>=0.9, a number from 0 to 1{nothing}"
            )
        return cls(measure, least)

    @classmethod
    def settle(cls, typed: str | None, *, has_texts: bool) -> "Confirm | None":
        """What a job confirms by, None for nothing; "default" is DEFAULT_CONFIRM where all texts are there."""
        if typed == "default":
            typed = DEFAULT_CONFIRM if has_texts else None
        return None if typed is None else cls.parse(typed)

    def __str__(self) -> str:
        return f"{self.measure}>={self.least}"


class Found(NamedTuple):
    """Which of the kept documents is alike, as a place among those that were asked for, and how alike; None for none.

    refused: how many were looked at and are not.
    """

    place: int | None
    measure: float
    refused: int


class Checker:
    """Measures documents against kept ones, whose features it holds on to for a while."""

    def __init__(self, confirm: Confirm, recipe: Recipe, kept_texts: Callable[[list[int]], list[str]]) -> None:
        """kept_texts: the texts of kept documents."""
        # The decimal number that was typed, not the binary one next to it.
        self._least = Fraction(repr(confirm.least))
        self._measure = Measure(confirm.measure, recipe)
        self._recipe = recipe
        self._kept_texts = kept_texts
        self._asked: tuple[str, Features] | None = None
        self._features: OrderedDict[int, Features] = OrderedDict()
        self._bytes = 0

    def first_alike(self, text: str, kept_ids: Sequence[int]) -> Found:
        """The first of kept documents that is enough like a text; one with the same bytes anyhow."""
        features = self._of(text)
        if self._measure.says_nothing(features):
            return self._first_equal(text, kept_ids)
        start, end = 0, 1
        while start < len(kept_ids):
            kept = self._of_kept(kept_ids[start:end])
            for place, share in enumerate(self._measure.shares(features, kept), start):
                if share.reaches(self._least) and not self._measure.says_nothing(kept[place - start]):
                    return Found(place, float(share), place)
            start, end = end, end + _AT_ONCE
        return Found(None, math.nan, len(kept_ids))

    def _first_equal(self, text: str, kept_ids: Sequence[int]) -> Found:
        for place, kept_id in enumerate(kept_ids):
            if self._kept_texts([kept_id]) == [text]:
                return Found(place, 1.0, place)
        return Found(None, math.nan, len(kept_ids))

    def mark(self, text: str) -> int:
        """A number of 64 bits that is the same for texts which are wholly alike: with the same features, or bytes."""
        return self._mark(text, self._of(text))

    def marks_of(self, kept_ids: Sequence[int]) -> list[int]:
        """The same of kept documents, whose texts are held together."""
        return [self._mark(text, self._recipe.features(text)) for text in self._kept_texts(list(kept_ids))]

    def _mark(self, text: str, features: Features) -> int:
        if not self._measure.says_nothing(features):
            return xxh3(features.hashes.tobytes() + features.weights.tobytes())
        return bytes_hash(text)

    def _of(self, text: str) -> Features:
        """The features of a text, which is asked about several times."""
        if self._asked is None or self._asked[0] is not text:
            self._asked = text, self._recipe.features(text)
        return self._asked[1]

    def _of_kept(self, kept_ids: Sequence[int]) -> list[Features]:
        unknown = [kept_id for kept_id in kept_ids if kept_id not in self._features]
        for kept_id, text in zip(unknown, self._kept_texts(unknown) if unknown else (), strict=True):
            self._features[kept_id] = self._recipe.features(text)
            self._bytes += _size(self._features[kept_id])
        found = [self._features[kept_id] for kept_id in kept_ids]
        for kept_id in kept_ids:
            self._features.move_to_end(kept_id)
        while self._bytes > _CACHE_BYTES and len(self._features) > 1:
            _, oldest = self._features.popitem(last=False)
            self._bytes -= _size(oldest)
        return found


def _size(features: Features) -> int:
    return features.hashes.nbytes + features.weights.nbytes
