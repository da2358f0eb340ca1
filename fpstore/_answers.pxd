# What the compiled modules share of answers.
from libc.stdint cimport uint64_t

cdef object NDARRAY, INT64, UINT64, UINT16


cdef class Columns:
    cdef tuple columns
    cdef bytes rows
    cdef bint is_one  # of one row, which is here, and no words
    cdef uint64_t fingerprint, id
    cdef unsigned distance
    cdef unsigned words
    cdef bint signed, with_ids, named
    cdef public object _recipe, _method
    cdef bytes row(self)
    cdef tuple of_rows(self)


cdef class Answers:
    cdef object kind, recipe
    cdef unsigned words
    cdef bint with_ids, named
    cdef bint again  # an object of this kind has nothing but what Columns has
    cdef Columns last  # the last one of one row that was made
    cdef Columns filled(self, Columns made, bint signed, object method)
    cdef Columns made(self, bint signed, object method)
    cdef object of(self, bytes rows, bint signed, object method)
    cdef object of_one(self, uint64_t fingerprint, uint64_t id, unsigned distance, bint signed, object method)
