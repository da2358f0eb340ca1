/* Hashing and counting. Included once for each instruction set; see platform.h. */
#include "text_simhash.h"

#include "text_minhash_body.h"
#include "text_tokens_body.h"

/* Add the bits that this word of hashes has to ones, of up to COUNTED_AT_ONCE: bytes count. */
#ifdef KERNEL_IS_WIDE
ALWAYS_INLINE void KERNEL(count_word)(int64_t *ones, const uint64_t *hashes, size_t count, unsigned word) {
    __m512i bytes = _mm512_setzero_si512();
    for (size_t i = 0; i < count; i++)
        bytes = _mm512_mask_add_epi8(bytes, word_of(hashes[i], word), bytes, _mm512_set1_epi8(1));
    uint8_t counts[WORD_BITS];
    _mm512_storeu_si512(counts, bytes);
    for (int bit = 0; bit < WORD_BITS; bit++) ones[bit] += counts[bit];
}
#else
ALWAYS_INLINE void KERNEL(count_word)(int64_t *ones, const uint64_t *hashes, size_t count, unsigned word) {
    uint64_t lanes[8] = {0};
    for (size_t i = 0; i < count; i++) {
        const uint64_t own = word_of(hashes[i], word);
        for (int lane = 0; lane < 8; lane++) lanes[lane] += own >> lane & 0x0101010101010101u;
    }
    for (int bit = 0; bit < WORD_BITS; bit++) ones[bit] += lanes[bit & 7] >> (bit & 56) & 255;
}
#endif

/* Add the bits of hashes to ones, word by word. */
static void KERNEL(count_bits)(int64_t *ones, const uint64_t *hashes, size_t count, unsigned words) {
    while (count > 0) {
        const size_t some = count < COUNTED_AT_ONCE ? count : COUNTED_AT_ONCE;
        KERNEL(count_word)(ones, hashes, some, 0); /* apart, as its hashes are not mixed */
        for (unsigned word = 1; word < words; word++) KERNEL(count_word)(ones + WORD_BITS * word, hashes, some, word);
        hashes += some;
        count -= some;
    }
}

/* Add what the shingles weigh. Most occur once, and unless a model says otherwise these weigh the same: their bits are
   counted together. */
void KERNEL(add_shingles)(Document *document, const Steps *steps) {
    const uint64_t alike = steps->weights == IDF ? 0 : steps->weights == PRESENCE ? UINT64_MAX : 1;
    const size_t size = document->shingles.size;
    int64_t ones[MAX_SKETCH_BITS];
    size_t count = 0;
    memset(ones, 0, steps->words * WORD_BITS * sizeof *ones);
    for (size_t first = 0; first < size; first += SHINGLES_AT_ONCE) {
        const size_t last = size - first < SHINGLES_AT_ONCE ? size : first + SHINGLES_AT_ONCE;
        size_t some = 0;
        for (size_t i = first; i < last; i++) {
            const Cell cell = document->shingles.cells[i];
            document->hashes[some] = cell.hash;
            some += cell.value - 1 < alike; /* not where it is free */
            if (UNLIKELY(cell.value > alike))
                add_weighted(&document->sums, cell.hash, weight_of(steps, cell.hash, cell.value), steps->words);
        }
        KERNEL(count_bits)(ones, document->hashes, some, steps->words);
        count += some;
    }
    if (count == 0) return;
    const int64_t weight = weight_of(steps, 0, 1);
    for (unsigned bit = 0; bit < steps->words * WORD_BITS; bit++) document->sums.ones[bit] += weight * ones[bit];
    document->sums.total += weight * (int64_t)count;
}

#ifdef KERNEL_IS_WIDE
#define HASHED_AT_ONCE 64

