/* The Hamming search: for each query, each table, each flip, the slots that can hold a match; their blocks; their keys.

   Latency here is memory latency, so the work goes in three stages, a batch at a time: collect slots (asking for their
   directory lines), resolve them to blocks (asking for their bytes), scan the blocks asked for a batch ago. */
#ifndef FPSTORE_SEARCH_H
#define FPSTORE_SEARCH_H

#include "decode.h"
#include "match.h"

#define STREAMS 4
#define BATCH_SLOTS 64
#define BATCH_BLOCKS 96

typedef struct {
    uint64_t slot, query, first_wanted, last_wanted;
    uint32_t query_index;
    uint16_t table;
} SlotProbe;

typedef struct {
    Pages *pages;
    Table *const *tables; /* all of one codec */
    unsigned table_count;
    unsigned distance;
    int first_only; /* stop at the first match */
    int done;
    uint32_t query_index;

    Match *matches;
    uint64_t match_count, match_room;
    uint64_t found_count; /* matches met so far, those that were not kept too */
    uint64_t match_limit; /* what a sound file cannot exceed: a hostile one may hold a key any number of times */
    uint64_t match_most;  /* how many the caller takes: TOO_MANY where there are more; 0 for any number */
    uint64_t keep;        /* of each query the nearest so many, in order; 0 for all, in no order */
    uint64_t keep_room;   /* match_keep_room of the queries */
    uint64_t query_count; /* where keep is not 0 */
    Match *bounds;        /* match_bounds, once there were more than keep_room; the caller frees them */
    const Match *after; /* for each query, what its matches come after in the order of answers; NULL for all of them */
    uint64_t blocks_scanned;

    SlotProbe slots[BATCH_SLOTS];
    unsigned slot_count;
    Block resolved[BATCH_BLOCKS];
    unsigned resolved_count;
    Block waiting[BATCH_BLOCKS];
    unsigned waiting_count;
} Search;

/* A search of so many queries that has found nothing yet, and is to find everything. */
void search_init(Search *search, Pages *pages, Table *const *tables, unsigned table_count, unsigned distance,
                 uint64_t query_count);

/* Search for queries[0..count), which are numbered from first_index on. Matches go to search->matches. */
Status search_run(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index);

/* How many of keys are within `distance` of query. */
uint64_t scan_keys(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance);

/* For the kernels: one match more. */
Status search_add(Search *search, uint32_t query, uint64_t fingerprint, unsigned distance);

void search_choose(InstructionSet set);

#define SEARCH_KERNELS(set)                                              \
    Status search_##set(Search *, const uint64_t *, uint64_t, uint64_t); \
    uint64_t scan_keys_##set(const uint64_t *, uint64_t, uint64_t, unsigned);
SEARCH_KERNELS(portable)
SEARCH_KERNELS(fast)
#undef SEARCH_KERNELS
uint64_t scan_keys_wide(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance);

#endif
