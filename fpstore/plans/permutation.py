"""A table's permutation: which fingerprint bits come to the top of its keys, and the way back.

The bits themselves are moved by `_codec`; this module gives the two directions as functions of arrays.
"""

from dataclasses import dataclass, field

import numpy as np

from fpstore._codec import BitPermutation
from fpstore.format import KEY_BITS
from fpstore.types import Keys


@dataclass(frozen=True)
class Permutation:
    """Brings the bits of prefix_mask to the top of a key of so many bits, in their order; the others follow, in theirs.

    Paper, section 3: each table is the fingerprints under a permutation that puts chosen bit
    positions first, sorted.
    """

    prefix_mask: int
    bits: int = KEY_BITS
    _bits: BitPermutation = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.prefix_mask < 1 << self.bits:
            raise ValueError(f"prefix mask: found {self.prefix_mask:#x}, expected {self.bits} bits")
        object.__setattr__(self, "_bits", BitPermutation(self.prefix_mask, self.bits))

    @property
    def prefix_bits(self) -> int:
        """How many bits come to the top."""
        return self.prefix_mask.bit_count()

    @property
    def is_identity(self) -> bool:
        """Whether the chosen bits are at the top already."""
        return self.prefix_mask == ((1 << self.bits) - 1) & ~((1 << (self.bits - self.prefix_bits)) - 1)

    def apply(self, fingerprints: Keys, out: Keys | None = None) -> Keys:
        """The keys of fingerprints (uint64[n]), in a new array or in out, which may be fingerprints itself."""
        keys = np.empty_like(fingerprints) if out is None else out
        self._bits.apply(fingerprints, keys)
        return keys

    def invert(self, keys: Keys, out: Keys | None = None) -> Keys:
        """The fingerprints of keys (uint64[n]), in a new array or in out, which may be keys itself."""
        fingerprints = np.empty_like(keys) if out is None else out
        self._bits.invert(keys, fingerprints)
        return fingerprints
