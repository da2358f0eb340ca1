/* Merging plain keys eight at a time, for AVX-512.

   Of what has been read of both runs, the eight largest are held back; each step reads eight keys more, of the run
   whose next one is the smaller, orders all sixteen, and writes the first eight: what is still to come is above them.
 */
#include "merge.h"

#include "wide.h"

enum {
    LANES = 8,
    PARTS = 4, /* of the runs, done side by side: a step waits for the one before it */
};

/* Keys [a, a_end) of one run and [b, b_end) of the other, the eight that are held back of those before, the largest
   first, and where the next ones go, up to out_end. */
typedef struct {
    const uint64_t *a, *a_end, *b, *b_end;
    uint64_t *out, *out_end;
    __m512i held;
} Part;

/* Eight keys of the run that goes on with the smaller one: no branch, which could not be foreseen. */
ALWAYS_INLINE __m512i part_read(Part *part) {
    const uint64_t of_b = -(uint64_t)(*part->b < *part->a); /* all bits or none */
    const uintptr_t a = (uintptr_t)part->a, b = (uintptr_t)part->b, moved = of_b & (LANES * sizeof(uint64_t));
    const __m512i keys = _mm512_loadu_si512((const void *)(a + ((b - a) & of_b)));
    part->a = (const uint64_t *)(a + LANES * sizeof(uint64_t) - moved);
    part->b = (const uint64_t *)(b + moved);
    return keys;
}

/* The smaller of each lane, and the larger: one of the two that is not the smaller. Two maxima would wait for the one
   unit that has minima, maxima and moves between lanes. */
#define IN_ORDER(one, other) \
    (low = _mm512_min_epu64(one, other), high = _mm512_ternarylogic_epi64(one, other, low, 0x96))
/* Of each two lanes the second one of the first, and the first one of the second. */
#define CROSSED(first, second) \
    _mm512_castpd_si512(_mm512_shuffle_pd(_mm512_castsi512_pd(first), _mm512_castsi512_pd(second), 0x55))

/* A network of sixteen, whose first half falls and whose second rises. What is compared next comes to the same lanes of
   two registers by a move of one; the other keeps its lanes, of either. */
ALWAYS_INLINE __m512i part_order(Part *part, __m512i read) {
    const __m512i fours = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    const __m512i rising = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i falling = _mm512_setr_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    const __m512i held = part->held;
    __m512i low, high, kept, moved;
    IN_ORDER(held, read);
    kept = _mm512_mask_mov_epi64(low, 0xF0, high), moved = _mm512_shuffle_i64x2(low, high, 0x4E);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xCC, high), moved = _mm512_permutex2var_epi64(low, fours, high);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xAA, high), moved = CROSSED(low, high);
    IN_ORDER(kept, moved);
    part->held = _mm512_permutex2var_epi64(low, falling, high);
    return _mm512_permutex2var_epi64(low, rising, high);
}

ALWAYS_INLINE void part_step(Part *part) {
    _mm512_storeu_si512(part->out, part_order(part, part_read(part)));
    part->out += LANES;
}

/* Steps that need not ask whether a run ends. */
ALWAYS_INLINE uint64_t part_sure(const Part *part) {
    const uint64_t a = (uint64_t)(part->a_end - part->a) / LANES, b = (uint64_t)(part->b_end - part->b) / LANES;
    return a < b ? a : b;
}

/* part_read() where a run may end, or has ended: behind its end comes the largest of all keys. Of such a key itself there
   may come too many, but only so many are written as there are keys. */
ALWAYS_INLINE __m512i part_read_last(Part *part) {
    const uint64_t a = (uint64_t)(part->a_end - part->a), b = (uint64_t)(part->b_end - part->b);
    const int of_b = (b > 0 ? *part->b : UINT64_MAX) < (a > 0 ? *part->a : UINT64_MAX);
    const uint64_t left = of_b ? b : a, count = left < LANES ? left : LANES;
    const uint64_t **next = of_b ? &part->b : &part->a, *keys = *next;
    *next += count;
    return _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), (__mmask8)low_bits((unsigned)count), keys);
}

ALWAYS_INLINE void part_step_last(Part *part) {
    const uint64_t left = (uint64_t)(part->out_end - part->out), count = left < LANES ? left : LANES;
    const __m512i keys = part_order(part, part_read_last(part));
    _mm512_mask_storeu_epi64(part->out, (__mmask8)low_bits((unsigned)count), keys);
    part->out += count;
}

