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

/* Keys [a, a_end) of one run and [b, b_end) of the other, the eight that are held back of those before, and where the
   next ones go. before: what was written last, in its last lane. */
typedef struct {
    const uint64_t *a, *a_end, *b, *b_end;
    uint64_t *out;
    __m512i held, before;
    __mmask8 first; /* 1 where nothing was written yet */
} Part;

/* A sequence that rises and then falls, or falls and then rises, in order. */
ALWAYS_INLINE __m512i in_order(__m512i keys) {
    __m512i other = _mm512_shuffle_i64x2(keys, keys, _MM_SHUFFLE(1, 0, 3, 2));
    keys = _mm512_mask_max_epu64(_mm512_min_epu64(keys, other), 0xF0, keys, other);
    other = _mm512_permutex_epi64(keys, _MM_SHUFFLE(1, 0, 3, 2));
    keys = _mm512_mask_max_epu64(_mm512_min_epu64(keys, other), 0xCC, keys, other);
    other = _mm512_shuffle_epi32(keys, _MM_PERM_BADC);
    return _mm512_mask_max_epu64(_mm512_min_epu64(keys, other), 0xAA, keys, other);
}

/* Eight keys of the run that goes on with the smaller one: no branch, which could not be foreseen. */
ALWAYS_INLINE __m512i part_read(Part *part) {
    const uint64_t of_a = -(uint64_t)(*part->a <= *part->b); /* all bits or none */
    const uintptr_t a = (uintptr_t)part->a, b = (uintptr_t)part->b;
    const uint64_t *from = (const uint64_t *)(b ^ ((a ^ b) & of_a));
    part->a += LANES & of_a;
    part->b += LANES & ~of_a;
    return _mm512_loadu_si512(from);
}

/* Eight places are written, of which those after the distinct keys are of no meaning: as many keys were read and not
   yet written, so they are the part's own. */
ALWAYS_INLINE void part_step(Part *part) {
    const __m512i reversed = _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), part_read(part));
    const __m512i low = in_order(_mm512_min_epu64(part->held, reversed));
    part->held = in_order(_mm512_max_epu64(part->held, reversed));
    const __mmask8 distinct =
        part->first | _mm512_cmpneq_epi64_mask(low, _mm512_alignr_epi64(low, part->before, LANES - 1));
    _mm512_storeu_si512(part->out, _mm512_maskz_compress_epi64(distinct, low));
    part->out += __builtin_popcount(distinct);
    part->before = low;
    part->first = 0;
}

/* Steps that need not ask whether a run ends. */
ALWAYS_INLINE uint64_t part_sure(const Part *part) {
    const uint64_t a = (uint64_t)(part->a_end - part->a) / LANES, b = (uint64_t)(part->b_end - part->b) / LANES;
    return a < b ? a : b;
}

/* Write the least of what is next of three sorted sequences until all have ended, each key once. */
static uint64_t *part_rest(Part *part, const uint64_t *held, unsigned held_count) {
    const uint64_t *next[3] = {held, part->a, part->b}, *const ends[3] = {held + held_count, part->a_end, part->b_end};
    uint64_t *out = part->out, before[LANES];
    int first = part->first;
    _mm512_storeu_si512(before, part->before);
    uint64_t last = before[LANES - 1];
    for (;;) {
        int least = -1, left = 0;
        for (int i = 0; i < 3; i++) {
            if (next[i] == ends[i]) continue;
            left++;
            if (least < 0 || *next[i] < *next[least]) least = i;
        }
        if (left == 0) return out;
        const uint64_t key = *next[least]++;
        if (first || key != last) *out++ = key;
        last = key, first = 0;
        if (left == 1 && least > 0) { /* of one run, whose keys are distinct */
            const uint64_t count = (uint64_t)(ends[least] - next[least]);
            memcpy(out, next[least], count * sizeof *out);
            return out + count;
        }
    }
}

static uint64_t *part_end(Part *part, int begun) {
    uint64_t held[LANES];
    for (; begun && part_sure(part) > 0;) part_step(part);
    _mm512_storeu_si512(held, part->held);
    return part_rest(part, held, begun ? LANES : 0);
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

uint64_t merge_keys_wide(const Items *a, const Items *b, uint64_t *keys) {
    Part parts[PARTS];
    uint64_t *starts[PARTS], *end = keys, i = 0, j = 0, sure;
    int begun = 1;
    for (unsigned p = 0; p < PARTS; p++) {
        /* Equal keys go to the same part. */
        const uint64_t i_end = p + 1 < PARTS ? a->count * (p + 1) / PARTS : a->count,
                       j_end = i_end < a->count ? keys_below(b, a->keys[i_end]) : b->count;
        starts[p] = keys + i + j;
        parts[p] = (Part){a->keys + i,
                          a->keys + i_end,
                          b->keys + j,
                          b->keys + j_end,
                          starts[p],
                          _mm512_setzero_si512(),
                          _mm512_setzero_si512(),
                          1};
        begun &= part_sure(&parts[p]) > 0;
        i = i_end, j = j_end;
    }
    if (begun) {
        Part side_by_side[PARTS]; /* whose address nobody takes: they stay in registers */
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++)
            side_by_side[p] = parts[p], side_by_side[p].held = part_read(&side_by_side[p]);
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
    for (unsigned p = 0; p < PARTS; p++) {
        const uint64_t count = (uint64_t)(part_end(&parts[p], begun) - starts[p]);
        if (end != starts[p]) memmove(end, starts[p], count * sizeof *keys);
        end += count;
    }
    return (uint64_t)(end - keys);
}
