/* Keys of bands, and sketches, for AVX-512: eight bands side by side, eight values side by side. */
#include "sketches.h"

#include "wide.h"

enum { LANES = 8 };

/* The low halves of the products with a factor. */
ALWAYS_INLINE __m512i times(__m512i numbers, uint64_t factor) {
    const __m512i low = _mm512_set1_epi64((long long)factor), high = _mm512_set1_epi64((long long)(factor >> 32));
    const __m512i of_low = _mm512_mul_epu32(_mm512_srli_epi64(numbers, 32), low);
    const __m512i crossed = _mm512_add_epi64(of_low, _mm512_mul_epu32(numbers, high));
    return _mm512_add_epi64(_mm512_mul_epu32(numbers, low), _mm512_slli_epi64(crossed, 32));
}

/* Value `row` of each of eight bands of eight, which follow one another. */
ALWAYS_INLINE __m512i values_of(const uint32_t *bands, int row) {
    const __m256i places = _mm256_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56);
    return _mm512_cvtepu32_epi64(_mm256_i32gather_epi32((const int *)(bands + row), places, 4));
}

void band_hashes_wide(const uint32_t *signatures, uint64_t count, uint64_t values, uint32_t bands, uint64_t *hashes) {
    const __m512i steps = times(_mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 8), BAND_FACTOR);
    for (uint64_t i = 0; i < count; i++, signatures += values, hashes += bands)
        for (uint32_t band = 0; band < bands; band += LANES) {
            __m512i hash = _mm512_add_epi64(steps, _mm512_set1_epi64((long long)(band * (uint64_t)BAND_FACTOR)));
            for (int row = 0; row < 8; row++) {
                hash = _mm512_xor_si512(hash, values_of(signatures + (size_t)band * 8, row));
                hash = times(hash, VALUE_FACTOR);
                hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32));
            }
            hash = times(hash, LAST_FACTOR);
            _mm512_storeu_si512(hashes + band, _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 33)));
        }
}

/* Some of the bits of a word of a sketch: those of values[first, end), eight at most, which stand at bit `first` *
   bits and above, a value in each lane. */
ALWAYS_INLINE __m512i bits_of(const uint32_t *values, uint32_t first, uint32_t end, unsigned bits) {
    const uint32_t left = end - first;
    const __mmask8 there = left >= LANES ? 0xFF : (__mmask8)((1u << left) - 1);
    const __m512i value = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(there, values + first));
    const __m512i product = times(value, BAND_FACTOR);
    const __m512i places = _mm512_mul_epu32(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(bits));
    const __m512i shifts = _mm512_add_epi64(places, _mm512_set1_epi64((long long)first * bits));
    return _mm512_sllv_epi64(_mm512_srl_epi64(product, _mm_cvtsi32_si128(64 - (int)bits)), shifts);
}

void sketches_wide(const uint32_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches) {
    const uint32_t each = 64 / shape->bits, values = shape->values;
    for (uint64_t i = 0; i < count; i++, signatures += values)
        for (uint32_t first = 0; first < values; first += each) {
            const uint32_t own = values - first < each ? values - first : each;
            __m512i word = _mm512_setzero_si512();
            for (uint32_t at = 0; at < own; at += LANES)
                word = _mm512_or_si512(word, bits_of(signatures + first, at, own, shape->bits));
            *sketches++ = (uint64_t)_mm512_reduce_or_epi64(word);
        }
}
