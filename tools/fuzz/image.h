/* An input of the fuzzer as a segment file: whatever its bytes are, the image keeps every rule that fpstore/format.py
   has checked before a kernel sees a file, and every checksum holds (but for one, where the input says so). All else is
   hostile.

   Input: a head, a record for each table, then the bytes of the regions in the order of the file; missing ones are 0.
 */
#ifndef FUZZ_IMAGE_H
#define FUZZ_IMAGE_H

#include "platform.h"

#include "decode.h"
#include "ids.h"

#define QUERIES 3
#define MAX_TABLES 3
#define MOST_SLOT_BITS 8
#define MAX_KEYS 1024
#define MAX_PAYLOAD_BITS 65536
#define MAX_IDS 2048
#define MAX_REGIONS (3 * MAX_TABLES + 4)

typedef struct __attribute__((packed)) {
    uint8_t table_count, codec, id_kind, id_width;
    uint16_t key_count, id_count;
    uint64_t id_base;
    uint16_t bad_page; /* 0, or one more than the page whose checksum does not hold */
    uint8_t distance, alone, key_bits;
    uint16_t block_bytes; /* 0, or those of blocks, less one less than the fewest */
    uint64_t queries[QUERIES];
} Head;

typedef struct __attribute__((packed)) {
    uint8_t mask, slot_bits, rice_bits, flips, fence_count;
    uint32_t payload_bits;
    uint8_t code_lengths[SYMBOLS];
} TableHead;

/* A table's prefix mask is one of these: making a permutation takes longer than all the rest. */
#define MASKS 16
static const uint64_t masks[MASKS] = {0xffffffff00000000, 0x00000000ffffffff, 0xffff000000000000, 0x0000ffff00000000,
                                      0x00000000ffff0000, 0x000000000000ffff, 0xff00ff00ff00ff00, 0x00ffffffffffff00,
                                      0x5555555555555555, 0x8000000000000001, 0x000000000000000f, 0xfffffffffffffffe,
                                      0x1111111111111111, 0x7fffffffffffffff, 0x0000000000000000, 0xffffffffffffffff};
static Permutation *permutations[(MAX_KEY_BITS - MIN_KEY_BITS) / 8 + 1][MASKS];

/* A run of the input: what a mutation aims at. */
typedef struct {
    size_t offset, bytes;
} Span;

typedef struct {
    uint8_t *bytes; /* exactly as long as the file, so that one byte too far is seen */
    uint64_t size;
    Pages pages;
    Table *tables[MAX_TABLES];
    unsigned table_count, distance, alone, key_bits;
    Ids ids;
    uint64_t queries[QUERIES];
    Span spans[1 + MAX_TABLES + MAX_REGIONS];
    unsigned span_count;
} Image;

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) {
    return value < least ? least : value > most ? most : value;
}

static uint64_t align64(uint64_t offset) { return (offset + 63) / 64 * 64; }

/* Make lengths those of a complete code, changing as few as it takes, or of a lone symbol, or of none. */
static void repair_lengths(uint8_t *lengths, uint64_t key_count) {
    unsigned left = 1 << MAX_CODE_BITS, used = 0, last = 0;
    if (key_count == 0) memset(lengths, 0, SYMBOLS);
    for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
        unsigned length = lengths[symbol];
        if (length > MAX_CODE_BITS || length == 0 || left < 1u << (MAX_CODE_BITS - length)) {
            lengths[symbol] = 0;
            continue;
        }
        left -= 1u << (MAX_CODE_BITS - length);
        last = symbol;
        used++;
    }
    if (key_count == 0 || left == 0) return;
    if (used <= 1) {
        lengths[last] = 1;
        return;
    }
    for (unsigned symbol = 0; symbol < SYMBOLS && left > 0; symbol++) {
        if (lengths[symbol] != 0) continue;
        unsigned share = bit_length(left) - 1; /* the largest code word that fits */
        lengths[symbol] = (uint8_t)(MAX_CODE_BITS - share);
        left -= 1u << share;
    }
    if (left > 0) /* no symbol was left over for the rest: 63 codes of 6 bits and 2 of 7 */
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) lengths[symbol] = symbol < 63 ? 6 : 7;
}

typedef struct {
    const uint8_t *data;
    size_t size, at;
} Input;

static void take(Input *input, Image *image, void *out, size_t bytes) {
    size_t rest = input->size - input->at, given = bytes < rest ? bytes : rest;
    memset(out, 0, bytes);
    if (given > 0) {
        memcpy(out, input->data + input->at, given);
        image->spans[image->span_count++] = (Span){input->at, given};
    }
    input->at += given;
}

