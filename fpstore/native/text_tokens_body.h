/* The simple runs among the tokens: ASCII, and Chinese. Included once for each instruction set; see platform.h. */
#include "text_tokens.h"

/* Where the ASCII that begins at `at` ends. */
ALWAYS_INLINE const uint8_t *KERNEL(ascii_end)(const uint8_t *at, const uint8_t *stop) {
#ifdef KERNEL_IS_FAST
    for (; stop - at >= 32; at += 32) {
        const uint32_t others = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)at));
        if (others != 0) return at + __builtin_ctz(others);
    }
#endif
    while (stop - at >= 8 && (load64(at) & 0x8080808080808080u) == 0) at += 8;
    while (at < stop && *at < 0x80) at++;
    return at;
}

#ifdef KERNEL_IS_FAST
/* Of a block that is ASCII it is foretold where the next one begins. Without the branch the compiler would have that
   wait until it is known what this one has, which takes longer than all else. */
#define STAYS_A_BRANCH() __asm__ volatile("")

/* Up to 64 bytes, as far as han_size of them says, in lower case if so asked; which of them belong to words, and of
   ASCII which are visible. */
#ifdef KERNEL_IS_WIDE
typedef struct {
    __m512i bytes;
    uint64_t words, visible;
    unsigned size;
} ByteBlock;

ALWAYS_INLINE HanMasks KERNEL(han_masks)(__m512i bytes, uint64_t others) {
    const __m512i from_first = _mm512_sub_epi8(bytes, _mm512_set1_epi8((char)0xE4));
    return (HanMasks){others, _mm512_cmplt_epu8_mask(from_first, _mm512_set1_epi8(6)),
                      _mm512_testn_epi8_mask(from_first, from_first),
                      _mm512_mask_cmplt_epu8_mask(others, bytes, _mm512_set1_epi8((char)0xC0)),
                      _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8((char)0xB8))};
}

ALWAYS_INLINE ByteBlock KERNEL(read_block)(const uint8_t *at, unsigned size, TokenKind kind, int fold) {
    const uint64_t valid = low_bits(size);
    ByteBlock block = {_mm512_maskz_loadu_epi8(valid, at), 0, 0, size};
    const uint64_t others = _mm512_movepi8_mask(block.bytes);
    if (UNLIKELY(others != 0)) {
        STAYS_A_BRANCH();
        const HanMasks masks = KERNEL(han_masks)(block.bytes, others);
        block.size = kind == MIXED ? first_of(others, size) : han_size(&masks, size);
    }
    const __m512i lower = _mm512_or_si512(block.bytes, _mm512_set1_epi8(0x20));
    const uint64_t letters =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(lower, _mm512_set1_epi8('a')), _mm512_set1_epi8(26));
    block.visible =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(block.bytes, _mm512_set1_epi8('!')), _mm512_set1_epi8(0x7F - '!'));
    if (kind == CHARACTERS) {
        block.words = block.visible;
    } else if (kind != SEPARATED) {
        const uint64_t digits =
            _mm512_cmplt_epu8_mask(_mm512_sub_epi8(block.bytes, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
        block.words = letters | digits | _mm512_cmpeq_epi8_mask(block.bytes, _mm512_set1_epi8('_'));
    } else {
        block.words = _mm512_cmpneq_epi8_mask(block.bytes, _mm512_set1_epi8(SEPARATOR)) & valid;
    }
    block.words |= others;
    if (fold) block.bytes = _mm512_mask_mov_epi8(block.bytes, letters, lower);
    block.bytes = _mm512_mask_mov_epi8(_mm512_set1_epi8(' '), block.words, block.bytes);
    return block;
}

ALWAYS_INLINE void KERNEL(keep_bytes)(uint8_t *out, const ByteBlock *block, uint64_t kept) {
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, block->bytes));
}

/* Write base and the place of each bit, at least 16. */
ALWAYS_INLINE void KERNEL(write_places)(uint32_t *out, uint64_t bits, uint32_t base) {
    const __m512i numbers =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40,
                        39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
                        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i places = _mm512_maskz_compress_epi8(bits, numbers), bases = _mm512_set1_epi32((int)base);
    _mm512_storeu_si512(out, _mm512_add_epi32(bases, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places))));
    if (UNLIKELY(__builtin_popcountll(bits) > 16)) /* no more than 32: two ends are not side by side */
        _mm512_storeu_si512(out + 16,
                            _mm512_add_epi32(bases, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(places, 1))));
}
#else
typedef struct {
    uint8_t bytes[64];
    uint64_t words, visible;
    unsigned size;
} ByteBlock;

