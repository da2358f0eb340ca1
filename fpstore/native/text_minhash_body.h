/* The smallest value of each permutation. Included once for each instruction set; see platform.h. */
#include "text_minhash.h"

/* Lower the minima of one word to what hashes make of them: values, factors and terms begin with its own. Permutations
   are taken so many at a time that all of their numbers stay in registers. */
#ifdef KERNEL_IS_WIDE
/* A word of minima, with what is permuted, in registers. */
typedef struct {
    __m512i factors[4], terms[4], least[4];
} HeldMinima;

ALWAYS_INLINE HeldMinima KERNEL(hold_minima)(const uint32_t *values, const uint32_t *word_factors,
                                             const uint32_t *word_terms) {
    HeldMinima held;
    for (int lane = 0; lane < 4; lane++) {
        held.factors[lane] = _mm512_loadu_si512(word_factors + 16 * lane);
        held.terms[lane] = _mm512_loadu_si512(word_terms + 16 * lane);
        held.least[lane] = _mm512_loadu_si512(values + 16 * lane);
    }
    return held;
}

/* What of hashes is permuted, with room for up to seven more. It goes through
   memory, as a load spreads it over a register, which takes nothing of what multiplies. */
ALWAYS_INLINE void KERNEL(put_halves)(uint32_t *halves, const uint64_t *hashes, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
        const __mmask8 valid = (__mmask8)low_bits(count - i < 8 ? (unsigned)(count - i) : 8);
        const __m512i own = _mm512_maskz_loadu_epi64(valid, hashes + i);
        const __m256i half = _mm512_cvtepi64_epi32(_mm512_xor_si512(own, _mm512_srli_epi64(own, 32)));
        _mm256_storeu_si256((__m256i *)(halves + i), half);
    }
}

ALWAYS_INLINE void KERNEL(lower_held)(HeldMinima *held, const uint32_t *halves, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const __m512i half = _mm512_set1_epi32((int)halves[i]);
        for (int lane = 0; lane < 4; lane++)
            held->least[lane] = _mm512_min_epu32(
                held->least[lane], _mm512_add_epi32(_mm512_mullo_epi32(half, held->factors[lane]), held->terms[lane]));
    }
}

ALWAYS_INLINE void KERNEL(put_minima)(const HeldMinima *held, uint32_t *values) {
    for (int lane = 0; lane < 4; lane++) _mm512_storeu_si512(values + 16 * lane, held->least[lane]);
}

#define PERMUTED_AT_ONCE 64

static void KERNEL(lower_word)(uint32_t *values, const uint32_t *word_factors, const uint32_t *word_terms,
                               const uint64_t *hashes, size_t count) {
    uint32_t halves[PERMUTED_AT_ONCE];
    HeldMinima held = KERNEL(hold_minima)(values, word_factors, word_terms);
    for (size_t i = 0; i < count; i += PERMUTED_AT_ONCE) {
        const size_t some = count - i < PERMUTED_AT_ONCE ? count - i : PERMUTED_AT_ONCE;
        KERNEL(put_halves)(halves, hashes + i, some);
        KERNEL(lower_held)(&held, halves, some);
    }
    KERNEL(put_minima)(&held, values);
}
#elif defined(KERNEL_IS_FAST)
#define PERMUTED_AT_ONCE 256

