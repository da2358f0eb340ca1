"""What the core computes without any text: the sign of the sums of weighted hashes, and hashes of bytes."""

from libc.math cimport llrint
from libc.stdint cimport uint8_t, uint64_t

from fpstore._native cimport MAX_WORDS, WEIGHT_ONE, WORD_BITS, Sums, add_weighted, c_xxh3, c_xxh64, signs, sums_clear, word_of

# Whether a bit is set of which what has it weighs as much as what has not.
TIES = {"clear": 0, "set": 1}

_MAX_WEIGHT = float(1 << 46)  # sums stay below 2^63 as long as those of the weights' sizes stay below


cdef int tie_of(tie) except -1:
    if tie not in TIES:
        raise ValueError(f"tie: found {tie!r}, expected {' or '.join(TIES)}")
    return TIES[tie]


cdef unsigned words_of(bits) except 0:
    """How many words a fingerprint of so many bits has. ValueError for what is no number of them."""
    if bits not in range(WORD_BITS, MAX_WORDS * WORD_BITS + 1, WORD_BITS):
        raise ValueError(f"bits: found {bits}, expected {WORD_BITS} to {MAX_WORDS * WORD_BITS}, a multiple of {WORD_BITS}")
    return bits // WORD_BITS


def simhash_of(const uint64_t[::1] hashes not None, const double[::1] weights not None, tie="clear", bits=WORD_BITS):
    """The fingerprint of features: a bit is set if what has it weighs more than what has not, or with tie set as much.

    hashes: uint64[m]. weights: float64[m] of any sign, kept to 2^-16, of which the sizes together are below 2^46.
    bits: of the fingerprint, a multiple of 64 up to 256; those beyond 64 are of the further words of each hash.
    Raises ValueError for lengths that differ, for weights that are larger or not finite, for an unknown tie, and for
    other bits.
    """
    cdef int tied = tie_of(tie)
    cdef unsigned word, words = words_of(bits)
    cdef Sums sums
    cdef double size = 0
    cdef Py_ssize_t i
    if len(hashes) != len(weights):
        raise ValueError(f"found {len(hashes)} hashes with {len(weights)} weights, expected as many")
    for i in range(len(weights)):
        size += abs(weights[i])
    if not size < _MAX_WEIGHT:
        raise ValueError(f"weights: found {size} in all, expected less than 2^46")
    sums_clear(&sums, words)
    for i in range(len(hashes)):
        add_weighted(&sums, hashes[i], llrint(weights[i] * WEIGHT_ONE), words)
    return sum([<object>signs(&sums, tied, word) << WORD_BITS * word for word in range(words)])


def widened(uint64_t hash, bits):
    """What a hash stands for as a fingerprint of so many bits, as an int: its words, of which it is the lowest."""
    cdef unsigned word
    return sum([<object>word_of(hash, word) << WORD_BITS * word for word in range(words_of(bits))])


def xxh3(const uint8_t[::1] data not None):
    """XXH3 64 with seed 0 of data, as an int 0..2**64 - 1."""
    return c_xxh3(&data[0] if len(data) else NULL, len(data))


def xxh64(const uint8_t[::1] data not None):
    """XXH64 with seed 0 of data, as an int 0..2**64 - 1."""
    return c_xxh64(&data[0] if len(data) else NULL, len(data))
