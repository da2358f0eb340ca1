"""Documents in memory by the keys of their bands: they are added, and found by those that share a band with them.

One call answers a batch. A table of slots for each band, of 42 bits of a key, so that of n documents one meets
n * bands / 2^42 by chance; a row takes some 260 bytes with 16 bands and a sketch of 32 bytes.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free

import numpy as np

from fpstore._native cimport (
    BAND_MOST_ROWS,
    NO_MEMORY,
    OK,
    BandAsked,
    BandNears,
    CBandIndex,
    Status,
    band_index_add,
    band_index_bytes,
    band_index_free,
    band_index_make,
    band_index_near,
)

MOST_ROWS = BAND_MOST_ROWS


cdef class BandIndex:
    """Rows 0, 1, ... of so many bands, with sketches of so many words, a value in each `width` bits.

    far: where more values differ it counts as so many. Has one user at a time. ValueError for what cannot be.
    """

    cdef CBandIndex index

    def __cinit__(self, uint64_t bands, uint64_t words, unsigned width, uint32_t far):
        if not 1 <= bands < 1 << 16 or not 1 <= words < 1 << 16:
            raise ValueError(f"found {bands} bands and {words} words, expected 1 or more, below 2^16")
        if width not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"width: found {width} bits of a value, expected 1, 2, 4, 8, 16 or 32")
        self.index.bands, self.index.words, self.index.width, self.index.far = bands, words, width, far
        if band_index_make(&self.index) != OK:
            raise MemoryError()

    def __dealloc__(self):
        band_index_free(&self.index)

    def __len__(self):
        return self.index.count

    @property
    def nbytes(self):
        """What it takes."""
        return band_index_bytes(&self.index)

    def add(self, const uint64_t[:, ::1] keys not None, const uint64_t[:, ::1] sketches not None):
        """The next rows: uint64[n, bands] and uint64[n, words]. ValueError for more than MOST_ROWS in all."""
        cdef uint64_t count = self.expect(keys, sketches)
        cdef Status status
        if count == 0:
            return
        if count > BAND_MOST_ROWS - self.index.count:
            raise ValueError(f"found {self.index.count} and {count} rows, expected at most {BAND_MOST_ROWS}")
        with nogil:
            status = band_index_add(&self.index, &keys[0, 0], &sketches[0, 0], count)
        if status == NO_MEMORY:
            raise MemoryError()

    def near(self, const uint64_t[:, ::1] keys not None, const uint64_t[:, ::1] sketches not None, uint64_t limit,
             int64_t most, uint64_t most_rows):
        """The rows that share a band with each document, and in whose sketches at most `most` values differ.

        Of each at most `limit`, the nearest first, of several equally near the first; but all in which no value
        differs. Answers no more documents than come to most_rows rows, but one at least. Returns how many it answers,
        query int64[m], row uint64[m] and the number of differing values, uint16[m].
        """
        cdef uint64_t count = self.expect(keys, sketches), answered = 0, i
        cdef Status status
        cdef BandAsked asked
        cdef BandNears found
        cdef int64_t[::1] query
        cdef uint64_t[::1] row
        cdef uint16_t[::1] differing
        if count >> 32 or most < 0 or limit >> 32:
            raise ValueError(f"found {count} queries, at most {most} values and {limit} rows, expected such, below 2^32")
        asked.limit, asked.most = limit, <uint32_t>min(most, 1 << 31)
        found.rows, found.count, found.room = NULL, 0, 0
        try:
            if count > 0:
                with nogil:
                    status = band_index_near(&self.index, &keys[0, 0], &sketches[0, 0], count, &asked, most_rows, &found,
                                             &answered)
                if status == NO_MEMORY:
                    raise MemoryError()
            columns = (np.empty(found.count, dtype=np.int64), np.empty(found.count, dtype=np.uint64),
                       np.empty(found.count, dtype=np.uint16))
            query, row, differing = columns
            for i in range(found.count):
                query[i], row[i] = found.rows[i].query, found.rows[i].row
                differing[i] = <uint16_t>found.rows[i].differing
            return answered, *columns
        finally:
            free(found.rows)

    cdef uint64_t expect(self, const uint64_t[:, ::1] keys, const uint64_t[:, ::1] sketches) except? 0:
        cdef uint64_t bands = <uint64_t>keys.shape[1], words = <uint64_t>sketches.shape[1]
        if keys.shape[0] != sketches.shape[0] or bands != self.index.bands or words != self.index.words:
            raise ValueError(f"found {keys.shape[0]} documents of {bands} keys, {sketches.shape[0]} of {words} words, "
                             f"expected as many, of {self.index.bands} keys and {self.index.words} words")
        return <uint64_t>keys.shape[0]
