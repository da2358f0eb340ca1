/* Decoding one key, one block, a chunk of blocks. Included once for each instruction set; see platform.h. */
#include "decode.h"

#include "step_body.h"

ALWAYS_INLINE Status KERNEL(block_as)(const Pages *pages, const Table *table, const Block *block, uint64_t last_key,
                                      int codec, unsigned fixed_bits, uint64_t *out, uint64_t *count) {
    uint64_t at = block->start, key = block->previous, stored = 0;
    const uint64_t most = table->block_bytes != 0 ? block->end - block->start : MAX_BLOCK_KEYS;
    if (table->block_bytes != 0) {
        key = KERNEL(bits_at)(pages->base, at, table->key_bits);
        at += table->key_bits;
        if (UNLIKELY(key <= block->previous && !(key == block->previous && block->first_of_slot))) return BAD_BLOCK;
        out[stored++] = key;
    }
    while (at < block->end) {
        uint64_t before = key;
        Status status = KERNEL(step)(pages->base, table->decode, fixed_bits, codec, &at, &key);
        if (UNLIKELY(status != OK)) return status;
        if (UNLIKELY(key <= before && !(key == before && stored == 0 && block->first_of_slot))) return BAD_BLOCK;
        if (UNLIKELY(stored == most)) return BAD_BLOCK;
        out[stored++] = key;
    }
    if (UNLIKELY(at != block->end || key > last_key)) return BAD_BLOCK;
    if (UNLIKELY(table->block_bytes != 0 && key != last_key)) return BAD_BLOCK;
    *count = stored;
    return OK;
}

Status KERNEL(decode_block)(const Pages *pages, const Table *table, const Block *block, uint64_t last_key,
                            uint64_t *out, uint64_t *count) {
#define BLOCK_AS(codec, fixed_bits) KERNEL(block_as)(pages, table, block, last_key, codec, fixed_bits, out, count)
    switch (table->codec) {
    case CODEC_GAP: return BLOCK_AS(CODEC_GAP, 0);
    case CODEC_XOR: return BLOCK_AS(CODEC_XOR, 0);
    case CODEC_RICE: return BLOCK_AS(CODEC_RICE, table->fixed_bits);
    default: return table->fixed_bits == 64 ? BLOCK_AS(CODEC_RAW, 64) : BLOCK_AS(CODEC_RAW, table->fixed_bits);
    }
#undef BLOCK_AS
}

/* step() for nearly all codes; an advance past every end says that this one takes step() itself. */
ALWAYS_INLINE void KERNEL(near_step)(const uint8_t *base, const Chunk *chunk, unsigned fixed_bits, int codec,
                                     uint64_t *at, uint64_t *sum) {
    if (codec == CODEC_RICE || codec == CODEC_RAW) {
        (void)KERNEL(step)(base, NULL, fixed_bits, codec, at, sum);
        return;
    }
    uint64_t word = load64(base + (*at >> 3)) >> (*at & 7);
    const NearEntry *entry = &chunk->code.near[word & ((1 << NEAR_BITS) - 1)];
    uint64_t tail = (word >> (entry->length & 63)) & (((uint64_t)1 << entry->tail) - 1),
             top = (uint64_t)1 << entry->tail;
    *sum = codec == CODEC_XOR ? *sum ^ (tail | top) : *sum + tail + top;
    *at += entry->advance;
}

/* step() where a stretch ends, or for a rare code. Returns whether the stretch goes on. */
static __attribute__((noinline)) int KERNEL(careful_step)(const uint8_t *base, const Table *table, Stretch *stretch,
                                                          uint64_t row, uint64_t *at, uint64_t *sum) {
    uint64_t before = *sum;
    Status status = KERNEL(step)(base, table->decode, table->fixed_bits, table->codec, at, sum);
    stretch->doubtful |= *sum - before - 1 >= ((uint64_t)1 << FAST_BITS) - 1;
    if (status == OK && *at < stretch->end) return 1;
    stretch->rows = row + (status == OK);
    return 0;
}

#ifdef KERNEL_IS_WIDE
#include "decode_many.h"
#endif