/* The low and the high halves of products, folded. */
ALWAYS_INLINE __m512i KERNEL(fold_products)(__m512i a, __m512i b) {
    const __m512i low_half = _mm512_set1_epi64(0xFFFFFFFF);
    const __m512i a_high = _mm512_srli_epi64(a, 32), b_high = _mm512_srli_epi64(b, 32);
    const __m512i low = _mm512_mul_epu32(a, b), high = _mm512_mul_epu32(a_high, b_high);
    const __m512i one = _mm512_add_epi64(_mm512_mul_epu32(a_high, b), _mm512_srli_epi64(low, 32));
    const __m512i other = _mm512_add_epi64(_mm512_mul_epu32(a, b_high), _mm512_and_si512(one, low_half));
    const __m512i upper =
        _mm512_add_epi64(high, _mm512_add_epi64(_mm512_srli_epi64(one, 32), _mm512_srli_epi64(other, 32)));
    const __m512i lower = _mm512_mask_mov_epi32(_mm512_slli_epi64(other, 32), 0x5555, low);
    return _mm512_xor_si512(upper, lower);
}

ALWAYS_INLINE __m512i KERNEL(times)(__m512i a, uint64_t factor) {
    const __m512i low = _mm512_set1_epi64((long long)factor), high = _mm512_set1_epi64((long long)(factor >> 32));
    const __m512i crossed =
        _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(a, 32), low), _mm512_mul_epu32(a, high));
    return _mm512_add_epi64(_mm512_mul_epu32(a, low), _mm512_slli_epi64(crossed, 32));
}

ALWAYS_INLINE __m512i KERNEL(shifted_in)(__m512i hash, const int bits) {
    return _mm512_xor_si512(hash, _mm512_srli_epi64(hash, bits));
}

/* Eight slices: their first eight bytes and the eight behind, whatever they are of, their sizes, and which have 4 to 8
   bytes, 9 to 16, and 17 to 32. */
typedef struct {
    __m512i low, high, sizes;
    __mmask8 of_4, of_9, of_17;
} Slices;

/* The 16 bytes that begin `back` before each of eight places: the first eight of each, and the others. By loads, as to
   gather them takes longer. */
ALWAYS_INLINE void KERNEL(read_pairs)(const uint8_t *bytes, const uint32_t *places, size_t back, __m512i *low,
                                      __m512i *high) {
    __m512i pairs[2]; /* of the places with an even index, and of the others */
    for (int odd = 0; odd < 2; odd++) {
        const uint32_t *own = places + odd;
        pairs[odd] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(bytes + own[0] - back)));
        pairs[odd] = _mm512_inserti32x4(pairs[odd], _mm_loadu_si128((const __m128i *)(bytes + own[2] - back)), 1);
        pairs[odd] = _mm512_inserti32x4(pairs[odd], _mm_loadu_si128((const __m128i *)(bytes + own[4] - back)), 2);
        pairs[odd] = _mm512_inserti32x4(pairs[odd], _mm_loadu_si128((const __m128i *)(bytes + own[6] - back)), 3);
    }
    *low = _mm512_unpacklo_epi64(pairs[0], pairs[1]);
    *high = _mm512_unpackhi_epi64(pairs[0], pairs[1]);
}

/* Which of eight numbers lie in first..last. */
ALWAYS_INLINE __mmask8 KERNEL(lie_in)(__m256i numbers, uint32_t first, uint32_t last) {
    const __m256i from_first = _mm256_sub_epi32(numbers, _mm256_set1_epi32((int)first));
    return _mm256_cmple_epu32_mask(from_first, _mm256_set1_epi32((int)(last - first)));
}

/* Slices that end gap bytes before ends; of those behind the first count there is nothing. Behind the last token there
   is room to read. */
