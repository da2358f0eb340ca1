"""The Hamming search over the wide codes of a mapped segment (native/codes.h), and these codes by rank.

Where a region lies is the layout's to know, and a CodeIndex is told; that its numbers lie inside the file was checked.
"""

cimport cython
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset

import numpy as np

from fpstore._native cimport (
    MAX_CODE_WORDS,
    MAX_ENTRY_BITS,
    MAX_LEVELS,
    MAX_TAG_BITS,
    NO_PATTERNS,
    OK,
    TOO_MANY,
    VISIT_CODES,
    CodeMatches,
    CodeGuide,
    HeldCodes,
    Codes,
    CodeTable,
    Match,
    Status,
    c_codes_keys,
    code_pattern_count,
    code_patterns,
    codes_are_levelled,
    codes_near,
    codes_scan,
    codes_search,
    match_order,
    pages_check,
)
from fpstore._view cimport SegmentView, raise_status

from fpstore.errors import TooManyMatches

# The numbers of the kernels that their format and their planner share.
LIMITS = {"words": MAX_CODE_WORDS, "entry_bits": MAX_ENTRY_BITS, "tag_bits": MAX_TAG_BITS, "visit_codes": VISIT_CODES}


def code_keys(const uint64_t[:, ::1] codes not None, const uint64_t[::1] mask not None):
    """The bits of mask (uint64[words]) of each of codes (uint64[n, words]), in their order, as numbers: uint64[n]."""
    cdef uint64_t[::1] out
    if codes.shape[1] != mask.shape[0] or not 1 <= mask.shape[0] <= MAX_CODE_WORDS:
        raise ValueError(f"codes of {codes.shape[1]} words and a mask of {mask.shape[0]}")
    keys = np.empty(codes.shape[0], dtype=np.uint64)
    out = keys
    if codes.shape[0] > 0:
        with nogil:
            c_codes_keys(&codes[0, 0], <uint64_t>codes.shape[0], <unsigned>mask.shape[0], &mask[0], &out[0])
    return keys


def pattern_count(unsigned slot_bits, unsigned flips, uint64_t most):
    """How many slots a probe looks at that inverts at most `flips` of slot_bits bits; 2^40 for `most` or more."""
    return code_pattern_count(slot_bits, flips, most)


# Codes that all queries are compared with before the next ones: they stay in the first cache.
cdef uint64_t NEAR_CODES = 512


def near(const uint64_t[:, ::1] codes not None, const uint64_t[:, ::1] queries not None, unsigned distance, *,
         uint64_t most=0):
    """The index of every one of codes (uint64[n, words], 2 or 4 of them) within distance of each query, compared with all.

    Returns (query int64[r], index uint64[r], distance uint16[r]), ordered by (query, distance, index). TooManyMatches for
    more than most, unless that is 0.
    """
    cdef CodeMatches matches
    cdef Status status = OK
    cdef uint64_t i, first = 0, size, n = <uint64_t>codes.shape[0], count = <uint64_t>queries.shape[0]
    cdef unsigned words = <unsigned>codes.shape[1]
    expect_alike(codes.shape[1], queries.shape[1], count)
    memset(&matches, 0, cython.sizeof(CodeMatches))
    matches.most = most
    try:
        with nogil:
            while first < n and status == OK:
                size = min(NEAR_CODES, n - first)
                for i in range(count):
                    status = codes_near(&codes[0, 0], first, size, words, &queries[i, 0], <uint32_t>i, distance, &matches)
                    if status != OK:
                        break
                first += size
        if status == TOO_MANY:
            raise TooManyMatches.found(count, most, most, at_least=True)
        if status != OK:
            raise MemoryError(f"no memory for {matches.count} matches")
        return in_order(&matches)
    finally:
        free(matches.found)


def near_first(const uint64_t[:, ::1] codes not None, const uint64_t[::1] ids, const uint64_t[:, ::1] queries not None,
               unsigned distance, uint64_t keep, after=None):
    """Of what near() returns, the first `keep` of each query, by distance, code, id and index; in the order of near().

    ids: uint64[n], or None without. after: (distances uint16[m], indexes uint64[m]): of each query only what comes after
    that one of the codes, which is so far from it.
    """
    cdef CodeMatches matches
    cdef HeldCodes rows
    cdef Match bound
    cdef Status status = OK
    cdef uint64_t i, n = <uint64_t>codes.shape[0], count = <uint64_t>queries.shape[0]
    cdef const uint16_t[::1] distances = None
    cdef const uint64_t[::1] indexes = None
    expect_alike(codes.shape[1], queries.shape[1], count)
    if keep == 0 or (ids is not None and <uint64_t>ids.shape[0] != n):
        raise ValueError(f"keep {keep} of each query, ids of {n} codes: expected 1 or more, and as many or none")
    if after is not None:
        distances, indexes = bounds_of(after, count, n)
    rows.codes = &codes[0, 0] if n > 0 else NULL
    rows.ids = &ids[0] if ids is not None and n > 0 else NULL
    rows.words = <unsigned>codes.shape[1]
    memset(&matches, 0, cython.sizeof(CodeMatches))
    matches.keep, matches.rows = keep, &rows
    try:
        with nogil:
            for i in range(count if n > 0 else 0):
                matches.begin = matches.count
                if indexes is not None:
                    bound.fingerprint, bound.query, bound.distance = indexes[i], <uint32_t>i, distances[i]
                    matches.after = &bound
                status = codes_near(rows.codes, 0, n, rows.words, &queries[i, 0], <uint32_t>i, distance, &matches)
                if status != OK:
                    break
        if status != OK:
            raise MemoryError(f"no memory for {matches.count} matches")
        return in_order(&matches)
    finally:
        free(matches.found)


