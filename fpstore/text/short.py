"""Owns what is said of texts that their recipe is weak on; first of those that are too short for it.

In a text of n tokens one other token changes `shingle` of about n shingles. The cosine of the two is then near
1 - shingle / n, and of 64 bits 64 / pi * acos(1 - shingle / n) differ on average: k + 1 of them for
n = shingle / (1 - cos(pi * (k + 1) / 64)). So it is of more bits, with their number
in place of 64. With fewer tokens a text is short: there one changed word takes it out of k about as often as not.

By 1-bit MinHash the two have the Jaccard similarity (n - shingle) / (n + shingle), so 64 shingle / (n + shingle) bits
differ in the mean: k + 1/2 of them for n = shingle * (64 / (k + 1/2) - 1). With fewer tokens a text is short.

By signatures two of the Jaccard similarity s share one of b bands of r values with the chance 1 - (1 - s^r)^b. It is
one half for s = (1 - 2^(-1 / b))^(1 / r), which they have for n = shingle * (1 + s) / (1 - s). With fewer tokens a text
is short.

In texts of which most tokens are letters of scripts that part no words, `dense_shingle` is the shingle. Of texts at
these bounds, for k = 3 and 6, 0.45 to 0.54 go out of k (tests/test_text_short.py).

The others are texts without tokens, texts that a single shingle decides (Measured.outweighed), and these, of which one
text in LEAST is said. They are counted in a sample (scripts.looked_at), each text as the first that it is of these:

- Texts of few different shingles (saturation), which are near unrelated texts of their kind.
- Texts with much in no token: over UNSEEN of it (Measured.unseen), such as operators and emoji. In 15 sets that are 3 %
  at most; in modules of Python 5 %.
- Texts of scripts that the recipe does not cut well (scripts).

A job that drops texts knows more: which of them it dropped for one that is not equal. It says so where one in LEAST of
these is weak, and they are LEAST_DROPPED or one in LEAST of all. Of what is in no token it tells of no others, as those
may well differ in their words, too: tables of decimals do.

The advice is what was measured to be better, never the recipe in use.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.text import saturation, scripts
from fpstore.text.cleaning import is_stand_in
from fpstore.text.fields import DEFAULT_BITS
from fpstore.text.packed import heads
from fpstore.text.presets import DEFAULT_RECIPE
from fpstore.text.recipe import Measured, Recipe
from fpstore.text.shared import measure_many
from fpstore.workers import Workers

DEFAULT_K = 3  # this and the next of 64 bits; of more as many more (Recipe.distance)
# Of verses of 23 words text-1 finds 0.75 of the near-duplicates at k = 3 and 0.92 at 6, web-en 0.65 and 0.77, all with
# precision 1.00. Recipes of longer shingles than those of text-1 find less, too: words-4 0.68 and 0.77, code 0.61 and
# 0.74 (docs/choosing-a-recipe.md).
BETTER_K = 6
UNSEEN = 0.2
LEAST_DROPPED = 20
# What a journal holds of Lengths, in its order.
_COUNTED = ("texts", "short", "dense", "empty", "without_text", "outweighed", "looked_at", "dropped", "unequal")
_WEAK = ("weak", "dropped_weak")


def short_below(
    recipe: Recipe, k: int | None = None, *, dense: bool = False, cut: tuple[int, int] | None = None
) -> int:
    """The fewest tokens with which a text is not short; 1 for k = 0, and where a shingle is a whole text.

    k: None: what is 3 of 64 bits. dense: of a text in a script that parts no words. cut: the bands of signatures and
    the values of each; where nobody knows them 1.
    """
    shingle = recipe.dense_shingle if dense and recipe.dense_shingle else recipe.shingle
    if recipe.tokens == "whole":
        return 1
    if recipe.sketch == "minhash":
        return 1 if cut is None else _short_by_bands(shingle, *cut)
    bits, k = recipe.bits, recipe.distance(DEFAULT_K) if k is None else k
    if k < 1:
        return 1
    if recipe.sketch == "minhash-1bit":
        return math.ceil(shingle * max(bits / (min(k, bits // 2) + 0.5) - 1, 1))
    return math.ceil(shingle / (1 - math.cos(math.pi * min(k + 1, bits // 2) / bits)))


def _short_by_bands(shingle: int, bands: int, rows_per_band: int) -> int:
    similarity: float = (1 - 2 ** (-1 / bands)) ** (1 / rows_per_band)
    return math.ceil(shingle * (1 + similarity) / (1 - similarity))


def jaccard_at(recipe: Recipe, k: int) -> float | None:
    """The Jaccard similarity of shingles at which k bits differ in the mean; None where the sketch is another."""
    return max(0.0, 1 - 2 * k / recipe.bits) if recipe.sketch == "minhash-1bit" else None


class Lengths:
    """The token counts of texts as they are read, what else makes a recipe weak on them, and what is to be said of it.

    texts: how many there were. short, empty, outweighed: how many of them have too few tokens but some, none at all, or
    a shingle that decides alone. dense: how many of the short are so by the bound of scripts that part no words only.
    without_text: how many of the empty are pages of which nothing is visible, which who reads them has told of.
    looked_at: how many texts the sample stands for. weak: how many of them are of each kind: `few`, `cut_badly` or
    `unseen`; `few by all`: of the few those that no recipe of shingles tells apart; `short few` and so on: those that
    are short too. dropped: how many texts a job dropped. unequal: of how many of them, by a sample, the kept text is
    another; dropped_weak: these by kind.
    """

    def __init__(
        self, recipe: Recipe, k: int | None = None, *, drops: bool = False, cut: tuple[int, int] | None = None
    ) -> None:
        """drops: whether see_dropped hears of those texts that are dropped. k, cut: as for short_below."""
        self._recipe = recipe
        k = recipe.distance(DEFAULT_K) if k is None else k
        self._k = k
        self._drops = drops
        self._near = f"k = {k}" if cut is None else f"{cut[0]} bands of {cut[1]} values"
        self._enough = short_below(recipe, k, cut=cut)
        self._enough_dense = short_below(recipe, k, dense=True, cut=cut)
        self.texts = self.short = self.dense = self.empty = self.without_text = self.outweighed = self.looked_at = 0
        self.dropped = self.unequal = 0
        self.weak: Counter[str] = Counter()
        self.dropped_weak: Counter[str] = Counter()
        # What was measured of the texts that came last, and the kinds of those of them that were looked at.
        self._last: tuple[Measured | None, dict[int, tuple[str, ...]]] = (None, {})

    def see(self, texts: Sequence[str], measured: Measured) -> None:
        """More texts, and what was measured of them."""
        counts = measured.token_counts
        is_short = self._see_short(texts, counts)
        numbers = list(scripts.looked_at(self.texts, self.texts + len(texts)))
        ats = [number - self.texts for number in numbers]
        found = self._kinds(texts, ats, measured, ats)
        self._last = measured, dict(zip(ats, found, strict=True))
        for number, at, kinds in zip(numbers, ats, found, strict=True):
            weight = scripts.stands_for(number)
            self.looked_at += weight
            if not kinds:  # as most are
                continue
            self.weak.update(dict.fromkeys(kinds, weight))
            if is_short is not None and is_short[at]:
                self.weak.update({f"short {kind}": weight for kind in kinds})
        self.texts += len(counts)
        self.outweighed += int(np.count_nonzero(measured.outweighed))

    def _see_short(self, texts: Sequence[str], counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_] | None:
        """Count those that are short or empty; which are short, bool[n], None where all are long, as a rule."""
        if not len(counts) or counts.min() > max(self._enough, self._enough_dense):
            return None
        is_short: npt.NDArray[np.bool_] = (counts > 0) & (counts < self._enough)
        # Few texts of most corpora are between the two bounds, and those are small.
        between = np.flatnonzero((counts >= self._enough) & (counts < self._enough_dense))
        dense = between[2 * scripts.dense_counts(texts, between) > counts[between]]
        is_short[dense] = True
        self.dense += len(dense)
        self.short += int(is_short.sum())
        self.empty += int(np.count_nonzero(counts == 0))
        self.without_text += sum(is_stand_in(texts[at]) for at in np.flatnonzero(counts == 0).tolist())
        return is_short

    def see_dropped(
        self,
        texts: Sequence[str],
        places: Sequence[int],
        kept_of: Callable[[list[int]], Sequence[str | None]],
        measured: Measured | None = None,
    ) -> None:
        """More texts that were dropped: those in places of texts; measured: of all texts, where that is known.

        kept_of: of some of them, by their indexes in places, the kept ones; None where one is unknown.
        """
        numbers = list(scripts.looked_at(self.dropped, self.dropped + len(places)))
        indexes = [number - self.dropped for number in numbers]
        self.dropped += len(places)
        if not indexes:
            return
        looked_at = zip(numbers, (int(places[index]) for index in indexes), kept_of(indexes), strict=True)
        some = [(number, at) for number, at, kept in looked_at if kept is None or texts[at] != kept]
        for (number, _), kinds in zip(some, self._kinds_of(texts, [at for _, at in some], measured), strict=True):
            weight = scripts.stands_for(number)
            self.unequal += weight
            if kinds:
                self.dropped_weak.update(dict.fromkeys(kinds, weight))

    def _kinds_of(self, texts: Sequence[str], ats: Sequence[int], measured: Measured | None) -> list[tuple[str, ...]]:
        """As _kinds, of texts that see may have seen just now, with what was measured of them."""
        if measured is None:
            beginnings = heads(texts, ats, saturation.LOOKED_AT_CHARACTERS)
            return self._kinds(texts, ats, measure_many(self._recipe, beginnings, 1, Workers(1)), range(len(ats)))
        known = self._last[1] if self._last[0] is measured else {}
        new = [at for at in ats if at not in known]
        known = known | dict(zip(new, self._kinds(texts, new, measured, new), strict=True))
        return [known[at] for at in ats]

    def _kinds(
        self, texts: Sequence[str], ats: Sequence[int], measured: Measured, of: Sequence[int]
    ) -> list[tuple[str, ...]]:
        """What a recipe is weak on in each of some texts, the first that is so; of: their places in measured.

        Nothing where its other counts tell of it.
        """
        found: list[tuple[str, ...]] = [()] * len(ats)
        if not found:
            return found
        rows = np.array(of, dtype=np.int64)
        can_be_few, is_unseen = saturation.can_be_few(measured, rows), measured.unseen[rows] > UNSEEN
        can_be = can_be_few | is_unseen | scripts.can_be_cut_badly(texts, ats, self._recipe.tokens)
        if not can_be.any():  # as a rule
            return found
        is_told = (measured.token_counts[rows] > 0) & ~measured.outweighed[rows]
        asked = [ats[place] for place in np.flatnonzero(is_told & can_be_few).tolist()]
        few = set(saturation.few_among(self._recipe, texts, asked))
        for place in np.flatnonzero(is_told & can_be).tolist():
            if ats[place] in few:
                (beginning,) = heads(texts, [ats[place]], saturation.LOOKED_AT_CHARACTERS)
                by_all = saturation.advised(self._recipe, beginning) == saturation.LAST_ADVISED
                found[place] = ("few", "few by all") if by_all else ("few",)
            elif is_unseen[place]:
                found[place] = ("unseen",)
            elif scripts.can_cut_badly(self._recipe.tokens):
                (beginning,) = heads(texts, [ats[place]], scripts.LOOKED_AT_CHARACTERS)
                found[place] = ("cut_badly",) if scripts.is_cut_badly(beginning, self._recipe.tokens) else ()
        return found

    @property
    def state(self) -> dict[str, Any]:
        """What a journal has to hold, for go_on."""
        return {name: getattr(self, name) for name in _COUNTED} | {name: dict(getattr(self, name)) for name in _WEAK}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Take the counts of an earlier run."""
        for name in _COUNTED:
            setattr(self, name, state[name])
        for name in _WEAK:
            setattr(self, name, Counter(state[name]))

    @property
    def warning(self) -> str | None:
        """What to tell the user of all texts together, None where there is nothing."""
        told = (self._of_short, self._of_empty, self._of_outweighed, *self._of_kinds.values())
        return ". ".join(filter(None, told)) or None

    @property
    def _of_kinds(self) -> dict[str, str]:
        """What is told of each kind of texts that were looked at; nothing of one of which there is nothing to tell."""
        name = self._recipe.name
        few = self.dropped_weak if self.dropped_weak["few"] else self.weak
        last = scripts.LEAST * few["few by all"] >= few["few"]
        better = saturation.LAST_ADVISED if last else saturation.ADVISED
        told = {
            "few": f"have few different shingles for their length, as rows of digits or of answers have: recipe {name}"
            f" takes such texts for each other, recipe {better} does not",
            "cut_badly": scripts.advice(self._recipe.tokens, name),
            "unseen": "have over a fifth of what is visible in no token, such as operators or emoji: recipe"
            f" {name} does not see it, recipe multilingual does",
        }
        shares = {kind: self._share(kind) for kind in told}
        return {kind: f"{share} {told[kind]}" for kind, share in shares.items() if share}

    def _share(self, kind: str) -> str:
        """How many texts of how many are of a kind, where that is worth a word."""
        count = self.dropped_weak[kind]
        is_much = count >= LEAST_DROPPED or scripts.LEAST * count >= self.looked_at
        if is_much and scripts.LEAST * count >= self.unequal > 0:
            what = "texts that were dropped for one that is not equal"
            return scripts.share(min(count, self.dropped), min(self.unequal, self.dropped), what)
        # Of texts that are nearly all kept there is nothing to be said.
        if self._drops and (kind == "unseen" or (kind == "few" and scripts.LEAST * count < self.weak[kind])):
            return ""
        count = self.weak[kind]
        if count and scripts.LEAST * count >= self.looked_at:
            # The last that is looked at may stand for more than there are.
            return scripts.share(min(count, self.texts), min(self.looked_at, self.texts), "texts")
        return ""

    @property
    def _of_short(self) -> str:
        """Where more than half of the texts that have tokens are short."""
        # Of those that more is told of this would be a second advice.
        short = self.short - sum(self.weak[f"short {kind}"] for kind in self._of_kinds)
        if 2 * short <= self.texts - self.empty:
            return ""
        of_dense = f" ({self._enough_dense} in scripts that part no words)" if self.dense else ""
        return (
            f"{short} of {self.texts} texts have fewer than {self._enough} tokens{of_dense}, too few for recipe"
            f" {self._recipe.name} and {self._near}: one changed token takes such a text out of reach as often as not"
            f"{self._advice}"
        )

    @property
    def _of_empty(self) -> str:
        # Pages without text have been told of as what they are, which is as much where they are told apart.
        empty = self.empty - self.without_text * self._recipe.parts_empty
        if not empty:
            return ""
        what = "are near none but their equals" if self._recipe.parts_empty else "cannot be told from each other by it"
        return f"{empty} of {self.texts} texts have no token for recipe {self._recipe.name}: they {what}"

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
        if self._recipe.tokens == "whole" or self._recipe.sketch == "minhash":
            return ""
        recipe, better = self._recipe, []
        if recipe.sketch == "simhash" or (recipe.tokens == "mixed" and recipe.shingle > DEFAULT_RECIPE.shingle):
            better.append(
                f"recipe {DEFAULT_RECIPE.name}{f' of {recipe.bits} bits' if recipe.bits > DEFAULT_BITS else ''}"
            )
        if self._k < recipe.distance(BETTER_K):
            better.append(f"k = {recipe.distance(BETTER_K)}")
        return (
            f"; {' and '.join(better)} {'finds' if len(better) == 1 else 'find'} more of such texts" if better else ""
        )