/* Where a region of so many bytes lies, after what comes before it. */
static uint64_t place(uint64_t *end, uint64_t bytes) {
    uint64_t offset = align64(*end);
    *end = offset + bytes;
    return offset;
}

static void read_table(Image *image, unsigned index, TableHead *head, uint64_t key_count, unsigned key_bits,
                       unsigned block_bytes, int codec) {
    const uint64_t most[] = {11 + key_bits, 11 + key_bits, 88, key_bits};
    unsigned mask = head->mask % MASKS;
    Table *table = image->tables[index];
    if (table == NULL) table = image->tables[index] = calloc(1, sizeof *table);
    Permutation **permutation = &permutations[key_bits / 8 - 2][mask];
    if (*permutation == NULL) {
        *permutation = malloc(sizeof(Permutation));
        permutation_init(*permutation, masks[mask] & low_bits(key_bits), key_bits);
    }
    table->permutation = **permutation;
    table->codec = codec;
    table->key_bits = key_bits;
    table->slot_bits = head->slot_bits % ((key_bits < MOST_SLOT_BITS ? key_bits : MOST_SLOT_BITS) + 1);
    table->block_bytes = block_bytes;
    table_set_shifts(table);
    const unsigned rice_bits = codec == CODEC_RICE ? head->rice_bits % 64 : 0;
    table->fixed_bits = codec == CODEC_RAW ? key_bits : rice_bits;
    table->flips = head->flips % (key_bits + 1);
    uint64_t least = codec == CODEC_RAW || rice_bits >= key_bits ? key_bits : rice_bits + 1;
    table->payload_bits = clamp(head->payload_bits, least * key_count, most[codec] * key_count);
    table->payload_bits = clamp(table->payload_bits, 0, MAX_PAYLOAD_BITS);
    const uint64_t blocks_least = block_bytes > 0 ? (table->payload_bits + 8 * block_bytes - 1) / (8 * block_bytes) : 0;
    table->fence_count = clamp(head->fence_count, blocks_least < key_count ? blocks_least : key_count, key_count);
    table->fences = FENCES_UNKNOWN;
    if (codec == CODEC_GAP || codec == CODEC_XOR)
        repair_lengths(head->code_lengths, key_count);
    else
        memset(head->code_lengths, 0, SYMBOLS);
    decode_init(table->decode, head->code_lengths);
}

static void seal(Image *image, uint64_t bad_page) {
    Pages *pages = &image->pages;
    uint8_t *sums = (uint8_t *)pages->checksums, *roots = (uint8_t *)pages->roots;
    for (uint64_t page = 0; page < pages->pages; page++) {
        uint64_t left = pages->checked_bytes - page * PAGE_BYTES;
        uint32_t sum = crc32c(0, pages->base + page * PAGE_BYTES, left < PAGE_BYTES ? left : PAGE_BYTES);
        if (bad_page == page + 1) sum ^= 1;
        memcpy(sums + 4 * page, &sum, 4);
    }
    for (uint64_t offset = 0; offset < pages->checksums_bytes; offset += PAGE_BYTES) {
        uint64_t left = pages->checksums_bytes - offset;
        uint32_t sum = crc32c(0, sums + offset, left < PAGE_BYTES ? left : PAGE_BYTES);
        if (bad_page == pages->pages + 1) sum ^= 1;
        memcpy(roots + offset / PAGE_BYTES * 4, &sum, 4);
    }
}

