"""Names with their handles in memory, found by either, until a file has them."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

import os

import numpy as np

from fpstore._names cimport names_of, start_of
from fpstore._native cimport OK, Bytes, Names, bytes_reserve, name_hash

# Of this process alone, so that nobody can choose names that share a place in a table in memory.
cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little")
cdef object UINT8 = np.dtype(np.uint8), INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64)


cdef void *grown(void *at, uint64_t size) except NULL:
    cdef void *moved = realloc(at, size)
    if moved == NULL:
        raise MemoryError()
    return moved


cdef class PendingNames:
    """Names with their handles, in memory, found by either; names are only ever added.

    A lookup in one thread is right beside an addition in another: none lets go of the interpreter's lock.
    """

    cdef Bytes bytes
    cdef int64_t *ends
    cdef uint64_t *handles
    cdef uint32_t *by_name
    cdef uint32_t *by_handle
    cdef uint64_t room, places
    cdef readonly uint64_t count
    cdef uint64_t most

    def __cinit__(self):
        self.places = 64
        self.by_name = <uint32_t *>calloc(self.places, 4)
        self.by_handle = <uint32_t *>calloc(self.places, 4)
        if self.by_name == NULL or self.by_handle == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.bytes.data)
        free(self.ends)
        free(self.handles)
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

    cdef uint64_t place_of_name(self, const uint8_t *name, uint64_t size) noexcept:
        """Where it is in the table, or would be."""
        cdef uint64_t place = name_hash(name, size, SECRET) & (self.places - 1), entry
        cdef int64_t start
        while self.by_name[place]:
            entry = self.by_name[place] - 1
            start = self.ends[entry - 1] if entry else 0
            if <uint64_t>(self.ends[entry] - start) == size and (
                size == 0 or memcmp(self.bytes.data + start, name, <size_t>size) == 0
            ):
                break
            place = (place + 1) & (self.places - 1)
        return place

    cdef uint64_t place_of_handle(self, uint64_t handle) noexcept:
        cdef uint64_t hash = (handle ^ SECRET) * <uint64_t>0x9E3779B97F4A7C15
        cdef uint64_t place = (hash ^ hash >> 32) & (self.places - 1)
        while self.by_handle[place] and self.handles[self.by_handle[place] - 1] != handle:
            place = (place + 1) & (self.places - 1)
        return place

    cdef int grow(self) except -1:
        cdef uint64_t room = self.room + self.room // 4 + 64, i, places = self.places
        cdef int64_t start
        cdef void *moved
        if self.count >= (<uint64_t>1 << 31):
            raise ValueError("too many names in memory")
        moved = grown(self.ends, room * 8)
        self.ends = <int64_t *>moved
        moved = grown(self.handles, room * 8)
        self.handles = <uint64_t *>moved
        while places < room + room // 2:
            places *= 2
        if places > self.places:
            moved = grown(self.by_name, places * 4)
            self.by_name = <uint32_t *>moved
            moved = grown(self.by_handle, places * 4)
            self.by_handle = <uint32_t *>moved
            self.places = places
            memset(self.by_name, 0, places * 4)
            memset(self.by_handle, 0, places * 4)
            for i in range(self.count):
                start = self.ends[i - 1] if i else 0
                self.by_name[self.place_of_name(self.bytes.data + start, <uint64_t>(self.ends[i] - start))] = <uint32_t>i + 1
                self.by_handle[self.place_of_handle(self.handles[i])] = <uint32_t>i + 1
        self.room = room
        return 0

    def add(self, const uint8_t[::1] data not None, const int64_t[::1] ends not None, const uint64_t[::1] handles not None):
        """Take names with their handles, some of which may be there. ValueError where one has, or is, another's."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, size, by_name, by_handle
        cdef const uint8_t *name
        if <uint64_t>handles.shape[0] != names.count:
            raise ValueError(f"{handles.shape[0]} handles for {names.count} names")
        for i in range(names.count):
            if self.count == self.room:
                self.grow()
            name, size = names.data + start_of(&names, i), <uint64_t>(names.ends[i] - start_of(&names, i))
            by_name, by_handle = self.place_of_name(name, size), self.place_of_handle(handles[i])
            if self.by_name[by_name] or self.by_handle[by_handle]:
                if self.by_name[by_name] != self.by_handle[by_handle]:
                    raise ValueError(f"handle {handles[i]} and its name do not belong together")
                continue
            if bytes_reserve(&self.bytes, size) != OK:
                raise MemoryError()
            if size:
                memcpy(self.bytes.data + self.bytes.used, name, <size_t>size)
            self.bytes.used += size
            self.ends[self.count] = <int64_t>self.bytes.used
            self.handles[self.count] = handles[i]
            self.most = max(self.most, handles[i])
            self.count += 1
            self.by_name[by_name] = self.by_handle[by_handle] = <uint32_t>self.count

    def find(self, const uint8_t[::1] data not None, const int64_t[::1] ends not None):
        """The handle of each name, uint64[n], and whether it is there, bool[n]."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, entry
        cdef uint64_t[::1] out
        cdef uint8_t[::1] there
        result, known = np.zeros(names.count, UINT64), np.zeros(names.count, UINT8)
        out, there = result, known
        for i in range(names.count):
            entry = self.by_name[self.place_of_name(names.data + start_of(&names, i),
                                                    <uint64_t>(names.ends[i] - start_of(&names, i)))]
            if entry:
                out[i] = self.handles[entry - 1]
                there[i] = 1
        return result, known.view(bool)

    def entries(self, const uint64_t[::1] handles not None):
        """The entry of each handle, for read: int64[n], -1 for those that are not there."""
        cdef Py_ssize_t i
        cdef int64_t[::1] out
        result = np.empty(handles.shape[0], INT64)
        out = result
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
