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

/* The hashes of count shingles of length tokens, from token first on. */
static void KERNEL(hash_shingles)(Document *document, const Steps *steps, size_t first, size_t count, size_t length) {
    const uint8_t *bytes = document->tokens.bytes;
    const uint32_t *starts = document->tokens.starts + first, *ends = starts + length;
    const size_t gap = steps->tokens.kind != CHARACTERS;
    if (steps->hash == XXH3)
        for (size_t i = 0; i < count; i++) document->hashes[i] = xxh3(bytes + starts[i], ends[i] - starts[i] - gap);
    else
        for (size_t i = 0; i < count; i++)
            document->hashes[i] = hash_slice(steps, bytes + starts[i], ends[i] - starts[i] - gap);
}

/* What hashes become. */
ALWAYS_INLINE Status KERNEL(take_hashes)(Document *document, const Steps *steps, Reading reading, size_t count) {
    if (document->keeps && keep_hashes(document, count) != OK) return NO_MEMORY;
    if (reading == LISTED) return OK;
    if (reading == COUNTED) return count_shingles(&document->shingles, document->hashes, count);
    if (steps->sketch == MINHASH_1BIT) {
        KERNEL(lower_minima)(&document->minima, &steps->permutations, document->hashes, count, steps->words);
    } else if (steps->sketch == MINHASH) {
        signature_take(&document->signature, &steps->signer, document->hashes, count);
    } else {
        KERNEL(count_bits)(document->sums.ones, document->hashes, count, steps->words);
        document->sums.total += (int64_t)count;
    }
    return OK;
}

/* Hash the shingles of mixed tokens, whose length follows from the first of each, and drop those tokens that no later
   one needs. Where it is the last time, tokens with too few behind them begin no shingle. */
static Status KERNEL(take_mixed)(Document *document, const Steps *steps, Reading reading, int last) {
    const Tokens *tokens = &document->tokens;
    size_t first = 0, some = 0;
    for (; first < tokens->count; first++) {
        const size_t length = is_dense_token(tokens, first) ? steps->dense_shingle : steps->shingle;
        if (tokens->count - first < length) {
            if (last) continue;
            break;
        }
        const uint32_t start = tokens->starts[first], end = tokens->starts[first + length];
        const size_t size = end - start - (tokens->bytes[end - 1] == ' ');
        document->hashes[some++] =
            steps->hash == XXH3 ? xxh3(tokens->bytes + start, size) : hash_slice(steps, tokens->bytes + start, size);
        document->shingle_count++;
        if (some < SHINGLES_AT_ONCE) continue;
        if (KERNEL(take_hashes)(document, steps, reading, some) != OK) return NO_MEMORY;
        some = 0;
    }
    if (KERNEL(take_hashes)(document, steps, reading, some) != OK) return NO_MEMORY;
    if (last && document->shingle_count == 0 && tokens->count > 0) {
        const uint32_t end = tokens->starts[tokens->count];
        document->hashes[0] = hash_slice(steps, tokens->bytes, end - (tokens->bytes[end - 1] == ' '));
        if (KERNEL(take_hashes)(document, steps, reading, 1) != OK) return NO_MEMORY;
    }
    document->token_count += first;
    tokens_slide(&document->tokens, tokens->count - first);
    return OK;
}

/* Hash the shingles of length tokens and drop those tokens that no later one needs. */
static Status KERNEL(take_shingles)(Document *document, const Steps *steps, Reading reading, size_t length) {
    if (document->tokens.count < length) return OK;
    const size_t count = document->tokens.count - length + 1;
    for (size_t first = 0; first < count; first += SHINGLES_AT_ONCE) {
        const size_t some = count - first < SHINGLES_AT_ONCE ? count - first : SHINGLES_AT_ONCE;
        KERNEL(hash_shingles)(document, steps, first, some, length);
        if (KERNEL(take_hashes)(document, steps, reading, some) != OK) return NO_MEMORY;
    }
    document->token_count += count;
    tokens_slide(&document->tokens, length - 1);
    return OK;
}

Status KERNEL(document_read)(Document *document, const Steps *steps, Reading reading, const uint8_t *text, size_t size) {
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
