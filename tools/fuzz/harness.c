/* Everything that the compiled core does with a segment file, once for an input. Compiled with coverage; see driver.c.

   What the sanitizers do not see is held against what the kernels promise: keys increase, ids lie in their region, and
   the portable kernels do exactly what the fast ones do. */
#include "image.h"
#include "pairs.h"
#include "search.h"

#include "harness.h"

#define MAX_JOINED 160 /* keys of a table whose pairs are looked for: each is compared with each */
#define WALK_ROOM 70   /* more than a word of groups */
#define JOIN_WINDOW_BITS 4

static Image image;
static Chunk *chunk;
static uint64_t *decoded;
static uint64_t joined[MAX_JOINED], digest;
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
static uint64_t decode_table(unsigned index) {
    const Table *table = image.tables[index];
    Cursor cursor = {.end_slot = (uint64_t)1 << table->slot_bits, .alone = image.alone, .chunk = chunk};
    uint64_t total = 0, count, last = 0;
    chunk_code_init(&chunk->code, table->decode);
    for (;;) {
        count = 0;
        Status status = cursor_decode(&image.pages, table, &cursor, decoded, CHUNK_ROOM, &count);
        if (status != OK) {
            note_status(status);
            note(cursor.slot);
            return 0;
        }
        if (count == 0) break;
        for (uint64_t i = 0; i < count; i++, total++) {
            expect(total == 0 || decoded[i] > last, "the keys of a table increase");
            last = decoded[i];
            if (total < MAX_JOINED) joined[total] = last;
            note(last);
        }
    }
    return total <= MAX_JOINED ? total : 0;
}

/* Where a join puts its pairs: as few at a time as it allows. */
typedef struct {
    uint64_t first[JOIN_ROOM], second[JOIN_ROOM];
    uint8_t bits[JOIN_ROOM];
} Columns;

static Found found_of(unsigned index, Columns *columns) {
    return (Found){.tables = image.tables,
                   .table = index,
                   .distance = image.distance,
                   .first = columns->first,
                   .second = columns->second,
                   .bits = columns->bits,
                   .room = JOIN_ROOM};
}

/* Whatever order they come in. */
static uint64_t digest_of_pairs(const Found *found) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < found->found; i++)
        sum += (found->first[i] * 0x9e3779b97f4a7c15 ^ found->second[i]) * 0xff51afd7ed558ccd + found->bits[i];
    return sum;
}

#define JOIN(join, run)                             \
    while (!(join).found.done) {                    \
        (join).found.found = (join).found.work = 0; \
        run(&(join));                               \
        sum += digest_of_pairs(&(join).found);      \
    }

