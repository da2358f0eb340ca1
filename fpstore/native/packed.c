/* Values of any length: some of them put together, and digests of them. */
#include "packed.h"

#include "text_hash.h"

void packed_gather(const uint8_t *data, const int64_t *offsets, const int64_t *indexes, uint64_t count, uint8_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        const int64_t start = offsets[indexes[i]];
        const size_t size = (size_t)(offsets[indexes[i] + 1] - start);
        if (size) memcpy(out, data + start, size);
        out += size;
    }
}

void packed_lines(const PackedColumn *columns, uint64_t column_count, uint64_t count, uint8_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t j = 0; j < column_count; j++) {
            const int64_t start = columns[j].offsets[i];
            const size_t size = (size_t)(columns[j].offsets[i + 1] - start);
            if (size) memcpy(out, columns[j].data + start, size);
            out += size;
            *out++ = j + 1 < column_count ? '\t' : '\n';
        }
    }
}

void packed_digests(const uint8_t *names, const int64_t *name_offsets, const uint8_t *values,
                    const int64_t *value_offsets, uint64_t count, uint64_t seed, uint8_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *name = names + name_offsets[i], *value = values + value_offsets[i];
        const size_t name_size = (size_t)(name_offsets[i + 1] - name_offsets[i]);
        const size_t size = (size_t)(value_offsets[i + 1] - value_offsets[i]);
        const uint64_t own = xxh3_seeded(name, name_size, seed);
        store64(out + 16 * i, xxh3_seeded(value, size, own));
        store64(out + 16 * i + 8, xxh3_seeded(value, size, ~own));
    }
}
