/* One query of few slots with AVX-512 and VBMI2: as search_many.h, with less to write, and each table's codes as they
   are. Included by search_body.h, behind search_many.h.

   After other work no near cache has any of what a query uses, and it waits for each line of code and of memory as for
   those of the file. So a slot is a word, and all slots and blocks of the query are there at once. The
   lanes of a vector are of one table, so that its code is known to all of them, and what is the same for them is kept
   once. */

enum {
    ONE_LEAST = 64, /* slots; of fewer all tables' blocks fit in the lanes of a vector or two */
    /* Blocks of each run whose lines are asked for before any is scanned, and as many ahead of the one that is. With the
       first lines of all blocks before them, of 24 the others, one query of 363 slots takes 2 to 4 % more where keys are
       uniform, and as long where they are skewed. */
    ONE_AHEAD = 64,
    FENCE_LINES = 4, /* of the fences among which a key's is sought */
};

/* Whether a query is one of few slots: of tables of codes whose slots are all within a prefix, in sound pages. */
static int KERNEL(is_one)(const Search *search, uint64_t count) {
    unsigned slots = 0;
    if (count != 1 || search->table_count > ONE_TABLES || !pages_sound(search->pages)) return 0;
    for (unsigned t = 0; t < search->table_count; t++) {
        const Table *table = search->tables[t];
        const unsigned bits = table->slot_bits;
        if (table->block_bytes != 0 || bits > table->permutation.prefix_bits || table->flips > 2) return 0;
        slots += 1 + (table->flips > 0 ? bits : 0) + (table->flips > 1 ? bits * (bits - 1) / 2 : 0);
    }
    return slots >= ONE_LEAST && slots <= ONE_SLOTS;
}

/* Whether the last slots of the query wait until the others are scanned: those of the first table that differ from the
   query's in as many bits as it has flips. Without them all that is nearer than the distance is found, as a key that is
   not has as many errors in the first table's prefix, and more than there are flips in each other one: no fewer than
   `distance`. So of what the slots have only keys at the distance itself may be kept, and where enough of these are
   found, lesser ones; the first table is in their order. */
static unsigned KERNEL(waits)(const Search *search) {
    const Permutation *first = &search->tables[0]->permutation;
    uint64_t prefixes = 0;
    unsigned errors = 0;
    if (search->keep == 0 || search->tables[0]->flips == 0 || first->rest_mask != low_bits(first->below_bits)) return 0;
    for (unsigned t = 0; t < search->table_count; t++) {
        const uint64_t own = search->tables[t]->permutation.prefix_mask;
        if ((prefixes & own) != 0) return 0;
        prefixes |= own, errors += search->tables[t]->flips + 1;
    }
    return errors > search->distance;
}

/* Slots and blocks are grouped by table; group LATE, where slots of the first table wait, are these. */
enum { LATE = 1 };
ALWAYS_INLINE unsigned KERNEL(table_of_group)(const Search *search, unsigned group) {
    return group - (group >= LATE ? search->waits : 0);
}

/* The numbers of the directory's lines that tell of slots. */
ALWAYS_INLINE __m512i KERNEL(lines_of)(__m512i slot) {
    const __m512i two_52 = _mm512_set1_epi64(0x4330000000000000);
    /* Of a whole number below 2^40 and a half, a twelfth is nowhere near a whole number. */
    const __m512d middle =
        _mm512_sub_pd(_mm512_castsi512_pd(_mm512_or_si512(slot, two_52)), _mm512_set1_pd(4503599627370496.0 - 0.5));
    return _mm512_xor_si512(two_52, _mm512_castpd_si512(_mm512_add_round_pd(
                                        _mm512_mul_pd(middle, _mm512_set1_pd(1.0 / GROUP_SLOTS)),
                                        _mm512_castsi512_pd(two_52), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)));
}

/* The next slots, so many, are those of these keys, in vectors of eight. Their keys alone are kept: what else is said
   of them is found again in less time than memory takes that no near cache has. */
