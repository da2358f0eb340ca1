"""Owns the compiled way from UTF-8 to fingerprints: normalising, tokens, shingles, hashes, and the sign of the sums.

One crossing of the Python border for a batch, no Python object for a token, and the lock is released. Memory is bounded
by the longest shingle, and for weights other than frequency by the distinct shingles of one document. What each step
means is said once, in `recipe.py`; what Unicode says is pinned, in `unicode.py`.
"""

import secrets
from threading import Thread

import numpy

from libc.math cimport llrint
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free

from fpstore.text.unicode import pinned

cdef extern from "Python.h":
    bint PyBytes_Check(object data)
    char* PyBytes_AS_STRING(object data)
    Py_ssize_t PyBytes_GET_SIZE(object data)
    bint PyUnicode_Check(object text)
    bint PyUnicode_IS_ASCII(object text)
    unsigned PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef extern from "text_simhash.h" nogil:
    ctypedef enum Status:
        OK
    enum:
        IS_WORD, IS_SPACE, JOINS, NFKC_CHANGES, FOLD_CHANGES
        MOST_SHINGLE, WEIGHT_ONE
        WORDS, CHARACTERS, SEPARATED, WHOLE
        FREQUENCY, PRESENCE, CAPPED, LOGARITHM, IDF
        XXH3, XXH64, MD5, SHA256
    ctypedef struct Mapping:
        pass
    ctypedef struct TokenSteps:
        int kind
        uint8_t flags
    ctypedef struct Tokens:
        uint8_t* bytes
        uint32_t* starts
        size_t used
        size_t count
    ctypedef struct Slot:
        uint64_t hash
        uint64_t value
    ctypedef struct SlotTable:
        Slot* slots
        size_t size
        size_t count
    ctypedef struct Steps:
        TokenSteps tokens
        unsigned shingle
        int hash
        int weights
        const SlotTable* idf
        uint64_t idf_unseen
    ctypedef struct Sums:
        int64_t ones[64]
        int64_t total
    ctypedef struct Given:
        const void* data
        size_t size
        unsigned width
    ctypedef struct Document:
        Tokens tokens
        SlotTable shingles
    Mapping decomposed
    Mapping folded
    uint64_t slot_secret
    int fpstore_is_fast()
    int fpstore_is_wide()
    void text_choose(int fast, int wide)
    void set_flag(const uint32_t* ranges, size_t count, uint8_t flag)
    void mapping_load(Mapping* mapping, const uint32_t* codes, size_t count, const uint32_t* starts,
                      const uint32_t* points)
    void combining_load(const uint32_t* ranges, const uint32_t* classes, size_t count)
    void composed_load(const uint32_t* firsts, const uint32_t* seconds, const uint32_t* composed, size_t count)
    void unicode_finish(const uint32_t* seconds, size_t count)
    void ascii_load()
    Slot* slot_of(const SlotTable* table, uint64_t hash)
    Status slots_clear(SlotTable* table, size_t size)
    uint64_t hash_slice(const Steps* steps, const uint8_t* at, size_t size)
    int64_t weight_of(const Steps* steps, uint64_t hash, uint64_t count)
    void add_weighted(Sums* sums, uint64_t hash, int64_t weight)
    uint64_t signs(const Sums* sums)
    void document_free(Document* document)
    Status document_count(Document* document, const Steps* steps, const Given* given)
    Status documents_measure(Document* document, const Steps* steps, const Given* texts, size_t count, size_t* at,
                             uint64_t* fingerprints, uint32_t* token_counts)
    Status document_tokens(Document* document, const TokenSteps* steps, const Given* given)
    uint64_t c_xxh3 "xxh3" (const uint8_t* data, size_t size)
    uint64_t c_xxh64 "xxh64" (const uint8_t* data, size_t size)

