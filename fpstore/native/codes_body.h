/* Searching wide codes. Included once for each instruction set; see platform.h.

   What takes time is memory, so the work goes in stages, VISITS slots at a time: name slots and ask for their starts;
   read these and ask for entries; read the entries that may do and ask for their codes; compare codes. */

#define CANDIDATES 4096
#define RANK_BITS 48
/* What a candidate costs, in codes that are read in order; how many entries cost as much as one of these. */
#define CANDIDATE_CODES 4
#define ENTRIES_A_CODE 4
/* What is asked for of a slot at once, but for its last line: of long ones the processor asks by itself. */
#define ASKED_BYTES 1024
#define CACHE_BYTES 64
#define SCAN_PAGES 16 /* that are checked at once where codes are read in order */

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

/* Whether a table's prefixes of two codes differ in no more bits than it flips. */
ALWAYS_INLINE int KERNEL(catches)(const CodeTable *table, const uint8_t *at, const uint64_t *query, unsigned words) {
    unsigned errors = 0;
    for (unsigned i = 0; i < words; i++)
        errors += (unsigned)__builtin_popcountll((load64(at + 8 * i) ^ query[i]) & table->mask[i]);
    return errors <= table->flips;
}

/* Slots of one table that are under way: their numbers, then where their entries begin. */
typedef struct {
    unsigned table, count;
    uint64_t tag;                /* of the query */
    const CodePattern *patterns; /* of each slot */
    uint64_t slots[VISITS], ends[VISITS];
} Visits;

/* Slots at each of three stages, and candidates: ranks, with the number of the table that each is of above RANK_BITS.
 */
typedef struct {
    Pages *pages;
    const Codes *codes;
    const uint64_t *query;
    CodeMatches *matches;
    uint32_t index;
    unsigned distance, candidate_count;
    uint64_t budget; /* what may be looked at until reading all codes would have cost less, in codes */
    Visits visits[3];
    uint64_t candidates[CANDIDATES + 8]; /* and what is stored beyond the last one */
} CodeSearch;

ALWAYS_INLINE uint64_t KERNEL(start_of)(const uint8_t *at, unsigned bytes) {
    uint32_t narrow;
    if (bytes == 8) return load64(at);
    memcpy(&narrow, at, 4);
    return narrow;
}

/* Name some slots of a table, and ask for their starts. */
ALWAYS_INLINE void KERNEL(name_slots)(CodeSearch *search, Visits *visits, unsigned table, uint64_t slot, uint64_t tag,
                                      uint64_t first) {
    const CodeTable *own = &search->codes->tables[table];
    const unsigned bytes = search->codes->start_bytes;
    visits->table = table;
    visits->tag = tag;
    visits->count = (unsigned)(own->pattern_count - first < VISITS ? own->pattern_count - first : VISITS);
    visits->patterns = own->patterns + first;
    for (unsigned i = 0; i < visits->count; i++) {
        visits->slots[i] = slot ^ visits->patterns[i].flipped;
        bytes_ask(search->pages, own->starts_offset + visits->slots[i] * bytes);
    }
}

/* Where the slots' entries begin and end, in place of their numbers; asks for the entries. */
ALWAYS_INLINE Status KERNEL(read_starts)(CodeSearch *search, Visits *visits, unsigned words) {
    const Codes *codes = search->codes;
    const CodeTable *table = &codes->tables[visits->table];
    const unsigned bytes = codes->start_bytes;
    const unsigned entry_bits = table->in_order ? 64 * words : codes->rank_bits + table->tag_bits;
    const uint64_t entries_offset = table->in_order ? codes->codes_offset : table->entries_offset;
    for (unsigned i = 0; i < visits->count; i++) {
        const uint64_t offset = table->starts_offset + visits->slots[i] * bytes;
        Status status = pages_check(search->pages, offset, offset + 2 * bytes - 1);
        if (UNLIKELY(status != OK)) return status;
        const uint8_t *at = search->pages->base + offset;
        const uint64_t start = KERNEL(start_of)(at, bytes), end = KERNEL(start_of)(at + bytes, bytes);
        if (UNLIKELY(start > end || end > codes->count)) return BAD_DIRECTORY;
        visits->slots[i] = start;
        visits->ends[i] = end;
        if (start == end) continue;
        const uint64_t first = entries_offset + start * entry_bits / 8;
        const uint64_t last = entries_offset + (end * entry_bits - 1) / 8;
        for (uint64_t line = first; line < last && line - first < ASKED_BYTES; line += CACHE_BYTES)
            bytes_ask(search->pages, line);
        if ((first ^ last) >= CACHE_BYTES) bytes_ask(search->pages, last);
    }
    return OK;
}

