"""Documents of a piece in turn: which of those before it each is near, and to which of these it goes.

The rule is C (fpstore/native/turns.c), and holds no lock. It stops where its caller has to say something: to which of
its near ones a document goes, or what features documents have that are to be compared. A row is one of what was found
among all that came before the piece, or behind those a document of the piece.
"""

import secrets

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    TURNS_ASK, TURNS_DONE, TURNS_NEED, TURNS_NEW, TURNS_TIES, Banded, CTurns, Mark, Near, Shingles, TurnsStop, listed_room, turns_answer, turns_foresee,
    turns_ask, turns_look, turns_run, turns_tell, values_differing,
)

# Odd, and not known outside the process: see Listed.
cdef uint64_t _SECRET = secrets.randbits(64) | 1

DONE, ASK, NEED = TURNS_DONE, TURNS_ASK, TURNS_NEED
NEW = TURNS_NEW
# Of the near ones of a document, so many more are asked for at once where features are needed.
cdef enum:
    _AT_ONCE = 8


cdef class Bands:
    """The documents of a piece that are near by the bands that they share, in place of keys and a distance.

    keys: uint64[n, bands], those of each. sketches: uint64[n, words], a value in each `width` bits; of two documents that
    share a band the distance is the number of values that differ. far: a larger one counts as this. most: with a larger
    one they are not near, with -1 none is. Raises ValueError for other numbers of rows, and another width.
    """
    cdef Banded banded
    cdef object held

    def __init__(self, const uint64_t[:, ::1] keys not None, const uint64_t[:, ::1] sketches not None, unsigned width,
                 uint32_t far, int64_t most):
        cdef Banded *banded = &self.banded
        cdef uint32_t[::1] slots, firsts, heads, earlier, askers
        cdef uint64_t[::1] column
        cdef uint64_t count = <uint64_t>keys.shape[0], entries = count * <uint64_t>keys.shape[1]
        if sketches.shape[0] != keys.shape[0] or keys.shape[1] < 1 or sketches.shape[1] < 1:
            raise ValueError(f"found {sketches.shape[0]} sketches of {sketches.shape[1]} words for {count} documents in "
                             f"{keys.shape[1]} bands, expected one of each, of some words, in some bands")
        if width not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"width: found {width} bits of a value, expected 1, 2, 4, 8, 16 or 32")
        if most < 0 or entries >= 1 << 31:
            raise ValueError(f"found {entries} keys, and {most} values that may differ, expected less than 2^31, and some")
        slots = np.empty(1 << max(1, int(2 * count).bit_length()), dtype=np.uint32)
        column, askers = np.empty(count + 1, dtype=np.uint64), np.zeros(count + 1, dtype=np.uint32)
        firsts, heads = np.empty(entries + 1, dtype=np.uint32), np.zeros(entries + 1, dtype=np.uint32)
        earlier = np.empty(entries + 1, dtype=np.uint32)
        banded.count, banded.bands, banded.words = count, <uint64_t>keys.shape[1], <uint64_t>sketches.shape[1]
        banded.width, banded.far, banded.most = width, far, <uint32_t>min(most, 1 << 31)
        banded.slots, banded.slot_mask, banded.column = &slots[0], <uint64_t>slots.shape[0] - 1, &column[0]
        banded.firsts, banded.heads, banded.earlier, banded.askers = &firsts[0], &heads[0], &earlier[0], &askers[0]
        if count:
            banded.keys, banded.sketches = &keys[0, 0], &sketches[0, 0]
        self.held = (keys, sketches, slots, column, firsts, heads, earlier, askers)

    def __len__(self):
        return self.banded.count

    def distances(self, const int64_t[::1] one not None, const int64_t[::1] other not None):
        """In how many values the documents one[i] and other[i] differ: uint16[n]. ValueError for one that is not there."""
        cdef Banded *banded = &self.banded
        cdef Py_ssize_t i
        cdef uint16_t[::1] out
        found = np.zeros(one.shape[0], dtype=np.uint16)
        out = found
        for i in range(one.shape[0]):
            if not (0 <= one[i] < <int64_t>banded.count and 0 <= other[i] < <int64_t>banded.count):
                raise ValueError(f"found documents {one[i]} and {other[i]}, expected some of {banded.count}")
            out[i] = <uint16_t>values_differing(banded.sketches + one[i] * banded.words,
                                                banded.sketches + other[i] * banded.words, banded.words, banded.width,
                                                banded.far)
        return found


