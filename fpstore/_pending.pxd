# What the compiled modules share of the rows in memory.
from libc.stdint cimport uint64_t

from fpstore._native cimport Pending, PendingSearch


cdef class PendingIndex:
    cdef Pending pending
    cdef object lock, masks, flips
    cdef readonly bint with_ids
    cdef readonly unsigned bits
    cdef int begin(self, PendingSearch *state, const uint64_t[::1] queries, unsigned distance, uint64_t end) except -1
    cdef int check_keys(self, const uint64_t[::1] keys, str what) except -1
    cdef int check_end(self, uint64_t end) except -1
