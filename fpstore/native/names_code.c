/* Writing blocks of names: which symbols a block has, and its bytes. */
#include "names.h"

enum {
    CODES = 256 + NAME_SYMBOLS, /* while symbols are chosen: every byte that stands for itself, then the symbols */
    SAMPLE_BYTES_MAX = 1 << 13, /* of what is coded, so much decides on the symbols */
    ROUNDS = 5,
    LATER_SAMPLE_BYTES = 1 << 12,
    LATER_ROUNDS = 1, /* where the block before has left its symbols: neighbours are alike */
    KEPT_BLOCKS = 2,  /* so many have the same symbols */
    PLACE_BITS = 14,  /* of the places of candidates, of which there are at most 511 and one for each byte */
    SLOT_BITS = 11,   /* of the slots in which symbols of three bytes and more are looked for, one in each */
    SHORTS = 1 << 16, /* which two bytes there can be */
    MAX_VARINT = 3,
    SHORT_REST = 256, /* what is left of a name is coded with that of the next one where neither is longer */
    SORTED_RUN = 8,   /* so many are sorted without a merge */
    DEALT = 1 << 10,  /* so many are sorted byte by byte */
    SORTED_AHEAD = 8
};

typedef struct {
    uint64_t word; /* its bytes, the first one lowest */
    uint64_t gain;
    uint32_t length;
} Candidate;

/* What is found at some bytes: the number of a symbol, or NAME_ESCAPE, and above that byte for how many it stands. */
typedef uint16_t Found;

/* A symbol of three bytes or more: a word begins with it where it has these bits below the mask. */
typedef struct {
    uint64_t word, mask;
    uint32_t length;
    Found found;
} Sought;

/* Of the symbols that share a slot only the one that is worth most is taken. So one look is enough for each symbol that
   is written, and hardly a branch depends on the bytes (as in FSST). */
typedef struct {
    uint32_t count;
    uint64_t words[NAME_SYMBOLS];
    uint8_t lengths[NAME_SYMBOLS];
    Found singles[256];            /* of one byte */
    Found shorts[SHORTS];          /* of the first one or two of two bytes, the first one lowest */
    Sought sought[1 << SLOT_BITS]; /* by the slot of the first three; word 1 and mask 0 for none */
} Symbols;

struct NameCoder {
    Symbols symbols;
    uint32_t single[CODES];
    uint32_t pairs[CODES * CODES];
    uint32_t touched[SAMPLE_BYTES_MAX];
    Candidate places[1 << PLACE_BITS];
    uint8_t sample[SAMPLE_BYTES_MAX];
    uint32_t sample_ends[SAMPLE_BYTES_MAX];
    uint32_t shared[NAME_BLOCK];
    uint64_t blocks; /* that were written */
};

int name_compare(const uint8_t *one, uint64_t one_bytes, const uint8_t *other, uint64_t other_bytes) {
    uint64_t shared = one_bytes < other_bytes ? one_bytes : other_bytes;
    int order = shared ? memcmp(one, other, shared) : 0;
    return order ? order : (one_bytes > other_bytes) - (one_bytes < other_bytes);
}

/* --- Symbols --- */

/* Whether a comes before b where both are of one length: by their bytes. */
ALWAYS_INLINE int word_before(uint64_t a, uint64_t b) { return __builtin_bswap64(a) < __builtin_bswap64(b); }

ALWAYS_INLINE uint32_t sought_slot(uint64_t word) {
    return (uint32_t)(word & 0xFFFFFF) * 0x9E3779B1u >> (32 - SLOT_BITS);
}

/* Which of two candidates is worth more; by their bytes where it is the same, so that the choice is the same always. */
ALWAYS_INLINE int worth_less(const Candidate *a, const Candidate *b) {
    if (a->gain != b->gain) return a->gain < b->gain;
    if (a->length != b->length) return a->length < b->length;
    return word_before(b->word, a->word);
}

