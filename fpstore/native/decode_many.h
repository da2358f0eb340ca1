/* Decoding WIDE_STREAMS stretches at once, in the 64-bit lanes of two vectors (AVX-512 with VBMI2). Included by
   decode_body.h.

   A code is looked up in registers: the next 6 bits of the stream choose among 64 bytes; where they begin with as many
   ones as longer codes do, the 7 bits after these choose among 128 others. What neither knows takes careful_step(). */

enum {
    VECTORS = WIDE_STREAMS / DECODE_LANES,
    LINES_AHEAD = 12, /* cache lines of the next chunk that are fetched for eight rows of this one: 48 bits a key */
};

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

/* Store eight rows of sums, one lane of each a stream, to where each stream's next rows go; and the ends of their
   codes, 16 bits each, of which a lane of `ends` holds four. */
ALWAYS_INLINE void KERNEL(store_rows)(Chunk *chunk, const uint64_t *offsets, const __m512i *rows, __m512i first_ends,
                                      __m512i last_ends) {
    __m512i pairs[8], quads[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        pairs[i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
        pairs[4 + i] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        quads[0] = _mm512_shuffle_i64x2(pairs[4 * odd], pairs[4 * odd + 1], 0x88);
        quads[1] = _mm512_shuffle_i64x2(pairs[4 * odd + 2], pairs[4 * odd + 3], 0x88);
        quads[2] = _mm512_shuffle_i64x2(pairs[4 * odd], pairs[4 * odd + 1], 0xdd);
        quads[3] = _mm512_shuffle_i64x2(pairs[4 * odd + 2], pairs[4 * odd + 3], 0xdd);
        _mm512_storeu_si512(chunk->sums + 1 + offsets[0 + odd], _mm512_shuffle_i64x2(quads[0], quads[1], 0x88));
        _mm512_storeu_si512(chunk->sums + 1 + offsets[2 + odd], _mm512_shuffle_i64x2(quads[2], quads[3], 0x88));
        _mm512_storeu_si512(chunk->sums + 1 + offsets[4 + odd], _mm512_shuffle_i64x2(quads[0], quads[1], 0xdd));
        _mm512_storeu_si512(chunk->sums + 1 + offsets[6 + odd], _mm512_shuffle_i64x2(quads[2], quads[3], 0xdd));
        __m512i ends =
            odd ? _mm512_unpackhi_epi64(first_ends, last_ends) : _mm512_unpacklo_epi64(first_ends, last_ends);
        _mm_storeu_si128((__m128i *)(chunk->ends + offsets[0 + odd]), _mm512_castsi512_si128(ends));
        _mm_storeu_si128((__m128i *)(chunk->ends + offsets[2 + odd]), _mm512_extracti32x4_epi32(ends, 1));
        _mm_storeu_si128((__m128i *)(chunk->ends + offsets[4 + odd]), _mm512_extracti32x4_epi32(ends, 2));
        _mm_storeu_si128((__m128i *)(chunk->ends + offsets[6 + odd]), _mm512_extracti32x4_epi32(ends, 3));
    }
}

/* Where the streams stand: lane i of vector v is stream 8 v + i. */
typedef struct {
    __m512i at[VECTORS], sum[VECTORS];               /* the next code of each; the sum of its deltas so far */
    __m512i begin[VECTORS];                          /* where one that has ended goes on, to no purpose */
    __mmask8 active[VECTORS];                        /* those that have not ended; the other lanes stand still */
    uint64_t offsets[WIDE_STREAMS];                  /* of each stream's next row among chunk->sums */
    uint64_t end[WIDE_STREAMS], limit[WIDE_STREAMS]; /* where it ends, in bits; more rows than it can have */
} Streams;

/* How codes decode, in registers. */
typedef struct {
    __m512i near_advance, near_tail, far_advance[2], far_tail[2], far_ones, far_shift;
} Codes;

/* Of 128 bytes in two vectors, those that the low bytes of `index` name. */
#define LOW_BYTES ((__mmask64)0x0101010101010101)
#define LOOK_UP(bytes, index) _mm512_maskz_permutex2var_epi8(LOW_BYTES, bytes[0], index, bytes[1])

ALWAYS_INLINE void KERNEL(load_codes)(const WideCode *code, Codes *codes) {
    codes->near_advance = _mm512_loadu_si512(code->near_advance);
    codes->near_tail = _mm512_loadu_si512(code->near_tail);
    for (unsigned half = 0; half < 2; half++) {
        codes->far_advance[half] = _mm512_loadu_si512(code->far_advance + 64 * half);
        codes->far_tail[half] = _mm512_loadu_si512(code->far_tail + 64 * half);
    }
    codes->far_ones = _mm512_set1_epi64((long long)low_bits(code->far_ones));
    codes->far_shift = _mm512_set1_epi64(code->far_ones);
}

/* What the code at the low end of each word takes, with its tail, and the bits of its tail. An advance of WIDE_FAR and
   more leaves the code to slow_lanes(). */
ALWAYS_INLINE void KERNEL(look_up)(const Codes *codes, __m512i word, __m512i *advance, __m512i *tail) {
    __mmask8 far = _mm512_cmpeq_epi64_mask(_mm512_and_si512(word, codes->far_ones), codes->far_ones);
    __m512i far_word = _mm512_srlv_epi64(word, codes->far_shift);
    *advance = _mm512_maskz_permutexvar_epi8(LOW_BYTES, word, codes->near_advance);
    *tail = _mm512_maskz_permutexvar_epi8(LOW_BYTES, word, codes->near_tail);
    *advance = _mm512_mask_mov_epi64(*advance, far, LOOK_UP(codes->far_advance, far_word));
    *tail = _mm512_mask_mov_epi64(*tail, far, LOOK_UP(codes->far_tail, far_word));
}

/* The streams at the starts of their stretches. One without a stretch does what the first one does, elsewhere. */
ALWAYS_INLINE void KERNEL(begin_streams)(const Chunk *chunk, Streams *streams) {
    uint64_t start[WIDE_STREAMS];
    for (unsigned i = 0; i < WIDE_STREAMS; i++) {
        const Stretch *stretch = &chunk->stretches[i < chunk->count ? i : 0];
        start[i] = stretch->start;
        streams->end[i] = i < chunk->count ? stretch->end : 0;
        streams->offsets[i] = i < chunk->count ? stretch->first_row : 2 * STREAM_ROWS;
        streams->limit[i] =
            streams->offsets[i] + (uint64_t)(stretch->end_block - stretch->first_block) * MAX_BLOCK_KEYS;
    }
    for (unsigned v = 0; v < VECTORS; v++) {
        streams->at[v] = streams->begin[v] = _mm512_loadu_si512(start + 8 * v);
        streams->sum[v] = _mm512_setzero_si512();
        streams->active[v] = _mm512_cmplt_epu64_mask(streams->at[v], _mm512_loadu_si512(streams->end + 8 * v));
    }
}

/* The lanes `slow` of a row again, from where they stood (before: places and sums), with careful_step(); after: what it
   makes of them. Returns the lanes that go on. */
static __attribute__((noinline)) unsigned KERNEL(slow_lanes)(const uint8_t *base, const Table *table,
                                                             Stretch *stretches, unsigned slow, const uint64_t *offsets,
                                                             unsigned row, const uint64_t before[2][8],
                                                             uint64_t after[2][8]) {
    unsigned on = 0;
    for (; slow != 0; slow &= slow - 1) {
        unsigned i = (unsigned)__builtin_ctz(slow);
        after[0][i] = before[0][i], after[1][i] = before[1][i];
        uint64_t rows = offsets[i] - stretches[i].first_row + row;
        if (KERNEL(careful_step)(base, table, &stretches[i], rows, &after[0][i], &after[1][i])) on |= 1u << i;
    }
    return on;
}

/* Eight rows are stored: note which streams have ended, past their end or with all the rows that their blocks can have,
   and set these back. Returns whether others go on. */
ALWAYS_INLINE unsigned KERNEL(end_streams)(Chunk *chunk, Streams *streams, unsigned v, __mmask8 begun) {
    __m512i here = _mm512_loadu_si512(streams->offsets + 8 * v);
    here = _mm512_mask_add_epi64(here, begun, here, _mm512_set1_epi64(8));
    _mm512_storeu_si512(streams->offsets + 8 * v, here);
    __mmask8 on = _mm512_cmplt_epu64_mask(streams->at[v], _mm512_loadu_si512(streams->end + 8 * v));
    on &= _mm512_cmplt_epu64_mask(here, _mm512_loadu_si512(streams->limit + 8 * v));
    for (unsigned ended = streams->active[v] & (unsigned)~on; ended != 0; ended &= ended - 1) {
        unsigned i = 8 * v + (unsigned)__builtin_ctz(ended);
        chunk->stretches[i].rows = streams->offsets[i] - chunk->stretches[i].first_row;
    }
    streams->active[v] &= on;
    streams->at[v] = _mm512_mask_mov_epi64(streams->begin[v], streams->active[v], streams->at[v]);
    return streams->active[v];
}

/* Decode all stretches to their ends, eight rows at a time: two loads of 16 bytes hold the two codes of a pair of rows,
   as none is longer than WIDE_BITS. A stream may run past its end by seven codes of WIDE_BITS before it loads 16 bytes:
   64 bytes more than its payload, which a file always has (its footer). The chunk after this one, which likely is as
   long, is fetched meanwhile: the streams are too short for the processor to see them coming. */
ALWAYS_INLINE void KERNEL(rows_many_as)(const uint8_t *base, const Table *table, Chunk *chunk, int codec) {
    const __m512i one = _mm512_set1_epi64(1), seven = _mm512_set1_epi64(7), unknown = _mm512_set1_epi64(WIDE_FAR);
    Codes codes;
    Streams streams;
    KERNEL(load_codes)(&chunk->wide, &codes);
    KERNEL(begin_streams)(chunk, &streams);
    const uint64_t first = chunk->stretches[0].start >> 3, next = chunk->blocks[chunk->block_count - 1].end >> 3;
    const uint8_t *ahead = base + next, *ahead_end = ahead + (next - first);
    for (unsigned running = 1; running;) {
        for (unsigned i = 0; i < LINES_AHEAD && ahead < ahead_end; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
        __m512i rows[VECTORS][8], ends[VECTORS][2] = {{one, one}, {one, one}};
        __mmask8 begun[VECTORS];
#pragma GCC unroll 2
        for (unsigned v = 0; v < VECTORS; v++) begun[v] = streams.active[v];
#pragma GCC unroll 2
        for (unsigned half = 0; half < 2; half++)
            for (unsigned row = 4 * half; row < 4 * half + 4; row += 2) {
                __m512i low[VECTORS], high[VECTORS], bit[VECTORS];
#pragma GCC unroll 2
                for (unsigned v = 0; v < VECTORS; v++) {
                    KERNEL(load_words)(base, _mm512_srli_epi64(streams.at[v], 3), &low[v], &high[v]);
                    bit[v] = _mm512_and_si512(streams.at[v], seven);
                }
#pragma GCC unroll 2
                for (unsigned second = 0; second < 2; second++)
#pragma GCC unroll 2
                    for (unsigned v = 0; v < VECTORS; v++) {
                        __m512i at = streams.at[v], sum = streams.sum[v], advance, tail;
                        __m512i word = _mm512_shrdv_epi64(low[v], high[v], bit[v]);
                        KERNEL(look_up)(&codes, word, &advance, &tail);
                        __m512i delta = _mm512_shldv_epi64(one, _mm512_rorv_epi64(word, advance), tail);
                        __m512i next_at = _mm512_mask_add_epi64(at, streams.active[v], at, advance);
                        __m512i next_sum =
                            codec == CODEC_XOR ? _mm512_xor_si512(sum, delta) : _mm512_add_epi64(sum, delta);
                        unsigned slow = _mm512_mask_test_epi64_mask(streams.active[v], advance, unknown);
                        bit[v] = _mm512_add_epi64(bit[v], advance);
                        if (UNLIKELY(slow)) {
                            uint64_t before[2][8], after[2][8];
                            _mm512_storeu_si512(before[0], at), _mm512_storeu_si512(before[1], sum);
                            _mm512_storeu_si512(after[0], next_at), _mm512_storeu_si512(after[1], next_sum);
                            unsigned on = KERNEL(slow_lanes)(base, table, chunk->stretches + 8 * v, slow,
                                                             streams.offsets + 8 * v, row + second, before, after);
                            streams.active[v] &= (__mmask8)(~slow | on);
                            next_at = _mm512_loadu_si512(after[0]), next_sum = _mm512_loadu_si512(after[1]);
                            /* The second row of the pair needs its bits from where the slow code ended. */
                            __m512i from = _mm512_mask_mov_epi64(streams.begin[v], streams.active[v], next_at);
                            if (second == 0) KERNEL(load_words)(base, _mm512_srli_epi64(from, 3), &low[v], &high[v]);
                            bit[v] = _mm512_and_si512(from, seven);
                        }
                        streams.at[v] = next_at, streams.sum[v] = next_sum;
                        rows[v][row + second] = next_sum;
                        ends[v][half] = _mm512_shrdi_epi64(ends[v][half], next_at, 16);
                    }
            }
        running = 0;
#pragma GCC unroll 2
        for (unsigned v = 0; v < VECTORS; v++) {
            KERNEL(store_rows)(chunk, streams.offsets + 8 * v, rows[v], ends[v][0], ends[v][1]);
            running |= KERNEL(end_streams)(chunk, &streams, v, begun[v]);
        }
    }
}

#undef LOOK_UP
#undef LOW_BYTES

static void KERNEL(rows_many)(const uint8_t *base, const Table *table, Chunk *chunk) {
    if (table->codec == CODEC_GAP)
        KERNEL(rows_many_as)(base, table, chunk, CODEC_GAP);
    else
        KERNEL(rows_many_as)(base, table, chunk, CODEC_XOR);
}
