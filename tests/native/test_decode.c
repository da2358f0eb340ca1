/* Encoding and decoding beside a decoder that reads one bit at a time, as docs/format.md tells it. */
#include "harness.h"

typedef struct {
    const uint8_t *bytes;
    uint64_t at;
} Bits;

static unsigned next_bit(Bits *bits) {
    unsigned bit = bits->bytes[bits->at / 8] >> (bits->at % 8) & 1;
    bits->at++;
    return bit;
}

static uint64_t next_bits(Bits *bits, unsigned count) { /* lowest first */
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++) value |= (uint64_t)next_bit(bits) << i;
    return value;
}

/* The next delta, or key; whether its code is known. */
static int next_value(const Image *image, Bits *bits, uint64_t *value) {
    const Table *table = &image->table;
    if (table->codec == CODEC_RAW) {
        *value = next_bits(bits, table->key_bits);
        return 1;
    }
    if (table->codec == CODEC_RICE) {
        uint64_t quotient = 0;
        while (quotient < RICE_ESCAPE && !next_bit(bits)) quotient++;
        *value = quotient < RICE_ESCAPE ? next_bits(bits, table->fixed_bits) | quotient << table->fixed_bits
                                        : next_bits(bits, 64);
        return 1;
    }
    Bits look = *bits; /* a code word is at most so long; the table says what it is */
    const DecodeEntry entry = table->decode[next_bits(&look, MAX_CODE_BITS)];
    const unsigned all = entry & 255, length = entry >> 8;
    if (all == SLOW_BAD) return 0;
    bits->at += length;
    *value = all == SLOW_ZERO ? 0 : next_bits(bits, all - length) | (uint64_t)1 << (all - length);
    return 1;
}

/* The keys of bits [start, end) after `previous`; -1 where they break a rule. */
static int64_t plain_block(const Image *image, uint64_t start, uint64_t end, uint64_t previous, int first_of_slot,
                           uint64_t *out) {
    Bits bits = {image->bytes, start};
    int64_t count = 0;
    while (bits.at < end) {
        uint64_t value, key;
        if (count == MAX_BLOCK_KEYS || bits.at > end || !next_value(image, &bits, &value)) return -1;
        key = image->table.codec == CODEC_RAW   ? value
              : image->table.codec == CODEC_XOR ? previous ^ value
                                                : previous + value;
        if (key < previous || (key == previous && !(count == 0 && first_of_slot))) return -1;
        out[count++] = previous = key;
    }
    return bits.at == end ? count : -1;
}

/* All keys of a table of blocks, each of which begins with a key as it is; -1 where it breaks a rule. */
static int64_t plain_blocks(const Image *image, uint64_t *out, uint64_t most) {
    const Table *table = &image->table;
    uint64_t count = 0, before = 0;
    for (uint64_t fence = 0; fence < table->fence_count; fence++) {
        const uint8_t *at = image->bytes + table->fences_offset + fence * FENCE_BYTES;
        const uint64_t last = load64(at), word = load64(at + 8);
        const uint64_t start = table->payload_offset * 8 + (word & low_bits(OFFSET_BITS)),
                       end = start + (word >> OFFSET_BITS);
        Bits bits = {image->bytes, start};
        for (int first = 1; bits.at < end; first = 0) {
            uint64_t value, key;
            if (count == most) return -1;
            if (first)
                key = next_bits(&bits, table->key_bits);
            else if (!next_value(image, &bits, &value))
                return -1;
            else
                key = table->codec == CODEC_RAW ? value : table->codec == CODEC_XOR ? before ^ value : before + value;
            if (count > 0 && key <= before) return -1;
            out[count++] = before = key;
        }
        if (bits.at != end || before != last) return -1;
    }
    return (int64_t)count;
}

