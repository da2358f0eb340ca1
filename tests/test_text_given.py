"""The simhash of given hashes and features: equal to the package `simhash`, and to the rule of simhash-py."""

from typing import Any

import numpy as np
import plain_hashes
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from simhash import Simhash

from fpstore.text import Recipe, recipes, simhash_of_features, simhash_of_hashes

U64 = st.integers(0, 2**64 - 1)
PYPI = recipes()["pypi-simhash"]
TEXTS = st.text(max_size=80) | st.lists(
    st.sampled_from(["How are you? ", "Fine. ", "blar ", "ΑΣ ", "ΣΑΣ' ", "İ", "Ⓐ ", "中文", "_", "١٢", "ǅ"]),
    max_size=60,
).map("".join)


@given(TEXTS)
@example("")
@example("...")
@example("abc")
@example("How are you? I Am fine. blar blar blar blar blar Thanks. " * 50)
def test_a_text_has_the_fingerprint_that_the_package_gives_it(text: str) -> None:
    assert PYPI.fingerprint(text) == Simhash(text).value


@given(st.lists(st.text(max_size=10), max_size=400))
def test_a_list_of_tokens_has_the_fingerprint_that_the_package_gives_it(tokens: list[str]) -> None:
    assert simhash_of_features(tokens, hash="md5") == (Simhash(tokens).value if tokens else 0)


@given(st.dictionaries(st.text(max_size=10), st.integers(0, 200), min_size=1, max_size=300))
def test_weighted_tokens_have_the_fingerprint_that_the_package_gives_them(weighted: dict[str, int]) -> None:
    expected = Simhash(weighted).value
    assert simhash_of_features(weighted, hash="md5") == expected
    assert simhash_of_features(list(weighted.items()), hash="md5") == expected == Simhash(list(weighted.items())).value


@given(st.dictionaries(st.text(max_size=10), st.integers(1, 1 << 20).map(lambda n: n / 256), min_size=1))
def test_weights_that_are_no_whole_numbers_are_those_of_the_package(weighted: dict[str, float]) -> None:
    assert simhash_of_features(weighted, hash="md5") == Simhash(weighted).value


def test_words_in_rows_are_tokens_for_the_package() -> None:
    text = "one two three four five six seven"
    words = text.split()
    rows = [" ".join(words[i : i + 4]) for i in range(4)]
    assert Recipe("rows", hash="md5").fingerprint(text) == Simhash(rows).value


def rule_of_simhash_py(hashes: list[int]) -> int:
    """A bit is set where more of the hashes have it than have not."""
    sums = [sum(1 if value >> bit & 1 else -1 for value in hashes) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if sums[bit] > 0)


@given(st.lists(U64, max_size=60))
@example([])
@example([1, 2])
def test_hashes_have_the_fingerprint_of_the_rule_of_simhash_py(hashes: list[int]) -> None:
    assert simhash_of_hashes(hashes) == rule_of_simhash_py(hashes)


@given(st.lists(st.tuples(U64, st.integers(0, 9)), max_size=30))
def test_a_weight_is_as_many_of_the_hash(weighted: list[tuple[int, int]]) -> None:
    hashes, weights = [value for value, _ in weighted], [weight for _, weight in weighted]
    repeated = [value for value, weight in weighted for _ in range(weight)]
    assert simhash_of_hashes(hashes, weights) == rule_of_simhash_py(repeated)


SIGNED = st.lists(st.tuples(U64, st.integers(-(1 << 24), 1 << 24)), max_size=30)


def simhash_of_signed(weighted: list[tuple[int, int]], tie: str) -> int:
    """The sum of the weights, each with the sign that its hash gives it, is above 0; or 0, where ties are set."""
    sums = [sum(weight if value >> bit & 1 else -weight for value, weight in weighted) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if sums[bit] > 0 or (sums[bit] == 0 and tie == "set"))


