/* The loops of encode_body.h with eight keys at a time, for AVX-512. */

ALWAYS_INLINE __m512i wide_deltas(__m512i keys, __m512i before, __m512i in_slot, int codec) {
    __m512i previous = _mm512_max_epu64(before, _mm512_and_si512(keys, in_slot));
    return codec == CODEC_XOR ? _mm512_xor_si512(keys, previous) : _mm512_sub_epi64(keys, previous);
}

ALWAYS_INLINE int count_deltas_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_bits, int codec,
                                    uint64_t *counts) {
    if (count <= 8) return count_deltas_fast(keys, count, last, slot_bits, codec, counts);
    int increase = count_deltas_fast(keys, 1, last, slot_bits, codec, counts);
    /* By leading zeros, and every fourth key in its own column: a counter just stored cannot be loaded at once. */
    uint64_t columns[4][SYMBOLS] = {{0}}, i = 1;
    const __m512i in_slot = _mm512_set1_epi64((long long)top_bits(slot_bits));
    __mmask8 disorder = 0;
    for (; count - i >= 8; i += 8) {
        __m512i these = _mm512_loadu_si512(keys + i), before = _mm512_loadu_si512(keys + i - 1);
        disorder |= _mm512_cmple_epu64_mask(these, before);
        __m512i zeros = _mm512_lzcnt_epi64(wide_deltas(these, before, in_slot, codec));
        uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(zeros));
        for (unsigned j = 0; j < 8; j++) columns[j & 3][bytes >> (8 * j) & 255]++;
    }
    for (unsigned symbol = 0; symbol < SYMBOLS; symbol++)
        for (unsigned j = 0; j < 4; j++) counts[symbol] += columns[j][64 - symbol];
    return count_deltas_fast(keys + i, count - i, keys[i - 1], slot_bits, codec, counts) && increase && !disorder;
}

static int count_gaps_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_bits, uint64_t *counts) {
    return count_deltas_wide(keys, count, last, slot_bits, CODEC_GAP, counts);
}

static int count_xors_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_bits, uint64_t *counts) {
    return count_deltas_wide(keys, count, last, slot_bits, CODEC_XOR, counts);
}
