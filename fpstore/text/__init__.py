"""Owns the way from a document to its fingerprint: the recipe and its steps, and the compiled core that does most."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fpstore.text.comparison import Comparison, Shingle, compare
from fpstore.text.deduplication import Deduplicated, dedup
from fpstore.text.given import simhash_of_features, simhash_of_hashes
from fpstore.text.held import Features
from fpstore.text.idf import learn_idf
from fpstore.text.loading import load_recipe
from fpstore.text.model import IdfModel
from fpstore.text.presets import DEFAULT_RECIPE, expect_recipe, recipes
from fpstore.text.projection import simhash_of_projection
from fpstore.text.recipe import Recipe

__all__ = [
    "DEFAULT_RECIPE",
    "Comparison",
    "Deduplicated",
    "Features",
    "IdfModel",
    "Recipe",
    "Shingle",
    "compare",
    "dedup",
    "fingerprint",
    "fingerprint_many",
    "learn_idf",
    "load_recipe",
    "recipes",
    "simhash_of_features",
    "simhash_of_hashes",
    "simhash_of_projection",
]


def fingerprint(text: str | bytes, recipe: Recipe = DEFAULT_RECIPE) -> int:
    """The fingerprint (0..2**64 - 1) of text by recipe."""
    return expect_recipe(recipe).fingerprint(text)


def fingerprint_many(
    texts: Iterable[str | bytes], recipe: Recipe = DEFAULT_RECIPE, *, threads: int | None = None
) -> npt.NDArray[np.uint64]:
    """The fingerprints of texts by recipe, in their order: uint64[n]. threads: how many at once; None: all."""
    return expect_recipe(recipe).fingerprint_many(texts, threads=threads)
