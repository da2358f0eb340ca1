/* Which ids belong to which fingerprint. */
#include "ids.h"

#include "decode.h"

/* A word of the groups; bits past their end read as zero. */
ALWAYS_INLINE Status groups_word(Pages *pages, const Ids *ids, uint64_t index, uint64_t *word) {
    uint64_t bits = ids->key_count + ids->id_count, from = index * 64, offset = ids->groups_offset + index * 8;
    Status status = pages_check(pages, offset, offset + 7);
    if (status != OK) return status;
    *word = load64(pages->base + offset);
    if (bits - from < 64) *word &= low_bits((unsigned)(bits - from));
    return OK;
}

/* A sample block near the one sought, by the even spread that groups mostly have. */
ALWAYS_INLINE uint64_t groups_guess(const Ids *ids, uint64_t most, int of_zeros) {
    uint64_t blocks = (ids->key_count + ids->id_count + SAMPLE_BITS - 1) / SAMPLE_BITS;
    uint64_t of = of_zeros ? ids->id_count : ids->key_count;
    uint64_t guess = (uint64_t)((double)most / (double)(of > 0 ? of : 1) * (double)blocks);
    return guess < blocks ? guess : blocks - (blocks > 0);
}

/* The last sample block before which there are at most `most` ones, or zeros, of the groups; *ones: before it. Looks
   at the guess first, then further and further away from it, then by halves. */
ALWAYS_INLINE Status groups_block(Pages *pages, const Ids *ids, uint64_t most, int of_zeros, uint64_t *block,
                                  uint64_t *ones) {
    uint64_t bits = ids->key_count + ids->id_count, low = 0, high = (bits + SAMPLE_BITS - 1) / SAMPLE_BITS;
    uint64_t at = groups_guess(ids, most, of_zeros), step = 1;
    int below = 0, above = 0; /* whether the sought one is known to lie at or after low, and before high */
    for (;;) {
        int last = high - low <= 1;
        if (last) at = low;
        uint64_t offset = ids->samples_offset + SAMPLE_BYTES * at;
        Status status = pages_check(pages, offset, offset + 7);
        if (status != OK) return status;
        *ones = load64(pages->base + offset);
        if (of_zeros && *ones > at * SAMPLE_BITS) return BAD_DIRECTORY;
        int beyond = (of_zeros ? at * SAMPLE_BITS - *ones : *ones) > most;
        *block = at;
        if (last) return beyond ? BAD_DIRECTORY : OK;
        if (beyond) {
            high = at;
            above = 1;
        } else {
            low = at;
            below = 1;
        }
        if (below && above)
            at = low + (high - low) / 2;
        else if (below)
            at = high - low > step ? low + step : high - 1;
        else
            at = high - low > step ? high - step : low;
        step *= 2;
    }
}

/* Position of one number `rank` (from 0) in the groups. */
static Status groups_select(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *position) {
    uint64_t words = (ids->key_count + ids->id_count + 63) / 64, low, before;
    Status status = groups_block(pages, ids, rank, 0, &low, &before);
    if (status != OK) return status;
    for (uint64_t index = low * (SAMPLE_BITS / 64), end = index + SAMPLE_BITS / 64; index < end && index < words;
         index++) {
        uint64_t word, ones;
        status = groups_word(pages, ids, index, &word);
        if (status != OK) return status;
        ones = (uint64_t)__builtin_popcountll(word);
        if (rank - before < ones) {
            for (; before < rank; before++) word &= word - 1;
            *position = index * 64 + (uint64_t)__builtin_ctzll(word);
            return OK;
        }
        before += ones;
    }
    return BAD_DIRECTORY;
}

/* Words after the one of a group's begin in which its end mostly is. */
enum { NEAR_WORDS = 4 };

