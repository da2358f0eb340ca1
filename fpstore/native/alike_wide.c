/* Two increasing runs of hashes for AVX-512: eight of the one with eight of the other, all with all. */
#include "alike.h"

#include "wide.h"

enum { LANES = 8 };

Walk common_walk_wide(const Shingles *one, const Shingles *other) {
    Walk walk = {0, 0, 0};
    while (walk.one + LANES <= one->count && walk.other + LANES <= other->count) {
        const uint64_t *x = one->hashes + walk.one, *y = other->hashes + walk.other;
        const __m512i own = _mm512_loadu_si512(x), others = _mm512_loadu_si512(y);
        __mmask8 same = _mm512_cmpeq_epi64_mask(own, others);
#define TURNED_BY(lanes) same |= _mm512_cmpeq_epi64_mask(own, _mm512_alignr_epi64(others, others, lanes))
        TURNED_BY(1);
        TURNED_BY(2);
        TURNED_BY(3);
        TURNED_BY(4);
        TURNED_BY(5);
        TURNED_BY(6);
        TURNED_BY(7);
#undef TURNED_BY
        /* As hashes of a run differ, none is counted twice: no two eights meet again. */
        walk.common += (uint64_t)__builtin_popcount(same);
        const uint64_t x_last = x[LANES - 1], y_last = y[LANES - 1];
        walk.one += x_last <= y_last ? LANES : 0;
        walk.other += y_last <= x_last ? LANES : 0;
    }
    return walk;
}
