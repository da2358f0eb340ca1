/* Documents in memory, by the keys of their bands. */
#include "band_index.h"

#include "banded.h"

#define FIRST_BUCKETS 8
/* So many documents are looked up together, band after band: only one table is in reach of the caches at a time, and of
   the addresses that a processor remembers. */
#define TOGETHER 1024

typedef struct {
    void (*find)(const BandTable *, const uint64_t *, uint64_t, uint64_t, uint32_t *);
    void (*put)(BandTable *, const uint64_t *, uint64_t, uint64_t, uint64_t, uint32_t *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { band_find_##set, band_put_##set }

static Kernels kernels = {band_find_portable, band_put_portable};

KERNELS_CHOSEN_AT_LOAD(band_choose)

/* Put the slots of a table into a larger one, which is empty. filled: of each of its buckets how many slots are taken,
   all 0; to look at the slots themselves would be to wait for what was just written there. */
static void move_slots(const BandTable *table, const BandTable *larger, uint8_t *filled) {
    for (uint64_t at = 0; at < table->buckets * BAND_BUCKET; at++) {
        const uint64_t slot = table->slots[at];
        if (slot == 0) continue;
        uint64_t bucket = band_home(larger, slot >> BAND_ROW_BITS);
        while (filled[bucket] == BAND_BUCKET) bucket = bucket + 1 < larger->buckets ? bucket + 1 : 0;
        larger->slots[bucket * BAND_BUCKET + filled[bucket]++] = slot;
    }
}

static Status make_slots(BandIndex *index, uint64_t band, uint64_t buckets) {
    BandTable *table = &index->tables[band];
    Large slots = {NULL, 0};
    uint8_t *filled = calloc(buckets, 1);
    if (filled == NULL || large_make(&slots, buckets * LARGE_LINE_BYTES, 1) != OK) {
        free(filled);
        return NO_MEMORY;
    }
    const BandTable larger = {slots.memory, buckets, table->used};
    move_slots(table, &larger, filled);
    free(filled);
    large_free(&index->slots[band]);
    index->slots[band] = slots;
    *table = larger;
    return OK;
}

Status band_index_make(BandIndex *index) {
    index->count = index->chained = 0;
    index->asker = 0;
    index->sketches = index->askers = index->earlier = index->chains = (Large){NULL, 0};
    index->tables = calloc(index->bands, sizeof *index->tables);
    index->slots = calloc(index->bands, sizeof *index->slots);
    if (index->tables == NULL || index->slots == NULL) return NO_MEMORY;
    for (uint64_t band = 0; band < index->bands; band++) {
        if (make_slots(index, band, FIRST_BUCKETS) != OK) return NO_MEMORY;
    }
    return OK;
}

void band_index_free(BandIndex *index) {
    for (uint64_t band = 0; index->slots != NULL && band < index->bands; band++) large_free(&index->slots[band]);
    free(index->tables);
    free(index->slots);
    index->tables = NULL;
    index->slots = NULL;
    large_free(&index->sketches);
    large_free(&index->askers);
    large_free(&index->earlier);
    large_free(&index->chains);
}

static Status make_room(BandIndex *index, uint64_t count) {
    if (large_reserve(&index->sketches, count * index->words * sizeof(uint64_t)) != OK) return NO_MEMORY;
    if (large_reserve(&index->askers, count * sizeof(uint32_t)) != OK) return NO_MEMORY;
    return large_reserve(&index->chains, count * sizeof(uint32_t));
}

/* The bytes of so many rows that are chained. */
static uint64_t chained_bytes(const BandIndex *index, uint64_t count) {
    return count * index->bands * sizeof(uint32_t);
}

static int is_zero(const uint32_t *numbers, uint64_t count) {
    uint32_t any = 0;
    for (uint64_t i = 0; i < count; i++) any |= numbers[i];
    return any == 0;
}

/* Keep the earlier rows, for each band, of rows from `first` on, where there are some. There is room for all. */
static void keep_earlier(BandIndex *index, const uint32_t *earlier, uint64_t count, uint64_t first) {
    uint32_t *kept = index->earlier.memory, *chains = index->chains.memory;
    for (uint64_t i = 0; i < count; i++, earlier += index->bands) {
        chains[first + i] = 0;
        if (is_zero(earlier, index->bands)) continue;
        memcpy(kept + index->chained * index->bands, earlier, chained_bytes(index, 1));
        chains[first + i] = (uint32_t)++index->chained;
    }
}

/* Have three of four slots suffice for so many keys more. */
static Status make_slots_for(BandIndex *index, uint64_t count) {
    for (uint64_t band = 0; band < index->bands; band++) {
        const BandTable *table = &index->tables[band];
        const uint64_t least = ((table->used + count) * 4 / 3 + BAND_BUCKET) / BAND_BUCKET;
        uint64_t buckets = table->buckets;
        while (buckets < least) buckets += buckets / 2;
        if (buckets > table->buckets && make_slots(index, band, buckets) != OK) return NO_MEMORY;
    }
    return OK;
}

Status band_index_add(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count) {
    const uint64_t together = count < TOGETHER ? count : TOGETHER;
    if (count == 0) return OK;
    if (make_room(index, index->count + count) != OK || make_slots_for(index, count) != OK) return NO_MEMORY;
    /* What is not written to is no memory yet. */
    if (large_reserve(&index->earlier, chained_bytes(index, index->chained + count)) != OK) return NO_MEMORY;
    uint32_t *earlier = malloc(chained_bytes(index, together));
    if (earlier == NULL) return NO_MEMORY;
    memcpy((uint64_t *)index->sketches.memory + index->count * index->words, sketches, count * index->words * 8);
    memset((uint32_t *)index->askers.memory + index->count, 0, count * sizeof(uint32_t));
    for (uint64_t first = 0; first < count; first += TOGETHER) {
        const uint64_t some = count - first < TOGETHER ? count - first : TOGETHER;
        for (uint64_t band = 0; band < index->bands; band++)
            kernels.put(&index->tables[band], keys + first * index->bands + band, index->bands, some,
                        index->count + first, earlier + band);
        keep_earlier(index, earlier, some, index->count + first);
    }
    free(earlier);
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

/* Of documents and each of their bands the last row that has the key, 1 more, 0 for none. */
static void find_heads(const BandIndex *index, const uint64_t *keys, uint64_t count, uint32_t *heads) {
    for (uint64_t band = 0; band < index->bands; band++)
        kernels.find(&index->tables[band], keys + band, index->bands, count, heads + band);
}

/* Of a row the one before it that has its key in a band, 1 more, 0 for none. */
ALWAYS_INLINE uint64_t row_before(const BandIndex *index, uint64_t row, uint64_t band) {
    const uint32_t *chains = index->chains.memory, *earlier = index->earlier.memory;
    return chains[row] == 0 ? 0 : earlier[(chains[row] - 1) * index->bands + band];
}

/* The rows near one document. heads: of its bands. heap: room for `limit`, of those that differ; equal: for all rows.
   How many of each. */
static void collect(BandIndex *index, const uint32_t *heads, const uint64_t *sketch, const BandAsked *asked,
                    uint64_t *heap, uint64_t *heap_count, uint32_t *equal, uint64_t *equal_count) {
    const uint64_t *sketches = index->sketches.memory;
    uint32_t *askers = index->askers.memory;
    const uint32_t asker = index->asker;
    for (uint64_t band = 0; band < index->bands; band++) {
        for (uint64_t row = heads[band]; row != 0; row = row_before(index, row - 1, band)) {
            const uint64_t own = row - 1;
            if (askers[own] == asker) continue;
            askers[own] = asker;
            const uint32_t differing =
                values_differing(sketch, sketches + own * index->words, index->words, index->width, index->far);
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

static Status resize(void **column, uint64_t bytes) {
    void *resized = realloc(*column, bytes);
    if (resized == NULL) return NO_MEMORY;
    *column = resized;
    return OK;
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
        memset(index->askers.memory, 0, index->count * sizeof(uint32_t));
        index->asker = 1;
    }
}

/* What band_index_near needs beside what it finds. */
typedef struct {
    uint64_t *heap;
    uint32_t *equal, *heads;
} Room;

/* The rows near documents from `first` to `end`; heads: of the first of them. Whether there are more than most_rows. */
static Status near_some(BandIndex *index, const Room *room, const uint64_t *sketches, uint64_t first, uint64_t end,
                        const BandAsked *asked, uint64_t most_rows, BandNears *found, uint64_t *answered) {
    for (uint64_t i = first; i < end; i++) {
        uint64_t heap_count = 0, equal_count = 0;
        const uint64_t before = found->count;
        next_asker(index);
        collect(index, room->heads + (i - first) * index->bands, sketches + i * index->words, asked, room->heap,
                &heap_count, room->equal, &equal_count);
        const Status status = put(found, (uint32_t)i, room->equal, equal_count, room->heap, heap_count, asked->limit);
        if (status != OK) return status;
        if (i > 0 && found->count > most_rows) {
            found->count = before;
            return OK;
        }
        *answered = i + 1;
    }
    return OK;
}

Status band_index_near(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count,
                       const BandAsked *asked, uint64_t most_rows, BandNears *found, uint64_t *answered) {
    const uint64_t together = count < TOGETHER ? count : TOGETHER;
    const Room room = {malloc((asked->limit + 1) * sizeof(uint64_t)), malloc((index->count + 1) * sizeof(uint32_t)),
                       malloc((together * index->bands + 1) * sizeof(uint32_t))};
    Status status = room.heap == NULL || room.equal == NULL || room.heads == NULL ? NO_MEMORY : OK;
    *answered = 0;
    for (uint64_t first = 0; first < count && status == OK && *answered == first; first += TOGETHER) {
        const uint64_t end = count - first < TOGETHER ? count : first + TOGETHER;
        find_heads(index, keys + first * index->bands, end - first, room.heads);
        status = near_some(index, &room, sketches, first, end, asked, most_rows, found, answered);
    }
    free(room.heap);
    free(room.equal);
    free(room.heads);
    return status;
}

uint64_t band_index_bytes(const BandIndex *index) {
    uint64_t bytes = index->sketches.bytes + index->askers.bytes + index->chains.bytes;
    bytes += chained_bytes(index, index->chained);
    for (uint64_t band = 0; band < index->bands; band++) bytes += index->slots[band].bytes;
    return bytes;
}
