#include "single.h"

NotedCode code_before_scan, code_from_scan;

/* Turns from one stage of a segment to its next one: what it asked for arrives meanwhile. */
#define LAG 1
#define IN_FLIGHT (2 * LAG + 1)

void parts_make_several(Part *parts, unsigned count) {
    Pages *pages[SEVERAL_PARTS];
    Table *const *tables[SEVERAL_PARTS];
    for (unsigned first = 0; first < count;) {
        const unsigned table_count = parts[first].table_count,
                       most = count - first < SEVERAL_PARTS ? count - first : SEVERAL_PARTS;
        unsigned found = 0;
        for (; found < most && parts[first + found].table_count == table_count; found++)
            pages[found] = parts[first + found].pages, tables[found] = parts[first + found].tables;
        found = several_count(tables, table_count, found);
        if (found > 0) parts[first].several = several_make(pages, tables, table_count, found);
        first += found > 0 ? found : 1;
    }
}

void parts_free_several(Part *parts, unsigned count) {
    for (unsigned i = 0; i < count; i++) several_free(parts[i].several);
}

unsigned part_together(const Part *part) { return part->several == NULL ? 0 : part->several->part_count; }

void part_ask(const Part *part) {
    if (part->tables == NULL) return; /* behind the last one */
    __builtin_prefetch(part->pages);
    __builtin_prefetch((const char *)part->pages + CACHE_LINE);
    for (unsigned t = 0; t < part->table_count; t++) {
        const char *table = (const char *)part->tables[t];
        for (size_t at = 0; at < offsetof(Table, permutation.apply); at += CACHE_LINE) __builtin_prefetch(table + at);
        for (size_t at = 0; at < sizeof(WideCode); at += CACHE_LINE)
            __builtin_prefetch(table + offsetof(Table, own) + at);
    }
}

static Status add_row(FoundRows *found, uint64_t fingerprint, unsigned distance, uint64_t id, uint64_t position) {
    if (found->count == found->most) return TOO_MANY;
    if (found->count == found->room) {
        const uint64_t room = 2 * found->room;
        const int few = found->rows == found->few;
        FoundRow *rows = realloc(few ? NULL : found->rows, room * sizeof *rows);
        if (rows == NULL) return NO_MEMORY;
        if (few) memcpy(rows, found->few, sizeof found->few);
        found->rows = rows;
        found->room = room;
    }
    found->rows[found->count++] = (FoundRow){fingerprint, id, position, distance};
    return OK;
}

void found_free(FoundRows *found) {
    if (found->rows != found->few) free(found->rows);
}

/* A row for each id of a fingerprint that the search has found. */
static Status add_ids(const Part *part, const Match *match, FoundRows *found) {
    uint64_t key, first, count, value, id;
    permute_keys(&part->tables[0]->permutation, &match->fingerprint, 1, &key);
    Status status = ids_of_key(part->pages, part->tables[0], part->ids, key, &first, &count);
    for (uint64_t i = 0; i < count && status == OK; i++) {
        status = packed_get(part->pages, part->ids->values_offset, part->ids->width, first + i, &value);
        if (status == OK) status = id_of_value(part->pages, part->ids, value, &id);
        if (status == OK) status = add_row(found, match->fingerprint, match->distance, id, part->position);
    }
    return status;
}

/* Have a row for each id of each match; which of the parts it is of, its `query` says. */
static Status add_parts(const Part *parts, const Search *search, FoundRows *found) {
    Status status = OK;
    for (uint64_t i = 0; i < search->match_count && status == OK; i++) {
        const Match *match = &search->matches[i];
        const Part *part = &parts[match->query];
        status = part->ids == NULL ? add_row(found, match->fingerprint, match->distance, 0, part->position)
                                   : add_ids(part, match, found);
    }
    return status;
}

/* How far a further row may be, where only the first found->keep are wanted. */
static unsigned limit_of(FoundRows *found, unsigned distance) {
    if (found->keep == 0 || found->count < found->keep) return distance;
    single_order(found);
    if (found->count < found->keep) return distance;
    const unsigned last = found->rows[found->keep - 1].distance;
    return last < distance ? last : distance;
}

static void keep_first(Search *search, uint64_t parts, uint64_t keep) {
    search->keep = keep;
    search->keep_room = match_keep_room(parts, keep);
    search->query_count = parts;
}

/* Not on the stack, which has 128 KiB in small threads. A thread that searches alone has the first ones, as to find its
   own takes three waits for memory after other work. Where its own are taken too, a signal's handler asks while the
   thread waits for a page (source.h): that has others. */
static Search first_searches[IN_FLIGHT];
static int first_are_taken;
static _Thread_local Search own_searches[IN_FLIGHT];
static _Thread_local int own_are_taken;

