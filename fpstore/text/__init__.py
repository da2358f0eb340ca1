"""Owns the way from a document to its fingerprint: the recipe and its steps, and the compiled core that does most."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpstore.text.comparison import Comparison, Shingle, compare
from fpstore.text.given import simhash_of_features, simhash_of_hashes
from fpstore.text.packages import need
from fpstore.text.presets import DEFAULT, PRESETS, expect_recipe
from fpstore.text.projection import simhash_of_projection
from fpstore.text.recipe import Features, Recipe

__all__ = [
    "DEFAULT",
    "PRESETS",
    "Comparison",
    "Features",
    "Recipe",
    "Shingle",
    "compare",
    "fingerprint",
    "fingerprint_many",
    "need",
    "simhash_of_features",
    "simhash_of_hashes",
    "simhash_of_projection",
]


def fingerprint(text: str | bytes, recipe: Recipe = DEFAULT) -> int:
    """The simhash (0..2**64 - 1) of text by recipe; 0 if it has no words."""
    return expect_recipe(recipe).fingerprint(text)


def fingerprint_many(
    texts: Sequence[str | bytes], recipe: Recipe = DEFAULT, threads: int = 1
) -> npt.NDArray[np.uint64]:
    """The simhashes of texts by recipe, in their order: uint64[len(texts)]."""
    return expect_recipe(recipe).fingerprint_many(texts, threads)
