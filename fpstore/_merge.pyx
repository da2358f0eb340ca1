"""Sorted runs made one, of keys or of pairs of key and id; look-ups in a run, many at a time; and runs for a spill file.

Works on contiguous uint64 arrays and releases the lock; the kernels are C (fpstore/native/merge.c).
"""

from cpython.ref cimport Py_REFCNT
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

import numpy as np

from fpstore._native cimport (
    CHUNK_ROOM,
    GATHER_PAD,
    MAX_KEY_BITS,
    SPILLED_GROUP,
    SPILLED_SLACK,
    Items,
    c_gather_all,
    c_keys_increase,
    c_keys_up_to,
    c_mark_at_least,
    c_mark_pairs_at_least,
    c_merge_all,
    c_merge_keys,
    c_merge_pairs,
    c_merge_room,
    low_bits,
    spilled_most,
    spilled_pack,
    spilled_unpack,
)
from fpstore._view cimport DecodeRoom, TableCursor

from fpstore.errors import CorruptStore


cdef class Rooms:
    """Arrays of uint64 that are used again when nobody has them, nor a part of them, any more.

    To be given memory by the system takes as long as to merge into it.
    """

    cdef list arrays

    def __cinit__(self):
        self.arrays = []

    cdef object take(self, uint64_t n):
        """One for n or more."""
        cdef Py_ssize_t i
        cdef object array
        for i in range(len(self.arrays)):
            array = self.arrays[i]
            if Py_REFCNT(array) == 2:  # in the list, and here
                if <uint64_t>len(array) < n:
                    array = self.arrays[i] = np.empty(n, dtype=np.uint64)
                return array
        self.arrays.append(np.empty(n, dtype=np.uint64))
        return self.arrays[len(self.arrays) - 1]


def merge_keys(const uint64_t[::1] a not None, const uint64_t[::1] b not None, *, Rooms rooms=None):
    """The distinct keys of a and b (uint64[n] and uint64[m], each strictly increasing), in order; in one of rooms."""
    cdef uint64_t[::1] keys
    cdef uint64_t count
    cdef Items left, right
    if a.shape[0] == 0 or b.shape[0] == 0:
        return np.array(b if a.shape[0] == 0 else a)
    count = <uint64_t>(a.shape[0] + b.shape[0])
    result = np.empty(count, dtype=np.uint64) if rooms is None else rooms.take(count)
    keys = result
    left.keys, left.ids, left.count = &a[0], NULL, <uint64_t>a.shape[0]
    right.keys, right.ids, right.count = &b[0], NULL, <uint64_t>b.shape[0]
    with nogil:
        count = c_merge_keys(&left, &right, &keys[0])
    return result[:count]


# That are decoded before they are handed on.
READ_KEYS = 1 << 17


cdef class TableKeys:
    """The keys that a cursor reads, in order: an iterator of arrays, none empty; every check of the decoder on.

    most: as many as there can be, and no fewer where `whole`. naming: the context of errors. room: what is decoded in,
    chunks too: each is done with when another one is asked of whoever uses the room, unless it has been given another array
    for that one. Raises what the cursor does, and CorruptStore for another number of keys.
    """

    cdef TableCursor cursor
    cdef DecodeRoom room
    cdef uint64_t most, count
    cdef object naming
    cdef bint whole, ended

    def __cinit__(self, TableCursor cursor not None, uint64_t most, naming, *, bint whole, DecodeRoom room=None):
        self.cursor, self.most, self.naming, self.whole, self.room = cursor, most, naming, whole, room

    def __iter__(self):
        return self

    def __next__(self):
        cdef uint64_t[::1] keys
        array = np.empty(READ_KEYS, dtype=np.uint64) if self.room is None else self.room.keys
        keys = array
        chunk = array[:self.read(&keys[0], <uint64_t>keys.shape[0])]
        if not len(chunk):
            raise StopIteration
        return chunk

    cdef uint64_t read(self, uint64_t *out, uint64_t room) except? 0:
        """The next keys into room for so many; how many these are, 0 at the end."""
        cdef uint64_t count = 0
        if self.ended:
            return 0
        self.ended = True  # nothing comes after an error
        try:
            count = self.cursor.decode(out, room)
            if count > self.most - self.count or (count == 0 and self.whole and self.count != self.most):
                raise CorruptStore(self.cursor.where, f"{self.count + count} keys", self.most)
        except BaseException:
            with self.naming:
                raise
        self.count += count
        self.ended = count == 0
        return count


# Keys of a source that are held: count of them from first on, in room for capacity. last: the last one that came of it.
ctypedef struct HeldKeys:
    uint64_t *keys
    uint64_t first
    uint64_t count
    uint64_t capacity
    uint64_t last
    bint begun
    bint ended


