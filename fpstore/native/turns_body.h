/* Which keys are near another. Included once for each instruction set; see platform.h. */
#include "turns.h"

#define AT_ONCE 8

/* A bit for each of AT_ONCE keys: whether it is within distance of key. */
ALWAYS_INLINE unsigned KERNEL(near_of_eight)(const uint64_t *keys, uint64_t key, unsigned distance) {
#if defined(KERNEL_IS_WIDE)
    const __m512i apart = _mm512_xor_si512(_mm512_loadu_si512(keys), _mm512_set1_epi64((long long)key));
    return _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(apart), _mm512_set1_epi64((long long)distance));
#else
    unsigned near = 0;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        near |= (unsigned)((unsigned)__builtin_popcountll(keys[i] ^ key) <= distance) << i;
    }
    return near;
#endif
}

uint64_t KERNEL(keys_near)(const uint64_t *keys, uint64_t count, uint64_t key, unsigned distance, uint32_t *out) {
    uint64_t found = 0, i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) {
        for (unsigned near = KERNEL(near_of_eight)(keys + i, key, distance); near != 0; near &= near - 1) {
            out[found++] = (uint32_t)(i + (unsigned)__builtin_ctz(near));
        }
    }
    for (; i < count; i++) {
        if ((unsigned)__builtin_popcountll(keys[i] ^ key) <= distance) out[found++] = (uint32_t)i;
    }
    return found;
}
