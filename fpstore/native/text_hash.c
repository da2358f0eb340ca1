/* XXH3 of what is not short, XXH64, FNV, FxHash and MurmurHash3. */
#include "text_hash.h"

const uint8_t xxh3_secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

typedef struct {
    uint64_t (*xxh3_long)(const uint8_t *, size_t, uint64_t);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { xxh3_long_##set }

static Kernels kernels = {xxh3_long_portable};

KERNELS_CHOSEN_AT_LOAD(hash_choose)

uint64_t xxh3_long(const uint8_t *at, size_t size, uint64_t seed) { return kernels.xxh3_long(at, size, seed); }

uint64_t xxh3_middle(const uint8_t *at, size_t size, uint64_t seed) {
    uint64_t hash = size * P64_1, last = mix_16(at + size - 16, 119, seed);
    for (int i = 0; i < 8; i++) hash += mix_16(at + 16 * i, 16 * i, seed);
    hash = xxh3_avalanche(hash);
    for (size_t i = 8; i < size / 16; i++) last += mix_16(at + 16 * i, 16 * (i - 8) + 3, seed);
    return xxh3_avalanche(hash + last);
}

uint64_t xxh3_seeded(const uint8_t *at, size_t size, uint64_t seed) { return xxh3_with(at, size, seed); }

ALWAYS_INLINE uint64_t mix_lane(uint64_t lane, uint64_t value) { return rotate_left(lane + value * P64_2, 31) * P64_1; }

ALWAYS_INLINE uint64_t xxh64_with(const uint8_t *at, size_t size, uint64_t seed) {
    const uint8_t *end = at + size;
    uint64_t hash = seed + P64_5;
    if (size >= 32) {
        uint64_t lanes[4] = {seed + P64_1 + P64_2, seed + P64_2, seed, seed - P64_1};
        for (; end - at >= 32; at += 32)
            for (int i = 0; i < 4; i++) lanes[i] = mix_lane(lanes[i], load64(at + 8 * i));
        hash =
            rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) + rotate_left(lanes[3], 18);
        for (int i = 0; i < 4; i++) hash = (hash ^ mix_lane(0, lanes[i])) * P64_1 + P64_4;
    }
    hash += size;
    for (; end - at >= 8; at += 8) hash = rotate_left(hash ^ mix_lane(0, load64(at)), 27) * P64_1 + P64_4;
    if (end - at >= 4) {
        hash = rotate_left(hash ^ load32(at) * P64_1, 23) * P64_2 + P64_3;
        at += 4;
    }
    for (; at < end; at++) hash = rotate_left(hash ^ *at * P64_5, 11) * P64_1;
    return xxh64_avalanche(hash);
}

uint64_t xxh64(const uint8_t *at, size_t size) { return xxh64_with(at, size, 0); }

uint64_t xxh64_seeded(const uint8_t *at, size_t size, uint64_t seed) { return xxh64_with(at, size, seed); }

#define FNV_START 0xCBF29CE484222325u
#define FNV_PRIME 0x100000001B3u

uint64_t fnv1(const uint8_t *at, size_t size) {
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < size; i++) hash = hash * FNV_PRIME ^ at[i];
    return hash;
}

uint64_t fnv1a(const uint8_t *at, size_t size) {
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * FNV_PRIME;
    return hash;
}

#define FX_FIRST 0x243F6A8885A308D3u
#define FX_SECOND 0x13198A2E03707344u
#define FX_FOLD 0xA4093822299F31D0u
#define FX_FACTOR 0xF1357AEA2E62A9C5u

uint64_t fxhash(const uint8_t *at, size_t size) {
    const uint8_t *end = at + size;
    uint64_t one = FX_FIRST, other = FX_SECOND;
    for (; end - at > 16; at += 16) {
        const uint64_t folded = fold_product(one ^ load64(at), FX_FOLD ^ load64(at + 8));
        one = other;
        other = folded;
    }
    if (size >= 8) {
        one ^= load64(size > 16 ? end - 16 : at);
        other ^= load64(end - 8);
    } else if (size >= 4) {
        one ^= load32(at);
        other ^= load32(end - 4);
    } else if (size > 0) {
        one ^= at[0];
        other ^= (uint64_t)end[-1] << 8 | at[size / 2];
    }
    return rotate_left((fold_product(one, other) ^ size) * FX_FACTOR, 26);
}

#define MURMUR_1 0x87C37B91114253D5u
#define MURMUR_2 0x4CF5AD432745937Fu

ALWAYS_INLINE uint64_t murmur_low(uint64_t word) { return rotate_left(word * MURMUR_1, 31) * MURMUR_2; }

ALWAYS_INLINE uint64_t murmur_high(uint64_t word) { return rotate_left(word * MURMUR_2, 33) * MURMUR_1; }

ALWAYS_INLINE uint64_t murmur_end(uint64_t hash) {
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    return hash ^ hash >> 33;
}

uint64_t murmur3(const uint8_t *at, size_t size, uint32_t seed) {
    const uint8_t *end = at + size;
    uint64_t low = seed, high = seed;
    for (; end - at >= 16; at += 16) {
        low = (rotate_left(low ^ murmur_low(load64(at)), 27) + high) * 5 + 0x52DCE729;
        high = (rotate_left(high ^ murmur_high(load64(at + 8)), 31) + low) * 5 + 0x38495AB5;
    }
    uint8_t last[16] = {0};
    if (at < end) memcpy(last, at, (size_t)(end - at));
    low ^= murmur_low(load64(last)) ^ size;
    high ^= murmur_high(load64(last + 8)) ^ size;
    low += high;
    return murmur_end(low) + murmur_end(high + low);
}