/* Position of the next one after `begin`, which is one number `rank`. */
static Status groups_next(Pages *pages, const Ids *ids, uint64_t rank, uint64_t begin, uint64_t *position) {
    uint64_t words = (ids->key_count + ids->id_count + 63) / 64, index = begin / 64;
    uint64_t after = ~low_bits((unsigned)(begin % 64)) & ~((uint64_t)1 << begin % 64);
    for (uint64_t end = index + NEAR_WORDS; index < end && index < words; index++, after = ~(uint64_t)0) {
        uint64_t word;
        Status status = groups_word(pages, ids, index, &word);
        if (status != OK) return status;
        if ((word & after) != 0) {
            *position = index * 64 + (uint64_t)__builtin_ctzll(word & after);
            return OK;
        }
    }
    return groups_select(pages, ids, rank + 1, position);
}

Status ids_range(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *first, uint64_t *count) {
    if (rank >= ids->key_count) return BAD_DIRECTORY;
    if (ids->kind == IDS_ONE) {
        *first = rank;
        *count = 1;
        return OK;
    }
    uint64_t begin, end = ids->key_count + ids->id_count;
    Status status = groups_select(pages, ids, rank, &begin);
    if (status == OK && rank + 1 < ids->key_count) status = groups_next(pages, ids, rank, begin, &end);
    if (status != OK) return status;
    if (begin < rank || end <= begin) return BAD_DIRECTORY;
    *first = begin - rank;
    *count = end - begin - 1;
    if (*first > ids->id_count || *count > ids->id_count - *first) return BAD_DIRECTORY;
    return OK;
}

void ids_ask_rank(Pages *pages, const Ids *ids, uint64_t slot) {
    bytes_ask(pages, ids->ranks_offset + slot * ids->rank_width / 8);
}

void ids_ask_group(Pages *pages, const Ids *ids, uint64_t rank) {
    if (ids->kind != IDS_MANY || rank >= ids->key_count) return;
    uint64_t guess = groups_guess(ids, rank, 0);
    bytes_ask(pages, ids->samples_offset + SAMPLE_BYTES * guess);
    bytes_ask(pages, ids->groups_offset + guess * (SAMPLE_BITS / 8));
}

/* Fields [first, first + count) of a packed stream, each more than base; the caller knows that they lie in the region.
 */
static Status packed_read(Pages *pages, uint64_t offset, unsigned width, uint64_t first, uint64_t count, uint64_t base,
                          uint64_t *out) {
    uint64_t bit = offset * 8 + first * width, mask = low_bits(width), wrapped = 0;
    if (width == 0 || count == 0) {
        for (uint64_t i = 0; i < count; i++) out[i] = base;
        return OK;
    }
    Status status = pages_check(pages, bit >> 3, (bit + count * width - 1) >> 3);
    if (status != OK) return status;
    for (uint64_t i = 0; i < count; i++, bit += width) {
        const uint8_t *at = pages->base + (bit >> 3);
        unsigned shift = bit & 7;
        uint64_t word = load64(at) >> shift | (uint64_t)at[8] << 1 << (63 - shift);
        out[i] = base + (word & mask);
        wrapped |= out[i] < base;
    }
    return wrapped ? BAD_DIRECTORY : OK;
}

/* The ids of values [first, first + count). */
static Status read_values(Pages *pages, const Ids *ids, uint64_t first, uint64_t count, uint64_t *out) {
    Status status = packed_read(pages, ids->values_offset, ids->width, first, count, ids->base, out);
    if (ids->list_count == 0) return status;
    for (uint64_t i = 0; i < count && status == OK; i++) status = id_of_value(pages, ids, out[i], &out[i]);
    return status;
}

/* Where a walk over group bits has come to, and how many ids it has found. */
typedef struct {
    uint64_t bit, rank, filled;
    int done;
} Step;

/* Pass `count` bits that surely fit: for each there is room, should it be an id, and a rank, should it begin a group.
   No branch on the data. */
ALWAYS_INLINE void step_many(Step *step, uint64_t word, uint64_t count, uint64_t *ranks) {
    uint64_t rank = step->rank, filled = step->filled;
    for (uint64_t i = 0; i < count; i++, word >>= 1) {
        uint64_t one = word & 1;
        rank += one;
        ranks[filled] = rank - 1;
        filled += 1 - one;
    }
    step->rank = rank;
    step->filled = filled;
    step->bit += count;
}

