/* From tokens to a fingerprint: shingles, their hashes, their weights, and the sign of the sums.

   All sums are of integers, so no order of adding changes them: weights are in units of 2^-16. */
#ifndef FPSTORE_TEXT_SIMHASH_H
#define FPSTORE_TEXT_SIMHASH_H

#include <math.h>

#include "text_digest.h"
#include "text_hash.h"
#include "text_given.h"
#include "text_tokens.h"

#define WEIGHT_ONE 65536
#define FEW_SLOTS 256
#define MANY_SLOTS 65536
#define CAP 4
#define SHINGLES_AT_ONCE 1020 /* four times what a byte can count */

typedef enum { FREQUENCY, PRESENCE, CAPPED, LOGARITHM, IDF } WeightKind;
typedef enum { XXH3, XXH64, MD5, SHA256 } HashKind;

/* Of a shingle: its hash and how often it occurs, or in an idf model its weight. A free one has the value 0. */
typedef struct {
    uint64_t hash;
    uint64_t value;
} Slot;

typedef struct {
    Slot *slots;
    size_t room;  /* slots there are */
    size_t size;  /* slots in use for this document, a power of two */
    size_t count; /* of them taken */
} SlotTable;

typedef struct {
    TokenSteps tokens;
    unsigned shingle;
    HashKind hash;
    WeightKind weights;
    const SlotTable *idf; /* values one more than the weight */
    uint64_t idf_unseen;
} Steps;

typedef struct {
    int64_t ones[64]; /* the weight of the shingles whose hash has the bit */
    int64_t total;
} Sums;

typedef struct {
    Utf8 utf8;
    Tokens tokens;
    uint64_t hashes[SHINGLES_AT_ONCE];
    SlotTable shingles;
    Sums sums;
    uint64_t token_count;
} Document;

/* Odd, and not known outside the process: whoever writes a document cannot aim its shingles at one slot. */
static uint64_t slot_secret = P64_1;

ALWAYS_INLINE Slot *slot_of(const SlotTable *table, uint64_t hash) {
    const size_t mask = table->size - 1;
    size_t at = (size_t)((hash * slot_secret) >> 32) & mask;
    while (table->slots[at].value != 0 && table->slots[at].hash != hash) at = (at + 1) & mask;
    return table->slots + at;
}

/* Make the table empty, with so many slots, a power of two. */
static Status slots_clear(SlotTable *table, size_t size) {
    if (size > table->room) {
        free(table->slots);
        table->room = 0;
        table->slots = malloc(size * sizeof *table->slots);
        if (table->slots == NULL) return NO_MEMORY;
        table->room = size;
    }
    memset(table->slots, 0, size * sizeof *table->slots);
    table->size = size;
    table->count = 0;
    return OK;
}

/* Slots to begin a document with: about what its words need. */
static size_t slots_for(size_t bytes) {
    size_t size = FEW_SLOTS;
    while (size < MANY_SLOTS && 2 * size < bytes) size *= 2;
    return size;
}

static Status slots_grow(SlotTable *table) {
    SlotTable larger = {0};
    if (slots_clear(&larger, 4 * table->size) != OK) return NO_MEMORY;
    for (size_t i = 0; i < table->size; i++)
        if (table->slots[i].value != 0) *slot_of(&larger, table->slots[i].hash) = table->slots[i];
    larger.count = table->count;
    free(table->slots);
    *table = larger;
    return OK;
}

static Status count_shingles(SlotTable *table, const uint64_t *hashes, size_t count) {
    while (2 * (table->count + count) > table->size)
        if (slots_grow(table) != OK) return NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        Slot *slot = slot_of(table, hashes[i]);
        table->count += slot->value == 0;
        slot->hash = hashes[i];
        slot->value++;
    }
    return OK;
}

#define FEW_LOGARITHMS 256
static int64_t logarithms[FEW_LOGARITHMS];

static int64_t logarithm(uint64_t count) { return (int64_t)floor(WEIGHT_ONE * (1 + log((double)count)) + 0.5); }

/* The weight of a shingle that occurs so often, in units of 2^-16. */
static int64_t weight_of(const Steps *steps, uint64_t hash, uint64_t count) {
    switch (steps->weights) {
    case PRESENCE: return WEIGHT_ONE;
    case CAPPED: return WEIGHT_ONE * (int64_t)(count < CAP ? count : CAP);
    case LOGARITHM: return count < FEW_LOGARITHMS ? logarithms[count] : logarithm(count);
    case IDF: {
        const uint64_t found = slot_of(steps->idf, hash)->value;
        return (int64_t)(count * (found ? found - 1 : steps->idf_unseen));
    }
    default: return WEIGHT_ONE * (int64_t)count;
    }
}