/* All keys of a table; -1 where it breaks a rule. */
static int64_t plain_table(const Image *image, uint64_t *out, uint64_t most) {
    const Table *table = &image->table;
    if (table->block_bytes != 0) return plain_blocks(image, out, most);
    uint64_t fence = 0, count = 0;
    for (uint64_t slot = 0; slot >> table->slot_bits == 0; slot++) {
        const uint8_t *line = image->bytes + table->directory_offset + slot / GROUP_SLOTS * LINE_BYTES;
        const uint64_t word = load64(line), base = word & low_bits(OFFSET_BITS), index = slot % GROUP_SLOTS;
        const uint64_t low = slot_start(slot, table->slot_shift), top = slot_end(slot, table->slot_shift);
        uint16_t ends[GROUP_SLOTS];
        memcpy(ends, line + 8, sizeof ends);
        const uint64_t from = index ? ends[index - 1] : 0, to = ends[index];
        if (to < from || to - from > MAX_BLOCK_BITS || base > table->payload_bits || to > table->payload_bits - base)
            return -1;
        if (count + MAX_BLOCK_KEYS > most) return -1;
        if (word >> OFFSET_BITS >> index & 1) {
            uint64_t before = low;
            int first = 1;
            if (to != from) return -1;
            for (; fence < table->fence_count; fence++, first = 0) {
                const uint8_t *at = image->bytes + table->fences_offset + fence * FENCE_BYTES;
                const uint64_t last = load64(at), start = load64(at + 8) & low_bits(OFFSET_BITS),
                               bits = load64(at + 8) >> OFFSET_BITS;
                if (last > top) break;
                if (count + MAX_BLOCK_KEYS > most || bits == 0 || start + bits > table->payload_bits) return -1;
                const int64_t found = plain_block(image, table->payload_offset * 8 + start,
                                                  table->payload_offset * 8 + start + bits, before, first, out + count);
                if (found <= 0 || out[count + (uint64_t)found - 1] != last) return -1;
                count += (uint64_t)found;
                before = last;
            }
            if (first) return -1;
        } else if (to > from) {
            const int64_t found = plain_block(image, table->payload_offset * 8 + base + from,
                                              table->payload_offset * 8 + base + to, low, 1, out + count);
            if (found <= 0 || out[count + (uint64_t)found - 1] > top) return -1;
            count += (uint64_t)found;
        }
    }
    return (int64_t)count;
}

/* All keys by the chosen kernels; -1 where they refuse the table. */
static int64_t decoded(Image *image, int alone, uint64_t *out, uint64_t most) {
    static Chunk chunk;
    Cursor cursor = {.end_slot = (uint64_t)1 << image->table.slot_bits, .alone = alone, .chunk = &chunk};
    uint64_t total = 0, count;
    chunk_code_init(&chunk.code, image->table.decode);
    do {
        count = 0;
        if (most - total < CHUNK_ROOM) return -2;
        if (cursor_decode(&image->pages, &image->table, &cursor, out + total, most - total, &count) != OK) return -1;
        total += count;
    } while (count > 0);
    return (int64_t)total;
}

static void compare(Image *image, const uint64_t *expected, int64_t expected_count, uint64_t *out, uint64_t most) {
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        choose_all((InstructionSet)set);
        for (int alone = 0; alone < 2; alone++) {
            const int64_t found = decoded(image, alone, out, most);
            EXPECT(found == expected_count, "set %d alone %d codec %d: %lld of %lld keys", set, alone,
                   image->table.codec, (long long)found, (long long)expected_count);
            EXPECT(found <= 0 || memcmp(out, expected, (size_t)found * 8) == 0, "set %d alone %d", set, alone);
        }
    }
}

/* Decode what is in the chunk again, by the kernels of a set. */
static Status chunk_again(const Image *image, InstructionSet set, Chunk *chunk, uint64_t *out) {
    uint64_t count;
#if FPSTORE_X86
    if (set == SET_FAST) return decode_chunk_fast(image->pages.base, &image->table, chunk, out, &count);
    if (set == SET_WIDE) return decode_chunk_wide(image->pages.base, &image->table, chunk, out, &count);
#endif
    return decode_chunk_portable(image->pages.base, &image->table, chunk, out, &count);
}

/* A file that changes while it is read may have fences in another order than those that were read: neither in a chunk
   nor from one to the next do keys come that are not above those before them. */
