# What the compiled modules share of the ids of a segment.
from libc.stdint cimport uint64_t

from fpstore._native cimport Ids
from fpstore._view cimport SegmentView


cdef class IdColumn:
    cdef SegmentView view
    cdef Ids ids
    cdef int find_ranges(self, const uint64_t[::1] fingerprints, uint64_t[::1] first, uint64_t[::1] count) except -1
    cdef object values_of(self, const uint64_t[::1] first, const uint64_t[::1] count, counts)
