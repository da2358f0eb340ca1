# What the compiled modules share of what a search finds, and of the ids of a segment.
from libc.stdint cimport uint64_t

from fpstore._native cimport Ids, Match, Search
from fpstore._view cimport SegmentView


cdef class IdColumn:
    cdef SegmentView view
    cdef Ids ids
    cdef int find_ranges(self, const uint64_t[::1] fingerprints, uint64_t[::1] first, uint64_t[::1] count) except -1
    cdef object values_of(self, const uint64_t[::1] first, const uint64_t[::1] count, counts)


# The matches of a search as columns: query int64[r], fingerprint uint64[r], distance uint16[r].
cdef tuple columns_of(const Search *state)
# A Match for each query, which stands before what is asked for; to be freed. NULL where bits is None.
cdef Match *after_each(bits, fingerprints, uint64_t count) except? NULL
