/* Values of any length: some of them put together, and digests of them. */
#include "packed.h"

#include "text_hash.h"

#include <math.h>

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

int packed_are_plain(const uint8_t *data, uint64_t size) {
    uint8_t others = 0;
    for (uint64_t i = 0; i < size; i++) others |= (uint8_t)(data[i] - ' ') >= 0x7F - ' ' || data[i] == '\\';
    return !others;
}

/* With so many digits at least, the first of them zeros. */
static uint64_t write_digits(uint64_t number, uint64_t least, uint8_t *out) {
    uint8_t digits[MOST_DIGITS];
    uint64_t first = sizeof digits;
    while (number > 0 || sizeof digits - first < least) {
        digits[--first] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
    memcpy(out, digits + first, sizeof digits - first);
    return sizeof digits - first;
}

uint64_t packed_integer(uint64_t number, uint8_t *out) { return write_digits(number, 1, out); }

uint64_t packed_measure(double measure, uint8_t *out) {
    int exponent;
    const uint64_t mantissa = (uint64_t)ldexp(frexp(measure, &exponent), 53);
    const int bits = 53 - exponent; /* it is mantissa / 2^bits; 13 at least */
    const unsigned __int128 product = (unsigned __int128)mantissa * 10000, one = 1;
    uint64_t number = 0;
    if (bits < 120) { /* else it is less than 2^-66 */
        const unsigned __int128 rest = product & ((one << bits) - 1), half = one << (bits - 1);
        number = (uint64_t)(product >> bits);
        number += rest > half || (rest == half && (number & 1));
    }
    const uint64_t size = write_digits(number / 10000, 1, out);
    out[size] = '.';
    return size + 1 + write_digits(number % 10000, 4, out + size + 1);
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