/* Pass `count` bits one at a time, up to the first that does not fit: that is where the walk goes on another time. */
static Status step_each(Step *step, uint64_t word, uint64_t count, uint64_t key_count, uint64_t end_rank, uint64_t room,
                        uint64_t *ranks) {
    for (uint64_t i = 0; i < count && !step->done; i++, word >>= 1) {
        if (word & 1) {
            step->done = step->rank == end_rank;
            if (step->done && step->rank == key_count) return BAD_DIRECTORY; /* more groups than fingerprints */
            step->rank += !step->done;
        } else {
            if (step->rank == 0) return BAD_DIRECTORY;
            step->done = step->filled == room;
            if (!step->done) ranks[step->filled++] = step->rank - 1;
        }
        step->bit += !step->done;
    }
    return OK;
}

/* Walk over the group bits, a word at a time: the ranks of the ids that come next. */
static Status walk_groups(Pages *pages, const Ids *ids, Step *step, uint64_t end_rank, uint64_t room, uint64_t *ranks) {
    const uint64_t bits = ids->key_count + ids->id_count;
    while (!step->done) {
        uint64_t word, left = bits - step->bit;
        if (left == 0) return step->rank != end_rank || step->rank != ids->key_count ? BAD_DIRECTORY : OK;
        Status status = groups_word(pages, ids, step->bit >> 6, &word);
        if (status != OK) return status;
        word >>= step->bit & 63;
        if (left > 64 - (step->bit & 63)) left = 64 - (step->bit & 63);
        if (step->rank > 0 && room - step->filled > left && end_rank - step->rank >= left) {
            step_many(step, word, left, ranks);
        } else {
            status = step_each(step, word, left, ids->key_count, end_rank, room, ranks);
            if (status != OK) return status;
        }
    }
    return OK;
}

/* Whether the ids of each group increase, those of a group that the walk began before too; remembers the last. */
static int values_increase(IdWalk *walk, const uint64_t *ranks, const uint64_t *values, uint64_t count) {
    uint64_t disorder = 0;
    for (uint64_t i = 1; i < count; i++) disorder |= (values[i] <= values[i - 1]) & (ranks[i] == ranks[i - 1]);
    if (count > 0) {
        disorder |= walk->value > 0 && ranks[0] == walk->last_rank && values[0] <= walk->last;
        walk->last_rank = ranks[count - 1];
        walk->last = values[count - 1];
    }
    return !disorder;
}

Status ids_walk(Pages *pages, const Ids *ids, IdWalk *walk, uint64_t end_rank, uint64_t room, uint64_t *ranks,
                uint64_t *values, uint64_t *count) {
    Step step = {.bit = walk->bit, .rank = walk->rank};
    Status status = OK;
    if (ids->kind == IDS_ONE)
        for (; step.filled < room && step.rank < end_rank; step.filled++) ranks[step.filled] = step.rank++;
    else
        status = walk_groups(pages, ids, &step, end_rank, room, ranks);
    if (status != OK) return status;
    if (step.filled > ids->id_count - walk->value) return BAD_DIRECTORY;
    status = read_values(pages, ids, walk->value, step.filled, values);
    if (status != OK) return status;
    if (!values_increase(walk, ranks, values, step.filled)) return BAD_DIRECTORY;
    walk->bit = step.bit;
    walk->rank = step.rank;
    walk->value += step.filled;
    *count = step.filled;
    return OK;
}

/* The keys of the block of fence `index` of a table of blocks, to be freed. */
static Status keys_of_fence(Pages *pages, const Table *table, uint64_t index, uint64_t **keys, uint64_t *count) {
    Block block;
    uint64_t last_key;
    *keys = NULL;
    Status status = fence_block(pages, table, 0, index, &block, &last_key);
    if (status == OK) status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
    if (status != OK) return status;
    *keys = malloc((block.end - block.start) * sizeof **keys);
    if (*keys == NULL) return NO_MEMORY;
    return decode_block(pages, table, &block, last_key, *keys, count);
}

