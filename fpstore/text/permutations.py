"""Owns the permutations that a recipe of sketch `minhash` names: the factor and the term of each value of a signature.

A shingle's hash becomes, by the scheme of that name:

- `fpstore`: the hash h, of 64 bits, times 0x9E3779B97F4A7C15 modulo 2**64 is p, and q is the low half of p xor p >> 32.
  It falls into the bin q * values >> 32, and the value of a bin is the smallest p >> 33 in it. The value of a bin i
  into which no hash falls is 2**31 more than half, rounded down, of the smallest factor[i] * f + term[i] modulo 2**32,
  where f is the low half of h xor h >> 32. A factor is the low half of a number of SplitMix64 that begins with the
  `seed`, made odd, and its term the high half.
- `datasketch-affine32`: the low 32 bits of the hash, through the finalizer of MurmurHash3, times a factor plus a term,
  modulo 2**32. `datasketch-affine64`: the same of 64 bits. `datasketch-legacy`: the low 32 bits times a factor plus a
  term, modulo 2**64, then modulo 2**61 - 1, of which the low 32 bits. Factors and terms are those that datasketch 2
  draws from numpy's RandomState for its `seed`, and its own hash of a shingle is `sha1`.
- `rensa`: that of version 0.5, by its own hash, `fxhash`, and no other. Factors, made odd, and terms are by turns the
  numbers of xoshiro256++, whose state is of the SplitMix64 that begins with the `seed`. Let mix(x) be the first number
  of the SplitMix64 that begins with x. In rounds r = 0, 1 and 2 the hash h falls into one bin, with the value
  r * 2**30 + (m >> 34) of m = mix(h xor term[0] xor 0x6A09E667F3BCC909 xor r * 0x3C6EF372FE94F82B): that bin is
  (m mod 2**32) * values >> 32. Where (m mod 2**32) * values mod 2**32 is below 2**32 mod values, mix(m) tells the bin
  instead, or mix of that, and so on. Besides, 3 * 2**30 + ((factor[i] * m + term[i]) >> 34) falls into each bin i, of
  m = mix(h xor factor[0] xor 0xBB67AE8584CAA73B). The smallest of all in a bin is its value; all is modulo 2**64.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fpstore.text._signing import MOST_VALUES, Permutations

SCHEMES = ("fpstore", "datasketch-affine32", "datasketch-affine64", "datasketch-legacy", "rensa")
DEFAULT_VALUES = 128
# Of those whose seed is theirs alone, and not of the hash: that of datasketch is what RandomState takes.
SEED_BITS_OF_SCHEME = {"datasketch-affine32": 32, "datasketch-affine64": 32, "datasketch-legacy": 32, "rensa": 64}
HASH_OF_SCHEME = {"rensa": "fxhash"}  # of those that have one

_MERSENNE = (1 << 61) - 1
_WORD = (1 << 64) - 1
_Words = npt.NDArray[np.uint64]

__all__ = ["DEFAULT_VALUES", "HASH_OF_SCHEME", "MOST_VALUES", "SCHEMES", "SEED_BITS_OF_SCHEME", "permutations_of"]


@lru_cache(maxsize=16)
def permutations_of(scheme: str, values: int, seed: int) -> Permutations:
    """The permutations of this scheme, so many of them, by this seed."""
    if scheme == "fpstore":
        factors, terms = _of_splitmix(values, seed)
    elif scheme == "rensa":
        factors, terms = _of_xoshiro(values, seed)
    else:
        factors, terms = _of_datasketch(scheme, values, seed)
    return Permutations(scheme, np.ascontiguousarray(factors), np.ascontiguousarray(terms))


def _of_splitmix(values: int, seed: int) -> tuple[_Words, _Words]:
    """Successive numbers of SplitMix64, in halves."""
    numbers = _splitmix(values, seed)
    return numbers & np.uint64(0xFFFFFFFF) | np.uint64(1), numbers >> np.uint64(32)


def _splitmix(count: int, seed: int) -> _Words:
    """So many numbers of the SplitMix64 that begins with the seed (Steele, Lea and Flood, OOPSLA 2014)."""
    numbers = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers


def _of_xoshiro(values: int, seed: int) -> tuple[_Words, _Words]:
    """Successive numbers of xoshiro256++ (Blackman and Vigna, TOMS 2021), by turns."""
    a, b, c, d = (int(word) for word in _splitmix(4, seed))
    numbers = []
    for _ in range(2 * values):
        numbers.append(_rotated(a + d & _WORD, 23) + a & _WORD)
        shifted = b << 17 & _WORD
        c, d = c ^ a, d ^ b
        b, a = b ^ c, a ^ d
        c, d = c ^ shifted, _rotated(d, 45)
    found = np.array(numbers, dtype=np.uint64)
    return found[::2] | np.uint64(1), found[1::2]


def _rotated(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _WORD


def _of_datasketch(scheme: str, values: int, seed: int) -> tuple[_Words, _Words]:
    """What MinHash(num_perm=values, seed=seed, scheme=...) of datasketch 2 draws; of legacy, one pair after another."""
    # The numbers of RandomState for a seed never change (NEP 19).
    source = np.random.RandomState(seed)
    if scheme == "datasketch-legacy":
        draws = [source.randint(low, _MERSENNE, dtype=np.uint64) for _ in range(values) for low in (1, 0)]
        return np.array(draws[::2], dtype=np.uint64), np.array(draws[1::2], dtype=np.uint64)
    width, kind = (32, np.uint32) if scheme == "datasketch-affine32" else (64, np.uint64)
    factors = source.randint(0, 1 << (width - 1), values, dtype=kind).astype(np.uint64)
    terms = source.randint(0, 1 << width, values, dtype=kind).astype(np.uint64)
    return factors * np.uint64(2) + np.uint64(1), terms
