/* Which keys are near another. Included once for each instruction set; see platform.h. */
#include "turns.h"

#include "bits_body.h"

#define AT_ONCE 8
#define NEAR_STEP 32 /* keys that are compared before it is asked whether one of them is near */

/* A bit for each of AT_ONCE keys: whether it is within distance of key. */
ALWAYS_INLINE unsigned KERNEL(near_of_eight)(const uint64_t *keys, uint64_t key, unsigned distance) {
#if defined(KERNEL_IS_WIDE)
    const __m512i apart = _mm512_xor_si512(_mm512_loadu_si512(keys), _mm512_set1_epi64((long long)key));
    return _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(apart), _mm512_set1_epi64((long long)distance));
#else
    unsigned near = 0;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        near |= (unsigned)(KERNEL(ones)(keys[i] ^ key) <= distance) << i;
    }
    return near;
#endif
}

/* Whether one of NEAR_STEP keys is near. */
ALWAYS_INLINE int KERNEL(near_any)(const uint64_t *keys, uint64_t key, unsigned distance) {
#if defined(KERNEL_IS_WIDE)
    const __m512i all = _mm512_set1_epi64((long long)key);
    __m512i least = _mm512_set1_epi64(64);
    for (unsigned i = 0; i < NEAR_STEP; i += AT_ONCE)
        least = _mm512_min_epu64(least, _mm512_popcnt_epi64(_mm512_xor_si512(all, _mm512_loadu_si512(keys + i))));
    return _mm512_cmple_epu64_mask(least, _mm512_set1_epi64((long long)distance)) != 0;
#else
    unsigned least = 64;
    for (unsigned i = 0; i < NEAR_STEP; i++) {
        const unsigned apart = KERNEL(ones)(keys[i] ^ key);
        least = apart < least ? apart : least;
    }
    return least <= distance;
#endif
}

/* Of wide keys. */
ALWAYS_INLINE uint64_t KERNEL(codes_near_one)(const uint64_t *keys, uint64_t count, unsigned words, const uint64_t *key,
                                              unsigned distance, uint32_t *out) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) { /* without a branch */
        unsigned apart = 0;
        for (unsigned word = 0; word < words; word++) apart += KERNEL(ones)(keys[i * words + word] ^ key[word]);
        out[found] = (uint32_t)i;
        found += apart <= distance;
    }
    return found;
}

uint64_t KERNEL(keys_near)(const uint64_t *keys, uint64_t count, unsigned words, const uint64_t *one, unsigned distance,
                           uint32_t *out) {
    if (words == 2) return KERNEL(codes_near_one)(keys, count, 2, one, distance, out);
    if (words == 4) return KERNEL(codes_near_one)(keys, count, 4, one, distance, out);
    if (words != 1) return KERNEL(codes_near_one)(keys, count, words, one, distance, out);
    const uint64_t key = *one;
    uint64_t found = 0, i = 0;
    for (; i + NEAR_STEP <= count; i += NEAR_STEP) {
        if (!UNLIKELY(KERNEL(near_any)(keys + i, key, distance))) continue;
        for (unsigned first = 0; first < NEAR_STEP; first += AT_ONCE) {
            for (unsigned near = KERNEL(near_of_eight)(keys + i + first, key, distance); near != 0; near &= near - 1)
                out[found++] = (uint32_t)(i + first + (unsigned)__builtin_ctz(near));
        }
    }
    for (; i < count; i++) {
        if (KERNEL(ones)(keys[i] ^ key) <= distance) out[found++] = (uint32_t)i;
    }
    return found;
}

#if defined(KERNEL_IS_WIDE)
#define HALVES_AT_ONCE 16
/* Of more bits than that the lower half alone tells too little. */
#define MOST_OF_HALVES 8

/* Two keys that are near differ in few of the lower 32 bits as well, of which a register has twice as many. */
uint64_t KERNEL(keys_near_earlier)(const uint64_t *keys, const uint32_t *halves, uint64_t i, unsigned distance,
                                   uint32_t *out) {
    if (distance > MOST_OF_HALVES) return KERNEL(keys_near)(keys, i, 1, keys + i, distance, out);
    const uint64_t key = keys[i];
    const __m512i all = _mm512_set1_epi32((int)halves[i]), most = _mm512_set1_epi32((int)distance);
    uint64_t found = 0, at = 0;
    for (; at + 2 * HALVES_AT_ONCE <= i; at += 2 * HALVES_AT_ONCE) {
        const __m512i one = _mm512_popcnt_epi32(_mm512_xor_si512(all, _mm512_loadu_si512(halves + at)));
        const __m512i other =
            _mm512_popcnt_epi32(_mm512_xor_si512(all, _mm512_loadu_si512(halves + at + HALVES_AT_ONCE)));
        unsigned near = _mm512_cmple_epu32_mask(one, most) | (unsigned)_mm512_cmple_epu32_mask(other, most)
                                                                 << HALVES_AT_ONCE;
        for (; UNLIKELY(near != 0); near &= near - 1) {
            const uint64_t place = at + (unsigned)__builtin_ctz(near);
            out[found] = (uint32_t)place;
            found += KERNEL(ones)(keys[place] ^ key) <= distance;
        }
    }
    for (; at < i; at++) {
        if (KERNEL(ones)(keys[at] ^ key) <= distance) out[found++] = (uint32_t)at;
    }
    return found;
}
#else
uint64_t KERNEL(keys_near_earlier)(const uint64_t *keys, const uint32_t *halves, uint64_t i, unsigned distance,
                                   uint32_t *out) {
    (void)halves; /* as many are counted at a time as of whole keys */
    return KERNEL(keys_near)(keys, i, 1, keys + i, distance, out);
}
#endif

/* Keys at two places, of which the first is earlier, may be near: mark them if they are. */
ALWAYS_INLINE void KERNEL(mark_near)(Turns *turns, uint32_t earlier, uint32_t later) {
    if (KERNEL(ones)(turns->keys[earlier] ^ turns->keys[later]) > turns->distance) return;
    turns->is_near[earlier] = turns->is_near[later] = turns->has_earlier[later] = 1;
}

void KERNEL(look_together)(Turns *turns, const uint32_t *marks, const uint32_t *places, uint64_t count) {
    for (uint64_t i = 1; i < count; i++) {
#if defined(KERNEL_IS_WIDE)
        const __m512i own = _mm512_set1_epi32((int)marks[i]), most = _mm512_set1_epi32((int)turns->distance);
        for (uint64_t at = 0; at < i; at += 16) {
            const __mmask16 there = (__mmask16)low_bits(i - at < 16 ? (unsigned)(i - at) : 16);
            const __m512i apart = _mm512_xor_si512(own, _mm512_maskz_loadu_epi32(there, marks + at));
            unsigned near = _mm512_mask_cmple_epu32_mask(there, _mm512_popcnt_epi32(apart), most);
            for (; UNLIKELY(near != 0); near &= near - 1)
                KERNEL(mark_near)(turns, places[at + (unsigned)__builtin_ctz(near)], places[i]);
        }
#else
        for (uint64_t at = 0; at < i; at++)
            if (UNLIKELY(KERNEL(ones)(marks[at] ^ marks[i]) <= turns->distance))
                KERNEL(mark_near)(turns, places[at], places[i]);
#endif
    }
}
