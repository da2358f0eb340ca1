"""What jobs append to their files, and read of their record, in one call each that holds no lock of the interpreter.

Values go through a room that stays in the processor's cache, so that nothing of their size is made first. What an entry
of the index is, fpstore/ledger.py says; here is where its fields lie.
"""

import os

import numpy as np

from libc.errno cimport EINTR, EINVAL, EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from posix.uio cimport iovec, writev
from posix.unistd cimport write

from fpstore._interpreter cimport comes, left
from fpstore._native cimport CUT_SHORT, c_crc32c, read_at

cdef extern from "sys/uio.h" nogil:
    ssize_t pwritev2(int fd, const iovec *parts, int count, int64_t offset, int flags)

# So many stretches are written by one call; the system takes no more.
cdef enum:
    _MOST_PARTS = 1024
    _PAGE_BYTES = 4096  # of the system's cache

# Where reading failed.
OF_INDEX, OF_VALUES = 1, 2
cdef enum:
    MISPLACED = -2  # an entry says that its value lies where it cannot; beside CUT_SHORT and the errors of the system

cdef struct Values:
    const uint8_t *data
    const int64_t *offsets
    uint64_t count


cdef struct Out:
    # A file that is appended to. failed: the error of the system.
    int fd
    uint8_t *room
    size_t used, size
    int failed


cdef struct Lines:
    # A file that lines are appended to. end: where it ends with them. flags: as of write_stretches.
    int fd
    uint64_t end
    int flags


cdef struct Last:
    # The last bytes of a file that are in memory, from one place on.
    const uint8_t *data
    uint64_t begin, size


cdef struct Fields:
    # Of an entry: where its fields begin.
    size_t size, name_end, text_end, name_crc, text_crc, crc


cdef void out_write(Out *out, const uint8_t *data, size_t size) noexcept nogil:
    cdef ssize_t count
    while size > 0 and not out.failed:
        count = write(out.fd, data, size)
        if count >= 0:
            data += count
            size -= <size_t>count
        elif errno != EINTR:
            out.failed = errno


cdef void out_flush(Out *out) noexcept nogil:
    out_write(out, out.room, out.used)
    out.used = 0


cdef void out_put(Out *out, const uint8_t *data, size_t size) noexcept nogil:
    if size > out.size - out.used:
        out_flush(out)
        if size >= out.size:
            out_write(out, data, size)
            return
    if size:
        memcpy(out.room + out.used, data, size)
        out.used += size


cdef int values_of(Values *values, const uint8_t[::1] data, const int64_t[::1] offsets) except -1:
    """ValueError for offsets that do not increase, or lead out of data."""
    cdef Py_ssize_t i
    cdef bint is_good = offsets.shape[0] > 0 and offsets[0] >= 0
    for i in range(offsets.shape[0] - 1):
        is_good &= offsets[i] <= offsets[i + 1]
    if not is_good or offsets[offsets.shape[0] - 1] > data.shape[0]:
        raise ValueError(f"offsets: found some that do not increase to at most {data.shape[0]}, expected those of values")
    values.data = &data[0] if data.shape[0] else NULL
    values.offsets, values.count = &offsets[0], <uint64_t>offsets.shape[0] - 1
    return 0


cdef int expect_indexes(const int64_t[::1] indexes, uint64_t count) except -1:
    cdef Py_ssize_t i
    for i in range(indexes.shape[0]):
        if not 0 <= indexes[i] < <int64_t>count:
            raise ValueError(f"index: found {indexes[i]}, expected one of {count} values")
    return 0


cdef int out_of(Out *out, int fd, uint8_t[::1] room) except -1:
    if not room.shape[0]:
        raise ValueError("room: found none, expected some bytes")
    out.fd, out.room, out.used, out.size, out.failed = fd, &room[0], 0, <size_t>room.shape[0], 0
    return 0


cdef int expect_written(Out *out, path) except -1:
    if out.failed:
        raise OSError(out.failed, os.strerror(out.failed), str(path))
    return 0


