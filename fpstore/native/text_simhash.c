/* What a document's shingles weigh, its fingerprint, and the choice of how texts are read. */
#include "text_simhash.h"

#include "distinct.h"

#include <math.h>

uint64_t cell_secret = P64_1;

#define FEW_LOGARITHMS 256
static int64_t logarithms[FEW_LOGARITHMS];

static int64_t logarithm(uint64_t count) { return (int64_t)floor(WEIGHT_ONE * (1 + log((double)count)) + 0.5); }

typedef struct {
    Status (*read)(Document *, const Steps *, Reading, const uint8_t *, size_t);
    void (*add_shingles)(Document *, const Steps *);
    uint64_t (*minima_bits)(const Minima *, unsigned);
    Status (*put_piece)(Tokens *, const TokenSteps *, const uint8_t **, const uint8_t *, const uint8_t *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { document_read_##set, add_shingles_##set, minima_bits_##set, put_piece_##set }

static Kernels kernels = KERNELS_OF(portable);

void text_choose(InstructionSet set) {
    for (int count = 1; count < FEW_LOGARITHMS; count++) logarithms[count] = logarithm(count);
    kernels = NEWEST_KERNELS(set);
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

uint64_t signs(const Sums *sums, int tie, unsigned word) {
    const int64_t *ones = sums->ones + WORD_BITS * word;
    uint64_t bits = 0;
    for (int bit = 0; bit < WORD_BITS; bit++) bits |= (uint64_t)(ones[bit] + tie > sums->total - ones[bit]) << bit;
    return bits;
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
    case SHA1: return sha1_head(at, size);
    case SHA256: return sha256_tail(at, size);
    case BLAKE2B: return blake2b_8(at, size);
    case FNV1: return fnv1(at, size);
    case FXHASH: return fxhash(at, size);
    default: return fnv1a(at, size);
    }
}

void document_free(Document *document) {
    free(document->utf8.bytes);
    tokens_free(&document->tokens);
    free(document->shingles.cells);
    free(document->kept.hashes);
    free(document->kept.parted);
}

/* Of so many bytes of text an English or a Chinese one has no more shingles. */
#define BYTES_OF_SHINGLE 3

/* Keep the hashes of texts from now on, or not. */
static void begin_to_keep(Document *document, int keeps, const Given *texts, size_t count) {
    Kept *kept = &document->kept;
    document->keeps = keeps;
    kept->used = 0;
    if (!keeps || kept->hashes != NULL) return;
    kept->room = SHINGLES_AT_ONCE + 1;
    for (size_t i = 0; i < count; i++)
        kept->room += texts[i].size * (texts[i].width + (texts[i].width == 0)) / BYTES_OF_SHINGLE;
}

uint64_t *place_of_hashes(Document *document, size_t count) {
    Kept *kept = &document->kept;
    if (!document->keeps) return document->hashes;
    if (kept->hashes == NULL || count >= kept->room - kept->used) {
        const uint64_t least = 2 * (kept->used + count) + 1;
        const uint64_t room = kept->hashes == NULL && kept->room > least ? kept->room : least;
        uint64_t *hashes = realloc(kept->hashes, room * sizeof *hashes);
        if (hashes == NULL) return NULL;
        kept->hashes = hashes;
        kept->room = room;
    }
    return kept->hashes + kept->used;
}

int is_outweighed(const Sums *sums, unsigned words) {
    const unsigned bits = WORD_BITS * words;
    double sum = 0, squares = 0;
    for (unsigned bit = 0; bit < bits; bit++) {
        const double margin = fabs(2.0 * (double)sums->ones[bit] - (double)sums->total);
        sum += margin;
        squares += margin * margin;
    }
    return 10 * sum * sum > 9 * bits * squares;
}

static uint32_t narrowed(uint64_t count) { return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX; }

static double unseen_share(const Document *document) {
    const uint64_t signs = document->tokens.signs;
    return signs == 0 ? 0 : (double)signs / (double)(signs + document->written);
}

static int compare_cells(const void *one, const void *other) {
    const uint64_t x = ((const Cell *)one)->hash, y = ((const Cell *)other)->hash;
    return (x > y) - (x < y);
}

#define FEW_BUCKET_BITS 8
#define MOST_BUCKET_BITS 14
#define SMALL_BUCKET 24

/* Put the cells of a table that are taken into sorted, by their hashes: first by the top bits, which as a rule leave
   few together. taken: room for one more than there are. */
static void cells_sorted(const CellTable *table, Cell *sorted, Cell *taken) {
    uint32_t starts[(1 << MOST_BUCKET_BITS) + 1];
    unsigned bits = bit_length(table->count);
    bits = bits < FEW_BUCKET_BITS ? FEW_BUCKET_BITS : bits > MOST_BUCKET_BITS ? MOST_BUCKET_BITS : bits;
    const size_t buckets = (size_t)1 << bits, count = table->count;
    size_t found = 0;
    for (size_t i = 0; i < table->size; i++) { /* without a branch, which nobody could foretell */
        taken[found] = table->cells[i];
        found += table->cells[i].value != 0;
    }
    memset(starts, 0, (buckets + 1) * sizeof *starts);
    for (size_t i = 0; i < count; i++) starts[(taken[i].hash >> (64 - bits)) + 1]++;
    for (size_t bucket = 0; bucket < buckets; bucket++) starts[bucket + 1] += starts[bucket];
    for (size_t i = 0; i < count; i++) sorted[starts[taken[i].hash >> (64 - bits)]++] = taken[i];
    /* Each start is the end of its bucket by now. */
    for (size_t bucket = 0, first = 0; bucket < buckets; first = starts[bucket++]) {
        const size_t end = starts[bucket];
        if (end - first > SMALL_BUCKET) {
            qsort(sorted + first, end - first, sizeof *sorted, compare_cells);
            continue;
        }
        for (size_t i = first + 1; i < end; i++) {
            const Cell cell = sorted[i];
            size_t at = i;
            for (; at > first && sorted[at - 1].hash > cell.hash; at--) sorted[at] = sorted[at - 1];
            sorted[at] = cell;
        }
    }
}

static Status shingled_room(Shingled *shingled, uint64_t count, int weighs) {
    if (count > UINT32_MAX) return NO_MEMORY; /* of one document */
    if (2 * count + 1 > shingled->sorting_room) {
        free(shingled->sorting);
        shingled->sorting_room = 0;
        shingled->sorting = malloc((4 * count + 1) * sizeof *shingled->sorting);
        if (shingled->sorting == NULL) return NO_MEMORY;
        shingled->sorting_room = 4 * count + 1;
    }
    if (shingled->count == shingled->ended) {
        const uint64_t ended = 2 * shingled->ended + 64;
        uint64_t *ends = realloc(shingled->ends, ended * sizeof *ends);
        if (ends == NULL) return NO_MEMORY;
        shingled->ends = ends;
        shingled->ended = ended;
    }
    if (count > shingled->room - shingled->used) {
        const uint64_t room = 2 * (shingled->used + count);
        uint64_t *hashes = realloc(shingled->hashes, room * sizeof *hashes);
        if (hashes == NULL) return NO_MEMORY;
        shingled->hashes = hashes;
        if (weighs) {
            double *weights = realloc(shingled->weights, room * sizeof *weights);
            if (weights == NULL) return NO_MEMORY;
            shingled->weights = weights;
        }
        shingled->room = room;
    }
    return OK;
}

/* Append the shingles that a document has counted. */
static Status append_counted(const Steps *steps, const CellTable *table, Shingled *shingled) {
    const int weighs = steps->weights != PRESENCE;
    if (shingled_room(shingled, table->count, weighs) != OK) return NO_MEMORY;
    cells_sorted(table, shingled->sorting, shingled->sorting + table->count);
    for (size_t i = 0; i < table->count; i++) {
        const Cell *cell = shingled->sorting + i;
        shingled->hashes[shingled->used + i] = cell->hash;
        if (!weighs) continue;
        shingled->weights[shingled->used + i] = (double)weight_of(steps, cell->hash, cell->value) / WEIGHT_ONE;
    }
    shingled->used += table->count;
    shingled->ends[shingled->count++] = shingled->used;
    return OK;
}

/* Append the shingles of a document that has these hashes, as they come. */
static Status append_listed(const Steps *steps, const uint64_t *hashes, size_t size, Shingled *shingled) {
    const int weighs = steps->weights != PRESENCE;
    if (shingled_room(shingled, size, weighs) != OK) return NO_MEMORY;
    uint64_t *distinct = shingled->hashes + shingled->used, *parted = (uint64_t *)shingled->sorting;
    uint32_t *counts = weighs ? (uint32_t *)(parted + size) : NULL;
    const size_t found = hashes_distinct(hashes, size, parted, distinct, counts);
    for (size_t i = 0; weighs && i < found; i++)
        shingled->weights[shingled->used + i] = (double)weight_of(steps, distinct[i], counts[i]) / WEIGHT_ONE;
    shingled->used += found;
    shingled->ends[shingled->count++] = shingled->used;
    return OK;
}

/* Of so many bytes of text all hashes are listed, which takes less time than to count them, and 24 bytes for each; of
   more, memory is bounded by those that differ. */
#define LISTED_BYTES (1 << 20)

Status documents_shingles(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                          Shingled *shingled) {
    for (*at = 0; *at < count; ++*at) {
        const uint8_t *text;
        size_t size;
        if (given_utf8(texts + *at, &document->utf8, &text, &size) != OK) return NO_MEMORY;
        const Reading reading = size <= LISTED_BYTES ? LISTED : COUNTED;
        document->kept.used = 0;
        document->keeps = reading == LISTED;
        const Status status = kernels.read(document, steps, reading, text, size);
        document->keeps = 0;
        if (status != OK) return NO_MEMORY;
        if (reading == LISTED ? append_listed(steps, document->kept.hashes, document->kept.used, shingled) != OK
                              : append_counted(steps, &document->shingles, shingled) != OK)
            return NO_MEMORY;
    }
    return OK;
}

Status hashes_shingles(const Steps *steps, const Given *kept, size_t count, size_t *at, Shingled *shingled) {
    for (*at = 0; *at < count; ++*at)
        if (append_listed(steps, kept[*at].data, kept[*at].size / sizeof(uint64_t), shingled) != OK) return NO_MEMORY;
    return OK;
}

void shingled_free(Shingled *shingled) {
    free(shingled->hashes);
    free(shingled->weights);
    free(shingled->ends);
    free(shingled->sorting);
    memset(shingled, 0, sizeof *shingled);
}

Status documents_measure(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                         const Measures *found) {
    const int counted = steps->sketch == SIMHASH && steps->weights != FREQUENCY;
    begin_to_keep(document, found->ends != NULL, texts, count);
    for (*at = 0; *at < count; ++*at) {
        const uint8_t *text;
        size_t size;
        if (given_utf8(texts + *at, &document->utf8, &text, &size) != OK) return NO_MEMORY;
        if (kernels.read(document, steps, counted ? COUNTED : SKETCHED, text, size) != OK) return NO_MEMORY;
        if (counted) kernels.add_shingles(document, steps);
        for (unsigned word = 0; word < steps->words; word++)
            found->fingerprints[(*at + 1) * steps->words - 1 - word] =
                steps->sketch == MINHASH_1BIT ? kernels.minima_bits(&document->minima, word)
                                              : signs(&document->sums, steps->tie, word);
        const int has_several =
            steps->tokens.kind == MIXED ? document->shingle_count > 1 : document->token_count > steps->shingle;
        found->outweighed[*at] =
            steps->sketch == SIMHASH && has_several && is_outweighed(&document->sums, steps->words);
        found->token_counts[*at] = narrowed(document->token_count);
        found->distinct_counts[*at] = steps->sketch == MINHASH_1BIT ? minima_count(&document->minima, steps->words)
                                      : counted                     ? narrowed(document->shingles.count)
                                                                    : 0;
        found->unseen[*at] = unseen_share(document);
        if (found->ends != NULL) found->ends[*at] = document->kept.used;
    }
    document->keeps = 0;
    return OK;
}

/* Of the hashes that were kept of a document, from the first on, leave the distinct ones, in order. */
static Status leave_distinct(Kept *kept, uint64_t first) {
    const uint64_t count = kept->used - first;
    if (count > UINT32_MAX) return NO_MEMORY;
    if (count > kept->parted_room) {
        free(kept->parted);
        kept->parted_room = 0;
        kept->parted = malloc(2 * count * sizeof *kept->parted);
        if (kept->parted == NULL) return NO_MEMORY;
        kept->parted_room = 2 * count;
    }
    uint64_t *own = kept->hashes + first;
    kept->used = first + hashes_distinct(own, count, kept->parted, own, NULL);
    return OK;
}

Status documents_sign(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                      void *values, uint32_t *token_counts, uint64_t *ends) {
    uint8_t *row = values;
    begin_to_keep(document, ends != NULL, texts, count);
    for (*at = 0; *at < count; ++*at) {
        const uint8_t *text;
        size_t size;
        if (given_utf8(texts + *at, &document->utf8, &text, &size) != OK) return NO_MEMORY;
        const uint64_t first = document->kept.used;
        signature_begin(&document->signature, &steps->signer);
        if (kernels.read(document, steps, SKETCHED, text, size) != OK) return NO_MEMORY;
        signature_end(&document->signature, &steps->signer, row);
        token_counts[*at] = narrowed(document->token_count);
        if (ends != NULL) {
            if (leave_distinct(&document->kept, first) != OK) return NO_MEMORY;
            ends[*at] = document->kept.used;
        }
        row += steps->signer.values * value_bytes(&steps->signer);
    }
    document->keeps = 0;
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