_NORMALISATIONS = {
    "nfkc-casefold": JOINS | NFKC_CHANGES | FOLD_CHANGES,
    "nfkc": JOINS | NFKC_CHANGES,
    "none": 0,
}
_TOKENS = {"words": WORDS, "characters": CHARACTERS, "separated": SEPARATED}
_WEIGHTS = {"frequency": FREQUENCY, "presence": PRESENCE, "capped": CAPPED, "log": LOGARITHM, "idf": IDF}
_HASHES = {"xxh3": XXH3, "xxh64": XXH64, "md5": MD5, "sha256": SHA256}

# A slice that one thread takes at once: enough to make taking it cheap.
_LEAST_SLICE_BYTES = 1 << 18
_SLICES_A_THREAD = 8

_MOST_IDF = 1024.0
# Sums stay below 2^63 as long as those of the weights' sizes stay below 2^46.
_MOST_WEIGHT = float(1 << 46)


cdef list _columns_in_use = []


cdef const uint32_t* address_of(column) except NULL:
    """Where a column is, which then stays there."""
    cdef const uint32_t[::1] view = column
    _columns_in_use.append(column)
    return &view[0]


cdef load_mapping(Mapping* mapping, columns, name):
    codes = columns[f"{name}_codes"]
    starts = numpy.zeros(len(codes) + 1, dtype=numpy.uint32)
    starts[1:] = numpy.cumsum(columns[f"{name}_counts"])
    mapping_load(mapping, address_of(codes), len(codes), address_of(starts), address_of(columns[f"{name}_points"]))


cdef load_unicode():
    cdef object columns = pinned()
    for name, flag in (("word_ranges", IS_WORD), ("space_ranges", IS_SPACE)):
        set_flag(address_of(columns[name]), len(columns[name]), flag)
    combining_load(address_of(columns["combining_ranges"]), address_of(columns["combining_classes"]),
                   len(columns["combining_classes"]))
    load_mapping(&decomposed, columns, "decomposed")
    load_mapping(&folded, columns, "folded")
    seconds = columns["composed_seconds"]
    composed_load(address_of(columns["composed_firsts"]), address_of(seconds), address_of(columns["composed_points"]),
                  len(seconds))
    unicode_finish(address_of(seconds), len(seconds))
    ascii_load()


text_choose(fpstore_is_fast(), fpstore_is_wide())
load_unicode()
slot_secret = secrets.randbits(64) | 1


cdef class Idf:
    """What shingles weigh that few documents have, by their hashes.

    hashes: uint64[m], distinct. weights: float64[m], 0..1024, kept to 2^-16. unseen: the weight of any other.
    Raises ValueError for hashes that are not distinct, lengths that differ, or weights outside that range.
    """
    cdef SlotTable table
    cdef uint64_t unseen

    def __init__(self, const uint64_t[::1] hashes not None, const double[::1] weights not None, double unseen):
        cdef size_t size = 2
        cdef Slot* slot
        cdef Py_ssize_t i
        if len(hashes) != len(weights):
            raise ValueError(f"idf: found {len(hashes)} hashes with {len(weights)} weights, expected as many")
        self.unseen = self.checked(unseen)
        while size < 2 * <size_t>len(hashes) + 1:
            size *= 2
        if slots_clear(&self.table, size) != OK:
            raise MemoryError(f"idf: no memory for {len(hashes)} shingles")
        for i in range(len(hashes)):
            slot = slot_of(&self.table, hashes[i])
            if slot.value != 0:
                raise ValueError(f"idf: found hash {hashes[i]:016x} twice, expected distinct ones")
            slot.hash = hashes[i]
            slot.value = self.checked(weights[i]) + 1

    cdef uint64_t checked(self, double weight) except? 0:
        if not 0 <= weight <= _MOST_IDF:
            raise ValueError(f"idf: found weight {weight}, expected 0..{_MOST_IDF:.0f}")
        return <uint64_t>llrint(weight * WEIGHT_ONE)

    def __dealloc__(self):
        free(self.table.slots)


cdef int chosen(choices, name, value) except -1:
    if value not in choices:
        raise ValueError(f"{name}: found {value!r}, expected {' or '.join(choices)}")
    return choices[value]