cdef int write_stretches(int fd, iovec *parts, size_t count, int flags) noexcept nogil:
    """Write stretches of memory, one after the other; the error of the system, or 0. What they say changes.

    flags: fpstore.disk.UNCACHED, or 0. Where the file cannot be written so, it is as with 0.
    """
    cdef ssize_t done
    cdef size_t first = 0
    while first < count:
        if flags:
            done = pwritev2(fd, parts + first, <int>(count - first), -1, flags)
        else:
            done = writev(fd, parts + first, <int>(count - first))
        if done < 0:
            if flags and (errno == EOPNOTSUPP or errno == EINVAL):
                flags = 0
            elif errno != EINTR:
                return errno
            continue
        while first < count and <size_t>done >= parts[first].iov_len:
            done -= <ssize_t>parts[first].iov_len
            first += 1
        if first < count:
            parts[first].iov_base = <uint8_t *>parts[first].iov_base + done
            parts[first].iov_len -= <size_t>done
    return 0


cdef int write_parts(Lines *lines, iovec *parts, size_t count) noexcept nogil:
    """The same behind what the file has.

    What goes past the cache ends with a page: what follows would else have to read that again.
    """
    cdef size_t i, size = 0, rest, whole = count
    cdef int failed
    for i in range(count):
        size += parts[i].iov_len
    lines.end += size
    if not lines.flags:
        return write_stretches(lines.fd, parts, count, 0)
    rest = min(size, <size_t>(lines.end % _PAGE_BYTES))
    while rest and rest >= parts[whole - 1].iov_len:
        whole -= 1
        rest -= parts[whole].iov_len
    if rest:
        parts[whole - 1].iov_len -= rest
    failed = write_stretches(lines.fd, parts, whole, lines.flags)
    if failed:
        return failed
    if rest:
        whole -= 1
        parts[whole].iov_base = <uint8_t *>parts[whole].iov_base + parts[whole].iov_len
        parts[whole].iov_len = rest
    return write_stretches(lines.fd, parts + whole, count - whole, 0)


cdef int write_lines(Lines *lines, const Values *values, const int64_t *indexes, Py_ssize_t count) noexcept nogil:
    """As append_lines, from where the values lie: those that lie side by side at once."""
    cdef iovec parts[_MOST_PARTS]
    cdef uint8_t newline = ord("\n")
    cdef const uint8_t *line
    cdef const uint8_t *behind = NULL
    cdef size_t used = 0, own
    cdef Py_ssize_t i
    cdef int failed
    for i in range(count):
        line = values.data + values.offsets[indexes[i]]
        own = <size_t>(values.offsets[indexes[i] + 1] - values.offsets[indexes[i]])
        if used > _MOST_PARTS - 2:
            failed = write_parts(lines, parts, used)
            if failed:
                return failed
            used, behind = 0, NULL
        if own and behind == line:
            parts[used - 1].iov_len += own
        elif own:
            parts[used].iov_base, parts[used].iov_len = <void *>line, own
            used += 1
        behind = line + own
        if not own or line[own - 1] != newline:
            parts[used].iov_base, parts[used].iov_len = &newline, 1
            used, behind = used + 1, NULL
    return write_parts(lines, parts, used)


def append_lines(int fd, path, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                 const int64_t[::1] indexes not None, uint64_t length=0, int flags=0):
    """Write the values with these indexes to a file, each with a newline behind it where it has none; how many bytes.

    Value i is data[offsets[i] : offsets[i + 1]]; offsets: int64[n + 1], increasing. indexes: int64[m], each below n.
    path: of the file, for errors. length: its own, before. flags: fpstore.disk.UNCACHED where they are to go past the
    system's cache, if it can do that. Raises ValueError for others, and what the system does.
    """
    cdef Values values
    cdef Lines lines
    cdef int failed
    values_of(&values, data, offsets)
    expect_indexes(indexes, values.count)
    if not indexes.shape[0]:
        return 0
    lines.fd, lines.end, lines.flags = fd, length, flags
    with nogil:
        left()
        failed = write_lines(&lines, &values, &indexes[0], indexes.shape[0])
        comes()
    if failed:
        raise OSError(failed, os.strerror(failed), str(path))
    return lines.end - length


