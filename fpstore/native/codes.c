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

Status codes_match(CodeMatches *matches, uint64_t rank, uint32_t query, unsigned distance) {
    if (matches->most > 0 && matches->count >= matches->most) return TOO_MANY;
    if (matches->count == matches->room) {
        uint64_t room = matches->room > 0 ? 2 * matches->room : 64;
        Match *found = realloc(matches->found, room * sizeof(Match));
        if (found == NULL) return NO_MEMORY;
        matches->found = found;
        matches->room = room;
    }
    matches->found[matches->count++] = (Match){rank, query, distance};
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
