# What the compiled modules share of a watch.
from libc.stdint cimport int64_t, uint64_t

from fpstore._native cimport Guard


cdef enum:
    MOST_PLACES = 4


cdef struct Place:
    # A name in a folder that is held open, or a path, and the file that is to be there.
    int folder, flags
    const char *name
    uint64_t device, inode


cdef class MappedWords:
    cdef Py_buffer buffer
    cdef Guard *guard
    cdef const uint64_t *first
    cdef const uint64_t *second
    cdef bint are(self, uint64_t first, uint64_t second)
    cpdef tuple read(self)
    cdef uint64_t newest(self)


cdef class Watch:
    cdef MappedWords words
    cdef bint sure, ended
    cdef uint64_t first, second
    cdef int64_t until_ns, again_ns
    cdef Place places[MOST_PLACES]
    cdef tuple names
    cdef int place_count
    cdef uint64_t generation
    cdef object following
    cpdef tuple overtaken(self)
    cpdef int go_on(self, tuple stamp) except -1
    cdef bint holds_now(self) except -1
    cdef bint may_hold(self) except -1
    cdef bint in_place(self) except -1
    cdef bint stays(self) except -1
