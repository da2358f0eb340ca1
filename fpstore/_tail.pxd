# What the compiled modules share of the end of a log.
from libc.stdint cimport uint32_t, uint64_t

from fpstore._native cimport Moved, Tree, Value
from fpstore._pending cimport PendingIndex
from fpstore._watch cimport MappedWords


cdef class Places:
    cdef bytes state, changes
    cdef uint32_t state_checksum, changes_checksum
    cdef uint64_t records
    cdef uint32_t of_change(self, uint64_t number)


cdef class Tail:
    cdef readonly MappedWords words
    cdef Tree tree
    cdef readonly uint64_t next_page, ready_pages, wanted_pages
    cdef bint follow_now(self, Places places, uint64_t transaction, tuple around, uint64_t first_change, uint64_t next_change,
                         PendingIndex pending, uint64_t live_since, Moved *found) except -1
    cdef void expect_more(self, uint64_t transaction)
    cdef bint is_unready(self)
    cdef void make_ready(self)
    cdef bint append(self, Places places, uint64_t root, uint64_t transaction, uint64_t first, uint64_t end,
                     PendingIndex pending, uint64_t live_since) except -1
    cdef bint tree_of(self, uint64_t root, bytes name, uint64_t *own, uint64_t *entries)
    cdef bint find(self, uint64_t root, uint64_t number, Value *value)
    cdef bint stands(self, uint64_t transaction)
