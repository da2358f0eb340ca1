/* The permutation of a table: the bits of a fingerprint selected by a mask go to the top of its key, the
   others below, each group in its old order. Two bit extracts (PEXT), or eight look-ups of a byte each: a
   permutation of bits is linear over XOR, so a key is the XOR of what its bytes become. */
#ifndef FPSTORE_PERMUTE_H
#define FPSTORE_PERMUTE_H

#include "platform.h"

typedef struct {
    uint64_t prefix_mask;
    unsigned prefix_bits;
    uint64_t apply[8][256];
    uint64_t invert[8][256];
} Permutation;

static void permutation_init(Permutation *permutation, uint64_t prefix_mask) {
    unsigned target[64], prefix_bits = 0, low = 0, high;
    for (int bit = 0; bit < 64; bit++) prefix_bits += (prefix_mask >> bit) & 1;
    high = 64 - prefix_bits;
    for (int bit = 0; bit < 64; bit++) target[bit] = (prefix_mask >> bit) & 1 ? high++ : low++;
    memset(permutation, 0, sizeof *permutation);
    permutation->prefix_mask = prefix_mask;
    permutation->prefix_bits = prefix_bits;
    for (int bit = 0; bit < 64; bit++)
        for (unsigned value = 0; value < 256; value++) {
            if ((value >> (bit & 7)) & 1) permutation->apply[bit >> 3][value] |= (uint64_t)1 << target[bit];
            unsigned to = target[bit];
            if ((value >> (to & 7)) & 1) permutation->invert[to >> 3][value] |= (uint64_t)1 << bit;
        }
}

ALWAYS_INLINE uint64_t permute_bytes(const uint64_t table[8][256], uint64_t value) {
    uint64_t result = 0;
    for (int byte = 0; byte < 8; byte++) result ^= table[byte][(value >> (8 * byte)) & 255];
    return result;
}

#define KERNEL(name) name##_portable
#include "permute_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#define KERNEL_IS_FAST
#include "permute_body.h"
#undef KERNEL_IS_FAST
#undef KERNEL
FAST_END
#endif

typedef void (*PermuteKeys)(const Permutation *, const uint64_t *, uint64_t, uint64_t *);

static PermuteKeys permute_keys = permute_portable, unpermute_keys = unpermute_portable;

static void permute_choose(int fast) {
#if FPSTORE_X86
    permute_keys = fast ? permute_fast : permute_portable;
    unpermute_keys = fast ? unpermute_fast : unpermute_portable;
#else
    (void)fast;
#endif
}

#endif
