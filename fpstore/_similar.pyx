"""Signatures: the keys of their bands, sketches of them, and the documents of one state of a store that share a band.

One call answers a batch: the rows of its keys in all segments and in memory, the documents of these, and how similar
each is by the sketches beside the segments. What was removed, and what is in the log, is the caller's to tell.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import numpy as np

from fpstore._native cimport (
    NO_MEMORY,
    OK,
    TOO_MANY,
    BandPart,
    BandRows,
    Bands,
    Candidate,
    SketchFile,
    Sketches,
    Status,
    band_hashes_of_32,
    band_hashes_of_64,
    band_keys_of_hashes,
    band_rows_of_part,
    band_rows_of_pending,
    candidates_estimate,
    candidates_of,
    candidates_order,
    keys_fit,
    pending_indexed,
    sketches_alike,
    sketches_of_32,
    sketches_of_64,
)
from fpstore._pending cimport PendingIndex
from fpstore._probe cimport IdColumn
from fpstore._view cimport SegmentView, raise_status

from fpstore.errors import CorruptStore, TooManyMatches

cdef object INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64), UINT32 = np.dtype(np.uint32)
cdef object UINT16 = np.dtype(np.uint16), FLOAT32 = np.dtype(np.float32), EMPTY = np.empty
cdef float UNKNOWN = float("nan")
# Of what cannot be counted, and so of what nobody limits.
cdef uint64_t ANY_NUMBER = <uint64_t>1 << 62
# So many rows, of 24 bytes, are looked at together however few an answer may have.
cdef uint64_t FEW_ROWS = <uint64_t>1 << 20


cdef object as_words(object signatures, uint64_t least):
    # integers[n, least or more] in rows of 32 or 64 bits.
    if signatures.ndim != 2 or <uint64_t>signatures.shape[1] < least:
        raise ValueError(f"signatures: found an array of shape {signatures.shape}, expected [n, {least}] or more values")
    if signatures.dtype != UINT32 and signatures.dtype != UINT64:
        signatures = signatures.astype(UINT64)
    return np.ascontiguousarray(signatures)


def band_hashes(signatures, uint32_t bands, uint32_t rows_per_band):
    """The hash of each band of each signature: uint64[n, bands], of integers[n, values], bands * rows_per_band or more."""
    cdef const uint32_t[:, ::1] narrow
    cdef const uint64_t[:, ::1] wide
    cdef uint64_t[:, ::1] out
    given = as_words(signatures, <uint64_t>bands * rows_per_band)
    hashes = EMPTY((len(given), bands), UINT64)
    out = hashes
    if len(given) == 0 or bands == 0:
        return hashes
    if given.dtype == UINT32:
        narrow = given
        with nogil:
            band_hashes_of_32(&narrow[0, 0], <uint64_t>narrow.shape[0], <uint64_t>narrow.shape[1], bands, rows_per_band,
                              &out[0, 0])
    else:
        wide = given
        with nogil:
            band_hashes_of_64(&wide[0, 0], <uint64_t>wide.shape[0], <uint64_t>wide.shape[1], bands, rows_per_band, &out[0, 0])
    return hashes


def band_keys(const uint64_t[:, ::1] hashes not None, const uint64_t[::1] bases not None,
              const uint64_t[::1] sizes not None):
    """The keys of hashes, uint64[n, bands] both. bases, sizes: of each band its least key, and how many it has, not 0."""
    cdef Bands bands
    cdef uint64_t[:, ::1] out
    cdef uint64_t i
    bands.bands = <uint32_t>hashes.shape[1]
    if bases.shape[0] != hashes.shape[1] or sizes.shape[0] != hashes.shape[1] or bands.bands == 0:
        raise ValueError(f"{bases.shape[0]} bases and {sizes.shape[0]} sizes of {hashes.shape[1]} bands: expected as many")
    for i in range(bands.bands):
        if sizes[i] == 0:
            raise ValueError(f"band {i}: found no key, expected 1 or more")
    bands.bases, bands.sizes = &bases[0], &sizes[0]
    keys = EMPTY((hashes.shape[0], hashes.shape[1]), UINT64)
    out = keys
    if hashes.shape[0] > 0:
        with nogil:
            band_keys_of_hashes(&hashes[0, 0], <uint64_t>hashes.shape[0], &bands, &out[0, 0])
    return keys


cdef class SketchShape:
    """What is kept of signatures: so many bits of each of so many values.

    bits: 1, 2, 4, 8, 16 or 32. estimates: float32[values + 1], the similarity of two of which so many values differ.
    """

    cdef Sketches shape
    cdef const float[::1] estimates

    def __cinit__(self, uint32_t values, uint32_t bits, const float[::1] estimates not None):
        if values == 0 or bits not in (1, 2, 4, 8, 16, 32) or <uint64_t>estimates.shape[0] != <uint64_t>values + 1:
            raise ValueError(f"{bits} bits of {values} values, {estimates.shape[0]} estimates: expected one more of these")
        self.estimates = estimates
        self.shape.values, self.shape.bits, self.shape.estimates = values, bits, &estimates[0]
        self.shape.words = (values + 64 // bits - 1) // (64 // bits)

    def sketches(self, signatures):
        """What is kept of each signature: uint64[n, words], of integers[n, values]."""
        cdef const uint32_t[:, ::1] narrow
        cdef const uint64_t[:, ::1] wide
        cdef uint64_t[:, ::1] out
        given = as_words(signatures, self.shape.values)
        if given.shape[1] != self.shape.values:
            raise ValueError(f"signatures: found {given.shape[1]} values, expected {self.shape.values}")
        sketches = EMPTY((len(given), self.shape.words), UINT64)
        out = sketches
        if len(given) == 0:
            return sketches
        if given.dtype == UINT32:
            narrow = given
            with nogil:
                sketches_of_32(&narrow[0, 0], <uint64_t>narrow.shape[0], &self.shape, &out[0, 0])
        else:
            wide = given
            with nogil:
                sketches_of_64(&wide[0, 0], <uint64_t>wide.shape[0], &self.shape, &out[0, 0])
        return sketches

    def similarity(self, const uint64_t[:, ::1] one not None, const uint64_t[:, ::1] other not None):
        """The estimated similarity of each two sketches, uint64[n, words] both: float32[n]."""
        cdef Py_ssize_t i, words = <Py_ssize_t>self.shape.words
        cdef float[::1] out
        if one.shape[0] != other.shape[0] or one.shape[1] != words or other.shape[1] != words:
            raise ValueError(f"sketches of {one.shape[1]} and {other.shape[1]} words: expected as many of {words} in both")
        found = EMPTY(one.shape[0], FLOAT32)
        out = found
        with nogil:
            for i in range(one.shape[0]):
                out[i] = sketches_alike(&self.shape, &one[i, 0], <const uint8_t *>&other[i, 0])
        return found


cdef class BandSegments:
    """Segments as they are searched for bands, and the files of sketches.

    segments: for each its view, its ids or None, its position, and the context in which its errors are named. files: for
    each file of sketches its view, sketches.layout.SketchesRecord, whose offsets the caller has checked, its position,
    such a context, and None, or, where its handles are places in a list, what tells those of ids: int64[n], -1 for none.
    """

    cdef tuple segments, files
    cdef BandPart *parts
    cdef SketchFile *sketch_files

    def __cinit__(self, segments, files):
        cdef SegmentView view
        cdef IdColumn ids
        cdef BandPart *part
        cdef SketchFile *file
        cdef Py_ssize_t i
        self.segments, self.files = tuple(segments), tuple(files)
        self.parts = <BandPart *>calloc(len(self.segments) + 1, sizeof(BandPart))
        self.sketch_files = <SketchFile *>calloc(len(self.files) + 1, sizeof(SketchFile))
        if self.parts == NULL or self.sketch_files == NULL:
            raise MemoryError()
        for i in range(len(self.segments)):
            view, ids = self.segments[i][0], self.segments[i][1]
            if view.table_count == 0:
                raise ValueError("a segment without a table")
            part = &self.parts[i]
            part.pages, part.table, part.position = &view.pages, view.tables[0], self.segments[i][2]
            part.ids = NULL if ids is None else &ids.ids
        for i in range(len(self.files)):
            view, record = self.files[i][0], self.files[i][1]
            file = &self.sketch_files[i]
            file.pages = &view.pages
            file.count, file.base, file.last = record.count, record.handle_base, record.handle_last
            file.sketches_offset, file.handles_offset = record.sketches_offset, record.handles_offset
            file.handle_bytes, file.listed = record.handle_bytes, record.listed

    def __dealloc__(self):
        free(self.parts)
        free(self.sketch_files)


cdef class Candidates:
    """Which documents of one state of a store share a band with signatures.

    segments, shape: of the store; shape None where it keeps no sketches. pending: the rows that are in no segment, up to
    pending_end. alive, masked: None where nothing was removed. alive: which of fingerprints, ids or None and positions
    (uint64[n]) live, bool[n], or None for all; masked: which of ids were removed from what is of a position, bool[n].
    logged: the sketches of ids in the log that live, None where there are none: of which of them each is, int64[m], and
    uint64[m, words].
    """

    cdef BandSegments segments
    cdef SketchShape shape
    cdef PendingIndex pending
    cdef uint32_t pending_end
    cdef object alive, masked, logged

    def __cinit__(self, BandSegments segments not None, SketchShape shape, PendingIndex pending not None,
                  uint64_t pending_end, alive, masked, logged):
        cdef SketchFile *file
        cdef Py_ssize_t i
        pending.check_end(pending_end)
        self.segments, self.shape, self.pending, self.pending_end = segments, shape, pending, <uint32_t>pending_end
        self.alive, self.masked, self.logged = alive, masked, logged
        for record in segments.files:
            if shape is None or record[1].words != shape.shape.words:
                raise ValueError("a file of sketches, found one of other words, expected those of the store")

    def find(self, const uint64_t[:, ::1] keys not None, const uint64_t[:, ::1] sketches, least, int64_t first_query,
             room):
        """The documents that share a band with signatures, by query, then the most similar first, then by id.

        keys: uint64[n, bands]. sketches: uint64[n, words], or None. least: only those as similar as that, or None.
        first_query: the number of the first. room: Room for what is returned, or None for any number. Returns query
        int64[m], id uint64[m] or None in a store without, similarity float32[m], shared bands uint16[m]. CorruptStore
        where a page or a block that is needed is damaged, or an id has no sketch. TooManyMatches where there is no room,
        and where the rows of what shares a band are more than are held at once.
        """
        cdef uint64_t query_count = <uint64_t>keys.shape[0], count = 0
        cdef uint32_t bands = <uint32_t>keys.shape[1]
        cdef uint64_t key_count = query_count * bands
        cdef BandRows rows
        cdef Candidate *found = NULL
        cdef Status status = OK
        cdef bint estimated = sketches is not None and self.shape is not None
        if key_count >> 32 or (estimated and not (sketches.shape[0] == keys.shape[0]
                                                  and sketches.shape[1] == <Py_ssize_t>self.shape.shape.words)):
            raise ValueError(f"{query_count} queries of {bands} bands: expected fewer than 2^32 keys, a sketch for each")
        if key_count > 0 and not keys_fit(&keys[0, 0], key_count, self.pending.bits):
            raise ValueError(f"keys: found one of more bits, expected {self.pending.bits}")
        rows.rows, rows.count, rows.room, rows.most = NULL, 0, 0, ANY_NUMBER
        if room is not None:
            # A match has at most a row for each band in each segment, and in the log once, as a rule.
            rows.most = min(max(FEW_ROWS, room.left * bands * (len(self.segments.segments) + 1)), room.held)
        try:
            if key_count > 0:
                self.collect(&keys[0, 0], key_count, query_count, &rows)
            if rows.count > 0 and self.alive is not None:
                self.keep_alive(&keys[0, 0], &rows)
            if rows.count > 0:
                found = <Candidate *>malloc(rows.count * sizeof(Candidate))
                if found == NULL:
                    raise MemoryError()
                with nogil:
                    status = candidates_of(&rows, bands, query_count, UNKNOWN, found, &count)
                if status == NO_MEMORY:
                    raise MemoryError()
                if estimated:
                    self.estimate(&sketches[0, 0], found, count)
                    if least is not None:
                        count = keep_similar(found, count, least)
            if room is not None:
                room.take(count)
            if count > 0:
                with nogil:
                    candidates_order(found, count)
            return self.columns(found, count, first_query)
        finally:
            free(rows.rows)
            free(found)

    def similarities(self, const uint64_t[:, ::1] sketches not None, const uint64_t[::1] ids not None):
        """How similar the one of sketches, uint64[1, words], is to each of ids, which have rows: float32[n].

        CorruptStore as of find. ValueError in a store that keeps no sketches.
        """
        cdef uint64_t count = <uint64_t>ids.shape[0], i
        cdef Candidate *found
        cdef float[::1] similarity
        if self.shape is None or sketches.shape[0] != 1 or sketches.shape[1] != <Py_ssize_t>self.shape.shape.words:
            raise ValueError(f"sketches: found [{sketches.shape[0]}, {sketches.shape[1]}], expected one as the store keeps them")
        similarities = EMPTY(count, FLOAT32)
        similarity = similarities
        found = <Candidate *>malloc((count + 1) * sizeof(Candidate))
        if found == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                found[i].id, found[i].query, found[i].similarity, found[i].shared = ids[i], 0, UNKNOWN, 0
            self.estimate(&sketches[0, 0], found, count)
            for i in range(count):
                similarity[i] = found[i].similarity
            return similarities
        finally:
            free(found)

    cdef int collect(self, const uint64_t *keys, uint64_t key_count, uint64_t query_count, BandRows *rows) except -1:
        # The rows of all keys.
        cdef Status status = OK
        cdef SegmentView view
        cdef BandPart *part
        cdef Py_ssize_t i
        for i in range(len(self.segments.segments)):
            view, part = self.segments.segments[i][0], &self.segments.parts[i]
            with self.segments.segments[i][3]:
                view.enter()
                try:
                    with nogil:
                        status = band_rows_of_part(part, keys, key_count, rows)
                    raise_status(OK if status == TOO_MANY else status, view, "probe")
                finally:
                    view.leave()
            if status == TOO_MANY:
                raise TooManyMatches.of_rows(query_count, rows.most)
        if self.pending_end > 0:
            if pending_indexed(&self.pending.pending) < self.pending_end:
                self.pending.index()
            with nogil:
                status = band_rows_of_pending(&self.pending.pending, self.pending_end, keys, key_count, rows)
            if status == TOO_MANY:
                raise TooManyMatches.of_rows(query_count, rows.most)
            if status != OK:
                raise MemoryError()
        return 0

    cdef int keep_alive(self, const uint64_t *keys, BandRows *rows) except -1:
        cdef uint64_t i, kept = 0
        cdef uint64_t[::1] fingerprint, id, position
        cdef const uint8_t[::1] lives
        fingerprints, ids, positions = (EMPTY(rows.count, UINT64) for _ in range(3))
        fingerprint, id, position = fingerprints, ids, positions
        for i in range(rows.count):
            fingerprint[i], id[i], position[i] = keys[rows.rows[i].key], rows.rows[i].id, rows.rows[i].position
        mask = self.alive(fingerprints, ids if self.pending.with_ids else None, positions)
        if mask is None:
            return 0
        lives = mask.view(np.uint8)
        for i in range(rows.count):
            if lives[i]:
                rows.rows[kept] = rows.rows[i]
                kept += 1
        rows.count = kept
        return 0

    cdef int estimate(self, const uint64_t *sketches, Candidate *found, uint64_t count) except -1:
        # How similar each candidate is: to the most similar of all sketches of its id, wherever these are.
        cdef Status status = OK
        cdef SegmentView view
        cdef SketchFile *file
        cdef const Sketches *shape = &self.shape.shape
        cdef const uint8_t[::1] passed
        cdef const uint8_t *masked = NULL
        cdef const int64_t[::1] place
        cdef const int64_t *places
        cdef uint64_t[::1] id
        cdef uint64_t i
        cdef Py_ssize_t number
        if count == 0:
            return 0
        ids = EMPTY(count, UINT64)
        id = ids
        for i in range(count):
            id[i] = found[i].id
        for number in range(len(self.segments.files)):
            view, file = self.segments.files[number][0], &self.segments.sketch_files[number]
            if self.masked is not None:
                passed = self.masked(ids, self.segments.files[number][2]).view(np.uint8)
                masked = &passed[0]
            places = NULL
            if self.segments.files[number][4] is not None:
                place = self.segments.files[number][4](ids)
                places = &place[0]
            with self.segments.files[number][3]:
                view.enter()
                try:
                    with nogil:
                        status = candidates_estimate(file, shape, sketches, places, masked, found, count)
                    raise_status(status, view, "sketches")
                finally:
                    view.leave()
        if self.logged is not None:
            self.estimate_logged(sketches, found, self.logged(ids))
        for i in range(count):
            if found[i].similarity != found[i].similarity:
                raise CorruptStore("sketches", f"none of id {found[i].id}", "one, as it has rows")
        return 0

    cdef int estimate_logged(self, const uint64_t *sketches, Candidate *found, logged) except -1:
        cdef const int64_t[::1] of = logged[0]
        cdef const uint64_t[:, ::1] own = logged[1]
        cdef Candidate *candidate
        cdef float similarity
        cdef Py_ssize_t i
        for i in range(of.shape[0]):
            candidate = &found[of[i]]
            similarity = sketches_alike(&self.shape.shape, sketches + <uint64_t>candidate.query * self.shape.shape.words,
                                        <const uint8_t *>&own[i, 0])
            if not candidate.similarity >= similarity:
                candidate.similarity = similarity
        return 0

    cdef tuple columns(self, const Candidate *found, uint64_t count, int64_t first_query):
        cdef int64_t[::1] query
        cdef uint64_t[::1] id
        cdef float[::1] similarity
        cdef uint16_t[::1] shared
        cdef uint64_t i
        queries, ids, similarities, bands = EMPTY(count, INT64), EMPTY(count, UINT64), EMPTY(count, FLOAT32), EMPTY(count, UINT16)
        query, id, similarity, shared = queries, ids, similarities, bands
        for i in range(count):
            query[i], id[i] = first_query + <int64_t>found[i].query, found[i].id
            similarity[i], shared[i] = found[i].similarity, found[i].shared
        return queries, ids if self.pending.with_ids else None, similarities, bands


cdef uint64_t keep_similar(Candidate *found, uint64_t count, float least) noexcept:
    cdef uint64_t i, kept = 0
    for i in range(count):
        if found[i].similarity >= least:
            found[kept] = found[i]
            kept += 1
    return kept
