/* Fingerprints in memory alone, by bands of their bits. */
#include "key_index.h"

/* A query's lines are asked for while the one before it is answered. */
#define FIRST_ROOM 1024
#define FIRST_SLOT_BITS 10
#define AHEAD 8
/* From so many keys on, tables have their memory at once when the first are added: these come to nearly all pages. */
#define POPULATED_KEYS 64

typedef struct {
    void (*ask)(const KeyIndex *, uint64_t, unsigned, unsigned);
    Status (*collect)(const KeyIndex *, uint64_t, unsigned, unsigned, KeyNears *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { key_ask_##set, key_collect_##set }

static Kernels kernels = {key_ask_portable, key_collect_portable};

uint16_t key_patterns[KEY_PATTERNS];

static void make_patterns(void) {
    unsigned at = key_first_pattern(2);
    for (unsigned i = 0; i < KEY_MOST_BITS; i++) {
        key_patterns[1 + i] = (uint16_t)(1u << i);
        for (unsigned j = 0; j < i; j++) key_patterns[at++] = (uint16_t)(1u << i | 1u << j);
    }
}

void key_choose(InstructionSet set) {
    kernels = NEWEST_KERNELS(set);
    make_patterns();
}
CHOSEN_AT_LOAD(key_choose)

/* Empty tables whose bands have so many bits. */
static Status make_tables(KeyIndex *index, unsigned band_bits) {
    const uint64_t lines = (uint64_t)index->tables << band_bits;
    large_free(&index->lines);
    large_free(&index->line_rows);
    index->band_bits = band_bits;
    index->lines_used = (uint32_t)lines;
    if (large_make(&index->lines, lines * sizeof(KeyLine), 0) != OK ||
        large_make(&index->line_rows, lines * sizeof(KeyRows), 0) != OK)
        return NO_MEMORY;
    /* Of a million keys a query takes 0.75 of the time so, and a key to add as much. */
    large_advise(&index->lines);
    large_advise(&index->line_rows);
    return OK;
}

Status key_index_make(KeyIndex *index) {
    /* Where each of `tables` bands differed in one bit more than it has flips, that would be distance + 1 in all. */
    index->tables = index->distance < KEY_TABLES - 1 ? index->distance + 1 : KEY_TABLES;
    const unsigned flips = index->distance + 1 - index->tables;
    for (unsigned table = 0; table < index->tables; table++)
        index->flips[table] = flips / index->tables + (table < flips % index->tables);
    index->slot_bits = FIRST_SLOT_BITS;
    if (make_tables(index, KEY_LEAST_BITS) != OK) return NO_MEMORY;
    return large_make(&index->slots, sizeof(uint32_t) << FIRST_SLOT_BITS, 0);
}

void key_index_free(KeyIndex *index) {
    large_free(&index->lines);
    large_free(&index->line_rows);
    large_free(&index->keys);
    large_free(&index->next);
    large_free(&index->last);
    large_free(&index->slots);
}

uint64_t key_index_bytes(const KeyIndex *index) {
    return index->lines.bytes + index->line_rows.bytes + index->keys.bytes + index->next.bytes + index->last.bytes +
           index->slots.bytes;
}

ALWAYS_INLINE uint32_t *slot_for(const KeyIndex *index, uint64_t key) {
    return (uint32_t *)index->slots.memory + (key * index->secret >> (64 - index->slot_bits));
}

/* The slot that has a key, or the empty one where it would be; half of them are empty. */
ALWAYS_INLINE uint32_t *slot_of(const KeyIndex *index, uint64_t key) {
    const uint64_t *keys = index->keys.memory;
    uint32_t *slots = index->slots.memory, *end = slots + (UINT64_C(1) << index->slot_bits);
    uint32_t *slot = slot_for(index, key);
    while (*slot != 0 && keys[*slot - 1] != key) slot = slot + 1 < end ? slot + 1 : slots;
    return slot;
}

/* Room in the lines for so many keys more: of each bucket one line is put behind for KEY_PLACES of them, or fewer where
   it had some. */
static Status make_lines(KeyIndex *index, uint64_t more) {
    const uint64_t buckets = key_buckets(index), begun = more < buckets ? more : buckets;
    const uint64_t lines = index->lines_used + index->tables * (more / KEY_PLACES + begun);
    if (large_reserve(&index->lines, lines * sizeof(KeyLine)) != OK) return NO_MEMORY;
    return large_reserve(&index->line_rows, lines * sizeof(KeyRows));
}

ALWAYS_INLINE void put_in_bucket(KeyIndex *index, uint64_t bucket, uint32_t mark, uint32_t row) {
    KeyLine *lines = index->lines.memory, *line = &lines[bucket];
    KeyRows *rows = index->line_rows.memory, *own = &rows[bucket];
    if (own->used == KEY_PLACES) {
        const uint32_t behind = index->lines_used++;
        lines[behind] = *line;
        rows[behind] = *own;
        *line = (KeyLine){{0}, behind};
        *own = (KeyRows){{0}, 0};
    }
    line->marks[own->used] = mark;
    own->rows[own->used++] = row + 1;
}

ALWAYS_INLINE void put_in_tables(KeyIndex *index, uint64_t key, uint32_t row) {
    for (unsigned table = 0; table < index->tables; table++) {
        const uint64_t turned = key_turned(key, table);
        put_in_bucket(index, table * key_buckets(index) + key_bucket(index, turned), key_mark(index, turned), row);
    }
}

ALWAYS_INLINE void ask_for_tables(const KeyIndex *index, uint64_t key) {
    for (unsigned table = 0; table < index->tables; table++) {
        const uint64_t at = table * key_buckets(index) + key_bucket(index, key_turned(key, table));
        __builtin_prefetch((const KeyLine *)index->lines.memory + at, 1);
        __builtin_prefetch((const KeyRows *)index->line_rows.memory + at, 1);
    }
}

/* Put all keys into tables of more buckets, where there will be many for each of those there are. */
static Status make_buckets(KeyIndex *index, uint64_t more) {
    const uint64_t keys_held = index->keys_held + more, *keys = index->keys.memory;
    const uint32_t *last = index->last.memory;
    unsigned bits = index->band_bits;
    while (bits < KEY_MOST_BITS && keys_held > (uint64_t)KEY_FULL << bits) bits += KEY_MORE_BITS;
    if (bits == index->band_bits) return make_lines(index, more);
    if (make_tables(index, bits) != OK || make_lines(index, keys_held) != OK) return NO_MEMORY;
    for (uint64_t row = 0; row < index->count; row++) {
        if (row + AHEAD < index->count) ask_for_tables(index, keys[row + AHEAD]);
        if (last[row] != KEY_NO_FIRST) put_in_tables(index, keys[row], (uint32_t)row);
    }
    return OK;
}

static Status make_room(KeyIndex *index, uint64_t more) {
    const uint64_t rows = index->count + more;
    if (large_reserve(&index->keys, rows * sizeof(uint64_t)) != OK ||
        large_reserve(&index->next, rows * sizeof(uint32_t)) != OK ||
        large_reserve(&index->last, rows * sizeof(uint32_t)) != OK || make_buckets(index, more) != OK)
        return NO_MEMORY;
    const unsigned bits = bit_length(2 * (index->keys_held + more));
    if (bits <= index->slot_bits) return OK;
    Large larger = {NULL, 0}, old = index->slots;
    if (large_make(&larger, sizeof(uint32_t) << bits, 0) != OK) return NO_MEMORY;
    large_advise(&larger);
    const uint32_t *slots = old.memory;
    const uint64_t *keys = index->keys.memory, slot_count = UINT64_C(1) << index->slot_bits;
    index->slots = larger;
    index->slot_bits = bits;
    for (uint64_t i = 0; i < slot_count; i++) {
        if (slots[i] != 0) *slot_of(index, keys[slots[i] - 1]) = slots[i];
    }
    large_free(&old);
    return OK;
}

Status key_index_add(KeyIndex *index, const uint64_t *keys, uint64_t count) {
    if (make_room(index, count) != OK) return NO_MEMORY;
    if (index->count == 0 && count >= POPULATED_KEYS) {
        /* Else a page that is looked at before it is written to is given twice, and all threads are stopped for that. */
        large_populate(index->lines.memory, index->lines.bytes);
        large_populate(index->line_rows.memory, index->line_rows.bytes);
    }
    uint64_t *own = index->keys.memory;
    uint32_t *next = index->next.memory, *last = index->last.memory;
    for (uint64_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            __builtin_prefetch(slot_for(index, keys[i + AHEAD]));
            ask_for_tables(index, keys[i + AHEAD]);
        }
        const uint32_t row = (uint32_t)index->count;
        const uint64_t key = keys[i];
        own[row] = key;
        next[row] = last[row] = 0;
        uint32_t *slot = slot_of(index, key);
        index->count++;
        if (*slot != 0) {
            const uint32_t first = *slot - 1, before = last[first] == 0 ? first : last[first] - 1;
            next[before] = last[first] = row + 1;
            last[row] = KEY_NO_FIRST;
            continue;
        }
        *slot = row + 1;
        index->keys_held++;
        put_in_tables(index, key, row);
    }
    return OK;
}

static int in_order(const void *one, const void *other) {
    const KeyNear *a = one, *b = other;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    return (a->key > b->key) - (a->key < b->key);
}

/* The nearest keys, at most `limit`, as each has a row at least. */
static void cut(KeyNears *found) {
    if (found->count > 1) qsort(found->keys, found->count, sizeof *found->keys, in_order);
    if (found->count > found->limit) found->count = found->limit;
}

Status key_index_met(KeyNears *found, uint64_t key, uint32_t row, unsigned distance) {
    if (found->count == found->room) {
        cut(found);
        if (found->count > found->room / 2) {
            KeyNear *more = realloc(found->keys, 2 * found->room * sizeof *more);
            if (more == NULL) return NO_MEMORY;
            found->keys = more;
            found->room *= 2;
        }
    }
    found->keys[found->count++] = (KeyNear){key, row, distance};
    return OK;
}

/* The first `limit` rows of the keys that are near a query. */
static Status put_rows(const KeyIndex *index, KeyNears *near, uint32_t query, KeyMatches *found) {
    const uint32_t *next = index->next.memory;
    uint64_t left = near->limit;
    cut(near);
    for (uint64_t i = 0; i < near->count && left > 0; i++) {
        for (uint32_t row = near->keys[i].row + 1; row != 0 && left > 0; row = next[row - 1], left--) {
            if (found->count == found->room) {
                KeyMatch *more = realloc(found->rows, (2 * found->room + FIRST_ROOM) * sizeof *more);
                if (more == NULL) return NO_MEMORY;
                found->rows = more;
                found->room = 2 * found->room + FIRST_ROOM;
            }
            found->rows[found->count++] = (KeyMatch){near->keys[i].key, query, row - 1, near->keys[i].distance};
        }
    }
    return OK;
}

/* One query after the other, in all tables. */
static Status near_each(const KeyIndex *index, const uint64_t *queries, uint64_t first, uint64_t end, KeyNears *near,
                        KeyMatches *found) {
    Status status = OK;
    if (first < end) kernels.ask(index, queries[first], 0, index->tables);
    for (uint64_t i = first; i < end && status == OK; i++) {
        if (i + 1 < end) kernels.ask(index, queries[i + 1], 0, index->tables);
        near->count = 0;
        status = kernels.collect(index, queries[i], 0, index->tables, near);
        if (status == OK) status = put_rows(index, near, (uint32_t)i, found);
    }
    return status;
}

/* So many queries at a time are put in the order of their buckets, by so many bits: what one has read of a table is
   mostly what the next ones read. */
#define TOGETHER (1 << 14)
#define ORDER_BITS 12
/* Fewer queries, or tables of fewer lines, which the caches hold, are not worth it. */
#define LEAST_TOGETHER 1024
#define LEAST_BUCKET_BITS 14
/* Where more is found for each query in the mean, they are asked for one after the other. */
#define MOST_EACH 8

typedef struct {
    KeyNear near;
    uint32_t query;
} KeyFound;

typedef struct {
    uint32_t order[TOGETHER], ends[TOGETHER];
    KeyFound found[TOGETHER * MOST_EACH];
    KeyNear grouped[TOGETHER * MOST_EACH];
} Together;

/* Put queries in the order of their buckets in a table. */
static void order_queries(unsigned table, const uint64_t *queries, uint64_t count, uint32_t *order) {
    const unsigned shift = 64 - ORDER_BITS;
    uint32_t ends[1 << ORDER_BITS] = {0}, sum = 0;
    for (uint64_t i = 0; i < count; i++) ends[key_turned(queries[i], table) >> shift]++;
    for (unsigned bucket = 0; bucket < 1 << ORDER_BITS; bucket++) { /* where each begins, at first */
        const uint32_t own = ends[bucket];
        ends[bucket] = sum;
        sum += own;
    }
    for (uint64_t i = 0; i < count; i++) order[ends[key_turned(queries[i], table) >> shift]++] = (uint32_t)i;
}

/* The same of several together; TOO_MANY where more is found than there is room for. */
static Status near_together(const KeyIndex *index, const uint64_t *queries, uint64_t first, uint64_t count,
                            KeyNears *near, Together *room, KeyMatches *found) {
    uint64_t used = 0;
    for (unsigned table = 0; table < index->tables; table++) {
        order_queries(table, queries + first, count, room->order);
        for (uint64_t i = 0; i < count; i++) {
            const uint32_t query = room->order[i];
            if (i + 1 < count) kernels.ask(index, queries[first + room->order[i + 1]], table, table + 1);
            near->count = 0;
            if (kernels.collect(index, queries[first + query], table, table + 1, near) != OK) return NO_MEMORY;
            if (near->count > MOST_EACH * count - used) return TOO_MANY;
            for (uint64_t j = 0; j < near->count; j++) room->found[used++] = (KeyFound){near->keys[j], query};
        }
    }
    uint32_t sum = 0;
    memset(room->ends, 0, count * sizeof *room->ends);
    for (uint64_t i = 0; i < used; i++) room->ends[room->found[i].query]++;
    for (uint64_t i = 0; i < count; i++) { /* where each begins, at first */
        const uint32_t own = room->ends[i];
        room->ends[i] = sum;
        sum += own;
    }
    for (uint64_t i = 0; i < used; i++) room->grouped[room->ends[room->found[i].query]++] = room->found[i].near;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t start = i == 0 ? 0 : room->ends[i - 1], end = room->ends[i];
        KeyNears own = {room->grouped + start, end - start, end - start, near->limit};
        if (put_rows(index, &own, (uint32_t)(first + i), found) != OK) return NO_MEMORY;
    }
    return OK;
}

Status key_index_near(const KeyIndex *index, const uint64_t *queries, uint64_t count, uint64_t limit,
                      KeyMatches *found) {
    const int is_together = count >= LEAST_TOGETHER && index->band_bits >= LEAST_BUCKET_BITS;
    KeyNears near = {malloc(FIRST_ROOM * sizeof(KeyNear)), 0, FIRST_ROOM, limit};
    Together *room = is_together ? malloc(sizeof *room) : NULL;
    Status status = near.keys == NULL || (is_together && room == NULL) ? NO_MEMORY : OK;
    for (uint64_t first = 0; first < count && status == OK && index->count > 0; first += TOGETHER) {
        const uint64_t some = count - first < TOGETHER ? count - first : TOGETHER;
        status = is_together ? near_together(index, queries, first, some, &near, room, found) : TOO_MANY;
        if (status == TOO_MANY) status = near_each(index, queries, first, first + some, &near, found);
    }
    free(near.keys);
    free(room);
    return status;
}