/* table_index() of a table of blocks: where a key is in its block, and the fence of that. */
static Status index_in_block(Pages *pages, const Table *table, uint64_t key, uint64_t *fence, uint64_t *at,
                             int *found) {
    uint64_t *keys, count;
    *found = 0;
    Status status = fence_find(pages, table, key, fence);
    if (status != OK || *fence == table->fence_count) return status;
    status = keys_of_fence(pages, table, *fence, &keys, &count);
    for (uint64_t i = 0; i < count && status == OK && !*found; i++)
        if (keys[i] == key) {
            *found = 1;
            *at = i;
        }
    free(keys);
    return status;
}

Status table_index(Pages *pages, const Table *table, uint64_t key, uint64_t *at, int *found) {
    Block block;
    uint64_t scratch[MAX_BLOCK_KEYS];
    int large;
    uint64_t slot = slot_of(key, table->slot_shift), last_key = slot_end(slot, table->slot_shift), skipped = 0, got;
    *found = 0;
    if (UNLIKELY(slot >> table->slot_bits != 0)) return OK; /* a stranger's key, which has too many bits */
    if (table->block_bytes != 0) return index_in_block(pages, table, key, &skipped, at, found);
    Status status = slot_read(pages, table, slot, &block.start, &block.end, &large);
    if (status != OK) return status;
    block.previous = slot_start(slot, table->slot_shift);
    block.first_of_slot = 1;
    if (large) {
        uint64_t index, first;
        status = fence_find(pages, table, key, &index);
        if (status == OK) status = fence_find(pages, table, block.previous, &first);
        if (status != OK || index == table->fence_count) return status;
        uint64_t top = last_key;
        status = fence_block(pages, table, block.previous, index, &block, &last_key);
        if (status != OK || last_key > top) return status;
        if (index < first) return BAD_DIRECTORY;
        skipped = (index - first) * MAX_BLOCK_KEYS;
    }
    if (block.end == block.start) return OK;
    status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
    if (status == OK) status = decode_block(pages, table, &block, last_key, scratch, &got);
    if (status != OK) return status;
    for (uint64_t i = 0; i < got; i++)
        if (scratch[i] == key) {
            *found = 1;
            *at = skipped + i;
        }
    return OK;
}

Status table_rank(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *rank, int *found) {
    uint64_t at, before = 0, place = slot_of(key, table->slot_shift); /* of the rank: a slot, or a block */
    Status status = table->block_bytes != 0 ? index_in_block(pages, table, key, &place, &at, found)
                                            : table_index(pages, table, key, &at, found);
    if (status != OK || !*found) return status;
    status = packed_get(pages, ids->ranks_offset, ids->rank_width, place, &before);
    *rank = before + at;
    return status;
}

Status table_ask(Pages *pages, const Table *table, uint64_t key) {
    uint64_t slot = slot_of(key, table->slot_shift), start, end;
    int large;
    if (UNLIKELY(slot >> table->slot_bits != 0 || table->block_bytes != 0)) return OK;
    Status status = slot_read(pages, table, slot, &start, &end, &large);
    if (status != OK || start == end) return status;
    bytes_ask(pages, start / 8);
    bytes_ask(pages, (end - 1) / 8);
    return OK;
}

Status ids_of_key(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *first, uint64_t *count) {
    uint64_t rank;
    int found;
    Status status = table_rank(pages, table, ids, key, &rank, &found);
    if (status == OK && !found) status = BAD_DIRECTORY;
    return status == OK ? ids_range(pages, ids, rank, first, count) : status;
}

/* Key number `index` of the block of a fence. */
static Status key_in_block(Pages *pages, const Table *table, uint64_t fence, uint64_t index, uint64_t *key) {
    uint64_t *keys, count;
    if (fence >= table->fence_count) return BAD_DIRECTORY;
    Status status = keys_of_fence(pages, table, fence, &keys, &count);
    if (status == OK && index >= count) status = BAD_DIRECTORY;
    if (status == OK) *key = keys[index];
    free(keys);
    return status;
}

