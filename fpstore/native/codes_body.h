/* Searching wide codes. Included once for each instruction set; see platform.h.

   What takes time is memory, so the work goes in stages, VISITS slots at a time: name slots and ask for their starts;
   read these and ask for entries; read the entries that may do and ask for their codes; compare codes. */

#define CANDIDATES 4096
#define ERROR_BITS 4
/* Two entries of so many bits lie in 8 bytes, from any bit on, and one has room for the errors. */
#define PAIR_ENTRY_BITS (32 - ERROR_BITS)
/* What a candidate costs, in codes that are read in order; how many entries cost as much as one of these. */
#define CANDIDATE_CODES 4
#define ENTRIES_A_CODE 4
/* What is asked for of a slot at once, but for its last line: of long ones the processor asks by itself. */
#define ASKED_BYTES 1024
#define CACHE_BYTES 64
#define VISIT_ROOM (VISITS + 8)     /* eight are stored at once */
#define SCAN_PAGES 16               /* that are checked at once where codes are read in order */
#define SCAN_AHEAD (3 * PAGE_BYTES) /* how far before they are read codes are asked for */

ALWAYS_INLINE uint64_t KERNEL(extract)(uint64_t word, uint64_t mask) {
#ifdef KERNEL_IS_FAST
    return _pext_u64(word, mask);
#else
    uint64_t out = 0;
    for (unsigned to = 0; mask != 0; mask &= mask - 1, to++) out |= ((word >> __builtin_ctzll(mask)) & 1) << to;
    return out;
#endif
}

ALWAYS_INLINE uint64_t KERNEL(code_key)(const uint64_t *code, unsigned words, const uint64_t *mask) {
    uint64_t key = 0;
    for (unsigned i = 0; i < words; i++) {
        if (mask[i] == 0) continue;
        const unsigned bits = (unsigned)__builtin_popcountll(mask[i]);
        key = (bits < 64 ? key << bits : 0) | KERNEL(extract)(code[i], mask[i]);
    }
    return key;
}

void KERNEL(codes_keys)(const uint64_t *codes, uint64_t count, unsigned words, const uint64_t *mask, uint64_t *keys) {
    for (uint64_t i = 0; i < count; i++) keys[i] = KERNEL(code_key)(codes + i * words, words, mask);
}

ALWAYS_INLINE unsigned KERNEL(code_distance)(const uint8_t *at, const uint64_t *query, unsigned words) {
    unsigned distance = 0;
    for (unsigned i = 0; i < words; i++) distance += (unsigned)__builtin_popcountll(load64(at + 8 * i) ^ query[i]);
    return distance;
}

/* In how many bits of a table two codes differ. */
ALWAYS_INLINE unsigned KERNEL(errors_in)(const CodeTable *table, const uint8_t *at, const uint64_t *query,
                                         unsigned words) {
    unsigned errors = 0;
    for (unsigned i = 0; i < words; i++)
        errors += (unsigned)__builtin_popcountll((load64(at + 8 * i) ^ query[i]) & table->mask[i]);
    return errors;
}

/* Slots of one table that are under way: their numbers, then where the entries of those begin that have some. */
typedef struct {
    unsigned table, count;
    uint64_t tag;             /* of the query */
    const uint64_t *patterns; /* of each slot, as long as these are numbers */
    uint64_t slots[VISIT_ROOM], ends[VISIT_ROOM];
    uint64_t used[VISIT_ROOM]; /* how many bits are inverted in each */
} Visits;

/* Slots at each of three stages, and candidates, all of one table: ranks, while they are looked through with the errors
   of each in the lowest ERROR_BITS. */
typedef struct {
    Pages *pages;
    const Codes *codes;
    const uint64_t *query;
    CodeMatches *matches;
    uint32_t index;
    unsigned distance, table, candidate_count;
    uint64_t budget; /* what may be looked at until reading all codes would have cost less, in codes */
    const uint32_t *ranges;
    uint64_t first_key;              /* the first bits of the query */
    uint64_t keys[MAX_LEVEL_TABLES]; /* of the query */
    Levels levels;
    Visits visits[3];
    uint64_t candidates[CANDIDATES + 16]; /* and what is stored beyond the last one */
} CodeSearch;

/* What is known of pages: that all are sound, or nothing. */
ALWAYS_INLINE void KERNEL(ask)(CodeSearch *search, uint64_t offset, int sound) {
    if (sound)
        __builtin_prefetch(search->pages->base + offset);
    else
        bytes_ask(search->pages, offset);
}

ALWAYS_INLINE Status KERNEL(check)(CodeSearch *search, uint64_t first, uint64_t last, int sound) {
    return sound ? OK : pages_check(search->pages, first, last);
}

ALWAYS_INLINE uint64_t KERNEL(start_of)(const uint8_t *at, unsigned bytes) {
    uint32_t narrow;
    if (bytes == 8) return load64(at);
    memcpy(&narrow, at, 4);
    return narrow;
}

/* How many errors in its first bits a code may have at most for which a table has to look on a level;
   fewer than 0 where it has not to at all. */
ALWAYS_INLINE int64_t KERNEL(most_errors)(const CodeSearch *search, unsigned t, unsigned level) {
    return t > 0 && search->codes->guide != NULL ? (int64_t)search->distance + search->levels.reach[t][level]
                                                 : ANY_ERRORS;
}

/* Up to which level a table looks. */
ALWAYS_INLINE int KERNEL(level_of)(const CodeSearch *search, unsigned t) {
    return search->codes->guide != NULL ? search->levels.highest[t] : (int)search->codes->tables[t].flips;
}

