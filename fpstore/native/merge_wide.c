/* Merging plain keys eight at a time, for AVX-512.

   Each step reads the next eight keys of both runs, one of them backwards: the smaller ones of each two are the eight
   that come first, those of either run from its next one on. So how many are of the one run tells where both go on,
   which the next step waits for; nothing else does. What has come of two parts is put in order together.
 */
#include "merge.h"

#include "wide.h"

enum {
    LANES = 8,
    PARTS = 4, /* of the runs, two and two, done side by side: a step waits for the one before it */
    TAIL = 64, /* keys of a run that are copied before its end, and the largest of all keys behind them */
};

/* Keys [a, a_end) of one run and [b, b_end) of the other, of which what comes next is merged. A part reads on where the
   next one begins: what comes there is above its keys. */
typedef struct {
    const uint64_t *a, *a_end, *b, *b_end;
} Part;

/* The next eight keys, which rise and then fall. The part moves past those that are of a: a, and as many places of b as
   are left of eight, which whoever calls sees to. */
ALWAYS_INLINE __m512i next_keys(uintptr_t *a, uintptr_t b) {
    const __m512i backwards = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i one = _mm512_loadu_si512((const void *)*a);
    const __m512i other = _mm512_permutexvar_epi64(backwards, _mm512_loadu_si512((const void *)b));
    const uint64_t of_a = _mm512_cmple_epu64_mask(one, other);
    *a += sizeof(uint64_t) * (uint64_t)__builtin_popcountll(of_a);
    return _mm512_min_epu64(one, other);
}

/* Two times eight keys in order: those of the first in lanes 0 to 3, of the second in 4 to 7; low has the first one of
   each two neighbours, high the other. */
typedef struct {
    __m512i low, high;
} Ordered;

/* The smaller of each lane, and the larger: one of the two that is not the smaller. Two maxima would wait for the one
   unit that has minima, maxima and moves between lanes. */
#define IN_ORDER(one, other) \
    (low = _mm512_min_epu64(one, other), high = _mm512_ternarylogic_epi64(one, other, low, 0x96))
/* Of each two lanes the second one of the first, and the first one of the second. */
#define CROSSED(first, second) \
    _mm512_castpd_si512(_mm512_shuffle_pd(_mm512_castsi512_pd(first), _mm512_castsi512_pd(second), 0x55))

/* Two networks of eight in one. What is compared next comes to the same lanes of two registers by a move of one; the
   other keeps its lanes, of either. */
ALWAYS_INLINE Ordered in_order(__m512i one, __m512i other) {
    const __m512i fours = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    __m512i low, high, kept, moved;
    kept = _mm512_mask_mov_epi64(one, 0xF0, other), moved = _mm512_shuffle_i64x2(one, other, 0x4E);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xCC, high), moved = _mm512_permutex2var_epi64(low, fours, high);
    IN_ORDER(kept, moved);
    kept = _mm512_mask_mov_epi64(low, 0xAA, high), moved = CROSSED(low, high);
    IN_ORDER(kept, moved);
    return (Ordered){low, high};
}

ALWAYS_INLINE __m512i first_of(Ordered both) {
    return _mm512_permutex2var_epi64(both.low, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), both.high);
}

ALWAYS_INLINE __m512i second_of(Ordered both) {
    return _mm512_permutex2var_epi64(both.low, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), both.high);
}

/* Of fresh, a bit for each lane, those where no key is equal to the one before it. before: high of what came before. */
ALWAYS_INLINE __mmask8 still_fresh(__mmask8 fresh, Ordered both, __m512i before) {
    const __m512i earlier = _mm512_setr_epi64(11, 0, 1, 2, 15, 4, 5, 6);
    fresh = _mm512_mask_cmpneq_epi64_mask(fresh, both.low, both.high);
    return _mm512_mask_cmpneq_epi64_mask(fresh, both.low, _mm512_permutex2var_epi64(both.high, earlier, before));
}

/* Where a run goes on of which fewer than TAIL keys are left: in its tail, where the largest of all keys come behind
   them and do not end. Of such a key itself there may come too many, but only so many are written as there are keys. */
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

