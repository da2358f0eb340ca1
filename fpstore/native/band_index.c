/* Documents in memory, by the keys of their bands. */
#include "band_index.h"

#include "banded.h"

#define FIRST_SLOTS 64
#define FIRST_ROOM 64
/* What is looked for so many documents later is asked for now. */
#define AHEAD 4

static uint64_t tag_of(uint64_t key) { return key * UINT64_C(0x9E3779B97F4A7C15) >> BAND_ROW_BITS; }

static uint64_t home_of(uint64_t tag, uint64_t size) { return (tag >> (BAND_TAG_BITS - 32)) * size >> 32; }

/* The slot that has a tag, or the empty one where it would be. */
static uint64_t *slot_of(const BandTable *table, uint64_t tag) {
    uint64_t at = home_of(tag, table->size);
    while (table->slots[at] != 0 && table->slots[at] >> BAND_ROW_BITS != tag) at = at + 1 < table->size ? at + 1 : 0;
    return &table->slots[at];
}

static Status make_slots(BandTable *table, uint64_t size) {
    uint64_t *slots = calloc(size, sizeof *slots);
    BandTable larger = {slots, size, table->used, NULL};
    if (slots == NULL) return NO_MEMORY;
    for (uint64_t at = 0; at < table->size; at++) {
        if (table->slots[at] != 0) *slot_of(&larger, table->slots[at] >> BAND_ROW_BITS) = table->slots[at];
    }
    free(table->slots);
    table->slots = slots;
    table->size = size;
    return OK;
}

Status band_index_make(BandIndex *index) {
    index->count = index->room = index->asker = 0;
    index->sketches = NULL;
    index->askers = NULL;
    index->tables = calloc(index->bands, sizeof *index->tables);
    if (index->tables == NULL) return NO_MEMORY;
    for (uint64_t band = 0; band < index->bands; band++) {
        if (make_slots(&index->tables[band], FIRST_SLOTS) != OK) return NO_MEMORY;
    }
    return OK;
}

void band_index_free(BandIndex *index) {
    for (uint64_t band = 0; index->tables != NULL && band < index->bands; band++) {
        free(index->tables[band].slots);
        free(index->tables[band].earlier);
    }
    free(index->tables);
    free(index->sketches);
    free(index->askers);
    index->tables = NULL;
    index->sketches = NULL;
    index->askers = NULL;
}

static Status resize(void **column, uint64_t bytes) {
    void *resized = realloc(*column, bytes);
    if (resized == NULL) return NO_MEMORY;
    *column = resized;
    return OK;
}

static Status make_room(BandIndex *index, uint64_t count) {
    uint64_t room = index->room + index->room / 2;
    if (count <= index->room) return OK;
    if (room < FIRST_ROOM) room = FIRST_ROOM;
    if (room < count) room = count;
    if (resize((void **)&index->sketches, room * index->words * sizeof *index->sketches) != OK) return NO_MEMORY;
    if (resize((void **)&index->askers, room * sizeof *index->askers) != OK) return NO_MEMORY;
    for (uint64_t band = 0; band < index->bands; band++) {
        if (resize((void **)&index->tables[band].earlier, room * sizeof(uint32_t)) != OK) return NO_MEMORY;
    }
    index->room = room;
    return OK;
}

/* Have three of four slots suffice for so many keys more. */
static Status make_slots_for(BandIndex *index, uint64_t count) {
    for (uint64_t band = 0; band < index->bands; band++) {
        BandTable *table = &index->tables[band];
        const uint64_t least = (table->used + count) * 4 / 3 + 1;
        uint64_t size = table->size;
        while (size < least) size += size / 2;
        if (size > table->size && make_slots(table, size) != OK) return NO_MEMORY;
    }
    return OK;
}

static void ask_for(const BandIndex *index, const uint64_t *keys) {
    for (uint64_t band = 0; band < index->bands; band++) {
        const BandTable *table = &index->tables[band];
        __builtin_prefetch(&table->slots[home_of(tag_of(keys[band]), table->size)]);
    }
}

Status band_index_add(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count) {
    if (make_room(index, index->count + count) != OK || make_slots_for(index, count) != OK) return NO_MEMORY;
    if (count > 0) memcpy(index->sketches + index->count * index->words, sketches, count * index->words * 8);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = index->count + i;
        if (i + AHEAD < count) ask_for(index, keys + (i + AHEAD) * index->bands);
        index->askers[row] = 0;
        for (uint64_t band = 0; band < index->bands; band++) {
            BandTable *table = &index->tables[band];
            const uint64_t tag = tag_of(keys[i * index->bands + band]);
            uint64_t *slot = slot_of(table, tag);
            table->used += *slot == 0;
            table->earlier[row] = (uint32_t)(*slot & BAND_MOST_ROWS);
            *slot = tag << BAND_ROW_BITS | (row + 1);
        }
    }
    index->count += count;
    return OK;
}