ALWAYS_INLINE Slices KERNEL(read_slices)(const uint8_t *bytes, const uint32_t *starts, const uint32_t *ends, size_t gap,
                                         size_t count) {
    const __mmask8 valid = (__mmask8)low_bits(count < 8 ? (unsigned)count : 8);
    const __m256i start = _mm256_maskz_loadu_epi32(valid, starts);
    const __m256i end = _mm256_sub_epi32(_mm256_maskz_loadu_epi32(valid, ends), _mm256_set1_epi32((int)gap));
    const __m256i size = _mm256_sub_epi32(end, start);
    uint32_t few[8];
    Slices slices;
    slices.of_4 = valid & KERNEL(lie_in)(size, 4, 8);
    slices.of_9 = valid & KERNEL(lie_in)(size, 9, 16);
    slices.of_17 = valid & KERNEL(lie_in)(size, 17, 32);
    slices.sizes = _mm512_cvtepu32_epi64(size);
    if (count < 8) _mm256_storeu_si256((__m256i *)few, start);
    KERNEL(read_pairs)(bytes, count < 8 ? few : starts, 0, &slices.low, &slices.high);
    return slices;
}

/* By how many bits the last eight bytes of slices of up to 8 bytes, or of 9 to 16, lie below the end of so many. */
ALWAYS_INLINE __m512i KERNEL(bits_short)(__m512i sizes, long long most) {
    return _mm512_slli_epi64(_mm512_sub_epi64(_mm512_set1_epi64(most), sizes), 3);
}

/* xxh3 of those that have 4 to 8 bytes; of the others anything. */
ALWAYS_INLINE __m512i KERNEL(xxh3_of_4)(const Slices *slices) {
    const __m512i known = _mm512_set1_epi64((long long)(secret(8) ^ secret(16)));
    const __m512i lasts = _mm512_sllv_epi64(slices->low, KERNEL(bits_short)(slices->sizes, 8));
    __m512i hash = _mm512_xor_si512(_mm512_shrdi_epi64(lasts, slices->low, 32), known);
    hash = _mm512_ternarylogic_epi64(hash, _mm512_rol_epi64(hash, 49), _mm512_rol_epi64(hash, 24), 0x96);
    hash = KERNEL(times)(hash, MX_2);
    hash = _mm512_xor_si512(hash, _mm512_add_epi64(_mm512_srli_epi64(hash, 35), slices->sizes));
    return KERNEL(shifted_in)(KERNEL(times)(hash, MX_2), 28);
}

/* The same of 9 to 16. */
ALWAYS_INLINE __m512i KERNEL(xxh3_of_9)(const Slices *slices) {
    const __m512i turned =
        _mm512_set_epi64(0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607,
                         0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607);
    const __m512i lasts = _mm512_shldv_epi64(slices->high, slices->low, KERNEL(bits_short)(slices->sizes, 16));
    const __m512i low = _mm512_xor_si512(slices->low, _mm512_set1_epi64((long long)(secret(24) ^ secret(32))));
    const __m512i high = _mm512_xor_si512(lasts, _mm512_set1_epi64((long long)(secret(40) ^ secret(48))));
    const __m512i sum = _mm512_add_epi64(_mm512_add_epi64(slices->sizes, _mm512_shuffle_epi8(low, turned)), high);
    const __m512i hash = KERNEL(shifted_in)(_mm512_add_epi64(sum, KERNEL(fold_products)(low, high)), 37);
    return KERNEL(shifted_in)(KERNEL(times)(hash, MX_1), 32);
}

/* xxh3 of those slices that have 4 to 16 bytes. A bit for each that has 17 to 32; the others are left. */
ALWAYS_INLINE uint64_t KERNEL(hash_short)(const uint8_t *bytes, const uint32_t *starts, const uint32_t *ends,
                                          size_t gap, size_t count, uint64_t *hashes, uint64_t *left) {
    uint64_t of_17 = 0;
    Slices next = KERNEL(read_slices)(bytes, starts, ends, gap, count);
    for (size_t i = 0; i < count; i += 8) {
        const Slices own = next; /* the next are read before these are hashed, which takes its time */
        if (count - i > 8) next = KERNEL(read_slices)(bytes, starts + i + 8, ends + i + 8, gap, count - i - 8);
        if (own.of_4 != 0) _mm512_mask_storeu_epi64(hashes + i, own.of_4, KERNEL(xxh3_of_4)(&own));
        if (own.of_9 != 0) _mm512_mask_storeu_epi64(hashes + i, own.of_9, KERNEL(xxh3_of_9)(&own));
        of_17 |= (uint64_t)own.of_17 << i;
        *left &= ~((uint64_t)(own.of_4 | own.of_9 | own.of_17) << i);
    }
    return of_17;
}