/* Put the symbols in their order on disk, by length and then by bytes, and make them ready to be looked for. */
static void symbols_ready(Symbols *symbols, Candidate *chosen, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) { /* some 250, mostly in no order */
        Candidate candidate = chosen[i];
        uint32_t to = i;
        for (; to > 0 &&
               (candidate.length < chosen[to - 1].length ||
                (candidate.length == chosen[to - 1].length && word_before(candidate.word, chosen[to - 1].word)));
             to--)
            chosen[to] = chosen[to - 1];
        chosen[to] = candidate;
    }
    symbols->count = count;
    for (uint32_t i = 0; i < 256; i++) symbols->singles[i] = NAME_ESCAPE | 1 << 8;
    for (uint32_t i = 0; i < 1 << SLOT_BITS; i++) symbols->sought[i] = (Sought){.word = 1};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = chosen[i].word;
        uint32_t length = chosen[i].length;
        Found found = (Found)(i | length << 8);
        symbols->words[i] = word;
        symbols->lengths[i] = (uint8_t)length;
        if (length == 1) symbols->singles[word] = found;
        if (length > 2) symbols->sought[sought_slot(word)] = (Sought){word, low_bits(8 * length), length, found};
    }
    for (uint32_t i = 0; i < SHORTS; i += 256) memcpy(symbols->shorts + i, symbols->singles, sizeof symbols->singles);
    for (uint32_t i = 0; i < count; i++)
        if (chosen[i].length == 2) symbols->shorts[chosen[i].word] = (Found)(i | 2 << 8);
}

NameCoder *name_coder_new(void) {
    NameCoder *coder = calloc(1, sizeof(NameCoder));
    if (coder != NULL) symbols_ready(&coder->symbols, NULL, 0);
    return coder;
}
void name_coder_free(NameCoder *coder) { free(coder); }

/* What a word begins with, of which `left` bytes count and the others are zero. */
ALWAYS_INLINE Found found_at(const Symbols *symbols, uint64_t word, uint64_t left) {
    const Sought *sought = &symbols->sought[sought_slot(word)];
    Found found = symbols->shorts[word & 0xFFFF];
    if (left >= 8) return (word & sought->mask) == sought->word ? sought->found : found;
    if ((word & sought->mask) == sought->word && sought->length <= left) return sought->found;
    return found >> 8 > left ? symbols->singles[word & 255] : found;
}

/* Add to the candidate of these bytes. */
static void candidate_add(Candidate *places, uint32_t bits, uint64_t word, uint32_t length, uint64_t gain) {
    uint64_t place = (word * 0x9E3779B97F4A7C15u + length * 0xD6E8FEB86659FD93u) >> (64 - bits);
    while (places[place].length != 0 && (places[place].word != word || places[place].length != length))
        place = (place + 1) & low_bits(bits);
    places[place].word = word;
    places[place].length = length;
    places[place].gain += gain;
}

static void sift_down(Candidate *heap, uint32_t count, uint32_t at) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && worth_less(&heap[child + 1], &heap[child])) child++;
        if (!worth_less(&heap[child], &heap[at])) return;
        Candidate swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* One round: code the sample with the symbols there are, and take those that saved, or would save, the most bytes. */
