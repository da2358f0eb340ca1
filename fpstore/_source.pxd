# What a mapped segment knows of the place where its bytes lie.
from libc.stdint cimport uint64_t

from fpstore._native cimport Source, SourceFile


# Whether this is the main thread: only in that one signals' handlers run.
cdef bint is_main() noexcept


cdef class PageSource:
    cdef Source *source
    cdef readonly bint closed
    cdef list files
    cdef Lying add(self, str url, uint64_t checked_bytes, uint64_t sums_offset, uint64_t sums_bytes)


cdef class Lying:
    cdef SourceFile file
    cdef PageSource source
    cdef str url
    cdef object failure
    cdef uint64_t checked_bytes, pages, sums_offset, sums_bytes
    cdef object why(self)
