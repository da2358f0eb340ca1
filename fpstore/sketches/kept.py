"""What is kept of a signature to estimate by: a few bits of each value, packed, and the estimate of two of them.

Li and Koenig, b-Bit Minwise Hashing (WWW 2010): of two values that differ, b bits of their hashes agree once in 2^b.
"""

import functools

import numpy as np

from fpstore._similar import SketchShape
from fpstore.errors import Wrong
from fpstore.types import Array, Keys

# Of a signature so many bits are kept, or fewer: 288 values of one bit have the error of 128 whole ones.
MAX_BITS = 288
WORD_BITS = 64
WIDTHS = (32, 16, 8, 4, 2, 1)


class Kept:
    """How many bits are kept of each of so many values. words: uint64 that a sketch takes."""

    def __init__(self, values: int, bits: int) -> None:
        if bits not in WIDTHS:
            raise Wrong("bits of a value", f"{bits}", f"one of {', '.join(map(str, WIDTHS))}")
        self.values, self.bits = values, bits
        self.words = -(-values // (WORD_BITS // bits))

    @property
    def shape(self) -> SketchShape:
        """What makes sketches and compares them."""
        return _shape(self.values, self.bits)

    def sketches(self, signatures: Array) -> Keys:
        """What is kept of each signature: uint64[n, words], of integers[n, values]; value 0 in the lowest bits."""
        return self.shape.sketches(signatures)

    def similarity(self, one: Keys, other: Keys) -> Array:
        """The estimated Jaccard similarity of each two sketches, uint64[n, words] both: float32[n]."""
        return self.shape.similarity(one, other)

    @property
    def estimates(self) -> Array:
        """Of two sketches that differ in so many values: float32[values + 1], from 1 down, then 0."""
        return _estimates(self.values, self.bits)

    @property
    def farthest(self) -> int:
        """The least number of differing values that says nothing any more."""
        return int(np.count_nonzero(self.estimates))

    def differing(self, similarity: Array) -> Array:
        """The number of differing values of each estimate, uint16[n]; of 0 the least of which that is the estimate."""
        return (-self.estimates).searchsorted(-similarity).astype(np.uint16)

    def most_differing(self, least: float | None) -> int:
        """The largest number of differing values of which the estimate is `least` or more, -1 where none is."""
        return self.values if least is None else int(np.count_nonzero(self.estimates >= np.float32(least))) - 1

    def standard_error(self, similarity: float) -> float:
        """That of an estimate where the Jaccard similarity is this one."""
        chance = 2.0**-self.bits
        agree = similarity + (1 - similarity) * chance
        return float((agree * (1 - agree) / self.values) ** 0.5 / (1 - chance))


@functools.cache
def _shape(values: int, bits: int) -> SketchShape:
    """With the estimate for each number of values that differ."""
    return SketchShape(values, bits, _estimates(values, bits))


@functools.cache
def _estimates(values: int, bits: int) -> Array:
    chance = 2.0**-bits
    agreeing = (values - np.arange(values + 1)) / values
    return np.maximum((agreeing - chance) / (1 - chance), 0.0).astype(np.float32)


def bits_for(values: int) -> int:
    """How many bits of each of so many values are kept."""
    return next((bits for bits in WIDTHS if bits * values <= MAX_BITS), 1)