ALWAYS_INLINE uint64_t KERNEL(patterns_to)(const CodeTable *table, int level) {
    return level < 0 ? 0 : table->level_patterns[level];
}

/* Name some slots of a table, and ask for their starts. */
ALWAYS_INLINE void KERNEL(name_slots)(CodeSearch *search, Visits *visits, unsigned table, uint64_t slot, uint64_t tag,
                                      uint64_t first, uint64_t end, int sound) {
    const CodeTable *own = &search->codes->tables[table];
    const unsigned bytes = search->codes->start_bytes;
    visits->table = table;
    visits->tag = tag;
    visits->count = (unsigned)(end - first < VISITS ? end - first : VISITS);
    visits->patterns = own->patterns + first;
    for (unsigned i = 0; i < visits->count; i++)
        visits->slots[i] = slot ^ (visits->patterns[i] & low_bits(PATTERN_BITS));
    for (unsigned i = 0; i < visits->count; i++)
        KERNEL(ask)(search, own->starts_offset + visits->slots[i] * bytes, sound);
}

/* Where the entries of those slots lie that have some, in bytes: the first and the last one of each. */
typedef struct {
    uint64_t first[VISIT_ROOM], last[VISIT_ROOM];
} Lines;

#ifdef KERNEL_IS_WIDE
/* As read_starts() of slots in sound pages, whose starts are 4 bytes each, up to the asking: which slots are empty nobody
   can foresee, so it is not asked one by one. */
ALWAYS_INLINE Status KERNEL(read_narrow_starts)(CodeSearch *search, Visits *visits, unsigned entry_bits,
                                                uint64_t entries_offset, Lines *lines) {
    const uint8_t *starts = search->pages->base + search->codes->tables[visits->table].starts_offset;
    const __m512i stored = _mm512_set1_epi64((long long)search->codes->count), low = _mm512_set1_epi64(UINT32_MAX);
    const __m512i bits = _mm512_set1_epi64(entry_bits), offset = _mm512_set1_epi64((long long)entries_offset);
    unsigned kept = 0;
    for (unsigned i = 0; i < visits->count; i += 8) {
        const __mmask8 inside = (__mmask8)low_bits(visits->count - i < 8 ? visits->count - i : 8);
        const __m512i slots = _mm512_loadu_si512(visits->slots + i);
        const __m512i pairs = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), inside, slots, starts, 4);
        const __m512i used = _mm512_srli_epi64(_mm512_maskz_loadu_epi64(inside, visits->patterns + i), PATTERN_BITS);
        const __m512i start = _mm512_and_si512(pairs, low), end = _mm512_srli_epi64(pairs, 32);
        if (UNLIKELY(_mm512_cmpgt_epu64_mask(start, end) | _mm512_cmpgt_epu64_mask(end, stored))) return BAD_DIRECTORY;
        const __mmask8 some = _mm512_cmplt_epu64_mask(start, end);
        const __m512i first = _mm512_srli_epi64(_mm512_mul_epu32(start, bits), 3);
        const __m512i last = _mm512_srli_epi64(_mm512_sub_epi64(_mm512_mul_epu32(end, bits), _mm512_set1_epi64(1)), 3);
        _mm512_storeu_si512(visits->slots + kept, _mm512_maskz_compress_epi64(some, start));
        _mm512_storeu_si512(visits->ends + kept, _mm512_maskz_compress_epi64(some, end));
        _mm512_storeu_si512(visits->used + kept, _mm512_maskz_compress_epi64(some, used));
        _mm512_storeu_si512(lines->first + kept, _mm512_maskz_compress_epi64(some, _mm512_add_epi64(first, offset)));
        _mm512_storeu_si512(lines->last + kept, _mm512_maskz_compress_epi64(some, _mm512_add_epi64(last, offset)));
        kept += (unsigned)__builtin_popcount(some);
    }
    visits->count = kept;
    return OK;
}
#endif

/* The same of any slots. */
ALWAYS_INLINE Status KERNEL(read_any_starts)(CodeSearch *search, Visits *visits, unsigned entry_bits,
                                             uint64_t entries_offset, Lines *lines, int sound) {
    const Codes *codes = search->codes;
    const unsigned bytes = codes->start_bytes;
    unsigned kept = 0;
    for (unsigned i = 0; i < visits->count; i++) {
        const uint64_t offset = codes->tables[visits->table].starts_offset + visits->slots[i] * bytes;
        Status status = KERNEL(check)(search, offset, offset + 2 * bytes - 1, sound);
        if (UNLIKELY(status != OK)) return status;
        const uint8_t *at = search->pages->base + offset;
        const uint64_t start = KERNEL(start_of)(at, bytes), end = KERNEL(start_of)(at + bytes, bytes);
        if (UNLIKELY(start > end || end > codes->count)) return BAD_DIRECTORY;
        visits->slots[kept] = start;
        visits->ends[kept] = end;
        visits->used[kept] = visits->patterns[i] >> PATTERN_BITS;
        lines->first[kept] = entries_offset + start * entry_bits / 8;
        lines->last[kept] = entries_offset + (end * entry_bits - 1) / 8;
        kept += start < end;
    }
    visits->count = kept;
    return OK;
}