/* The file that an input stands for; image_close() frees it. The image keeps its tables from one input to the next. */
static void image_open(Image *image, const uint8_t *data, size_t size) {
    Input input = {data, size, 0};
    Head head;
    TableHead tables[MAX_TABLES];
    uint64_t end = 64, offsets[MAX_REGIONS], bytes[MAX_REGIONS];
    unsigned regions = 0;
    image->span_count = 0;
    take(&input, image, &head, sizeof head);
    uint64_t key_count = head.key_count % (MAX_KEYS + 1);
    int codec = head.codec % 4;
    const unsigned block_bytes =
        head.block_bytes > 0 ? MIN_BLOCK_BYTES + (head.block_bytes - 1u) % (MAX_BLOCK_BYTES - MIN_BLOCK_BYTES + 1) : 0;
    image->table_count = 1 + head.table_count % MAX_TABLES;
    image->distance = head.distance % 65;
    image->alone = head.alone % 2;
    const unsigned key_bits = image->key_bits = MIN_KEY_BITS + 8 * (head.key_bits % 7);
    for (unsigned i = 0; i < QUERIES; i++) image->queries[i] = head.queries[i] & low_bits(key_bits);
#define REGION(length) (bytes[regions] = (length), offsets[regions] = place(&end, bytes[regions]), offsets[regions++])
    for (unsigned i = 0; i < image->table_count; i++) {
        take(&input, image, &tables[i], sizeof tables[i]);
        read_table(image, i, &tables[i], key_count, key_bits, block_bytes, codec);
    }
    tables_share_codes(image->tables, image->table_count);
    for (unsigned i = 0; i < image->table_count; i++) {
        Table *table = image->tables[i];
        uint64_t groups = (((uint64_t)1 << table->slot_bits) + GROUP_SLOTS - 1) / GROUP_SLOTS;
        table->payload_offset = REGION((table->payload_bits + 7) / 8);
        table->directory_offset = table->block_bytes > 0 ? 0 : REGION(groups * LINE_BYTES);
        table->fences_offset = table->fence_count ? REGION(table->fence_count * FENCE_BYTES) : 0;
    }
    Ids *ids = &image->ids;
    memset(ids, 0, sizeof *ids);
    ids->key_count = key_count;
    ids->kind = head.id_kind % 3;
    if (ids->kind != IDS_NONE) {
        ids->id_count = ids->kind == IDS_ONE ? key_count : head.id_count % (MAX_IDS + 1);
        ids->width = ids->id_count ? head.id_width % 65 : 0;
        ids->rank_width = bit_length(key_count);
        ids->base =
            clamp(head.id_base, 0, ids->id_count ? ~(uint64_t)0 - (low_bits(ids->width) / 2 + (ids->width > 0)) : 0);
        const Table *first = image->tables[0];
        uint64_t ranks = (first->block_bytes > 0 ? first->fence_count : (uint64_t)1 << first->slot_bits) + 1,
                 bits = key_count + ids->id_count;
        ids->ranks_offset = REGION((ids->rank_width * ranks + 7) / 8);
        if (ids->kind == IDS_MANY) {
            ids->groups_offset = REGION((bits + 7) / 8);
            ids->samples_offset = REGION(((bits + SAMPLE_BITS - 1) / SAMPLE_BITS + 1) * 8);
        }
        ids->values_offset = REGION((ids->width * ids->id_count + 7) / 8);
    }
#undef REGION
    Pages *pages = &image->pages;
    memset(pages, 0, sizeof *pages);
    pages->checked_bytes = align64(align64(end) + 128 + 192 * image->table_count);
    pages->pages = (pages->checked_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    pages->checksums_bytes = 4 * pages->pages;
    uint64_t roots = (pages->checksums_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    image->size = pages->checked_bytes + pages->checksums_bytes + 4 * roots + FOOTER_BYTES;
    image->bytes = calloc(1, image->size);
    pages->base = image->bytes;
    pages->checksums = pages->base + pages->checked_bytes;
    pages->roots = pages->checksums + pages->checksums_bytes;
    pages->seen = calloc((pages->pages + roots) / 64 + 1, 8);
    pages->unseen = pages->pages;
    for (unsigned i = 0; i < regions; i++) take(&input, image, image->bytes + offsets[i], bytes[i]);
    seal(image, head.bad_page);
}

/* No page has been used yet. */
static void image_forget(Image *image) {
    memset(image->pages.seen, 0, ((image->pages.pages + 1) / 64 + 1) * 8);
    image->pages.unseen = image->pages.pages;
}

/* Look at every page, so that none is asked for any more. Whether all are as they were sealed. */
static int image_check(Image *image) {
    Status status = OK;
    for (uint64_t page = 0; page < image->pages.pages && status == OK; page++)
        if (!page_seen(&image->pages, page)) status = page_check(&image->pages, page);
    return status == OK;
}

/* The same file once more, in bytes of its own; the tables are the same. image_close() frees it, too. */
static void image_twin(const Image *image, Image *twin) {
    *twin = *image;
    twin->bytes = malloc(image->size);
    memcpy(twin->bytes, image->bytes, image->size);
    twin->pages.base = twin->bytes;
    twin->pages.checksums = twin->bytes + (image->pages.checksums - image->bytes);
    twin->pages.roots = twin->bytes + (image->pages.roots - image->bytes);
    twin->pages.seen = calloc((image->pages.pages + 1) / 64 + 1, 8);
    twin->pages.unseen = image->pages.pages;
}

static void image_close(Image *image) {
    free(image->bytes);
    free(image->pages.seen);
}

#endif
