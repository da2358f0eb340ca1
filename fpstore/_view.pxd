# What the compiled modules share: a mapped segment and how its failures are raised.
from libc.stdint cimport uint8_t, uint64_t

from fpstore._native cimport (
    Chunk,
    ChunkCode,
    Cursor,
    Guard,
    Pages,
    Status,
    Table,
    guard_ask,
    guard_changed,
    guard_lost,
)
from fpstore._source cimport Lying

cdef class SegmentView:
    cdef Py_buffer buffer
    cdef Guard *guard
    cdef Pages pages
    cdef Table **tables
    cdef readonly int table_count
    cdef readonly unsigned bits
    cdef readonly dict traces  # (traces uint16[n], starts uint32[slots + 1]) of each table of which they were noted
    cdef readonly bint closed
    cdef readonly int users
    cdef int main_users
    cdef Lying lying
    cdef const uint8_t[::1] sums
    cdef int enter(self) except -1
    cdef void leave(self)
    cdef void free(self)
    cdef void clear_seen(self, uint64_t first, uint64_t end)


cdef class DecodeRoom:
    cdef Chunk *chunk
    cdef uint64_t cursors, ready  # the numbers of cursors: the last one's, and that of the one that it decodes for
    cdef public object keys


cdef class TableCursor:
    cdef SegmentView view
    cdef const Table *table
    cdef Cursor cursor
    cdef ChunkCode *code  # what the room's chunk needs to know, once it has been asked for
    cdef DecodeRoom room
    cdef uint64_t number
    cdef readonly str where
    cdef int take_room(self) except -1
    cdef uint64_t decode(self, uint64_t *out, uint64_t room) except? 0


cdef class Flipped:
    cdef Table *copies
    cdef Table **tables


cdef inline void enter_open(SegmentView view, bint main):
    # One that is not closed; main: by the main thread. It does not go before leave_open() of the same thread.
    view.users += 1
    view.main_users += main
    guard_ask(view.guard)


cdef inline bint is_sound(SegmentView view):
    # Whether what was read of a view since it was entered may be believed. In this order, as in raise_status.
    cdef bint changed = guard_changed(view.guard)
    return not guard_lost(view.guard) and not changed


cdef inline void leave_open(SegmentView view, bint main):
    view.users -= 1
    view.main_users -= main
    if view.closed and view.users == 0:
        view.free()


cdef int raise_status(Status status, SegmentView view, str where) except -1
