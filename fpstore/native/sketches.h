/* What is made of a MinHash signature: the keys of its bands, and a sketch, some bits of each value; and how many
   values of two sketches differ. docs/format.md, section 9; what is computed here never changes for a store that is
   there. */
#ifndef FPSTORE_SKETCHES_H
#define FPSTORE_SKETCHES_H

#include "platform.h"

/* 2^64 divided by the golden ratio, and the factors of MurmurHash3's last step. */
#define BAND_FACTOR 0x9E3779B97F4A7C15u
#define VALUE_FACTOR 0xFF51AFD7ED558CCDu
#define LAST_FACTOR 0xC4CEB9FE1A85EC53u

/* Each band has its own range of keys. */
typedef struct {
    uint32_t bands;
    const uint64_t *bases, *sizes; /* of each band its least key, and how many keys it may have */
} Bands;

/* The keys of these hashes of bands; hashes and keys may be one array. */
void band_keys_of_hashes(const uint64_t *hashes, uint64_t count, const Bands *bands, uint64_t *keys);

/* bits: of each value, a power of two up to 32; words: of a sketch. */
typedef struct {
    uint32_t values, bits, words;
    const float *estimates; /* [values + 1]: the similarity of two of which so many values differ */
} Sketches;

/* hashes[count * bands] of signatures of `values` each, bands * rows_per_band or more. */
void band_hashes_of_32(const uint32_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                       uint32_t rows_per_band, uint64_t *hashes);
void band_hashes_of_64(const uint64_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                       uint32_t rows_per_band, uint64_t *hashes);

/* sketches[count * words] of signatures of that many values. */
void sketches_of_32(const uint32_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches);
void sketches_of_64(const uint64_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches);

/* For AVX-512: the same of signatures as above. bands of 8 rows, a multiple of 8 bands; sketches of 8 bits at most. */
void band_hashes_wide(const uint32_t *signatures, uint64_t count, uint64_t values, uint32_t bands, uint64_t *hashes);
void sketches_wide(const uint32_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches);

void sketches_choose(InstructionSet set);

/* The estimated similarity of a sketch and the bytes of another. */
ALWAYS_INLINE float sketches_alike(const Sketches *shape, const uint64_t *one, const uint8_t *other) {
    const uint64_t lowest = ~(uint64_t)0 / low_bits(shape->bits); /* of each value */
    uint64_t differing = 0;
    for (uint32_t word = 0; word < shape->words; word++) {
        uint64_t apart = one[word] ^ load64(other + 8 * word);
        for (uint32_t shift = 1; shift < shape->bits; shift *= 2) apart |= apart >> shift;
        differing += (uint64_t)__builtin_popcountll(apart & lowest);
    }
    /* A stranger's sketch may differ where there is no value. */
    return shape->estimates[differing < shape->values ? differing : shape->values];
}

#endif
