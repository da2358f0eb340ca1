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

int codes_ask;

__attribute__((constructor)) static void choose_asking(void) { codes_ask = processor_gains_by_asking(); }

uint64_t code_pattern_count(unsigned slot_bits, unsigned flips, uint64_t most) {
    uint64_t total = 0, choices = 1;
    for (unsigned used = 0; used <= flips && used <= slot_bits; used++) {
        if (choices >= most - total) return NO_PATTERNS;
        total += choices;
        choices = choices * (slot_bits - used) / (used + 1); /* below most * slot_bits */
    }
    return total;
}

void code_patterns(unsigned slot_bits, unsigned flips, uint64_t *patterns) {
    for (unsigned used = 0; used <= flips && used <= slot_bits; used++) {
        uint64_t pattern = low_bits(used);
        const uint64_t last = pattern << (slot_bits - used);
        for (;;) {
            *patterns++ = pattern | (uint64_t)used << PATTERN_BITS;
            if (pattern == last) break;
            /* The next number with as many ones. */
            uint64_t lowest = pattern & -pattern, raised = pattern + lowest;
            pattern = raised | ((pattern ^ raised) >> (__builtin_ctzll(lowest) + 2));
        }
    }
}

static int are_disjoint(const Codes *codes) {
    uint64_t seen[MAX_CODE_WORDS] = {0};
    for (unsigned t = 0; t < codes->table_count; t++)
        for (unsigned i = 0; i < codes->words; i++) {
            if (seen[i] & codes->tables[t].mask[i]) return 0;
            seen[i] |= codes->tables[t].mask[i];
        }
    return 1;
}

/* How many of the first bits of a code no table has but the first; below 64. */
static unsigned first_bits_of(const Codes *codes) {
    uint64_t others = 1;
    for (unsigned t = 1; t < codes->table_count; t++) others |= codes->tables[t].mask[0];
    return 64 - bit_length(others);
}

int codes_are_levelled(Codes *codes) {
    unsigned flips = 0;
    codes->first_bits = first_bits_of(codes);
    for (unsigned t = 0; t < codes->table_count; t++)
        if (codes->tables[t].flips > flips) flips = codes->tables[t].flips;
    codes->highest = flips + 1 < MAX_LEVELS ? flips + 1 : MAX_LEVELS - 1;
    return codes->table_count >= 2 && codes->table_count <= MAX_LEVEL_TABLES && codes->tables[0].in_order &&
           flips < MAX_LEVELS && are_disjoint(codes);
}

uint64_t codes_visits(const Codes *codes, unsigned distance, uint64_t most) {
    const unsigned each = (distance + 1) / codes->table_count, more = (distance + 1) % codes->table_count;
    uint64_t visits = 0;
    for (unsigned t = 0; t < codes->table_count && visits <= most; t++) { /* of each at most 2^40 */
        const CodeTable *table = &codes->tables[t];
        const unsigned count = each + (t < more);
        if (codes->guide == NULL)
            visits += table->pattern_count;
        else if (count > 0)
            visits += count <= MAX_LEVELS ? table->level_patterns[count - 1] : NO_PATTERNS;
    }
    return visits;
}

#define GUIDE_RANGES (1 << 18) /* at most: they stay in a near cache */
#define GUIDE_KEY_BITS (32 - GUIDE_BITS)

static uint64_t end_of_slot(const Pages *pages, const Codes *codes, uint64_t slot) {
    const uint8_t *at = pages->base + codes->tables[0].starts_offset + (slot + 1) * codes->start_bytes;
    uint32_t narrow;
    if (codes->start_bytes == 8) return load64(at);
    memcpy(&narrow, at, 4);
    return narrow;
}

/* The last rank of a range. */
static uint64_t last_of_range(const Codes *codes, uint64_t range) {
    const uint64_t from = range << codes->guide->shift, rest = codes->count - from;
    return from + (rest < (uint64_t)1 << codes->guide->shift ? rest : (uint64_t)1 << codes->guide->shift) - 1;
}

/* What is known of a range whose first bits, as numbers, are from `least` to `most`. */
static uint32_t range_of(const Codes *codes, uint64_t least, uint64_t most) {
    const unsigned dropped = codes->guide->dropped;
    return (uint32_t)(least >> dropped << GUIDE_BITS) | bit_length(least >> dropped ^ most >> dropped);
}

static uint64_t range_count(const Codes *codes) { return ((codes->count - 1) >> codes->guide->shift) + 1; }

/* Make the guide, of the starts of the first table. Searches go on without where there is no memory, or where a page is
   bad, which is told by what needs it. */
static void guide_make(Pages *pages, const Codes *codes) {
    CodeGuide *guide = codes->guide;
    const CodeTable *first = &codes->tables[0];
    const uint64_t slots = (uint64_t)1 << first->slot_bits;
    const uint64_t end = first->starts_offset + (slots + 1) * codes->start_bytes;
    const unsigned below = codes->first_bits - first->slot_bits;
    while ((codes->count - 1) >> guide->shift >= GUIDE_RANGES) guide->shift++;
    const uint64_t count = range_count(codes);
    pages_ask(pages, first->starts_offset / PAGE_BYTES, (end - 1) / PAGE_BYTES + 1);
    if (pages_check(pages, first->starts_offset, end - 1) != OK) return;
    uint32_t *ranges = malloc(count * sizeof *ranges);
    if (ranges == NULL) return;
    guide->dropped = codes->first_bits > GUIDE_KEY_BITS ? codes->first_bits - GUIDE_KEY_BITS : 0;
    uint64_t slot = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t from = i << guide->shift, last = last_of_range(codes, i);
        while (slot + 1 < slots && end_of_slot(pages, codes, slot) <= from) slot++;
        const uint64_t begin = slot;
        while (slot + 1 < slots && end_of_slot(pages, codes, slot) <= last) slot++;
        ranges[i] = range_of(codes, begin << below, slot << below | low_bits(below));
    }
    __atomic_store_n(&guide->ranges, ranges, __ATOMIC_RELEASE);
}

static uint64_t first_key_at(const Pages *pages, const Codes *codes, uint64_t rank) {
    return codes_first_key(codes, load64(pages->base + codes->codes_offset + rank * 8 * codes->words));
}

/* Tell more of ranges that lie in one slot, by their codes. Searches go on meanwhile, which read the one or the other. */
static void guide_read(const Pages *pages, const Codes *codes) {
    CodeGuide *guide = codes->guide;
    uint32_t *ranges = __atomic_load_n(&guide->ranges, __ATOMIC_ACQUIRE);
    const unsigned below = codes->first_bits - codes->tables[0].slot_bits;
    if (ranges == NULL || below <= guide->dropped) return;
    for (uint64_t i = 0, count = range_count(codes); i < count; i++) {
        if ((ranges[i] & low_bits(GUIDE_BITS)) > below - guide->dropped) continue;
        const uint64_t least = first_key_at(pages, codes, i << guide->shift);
        const uint64_t most = first_key_at(pages, codes, last_of_range(codes, i));
        __atomic_store_n(&ranges[i], range_of(codes, least, most), __ATOMIC_RELAXED);
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
    if (codes->guide != NULL && pages->source == NULL && codes->count > 0) {
        const uint64_t searches = __atomic_fetch_add(&codes->guide->searches, 1, __ATOMIC_RELAXED);
        if (UNLIKELY(searches == GUIDE_AFTER)) guide_make(pages, codes);
        if (UNLIKELY(searches == GUIDE_READ_AFTER && pages_sound(pages))) guide_read(pages, codes);
    }
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
