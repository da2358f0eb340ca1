/* What a search finds, and the order in which answers are given. */
#ifndef FPSTORE_MATCH_H
#define FPSTORE_MATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t fingerprint;
    uint32_t query;
    uint32_t distance;
} Match;

/* For qsort(): by query, distance and fingerprint. */
int match_order(const void *a, const void *b);

/* As qsort(), of items of at most MOST_ITEM_BYTES. A few are put in order here: after other work no cache has any of the
   system's code. */
#define MOST_ITEM_BYTES 64
#define FEW_ITEMS 16
void sort_few(void *items, uint64_t count, size_t bytes, int (*order)(const void *, const void *));

/* Of records of `bytes` each that begin with a Match, put in order, the first `keep` of every query come to the front;
   how many these are. bounds: NULL, or match_bounds, which gets the last of `keep` of each query that has so many. */
uint64_t match_keep(void *matches, uint64_t count, size_t bytes, uint64_t keep, Match *bounds);

/* Of each query, what it needs no match behind: any may come yet. To be freed. NULL where there is no memory; without
   them a search only takes longer, as what match_keep would leave out is collected. */
Match *match_bounds(uint64_t query_count);

/* How many records are collected before match_keep is called for: several times what it leaves of so many queries. */
uint64_t match_keep_room(uint64_t query_count, uint64_t keep);

#endif
