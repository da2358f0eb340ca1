/* The walk over a table: which blocks come next, cut into stretches for the kernels; and the choice of these. */
#include "decode.h"

typedef struct {
    Status (*block)(const Pages *, const Table *, const Block *, uint64_t, uint64_t *, uint64_t *);
    Status (*chunk)(const uint8_t *, const Table *, Chunk *, uint64_t *, uint64_t *);
    unsigned streams; /* side by side, where a chunk has so many blocks */
} Kernels;

static Kernels kernels = {decode_block_portable, decode_chunk_portable, DECODE_STREAMS};

void decode_choose(InstructionSet set) {
    kernels = (Kernels){decode_block_portable, decode_chunk_portable, DECODE_STREAMS};
#if FPSTORE_X86
    /* A lone block is no work for wide vectors. */
    if (set == SET_FAST) kernels = (Kernels){decode_block_fast, decode_chunk_fast, DECODE_STREAMS};
    if (set == SET_WIDE) kernels = (Kernels){decode_block_fast, decode_chunk_wide, WIDE_STREAMS};
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(decode_choose)

Status decode_block(const Pages *pages, const Table *table, const Block *block, uint64_t last_key, uint64_t *out,
                    uint64_t *count) {
    return kernels.block(pages, table, block, last_key, out, count);
}

void chunk_code_init(ChunkCode *code, const DecodeEntry *decode) {
    for (unsigned i = 0; i < 1 << NEAR_BITS; i++) {
        unsigned advance = decode[i] & 255, length = decode[i] >> 8;
        int known = advance <= FAST_BITS && length <= NEAR_BITS;
        code->near[i] =
            known ? (NearEntry){(uint8_t)length, (uint8_t)(advance - length), advance} : (NearEntry){0, 0, FAR};
    }
    wide_init(&code->wide, decode);
}

/* A new block of the chunk, for the caller to fill; NULL where that is full or the block does not lie where the last
 * one ends. */
ALWAYS_INLINE ChunkBlock *chunk_add(Chunk *chunk, uint64_t start, uint64_t end) {
    const unsigned count = chunk->block_count;
    if (count == CHUNK_BLOCKS || (count > 0 && chunk->blocks[count - 1].end != start)) return NULL;
    chunk->in_key_order[count] = (uint16_t)count;
    chunk->blocks[count].end = end;
    chunk->blocks[count].bits = (uint16_t)(end - start);
    chunk->block_count++;
    return &chunk->blocks[count];
}

/* Add the blocks of the cursor's slot, which is large, from fence cursor->fence on; in_slot tells whether some are
 * left. */
static Status chunk_add_large(Pages *pages, const Table *table, Cursor *cursor) {
    uint64_t top = slot_end(cursor->slot, table->slot_shift), last_key, following = top, word;
    for (cursor->in_slot = 1; cursor->in_slot;) {
        Block block;
        if (cursor->fence == table->fence_count) return BAD_DIRECTORY;
        Status status =
            fence_block(pages, table, slot_start(cursor->slot, table->slot_shift), cursor->fence, &block, &last_key);
        if (status != OK) return status;
        /* A file may change after its fences were searched: keys that come after `previous` and end below it wrapped. */
        if (last_key > top || last_key < block.previous) return BAD_DIRECTORY;
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
    added->previous = added->least_last = slot_start(slot, table->slot_shift);
    added->most_last = slot_end(slot, table->slot_shift);
    added->first_of_slot = 1;
    return 1;
}

/* Add the blocks of a group without large slots, of which the chunk has room for all, without a branch on any of them.
   0, and none added, where one of them breaks a rule. */
ALWAYS_INLINE int chunk_add_plain(Chunk *chunk, const Table *table, uint64_t slot, uint64_t start,
                                  const uint16_t ends[GROUP_SLOTS]) {
    unsigned count = chunk->block_count, bad = 0;
    uint16_t from = 0;
    for (unsigned i = 0; i < GROUP_SLOTS; from = ends[i++]) {
        const uint64_t low = slot_start(slot + i, table->slot_shift), top = slot_end(slot + i, table->slot_shift);
        const uint16_t bits = (uint16_t)(ends[i] - from);
        bad |= (unsigned)(ends[i] < from) | (unsigned)(bits > MAX_BLOCK_BITS);
        chunk->in_key_order[count] = (uint16_t)count;
        chunk->blocks[count] = (ChunkBlock){.end = start + ends[i],
                                            .previous = low,
                                            .least_last = low,
                                            .most_last = top,
                                            .bits = bits,
                                            .first_of_slot = 1};
        count += bits > 0;
    }
    if (bad) return 0;
    chunk->block_count = count;
    return 1;
}

/* Whether a group from bit `start` on goes on where the chunk ends, which has room for all of it. */
ALWAYS_INLINE int chunk_goes_on(const Chunk *chunk, uint64_t start) {
    const unsigned count = chunk->block_count;
    return count <= CHUNK_BLOCKS - GROUP_SLOTS && (count == 0 || chunk->blocks[count - 1].end == start);
}

/* Add the blocks of the group that starts at `slot`; *fits: all of them. In the payload those of its large slots come
   before the others. The cursor's slot is the one under way. */
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
    if (large == 0 && chunk_goes_on(chunk, start) && chunk_add_plain(chunk, table, slot, start, ends)) return OK;
    for (unsigned i = 0; i < GROUP_SLOTS && *fits && large >> i != 0; i++) {
        if (!((large >> i) & 1)) continue;
        unsigned before = chunk->block_count;
        cursor->slot = slot + i;
        status = fence_find(pages, table, slot_start(cursor->slot, table->slot_shift), &cursor->fence);
        if (status == OK) status = chunk_add_large(pages, table, cursor);
        if (status != OK) return status;
        large_blocks[i] = chunk->block_count - before;
        *fits = !cursor->in_slot;
    }
    next_inline = chunk->block_count;
    for (unsigned i = 0; i < GROUP_SLOTS && *fits; from = ends[i++]) {
        cursor->slot = slot + i;
        if (ends[i] < from || ends[i] - from > MAX_BLOCK_BITS || (ends[i] > from && (large >> i) & 1))
            return BAD_DIRECTORY;
        for (unsigned j = 0; j < large_blocks[i]; j++) chunk->in_key_order[next++] = (uint16_t)next_large++;
        if (ends[i] == from) continue;
        *fits = chunk_add_inline(chunk, table, slot + i, start + from, start + ends[i]);
        if (*fits) chunk->in_key_order[next++] = (uint16_t)next_inline++;
    }
    return OK;
}

/* Add the whole group that starts at the cursor's slot and move past it, or add nothing: where it does not fit the
   cursor stays, after an error it is at the slot to blame. */
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
        if (status == OK && large)
            status = fence_find(pages, table, slot_start(cursor->slot, table->slot_shift), &cursor->fence);
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

/* Fill the chunk with blocks from the cursor on, which moves past them: with at least one, unless no key is left. An
   error waits until the blocks before it are decoded. */
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
    uint64_t start = chunk->blocks[0].end - chunk->blocks[0].bits,
             bits = chunk->blocks[chunk->block_count - 1].end - start;
    uint64_t first_row = DECODE_LANES - 1; /* so that the sums of full rows start at a multiple of DECODE_LANES */
    unsigned block = 0;
    chunk->count = 0;
    chunk->streams = streams;
    for (unsigned i = 0; i < streams; i++) {
        unsigned first = block;
        while (block < chunk->block_count && chunk->blocks[block].end <= start + bits * (i + 1) / streams) block++;
        if (block == first) continue;
        Stretch *stretch = &chunk->stretches[chunk->count++];
        *stretch = (Stretch){.start = chunk->blocks[first].end - chunk->blocks[first].bits,
                             .end = chunk->blocks[block - 1].end,
                             .first_row = first_row,
                             .rows = CHUNK_KEYS,
                             .first_block = first,
                             .end_block = block};
        chunk->sums[first_row] = 0;
        first_row += streams == WIDE_STREAMS ? (block - first) * MAX_BLOCK_KEYS + ROWS_SLACK : STREAM_ROWS;
    }
}

