/* Decoding tables: the two copies of decode_body.h, and a cursor that walks a table from slot to slot. */
#ifndef FPSTORE_DECODE_H
#define FPSTORE_DECODE_H

#include "view.h"

#define DECODE_STREAMS 4
#define WIDE_STREAMS 16
#define DECODE_LANES 8  /* of a vector */
#define WIDE_LEAST 32  /* blocks that are worth so many streams */
#define CHUNK_BLOCKS 512 /* enough that the streams end at nearly the same time, few enough for the second-level cache */
#define CHUNK_KEYS (CHUNK_BLOCKS * BLOCK_KEYS)
#define STORE_KEYS 16 /* keys are stored so many at once */
#define OUT_SLACK BLOCK_KEYS /* and as many in all as most blocks have */
#define CHUNK_ROOM (CHUNK_KEYS + OUT_SLACK)
#define CUT_KEYS 64   /* ends of codes that are compared at once */
#define ROWS_SLACK 144 /* after the rows of a stretch: CUT_KEYS or OUT_SLACK, and what is stored at once */
#define STREAM_ROWS (CHUNK_KEYS + ROWS_SLACK)
#define NEAR_BITS 10 /* of a code that the fast path knows: its table leaves most of the first-level cache to the rest */

/* How a code of at most NEAR_BITS decodes. An advance of FAR leaves the fast path: no stretch is so long. */
typedef struct {
    uint8_t length, tail;
    uint32_t advance;
} NearEntry;
enum { FAR = 1 << 30, WIDE_BITS = 56, WIDE_FAR = 128 };

/* How codes decode without a table in memory, see decode_wide.h: the low bytes of 64-bit lanes choose among 64. */
typedef struct {
    uint8_t near_advance[64], near_tail[64]; /* by the next 6 bits */
    uint8_t far_advance[128], far_tail[128]; /* by the 7 bits after far_ones, where these are all ones */
    unsigned far_ones;
} WideCode;

/* A block that is not empty: its bits of the file, the key before its first, what its last key may be. */
typedef struct {
    uint64_t end, previous, least_last, most_last;
    uint32_t row; /* where the sum before its first key is among chunk->sums */
    uint16_t bits, count;
    uint8_t first_of_slot, checked;
} ChunkBlock;

/* Blocks that lie one after another, decoded as one stream of codes; where each ends is found afterwards. A row is what
   one step of every stream gives. */
typedef struct {
    uint64_t start, end;
    uint64_t first_row; /* where its rows begin among chunk->sums and chunk->ends */
    uint64_t rows;      /* codes that it has, once they are decoded */
    unsigned first_block, end_block;
    int doubtful; /* has a delta of 0, or of 2^57 or more */
} Stretch;

/* What a cursor decodes at once. The inner loop reaches everything from one address, and so keeps the streams in registers. */
typedef struct {
    uint64_t at[DECODE_STREAMS], sum[DECODE_STREAMS], end[DECODE_STREAMS];
    NearEntry near[1 << NEAR_BITS];
    WideCode wide;
    unsigned count, streams; /* stretches, and how many there could be */
    Stretch stretches[WIDE_STREAMS];
    unsigned block_count, bad_block;
    ChunkBlock blocks[CHUNK_BLOCKS]; /* as they lie in the payload */
    uint16_t in_key_order[CHUNK_BLOCKS];
    /* Of deltas: before the first key of a stretch, and after each. */
    uint64_t sums[DECODE_STREAMS * STREAM_ROWS + DECODE_LANES];
    uint16_t ends[DECODE_STREAMS * STREAM_ROWS + DECODE_LANES]; /* where each code ends, the low bits */
} Chunk;

#define KERNEL(name) name##_portable
#include "decode_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#include "decode_body.h"
#undef KERNEL
FAST_END
WIDE_BEGIN
#define KERNEL(name) name##_wide
#define KERNEL_IS_WIDE
#include "decode_body.h"
#undef KERNEL_IS_WIDE
#undef KERNEL
WIDE_END
#endif