cdef class AnyOrder:
    """Leave to hand on keys that differ in `width` low bits at most in any order, and as often as several sources have them.

    Whatever is handed on so is all that there is of the others in these bits. Who hands on and who takes may end it: what
    is asked for from then on is in order, each key once.
    """

    cdef readonly unsigned width

    def __init__(self, unsigned width):
        if width > MAX_KEY_BITS:
            raise ValueError(f"keys that differ in {width} bits")
        self.width = width

    def end(self):
        self.width = 0


cdef class MergedKeys:
    """The distinct keys of sources in order: an iterator of arrays, none empty, that stay until the next one is asked for.

    sources: iterators of sorted, distinct keys in arrays (uint64[n]) that go on increasing; each is done with before the
    next one is asked for. least: of how many keys of a source, or all that are left, some are merged at a time. room: in
    which sources decode; it is given arrays in which what is decoded stays, so that nobody copies it. into: where the next
    keys are to come (uint64[n]), asked each time; where there is no room for all that are merged they come elsewhere.
    order: leave to hand on what is not in order; it is ended where those of one width are more than are held.

    Raises ValueError where keys of a source do not increase, also of what a cursor decodes, whose file may change meanwhile.
    """

    cdef list sources, arrays
    cdef DecodeRoom room
    cdef HeldKeys *held
    cdef Items *runs
    cdef uint64_t source_count, least
    cdef uint64_t[:, ::1] rooms
    cdef object merged, into
    cdef AnyOrder order

    def __cinit__(self, sources, uint64_t least, DecodeRoom room=None, into=None, AnyOrder order=None):
        self.sources = [iter(source) for source in sources]
        self.source_count, self.least = <uint64_t>len(self.sources), max(least, <uint64_t>1)
        self.room, self.into = room, into
        self.order = AnyOrder(0) if order is None else order
        self.arrays = [np.empty(0, dtype=np.uint64)] * len(self.sources)
        self.rooms = np.empty((2, c_merge_room(self.source_count)), dtype=np.uint64)
        self.merged = np.empty(0, dtype=np.uint64)
        self.held = <HeldKeys *>calloc(self.source_count + 1, sizeof(HeldKeys))
        self.runs = <Items *>calloc(2 * self.source_count + 1, sizeof(Items))
        if self.held == NULL or self.runs == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.held)
        free(self.runs)

    def __iter__(self):
        return self

    def __next__(self):
        cdef uint64_t count = 0, total = 0, merged_count, i
        cdef uint64_t *room[2]
        cdef uint64_t[::1] merged
        try:
            for i in range(self.source_count):
                self.fill(i)
            total = self.cut(&count)
            if total == 0 and self.order.width:
                self.order.end()
                total = self.cut(&count)
            place = self.place_for(total + (GATHER_PAD if self.order.width else 0))
        except BaseException:
            self.source_count = 0  # nothing comes after it, least of all what is left of what was held
            raise
        if count == 0:
            raise StopIteration
        room[0], room[1] = &self.rooms[0, 0], &self.rooms[1, 0]
        merged = place
        merged_count = total
        with nogil:
            if self.order.width:
                c_gather_all(self.runs, count, self.order.width, &merged[0])
            else:
                merged_count = c_merge_all(self.runs, self.runs + count, count, room, &merged[0])
        return place[:merged_count]

    cdef object place_for(self, uint64_t n):
        """Where n keys have room: an array that this was told of, or one of its own."""
        place = None if self.into is None else self.into()
        if place is not None and <uint64_t>len(place) >= n:
            return place
        if n > <uint64_t>len(self.merged):
            self.merged = np.empty(n + n // 8, dtype=np.uint64)
        return self.merged

    cdef fill(self, uint64_t i):
        """Hold `least` keys of a source or more, or all that it still has."""
        cdef HeldKeys *held = &self.held[i]
        cdef const uint64_t[::1] chunk
        cdef uint64_t n
        source = self.sources[i]
        while not held.ended and held.count < self.least:
            if type(source) is TableKeys:
                self.make_room(i, CHUNK_ROOM + self.least)  # which a cursor fills but for CHUNK_ROOM: fewer turns
                n = (<TableKeys>source).read(held.keys + held.count, held.capacity - held.count)
                held.ended = n == 0
                self.hold(i, held.keys + held.count, n)
                continue
            if self.room is not None:
                self.make_room(i, CHUNK_ROOM + self.least)
                self.room.keys = self.arrays[i][held.count:]
            found = next(source, None)
            if found is None:
                held.ended = True
                return
            chunk = found
            self.hold(i, &chunk[0] if chunk.shape[0] else NULL, <uint64_t>chunk.shape[0])

    cdef hold(self, uint64_t i, const uint64_t *keys, uint64_t n):
        """Hold n keys more of a source, which lie behind those that are held, or elsewhere."""
        cdef HeldKeys *held = &self.held[i]
        cdef bint increase
        if n == 0:
            return
        # Also of what a cursor has decoded, whose file may change meanwhile: merging what does not increase has no end.
        with nogil:
            increase = (not held.begun or keys[0] > held.last) and c_keys_increase(keys, n)
        if not increase:
            raise ValueError(f"source {i}: found keys that do not increase, expected each above the one before")
        self.make_room(i, n)
        if keys != held.keys + held.count:
            memmove(held.keys + held.count, keys, n * sizeof(uint64_t))
        held.count += n
        held.last, held.begun = held.keys[held.count - 1], True

    cdef make_room(self, uint64_t i, uint64_t n):
        """Have room for n keys behind those that are held of a source, which come to the front."""
        cdef HeldKeys *held = &self.held[i]
        cdef uint64_t[::1] keys
        if held.count + n > held.capacity:
            array = np.empty(held.count + n + n // 8, dtype=np.uint64)
            keys = array
            if held.count:
                memcpy(&keys[0], held.keys + held.first, held.count * sizeof(uint64_t))
            self.arrays[i] = array
            held.keys, held.capacity = &keys[0], <uint64_t>keys.shape[0]
        elif held.first:
            memmove(held.keys, held.keys + held.first, held.count * sizeof(uint64_t))
        held.first = 0

    cdef uint64_t cut(self, uint64_t *count) noexcept nogil:
        """Make runs, *count of them, of the keys up to the least that anything may still come after; how many they are.

        Without those for which order gives leave to come beside what may still come.
        """
        cdef HeldKeys *held
        cdef uint64_t last, least_last = 0, i, n, total = 0
        cdef bint goes_on = False
        count[0] = 0
        for i in range(self.source_count):
            held = &self.held[i]
            if not held.ended:
                last = held.keys[held.first + held.count - 1]
                least_last = min(last, least_last) if goes_on else last
                goes_on = True
        if goes_on and self.order.width:
            least_last &= ~low_bits(self.order.width)
            if least_last == 0:
                return 0
            least_last -= 1
        for i in range(self.source_count):
            held = &self.held[i]
            n = c_keys_up_to(held.keys + held.first, held.count, least_last) if goes_on else held.count
            if n:
                self.runs[count[0]].keys, self.runs[count[0]].count = held.keys + held.first, n
                count[0] += 1
                held.first += n
                held.count -= n
                total += n
        return total


def merge_pairs(const uint64_t[::1] a_keys not None, const uint64_t[::1] a_ids not None,
                const uint64_t[::1] b_keys not None, const uint64_t[::1] b_ids not None):
    """The distinct pairs of a and b, each strictly increasing by (key, id), in order: keys and ids, both uint64[n].

    Raises ValueError where the keys and ids of one differ in number.
    """
    cdef uint64_t[::1] keys, ids
    cdef uint64_t count
    cdef Items left, right
    if a_keys.shape[0] != a_ids.shape[0] or b_keys.shape[0] != b_ids.shape[0]:
        raise ValueError(f"{a_keys.shape[0]} and {b_keys.shape[0]} keys come with {a_ids.shape[0]} and {b_ids.shape[0]} ids")
    if a_keys.shape[0] == 0:
        return np.array(b_keys), np.array(b_ids)
    if b_keys.shape[0] == 0:
        return np.array(a_keys), np.array(a_ids)
    result_keys = np.empty(a_keys.shape[0] + b_keys.shape[0], dtype=np.uint64)
    result_ids = np.empty_like(result_keys)
    keys, ids = result_keys, result_ids
    left.keys, left.ids, left.count = &a_keys[0], &a_ids[0], <uint64_t>a_keys.shape[0]
    right.keys, right.ids, right.count = &b_keys[0], &b_ids[0], <uint64_t>b_keys.shape[0]
    with nogil:
        count = c_merge_pairs(&left, &right, &keys[0], &ids[0])
    return result_keys[:count], result_ids[:count]


def mark_at_least(const uint64_t[::1] keys not None, const uint64_t[::1] numbers not None,
                  const uint64_t[::1] asked not None, const uint64_t[::1] least not None, uint8_t[::1] marks not None):
    """Set marks[i] where keys holds asked[i] with a number of least[i] or more; leave the others as they are.

    keys: uint64[n], strictly increasing, with numbers uint64[n]; asked, least, marks: uint64[m], uint64[m], uint8[m].
    Raises ValueError where lengths differ.
    """
    cdef Items run
    if keys.shape[0] != numbers.shape[0] or asked.shape[0] != least.shape[0] or asked.shape[0] != marks.shape[0]:
        raise ValueError(f"{keys.shape[0]} keys, {numbers.shape[0]} numbers; {asked.shape[0]} asked for, "
                         f"with {least.shape[0]} numbers and {marks.shape[0]} marks")
    if keys.shape[0] == 0 or asked.shape[0] == 0:
        return
    run.keys, run.ids, run.count = &keys[0], &numbers[0], <uint64_t>keys.shape[0]
    with nogil:
        c_mark_at_least(&run, &asked[0], &least[0], <uint64_t>asked.shape[0], &marks[0])


def mark_pairs_at_least(const uint64_t[::1] keys not None, const uint64_t[::1] ids not None,
                        const uint64_t[::1] numbers not None, const uint64_t[::1] asked_keys not None,
                        const uint64_t[::1] asked_ids not None, const uint64_t[::1] least not None,
                        uint8_t[::1] marks not None):
    """As mark_at_least, of pairs: keys, ids and numbers are uint64[n], the pairs strictly increasing by (key, id).

    asked_keys, asked_ids, least, marks: uint64[m] three times, and uint8[m]. Raises ValueError where lengths differ.
    """
    cdef Items run, asked
    if keys.shape[0] != ids.shape[0] or keys.shape[0] != numbers.shape[0]:
        raise ValueError(f"{keys.shape[0]} keys, {ids.shape[0]} ids, {numbers.shape[0]} numbers")
    if not asked_keys.shape[0] == asked_ids.shape[0] == least.shape[0] == marks.shape[0]:
        raise ValueError(f"{asked_keys.shape[0]} keys and {asked_ids.shape[0]} ids asked for, with {least.shape[0]} "
                         f"numbers and {marks.shape[0]} marks")
    if keys.shape[0] == 0 or asked_keys.shape[0] == 0:
        return
    run.keys, run.ids, run.count = &keys[0], &ids[0], <uint64_t>keys.shape[0]
    asked.keys, asked.ids, asked.count = &asked_keys[0], &asked_ids[0], <uint64_t>asked_keys.shape[0]
    with nogil:
        c_mark_pairs_at_least(&run, &numbers[0], &asked, &least[0], &marks[0])


# The most keys of a group, and what there has to be behind packed bytes.
PACKED_GROUP = SPILLED_GROUP
PACKED_SLACK = SPILLED_SLACK


cdef int check_group(unsigned group) except -1:
    if not 1 <= group <= SPILLED_GROUP:
        raise ValueError(f"group: found {group}, expected 1 to {SPILLED_GROUP}")
    return 0


def packed_most(uint64_t count, unsigned group):
    """How many bytes pack_sorted writes of so many keys at most, and PACKED_SLACK. ValueError as there for a group."""
    check_group(group)
    return spilled_most(count, group)


def pack_sorted(const uint64_t[::1] keys not None, unsigned group, uint8_t[::1] out not None):
    """Write keys (uint64[n], never decreasing) into out, in groups of so many; how many bytes that takes.

    ValueError for a group of none or of more than PACKED_GROUP, and where out is shorter than packed_most.
    """
    cdef uint64_t count = <uint64_t>keys.shape[0], written
    check_group(group)
    if <uint64_t>out.shape[0] < spilled_most(count, group):
        raise ValueError(f"out: found {out.shape[0]} bytes, expected {spilled_most(count, group)} for {count} keys")
    if count == 0:
        return 0
    with nogil:
        written = spilled_pack(&keys[0], count, group, &out[0])
    return written


def unpack_sorted(const uint8_t[::1] data not None, uint64_t size, uint64_t[::1] keys not None):
    """Read whole groups of what pack_sorted wrote from data[:size], as many as fit into keys (uint64[m]).

    Returns how many keys these are, and of how many bytes: 0 of 0 where the first group does not fit, or is none.
    ValueError where data does not go on for PACKED_SLACK bytes behind size.
    """
    cdef uint64_t count, used = 0
    if <uint64_t>data.shape[0] < SPILLED_SLACK or size > <uint64_t>data.shape[0] - SPILLED_SLACK:
        raise ValueError(f"data: found {data.shape[0]} bytes, expected {SPILLED_SLACK} more than {size}")
    if keys.shape[0] == 0:
        return 0, 0
    with nogil:
        count = spilled_unpack(&data[0], size, &keys[0], <uint64_t>keys.shape[0], &used)
    return count, used
