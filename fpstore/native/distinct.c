/* The distinct ones of the hashes of a document, in order: first by the top bits, which leaves few out of order. */
#include "distinct.h"

static int (*few)(const uint64_t *, size_t, uint64_t *);
static size_t (*many)(const uint64_t *, size_t, uint64_t *, uint64_t *);

void distinct_choose(InstructionSet set) {
#if FPSTORE_X86
    few = set == SET_WIDE ? distinct_few_wide : NULL;
    many = set == SET_WIDE ? distinct_many_wide : NULL;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(distinct_choose)

static int compare_hashes(const void *one, const void *other) {
    const uint64_t x = *(const uint64_t *)one, y = *(const uint64_t *)other;
    return (x > y) - (x < y);
}

#define LEAST_HASH_BITS 5
#define MOST_HASH_BITS 14
#define MANY_TOGETHER 64

/* Put hashes in order that are nearly so. */
ALWAYS_INLINE void put_back(uint64_t *hashes, size_t count) {
    for (size_t i = 1; i < count; i++) {
        const uint64_t hash = hashes[i];
        size_t at = i;
        for (; at > 0 && hashes[at - 1] > hash; at--) hashes[at] = hashes[at - 1];
        hashes[at] = hash;
    }
}

void put_together_in_order(uint64_t *hashes, size_t count) {
    if (count > MANY_TOGETHER)
        qsort(hashes, count, sizeof *hashes, compare_hashes);
    else
        put_back(hashes, count);
}

size_t hashes_distinct(const uint64_t *hashes, size_t count, uint64_t *parted, uint64_t *distinct, uint32_t *counts) {
    uint32_t starts[1 << MOST_HASH_BITS], sum = 0, most = 0;
    unsigned bits = bit_length(count);
    bits = bits < LEAST_HASH_BITS ? LEAST_HASH_BITS : bits > MOST_HASH_BITS ? MOST_HASH_BITS : bits;
    const size_t buckets = (size_t)1 << bits;
    size_t found = 0;
    if (count == 0) return 0;
    if (counts == NULL && count <= DISTINCT_FEW && few != NULL && few(hashes, count, distinct)) return count;
    if (counts == NULL && count <= DISTINCT_MANY && many != NULL) return many(hashes, count, parted, distinct);
    memset(starts, 0, buckets * sizeof *starts);
    for (size_t i = 0; i < count; i++) starts[hashes[i] >> (64 - bits)]++;
    for (size_t bucket = 0; bucket < buckets; bucket++) {
        const uint32_t own = starts[bucket];
        most = own > most ? own : most;
        starts[bucket] = sum;
        sum += own;
    }
    for (size_t i = 0; i < count; i++) parted[starts[hashes[i] >> (64 - bits)]++] = hashes[i];
    /* Each start is the end of its bucket by now. */
    for (size_t bucket = 0, first = 0; most > MANY_TOGETHER && bucket < buckets; first = starts[bucket++])
        if (starts[bucket] - first > MANY_TOGETHER) put_together_in_order(parted + first, starts[bucket] - first);
    put_back(parted, count);
    if (counts == NULL) {
        for (size_t i = 0; i < count; i++) { /* without a branch */
            distinct[found] = parted[i];
            found += i + 1 == count || parted[i] != parted[i + 1];
        }
        return found;
    }
    for (size_t i = 0; i < count; i++) { /* likewise; counts: the places behind each, at first */
        distinct[found] = parted[i];
        counts[found] = (uint32_t)(i + 1);
        found += i + 1 == count || parted[i] != parted[i + 1];
    }
    for (size_t i = found; i-- > 1;) counts[i] -= counts[i - 1];
    return found;
}
