/* One query in several segments at once, with AVX-512 and VBMI2. Included by search_body.h, behind search_one.h.

   What the segments have in common is done once, and no stage begins before the one before it is done for all: the
   directory lines of all slots are on their way together, and so are the blocks. A block of any segment is taken by the
   next lane that is free, as long as that knows its code. */

enum {
    SEVERAL_AHEAD = 128,  /* blocks whose lines are asked for before those that are scanned */
    SEVERAL_BEYOND = 128, /* bits: in a block of few keys what is wanted may end so far behind where it likely does */
    SEVERAL_EACH = 16     /* so many slots ask for their blocks one by one; of more, other lines are on their way */
};

/* Of lanes that read bytes [first, last] of their segments, those that touch a page which may not have been used
   before: all that do, and few others. seen: of the lanes, as SeveralColumns has it. Those that are none of `lanes` may have
   any bytes. */
ALWAYS_INLINE __mmask8 KERNEL(new_pages)(__mmask8 lanes, __m512i seen, __m512i first, __m512i last) {
    uint64_t words_at[8];
    const __m512i one = _mm512_set1_epi64(1), low6 = _mm512_set1_epi64(63);
    const __m512i begin = _mm512_maskz_srli_epi64(lanes, first, 12), end = _mm512_maskz_srli_epi64(lanes, last, 12);
    const __m512i bits = _mm512_or_si512(_mm512_sllv_epi64(one, _mm512_and_si512(begin, low6)),
                                         _mm512_sllv_epi64(one, _mm512_and_si512(end, low6)));
    _mm512_storeu_si512(words_at, _mm512_add_epi64(seen, _mm512_slli_epi64(_mm512_srli_epi64(begin, 6), 3)));
#define WORD(lane) (long long)*(const uint64_t *)(uintptr_t)words_at[lane]
    const __m512i words = _mm512_set_epi64(WORD(7), WORD(6), WORD(5), WORD(4), WORD(3), WORD(2), WORD(1), WORD(0));
#undef WORD
    /* What lies in the pages is read behind that, as by page_seen(). */
    __atomic_signal_fence(__ATOMIC_ACQUIRE);
    /* Of two words, and of pages between the first and the last, the bits are not looked at. */
    return _mm512_mask_cmpneq_epi64_mask(lanes, _mm512_and_si512(words, bits), bits) |
           _mm512_mask_cmpneq_epi64_mask(lanes, _mm512_srli_epi64(begin, 6), _mm512_srli_epi64(end, 6)) |
           _mm512_mask_cmpgt_epu64_mask(lanes, _mm512_sub_epi64(end, begin), one);
}
_Static_assert(PAGE_BYTES == 1 << 12, "new_pages() divides by it");

/* Name the slots of all segments, and ask for their lines. keys: the query's of each table, SEVERAL_TABLES of them, and
   the same in two vectors. Returns whether a line may lie in a page that was not used before. */
static __attribute__((noinline)) unsigned KERNEL(name_several)(Search *search, const Several *several,
                                                               const uint64_t *keys, __m512i low_keys,
                                                               __m512i high_keys) {
    SlotColumns *slots = &search->columns.slots;
    const SeveralColumns *columns = several->columns;
    const unsigned count = columns->slot_count;
    unsigned new = 0;
    const __m512i two_52 = _mm512_set1_epi64(0x4330000000000000);
    for (unsigned i = 0; i < count; i += 8) {
#define KNOWN(column) _mm512_loadu_si512(columns->column + i)
#define STORE(column, value) _mm512_storeu_si512(slots->column + i, value)
        const __m512i query = _mm512_permutex2var_epi64(low_keys, KNOWN(table), high_keys),
                      key = _mm512_xor_si512(query, KNOWN(flip)), below = KNOWN(below), shift = KNOWN(shift),
                      slot = _mm512_srlv_epi64(key, shift);
        /* Of a whole number below 2^40 and a half, a twelfth is nowhere near a whole number. */
        const __m512d middle =
            _mm512_sub_pd(_mm512_castsi512_pd(_mm512_or_si512(slot, two_52)), _mm512_set1_pd(4503599627370496.0 - 0.5));
        const __m512i line =
            _mm512_xor_si512(two_52, _mm512_castpd_si512(_mm512_add_round_pd(
                                         _mm512_mul_pd(middle, _mm512_set1_pd(1.0 / GROUP_SLOTS)),
                                         _mm512_castsi512_pd(two_52), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)));
        const __m512i place = _mm512_add_epi64(KNOWN(directory), _mm512_slli_epi64(line, 5)),
                      byte = _mm512_sub_epi64(place, KNOWN(moved));
        STORE(line, place);
        for (unsigned row = i; row < i + 8; row++) __builtin_prefetch(several->base + slots->line[row]);
        new |= KERNEL(new_pages)((__mmask8)low_bits(count - i < 8 ? count - i : 8), KNOWN(seen), byte, byte);
        STORE(index, _mm512_sub_epi64(slot, _mm512_add_epi64(_mm512_slli_epi64(line, 3), _mm512_slli_epi64(line, 2))));
        STORE(start, _mm512_sllv_epi64(slot, shift));
        STORE(first_wanted, _mm512_andnot_si512(below, key));
        STORE(last_wanted, _mm512_or_si512(below, key));
        STORE(query, query);
        STORE(payload, KNOWN(payload));
        STORE(payload_bits, KNOWN(payload_bits));
        STORE(scale, KNOWN(scale));
        STORE(tag, KNOWN(tag));
#undef STORE
#undef KNOWN
    }
    for (unsigned i = 0; i < columns->widened_count; i++) {
        const unsigned row = columns->widened[i];
        KERNEL(widen_wanted)
        (columns->window[row], keys[columns->table[row]], columns->left[row], &slots->first_wanted[row],
         &slots->last_wanted[row]);
    }
    search->slot_count = count;
    return new;
}

