"""Owns the compiled way from UTF-8 to fingerprints: normalising, tokens, shingles, hashes, and the sign of the sums.

One crossing of the Python border for a batch, no Python object for a token, and the lock is released. Memory is bounded
by the longest shingle, and for weights other than frequency by the distinct shingles of one document. What each step
means is said once, in `recipe.py`; what Unicode says is pinned, in `unicode.py`.
"""

import os
import secrets

import numpy

from cython cimport view
from libc.math cimport llrint
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from fpstore._interpreter cimport comes, left
from fpstore._native cimport (
    BLAKE2B, FNV1, FNV1A, FXHASH, MD5, MD5_HEAD, MURMUR3, SHA1, SHA256, XXH3, XXH3_SEEDED, XXH64, XXH64_SEEDED,
    CAPPED, CHARACTERS, FOLD_CHANGES, FREQUENCY, IDF, JOINS, LOGARITHM, MAX_SHINGLE, MINHASH, MINHASH_1BIT,
    MIXED, NFKC_CHANGES, OK, PRESENCE, SEPARATED, SIMHASH, WEIGHT_ONE, WHOLE, WORDS, Document, Given, Measures,
    Cell, CellTable, Status, Steps, TokenSteps, UnicodeColumn, UnicodeColumns, document_free, document_tokens,
    Shingled, documents_measure, documents_shingles, documents_sign, hashes_shingles, hash_slice,
    is_dense_token, permutations_seed, shingle_cell, cell_secret, cells_clear, text_load,
)

from fpstore._native import refuse
from fpstore.text._sums cimport words_of

from fpstore.text._sums import TIES
from fpstore.text.packed import Packed
from fpstore.text.unicode import pinned
from fpstore.threads import Background

cdef extern from "Python.h":
    bint PyBytes_Check(object data)
    char* PyBytes_AS_STRING(object data)
    Py_ssize_t PyBytes_GET_SIZE(object data)
    bint PyUnicode_Check(object text)
    bint PyUnicode_IS_ASCII(object text)
    unsigned PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

_NORMALISATIONS = {
    "nfkc-casefold": JOINS | NFKC_CHANGES | FOLD_CHANGES,
    "nfkc": JOINS | NFKC_CHANGES,
    "none": 0,
}
_TOKENS = {"words": WORDS, "characters": CHARACTERS, "separated": SEPARATED, "mixed": MIXED}
_WEIGHTS = {"frequency": FREQUENCY, "presence": PRESENCE, "capped": CAPPED, "log": LOGARITHM, "idf": IDF}
_HASHES = {
    "xxh3": XXH3,
    "xxh64": XXH64,
    "md5": MD5,
    "sha1": SHA1,
    "sha256": SHA256,
    "md5-first": MD5_HEAD,
    "blake2b": BLAKE2B,
    "fnv1": FNV1,
    "fnv1a": FNV1A,
    "fxhash": FXHASH,
    "murmur3": MURMUR3,
}
_SKETCHES = {"simhash": SIMHASH, "minhash-1bit": MINHASH_1BIT, "minhash": MINHASH}

# Of the hashes that take one. Any other has the seed 0.
SEED_BITS = {"xxh3": 64, "xxh64": 64, "murmur3": 32}

# What is measured of each text, as fpstore.text.recipe.Measured.
_COLUMNS = (numpy.uint64, numpy.uint32, numpy.bool_, numpy.uint32, numpy.float64)

# A slice that one thread takes at once: enough to make taking it cheap. A thread alone shares nothing, and what it makes
# of several slices has to be put together.
_MIN_SLICE_BYTES = 1 << 18
_SLICES_A_THREAD = 8
_ALONE_SLICE_BYTES = 1 << 22

_MAX_IDF = 1024.0

