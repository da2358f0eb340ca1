"""Owns the step from a list of tokens that a package found to the UTF-8 that the core reads, in one pass."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    bint PyUnicode_IS_ASCII(object text)
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)
    char* PyBytes_AS_STRING(object data)

cdef enum:
    SEPARATOR = 0x1F
    MOST_BYTES = 4  # of one character in UTF-8


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


def joined(list tokens not None):
    """The UTF-8 of tokens, each followed by U+001F. Raises TypeError for what is not a str."""
    cdef Py_ssize_t room = 0, length, i
    cdef uint8_t* out
    cdef const void* data
    cdef int kind
    for token in tokens:
        if type(token) is not str:
            raise TypeError(f"token: found {type(token).__name__}, expected str")
        room += MOST_BYTES * PyUnicode_GET_LENGTH(token) + 1
    packed = PyBytes_FromStringAndSize(NULL, room)
    cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(packed)
    out = start
    for token in tokens:
        length = PyUnicode_GET_LENGTH(token)
        data = PyUnicode_DATA(token)
        kind = PyUnicode_KIND(token)
        if PyUnicode_IS_ASCII(token):
            memcpy(out, data, length)
            out += length
        elif kind == 1:
            for i in range(length):
                out = put(out, (<const uint8_t*>data)[i])
        elif kind == 2:
            for i in range(length):
                out = put(out, (<const uint16_t*>data)[i])
        else:
            for i in range(length):
                out = put(out, (<const uint32_t*>data)[i])
        out[0] = SEPARATOR
        out += 1
    return packed[: out - start]