/* Where the slots' entries begin and end, in place of their numbers, of those that have some; asks for the entries. */
ALWAYS_INLINE Status KERNEL(read_starts)(CodeSearch *search, Visits *visits, unsigned words, int sound) {
    const Codes *codes = search->codes;
    const CodeTable *table = &codes->tables[visits->table];
    const unsigned entry_bits = table->in_order ? 64 * words : codes->rank_bits + table->tag_bits;
    const uint64_t entries_offset = table->in_order ? codes->codes_offset : table->entries_offset;
    Lines lines;
    Status status;
#ifdef KERNEL_IS_WIDE
    if (sound && LIKELY(codes->start_bytes == 4))
        status = KERNEL(read_narrow_starts)(search, visits, entry_bits, entries_offset, &lines);
    else
#endif
        status = KERNEL(read_any_starts)(search, visits, entry_bits, entries_offset, &lines, sound);
    if (UNLIKELY(status != OK)) return status;
    for (unsigned i = 0; i < visits->count; i++) {
        const uint64_t first = lines.first[i], last = lines.last[i];
        KERNEL(ask)(search, first, sound);
        KERNEL(ask)(search, last, sound);
        if (UNLIKELY(last - first > CACHE_BYTES))
            for (uint64_t line = first + CACHE_BYTES; line < last && line - first < ASKED_BYTES; line += CACHE_BYTES)
                KERNEL(ask)(search, line, sound);
    }
    return OK;
}

/* A code that a table has led to, and that is in a sound page. */
ALWAYS_INLINE Status KERNEL(compare_one)(CodeSearch *search, unsigned t, uint64_t rank, unsigned words) {
    const Codes *codes = search->codes;
    const uint64_t *query = search->query;
    const uint8_t *at = search->pages->base + codes->codes_offset + rank * 8 * words;
    const unsigned found = KERNEL(code_distance)(at, query, words);
    if (LIKELY(found > search->distance)) return OK;
    /* The first table that catches it tells of it: a slot has others too. */
    const unsigned in_first = (unsigned)__builtin_popcountll(codes_first_key(codes, load64(at) ^ query[0]));
    unsigned first = 0;
    for (; first <= t; first++) {
        const CodeTable *table = &codes->tables[first];
        const unsigned errors = KERNEL(errors_in)(table, at, query, words);
        if ((int)errors <= KERNEL(level_of)(search, first) &&
            (int64_t)in_first <= KERNEL(most_errors)(search, first, errors))
            break;
    }
    return first == t ? codes_match(search->matches, rank, search->index, found) : OK;
}

ALWAYS_INLINE Status KERNEL(compare)(CodeSearch *search, unsigned words, int sound) {
    const uint64_t codes_offset = search->codes->codes_offset;
    for (unsigned i = 0; i < search->candidate_count; i++) {
        const uint64_t offset = codes_offset + search->candidates[i] * 8 * words;
        Status status = KERNEL(check)(search, offset, offset, sound);
        if (status == OK) status = KERNEL(compare_one)(search, search->table, search->candidates[i], words);
        if (UNLIKELY(status != OK)) return status;
    }
    search->candidate_count = 0;
    return OK;
}

#ifdef KERNEL_IS_WIDE
/* Eight lanes, each with the 8 bytes of a line of memory in which the bit is that it begins at; these bits. They are
   `steps` behind `bit` of the byte at `entries`, which may lie behind `from`, where what is read begins. */
ALWAYS_INLINE __m512i KERNEL(lanes_of)(const uint8_t *entries, const uint8_t *from, uint64_t bit, __m512i steps,
                                       __m512i *bits) {
    const __m512i ones =
        _mm512_set4_epi64(0x0808080808080808, 0, 0x0808080808080808, 0); /* the low byte of each lane */
    const __m512i first = _mm512_set1_epi64((long long)(bit + 8 * (uint64_t)(entries - from)));
    const __m512i places = _mm512_shuffle_epi8(_mm512_srli_epi64(_mm512_add_epi64(steps, first), 3), ones);
    *bits = _mm512_and_si512(_mm512_add_epi64(steps, first), _mm512_set1_epi64(7));
    return _mm512_permutexvar_epi8(_mm512_add_epi8(places, _mm512_set1_epi64(0x0706050403020100)),
                                   _mm512_loadu_si512(from));
}
#endif

#if defined(KERNEL_IS_FAST) && !defined(KERNEL_IS_WIDE)
/* Of four words those that a mask names first, in their order: the halves of each. */
static const uint8_t kept_first[16][8] = {
    {0, 1, 0, 1, 0, 1, 0, 1}, {0, 1, 0, 1, 0, 1, 0, 1}, {2, 3, 0, 1, 0, 1, 0, 1}, {0, 1, 2, 3, 0, 1, 0, 1},
    {4, 5, 0, 1, 0, 1, 0, 1}, {0, 1, 4, 5, 0, 1, 0, 1}, {2, 3, 4, 5, 0, 1, 0, 1}, {0, 1, 2, 3, 4, 5, 0, 1},
    {6, 7, 0, 1, 0, 1, 0, 1}, {0, 1, 6, 7, 0, 1, 0, 1}, {2, 3, 6, 7, 0, 1, 0, 1}, {0, 1, 2, 3, 6, 7, 0, 1},
    {4, 5, 6, 7, 0, 1, 0, 1}, {0, 1, 4, 5, 6, 7, 0, 1}, {2, 3, 4, 5, 6, 7, 0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}};
#endif

/* Entries [start, end) of a slot under way that have few enough errors become candidates, with these. Up to
   CANDIDATES / 2 entries. */
