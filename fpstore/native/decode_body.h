/* Decoding one key, one block, a run of blocks. Included once for each instruction set; see platform.h. */

/* The next key after *key, which it replaces; *at advances by at least one bit. Reads at most 32 bytes from *at on,
   which a file always has there (its footer). */
ALWAYS_INLINE Status KERNEL(step)(const uint8_t *base, const DecodeEntry *decode, unsigned rice_bits, int codec,
                                  uint64_t *at, uint64_t *key) {
    uint64_t position = *at, word = load64(base + (position >> 3)) >> (position & 7), delta;
    if (codec == CODEC_GAP || codec == CODEC_XOR) {
        unsigned entry = decode[word & ((1 << CODE_LIMIT) - 1)], advance = entry & 255, length = entry >> 8;
        unsigned tail = advance - length;
        if (UNLIKELY(advance > FAST_BITS)) {
            if (advance == SLOW_BAD) return BAD_BLOCK;
            if (advance == SLOW_ZERO) {
                *at = position + length;
                return OK;
            }
            uint64_t from = position + length; /* a tail of up to 63 bits: take it from two loads */
            word = load64(base + (from >> 3)) >> (from & 7);
            if ((from & 7) != 0) word |= (uint64_t)base[(from >> 3) + 8] << (64 - (from & 7));
            delta = (word & low_bits(tail)) | (uint64_t)1 << tail;
        } else {
            word >>= length;
            delta = (word & (((uint64_t)1 << tail) - 1)) | (uint64_t)1 << tail;
        }
        *at = position + advance;
    } else if (codec == CODEC_RICE) {
        unsigned zeros = (unsigned)__builtin_ctzll(word | (uint64_t)1 << RICE_ESCAPE);
        unsigned wide = zeros < RICE_ESCAPE ? rice_bits : 64;
        uint64_t from = position + zeros + (zeros < RICE_ESCAPE);
        word = load64(base + (from >> 3)) >> (from & 7);
        if ((from & 7) != 0) word |= (uint64_t)base[(from >> 3) + 8] << (64 - (from & 7));
        delta = word & low_bits(wide);
        if (zeros < RICE_ESCAPE) delta |= (uint64_t)zeros << rice_bits; /* a hostile r may overflow: a wrong key, not a crash */
        *at = from + wide;
    } else {
        if ((position & 7) != 0) word |= (uint64_t)base[(position >> 3) + 8] << (64 - (position & 7));
        *key = word;
        *at = position + 64;
        return OK;
    }
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

/* Decode the blocks of one run to its end, from where *at and *key stand; single stream. */
ALWAYS_INLINE Status KERNEL(run_rest)(const uint8_t *base, const Table *table, Run *run, uint64_t at, uint64_t key, int codec) {
    for (;;) {
        const RunBlock *block = &run->blocks[run->block];
        while (at < block->end) {
            uint64_t before = key;
            Status status = KERNEL(step)(base, table->decode, table->rice_bits, codec, &at, &key);
            if (UNLIKELY(status != OK)) return status;
            if (UNLIKELY(key <= before && !(key == before && run->count == run->block_first))) return BAD_BLOCK;
            run->keys[run->count++] = key;
        }
        if (at != block->end || key > block->last_key || run->count - run->block_first > BLOCK_KEYS) return BAD_BLOCK;
        if (++run->block == run->block_count) return OK;
        run->block_first = run->count;
        at = run->blocks[run->block].start;
        key = run->blocks[run->block].previous;
    }
}

/* Decode runs of blocks side by side, with the checks of block_as. A step of a stream waits for the one before it (load,
   look-up, shift), so four of them keep the processor busy; each step gives a key to every run, so that one index
   serves all of their outputs. When the first run ends the others are finished one after another. */
ALWAYS_INLINE Status KERNEL(runs_as)(const uint8_t *base, const Table *table, Run *runs, unsigned count, int codec) {
    const DecodeEntry *decode = table->decode;
    const unsigned rice_bits = table->rice_bits;
    uint64_t at[DECODE_STREAMS], key[DECODE_STREAMS], end[DECODE_STREAMS], produced = 0;
    unsigned ended = DECODE_STREAMS;
    for (unsigned i = 0; i < count; i++) {
        at[i] = runs[i].blocks[0].start;
        end[i] = runs[i].blocks[0].end;
        key[i] = runs[i].blocks[0].previous;
    }
    if (count == DECODE_STREAMS) {
        uint64_t *out = runs[0].keys;
        while (ended == DECODE_STREAMS) {
#pragma GCC unroll 8
            for (unsigned i = 0; i < DECODE_STREAMS; i++) {
                uint64_t before = key[i];
                Status status = KERNEL(step)(base, decode, rice_bits, codec, &at[i], &key[i]);
                if (UNLIKELY(status != OK)) return status;
                if (UNLIKELY(key[i] <= before && !(key[i] == before && produced == runs[i].block_first))) return BAD_BLOCK;
                out[i * RUN_STRIDE + produced] = key[i];
                if (UNLIKELY(at[i] >= end[i])) {
                    Run *run = &runs[i];
                    const RunBlock *block = &run->blocks[run->block];
                    if (at[i] != end[i] || key[i] > block->last_key || produced >= run->block_first + BLOCK_KEYS) return BAD_BLOCK;
                    run->block_first = produced + 1;
                    if (++run->block == run->block_count) {
                        ended = i;
                        break;
                    }
                    at[i] = block[1].start;
                    end[i] = block[1].end;
                    key[i] = block[1].previous;
                }
            }
            produced++;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        runs[i].count = count == DECODE_STREAMS ? produced - (i > ended) : 0;
        if (i == ended) continue;
        Status status = KERNEL(run_rest)(base, table, &runs[i], at[i], key[i], codec);
        if (status != OK) return status;
    }
    return OK;
}

static Status KERNEL(decode_runs)(const uint8_t *base, const Table *table, Run *runs, unsigned count) {
    switch (table->codec) {
    case CODEC_GAP: return KERNEL(runs_as)(base, table, runs, count, CODEC_GAP);
    case CODEC_XOR: return KERNEL(runs_as)(base, table, runs, count, CODEC_XOR);
    case CODEC_RICE: return KERNEL(runs_as)(base, table, runs, count, CODEC_RICE);
    default: return KERNEL(runs_as)(base, table, runs, count, CODEC_RAW);
    }
}
