/* Sorting by every instruction set beside the C library's, and merging what was sorted. */
#include "harness.h"

#include "merge.h"
#include "sort.h"

/* The room behind the output is the input's own: what lies behind that must stay. */
static void compare(const uint64_t *found, uint64_t found_count, const uint64_t *expected, uint64_t count, int set) {
    EXPECT(found_count == count, "set %d: %llu of %llu keys", set, (unsigned long long)found_count,
           (unsigned long long)count);
    EXPECT(memcmp(found, expected, count * 8) == 0, "set %d: other keys", set);
}

/* Keys dealt out to two runs, some to both, and merged again. */
static void merge_halves(const uint64_t *keys, uint64_t count, uint64_t *own, int set) {
    uint64_t *dealt[2] = {room(count, 8), room(count, 8)};
    Items runs[2] = {{dealt[0], NULL, 0}, {dealt[1], NULL, 0}};
    const uint64_t of_second = 1 + below(20), stretch = 1 + below(40), of_both = 1 + below(30);
    for (uint64_t i = 0; i < count; i++) {
        const unsigned run = i / stretch % of_second == 0;
        dealt[run][runs[run].count++] = keys[i];
        if (i % of_both == 0) dealt[!run][runs[!run].count++] = keys[i];
    }
    compare(own, merge_keys(&runs[0], &runs[1], own), keys, count, set);
    free(dealt[0]);
    free(dealt[1]);
}

/* Keys dealt out to runs, some to several, and gathered by windows. */
static void gather_dealt(const uint64_t *keys, uint64_t count, int set) {
    enum { RUNS = 5 };
    uint64_t *dealt[RUNS], *found, *sorted, total = 0, at = 0;
    Items runs[RUNS];
    const unsigned width = (unsigned)below(65);
    const uint64_t of_several = 1 + below(30), stretch = 1 + below(40), used = 1 + below(RUNS);
    uint64_t run_count = 0;
    for (unsigned run = 0; run < used; run++) {
        dealt[run] = room(count, 8);
        uint64_t own = 0;
        for (uint64_t i = 0; i < count; i++)
            if (i / stretch % used == run || i % of_several == run) dealt[run][own++] = keys[i];
        if (own > 0) runs[run_count++] = (Items){dealt[run], NULL, own};
        total += own;
    }
    found = room(total + GATHER_PAD, 8);
    sorted = room(total, 8);
    for (unsigned run = 0; run < run_count; run++) {
        memcpy(sorted + at, runs[run].keys, runs[run].count * 8);
        at += runs[run].count;
    }
    qsort(sorted, total, 8, key_order);
    gather_all(runs, run_count, width, found);
    for (uint64_t i = 0; i < total; i++)
        EXPECT((found[i] | low_bits(width)) == (sorted[i] | low_bits(width)), "set %d: a key of another window", set);
    qsort(found, total, 8, key_order);
    compare(found, total, sorted, total, set);
    for (unsigned run = 0; run < used; run++) free(dealt[run]);
    free(found);
    free(sorted);
}

void test_sort(void) {
    const uint64_t most = 1 + below(below(3) ? 3000 : 90), repeats = 1 + below(3);
    uint64_t *expected = room(most, 8), *keys = room(repeats * most, 8), *own = room((1 + repeats) * most + 1, 8);
    uint64_t *permuted = room(most, 8);
    const unsigned key_bits = draw_bits();
    uint64_t held = draw_keys((int)below(KINDS), expected, most, key_bits), count = held * repeats;
    const uint64_t mask = draw() & draw() & low_bits(key_bits);
    Permutation permutation;
    SortRoom *scratch = room(1, sizeof *scratch);
    scratch->room_keys = 64 + below(2000); /* smaller and larger than what is sorted */
    scratch->keys = room(scratch->room_keys, 8);
    permutation_init(&permutation, mask, key_bits);
    for (uint64_t i = 0; i < count; i++) keys[i] = expected[i % held];
    if (below(4)) /* else in order, again and again */
        for (uint64_t i = count; i > 1; i--) {
            const uint64_t other = below(i), key = keys[i - 1];
            keys[i - 1] = keys[other];
            keys[other] = key;
        }
    permute_keys(&permutation, expected, held, permuted);
    qsort(permuted, held, 8, key_order);
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        SortedOut out = {own, 0};
        sort_choose((InstructionSet)set);
        merge_choose((InstructionSet)set);
        memcpy(own, keys, count * 8);
        own[count] = 0x5EA1;
        sort_range(own, count, 64, scratch, &out);
        compare(own, out.count, expected, held, set);
        EXPECT(own[count] == 0x5EA1, "set %d: written past the keys", set);
        compare(own, sort_permuted(&permutation, keys, count, own, scratch), permuted, held, set);
        EXPECT(own[count] == 0x5EA1, "set %d: permuted past the keys", set);
        own[2 * held] = 0x5EA1;
        merge_halves(expected, held, own, set);
        EXPECT(own[2 * held] == 0x5EA1, "set %d: merged past the keys of both runs", set);
        gather_dealt(expected, held, set);
    }
    free(expected);
    free(keys);
    free(own);
    free(permuted);
    free(scratch->keys);
    free(scratch);
}
