/* One known answer for every kind of kernel, from tables of a few keys that need no file.

   The answers are those of the portable kernels, which the tests hold against plain twins. */
#include "known_answer.h"

#include "crc32c.h"
#include "decode.h"
#include "encode.h"
#include "merge.h"
#include "pairs.h"
#include "pending.h"
#include "scan.h"
#include "search.h"
#include "sort.h"
#include "text_digest.h"
#include "text_hash.h"
#include "text_signature.h"
#include "turns.h"

enum {
    KEYS = 640,
    FIRST_CLOSE = 300, /* these lie in one slot, and are more than a block of it */
    END_CLOSE = 460,
    QUERIES = 4,
    IMAGE_PAGES = 4,
    IMAGE_BYTES = IMAGE_PAGES * PAGE_BYTES,
    DIRECTORY_AT = 2 * PAGE_BYTES,
    FENCES_AT = 3 * PAGE_BYTES
};

/* All memory that the answers need: zeros at first, and most of it never touched. */
typedef struct {
    uint64_t keys[KEYS], fingerprints[KEYS], queries[QUERIES], out[CHUNK_ROOM];
    uint32_t folds[KEYS + MAX_LANES + NEIGHBOUR_STEP];
    uint8_t payload[KEYS * MAX_CODE_BYTES_PER_KEY + 2 * PAYLOAD_SLACK], image[IMAGE_BYTES];
    uint64_t seen, scratch[KEYS];
    Encoder encoder;
    Table table;
    Pages pages;
    Chunk chunk;
    SortRoom sort_room;
    Search search;
    PendingSearch pending_search;
    uint64_t first[KEYS], second[KEYS];
    Signature signature;
    uint8_t bits[KEYS];
} Room;

static uint64_t mixed(uint64_t digest, uint64_t value) {
    return (digest ^ value) * 0x9E3779B97F4A7C15u + (digest >> 29);
}

static uint64_t digest_of(const uint64_t *words, uint64_t count) {
    uint64_t digest = count;
    for (uint64_t i = 0; i < count; i++) digest = mixed(digest, words[i]);
    return digest;
}

static void fill_room(Room *room) {
    uint64_t word = 1, before = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        word = mixed(word, i);
        const uint64_t even = ~(uint64_t)0 / KEYS * i + (word >> 10); /* by less than a step */
        const int close = (i > FIRST_CLOSE && i < END_CLOSE) || i % 8 == 7;
        room->keys[i] = before = close ? before + 1 + (word >> 60) : even;
    }
    for (uint64_t i = 0; i < IMAGE_BYTES; i++) room->image[i] = (uint8_t)(i * 167 >> 3);
    permutation_init(&room->table.permutation, 0xFF00FF000000F000u, 64);
    unpermute_keys(&room->table.permutation, room->keys, KEYS, room->fingerprints);
    for (uint64_t i = 0; i < QUERIES; i++) room->queries[i] = room->fingerprints[150 * i] ^ (uint64_t)1 << 5 * i;
    room->table.key_bits = 64;
    room->table.slot_bits = 6;
    table_set_shifts(&room->table);
    room->table.flips = 1;
    room->table.directory_offset = DIRECTORY_AT;
    room->table.fences_offset = FENCES_AT;
    room->pages = (Pages){.base = room->image, .checked_bytes = IMAGE_BYTES, .seen = &room->seen, .pages = IMAGE_PAGES};
    room->seen = ~(uint64_t)0;
}

static uint64_t crc_answer(Room *room) {
    uint32_t sums[IMAGE_PAGES];
    crc32c_pages(room->image, IMAGE_BYTES - 5, PAGE_BYTES, sums);
    uint64_t digest = crc32c(0, room->image, 123);
    for (unsigned i = 0; i < IMAGE_PAGES; i++) digest = mixed(digest, sums[i]);
    return digest;
}

static uint64_t hash_answer(Room *room) {
    static const size_t sizes[] = {0, 3, 7, 12, 30, 100, 200, 700, 3000};
    uint64_t digest = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t hashes[] = {xxh3(room->image, sizes[i]),
                                   xxh3_seeded(room->image, sizes[i], 0x0123456789ABCDEFu),
                                   xxh64_seeded(room->image, sizes[i], 42),
                                   murmur3(room->image, sizes[i], 42),
                                   fnv1(room->image, sizes[i]),
                                   fnv1a(room->image, sizes[i]),
                                   fxhash(room->image, sizes[i]),
                                   md5_tail(room->image, sizes[i]),
                                   md5_head(room->image, sizes[i]),
                                   sha256_tail(room->image, sizes[i]),
                                   blake2b_8(room->image, sizes[i]),
                                   sha1_head(room->image, sizes[i])};
        for (unsigned j = 0; j < sizeof hashes / sizeof *hashes; j++) digest = mixed(digest, hashes[j]);
    }
    return digest;
}

