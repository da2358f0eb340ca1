/* Pairs of a few keys that are near each other, in any order: each is compared with all before it. */
#ifndef FPSTORE_NEAR_H
#define FPSTORE_NEAR_H

#include "platform.h"

typedef struct {
    int64_t *later, *earlier; /* places of keys, of which the caller frees both */
    uint64_t count, room;
} NearPairs;

/* Pairs of keys[0..count) within distance, in the order of the later, then of the earlier key. pairs is all zero. */
Status near_among(const uint64_t *keys, uint64_t count, unsigned distance, NearPairs *pairs);

/* For the kernels: one pair more. */
Status near_add(NearPairs *pairs, uint64_t later, uint64_t earlier);

void near_choose(InstructionSet set);

#define NEAR_KERNELS(set) Status near_among_##set(const uint64_t *, uint64_t, unsigned, NearPairs *);
NEAR_KERNELS(portable)
NEAR_KERNELS(fast)
NEAR_KERNELS(wide)
#undef NEAR_KERNELS

#endif
