/* The permutations of a seed, and how many values there were. */
#include "text_minhash.h"

#include "text_hash.h"

void permutations_seed(Permutations *permutations, uint64_t seed) {
    for (int i = 0; i < MAX_SKETCH_BITS; i++) {
        const uint64_t number = splitmix(seed += SPLITMIX_STEP);
        permutations->factors[i] = (uint32_t)number | 1;
        permutations->terms[i] = (uint32_t)(number >> 32);
    }
}

uint32_t minima_count(const Minima *minima, unsigned words) {
    const uint64_t values = (uint64_t)WORD_BITS * words;
    uint64_t sum = values;
    for (uint64_t i = 0; i < values; i++) sum += minima->values[i];
    return (uint32_t)(((values << 32) + sum / 2) / sum - 1);
}
