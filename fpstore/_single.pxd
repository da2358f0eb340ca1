# What the compiled modules share of single queries.
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from libc.stdint cimport uint64_t

from fpstore._answers cimport Answers
from fpstore._native cimport FoundRows, Part, ScanRoom, Sources
from fpstore._pending cimport PendingIndex
from fpstore._reaches cimport Reaches
from fpstore._scan cimport Scanner
from fpstore._watch cimport Watch


cdef enum:
    MOST_ROWS = 4096  # more are another answer than a single query mostly has
    FEW_ROWS = 64  # where the first are wanted, what reads no others is as fast from here on

# What is asked for, as words: no function of Python's is called where it is as most are.
cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object value) noexcept


cdef extern from *:
    """
    /* Whether an int is 0 to 2^64 - 1 and its digits are at hand. */
    static inline int fpstore_digits(PyObject *value, uint64_t *word) {
    #if PY_VERSION_HEX < 0x030C0000 && PYLONG_BITS_IN_DIGIT == 30
        const digit *digits = ((PyLongObject *)value)->ob_digit;
        const Py_ssize_t count = Py_SIZE(value);
        if (count < 0 || count > 3 || (count == 3 && digits[2] >> 4 != 0)) return 0;
        *word = count > 0 ? digits[0] : 0;
        if (count > 1) *word |= (uint64_t)digits[1] << 30;
        if (count > 2) *word |= (uint64_t)digits[2] << 60;
        return 1;
    #else
        (void)value, (void)word;
        return 0;
    #endif
    }

    static inline int fpstore_is_alone(void) {
    #ifdef Py_GIL_DISABLED
        return 0;
    #else
        const PyThreadState *own = PyThreadState_Get();
        return own->prev == NULL && own->next == NULL;
    #endif
    }
    """
    bint digits "fpstore_digits"(object value, uint64_t *word)
    bint is_alone "fpstore_is_alone"()  # whether no other thread is there that has run any Python, and wants to go on


cdef inline bint as_key(object value, uint64_t *key, unsigned bits) except -1:
    # Whether it is an int of so many bits; one of 64 may have a sign, as those of int64 do.
    cdef int overflow = 0
    if type(value) is not int:
        return False
    if digits(value, key):
        return bits == 64 or key[0] >> bits == 0
    key[0] = <uint64_t>PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow > 0:
        key[0] = PyLong_AsUnsignedLongLong(value)
        if key[0] == <uint64_t>-1 and PyErr_Occurred():
            PyErr_Clear()
            return False
    return overflow >= 0 and (bits == 64 or key[0] >> bits == 0)


cdef inline bint as_distance(object value, unsigned own, unsigned most, unsigned *distance) except -1:
    # Whether it is None, for the store's own, or a distance up to `most`.
    cdef uint64_t number
    if value is None:
        distance[0] = own
        return own <= most
    if not as_key(value, &number, 64):
        return False
    distance[0] = <unsigned>number
    return number <= most  # one with a sign is more


cdef void ask_code() noexcept
cdef bint enter_all(tuple views) except -1
cdef bint leave_all(tuple views) except -1
cdef bint is_newest(Watch watch, single) except -1


cdef class Segments:
    cdef readonly tuple made_of
    cdef readonly dict reaches
    cdef dict others
    cdef Reaches recent
    cdef unsigned recent_distance, recent_count
    cdef uint64_t key_count
    cdef tuple views, ids
    cdef list flipped
    cdef Part *parts
    cdef unsigned part_count
    cdef bint is_here  # none of them lies elsewhere
    cdef Reaches reaches_of(self, unsigned distance, unsigned count)
    cdef Segments looked_up(self, tuple flips)
    cdef int take(self, Reaches reaches) except -1
    cdef int look_up(self, Reaches reaches, int at) except -1


cdef class Single:
    cdef readonly Segments segments
    cdef tuple views
    cdef PendingIndex pending
    cdef Sources sources
    cdef unsigned distance, most
    cdef int looks_up, scans
    cdef bint with_ids
    cdef object alive
    cdef Answers answers
    cdef list nothing
    cdef Single newest(self, Watch watch)
    cdef object nearest_row(self, uint64_t key, unsigned distance)
    cdef object first_rows(self, Watch watch, fingerprint, count, max_distance, bint signed, Reaches reaches, scanned)
    cdef object told(self, Reaches reaches, FoundRows *found, uint64_t count, bint signed, method=?)
    cdef bint search(self, const Part *parts, uint64_t key, unsigned distance, Scanner scanner, FoundRows *found) except -1
    cdef object found(self, uint64_t key, unsigned distance, uint64_t most, bint signed, bint first_only=?)
    cdef Scanner scanner(self, unsigned distance, ScanRoom *room)
    cdef bint enter(self, unsigned distance) except -1
    cdef bint leave(self) except -1
    cdef int keep_alive(self, FoundRows *found) except -1
    cdef object answer(self, FoundRows *found, bint signed, method=?)
    cdef bytes rows(self, FoundRows *found)
