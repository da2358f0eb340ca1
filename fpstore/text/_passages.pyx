"""The passages in which texts differ from others, for whoever compares the shingles of both: fpstore/text/passages.py.

The rule is C (fpstore/native/passages.c), and holds no lock.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from fpstore._interpreter cimport comes, left
from fpstore._native cimport MOST_PASSAGES, Passage, passages_apart


cdef int expect_values(const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] indexes) except -1:
    """ValueError for offsets that do not increase, or lead out of data, and for indexes of none."""
    cdef Py_ssize_t i
    for i in range(indexes.shape[0]):
        if not 0 <= indexes[i] < offsets.shape[0] - 1:
            raise ValueError(f"index: found {indexes[i]}, expected one of {offsets.shape[0] - 1} values")
        if not 0 <= offsets[indexes[i]] <= offsets[indexes[i] + 1] <= data.shape[0]:
            raise ValueError(f"value {indexes[i]}: found one from {offsets[indexes[i]]} to {offsets[indexes[i] + 1]}, "
                             f"expected it in {data.shape[0]} bytes")
    return 0


cdef inline int64_t put(uint8_t *out, const uint8_t *text, uint64_t first, uint64_t end) noexcept nogil:
    memcpy(out, text + first, end - first)
    return <int64_t>(end - first)


def apart(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, const int64_t[::1] indexes not None,
          const uint8_t[::1] others not None, const int64_t[::1] other_offsets not None,
          const int64_t[::1] other_indexes not None, uint64_t tokens):
    """In which passages each text differs from another: the bytes of all passages, uint8[m], and where each begins.

    Text i is data[offsets[indexes[i]] : offsets[indexes[i] + 1]], UTF-8; the other likewise. tokens: as of passages.h.
    The passages of each text, then as many in place of them of the other; int64[passages + 1]; and how many of one text
    each has, int64[n], -1 where they are not told. Raises ValueError for values that are not there, and other lengths.
    """
    cdef uint64_t count = <uint64_t>indexes.shape[0], i, size = 0, total = 0, filled = 0
    cdef int64_t k, found
    cdef const uint8_t *text
    cdef const uint8_t *other
    cdef Passage *own
    cdef int64_t[::1] counts, ends
    cdef uint8_t[::1] room, out
    if other_indexes.shape[0] != indexes.shape[0]:
        raise ValueError(f"found {other_indexes.shape[0]} others, expected one of each of {indexes.shape[0]} texts")
    if tokens < 2:
        raise ValueError(f"tokens: found {tokens}, expected at least 2")
    expect_values(data, offsets, indexes)
    expect_values(others, other_offsets, other_indexes)
    numbers = np.zeros(count, dtype=np.int64)
    if not (count and data.shape[0] and others.shape[0]):
        numbers[:] = -1
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), numbers
    counts = numbers
    room = np.empty(count * MOST_PASSAGES * sizeof(Passage), dtype=np.uint8)
    own = <Passage *>&room[0]
    with nogil:
        left()
        for i in range(count):
            found = passages_apart(&data[0] + offsets[indexes[i]],
                                   <uint64_t>(offsets[indexes[i] + 1] - offsets[indexes[i]]),
                                   &others[0] + other_offsets[other_indexes[i]],
                                   <uint64_t>(other_offsets[other_indexes[i] + 1] - other_offsets[other_indexes[i]]),
                                   tokens, own)
            counts[i] = found
            for k in range(found):
                size += own[k].end - own[k].first + own[k].other_end - own[k].other_first
            if found > 0:
                own += found
                total += 2 * <uint64_t>found
        comes()
    places = np.zeros(total + 1, dtype=np.int64)
    # One byte more, so that there is an address where there is nothing.
    together = np.empty(size + 1, dtype=np.uint8)
    ends, out = places, together
    own = <Passage *>&room[0]
    with nogil:
        left()
        for i in range(count):
            text, other = &data[0] + offsets[indexes[i]], &others[0] + other_offsets[other_indexes[i]]
            for k in range(counts[i]):
                filled += 1
                ends[filled] = ends[filled - 1] + put(&out[ends[filled - 1]], text, own[k].first, own[k].end)
            for k in range(counts[i]):
                filled += 1
                ends[filled] = ends[filled - 1] + put(&out[ends[filled - 1]], other, own[k].other_first, own[k].other_end)
            if counts[i] > 0:
                own += counts[i]
        comes()
    return together[:size], places, numbers