/* As many steps as both runs of a part surely have keys for. */
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
    const uint64_t total = a->count + b->count, size = total / PARTS / LANES * LANES, *const parted = keys + size;
    uint64_t tails[PARTS][2][2 * TAIL], *out = keys;
    Part parts[PARTS], *last = &parts[PARTS - 1];
    __m512i before[PARTS / 2]; /* at first what none begins with but the largest key */
    __mmask8 fresh = 0xFF;
    int distinct = 1;
    for (unsigned p = 0; p < PARTS; p++) {
        const uint64_t i = first_of_a(a, b, p * size);
        parts[p] = (Part){a->keys + i, a->keys + a->count, b->keys + (p * size - i), b->keys + b->count};
        before[p / 2] = _mm512_set1_epi64(-1);
    }
    while (out < parted) {
        /* What a and b of each move by is what is written: so b is known of a, and fewer registers are enough. */
        uintptr_t at[PARTS], both[PARTS];
        uint64_t steps = (uint64_t)(parted - out) / LANES;
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++) {
            const uint64_t own = part_steps(&parts[p], tails[p]);
            steps = own < steps ? own : steps;
            at[p] = (uintptr_t)parts[p].a;
            both[p] = at[p] + (uintptr_t)parts[p].b - (uintptr_t)out;
        }
#define AT_B(p) (both[p] + (uintptr_t)out - at[p])
        for (const uint64_t *const end = out + steps * LANES; out < end; out += LANES)
#pragma GCC unroll 4
            for (unsigned p = 0; p < PARTS; p += 2) {
                const __m512i one = next_keys(&at[p], AT_B(p)), other = next_keys(&at[p + 1], AT_B(p + 1));
                const Ordered here = in_order(one, other);
                _mm512_storeu_si512(out + p * size, first_of(here));
                _mm512_storeu_si512(out + (p + 1) * size, second_of(here));
                if (tells) fresh = still_fresh(fresh, here, before[p / 2]), before[p / 2] = here.high;
            }
#pragma GCC unroll 4
        for (unsigned p = 0; p < PARTS; p++)
            parts[p].a = (const uint64_t *)at[p], parts[p].b = (const uint64_t *)AT_B(p);
#undef AT_B
    }
    out = keys + PARTS * size;
    for (uint64_t left = total - PARTS * size, count; left > 0; left -= count, out += count) {
        (void)part_steps(last, tails[PARTS - 1]);
        uintptr_t at = (uintptr_t)last->a;
        const __m512i next = next_keys(&at, (uintptr_t)last->b);
        count = left < LANES ? left : LANES;
        _mm512_mask_storeu_epi64(out, (__mmask8)low_bits((unsigned)count), first_of(in_order(next, next)));
        last->b += LANES - ((const uint64_t *)at - last->a);
        last->a = (const uint64_t *)at;
    }
    if (tells) { /* and where one part ends and another one begins, and what the last had more */
        for (unsigned p = 1; p < PARTS && size > 0; p++) distinct &= keys[p * size] != keys[p * size - 1];
        for (uint64_t i = PARTS * size; i < total; i++) distinct &= i == 0 || keys[i] != keys[i - 1];
    }
    return distinct & (fresh == 0xFF);
}

/* Each key once, where they are. What is written ends before the last of the keys that were read, with which the next
   one is compared. */
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

/* How many of eight keys are not above the last; all eight are copied. */
ALWAYS_INLINE uint64_t gathered(const uint64_t *keys, __m512i last, uint64_t *out) {
    const __m512i here = _mm512_loadu_si512(keys);
    _mm512_storeu_si512(out, here);
    return _mm512_cmple_epu64_mask(here, last);
}

/* So many vectors are copied before it is asked where the run ends, that a short one takes no branch on its length. */
uint64_t gather_run_wide(const Items *run, uint64_t last, uint64_t *out) {
    const __m512i most = _mm512_set1_epi64((long long)last);
    uint64_t count = 0;
    for (; count + GATHER_PAD <= run->count; count += GATHER_PAD) {
        uint64_t within = 0;
#pragma GCC unroll 4
        for (unsigned i = 0; i < GATHER_PAD; i += LANES)
            within |= gathered(run->keys + count + i, most, out + count + i) << i;
        if (LIKELY(within != low_bits(GATHER_PAD))) return count + (uint64_t)__builtin_ctzll(~within);
    }
    for (; count < run->count && run->keys[count] <= last; count++) out[count] = run->keys[count];
    return count;
}

/* Of each key the one before it: of the first the last of `before`. */
ALWAYS_INLINE __m512i keys_before(__m512i keys, __m512i before) { return _mm512_alignr_epi64(keys, before, LANES - 1); }

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
