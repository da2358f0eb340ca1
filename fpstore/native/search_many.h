/* The search with AVX-512 and VBMI2, of tables of codes: the stages of search_body.h, eight slots, and up to 32 blocks,
   at a time. Included by search_body.h.

   Slots and blocks are kept by column. A lane decodes a block and takes the next one as soon as it has come to its end,
   or past the last key that is wanted of it. Codes that look_up() does not know take step(). */

#include "lanes.h"

enum {
    MANY_VECTORS = 3, /* of more blocks than there are lanes */
    /* Where so many have a lane for each block. Of 27 blocks, as a query of plan balanced has at 10^8 keys, three would
       begin when others end, and run on alone: 0.94 to 0.98 of the time. Of more blocks four take 1.06 to 1.09. */
    ALL_VECTORS = 4,
    MANY_LEAST = 3,   /* blocks of one class of codes that are worth so many lanes */
    FENCES_LEAST = 4, /* large slots that are; of fewer the processor guesses the next step and does not wait */
    FENCES_AT_ONCE = 64,
    FIRST_LINES_A_STEP = 8, /* that are asked for with each step of the search for fences */
    LONG_THOUSANDS = 3,     /* bits of blocks that are begun first, in 1024s */
    /* In a search's first two turns, of which all would be asked for before any is scanned: blocks that are asked for
       where they are resolved. The lines of all are asked for while the blocks are scanned, so many of them before, and
       so many with each pair of steps, which uses some four: memory brings them meanwhile. Blocks of later turns are
       asked for before the turn before them is scanned. One query of 363 slots of uniform keys, whose store is in no
       near cache, takes 0.8 of the time so, of skewed ones about as long as before. */
    ASKED_FIRST = 48,
    LINES_FIRST = 128,
    LINES_A_PAIR = 8,
    LINE_ROOM = 1536, /* lines behind these are not asked for beforehand */
    ALL_AT_ONCE = BLOCK_ROOM,
};

/* What each lane is at. */
typedef struct {
    __m512i at[ALL_VECTORS], key[ALL_VECTORS], end[ALL_VECTORS], last_wanted[ALL_VECTORS], query[ALL_VECTORS],
        tag[ALL_VECTORS];
    __mmask8 active[ALL_VECTORS];
} Lanes;

/* The lanes of one vector, in memory. */
typedef struct {
    __m512i at, key, end, last_wanted, query, tag;
    __mmask8 active;
} LaneVector;

/* What a slot or block has for tag: its query and its table; and in the low byte the bits of a tail with which
   look_up() does not tell how a code of this table decodes. */
ALWAYS_INLINE uint64_t KERNEL(tag_of)(const Search *search, unsigned table) {
    const int follows = search->tables[table]->code_class != table;
    return (uint64_t)search->query_index << 32 | table << 8 | WIDE_FAR | (follows ? WIDE_DIFFERS : 0);
}
ALWAYS_INLINE unsigned KERNEL(table_of)(uint64_t tag) { return (unsigned)(tag >> 8 & 0xFFFF); }
ALWAYS_INLINE uint32_t KERNEL(query_of)(uint64_t tag) { return (uint32_t)(tag >> 32); }

/* step() of a table of codes, by what look_up() has of this table alone: 260 bytes, where the table of step() has 8 KiB,
   and of many tables is in no near cache. Whether that knows the code. */
ALWAYS_INLINE int KERNEL(own_step)(const uint8_t *base, const WideCode *code, int codec, uint64_t *at, uint64_t *key) {
    const uint64_t word = load64(base + (*at >> 3)) >> (*at & 7), ones = low_bits(code->far_ones);
    const int is_far = (word & ones) == ones;
    const unsigned index = is_far ? word >> code->far_ones & 127 : word & 63,
                   tail = is_far ? code->far_tail[index] : code->near_tail[index], advance = code->advance[tail & 63];
    if (tail == WIDE_FAR) return 0;
    const uint64_t delta = (word >> (advance - tail) & low_bits(tail)) | (uint64_t)1 << tail;
    *at += advance;
    *key = codec == CODEC_XOR ? *key ^ delta : *key + delta;
    return 1;
}
_Static_assert((int)WIDE_BITS <= (int)FAST_BITS, "own_step() has as many bits of a code as step()");

/* The lanes of `slow` again, from where they stood, by the code of their own table. */
static __attribute__((noinline)) Status KERNEL(slow_lanes)(const Search *search, unsigned slow, __m512i tags,
                                                           __m512i *at, __m512i *key) {
    uint64_t tag[8], ats[8], keys[8];
    _mm512_storeu_si512(tag, tags), _mm512_storeu_si512(ats, *at), _mm512_storeu_si512(keys, *key);
    for (; slow != 0; slow &= slow - 1) {
        const unsigned i = (unsigned)__builtin_ctz(slow);
        const Table *table = search->tables[KERNEL(table_of)(tag[i])];
        if (LIKELY(KERNEL(own_step)(search->pages->base, &table->own, table->codec, &ats[i], &keys[i]))) continue;
        Status status = KERNEL(step)(search->pages->base, table->decode, 0, table->codec, &ats[i], &keys[i]);
        if (status != OK) return status;
    }
    *at = _mm512_loadu_si512(ats), *key = _mm512_loadu_si512(keys);
    return OK;
}

/* Report the keys of the lanes of `near`. */
static __attribute__((noinline)) Status KERNEL(report_lanes)(Search *search, unsigned near, __m512i tags,
                                                             __m512i queries, __m512i lasts, __m512i keys) {
    uint64_t tag[8], query[8], last[8], key[8];
    Status status = OK;
    _mm512_storeu_si512(tag, tags), _mm512_storeu_si512(query, queries), _mm512_storeu_si512(key, keys);
    _mm512_storeu_si512(last, lasts);
    for (; near != 0 && status == OK && !search->done; near &= near - 1) {
        const unsigned i = (unsigned)__builtin_ctz(near);
        status = KERNEL(report)(search, KERNEL(table_of)(tag[i]), KERNEL(query_of)(tag[i]), query[i], last[i], key[i]);
    }
    return status;
}

