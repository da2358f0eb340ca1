/* From tokens to a fingerprint: shingles, their hashes, and their sketch: the sign of the sums of their weights, bits
   of the smallest values, or a signature of these.

   All sums are of integers, so no order of adding changes them: weights are in units of 2^-16. */
#ifndef FPSTORE_TEXT_SIMHASH_H
#define FPSTORE_TEXT_SIMHASH_H

#include "text_digest.h"
#include "text_hash.h"
#include "text_given.h"
#include "text_minhash.h"
#include "text_signature.h"
#include "text_tokens.h"

#define WEIGHT_ONE 65536
#define FEW_CELLS 256
#define MANY_CELLS 65536
#define CAP 4
#define SHINGLES_AT_ONCE 1020 /* four times what a byte can count */
#define COUNTED_AT_ONCE 255   /* what a byte can count */

typedef enum { FREQUENCY, PRESENCE, CAPPED, LOGARITHM, IDF } WeightKind;
typedef enum { SIMHASH, MINHASH_1BIT, MINHASH } SketchKind;
typedef enum {
    XXH3,
    XXH3_SEEDED,
    XXH64,
    XXH64_SEEDED,
    MURMUR3,
    MD5,
    MD5_HEAD,
    SHA1,
    SHA256,
    BLAKE2B,
    FNV1,
    FNV1A,
    FXHASH
} HashKind;

/* Of a shingle: its hash and how often it occurs, or in an idf model its weight. A free one has the value 0. */
typedef struct {
    uint64_t hash;
    uint64_t value;
} Cell;

typedef struct {
    Cell *cells;
    size_t room;  /* cells there are */
    size_t size;  /* cells in use for this document, a power of two */
    size_t count; /* of them taken */
} CellTable;

typedef struct {
    TokenSteps tokens;
    unsigned shingle;
    unsigned dense_shingle; /* of MIXED tokens, where a shingle begins with one that no space follows */
    HashKind hash;
    uint64_t seed; /* of the hashes that take one; XXH3 and XXH64 have 0 */
    int tie;       /* 1 where a bit is set whose two sides weigh the same */
    WeightKind weights;
    const CellTable *idf; /* values one more than the weight */
    uint64_t idf_unseen;
    SketchKind sketch;
    unsigned words;            /* of a fingerprint, 1..MAX_WORDS */
    Permutations permutations; /* of MINHASH_1BIT */
    Signer signer;             /* of MINHASH */
} Steps;

typedef struct {
    int64_t ones[MAX_SKETCH_BITS]; /* the weight of the shingles of which word_of has the bit, word by word */
    int64_t total;
} Sums;

/* The hashes of the shingles of documents. */
typedef struct {
    uint64_t *hashes;    /* there is room for one more than there are */
    uint64_t used, room; /* room is what there may be at first, as long as there is none */
    uint64_t *parted;    /* room to put those of one document in order */
    uint64_t parted_room;
} Kept;

typedef struct {
    Utf8 utf8;
    Tokens tokens;
    uint64_t hashes[SHINGLES_AT_ONCE]; /* of those that are not kept */
    CellTable shingles;
    Sums sums;
    Minima minima;
    Signature signature;
    uint64_t token_count, shingle_count; /* the second of mixed tokens */
    uint64_t written;                    /* bytes of all tokens, with the spaces that follow words */
    int keeps;                           /* whether the hashes are kept */
    Kept kept;
} Document;

/* What becomes of the hashes of a text that is read: part of a sketch, cells of a table that counts them, or nothing
   but those that the document keeps. */
typedef enum { SKETCHED, COUNTED, LISTED } Reading;

/* What is known of texts, of each in its place. */
typedef struct {
    uint64_t *fingerprints; /* of each its words, the most significant first */
    uint32_t *token_counts;
    uint8_t *outweighed;       /* of simhashes: whether a shingle that is not the only one outweighs the rest */
    uint32_t *distinct_counts; /* of shingles: of 1-bit MinHash as its minima tell; 0 where FREQUENCY counts none */
    double *unseen; /* the share of Tokens.signs in them and the tokens; these with the spaces behind words */
    uint64_t *ends; /* where the hashes of each, as they come, end in Document.kept; NULL: they are not kept */
} Measures;

/* Odd, and not known outside the process: whoever writes a document cannot aim its shingles at one cell. */
extern HIDDEN uint64_t cell_secret;

