# What the compiled modules share: a mapped segment and how its failures are raised.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "view.h" nogil:
    ctypedef enum Status:
        OK
        NO_MEMORY
        BAD_PAGE
        BAD_DIRECTORY
        BAD_BLOCK
    ctypedef struct Permutation:
        uint64_t prefix_mask
        unsigned prefix_bits
    ctypedef struct Pages:
        const uint8_t *base
        uint64_t checked_bytes
        const uint8_t *checksums
        uint64_t checksums_bytes
        const uint8_t *roots
        uint64_t *seen
        uint64_t pages
        uint64_t bad_page_offset
    ctypedef struct Table:
        Permutation permutation
        int codec
        unsigned slot_bits
        unsigned rice_bits
        unsigned flips
        uint64_t payload_offset
        uint64_t payload_bits
        uint64_t directory_offset
        uint64_t fences_offset
        uint64_t fence_count
        uint16_t decode[4096]
    ctypedef struct Block:
        uint64_t start
        uint64_t end
        uint64_t previous
        uint16_t first_of_slot

cdef extern from "guard.h" nogil:
    ctypedef struct Guard:
        pass


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
