# What the compiled modules share of the rows in memory.
from libc.stdint cimport uint64_t

from fpstore._native cimport Pending, PendingSearch


cdef class PendingIndex:
    cdef Pending pending
    cdef object lock, masks, flips
    cdef uint64_t compared
    cdef readonly uint64_t searched
    cdef readonly bint with_ids
    cdef readonly unsigned bits
    cdef int begin(self, PendingSearch *state, const uint64_t[::1] queries, unsigned distance, uint64_t end) except -1
    cdef int check_keys(self, const uint64_t[::1] keys, str what) except -1
    cdef int index(self) except -1
    cdef int compare(self, uint64_t end) except -1
    cdef int check_end(self, uint64_t end) except -1
    cdef bint has_room(self, uint64_t count, uint64_t position)
    cdef bint fit(self, const uint64_t *keys, uint64_t count)
    cdef int append_columns(self, const uint64_t *keys, const uint64_t *ids, uint64_t count, uint64_t position, uint64_t live_since) except -1
