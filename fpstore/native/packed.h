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

/* Whether bytes are printable ASCII, and none is a backslash. */
int packed_are_plain(const uint8_t *data, uint64_t size);

#define MOST_DIGITS 20 /* what a number of the two below takes at most */

/* Write a number in decimal; how many bytes it takes. */
uint64_t packed_integer(uint64_t number, uint8_t *out);

#define MOST_MEASURE 1099511627776.0 /* 2^40 */

/* The same of one from 0 to below MOST_MEASURE, with four digits behind the point: what it is exactly is rounded, as
   Python and printf do, a half to the even digit. */
uint64_t packed_measure(double measure, uint8_t *out);

/* What tells a document from others: 16 bytes of its name and its value, for each of count of them. Two XXH3, with
   seeds that follow from seed and the name. */
void packed_digests(const uint8_t *names, const int64_t *name_offsets, const uint8_t *values,
                    const int64_t *value_offsets, uint64_t count, uint64_t seed, uint8_t *out);

#endif
