/* Candidates of signatures, in stages. */
#include "similar.h"

/* Keys that go through the stages together: what they ask for arrives while others work. */
#define KEYS_AT_ONCE 64
/* Rows of a query that are sorted by insertion. */
#define FEW_ROWS 48

static Status add_band_row(BandRows *found, uint64_t key, uint64_t id, uint64_t position) {
    if (found->count == found->most) return TOO_MANY;
    if (found->count == found->room) {
        uint64_t room = found->room ? 2 * found->room : 64;
        BandRow *rows = realloc(found->rows, room * sizeof *rows);
        if (rows == NULL) return NO_MEMORY;
        found->rows = rows;
        found->room = room;
    }
    found->rows[found->count++] = (BandRow){id, position, (uint32_t)key};
    return OK;
}

/* A key that the table has: its index among those asked for; its rank, then where its ids begin and how many. */
typedef struct {
    uint64_t key, at, count;
} Held;

static Status add_ids(const BandPart *part, const Held *held, BandRows *found) {
    const Ids *ids = part->ids;
    for (uint64_t i = 0; i < held->count; i++) {
        uint64_t value, id;
        Status status = packed_get(part->pages, ids->values_offset, ids->width, held->at + i, &value);
        if (status == OK) status = id_of_value(part->pages, ids, value, &id);
        if (status == OK) status = add_band_row(found, held->key, id, part->position);
        if (UNLIKELY(status != OK)) return status;
    }
    return OK;
}

static Status rows_of_some(const BandPart *part, const uint64_t *keys, uint64_t first, uint64_t count,
                           BandRows *found) {
    uint64_t permuted[KEYS_AT_ONCE], held_count = 0;
    Held held[KEYS_AT_ONCE];
    Pages *pages = part->pages;
    const Table *table = part->table;
    const Ids *ids = part->ids;
    permute_keys(&table->permutation, keys + first, count, permuted);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t slot = slot_of(permuted[i], table->slot_shift);
        if (UNLIKELY(slot >> table->slot_bits != 0)) continue; /* a stranger's segment, whose keys have fewer bits */
        if (UNLIKELY(table->block_bytes != 0)) continue;       /* no slot has a line or a rank */
        bytes_ask(pages, line_offset(table, slot));
        if (ids != NULL) ids_ask_rank(pages, ids, slot);
    }
    for (uint64_t i = 0; i < count; i++) {
        Status status = table_ask(pages, table, permuted[i]);
        if (UNLIKELY(status != OK)) return status;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rank;
        int has;
        Status status = ids == NULL ? table_index(pages, table, permuted[i], &rank, &has)
                                    : table_rank(pages, table, ids, permuted[i], &rank, &has);
        if (status == OK && has && ids == NULL) status = add_band_row(found, first + i, 0, part->position);
        if (UNLIKELY(status != OK)) return status;
        if (!has || ids == NULL) continue;
        held[held_count++] = (Held){first + i, rank, 1};
        ids_ask_group(pages, ids, rank);
    }
    for (uint64_t i = 0; i < held_count; i++) {
        Status status = ids_range(pages, ids, held[i].at, &held[i].at, &held[i].count);
        if (UNLIKELY(status != OK)) return status;
        if (held[i].count > 0) bytes_ask(pages, ids->values_offset + held[i].at * ids->width / 8);
    }
    for (uint64_t i = 0; i < held_count; i++) {
        Status status = add_ids(part, &held[i], found);
        if (UNLIKELY(status != OK)) return status;
    }
    return OK;
}

Status band_rows_of_part(const BandPart *part, const uint64_t *keys, uint64_t count, BandRows *found) {
    for (uint64_t first = 0; first < count; first += KEYS_AT_ONCE) {
        uint64_t some = count - first < KEYS_AT_ONCE ? count - first : KEYS_AT_ONCE;
        Status status = rows_of_some(part, keys, first, some, found);
        if (UNLIKELY(status != OK)) return status;
    }
    return OK;
}

Status band_rows_of_pending(const Pending *pending, uint32_t end, const uint64_t *keys, uint64_t count,
                            BandRows *found) {
    PendingSearch search;
    pending_search_init(&search, pending, 0, end);
    search.match_most = found->most;
    Status status = pending_search(&search, keys, count);
    for (uint64_t i = 0; i < search.match_count && status == OK; i++) {
        const PendingMatch *match = &search.matches[i];
        uint32_t number = pending_newest(pending, match->entry, end);
        for (; number != 0 && status == OK; number = pending->before[number]) {
            const Row *row = pending_row(pending, number);
            status = add_band_row(found, match->match.query, pending->with_ids ? row->id[0] : 0, row->position);
        }
    }
    free(search.matches);
    return status;
}

