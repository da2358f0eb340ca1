/* Merging by several lanes at once, and searching likewise. */
#include "merge.h"

/* Items [i, i_end) of one run and [j, j_end) of the other, and where what they merge into goes. */
typedef struct {
    uint64_t i, i_end, j, j_end, out;
} Lane;

/* A step waits for the one before it, about 8 cycles; so many lanes, cut from the runs beforehand, fill the time. */
enum { MERGE_LANES = 4 };

typedef unsigned __int128 Item; /* (key, id): orders as pairs do */

ALWAYS_INLINE Item run_item(const Items *run, uint64_t index, int pairs) {
    return pairs ? (Item)run->keys[index] << 64 | run->ids[index] : run->keys[index];
}

ALWAYS_INLINE void out_item(uint64_t *keys, uint64_t *ids, uint64_t index, Item item, int pairs) {
    keys[index] = (uint64_t)(pairs ? item >> 64 : item);
    if (pairs) ids[index] = (uint64_t)item;
}

/* The smaller of the next two, past which both runs move: no branch on the data. */
ALWAYS_INLINE void lane_step(Lane *lane, const Items *a, const Items *b, uint64_t *keys, uint64_t *ids, int pairs) {
    Item x = run_item(a, lane->i, pairs), y = run_item(b, lane->j, pairs);
    out_item(keys, ids, lane->out, x < y ? x : y, pairs);
    lane->i += x <= y;
    lane->j += y <= x;
    lane->out++;
}

ALWAYS_INLINE uint64_t least(uint64_t x, uint64_t y) { return x < y ? x : y; }

/* Steps that need not ask whether a run of the lane has ended. */
ALWAYS_INLINE uint64_t lane_sure(const Lane *lane) { return least(lane->i_end - lane->i, lane->j_end - lane->j); }