static void KERNEL(lower_word)(uint32_t *values, const uint32_t *word_factors, const uint32_t *word_terms,
                               const uint64_t *hashes, size_t count) {
    uint32_t halves[PERMUTED_AT_ONCE]; /* through memory, as a load spreads each over a register */
    while (count > 0) {
        const size_t some = count < PERMUTED_AT_ONCE ? count : PERMUTED_AT_ONCE;
        for (size_t i = 0; i < some; i++) halves[i] = half_of(hashes[i]);
        for (int first = 0; first < WORD_BITS; first += 32) {
            __m256i factors[4], terms[4], least[4];
            for (int lane = 0; lane < 4; lane++) {
                factors[lane] = _mm256_loadu_si256((const __m256i *)(word_factors + first + 8 * lane));
                terms[lane] = _mm256_loadu_si256((const __m256i *)(word_terms + first + 8 * lane));
                least[lane] = _mm256_loadu_si256((const __m256i *)(values + first + 8 * lane));
            }
            for (size_t i = 0; i < some; i++) {
                const __m256i half = _mm256_set1_epi32((int)halves[i]);
                for (int lane = 0; lane < 4; lane++)
                    least[lane] = _mm256_min_epu32(
                        least[lane], _mm256_add_epi32(_mm256_mullo_epi32(half, factors[lane]), terms[lane]));
            }
            for (int lane = 0; lane < 4; lane++)
                _mm256_storeu_si256((__m256i *)(values + first + 8 * lane), least[lane]);
        }
        hashes += some;
        count -= some;
    }
}
#else
static void KERNEL(lower_word)(uint32_t *values, const uint32_t *word_factors, const uint32_t *word_terms,
                               const uint64_t *hashes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t half = half_of(hashes[i]);
        for (int lane = 0; lane < WORD_BITS; lane++) {
            const uint32_t value = half * word_factors[lane] + word_terms[lane];
            if (value < values[lane]) values[lane] = value;
        }
    }
}
#endif

#define MIX_FIRST 0x85EBCA6Bu
#define MIX_SECOND 0xC2B2AE35u

/* A word of the bits of the smallest values, mixed by the finalizer of MurmurHash3. */
uint64_t KERNEL(minima_bits)(const Minima *minima, unsigned word) {
    const uint32_t *values = minima->values + WORD_BITS * word;
    uint64_t bits = 0;
#ifdef KERNEL_IS_WIDE
    for (int i = 0; i < WORD_BITS; i += 16) {
        __m512i value = _mm512_loadu_si512(values + i);
        value = _mm512_xor_si512(value, _mm512_srli_epi32(value, 16));
        value = _mm512_mullo_epi32(value, _mm512_set1_epi32((int)MIX_FIRST));
        value = _mm512_xor_si512(value, _mm512_srli_epi32(value, 13));
        value = _mm512_mullo_epi32(value, _mm512_set1_epi32((int)MIX_SECOND));
        value = _mm512_xor_si512(value, _mm512_srli_epi32(value, 16));
        bits |= (uint64_t)_mm512_test_epi32_mask(value, _mm512_set1_epi32(1)) << i;
    }
#elif defined(KERNEL_IS_FAST)
    for (int i = 0; i < WORD_BITS; i += 8) {
        __m256i value = _mm256_loadu_si256((const __m256i *)(values + i));
        value = _mm256_xor_si256(value, _mm256_srli_epi32(value, 16));
        value = _mm256_mullo_epi32(value, _mm256_set1_epi32((int)MIX_FIRST));
        value = _mm256_xor_si256(value, _mm256_srli_epi32(value, 13));
        value = _mm256_mullo_epi32(value, _mm256_set1_epi32((int)MIX_SECOND));
        value = _mm256_xor_si256(value, _mm256_srli_epi32(value, 16));
        bits |= (uint64_t)(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(value, 31))) << i;
    }
#else
    for (int i = 0; i < WORD_BITS; i++) {
        uint32_t value = values[i];
        value = (value ^ value >> 16) * MIX_FIRST;
        value = (value ^ value >> 13) * MIX_SECOND;
        value ^= value >> 16;
        bits |= (uint64_t)(value & 1) << i;
    }
#endif
    return bits;
}

/* Lower the minima to what hashes make of them. */
ALWAYS_INLINE void KERNEL(lower_minima)(Minima *minima, const Permutations *permutations, const uint64_t *hashes,
                                        size_t count, unsigned words) {
    for (unsigned at = 0; at < WORD_BITS * words; at += WORD_BITS)
        KERNEL(lower_word)(minima->values + at, permutations->factors + at, permutations->terms + at, hashes, count);
}
