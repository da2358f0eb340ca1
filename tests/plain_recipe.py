"""Recipes in the plainest Python: plain_unicode, hashlib, the packages, and integers."""

from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

import rjieba
import Stemmer
import stopwordsiso
from plain_hashes import hash_value
from plain_unicode import characters, is_dense, mixed, normalise, signs, words

from fpstore.text import Recipe
from fpstore.text.model import IdfModel

ONE = 1 << 16


def tokens_of(recipe: Recipe, text: str) -> list[str]:
    text = normalise(text, "none")
    if recipe.tokens in ("characters", "whole"):
        found = characters(normalise(text, recipe.normalisation))
        return ["".join(found)] * bool(found) if recipe.tokens == "whole" else found
    if recipe.tokens == "mixed":
        return mixed(normalise(text, recipe.normalisation))
    if recipe.tokens == "letters":
        return list("".join(words(normalise(text, recipe.normalisation))))
    if recipe.tokens == "chinese" and recipe.normalisation.startswith("nfkc"):
        text = normalise(text, "nfkc")
    pieces = rjieba.cut(text) if recipe.tokens == "chinese" else [text]
    found = [word for piece in pieces for word in words(normalise(piece, recipe.normalisation))]
    if recipe.stop_words:
        listed = {normalise(word, recipe.normalisation) for word in stopwordsiso.stopwords(recipe.stop_words)}
        found = [word for word in found if word not in listed]
    return Stemmer.Stemmer(recipe.stemming).stemWords(found) if recipe.stemming else found


def features_of(recipe: Recipe, text: str) -> dict[int, int]:
    """The hashes of the shingles, increasing, and their weights in units of 2**-16."""
    tokens = tokens_of(recipe, text)
    if recipe.tokens == "mixed":
        return weights_of(recipe, mixed_shingles(recipe, tokens))
    joint = "" if recipe.tokens in ("characters", "letters") else " "
    count = max(len(tokens) - recipe.shingle, 0) + 1 if tokens or recipe.tokens == "letters" else 0
    shingles = [joint.join(tokens[i : i + recipe.shingle]) for i in range(count)]
    return weights_of(recipe, shingles)


def mixed_shingles(recipe: Recipe, tokens: list[str]) -> list[str]:
    lengths = [recipe.dense_shingle if is_dense(token[0]) else recipe.shingle for token in tokens]
    runs = [tokens[i : i + length] for i, length in enumerate(lengths) if i + length <= len(tokens)]
    written = [
        "".join(each if is_dense(each[0]) else each + " " for each in run) for run in runs or [tokens][: len(tokens)]
    ]
    return [each.removesuffix(" ") for each in written]


def weights_of(recipe: Recipe, shingles: list[str]) -> dict[int, int]:
    counts = Counter(hash_value(recipe.hash, shingle.encode(), recipe.seed) for shingle in shingles)
    return {each: weight_of(recipe, each, counts[each]) for each in sorted(counts)}


def weight_of(recipe: Recipe, hash_value: int, count: int) -> int:
    if recipe.weights == "log":
        return int(((1 + Decimal(count).ln()) * ONE).to_integral_value(ROUND_HALF_UP))
    if recipe.weights == "idf":
        model = recipe.model
        assert isinstance(model, IdfModel)
        known: dict[int, int] = dict(zip(model.hashes.tolist(), model.weights.tolist(), strict=True))
        return count * int(known.get(hash_value, model.unseen))
    return ONE * {"frequency": count, "capped": min(count, 4), "presence": 1}[recipe.weights]


WORD = (1 << 32) - 1


def splitmix(seed: int, count: int) -> list[int]:
    """So many numbers of the SplitMix64 of a seed (Steele, Lea and Flood, OOPSLA 2014)."""
    found = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) % (1 << 64)
        number = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
        number = (number ^ number >> 27) * 0x94D049BB133111EB % (1 << 64)
        found.append(number ^ number >> 31)
    return found


def permutations(seed: int, bits: int) -> list[tuple[int, int]]:
    """Of each of as many as bits: the factor and the term."""
    return [(number & WORD | 1, number >> 32) for number in splitmix(seed, bits)]


def widened(value: int, bits: int) -> int:
    """A hash of 64 bits as one of more."""
    words = [value, *splitmix(value, bits // 64 - 1)]
    return sum(word << 64 * at for at, word in enumerate(words))


def finalised(value: int) -> int:
    """The finalizer of MurmurHash3, 32 bits."""
    value = (value ^ value >> 16) * 0x85EBCA6B & WORD
    value = (value ^ value >> 13) * 0xC2B2AE35 & WORD
    return value ^ value >> 16


def minhash_of(hashes: Iterable[int], seed: int, bits: int) -> int:
    halves = [(value ^ value >> 32) & WORD for value in hashes]
    least = [min(factor * half + term & WORD for half in halves) for factor, term in permutations(seed, bits)]
    return sum((finalised(value) & 1) << bit for bit, value in enumerate(least))


def distinct_of(recipe: Recipe, text: str) -> int:
    """How many distinct shingles are told of a text; 0 where none are counted, or it has no token."""
    hashes = features_of(recipe, text) if tokens_of(recipe, text) else {}
    if recipe.sketch == "simhash":
        return 0 if recipe.weights == "frequency" else len(hashes)
    halves = [(value ^ value >> 32) & WORD for value in hashes]
    least = [
        min((factor * half + term & WORD for half in halves), default=WORD)
        for factor, term in permutations(recipe.seed, recipe.bits)
    ]
    whole = sum(least) + recipe.bits
    return (2 * (recipe.bits << 32) + whole) // (2 * whole) - 1


def unseen_of(recipe: Recipe, text: str) -> float:
    """The share of what is visible that is in no token."""
    if recipe.tokens not in ("words", "mixed", "chinese") or recipe.stop_words or recipe.stemming:
        return 0.0
    text = normalise(text, "none")
    if recipe.tokens == "chinese" and recipe.normalisation.startswith("nfkc"):
        text = normalise(text, "nfkc")
    pieces = rjieba.cut(text) if recipe.tokens == "chinese" else [text]
    unseen = sum(len(signs(normalise(piece, recipe.normalisation)).encode()) for piece in pieces)
    tokens = tokens_of(recipe, text)
    spaces = sum(recipe.tokens != "mixed" or not is_dense(token[0]) for token in tokens)
    seen = sum(len(token.encode()) for token in tokens) + spaces
    return unseen / (unseen + seen) if unseen else 0.0


def fingerprint_of(recipe: Recipe, text: str) -> int:
    parted = recipe.sketch == "minhash-1bit" or recipe.tokens == "mixed" or recipe.hash == "xxh3"
    if parted and not tokens_of(recipe, text):
        return widened(hash_value("xxh3", normalise(text, "none").encode()), recipe.bits)
    if recipe.sketch == "minhash-1bit":
        return minhash_of(features_of(recipe, text), recipe.seed, recipe.bits)
    weighted = {widened(value, recipe.bits): weight for value, weight in features_of(recipe, text).items()}
    total = sum(weighted.values())
    ones = [sum(weight for value, weight in weighted.items() if value >> bit & 1) for bit in range(recipe.bits)]
    return sum(1 << bit for bit in range(recipe.bits) if 2 * ones[bit] > total - (recipe.tie == "set"))
