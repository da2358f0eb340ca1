/* Ways of making a MinHash signature that fpstore does not take, for tools/bench_minhash.py: short, not robust. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VALUES 1024
#define LANES 64

static uint64_t keys[MOST_VALUES];

static uint64_t mixed(uint64_t number) {
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
    number = (number ^ number >> 27) * 0x94D049BB133111EBu;
    return number ^ number >> 31;
}

void prepare(uint64_t seed) {
    for (int i = 0; i < MOST_VALUES; i++) keys[i] = mixed(seed += 0x9E3779B97F4A7C15u);
}

/* Each value by a hash function of its own: what the theory speaks of. */
static void plain(const uint64_t *hashes, size_t count, uint32_t values, uint32_t *out) {
    for (uint32_t i = 0; i < values; i++)
        for (size_t j = 0; j < count; j++) {
            const uint32_t value = (uint32_t)(mixed(hashes[j] ^ keys[i]) >> 32);
            if (value < out[i]) out[i] = value;
        }
}

/* C-MinHash (Li and Li, ICML 2022): one permutation of what another has turned by one place for each value. */
static void circulant(const uint64_t *hashes, size_t count, uint32_t values, uint32_t *out) {
    for (uint32_t first = 0; first < values; first += LANES) {
        uint32_t least[LANES];
        memcpy(least, out + first, sizeof least);
        for (size_t j = 0; j < count; j++) {
            const uint32_t turned = (uint32_t)(hashes[j] ^ hashes[j] >> 32) + first;
            for (uint32_t i = 0; i < LANES; i++) {
                uint32_t value = turned + i;
                value = (value ^ value >> 16) * 0x85EBCA6Bu;
                value = (value ^ value >> 13) * 0xC2B2AE35u;
                value ^= value >> 16;
                least[i] = value < least[i] ? value : least[i];
            }
        }
        memcpy(out + first, least, sizeof least);
    }
}

/* One permutation with optimal densification (Shrivastava, ICML 2017): an empty bin takes the value of another. */
static void densified(const uint64_t *hashes, size_t count, uint32_t values, uint32_t *out) {
    uint32_t found[MOST_VALUES];
    memcpy(found, out, values * sizeof *found);
    for (size_t j = 0; j < count; j++) {
        const uint32_t bin = (uint32_t)((hashes[j] >> 32) * values >> 32), value = (uint32_t)hashes[j] >> 1;
        const uint32_t before = found[bin];
        found[bin] = value < before ? value : before;
    }
    for (uint32_t i = 0; i < values; i++) {
        uint32_t from = i;
        for (uint64_t attempt = 1; found[from] == UINT32_MAX; attempt++)
            from = (uint32_t)((mixed((uint64_t)i << 32 | attempt) >> 32) * values >> 32);
        out[i] = found[from];
    }
}

typedef void (*Way)(const uint64_t *, size_t, uint32_t, uint32_t *);
static const Way ways[] = {plain, circulant, densified};

/* The signatures of sets of hashes, none empty: those of set i end at ends[i]. values: a multiple of LANES. */
void sign_sets(int way, const uint64_t *hashes, const uint64_t *ends, size_t sets, uint32_t values, uint32_t *out) {
    memset(out, 0xFF, sets * values * sizeof *out);
    for (size_t i = 0, first = 0; i < sets; first = ends[i++])
        ways[way](hashes + first, ends[i] - first, values, out + i * values);
}
