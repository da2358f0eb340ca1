"""Joins of sorted keys: the inner loops of finding all pairs, and of large batches of queries.

Which joins there are to make is for pairs.py and batch.py to know.
"""

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

import numpy as np

from fpstore._native cimport (
    JOIN_ROOM,
    KEYS_PAD,
    MAX_KEY_BITS,
    MAX_LANES,
    MIN_KEY_BITS,
    NEIGHBOUR_STEP,
    QUAD,
    ROW_BITS,
    Flip,
    FlipJoinState,
    Found,
    NeighbourJoin,
    QueryJoinState,
    Tile,
    flip_join_run,
    flip_of,
    fold_keys,
    neighbour_join_run,
    query_join_run,
    starts_append,
    window_of,
)
from fpstore._view cimport SegmentView

from fpstore._sort import sort_keys


cdef class Windows:
    """Sorted keys of a table and where among them each window starts: the keys that share their top window_bits bits.

    They are those of one chunk, an aligned range of keys with the same top split_bits bits; or of two, one behind the other,
    whose windows are numbered on. capacity: of how many keys, below 2^32, in all; both: whether there is room for a
    second chunk's windows; bits: of a key, more than a window's.
    """

    cdef uint64_t[::1] keys
    cdef uint32_t[::1] starts
    cdef unsigned window_bits, window_shift, chunk_bits
    cdef uint64_t capacity, count, last_window, chunk_first, first_count
    cdef unsigned chunk_count

    def __cinit__(self, unsigned window_bits, unsigned split_bits, uint64_t capacity, *, bint both=False,
                  unsigned bits=MAX_KEY_BITS):
        if not MIN_KEY_BITS <= bits <= MAX_KEY_BITS or window_bits >= bits:
            raise ValueError(f"windows of {window_bits} bits of keys of {bits}")
        if window_bits > 40 or split_bits > window_bits or capacity >> 32:
            raise ValueError(f"{capacity} keys in windows of {window_bits} bits, {split_bits} of them the chunk's")
        self.window_shift = bits - window_bits
        self.window_bits, self.chunk_bits, self.capacity = window_bits, window_bits - split_bits, capacity
        self.keys = np.empty(capacity + KEYS_PAD, dtype=np.uint64)
        self.starts = np.empty(self.index_count(1 + both) + 1 + QUAD, dtype=np.uint32)

    cdef uint64_t index_count(self, unsigned chunk_count):
        return max(<uint64_t>1 << ROW_BITS, <uint64_t>chunk_count << self.chunk_bits)

    def begin(self, uint64_t chunk, *, bint second=False):
        """The keys to be appended are those of this chunk, in place of what the windows hold, or of a second chunk."""
        if chunk >> (self.window_bits - self.chunk_bits):
            raise ValueError(f"chunk {chunk}: there are {1 << (self.window_bits - self.chunk_bits)}")
        if second:
            if self.chunk_count == 0 or <uint64_t>self.starts.shape[0] <= self.index_count(2):
                raise ValueError("a second chunk has no room, or no first one")
            if self.chunk_count == 1:
                self.finish()
                self.first_count = self.count
        self.chunk_count = 1 + second
        self.count = self.first_count if second else 0
        self.chunk_first = (chunk << self.chunk_bits) - (<uint64_t>second << self.chunk_bits)
        self.last_window = (<uint64_t>second << self.chunk_bits) - 1
        self.starts[self.last_window + 1:self.last_window + 1 + QUAD] = <uint32_t>self.count

    def append(self, const uint64_t[::1] keys not None):
        """Go on with these keys (uint64[n], sorted), ValueError where they do not belong to the chunk or have no room."""
        cdef uint64_t n = <uint64_t>keys.shape[0]
        if n == 0:
            return
        if self.chunk_count == 0 or n > self.capacity - self.count:
            raise ValueError(f"no room for {n} keys")
        if not (self.holds(keys[0], self.chunk_count - 1) and self.holds(keys[n - 1], self.chunk_count - 1)):
            raise ValueError("keys of another chunk")
        with nogil:
            if &keys[0] != &self.keys[self.count]:
                memcpy(&self.keys[self.count], &keys[0], 8 * n)
            starts_append(&self.starts[0], &self.last_window, &keys[0], n, self.count, self.window_shift, self.chunk_first)
        self.count += n

    def rest(self):
        """Where the next keys will lie, as many as there is room for (uint64[n]): what is put there append need not copy."""
        return np.asarray(self.keys)[self.count:self.capacity]

    def whole(self, uint64_t first, *, bint ended=False):
        """The keys from place `first` on, without those of the last window, which may go on, unless it has ended (uint64[n])."""
        end = self.count if ended or self.count == 0 else self.starts[self.last_window]
        return np.asarray(self.keys)[first:max(first, end)]

    cdef bint holds(self, uint64_t key, unsigned chunk):
        cdef uint64_t window = window_of(key, self.window_shift) - self.chunk_first
        return window >> self.chunk_bits == chunk

    cdef finish(self):
        # What is behind the last key starts at the end.
        self.starts[self.last_window + 1:self.index_count(self.chunk_count) + 1] = <uint32_t>self.count