Status table_key(Pages *pages, const Table *table, const Ids *ids, uint64_t rank, uint64_t *key) {
    Block block;
    uint64_t scratch[MAX_BLOCK_KEYS];
    int large;
    uint64_t low = 0, high = table->block_bytes != 0 ? table->fence_count : (uint64_t)1 << table->slot_bits, before = 0,
             got;
    Status status = OK;
    while (high - low > 1) { /* to the last slot or block with at most `rank` keys before it */
        uint64_t middle = low + (high - low) / 2;
        status = packed_get(pages, ids->ranks_offset, ids->rank_width, middle, &before);
        if (status != OK) return status;
        if (before <= rank)
            low = middle;
        else
            high = middle;
    }
    status = packed_get(pages, ids->ranks_offset, ids->rank_width, low, &before);
    if (status != OK) return status;
    if (before > rank) return BAD_DIRECTORY;
    if (table->block_bytes != 0) return key_in_block(pages, table, low, rank - before, key);
    status = slot_read(pages, table, low, &block.start, &block.end, &large);
    if (status != OK) return status;
    uint64_t last_key = slot_end(low, table->slot_shift), index = rank - before;
    block.previous = slot_start(low, table->slot_shift);
    block.first_of_slot = 1;
    if (large) {
        uint64_t first, top = last_key;
        status = fence_find(pages, table, block.previous, &first);
        if (status != OK) return status;
        if (first >= table->fence_count || index / MAX_BLOCK_KEYS >= table->fence_count - first) return BAD_DIRECTORY;
        status = fence_block(pages, table, block.previous, first + index / MAX_BLOCK_KEYS, &block, &last_key);
        if (status != OK) return status;
        if (last_key > top) return BAD_DIRECTORY;
        index %= MAX_BLOCK_KEYS;
    }
    if (block.end == block.start) return BAD_DIRECTORY;
    status = pages_check(pages, block.start >> 3, (block.end - 1) >> 3);
    if (status == OK) status = decode_block(pages, table, &block, last_key, scratch, &got);
    if (status != OK) return status;
    if (index >= got) return BAD_DIRECTORY;
    *key = scratch[index];
    return OK;
}

/* The rank of the fingerprint that id `index` belongs to: of the groups, how many ones come before that zero, less 1.
 */
static Status groups_rank(Pages *pages, const Ids *ids, uint64_t index, uint64_t *rank) {
    uint64_t words = (ids->key_count + ids->id_count + 63) / 64, low, ones;
    Status status = groups_block(pages, ids, index, 1, &low, &ones);
    if (status != OK) return status;
    uint64_t left = index - (low * SAMPLE_BITS - ones);
    for (uint64_t at = low * (SAMPLE_BITS / 64), end = at + SAMPLE_BITS / 64; at < end && at < words; at++) {
        uint64_t word;
        status = groups_word(pages, ids, at, &word);
        if (status != OK) return status;
        uint64_t zero = ~word, zeros = (uint64_t)__builtin_popcountll(zero);
        if (left < zeros) {
            for (; left > 0; left--) zero &= zero - 1;
            ones += (uint64_t)__builtin_popcountll(word & ((zero & -zero) - 1));
            if (ones == 0 || ones > ids->key_count) return BAD_DIRECTORY;
            *rank = ones - 1;
            return OK;
        }
        left -= zeros;
        ones += 64 - zeros;
    }
    return BAD_DIRECTORY;
}

/* 2^64 divided by the golden ratio: its multiples lie evenly, of consecutive numbers too. */
ALWAYS_INLINE uint64_t filter_place(const IdSet *set, uint64_t id) {
    return id * 0x9E3779B97F4A7C15u >> (64 - set->filter_bits);
}