# The fingerprints that check_known_answer finds where all is well.
_KNOWN_ANSWER = [
    "0xbe951e3d11fe0310", "0x9a5fca2b588437f5", "0x6f0d9f24c4343791", "0x212507c3717aff0d", "0x70e649f91279b288",
    "0x9a5fca2b588437f5", "0xde8146161804f18", "0x9a5fca2b588437f5", "0xbe951e3d11fe0310", "0x9a5fca2b588437f5",
    "0xf4161a8bd361f793", "0x449c395b268505dc",
    "0xc33728b0f375434b", "0xa074c05dc38feb6", "0x62085354064a9a95", "0xbe951e3d11fe0310",
    "0x55a8cf9e79b79b87", "0xf04be8e795210a5a", "0x9ed8fe193128b79c", "0x9a5fca2b588437f5",
    "0x432cc198b3831f67", "0x7bdc035b8bb4602e", "0x43d58bc402bcf9a3", "0xf4161a8bd361f793",
    "0x36c1e46ca847c894", "0x85cda9bd982a0009", "0x1e0c0edb939ca2ce", "0x449c395b268505dc",
]

cdef list _columns_in_use = []


cdef const uint32_t* address_of(column) except NULL:
    """Where a column is, which then stays there."""
    cdef const uint32_t[::1] view = column
    _columns_in_use.append(column)
    return &view[0]


cdef UnicodeColumn column_of(column) except *:
    cdef UnicodeColumn found
    found.items, found.count = address_of(column), len(column)
    return found


cdef UnicodeColumn starts_of(counts) except *:
    starts = numpy.zeros(len(counts) + 1, dtype=numpy.uint32)
    starts[1:] = numpy.cumsum(counts)
    return column_of(starts)


cdef load_unicode():
    cdef object pins = pinned()
    cdef UnicodeColumns columns
    columns.word_ranges = column_of(pins["word_ranges"])
    columns.space_ranges = column_of(pins["space_ranges"])
    columns.mark_ranges = column_of(pins["mark_ranges"])
    columns.dense_ranges = column_of(pins["dense_ranges"])
    columns.combining_ranges = column_of(pins["combining_ranges"])
    columns.combining_classes = column_of(pins["combining_classes"])
    columns.decomposed_codes = column_of(pins["decomposed_codes"])
    columns.decomposed_starts = starts_of(pins["decomposed_counts"])
    columns.decomposed_points = column_of(pins["decomposed_points"])
    columns.folded_codes = column_of(pins["folded_codes"])
    columns.folded_starts = starts_of(pins["folded_counts"])
    columns.folded_points = column_of(pins["folded_points"])
    columns.composed_firsts = column_of(pins["composed_firsts"])
    columns.composed_seconds = column_of(pins["composed_seconds"])
    columns.composed_points = column_of(pins["composed_points"])
    text_load(&columns)


load_unicode()
cell_secret = secrets.randbits(64) | 1


cdef class Idf:
    """What shingles weigh that few documents have, by their hashes.

    hashes: uint64[m], distinct. weights: float64[m], 0..1024, kept to 2^-16. unseen: the weight of any other.
    Raises ValueError for hashes that are not distinct, lengths that differ, or weights outside that range.
    """
    cdef CellTable table
    cdef uint64_t unseen

    def __init__(self, const uint64_t[::1] hashes not None, const double[::1] weights not None, double unseen):
        cdef size_t size = 2
        cdef Cell* cell
        cdef Py_ssize_t i
        if len(hashes) != len(weights):
            raise ValueError(f"idf: found {len(hashes)} hashes with {len(weights)} weights, expected as many")
        self.unseen = self.checked(unseen)
        while size < 2 * <size_t>len(hashes) + 1:
            size *= 2
        if cells_clear(&self.table, size) != OK:
            raise MemoryError(f"idf: no memory for {len(hashes)} shingles")
        for i in range(len(hashes)):
            cell = shingle_cell(&self.table, hashes[i])
            if cell.value != 0:
                raise ValueError(f"idf: found hash {hashes[i]:016x} twice, expected distinct ones")
            cell.hash = hashes[i]
            cell.value = self.checked(weights[i]) + 1

    cdef uint64_t checked(self, double weight) except? 0:
        if not 0 <= weight <= _MAX_IDF:
            raise ValueError(f"idf: found weight {weight}, expected 0..{_MAX_IDF:.0f}")
        return <uint64_t>llrint(weight * WEIGHT_ONE)

    def __dealloc__(self):
        free(self.table.cells)


cdef int chosen(choices, name, value) except -1:
    if value not in choices:
        raise ValueError(f"{name}: found {value!r}, expected {' or '.join(choices)}")
    return choices[value]


