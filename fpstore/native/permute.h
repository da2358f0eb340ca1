/* The permutation of a table: the bits of a fingerprint selected by a mask go to the top of its key, the
   others below, each group in its old order. Two bit extracts (PEXT), or eight look-ups of a byte each: a
   permutation of bits is linear over XOR, so a key is the XOR of what its bytes become. */
#ifndef FPSTORE_PERMUTE_H
#define FPSTORE_PERMUTE_H

#include "platform.h"

typedef struct {
    uint64_t prefix_mask, rest_mask; /* which of its bits come first, and all others */
    unsigned prefix_bits;
    unsigned key_bits, below_bits; /* of a fingerprint, and so of a key; of a key below its prefix */
    uint64_t apply[8][256];
    uint64_t invert[8][256];
} Permutation;

ALWAYS_INLINE uint64_t permute_bytes(const uint64_t table[8][256], uint64_t value) {
    uint64_t result = 0;
    for (int byte = 0; byte < 8; byte++) result ^= table[byte][(value >> (8 * byte)) & 255];
    return result;
}

/* prefix_mask is below 2^key_bits, and so is every fingerprint and key. */
void permutation_init(Permutation *permutation, uint64_t prefix_mask, unsigned key_bits);

/* Whether all keys are below 2^key_bits. */
int keys_fit(const uint64_t *keys, uint64_t count, unsigned key_bits);

/* out[i] = the key of fingerprint values[i]; both may be one array. */
void permute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out);

/* The inverse. */
void unpermute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out);

void permute_choose(InstructionSet set);

#define PERMUTE_KERNELS(set)                                                         \
    void permute_##set(const Permutation *, const uint64_t *, uint64_t, uint64_t *); \
    void unpermute_##set(const Permutation *, const uint64_t *, uint64_t, uint64_t *);
PERMUTE_KERNELS(portable)
PERMUTE_KERNELS(fast)
#undef PERMUTE_KERNELS

#endif
