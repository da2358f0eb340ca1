/* Joins beside a look at every pair of keys. */
#include "harness.h"

enum { TABLES = 3, MAX_FLIPS = 12 };

typedef struct {
    uint64_t first, second;
    uint8_t bits;
} Pair;

typedef struct {
    Pair *pairs;
    uint64_t count, room;
} Pairs;

static unsigned ones(uint64_t word) {
    unsigned count = 0;
    for (; word != 0; word &= word - 1) count++;
    return count;
}

static void add(Pairs *pairs, uint64_t first, uint64_t second, unsigned bits) {
    if (pairs->count == pairs->room) {
        pairs->room = 2 * pairs->room + 64;
        pairs->pairs = realloc(pairs->pairs, pairs->room * sizeof *pairs->pairs);
        if (pairs->pairs == NULL) exit(2);
    }
    pairs->pairs[pairs->count++] = (Pair){first, second, (uint8_t)bits};
}

static int pair_order(const void *a, const void *b) {
    const Pair *left = a, *right = b;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    if (left->second != right->second) return left->second < right->second ? -1 : 1;
    return (int)left->bits - (int)right->bits;
}

/* As a plan's tables are: the join is of the last one. */
typedef struct {
    Table *tables[TABLES];
    unsigned count, distance, window_bits, key_bits;
    uint64_t *keys; /* KEYS_PAD more */
    uint64_t key_count;
} Case;

/* What a join of the last table reports of two keys: it catches them, and no earlier table does. */
static int is_reported(const Case *test, uint64_t left, uint64_t right) {
    const Table *own = test->tables[test->count - 1];
    uint64_t difference = left ^ right, bits;
    unpermute_keys(&own->permutation, &difference, 1, &bits);
    if (ones(difference) > test->distance || ones(bits & own->permutation.prefix_mask) > own->flips) return 0;
    for (unsigned i = 0; i + 1 < test->count; i++)
        if (ones(bits & test->tables[i]->permutation.prefix_mask) <= test->tables[i]->flips) return 0;
    return 1;
}

static void add_expected(const Case *test, Pairs *pairs, uint64_t left, uint64_t right, int is_query) {
    uint64_t both[2] = {left, right}, fingerprints[2];
    if (!is_reported(test, left, right)) return;
    unpermute_keys(&test->tables[test->count - 1]->permutation, both, 2, fingerprints);
    const int swap = !is_query && fingerprints[1] < fingerprints[0];
    add(pairs, fingerprints[swap], fingerprints[!swap], ones(left ^ right));
}

static uint64_t window(const Case *test, uint64_t key) {
    return test->window_bits ? key >> (test->key_bits - test->window_bits) : 0;
}

static void compare(const char *what, int set, Pairs *found, Pairs *expected) {
    qsort(found->pairs, found->count, sizeof(Pair), pair_order);
    qsort(expected->pairs, expected->count, sizeof(Pair), pair_order);
    EXPECT(found->count == expected->count, "%s, set %d: %llu of %llu pairs", what, set,
           (unsigned long long)found->count, (unsigned long long)expected->count);
    for (uint64_t i = 0; i < found->count; i++)
        EXPECT(pair_order(&found->pairs[i], &expected->pairs[i]) == 0, "%s, set %d, pair %llu", what, set,
               (unsigned long long)i);
    found->count = 0;
}

static uint64_t first[JOIN_ROOM + 7], second[JOIN_ROOM + 7];
static uint8_t bits[JOIN_ROOM + 7];

static Found found_of(const Case *test, int is_query) {
    return (Found){.tables = test->tables,
                   .table = test->count - 1,
                   .distance = test->distance,
                   .is_query = is_query,
                   .first = first,
                   .second = second,
                   .bits = bits,
                   .room = JOIN_ROOM + below(8)};
}

#define JOIN(join, run, pairs)                                                                      \
    while (!(join).found.done) {                                                                    \
        (join).found.found = (join).found.work = 0;                                                 \
        run(&(join));                                                                               \
        EXPECT((join).found.found <= (join).found.room, "room");                                    \
        for (uint64_t i = 0; i < (join).found.found; i++) add(pairs, first[i], second[i], bits[i]); \
    }

static void test_neighbours(const Case *test, int set, Pairs *found, Pairs *expected) {
    uint32_t *folds = room(test->key_count + MAX_LANES + NEIGHBOUR_STEP, sizeof *folds);
    fold_keys(test->keys, test->key_count, folds);
    NeighbourJoin join = {.found = found_of(test, 0),
                          .keys = test->keys,
                          .folds = folds,
                          .count = test->key_count,
                          .window_shift = test->key_bits - test->window_bits,
                          .step = 1};
    JOIN(join, neighbour_join_run, found);
    expected->count = 0;
    for (uint64_t i = 0; i < test->key_count; i++)
        for (uint64_t j = i + 1; j < test->key_count; j++)
            if (window(test, test->keys[i]) == window(test, test->keys[j]))
                add_expected(test, expected, test->keys[i], test->keys[j], 0);
    compare("neighbours", set, found, expected);
    free(folds);
}