cdef class Earlier:
    """Which keys of a piece may be near others of it, which is to be known before the way through it.

    keys: uint64[n] or uint64[n, words], near up to the distance. Found by `look`, or by who needs it.
    """
    cdef readonly object keys
    cdef readonly unsigned distance
    cdef object near, earlier
    cdef bint is_known

    def __init__(self, keys not None, unsigned distance):
        self.keys, self.distance = keys if keys.ndim == 2 else keys[:, np.newaxis], distance
        self.near, self.earlier = np.zeros(len(keys) + 1, dtype=np.uint8), np.zeros(len(keys) + 1, dtype=np.uint8)

    def look(self):
        """Find it, without the interpreter's lock, so that another thread may while its caller goes on."""
        cdef CTurns turns
        cdef const uint64_t[:, ::1] keys = self.keys
        cdef uint8_t[::1] near = self.near
        cdef uint8_t[::1] earlier = self.earlier
        cdef uint64_t[::1] none, halves
        cdef uint32_t[::1] leaders
        if self.is_known or not keys.shape[0]:
            return
        none, halves = np.zeros(len(keys) + 1, dtype=np.uint64), np.empty(len(keys), dtype=np.uint64)
        leaders = np.empty(len(keys), dtype=np.uint32)
        memset(&turns, 0, sizeof(CTurns))
        turns.count, turns.distance, turns.words = <uint64_t>keys.shape[0], self.distance, <unsigned>keys.shape[1]
        turns.keys, turns.starts, turns.leader_keys, turns.leaders = &keys[0, 0], &none[0], &halves[0], &leaders[0]
        turns.is_near, turns.has_earlier = &near[0], &earlier[0]
        with nogil:
            left()
            turns_look(&turns)
            comes()
        self.is_known = True

    @property
    def any_near(self):
        """Whether any of them may be near another, once they were looked at."""
        return self.near.any()


