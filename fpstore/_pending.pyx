"""Fingerprints added lately, indexed in memory for the Hamming search until they become a segment.

Rows are only ever added, so a search in another thread answers for the rows it is told to look at, whatever is added
meanwhile. Which rows a reader may see is the store's to know.
"""

import os
import threading

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from fpstore._native cimport (
    MAX_KEY_BITS,
    MIN_KEY_BITS,
    NO_MEMORY,
    OK,
    TOO_MANY,
    Match,
    Pending,
    PendingSearch,
    PendingWalk,
    Status,
    keys_fit,
    match_keep_room,
    pending_append,
    pending_copy,
    pending_count,
    pending_entry_number,
    pending_fill,
    pending_free,
    pending_index,
    pending_indexed,
    pending_init,
    pending_is_unready,
    pending_last_position,
    pending_least_ids,
    pending_make_ready,
    pending_rows,
    pending_rows_before,
    pending_search,
    pending_search_init,
    pending_walk_rows,
)
from fpstore.errors import TooManyMatches
from fpstore.format import MAX_TABLES

# What decides the hash buckets. Of this process alone, so that nobody can choose keys that share one.
cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little")
cdef uint64_t MAX_CAPACITY = (1 << 31) - 1
# Rows that are copied while who wants to add others waits: about a millisecond.
cdef uint64_t COPIED_ROWS = 1 << 17

# Single queries compare rows until they are indexed, so many times a row: an eighth of what indexing it takes.
cdef uint64_t COMPARED_FOR_ONE = 8
# What is indexed at a time by a single query: enough that its reads overlap, and few enough that nobody waits.
cdef uint64_t LEAST_INDEXED = 256
cdef uint64_t MOST_INDEXED = 2048
cdef uint32_t ALL_ROWS = 0xFFFFFFFF

# A single query mostly finds nothing, and takes less time than to make five arrays: these are made once.
cdef object INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64), UINT16 = np.dtype(np.uint16)
cdef object NO_KEYS = np.empty(0, UINT64)
cdef object NO_ROWS = (np.empty(0, INT64), NO_KEYS, np.empty(0, UINT16), None, NO_KEYS)
cdef object NO_ROWS_WITH_IDS = (NO_ROWS[0], NO_KEYS, NO_ROWS[2], NO_KEYS, NO_KEYS)
cdef object NO_ENTRIES = (NO_ROWS[0], NO_KEYS, NO_ROWS[2], np.empty(0, np.uint32))


cdef void *address(object array) except? NULL:
    """Where the data of a numpy array lies, for as long as the array lives; NULL for None."""
    cdef Py_buffer buffer
    if array is None:
        return NULL
    PyObject_GetBuffer(array, &buffer, PyBUF_SIMPLE)
    PyBuffer_Release(&buffer)
    return buffer.buf


