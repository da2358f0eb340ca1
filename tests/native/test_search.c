/* Searches and scans beside a look at every key. */
#include "harness.h"

enum { TABLES = 3, MAX_QUERIES = 24 };

static unsigned ones(uint64_t word) {
    unsigned count = 0;
    for (; word != 0; word &= word - 1) count++;
    return count;
}

/* Whether a table's probe catches a difference. */
static int is_caught(const Image *images, unsigned count, uint64_t difference) {
    for (unsigned i = 0; i < count; i++)
        if (ones(difference & images[i].table.permutation.prefix_mask) <= images[i].table.flips) return 1;
    return 0;
}

static void compare(Search *search, const Match *expected, uint64_t expected_count, int set) {
    EXPECT(search->match_count == expected_count, "set %d: %llu of %llu matches", set,
           (unsigned long long)search->match_count, (unsigned long long)expected_count);
    qsort(search->matches, search->match_count, sizeof(Match), match_order);
    for (uint64_t i = 0; i < expected_count; i++)
        EXPECT(match_order(&search->matches[i], &expected[i]) == 0, "set %d, match %llu", set, (unsigned long long)i);
}

/* All keys of table 0 in ranges of whole groups: every one within the distance, whether the table catches it or not. */
static void expect_scan(Pages *pages, Table **tables, const uint64_t *queries, uint64_t query_count,
                        const uint64_t *fingerprints, uint64_t held, unsigned distance, int set) {
    const uint64_t slots = (uint64_t)1 << tables[0]->slot_bits, step = GROUP_SLOTS * (1 + below(4));
    uint64_t *permuted = room(query_count, 8), *limits = room(query_count, 8), *keys = room(CHUNK_ROOM, 8), near = 0;
    Chunk *chunk = room(1, sizeof *chunk);
    Search search;
    search_init(&search, pages, tables, 1, distance, query_count);
    Scan scan = {&search, permuted, limits, query_count, 0};
    permute_keys(&tables[0]->permutation, queries, query_count, permuted);
    for (uint64_t i = 0; i < query_count; i++) limits[i] = distance;
    chunk_code_init(&chunk->code, tables[0]->decode);
    for (uint64_t first = 0; first < slots; first += step) {
        const uint64_t end = first + step < slots ? first + step : slots;
        EXPECT(scan_slots(&scan, first, end, chunk, keys) == OK, "set %d, slot %llu", set, (unsigned long long)first);
    }
    scan_end(&search);
    EXPECT(scan.key_count == held, "set %d: %llu keys", set, (unsigned long long)scan.key_count);
    for (uint64_t i = 0; i < query_count; i++)
        for (uint64_t j = 0; j < held; j++) near += ones(queries[i] ^ fingerprints[j]) <= distance;
    EXPECT(search.match_count == near, "set %d: %llu of %llu", set, (unsigned long long)search.match_count,
           (unsigned long long)near);
    for (uint64_t i = 0; i < search.match_count; i++) {
        const Match *match = &search.matches[i];
        EXPECT(i == 0 || match_order(&search.matches[i - 1], match) < 0, "set %d, match %llu", set,
               (unsigned long long)i);
        EXPECT(ones(match->fingerprint ^ queries[match->query]) == match->distance, "set %d", set);
    }
    free(search.matches);
    free(chunk);
    free(keys);
    free(limits);
    free(permuted);
}