/* The same bits, where few have less. */
ALWAYS_INLINE uint64_t KERNEL(find_17)(const uint32_t *starts, const uint32_t *ends, size_t gap, size_t count) {
    const __m512i least = _mm512_set1_epi32((int)gap + 17), most = _mm512_set1_epi32(32 - 17);
    uint64_t found = 0;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 valid = (__mmask16)low_bits(count - i < 16 ? (unsigned)(count - i) : 16);
        const __m512i size =
            _mm512_sub_epi32(_mm512_maskz_loadu_epi32(valid, ends + i), _mm512_maskz_loadu_epi32(valid, starts + i));
        found |= (uint64_t)_mm512_mask_cmple_epu32_mask(valid, _mm512_sub_epi32(size, least), most) << i;
    }
    return found;
}

ALWAYS_INLINE __m512i KERNEL(mix_pairs)(const uint8_t *bytes, const uint32_t *places, size_t back, size_t secret_at) {
    __m512i low, high;
    KERNEL(read_pairs)(bytes, places, back, &low, &high);
    return KERNEL(fold_products)(_mm512_xor_si512(low, _mm512_set1_epi64((long long)secret(secret_at))),
                                 _mm512_xor_si512(high, _mm512_set1_epi64((long long)secret(secret_at + 8))));
}

/* xxh3 of eight slices of 17 to 32 bytes, given where each begins, and where it ends and gap bytes more. */
ALWAYS_INLINE __m512i KERNEL(xxh3_of_eight_17)(const uint8_t *bytes, const uint32_t *starts, const uint32_t *ends,
                                               size_t gap) {
    /* What each size is multiplied to begin with, by its last four bits: 32 comes first. */
    const __m512i of_32 = _mm512_set_epi64((long long)(23 * P64_1), (long long)(22 * P64_1), (long long)(21 * P64_1),
                                           (long long)(20 * P64_1), (long long)(19 * P64_1), (long long)(18 * P64_1),
                                           (long long)(17 * P64_1), (long long)(32 * P64_1));
    const __m512i of_24 = _mm512_set_epi64((long long)(31 * P64_1), (long long)(30 * P64_1), (long long)(29 * P64_1),
                                           (long long)(28 * P64_1), (long long)(27 * P64_1), (long long)(26 * P64_1),
                                           (long long)(25 * P64_1), (long long)(24 * P64_1));
    const __m256i behind = _mm256_loadu_si256((const __m256i *)ends);
    const __m256i size = _mm256_sub_epi32(_mm256_sub_epi32(behind, _mm256_loadu_si256((const __m256i *)starts)),
                                          _mm256_set1_epi32((int)gap));
    __m512i hash = _mm512_permutex2var_epi64(of_32, _mm512_cvtepu32_epi64(size), of_24);
    hash = _mm512_add_epi64(hash, KERNEL(mix_pairs)(bytes, starts, 0, 0));
    hash = _mm512_add_epi64(hash, KERNEL(mix_pairs)(bytes, ends, gap + 16, 16));
    return KERNEL(shifted_in)(KERNEL(times)(KERNEL(shifted_in)(hash, 37), MX_1), 32);
}

/* Those of up to HASHED_AT_ONCE numbers whose bits are set, side by side, and the first of them once more eight times.
   There is one at least, and room for 16 more than are asked for. */
