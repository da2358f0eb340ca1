"""The bits of a table on their way to the disk: checksums, permutations, the encoder, packed fields.

Works on memory, but for one hint to the system; where a table lies in a file is format.py's to know.
The kernels are C (fpstore/native), this module their Python border: it checks arguments, releases the
lock, and turns a status into an exception.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from fpstore._native cimport (
    MAX_BLOCK_BITS,
    MAX_BLOCK_BYTES,
    MAX_BLOCK_KEYS,
    MIN_BLOCK_BYTES,
    CODEC_GAP,
    CODEC_RAW,
    CODEC_RICE,
    CODEC_XOR,
    MAX_CODE_BITS,
    CRC_BYTES,
    FENCE_BYTES,
    FOOTER_BYTES,
    GROUP_SLOTS,
    IDS_MANY,
    IDS_NONE,
    IDS_ONE,
    LINE_BYTES,
    MAX_CODE_BYTES_PER_KEY,
    MAX_KEY_BITS,
    MAX_RICE_BITS,
    MAX_SLOT_BITS,
    MIN_KEY_BITS,
    NOT_SORTED,
    NO_MEMORY,
    OFFSET_BITS,
    OK,
    PAGE_BYTES,
    PAYLOAD_SLACK,
    RICE_ESCAPE,
    SAMPLE_BITS,
    SAMPLE_BYTES,
    SET_PORTABLE,
    SYMBOLS,
    TOO_WIDE,
    BitWriter,
    Encoder,
    HistogramState,
    Permutation,
    Status,
    c_crc32c,
    crc32c_pages,
    encoder_finish,
    encoder_free,
    encoder_init,
    encoder_push,
    fpstore_instruction_set,
    histogram_add,
    permutation_init,
    permute_keys,
    put_bits,
    rice_cost,
    unpermute_keys,
)

FAST = fpstore_instruction_set() != SET_PORTABLE
# The kernels' copies of format.py's numbers, all that native/layout.h has; a test compares them.
LAYOUT = {
    "CODEC_GAP": CODEC_GAP, "CODEC_XOR": CODEC_XOR, "CODEC_RICE": CODEC_RICE, "CODEC_RAW": CODEC_RAW,
    "IDS_NONE": IDS_NONE, "IDS_ONE": IDS_ONE, "IDS_MANY": IDS_MANY, "SYMBOLS": SYMBOLS, "MAX_CODE_BITS":
    MAX_CODE_BITS, "RICE_ESCAPE": RICE_ESCAPE, "GROUP_SLOTS": GROUP_SLOTS, "LINE_BYTES": LINE_BYTES,
    "FENCE_BYTES": FENCE_BYTES, "OFFSET_BITS": OFFSET_BITS, "MAX_BLOCK_KEYS": MAX_BLOCK_KEYS, "MAX_BLOCK_BITS":
    MAX_BLOCK_BITS, "MIN_BLOCK_BYTES": MIN_BLOCK_BYTES, "MAX_BLOCK_BYTES": MAX_BLOCK_BYTES, "PAGE_BYTES": PAGE_BYTES, "CRC_BYTES": CRC_BYTES, "FOOTER_BYTES": FOOTER_BYTES,
    "MIN_KEY_BITS": MIN_KEY_BITS, "MAX_KEY_BITS": MAX_KEY_BITS, "MAX_SLOT_BITS": MAX_SLOT_BITS, "MAX_RICE_BITS": MAX_RICE_BITS, "SAMPLE_BITS": SAMPLE_BITS,
    "SAMPLE_BYTES": SAMPLE_BYTES, "MAX_CODE_BYTES_PER_KEY": MAX_CODE_BYTES_PER_KEY,
}
CODECS = ("gap", "xor", "rice", "raw")


cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    static void fps_begin_to_sync(int fd, int64_t start, int64_t size) {
    #if defined(__linux__)
        (void)sync_file_range(fd, start, size, SYNC_FILE_RANGE_WRITE);
    #else
        (void)fd, (void)start, (void)size;
    #endif
    }
    """
    void fps_begin_to_sync(int fd, int64_t start, int64_t size)

cdef int expect_offsets(const uint8_t[::1] data, const int64_t[::1] offsets) except -1:
    """ValueError for offsets that do not increase, or lead out of data."""
    cdef Py_ssize_t i
    for i in range(offsets.shape[0]):
        if offsets[i] < 0 or offsets[i] > data.shape[0] or (i > 0 and offsets[i] < offsets[i - 1]):
            raise ValueError(f"offset {i}: found {offsets[i]}, expected those of values in {data.shape[0]} bytes")
    return 0


