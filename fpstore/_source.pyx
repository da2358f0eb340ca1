"""Files whose pages lie elsewhere until they are first used: what kernels wait at, and who brings these pages takes and tells.

Which pages are there their checksums say, see _view; nothing here is believed.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

import copy
from errno import EINTR
from os import register_at_fork
from threading import get_ident, main_thread

from cpython.exc cimport PyErr_CheckSignals

from fpstore._native cimport (
    PAGE_BYTES,
    WantedPage,
    source_close,
    source_free,
    source_new,
    source_take,
    source_tell,
)

from fpstore.errors import StoreClosed
from fpstore.threads import is_unwanted

cdef extern from "Python.h" nogil:
    int PyGILState_Check()
    unsigned long PyThread_get_thread_ident()

cdef enum:
    MOST_TAKEN = 256

# What a signal's handler has raised in a thread that waited for a page, by that thread, until it raises it.
cdef dict raised = {}


cdef unsigned long main_ident


def _find_main():
    global main_ident
    main_ident = main_thread().ident


register_at_fork(after_in_child=_find_main)  # there it is the one that forked
_find_main()


cdef bint is_main() noexcept:
    return PyThread_get_thread_ident() == main_ident


cdef int is_stopped() noexcept nogil:
    with gil:
        return hears()


cdef bint hears() noexcept:
    # Whether a signal's handler has raised something, such as Ctrl-C's; only the main thread runs any. Others may help
    # one that was interrupted where it waits for them.
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        raised[get_ident()] = error
        return True
    try:
        return is_unwanted()
    except BaseException:  # as the interpreter ends
        return True


cdef class PageSource:
    """The pages that are wanted of some files, each of which has a number here."""

    def __cinit__(self):
        self.files = []
        # Who holds the interpreter's lock and waited would keep everybody from bringing anything.
        self.source = source_new(PyGILState_Check, is_stopped)
        if self.source == NULL:
            raise MemoryError()

    def __dealloc__(self):
        if self.source != NULL:
            source_free(self.source)

    cdef Lying add(self, str url, uint64_t checked_bytes, uint64_t sums_offset, uint64_t sums_bytes):
        cdef Lying lying = Lying()
        cdef uint64_t words
        lying.checked_bytes, lying.sums_offset, lying.sums_bytes = checked_bytes, sums_offset, sums_bytes
        lying.pages = (checked_bytes + PAGE_BYTES - 1) // PAGE_BYTES
        lying.file.pages = lying.pages + (sums_bytes + PAGE_BYTES - 1) // PAGE_BYTES
        words = lying.file.pages // 64 + 1
        lying.file.wanted = <uint64_t *>calloc(3 * words, 8)
        if lying.file.wanted == NULL:
            raise MemoryError()
        lying.file.brought, lying.file.failed = lying.file.wanted + words, lying.file.wanted + 2 * words
        lying.file.source, lying.file.number = self.source, <uint64_t>len(self.files)
        lying.source, lying.url = self, url
        self.files.append(lying)
        return lying

    def take(self, unsigned milliseconds):
        """Stretches of pages that are wanted, (file, first, end), in order; none after so long, or when it is closed."""
        cdef WantedPage pages[MOST_TAKEN]
        cdef uint64_t count, i
        cdef list found = []
        with nogil:
            count = source_take(self.source, milliseconds, pages, MOST_TAKEN)
        for file, page in sorted([(pages[i].file, pages[i].page) for i in range(count)]):
            if found and found[len(found) - 1][0] == file and found[len(found) - 1][2] == page:
                found[len(found) - 1][2] = page + 1
            else:
                found.append([file, page, page + 1])
        return [tuple(stretch) for stretch in found]

    def where(self, uint64_t file, uint64_t first, uint64_t end):
        """Where pages [first, end) of a file lie in it, bytes [start, stop): of the file, and of its checksums."""
        cdef Lying lying = self.files[file]
        cdef uint64_t pages = lying.pages
        found = []
        if first < min(end, pages):
            found.append((first * PAGE_BYTES, min(min(end, pages) * PAGE_BYTES, lying.checked_bytes)))
        if max(first, pages) < end:
            found.append((lying.sums_offset + (max(first, pages) - pages) * PAGE_BYTES,
                          lying.sums_offset + min((end - pages) * PAGE_BYTES, lying.sums_bytes)))
        return found

    def tell(self, uint64_t file, uint64_t first, uint64_t end, failure=None):
        """Pages [first, end) of a file are there; or not, which who waits for them raises."""
        cdef Lying lying = self.files[file]
        if failure is not None:
            lying.failure = failure
        source_tell(&lying.file, first, end, failure is None)

    def close(self):
        """Nothing is brought from now on."""
        self.closed = True
        source_close(self.source)


cdef class Lying:
    """A file that lies at url; where its pages and their checksums end."""

    def __dealloc__(self):
        free(self.file.wanted)

    cdef object why(self):
        # What is raised where a page of it was not brought: anew each time, as it may be raised in several threads.
        error = raised.pop(get_ident(), None)
        if error is not None:
            return error
        if self.failure is not None:
            return copy.copy(self.failure)
        if self.source.closed:
            return StoreClosed("the store is closed")
        return InterruptedError(EINTR, "another thread that waited for its pages was interrupted", self.url)
