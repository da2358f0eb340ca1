/* Few hashes in order, for AVX-512: each goes behind as many as are less than it, without a branch on what they are. */
#include "distinct.h"

#include "wide.h"

enum { LANES = 8, PARTS = DISTINCT_FEW / LANES };

/* The same of hashes that have so many parts. */
ALWAYS_INLINE int put_in_order(const uint64_t *hashes, size_t count, uint64_t *distinct, const int parts) {
    __m512i held[PARTS];
    uint64_t own[DISTINCT_FEW];
    uint8_t places[DISTINCT_FEW];
    size_t sum = 0;
    for (int part = 0; part < parts; part++) {
        const size_t first = (size_t)part * LANES, left = count > first ? count - first : 0;
        /* What fills up the last one is less than no hash. */
        const __mmask8 there = left >= LANES ? 0xFF : (__mmask8)((1u << left) - 1);
        held[part] = _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), there, hashes + first);
        _mm512_storeu_si512(own + first, held[part]);
    }
    for (size_t i = 0; i < count; i++) {
        const __m512i hash = _mm512_set1_epi64((long long)own[i]);
        uint64_t less = 0;
        for (int part = 0; part < parts; part++)
            less |= (uint64_t)_mm512_cmplt_epu64_mask(held[part], hash) << (part * LANES);
        places[i] = (uint8_t)__builtin_popcountll(less);
        sum += places[i];
    }
    /* Where all differ the places are 0 to count - 1; of equal ones some would be less. */
    if (sum != count * (count - 1) / 2) return 0;
    for (size_t i = 0; i < count; i++) distinct[places[i]] = own[i];
    return 1;
}

int distinct_few_wide(const uint64_t *hashes, size_t count, uint64_t *distinct) {
    if (count == 0) return 1;
    if (count <= 2 * LANES) return put_in_order(hashes, count, distinct, 2);
    if (count <= 4 * LANES) return put_in_order(hashes, count, distinct, 4);
    return put_in_order(hashes, count, distinct, PARTS);
}
