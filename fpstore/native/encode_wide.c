/* The loops of encode_body.h with eight keys at a time, for AVX-512. */
#include "encode.h"

#include "wide.h"

ALWAYS_INLINE __m512i wide_deltas(__m512i keys, __m512i before, __m512i in_slot, int codec) {
    __m512i previous = _mm512_max_epu64(before, _mm512_and_si512(keys, in_slot));
    return codec == CODEC_XOR ? _mm512_xor_si512(keys, previous) : _mm512_sub_epi64(keys, previous);
}

/* What is left over of eights. */
ALWAYS_INLINE int few_deltas(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, int codec,
                             uint64_t *counts) {
    return codec == CODEC_XOR ? count_xors_fast(keys, count, last, slot_shift, counts)
                              : count_gaps_fast(keys, count, last, slot_shift, counts);
}

ALWAYS_INLINE int count_deltas_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, int codec,
                                    uint64_t *counts) {
    if (count <= 8) return few_deltas(keys, count, last, slot_shift, codec, counts);
    int increase = few_deltas(keys, 1, last, slot_shift, codec, counts);
    /* By leading zeros, and every fourth key in its own column: a counter just stored cannot be loaded at once. */
    uint64_t columns[4][SYMBOLS] = {{0}}, i = 1;
    const __m512i in_slot = _mm512_set1_epi64((long long)~low_bits(slot_shift));
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
    return few_deltas(keys + i, count - i, keys[i - 1], slot_shift, codec, counts) && increase && !disorder;
}

int count_gaps_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, uint64_t *counts) {
    return count_deltas_wide(keys, count, last, slot_shift, CODEC_GAP, counts);
}

int count_xors_wide(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, uint64_t *counts) {
    return count_deltas_wide(keys, count, last, slot_shift, CODEC_XOR, counts);
}

#define WIDE_KEYS 128 /* coded at a time: their codes stay in the first-level cache until they are packed */

/* What coding asks again and again of the encoder, in registers. */
typedef struct {
    uint64_t first_slot, top; /* of the group; its largest key */
    __m128i slot_shift;
    __m512i in_slot, words_low, words_high; /* code words, below their lengths */
} WideGroup;

/* Keys coded, and what was seen on the way. */
typedef struct {
    uint64_t values[WIDE_KEYS];
    uint32_t infos[WIDE_KEYS]; /* bits of the code, and 256 for each slot before the key's own */
    unsigned held;
    __mmask8 disorder, long_codes; /* keys not above the one before; codes of over 64 bits */
    __mmask8 beyond;               /* keys of the last eight that are not the group's */
} WideCodes;

ALWAYS_INLINE WideGroup wide_group(const Encoder *encoder) {
    const unsigned slot_shift = encoder->slot_shift;
    return (WideGroup){.first_slot = encoder->slot,
                       .top = slot_end(encoder->slot + GROUP_SLOTS - 1, slot_shift),
                       .slot_shift = _mm_cvtsi32_si128((int)slot_shift),
                       .in_slot = _mm512_set1_epi64((long long)~low_bits(slot_shift)),
                       .words_low = _mm512_loadu_si512(encoder->wide_codes),
                       .words_high = _mm512_loadu_si512(encoder->wide_codes + 32)};
}

