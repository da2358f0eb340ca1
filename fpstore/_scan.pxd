# Memory for looks at every key, for who makes them in other calls.
from libc.stdint cimport uint64_t

from fpstore._native cimport Chunk


cdef class Scanner:
    cdef Chunk *chunk
    cdef uint64_t *room