void test_search(void) {
    const uint64_t count = 1 + below(below(3) ? 2500 : 60), query_count = 1 + below(MAX_QUERIES);
    uint64_t *fingerprints = room(count, 8), *keys = room(count, 8), queries[MAX_QUERIES], matches = 0;
    const unsigned key_bits = draw_bits();
    const uint64_t held = draw_keys((int)below(KINDS), fingerprints, count, key_bits);
    const unsigned distance = (unsigned)below(7), table_count = 1 + (unsigned)below(TABLES);
    const int codec = (int)below(4);
    const unsigned block_bytes = draw_block_bytes(); /* of all tables of a segment the same */
    Match *expected = room(held * query_count, sizeof *expected);
    Image images[TABLES];
    Table *tables[TABLES];
    uint8_t *file[TABLES];
    uint16_t *traces[TABLES] = {NULL};
    uint32_t *starts[TABLES] = {NULL};
    const uint64_t notes = below(2);
    choose_all(SET_PORTABLE);
    for (unsigned i = 0; i < table_count; i++) {
        Permutation permutation;
        uint64_t mask = draw() & draw() & draw() & low_bits(key_bits);
        if (mask == 0) mask = 1;
        permutation_init(&permutation, mask, key_bits);
        permute_keys(&permutation, fingerprints, held, keys);
        qsort(keys, held, 8, key_order);
        may_be_alike = i > 0;
        image_make(&images[i], keys, held, key_bits, codec, (unsigned)below(9), block_bytes, mask, (unsigned)below(3));
        file[i] = images[i].bytes;
        if (notes && block_bytes == 0 && images[i].table.slot_bits <= permutation.prefix_bits) {
            const uint64_t slots = (uint64_t)1 << images[i].table.slot_bits, some = below(held + 1);
            uint64_t last = 0;
            traces[i] = room(held + 1, 2), starts[i] = room(slots + 1, 4);
            EXPECT(traces_note(&images[i].table, keys, some, 0, &last, traces[i], starts[i]) &&
                       traces_note(&images[i].table, keys + some, held - some, some, &last, traces[i], starts[i]),
                   "keys in no order");
            for (uint64_t slot = 0; slot < slots; slot++) starts[i][slot + 1] += starts[i][slot];
            images[i].table.traces = (Traces){traces[i], starts[i]};
        }
    }
    may_be_alike = 0;
    /* One mapping for all tables, as in a segment: their offsets are moved behind each other. */
    uint64_t size = 0, at = 0;
    for (unsigned i = 0; i < table_count; i++) size += (images[i].size + 63) / 64 * 64;
    uint8_t *bytes = room(size + FOOTER_BYTES, 1);
    Pages pages = {.base = bytes, .checked_bytes = size, .pages = size / PAGE_BYTES + 1};
    pages.seen = room(pages.pages / 64 + 1, 8);
    memset(pages.seen, 0xFF, (pages.pages / 64 + 1) * 8);
    for (unsigned i = 0; i < table_count; i++) {
        Table *table = tables[i] = &images[i].table;
        memcpy(bytes + at, file[i], images[i].size);
        table->payload_offset += at;
        table->directory_offset += at;
        table->fences_offset += at;
        at += (images[i].size + 63) / 64 * 64;
    }
    tables_share_codes(tables, table_count);
    for (uint64_t i = 0; i < query_count; i++) {
        queries[i] = below(4) ? fingerprints[below(held)] : draw() & low_bits(key_bits);
        for (uint64_t flips = below(6); flips > 0; flips--) queries[i] ^= (uint64_t)1 << below(key_bits);
        for (uint64_t j = 0; j < held; j++) {
            const uint64_t difference = queries[i] ^ fingerprints[j];
            if (ones(difference) <= distance && is_caught(images, table_count, difference))
                expected[matches++] = (Match){fingerprints[j], (uint32_t)i, ones(difference)};
        }
    }
    qsort(expected, matches, sizeof *expected, match_order);
    for (int set = SET_PORTABLE; set <= (int)machine_set; set++) {
        Search search = {.pages = &pages,
                         .tables = tables,
                         .table_count = table_count,
                         .own_tables = table_count,
                         .distance = distance,
                         .match_limit = held * query_count};
        uint64_t near = 0;
        choose_all((InstructionSet)set);
        EXPECT(search_run(&search, queries, query_count, 0) == OK, "set %d", set);
        compare(&search, expected, matches, set);
        free(search.matches);
        for (uint64_t j = 0; j < held; j++) near += ones(fingerprints[j] ^ queries[0]) <= distance;
        EXPECT(scan_keys(fingerprints, held, queries[0], distance) == near, "set %d", set);
        expect_scan(&pages, tables, queries, query_count, fingerprints, held, distance * 3, set);
    }
    for (unsigned i = 0; i < table_count; i++) image_free(&images[i]), free(traces[i]), free(starts[i]);
    free(bytes);
    free(pages.seen);
    free(expected);
    free(keys);
    free(fingerprints);
}