static uint64_t run_lower_bound(const Items *run, Item item, int pairs) {
    uint64_t low = 0, high = run->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (run_item(run, middle, pairs) < item)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* merge_keys() and merge_pairs(), in one loop for each. */
ALWAYS_INLINE uint64_t merge_runs(const Items *a, const Items *b, uint64_t *keys, uint64_t *ids, int pairs) {
    Lane lanes[MERGE_LANES];
    uint64_t starts[MERGE_LANES], i = 0, j = 0, end = 0, sure;
    for (int lane = 0; lane < MERGE_LANES; lane++) {
        lanes[lane].i = i;
        lanes[lane].j = j;
        lanes[lane].out = starts[lane] = i + j;
        /* Equal items go to the same lane. */
        i = lane + 1 < MERGE_LANES ? a->count * (uint64_t)(lane + 1) / MERGE_LANES : a->count;
        j = i < a->count ? run_lower_bound(b, run_item(a, i, pairs), pairs) : b->count;
        lanes[lane].i_end = i;
        lanes[lane].j_end = j;
    }
    do {
        sure = lane_sure(&lanes[0]);
        for (int lane = 1; lane < MERGE_LANES; lane++) sure = least(sure, lane_sure(&lanes[lane]));
        for (uint64_t step = 0; step < sure; step++)
            for (int lane = 0; lane < MERGE_LANES; lane++) lane_step(&lanes[lane], a, b, keys, ids, pairs);
    } while (sure > 0);
    for (int index = 0; index < MERGE_LANES; index++) {
        Lane *lane = &lanes[index];
        while (lane_sure(lane) > 0) lane_step(lane, a, b, keys, ids, pairs);
        const Items *rest = lane->i < lane->i_end ? a : b;
        uint64_t from = rest == a ? lane->i : lane->j, count = rest == a ? lane->i_end - from : lane->j_end - from;
        memcpy(keys + lane->out, rest->keys + from, count * sizeof *keys);
        if (pairs) memcpy(ids + lane->out, rest->ids + from, count * sizeof *ids);
        count += lane->out - starts[index];
        if (end != starts[index]) {
            memmove(keys + end, keys + starts[index], count * sizeof *keys);
            if (pairs) memmove(ids + end, ids + starts[index], count * sizeof *ids);
        }
        end += count;
    }
    return end;
}

static uint64_t merge_keys_any(const Items *a, const Items *b, uint64_t *keys) {
    return merge_runs(a, b, keys, NULL, 0);
}

static int keys_increase_any(const uint64_t *keys, uint64_t count) {
    int all = 1;
    for (uint64_t i = 1; i < count; i++) all &= keys[i] > keys[i - 1];
    return all;
}

static uint64_t gather_run_any(const Items *run, uint64_t last, uint64_t *out) {
    uint64_t count = 0;
    for (; count < run->count && run->keys[count] <= last; count++) out[count] = run->keys[count];
    return count;
}

/* merge: of what is merged again, those that both hold once, or as often as they came; merge_last: once. */
typedef uint64_t (*MergeKeys)(const Items *, const Items *, uint64_t *);
static struct {
    MergeKeys merge, merge_last;
    int (*increase)(const uint64_t *, uint64_t);
    uint64_t (*gather)(const Items *, uint64_t, uint64_t *);
} of_keys = {merge_keys_any, merge_keys_any, keys_increase_any, gather_run_any};

void merge_choose(InstructionSet set) {
    of_keys.merge = of_keys.merge_last = merge_keys_any;
    of_keys.increase = keys_increase_any, of_keys.gather = gather_run_any;
#if FPSTORE_X86
    if (set >= SET_WIDE) {
        of_keys.merge = merge_repeated_wide, of_keys.merge_last = merge_distinct_wide;
        of_keys.increase = keys_increase_wide, of_keys.gather = gather_run_wide;
    }
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(merge_choose)

uint64_t merge_keys(const Items *a, const Items *b, uint64_t *keys) { return of_keys.merge_last(a, b, keys); }

uint64_t keys_up_to(const uint64_t *keys, uint64_t count, uint64_t last) {
    const Items run = {keys, NULL, count};
    return last == UINT64_MAX ? count : run_lower_bound(&run, (Item)last + 1, 0);
}

int keys_increase(const uint64_t *keys, uint64_t count) { return of_keys.increase(keys, count); }

static int compare_counts(const void *one, const void *other) {
    const uint64_t x = ((const Items *)one)->count, y = ((const Items *)other)->count;
    return (x > y) - (x < y);
}

/* Keys that are merged at a time, where the runs are few, and of each run at the least. count_pairs of 10^7 uniform
   keys in seven segments, plan balanced, over one segment: 1.21 to 1.26 so, 1.22 to 1.28 with twice as many, 1.26 with
   half. */
enum { STRETCH_KEYS = 1 << 14, STRETCH_LEAST = 1 << 11 };

uint64_t merge_room(uint64_t run_count) {
    return STRETCH_KEYS / STRETCH_LEAST < run_count ? run_count * STRETCH_LEAST : STRETCH_KEYS;
}

/* How many keys of a run a stretch has at most: half of the room goes to all runs alike, half by what is left. */
ALWAYS_INLINE uint64_t stretch_share(uint64_t run_count, uint64_t count, uint64_t total) {
    const uint64_t half = merge_room(run_count) / 2;
    return least(count, half / run_count + (uint64_t)((Item)half * count / total));
}

/* Cut the runs, which have so many keys, into pieces of keys that come before all others; how many pieces. The runs go
   on behind them. Of each run that has more than its share no key is above the share's last, nor is any in a piece:
   so no piece is larger than its share. */
static uint64_t cut_stretch(Items *runs, uint64_t run_count, uint64_t total, Items *pieces) {
    uint64_t last = UINT64_MAX, count = 0;
    if (total > merge_room(run_count))
        for (uint64_t i = 0; i < run_count; i++) {
            const uint64_t share = stretch_share(run_count, runs[i].count, total);
            if (share < runs[i].count) last = least(last, runs[i].keys[share - 1]);
        }
    for (uint64_t i = 0; i < run_count; i++) {
        const uint64_t most = last == UINT64_MAX ? runs[i].count : stretch_share(run_count, runs[i].count, total);
        const uint64_t own = keys_up_to(runs[i].keys, most, last);
        if (own == 0) continue;
        pieces[count++] = (Items){runs[i].keys, NULL, own};
        runs[i].keys += own;
        runs[i].count -= own;
    }
    return count;
}

/* Merge pieces, one or more, of so many keys in all as a room is for. */
static uint64_t merge_pieces(Items *pieces, uint64_t count, uint64_t *const rooms[2], uint64_t *merged) {
    int is_moved = 0; /* whether the last piece lies in a room */
    if (count == 1) memcpy(merged, pieces[0].keys, pieces[0].count * sizeof *merged);
    for (unsigned turn = 0; count > 1; turn = 1 - turn, count = (count + 1) / 2) {
        /* Two each behind those before, from one room to the other; one that is left over goes along. */
        const MergeKeys merge = count > 2 ? of_keys.merge : of_keys.merge_last;
        uint64_t *out = count > 2 ? rooms[turn] : merged;
        is_moved |= count % 2 == 0;
        for (uint64_t i = 0; i < count; i += 2) {
            const uint64_t room = pieces[i].count + (i + 1 < count ? pieces[i + 1].count : 0);
            Items *piece = &pieces[i / 2];
            if (i + 1 < count) {
                *piece = (Items){out, NULL, merge(&pieces[i], &pieces[i + 1], out)};
            } else if (is_moved) {
                memcpy(out, pieces[i].keys, room * sizeof *out);
                *piece = (Items){out, NULL, room};
            } else {
                *piece = pieces[i];
            }
            out += room;
        }
    }
    return pieces[0].count;
}

uint64_t merge_all(Items *runs, Items *pieces, uint64_t run_count, uint64_t *const rooms[2], uint64_t *merged) {
    uint64_t left = 0, written = 0;
    qsort(runs, run_count, sizeof *runs, compare_counts); /* those that are merged first are of nearly one size */
    for (uint64_t i = 0; i < run_count; i++) left += runs[i].count;
    while (left > 0) {
        const uint64_t count = cut_stretch(runs, run_count, left, pieces);
        for (uint64_t i = 0; i < count; i++) left -= pieces[i].count;
        written += merge_pieces(pieces, count, rooms, merged + written);
    }
    return written;
}

/* Leave out the runs that have ended; how many have not. */
static uint64_t going_on(Items *runs, uint64_t run_count) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < run_count; i++)
        if (runs[i].count > 0) runs[kept++] = runs[i];
    return kept;
}

