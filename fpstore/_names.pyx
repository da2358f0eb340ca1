"""Names, byte strings: as Python has them, sorted, merged, and compressed in blocks.

Many names are two arrays: data, uint8[bytes], and ends, int64[n]: name i is data[ends[i - 1] or 0 : ends[i]]. The kernels
are C (fpstore/native/names_code.c).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.sequence cimport PySequence_Fast, PySequence_Fast_ITEMS
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from fpstore._native cimport (
    BAD_BLOCK,
    NAME_BLOCK,
    NAME_BLOCK_BYTES,
    NAME_BYTES,
    NAME_LINE_BITS,
    NAME_LINE_BYTES,
    NAME_LINE_NAMES,
    NO_MEMORY,
    OK,
    Bytes,
    NameCoder,
    NameLast,
    Names,
    NameSource,
    Status,
    bytes_reserve,
    name_block_count,
    name_block_room,
    name_block_write,
    name_coder_free,
    name_coder_new,
    name_hash,
    name_hashes,
    names_gather,
    names_merge,
    names_part,
    names_sort,
)
from fpstore.errors import CorruptStore

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *at) nogil

# So many strings ahead the processor is told where they lie.
cdef Py_ssize_t AHEAD = 8
# So many names are worth to let go of the interpreter's lock.
cdef Py_ssize_t LET_GO = 1 << 12

MAX_NAME_BYTES = NAME_BYTES
BLOCK_NAMES = NAME_BLOCK
BLOCK_BYTES = NAME_BLOCK_BYTES
LINE_BYTES = NAME_LINE_BYTES
LINE_NAMES = NAME_LINE_NAMES

cdef object UINT8 = np.dtype(np.uint8), UINT32 = np.dtype(np.uint32), INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64)


# What names without a byte lie in: kernels take no NULL.
cdef uint8_t NOTHING = 0


cdef bint ends_are_right(const int64_t[::1] ends, int64_t *last) noexcept nogil:
    cdef Py_ssize_t i
    cdef bint right = True
    for i in range(ends.shape[0]):
        right = right and last[0] <= ends[i] and ends[i] - last[0] <= NAME_BYTES
        last[0] = ends[i]
    return right

cdef Names names_of(const uint8_t[::1] data, const int64_t[::1] ends) except *:
    """Names in two arrays; ValueError unless the ends increase from 0 to the end of the data, of which kernels are sure."""
    cdef Names names
    cdef int64_t before = 0
    cdef bint right
    names.data = &data[0] if data.shape[0] else &NOTHING
    names.ends = &ends[0] if ends.shape[0] else NULL
    names.count = <uint64_t>ends.shape[0]
    # To let go of the interpreter's lock for less than this takes longer: it is waited for afterwards.
    if ends.shape[0] < LET_GO:
        right = ends_are_right(ends, &before)
    else:
        with nogil:
            right = ends_are_right(ends, &before)
    if not right or before != data.shape[0]:
        raise ValueError(f"{ends.shape[0]} names in {data.shape[0]} bytes: their ends are not those of names")
    return names


def expect_names(const uint8_t[::1] data not None, const int64_t[::1] ends not None):
    """ValueError unless these are names: no end lies before another, or beyond the data, and none is too long."""
    names_of(data, ends)


cdef object taken(Bytes *out):
    """What was gathered, uint8[used]; the room is freed."""
    cdef uint8_t[::1] view
    result = np.empty(out.used, UINT8)
    if out.used:
        view = result
        memcpy(&view[0], out.data, out.used)
    return result


def of_values(values, bint text, str what):
    """Strings of a list or tuple as names; text: str, in UTF-8, else bytes.

    Returns (data, ends). TypeError for anything else among them, ValueError for what is longer than MAX_NAME_BYTES or has
    half of a surrogate pair; both say which item.
    """
    held = PySequence_Fast(values, b"expected strings")
    cdef Py_ssize_t count = len(held), i, size
    cdef const char *at
    cdef Bytes out
    cdef int64_t[::1] ends
    cdef PyObject **items = PySequence_Fast_ITEMS(held)
    result = np.empty(count, INT64)
    ends = result
    memset(&out, 0, cython.sizeof(Bytes))
    try:
        for i in range(count):
            if i + AHEAD < count:  # strings lie all over the memory
                prefetch(items[i + AHEAD])
                prefetch(<const char *>items[i + AHEAD] + 64)
            value = <object>items[i]
            if text:
                if not isinstance(value, str):
                    raise TypeError(f"{what}, item {i}: found a {type(value).__name__}, expected a str")
                try:
                    at = PyUnicode_AsUTF8AndSize(value, &size)
                except UnicodeEncodeError:
                    raise ValueError(f"{what}, item {i}: found half of a surrogate pair, expected text") from None
            else:
                if not isinstance(value, bytes):
                    raise TypeError(f"{what}, item {i}: found a {type(value).__name__}, expected bytes")
                at, size = PyBytes_AS_STRING(value), len(value)
            if size > NAME_BYTES:
                raise ValueError(f"{what}, item {i}: found {size} bytes, expected at most {NAME_BYTES}")
            if bytes_reserve(&out, <uint64_t>size) != OK:
                raise MemoryError()
            if size:
                memcpy(out.data + out.used, at, <size_t>size)
            out.used += <uint64_t>size
            ends[i] = <int64_t>out.used
        return taken(&out), result
    finally:
        free(out.data)


def to_values(const uint8_t[::1] data not None, const int64_t[::1] ends not None, bint text):
    """Names as a list of str, or of bytes. CorruptStore for what is no UTF-8."""
    cdef Names names = names_of(data, ends)
    cdef uint64_t i
    cdef int64_t start
    result = []
    for i in range(names.count):
        start = start_of(&names, i)
        if text:
            try:
                result.append(PyUnicode_DecodeUTF8(<const char *>names.data + start, names.ends[i] - start, NULL))
            except UnicodeDecodeError:
                raise CorruptStore("names", f"a name of {names.ends[i] - start} bytes that is no UTF-8", "text") from None
        else:
            result.append(PyBytes_FromStringAndSize(<const char *>names.data + start, names.ends[i] - start))
    return result


def take(const uint8_t[::1] data not None, const int64_t[::1] ends not None, const int64_t[::1] order not None):
    """The names of these indexes, in their order: (data, ends). IndexError for one that is not there."""
    cdef Names names = names_of(data, ends)
    cdef Py_ssize_t i, count = order.shape[0]
    cdef int64_t total = 0, start, size
    cdef bint right = True
    cdef uint8_t[::1] out
    cdef int64_t[::1] out_ends
    result_ends = np.empty(count, INT64)
    out_ends = result_ends
    with nogil:
        for i in range(count):
            if order[i] < 0 or <uint64_t>order[i] >= names.count:
                right = False
                break
            total += names.ends[order[i]] - start_of(&names, <uint64_t>order[i])
            out_ends[i] = total
    if not right:
        raise IndexError(f"a name that is not among {names.count}")
    result = np.empty(total, UINT8)
    out = result
    with nogil:
        total = 0
        for i in range(count):
            start = start_of(&names, <uint64_t>order[i])
            size = names.ends[order[i]] - start
            if size:
                memcpy(&out[total], names.data + start, <size_t>size)
            total += size
    return result, result_ends


def sort_order(const uint8_t[::1] data not None, const int64_t[::1] ends not None):
    """What sorts names, below 2^32 of them, by their bytes: int64[n]; equal ones stay in their order."""
    cdef Names names = names_of(data, ends)
    cdef Status status = OK
    cdef uint32_t[::1] order
    if names.count >> 32:
        raise ValueError(f"{names.count} names at once: expected fewer than 2^32")
    result = np.arange(names.count, dtype=UINT32)
    order = result
    if names.count:
        with nogil:
            status = names_sort(&names, &order[0], names.count)
    if status != OK:
        raise MemoryError()
    return result.astype(INT64)


def split(
    const uint8_t[::1] data not None,
    const int64_t[::1] ends not None,
    const uint8_t[::1] bounds_data not None,
    const int64_t[::1] bounds_ends not None,
):
    """The indexes of names, below 2^32 of them, in parts by bounds, at most 255 sorted names: a list of uint32[n].

    In the first part are those below all bounds, in the next one those that are not below the first bound, and so on.
    """
    cdef Names names = names_of(data, ends), bounds = names_of(bounds_data, bounds_ends)
    cdef uint8_t[::1] parts
    if names.count >> 32 or bounds.count > 255:
        raise ValueError(f"{names.count} names, {bounds.count} bounds: expected fewer than 2^32, and at most 255")
    result = np.empty(names.count, UINT8)
    parts = result
    if names.count:
        with nogil:
            names_part(&names, &bounds, &parts[0])
    return [np.flatnonzero(result == part).astype(UINT32) for part in range(bounds.count + 1)]


def is_fresh(const uint8_t[::1] data not None, const int64_t[::1] ends not None, bytes last):
    """Of sorted names, which differ from the one before: bool[n]. last: before the first of them, None for none."""
    cdef Names names = names_of(data, ends)
    cdef uint64_t i
    cdef int64_t start, from_, size
    cdef uint8_t[::1] fresh
    result = np.ones(names.count, UINT8)
    fresh = result
    with nogil:
        for i in range(1, names.count):
            start, from_ = start_of(&names, i), start_of(&names, i - 1)
            size = names.ends[i] - start
            fresh[i] = size != start - from_ or (size != 0 and memcmp(names.data + start, names.data + from_, <size_t>size) != 0)
    if names.count and last is not None:
        fresh[0] = last != bytes(data[:ends[0]])
    return result.view(bool)


def hashes(const uint8_t[::1] data not None, const int64_t[::1] ends not None, uint64_t key=0):
    """Of names: uint64[n]; by those of the key 0 the filter of a file knows them."""
    cdef Names names = names_of(data, ends)
    cdef uint64_t[::1] out
    result = np.empty(names.count, UINT64)
    out = result
    if 0 < ends.shape[0] < LET_GO:
        name_hashes(&names, key, &out[0])
    elif ends.shape[0]:
        with nogil:
            name_hashes(&names, key, &out[0])
    return result


def hashes_of(values, uint64_t key):
    """Of a list of str, by a key that no stranger knows: uint64[n]. Half of a surrogate pair counts by its three bytes."""
    cdef Py_ssize_t count = len(values), i, size
    cdef const char *at
    cdef uint64_t[::1] out
    result = np.empty(count, UINT64)
    out = result
    for i in range(count):
        value = values[i]
        try:
            at = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:
            value = value.encode("utf-8", "surrogatepass")
            at, size = PyBytes_AS_STRING(value), len(value)
        out[i] = name_hash(<const uint8_t *>at, <uint64_t>size, key)
    return result


def filter_lines(const uint64_t[::1] sorted_hashes not None, uint64_t line_count, uint64_t first, uint64_t end):
    """Lines [first, end) of a filter of so many lines, in which lie all of these hashes: uint8[64 * lines]."""
    cdef uint64_t i, line, bits
    cdef unsigned bit
    cdef uint8_t[::1] out
    cdef bint right = True
    result = np.zeros(NAME_LINE_BYTES * (end - first), UINT8)
    out = result
    with nogil:
        for i in range(<uint64_t>sorted_hashes.shape[0]):
            line = (sorted_hashes[i] >> 32) * line_count >> 32
            if not first <= line < end:
                right = False
                break
            bits = sorted_hashes[i] * <uint64_t>0x9E3779B97F4A7C15
            for bit in range(NAME_LINE_BITS):
                out[NAME_LINE_BYTES * (line - first) + ((bits & 511) >> 3)] |= <uint8_t>(1 << (bits & 7))
                bits >>= 9
    if not right:
        raise ValueError(f"a hash of line {line}, expected those of lines {first} to {end}")
    return result


def lines_of(const uint64_t[::1] sorted_hashes not None, uint64_t line_count):
    """In which line of a filter each hash lies: int64[n]."""
    cdef Py_ssize_t i
    cdef int64_t[::1] out
    result = np.empty(sorted_hashes.shape[0], INT64)
    out = result
    for i in range(sorted_hashes.shape[0]):
        out[i] = <int64_t>((sorted_hashes[i] >> 32) * line_count >> 32)
    return result


cdef class NameEncoder:
    """Codes sorted, distinct names in blocks."""

    cdef NameCoder *coder

    def __cinit__(self):
        self.coder = name_coder_new()
        if self.coder == NULL:
            raise MemoryError()

    def __dealloc__(self):
        name_coder_free(self.coder)

    def blocks(self, const uint8_t[::1] data not None, const int64_t[::1] ends not None, bint all):
        """The names as blocks, without those that make no full one unless all is set.

        Returns (blocks, bytes of each int64[b], names of each int64[b]). ValueError unless the names increase.
        """
        cdef Names names = names_of(data, ends)
        cdef uint64_t first = 0, count, room
        cdef Bytes out
        cdef uint64_t i
        cdef int64_t start, from_, size
        cdef bint sorted_ = True
        with nogil:
            for i in range(1, names.count):
                start, from_ = start_of(&names, i), start_of(&names, i - 1)
                size = names.ends[i] - start
                if not increases(names.data + from_, start - from_, names.data + start, size):
                    sorted_ = False
                    break
        if not sorted_:
            raise ValueError("names that do not increase")
        memset(&out, 0, cython.sizeof(Bytes))
        sizes, counts = [], []
        try:
            while first < names.count:
                count = name_block_count(&names, first)
                if not all and first + count == names.count:
                    break
                room = name_block_room(&names, first, count)
                if bytes_reserve(&out, room) != OK:
                    raise MemoryError()
                with nogil:
                    room = name_block_write(self.coder, &names, first, count, out.data + out.used)
                out.used += room
                sizes.append(room)
                counts.append(count)
                first += count
            return taken(&out), np.array(sizes, INT64), np.array(counts, INT64)
        finally:
            free(out.data)


    def sorted_blocks(
        self,
        const uint8_t[::1] data not None,
        const int64_t[::1] ends not None,
        const uint64_t[::1] handles not None,
        uint32_t[::1] order not None,
    ):
        """The names of these indexes, which are put in order, as blocks; handles: of all names, uint64[n].

        Returns (blocks, bytes of each int64[b], names of each int64[b], hashes of the names uint64[m], their handles
        uint64[m], how many bytes they have), in their order. ValueError where two are equal, IndexError for what is not
        there.
        """
        cdef Names names = names_of(data, ends), block
        cdef uint64_t count = <uint64_t>order.shape[0], first = 0, room = 0, i, name_bytes = 0
        cdef Bytes out, held
        cdef Status status = OK
        cdef bint right = <uint64_t>handles.shape[0] == names.count
        cdef int64_t[::1] held_ends
        cdef uint64_t[::1] out_hashes, out_handles
        for i in range(count):
            right = right and order[i] < names.count
        if not right:
            raise IndexError(f"{handles.shape[0]} handles of {names.count} names, or an index that is not among these")
        memset(&out, 0, cython.sizeof(Bytes))
        memset(&held, 0, cython.sizeof(Bytes))
        held_ends = np.empty(NAME_BLOCK, INT64)
        result_hashes, result_handles = np.empty(count, UINT64), np.empty(count, UINT64)
        out_hashes, out_handles = result_hashes, result_handles
        sizes, counts = [], []
        try:
            if count:
                with nogil:
                    status = names_sort(&names, &order[0], count)
                    for i in range(count):
                        out_handles[i] = handles[order[i]]
            while status == OK and first < count:
                with nogil:
                    status = names_gather(&names, &order[0], first, count, &held, &held_ends[0], &block.count)
                    block.data, block.ends = held.data if held.data else &NOTHING, &held_ends[0]
                    if status == OK:
                        name_hashes(&block, 0, &out_hashes[first])
                        status = bytes_reserve(&out, name_block_room(&block, 0, block.count))
                    if status == OK:
                        room = name_block_write(self.coder, &block, 0, block.count, out.data + out.used)
                out.used += room
                name_bytes += held.used
                sizes.append(room)
                counts.append(block.count)
                first += block.count
            if status == BAD_BLOCK:
                raise ValueError("names of which two are equal")
            if status != OK:
                raise MemoryError()
            return taken(&out), np.array(sizes, INT64), np.array(counts, INT64), result_hashes, result_handles, name_bytes
        finally:
            free(out.data)
            free(held.data)


cdef inline bint increases(const uint8_t *one, int64_t one_bytes, const uint8_t *other, int64_t other_bytes) noexcept nogil:
    cdef int64_t shared = one_bytes if one_bytes < other_bytes else other_bytes
    cdef int order = memcmp(one, other, <size_t>shared) if shared else 0
    return order < 0 or (order == 0 and one_bytes < other_bytes)


def merge_names(sources, bint once, last):
    """Merge sources, each (data, ends, values uint64[n], at, ended), sorted, until one that has not ended has none left.

    once: equal names are left out, and CorruptStore where their values differ. last: (name, value) merged before, or
    None. Returns (data, ends, values, where each source has come to).
    """
    cdef uint64_t count = len(sources), i, total = 0, merged = 0
    cdef NameSource *states = <NameSource *>calloc(count + 1, cython.sizeof(NameSource))
    cdef NameLast before
    cdef Bytes out
    cdef Status status
    cdef const uint64_t[::1] values
    cdef int64_t[::1] ends
    cdef uint64_t[::1] out_values
    memset(&out, 0, cython.sizeof(Bytes))
    before.bytes = NULL
    try:
        if states == NULL:
            raise MemoryError()
        held = []
        for i in range(count):
            data, source_ends, values, at, ended = sources[i]
            states[i].names = names_of(data, source_ends)
            if <uint64_t>values.shape[0] != states[i].names.count or at > states[i].names.count:
                raise ValueError(f"{values.shape[0]} values, from {at} on, of {states[i].names.count} names")
            states[i].values = &values[0] if values.shape[0] else NULL
            states[i].at = at
            states[i].ended = ended
            total += states[i].names.count - states[i].at
            held.append(values)
        if last is not None:
            name, value = last
            before.bytes = <const uint8_t *>PyBytes_AS_STRING(name)
            before.count = len(name)
            before.value = value
        result_ends, result_values = np.empty(total + 1, INT64), np.empty(total + 1, UINT64)
        ends, out_values = result_ends, result_values
        with nogil:
            status = names_merge(states, count, once, before, &out, &ends[0], &out_values[0], &merged)
        if status == NO_MEMORY:
            raise MemoryError()
        if status == BAD_BLOCK:
            raise CorruptStore("names", "two handles of one name", "one")
        return taken(&out), result_ends[:merged], result_values[:merged], [states[i].at for i in range(count)]
    finally:
        free(states)
        free(out.data)