ALWAYS_INLINE void add_weighted(Sums *sums, uint64_t hash, int64_t weight) {
    for (int bit = 0; bit < 64; bit++) sums->ones[bit] += weight & -(int64_t)(hash >> bit & 1);
    sums->total += weight;
}

/* A bit is set where what has it weighs more than what has not; a tie leaves it clear. */
static uint64_t signs(const Sums *sums) {
    uint64_t fingerprint = 0;
    for (int bit = 0; bit < 64; bit++) fingerprint |= (uint64_t)(sums->ones[bit] > sums->total - sums->ones[bit]) << bit;
    return fingerprint;
}

static uint64_t hash_slice(const Steps *steps, const uint8_t *at, size_t size) {
    switch (steps->hash) {
    case XXH3: return xxh3(at, size);
    case XXH64: return xxh64(at, size);
    case MD5: return md5_tail(at, size);
    default: return sha256_tail(at, size);
    }
}

#define KERNEL(name) name##_portable
#include "text_simhash_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#include "text_simhash_body.h"
#undef KERNEL
FAST_END
WIDE_BEGIN
#define KERNEL(name) name##_wide
#define KERNEL_IS_WIDE
#include "text_simhash_body.h"
#undef KERNEL_IS_WIDE
#undef KERNEL
WIDE_END
#endif

typedef Status (*ReadDocument)(Document *, const Steps *, int, const uint8_t *, size_t);
typedef void (*AddShingles)(Document *, const Steps *);
typedef Status (*PutPiece)(Tokens *, const TokenSteps *, const uint8_t **, const uint8_t *, const uint8_t *);

/* Read a document into its sums, or, if counted, into its shingles. */
static ReadDocument document_read = document_read_portable;
static PutPiece put_piece = put_piece_portable;
static AddShingles add_shingles = add_shingles_portable;

static void text_choose(int fast, int wide) {
    for (int count = 1; count < FEW_LOGARITHMS; count++) logarithms[count] = logarithm(count);
#if FPSTORE_X86
    document_read = wide ? document_read_wide : fast ? document_read_fast : document_read_portable;
    put_piece = wide ? put_piece_wide : fast ? put_piece_fast : put_piece_portable;
    add_shingles = wide ? add_shingles_wide : fast ? add_shingles_fast : add_shingles_portable;
#else
    (void)fast, (void)wide;
#endif
}

static void document_free(Document *document) {
    free(document->utf8.bytes);
    tokens_free(&document->tokens);
    free(document->shingles.slots);
}

/* Read a text into its shingles. */
static Status document_count(Document *document, const Steps *steps, const Given *given) {
    const uint8_t *text;
    size_t size;
    if (given_utf8(given, &document->utf8, &text, &size) != OK) return NO_MEMORY;
    return document_read(document, steps, 1, text, size);
}

/* The fingerprints of count texts; stops at the first that fails and leaves its number in *at. */
static Status documents_measure(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                                uint64_t *fingerprints, uint32_t *token_counts) {
    const int counted = steps->weights != FREQUENCY;
    for (*at = 0; *at < count; ++*at) {
        const uint8_t *text;
        size_t size;
        if (given_utf8(texts + *at, &document->utf8, &text, &size) != OK) return NO_MEMORY;
        if (document_read(document, steps, counted, text, size) != OK) return NO_MEMORY;
        if (counted) add_shingles(document, steps);
        fingerprints[*at] = signs(&document->sums);
        token_counts[*at] = document->token_count < UINT32_MAX ? (uint32_t)document->token_count : UINT32_MAX;
    }
    return OK;
}

/* The tokens of a whole document, all in document->tokens. */
static Status document_tokens(Document *document, const TokenSteps *steps, const Given *given) {
    const uint8_t *text, *end;
    size_t size;
    if (given_utf8(given, &document->utf8, &text, &size) != OK) return NO_MEMORY;
    end = text + size;
    tokens_begin(&document->tokens);
    while (text < end) {
        const uint8_t *stop = end - text > PIECE_BYTES ? text + PIECE_BYTES : end;
        if (put_piece(&document->tokens, steps, &text, stop, end) != OK) return NO_MEMORY;
    }
    if (size > 0 && steps->kind != CHARACTERS) end_token(&document->tokens);
    return OK;
}

#endif
