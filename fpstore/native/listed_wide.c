/* A hash among others, for AVX-512. */
#include "listed.h"

#include "wide.h"

enum { LANES = 8, STEP = 4 * LANES };

/* Which of the last hashes, from i to before count, fewer than LANES after them, are a hash: a bit each. */
ALWAYS_INLINE unsigned same_of(const uint64_t *hashes, uint64_t i, uint64_t count, __m512i hash) {
    const uint64_t left = count - i;
    const __mmask8 there = (__mmask8)low_bits(left < LANES ? (unsigned)left : LANES);
    return _mm512_mask_cmpeq_epi64_mask(there, hash, _mm512_maskz_loadu_epi64(there, hashes + i));
}

int is_among_wide(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    const __m512i all = _mm512_set1_epi64((long long)hash);
    uint64_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        unsigned same = 0;
        for (unsigned j = 0; j < STEP; j += LANES) same |= same_of(hashes, i + j, count, all);
        if (same) return 1;
    }
    for (; i < count; i += LANES)
        if (same_of(hashes, i, count, all)) return 1;
    return 0;
}

uint64_t times_among_wide(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    const __m512i all = _mm512_set1_epi64((long long)hash);
    uint64_t times = 0;
    for (uint64_t i = 0; i < count; i += LANES) times += (unsigned)__builtin_popcount(same_of(hashes, i, count, all));
    return times;
}
