/* Everything that the compiled core does with a segment file, once for an input. Compiled with coverage; see driver.c.

   What the sanitizers do not see is held against what the kernels promise: keys increase, ids lie in their region, and the
   portable kernels do exactly what the fast ones do. */
#include "image.h"
#include "pairs.h"
#include "search.h"

#include "harness.h"

#define MOST_JOINED 160 /* keys of a table whose pairs are looked for: each is compared with each */
#define JOIN_ROOM 5
#define WALK_ROOM 70 /* more than a word of groups */
#define JOIN_WINDOW_BITS 4

static Image image;
static CursorScratch *scratch;
static uint64_t *decoded;
static uint64_t joined[MOST_JOINED], digest;
static int sound;

static void note(uint64_t value) { digest = (digest ^ value) * 0x9e3779b97f4a7c15 + (digest >> 29); }

static void note_status(Status status) {
    note(status);
    sound &= status == OK;
}

static void expect(int held, const char *promise) {
    if (!held) harness_failed(promise);
}

/* Decode a table; its keys in joined[] and how many, where the table is sound and has few. */
static uint64_t decode_table(unsigned index, unsigned streams) {
    const Table *table = image.tables[index];
    Cursor cursor = {.end_slot = (uint64_t)1 << table->slot_bits, .streams = streams, .scratch = scratch};
    uint64_t total = 0, count, last = 0;
    memcpy(scratch->decode, table->decode, sizeof scratch->decode);
    for (;;) {
        count = 0;
        Status status = cursor_decode(&image.pages, table, &cursor, decoded, DECODE_STREAMS * RUN_KEYS, &count);
        if (status != OK) {
            note_status(status);
            note(cursor.slot);
            return 0;
        }
        if (count == 0) break;
        for (uint64_t i = 0; i < count; i++, total++) {
            expect(total == 0 || decoded[i] > last, "the keys of a table increase");
            last = decoded[i];
            if (total < MOST_JOINED) joined[total] = last;
            note(last);
        }
    }
    return total <= MOST_JOINED ? total : 0;
}

static uint64_t digest_of_pairs(const Pair *pairs, uint64_t count) { /* in any order */
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += (pairs[i].first * 0x9e3779b97f4a7c15 ^ pairs[i].second) * 0xff51afd7ed558ccd + pairs[i].distance;
    return sum;
}

/* All pairs of a table's keys, then the queries against them, through a small output. */
static void join_table(unsigned index, uint64_t count) {
    const Table *table = image.tables[index];
    unsigned window_bits = (unsigned)clamp(table->permutation.prefix_bits, 0, JOIN_WINDOW_BITS);
    uint32_t *starts = calloc(((size_t)1 << window_bits) + 1, sizeof *starts);
    uint64_t *keys = malloc(count * 8 + 1), queries[QUERIES], sum = 0;
    Pair *pairs = malloc(JOIN_ROOM * sizeof *pairs);
    memcpy(keys, joined, count * 8);
    windows_find(keys, count, window_bits, 0, (uint64_t)1 << window_bits, starts);
    permute_keys(&table->permutation, image.queries, QUERIES, queries);
    for (unsigned flipped = 0; flipped <= window_bits && flipped <= table->flips; flipped++)
        for (unsigned with_queries = 0; with_queries <= 1; with_queries++) {
            Join join = {.tables = image.tables, .table = index, .distance = image.distance, .window_bits = window_bits,
                         .left = with_queries ? queries : keys, .right = keys, .right_starts = starts,
                         .left_count = with_queries ? QUERIES : count, .left_starts = with_queries ? NULL : starts,
                         .window_count = (uint64_t)1 << window_bits, .out = pairs, .room = JOIN_ROOM};
            join.flips = flipped ? (uint64_t)1 << (64 - flipped) : 0;
            while (with_queries ? join.i < join.left_count : join.window < join.window_count) {
                join.found = 0;
                join_run(&join);
                sum += digest_of_pairs(pairs, join.found);
            }
        }
    note(sum);
    free(pairs);
    free(keys);
    free(starts);
}

/* The ids of a range, which lies inside the values. */
static Status read_ids(uint64_t first, uint64_t count) {
    const Ids *ids = &image.ids;
    Status status = OK;
    uint64_t value = 0;
    expect(first <= ids->id_count && count <= ids->id_count - first, "ids lie among the values");
    for (uint64_t i = 0; i < count && status == OK; i++) {
        status = packed_get(&image.pages, ids->values_offset, ids->width, first + i, &value);
        note(value);
    }
    return status;
}

