"""The Hamming search over a mapped segment, and the ids of what it finds.

One call answers a whole batch with the lock released. Which segments a store has, and how their answers
combine, is the store's to know.
"""

cimport cython
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset

import numpy as np

from fpstore._native cimport (
    OK,
    TOO_MANY,
    Ids, IdSet, IdWalk,
    Match, Search, Status, Table,
    id_of_value,
    id_set_fill,
    ids_find, ids_of_key, ids_range, ids_walk,
    keys_fit,
    listed_places,
    match_keep_room,
    match_order,
    packed_get,
    permute_keys,
    places_of_ids,
    scan_keys,
    search_init, search_run, search_touch,
    table_key,
    unpermute_keys,
)
from fpstore._view cimport Flipped, SegmentView, raise_status

from fpstore.errors import TooManyMatches


cdef enum:
    MIN_FILTER_BITS = 10
    MAX_FILTER_BITS = 28


cdef tuple columns_of(const Search *state):
    cdef uint64_t i
    cdef long long[::1] query
    cdef unsigned long long[::1] fingerprint
    cdef uint16_t[::1] bits
    out_query = np.empty(state.match_count, dtype=np.int64)
    out_fingerprint = np.empty(state.match_count, dtype=np.uint64)
    out_bits = np.empty(state.match_count, dtype=np.uint16)
    query, fingerprint, bits = out_query, out_fingerprint, out_bits
    for i in range(state.match_count):
        query[i] = state.matches[i].query
        fingerprint[i] = state.matches[i].fingerprint
        bits[i] = <uint16_t>state.matches[i].distance
    return out_query, out_fingerprint, out_bits


cdef object run(SegmentView view, const uint64_t[::1] queries, unsigned distance, bint first_only, bint each,
                uint64_t *blocks, uint64_t most=0, uint64_t keep=0, const Match *after=NULL, flips=None):
    """search(), and how many blocks were decoded for it; each: answer one query before turning to the next.

    keep, after: see nearest(). The rest of most and flips is search()'s.
    """
    cdef Search state
    cdef Flipped flipped
    cdef Status status = OK
    cdef uint64_t i, count = <uint64_t>queries.shape[0]
    if count >> 32:
        raise ValueError(f"{count} queries in one batch: expected fewer than 2^32")
    if count > 0 and not keys_fit(&queries[0], count, view.bits):
        raise ValueError(f"queries: found one of more bits, expected {view.bits}")
    search_init(&state, &view.pages, view.tables, <unsigned>view.table_count, distance, count)
    if flips is not None:
        flipped = Flipped(view, flips)
        state.tables = flipped.tables
    state.first_only = first_only
    state.match_most = most
    state.keep = keep
    state.keep_room = match_keep_room(count, keep)
    state.query_count = count
    state.after = after
    view.enter()
    try:
        if count > 0:
            with nogil:
                if each:
                    for i in range(count):
                        status = search_run(&state, &queries[i], 1, i)
                        if status != OK:
                            break
                else:
                    status = search_run(&state, &queries[0], count, 0)
                if status == OK and keep == 0 and state.match_count > 1:
                    qsort(state.matches, state.match_count, sizeof(Match), match_order)
        raise_status(OK if status == TOO_MANY else status, view, "probe")
        if status == TOO_MANY:
            raise TooManyMatches.found(count, most, most, at_least=True)
        blocks[0] = state.blocks_scanned
        return columns_of(&state)
    finally:
        free(state.matches)
        free(state.bounds)
        view.leave()


def search(SegmentView view not None, const uint64_t[::1] queries not None, unsigned distance, *, bint first_only=False,
           uint64_t most=0, flips=None):
    """Every fingerprint of the segment within `distance` bits of each query.

    queries: uint64[m], m below 2^32. distance: at most the plan's k. first_only: stop at the first match of all. flips: of
    each table another number than the plan's, and then distance is at most what the tables so answer.
    Returns (query int64[r], fingerprint uint64[r], distance uint16[r]), ordered by (query, distance, fingerprint).
    CorruptStore where a page or a block needed for the answer is damaged. TooManyMatches for more than most, unless
    that is 0.
    """
    cdef uint64_t blocks
    return run(view, queries, distance, first_only, False, &blocks, most, 0, NULL, flips)