def append_bytes(int fd, path, const uint8_t[::1] data not None, uint64_t length=0, int flags=0):
    """Write bytes to a file; path, length, flags, and what it raises: as of append_lines."""
    cdef Lines lines
    cdef iovec part
    cdef int failed
    if not data.shape[0]:
        return
    lines.fd, lines.end, lines.flags = fd, length, flags
    part.iov_base, part.iov_len = <void *>&data[0], <size_t>data.shape[0]
    with nogil:
        left()
        failed = write_parts(&lines, &part, 1)
        comes()
    if failed:
        raise OSError(failed, os.strerror(failed), str(path))


cdef uint64_t see_line(const Values *values, int64_t index, uint32_t *crc) noexcept nogil:
    """As put_value of a line that others write, with a newline behind it where it has none."""
    cdef const uint8_t *data = values.data + values.offsets[index]
    cdef size_t size = <size_t>(values.offsets[index + 1] - values.offsets[index])
    cdef uint8_t newline = ord("\n")
    if size:
        crc[0] = c_crc32c(crc[0], data, size)
    if size and data[size - 1] == newline:
        return size
    crc[0] = c_crc32c(crc[0], &newline, 1)
    return size + 1


cdef uint64_t put_value(Out *out, const Values *values, int64_t index, uint32_t *crc) noexcept nogil:
    """Append a value; crc: of all before it, and then with it. How many bytes it has."""
    cdef const uint8_t *data = values.data + values.offsets[index]
    cdef size_t size = <size_t>(values.offsets[index + 1] - values.offsets[index])
    if size:
        crc[0] = c_crc32c(crc[0], data, size)
        out_put(out, data, size)
    return size


def append_documents(uint8_t[::1] entries not None, fields, files, names, texts, const int64_t[::1] indexes not None,
                     before, uint32_t after_one, bint is_first, rooms):
    """Write documents to the files of a record, those of values before the index; how long the former are then.

    entries: those of the documents, of which the ends and the checksums are filled in here. fields: the size of one, and
    where name_end, text_end, name_crc, text_crc and crc lie in it. files: of names, of texts, of the index. names, texts:
    each (data, offsets), as of append_values, of which those with these indexes are written. Where texts have no file, as
    fd -1 says, they are lines that others write, as append_lines does. before: the four former fields of the entry before. after_one: the checksum behind an entry with its own; is_first: there is none before.
    Raises as append_lines.
    """
    cdef Fields field
    cdef Values name_values, text_values
    cdef Out names_out, texts_out, index_out
    cdef Py_ssize_t i, count = indexes.shape[0]
    cdef uint8_t *entry
    cdef uint64_t name_end, text_end
    cdef uint32_t name_crc, text_crc, crc
    cdef bint are_lines = files[1][0] == -1
    field.size, field.name_end, field.text_end, field.name_crc, field.text_crc, field.crc = fields
    name_end, text_end, name_crc, text_crc = before
    if max(field.name_end, field.text_end) + 8 > field.size or max(field.name_crc, field.text_crc) + 4 > field.size \
            or field.crc + 4 != field.size or <size_t>entries.shape[0] != field.size * <size_t>count:
        raise ValueError(f"found entries of {entries.shape[0]} bytes for {count} documents, expected {field.size} for each")
    values_of(&name_values, names[0], names[1])
    values_of(&text_values, texts[0], texts[1])
    expect_indexes(indexes, min(name_values.count, text_values.count))
    out_of(&names_out, files[0][0], rooms[0])
    out_of(&texts_out, files[1][0], rooms[1])
    out_of(&index_out, files[2][0], rooms[0])
    if not count:
        return name_end, text_end
    entry = &entries[0]
    with nogil:
        left()
        for i in range(count):
            name_end += put_value(&names_out, &name_values, indexes[i], &name_crc)
            if are_lines:
                text_end += see_line(&text_values, indexes[i], &text_crc)
            else:
                text_end += put_value(&texts_out, &text_values, indexes[i], &text_crc)
            memcpy(entry + field.name_end, &name_end, 8)
            memcpy(entry + field.text_end, &text_end, 8)
            memcpy(entry + field.name_crc, &name_crc, 4)
            memcpy(entry + field.text_crc, &text_crc, 4)
            crc = c_crc32c(0 if is_first and i == 0 else after_one, entry, field.crc)
            memcpy(entry + field.crc, &crc, 4)
            entry += field.size
        out_flush(&names_out)
        out_flush(&texts_out)
        if not (names_out.failed or texts_out.failed):
            out_write(&index_out, &entries[0], field.size * <size_t>count)
        comes()
    expect_written(&names_out, files[0][1])
    expect_written(&texts_out, files[1][1])
    expect_written(&index_out, files[2][1])
    return name_end, text_end