cdef class Turns:
    """The way through one piece.

    is_near: of each document whether it is near any other row, of those before the piece and all of the piece: bool[n].
    rows: int64[n], the row that each document goes to, or NEW; measures: float64[n], how alike these are, where they
    were compared. refused, cut_short: how many near ones were not alike, and how many documents had more than were
    looked at, of which none was.
    """
    cdef CTurns turns
    cdef object keys, starts, bits, ties, room, held, bands, cells
    cdef readonly object is_near, rows, measures
    cdef uint64_t most_features
    cdef bint has_listed

    def __init__(self, documents not None, unsigned distance, const int64_t[::1] query not None,
                 const uint16_t[::1] bits not None, ties, bint asks=False):
        """documents: their keys, uint64[n] or uint64[n, words], which are near up to the distance, Earlier of these and
        that, or Bands, which say by themselves what is near.

        query, bits: of the matches of keys among what came before, in the order of query, bits, ties.

        ties: at most five columns, uint64[matches + keys], of which the lesser value is nearer at one distance, by the
        first that differs; else the earlier row. asks: stop at each document that is near something, where it is not
        compared. Raises ValueError for columns of other lengths, or queries out of order.
        """
        cdef CTurns *turns = &self.turns
        cdef Earlier known = documents if isinstance(documents, Earlier) else None
        cdef uint64_t count = <uint64_t>len(documents if known is None else known.keys)
        cdef uint64_t found = <uint64_t>query.shape[0], i
        cdef const uint64_t[:, ::1] keys
        cdef uint64_t[::1] starts, keys_of_leaders
        cdef const uint64_t[::1] tie
        cdef uint8_t[::1] near, earlier, rows_near, rows_scratch, silent, listed, shingles
        cdef uint32_t[::1] leaders, commons, eithers
        cdef int64_t[::1] rows
        cdef double[::1] measures
        if <uint64_t>bits.shape[0] != found or any(<uint64_t>len(each) != found + count for each in ties) \
                or len(ties) > TURNS_TIES:
            lengths = [len(each) for each in ties]
            raise ValueError(f"found {bits.shape[0]} distances and ties of {lengths}, expected {found} and {found + count}")
        starts = np.zeros(count + 2, dtype=np.uint64)
        for i in range(found):
            if not 0 <= query[i] < <int64_t>count or (i > 0 and query[i] < query[i - 1]):
                raise ValueError(f"match {i}: found query {query[i]}, expected one of {count}, in their order")
            starts[query[i] + 1] = i + 1
        for i in range(count):
            starts[i + 1] = max(starts[i], starts[i + 1])
        self.held = []
        self.is_near, self.rows = np.zeros(count, dtype=bool), np.empty(count, dtype=np.int64)
        self.measures = np.full(count, np.nan)
        turns.count, turns.found, turns.distance, turns.asks, turns.words = count, found, distance, asks, 1
        self.bands = None
        if isinstance(documents, Bands):
            self.bands = documents
            turns.banded = &(<Bands>documents).banded
            near, earlier = np.zeros(count + 1, dtype=np.uint8), np.zeros(count + 1, dtype=np.uint8)
        else:
            known = Earlier(documents, distance) if known is None else known
            if known.distance != distance:
                raise ValueError(f"distance: found {distance}, expected {known.distance}, by which the keys were compared")
            known.look()
            keys, near, earlier = known.keys, known.near, known.earlier
            self.keys, turns.words = keys, <unsigned>keys.shape[1]
        turns.starts = &starts[0]
        keys_of_leaders = np.empty(count * turns.words + 1, dtype=np.uint64)
        leaders = np.empty(2 * count + 2, dtype=np.uint32)
        rows_near = np.empty((found + count + 1) * sizeof(Near), dtype=np.uint8)
        rows_scratch = np.empty((found + count + 1) * sizeof(Near), dtype=np.uint8)
        shingles = np.zeros((found + count + 1) * sizeof(Shingles), dtype=np.uint8)
        silent = np.zeros(found + count + 1, dtype=np.uint8)
        listed = np.zeros(found + count + 1, dtype=np.uint8)
        commons, eithers = np.full(found + 1, 0xFFFFFFFF, dtype=np.uint32), np.empty(found + 1, dtype=np.uint32)
        turns.commons, turns.eithers, turns.is_listed, turns.listed.secret = &commons[0], &eithers[0], &listed[0], _SECRET
        turns.is_near, turns.has_earlier = &near[0], &earlier[0]
        turns.leader_keys, turns.leaders = &keys_of_leaders[0], &leaders[0]
        turns.near, turns.scratch = <Near *>&rows_near[0], <Near *>&rows_scratch[0]
        turns.shingles, turns.is_silent = <Shingles *>&shingles[0], &silent[0]
        self.starts, self.bits, self.ties = starts, bits, list(ties)
        self.room = (near, earlier, keys_of_leaders, leaders, rows_near, rows_scratch, shingles, silent, listed,
                     commons, eithers)
        if count == 0:
            return
        rows, measures = self.rows, self.measures
        turns.keys = NULL if turns.banded != NULL else &keys[0, 0]
        turns.rows, turns.measures = &rows[0], &measures[0]
        turns.bits = &bits[0] if found else NULL
        for i in range(<uint64_t>len(ties)):
            tie = ties[i]
            turns.ties[i] = &tie[0]
        if turns.banded != NULL:
            with nogil:
                left()
                turns_look(turns)
                comes()
        for i in range(count):
            near[i] |= starts[i] < starts[i + 1]
        self.is_near = np.asarray(near)[:count].view(bool)

    @property
    def at(self):
        """The document at which it stopped."""
        return self.turns.at

    @property
    def refused(self):
        return self.turns.refused

    @property
    def cut_short(self):
        return self.turns.cut_short

    @property
    def near(self):
        """The rows that the document at which it stopped is near, from the nearest on: a list."""
        cdef uint64_t i
        return [self.turns.near[i].row for i in range(self.turns.near_count)]

    def nearest(self, uint64_t count):
        """The first `count` of these."""
        cdef uint64_t i
        return [self.turns.near[i].row for i in range(min(count, self.turns.near_count))]

    @property
    def needed(self):
        """Some rows that it is near, from the nearest one on whose features are needed: a list."""
        cdef uint64_t i, end = min(self.turns.near_count, self.turns.place + _AT_ONCE, self.turns.most)
        return [self.turns.near[i].row for i in range(self.turns.place, end)]

    def compare(self, uint64_t most, uint64_t part, uint64_t whole):
        """From now on a document goes to the first of `most` near ones with which it shares enough of its shingles.

        Of the shingles that either of them has both have part / whole at least.
        """
        self.turns.compares = True
        self.turns.most, self.turns.part, self.turns.whole = most, part, whole

    def give(self, const int64_t[::1] rows not None, const int64_t[::1] starts not None,
             const int64_t[::1] counts not None, const uint64_t[::1] hashes not None, const uint8_t[::1] silent not None,
             bint listed=False):
        """The features of rows, which are held from now on: counts[i] of hashes from starts[i] on, increasing.

        hashes: at least one. silent: whether they say nothing about their document, which then is compared by the caller.
        listed: they are in any order, and may be there more than once. Raises ValueError for rows that are not there,
        and places outside hashes.
        """
        cdef uint64_t i, room, most = 0, all_rows = self.turns.found + self.turns.count
        cdef Py_ssize_t size = hashes.shape[0]
        cdef uint8_t[::1] cells
        cdef uint64_t[::1] bits
        if not rows.shape[0] == starts.shape[0] == counts.shape[0] == silent.shape[0]:
            raise ValueError(f"found {starts.shape[0]} starts, {counts.shape[0]} counts and {silent.shape[0]} marks, "
                             f"expected those of {rows.shape[0]} rows")
        for i in range(<uint64_t>rows.shape[0]):
            if not 0 <= rows[i] < <int64_t>all_rows:
                raise ValueError(f"row: found {rows[i]}, expected one of {all_rows}")
            if not (0 <= starts[i] < size and 0 <= counts[i] <= size - starts[i]):
                raise ValueError(f"row {rows[i]}: found {counts[i]} features at {starts[i]}, expected some of {size}")
            most = max(most, <uint64_t>counts[i])
        for i in range(<uint64_t>rows.shape[0]):
            self.turns.shingles[rows[i]].hashes = &hashes[starts[i]]
            self.turns.shingles[rows[i]].count = <uint64_t>counts[i]
            self.turns.is_silent[rows[i]] = silent[i] != 0
            self.turns.is_listed[rows[i]] = listed
        self.held.append(hashes)
        # Of all rows, as any may be compared with one that is listed.
        self.most_features = max(self.most_features, most)
        self.has_listed |= listed
        self.turns.listed.document = NULL
        room = listed_room(self.most_features)
        if self.has_listed and room > self.turns.listed.room:
            cells, bits = np.zeros(room * sizeof(Mark), dtype=np.uint8), np.zeros(room // 4, dtype=np.uint64)
            self.cells = cells, bits
            self.turns.listed.cells, self.turns.listed.bits, self.turns.listed.room = <Mark *>&cells[0], &bits[0], room

    def tell(self, const int64_t[::1] rows not None, const int64_t[::1] keys not None, const int64_t[::1] starts not None,
             const int64_t[::1] middles not None, const int64_t[::1] ends not None, const uint64_t[::1] hashes not None):
        """What rows found have in common with the keys of which they were found, whose features were given as listed.

        Row rows[i] has the hashes of key keys[i], but for those of hashes from middles[i] to ends[i], in place of those
        from starts[i] to there. Which were told, bool[n]: not those that differ in many, nor of keys that are silent, or
        not known; the features of those rows are still to be given. Raises ValueError for rows that were not found of
        these keys, and places outside hashes.
        """
        cdef CTurns *turns = &self.turns
        cdef uint64_t i, key, row
        cdef Py_ssize_t size = hashes.shape[0]
        cdef Shingles own, others
        cdef uint8_t[::1] told
        if not rows.shape[0] == keys.shape[0] == starts.shape[0] == middles.shape[0] == ends.shape[0]:
            raise ValueError(f"found {keys.shape[0]} keys and {starts.shape[0]}, {middles.shape[0]} and {ends.shape[0]} "
                             f"places, expected those of {rows.shape[0]} rows")
        found = np.zeros(rows.shape[0], dtype=np.uint8)
        told = found
        for i in range(<uint64_t>rows.shape[0]):
            if not (0 <= keys[i] < <int64_t>turns.count
                    and <int64_t>turns.starts[keys[i]] <= rows[i] < <int64_t>turns.starts[keys[i] + 1]):
                raise ValueError(f"row: found {rows[i]}, expected one that was found of key {keys[i]}")
            if not 0 <= starts[i] <= middles[i] <= ends[i] <= size:
                raise ValueError(f"row {rows[i]}: found features at {starts[i]} to {middles[i]} and {ends[i]}, expected "
                                 f"some of {size}")
        memset(&own, 0, sizeof(Shingles))
        memset(&others, 0, sizeof(Shingles))
        with nogil:
            left()
            for i in range(<uint64_t>rows.shape[0]):
                key, row = <uint64_t>keys[i], <uint64_t>rows[i]
                if i + 1 < <uint64_t>rows.shape[0]:
                    turns_ask(turns, <uint64_t>keys[i + 1])
                if turns.shingles[turns.found + key].hashes == NULL or not turns.is_listed[turns.found + key] \
                        or turns.is_silent[turns.found + key]:
                    continue
                own.hashes, own.count = &hashes[0] + starts[i], <uint64_t>(middles[i] - starts[i])
                others.hashes, others.count = &hashes[0] + middles[i], <uint64_t>(ends[i] - middles[i])
                told[i] = turns_tell(turns, key, row, &own, &others)
            comes()
        return found.view(bool)

    def foresee(self):
        """Rows whose features will be needed as far as can be told now: int64[n]; after `compare` and `give`."""
        cdef uint64_t i
        cdef uint8_t[::1] wanted
        marks = np.zeros(self.turns.found + 1, dtype=np.uint8)
        wanted = marks
        with nogil:
            left()
            turns_foresee(&self.turns, _AT_ONCE, &wanted[0])
            for i in range(self.turns.found):
                wanted[i] &= self.turns.shingles[i].hashes == NULL  # and nothing else was told of those behind the first
            comes()
        return np.flatnonzero(marks)

    def knows(self, const int64_t[::1] rows not None):
        """Of which rows the features were given: bool[n]. ValueError for a row that is not there."""
        cdef uint64_t i, all_rows = self.turns.found + self.turns.count
        cdef uint8_t[::1] known
        found = np.zeros(len(rows), dtype=np.uint8)
        known = found
        for i in range(<uint64_t>rows.shape[0]):
            if not 0 <= rows[i] < <int64_t>all_rows:
                raise ValueError(f"row: found {rows[i]}, expected one of {all_rows}")
            known[i] = self.turns.shingles[rows[i]].hashes != NULL
        return found.view(bool)

    def run(self):
        """Go on: DONE, or ASK or NEED for the document at which it stopped."""
        cdef TurnsStop stop
        with nogil:
            left()
            stop = turns_run(&self.turns)
            comes()
        return stop

    def answer(self, int64_t row):
        """Where it asked: the document goes to this row, or is NEW. ValueError where all are decided."""
        if self.turns.at >= self.turns.count:
            raise ValueError(f"found no document that is under way, expected one of {self.turns.count}")
        turns_answer(&self.turns, row)
