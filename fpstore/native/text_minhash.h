/* 1-bit MinHash of 64 bits: b-bit minwise hashing (Li and Koenig, WWW 2010) with b = 1.

   A permutation takes the low half of a shingle's hash, folded with the high one, to factor * half + term modulo 2^32,
   with an odd factor. Bit i of the sketch is a bit of the smallest value of permutation i, mixed: the low bit of the
   value itself would be the same bit of the hash in every permutation. */
#ifndef FPSTORE_TEXT_MINHASH_H
#define FPSTORE_TEXT_MINHASH_H

#include "platform.h"

#define SKETCH_BITS 64

typedef struct {
    uint32_t factors[SKETCH_BITS], terms[SKETCH_BITS];
} Permutations;

/* The smallest value of each permutation. */
typedef struct {
    uint32_t values[SKETCH_BITS];
} Minima;

/* The permutations of a seed: successive numbers of SplitMix64, of each the low half, made odd, and the high half. */
void permutations_seed(Permutations *permutations, uint64_t seed);

ALWAYS_INLINE void minima_clear(Minima *minima) { memset(minima, 0xFF, sizeof *minima); }

/* What of a hash is permuted. */
ALWAYS_INLINE uint32_t half_of(uint64_t hash) { return (uint32_t)(hash ^ hash >> 32); }

/* The bits of the smallest values, mixed by the finalizer of MurmurHash3. */
uint64_t minima_bits(const Minima *minima);

/* How many values there were, told by the smallest of each permutation: within an eighth as a rule; 0 for none. The
   smallest of n numbers of 0..M-1 is (M + 1) / (n + 1) - 1 in the mean. */
uint32_t minima_count(const Minima *minima);

#endif