ALWAYS_INLINE Status KERNEL(read_entries)(CodeSearch *search, const Visits *visits, unsigned visit, uint64_t start,
                                          uint64_t end, int sound) {
    const Codes *codes = search->codes;
    const CodeTable *table = &codes->tables[visits->table];
    const unsigned tag_bits = table->tag_bits, width = codes->rank_bits + tag_bits;
    const uint64_t bit = start * width, tag = visits->tag, used = visits->used[visit];
    const unsigned level = (unsigned)KERNEL(level_of)(search, visits->table);
    unsigned count = search->candidate_count;
    Status status =
        KERNEL(check)(search, table->entries_offset + bit / 8, table->entries_offset + (end * width - 1) / 8, sound);
    if (UNLIKELY(status != OK)) return status;
    const uint8_t *entries = search->pages->base + table->entries_offset;
#ifdef KERNEL_IS_WIDE
    /* What lies behind the line of the last entry has not been asked for: what is read ends there. */
    const uint8_t *const line_end = entries + (end * width - 1) / 8;
    const uint8_t *const last = line_end - (uintptr_t)line_end % CACHE_BYTES;
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i ones =
        _mm512_set4_epi64(0x0808080808080808, 0, 0x0808080808080808, 0); /* the low byte of each lane */
    entries += bit / 8;
    if (LIKELY(width <= PAIR_ENTRY_BITS)) {
        /* Sixteen entries are 2 * width bytes. Each lane gets the 8 bytes in which its two entries lie. */
        const __m512i steps = _mm512_mullo_epi32(lanes, _mm512_set1_epi64(2 * width));
        const __m512i shifts = _mm512_add_epi8(_mm512_set1_epi64(0x1810080018100800),
                                               _mm512_set1_epi64((long long)(width * 0x0101010100000000)));
        const __m512i tag_mask = _mm512_set1_epi32((int)low_bits(tag_bits));
        const __m512i rank_mask = _mm512_set1_epi32((int)low_bits(codes->rank_bits));
        const __m512i wanted = _mm512_set1_epi32((int)tag), most = _mm512_set1_epi32((int)level);
        const __m512i flipped = _mm512_set1_epi32((int)used);
        const __m128i rank_shift = _mm_cvtsi32_si128((int)tag_bits);
        for (uint64_t rest = end - start; rest > 0; rest -= rest < 16 ? rest : 16, entries += 2 * width) {
            const __mmask16 inside = (__mmask16)low_bits(rest < 16 ? (unsigned)rest : 16);
            const uint8_t *const from = entries < last ? entries : last;
            __m512i bits, word = KERNEL(lanes_of)(entries, from, bit % 8, steps, &bits);
            word = _mm512_multishift_epi64_epi8(_mm512_add_epi8(_mm512_shuffle_epi8(bits, ones), shifts), word);
            const __m512i wrong = _mm512_and_si512(_mm512_xor_si512(word, wanted), tag_mask);
            const __m512i errors = _mm512_add_epi32(_mm512_popcnt_epi32(wrong), flipped);
            const __mmask16 near = _mm512_mask_cmple_epu32_mask(inside, errors, most);
            word = _mm512_and_si512(_mm512_srl_epi32(word, rank_shift), rank_mask);
            word = _mm512_or_si512(_mm512_slli_epi32(word, ERROR_BITS),
                                   _mm512_and_si512(errors, _mm512_set1_epi32(low_bits(ERROR_BITS))));
            word = _mm512_maskz_compress_epi32(near, word);
            const unsigned found = (unsigned)__builtin_popcount(near);
            _mm512_storeu_si512(&search->candidates[count], _mm512_cvtepu32_epi64(_mm512_castsi512_si256(word)));
            if (UNLIKELY(found > 8))
                _mm512_storeu_si512(&search->candidates[count + 8],
                                    _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(word, 1)));
            count += found;
        }
    } else {
        /* Eight entries are `width` bytes. Each lane gets the 8 bytes in which its entry begins. */
        const __m512i steps = _mm512_mullo_epi32(lanes, _mm512_set1_epi64(width));
        const __m512i tag_mask = _mm512_set1_epi64((long long)low_bits(tag_bits));
        const __m512i rank_mask = _mm512_set1_epi64((long long)low_bits(codes->rank_bits));
        const __m512i wanted = _mm512_set1_epi64((long long)tag), most = _mm512_set1_epi64((long long)level);
        const __m512i flipped = _mm512_set1_epi64((long long)used);
        const __m128i rank_shift = _mm_cvtsi32_si128((int)tag_bits);
        for (uint64_t rest = end - start; rest > 0; rest -= rest < 8 ? rest : 8, entries += width) {
            const __mmask8 inside = (__mmask8)low_bits(rest < 8 ? (unsigned)rest : 8);
            const uint8_t *const from = entries < last ? entries : last;
            __m512i bits, word = KERNEL(lanes_of)(entries, from, bit % 8, steps, &bits);
            word = _mm512_srlv_epi64(word, bits);
            const __m512i wrong = _mm512_and_si512(_mm512_xor_si512(word, wanted), tag_mask);
            const __m512i errors = _mm512_add_epi64(_mm512_popcnt_epi64(wrong), flipped);
            const __mmask8 near = _mm512_mask_cmple_epu64_mask(inside, errors, most);
            word = _mm512_and_si512(_mm512_srl_epi64(word, rank_shift), rank_mask);
            word = _mm512_or_si512(_mm512_slli_epi64(word, ERROR_BITS),
                                   _mm512_and_si512(errors, _mm512_set1_epi64(low_bits(ERROR_BITS))));
            _mm512_storeu_si512(&search->candidates[count], _mm512_maskz_compress_epi64(near, word));
            count += (unsigned)__builtin_popcount(near);
        }
    }
