"""Whether what was read of a catalog is still the newest, asked by every call, so without a call of the system."""

from libc.stdint cimport int64_t

from fpstore._view cimport MappedWords

import fpstore.forks as forks

cdef extern from "<time.h>" nogil:
    enum: CLOCK_MONOTONIC_COARSE
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)


cdef int64_t now_ns() noexcept:
    # Of the clock of time.monotonic, some milliseconds late at most: a fifth of the price.
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef class Watch:
    """Over one catalog that this process has open.

    sure: of a writer, which alone changes its catalog: it holds from the start. Ended, or after a fork, it never does
    again.
    """

    def __cinit__(self, *, bint sure):
        self.words, self.sure, self.ended, self.generation = None, sure, False, forks.generation

    def confirm(self, MappedWords words not None, stamp, double seconds):
        """For so long it holds as long as these words are as in this stamp, what they were when it was read.

        None: it does not hold.
        """
        self.words = words if stamp is not None else None
        if stamp is not None:
            self.first, self.second = stamp
            self.until_ns = now_ns() + <int64_t>(seconds * 1e9)

    def end(self):
        """It does not hold any more."""
        self.ended = True

    def holds(self):
        """Whether what was confirmed is the newest. False may also mean that it is time to look."""
        return self.holds_now()

    cdef bint holds_now(self) except -1:
        if self.ended or forks.generation != self.generation:
            return False
        if self.sure:
            return True
        return self.words is not None and now_ns() < self.until_ns and self.words.are(self.first, self.second)
