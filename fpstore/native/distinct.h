/* The distinct ones of hashes, in order. */
#ifndef FPSTORE_DISTINCT_H
#define FPSTORE_DISTINCT_H

#include "platform.h"

#define DISTINCT_FEW 64

/* Put the distinct ones of hashes into distinct, in order, and how often each occurs into counts; no counts where that
   is NULL. Their number. count: below 2^32. parted: room for all; so has each of the others. distinct may be hashes. */
size_t hashes_distinct(const uint64_t *hashes, size_t count, uint64_t *parted, uint64_t *distinct, uint32_t *counts);

/* Put DISTINCT_FEW hashes at most, which may be there already, into distinct in order. 0, and nothing is changed, where
   two of them are equal. */
int distinct_few_wide(const uint64_t *hashes, size_t count, uint64_t *distinct);

/* hashes_distinct of DISTINCT_MANY hashes at most, one at least, without counts. */
#define DISTINCT_MANY (1 << 17)
size_t distinct_many_wide(const uint64_t *hashes, size_t count, uint64_t *parted, uint64_t *distinct);

/* Put hashes in order: few as each finds its place, more by qsort. For the kernels. */
void put_together_in_order(uint64_t *hashes, size_t count);

void distinct_choose(InstructionSet set);

#endif
