# What the compiled modules share of one who follows additions.
from libc.stdint cimport uint64_t

from fpstore._pending cimport PendingIndex
from fpstore._watch cimport Watch


cdef class Following:
    cdef object lock, places, latest, tail, max_id
    cdef readonly object single
    cdef public object stamp
    cdef tuple around
    cdef PendingIndex pending
    cdef uint64_t pending_end, transaction, first_change, next_change, live_since
    cdef bint is_ahead
    cdef bint follow_now(self, Watch watch) except -1
    cdef bint has(self, single) except -1