cdef class Join:
    """Pairs of keys of a table, two fingerprints within `distance`, that this table is the first to catch."""

    cdef SegmentView view
    cdef Found *found
    cdef tuple kept

    cdef init(self, SegmentView view, unsigned table, unsigned distance, Found *found):
        if table >= <unsigned>view.table_count:
            raise ValueError(f"table {table}: the segment has {view.table_count}")
        self.view, self.found = view, found
        found.tables, found.table, found.distance = view.tables, table, distance

    cdef void run(self) noexcept nogil:
        pass

    cdef uint64_t run_for(self, uint64_t room) except? 0:
        self.found.room, self.found.found, self.found.work = room, 0, 0
        self.view.enter()
        try:
            with nogil:
                self.run()
        finally:
            self.view.leave()
        return self.found.found

    @property
    def done(self):
        """Whether all pairs have been returned."""
        return self.found.done != 0

    def count(self):
        """How many more pairs there are in the next stretch of work; advances as next does."""
        self.found.first = self.found.second = NULL
        return self.run_for(<uint64_t>-1)

    def next(self, Py_ssize_t room=1 << 16):
        """The pairs of the next stretch of work: (uint64[m], uint64[m], distance uint8[m]), m up to room, 128 or more."""
        cdef uint64_t[::1] first, second
        cdef uint8_t[::1] bits
        if room < JOIN_ROOM:
            raise ValueError(f"room for {room} pairs: expected {JOIN_ROOM} or more")
        columns = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint8)
        first, second, bits = columns
        self.found.first, self.found.second, self.found.bits = &first[0], &second[0], &bits[0]
        found = self.run_for(<uint64_t>room)
        # Where they are few, a copy, that the room need not stay.
        return tuple(column[:found] if 2 * found > <uint64_t>room else column[:found].copy() for column in columns)


cdef class Neighbours(Join):
    """Pairs of keys (uint64[n], sorted) which share their top window_bits bits.

    any_order: the keys of a window may be in any order, and some may come several times. Where that is found, or pairs are
    more than one stretch of work finds, the keys are put in order where they are, and in_order tells of it.
    """

    cdef NeighbourJoin state
    cdef readonly bint in_order

    def __cinit__(self, SegmentView view not None, unsigned table, keys not None, unsigned distance, unsigned window_bits, *,
                  bint any_order=False):
        cdef uint64_t n = <uint64_t>len(keys)
        memset(&self.state, 0, cython.sizeof(NeighbourJoin))
        self.init(view, table, distance, &self.state.found)
        if window_bits > view.bits:
            raise ValueError(f"windows of {window_bits} bits")
        if n == 0:
            self.state.found.done = 1
            return
        self.in_order = not any_order
        self.state.window_shift = view.bits - window_bits
        self.begin(keys)

    cdef begin(self, array):
        cdef const uint64_t[::1] keys = array
        cdef uint64_t n = <uint64_t>keys.shape[0]
        cdef uint32_t[::1] folds = np.empty(n + MAX_LANES + NEIGHBOUR_STEP, dtype=np.uint32)
        folds[n:] = 0
        with nogil:
            fold_keys(&keys[0], n, &folds[0])
        self.kept = array, folds
        self.state.keys, self.state.folds, self.state.count = &keys[0], &folds[0], n
        self.state.i, self.state.step = 0, 1

    cdef void run(self) noexcept nogil:
        neighbour_join_run(&self.state)

    @property
    def near_count(self):
        """How many pairs were looked at one by one so far, as they seemed to be near."""
        return self.state.near

    cdef uint64_t run_for(self, uint64_t room) except? 0:
        cdef uint64_t found = Join.run_for(self, room)
        if self.in_order or (self.state.found.done and not self.state.found.repeated):
            return found
        # Nothing of it has been returned yet.
        keys = self.kept[0]
        self.begin(keys[:sort_keys(keys)])
        self.in_order, self.state.found.done = True, 0
        return Join.run_for(self, room)