static void symbols_improve(NameCoder *coder, uint32_t sample_count, int last) {
    uint32_t sample_bytes = sample_count ? coder->sample_ends[sample_count - 1] : 0;
    uint32_t bits = sample_bytes > LATER_SAMPLE_BYTES ? PLACE_BITS : PLACE_BITS - 1;
    Symbols *symbols = &coder->symbols;
    Candidate chosen[NAME_SYMBOLS];
    uint32_t touched = 0, start = 0, kept = 0;
    memset(coder->single, 0, sizeof coder->single);
    for (uint32_t i = 0; i < sample_count; i++) {
        unsigned before = CODES;
        for (uint32_t at = start, end = coder->sample_ends[i]; at < end;) {
            uint64_t word = load_some(coder->sample + at, end - at);
            Found found = found_at(symbols, word, end - at);
            unsigned code = found & 255, length = found >> 8;
            code = code == NAME_ESCAPE ? word & 255 : code + 256;
            coder->single[code]++;
            if (before != CODES && !last) {
                uint32_t pair = before * CODES + code;
                if (coder->pairs[pair]++ == 0) coder->touched[touched++] = pair;
            }
            before = code;
            at += length;
        }
        start = coder->sample_ends[i];
    }
    memset(coder->places, 0, sizeof(Candidate) << bits);
    for (uint32_t code = 0; code < CODES; code++)
        if (coder->single[code] && (code < 256 || code - 256 < symbols->count)) {
            uint64_t word = code < 256 ? code : symbols->words[code - 256];
            uint32_t length = code < 256 ? 1 : symbols->lengths[code - 256];
            /* A byte without a symbol takes two. */
            candidate_add(coder->places, bits, word, length,
                          (uint64_t)coder->single[code] * (length == 1 ? 2 : length));
        }
    for (uint32_t i = 0; i < touched; i++) {
        uint32_t pair = coder->touched[i], one = pair / CODES, other = pair % CODES, count = coder->pairs[pair];
        coder->pairs[pair] = 0;
        uint64_t word = one < 256 ? one : symbols->words[one - 256],
                 next = other < 256 ? other : symbols->words[other - 256];
        uint32_t length = one < 256 ? 1 : symbols->lengths[one - 256],
                 more = other < 256 ? 1 : symbols->lengths[other - 256];
        if (length + more > 8 || count < 2) continue;
        candidate_add(coder->places, bits, word | next << 8 * length, length + more, (uint64_t)count * (length + more));
    }
    uint16_t best[1 << SLOT_BITS] = {0}; /* of the candidates of a slot; one more than its place */
    for (uint32_t place = 0; place < 1u << bits; place++) {
        const Candidate *candidate = &coder->places[place];
        uint16_t *held = &best[sought_slot(candidate->word)];
        if (candidate->length > 2 && (*held == 0 || worth_less(&coder->places[*held - 1], candidate)))
            *held = (uint16_t)(place + 1);
    }
    for (uint32_t place = 0; place < 1u << bits; place++) {
        const Candidate *candidate = &coder->places[place];
        /* A symbol takes length + 1 bytes in the head of the block, or nearly that. */
        if (candidate->length == 0 || candidate->gain <= candidate->length + 1) continue;
        if (candidate->length > 2 && best[sought_slot(candidate->word)] != place + 1) continue;
        if (kept < NAME_SYMBOLS) {
            chosen[kept++] = *candidate;
            if (kept == NAME_SYMBOLS)
                for (uint32_t i = NAME_SYMBOLS / 2 + 1; i-- > 0;) sift_down(chosen, kept, i);
        } else if (worth_less(&chosen[0], candidate)) {
            chosen[0] = *candidate;
            sift_down(chosen, kept, 0);
        }
    }
    symbols_ready(symbols, chosen, kept);
}

/* --- Blocks --- */

ALWAYS_INLINE uint8_t *put_varint(uint8_t *out, uint64_t value) {
    for (; value >= 128; value >>= 7) *out++ = (uint8_t)(value | 128);
    *out++ = (uint8_t)value;
    return out;
}

static uint64_t shared_bytes(const uint8_t *one, uint64_t one_bytes, const uint8_t *other, uint64_t other_bytes) {
    uint64_t most = one_bytes < other_bytes ? one_bytes : other_bytes, at = 0;
    for (; at + 8 <= most; at += 8) {
        uint64_t differs = load64(one + at) ^ load64(other + at);
        if (differs) return at + (uint64_t)__builtin_ctzll(differs) / 8;
    }
    while (at < most && one[at] == other[at]) at++;
    return at;
}