cdef choose_hash(Steps* steps, hash, seed):
    steps.hash = chosen(_HASHES, "hash", hash)
    bits = SEED_BITS.get(hash, 0)
    if not 0 <= seed < 1 << bits:
        raise ValueError(f"seed: found {seed}, expected {f'0..2**{bits} - 1' if bits else 0} for hash {hash}")
    steps.seed = seed
    if steps.seed != 0:
        steps.hash = {XXH3: XXH3_SEEDED, XXH64: XXH64_SEEDED}.get(steps.hash, steps.hash)


cdef Steps steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits) except *:
    cdef Steps steps
    if not 1 <= shingle <= MAX_SHINGLE:
        raise ValueError(f"shingle: found {shingle}, expected 1..{MAX_SHINGLE}")
    if (idf is not None) != (weights == "idf"):
        raise ValueError(f"weights: found {weights!r} with idf {idf!r}, expected an Idf for 'idf' only")
    steps.tokens.kind = chosen(_TOKENS, "tokens", tokens)
    steps.tokens.flags = chosen(_NORMALISATIONS, "normalisation", normalisation)
    steps.shingle = shingle
    if not (tokens == "mixed") <= dense_shingle <= MAX_SHINGLE * (tokens == "mixed"):
        raise ValueError(f"dense_shingle: found {dense_shingle}, expected 1..{MAX_SHINGLE} for tokens mixed, else 0")
    steps.dense_shingle = dense_shingle
    steps.weights = chosen(_WEIGHTS, "weights", weights)
    choose_hash(&steps, hash, seed)
    steps.tie = chosen(TIES, "tie", tie)
    steps.sketch = chosen(_SKETCHES, "sketch", sketch)
    if steps.sketch != SIMHASH and steps.weights != PRESENCE:
        raise ValueError(f"weights: found {weights!r}, expected 'presence' for sketch {sketch}")
    steps.words = words_of(bits)
    permutations_seed(&steps.permutations, seed)
    steps.idf = NULL
    steps.idf_unseen = 0
    if idf is not None:
        steps.idf = &(<Idf?>idf).table
        steps.idf_unseen = (<Idf>idf).unseen
    return steps


cdef int read_given(text, Given* given) except -1:
    """Where the characters of a text are, for as long as it lives."""
    if PyBytes_Check(text):
        given.data = PyBytes_AS_STRING(text)
        given.size = PyBytes_GET_SIZE(text)
        given.width = 0
    elif PyUnicode_Check(text):
        given.data = PyUnicode_DATA(text)
        given.size = PyUnicode_GET_LENGTH(text)
        given.width = 0 if PyUnicode_IS_ASCII(text) else PyUnicode_KIND(text)
    else:
        raise TypeError(f"text: found {type(text).__name__}, expected str or bytes")
    return 0


cdef int read_texts(texts, Given* given) except -1:
    """Where the characters of each of texts are, for as long as they live: a list, or packed."""
    cdef Py_ssize_t i
    cdef const uint8_t[::1] data
    cdef const int64_t[::1] offsets
    if not isinstance(texts, Packed):
        for i in range(len(texts)):
            read_given(texts[i], &given[i])
        return 0
    data, offsets = texts.data, texts.offsets
    for i in range(offsets.shape[0] - 1):
        if not 0 <= offsets[i] <= offsets[i + 1] <= data.shape[0]:
            raise ValueError(f"offset {i}: found {offsets[i]}, expected those of texts in {data.shape[0]} bytes")
        given[i].data = &data[0] + offsets[i] if data.shape[0] else NULL
        given[i].size = <size_t>(offsets[i + 1] - offsets[i])
        given[i].width = 0
    return 0


cdef size_t bytes_of(const Given* given) noexcept:
    return given.size * max(given.width, 1)


