/* XXH3 64 and XXH64, both with seed 0, from the published specification (xxHash, doc/xxhash_spec.md). */
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

static const uint8_t SECRET[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

ALWAYS_INLINE uint32_t load32(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

ALWAYS_INLINE uint64_t rotate_left(uint64_t value, int count) { /* count is 1..63 */
    return value << count | value >> (64 - count);
}

ALWAYS_INLINE uint64_t secret(size_t at) { return load64(SECRET + at); }

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

ALWAYS_INLINE uint64_t mix_16(const uint8_t *at, size_t secret_at) {
    return fold_product(load64(at) ^ secret(secret_at), load64(at + 8) ^ secret(secret_at + 8));
}

ALWAYS_INLINE void accumulate(uint64_t lanes[8], const uint8_t *at, size_t secret_at) {
    for (int i = 0; i < 8; i++) {
        const uint64_t value = load64(at + 8 * i), key = value ^ secret(secret_at + 8 * i);
        lanes[i ^ 1] += value;
        lanes[i] += (key & 0xFFFFFFFF) * (key >> 32);
    }
}

static uint64_t xxh3_long(const uint8_t *at, size_t size) { /* size is over 240 */
    uint64_t lanes[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    const uint8_t *end = at + size;
    for (; end - at > 1024; at += 1024) {
        for (int stripe = 0; stripe < 16; stripe++) accumulate(lanes, at + 64 * stripe, 8 * stripe);
        for (int i = 0; i < 8; i++) lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ secret(128 + 8 * i)) * P32_1;
    }
    for (size_t secret_at = 0; end - at > 64; at += 64, secret_at += 8) accumulate(lanes, at, secret_at);
    accumulate(lanes, end - 64, 121);
    uint64_t hash = size * P64_1;
    for (int i = 0; i < 4; i++)
        hash += fold_product(lanes[2 * i] ^ secret(11 + 16 * i), lanes[2 * i + 1] ^ secret(19 + 16 * i));
    return xxh3_avalanche(hash);
}

static uint64_t xxh3_middle(const uint8_t *at, size_t size) { /* size is 129..240 */
    uint64_t hash = size * P64_1, last = mix_16(at + size - 16, 119);
    for (int i = 0; i < 8; i++) hash += mix_16(at + 16 * i, 16 * i);
    hash = xxh3_avalanche(hash);
    for (size_t i = 8; i < size / 16; i++) last += mix_16(at + 16 * i, 16 * (i - 8) + 3);
    return xxh3_avalanche(hash + last);
}

ALWAYS_INLINE uint64_t xxh3(const uint8_t *at, size_t size) {
    if (size <= 16) {
        if (size > 8) {
            const uint64_t low = load64(at) ^ secret(24) ^ secret(32);
            const uint64_t high = load64(at + size - 8) ^ secret(40) ^ secret(48);
            return xxh3_avalanche(size + __builtin_bswap64(low) + high + fold_product(low, high));
        }
        if (size >= 4) {
            uint64_t hash = load32(at + size - 4) + ((uint64_t)load32(at) << 32);
            hash ^= secret(8) ^ secret(16);
            hash ^= rotate_left(hash, 49) ^ rotate_left(hash, 24);
            hash *= MX_2;
            hash = (hash ^ ((hash >> 35) + size)) * MX_2;
            return hash ^ hash >> 28;
        }
        if (size == 0) return xxh64_avalanche(secret(56) ^ secret(64));
        const uint32_t some = (uint32_t)at[0] << 16 | (uint32_t)at[size >> 1] << 24 | at[size - 1] | (uint32_t)size << 8;
        return xxh64_avalanche(some ^ (uint64_t)(load32(SECRET) ^ load32(SECRET + 4)));
    }
    if (size > 240) return xxh3_long(at, size);
    if (size > 128) return xxh3_middle(at, size);
    uint64_t hash = size * P64_1;
    if (size > 32) {
        if (size > 64) {
            if (size > 96) hash += mix_16(at + 48, 96) + mix_16(at + size - 64, 112);
            hash += mix_16(at + 32, 64) + mix_16(at + size - 48, 80);
        }
        hash += mix_16(at + 16, 32) + mix_16(at + size - 32, 48);
    }
    hash += mix_16(at, 0) + mix_16(at + size - 16, 16);
    return xxh3_avalanche(hash);
}

ALWAYS_INLINE uint64_t mix_lane(uint64_t lane, uint64_t value) { return rotate_left(lane + value * P64_2, 31) * P64_1; }

static uint64_t xxh64(const uint8_t *at, size_t size) {
    const uint8_t *end = at + size;
    uint64_t hash = P64_5;
    if (size >= 32) {
        uint64_t lanes[4] = {P64_1 + P64_2, P64_2, 0, 0 - P64_1};
        for (; end - at >= 32; at += 32)
            for (int i = 0; i < 4; i++) lanes[i] = mix_lane(lanes[i], load64(at + 8 * i));
        hash = rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) + rotate_left(lanes[3], 18);
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

#endif
