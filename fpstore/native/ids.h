/* Fixed-width fields in a bit stream, and which of them belong to which fingerprint (docs/format.md, section 4). */
#ifndef FPSTORE_IDS_H
#define FPSTORE_IDS_H

#include "decode.h"
#include "encode.h"
#include "view.h"

/* Field `index` of a packed stream that starts at byte `offset`; the caller knows that it lies in the region. */
ALWAYS_INLINE Status packed_get(Pages *pages, uint64_t offset, unsigned width, uint64_t index, uint64_t *value) {
    if (width == 0) {
        *value = 0;
        return OK;
    }
    uint64_t bit = offset * 8 + index * width, byte = bit >> 3;
    Status status = pages_check(pages, byte, (bit + width - 1) >> 3);
    if (UNLIKELY(status != OK)) return status;
    uint64_t word = load64(pages->base + byte) >> (bit & 7);
    if ((bit & 7) != 0) word |= (uint64_t)pages->base[byte + 8] << (64 - (bit & 7));
    *value = word & low_bits(width);
    return OK;
}

typedef struct {
    uint64_t ranks_offset, groups_offset, samples_offset, values_offset;
    unsigned rank_width, width, kind;
    uint64_t base, key_count, id_count;
} Ids;

enum { IDS_NONE = 0, IDS_ONE = 1, IDS_MANY = 2 };
#define SAMPLE_BITS 512

/* A word of the groups; bits past their end read as zero. */
ALWAYS_INLINE Status groups_word(Pages *pages, const Ids *ids, uint64_t index, uint64_t *word) {
    uint64_t bits = ids->key_count + ids->id_count, from = index * 64, offset = ids->groups_offset + index * 8;
    Status status = pages_check(pages, offset, offset + 7);
    if (status != OK) return status;
    *word = load64(pages->base + offset);
    if (bits - from < 64) *word &= low_bits((unsigned)(bits - from));
    return OK;
}

/* Position of one number `rank` (from 0) in the groups. */
static Status groups_select(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *position) {
    uint64_t bits = ids->key_count + ids->id_count, samples = (bits + SAMPLE_BITS - 1) / SAMPLE_BITS;
    uint64_t low = 0, high = samples, before = 0; /* the last sample block with at most `rank` ones before it */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2, offset = ids->samples_offset + 8 * middle;
        Status status = pages_check(pages, offset, offset + 7);
        if (status != OK) return status;
        if (load64(pages->base + offset) <= rank) low = middle;
        else high = middle;
    }
    uint64_t offset = ids->samples_offset + 8 * low, words = (bits + 63) / 64;
    Status status = pages_check(pages, offset, offset + 7);
    if (status != OK) return status;
    before = load64(pages->base + offset);
    if (before > rank) return BAD_DIRECTORY;
    for (uint64_t index = low * (SAMPLE_BITS / 64), end = index + SAMPLE_BITS / 64; index < end && index < words; index++) {
        uint64_t word, ones;
        status = groups_word(pages, ids, index, &word);
        if (status != OK) return status;
        ones = (uint64_t)__builtin_popcountll(word);
        if (rank - before < ones) {
            for (; before < rank; before++) word &= word - 1;
            *position = index * 64 + (uint64_t)__builtin_ctzll(word);
            return OK;
        }
        before += ones;
    }
    return BAD_DIRECTORY;
}

/* The ids of the fingerprint of this rank: values [*first, *first + *count). */
static Status ids_range(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *first, uint64_t *count) {
    if (rank >= ids->key_count) return BAD_DIRECTORY;
    if (ids->kind == IDS_ONE) {
        *first = rank;
        *count = 1;
        return OK;
    }
    uint64_t begin, end = ids->key_count + ids->id_count;
    Status status = groups_select(pages, ids, rank, &begin);
    if (status == OK && rank + 1 < ids->key_count) status = groups_select(pages, ids, rank + 1, &end);
    if (status != OK) return status;
    if (begin < rank || end <= begin) return BAD_DIRECTORY;
    *first = begin - rank;
    *count = end - begin - 1;
    if (*first > ids->id_count || *count > ids->id_count - *first) return BAD_DIRECTORY;
    return OK;
}

/* Index of a key in its table (its rank, in table 0). *found is 0 when the table does not hold it. */
static Status table_rank(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *rank, int *found) {
    Block block;
    uint64_t scratch[BLOCK_KEYS];
    int large;
    uint64_t slot = slot_of(key, table->slot_bits), last_key = slot_end(slot, table->slot_bits), skipped = 0, got, before;
    Status status = slot_read(pages, table, slot, &block.start, &block.end, &large);
    *found = 0;
    if (status != OK) return status;
    block.previous = slot_start(slot, table->slot_bits);
    block.first_of_slot = 1;
    if (large) {
        uint64_t index, first;
        status = fence_find(pages, table, key, &index);
        if (status == OK) status = fence_find(pages, table, block.previous, &first);
        if (status != OK || index == table->fence_count) return status;
        uint64_t top = last_key;
        status = fence_block(pages, table, slot, index, &block, &last_key);
        if (status != OK || last_key > top) return status;
        if (index < first) return BAD_DIRECTORY;
        skipped = (index - first) * BLOCK_KEYS;
    }
    if (block.end == block.start) return OK;
    status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
    if (status == OK) status = decode_block(pages, table, &block, last_key, scratch, &got);
    if (status == OK) status = packed_get(pages, ids->ranks_offset, ids->rank_width, slot, &before);
    if (status != OK) return status;
    for (uint64_t i = 0; i < got; i++)
        if (scratch[i] == key) {
            *found = 1;
            *rank = before + skipped + i;
        }
    return OK;
}

#endif
