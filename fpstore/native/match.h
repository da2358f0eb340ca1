/* What a search finds, and the order in which answers are given. */
#ifndef FPSTORE_MATCH_H
#define FPSTORE_MATCH_H

#include <stdint.h>

typedef struct {
    uint64_t fingerprint;
    uint32_t query;
    uint32_t distance;
} Match;

/* For qsort(): by query, distance and fingerprint. */
int match_order(const void *a, const void *b);

#endif