/* Give lanes that are free the blocks from *next on, which moves past them. */
ALWAYS_INLINE void KERNEL(fill_lanes)(const BlockColumns *blocks, unsigned *next, unsigned count, unsigned v,
                                      Lanes *lanes) {
    const unsigned left = count - *next;
    const __mmask8 free = (__mmask8)_pdep_u32(left < 8 ? (1u << left) - 1 : 255, (uint8_t)~lanes->active[v]);
#define FILL(column) \
    lanes->column[v] = _mm512_mask_expand_epi64(lanes->column[v], free, _mm512_loadu_si512(blocks->column + *next))
    FILL(at);
    FILL(key);
    FILL(end);
    FILL(last_wanted);
    FILL(query);
    FILL(tag);
#undef FILL
    *next += (unsigned)__builtin_popcount(free);
    lanes->active[v] |= free;
}

/* One code of each lane of `active`, from bit `bit` of the words on: *at and *key move past it, and *bit does in every
   lane. *found: what was looked up; where its bits meet those of the tag, the code is not known here. */
ALWAYS_INLINE void KERNEL(lane_step)(const Codes *codes, __m512i low, __m512i high, __mmask8 active, int codec,
                                     __m512i *at, __m512i *key, __m512i *bit, __m512i *found) {
    const __m512i word = _mm512_shrdv_epi64(low, high, *bit);
    __m512i advance, tail;
    KERNEL(look_up)(codes, word, &advance, &tail);
    const __m512i delta = _mm512_shldv_epi64(_mm512_set1_epi64(1), _mm512_rorv_epi64(word, advance), tail);
    *found = tail;
    *at = _mm512_mask_add_epi64(*at, active, *at, advance);
    *key = codec == CODEC_XOR ? _mm512_mask_xor_epi64(*key, active, *key, delta)
                              : _mm512_mask_add_epi64(*key, active, *key, delta);
    *bit = _mm512_add_epi64(*bit, advance);
}

ALWAYS_INLINE __m512i KERNEL(lane_errors)(__m512i key, __m512i query) {
    return _mm512_popcnt_epi64(_mm512_xor_si512(key, query));
}

/* A pair of steps of a vector of lanes again, from where it began: codes that are not known take step(). */
static __attribute__((noinline)) Status KERNEL(careful_pair)(Search *search, const Codes *codes, int codec,
                                                             LaneVector *lanes) {
    const __m512i distance = _mm512_set1_epi64(search->distance);
    for (unsigned second = 0; second < 2; second++) {
        const __m512i before_at = lanes->at, before_key = lanes->key;
        __m512i low, high, found, bit = _mm512_and_si512(before_at, _mm512_set1_epi64(7));
        Status status = OK;
        KERNEL(bring_words)(search->pages->base, _mm512_srli_epi64(before_at, 3), &low, &high);
        KERNEL(lane_step)(codes, low, high, lanes->active, codec, &lanes->at, &lanes->key, &bit, &found);
        const __mmask8 slow = _mm512_mask_test_epi64_mask(lanes->active, found, lanes->tag);
        if (slow) {
            lanes->at = _mm512_mask_mov_epi64(lanes->at, slow, before_at);
            lanes->key = _mm512_mask_mov_epi64(lanes->key, slow, before_key);
            status = KERNEL(slow_lanes)(search, slow, lanes->tag, &lanes->at, &lanes->key);
        }
        const __mmask8 near =
            _mm512_mask_cmple_epu64_mask(lanes->active, KERNEL(lane_errors)(lanes->key, lanes->query), distance);
        if (status == OK && _mm512_mask_cmpgt_epu64_mask(near, lanes->at, lanes->end)) status = BAD_BLOCK;
        if (status == OK && near)
            status = KERNEL(report_lanes)(search, near, lanes->tag, lanes->query, lanes->last_wanted, lanes->key);
        if (status != OK || search->done) return status;
        lanes->active = _mm512_mask_cmplt_epu64_mask(
            _mm512_mask_cmple_epu64_mask(lanes->active, lanes->key, lanes->last_wanted), lanes->at, lanes->end);
    }
    return OK;
}

/* Ask for bytes [first, last] of eight blocks, as many of them as there are lanes. How many lines each has nobody can
   foresee, so as many are asked for of all as of the longest. */
ALWAYS_INLINE void KERNEL(ask_lines)(const uint8_t *base, __mmask8 lanes, __m512i first, __m512i last) {
    uint64_t byte[8];
    while (lanes) {
        _mm512_storeu_si512(byte, _mm512_min_epu64(first, last));
        for (unsigned i = 0; i < 8; i++) __builtin_prefetch(base + byte[i]);
        first = _mm512_add_epi64(first, _mm512_set1_epi64(64));
        lanes = _mm512_mask_cmple_epu64_mask(lanes, first, last);
    }
}

/* Lines of the file that will be read, in the order in which blocks are scanned. */
typedef struct {
    uint64_t line[LINE_ROOM + 8];
    unsigned count, asked;
} Lines;

/* The lines of blocks, from their line `from` on, as far as the scan is likely to come. */
static __attribute__((noinline)) void KERNEL(list_lines)(const BlockColumns *blocks, unsigned count, unsigned from,
                                                         Lines *lines) {
    unsigned n = 0;
    for (unsigned i = 0; i < count; i += 8) {
        __m512i line =
            _mm512_add_epi64(_mm512_srli_epi64(_mm512_loadu_si512(blocks->at + i), 9), _mm512_set1_epi64(from));
        const __m512i last = _mm512_srli_epi64(_mm512_loadu_si512(blocks->reached + i), 9);
        __mmask8 more = _mm512_mask_cmple_epu64_mask((__mmask8)low_bits(count - i < 8 ? count - i : 8), line, last);
        while (more != 0 && n < LINE_ROOM) {
            _mm512_storeu_si512(lines->line + n, _mm512_maskz_compress_epi64(more, _mm512_slli_epi64(line, 6)));
            n += (unsigned)__builtin_popcount(more);
            line = _mm512_add_epi64(line, _mm512_set1_epi64(1));
            more = _mm512_mask_cmple_epu64_mask(more, line, last);
        }
    }
    lines->count = n, lines->asked = 0;
}

/* Ask for so many lines more. */
ALWAYS_INLINE void KERNEL(ask_more)(const uint8_t *base, Lines *lines, unsigned most) {
    const unsigned left = lines->count - lines->asked, count = left < most ? left : most;
    for (unsigned i = 0; i < count; i++) __builtin_prefetch(base + lines->line[lines->asked + i]);
    lines->asked += count;
}

