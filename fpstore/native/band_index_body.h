/* Keys of one band in their table. Included once for each instruction set; see platform.h. */
#include "band_index.h"

/* What is looked for so many documents later is asked for now. */
#define AHEAD 16

/* A bit for each slot of a bucket that is empty or has a tag, up to the lowest at least: there the tag is, or would be.
 */
ALWAYS_INLINE unsigned KERNEL(slots_for)(const uint64_t *slots, uint64_t tag) {
#if defined(KERNEL_IS_WIDE)
    const __m512i all = _mm512_loadu_si512(slots), wanted = _mm512_set1_epi64((long long)tag);
    return _mm512_cmpeq_epi64_mask(_mm512_srli_epi64(all, BAND_ROW_BITS), wanted) | _mm512_testn_epi64_mask(all, all);
#elif defined(KERNEL_IS_FAST)
    unsigned found = 0;
    for (int half = 0; half < 2; half++) {
        const __m256i some = _mm256_loadu_si256((const __m256i *)(slots + 4 * half));
        const __m256i has =
            _mm256_cmpeq_epi64(_mm256_srli_epi64(some, BAND_ROW_BITS), _mm256_set1_epi64x((long long)tag));
        const __m256i is_one = _mm256_or_si256(has, _mm256_cmpeq_epi64(some, _mm256_setzero_si256()));
        found |= (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(is_one)) << 4 * half;
    }
    return found;
#else
    for (unsigned i = 0; i < BAND_BUCKET; i++) {
        if (slots[i] == 0 || slots[i] >> BAND_ROW_BITS == tag) return 1u << i;
    }
    return 0;
#endif
}

/* The slot that has a tag, or the empty one where it would be; one in four is empty. */
ALWAYS_INLINE uint64_t *KERNEL(slot_of)(const BandTable *table, uint64_t tag) {
    uint64_t bucket = band_home(table, tag);
    for (;;) {
        uint64_t *slots = table->slots + bucket * BAND_BUCKET;
        const unsigned found = KERNEL(slots_for)(slots, tag);
        if (found != 0) return slots + __builtin_ctz(found);
        bucket = bucket + 1 < table->buckets ? bucket + 1 : 0;
    }
}

ALWAYS_INLINE void KERNEL(ask_for)(const BandTable *table, uint64_t key) {
    __builtin_prefetch(table->slots + band_home(table, band_tag(key)) * BAND_BUCKET);
}

void KERNEL(band_find)(const BandTable *table, const uint64_t *keys, uint64_t step, uint64_t count, uint32_t *heads) {
    for (uint64_t i = 0; i < count; i++) {
        if (i + AHEAD < count) KERNEL(ask_for)(table, keys[(i + AHEAD) * step]);
        heads[i * step] = (uint32_t)(*KERNEL(slot_of)(table, band_tag(keys[i * step])) & BAND_MOST_ROWS);
    }
}

void KERNEL(band_put)(BandTable *table, const uint64_t *keys, uint64_t step, uint64_t count, uint64_t first,
                      uint32_t *earlier) {
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t tag = band_tag(keys[i * step]);
        if (i + AHEAD < count) KERNEL(ask_for)(table, keys[(i + AHEAD) * step]);
        uint64_t *slot = KERNEL(slot_of)(table, tag);
        table->used += *slot == 0;
        earlier[i * step] = (uint32_t)(*slot & BAND_MOST_ROWS);
        *slot = tag << BAND_ROW_BITS | (first + i + 1);
    }
}