/* Ask for the page of byte `offset` where it has not been used before. Whether that is so. */
ALWAYS_INLINE unsigned KERNEL(ask_page)(Pages *pages, uint64_t offset) {
    if (LIKELY(page_seen(pages, offset / PAGE_BYTES))) return 0;
    page_ask(pages, offset / PAGE_BYTES);
    return 1;
}

/* Check the pages of the slots' lines; first ask for all of them. The lines themselves are on their way. */
static __attribute__((noinline)) Status KERNEL(check_lines)(const Several *several, const SlotColumns *slots,
                                                            unsigned count) {
    Status status = OK;
    unsigned new = 0;
    for (unsigned i = 0; i < count; i++) {
        const unsigned part = KERNEL(query_of)(slots->tag[i]);
        new |= KERNEL(ask_page)(several->pages[part], slots->line[i] - several->moved[part]);
    }
    for (unsigned i = 0; UNLIKELY(new) && i < count && status == OK; i++) {
        const unsigned part = KERNEL(query_of)(slots->tag[i]);
        const uint64_t line = slots->line[i] - several->moved[part];
        status = pages_check(several->pages[part], line, line);
    }
    return status;
}

/* The blocks of a large slot of a segment, which is entry i of the slots, behind block *count, which moves. */
static __attribute__((noinline)) Status KERNEL(add_large_of_part)(Search *search, const Several *several, unsigned i,
                                                                  BlockColumns *blocks, unsigned *count) {
    const SlotColumns *slots = &search->columns.slots;
    const uint64_t tag = slots->tag[i];
    const unsigned part = KERNEL(query_of)(tag), index = KERNEL(table_of)(tag);
    const Table *table = search->tables[index];
    const SlotProbe probe = {slot_of(slots->start[i], table->probe_shift),
                             slots->query[i],
                             slots->first_wanted[i],
                             slots->last_wanted[i],
                             part,
                             (uint16_t)index};
    uint64_t fence;
    search->pages = several->pages[part];
    Status status = KERNEL(first_large)(search, &probe, &fence);
    while (status == OK && fence < table->fence_count && *count < BATCH_BLOCKS) {
        Block block;
        uint64_t bits;
        status = KERNEL(next_large)(search, &probe, &fence, &block, &bits);
        if (status != OK || block.end == block.start) continue;
        const uint64_t moved = several->moved[part] * 8;
        const unsigned n = (*count)++;
        blocks->at[n] = block.start + moved, blocks->end[n] = block.end + moved, blocks->key[n] = block.previous;
        blocks->last_wanted[n] = probe.last_wanted, blocks->query[n] = probe.query, blocks->tag[n] = tag;
        blocks->reached[n] = block.start + bits + moved;
    }
    return status;
}

/* Ask for the first line of each slot's block as soon as the slot's own line is there: what reads eight of them waits
   for the last. One segment of 10^7 keys in ten tables, which no near cache has, takes 0.85 to 0.9 of the time so. What
   the directory says is not checked here, and nothing is read of where it leads. */
ALWAYS_INLINE void KERNEL(ask_begins)(const uint8_t *base, const SlotColumns *slots, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *line = base + slots->line[i];
        const uint64_t index = slots->index[i];
        uint16_t from; /* as in read_directory() */
        memcpy(&from, line + 6 + 2 * index, sizeof from);
        const uint64_t at = slots->payload[i] + (load64(line) & low_bits(OFFSET_BITS)) + (index != 0 ? from : 0);
        __builtin_prefetch(base + (at >> 3));
    }
}

