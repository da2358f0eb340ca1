"""Owns how two long texts are compared that differ in few places: by the shingles of these places alone.

Wherever both have the same bytes they have the same shingles, and most near-duplicates have nearly all of theirs alike.
So of the one whose hashes are not at hand the text is enough, and few of its shingles are hashed: it is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fpstore.text._passages import apart
from fpstore.text.packed import Packed, Texts
from fpstore.text.recipe import Recipe

Counts = npt.NDArray[np.int64]


class Replaced(NamedTuple):
    """What the hashes of other texts have in place of those of texts: from starts[i] to middles[i] these, then those.

    which: int64[n], of which pairs that is told. starts, middles, ends: int64[n], in hashes, uint64[m], at least one.
    """

    which: Counts
    starts: Counts
    middles: Counts
    ends: Counts
    hashes: npt.NDArray[np.uint64]


def tells_apart(recipe: Recipe) -> bool:
    """Whether the shingles of a part of a text, from one space to another, are those that the text has there.

    What comes to be a token, or a letter of it, is not told by anything behind a space of ASCII, or before it. Not of
    recipes that make signatures: the hashes that are kept of them are in order, and no list in which some are replaced.
    """
    if recipe.sketch == "minhash":
        return False
    return recipe.tokens in ("words", "mixed") and not recipe.is_prepared


def replaced(recipe: Recipe, texts: Packed[Any], indexes: Counts, others: Packed[Any], which: Counts) -> Replaced:
    """Of pairs of texts[indexes[i]] and others[which[i]], both UTF-8, by a recipe that tells_apart; of some of them."""
    tokens = max(2, recipe.shingle, recipe.dense_shingle)
    own = texts.data, texts.offsets, indexes
    data, offsets, counts = apart(*own, others.data, others.offsets, which, tokens)
    told = (counts >= 0).nonzero()[0]
    counts = counts[told]
    kept = recipe.measure_and_keep(Texts(data, offsets), threads=1)[1]
    ends = 2 * counts.cumsum()  # in passages
    starts, middles, ends = (kept.offsets[at] for at in (ends - 2 * counts, ends - counts, ends))
    return Replaced(told, starts, middles, ends, kept.hashes)
