/* Hashes into signatures. Included once for each instruction set; see platform.h. */
#include "text_signature.h"

#include "text_hash.h"

#define ALL_FROM 2 /* where one of so many bins is empty, taking all lanes costs less than finding those */

/* Vectors of lanes of 32 bits, and how many stay in registers together with their factors and terms. */
#if defined(KERNEL_IS_WIDE)
#define LANES 16
#define MOST_TOGETHER 8
typedef __m512i Lanes;
#define LOAD(at) _mm512_loadu_si512(at)
#define STORE(at, lanes) _mm512_storeu_si512(at, lanes)
#define EVERY(value) _mm512_set1_epi32((int)(value))
#define LOWER(least, value, factor, term) \
    _mm512_min_epu32(least, _mm512_add_epi32(_mm512_mullo_epi32(value, factor), term))
#elif defined(KERNEL_IS_FAST)
#define LANES 8
#define MOST_TOGETHER 4
typedef __m256i Lanes;
#define LOAD(at) _mm256_loadu_si256((const __m256i *)(at))
#define STORE(at, lanes) _mm256_storeu_si256((__m256i *)(at), lanes)
#define EVERY(value) _mm256_set1_epi32((int)(value))
#define LOWER(least, value, factor, term) \
    _mm256_min_epu32(least, _mm256_add_epi32(_mm256_mullo_epi32(value, factor), term))
#else
#define LANES 1
#define MOST_TOGETHER 1
typedef uint32_t Lanes;
#define LOAD(at) (*(at))
#define STORE(at, lanes) (*(at) = (lanes))
#define EVERY(value) (value)
ALWAYS_INLINE uint32_t LOWER(uint32_t least, uint32_t value, uint32_t factor, uint32_t term) {
    const uint32_t found = value * factor + term;
    return found < least ? found : least;
}
#endif

/* Lower so many vectors of lanes to what halves make of them. */
ALWAYS_INLINE void KERNEL(lower_some)(uint32_t *least, const uint32_t *factors, const uint32_t *terms,
                                      const uint32_t *halves, size_t count, const int together) {
    Lanes of_factors[MOST_TOGETHER], of_terms[MOST_TOGETHER], found[MOST_TOGETHER];
    for (int i = 0; i < together; i++) {
        of_factors[i] = LOAD(factors + LANES * i);
        of_terms[i] = LOAD(terms + LANES * i);
        found[i] = LOAD(least + LANES * i);
    }
    for (size_t at = 0; at < count; at++) {
        const Lanes half = EVERY(halves[at]);
        for (int i = 0; i < together; i++) found[i] = LOWER(found[i], half, of_factors[i], of_terms[i]);
    }
    for (int i = 0; i < together; i++) STORE(least + LANES * i, found[i]);
}

/* The same of all lanes, and of those that fill up the last vector. */
static void KERNEL(lower_lanes)(uint32_t *least, const uint32_t *factors, const uint32_t *terms, size_t lanes,
                                const uint32_t *halves, size_t count) {
    size_t first = 0;
#define LOWER_WHILE(together)                                                   \
    for (; first + LANES * ((together)-1) < lanes; first += LANES * (together)) \
    KERNEL(lower_some)(least + first, factors + first, terms + first, halves, count, together)
    LOWER_WHILE(MOST_TOGETHER);
#if MOST_TOGETHER > 4
    LOWER_WHILE(4);
#endif
#if MOST_TOGETHER > 1
    LOWER_WHILE(2);
    LOWER_WHILE(1);
#endif
#undef LOWER_WHILE
}

#define BINS_AT_ONCE 256

/* Without a branch, which nobody could foretell. */
ALWAYS_INLINE void lower_bins(uint32_t *bins, const uint32_t *which, const uint32_t *what, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t before = bins[which[i]];
        bins[which[i]] = what[i] < before ? what[i] : before;
    }
}

/* Put hashes into bins: first which and what, many at a time, then one after the other. */
static void KERNEL(fill_bins)(uint32_t *bins, uint64_t values, const uint64_t *hashes, size_t count) {
    uint32_t which[BINS_AT_ONCE], what[BINS_AT_ONCE];
    while (count > 0) {
        const size_t some = count < BINS_AT_ONCE ? count : BINS_AT_ONCE;
        for (size_t i = 0; i < some; i++) {
            const uint64_t product = hashes[i] * BIN_FACTOR;
            which[i] = (uint32_t)((uint32_t)(product ^ product >> 32) * values >> 32);
            what[i] = (uint32_t)(product >> 33);
        }
        lower_bins(bins, which, what, some);
        hashes += some;
        count -= some;
    }
}