/* Scan *left blocks, 1 or more, of a class of codes, in the lanes of so many vectors, until one vector has room for all
   that is left: these blocks, from where they stand, come back as the first *left. Two loads of 16 bytes hold the two
   codes of a pair of steps, as none is longer than WIDE_BITS. Whether a key is near or a code not known is asked once a
   pair. */
ALWAYS_INLINE Status KERNEL(scan_lanes)(Search *search, BlockColumns *blocks, unsigned *left, const WideCode *code,
                                        Lines *ahead, int codec, const unsigned vectors, const int asks) {
    const __m512i seven = _mm512_set1_epi64(7), distance = _mm512_set1_epi64(search->distance);
    const uint8_t *base = search->pages->base;
    Codes codes;
    Lanes lanes;
    const unsigned count = *left;
    unsigned next = 0, past = 0, running = 0;
    KERNEL(load_codes)(code, &codes);
#pragma GCC unroll 4
    for (unsigned v = 0; v < vectors; v++) {
        /* A lane without a block stands where the first one begins. */
        lanes.at[v] = _mm512_set1_epi64((long long)blocks->at[0]);
        lanes.end[v] = lanes.at[v];
        lanes.key[v] = lanes.last_wanted[v] = lanes.query[v] = lanes.tag[v] = _mm512_setzero_si512();
        lanes.active[v] = 0;
        KERNEL(fill_lanes)(blocks, &next, count, v, &lanes);
    }
    do {
        __m512i low[ALL_VECTORS], high[ALL_VECTORS], bit[ALL_VECTORS], at[ALL_VECTORS], key[ALL_VECTORS],
            errors[ALL_VECTORS], found[ALL_VECTORS], first_key[ALL_VECTORS];
        __mmask8 first_active[ALL_VECTORS], active[ALL_VECTORS], care[ALL_VECTORS];
        unsigned any = 0;
#pragma GCC unroll 4
        for (unsigned v = 0; v < vectors; v++) {
            at[v] = lanes.at[v], key[v] = lanes.key[v], active[v] = lanes.active[v];
            KERNEL(bring_words)(base, _mm512_srli_epi64(at[v], 3), &low[v], &high[v]);
            bit[v] = _mm512_and_si512(at[v], seven);
        }
#pragma GCC unroll 2
        for (unsigned second = 0; second < 2; second++)
#pragma GCC unroll 4
            for (unsigned v = 0; v < vectors; v++) {
                __m512i now;
                KERNEL(lane_step)(&codes, low[v], high[v], active[v], codec, &at[v], &key[v], &bit[v], &now);
                const __m512i bits = KERNEL(lane_errors)(key[v], lanes.query[v]);
                errors[v] = second ? _mm512_min_epu64(errors[v], bits) : bits;
                found[v] = second ? _mm512_or_si512(found[v], now) : now;
                /* Behind what is wanted no code is read: only what is read can be found to be damaged. */
                active[v] = _mm512_mask_cmplt_epu64_mask(
                    _mm512_mask_cmple_epu64_mask(active[v], key[v], lanes.last_wanted[v]), at[v], lanes.end[v]);
                if (second == 0) first_key[v] = key[v], first_active[v] = active[v];
            }
#pragma GCC unroll 4
        for (unsigned v = 0; v < vectors; v++) {
            care[v] = _mm512_mask_cmple_epu64_mask(lanes.active[v], errors[v], distance) |
                      _mm512_mask_test_epi64_mask(lanes.active[v], found[v], lanes.tag[v]);
            any |= care[v];
        }
        if (UNLIKELY(any))
#pragma GCC unroll 4
            for (unsigned v = 0; v < vectors; v++) {
                if (!care[v]) continue;
                Status status = OK;
                if (_mm512_mask_test_epi64_mask(lanes.active[v], found[v], lanes.tag[v])) {
                    LaneVector again = {lanes.at[v],    lanes.key[v], lanes.end[v],   lanes.last_wanted[v],
                                        lanes.query[v], lanes.tag[v], lanes.active[v]};
                    status = KERNEL(careful_pair)(search, &codes, codec, &again);
                    at[v] = again.at, key[v] = again.key, active[v] = again.active;
                } else {
                    const __mmask8 first_near = _mm512_mask_cmple_epu64_mask(
                                       lanes.active[v], KERNEL(lane_errors)(first_key[v], lanes.query[v]), distance),
                                   near = _mm512_mask_cmple_epu64_mask(
                                       first_active[v], KERNEL(lane_errors)(key[v], lanes.query[v]), distance);
                    if (_mm512_mask_cmpgt_epu64_mask(first_near | near, at[v], lanes.end[v])) return BAD_BLOCK;
                    if (first_near)
                        status = KERNEL(report_lanes)(search, first_near, lanes.tag[v], lanes.query[v],
                                                      lanes.last_wanted[v], first_key[v]);
                    if (near && status == OK && !search->done)
                        status = KERNEL(report_lanes)(search, near, lanes.tag[v], lanes.query[v], lanes.last_wanted[v],
                                                      key[v]);
                }
                if (status != OK || search->done) return status;
            }
        running = 0;
#pragma GCC unroll 4
        for (unsigned v = 0; v < vectors; v++) {
            lanes.at[v] = at[v], lanes.key[v] = key[v], lanes.active[v] = active[v];
            running += (unsigned)__builtin_popcount(lanes.active[v]);
        }
        if (next < count) {
            running = DECODE_LANES * vectors;
#pragma GCC unroll 4
            for (unsigned v = 0; v < vectors; v++) {
                past |= _mm512_cmpgt_epu64_mask(lanes.at[v], lanes.end[v]);
                KERNEL(fill_lanes)(blocks, &next, count, v, &lanes);
            }
        }
        if (asks && ahead->asked < ahead->count) KERNEL(ask_more)(base, ahead, LINES_A_PAIR);
    } while (running > (vectors > 1 ? DECODE_LANES : 0));
    *left = 0;
#pragma GCC unroll 4
    for (unsigned v = 0; v < vectors; v++) {
        /* A lane that has ended stands at its end, or is past it in a damaged block. */
        past |= _mm512_cmpgt_epu64_mask(lanes.at[v], lanes.end[v]);
#define LEAVE(column) \
    _mm512_storeu_si512(blocks->column + *left, _mm512_maskz_compress_epi64(lanes.active[v], lanes.column[v]))
        if (vectors == 1) continue;
        LEAVE(at);
        LEAVE(key);
        LEAVE(end);
        LEAVE(last_wanted);
        LEAVE(query);
        LEAVE(tag);
#undef LEAVE
        *left += (unsigned)__builtin_popcount(lanes.active[v]);
    }
    return past ? BAD_BLOCK : OK;
}

