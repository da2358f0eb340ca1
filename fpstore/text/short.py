"""Owns what is said of texts that their recipe is weak on; first of those that are too short for it.

In a text of n tokens one other token changes `shingle` of about n shingles. The cosine of the two is then near
1 - shingle / n, and of 64 bits 64 / pi * acos(1 - shingle / n) differ on average: k of them for
n = shingle / (1 - cos(pi * k / 64)).

A text with fewer than half as many tokens is short; for k = 3 that is fewer than 46.2 for each token of a
shingle. At that length one changed word was found at k = 3 in half of the cases: in 0.5 of those of 185 words in
shingles of 4, and in 0.55 of those of 92 words in shingles of 2. Of 50 words in shingles of 4, it was found in 0.07.
(400 pieces of terms of service, en_tos_pga.)

By 1-bit MinHash the two have the Jaccard similarity (n - shingle) / (n + shingle), so 64 shingle / (n + shingle) bits
differ in the mean: k + 1/2 of them for n = shingle * (64 / (k + 1/2) - 1). With fewer tokens a text is short.

The others are texts without tokens, texts that a single shingle decides (Measured.outweighed), and texts of scripts
that the recipe does not cut well (scripts). The advice is what was measured to be better, never the recipe in use.
"""

import math
from collections.abc import Sequence

import numpy as np

from fpstore.text import scripts
from fpstore.text.recipe import Measured, Recipe

DEFAULT_K = 3
BITS = 64
# Of verses of 23 words text-1 finds 0.75 of the near-duplicates at k = 3 and 0.92 at 6, web-en 0.65 and 0.77, all with
# precision 1.00 (docs/choosing-a-recipe.md).
BETTER_K = 6


def short_below(recipe: Recipe, k: int = DEFAULT_K) -> int:
    """The fewest tokens with which a text is not short; 1 for k = 0 and where a shingle is a whole text."""
    if k < 1 or recipe.tokens == "whole":
        return 1
    if recipe.sketch == "minhash-1bit":
        return math.ceil(recipe.shingle * max(BITS / (min(k, BITS // 2) + 0.5) - 1, 1))
    return math.ceil(recipe.shingle / (2 * (1 - math.cos(math.pi * min(k, BITS // 2) / BITS))))


def jaccard_at(recipe: Recipe, k: int) -> float | None:
    """The Jaccard similarity of shingles at which k bits differ in the mean; None where the sketch is another."""
    return max(0.0, 1 - 2 * k / BITS) if recipe.sketch == "minhash-1bit" else None


class Lengths:
    """The token counts of texts as they are read, what else makes a recipe weak on them, and what is to be said of it.

    texts: how many there were. short, empty, outweighed: how many of them have too few tokens, none at all, or a
    shingle that decides alone. looked_at, cut_badly: of the sample by script.
    """

    def __init__(self, recipe: Recipe, k: int = DEFAULT_K) -> None:
        self._recipe = recipe
        self._k = k
        self._enough = short_below(recipe, k)
        self.texts = self.short = self.empty = self.outweighed = self.looked_at = self.cut_badly = 0

    def see(self, texts: Sequence[str], measured: Measured) -> None:
        """More texts, and what was measured of them."""
        for number, text in enumerate(texts, self.texts):
            if scripts.is_looked_at(number):
                self.looked_at += 1
                self.cut_badly += scripts.is_cut_badly(text, self._recipe.tokens)
        counts = measured.token_counts
        self.texts += len(counts)
        self.short += int((counts < self._enough).sum())
        self.empty += int(np.count_nonzero(counts == 0))
        self.outweighed += int(np.count_nonzero(measured.outweighed))

    @property
    def state(self) -> list[int]:
        """What a journal has to hold, for go_on."""
        return [self.texts, self.short, self.empty, self.outweighed, self.looked_at, self.cut_badly]

    def go_on(self, state: list[int]) -> None:
        """Take the counts of an earlier run."""
        self.texts, self.short, self.empty, self.outweighed, self.looked_at, self.cut_badly = state

    @property
    def warning(self) -> str | None:
        """What to tell the user of all texts together, None where there is nothing."""
        name, tokens = self._recipe.name, self._recipe.tokens
        told = (
            self._of_short,
            self._of_empty,
            self._of_outweighed,
            scripts.advice(self.looked_at, self.cut_badly, tokens, name),
        )
        return ". ".join(filter(None, told)) or None

    @property
    def _of_short(self) -> str:
        """Where more than half of the texts are short."""
        if 2 * self.short <= self.texts:
            return ""
        return (
            f"{self.short} of {self.texts} texts have fewer than {self._enough} tokens, too few for recipe"
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
    def _advice(self) -> str:
        """What was measured to find more of such texts; never the recipe in use."""
        if self._recipe.tokens == "whole":
            return ""
        if self._recipe.sketch == "simhash":
            return "; recipe text-1 finds more of such texts"
        return f"; k = {BETTER_K} finds more of such texts" if self._k < BETTER_K else ""