/* The bins of those that are empty: their factors, terms and what they have instead, side by side. */
typedef struct {
    uint32_t factors[MAX_VALUES], terms[MAX_VALUES], least[MAX_VALUES];
} KERNEL(Empty);

#ifdef KERNEL_IS_WIDE
ALWAYS_INLINE __mmask16 empty_lanes(const uint32_t *bins, uint32_t first, uint32_t values) {
    const uint32_t some = values - first < LANES ? values - first : LANES;
    return _mm512_cmpeq_epi32_mask(LOAD(bins + first), _mm512_set1_epi32(-1)) & (__mmask16)low_bits(some);
}

static void gather_empty_wide(Empty_wide *empty, const Signature *signature, const Signer *signer) {
    uint32_t count = 0;
    for (uint32_t first = 0; first < signer->values; first += LANES) {
        const __mmask16 mask = empty_lanes(signature->least.values, first, signer->values);
        STORE(empty->factors + count, _mm512_maskz_compress_epi32(mask, LOAD(signer->factors + first)));
        STORE(empty->terms + count, _mm512_maskz_compress_epi32(mask, LOAD(signer->terms + first)));
        STORE(empty->least + count, _mm512_maskz_compress_epi32(mask, LOAD(signature->spare + first)));
        count += (uint32_t)_mm_popcnt_u32(mask);
    }
}

static void scatter_empty_wide(const Empty_wide *empty, Signature *signature, const Signer *signer) {
    uint32_t count = 0;
    for (uint32_t first = 0; first < signer->values; first += LANES) {
        const __mmask16 mask = empty_lanes(signature->least.values, first, signer->values);
        const Lanes lanes = _mm512_maskz_expand_epi32(mask, LOAD(empty->least + count));
        _mm512_mask_storeu_epi32(signature->spare + first, mask, lanes);
        count += (uint32_t)_mm_popcnt_u32(mask);
    }
}
#else
static void KERNEL(gather_empty)(KERNEL(Empty) * empty, const Signature *signature, const Signer *signer) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < signer->values; i++) {
        empty->factors[count] = signer->factors[i];
        empty->terms[count] = signer->terms[i];
        empty->least[count] = signature->spare[i];
        count += signature->least.values[i] == UINT32_MAX;
    }
}

static void KERNEL(scatter_empty)(const KERNEL(Empty) * empty, Signature *signature, const Signer *signer) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < signer->values; i++) { /* without a branch here, too */
        const uint32_t is_empty = signature->least.values[i] == UINT32_MAX, one = empty->least[count];
        signature->spare[i] = is_empty ? one : signature->spare[i];
        count += is_empty;
    }
}
#endif

/* Have the bins that are empty so far take in the halves that wait. */
static void KERNEL(settle)(Signature *signature, const Signer *signer) {
    const uint32_t values = signer->values;
    uint32_t count = 0;
    for (uint32_t i = 0; i < values; i++) count += signature->least.values[i] == UINT32_MAX;
    signature->is_full = count == 0;
    if (count > 0) {
        if (!signature->has_spare) memset(signature->spare, 0xFF, sizeof *signature->spare * padded_values(signer));
        signature->has_spare = 1;
        if (count * ALL_FROM >= values) {
            KERNEL(lower_lanes)
            (signature->spare, signer->factors, signer->terms, values, signature->halves, signature->waiting);
        } else {
            KERNEL(Empty) empty;
            KERNEL(gather_empty)(&empty, signature, signer);
            KERNEL(lower_lanes)
            (empty.least, empty.factors, empty.terms, count, signature->halves, signature->waiting);
            KERNEL(scatter_empty)(&empty, signature, signer);
        }
    }
    signature->waiting = 0;
}

void KERNEL(signature_finish)(Signature *signature, const Signer *signer) {
    if (signature->waiting > 0) KERNEL(settle)(signature, signer);
    if (!signature->has_spare) return;
    uint32_t *bins = signature->least.values;
    const uint32_t *spare = signature->spare;
    const size_t room = padded_values(signer);
    for (size_t i = 0; i < room; i++) { /* what is in a bin is less than any that has the bit */
        const uint32_t instead = spare[i] >> 1 | EMPTY_BIN;
        bins[i] = instead < bins[i] ? instead : bins[i];
    }
}

