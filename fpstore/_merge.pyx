"""Two sorted runs made one, of keys or of pairs of key and id; and look-ups in a run, many at a time.

Works on contiguous uint64 arrays and releases the lock; the kernels are C (fpstore/native/merge.c).
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from fpstore._native cimport Items, c_mark_at_least, c_mark_pairs_at_least, c_merge_keys, c_merge_pairs


def merge_keys(const uint64_t[::1] a not None, const uint64_t[::1] b not None):
    """The distinct keys of a and b (uint64[n] and uint64[m], each strictly increasing), in order."""
    cdef uint64_t[::1] keys
    cdef uint64_t count
    cdef Items left, right
    if a.shape[0] == 0 or b.shape[0] == 0:
        return np.array(b if a.shape[0] == 0 else a)
    result = np.empty(a.shape[0] + b.shape[0], dtype=np.uint64)
    keys = result
    left.keys, left.ids, left.count = &a[0], NULL, <uint64_t>a.shape[0]
    right.keys, right.ids, right.count = &b[0], NULL, <uint64_t>b.shape[0]
    with nogil:
        count = c_merge_keys(&left, &right, &keys[0])
    return result[:count]


def merge_all(pieces, uint64_t[:, ::1] rooms not None):
    """The distinct keys of pieces (one or more of uint64[n], each strictly increasing), in order.

    rooms: uint64[2, m], m as many as all pieces have or more, for what is merged, of which the answer is a part. Raises
    ValueError for no pieces or a smaller room.
    """
    cdef list kept = sorted(filter(len, pieces), key=len)  # those that are merged first are of nearly one size
    cdef Items *runs
    cdef uint64_t *starts
    cdef const uint64_t[::1] piece
    cdef uint64_t count = <uint64_t>len(kept), total = 0, turn = 0, i
    cdef uint64_t *out
    if len(pieces) == 0:
        raise ValueError("no pieces: expected one or more")
    runs = <Items *>calloc(count, sizeof(Items))
    starts = <uint64_t *>calloc(count, sizeof(uint64_t))
    try:
        if runs == NULL or starts == NULL:
            raise MemoryError()
        for i in range(count):
            piece = kept[i]
            starts[i] = total
            runs[i].keys, runs[i].count = &piece[0], <uint64_t>piece.shape[0]
            total += runs[i].count
        if <uint64_t>rooms.shape[0] != 2 or <uint64_t>rooms.shape[1] < total:
            raise ValueError(f"rooms for {rooms.shape[0]} times {rooms.shape[1]} keys: expected 2 times {total} or more")
        if count < 2:
            answer = np.asarray(rooms)[0, :total]
            answer[:] = kept[0] if count else ()
            return answer
        with nogil:
            while count > 1:
                # Each pair to where its first begins, from one room to the other; a piece that is left over goes along.
                for i in range(count // 2):
                    out = &rooms[turn, starts[2 * i]]
                    runs[i].count = c_merge_keys(&runs[2 * i], &runs[2 * i + 1], out)
                    runs[i].keys, starts[i] = out, starts[2 * i]
                if count % 2:
                    out = &rooms[turn, starts[count - 1]]
                    memcpy(out, runs[count - 1].keys, runs[count - 1].count * sizeof(uint64_t))
                    runs[count // 2].keys, runs[count // 2].count = out, runs[count - 1].count
                    starts[count // 2] = starts[count - 1]
                count = (count + 1) // 2
                turn = 1 - turn
        return np.asarray(rooms)[1 - turn, : runs[0].count]
    finally:
        free(runs)
        free(starts)


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
    result_ids = np.empty(len(result_keys), dtype=np.uint64)
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