#elif defined(KERNEL_IS_FAST)
    /* Four entries at once, two in each half, whose 16 bytes have them from any bit on. What lies behind the line of
       the last entry has not been asked for: what is read ends there. */
    const uint64_t end_byte = (uint64_t)(uintptr_t)entries + (end * width - 1) / 8;
    const uint64_t last = end_byte - end_byte % CACHE_BYTES + CACHE_BYTES - 16 - (uint64_t)(uintptr_t)entries;
    const __m256i steps = _mm256_set_epi64x(width, 0, width, 0), in_word = _mm256_set1_epi64x(0x0706050403020100);
    const __m256i low_bytes = _mm256_set_epi64x(0x0808080808080808, 0, 0x0808080808080808, 0);
    const __m256i ones = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0403030203020201, 0x0302020102010100));
    const __m256i wanted = _mm256_set1_epi64x((long long)tag), nibble = _mm256_set1_epi64x(15);
    const __m256i tag_mask = _mm256_set1_epi64x((long long)low_bits(tag_bits));
    const __m256i rank_mask = _mm256_set1_epi64x((long long)low_bits(codes->rank_bits));
    const __m256i flipped = _mm256_set1_epi64x((long long)used), limit = _mm256_set1_epi64x((long long)level + 1);
    const __m128i rank_shift = _mm_cvtsi32_si128((int)tag_bits);
    uint64_t *const candidates = search->candidates;
    uint64_t at = bit;
    for (uint64_t rest = end - start; rest > 0; rest -= rest < 4 ? rest : 4, at += 4 * width) {
        const uint64_t next = at + 2 * width;
        const uint64_t from = at / 8 < last ? at / 8 : last, next_from = next / 8 < last ? next / 8 : last;
        const __m128i behind = _mm_cvtsi64_si128((long long)(at - 8 * from));
        const __m128i next_behind = _mm_cvtsi64_si128((long long)(next - 8 * next_from));
        const __m256i places = _mm256_add_epi64(
            steps, _mm256_permute4x64_epi64(_mm256_castsi128_si256(_mm_unpacklo_epi64(behind, next_behind)), 0x50));
        const __m256i bytes = _mm256_add_epi8(_mm256_shuffle_epi8(_mm256_srli_epi64(places, 3), low_bytes), in_word);
        __m256i word = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(entries + from))),
            _mm_loadu_si128((const __m128i *)(const void *)(entries + next_from)), 1);
        word = _mm256_srlv_epi64(_mm256_shuffle_epi8(word, bytes), _mm256_and_si256(places, _mm256_set1_epi64x(7)));
        const __m256i wrong = _mm256_and_si256(_mm256_xor_si256(word, wanted), tag_mask);
        const __m256i errors =
            _mm256_add_epi64(_mm256_add_epi64(_mm256_shuffle_epi8(ones, _mm256_and_si256(wrong, nibble)),
                                              _mm256_shuffle_epi8(ones, _mm256_srli_epi64(wrong, 4))),
                             flipped);
        const unsigned inside = (unsigned)low_bits(rest < 4 ? (unsigned)rest : 4);
        const __m256i over = _mm256_sub_epi64(errors, limit); /* below 0 where there are few enough */
        const unsigned near = inside & (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(over));
        word = _mm256_slli_epi64(_mm256_and_si256(_mm256_srl_epi64(word, rank_shift), rank_mask), ERROR_BITS);
        word = _mm256_or_si256(word, _mm256_and_si256(errors, _mm256_set1_epi64x(low_bits(ERROR_BITS))));
        const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)kept_first[near]));
        _mm256_storeu_si256((__m256i *)(void *)&candidates[count], _mm256_permutevar8x32_epi32(word, order));
        count += (unsigned)__builtin_popcount(near);
    }
#else
    for (uint64_t at = bit; at < end * width; at += width) {
        const uint64_t entry = (load64(entries + at / 8) >> (at % 8)) & low_bits(width);
        const uint64_t errors = (unsigned)__builtin_popcountll((entry & low_bits(tag_bits)) ^ tag) + used;
        search->candidates[count] = entry >> tag_bits << ERROR_BITS | (errors & low_bits(ERROR_BITS));
        count += errors <= level;
    }
#endif
    search->candidate_count = count;
    return OK;
}

/* Take from the budget. TOO_LARGE where reading all codes costs less. */
ALWAYS_INLINE Status KERNEL(spend)(CodeSearch *search, uint64_t cost) {
    if (UNLIKELY(cost > search->budget)) return TOO_LARGE;
    search->budget -= cost;
    return OK;
}

/* Of the candidates from `first` on those stay, as ranks, whose codes may have so few errors in their first bits that
   their levels are needed; asks for their codes. entries: how many were read for them. */