ALWAYS_INLINE void KERNEL(take_marked)(uint32_t *out, const uint32_t *numbers, size_t count, uint64_t marked) {
    uint32_t *next = out;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 own = (__mmask16)(marked >> i);
        _mm512_storeu_si512(next, _mm512_maskz_compress_epi32(own, _mm512_maskz_loadu_epi32(own, numbers + i)));
        next += __builtin_popcount(own);
    }
    _mm256_storeu_si256((__m256i *)next, _mm256_set1_epi32((int)numbers[__builtin_ctzll(marked)]));
}

/* xxh3 of up to HASHED_AT_ONCE slices of the tokens' bytes: most have 4 to 32 bytes, and each kind is taken together,
   as nobody could foretell where one comes. are_short: whether many have no more than 16. halves: of a whole turn of
   hashes before these, or none: the minima are lowered to them meanwhile, so that the multiplier has work while the
   hashes wait for what they are made of. */
static void KERNEL(hash_slices)(const uint8_t *bytes, const uint32_t *starts, const uint32_t *ends, size_t gap,
                                size_t count, uint64_t *hashes, int are_short, HeldMinima *minima,
                                const uint32_t *halves, size_t half_count) {
    uint64_t left = low_bits((unsigned)count), of_17;
    if (are_short) {
        of_17 = KERNEL(hash_short)(bytes, starts, ends, gap, count, hashes, &left);
    } else {
        of_17 = KERNEL(find_17)(starts, ends, gap, count);
        left &= ~of_17;
    }
    for (; left != 0; left &= left - 1) {
        const size_t at = (size_t)__builtin_ctzll(left);
        hashes[at] = xxh3(bytes + starts[at], ends[at] - gap - starts[at]);
    }
    HeldMinima held = {0};
    size_t lowered = 0;
    if (half_count != 0) held = *minima;
    if (of_17 != 0) {
        const size_t some = (size_t)__builtin_popcountll(of_17);
        const int are_all = some == HASHED_AT_ONCE;
        uint32_t marked_starts[HASHED_AT_ONCE + 16], marked_ends[HASHED_AT_ONCE + 16];
        uint64_t marked_hashes[HASHED_AT_ONCE + 8], *out = are_all ? hashes : marked_hashes;
        if (!are_all) {
            KERNEL(take_marked)(marked_starts, starts, count, of_17);
            KERNEL(take_marked)(marked_ends, ends, count, of_17);
            starts = marked_starts;
            ends = marked_ends;
        }
        for (size_t i = 0; i < some; i += 8) {
            _mm512_storeu_si512(out + i, KERNEL(xxh3_of_eight_17)(bytes, starts + i, ends + i, gap));
            if (lowered == half_count) continue;
            KERNEL(lower_held)(&held, halves + lowered, 8);
            lowered += 8;
        }
        for (size_t i = 0; !are_all && i < count; i += 8) {
            const __mmask8 marked = (__mmask8)(of_17 >> i);
            _mm512_mask_storeu_epi64(hashes + i, marked, _mm512_maskz_expand_epi64(marked, _mm512_loadu_si512(out)));
            out += __builtin_popcount(marked);
        }
    }
    if (half_count == 0) return;
    KERNEL(lower_held)(&held, halves + lowered, half_count - lowered);
    *minima = held;
}
#endif

/* The hashes of count shingles of length tokens, from token first on. Whether the minima were lowered, too, where lower
   says that they may be. */
