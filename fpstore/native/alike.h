/* What two documents have in common: how many shingles, or the sum of the products of their weights. */
#ifndef FPSTORE_ALIKE_H
#define FPSTORE_ALIKE_H

#include "platform.h"

/* The weights are whole multiples of 2^-16. */
#define ALIKE_WEIGHT_ONE 65536.0

#define ALIKE_ASKED 1024

/* The distinct shingles of a document: increasing hashes, and what each weighs, or NULL. */
typedef struct {
    const uint64_t *hashes;
    const double *weights;
    uint64_t count;
} Shingles;

/* Ask for hashes that will be read soon, as far as near caches hold them while others are. */
ALWAYS_INLINE void shingles_ask(const Shingles *shingles) {
    const uint64_t count = shingles->count < ALIKE_ASKED ? shingles->count : ALIKE_ASKED;
    if (shingles->hashes == NULL) return;
    for (uint64_t i = 0; i < count; i += 8) __builtin_prefetch(shingles->hashes + i);
}

/* How far two runs were walked together, and how many hashes of what lies before the one both have; none that lies
   there is one of what is left of the other. */
typedef struct {
    uint64_t one, other, common;
} Walk;

/* The most of two runs, for AVX-512. */
Walk common_walk_wide(const Shingles *one, const Shingles *other);

void alike_choose(InstructionSet set);

/* counts[i]: how many hashes document and others[i] both have. */
void common_counts(const Shingles *document, const Shingles *others, uint64_t count, uint64_t *counts);

/* highs[i], lows[i]: the halves of the sum, in units of 2^-32, of the products of the two weights of what document and
   others[i] both have. Exact, as long as it is below 2^96. */
void common_products(const Shingles *document, const Shingles *others, uint64_t count, uint64_t *highs, uint64_t *lows);

#endif