cdef expect_alike(Py_ssize_t words, Py_ssize_t query_words, uint64_t count):
    """ValueError for queries of other words than codes, or too many of them."""
    if words not in (2, 4) or query_words != words or count >> 32:
        raise ValueError(f"{count} queries of {query_words} words among codes of {words}: expected as many, 2 or 4")


cdef tuple bounds_of(after, uint64_t count, uint64_t most):
    """What the matches of each of count queries come after: distances, and ranks below most. ValueError for others."""
    distances, ranks = after
    if len(distances) != count or len(ranks) != count or (count and int(ranks.max()) >= most):
        raise ValueError(f"{len(distances)} distances and {len(ranks)} ranks for {count} queries among {most} codes")
    return distances, ranks


cdef tuple in_order(CodeMatches *matches):
    """What was found as columns, ordered by (query, distance, rank)."""
    cdef long long[::1] query
    cdef uint64_t[::1] rank
    cdef uint16_t[::1] bits
    cdef uint64_t i
    if matches.count > 1:
        with nogil:
            qsort(matches.found, matches.count, cython.sizeof(Match), match_order)
    out_query = np.empty(matches.count, dtype=np.int64)
    out_rank = np.empty(matches.count, dtype=np.uint64)
    out_bits = np.empty(matches.count, dtype=np.uint16)
    query, rank, bits = out_query, out_rank, out_bits
    for i in range(matches.count):
        query[i], rank[i] = matches.found[i].query, matches.found[i].fingerprint
        bits[i] = <uint16_t>matches.found[i].distance
    return out_query, out_rank, out_bits


