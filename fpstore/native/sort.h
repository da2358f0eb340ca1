/* Sorting keys by their digits, most significant first; equal keys count once.

   A range larger than the room is split in place into parts that fit a second-level cache. Such a part is dealt out by
   a digit that is wide enough for about one key each. What little is out of order then is put right on the way back:
   two neighbours are passed without a branch, the rest is insertion. A range that is in order already is only read, so
   that stable dealing makes use of the order that there was. */
#ifndef FPSTORE_SORT_H
#define FPSTORE_SORT_H

#include "permute.h"

#define SORT_ROOM_KEYS 65536 /* 512 KiB: with the part itself, what a second-level cache holds */
#define SORT_DIGIT_BITS 12   /* 16 KiB of counters: half of a first-level cache */
#define SPLIT_DIGIT_BITS 10  /* of 2^11 groups a key takes twice as long: more streams than the TLB holds */
#define MIN_SPLIT_BITS 4
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

/* Fill keys (count) with the keys of fingerprints, sorted and distinct; how many there are. */
uint64_t sort_permuted(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
                       SortRoom *room);

void sort_choose(InstructionSet set);

void deal_permuted_portable(const Permutation *, const uint64_t *, uint64_t, uint64_t *, uint64_t *);
void deal_permuted_fast(const Permutation *, const uint64_t *, uint64_t, uint64_t *, uint64_t *);

#endif
