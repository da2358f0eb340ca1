/* Values of any length, one after the other: value i is data[offsets[i]] to data[offsets[i + 1]]. */
#ifndef FPSTORE_PACKED_H
#define FPSTORE_PACKED_H

#include "platform.h"

/* Put those with these indexes one after the other, in out, which has room for them. */
void packed_gather(const uint8_t *data, const int64_t *offsets, const int64_t *indexes, uint64_t count, uint8_t *out);

typedef struct {
    const uint8_t *data;
    const int64_t *offsets;
} PackedColumn;

/* The values of some columns as lines of count rows, parted by tabs, in out, which has room for one byte more for each
   value. */
void packed_lines(const PackedColumn *columns, uint64_t column_count, uint64_t count, uint8_t *out);

/* What tells a document from others: 16 bytes of its name and its value, for each of count of them. Two XXH3, with
   seeds that follow from seed and the name. */
void packed_digests(const uint8_t *names, const int64_t *name_offsets, const uint8_t *values,
                    const int64_t *value_offsets, uint64_t count, uint64_t seed, uint8_t *out);

#endif
