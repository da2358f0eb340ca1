/* Hashes in order, for AVX-512, without a branch on what they are: of few each goes behind as many as are less than it;
   many are parted by their top bits, which leaves some together, and these are put in order in a register. */
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

/* --- Many --- */

enum {
    MOST_MEAN = LANES, /* hashes of a bucket in the mean, or half as many */
    GROUP = 4,         /* buckets at once: by itself each step would wait for the one before it */
    MOST_BITS = 14
};

/* What fills up a register is less than no hash. */
ALWAYS_INLINE __m512i load_some(const uint64_t *at, size_t count) {
    return _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), (__mmask8)low_bits((unsigned)count), at);
}

ALWAYS_INLINE __m512i turned(__m512i hashes) {
    return _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), hashes);
}

/* One step of a sorting network: each lane with its partner; the greater goes to the lanes that are marked. */
#define ORDER(hashes, count, partner, greater)                                             \
    do {                                                                                   \
        __m512i partners[GROUP];                                                           \
        for (int i_ = 0; i_ < (count); i_++) partners[i_] = partner(hashes[i_]);           \
        for (int i_ = 0; i_ < (count); i_++) {                                             \
            const __m512i lesser = _mm512_min_epu64(hashes[i_], partners[i_]);             \
            hashes[i_] = _mm512_mask_max_epu64(lesser, greater, hashes[i_], partners[i_]); \
        }                                                                                  \
    } while (0)
#define NEIGHBOURS(hashes) _mm512_shuffle_epi32(hashes, _MM_PERM_BADC)
#define PAIRS(hashes) _mm512_permutex_epi64(hashes, 0x4E)
#define PAIRS_TURNED(hashes) _mm512_permutex_epi64(hashes, 0x1B)
#define FOURS(hashes) _mm512_shuffle_i64x2(hashes, hashes, 0x4E)

/* Put the lanes of each of so many registers in order. */
ALWAYS_INLINE void sort_lanes(__m512i *hashes, const int count) {
    ORDER(hashes, count, NEIGHBOURS, 0xAA);
    ORDER(hashes, count, PAIRS_TURNED, 0xCC);
    ORDER(hashes, count, NEIGHBOURS, 0xAA);
    ORDER(hashes, count, turned, 0xF0);
    ORDER(hashes, count, PAIRS, 0xCC);
    ORDER(hashes, count, NEIGHBOURS, 0xAA);
}

/* The same of lanes that increase and then decrease, or the other way round. */
ALWAYS_INLINE void merge_lanes(__m512i *hashes, const int count) {
    ORDER(hashes, count, FOURS, 0xF0);
    ORDER(hashes, count, PAIRS, 0xCC);
    ORDER(hashes, count, NEIGHBOURS, 0xAA);
}

/* Put the first lanes, which are in order, at `to`, but those that are like the one before; the first lane of all is
   behind `last`. Returns where that ends; nothing behind it is written. */
ALWAYS_INLINE uint64_t *put_distinct(uint64_t *to, __m512i hashes, __m512i last, int is_first, size_t count) {
    const __mmask8 differing = _mm512_cmpneq_epi64_mask(hashes, _mm512_alignr_epi64(hashes, last, LANES - 1));
    const __mmask8 own = (__mmask8)((differing | is_first) & low_bits((unsigned)count));
    const unsigned found = (unsigned)__builtin_popcount(own);
    _mm512_mask_storeu_epi64(to, (__mmask8)low_bits(found), _mm512_maskz_compress_epi64(own, hashes));
    return to + found;
}

/* The distinct ones of one bucket. */
static uint64_t *put_bucket(uint64_t *hashes, size_t count, uint64_t *to) {
    if (count <= 2 * LANES) {
        const size_t some = count < LANES ? count : LANES;
        __m512i held[2] = {load_some(hashes, some), load_some(hashes + some, count - some)};
        sort_lanes(held, 2);
        const __m512i low = held[0], high = turned(held[1]);
        held[0] = _mm512_min_epu64(low, high);
        held[1] = _mm512_max_epu64(low, high);
        merge_lanes(held, 2);
        to = put_distinct(to, held[0], held[0], 1, some);
        return put_distinct(to, held[1], held[0], 0, count - some);
    }
    put_together_in_order(hashes, count);
    for (size_t i = 0; i < count; i++) {
        *to = hashes[i];
        to += i + 1 == count || hashes[i] != hashes[i + 1];
    }
    return to;
}

size_t distinct_many_wide(const uint64_t *hashes, size_t count, uint64_t *parted, uint64_t *distinct) {
    uint32_t ends[1 << MOST_BITS], sum = 0;
    unsigned bits = bit_length((count - 1) / MOST_MEAN);
    bits = bits < 1 ? 1 : bits > MOST_BITS ? MOST_BITS : bits;
    const size_t buckets = (size_t)1 << bits;
    memset(ends, 0, buckets * sizeof *ends);
    for (size_t i = 0; i < count; i++) ends[hashes[i] >> (64 - bits)]++;
    for (size_t bucket = 0; bucket < buckets; bucket++) { /* where each begins, at first */
        const uint32_t own = ends[bucket];
        ends[bucket] = sum;
        sum += own;
    }
    for (size_t i = 0; i < count; i++) parted[ends[hashes[i] >> (64 - bits)]++] = hashes[i];
    uint64_t *to = distinct;
    for (size_t bucket = 0, first = 0; bucket < buckets; first = ends[bucket++]) {
        size_t starts[GROUP], counts[GROUP], most = 0;
        if (buckets - bucket >= GROUP) {
            for (size_t i = 0; i < GROUP; i++) {
                starts[i] = i == 0 ? first : ends[bucket + i - 1];
                counts[i] = ends[bucket + i] - starts[i];
                most = counts[i] > most ? counts[i] : most;
            }
        }
        if (buckets - bucket < GROUP || most > LANES) {
            to = put_bucket(parted + first, ends[bucket] - first, to);
            continue;
        }
        __m512i held[GROUP];
        for (int i = 0; i < GROUP; i++) held[i] = load_some(parted + starts[i], counts[i]);
        sort_lanes(held, GROUP);
        for (int i = 0; i < GROUP; i++) to = put_distinct(to, held[i], held[i], 1, counts[i]);
        bucket += GROUP - 1;
    }
    return (size_t)(to - distinct);
}
