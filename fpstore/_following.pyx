"""What a reader read last and the rows that came since, which a single query takes in by itself: no other call is made.

Where anything else came nothing is done. The reader goes the general way then, which knows what came, and begins anew.
"""

from libc.stdint cimport uint64_t

from fpstore._native cimport Moved, pending_count
from fpstore._pending cimport PendingIndex
from fpstore._tail cimport Places, Tail
from fpstore._watch cimport Watch


cdef class Following:
    """The newest state that a reader knows. Whoever changes it, or has it changed, holds the lock.

    lock: the reader's. watch: over its catalog, whose single queries ask this one. places: as Tail.follow takes them.
    stamp: what the catalog showed when this was read, None where that is not sure. single: what answers from it, once it
    has begun.
    """

    def __cinit__(self, lock, Watch watch not None, Places places not None, snapshot):
        self.lock, self.is_owned, self.places, self.latest = lock, lock._is_owned, places, snapshot
        self.single = self.stamp = self.of_latest = None
        watch.following = self

    @property
    def snapshot(self):
        latest, single, pending, end = self.latest, self.single, self.pending, self.pending_end
        if not self.is_ahead:
            return latest
        state = latest.state.moved(self.next_change, self.max_id, self.transaction)
        made = latest.with_rows(pending, state, end, single)
        if latest is self.latest and single is self.single:  # others may have gone on meanwhile
            self.latest, self.of_latest, self.is_ahead = made, None, False
        return made

    @snapshot.setter
    def snapshot(self, snapshot):
        self.single, self.latest, self.of_latest, self.is_ahead = None, snapshot, None, False

    @property
    def is_torn(self):
        """Whether rows are there that the newest snapshot does not have: who took them in was interrupted."""
        latest = self.snapshot
        return latest.pending.count != latest.pending_end

    def begin(self, Tail tail not None, tuple around not None, uint64_t live_since):
        """Follow from the snapshot on. tail, around, live_since: as of Tail.follow."""
        latest = self.latest
        single, pending, state = latest.single, latest.pending, latest.state
        self.tail, self.around, self.live_since, self.pending = tail, around, live_since, pending
        self.transaction, self.first_change, self.next_change = state.transaction, state.first_change, state.next_change
        self.pending_end = latest.pending_end
        self.single = single

    cpdef bint read(self, tuple stamp) except -1:
        """Whether rows alone came until the catalog showed this stamp; then they are there."""
        cdef uint64_t first = stamp[0], second = stamp[1], transaction = max(first, second), end
        cdef Moved found
        if self.single is None or transaction <= self.transaction or self.pending_end != pending_count(&self.pending.pending):
            return False
        if not self.tail.follow_now(self.places, transaction, self.around, self.first_change, self.next_change, self.pending,
                                    self.live_since, &found):
            return False
        end = pending_count(&self.pending.pending)
        single = self.single.grown(self.pending, end)
        # All at once, for those who ask meanwhile.
        self.next_change, self.max_id = found.next_change, found.max_id if found.has_id else None
        self.pending_end, self.transaction, self.single, self.is_ahead = end, transaction, single, True
        self.stamp = stamp
        self.tail.expect_more(transaction)
        self.is_unready = self.tail.is_unready()
        return True

    def follow(self, Watch watch not None):
        """Whether this is the newest state: nothing came, or rows alone, to where it was read; then they are there."""
        return self.follow_now(watch)

    cdef bint follow_now(self, Watch watch) except -1:
        if self.single is None or not watch.may_hold():  # in a child another may hold the lock for ever
            return False
        if self.is_owned():  # a signal's handler, in the midst of a call; the general way says so
            return False
        with self.lock:
            stamp = watch.overtaken()
            if stamp is None:
                return False
            if stamp != self.stamp:
                if not self.read(stamp):
                    return False
                watch.go_on(stamp)
            return True

    cdef void make_ready(self):
        # For those who come behind the first query that took rows in: some memory in which the next ones will be read.
        self.tail.make_ready()
        self.is_unready = self.tail.is_unready()

    cdef bint has(self, single) except -1:
        # Whether this is what answers from the snapshot: another thread may have read a newer one since it was taken.
        return self.own() is single

    cdef object own(self):
        # What answers from the latest snapshot, which has it for as long.
        latest, own = self.latest, self.of_latest
        if own is None:
            own = latest.single
            if latest is self.latest:  # others may have gone on meanwhile
                self.of_latest = own
        return own

    cdef object answering(self):
        # What answers from the newest snapshot.
        return self.snapshot.single if self.is_ahead else self.own()
