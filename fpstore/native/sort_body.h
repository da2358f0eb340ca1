/* Permuting and dealing out keys in one go. Included once for each instruction set; see platform.h. */
#include "sort.h"

#include "bits_body.h"

/* Add to counts how many of the keys of fingerprints begin with each SPLIT_DIGIT_BITS bits. */
void KERNEL(count_permuted)(const Permutation *restrict permutation, const uint64_t *fingerprints, uint64_t count,
                            uint64_t *counts) {
    const unsigned shift = permutation->key_bits - SPLIT_DIGIT_BITS;
    for (uint64_t i = 0; i < count; i++) counts[KERNEL(apply)(permutation, fingerprints[i]) >> shift]++;
}

/* Put each key into its group, by these bits, in the order in which they come. at: where each group goes on. */
void KERNEL(deal_permuted)(const Permutation *restrict permutation, const uint64_t *fingerprints, uint64_t count,
                           uint64_t *keys, uint64_t *at) {
    const unsigned shift = permutation->key_bits - SPLIT_DIGIT_BITS;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = KERNEL(apply)(permutation, fingerprints[i]);
        uint64_t *next = &at[key >> shift], to = *next;
        *next = to + 1;
        keys[to] = key;
    }
}