void id_set_fill(IdSet *set) {
    for (uint64_t i = 0; i < set->count; i++) {
        uint64_t place = filter_place(set, set->ids[i]);
        set->filter[place >> 6] |= (uint64_t)1 << (place & 63);
    }
}

static int id_set_holds(const IdSet *set, uint64_t id) {
    uint64_t at = 0;
    for (uint64_t left = set->count; left > 1; left -= left / 2) /* to the last id not above, or the first */
        if (set->ids[at + left / 2] <= id) at += left / 2;
    return set->ids[at] == id;
}

/* Values read at once: few enough for the first-level cache. */
enum { FIND_VALUES = 1024 };

Status ids_find(Pages *pages, const Ids *ids, const IdSet *set, uint64_t *next, uint64_t end, uint64_t room,
                uint64_t *ranks, uint64_t *values, uint64_t *count) {
    uint64_t read[FIND_VALUES];
    uint16_t near[FIND_VALUES];
    *count = 0;
    while (*next < end) {
        uint64_t first = *next, some = end - first < FIND_VALUES ? end - first : FIND_VALUES, found = 0;
        Status status = read_values(pages, ids, first, some, read);
        if (status != OK) return status;
        for (uint64_t i = 0; i < some; i++) { /* no branch on the data */
            uint64_t place = filter_place(set, read[i]);
            near[found] = (uint16_t)i;
            found += set->filter[place >> 6] >> (place & 63) & 1;
        }
        *next = first + some;
        for (uint64_t i = 0; i < found; i++) {
            uint64_t id = read[near[i]];
            if (!id_set_holds(set, id)) continue;
            if (*count == room) {
                *next = first + near[i];
                return OK;
            }
            ranks[*count] = first + near[i];
            if (ids->kind != IDS_ONE) status = groups_rank(pages, ids, first + near[i], &ranks[*count]);
            if (status != OK) return status;
            values[(*count)++] = id;
        }
    }
    return OK;
}

/* Ids that are looked up side by side, so that they wait for memory together. */
enum { SIDE_BY_SIDE = 16 };

void places_of_ids(const uint64_t *listed, uint64_t listed_count, const uint64_t *ids, uint64_t count,
                   int64_t *places) {
    for (uint64_t first = 0; first < count; first += SIDE_BY_SIDE) {
        uint64_t some = count - first < SIDE_BY_SIDE ? count - first : SIDE_BY_SIDE, at[SIDE_BY_SIDE] = {0};
        for (uint64_t left = listed_count; left > 1; left -= left / 2) /* to the last not above, or the first */
            for (uint64_t i = 0; i < some; i++) {
                uint64_t next = at[i] + left / 2;
                at[i] = listed[next] <= ids[first + i] ? next : at[i];
            }
        for (uint64_t i = 0; i < some; i++)
            places[first + i] = listed_count > 0 && listed[at[i]] == ids[first + i] ? (int64_t)at[i] : -1;
    }
}

Status listed_places(Pages *pages, const Ids *ids, const uint64_t *wanted, uint64_t count, int64_t *places) {
    for (uint64_t first = 0; first < count; first += SIDE_BY_SIDE) {
        uint64_t some = count - first < SIDE_BY_SIDE ? count - first : SIDE_BY_SIDE, at[SIDE_BY_SIDE] = {0}, id = 0;
        for (uint64_t left = ids->list_count; left > 1; left -= left / 2) /* to the last not above, or the first */
            for (uint64_t i = 0; i < some; i++) {
                uint64_t next = at[i] + left / 2;
                Status status = listed_at(pages, ids, next, &id);
                if (UNLIKELY(status != OK)) return status;
                at[i] = id <= wanted[first + i] ? next : at[i];
            }
        for (uint64_t i = 0; i < some; i++) {
            Status status = ids->list_count > 0 ? listed_at(pages, ids, at[i], &id) : OK;
            if (UNLIKELY(status != OK)) return status;
            places[first + i] = ids->list_count > 0 && id == wanted[first + i] ? (int64_t)at[i] : -1;
        }
    }
    return OK;
}
