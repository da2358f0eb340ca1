/* The sort itself, and the choice of its steps. */
#include "sort.h"

static void (*count_permuted)(const Permutation *, const uint64_t *, uint64_t, uint64_t *) = count_permuted_portable;
static void (*deal_permuted)(const Permutation *, const uint64_t *, uint64_t, uint64_t *,
                             uint64_t *) = deal_permuted_portable;
/* NULL where the portable way is the quickest. */
static uint64_t (*split)(uint64_t *, uint64_t, uint64_t) = NULL;
static void (*settle)(uint64_t *, uint64_t, unsigned, SortedOut *) = NULL;

void sort_choose(InstructionSet set) {
    count_permuted = count_permuted_portable;
    deal_permuted = deal_permuted_portable;
    split = NULL;
    settle = NULL;
#if FPSTORE_X86
    if (set >= SET_FAST) count_permuted = count_permuted_fast, deal_permuted = deal_permuted_fast;
    if (set >= SET_WIDE) split = split_wide, settle = settle_wide;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(sort_choose)

/* Put a key, which belongs among the last ones, into its place, unless it is there. */
ALWAYS_INLINE void sorted_insert(SortedOut *out, uint64_t key) {
    uint64_t count = out->count, at = count;
    if (LIKELY(count == 0 || out->keys[count - 1] < key)) {
        out->keys[count] = key;
        out->count = count + 1;
        return;
    }
    while (at > 0 && out->keys[at - 1] > key) at--;
    if (at > 0 && out->keys[at - 1] == key) return;
    memmove(out->keys + at + 1, out->keys + at, (count - at) * sizeof *out->keys);
    out->keys[at] = key;
    out->count = count + 1;
}

/* Insert keys, one at least; quick where few that are larger come before each. */
static void sorted_insert_all(SortedOut *out, const uint64_t *keys, uint64_t count) {
    SortedOut local = *out;
    uint64_t low = keys[0], high = keys[0]; /* the two largest so far are held back; for now the first, twice */
    for (uint64_t i = 1; i < count; i++) {
        uint64_t key = keys[i], lower = key < high ? key : high, least = lower < low ? lower : low;
        high = key < high ? high : key;
        low = lower < low ? low : lower;
        sorted_insert(&local, least);
    }
    sorted_insert(&local, low);
    sorted_insert(&local, high);
    *out = local;
}

/* Append keys if they are distinct and in order; whether they were. */
static int sorted_append(SortedOut *out, const uint64_t *keys, uint64_t count) {
    for (uint64_t start = 1; start < count; start += 64) { /* within 64, no branch to wait for */
        uint64_t end = count - start < 64 ? count : start + 64;
        int disorder = 0;
        for (uint64_t i = start; i < end; i++) disorder |= keys[i - 1] >= keys[i];
        if (disorder) return 0;
    }
    memmove(out->keys + out->count, keys, count * sizeof *keys);
    out->count += count;
    return 1;
}

/* How many low bits of the keys vary. */
static unsigned varying_width(const uint64_t *keys, uint64_t count) {
    uint64_t varying = 0;
    for (uint64_t i = 1; i < count; i++) varying |= keys[i] ^ keys[0];
    return bit_length(varying);
}

/* Bring each key into its group, in place: group by group, every key is swapped to where its own group goes on. The
   swaps of a round do not wait for each other, as those along a cycle would. */
static void split_in_place(uint64_t *keys, unsigned shift, uint64_t mask, const uint64_t *ends, uint64_t *at) {
    for (int open = 1; open;) {
        open = 0;
        for (uint64_t digit = 0; digit <= mask; digit++) {
            for (uint64_t i = at[digit], end = ends[digit]; i < end; i++) {
                uint64_t key = keys[i], to = at[(key >> shift) & mask]++;
                keys[i] = keys[to];
                keys[to] = key;
            }
            open |= at[digit] < ends[digit];
        }
    }
}

static uint64_t part_keys(const SortRoom *room) { return room->room_keys < PART_KEYS ? room->room_keys : PART_KEYS; }

/* sort_range of many keys, bit by bit. */
static void sort_by_bits(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out) {
    while (count > part_keys(room) && width > 0) {
        uint64_t low = split(keys, count, (uint64_t)1 << (width - 1));
        width--;
        if (low == 0 || low == count) { /* nothing to split: go on where the keys vary */
            width = varying_width(keys, count);
            continue;
        }
        sort_by_bits(keys, low, width, room, out);
        keys += low;
        count -= low;
    }
    sort_range(keys, count, width, room, out);
}

/* The same, by groups. */
static void sort_by_groups(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out) {
    uint64_t ends[1 << SPLIT_DIGIT_BITS] = {0}, at[1 << SPLIT_DIGIT_BITS], total = 0, most = 0;
    unsigned bits = bit_length(count / part_keys(room)) + 1; /* so that even groups are a quarter to a half of a part */
    bits = bits < SPLIT_DIGIT_BITS ? bits : SPLIT_DIGIT_BITS;
    bits = bits < width ? bits : width;
    unsigned shift = width - bits;
    uint64_t mask = low_bits(bits);
    for (uint64_t i = 0; i < count; i++) ends[(keys[i] >> shift) & mask]++;
    for (uint64_t digit = 0; digit <= mask; digit++) {
        most = ends[digit] > most ? ends[digit] : most;
        at[digit] = total;
        ends[digit] = total += ends[digit];
    }
    if (most == count) { /* nothing to split: go on where the keys vary */
        sort_range(keys, count, varying_width(keys, count), room, out);
        return;
    }
    split_in_place(keys, shift, mask, ends, at);
    for (uint64_t digit = 0, start = 0; digit <= mask; start = ends[digit++])
        sort_range(keys + start, ends[digit] - start, shift, room, out);
}

static void sort_large(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out) {
    if (split)
        sort_by_bits(keys, count, width, room, out);
    else
        sort_by_groups(keys, count, width, room, out);
}

/* sort_range of keys that the room holds. */
static void sort_part(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out) {
    unsigned bits = bit_length(count);
    bits = bits < SORT_DIGIT_BITS ? bits : SORT_DIGIT_BITS;
    bits = bits < width ? bits : width;
    unsigned shift = width - bits;
    uint64_t mask = low_bits(bits);
    uint32_t *starts = room->starts, total = 0, most = 0;
    memset(starts, 0, (mask + 1) * sizeof *starts);
    for (uint64_t i = 0; i < count; i++) starts[(keys[i] >> shift) & mask]++;
    for (uint64_t digit = 0; digit <= mask; digit++) {
        uint32_t size = starts[digit];
        most = size > most ? size : most;
        starts[digit] = total;
        total += size;
    }
    if (most == count) {
        sort_range(keys, count, varying_width(keys, count), room, out);
        return;
    }
    for (uint64_t i = 0; i < count; i++) room->keys[starts[(keys[i] >> shift) & mask]++] = keys[i];
    if (sorted_append(out, room->keys, count)) return;
    if (settle && most <= FEW_KEYS) {
        settle(room->keys, count, most, out);
        return;
    }
    if (most <= FEW_KEYS || shift == 0) {
        sorted_insert_all(out, room->keys, count);
        return;
    }
    memcpy(keys, room->keys, count * sizeof *keys);
    if (count > PART_KEYS) {
        sort_large(keys, count, width, room, out);
        return;
    }
    for (uint64_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && (keys[end] ^ keys[start]) >> shift == 0;) end++;
        sort_range(keys + start, end - start, shift, room, out);
    }
}

