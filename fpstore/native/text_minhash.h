/* 1-bit MinHash of 64 bits, or so many words of them: b-bit minwise hashing (Li and Koenig, WWW 2010) with b = 1.

   A permutation takes the low half of a shingle's hash, folded with the high one, to factor * half + term modulo 2^32,
   with an odd factor. Bit i of the sketch is a bit of the smallest value of permutation i, mixed: the low bit of the
   value itself would be the same bit of the hash in every permutation. Word i has the bits of the permutations from
   64 * i on, so the first is the sketch of 64 bits. */
#ifndef FPSTORE_TEXT_MINHASH_H
#define FPSTORE_TEXT_MINHASH_H

#include "platform.h"

#define WORD_BITS 64
#define MAX_WORDS 4
#define MAX_SKETCH_BITS (WORD_BITS * MAX_WORDS)

typedef struct {
    uint32_t factors[MAX_SKETCH_BITS], terms[MAX_SKETCH_BITS];
} Permutations;

/* The smallest value of each permutation. */
typedef struct {
    uint32_t values[MAX_SKETCH_BITS];
} Minima;

/* The permutations of a seed: successive numbers of SplitMix64, of each the low half, made odd, and the high half. */
void permutations_seed(Permutations *permutations, uint64_t seed);

ALWAYS_INLINE void minima_clear(Minima *minima, unsigned words) {
    memset(minima->values, 0xFF, words * WORD_BITS * sizeof *minima->values);
}

/* What of a hash is permuted. */
ALWAYS_INLINE uint32_t half_of(uint64_t hash) { return (uint32_t)(hash ^ hash >> 32); }

/* How many values there were, told by the smallest of each permutation: within an eighth as a rule; 0 for none. The
   smallest of n numbers of 0..M-1 is (M + 1) / (n + 1) - 1 in the mean. */
uint32_t minima_count(const Minima *minima, unsigned words);

#endif
