"""How alike two documents are, by their shingles: exact.

Jaccard: of the shingles that one of the two documents has, the share that both have. Cosine: of the angle between the
two vectors of shingles with their weights. Both are of the recipe's features, which shingles share whose hashes
collide, and of weights as a fingerprint takes them: whole multiples of 2^-16. Of these they are exact, and so is what
is decided by them. A document without shingles, or for a cosine without one that weighs something, is like one with the
same bytes, and like no other.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fpstore.text._alike import common_counts, common_products
from fpstore.text.held import Features, Sets
from fpstore.text.recipe import Recipe

# A root is taken of a share with so many bits behind the point.
_ROOT_BITS = 160


class Share(NamedTuple):
    """A measure as a share of whole numbers, or, is_root, as its root: exact."""

    part: int
    whole: int
    is_root: bool

    def reaches(self, least: Fraction) -> bool:
        """Whether the measure is that much."""
        bound = least * least if self.is_root else least
        return self.part * bound.denominator >= bound.numerator * self.whole

    def __float__(self) -> float:
        if not self.is_root:
            return self.part / self.whole
        return math.isqrt((self.part << _ROOT_BITS) // self.whole) / (1 << _ROOT_BITS // 2)


def jaccard(one: Features, others: Sequence[Features]) -> list[Share]:
    """The share of the shingles of either document that both have, for each of others; one has shingles."""
    common = common_counts(one, list(others))
    return [
        Share(both, len(one.hashes) + len(other.hashes) - both, False)
        for both, other in zip(common, others, strict=True)
    ]


def cosine(one: Features, others: Sequence[Features]) -> list[Share]:
    """Of the angle between the weighted shingles of two documents, for each of others; one has shingles."""
    (square,) = common_products(one, [one])
    common = common_products(one, list(others))
    squares = [common_products(other, [other])[0] for other in others]
    # With the root of a product as a whole, equal documents give 1.
    return [Share(both * both, max(1, square * own), True) for both, own in zip(common, squares, strict=True)]


MEASURES = {"jaccard": jaccard, "cosine": cosine}


class Measure:
    """A measure, by its name, of documents of a recipe."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.shares = MEASURES[name]
        self._weighs = name == "cosine"
        self._of_nothing = recipe.features("").hashes.tolist()

    def says_nothing(self, features: Features) -> bool:
        """Whether these tell nothing about their document, so that it is only like one with the same bytes."""
        if self._weighs and not features.weights.any():
            return True
        return len(features.hashes) <= 1 and features.hashes.tolist() == self._of_nothing

    @property
    def counts(self) -> bool:
        """Whether the measure is a share of shingles, whatever they weigh."""
        return not self._weighs

    def say_nothing(self, sets: Sets) -> npt.NDArray[np.bool_]:
        """Which documents have features that tell nothing about them, where no shingle weighs more: bool[n]."""
        return sets.are(self._of_nothing)

    def between(self, one: Features, other: Features, *, same_bytes: bool) -> float:
        """How alike two documents are; same_bytes: whether their texts are equal."""
        if self.says_nothing(one) or self.says_nothing(other):
            return float(same_bytes)
        return float(self.shares(one, [other])[0])