/* How much of a name stands in the one that it is coded after: the block's first for the first of a group. */
static uint64_t shared_before(const Names *names, uint64_t first, uint64_t index) {
    uint64_t before = (index - first) % NAME_GROUP == 0 ? first : index - 1;
    int64_t start = name_start(names, index), from = name_start(names, before);
    return shared_bytes(names->data + from, (uint64_t)(names->ends[before] - from), names->data + start,
                        (uint64_t)(names->ends[index] - start));
}

uint64_t name_block_count(const Names *names, uint64_t first) {
    uint64_t count = 0;
    int64_t start = name_start(names, first);
    while (first + count < names->count && count < NAME_BLOCK) {
        count++;
        if (names->ends[first + count - 1] - start >= NAME_BLOCK_BYTES) break;
    }
    return count;
}

uint64_t name_block_room(const Names *names, uint64_t first, uint64_t count) {
    uint64_t bytes = (uint64_t)(names->ends[first + count - 1] - name_start(names, first));
    return 64 + 8 * NAME_SYMBOLS + 3 * bytes + count * (2 * MAX_VARINT + 4) + NAME_SLACK;
}

/* How much each name shares with the one that it is coded after; how many bytes are left of all. */
static uint64_t find_shared(NameCoder *coder, const Names *names, uint64_t first, uint64_t count) {
    uint64_t left = 0;
    coder->shared[0] = (uint32_t)(names->ends[first] - name_start(names, first));
    for (uint64_t i = 1; i < count; i++) {
        coder->shared[i] = (uint32_t)shared_before(names, first, first + i);
        left += (uint64_t)(names->ends[first + i] - name_start(names, first + i)) - coder->shared[i];
    }
    return left;
}

/* Take at most `room` of the `total` bytes that are left of names, evenly over the block. */
static void take_sample(NameCoder *coder, const Names *names, uint64_t first, uint64_t count, uint64_t total,
                        uint64_t room, uint32_t *sample_count) {
    uint64_t used = 0, passed = 0;
    *sample_count = 0;
    for (uint64_t i = 1; i < count; i++) {
        uint64_t start = (uint64_t)name_start(names, first + i) + coder->shared[i];
        uint64_t bytes = (uint64_t)names->ends[first + i] - start;
        int ahead = total > room && used * total > passed * room;
        passed += bytes;
        uint64_t taken = bytes < room - used ? bytes : room - used;
        if (ahead || taken == 0) continue;
        memcpy(coder->sample + used, names->data + start, taken);
        used += taken;
        coder->sample_ends[(*sample_count)++] = (uint32_t)used;
    }
}

/* Write the code of a symbol that was found, and after it the byte that an escape stands for. */
ALWAYS_INLINE uint8_t *put_code(uint8_t *out, Found found, uint64_t word) {
    out[0] = (uint8_t)found;
    out[1] = (uint8_t)word; /* written over after any other code */
    return out + 1 + ((found & 255) == NAME_ESCAPE);
}

/* What is left of a name to be coded: the bytes [at, end), before which there are `before` more of it. */
typedef struct {
    const uint8_t *at, *end;
    uint64_t before;
} Rest;

static uint8_t *code_rest(const Symbols *symbols, Rest rest, uint8_t *out) {
    uint64_t left = (uint64_t)(rest.end - rest.at), word;
    const uint8_t *at = rest.at;
    while (left >= 8) {
        word = load64(at);
        Found found = found_at(symbols, word, 8);
        out = put_code(out, found, word);
        at += found >> 8;
        left -= found >> 8;
    }
    for (word = load_last(rest.end, rest.before + (uint64_t)(rest.end - rest.at), left); left > 0;) {
        Found found = found_at(symbols, word, left);
        out = put_code(out, found, word);
        word >>= 8 * (found >> 8);
        left -= found >> 8;
    }
    return out;
}