ALWAYS_INLINE Status KERNEL(compare)(CodeSearch *search, unsigned words) {
    const Codes *codes = search->codes;
    const uint64_t *query = search->query;
    const unsigned distance = search->distance;
    for (unsigned i = 0; i < search->candidate_count; i++) {
        const uint64_t rank = search->candidates[i] & low_bits(RANK_BITS);
        const uint64_t offset = codes->codes_offset + rank * 8 * words;
        Status status = pages_check(search->pages, offset, offset);
        if (UNLIKELY(status != OK)) return status;
        const uint8_t *at = search->pages->base + offset;
        const unsigned found = KERNEL(code_distance)(at, query, words);
        if (LIKELY(found > distance)) continue;
        const unsigned table = (unsigned)(search->candidates[i] >> RANK_BITS);
        unsigned first = 0; /* the first table that catches it tells of it: a slot has others too */
        while (first <= table && !KERNEL(catches)(&codes->tables[first], at, query, words)) first++;
        if (first != table) continue;
        status = codes_match(search->matches, rank, search->index, found);
        if (UNLIKELY(status != OK)) return status;
    }
    search->candidate_count = 0;
    return OK;
}

/* Entries [start, end) of a slot under way whose tag is near enough become candidates; asks for their codes. Up to
   CANDIDATES / 2 entries. */
ALWAYS_INLINE Status KERNEL(read_entries)(CodeSearch *search, unsigned t, uint64_t tag, uint64_t left, uint64_t start,
                                          uint64_t end, unsigned words) {
    const Codes *codes = search->codes;
    const CodeTable *table = &codes->tables[t];
    const uint64_t of_table = (uint64_t)t << RANK_BITS;
    const unsigned tag_bits = table->tag_bits, width = codes->rank_bits + tag_bits;
    const uint64_t bit = start * width;
    const unsigned first_new = search->candidate_count;
    unsigned count = first_new;
    Status status =
        pages_check(search->pages, table->entries_offset + bit / 8, table->entries_offset + (end * width - 1) / 8);
    if (UNLIKELY(status != OK)) return status;
    const uint8_t *entries = search->pages->base + table->entries_offset;
#ifdef KERNEL_IS_WIDE
    /* Eight entries are `width` bytes. Each lane gets the 8 bytes in which its entry begins, of 32 that are read where
       these are enough. What lies behind the line of the last entry has not been asked for: what is read ends there. */
    const int narrow = bit % 8 + 8 * width <= 256;
    const uint8_t *const line_end = entries + (end * width - 1) / 8;
    const uint8_t *const last = line_end + CACHE_BYTES - (uintptr_t)line_end % CACHE_BYTES - (narrow ? 32 : 64);
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i bits = _mm512_add_epi64(_mm512_mul_epu32(lanes, _mm512_set1_epi64((long long)width)),
                                          _mm512_set1_epi64((long long)(bit % 8)));
    const __m512i shifts = _mm512_and_si512(bits, _mm512_set1_epi64(7));
    const __m512i places =
        _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi64(bits, 3),
                                            _mm512_set4_epi64(0x0808080808080808, 0, 0x0808080808080808, 0)),
                        _mm512_set1_epi64(0x0706050403020100));
    const __m512i tag_mask = _mm512_set1_epi64((long long)low_bits(tag_bits));
    const __m512i rank_mask = _mm512_set1_epi64((long long)low_bits(codes->rank_bits));
    const __m512i wanted = _mm512_set1_epi64((long long)tag), most = _mm512_set1_epi64((long long)left);
    const __m512i its_table = _mm512_set1_epi64((long long)of_table);
    const __m128i rank_shift = _mm_cvtsi32_si128((int)tag_bits);
    entries += bit / 8;
    for (uint64_t rest = end - start; rest > 0; rest -= rest < 8 ? rest : 8, entries += width) {
        const __mmask8 inside = (__mmask8)low_bits(rest < 8 ? (unsigned)rest : 8);
        const uint8_t *const from = entries < last ? entries : last;
        const __m512i those = _mm512_add_epi8(places, _mm512_set1_epi8((char)(entries - from)));
        __m512i word =
            narrow ? _mm512_castsi256_si512(_mm256_loadu_si256((const void *)from)) : _mm512_loadu_si512(from);
        word = _mm512_srlv_epi64(_mm512_permutexvar_epi8(those, word), shifts);
        const __m512i errors = _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_and_si512(word, tag_mask), wanted));
        const __mmask8 near = _mm512_mask_cmple_epu64_mask(inside, errors, most);
        word = _mm512_and_si512(_mm512_srl_epi64(word, rank_shift), rank_mask);
        _mm512_storeu_si512(&search->candidates[count],
                            _mm512_or_si512(_mm512_maskz_compress_epi64(near, word), its_table));
        count += (unsigned)__builtin_popcount(near);
    }
