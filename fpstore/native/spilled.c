/* Packing sorted keys for a spill file, and reading them back. */
#include "spilled.h"

enum { SHIFTED_BITS = 56 }; /* with up to 7 bits before it such a step fits a word; a longer one takes one of its own */

/* A group of so many keys; where it ends. */
static uint8_t *pack_group(const uint64_t *keys, unsigned count, uint8_t *out) {
    uint64_t any = 0, pending = 0;
    for (unsigned i = 1; i < count; i++) any |= keys[i] - keys[i - 1];
    const unsigned width = bit_length(any) <= SHIFTED_BITS ? bit_length(any) : 64;
    out[0] = (uint8_t)(count - 1);
    out[1] = (uint8_t)width;
    store64(out + 2, keys[0]);
    out += SPILLED_HEAD;
    if (width == 64) {
        for (unsigned i = 1; i < count; i++, out += 8) store64(out, keys[i] - keys[i - 1]);
        return out;
    }
    unsigned fill = 0; /* bits pending, of a byte that has begun */
    for (unsigned i = 1; i < count; i++) {
        pending |= (keys[i] - keys[i - 1]) << fill;
        store64(out, pending);
        fill += width;
        out += fill / 8;
        pending >>= fill & ~7U;
        fill &= 7;
    }
    return out + (fill > 0);
}

uint64_t spilled_pack(const uint64_t *keys, uint64_t count, unsigned group, uint8_t *out) {
    uint8_t *at = out;
    for (uint64_t first = 0; first < count; first += group)
        at = pack_group(keys + first, count - first < group ? (unsigned)(count - first) : group, at);
    return (uint64_t)(at - out);
}

uint64_t spilled_unpack(const uint8_t *data, uint64_t bytes, uint64_t *keys, uint64_t room, uint64_t *used) {
    uint64_t at = 0, made = 0;
    while (bytes - at >= SPILLED_HEAD) {
        const unsigned count = data[at] + 1U, width = data[at + 1];
        if (count > SPILLED_GROUP || (width > SHIFTED_BITS && width != 64) || count > room - made) break;
        if (((count - 1) * width + 7) / 8 > bytes - at - SPILLED_HEAD) break;
        const uint64_t mask = low_bits(width);
        uint64_t key = load64(data + at + 2);
        keys[made] = key;
        at += SPILLED_HEAD;
        for (unsigned i = 1, bit = 0; i < count; i++, bit += width)
            keys[made + i] = key += (load64(data + at + bit / 8) >> bit % 8) & mask;
        at += ((count - 1) * width + 7) / 8;
        made += count;
    }
    *used = at;
    return made;
}
