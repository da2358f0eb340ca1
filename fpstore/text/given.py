"""Owns the simhash of what comes ready-made: hashes, or features with weights.

The rule is that of recipes: a bit is set if what has it weighs more than what has not, that is if the sum of the
weights, each with the sign + where its hash has the bit and - where not, is above 0. `tie` says what a sum of 0 makes.
A weight below 0 counts for the other side, so one of -1 takes back one of 1.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from fpstore.text import _simhash
from fpstore.text._sums import simhash_of
from fpstore.text.cleaning import without_surrogates

Feature = str | bytes


def simhash_of_hashes(
    hashes: Iterable[int], weights: Iterable[float] | None = None, *, tie: str = "clear", bits: int = 64
) -> int:
    """The simhash (0..2**bits - 1) of hashes of 64 bits, each as often as it occurs.

    weights: of each, of any sign, kept to 2**-16, 1 where None. tie: what a bit is whose two sides weigh the same,
    `clear` or `set`; so none have the simhash 0, or 2**bits - 1. bits: 64, 128, 192 or 256; each hash is widened as
    recipes do it. Raises ValueError for lengths that differ, for weights that are not finite or of which the sizes are
    2**46 in all, and for another tie or other bits; OverflowError for a hash of more bits.
    """
    values = np.fromiter(hashes, dtype=np.uint64)
    weighed = np.ones(len(values)) if weights is None else np.fromiter(weights, dtype=np.float64)
    return simhash_of(values, weighed, tie, bits)


def simhash_of_features(
    features: Mapping[str, float] | Mapping[bytes, float] | Iterable[Feature | tuple[Feature, float]],
    hash: str = "xxh3",
    *,
    seed: int = 0,
    tie: str = "clear",
    bits: int = 64,
) -> int:
    """The simhash (0..2**bits - 1) of features, by the hash, seed, tie and bits of a recipe.

    features: str, hashed as UTF-8, or bytes, each of weight 1 as often as it occurs; or pairs of one and its weight, or
    a mapping. Raises as simhash_of_hashes does, and for an unknown hash or a seed that it does not take; TypeError for
    one str or bytes in place of features, and for what is no feature.
    """
    if isinstance(features, str | bytes):
        raise TypeError(f"features: found one {type(features).__name__}, expected several of them")
    _simhash.hash_of(b"", hash, seed)  # refuses what none of the features might
    pairs = features.items() if isinstance(features, Mapping) else features
    weighed = [(each, 1.0) if isinstance(each, str | bytes) else _pair(each) for each in pairs]
    hashes = (_simhash.hash_of(_bytes_of(feature), hash, seed) for feature, _ in weighed)
    return simhash_of_hashes(hashes, (weight for _, weight in weighed), tie=tie, bits=bits)


def _pair(found: object) -> tuple[Feature, float]:
    if isinstance(found, tuple | list) and len(found) == 2:
        feature, weight = found
        # A bool is an int to isinstance, and True is no weight.
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if isinstance(feature, str | bytes) and is_number:
            return feature, float(weight)
    raise TypeError(f"features: found {found!r:.80}, expected str, bytes, or a pair of one and its weight")


def _bytes_of(feature: Feature) -> bytes:
    if isinstance(feature, bytes):
        return feature
    try:
        return feature.encode()
    except UnicodeEncodeError:
        return without_surrogates(feature).encode()