cdef class Batch:
    """Texts on their way to fingerprints; several threads may run() it at once."""

    def __init__(self, texts):
        cdef Py_ssize_t i
        cdef uint8_t[::1] room
        self.least_bytes = _MIN_SLICE_BYTES
        self.texts = texts if isinstance(texts, Packed) else list(texts)
        room = self.room = numpy.empty(len(self.texts) * sizeof(Given) + 1, dtype=numpy.uint8)
        self.given = <Given*>&room[0]
        read_texts(self.texts, self.given)

    cdef cut(self, int threads):
        """Name the slices, of about as many bytes each; how many there are."""
        cdef Py_ssize_t i, first = 0, count = len(self.texts)  # asked once: those of packed texts ask Python
        cdef size_t most, size = 0
        cdef list slices = []
        for i in range(count):
            size += bytes_of(&self.given[i])
        most = max(<size_t>self.least_bytes,
                   <size_t>_ALONE_SLICE_BYTES if threads == 1 else size // <size_t>(_SLICES_A_THREAD * threads))
        size = 0
        for i in range(count):
            size += bytes_of(&self.given[i])
            if size >= most or i == count - 1:
                slices.append((first, i + 1))
                first = i + 1
                size = 0
        self.waiting = iter(slices)
        return len(slices)

    cdef make_columns(self):
        """Room for what is measured, once the steps are known: of wide fingerprints a row each."""
        cdef Py_ssize_t count = len(self.texts)
        columns = [numpy.empty(count, dtype=kind) for kind in _COLUMNS]
        if self.steps.words > 1:
            columns[0] = numpy.empty((count, self.steps.words), dtype=numpy.uint64)
        self.columns = tuple(columns)

    cdef run_all(self, int threads):
        """Measure all texts."""
        helpers = [Background(self.run) for _ in range(min(threads, self.cut(threads)) - 1)]
        self.run()  # all that is left, also where the system had no thread to give
        for helper in helpers:
            helper.wait()
        if self.failure is not None:
            raise self.failure

    def run(self):
        """Take slices until none is left; a failure is kept for all."""
        cdef Document document
        document_begin(&document)
        try:
            # One step of it is one step of the interpreter, so no two threads get the same slice.
            for first, last in self.waiting:
                if self.failure is None:
                    self.measure(&document, first, last)
        except BaseException as failure:
            self.failure = failure
        finally:
            document_free(&document)

    cdef measure(self, Document* document, size_t first, size_t last):
        cdef Measures found
        self.measure_into(document, first, last, &found, NULL)

    cdef measure_into(self, Document* document, size_t first, size_t last, Measures* found, uint64_t* ends):
        """Measure texts; ends: of the hashes of each, which are kept then."""
        cdef size_t at
        cdef Status status
        cdef size_t[5] places = [column.ctypes.data for column in self.columns]
        found.fingerprints = <uint64_t*>places[0] + first * self.steps.words
        found.token_counts = <uint32_t*>places[1] + first
        found.outweighed = <uint8_t*>places[2] + first
        found.distinct_counts = <uint32_t*>places[3] + first
        found.unseen = <double*>places[4] + first
        found.ends = ends
        with nogil:
            left()
            status = documents_measure(document, &self.steps, self.given + first, last - first, &at, found)
            comes()
        if status != OK:
            raise MemoryError(f"text {first + at}: no memory for {bytes_of(&self.given[first + at])} bytes")


cdef Status shingled_of(Document* document, const Steps* steps, const Given* texts, size_t count, size_t* at,
                        Shingled* shingled) noexcept nogil:
    return documents_shingles(document, steps, texts, count, at, shingled)


cdef hashes_kept(Document* document):
    """The hashes that a document has kept of the texts that it went through, of one more than there are.

    They are no longer the document's then.
    """
    cdef view.array hashes
    if document.kept.hashes == NULL:
        return numpy.zeros(1, dtype=numpy.uint64)
    hashes = <uint64_t[:document.kept.used + 1]>document.kept.hashes
    document.kept.hashes[document.kept.used] = 0
    document.kept.hashes = NULL
    hashes.callback_free_data = free
    return numpy.asarray(hashes)


cdef Status sorted_of(const Steps* steps, const Given* kept, size_t count, size_t* at,
                      Shingled* shingled) noexcept nogil:
    return hashes_shingles(steps, kept, count, at, shingled)


cdef Status signed(Document* document, const Steps* steps, const Given* texts, size_t count, size_t* at, void* values,
                   uint32_t* token_counts, uint64_t* ends) noexcept nogil:
    return documents_sign(document, steps, texts, count, at, values, token_counts, ends)


cdef void document_begin(Document* document) noexcept:
    memset(document, 0, sizeof(Document))


def measure(texts, *, normalisation="nfkc-casefold", tokens="words", shingle=4, weights="frequency", idf=None,
            hash="xxh3", seed=0, tie="clear", sketch="simhash", dense_shingle=0, bits=64,
            int threads=1):
    """The fingerprints of texts, and what is to be known of them: the columns of fpstore.text.recipe.Measured.

    texts: str, or bytes of UTF-8, where what is not UTF-8 becomes U+FFFD as bytes.decode("utf-8", "replace") does;
    so does a lone surrogate of a str. The rest is as in Recipe, but for tokens `separated`: the text is made of them,
    with U+001F between. idf: an Idf for weights `idf`. threads: 1 and more; they change nothing.
    Raises TypeError for other texts, ValueError for an unknown step, MemoryError also for a shingle of over 2 GiB.
    """
    cdef Batch batch = Batch(expect_several(texts, threads))
    batch.steps = steps_of(normalisation, tokens, shingle, dense_shingle, weights, idf, hash, seed, tie, sketch, bits)
    if batch.steps.sketch == MINHASH:
        raise ValueError("sketch: found 'minhash', expected one that makes fingerprints, or a call of _signing.sign")
    batch.idf = idf
    batch.make_columns()
    batch.run_all(threads)
    return batch.columns


cdef expect_several(texts, int threads):
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: found one {type(texts).__name__}, expected a sequence of them")
    if threads < 1:
        raise ValueError(f"threads: found {threads}, expected at least 1")
    return texts


cdef list strings_of(text, int kind, normalisation):
    """The tokens of text as str; of WHOLE one."""
    cdef TokenSteps steps
    cdef Document document
    cdef Status status
    cdef Given given
    cdef size_t i
    cdef size_t gap = kind != CHARACTERS
    cdef const char* data
    steps.kind = kind
    steps.flags = chosen(_NORMALISATIONS, "normalisation", normalisation)
    read_given(text, &given)
    document_begin(&document)
    try:
        with nogil:
            status = document_tokens(&document, &steps, &given)
        if status != OK:
            raise MemoryError(f"text: no memory for the tokens of {bytes_of(&given)} bytes")
        data = <const char*>document.tokens.bytes
        return [
            data[document.tokens.starts[i] : document.tokens.starts[i + 1] - (
                gap and not (kind == MIXED and is_dense_token(&document.tokens, i)))].decode()
            for i in range(document.tokens.count)
        ]
    finally:
        document_free(&document)


def normalised(text, normalisation="nfkc-casefold"):
    """text, normalised by Unicode 14, as str. Raises as measure does."""
    return "".join(strings_of(text, WHOLE, normalisation))


def tokens_of(text, *, normalisation="nfkc-casefold", tokens="words"):
    """The tokens of text, each a str: what measure makes shingles of. Raises as measure does."""
    return strings_of(text, chosen(_TOKENS, "tokens", tokens), normalisation)


def hash_of(const uint8_t[::1] data not None, hash="xxh3", seed=0):
    """The hash of data that a recipe calls so, as an int 0..2**64 - 1.

    Raises ValueError for another name, and for a seed that the hash does not take.
    """
    cdef Steps steps
    choose_hash(&steps, hash, seed)
    return hash_slice(&steps, &data[0] if len(data) else NULL, len(data))


cdef check_known_answer():
    """The text kernels need the tables of this module, so their answer is asked for here, not in _native."""
    texts = ["Caf\u00e9 no. 5: 1,000 \u4e2d\u6587 words " * 9, "\ufb01ne \uac00\u11a8"]
    found = []
    for kind in _TOKENS:
        found += measure(texts, tokens=kind, dense_shingle=5 * (kind == "mixed"), weights="capped")[0].tolist()
    found += measure(texts)[0].tolist() + measure(texts, weights="presence", sketch="minhash-1bit")[0].tolist()
    found += measure(texts, weights="capped", bits=256)[0].ravel().tolist()
    found += measure(texts, weights="presence", sketch="minhash-1bit", bits=256)[0].ravel().tolist()
    found = [hex(each) for each in found]
    if found != _KNOWN_ANSWER or os.environ.get("FPSTORE_WRONG_ANSWER") == "text":
        refuse("text")


check_known_answer()