ALWAYS_INLINE void KERNEL(name_eight)(Search *search, const Table *table, __m512i keys, unsigned count) {
    const __m512i line = KERNEL(lines_of)(_mm512_srlv_epi64(keys, _mm512_set1_epi64(table->slot_shift)));
    const uint8_t *directory = search->pages->base + table->directory_offset;
    uint64_t offsets[8];
    _mm512_storeu_si512(offsets, _mm512_slli_epi64(line, 5));
    _mm512_storeu_si512(search->columns.one.key + search->slot_count, keys);
    for (unsigned i = 0; i < 8; i++) __builtin_prefetch(directory + offsets[i]);
    search->slot_count += count;
}

/* Name the slots of a table that differ from the query's in `used` bits to `most`, as probe_flips() does, and ask for
   their directory lines. */
static __attribute__((noinline)) void KERNEL(name_one)(Search *search, const Table *table, uint64_t query,
                                                       unsigned used, unsigned most) {
    const uint64_t key = KERNEL(apply)(&table->permutation, query), top = (uint64_t)1 << (table->key_bits - 1);
    const __m512i keys = _mm512_set1_epi64((long long)key), eight = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const unsigned bits = table->slot_bits;
    for (; used <= most; used++) {
        if (used == 0) KERNEL(name_eight)(search, table, keys, 1);
        for (unsigned outer = 0; outer < (used == 2 ? bits - 1 : used); outer++) {
            const __m512i flipped = used == 2 ? _mm512_set1_epi64((long long)(key ^ top >> outer)) : keys;
            for (unsigned bit = used == 2 ? outer + 1 : 0; bit < bits; bit += 8) {
                const __m512i flip = _mm512_srlv_epi64(_mm512_set1_epi64((long long)(top >> bit)), eight);
                const unsigned left = bits - bit;
                KERNEL(name_eight)(search, table, _mm512_xor_si512(flipped, flip), left < 8 ? left : 8);
            }
        }
    }
}

static __attribute__((noinline)) void KERNEL(begin_one)(Search *search, uint64_t query) {
    OneColumns *one = &search->columns.one;
    one->query = query;
    one->groups = 0, one->waiting = search->waits = KERNEL(waits)(search);
    for (unsigned t = 0; t < search->table_count; t++) {
        const Table *table = search->tables[t];
        const unsigned late = t == 0 ? one->waiting : 0;
        KERNEL(name_one)(search, table, query, 0, table->flips - late);
        one->end[one->groups++] = search->slot_count;
        if (!late) continue;
        KERNEL(name_one)(search, table, query, table->flips, table->flips);
        one->end[one->groups++] = search->slot_count;
    }
}

/* The slots of the query as those of several are named. */
static Status KERNEL(begin_tables)(Search *search, uint64_t query) {
    Status status = OK;
    KERNEL(begin_many)(search);
    for (unsigned t = 0; t < search->table_count && status == OK && !search->done; t++) {
        const Table *table = search->tables[t];
        const unsigned prefix_bits = table->permutation.prefix_bits;
        const unsigned bits = prefix_bits < table->probe_bits ? prefix_bits : table->probe_bits;
        const uint64_t key = KERNEL(apply)(&table->permutation, query);
        status = KERNEL(name_probes)(search, t, key, key, 0, bits, table->flips);
    }
    return status;
}

/* Ask for the lines of a block as far as the scan is likely to come; most have no more than three. */
ALWAYS_INLINE void KERNEL(ask_block)(const uint8_t *base, const OneColumns *one, unsigned i) {
    const uint64_t first = one->at[i] >> 3, last = first + one->reached[i];
    __builtin_prefetch(base + first);
    __builtin_prefetch(base + (first + 64 < last ? first + 64 : last));
    __builtin_prefetch(base + (first + 128 < last ? first + 128 : last));
    for (uint64_t byte = first + 192; UNLIKELY(byte <= last); byte += 64) __builtin_prefetch(base + byte);
}

