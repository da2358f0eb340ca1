"""Checks a match on the documents themselves: how alike are they, by a textbook measure, and is that enough?

What the measures are: fpstore/text/comparison.py.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from fpstore.text import Recipe
from fpstore.text.comparison import cosine, jaccard
from fpstore.text.recipe import Features

MEASURES = ("jaccard", "cosine")

# For the features of kept documents, which are looked at again and again.
_CACHE_BYTES = 64 << 20

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
            raise ValueError(
                f"confirm: found {typed!r:.40}, expected jaccard>=0.8 or cosine>=0.9, a number from 0 to 1"
            )
        return cls(measure, least)

    def __str__(self) -> str:
        return f"{self.measure}>={self.least}"


class Checker:
    """Measures documents against kept ones, whose features it holds on to for a while."""

    def __init__(self, confirm: Confirm, recipe: Recipe, kept_text: Callable[[int], str]) -> None:
        """kept_text: the text of a kept document."""
        self._least = confirm.least
        self._similarity = jaccard if confirm.measure == "jaccard" else cosine
        self._recipe = recipe
        self._kept_text = kept_text
        self._features: OrderedDict[int, Features] = OrderedDict()
        self._bytes = 0

    def features(self, text: str) -> Features:
        """Of one text."""
        return self._recipe.features(text)

    def measure(self, features: Features, kept_id: int) -> tuple[float, bool]:
        """How alike a document with these features and a kept one are, and whether that is enough."""
        found = self._similarity(features, self._of_kept(kept_id))
        return found, found >= self._least

    def _of_kept(self, kept_id: int) -> Features:
        found = self._features.pop(kept_id, None)
        if found is None:
            found = self.features(self._kept_text(kept_id))
            self._bytes += _size(found)
        self._features[kept_id] = found
        while self._bytes > _CACHE_BYTES and len(self._features) > 1:
            _, oldest = self._features.popitem(last=False)
            self._bytes -= _size(oldest)
        return found


def _size(features: Features) -> int:
    return features.hashes.nbytes + features.weights.nbytes
