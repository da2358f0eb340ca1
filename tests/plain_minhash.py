"""MinHash signatures in the plainest Python: lists of integers."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import plain_rensa
from plain_hashes import hash_value
from plain_recipe import features_of, finalised, tokens_of
from plain_unicode import normalise

from fpstore.text import Recipe

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
MERSENNE = (1 << 61) - 1


def splitmix(values: int, seed: int) -> list[tuple[int, int]]:
    found = []
    for _ in range(values):
        seed = seed + 0x9E3779B97F4A7C15 & LONG
        number = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & LONG
        number = (number ^ number >> 27) * 0x94D049BB133111EB & LONG
        number ^= number >> 31
        found.append((number & WORD | 1, number >> 32))
    return found


def binned(hashes: Iterable[int], values: int, seed: int) -> list[int]:
    hashes = list(hashes)
    bins: list[list[int]] = [[] for _ in range(values)]
    for value in hashes:
        product = value * 0x9E3779B97F4A7C15 & LONG
        bins[((product ^ product >> 32) & WORD) * values >> 32].append(product >> 33)
    halves = [(value ^ value >> 32) & WORD for value in hashes]
    return [
        min(own) if own else min((half * factor + term & WORD for half in halves), default=WORD) // 2 + (1 << 31)
        for own, (factor, term) in zip(bins, splitmix(values, seed), strict=True)
    ]


def datasketch_pairs(scheme: str, values: int, seed: int) -> list[tuple[int, int]]:
    """What datasketch 2 draws."""
    source = np.random.RandomState(seed)
    if scheme == "datasketch-legacy":
        return [
            (int(source.randint(1, MERSENNE, dtype=np.uint64)), int(source.randint(0, MERSENNE, dtype=np.uint64)))
            for _ in range(values)
        ]
    kind = np.uint32 if scheme == "datasketch-affine32" else np.uint64
    width = 8 * np.dtype(kind).itemsize
    factors = source.randint(0, 1 << (width - 1), values, dtype=kind).tolist()
    terms = source.randint(0, 1 << width, values, dtype=kind).tolist()
    return [(2 * factor + 1, term) for factor, term in zip(factors, terms, strict=True)]


def finalised_long(value: int) -> int:
    """The finalizer of MurmurHash3, 64 bits."""
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & LONG
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & LONG
    return value ^ value >> 33


def signature_of_hashes(scheme: str, hashes: Iterable[int], values: int, seed: int) -> list[int]:
    hashes = list(hashes)
    if scheme == "fpstore":
        return binned(hashes, values, seed)
    if scheme == "rensa":
        return plain_rensa.later_signature_of_hashes(hashes, values, seed)
    pairs = datasketch_pairs(scheme, values, seed)
    if scheme == "datasketch-legacy":
        return [min((((h & WORD) * a + b & LONG) % MERSENNE & WORD for h in hashes), default=WORD) for a, b in pairs]
    if scheme == "datasketch-affine32":
        mixed = [finalised(value & WORD) for value in hashes]
        return [min((a * h + b & WORD for h in mixed), default=WORD) for a, b in pairs]
    mixed = [finalised_long(value) for value in hashes]
    return [min((a * h + b & LONG for h in mixed), default=LONG) for a, b in pairs]


def signature_of(recipe: Recipe, text: str) -> list[int]:
    # The seed is their own, by the permutations of datasketch and rensa.
    hashed = recipe if recipe.permutations == "fpstore" else replace(recipe, seed=0)
    hashes: Iterable[int] = features_of(hashed, text)
    if not tokens_of(recipe, text):
        hashes = [hash_value("xxh3", normalise(text, "none").encode())]
    return signature_of_hashes(recipe.permutations, hashes, recipe.values, recipe.seed)