static uint64_t permute_answer(Room *room) {
    permute_keys(&room->table.permutation, room->fingerprints, KEYS, room->out);
    return mixed(digest_of(room->fingerprints, KEYS), digest_of(room->out, KEYS));
}

static uint64_t sort_answer(Room *room) {
    for (uint64_t i = 0; i < KEYS; i++) room->out[i] = room->fingerprints[i * 37 % KEYS];
    room->sort_room.keys = room->scratch;
    room->sort_room.room_keys = KEYS / 8; /* so that parts are split */
    return sort_permuted(&room->table.permutation, room->out, KEYS, room->out + KEYS, &room->sort_room) +
           digest_of(room->out + KEYS, KEYS);
}

/* Of two runs, which have every tenth key both. */
static uint64_t merge_answer(Room *room) {
    Items runs[2] = {{room->first, NULL, 0}, {room->second, NULL, 0}};
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t key = i * i * 0x9E3779B9u;
        if (i % 3 != 0 || i % 10 == 0) room->first[runs[0].count++] = key;
        if (i % 3 == 0 || i % 10 == 0) room->second[runs[1].count++] = key;
    }
    return digest_of(room->out, merge_keys(&runs[0], &runs[1], room->out));
}

/* Code words of 4, 6 and 7 bits: short ones for the most frequent deltas. */
static void fill_code(uint8_t *lengths, uint16_t *words) {
    uint16_t next = 0;
    unsigned before = 0;
    for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) lengths[symbol] = symbol < 7 ? 6 : symbol - 50 < 8 ? 4 : 7;
    for (unsigned length = 4; length <= 7; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            if (lengths[symbol] != length) continue;
            next = (uint16_t)(next << (before ? length - before : 0));
            before = length;
            words[symbol] = next++;
        }
}

/* Encode the keys by a codec and decode them again; what the image holds then is for searches. 0, which no answer is,
   where that fails. */
static uint64_t codec_answer(Room *room, int codec) {
    uint8_t lengths[SYMBOLS];
    uint16_t words[SYMBOLS];
    uint64_t written, more, count = 0;
    Encoder *encoder = &room->encoder;
    Table *table = &room->table;
    fill_code(lengths, words);
    memset(room->image, 0, IMAGE_BYTES);
    table->codec = codec;
    const unsigned rice_bits = codec == CODEC_RICE ? 50 : 0;
    table->fixed_bits = codec == CODEC_RAW ? table->key_bits : rice_bits;
    encoder_init(encoder, codec, table->key_bits, table->slot_bits, rice_bits, table->block_bytes, lengths, words,
                 room->image + DIRECTORY_AT, NULL);
    Status status = encoder_push(encoder, room->keys, KEYS, room->payload, &written);
    if (status == OK) status = encoder_finish(encoder, room->payload + written, &more);
    const uint64_t fences = encoder->fence_count;
    if (status == OK && written + more <= DIRECTORY_AT && fences * FENCE_BYTES <= PAGE_BYTES) {
        memcpy(room->image, room->payload, written + more);
        if (fences > 0) memcpy(room->image + FENCES_AT, encoder->fences, fences * FENCE_BYTES);
        table->payload_bits = encoder->payload_bits;
        table->fence_count = fences;
        table->fences = FENCES_UNKNOWN;
        decode_init(table->decode, lengths);
        chunk_code_init(&room->chunk.code, table->decode);
        tables_share_codes(&table, 1);
        Cursor cursor = {.end_slot = (uint64_t)1 << table->slot_bits, .chunk = &room->chunk};
        for (uint64_t got = 1; got > 0; count += got) {
            status = cursor_decode(&room->pages, table, &cursor, room->out, CHUNK_ROOM, &got);
            if (status != OK || count + got > KEYS) break;
            memcpy(room->scratch + count, room->out, got * sizeof *room->out);
        }
    }
    encoder_free(encoder);
    if (status != OK || count != KEYS) return 0;
    return mixed(crc32c(0, room->image, IMAGE_BYTES), digest_of(room->scratch, KEYS));
}