/* How many of the first `count` keys of both runs, in order, are of a. */
static uint64_t first_of_a(const Items *a, const Items *b, uint64_t count) {
    uint64_t low = count > b->count ? count - b->count : 0, high = count < a->count ? count : a->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (a->keys[middle] <= b->keys[count - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The parts are of one size, so that they end at one step; the last one has what is left over. */
uint64_t merge_repeated_wide(const Items *a, const Items *b, uint64_t *keys) {
    const __m512i turn = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const uint64_t total = a->count + b->count, size = total / PARTS / LANES * LANES;
    Part parts[PARTS];
    uint64_t i = 0, first = 0, sure;
    int sure_of_all = 1, going = 1;
    for (unsigned p = 0; p < PARTS; p++) {
        const uint64_t end = p + 1 < PARTS ? first + size : total, i_end = first_of_a(a, b, end);
        parts[p] = (Part){a->keys + i,     a->keys + i_end, b->keys + (first - i), b->keys + (end - i_end),
                          keys + first, keys + end,      _mm512_setzero_si512()};
        sure_of_all &= part_sure(&parts[p]) > 0;
        i = i_end, first = end;
    }
    if (sure_of_all) {
        Part side_by_side[PARTS]; /* whose address nobody takes: they stay in registers */
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++)
            side_by_side[p] = parts[p],
            side_by_side[p].held = _mm512_permutexvar_epi64(turn, part_read(&side_by_side[p]));
        do {
            sure = part_sure(&side_by_side[0]);
#pragma GCC unroll 4
            for (unsigned p = 1; p < PARTS; p++) {
                const uint64_t own = part_sure(&side_by_side[p]);
                sure = own < sure ? own : sure;
            }
            for (uint64_t step = 0; step < sure; step++)
#pragma GCC unroll 4
                for (unsigned p = 0; p < PARTS; p++) part_step(&side_by_side[p]);
        } while (sure > 0);
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++) parts[p] = side_by_side[p];
    } else {
        for (unsigned p = 0; p < PARTS; p++) {
            Part *part = &parts[p];
            if (part->a == part->a_end || part->b == part->b_end) {
                const uint64_t *rest = part->a == part->a_end ? part->b : part->a;
                memcpy(part->out, rest, (size_t)(part->out_end - part->out) * sizeof *rest);
                part->out = part->out_end;
            } else {
                part->held = _mm512_permutexvar_epi64(turn, part_read_last(part));
            }
        }
    }
    while (going) {
        going = 0;
        for (unsigned p = 0; p < PARTS; p++)
            if (parts[p].out < parts[p].out_end) part_step_last(&parts[p]), going = 1;
    }
    return total;
}

/* What is written ends before the last of the keys that were read, with which the next one is compared. */
uint64_t keep_distinct_wide(uint64_t *keys, uint64_t count) {
    uint64_t kept = 1, i = 1;
    if (count == 0) return 0;
    for (; i + LANES <= count; i += LANES) {
        const __m512i here = _mm512_loadu_si512(keys + i);
        const __mmask8 distinct = _mm512_cmpneq_epi64_mask(here, _mm512_loadu_si512(keys + i - 1));
        const unsigned count_here = (unsigned)__builtin_popcount(distinct);
        if (UNLIKELY(kept + count_here != i + LANES))
            _mm512_mask_storeu_epi64(keys + kept, (__mmask8)low_bits(count_here),
                                     _mm512_maskz_compress_epi64(distinct, here));
        kept += count_here;
    }
    for (; i < count; i++) {
        const uint64_t key = keys[i];
        const int distinct = key != keys[i - 1];
        keys[kept] = key;
        kept += (unsigned)distinct;
    }
    return kept;
}

int keys_increase_wide(const uint64_t *keys, uint64_t count) {
    __mmask8 all = 0xFF;
    uint64_t i = 1;
    for (; i + LANES <= count; i += LANES)
        all &= _mm512_cmpgt_epu64_mask(_mm512_loadu_si512(keys + i), _mm512_loadu_si512(keys + i - 1));
    for (; i < count; i++) all &= (__mmask8) - (keys[i] > keys[i - 1]);
    return all == 0xFF;
}
