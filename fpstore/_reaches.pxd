# What single queries use of the radii that they are looked for within.
from libc.stdint cimport uint64_t


cdef enum:
    MAX_RADII = 16


cdef class Reaches:
    cdef readonly tuple radii
    cdef readonly list lookups
    cdef readonly bint whole
    cdef public bint read
    cdef readonly uint64_t scanned
    cdef double shares[MAX_RADII]
    cdef unsigned ends[MAX_RADII]
    cdef unsigned counts[MAX_RADII + 1]
    cdef int next_of[MAX_RADII + 1]
    cdef unsigned total
    cdef object made_of  # the segments that they are of, once any was looked up, as `parts`
    cdef const void *parts[MAX_RADII]
    cdef int count
    cdef int choose(self) except -1
    cdef bint reads(self, uint64_t count, scanned) except -1
    cdef int told(self, unsigned distance, unsigned times) except -1
