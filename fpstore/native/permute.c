/* Making a permutation, and the choice of how keys are permuted. */
#include "permute.h"

typedef void (*PermuteKeys)(const Permutation *, const uint64_t *, uint64_t, uint64_t *);

static PermuteKeys permute = permute_portable, unpermute = unpermute_portable;

void permute_choose(InstructionSet set) {
    permute = permute_portable, unpermute = unpermute_portable;
#if FPSTORE_X86
    if (set >= SET_FAST) permute = permute_fast, unpermute = unpermute_fast;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(permute_choose)

void permutation_init(Permutation *permutation, uint64_t prefix_mask, unsigned key_bits) {
    unsigned target[64], prefix_bits = 0, low = 0, high;
    for (int bit = 0; bit < 64; bit++) prefix_bits += (prefix_mask >> bit) & 1;
    high = key_bits - prefix_bits;
    for (unsigned bit = 0; bit < key_bits; bit++) target[bit] = (prefix_mask >> bit) & 1 ? high++ : low++;
    memset(permutation, 0, sizeof *permutation);
    permutation->prefix_mask = prefix_mask;
    permutation->rest_mask = low_bits(key_bits) & ~prefix_mask;
    permutation->prefix_bits = prefix_bits;
    permutation->key_bits = key_bits;
    permutation->below_bits = key_bits - prefix_bits;
    for (unsigned bit = 0; bit < key_bits; bit++)
        for (unsigned value = 0; value < 256; value++) {
            if ((value >> (bit & 7)) & 1) permutation->apply[bit >> 3][value] |= (uint64_t)1 << target[bit];
            unsigned to = target[bit];
            if ((value >> (to & 7)) & 1) permutation->invert[to >> 3][value] |= (uint64_t)1 << bit;
        }
}

int keys_fit(const uint64_t *keys, uint64_t count, unsigned key_bits) {
    uint64_t all = 0;
    if (key_bits >= 64) return 1;
    for (uint64_t i = 0; i < count; i++) all |= keys[i];
    return all >> key_bits == 0;
}

void permute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out) {
    permute(permutation, values, count, out);
}

void unpermute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out) {
    unpermute(permutation, values, count, out);
}
