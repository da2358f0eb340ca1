"""What another module takes of the texts on their way: a batch, its threads, the steps, and what needs Unicode's tables.

Each compiled module has the kernels for itself, and this one has the tables loaded.
"""

from libc.stdint cimport uint32_t, uint64_t

from fpstore._native cimport Document, Given, Measures, Shingled, Status, Steps

cdef class Batch:
    cdef object texts
    cdef object idf  # what the steps point into
    cdef Steps steps
    cdef object room
    cdef Given* given
    cdef object waiting
    cdef size_t least_bytes  # of a slice
    cdef readonly tuple columns
    cdef readonly object failure
    cdef cut(self, int threads)
    cdef make_columns(self)
    cdef run_all(self, int threads)
    cdef measure(self, Document* document, size_t first, size_t last)
    cdef measure_into(self, Document* document, size_t first, size_t last, Measures* found, uint64_t* ends)

cdef Steps steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits) except *
cdef expect_several(texts, int threads)
cdef Status shingled_of(Document* document, const Steps* steps, const Given* texts, size_t count, size_t* at,
                        Shingled* shingled) noexcept nogil
cdef Status sorted_of(const Steps* steps, const Given* kept, size_t count, size_t* at,
                      Shingled* shingled) noexcept nogil
cdef hashes_kept(Document* document)
cdef size_t bytes_of(const Given* given) noexcept
cdef Status signed(Document* document, const Steps* steps, const Given* texts, size_t count, size_t* at, void* values,
                   uint32_t* token_counts, uint64_t* ends) noexcept nogil
