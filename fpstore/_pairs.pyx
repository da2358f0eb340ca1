"""Joins of sorted keys: the inner loop of finding all pairs, and of large batches of queries.

Which joins there are to make is joins.py's to know.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from fpstore._view cimport SegmentView, Table

cdef extern from "pairs.h" nogil:
    int fpstore_is_fast()
    void join_choose(int fast)
    ctypedef struct Pair:
        uint64_t first
        uint64_t second
        uint64_t distance
    ctypedef struct JoinState "Join":
        Table **tables
        unsigned table
        unsigned distance
        unsigned window_bits
        uint64_t flips
        const uint64_t *left
        const uint64_t *right
        uint64_t left_count
        const uint32_t *left_starts
        const uint32_t *right_starts
        uint64_t left_first
        uint64_t right_first
        uint64_t window_count
        Pair *out
        uint64_t room
        uint64_t found
        uint64_t window
        uint64_t i
    void join_run(JoinState *join)
    void windows_find(const uint64_t *keys, uint64_t key_count, unsigned window_bits, uint64_t first_window, uint64_t count,
                      uint32_t *starts)

join_choose(fpstore_is_fast())


cdef class Windows:
    """Sorted keys, and where among them each window starts: the keys that share their top window_bits bits.

    keys: uint64[n], n below 2^32, all of them in the `count` windows from first_window on: an aligned range, count a power
    of two.
    """

    cdef readonly object keys
    cdef const uint64_t[::1] view
    cdef uint32_t[::1] starts
    cdef unsigned window_bits
    cdef uint64_t first_window, count

    def __cinit__(self, const uint64_t[::1] keys not None, unsigned window_bits, uint64_t first_window, uint64_t count):
        cdef uint64_t n = <uint64_t>keys.shape[0]
        if (window_bits > 63 or n >> 32 or count == 0 or count & (count - 1) or first_window & (count - 1)
                or first_window >> window_bits or count > <uint64_t>1 << window_bits):
            raise ValueError(f"{n} keys, windows {first_window} to {first_window + count} of {window_bits} bits")
        if n > 0 and window_bits > 0 and (keys[0] >> (64 - window_bits) < first_window
                                          or keys[n - 1] >> (64 - window_bits) >= first_window + count):
            raise ValueError(f"keys outside windows {first_window} to {first_window + count} of {window_bits} bits")
        self.keys, self.view = keys, keys
        self.window_bits, self.first_window, self.count = window_bits, first_window, count
        self.starts = np.empty(count + 1, dtype=np.uint32)
        with nogil:
            windows_find(&keys[0] if n > 0 else NULL, n, window_bits, first_window, count, &self.starts[0])


cdef class Join:
    """Pairs (a key of left, a key of right) of a table within `distance` that this table is the first to catch.

    left: the Windows of the same set, for pairs of stored fingerprints, each once, the smaller first; without flips, right
    itself. Or queries: sorted keys under the table's permutation (uint64[n]), which come first in their pairs. Keys are
    compared with those of right whose window differs from their own by `flips` (a mask in the top bits of a key).
    """

    cdef JoinState state
    cdef SegmentView view
    cdef Windows right
    cdef object left

    def __cinit__(self, SegmentView view not None, unsigned table, left not None, Windows right not None, unsigned distance,
                  uint64_t flips):
        cdef Windows own
        cdef const uint64_t[::1] keys
        cdef unsigned shift = 64 - right.window_bits
        if table >= <unsigned>view.table_count:
            raise ValueError(f"table {table}: the segment has {view.table_count}")
        if shift == 64 and flips != 0 or shift < 64 and flips & ((<uint64_t>1 << shift) - 1):
            raise ValueError(f"flips {flips:#x}: expected bits among the top {right.window_bits}")
        memset(&self.state, 0, cython.sizeof(JoinState))
        self.view, self.left, self.right = view, left, right
        self.state.tables = view.tables
        self.state.table = table
        self.state.distance = distance
        self.state.window_bits = right.window_bits
        self.state.flips = flips
        self.state.right_starts = &right.starts[0]
        self.state.right_first = right.first_window
        if isinstance(left, Windows):
            own = left
            if own.window_bits != right.window_bits or own.count != right.count or (flips == 0 and own is not right):
                raise ValueError("pairs are of windows of one size, and without flips of windows with themselves")
            if own.first_window ^ (flips >> 1 >> (shift - 1)) & ~(own.count - 1) != right.first_window:
                raise ValueError(f"flips {flips:#x} do not lead from windows {own.first_window} to {right.first_window}")
            keys = own.view
            self.state.left_starts = &own.starts[0]
            self.state.left_first = own.first_window
            self.state.window_count = own.count
        else:
            keys = left
        if keys.shape[0] == 0 or right.view.shape[0] == 0:
            self.state.window_count = 0
            return
        self.state.left = &keys[0]
        self.state.right = &right.view[0]
        self.state.left_count = <uint64_t>keys.shape[0]
        # Sorted keys of one aligned range, flipped, are of one aligned range: the ends tell for all.
        if shift < 64 and not (self.holds((keys[0] ^ flips) >> shift) and self.holds((keys[keys.shape[0] - 1] ^ flips) >> shift)):
            raise ValueError(f"left, flipped, leaves windows {right.first_window} to {right.first_window + right.count}")

    cdef bint holds(self, uint64_t window):
        return self.right.first_window <= window and window - self.right.first_window < self.right.count

    @property
    def done(self):
        """Whether all pairs have been returned."""
        if self.state.left_starts != NULL:
            return self.state.window >= self.state.window_count
        return self.state.i >= self.state.left_count

    def count(self):
        """How many more pairs there are in the next stretch of work; advances as next does."""
        self.state.out = NULL
        self.state.room = <uint64_t>-1
        self.state.found = 0
        self.view.enter()
        try:
            with nogil:
                join_run(&self.state)
        finally:
            self.view.leave()
        return self.state.found

    def next(self, Py_ssize_t room=1 << 16):
        """The pairs of the next stretch of work, uint64[up to room, 3]: two fingerprints and their distance."""
        cdef uint64_t[:, ::1] out
        result = np.empty((room, 3), dtype=np.uint64)
        if room < 1:
            raise ValueError(f"room for {room} pairs: expected 1 or more")
        out = result
        self.state.out = <Pair *>&out[0, 0]
        self.state.room = <uint64_t>room
        self.state.found = 0
        self.view.enter()
        try:
            with nogil:
                join_run(&self.state)
        finally:
            self.view.leave()
        return result[:self.state.found]