/* NULL without memory. */
static Search *take_searches(void) {
    if (!__atomic_exchange_n(&first_are_taken, 1, __ATOMIC_ACQUIRE)) return first_searches;
    if (own_are_taken) return calloc(1, sizeof own_searches);
    own_are_taken = 1;
    return own_searches;
}

static void give_back(Search *searches) {
    if (searches == first_searches)
        __atomic_store_n(&first_are_taken, 0, __ATOMIC_RELEASE);
    else if (searches == own_searches)
        own_are_taken = 0;
    else
        free(searches);
}

/* Search segments in turns: each stage of one comes after the stage before it of the next few. */
static Status search_in_turns(Search *searches, const Part *parts, unsigned count, uint64_t query, unsigned distance,
                              FoundRows *found) {
    Status status = OK;
    unsigned begun = 0, ended = 0;
    for (unsigned turn = 0; turn < count + 2 * LAG && status == OK; turn++) {
        if (turn < count) {
            const Part *part = &parts[turn];
            Search *search = &searches[turn % IN_FLIGHT];
            search_init(search, part->pages, part->tables, part->table_count, distance, 1);
            search_keep_few(search);
            search->match_most = found->most;
            if (found->keep > 0) keep_first(search, 1, found->keep);
            status = search_begin(search, &query, 1, 0);
            begun++;
        }
        if (status == OK && turn >= LAG && turn - LAG < count) status = search_ask(&searches[(turn - LAG) % IN_FLIGHT]);
        if (status == OK && turn >= 2 * LAG) {
            Search *search = &searches[ended % IN_FLIGHT];
            if (ended == 0 && found->keep > 0) code_ask(&code_from_scan);
            status = search_end(search);
            if (status == OK) status = add_parts(&parts[ended], search, found);
            search_free(search);
            ended++;
        }
    }
    for (; ended < begun; ended++) search_free(&searches[ended % IN_FLIGHT]);
    return status;
}

/* Search the segments that parts[0].several is of. */
static Status search_together(Search *searches, const Part *parts, uint64_t query, unsigned distance,
                              FoundRows *found) {
    const Several *several = parts[0].several;
    Search *search = &searches[0];
    int answered;
    search_several_init(search, several, distance);
    search_keep_few(search);
    search->match_most = found->most;
    if (found->keep > 0) keep_first(search, several->part_count, found->keep);
    Status status = search_several(search, several, query, &answered);
    if (status == OK && answered) status = add_parts(parts, search, found);
    search_free(search);
    if (status != OK || answered) return status;
    return search_in_turns(searches, parts, several->part_count, query, distance, found);
}

static Status search_parts(const Sources *sources, uint64_t query, unsigned distance, FoundRows *found) {
    Search *searches = take_searches();
    Status status = searches == NULL ? NO_MEMORY : OK;
    for (unsigned first = 0, end; first < sources->part_count && status == OK; first = end) {
        const Part *parts = sources->parts;
        if (parts[first].several != NULL) {
            end = first + parts[first].several->part_count;
            status = search_together(searches, &parts[first], query, distance, found);
            continue;
        }
        for (end = first + 1; end < sources->part_count && parts[end].several == NULL;) end++;
        status = search_in_turns(searches, &parts[first], end - first, query, distance, found);
    }
    give_back(searches);
    return status;
}

/* Look at every key of a segment. */
static Status scan_part(const Part *part, uint64_t query, ScanRoom *room, Search *search) {
    const Table *table = part->tables[0];
    uint64_t key, limit = search->distance;
    Scan scan = {search, &key, &limit, 1, 0};
    permute_keys(&table->permutation, &query, 1, &key);
    chunk_code_init(&room->chunk->code, table->decode);
    Status status = scan_slots(&scan, 0, (uint64_t)1 << table->slot_bits, room->chunk, room->room);
    if (status == OK && search->keep > 0) scan_end(search);
    return status == OK && !search->done && scan.key_count != part->key_count ? BAD_BLOCK : status;
}

static Status scan_parts(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *room, FoundRows *found) {
    Status status = OK;
    for (unsigned i = 0; i < sources->part_count && status == OK; i++) {
        const Part *part = &sources->parts[i];
        Search search;
        search_init(&search, part->pages, part->tables, 1, limit_of(found, distance), 1);
        search.match_most = found->most;
        if (found->keep > 0) keep_first(&search, 1, found->keep);
        status = scan_part(part, query, room, &search);
        if (status == OK) status = add_parts(part, &search, found);
        search_free(&search);
    }
    return status;
}

/* Of the pending rows so many, from the first on, are found by their index; those after them are compared. */
static uint32_t indexed_rows(const Sources *sources) {
    uint32_t indexed = pending_indexed(sources->pending);
    return indexed < sources->pending_end ? indexed : sources->pending_end;
}

