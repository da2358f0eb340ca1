"""A mapped segment: its pages, checked when they are first used, and its tables, decoded slot by slot.

Reads a stranger's bytes: nothing is followed before it has been compared with what remains. The kernels are C
(fpstore/native); where a region lies is format.py's to know, and a SegmentView is told.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.types cimport off_t

import numpy as np

from fpstore._native cimport (
    BAD_DIRECTORY, BAD_PAGE, CHUNK_ROOM, CODEC_RAW, FOOTER_BYTES, MAX_KEY_BITS, NOT_BROUGHT, NO_MEMORY, OK,
    PAGE_BYTES, Chunk, ChunkCode, Cursor, Guard, Status, Table, chunk_code_init, cursor_decode, decode_init,
    guard_add, guard_changed, guard_lost, guard_remove, pages_ask, pages_check, pages_new, pages_warm,
    permutation_init, source_forget, sums_check, table_set_shifts, tables_share_codes, tables_with_flips, traces_note,
)

from fpstore._source cimport Lying, PageSource, is_main

from fpstore.errors import CorruptStore, StoreClosed

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    #ifndef FALLOC_FL_PUNCH_HOLE
    #define FALLOC_FL_KEEP_SIZE 1
    #define FALLOC_FL_PUNCH_HOLE 2
    #endif
    extern int fallocate(int, int, off_t, off_t);
    """
    enum: FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
    int fallocate(int fd, int mode, off_t offset, off_t length)


cdef int raise_status(Status status, SegmentView view, str where) except -1:
    # Comes after every stretch of work on mapped bytes, whatever its status. Whether the end has changed is asked first, as
    # that reads the mapping once more.
    cdef bint changed = guard_changed(view.guard)
    cdef uint64_t lost = guard_lost(view.guard)
    if lost:
        raise CorruptStore(where, f"byte {lost - 1} that could not be read",
                           "the bytes that were there: the file was cut short, or its disk fails")
    if changed:
        raise CorruptStore(where, "another end of the file",
                           "the one that it had when it was opened: it was cut short or overwritten while it was open")
    if status == OK:
        return 0
    if status == NO_MEMORY:
        raise MemoryError()
    if status == NOT_BROUGHT:
        raise view.lying.why()
    if status == BAD_PAGE and view.lying is not None:
        raise CorruptStore(f"{where}, page at byte {view.pages.bad_page_offset}", "bytes of another checksum",
                           "those of the checksum recorded for it: the object is damaged, or another took its place",
                           path=view.lying.url)
    if status == BAD_PAGE:
        raise CorruptStore(f"{where}, page at byte {view.pages.bad_page_offset}", "bytes of another checksum",
                           "those of the checksum recorded for it")
    if status == BAD_DIRECTORY:
        raise CorruptStore(where, "a directory entry or an id that points outside its region or runs backwards",
                           "each inside it, in order")
    raise CorruptStore(where, "a block that does not decode", "increasing keys that end where it ends")


