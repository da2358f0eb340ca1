"""Owns the steps that the compiled core leaves out: lower case, Chinese words, stop words, stems, texts as a whole.

They turn a text into another, with which the core goes on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from fpstore import nursery
from fpstore.text import _simhash
from fpstore.text._joined import joined
from fpstore.text.cleaning import without_surrogates
from fpstore.text.packages import need_series
from fpstore.text.unicode import UNICODE_VERSION, Column, pinned

# Characters or bytes of prepared texts that wait for the core together. With fewer, packages and the core push each
# other out of the cache at every turn (6 % of the time of Chinese); with more, they take memory.
PREPARED_AT_ONCE = 1 << 22
SEPARATOR = "\x1f"  # between tokens; a control character, so none of them holds it

Prepare = Callable[[str], str | bytes]

_WORDS = re.compile(r"\w+")
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def preparation(normalisation: str, tokens: str, stop_words: str, stemming: str) -> tuple[Prepare, str, str]:
    """What turns a text into one that the core reads, by these steps of a recipe, and what is left for the core.

    The first is for one thread; the others are the normalisation and the tokens that the core is asked for. Raises
    ValueError for a language that the package does not know, ImportError where it is missing.
    """
    if tokens == "characters":
        return (lambda text: normalise(text, normalisation)), "none", "characters"
    if tokens == "mixed":
        return (lambda text: normalise(text, normalisation)), "none", "mixed"
    if tokens == "letters":
        return (lambda text: "".join(words(normalise(text, normalisation)))), "none", "characters"
    if tokens == "whole":
        return (lambda text: _SPACES.sub(" ", normalise(text, normalisation)).strip(" ")), "none", "separated"
    cut = _chinese(normalisation) if tokens == "chinese" else str.encode
    if not (stop_words or stemming):
        if normalisation == "lower":
            return (lambda text: normalise(cut(text).decode(), "lower")), "none", "words"
        return cut, normalisation, "words"
    dropped = _stop_words(stop_words, normalisation) if stop_words else frozenset()
    stems = _stemmer(stemming) if stemming else list

    def prepare(text: str) -> str:
        found = words(normalise(cut(text).decode(), normalisation))
        return SEPARATOR.join(stems([word for word in found if word not in dropped]))

    return prepare, "none", "separated"


def prepared_groups(prepare: Prepare, texts: Sequence[str | bytes]) -> Iterator[list[str | bytes]]:
    """The texts after the steps that the core leaves out, PREPARED_AT_ONCE."""
    group: list[str | bytes] = []
    size = 0
    for text in texts:
        group.append(prepared(prepare, text))
        size += len(group[-1])
        if size >= PREPARED_AT_ONCE:
            yield group
            group, size = [], 0
    yield group


def prepared(prepare: Prepare, text: str | bytes) -> str | bytes:
    """A text after these steps; TypeError for what is none."""
    if isinstance(text, bytes):
        return prepare(text.decode("utf-8", "replace"))
    if not isinstance(text, str):
        raise TypeError(f"text: found {type(text).__name__}, expected str or bytes")
    try:
        return prepare(text)
    except UnicodeEncodeError:
        return prepare(without_surrogates(text))


def normalise(text: str, how: str) -> str:
    """The text after the step `normalisation` of a recipe; what Unicode 14 does not know stays what it is."""
    if how != "lower":
        return _simhash.normalised(text, how)
    later = later_characters()
    if later is None:
        return text.lower()
    pieces = later.split(text)
    pieces[::2] = [piece.lower() for piece in pieces[::2]]
    return "".join(pieces)


def words(text: str) -> list[str]:
    """The runs of letters, digits and underscores of Unicode 14."""
    later = later_characters()
    return _WORDS.findall(text if later is None else later.sub("\ufffd", text))


@cache
def later_characters() -> re.Pattern[str] | None:
    """Runs of what the running Python knows and Unicode 14 does not, in a group; None where it has that version."""
    if unicodedata.unidata_version == UNICODE_VERSION:
        return None
    return characters_outside(pinned()["assigned_ranges"])


def characters_outside(ranges: Column) -> re.Pattern[str]:
    """Runs of characters that the running Python has and that are in none of the ranges, in a group."""
    known = bytearray(0x110000)
    for first, last in ranges.reshape(-1, 2).tolist():
        known[first : last + 1] = b"\1" * (last + 1 - first)
    found = [code for code in range(0x110000) if not known[code] and unicodedata.category(chr(code)) != "Cn"]
    # As ranges: re looks through a set of single characters beyond U+FFFF one by one.
    firsts = [code for code, before in zip(found, [-2, *found], strict=False) if code != before + 1]
    lasts = [code for code, after in zip(found, [*found[1:], -1], strict=False) if code != after - 1]
    parts = (f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in zip(firsts, lasts, strict=True))
    return re.compile(f"([{''.join(parts)}]+)" if found else "((?!))")


@cache
def _stop_words(language: str, normalisation: str) -> frozenset[str]:
    package = need_series("stopwordsiso", "stopwordsiso", "lang", "a recipe with stop words")
    if not package.has_lang(language):
        expected = f"one of {', '.join(sorted(package.langs()))}"
        raise ValueError(f"recipe stop_words: found {language!r}, expected {expected}")
    return frozenset(normalise(word, normalisation) for word in package.stopwords(language))


def _stemmer(language: str) -> Callable[[list[str]], list[str]]:
    # A new one each time: threads cannot share one.
    package = need_series("Stemmer", "PyStemmer", "lang", "a recipe with stemming")
    if language not in package.algorithms():
        expected = f"one of {', '.join(package.algorithms())}"
        raise ValueError(f"recipe stemming: found {language!r}, expected {expected}")
    stems: Callable[[list[str]], list[str]] = package.Stemmer(language).stemWords
    return stems


def _chinese(normalisation: str) -> Callable[[str], bytes]:
    """What cuts a text into words, after NFKC where the normalisation has it: forms of one text are cut alike.

    Not in lower case yet, by which the dictionary knows other words.
    """
    cut = _jieba()
    if not normalisation.startswith("nfkc"):
        return lambda text: joined(cut(text))
    return lambda text: joined(cut(_simhash.normalised(text, "nfkc")))


@cache
def _jieba() -> Callable[[str], list[str]]:
    package = need_series("rjieba", "rjieba", "zh", "a recipe with tokens chinese")
    # A dictionary of its own, without the words that somebody adds to the package's; to build one takes 0.1 s.
    cut: Callable[[str], list[str]] = package.cut if nursery.is_alone else package.Jieba().cut
    return cut
