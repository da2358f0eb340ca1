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
   first, and where the next ones go. */
typedef struct {
    const uint64_t *a, *a_end, *b, *b_end;
    uint64_t *out;
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
ALWAYS_INLINE void part_step(Part *part) {
    const __m512i fours = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    const __m512i rising = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i falling = _mm512_setr_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    const __m512i read = part_read(part), held = part->held;
    __m512i low, high, kept, moved;
    IN_ORDER(held, read);
    kept = _mm512_mask_mov_epi64(low, 0xF0, high), moved = _mm512_shuffle_i64x2(low, high, 0x4E);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xCC, high), moved = _mm512_permutex2var_epi64(low, fours, high);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xAA, high), moved = CROSSED(low, high);
    IN_ORDER(kept, moved);
    _mm512_storeu_si512(part->out, _mm512_permutex2var_epi64(low, rising, high));
    part->held = _mm512_permutex2var_epi64(low, falling, high);
    part->out += LANES;
}

/* Steps that need not ask whether a run ends. */
ALWAYS_INLINE uint64_t part_sure(const Part *part) {
    const uint64_t a = (uint64_t)(part->a_end - part->a) / LANES, b = (uint64_t)(part->b_end - part->b) / LANES;
    return a < b ? a : b;
}

/* Write the least of what is next of three sorted sequences until all have ended. */
static void part_rest(Part *part, const uint64_t *held, unsigned held_count) {
    const uint64_t *next[3] = {held, part->a, part->b}, *const ends[3] = {held + held_count, part->a_end, part->b_end};
    for (;;) {
        int least = -1, left = 0;
        for (int i = 0; i < 3; i++) {
            if (next[i] == ends[i]) continue;
            left++;
            if (least < 0 || *next[i] < *next[least]) least = i;
        }
        if (left == 0) return;
        const uint64_t count = left == 1 ? (uint64_t)(ends[least] - next[least]) : 1;
        memcpy(part->out, next[least], count * sizeof *part->out);
        part->out += count;
        next[least] += count;
    }
}

static void part_end(Part *part, int begun) {
    uint64_t falling[LANES], held[LANES];
    for (; begun && part_sure(part) > 0;) part_step(part);
    _mm512_storeu_si512(falling, part->held);
    for (unsigned i = 0; i < LANES; i++) held[i] = falling[LANES - 1 - i];
    part_rest(part, held, begun ? LANES : 0);
}

static uint64_t keys_below(const Items *run, uint64_t key) {
    uint64_t low = 0, high = run->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (run->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t merge_repeated_wide(const Items *a, const Items *b, uint64_t *keys) {
    Part parts[PARTS];
    uint64_t i = 0, j = 0, sure;
    int begun = 1;
    for (unsigned p = 0; p < PARTS; p++) {
        const uint64_t i_end = p + 1 < PARTS ? a->count * (p + 1) / PARTS : a->count,
                       j_end = i_end < a->count ? keys_below(b, a->keys[i_end]) : b->count;
        parts[p] = (Part){a->keys + i,     a->keys + i_end, b->keys + j,
                          b->keys + j_end, keys + i + j,    _mm512_setzero_si512()};
        begun &= part_sure(&parts[p]) > 0;
        i = i_end, j = j_end;
    }
    if (begun) {
        const __m512i turn = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
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
    }
    for (unsigned p = 0; p < PARTS; p++) part_end(&parts[p], begun);
    return a->count + b->count;
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