/* How far a row is, then which it is: as one number. */
static uint64_t packed(uint32_t differing, uint64_t row) { return (uint64_t)differing << 32 | row; }

static int in_order(const void *one, const void *other) {
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Put a number into a heap of `count`, the largest first, of which it may take the place. */
static void sift_down(uint64_t *heap, uint64_t count, uint64_t number) {
    uint64_t at = 0, below;
    while ((below = 2 * at + 1) < count) {
        if (below + 1 < count && heap[below + 1] > heap[below]) below++;
        if (heap[below] <= number) break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = number;
}

static void sift_up(uint64_t *heap, uint64_t at, uint64_t number) {
    while (at > 0 && heap[(at - 1) / 2] < number) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = number;
}

/* The rows near one document. heap: room for `limit`, of those that differ; equal: for all rows. How many of each. */
static void collect(BandIndex *index, const uint64_t *keys, const uint64_t *sketch, const BandAsked *asked,
                    uint64_t *heap, uint64_t *heap_count, uint32_t *equal, uint64_t *equal_count) {
    const uint32_t asker = index->asker;
    for (uint64_t band = 0; band < index->bands; band++) {
        const BandTable *table = &index->tables[band];
        uint64_t row = *slot_of(table, tag_of(keys[band])) & BAND_MOST_ROWS;
        for (; row != 0; row = table->earlier[row - 1]) {
            const uint64_t own = row - 1;
            if (index->askers[own] == asker) continue;
            index->askers[own] = asker;
            const uint32_t differing =
                values_differing(sketch, index->sketches + own * index->words, index->words, index->width, index->far);
            if (differing > asked->most) continue;
            if (differing == 0) {
                equal[(*equal_count)++] = (uint32_t)own;
            } else if (*heap_count < asked->limit) {
                sift_up(heap, (*heap_count)++, packed(differing, own));
            } else if (asked->limit > 0 && packed(differing, own) < heap[0]) {
                sift_down(heap, *heap_count, packed(differing, own));
            }
        }
    }
}

static int by_row(const void *one, const void *other) {
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static Status put(BandNears *found, uint32_t query, uint32_t *equal, uint64_t equal_count, uint64_t *heap,
                  uint64_t heap_count, uint64_t limit) {
    const uint64_t others = equal_count >= limit               ? 0
                            : limit - equal_count < heap_count ? limit - equal_count
                                                               : heap_count;
    const uint64_t needed = found->count + equal_count + others;
    if (needed > found->room) {
        const uint64_t room = 2 * needed;
        if (resize((void **)&found->rows, room * sizeof *found->rows) != OK) return NO_MEMORY;
        found->room = room;
    }
    if (equal_count > 1) qsort(equal, equal_count, sizeof *equal, by_row);
    if (heap_count > 1) qsort(heap, heap_count, sizeof *heap, in_order);
    for (uint64_t i = 0; i < equal_count; i++) found->rows[found->count++] = (BandNear){query, equal[i], 0};
    for (uint64_t i = 0; i < others; i++) {
        found->rows[found->count++] = (BandNear){query, (uint32_t)heap[i], (uint32_t)(heap[i] >> 32)};
    }
    return OK;
}

/* The number of the next who asks, which no row has. */
static void next_asker(BandIndex *index) {
    if (++index->asker == 0) {
        memset(index->askers, 0, index->count * sizeof *index->askers);
        index->asker = 1;
    }
}

Status band_index_near(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count,
                       const BandAsked *asked, uint64_t most_rows, BandNears *found, uint64_t *answered) {
    uint64_t *heap = malloc((asked->limit + 1) * sizeof *heap);
    uint32_t *equal = malloc((index->count + 1) * sizeof *equal);
    Status status = heap == NULL || equal == NULL ? NO_MEMORY : OK;
    *answered = 0;
    for (uint64_t i = 0; i < count && status == OK; i++) {
        uint64_t heap_count = 0, equal_count = 0;
        const uint64_t before = found->count;
        if (i + AHEAD < count) ask_for(index, keys + (i + AHEAD) * index->bands);
        next_asker(index);
        collect(index, keys + i * index->bands, sketches + i * index->words, asked, heap, &heap_count, equal,
                &equal_count);
        status = put(found, (uint32_t)i, equal, equal_count, heap, heap_count, asked->limit);
        if (i > 0 && found->count > most_rows) {
            found->count = before;
            break;
        }
        *answered = i + 1;
    }
    free(heap);
    free(equal);
    return status;
}

uint64_t band_index_bytes(const BandIndex *index) {
    uint64_t bytes = index->room * (index->words * 8 + 4 + index->bands * 4);
    for (uint64_t band = 0; band < index->bands; band++) bytes += index->tables[band].size * 8;
    return bytes;
}