typedef Status (*DecodeBlock)(const Pages *, const Table *, const Block *, uint64_t, uint64_t *, uint64_t *);
typedef Status (*DecodeChunk)(const uint8_t *, const Table *, Chunk *, uint64_t *, uint64_t *);

static DecodeBlock decode_block = decode_block_portable;
static DecodeChunk decode_chunk = decode_chunk_portable;
static unsigned decode_streams = DECODE_STREAMS; /* side by side, where a chunk has so many blocks */

static void decode_choose(int fast) {
#if FPSTORE_X86
    decode_block = fast ? decode_block_fast : decode_block_portable;
    decode_chunk = fast ? decode_chunk_fast : decode_chunk_portable;
    if (fast && fpstore_is_wide()) {
        decode_chunk = decode_chunk_wide;
        decode_streams = WIDE_STREAMS;
    }
#else
    (void)fast;
#endif
}

/* Where a walk over slots [slot, end_slot) has come to. */
typedef struct {
    uint64_t slot, end_slot;
    uint64_t fence; /* the next fence of a large slot, when in_slot */
    int in_slot;
    int alone; /* decode one stretch at a time, to measure what several bring */
    Chunk *chunk;
} Cursor;

static void wide_entry(unsigned entry, unsigned bits, uint8_t *advance, uint8_t *tail) {
    int known = (entry & 255) <= WIDE_BITS && entry >> 8 <= bits;
    *advance = known ? entry & 255 : WIDE_FAR;
    *tail = known ? (entry & 255) - (entry >> 8) : 0;
}

static void chunk_init(Chunk *chunk, const DecodeEntry *decode) {
    WideCode *wide = &chunk->wide;
    wide->far_ones = CODE_LIMIT - 7;
    for (unsigned i = 0; i < 1 << CODE_LIMIT; i++) {
        unsigned advance = decode[i] & 255, length = decode[i] >> 8, ones = (unsigned)__builtin_ctz(~i);
        int known = advance <= FAST_BITS && length <= NEAR_BITS;
        if (i < 1 << NEAR_BITS)
            chunk->near[i] = known ? (NearEntry){(uint8_t)length, (uint8_t)(advance - length), advance} : (NearEntry){0, 0, FAR};
        if ((advance == SLOW_BAD || length > 6) && ones < wide->far_ones) wide->far_ones = ones;
    }
    for (unsigned i = 0; i < 128; i++) {
        unsigned near = decode[i % 64], far = decode[((i + 1) << wide->far_ones) - 1];
        wide_entry(near, 6, &wide->near_advance[i % 64], &wide->near_tail[i % 64]);
        wide_entry(far, 7 + wide->far_ones, &wide->far_advance[i], &wide->far_tail[i]);
    }
}

/* A new block of the chunk, for the caller to fill; NULL where that is full or the block does not lie where the last one ends. */
ALWAYS_INLINE ChunkBlock *chunk_add(Chunk *chunk, uint64_t start, uint64_t end) {
    const unsigned count = chunk->block_count;
    if (count == CHUNK_BLOCKS || (count > 0 && chunk->blocks[count - 1].end != start)) return NULL;
    chunk->in_key_order[count] = (uint16_t)count;
    chunk->blocks[count].end = end;
    chunk->blocks[count].bits = (uint16_t)(end - start);
    chunk->block_count++;
    return &chunk->blocks[count];
}

/* Add the blocks of the cursor's slot, which is large, from fence cursor->fence on; in_slot tells whether some are left. */
static Status chunk_add_large(Pages *pages, const Table *table, Cursor *cursor) {
    uint64_t top = slot_end(cursor->slot, table->slot_bits), last_key, following = top, word;
    for (cursor->in_slot = 1; cursor->in_slot;) {
        Block block;
        if (cursor->fence == table->fence_count) return BAD_DIRECTORY;
        Status status = fence_block(pages, table, cursor->slot, cursor->fence, &block, &last_key);
        if (status != OK) return status;
        if (last_key > top) return BAD_DIRECTORY;
        status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
        if (status != OK) return status;
        ChunkBlock *added = chunk_add(cursor->chunk, block.start, block.end);
        if (added == NULL) break;
        added->previous = block.previous;
        added->least_last = added->most_last = last_key;
        added->first_of_slot = (uint8_t)block.first_of_slot;
        if (++cursor->fence < table->fence_count) {
            status = fence_read(pages, table, cursor->fence, &following, &word);
            if (status != OK) return status;
        }
        if (cursor->fence == table->fence_count || following > top) cursor->in_slot = 0;
    }
    return OK;
}

