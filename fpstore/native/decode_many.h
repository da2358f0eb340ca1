/* Decoding WIDE_STREAMS stretches at once, in the 64-bit lanes of two vectors (AVX-512 with VBMI2). Included by
   decode_body.h.

   What look_up() does not know takes careful_step(). */

#include "lanes.h"

enum {
    VECTORS = WIDE_STREAMS / DECODE_LANES,
    LINES_AHEAD = 12, /* cache lines of the next chunk that are fetched for eight rows of this one: 48 bits a key */
};

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
    KERNEL(load_codes)(&chunk->code.wide, &codes);
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
                        unsigned slow = _mm512_mask_test_epi64_mask(streams.active[v], tail, unknown);
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

static void KERNEL(rows_many)(const uint8_t *base, const Table *table, Chunk *chunk) {
    if (table->codec == CODEC_GAP)
        KERNEL(rows_many_as)(base, table, chunk, CODEC_GAP);
    else
        KERNEL(rows_many_as)(base, table, chunk, CODEC_XOR);
}