void gather_all(Items *runs, uint64_t run_count, unsigned width, uint64_t *out) {
    int is_ended = 1;
    for (;;) {
        uint64_t next = UINT64_MAX;
        if (UNLIKELY(is_ended)) run_count = going_on(runs, run_count);
        if (run_count == 0) return;
        for (uint64_t i = 0; i < run_count; i++) next = least(next, runs[i].keys[0]);
        is_ended = 0;
        for (uint64_t i = 0; i < run_count; i++) {
            const uint64_t own = of_keys.gather(&runs[i], next | low_bits(width), out);
            runs[i].keys += own;
            runs[i].count -= own;
            is_ended |= runs[i].count == 0;
            out += own;
        }
    }
}

uint64_t merge_pairs(const Items *a, const Items *b, uint64_t *keys, uint64_t *ids) {
    return merge_runs(a, b, keys, ids, 1);
}

/* A search waits for memory at every step; so many side by side wait at once. */
enum { SEARCH_LANES = 16 };

void mark_at_least(const Items *items, const uint64_t *keys, const uint64_t *least_ids, uint64_t count,
                   uint8_t *marks) {
    for (uint64_t first = 0; first < count; first += SEARCH_LANES) {
        uint64_t lanes = least(count - first, SEARCH_LANES), at[SEARCH_LANES] = {0};
        for (uint64_t left = items->count; left > 1; left -= left / 2) /* to the last key not above, or the first */
            for (uint64_t lane = 0; lane < lanes; lane++)
                at[lane] += -(uint64_t)(items->keys[at[lane] + left / 2] <= keys[first + lane]) & (left / 2);
        for (uint64_t lane = 0; lane < lanes; lane++)
            marks[first + lane] |=
                (items->keys[at[lane]] == keys[first + lane]) & (items->ids[at[lane]] >= least_ids[first + lane]);
    }
}

void mark_pairs_at_least(const Items *pairs, const uint64_t *numbers, const Items *asked, const uint64_t *least_numbers,
                         uint8_t *marks) {
    for (uint64_t first = 0; first < asked->count; first += SEARCH_LANES) {
        uint64_t lanes = least(asked->count - first, SEARCH_LANES), at[SEARCH_LANES] = {0};
        for (uint64_t left = pairs->count; left > 1; left -= left / 2) /* to the last pair not above, or the first */
            for (uint64_t lane = 0; lane < lanes; lane++) {
                Item middle = run_item(pairs, at[lane] + left / 2, 1);
                at[lane] += -(uint64_t)(middle <= run_item(asked, first + lane, 1)) & (left / 2);
            }
        for (uint64_t lane = 0; lane < lanes; lane++)
            marks[first + lane] |= (run_item(pairs, at[lane], 1) == run_item(asked, first + lane, 1)) &
                                   (numbers[at[lane]] >= least_numbers[first + lane]);
    }
}
