"""Owns the way from a text to its fingerprint: the recipe, and the compiled core that follows it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpstore.text.recipe import DEFAULT, Recipe

__all__ = ["DEFAULT", "Recipe", "fingerprint", "fingerprint_many"]


def fingerprint(text: str, recipe: Recipe = DEFAULT) -> int:
    """The simhash (0..2**64 - 1) of text by recipe; 0 if it has no words."""
    return recipe.fingerprint(text)


def fingerprint_many(texts: Sequence[str], recipe: Recipe = DEFAULT) -> npt.NDArray[np.uint64]:
    """The simhashes of texts by recipe, in their order: uint64[len(texts)]."""
    return recipe.fingerprint_many(texts)
