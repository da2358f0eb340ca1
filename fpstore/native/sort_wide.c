/* The steps of sort.c with eight keys at a time, for AVX-512. */
#include "sort.h"

#include "wide.h"

#define LANES 8
#define HELD 4 /* vectors read ahead at each end, and at a time: so many keys of room there are at least */

/* By which lanes have a bit, the order that brings those without it to the front. */
static uint64_t lane_orders[256];

__attribute__((constructor)) static void lane_orders_at_load(void) {
    for (unsigned having = 0; having < 256; having++) {
        unsigned without = 0, with = LANES - (unsigned)__builtin_popcount(having);
        for (uint64_t lane = 0; lane < LANES; lane++)
            lane_orders[having] |= lane << 8 * (having >> lane & 1 ? with++ : without++);
    }
}

/* The keys between the two ends are where the groups go on. */
typedef struct {
    uint64_t *low, *high;
    __m512i bit;
} Split;

ALWAYS_INLINE void split_one(Split *split, __m512i keys) {
    __mmask8 having = _mm512_test_epi64_mask(keys, split->bit);
    __m512i order = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((long long)lane_orders[having]));
    __m512i ordered = _mm512_permutexvar_epi64(order, keys);
    unsigned with = (unsigned)__builtin_popcount(having);
    /* Both are written whole: what belongs to the other end lies in the room between. */
    _mm512_storeu_si512(split->low, ordered);
    _mm512_storeu_si512(split->high - LANES, ordered);
    split->low += LANES - with;
    split->high -= with;
}

uint64_t split_wide(uint64_t *keys, uint64_t count, uint64_t bit) {
    Split split = {keys, keys + count, _mm512_set1_epi64((long long)bit)};
    const uint64_t *next = keys, *end = keys + count; /* of what was not read yet */
    __m512i held[2 * HELD], these[HELD];
    uint64_t rest[HELD * LANES];
    if (count >= 2 * HELD * LANES) {
        for (unsigned i = 0; i < HELD; i++) {
            held[i] = _mm512_loadu_si512(next + LANES * i);
            held[HELD + i] = _mm512_loadu_si512(end - LANES * (i + 1));
        }
        next += HELD * LANES;
        end -= HELD * LANES;
        while (end - next >= HELD * LANES) {
            /* From the end with less room, so that there is enough at both. */
            int last = split.high - end < next - split.low;
            end -= last ? HELD * LANES : 0;
            const uint64_t *from = last ? end : next;
            next += last ? 0 : HELD * LANES;
            for (unsigned i = 0; i < HELD; i++) these[i] = _mm512_loadu_si512(from + LANES * i);
            for (unsigned i = 0; i < HELD; i++) split_one(&split, these[i]);
        }
        count = (uint64_t)(end - next);
        memcpy(rest, next, count * sizeof *rest);
        for (uint64_t i = 0; i < count; i++) {
            if (rest[i] & bit)
                *--split.high = rest[i];
            else
                *split.low++ = rest[i];
        }
        /* Last, as the room is now a multiple of a vector: of less than two that is not one, both ends would overlap.
         */
        for (unsigned i = 0; i < 2 * HELD; i++) split_one(&split, held[i]);
    } else {
        for (; split.low < split.high;) {
            uint64_t key = *split.low;
            if (key & bit) {
                *split.low = *--split.high;
                *split.high = key;
            } else {
                split.low++;
            }
        }
    }
    return (uint64_t)(split.low - keys);
}

/* Order each key with its neighbour: the first with the second, the third with the fourth. */
ALWAYS_INLINE void order_neighbours(uint64_t *keys, uint64_t count) {
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        __m512i these = _mm512_loadu_si512(keys + i), swapped = _mm512_shuffle_epi32(these, _MM_PERM_BADC);
        __m512i lower = _mm512_min_epu64(these, swapped);
        _mm512_storeu_si512(keys + i, _mm512_mask_max_epu64(lower, 0xAA, these, swapped));
    }
    for (; i + 2 <= count; i += 2) {
        uint64_t one = keys[i], other = keys[i + 1];
        keys[i] = one < other ? one : other;
        keys[i + 1] = one < other ? other : one;
    }
}

void settle_wide(uint64_t *keys, uint64_t count, unsigned most, SortedOut *out) {
    for (unsigned round = 0; round < most; round++) order_neighbours(keys + (round & 1), count - (round & 1));
    uint64_t i = 1, *to = out->keys + out->count;
    *to++ = keys[0];
    for (; i + LANES <= count; i += LANES) {
        __m512i these = _mm512_loadu_si512(keys + i), before = _mm512_loadu_si512(keys + i - 1);
        __mmask8 distinct = _mm512_cmpneq_epi64_mask(these, before);
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(distinct, these));
        to += __builtin_popcount(distinct);
    }
    for (; i < count; i++) {
        *to = keys[i];
        to += keys[i] != keys[i - 1];
    }
    out->count = (uint64_t)(to - out->keys);
}