/* Ask for the fences among which a key's is sought: most have no more than these lines, of others it is the middle. */
ALWAYS_INLINE void KERNEL(ask_fences)(const uint8_t *base, const Table *table, uint64_t key) {
    uint64_t low, high;
    if (!fences_known(table)) return;
    fences_around(table, key, &low, &high);
    const uint8_t *fences = base + table->fences_offset;
    const uint64_t first = (low > 0 ? low - 1 : 0) * FENCE_BYTES, last = high * FENCE_BYTES;
    if (last - first >= FENCE_LINES * CACHE_LINE) {
        __builtin_prefetch(fences + (low + (high - low) / 2) * FENCE_BYTES);
        return;
    }
    for (unsigned line = 0; line < FENCE_LINES; line++)
        __builtin_prefetch(fences + (first + line * CACHE_LINE < last ? first + line * CACHE_LINE : last));
}

/* What is wanted of a slot that differs from the query's, whose key is `key` there, in `used` bits: its keys from
   `first` to `last`. */
ALWAYS_INLINE void KERNEL(wanted_of)(const Table *table, uint64_t key, unsigned used, uint64_t *first, uint64_t *last) {
    const uint64_t below = low_bits(table->permutation.below_bits);
    *first = key & ~below, *last = key | below;
    KERNEL(widen_wanted)(low_bits(table->slot_shift) & ~below, key, table->flips - used, first, last);
}

/* A slot that fences tell of, for add_large(). What is begun last runs on while most lanes have nothing to do: so large
   ones do not wait. */
static __attribute__((noinline)) void KERNEL(keep_large)(Search *search, unsigned group, unsigned i) {
    const unsigned t = KERNEL(table_of_group)(search, group);
    SlotColumns *slots = &search->columns.slots;
    const OneColumns *one = &search->columns.one;
    const unsigned n = slots->large_count++, shift = search->tables[t]->slot_shift;
    if (n >= BATCH_SLOTS) return; /* more of them are another search */
    const uint64_t key = one->key[i], start = slot_start(slot_of(key, shift), shift);
    uint64_t first_wanted, last_wanted;
    KERNEL(wanted_of)(search->tables[t], key, KERNEL(ones)(key ^ one->queries[t]), &first_wanted, &last_wanted);
    KERNEL(ask_fences)(search->pages->base, search->tables[t], first_wanted > start ? first_wanted : start);
    slots->large[n] = (uint16_t)n, slots->index[n] = group - (group == LATE ? one->waiting : 0);
    slots->line[n] = search->tables[t]->directory_offset, slots->start[n] = start;
    slots->first_wanted[n] = first_wanted, slots->last_wanted[n] = last_wanted;
    slots->query[n] = one->queries[t], slots->tag[n] = KERNEL(tag_of)(search, t);
}