#else
    for (uint64_t at = bit; at < end * width; at += width) {
        const uint64_t entry = (load64(entries + at / 8) >> (at % 8)) & low_bits(width);
        search->candidates[count] = entry >> tag_bits | of_table;
        count += (unsigned)__builtin_popcountll((entry & low_bits(tag_bits)) ^ tag) <= left;
    }
#endif
    search->candidate_count = count;
    for (unsigned i = first_new; i < count; i++) {
        const uint64_t rank = search->candidates[i] & low_bits(RANK_BITS);
        if (UNLIKELY(rank >= codes->count)) return BAD_DIRECTORY;
        bytes_ask(search->pages, codes->codes_offset + rank * 8 * words);
    }
    return OK;
}

/* Look at the entries of slots: what may do becomes a candidate. TOO_LARGE where reading all codes costs less. */
ALWAYS_INLINE Status KERNEL(look)(CodeSearch *search, const Visits *visits, unsigned words) {
    const CodeTable *table = &search->codes->tables[visits->table];
    const uint64_t of_table = (uint64_t)visits->table << RANK_BITS;
    Status status = OK;
    for (unsigned i = 0; i < visits->count; i++) {
        for (uint64_t start = visits->slots[i], piece; start < visits->ends[i]; start = piece) {
            const unsigned before = search->candidate_count;
            piece = visits->ends[i] - start < CANDIDATES / 2 ? visits->ends[i] : start + CANDIDATES / 2;
            if (table->in_order)
                for (uint64_t rank = start; rank < piece; rank++)
                    search->candidates[search->candidate_count++] = rank | of_table;
            else
                status = KERNEL(read_entries)(search, visits->table, visits->tag, visits->patterns[i].left, start,
                                              piece, words);
            if (UNLIKELY(status != OK)) return status;
            const uint64_t cost =
                (piece - start) / ENTRIES_A_CODE + CANDIDATE_CODES * (search->candidate_count - before);
            if (UNLIKELY(cost > search->budget)) return TOO_LARGE;
            search->budget -= cost;
            if (search->candidate_count > CANDIDATES / 2) status = KERNEL(compare)(search, words);
            if (UNLIKELY(status != OK)) return status;
        }
    }
    return OK;
}

/* One turn of the stages, each of which goes on with what the one before it did a turn ago. */
ALWAYS_INLINE Status KERNEL(turn)(CodeSearch *search, uint64_t turn, unsigned words) {
    Visits *known = &search->visits[(turn + 2) % 3], *read = &search->visits[(turn + 1) % 3];
    Status status = KERNEL(read_starts)(search, known, words);
    if (status == OK) status = KERNEL(compare)(search, words);
    if (status == OK) status = KERNEL(look)(search, read, words);
    read->count = 0;
    return status;
}

ALWAYS_INLINE Status KERNEL(search_tables)(CodeSearch *search, unsigned words) {
    const Codes *codes = search->codes;
    uint64_t turn = 0;
    Status status = OK;
    for (unsigned i = 0; i < 3; i++) search->visits[i].table = search->visits[i].count = 0;
    for (unsigned t = 0; t < codes->table_count; t++) {
        const CodeTable *table = &codes->tables[t];
        const uint64_t key = KERNEL(code_key)(search->query, words, table->mask);
        const uint64_t slot = key >> table->tag_bits, tag = key & low_bits(table->tag_bits);
        for (uint64_t first = 0; first < table->pattern_count; first += VISITS, turn++) {
            KERNEL(name_slots)(search, &search->visits[turn % 3], t, slot, tag, first);
            status = KERNEL(turn)(search, turn, words);
            if (status != OK || (search->matches->first_only && search->matches->count > 0)) return status;
        }
    }
    for (unsigned left = 0; left < 2 && status == OK; left++, turn++) {
        status = KERNEL(turn)(search, turn, words);
    }
    return status == OK ? KERNEL(compare)(search, words) : status;
}

