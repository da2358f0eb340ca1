"""Owns the compiled way from texts to their distinct shingles: from the texts, or from hashes that were kept of them.

Who measures texts can keep the hashes of their shingles, as they come, so that no text is read twice for both.
"""

import numpy

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from fpstore._interpreter cimport comes, left
from fpstore._native cimport OK, PRESENCE, Document, Given, Measures, Shingled, Status, shingled_free
from fpstore.text._simhash cimport Batch, bytes_of, expect_several, hashes_kept, shingled_of, sorted_of, steps_of

# A slice that one thread takes at once.
_MIN_SHINGLED_BYTES, _MIN_SORTED_BYTES = 1 << 15, 1 << 16


cdef class Shingling(Batch):
    """Texts on their way to their shingles. found: by the first text of a slice, what is of its texts together."""
    cdef readonly dict found

    cdef measure(self, Document* document, size_t first, size_t last):
        cdef Shingled shingled
        cdef Status status
        cdef size_t at = 0
        cdef uint64_t[::1] hashes
        cdef int64_t[::1] ends
        cdef double[::1] weights
        memset(&shingled, 0, sizeof(Shingled))
        try:
            with nogil:
                left()
                status = self.shingle(document, first, last - first, &at, &shingled)
                comes()
            if status != OK:
                size = bytes_of(&self.given[first + at])
                raise MemoryError(f"text {first + at}: no memory for the shingles of {size} bytes")
            found = (numpy.empty(shingled.used + 1, dtype=numpy.uint64),
                     None if self.steps.weights == PRESENCE else numpy.empty(shingled.used + 1),
                     numpy.empty(last - first, dtype=numpy.int64))
            hashes, weights, ends = found
            hashes[shingled.used] = 0
            if shingled.used:
                memcpy(&hashes[0], shingled.hashes, shingled.used * sizeof(uint64_t))
            if weights is not None:
                weights[shingled.used] = 0
                if shingled.used:
                    memcpy(&weights[0], shingled.weights, shingled.used * sizeof(double))
            memcpy(&ends[0], shingled.ends, (last - first) * sizeof(uint64_t))
            self.found[first] = found
        finally:
            shingled_free(&shingled)

    cdef Status shingle(self, Document* document, size_t first, size_t count, size_t* at,
                        Shingled* shingled) noexcept nogil:
        return shingled_of(document, &self.steps, self.given + first, count, at, shingled)

    cdef together(self):
        return [found for _, found in sorted(self.found.items(), key=lambda item: item[0])]


cdef class Sorting(Shingling):
    """Hashes that were kept on their way to distinct ones; given: of each text its hashes, as bytes."""

    cdef Status shingle(self, Document* document, size_t first, size_t count, size_t* at,
                        Shingled* shingled) noexcept nogil:
        return sorted_of(&self.steps, self.given + first, count, at, shingled)


cdef class Keeping(Batch):
    """Texts that are measured, and the hashes of whose shingles are kept. found: as of Shingling, without weights."""
    cdef readonly dict found

    cdef measure(self, Document* document, size_t first, size_t last):
        cdef Measures measures
        cdef uint64_t[::1] ends
        found = numpy.empty(last - first, dtype=numpy.uint64)
        ends = found
        self.measure_into(document, first, last, &measures, &ends[0])
        self.found[first] = (hashes_kept(document), found)


def features_many(texts, *, normalisation="nfkc-casefold", tokens="words", shingle=4, weights="frequency", idf=None,
                  hash="xxh3", seed=0, tie="clear", sketch="simhash", dense_shingle=0, bits=64,
                  int threads=1):
    """The distinct hashes of the shingles of each text, increasing, and what each weighs: of some texts together.

    A list of parts (hashes uint64[m + 1], weights float64[m + 1], ends int64[n]), of which the last hash is none. Where
    each weighs 1, weights is None. The arguments and what is raised are those of _simhash.measure; tie and sketch
    decide nothing here.
    """
    cdef Shingling batch = Shingling(texts)
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.idf, batch.found, batch.least_bytes = idf, {}, _MIN_SHINGLED_BYTES
    batch.run_all(threads)
    return batch.together()


def measure_and_keep(texts, *, normalisation="nfkc-casefold", tokens="words", shingle=4, weights="frequency", idf=None,
                     hash="xxh3", seed=0, tie="clear", sketch="simhash", dense_shingle=0, bits=64,
                     int threads=1):
    """What _simhash.measure gives, whose arguments these are, and the hashes of the shingles, as they come.

    A list of parts (hashes uint64[m + 1], ends uint64[n]), of some texts each, of which the last hash is none. Raises as _simhash.measure.
    """
    cdef Keeping batch = Keeping(expect_several(texts, threads))
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.idf, batch.found = idf, {}
    batch.make_columns()
    batch.run_all(threads)
    return batch.columns, [found for _, found in sorted(batch.found.items(), key=lambda item: item[0])]


def features_of(const uint64_t[::1] hashes not None, const int64_t[::1] starts not None,
                const int64_t[::1] counts not None, *, normalisation="nfkc-casefold", tokens="words", shingle=4,
                weights="frequency", idf=None, hash="xxh3", seed=0, tie="clear", sketch="simhash", dense_shingle=0,
                bits=64, int threads=1):
    """Of texts whose hashes were kept, as they come or in order, what features_many gives: by these.

    Those of text i are counts[i] of hashes, from starts[i] on. Raises ValueError for what is not there.
    """
    cdef Sorting batch
    cdef Py_ssize_t i, size = hashes.shape[0]
    if starts.shape[0] != counts.shape[0]:
        raise ValueError(f"found {starts.shape[0]} starts and {counts.shape[0]} counts, expected as many")
    batch = Sorting([b""] * len(starts))
    for i in range(starts.shape[0]):
        if not (0 <= starts[i] <= size and 0 <= counts[i] <= size - starts[i]):
            raise ValueError(f"text {i}: found {counts[i]} hashes from {starts[i]} on, expected some of {size}")
        batch.given[i].data = NULL if counts[i] == 0 else <const void*>&hashes[starts[i]]
        batch.given[i].size = <size_t>counts[i] * sizeof(uint64_t)
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.idf, batch.found, batch.least_bytes = idf, {}, _MIN_SORTED_BYTES
    batch.run_all(threads)
    return batch.together()