/* Each step of coding waits for the one before: two names together take little longer than one. */
static void code_both(const Symbols *symbols, Rest one, Rest other, uint8_t **one_out, uint8_t **other_out) {
    uint8_t *out = *one_out, *out2 = *other_out;
    while (one.end - one.at >= 8 && other.end - other.at >= 8) {
        uint64_t word = load64(one.at), word2 = load64(other.at);
        Found found = found_at(symbols, word, 8), found2 = found_at(symbols, word2, 8);
        out = put_code(out, found, word);
        out2 = put_code(out2, found2, word2);
        one.at += found >> 8, one.before += found >> 8;
        other.at += found2 >> 8, other.before += found2 >> 8;
    }
    *one_out = code_rest(symbols, one, out);
    *other_out = code_rest(symbols, other, out2);
}

ALWAYS_INLINE Rest rest_of(const Names *names, uint64_t index, uint64_t shared) {
    return (Rest){names->data + name_start(names, index) + shared, names->data + names->ends[index], shared};
}

/* A name of a block: how much it shares, how long its code is, the code. */
ALWAYS_INLINE uint8_t *put_name(uint8_t *out, uint64_t shared, const uint8_t *coded, uint64_t coded_bytes) {
    out = put_varint(out, shared);
    out = put_varint(out, coded_bytes);
    memcpy(out, coded, coded_bytes);
    return out + coded_bytes;
}

uint64_t name_block_write(NameCoder *coder, const Names *names, uint64_t first, uint64_t count, uint8_t *out) {
    Symbols *symbols = &coder->symbols;
    uint8_t *const start = out;
    uint32_t sample_count = 0, by_length[9] = {0};
    uint64_t first_bytes = (uint64_t)(names->ends[first] - name_start(names, first)),
             groups = (count - 1) / NAME_GROUP + 1;
    uint64_t left = find_shared(coder, names, first, count);
    int rounds = !coder->blocks ? ROUNDS : coder->blocks % KEPT_BLOCKS ? 0 : LATER_ROUNDS;
    if (rounds)
        take_sample(coder, names, first, count, left, coder->blocks ? LATER_SAMPLE_BYTES : SAMPLE_BYTES_MAX,
                    &sample_count);
    coder->blocks++;
    for (int round = 0; round < rounds; round++)
        symbols_improve(coder, sample_count, rounds == ROUNDS && round == ROUNDS - 1);

    *out++ = (uint8_t)count;
    *out++ = (uint8_t)(count >> 8);
    for (unsigned i = 0; i < 3; i++) *out++ = (uint8_t)(first_bytes >> 8 * i);
    memcpy(out, names->data + name_start(names, first), first_bytes);
    out += first_bytes;
    for (uint32_t i = 0; i < symbols->count; i++) by_length[symbols->lengths[i]]++;
    for (unsigned length = 1; length <= 8; length++) *out++ = (uint8_t)by_length[length];
    for (uint32_t i = 0; i < symbols->count; i++) {
        store64(out, symbols->words[i]);
        out += symbols->lengths[i];
    }
    uint8_t *const ends = out, *const body = out + 4 * groups;
    uint8_t coded[2][2 * SHORT_REST + 2];
    uint64_t coded_bytes[2] = {0}, waiting = 0; /* names that were coded with the one before */
    out = body;
    for (uint64_t i = 0; i < count; i++) {
        Rest rest = rest_of(names, first + i, coder->shared[i]);
        if (waiting) {
            waiting = 0;
            out = put_name(out, coder->shared[i], coded[1], coded_bytes[1]);
        } else if (rest.end - rest.at > SHORT_REST) { /* coded behind the room for its length, and moved there */
            out = put_varint(out, coder->shared[i]);
            uint8_t *at = out + MAX_VARINT;
            uint64_t long_bytes = (uint64_t)(code_rest(symbols, rest, at) - at);
            out = put_varint(out, long_bytes);
            memmove(out, at, long_bytes);
            out += long_bytes;
        } else {
            Rest none = {rest.end, rest.end, 0},
                 next = i + 1 < count ? rest_of(names, first + i + 1, coder->shared[i + 1]) : none;
            waiting = i + 1 < count && next.end - next.at <= SHORT_REST;
            if (!waiting) next = none;
            uint8_t *ends_at[2] = {coded[0], coded[1]};
            code_both(symbols, rest, next, &ends_at[0], &ends_at[1]);
            for (unsigned j = 0; j < 2; j++) coded_bytes[j] = (uint64_t)(ends_at[j] - coded[j]);
            out = put_name(out, coder->shared[i], coded[0], coded_bytes[0]);
        }
        if (i % NAME_GROUP == NAME_GROUP - 1 || i == count - 1) {
            uint32_t end = (uint32_t)(out - body);
            memcpy(ends + 4 * (i / NAME_GROUP), &end, 4);
        }
    }
    return (uint64_t)(out - start);
}