static uint64_t decode_answer(Room *room) {
    static const int codecs[] = {CODEC_RAW, CODEC_RICE, CODEC_XOR, CODEC_GAP};
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const uint64_t answer = codec_answer(room, codecs[i]);
        if (answer == 0) return 0;
        digest = mixed(digest, answer);
    }
    return digest;
}

static uint64_t search_answer(Room *room) {
    Table *tables[] = {&room->table};
    Search *search = &room->search;
    search_init(search, &room->pages, tables, 1, 3, QUERIES);
    Status status = search_run(search, room->queries, QUERIES, 0);
    uint64_t digest = mixed((uint64_t)status, scan_keys(room->keys, KEYS, room->keys[77], 25));
    if (search->match_count > 1) qsort(search->matches, search->match_count, sizeof(Match), match_order);
    for (uint64_t i = 0; i < search->match_count; i++) {
        const Match *match = &search->matches[i];
        digest = mixed(mixed(digest, match->fingerprint), match->query * 64 + match->distance);
    }
    free(search->matches);
    return digest;
}

static uint64_t scan_answer(Room *room) {
    Table *tables[] = {&room->table};
    Search *search = &room->search;
    uint64_t queries[QUERIES], limits[QUERIES];
    search_init(search, &room->pages, tables, 1, 20, QUERIES);
    permute_keys(&room->table.permutation, room->queries, QUERIES, queries);
    for (uint64_t i = 0; i < QUERIES; i++) limits[i] = search->distance;
    Scan scan = {search, queries, limits, QUERIES, 0};
    Status status = scan_slots(&scan, 0, (uint64_t)1 << room->table.slot_bits, &room->chunk, room->out);
    scan_end(search);
    uint64_t digest = status == OK ? mixed(1, scan.key_count) : 0;
    for (uint64_t i = 0; i < search->match_count; i++) {
        const Match *match = &search->matches[i];
        digest = mixed(mixed(digest, match->fingerprint), match->query * 64 + match->distance);
    }
    free(search->matches);
    return digest;
}

static uint64_t join_answer(Room *room) {
    Table *tables[] = {&room->table};
    NeighbourJoin join = {.found = {.tables = tables,
                                    .distance = 3,
                                    .first = room->first,
                                    .second = room->second,
                                    .bits = room->bits,
                                    .room = KEYS},
                          .keys = room->keys,
                          .folds = room->folds,
                          .count = KEYS,
                          .window_shift = 44,
                          .step = 1};
    uint64_t digest = 0;
    fold_keys(room->keys, KEYS, room->folds);
    while (!join.found.done) {
        join.found.found = join.found.work = 0;
        neighbour_join_run(&join);
        for (uint64_t i = 0; i < join.found.found; i++) /* whatever order they come in */
            digest += mixed(mixed(room->first[i], room->second[i]), room->bits[i]);
    }
    return digest;
}

static uint64_t pending_answer(Room *room) {
    Pending pending = {0};
    PendingSearch *search = &room->pending_search;
    const uint64_t mask = room->table.permutation.prefix_mask;
    const unsigned flips = 1;
    uint64_t digest = 0;
    Status status = pending_init(&pending, &mask, &flips, 1, 64, 64, 0, KEYS, 12345);
    if (status == OK) {
        pending_append(&pending, room->fingerprints, NULL, KEYS, 1, 0);
        pending_index(&pending, UINT32_MAX);
        digest = pending_indexed(&pending);
        *search = (PendingSearch){.pending = &pending, .distance = 3, .end = KEYS};
        status = pending_search(search, room->queries, QUERIES);
        for (uint64_t i = 0; i < search->match_count; i++)
            digest = mixed(digest, search->matches[i].match.fingerprint + search->matches[i].match.query);
        free(search->matches);
    }
    pending_free(&pending);
    return mixed(digest, (uint64_t)status);
}