static int key_order(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* All pairs of a table's keys as _pairs.pyx asks for them, and the queries against its keys. */
static void join_table(unsigned index, uint64_t count) {
    static Tile *tiles; /* two */
    const Table *table = image.tables[index];
    const unsigned bits = (unsigned)clamp(table->permutation.prefix_bits, 0, JOIN_WINDOW_BITS);
    const uint64_t starts_count = (1 << ROW_BITS) + 1 + QUAD;
    uint32_t *starts = calloc(starts_count, sizeof *starts),
             *folds = calloc(count + MAX_LANES + NEIGHBOUR_STEP, sizeof *folds);
    uint64_t *keys = calloc(count + KEYS_PAD, 8), *own = malloc(count * 8), queries[QUERIES], sum = 0,
             last = ~(uint64_t)0;
    Columns *columns = malloc(sizeof *columns);
    Flip flips[1 << JOIN_WINDOW_BITS];
    unsigned flip_count = 0;
    if (tiles == NULL) tiles = aligned_alloc(64, 2 * sizeof *tiles);
    memcpy(keys, joined, count * 8);
    memcpy(own, joined, count * 8);
    fold_keys(own, count, folds);
    starts_append(starts, &last, keys, count, 0, image.key_bits - bits, 0);
    while (++last < starts_count - QUAD) starts[last] = (uint32_t)count;
    permute_keys(&table->permutation, image.queries, QUERIES, queries);
    qsort(queries, QUERIES, 8, key_order);
    NeighbourJoin neighbours = {.found = found_of(index, columns),
                                .keys = own,
                                .folds = folds,
                                .count = count,
                                .window_shift = image.key_bits - bits,
                                .step = 1};
    JOIN(neighbours, neighbour_join_run);
    for (uint32_t mask = 0; mask < 1u << bits; mask++) {
        if ((unsigned)__builtin_popcount(mask) > table->flips) continue;
        if (mask > 0)
            flips[flip_count++] = (Flip){.inside = mask, .highest = 1u << (bit_length(mask) - 1), .low_bit = ROW_BITS};
        QueryJoin join = {.found = found_of(index, columns),
                          .queries = queries,
                          .keys = keys,
                          .starts = starts,
                          .query_count = QUERIES,
                          .flips = mask ? (uint64_t)mask << (image.key_bits - bits) : 0,
                          .window_shift = image.key_bits - bits};
        join.found.is_query = 1;
        JOIN(join, query_join_run);
    }
    FlipJoin flipped = {.found = found_of(index, columns),
                        .keys = keys,
                        .starts = starts,
                        .index_bits = ROW_BITS,
                        .flips = flips,
                        .flip_count = flip_count,
                        .tile = tiles,
                        .partner = tiles + 1};
    JOIN(flipped, flip_join_run);
    note(sum);
    free(columns);
    free(own);
    free(keys);
    free(folds);
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

/* Some of the ids that are there, looked for among all of them, and the keys that they belong to. */
static void find_ids(void) {
    enum { WANTED = 16, FILTER_WORDS = 1 << 4 };
    const Ids *ids = &image.ids;
    uint64_t count = 0, next = 0, found, key = 0;
    uint64_t *wanted = calloc(WANTED, 8), *filter = calloc(FILTER_WORDS, 8);
    uint64_t *ranks = malloc(WALK_ROOM * 8), *values = malloc(WALK_ROOM * 8);
    Status status = OK;
    for (uint64_t i = 0; i < WANTED && i < ids->id_count && status == OK; i++) {
        status = packed_get(&image.pages, ids->values_offset, ids->width, i * ids->id_count / WANTED, &wanted[count]);
        if (status == OK) wanted[count++] += ids->base;
    }
    if (count > 0) {
        uint64_t kept = 1;
        qsort(wanted, count, 8, key_order);
        for (uint64_t i = 1; i < count; i++)
            if (wanted[i] != wanted[i - 1]) wanted[kept++] = wanted[i];
        IdSet set = {.ids = wanted, .count = kept, .filter = filter, .filter_bits = 10};
        id_set_fill(&set);
        while (next < ids->id_count && status == OK) {
            status = ids_find(&image.pages, ids, &set, &next, ids->id_count, WALK_ROOM, ranks, values, &found);
            for (uint64_t i = 0; status == OK && i < found; i++) {
                expect(bsearch(&values[i], wanted, kept, 8, key_order) != NULL, "only wanted ids are found");
                status = table_key(&image.pages, image.tables[0], ids, ranks[i], &key);
                note(key ^ values[i]);
            }
        }
    }
    note_status(status);
    free(wanted);
    free(filter);
    free(ranks);
    free(values);
}

static void probe(unsigned distance, int first_only, const uint64_t *given, uint64_t count) {
    Search search = {.pages = &image.pages,
                     .tables = image.tables,
                     .table_count = image.table_count,
                     .own_tables = image.table_count,
                     .distance = distance,
                     .first_only = first_only,
                     .match_limit = count * image.tables[0]->payload_bits};
    uint64_t *queries = malloc(count * 8);
    memcpy(queries, given, count * 8);
    Status status = search_run(&search, queries, count, 0);
    sound &= status == OK;
    if (!first_only) { /* which match is the first one, and which damage, depends on the kernel */
        note(status == OK);
        if (status == OK) note(search.blocks_scanned);
    }
    if (status == OK && search.match_count > 1) qsort(search.matches, search.match_count, sizeof(Match), match_order);
    for (uint64_t i = 0; status == OK && i < search.match_count; i++) {
        const Match *match = &search.matches[i];
        expect(match->distance <= distance, "matches lie within the distance");
        expect(match->distance == (unsigned)__builtin_popcountll(match->fingerprint ^ given[match->query]),
               "a match says how far it is");
        if (!first_only) note(match->fingerprint + match->query);
        if (image.ids.kind != IDS_NONE && i < 32 && !first_only) look_up(match->fingerprint);
    }
    free(search.matches);
    free(queries);
}

/* Each query alone, in pages that were all looked at before: see search_one.h. */
static void probe_singly(void) {
    for (unsigned i = 0; i < QUERIES; i++) probe(image.distance, 0, image.queries + i, 1);
}

static int match_order_by_part(const void *a, const void *b) {
    const Match *left = a, *right = b;
    if (left->query != right->query) return left->query < right->query ? -1 : 1;
    return (left->fingerprint > right->fingerprint) - (left->fingerprint < right->fingerprint);
}

/* The file and its twin, looked up together: each has what it has alone. Of what is damaged both say so, or the first
   one is not asked for it. */
static void probe_together(void) {
    static Image twin;
    static Search alone, together;
    image_twin(&image, &twin);
    Table *const *const tables[] = {image.tables, image.tables};
    Pages *pages[] = {&image.pages, &twin.pages};
    const unsigned parts = several_count(tables, image.table_count, 2);
    Several *several = parts == 2 ? several_make(pages, tables, image.table_count, parts) : NULL;
    for (unsigned i = 0; several != NULL && i < QUERIES; i++) {
        uint64_t query = image.queries[i];
        int answered;
        search_several_init(&together, several, image.distance);
        Status status = search_several(&together, several, query, &answered);
        if (answered || status != OK) {
            search_init(&alone, &image.pages, image.tables, image.table_count, image.distance, 1);
            alone.match_limit = image.tables[0]->payload_bits;
            Status expected = search_run(&alone, &query, 1, 0);
            expect((status == OK) == (expected == OK), "segments looked up together are sound where one alone is");
            if (status == OK) {
                expect(together.match_count == 2 * alone.match_count, "each of two segments has its matches");
                if (alone.match_count > 0) {
                    qsort(together.matches, together.match_count, sizeof(Match), match_order_by_part);
                    qsort(alone.matches, alone.match_count, sizeof(Match), match_order_by_part);
                }
                for (uint64_t j = 0; j < together.match_count; j++) {
                    const Match *match = &together.matches[j], *own = &alone.matches[j % alone.match_count];
                    expect(match->query == j / alone.match_count && match->fingerprint == own->fingerprint &&
                               match->distance == own->distance,
                           "segments looked up together have the matches of each alone");
                }
            }
            free(alone.matches);
        }
        free(together.matches);
    }
    several_free(several);
    image_close(&twin);
}

static void choose(InstructionSet set) {
    static int chosen = -1;
    if ((int)set == chosen) return;
    crc32c_choose(set);
    decode_choose(set);
    permute_choose(set);
    search_choose(set);
    several_choose(set);
    join_choose(set);
    chosen = (int)set;
}

static uint64_t run(const uint8_t *data, size_t size, InstructionSet set) {
    choose(set);
    digest = 0;
    sound = 1;
    image_open(&image, data, size);
    probe(image.distance, 0, image.queries, QUERIES);
    image_forget(&image);
    probe(0, 0, image.queries, 1);
    probe(3, 1, image.queries, QUERIES);
    probe_together();
    for (unsigned i = 0; i < image.table_count; i++) {
        uint64_t count = decode_table(i);
        if (count > 0) join_table(i, count);
    }
    if (image.ids.kind != IDS_NONE) {
        read_all_ids();
        walk_ids();
        find_ids();
        for (unsigned i = 0; i < QUERIES; i++) look_up(image.queries[i]);
    }
    if (image_check(&image)) {
        probe_singly();
        probe_together();
    }
    image_close(&image);
    return digest;
}

int harness_run(const uint8_t *data, size_t size, int both) {
    if (chunk == NULL) {
        chunk = malloc(sizeof *chunk);
        decoded = malloc(CHUNK_ROOM * sizeof *decoded);
    }
    uint64_t fast = run(data, size, fpstore_instruction_set());
    if (both) expect(run(data, size, SET_PORTABLE) == fast, "the portable kernels do what the fast ones do");
    return sound;
}

unsigned harness_spans(size_t *offsets, size_t *bytes) {
    for (unsigned i = 0; i < image.span_count; i++) {
        offsets[i] = image.spans[i].offset;
        bytes[i] = image.spans[i].bytes;
    }
    return image.span_count;
}