/* Read the directory lines of the slots of a group, [first, end): what has a block comes to `kept` and behind. */
static __attribute__((noinline)) Status KERNEL(resolve_one)(Search *search, unsigned group, unsigned first,
                                                            unsigned end, unsigned *kept) {
    const Table *table = search->tables[KERNEL(table_of_group)(search, group)];
    const uint8_t *base = search->pages->base;
    OneColumns *one = &search->columns.one;
    const __m512i shift = _mm512_set1_epi64(table->slot_shift),
                  scale = _mm512_set1_epi64(reach_shift(table->slot_shift)),
                  directory = _mm512_set1_epi64((long long)table->directory_offset),
                  payload = _mm512_set1_epi64((long long)table->payload_offset * 8),
                  payload_bits = _mm512_set1_epi64((long long)table->payload_bits);
    const uint64_t query = one->queries[KERNEL(table_of_group)(search, group)];
    const __m512i query_keys = _mm512_set1_epi64((long long)query);
    /* Of slots that differ in 0, 1 and 2 bits: what the last key that is wanted has more than the slot's own. */
    uint64_t more[8] = {0};
    for (unsigned used = 0; used <= table->flips; used++) {
        uint64_t first_wanted, last_wanted;
        KERNEL(wanted_of)(table, query, used, &first_wanted, &last_wanted);
        more[used] = last_wanted & low_bits(table->slot_shift);
    }
    const __m512i lasts = _mm512_loadu_si512(more);
    unsigned n = *kept;
    for (unsigned i = first; i < end; i += 8) {
        const __mmask8 lanes = (__mmask8)low_bits(end - i < 8 ? end - i : 8);
        uint64_t lines[8];
        EightBlocks found;
        /* In a lane without a slot it is the query's. */
        const __m512i key = _mm512_mask_loadu_epi64(query_keys, lanes, one->key + i);
        const __m512i slot = _mm512_srlv_epi64(key, shift), start = _mm512_sllv_epi64(slot, shift),
                      line = KERNEL(lines_of)(slot), used = _mm512_popcnt_epi64(_mm512_xor_si512(key, query_keys)),
                      last_wanted = _mm512_or_si512(start, _mm512_permutexvar_epi64(used, lasts));
        const __m512i index =
            _mm512_sub_epi64(slot, _mm512_add_epi64(_mm512_slli_epi64(line, 3), _mm512_slli_epi64(line, 2)));
        _mm512_storeu_si512(lines, _mm512_add_epi64(directory, _mm512_slli_epi64(line, 5)));
        const Status status =
            KERNEL(read_directory)(base, lines, index, start, last_wanted, payload, payload_bits, scale, lanes, &found);
        if (UNLIKELY(status != OK)) return status;
        for (unsigned left = found.large; UNLIKELY(left != 0); left &= left - 1)
            KERNEL(keep_large)(search, group, i + (unsigned)__builtin_ctz(left));
        const unsigned added = (unsigned)__builtin_popcount(found.filled);
        /* No more than that, as the rows of the next table follow. */
        const __mmask8 rows = (__mmask8)low_bits(added);
#define STORE(column, value) \
    _mm512_mask_storeu_epi64(one->column + n, rows, _mm512_maskz_compress_epi64(found.filled, value))
        STORE(at, found.at);
        STORE(end_bit, found.end);
        STORE(key, start);
        STORE(last_wanted, last_wanted);
#undef STORE
        const __m512i bytes = _mm512_sub_epi64(_mm512_srli_epi64(found.reached, 3), _mm512_srli_epi64(found.at, 3));
        _mm_mask_storeu_epi16(one->reached + n, rows,
                              _mm512_cvtusepi64_epi16(_mm512_maskz_compress_epi64(found.filled, bytes)));
        n += added;
    }
    *kept = n;
    return OK;
}

/* A run of rows [first, end), which may be none. */
ALWAYS_INLINE OneRun KERNEL(run_of)(unsigned first, unsigned end) {
    const unsigned soon = first + ONE_AHEAD < end ? first + ONE_AHEAD : end;
    return (OneRun){first, soon < end ? soon : end - (end > first), end, 0};
}

/* Ask for the lines of the first blocks of a run. */
ALWAYS_INLINE void KERNEL(ask_run)(const uint8_t *base, const OneColumns *one, const OneRun *run) {
    for (unsigned i = run->next; i < run->end && i < run->next + ONE_AHEAD; i++) KERNEL(ask_block)(base, one, i);
}

ALWAYS_INLINE void KERNEL(ask_runs)(const uint8_t *base, const OneColumns *one, unsigned group) {
    const OneRun *runs = one->runs[group];
    KERNEL(ask_run)(base, one, &runs[0]);
    if (runs[0].more) KERNEL(ask_run)(base, one, &runs[1]);
}

/* The blocks of large slots, behind row *kept, which moves, while some of `others` are asked for. They are long, and so
   come before the other blocks of their table: what is begun last runs on while most lanes have nothing to do. Whether
   there is room for them. */
