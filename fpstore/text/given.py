"""Owns the simhash of what comes ready-made: hashes, or features with weights.

The rule is that of recipes: a bit is set if what has it weighs more than half of all, and a tie leaves it clear.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from fpstore.text import _simhash


def simhash_of_hashes(hashes: Iterable[int], weights: Iterable[float] | None = None) -> int:
    """The simhash (0..2**64 - 1) of hashes of 64 bits, each as often as it occurs; 0 of none.

    weights: of each, kept to 2**-16, 1 where None. Raises ValueError for lengths that differ, and for weights that are
    negative, not finite, or 2**46 in all; OverflowError for a hash of more bits.
    """
    values = np.fromiter(hashes, dtype=np.uint64)
    weighed = np.ones(len(values)) if weights is None else np.fromiter(weights, dtype=np.float64)
    if (weighed < 0).any():
        raise ValueError(f"weights: found {weighed.min()}, expected none below 0")
    return _simhash.simhash_of(values, weighed)


def simhash_of_features(features: Mapping[str, float] | Iterable[str | tuple[str, float]], hash: str = "xxh3") -> int:
    """The simhash (0..2**64 - 1) of features, by the hash of a recipe; 0 of none.

    features: strings, each of weight 1 as often as it occurs; or pairs of a string and its weight, or a mapping.
    Raises as simhash_of_hashes does, and for an unknown hash.
    """
    pairs = features.items() if isinstance(features, Mapping) else features
    weighed = [(each, 1.0) if isinstance(each, str) else each for each in pairs]
    hashes = (_simhash.hash_of(feature.encode("utf-8", "replace"), hash) for feature, _ in weighed)
    return simhash_of_hashes(hashes, (weight for _, weight in weighed))
