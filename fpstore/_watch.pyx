"""Whether what was read of a catalog is still the newest, asked by every call, so without a call of the system."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t

from fpstore._native cimport guard_add, guard_lost, guard_remove

import fpstore.forks as forks

cdef extern from * nogil:
    """
    #define ACQUIRE __ATOMIC_ACQUIRE
    """
    enum: ACQUIRE
    uint64_t __atomic_load_n(const uint64_t *word, int order)
    void __atomic_thread_fence(int order)

cdef extern from "<time.h>" nogil:
    enum: CLOCK_MONOTONIC_COARSE
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)

cdef extern from "<sys/stat.h>" nogil:
    struct stat:
        uint64_t st_dev
        uint64_t st_ino
    int fstatat(int folder, const char *name, stat *status, int flags)

cdef extern from "<fcntl.h>":
    enum: AT_FDCWD, AT_SYMLINK_NOFOLLOW


# That of forks, at hand: each call asks.
cdef uint64_t generation = forks.generation


def note_generation(uint64_t number):
    global generation
    generation = number


forks.told.append(note_generation)


cdef int64_t now_ns() noexcept:
    # Of the clock of time.monotonic, some milliseconds late at most: a fifth of the price.
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef class MappedWords:
    """Two 64-bit words of a mapped file, looked at again and again without a call of the system.

    data: the mapping, any buffer. first, second: the offsets of the words.
    """

    def __cinit__(self, data, Py_ssize_t first, Py_ssize_t second):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        if not (0 <= first <= self.buffer.len - 8 and 0 <= second <= self.buffer.len - 8) or (first | second) % 8:
            raise ValueError(f"words at {first} and {second}: expected multiples of 8 within {self.buffer.len} bytes")
        self.guard = guard_add(self.buffer.buf, <size_t>self.buffer.len)
        if self.guard == NULL:
            raise MemoryError()
        self.first = <const uint64_t *>(<const uint8_t *>self.buffer.buf + first)
        self.second = <const uint64_t *>(<const uint8_t *>self.buffer.buf + second)

    def __dealloc__(self):
        if self.guard != NULL:
            guard_remove(self.guard)
        PyBuffer_Release(&self.buffer)

    cdef bint are(self, uint64_t first, uint64_t second):
        # Whether they have these values now, and the file was not cut short.
        cdef bint same = (__atomic_load_n(self.first, ACQUIRE) == first) & (__atomic_load_n(self.second, ACQUIRE) == second)
        return same and not guard_lost(self.guard)

    cdef uint64_t newest(self):
        # The larger one, read after all that was read of the mapping before; the largest number where that was cut short.
        __atomic_thread_fence(ACQUIRE)
        newest = max(__atomic_load_n(self.first, ACQUIRE), __atomic_load_n(self.second, ACQUIRE))
        return <uint64_t>-1 if guard_lost(self.guard) else newest

    cpdef tuple read(self):
        """Both, as they are now; None where the file was cut short."""
        cdef uint64_t first = __atomic_load_n(self.first, ACQUIRE), second = __atomic_load_n(self.second, ACQUIRE)
        return None if guard_lost(self.guard) else (first, second)


cdef class Watch:
    """Over one catalog that this process has open.

    sure: of a writer, which alone changes its catalog: it holds from the start. Ended, or after a fork, it never does
    again. What follows the state that was read, if anything does, is known to it for single queries; see Following.
    """

    def __cinit__(self, *, bint sure):
        self.words, self.sure, self.ended, self.generation = None, sure, False, generation

    def confirm(self, MappedWords words not None, stamp, double seconds, tuple places=(), double again=0.0):
        """For so long it holds as long as these words are as in this stamp, what they were when it was read.

        None: it does not hold. places: (folder or None, name, (device, inode)) of each file that is to be where it was, by
        which the watch sees itself, when the time is over, that it holds for `again` seconds more; folder: a descriptor, in
        which the name is no link; without one the name is a path, whose links are followed. None of them: it does not see.
        """
        cdef int i
        if len(places) > MOST_PLACES:
            raise ValueError(f"{len(places)} places: expected at most {MOST_PLACES}")
        self.words, self.place_count = None, 0
        self.names = tuple([<bytes?>place[1] for place in places])
        for i in range(len(places)):
            folder, _, (device, inode) = places[i]
            self.places[i].folder = AT_FDCWD if folder is None else folder
            self.places[i].flags = 0 if folder is None else AT_SYMLINK_NOFOLLOW
            self.places[i].name, self.places[i].device, self.places[i].inode = <bytes>self.names[i], device, inode
        self.place_count = <int>len(places)
        if stamp is not None:
            self.words = words
            self.first, self.second = stamp
            self.until_ns, self.again_ns = now_ns() + <int64_t>(seconds * 1e9), <int64_t>(again * 1e9)

    cpdef tuple overtaken(self):
        """What the words are now, where all but them is sure to be as it was confirmed; None where that is not sure."""
        if self.sure or not self.may_hold() or not self.in_place():
            return None
        return self.words.read()

    cpdef int go_on(self, tuple stamp) except -1:
        """What was confirmed holds on with these words, which overtaken() has told, in place of those before."""
        self.first, self.second = stamp[0], stamp[1]
        return 0

    def end(self):
        """It does not hold any more."""
        self.ended = True

    def holds(self):
        """Whether what was confirmed is the newest. False may also mean that it is time to look."""
        return self.holds_now()

    cdef bint holds_now(self) except -1:
        if not self.may_hold():
            return False
        return self.sure or (self.in_place() and self.words.are(self.first, self.second))

    cdef bint may_hold(self) except -1:
        # Whether anything was confirmed, by this process, and it has not ended.
        return not self.ended and generation == self.generation and (self.sure or self.words is not None)

    cdef bint in_place(self) except -1:
        # Whether the files are where they were, as far as anybody has to know.
        return now_ns() < self.until_ns or self.stays()

    cdef bint stays(self) except -1:
        # Whether each file is still in its place; what was confirmed before holds on then.
        cdef Place places[MOST_PLACES]
        cdef stat status
        cdef int i, count = self.place_count
        cdef bint same = count > 0
        cdef MappedWords words = self.words
        names = self.names, words  # others may confirm meanwhile
        for i in range(count):
            places[i] = self.places[i]
        with nogil:
            for i in range(count):
                same = (same and fstatat(places[i].folder, places[i].name, &status, places[i].flags) == 0
                        and status.st_dev == places[i].device and status.st_ino == places[i].inode)
        if not same or self.ended or self.words is not words or self.names is not names[0]:
            return False
        self.until_ns = now_ns() + self.again_ns
        return True
