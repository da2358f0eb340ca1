"""Owns which texts have few different shingles for their length, so that unrelated texts of their kind are near them.

Rows of digits and of answers have nearly every shingle that there can be. Two halves of such a text are then as alike
as two other texts of half its length. Of D shingles, all as common, two texts of n tokens have a Jaccard similarity of
0.82 from n = 2.3 D on, and their halves 0.52: so a text is few from NEAR of its halves on. By weights that count how
often, fingerprints of such texts come within 6 from n = 4.5 D on, and what is dropped has a Jaccard similarity, too.

Halves are alike too where a text repeats what is its own: refrains, a page that stands twice in its text. There one
more token in a shingle makes next to none new, at most 1.41 times as many in all that was looked at, and 1.6 times and
more in rows. Where there is no more to come, as of 0 and 1, the text has a quarter of all pairs of its tokens, or
more; of 18 tokens and more no text of ten sets of real documents has over 0.08.

In fifteen sets of documents none of the texts looked at is few, by text-1 and web-en (tools/bench_quality.py --weak),
nor is one of 800 headers of C by five recipes; of 1,500 modules of Python one is, by characters.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fpstore.text.measures import jaccard
from fpstore.text.packed import heads
from fpstore.text.presets import DEFAULT_RECIPE, recipes
from fpstore.text.recipe import Measured, Recipe

FROM = 18  # tokens
LOOKED_AT_CHARACTERS = 1 << 16
NEAR = 0.5
# So much less alike by the recipe that is advised: there J is 0.6 or less, and what is confirmed has 0.82.
APART = 1 / 3
GROWS = 1.5
# Of five sets of documents one text in a hundred of over LONG characters has 1.30 or more, half have 1.6; of a Chinese
# manual one in twenty has less than 1.16.
LONG, BEGINNING, NEW_TOKENS = 1 << 13, 1 << 12, 1.25
ADVISED = "words-4"
LAST_ADVISED = "exact"

# The shingles of one token, of two, and of three; of letters of scripts that part no words of four and five.
_PAIRS = replace(DEFAULT_RECIPE, name="pairs", sketch="simhash")
_TOKENS = replace(_PAIRS, name="tokens", shingle=1, dense_shingle=1)
_LONGER = replace(_PAIRS, name="longer", shingle=_PAIRS.shingle + 1, dense_shingle=_PAIRS.dense_shingle + 1)


def can_be_few(measured: Measured, ats: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which texts, at these indexes of what was measured, it is worth to look at: bool[n].

    Halves with NEAR have at most two thirds as many different shingles as tokens, and their count errs by an eighth. By
    weights that count none it is 0.
    """
    counts = measured.token_counts[ats]
    can_be: npt.NDArray[np.bool_] = (counts >= FROM) & (measured.distinct_counts[ats] < 0.75 * counts)
    return can_be


def is_few(recipe: Recipe, text: str) -> bool:
    """Whether a text, up to LOOKED_AT_CHARACTERS, has few different shingles by a recipe."""
    return bool(few_among(recipe, [text], [0]))


def few_among(recipe: Recipe, texts: Sequence[str], indexes: Sequence[int]) -> list[int]:
    """Those of some texts, given by their indexes, of which is_few tells that. Long ones are told together."""
    if not indexes:
        return []
    beginnings = heads(texts, indexes, LONG + 1)
    long = [at for at, beginning in enumerate(beginnings) if len(beginning) > LONG]
    ever_more = _have_ever_more_tokens([beginnings[at] for at in long])
    passed = {at for at, has_more in zip(long, ever_more, strict=True) if has_more}
    rest = [index for at, index in enumerate(indexes) if at not in passed]
    found = []
    for index in rest:
        (text,) = heads(texts, [index], LOOKED_AT_CHARACTERS)
        if _alike(recipe, text) >= NEAR and not _repeats(text):
            found.append(index)
    return found


def advised(recipe: Recipe, text: str) -> str:
    """The name of a recipe by which a text with few different shingles is not near others of its kind."""
    other = recipes()[ADVISED]
    is_other = recipe.steps() != other.steps()
    return ADVISED if is_other and _alike(other, text[:LOOKED_AT_CHARACTERS]) < APART else LAST_ADVISED


def _alike(recipe: Recipe, text: str) -> float:
    """How alike the two halves of a text are by a recipe; 0 where one has no shingle."""
    first, second = (recipe.features(half) for half in _halves(text))
    if not len(first.hashes) or not len(second.hashes):
        return 0.0
    return float(jaccard(first, [second])[0])


def _have_ever_more_tokens(texts: Sequence[str]) -> list[bool]:
    """Of which texts the beginning has many more distinct tokens than its first half: then not all come again.

    So a long text is mostly known for one of many words after a sixteenth of LOOKED_AT_CHARACTERS. Of those words, of
    which all pairs come again in so many characters, there are 75 at most, and they come in that half.
    """
    if not texts:
        return []
    counts = _TOKENS.features_many([text[:end] for text in texts for end in (BEGINNING // 2, BEGINNING)], threads=1)
    found: list[bool] = (counts.counts[1::2] > NEW_TOKENS * counts.counts[::2]).tolist()
    return found


def _halves(text: str) -> tuple[str, str]:
    """The two halves, parted at a blank if one is near."""
    middle = len(text) // 2
    blank = text.find(" ", middle, middle + FROM)
    middle = middle if blank < 0 else blank
    return text[:middle], text[middle:]


def _repeats(text: str) -> bool:
    """Whether what is alike in a text is its own."""
    tokens, pairs, longer = (len(recipe.features(text).hashes) for recipe in (_TOKENS, _PAIRS, _LONGER))
    return longer < GROWS * pairs and tokens**2 > 4 * pairs