ALWAYS_INLINE int chunk_add_inline(Chunk *chunk, const Table *table, uint64_t slot, uint64_t start, uint64_t end) {
    ChunkBlock *added = chunk_add(chunk, start, end);
    if (added == NULL) return 0;
    added->previous = added->least_last = slot_start(slot, table->slot_bits);
    added->most_last = slot_end(slot, table->slot_bits);
    added->first_of_slot = 1;
    return 1;
}

/* Add the blocks of the group that starts at `slot`; *fits: all of them. In the payload those of its large slots come before
   the others. The cursor's slot is the one under way. */
static Status chunk_add_blocks(Pages *pages, const Table *table, Cursor *cursor, uint64_t slot, int *fits) {
    Chunk *chunk = cursor->chunk;
    const uint64_t offset = line_offset(table, slot);
    unsigned large_blocks[GROUP_SLOTS] = {0}, next_large = chunk->block_count, next = next_large, next_inline;
    uint16_t ends[GROUP_SLOTS], from = 0;
    Status status = pages_check(pages, offset, offset);
    if (status != OK) return status;
    uint64_t word = load64(pages->base + offset), base = word & low_bits(OFFSET_BITS), large = word >> OFFSET_BITS;
    memcpy(ends, pages->base + offset + 8, sizeof ends);
    if (base > table->payload_bits || ends[GROUP_SLOTS - 1] > table->payload_bits - base) return BAD_DIRECTORY;
    uint64_t start = table->payload_offset * 8 + base;
    if (ends[GROUP_SLOTS - 1] > 0) {
        status = pages_check(pages, start >> 3, (start + ends[GROUP_SLOTS - 1] - 1) >> 3);
        if (status != OK) return status;
    }
    *fits = 1;
    for (unsigned i = 0; i < GROUP_SLOTS && *fits && large >> i != 0; i++) {
        if (!((large >> i) & 1)) continue;
        unsigned before = chunk->block_count;
        cursor->slot = slot + i;
        status = fence_find(pages, table, slot_start(cursor->slot, table->slot_bits), &cursor->fence);
        if (status == OK) status = chunk_add_large(pages, table, cursor);
        if (status != OK) return status;
        large_blocks[i] = chunk->block_count - before;
        *fits = !cursor->in_slot;
    }
    next_inline = chunk->block_count;
    for (unsigned i = 0; i < GROUP_SLOTS && *fits; from = ends[i++]) {
        cursor->slot = slot + i;
        if (ends[i] < from || ends[i] - from > BLOCK_BITS || (ends[i] > from && (large >> i) & 1)) return BAD_DIRECTORY;
        for (unsigned j = 0; j < large_blocks[i]; j++) chunk->in_key_order[next++] = (uint16_t)next_large++;
        if (ends[i] == from) continue;
        *fits = chunk_add_inline(chunk, table, slot + i, start + from, start + ends[i]);
        if (*fits) chunk->in_key_order[next++] = (uint16_t)next_inline++;
    }
    return OK;
}

/* Add the whole group that starts at the cursor's slot and move past it, or add nothing: where it does not fit the cursor
   stays, after an error it is at the slot to blame. */
static Status chunk_add_group(Pages *pages, const Table *table, Cursor *cursor) {
    const uint64_t slot = cursor->slot;
    const unsigned count = cursor->chunk->block_count;
    int fits = 0;
    Status status = chunk_add_blocks(pages, table, cursor, slot, &fits);
    if (!fits || status != OK) cursor->chunk->block_count = count;
    if (status == OK) cursor->slot = fits ? slot + GROUP_SLOTS : slot;
    cursor->in_slot = 0;
    return status;
}

