/* All pairs within a distance: joins of a sorted table with itself, or with sorted queries.

   A table catches the pairs whose prefixes differ in at most `flips` bits. Keys that share their top window_bits bits
   form a window: neighbours are compared within their window, and for each choice of flipped window bits every window
   is compared with its partner. The other flips fall below the window and need nothing more. A pair is reported by the
   first table that catches it.

   What is compared first is the fold of a key, its upper half XOR its lower: folds are no farther apart than keys are,
   seldom near when keys are not, and twice as many of them lie side by side. */
#ifndef FPSTORE_PAIRS_H
#define FPSTORE_PAIRS_H

#include "view.h"

enum {
    MAX_LANES = 16,     /* folds compared at once, where the registers are as wide */
    QUAD = 4,           /* keys of a window that have a place of their own in a tile */
    NEIGHBOUR_STEP = 8, /* how many next neighbours are compared before looking whether the window goes on */
    EACH_STEPS = 2 * NEIGHBOUR_STEP, /* how many it is for each key; those behind meet a vector of keys at once */
    JOIN_ROOM = 128, /* the most pairs found between two looks at the room that is left: NEIGHBOUR_STEP * MAX_LANES */
    JOIN_WORK = 1 << 20, /* comparisons of lanes in one call: a few milliseconds */
    KEYS_PAD = 16,       /* keys that may be read after the last */
    ROW_BITS = 6,        /* windows in a row of a tile */
    TILE_BITS = 14,      /* windows of a tile: 256 KiB of folds, which the second-level cache holds twice */
    TILE_WINDOWS = 1 << TILE_BITS
};

ALWAYS_INLINE uint32_t fold(uint64_t key) { return (uint32_t)(key ^ key >> 32); }

/* The window of a key: its top window_bits bits. shift, 1..64: how many it has below them. */
ALWAYS_INLINE uint64_t window_of(uint64_t key, unsigned shift) { return key >> 1 >> (shift - 1); }

/* What every join has: whose keys they are, what is near, and where the pairs go. */
typedef struct {
    Table *const *tables;
    unsigned table; /* the one that the keys belong to */
    unsigned distance;
    int is_query;             /* the left keys are queries and come first, not the smaller ones */
    uint64_t *first, *second; /* room of each; NULL to count only */
    uint8_t *bits;            /* in which they differ */
    uint64_t room, found;     /* room is JOIN_ROOM or more */
    uint64_t work;
    int done;
    int repeated; /* whether two keys were equal */
} Found;

/* Pairs of keys of one window, which may be in any order in it. */
typedef struct {
    Found found;
    const uint64_t *keys;  /* count */
    const uint32_t *folds; /* of keys, and MAX_LANES + NEIGHBOUR_STEP more */
    uint64_t count;
    unsigned window_shift; /* of window_of() */
    /* Where the join stands: the first of the keys compared, how far behind them the next partner is. */
    uint64_t i, step;
    uint64_t near; /* pairs that were looked at one by one, as their folds are near */
} NeighbourJoin;

/* Queries with the keys of the windows that differ from their own by `flips`. */
typedef struct {
    Found found;
    const uint64_t *queries; /* query_count, of windows first_window on when flipped */
    const uint64_t *keys;    /* of the windows; KEYS_PAD more */
    const uint32_t *starts;
    uint64_t query_count, first_window, flips;
    unsigned window_shift; /* of window_of() */
    uint64_t i, place;     /* where the join stands: the query, the key in its window */
} QueryJoin;

/* One example of what follows, as AVX2 does it (8 lanes: the quads of two windows). Rows are drawn with 4 windows,
   not 64.

   Tiles. The flip is of one bit inside a tile (its row, or the place in the row) and one outside:

       tile at base                            partner tile at base ^ outside
       row 0  [quad][quad][quad][quad]         row 0  [quad][quad][quad][quad]
       row 1  [quad][ W  ][quad][quad]         row 1  [quad][quad][quad][ P  ]     P's place = W's place ^ inside

   W and P are partners: their windows' numbers differ by the flip. Without a bit outside, both lie in one tile, and the
   one of the two that lacks the highest flipped bit looks for the other, so that a pair is met once.

   Turns. A quad is the folds of the first four keys of a window. All four of W must meet all four of P, so W's vector
   is turned within its quads, and each turn is compared with P's:

       turn 0   w0 w1 w2 w3 | v0 v1 v2 v3      V is the window beside W
       turn 1   w1 w2 w3 w0 | v1 v2 v3 v0
       turn 2   w2 w3 w0 w1 | v2 v3 v0 v1
       turn 3   w3 w0 w1 w2 | v3 v0 v1 v2
       partners p0 p1 p2 p3 | q0 q1 q2 q3      near in turn 1, lane 2: key (2 + 1) % 4 = 3 of W with key 2 of P

   A window of two keys has the quad [w0 w1 x x], where x is the fold of a key behind it XOR a pad: most likely far from
   all, and where it is near, add_places() sees that the window has no such key.

   Crowded quads. A window of six keys has w0..w3 in the tile, and w4 w5 only among the keys:

       w0..w3 with p0..p3               join_quads(), as for every window
       w4 w5  with p0..p3               join_crowded_quad(): w4 w5 in all lanes, the first quads of two flips' partners
       w0..w3 with p4 p5                the same from P, where P is crowded too
       w4 w5  with p4 p5                join_crowded_quad(), P's further keys, from the one without the highest bit */

