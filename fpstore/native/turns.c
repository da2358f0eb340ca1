/* Documents in turn, and the choice of how keys are compared. */
#include "turns.h"

typedef unsigned __int128 Product;

typedef struct {
    uint64_t (*near)(const uint64_t *, uint64_t, unsigned, const uint64_t *, unsigned, uint32_t *);
    uint64_t (*near_earlier)(const uint64_t *, const uint32_t *, uint64_t, unsigned, uint32_t *);
    void (*look_together)(Turns *, const uint32_t *, const uint32_t *, uint64_t);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { keys_near_##set, keys_near_earlier_##set, look_together_##set }

static Kernels kernels = KERNELS_OF(portable);

KERNELS_CHOSEN_AT_LOAD(turns_choose)

uint64_t keys_near(const uint64_t *keys, uint64_t count, unsigned words, const uint64_t *key, unsigned distance,
                   uint32_t *out) {
    return kernels.near(keys, count, words, key, distance, out);
}

uint64_t keys_near_earlier(const uint64_t *keys, const uint32_t *halves, uint64_t i, unsigned distance, uint32_t *out) {
    return kernels.near_earlier(keys, halves, i, distance, out);
}

static const uint64_t *key_at(const Turns *turns, uint64_t index) { return turns->keys + index * turns->words; }

/* Of fewer keys each is compared with all before it sooner than they are parted. */
#define LEAST_PARTED 512
#define MOST_BANDS 12
#define BUCKET_BITS 12 /* of a band at most */

/* Keys within a distance have one of distance + 1 bands alike, so only such are compared. 0 where so many are alike in
   some band that this would take no less; what was found by then is right. */
static int look_by_bands(Turns *turns) {
    const unsigned bands = turns->distance + 1, band_bits = 64 / bands;
    const unsigned enough = bit_length(turns->count) < BUCKET_BITS ? bit_length(turns->count) : BUCKET_BITS;
    const unsigned bits = band_bits < enough ? band_bits : enough;
    uint32_t *marks = (uint32_t *)turns->leader_keys, *places = marks + turns->count; /* which nobody uses yet */
    uint32_t ends[(1 << BUCKET_BITS) + 1];
    uint64_t left = turns->count * turns->count / 4; /* comparisons: half of what all with all would take */
    for (unsigned band = 0; band < bands; band++) {
        const unsigned turn = band * band_bits;
        memset(ends, 0, ((size_t)1 << bits) * sizeof *ends);
        for (uint64_t i = 0; i < turns->count; i++) ends[rotated(turns->keys[i], turn) >> (64 - bits)]++;
        uint32_t sum = 0;
        for (uint64_t bucket = 0; bucket < (UINT64_C(1) << bits); bucket++) { /* where each begins, at first */
            const uint64_t own = ends[bucket], pairs = own * (own - (own > 0)) / 2;
            if (pairs > left) return 0;
            left -= pairs;
            ends[bucket] = sum;
            sum += (uint32_t)own;
        }
        for (uint64_t i = 0; i < turns->count; i++) {
            const uint64_t key = rotated(turns->keys[i], turn);
            const uint32_t at = ends[key >> (64 - bits)]++;
            marks[at] = (uint32_t)(key >> (32 - bits));
            places[at] = (uint32_t)i;
        }
        for (uint64_t bucket = 0, first = 0; bucket < (UINT64_C(1) << bits); first = ends[bucket++])
            if (ends[bucket] - first > 1)
                kernels.look_together(turns, marks + first, places + first, ends[bucket] - first);
    }
    return 1;
}

void turns_look(Turns *turns) {
    uint32_t *near = turns->leaders, *halves = (uint32_t *)turns->leader_keys; /* which nobody uses yet */
    if (turns->banded != NULL) {
        banded_look(turns->banded, turns->is_near, turns->has_earlier);
        for (uint64_t i = 0; i < turns->count; i++) turns->is_near[i] |= turns->starts[i] < turns->starts[i + 1];
        return;
    }
    if (turns->words == 1 && turns->distance < MOST_BANDS && turns->count >= LEAST_PARTED && look_by_bands(turns)) {
        for (uint64_t i = 0; i < turns->count; i++) turns->is_near[i] |= turns->starts[i] < turns->starts[i + 1];
        return;
    }
    for (uint64_t i = 0; i < turns->count; i++) {
        uint64_t count;
        if (turns->words == 1) {
            halves[i] = (uint32_t)turns->keys[i];
            count = keys_near_earlier(turns->keys, halves, i, turns->distance, near);
        } else {
            count = keys_near(turns->keys, i, turns->words, key_at(turns, i), turns->distance, near);
        }
        turns->has_earlier[i] = count > 0;
        turns->is_near[i] |= count > 0 || turns->starts[i] < turns->starts[i + 1];
        for (uint64_t j = 0; j < count; j++) turns->is_near[near[j]] = 1;
    }
}

/* Whether one row is nearer than another, at the same index earlier. */
static int is_nearer(const Turns *turns, const Near *one, const Near *other) {
    if (one->bits != other->bits) return one->bits < other->bits;
    for (unsigned i = 0; i < TURNS_TIES && turns->ties[i] != NULL; i++) {
        const uint64_t x = turns->ties[i][one->row], y = turns->ties[i][other->row];
        if (x != y) return x < y;
    }
    return one->row < other->row;
}

/* Merge two runs that lie one after the other in near, each from the nearest on. */
static void merge_runs(const Turns *turns, Near *near, uint64_t middle, uint64_t end, Near *scratch) {
    uint64_t i = 0, j = middle, out = 0;
    if (middle == 0 || middle == end || is_nearer(turns, near + middle - 1, near + middle)) return;
    memcpy(scratch, near, middle * sizeof *near); /* what is behind stays where it is, as it is never overtaken */
    while (i < middle && j < end) near[out++] = is_nearer(turns, near + j, scratch + i) ? near[j++] : scratch[i++];
    memcpy(near + out, scratch + i, (middle - i) * sizeof *near);
}

static void sort_near(const Turns *turns, Near *near, uint64_t count, Near *scratch) {
    for (uint64_t run = 1; run < count; run *= 2) {
        for (uint64_t first = 0; first + run < count; first += 2 * run) {
            const uint64_t end = first + 2 * run < count ? first + 2 * run : count;
            merge_runs(turns, near + first, run, end - first, scratch);
        }
    }
}

/* The rows that the key at turns->at is near, from the nearest on. */
static void find_near(Turns *turns) {
    const uint64_t i = turns->at, first = turns->starts[i], before = turns->starts[i + 1] - first;
    uint64_t count = 0;
    for (uint64_t j = 0; j < before; j++) turns->near[j] = (Near){first + j, turns->bits[first + j]};
    if (turns->has_earlier[i] && turns->banded != NULL) {
        uint32_t *leaders = turns->leaders + turns->leader_count, *differing = leaders + turns->count;
        Near *own = turns->near + before;
        count = banded_near(turns->banded, i, leaders, differing);
        for (uint64_t j = 0; j < count; j++) own[j] = (Near){turns->found + leaders[j], differing[j]};
        sort_near(turns, own, count, turns->scratch);
        merge_runs(turns, turns->near, before, before + count, turns->scratch);
    } else if (turns->has_earlier[i]) {
        uint32_t *places = turns->leaders + turns->leader_count; /* room for as many again */
        Near *own = turns->near + before;
        count =
            keys_near(turns->leader_keys, turns->leader_count, turns->words, key_at(turns, i), turns->distance, places);
        for (uint64_t j = 0; j < count; j++) {
            const uint32_t leader = turns->leaders[places[j]];
            own[j].row = turns->found + leader;
            own[j].bits = 0;
            for (unsigned word = 0; word < turns->words; word++)
                own[j].bits += (uint32_t)__builtin_popcountll(key_at(turns, leader)[word] ^ key_at(turns, i)[word]);
        }
        sort_near(turns, own, count, turns->scratch);
        merge_runs(turns, turns->near, before, before + count, turns->scratch);
    }
    turns->near_count = before + count;
}

void turns_answer(Turns *turns, int64_t row) {
    turns->rows[turns->at] = row;
    if (row == TURNS_NEW && turns->banded != NULL) {
        if (turns->is_near[turns->at]) banded_lead(turns->banded, turns->at); /* else nobody asks for it */
    } else if (row == TURNS_NEW) {
        memcpy(turns->leader_keys + turns->leader_count * turns->words, key_at(turns, turns->at),
               turns->words * sizeof *turns->keys);
        turns->leaders[turns->leader_count++] = (uint32_t)turns->at;
    }
    turns->at++;
    turns->is_begun = 0;
}

/* Whether a row has the very key of the document, and is not even looked at: equal documents may lie behind it. */
static int is_crowded(const Turns *turns) {
    return turns->near_count > turns->most && turns->near[turns->most].bits == 0;
}

/* Whether a key and a row are alike; common, either: how many shingles both have, and one of them. */
static int are_alike(Turns *turns, uint64_t key, uint64_t row, uint64_t *common, uint64_t *either) {
    const Shingles *own = &turns->shingles[turns->found + key], *other = &turns->shingles[row];
    const int is_found = row < turns->found; /* then it is compared with this key alone */
    if (is_found && turns->commons[row] != TURNS_UNKNOWN) {
        *common = turns->commons[row];
        *either = turns->eithers[row];
    } else {
        if (turns->is_listed[turns->found + key] || turns->is_listed[row]) {
            listed_compare(&turns->listed, own, other, turns->part, turns->whole, common, either);
        } else {
            common_counts(own, other, 1, common);
            *either = own->count + other->count - *common;
        }
        if (is_found) {
            turns->commons[row] = (uint32_t)*common;
            turns->eithers[row] = (uint32_t)*either;
        }
    }
    return (Product)*common * turns->whole >= (Product)turns->part * *either && !turns->is_silent[row];
}

/* Whether a key can be compared with a row. */
static int is_known(const Turns *turns, uint64_t row) {
    return turns->shingles[row].hashes != NULL || (row < turns->found && turns->commons[row] != TURNS_UNKNOWN);
}

void turns_ask(const Turns *turns, uint64_t key) { shingles_ask(&turns->shingles[turns->found + key]); }

int turns_tell(Turns *turns, uint64_t key, uint64_t row, const Shingles *own, const Shingles *others) {
    uint64_t common, either;
    if (!listed_apart(&turns->listed, &turns->shingles[turns->found + key], own, others, &common, &either)) return 0;
    turns->commons[row] = (uint32_t)common;
    turns->eithers[row] = (uint32_t)either;
    return 1;
}

void turns_foresee(Turns *turns, uint64_t more, uint8_t *wanted) {
    for (uint64_t i = 0; i < turns->count; i++) {
        const uint64_t own = turns->found + i, first = turns->starts[i], count = turns->starts[i + 1] - first;
        uint64_t common, either, end = 1 + more < turns->most ? 1 + more : turns->most;
        if (count < 2 || turns->shingles[own].hashes == NULL || turns->is_silent[own]) continue;
        if (!is_known(turns, first) || are_alike(turns, i, first, &common, &either)) continue;
        if (end > count) end = count;
        for (uint64_t j = 1; j < end; j++) wanted[first + j] = 1;
    }
}

/* Look at the near ones of the document under way, from turns->place on. */
static TurnsStop compare(Turns *turns) {
    const Shingles *own = &turns->shingles[turns->found + turns->at];
    const uint64_t looked_at = turns->near_count < turns->most ? turns->near_count : turns->most;
    if (own->hashes == NULL || turns->is_silent[turns->found + turns->at] || is_crowded(turns)) return TURNS_ASK;
    for (; turns->place < looked_at; turns->place++) {
        const uint64_t row = turns->near[turns->place].row;
        uint64_t common, either;
        if (!is_known(turns, row)) return TURNS_NEED;
        if (are_alike(turns, turns->at, row, &common, &either)) {
            turns->measures[turns->at] = (double)common / (double)either;
            turns->refused += turns->place;
            turns_answer(turns, (int64_t)row);
            return TURNS_DONE;
        }
    }
    turns->refused += looked_at;
    turns->cut_short += turns->near_count > turns->most;
    turns_answer(turns, TURNS_NEW);
    return TURNS_DONE;
}

/* Documents are decided in turn, so that what the next comparison reads can be asked for. */
#define ASKED_AHEAD 8

static void ask_for_next(const Turns *turns) {
    for (uint64_t i = turns->at + 1; i < turns->count && i <= turns->at + ASKED_AHEAD; i++) {
        const uint64_t first = turns->starts[i];
        if (first == turns->starts[i + 1]) continue;
        turns_ask(turns, i);
        if (turns->commons[first] == TURNS_UNKNOWN) shingles_ask(&turns->shingles[first]);
        return;
    }
}

TurnsStop turns_run(Turns *turns) {
    while (turns->at < turns->count) {
        const uint64_t i = turns->at;
        if (!turns->is_begun) {
            if (!turns->has_earlier[i] && turns->starts[i] == turns->starts[i + 1]) {
                turns_answer(turns, TURNS_NEW);
                continue;
            }
            find_near(turns);
            turns->is_begun = 1;
            turns->place = 0;
        }
        if (turns->near_count == 0) {
            turns_answer(turns, TURNS_NEW);
        } else if (turns->compares) {
            ask_for_next(turns);
            const TurnsStop stop = compare(turns);
            if (stop != TURNS_DONE) return stop;
        } else if (turns->asks) {
            return TURNS_ASK;
        } else {
            turns_answer(turns, (int64_t)turns->near[0].row);
        }
    }
    return TURNS_DONE;
}