/* Of keys[0..count), which increase, those in [least, most] come to the front; how many these are. */
static uint64_t keep_between(uint64_t *keys, uint64_t count, uint64_t least, uint64_t most) {
    uint64_t first = 0;
    while (count > 0 && keys[count - 1] > most) count--;
    while (first < count && keys[first] < least) first++;
    if (first > 0) memmove(keys, keys + first, (count - first) * sizeof *keys);
    return count - first;
}

/* The keys of a block or a chunk come next: BAD_BLOCK where they do not lie above the last one before them. */
ALWAYS_INLINE Status cursor_follow(Cursor *cursor, const uint64_t *keys, uint64_t count) {
    if (count == 0) return OK;
    if (cursor->begun && keys[0] <= cursor->last) return BAD_BLOCK;
    cursor->last = keys[count - 1];
    cursor->begun = 1;
    return OK;
}

/* cursor_decode() of a table of blocks: its slots are a range of keys, and the first and last block may have others. */
static Status cursor_blocks(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room,
                            uint64_t *count) {
    const uint64_t least = slot_start(cursor->slot, table->slot_shift),
                   most = slot_end(cursor->end_slot - 1, table->slot_shift);
    Status status = OK;
    if (!cursor->in_slot) status = fence_find(pages, table, least, &cursor->fence);
    cursor->in_slot = 1;
    for (*count = 0; status == OK && room - *count >= CHUNK_ROOM;) {
        Block block;
        uint64_t last_key, got;
        if (cursor->fence == table->fence_count) {
            cursor->slot = cursor->end_slot;
            break;
        }
        status = fence_block(pages, table, 0, cursor->fence, &block, &last_key);
        if (status == OK && !block.first_of_slot && block.previous >= most) {
            cursor->slot = cursor->end_slot;
            break;
        }
        if (status == OK) status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
        if (status == OK) status = decode_block(pages, table, &block, last_key, out + *count, &got);
        if (status != OK) {
            cursor->slot = slot_of(block.previous, table->slot_shift);
            break;
        }
        got = keep_between(out + *count, got, least, most);
        status = cursor_follow(cursor, out + *count, got);
        if (status != OK) break;
        *count += got;
        cursor->fence++;
    }
    return status;
}

Status cursor_decode(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room, uint64_t *count) {
    uint64_t stored = 0, got;
    if (table->block_bytes != 0) {
        *count = 0;
        return cursor->slot < cursor->end_slot ? cursor_blocks(pages, table, cursor, out, room, count) : OK;
    }
    while (cursor->slot < cursor->end_slot && room - stored >= CHUNK_ROOM) {
        Chunk *chunk = cursor->chunk;
        Status status = chunk_fill(pages, table, cursor);
        if (status != OK) return status;
        if (chunk->block_count == 0) break;
        unsigned streams =
            table->codec <= CODEC_XOR && chunk->block_count >= WIDE_LEAST ? kernels.streams : DECODE_STREAMS;
        chunk_split(chunk, cursor->alone ? 1 : streams);
        status = kernels.chunk(pages->base, table, chunk, out + stored, &got);
        if (status == OK) {
            chunk->bad_block = chunk->in_key_order[0];
            status = cursor_follow(cursor, out + stored, got);
        }
        if (status != OK) {
            cursor->slot = slot_of(chunk->blocks[chunk->bad_block].previous, table->slot_shift);
            return status;
        }
        stored += got;
    }
    *count = stored;
    return OK;
}
