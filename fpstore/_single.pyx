"""One query of one state of a store, in one call: what most calls are, with nothing in the way.

It answers or it says nothing. Where anything is uncommon (another state by now, an odd argument, damage, very many
rows) the answer is None, and the caller asks in the general way, which knows what is wrong and how to say it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fpstore._answers cimport INT64, NDARRAY, UINT64, Answers
from fpstore._native cimport (
    OK, MAX_KEY_BITS, FoundRow, FoundRows, Part, ScanRoom, Sources, Status, code_ask, code_before_scan,
    found_free, found_init, keys_fit, parts_free_several, parts_make_several, search_ask_code, part_ask,
    part_together, single_any, single_note_code, single_order, single_search,
)
from fpstore._following cimport Following
from fpstore._pending cimport PendingIndex
from fpstore._probe cimport IdColumn
from fpstore._reaches cimport Reaches
from fpstore._scan cimport Scanner
from fpstore._source cimport is_main
from fpstore._view cimport Flipped, SegmentView, enter_open, is_sound, leave_open
from fpstore._watch cimport Watch

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *state)

cdef extern from *:
    """
    #define METHODS(module, kind) __pyx_vtabptr_7fpstore_##module##_##kind
    #define NOTE(noted, code, lines) code_note(&noted, (const void *)(code), lines)
    #define fpstore_note_methods(enter, leave, searched) do { \
        NOTE(code_before_scan, METHODS(6_watch, Watch)->holds_now, 4); \
        NOTE(code_before_scan, METHODS(6_watch, Watch)->may_hold, 2); \
        NOTE(code_before_scan, METHODS(6_watch, MappedWords)->are, 1); \
        NOTE(code_before_scan, &clock_gettime, 2); \
        NOTE(code_before_scan, METHODS(7_single, Single)->first_rows, 18); \
        NOTE(code_before_scan, METHODS(7_single, Single)->newest, 3); \
        NOTE(code_before_scan, METHODS(7_single, Segments)->reaches_of, 3); \
        NOTE(code_before_scan, METHODS(8_pending, PendingIndex)->compare, 4); \
        NOTE(code_before_scan, METHODS(7_single, Single)->search, 6); \
        NOTE(code_before_scan, enter, 5); \
        NOTE(code_before_scan, __pyx_f_7fpstore_7_source_is_main, 1); \
        NOTE(code_before_scan, &PyThread_get_thread_ident, 1); \
        NOTE(code_before_scan, searched, 3); \
        NOTE(code_from_scan, leave, 6); \
        NOTE(code_from_scan, METHODS(7_single, Single)->told, 4); \
        NOTE(code_from_scan, METHODS(8_reaches, Reaches)->told, 3); \
        NOTE(code_from_scan, METHODS(7_single, Single)->answer, 5); \
        NOTE(code_from_scan, METHODS(8_answers, Answers)->of_one, 6); \
        NOTE(code_from_scan, METHODS(8_answers, Answers)->filled, 3); \
    } while (0)
    """
    void note_methods "fpstore_note_methods"(const void *enter, const void *leave, const void *searched) noexcept


cdef void note_code() noexcept:
    # Once, in the order in which a query comes to it.
    note_methods(<const void *>&enter_all, <const void *>&leave_all, <const void *>&searched)
    single_note_code()


note_code()


cdef void ask_code() noexcept:
    # Ask for the code that a query goes through beside its search, which after other work no near cache has.
    code_ask(&code_before_scan)


cdef bint enter_all(tuple views) except -1:
    # Whether all are open; then none of them goes before leave_all().
    cdef Py_ssize_t i
    cdef bint main = is_main()
    for i in range(len(views)):
        if (<SegmentView>views[i]).closed:
            return False
    for i in range(len(views)):
        enter_open(<SegmentView>views[i], main)
    return True


cdef bint leave_all(tuple views) except -1:
    # Whether what was read may be believed.
    cdef Py_ssize_t i
    cdef bint sound = True, main = is_main()
    for i in range(len(views)):
        sound &= is_sound(<SegmentView>views[i])
        leave_open(<SegmentView>views[i], main)
    return sound


cdef Status searched(
    const Sources *sources, uint64_t key, unsigned distance, ScanRoom *scan, bint is_here, FoundRows *found
) noexcept:
    # single_search(), in which other threads run, where there are any. No look-up of what is here takes long, and to let
    # others run takes half a microsecond after other work.
    cdef PyThreadState *own = NULL
    cdef Status status
    if not (is_here and scan == NULL and is_alone()):
        own = PyEval_SaveThread()
    status = single_search(sources, key, distance, scan, found)
    if own != NULL:
        PyEval_RestoreThread(own)
    return status


# For looks at every key: those that nobody is using.
cdef list scanners = []


cdef bint is_newest(Watch watch, single) except -1:
    # Whether what answers from a state may: always without a watch, else where that state is the newest.
    cdef Following known
    if watch is None:
        return True
    known = watch.following
    return watch.holds_now() and (known is None or known.has(single))


cdef class Segments:
    """Segments as single queries want them: for each its view, its ids or None, its position and how many keys it has.

    flips: of each those of its tables, where they are looked up with others than their own, or None. reaches: by a distance
    and a count of rows, what is remembered of single queries for these; by the number of queries too, of a few together.
    """

    def __cinit__(self, parts, flips=None):
        cdef SegmentView view
        cdef IdColumn ids
        cdef Flipped tables
        cdef int i
        self.is_here = True
        self.made_of, self.reaches, self.others, self.flipped = tuple(parts), {}, {}, []
        self.views, self.ids = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        self.parts = <Part *>calloc(len(self.views) + 1, sizeof(Part))
        if self.parts == NULL:
            raise MemoryError()
        for i in range(len(self.views)):
            view, ids = self.views[i], self.ids[i]
            self.is_here = self.is_here and view.lying is None
            self.parts[i].pages, self.parts[i].tables = &view.pages, view.tables
            self.parts[i].table_count, self.parts[i].position = <unsigned>view.table_count, parts[i][2]
            self.parts[i].key_count = parts[i][3]
            self.key_count += self.parts[i].key_count
            if ids is not None:
                self.parts[i].ids = &ids.ids
            if flips is not None and flips[i] is not None:
                tables = Flipped(view, flips[i])
                self.flipped.append(tables)
                self.parts[i].tables = tables.tables
        self.part_count = <unsigned>len(self.views)
        parts_make_several(self.parts, self.part_count)

    def __dealloc__(self):
        parts_free_several(self.parts, self.part_count)
        free(self.parts)

    @property
    def together(self):
        """Of those that are looked up together, how many, for each first one of several: {number: count}."""
        return {i: part_together(&self.parts[i]) for i in range(self.part_count) if part_together(&self.parts[i]) > 0}

    cdef Reaches reaches_of(self, unsigned distance, unsigned count):
        # Those of reaches. What asks as the query before it needs no dictionary, of which after other work no cache has any.
        if self.recent is None or self.recent_distance != distance or self.recent_count != count:
            self.recent = self.reaches.get((distance, count))
            self.recent_distance, self.recent_count = distance, count
        return self.recent

    cdef Segments looked_up(self, tuple flips):
        # The same segments, of which each is looked up with these flips, or with its own where they are None.
        if flips not in self.others:
            self.others[flips] = Segments(self.made_of, flips)
        return self.others[flips]

    cdef int take(self, Reaches reaches) except -1:
        # Radii that were of no segments are of these.
        if reaches.made_of is not None:
            raise ValueError("a reach of other segments")
        reaches.made_of = self.made_of
        return 0

    cdef int look_up(self, Reaches reaches, int at) except -1:
        # Have what is looked up within a radius, where nothing was yet.
        cdef Segments found = self.looked_up(reaches.lookups[at])
        if reaches.parts[at] == NULL:  # others may have had it meanwhile, and look at theirs
            reaches.lookups[at] = found
            reaches.parts[at] = found.parts
        return 0


cdef class Single:
    """Answers single queries from one state of a store.

    pending: the rows that are in no segment, up to pending_end. distance: that of the store; most: that of its plan. alive: tells which of fingerprints, ids or None and positions (uint64[n])
    live, bool[n], or None for all; None where nothing was removed. answers: makes them of rows. looks_up: up to which
    distance the plan's tables are looked up, -1 for none. scans: from which on, up to `most`, all keys are read. What
    lies between is not answered here.
    """

    def __init__(self, Segments segments not None, PendingIndex pending not None, uint64_t pending_end,
                 unsigned distance, unsigned most, alive, Answers answers not None,
                 int looks_up=MAX_KEY_BITS, int scans=MAX_KEY_BITS + 1):
        pending.check_end(pending_end)
        self.segments, self.views, self.pending, self.with_ids = segments, segments.views, pending, pending.with_ids
        self.distance, self.most = distance, most
        if answers.words or answers.with_ids != self.with_ids:
            raise ValueError(f"answers of {answers.words} words, ids {answers.with_ids}: expected 0, {self.with_ids}")
        self.alive, self.answers, self.nothing = alive, answers, [None, None]
        self.looks_up, self.scans = looks_up, scans
        self.sources.parts, self.sources.part_count = segments.parts, <unsigned>len(segments.views)
        self.sources.pending, self.sources.pending_end = &pending.pending, pending_end

    @property
    def reaches(self):
        """Those of the segments."""
        return self.segments.reaches

    def grown(self, PendingIndex pending not None, uint64_t pending_end):
        """Of a state that differs in what is pending alone. Copied, as __init__ takes most of what a small commit takes."""
        cdef Single made = Single.__new__(Single)
        pending.check_end(pending_end)
        made.segments, made.views, made.pending, made.with_ids = self.segments, self.views, pending, self.with_ids
        made.distance, made.most, made.looks_up, made.scans = self.distance, self.most, self.looks_up, self.scans
        made.alive, made.answers, made.nothing = self.alive, self.answers, self.nothing
        made.sources.parts, made.sources.part_count = self.sources.parts, self.sources.part_count
        made.sources.pending, made.sources.pending_end = &pending.pending, <uint32_t>pending_end
        return made

    def probe(self, Watch watch, fingerprint, max_distance, bint signed):
        """The matches of one fingerprint, as `answers` makes them, in the order of an answer; None where it cannot tell.

        watch: over the catalog, of which this is the state that was read last; None where it need not be the newest.
        fingerprint: an int of 64 bits, with a sign or without. max_distance: that of the store where it is None. signed:
        fingerprints, and ids that are numbers, as int64.
        """
        cdef uint64_t key
        cdef unsigned distance
        cdef Single single = self.newest(watch)
        if not (single is not None and as_key(fingerprint, &key, self.pending.bits)
                and as_distance(max_distance, self.distance, self.most, &distance)):
            return None
        return single.found(key, distance, MOST_ROWS, signed)

    cdef Single newest(self, Watch watch):
        # What answers from the newest state: this one, or what it has become or becomes as rows come. None for neither.
        cdef Following known
        if watch is None:
            return self
        known = watch.following
        if watch.holds_now():
            if known is not None and known.is_unready:
                known.make_ready()
        elif known is None or not known.follow_now(watch):
            return None
        if known is not None and known.single is not None:
            return known.single
        return self if known is None or known.has(self) else None

    def nearest(self, uint64_t fingerprint, unsigned distance):
        """As probe, the first row alone; None also where there are more than some. distance: at most that of the plan."""
        return self.nearest_row(fingerprint, distance)

    cdef object nearest_row(self, uint64_t key, unsigned distance):
        # As nearest.
        return self.found(key, distance, FEW_ROWS, False, True)

    def first(self, Watch watch, fingerprint, count, max_distance, bint signed, Reaches reaches=None, scanned=None):
        """The first `count` rows of a fingerprint, within max_distance where it is not None; as probe.

        Looks within the radii of reaches, by default those that are remembered of this distance and count, then at all keys if
        these were read before and are at most `scanned`, by default what reaches says. False where enough is not within the
        radii, and the rest is not looked at here. True, and nothing is looked at, where another state may be the newest:
        with no watch the newest one answers.
        """
        return self.first_rows(watch, fingerprint, count, max_distance, signed, reaches, scanned)

    cdef object first_rows(self, Watch watch, fingerprint, count, max_distance, bint signed, Reaches reaches, scanned):
        # As first. After other work no near cache has the code of the search: it comes while what is before it runs.
        search_ask_code()
        cdef uint64_t key
        cdef uint64_t wanted
        cdef unsigned distance
        cdef int at = 0
        cdef FoundRows found
        if not (not self.answers.named and as_key(count, &wanted, 64) and 0 < wanted <= FEW_ROWS
                and as_key(fingerprint, &key, self.pending.bits) and keys_fit(&key, 1, self.pending.bits)
                and as_distance(max_distance, self.pending.bits, self.pending.bits, &distance)):
            return None
        cdef Single single = self.newest(watch)
        if single is not self:
            return single is None or single.first_rows(None, fingerprint, count, max_distance, signed, reaches, scanned)
        if reaches is None:
            reaches = self.segments.reaches_of(distance, <unsigned>wanted)
        if reaches is None or reaches.lookups is None:
            return None
        found_init(&found, MOST_ROWS, 0 if self.alive is not None else wanted)
        self.pending.compare(self.sources.pending_end)
        try:
            while reaches.next_of[at] < reaches.count:
                at = reaches.next_of[at]
                if reaches.made_of is not self.segments.made_of:
                    self.segments.take(reaches)
                if reaches.parts[at] == NULL:
                    self.segments.look_up(reaches, at)
                part_ask(<const Part *>reaches.parts[at])
                if not self.search(<const Part *>reaches.parts[at], key, reaches.ends[at], None, &found):
                    return None
                at += 1
                if found.count >= wanted or (reaches.whole and at == reaches.count):
                    return self.told(reaches, &found, wanted, signed)
            if self.alive is not None or not reaches.reads(self.segments.key_count, scanned):
                return False
            scanner = scanners.pop() if scanners else Scanner()
            try:
                if not self.search(self.segments.parts, key, distance, scanner, &found):
                    return None
            finally:
                scanners.append(scanner)
            return self.told(reaches, &found, wanted, signed, "scan")
        finally:
            found_free(&found)

    cdef object told(self, Reaches reaches, FoundRows *found, uint64_t count, bint signed, method=None):
        # The first rows of these; of their last one the radii are told.
        reaches.told(found.rows[count - 1].distance if found.count >= count else MAX_KEY_BITS + 1, 1)
        found.count = min(found.count, count)
        return self.answer(found, signed, method)

    cdef bint search(self, const Part *parts, uint64_t key, unsigned distance, Scanner scanner, FoundRows *found) except -1:
        # Whether what is within the distance was found, what lives of it, in order.
        cdef Sources sources = self.sources
        cdef ScanRoom room
        cdef Status status
        if not enter_all(self.views):
            return False
        sources.parts, found.count, room.chunk = parts, 0, NULL
        if scanner is not None:
            room.chunk, room.room = scanner.chunk, scanner.room
        status = searched(&sources, key, distance, &room if room.chunk != NULL else NULL, self.segments.is_here, found)
        if not self.leave() or status != OK:
            return False
        if self.alive is not None and found.count > 0:
            self.keep_alive(found)
        single_order(found)
        return True

    cdef object found(self, uint64_t key, unsigned distance, uint64_t most, bint signed, bint first_only=False):
        cdef Status status
        cdef FoundRows found
        cdef ScanRoom room
        cdef Scanner scanner
        if distance > self.most or not keys_fit(&key, 1, self.pending.bits) or not self.enter(distance):
            return None
        scanner = self.scanner(distance, &room)
        found_init(&found, most, 0)
        status = searched(
            &self.sources, key, distance, &room if room.chunk != NULL else NULL, self.segments.is_here, &found
        )
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
            return self.answer(&found, signed, None if scanner is None else "scan")
        finally:
            found_free(&found)

    def contains(self, Watch watch, fingerprint, max_distance):
        """Whether anything is within the distance, None where it cannot tell; as probe, and stops at the first."""
        cdef uint64_t key
        cdef unsigned distance
        cdef Status status
        cdef int any = 0
        cdef ScanRoom room
        cdef Scanner scanner
        single = self.newest(watch)
        if single is not self:
            return None if single is None else single.contains(None, fingerprint, max_distance)
        if self.alive is not None:
            found = self.probe(None, fingerprint, max_distance, False)
            return None if found is None else len(found) > 0
        if not (as_key(fingerprint, &key, self.pending.bits)
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
        found_init(&found, MOST_ROWS, 0)
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
        found_free(&found)
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

    cdef object answer(self, FoundRows *found, bint signed, method=None):
        # Of no rows that were looked up, always the same.
        cdef const FoundRow *row = found.rows
        if found.count == 1:
            return self.answers.of_one(row.fingerprint, row.id, row.distance, signed, method)
        if found.count > 0 or method is not None:
            return self.answers.of(self.rows(found), signed, method)
        if self.nothing[signed] is None:
            self.nothing[signed] = self.answers.of(self.rows(found), signed, None)
        return self.nothing[signed]

    cdef bytes rows(self, FoundRows *found):
        # As Answers has them.
        cdef uint64_t n = found.count, i
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(18 * n))
        cdef uint64_t *fingerprint = <uint64_t *>PyBytes_AS_STRING(data)
        cdef uint64_t *id = fingerprint + n
        cdef uint16_t *bits = <uint16_t *>(id + n)
        for i in range(n):
            fingerprint[i], id[i], bits[i] = found.rows[i].fingerprint, found.rows[i].id, <uint16_t>found.rows[i].distance
        return data
