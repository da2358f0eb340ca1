/* The permutations of a seed, and the bits of the smallest values. */
#include "text_minhash.h"

void permutations_seed(Permutations *permutations, uint64_t seed) {
    for (int i = 0; i < SKETCH_BITS; i++) {
        uint64_t number = seed += 0x9E3779B97F4A7C15u;
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
        number = (number ^ number >> 27) * 0x94D049BB133111EBu;
        number ^= number >> 31;
        permutations->factors[i] = (uint32_t)number | 1;
        permutations->terms[i] = (uint32_t)(number >> 32);
    }
}

uint64_t minima_bits(const Minima *minima) {
    uint64_t bits = 0;
    for (int i = 0; i < SKETCH_BITS; i++) {
        uint32_t value = minima->values[i];
        value = (value ^ value >> 16) * 0x85EBCA6Bu;
        value = (value ^ value >> 13) * 0xC2B2AE35u;
        value ^= value >> 16;
        bits |= (uint64_t)(value & 1) << i;
    }
    return bits;
}

uint32_t minima_count(const Minima *minima) {
    uint64_t sum = SKETCH_BITS;
    for (int i = 0; i < SKETCH_BITS; i++) sum += minima->values[i];
    return (uint32_t)((((uint64_t)SKETCH_BITS << 32) + sum / 2) / sum - 1);
}
