/* Keys of bands, and sketches. */
#include "sketches.h"

static int is_wide;

void sketches_choose(InstructionSet set) { is_wide = FPSTORE_X86 && set == SET_WIDE; }

CHOSEN_AT_LOAD(sketches_choose)

#define DEFINE_OF(width)                                                                                              \
    static void hashes_of_##width(const uint##width##_t *signatures, uint64_t count, uint64_t values, uint32_t bands, \
                                  uint32_t rows_per_band, uint64_t *hashes) {                                         \
        for (uint64_t i = 0; i < count; i++, signatures += values) {                                                  \
            const uint##width##_t *value = signatures;                                                                \
            for (uint32_t band = 0; band < bands; band++) {                                                           \
                uint64_t hash = (band + (uint64_t)1) * BAND_FACTOR;                                                   \
                for (uint32_t row = 0; row < rows_per_band; row++) {                                                  \
                    hash = (hash ^ *value++) * VALUE_FACTOR;                                                          \
                    hash ^= hash >> 32;                                                                               \
                }                                                                                                     \
                hash *= LAST_FACTOR;                                                                                  \
                *hashes++ = hash ^ hash >> 33;                                                                        \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
                                                                                                                      \
    static void each_of_##width(const uint##width##_t *signatures, uint64_t count, const Sketches *shape,             \
                                uint64_t *sketches) {                                                                 \
        const uint32_t each = 64 / shape->bits, values = shape->values;                                               \
        for (uint64_t i = 0; i < count; i++, signatures += values)                                                    \
            for (uint32_t first = 0; first < values; first += each) {                                                 \
                const uint32_t end = values - first < each ? values : first + each;                                   \
                uint64_t word = 0;                                                                                    \
                for (uint32_t value = first; value < end; value++)                                                    \
                    word |= signatures[value] * (uint64_t)BAND_FACTOR >> (64 - shape->bits)                           \
                                                                             << (value - first) * shape->bits;        \
                *sketches++ = word;                                                                                   \
            }                                                                                                         \
    }

DEFINE_OF(32)
DEFINE_OF(64)

void band_hashes_of_32(const uint32_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                       uint32_t rows_per_band, uint64_t *hashes) {
#if FPSTORE_X86
    if (is_wide && rows_per_band == 8 && bands % 8 == 0) {
        band_hashes_wide(signatures, count, values, bands, hashes);
        return;
    }
#endif
    hashes_of_32(signatures, count, values, bands, rows_per_band, hashes);
}

void band_hashes_of_64(const uint64_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                       uint32_t rows_per_band, uint64_t *hashes) {
    hashes_of_64(signatures, count, values, bands, rows_per_band, hashes);
}

void sketches_of_32(const uint32_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches) {
#if FPSTORE_X86
    if (is_wide && shape->bits <= 8) {
        sketches_wide(signatures, count, shape, sketches);
        return;
    }
#endif
    each_of_32(signatures, count, shape, sketches);
}

void sketches_of_64(const uint64_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches) {
    each_of_64(signatures, count, shape, sketches);
}

void band_keys_of_hashes(const uint64_t *hashes, uint64_t count, const Bands *bands, uint64_t *keys) {
    uint64_t shared = 0; /* bits that a size has and one less has too: none of a power of two */
    for (uint32_t band = 0; band < bands->bands; band++) shared |= bands->sizes[band] & (bands->sizes[band] - 1);
    for (uint64_t i = 0; i < count; i++)
        for (uint32_t band = 0; band < bands->bands; band++) {
            const uint64_t hash = *hashes++, size = bands->sizes[band];
            /* To divide takes as long as all else that is done with a hash. */
            *keys++ = bands->bases[band] + (shared == 0 ? hash & (size - 1) : hash % size);
        }
}