/* For each codec, for as many vectors as few blocks need, and with lines to ask for or, as in a batch, without. */
#define SCAN(name, codec, vectors, asks)                                                                         \
    static __attribute__((noinline)) Status KERNEL(name)(Search * search, BlockColumns * blocks, unsigned *left, \
                                                         const WideCode *code, Lines *ahead) {                   \
        return KERNEL(scan_lanes)(search, blocks, left, code, ahead, codec, vectors, asks);                      \
    }
SCAN(scan_gap_1, CODEC_GAP, 1, 0)
SCAN(scan_gap_2, CODEC_GAP, 2, 0)
SCAN(scan_gap_3, CODEC_GAP, 3, 0)
SCAN(scan_gap_4, CODEC_GAP, 4, 0)
SCAN(scan_xor_1, CODEC_XOR, 1, 0)
SCAN(scan_xor_2, CODEC_XOR, 2, 0)
SCAN(scan_xor_3, CODEC_XOR, 3, 0)
SCAN(scan_xor_4, CODEC_XOR, 4, 0)
SCAN(ask_gap_1, CODEC_GAP, 1, 1)
SCAN(ask_gap_2, CODEC_GAP, 2, 1)
SCAN(ask_gap_3, CODEC_GAP, 3, 1)
SCAN(ask_xor_1, CODEC_XOR, 1, 1)
SCAN(ask_xor_2, CODEC_XOR, 2, 1)
SCAN(ask_xor_3, CODEC_XOR, 3, 1)
#undef SCAN

static Status KERNEL(scan_class)(Search *search, BlockColumns *blocks, unsigned count, const WideCode *code,
                                 Lines *ahead) {
    static Status (*const scans[2][2][ALL_VECTORS])(Search *, BlockColumns *, unsigned *, const WideCode *, Lines *) = {
        {{KERNEL(scan_gap_1), KERNEL(scan_gap_2), KERNEL(scan_gap_3), KERNEL(scan_gap_4)},
         {KERNEL(scan_xor_1), KERNEL(scan_xor_2), KERNEL(scan_xor_3), KERNEL(scan_xor_4)}},
        {{KERNEL(ask_gap_1), KERNEL(ask_gap_2), KERNEL(ask_gap_3), KERNEL(ask_gap_3)},
         {KERNEL(ask_xor_1), KERNEL(ask_xor_2), KERNEL(ask_xor_3), KERNEL(ask_xor_3)}}};
    Status status = OK;
    /* With lines to ask for at first, and when all are asked for: code that has not run yet is in no near cache. */
    while (count > 0 && status == OK && !search->done) {
        const unsigned vectors = count > ALL_VECTORS * DECODE_LANES ? MANY_VECTORS : (count - 1) / DECODE_LANES + 1;
        status = scans[ahead->count > 0][search->tables[0]->codec == CODEC_XOR][vectors - 1](search, blocks, &count,
                                                                                             code, ahead);
    }
    return status;
}

/* Which blocks are of the class of table `leader`, in the order in which they are scanned: those that likely take long
   come first, as what is begun last runs on while most lanes have nothing to do. classes: of each block. */
static unsigned KERNEL(ones_of_class)(const BlockColumns *blocks, const uint16_t *classes, unsigned count,
                                      unsigned leader, uint16_t *found) {
    const __m512i lanes = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13,
                                           12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i own = _mm512_set1_epi16((short)leader);
    uint16_t thousands[BLOCK_ROOM + 32];
    unsigned n = 0;
    for (unsigned i = 0; i < count; i += 8) {
        const __m512i bits =
            _mm512_sub_epi64(_mm512_loadu_si512(blocks->reached + i), _mm512_loadu_si512(blocks->at + i));
        _mm_storeu_si128((__m128i *)(void *)(thousands + i), _mm512_cvtusepi64_epi16(_mm512_srli_epi64(bits, 10)));
    }
    for (unsigned least = LONG_THOUSANDS + 1; least-- > 0;)
        for (unsigned i = 0; i < count; i += 32) {
            const __m512i sizes =
                _mm512_min_epu16(_mm512_loadu_si512(thousands + i), _mm512_set1_epi16(LONG_THOUSANDS));
            const __mmask32 inside = (__mmask32)low_bits(count - i < 32 ? count - i : 32);
            const __mmask32 these =
                _mm512_mask_cmpeq_epi16_mask(_mm512_mask_cmpeq_epi16_mask(inside, _mm512_loadu_si512(classes + i), own),
                                             sizes, _mm512_set1_epi16((short)least));
            _mm512_storeu_si512(
                found + n, _mm512_maskz_compress_epi16(these, _mm512_add_epi16(lanes, _mm512_set1_epi16((short)i))));
            n += (unsigned)__builtin_popcount(these);
        }
    return n;
}

/* Scan blocks of any class: those of a class that has many of them in lanes, the others as scan() does. */
static __attribute__((noinline)) Status KERNEL(scan_classes)(Search *search, const BlockColumns *blocks, unsigned count,
                                                             Lines *ahead) {
    Block rest[BLOCK_ROOM];
    BlockColumns same;
    uint16_t classes[BLOCK_ROOM + 32], order[BLOCK_ROOM + 32];
    unsigned rest_count = 0, ordered = 0;
    for (unsigned i = 0; i < count; i++)
        classes[i] = (uint16_t)search->tables[KERNEL(table_of)(blocks->tag[i])]->code_class;
    for (unsigned leader = 0; leader < search->table_count && ordered < count; leader++)
        if (search->tables[leader]->code_class == leader)
            ordered += KERNEL(ones_of_class)(blocks, classes, count, leader, order + ordered);
    if (count > blocks->asked_at_once) {
        for (unsigned i = 0; i < count; i++)
            same.at[i] = blocks->at[order[i]], same.reached[i] = blocks->reached[order[i]];
        KERNEL(list_lines)(&same, count, 0, ahead);
        KERNEL(ask_more)(search->pages->base, ahead, LINES_FIRST);
    }
    for (unsigned first = 0; first < count;) {
        const unsigned leader = classes[order[first]];
        unsigned n = 0;
        for (; first < count && classes[order[first]] == leader; first++, n++) {
            const unsigned i = order[first];
            same.at[n] = blocks->at[i], same.key[n] = blocks->key[i], same.end[n] = blocks->end[i];
            same.last_wanted[n] = blocks->last_wanted[i], same.query[n] = blocks->query[i];
            same.tag[n] = blocks->tag[i];
        }
        if (n < MANY_LEAST) {
            for (unsigned i = 0; i < n; i++)
                rest[rest_count++] = (Block){.start = same.at[i],
                                             .end = same.end[i],
                                             .previous = same.key[i],
                                             .query = same.query[i],
                                             .last_wanted = same.last_wanted[i],
                                             .query_index = KERNEL(query_of)(same.tag[i]),
                                             .table = (uint16_t)KERNEL(table_of)(same.tag[i])};
            continue;
        }
        Status status = KERNEL(scan_class)(search, &same, n, &search->tables[leader]->common, ahead);
        if (status != OK || search->done) return status;
    }
    return rest_count > 0 ? KERNEL(scan)(search, rest, rest_count) : OK;
}

