"""Names with their handles in memory, found by either, until a file has them."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

import os

import numpy as np

from fpstore._names cimport names_of, start_of
from fpstore._native cimport (
    NAME_LINE_BITS,
    NAME_LINE_BYTES,
    NAME_LINE_NAMES,
    OK,
    Bytes,
    Names,
    bytes_reserve,
)
from fpstore._names import hashes

# Of this process alone, so that nobody can choose names that share a place in a table in memory.
cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little")
cdef object UINT8 = np.dtype(np.uint8), INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64)


cdef extern from *:
    """
    #ifdef __GLIBC__
    #include <malloc.h>
    static void fpstore_give_back(void) { malloc_trim(0); }
    #else
    static void fpstore_give_back(void) {}
    #endif
    """
    void fpstore_give_back() nogil


def give_back_memory():
    """Let go of memory that was freed and that the C library keeps for later, in all threads, where it can."""
    with nogil:
        fpstore_give_back()


cdef void *grown(void *at, uint64_t size) except NULL:
    cdef void *moved = realloc(at, size)
    if moved == NULL:
        raise MemoryError()
    return moved


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *at) nogil

# So many names ahead the processor is told where in a table their place is.
cdef uint64_t AHEAD = 12


def hashed(const uint8_t[::1] data not None, const int64_t[::1] ends not None):
    """By which names are known in the memory of this process, with its key: uint64[n]."""
    return hashes(data, ends, SECRET)


cdef int expect_hashes(const uint64_t[::1] hashes, const Names *names) except -1:
    if <uint64_t>hashes.shape[0] != names.count:
        raise ValueError(f"{hashes.shape[0]} hashes of {names.count} names")
    return 0


cdef inline bint is_name(const uint8_t *data, const int64_t *ends, uint64_t index, const uint8_t *name, uint64_t size) noexcept:
    cdef int64_t start = ends[index - 1] if index else 0
    return <uint64_t>(ends[index] - start) == size and (size == 0 or memcmp(data + start, name, <size_t>size) == 0)


cdef inline uint64_t place_of(const uint64_t *table, uint64_t places, uint64_t hash, const uint8_t *data,
                              const int64_t *ends, const uint8_t *name, uint64_t size) noexcept:
    """Where a name is in a table of places, a power of two of them, at most 2^32, or would be.

    A place holds the upper half of the hash of a name, and below that one more than its index; 0 where it is free. That
    half decides on the place, so that a table can grow without the names.
    """
    cdef uint64_t place = hash >> 32 & (places - 1)
    while table[place]:
        if table[place] >> 32 == hash >> 32 and is_name(data, ends, (table[place] & 0xFFFFFFFF) - 1, name, size):
            break
        place = (place + 1) & (places - 1)
    return place


def first_places(
    const uint8_t[::1] data not None, const int64_t[::1] ends not None, const uint64_t[::1] hashes not None
):
    """For each name, below 2^31 of them, the index of the first one that is equal: int64[n]. hashes: theirs, keyed."""
    cdef Names names = names_of(data, ends)
    cdef uint64_t places = 64, place, i
    cdef uint64_t *table = NULL
    cdef int64_t[::1] out
    expect_hashes(hashes, &names)
    if names.count >> 31:
        raise ValueError(f"{names.count} names at once: expected fewer than 2^31")
    result = np.empty(names.count, INT64)
    out = result
    while places < 2 * names.count:
        places *= 2
    try:
        table = <uint64_t *>calloc(places, 8)
        if table == NULL:
            raise MemoryError()
        for i in range(names.count):
            place = place_of(table, places, hashes[i], names.data, names.ends, names.data + start_of(&names, i),
                             <uint64_t>(names.ends[i] - start_of(&names, i)))
            if table[place] == 0:
                table[place] = hashes[i] >> 32 << 32 | (i + 1)
            out[i] = <int64_t>((table[place] & 0xFFFFFFFF) - 1)
        return result
    finally:
        free(table)


cdef class NameFilter:
    """Tells of names, up to so many, that they never came: in lines of bits, as the filters of files have them.

    Some are told to have come that did not. Hashes are keyed ones, of hashed(). Safe in one thread at a time.
    """

    cdef uint8_t *lines
    cdef uint64_t line_count
    cdef readonly uint64_t count, most

    def __cinit__(self, uint64_t most):
        self.most = most
        self.line_count = most // NAME_LINE_NAMES + 1
        # Zeros take no memory before a page of them is written.
        self.lines = <uint8_t *>calloc(self.line_count, NAME_LINE_BYTES)
        if self.lines == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.lines)

    cdef inline uint8_t *line_of(self, uint64_t hash) noexcept nogil:
        return self.lines + NAME_LINE_BYTES * ((hash >> 32) * self.line_count >> 32)

    def put(self, const uint64_t[::1] hashes not None, uint8_t[::1] came not None, uint64_t start):
        """Take names from start on, while there is room, but for those that may have come, and set came, uint8[n], for these.

        Where that ends. Of names that are equal only the first one is taken.
        """
        cdef uint64_t i, bits, all_bits, count = <uint64_t>hashes.shape[0]
        cdef unsigned bit
        cdef uint8_t *line
        cdef uint8_t had
        self.expect_each(hashes, came)
        for i in range(start, count):
            if i + AHEAD < count:
                prefetch(self.line_of(hashes[i + AHEAD]))
            if came[i]:
                continue
            line, bits, had = self.line_of(hashes[i]), hashes[i] * <uint64_t>0x9E3779B97F4A7C15, 1
            all_bits = bits
            for bit in range(NAME_LINE_BITS):
                had &= line[(bits & 511) >> 3] >> (bits & 7)
                bits >>= 9
            if had:
                came[i] = 1
                continue
            if self.count == self.most:
                return i
            for bit in range(NAME_LINE_BITS):
                line[(all_bits & 511) >> 3] |= <uint8_t>(1 << (all_bits & 7))
                all_bits >>= 9
            self.count += 1
        return max(start, count)

    cdef int expect_each(self, const uint64_t[::1] hashes, const uint8_t[::1] came) except -1:
        if hashes.shape[0] != came.shape[0]:
            raise ValueError(f"{hashes.shape[0]} hashes, {came.shape[0]} that may have come")
        return 0

    def find(self, const uint64_t[::1] hashes not None, uint8_t[::1] came not None):
        """Set came, uint8[n], for those that may have come."""
        cdef uint64_t i, bits, count = <uint64_t>hashes.shape[0]
        cdef unsigned bit
        cdef const uint8_t *line
        self.expect_each(hashes, came)
        for i in range(count):
            if i + AHEAD < count:
                prefetch(self.line_of(hashes[i + AHEAD]))
            line, bits = self.line_of(hashes[i]), hashes[i] * <uint64_t>0x9E3779B97F4A7C15
            for bit in range(NAME_LINE_BITS):
                if not line[(bits & 511) >> 3] >> (bits & 7) & 1:
                    break
                bits >>= 9
            else:
                came[i] = 1


cdef class PendingNames:
    """Names with their handles, in memory, found by either; names are only ever added, until a thread writes them.

    A lookup in one thread is right beside an addition in another: none lets go of the interpreter's lock. Where hashes
    are asked for, they are keyed ones, of hashed().
    """

    cdef Bytes bytes
    cdef int64_t *ends
    cdef uint64_t *handles
    cdef uint64_t *hashes
    # Both tables have the first entries, as many as somebody has asked for. by_name: as place_of has it.
    cdef uint64_t *by_name
    cdef uint64_t places, named
    # One more than the entry in the place of its handle.
    cdef uint32_t *by_handle
    cdef uint64_t handle_places, placed
    cdef uint64_t room
    cdef readonly uint64_t count
    cdef uint64_t most, least
    cdef readonly bint is_still

    def __dealloc__(self):
        free(self.bytes.data)
        free(self.ends)
        free(self.handles)
        free(self.hashes)
        free(self.by_name)
        free(self.by_handle)

    @property
    def data_bytes(self):
        """How many bytes the names have together."""
        return self.bytes.used

    @property
    def last_handle(self):
        """The largest handle, -1 where there are none."""
        return self.most if self.count else -1

    @property
    def first_handle(self):
        """The least handle, 0 where there are none."""
        return self.least

    cdef uint64_t place_of_name(self, uint64_t hash, const uint8_t *name, uint64_t size) noexcept:
        """Where it is in the table, or would be."""
        return place_of(self.by_name, self.places, hash, self.bytes.data, self.ends, name, size)

    cdef uint64_t place_of_handle(self, uint64_t handle) noexcept:
        cdef uint64_t hash = (handle ^ SECRET) * <uint64_t>0x9E3779B97F4A7C15
        cdef uint64_t place = (hash ^ hash >> 32) & (self.handle_places - 1)
        while self.by_handle[place] and self.handles[self.by_handle[place] - 1] != handle:
            place = (place + 1) & (self.handle_places - 1)
        return place

    cdef int make_room(self, uint64_t more) except -1:
        """For so many more names."""
        cdef uint64_t room = self.count + more
        cdef void *moved
        if room <= self.room:
            return 0
        if room >= (<uint64_t>1 << 31):
            raise ValueError("too many names in memory")
        room += room // 4 + 64
        moved = grown(self.ends, room * 8)
        self.ends = <int64_t *>moved
        moved = grown(self.handles, room * 8)
        self.handles = <uint64_t *>moved
        moved = grown(self.hashes, room * 8)
        self.hashes = <uint64_t *>moved
        self.room = room
        return 0

    cdef int place_names(self, uint64_t more) except -1:
        """Have every entry found by its name, with room for so many more. New ones are seldom asked for before they go."""
        cdef uint64_t places = max(self.places, <uint64_t>64), i, place
        cdef uint64_t *table
        while places < self.count + more + (self.count + more) // 2:
            places *= 2
        if places > self.places:
            table = <uint64_t *>calloc(places, 8)
            if table == NULL:
                raise MemoryError()
            free(self.by_name)
            self.by_name, self.places, self.named = table, places, 0
        for i in range(self.named, self.count):  # no two of them are equal
            if i + AHEAD < self.count:
                prefetch(&self.by_name[self.hashes[i + AHEAD] >> 32 & (self.places - 1)])
            place = self.hashes[i] >> 32 & (self.places - 1)
            while self.by_name[place]:
                place = (place + 1) & (self.places - 1)
            self.by_name[place] = self.hashes[i] >> 32 << 32 | (i + 1)
        self.named = self.count
        return 0

    cdef int place_handles(self) except -1:
        """Have every entry found by its handle. Most are never asked for, as they go to a file before."""
        cdef uint64_t places = max(self.handle_places, <uint64_t>64)
        cdef void *moved
        while places < self.count + self.count // 2:
            places *= 2
        if places > self.handle_places:
            moved = grown(self.by_handle, places * 4)
            self.by_handle = <uint32_t *>moved
            memset(self.by_handle, 0, places * 4)
            self.handle_places, self.placed = places, 0
        while self.placed < self.count:
            self.by_handle[self.place_of_handle(self.handles[self.placed])] = <uint32_t>self.placed + 1
            self.placed += 1
        return 0

    cdef int expect_free(self, uint64_t handle) except -1:
        """ValueError where another name has it."""
        if self.count == 0 or handle > self.most:
            return 0
        self.place_handles()
        if self.by_handle[self.place_of_handle(handle)]:
            raise ValueError(f"handle {handle} and its name do not belong together")
        return 0

    def add(
        self,
        const uint8_t[::1] data not None,
        const int64_t[::1] ends not None,
        const uint64_t[::1] handles not None,
        const uint64_t[::1] hashes not None,
    ):
        """Take names with their handles, some of which may be there. ValueError where one has, or is, another's."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, size, place, entry
        cdef const uint8_t *name
        self.expect_each(&names, handles, hashes)
        self.place_names(names.count)
        self.make_room(names.count)
        for i in range(names.count):
            if i + AHEAD < names.count:
                prefetch(&self.by_name[hashes[i + AHEAD] >> 32 & (self.places - 1)])
            name, size = names.data + start_of(&names, i), <uint64_t>(names.ends[i] - start_of(&names, i))
            place = self.place_of_name(hashes[i], name, size)
            if self.by_name[place]:
                entry = (self.by_name[place] & 0xFFFFFFFF) - 1
                if self.handles[entry] != handles[i]:
                    raise ValueError(f"handle {handles[i]} and its name do not belong together")
                continue
            self.expect_free(handles[i])
            if bytes_reserve(&self.bytes, size) != OK:
                raise MemoryError()
            if size:
                memcpy(self.bytes.data + self.bytes.used, name, <size_t>size)
            self.bytes.used += size
            self.ends[self.count] = <int64_t>self.bytes.used
            self.handles[self.count], self.hashes[self.count] = handles[i], hashes[i]
            self.most = max(self.most, handles[i])
            self.least = min(self.least, handles[i]) if self.count else handles[i]
            self.count += 1
            self.by_name[place] = hashes[i] >> 32 << 32 | self.count
            self.named = self.count

    def add_new(
        self,
        const uint8_t[::1] data not None,
        const int64_t[::1] ends not None,
        uint64_t first_handle,
        const uint64_t[::1] hashes not None,
    ):
        """As add, of names that the caller knows to be new, each once, with handles one after the other, above all here."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, size
        cdef int64_t before = <int64_t>self.bytes.used
        self.expect_each(&names, hashes, hashes)
        if self.count and first_handle <= self.most:
            raise ValueError(f"handle {first_handle}: expected one above {self.most}")
        if names.count == 0:
            return
        size = <uint64_t>names.ends[names.count - 1]
        self.make_room(names.count)
        if bytes_reserve(&self.bytes, size) != OK:
            raise MemoryError()
        if size:
            memcpy(self.bytes.data + self.bytes.used, names.data, <size_t>size)
        memcpy(self.hashes + self.count, &hashes[0], names.count * 8)
        for i in range(names.count):
            self.ends[self.count + i] = before + names.ends[i]
            self.handles[self.count + i] = first_handle + i
        self.bytes.used += size
        self.most = first_handle + names.count - 1
        self.least = self.least if self.count else first_handle
        self.count += names.count

    cdef int expect_each(self, const Names *names, const uint64_t[::1] handles, const uint64_t[::1] hashes) except -1:
        expect_hashes(hashes, names)
        if <uint64_t>handles.shape[0] != names.count:
            raise ValueError(f"{handles.shape[0]} handles for {names.count} names")
        if self.is_still:
            raise ValueError("names that are being written: expected no more of them")
        return 0

    def find(
        self,
        const uint8_t[::1] data not None,
        const int64_t[::1] ends not None,
        const uint64_t[::1] hashes not None,
        uint64_t[::1] handles not None,
        uint8_t[::1] known not None,
    ):
        """Fill in the handles of those names that are not known yet, and are here. handles uint64[n], known uint8[n]."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, found
        expect_hashes(hashes, &names)
        if <uint64_t>handles.shape[0] != names.count or <uint64_t>known.shape[0] != names.count:
            raise ValueError(f"{handles.shape[0]} handles, {known.shape[0]} known, for {names.count} names")
        if self.count == 0:
            return
        self.place_names(0)
        for i in range(names.count):
            if i + AHEAD < names.count:
                prefetch(&self.by_name[hashes[i + AHEAD] >> 32 & (self.places - 1)])
            if known[i]:
                continue
            found = self.by_name[self.place_of_name(hashes[i], names.data + start_of(&names, i),
                                                    <uint64_t>(names.ends[i] - start_of(&names, i)))]
            if found:
                handles[i] = self.handles[(found & 0xFFFFFFFF) - 1]
                known[i] = 1

    def still(self):
        """All names and their handles as they lie here: (data, ends, handles uint64[count]). Nothing is added any more.

        For as long as this object lives.
        """
        self.is_still = True
        if self.count == 0:
            return np.empty(0, UINT8), np.empty(0, INT64), np.empty(0, UINT64)
        data = np.asarray(<uint8_t[:self.bytes.used]>self.bytes.data) if self.bytes.used else np.empty(0, UINT8)
        return data, np.asarray(<int64_t[:self.count]>self.ends), np.asarray(<uint64_t[:self.count]>self.handles)

    def entries(self, const uint64_t[::1] handles not None):
        """The entry of each handle, for read: int64[n], -1 for those that are not there."""
        cdef Py_ssize_t i
        cdef int64_t[::1] out
        result = np.empty(handles.shape[0], INT64)
        out = result
        self.place_handles()
        for i in range(handles.shape[0]):
            out[i] = <int64_t>self.by_handle[self.place_of_handle(handles[i])] - 1
        return result

    def read(self, const int64_t[::1] entries not None):
        """The names of these entries: (data, ends). IndexError for one that is not there."""
        cdef Py_ssize_t i
        cdef int64_t start, size, total = 0
        cdef int64_t[::1] ends
        cdef uint8_t[::1] out
        result_ends = np.empty(entries.shape[0], INT64)
        ends = result_ends
        for i in range(entries.shape[0]):
            if entries[i] < 0 or <uint64_t>entries[i] >= self.count:
                raise IndexError(f"entry {entries[i]}: there are {self.count} names")
            total += self.ends[entries[i]] - (self.ends[entries[i] - 1] if entries[i] else 0)
            ends[i] = total
        result = np.empty(total, UINT8)
        out = result
        total = 0
        for i in range(entries.shape[0]):
            start = self.ends[entries[i] - 1] if entries[i] else 0
            size = self.ends[entries[i]] - start
            if size:
                memcpy(&out[total], self.bytes.data + start, <size_t>size)
            total += size
        return result, result_ends
