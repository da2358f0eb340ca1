/* What two lists of hashes have in common by every instruction set beside the C library's sorting: in whatever order
   they are, however often a hash comes, and nothing but them is read. */
#include "harness.h"

#include "listed.h"

#include <sys/mman.h>

enum { GUARD = 1 << 16 }; /* a page or several */

static uint64_t pages_of(uint64_t count) { return (count * 8 + GUARD - 1) / GUARD * GUARD; }

/* Lists that end where nothing may be read: the sanitizers do not see what masked loads read. */
static Shingles list_of(uint64_t count) {
    const uint64_t bytes = pages_of(count);
    uint8_t *made = mmap(NULL, bytes + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || mprotect(made + bytes, GUARD, PROT_NONE) != 0) exit(2);
    return (Shingles){(uint64_t *)(made + bytes) - count, NULL, count};
}

static void list_free(Shingles *list) {
    const uint64_t bytes = pages_of(list->count);
    munmap((uint8_t *)(list->hashes + list->count) - bytes, bytes + GUARD);
}

static Shingles drawn(uint64_t count, uint64_t different) {
    Shingles list = list_of(count);
    for (uint64_t i = 0; i < count; i++) ((uint64_t *)list.hashes)[i] = below(different) * UINT64_C(0x9E3779B97F4A7C15);
    return list;
}

static Shingles joined(const Shingles *first, const Shingles *middle, const Shingles *last) {
    Shingles list = list_of(first->count + middle->count + last->count);
    uint64_t *out = (uint64_t *)list.hashes;
    memcpy(out, first->hashes, first->count * 8);
    memcpy(out + first->count, middle->hashes, middle->count * 8);
    memcpy(out + first->count + middle->count, last->hashes, last->count * 8);
    return list;
}

/* How many distinct hashes one of two lists has. */
static uint64_t of_either(const Shingles *one, const Shingles *other) {
    const Shingles none = {one->hashes, NULL, 0};
    Shingles both = joined(one, other, &none);
    const uint64_t count = distinct((uint64_t *)both.hashes, both.count);
    list_free(&both);
    return count;
}

void test_listed(void) {
    const uint64_t different = 1 + below(below(2) ? 30 : 3000), most = 1 + below(below(2) ? 40 : 700);
    Shingles head = drawn(below(most), different), tail = drawn(below(most), different);
    Shingles own = drawn(below(20), different), others = drawn(below(20), different);
    Shingles one = joined(&head, &own, &tail), other = joined(&head, &others, &tail);
    const uint64_t either = of_either(&one, &other);
    const uint64_t both = of_either(&one, &one) + of_either(&other, &other) - either;
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        Listed listed = {.secret = draw() | 1, .room = listed_room(one.count > other.count ? one.count : other.count)};
        uint64_t found, of_one;
        listed.cells = room(listed.room, sizeof *listed.cells);
        listed.bits = room(listed.room / 4, 8);
        listed_choose((InstructionSet)set);
        for (int again = 0; again < 2; again++) {
            listed_compare(&listed, &one, &other, 0, 1, &found, &of_one);
            EXPECT(found == both && of_one == either, "set %d: %llu of %llu, expected %llu of %llu", set,
                   (unsigned long long)found, (unsigned long long)of_one, (unsigned long long)both,
                   (unsigned long long)either);
            EXPECT(listed_apart(&listed, &one, &own, &others, &found, &of_one), "set %d: not told of few", set);
            EXPECT(found == both && of_one == either, "set %d, replaced: %llu of %llu, expected %llu of %llu", set,
                   (unsigned long long)found, (unsigned long long)of_one, (unsigned long long)both,
                   (unsigned long long)either);
            listed.document = NULL;
        }
        free(listed.cells);
        free(listed.bits);
    }
    listed_choose(machine_set);
    list_free(&head);
    list_free(&tail);
    list_free(&own);
    list_free(&others);
    list_free(&one);
    list_free(&other);
}
