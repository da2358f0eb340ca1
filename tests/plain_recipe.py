"""Recipes in the plainest Python: plain_unicode, hashlib, the packages, and integers."""

from collections import Counter
from decimal import ROUND_HALF_UP, Decimal

import rjieba
import Stemmer
import stopwordsiso
from plain_hashes import hash_value
from plain_unicode import characters, normalise, words

from fpstore.text import Recipe
from fpstore.text.model import IdfModel

ONE = 1 << 16


def tokens_of(recipe: Recipe, text: str) -> list[str]:
    text = normalise(text, "none")
    if recipe.tokens in ("characters", "whole"):
        found = characters(normalise(text, recipe.normalisation))
        return ["".join(found)] * bool(found) if recipe.tokens == "whole" else found
    if recipe.tokens == "letters":
        return list("".join(words(normalise(text, recipe.normalisation))))
    pieces = rjieba.cut(text) if recipe.tokens == "chinese" else [text]
    found = [word for piece in pieces for word in words(normalise(piece, recipe.normalisation))]
    if recipe.stop_words:
        listed = {normalise(word, recipe.normalisation) for word in stopwordsiso.stopwords(recipe.stop_words)}
        found = [word for word in found if word not in listed]
    return Stemmer.Stemmer(recipe.stemming).stemWords(found) if recipe.stemming else found


def features_of(recipe: Recipe, text: str) -> dict[int, int]:
    """The hashes of the shingles, increasing, and their weights in units of 2**-16."""
    tokens = tokens_of(recipe, text)
    joint = "" if recipe.tokens in ("characters", "letters") else " "
    count = max(len(tokens) - recipe.shingle, 0) + 1 if tokens or recipe.tokens == "letters" else 0
    shingles = [joint.join(tokens[i : i + recipe.shingle]) for i in range(count)]
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


def fingerprint_of(recipe: Recipe, text: str) -> int:
    weighted = features_of(recipe, text)
    total = sum(weighted.values())
    ones = [sum(weight for value, weight in weighted.items() if value >> bit & 1) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if 2 * ones[bit] > total - (recipe.tie == "set"))
