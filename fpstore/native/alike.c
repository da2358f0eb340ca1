/* Two increasing runs of hashes, walked together without a branch on the data. */
#include "alike.h"

typedef unsigned __int128 Product;

static Walk (*walk)(const Shingles *, const Shingles *);

void alike_choose(InstructionSet set) {
#if FPSTORE_X86
    walk = set == SET_WIDE ? common_walk_wide : NULL;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(alike_choose)

void common_counts(const Shingles *document, const Shingles *others, uint64_t count, uint64_t *counts) {
    for (uint64_t which = 0; which < count; which++) {
        const Shingles *other = &others[which];
        const Walk begun = walk == NULL ? (Walk){0, 0, 0} : walk(document, other);
        uint64_t i = begun.one, j = begun.other, common = begun.common;
        while (i < document->count && j < other->count) {
            const uint64_t x = document->hashes[i], y = other->hashes[j];
            common += x == y;
            i += x <= y;
            j += y <= x;
        }
        counts[which] = common;
    }
}

ALWAYS_INLINE uint64_t units(double weight) { return (uint64_t)(weight * ALIKE_WEIGHT_ONE); }

void common_products(const Shingles *document, const Shingles *others, uint64_t count, uint64_t *highs,
                     uint64_t *lows) {
    for (uint64_t which = 0; which < count; which++) {
        const Shingles *other = &others[which];
        uint64_t i = 0, j = 0;
        Product sum = 0;
        while (i < document->count && j < other->count) {
            const uint64_t x = document->hashes[i], y = other->hashes[j];
            if (x == y) sum += (Product)units(document->weights[i]) * units(other->weights[j]);
            i += x <= y;
            j += y <= x;
        }
        highs[which] = (uint64_t)(sum >> 64);
        lows[which] = (uint64_t)sum;
    }
}