static Status compare_pending(const Sources *sources, uint64_t query, unsigned distance, uint32_t number,
                              FoundRows *found) {
    const Pending *pending = sources->pending;
    const uint32_t end = sources->pending_end;
    Status status = OK;
    while ((number = pending_near(pending, query, distance, number, end)) <= end && status == OK) {
        const Row *row = pending_row(pending, number++);
        status = add_row(found, row->key, (unsigned)__builtin_popcountll(row->key ^ query),
                         pending->with_ids ? row->id[0] : 0, row->position);
    }
    return status;
}

static Status search_pending(const Sources *sources, uint64_t query, unsigned distance, FoundRows *found) {
    const uint32_t indexed = indexed_rows(sources);
    PendingSearch search;
    pending_search_init(&search, sources->pending, distance, indexed);
    search.match_most = found->most;
    Status status = indexed > 0 ? pending_search(&search, &query, 1) : OK;
    for (uint64_t i = 0; i < search.match_count && status == OK; i++) {
        const PendingMatch *match = &search.matches[i];
        uint32_t number = pending_newest(search.pending, match->entry, search.end);
        for (; number != 0 && status == OK; number = search.pending->before[number]) {
            const Row *row = pending_row(search.pending, number);
            status = add_row(found, match->match.fingerprint, match->match.distance,
                             search.pending->with_ids ? row->id[0] : 0, row->position);
        }
    }
    free(search.matches);
    return status == OK ? compare_pending(sources, query, distance, indexed + 1, found) : status;
}

Status single_search(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, FoundRows *found) {
    Status status = scan == NULL ? search_parts(sources, query, distance, found)
                                 : scan_parts(sources, query, distance, scan, found);
    if (sources->pending_end > 0 && status == OK)
        status = search_pending(sources, query, limit_of(found, distance), found);
    return status;
}

void code_note(NotedCode *noted, const void *code, unsigned lines) {
    if (noted->count == NOTED_CODES) return; /* what is not asked for takes longer, and nothing else */
    noted->pieces[noted->count++] = (uint64_t)(uintptr_t)code / CACHE_LINE << 8 | lines;
}

void single_note_code(void) {
    code_note(&code_before_scan, (const void *)&keys_fit, 1);
    code_note(&code_before_scan, (const void *)&part_ask, 2);
    code_note(&code_before_scan, (const void *)&single_search, 12);
    code_note(&code_before_scan, (const void *)&search_in_turns, 9);
    code_note(&code_before_scan, (const void *)&search_init, 2);
    code_note(&code_before_scan, (const void *)&search_keep_few, 1);
    code_note(&code_before_scan, (const void *)&match_keep_room, 1);
    code_note(&code_before_scan, (const void *)&search_begin, 1);
    code_note(&code_from_scan, (const void *)&search_add, 5);
    code_note(&code_from_scan, (const void *)&search_end, 2);
    code_note(&code_from_scan, (const void *)&match_keep, 7);
    code_note(&code_from_scan, (const void *)&add_parts, 7);
    code_note(&code_from_scan, (const void *)&single_order, 3);
    code_note(&code_from_scan, (const void *)&sort_few, 3);
}

Status single_any(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, int *any) {
    Status status = OK;
    *any = 0;
    for (unsigned i = 0; i < sources->part_count && status == OK && !*any; i++) {
        const Part *part = &sources->parts[i];
        Search search;
        search_init(&search, part->pages, part->tables, part->table_count, distance, 1);
        search.first_only = 1;
        status = scan == NULL ? search_run(&search, &query, 1, 0) : scan_part(part, query, scan, &search);
        *any = search.match_count > 0;
        free(search.matches);
    }
    if (sources->pending_end > 0 && status == OK && !*any) {
        const uint32_t indexed = indexed_rows(sources);
        PendingSearch search;
        pending_search_init(&search, sources->pending, distance, indexed);
        search.keep = 1;
        search.keep_room = match_keep_room(1, 1);
        search.query_count = 1;
        status = indexed > 0 ? pending_search(&search, &query, 1) : OK;
        *any = search.match_count > 0 ||
               pending_near(search.pending, query, distance, indexed + 1, sources->pending_end) <= sources->pending_end;
        free(search.matches);
        free(search.bounds);
    }
    return status;
}

static int row_order(const void *a, const void *b) {
    const FoundRow *left = a, *right = b;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    if (left->fingerprint != right->fingerprint) return left->fingerprint < right->fingerprint ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

void single_order(FoundRows *found) {
    uint64_t kept = 0;
    sort_few(found->rows, found->count, sizeof *found->rows, row_order);
    for (uint64_t i = 0; i < found->count; i++)
        if (i == 0 || row_order(&found->rows[kept - 1], &found->rows[i]) != 0) found->rows[kept++] = found->rows[i];
    found->count = kept;
}
