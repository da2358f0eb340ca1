# What the compiled modules share of single queries.
from libc.stdint cimport uint64_t

from fpstore._answers cimport Answers
from fpstore._native cimport FoundRows, Part, ScanRoom, Sources
from fpstore._pending cimport PendingIndex
from fpstore._reaches cimport Reaches
from fpstore._scan cimport Scanner
from fpstore._watch cimport Watch


cdef enum:
    MOST_ROWS = 4096  # more are another answer than a single query mostly has
    FEW_ROWS = 64  # where the first are wanted, what reads no others is as fast from here on

cdef bint enter_all(tuple views) except -1
cdef bint leave_all(tuple views) except -1
cdef bint is_newest(Watch watch, single) except -1


cdef class Segments:
    cdef readonly tuple made_of
    cdef readonly dict reaches
    cdef dict others
    cdef Reaches recent
    cdef unsigned recent_distance, recent_count
    cdef uint64_t key_count
    cdef tuple views, ids
    cdef list flipped
    cdef Part *parts
    cdef unsigned part_count
    cdef bint is_here  # none of them lies elsewhere
    cdef Reaches reaches_of(self, unsigned distance, unsigned count)
    cdef Segments looked_up(self, tuple flips)
    cdef int take(self, Reaches reaches) except -1
    cdef int look_up(self, Reaches reaches, int at) except -1


cdef class Single:
    cdef readonly Segments segments
    cdef tuple views
    cdef PendingIndex pending
    cdef Sources sources
    cdef unsigned distance, most
    cdef int looks_up, scans
    cdef bint with_ids
    cdef object alive
    cdef Answers answers
    cdef list nothing
    cdef Single newest(self, Watch watch)
    cdef object nearest_row(self, uint64_t key, unsigned distance)
    cdef object first_rows(self, Watch watch, fingerprint, count, max_distance, bint signed, Reaches reaches, scanned)
    cdef object told(self, Reaches reaches, FoundRows *found, uint64_t count, bint signed, method=?)
    cdef bint search(self, const Part *parts, uint64_t key, unsigned distance, Scanner scanner, FoundRows *found) except -1
    cdef object found(self, uint64_t key, unsigned distance, uint64_t most, bint signed, bint first_only=?)
    cdef Scanner scanner(self, unsigned distance, ScanRoom *room)
    cdef bint enter(self, unsigned distance) except -1
    cdef bint leave(self) except -1
    cdef int keep_alive(self, FoundRows *found) except -1
    cdef object answer(self, FoundRows *found, bint signed, method=?)
    cdef bytes rows(self, FoundRows *found)