static __attribute__((noinline)) Status KERNEL(add_large)(Search *search, unsigned *kept, Beginnings *others,
                                                          int *room) {
    OneColumns *one = &search->columns.one;
    const SlotColumns *slots = &search->columns.slots;
    const unsigned count = slots->large_count;
    uint64_t found[BATCH_SLOTS];
    unsigned begin = *kept, n = *kept;
    for (unsigned first = 0; first < count; first += FENCES_AT_ONCE) KERNEL(find_fences)
    (search, slots->large + first, count - first < FENCES_AT_ONCE ? count - first : FENCES_AT_ONCE, found + first,
     others);
    for (unsigned i = 0; i < count; i++) {
        const unsigned t = KERNEL(table_of)(slots->tag[i]);
        const Table *table = search->tables[t];
        const SlotProbe probe = {slot_of(slots->start[i], table->probe_shift),
                                 slots->query[i],
                                 slots->first_wanted[i],
                                 slots->last_wanted[i],
                                 search->query_index,
                                 (uint16_t)t};
        for (uint64_t index = found[i]; index < table->fence_count;) {
            Block block;
            uint64_t bits;
            const Status status = KERNEL(next_large)(search, &probe, &index, &block, &bits);
            if (status != OK) return status;
            if (block.end == block.start) continue;
            *room = n < ONE_BLOCKS;
            if (!*room) return OK;
            one->at[n] = block.start, one->end_bit[n] = block.end, one->key[n] = block.previous;
            one->last_wanted[n] = probe.last_wanted;
            const uint64_t reached = ((block.start + bits) >> 3) - (block.start >> 3);
            one->reached[n] = (uint16_t)(reached < UINT16_MAX ? reached : UINT16_MAX);
            n++;
        }
        OneRun *runs = one->runs[slots->index[i]];
        if (i + 1 < count && slots->index[i + 1] == slots->index[i]) continue;
        if (n > begin) {
            runs[1] = runs[0], runs[0] = KERNEL(run_of)(begin, n);
            runs[0].more = runs[1].next < runs[1].end;
        }
        begin = n;
    }
    *kept = n;
    return OK;
}

/* Code that is asked for before it runs. */
typedef struct {
    const void *code;
    unsigned lines;
} AskedCode;
static __attribute__((noinline)) void KERNEL(ask_code_parts)(const AskedCode *parts, unsigned count) {
    for (unsigned i = 0; i < count; i++) ask_code_at(parts[i].code, parts[i].lines);
}

/* Ask for the code of large slots, where tables have fences, for the nearest, and for what is noted of fences. */
ALWAYS_INLINE void KERNEL(ask_large)(const Search *search) {
    static const AskedCode parts[] = {{(const void *)&KERNEL(keep_large), 5},
                                      {(const void *)&KERNEL(find_fences), 9},
                                      {(const void *)&KERNEL(add_large), 12},
                                      {(const void *)&KERNEL(next_large), 8},
                                      {(const void *)&fence_block, 8}};
    uint64_t fences = 0;
    for (unsigned t = 0; t < search->table_count; t++) {
        Table *table = search->tables[t];
        fences |= table->fence_count;
        if (table->fence_count < FENCES_NOTED) continue;
        if (UNLIKELY(!fences_known(table))) fences_note(table, search->pages);
        for (size_t at = 0; at < sizeof table->first_fence; at += CACHE_LINE)
            __builtin_prefetch((const char *)table->first_fence + at);
    }
    if (fences != 0 && search->keep != 0) KERNEL(ask_code_parts)(parts, sizeof parts / sizeof *parts);
}

/* What a vector of lanes is at: blocks of one table. */
typedef struct {
    __m512i at, key, end, last_wanted;
    __mmask8 active;
} OneLanes;

/* What is the same for all of them. */
typedef struct {
    Codes codes;
    __m512i query;
    OneRun *run; /* that blocks are taken from; NULL before the first one */
    unsigned table;
} OneTable;

static Status KERNEL(scan_one_gap)(Search *search);
static int KERNEL(take_table)(Search *search, OneTable *own);
static void KERNEL(wait_no_more)(Search *search);
static Status KERNEL(look_again)(Search *search, const OneTable *own, int codec, OneLanes *lanes);

