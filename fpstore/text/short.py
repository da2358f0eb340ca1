"""Owns what is said of texts that their recipe is weak on; first of those that are too short for it.

In a text of n tokens one other token changes `shingle` of about n shingles. The cosine of the two is then near
1 - shingle / n, and of 64 bits 64 / pi * acos(1 - shingle / n) differ on average: k + 1 of them for
n = shingle / (1 - cos(pi * (k + 1) / 64)). With fewer tokens a text is short: there one changed word takes it out of
k about as often as not.

By 1-bit MinHash the two have the Jaccard similarity (n - shingle) / (n + shingle), so 64 shingle / (n + shingle) bits
differ in the mean: k + 1/2 of them for n = shingle * (64 / (k + 1/2) - 1). With fewer tokens a text is short.

In texts of which most tokens are letters of scripts that part no words, `dense_shingle` is the shingle. Of texts at
these bounds, for k = 3 and 6, 0.45 to 0.54 go out of k (tests/test_text_short.py).

The others are texts without tokens, texts that a single shingle decides (Measured.outweighed), texts of scripts that
the recipe does not cut well (scripts), and these two, of which one text in LEAST is said:

- Texts of few different shingles: d of n tokens with d^4 < n^3, from FEW_FROM tokens on. Rows of digits and answers
  have every shingle that there can be, so a sketch of the set is the same for all. In real texts d grows faster: of 15
  sets of documents one has 2 % of such texts, pages of long tables, and no other over 0.3 % (tools/bench_quality.py
  --weak).
- Texts with much in no token: over UNSEEN of it (Measured.unseen), such as operators and emoji. In 15 sets that are 2 %
  at most; in modules of Python 5 %.

The advice is what was measured to be better, never the recipe in use.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.text import scripts
from fpstore.text.packed import Packed
from fpstore.text.presets import DEFAULT_RECIPE
from fpstore.text.recipe import Measured, Recipe

DEFAULT_K = 3
BITS = 64
# Of verses of 23 words text-1 finds 0.75 of the near-duplicates at k = 3 and 0.92 at 6, web-en 0.65 and 0.77, all with
# precision 1.00. Recipes of longer shingles than those of text-1 find less, too: words-4 0.68 and 0.77, code 0.61 and
# 0.74 (docs/choosing-a-recipe.md).
BETTER_K = 6
FEW_FROM = 18
UNSEEN = 0.2
# What a journal holds of Lengths, in its order.
_COUNTED = ("texts", "short", "dense", "empty", "outweighed", "few", "unseen", "looked_at", "cut_badly")


def short_below(recipe: Recipe, k: int = DEFAULT_K, *, dense: bool = False) -> int:
    """The fewest tokens with which a text is not short; 1 for k = 0 and where a shingle is a whole text.

    dense: of a text in a script that parts no words.
    """
    if k < 1 or recipe.tokens == "whole":
        return 1
    shingle = recipe.dense_shingle if dense and recipe.dense_shingle else recipe.shingle
    if recipe.sketch == "minhash-1bit":
        return math.ceil(shingle * max(BITS / (min(k, BITS // 2) + 0.5) - 1, 1))
    return math.ceil(shingle / (1 - math.cos(math.pi * min(k + 1, BITS // 2) / BITS)))


def jaccard_at(recipe: Recipe, k: int) -> float | None:
    """The Jaccard similarity of shingles at which k bits differ in the mean; None where the sketch is another."""
    return max(0.0, 1 - 2 * k / BITS) if recipe.sketch == "minhash-1bit" else None


def is_few(counts: npt.NDArray[Any], distinct: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which texts of so many tokens have few different shingles, of which 0 were not counted: bool[n]."""
    count, kinds = counts.astype(np.float64), distinct.astype(np.float64)
    return (count >= FEW_FROM) & (kinds > 0) & (kinds**4 < count**3)


