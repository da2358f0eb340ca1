/* Hashes as they come. Of near-duplicates nearly all follow each other in the same order, so the few that do not tell
   what differs; where these are many, each is looked for in a table, into which a document is put once. */
#include "listed.h"

#include <string.h>

typedef unsigned __int128 Product;

#define AT_ONCE 8
#define MOST_APART 32    /* hashes of two documents that are looked for one by one */
#define MOST_STEP 16     /* of those that stand between two which are the same in both */
#define MOST_REPEATED 64 /* of a document, as its bits show them */
#define MOST_REPLACED 512

static int is_among_portable(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    uint64_t i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) { /* as vectors */
        uint64_t same = 0;
        for (unsigned j = 0; j < AT_ONCE; j++) same |= hashes[i + j] == hash;
        if (same) return 1;
    }
    for (; i < count; i++)
        if (hashes[i] == hash) return 1;
    return 0;
}

static uint64_t times_among_portable(const uint64_t *hashes, uint64_t count, uint64_t hash) {
    uint64_t times = 0;
    for (uint64_t i = 0; i < count; i++) times += hashes[i] == hash;
    return times;
}

/* Whether a hash is one of count. */
static int (*is_among)(const uint64_t *hashes, uint64_t count, uint64_t hash) = is_among_portable;

/* How often it is. */
static uint64_t (*times_among)(const uint64_t *hashes, uint64_t count, uint64_t hash) = times_among_portable;

void listed_choose(InstructionSet set) {
    is_among = is_among_portable;
    times_among = times_among_portable;
#if FPSTORE_X86
    if (set >= SET_FAST) {
        is_among = set == SET_WIDE ? is_among_wide : is_among_fast;
        times_among = set == SET_WIDE ? times_among_wide : times_among_fast;
    }
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(listed_choose)

/* Where a hash is, or the free cell that it would be put into. */
ALWAYS_INLINE Mark *cell_of(const Listed *listed, uint64_t hash) {
    const uint64_t mask = listed->room - 1;
    uint64_t at = (hash * listed->secret) >> 32 & mask;
    while (listed->cells[at].turn >> 1 == listed->turn && listed->cells[at].hash != hash) at = (at + 1) & mask;
    return listed->cells + at;
}

static void mark(Listed *listed) {
    const Shingles *document = listed->document;
    if (++listed->turn > UINT32_MAX >> 1) {
        memset(listed->cells, 0, listed->room * sizeof *listed->cells);
        listed->turn = 1;
    }
    listed->is_marked = 1;
    listed->comparison = 0;
    listed->taken = 0;
    for (uint64_t i = 0; i < document->count; i++) {
        Mark *cell = cell_of(listed, document->hashes[i]);
        listed->taken += cell->turn >> 1 != listed->turn;
        *cell = (Mark){document->hashes[i], 2 * listed->turn + 1, 0};
    }
    listed->count = listed->taken;
}

/* Have the document be that which is compared. Its distinct hashes are counted by their bits, of which few are the same
   by chance: with as many as there are cells to 16, a 128th of all. */
static void take(Listed *listed, const Shingles *document) {
    const uint64_t *hashes = document->hashes, count = document->count, words = listed_room(count) / 4;
    const unsigned shift = 64 - bit_length(64 * words - 1);
    uint64_t again[MOST_REPEATED + AT_ONCE], found = 0, repeated = 0;
    listed->document = document;
    listed->is_marked = 0;
    for (uint64_t first = 0; first < count && found < MOST_REPEATED; first += AT_ONCE) {
        const uint64_t end = count - first < AT_ONCE ? count : first + AT_ONCE;
        for (uint64_t i = first; i < end; i++) { /* without a branch */
            const uint64_t place = hashes[i] * listed->secret >> shift, bit = UINT64_C(1) << (place & 63);
            uint64_t *word = listed->bits + (place >> 6);
            again[found] = i;
            found += (*word & bit) != 0;
            *word |= bit;
        }
    }
    memset(listed->bits, 0, words * sizeof *listed->bits);
    if (found >= MOST_REPEATED) {
        mark(listed);
        return;
    }
    for (uint64_t i = 0; i < found; i++) repeated += (uint64_t)is_among(hashes, again[i], hashes[again[i]]);
    listed->count = count - repeated;
}

typedef struct {
    uint64_t hashes[MOST_APART + MOST_STEP];
    uint64_t count;
} Apart;

static void put_apart(Apart *apart, const uint64_t *hashes, uint64_t count) {
    memcpy(apart->hashes + apart->count, hashes, count * sizeof *hashes);
    apart->count += count;
}

/* How many of the hashes that stand apart are different, and none of a document. */
static uint64_t count_lacking(const Apart *apart, const Shingles *document) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < apart->count; i++) {
        const uint64_t hash = apart->hashes[i];
        found += !is_among(apart->hashes, i, hash) && !is_among(document->hashes, document->count, hash);
    }
    return found;
}

