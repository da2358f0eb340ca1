/* Decoding one key, one block, a run of blocks. Included once for each instruction set; see platform.h. */

/* `wide` bits (0..64) of the stream from bit `at` on. */
ALWAYS_INLINE uint64_t KERNEL(bits_at)(const uint8_t *base, uint64_t at, unsigned wide) {
    uint64_t word = load64(base + (at >> 3)) >> (at & 7);
    if ((at & 7) != 0) word |= (uint64_t)base[(at >> 3) + 8] << (64 - (at & 7));
    return word & low_bits(wide);
}

/* step() where the fast path does not do: an unknown code, a delta of 0, a tail that one load does not hold. */
static __attribute__((noinline)) Status KERNEL(slow_step)(const uint8_t *base, unsigned entry, int codec, uint64_t *at, uint64_t *key) {
    unsigned advance = entry & 255, length = entry >> 8, tail = advance - length;
    if (advance == SLOW_BAD) return BAD_BLOCK;
    *at += length;
    if (advance == SLOW_ZERO) return OK;
    uint64_t delta = KERNEL(bits_at)(base, *at, tail) | (uint64_t)1 << tail;
    *at += tail;
    *key = codec == CODEC_XOR ? *key ^ delta : *key + delta;
    return OK;
}

/* The next key after *key, which it replaces; *at advances by at least one bit. Reads at most 32 bytes from *at on,
   which a file always has there (its footer). */
ALWAYS_INLINE Status KERNEL(step)(const uint8_t *base, const DecodeEntry *decode, unsigned rice_bits, int codec,
                                  uint64_t *at, uint64_t *key) {
    uint64_t position = *at, delta;
    if (codec == CODEC_RAW) {
        *key = KERNEL(bits_at)(base, position, 64);
        *at = position + 64;
        return OK;
    }
    uint64_t word = load64(base + (position >> 3)) >> (position & 7);
    if (codec == CODEC_RICE) {
        unsigned zeros = (unsigned)__builtin_ctzll(word | (uint64_t)1 << RICE_ESCAPE);
        unsigned wide = zeros < RICE_ESCAPE ? rice_bits : 64;
        uint64_t from = position + zeros + (zeros < RICE_ESCAPE);
        delta = KERNEL(bits_at)(base, from, wide);
        if (zeros < RICE_ESCAPE) delta |= (uint64_t)zeros << rice_bits; /* a hostile r may overflow: a wrong key, not a crash */
        *at = from + wide;
        *key += delta;
        return OK;
    }
    unsigned entry = decode[word & ((1 << CODE_LIMIT) - 1)], advance = entry & 255, length = entry >> 8;
    if (UNLIKELY(advance > FAST_BITS)) {
        uint64_t slow_at = position, slow_key = *key; /* copies, so that the caller's stay in registers */
        Status status = KERNEL(slow_step)(base, entry, codec, &slow_at, &slow_key);
        *at = slow_at;
        *key = slow_key;
        return status;
    }
    unsigned tail = advance - length;
    delta = ((word >> length) & (((uint64_t)1 << tail) - 1)) | (uint64_t)1 << tail;
    *at = position + advance;
    *key = codec == CODEC_XOR ? *key ^ delta : *key + delta;
    return OK;
}

/* Decode a whole block with every check: keys strictly increasing (the first of a slot may equal its start), none
   above last_key, at most BLOCK_KEYS of them, the last code ending at the block's end. out has room for BLOCK_KEYS. */
ALWAYS_INLINE Status KERNEL(block_as)(const Pages *pages, const Table *table, const Block *block, uint64_t last_key,
                                      int codec, uint64_t *out, uint64_t *count) {
    uint64_t at = block->start, key = block->previous, stored = 0;
    while (at < block->end) {
        uint64_t before = key;
        Status status = KERNEL(step)(pages->base, table->decode, table->rice_bits, codec, &at, &key);
        if (UNLIKELY(status != OK)) return status;
        if (UNLIKELY(key <= before && !(key == before && stored == 0 && block->first_of_slot))) return BAD_BLOCK;
        if (UNLIKELY(stored == BLOCK_KEYS)) return BAD_BLOCK;
        out[stored++] = key;
    }
    if (UNLIKELY(at != block->end || key > last_key)) return BAD_BLOCK;
    *count = stored;
    return OK;
}

static Status KERNEL(decode_block)(const Pages *pages, const Table *table, const Block *block, uint64_t last_key,
                                   uint64_t *out, uint64_t *count) {
    switch (table->codec) {
    case CODEC_GAP: return KERNEL(block_as)(pages, table, block, last_key, CODEC_GAP, out, count);
    case CODEC_XOR: return KERNEL(block_as)(pages, table, block, last_key, CODEC_XOR, out, count);
    case CODEC_RICE: return KERNEL(block_as)(pages, table, block, last_key, CODEC_RICE, out, count);
    default: return KERNEL(block_as)(pages, table, block, last_key, CODEC_RAW, out, count);
    }
}