/* Have bins take in hashes, and keep what empty ones need of them. */
static void KERNEL(take_bins)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    KERNEL(fill_bins)(signature->least.values, signer->values, hashes, count);
    while (count > 0 && !signature->is_full) {
        const size_t room = HALVES_AT_ONCE - signature->waiting, some = count < room ? count : room;
        for (size_t i = 0; i < some; i++) signature->halves[signature->waiting + i] = half_of(hashes[i]);
        signature->waiting += some;
        if (some == room) KERNEL(settle)(signature, signer);
        hashes += some;
        count -= some;
    }
}

/* datasketch: the finalizer of MurmurHash3, once, and then a * h + b modulo 2^32. */
static void KERNEL(take_affine32)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    while (count > 0) {
        const size_t some = count < HALVES_AT_ONCE ? count : HALVES_AT_ONCE;
        for (size_t i = 0; i < some; i++) {
            uint32_t value = (uint32_t)hashes[i];
            value = (value ^ value >> 16) * 0x85EBCA6Bu;
            value = (value ^ value >> 13) * 0xC2B2AE35u;
            signature->halves[i] = value ^ value >> 16;
        }
        KERNEL(lower_lanes)
        (signature->least.values, signer->factors, signer->terms, signer->values, signature->halves, some);
        hashes += some;
        count -= some;
    }
}

#define WIDE_TOGETHER 16 /* what the compiler makes vectors of */

/* Lower lanes of 64 bits to what a number makes of them. */
ALWAYS_INLINE void lower_wide(uint64_t *least, const uint64_t *factors, const uint64_t *terms, uint64_t number) {
    for (int i = 0; i < WIDE_TOGETHER; i++) {
        const uint64_t value = number * factors[i] + terms[i];
        least[i] = value < least[i] ? value : least[i];
    }
}

/* The same of 64 bits. */
static void KERNEL(take_affine64)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    for (uint32_t first = 0; first < signer->values; first += WIDE_TOGETHER) {
        uint64_t least[WIDE_TOGETHER], factors[WIDE_TOGETHER], terms[WIDE_TOGETHER];
        memcpy(least, signature->least.wide_values + first, sizeof least);
        memcpy(factors, signer->wide_factors + first, sizeof factors);
        memcpy(terms, signer->wide_terms + first, sizeof terms);
        for (size_t at = 0; at < count; at++) {
            uint64_t mixed = hashes[at];
            mixed = (mixed ^ mixed >> 33) * 0xFF51AFD7ED558CCDu;
            mixed = (mixed ^ mixed >> 33) * 0xC4CEB9FE1A85EC53u;
            lower_wide(least, factors, terms, mixed ^ mixed >> 33);
        }
        memcpy(signature->least.wide_values + first, least, sizeof least);
    }
}

#define MERSENNE (((uint64_t)1 << 61) - 1)

/* Before datasketch 2: a * h + b modulo 2^64 (its products wrap), modulo 2^61 - 1, of which 32 bits. */
static void KERNEL(take_legacy)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    for (uint32_t first = 0; first < signer->values; first += WIDE_TOGETHER) {
        uint64_t least[WIDE_TOGETHER], factors[WIDE_TOGETHER], terms[WIDE_TOGETHER];
        memcpy(least, signature->least.wide_values + first, sizeof least);
        memcpy(factors, signer->wide_factors + first, sizeof factors);
        memcpy(terms, signer->wide_terms + first, sizeof terms);
        for (size_t at = 0; at < count; at++) {
            const uint64_t low = (uint32_t)hashes[at];
            for (int i = 0; i < WIDE_TOGETHER; i++) {
                uint64_t value = low * factors[i] + terms[i];
                value = (value & MERSENNE) + (value >> 61);
                value -= value >= MERSENNE ? MERSENNE : 0;
                value &= UINT32_MAX;
                least[i] = value < least[i] ? value : least[i];
            }
        }
        memcpy(signature->least.wide_values + first, least, sizeof least);
    }
}

#define RENSA_ROUNDS 3
#define RENSA_BINS 0x6A09E667F3BCC909u
#define RENSA_ROUND 0x3C6EF372FE94F82Bu
#define RENSA_EACH 0xBB67AE8584CAA73Bu

/* What begins with a number of a round of its own, in the high bits, and has 30 bits of a hash. */
ALWAYS_INLINE uint32_t in_round(uint32_t round, uint64_t number) { return round << 30 | (uint32_t)(number >> 34); }