/* Add the cursor's slot and move past it, or what fits of it. */
static Status chunk_add_slot(Pages *pages, const Table *table, Cursor *cursor) {
    uint64_t start, end;
    int large = 1;
    Status status = OK;
    if (!cursor->in_slot) {
        status = slot_read(pages, table, cursor->slot, &start, &end, &large);
        if (status == OK && large) status = fence_find(pages, table, slot_start(cursor->slot, table->slot_bits), &cursor->fence);
        if (status != OK) return status;
    }
    if (large) {
        status = chunk_add_large(pages, table, cursor);
        cursor->slot += status == OK && !cursor->in_slot;
        return status;
    }
    if (end > start) {
        status = pages_check(pages, start >> 3, (end - 1) >> 3);
        if (status != OK || !chunk_add_inline(cursor->chunk, table, cursor->slot, start, end)) return status;
    }
    cursor->slot++;
    return OK;
}

/* Fill the chunk with blocks from the cursor on, which moves past them: with at least one, unless no key is left. An error
   waits until the blocks before it are decoded. */
static Status chunk_fill(Pages *pages, const Table *table, Cursor *cursor) {
    const unsigned *count = &cursor->chunk->block_count;
    cursor->chunk->block_count = 0;
    while (cursor->slot < cursor->end_slot) {
        const uint64_t slot = cursor->slot;
        Status status;
        if (!cursor->in_slot && slot % GROUP_SLOTS == 0 && cursor->end_slot - slot >= GROUP_SLOTS) {
            status = chunk_add_group(pages, table, cursor);
            if (status == OK && cursor->slot > slot) continue;
            if (*count > 0) {
                cursor->slot = slot;
                break; /* the next chunk has more room */
            }
            if (status != OK) return status;
        }
        status = chunk_add_slot(pages, table, cursor);
        if (status != OK && *count == 0) return status;
        if (status != OK || cursor->slot == slot) break;
    }
    return OK;
}

/* Cut the chunk into at most `streams` stretches of about as many bits. */
static void chunk_split(Chunk *chunk, unsigned streams) {
    uint64_t start = chunk->blocks[0].end - chunk->blocks[0].bits, bits = chunk->blocks[chunk->block_count - 1].end - start;
    uint64_t first_row = DECODE_LANES - 1; /* so that the sums of full rows start at a multiple of DECODE_LANES */
    unsigned block = 0;
    chunk->count = 0;
    chunk->streams = streams;
    for (unsigned i = 0; i < streams; i++) {
        unsigned first = block;
        while (block < chunk->block_count && chunk->blocks[block].end <= start + bits * (i + 1) / streams) block++;
        if (block == first) continue;
        Stretch *stretch = &chunk->stretches[chunk->count++];
        *stretch = (Stretch){.start = chunk->blocks[first].end - chunk->blocks[first].bits, .end = chunk->blocks[block - 1].end,
                             .first_row = first_row, .rows = CHUNK_KEYS, .first_block = first, .end_block = block};
        chunk->sums[first_row] = 0;
        first_row += streams == WIDE_STREAMS ? (block - first) * BLOCK_KEYS + ROWS_SLACK : STREAM_ROWS;
    }
}

/* Decode on from the cursor while there is room for any chunk: `room` is CHUNK_ROOM or more. */
static Status cursor_decode(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room, uint64_t *count) {
    uint64_t stored = 0, got;
    while (cursor->slot < cursor->end_slot && room - stored >= CHUNK_ROOM) {
        Chunk *chunk = cursor->chunk;
        Status status = chunk_fill(pages, table, cursor);
        if (status != OK) return status;
        if (chunk->block_count == 0) break;
        unsigned streams = table->codec <= CODEC_XOR && chunk->block_count >= WIDE_LEAST ? decode_streams : DECODE_STREAMS;
        chunk_split(chunk, cursor->alone ? 1 : streams);
        status = decode_chunk(pages->base, table, chunk, out + stored, &got);
        if (status != OK) {
            cursor->slot = slot_of(chunk->blocks[chunk->bad_block].previous, table->slot_bits);
            return status;
        }
        stored += got;
    }
    *count = stored;
    return OK;
}

#endif