/* Code keys[taken..count), up to WIDE_KEYS of them or to the first beyond the group. */
ALWAYS_INLINE void code_keys(const WideGroup *group, const uint64_t *keys, uint64_t count, uint64_t taken, int codec,
                             WideCodes *codes) {
    const __m512i one = _mm512_set1_epi64(1);
    unsigned held = 0;
    __mmask8 disorder = codes->disorder, long_codes = codes->long_codes, beyond = 0;
    for (; held < WIDE_KEYS && !beyond; held += 8) {
        const uint64_t *from = keys + taken + held, left = count - taken - held;
        __m512i these = _mm512_maskz_loadu_epi64(left < 8 ? (__mmask8)((1 << left) - 1) : 0xFF, from);
        __mmask8 known = taken + held == 0 ? 0xFE : 0xFF; /* the caller has seen to the order of the first */
        __m512i before = _mm512_maskz_loadu_epi64(known, from - 1);
        __m512i slots = _mm512_sub_epi64(_mm512_srl_epi64(these, group->slot_shift),
                                         _mm512_set1_epi64((long long)group->first_slot));
        beyond = _mm512_cmpgt_epu64_mask(these, _mm512_set1_epi64((long long)group->top));
        if (left < 8) beyond |= (__mmask8)(0xFF << left);
        __mmask8 ours = (__mmask8)((beyond & -beyond) - 1);
        disorder |= _mm512_mask_cmple_epu64_mask(ours & known, these, before);
        __m512i delta = wide_deltas(these, before, group->in_slot, codec), zeros = _mm512_lzcnt_epi64(delta);
        __m512i symbol = _mm512_sub_epi64(_mm512_set1_epi64(64), zeros);
        __m512i word = _mm512_permutex2var_epi16(group->words_low, symbol, group->words_high);
        __m512i length = _mm512_and_si512(_mm512_srli_epi64(word, 12), _mm512_set1_epi64(15));
        __m512i tail = _mm512_max_epi64(_mm512_sub_epi64(_mm512_set1_epi64(63), zeros), _mm512_setzero_si512());
        __m512i low = _mm512_andnot_si512(_mm512_sllv_epi64(one, tail), delta), all = _mm512_add_epi64(length, tail);
        long_codes |= _mm512_mask_cmpgt_epu64_mask(ours, all, _mm512_set1_epi64(64)) |
                      _mm512_mask_cmpeq_epu64_mask(ours, zeros, _mm512_setzero_si512());
        __m512i value =
            _mm512_or_si512(_mm512_sllv_epi64(low, length), _mm512_and_si512(word, _mm512_set1_epi64(4095)));
        slots = _mm512_slli_epi64(_mm512_min_epu64(slots, _mm512_set1_epi64(15)), 8);
        _mm512_storeu_si512(codes->values + held, value);
        _mm256_storeu_si256((__m256i *)(codes->infos + held), _mm512_cvtepi64_epi32(_mm512_or_si512(all, slots)));
        if (beyond) held -= 8 - (unsigned)__builtin_ctz(beyond);
    }
    codes->held = held;
    codes->disorder = disorder, codes->long_codes = long_codes, codes->beyond = beyond;
}

/* Append the codes. *sum: of all codes so far the bits, and 2^32 for each; sums: the same after the last key of each
 * slot. */
ALWAYS_INLINE void pack_codes(const WideCodes *codes, BitWriter *writer, uint64_t *sum, uint64_t sums[16]) {
    for (unsigned i = 0; i < codes->held; i++) {
        uint64_t value = codes->values[i];
        unsigned bits = codes->infos[i] & 255;
        *sum += bits + ((uint64_t)1 << 32);
        sums[codes->infos[i] >> 8] = *sum;
        if (UNLIKELY(bits > WORD_CODE_BITS)) {
            put_code(writer, value & low_bits(32), 32);
            value >>= 32;
            bits -= 32;
        }
        put_code(writer, value, bits);
    }
}

/* Where each slot of the group ends, and how many keys there are up to then; whether no slot is large. */
ALWAYS_INLINE int slot_ends(const Encoder *encoder, const uint64_t sums[16], uint16_t ends[GROUP_SLOTS]) {
    uint64_t before = 0;
    for (unsigned i = 0; i < GROUP_SLOTS; i++) {
        uint64_t sum = sums[i] ? sums[i] : before; /* an empty slot ends where the one before it does */
        if ((sum - before) >> 32 > MAX_BLOCK_KEYS || (uint32_t)(sum - before) > MAX_BLOCK_BITS) return 0;
        ends[i] = (uint16_t)sum;
        if (encoder->ranks != NULL) encoder->ranks[encoder->slot + i + 1] = encoder->key_count + (sum >> 32);
        before = sum;
    }
    return 1;
}

/* As the other two; a group with a code of more than 64 bits is left to push_group_fast. */
ALWAYS_INLINE uint64_t push_group_wide_as(Encoder *encoder, const uint64_t *keys, uint64_t count, int codec) {
    if (!group_is_whole(encoder, keys, count)) return 0;
    const WideGroup group = wide_group(encoder);
    BitWriter writer = group_writer(&encoder->payload);
    WideCodes codes;
    uint64_t taken = 0, sum = 0, sums[16] = {0};
    uint16_t ends[GROUP_SLOTS];
    codes.disorder = codes.long_codes = codes.beyond = 0;
    while (!codes.beyond && taken <= GROUP_SLOTS * MAX_BLOCK_KEYS) {
        code_keys(&group, keys, count, taken, codec, &codes);
        if (codes.long_codes) return push_group_fast(encoder, keys, count);
        pack_codes(&codes, &writer, &sum, sums);
        taken += codes.held;
    }
    if (taken == 0 || codes.disorder || !codes.beyond || !slot_ends(encoder, sums, ends)) return 0;
    group_done(encoder, &writer, ends, (uint32_t)sum, keys, taken);
    return taken;
}

uint64_t push_group_wide(Encoder *encoder, const uint64_t *keys, uint64_t count) {
    return encoder->codec == CODEC_XOR ? push_group_wide_as(encoder, keys, count, CODEC_XOR)
                                       : push_group_wide_as(encoder, keys, count, CODEC_GAP);
}
