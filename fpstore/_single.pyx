"""One query of one state of a store, in one call: what most calls are, with nothing in the way.

It answers or it says nothing. Where anything is uncommon (another state by now, an odd argument, damage, very many
rows) the answer is None, and the caller asks in the general way, which knows what is wrong and how to say it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from fpstore._native cimport (
    OK,
    MAX_CODE_WORDS,
    MAX_KEY_BITS,
    CodePart,
    CodeRows,
    FoundRows,
    Part,
    ScanRoom,
    Sources,
    Status,
    codes_any,
    codes_rows,
    keys_fit,
    single_any,
    single_order,
    single_search,
)
from fpstore._codes cimport CodeIndex
from fpstore._pending cimport PendingIndex
from fpstore._probe cimport IdColumn
from fpstore._scan cimport Scanner
from fpstore._view cimport Flipped, SegmentView, is_sound
from fpstore._watch cimport Watch

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object value) noexcept

cdef object NDARRAY = np.ndarray, INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64), UINT16 = np.dtype(np.uint16)


cdef enum:
    MOST_ROWS = 4096  # more are another answer than a single query mostly has
    FEW_ROWS = 64  # where the first is wanted, what reads no others is as fast from here on


cdef object column(object dtype, bytes data, tuple rows, object offset):
    # Of bytes, which nobody can write to.
    return NDARRAY(rows, dtype, data, offset)


# Columns of an answer of one row, which most have that are not empty.
cdef object FIRST = column(INT64, bytes(8), (1,), 0)
cdef list DISTANCES = [column(UINT16, bits.to_bytes(2, "little"), (1,), 0) for bits in range(65)]


cdef bint as_key(object value, uint64_t *key, unsigned bits) except -1:
    # Whether it is an int of so many bits; one of 64 may have a sign, as those of int64 do; of these most are.
    cdef int overflow = 0
    if type(value) is not int:
        return False
    key[0] = <uint64_t>PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow > 0:
        key[0] = PyLong_AsUnsignedLongLong(value)
        if key[0] == <uint64_t>-1 and PyErr_Occurred():
            PyErr_Clear()
            return False
    return overflow >= 0 and (bits == 64 or key[0] >> bits == 0)


cdef bint as_distance(object value, unsigned own, unsigned most, unsigned *distance) except -1:
    # Whether it is None, for the store's own, or a distance up to `most`.
    cdef int overflow = 0
    cdef long long number
    if value is None:
        distance[0] = own
        return own <= most
    if type(value) is not int:
        return False
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    distance[0] = <unsigned>number
    return overflow == 0 and 0 <= number <= most


cdef bint enter_all(tuple views) except -1:
    # Whether all are open; then none of them goes before leave_all().
    for view in views:
        if (<SegmentView>view).closed:
            return False
    for view in views:
        (<SegmentView>view).users += 1
    return True


cdef bint leave_all(tuple views) except -1:
    # Whether what was read may be believed.
    cdef bint sound = True
    for view in views:
        sound &= is_sound(<SegmentView>view)
        (<SegmentView>view).leave()
    return sound


# For looks at every key: those that nobody is using.
cdef list scanners = []


cdef bint is_newest(Watch watch) except -1:
    return watch is None or watch.holds_now()


cdef class Segments:
    """Segments as single queries want them: for each its view, its ids or None, its position and how many keys it has.

    flips: of each those of its tables, where they are looked up with others than their own, or None. reaches: what whoever
    asks remembers of them.
    """

    def __cinit__(self, parts, flips=None):
        cdef SegmentView view
        cdef IdColumn ids
        cdef Flipped tables
        cdef int i
        self.made_of, self.reaches, self.flipped = tuple(parts), {}, []
        self.views, self.ids = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        self.parts = <Part *>calloc(len(self.views) + 1, sizeof(Part))
        if self.parts == NULL:
            raise MemoryError()
        for i in range(len(self.views)):
            view, ids = self.views[i], self.ids[i]
            self.parts[i].pages, self.parts[i].tables = &view.pages, view.tables
            self.parts[i].table_count, self.parts[i].position = <unsigned>view.table_count, parts[i][2]
            self.parts[i].key_count = parts[i][3]
            if ids is not None:
                self.parts[i].ids = &ids.ids
            if flips is not None and flips[i] is not None:
                tables = Flipped(view, flips[i])
                self.flipped.append(tables)
                self.parts[i].tables = tables.tables

    def __dealloc__(self):
        free(self.parts)


cdef class Single:
    """Answers single queries from one state of a store.

    pending: the rows that are in no segment, up to pending_end. named: ids are handles, which have no sign. distance:
    that of the store; most: that of its plan. alive: tells which of fingerprints, ids or None and positions (uint64[n])
    live, bool[n], or None for all; None where nothing was removed. made: makes the answer of its columns. looks_up: up to
    which distance the plan's tables are looked up, -1 for none. scans: from which on, up to `most`, all keys are read.
    What lies between is not answered here.
    """

    def __cinit__(self, Segments segments not None, PendingIndex pending not None, uint64_t pending_end, bint named,
                  unsigned distance, unsigned most, alive, made, int looks_up=MAX_KEY_BITS, int scans=MAX_KEY_BITS + 1):
        pending.check_end(pending_end)
        self.segments, self.views, self.pending, self.with_ids = segments, segments.views, pending, pending.with_ids
        self.named, self.distance, self.most = named, distance, most
        self.alive, self.made, self.nothing = alive, made, [None, None]
        self.looks_up, self.scans = looks_up, scans
        self.sources.parts, self.sources.part_count = segments.parts, <unsigned>len(segments.views)
        self.sources.pending, self.sources.pending_end = &pending.pending, pending_end

    def grown(self, PendingIndex pending not None, uint64_t pending_end):
        """Of a state that differs in what is pending alone."""
        cdef Single following = Single(self.segments, pending, pending_end, self.named, self.distance, self.most, self.alive,
                                       self.made, self.looks_up, self.scans)
        following.nothing = self.nothing
        return following

    def probe(self, Watch watch, fingerprint, max_distance, bint signed):
        """What `made` makes of the matches of one fingerprint, in the order of an answer; None where it cannot tell.

        watch: over the catalog, of which this is the state that was read last; None where it need not be the newest.
        fingerprint: an int of 64 bits, with a sign or without. max_distance: that of the store where it is None. signed:
        fingerprints, and ids that are numbers, as int64.
        """
        cdef uint64_t key
        cdef unsigned distance
        if not (is_newest(watch) and as_key(fingerprint, &key, self.pending.bits)
                and as_distance(max_distance, self.distance, self.most, &distance)):
            return None
        return self.found(key, distance, MOST_ROWS, signed)

    def nearest(self, uint64_t fingerprint, unsigned distance):
        """As probe, the first row alone; None also where there are more than some. distance: at most that of the plan."""
        return self.first(fingerprint, distance)

    cdef object first(self, uint64_t key, unsigned distance):
        # As nearest.
        return self.found(key, distance, FEW_ROWS, False, True)

    def within(self, uint64_t fingerprint, uint64_t count, reaches):
        """The first `count` rows of a fingerprint within the first of reaches that has so many; False where none has, None
        where it cannot tell. reaches: distances, and the same segments with the flips that each takes."""
        cdef Segments reach
        cdef Status status = OK
        cdef FoundRows found
        cdef Sources sources = self.sources
        cdef unsigned distance
        found.rows, found.room, found.most = NULL, 0, FEW_ROWS
        self.pending.compare(self.sources.pending_end)
        try:
            for distance, reach in reaches:
                if reach.views != self.views:
                    raise ValueError("a reach of other segments")
                if not (keys_fit(&fingerprint, 1, self.pending.bits) and enter_all(self.views)):
                    return None
                sources.parts, found.count = reach.parts, 0
                with nogil:
                    status = single_search(&sources, fingerprint, distance, NULL, &found)
                if not self.leave() or status != OK:
                    return None
                if self.alive is not None and found.count >= count:
                    self.keep_alive(&found)
                single_order(&found)
                if found.count >= count:
                    found.count = count
                    return self.answer(&found, False)
            return False
        finally:
            free(found.rows)

    cdef object found(self, uint64_t key, unsigned distance, uint64_t most, bint signed, bint first_only=False):
        cdef Status status
        cdef FoundRows found
        cdef ScanRoom room
        cdef Scanner scanner
        if distance > self.most or not keys_fit(&key, 1, self.pending.bits) or not self.enter(distance):
            return None
        scanner = self.scanner(distance, &room)
        found.rows, found.count, found.room, found.most = NULL, 0, 0, most
        with nogil:
            status = single_search(&self.sources, key, distance, &room if room.chunk != NULL else NULL, &found)
        if scanner is not None:
            scanners.append(scanner)
        try:
            if not self.leave() or status != OK:
                return None
            if found.count > 0:
                if self.alive is not None:
                    self.keep_alive(&found)
                single_order(&found)
                if first_only and found.count > 1:
                    found.count = 1
            return self.answer(&found, signed) if scanner is None else self.made(self.columns(&found, signed), "scan")
        finally:
            free(found.rows)

    def contains(self, Watch watch, fingerprint, max_distance):
        """Whether anything is within the distance, None where it cannot tell; as probe, and stops at the first."""
        cdef uint64_t key
        cdef unsigned distance
        cdef Status status
        cdef int any = 0
        cdef ScanRoom room
        cdef Scanner scanner
        if self.alive is not None:
            found = self.probe(watch, fingerprint, max_distance, False)
            return None if found is None else len(found) > 0
        if not (is_newest(watch) and as_key(fingerprint, &key, self.pending.bits)
                and as_distance(max_distance, self.distance, self.most, &distance) and self.enter(distance)):
            return None
        scanner = self.scanner(distance, &room)
        with nogil:
            status = single_any(&self.sources, key, distance, &room if room.chunk != NULL else NULL, &any)
        if scanner is not None:
            scanners.append(scanner)
        return any != 0 if self.leave() and status == OK else None

    def each(self, const uint64_t[::1] queries not None, unsigned distance, bint first_only):
        """How many rows these queries have, each asked for alone: the time of a call without Python's part of it."""
        cdef uint64_t count = 0
        cdef Py_ssize_t i
        cdef int any
        cdef Status status = OK
        cdef FoundRows found
        cdef ScanRoom room
        cdef Scanner scanner
        found.rows, found.room, found.most = NULL, 0, MOST_ROWS
        if queries.shape[0] > 0 and not keys_fit(&queries[0], <uint64_t>queries.shape[0], self.pending.bits):
            return None
        if not self.enter(distance):
            return None
        scanner = self.scanner(distance, &room)
        with nogil:
            for i in range(queries.shape[0]):
                found.count = any = 0
                if first_only:
                    status = single_any(&self.sources, queries[i], distance, &room if room.chunk != NULL else NULL, &any)
                else:
                    status = single_search(&self.sources, queries[i], distance, &room if room.chunk != NULL else NULL, &found)
                    single_order(&found)
                if status != OK:
                    break
                count += found.count + any
        free(found.rows)
        if scanner is not None:
            scanners.append(scanner)
        return count if self.leave() and status == OK else None

    cdef Scanner scanner(self, unsigned distance, ScanRoom *room):
        # Where all keys are read, what they are decoded to.
        cdef Scanner taken
        room.chunk = NULL
        if <int>distance < self.scans:
            return None
        taken = scanners.pop() if scanners else Scanner()
        room.chunk, room.room = taken.chunk, taken.room
        return taken

    cdef bint enter(self, unsigned distance) except -1:
        # Whether all segments are open, and what is asked for is answered here; then none of them goes before leave().
        if self.looks_up < <int>distance < self.scans:
            return False
        self.pending.compare(self.sources.pending_end)
        return enter_all(self.views)

    cdef bint leave(self) except -1:
        return leave_all(self.views)

    cdef int keep_alive(self, FoundRows *found) except -1:
        cdef uint64_t i, kept = 0
        cdef uint64_t[::1] fingerprint, id, position
        cdef const unsigned char[::1] lives
        fingerprints, ids, positions = (np.empty(found.count, UINT64) for _ in range(3))
        fingerprint, id, position = fingerprints, ids, positions
        for i in range(found.count):
            fingerprint[i], id[i], position[i] = found.rows[i].fingerprint, found.rows[i].id, found.rows[i].position
        mask = self.alive(fingerprints, ids if self.with_ids else None, positions)
        if mask is None:
            return 0
        lives = mask.view(np.uint8)
        for i in range(found.count):
            if lives[i]:
                found.rows[kept] = found.rows[i]
                kept += 1
        found.count = kept
        return 0

    cdef object answer(self, FoundRows *found, bint signed):
        # Of no rows, always the same.
        if found.count > 0:
            return self.made(self.columns(found, signed))
        if self.nothing[signed] is None:
            self.nothing[signed] = self.made(self.columns(found, signed))
        return self.nothing[signed]

    cdef tuple columns(self, FoundRows *found, bint signed):
        # query, fingerprint, distance, and id or None.
        cdef uint64_t n = found.count, i
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(18 * n))
        cdef uint64_t *fingerprint = <uint64_t *>PyBytes_AS_STRING(data)
        cdef uint64_t *id = fingerprint + n
        cdef uint16_t *bits = <uint16_t *>(id + n)
        cdef object number = INT64 if signed else UINT64, rows = (n,)
        for i in range(n):
            fingerprint[i], id[i], bits[i] = found.rows[i].fingerprint, found.rows[i].id, <uint16_t>found.rows[i].distance
        return (FIRST if n == 1 else column(INT64, bytes(8 * n), rows, 0), column(number, data, rows, 0),
                DISTANCES[bits[0]] if n == 1 else column(UINT16, data, rows, 16 * n),
                column(UINT64 if self.named else number, data, rows, 8 * n) if self.with_ids else None)