static int band_row_order(const void *a, const void *b) {
    const BandRow *left = a, *right = b;
    if (left->id != right->id) return left->id < right->id ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

static void sort_rows(BandRow *rows, uint64_t count) {
    if (count > FEW_ROWS) {
        qsort(rows, count, sizeof *rows, band_row_order);
        return;
    }
    for (uint64_t i = 1; i < count; i++) {
        BandRow row = rows[i];
        uint64_t at = i;
        for (; at > 0 && band_row_order(&rows[at - 1], &row) > 0; at--) rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

Status candidates_of(BandRows *found, uint32_t bands, uint64_t query_count, float unknown, Candidate *candidates,
                     uint64_t *count) {
    uint64_t *ends = calloc(query_count + 1, sizeof *ends);
    BandRow *rows = malloc((found->count + 1) * sizeof *rows);
    uint64_t filled = 0;
    if (ends == NULL || rows == NULL) {
        free(ends);
        free(rows);
        return NO_MEMORY;
    }
    for (uint64_t i = 0; i < found->count; i++) ends[found->rows[i].key / bands + 1]++;
    for (uint64_t query = 0; query < query_count; query++) ends[query + 1] += ends[query];
    for (uint64_t i = 0; i < found->count; i++) rows[ends[found->rows[i].key / bands]++] = found->rows[i];
    for (uint64_t query = 0, first = 0; query < query_count; first = ends[query++]) {
        sort_rows(rows + first, ends[query] - first);
        for (uint64_t i = first; i < ends[query]; i++) {
            if (i == first || rows[i].id != rows[i - 1].id)
                candidates[filled++] = (Candidate){rows[i].id, (uint32_t)query, unknown, 1};
            else
                candidates[filled - 1].shared += rows[i].key != rows[i - 1].key;
        }
    }
    free(ends);
    free(found->rows);
    found->rows = rows;
    found->room = found->count + 1;
    *count = filled;
    return OK;
}

/* The handle of sketch i less the base; the caller has checked that i is one of them. */
ALWAYS_INLINE Status handle_at(const SketchFile *file, uint64_t i, uint64_t *handle) {
    uint64_t offset = file->handles_offset + i * file->handle_bytes;
    Status status = pages_check(file->pages, offset, offset + file->handle_bytes - 1);
    *handle = 0;
    if (status == OK) memcpy(handle, file->pages->base + offset, file->handle_bytes);
    if (file->listed) *handle = i - *handle;
    return status;
}

/* The first sketch whose handle, less the base, is `wanted` or more. */
static Status first_sketch(const SketchFile *file, uint64_t wanted, uint64_t *place) {
    uint64_t low = 0, high = file->count, handle;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        Status status = handle_at(file, middle, &handle);
        if (status != OK) return status;
        if (handle < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return OK;
}

ALWAYS_INLINE Status estimate_one(const SketchFile *file, const Sketches *shape, const uint64_t *sketch, uint64_t place,
                                  Candidate *candidate) {
    uint64_t bytes = 8 * (uint64_t)shape->words, offset = file->sketches_offset + place * bytes;
    Status status = pages_check(file->pages, offset, offset + bytes - 1);
    if (UNLIKELY(status != OK)) return status;
    float similarity = sketches_alike(shape, sketch, file->pages->base + offset);
    if (!(candidate->similarity >= similarity)) candidate->similarity = similarity;
    return OK;
}

Status candidates_estimate(const SketchFile *file, const Sketches *shape, const uint64_t *sketches,
                           const int64_t *places, const uint8_t *masked, Candidate *candidates, uint64_t count) {
    uint64_t handles[KEYS_AT_ONCE], starts[KEYS_AT_ONCE], bytes = 8 * (uint64_t)shape->words;
    for (uint64_t first = 0; first < count; first += KEYS_AT_ONCE) {
        uint64_t some = count - first < KEYS_AT_ONCE ? count - first : KEYS_AT_ONCE;
        for (uint64_t i = 0; i < some; i++) {
            handles[i] = places == NULL ? candidates[first + i].id : (uint64_t)places[first + i];
            starts[i] = file->count;
            if (handles[i] < file->base || handles[i] > file->last || (masked != NULL && masked[first + i])) continue;
            starts[i] = handles[i] - file->base;
            if (file->handle_bytes != 0) {
                Status status = first_sketch(file, handles[i] - file->base, &starts[i]);
                if (UNLIKELY(status != OK)) return status;
            }
            if (starts[i] < file->count) bytes_ask(file->pages, file->sketches_offset + starts[i] * bytes);
        }
        for (uint64_t i = 0; i < some; i++) {
            Candidate *candidate = &candidates[first + i];
            const uint64_t *sketch = sketches + (uint64_t)candidate->query * shape->words;
            for (uint64_t place = starts[i]; place < file->count; place++) {
                uint64_t handle = 0;
                Status status = file->handle_bytes == 0 ? OK : handle_at(file, place, &handle);
                if (status == OK && file->handle_bytes != 0 && handle != handles[i] - file->base) break;
                if (status == OK) status = estimate_one(file, shape, sketch, place, candidate);
                if (UNLIKELY(status != OK)) return status;
                if (file->handle_bytes == 0) break;
            }
        }
    }
    return OK;
}

static int candidate_order(const void *a, const void *b) {
    const Candidate *left = a, *right = b;
    if (left->similarity > right->similarity) return -1;
    if (left->similarity < right->similarity) return 1; /* neither of these holds where it is not known */
    return left->id < right->id ? -1 : left->id > right->id;
}

void candidates_order(Candidate *candidates, uint64_t count) {
    for (uint64_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && candidates[end].query == candidates[first].query;) end++;
        if (end - first > 1) qsort(candidates + first, end - first, sizeof *candidates, candidate_order);
    }
}