ALWAYS_INLINE Status KERNEL(sift)(CodeSearch *search, unsigned t, unsigned first, uint64_t entries, unsigned words,
                                  int sound) {
    const Codes *codes = search->codes;
    const unsigned count = search->candidate_count;
    uint64_t *candidates = search->candidates;
    unsigned kept = first;
    const unsigned shift = search->ranges != NULL ? codes->guide->shift : 0;
    const uint64_t key = search->ranges != NULL ? search->first_key >> codes->guide->dropped : 0;
#ifdef KERNEL_IS_WIDE
    __m512i limits = _mm512_setzero_si512();
    if (search->ranges != NULL)
        limits = _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm256_loadu_si256((const void *)search->levels.reach[t])),
                                  _mm512_set1_epi64(search->distance));
    const __m512i stored = _mm512_set1_epi64((long long)codes->count), asked = _mm512_set1_epi64((long long)key);
    const __m128i range_shift = _mm_cvtsi32_si128((int)shift);
    for (unsigned i = first; i < count; i += 8) {
        const __mmask8 inside = (__mmask8)low_bits(count - i < 8 ? count - i : 8);
        const __m512i each = _mm512_loadu_si512(candidates + i);
        const __m512i ranks = _mm512_srli_epi64(each, ERROR_BITS);
        __mmask8 near = inside;
        if (UNLIKELY(_mm512_mask_cmpge_epu64_mask(inside, ranks, stored))) return BAD_DIRECTORY;
        if (search->ranges != NULL) {
            const __m512i range = _mm512_cvtepu32_epi64(_mm512_mask_i64gather_epi32(
                _mm256_setzero_si256(), inside, _mm512_srl_epi64(ranks, range_shift), search->ranges, 4));
            const __m512i unknown = _mm512_and_si512(range, _mm512_set1_epi64(low_bits(GUIDE_BITS)));
            const __m512i wrong = _mm512_xor_si512(_mm512_srli_epi64(range, GUIDE_BITS), asked);
            const __m512i errors = _mm512_popcnt_epi64(_mm512_srlv_epi64(wrong, unknown));
            near = _mm512_mask_cmple_epi64_mask(inside, errors, _mm512_permutexvar_epi64(each, limits));
        }
        _mm512_storeu_si512(&candidates[kept], _mm512_maskz_compress_epi64(near, ranks));
        kept += (unsigned)__builtin_popcount(near);
    }
#else
    /* They lie in the last cache where the second one is small: together, on AMD's Zen 3, in 0.7 of the time. */
    for (unsigned i = first; i < count && search->ranges != NULL; i++)
        __builtin_prefetch(&search->ranges[candidates[i] >> ERROR_BITS >> shift]);
    for (unsigned i = first; i < count; i++) {
        const unsigned errors = (unsigned)(candidates[i] & low_bits(ERROR_BITS));
        const uint64_t rank = candidates[i] >> ERROR_BITS;
        if (UNLIKELY(rank >= codes->count)) return BAD_DIRECTORY;
        candidates[kept] = rank;
        if (search->ranges == NULL) {
            kept++;
            continue;
        }
        const uint32_t range = __atomic_load_n(&search->ranges[rank >> shift], __ATOMIC_RELAXED);
        const uint64_t wrong = ((range >> GUIDE_BITS) ^ key) >> (range & low_bits(GUIDE_BITS));
        kept += __builtin_popcountll(wrong) <= KERNEL(most_errors)(search, t, errors);
    }
#endif
    for (unsigned i = first; i < kept; i++) KERNEL(ask)(search, codes->codes_offset + candidates[i] * 8 * words, sound);
    search->candidate_count = kept;
    return KERNEL(spend)(search, entries / ENTRIES_A_CODE + CANDIDATE_CODES * (kept - first));
}

/* Compare the codes of slots of a table in whose order they are. */
ALWAYS_INLINE Status KERNEL(look_in_order)(CodeSearch *search, const Visits *visits, unsigned words, int sound) {
    const uint64_t codes_offset = search->codes->codes_offset;
    for (unsigned i = 0; i < visits->count; i++) {
        const uint64_t start = visits->slots[i], end = visits->ends[i];
        Status status = KERNEL(spend)(search, end - start);
        if (status == OK)
            status = KERNEL(check)(search, codes_offset + start * 8 * words, codes_offset + end * 8 * words - 1, sound);
        for (uint64_t rank = start; rank < end && status == OK; rank++)
            status = KERNEL(compare_one)(search, visits->table, rank, words);
        if (UNLIKELY(status != OK)) return status;
    }
    return OK;
}

/* Look at the entries of slots: what may do becomes a candidate. */
ALWAYS_INLINE Status KERNEL(look)(CodeSearch *search, const Visits *visits, unsigned words, int sound) {
    if (search->codes->tables[visits->table].in_order) return KERNEL(look_in_order)(search, visits, words, sound);
    uint64_t entries = 0;
    unsigned sifted = 0;
    search->table = visits->table;
    for (unsigned i = 0; i < visits->count; i++)
        for (uint64_t start = visits->slots[i], piece; start < visits->ends[i]; start = piece) {
            piece = visits->ends[i] - start < CANDIDATES / 2 ? visits->ends[i] : start + CANDIDATES / 2;
            entries += piece - start;
            Status status = KERNEL(read_entries)(search, visits, i, start, piece, sound);
            if (UNLIKELY(search->candidate_count > CANDIDATES / 2 && status == OK)) {
                status = KERNEL(sift)(search, visits->table, sifted, entries, words, sound);
                if (status == OK && search->candidate_count > CANDIDATES / 2)
                    status = KERNEL(compare)(search, words, sound);
                sifted = search->candidate_count;
                entries = 0;
            }
            if (UNLIKELY(status != OK)) return status;
        }
    return KERNEL(sift)(search, visits->table, sifted, entries, words, sound);
}

/* One turn of the stages, each of which goes on with what the one before it did a turn ago. */
ALWAYS_INLINE Status KERNEL(turn)(CodeSearch *search, uint64_t turn, unsigned words, int sound) {
    Visits *known = &search->visits[(turn + 2) % 3], *read = &search->visits[(turn + 1) % 3];
    Status status = KERNEL(read_starts)(search, known, words, sound);
    if (status == OK) status = KERNEL(compare)(search, words, sound);
    if (status == OK) status = KERNEL(look)(search, read, words, sound);
    read->count = 0;
    return status;
}

