/* Making room for what is pending, reading it back, and the choice of how it is added and searched. */
#include "pending.h"

#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

typedef struct {
    void (*index)(Pending *, uint32_t);
    uint32_t (*near)(const Pending *, uint64_t, unsigned, uint32_t, uint32_t);
    Status (*search)(PendingSearch *, const uint64_t *, uint64_t);
} Kernels;

static Kernels kernels = {pending_index_portable, pending_near_portable, pending_search_portable};

void pending_choose(InstructionSet set) {
    kernels = (Kernels){pending_index_portable, pending_near_portable, pending_search_portable};
#if FPSTORE_X86
    if (set >= SET_FAST) kernels = (Kernels){pending_index_fast, pending_near_fast, pending_search_fast};
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(pending_choose)

void pending_append(Pending *pending, const uint64_t *keys, const uint64_t *ids, uint32_t count, uint64_t position,
                    uint64_t live_since) {
    /* Of pending nothing is read again: for all that the compiler knows a row may be of it. */
    char *at = (char *)pending_row(pending, pending->count + 1);
    const size_t row_bytes = pending->row_bytes;
    if (ids == NULL)
        for (uint32_t i = 0; i < count; i++, at += row_bytes) *(Row *)at = (Row){.position = position, .key = keys[i]};
    else
        for (uint32_t i = 0; i < count; i++, at += row_bytes) {
            Row *row = (Row *)at;
            row->position = position, row->key = keys[i], row->id[0] = ids[i];
        }
    if (live_since > pending->live_since) pending->live_since = live_since;
    __atomic_store_n(&pending->appended, count, __ATOMIC_RELAXED);
    __atomic_store_n(&pending->count, pending->count + count, __ATOMIC_RELEASE);
}

/* Where as many further rows would end as came last, in bytes; 0 where none came. */
static uint64_t further_end(const Pending *pending) {
    uint32_t count = pending_count(pending), left = pending->capacity - count;
    uint32_t rows = __atomic_load_n(&pending->appended, __ATOMIC_RELAXED);
    if (rows > PENDING_READY_ROWS) rows = PENDING_READY_ROWS;
    return rows == 0 ? 0 : ((uint64_t)count + 1 + (rows < left ? rows : left)) * pending->row_bytes;
}

int pending_is_unready(const Pending *pending) {
    return __atomic_load_n(&pending->ready_bytes, __ATOMIC_RELAXED) < further_end(pending);
}

void pending_make_ready(Pending *pending) {
    uint64_t end = further_end(pending), used = ((uint64_t)pending->count + 1) * pending->row_bytes;
    uint64_t ready = pending->ready_bytes;
    /* The page of the last row is there. */
    if (ready < used) ready = used + (-(uintptr_t)(pending->rows + used) & (PENDING_PAGE - 1));
    for (unsigned i = 0; i < PENDING_PAGES && ready < end; i++, ready += PENDING_PAGE)
        *(volatile char *)(pending->rows + ready) = 0;
    __atomic_store_n(&pending->ready_bytes, ready, __ATOMIC_RELAXED);
}

void pending_copy(Pending *pending, const Pending *source, uint32_t first, uint32_t end) {
    uint32_t before = pending->count;
    for (uint32_t i = 1; i <= end - first; i++) {
        const Row *from = pending_row(source, first + i);
        Row *row = pending_row(pending, before + i);
        row->position = from->position;
        row->key = from->key;
        if (source->with_ids) row->id[0] = from->id[0];
    }
    if (source->live_since > pending->live_since) pending->live_since = source->live_since;
    __atomic_store_n(&pending->count, before + end - first, __ATOMIC_RELEASE);
}

uint32_t pending_indexed(const Pending *pending) { return __atomic_load_n(&pending->indexed, __ATOMIC_ACQUIRE); }

void pending_index(Pending *pending, uint32_t most) { kernels.index(pending, most); }

uint32_t pending_near(const Pending *pending, uint64_t query, unsigned distance, uint32_t first, uint32_t end) {
    return kernels.near(pending, query, distance, first, end);
}

/* How many of the numbers below 2^bits have exactly `ones` bits set; bits is at most 31. */
static uint32_t choose(unsigned bits, unsigned ones) {
    uint64_t result = 1;
    if (ones > bits) return 0;
    for (unsigned i = 0; i < ones; i++) result = result * (bits - i) / (i + 1);
    return (uint32_t)result;
}

/* The level of patterns for this many flips: how many bits its widest table needs; 0 when no table flips so many. */
static unsigned pending_level_bits(const Pending *pending, unsigned flips) {
    unsigned widest = 0;
    for (unsigned t = 0; t < pending->table_count; t++) {
        const PendingTable *table = &pending->tables[t];
        if (table->flips >= flips && table->bucket_bits > widest) widest = table->bucket_bits;
    }
    return widest;
}

static void pending_fill_patterns(Pending *pending) {
    for (unsigned level = 0; level < pending->levels; level++) {
        uint64_t pattern = low_bits(level);
        uint32_t count = choose(pending_level_bits(pending, level), level);
        for (uint32_t i = 0; i < count; i++) {
            pending->patterns[pending->pattern_level[level] + i] = (uint32_t)pattern;
            /* The next larger number with as many bits set. */
            uint64_t lowest = pattern & -pattern, carried = pattern + lowest;
            if (lowest != 0) pattern = carried | ((pattern ^ carried) >> 2) / lowest;
        }
    }
}

typedef struct {
    uintptr_t base;
    uint64_t used;
} Arena;

static void *arena_take(Arena *arena, uint64_t count, uint64_t bytes) {
    void *at = (void *)(arena->base + arena->used);
    arena->used += (count * bytes + 63) & ~(uint64_t)63;
    return at;
}

/* Lay everything out from base on; how many bytes it takes. */
static uint64_t pending_lay_out(Pending *pending, uintptr_t base, uint32_t pattern_count) {
    Arena arena = {base, 0};
    uint64_t numbers = (uint64_t)pending->capacity + 1;
    pending->entries = arena_take(&arena, numbers, pending->entry_bytes);
    pending->rows = arena_take(&arena, numbers, pending->row_bytes);
    pending->before = arena_take(&arena, numbers, sizeof *pending->before);
    pending->patterns = arena_take(&arena, pattern_count, sizeof *pending->patterns);
    pending->hash_heads = arena_take(&arena, (uint64_t)1 << pending->hash_bits, sizeof *pending->hash_heads);
    for (unsigned t = 0; t < pending->table_count; t++) {
        PendingTable *table = &pending->tables[t];
        table->heads = arena_take(&arena, (uint64_t)1 << table->bucket_bits, sizeof *table->heads);
    }
    return arena.used;
}

enum { MAPPED_BYTES = 1 << 20, LARGE_PAGES_BYTES = 1 << 26 };

/* Much is had of the system: memory that was used before would be set to zero, all of it, and most of it in vain. */
static void *zeros(size_t bytes) {
    if (bytes < MAPPED_BYTES) return calloc(1, bytes);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void use_large_pages(char *first, const char *end) {
#ifdef MADV_HUGEPAGE
    first += -(uintptr_t)first & (PENDING_PAGE - 1);
    if (first < end) (void)madvise(first, (size_t)(end - first), MADV_HUGEPAGE);
#else
    (void)first;
    (void)end;
#endif
}

void pending_free(Pending *pending) {
    free(pending->tables);
    if (pending->arena_bytes < MAPPED_BYTES)
        free(pending->arena);
    else
        munmap(pending->arena, pending->arena_bytes);
}

Status pending_init(Pending *pending, const uint64_t *masks, const unsigned *flips, unsigned table_count,
                    unsigned key_bits, unsigned max_distance, int with_ids, uint32_t capacity, uint64_t secret) {
    unsigned bits = capacity > 2 ? bit_length(capacity - 1) : 1; /* so that a bucket has a key or less on average */
    uint32_t pattern_count = 0;
    pending->tables = calloc(table_count, sizeof *pending->tables);
    if (pending->tables == NULL) return NO_MEMORY;
    pending->table_count = table_count;
    pending->max_distance = max_distance;
    pending->capacity = capacity;
    pending->hash_bits = bits;
    pending->secret = secret | 1;
    pending->with_ids = with_ids;
    pending->row_bytes = with_ids ? sizeof(Row) + sizeof(uint64_t) : sizeof(Row);
    pending->entry_bytes = (offsetof(Entry, next) + (table_count + 1) * sizeof(uint32_t) + 7) & ~(size_t)7;
    for (unsigned t = 0; t < table_count; t++) {
        PendingTable *table = &pending->tables[t];
        permutation_init(&table->permutation, masks[t], key_bits);
        table->bucket_bits = table->permutation.prefix_bits < bits ? table->permutation.prefix_bits : bits;
        table->bucket_shift = key_bits - table->bucket_bits;
        table->flips = flips[t];
        for (unsigned level = 0; level < PENDING_LEVELS; level++)
            table->patterns[level] = choose(table->bucket_bits, level);
    }
    for (; pending->levels < PENDING_LEVELS; pending->levels++) {
        uint32_t count = choose(pending_level_bits(pending, pending->levels), pending->levels);
        if (count > capacity - pattern_count) break;
        pending->pattern_level[pending->levels] = pattern_count;
        pattern_count += count;
    }
    uint64_t bytes = pending_lay_out(pending, 0, pattern_count) + 63;
    if (bytes > SIZE_MAX) return NO_MEMORY;
    pending->arena = zeros((size_t)bytes);
    if (pending->arena == NULL) return NO_MEMORY;
    pending->arena_bytes = (size_t)bytes;
    pending_lay_out(pending, ((uintptr_t)pending->arena + 63) & ~(uintptr_t)63, pattern_count);
    /* Of very much, which a writer's index is and a reader's is not, buckets and entries are all over: each page of
       4 KiB of them is had twice, to be read and to be written to, and each access has to find its page. In large pages
       both are rare. Rows come one behind the other. */
    if (bytes >= LARGE_PAGES_BYTES) {
        use_large_pages(pending->entries, pending->rows);
        use_large_pages((char *)pending->before, (char *)pending->arena + pending->arena_bytes);
    }
    pending_fill_patterns(pending);
    return OK;
}

uint32_t pending_newest(const Pending *pending, const Entry *entry, uint32_t end) {
    uint32_t number = __atomic_load_n(&entry->newest_row, __ATOMIC_ACQUIRE);
    while (number > end) number = pending->before[number];
    return number;
}

void pending_search_init(PendingSearch *search, const Pending *pending, unsigned distance, uint32_t end) {
    memset(search, 0, offsetof(PendingSearch, cursors)); /* those are written before they are read */
    search->pending = pending;
    search->distance = distance;
    search->end = end;
    search->live = 0;
}

Status pending_add_match(PendingSearch *search, uint32_t query, const Entry *entry, unsigned distance) {
    Match match = {entry->key, query, distance};
    if (search->after != NULL && match_order(&match, &search->after[query]) <= 0) return OK;
    if (search->bounds != NULL && match_order(&match, &search->bounds[query]) > 0) return OK;
    if (search->keep != 0) {
        /* One that is too young would take the place of another. */
        if (pending_newest(search->pending, entry, search->end) == 0) return OK;
        if (search->match_count == search->keep_room) {
            if (search->bounds == NULL) search->bounds = match_bounds(search->query_count);
            search->match_count =
                match_keep(search->matches, search->match_count, sizeof *search->matches, search->keep, search->bounds);
        }
    }
    if (search->match_most != 0 && search->match_count == search->match_most) return TOO_MANY;
    if (search->match_count == search->match_room) {
        uint64_t room = search->match_room ? 2 * search->match_room : 16;
        PendingMatch *matches = realloc(search->matches, room * sizeof *matches);
        if (matches == NULL) return NO_MEMORY;
        search->matches = matches;
        search->match_room = room;
    }
    __builtin_prefetch(pending_row(search->pending, __atomic_load_n(&entry->newest_row, __ATOMIC_RELAXED)));
    search->matches[search->match_count++] = (PendingMatch){match, entry};
    return OK;
}

/* How many rows the matches have. */
static void pending_count_rows(PendingSearch *search) {
    for (uint64_t i = 0; i < search->match_count; i++) {
        uint32_t number = pending_newest(search->pending, search->matches[i].entry, search->end);
        for (; number != 0; number = search->pending->before[number]) search->row_count++;
    }
}

void pending_fill(const PendingSearch *search, int64_t *query, uint64_t *fingerprint, uint16_t *distance, uint64_t *ids,
                  uint64_t *positions) {
    uint64_t filled = 0;
    for (uint64_t i = 0; i < search->match_count; i++) {
        const PendingMatch *found = &search->matches[i];
        for (uint32_t number = pending_newest(search->pending, found->entry, search->end); number != 0; filled++) {
            const Row *row = pending_row(search->pending, number);
            query[filled] = found->match.query;
            fingerprint[filled] = found->match.fingerprint;
            distance[filled] = (uint16_t)found->match.distance;
            positions[filled] = row->position;
            if (ids != NULL) ids[filled] = row->id[0];
            number = search->pending->before[number];
        }
    }
}

uint64_t pending_walk_rows(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end,
                           PendingWalk *walk, uint64_t room, int64_t *which, uint64_t *ids, uint64_t *positions) {
    uint64_t filled = 0;
    while (filled < room && walk->index < count) {
        if (walk->row == 0) walk->row = pending_newest(pending, pending_entry(pending, entries[walk->index]), end);
        for (; walk->row != 0 && filled < room; filled++) {
            const Row *row = pending_row(pending, walk->row);
            which[filled] = (int64_t)walk->index;
            positions[filled] = row->position;
            if (ids != NULL) ids[filled] = row->id[0];
            walk->row = pending->before[walk->row];
        }
        if (walk->row == 0) walk->index++;
    }
    return filled;
}

void pending_least_ids(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end, uint64_t *ids) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t number = pending_newest(pending, pending_entry(pending, entries[i]), end);
        ids[i] = pending_row(pending, number)->id[0];
        while ((number = pending->before[number]) != 0) {
            uint64_t id = pending_row(pending, number)->id[0];
            if (id < ids[i]) ids[i] = id;
        }
    }
}

