"""Owns the step from normalised text to fingerprint: words, shingles, XXH64, and the sign of the sums.

Nothing here allocates a Python object for a word, and memory is bounded by the longest shingle, not by
the document. What a word is and how ties fall is said once, in `recipe.py`.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memmove, memset


cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    int PyUnicode_1BYTE_KIND
    int PyUnicode_2BYTE_KIND
    # A table look-up; it touches no object, so it needs no interpreter lock.
    bint Py_UNICODE_ISALNUM(uint32_t character) noexcept nogil


# The three widths in which Python stores the characters of a str.
ctypedef fused Character:
    uint8_t
    uint16_t
    uint32_t


cdef enum Status:
    OK
    NO_MEMORY


# The five primes of XXH64, from its published specification.
cdef uint64_t PRIME_1 = 0x9E3779B185EBCA87
cdef uint64_t PRIME_2 = 0xC2B2AE3D27D4EB4F
cdef uint64_t PRIME_3 = 0x165667B19E3779F9
cdef uint64_t PRIME_4 = 0x85EBCA77C2B2AE63
cdef uint64_t PRIME_5 = 0x27D4EB2F165667C5

cdef uint64_t LOW_BIT_OF_EACH_BYTE = 0x0101010101010101
cdef enum:
    MAX_SHINGLE_WORDS = 64  # recipe.py refuses more
    FIRST_BUFFER_BYTES = 16384  # stays in the first-level cache
    MAX_CHARACTER_BYTES = 4  # of one character in UTF-8


cdef inline uint64_t rotate_left(uint64_t value, int count) noexcept nogil:
    # count is 1..63 at every call.
    return (value << count) | (value >> (64 - count))


cdef inline uint64_t read_u64(const uint8_t* data) noexcept nogil:
    # Byte by byte, so that every machine reads little-endian; compilers make one load of it.
    return (
        <uint64_t>data[0] | <uint64_t>data[1] << 8 | <uint64_t>data[2] << 16 | <uint64_t>data[3] << 24
        | <uint64_t>data[4] << 32 | <uint64_t>data[5] << 40 | <uint64_t>data[6] << 48 | <uint64_t>data[7] << 56
    )


cdef inline uint64_t read_u32(const uint8_t* data) noexcept nogil:
    return (
        <uint64_t>data[0] | <uint64_t>data[1] << 8 | <uint64_t>data[2] << 16 | <uint64_t>data[3] << 24
    )


cdef inline uint64_t mix_lane(uint64_t lane, uint64_t value) noexcept nogil:
    return rotate_left(lane + value * PRIME_2, 31) * PRIME_1


cdef inline uint64_t merge_lane(uint64_t total, uint64_t lane) noexcept nogil:
    return (total ^ mix_lane(0, lane)) * PRIME_1 + PRIME_4


cdef uint64_t hash_bytes(const uint8_t* data, size_t size) noexcept nogil:
    """XXH64 with seed 0 of size bytes at data."""
    cdef size_t remaining = size
    cdef uint64_t total, lane_1, lane_2, lane_3, lane_4
    if size >= 32:
        lane_1 = PRIME_1 + PRIME_2
        lane_2 = PRIME_2
        lane_3 = 0
        lane_4 = 0 - PRIME_1
        while remaining >= 32:
            lane_1 = mix_lane(lane_1, read_u64(data))
            lane_2 = mix_lane(lane_2, read_u64(data + 8))
            lane_3 = mix_lane(lane_3, read_u64(data + 16))
            lane_4 = mix_lane(lane_4, read_u64(data + 24))
            data += 32
            remaining -= 32
        total = (
            rotate_left(lane_1, 1) + rotate_left(lane_2, 7) + rotate_left(lane_3, 12) + rotate_left(lane_4, 18)
        )
        total = merge_lane(total, lane_1)
        total = merge_lane(total, lane_2)
        total = merge_lane(total, lane_3)
        total = merge_lane(total, lane_4)
    else:
        total = PRIME_5
    total += size
    while remaining >= 8:
        total = rotate_left(total ^ mix_lane(0, read_u64(data)), 27) * PRIME_1 + PRIME_4
        data += 8
        remaining -= 8
    if remaining >= 4:
        total = rotate_left(total ^ (read_u32(data) * PRIME_1), 23) * PRIME_2 + PRIME_3
        data += 4
        remaining -= 4
    while remaining > 0:
        total = rotate_left(total ^ (data[0] * PRIME_5), 11) * PRIME_1
        data += 1
        remaining -= 1
    total = (total ^ (total >> 33)) * PRIME_2
    total = (total ^ (total >> 29)) * PRIME_3
    return total ^ (total >> 32)


cdef struct Sums:
    # How many hashes were added, and in how many of them each bit was set.
    # Byte b of lanes[j] counts bit 8 * b + j of the last `pending` (at most 255) hashes.
    uint64_t lanes[8]
    uint64_t ones[64]
    uint64_t count
    int pending


cdef void flush_lanes(Sums* sums) noexcept nogil:
    cdef int bit
    for bit in range(64):
        sums.ones[bit] += (sums.lanes[bit & 7] >> (bit & 56)) & 255
    memset(sums.lanes, 0, sizeof(sums.lanes))
    sums.pending = 0


cdef inline void add_hash(Sums* sums, uint64_t value) noexcept nogil:
    cdef int lane
    for lane in range(8):
        sums.lanes[lane] += (value >> lane) & LOW_BIT_OF_EACH_BYTE
    sums.count += 1
    sums.pending += 1
    if sums.pending == 255:
        flush_lanes(sums)


cdef uint64_t signs(Sums* sums) noexcept nogil:
    """A bit is set where more hashes had it than had not; a tie leaves it clear."""
    cdef uint64_t fingerprint = 0
    cdef int bit
    flush_lanes(sums)
    for bit in range(64):
        if sums.ones[bit] > sums.count - sums.ones[bit]:
            fingerprint |= (<uint64_t>1) << bit
    return fingerprint


# Of each ASCII character: itself in lower case if it belongs to words, else 0.
cdef uint8_t FOLDED[128]


cdef void fill_folded() noexcept:
    cdef int character
    for character in range(128):
        if c"A" <= character <= c"Z":
            FOLDED[character] = character + 32
        elif c"a" <= character <= c"z" or c"0" <= character <= c"9" or character == c"_":
            FOLDED[character] = character
        else:
            FOLDED[character] = 0


fill_folded()


cdef inline size_t write_character(uint32_t character, uint8_t* out) noexcept nogil:
    """Append the UTF-8 of a word character, in lower case if ASCII; 0 if it is no word character."""
    if character < 0x80:
        out[0] = FOLDED[character]
        return out[0] != 0
    if not Py_UNICODE_ISALNUM(character):
        return 0
    if character < 0x800:
        out[0] = 0xC0 | (character >> 6)
        out[1] = 0x80 | (character & 0x3F)
        return 2
    if character < 0x10000:
        out[0] = 0xE0 | (character >> 12)
        out[1] = 0x80 | ((character >> 6) & 0x3F)
        out[2] = 0x80 | (character & 0x3F)
        return 3
    out[0] = 0xF0 | (character >> 18)
    out[1] = 0x80 | ((character >> 12) & 0x3F)
    out[2] = 0x80 | ((character >> 6) & 0x3F)
    out[3] = 0x80 | (character & 0x3F)
    return 4


cdef struct Window:
    # The last words, each followed by one space, back to back in a buffer that slides along the document.
    # Word w of the document starts at starts[w % shingle_words]; `used` bytes are filled.
    uint8_t* buffer
    size_t capacity
    size_t used
    size_t starts[MAX_SHINGLE_WORDS]
    uint64_t word_count
    int shingle_words


cdef Status make_room(Window* window) noexcept nogil:
    """Drop words that no later shingle needs; where that leaves it half full, double the buffer."""
    cdef uint64_t word_count = window.word_count
    cdef uint64_t kept = min(word_count, <uint64_t>(window.shingle_words - 1))
    cdef uint64_t word
    # The word being read begins after the last finished one; its start stands in its own place.
    cdef size_t first = window.starts[(word_count - kept) % window.shingle_words]
    cdef uint8_t* larger
    cdef size_t capacity
    if first > 0:
        memmove(window.buffer, window.buffer + first, window.used - first)
        window.used -= first
        for word in range(word_count - kept, word_count + 1):
            window.starts[word % window.shingle_words] -= first
    if window.used >= window.capacity // 2:
        capacity = max(window.capacity * 2, <size_t>FIRST_BUFFER_BYTES)
        larger = <uint8_t*>PyMem_RawRealloc(window.buffer, capacity)
        if larger == NULL:
            return NO_MEMORY
        window.buffer = larger
        window.capacity = capacity
    return OK


cdef inline void finish_word(Window* window, Sums* sums) noexcept nogil:
    """End the word being read; hash the shingle that it completes, if it completes one."""
    cdef uint64_t first
    cdef size_t start
    window.word_count += 1
    if window.word_count >= <uint64_t>window.shingle_words:
        first = window.word_count - window.shingle_words
        start = window.starts[first % window.shingle_words]
        add_hash(sums, hash_bytes(window.buffer + start, window.used - start))
    window.buffer[window.used] = c" "
    window.used += 1
    window.starts[window.word_count % window.shingle_words] = window.used


cdef Status add_shingles(const Character* text, Py_ssize_t length, Window* window, Sums* sums) noexcept nogil:
    cdef bint in_word = False
    cdef Py_ssize_t index
    cdef size_t written
    for index in range(length):
        # One character and the space after the word are the most that one step writes.
        if window.capacity - window.used <= MAX_CHARACTER_BYTES and make_room(window) != OK:
            return NO_MEMORY
        written = write_character(text[index], window.buffer + window.used)
        window.used += written
        if written:
            in_word = True
        elif in_word:
            finish_word(window, sums)
            in_word = False
    if in_word:
        finish_word(window, sums)
    if 0 < window.word_count < <uint64_t>window.shingle_words:
        # Too few words for a shingle: all of them are one, without the space after the last.
        add_hash(sums, hash_bytes(window.buffer, window.used - 1))
    return OK


def fingerprint_words(text not None, int shingle_words):
    """The simhash (0..2**64 - 1) of the shingles of shingle_words words in text; 0 for a text without words.

    text: normalised, except that ASCII letters are put in lower case here. shingle_words: 1..64.
    Raises TypeError for what is not a str, ValueError for a shingle_words outside that range.
    """
    cdef Window window
    cdef Sums sums
    cdef Status status
    cdef int kind
    cdef const void* data
    cdef Py_ssize_t length
    if not isinstance(text, str):
        raise TypeError(f"text: found {type(text).__name__}, expected str")
    if not 1 <= shingle_words <= MAX_SHINGLE_WORDS:
        raise ValueError(f"shingle_words: found {shingle_words}, expected 1..{MAX_SHINGLE_WORDS}")
    memset(&sums, 0, sizeof(sums))
    window.buffer = NULL
    window.capacity = 0
    window.used = 0
    window.word_count = 0
    window.starts[0] = 0
    window.shingle_words = shingle_words
    kind = PyUnicode_KIND(text)
    data = PyUnicode_DATA(text)
    length = PyUnicode_GET_LENGTH(text)
    if kind == PyUnicode_1BYTE_KIND:
        status = add_shingles(<const uint8_t*>data, length, &window, &sums)
    elif kind == PyUnicode_2BYTE_KIND:
        status = add_shingles(<const uint16_t*>data, length, &window, &sums)
    else:
        status = add_shingles(<const uint32_t*>data, length, &window, &sums)
    PyMem_RawFree(window.buffer)
    if status == NO_MEMORY:
        raise MemoryError(f"text: no memory for shingles of {shingle_words} words")
    return signs(&sums)


def xxh64(const uint8_t[::1] data not None):
    """XXH64 with seed 0 of data, as an int 0..2**64 - 1."""
    if data.shape[0] == 0:
        return hash_bytes(NULL, 0)
    return hash_bytes(&data[0], data.shape[0])