ALWAYS_INLINE Cell *shingle_cell(const CellTable *table, uint64_t hash) {
    const size_t mask = table->size - 1;
    size_t at = (size_t)((hash * cell_secret) >> 32) & mask;
    while (table->cells[at].value != 0 && table->cells[at].hash != hash) at = (at + 1) & mask;
    return table->cells + at;
}

/* Make the table empty, with so many cells, a power of two. */
Status cells_clear(CellTable *table, size_t size);

/* Cells to begin a document with: about what its words need. */
ALWAYS_INLINE size_t cells_for(size_t bytes) {
    size_t size = FEW_CELLS;
    while (size < MANY_CELLS && 2 * size < bytes) size *= 2;
    return size;
}

/* Count hashes in a table, which grows as they need. */
Status count_shingles(CellTable *table, const uint64_t *hashes, size_t count);

/* Where the next hashes of a document are put, up to SHINGLES_AT_ONCE: where they are kept, if they are, so that they
   need not be copied. NULL without memory. */
uint64_t *place_of_hashes(Document *document, size_t count);

/* The weight of a shingle that occurs so often, in units of 2^-16. */
int64_t weight_of(const Steps *steps, uint64_t hash, uint64_t count);

ALWAYS_INLINE void sums_clear(Sums *sums, unsigned words) {
    memset(sums->ones, 0, words * WORD_BITS * sizeof *sums->ones);
    sums->total = 0;
}

ALWAYS_INLINE void add_weighted(Sums *sums, uint64_t hash, int64_t weight, unsigned words) {
    for (unsigned word = 0; word < words; word++) {
        const uint64_t own = word_of(hash, word);
        int64_t *ones = sums->ones + WORD_BITS * word;
        for (int bit = 0; bit < WORD_BITS; bit++) ones[bit] += weight & -(int64_t)(own >> bit & 1);
    }
    sums->total += weight;
}

/* A word of a simhash: a bit is set where what has it weighs more than what has not, and where tie is 1 as much. */
uint64_t signs(const Sums *sums, int tie, unsigned word);

/* Whether one shingle outweighs the rest: more than three times the root of the sum of the squares of the others, with
   which nearly every bit is its own. As the sums show it, if there was more than one: beside one such shingle all
   margins |ones - zeros| are nearly its weight, so the square of their mean is over 9 times their variance. Without one
   it is about 1.75 times, as of the size of any normal number. */
int is_outweighed(const Sums *sums, unsigned words);

uint64_t hash_slice(const Steps *steps, const uint8_t *at, size_t size);

void document_free(Document *document);

/* The shingles of documents: those of document i end at ends[i], the first begin at 0; hashes increase. No weights
   where each weighs 1, by PRESENCE. */
typedef struct {
    uint64_t *hashes;
    double *weights;
    uint64_t *ends;
    uint64_t used, room;   /* of hashes, and of weights where there are some */
    uint64_t count, ended; /* documents, and room for them */
    Cell *sorting;
    uint64_t sorting_room;
} Shingled;

/* Append the distinct shingles of count texts, and what each weighs; stops at the first that fails and leaves its
   number in *at. */
Status documents_shingles(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                          Shingled *shingled);

/* The same of hashes that were kept, each document's given as its bytes. */
Status hashes_shingles(const Steps *steps, const Given *kept, size_t count, size_t *at, Shingled *shingled);

void shingled_free(Shingled *shingled);

/* What is known of count texts; stops at the first that fails and leaves its number in *at. */
Status documents_measure(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                         const Measures *found);

/* The signatures of count texts, one after the other, and how many tokens each has; stops as documents_measure does.
   ends: as of Measures, of distinct hashes in order. */
Status documents_sign(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                      void *values, uint32_t *token_counts, uint64_t *ends);

/* The tokens of a whole document, all in document->tokens. */
Status document_tokens(Document *document, const TokenSteps *steps, const Given *given);

void text_choose(InstructionSet set);

#define TEXT_KERNELS(set)                                                                    \
    Status document_read_##set(Document *, const Steps *, Reading, const uint8_t *, size_t); \
    void add_shingles_##set(Document *, const Steps *);                                      \
    uint64_t minima_bits_##set(const Minima *, unsigned);                                    \
    Status put_piece_##set(Tokens *, const TokenSteps *, const uint8_t **, const uint8_t *, const uint8_t *);
TEXT_KERNELS(portable)
TEXT_KERNELS(fast)
TEXT_KERNELS(wide)
#undef TEXT_KERNELS

#endif