/* --- In memory --- */

/* A name that is to be sorted by what comes after the bytes that all those with it share: the next 8 of them, and how
   many there are, 9 for more than 8. */
typedef struct {
    uint64_t head;
    uint32_t index, rest;
} Keyed;

ALWAYS_INLINE int keyed_above(const Keyed *one, const Keyed *other) {
    return one->head > other->head || (one->head == other->head && one->rest > other->rest);
}

/* Names that were sorted once lie all over: so many ahead the processor is told where one ends, and where it lies. */
ALWAYS_INLINE void expect_name(const Names *names, const Keyed *keyed, uint64_t count, uint64_t i, uint64_t depth) {
    if (i + 2 * SORTED_AHEAD < count) __builtin_prefetch(names->ends + keyed[i + 2 * SORTED_AHEAD].index);
    if (i + SORTED_AHEAD < count)
        __builtin_prefetch(names->data + name_start(names, keyed[i + SORTED_AHEAD].index) + depth);
}

/* Read what these names are to be sorted by, which share `depth` bytes; with how many bytes all of them begin. */
static uint64_t read_keys(const Names *names, Keyed *keyed, uint64_t count, uint64_t depth) {
    const uint8_t *first = names->data + name_start(names, keyed[0].index);
    uint64_t shared = (uint64_t)(names->data + names->ends[keyed[0].index] - first);
    for (uint64_t i = 1; i < count && shared > depth; i++) {
        expect_name(names, keyed, count, i, depth);
        int64_t start = name_start(names, keyed[i].index);
        uint64_t bytes = (uint64_t)(names->ends[keyed[i].index] - start);
        uint64_t most = shared < bytes ? shared : bytes;
        shared = depth + shared_bytes(first + depth, most - depth, names->data + start + depth, most - depth);
    }
    for (uint64_t i = 0; i < count; i++) {
        expect_name(names, keyed, count, i, shared);
        int64_t start = name_start(names, keyed[i].index) + (int64_t)shared;
        uint64_t rest = (uint64_t)(names->ends[keyed[i].index] - start);
        keyed[i].head = __builtin_bswap64(load_some(names->data + start, rest));
        keyed[i].rest = rest > 8 ? 9 : (uint32_t)rest;
    }
    return shared;
}

/* As sort_keyed, of many: byte by byte from the last one on, without those bytes that all of them share. */
static void deal_keyed(Keyed *keyed, Keyed *room, uint64_t count) {
    uint64_t counts[9][256] = {{0}};
    for (uint64_t i = 0; i < count; i++) {
        counts[0][keyed[i].rest]++;
        for (unsigned byte = 0; byte < 8; byte++) counts[byte + 1][keyed[i].head >> 8 * byte & 255]++;
    }
    Keyed *from = keyed, *to = room;
    for (unsigned pass = 0; pass < 9; pass++) {
        uint64_t *places = counts[pass], next = 0;
        unsigned shift = pass ? 8 * (pass - 1) : 0;
        if (places[pass ? from[0].head >> shift & 255 : from[0].rest] == count) continue;
        for (unsigned digit = 0; digit < 256; digit++) {
            uint64_t here = places[digit];
            places[digit] = next;
            next += here;
        }
        for (uint64_t i = 0; i < count; i++) to[places[pass ? from[i].head >> shift & 255 : from[i].rest]++] = from[i];
        Keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != keyed) memcpy(keyed, from, count * sizeof(Keyed));
}

