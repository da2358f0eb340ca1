/* The population count of a word and the permutation of a key, for the kernels of every instruction set; see
 * platform.h. */
#ifndef FPSTORE_BITS_BODY_H
#define FPSTORE_BITS_BODY_H

#include "permute.h"

ALWAYS_INLINE unsigned KERNEL(ones)(uint64_t word) {
#ifdef KERNEL_IS_FAST
    return (unsigned)__builtin_popcountll(word);
#else
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)((word * 0x0101010101010101u) >> 56);
#endif
}

ALWAYS_INLINE uint64_t KERNEL(apply)(const Permutation *permutation, uint64_t fingerprint) {
#ifdef KERNEL_IS_FAST
    uint64_t mask = permutation->prefix_mask;
    unsigned below = permutation->below_bits;
    uint64_t top = below < 64 ? _pext_u64(fingerprint, mask) << below : 0;
    return top | _pext_u64(fingerprint, permutation->rest_mask);
#else
    return permute_bytes(permutation->apply, fingerprint);
#endif
}

ALWAYS_INLINE uint64_t KERNEL(invert)(const Permutation *permutation, uint64_t key) {
#ifdef KERNEL_IS_FAST
    uint64_t mask = permutation->prefix_mask;
    unsigned below = permutation->below_bits;
    return (below < 64 ? _pdep_u64(key >> below, mask) : 0) | _pdep_u64(key, permutation->rest_mask);
#else
    return permute_bytes(permutation->invert, key);
#endif
}

#endif