/* Decode the stretches side by side from `*row` on until one of them needs careful_step(): which one, and in which row.
   A step of a stream waits for the one before it (load, look-up, shift), so several of them keep the processor busy. */
ALWAYS_INLINE unsigned KERNEL(rows_until)(const uint8_t *base, Chunk *chunk, unsigned fixed_bits, int codec,
                                          const unsigned width, uint64_t *row) {
    uint64_t at[DECODE_STREAMS], sum[DECODE_STREAMS], r = *row; /* constant indexes only: they stay in registers */
    unsigned stopped = width;
#pragma GCC unroll 8
    for (unsigned i = 0; i < width; i++) at[i] = chunk->at[i], sum[i] = chunk->sum[i];
    for (; r < CHUNK_KEYS; r++) {
#pragma GCC unroll 8
        for (unsigned i = 0; i < width; i++) {
            uint64_t next_at = at[i], next_sum = sum[i];
            KERNEL(near_step)(base, chunk, fixed_bits, codec, &next_at, &next_sum);
            if (UNLIKELY(next_at >= chunk->end[i])) {
                stopped = i;
                goto leave;
            }
            at[i] = next_at, sum[i] = next_sum;
            chunk->sums[DECODE_LANES + i * STREAM_ROWS + r] = next_sum;
            chunk->ends[DECODE_LANES - 1 + i * STREAM_ROWS + r] = (uint16_t)next_at;
        }
    }
leave:
#pragma GCC unroll 8
    for (unsigned i = 0; i < width; i++) chunk->at[i] = at[i], chunk->sum[i] = sum[i];
    *row = r;
    return stopped;
}

/* rows_until() for each codec and width, out of line: what surrounds the loop must not take its registers. Raw keys are
   most often of 64 bits, and those are decoded faster where the compiler knows it. */
#define ROWS(name, codec, width, bits)                                                                             \
    static __attribute__((noinline)) unsigned KERNEL(name)(const uint8_t *base, Chunk *chunk, unsigned fixed_bits, \
                                                           uint64_t *row) {                                        \
        (void)fixed_bits;                                                                                          \
        return KERNEL(rows_until)(base, chunk, bits, codec, width, row);                                           \
    }
ROWS(rows_gap, CODEC_GAP, DECODE_STREAMS, 0)
ROWS(rows_xor, CODEC_XOR, DECODE_STREAMS, 0)
ROWS(rows_rice, CODEC_RICE, DECODE_STREAMS, fixed_bits)
ROWS(rows_raw, CODEC_RAW, DECODE_STREAMS, fixed_bits)
ROWS(rows_raw_64, CODEC_RAW, DECODE_STREAMS, 64)
ROWS(lone_rows_gap, CODEC_GAP, 1, 0)
ROWS(lone_rows_xor, CODEC_XOR, 1, 0)
ROWS(lone_rows_rice, CODEC_RICE, 1, fixed_bits)
ROWS(lone_rows_raw, CODEC_RAW, 1, fixed_bits)
ROWS(lone_rows_raw_64, CODEC_RAW, 1, 64)
#undef ROWS

/* Decode all stretches, at most DECODE_STREAMS of them, to their ends. */
static void KERNEL(rows)(const uint8_t *base, const Table *table, Chunk *chunk) {
    static unsigned (*const loops[2][5])(const uint8_t *, Chunk *, unsigned, uint64_t *) = {
        {KERNEL(lone_rows_gap), KERNEL(lone_rows_xor), KERNEL(lone_rows_rice), KERNEL(lone_rows_raw),
         KERNEL(lone_rows_raw_64)},
        {KERNEL(rows_gap), KERNEL(rows_xor), KERNEL(rows_rice), KERNEL(rows_raw), KERNEL(rows_raw_64)}};
    const int loop = table->codec == CODEC_RAW && table->fixed_bits == 64 ? CODEC_RAW + 1 : table->codec;
    const unsigned width = chunk->count > 1 ? DECODE_STREAMS : 1;
    uint64_t again[DECODE_STREAMS]; /* where one that has ended goes on, to no purpose, until the others have too */
    int ended[DECODE_STREAMS];
    unsigned running = chunk->count;
    for (unsigned i = 0; i < width; i++) {
        const Stretch *stretch = &chunk->stretches[i < chunk->count ? i : 0];
        ended[i] = i >= chunk->count;
        chunk->at[i] = again[i] = stretch->start, chunk->end[i] = stretch->end, chunk->sum[i] = 0;
    }
    for (uint64_t row = 0; running > 0 && row < CHUNK_KEYS; row++) {
        unsigned stopped = loops[width > 1][loop](base, chunk, table->fixed_bits, &row);
        for (unsigned i = stopped; i < width; i++) {
            int on = !ended[i] &&
                     KERNEL(careful_step)(base, table, &chunk->stretches[i], row, &chunk->at[i], &chunk->sum[i]);
            chunk->sums[DECODE_LANES + i * STREAM_ROWS + row] = chunk->sum[i];
            chunk->ends[DECODE_LANES - 1 + i * STREAM_ROWS + row] = (uint16_t)chunk->at[i];
            if (on) continue;
            running -= !ended[i];
            ended[i] = 1;
            chunk->at[i] = again[i];
        }
    }
}

