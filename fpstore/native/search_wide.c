/* Comparing keys with AVX-512. A search waits for memory, and gains nothing by it. */
#include "search.h"

#include "wide.h"

uint64_t scan_keys_wide(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance) {
    uint64_t found = 0, i = 0;
    const __m512i wanted = _mm512_set1_epi64((long long)query), limit = _mm512_set1_epi64(distance);
    for (; i + 8 <= count; i += 8) {
        __m512i ones = _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(keys + i), wanted));
        found += (uint64_t)__builtin_popcount(_mm512_cmple_epu64_mask(ones, limit));
    }
    return found + scan_keys_fast(keys + i, count - i, query, distance);
}