/* A bin, all of them as often: what would fall into some more often is mixed again. */
ALWAYS_INLINE uint32_t fair_bin(uint64_t mixed, uint32_t values, uint32_t unfair) {
    uint64_t product = (uint64_t)(uint32_t)mixed * values;
    while ((uint32_t)product < unfair) {
        mixed = splitmix(mixed + SPLITMIX_STEP);
        product = (uint64_t)(uint32_t)mixed * values;
    }
    return (uint32_t)(product >> 32);
}

/* One round of rensa: each hash falls into one bin. */
static void KERNEL(fill_round)(uint32_t *bins, uint32_t values, uint64_t key, uint32_t round, const uint64_t *hashes,
                               size_t count) {
    uint32_t which[BINS_AT_ONCE], what[BINS_AT_ONCE];
    const uint32_t unfair = (uint32_t)(((uint64_t)1 << 32) % values);
    while (count > 0) {
        const size_t some = count < BINS_AT_ONCE ? count : BINS_AT_ONCE;
        uint32_t are_unfair = 0;
        for (size_t i = 0; i < some; i++) {
            const uint64_t mixed = splitmix((hashes[i] ^ key) + SPLITMIX_STEP);
            const uint64_t product = (uint64_t)(uint32_t)mixed * values;
            which[i] = (uint32_t)(product >> 32);
            what[i] = in_round(round, mixed);
            are_unfair |= (uint32_t)product < unfair;
        }
        if (are_unfair)
            for (size_t i = 0; i < some; i++)
                which[i] = fair_bin(splitmix((hashes[i] ^ key) + SPLITMIX_STEP), values, unfair);
        lower_bins(bins, which, what, some);
        hashes += some;
        count -= some;
    }
}

/* Have the bins into which nothing fell in any round take the smallest value of a permutation of their own. */
static void KERNEL(fill_rest)(uint32_t *bins, const Signer *signer, const uint64_t *hashes, size_t count) {
    const uint64_t key = signer->wide_factors[0] ^ RENSA_EACH;
    uint32_t next = 0;
    while (next < signer->values) {
        uint64_t least[WIDE_TOGETHER], factors[WIDE_TOGETHER] = {0}, terms[WIDE_TOGETHER] = {0};
        uint32_t which[WIDE_TOGETHER], some = 0;
        for (; next < signer->values && some < WIDE_TOGETHER; next++) {
            if (bins[next] < in_round(RENSA_ROUNDS, 0)) continue;
            factors[some] = signer->wide_factors[next];
            terms[some] = signer->wide_terms[next];
            which[some++] = next;
        }
        if (some == 0) return;
        memset(least, 0xFF, sizeof least);
        for (size_t at = 0; at < count; at++)
            lower_wide(least, factors, terms, splitmix((hashes[at] ^ key) + SPLITMIX_STEP));
        for (uint32_t i = 0; i < some; i++) {
            const uint32_t found = in_round(RENSA_ROUNDS, least[i]);
            if (found < bins[which[i]]) bins[which[i]] = found;
        }
    }
}

/* rensa 0.5: a value is the smallest of what falls into its bin in three rounds, each worth more than the one before,
   and of a permutation of its own, worth more than they. So a round adds nothing where all bins have less already. */
static void KERNEL(take_rensa)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    uint32_t *bins = signature->least.values;
    for (uint32_t round = 0; round < RENSA_ROUNDS; round++) {
        const uint64_t key = signer->wide_terms[0] ^ RENSA_BINS ^ round * RENSA_ROUND;
        KERNEL(fill_round)(bins, signer->values, key, round, hashes, count);
        uint32_t largest = 0;
        for (uint32_t i = 0; i < signer->values; i++) largest = bins[i] > largest ? bins[i] : largest;
        if (largest < in_round(round + 1, 0)) return;
    }
    KERNEL(fill_rest)(bins, signer, hashes, count);
}

void KERNEL(signature_take)(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    switch (signer->kind) {
    case BINNED: KERNEL(take_bins)(signature, signer, hashes, count); break;
    case AFFINE32: KERNEL(take_affine32)(signature, signer, hashes, count); break;
    case RENSA: KERNEL(take_rensa)(signature, signer, hashes, count); break;
    case AFFINE64: KERNEL(take_affine64)(signature, signer, hashes, count); break;
    default: KERNEL(take_legacy)(signature, signer, hashes, count);
    }
}
