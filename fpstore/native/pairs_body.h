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
    while (high - low > 1) { /* keys[low] < key; keys[high] >= key, or high is the end */
        uint64_t middle = low + (high - low) / 2;
        if (keys[middle] < key) low = middle;
        else high = middle;
    }
    return high;
}

static __attribute__((noinline)) void KERNEL(add_pair)(Join *join, uint64_t left, uint64_t right) {
    const Table *table = join->tables[join->table];
    uint64_t difference = left ^ right;
    if (KERNEL_ONES(difference & top_bits(table->permutation.prefix_bits)) > table->flips) return;
    uint64_t bits = permute_bytes(table->permutation.invert, difference);
    for (unsigned earlier = 0; earlier < join->table; earlier++)
        if (KERNEL_ONES(bits & join->tables[earlier]->permutation.prefix_mask) <= join->tables[earlier]->flips) return;
    if (join->out != NULL) {
        uint64_t first = permute_bytes(table->permutation.invert, left), second = first ^ bits;
        int swap = join->symmetric && second < first;
        join->out[join->found] = (Pair){swap ? second : first, swap ? first : second, KERNEL_ONES(difference)};
    }
    join->found++;
}

/* Go on joining until the output has no room for another row of a group, the work of this call is done, or all is. */
static void KERNEL(join_run)(Join *join) {
    const uint64_t *left = join->left, *right = join->right;
    const uint64_t flips = join->flips, highest = flips ? (uint64_t)1 << (bit_length(flips) - 1) : 0;
    const unsigned distance = join->distance, shift = 64 - join->window_bits;
    uint64_t work = 0, i = join->i;
    while (i < join->left_count && work < JOIN_WORK) {
        uint64_t key = left[i], window = ((key ^ flips) >> 1 >> (shift - 1)) - join->first_window;
        if (join->symmetric && (key & highest)) { /* each pair of windows is met from the side where this bit is 0 */
            uint64_t next = (key | (highest - 1)) + 1;
            i = next == 0 ? join->left_count : KERNEL(gallop)(left, join->left_count, i, next);
            continue;
        }
        uint64_t j = join->starts[window], end = join->starts[window + 1];
        if (join->symmetric && flips == 0) j = i + 1; /* right is left then, and i + 1 at most its end */
        if (join->resume > j) j = join->resume;
        join->resume = 0;
#ifdef KERNEL_IS_WIDE
        if (end - j <= 8 && join->room - join->found >= 8) { /* nearly every window: compared in one go, none mispredicted */
            __mmask8 held = (__mmask8)((1u << (end - j)) - 1);
            __m512i keys = _mm512_xor_si512(_mm512_maskz_loadu_epi64(held, right + j), _mm512_set1_epi64((long long)key));
            unsigned hits = _mm512_mask_cmple_epu64_mask(held, _mm512_popcnt_epi64(keys), _mm512_set1_epi64(distance));
            for (; UNLIKELY(hits != 0); hits &= hits - 1) KERNEL(add_pair)(join, key, right[j + (unsigned)__builtin_ctz(hits)]);
            work += 4;
            i++;
            continue;
        }
#endif
        while (j < end) {
            if (UNLIKELY(join->found == join->room || work >= JOIN_WORK)) {
                join->resume = j;
                join->i = i;
                return;
            }
            uint64_t room = join->room - join->found, begin = j;
            uint64_t stop = end - j < room ? end : j + room;
            if (stop - j > JOIN_WORK) stop = j + JOIN_WORK;
            for (; j < stop; j++)
                if (UNLIKELY(KERNEL_ONES(key ^ right[j]) <= distance)) KERNEL(add_pair)(join, key, right[j]);
            work += j - begin;
        }
        work++;
        i++;
    }
    join->i = i;
}