/* How many of CUT_KEYS codes, which come from bit `start` on, end within `bits` of it. */
ALWAYS_INLINE unsigned KERNEL(ends_within)(const uint16_t *ends, uint16_t start, uint16_t bits) {
#ifdef KERNEL_IS_WIDE
    const __m512i from = _mm512_set1_epi16((short)start), most = _mm512_set1_epi16((short)bits);
    return (unsigned)__builtin_popcount(
               _mm512_cmple_epu16_mask(_mm512_sub_epi16(_mm512_loadu_si512(ends), from), most)) +
           (unsigned)__builtin_popcount(
               _mm512_cmple_epu16_mask(_mm512_sub_epi16(_mm512_loadu_si512(ends + 32), from), most));
#else
    uint16_t count = 0; /* narrow, so that it is counted in lanes as narrow as the ends */
    for (unsigned i = 0; i < CUT_KEYS; i++) count += (uint16_t)(ends[i] - start) <= bits;
    return count;
#endif
}

/* Find the block's rows, which start at `row` of its stretch: a code must end where the block ends. */
ALWAYS_INLINE Status KERNEL(cut)(Chunk *chunk, const Stretch *stretch, uint64_t row, ChunkBlock *block) {
    const uint16_t *ends = chunk->ends + stretch->first_row + row;
    const uint16_t start = (uint16_t)(block->end - block->bits);
    unsigned count = 0, more;
    do {
        more = KERNEL(ends_within)(ends + count, start, block->bits);
        count += more;
    } while (UNLIKELY(more == CUT_KEYS && count <= MAX_BLOCK_KEYS));
    if (UNLIKELY(count - 1 >= MAX_BLOCK_KEYS || ends[count - 1] != (uint16_t)block->end)) return BAD_BLOCK;
    block->row = (uint32_t)(stretch->first_row + row);
    block->count = (uint16_t)count;
    block->checked = (uint8_t)stretch->doubtful;
    return OK;
}

/* The keys of a block from the sums of its deltas; `out` and the sums have room for OUT_SLACK. Blocks of at most
   `usual` keys store as many, whatever they hold, so that the processor foresees where the loop ends. Deltas that no
   stretch doubts lie in 1 .. 2^57 - 1, so that 128 of them cannot come back to where they began: the last key tells
   that all is well. is_next: the keys come behind *last, and have to be above it: where a block begins that is not the
   first of its slot a fence tells, and a file may change. *last is then the block's last key. The first key and the last
   are not read from where they were just stored, as that waits for the stores. */
