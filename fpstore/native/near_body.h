/* Comparing a few keys with each other. Included once for each instruction set; see platform.h. */
#include "near.h"

#include "bits_body.h"

#define NEAR_STEP 32 /* keys that are compared before it is asked whether one of them was near */

/* Those of keys[first..end) that are near the one at `later`. */
static Status KERNEL(near_of)(const uint64_t *keys, uint64_t first, uint64_t end, uint64_t later, unsigned distance,
                              NearPairs *pairs) {
    for (uint64_t i = first; i < end; i++)
        if (UNLIKELY(KERNEL(ones)(keys[i] ^ keys[later]) <= distance)) {
            Status status = near_add(pairs, later, i);
            if (status != OK) return status;
        }
    return OK;
}

#if defined(KERNEL_IS_WIDE)
/* Whether one of NEAR_STEP keys may be near. */
ALWAYS_INLINE int KERNEL(near_any)(const uint64_t *keys, uint64_t key, unsigned distance) {
    const __m512i all = _mm512_set1_epi64((long long)key);
    __m512i least = _mm512_set1_epi64(64);
    for (unsigned i = 0; i < NEAR_STEP; i += 8)
        least = _mm512_min_epu64(least, _mm512_popcnt_epi64(_mm512_xor_si512(all, _mm512_loadu_si512(keys + i))));
    return _mm512_cmple_epu64_mask(least, _mm512_set1_epi64(distance)) != 0;
}
#else
ALWAYS_INLINE int KERNEL(near_any)(const uint64_t *keys, uint64_t key, unsigned distance) {
    unsigned least = 64;
    for (unsigned i = 0; i < NEAR_STEP; i++) {
        unsigned apart = KERNEL(ones)(keys[i] ^ key);
        least = apart < least ? apart : least;
    }
    return least <= distance;
}
#endif

Status KERNEL(near_among)(const uint64_t *keys, uint64_t count, unsigned distance, NearPairs *pairs) {
    for (uint64_t later = 1; later < count; later++) {
        uint64_t first = 0;
        Status status = OK;
        for (; later - first >= NEAR_STEP && status == OK; first += NEAR_STEP)
            if (UNLIKELY(KERNEL(near_any)(keys + first, keys[later], distance)))
                status = KERNEL(near_of)(keys, first, first + NEAR_STEP, later, distance, pairs);
        if (status == OK) status = KERNEL(near_of)(keys, first, later, later, distance, pairs);
        if (status != OK) return status;
    }
    return OK;
}
