# What single queries are asked with, as words: no function of Python's is called where it is as most are.
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from libc.stdint cimport uint64_t


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
