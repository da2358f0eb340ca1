/* Fixed-width fields in a bit stream, and which of them belong to which fingerprint (docs/format.md, section 4). */
#ifndef FPSTORE_IDS_H
#define FPSTORE_IDS_H

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
    uint64_t list_offset, list_count; /* 0, or the values are indexes of so many ids */
} Ids;

/* Listed id `place`; the caller knows that it is one of them. */
ALWAYS_INLINE Status listed_at(Pages *pages, const Ids *ids, uint64_t place, uint64_t *id) {
    uint64_t offset = ids->list_offset + 8 * place;
    Status status = pages_check(pages, offset, offset + 7);
    if (LIKELY(status == OK)) *id = load64(pages->base + offset);
    return status;
}

/* The id that a value stands for. */
ALWAYS_INLINE Status id_of_value(Pages *pages, const Ids *ids, uint64_t value, uint64_t *id) {
    if (LIKELY(ids->list_count == 0)) {
        *id = ids->base + value;
        return OK;
    }
    if (UNLIKELY(value >= ids->list_count)) return BAD_DIRECTORY;
    return listed_at(pages, ids, value, id);
}

/* The ids of the fingerprint of this rank: values [*first, *first + *count). */
Status ids_range(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *first, uint64_t *count);

/* A walk over all ids in order of rank: group bits and values read one after the other. */
typedef struct {
    uint64_t bit;             /* of the groups, the next one */
    uint64_t rank;            /* ones before it: the group it continues is that of rank - 1 */
    uint64_t value;           /* zeros before it: the next id's index */
    uint64_t last_rank, last; /* where the id before that belongs, and what it is */
} IdWalk;

/* Up to `room` ids of ranks below end_rank, and their ranks, from the walk on; *count is less than room only where
   those have all been read. The ids of a group increase. end_rank is at most key_count, room not 0. */
Status ids_walk(Pages *pages, const Ids *ids, IdWalk *walk, uint64_t end_rank, uint64_t room, uint64_t *ranks,
                uint64_t *values, uint64_t *count);

/* Where a key is in its slot, counted in keys. *found is 0 when the table does not hold it. */
Status table_index(Pages *pages, const Table *table, uint64_t key, uint64_t *at, int *found);

/* Index of a key in its table (its rank, in table 0). *found is 0 when the table does not hold it. */
Status table_rank(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *rank, int *found);

/* Ask for what will be read soon: the block of a key, whose slot's directory line is there; the rank of a slot that the
   table has; the group of a rank. */
Status table_ask(Pages *pages, const Table *table, uint64_t key);
void ids_ask_rank(Pages *pages, const Ids *ids, uint64_t slot);
void ids_ask_group(Pages *pages, const Ids *ids, uint64_t rank);

/* The ids of a key of table 0, as ids_range; BAD_DIRECTORY where the table does not hold it. */
Status ids_of_key(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *first, uint64_t *count);

/* The key of this rank in table 0. */
Status table_key(Pages *pages, const Table *table, const Ids *ids, uint64_t rank, uint64_t *key);

/* Where each of ids[0..count) is among listed ones, which increase; -1 for those that are not there. */
void places_of_ids(const uint64_t *listed, uint64_t listed_count, const uint64_t *ids, uint64_t count, int64_t *places);

/* The same of the ids that a segment lists. */
Status listed_places(Pages *pages, const Ids *ids, const uint64_t *wanted, uint64_t count, int64_t *places);

/* Ids to look for: sorted and distinct, not none. filter has 2^filter_bits bits, and those of the ids are set. */
typedef struct {
    const uint64_t *ids;
    uint64_t count;
    uint64_t *filter;
    unsigned filter_bits;
} IdSet;

/* Set the bits of the ids in the filter, which is all zeros. */
void id_set_fill(IdSet *set);

/* Look through the values [*next, end) for the ids of the set: at most `room` of them, 1 or more, with the rank of the
   fingerprint of each. *next is where to go on; end is at most id_count. */
Status ids_find(Pages *pages, const Ids *ids, const IdSet *set, uint64_t *next, uint64_t end, uint64_t room,
                uint64_t *ranks, uint64_t *values, uint64_t *count);

#endif
