"""Fingerprints in memory alone: they are added, and found by those that differ from them in few bits.

One call answers a batch. A row takes some 60 bytes, and 32 MiB are for all of them together.
"""

import secrets

from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.stdlib cimport free

import numpy as np

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    KEY_MOST_DISTANCE,
    KEY_MOST_ROWS,
    OK,
    CKeyIndex,
    KeyMatches,
    Status,
    key_index_add,
    key_index_bytes,
    key_index_free,
    key_index_make,
    key_index_near,
)

MOST_DISTANCE, MOST_ROWS = KEY_MOST_DISTANCE, KEY_MOST_ROWS


cdef class KeyIndex:
    """Rows 0, 1, ... of one fingerprint each, which are near one another up to a distance.

    Several may ask at a time, while nobody adds. ValueError for a distance above MOST_DISTANCE.
    """

    cdef CKeyIndex index
    cdef bint is_whole  # not where there was no memory for all of it

    def __cinit__(self, unsigned distance):
        if distance > KEY_MOST_DISTANCE:
            raise ValueError(f"distance: found {distance}, expected at most {KEY_MOST_DISTANCE}")
        self.index.distance, self.index.secret = distance, secrets.randbits(64) | 1
        if key_index_make(&self.index) != OK:
            raise MemoryError()
        self.is_whole = True

    def __dealloc__(self):
        key_index_free(&self.index)

    def __len__(self):
        return self.index.count

    @property
    def nbytes(self):
        """What it takes."""
        return key_index_bytes(&self.index)

    def add(self, const uint64_t[::1] keys not None):
        """The next rows. ValueError for more than MOST_ROWS in all."""
        cdef uint64_t count = <uint64_t>keys.shape[0]
        cdef Status status
        if count > KEY_MOST_ROWS - self.index.count:
            raise ValueError(f"found {self.index.count} and {count} rows, expected at most {KEY_MOST_ROWS}")
        if not self.is_whole:
            raise MemoryError()
        if count == 0:
            return
        with nogil:
            left()
            status = key_index_add(&self.index, &keys[0], count)
            comes()
        if status != OK:
            self.is_whole = False
            raise MemoryError()

    def near(self, const uint64_t[::1] keys not None, uint64_t limit):
        """The rows within the distance of each fingerprint, at most `limit`: the first by distance, fingerprint and row.

        Returns query int64[m], fingerprint uint64[m], distance uint16[m] and row uint64[m], in this order.
        """
        cdef uint64_t count = <uint64_t>keys.shape[0], i
        cdef Status status
        cdef KeyMatches found
        cdef int64_t[::1] query
        cdef uint64_t[::1] key, row
        cdef uint16_t[::1] distance
        if count >> 32:
            raise ValueError(f"found {count} queries, expected fewer than 2^32")
        if not self.is_whole:
            raise MemoryError()
        found.rows, found.count, found.room = NULL, 0, 0
        try:
            if count > 0:
                with nogil:
                    left()
                    status = key_index_near(&self.index, &keys[0], count, limit, &found)
                    comes()
                if status != OK:
                    raise MemoryError()
            columns = (np.empty(found.count, dtype=np.int64), np.empty(found.count, dtype=np.uint64),
                       np.empty(found.count, dtype=np.uint16), np.empty(found.count, dtype=np.uint64))
            query, key, distance, row = columns
            for i in range(found.count):
                query[i], key[i], row[i] = found.rows[i].query, found.rows[i].key, found.rows[i].row
                distance[i] = <uint16_t>found.rows[i].distance
            return columns
        finally:
            free(found.rows)