cdef Match *after_each(bits, fingerprints, uint64_t count) except? NULL:
    cdef const uint16_t[::1] distances
    cdef const uint64_t[::1] keys
    cdef Match *after
    cdef uint64_t i
    if bits is None:
        return NULL
    distances, keys = bits, fingerprints
    if <uint64_t>distances.shape[0] != count or <uint64_t>keys.shape[0] != count:
        raise ValueError(f"{len(bits)} distances and {len(fingerprints)} fingerprints for {count} queries")
    after = <Match *>malloc((count + 1) * sizeof(Match))
    if after == NULL:
        raise MemoryError()
    for i in range(count):
        after[i].query, after[i].distance, after[i].fingerprint = <uint32_t>i, distances[i], keys[i]
    return after


def nearest(SegmentView view not None, const uint64_t[::1] queries not None, unsigned distance, uint64_t keep=1,
            after_bits=None, after_fingerprints=None, flips=None):
    """Of what search() returns, for each query the first `keep`, 1 or more, that come after a distance and a fingerprint.

    after_bits, after_fingerprints: uint16[m] and uint64[m], or None for all. However many matches there are, 2 * m * keep
    of them are held at a time, or 1,024.
    """
    cdef uint64_t blocks
    cdef Match *after = after_each(after_bits, after_fingerprints, <uint64_t>queries.shape[0])
    try:
        return run(view, queries, distance, False, False, &blocks, 0, keep, after, flips)
    finally:
        free(after)


def search_each(SegmentView view not None, const uint64_t[::1] queries not None, unsigned distance):
    """search(), one query after the other: what a caller with one query at a time gets, without Python's part of it."""
    cdef uint64_t blocks
    return run(view, queries, distance, False, True, &blocks)


def blocks_decoded(SegmentView view not None, const uint64_t[::1] queries not None, unsigned distance):
    """How many blocks search() decodes for these queries, to be held against the planner's prediction."""
    cdef uint64_t blocks
    run(view, queries, distance, False, False, &blocks)
    return blocks


def scan(const uint64_t[::1] keys not None, uint64_t query, unsigned distance):
    """How many of keys (uint64[n], any order) are within `distance` of query, by looking at all: the machine's limit."""
    if keys.shape[0] == 0:
        return 0
    return scan_keys(&keys[0], <uint64_t>keys.shape[0], query, distance)


def touch(SegmentView view not None, const uint64_t[::1] queries not None):
    """Look up the slot of each query in each table and read a word there, one query after the other: the machine's limit.

    What it reads is not checked and means nothing; returns the sum.
    """
    cdef uint64_t total = 0
    if queries.shape[0] > 0 and not keys_fit(&queries[0], <uint64_t>queries.shape[0], view.bits):
        raise ValueError(f"queries: found one of more bits, expected {view.bits}")
    view.enter()
    try:
        if queries.shape[0] > 0:
            with nogil:
                total = search_touch(view.tables, <unsigned>view.table_count, &view.pages, &queries[0],
                                     <uint64_t>queries.shape[0])
        raise_status(OK, view, "probe")
    finally:
        view.leave()
    return total


def places_of(const uint64_t[::1] listed not None, const uint64_t[::1] ids not None):
    """Where each of ids (uint64[n]) is among listed ones (uint64[m], increasing): int64[n], -1 for what is not there."""
    cdef int64_t[::1] place
    cdef uint64_t nothing = 0
    places = np.empty(ids.shape[0], dtype=np.int64)
    place = places
    if ids.shape[0] > 0:
        with nogil:
            places_of_ids(&listed[0] if listed.shape[0] > 0 else &nothing, <uint64_t>listed.shape[0], &ids[0],
                          <uint64_t>ids.shape[0], &place[0])
    return places


