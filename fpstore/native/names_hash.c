/* Hashes of names: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). */
#include "names.h"

typedef struct {
    uint64_t v0, v1, v2, v3;
} State;

#define ROTATE(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

ALWAYS_INLINE State state_of(uint64_t key) {
    return (State){key ^ 0x736f6d6570736575u, 0x646f72616e646f6du, key ^ 0x6c7967656e657261u, 0x7465646279746573u};
}

ALWAYS_INLINE void state_round(State *state) {
    uint64_t v0 = state->v0, v1 = state->v1, v2 = state->v2, v3 = state->v3;
    v0 += v1, v1 = ROTATE(v1, 13) ^ v0, v0 = ROTATE(v0, 32);
    v2 += v3, v3 = ROTATE(v3, 16) ^ v2;
    v0 += v3, v3 = ROTATE(v3, 21) ^ v0;
    v2 += v1, v1 = ROTATE(v1, 17) ^ v2, v2 = ROTATE(v2, 32);
    *state = (State){v0, v1, v2, v3};
}

ALWAYS_INLINE void state_take(State *state, uint64_t word) {
    state->v3 ^= word;
    state_round(state);
    state->v0 ^= word;
}

ALWAYS_INLINE uint64_t state_end(State *state) {
    state->v2 ^= 255;
    for (unsigned i = 0; i < 3; i++) state_round(state);
    return state->v0 ^ state->v1 ^ state->v2 ^ state->v3;
}

/* The hash, once the first `at` bytes were taken. */
ALWAYS_INLINE uint64_t state_rest(State *state, const uint8_t *name, uint64_t at, uint64_t bytes) {
    for (; at + 8 <= bytes; at += 8) state_take(state, load64(name + at));
    state_take(state, load_last(name + bytes, bytes, bytes - at) | bytes << 56);
    return state_end(state);
}

uint64_t name_hash(const uint8_t *name, uint64_t bytes, uint64_t key) {
    State state = state_of(key);
    return state_rest(&state, name, 0, bytes);
}

/* Each step of a hash waits for the one before, so two names together take little longer than one. */
void name_hashes(const Names *names, uint64_t key, uint64_t *hashes) {
    uint64_t i = 0;
    for (; i + 1 < names->count; i += 2) {
        const uint8_t *name = names->data + name_start(names, i), *next = names->data + names->ends[i];
        uint64_t bytes = (uint64_t)(next - name), next_bytes = (uint64_t)(names->ends[i + 1] - names->ends[i]);
        uint64_t both = bytes < next_bytes ? bytes : next_bytes, at = 0;
        State one = state_of(key), other = state_of(key);
        for (; at + 8 <= both; at += 8) {
            state_take(&one, load64(name + at));
            state_take(&other, load64(next + at));
        }
        hashes[i] = state_rest(&one, name, at, bytes);
        hashes[i + 1] = state_rest(&other, next, at, next_bytes);
    }
    for (; i < names->count; i++) {
        int64_t start = name_start(names, i);
        hashes[i] = name_hash(names->data + start, (uint64_t)(names->ends[i] - start), key);
    }
}
