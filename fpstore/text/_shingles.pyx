"""Owns the compiled way from texts to their distinct shingles: from the texts, or from hashes that were kept of them.

Who measures texts can keep the hashes of their shingles, as they come, so that no text is read twice for both.
"""

import numpy

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from fpstore._native cimport OK, PRESENCE, Document, Given, Measures, Shingled, Status, shingled_free
from fpstore.text._simhash cimport Batch, bytes_of, expect_several, shingled_of, sorted_of, steps_of

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
                status = self.shingle(document, first, last - first, &at, &shingled)
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
        cdef uint64_t[::1] ends, hashes
        found = numpy.empty(last - first, dtype=numpy.uint64)
        ends = found
        self.measure_into(document, first, last, &measures, &ends[0])
        kept = numpy.empty(document.kept.used, dtype=numpy.uint64)
        if document.kept.used:
            hashes = kept
            memcpy(&hashes[0], document.kept.hashes, document.kept.used * sizeof(uint64_t))
        self.found[first] = (kept, found)


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

    A list of parts (hashes uint64[m], ends uint64[n]), of some texts each. Raises as _simhash.measure.
    """
    cdef Keeping batch = Keeping(expect_several(texts, threads))
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.idf, batch.found = idf, {}
    batch.make_columns()
    batch.run_all(threads)
    return batch.columns, [found for _, found in sorted(batch.found.items(), key=lambda item: item[0])]


def features_of(parts, const int64_t[::1] indexes not None, *, normalisation="nfkc-casefold", tokens="words", shingle=4,
                weights="frequency", idf=None, hash="xxh3", seed=0, tie="clear", sketch="simhash", dense_shingle=0,
                bits=64, int threads=1):
    """Of texts that were measured, those with these indexes, what features_many gives: by the hashes that were kept.

    parts: as of measure_and_keep, one after the other. Raises IndexError for an index of no text, ValueError for ends
    that do not increase to the number of hashes.
    """
    cdef Sorting batch = Sorting([b""] * len(indexes))
    cdef const uint64_t[::1] hashes, ends
    cdef uint64_t start
    cdef size_t[::1] addresses, sizes
    cdef Py_ssize_t i, text = 0, count = sum([len(part[1]) for part in parts])
    addresses, sizes = numpy.empty(count, dtype=numpy.uintp), numpy.empty(count, dtype=numpy.uintp)
    for hashes, ends in parts:
        start = 0
        for i in range(ends.shape[0]):
            if not start <= ends[i] <= <uint64_t>hashes.shape[0]:
                raise ValueError(f"ends: found {ends[i]} after {start}, expected at most {hashes.shape[0]}")
            addresses[text] = <size_t>&hashes[start] if start < ends[i] else 0
            sizes[text] = (ends[i] - start) * sizeof(uint64_t)
            start = ends[i]
            text += 1
    for i in range(indexes.shape[0]):
        if not 0 <= indexes[i] < count:
            raise IndexError(f"found index {indexes[i]}, expected one of {count} texts")
        batch.given[i].data = <const void*>addresses[indexes[i]]
        batch.given[i].size = sizes[indexes[i]]
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.idf, batch.found, batch.least_bytes = idf, {}, _MIN_SORTED_BYTES
    batch.run_all(threads)
    return batch.together()
