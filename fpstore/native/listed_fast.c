/* A hash among others, for AVX2. */
#include "listed.h"

#include "fast.h"

enum { LANES = 4, STEP = 4 * LANES };

/* Of LANES hashes those that are a hash have all bits. */
ALWAYS_INLINE __m256i same_of(const uint64_t *hashes, __m256i hash) {
    return _mm256_cmpeq_epi64(hash, _mm256_loadu_si256((const __m256i *)hashes));
}

int is_among_fast(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    const __m256i all = _mm256_set1_epi64x((long long)hash);
    uint64_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        const __m256i low = _mm256_or_si256(same_of(hashes + i, all), same_of(hashes + i + LANES, all));
        const __m256i high =
            _mm256_or_si256(same_of(hashes + i + 2 * LANES, all), same_of(hashes + i + 3 * LANES, all));
        const __m256i same = _mm256_or_si256(low, high);
        if (!_mm256_testz_si256(same, same)) return 1;
    }
    for (; i < count; i++)
        if (hashes[i] == hash) return 1;
    return 0;
}

uint64_t times_among_fast(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    const __m256i all = _mm256_set1_epi64x((long long)hash);
    __m256i low = _mm256_setzero_si256(), high = low; /* all bits are -1 */
    uint64_t lanes[LANES], times = 0, i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        low = _mm256_sub_epi64(low, same_of(hashes + i, all));
        high = _mm256_sub_epi64(high, same_of(hashes + i + LANES, all));
    }
    _mm256_storeu_si256((__m256i *)lanes, _mm256_add_epi64(low, high));
    for (unsigned lane = 0; lane < LANES; lane++) times += lanes[lane];
    for (; i < count; i++) times += hashes[i] == hash;
    return times;
}
