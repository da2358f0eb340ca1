#include "match.h"

#include <stdlib.h>
#include <string.h>

#define MIN_KEEP_ROOM 64

int match_order(const void *a, const void *b) {
    const Match *left = a, *right = b;
    if (left->query != right->query) return left->query < right->query ? -1 : 1;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    return left->fingerprint < right->fingerprint ? -1 : left->fingerprint > right->fingerprint;
}

void sort_few(void *items, uint64_t count, size_t bytes, int (*order)(const void *, const void *)) {
    char *at = items, item[MOST_ITEM_BYTES];
    if (count > FEW_ITEMS) {
        qsort(items, count, bytes, order);
        return;
    }
    for (uint64_t i = 1; i < count; i++) {
        uint64_t place = i;
        while (place > 0 && order(at + (place - 1) * bytes, at + i * bytes) > 0) place--;
        if (place == i) continue;
        memcpy(item, at + i * bytes, bytes);
        memmove(at + (place + 1) * bytes, at + place * bytes, (i - place) * bytes);
        memcpy(at + place * bytes, item, bytes);
    }
}

uint64_t match_keep(void *matches, uint64_t count, size_t bytes, uint64_t keep, Match *bounds) {
    char *at = matches;
    uint64_t kept = 0, of_query = 0;
    sort_few(matches, count, bytes, match_order);
    for (uint64_t i = 0; i < count; i++) {
        const Match *match = (const Match *)(at + i * bytes);
        of_query = i > 0 && match->query == ((const Match *)(at + (kept - 1) * bytes))->query ? of_query + 1 : 1;
        if (of_query > keep) continue;
        if (of_query == keep && bounds != NULL) bounds[match->query] = *match;
        if (kept < i) memcpy(at + kept * bytes, match, bytes);
        kept++;
    }
    return kept;
}

Match *match_bounds(uint64_t query_count) {
    Match *bounds = query_count <= SIZE_MAX / sizeof(Match) ? malloc(query_count * sizeof(Match)) : NULL;
    for (uint64_t i = 0; bounds != NULL && i < query_count; i++)
        bounds[i] = (Match){UINT64_MAX, (uint32_t)i, UINT32_MAX};
    return bounds;
}

uint64_t match_keep_room(uint64_t query_count, uint64_t keep) {
    uint64_t room = 2 * query_count * keep;
    return room > MIN_KEEP_ROOM ? room : MIN_KEEP_ROOM;
}