/* How far a further match may be: of those that are kept, once they are so many, none that is further than the last. */
ALWAYS_INLINE unsigned KERNEL(limit_of)(const CodeMatches *matches, unsigned distance) {
    if (matches->keep == 0 || matches->count - matches->begin < matches->keep) return distance;
    const unsigned last = matches->found[matches->begin].distance;
    return last < distance ? last : distance;
}

/* The `count` codes at `at`, which have ranks from `rank` on, one by one. */
ALWAYS_INLINE Status KERNEL(scan_few)(const uint8_t *at, uint64_t rank, uint64_t count, const uint64_t *query,
                                      uint32_t index, unsigned *limit, CodeMatches *matches, unsigned words) {
    for (const uint64_t end = rank + count; rank < end; rank++, at += 8 * words) {
        const unsigned found = KERNEL(code_distance)(at, query, words);
        if (LIKELY(found > *limit)) continue;
        Status status = codes_match(matches, rank, index, found);
        if (status != OK || matches->first_only) return status;
        *limit = KERNEL(limit_of)(matches, *limit);
    }
    return OK;
}

#ifdef KERNEL_IS_WIDE
#define CODES_AT_ONCE 8

/* Whether any of so many codes is within limit. wanted: the query as often as a vector has room for it. */
ALWAYS_INLINE int KERNEL(any_near)(const uint8_t *at, __m512i wanted, __m512i limit, unsigned words) {
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
    return _mm512_cmple_epu64_mask(sums[0], limit) != 0;
}
#endif

/* The `count` codes at `at`, which have ranks from `rank` on. */
ALWAYS_INLINE Status KERNEL(scan_some)(const uint8_t *at, uint64_t rank, uint64_t count, const uint64_t *query,
                                       uint32_t index, unsigned distance, CodeMatches *matches, unsigned words) {
    unsigned limit = KERNEL(limit_of)(matches, distance);
#ifdef KERNEL_IS_WIDE
    const uint64_t count_before = matches->count;
    const __m512i wanted = words == 4 ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)query))
                                      : _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)query));
    __m512i limits = _mm512_set1_epi64(limit);
    for (; count >= CODES_AT_ONCE; count -= CODES_AT_ONCE, rank += CODES_AT_ONCE, at += 8 * words * CODES_AT_ONCE) {
        if (LIKELY(!KERNEL(any_near)(at, wanted, limits, words))) continue;
        Status status = KERNEL(scan_few)(at, rank, CODES_AT_ONCE, query, index, &limit, matches, words);
        if (status != OK || (matches->first_only && matches->count > count_before)) return status;
        limits = _mm512_set1_epi64(limit);
    }
#endif
    return KERNEL(scan_few)(at, rank, count, query, index, &limit, matches, words);
}

ALWAYS_INLINE Status KERNEL(scan_all)(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index,
                                      unsigned distance, CodeMatches *matches, unsigned words) {
    const uint64_t at_once = SCAN_PAGES * PAGE_BYTES / 8 / words;
    Status status = OK;
    matches->scanned = 1;
    for (uint64_t first = 0; first < codes->count; first += at_once) {
        const uint64_t end = codes->count - first < at_once ? codes->count : first + at_once;
        const uint64_t offset = codes->codes_offset + first * 8 * words;
        status = pages_check(pages, offset, offset + (end - first) * 8 * words - 1);
        if (status != OK) return status;
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
    uint64_t visits = 0;
    const uint64_t count_before = matches->count, most_visits = codes->count / VISIT_CODES;
    for (unsigned i = 0; i < codes->table_count && visits <= most_visits; i++)
        visits += codes->tables[i].pattern_count; /* of each at most 2^40 */
    if (visits > most_visits) return KERNEL(codes_scan)(pages, codes, query, index, distance, matches);
    search.pages = pages;
    search.codes = codes;
    search.query = query;
    search.matches = matches;
    search.index = index;
    search.distance = distance;
    search.candidate_count = 0;
    search.budget = codes->count;
    Status status = codes->words == 4 ? KERNEL(search_tables)(&search, 4) : KERNEL(search_tables)(&search, 2);
    if (status != TOO_LARGE) return status;
    matches->count = count_before;
    return KERNEL(codes_scan)(pages, codes, query, index, distance, matches);
}
