"""Values of any length, packed one after the other: some of them together, and digests of them. The kernels are C."""

import os

import numpy as np

from libc.math cimport signbit
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    MOST_DIGITS, MOST_MEASURE, PackedColumn, packed_are_plain, packed_digests, packed_gather, packed_integer, packed_lines,
    packed_measure, read_at,
)


cdef int expect_offsets(const uint8_t[::1] data, const int64_t[::1] offsets) except -1:
    """ValueError for offsets that do not increase, or lead out of data."""
    cdef Py_ssize_t i
    cdef int64_t before = 0
    cdef bint is_good = offsets.shape[0] > 0
    for i in range(offsets.shape[0]):
        is_good &= before <= offsets[i]
        before = offsets[i]
    if not is_good or before > data.shape[0]:
        raise ValueError(f"offsets: found some that do not increase to at most {data.shape[0]}, expected those of values")
    return 0


def gather(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, const int64_t[::1] indexes not None,
           place=None):
    """The values with these indexes, one after the other: uint8[bytes].

    Value i is data[offsets[i] : offsets[i + 1]]; offsets: int64[n + 1], increasing. indexes: int64[m], each below n.
    place: where they are put, of exactly so many bytes; an array of its own by default. Raises ValueError for others.
    """
    cdef uint64_t size = 0, count = <uint64_t>indexes.shape[0]
    cdef uint64_t i
    cdef uint8_t[::1] out
    expect_offsets(data, offsets)
    for i in range(count):
        if not 0 <= indexes[i] < offsets.shape[0] - 1:
            raise ValueError(f"index: found {indexes[i]}, expected one of {offsets.shape[0] - 1} values")
        size += <uint64_t>(offsets[indexes[i] + 1] - offsets[indexes[i]])
    found = np.empty(size, dtype=np.uint8) if place is None else place
    out = found
    if <uint64_t>out.shape[0] != size:
        raise ValueError(f"place: found one of {out.shape[0]} bytes, expected {size}")
    if size:
        with nogil:
            left()
            packed_gather(&data[0], &offsets[0], &indexes[0], count, &out[0])
            comes()
    return found


def count_marked(const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                 const int64_t[::1] indexes not None, const uint8_t[::1] marks not None):
    """How many characters of each of the values with these indexes have marks[character]: int64[m]; values are UTF-8.

    Of data, offsets and indexes as in gather. marks: uint8[2^21], 0 for all below U+0800, which are not looked at.
    Raises ValueError for others; of values that are no UTF-8 nothing is read but their own bytes.
    """
    cdef Py_ssize_t i
    cdef int64_t at, end, count
    cdef uint32_t character
    cdef uint64_t eight
    expect_offsets(data, offsets)
    if marks.shape[0] != 1 << 21:
        raise ValueError(f"marks: found {marks.shape[0]}, expected {1 << 21}")
    for i in range(indexes.shape[0]):
        if not 0 <= indexes[i] < offsets.shape[0] - 1:
            raise ValueError(f"index: found {indexes[i]}, expected one of {offsets.shape[0] - 1} values")
    found = np.zeros(indexes.shape[0], dtype=np.int64)
    cdef int64_t[::1] counts = found
    with nogil:
        for i in range(indexes.shape[0]):
            at, end = offsets[indexes[i]], offsets[indexes[i] + 1]
            count = 0
            while at < end:
                if data[at] < 0xE0 or end - at < 3:
                    at += 1
                    while end - at >= 8:  # most texts are of ASCII
                        memcpy(&eight, &data[at], 8)
                        if eight & 0x8080808080808080u:
                            break
                        at += 8
                    continue
                character = (data[at] & 15) << 12 | (data[at + 1] & 63) << 6 | (data[at + 2] & 63)
                if data[at] >= 0xF0 and end - at > 3:
                    character = (character & 0x7FFF) << 6 | (data[at + 3] & 63)
                    at += 1
                at += 3
                count += marks[character]
            counts[i] = count
    return found


def ranges(int fd, int64_t size, const int64_t[::1] starts not None, const int64_t[::1] ends not None):
    """The values from starts[i] to ends[i] of a file, one after the other: uint8[bytes], and where each begins.

    The latter are int64[n + 1]. Those that lie side by side are read at once, and nothing of the file is mapped. Raises
    ValueError for what leads out of its `size` bytes, EOFError where it has fewer, and what the system does.
    """
    cdef Py_ssize_t i, first = 0, count = starts.shape[0]
    cdef int64_t used = 0
    cdef int failed = 0
    cdef uint8_t[::1] out
    cdef int64_t[::1] offsets
    if count != ends.shape[0]:
        raise ValueError(f"found {count} starts and {ends.shape[0]} ends, expected as many")
    places = np.zeros(count + 1, dtype=np.int64)
    offsets = places
    for i in range(count):
        if not 0 <= starts[i] <= ends[i] <= size:
            raise ValueError(f"value {i}: found {starts[i]} to {ends[i]}, expected some of {size} bytes")
        used += ends[i] - starts[i]
        offsets[i + 1] = used
    found = np.empty(used, dtype=np.uint8)
    if used == 0:
        return found, places
    out = found
    with nogil:
        left()
        for i in range(count):
            if failed or (i + 1 < count and starts[i + 1] == ends[i]):
                continue
            if offsets[i + 1] > offsets[first]:
                failed = read_at(fd, &out[offsets[first]], <size_t>(offsets[i + 1] - offsets[first]),
                                 <uint64_t>starts[first])
            first = i + 1
        comes()
    if failed > 0:
        raise OSError(failed, os.strerror(failed))
    if failed < 0:
        raise EOFError(f"found less than the {size} bytes of a file, expected them")
    return found, places


