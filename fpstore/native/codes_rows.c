/* Rows of wide codes, of what the search of each segment finds. */
#include "codes_rows.h"

static Status add_row(CodeRows *found, const CodePart *part, const Match *match, uint64_t id) {
    if (found->count == found->most) return TOO_MANY;
    if (found->count == found->room) {
        const uint64_t room = found->room ? 2 * found->room : 16;
        CodeRow *rows = realloc(found->rows, room * sizeof *rows);
        if (rows == NULL) return NO_MEMORY;
        found->rows = rows;
        found->room = room;
    }
    const uint64_t size = 8 * part->codes->words;
    CodeRow *row = &found->rows[found->count++];
    *row = (CodeRow){{0}, id, match->distance};
    /* The search has read it, so its page is checked. */
    memcpy(row->code, part->pages->base + part->codes->codes_offset + match->fingerprint * size, size);
    return OK;
}

static Status add_ids(CodeRows *found, const CodePart *part, const Match *match) {
    const Ids *ids = part->ids;
    uint64_t first, count, value, id;
    Status status = ids_range(part->pages, ids, match->fingerprint, &first, &count);
    for (uint64_t i = 0; i < count && status == OK; i++) {
        status = packed_get(part->pages, ids->values_offset, ids->width, first + i, &value);
        if (status == OK) status = id_of_value(part->pages, ids, value, &id);
        if (status == OK) status = add_row(found, part, match, id);
    }
    return status;
}

static int row_order(const void *one, const void *other) {
    const CodeRow *a = one, *b = other;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    for (unsigned i = 0; i < MAX_CODE_WORDS; i++)
        if (a->code[i] != b->code[i]) return a->code[i] < b->code[i] ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static void in_order(CodeRows *found) {
    uint64_t kept = 0;
    if (found->count > 1) qsort(found->rows, found->count, sizeof *found->rows, row_order);
    for (uint64_t i = 0; i < found->count; i++)
        if (i == 0 || row_order(&found->rows[kept - 1], &found->rows[i]) != 0) found->rows[kept++] = found->rows[i];
    found->count = kept;
}

/* How far a further row may be, where only the first found->keep are wanted. */
static unsigned limit_of(CodeRows *found, unsigned distance) {
    if (found->keep == 0 || found->count < found->keep) return distance;
    in_order(found);
    if (found->count < found->keep) return distance;
    const unsigned last = found->rows[found->keep - 1].distance;
    return last < distance ? last : distance;
}

Status codes_rows(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance,
                  CodeRows *found) {
    CodeMatches matches = {.most = found->most, .keep = found->keep};
    Status (*const search)(Pages *, const Codes *, const uint64_t *, uint32_t, unsigned, CodeMatches *) =
        found->scan ? codes_scan : codes_search;
    Status status = OK;
    for (unsigned p = 0; p < part_count && status == OK; p++) {
        matches.count = 0;
        status = search(parts[p].pages, parts[p].codes, query, 0, limit_of(found, distance), &matches);
        for (uint64_t i = 0; i < matches.count && status == OK; i++)
            status = parts[p].ids == NULL ? add_row(found, &parts[p], &matches.found[i], 0)
                                          : add_ids(found, &parts[p], &matches.found[i]);
    }
    found->scanned = matches.scanned;
    free(matches.found);
    in_order(found);
    return status;
}

Status codes_any(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance, int *any) {
    CodeMatches matches = {.first_only = 1};
    Status status = OK;
    for (unsigned p = 0; p < part_count && status == OK && matches.count == 0; p++)
        status = codes_search(parts[p].pages, parts[p].codes, query, 0, distance, &matches);
    *any = matches.count > 0;
    free(matches.found);
    return status;
}