/* Ask for the lines of eight blocks, as far as the scan is likely to come; begun: of all the first one was asked for.
   Whether a block has one line or two nobody can foresee, and a wrong guess would hold up those that come after: so it
   is not asked. Few have more. */
ALWAYS_INLINE void KERNEL(ask_ends)(const uint8_t *base, const EightBlocks *blocks, int begun) {
    uint64_t first[8], last[8];
    const __m512i begin = _mm512_srli_epi64(blocks->at, 3), end = _mm512_srli_epi64(blocks->reached, 3),
                  second = _mm512_add_epi64(begin, _mm512_set1_epi64(64));
    _mm512_storeu_si512(first, begin);
    _mm512_storeu_si512(last, end);
    for (unsigned i = 0; i < 8; i++) {
        if (!begun) __builtin_prefetch(base + first[i]);
        __builtin_prefetch(base + last[i]);
    }
    const __mmask8 more = _mm512_mask_cmplt_epu64_mask(blocks->filled, second, end);
    if (UNLIKELY(more)) KERNEL(ask_lines)(base, more, second, end);
}

/* Read the lines of all slots. *count: how many blocks there are, BATCH_BLOCKS where there may be more. *new: whether
   one may lie in a page that was not used before. */
static Status KERNEL(resolve_several)(Search *search, const Several *several, BlockColumns *blocks, unsigned *count,
                                      unsigned *new) {
    SlotColumns *slots = &search->columns.slots;
    const SeveralColumns *columns = several->columns;
    const unsigned slot_count = search->slot_count;
    Status status = OK;
    /* What comes after the last one is read too. */
    _mm512_storeu_si512(slots->line + slot_count, _mm512_set1_epi64((long long)slots->line[0]));
    _mm512_storeu_si512(slots->index + slot_count, _mm512_setzero_si512());
    slots->large_count = 0;
    if (slot_count <= SEVERAL_EACH) KERNEL(ask_begins)(several->base, slots, slot_count);
    for (unsigned i = 0; i < slot_count; i += 8) {
        const __mmask8 lanes = (__mmask8)low_bits(slot_count - i < 8 ? slot_count - i : 8);
        EightBlocks found;
        status = KERNEL(read_eight)(several->base, slots, i, lanes, &found);
        if (UNLIKELY(status != OK)) return status;
        found.reached = _mm512_min_epu64(_mm512_add_epi64(found.reached, _mm512_set1_epi64(SEVERAL_BEYOND)), found.end);
        if (*count < SEVERAL_AHEAD) KERNEL(ask_ends)(several->base, &found, slot_count <= SEVERAL_EACH);
        KERNEL(store_eight)(slots, i, &found, blocks, *count);
        const __m512i moved = _mm512_loadu_si512(columns->moved + i),
                      last = _mm512_srli_epi64(_mm512_sub_epi64(found.end, _mm512_set1_epi64(1)), 3);
        *new |=
            KERNEL(new_pages)(found.filled, _mm512_loadu_si512(columns->seen + i),
                              _mm512_sub_epi64(_mm512_srli_epi64(found.at, 3), moved), _mm512_sub_epi64(last, moved));
        *count += (unsigned)__builtin_popcount(found.filled);
        for (unsigned left = found.large; UNLIKELY(left != 0); left &= left - 1)
            slots->large[slots->large_count++] = (uint16_t)(i + (unsigned)__builtin_ctz(left));
    }
    *new |= slots->large_count;
    for (unsigned i = 0; i < slots->large_count && status == OK && *count < BATCH_BLOCKS; i++)
        status = KERNEL(add_large_of_part)(search, several, slots->large[i], blocks, count);
    return status;
}

/* As check_lines(), of blocks. */
static __attribute__((noinline)) Status KERNEL(check_blocks)(const Several *several, const BlockColumns *blocks,
                                                             unsigned count) {
    Status status = OK;
    unsigned new = 0;
#define FIRST ((blocks->at[i] >> 3) - several->moved[part])
#define LAST (((blocks->end[i] - 1) >> 3) - several->moved[part])
    for (unsigned i = 0; i < count; i++) {
        const unsigned part = KERNEL(query_of)(blocks->tag[i]);
        Pages *pages = several->pages[part];
        new |= KERNEL(ask_page)(pages, FIRST) | KERNEL(ask_page)(pages, LAST);
        new |= LAST / PAGE_BYTES - FIRST / PAGE_BYTES > 1; /* of pages between them nothing is known yet */
    }
    for (unsigned i = 0; UNLIKELY(new) && i < count && status == OK; i++) {
        const unsigned part = KERNEL(query_of)(blocks->tag[i]);
        status = pages_check(several->pages[part], FIRST, LAST);
    }
#undef FIRST
#undef LAST
    return status;
}