/* Stable, without a worst case that somebody could aim at: few by merges from the bottom up. */
static void sort_keyed(Keyed *keyed, Keyed *room, uint64_t count) {
    if (count >= DEALT) {
        deal_keyed(keyed, room, count);
        return;
    }
    Keyed *from = keyed, *to = room;
    for (uint64_t low = 0; low < count; low += SORTED_RUN)
        for (uint64_t i = low + 1; i < low + SORTED_RUN && i < count; i++) {
            Keyed moved = keyed[i];
            uint64_t at = i;
            for (; at > low && keyed_above(&keyed[at - 1], &moved); at--) keyed[at] = keyed[at - 1];
            keyed[at] = moved;
        }
    for (uint64_t width = SORTED_RUN; width < count; width *= 2) {
        for (uint64_t low = 0; low < count; low += 2 * width) {
            uint64_t middle = low + width < count ? low + width : count,
                     high = low + 2 * width < count ? low + 2 * width : count;
            uint64_t one = low, other = middle, at = low;
            if (middle == high || !keyed_above(&from[middle - 1], &from[middle])) {
                memcpy(to + low, from + low, (high - low) * sizeof(Keyed));
                continue;
            }
            while (one < middle && other < high)
                to[at++] = keyed_above(&from[one], &from[other]) ? from[other++] : from[one++];
            while (one < middle) to[at++] = from[one++];
            while (other < high) to[at++] = from[other++];
        }
        Keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != keyed) memcpy(keyed, from, count * sizeof(Keyed));
}

/* Sort names that share `depth` bytes: by the next 8, and then those that share these, too. It calls itself for all
   such groups but the largest, so no deeper than there are binary digits in count. */
static void sort_group(const Names *names, Keyed *keyed, Keyed *room, uint64_t count, uint64_t depth) {
    while (count > 1) {
        depth = read_keys(names, keyed, count, depth) + 8;
        sort_keyed(keyed, room, count);
        uint64_t largest = 0, largest_count = 1;
        for (uint64_t low = 0, high; low < count; low = high) {
            for (high = low + 1; high < count && !keyed_above(&keyed[high], &keyed[low]);) high++;
            /* Equal names stay as they are. */
            if (keyed[low].rest <= 8 || high - low <= 1) continue;
            uint64_t group = low, group_count = high - low;
            if (group_count > largest_count) {
                group = largest, group_count = largest_count;
                largest = low, largest_count = high - low;
            }
            if (group_count > 1) sort_group(names, keyed + group, room, group_count, depth);
        }
        if (largest_count == 1) return;
        keyed += largest;
        count = largest_count;
    }
}

Status names_sort(const Names *names, uint32_t *order, uint64_t count) {
    Keyed *keyed = malloc((2 * count + 1) * sizeof(Keyed));
    if (keyed == NULL) return NO_MEMORY;
    for (uint64_t i = 0; i < count; i++) keyed[i].index = order[i];
    sort_group(names, keyed, keyed + count, count, 0);
    for (uint64_t i = 0; i < count; i++) order[i] = keyed[i].index;
    free(keyed);
    return OK;
}

ALWAYS_INLINE int compare_at(const Names *one, uint64_t i, const Names *other, uint64_t j) {
    int64_t start = name_start(one, i), from = name_start(other, j);
    return name_compare(one->data + start, (uint64_t)(one->ends[i] - start), other->data + from,
                        (uint64_t)(other->ends[j] - from));
}

