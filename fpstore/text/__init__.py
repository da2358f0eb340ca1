"""Owns the way from a document to its fingerprint: the recipe and its steps, and the compiled core that does most."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpstore.text.given import simhash_of_features, simhash_of_hashes
from fpstore.text.packages import need
from fpstore.text.presets import DEFAULT, PRESETS
from fpstore.text.projection import simhash_of_projection
from fpstore.text.recipe import Features, Recipe

__all__ = [
    "DEFAULT",
    "PRESETS",
    "Features",
    "Recipe",
    "fingerprint",
    "fingerprint_many",
    "need",
    "simhash_of_features",
    "simhash_of_hashes",
    "simhash_of_projection",
]


def fingerprint(text: str | bytes, recipe: Recipe = DEFAULT) -> int:
    """The simhash (0..2**64 - 1) of text by recipe; 0 if it has no words."""
    return _expect_recipe(recipe).fingerprint(text)


def fingerprint_many(
    texts: Sequence[str | bytes], recipe: Recipe = DEFAULT, threads: int = 1
) -> npt.NDArray[np.uint64]:
    """The simhashes of texts by recipe, in their order: uint64[len(texts)]."""
    return _expect_recipe(recipe).fingerprint_many(texts, threads)


def _expect_recipe(recipe: object) -> Recipe:
    if not isinstance(recipe, Recipe):
        hint = f": fpstore.text.PRESETS[{recipe!r}]" if isinstance(recipe, str) and recipe in PRESETS else ""
        raise TypeError(f"recipe: found {recipe!r:.40}, a {type(recipe).__name__}, expected a Recipe{hint}")
    return recipe
