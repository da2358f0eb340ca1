/* Permuting and dealing out keys in one go. Included once for each instruction set; see platform.h. */
#include "sort.h"

#include "bits_body.h"

/* Fill keys with those of fingerprints, by their top SPLIT_DIGIT_BITS bits, otherwise in the order in which they come.
   ends, all zero before: where each group ends. */
void KERNEL(deal_permuted)(const Permutation *restrict permutation, const uint64_t *fingerprints, uint64_t count,
                           uint64_t *keys, uint64_t *ends) {
    const unsigned shift = permutation->key_bits - SPLIT_DIGIT_BITS;
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) ends[KERNEL(apply)(permutation, fingerprints[i]) >> shift]++;
    for (uint64_t digit = 0; digit < 1 << SPLIT_DIGIT_BITS; digit++) {
        uint64_t size = ends[digit];
        ends[digit] = total; /* a start as yet */
        total += size;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = KERNEL(apply)(permutation, fingerprints[i]);
        uint64_t *end = &ends[key >> shift], to = *end;
        *end = to + 1;
        keys[to] = key;
    }
}
