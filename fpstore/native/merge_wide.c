/* Merging plain keys eight at a time, for AVX-512.

   Of what has been read of both runs, the eight largest are held back; each step reads eight keys more, of the run
   whose next one is the smaller, orders all sixteen, and writes the first eight: what is still to come is above them.
 */
#include "merge.h"

#include "wide.h"

enum {
    LANES = 8,
    PARTS = 4, /* of the runs, done side by side: a step waits for the one before it */
    TAIL = 64, /* keys of a run that are copied before its end, and the largest of all keys behind them */
};

/* Keys [a, a_end) of one run and [b, b_end) of the other, the eight that are held back of those before, the largest
   first, and where the next ones go. A part reads on where the next one begins: what comes there is above its keys. */
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

ALWAYS_INLINE __m512i part_step(Part *part) {
    const __m512i keys = part_order(part, part_read(part));
    _mm512_storeu_si512(part->out, keys);
    part->out += LANES;
    return keys;
}

/* Of each key the one before it: of the first the last of `before`. */
ALWAYS_INLINE __m512i keys_before(__m512i keys, __m512i before) {
    return _mm512_alignr_epi64(keys, before, LANES - 1);
}

/* Where a run goes on of which fewer than TAIL keys are left: in its tail, where the largest of all keys come behind them
   and do not end. Of such a key itself there may come too many, but only so many are written as there are keys. */
static __attribute__((noinline)) const uint64_t *tail_of(const uint64_t *next, uint64_t left, int is_tail,
                                                         uint64_t *tail) {
    if (is_tail) return tail + TAIL; /* past its keys */
    memcpy(tail, next, left * sizeof *tail);
    memset(tail + left, 0xFF, (2 * TAIL - left) * sizeof *tail);
    return tail;
}

/* Steps for which a run, which goes on in its tail where it ends, has keys: eight or more. */
ALWAYS_INLINE uint64_t run_steps(const uint64_t **next, const uint64_t **end, uint64_t *tail) {
    if (UNLIKELY(*end - *next < TAIL)) {
        const uint64_t *const tail_end = tail + 2 * TAIL;
        *next = tail_of(*next, (uint64_t)(*end - *next), *end == tail_end, tail);
        *end = tail_end;
    }
    return (uint64_t)(*end - *next) / LANES;
}

ALWAYS_INLINE uint64_t part_steps(Part *part, uint64_t tails[2][2 * TAIL]) {
    const uint64_t a = run_steps(&part->a, &part->a_end, tails[0]), b = run_steps(&part->b, &part->b_end, tails[1]);
    return a < b ? a : b;
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

/* The parts are of one size, so that they end at one step; the last one has what is left over. tells: whether to return
   whether all keys are distinct; if not, what is returned says nothing. */
ALWAYS_INLINE int merge_as(const Items *a, const Items *b, uint64_t *keys, int tells) {
    const __m512i turn = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const uint64_t total = a->count + b->count, size = total / PARTS / LANES * LANES;
    uint64_t tails[PARTS][2][2 * TAIL], left = size / LANES;
    Part parts[PARTS], *last = &parts[PARTS - 1];
    __m512i before[PARTS]; /* what each part wrote last; at first what none begins with but the largest key */
    __mmask8 fresh = 0xFF;
    int distinct = 1;
    for (unsigned p = 0; p < PARTS; p++) {
        const uint64_t i = first_of_a(a, b, p * size);
        parts[p] = (Part){a->keys + i,          a->keys + a->count, b->keys + (p * size - i),
                          b->keys + b->count, keys + p * size,    _mm512_setzero_si512()};
        (void)part_steps(&parts[p], tails[p]);
        parts[p].held = _mm512_permutexvar_epi64(turn, part_read(&parts[p]));
        before[p] = _mm512_set1_epi64(-1);
    }
    while (left > 0) {
        Part side_by_side[PARTS]; /* whose address nobody takes: they stay in registers */
        uint64_t steps = left;
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++) {
            const uint64_t own = part_steps(&parts[p], tails[p]);
            steps = own < steps ? own : steps;
            side_by_side[p] = parts[p];
        }
        for (uint64_t step = 0; step < steps; step++)
#pragma GCC unroll 4
            for (unsigned p = 0; p < PARTS; p++) {
                const __m512i here = part_step(&side_by_side[p]);
                if (tells) fresh &= _mm512_cmpneq_epi64_mask(here, keys_before(here, before[p])), before[p] = here;
            }
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++) parts[p] = side_by_side[p];
        left -= steps;
    }
    for (left = total - PARTS * size; left > 0;) {
        const uint64_t count = left < LANES ? left : LANES;
        (void)part_steps(last, tails[PARTS - 1]);
        _mm512_mask_storeu_epi64(last->out, (__mmask8)low_bits((unsigned)count), part_order(last, part_read(last)));
        last->out += count;
        left -= count;
    }
    if (tells) { /* and where one part ends and another one begins, and what the last had more */
        for (unsigned p = 1; p < PARTS && size > 0; p++) distinct &= keys[p * size] != keys[p * size - 1];
        for (uint64_t i = PARTS * size; i < total; i++) distinct &= i == 0 || keys[i] != keys[i - 1];
    }
    return distinct & (fresh == 0xFF);
}

/* Each key once, where they are. What is written ends before the last of the keys that were read, with which the next one
   is compared. */
static uint64_t keep_distinct(uint64_t *keys, uint64_t count) {
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

uint64_t merge_repeated_wide(const Items *a, const Items *b, uint64_t *keys) {
    (void)merge_as(a, b, keys, 0);
    return a->count + b->count;
}

uint64_t merge_distinct_wide(const Items *a, const Items *b, uint64_t *keys) {
    const uint64_t count = a->count + b->count;
    return merge_as(a, b, keys, 1) ? count : keep_distinct(keys, count);
}

int keys_increase_wide(const uint64_t *keys, uint64_t count) {
    __m512i before = _mm512_set1_epi64(count > 0 ? (long long)keys[0] : 0);
    __mmask8 all = 0xFF;
    uint64_t i = 1;
    for (; i + LANES <= count; i += LANES) { /* a second load of nearly the same would take 1.5 times as long */
        const __m512i here = _mm512_loadu_si512(keys + i);
        all &= _mm512_cmpgt_epu64_mask(here, keys_before(here, before));
        before = here;
    }
    for (; i < count; i++) all &= (__mmask8) - (keys[i] > keys[i - 1]);
    return all == 0xFF;
}
