/* Decoding tables: a block, a chunk of blocks, and a cursor that walks a table from slot to slot. */
#ifndef FPSTORE_DECODE_H
#define FPSTORE_DECODE_H

#include "view.h"

#define DECODE_STREAMS 4
#define WIDE_STREAMS 16
#define DECODE_LANES 8 /* of a vector */
#define WIDE_LEAST 32  /* blocks that are worth so many streams */
/* Enough that the streams end at nearly the same time, few enough for the second-level cache. */
#define CHUNK_BLOCKS 512
#define CHUNK_KEYS (CHUNK_BLOCKS * MAX_BLOCK_KEYS)
#define STORE_KEYS 16            /* keys are stored so many at once */
#define OUT_SLACK MAX_BLOCK_KEYS /* and as many in all as most blocks have */
#define CHUNK_ROOM (CHUNK_KEYS + OUT_SLACK)
#define CUT_KEYS 64    /* ends of codes that are compared at once */
#define ROWS_SLACK 144 /* after the rows of a stretch: CUT_KEYS or OUT_SLACK, and what is stored at once */
#define STREAM_ROWS (CHUNK_KEYS + ROWS_SLACK)
/* Of a code that the fast path knows: its table leaves most of the first-level cache to the rest. */
#define NEAR_BITS 10

/* How a code of at most NEAR_BITS decodes. An advance of FAR leaves the fast path: no stretch is so long. */
typedef struct {
    uint8_t length, tail;
    uint32_t advance;
} NearEntry;
enum { FAR = 1 << 30 };

/* What a chunk knows of a table's code. */
typedef struct {
    NearEntry near[1 << NEAR_BITS];
    WideCode wide;
} ChunkCode;

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

/* What a cursor decodes at once. The inner loop reaches everything from one address, and so keeps the streams in
 * registers. */
typedef struct {
    uint64_t at[DECODE_STREAMS], sum[DECODE_STREAMS], end[DECODE_STREAMS];
    ChunkCode code;
    unsigned count, streams; /* stretches, and how many there could be */
    Stretch stretches[WIDE_STREAMS];
    unsigned block_count, bad_block;
    ChunkBlock blocks[CHUNK_BLOCKS]; /* as they lie in the payload */
    uint16_t in_key_order[CHUNK_BLOCKS];
    /* Of deltas: before the first key of a stretch, and after each. */
    uint64_t sums[DECODE_STREAMS * STREAM_ROWS + DECODE_LANES];
    uint16_t ends[DECODE_STREAMS * STREAM_ROWS + DECODE_LANES]; /* where each code ends, the low bits */
} Chunk;

/* Where a walk over slots [slot, end_slot) has come to. */
typedef struct {
    uint64_t slot, end_slot;
    uint64_t fence; /* the next fence of a large slot, when in_slot */
    int in_slot;
    int alone;     /* decode one stretch at a time, to measure what several bring */
    int begun;     /* whether there is a last key */
    uint64_t last; /* the last key that was decoded */
    Chunk *chunk;
} Cursor;

/* Fill in the code of a table that decodes so. A chunk with it is ready for blocks of that table. */
void chunk_code_init(ChunkCode *code, const DecodeEntry *decode);

/* Decode on from the cursor while there is room for any chunk: `room` is CHUNK_ROOM or more. Each key is above the one
   before it, whatever the file is and also where it changes meanwhile. */
Status cursor_decode(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room, uint64_t *count);

/* Decode a whole block with every check: keys strictly increasing (the first of a slot may equal its start), none
   above last_key, at most MAX_BLOCK_KEYS of them, the last code ending at the block's end. out has room for
   MAX_BLOCK_KEYS. Of a table of blocks, the first key is there as it is, the last is last_key, and out has room for as
   many keys as the block has bits. */
Status decode_block(const Pages *pages, const Table *table, const Block *block, uint64_t last_key, uint64_t *out,
                    uint64_t *count);

void decode_choose(InstructionSet set);

#define DECODE_KERNELS(set)                                                                                   \
    Status decode_block_##set(const Pages *, const Table *, const Block *, uint64_t, uint64_t *, uint64_t *); \
    Status decode_chunk_##set(const uint8_t *, const Table *, Chunk *, uint64_t *, uint64_t *);
DECODE_KERNELS(portable)
DECODE_KERNELS(fast)
DECODE_KERNELS(wide)
#undef DECODE_KERNELS

#endif