def crc32c_many(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, uint32_t value, *,
                bint running):
    """The CRC-32C of values, behind bytes of which it is value: uint32[n].

    Value i is data[offsets[i] : offsets[i + 1]]. running: each behind all values before it. Raises ValueError for
    offsets, int64[n + 1], that do not increase, or lead out of data.
    """
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    cdef uint32_t crc = value
    cdef uint32_t[::1] out
    expect_offsets(data, offsets)
    found = np.full(max(count, 0), value, dtype=np.uint32)
    if count > 0 and data.shape[0] > 0:
        out = found
        with nogil:
            for i in range(count):
                crc = c_crc32c(crc if running else value, &data[0] + offsets[i], <size_t>(offsets[i + 1] - offsets[i]))
                out[i] = crc
    return found


def begin_to_sync(int fd, uint64_t start, uint64_t size):
    """Have the system begin to write these bytes of a file to the disk, and do not wait for it.

    Nothing is promised by that: whoever has to know syncs the file, and is told of what failed.
    """
    with nogil:
        fps_begin_to_sync(fd, <int64_t>start, <int64_t>size)


def crc32c(data, uint32_t value=0):
    """CRC-32C of a bytes-like object, continuing from value (the CRC of what came before)."""
    cdef Py_buffer buffer
    cdef uint32_t result
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        with nogil:
            result = c_crc32c(value, <const uint8_t *>buffer.buf, <size_t>buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return result


def page_checksums(data):
    """CRC-32C of each page of a bytes-like object: uint32[ceil(bytes / PAGE_BYTES)]; the last may be short."""
    cdef Py_buffer buffer
    cdef uint32_t[::1] out
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        result = np.empty((buffer.len + PAGE_BYTES - 1) // PAGE_BYTES, dtype=np.uint32)
        if buffer.len > 0:
            out = result
            with nogil:
                crc32c_pages(<const uint8_t *>buffer.buf, <size_t>buffer.len, PAGE_BYTES, &out[0])
    finally:
        PyBuffer_Release(&buffer)
    return result


cdef class BitPermutation:
    """The permutation that brings the bits of prefix_mask to the top, for arrays of keys of so many bits.

    ValueError for a mask of more bits. What lies above the bits of a key is left out.
    """

    cdef Permutation *permutation

    def __cinit__(self, uint64_t prefix_mask, unsigned bits=MAX_KEY_BITS):
        check_bits(bits, 0)
        if bits < 64 and prefix_mask >> bits:
            raise ValueError(f"prefix mask: found {prefix_mask:#x}, expected {bits} bits")
        self.permutation = <Permutation *>malloc(cython.sizeof(Permutation))
        if self.permutation == NULL:
            raise MemoryError()
        permutation_init(self.permutation, prefix_mask, bits)

    def __dealloc__(self):
        free(self.permutation)

    def apply(self, const uint64_t[::1] fingerprints not None, uint64_t[::1] keys not None):
        """Fill keys (uint64[n]) from fingerprints (uint64[n]); both may be one array."""
        if fingerprints.shape[0] != keys.shape[0]:
            raise ValueError(f"{fingerprints.shape[0]} fingerprints, room for {keys.shape[0]} keys")
        if keys.shape[0] > 0:
            with nogil:
                permute_keys(self.permutation, &fingerprints[0], <uint64_t>keys.shape[0], &keys[0])

    def invert(self, const uint64_t[::1] keys not None, uint64_t[::1] fingerprints not None):
        """Fill fingerprints (uint64[n]) from keys (uint64[n]); both may be one array."""
        if fingerprints.shape[0] != keys.shape[0]:
            raise ValueError(f"{keys.shape[0]} keys, room for {fingerprints.shape[0]} fingerprints")
        if keys.shape[0] > 0:
            with nogil:
                unpermute_keys(self.permutation, &keys[0], <uint64_t>keys.shape[0], &fingerprints[0])


cdef int check_bits(unsigned bits, unsigned slot_bits) except -1:
    if not MIN_KEY_BITS <= bits <= MAX_KEY_BITS:
        raise ValueError(f"bits: found {bits}, expected {MIN_KEY_BITS}..{MAX_KEY_BITS}")
    if slot_bits > bits:
        raise ValueError(f"slot_bits: found {slot_bits}, expected at most {bits}, the bits of a key")
    return 0


cdef int raise_status(Status status, str where) except -1:
    if status == OK:
        return 0
    if status == TOO_WIDE:
        raise ValueError(f"{where}: a key has more bits than the table's")
    if status == NO_MEMORY:
        raise MemoryError()
    if status == NOT_SORTED:
        raise ValueError(f"{where}: keys must be strictly increasing")
    raise ValueError(f"{where}: the payload is over the format's 2^48 bits")


cdef class Histogram:
    """How often each bit length of a delta occurs in a table, fed with its sorted keys chunk by chunk.

    slot_bits as the table will have it; 0 counts the deltas of one unbroken chain. bits: of a key. codec: an index in CODECS, to count
    only what its code is chosen from: for gap and xor their own bit lengths, for others the sum; without, everything.
    """

    cdef HistogramState state
    cdef int codec

    def __cinit__(self, unsigned slot_bits, int codec=-1, *, unsigned bits=MAX_KEY_BITS):
        check_bits(bits, slot_bits)
        memset(&self.state, 0, cython.sizeof(HistogramState))
        self.state.slot_shift = bits - slot_bits
        self.codec = codec

    def add(self, const uint64_t[::1] keys not None):
        """Count keys (uint64[n], strictly increasing, above those added before). ValueError if they are not."""
        cdef Status status
        if keys.shape[0] > 0:
            with nogil:
                status = histogram_add(&self.state, &keys[0], <uint64_t>keys.shape[0], self.codec)
            raise_status(status, "histogram")

    @property
    def count(self):
        """Keys counted."""
        return self.state.count

    @property
    def gap(self):
        """Occurrences of each bit length 0..64 of key - previous."""
        return [self.state.gap[symbol] for symbol in range(SYMBOLS)]

    @property
    def xor(self):
        """Occurrences of each bit length 0..64 of key XOR previous."""
        return [self.state.xor_[symbol] for symbol in range(SYMBOLS)]

    @property
    def gap_sum(self):
        """Sum of key - previous over all keys; below 2^64, for the gaps lie side by side."""
        return self.state.gap_sum


cdef class RiceCost:
    """Bits that the rice codec would take for a table, fed with its sorted keys chunk by chunk."""

    cdef uint64_t last_key, bits_
    cdef int started
    cdef unsigned slot_shift, rice_bits

    def __cinit__(self, unsigned slot_bits, unsigned rice_bits, *, unsigned bits=MAX_KEY_BITS):
        check_bits(bits, slot_bits)
        self.slot_shift = bits - slot_bits
        self.rice_bits = rice_bits

    def add(self, const uint64_t[::1] keys not None):
        """Count keys (uint64[n], strictly increasing)."""
        if keys.shape[0] > 0:
            with nogil:
                rice_cost(&keys[0], <uint64_t>keys.shape[0], &self.last_key, &self.started, self.slot_shift,
                          self.rice_bits, &self.bits_)

    @property
    def bits(self):
        """The total so far."""
        return self.bits_


cdef class TableEncoder:
    """Turns the sorted keys of a table into its payload, directory and fences.

    codec: index in CODECS. code_lengths: 65 lengths, code_words: their canonical code words. bits: of a key.
    block_bytes: 0, or what a block has at most: then there is no directory, and ranks are those of blocks.
    """

    cdef Encoder *encoder
    cdef readonly object directory
    cdef object slot_ranks
    cdef bint with_ranks, finished

    def __cinit__(self, int codec, unsigned slot_bits, unsigned rice_bits, const uint8_t[::1] code_lengths not None,
                  const uint16_t[::1] code_words not None, *, bint with_ranks, unsigned bits=MAX_KEY_BITS,
                  unsigned block_bytes=0):
        cdef uint8_t[::1] directory
        cdef uint64_t[::1] ranks
        if not 0 <= codec < len(CODECS) or slot_bits > MAX_SLOT_BITS or rice_bits > MAX_RICE_BITS:
            limits = f"0..3, 0..{MAX_SLOT_BITS}, 0..{MAX_RICE_BITS}"
            raise ValueError(f"codec {codec}, slot_bits {slot_bits}, rice_bits {rice_bits}: expected {limits}")
        check_bits(bits, slot_bits)
        if code_lengths.shape[0] != SYMBOLS or code_words.shape[0] != SYMBOLS:
            raise ValueError(f"{code_lengths.shape[0]} code lengths, {code_words.shape[0]} words: expected {SYMBOLS} of each")
        if block_bytes and not MIN_BLOCK_BYTES <= block_bytes <= MAX_BLOCK_BYTES:
            raise ValueError(f"block_bytes: found {block_bytes}, expected 0 or {MIN_BLOCK_BYTES}..{MAX_BLOCK_BYTES}")
        slots = <uint64_t>0 if block_bytes else <uint64_t>1 << slot_bits
        self.with_ranks = with_ranks
        self.directory = np.zeros(-(-slots // GROUP_SLOTS) * LINE_BYTES, dtype=np.uint8)
        self.slot_ranks = np.zeros(slots + 1, dtype=np.uint64) if with_ranks else None
        directory = self.directory
        if with_ranks:
            ranks = self.slot_ranks
        self.encoder = <Encoder *>malloc(cython.sizeof(Encoder))
        if self.encoder == NULL:
            raise MemoryError()
        encoder_init(self.encoder, codec, bits, slot_bits, rice_bits, block_bytes, &code_lengths[0], &code_words[0],
                     NULL if block_bytes else &directory[0], &ranks[0] if with_ranks and not block_bytes else NULL)

    def __dealloc__(self):
        if self.encoder != NULL:
            encoder_free(self.encoder)
            free(self.encoder)

    def push(self, const uint64_t[::1] keys not None):
        """Encode keys (uint64[n], strictly increasing, above those before); return the payload bytes that are ready.

        ValueError for keys out of order or of too many bits; the encoder is of no further use then.
        """
        cdef uint64_t written = 0, count = <uint64_t>keys.shape[0]
        cdef uint8_t[::1] out
        cdef Status status
        if self.finished:
            raise ValueError("the table is finished: no more keys")
        result = np.empty(count * MAX_CODE_BYTES_PER_KEY + PAYLOAD_SLACK, dtype=np.uint8)
        out = result
        if count > 0:
            with nogil:
                status = encoder_push(self.encoder, &keys[0], count, &out[0], &written)
            raise_status(status, "table")
        return result[:written]

    def finish(self):
        """Close the table; return the last payload bytes. directory, fences and ranks are complete from then on."""
        cdef uint64_t written = 0
        cdef uint8_t[::1] out
        cdef Status status
        if self.finished:
            raise ValueError("the table is finished already")
        result = np.empty(PAYLOAD_SLACK, dtype=np.uint8)
        out = result
        with nogil:
            status = encoder_finish(self.encoder, &out[0], &written)
        raise_status(status, "table")
        self.finished = True
        return result[:written]

    @property
    def key_count(self):
        """Keys pushed."""
        return self.encoder.key_count

    @property
    def payload_bits(self):
        """Bits of the payload so far, without what is still held back."""
        return self.encoder.payload_bits

    @property
    def fence_count(self):
        """Blocks of large slots so far."""
        return self.encoder.fence_count

    @property
    def ranks(self):
        """With ranks, the keys before each slot, or before each block, and their number at the end: uint64[]; else None."""
        if not self.with_ranks or not self.encoder.block_bytes:
            return self.slot_ranks
        ranks = np.zeros(self.encoder.fence_count + 1, dtype=np.uint64)
        if self.encoder.fence_count:
            ranks[1:] = np.asarray(<uint64_t[:self.encoder.fence_count]>self.encoder.keys_through)
        return ranks

    @property
    def fences(self):
        """The fence records, a copy: uint8[FENCE_BYTES * fence_count]."""
        if self.encoder.fence_count == 0:
            return np.empty(0, dtype=np.uint8)
        return np.asarray(<uint8_t[:self.encoder.fence_count * FENCE_BYTES]>self.encoder.fences).copy()


cdef class PackedWriter:
    """A stream of fixed-width unsigned fields, width 0..64 bits, lowest bit first."""

    cdef BitWriter writer
    cdef unsigned width

    def __cinit__(self, unsigned width):
        if width > 64:
            raise ValueError(f"width: found {width}, expected 0..64")
        memset(&self.writer, 0, cython.sizeof(BitWriter))
        self.width = width

    def push(self, const uint64_t[::1] values not None):
        """Append values (uint64[n], each below 2^width: ValueError otherwise); return the bytes that are ready."""
        cdef Py_ssize_t i, count = values.shape[0]
        cdef uint64_t largest = 0
        cdef uint8_t[::1] out
        result = np.empty(count * 8 + 8, dtype=np.uint8)
        out = result
        with nogil:
            for i in range(count):
                largest |= values[i]
            if self.width == 64 or largest >> self.width == 0:
                self.writer.at = &out[0]
                if self.width > 0:
                    for i in range(count):
                        put_bits(&self.writer, values[i], self.width)
            else:
                count = -1
        if count < 0:
            raise ValueError(f"a value does not fit {self.width} bits")
        return result[:self.writer.at - &out[0]] if self.width > 0 else result[:0]

    def finish(self):
        """The last bytes: what is left over, filled up with zero bits."""
        last = int(self.writer.pending).to_bytes(8, "little")[:(self.writer.fill + 7) // 8]
        self.writer.pending = 0
        self.writer.fill = 0
        return np.frombuffer(last, dtype=np.uint8)
