"""The steps that packages do: their languages, their absence, their versions, and letters that came later."""

import sys
import unicodedata
from collections.abc import Iterator
from importlib import metadata

import numpy as np
import pytest

from fpstore.text import Recipe, packages, recipes, tokens
from fpstore.text._simhash import tokens_of
from fpstore.text.unicode import pinned

NEED = {
    "stopwordsiso": (Recipe("a", stop_words="en"), "a recipe with stop words needs stopwordsiso", "lang"),
    "Stemmer": (Recipe("b", stemming="english"), "a recipe with stemming needs Stemmer", "lang"),
    "rjieba": (recipes()["zh"], "a recipe with tokens chinese needs rjieba", "zh"),
}


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Packages are looked for anew."""
    for cached in (packages.need_series, tokens._stop_words, tokens._jieba):
        cached.cache_clear()
    yield monkeypatch
    for cached in (packages.need_series, tokens._stop_words, tokens._jieba):
        cached.cache_clear()


def test_chinese_is_cut_into_words_and_what_is_between_them_dropped() -> None:
    recipe = Recipe("zh", tokens="chinese", shingle=1, weights="presence")
    fingerprints, counts, *_ = recipe.measure_many(["我来到北京清华大学，T恤 C++ 3.14！"])
    # rjieba's words are 我 来到 北京 清华大学 T恤 C++ 3.14; of the last two the runs of letters and digits stay.
    assert counts.tolist() == [8]
    words = Recipe("words", shingle=1, weights="presence")
    assert words.fingerprint("我 来到 北京 清华大学 t恤 c 3 14") == fingerprints[0]
    assert recipe.fingerprint("我\x1f来到\n北京\0清华大学 T恤 c 3 14") == fingerprints[0]


def test_stop_words_are_dropped_and_stems_taken() -> None:
    recipe = Recipe("en", stop_words="en", stemming="english", shingle=1)
    assert recipe.measure_many(["The Cats are running"])[1].tolist() == [2]
    assert recipe.fingerprint("The Cats are running") == Recipe("x", shingle=1).fingerprint("cat run")
    assert Recipe("zh", tokens="chinese", stop_words="zh", shingle=1).measure_many(["我们的北京"])[1].tolist() == [1]


def test_an_unknown_language_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"recipe stop_words: found 'xx', expected one of af, ar, .*zu"):
        Recipe("x", stop_words="xx").fingerprint("text")
    with pytest.raises(ValueError, match=r"recipe stemming: found 'klingon', expected one of arabic, .*turkish"):
        Recipe("x", stemming="klingon").fingerprint("text")


@pytest.mark.parametrize("module", NEED)
def test_a_missing_package_is_an_import_error_that_names_the_extra(unseen: pytest.MonkeyPatch, module: str) -> None:
    recipe, message, extra = NEED[module]
    unseen.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{message}: pip install 'fpstore\[{extra}\]'"):
        recipe.fingerprint("text")


@pytest.mark.parametrize("found", ["0.3.0", "0.20.1", "1.0"])
def test_another_series_of_a_package_is_refused(unseen: pytest.MonkeyPatch, found: str) -> None:
    unseen.setattr(metadata, "version", lambda package: found)
    with pytest.raises(ImportError, match=rf"found rjieba {found}, expected 0\.2\.\*"):
        recipes()["zh"].fingerprint("text")


def test_what_lies_outside_ranges_is_what_the_running_python_has_beside_them() -> None:
    ranges = pinned()["assigned_ranges"]
    # Without the first range, up to U+0377, letters, digits and spaces are as if Unicode 14 did not know them.
    assert ranges[:2].tolist() == [0, 0x377]
    assert tokens.characters_outside(ranges[2:]).findall("Ab1 \u0378\u0391") == ["Ab1 "]
    if unicodedata.unidata_version == "14.0.0":
        everything = "".join(map(chr, range(0x110000)))
        assert tokens.characters_outside(ranges).findall(everything) == []
        assert tokens.later_characters() is None


def test_what_came_later_is_no_letter_and_has_no_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a Python whose Unicode has more: here the Greek alphabet and the soft hyphen."""
    ranges = [[0, 0xAC], [0xAE, 0x36F], [0x400, 0x10FFFF]]
    monkeypatch.setattr(unicodedata, "unidata_version", "99.0.0")
    monkeypatch.setattr(tokens, "pinned", lambda: {"assigned_ranges": np.array(ranges, dtype=np.uint32).reshape(-1)})
    tokens.later_characters.cache_clear()
    try:
        assert tokens.normalise("AbγΔ\xad ΩC", "lower") == "abγΔ\xad Ωc"
        assert Recipe("x", tokens="letters", shingle=1).measure_many(["aβγ b"])[1].tolist() == [2]
        assert tokens.words("AbγΔc") == ["Ab", "c"]
    finally:
        tokens.later_characters.cache_clear()


def test_the_running_python_finds_words_as_the_core_does() -> None:
    text = " ".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    assert tokens.words(text) == tokens_of(text, normalisation="none")


def test_chinese_is_cut_before_it_is_put_in_lower_case() -> None:
    """The dictionary has T恤, and not t恤."""
    for normalisation in ("lower", "nfkc-casefold"):
        recipe = Recipe("zh", normalisation=normalisation, tokens="chinese", shingle=1)
        assert recipe.measure_many(["T恤", "t恤"])[1].tolist() == [1, 2]