static int KERNEL(hash_shingles)(Document *document, const Steps *steps, size_t first, size_t count, size_t length,
                                 uint64_t *hashes, int lower) {
    const uint8_t *bytes = document->tokens.bytes;
    const uint32_t *starts = document->tokens.starts + first, *ends = starts + length;
    const size_t gap = steps->tokens.kind != CHARACTERS;
#ifdef KERNEL_IS_WIDE
    /* Where they have 24 bytes each at most in the mean. */
    const int are_short = count > 0 && length * (ends[count - 1] - starts[0]) < 24 * (count + length);
    if (steps->hash == XXH3) {
        uint32_t *values = document->minima.values;
        const uint32_t *factors = steps->permutations.factors, *terms = steps->permutations.terms;
        HeldMinima held = {0};
        uint32_t halves[HASHED_AT_ONCE];
        lower = lower && count > HASHED_AT_ONCE; /* else no turn is before another */
        if (lower) held = KERNEL(hold_minima)(values, factors, terms);
        size_t waiting = 0;
        for (size_t i = 0; i < count; i += HASHED_AT_ONCE) {
            const size_t some = count - i < HASHED_AT_ONCE ? count - i : HASHED_AT_ONCE;
            KERNEL(hash_slices)(bytes, starts + i, ends + i, gap, some, hashes + i, are_short, &held, halves, waiting);
            if (!lower) continue;
            KERNEL(put_halves)(halves, hashes + i, some);
            waiting = some;
        }
        if (!lower) return 0;
        KERNEL(lower_held)(&held, halves, waiting);
        KERNEL(put_minima)(&held, values);
        return 1;
    }
#else
    (void)lower;
#endif
    if (steps->hash == XXH3)
        for (size_t i = 0; i < count; i++) hashes[i] = xxh3(bytes + starts[i], ends[i] - starts[i] - gap);
    else
        for (size_t i = 0; i < count; i++) hashes[i] = hash_slice(steps, bytes + starts[i], ends[i] - starts[i] - gap);
    return 0;
}

/* What hashes become, which are in their place. */
ALWAYS_INLINE Status KERNEL(take_hashes)(Document *document, const Steps *steps, Reading reading,
                                         const uint64_t *hashes, size_t count) {
    if (document->keeps) document->kept.used += count;
    if (reading == LISTED) return OK;
    if (reading == COUNTED) return count_shingles(&document->shingles, hashes, count);
    if (steps->sketch == MINHASH_1BIT) {
        KERNEL(lower_minima)(&document->minima, &steps->permutations, hashes, count, steps->words);
    } else if (steps->sketch == MINHASH) {
        signature_take(&document->signature, &steps->signer, hashes, count);
    } else {
        KERNEL(count_bits)(document->sums.ones, hashes, count, steps->words);
        document->sums.total += (int64_t)count;
    }
    return OK;
}

/* Hash the first count shingles of length tokens. */
static Status KERNEL(take_first)(Document *document, const Steps *steps, Reading reading, size_t count, size_t length) {
    const int lower = reading == SKETCHED && steps->sketch == MINHASH_1BIT && steps->words == 1;
    for (size_t first = 0; first < count; first += SHINGLES_AT_ONCE) {
        const size_t some = count - first < SHINGLES_AT_ONCE ? count - first : SHINGLES_AT_ONCE;
        uint64_t *hashes = place_of_hashes(document, some);
        if (hashes == NULL) return NO_MEMORY;
        if (KERNEL(hash_shingles)(document, steps, first, some, length, hashes, lower)) {
            if (document->keeps) document->kept.used += some;
            continue;
        }
        if (KERNEL(take_hashes)(document, steps, reading, hashes, some) != OK) return NO_MEMORY;
    }
    return OK;
}

/* Hash the shingles of mixed tokens, whose length follows from the first of each, and drop those tokens that no later
   one needs. Where it is the last time, tokens with too few behind them begin no shingle. */