void sort_range(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out) {
    if (count == 0 || sorted_append(out, keys, count)) return;
    if (width == 0) {
        sorted_append(out, keys, 1);
    } else if (count <= FEW_KEYS) {
        for (uint64_t i = 0; i < count; i++) sorted_insert(out, keys[i]);
    } else if (count <= room->room_keys) {
        sort_part(keys, count, width, room, out);
    } else {
        sort_large(keys, count, width, room, out);
    }
}

uint64_t split_keys(uint64_t *keys, uint64_t count) {
    const unsigned width = varying_width(keys, count);
    if (width == 0) return count;
    const uint64_t bit = (uint64_t)1 << (width - 1);
    if (split) return split(keys, count, bit);
    uint64_t low = 0;
    for (uint64_t high = count; low < high;) {
        const uint64_t key = keys[low];
        if (key & bit) {
            keys[low] = keys[--high];
            keys[high] = key;
        } else {
            low++;
        }
    }
    return low;
}

void sort_count(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *counts) {
    count_permuted(permutation, fingerprints, count, counts);
}

void sort_deal(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
               uint64_t *at) {
    deal_permuted(permutation, fingerprints, count, keys, at);
}

uint64_t sort_groups(const Permutation *permutation, const uint64_t *ends, uint64_t first, uint64_t end, uint64_t *keys,
                     SortRoom *room) {
    uint64_t start = first ? ends[first - 1] : 0;
    SortedOut out = {keys + start, 0};
    for (uint64_t digit = first; digit < end; start = ends[digit++])
        sort_range(keys + start, ends[digit] - start, permutation->key_bits - SPLIT_DIGIT_BITS, room, &out);
    return out.count;
}

uint64_t sort_permuted(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
                       SortRoom *room) {
    uint64_t ends[SPLIT_GROUPS] = {0}, total = 0;
    count_permuted(permutation, fingerprints, count, ends);
    for (uint64_t digit = 0; digit < SPLIT_GROUPS; digit++) {
        uint64_t size = ends[digit];
        ends[digit] = total; /* a start as yet */
        total += size;
    }
    deal_permuted(permutation, fingerprints, count, keys, ends);
    return sort_groups(permutation, ends, 0, SPLIT_GROUPS, keys, room);
}