/* Decode one run to its end, from where it stands. */
ALWAYS_INLINE Status KERNEL(run_rest)(const uint8_t *base, const Table *table, Run *run, uint64_t *keys, int codec) {
    uint64_t at = run->at, key = run->key;
    for (;;) {
        const RunBlock *block = &run->blocks[run->block];
        while (at < block->end) {
            uint64_t before = key;
            Status status = KERNEL(step)(base, table->decode, table->rice_bits, codec, &at, &key);
            if (UNLIKELY(status != OK)) return status;
            if (UNLIKELY(key <= before && !(key == before && run->count == run->block_first))) return BAD_BLOCK;
            keys[run->count++] = key;
        }
        if (at != block->end || key > block->last_key || run->count - run->block_first > BLOCK_KEYS) return BAD_BLOCK;
        if (++run->block == run->block_count) return OK;
        run->block_first = run->count;
        at = run->blocks[run->block].start;
        key = run->blocks[run->block].previous;
    }
}

/* Decode DECODE_STREAMS runs side by side until the first of them ends; *ended is its index. A step of a stream waits for
   the one before it (load, look-up, shift), so four of them keep the processor busy; each step gives a key to every
   run, so that one index serves all of their outputs. */
ALWAYS_INLINE Status KERNEL(runs_together)(const uint8_t *base, unsigned rice_bits, CursorScratch *scratch, unsigned *ended,
                                           int codec) {
    Run *runs = scratch->runs;
    uint64_t at[DECODE_STREAMS], key[DECODE_STREAMS], produced = 0; /* constant indexes only: they stay in registers */
    Status status;
#pragma GCC unroll 8
    for (unsigned i = 0; i < DECODE_STREAMS; i++) at[i] = runs[i].at, key[i] = runs[i].key;
    for (*ended = DECODE_STREAMS; *ended == DECODE_STREAMS; produced++) {
#pragma GCC unroll 8
        for (unsigned i = 0; i < DECODE_STREAMS; i++) {
            uint64_t before = key[i];
            status = KERNEL(step)(base, scratch->decode, rice_bits, codec, &at[i], &key[i]);
            if (UNLIKELY(status != OK)) return status;
            if (UNLIKELY(key[i] <= before && !(key[i] == before && produced == runs[i].block_first))) return BAD_BLOCK;
            scratch->keys[i][produced] = key[i];
            if (UNLIKELY(at[i] >= runs[i].block_end)) {
                Run *run = &runs[i];
                const RunBlock *block = &run->blocks[run->block];
                if (at[i] != block->end || key[i] > block->last_key || produced >= run->block_first + BLOCK_KEYS) return BAD_BLOCK;
                run->block_first = produced + 1;
                if (++run->block == run->block_count) {
                    *ended = i;
                    break;
                }
                at[i] = block[1].start;
                key[i] = block[1].previous;
                run->block_end = block[1].end;
            }
        }
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < DECODE_STREAMS; i++) runs[i].at = at[i], runs[i].key = key[i], runs[i].count = produced - (i > *ended);
    return OK;
}

/* Decode runs of blocks with the checks of block_as: side by side where there are enough of them, the rest one by one. */
ALWAYS_INLINE Status KERNEL(runs_as)(const uint8_t *base, const Table *table, CursorScratch *scratch, unsigned count, int codec) {
    Run *runs = scratch->runs;
    unsigned ended = DECODE_STREAMS;
    for (unsigned i = 0; i < count; i++) {
        runs[i].at = runs[i].blocks[0].start;
        runs[i].key = runs[i].blocks[0].previous;
        runs[i].block_end = runs[i].blocks[0].end;
    }
    if (count == DECODE_STREAMS) {
        Status status = KERNEL(runs_together)(base, table->rice_bits, scratch, &ended, codec);
        if (status != OK) return status;
    }
    for (unsigned i = 0; i < count; i++) {
        Status status = i == ended ? OK : KERNEL(run_rest)(base, table, &runs[i], scratch->keys[i], codec);
        if (status != OK) return status;
    }
    return OK;
}

static Status KERNEL(decode_runs)(const uint8_t *base, const Table *table, CursorScratch *scratch, unsigned count) {
    switch (table->codec) {
    case CODEC_GAP: return KERNEL(runs_as)(base, table, scratch, count, CODEC_GAP);
    case CODEC_XOR: return KERNEL(runs_as)(base, table, scratch, count, CODEC_XOR);
    case CODEC_RICE: return KERNEL(runs_as)(base, table, scratch, count, CODEC_RICE);
    default: return KERNEL(runs_as)(base, table, scratch, count, CODEC_RAW);
    }
}
