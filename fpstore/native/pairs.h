/* All pairs within a distance: joins of a sorted table with itself, or with sorted queries.

   A table catches the pairs whose prefixes differ in at most `flips` bits. Keys that share their top window_bits bits form a
   window; for each choice of flipped window bits, every window is compared with its partner, key by key. The other
   flips fall below the window and need nothing more. A pair is reported by the first table that catches it. */
#ifndef FPSTORE_PAIRS_H
#define FPSTORE_PAIRS_H

#include "view.h"

#define JOIN_WORK (1u << 22) /* comparisons of one call: a few milliseconds */

typedef struct {
    uint64_t first, second;
    uint64_t distance;
} Pair;

typedef struct {
    Table *const *tables;
    unsigned table; /* the one that the keys belong to */
    unsigned distance, window_bits;
    uint64_t flips; /* window bits in which the partners differ, in the place where a key has them */
    const uint64_t *left, *right;
    uint64_t left_count;
    const uint32_t *left_starts; /* of each window of left, and the end of the last; NULL: left are queries */
    const uint32_t *right_starts;
    uint64_t left_first, right_first, window_count; /* the first window of each; how many left has */
    Pair *out; /* room of them, or NULL to count only */
    uint64_t room, found;
    uint64_t window, i, resume; /* where the join stands: window and key of left, key of right within the window */
} Join;

/* Where each of `count` windows from first_window on starts among keys, and where the last ends. */
static void windows_find(const uint64_t *keys, uint64_t key_count, unsigned window_bits, uint64_t first_window, uint64_t count,
                         uint32_t *starts) {
    uint64_t window = 0;
    for (uint64_t i = 0; i < key_count; i++)
        for (uint64_t own = (window_bits ? keys[i] >> (64 - window_bits) : 0) - first_window; window <= own && window < count; window++)
            starts[window] = (uint32_t)i;
    for (; window <= count; window++) starts[window] = (uint32_t)key_count;
}

#define KERNEL(name) name##_portable
#define KERNEL_ONES ones_portable
#include "pairs_body.h"
#undef KERNEL
#undef KERNEL_ONES

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#define KERNEL_ONES ones_fast
#include "pairs_body.h"
#undef KERNEL
FAST_END
WIDE_BEGIN
#define KERNEL(name) name##_wide
#define KERNEL_IS_WIDE
#include "pairs_body.h"
#undef KERNEL_IS_WIDE
#undef KERNEL_ONES
#undef KERNEL
WIDE_END
#endif

typedef void (*JoinRun)(Join *);

static JoinRun join_run = join_run_portable;

static void join_choose(int fast) {
#if FPSTORE_X86
    join_run = fast ? (fpstore_is_wide() ? join_run_wide : join_run_fast) : join_run_portable;
#else
    (void)fast;
#endif
}

#endif