/* begin_block() of all blocks; those of which more is wanted come to the front, and are *count. */
static __attribute__((noinline)) Status KERNEL(begin_blocks)(Search *search, BlockColumns *blocks, unsigned *count) {
    unsigned begun = 0;
    for (unsigned i = 0; i < *count; i++) {
        Block block = {.start = blocks->at[i],
                       .end = blocks->end[i],
                       .query = blocks->query[i],
                       .last_wanted = blocks->last_wanted[i],
                       .query_index = KERNEL(query_of)(blocks->tag[i]),
                       .table = (uint16_t)KERNEL(table_of)(blocks->tag[i])};
        int more;
        Status status = KERNEL(begin_block)(search, &block, &more);
        if (status != OK || search->done) return status;
        if (!more) continue;
        blocks->at[begun] = block.start, blocks->key[begun] = block.previous, blocks->end[begun] = block.end;
        blocks->query[begun] = block.query, blocks->last_wanted[begun] = block.last_wanted;
        blocks->tag[begun++] = blocks->tag[i];
    }
    *count = begun;
    return OK;
}

/* Ask for the other lines of blocks whose first ones were asked for, where these are so few that the scan does not ask;
   and for the first page of each block that has one which was not used before, perhaps: then `new` says to check them.
   Pages come last: to see which were used takes memory too, which is waited for together with the lines. */
static void KERNEL(ask_resolved)(Search *search, BlockColumns *blocks, unsigned count, Lines *lines) {
    Pages *pages = search->pages;
    if (count <= blocks->asked_at_once) {
        KERNEL(list_lines)(blocks, count, 2, lines);
        KERNEL(ask_more)(pages->base, lines, LINE_ROOM);
    }
    blocks->new = 0;
    for (unsigned i = 0; !pages_sound(pages) && i < count; i++) {
        const uint64_t first = blocks->at[i] / 8 / PAGE_BYTES, last = (blocks->end[i] - 1) / 8 / PAGE_BYTES;
        if (LIKELY(page_seen(pages, first) && page_seen(pages, last) && last - first <= 1)) continue;
        blocks->new = 1;
        if (!page_seen(pages, first)) page_ask(pages, first);
    }
}

/* Scan what was resolved one turn ago, and have wait what was resolved since. */
static Status KERNEL(turn_many)(Search *search) {
    BlockColumns *blocks = search->columns.waiting;
    unsigned count = search->waiting_count;
    Lines ahead;
    search->columns.waiting = search->columns.resolved, search->waiting_count = search->resolved_count;
    search->columns.resolved = blocks, search->resolved_count = 0;
    KERNEL(ask_resolved)(search, search->columns.waiting, search->waiting_count, &ahead);
    search->blocks_scanned += count;
    for (unsigned i = 0; i < count && UNLIKELY(blocks->new); i++) {
        Status status = pages_check(search->pages, blocks->at[i] >> 3, (blocks->end[i] - 1) >> 3);
        if (UNLIKELY(status != OK)) return status;
    }
    if (count > 0 && search->tables[0]->block_bytes != 0) {
        Status status = KERNEL(begin_blocks)(search, blocks, &count);
        if (status != OK) return status;
    }
    if (count == 0 || search->done) return OK;
    ahead.count = ahead.asked = 0;
    if (search->columns.one_class && count > blocks->asked_at_once) {
        KERNEL(list_lines)(blocks, count, 0, &ahead);
        KERNEL(ask_more)(search->pages->base, &ahead, LINES_FIRST);
    }
    const Status status = search->columns.one_class
                              ? KERNEL(scan_class)(search, blocks, count, &search->tables[0]->common, &ahead)
                              : KERNEL(scan_classes)(search, blocks, count, &ahead);
    blocks->asked_at_once = ALL_AT_ONCE;
    return status;
}

/* The fence where the search of a large slot begins, which is entry i of the slots. */
static Status KERNEL(first_large_many)(const Search *search, unsigned i, uint64_t *index) {
    const SlotColumns *slots = &search->columns.slots;
    const Table *table = search->tables[KERNEL(table_of)(slots->tag[i])];
    const uint64_t first = slots->first_wanted[i], start = slots->start[i];
    return fence_find(search->pages, table, first > start ? first : start, index);
}

/* The blocks of a large slot, which is entry i of the slots, from the fence `index` on. */
static __attribute__((noinline)) Status KERNEL(want_large_many)(Search *search, unsigned i, uint64_t index) {
    const SlotColumns *slots = &search->columns.slots;
    const Table *table = search->tables[KERNEL(table_of)(slots->tag[i])];
    SlotProbe probe = {slot_of(slots->start[i], table->probe_shift),
                       slots->query[i],
                       slots->first_wanted[i],
                       slots->last_wanted[i],
                       KERNEL(query_of)(slots->tag[i]),
                       (uint16_t)KERNEL(table_of)(slots->tag[i])};
    Status status = OK;
    while (status == OK && index < table->fence_count && !search->done) {
        Block block;
        uint64_t bits;
        status = KERNEL(next_large)(search, &probe, &index, &block, &bits);
        if (status != OK || block.end == block.start) continue;
        BlockColumns *resolved = search->columns.resolved;
        const unsigned n = search->resolved_count++;
        resolved->at[n] = block.start, resolved->end[n] = block.end, resolved->key[n] = block.previous;
        resolved->last_wanted[n] = probe.last_wanted, resolved->query[n] = probe.query,
        resolved->tag[n] = slots->tag[i], resolved->reached[n] = block.start + bits;
        if (n < resolved->asked_at_once)
            for (uint64_t byte = block.start >> 3; byte <= block.end >> 3; byte += 64)
                __builtin_prefetch(search->pages->base + byte);
        if (search->resolved_count == BATCH_BLOCKS) status = KERNEL(turn_many)(search);
    }
    return status;
}