cdef int last_of(Last *last, held) except -1:
    """The last bytes of a file, as read_values is told of them; none where that is None."""
    cdef const uint8_t[::1] data
    last.data, last.begin, last.size = NULL, 0, 0
    if held is not None and len(held[1]):
        data = held[1]
        last.begin, last.data, last.size = held[0], &data[0], <uint64_t>data.shape[0]
    return 0


cdef bint has_all(const Last *last, uint64_t offset, uint64_t size) noexcept nogil:
    """Whether all of these bytes of the file are in memory."""
    return offset >= last.begin and offset - last.begin <= last.size and size <= last.size - (offset - last.begin)


cdef int read_of(int fd, const Last *last, uint8_t *out, uint64_t size, uint64_t offset) noexcept nogil:
    """As read_at, of memory where all is there."""
    if not has_all(last, offset, size):
        return read_at(fd, out, <size_t>size, offset)
    memcpy(out, last.data + (offset - last.begin), <size_t>size)
    return 0


cdef int read_entries(int fd, const Last *last, const int64_t *rows, Py_ssize_t count, size_t size, uint8_t *room,
                      size_t end_at, size_t crc_at, uint64_t *starts, int64_t *offsets, uint32_t *crcs,
                      uint64_t value_bytes, Py_ssize_t *misplaced) noexcept nogil:
    """Of documents in rows: where their values begin, how long all before them are, and the checksums of what lies before
    each, and of that with it. room: of an entry more than there are rows. misplaced: the first that is, of rows.

    Values lie one after the other, so that those of rows that increase have no more bytes than the file, whatever the
    entries say: room is made for them before their checksums can be compared.
    """
    cdef Py_ssize_t i, first = 0
    cdef uint64_t row, end = 0
    cdef uint8_t *own
    cdef int failed
    for i in range(count):
        if i + 1 < count and rows[i + 1] == rows[i] + 1:
            continue
        # Those of rows that follow one another, and the one before them.
        row = <uint64_t>rows[first]
        own = room
        if row == 0:
            memset(own, 0, size)
            own += size
        failed = read_of(fd, last, own, size * <size_t>(i - first + 1 + (row > 0)), (row - (row > 0)) * size)
        if failed:
            return failed
        own = room
        while first <= i:
            memcpy(&starts[first], own + end_at, 8)
            memcpy(&crcs[2 * first], own + crc_at, 4)
            if first and rows[first] > rows[first - 1] and starts[first] < end:
                misplaced[0] = first
                return MISPLACED
            own += size
            memcpy(&end, own + end_at, 8)
            memcpy(&crcs[2 * first + 1], own + crc_at, 4)
            if not starts[first] <= end <= value_bytes:
                misplaced[0] = first
                return MISPLACED
            offsets[first + 1] = offsets[first] + <int64_t>(end - starts[first])
            first += 1
    return 0


