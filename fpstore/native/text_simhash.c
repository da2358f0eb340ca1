/* What a document's shingles weigh, its fingerprint, and the choice of how texts are read. */
#include "text_simhash.h"

#include <math.h>

uint64_t cell_secret = P64_1;

#define FEW_LOGARITHMS 256
static int64_t logarithms[FEW_LOGARITHMS];

static int64_t logarithm(uint64_t count) { return (int64_t)floor(WEIGHT_ONE * (1 + log((double)count)) + 0.5); }

typedef struct {
    Status (*read)(Document *, const Steps *, int, const uint8_t *,
                   size_t); /* into its sums or minima, or if counted its shingles */
    void (*add_shingles)(Document *, const Steps *);
    Status (*put_piece)(Tokens *, const TokenSteps *, const uint8_t **, const uint8_t *, const uint8_t *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { document_read_##set, add_shingles_##set, put_piece_##set }

static Kernels kernels = {document_read_portable, add_shingles_portable, put_piece_portable};

void text_choose(InstructionSet set) {
    for (int count = 1; count < FEW_LOGARITHMS; count++) logarithms[count] = logarithm(count);
    kernels = KERNELS_OF(portable);
#if FPSTORE_X86
    if (set == SET_FAST) kernels = KERNELS_OF(fast);
    if (set == SET_WIDE) kernels = KERNELS_OF(wide);
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(text_choose)

Status cells_clear(CellTable *table, size_t size) {
    if (size > table->room) {
        free(table->cells);
        table->room = 0;
        table->cells = malloc(size * sizeof *table->cells);
        if (table->cells == NULL) return NO_MEMORY;
        table->room = size;
    }
    memset(table->cells, 0, size * sizeof *table->cells);
    table->size = size;
    table->count = 0;
    return OK;
}

static Status cells_grow(CellTable *table) {
    CellTable larger = {0};
    if (cells_clear(&larger, 4 * table->size) != OK) return NO_MEMORY;
    for (size_t i = 0; i < table->size; i++)
        if (table->cells[i].value != 0) *shingle_cell(&larger, table->cells[i].hash) = table->cells[i];
    larger.count = table->count;
    free(table->cells);
    *table = larger;
    return OK;
}

Status count_shingles(CellTable *table, const uint64_t *hashes, size_t count) {
    while (2 * (table->count + count) > table->size)
        if (cells_grow(table) != OK) return NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        Cell *cell = shingle_cell(table, hashes[i]);
        table->count += cell->value == 0;
        cell->hash = hashes[i];
        cell->value++;
    }
    return OK;
}

int64_t weight_of(const Steps *steps, uint64_t hash, uint64_t count) {
    switch (steps->weights) {
    case PRESENCE: return WEIGHT_ONE;
    case CAPPED: return WEIGHT_ONE * (int64_t)(count < CAP ? count : CAP);
    case LOGARITHM: return count < FEW_LOGARITHMS ? logarithms[count] : logarithm(count);
    case IDF: {
        const uint64_t found = shingle_cell(steps->idf, hash)->value;
        return (int64_t)(count * (found ? found - 1 : steps->idf_unseen));
    }
    default: return WEIGHT_ONE * (int64_t)count;
    }
}

uint64_t signs(const Sums *sums, int tie) {
    uint64_t fingerprint = 0;
    for (int bit = 0; bit < 64; bit++)
        fingerprint |= (uint64_t)(sums->ones[bit] + tie > sums->total - sums->ones[bit]) << bit;
    return fingerprint;
}

uint64_t hash_slice(const Steps *steps, const uint8_t *at, size_t size) {
    /* Not by the table of jumps: that took some 1 % of all the time of 4-word shingles (EPYC). */
    if (steps->hash == XXH64) return xxh64(at, size);
    switch (steps->hash) {
    case XXH3: return xxh3(at, size);
    case XXH3_SEEDED: return xxh3_seeded(at, size, steps->seed);
    case XXH64_SEEDED: return xxh64_seeded(at, size, steps->seed);
    case MURMUR3: return murmur3(at, size, (uint32_t)steps->seed);
    case MD5: return md5_tail(at, size);
    case MD5_HEAD: return md5_head(at, size);
    case SHA256: return sha256_tail(at, size);
    case BLAKE2B: return blake2b_8(at, size);
    case FNV1: return fnv1(at, size);
    default: return fnv1a(at, size);
    }
}

void document_free(Document *document) {
    free(document->utf8.bytes);
    tokens_free(&document->tokens);
    free(document->shingles.cells);
}

Status document_count(Document *document, const Steps *steps, const Given *given) {
    const uint8_t *text;
    size_t size;
    if (given_utf8(given, &document->utf8, &text, &size) != OK) return NO_MEMORY;
    return kernels.read(document, steps, 1, text, size);
}

int is_outweighed(const Sums *sums) {
    double sum = 0, squares = 0;
    for (int bit = 0; bit < 64; bit++) {
        const double margin = fabs(2.0 * (double)sums->ones[bit] - (double)sums->total);
        sum += margin;
        squares += margin * margin;
    }
    return 10 * sum * sum > 9 * 64 * squares;
}

static uint32_t narrowed(uint64_t count) { return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX; }

static double unseen_share(const Document *document) {
    const uint64_t signs = document->tokens.signs;
    return signs == 0 ? 0 : (double)signs / (double)(signs + document->written);
}

Status documents_measure(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                         const Measures *found) {
    const int counted = steps->sketch == SIMHASH && steps->weights != FREQUENCY;
    for (*at = 0; *at < count; ++*at) {
        const uint8_t *text;
        size_t size;
        if (given_utf8(texts + *at, &document->utf8, &text, &size) != OK) return NO_MEMORY;
        if (kernels.read(document, steps, counted, text, size) != OK) return NO_MEMORY;
        if (counted) kernels.add_shingles(document, steps);
        found->fingerprints[*at] =
            steps->sketch == MINHASH_1BIT ? minima_bits(&document->minima) : signs(&document->sums, steps->tie);
        const int has_several =
            steps->tokens.kind == MIXED ? document->shingle_count > 1 : document->token_count > steps->shingle;
        found->outweighed[*at] = steps->sketch == SIMHASH && has_several && is_outweighed(&document->sums);
        found->token_counts[*at] = narrowed(document->token_count);
        found->distinct_counts[*at] = steps->sketch == MINHASH_1BIT ? minima_count(&document->minima)
                                      : counted                     ? narrowed(document->shingles.count)
                                                                    : 0;
        found->unseen[*at] = unseen_share(document);
    }
    return OK;
}

Status document_tokens(Document *document, const TokenSteps *steps, const Given *given) {
    const uint8_t *text, *end;
    size_t size;
    if (given_utf8(given, &document->utf8, &text, &size) != OK) return NO_MEMORY;
    end = text + size;
    tokens_begin(&document->tokens);
    while (text < end) {
        const uint8_t *stop = end - text > PIECE_BYTES ? text + PIECE_BYTES : end;
        if (kernels.put_piece(&document->tokens, steps, &text, stop, end) != OK) return NO_MEMORY;
    }
    if (size > 0 && steps->kind != CHARACTERS) end_token(&document->tokens);
    return OK;
}
