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

uint64_t name_hash(const uint8_t *name, uint64_t bytes, uint64_t key) {
    State state = state_of(key);
    uint64_t at = 0;
    for (; at + 8 <= bytes; at += 8) state_take(&state, load64(name + at));
    state_take(&state, load_some(name + at, bytes - at) | bytes << 56);
    return state_end(&state);
}

/* Each step of a hash waits for the one before, so two of them take little longer than one. */
void name_hash_both(const uint8_t *name, uint64_t bytes, uint64_t key, uint64_t *plain, uint64_t *keyed) {
    State one = state_of(0), other = state_of(key);
    uint64_t at = 0, word;
    for (; at + 8 <= bytes; at += 8) {
        word = load64(name + at);
        state_take(&one, word);
        state_take(&other, word);
    }
    word = load_some(name + at, bytes - at) | bytes << 56;
    state_take(&one, word);
    state_take(&other, word);
    *plain = state_end(&one);
    *keyed = state_end(&other);
}