/* Ask for the code of the scan while the directory is read, for the nearest, as first_rows() of `Single` does. */
ALWAYS_INLINE void KERNEL(ask_scan)(void) {
    static const AskedCode parts[] = {
        {(const void *)&KERNEL(take_table), 7},    {(const void *)&KERNEL(scan_one_gap), 92},
        {(const void *)&KERNEL(report), 6},        {(const void *)&KERNEL(careful_pair), 23},
        {(const void *)&KERNEL(wait_no_more), 10}, {(const void *)&KERNEL(look_again), 4},
        {(const void *)&KERNEL(report_lanes), 4},  {(const void *)&KERNEL(slow_lanes), 8}};
    KERNEL(ask_code_parts)(parts, sizeof parts / sizeof *parts);
}

static __attribute__((noinline)) Status KERNEL(ask_one)(Search *search) {
    OneColumns *one = &search->columns.one;
    const uint8_t *base = search->pages->base;
    unsigned first = 0, kept = 0;
    int room = 1;
    Status status = OK;
    search->columns.slots.large_count = 0;
    KERNEL(ask_large)(search);
    if (search->keep != 0) KERNEL(ask_scan)();
    for (unsigned t = 0; t < search->table_count; t++)
        one->queries[t] = KERNEL(apply)(&search->tables[t]->permutation, one->query);
    for (unsigned group = 0; group < one->groups; group++) {
        const unsigned begin = kept;
        status = KERNEL(resolve_one)(search, group, first, one->end[group], &kept);
        if (status != OK) return status;
        first = one->end[group];
        one->runs[group][0] = KERNEL(run_of)(begin, kept);
    }
    Beginnings others = {one->at, kept, 0};
    search->slot_count = 0;
    if (search->columns.slots.large_count > BATCH_SLOTS) room = 0;
    if (room && search->columns.slots.large_count > 0) status = KERNEL(add_large)(search, &kept, &others, &room);
    if (status != OK) return status;
    if (!room) {
        search->is_one = 0, search->waits = 0;
        status = KERNEL(begin_tables)(search, one->query);
        return status == OK && !search->done ? KERNEL(resolve_many)(search) : status;
    }
    for (unsigned group = 0; group < one->groups; group++)
        if (group != LATE || !one->waiting) KERNEL(ask_runs)(base, one, group);
    search->blocks_scanned += kept;
    return OK;
}

/* A lane has a key that is near, or a code that is not known: in *lanes the pair of steps again, with care. */
static __attribute__((noinline)) Status KERNEL(look_again)(Search *search, const OneTable *own, int codec,
                                                           OneLanes *lanes) {
    const uint64_t tag = (KERNEL(tag_of)(search, own->table) & ~(uint64_t)WIDE_DIFFERS);
    LaneVector again = {lanes->at,          lanes->key, lanes->end,
                        lanes->last_wanted, own->query, _mm512_set1_epi64((long long)tag),
                        lanes->active};
    const Status status = KERNEL(careful_pair)(search, &own->codes, codec, &again);
    lanes->at = again.at, lanes->key = again.key, lanes->active = again.active;
    return status;
}

/* Of the slots that have waited, what may still be kept is asked for: blocks that have keys up to that of the last that
   would be kept now. */
