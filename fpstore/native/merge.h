/* Merging of two sorted runs into one, of distinct keys or distinct pairs of key and id, and look-ups in a run. */
#ifndef FPSTORE_MERGE_H
#define FPSTORE_MERGE_H

#include "platform.h"

/* Sorted and distinct; ids is NULL where items are plain keys. */
typedef struct {
    const uint64_t *keys, *ids;
    uint64_t count;
} Items;

/* Merge a and b, whichever of an item that both hold, into keys and ids, which have room for all of both and overlap
   neither; how many items there are. */
uint64_t merge_keys(const Items *a, const Items *b, uint64_t *keys);
uint64_t merge_pairs(const Items *a, const Items *b, uint64_t *keys, uint64_t *ids);

uint64_t merge_keys_wide(const Items *a, const Items *b, uint64_t *keys);

void merge_choose(InstructionSet set);

/* marks[i] |= the items, which are not none, hold keys[i] with an id of least_ids[i] or more. */
void mark_at_least(const Items *items, const uint64_t *keys, const uint64_t *least_ids, uint64_t count, uint8_t *marks);

/* As mark_at_least, of pairs: marks[i] |= the pairs, which are not none, hold (asked->keys[i], asked->ids[i]), with a
   number of least[i] or more; numbers has one for each of the pairs. */
void mark_pairs_at_least(const Items *pairs, const uint64_t *numbers, const Items *asked, const uint64_t *least,
                         uint8_t *marks);

#endif