@pytest.mark.parametrize("tie", ["clear", "set"])
@given(weighted=SIGNED)
@example(weighted=[])
@example(weighted=[(1, 65536), (2, 65536)])
@example(weighted=[(5, -1)])
def test_weights_of_any_sign_have_the_sign_of_their_sums(tie: Any, weighted: Any) -> None:
    hashes, weights = [value for value, _ in weighted], [weight / 65536 for _, weight in weighted]
    assert simhash_of_hashes(hashes, weights, tie=tie) == simhash_of_signed(weighted, tie)


def test_a_weight_below_zero_counts_for_the_other_side() -> None:
    assert simhash_of_hashes([0xFF], [-1]) == 2**64 - 1 - 0xFF
    assert simhash_of_features({"a": 2, "b": -1}) == simhash_of_features([("a", 1), ("b", -0.5)])
    assert simhash_of_features([("a", 1), ("b", 3), ("a", 1), ("b", -3)]) == simhash_of_features(["a"])


def test_ties_are_clear_or_set() -> None:
    assert simhash_of_hashes([1, 2]) == 0
    assert simhash_of_hashes([1, 2], tie="set") == 3
    assert (simhash_of_hashes([]), simhash_of_hashes([], tie="set")) == (0, 2**64 - 1)
    assert (simhash_of_features([]), simhash_of_features({}, tie="set")) == (0, 2**64 - 1)


@pytest.mark.parametrize("hash", plain_hashes.NAMES)
def test_the_shingles_of_a_recipe_are_features(hash: str) -> None:
    for seed in (0, 42) if hash in plain_hashes.SEEDED else (0,):
        for tie in ("clear", "set"):
            recipe = Recipe("one", shingle=1, hash=hash, seed=seed, tie=tie)
            expected = simhash_of_features(["ab", "cd", "cd", "ef"], hash, seed=seed, tie=tie)
            assert expected == recipe.fingerprint("ab cd cd ef")


def test_features_can_be_bytes_and_halves_of_surrogate_pairs_are_what_recipes_make_of_them() -> None:
    assert simhash_of_features(["größe", "b"]) == simhash_of_features(["größe".encode(), b"b"])
    assert simhash_of_features([(b"\xff", 2.0)]) == plain_hashes.hash_value("xxh3", b"\xff")
    assert simhash_of_features(["\ud800"]) == simhash_of_features(["\ufffd"])


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="found 2 hashes with 1 weights"):
        simhash_of_hashes([1, 2], [1])
    with pytest.raises(ValueError, match="weights: found nan in all"):
        simhash_of_hashes([1], [float("nan")])
    with pytest.raises(ValueError, match=r"weights: found .*, expected less than 2\^46"):
        simhash_of_hashes([1, 2], [2.0**45, -(2.0**45)])
    with pytest.raises(ValueError, match="tie: found 'one', expected clear or set"):
        simhash_of_hashes([1], tie="one")
    with pytest.raises(ValueError, match="hash: found 'crc', expected xxh3 or xxh64 or md5 or sha1 or sha256"):
        simhash_of_features([], hash="crc")
    with pytest.raises(ValueError, match="seed: found 1, expected 0 for hash md5"):
        simhash_of_features([], hash="md5", seed=1)
    with pytest.raises(OverflowError):
        simhash_of_hashes([1 << 64])


@pytest.mark.parametrize("one", ["word", b"word"])
def test_one_feature_in_place_of_several_is_refused(one: Any) -> None:
    with pytest.raises(TypeError, match=r"features: found one (str|bytes), expected several of them"):
        simhash_of_features(one)


@pytest.mark.parametrize(
    "wrong", [1, None, ("a",), ("a", "1"), ("a", None), ("a", True), ("a", 1, 2), (1, 1), ["a", np.bool_(True)]]
)
def test_what_is_no_feature_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"features: found .*, expected str, bytes, or a pair of one and its weight"):
        simhash_of_features(["fine", wrong])
