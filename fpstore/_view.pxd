# What the compiled modules share: a mapped segment and how its failures are raised.
from fpstore._native cimport Guard, Pages, Status, Table


cdef class SegmentView:
    cdef Py_buffer buffer
    cdef Guard *guard
    cdef Pages pages
    cdef Table **tables
    cdef readonly int table_count
    cdef readonly bint closed
    cdef readonly int users
    cdef int enter(self) except -1
    cdef void leave(self)
    cdef void free(self)


cdef int raise_status(Status status, SegmentView view, str where) except -1
