"""What a document and others have in common: how many shingles, or the sum of the products of their weights.

All others in one call, without the lock; the kernel is C (fpstore/native/alike.c).
"""

from libc.stdint cimport uint8_t, uint64_t

import numpy as np

from fpstore._native cimport Shingles, c_common_counts, c_common_products


cdef int read_shingles(features, Shingles *found) except -1:
    """Where the features of a document are, for as long as they live."""
    cdef const uint64_t[::1] hashes
    cdef const double[::1] weights
    hashes, weights = features
    if hashes.shape[0] != weights.shape[0]:
        raise ValueError(f"features: found {hashes.shape[0]} hashes with {weights.shape[0]} weights, expected as many")
    found.count = <uint64_t>hashes.shape[0]
    found.hashes = &hashes[0] if found.count else NULL
    found.weights = &weights[0] if found.count else NULL
    return 0


cdef common(document, list others, bint weighed):
    """Of each of others the two halves of what it has in common with a document; those of a number in the second."""
    cdef uint64_t count = <uint64_t>len(others), i
    cdef Shingles own
    cdef Shingles *column
    cdef uint64_t[::1] high, low
    cdef uint8_t[::1] room = np.empty(sizeof(Shingles) * (count + 1), dtype=np.uint8)
    column = <Shingles *>&room[0]
    highs, lows = np.zeros(count + 1, dtype=np.uint64), np.zeros(count + 1, dtype=np.uint64)
    high, low = highs, lows
    read_shingles(document, &own)
    for i in range(count):
        read_shingles(others[i], &column[i])
    with nogil:
        if weighed:
            c_common_products(&own, column, count, &high[0], &low[0])
        else:
            c_common_counts(&own, column, count, &low[0])
    return highs[:count].tolist(), lows[:count].tolist()


def common_counts(document not None, list others not None):
    """How many shingles a document has in common with each of others: a list of ints.

    Each is fpstore.text.recipe.Features: hashes uint64[m], strictly increasing, and weights float64[m]. ValueError
    where these differ in length.
    """
    return common(document, others, False)[1]


def common_products(document not None, list others not None):
    """The sum of the products of the weights of what a document has in common with each of others, in units of 2^-32.

    A list of ints, exact as long as weights are whole multiples of 2^-16. The rest is as for common_counts.
    """
    highs, lows = common(document, others, True)
    return [high << 64 | low for high, low in zip(highs, lows)]