/* Which blocks are left: of each code from next up to end; and the next one to ask for. */
typedef struct {
    unsigned next[SEVERAL_CODES], end[SEVERAL_CODES], count, ahead;
} SeveralLeft;

/* Put blocks in the order of their codes. */
static __attribute__((noinline)) void KERNEL(order_by_code)(const Several *several, const BlockColumns *blocks,
                                                            unsigned count, BlockColumns *ordered, SeveralLeft *left) {
    unsigned begin = 0;
    for (unsigned i = 0; i < count; i++) left->end[several->code_of[KERNEL(table_of)(blocks->tag[i])]]++;
    for (unsigned code = 0; code < left->count; code++) {
        left->next[code] = begin;
        begin += left->end[code];
        left->end[code] = left->next[code];
    }
    for (unsigned i = 0; i < count; i++) {
        const unsigned n = left->end[several->code_of[KERNEL(table_of)(blocks->tag[i])]]++;
        ordered->at[n] = blocks->at[i], ordered->end[n] = blocks->end[i], ordered->key[n] = blocks->key[i];
        ordered->last_wanted[n] = blocks->last_wanted[i], ordered->query[n] = blocks->query[i];
        ordered->tag[n] = blocks->tag[i], ordered->reached[n] = blocks->reached[i];
    }
}

/* What a vector of lanes is at: blocks of one code. */
typedef struct {
    Codes codes;
    unsigned code;
} SeveralCode;

/* A vector without blocks takes those of the code that has most of them left. Whether there are any. */
static __attribute__((noinline)) int KERNEL(take_code)(const Several *several, const SeveralLeft *left,
                                                       SeveralCode *own) {
    unsigned most = 0, found = own->code;
    for (unsigned code = 0; code < left->count; code++)
        if (left->end[code] - left->next[code] > most) most = left->end[code] - left->next[code], found = code;
    if (most == 0) return 0;
    if (found != own->code) KERNEL(load_codes)(&several->codes[found], &own->codes);
    own->code = found;
    return 1;
}

/* Ask for the lines of a block as far as the scan is likely to come. */
ALWAYS_INLINE void KERNEL(ask_ahead)(const uint8_t *base, const BlockColumns *blocks, unsigned i) {
    const uint64_t first = blocks->at[i] >> 3, last = blocks->reached[i] >> 3;
    __builtin_prefetch(base + first);
    __builtin_prefetch(base + (first + 64 < last ? first + 64 : last));
    for (uint64_t byte = first + 128; UNLIKELY(byte <= last); byte += 64) __builtin_prefetch(base + byte);
}

