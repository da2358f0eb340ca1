/* Decoding tables: the two copies of decode_body.h, and a cursor that walks a table from slot to slot. */
#ifndef FPSTORE_DECODE_H
#define FPSTORE_DECODE_H

#include "view.h"

#define DECODE_STREAMS 4
#define RUN_GROUPS 8 /* directory groups of a run: enough that runs end at nearly the same time */
#define RUN_BLOCKS (RUN_GROUPS * GROUP_SLOTS)
#define RUN_KEYS (RUN_BLOCKS * BLOCK_KEYS)
/* A hostile block is found out at its end only: it may have given a key for each of its bits. */
#define RUN_STRIDE (RUN_KEYS + BLOCK_BITS + 3)

/* A block that is not empty: its bits of the file, its slot's first key and last. */
typedef struct {
    uint64_t start, end, previous, last_key;
} RunBlock;

/* Consecutive blocks, decoded as one stream. */
typedef struct {
    uint64_t at, key;     /* where the run stands: a bit of the file, the key before it */
    uint64_t count;       /* keys decoded */
    uint64_t block_first; /* of these, before the block under way */
    uint64_t block_end;   /* the bit where that block ends */
    unsigned block, block_count;
    RunBlock blocks[RUN_BLOCKS];
} Run;

/* What a cursor decodes into before the keys go to the caller. The table's code and the output lie beside the runs, so
   that the inner loop reaches everything from one address and keeps the streams in registers. */
typedef struct {
    Run runs[DECODE_STREAMS];
    DecodeEntry decode[1 << CODE_LIMIT];
    uint64_t keys[DECODE_STREAMS][RUN_STRIDE];
} CursorScratch;

#define KERNEL(name) name##_portable
#include "decode_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#include "decode_body.h"
#undef KERNEL
FAST_END
#endif

typedef Status (*DecodeBlock)(const Pages *, const Table *, const Block *, uint64_t, uint64_t *, uint64_t *);
typedef Status (*DecodeRuns)(const uint8_t *, const Table *, CursorScratch *, unsigned);

static DecodeBlock decode_block = decode_block_portable;
static DecodeRuns decode_runs = decode_runs_portable;

static void decode_choose(int fast) {
#if FPSTORE_X86
    decode_block = fast ? decode_block_fast : decode_block_portable;
    decode_runs = fast ? decode_runs_fast : decode_runs_portable;
#else
    (void)fast;
#endif
}

/* Where a walk over slots [slot, end_slot) has come to. */
typedef struct {
    uint64_t slot, end_slot;
    uint64_t fence; /* the next fence of a large slot, when in_slot */
    int in_slot;
    unsigned streams; /* runs decoded side by side: DECODE_STREAMS, or 1 to measure what that brings */
    CursorScratch *scratch;
} Cursor;

/* Add the blocks of the group that starts at `slot`, which has no large slot, to the run. */
static Status run_add_group(Pages *pages, const Table *table, uint64_t slot, Run *run) {
    uint64_t offset = line_offset(table, slot), base = load64(pages->base + offset), start;
    uint16_t ends[GROUP_SLOTS], from = 0;
    memcpy(ends, pages->base + offset + 8, sizeof ends);
    if (base > table->payload_bits || ends[GROUP_SLOTS - 1] > table->payload_bits - base) return BAD_DIRECTORY;
    start = table->payload_offset * 8 + base;
    if (ends[GROUP_SLOTS - 1] > 0) {
        Status status = pages_check(pages, start >> 3, (start + ends[GROUP_SLOTS - 1] - 1) >> 3);
        if (status != OK) return status;
    }
    for (unsigned i = 0; i < GROUP_SLOTS; from = ends[i++]) {
        if (ends[i] < from || ends[i] - from > BLOCK_BITS) return BAD_DIRECTORY;
        RunBlock *block = &run->blocks[run->block_count];
        block->start = start + from;
        block->end = start + ends[i];
        block->previous = slot_start(slot + i, table->slot_bits);
        block->last_key = slot_end(slot + i, table->slot_bits);
        run->block_count += ends[i] > from;
    }
    return OK;
}

/* How many whole groups, up to `most`, come before one with a large slot. */
static Status groups_without_large(Pages *pages, const Table *table, uint64_t slot, uint64_t most, uint64_t *count) {
    for (*count = 0; *count < most; ++*count) {
        uint64_t offset = line_offset(table, slot + *count * GROUP_SLOTS);
        Status status = pages_check(pages, offset, offset);
        if (status != OK) return status;
        if (load64(pages->base + offset) >> OFFSET_BITS != 0) break;
    }
    return OK;
}

