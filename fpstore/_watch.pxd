# What the compiled modules share of a watch.
from libc.stdint cimport int64_t, uint64_t

from fpstore._view cimport MappedWords


cdef class Watch:
    cdef MappedWords words
    cdef bint sure, ended
    cdef uint64_t first, second
    cdef int64_t until_ns
    cdef object generation
    cdef bint holds_now(self) except -1
