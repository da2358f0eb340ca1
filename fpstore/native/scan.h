/* The exact scan: every key of some slots of one table, decoded once and compared with all queries of a batch. What it
   takes does not depend on the distance, so it answers those that no look-up is made for. */
#ifndef FPSTORE_SCAN_H
#define FPSTORE_SCAN_H

#include "search.h"

#define SCAN_TILE 2048     /* keys that stay in the first-level cache while every query is compared with them */
#define SCAN_RAW_KEYS 8192 /* keys of a code that needs no decoding, of which the pages are checked at once */

/* search: takes what is found, and is of one table. queries: under its permutation. limits: for each query how far what
   is wanted may be; they shrink where search->keep are known that are nearer. key_count: how many keys were read. */
typedef struct {
    Search *search;
    const uint64_t *queries;
    uint64_t *limits;
    uint64_t query_count, key_count;
} Scan;

/* Compare the keys of slots [first, end), whole groups of the table or up to its last slot, with the queries. room has
   room for CHUNK_ROOM keys; chunk is ready for the table. */
Status scan_slots(Scan *scan, uint64_t first, uint64_t end, Chunk *chunk, uint64_t *room);

/* Have what was found in the order of answers, and no more than is kept. */
void scan_end(Search *search);

void scan_choose(InstructionSet set);

/* scan_block: compare keys[0..count), of any order. scan_unpack: keys of key_bits each, from bit `at` of the file. */
#define SCAN_KERNELS(set)                                                  \
    Status scan_block_##set(Scan *, const uint64_t *keys, uint64_t count); \
    void scan_unpack_##set(const uint8_t *base, uint64_t at, unsigned key_bits, uint64_t count, uint64_t *out);
SCAN_KERNELS(portable)
SCAN_KERNELS(fast)
SCAN_KERNELS(wide)
#undef SCAN_KERNELS

#endif