cdef class SegmentView:
    """A mapped segment: its pages, checked when first used, and its tables.

    data: the whole file (a mapping, kept, or other bytes). checksums_offset, roots_offset, end: where the page checksums begin, where
    their own begin, and where those end; the caller has checked the roots and that all three lie in data, 64 bytes or
    more before its end. tables: format.TableRecord, whose offsets and bits the caller has checked too. sums: of a file that has
    no checksums yet, those of all pages before checksums_offset, uint8[4 * pages], which the caller has computed.
    """

    def __cinit__(self, data, uint64_t checksums_offset, uint64_t roots_offset, uint64_t end, tables, *,
                  const uint8_t[::1] sums=None):
        cdef Table *table
        cdef const uint8_t[::1] lengths
        cdef uint64_t page_count, page
        self.table_count, self.traces = 0, {}
        self.bits = tables[0].key_bits if len(tables) else MAX_KEY_BITS
        self.closed = True
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.closed = False
        if self.buffer.len < FOOTER_BYTES or not (
            checksums_offset <= roots_offset <= end <= <uint64_t>self.buffer.len - FOOTER_BYTES
        ):
            raise ValueError("the checksums do not lie inside the file")
        self.guard = guard_add(self.buffer.buf, <size_t>self.buffer.len)
        if self.guard == NULL:
            raise MemoryError()
        self.pages.base = <const uint8_t *>self.buffer.buf
        self.pages.checked_bytes = checksums_offset
        self.pages.checksums = self.pages.base + checksums_offset
        self.pages.checksums_bytes = roots_offset - checksums_offset
        self.pages.roots = self.pages.base + roots_offset
        self.pages.pages = (checksums_offset + PAGE_BYTES - 1) // PAGE_BYTES
        self.pages.unseen = self.pages.pages
        if sums is not None:
            if <uint64_t>sums.shape[0] != 4 * self.pages.pages or not sums.shape[0]:
                raise ValueError(f"{sums.shape[0]} bytes of checksums for {self.pages.pages} pages")
            self.sums = sums
            self.pages.checksums, self.pages.checksums_bytes = &sums[0], <uint64_t>sums.shape[0]
        page_count = self.pages.pages + (self.pages.checksums_bytes + PAGE_BYTES - 1) // PAGE_BYTES
        self.pages.seen = <uint64_t *>calloc(page_count // 64 + 1, 8)
        self.tables = <Table **>calloc(len(tables) + 1, cython.sizeof(cython.p_void))
        if self.pages.seen == NULL or self.tables == NULL:
            raise MemoryError()
        if sums is not None:  # which nothing has to be compared with
            for page in range(self.pages.pages, page_count):
                self.pages.seen[page >> 6] |= <uint64_t>1 << (page & 63)
        for record in tables:
            table = <Table *>calloc(1, cython.sizeof(Table))
            if table == NULL:
                raise MemoryError()
            self.tables[self.table_count] = table
            self.table_count += 1
            table.traces.of_keys, table.traces.starts = NULL, NULL
            permutation_init(&table.permutation, record.prefix_mask, self.bits)
            table.codec = record.codec
            table.key_bits = self.bits
            table.slot_bits = record.slot_bits
            table.block_bytes = record.block_bytes
            table_set_shifts(table)
            table.fixed_bits = self.bits if table.codec == CODEC_RAW else record.rice_bits
            table.flips = record.flips
            table.payload_offset = record.payload_offset
            table.payload_bits = record.payload_bits
            table.directory_offset = record.directory_offset
            table.fences_offset = record.fences_offset
            table.fence_count = record.fence_count
            lengths = bytes(record.code_lengths)
            decode_init(table.decode, &lengths[0])
        tables_share_codes(self.tables, <unsigned>self.table_count)

    cdef int enter(self) except -1:
        if self.closed:
            raise StoreClosed("the store is closed")
        enter_open(self, is_main())
        return 0

    cdef void leave(self):
        leave_open(self, is_main())

    cdef void free(self):
        if self.guard != NULL:
            guard_remove(self.guard)
        PyBuffer_Release(&self.buffer)

    @property
    def is_inside(self):
        """Whether this is called in the midst of a call of this thread, by a signal's handler."""
        return self.main_users > 0 and is_main()

    def close(self):
        """Let go of the file; calls under way finish first, later ones raise StoreClosed."""
        if not self.closed:
            self.closed = True
            if self.users == 0:
                self.free()

    def __dealloc__(self):
        cdef int i
        if not self.closed:
            self.free()
        for i in range(self.table_count):
            free(self.tables[i])
        free(self.tables)
        free(self.pages.seen)

    def note_traces(self, int table, uint64_t key_count, chunks):
        """Note traces of the keys of a table of slots, before anybody searches: searches pass over slots without a near one.

        No slot is for more than one prefix. chunks: of uint64[n], all of its key_count keys. ValueError for more or fewer,
        CorruptStore for keys that are not in order; what is raised leaves nothing noted.
        """
        cdef const uint64_t[::1] keys
        cdef uint16_t[::1] trace
        cdef uint32_t[::1] start
        cdef uint64_t noted = 0, last = 0
        cdef int sound = 1
        if not 0 <= table < self.table_count or table in self.traces:
            raise ValueError(f"table {table}: expected one of {self.table_count} tables, and not one of {[*self.traces]}")
        if self.tables[table].block_bytes or self.tables[table].slot_bits > self.tables[table].permutation.prefix_bits:
            raise ValueError(f"table {table}: found blocks, or several slots to a prefix, expected slots, one to a prefix")
        if key_count >> 32:
            raise ValueError(f"{key_count} keys: expected fewer than 2^32")
        traces = np.empty(key_count + 1, dtype=np.uint16)
        starts = np.zeros((1 << <object>self.tables[table].slot_bits) + 1, dtype=np.uint32)
        trace, start = traces, starts
        for keys in chunks:
            if <uint64_t>keys.shape[0] > key_count - noted:
                raise ValueError(f"table {table}: found more than {key_count} keys")
            if keys.shape[0] > 0:
                with nogil:
                    sound = traces_note(self.tables[table], &keys[0], <uint64_t>keys.shape[0], noted, &last, &trace[0], &start[0])
                if not sound:
                    raise CorruptStore(f"table {table}", "keys in no order", f"each larger than the one before, of {self.bits} bits")
                noted += <uint64_t>keys.shape[0]
        if noted < key_count:
            raise ValueError(f"table {table}: found {noted} keys, expected {key_count}")
        np.cumsum(starts, dtype=np.uint32, out=starts)
        self.tables[table].traces.of_keys, self.tables[table].traces.starts = &trace[0], &start[0]
        self.traces[table] = traces, starts

    def attach(self, PageSource source not None, str url):
        """Have pages that are not there brought by source; url: what lies there. Its number in the source."""
        if self.lying is not None:
            raise ValueError("the view has a source")
        self.lying = source.add(url, self.pages.checked_bytes, <uint64_t>(self.pages.checksums - self.pages.base),
                                self.pages.checksums_bytes)
        self.pages.source = &self.lying.file
        return self.lying.file.number

    def drop(self, int fd):
        """Give the bytes of a file that has a source back to the disk, unless a call is under way; whether that was done.

        fd: of that file. Nobody else may have it mapped. OSError where its file system cannot do that.
        """
        cdef uint64_t end = self.pages.checked_bytes // PAGE_BYTES * PAGE_BYTES
        if self.users or self.closed or self.lying is None:
            return False
        # All under the interpreter's lock, without which no call begins.
        memset(self.pages.seen, 0, (self.pages.pages // 64) * 8)
        self.clear_seen(self.pages.pages // 64 * 64, self.pages.pages)
        self.pages.unseen = self.pages.pages
        source_forget(&self.lying.file)
        if end and fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, <off_t>end) != 0:
            return False
        return True

    cdef void clear_seen(self, uint64_t first, uint64_t end):
        cdef uint64_t page
        for page in range(first, end):
            self.pages.seen[page >> 6] &= ~(<uint64_t>1 << (page & 63))

    def ask(self, uint64_t first, uint64_t end):
        """Bytes [first, end) will be read soon: what lies elsewhere is on its way when it returns."""
        if self.lying is None:
            return
        self.enter()
        try:
            with nogil:
                pages_ask(&self.pages, first // PAGE_BYTES, min((end + PAGE_BYTES - 1) // PAGE_BYTES, self.pages.pages))
        finally:
            self.leave()

    def is_new(self, uint64_t first, uint64_t end):
        """Whether any page that holds bytes [first, end) has not been used yet, of a file that is all here."""
        end = min(end, self.pages.checked_bytes)
        return self.lying is None and self.first_new(first, end) < end

    def first_new(self, uint64_t first, uint64_t end):
        """The first of bytes [first, end), which have checksums, whose page has not been used yet; end where none is."""
        if end > self.pages.checked_bytes:
            raise ValueError(f"byte {end} lies beyond the {self.pages.checked_bytes} that have checksums")
        return pages_new(&self.pages, first, end)

    @property
    def pages_asked(self):
        """How many pages the system has been asked for before their first use, so that several come from the disk at once."""
        return self.pages.asked

    @property
    def code_classes(self):
        """For each table the first one whose code is nearly as its own: blocks of such tables are decoded side by side."""
        return tuple(self.tables[i].code_class for i in range(self.table_count))

    def check(self, uint64_t first, uint64_t end, str where):
        """Check every page that holds bytes [first, end) against its checksum; CorruptStore names the first bad one."""
        cdef Status status = OK
        if end > self.pages.checked_bytes:
            raise ValueError(f"{where}: byte {end} lies beyond the {self.pages.checked_bytes} that have checksums")
        self.enter()
        try:
            if first < end:
                with nogil:
                    status = pages_check(&self.pages, first, end - 1)
                raise_status(status, self, where)
        finally:
            self.leave()

    @property
    def page_count(self):
        """How many pages have checksums."""
        return self.pages.pages

    @property
    def pages_seen(self):
        """How many of them have been checked."""
        cdef uint64_t page, count = 0
        for page in range(self.pages.pages):
            count += (self.pages.seen[page >> 6] >> (page & 63)) & 1
        return count

    def warm(self, uint64_t first, uint64_t end):
        """Read and check pages [first, end) that have not been used before.

        A damaged one stays unchecked: who uses it raises CorruptStore. Raises what kept one from being brought.
        """
        cdef Status status
        if not first <= end <= self.pages.pages:
            raise ValueError(f"pages {first} to {end}: there are {self.pages.pages}")
        self.enter()
        try:
            with nogil:
                status = pages_warm(&self.pages, first, end)
            if status == NOT_BROUGHT:
                raise self.lying.why()
        finally:
            self.leave()

    def read(self, uint64_t offset, uint64_t length):
        """A copy of bytes of the file, whose pages need not have been checked; CorruptStore where they are gone."""
        cdef uint64_t size = <uint64_t>self.buffer.len
        cdef uint64_t sums = <uint64_t>(self.pages.checksums - self.pages.base), roots = sums + self.pages.checksums_bytes
        cdef bytes copied
        cdef char *out
        cdef Status status = OK
        if offset > size or length > size - offset:
            raise ValueError(f"{length} bytes at {offset}: the file has {size}")
        copied = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>length)
        out = PyBytes_AS_STRING(copied)
        self.ask(offset, offset + length)
        self.enter()
        try:
            with nogil:
                if self.pages.source != NULL and length > 0:  # or it might copy what is not there yet
                    if offset < self.pages.checked_bytes:
                        status = pages_check(&self.pages, offset, min(offset + length, self.pages.checked_bytes) - 1)
                    if status == OK and offset < roots and offset + length > sums:
                        status = sums_check(&self.pages, max(offset, sums) - sums, min(offset + length, roots) - sums)
                memcpy(out, self.pages.base + offset, length)
            raise_status(status, self, "file")
        finally:
            self.leave()
        return copied

    def gather(self, uint64_t offset, const int64_t[::1] rows not None, uint64_t row_bytes, str where):
        """Rows of a region of equal ones that begins at offset: uint8[n, row_bytes], their pages checked first."""
        cdef uint64_t room = self.pages.checked_bytes
        cdef uint8_t[:, ::1] out
        cdef Status status = OK
        cdef Py_ssize_t i
        cdef uint64_t first
        if offset > room or not row_bytes:
            raise ValueError(f"{where}: rows of {row_bytes} bytes at {offset}, of {room}")
        for i in range(rows.shape[0]):
            if rows[i] < 0 or <uint64_t>rows[i] >= (room - offset) // row_bytes:
                raise ValueError(f"{where}: row {rows[i]}, of {(room - offset) // row_bytes} that have checksums")
        result = np.empty((rows.shape[0], row_bytes), dtype=np.uint8)
        out = result
        self.enter()
        try:
            with nogil:
                for i in range(rows.shape[0]):
                    first = offset + <uint64_t>rows[i] * row_bytes
                    status = pages_check(&self.pages, first, first + row_bytes - 1)
                    if status != OK:
                        break
                    memcpy(&out[i, 0], self.pages.base + first, row_bytes)
            raise_status(status, self, where)
        finally:
            self.leave()
        return result


cdef class Flipped:
    """The tables of a segment, looked up with other numbers of flips."""

    def __cinit__(self, SegmentView view, flips):
        cdef const unsigned int[::1] counts = np.array(flips, dtype=np.uintc)
        if counts.shape[0] != view.table_count:
            raise ValueError(f"{len(flips)} numbers of flips for {view.table_count} tables")
        self.tables = <Table **>malloc((view.table_count + 1) * sizeof(void *))
        if self.tables != NULL and view.table_count > 0:
            self.copies = tables_with_flips(view.tables, <unsigned>view.table_count, &counts[0], self.tables)
        if self.tables == NULL or (self.copies == NULL and view.table_count > 0):
            raise MemoryError()

    def __dealloc__(self):
        free(self.copies)
        free(self.tables)


cdef class DecodeRoom:
    """What cursors decode in, those of one thread that read in turns.

    keys: what their next chunk goes into, uint64[n] with room for what is decoded at once; whoever reads may put another
    array in its place.
    """

    def __cinit__(self):
        self.keys = np.empty(CHUNK_ROOM, dtype=np.uint64)
        self.chunk = <Chunk *>malloc(cython.sizeof(Chunk))
        if self.chunk == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.chunk)


cdef class TableCursor:
    """Reads the keys of slots [first_slot, end_slot) of one table, in order, every check on.

    alone: decode one stretch of blocks at a time, not several side by side, to measure what these bring. room: what it
    decodes in; its own by default.
    """

    def __cinit__(self, SegmentView view not None, int table, uint64_t first_slot, uint64_t end_slot, *,
                  bint alone=False, DecodeRoom room=None):
        if not 0 <= table < view.table_count:
            raise ValueError(f"table {table}: the segment has {view.table_count}")
        self.view = view
        self.table = view.tables[table]
        self.where = f"table {table}"
        if not first_slot <= end_slot <= (<uint64_t>1 << self.table.slot_bits):
            raise ValueError(f"slots {first_slot} to {end_slot}: {self.where} has {<uint64_t>1 << self.table.slot_bits}")
        memset(&self.cursor, 0, cython.sizeof(Cursor))
        self.cursor.slot = first_slot
        self.cursor.end_slot = end_slot
        self.cursor.alone = alone
        self.room = DecodeRoom() if room is None else room
        self.room.cursors += 1
        self.number = self.room.cursors
        self.cursor.chunk = self.room.chunk

    def __dealloc__(self):
        free(self.code)

    cdef int take_room(self) except -1:
        """Have the room's chunk decode for this cursor."""
        if self.room.ready == self.number:
            return 0
        if self.code == NULL:
            self.code = <ChunkCode *>malloc(cython.sizeof(ChunkCode))
            if self.code == NULL:
                raise MemoryError()
            chunk_code_init(self.code, self.table.decode)
        self.room.chunk.code = self.code[0]
        self.room.ready = self.number
        return 0

    def read(self, Py_ssize_t room=1 << 17, into=None):
        """The next keys, uint64[up to room]; empty at the end. CorruptStore where the table does not decode.

        room: 65,664 (for what is decoded at once) or more. into: uint64[room], which holds them instead of a new array.
        """
        cdef uint64_t[::1] out
        result = np.empty(room, dtype=np.uint64) if into is None else into
        out = result
        return result[:self.decode(&out[0] if out.shape[0] else NULL, <uint64_t>out.shape[0])]

    cdef uint64_t decode(self, uint64_t *out, uint64_t room) except? 0:
        """As read, into room for so many keys; how many these are."""
        cdef uint64_t count = 0
        cdef Status status
        if room < CHUNK_ROOM:
            raise ValueError(f"room for {room} keys: expected {CHUNK_ROOM} or more")
        self.take_room()
        self.view.enter()
        try:
            with nogil:
                status = cursor_decode(&self.view.pages, self.table, &self.cursor, out, room, &count)
            if status != OK or not is_sound(self.view):
                raise_status(status, self.view, f"{self.where}, slot {self.cursor.slot}")
        finally:
            self.view.leave()
        return count
