# What the compiled modules share of one who follows additions.
from libc.stdint cimport uint64_t

from fpstore._pending cimport PendingIndex
from fpstore._tail cimport Places, Tail
from fpstore._watch cimport Watch


cdef class Following:
    cdef object lock, is_owned, latest, of_latest, max_id
    cdef Places places
    cdef Tail tail
    cdef readonly object single
    cdef public object stamp
    cdef tuple around
    cdef PendingIndex pending
    cdef uint64_t pending_end, transaction, first_change, next_change, live_since
    cdef bint is_ahead, is_unready
    cpdef bint read(self, tuple stamp) except -1
    cdef bint follow_now(self, Watch watch) except -1
    cdef void make_ready(self)
    cdef bint has(self, single) except -1
    cdef object own(self)
    cdef object answering(self)