/* Words of eight bytes at these offsets, as bring_words() has them. */
ALWAYS_INLINE __m512i KERNEL(words_at)(const uint8_t *base, const uint64_t *offsets) {
    if (LIKELY(lanes_gather)) return _mm512_i64gather_epi64(_mm512_loadu_si512(offsets), base, 1);
    return _mm512_set_epi64((long long)load64(base + offsets[7]), (long long)load64(base + offsets[6]),
                            (long long)load64(base + offsets[5]), (long long)load64(base + offsets[4]),
                            (long long)load64(base + offsets[3]), (long long)load64(base + offsets[2]),
                            (long long)load64(base + offsets[1]), (long long)load64(base + offsets[0]));
}

/* What the directory says of eight slots: their blocks, bits [at, end) of the file, of which what is wanted likely lies
   up to bit `reached`; the lanes that have one, and those that fences tell of. */
typedef struct {
    __m512i at, end, reached;
    __mmask8 filled, large;
} EightBlocks;

/* slot_read() of the slots of `lanes`, whose lines are there to be read in all of them. `payload` begins at a bit; the
   other arguments are as SlotColumns has them. */
ALWAYS_INLINE Status KERNEL(read_directory)(const uint8_t *base, const uint64_t *lines, __m512i index, __m512i start,
                                            __m512i last_wanted, __m512i payload, __m512i payload_bits, __m512i scale,
                                            __mmask8 lanes, EightBlocks *blocks) {
    uint64_t ends_at[8];
    const __m512i low16 = _mm512_set1_epi64(0xFFFF);
    /* The end of the block before stands before that of the block; for the first one other bits of the line do. */
    _mm512_storeu_si512(ends_at, _mm512_add_epi64(_mm512_add_epi64(_mm512_loadu_si512(lines), _mm512_set1_epi64(6)),
                                                  _mm512_add_epi64(index, index)));
    const __m512i word = KERNEL(words_at)(base, lines), ends = KERNEL(words_at)(base, ends_at);
    const __m512i begin = _mm512_and_si512(word, _mm512_set1_epi64((long long)low_bits(OFFSET_BITS))),
                  from = _mm512_maskz_and_epi64(_mm512_test_epi64_mask(index, index), ends, low16),
                  to = _mm512_and_si512(_mm512_srli_epi64(ends, 16), low16), bits = _mm512_sub_epi64(to, from);
    blocks->large = _mm512_mask_test_epi64_mask(
        lanes, word, _mm512_sllv_epi64(_mm512_set1_epi64((long long)((uint64_t)1 << OFFSET_BITS)), index));
    blocks->filled = _mm512_mask_test_epi64_mask(lanes, bits, bits);
    /* Where the end comes before the begin, the difference is beyond any length. */
    const unsigned bad = _mm512_mask_cmpgt_epu64_mask(lanes, bits, _mm512_set1_epi64(MAX_BLOCK_BITS)) |
                         _mm512_mask_cmpgt_epu64_mask(lanes, begin, payload_bits) |
                         _mm512_mask_cmpgt_epu64_mask(lanes, to, _mm512_sub_epi64(payload_bits, begin)) |
                         (blocks->large & blocks->filled);
    if (UNLIKELY(bad)) return BAD_DIRECTORY;
    /* The last key wanted lies so many 256ths into the slot, and so, nearly, does its code in the block. */
    const __m512i reach = _mm512_min_epu64(
        _mm512_add_epi64(_mm512_srlv_epi64(_mm512_sub_epi64(last_wanted, start), scale), _mm512_set1_epi64(1)),
        _mm512_set1_epi64(256));
    blocks->at = _mm512_add_epi64(_mm512_add_epi64(payload, begin), from);
    blocks->end = _mm512_add_epi64(blocks->at, bits);
    blocks->reached = _mm512_add_epi64(blocks->at, _mm512_srli_epi64(_mm512_mul_epu32(bits, reach), 8));
    return OK;
}

/* That of slots [first, first + 8), those of `lanes`, of lines behind `base`. */
#define COLUMN(column) _mm512_loadu_si512(slots->column + first)
ALWAYS_INLINE Status KERNEL(read_eight)(const uint8_t *base, const SlotColumns *slots, unsigned first, __mmask8 lanes,
                                        EightBlocks *found) {
    return KERNEL(read_directory)(base, slots->line + first, COLUMN(index), COLUMN(start), COLUMN(last_wanted),
                                  COLUMN(payload), COLUMN(payload_bits), COLUMN(scale), lanes, found);
}

/* Store what is known of the blocks of `filled`, behind block n. */
ALWAYS_INLINE void KERNEL(store_eight)(const SlotColumns *slots, unsigned first, const EightBlocks *found,
                                       BlockColumns *blocks, unsigned n) {
#define STORE(column, value) _mm512_storeu_si512(blocks->column + n, _mm512_maskz_compress_epi64(found->filled, value))
    STORE(at, found->at);
    STORE(end, found->end);
    STORE(key, COLUMN(start));
    STORE(last_wanted, COLUMN(last_wanted));
    STORE(query, COLUMN(query));
    STORE(tag, COLUMN(tag));
    STORE(reached, found->reached);
#undef STORE
}
#undef COLUMN

/* Ask for the first two lines of eight blocks, as far as they have them. The second one lies in the page of the first
   mostly, whose address is being looked for: asked for later it waits again, and where what is wanted ends is a guess.
   Of two tables of 10^8 keys one query takes 0.92 of the time so, of 10^7 0.97. */
ALWAYS_INLINE void KERNEL(ask_two_lines)(const uint8_t *base, const EightBlocks *blocks) {
    uint64_t first[8], second[8];
    const __m512i begin = _mm512_maskz_srli_epi64(blocks->filled, blocks->at, 3),
                  end = _mm512_maskz_srli_epi64(blocks->filled, blocks->end, 3);
    _mm512_storeu_si512(first, begin);
    _mm512_storeu_si512(second, _mm512_min_epu64(_mm512_add_epi64(begin, _mm512_set1_epi64(CACHE_LINE)), end));
    for (unsigned i = 0; i < 8; i++) {
        __builtin_prefetch(base + first[i]);
        __builtin_prefetch(base + second[i]);
    }
}

