/* All pairs within a distance: joins of a sorted table with itself.

   A table catches the pairs whose prefixes differ in at most `flips` bits. Keys that share their top window_bits bits form a
   window; for each choice of flipped window bits, every window is compared with its partner, key by key. The other
   flips fall below the window and need nothing more. A pair is reported by the first table that catches it. */
#ifndef FPSTORE_PAIRS_H
#define FPSTORE_PAIRS_H

#include "view.h"

#define JOIN_WORK (1u << 22) /* comparisons of one call: a few milliseconds */
#define JOIN_STEP 256

typedef struct {
    uint64_t first, second;
    uint64_t distance;
} Pair;

typedef struct {
    Table *const *tables;
    unsigned table; /* the one that the keys belong to */
    unsigned distance, window_bits;
    uint64_t flips; /* window bits in which the partners differ */
    const uint64_t *left, *right;
    uint64_t left_count, right_count;
    int same; /* left is right */
    Pair *out; /* room of them, or NULL to count only */
    uint64_t room, found;
    uint64_t i, j, resume; /* where the join stands */
} Join;

#define KERNEL(name) name##_portable
#include "pairs_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#define KERNEL_IS_FAST
#include "pairs_body.h"
#undef KERNEL_IS_FAST
#undef KERNEL
FAST_END
#endif

typedef void (*JoinRun)(Join *);

static JoinRun join_run = join_run_portable;

static void join_choose(int fast) {
#if FPSTORE_X86
    join_run = fast ? join_run_fast : join_run_portable;
#else
    (void)fast;
#endif
}

#endif
