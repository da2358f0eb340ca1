/* Codes in the 64-bit lanes of a vector (AVX-512 with VBMI2), for the wide kernels.

   A code is looked up in registers: the next 6 bits of the stream choose among 64 bytes; where they begin with as many
   ones as longer codes do, the 7 bits after these choose among 128 others. What is chosen is the tail of the code, and
   by that its advance: to choose one of 128 bytes takes three times as long as of 64. */
#ifndef FPSTORE_LANES_H
#define FPSTORE_LANES_H

#include "view.h"

/* The 128 bits at eight byte offsets: their low halves and their high ones. On Zen 4 in a fraction of the time of
 * gathers. */
ALWAYS_INLINE void KERNEL(load_words)(const uint8_t *base, __m512i offsets, __m512i *low, __m512i *high) {
    __m512i words[2]; /* of the even lanes, of the odd ones */
    __m256i at[2] = {_mm512_castsi512_si256(offsets), _mm512_extracti64x4_epi64(offsets, 1)};
    __m128i pairs[4] = {_mm256_castsi256_si128(at[0]), _mm256_extracti128_si256(at[0], 1),
                        _mm256_castsi256_si128(at[1]), _mm256_extracti128_si256(at[1], 1)};
#define WORDS(pair, odd) \
    _mm_loadu_si128((const __m128i *)(const void *)(base + (uint64_t)_mm_extract_epi64(pairs[pair], odd)))
#define LANES(odd)                                                                                                \
    _mm512_inserti64x4(                                                                                           \
        _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(WORDS(0, odd)), WORDS(1, odd), 1)), \
        _mm256_inserti128_si256(_mm256_castsi128_si256(WORDS(2, odd)), WORDS(3, odd), 1), 1)
    words[0] = LANES(0);
    words[1] = LANES(1);
#undef LANES
#undef WORDS
    *low = _mm512_unpacklo_epi64(words[0], words[1]);
    *high = _mm512_unpackhi_epi64(words[0], words[1]);
}

/* The same for searches, by gathers where these are fast. On a Xeon (Granite Rapids) a query of 363 slots, of which no
   near cache has any, takes 2 to 3.4 us less of 31 to 41 by them; to decode all keys takes as long either way. */
ALWAYS_INLINE void KERNEL(bring_words)(const uint8_t *base, __m512i offsets, __m512i *low, __m512i *high) {
    if (UNLIKELY(!lanes_gather)) {
        KERNEL(load_words)(base, offsets, low, high);
        return;
    }
    *low = _mm512_i64gather_epi64(offsets, base, 1);
    *high = _mm512_i64gather_epi64(offsets, base + 8, 1);
}

/* How codes decode, in registers. */
typedef struct {
    __m512i near_tail, far_tail[2], advance, far_ones, far_shift;
} Codes;

/* Of 128 bytes in two vectors, those that the low bytes of `index` name. */
#define LOW_BYTES ((__mmask64)0x0101010101010101)
#define LOOK_UP(bytes, index) _mm512_maskz_permutex2var_epi8(LOW_BYTES, bytes[0], index, bytes[1])

ALWAYS_INLINE void KERNEL(load_codes)(const WideCode *code, Codes *codes) {
    codes->near_tail = _mm512_loadu_si512(code->near_tail);
    codes->far_tail[0] = _mm512_loadu_si512(code->far_tail);
    codes->far_tail[1] = _mm512_loadu_si512(code->far_tail + 64);
    codes->advance = _mm512_loadu_si512(code->advance);
    codes->far_ones = _mm512_set1_epi64((long long)low_bits(code->far_ones));
    codes->far_shift = _mm512_set1_epi64(code->far_ones);
}

/* What the code at the low end of each word takes, with its tail, and the bits of its tail, modulo 64. A tail of
   WIDE_FAR and more says that the code is not known here. */
ALWAYS_INLINE void KERNEL(look_up)(const Codes *codes, __m512i word, __m512i *advance, __m512i *tail) {
    __mmask8 far = _mm512_cmpeq_epi64_mask(_mm512_and_si512(word, codes->far_ones), codes->far_ones);
    __m512i far_word = _mm512_srlv_epi64(word, codes->far_shift);
    *tail = _mm512_maskz_permutexvar_epi8(LOW_BYTES, word, codes->near_tail);
    *tail = _mm512_mask_mov_epi64(*tail, far, LOOK_UP(codes->far_tail, far_word));
    *advance = _mm512_maskz_permutexvar_epi8(LOW_BYTES, *tail, codes->advance);
}

#undef LOOK_UP
#undef LOW_BYTES

#endif