cdef class PendingIndex:
    """Rows (fingerprint, id, position) in the order in which they were added, found by Hamming distance.

    masks, flips: prefix_mask and flips of each table of a plan. with_ids: whether rows have ids. capacity: how many rows
    there is room for, below 2^31. bits: of a fingerprint. max_distance: what the tables answer; beyond it a search looks
    at all. ValueError for what cannot be, also for a fingerprint or a
    query of more bits.

    All rows are indexed before the first search of a batch that may see them, which waits for another one that indexes:
    one who never searches pays for a copy alone. Single queries compare what is not indexed, and index a few rows each.
    searched: how many rows, from the first on, any of them was asked for.

    Memory is taken as rows are added, that of buckets and entries as they are indexed. With t tables: 16 + 4t bytes for a
    distinct fingerprint (up to a multiple of 8), 16 for a row, 4 more once it is indexed, and 8 for its id, and 4 + 4t for
    each of as many buckets as capacity, up to a power of two. Three tables, ids, and full: 76 to 92 bytes a row. Besides,
    32 KiB a table, and at most 4 bytes for each row of capacity, if so many flips are probed. Room that is much too large costs time: every page is slow at its first use.
    """

    def __cinit__(self, masks, flips, *, bint with_ids, capacity, unsigned bits=MAX_KEY_BITS,
                  unsigned max_distance=MAX_KEY_BITS):
        cdef uint64_t[::1] mask_array
        cdef unsigned int[::1] flip_array
        cdef Status status
        masks, flips = tuple(masks), tuple(flips)
        if not 1 <= len(masks) <= MAX_TABLES or len(flips) != len(masks):
            raise ValueError(f"{len(masks)} masks and {len(flips)} flips, expected as many, 1 to {MAX_TABLES}")
        if not MIN_KEY_BITS <= bits <= MAX_KEY_BITS:
            raise ValueError(f"bits: found {bits}, expected {MIN_KEY_BITS} to {MAX_KEY_BITS}")
        for mask, count in zip(masks, flips):
            if mask < 1 or mask.bit_length() > bits or not 0 <= count <= mask.bit_count():
                raise ValueError(f"{count} flips of prefix mask {mask:#x}, expected some of {bits} bits and no more flips")
        if not 0 <= capacity <= MAX_CAPACITY:
            raise ValueError(f"capacity: found {capacity}, expected 0 to {MAX_CAPACITY}")
        self.lock, self.masks, self.flips, self.with_ids, self.bits = threading.Lock(), masks, flips, with_ids, bits
        mask_array, flip_array = np.array(masks, dtype=np.uint64), np.array(flips, dtype=np.uintc)
        status = pending_init(&self.pending, &mask_array[0], &flip_array[0], <unsigned>len(masks), bits, max_distance,
                              with_ids, capacity, SECRET)
        if status != OK:
            raise MemoryError(f"no memory for {capacity} pending rows in {len(masks)} tables")

    def __dealloc__(self):
        pending_free(&self.pending)

    @property
    def capacity(self):
        """How many rows there is room for."""
        return self.pending.capacity

    @property
    def count(self):
        """How many rows were added."""
        return pending_count(&self.pending)

    @property
    def indexed(self):
        """How many rows, from the first on, were indexed."""
        return pending_indexed(&self.pending)

    @property
    def ready_bytes(self):
        """Up to where the memory of rows was made ready: of a row 16 bytes and 8 for its id, the first one left out."""
        return self.pending.ready_bytes

    def append(self, const uint64_t[::1] keys not None, const uint64_t[::1] ids, uint64_t position, uint64_t live_since=0):
        """Add rows for fingerprints keys (uint64[n]) and their ids (uint64[n]; None without).

        position: of these rows, not before that of the rows added last. No search finds a row whose fingerprint has, as the
        newest row before it, one of a position of live_since or later and, with ids, the same id. ValueError, and nothing
        is added, where there is no room for n rows.
        """
        cdef uint64_t n = <uint64_t>keys.shape[0]
        cdef uint32_t count
        cdef const uint64_t *id = NULL
        if (ids is not None) != self.with_ids or (ids is not None and <uint64_t>ids.shape[0] != n):
            found = "no" if ids is None else ids.shape[0]
            raise ValueError(f"{n} fingerprints come with {found} ids, expected {n if self.with_ids else 'none'}")
        self.check_keys(keys, "fingerprints")
        with self.lock:
            count = pending_count(&self.pending)
            if n > self.pending.capacity - count:
                raise ValueError(f"{n} rows more than {count}: there is room for {self.pending.capacity}")
            last = pending_last_position(&self.pending)
            if position < last:
                raise ValueError(f"position: found {position}, expected {last} or later")
            if n == 0:
                return
            if ids is not None:
                id = &ids[0]
            with nogil:
                pending_append(&self.pending, &keys[0], id, <uint32_t>n, position, live_since)

    def grown(self, capacity, uint64_t first=0, *, bint indexed=True):
        """A new index with the rows from `first` on and more room; this one stays as it is.

        indexed: have all of them indexed at once, if any was searched. ValueError for less room than rows, or for a first
        above count.
        """
        cdef PendingIndex result
        cdef uint64_t count = pending_count(&self.pending)
        self.check_end(first)
        if capacity < count - first:
            raise ValueError(f"capacity: found {capacity}, expected {count - first} or more")
        result = PendingIndex(self.masks, self.flips, with_ids=self.with_ids, capacity=capacity, bits=self.bits,
                              max_distance=self.pending.max_distance)
        result.follow(self, first)
        if self.searched > first:
            result.searched = self.searched - first
            if indexed:
                result.index()
        return result

    def follow(self, PendingIndex source not None, uint64_t first):
        """Append the rows of an index for the same tables from `first` on, which are not before those appended last.

        ValueError, and nothing is added, where there is no room for them, or for a first above the count of source.
        """
        cdef uint64_t count = pending_count(&source.pending), end
        source.check_end(first)
        if count - first > self.pending.capacity - pending_count(&self.pending):
            raise ValueError(f"{count - first} rows more than {self.count}: there is room for {self.pending.capacity}")
        while first < count:
            end = min(count, first + COPIED_ROWS)
            with source.lock, nogil:
                pending_copy(&self.pending, &source.pending, <uint32_t>first, <uint32_t>end)
            first = end

    def rows_before(self, uint64_t position):
        """How many rows come before the first that has this position or a later one."""
        return pending_rows_before(&self.pending, position)

    def search(self, const uint64_t[::1] queries not None, unsigned distance, uint64_t end, uint64_t most=0):
        """The rows below `end`, in the order of adding, whose fingerprint is within `distance` bits of a query.

        queries: uint64[m], m below 2^32. end: at most count, or ValueError.
        Returns (query int64[r], fingerprint uint64[r], distance uint16[r], id uint64[r] or None, position uint64[r]),
        ordered by (query, distance, fingerprint), of one fingerprint the newest row first. TooManyMatches for more rows
        than most, unless that is 0.
        """
        cdef uint64_t n = <uint64_t>queries.shape[0]
        cdef PendingSearch state
        cdef Status status = OK
        cdef void *at[5]
        cdef int i
        self.begin(&state, queries, distance, end)
        state.match_most = most
        try:
            if n > 0 and end > 0:
                with nogil:
                    status = pending_search(&state, &queries[0], n)
            if status == NO_MEMORY:
                raise MemoryError(f"no memory for more than {state.match_count} matches")
            if status == TOO_MANY:
                raise TooManyMatches.found(n, most, most, at_least=True)
            if most and state.row_count > most:
                raise TooManyMatches.found(n, state.row_count, most)
            if state.row_count == 0:
                return NO_ROWS_WITH_IDS if self.with_ids else NO_ROWS
            columns = (np.empty(state.row_count, INT64), np.empty(state.row_count, UINT64), np.empty(state.row_count, UINT16),
                       np.empty(state.row_count, UINT64) if self.with_ids else None, np.empty(state.row_count, UINT64))
            for i in range(5):
                at[i] = address(columns[i])
            with nogil:
                pending_fill(&state, <int64_t *>at[0], <uint64_t *>at[1], <uint16_t *>at[2], <uint64_t *>at[3],
                             <uint64_t *>at[4])
            return columns
        finally:
            free(state.matches)

    def nearest(self, const uint64_t[::1] queries not None, unsigned distance, uint64_t end, uint64_t keep=1,
                after_bits=None, after_fingerprints=None):
        """The fingerprints with rows below `end`, for each query the nearest `keep`, 1 or more, after what is given.

        after_bits, after_fingerprints: uint16[m] and uint64[m], or None for all.
        Returns (query int64[r], fingerprint uint64[r], distance uint16[r], entry uint32[r]), ordered by (query, distance,
        fingerprint); entry: for least_ids and walk. However many there are, 2 * m * keep of them are held, or 1,024.
        """
        cdef uint64_t n = <uint64_t>queries.shape[0], i
        cdef PendingSearch state
        cdef Status status = OK
        cdef Match *after = NULL
        cdef const uint16_t[::1] before_bits
        cdef const uint64_t[::1] before
        cdef int64_t[::1] query
        cdef uint64_t[::1] fingerprint
        cdef uint16_t[::1] bits
        cdef uint32_t[::1] entry
        self.begin(&state, queries, distance, end)
        state.keep = keep
        state.keep_room = match_keep_room(n, keep)
        state.query_count = n
        if after_bits is not None:
            before_bits, before = after_bits, after_fingerprints
            if <uint64_t>before_bits.shape[0] != n or <uint64_t>before.shape[0] != n:
                raise ValueError(f"{len(after_bits)} distances and {len(after_fingerprints)} fingerprints for {n} queries")
            after = <Match *>malloc((n + 1) * sizeof(Match))
            if after == NULL:
                raise MemoryError()
            for i in range(n):
                after[i].query, after[i].distance, after[i].fingerprint = <uint32_t>i, before_bits[i], before[i]
        state.after = after
        try:
            if n > 0 and end > 0:
                with nogil:
                    status = pending_search(&state, &queries[0], n)
            if status == NO_MEMORY:
                raise MemoryError(f"no memory for more than {state.match_count} matches")
            if state.match_count == 0:
                return NO_ENTRIES
            columns = (np.empty(state.match_count, INT64), np.empty(state.match_count, UINT64),
                       np.empty(state.match_count, UINT16), np.empty(state.match_count, np.uint32))
            query, fingerprint, bits, entry = columns
            for i in range(state.match_count):
                query[i] = state.matches[i].match.query
                fingerprint[i] = state.matches[i].match.fingerprint
                bits[i] = <uint16_t>state.matches[i].match.distance
                entry[i] = pending_entry_number(&self.pending, &state.matches[i])
            return columns
        finally:
            free(state.matches)
            free(state.bounds)
            free(after)

    def least_ids(self, const uint32_t[::1] entries not None, uint64_t end):
        """The least id among the rows below `end` of each of entries, as nearest() found them for this end: uint64[n].

        ValueError for an index without ids.
        """
        cdef uint64_t n = <uint64_t>entries.shape[0]
        cdef uint64_t[::1] id
        self.check_end(end)
        if not self.with_ids:
            raise ValueError("an index without ids has no least id")
        ids = np.empty(n, UINT64)
        if n > 0:
            id = ids
            with nogil:
                pending_least_ids(&self.pending, &entries[0], n, <uint32_t>end, &id[0])
        return ids

    def walk(self, const uint32_t[::1] entries not None, uint64_t end, uint64_t room):
        """The rows below `end` of entries, in their order, as nearest() found them for this end, `room` at a time.

        Yields (which int64[n], an index of entries; id uint64[n] or None; position uint64[n]).
        """
        cdef uint64_t n = <uint64_t>entries.shape[0], got = room
        cdef PendingWalk state
        cdef int64_t[::1] at
        cdef uint64_t[::1] id, position
        cdef uint64_t *id_address = NULL
        self.check_end(end)
        state.index, state.row = 0, 0
        while got == room and n > 0:
            which, positions = np.empty(room, INT64), np.empty(room, UINT64)
            ids = np.empty(room, UINT64) if self.with_ids else None
            at, position = which, positions
            if ids is not None:
                id = ids
                id_address = &id[0]
            with nogil:
                got = pending_walk_rows(&self.pending, &entries[0], n, <uint32_t>end, &state, room, &at[0], id_address,
                                        &position[0])
            yield which[:got], None if ids is None else ids[:got], positions[:got]

    def rows(self, uint64_t first, uint64_t end):
        """Rows [first, end) in the order of adding: (fingerprints uint64[n], ids uint64[n] or None, positions uint64[n]).

        ValueError unless first <= end <= count.
        """
        cdef uint64_t[::1] key, id, position
        self.check_end(end)
        if first > end:
            raise ValueError(f"rows {first} to {end}")
        keys, positions = np.empty(end - first, dtype=np.uint64), np.empty(end - first, dtype=np.uint64)
        ids = np.empty(end - first, dtype=np.uint64) if self.with_ids else None
        if first < end:
            key, id, position = keys, ids, positions
            with self.lock, nogil:
                pending_rows(&self.pending, <uint32_t>first, <uint32_t>end, &key[0], &id[0] if self.with_ids else NULL,
                             &position[0])
        return keys, ids, positions

    cdef int check_keys(self, const uint64_t[::1] keys, str what) except -1:
        if keys.shape[0] > 0 and not keys_fit(&keys[0], <uint64_t>keys.shape[0], self.bits):
            raise ValueError(f"{what}: found one of more bits, expected {self.bits}")
        return 0

    cdef int begin(self, PendingSearch *state, const uint64_t[::1] queries, unsigned distance, uint64_t end) except -1:
        # A search that has found nothing yet, and is to find everything.
        cdef uint64_t query_count = <uint64_t>queries.shape[0]
        self.check_end(end)
        self.check_keys(queries, "queries")
        if pending_indexed(&self.pending) < end:
            self.index()
        if query_count >> 32:
            raise ValueError(f"{query_count} queries in one batch: expected fewer than 2^32")
        pending_search_init(state, &self.pending, distance, <uint32_t>end)
        return 0

    cdef int index(self) except -1:
        # For a search of all rows that there are.
        self.searched = pending_count(&self.pending)
        with self.lock, nogil:
            pending_index(&self.pending, ALL_ROWS)
        return 0

    cdef int compare(self, uint64_t end) except -1:
        # Of a single query of the rows below `end`, which compares those that are not indexed. As indexing a row takes as
        # long as comparing it with some queries, a few rows are indexed for as many comparisons: no query pays for many.
        # The first query of rows does least, who waits for it waits for them, too: it indexes where very many comparisons are
        # paid for, as after commits with no other query between them. Those behind it make memory ready, in which the rows
        # come that are next.
        cdef uint64_t indexed = pending_indexed(&self.pending)
        cdef uint32_t due = 0
        cdef bint first = self.searched < end, unready = not first and pending_is_unready(&self.pending)
        if first:
            self.searched = end
        if indexed < end:
            self.compared += end - indexed
            due = <uint32_t>min(self.compared // COMPARED_FOR_ONE, MOST_INDEXED)
            if due < min(end - indexed, MOST_INDEXED if first else LEAST_INDEXED):
                due = 0
        if (due or unready) and self.lock.acquire(False):
            try:
                if due:
                    self.compared = 0
                    with nogil:
                        pending_index(&self.pending, due)
                else:
                    pending_make_ready(&self.pending)
            finally:
                self.lock.release()
        return 0

    cdef bint has_room(self, uint64_t count, uint64_t position):
        # For so many rows more, of that position or later ones.
        return count <= self.pending.capacity - pending_count(&self.pending) and position >= pending_last_position(&self.pending)

    cdef bint fit(self, const uint64_t *keys, uint64_t count):
        return keys_fit(keys, count, self.bits) != 0

    cdef int append_columns(self, const uint64_t *keys, const uint64_t *ids, uint64_t count, uint64_t position,
                            uint64_t live_since) except -1:
        # Rows that have room and fit. ids are read where there are ids.
        with self.lock:
            pending_append(&self.pending, keys, ids if self.with_ids else NULL, <uint32_t>count, position, live_since)
        return 0

    cdef int check_end(self, uint64_t end) except -1:
        if end > pending_count(&self.pending):
            raise ValueError(f"rows up to {end}: there are {pending_count(&self.pending)}")
        return 0
