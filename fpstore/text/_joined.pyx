"""Owns the step from a list of tokens that a package found to the UTF-8 that the core reads, in one pass."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdlib cimport realloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h" nogil:
    # Borrowed references: to count them takes as long as to copy the letters.
    PyObject* PyList_GET_ITEM(list tokens, Py_ssize_t i)
    bint PyUnicode_CheckExact(PyObject* token)
    int PyUnicode_KIND(PyObject* token)
    void* PyUnicode_DATA(PyObject* token)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* token)
    bint PyUnicode_IS_ASCII(PyObject* token)

cdef extern from *:
    void prefetch "__builtin_prefetch" (const void* address) nogil

cdef enum:
    SEPARATOR = 0x1F
    MAX_BYTES = 4  # of one character in UTF-8
    AHEAD = 16  # tokens
    MIN_SCRATCH = 1 << 16
    MAX_SCRATCH = 1 << 22
    SLACK_BYTES = 16  # what put_token may write behind what it has to say


cdef inline uint8_t* put(uint8_t* out, uint32_t point) noexcept nogil:
    if 0xD800 <= point < 0xE000:
        point = 0xFFFD  # half of a surrogate pair is no character
    if point < 0x80:
        out[0] = point
        return out + 1
    if point < 0x800:
        out[0] = 0xC0 | point >> 6
        out[1] = 0x80 | point & 0x3F
        return out + 2
    if point < 0x10000:
        out[0] = 0xE0 | point >> 12
        out[1] = 0x80 | point >> 6 & 0x3F
        out[2] = 0x80 | point & 0x3F
        return out + 3
    out[0] = 0xF0 | point >> 18
    out[1] = 0x80 | point >> 12 & 0x3F
    out[2] = 0x80 | point >> 6 & 0x3F
    out[3] = 0x80 | point & 0x3F
    return out + 4


cdef inline uint32_t three_bytes(uint32_t point) noexcept nogil:
    """The UTF-8 of a code point from U+0800 to U+FFFF."""
    return 0x8080E0 | point >> 12 | (point >> 6 & 0x3F) << 8 | (point & 0x3F) << 16


cdef inline bint is_three_bytes(uint32_t point) noexcept nogil:
    return <uint32_t>(point - 0x800) < 0xD000  # up to where the surrogates begin


cdef inline uint8_t* put_token(uint8_t* out, PyObject* token, Py_ssize_t length) noexcept nogil:
    cdef const void* data = PyUnicode_DATA(token)
    cdef int kind = PyUnicode_KIND(token)
    cdef uint32_t first, second
    cdef Py_ssize_t i
    if PyUnicode_IS_ASCII(token):
        if length == 1:
            out[0] = (<const uint8_t*>data)[0]
        else:
            memcpy(out, data, length)
        out += length
    elif kind == 2:
        first = (<const uint16_t*>data)[0]
        second = (<const uint16_t*>data)[1]  # a zero follows the last
        second = first if length == 1 else second
        if length <= 2 and is_three_bytes(first) and is_three_bytes(second):
            # One or two, nobody can foretell: so there is no branch on it.
            first = three_bytes(first)
            second = three_bytes(second)
            memcpy(out, &first, 4)
            memcpy(out + 3, &second, 4)
            out += 3 * length
        else:
            for i in range(length):
                out = put(out, (<const uint16_t*>data)[i])
    elif kind == 1:
        for i in range(length):
            out = put(out, (<const uint8_t*>data)[i])
    else:
        for i in range(length):
            out = put(out, (<const uint32_t*>data)[i])
    out[0] = SEPARATOR
    return out + 1


# Where tokens are joined; kept, as fresh memory costs more than all the rest. Only who has the interpreter's lock uses it.
cdef uint8_t* scratch = NULL
cdef Py_ssize_t scratch_room = 0


cdef int grow_scratch(Py_ssize_t room) except -1:
    global scratch, scratch_room
    cdef uint8_t* larger = <uint8_t*>realloc(scratch, room)
    if larger == NULL:
        raise MemoryError(f"token: no memory for {room} bytes of tokens")
    scratch = larger
    scratch_room = room
    return 0


def joined(list tokens not None):
    """The UTF-8 of tokens, each followed by U+001F. Raises TypeError for what is not a str."""
    cdef Py_ssize_t i, length, used, count = len(tokens)
    cdef uint8_t* out = scratch
    cdef PyObject* token
    for i in range(count):
        if i + AHEAD < count:
            token = PyList_GET_ITEM(tokens, i + AHEAD)
            prefetch(token)
            prefetch(<const uint8_t*>token + 64)
        token = PyList_GET_ITEM(tokens, i)
        if not PyUnicode_CheckExact(token):
            raise TypeError(f"token: found {type(tokens[i]).__name__}, expected str")
        length = PyUnicode_GET_LENGTH(token)
        if scratch_room - (out - scratch) - SLACK_BYTES < MAX_BYTES * length:
            used = out - scratch
            grow_scratch(2 * used + MAX_BYTES * length + MIN_SCRATCH)
            out = scratch + used
        out = put_token(out, token, length)
    packed = PyBytes_FromStringAndSize(<const char*>scratch, out - scratch)
    if scratch_room > MAX_SCRATCH:
        grow_scratch(MIN_SCRATCH)
    return packed