/* Which of 64 bytes lie in first..last. */
ALWAYS_INLINE uint64_t KERNEL(within)(const uint8_t *at, uint8_t first, uint8_t last) {
    uint64_t found = 0;
    for (int half = 0; half < 2; half++) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(at + 32 * half));
        const __m256i from_first = _mm256_sub_epi8(bytes, _mm256_set1_epi8((char)first));
        const __m256i nearest = _mm256_min_epu8(from_first, _mm256_set1_epi8((char)(last - first)));
        found |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(from_first, nearest)) << 32 * half;
    }
    return found;
}

ALWAYS_INLINE HanMasks KERNEL(han_masks)(const uint8_t *at, uint64_t others) {
    return (HanMasks){others, KERNEL(within)(at, 0xE4, 0xE9), KERNEL(within)(at, 0xE4, 0xE4),
                      KERNEL(within)(at, 0x80, 0xBF), KERNEL(within)(at, 0x80, 0xB7)};
}

ALWAYS_INLINE uint32_t KERNEL(read_half)(const uint8_t *at, TokenKind kind, int fold, uint8_t *out, uint32_t *visible) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)at);
    const __m256i lower = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
    const __m256i letters = _mm256_and_si256(_mm256_cmpgt_epi8(lower, _mm256_set1_epi8('a' - 1)),
                                             _mm256_cmpgt_epi8(_mm256_set1_epi8('z' + 1), lower));
    const __m256i digits = _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8('0' - 1)),
                                            _mm256_cmpgt_epi8(_mm256_set1_epi8('9' + 1), bytes));
    const __m256i underscores = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('_'));
    const __m256i separators = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(SEPARATOR));
    const __m256i ascii = _mm256_or_si256(_mm256_or_si256(letters, digits), underscores);
    const __m256i solid = _mm256_andnot_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(0x7F)),
                                              _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(' ')));
    const __m256i others =
        kind == CHARACTERS ? solid : _mm256_xor_si256(separators, _mm256_set1_epi8(-1)); /* of separated tokens */
    const __m256i words = _mm256_or_si256(bytes, kind == CHARACTERS || kind == SEPARATED ? others : ascii);
    const __m256i low = fold ? _mm256_blendv_epi8(bytes, lower, letters) : bytes;
    _mm256_storeu_si256((__m256i *)out, _mm256_blendv_epi8(_mm256_set1_epi8(' '), low, words));
    *visible = (uint32_t)_mm256_movemask_epi8(solid);
    return (uint32_t)_mm256_movemask_epi8(words);
}

ALWAYS_INLINE ByteBlock KERNEL(read_block)(const uint8_t *at, unsigned size, TokenKind kind, int fold) {
    ByteBlock block;
    uint8_t padded[64] = {0};
    if (size < 64) {
        memcpy(padded, at, size);
        at = padded;
    }
    block.size = size;
    const uint64_t others = KERNEL(within)(at, 0x80, 0xFF);
    if (UNLIKELY(others != 0)) {
        STAYS_A_BRANCH();
        const HanMasks masks = KERNEL(han_masks)(at, others);
        block.size = kind == MIXED ? first_of(others, size) : han_size(&masks, size);
    }
    uint32_t low, high;
    block.words = KERNEL(read_half)(at, kind, fold, block.bytes, &low);
    block.words |= (uint64_t)KERNEL(read_half)(at + 32, kind, fold, block.bytes + 32, &high) << 32;
    block.visible = (uint64_t)high << 32 | low;
    return block;
}

ALWAYS_INLINE void KERNEL(keep_bytes)(uint8_t *out, const ByteBlock *block, uint64_t kept) {
    for (int i = 0; i < 64; i += 8) {
        const uint64_t mask = _pdep_u64(kept >> i, 0x0101010101010101u) * 255;
        store64(out, _pext_u64(load64(block->bytes + i), mask));
        out += __builtin_popcountll(mask) / 8;
    }
}

