/* The distinct ones of hashes by every instruction set beside the C library's sorting: however many there are, wherever
   they crowd and however often they come, and nothing but them is read or written. */
#include "harness.h"

#include "distinct.h"

#define BEHIND 0x5EA1

enum { EVENLY, SOME_TWICE, FEW, CROWDED_AT_TOP, LOW, OF_THE_GREATEST, WAYS };

/* Hashes in memory of just their size, so that the sanitizers see what is read behind them. */
static uint64_t *draw_hashes(uint64_t count) {
    uint64_t *hashes = malloc(count ? count * 8 : 1);
    const uint64_t way = below(WAYS), few = 1 + below(60), top = draw() & top_bits(40);
    if (hashes == NULL) exit(2);
    for (uint64_t i = 0; i < count; i++) {
        hashes[i] = draw();
        if (way == SOME_TWICE && i > 0 && below(5) == 0) hashes[i] = hashes[below(i)];
        if (way == FEW && i >= few) hashes[i] = hashes[below(few)];
        if (way == CROWDED_AT_TOP && below(3)) hashes[i] = top | hashes[i] >> (40 + below(24));
        if (way == LOW) hashes[i] %= 4 * count;
        if (way == OF_THE_GREATEST) hashes[i] = ~(hashes[i] % 3);
    }
    return hashes;
}

void test_distinct(void) {
    const uint64_t most = below(4) ? 200 : 5000, count = below(100) == 0 ? DISTINCT_MANY + 1 - below(3) : below(most);
    uint64_t *hashes = draw_hashes(count), *expected = room(count, 8), *found = room(count, 8);
    uint64_t *parted = room(count, 8);
    uint32_t *times = room(count, 4);
    memcpy(expected, hashes, count * 8);
    const uint64_t held = distinct(expected, count);
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        distinct_choose((InstructionSet)set);
        for (int way = 0; way < 3; way++) { /* to another place; to the same; with counts */
            if (way == 1) memcpy(found, hashes, count * 8);
            parted[count] = found[count] = BEHIND;
            times[count] = BEHIND;
            const size_t own =
                hashes_distinct(way == 1 ? found : hashes, count, parted, found, way == 2 ? times : NULL);
            EXPECT(own == held, "set %d, way %d: %llu of %llu hashes", set, way, (unsigned long long)own,
                   (unsigned long long)held);
            EXPECT(memcmp(found, expected, held * 8) == 0, "set %d, way %d: other hashes", set, way);
            EXPECT(parted[count] == BEHIND && found[count] == BEHIND && times[count] == BEHIND,
                   "set %d, way %d: written past the hashes", set, way);
            uint64_t sum = 0;
            for (uint64_t i = 0; way == 2 && i < held; i++) sum += times[i];
            EXPECT(way != 2 || sum == count, "set %d: counted %llu", set, (unsigned long long)sum);
        }
    }
    free(hashes);
    free(expected);
    free(found);
    free(parted);
    free(times);
}