/* The ids of a fingerprint that a probe has found. */
static void look_up(uint64_t fingerprint) {
    uint64_t key, rank = 0, first, count;
    int found;
    permute_keys(&image.tables[0]->permutation, &fingerprint, 1, &key);
    Status status = table_rank(&image.pages, image.tables[0], &image.ids, key, &rank, &found);
    if (status == OK && found) status = ids_range(&image.pages, &image.ids, rank, &first, &count);
    if (status == OK && found) status = read_ids(first, count);
    note_status(status);
}

static void read_all_ids(void) {
    uint64_t total = 0, first, count;
    for (uint64_t rank = 0; rank < image.ids.key_count; rank++) {
        Status status = ids_range(&image.pages, &image.ids, rank, &first, &count);
        note_status(status);
        if (status != OK) return;
        total += count;
        expect(total <= image.ids.id_count, "fingerprints share no ids");
        if (read_ids(first, count) != OK) return;
    }
}

/* All ids again, by a walk that stops half-way and wherever its output is full. */
static void walk_ids(void) {
    IdWalk walk = {0};
    const uint64_t stops[] = {image.ids.key_count / 2, image.ids.key_count};
    uint64_t *ranks = malloc(WALK_ROOM * 8), *values = malloc(WALK_ROOM * 8), count = WALK_ROOM;
    Status status = OK;
    for (unsigned i = 0; i < 2 && status == OK; i++)
        for (count = WALK_ROOM; status == OK && count == WALK_ROOM;) {
            status = ids_walk(&image.pages, &image.ids, &walk, stops[i], WALK_ROOM, ranks, values, &count);
            for (uint64_t j = 0; status == OK && j < count; j++) {
                expect(ranks[j] < stops[i], "a walk stops where it is told");
                note(ranks[j] ^ values[j]);
            }
        }
    note_status(status);
    free(ranks);
    free(values);
}

static void probe(unsigned distance, int first_only, uint64_t count) {
    Search search = {.pages = &image.pages, .tables = image.tables, .table_count = image.table_count, .distance = distance,
                     .first_only = first_only, .match_limit = count * image.tables[0]->payload_bits};
    uint64_t *queries = malloc(count * 8);
    memcpy(queries, image.queries, count * 8);
    Status status = search_run(&search, queries, count, 0);
    note_status(status);
    note(search.blocks_scanned);
    if (status == OK && search.match_count > 1) qsort(search.matches, search.match_count, sizeof(Match), match_order);
    for (uint64_t i = 0; status == OK && i < search.match_count; i++) {
        const Match *match = &search.matches[i];
        expect(match->distance <= distance, "matches lie within the distance");
        expect(match->distance == (unsigned)__builtin_popcountll(match->fingerprint ^ image.queries[match->query]),
               "a match says how far it is");
        note(match->fingerprint + match->query);
        if (image.ids.kind != IDS_NONE && i < 32) look_up(match->fingerprint);
    }
    free(search.matches);
    free(queries);
}

static uint64_t run(const uint8_t *data, size_t size, int fast) {
    crc32c_choose(fast);
    decode_choose(fast);
    permute_choose(fast);
    search_choose(fast);
    join_choose(fast);
    digest = 0;
    sound = 1;
    image_open(&image, data, size);
    probe(image.distance, 0, QUERIES);
    image_forget(&image);
    probe(0, 0, 1);
    probe(3, 1, QUERIES);
    for (unsigned i = 0; i < image.table_count; i++) {
        uint64_t count = decode_table(i, image.streams);
        if (count > 0) join_table(i, count);
    }
    if (image.ids.kind != IDS_NONE) {
        read_all_ids();
        walk_ids();
        for (unsigned i = 0; i < QUERIES; i++) look_up(image.queries[i]);
    }
    image_close(&image);
    return digest;
}

int harness_run(const uint8_t *data, size_t size, int both) {
    if (scratch == NULL) {
        scratch = malloc(sizeof *scratch);
        decoded = malloc(DECODE_STREAMS * RUN_KEYS * sizeof *decoded);
    }
    uint64_t fast = run(data, size, fpstore_is_fast());
    if (both) expect(run(data, size, 0) == fast, "the portable kernels do what the fast ones do");
    return sound;
}

unsigned harness_spans(size_t *offsets, size_t *bytes) {
    for (unsigned i = 0; i < image.span_count; i++) {
        offsets[i] = image.spans[i].offset;
        bytes[i] = image.spans[i].bytes;
    }
    return image.span_count;
}