/* Read slots [first, first + 8), those of `lanes`; asks for the first lines of their blocks, which join those
   resolved. */
static Status KERNEL(resolve_eight)(Search *search, unsigned first, __mmask8 lanes) {
    const uint8_t *base = search->pages->base;
    SlotColumns *slots = &search->columns.slots;
    EightBlocks found;
    Status status = KERNEL(read_eight)(base, slots, first, lanes, &found);
    if (UNLIKELY(status != OK)) return status;
    BlockColumns *resolved = search->columns.resolved;
    const unsigned n = search->resolved_count, added = (unsigned)__builtin_popcount(found.filled);
    if (n < resolved->asked_at_once) KERNEL(ask_two_lines)(base, &found);
    KERNEL(store_eight)(slots, first, &found, resolved, n);
    search->resolved_count += added;
    if (UNLIKELY(search->resolved_count >= BATCH_BLOCKS)) status = KERNEL(turn_many)(search);
    for (unsigned left = found.large; UNLIKELY(left != 0); left &= left - 1)
        slots->large[slots->large_count++] = (uint16_t)(first + (unsigned)__builtin_ctz(left));
    return status;
}

/* Where blocks begin in the file, bits of it, whose first lines are asked for while something else is waited for: so
   many of them already. */
typedef struct {
    const uint64_t *at;
    unsigned count, asked;
} Beginnings;

ALWAYS_INLINE void KERNEL(ask_first_lines)(const uint8_t *base, Beginnings *blocks, unsigned most) {
    const unsigned left = blocks->count - blocks->asked, count = left < most ? left : most;
    for (unsigned i = 0; i < count; i++) __builtin_prefetch(base + (blocks->at[blocks->asked + i] >> 3));
    blocks->asked += count;
}

/* Where the search of large slots begins, of up to FENCES_AT_ONCE of them: as fence_find(), of which each step waits
   for memory, for all at once, and meanwhile asks for some of `blocks`. Pages are sound. found has room for as many. */
static __attribute__((noinline)) void KERNEL(find_fences)(const Search *search, const uint16_t *which, unsigned count,
                                                          uint64_t *found, Beginnings *blocks) {
    const SlotColumns *slots = &search->columns.slots;
    uint64_t wanted[FENCES_AT_ONCE], left[FENCES_AT_ONCE];
    const uint8_t *fences[FENCES_AT_ONCE];
    for (unsigned i = 0; i < count; i++) {
        const unsigned slot = which[i];
        const Table *table = search->tables[KERNEL(table_of)(slots->tag[slot])];
        const uint64_t first = slots->first_wanted[slot], start = slots->start[slot];
        wanted[i] = first > start ? first : start;
        fences_around(table, wanted[i], &found[i], &left[i]);
        left[i] -= found[i];
        fences[i] = search->pages->base + table->fences_offset;
    }
    for (uint64_t any = 1; any != 0;) {
        any = 0;
        KERNEL(ask_first_lines)(search->pages->base, blocks, FIRST_LINES_A_STEP);
#pragma GCC unroll 1
        for (unsigned i = 0; i < count; i++) {
            const uint64_t half = left[i] >> 1;
            if (UNLIKELY(left[i] == 0)) continue;
            /* Nobody can foresee the answer, which would be waited for: so it is a mask. */
            const uint64_t below = -(uint64_t)(load64(fences[i] + (found[i] + half) * FENCE_BYTES) < wanted[i]);
            found[i] += (half + 1) & below;
            left[i] = half - ((2 * half + 1 - left[i]) & below);
            any |= left[i];
        }
    }
}

/* The blocks of the large slots among those that were resolved. */
static __attribute__((noinline)) Status KERNEL(want_all_large)(Search *search) {
    SlotColumns *slots = &search->columns.slots;
    Status status = OK;
    for (unsigned first = 0; first < slots->large_count; first += FENCES_AT_ONCE) {
        const unsigned rest = slots->large_count - first, count = rest < FENCES_AT_ONCE ? rest : FENCES_AT_ONCE;
        const uint16_t *which = slots->large + first;
        const int together = count >= FENCES_LEAST && pages_sound(search->pages);
        uint64_t found[FENCES_AT_ONCE];
        Beginnings none = {NULL, 0, 0};
        if (together) KERNEL(find_fences)(search, which, count, found, &none);
        for (unsigned i = 0; i < count && !search->done; i++) {
            if (!together) status = KERNEL(first_large_many)(search, which[i], &found[i]);
            if (status == OK) status = KERNEL(want_large_many)(search, which[i], found[i]);
            if (UNLIKELY(status != OK)) return status;
        }
    }
    return OK;
}

/* Read the directory lines of the slots collected so far, ask for their blocks, and scan those asked for before. */
static __attribute__((noinline)) Status KERNEL(resolve_many)(Search *search) {
    SlotColumns *slots = &search->columns.slots;
    const unsigned count = search->slot_count;
    Status status = OK;
    search->slot_count = 0;
    const int new = slots->new;
    slots->new = 0;
    if (count > 0 && search->tables[0]->block_bytes != 0) {
        for (unsigned i = 0; i < count && status == OK && !search->done; i++) {
            uint64_t index;
            status = KERNEL(first_large_many)(search, i, &index);
            if (status == OK) status = KERNEL(want_large_many)(search, i, index);
        }
        return status == OK ? KERNEL(turn_many)(search) : status;
    }
    for (unsigned i = 0; UNLIKELY(new) && i < count; i++) {
        status = pages_check(search->pages, slots->line[i], slots->line[i]);
        if (UNLIKELY(status != OK)) return status;
    }
    /* What comes after the last one is read too. */
    _mm512_storeu_si512(slots->line + count, _mm512_set1_epi64((long long)slots->line[0]));
    _mm512_storeu_si512(slots->index + count, _mm512_setzero_si512());
    slots->large_count = 0;
    for (unsigned i = 0; i < count && !search->done; i += 8) {
        status = KERNEL(resolve_eight)(search, i, (__mmask8)(count - i < 8 ? (1u << (count - i)) - 1 : 255));
        if (UNLIKELY(status != OK)) return status;
    }
    if (slots->large_count > 0 && !search->done) status = KERNEL(want_all_large)(search);
    return status == OK ? KERNEL(turn_many)(search) : status;
}

