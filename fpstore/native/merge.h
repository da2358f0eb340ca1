/* Merging of two sorted runs into one, of distinct keys or distinct pairs of key and id, and look-ups in a run. */
#ifndef FPSTORE_MERGE_H
#define FPSTORE_MERGE_H

#include "platform.h"

/* Sorted and distinct; ids is NULL where items are plain keys. */
typedef struct {
    const uint64_t *keys, *ids;
    uint64_t count;
} Items;

enum { GATHER_PAD = 32 }; /* keys that may be written behind the last */

/* Merge a and b, whichever of an item that both hold, into keys and ids, which have room for all of both and overlap
   neither; how many items there are. */
uint64_t merge_keys(const Items *a, const Items *b, uint64_t *keys);
uint64_t merge_pairs(const Items *a, const Items *b, uint64_t *keys, uint64_t *ids);

/* Merge runs of keys, one or more, into one of each key once, where there is room for all of them; how many keys it has.
   pieces: for as many runs; each of the rooms is for merge_room() keys, which stay in the cache; runs is used up. */
uint64_t merge_all(Items *runs, Items *pieces, uint64_t run_count, uint64_t *const rooms[2], uint64_t *merged);
uint64_t merge_room(uint64_t run_count);

/* Put all keys of the runs to where there is room for them and GATHER_PAD more: the windows in order, each of the keys
   that differ in their low `width` bits at most, in which come one run's after another's, as often as several have
   them. runs is used up. */
void gather_all(Items *runs, uint64_t run_count, unsigned width, uint64_t *out);

/* How many of the keys, which are sorted, are not above `last`. */
uint64_t keys_up_to(const uint64_t *keys, uint64_t count, uint64_t last);

/* Whether each of the keys is above the one before it. */
int keys_increase(const uint64_t *keys, uint64_t count);
int keys_increase_wide(const uint64_t *keys, uint64_t count);

/* As merge_keys of runs that may have a key several times, as what is merged of several others does: merge_repeated has
   it as often as both together, merge_distinct once. */
uint64_t merge_repeated_wide(const Items *a, const Items *b, uint64_t *keys);
uint64_t merge_distinct_wide(const Items *a, const Items *b, uint64_t *keys);

/* Copy the keys of a run that are not above `last`, and perhaps some behind them; how many these are. */
uint64_t gather_run_wide(const Items *run, uint64_t last, uint64_t *out);

void merge_choose(InstructionSet set);

/* marks[i] |= the items, which are not none, hold keys[i] with an id of least_ids[i] or more. */
void mark_at_least(const Items *items, const uint64_t *keys, const uint64_t *least_ids, uint64_t count, uint8_t *marks);

/* As mark_at_least, of pairs: marks[i] |= the pairs, which are not none, hold (asked->keys[i], asked->ids[i]), with a
   number of least[i] or more; numbers has one for each of the pairs. */
void mark_pairs_at_least(const Items *pairs, const uint64_t *numbers, const Items *asked, const uint64_t *least,
                         uint8_t *marks);

#endif
