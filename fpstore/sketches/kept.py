"""What is kept of a signature to estimate by: a few bits of each value, packed, and the estimate of two of them.

Li and Koenig, b-Bit Minwise Hashing (WWW 2010): of two values that differ, b bits of their hashes agree once in 2^b.
"""

import numpy as np

from fpstore.errors import Wrong
from fpstore.types import Array, Keys

# Of a signature so many bits are kept, or fewer: 288 values of one bit have the error of 128 whole ones.
MAX_BITS = 288
WORD_BITS = 64
WIDTHS = (32, 16, 8, 4, 2, 1)
# The bits of a value's hash: its product with 2^64 divided by the golden ratio, from the highest on.
FACTOR = np.uint64(0x9E3779B97F4A7C15)
PAIRS_AT_ONCE = 1 << 14


class Kept:
    """How many bits are kept of each of so many values. words: uint64 that a sketch takes."""

    def __init__(self, values: int, bits: int) -> None:
        if bits not in WIDTHS:
            raise Wrong("bits of a value", f"{bits}", f"one of {', '.join(map(str, WIDTHS))}")
        self.values, self.bits = values, bits
        self._each = WORD_BITS // bits
        self.words = -(-values // self._each)
        chance = 2.0**-bits
        shares = ((values - np.arange(values + 1)) / values - chance) / (1 - chance)
        # Of two sketches that differ in so many values: float32[values + 1], from 1 down, then 0.
        self.estimates: Array = np.maximum(shares, 0.0).astype(np.float32)
        # The least number of differing values that says nothing any more.
        self.farthest = int(np.count_nonzero(self.estimates))

    def sketches(self, signatures: Array) -> Keys:
        """What is kept of each signature: uint64[n, words], of integers[n, values]; value 0 in the lowest bits."""
        kept = np.zeros((len(signatures), self.words * self._each), dtype=np.uint64)
        kept[:, : self.values] = signatures
        kept *= FACTOR
        kept >>= np.uint64(WORD_BITS - self.bits)
        placed = kept.reshape(len(signatures), self.words, self._each)
        placed <<= np.arange(self._each, dtype=np.uint64) * np.uint64(self.bits)
        words: Keys = np.bitwise_or.reduce(placed, axis=2)
        return words

    def similarity(self, one: Keys, other: Keys) -> Array:
        """The estimated Jaccard similarity of each two sketches, uint64[n, words] both: float32[n]."""
        found = np.empty(len(one), dtype=np.float32)
        for start in range(0, len(one), PAIRS_AT_ONCE):
            piece = slice(start, start + PAIRS_AT_ONCE)
            found[piece] = self._similarity(one[piece], other[piece])
        return found

    def _similarity(self, one: Keys, other: Keys) -> Array:
        apart = one ^ other
        shift = 1
        while shift < self.bits:
            apart |= apart >> np.uint64(shift)
            shift *= 2
        if self.bits > 1:  # the lowest bit of each value tells whether any differs
            apart &= np.uint64(sum(1 << at for at in range(0, WORD_BITS, self.bits)))
        differing = np.bitwise_count(apart).sum(axis=1, dtype=np.int64)
        found: Array = self.estimates[differing]
        return found

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


def bits_for(values: int) -> int:
    """How many bits of each of so many values are kept."""
    return next((bits for bits in WIDTHS if bits * values <= MAX_BITS), 1)
