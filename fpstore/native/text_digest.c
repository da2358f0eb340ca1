/* MD5, SHA-1, SHA-256 and BLAKE2b, a block at a time. */
#include "text_digest.h"

#define DIGEST_BLOCK 64

/* The whole part of 2^32 |sin(i + 1)|. */
static const uint32_t md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
static const uint8_t md5_turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

/* 32 bits of the fractional parts of the cube roots of the first primes, and of the square roots. */
static const uint32_t sha256_cubes[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
static const uint32_t sha256_squares[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* count is 1..31 at every call. */
ALWAYS_INLINE uint32_t turned(uint32_t value, int count) { return value << count | value >> (32 - count); }

static void md5_block(uint32_t *state, const uint8_t *block) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    memcpy(words, block, DIGEST_BLOCK);
    for (int i = 0; i < 64; i++) {
        const int round = i >> 4;
        const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                               : round == 1 ? (d & b) | (~d & c)
                               : round == 2 ? b ^ c ^ d
                                            : c ^ (b | ~d);
        const int word = (round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i) & 15;
        const uint32_t next = b + turned(a + mixed + md5_sines[i] + words[word], md5_turns[round][i & 3]);
        a = d;
        d = c;
        c = b;
        b = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static void sha1_block(uint32_t *state, const uint8_t *block) {
    /* The square roots of 2, 3, 5 and 10. */
    static const uint32_t roots[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t words[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    memcpy(words, block, DIGEST_BLOCK);
    for (int i = 0; i < 16; i++) words[i] = __builtin_bswap32(words[i]);
    for (int i = 16; i < 80; i++) words[i] = turned(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    for (int round = 0; round < 4; round++)
        for (int i = 20 * round; i < 20 * round + 20; i++) {
            const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                                   : round == 2 ? (b & c) | (b & d) | (c & d)
                                                : b ^ c ^ d;
            const uint32_t next = turned(a, 5) + mixed + e + roots[round] + words[i];
            e = d;
            d = c;
            c = turned(b, 30);
            b = a;
            a = next;
        }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

static void sha256_block(uint32_t *state, const uint8_t *block) {
    uint32_t words[64], s[8];
    memcpy(words, block, DIGEST_BLOCK);
    for (int i = 0; i < 16; i++) words[i] = __builtin_bswap32(words[i]);
    for (int i = 16; i < 64; i++) {
        const uint32_t early = words[i - 15], late = words[i - 2];
        words[i] = words[i - 16] + (turned(early, 25) ^ turned(early, 14) ^ early >> 3) + words[i - 7] +
                   (turned(late, 15) ^ turned(late, 13) ^ late >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t one = s[7] + (turned(s[4], 26) ^ turned(s[4], 21) ^ turned(s[4], 7)) +
                             ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_cubes[i] + words[i];
        const uint32_t two =
            (turned(s[0], 30) ^ turned(s[0], 19) ^ turned(s[0], 10)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

typedef void (*DigestBlock)(uint32_t *state, const uint8_t *block);

/* Run all blocks of a message and of what pads it: a bit, zeros, and its size in bits at the end. */
static void digest_run(DigestBlock run, uint32_t *state, int size_is_big_endian, const uint8_t *data, size_t size) {
    uint8_t last[2 * DIGEST_BLOCK] = {0};
    const size_t rest = size % DIGEST_BLOCK, padded = rest + 9 > DIGEST_BLOCK ? 2 * DIGEST_BLOCK : DIGEST_BLOCK;
    const uint64_t bits = (uint64_t)size * 8, stored = size_is_big_endian ? __builtin_bswap64(bits) : bits;
    for (size_t at = 0; at + DIGEST_BLOCK <= size; at += DIGEST_BLOCK) run(state, data + at);
    if (rest > 0) memcpy(last, data + size - rest, rest);
    last[rest] = 0x80;
    memcpy(last + padded - 8, &stored, 8);
    for (size_t at = 0; at < padded; at += DIGEST_BLOCK) run(state, last + at);
}

static void md5_run(uint32_t state[4], const uint8_t *data, size_t size) {
    static const uint32_t begin[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    memcpy(state, begin, sizeof begin);
    digest_run(md5_block, state, 0, data, size);
}

uint64_t md5_tail(const uint8_t *data, size_t size) {
    uint32_t state[4];
    md5_run(state, data, size);
    return (uint64_t)__builtin_bswap32(state[2]) << 32 | __builtin_bswap32(state[3]);
}

uint64_t md5_head(const uint8_t *data, size_t size) {
    uint32_t state[4];
    md5_run(state, data, size);
    return (uint64_t)__builtin_bswap32(state[0]) << 32 | __builtin_bswap32(state[1]);
}

uint64_t sha1_head(const uint8_t *data, size_t size) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    digest_run(sha1_block, state, 1, data, size);
    return (uint64_t)__builtin_bswap32(state[1]) << 32 | __builtin_bswap32(state[0]);
}

uint64_t sha256_tail(const uint8_t *data, size_t size) {
    uint32_t state[8];
    memcpy(state, sha256_squares, sizeof state);
    digest_run(sha256_block, state, 1, data, size);
    return (uint64_t)state[6] << 32 | state[7];
}

#define BLAKE_BLOCK 128
#define BLAKE_ROUNDS 12

/* 64 bits of the fractional parts of the square roots of the first primes. */
static const uint64_t blake_begin[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
static const uint8_t blake_orders[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
/* Which four words of the state are mixed together. */
static const uint8_t blake_places[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
                                           {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14}};

/* count is 1..63 at every call. */
ALWAYS_INLINE uint64_t turned_right(uint64_t value, int count) { return value >> count | value << (64 - count); }

/* read: the bytes of the message up to the end of this block. A message is shorter than 2^64 bytes. */
static void blake_block(uint64_t state[8], const uint8_t *block, uint64_t read, int is_last) {
    uint64_t words[16], v[16];
    memcpy(words, block, BLAKE_BLOCK);
    memcpy(v, state, 8 * sizeof *v);
    memcpy(v + 8, blake_begin, sizeof blake_begin);
    v[12] ^= read;
    if (is_last) v[14] = ~v[14];
    for (int round = 0; round < BLAKE_ROUNDS; round++)
        for (int i = 0; i < 8; i++) {
            const uint8_t *order = blake_orders[round % 10] + 2 * i, *at = blake_places[i];
            uint64_t *a = v + at[0], *b = v + at[1], *c = v + at[2], *d = v + at[3];
            *a += *b + words[order[0]];
            *d = turned_right(*d ^ *a, 32);
            *c += *d;
            *b = turned_right(*b ^ *c, 24);
            *a += *b + words[order[1]];
            *d = turned_right(*d ^ *a, 16);
            *c += *d;
            *b = turned_right(*b ^ *c, 63);
        }
    for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}

uint64_t blake2b_8(const uint8_t *data, size_t size) {
    uint64_t state[8];
    uint8_t last[BLAKE_BLOCK] = {0};
    size_t at = 0;
    memcpy(state, blake_begin, sizeof state);
    state[0] ^= 0x01010000 ^ 8; /* no key, one leaf, 8 bytes of digest */
    for (; size - at > BLAKE_BLOCK; at += BLAKE_BLOCK) blake_block(state, data + at, at + BLAKE_BLOCK, 0);
    if (size > at) memcpy(last, data + at, size - at);
    blake_block(state, last, size, 1);
    return __builtin_bswap64(state[0]);
}