/* Scan all blocks, as scan_lanes(). */
ALWAYS_INLINE Status KERNEL(scan_several_as)(Search *search, const Several *several, const BlockColumns *blocks,
                                             unsigned count, SeveralLeft *left, int codec) {
    const __m512i seven = _mm512_set1_epi64(7), distance = _mm512_set1_epi64(search->distance);
    const uint8_t *base = several->base;
    LaneVector lanes[MANY_VECTORS];
    SeveralCode own[MANY_VECTORS];
    unsigned past = 0, running;
    const __m512i nowhere = _mm512_set1_epi64((long long)blocks->at[0]);
#pragma GCC unroll 3
    for (unsigned v = 0; v < MANY_VECTORS; v++) {
        lanes[v].at = lanes[v].end = nowhere; /* a lane without a block stands where the first one begins */
        lanes[v].key = lanes[v].last_wanted = lanes[v].query = lanes[v].tag = _mm512_setzero_si512();
        lanes[v].active = 0;
        own[v].code = SEVERAL_CODES; /* none */
    }
    do {
        running = 0;
#pragma GCC unroll 3
        for (unsigned v = 0; v < MANY_VECTORS; v++) {
            unsigned code = own[v].code;
            if (UNLIKELY(lanes[v].active == 0 && (code == SEVERAL_CODES || left->next[code] == left->end[code]))) {
                if (!KERNEL(take_code)(several, left, &own[v])) continue;
                code = own[v].code;
            }
            if (LIKELY(left->next[code] < left->end[code])) {
                const unsigned next = left->next[code], rest = left->end[code] - next;
                const __mmask8 free = (__mmask8)_pdep_u32(rest < 8 ? (1u << rest) - 1 : 255, (uint8_t)~lanes[v].active);
                past |= _mm512_cmpgt_epu64_mask(lanes[v].at, lanes[v].end);
#define FILL(column) \
    lanes[v].column = _mm512_mask_expand_epi64(lanes[v].column, free, _mm512_loadu_si512(blocks->column + next))
                FILL(at);
                FILL(key);
                FILL(end);
                FILL(last_wanted);
                FILL(query);
                FILL(tag);
#undef FILL
                lanes[v].active |= free;
                left->next[code] = next + (unsigned)__builtin_popcount(free);
                for (unsigned more = 0; more < 2 && left->ahead < count; more++)
                    KERNEL(ask_ahead)(base, blocks, left->ahead++);
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
            const __m512i errors = _mm512_min_epu64(KERNEL(lane_errors)(first_key, lanes[v].query),
                                                    KERNEL(lane_errors)(second_key, lanes[v].query));
            if (UNLIKELY(
                    _mm512_mask_cmple_epu64_mask(lanes[v].active, errors, distance) |
                    _mm512_mask_test_epi64_mask(lanes[v].active, _mm512_or_si512(found[0], found[1]), lanes[v].tag))) {
                LaneVector again = lanes[v];
                const Status status = KERNEL(careful_pair)(search, &own[v].codes, codec, &again);
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

static __attribute__((noinline)) Status KERNEL(scan_several_gap)(Search *search, const Several *several,
                                                                 const BlockColumns *blocks, unsigned count,
                                                                 SeveralLeft *left) {
    return KERNEL(scan_several_as)(search, several, blocks, count, left, CODEC_GAP);
}
static __attribute__((noinline)) Status KERNEL(scan_several_xor)(Search *search, const Several *several,
                                                                 const BlockColumns *blocks, unsigned count,
                                                                 SeveralLeft *left) {
    return KERNEL(scan_several_as)(search, several, blocks, count, left, CODEC_XOR);
}

_Static_assert(SEVERAL_TABLES == 16, "search_several() has the keys of the tables in two vectors");

Status KERNEL(search_several)(Search *search, const Several *several, uint64_t query, int *answered) {
    BlockColumns *blocks = &search->columns.blocks[0];
    uint64_t keys[SEVERAL_TABLES] = {0};
    unsigned count = 0;
    Pages all = {.base = several->base};
    /* A vector that is loaded from words just stored waits until they are in the cache. The first segment's lines are
       asked for before there is any: of one segment and six tables a query takes 0.92 to 0.96 of the time so. */
    __m512i low_keys = _mm512_setzero_si512(), high_keys = low_keys;
    for (unsigned t = 0; t < several->table_count; t++) {
        const Table *table = several->tables[t];
        const uint64_t key = KERNEL(apply)(&table->permutation, query), slot = slot_of(key, table->slot_shift);
        __builtin_prefetch(several->base + several->moved[0] + line_offset(table, slot));
        keys[t] = key;
        low_keys = _mm512_mask_set1_epi64(low_keys, (__mmask8)(1u << t), (long long)key);
        high_keys = _mm512_mask_set1_epi64(high_keys, (__mmask8)(1u << t >> 8), (long long)key);
    }
    unsigned new = KERNEL(name_several)(search, several, keys, low_keys, high_keys);
    Status status = new ? KERNEL(check_lines)(several, &search->columns.slots, search->slot_count) : OK;
    new = 0;
    if (status == OK) status = KERNEL(resolve_several)(search, several, blocks, &count, &new);
    if (status == OK && new) status = KERNEL(check_blocks)(several, blocks, count);
    search->slot_count = 0;
    *answered = count < BATCH_BLOCKS;
    if (status != OK || count == 0 || !*answered) return status;
    search->pages = &all;
    search->blocks_scanned += count;
    if (several->code_count == 1) {
        Lines ahead;
        ahead.count = ahead.asked = 0;
        if (count > SEVERAL_AHEAD) {
            KERNEL(list_lines)(blocks, count, 0, &ahead);
            KERNEL(ask_more)(several->base, &ahead, LINES_FIRST);
        }
        status = KERNEL(scan_class)(search, blocks, count, &several->codes[0], &ahead);
    } else {
        SeveralLeft left = {.count = several->code_count, .ahead = SEVERAL_AHEAD};
        BlockColumns *ordered = &search->columns.blocks[1];
        KERNEL(order_by_code)(several, blocks, count, ordered, &left);
        status = search->tables[0]->codec == CODEC_XOR
                     ? KERNEL(scan_several_xor)(search, several, ordered, count, &left)
                     : KERNEL(scan_several_gap)(search, several, ordered, count, &left);
    }
    search->pages = NULL;
    return status;
}