static void test_queries(const Case *test, int set, const uint32_t *starts, Pairs *found, Pairs *expected) {
    uint64_t queries[40], count = 1 + below(40);
    const uint64_t mask = test->window_bits ? below((uint64_t)1 << test->window_bits) : 0;
    const uint64_t flips = test->window_bits ? mask << (test->key_bits - test->window_bits) : 0;
    for (uint64_t i = 0; i < count; i++)
        queries[i] = test->keys[below(test->key_count)] ^ flips ^
                     (uint64_t)1 << below(test->key_bits < 20 ? test->key_bits : 20);
    qsort(queries, count, 8, key_order);
    QueryJoin join = {.found = found_of(test, 1),
                      .queries = queries,
                      .keys = test->keys,
                      .starts = starts,
                      .query_count = count,
                      .flips = flips,
                      .window_shift = test->key_bits - test->window_bits};
    JOIN(join, query_join_run, found);
    expected->count = 0;
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < test->key_count; j++)
            if ((window(test, queries[i]) ^ mask) == window(test, test->keys[j]))
                add_expected(test, expected, queries[i], test->keys[j], 1);
    compare("queries", set, found, expected);
}

static int flip_order(const void *a, const void *b) {
    const Flip *left = a, *right = b;
    if (left->low_bit != right->low_bit) return left->low_bit < right->low_bit ? -1 : 1;
    return (left->outside > right->outside) - (left->outside < right->outside);
}

static void test_flips(const Case *test, int set, const uint32_t *starts, Pairs *found, Pairs *expected) {
    static Tile *tiles; /* two */
    uint64_t masks[MAX_FLIPS], windows = (uint64_t)1 << test->window_bits;
    unsigned count = 0;
    Flip flips[MAX_FLIPS];
    if (windows == 1) return;
    if (tiles == NULL) tiles = aligned_alloc(64, 2 * sizeof *tiles);
    for (uint64_t asked = 1 + below(MAX_FLIPS); asked > 0; asked--) {
        const uint64_t mask =
            (uint64_t)1 << below(test->window_bits) | (below(2) ? (uint64_t)1 << below(test->window_bits) : 0);
        int is_there = 0;
        for (unsigned i = 0; i < count; i++) is_there |= masks[i] == mask;
        if (is_there) continue;
        masks[count] = mask;
        flips[count++] = flip_of(mask);
    }
    qsort(flips, count, sizeof *flips, flip_order);
    FlipJoin join = {.found = found_of(test, 0),
                     .keys = test->keys,
                     .starts = starts,
                     .flips = flips,
                     .flip_count = count,
                     .index_bits = test->window_bits > ROW_BITS ? test->window_bits : ROW_BITS,
                     .tile = tiles,
                     .partner = tiles + 1};
    JOIN(join, flip_join_run, found);
    expected->count = 0;
    for (uint64_t i = 0; i < test->key_count; i++)
        for (uint64_t j = i + 1; j < test->key_count; j++)
            for (unsigned k = 0; k < count; k++)
                if ((window(test, test->keys[i]) ^ window(test, test->keys[j])) == masks[k])
                    add_expected(test, expected, test->keys[i], test->keys[j], 0);
    compare("flips", set, found, expected);
}

/* Keys in a few windows side by side, several to each and near each other. */
static uint64_t draw_near(uint64_t *keys, uint64_t count, unsigned key_bits, unsigned window_bits) {
    uint64_t center = draw() & low_bits(key_bits);
    for (uint64_t i = 0; i < count; i++) {
        if (below(40) == 0) center = draw() & low_bits(key_bits);
        keys[i] = center;
        for (uint64_t flips = below(5); flips > 0; flips--)
            keys[i] ^= (uint64_t)1 << (below(2) ? below(key_bits) : key_bits - 1 - below(window_bits + 1));
    }
    return distinct(keys, count);
}

void test_pairs(void) {
    static Table tables[TABLES];
    const uint64_t count = 2 + below(600);
    Case test = {.count = 1 + (unsigned)below(TABLES),
                 .distance = (unsigned)below(9),
                 .key_bits = draw_bits(),
                 .window_bits = (unsigned)below(17)};
    if (test.window_bits == test.key_bits) test.window_bits--;
    Pairs found = {0}, expected = {0};
    test.keys = room(count + KEYS_PAD, 8);
    test.key_count = draw_near(test.keys, count, test.key_bits, test.window_bits);
    for (unsigned i = 0; i < test.count; i++) {
        permutation_init(&tables[i].permutation, (draw() & draw() & low_bits(test.key_bits)) | 1, test.key_bits);
        tables[i].flips = (unsigned)below(4);
        test.tables[i] = &tables[i];
    }
    const uint64_t windows = (uint64_t)1 << (test.window_bits > ROW_BITS ? test.window_bits : ROW_BITS);
    uint32_t *starts = room(windows + 1 + QUAD, sizeof *starts);
    uint64_t last = ~(uint64_t)0;
    starts_append(starts, &last, test.keys, test.key_count, 0, test.key_bits - test.window_bits, 0);
    while (++last < windows + 1) starts[last] = (uint32_t)test.key_count;
    const uint64_t state = random_state;
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        choose_all((InstructionSet)set);
        random_state = state;
        test_neighbours(&test, set, &found, &expected);
        test_queries(&test, set, starts, &found, &expected);
        test_flips(&test, set, starts, &found, &expected);
    }
    free(found.pairs);
    free(expected.pairs);
    free(starts);
    free(test.keys);
}