static void refuse_disorder(Image *image, uint64_t *out) {
    static Chunk chunk;
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        Cursor cursor = {.end_slot = (uint64_t)1 << image->table.slot_bits, .chunk = &chunk}, later = cursor;
        uint64_t count;
        choose_all((InstructionSet)set);
        chunk_code_init(&chunk.code, image->table.decode);
        EXPECT(cursor_decode(&image->pages, &image->table, &cursor, out, CHUNK_ROOM, &count) == OK, "set %d", set);
        EXPECT(cursor.begun && cursor.last == out[count - 1], "set %d: the last of %llu keys", set,
               (unsigned long long)count);
        later.begun = 1;
        later.last = out[0];
        EXPECT(cursor_decode(&image->pages, &image->table, &later, out, CHUNK_ROOM, &count) == BAD_BLOCK, "set %d",
               set);
        if (image->table.block_bytes != 0) continue;
        EXPECT(later.slot == slot_of(out[0], image->table.slot_shift), "set %d: slot %llu", set,
               (unsigned long long)later.slot);
        if (chunk.block_count < 2) continue;
        EXPECT(chunk_again(image, (InstructionSet)set, &chunk, out) == OK, "set %d: a chunk decoded twice", set);
        const uint16_t first = chunk.in_key_order[0];
        chunk.in_key_order[0] = chunk.in_key_order[1];
        chunk.in_key_order[1] = first;
        EXPECT(chunk_again(image, (InstructionSet)set, &chunk, out) == BAD_BLOCK, "set %d: blocks in disorder", set);
    }
}

/* Within a large slot that does not fit in one chunk, the next one goes on from a fence that was found before. Where that
   ends below the slot by then, keys that wrap could come to it. */
static void refuse_lowered(Image *image, uint64_t *out) {
    static Chunk chunk;
    const Table *table = &image->table;
    for (uint64_t fence = 1; table->block_bytes == 0 && fence < table->fence_count; fence++) {
        uint8_t *at = image->bytes + table->fences_offset + fence * FENCE_BYTES, *before = at - FENCE_BYTES;
        const uint64_t slot = slot_of(load64(at), table->slot_shift), lowered[2] = {0, 1};
        if (slot_start(slot, table->slot_shift) < 2) continue;
        const uint64_t were[2] = {load64(before), load64(at)};
        memcpy(before, &lowered[0], 8);
        memcpy(at, &lowered[1], 8);
        for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
            Cursor cursor = {.slot = slot,
                             .end_slot = (uint64_t)1 << table->slot_bits,
                             .fence = fence,
                             .in_slot = 1,
                             .chunk = &chunk};
            uint64_t count;
            choose_all((InstructionSet)set);
            chunk_code_init(&chunk.code, table->decode);
            EXPECT(cursor_decode(&image->pages, table, &cursor, out, CHUNK_ROOM, &count) == BAD_DIRECTORY,
                   "set %d: a fence below its slot", set);
        }
        memcpy(before, &were[0], 8);
        memcpy(at, &were[1], 8);
    }
}

void test_decode(void) {
    const uint64_t count = 1 + below(below(4) ? 3000 : 40), most = count + 2 * CHUNK_ROOM;
    uint64_t *keys = room(count, 8), *plain = room(most, 8), *out = room(most, 8);
    const unsigned key_bits = draw_bits();
    const uint64_t held = draw_keys((int)below(KINDS), keys, count, key_bits);
    const int codec = (int)below(4);
    const unsigned slot_bits = (unsigned)below(11), block_bytes = draw_block_bytes();
    const uint64_t state = random_state;
    uint8_t *bytes = NULL;
    Image image;
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) { /* each encodes the same bytes */
        choose_all((InstructionSet)set);
        random_state = state;
        image_make(&image, keys, held, key_bits, codec, slot_bits, block_bytes, low_bits(12) << (key_bits - 12), 1);
        EXPECT(bytes == NULL || memcmp(bytes, image.bytes, image.size) == 0, "set %d encodes otherwise", set);
        if (bytes == NULL) {
            bytes = room(image.size, 1);
            memcpy(bytes, image.bytes, image.size);
        }
        if (set < (int)machine_set) image_free(&image);
    }
    EXPECT(plain_table(&image, plain, most) == (int64_t)held && memcmp(plain, keys, held * 8) == 0,
           "the plain decoder");
    compare(&image, keys, (int64_t)held, out, most);
    refuse_disorder(&image, out);
    refuse_lowered(&image, out);
    for (unsigned damage = 0; damage < 20;
         damage++) { /* of the payload: of the rest other rules know more than this twin */
        const uint64_t bit = below(image.table.payload_bits ? image.table.payload_bits : 1);
        image.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int64_t found = plain_table(&image, plain, most);
        compare(&image, plain, found, out, most);
        image.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    image_free(&image);
    free(bytes);
    free(keys);
    free(plain);
    free(out);
}