cdef class CodeIndex:
    """The codes of a segment and its tables.

    record: has words, key_count, rank_bits, start_bytes, codes_offset. tables: each has used_mask (uint64[words]),
    slot_bits, tag_bits, flips, in_order, starts_offset, entries_offset.
    """

    def __cinit__(self, SegmentView view not None, record, tables):
        cdef CodeTable *table
        cdef const uint64_t[::1] mask
        cdef unsigned i
        cdef bint levelled
        memset(&self.codes, 0, cython.sizeof(Codes))
        self.view = view
        self.codes.words = record.words
        self.codes.rank_bits = record.rank_bits
        self.codes.start_bytes = record.start_bytes
        self.codes.count = record.key_count
        self.codes.codes_offset = record.codes_offset
        self.codes.tables = <CodeTable *>calloc(len(tables) + 1, cython.sizeof(CodeTable))
        if self.codes.tables == NULL:
            raise MemoryError()
        for each in tables:
            table = &self.codes.tables[self.codes.table_count]
            mask = each.used_mask
            for i in range(self.codes.words):
                table.mask[i] = mask[i]
            table.slot_bits, table.tag_bits, table.flips = each.slot_bits, each.tag_bits, each.flips
            table.in_order = each.in_order
            table.starts_offset, table.entries_offset = each.starts_offset, each.entries_offset
            table.pattern_count = code_pattern_count(table.slot_bits, table.flips, NO_PATTERNS)
            self.codes.table_count += 1
        levelled = codes_are_levelled(&self.codes)
        for i in range(self.codes.table_count):
            table = &self.codes.tables[i]
            self.hold_patterns(table, self.codes.highest if levelled else table.flips)
        if levelled:
            self.codes.guide = <CodeGuide *>calloc(1, cython.sizeof(CodeGuide))
            if self.codes.guide == NULL:
                raise MemoryError()

    cdef hold_patterns(self, CodeTable *table, unsigned flips):
        """Those of at most so many flips, as far as a search needs them: one that would look at more reads all codes."""
        cdef uint64_t most = self.codes.count // VISIT_CODES + 1, held = 0, count
        cdef uint64_t *patterns
        cdef unsigned level, last = 0
        for level in range(MAX_LEVELS):
            count = code_pattern_count(table.slot_bits, min(level, flips), NO_PATTERNS)
            table.level_patterns[level] = count if count <= most else NO_PATTERNS
        for level in range(min(flips, table.slot_bits) + 1):
            count = code_pattern_count(table.slot_bits, level, NO_PATTERNS)
            if count > most:
                break
            held, last = count, level
        if held > 0:
            patterns = <uint64_t *>malloc(held * cython.sizeof(uint64_t))
            if patterns == NULL:
                raise MemoryError()
            code_patterns(table.slot_bits, last, patterns)
            table.patterns = patterns

    def __dealloc__(self):
        cdef unsigned i
        for i in range(self.codes.table_count):
            free(<void *>self.codes.tables[i].patterns)
        free(self.codes.tables)
        if self.codes.guide != NULL:
            free(self.codes.guide.ranges)
        free(self.codes.guide)

    def search(self, const uint64_t[:, ::1] queries not None, unsigned distance, *, bint first_only=False,
               uint64_t most=0, bint scan=False, uint64_t keep=0, after=None):
        """The rank of every code within `distance` of each query (uint64[m, words], m below 2^32).

        first_only: stop at the first match of all. scan: read all codes, whatever that costs. Returns (query int64[r],
        rank uint64[r], distance uint16[r], whether all codes were read for some query), ordered by (query, distance,
        rank). CorruptStore where a page that is needed is damaged, or points elsewhere. TooManyMatches for more than
        most, unless that is 0. keep: 0, or how many of each query are kept, the first in that order, in memory for these;
        after: with keep, (distances uint16[m], ranks uint64[m]) of what the matches of each query come after.
        """
        cdef CodeMatches matches
        cdef Match bound
        cdef Status status = OK
        cdef uint64_t i, count = <uint64_t>queries.shape[0]
        cdef const uint16_t[::1] distances = None
        cdef const uint64_t[::1] indexes = None
        if count >> 32:
            raise ValueError(f"{count} queries in one batch: expected fewer than 2^32")
        if <uint64_t>queries.shape[1] != self.codes.words:
            raise ValueError(f"queries of {queries.shape[1]} words: expected {self.codes.words}")
        memset(&matches, 0, cython.sizeof(CodeMatches))
        matches.first_only, matches.most, matches.keep = first_only, most, keep
        if after is not None:
            distances, indexes = bounds_of(after, count, self.codes.count)
        self.view.enter()
        try:
            with nogil:
                for i in range(count):
                    matches.begin = matches.count
                    if indexes is not None:
                        bound.fingerprint, bound.query, bound.distance = indexes[i], <uint32_t>i, distances[i]
                        matches.after = &bound
                    if scan:
                        status = codes_scan(&self.view.pages, &self.codes, &queries[i, 0], i, distance, &matches)
                    else:
                        status = codes_search(&self.view.pages, &self.codes, &queries[i, 0], i, distance, &matches)
                    if status != OK or (first_only and matches.count > 0):
                        break
            raise_status(OK if status == TOO_MANY else status, self.view, "probe")
            if status == TOO_MANY:
                raise TooManyMatches.found(count, most, most, at_least=True)
            return *in_order(&matches), bool(matches.scanned)
        finally:
            free(matches.found)
            self.view.leave()

    @property
    def is_guided(self):
        """Whether ranks tell where a code is in the first table, and so which candidates need not be read."""
        return self.codes.guide != NULL and self.codes.guide.ranges != NULL

    def gather(self, const uint64_t[::1] ranks not None):
        """The codes of these ranks: uint64[n, words]. CorruptStore for a rank that no code has."""
        cdef uint64_t[:, ::1] out
        cdef Status status = OK
        cdef uint64_t i, offset, size = 8 * self.codes.words
        for i in range(<uint64_t>ranks.shape[0]):
            if ranks[i] >= self.codes.count:
                raise ValueError(f"rank {ranks[i]}: the segment has {self.codes.count} codes")
        codes = np.empty((ranks.shape[0], self.codes.words), dtype=np.uint64)
        out = codes
        self.view.enter()
        try:
            with nogil:
                for i in range(<uint64_t>ranks.shape[0]):
                    offset = self.codes.codes_offset + ranks[i] * size
                    status = pages_check(&self.view.pages, offset, offset)
                    if status != OK:
                        break
                    memcpy(&out[i, 0], self.view.pages.base + offset, size)
            raise_status(status, self.view, "codes")
        finally:
            self.view.leave()
        return codes

    def read(self, uint64_t first, uint64_t end):
        """The codes of ranks [first, end): uint64[n, words]."""
        cdef uint64_t[:, ::1] out
        cdef Status status = OK
        cdef uint64_t offset, size = 8 * self.codes.words
        if not first <= end <= self.codes.count:
            raise ValueError(f"ranks {first} to {end}: the segment has {self.codes.count}")
        codes = np.empty((end - first, self.codes.words), dtype=np.uint64)
        out = codes
        self.view.enter()
        try:
            if first < end:
                with nogil:
                    offset = self.codes.codes_offset + first * size
                    status = pages_check(&self.view.pages, offset, offset + (end - first) * size - 1)
                    if status == OK:
                        memcpy(&out[0, 0], self.view.pages.base + offset, (end - first) * size)
            raise_status(status, self.view, "codes")
        finally:
            self.view.leave()
        return codes