class Lengths:
    """The token counts of texts as they are read, what else makes a recipe weak on them, and what is to be said of it.

    texts: how many there were. short, empty, outweighed: how many of them have too few tokens but some, none at all, or
    a shingle that decides alone. dense: how many of the short are so by the bound of scripts that part no words only.
    few, unseen: how many have few different shingles, or much in no token. looked_at, cut_badly: of those that the
    sample by script stands for; by weights that leave distinct shingles uncounted few is of these, too.
    """

    def __init__(self, recipe: Recipe, k: int = DEFAULT_K) -> None:
        self._recipe = recipe
        self._k = k
        self._enough = short_below(recipe, k)
        self._enough_dense = short_below(recipe, k, dense=True)
        self.texts = self.short = self.dense = self.empty = self.outweighed = self.looked_at = self.cut_badly = 0
        self.few = self.unseen = 0
        self._is_few_sampled = recipe.sketch == "simhash" and recipe.weights == "frequency"

    def see(self, texts: Sequence[str], measured: Measured) -> None:
        """More texts, and what was measured of them."""
        for number in scripts.looked_at(self.texts, self.texts + len(texts)):
            text, weight = texts[number - self.texts], scripts.stands_for(number)
            self.looked_at += weight
            self.cut_badly += weight * scripts.is_cut_badly(text, self._recipe.tokens)
            self.few += weight * (self._is_few_sampled and self._has_few(text))
        counts = measured.token_counts
        self.texts += len(counts)
        self.short += int(((counts > 0) & (counts < self._enough)).sum())
        # Few texts of most corpora are between the two bounds, and those are small.
        between = (counts >= self._enough) & (counts < self._enough_dense)
        if isinstance(texts, Packed) and between.any():
            between &= ~texts.are_ascii()
        for at in np.flatnonzero(between).tolist():
            if scripts.is_dense(texts[at], int(counts[at])):
                self.short += 1
                self.dense += 1
        self.empty += int(np.count_nonzero(counts == 0))
        self.outweighed += int(np.count_nonzero(measured.outweighed))
        self.few += int(np.count_nonzero(is_few(counts, measured.distinct_counts)))
        self.unseen += int(np.count_nonzero(measured.unseen > UNSEEN))

    def _has_few(self, text: str) -> bool:
        """Whether the beginning of a text has few different shingles."""
        if self._recipe.tokens == "whole":
            return False
        features = self._recipe.features(text[: scripts.LOOKED_AT_CHARACTERS])
        count, distinct = (np.array([number]) for number in (features.weights.sum(), len(features.hashes)))
        return bool(is_few(count, distinct)[0])

    @property
    def state(self) -> list[int]:
        """What a journal has to hold, for go_on."""
        return [getattr(self, name) for name in _COUNTED]

    def go_on(self, state: list[int]) -> None:
        """Take the counts of an earlier run."""
        for name, count in zip(_COUNTED, state, strict=True):
            setattr(self, name, count)

    @property
    def warning(self) -> str | None:
        """What to tell the user of all texts together, None where there is nothing."""
        name, tokens = self._recipe.name, self._recipe.tokens
        told = (
            self._of_short,
            self._of_empty,
            self._of_outweighed,
            self._of_few,
            self._of_unseen,
            scripts.advice(self.looked_at, self.cut_badly, tokens, name),
        )
        return ". ".join(filter(None, told)) or None

    @property
    def _of_short(self) -> str:
        """Where more than half of the texts that have tokens are short."""
        if 2 * self.short <= self.texts - self.empty:
            return ""
        of_dense = f" ({self._enough_dense} in scripts that part no words)" if self.dense else ""
        return (
            f"{self.short} of {self.texts} texts have fewer than {self._enough} tokens{of_dense}, too few for recipe"
            f" {self._recipe.name} and k = {self._k}: one changed token takes such a text out of reach as often as not"
            f"{self._advice}"
        )

    @property
    def _of_empty(self) -> str:
        if not self.empty:
            return ""
        what = "are near none but their equals" if self._recipe.parts_empty else "cannot be told from each other by it"
        return f"{self.empty} of {self.texts} texts have no token for recipe {self._recipe.name}: they {what}"

    @property
    def _of_outweighed(self) -> str:
        if not self.outweighed:
            return ""
        return (
            f"{self.outweighed} of {self.texts} texts repeat one shingle so often that it decides their fingerprint by"
            f" recipe {self._recipe.name}, whatever else they say: recipe text-1 counts it once"
        )

    @property
    def _of_few(self) -> str:
        seen = self.looked_at if self._is_few_sampled else self.texts
        if not self.few or scripts.LEAST * self.few < seen:
            return ""
        return (
            f"{self.few} of {seen} texts{' looked at' * self._is_few_sampled} have few different shingles for their"
            " length, as rows of digits or of answers have: recipe"
            f" {self._recipe.name} takes such texts for each other, recipe exact does not"
        )

    @property
    def _of_unseen(self) -> str:
        if not self.unseen or scripts.LEAST * self.unseen < self.texts:
            return ""
        return (
            f"{self.unseen} of {self.texts} texts have over a fifth of what is visible in no token, such as operators"
            f" or emoji: recipe {self._recipe.name} does not see it, recipe multilingual does"
        )

    @property
    def _advice(self) -> str:
        """What was measured to find more of such texts; never the recipe in use."""
        if self._recipe.tokens == "whole":
            return ""
        recipe, better = self._recipe, []
        if recipe.sketch == "simhash" or (recipe.tokens == "mixed" and recipe.shingle > DEFAULT_RECIPE.shingle):
            better.append(f"recipe {DEFAULT_RECIPE.name}")
        if self._k < BETTER_K:
            better.append(f"k = {BETTER_K}")
        return (
            f"; {' and '.join(better)} {'finds' if len(better) == 1 else 'find'} more of such texts" if better else ""
        )
