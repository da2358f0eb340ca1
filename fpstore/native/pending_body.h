/* Adding pending fingerprints, searching them. Included once for each instruction set; see platform.h. */
#include "pending.h"

#include "bits_body.h"

ALWAYS_INLINE uint32_t *KERNEL(pending_head)(const PendingTable *table, uint64_t key) {
    return &table->heads[KERNEL(apply)(&table->permutation, key) >> table->bucket_shift];
}

ALWAYS_INLINE void KERNEL(pending_ask)(const Pending *pending, uint64_t key) {
    __builtin_prefetch(pending_hash_head(pending, key), 1);
    for (unsigned t = 0; t < pending->table_count; t++)
        __builtin_prefetch(KERNEL(pending_head)(&pending->tables[t], key), 1);
}

/* Chain a row to the entry of that number, which is one more than there are for a fingerprint that has none. */
static void KERNEL(pending_insert)(Pending *pending, uint32_t row_number, uint32_t number, uint64_t key) {
    Entry *entry = pending_entry(pending, number);
    pending->before[row_number] = entry->newest_row;
    __atomic_store_n(&entry->newest_row, row_number, __ATOMIC_RELEASE);
    if (number <= pending->entry_count) return;
    uint32_t *hash_head = pending_hash_head(pending, key);
    entry->key = key;
    entry->next[pending->table_count] = *hash_head;
    *hash_head = number;
    for (unsigned t = 0; t < pending->table_count; t++) {
        uint32_t *head = KERNEL(pending_head)(&pending->tables[t], key);
        entry->next[t] = *head;
        __atomic_store_n(head, number, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&pending->entry_count, number, __ATOMIC_RELEASE);
}

/* Index rows that are not, so many at most. */
void KERNEL(pending_index)(Pending *pending, uint32_t most) {
    uint32_t left = pending->count - pending->indexed;
    uint32_t first = pending->indexed + 1, end = first + (left < most ? left : most);
    for (uint32_t number = first; number < end && number - first < 2 * PENDING_AHEAD; number++)
        KERNEL(pending_ask)(pending, pending_row(pending, number)->key);
    for (uint32_t number = first; number < end; number++) {
        if (end - number > 2 * PENDING_AHEAD)
            KERNEL(pending_ask)(pending, pending_row(pending, number + 2 * PENDING_AHEAD)->key);
        if (end - number > PENDING_AHEAD)
            __builtin_prefetch(
                pending_entry(pending, *pending_hash_head(pending, pending_row(pending, number + PENDING_AHEAD)->key)));
        const Row *row = pending_row(pending, number);
        uint64_t key = row->key;
        uint32_t found = pending_find(pending, key), entry = found != 0 ? found : pending->entry_count + 1;
        int known = pending_has(pending, found, pending->with_ids ? row->id[0] : 0, pending->live_since);
        pending->before[number] = 0;
        if (!known) KERNEL(pending_insert)(pending, number, entry, key);
    }
    __atomic_store_n(&pending->indexed, end - 1, __ATOMIC_RELEASE);
}

uint32_t KERNEL(pending_near)(const Pending *pending, uint64_t query, unsigned distance, uint32_t first, uint32_t end) {
    while (first <= end && LIKELY(KERNEL(ones)(pending_row(pending, first)->key ^ query) > distance)) first++;
    return first;
}

/* An entry within the distance, met in a bucket of `table`: a match, unless this table's probe does not catch it or an
   earlier one's does. So each is reported once. */
static __attribute__((noinline)) Status KERNEL(pending_report)(PendingSearch *search, const PendingCursor *cursor) {
    const PendingTable *tables = search->pending->tables;
    const Entry *entry = cursor->at;
    uint64_t difference = entry->key ^ cursor->query;
    if (KERNEL(ones)(difference & tables[cursor->table].permutation.prefix_mask) > tables[cursor->table].flips)
        return OK;
    for (uint32_t earlier = 0; earlier < cursor->table; earlier++)
        if (KERNEL(ones)(difference & tables[earlier].permutation.prefix_mask) <= tables[earlier].flips) return OK;
    return pending_add_match(search, cursor->query_index, entry, KERNEL(ones)(difference));
}

/* Go from cursors[live..count), which stand at heads, to their entries; compare entries and go on to the next ones
   until at most `left` remain, which have had no time to arrive. */
static Status KERNEL(pending_walk)(PendingSearch *search, unsigned count, unsigned left) {
    const Pending *pending = search->pending;
    PendingCursor *cursors = search->cursors;
    unsigned live = search->live;
    for (unsigned i = live; i < count; i++) {
        uint32_t number = __atomic_load_n((const uint32_t *)cursors[i].at, __ATOMIC_ACQUIRE);
        cursors[live] = cursors[i];
        cursors[live].at = pending_entry(pending, number);
        __builtin_prefetch(cursors[live].at);
        live += number != 0; /* no branch: whether a bucket is empty cannot be foreseen */
    }
    do {
        unsigned kept = 0;
        for (unsigned i = 0; i < live; i++) {
            const Entry *entry = cursors[i].at;
            if (UNLIKELY(KERNEL(ones)(entry->key ^ cursors[i].query) <= search->distance)) {
                Status status = KERNEL(pending_report)(search, &cursors[i]);
                if (status != OK) return status;
            }
            uint32_t number = entry->next[cursors[i].table];
            cursors[kept] = cursors[i];
            cursors[kept].at = pending_entry(pending, number);
            __builtin_prefetch(cursors[kept].at);
            kept += number != 0;
        }
        live = kept;
    } while (live > left);
    search->live = live;
    return OK;
}

static Status KERNEL(pending_probe)(PendingSearch *search, const uint64_t *queries, uint64_t count) {
    const Pending *pending = search->pending;
    unsigned used = 0;
    for (uint64_t i = 0; i < count; i++)
        for (unsigned t = 0; t < pending->table_count; t++) {
            const PendingTable *table = &pending->tables[t];
            uint64_t bucket = (uint64_t)(KERNEL(pending_head)(table, queries[i]) - table->heads);
            unsigned most = table->flips < search->distance ? table->flips : search->distance;
            for (unsigned flips = 0; flips <= most && table->patterns[flips] != 0; flips++) {
                const uint32_t *patterns = pending->patterns + pending->pattern_level[flips];
                for (uint32_t j = 0; j < table->patterns[flips]; j++) {
                    const uint32_t *head = &table->heads[bucket ^ patterns[j]];
                    __builtin_prefetch(head);
                    search->cursors[used++] = (PendingCursor){head, queries[i], (uint32_t)i, t};
                    if (used == 2 * PENDING_CURSORS) {
                        Status status = KERNEL(pending_walk)(search, used, PENDING_CURSORS);
                        if (status != OK) return status;
                        used = search->live;
                    }
                }
            }
        }
    return used > 0 ? KERNEL(pending_walk)(search, used, 0) : OK;
}

static Status KERNEL(pending_scan)(PendingSearch *search, const uint64_t *queries, uint64_t count,
                                   uint32_t entry_count) {
    for (uint32_t first = 1; first <= entry_count; first += PENDING_TILE)
        for (uint64_t i = 0; i < count; i++)
            for (uint32_t number = first; number <= entry_count && number - first < PENDING_TILE; number++) {
                const Entry *entry = pending_entry(search->pending, number);
                unsigned distance = KERNEL(ones)(entry->key ^ queries[i]);
                if (LIKELY(distance > search->distance)) continue;
                Status status = pending_add_match(search, (uint32_t)i, entry, distance);
                if (status != OK) return status;
            }
    return OK;
}

/* Search for queries[0..count). Matches go to search->matches in no order. */
Status KERNEL(pending_search)(PendingSearch *search, const uint64_t *queries, uint64_t count) {
    uint32_t entry_count = __atomic_load_n(&search->pending->entry_count, __ATOMIC_ACQUIRE);
    return search->distance > search->pending->max_distance ||
                   pending_probes(search->pending, search->distance) * PENDING_SCAN_ENTRIES > entry_count
               ? KERNEL(pending_scan)(search, queries, count, entry_count)
               : KERNEL(pending_probe)(search, queries, count);
}