cdef class WantedIds:
    """Ids to look for: uint64[n], strictly increasing, n > 0."""

    cdef IdSet set
    cdef const uint64_t[::1] ids
    cdef uint64_t[::1] filter

    def __cinit__(self, const uint64_t[::1] ids not None):
        if ids.shape[0] == 0:
            raise ValueError("no ids to look for")
        # Most places are empty: another id comes to one that is taken in one case of 8 or fewer, up to 2^25 of them.
        self.set.filter_bits = min(max((8 * ids.shape[0]).bit_length(), MIN_FILTER_BITS), MAX_FILTER_BITS)
        self.ids, self.filter = ids, np.zeros(1 << (self.set.filter_bits - 6), dtype=np.uint64)
        self.set.ids, self.set.count, self.set.filter = &self.ids[0], <uint64_t>ids.shape[0], &self.filter[0]
        with nogil:
            id_set_fill(&self.set)


cdef class IdColumn:
    """The ids of a segment's fingerprints. record: format.SegmentRecord, whose offsets the caller has checked."""

    def __cinit__(self, SegmentView view not None, record):
        self.view = view
        self.ids.ranks_offset = record.ranks_offset
        self.ids.groups_offset = record.groups_offset
        self.ids.samples_offset = record.samples_offset
        self.ids.values_offset = record.values_offset
        self.ids.rank_width = record.rank_width
        self.ids.width = record.id_width
        self.ids.kind = record.id_kind
        self.ids.base = record.id_base
        self.ids.key_count = record.key_count
        self.ids.id_count = record.id_count
        self.ids.list_offset, self.ids.list_count = record.list_offset, record.list_count

    def places(self, const uint64_t[::1] ids not None):
        """Where each of ids (uint64[n]) is in the list of the segment's: int64[n], -1 for what is not there."""
        cdef int64_t[::1] place
        cdef Status status = OK
        places = np.empty(ids.shape[0], dtype=np.int64)
        place = places
        self.view.enter()
        try:
            if ids.shape[0] > 0:
                with nogil:
                    status = listed_places(&self.view.pages, &self.ids, &ids[0], <uint64_t>ids.shape[0], &place[0])
            raise_status(status, self.view, "id list")
        finally:
            self.view.leave()
        return places

    def lookup(self, const uint64_t[::1] fingerprints not None, expect=None):
        """The ids of stored fingerprints (uint64[n]): (counts int64[n], ids uint64[sum of counts]), each group increasing.

        CorruptStore where a fingerprint, found in another table, is missing from table 0 or has no place for its ids.
        expect: is told how many ids there are before there is room for them, and may raise.
        """
        cdef uint64_t n = <uint64_t>fingerprints.shape[0]
        cdef uint64_t[::1] first, count
        firsts, counts = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
        first, count = firsts, counts
        self.view.enter()
        try:
            self.find_ranges(fingerprints, first, count)
            if expect is not None:
                expect(int(counts.sum()))
            return counts.astype(np.int64), self.values_of(first, count, counts)
        finally:
            self.view.leave()

    def least(self, const uint64_t[::1] fingerprints not None):
        """The least id of each of stored fingerprints: (counts as those of ranges(), ids uint64[n], 0 where there is none)."""
        cdef uint64_t n = <uint64_t>fingerprints.shape[0], i, value = 0
        cdef uint64_t[::1] first, count, id
        cdef Status status = OK
        counts, ids = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
        first, count, id = np.zeros(n, dtype=np.uint64), counts, ids
        self.view.enter()
        try:
            self.find_ranges(fingerprints, first, count)
            with nogil:
                for i in range(n):
                    if count[i] == 0:  # a stranger's segment may hold a fingerprint without any
                        continue
                    status = packed_get(&self.view.pages, self.ids.values_offset, self.ids.width, first[i], &value)
                    if status == OK:
                        status = id_of_value(&self.view.pages, &self.ids, value, &id[i])
                    if status != OK:
                        break
            raise_status(status, self.view, "ids")
            return counts, ids
        finally:
            self.view.leave()

    def ranges(self, const uint64_t[::1] fingerprints not None):
        """Where the ids of stored fingerprints (uint64[n]) are, for values(): (firsts uint64[n], counts uint64[n]).

        CorruptStore as for lookup.
        """
        cdef uint64_t n = <uint64_t>fingerprints.shape[0]
        firsts, counts = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
        self.view.enter()
        try:
            self.find_ranges(fingerprints, firsts, counts)
            return firsts, counts
        finally:
            self.view.leave()

    def values(self, const uint64_t[::1] firsts not None, const uint64_t[::1] counts not None):
        """The ids at [firsts[i], firsts[i] + counts[i]), one range after the other; each lies in one of ranges()."""
        cdef uint64_t i
        if firsts.shape[0] != counts.shape[0]:
            raise ValueError(f"{firsts.shape[0]} starts and {counts.shape[0]} counts of ids")
        for i in range(<uint64_t>firsts.shape[0]):
            if firsts[i] > self.ids.id_count or counts[i] > self.ids.id_count - firsts[i]:
                raise ValueError(f"ids {firsts[i]} and {counts[i]} on: the segment has {self.ids.id_count}")
        self.view.enter()
        try:
            return self.values_of(firsts, counts, np.asarray(counts))
        finally:
            self.view.leave()

    def rank_ranges(self, const uint64_t[::1] ranks not None):
        """As ranges(), of fingerprints of these ranks (uint64[n]), in a segment that tells ranks by itself."""
        cdef uint64_t n = <uint64_t>ranks.shape[0], i
        cdef uint64_t[::1] first, count
        cdef Status status = OK
        firsts, counts = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
        first, count = firsts, counts
        self.view.enter()
        try:
            with nogil:
                for i in range(n):
                    status = ids_range(&self.view.pages, &self.ids, ranks[i], &first[i], &count[i])
                    if status != OK:
                        break
            raise_status(status, self.view, "ids")
            return firsts, counts
        finally:
            self.view.leave()

    def find_ranks(self, WantedIds wanted not None, uint64_t first, uint64_t end, uint64_t room=1 << 16):
        """As find, with the rank of each row in place of its fingerprint."""
        cdef uint64_t[::1] ranks, values
        cdef uint64_t count = 0, next = first
        cdef Status status = OK
        if not first <= end <= self.ids.id_count or room == 0:
            raise ValueError(f"ids {first} to {end}, room {room}: the segment has {self.ids.id_count}")
        result, result_ids = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint64)
        ranks, values = result, result_ids
        self.view.enter()
        try:
            with nogil:
                status = ids_find(&self.view.pages, &self.ids, &wanted.set, &next, end, room, &ranks[0], &values[0], &count)
            raise_status(status, self.view, "ids")
        finally:
            self.view.leave()
        return next, result[:count], result_ids[:count]

    def read(self, uint64_t first_rank, uint64_t end_rank):
        """The ids of ranks [first_rank, end_rank), as lookup returns them."""
        cdef uint64_t n = end_rank - first_rank, i
        cdef uint64_t[::1] first, count
        cdef Status status = OK
        if not first_rank <= end_rank <= self.ids.key_count:
            raise ValueError(f"ranks {first_rank} to {end_rank}: the segment has {self.ids.key_count}")
        firsts, counts = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
        first, count = firsts, counts
        self.view.enter()
        try:
            with nogil:
                for i in range(n):
                    status = ids_range(&self.view.pages, &self.ids, first_rank + i, &first[i], &count[i])
                    if status != OK:
                        break
            raise_status(status, self.view, "ids")
            return counts.astype(np.int64), self.values_of(first, count, counts)
        finally:
            self.view.leave()

    def find(self, WantedIds wanted not None, uint64_t first, uint64_t end, uint64_t room=1 << 16):
        """The rows with wanted ids among the ids at [first, end), in their order.

        Returns where to go on, end unless there are more than room of them, and fingerprints and ids, both uint64[m].
        CorruptStore where a fingerprint's place is not in table 0.
        """
        cdef uint64_t[::1] ranks, values, keys
        cdef uint64_t count = 0, i, next = first
        cdef Status status = OK
        cdef Table *table = self.view.tables[0]
        if not first <= end <= self.ids.id_count or room == 0:
            raise ValueError(f"ids {first} to {end}, room {room}: the segment has {self.ids.id_count}")
        result, result_ids = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint64)
        ranks, values = np.empty(room, dtype=np.uint64), result_ids
        keys = result
        self.view.enter()
        try:
            with nogil:
                status = ids_find(&self.view.pages, &self.ids, &wanted.set, &next, end, room, &ranks[0], &values[0], &count)
                if status == OK:
                    for i in range(count):
                        if i > 0 and ranks[i] == ranks[i - 1]:
                            keys[i] = keys[i - 1]
                            continue
                        status = table_key(&self.view.pages, table, &self.ids, ranks[i], &keys[i])
                        if status != OK:
                            break
                if status == OK:
                    unpermute_keys(&table.permutation, &keys[0], count, &keys[0])
            raise_status(status, self.view, "ids")
        finally:
            self.view.leave()
        return next, result[:count], result_ids[:count]

    cdef int find_ranges(self, const uint64_t[::1] fingerprints, uint64_t[::1] first, uint64_t[::1] count) except -1:
        """ranges(), of as many; the view was entered."""
        cdef uint64_t n = <uint64_t>fingerprints.shape[0], i
        cdef uint64_t[::1] keys
        cdef Status status = OK
        cdef Table *table = self.view.tables[0]
        if n == 0:
            return 0
        keys = np.empty(n, dtype=np.uint64)
        with nogil:
            permute_keys(&table.permutation, &fingerprints[0], n, &keys[0])
            for i in range(n):
                if i > 0 and keys[i] == keys[i - 1]:
                    first[i] = first[i - 1]
                    count[i] = count[i - 1]
                    continue
                status = ids_of_key(&self.view.pages, table, &self.ids, keys[i], &first[i], &count[i])
                if status != OK:
                    break
        return raise_status(status, self.view, "ids")

    cdef object values_of(self, const uint64_t[::1] first, const uint64_t[::1] count, counts):
        """The ids in ranges [first[i], first[i] + count[i]) of the values, one after the other; the view was entered."""
        cdef uint64_t i, j, filled = 0, value = 0
        cdef uint64_t[::1] values
        cdef Status status = OK
        result = np.empty(int(counts.sum()), dtype=np.uint64)
        values = result
        with nogil:
            for i in range(<uint64_t>first.shape[0]):
                for j in range(count[i]):
                    status = packed_get(&self.view.pages, self.ids.values_offset, self.ids.width, first[i] + j, &value)
                    if status == OK:
                        status = id_of_value(&self.view.pages, &self.ids, value, &values[filled])
                    if status != OK:
                        break
                    filled += 1
                if status != OK:
                    break
        raise_status(status, self.view, "ids")
        return result