ALWAYS_INLINE Status KERNEL(emit)(const ChunkBlock *block, const uint64_t *restrict sums, unsigned usual, int codec,
                                  int is_next, uint64_t *last, uint64_t *restrict out) {
    const unsigned count = block->count, stored = count > usual ? count : usual;
    uint64_t from = codec == CODEC_XOR ? block->previous ^ sums[0] : codec == CODEC_RAW ? 0 : block->previous - sums[0];
    const uint64_t first_key = codec == CODEC_XOR ? from ^ sums[1] : from + sums[1],
                   last_key = codec == CODEC_XOR ? from ^ sums[count] : from + sums[count];
    uint64_t bad = 0; /* as wide as a key, so that lanes of keys set it */
    for (unsigned i = 0; i < stored; i += STORE_KEYS)
        for (unsigned j = i; j < i + STORE_KEYS; j++)
            out[j] = codec == CODEC_XOR ? from ^ sums[j + 1] : from + sums[j + 1];
    if (codec != CODEC_GAP || block->checked) {
        bad = out[0] <= block->previous && !(out[0] == block->previous && block->first_of_slot);
        for (unsigned i = 1; i < count; i++) bad |= out[i] <= out[i - 1];
    }
    if (is_next && first_key <= *last) return BAD_BLOCK;
    *last = last_key;
    return bad || last_key < block->least_last || last_key > block->most_last ? BAD_BLOCK : OK;
}

/* So many keys or fewer have most blocks of the chunk: a sixth more than their mean, a multiple of STORE_KEYS. */
ALWAYS_INLINE unsigned KERNEL(usual_keys)(const Chunk *chunk) {
    uint64_t rows = 0;
    for (unsigned i = 0; i < chunk->count; i++) rows += chunk->stretches[i].rows;
    uint64_t usual = (rows + rows / 6) / chunk->block_count;
    return usual < MAX_BLOCK_KEYS ? ((unsigned)usual + STORE_KEYS - 1) / STORE_KEYS * STORE_KEYS : MAX_BLOCK_KEYS;
}

/* The keys of all blocks, in order, each above the one before it, from the rows of the stretches. */
ALWAYS_INLINE Status KERNEL(keys_of)(Chunk *chunk, int codec, uint64_t *out, uint64_t *count) {
    const unsigned usual = KERNEL(usual_keys)(chunk);
    const Stretch *stretch = NULL;
    uint64_t stored = 0, row = 0, last = 0;
    for (unsigned first = 0, end, most; first < chunk->block_count; first = end) {
        /* One block, or those of a group with a large slot: they lie in another order than their keys. */
        for (end = most = first; end <= most; end++) {
            if (chunk->in_key_order[end] > most) most = chunk->in_key_order[end];
            if (stretch == NULL || end == stretch->end_block) {
                stretch = stretch == NULL ? chunk->stretches : stretch + 1;
                row = 0;
                uint16_t *after = chunk->ends + stretch->first_row + stretch->rows;
                for (unsigned i = 0; i < CUT_KEYS; i++) after[i] = (uint16_t)(stretch->end + 1);
            }
            chunk->bad_block = end;
            if (UNLIKELY(KERNEL(cut)(chunk, stretch, row, &chunk->blocks[end]) != OK)) return BAD_BLOCK;
            row += chunk->blocks[end].count;
        }
        for (unsigned i = first; i < end; i++) {
            const ChunkBlock *block = &chunk->blocks[chunk->in_key_order[i]];
            chunk->bad_block = chunk->in_key_order[i];
            if (UNLIKELY(KERNEL(emit)(block, chunk->sums + block->row, usual, codec, stored > 0, &last, out + stored) !=
                         OK))
                return BAD_BLOCK;
            stored += block->count;
        }
    }
    *count = stored;
    return OK;
}

/* Decode the chunk, cut into stretches already, with the checks of block_as; chunk->bad_block is the one that fails. */
Status KERNEL(decode_chunk)(const uint8_t *base, const Table *table, Chunk *chunk, uint64_t *out, uint64_t *count) {
#ifdef KERNEL_IS_WIDE
    if (chunk->streams == WIDE_STREAMS)
        KERNEL(rows_many)(base, table, chunk);
    else
#endif
        KERNEL(rows)(base, table, chunk);
    switch (table->codec) {
    case CODEC_GAP: return KERNEL(keys_of)(chunk, CODEC_GAP, out, count);
    case CODEC_XOR: return KERNEL(keys_of)(chunk, CODEC_XOR, out, count);
    case CODEC_RICE: return KERNEL(keys_of)(chunk, CODEC_RICE, out, count);
    default: return KERNEL(keys_of)(chunk, CODEC_RAW, out, count);
    }
}