ALWAYS_INLINE void KERNEL(write_places)(uint32_t *out, uint64_t bits, uint32_t base) {
    for (; bits != 0; bits &= bits - 1) *out++ = base + (uint32_t)__builtin_ctzll(bits);
}
#endif

/* Words or separated tokens from `from` on: what belongs to them, and a space for the first byte after each. Returns
   where that ends: at stop, or before what han_size does not count or what something joins. */
ALWAYS_INLINE const uint8_t *KERNEL(put_blocks)(Tokens *tokens, const TokenSteps *steps, TokenKind kind, int fold,
                                                const uint8_t *from, const uint8_t *stop, const uint8_t *end) {
    /* Of their own, as what is written could be any of the fields. */
    uint8_t *const bytes = tokens->bytes, *out = bytes + tokens->used;
    uint32_t *next_start = tokens->starts + tokens->count + 1;
    uint64_t open = (uint64_t)tokens->in_token, signs = 0;
    while (from < stop) {
        __builtin_prefetch(from + AHEAD_BYTES);
        const ByteBlock block = KERNEL(read_block)(from, stop - from < 64 ? (unsigned)(stop - from) : 64, kind, fold);
        unsigned size = block.size;
        const uint8_t *next = from + size;
        if (size > 0 && next < end && *next >= 0x80 && !is_han_lead(*next) && joins_at(steps, next, end))
            size -= next[-1] < 0x80 ? 1 : 3;
        if (size == 0) break;
        const uint64_t valid = low_bits(size), words = block.words & valid;
        const uint64_t ends = (words << 1 | open) & ~words & valid, kept = words | ends;
        KERNEL(keep_bytes)(out, &block, kept);
        KERNEL(write_places)(next_start, _pext_u64(ends, kept), (uint32_t)(out - bytes) + 1);
        out += __builtin_popcountll(kept);
        next_start += __builtin_popcountll(ends);
        if (kind != SEPARATED) signs += (uint64_t)__builtin_popcountll(block.visible & ~words & valid);
        open = words >> (size - 1) & 1;
        from += size;
    }
    tokens->used = (size_t)(out - bytes);
    tokens->count = (size_t)(next_start - tokens->starts) - 1;
    tokens->signs += signs;
    tokens->in_token = (int)open;
    return from;
}

/* Characters of ASCII, as put_characters has them: each is a token of one byte, and so is the space that is the last of
   what is between two of them. */
static void KERNEL(put_solid)(Tokens *tokens, int fold, const uint8_t *from, const uint8_t *to) {
    while (from < to) {
        const unsigned size = to - from < 64 ? (unsigned)(to - from) : 64;
        const ByteBlock block = KERNEL(read_block)(from, size, CHARACTERS, fold);
        const uint64_t solid = block.words & low_bits(size);
        from += size;
        if (solid == 0) {
            tokens->gap = tokens->in_token;
            continue;
        }
        if (tokens->gap && (solid & 1)) {
            tokens->bytes[tokens->used++] = ' ';
            tokens->starts[++tokens->count] = (uint32_t)tokens->used;
        }
        uint64_t kept = solid | (~solid & solid >> 1);
        if (!tokens->in_token) kept &= 0 - (solid & (0 - solid)); /* none before the first */
        const unsigned count = (unsigned)__builtin_popcountll(kept);
        KERNEL(keep_bytes)(tokens->bytes + tokens->used, &block, kept);
        uint32_t *next = tokens->starts + tokens->count + 1;
        for (unsigned i = 0; i < count; i++) next[i] = (uint32_t)tokens->used + i + 1;
        tokens->used += count;
        tokens->count += count;
        tokens->in_token = 1;
        tokens->gap = !(solid >> (size - 1) & 1);
    }
}
#endif

/* ASCII for any kind but characters, without a branch on what is read. */
static void KERNEL(put_each)(Tokens *tokens, const uint8_t *becomes, const uint8_t *from, const uint8_t *to) {
    uint8_t *out = tokens->bytes + tokens->used;
    uint32_t *next = tokens->starts + tokens->count + 1;
    unsigned open = (unsigned)tokens->in_token;
    uint64_t signs = tokens->signs;
    for (; from < to; from++) {
        const uint8_t byte = becomes[*from];
        const unsigned ends = byte >> 7;
        signs += byte & ends;
        *out = ends ? ' ' : byte;
        out += open | !ends;
        *next = (uint32_t)(out - tokens->bytes);
        next += open & ends;
        open = !ends;
    }
    tokens->used = (size_t)(out - tokens->bytes);
    tokens->count = (size_t)(next - tokens->starts) - 1;
    tokens->in_token = (int)open;
    tokens->signs = signs;
}