uint32_t pending_entry_number(const Pending *pending, const PendingMatch *match) {
    return (uint32_t)((uint64_t)((const char *)match->entry - pending->entries) / pending->entry_bytes);
}

void pending_rows(const Pending *pending, uint32_t first, uint32_t end, uint64_t *keys, uint64_t *ids,
                  uint64_t *positions) {
    for (uint32_t i = 0; i < end - first; i++) {
        const Row *row = pending_row(pending, first + i + 1);
        keys[i] = row->key;
        positions[i] = row->position;
        if (ids != NULL) ids[i] = row->id[0];
    }
}

uint64_t pending_last_position(const Pending *pending) {
    return pending->count > 0 ? pending_row(pending, pending->count)->position : 0;
}

uint32_t pending_rows_before(const Pending *pending, uint64_t position) {
    uint32_t first = 0, end = pending_count(pending);
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (pending_row(pending, middle + 1)->position < position)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

uint64_t pending_probes(const Pending *pending, unsigned distance) {
    uint64_t probes = 0;
    for (unsigned t = 0; t < pending->table_count; t++) {
        const PendingTable *table = &pending->tables[t];
        for (unsigned flips = 0; flips <= table->flips && flips <= distance && table->patterns[flips] != 0; flips++) {
            if (flips >= pending->levels) return (uint64_t)1 << 32;
            probes += table->patterns[flips];
        }
    }
    return probes;
}

uint32_t pending_count(const Pending *pending) { return __atomic_load_n(&pending->count, __ATOMIC_ACQUIRE); }

Status pending_search(PendingSearch *search, const uint64_t *queries, uint64_t count) {
    Status status = kernels.search(search, queries, count);
    if (status != OK) return status;
    if (search->keep != 0) {
        search->match_count =
            match_keep(search->matches, search->match_count, sizeof *search->matches, search->keep, NULL);
        return OK;
    }
    if (search->match_count > 1) qsort(search->matches, search->match_count, sizeof *search->matches, match_order);
    pending_count_rows(search);
    return OK;
}
