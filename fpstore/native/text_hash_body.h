/* XXH3 of what is long. Included once for each instruction set; see platform.h. */
#include "text_hash.h"

#if defined(KERNEL_IS_WIDE)
ALWAYS_INLINE void KERNEL(accumulate)(uint64_t lanes[8], const uint8_t *at, const uint8_t *key_at) {
    const __m512i value = _mm512_loadu_si512(at), key = _mm512_xor_si512(value, _mm512_loadu_si512(key_at));
    const __m512i product = _mm512_mul_epu32(key, _mm512_srli_epi64(key, 32));
    const __m512i sum = _mm512_add_epi64(_mm512_loadu_si512(lanes), _mm512_shuffle_epi32(value, 0x4E));
    _mm512_storeu_si512(lanes, _mm512_add_epi64(sum, product));
}
#elif defined(KERNEL_IS_FAST)
ALWAYS_INLINE void KERNEL(accumulate)(uint64_t lanes[8], const uint8_t *at, const uint8_t *key_at) {
    for (int i = 0; i < 8; i += 4) {
        __m256i *own = (__m256i *)(lanes + i);
        const __m256i value = _mm256_loadu_si256((const __m256i *)(at + 8 * i));
        const __m256i key = _mm256_xor_si256(value, _mm256_loadu_si256((const __m256i *)(key_at + 8 * i)));
        const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
        const __m256i sum = _mm256_add_epi64(_mm256_loadu_si256(own), _mm256_shuffle_epi32(value, 0x4E));
        _mm256_storeu_si256(own, _mm256_add_epi64(sum, product));
    }
}
#else
ALWAYS_INLINE void KERNEL(accumulate)(uint64_t lanes[8], const uint8_t *at, const uint8_t *key_at) {
    for (int i = 0; i < 8; i++) {
        const uint64_t value = load64(at + 8 * i), key = value ^ load64(key_at + 8 * i);
        lanes[i ^ 1] += value;
        lanes[i] += (key & 0xFFFFFFFF) * (key >> 32);
    }
}
#endif

uint64_t KERNEL(xxh3_long)(const uint8_t *at, size_t size, uint64_t seed) {
    uint64_t lanes[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    const uint8_t *end = at + size, *key = xxh3_secret;
    uint8_t own[sizeof xxh3_secret];
    if (seed != 0) {
        for (size_t i = 0; i < sizeof own; i += 16) {
            store64(own + i, secret(i) + seed);
            store64(own + i + 8, secret(i + 8) - seed);
        }
        key = own;
    }
    for (; end - at > 1024; at += 1024) {
        for (int stripe = 0; stripe < 16; stripe++) KERNEL(accumulate)(lanes, at + 64 * stripe, key + 8 * stripe);
        for (int i = 0; i < 8; i++) lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ load64(key + 128 + 8 * i)) * P32_1;
    }
    for (const uint8_t *key_at = key; end - at > 64; at += 64, key_at += 8) KERNEL(accumulate)(lanes, at, key_at);
    KERNEL(accumulate)(lanes, end - 64, key + 121);
    uint64_t hash = size * P64_1;
    for (int i = 0; i < 4; i++)
        hash += fold_product(lanes[2 * i] ^ load64(key + 11 + 16 * i), lanes[2 * i + 1] ^ load64(key + 19 + 16 * i));
    return xxh3_avalanche(hash);
}
