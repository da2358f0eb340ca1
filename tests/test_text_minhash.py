"""1-bit MinHash: near in the mean as the theory says, decided by no repeated shingle, and never by an empty text."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.text import Recipe
from fpstore.text._shingles import measure_and_keep
from fpstore.text._simhash import measure
from fpstore.types import Keys

SPLITMIX_STEP = 0x9E3779B97F4A7C15
SETS = Recipe("sets", tokens="mixed", dense_shingle=5, shingle=1, weights="presence", sketch="minhash-1bit")


def distances(first: object, second: object) -> object:
    return np.bitwise_count(np.asarray(first) ^ np.asarray(second))


def splitmix(state: int) -> int:
    """As Steele, Lea and Flood have it."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def sketch_of(hashes: Keys, seed: int, words: int) -> list[int]:
    """Its words, the most significant first: the plain twin."""
    states = (seed + i * SPLITMIX_STEP for i in range(1, 64 * words + 1))
    numbers = np.array([splitmix(state % 2**64) for state in states], dtype=np.uint64)
    factors, terms = numbers.astype(np.uint32) | np.uint32(1), (numbers >> np.uint64(32)).astype(np.uint32)
    halves = (hashes ^ hashes >> np.uint64(32)).astype(np.uint32)
    least = (halves[:, None] * factors + terms).min(axis=0)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        least = (least ^ least >> np.uint32(shift)) * np.uint32(factor)
    bits = (least & np.uint32(1)).reshape(words, 64)
    return [sum(int(bit) << i for i, bit in enumerate(word)) for word in bits[::-1]]


# The hashes that are made at once and those that wait, of which fewer are left at the end; and those of a piece.
@pytest.mark.parametrize("letters", [(1, 2), (3, 5), (4, 9), (1, 14), (9, 40)])
@pytest.mark.parametrize(("words", "seed"), [(1, 0), (1, 42), (4, 0)])
def test_a_sketch_has_the_bits_of_the_least_that_its_hashes_become(
    letters: tuple[int, int], words: int, seed: int
) -> None:
    source = random.Random(f"{letters} {words} {seed}")
    counts = [*range(1, 20), 63, 64, 65, 71, 72, 73, 127, 128, 129, 191, 192, 193, 1019, 1020, 1021, 1084, 3000]
    texts = [
        " ".join("".join(source.choices("etaoin", k=source.randint(*letters))) for _ in range(count + 3))
        for count in counts
    ]
    columns, parts = measure_and_keep(texts, weights="presence", sketch="minhash-1bit", seed=seed, bits=64 * words)
    hashes = [own for kept, ends in parts for own in np.split(kept[:-1], ends[:-1].astype(np.int64))]
    assert [len(own) for own in hashes] == counts
    assert columns[0].reshape(-1, words).tolist() == [sketch_of(own, seed, words) for own in hashes]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 42])
@pytest.mark.parametrize(("shared", "alone"), [(400, 0), (380, 10), (320, 40), (200, 100), (0, 200), (3, 1), (0, 1)])
def test_the_mean_distance_is_that_of_the_jaccard_similarity(seed: int, shared: int, alone: int) -> None:
    source = random.Random(7)
    recipe = Recipe("seeded", shingle=1, weights="presence", sketch="minhash-1bit", seed=seed)
    texts = []
    for _ in range(400):
        words = [f"w{source.getrandbits(40)}" for _ in range(shared + 2 * alone)]
        texts += [" ".join(words[: shared + alone]), " ".join(words[:shared] + words[shared + alone :])]
    found = recipe.fingerprint_many(texts)
    expected = 32 * (1 - shared / (shared + 2 * alone))
    assert abs(distances(found[::2], found[1::2]).mean() - expected) < 0.6  # type: ignore[attr-defined]


def test_texts_of_one_word_are_as_far_from_each_other_as_any() -> None:
    found = SETS.fingerprint_many([f"word{number}" for number in range(500)])
    apart = distances(found[:, None], found[None, :])[np.triu_indices(500, 1)]  # type: ignore[index]
    assert abs(apart.mean() - 32) < 0.1
    assert apart.min() > 8


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), st.integers(1, 400))
def test_how_often_a_shingle_occurs_decides_nothing(words: list[str], times: int) -> None:
    assert SETS.fingerprint(" ".join(words)) == SETS.fingerprint(" ".join(sorted(set(words)) * times))


def test_one_repeated_word_does_not_make_two_texts_alike() -> None:
    source = random.Random(3)
    texts = []
    for name in "ab":
        words = [f"{name}{number}" for number in range(40_000)]
        for _ in range(800):
            words.insert(source.randrange(len(words)), "i")
        texts.append(" ".join(words))
    recipe = Recipe("pairs", tokens="mixed", dense_shingle=5, shingle=2, weights="presence", sketch="minhash-1bit")
    first, second = recipe.fingerprint_many(texts)
    assert (int(first) ^ int(second)).bit_count() > 20


def test_texts_without_tokens_are_told_apart_by_their_bytes() -> None:
    texts: list[str | bytes] = ["", " ", "\0", "... --- !!!", "\u200b\ufeff", "\u0301", "!", "!!", b"!!!", b"\xff"]
    found = SETS.fingerprint_many(texts).tolist()
    assert len(set(found)) == len(texts)
    assert found == [SETS.fingerprint(text) for text in texts]
    assert all((a ^ b).bit_count() > 8 for i, a in enumerate(found) for b in found[:i])


def test_a_shingle_of_letters_of_han_has_its_own_length() -> None:
    recipe = Recipe("mixed", tokens="mixed", dense_shingle=3, shingle=2, weights="presence")
    expected = ["甲乙丙", "乙丙two", "丙two words", "two words", "words end"]
    one = Recipe("one", tokens="whole", shingle=1, weights="presence")
    hashes = {int(one.features(text).hashes[0]) for text in expected}
    assert set(recipe.features("甲 乙丙 two words, end").hashes.tolist()) == hashes


def test_weights_other_than_presence_are_refused_by_the_core() -> None:
    with pytest.raises(ValueError, match="weights: found 'frequency', expected 'presence' for sketch minhash-1bit"):
        measure(["text"], sketch="minhash-1bit")
    with pytest.raises(ValueError, match=r"dense_shingle: found 0, expected 1\.\.64 for tokens mixed, else 0"):
        measure(["text"], tokens="mixed")
    with pytest.raises(ValueError, match=r"dense_shingle: found 5, expected 1\.\.64 for tokens mixed, else 0"):
        measure(["text"], dense_shingle=5)
    with pytest.raises(ValueError, match="sketch: found 'other', expected simhash or minhash-1bit"):
        measure(["text"], sketch="other")
