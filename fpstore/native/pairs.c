/* What joins are told, and the choice of how they compare. */
#include "pairs.h"

typedef struct {
    void (*fold)(const uint64_t *, uint64_t, uint32_t *);
    void (*neighbours)(NeighbourJoin *);
    void (*queries)(QueryJoin *);
    void (*flips)(FlipJoin *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { fold_keys_##set, neighbour_join_run_##set, query_join_run_##set, flip_join_run_##set }

static Kernels kernels = {fold_keys_portable, neighbour_join_run_portable, query_join_run_portable,
                          flip_join_run_portable};

KERNELS_CHOSEN_AT_LOAD(join_choose)

/* Tiles number their rows by as many bits as fit: those above the row's, or a later run where the highest flipped bit
 * is. */
Flip flip_of(uint64_t mask) {
    const unsigned rows = TILE_BITS - ROW_BITS, highest = bit_length(mask) - 1;
    Flip flip = {.low_bit = highest < TILE_BITS ? ROW_BITS : highest - (highest - ROW_BITS) % rows};
    uint64_t upper = mask >> flip.low_bit & low_bits(rows), row = mask & low_bits(ROW_BITS);
    flip.inside = (uint32_t)(upper << ROW_BITS | row);
    flip.highest = (uint32_t)1 << (bit_length(flip.inside) - 1);
    flip.outside = mask ^ upper << flip.low_bit ^ row;
    return flip;
}

void starts_append(uint32_t *starts, uint64_t *last, const uint64_t *keys, uint64_t count, uint64_t position,
                   unsigned window_shift, uint64_t first_window) {
    uint64_t before = *last;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t window = window_of(keys[i], window_shift) - first_window;
        uint32_t here = (uint32_t)(position + i), next[QUAD] = {here + 1, here + 1, here + 1, here + 1};
        for (uint64_t empty = before + 1 + QUAD; UNLIKELY(empty <= window); empty++) starts[empty] = here;
        memcpy(starts + window + 1, next, sizeof next); /* a larger gap than this is rare: no branch on its length */
        before = window;
    }
    *last = before;
}

void fold_keys(const uint64_t *keys, uint64_t count, uint32_t *folds) { kernels.fold(keys, count, folds); }

void neighbour_join_run(NeighbourJoin *join) { kernels.neighbours(join); }

void query_join_run(QueryJoin *join) { kernels.queries(join); }

void flip_join_run(FlipJoin *join) { kernels.flips(join); }
