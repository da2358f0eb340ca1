# What the compiled modules share: a mapped segment and how its failures are raised.
from libc.stdint cimport uint64_t

from fpstore._native cimport Guard, Pages, Status, Table
from fpstore._source cimport Lying


cdef class SegmentView:
    cdef Py_buffer buffer
    cdef Guard *guard
    cdef Pages pages
    cdef Table **tables
    cdef readonly int table_count
    cdef readonly unsigned bits
    cdef readonly bint closed
    cdef readonly int users
    cdef int main_users
    cdef Lying lying
    cdef int enter(self) except -1
    cdef void leave(self)
    cdef void free(self)
    cdef void clear_seen(self, uint64_t first, uint64_t end)


cdef class Flipped:
    cdef Table *copies
    cdef Table **tables


cdef class MappedWords:
    cdef Py_buffer buffer
    cdef Guard *guard
    cdef const uint64_t *first
    cdef const uint64_t *second
    cdef bint are(self, uint64_t first, uint64_t second)
    cpdef tuple read(self)
    cdef uint64_t newest(self)


# Whether what was read of a view since it was entered may be believed.
cdef bint is_sound(SegmentView view)
cdef int raise_status(Status status, SegmentView view, str where) except -1
