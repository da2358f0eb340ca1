/* Decoding one key, for the kernels of every instruction set; see platform.h. */
#ifndef FPSTORE_STEP_BODY_H
#define FPSTORE_STEP_BODY_H

#include "view.h"

/* `wide` bits (0..64) of the stream from bit `at` on. */
ALWAYS_INLINE uint64_t KERNEL(bits_at)(const uint8_t *base, uint64_t at, unsigned wide) {
    uint64_t word = load64(base + (at >> 3)) >> (at & 7);
    if ((at & 7) != 0) word |= (uint64_t)base[(at >> 3) + 8] << (64 - (at & 7));
    return word & low_bits(wide);
}

/* step() where the fast path does not do: an unknown code, a delta of 0, a tail that one load does not hold. */
static __attribute__((noinline)) Status KERNEL(slow_step)(const uint8_t *base, unsigned entry, int codec, uint64_t *at,
                                                          uint64_t *key) {
    unsigned advance = entry & 255, length = entry >> 8, tail = advance - length;
    if (advance == SLOW_BAD) return BAD_BLOCK;
    *at += length;
    if (advance == SLOW_ZERO) return OK;
    uint64_t delta = KERNEL(bits_at)(base, *at, tail) | (uint64_t)1 << tail;
    *at += tail;
    *key = codec == CODEC_XOR ? *key ^ delta : *key + delta;
    return OK;
}

/* The next key after *key, which it replaces; *at advances by at least one bit. Reads at most 32 bytes from *at on,
   which a file always has there (its footer). */
ALWAYS_INLINE Status KERNEL(step)(const uint8_t *base, const DecodeEntry *decode, unsigned fixed_bits, int codec,
                                  uint64_t *at, uint64_t *key) {
    uint64_t position = *at, delta;
    if (codec == CODEC_RAW) {
        *key = KERNEL(bits_at)(base, position, fixed_bits);
        *at = position + fixed_bits;
        return OK;
    }
    uint64_t word = load64(base + (position >> 3)) >> (position & 7);
    if (codec == CODEC_RICE) {
        unsigned zeros = (unsigned)__builtin_ctzll(word | (uint64_t)1 << RICE_ESCAPE);
        unsigned wide = zeros < RICE_ESCAPE ? fixed_bits : 64;
        uint64_t from = position + zeros + (zeros < RICE_ESCAPE);
        delta = KERNEL(bits_at)(base, from, wide);
        if (zeros < RICE_ESCAPE)
            delta |= (uint64_t)zeros << fixed_bits; /* a hostile r may overflow: a wrong key, not a crash */
        *at = from + wide;
        *key += delta;
        return OK;
    }
    unsigned entry = decode[word & ((1 << MAX_CODE_BITS) - 1)], advance = entry & 255, length = entry >> 8;
    if (UNLIKELY(advance > FAST_BITS)) {
        uint64_t slow_at = position, slow_key = *key; /* copies, so that the caller's stay in registers */
        Status status = KERNEL(slow_step)(base, entry, codec, &slow_at, &slow_key);
        *at = slow_at;
        *key = slow_key;
        return status;
    }
    unsigned tail = advance - length;
    delta = ((word >> length) & (((uint64_t)1 << tail) - 1)) | (uint64_t)1 << tail;
    *at = position + advance;
    *key = codec == CODEC_XOR ? *key ^ delta : *key + delta;
    return OK;
}

#endif