static Status KERNEL(take_mixed)(Document *document, const Steps *steps, Reading reading, int last) {
    const Tokens *tokens = &document->tokens;
    size_t first = 0, some = 0;
    if (!tokens->has_dense && tokens->count >= steps->shingle) { /* all of one length, and with a space */
        first = tokens->count - steps->shingle + 1;
        if (KERNEL(take_first)(document, steps, reading, first, steps->shingle) != OK) return NO_MEMORY;
        document->shingle_count += first;
    }
    const size_t left = tokens->count - first + 1, most = left < SHINGLES_AT_ONCE ? left : SHINGLES_AT_ONCE;
    uint64_t *hashes = place_of_hashes(document, most);
    if (hashes == NULL) return NO_MEMORY;
    for (; first < tokens->count; first++) {
        const size_t length = is_dense_token(tokens, first) ? steps->dense_shingle : steps->shingle;
        if (tokens->count - first < length) {
            if (last) continue;
            break;
        }
        const uint32_t start = tokens->starts[first], end = tokens->starts[first + length];
        const size_t size = end - start - (tokens->bytes[end - 1] == ' ');
        hashes[some++] =
            steps->hash == XXH3 ? xxh3(tokens->bytes + start, size) : hash_slice(steps, tokens->bytes + start, size);
        document->shingle_count++;
        if (some < SHINGLES_AT_ONCE) continue;
        if (KERNEL(take_hashes)(document, steps, reading, hashes, some) != OK) return NO_MEMORY;
        some = 0;
        hashes = place_of_hashes(document, most);
        if (hashes == NULL) return NO_MEMORY;
    }
    if (last && document->shingle_count == 0 && tokens->count > 0) {
        const uint32_t end = tokens->starts[tokens->count];
        hashes[some++] = hash_slice(steps, tokens->bytes, end - (tokens->bytes[end - 1] == ' '));
    }
    if (KERNEL(take_hashes)(document, steps, reading, hashes, some) != OK) return NO_MEMORY;
    document->token_count += first;
    tokens_slide(&document->tokens, tokens->count - first);
    return OK;
}

/* Hash the shingles of length tokens and drop those tokens that no later one needs. */
static Status KERNEL(take_shingles)(Document *document, const Steps *steps, Reading reading, size_t length) {
    if (document->tokens.count < length) return OK;
    const size_t count = document->tokens.count - length + 1;
    if (KERNEL(take_first)(document, steps, reading, count, length) != OK) return NO_MEMORY;
    document->token_count += count;
    tokens_slide(&document->tokens, length - 1);
    return OK;
}

Status KERNEL(document_read)(Document *document, const Steps *steps, Reading reading, const uint8_t *text,
                             size_t size) {
    const uint8_t *end = text + size;
    tokens_begin(&document->tokens);
    sums_clear(&document->sums, steps->words);
    minima_clear(&document->minima, steps->words);
    document->token_count = document->shingle_count = document->written = 0;
    if (reading == COUNTED && cells_clear(&document->shingles, cells_for(size)) != OK) return NO_MEMORY;
    while (text < end) {
        const uint8_t *stop = end - text > PIECE_BYTES ? text + PIECE_BYTES : end;
        const size_t before = document->tokens.used;
        if (KERNEL(put_piece)(&document->tokens, &steps->tokens, &text, stop, end) != OK) return NO_MEMORY;
        if (text == end && steps->tokens.kind != CHARACTERS) end_token(&document->tokens);
        document->written += document->tokens.used - before;
        if (steps->tokens.kind == MIXED) {
            if (KERNEL(take_mixed)(document, steps, reading, text == end) != OK) return NO_MEMORY;
        } else if (KERNEL(take_shingles)(document, steps, reading, steps->shingle) != OK) {
            return NO_MEMORY;
        }
    }
    if (steps->tokens.kind == MIXED) return OK;
    const size_t rest = document->tokens.count;
    if (document->token_count > 0 || rest == 0) { /* shingles were counted; the last has shingle - 1 tokens more */
        document->token_count += rest;
        return OK;
    }
    if (KERNEL(take_shingles)(document, steps, reading, rest) != OK) return NO_MEMORY;
    document->token_count = rest;
    return OK;
}