cdef Steps steps_of(normalisation, tokens, shingle, weights, idf, hash) except *:
    cdef Steps steps
    if not 1 <= shingle <= MOST_SHINGLE:
        raise ValueError(f"shingle: found {shingle}, expected 1..{MOST_SHINGLE}")
    if (idf is not None) != (weights == "idf"):
        raise ValueError(f"weights: found {weights!r} with idf {idf!r}, expected an Idf for 'idf' only")
    steps.tokens.kind = chosen(_TOKENS, "tokens", tokens)
    steps.tokens.flags = chosen(_NORMALISATIONS, "normalisation", normalisation)
    steps.shingle = shingle
    steps.weights = chosen(_WEIGHTS, "weights", weights)
    steps.hash = chosen(_HASHES, "hash", hash)
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


cdef size_t bytes_of(const Given* given) noexcept:
    return given.size * max(given.width, 1)


cdef class Batch:
    """Texts on their way to fingerprints; several threads may run() it at once."""
    cdef list texts
    cdef object idf  # what the steps point into
    cdef Steps steps
    cdef object room
    cdef Given* given
    cdef object waiting
    cdef readonly object fingerprints
    cdef readonly object counts
    cdef readonly object failure

    def __init__(self, texts):
        cdef Py_ssize_t i
        cdef uint8_t[::1] room
        self.texts = list(texts)
        self.fingerprints = numpy.empty(len(self.texts), dtype=numpy.uint64)
        self.counts = numpy.empty(len(self.texts), dtype=numpy.uint32)
        room = self.room = numpy.empty(len(self.texts) * sizeof(Given) + 1, dtype=numpy.uint8)
        self.given = <Given*>&room[0]
        for i in range(len(self.texts)):
            read_given(self.texts[i], &self.given[i])

    cdef cut(self, int threads):
        """Name the slices, of about as many bytes each; how many there are."""
        cdef Py_ssize_t i, first = 0
        cdef size_t most, size = 0
        cdef list slices = []
        for i in range(len(self.texts)):
            size += bytes_of(&self.given[i])
        most = max(<size_t>_LEAST_SLICE_BYTES, size // <size_t>(_SLICES_A_THREAD * threads))
        size = 0
        for i in range(len(self.texts)):
            size += bytes_of(&self.given[i])
            if size >= most or i == len(self.texts) - 1:
                slices.append((first, i + 1))
                first = i + 1
                size = 0
        self.waiting = iter(slices)
        return len(slices)

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
        cdef uint64_t[::1] fingerprints = self.fingerprints
        cdef uint32_t[::1] counts = self.counts
        cdef size_t at
        cdef Status status
        with nogil:
            status = documents_measure(document, &self.steps, self.given + first, last - first, &at,
                                       &fingerprints[first], &counts[first])
        if status != OK:
            raise MemoryError(f"text {first + at}: no memory for {bytes_of(&self.given[first + at])} bytes")


cdef void document_begin(Document* document) noexcept:
    cdef Py_ssize_t i
    for i in range(<Py_ssize_t>sizeof(Document)):
        (<uint8_t*>document)[i] = 0


def measure(texts, *, normalisation="nfkc-casefold", tokens="words", shingle=4, weights="frequency", idf=None,
            hash="xxh3", int threads=1):
    """The fingerprints of texts and how many tokens each has: (uint64[n], uint32[n]).

    texts: str, or bytes of UTF-8, where what is not UTF-8 becomes U+FFFD as bytes.decode("utf-8", "replace") does;
    so does a lone surrogate of a str. The rest is as in Recipe, but for tokens `separated`: the text is made of them,
    with U+001F between. idf: an Idf for weights `idf`. threads: 1 and more; they change nothing.
    Raises TypeError for other texts, ValueError for an unknown step, MemoryError also for a shingle of over 2 GiB.
    """
    cdef Batch batch
    cdef Steps steps = steps_of(normalisation, tokens, shingle, weights, idf, hash)
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: found one {type(texts).__name__}, expected a sequence of them")
    if threads < 1:
        raise ValueError(f"threads: found {threads}, expected at least 1")
    batch = Batch(texts)
    batch.steps = steps
    batch.idf = idf
    helpers = [Thread(target=batch.run) for _ in range(min(threads, batch.cut(threads)) - 1)]
    for helper in helpers:
        helper.start()
    batch.run()
    for helper in helpers:
        helper.join()
    if batch.failure is not None:
        raise batch.failure
    return batch.fingerprints, batch.counts


def features(text, *, normalisation="nfkc-casefold", tokens="words", shingle=4, weights="frequency", idf=None,
             hash="xxh3"):
    """The distinct hashes of the shingles of text, increasing, and what each weighs: (uint64[m], float64[m]).

    The arguments and what is raised are those of measure.
    """
    cdef Steps steps = steps_of(normalisation, tokens, shingle, weights, idf, hash)
    cdef Document document
    cdef Status status
    cdef Given given
    cdef uint64_t[::1] hashes
    cdef double[::1] weighed
    cdef size_t i
    cdef Slot slot
    cdef Py_ssize_t found = 0
    read_given(text, &given)
    document_begin(&document)
    try:
        with nogil:
            status = document_count(&document, &steps, &given)
        if status != OK:
            raise MemoryError(f"text: no memory for the shingles of {bytes_of(&given)} bytes")
        hashes = numpy.empty(document.shingles.count, dtype=numpy.uint64)
        weighed = numpy.empty(document.shingles.count, dtype=numpy.float64)
        for i in range(document.shingles.size):
            slot = document.shingles.slots[i]
            if slot.value != 0:
                hashes[found] = slot.hash
                weighed[found] = <double>weight_of(&steps, slot.hash, slot.value) / WEIGHT_ONE
                found += 1
    finally:
        document_free(&document)
    order = numpy.argsort(hashes)
    return numpy.asarray(hashes)[order], numpy.asarray(weighed)[order]


def simhash_of(const uint64_t[::1] hashes not None, const double[::1] weights not None):
    """The fingerprint of features: a bit is set if what has it weighs more than what has not.

    hashes: uint64[m]. weights: float64[m], kept to 2^-16, of which the sizes together are below 2^46.
    Raises ValueError for lengths that differ, and for weights that are larger or not finite.
    """
    cdef Sums sums
    cdef double size = 0
    cdef Py_ssize_t i
    if len(hashes) != len(weights):
        raise ValueError(f"found {len(hashes)} hashes with {len(weights)} weights, expected as many")
    for i in range(len(weights)):
        size += abs(weights[i])
    if not size < _MOST_WEIGHT:
        raise ValueError(f"weights: found {size} in all, expected less than 2^46")
    sums.total = 0
    for i in range(64):
        sums.ones[i] = 0
    for i in range(len(hashes)):
        add_weighted(&sums, hashes[i], llrint(weights[i] * WEIGHT_ONE))
    return signs(&sums)


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
            data[document.tokens.starts[i] : document.tokens.starts[i + 1] - gap].decode()
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


def xxh3(const uint8_t[::1] data not None):
    """XXH3 64 with seed 0 of data, as an int 0..2**64 - 1."""
    return c_xxh3(&data[0] if len(data) else NULL, len(data))


def xxh64(const uint8_t[::1] data not None):
    """XXH64 with seed 0 of data, as an int 0..2**64 - 1."""
    return c_xxh64(&data[0] if len(data) else NULL, len(data))


def hash_of(const uint8_t[::1] data not None, hash="xxh3"):
    """The hash of data that a recipe calls so, as an int 0..2**64 - 1. Raises ValueError for another name."""
    cdef Steps steps
    steps.hash = chosen(_HASHES, "hash", hash)
    return hash_slice(&steps, &data[0] if len(data) else NULL, len(data))