cdef class IdCursor:
    """Reads all ids of a segment in the order of their ranks, every check on."""

    cdef IdColumn column
    cdef IdWalk walk

    def __cinit__(self, IdColumn column not None):
        self.column = column
        memset(&self.walk, 0, cython.sizeof(IdWalk))

    def read(self, uint64_t end_rank, uint64_t room=1 << 17):
        """The next ids of ranks below end_rank, at most room: (ranks uint64[n], ids uint64[n]).

        Fewer than room only where those have all been read. CorruptStore where the groups are not those of the
        segment's fingerprints and ids, or a group's ids do not increase.
        """
        cdef uint64_t count = 0
        cdef uint64_t[::1] ranks, ids
        cdef Status status
        cdef IdColumn column = self.column
        if not self.walk.rank <= end_rank <= column.ids.key_count or room == 0:
            raise ValueError(f"ranks {self.walk.rank} to {end_rank}, room {room}: the segment has {column.ids.key_count}")
        all_ranks, all_ids = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint64)
        ranks, ids = all_ranks, all_ids
        column.view.enter()
        try:
            with nogil:
                status = ids_walk(&column.view.pages, &column.ids, &self.walk, end_rank, room, &ranks[0], &ids[0], &count)
            raise_status(status, column.view, "ids")
        finally:
            column.view.leave()
        return all_ranks[:count], all_ids[:count]
