"""Comparing two texts: equal to plain Python for any recipe, bounded, and sane where there is nothing to compare."""

import dataclasses
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import plain_recipe
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from minhashes import estimate, shared
from plain_hashes import hash_value
from test_text_recipe import TEXTS, some_recipes

from fpstore import text as fptext
from fpstore.text import DEFAULT_RECIPE, Recipe, compare, comparison, dedup, recipes
from fpstore.text.model import IdfModel

WORDS = Recipe("words", shingle=1)


@pytest.mark.slow
@given(some_recipes(), TEXTS, TEXTS)
@example(DEFAULT_RECIPE, "", "")
@example(DEFAULT_RECIPE, "", "one two")
@example(recipes()["pypi-simhash"], "", "!")
@example(recipes()["exact"], "one two", "one  two")
def test_a_comparison_is_that_of_plain_python(recipe: Recipe, one: str, other: str) -> None:
    found = compare(one, other, recipe)
    ours, theirs = (plain_recipe.features_of(recipe, text) for text in (one, other))
    both, either = ours.keys() & theirs.keys(), ours.keys() | theirs.keys()
    assert found.first == plain_recipe.fingerprint_of(recipe, one)
    assert found.second == plain_recipe.fingerprint_of(recipe, other)
    assert found.distance == (found.first ^ found.second).bit_count()
    assert found.near == (found.distance <= 3 * recipe.bits // 64)
    says_nothing = not all(plain_recipe.tokens_of(recipe, text) for text in (one, other))
    assert found.jaccard == (float(one == other) if says_nothing else len(both) / len(either))
    assert (found.first_count, found.second_count, found.common_count) == (len(ours), len(theirs), len(both))
    assert (found.only_first_count, found.only_second_count) == (len(ours) - len(both), len(theirs) - len(both))
    if says_nothing:
        assert found.cosine == float(one == other)
    else:
        dot = sum(ours[each] * theirs[each] for each in both)
        squares = (sum(weight * weight for weight in some.values()) for some in (ours, theirs))
        assert found.cosine == pytest.approx(dot / math.sqrt(math.prod(squares)), rel=1e-9)
    for own, some, text in ((found.only_first, ours, one), (found.only_second, theirs, other)):
        expected = sorted((weight for each, weight in some.items() if each not in both), reverse=True)[:20]
        assert [each.weight * plain_recipe.ONE for each in own] == expected
        assert all(plain_recipe.ONE * each.weight == some[each.hash] and each.hash not in both for each in own)
        named = [(each.text, each.hash) for each in own if each.text is not None and not each.text.endswith("...")]
        for shingle, hashed in named:
            assert hash_value(recipe.hash, shingle.encode(), recipe.seed) == hashed
        assert len(named) == len(own) or any(each.text for each in own), text


@given(some_recipes(), TEXTS)
def test_shingles_in_their_order_have_the_hashes_and_the_counts_of_the_features(recipe: Recipe, text: str) -> None:
    found = list(recipe.shingles(text))
    assert sorted({each for each, _ in found}) == recipe.features(text).hashes.tolist()
    for each, shingle in found:
        assert hash_value(recipe.hash, shingle.encode(), recipe.seed) == each
    counts = Counter(each for each, _ in found)
    weights = (
        dataclasses.replace(recipe, weights="frequency", sketch="simhash", bits=64).features(text).weights.tolist()
    )
    assert [counts[each] for each in sorted(counts)] == weights


@given(TEXTS, st.integers(0, 5))
def test_only_so_many_shingles_are_named_as_were_asked_for(text: str, shown: int) -> None:
    found, whole = compare(text, "", shown=shown), compare(text, "", shown=10_000)
    assert found.only_first == whole.only_first[:shown]
    assert len(whole.only_first) == whole.first_count == found.only_first_count


def test_the_heaviest_come_first_and_of_one_weight_those_that_come_first_in_the_text() -> None:
    found = compare("c b a c d d d z", "z", WORDS, shown=3)
    assert [(each.text, each.weight) for each in found.only_first] == [("d", 3), ("c", 2), ("b", 1)]
    assert [each.text for each in compare("", "c b a c", WORDS, shown=2).only_second] == ["c", "b"]
    assert [each.text for each in compare("z b a a", "z", WORDS, shown=1).only_first] == ["a"]


def test_a_long_shingle_is_cut_and_one_far_behind_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    (long,) = compare("x" * 500, "", WORDS).only_first
    assert (long.text, long.hash) == ("x" * 197 + "...", WORDS.features("x" * 500).hashes[0])
    (just,) = compare("x" * 200, "", WORDS).only_first
    assert just.text == "x" * 200
    monkeypatch.setattr(comparison, "SEARCHED", 4)
    found = compare("a b c c b c", "", WORDS)
    assert [(each.text, each.weight) for each in found.only_first] == [(None, 3), ("b", 2), ("a", 1)]
    assert len(compare("a b c d e", "", WORDS, shown=4).only_first) == 4


def test_weights_of_zero_divide_by_nothing() -> None:
    hashes = WORDS.features("a").hashes
    nothing = IdfModel(WORDS.steps(), 1, 0, 0, hashes, np.zeros(1, dtype=np.uint32))
    recipe = WORDS.with_model(nothing)
    assert (compare("a", "a b", recipe).jaccard, compare("a", "a b", recipe).cosine) == (0.5, 0.0)
    assert compare("a", "a", recipe).cosine == compare("a", b"a", recipe).cosine == 1.0


@pytest.mark.parametrize("name", ["text-1", "web-en", "pypi-simhash", "exact"])
def test_texts_without_tokens_are_alike_only_if_they_are_equal(name: str) -> None:
    for one, other in (("", "   "), (" ", "\t"), ("", "a b")):
        found = compare(one, other, recipes()[name])
        assert (found.jaccard, found.cosine) == (0.0, 0.0)
        assert compare(one, one, recipes()[name]).jaccard == 1.0


def test_texts_that_are_nearly_equal_are_never_more_than_equal() -> None:
    words = [f"w{i}" for i in range(1000)]
    recipe = Recipe("log", shingle=1, weights="log")
    for seed in range(20):
        text = " ".join(np.random.default_rng(seed).choice(words, 3000))
        assert compare(text, text, recipe).cosine == 1.0
        assert compare(text, f"{text} more", recipe).cosine < 1.0


def test_bytes_are_utf8_and_arguments_are_checked() -> None:
    assert compare("größe x".encode(), "größe y") == compare("größe x", "größe y")
    assert compare("a", "b", max_distance=64).near
    for distance in (-1, 65):
        with pytest.raises(ValueError, match=f"max_distance: found {distance}, expected 0..64"):
            compare("a", "b", max_distance=distance)
    with pytest.raises(ValueError, match="shown: found -1, expected 0 or more"):
        compare("a", "b", shown=-1)
    with pytest.raises(TypeError, match=r"expected a Recipe: fpstore.text.recipes\(\)\['zh'\]"):
        compare("a", "b", "zh")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text: found int"):
        compare("a", 1)  # type: ignore[arg-type]
    assert {"compare", "Comparison", "Shingle"} <= {*fptext.__all__}


def test_a_comparison_as_json_has_hex_fingerprints_and_counts() -> None:
    found = compare("one two three", "one two four", WORDS)
    record = found.to_json()
    assert (record["first_fingerprint"], record["distance"]) == (f"{found.first:016x}", found.distance)
    assert (record["only_first_count"], record["only_first"][0]["text"]) == (1, "three")
    assert record["only_first"][0]["hash"] == f"{found.only_first[0].hash:016x}"
    assert Recipe.from_json(record["recipe"]) == WORDS


SMALL = replace(recipes()["minhash-128"], name="small", values=16, shingle=1, dense_shingle=1)


@given(TEXTS, TEXTS, st.sampled_from([(4, 2), (16, 1), (2, 8)]), st.sampled_from([None, 0.0, 0.4, 1.0]))
@example("a b c d", "a b c d", (4, 2), 1.0)
def test_by_signatures_near_is_what_shares_a_band_and_is_as_similar(
    one: str, other: str, cut: tuple[int, int], least: float | None
) -> None:
    bands, rows = cut
    found = compare(one, other, SMALL, bands=bands, rows_per_band=rows, min_similarity=least)
    first, second = SMALL.sign_many([one, other]).tolist()
    estimated, both = float(np.float32(estimate(first, second))), len(shared(first, second, bands, rows))
    assert (found.first, found.second, found.max_distance, found.distance) == (tuple(first), tuple(second), None, None)
    assert (found.similarity, found.shared_bands, found.bands, found.rows_per_band) == (estimated, both, bands, rows)
    assert found.near == (both > 0 and (least is None or estimated >= least))
    asked: dict[str, Any] = {"recipe": SMALL, "bands": bands, "rows_per_band": rows, "min_similarity": least}
    assert (len(dedup([one, other], confirm=None, **asked).kept) == 1) == found.near
    plain = compare(one, other, replace(SMALL, sketch="simhash", values=128))
    assert (found.jaccard, found.common_count) == (plain.jaccard, plain.common_count)
    record = found.to_json()
    assert (record["similarity"], record["near"]) == (estimated, found.near)
    assert not {"distance", "max_distance", "first_fingerprint"} & {*record}
    assert found == compare(one, other, SMALL, bands=bands, rows_per_band=rows, min_similarity=least)


@pytest.mark.parametrize(
    ("recipe", "asked", "told"),
    [
        (SMALL, {"max_distance": 3}, "max_distance: found 3 with recipe small, which makes signatures"),
        (SMALL, {}, "bands \\* rows_per_band: found 128, expected at most 16"),
        (recipes()["minhash-128"], {"min_similarity": 2}, "min_similarity: found 2"),
        (DEFAULT_RECIPE, {"bands": 3}, "bands: found 3 with recipe text-1, which makes fingerprints"),
    ],
)
def test_what_says_nothing_about_what_the_recipe_makes_is_refused(recipe: Recipe, asked: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        compare("one", "two", recipe, **asked)
