"""Owns the compiled way from texts to MinHash signatures; the steps and the threads are those of _simhash."""

import numpy

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    AFFINE32, AFFINE64, BINNED, LANES_ROOM, LEGACY, MAX_VALUES, OK, RENSA, Document, Signature, Signer,
    Status, signatures_of,
)
from fpstore.text._simhash cimport Batch, bytes_of, hashes_kept, signed, steps_of

_KINDS = {
    "fpstore": BINNED,
    "datasketch-affine32": AFFINE32,
    "datasketch-affine64": AFFINE64,
    "datasketch-legacy": LEGACY,
    "rensa": RENSA,
}
MOST_VALUES = MAX_VALUES
# What one thread alone takes at once, so that what is kept of a batch of a job is in one piece.
_ALONE_BYTES = 1 << 22


cdef class Permutations:
    """The permutations of a signature.

    kind: as recipes name them. factors, terms: uint64[values], of each permutation, 1..MOST_VALUES of them; of kinds of
    32 bits the low ones count. Raises ValueError for another kind, number, or as many terms.
    """
    cdef Signer signer
    cdef object kept
    cdef readonly object dtype  # of values

    def __init__(self, kind, const uint64_t[::1] factors not None, const uint64_t[::1] terms not None):
        cdef uint64_t[::1] wide_factors, wide_terms
        cdef uint32_t[::1] narrow_factors, narrow_terms
        if kind not in _KINDS:
            raise ValueError(f"permutations: found {kind!r}, expected {' or '.join(_KINDS)}")
        if not 1 <= len(factors) <= MAX_VALUES:
            raise ValueError(f"values: found {len(factors)}, expected 1..{MAX_VALUES}")
        if len(terms) != len(factors):
            raise ValueError(f"permutations: found {len(factors)} factors with {len(terms)} terms, expected as many")
        self.signer.kind, self.signer.values = _KINDS[kind], len(factors)
        self.dtype = numpy.dtype(numpy.uint32 if self.signer.kind < AFFINE64 else numpy.uint64)
        room = (len(factors) + LANES_ROOM - 1) // LANES_ROOM * LANES_ROOM
        wide = numpy.zeros((2, room), dtype=numpy.uint64)
        wide[0, : len(factors)], wide[1, : len(terms)] = factors, terms
        narrow = wide.astype(numpy.uint32)
        self.kept = (wide, narrow)
        wide_factors, wide_terms = wide
        narrow_factors, narrow_terms = narrow
        self.signer.wide_factors, self.signer.wide_terms = &wide_factors[0], &wide_terms[0]
        self.signer.factors, self.signer.terms = &narrow_factors[0], &narrow_terms[0]

    cdef rows(self, Py_ssize_t count):
        """Room for the signatures of so many."""
        return numpy.empty((count, self.signer.values), dtype=self.dtype)


cdef class Signing(Batch):
    """Texts on their way to their signatures.

    kept: None, or by the first text of a slice the hashes of the shingles of its texts, and where those of each end.
    """
    cdef object rows, token_counts
    cdef dict kept

    cdef measure(self, Document* document, size_t first, size_t last):
        cdef size_t at = 0
        cdef size_t values = self.rows.ctypes.data + first * self.rows.strides[0]
        cdef size_t counts = self.token_counts.ctypes.data + first * sizeof(uint32_t)
        cdef Status status
        cdef uint64_t[::1] ends
        cdef uint64_t* kept_ends = NULL
        if self.kept is not None:
            all_ends = numpy.empty(last - first, dtype=numpy.uint64)
            ends = all_ends
            kept_ends = &ends[0]
        with nogil:
            left()
            status = signed(document, &self.steps, self.given + first, last - first, &at, <void*>values,
                            <uint32_t*>counts, kept_ends)
            comes()
        if status != OK:
            raise MemoryError(f"text {first + at}: no memory for {bytes_of(&self.given[first + at])} bytes")
        if self.kept is not None:
            self.kept[first] = (hashes_kept(document), all_ends)


def sign(texts, Permutations permutations not None, *, normalisation="nfkc-casefold", tokens="words", shingle=4,
         weights="presence", idf=None, hash="xxh3", seed=0, tie="clear", sketch="minhash", dense_shingle=0,
         bits=64, int threads=1, bint keeps=False):
    """The signatures of texts, uint32 or uint64[n, values], and how many tokens each text has: uint32[n].

    keeps: give the hashes of the shingles too, as _shingles.measure_and_keep does; else there are none. All else that is
    given and raised is as of _simhash.measure. A text without tokens has the greatest values.
    """
    cdef Signing batch
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: found one {type(texts).__name__}, expected a sequence of them")
    if threads < 1:
        raise ValueError(f"threads: found {threads}, expected at least 1")
    if sketch != "minhash":
        raise ValueError(f"sketch: found {sketch!r}, expected minhash")
    batch = Signing(texts)
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    batch.steps.signer = permutations.signer
    batch.rows = permutations.rows(len(batch.texts))
    batch.token_counts = numpy.zeros(len(batch.texts), dtype=numpy.uint32)
    batch.kept = {} if keeps else None
    if threads == 1:
        batch.least_bytes = _ALONE_BYTES
    batch.run_all(threads)
    kept = sorted(batch.kept.items(), key=lambda item: item[0]) if keeps else []
    return batch.rows, batch.token_counts, [found for _, found in kept]


def sign_hashes(const uint64_t[::1] hashes not None, const uint64_t[::1] ends not None,
                Permutations permutations not None):
    """The signatures of sets of hashes, uint32 or uint64[n, values]: those of set i end at ends[i].

    An empty one has the greatest values. Raises ValueError for ends that do not increase to the number of hashes.
    """
    cdef Py_ssize_t i
    cdef uint64_t before = 0
    cdef Signature signature
    cdef size_t values
    cdef uint64_t nothing = 0
    cdef const uint64_t* first = &hashes[0] if len(hashes) else &nothing
    for i in range(len(ends)):
        if ends[i] < before:
            raise ValueError(f"ends: found {ends[i]} after {before}, expected them to increase")
        before = ends[i]
    if before != <uint64_t>len(hashes):
        raise ValueError(f"ends: found {before} as the last, expected {len(hashes)}, as many as there are hashes")
    rows = permutations.rows(len(ends))
    if len(ends):
        values = rows.ctypes.data
        with nogil:
            left()
            signatures_of(&signature, &permutations.signer, first, &ends[0], <size_t>ends.shape[0], <void*>values)
            comes()
    return rows
