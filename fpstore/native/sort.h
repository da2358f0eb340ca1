/* Sorting keys by their digits, most significant first; equal keys count once.

   A range larger than the room is split in place into parts, by a wide digit or bit by bit. A part is dealt out by a
   digit that is wide enough for few keys each. What little is out of order then is put right on the way back: two
   neighbours are passed without a branch, the rest is insertion; or neighbours are ordered in rounds, eight at a time.
   A range that is in order already is only read, so that stable dealing makes use of the order that there was. */
#ifndef FPSTORE_SORT_H
#define FPSTORE_SORT_H

#include "permute.h"

#define PART_KEYS 16384      /* of larger parts the groups are too large for insertion */
#define SORT_ROOM_KEYS 65536 /* 512 KiB: what is nearly in order already is dealt out in larger parts */
#define SORT_DIGIT_BITS 12   /* 16 KiB of counters: half of a first-level cache */
#define SPLIT_DIGIT_BITS 10  /* of 2^11 groups a key takes twice as long: more streams than the TLB holds */
#define SPLIT_GROUPS (1 << SPLIT_DIGIT_BITS)
#define FEW_KEYS 24 /* so many are left to insertion, also as groups of a part */

typedef struct {
    uint64_t *keys; /* scratch for the parts */
    uint64_t room_keys;
    uint32_t starts[1 << SORT_DIGIT_BITS];
} SortRoom;

/* Where the sorted keys go: never past what has been read already. */
typedef struct {
    uint64_t *keys;
    uint64_t count;
} SortedOut;

/* Append the distinct ones of keys, sorted. They are above what out holds, which ends before them, and differ in their
   low `width` bits at most. What is in their place afterwards is of no meaning. */
void sort_range(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out);

/* Bring keys, one at least, into two groups, all of the first below those of the second; how many the first has. */
uint64_t split_keys(uint64_t *keys, uint64_t count);

/* Fill keys (count) with the keys of fingerprints, sorted and distinct; how many there are. */
uint64_t sort_permuted(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
                       SortRoom *room);

/* The steps of it, for who has several threads. The first: add to counts how many keys begin with each
   SPLIT_DIGIT_BITS bits. */
void sort_count(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *counts);

/* The second: put each key into its group, by these bits. at: where each group goes on, which is moved. */
void sort_deal(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
               uint64_t *at);

/* The last: sort the groups from first to end, which end there, to where the first begins; how many distinct keys. */
uint64_t sort_groups(const Permutation *permutation, const uint64_t *ends, uint64_t first, uint64_t end, uint64_t *keys,
                     SortRoom *room);

void sort_choose(InstructionSet set);

/* Bring the keys without a bit to the front; how many there are. */
uint64_t split_wide(uint64_t *keys, uint64_t count, uint64_t bit);

/* Append the distinct ones of keys, one at least, sorted. They are dealt out to groups in order, of at most so many. */
void settle_wide(uint64_t *keys, uint64_t count, unsigned most, SortedOut *out);

void count_permuted_portable(const Permutation *, const uint64_t *, uint64_t, uint64_t *);
void count_permuted_fast(const Permutation *, const uint64_t *, uint64_t, uint64_t *);
void deal_permuted_portable(const Permutation *, const uint64_t *, uint64_t, uint64_t *, uint64_t *);
void deal_permuted_fast(const Permutation *, const uint64_t *, uint64_t, uint64_t *, uint64_t *);

#endif