def has_halves(const uint8_t[::1] data not None):
    """Whether there is half of a surrogate pair in UTF-8 that may have such: uint8[n]."""
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef bint found = False
    if not data.shape[0]:
        return False
    at, end = &data[0], &data[0] + data.shape[0]
    with nogil:
        while not found:
            at = <const uint8_t *>memchr(at, 0xED, <size_t>(end - at))
            if at == NULL or at + 1 == end:
                break
            at += 1
            found = at[0] >= 0xA0
    return found


def lines(list columns not None, *, bint plain=False):
    """Columns of values, each (data, offsets) as for gather, as lines: parted by tabs, and no value is looked into.

    plain: but for whether each byte is printable ASCII, and no backslash; None where one is not. Raises ValueError for
    columns of other lengths, and for none.
    """
    cdef uint64_t count, i, number = <uint64_t>len(columns)
    cdef uint8_t[::1] room = np.empty((number + 1) * sizeof(PackedColumn), dtype=np.uint8)
    cdef PackedColumn *column = <PackedColumn *>&room[0]
    cdef const uint8_t[::1] data
    cdef const int64_t[::1] offsets
    cdef uint8_t[::1] out
    cdef bint is_plain
    if not columns or len({len(offsets) for _, offsets in columns}) > 1:
        raise ValueError(f"found columns of {[len(offsets) - 1 for _, offsets in columns]} values, expected as many in each")
    size = 0
    for i in range(number):
        data, offsets = columns[i]
        expect_offsets(data, offsets)
        size += offsets[offsets.shape[0] - 1] - offsets[0] + offsets.shape[0] - 1
        column[i].data, column[i].offsets = &data[0] if data.shape[0] else NULL, &offsets[0]
        if plain and data.shape[0]:
            with nogil:
                is_plain = packed_are_plain(&data[0] + offsets[0], <uint64_t>(offsets[offsets.shape[0] - 1] - offsets[0]))
            if not is_plain:
                return None
    count = <uint64_t>offsets.shape[0] - 1
    found = np.empty(size, dtype=np.uint8)
    if size:
        out = found
        with nogil:
            left()
            packed_lines(column, number, count, &out[0])
            comes()
    return found


def written(column not None):
    """Numbers as Python writes them, packed: the bytes, uint8[m], and where each begins, int64[n + 1].

    column: integers, or floats, which have four digits behind the point. TypeError for others.
    """
    cdef const uint64_t[::1] integers
    cdef const double[::1] measures
    cdef uint8_t[::1] out
    cdef int64_t[::1] ends
    cdef uint64_t i, used = 0, count = <uint64_t>len(column)
    cdef bint is_other = False
    if column.dtype.kind not in "uif":
        raise TypeError(f"found numbers of type {column.dtype}, expected integers or floats")
    places, room = np.zeros(count + 1, dtype=np.int64), np.empty(MOST_DIGITS * count + 1, dtype=np.uint8)
    ends, out = places, room
    if column.dtype.kind == "f":
        measures = np.ascontiguousarray(column, dtype=np.float64)
        with nogil:
            left()
            for i in range(count):
                if not 0 <= measures[i] < MOST_MEASURE or signbit(measures[i]):
                    is_other = True
                    break
                used += packed_measure(measures[i], &out[used])
                ends[i + 1] = <int64_t>used
            comes()
    elif count and column.min() < 0:
        is_other = True
    else:
        integers = np.ascontiguousarray(column, dtype=np.uint64)
        with nogil:
            left()
            for i in range(count):
                used += packed_integer(integers[i], &out[used])
                ends[i + 1] = <int64_t>used
            comes()
    if not is_other:
        return room[:used], places
    form = ".4f" if column.dtype.kind == "f" else ""
    texts = [format(number, form).encode() for number in column.tolist()]
    np.cumsum([len(text) for text in texts], out=places[1:])
    return np.frombuffer(b"".join(texts), dtype=np.uint8), places


def digests(const uint8_t[::1] names not None, const int64_t[::1] name_offsets not None,
            const uint8_t[::1] values not None, const int64_t[::1] value_offsets not None, uint64_t seed):
    """What tells documents from others, given the name and the value of each: uint8[n, 16].

    Both are packed, as for gather. seed: what else makes other documents of the same. Raises ValueError where there are
    fewer of the one.
    """
    cdef uint64_t count = <uint64_t>name_offsets.shape[0] - 1
    cdef uint8_t[:, ::1] out
    cdef const uint8_t *name_bytes
    cdef const uint8_t *value_bytes
    cdef uint8_t nothing = 0
    expect_offsets(names, name_offsets)
    expect_offsets(values, value_offsets)
    if name_offsets.shape[0] != value_offsets.shape[0]:
        raise ValueError(f"found {count} names of {value_offsets.shape[0] - 1} values, expected as many")
    found = np.empty((count, 16), dtype=np.uint8)
    if count:
        out = found
        name_bytes = &names[0] if names.shape[0] else &nothing
        value_bytes = &values[0] if values.shape[0] else &nothing
        with nogil:
            left()
            packed_digests(name_bytes, &name_offsets[0], value_bytes, &value_offsets[0], count, seed, &out[0, 0])
            comes()
    return found
