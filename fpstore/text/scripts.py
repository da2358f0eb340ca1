"""Owns what the scripts of texts decide: which a recipe does not cut well, seen in a sample, and shingles by script.

- Tokens `words` are runs of letters: a clause, in a script that does not part words (Han, kana, Thai, Lao, Khmer,
  Myanmar), and a part of a word, where vowels are marks of their own (Hindi, Bengali, Tamil, Arabic with its vowels).
- Tokens `chinese` are words of Han; other scripts than that and Latin are cut letter by letter.

A text is of such a script if that is so of a SHARE of its letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from fpstore.text._packed import count_marked
from fpstore.text.packed import Packed, are_ascii
from fpstore.text.unicode import Column, pinned

LOOKED_AT_CHARACTERS = 1024
SHARE = 5  # one letter in so many
# The first texts are all looked at, then one in STEP, which stands for STEP texts: that takes no time, and the shares
# are those of all texts, in whatever order a corpus has its languages.
FIRST_TEXTS = 1024
STEP = 64
LEAST = 10  # one text in so many is worth a word

_LETTERS = re.compile(r"[^\W\d_]")
_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


def can_cut_badly(tokens: str) -> bool:
    """Whether there are scripts that these tokens of a recipe are not made for."""
    return tokens in ("words", "chinese")


def can_be_cut_badly(texts: Sequence[str], indexes: Sequence[int], tokens: str) -> npt.NDArray[np.bool_]:
    """Of which texts with these indexes is_cut_badly is worth to be asked: bool[n]."""
    if tokens == "words":
        return ~are_ascii(texts, indexes)
    return np.full(len(indexes), can_cut_badly(tokens))


def is_cut_badly(text: str, tokens: str) -> bool:
    """Whether the beginning of a text is of a script that these tokens of a recipe are not made for."""
    if not can_cut_badly(tokens):
        return False
    beginning = text[:LOOKED_AT_CHARACTERS]
    if tokens == "words" and beginning.isascii():
        return False
    beginning = unicodedata.normalize("NFC", beginning)
    letters = len(_LETTERS.findall(beginning))
    if tokens == "chinese":
        return SHARE * len(_HAN.findall(beginning)) < letters
    wrong = len(_marks_and_dense().findall(beginning))
    return wrong > 0 and SHARE * wrong >= letters


def dense_counts(texts: Sequence[str], indexes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of the texts with these indexes how many letters of scripts that part no words each has: int64[n]."""
    if not len(indexes):  # as a rule: the marks of characters take 3 ms to be made
        return np.zeros(0, dtype=np.int64)
    if not isinstance(texts, Packed):
        found = (() if texts[at].isascii() else _dense().findall(texts[at]) for at in indexes.tolist())
        return np.array([len(letters) for letters in found], dtype=np.int64)
    return count_marked(texts.data, texts.offsets, indexes, _dense_marks())


def looked_at(start: int, end: int) -> Iterator[int]:
    """Which texts from number start to end, counted from 0, are of the sample."""
    yield from range(start, min(end, FIRST_TEXTS))
    yield from range(-(-max(start, FIRST_TEXTS) // STEP) * STEP, end, STEP)


def stands_for(number: int) -> int:
    """How many texts a text of the sample stands for, by its number."""
    return 1 if number < FIRST_TEXTS else STEP


def share(count: int, of: int, what: str) -> str:
    """So many of what, as a sample has them that stands for all."""
    return f"{count} of {of} {what}" if of <= FIRST_TEXTS else f"about {count} of {of} {what}, by a sample,"


def advice(tokens: str, name: str) -> str:
    """What to say of the texts that a recipe of this name, with these tokens, cuts badly."""
    what = "have little Han" if tokens == "chinese" else "are in scripts that part no words, or write vowels as marks"
    return f"{what}, for which recipe {name} is not made: text-1 is"


def mixed_shingles(tokens: Sequence[str], shingle: int, dense_shingle: int) -> Iterator[str]:
    """The shingles of `mixed` tokens, in their order, as the core makes them of its own."""
    is_dense = [_dense().match(token) is not None for token in tokens]
    written = [token if dense else f"{token} " for token, dense in zip(tokens, is_dense, strict=True)]
    is_any = False
    for first, dense in enumerate(is_dense):
        end = first + (dense_shingle if dense else shingle)
        if end <= len(tokens):
            is_any = True
            yield "".join(written[first:end]).removesuffix(" ")
    if tokens and not is_any:
        yield "".join(written).removesuffix(" ")


@cache
def _dense() -> re.Pattern[str]:
    return re.compile(f"[{_ranges(pinned()['dense_ranges'])}]")


@cache
def _dense_marks() -> npt.NDArray[np.uint8]:
    """Of each character, for count_marked."""
    marks = np.zeros(1 << 21, dtype=np.uint8)
    for first, last in pinned()["dense_ranges"].reshape(-1, 2).tolist():
        marks[first : last + 1] = 1
    return marks


@cache
def _marks_and_dense() -> re.Pattern[str]:
    columns = pinned()
    return re.compile(f"[{_ranges(columns['mark_ranges'])}{_ranges(columns['dense_ranges'])}]")


def _ranges(column: Column) -> str:
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in column.reshape(-1, 2).tolist())