/* The first slot of these runs that does not decode: for the error, when one is known to be there. */
static uint64_t runs_bad_slot(Pages *pages, const Table *table, const Run *runs, unsigned count) {
    uint64_t keys[BLOCK_KEYS], got;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < runs[i].block_count; j++) {
            const RunBlock *bits = &runs[i].blocks[j];
            Block block = {.start = bits->start, .end = bits->end, .previous = bits->previous, .first_of_slot = 1};
            if (decode_block(pages, table, &block, bits->last_key, keys, &got) != OK) return slot_of(bits->previous, table->slot_bits);
        }
    return 0;
}

/* Decode whole groups from the cursor's slot on, until one with a large slot; the cursor moves past them. *count may be
   0. out has room for DECODE_STREAMS * RUN_KEYS. */
static Status cursor_runs(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t *count) {
    uint64_t groups = (cursor->end_slot - cursor->slot) / GROUP_SLOTS, most = (uint64_t)cursor->streams * RUN_GROUPS;
    unsigned used = 0;
    *count = 0;
    Status status = groups_without_large(pages, table, cursor->slot, groups < most ? groups : most, &groups);
    if (status != OK) return status;
    uint64_t share = (groups + cursor->streams - 1) / cursor->streams; /* equal ones, so that the runs end together */
    while (groups > 0) {
        Run *run = &cursor->scratch->runs[used];
        run->count = run->block_first = 0;
        run->block = run->block_count = 0;
        for (uint64_t i = 0; i < share && groups > 0; i++, groups--) {
            status = run_add_group(pages, table, cursor->slot, run);
            if (status != OK) return status;
            cursor->slot += GROUP_SLOTS;
        }
        used += run->block_count > 0;
    }
    status = decode_runs(pages->base, table, cursor->scratch, used);
    if (status != OK) {
        cursor->slot = runs_bad_slot(pages, table, cursor->scratch->runs, used);
        return status;
    }
    for (unsigned i = 0; i < used; i++) {
        const Run *run = &cursor->scratch->runs[i];
        memcpy(out + *count, cursor->scratch->keys[i], run->count * sizeof *out);
        *count += run->count;
    }
    return OK;
}

/* Decode the next block from the cursor on; *count may be 0, for an empty slot. out has room for BLOCK_KEYS. */
static Status cursor_block(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t *count) {
    Block block;
    uint64_t top = slot_end(cursor->slot, table->slot_bits), last_key = top;
    int large = 1;
    Status status = OK;
    *count = 0;
    if (!cursor->in_slot) {
        status = slot_read(pages, table, cursor->slot, &block.start, &block.end, &large);
        if (status != OK) return status;
        block.previous = slot_start(cursor->slot, table->slot_bits);
        block.first_of_slot = 1;
        if (large) {
            status = fence_find(pages, table, block.previous, &cursor->fence);
            if (status != OK) return status;
            if (cursor->fence == table->fence_count) return BAD_DIRECTORY;
            cursor->in_slot = 1;
        }
    }
    if (large) {
        uint64_t following = top, word;
        status = fence_block(pages, table, cursor->slot, cursor->fence, &block, &last_key);
        if (status != OK) return status;
        if (last_key > top) return BAD_DIRECTORY;
        cursor->fence++;
        if (cursor->fence < table->fence_count) {
            status = fence_read(pages, table, cursor->fence, &following, &word);
            if (status != OK) return status;
        }
        if (cursor->fence == table->fence_count || following > top) cursor->in_slot = 0;
    }
    if (block.end > block.start) {
        status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
        if (status == OK) status = decode_block(pages, table, &block, last_key, out, count);
        if (status != OK) return status;
        if (large && out[*count - 1] != last_key) return BAD_BLOCK;
    }
    if (!cursor->in_slot) cursor->slot++;
    return OK;
}

/* Decode on from the cursor while there is room for any step's keys: `room` is DECODE_STREAMS * RUN_KEYS or more. */
static Status cursor_decode(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room, uint64_t *count) {
    uint64_t stored = 0, got;
    while (cursor->slot < cursor->end_slot && room - stored >= DECODE_STREAMS * RUN_KEYS) {
        Status status = OK;
        got = 0;
        if (!cursor->in_slot && cursor->slot % GROUP_SLOTS == 0)
            status = cursor_runs(pages, table, cursor, out + stored, &got);
        if (status == OK && got == 0 && cursor->slot < cursor->end_slot)
            status = cursor_block(pages, table, cursor, out + stored, &got);
        if (status != OK) return status;
        stored += got;
    }
    *count = stored;
    return OK;
}

#endif
