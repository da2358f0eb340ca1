/* Joining two sorted runs of keys. Included once for each instruction set; see platform.h. */

/* Index of the first key that is at least `key`, looking from `from` on; near ones are found in few steps. */
ALWAYS_INLINE uint64_t KERNEL(gallop)(const uint64_t *keys, uint64_t count, uint64_t from, uint64_t key) {
    uint64_t step = 1, low = from, high;
    if (from >= count || keys[from] >= key) return from;
    while (step < count - low && keys[low + step] < key) {
        low += step;
        step *= 2;
    }
    high = step < count - low ? low + step : count;
    while (high - low > 1) { /* keys[low] < key; keys[high] >= key or high is the end */
        uint64_t middle = low + (high - low) / 2;
        if (keys[middle] < key) low = middle;
        else high = middle;
    }
    return high;
}

static __attribute__((noinline)) void KERNEL(add_pair)(Join *join, uint64_t left, uint64_t right) {
    const Table *table = join->tables[join->table];
    uint64_t difference = left ^ right;
    if (KERNEL(ones)(difference & top_bits(table->permutation.prefix_bits)) > table->flips) return;
    uint64_t bits = permute_bytes(table->permutation.invert, difference);
    for (unsigned earlier = 0; earlier < join->table; earlier++)
        if (KERNEL(ones)(bits & join->tables[earlier]->permutation.prefix_mask) <= join->tables[earlier]->flips) return;
    if (join->out != NULL) {
        uint64_t first = permute_bytes(table->permutation.invert, left), second = first ^ bits;
        join->out[join->found] = (Pair){first < second ? first : second, first < second ? second : first,
                                        KERNEL(ones)(difference)};
    }
    join->found++;
}

/* Go on joining until the output has no room for another row of a group, the work of this call is done, or all is. */
static void KERNEL(join_run)(Join *join) {
    const uint64_t *left = join->left, *right = join->right;
    const uint64_t windows = top_bits(join->window_bits), flips = join->flips, below = low_bits(64 - join->window_bits);
    const uint64_t highest = flips ? (uint64_t)1 << (bit_length(flips) - 1) : 0;
    const unsigned distance = join->distance;
    uint64_t work = 0, i = join->i;
    while (i < join->left_count && work < JOIN_WORK) {
        uint64_t key = left[i], window = key & windows;
        if (key & highest) { /* each pair of windows is met from the side where the highest flipped bit is 0 */
            uint64_t next = (key | (highest - 1)) + 1;
            if (next == 0) {
                i = join->left_count;
                break;
            }
            i = KERNEL(gallop)(left, join->left_count, i, next);
            continue;
        }
        uint64_t wanted = window ^ flips, from, last = wanted | below;
        if (flips == 0 && join->same) {
            from = i + 1;
        } else {
            uint64_t start = join->j;
            if (start > 0 && right[start - 1] >= wanted) start = 0;
            from = join->j = KERNEL(gallop)(right, join->right_count, start, wanted);
        }
        uint64_t j = join->resume > from ? join->resume : from;
        join->resume = 0;
        while (j < join->right_count && right[j] <= last) {
            if (UNLIKELY(join->found == join->room || work >= JOIN_WORK)) {
                join->resume = j;
                join->i = i;
                return;
            }
            uint64_t stop = join->room - join->found < JOIN_STEP ? j + (join->room - join->found) : j + JOIN_STEP;
            if (stop > join->right_count) stop = join->right_count;
            uint64_t begin = j;
            for (; j < stop && right[j] <= last; j++)
                if (UNLIKELY(KERNEL(ones)(key ^ right[j]) <= distance)) KERNEL(add_pair)(join, key, right[j]);
            work += j - begin;
        }
        work++;
        i++;
    }
    join->i = i;
}
