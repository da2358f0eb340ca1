"""Lines of JSON, block by block: the texts, names and lines of documents, packed, without a Python object for any.

The kernel is C (fpstore/native/json_lines.c). It stops at a line that it does not read, for `text` to look at.
"""

import numpy as np

from cython cimport view
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    LINES_CUT, LINES_OTHER, OK, LineFields, LineRows, LinesPlace, Packed, lines_add, lines_free,
    lines_read, lines_settle,
)


# So many bytes are cheaper to give away than to copy.
cdef enum:
    _GIVEN_BYTES = 1 << 16


cdef in_block(LineRows *rows, const uint8_t[::1] block):
    """The lines of rows as packed_of gives them, where they fill most of the block that they lie in: a part of it.

    All others are copied then.
    """
    cdef uint64_t i, end
    cdef int64_t[::1] ends
    if rows.block == NULL or rows.count == 0:
        return None
    end = rows.lines.ends[rows.count - 1]
    if end - rows.first < _GIVEN_BYTES or 2 * (end - rows.first) < <uint64_t>block.shape[0]:
        if lines_settle(rows) != OK:
            raise MemoryError(f"no memory for {end - rows.first} bytes of lines")
        return None
    offsets = np.zeros(rows.count + 1, dtype=np.int64)
    ends = offsets
    for i in range(rows.count):
        ends[i + 1] = <int64_t>(rows.lines.ends[i] - rows.first)
    data = np.asarray(block)[rows.first:end]
    rows.block = NULL
    return data, offsets


cdef packed_of(Packed *packed, uint64_t count):
    """The bytes of values and where each begins: (uint8[bytes], int64[count + 1]). It has none of the values then."""
    offsets = np.zeros(count + 1, dtype=np.int64)
    cdef int64_t[::1] ends = offsets
    if count:
        memcpy(&ends[1], packed.ends, count * sizeof(uint64_t))
    data = bytes_of(packed)
    packed.used = 0
    return data, offsets


cdef bytes_of(Packed *packed):
    """The bytes of values: uint8[used]; where they are many, and fill most of their room, that is no longer its own."""
    cdef uint64_t used = packed.used
    cdef uint8_t[::1] copied
    cdef view.array given
    if used < _GIVEN_BYTES or 2 * used < packed.room:
        data = np.empty(used, dtype=np.uint8)
        copied = data
        if used:
            memcpy(&copied[0], packed.bytes, used)
        return data
    given = <uint8_t[:used]>packed.bytes
    packed.bytes, packed.room, packed.expected = NULL, 0, used + used // 8
    given.callback_free_data = free
    return np.asarray(given)


cdef class LineReader:
    """Reads lines; for one thread.

    number: of lines read so far; blank: how many of them are blank, behind the first that is not; is_begun: whether one
    that is not was there. at: where in the block that was read last the next line begins. taken_at: where in it the
    lines that were taken last begin; -1 where they are no part of it.
    """
    cdef readonly int64_t taken_at
    cdef LineFields fields
    cdef LinesPlace place
    cdef LineRows rows
    cdef bytes text, name, source
    cdef const uint8_t[::1] block  # that lines lie in

    def __init__(self, text, name, source):
        """text: the field of the texts, name: that of the names, None where they are source, `:` and a line's number.

        All are UTF-8; a field is one that JSON writes as it stands.
        """
        self.text, self.source, self.name = text, source, b"" if name is None else name
        self.fields.text, self.fields.text_size = self.text, len(self.text)
        self.fields.name, self.fields.name_size = self.name, len(self.name)
        self.fields.has_name = name is not None
        self.fields.source, self.fields.source_size = self.source, len(self.source)

    def __dealloc__(self):
        lines_free(&self.rows)

    @property
    def number(self):
        return self.place.number

    @property
    def blank(self):
        return self.place.blank

    @property
    def is_begun(self):
        return bool(self.place.is_begun)

    @property
    def at(self):
        return self.place.at

    @property
    def count(self):
        """How many rows there are to take."""
        return self.rows.count

    def read(self, const uint8_t[::1] block not None, uint64_t at, bint is_last):
        """Read lines of a block from at on, up to its end; is_last: nothing comes behind it.

        True where it stopped at a line that is not read here; self.at is where that begins, or the last where its end
        is not in the block. MemoryError where there is none. Lines that are taken may be part of the block, which is to
        stay as it is as long as they are looked at.
        """
        cdef int status
        cdef uint64_t size = <uint64_t>block.shape[0]
        if at > size:
            raise ValueError(f"at: found {at}, expected a place in a block of {size} bytes")
        self.place.at = at
        if at == size:
            return False
        with nogil:
            left()
            status = lines_read(&self.fields, &block[0], size, is_last, &self.place, &self.rows)
            comes()
        if self.rows.block == &block[0]:  # only now, as lines of the one before may have been copied
            self.block = block
        if status != OK:
            raise MemoryError(f"line {self.place.number + 1}: no memory for the lines of a block of {size} bytes")
        return self.place.stopped == LINES_OTHER

    def passed(self, uint64_t count, uint64_t size):
        """So many lines from self.at on, which have so many bytes, are read elsewhere; the first is not blank."""
        self.place.number += count
        self.place.at += size
        self.place.is_begun = True

    def add(self, bytes text not None, bytes name not None, bytes line not None):
        """A row that was read elsewhere, and looked at for tags; text and name are UTF-8. MemoryError without room."""
        cdef const uint8_t *texts = text
        cdef const uint8_t *names = name
        cdef const uint8_t *lines = line
        if lines_add(&self.rows, texts, len(text), names, len(name), lines, len(line)) != OK:
            raise MemoryError(f"line {self.place.number}: no memory for {len(line)} bytes")

    def take(self):
        """The texts, names and lines since the last time, packed, which texts may have tags of HTML, bool[n], and the
        numbers of the lines, uint64[n].

        Of those that were added none may, and the number is 0.
        """
        cdef uint8_t[::1] tags
        cdef uint64_t[::1] of_lines
        cdef uint64_t count = self.rows.count
        may_have_tags, numbers = np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.uint64)
        if count:
            tags, of_lines = may_have_tags, numbers
            memcpy(&tags[0], self.rows.may_have_tags, count)
            memcpy(&of_lines[0], self.rows.numbers, count * sizeof(uint64_t))
        self.taken_at = <int64_t>self.rows.first
        lines = in_block(&self.rows, self.block)
        if lines is None:
            self.taken_at = -1
            lines = packed_of(&self.rows.lines, count)
        taken = (packed_of(&self.rows.texts, count), packed_of(&self.rows.names, count), lines,
                 may_have_tags.view(bool), numbers)
        self.rows.count = 0
        self.block = None
        return taken