void names_part(const Names *names, const Names *bounds, uint8_t *parts) {
    for (uint64_t i = 0; i < names->count; i++) {
        uint64_t low = 0, high = bounds->count; /* so many bounds are not above the name */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (compare_at(bounds, middle, names, i) <= 0)
                low = middle + 1;
            else
                high = middle;
        }
        parts[i] = (uint8_t)low;
    }
}

Status names_gather(const Names *names, const uint32_t *order, uint64_t first, uint64_t count, Bytes *data,
                    int64_t *ends, uint64_t *gathered) {
    data->used = *gathered = 0;
    for (uint64_t i = first; i < count && *gathered < NAME_BLOCK && data->used < NAME_BLOCK_BYTES; i++) {
        if (i + 2 * SORTED_AHEAD < count) __builtin_prefetch(names->ends + order[i + 2 * SORTED_AHEAD]);
        if (i + SORTED_AHEAD < count) {
            const uint8_t *ahead = names->data + name_start(names, order[i + SORTED_AHEAD]);
            __builtin_prefetch(ahead);
            __builtin_prefetch(ahead + 64);
        }
        int64_t start = name_start(names, order[i]);
        uint64_t bytes = (uint64_t)(names->ends[order[i]] - start);
        if (i > 0 && compare_at(names, order[i - 1], names, order[i]) >= 0) return BAD_BLOCK;
        Status status = bytes_reserve(data, bytes);
        if (status != OK) return status;
        if (bytes) memcpy(data->data + data->used, names->data + start, bytes);
        data->used += bytes;
        ends[(*gathered)++] = (int64_t)data->used;
    }
    return OK;
}

ALWAYS_INLINE int source_before(const NameSource *sources, uint64_t one, uint64_t other) {
    int order = compare_at(&sources[one].names, sources[one].at, &sources[other].names, sources[other].at);
    return order ? order < 0 : one < other;
}

static void sources_sift(const NameSource *sources, uint64_t *heap, uint64_t count, uint64_t at) {
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && source_before(sources, heap[child + 1], heap[child])) child++;
        if (!source_before(sources, heap[child], heap[at])) return;
        uint64_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

Status names_merge(NameSource *sources, uint64_t count, int once, NameLast last, Bytes *out, int64_t *ends,
                   uint64_t *values, uint64_t *merged) {
    uint64_t *heap = malloc((count + 1) * sizeof(uint64_t)), left = 0, filled = 0;
    Status status = heap == NULL ? NO_MEMORY : OK;
    if (status == OK) {
        for (uint64_t i = 0; i < count; i++)
            if (sources[i].at < sources[i].names.count) heap[left++] = i;
        for (uint64_t i = left / 2 + 1; i-- > 0;) sources_sift(sources, heap, left, i);
    }
    while (left > 0) {
        NameSource *source = &sources[heap[0]];
        int64_t start = name_start(&source->names, source->at);
        const uint8_t *name = source->names.data + start;
        uint64_t bytes = (uint64_t)(source->names.ends[source->at] - start), value = source->values[source->at];
        if (once && last.bytes != NULL && bytes == last.count && (bytes == 0 || memcmp(name, last.bytes, bytes) == 0)) {
            if (value != last.value) status = BAD_BLOCK;
        } else {
            status = bytes_reserve(out, bytes);
            if (status == OK) {
                if (bytes) memcpy(out->data + out->used, name, bytes);
                out->used += bytes;
                ends[filled] = (int64_t)out->used;
                values[filled++] = value;
                last = (NameLast){name, bytes, value};
            }
        }
        if (status != OK || (++source->at == source->names.count && !source->ended)) break;
        if (source->at == source->names.count) heap[0] = heap[--left];
        sources_sift(sources, heap, left, 0);
    }
    free(heap);
    *merged = filled;
    return status;
}
