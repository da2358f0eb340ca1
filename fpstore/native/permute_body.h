/* Permuting arrays. Included once for each instruction set; see platform.h. */
#include "bits_body.h"

void KERNEL(permute)(const Permutation *permutation, const uint64_t *in, uint64_t count, uint64_t *out) {
    for (uint64_t i = 0; i < count; i++) out[i] = KERNEL(apply)(permutation, in[i]);
}

void KERNEL(unpermute)(const Permutation *permutation, const uint64_t *in, uint64_t count, uint64_t *out) {
    for (uint64_t i = 0; i < count; i++) out[i] = KERNEL(invert)(permutation, in[i]);
}
