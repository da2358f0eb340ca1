"""Sorting of keys, and of fingerprints with their ids, and what is done with sorted ones at memory speed.

Every function works on contiguous uint64 arrays, releases the lock, and gives the same result for every order of the
input. Keys are sorted by native/sort.c, in place.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memmove, memset

from cpython.buffer cimport PyBUF_FORMAT
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc

import numpy

from fpstore._native cimport MAX_KEY_BITS, MIN_KEY_BITS, PART_KEYS, SORT_ROOM_KEYS, SPLIT_GROUPS, Permutation, SortedOut, \
    SortRoom, c_sort_permuted, c_split_keys, keys_fit, large_pages, large_populate, permutation_init, sort_count, \
    sort_deal, sort_groups, sort_range

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    # Smaller blocks lie among others, which are none of ours to have large pages for.
    LARGE_BYTES = 4 << 20
    # Below this many pairs insertion sort wins over another round of counting.
    INSERTION_PAIRS = 24
    # 8 bits a round keeps the 2 x 256 write streams inside the first-level cache and TLB.
    MAX_DIGIT_BITS = 8
    # Below this many keys of scratch a range of any size falls into too many parts.
    MIN_ROOM_KEYS = 1024


cdef extern from *:
    """
    static inline int fps_bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }
    """
    int fps_bit_length(uint64_t x) noexcept nogil


cdef struct Pairs:
    uint64_t* fingerprints
    uint64_t* ids


cdef Pairs advance(Pairs pairs, size_t count) noexcept nogil:
    pairs.fingerprints += count
    pairs.ids += count
    return pairs


cdef void copy_pairs(Pairs target, Pairs source, size_t count) noexcept nogil:
    memcpy(target.fingerprints, source.fingerprints, count * sizeof(uint64_t))
    memcpy(target.ids, source.ids, count * sizeof(uint64_t))


cdef void insertion_sort(Pairs pairs, size_t count) noexcept nogil:
    cdef size_t i, j
    cdef uint64_t fingerprint, id
    for i in range(1, count):
        fingerprint = pairs.fingerprints[i]
        id = pairs.ids[i]
        j = i
        while j > 0 and (
            pairs.fingerprints[j - 1] > fingerprint
            or (pairs.fingerprints[j - 1] == fingerprint and pairs.ids[j - 1] > id)
        ):
            pairs.fingerprints[j] = pairs.fingerprints[j - 1]
            pairs.ids[j] = pairs.ids[j - 1]
            j -= 1
        pairs.fingerprints[j] = fingerprint
        pairs.ids[j] = id


cdef bint is_sorted(Pairs pairs, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(1, count):
        if pairs.fingerprints[i - 1] > pairs.fingerprints[i]:
            return False
        if pairs.fingerprints[i - 1] == pairs.fingerprints[i] and pairs.ids[i - 1] > pairs.ids[i]:
            return False
    return True


cdef uint64_t varying_bits(const uint64_t* values, size_t count) noexcept nogil:
    cdef uint64_t varying = 0
    cdef size_t i
    for i in range(1, count):
        varying |= values[i] ^ values[0]
    return varying


cdef void sort_pair_range(Pairs pairs, Pairs scratch, size_t count, bint into_scratch) noexcept nogil:
    # Most significant digit first, each digit as wide as leaves about 8 pairs to a bucket and starting at
    # the highest bit in which the range still varies: constant bits cost nothing, and every round splits
    # the range. A digit lies strictly below the one before it and has 2 bits or more unless it is a word's
    # last, so the recursion is at most 64 deep for any input.
    # The sorted pairs end in scratch if into_scratch, else in pairs.
    cdef size_t starts[(1 << MAX_DIGIT_BITS) + 1]
    cdef const uint64_t* digits_from = pairs.fingerprints
    cdef uint64_t varying, mask
    cdef size_t i, at, size, total = 0
    cdef int bits, shift, digit
    if count <= INSERTION_PAIRS or is_sorted(pairs, count):
        if count <= INSERTION_PAIRS:
            insertion_sort(pairs, count)
        if into_scratch:
            copy_pairs(scratch, pairs, count)
        return

    varying = varying_bits(pairs.fingerprints, count)
    if varying == 0:
        # Not sorted, so the ids vary.
        digits_from = pairs.ids
        varying = varying_bits(pairs.ids, count)
    bits = fps_bit_length(count) - 3
    if bits > MAX_DIGIT_BITS:
        bits = MAX_DIGIT_BITS
    shift = fps_bit_length(varying) - bits
    if shift < 0:
        shift = 0
    mask = (<uint64_t>1 << bits) - 1

    memset(starts, 0, sizeof(size_t) * ((<size_t>1 << bits) + 1))
    for i in range(count):
        starts[(digits_from[i] >> shift) & mask] += 1
    for digit in range(<int>mask + 1):
        size = starts[digit]
        starts[digit] = total
        total += size
    for i in range(count):
        digit = <int>((digits_from[i] >> shift) & mask)
        at = starts[digit]
        starts[digit] = at + 1
        scratch.fingerprints[at] = pairs.fingerprints[i]
        scratch.ids[at] = pairs.ids[i]
    # starts[digit] is now where its bucket ends.
    at = 0
    for digit in range(<int>mask + 1):
        size = starts[digit] - at
        if size:
            sort_pair_range(advance(scratch, at), advance(pairs, at), size, not into_scratch)
        at = starts[digit]


def sort_pairs(uint64_t[::1] fingerprints not None, uint64_t[::1] ids not None):
    """Sort pairs (two uint64[n]) in place, ascending by (fingerprint, id).

    Takes 16 bytes of scratch a pair; a range that is in order already is only read.
    Raises ValueError if the arrays differ in length, MemoryError if there is no room for the scratch.
    """
    cdef size_t count = <size_t>fingerprints.shape[0]
    cdef uint64_t[::1] scratch
    cdef Pairs pairs, spare
    if ids.shape[0] != fingerprints.shape[0]:
        raise ValueError(f"{fingerprints.shape[0]} fingerprints come with {ids.shape[0]} ids")
    if count < 2:
        return
    pairs.fingerprints = &fingerprints[0]
    pairs.ids = &ids[0]
    # From numpy, so that the memory is accounted for and large scratch lies in large pages.
    scratch = numpy.empty(2 * count, numpy.uint64)
    spare.fingerprints = &scratch[0]
    spare.ids = &scratch[count]
    with nogil:
        sort_pair_range(pairs, spare, count, False)


cdef class Room:
    """Scratch for sorting so many keys: a sixteenth of what they take, from 8 KiB to most keys, and the counters."""

    cdef SortRoom room
    cdef object keys

    def __cinit__(self, size_t count, size_t most):
        cdef uint64_t[::1] keys
        # From numpy, so that the memory is accounted for.
        self.keys = numpy.empty(min(most, max(count // 16, <size_t>MIN_ROOM_KEYS)), numpy.uint64)
        keys = self.keys
        self.room.keys = &keys[0]
        self.room.room_keys = <uint64_t>keys.shape[0]


def sort_keys(uint64_t[::1] keys not None):
    """Sort keys (uint64[n]) and move the distinct ones to the front, in order; how many there are.

    What lies behind them afterwards is of no meaning.
    """
    cdef size_t count = <size_t>keys.shape[0]
    cdef SortedOut out
    cdef Room room
    if count < 2:
        return count
    room = Room(count, PART_KEYS)
    out.keys = &keys[0]
    out.count = 0
    with nogil:
        sort_range(&keys[0], count, 64, &room.room, &out)
    return out.count


def split_keys(uint64_t[::1] keys not None):
    """Bring keys (uint64[n]) into two groups, all of the first below those of the second; how many the first has.

    They are parted by the highest bit in which they differ; where they are equal the second group has none.
    """
    cdef uint64_t count = <uint64_t>keys.shape[0]
    if count:
        with nogil:
            count = c_split_keys(&keys[0], count)
    return count


def sort_permuted(uint64_t prefix_mask, const uint64_t[::1] fingerprints not None, uint64_t[::1] keys not None,
                  unsigned bits=MAX_KEY_BITS):
    """Fill keys with those of fingerprints (uint64[n], of so many bits) under the permutation of prefix_mask, sorted and distinct.

    How many there are; the room behind them is of no meaning. Quickest where fingerprints are sorted. Raises ValueError
    where keys has another length, or a fingerprint or the mask more bits.
    """
    cdef size_t count = <size_t>fingerprints.shape[0]
    cdef Permutation permutation
    cdef bint fit
    cdef Room room
    if keys.shape[0] != fingerprints.shape[0]:
        raise ValueError(f"{count} fingerprints, room for {keys.shape[0]} keys")
    if count == 0:
        return 0
    if not MIN_KEY_BITS <= bits <= MAX_KEY_BITS or not keys_fit(&prefix_mask, 1, bits):
        raise ValueError(f"prefix mask {prefix_mask:#x} of {bits} bits")
    with nogil:
        fit = keys_fit(&fingerprints[0], count, bits)
    if not fit:
        raise ValueError(f"a fingerprint has more than {bits} bits")
    room = Room(count, SORT_ROOM_KEYS)
    with nogil:
        permutation_init(&permutation, prefix_mask, bits)
        count = c_sort_permuted(&permutation, &fingerprints[0], count, &keys[0], &room.room)
    return count


cdef class PermutedParts:
    """What sort_permuted does in three steps, each of which so many threads do at once, a part each.

    All parts have to be through a step before one begins the next; who calls sees to that. A part is counted and dealt
    out from its own stretch of the fingerprints, and settles some groups of keys that begin alike.
    """

    cdef Permutation permutation
    cdef const uint64_t[::1] fingerprints
    cdef uint64_t[::1] keys
    cdef uint64_t[:, ::1] at
    cdef uint64_t[::1] firsts, starts, counts
    cdef size_t count, parts
    cdef unsigned bits

    def __cinit__(self, uint64_t prefix_mask, const uint64_t[::1] fingerprints not None, uint64_t[::1] keys not None,
                  unsigned bits, size_t parts):
        """keys: filled, as by sort_permuted. ValueError as there, and where there is no part."""
        self.count = <size_t>fingerprints.shape[0]
        if keys.shape[0] != fingerprints.shape[0]:
            raise ValueError(f"{self.count} fingerprints, room for {keys.shape[0]} keys")
        if not MIN_KEY_BITS <= bits <= MAX_KEY_BITS or not keys_fit(&prefix_mask, 1, bits):
            raise ValueError(f"prefix mask {prefix_mask:#x} of {bits} bits")
        if not parts:
            raise ValueError("parts: found 0, expected one at least")
        permutation_init(&self.permutation, prefix_mask, bits)
        self.fingerprints, self.keys, self.bits, self.parts = fingerprints, keys, bits, parts
        self.at = numpy.zeros((parts, SPLIT_GROUPS), numpy.uint64)
        self.firsts = numpy.zeros(parts + 1, numpy.uint64)
        self.starts = numpy.zeros(parts + 1, numpy.uint64)
        self.counts = numpy.zeros(parts, numpy.uint64)

    cdef size_t expect_part(self, size_t part) except? 0:
        if part >= self.parts:
            raise IndexError(part)
        return self.count // self.parts * part

    cdef size_t end_of(self, size_t part) noexcept:
        return self.count if part + 1 == self.parts else self.count // self.parts * (part + 1)

    def tally(self, size_t part):
        """The first step: how many keys of a part begin alike. ValueError where one has more bits."""
        cdef size_t first = self.expect_part(part), end = self.end_of(part)
        cdef bint fit
        if first == end:
            return
        with nogil:
            fit = keys_fit(&self.fingerprints[first], end - first, self.bits)
            if fit:
                sort_count(&self.permutation, &self.fingerprints[first], end - first, &self.at[part, 0])
        if not fit:
            raise ValueError(f"a fingerprint has more than {self.bits} bits")

    def share(self):
        """Between the first step and the second: where keys go, and who settles which groups of them."""
        cdef size_t group, part, size, total = 0, lot = 0
        for group in range(SPLIT_GROUPS):
            while lot < self.parts and total >= self.count // self.parts * lot:
                self.firsts[lot], self.starts[lot] = group, total
                lot += 1
            for part in range(self.parts):
                size = self.at[part, group]
                self.at[part, group] = total
                total += size
        for part in range(lot, self.parts + 1):
            self.firsts[part], self.starts[part] = SPLIT_GROUPS, total

    def deal(self, size_t part):
        """The second step: bring the keys of a part to their groups."""
        cdef size_t first = self.expect_part(part), end = self.end_of(part)
        if first == end:
            return
        with nogil:
            sort_deal(&self.permutation, &self.fingerprints[first], end - first, &self.keys[0], &self.at[part, 0])

    def settle(self, size_t part):
        """The third: sort some groups."""
        cdef size_t first, end
        cdef Room room
        self.expect_part(part)
        first, end = self.firsts[part], self.firsts[part + 1]
        if self.starts[part] == self.starts[part + 1]:
            return
        room = Room(self.starts[part + 1] - self.starts[part], SORT_ROOM_KEYS)
        with nogil:
            # Where the last part has dealt out its keys, a group ends.
            self.counts[part] = sort_groups(
                &self.permutation, &self.at[self.parts - 1, 0], first, end, &self.keys[0], &room.room
            )

    def gather(self):
        """At the end: move the keys to the front, where some were equal; how many there are."""
        cdef size_t part, total = 0
        with nogil:
            for part in range(self.parts):
                if self.counts[part] and self.starts[part] != total:
                    memmove(&self.keys[total], &self.keys[self.starts[part]], self.counts[part] * sizeof(uint64_t))
                total += self.counts[part]
        return total


cdef char* KEY_FORMAT = "Q"


cdef class GrowingKeys:
    """Room for keys (uint64[count], not set at first) that grows and shrinks where it lies if the system can do that.

    numpy.asarray(room) is a view of it; while there is a view the room has to stay as it is, else BufferError. Where
    the system has large pages on demand they are asked for, as numpy does for what it allocates.
    """

    cdef uint64_t* _keys
    cdef Py_ssize_t _count, _stride, _views

    def __cinit__(self, size_t count):
        self._stride = sizeof(uint64_t)
        self.resize(count)

    def __dealloc__(self):
        PyMem_RawFree(self._keys)

    def resize(self, size_t count):
        """Have room for count keys; those that were there and for which there still is room stay."""
        cdef uint64_t* keys
        if self._views:
            raise BufferError(f"room for {self._count} keys is in use by {self._views} views")
        if count > <size_t>PY_SSIZE_T_MAX // sizeof(uint64_t):
            raise MemoryError(f"room for {count} keys")
        # Through Python's allocator, which tracemalloc sees; a large block is moved by remapping its pages.
        keys = <uint64_t*>PyMem_RawRealloc(self._keys, count * sizeof(uint64_t))
        if keys == NULL:
            raise MemoryError(f"room for {count} keys")
        self._keys, self._count = keys, <Py_ssize_t>count
        if count * sizeof(uint64_t) >= LARGE_BYTES:
            large_pages(keys, count * sizeof(uint64_t))

    def populate(self, size_t first, size_t end):
        """Have the system give the memory of keys [first, end) now, which it otherwise does when they are first written.

        ValueError for keys that there is no room for. Meanwhile it has to stay as it is.
        """
        if not first <= end <= <size_t>self._count:
            raise ValueError(f"keys {first} to {end}: there is room for {self._count}")
        self._views += 1
        with nogil:
            large_populate(self._keys + first, (end - first) * sizeof(uint64_t))
        self._views -= 1

    def __len__(self):
        return self._count

    @property
    def is_viewed(self):
        """Whether there is a view, so that it cannot be resized."""
        return self._views > 0

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        buffer.obj = self
        buffer.buf = self._keys
        buffer.itemsize = self._stride
        buffer.len = self._count * self._stride
        buffer.format = KEY_FORMAT if flags & PyBUF_FORMAT else NULL
        buffer.ndim = 1
        buffer.shape = &self._count
        buffer.strides = &self._stride
        buffer.suboffsets = NULL
        buffer.internal = NULL
        buffer.readonly = 0
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1


def unique_sorted(uint64_t[::1] keys not None):
    """Move the distinct keys of keys (uint64[n], ascending) to its front, in order; how many there are.

    What lies behind them afterwards is of no meaning.
    """
    cdef size_t count = <size_t>keys.shape[0]
    cdef size_t i, kept = 1
    cdef uint64_t* values
    if count == 0:
        return 0
    values = &keys[0]
    with nogil:
        for i in range(1, count):
            # Written before it is known to count: no branch to mispredict.
            values[kept] = values[i]
            kept += values[i] != values[kept - 1]
    return kept


def unique_sorted_pairs(uint64_t[::1] fingerprints not None, uint64_t[::1] ids not None):
    """Move the distinct pairs (two uint64[n], ascending by (fingerprint, id)) to the front, in order; how many.

    What lies behind them afterwards is of no meaning. Raises ValueError if the arrays differ in length.
    """
    cdef size_t count = <size_t>fingerprints.shape[0]
    cdef size_t i, kept = 1
    cdef Pairs pairs
    if ids.shape[0] != fingerprints.shape[0]:
        raise ValueError(f"{fingerprints.shape[0]} fingerprints come with {ids.shape[0]} ids")
    if count == 0:
        return 0
    pairs.fingerprints = &fingerprints[0]
    pairs.ids = &ids[0]
    with nogil:
        for i in range(1, count):
            pairs.fingerprints[kept] = pairs.fingerprints[i]
            pairs.ids[kept] = pairs.ids[i]
            kept += (
                (pairs.fingerprints[i] ^ pairs.fingerprints[kept - 1]) | (pairs.ids[i] ^ pairs.ids[kept - 1])
            ) != 0
    return kept


def group_pairs(
    const uint64_t[::1] fingerprints not None,
    uint64_t[::1] distinct not None,
    uint64_t[::1] counts not None,
):
    """Fill distinct with the distinct values of fingerprints (uint64[n], ascending), counts with how often each occurs.

    Returns how many distinct values there are; the outputs hold that many, in order.
    Raises ValueError if an output has fewer than n items.
    """
    cdef size_t count = <size_t>fingerprints.shape[0]
    cdef size_t i, group = 0, start = 0
    cdef bint differs
    cdef const uint64_t* values
    cdef uint64_t* out_distinct
    cdef uint64_t* out_counts
    if distinct.shape[0] < fingerprints.shape[0] or counts.shape[0] < fingerprints.shape[0]:
        raise ValueError(
            f"{fingerprints.shape[0]} fingerprints need as many places: "
            f"there are {distinct.shape[0]} for values and {counts.shape[0]} for counts"
        )
    if count == 0:
        return 0
    values = &fingerprints[0]
    out_distinct = &distinct[0]
    out_counts = &counts[0]
    with nogil:
        out_distinct[0] = values[0]
        out_counts[0] = 0
        for i in range(count):
            differs = values[i] != out_distinct[group]
            group += differs
            # A running total of its own group: no branch on the data.
            start = i if differs else start
            out_distinct[group] = values[i]
            out_counts[group] = i + 1 - start
    return group + 1