/* Every kind, of sets that leave most bins empty, all, some and none. */
static uint64_t signature_answer(Room *room) {
    enum { VALUES = 100 };
    static const uint64_t ends[] = {5, 5, 205, 640};
    uint64_t factors[2 * LANES_ROOM], terms[2 * LANES_ROOM], values[VALUES * 4], digest = 0;
    uint32_t narrow_factors[2 * LANES_ROOM], narrow_terms[2 * LANES_ROOM];
    for (unsigned i = 0; i < 2 * LANES_ROOM; i++) {
        factors[i] = (room->fingerprints[i] >> 3) | 1;
        terms[i] = room->fingerprints[i + 100] >> 3;
        narrow_factors[i] = (uint32_t)factors[i];
        narrow_terms[i] = (uint32_t)terms[i];
    }
    for (int kind = BINNED; kind <= LEGACY; kind++) {
        const Signer signer = {kind, VALUES, narrow_factors, narrow_terms, factors, terms};
        signatures_of(&room->signature, &signer, room->fingerprints, ends, sizeof ends / sizeof *ends, values);
        digest = mixed(digest, digest_of(values, sizeof ends / sizeof *ends * VALUES * value_bytes(&signer) / 8));
    }
    return digest;
}

static uint64_t turns_keys_answer(Room *room) {
    uint32_t found[KEYS], halves[KEYS], earlier[KEYS];
    uint64_t digest = 0, keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) { /* each near some before it, by its halves found as by itself */
        keys[i] = room->fingerprints[i / 16] ^ (room->fingerprints[i] & UINT64_C(0x0101010101010101));
        halves[i] = (uint32_t)keys[i];
        const uint64_t count = keys_near(keys, i, 1, keys + i, 5, found);
        if (keys_near_earlier(keys, halves, i, 5, earlier) != count) return 0;
        if (memcmp(earlier, found, count * sizeof *found) != 0) return 0;
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t count = keys_near(room->fingerprints, i, 1, room->fingerprints + i, 28, found);
        for (uint64_t j = 0; j < count; j++) digest = mixed(digest, i << 32 | found[j]);
    }
    for (uint64_t i = 0; i < KEYS / 4; i++) {
        const uint64_t count = keys_near(room->fingerprints, i, 4, room->fingerprints + 4 * i, 124, found);
        for (uint64_t j = 0; j < count; j++) digest = mixed(digest, i << 32 | found[j]);
    }
    return digest;
}

/* Of tables of blocks: every codec, and a search and a scan of what it made. */
static uint64_t blocks_answer(Room *room) {
    uint64_t digest = 0;
    room->table.block_bytes = 2 * MIN_BLOCK_BYTES;
    table_set_shifts(&room->table);
    for (int codec = CODEC_GAP; codec <= CODEC_RAW; codec++) {
        const uint64_t answer = codec_answer(room, codec);
        if (answer == 0) return 0;
        digest = mixed(mixed(mixed(digest, answer), search_answer(room)), scan_answer(room));
    }
    return digest;
}

/* In an order: a search needs the table that was encoded last. */
static const struct {
    const char *part;
    uint64_t (*answer)(Room *);
    uint64_t known;
} parts[] = {
    {"checksum", crc_answer, 0x7FD4DAAA79D6620Au},        {"hash", hash_answer, 0x93D9A92FC951DA69u},
    {"permutation", permute_answer, 0x0BDF5855A680CB46u}, {"sort", sort_answer, 0x1B4DAC52AD49CF42u},
    {"merge", merge_answer, 0xC4309D9D8AD48F10u},         {"codec", decode_answer, 0x351B4D429B640B93u},
    {"search", search_answer, 0x0350987FEA9BF750u},       {"scan", scan_answer, 0xFC79FFEBB44162DCu},
    {"join", join_answer, 0x183879B65B28DD6Cu},           {"pending", pending_answer, 0x856CC412BC5E9029u},
    {"signature", signature_answer, 0xF0FBAC0968E7CC78u}, {"turns", turns_keys_answer, 0xC3EE4C4D7F5328DAu},
    {"blocks", blocks_answer, 0x2CBAFC4A78373DDAu},
};

const char *known_answer_wrong(void) {
    const char *forced = getenv("FPSTORE_WRONG_ANSWER"), *wrong = NULL;
    Room *room = calloc(1, sizeof *room);
    if (room == NULL) return "memory";
    fill_room(room);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && wrong == NULL; i++) {
        const uint64_t asked = forced != NULL && strcmp(forced, parts[i].part) == 0;
        if (parts[i].answer(room) + asked != parts[i].known) wrong = parts[i].part;
    }
    free(room);
    return wrong;
}
