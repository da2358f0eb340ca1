"""Which texts are short for a recipe and k: the bounds, measured, and what is counted."""

import random
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

from fpstore import jobs
from fpstore.text import recipes
from fpstore.text.packed import Texts
from fpstore.text.short import Lengths, short_below

TRIALS = 400


def word_of(source: random.Random) -> str:
    return "".join(source.choices(ascii_lowercase, k=7)) + " "


def letter_of(source: random.Random) -> str:
    return chr(source.randint(0x4E00, 0x9F00))


def share_out_of_reach(name: str, k: int, count: int, *, dense: bool) -> float:
    """Of texts of so many tokens, those that one other token takes out of k."""
    source, make = random.Random(7), letter_of if dense else word_of
    pairs: tuple[list[str], list[str]] = ([], [])
    for _ in range(TRIALS):
        tokens = [make(source) for _ in range(count)]
        pairs[0].append("".join(tokens))
        tokens[source.randrange(count)] = make(source)
        pairs[1].append("".join(tokens))
    first, second = (recipes()[name].fingerprint_many(texts) for texts in pairs)
    lost = [int(each).bit_count() > k for each in (first ^ second).tolist()]
    return sum(lost) / TRIALS


@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize(
    ("name", "dense"),
    [
        *((name, False) for name in ("text-1", "words-4", "code", "simhash-1", "web-en")),
        *((name, True) for name in ("text-1", "words-4", "code", "simhash-1", "zh")),
    ],
)
def test_at_the_bound_one_changed_token_is_lost_about_as_often_as_not(name: str, k: int, dense: bool) -> None:
    count = short_below(recipes()[name], k, dense=dense)
    # 400 draws of one half are within 0.1 of it by four standard deviations.
    assert abs(share_out_of_reach(name, k, count, dense=dense) - 0.5) < 0.1


@pytest.mark.parametrize(
    ("name", "dense", "bounds"),
    [("text-1", False, (35, 18)), ("text-1", True, (70, 36)), ("simhash-1", False, (105, 35))],
)
def test_the_bounds_that_the_docs_name(name: str, dense: bool, bounds: tuple[int, int]) -> None:
    assert tuple(short_below(recipes()[name], k, dense=dense) for k in (3, 6)) == bounds


def of_tokens(count: int, *, dense: bool) -> str:
    source = random.Random(count)
    return "".join((letter_of if dense else word_of)(source) for _ in range(count))


@pytest.mark.parametrize(("name", "k", "least"), [("text-1", 3, 70), ("text-1", 6, 36), ("words-4", 3, 104)])
def test_chinese_has_the_bound_of_its_own_shingles(name: str, k: int, least: int) -> None:
    recipe = recipes()[name]
    words = short_below(recipe, k)
    assert (short_below(recipe, k, dense=True), words < least) == (least, True)
    texts = [of_tokens(least - 1, dense=True), of_tokens(least, dense=True), of_tokens(words, dense=False)]
    texts.append(
        of_tokens(words // 2, dense=True) + " " + of_tokens(words - words // 2, dense=False)
    )  # half is not most
    for given in (texts, Texts.pack(text.encode() for text in texts)):
        lengths = Lengths(recipe, k)
        lengths.see(given, recipe.measure_many(texts))
        assert (lengths.short, lengths.dense) == (1, 1)
    lengths = Lengths(recipe, k)
    lengths.see(texts[:1], recipe.measure_many(texts[:1]))
    told = f"1 of 1 texts have fewer than {words} tokens ({least} in scripts that part no words), too few for recipe"
    assert lengths.warning is not None
    assert told in lengths.warning
    again = Lengths(recipe, k)
    again.go_on(lengths.state)
    assert again.warning == lengths.warning


@pytest.mark.parametrize(("signs", "words", "is_told"), [(31, 0, False), (9, 1, True), (9, 0, False)])
def test_texts_without_tokens_are_not_among_the_short(signs: int, words: int, is_told: bool) -> None:
    recipe = recipes()["text-1"]
    texts = ["!?" * (each + 1) for each in range(signs)] + ["a word"] * words
    lengths = Lengths(recipe)
    lengths.see(texts, recipe.measure_many(texts))
    assert (lengths.short, lengths.empty) == (words, signs)
    assert lengths.warning is not None
    assert ("fewer than" in lengths.warning) is is_told
    assert f"{signs} of {signs + words} texts have no token" in lengths.warning


@pytest.mark.parametrize(("bands", "rows_per_band"), [(16, 8), (32, 4), (8, 16)])
def test_at_the_bound_of_signatures_one_changed_token_is_lost_about_as_often_as_not(
    bands: int, rows_per_band: int
) -> None:
    recipe = recipes()["minhash-128"]
    count = short_below(recipe, 0, cut=(bands, rows_per_band))
    rng = np.random.default_rng(bands)
    lost = []
    for _ in range(40):
        words = [f"w{number}" for number in rng.integers(0, 10**6, count)]
        changed = [" ".join([*words[:i], "changed", *words[i + 1 :]]) for i in range(count)]
        signed = recipe.sign_many([" ".join(words), *changed]).reshape(count + 1, bands, rows_per_band)
        lost.append(1 - (signed[1:] == signed[:1]).all(axis=2).any(axis=1).mean())
    assert 0.4 <= np.mean(lost) <= 0.6


def test_short_texts_are_told_of_by_signatures_as_by_fingerprints(tmp_path: Path) -> None:
    recipe = recipes()["minhash-128"]
    texts = ["one two three four", "five six seven eight nine ten", "eleven", ""]
    found = jobs.dedup([[{"text": text} for text in texts]], tmp_path / "kept.jsonl", recipe=recipe, confirm=None)
    told = "3 of 4 texts have fewer than 16 tokens, too few for recipe minhash-128 and 16 bands of 8 values: one"
    empty = "1 of 4 texts have no token for recipe minhash-128: they are near none but their equals"
    assert found.warning is not None
    assert found.warning.startswith(told)
    assert found.warning.endswith(f"as often as not. {empty}")
    assert short_below(recipe, 3) == 1
