"""Joins of sorted keys: the inner loop of finding all pairs. Which joins there are to make is pairs.py's to know."""

cimport cython
from libc.stdint cimport uint64_t
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
        uint64_t right_count
        int same
        Pair *out
        uint64_t room
        uint64_t found
        uint64_t i
    void join_run(JoinState *join)

join_choose(fpstore_is_fast())


cdef class Join:
    """Pairs (one key of left, one of right) of a table within `distance` that this table is the first to catch.

    left, right: sorted keys of table (uint64[n]), the same array to join it with itself. window_bits: keys are compared
    with those that share their top window_bits bits up to `flips` (a mask in those bits).
    """

    cdef JoinState state
    cdef SegmentView view
    cdef object left, right

    def __cinit__(self, SegmentView view not None, unsigned table, const uint64_t[::1] left not None,
                  const uint64_t[::1] right not None, unsigned distance, unsigned window_bits, uint64_t flips):
        if table >= <unsigned>view.table_count or window_bits > 64:
            raise ValueError(f"table {table}, window of {window_bits} bits: the segment has {view.table_count} tables of 64")
        memset(&self.state, 0, cython.sizeof(JoinState))
        self.view, self.left, self.right = view, left, right
        self.state.tables = view.tables
        self.state.table = table
        self.state.distance = distance
        self.state.window_bits = window_bits
        self.state.flips = flips
        self.state.left_count = <uint64_t>left.shape[0]
        self.state.right_count = <uint64_t>right.shape[0]
        if left.shape[0] > 0 and right.shape[0] > 0:
            self.state.left = &left[0]
            self.state.right = &right[0]
            self.state.same = self.state.left == self.state.right
        else:
            self.state.left_count = 0

    @property
    def done(self):
        """Whether all pairs have been returned."""
        return self.state.i >= self.state.left_count

    @property
    def position(self):
        """How many keys of left are done with."""
        return self.state.i

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
        """The pairs of the next stretch of work, uint64[up to room, 3]: smaller fingerprint, larger one, distance."""
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