#ifndef KERNEL_IS_FAST
/* Characters: each is a token, and one space for what is between them. */
static void KERNEL(put_characters)(Tokens *tokens, const uint8_t *becomes, const uint8_t *from, const uint8_t *to) {
    uint8_t *out = tokens->bytes + tokens->used;
    uint32_t *next = tokens->starts + tokens->count + 1;
    unsigned begun = (unsigned)tokens->in_token, gap = (unsigned)tokens->gap;
    for (; from < to; from++) {
        const uint8_t byte = becomes[*from];
        const unsigned solid = byte != BETWEEN;
        *out = ' ';
        out += gap & solid;
        *next = (uint32_t)(out - tokens->bytes);
        next += gap & solid;
        *out = byte;
        out += solid;
        *next = (uint32_t)(out - tokens->bytes);
        next += solid;
        begun |= solid;
        gap = begun & !solid;
    }
    tokens->used = (size_t)(out - tokens->bytes);
    tokens->count = (size_t)(next - tokens->starts) - 1;
    tokens->in_token = (int)begun;
    tokens->gap = (int)gap;
}
#endif

/* Append what begins at `from` as far as it is simple: ASCII, for one. Returns where that ends, at stop at the latest;
   nothing before it is joined by what is there. */
static const uint8_t *KERNEL(put_simple)(Tokens *tokens, const TokenSteps *steps, const uint8_t *from,
                                         const uint8_t *stop, const uint8_t *end) {
    const int fold = (steps->flags & FOLD_CHANGES) != 0;
#ifdef KERNEL_IS_FAST
    if (steps->kind == WORDS)
        return fold ? KERNEL(put_blocks)(tokens, steps, WORDS, 1, from, stop, end)
                    : KERNEL(put_blocks)(tokens, steps, WORDS, 0, from, stop, end);
    if (steps->kind == SEPARATED) return KERNEL(put_blocks)(tokens, steps, SEPARATED, fold, from, stop, end);
    if (steps->kind == MIXED)
        return fold ? KERNEL(put_blocks)(tokens, steps, MIXED, 1, from, stop, end)
                    : KERNEL(put_blocks)(tokens, steps, MIXED, 0, from, stop, end);
#endif
    const uint8_t *becomes = ascii_becomes[steps->kind][fold], *to = KERNEL(ascii_end)(from, stop);
    if (to > from && joins_at(steps, to, end)) to--;
#ifdef KERNEL_IS_FAST
    if (steps->kind == CHARACTERS) KERNEL(put_solid)(tokens, fold, from, to);
#else
    if (steps->kind == CHARACTERS) KERNEL(put_characters)(tokens, becomes, from, to);
#endif
    else
        KERNEL(put_each)(tokens, becomes, from, to);
    return to;
}

/* Read the document from *at to stop, or a bit over. Nothing before *at joins what is there. */
Status KERNEL(put_piece)(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop,
                         const uint8_t *end) {
    const size_t size = (size_t)(stop - *at);
    if (tokens_reserve(tokens, 3 * size, 2 * size) != OK) return NO_MEMORY;
    tokens->starts[0] = 0;
#ifdef KERNEL_IS_FAST
    const unsigned letters = 4; /* put_simple takes a block of them for the price of a few */
#else
    const unsigned letters = UINT_MAX;
#endif
    while (*at < stop) {
        if (steps->kind == MIXED && **at < 0x80 && tokens->in_token == IN_DENSE) end_token(tokens);
        const uint8_t *others =
            steps->kind == MIXED && **at >= 0x80 ? *at : KERNEL(put_simple)(tokens, steps, *at, stop, end);
        *at = others;
        if (others < stop && steps->kind != CHARACTERS)
            *at = steps->kind == MIXED ? put_mixed(tokens, steps, others, stop, end)
                                       : put_plain(tokens, steps, letters, others, stop, end);
        if (*at == others && others < stop && put_others(tokens, steps, at, stop, end) != OK) return NO_MEMORY;
    }
    return OK;
}
