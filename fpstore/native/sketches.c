/* Keys of bands, and sketches. */
#include "sketches.h"

/* 2^64 divided by the golden ratio, and the factors of MurmurHash3's last step. */
#define BAND_FACTOR 0x9E3779B97F4A7C15u
#define VALUE_FACTOR 0xFF51AFD7ED558CCDu
#define LAST_FACTOR 0xC4CEB9FE1A85EC53u

#define DEFINE_OF(width)                                                                                            \
    void band_hashes_of_##width(const uint##width##_t *signatures, uint64_t count, uint64_t values, uint32_t bands, \
                                uint32_t rows_per_band, uint64_t *hashes) {                                         \
        for (uint64_t i = 0; i < count; i++, signatures += values) {                                                \
            const uint##width##_t *value = signatures;                                                              \
            for (uint32_t band = 0; band < bands; band++) {                                                         \
                uint64_t hash = (band + (uint64_t)1) * BAND_FACTOR;                                                 \
                for (uint32_t row = 0; row < rows_per_band; row++) {                                                \
                    hash = (hash ^ *value++) * VALUE_FACTOR;                                                        \
                    hash ^= hash >> 32;                                                                             \
                }                                                                                                   \
                hash *= LAST_FACTOR;                                                                                \
                *hashes++ = hash ^ hash >> 33;                                                                      \
            }                                                                                                       \
        }                                                                                                           \
    }                                                                                                               \
                                                                                                                    \
    void sketches_of_##width(const uint##width##_t *signatures, uint64_t count, const Sketches *shape,              \
                             uint64_t *sketches) {                                                                  \
        const uint32_t each = 64 / shape->bits, values = shape->values;                                             \
        for (uint64_t i = 0; i < count; i++, signatures += values)                                                  \
            for (uint32_t first = 0; first < values; first += each) {                                               \
                const uint32_t end = values - first < each ? values : first + each;                                 \
                uint64_t word = 0;                                                                                  \
                for (uint32_t value = first; value < end; value++)                                                  \
                    word |= signatures[value] * (uint64_t)BAND_FACTOR >> (64 - shape->bits)                         \
                                                                             << (value - first) * shape->bits;      \
                *sketches++ = word;                                                                                 \
            }                                                                                                       \
    }

DEFINE_OF(32)
DEFINE_OF(64)

void band_keys_of_hashes(const uint64_t *hashes, uint64_t count, const Bands *bands, uint64_t *keys) {
    for (uint64_t i = 0; i < count; i++)
        for (uint32_t band = 0; band < bands->bands; band++)
            *keys++ = bands->bases[band] + *hashes++ % bands->sizes[band];
}