/* The next two places from i and j on at which both have the same hash: after how few of both. 0 where that is further. */
static int step_on(const Shingles *one, const Shingles *other, uint64_t i, uint64_t j, uint64_t *on,
                   uint64_t *other_on) {
    for (uint64_t step = 1; step <= MOST_STEP; step++) {
        for (uint64_t a = 0; a <= step; a++) {
            const uint64_t b = step - a;
            if (i + a >= one->count || j + b >= other->count || one->hashes[i + a] != other->hashes[j + b]) continue;
            *on = a;
            *other_on = b;
            return 1;
        }
    }
    return 0;
}

/* Walk along both, and put apart what the other has not at the same place. 0 where that is much. */
static int align(const Shingles *one, const Shingles *other, Apart *own, Apart *others) {
    const uint64_t *x = one->hashes, *y = other->hashes;
    uint64_t i = 0, j = 0;
    for (;;) {
        while (i + AT_ONCE <= one->count && j + AT_ONCE <= other->count) { /* as vectors */
            uint64_t apart = 0;
            for (unsigned k = 0; k < AT_ONCE; k++) apart |= x[i + k] ^ y[j + k];
            if (apart) break;
            i += AT_ONCE;
            j += AT_ONCE;
        }
        while (i < one->count && j < other->count && x[i] == y[j]) i++, j++;
        uint64_t a, b;
        if (i == one->count || j == other->count || !step_on(one, other, i, j, &a, &b)) {
            a = one->count - i;
            b = other->count - j;
        }
        if (a + b > MOST_APART || own->count + a + others->count + b > MOST_APART) return 0;
        put_apart(own, x + i, a);
        put_apart(others, y + j, b);
        i += a;
        j += b;
        if (i == one->count && j == other->count) return 1;
    }
}

void listed_compare(Listed *listed, const Shingles *document, const Shingles *other, uint64_t part, uint64_t whole,
                    uint64_t *common, uint64_t *either) {
    if (listed->document != document) take(listed, document);
    Apart own = {.count = 0}, others = {.count = 0};
    if (align(document, other, &own, &others)) {
        *common = listed->count - count_lacking(&own, other);
        *either = listed->count + count_lacking(&others, document);
        return;
    }
    if (!listed->is_marked || listed->comparison == UINT32_MAX || 4 * (listed->taken + other->count) > 3 * listed->room)
        mark(listed);
    const uint32_t of_own = 2 * listed->turn + 1, comparison = ++listed->comparison;
    /* With more that the document has not, it has too little in common with this one even if all of its own is. */
    const Product most = part == 0 ? UINT64_MAX : (Product)listed->count * (whole - part) / part;
    uint64_t both = 0, lacking = 0;
    for (uint64_t i = 0; i < other->count && lacking <= most; i++) {
        Mark *cell = cell_of(listed, other->hashes[i]);
        if (LIKELY(cell->turn == of_own)) {
            both += cell->seen != comparison;
        } else if (cell->turn == of_own - 1) {
            lacking += cell->seen != comparison;
        } else {
            *cell = (Mark){other->hashes[i], of_own - 1, comparison};
            listed->taken++;
            lacking++;
        }
        cell->seen = comparison;
    }
    *common = lacking <= most ? both : 0;
    *either = listed->count + lacking;
}

/* Those of one list that another has not, each once; 0 where they are many. */
static int put_lacking(Apart *apart, const Shingles *one, const Shingles *other) {
    for (uint64_t i = 0; i < one->count; i++) {
        const uint64_t hash = one->hashes[i];
        if (is_among(other->hashes, other->count, hash) || is_among(apart->hashes, apart->count, hash)) continue;
        if (apart->count == MOST_APART) return 0;
        apart->hashes[apart->count++] = hash;
    }
    return 1;
}

int listed_apart(Listed *listed, const Shingles *document, const Shingles *own, const Shingles *others,
                 uint64_t *common, uint64_t *either) {
    Apart gone = {.count = 0}, come = {.count = 0};
    if (own->count > MOST_REPLACED || others->count > MOST_REPLACED || !put_lacking(&gone, own, others) ||
        !put_lacking(&come, others, own))
        return 0;
    if (listed->document != document) take(listed, document);
    *common = *either = listed->count;
    for (uint64_t i = 0; i < gone.count; i++) { /* unless the document has it elsewhere, too */
        const uint64_t hash = gone.hashes[i];
        *common -= times_among(own->hashes, own->count, hash) == times_among(document->hashes, document->count, hash);
    }
    for (uint64_t i = 0; i < come.count; i++) *either += !is_among(document->hashes, document->count, come.hashes[i]);
    return 1;
}