cdef class Queries(Join):
    """Pairs of a query (uint64[n], sorted keys under the table's permutation), which comes first, and a key of windows.

    Queries are compared with the keys whose window differs from their own by `flips` (a mask in the top bits of a key).
    """

    cdef QueryJoinState state

    def __cinit__(self, SegmentView view not None, unsigned table, const uint64_t[::1] queries not None, Windows windows not None,
                  unsigned distance, uint64_t flips):
        cdef uint64_t n = <uint64_t>queries.shape[0]
        memset(&self.state, 0, cython.sizeof(QueryJoinState))
        self.init(view, table, distance, &self.state.found)
        self.state.found.is_query = 1
        if window_of(flips, windows.window_shift) << 1 << (windows.window_shift - 1) != flips:
            raise ValueError(f"flips {flips:#x}: expected bits among the top {windows.window_bits}")
        if windows.chunk_count != 1:
            raise ValueError("the windows are not of one chunk")
        # Sorted keys of one aligned range, flipped, are of one aligned range: the ends tell for all.
        if n > 0 and not (windows.holds(queries[0] ^ flips, 0) and windows.holds(queries[n - 1] ^ flips, 0)):
            raise ValueError("queries, flipped, leave the windows")
        if n == 0 or windows.count == 0:
            self.state.found.done = 1
            return
        windows.finish()
        self.kept = queries, windows
        self.state.queries, self.state.query_count, self.state.flips = &queries[0], n, flips
        self.state.keys, self.state.starts = &windows.keys[0], &windows.starts[0]
        self.state.first_window, self.state.window_shift = windows.chunk_first, windows.window_shift

    cdef void run(self) noexcept nogil:
        query_join_run(&self.state)


cdef class Flips(Join):
    """Pairs of keys whose windows differ by one of `flips`: what is XORed to the number of a window, from 1 up."""

    cdef FlipJoinState state

    def __cinit__(self, SegmentView view not None, unsigned table, Windows windows not None, unsigned distance, flips):
        cdef uint8_t[::1] flip_memory, tile_memory
        cdef Flip *ordered
        cdef uint64_t count = <uint64_t>windows.chunk_count << windows.chunk_bits
        cdef uintptr_t tile
        memset(&self.state, 0, cython.sizeof(FlipJoinState))
        self.init(view, table, distance, &self.state.found)
        if not all(0 < mask < count for mask in flips):
            raise ValueError(f"flips {flips}: expected from 1 to {count - 1}")
        if len(flips) == 0 or windows.count == 0:
            self.state.found.done = 1
            return
        windows.finish()
        self.state.keys, self.state.starts = &windows.keys[0], &windows.starts[0]
        self.state.index_bits = max(ROW_BITS, windows.chunk_bits + windows.chunk_count - 1)
        flip_memory = np.empty(len(flips) * cython.sizeof(Flip), dtype=np.uint8)
        ordered = <Flip *>&flip_memory[0]
        located = sorted((flip_of(mask) for mask in flips), key=lambda flip: (flip["low_bit"], flip["outside"]))
        for i, flip in enumerate(located):
            ordered[i] = flip
        tile_memory = np.empty(2 * cython.sizeof(Tile) + 64, dtype=np.uint8)
        tile = (<uintptr_t>&tile_memory[0] + 63) & ~<uintptr_t>63
        self.state.tile, self.state.partner = <Tile *>tile, <Tile *>tile + 1
        self.state.flips, self.state.flip_count = ordered, <unsigned>len(flips)
        self.kept = windows, flip_memory, tile_memory

    cdef void run(self) noexcept nogil:
        flip_join_run(&self.state)
