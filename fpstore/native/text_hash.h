/* XXH3 64 and XXH64, from the published specification (xxHash, doc/xxhash_spec.md); FNV-1 and FNV-1a of 64 bits (RFC
   9923), the first half of MurmurHash3 x64 128 (smhasher), and the FxHash of rustc-hash 2, for fingerprints and
   signatures that other tools make. */
#ifndef FPSTORE_TEXT_HASH_H
#define FPSTORE_TEXT_HASH_H

#include "platform.h"

#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u
#define MX_1 0x165667919E3779F9u
#define MX_2 0x9FB21C651E98DF25u

extern HIDDEN const uint8_t xxh3_secret[192];

ALWAYS_INLINE uint32_t load32(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

ALWAYS_INLINE uint64_t rotate_left(uint64_t value, int count) { /* count is 1..63 */
    return value << count | value >> (64 - count);
}

ALWAYS_INLINE uint64_t secret(size_t at) { return load64(xxh3_secret + at); }

ALWAYS_INLINE uint64_t fold_product(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

ALWAYS_INLINE uint64_t xxh64_avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 33) * P64_2;
    hash = (hash ^ hash >> 29) * P64_3;
    return hash ^ hash >> 32;
}

ALWAYS_INLINE uint64_t xxh3_avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 37) * MX_1;
    return hash ^ hash >> 32;
}

ALWAYS_INLINE uint64_t mix_16(const uint8_t *at, size_t secret_at, uint64_t seed) {
    return fold_product(load64(at) ^ (secret(secret_at) + seed), load64(at + 8) ^ (secret(secret_at + 8) - seed));
}

uint64_t xxh3_long(const uint8_t *at, size_t size, uint64_t seed); /* size is over 240 */
#define HASH_KERNELS(set) uint64_t xxh3_long_##set(const uint8_t *, size_t, uint64_t);
HASH_KERNELS(portable)
HASH_KERNELS(fast)
HASH_KERNELS(wide)
#undef HASH_KERNELS
void hash_choose(InstructionSet set);
uint64_t xxh3_middle(const uint8_t *at, size_t size, uint64_t seed); /* size is 129..240 */

/* Inline for the seed 0 of most recipes, which folds away. */
ALWAYS_INLINE uint64_t xxh3_with(const uint8_t *at, size_t size, uint64_t seed) {
    if (size <= 16) {
        if (size > 8) {
            const uint64_t low = load64(at) ^ ((secret(24) ^ secret(32)) + seed);
            const uint64_t high = load64(at + size - 8) ^ ((secret(40) ^ secret(48)) - seed);
            return xxh3_avalanche(size + __builtin_bswap64(low) + high + fold_product(low, high));
        }
        if (size >= 4) {
            uint64_t hash = load32(at + size - 4) + ((uint64_t)load32(at) << 32);
            hash ^= (secret(8) ^ secret(16)) - (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
            hash ^= rotate_left(hash, 49) ^ rotate_left(hash, 24);
            hash *= MX_2;
            hash = (hash ^ ((hash >> 35) + size)) * MX_2;
            return hash ^ hash >> 28;
        }
        if (size == 0) return xxh64_avalanche(seed ^ secret(56) ^ secret(64));
        const uint32_t some =
            (uint32_t)at[0] << 16 | (uint32_t)at[size >> 1] << 24 | at[size - 1] | (uint32_t)size << 8;
        return xxh64_avalanche(some ^ ((uint64_t)(load32(xxh3_secret) ^ load32(xxh3_secret + 4)) + seed));
    }
    if (size > 240) return xxh3_long(at, size, seed);
    if (size > 128) return xxh3_middle(at, size, seed);
    uint64_t hash = size * P64_1;
    if (size > 32) {
        if (size > 64) {
            if (size > 96) hash += mix_16(at + 48, 96, seed) + mix_16(at + size - 64, 112, seed);
            hash += mix_16(at + 32, 64, seed) + mix_16(at + size - 48, 80, seed);
        }
        hash += mix_16(at + 16, 32, seed) + mix_16(at + size - 32, 48, seed);
    }
    hash += mix_16(at, 0, seed) + mix_16(at + size - 16, 16, seed);
    return xxh3_avalanche(hash);
}

ALWAYS_INLINE uint64_t xxh3(const uint8_t *at, size_t size) { return xxh3_with(at, size, 0); }

uint64_t xxh3_seeded(const uint8_t *at, size_t size, uint64_t seed);

uint64_t xxh64(const uint8_t *at, size_t size); /* with seed 0 */
uint64_t xxh64_seeded(const uint8_t *at, size_t size, uint64_t seed);

/* FNV-1 multiplies before it takes a byte, FNV-1a after. */
uint64_t fnv1(const uint8_t *at, size_t size);
uint64_t fnv1a(const uint8_t *at, size_t size);

/* What FxHasher makes of one write of these bytes. */
uint64_t fxhash(const uint8_t *at, size_t size);

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): what its state, which goes on by a step, becomes. */
#define SPLITMIX_STEP 0x9E3779B97F4A7C15u

ALWAYS_INLINE uint64_t splitmix(uint64_t state) {
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
    state = (state ^ state >> 27) * 0x94D049BB133111EBu;
    return state ^ state >> 31;
}

/* Word 0 of a hash is the hash, and word i the number i of the SplitMix64 that begins with it. */
ALWAYS_INLINE uint64_t word_of(uint64_t hash, unsigned word) {
    return word == 0 ? hash : splitmix(hash + word * SPLITMIX_STEP);
}

/* The first of the two words of MurmurHash3 x64 128. */
uint64_t murmur3(const uint8_t *at, size_t size, uint32_t seed);

#endif