/* probe_slots(), into the columns. */
static Status KERNEL(name_slots)(Search *search, unsigned table_index, uint64_t query, uint64_t key, unsigned left) {
    const Table *table = search->tables[table_index];
    const unsigned prefix_bits = table->permutation.prefix_bits, slot_bits = table->probe_bits;
    const unsigned slot_shift = table->probe_shift;
    const uint64_t below = low_bits(table->permutation.below_bits);
    uint64_t slot = slot_of(key & ~below, slot_shift), first_wanted = key & ~below, last_wanted = key | below,
             count = 1;
    if (prefix_bits < slot_bits)
        count = (uint64_t)1 << (slot_bits - prefix_bits);
    else
        KERNEL(widen_wanted)(low_bits(slot_shift) & ~below, key, left, &first_wanted, &last_wanted);
    for (; count > 0; count--, slot++) {
        SlotColumns *slots = &search->columns.slots;
        const unsigned n = search->slot_count++;
        slots->line[n] = KERNEL(place_of)(table, slot, first_wanted);
        slots->new |= bytes_ask(search->pages, slots->line[n]);
        slots->index[n] = slot % GROUP_SLOTS, slots->start[n] = slot_start(slot, slot_shift);
        slots->first_wanted[n] = first_wanted, slots->last_wanted[n] = last_wanted, slots->query[n] = query;
        slots->payload[n] = table->payload_offset * 8, slots->payload_bits[n] = table->payload_bits;
        slots->scale[n] = reach_shift(slot_shift), slots->tag[n] = KERNEL(tag_of)(search, table_index);
        if (UNLIKELY(search->slot_count >= BATCH_SLOTS)) {
            Status status = KERNEL(resolve_many)(search);
            if (status != OK || search->done) return status;
        }
    }
    return OK;
}

/* name_slots() of every key with one of its bits [from, bits), from the top, inverted, where each is in one slot. */
static Status KERNEL(name_flips)(Search *search, unsigned table_index, uint64_t query, uint64_t key, unsigned from,
                                 unsigned bits) {
    SlotColumns *slots = &search->columns.slots;
    const Table *table = search->tables[table_index];
    const unsigned slot_shift = table->slot_shift;
    const __m512i keys = _mm512_set1_epi64((long long)key), shift = _mm512_set1_epi64(slot_shift),
                  below = _mm512_set1_epi64((long long)low_bits(table->permutation.below_bits)),
                  two_52 = _mm512_set1_epi64(0x4330000000000000);
    for (; from < bits; from += 8) {
        const unsigned n = search->slot_count, added = bits - from < 8 ? bits - from : 8;
        const __m512i flip =
            _mm512_srlv_epi64(_mm512_set1_epi64((long long)((uint64_t)1 << (table->key_bits - 1 - from))),
                              _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        const __m512i flipped = _mm512_xor_si512(keys, flip), slot = _mm512_srlv_epi64(flipped, shift);
        /* Of a whole number below 2^40 and a half, a twelfth is nowhere near a whole number. */
        const __m512d middle =
            _mm512_sub_pd(_mm512_castsi512_pd(_mm512_or_si512(slot, two_52)), _mm512_set1_pd(4503599627370496.0 - 0.5));
        const __m512i line =
            _mm512_xor_si512(two_52, _mm512_castpd_si512(_mm512_add_round_pd(
                                         _mm512_mul_pd(middle, _mm512_set1_pd(1.0 / GROUP_SLOTS)),
                                         _mm512_castsi512_pd(two_52), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)));
#define STORE(column, value) _mm512_storeu_si512(slots->column + n, value)
        STORE(line,
              _mm512_add_epi64(_mm512_set1_epi64((long long)table->directory_offset), _mm512_slli_epi64(line, 5)));
        STORE(index, _mm512_sub_epi64(slot, _mm512_add_epi64(_mm512_slli_epi64(line, 3), _mm512_slli_epi64(line, 2))));
        STORE(start, _mm512_sllv_epi64(slot, shift));
        STORE(first_wanted, _mm512_andnot_si512(below, flipped));
        STORE(last_wanted, _mm512_or_si512(flipped, below));
        STORE(query, _mm512_set1_epi64((long long)query));
        STORE(payload, _mm512_set1_epi64((long long)table->payload_offset * 8));
        STORE(payload_bits, _mm512_set1_epi64((long long)table->payload_bits));
        STORE(scale, _mm512_set1_epi64(reach_shift(slot_shift)));
        STORE(tag, _mm512_set1_epi64((long long)KERNEL(tag_of)(search, table_index)));
#undef STORE
        for (unsigned i = n; i < n + added; i++) slots->new |= bytes_ask(search->pages, slots->line[i]);
        search->slot_count += added;
        if (UNLIKELY(search->slot_count >= BATCH_SLOTS)) {
            Status status = KERNEL(resolve_many)(search);
            if (status != OK || search->done) return status;
        }
    }
    return OK;
}

/* probe_flips(), into the columns. */
static Status KERNEL(name_probes)(Search *search, unsigned table_index, uint64_t query, uint64_t key, unsigned from,
                                  unsigned bits, unsigned left) {
    const Table *table = search->tables[table_index];
    Status status = KERNEL(name_slots)(search, table_index, query, key, left);
    if (left == 0 || status != OK || search->done) return status;
    if (left == 1 && table->block_bytes == 0 && table->slot_bits <= table->permutation.prefix_bits)
        return KERNEL(name_flips)(search, table_index, query, key, from, bits);
    const unsigned top = table->key_bits - 1;
    for (unsigned bit = from; bit < bits && status == OK && !search->done; bit++)
        status =
            KERNEL(name_probes)(search, table_index, query, key ^ (uint64_t)1 << (top - bit), bit + 1, bits, left - 1);
    return status;
}

static void KERNEL(begin_many)(Search *search) {
    SearchColumns *columns = &search->columns;
    columns->resolved = &columns->blocks[0], columns->waiting = &columns->blocks[1];
    columns->one_class = 1, columns->slots.new = 0;
    for (unsigned t = 0; t < search->table_count; t++) columns->one_class &= search->tables[t]->code_class == 0;
    /* Blocks that have to be begun are all looked at first. */
    const int in_turn = pages_sound(search->pages) && search->table_count > 0 && search->tables[0]->block_bytes == 0;
    for (unsigned i = 0; i < 2; i++) columns->blocks[i].asked_at_once = in_turn ? ASKED_FIRST : ALL_AT_ONCE;
}
