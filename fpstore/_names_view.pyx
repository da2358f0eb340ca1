"""A mapped file of names: its names by rank, which is their order, by name and by handle.

It is a stranger's: what is read there is compared with what remains before it is followed. The kernels are C
(fpstore/native/names_read.c); where a part of the file lies is names/layout.py's to know, and a NamesView is told.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from fpstore._names cimport names_of, start_of, taken
from fpstore._native cimport (
    BAD_BLOCK,
    NAME_BLOCK,
    NAME_BYTES,
    NAME_SLACK,
    OK,
    Bytes,
    NameBlock,
    NameFile,
    Names,
    Status,
    bytes_reserve,
    name_block_all,
    name_block_read,
    name_file_block,
    name_file_expect,
    name_file_find,
    name_file_handle,
    name_file_locate,
    name_file_may_have,
    name_file_rank,
)
from fpstore._view cimport SegmentView, raise_status

# So many names ahead the processor is told where their part of a filter lies.
cdef uint64_t AHEAD = 12

cdef object INT64 = np.dtype(np.int64), UINT64 = np.dtype(np.uint64)


cdef NameBlock *block_room() except NULL:
    cdef NameBlock *room = <NameBlock *>malloc(cython.sizeof(NameBlock))
    if room == NULL:
        raise MemoryError()
    return room


cdef uint8_t *name_room() except NULL:
    cdef uint8_t *room = <uint8_t *>malloc(NAME_BYTES + NAME_SLACK)
    if room == NULL:
        raise MemoryError()
    return room


cdef class NamesView:
    """The names of a file: by rank, which is their order, by name and by handle.

    view: of the file, without tables. record: names.layout.NamesRecord, whose offsets have been compared with the file.
    """

    cdef readonly SegmentView view
    cdef NameFile file
    # How often a block was looked into for a name.
    cdef readonly uint64_t looked

    def __cinit__(self, SegmentView view not None, record):
        self.view = view
        self.file.count = record.count
        self.file.block_count = record.block_count
        self.file.line_count = record.line_count
        self.file.handle_base = record.handle_base
        self.file.handle_width = record.handle_width
        self.file.rank_width = record.rank_width
        self.file.blocks_offset = record.blocks_offset
        self.file.blocks_end = record.blocks_end
        self.file.directory_offset = record.directory_offset
        self.file.filter_offset = record.filter_offset
        self.file.handles_offset = record.handles_offset
        self.file.order_offset = record.order_offset

    def find(
        self, const uint8_t[::1] data not None, const int64_t[::1] ends not None, const uint64_t[::1] hashes not None
    ):
        """The rank of each name: int64[n], -1 for those that are not there. hashes: of _names.hashes. Quickest in order."""
        cdef Names names = names_of(data, ends)
        cdef uint64_t i, rank = 0, looked = 0
        cdef Status status = OK
        cdef NameBlock *block = NULL
        cdef uint8_t *scratch = NULL
        cdef int found
        cdef int64_t[::1] out
        if <uint64_t>hashes.shape[0] != names.count:
            raise ValueError(f"{hashes.shape[0]} hashes of {names.count} names")
        result = np.full(names.count, -1, INT64)
        out = result
        self.view.enter()
        try:
            block, scratch = block_room(), name_room()
            with nogil:
                for i in range(names.count):
                    if i + AHEAD < names.count:
                        name_file_expect(&self.view.pages, &self.file, hashes[i + AHEAD])
                    status = name_file_may_have(&self.view.pages, &self.file, hashes[i], &found)
                    if status == OK and found:
                        looked += 1
                        status = name_file_find(&self.view.pages, &self.file, names.data + start_of(&names, i),
                                                <uint64_t>(names.ends[i] - start_of(&names, i)), scratch, block, &rank,
                                                &found)
                    if status != OK:
                        break
                    if found:
                        out[i] = <int64_t>rank
            raise_status(status, self.view, "names")
        finally:
            self.looked += looked
            free(block)
            free(scratch)
            self.view.leave()
        return result

    def ranks(self, const uint64_t[::1] handles not None):
        """The rank of the name of each handle: int64[n], -1 for those that are not there."""
        cdef uint64_t i, count = <uint64_t>handles.shape[0], rank = 0
        cdef Status status = OK
        cdef int found
        cdef int64_t[::1] out
        result = np.full(count, -1, INT64)
        out = result
        self.view.enter()
        try:
            with nogil:
                for i in range(count):
                    status = name_file_rank(&self.view.pages, &self.file, handles[i], &rank, &found)
                    if status != OK:
                        break
                    if found:
                        out[i] = <int64_t>rank
            raise_status(status, self.view, "handles of names")
        finally:
            self.view.leave()
        return result

    def handles(self, const int64_t[::1] ranks not None):
        """The handle of the name of each rank: uint64[n]. IndexError for a rank that is not there."""
        cdef uint64_t i, count = <uint64_t>ranks.shape[0]
        cdef Status status = OK
        cdef uint64_t[::1] out
        cdef bint right = True
        result = np.empty(count, UINT64)
        out = result
        self.view.enter()
        try:
            with nogil:
                for i in range(count):
                    if ranks[i] < 0 or <uint64_t>ranks[i] >= self.file.count:
                        right = False
                        break
                    status = name_file_handle(&self.view.pages, &self.file, <uint64_t>ranks[i], &out[i])
                    if status != OK:
                        break
            raise_status(status, self.view, "handles of names")
        finally:
            self.view.leave()
        if not right:
            raise IndexError(f"rank {ranks[i]}: there are {self.file.count} names")
        return result

    def read(self, const int64_t[::1] ranks not None):
        """The names of these ranks: (data, ends). Quickest in order. IndexError for a rank that is not there."""
        cdef uint64_t i, count = <uint64_t>ranks.shape[0], index, first = 0, end = 0
        cdef Status status = OK
        cdef NameBlock *block = NULL
        cdef uint8_t *scratch = NULL
        cdef uint32_t size
        cdef int64_t[::1] ends
        cdef bint right = True
        cdef Bytes out
        result = np.empty(count, INT64)
        ends = result
        memset(&out, 0, cython.sizeof(Bytes))
        self.view.enter()
        try:
            block, scratch = block_room(), name_room()
            with nogil:
                for i in range(count):
                    if ranks[i] < 0 or <uint64_t>ranks[i] >= self.file.count:
                        right = False
                        break
                    if not first <= <uint64_t>ranks[i] < end:
                        status = name_file_locate(&self.view.pages, &self.file, <uint64_t>ranks[i], &index)
                        if status == OK:
                            status = name_file_block(&self.view.pages, &self.file, index, block, &first, &end)
                        if status == OK and not first <= <uint64_t>ranks[i] < end:
                            status = BAD_BLOCK
                        if status != OK:
                            break
                    status = name_block_read(block, <uint32_t>(<uint64_t>ranks[i] - first), scratch, &size)
                    if status == OK:
                        status = bytes_reserve(&out, size)
                    if status != OK:
                        break
                    if size:  # there may be no room at all before the first name with a byte
                        memcpy(out.data + out.used, scratch, size)
                    out.used += size
                    ends[i] = <int64_t>out.used
            raise_status(status, self.view, "names")
            if not right:
                raise IndexError(f"rank {ranks[i]}: there are {self.file.count} names")
            return taken(&out), result
        finally:
            free(block)
            free(scratch)
            free(out.data)
            self.view.leave()

    def block(self, uint64_t index):
        """All names of a block and their handles: (data, ends, handles, first rank). CorruptStore unless it is canonical."""
        cdef NameBlock *block = NULL
        cdef Status status = OK
        cdef uint64_t first = 0, end = 0, i
        cdef Bytes out
        cdef int64_t[::1] ends
        cdef uint64_t[::1] handles
        result = np.empty(NAME_BLOCK, INT64)
        result_handles = np.empty(NAME_BLOCK, UINT64)
        ends, handles = result, result_handles
        memset(&out, 0, cython.sizeof(Bytes))
        self.view.enter()
        try:
            block = <NameBlock *>malloc(cython.sizeof(NameBlock))
            if block == NULL:
                raise MemoryError()
            with nogil:
                status = name_file_block(&self.view.pages, &self.file, index, block, &first, &end)
                if status == OK:
                    status = name_block_all(block, &out, &ends[0])
                for i in range(first, end):
                    if status != OK:
                        break
                    status = name_file_handle(&self.view.pages, &self.file, i, &handles[i - first])
            raise_status(status, self.view, f"names, block {index}")
            return taken(&out), result[:end - first], result_handles[:end - first], first
        finally:
            free(block)
            free(out.data)
            self.view.leave()