#include "codes_levels.h"

ALWAYS_INLINE Status KERNEL(search_tables)(CodeSearch *search, unsigned words, int sound) {
    const Codes *codes = search->codes;
    const int levelled = codes->guide != NULL;
    uint64_t turn = 0;
    Status status = OK;
    for (unsigned i = 0; i < 3; i++) search->visits[i].table = search->visits[i].count = 0;
    for (unsigned t = 0; levelled && t < codes->table_count; t++)
        search->keys[t] = KERNEL(code_key)(search->query, words, codes->tables[t].mask);
    if (levelled) status = KERNEL(choose_levels)(search, sound);
    if (UNLIKELY(status != OK)) return status;
    for (unsigned t = 0; t < codes->table_count; t++) {
        const CodeTable *table = &codes->tables[t];
        const uint64_t key = levelled ? search->keys[t] : KERNEL(code_key)(search->query, words, table->mask);
        const uint64_t slot = key >> table->tag_bits, tag = key & low_bits(table->tag_bits);
        const uint64_t end = levelled ? KERNEL(patterns_to)(table, search->levels.highest[t]) : table->pattern_count;
        for (uint64_t first = 0; first < end; first += VISITS, turn++) {
            KERNEL(name_slots)(search, &search->visits[turn % 3], t, slot, tag, first, end, sound);
            status = KERNEL(turn)(search, turn, words, sound);
            if (status != OK || (search->matches->first_only && search->matches->count > 0)) return status;
        }
    }
    for (unsigned left = 0; left < 2 && status == OK; left++, turn++) status = KERNEL(turn)(search, turn, words, sound);
    return status == OK ? KERNEL(compare)(search, words, sound) : status;
}

/* How far a further match may be: of those that are kept, once they are so many, none that is further than the last;
   where ranks tell the order, of which all that follow have larger ones, each is nearer than that. Below 0 for none. */
ALWAYS_INLINE int KERNEL(limit_of)(const CodeMatches *matches, int distance) {
    if (matches->keep == 0 || matches->count - matches->begin < matches->keep) return distance;
    const int last = (int)matches->found[matches->begin].distance - (matches->rows == NULL);
    return last < distance ? last : distance;
}

/* The `count` codes at `at`, which have ranks from `rank` on, one by one. */
ALWAYS_INLINE Status KERNEL(scan_few)(const uint8_t *at, uint64_t rank, uint64_t count, const uint64_t *query,
                                      uint32_t index, int *limit, CodeMatches *matches, unsigned words) {
    for (const uint64_t end = rank + count; rank < end; rank++, at += 8 * words) {
        const unsigned found = KERNEL(code_distance)(at, query, words);
        if (LIKELY((int)found > *limit)) continue;
        Status status = codes_match(matches, rank, index, found);
        if (status != OK || matches->first_only) return status;
        *limit = KERNEL(limit_of)(matches, *limit);
    }
    return OK;
}

#ifdef KERNEL_IS_WIDE
#define CODES_AT_ONCE 8

/* How far each of so many codes is, in the order of take_near(). wanted: the query as often as a vector has room for
   it. */
ALWAYS_INLINE __m512i KERNEL(distances_of)(const uint8_t *at, __m512i wanted, unsigned words) {
    __m512i sums[2];
#define ONES(place) _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(at + 64 * (place)), wanted))
    for (unsigned i = 0; i < words / 2; i++) {
        const __m512i one = ONES(2 * i), other = ONES(2 * i + 1);
        sums[i] = _mm512_add_epi64(_mm512_unpacklo_epi64(one, other), _mm512_unpackhi_epi64(one, other));
    }
#undef ONES
    if (words == 4)
        sums[0] = _mm512_add_epi64(_mm512_shuffle_i64x2(sums[0], sums[1], 0x88),
                                   _mm512_shuffle_i64x2(sums[0], sums[1], 0xDD));
    return sums[0];
}

/* As scan_few() of so many codes, whose distances are known. */
ALWAYS_INLINE Status KERNEL(take_near)(__m512i distances, uint64_t rank, uint32_t index, int *limit,
                                       CodeMatches *matches, unsigned words) {
    /* Of each code its lane. */
    const __m512i lanes =
        words == 4 ? _mm512_set_epi64(7, 5, 6, 4, 3, 1, 2, 0) : _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    const __m512i in_order = _mm512_permutexvar_epi64(lanes, distances);
    uint64_t found[CODES_AT_ONCE];
    _mm512_storeu_si512(found, in_order);
    unsigned near = _mm512_cmple_epi64_mask(in_order, _mm512_set1_epi64(*limit));
    for (; near != 0; near &= near - 1) {
        const unsigned i = (unsigned)__builtin_ctz(near);
        Status status = codes_match(matches, rank + i, index, (unsigned)found[i]);
        if (status != OK || matches->first_only) return status;
        *limit = KERNEL(limit_of)(matches, *limit);
    }
    return OK;
}
#endif

