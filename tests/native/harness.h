/* What the tests of the kernels in C share: random numbers that a seed gives again, tables in memory, and failing. */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include "decode.h"
#include "encode.h"
#include "pairs.h"
#include "scan.h"
#include "search.h"

#include <stdio.h>

extern const char *test_name;
extern uint64_t test_seed, random_state;
extern InstructionSet machine_set; /* the best there is */

#define EXPECT(held, ...)                                                                                      \
    do {                                                                                                       \
        if (held) break;                                                                                       \
        fprintf(stderr, "%s, seed %llu: %s does not hold: ", test_name, (unsigned long long)test_seed, #held); \
        fprintf(stderr, __VA_ARGS__);                                                                          \
        fprintf(stderr, "\n");                                                                                 \
        exit(1);                                                                                               \
    } while (0)

static uint64_t draw(void) { /* splitmix64 */
    uint64_t word = random_state += 0x9E3779B97F4A7C15u;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
    word = (word ^ word >> 27) * 0x94D049BB133111EBu;
    return word ^ word >> 31;
}

static uint64_t below(uint64_t limit) { return draw() % limit; }

static void *room(uint64_t count, size_t bytes) {
    void *found = calloc(count + 1, bytes);
    if (found == NULL) exit(2);
    return found;
}

static int key_order(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Sort keys and leave the distinct ones; how many. */
static uint64_t distinct(uint64_t *keys, uint64_t count) {
    uint64_t kept = 0;
    qsort(keys, count, sizeof *keys, key_order);
    for (uint64_t i = 0; i < count; i++)
        if (kept == 0 || keys[i] != keys[kept - 1]) keys[kept++] = keys[i];
    return kept;
}

/* Ways in which keys come: evenly, crowded in a few slots, side by side, near each other in bits, at both ends. */
enum { UNIFORM, CROWDED, RUNS, NEAR, ENDS, KINDS };

/* The bits of a key: most often as many as there can be. */
static unsigned draw_bits(void) { return below(2) ? MAX_KEY_BITS : MIN_KEY_BITS + 8 * (unsigned)below(6); }

static uint64_t draw_keys(int kind, uint64_t *keys, uint64_t count, unsigned key_bits) {
    uint64_t center = draw();
    for (uint64_t i = 0; i < count; i++) {
        if (kind == CROWDED && i % 128 == 0) center = draw();
        if (kind == NEAR && i % 16 == 0) center = draw();
        switch (kind) {
        case CROWDED: keys[i] = (center & top_bits(24)) | draw() >> (24 + below(30)); break;
        case RUNS: keys[i] = i % 50 == 0 ? draw() : keys[i - 1] + 1; break;
        case NEAR: keys[i] = center ^ (uint64_t)1 << below(64) ^ (uint64_t)1 << below(64); break;
        case ENDS: keys[i] = i % 2 ? below(4 * count) : ~below(4 * count); break;
        default: keys[i] = draw();
        }
    }
    if (kind == ENDS && count > 1) keys[0] = 0, keys[1] = ~(uint64_t)0;
    for (uint64_t i = 0; i < count; i++)
        keys[i] = kind == CROWDED ? keys[i] >> (MAX_KEY_BITS - key_bits) : keys[i] & low_bits(key_bits);
    return distinct(keys, count);
}

/* Whether the next code may be as the one drawn last, or nearly, as those of the tables of a segment are. */
static int may_be_alike;

/* The lengths of a complete code, drawn, and its canonical words: leaves of a tree, split until there are enough. Or
   those drawn last, maybe two of them exchanged. */
static void draw_code(uint8_t *lengths, uint16_t *words) {
    static uint8_t last[SYMBOLS];
    uint16_t next = 0;
    unsigned before = 0;
    const unsigned as_last = may_be_alike ? (unsigned)below(3) : 0;
    if (as_last) {
        const unsigned one = (unsigned)below(SYMBOLS), two = (unsigned)below(SYMBOLS);
        memcpy(lengths, last, SYMBOLS);
        if (as_last == 2) lengths[one] = last[two], lengths[two] = last[one];
    } else {
        lengths[0] = 0;
        for (unsigned leaves = 1; leaves < SYMBOLS;) {
            const unsigned leaf = (unsigned)below(leaves);
            if (lengths[leaf] < MAX_CODE_BITS) lengths[leaves++] = ++lengths[leaf];
        }
        for (unsigned i = SYMBOLS - 1; i > 0; i--) {
            const unsigned j = (unsigned)below(i + 1), other = lengths[i];
            lengths[i] = lengths[j], lengths[j] = (uint8_t)other;
        }
    }
    memcpy(last, lengths, SYMBOLS);
    for (unsigned length = 1; length <= MAX_CODE_BITS; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            if (lengths[symbol] != length) continue;
            next = (uint16_t)(next << (before ? length - before : 0));
            before = length;
            words[symbol] = next++;
        }
}

/* The keys of one table as a segment file holds them. */
typedef struct {
    uint8_t *bytes;
    uint64_t size;
    Pages pages;
    Table table;
    uint64_t key_count;
} Image;

static void image_free(Image *image) {
    free(image->bytes);
    free(image->pages.seen);
}

/* How tables are cut: by slots, or by bytes, so many in a block at most. */
static unsigned draw_block_bytes(void) {
    return below(3) ? 0 : MIN_BLOCK_BYTES + (unsigned)below(below(2) ? 100 : MAX_BLOCK_BYTES - MIN_BLOCK_BYTES + 1);
}

/* Encode keys, in pushes of drawn sizes. All pages count as checked. block_bytes: 0 for a table of slots. */
static void image_make(Image *image, const uint64_t *keys, uint64_t count, unsigned key_bits, int codec,
                       unsigned slot_bits, unsigned block_bytes, uint64_t prefix_mask, unsigned flips) {
    static Encoder encoder;
    uint8_t lengths[SYMBOLS];
    uint16_t words[SYMBOLS];
    const uint64_t lines = block_bytes ? 0 : (((uint64_t)1 << slot_bits) + GROUP_SLOTS - 1) / GROUP_SLOTS;
    Table *table = &image->table;
    uint64_t filled = 0, written, pushes = 2;
    uint8_t *directory = room(lines, LINE_BYTES);
    uint8_t *payload = room(count * MAX_CODE_BYTES_PER_KEY + 64 * PAYLOAD_SLACK, 1);
    memset(image, 0, sizeof *image);
    draw_code(lengths, words);
    permutation_init(&table->permutation, prefix_mask, key_bits);
    table->codec = codec;
    table->key_bits = key_bits;
    table->slot_bits = slot_bits;
    table->block_bytes = block_bytes;
    table_set_shifts(table);
    const unsigned rice_bits = codec == CODEC_RICE ? (unsigned)below(50) + 8 : 0;
    table->fixed_bits = codec == CODEC_RAW ? key_bits : rice_bits;
    table->flips = flips;
    encoder_init(&encoder, codec, key_bits, slot_bits, rice_bits, block_bytes, lengths, words,
                 block_bytes ? NULL : directory, NULL);
    for (uint64_t done = 0; done < count; pushes++) {
        uint64_t some = pushes > 32 ? count - done : 1 + below(count - done);
        EXPECT(encoder_push(&encoder, keys + done, some, payload + filled, &written) == OK, "%llu keys",
               (unsigned long long)some);
        filled += written;
        done += some;
    }
    EXPECT(encoder_finish(&encoder, payload + filled, &written) == OK, "at the end");
    filled += written;
    table->payload_bits = encoder.payload_bits;
    table->fence_count = encoder.fence_count;
    table->directory_offset = (filled + 63) / 64 * 64;
    table->fences_offset = table->directory_offset + lines * LINE_BYTES;
    image->size = table->fences_offset + encoder.fence_count * FENCE_BYTES + FOOTER_BYTES;
    image->bytes = room(image->size, 1);
    memcpy(image->bytes, payload, filled);
    memcpy(image->bytes + table->directory_offset, directory, lines * LINE_BYTES);
    if (encoder.fence_count > 0)
        memcpy(image->bytes + table->fences_offset, encoder.fences, encoder.fence_count * FENCE_BYTES);
    decode_init(table->decode, lengths);
    image->pages.base = image->bytes;
    image->pages.checked_bytes = image->size;
    image->pages.pages = (image->size + PAGE_BYTES - 1) / PAGE_BYTES;
    image->pages.seen = room(image->pages.pages / 64 + 1, 8);
    memset(image->pages.seen, 0xFF, (image->pages.pages / 64 + 1) * 8);
    image->key_count = count;
    encoder_free(&encoder);
    free(directory);
    free(payload);
}

/* All kernels of a set. */
static void choose_all(InstructionSet set) {
    permute_choose(set);
    decode_choose(set);
    encode_choose(set);
    search_choose(set);
    scan_choose(set);
    join_choose(set);
}

void test_decode(void);
void test_search(void);
void test_sort(void);
void test_pairs(void);
void test_names(void);
void test_json_lines(void);
void test_distinct(void);
void test_listed(void);
void test_interpreter(void);

#endif