/* Windows whose indexes differ in ROW_BITS low bits and some from low_bit on: the first QUAD folds of each. Where a
   window has fewer keys, folds of the keys behind it fill its place, XOR a pad, lest they be near themselves as keys of
   their own window, or as the filling of a partner: which, where one bit is flipped, has the other pad. */
#define EVEN_PAD 0x55555555u
#define ODD_PAD 0xAAAAAAAAu
#define ODD_ONES 0x6996966996696996u /* bit i: whether the ones of i are odd in number */
typedef struct {
    uint32_t folds[TILE_WINDOWS * QUAD];
    uint64_t crowded[TILE_WINDOWS >> ROW_BITS]; /* a bit for each window of more than QUAD keys */
} Tile;

/* Partners of windows: those whose index differs by this. */
typedef struct {
    uint32_t inside;  /* the part within a tile, as the tile numbers its windows */
    uint32_t highest; /* the highest bit of it: of two partners, the one that has it not looks for the other */
    uint64_t outside;
    unsigned low_bit;
} Flip;

/* Pairs of keys whose windows differ by one of the flips. */
typedef struct {
    Found found;
    const uint64_t *keys;   /* of the windows; KEYS_PAD more */
    const uint32_t *starts; /* of each window, and the end of the last */
    unsigned index_bits;    /* of a window's index: ROW_BITS or more */
    const Flip *flips;      /* those with the same tiles side by side */
    unsigned flip_count;
    Tile *tile, *partner;
    /* Where the join stands: flips [group, group_end) share tiles; the number of the tile; what is under way in it. */
    unsigned group, group_end;
    uint64_t tile_number;
    enum { TILE_LOAD, TILE_QUADS, TILE_CROWDED } stage;
    unsigned flip; /* quads: the flip; crowded: the step, some of several flips each, then one of each flip */
    uint64_t at;   /* quads: vectors done; crowded: the window in the tile */
    uint64_t place, partner_place;
} FlipJoin;

/* How many bits number the rows of the tile under way. */
ALWAYS_INLINE unsigned tile_row_bits(const FlipJoin *join) {
    unsigned left = join->index_bits - join->flips[join->group].low_bit;
    return left < TILE_BITS - ROW_BITS ? left : TILE_BITS - ROW_BITS;
}

/* The window with which a tile begins: the bits of its number are those that are the same in the whole tile. */
ALWAYS_INLINE uint64_t tile_base(const FlipJoin *join) {
    unsigned low_bit = join->flips[join->group].low_bit;
    uint64_t low = join->tile_number & low_bits(low_bit - ROW_BITS), high = join->tile_number >> (low_bit - ROW_BITS);
    return low << ROW_BITS | high << (low_bit + tile_row_bits(join));
}

/* The index of a tile's window. */
ALWAYS_INLINE uint64_t tile_window(uint64_t base, unsigned low_bit, uint64_t at) {
    return (base + ((at >> ROW_BITS) << low_bit)) | (at & low_bits(ROW_BITS));
}

Flip flip_of(uint64_t mask);

/* Continue the starts of windows with those of `count` keys, the first of which has `position`. *last: the window of
   the key before; starts[*last + 1 .. *last + QUAD] hold `position`. */
void starts_append(uint32_t *starts, uint64_t *last, const uint64_t *keys, uint64_t count, uint64_t position,
                   unsigned window_shift, uint64_t first_window);

void fold_keys(const uint64_t *keys, uint64_t count, uint32_t *folds);

/* Go on with a join until it is done, its room is filled, or it has done JOIN_WORK. */
void neighbour_join_run(NeighbourJoin *join);
void query_join_run(QueryJoin *join);
void flip_join_run(FlipJoin *join);

void join_choose(InstructionSet set);

#define JOIN_KERNELS(set)                                         \
    void fold_keys_##set(const uint64_t *, uint64_t, uint32_t *); \
    void neighbour_join_run_##set(NeighbourJoin *);               \
    void query_join_run_##set(QueryJoin *);                       \
    void flip_join_run_##set(FlipJoin *);
JOIN_KERNELS(portable)
JOIN_KERNELS(fast)
JOIN_KERNELS(wide)
#undef JOIN_KERNELS

#endif
