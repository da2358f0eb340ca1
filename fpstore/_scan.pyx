"""The exact scan of a mapped segment: all keys of a table, decoded once and compared with every query of a batch.

What the tables of a plan are not made for, a larger distance, is found so; and what lies in few keys. Which of the two
is asked, and by how many threads, is the store's to know.
"""

from libc.stdint cimport uint16_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from fpstore._native cimport (
    CHUNK_ROOM,
    GROUP_SLOTS,
    OK,
    TOO_MANY,
    Chunk,
    Match,
    Scan,
    Search,
    Status,
    Table,
    chunk_code_init,
    keys_fit,
    match_keep_room,
    permute_keys,
    scan_end,
    scan_slots,
    search_init,
)
from fpstore._probe cimport after_each, columns_of
from fpstore._view cimport SegmentView, raise_status

from fpstore.errors import TooManyMatches


cdef class Scanner:
    """Memory for scans, of one thread at a time; to be kept, as its pages are slow at their first use."""

    def __cinit__(self):
        self.chunk, self.room = <Chunk *>malloc(sizeof(Chunk)), <uint64_t *>malloc(CHUNK_ROOM * sizeof(uint64_t))
        if self.chunk == NULL or self.room == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.chunk)
        free(self.room)

    def search(self, SegmentView view not None, const uint64_t[::1] queries not None, unsigned distance, uint64_t first,
               uint64_t end, *, uint64_t keep=0, uint64_t most=0, limits=None, after_bits=None, after_fingerprints=None,
               bint first_only=False):
        """Every fingerprint in slots [first, end) of table 0 within `distance` bits of each query, and how many were read.

        first, end: multiples of GROUP_SLOTS, or the number of slots; of keys that are not coded it may be others of as many
        slots, all of them once where ranges follow each other. keep: for each query the nearest so many alone, 0 for all.
        limits: uint16[m], of each query a distance that what is wanted is not beyond. after_bits, after_fingerprints:
        uint16[m] and uint64[m], or None, what is found comes after these. first_only: stop at the first match of all.
        Returns (query int64[r], fingerprint uint64[r], distance uint16[r], key_count), ordered by (query, distance,
        fingerprint). TooManyMatches for more than most, unless that is 0.
        """
        cdef Search state
        cdef Scan scan
        cdef Status status = OK
        cdef Match *after = NULL
        cdef uint64_t *words = NULL
        cdef const uint16_t[::1] limit
        cdef uint64_t i, count = <uint64_t>queries.shape[0]
        cdef Table *table
        cdef uint64_t slots
        if view.table_count == 0:
            raise ValueError("a segment without tables has none to scan")
        table = view.tables[0]
        slots = <uint64_t>1 << table.slot_bits
        if count >> 32:
            raise ValueError(f"{count} queries in one batch: expected fewer than 2^32")
        if not first <= end <= slots or first % GROUP_SLOTS or (end % GROUP_SLOTS and end != slots):
            raise ValueError(f"slots {first} to {end}: expected whole groups of {GROUP_SLOTS} of {slots}")
        if count > 0 and not keys_fit(&queries[0], count, view.bits):
            raise ValueError(f"queries: found one of more bits, expected {view.bits}")
        if limits is not None and len(limits) != count:
            raise ValueError(f"{len(limits)} limits for {count} queries")
        chunk_code_init(&self.chunk.code, table.decode)
        search_init(&state, &view.pages, view.tables, 1, distance, count)
        state.first_only, state.match_most, state.keep, state.query_count = first_only, most, keep, count
        state.keep_room = match_keep_room(count, keep)
        view.enter()
        try:
            state.after = after = after_each(after_bits, after_fingerprints, count)
            words = <uint64_t *>malloc((2 * count + 1) * sizeof(uint64_t))
            if words == NULL:
                raise MemoryError()
            scan.search, scan.queries, scan.limits = &state, words, words + count
            scan.query_count, scan.key_count = count, 0
            limit = limits if limits is not None else np.full(count, distance, dtype=np.uint16)
            for i in range(count):
                scan.limits[i] = min(limit[i], distance)
            if count > 0:
                with nogil:
                    permute_keys(&table.permutation, &queries[0], count, words)
                    status = scan_slots(&scan, first, end, self.chunk, self.room)
                    if status == OK:
                        scan_end(&state)
            raise_status(OK if status == TOO_MANY else status, view, "scan")
            if status == TOO_MANY:
                raise TooManyMatches.found(count, most, most, at_least=True)
            return (*columns_of(&state), scan.key_count)
        finally:
            free(state.matches)
            free(state.bounds)
            free(after)
            free(words)
            view.leave()
