"""Owns the step from a list of tokens that a package found to the UTF-8 that the core reads, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
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

cdef enum:
    SEPARATOR = 0x1F
    MOST_BYTES = 4  # of one character in UTF-8
    LIKELY_BYTES = 12  # of one token


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


cdef inline uint8_t* put_token(uint8_t* out, PyObject* token, Py_ssize_t length) noexcept nogil:
    cdef const void* data = PyUnicode_DATA(token)
    cdef int kind = PyUnicode_KIND(token)
    cdef Py_ssize_t i
    if kind == 2:
        for i in range(length):
            out = put(out, (<const uint16_t*>data)[i])
    elif PyUnicode_IS_ASCII(token):
        if length == 1:
            out[0] = (<const uint8_t*>data)[0]
        else:
            memcpy(out, data, length)
        out += length
    elif kind == 1:
        for i in range(length):
            out = put(out, (<const uint8_t*>data)[i])
    else:
        for i in range(length):
            out = put(out, (<const uint32_t*>data)[i])
    out[0] = SEPARATOR
    return out + 1


def joined(list tokens not None):
    """The UTF-8 of tokens, each followed by U+001F. Raises TypeError for what is not a str."""
    cdef Py_ssize_t i, length, used, count = len(tokens), room = LIKELY_BYTES * count
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, room), larger
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(packed)
    cdef uint8_t* end = out + room
    cdef PyObject* token
    for i in range(count):
        token = PyList_GET_ITEM(tokens, i)
        if not PyUnicode_CheckExact(token):
            raise TypeError(f"token: found {type(tokens[i]).__name__}, expected str")
        length = PyUnicode_GET_LENGTH(token)
        if end - out <= MOST_BYTES * length:
            used = out - <uint8_t*>PyBytes_AS_STRING(packed)
            room = 2 * used + MOST_BYTES * length + LIKELY_BYTES * (count - i)
            larger = PyBytes_FromStringAndSize(NULL, room)
            out = <uint8_t*>PyBytes_AS_STRING(larger)
            memcpy(out, PyBytes_AS_STRING(packed), used)
            packed = larger
            end = out + room
            out += used
        out = put_token(out, token, length)
    return packed[: out - <uint8_t*>PyBytes_AS_STRING(packed)]
