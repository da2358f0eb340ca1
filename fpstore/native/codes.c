/* What a search of wide codes has found, its patterns, and the choice of how it searches. */
#include "codes.h"

typedef struct {
    Status (*search)(Pages *, const Codes *, const uint64_t *, uint32_t, unsigned, CodeMatches *);
    Status (*scan)(Pages *, const Codes *, const uint64_t *, uint32_t, unsigned, CodeMatches *);
    Status (*near)(const uint64_t *, uint64_t, uint64_t, unsigned, const uint64_t *, uint32_t, unsigned, CodeMatches *);
    void (*keys)(const uint64_t *, uint64_t, unsigned, const uint64_t *, uint64_t *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { codes_search_##set, codes_scan_##set, codes_near_##set, codes_keys_##set }

static Kernels kernels = {codes_search_portable, codes_scan_portable, codes_near_portable, codes_keys_portable};

KERNELS_CHOSEN_AT_LOAD(codes_choose)

uint64_t code_pattern_count(unsigned slot_bits, unsigned flips, uint64_t most) {
    uint64_t total = 0, choices = 1;
    for (unsigned used = 0; used <= flips && used <= slot_bits; used++) {
        if (choices >= most - total) return NO_PATTERNS;
        total += choices;
        choices = choices * (slot_bits - used) / (used + 1); /* below most * slot_bits */
    }
    return total;
}

void code_patterns(unsigned slot_bits, unsigned flips, CodePattern *patterns) {
    for (unsigned used = 0; used <= flips && used <= slot_bits; used++) {
        uint64_t pattern = low_bits(used);
        const uint64_t last = pattern << (slot_bits - used);
        for (;;) {
            *patterns++ = (CodePattern){pattern, flips - used};
            if (pattern == last) break;
            /* The next number with as many ones. */
            uint64_t lowest = pattern & -pattern, raised = pattern + lowest;
            pattern = raised | ((pattern ^ raised) >> (__builtin_ctzll(lowest) + 2));
        }
    }
}

/* Whether one match of a query comes before another. */
static int comes_before(const CodeMatches *matches, const Match *one, const Match *other) {
    const HeldCodes *rows = matches->rows;
    if (rows == NULL || one->distance != other->distance) return match_order(one, other) < 0;
    const uint64_t *left = rows->codes + one->fingerprint * rows->words;
    const uint64_t *right = rows->codes + other->fingerprint * rows->words;
    for (unsigned i = 0; i < rows->words; i++)
        if (left[i] != right[i]) return left[i] < right[i];
    if (rows->ids != NULL && rows->ids[one->fingerprint] != rows->ids[other->fingerprint])
        return rows->ids[one->fingerprint] < rows->ids[other->fingerprint];
    return one->fingerprint < other->fingerprint;
}

/* Put a match where the last of those kept is, which are a heap with the last one in front. */
static void replace_last(const CodeMatches *matches, Match match) {
    Match *heap = matches->found + matches->begin;
    const uint64_t count = matches->count - matches->begin;
    uint64_t at = 0;
    for (uint64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && comes_before(matches, &heap[child], &heap[child + 1])) child++;
        if (comes_before(matches, &heap[child], &match)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = match;
}

/* Let the match that was added take its place in the heap. */
static void raise_added(const CodeMatches *matches) {
    Match *heap = matches->found + matches->begin;
    uint64_t at = matches->count - matches->begin - 1;
    const Match match = heap[at];
    for (uint64_t above; at > 0 && comes_before(matches, &heap[above = (at - 1) / 2], &match); at = above)
        heap[at] = heap[above];
    heap[at] = match;
}

Status codes_match(CodeMatches *matches, uint64_t rank, uint32_t query, unsigned distance) {
    const Match match = {rank, query, distance};
    if (matches->keep > 0) {
        if (matches->after != NULL && !comes_before(matches, matches->after, &match)) return OK;
        if (matches->count - matches->begin == matches->keep) {
            if (comes_before(matches, &match, &matches->found[matches->begin])) replace_last(matches, match);
            return OK;
        }
    }
    if (matches->most > 0 && matches->count >= matches->most) return TOO_MANY;
    if (matches->count == matches->room) {
        uint64_t room = matches->room > 0 ? 2 * matches->room : 64;
        Match *found = realloc(matches->found, room * sizeof(Match));
        if (found == NULL) return NO_MEMORY;
        matches->found = found;
        matches->room = room;
    }
    matches->found[matches->count++] = match;
    if (matches->keep > 0) raise_added(matches);
    return OK;
}

Status codes_search(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                    CodeMatches *matches) {
    return kernels.search(pages, codes, query, index, distance, matches);
}

Status codes_scan(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                  CodeMatches *matches) {
    return kernels.scan(pages, codes, query, index, distance, matches);
}

Status codes_near(const uint64_t *codes, uint64_t first, uint64_t count, unsigned words, const uint64_t *query,
                  uint32_t index, unsigned distance, CodeMatches *matches) {
    return kernels.near(codes, first, count, words, query, index, distance, matches);
}

void codes_keys(const uint64_t *codes, uint64_t count, unsigned words, const uint64_t *mask, uint64_t *keys) {
    kernels.keys(codes, count, words, mask, keys);
}
