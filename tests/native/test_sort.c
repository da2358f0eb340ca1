/* Sorting by every instruction set beside the C library's. */
#include "harness.h"

#include "sort.h"

/* The room behind the output is the input's own: what lies behind that must stay. */
static void compare(const uint64_t *found, uint64_t found_count, const uint64_t *expected, uint64_t count, int set) {
    EXPECT(found_count == count, "set %d: %llu of %llu keys", set, (unsigned long long)found_count,
           (unsigned long long)count);
    EXPECT(memcmp(found, expected, count * 8) == 0, "set %d: other keys", set);
}

void test_sort(void) {
    const uint64_t most = 1 + below(below(3) ? 3000 : 90), repeats = 1 + below(3);
    uint64_t *expected = room(most, 8), *keys = room(repeats * most, 8), *own = room(repeats * most + 1, 8);
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
        memcpy(own, keys, count * 8);
        own[count] = 0x5EA1;
        sort_range(own, count, 64, scratch, &out);
        compare(own, out.count, expected, held, set);
        EXPECT(own[count] == 0x5EA1, "set %d: written past the keys", set);
        compare(own, sort_permuted(&permutation, keys, count, own, scratch), permuted, held, set);
        EXPECT(own[count] == 0x5EA1, "set %d: permuted past the keys", set);
    }
    free(expected);
    free(keys);
    free(own);
    free(permuted);
    free(scratch->keys);
    free(scratch);
}