cdef class SingleCodes:
    """Answers single queries from one state of a store of wide codes, of which nothing waits for a segment or was removed.

    parts: of each segment its codes, and its ids or None. with_ids: whether rows have ids. distance, most, made: as for Single.
    """

    cdef tuple indexes, ids, views
    cdef CodePart *parts
    cdef unsigned words, distance, most, part_count
    cdef bint with_ids
    cdef object made, nothing

    def __cinit__(self, parts, unsigned bits, bint with_ids, unsigned distance, unsigned most, made):
        cdef CodeIndex index
        cdef IdColumn ids
        cdef unsigned i
        self.words, self.with_ids, self.distance, self.most = bits // 64, with_ids, distance, most
        self.made, self.nothing = made, None
        self.indexes, self.ids = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        self.part_count = <unsigned>len(self.indexes)
        self.views = tuple((<CodeIndex?>part).view for part in self.indexes)
        self.parts = <CodePart *>calloc(self.part_count + 1, sizeof(CodePart))
        if self.parts == NULL:
            raise MemoryError()
        for i in range(self.part_count):
            index, ids = self.indexes[i], self.ids[i]
            if index.codes.words != self.words:
                raise ValueError(f"codes of {index.codes.words} words: expected {self.words}")
            self.parts[i].pages, self.parts[i].codes = &index.view.pages, &index.codes
            if ids is not None:
                self.parts[i].ids = &ids.ids

    def __dealloc__(self):
        free(self.parts)

    def probe(self, Watch watch, fingerprint, max_distance, bint signed):
        """As that of Single; fingerprint: an int, bytes or uint64[words]. None for signed ones, too."""
        cdef uint64_t query[MAX_CODE_WORDS]
        cdef unsigned distance
        cdef Status status
        cdef CodeRows found
        if not (not signed and is_newest(watch) and self.as_code(fingerprint, query)
                and as_distance(max_distance, self.distance, self.most, &distance) and enter_all(self.views)):
            return None
        found.rows, found.count, found.room, found.most = NULL, 0, 0, MOST_ROWS
        with nogil:
            status = codes_rows(self.parts, self.part_count, query, distance, &found)
        try:
            return self.answer(&found) if leave_all(self.views) and status == OK else None
        finally:
            free(found.rows)

    def contains(self, Watch watch, fingerprint, max_distance):
        """As that of Single."""
        cdef uint64_t query[MAX_CODE_WORDS]
        cdef unsigned distance
        cdef Status status
        cdef int any = 0
        if not (is_newest(watch) and self.as_code(fingerprint, query)
                and as_distance(max_distance, self.distance, self.most, &distance) and enter_all(self.views)):
            return None
        with nogil:
            status = codes_any(self.parts, self.part_count, query, distance, &any)
        return any != 0 if leave_all(self.views) and status == OK else None

    cdef bint as_code(self, object value, uint64_t *code) except -1:
        # Whether it is a fingerprint in one of the forms that are common.
        cdef const uint64_t[::1] row
        cdef bytes data
        cdef unsigned i
        if type(value) is NDARRAY:
            if value.dtype != UINT64 or value.ndim != 1 or not value.flags.c_contiguous or len(value) != self.words:
                return False
            row = value
            memcpy(code, &row[0], 8 * self.words)
            return True
        if type(value) is bytes and len(value) == 8 * self.words:
            data = value[::-1]
        elif type(value) is int and value >= 0 and value.bit_length() <= 64 * self.words:
            data = value.to_bytes(8 * self.words, "little")
        else:
            return False
        for i in range(self.words):
            memcpy(&code[i], PyBytes_AS_STRING(data) + 8 * (self.words - 1 - i), 8)
        return True

    cdef object answer(self, CodeRows *found):
        # Of no rows that were looked up, always the same.
        if found.scanned:
            return self.made(self.columns(found), "scan")
        if found.count > 0:
            return self.made(self.columns(found))
        if self.nothing is None:
            self.nothing = self.made(self.columns(found))
        return self.nothing

    cdef tuple columns(self, CodeRows *found):
        # query, fingerprint, distance, and id or None.
        cdef uint64_t n = found.count, i
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>((8 * self.words + 10) * n))
        cdef uint64_t *code = <uint64_t *>PyBytes_AS_STRING(data)
        cdef uint64_t *id = code + self.words * n
        cdef uint16_t *bits = <uint16_t *>(id + n)
        cdef object rows = (n,)
        for i in range(n):
            memcpy(code + i * self.words, found.rows[i].code, 8 * self.words)
            id[i], bits[i] = found.rows[i].id, <uint16_t>found.rows[i].distance
        return (FIRST if n == 1 else column(INT64, bytes(8 * n), rows, 0), column(UINT64, data, (n, self.words), 0),
                column(UINT16, data, rows, 8 * (self.words + 1) * n),
                column(UINT64, data, rows, 8 * self.words * n) if self.with_ids else None)