static __attribute__((noinline)) void KERNEL(wait_no_more)(Search *search) {
    OneColumns *one = &search->columns.one;
    OneRun *run = &one->runs[LATE][0];
    uint64_t limit = UINT64_MAX;
    unsigned kept = run->next;
    one->waiting = 0;
    search->match_count = match_keep(search->matches, search->match_count, sizeof(Match), search->keep, NULL);
    if (search->match_count == search->keep) {
        const Match *last = &search->matches[search->match_count - 1];
        limit = last->fingerprint;
        if (last->distance < search->distance) run->end = run->next;
    }
    for (unsigned i = run->next; i < run->end; i += 8) {
        const __mmask8 lanes = (__mmask8)low_bits(run->end - i < 8 ? run->end - i : 8);
        const __mmask8 these =
            _mm512_mask_cmple_epu64_mask(lanes, _mm512_loadu_si512(one->key + i), _mm512_set1_epi64((long long)limit));
        const unsigned count = (unsigned)__builtin_popcount(these);
        const __mmask8 rows = (__mmask8)low_bits(count);
#define KEEP(column)                                   \
    _mm512_mask_storeu_epi64(one->column + kept, rows, \
                             _mm512_maskz_compress_epi64(these, _mm512_loadu_si512(one->column + i)))
        KEEP(at);
        KEEP(key);
        KEEP(last_wanted);
        KEEP(end_bit);
#undef KEEP
        _mm_mask_storeu_epi16(one->reached + kept, rows,
                              _mm_maskz_compress_epi16(these, _mm_loadu_si128((const void *)(one->reached + i))));
        kept += count;
    }
    *run = KERNEL(run_of)(run->next, kept);
    KERNEL(ask_run)(search->pages->base, one, run);
}

/* A vector without blocks takes those of the group that has most of them left. Whether there are any. */
static __attribute__((noinline)) int KERNEL(take_table)(Search *search, OneTable *own) {
    OneColumns *one = &search->columns.one;
    unsigned most = 0;
    for (;;) {
        for (unsigned group = 0; group < one->groups; group++) {
            OneRun *runs = one->runs[group];
            const unsigned left = runs[0].end - runs[0].next + (runs[0].more ? runs[1].end - runs[1].next : 0);
            if (left <= most || (group == LATE && one->waiting)) continue;
            most = left;
            own->table = KERNEL(table_of_group)(search, group);
            own->run = runs[0].next < runs[0].end ? &runs[0] : &runs[1];
        }
        if (most > 0) break;
        if (!one->waiting) return 0;
        KERNEL(wait_no_more)(search);
    }
    own->query = _mm512_set1_epi64((long long)one->queries[own->table]);
    KERNEL(load_codes)(&search->tables[own->table]->own, &own->codes);
    return 1;
}

