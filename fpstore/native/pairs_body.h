/* Joining two sorted runs of keys. Included once for each instruction set; see platform.h. */

static __attribute__((noinline)) void KERNEL(add_pair)(Join *join, uint64_t left, uint64_t right) {
    const Table *table = join->tables[join->table];
    uint64_t difference = left ^ right;
    if (KERNEL_ONES(difference & top_bits(table->permutation.prefix_bits)) > table->flips) return;
    uint64_t bits = permute_bytes(table->permutation.invert, difference);
    for (unsigned earlier = 0; earlier < join->table; earlier++)
        if (KERNEL_ONES(bits & join->tables[earlier]->permutation.prefix_mask) <= join->tables[earlier]->flips) return;
    if (join->out != NULL) {
        uint64_t first = permute_bytes(table->permutation.invert, left), second = first ^ bits;
        int swap = join->left_starts != NULL && second < first; /* of one set: the smaller first */
        join->out[join->found] = (Pair){swap ? second : first, swap ? first : second, KERNEL_ONES(difference)};
    }
    join->found++;
}

/* Compare key with right[*j .. end); 0 when the output or the work of this call ran out first, *j being where. */
ALWAYS_INLINE int KERNEL(compare)(Join *join, uint64_t key, uint64_t *j, uint64_t end, uint64_t *work) {
    const uint64_t *right = join->right;
    while (*j < end) {
        if (UNLIKELY(join->found == join->room || *work >= JOIN_WORK)) return 0;
        uint64_t room = join->room - join->found, begin = *j, stop = end - begin < room ? end : begin + room;
        if (stop - begin > JOIN_WORK) stop = begin + JOIN_WORK;
        for (; *j < stop; ++*j)
            if (UNLIKELY(KERNEL_ONES(key ^ right[*j]) <= join->distance)) KERNEL(add_pair)(join, key, right[*j]);
        *work += stop - begin;
    }
    return 1;
}

#ifdef KERNEL_IS_WIDE
/* Compare each of `count` keys of left with all of a window of at most eight keys of right, eight at a time: no loop over
   right whose length a branch would have to guess. own: the two windows are one, and each pair is wanted once. */
ALWAYS_INLINE void KERNEL(compare_window)(Join *join, const uint64_t *left, uint64_t count, const uint64_t *right,
                                          uint64_t right_count, int own) {
    const __mmask8 held = (__mmask8)((1u << right_count) - 1);
    const __m512i keys = _mm512_maskz_loadu_epi64(held, right), limit = _mm512_set1_epi64(join->distance);
    for (uint64_t i = 0; i < count; i++) {
        __mmask8 wanted = own ? (__mmask8)(held & ~((2u << i) - 1)) : held;
        __m512i differences = _mm512_xor_si512(keys, _mm512_set1_epi64((long long)left[i]));
        unsigned hits = _mm512_mask_cmple_epu64_mask(wanted, _mm512_popcnt_epi64(differences), limit);
        for (; UNLIKELY(hits != 0); hits &= hits - 1) KERNEL(add_pair)(join, left[i], right[__builtin_ctz(hits)]);
    }
}
#endif

/* Join the windows of left with their partners in right. Both are of one set: each pair of windows is met from the side
   where the highest flipped bit is 0, and without flips, where right is left, each pair of keys from its smaller index. */
static void KERNEL(join_windows)(Join *join) {
    const unsigned shift = 63 - join->window_bits;
    const uint64_t flips = join->flips >> 1 >> shift, highest = flips ? (uint64_t)1 << (bit_length(flips) - 1) : 0;
    uint64_t work = 0, window = join->window;
    while (window < join->window_count && work < JOIN_WORK) {
        uint64_t name = join->left_first + window;
        if (name & highest) { /* the lower bits are 0 here: the run of such windows is passed over whole */
            window += highest;
            continue;
        }
        uint64_t partner = (name ^ flips) - join->right_first;
        uint64_t i = join->left_starts[window], left_end = join->left_starts[window + 1];
        uint64_t first = join->right_starts[partner], right_end = join->right_starts[partner + 1];
#ifdef KERNEL_IS_WIDE
        uint64_t count = left_end - i;
        if (right_end - first <= 8 && count <= 64 && join->room - join->found >= 8 * count && join->i == 0) {
            KERNEL(compare_window)(join, join->left + i, count, join->right + first, right_end - first, flips == 0);
            work += 2 + 2 * count;
            window++;
            continue;
        }
#endif
        if (join->i > i) i = join->i;
        for (; i < left_end; i++) {
            uint64_t j = flips == 0 ? i + 1 : first;
            if (join->resume > j) j = join->resume;
            join->resume = 0;
            if (!KERNEL(compare)(join, join->left[i], &j, right_end, &work)) {
                join->resume = j;
                join->i = i;
                join->window = window;
                return;
            }
        }
        join->i = 0;
        work += 2;
        window++;
    }
    join->window = window;
}

/* Join each key of left, queries in order, with the window of right that differs from its own by the flips. */
static void KERNEL(join_keys)(Join *join) {
    const unsigned shift = 63 - join->window_bits;
    uint64_t work = 0, i = join->i;
    for (; i < join->left_count && work < JOIN_WORK; i++) {
        uint64_t key = join->left[i], window = ((key ^ join->flips) >> 1 >> shift) - join->right_first;
        uint64_t j = join->right_starts[window], end = join->right_starts[window + 1];
#ifdef KERNEL_IS_WIDE
        if (end - j <= 8 && join->room - join->found >= 8 && join->resume == 0) {
            KERNEL(compare_window)(join, join->left + i, 1, join->right + j, end - j, 0);
            work += 4;
            continue;
        }
#endif
        if (join->resume > j) j = join->resume;
        join->resume = 0;
        if (!KERNEL(compare)(join, key, &j, end, &work)) {
            join->resume = j;
            break;
        }
        work++;
    }
    join->i = i;
}

/* Go on joining until the output has no room, the work of this call is done, or all is. */
static void KERNEL(join_run)(Join *join) {
    if (join->left_starts != NULL) KERNEL(join_windows)(join);
    else KERNEL(join_keys)(join);
}