cdef int read_runs(int fd, const Last *last, const uint64_t *starts, const int64_t *offsets, Py_ssize_t count,
                   uint8_t *out) noexcept nogil:
    """Read values, those that lie side by side at once."""
    cdef Py_ssize_t i, first = 0
    cdef int failed
    for i in range(count):
        if i + 1 < count and starts[i + 1] == starts[i] + <uint64_t>(offsets[i + 1] - offsets[i]):
            continue
        failed = read_of(fd, last, out + offsets[first], <uint64_t>(offsets[i + 1] - offsets[first]), starts[first])
        if failed:
            return failed
        first = i + 1
    return 0


def read_values(int index, uint64_t entries, fields, const int64_t[::1] rows not None, int values, uint64_t value_bytes,
                const int64_t[::1] begins=None, last_entries=None, last_values=None):
    """What documents in rows of an index have in a file of values: uint8[bytes], and where each begins: int64[n + 1].

    index, values: the files, of so many entries and bytes. fields: the size of an entry, and where the end of its value
    and the checksum of all up to there lie in it. And what is wrong, None where nothing is: (OF_INDEX or OF_VALUES, an
    error of the system) or (which, 0), where a file ends before; (i,), where value i does not lie behind those before it
    and within the file; (i, found, expected), where the checksum of value i is another. ValueError for rows that are not
    there. Nothing of the files is mapped. Values of rows that increase take no more memory than their file has bytes.
    begins: int64[n], where each value begins in values, if that is another file than the one of so many bytes.
    last_entries, last_values: of either file (place, uint8[bytes]), what was written from that place on: what lies there
    is taken from this memory.
    """
    cdef Last of_index, of_values
    cdef size_t size, end_at, crc_at
    cdef Py_ssize_t i, count = rows.shape[0], bad = -1, misplaced = 0
    cdef uint8_t[::1] room, out
    cdef uint64_t[::1] starts
    cdef int64_t[::1] offsets
    cdef uint32_t[::1] crcs
    cdef uint32_t crc = 0
    cdef int failed
    size, end_at, crc_at = fields
    if end_at + 8 > size or crc_at + 4 > size:
        raise ValueError(f"fields: found some at {end_at} and {crc_at}, expected them in an entry of {size} bytes")
    if begins is not None and begins.shape[0] != count:
        raise ValueError(f"begins: found {begins.shape[0]} of them, expected one of each of {count} values")
    expect_indexes(rows, entries)
    last_of(&of_index, last_entries)
    last_of(&of_values, last_values)
    places = np.zeros(count + 1, dtype=np.int64)
    if not count:
        return np.empty(0, dtype=np.uint8), places, None
    offsets = places
    room = np.empty((count + 1) * size, dtype=np.uint8)
    starts, crcs = np.empty(count, dtype=np.uint64), np.empty(2 * count, dtype=np.uint32)
    with nogil:
        left()
        failed = read_entries(index, &of_index, &rows[0], count, size, &room[0], end_at, crc_at, &starts[0], &offsets[0],
                              &crcs[0], value_bytes, &misplaced)
        comes()
    if failed == MISPLACED:
        return None, None, (misplaced,)
    if failed:
        return None, None, (OF_INDEX, max(failed, 0))
    held = np.empty(offsets[count] + 1, dtype=np.uint8)
    out = held
    if begins is not None:
        for i in range(count):
            starts[i] = <uint64_t>begins[i]
    with nogil:
        left()
        failed = read_runs(values, &of_values, &starts[0], &offsets[0], count, &out[0])
        if not failed:
            for i in range(count):
                crc = c_crc32c(crcs[2 * i], &out[0] + offsets[i], <size_t>(offsets[i + 1] - offsets[i]))
                if crc != crcs[2 * i + 1]:
                    bad = i
                    break
        comes()
    if failed:
        return None, None, (OF_VALUES, max(failed, 0))
    return held[:offsets[count]], places, None if bad < 0 else (bad, crc, crcs[2 * bad + 1])