/* Scan all blocks of the query. As scan_lanes(). */
ALWAYS_INLINE Status KERNEL(scan_one_as)(Search *search, int codec) {
    const __m512i seven = _mm512_set1_epi64(7), distance = _mm512_set1_epi64(search->distance);
    const uint8_t *base = search->pages->base;
    OneColumns *one = &search->columns.one;
    OneLanes lanes[MANY_VECTORS];
    OneTable own[MANY_VECTORS];
    unsigned past = 0, running, all_taken = 0;
#pragma GCC unroll 3
    for (unsigned v = 0; v < MANY_VECTORS; v++) {
        lanes[v].active = 0;
        lanes[v].at = lanes[v].end = lanes[v].key = lanes[v].last_wanted = _mm512_setzero_si512();
        own[v].run = NULL;
    }
    do {
        running = 0;
#pragma GCC unroll 3
        for (unsigned v = 0; v < MANY_VECTORS; v++) {
            OneRun *run = own[v].run;
            if (UNLIKELY(run == NULL || run->next == run->end)) {
                if (run != NULL && run->more) {
                    run = own[v].run = run + 1;
                } else if (lanes[v].active == 0) {
                    if (all_taken || !KERNEL(take_table)(search, &own[v])) {
                        all_taken = 1;
                        continue;
                    }
                    run = own[v].run;
                    past |= _mm512_cmpgt_epu64_mask(lanes[v].at, lanes[v].end);
                    /* A lane without a block stands where the first one does. */
                    lanes[v].at = lanes[v].end = _mm512_set1_epi64((long long)one->at[run->next]);
                }
            }
            if (LIKELY(run->next < run->end)) {
                /* Whether there are lanes without one nobody can foresee: so it is not asked. */
                const unsigned next = run->next, left = run->end - next, ahead = run->ahead;
                const __mmask8 free = (__mmask8)_pdep_u32(left < 8 ? (1u << left) - 1 : 255, (uint8_t)~lanes[v].active);
                past |= _mm512_cmpgt_epu64_mask(lanes[v].at, lanes[v].end);
#define FILL(column, from) \
    lanes[v].column = _mm512_mask_expand_epi64(lanes[v].column, free, _mm512_loadu_si512(one->from + next))
                FILL(at, at);
                FILL(key, key);
                FILL(end, end_bit);
                FILL(last_wanted, last_wanted);
#undef FILL
                lanes[v].active |= free;
                run->next = next + (unsigned)__builtin_popcount(free);
                KERNEL(ask_block)(base, one, ahead);
                run->ahead = ahead + (ahead + 1 < run->end);
            }
            const __m512i at = lanes[v].at, key = lanes[v].key;
            __m512i low, high, next_at = at, first_key = key, found[2], bit = _mm512_and_si512(at, seven);
            __mmask8 active = lanes[v].active;
            KERNEL(bring_words)(base, _mm512_srli_epi64(at, 3), &low, &high);
            KERNEL(lane_step)(&own[v].codes, low, high, active, codec, &next_at, &first_key, &bit, &found[0]);
            active = _mm512_mask_cmplt_epu64_mask(_mm512_mask_cmple_epu64_mask(active, first_key, lanes[v].last_wanted),
                                                  next_at, lanes[v].end);
            __m512i second_key = first_key;
            KERNEL(lane_step)(&own[v].codes, low, high, active, codec, &next_at, &second_key, &bit, &found[1]);
            /* Behind what is wanted no code is read: only what is read can be found to be damaged. */
            active = _mm512_mask_cmplt_epu64_mask(
                _mm512_mask_cmple_epu64_mask(active, second_key, lanes[v].last_wanted), next_at, lanes[v].end);
            const __m512i errors = _mm512_min_epu64(KERNEL(lane_errors)(first_key, own[v].query),
                                                    KERNEL(lane_errors)(second_key, own[v].query)),
                          codes = _mm512_and_si512(_mm512_or_si512(found[0], found[1]), _mm512_set1_epi64(WIDE_FAR));
            if (UNLIKELY(_mm512_mask_cmple_epu64_mask(lanes[v].active, errors, distance) |
                         _mm512_mask_test_epi64_mask(lanes[v].active, codes, codes))) {
                OneLanes again = lanes[v];
                const Status status = KERNEL(look_again)(search, &own[v], codec, &again);
                if (status != OK || search->done) return status;
                lanes[v] = again;
            } else {
                lanes[v].at = next_at, lanes[v].key = second_key, lanes[v].active = active;
            }
            running |= 1;
        }
    } while (running);
#pragma GCC unroll 3
    for (unsigned v = 0; v < MANY_VECTORS; v++) past |= _mm512_cmpgt_epu64_mask(lanes[v].at, lanes[v].end);
    return past ? BAD_BLOCK : OK;
}

static __attribute__((noinline)) Status KERNEL(scan_one_gap)(Search *search) {
    return KERNEL(scan_one_as)(search, CODEC_GAP);
}
static __attribute__((noinline)) Status KERNEL(scan_one_xor)(Search *search) {
    return KERNEL(scan_one_as)(search, CODEC_XOR);
}

static Status KERNEL(end_one)(Search *search) {
    return search->tables[0]->codec == CODEC_XOR ? KERNEL(scan_one_xor)(search) : KERNEL(scan_one_gap)(search);
}

/* Ask for the code of all this up to the scan, as far into the second-level cache as what has to run before it. */
static void KERNEL(ask_code_of_one)(void) {
    static const AskedCode parts[] = {
        {(const void *)&KERNEL(search_begin), 9}, {(const void *)&KERNEL(begin_one), 7},
        {(const void *)&KERNEL(name_one), 23},    {(const void *)&KERNEL(search_ask), 1},
        {(const void *)&KERNEL(ask_one), 23},     {(const void *)&KERNEL(resolve_one), 18}};
    KERNEL(ask_code_parts)(parts, sizeof parts / sizeof *parts);
}
