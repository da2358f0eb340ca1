/* What a search has found, and the choice of how it searches. */
#include "search.h"

typedef struct {
    Status (*begin)(Search *, const uint64_t *, uint64_t, uint64_t);
    Status (*ask)(Search *);
    Status (*end)(Search *);
    uint64_t (*scan)(const uint64_t *, uint64_t, uint64_t, unsigned);
    uint64_t (*touch)(Table *const *, unsigned, const Pages *, const uint64_t *, uint64_t);
    void (*ask_code)(void);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { search_begin_##set, search_ask_##set, search_end_##set, scan_keys_##set, touch_##set, ask_code_##set }

static Kernels kernels = {search_begin_portable, search_ask_portable, search_end_portable,
                          scan_keys_portable,    touch_portable,      ask_code_portable};

KERNELS_CHOSEN_AT_LOAD(search_choose)

void search_init(Search *search, Pages *pages, Table *const *tables, unsigned table_count, unsigned distance,
                 uint64_t query_count) {
    memset(search, 0, offsetof(Search, few)); /* what comes after these is written before it is read */
    search->pages = pages;
    search->tables = tables;
    search->table_count = search->own_tables = table_count;
    search->distance = distance;
    /* Each key takes a bit of payload or more, and a match is reported once. */
    search->match_limit = table_count > 0 ? query_count * tables[0]->payload_bits : 0;
}

Table *tables_with_flips(Table *const *tables, unsigned count, const unsigned *flips, Table **made) {
    Table *copies = malloc((count + 1) * sizeof *copies);
    for (unsigned i = 0; copies != NULL && i < count; i++) {
        copies[i] = *tables[i];
        copies[i].flips = flips[i];
        copies[i].fences = FENCES_UNKNOWN; /* of the other they may be noted just now */
        made[i] = &copies[i];
    }
    return copies;
}

Status search_add(Search *search, uint32_t query, uint64_t fingerprint, unsigned distance) {
    Match match = {fingerprint, query, distance};
    if (search->found_count == search->match_limit) return BAD_BLOCK;
    search->found_count++;
    if (search->after != NULL && match_order(&match, &search->after[query]) <= 0) return OK;
    if (search->bounds != NULL && match_order(&match, &search->bounds[query]) > 0) return OK;
    if (search->keep != 0 && search->match_count == search->keep_room) {
        if (search->bounds == NULL) search->bounds = match_bounds(search->query_count);
        search->match_count =
            match_keep(search->matches, search->match_count, sizeof match, search->keep, search->bounds);
    }
    if (search->match_most != 0 && search->match_count == search->match_most) return TOO_MANY;
    if (search->match_count == search->match_room) {
        const uint64_t room = search->match_room ? 2 * search->match_room : 16;
        const int few = search->matches == search->few;
        Match *matches = realloc(few ? NULL : search->matches, room * sizeof *matches);
        if (matches == NULL) return NO_MEMORY;
        if (few) memcpy(matches, search->few, search->match_count * sizeof *matches);
        search->matches = matches;
        search->match_room = room;
    }
    search->matches[search->match_count++] = match;
    search->done = search->first_only;
    return OK;
}

void search_keep_few(Search *search) { search->matches = search->few, search->match_room = FEW_MATCHES; }

void search_free(Search *search) {
    if (search->matches != search->few) free(search->matches);
    free(search->bounds);
}

Status search_begin(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index) {
    return kernels.begin(search, queries, count, first_index);
}

Status search_ask(Search *search) { return search->done ? OK : kernels.ask(search); }

Status search_end(Search *search) {
    Status status = search->done ? OK : kernels.end(search);
    if (status == OK && search->keep != 0)
        search->match_count = match_keep(search->matches, search->match_count, sizeof(Match), search->keep, NULL);
    return status;
}

void search_ask_code(void) { kernels.ask_code(); }

void search_several_init(Search *search, const Several *several, unsigned distance) {
    const unsigned count = several->part_count * several->table_count;
    search_init(search, NULL, several->tables, count, distance, 1);
    search->own_tables = several->table_count;
    search->match_limit = 0;
    for (unsigned part = 0; part < several->part_count; part++)
        search->match_limit += several->tables[part * several->table_count]->payload_bits;
}

Status search_several(Search *search, const Several *several, uint64_t query, int *answered) {
    Status status = OK;
    *answered = 0;
#if FPSTORE_X86
    status = search_several_wide(search, several, query, answered);
#else
    (void)search, (void)several, (void)query;
#endif
    if (status == OK && search->keep != 0)
        search->match_count = match_keep(search->matches, search->match_count, sizeof(Match), search->keep, NULL);
    return status;
}

Status search_run(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index) {
    Status status = search_begin(search, queries, count, first_index);
    if (status == OK) status = search_ask(search);
    return status == OK ? search_end(search) : status;
}

uint64_t scan_keys(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance) {
    return kernels.scan(keys, count, query, distance);
}

uint64_t search_touch(Table *const *tables, unsigned table_count, const Pages *pages, const uint64_t *queries,
                      uint64_t count) {
    return kernels.touch(tables, table_count, pages, queries, count);
}
