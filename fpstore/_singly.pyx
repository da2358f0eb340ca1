"""Rows that are added one at a time, if they are new or as they are, each in one call, while a writer holds back some.

The writer says from which state on, and how many; it is told what was added when it next looks. Where anything is uncommon
nothing is done, and the caller goes the general way, which says what is wrong and what comes next.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from fpstore._native cimport pending_append
from fpstore._pending cimport PendingIndex
from fpstore._single cimport Single, as_distance, as_key
from fpstore._watch cimport Watch

cdef object NDARRAY = np.ndarray, INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64)
cdef tuple ONE = (1,)


cdef bint as_only(object values, uint64_t *key, unsigned bits) except -1:
    # Whether they are a list, a tuple or an array of one int of so many bits.
    if type(values) is list:
        return len(<list>values) == 1 and as_key((<list>values)[0], key, bits)
    if type(values) is tuple:
        return len(<tuple>values) == 1 and as_key((<tuple>values)[0], key, bits)
    return (type(values) is NDARRAY and (values.dtype is UINT64 or values.dtype is INT64) and values.shape == ONE
            and as_key(values.item(), key, bits))


cdef class Singly:
    """What a store is, and rows that are added to it one at a time, at most `room` of them.

    lock: the writer's, an RLock; watch: over its catalog. snapshot: the newest, with the rows that were added. Whoever
    changes it, or what it is told, holds the lock.
    """

    cdef object acquire, release
    cdef Watch watch
    cdef object base, latest
    cdef Single single
    cdef object stored, made
    cdef uint64_t count, told, most, room, largest, position, live_since
    cdef uint64_t *rows
    cdef bint with_ids

    def __cinit__(self, lock, Watch watch not None, snapshot, uint64_t room):
        self.acquire, self.release, self.watch = lock.acquire, lock.release, watch
        self.base = self.latest = snapshot
        self.room = room
        self.rows = <uint64_t *>malloc((2 * room + 1) * sizeof(uint64_t))
        if self.rows == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.rows)

    @property
    def snapshot(self):
        cdef uint64_t count = self.count
        base = self.base
        if count == self.told:
            return self.latest
        made = base.with_single_rows(count, self.largest if self.with_ids else None)
        # Others may have gone on meanwhile.
        if base is self.base and count > self.told:
            self.latest, self.told = made, count
        return made

    @snapshot.setter
    def snapshot(self, snapshot):
        if self.count:
            raise ValueError(f"found {self.count} rows that nobody has taken, expected none")
        self.hold(snapshot)
        self.end()

    def begin(self, Single single not None, uint64_t position, uint64_t live_since, most, stored, made):
        """Add up to `most` rows from now on, after the snapshot, all of that position; see PendingIndex.append.

        single: of the snapshot, which nobody else has. stored: the answer for a row that was stored; made: makes that of the
        matches of another.
        """
        if self.count:
            raise ValueError(f"found {self.count} rows that nobody has taken, expected none")
        self.single, self.position, self.live_since = single, position, live_since
        self.stored, self.made, self.largest, self.with_ids = stored, made, 0, single.with_ids
        self.most = min(max(most, 0), self.room)

    def take(self):
        """The rows that were added, (fingerprints, ids or None), or None for none; no more are until the next begin."""
        cdef uint64_t count
        cdef uint64_t[::1] keys, ids
        self.end()
        latest = self.snapshot
        count = self.count
        fingerprints, numbers = np.empty(count, UINT64), np.empty(count, UINT64) if self.with_ids else None
        if self.count == 0 or self.count != count:  # a handler of a signal may have taken them since
            return None
        keys = fingerprints
        memcpy(&keys[0], self.rows, count * sizeof(uint64_t))
        if numbers is not None:
            ids = numbers
            memcpy(&ids[0], self.rows + self.room, count * sizeof(uint64_t))
        self.hold(latest)
        return fingerprints, numbers

    cdef void hold(self, snapshot) noexcept:
        # What was held before goes when all is as it should be.
        before = self.base, self.latest
        self.base, self.latest, self.count, self.told = snapshot, snapshot, 0, 0
        del before

    cdef void end(self) noexcept:
        # Nothing is added, or held for it.
        self.most = 0
        self.single = self.stored = self.made = None

    def add_if_new(self, fingerprints, ids, max_distance):
        """What became of one row, if it was added, or is near another; None, and nothing is done, where it cannot tell.

        fingerprints, ids: a list, a tuple, or an array of 64 bits, of one int each; ids None in a store without.
        max_distance: as for probe.
        """
        cdef Single single = self.single
        cdef uint64_t row[2]
        cdef uint64_t count
        cdef unsigned distance
        if not (single is not None and self.as_row(single, fingerprints, ids, row)
                and as_distance(max_distance, single.distance, single.most, &distance) and self.acquire(False)):
            return None
        try:
            count = self.count
            if not self.may_add(single, count):
                return None
            found = single.nearest_row(row[0], distance)
            if found is None:
                return None
            if found is not single.nothing[0] and len(found):
                return self.made(found) if self.made is not None else None
            stored = self.stored
            return stored if self.append(single, count, row) else None
        finally:
            self.release()

    def add(self, fingerprints, ids):
        """Whether one row was added, whatever it is near; as add_if_new. False, and nothing is done, where it cannot be."""
        cdef Single single = self.single
        cdef uint64_t row[2]
        if not (single is not None and self.as_row(single, fingerprints, ids, row) and self.acquire(False)):
            return False
        try:
            return self.append(single, self.count, row)
        finally:
            self.release()

    cdef bint as_row(self, Single single, fingerprints, ids, uint64_t *row) except -1:
        # Whether they are one row of a store such as this.
        row[1] = 0
        return (as_only(fingerprints, &row[0], single.pending.bits)
                and (as_only(ids, &row[1], 64) if single.with_ids else ids is None))

    cdef bint may_add(self, Single single, uint64_t count) except -1:
        # Whether it stands where so many rows were added to this state, and there is room for one more.
        return (self.single is single and self.count == count < self.most and self.watch.holds_now()
                and single.pending.has_room(1, self.position))

    cdef bint append(self, Single single, uint64_t count, uint64_t *row) except -1:
        # Whether it still stands there, and the row was added. Who indexes is not waited for, and no code of Python's, a
        # handler of a signal say, which may do anything to the store, runs from the question to the end.
        cdef PendingIndex pending = single.pending
        cdef bint stands = False
        if not pending.lock.acquire(False):
            return False
        try:
            stands = self.may_add(single, count)
            if stands:
                pending_append(&pending.pending, row, &row[1] if self.with_ids else NULL, 1, self.position, self.live_since)
                self.rows[count], self.rows[self.room + count] = row[0], row[1]
                self.largest = max(self.largest, row[1])
                self.count = count + 1
                single.sources.pending_end += 1
        finally:
            pending.lock.release()
        return stands