/* The `count` codes at `at`, which have ranks from `rank` on. */
ALWAYS_INLINE Status KERNEL(scan_some)(const uint8_t *at, uint64_t rank, uint64_t count, const uint64_t *query,
                                       uint32_t index, unsigned distance, CodeMatches *matches, unsigned words) {
    int limit = KERNEL(limit_of)(matches, (int)distance);
    if (limit < 0) return OK;
#ifdef KERNEL_IS_WIDE
    const uint64_t count_before = matches->count;
    const __m512i wanted = words == 4 ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)query))
                                      : _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)query));
    __m512i limits = _mm512_set1_epi64(limit);
    /* A short run has too little behind it. */
    const int asks = codes_ask && count * 8 * words > SCAN_AHEAD;
    for (; count >= CODES_AT_ONCE; count -= CODES_AT_ONCE, rank += CODES_AT_ONCE, at += 8 * words * CODES_AT_ONCE) {
        /* The processor foresees what comes in a page, and not that another one does: 0.96 of the time. */
        if (LIKELY(asks))
            for (unsigned line = 0; line < 8 * words * CODES_AT_ONCE / CACHE_BYTES; line++)
                __builtin_prefetch(at + SCAN_AHEAD + line * CACHE_BYTES, 0, 2); /* to the second cache */
        else if (UNLIKELY((uintptr_t)at % PAGE_BYTES < 8 * words * CODES_AT_ONCE))
            __builtin_prefetch(at + PAGE_BYTES);
        const __m512i distances = KERNEL(distances_of)(at, wanted, words);
        if (LIKELY(_mm512_cmple_epi64_mask(distances, limits) == 0)) continue;
        Status status = KERNEL(take_near)(distances, rank, index, &limit, matches, words);
        if (status != OK || (matches->first_only && matches->count > count_before)) return status;
        limits = _mm512_set1_epi64(limit);
    }
#elif defined(KERNEL_IS_FAST)
    /* A line of memory at once, of which hardly any has a near code. Asked for ahead, 32 MB take 0.6 of the time on
       AMD's Zen 3; a short run has too little behind it. */
    const uint64_t count_before = matches->count;
    const unsigned each = CACHE_BYTES / (8 * words);
    const int asks = count * 8 * words > SCAN_AHEAD;
    for (; count >= each; count -= each, rank += each, at += CACHE_BYTES) {
        int near = 0;
        if (LIKELY(asks)) __builtin_prefetch(at + SCAN_AHEAD);
        for (unsigned i = 0; i < each; i++)
            near |= (int)KERNEL(code_distance)(at + i * 8 * words, query, words) <= limit;
        if (LIKELY(!near)) continue;
        Status status = KERNEL(scan_few)(at, rank, each, query, index, &limit, matches, words);
        if (status != OK || (matches->first_only && matches->count > count_before)) return status;
    }
#endif
    return KERNEL(scan_few)(at, rank, count, query, index, &limit, matches, words);
}

ALWAYS_INLINE Status KERNEL(scan_all)(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index,
                                      unsigned distance, CodeMatches *matches, unsigned words) {
    const uint64_t at_once = SCAN_PAGES * PAGE_BYTES / 8 / words, size = 8 * words;
    Status status = OK;
    matches->scanned = 1;
    for (uint64_t first = 0, end; first < codes->count; first = end) {
        end = codes->count - first < at_once ? codes->count : first + at_once;
        const uint64_t offset = codes->codes_offset + first * size;
        status = pages_check(pages, offset, offset + (end - first) * size - 1);
        if (status != OK) return status;
        /* And all that follow which are known: in one run that takes 0.97 of the time. */
        end += (pages_new(pages, codes->codes_offset + end * size, codes->codes_offset + codes->count * size) -
                (codes->codes_offset + end * size)) /
               size;
        const uint64_t count_before = matches->count;
        status = KERNEL(scan_some)(pages->base + offset, first, end - first, query, index, distance, matches, words);
        if (status != OK || (matches->first_only && matches->count > count_before)) return status;
    }
    return OK;
}

Status KERNEL(codes_near)(const uint64_t *codes, uint64_t first, uint64_t count, unsigned words, const uint64_t *query,
                          uint32_t index, unsigned distance, CodeMatches *matches) {
    const uint8_t *at = (const uint8_t *)(codes + first * words);
    return words == 4 ? KERNEL(scan_some)(at, first, count, query, index, distance, matches, 4)
                      : KERNEL(scan_some)(at, first, count, query, index, distance, matches, 2);
}

Status KERNEL(codes_scan)(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                          CodeMatches *matches) {
    return codes->words == 4 ? KERNEL(scan_all)(pages, codes, query, index, distance, matches, 4)
                             : KERNEL(scan_all)(pages, codes, query, index, distance, matches, 2);
}

Status KERNEL(codes_search)(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                            CodeMatches *matches) {
    CodeSearch search;
    const uint64_t count_before = matches->count, most_visits = codes->count / VISIT_CODES;
    if (codes_visits(codes, distance, most_visits) > most_visits)
        return KERNEL(codes_scan)(pages, codes, query, index, distance, matches);
    search.pages = pages;
    search.codes = codes;
    search.query = query;
    search.matches = matches;
    search.index = index;
    search.distance = distance;
    search.candidate_count = 0;
    search.budget = codes->count;
    search.first_key = codes_first_key(codes, query[0]);
    search.ranges = codes->guide != NULL ? __atomic_load_n(&codes->guide->ranges, __ATOMIC_ACQUIRE) : NULL;
    Status status;
    if (pages_sound(pages))
        status = codes->words == 4 ? KERNEL(search_tables)(&search, 4, 1) : KERNEL(search_tables)(&search, 2, 1);
    else
        status = codes->words == 4 ? KERNEL(search_tables)(&search, 4, 0) : KERNEL(search_tables)(&search, 2, 0);
    if (status != TOO_LARGE) return status;
    matches->count = count_before;
    return KERNEL(codes_scan)(pages, codes, query, index, distance, matches);
}
